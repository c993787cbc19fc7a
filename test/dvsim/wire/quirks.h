/*
 * quirks.h
 *		Differences of some environments from the documentation.
 *
 * Without a quirk, the simulator behaves as the sources describe.  A quirk
 * represents a point on which they disagree, or the behavior of some
 * environments.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_QUIRKS_H
#define SIM_QUIRKS_H

#include <stdbool.h>
#include <stdio.h>

#include "sim.h"

enum sim_quirk
{
	SIM_QUIRK_BATCH_250,
	SIM_QUIRK_BULK_DISABLED,
	SIM_QUIRK_FAILING_TOTAL_COUNT,
	SIM_QUIRK_LAGGING_FULL_TEXT,
	SIM_QUIRK_LAGGING_JOBS,
	SIM_QUIRK_LIMITED_READ,
	SIM_QUIRK_LINK_NAMES,
	SIM_QUIRK_NO_APPLY_FUNCTIONS,
	SIM_QUIRK_NO_COOKIES,
	SIM_QUIRK_NO_IN,
	SIM_QUIRK_NO_METADATA_CHANGES,
	SIM_QUIRK_PROPERTY_VALUES_100,
	SIM_QUIRKS
};

bool		sim_quirk(const struct sim *sim, enum sim_quirk quirk);

/* false if no quirk has that name */
bool		sim_quirk_set(struct sim *sim, const char *name);
void		sim_quirks_clear(struct sim *sim);

/* prints one line for each quirk, and the names of those that are on as a JSON array */
void		sim_quirks_help(FILE *out);
void		sim_quirks_print(const struct sim *sim, struct sim_buf *out);

/*
 * Writes the beginning of "the row is in the full-text index and (", if the
 * index may lack rows: those written in the last seconds of virtual time.
 */
bool		sim_quirk_full_text(const struct sim *sim, struct sim_table *table, const char *alias,
								struct sim_buf *sql);

#endif

/*
 * seed_lookups.h
 *		How the lookups of seeded rows are filled, if the request specifies
 *		it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_SEED_LOOKUPS_H
#define SIM_SEED_LOOKUPS_H

#include <stdint.h>

#include "store/mem.h"
#include "store/schema.h"

struct json_object;

struct sim_seed_lookup
{
	struct sim_column *column;
	struct sim_table *target;
	double		filled;			/* how many of the rows have a value: 0 to 1 */
	double		skew;
};

struct sim_seed_lookups
{
	struct sim_seed_lookup *items;
	int			n;
};

/*
 * {"lookups": {"column": {"table", "filled", "skew"}, …}}; NULL, or the error (arena or static)
 */
const char *sim_seed_lookups_read(struct sim_arena *arena, struct sim_table *table,
								  struct json_object *body, struct sim_seed_lookups *lookups);

/*
 * Returns which of n rows a lookup refers to: the i-th about 1/i^skew times as
 * often as the first.  "even" is a random number, 0 to 1 without 1.
 */
int64_t		sim_seed_pick(double skew, int64_t n, double even);

#endif

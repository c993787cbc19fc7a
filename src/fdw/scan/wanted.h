/*
 * wanted.h
 *		How many rows of a scan the running statement will probably want, and
 *		whether it may want them again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_WANTED_H
#define DV_WANTED_H

#include "nodes/execnodes.h"

/*
 * Returns how many rows the nodes above a scan will ask it for if the rows are
 * as many as they need, or -1 if they will probably read all.  This is no
 * promise: any number of rows may be wanted in the end.
 */
extern double dv_wanted_rows(const PlanState * scan);

/* Returns true if the scan may be run several times. */
extern bool dv_wanted_again(const PlanState * scan);

#endif							/* DV_WANTED_H */

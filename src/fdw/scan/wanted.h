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

typedef struct dv_wanted
{
	double		rows;			/* -1: probably all */
	bool		again;			/* the node may be run several times */
} dv_wanted;

/*
 * Returns what the nodes above a scan, or above a join of lookup.h, want of it.  The
 * number assumes that the rows are as useful as expected: more may be wanted in the end.
 */
extern dv_wanted dv_wanted_of(const PlanState * scan);

#endif							/* DV_WANTED_H */

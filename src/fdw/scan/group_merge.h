/*
 * group_merge.h
 *		Groups that are put together from parts.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_GROUP_MERGE_H
#define DV_GROUP_MERGE_H

#include "access/tupdesc.h"

#include "fdw/plan/read_plan.h"

/*
 * A column of the scan tuple within one part: a key, an extreme, a sum, the number of
 * rows or values, or one of the values to be counted once.
 */
typedef struct dv_group_value
{
	Datum		value;			/* a sum is a numeric */
	bool		isnull;
	int64		count;			/* of rows or values; for an average, those of the sum */
} dv_group_value;

typedef struct dv_groups dv_groups;

/*
 * Begins without groups.  "items" are the columns of the scan tuple, which "desc"
 * describes; "types" has the type of each item's column, "scales" the decimal places
 * of sums.
 */
extern dv_groups *dv_groups_begin(const List *items, TupleDesc desc, const Oid *types,
								  const int *scales);

/* Adds a part of a group: one value for each item.  The values are copied. */
extern void dv_groups_add(dv_groups *groups, const dv_group_value *values);

/*
 * Returns the next complete group, or false at the end.  Without keys, there is one
 * group of all rows, even if there are none.  The values live as long as the groups.
 */
extern bool dv_groups_next(dv_groups *groups, Datum *values, bool *isnull);

#endif							/* DV_GROUP_MERGE_H */

/*
 * id_range.h
 *		Queries for the rows of a range of ids.
 *
 * Large tables are read in ranges of ids, their groups are formed in such parts, and
 * ANALYZE samples them.  Each row comes exactly once only if the service compares ids
 * in our order (dataverse/id_order.h).  This is not taken for granted: before a
 * session divides the rows of a table for the first time, it requests a row by its id
 * and by comparisons that are true only in this order.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ID_RANGE_H
#define DV_ID_RANGE_H

#include "dataverse/id_order.h"
#include "dataverse/query.h"
#include "dataverse/value.h"

typedef struct dv_id_range
{
	bool		has_low;
	bool		has_high;
	dv_ordered_id low;			/* the first id that belongs to it, */
	dv_ordered_id high;			/* and the first one that does not */
} dv_id_range;

/* Ends the range before an id, and returns the rest of it. */
extern dv_id_range dv_id_range_cut(dv_id_range *range, const dv_ordered_id *cut);

/* Reads an id that a row contains; returns false if there is none. */
extern bool dv_id_of_value(const dv_value *value, dv_ordered_id *id);

/* Returns a comparison of a column with an id. */
extern dv_filter *dv_id_filter(dv_filter_kind kind, const dv_column *column, const dv_ordered_id *id);

/*
 * Returns a filter for rows that match another one (NULL: all rows) and are in the
 * range; NULL if these are all rows.  "from" is DV_GE, or DV_GT to leave out the row
 * with the lowest id.
 */
extern dv_filter *dv_id_range_filter(const dv_filter *filter, const dv_column *column,
									 dv_filter_kind from, const dv_id_range *range);

/* Has the query return nothing but the first id of its rows, or the last one. */
extern void dv_id_ask_end(dv_query *query, bool last);

/* Has it return nothing but this id, and only if ids are compared in our order. */
extern void dv_id_ask_trial(dv_query *query, const dv_ordered_id *id);

#endif							/* DV_ID_RANGE_H */

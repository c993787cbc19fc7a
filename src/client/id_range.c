/*
 * id_range.c
 *		Queries for the rows of a range of ids.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "nodes/pg_list.h"

#include "client/id_range.h"
#include "dataverse/address.h"

dv_id_range
dv_id_range_cut(dv_id_range *range, const dv_ordered_id *cut)
{
	dv_id_range rest = *range;

	range->has_high = rest.has_low = true;
	range->high = rest.low = *cut;
	return rest;
}

bool
dv_id_of_value(const dv_value *value, dv_ordered_id *id)
{
	uint8		uuid[DV_ID_LEN];

	if (dv_value_uuid(value, uuid) != DV_VALUE_OK)
		return false;
	dv_id_order(uuid, id);
	return true;
}

dv_filter *
dv_id_filter(dv_filter_kind kind, const dv_column *column, const dv_ordered_id *id)
{
	uint8		uuid[DV_ID_LEN];

	dv_id_unorder(id, uuid);
	return dv_filter_of(kind, column, dv_id_text(uuid));
}

dv_filter *
dv_id_range_filter(const dv_filter *filter, const dv_column *column, dv_filter_kind from,
				   const dv_id_range *range)
{
	List	   *parts = filter != NULL ? list_make1(unconstify(dv_filter *, filter)) : NIL;

	if (range->has_low)
		parts = lappend(parts, dv_id_filter(from, column, &range->low));
	if (range->has_high)
		parts = lappend(parts, dv_id_filter(DV_LT, column, &range->high));
	return parts != NIL ? dv_filter_join(DV_AND, parts) : NULL;
}

/* Has the query return nothing but ids. */
static void
ask_for_ids(dv_query *query)
{
	query->ncolumns = 0;
	query->noutputs = 0;
	query->all_columns = false;
	query->norders = 0;
}

void
dv_id_ask_end(dv_query *query, bool last)
{
	dv_order   *order = palloc0(sizeof(*order));

	ask_for_ids(query);
	order->column = query->primary_id;
	order->descending = last;
	query->orders = order;
	query->norders = 1;
	query->by_id = true;
	query->top = 1;
}

void
dv_id_ask_trial(dv_query *query, const dv_ordered_id *id)
{
	dv_id_trial trials[DV_ID_TRIALS];
	int			n = dv_id_trials(id, trials);
	List	   *parts = list_make1(dv_id_filter(DV_EQ, query->primary_id, id));
	int			i;

	for (i = 0; i < n; i++)
		parts = lappend(parts, dv_id_filter(trials[i].greater ? DV_LT : DV_GE, query->primary_id,
											&trials[i].id));
	ask_for_ids(query);
	query->nlinks = 0;
	query->filter = dv_filter_join(DV_AND, parts);
}

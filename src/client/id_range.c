/*
 * id_range.c
 *		Queries for the rows of a range of ids.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

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
	dv_filter  *filter = palloc0(sizeof(*filter));
	uint8		uuid[DV_ID_LEN];

	dv_id_unorder(id, uuid);
	filter->kind = kind;
	filter->column = column;
	filter->n = 1;
	filter->operands = palloc0(sizeof(dv_operand));
	filter->operands[0].text = dv_id_text(uuid);
	return filter;
}

/* Returns a conjunction without parts, which has room for some. */
static dv_filter *
begin_and(int room)
{
	dv_filter  *filter = palloc0(sizeof(*filter));

	filter->kind = DV_AND;
	filter->parts = palloc0(sizeof(dv_filter *) * room);
	return filter;
}

dv_filter *
dv_id_range_filter(const dv_filter *filter, const dv_column *column, dv_filter_kind from,
				   const dv_id_range *range)
{
	dv_filter  *all = begin_and(3);

	if (!range->has_low && !range->has_high)
		return unconstify(dv_filter *, filter);
	if (filter != NULL && filter->kind != DV_TRUE)
		all->parts[all->n++] = unconstify(dv_filter *, filter);
	if (range->has_low)
		all->parts[all->n++] = dv_id_filter(from, column, &range->low);
	if (range->has_high)
		all->parts[all->n++] = dv_id_filter(DV_LT, column, &range->high);
	return all;
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
	dv_filter  *filter = begin_and(n + 1);
	int			i;

	filter->parts[filter->n++] = dv_id_filter(DV_EQ, query->primary_id, id);
	for (i = 0; i < n; i++)
		filter->parts[filter->n++] = dv_id_filter(trials[i].greater ? DV_LT : DV_GE,
												  query->primary_id, &trials[i].id);
	ask_for_ids(query);
	query->nlinks = 0;
	query->filter = filter;
}

/*
 * query.c
 *		Filters of queries.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "nodes/pg_list.h"

#include "dataverse/query.h"

dv_filter *
dv_filter_of(dv_filter_kind kind, const dv_column *column, const char *operand)
{
	dv_filter  *filter = palloc0(sizeof(*filter));

	filter->kind = kind;
	filter->column = column;
	if (operand != NULL)
	{
		filter->operands = palloc0(sizeof(dv_operand));
		filter->operands[0].text = operand;
		filter->n = 1;
	}
	return filter;
}

dv_filter *
dv_filter_join(dv_filter_kind kind, List *parts)
{
	dv_filter_kind neutral = kind == DV_AND ? DV_TRUE : DV_FALSE;
	dv_filter_kind absorbing = kind == DV_AND ? DV_FALSE : DV_TRUE;
	List	   *kept = NIL;
	dv_filter  *filter;
	ListCell   *lc;
	int			i;

	foreach(lc, parts)
	{
		dv_filter  *part = lfirst(lc);

		if (part->kind == absorbing)
			return part;
		if (part->kind == kind)
			for (i = 0; i < part->n; i++)
				kept = lappend(kept, part->parts[i]);
		else if (part->kind != neutral)
			kept = lappend(kept, part);
	}
	if (kept == NIL)
		return dv_filter_of(neutral, NULL, NULL);
	if (list_length(kept) == 1)
		return linitial(kept);
	filter = dv_filter_of(kind, NULL, NULL);
	filter->n = list_length(kept);
	filter->parts = palloc(sizeof(dv_filter *) * filter->n);
	foreach(lc, kept)
	{
		filter->parts[foreach_current_index(lc)] = lfirst(lc);
	}
	return filter;
}

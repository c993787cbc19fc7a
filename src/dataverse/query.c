/*
 * query.c
 *		A query of the service, whatever the language it is written in.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "dataverse/query.h"

int
dv_filter_conditions(const dv_filter *filter)
{
	int			sum = 0;
	int			i;

	if (filter == NULL || filter->kind == DV_TRUE || filter->kind == DV_FALSE)
		return 0;
	if (filter->kind != DV_AND && filter->kind != DV_OR)
		return 1;
	for (i = 0; i < filter->n; i++)
		sum += dv_filter_conditions(filter->parts[i]);
	return sum;
}

bool
dv_filter_is(const dv_filter *filter, dv_filter_kind kind)
{
	if (filter == NULL)
		return kind == DV_TRUE;
	return filter->kind == kind;
}

/*
 * id_trial.c
 *		Whether the service compares ids as we do.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "client/id_trial.h"
#include "dataverse/address.h"

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

dv_filter *
dv_id_trial_filter(const dv_column *column, const dv_ordered_id *id)
{
	dv_id_trial trials[DV_ID_TRIALS];
	int			n = dv_id_trials(id, trials);
	dv_filter  *filter = palloc0(sizeof(*filter));
	int			i;

	filter->kind = DV_AND;
	filter->parts = palloc0(sizeof(dv_filter *) * (n + 1));
	filter->parts[filter->n++] = dv_id_filter(DV_EQ, column, id);
	for (i = 0; i < n; i++)
		filter->parts[filter->n++] = dv_id_filter(trials[i].greater ? DV_LT : DV_GE, column,
												  &trials[i].id);
	return filter;
}

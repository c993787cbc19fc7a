/*
 * modify_explain.c
 *		EXPLAIN for modifications.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/explain.h"
#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "port/pg_bitutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "fdw/modify.h"
#include "fdw/option.h"

/* The request that is used first; rows may later be sent one by one. */
static const char *
request_of(const dv_relation *relation, dv_operation operation)
{
	dv_destination destination = {.root = "", .table = relation->table, .entity_set = relation->entity_set,
	.primary_id = relation->primary_id.property, .type = relation->type};
	const char *path = dv_batch_bulk_path(dv_batch_create(operation, &destination, 1));

	return path != NULL ? path : "$batch";
}

static void
show_columns(const dv_relation *relation, const List *private, ExplainState *es)
{
	dv_modify_plan plan;
	List	   *names = NIL;
	ListCell   *lc;

	dv_modify_plan_unpack(private, &plan);
	foreach(lc, list_concat_copy(plan.given, plan.others))
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, lfirst_int(lc));

		if (attribute != NULL)
			names = lappend(names, unconstify(char *, attribute->is_table_name ?
											  attribute->name : attribute->column.name));
	}
	if (names != NIL)
		ExplainPropertyList("Columns", names, es);
}

static void
show_tally(const dv_tally *t, ExplainState *es)
{
	int			fate;

	ExplainPropertyInteger("Batches", NULL, t->batches, es);
	ExplainPropertyInteger("Requests Answered", NULL, t->requests, es);
	if (t->repeated > 0)
		ExplainPropertyInteger("Requests Repeated", NULL, t->repeated, es);
	if (t->throttles > 0)
		ExplainPropertyInteger("Throttles", NULL, t->throttles, es);
	for (fate = 0; fate < DV_FATES; fate++)
		if (t->fates[fate] > 0 || dv_fate_rules[fate].written)
			ExplainPropertyInteger(dv_fate_rules[fate].label, NULL, t->fates[fate], es);
	if (es->timing)
	{
		ExplainPropertyInteger("Application Users", NULL, pg_popcount64(t->users), es);
		ExplainPropertyInteger("Bytes Sent", NULL, t->bytes, es);
		ExplainPropertyFloat("Time Waiting", "ms", (double) t->waited / DV_MILLISECOND, 3, es);
	}
}

void
dataverseExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *private,
							  int subplan_index, struct ExplainState *es)
{
	const dv_modify *m = rinfo->ri_FdwState;

	if (es->verbose)
	{
		dv_relation *relation = dv_relation_open(RelationGetRelid(rinfo->ri_RelationDesc));
		dv_options	options = dv_settings_over(relation->options);
		dv_operation operation = dv_modify_plan_operation(relation, options, mtstate->operation);

		ExplainPropertyText("Request", psprintf("POST %s", request_of(relation, operation)), es);
		show_columns(relation, private, es);
		ExplainPropertyInteger("Batch Size", NULL, dv_option_int(options, DV_OPT_BATCH_SIZE), es);
	}
	if (es->analyze && m != NULL && m->writer != NULL)
		show_tally(dv_writer_tally(m->writer), es);
}

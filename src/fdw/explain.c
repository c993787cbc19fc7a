/*
 * explain.c
 *		EXPLAIN output of scans and modifications.
 *
 * The request of a scan is shown as it is sent, but with blanks and brackets unencoded
 * and with $1 … for values that are only known at execution.  The expressions of these
 * values follow.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/explain.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "port/pg_bitutils.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "client/trouble.h"
#include "compat.h"
#include "fdw/modify/modify.h"
#include "fdw/option.h"
#include "fdw/plan/plan.h"
#include "fdw/result_relation.h"
#include "fdw/scan/request.h"
#include "fdw/scan/scan.h"
#include "fdw/setting.h"

/*
 * Scans
 */

static bool
has_exec_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_EXEC;
	return expression_tree_walker(node, has_exec_param, context);
}

/*
 * Returns the expression as EXPLAIN shows it elsewhere, or NULL if it cannot
 * be shown.
 *
 * The meaning of a parameter is found in the plan nodes above the scan, which
 * are not passed to us.  However, EXPLAIN VERBOSE has just shown the node's
 * output and filter, and left its context pointing at the node and those above
 * it.  A node without output and filter does not change the context.
 */
static char *
deparse(ForeignScanState *node, ExplainState *es, Node *expr)
{
	Plan	   *plan = node->ss.ps.plan;

	/* the number alone, without its type */
	if (IsA(expr, Const) && ((Const *) expr)->consttype == INT8OID && !((Const *) expr)->constisnull)
		return psprintf(INT64_FORMAT, DatumGetInt64(((Const *) expr)->constvalue));
	if (plan->targetlist == NIL && plan->qual == NIL)
	{
		if (has_exec_param(expr, NULL))
			return NULL;
		set_deparse_context_plan(es->deparse_cxt, plan, NIL);
	}
	return deparse_expression(expr, es->deparse_cxt, dv_explain_has_tables(es->rtable), false);
}

/* Sets constants, and numbers all other values.  Returns the expressions behind the numbers. */
static char *
number_values(dv_bound_value *values, List *exprs, ForeignScanState *node, ExplainState *es)
{
	StringInfoData s;
	ListCell   *lc;
	int			n = 0;

	initStringInfo(&s);
	foreach(lc, exprs)
	{
		dv_bound_value *value = &values[foreach_current_index(lc)];
		Node	   *expr = lfirst(lc);
		char	   *string;

		if (IsA(expr, Const))
		{
			value->value = ((Const *) expr)->constvalue;
			value->isnull = ((Const *) expr)->constisnull;
			continue;
		}
		/* not $1, which is the form of PostgreSQL's own parameters */
		value->placeholder = psprintf(":%d", ++n);
		/* the join above shows where such a value comes from */
		if ((IsA(expr, Param) && ((Param *) expr)->paramkind != PARAM_EXTERN) ||
			IsA(expr, CaseTestExpr))
			continue;
		string = deparse(node, es, expr);
		if (string != NULL)
			appendStringInfo(&s, "%s%s = %s", s.len > 0 ? ", " : "", value->placeholder, string);
	}
	return s.len > 0 ? s.data : NULL;
}

/* Shows LIMIT and OFFSET.  Returns the number of rows wanted if it is known already, else -1. */
static int64
show_limit(const dv_bound_value *values, int limit, int offset, List *exprs,
		   ForeignScanState *node, ExplainState *es)
{
	const struct
	{
		int			number;
		const char *label;
	}			limits[] = {{limit, "Limit"}, {offset, "Offset"}};
	int64		sum = 0;
	bool		known = limit >= 0;
	int			i;

	for (i = 0; i < (int) lengthof(limits); i++)
	{
		int			number = limits[i].number;
		const dv_bound_value *value;
		const char *string;

		if (number < 0)
			continue;
		value = &values[number];
		string = deparse(node, es, list_nth(exprs, number));
		ExplainPropertyText(limits[i].label, string != NULL ? string : value->placeholder, es);
		if (value->placeholder != NULL || (value->isnull && number == limit))
			known = false;
		else if (!value->isnull && DatumGetInt64(value->value) < PG_INT32_MAX)
			sum += DatumGetInt64(value->value);
		else if (!value->isnull)
			known = false;
	}
	return known && sum >= 0 ? sum : -1;
}

static void
show_requests(dv_request *request, ExplainState *es)
{
	dv_query	query;
	bool		any = false;

	while (dv_request_next(request, &query))
	{
		if (request->plan.ids_suffice)
		{
			ExplainPropertyText("Request", "none: the keys are given", es);
			return;
		}
		ExplainPropertyText("Request", psprintf("GET %s", dv_query_path(&query, DV_ODATA_READABLE, NULL)), es);
		any = true;
		/* the parts of a list look alike, so the first one is enough */
		if (dv_request_listing(request)->nchunks > 1)
		{
			ExplainPropertyInteger("Requests Like This", NULL, dv_request_listing(request)->nchunks, es);
			break;
		}
	}
	if (!any)
		ExplainPropertyText("Request", "none: no row can match", es);
}

static void
show_recheck(const dv_read_plan *read, ForeignScanState *node, ExplainState *es)
{
	List	   *clauses = NIL;
	ListCell   *lc;

	foreach(lc, read->rechecks)
		clauses = lappend(clauses, list_nth(node->ss.ps.plan->qual, lfirst_int(lc)));
	if (clauses != NIL)
		ExplainPropertyText("Rechecked Here",
							deparse(node, es, (Node *) make_ands_explicit(clauses)), es);
}

static void
show_repetitions(int64 repeated, const int64 *causes, ExplainState *es)
{
	if (repeated == 0)
		return;
	ExplainPropertyInteger("Requests Repeated", NULL, repeated, es);
	ExplainPropertyText("Causes of Repetition", dv_trouble_causes(repeated, causes), es);
}

static void
show_stats(const dv_pages_stats *stats, ExplainState *es)
{
	ExplainPropertyInteger("Requests Answered", NULL, stats->requests, es);
	show_repetitions(stats->sent - stats->requests, stats->causes, es);
	if (stats->abandoned > 0)
		ExplainPropertyInteger("Requests Abandoned", NULL, stats->abandoned, es);
	if (stats->throttles > 0)
		ExplainPropertyInteger("Throttles", NULL, stats->throttles, es);
	ExplainPropertyInteger("Pages", NULL, stats->pages, es);
	if (stats->ranges > 0)
	{
		ExplainPropertyInteger("Ranges", NULL, stats->ranges, es);
		ExplainPropertyInteger("Ranges at a Time", NULL, stats->most_ranges, es);
	}
	ExplainPropertyInteger("Rows Received", NULL, stats->rows + stats->unread, es);
	if (es->timing)
	{
		ExplainPropertyInteger("Bytes Received", NULL, stats->bytes, es);
		ExplainPropertyFloat("Time Waiting", "ms", (double) stats->waited / DV_MILLISECOND, 3, es);
	}
}

static void
show_spool(const dv_request *request, const dv_scan *scan, ForeignScanState *node,
		   ExplainState *es)
{
	if (request->ntables == 1 && !request->plan.ids_suffice && !request->plan.keyed &&
		dv_resultrel_is_written(request->relations[0], node->ss.ps.state))
		dv_spool_explain(scan != NULL ? dv_scan_spool(scan) : NULL, es);
}

static void
show_read(ForeignScanState *node, const dv_read_plan *read, const dv_scan *scan, ExplainState *es)
{
	List	   *exprs = ((ForeignScan *) node->ss.ps.plan)->fdw_exprs;
	dv_request	request;
	char	   *values;

	dv_request_init(&request, read, dv_read_plan_open(read, node->ss.ps.state), exprs);
	if (request.ntables > 1)
	{
		request.prove = dv_scan_proves(node);
		dv_request_choose(&request);
	}
	values = number_values(request.values, exprs, node, es);
	request.wanted = show_limit(request.values, read->limit, read->offset, exprs, node, es);
	show_requests(&request, es);
	/* if the keys are given, the request that is shown does not contain them */
	if (values != NULL && !read->ids_suffice)
		ExplainPropertyText("Values", values, es);
	show_recheck(read, node, es);
	show_spool(&request, scan, node, es);
}

/* "contact, account": the root first */
static void
show_tables(const dv_read_plan *read, ExplainState *es)
{
	List	   *names = NIL;
	ListCell   *lc;

	if (!read->grouped && list_length(read->tables) == 1)
		return;
	foreach(lc, read->tables)
	{
		const dv_read_table *table = lfirst(lc);

		names = lappend(names, list_nth(es->rtable_names, table->rti - 1));
	}
	ExplainPropertyList(read->grouped ? "Grouped by Dataverse" : "Joined by Dataverse", names, es);
	if (read->grouped && dv_read_parts(read) > 1)
		ExplainPropertyInteger("Parts Planned", NULL, dv_read_parts(read), es);
}

static void
show_groups(const dv_scan *scan, ExplainState *es)
{
	int			parts;
	bool		here;

	dv_scan_groups(scan, &parts, &here);
	if (parts > 0)
		ExplainPropertyInteger("Parts", NULL, parts, es);
	if (here)
		ExplainPropertyBool("Grouped Here", true, es);
}

void
dataverseExplainForeignScan(ForeignScanState *node, struct ExplainState *es)
{
	dv_read_plan read = dv_read_plan_of((ForeignScan *) node->ss.ps.plan);
	dv_scan    *scan = node->fdw_state;

	show_tables(&read, es);
	if (es->verbose)
		show_read(node, &read, scan, es);
	if (!es->analyze || scan == NULL)
		return;
	if (dv_scan_joined_here(scan))
		ExplainPropertyBool("Joined Here", true, es);
	show_groups(scan, es);
	show_stats(dv_scan_stats(scan), es);
}

/*
 * Modifications
 */

/* Returns the request that is used first; rows may later be sent one by one. */
static const char *
request_of(const dv_relation *relation, dv_operation operation, bool match_version)
{
	dv_destination destination = {.root = "", .table = relation->table, .entity_set = relation->entity_set,
	.primary_id = relation->primary_id.property, .type = relation->type, .match_version = match_version};
	const char *path = dv_batch_bulk_path(dv_batch_create(operation, &destination, 1));

	return path != NULL ? path : "$batch";
}

static void
show_columns(const dv_relation *relation, const dv_modify_plan *plan, ExplainState *es)
{
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, list_concat_copy(plan->set, plan->others))
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, lfirst_int(lc));

		if (attribute != NULL)
			names = lappend(names, unconstify(char *, attribute->is_table_name ?
											  attribute->name : attribute->column.name));
	}
	if (names != NIL)
		ExplainPropertyList("Columns", names, es);
}

/* In a dry run, rows are only encoded and counted. */
static void
show_rehearsal(const dv_tally *t, ExplainState *es)
{
	ExplainPropertyBool("Dry Run", true, es);
	ExplainPropertyInteger("Batches Encoded", NULL, t->batches, es);
	ExplainPropertyInteger("Rows Encoded", NULL, t->fates[DV_FATE_ACKNOWLEDGED], es);
	if (t->fates[DV_FATE_REJECTED] > 0)
		ExplainPropertyInteger(dv_fate_rules[DV_FATE_REJECTED].label, NULL,
							   t->fates[DV_FATE_REJECTED], es);
}

static void
show_tally(const dv_tally *t, ExplainState *es)
{
	int			fate;

	ExplainPropertyInteger("Batches", NULL, t->batches, es);
	ExplainPropertyInteger("Requests Answered", NULL, t->requests, es);
	show_repetitions(t->repeated, t->causes, es);
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

static void
show_work(const dv_modify *m, ExplainState *es)
{
	if (dv_writer_is_dry(m->writer))
		show_rehearsal(dv_writer_tally(m->writer), es);
	else
		show_tally(dv_writer_tally(m->writer), es);
}

void
dataverseExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *private,
							  int subplan_index, struct ExplainState *es)
{
	const dv_modify *m = rinfo->ri_FdwState;

	if (es->verbose)
	{
		dv_relation *relation = dv_relation_open(RelationGetRelid(rinfo->ri_RelationDesc));
		dv_options	options = dv_settings_over(relation->options, relation->relid);
		dv_operation operation = dv_modify_plan_operation(relation, options, mtstate->operation);
		dv_modify_plan plan;

		dv_modify_plan_unpack(private, &plan);
		ExplainPropertyText("Request", psprintf("POST %s", request_of(relation, operation,
																	  plan.match_version)), es);
		if (plan.match_version)
			ExplainPropertyText("Condition", "If-Match: versionnumber", es);
		show_columns(relation, &plan, es);
		ExplainPropertyInteger("Batch Size", NULL, dv_option_int(options, DV_OPT_BATCH_SIZE), es);
	}
	if (es->analyze && m != NULL && m->writer != NULL)
		show_work(m, es);
}

/*
 * Shows the partitions that rows are routed to.  PostgreSQL does not ask us
 * about them, because they are not in the plan.
 */
#ifdef DV_EXPLAIN_NODES

static explain_per_node_hook_type next_node = NULL;

/* A list is created with the first partition: other statements have none. */
typedef struct partition_list
{
	ExplainState *es;
	bool		begun;
} partition_list;

static void
show_partition(const dv_modify *m, void *arg)
{
	partition_list *list = arg;
	ExplainState *es = list->es;

	if (!list->begun)
		ExplainOpenGroup("Foreign Partitions", "Foreign Partitions", false, es);
	list->begun = true;
	ExplainOpenGroup("Partition", NULL, true, es);
	ExplainPropertyText("Partition", m->relation->name, es);
	show_work(m, es);
	ExplainCloseGroup("Partition", NULL, true, es);
}

static void
show_node(PlanState * planstate, List *ancestors, const char *relationship, const char *plan_name,
		  ExplainState *es)
{
	partition_list list = {.es = es};

	if (next_node != NULL)
		next_node(planstate, ancestors, relationship, plan_name, es);
	if (es->analyze && IsA(planstate, ModifyTableState))
		dv_drain_routed((ModifyTableState *) planstate, show_partition, &list);
	if (list.begun)
		ExplainCloseGroup("Foreign Partitions", "Foreign Partitions", false, es);
}

void
dv_explain_init(void)
{
	next_node = explain_per_node_hook;
	explain_per_node_hook = show_node;
}

#else

void
dv_explain_init(void)
{
}

#endif

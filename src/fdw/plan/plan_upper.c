/*
 * plan_upper.c
 *		Planning of what is above the only scan or join of a query: LIMIT and
 *		OFFSET, COUNT(*), and groups (plan_group.c).
 *
 * That is only left to the service if it answers all clauses exactly, and only
 * where PostgreSQL guarantees that nothing comes in between.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/fmgroids.h"

#include "compat.h"
#include "fdw/plan/plan_table.h"

/* The service counts no more rows than this. */
#define MOST_COUNTED 50000.0

/* Returns what is read for all tables of the query together, or NULL. */
static const RelOptInfo *
whole_rel(PlannerInfo *root)
{
	if (bms_membership(root->all_baserels) == BMS_SINGLETON)
		return root->simple_rel_array[bms_next_member(root->all_baserels, -1)];
	return find_join_rel(root, dv_all_rels(root));
}

static bool
is_ours(const RelOptInfo *rel, const RelOptInfo *input_rel)
{
	return rel != NULL && rel->fdw_private != NULL && rel->fdwroutine != NULL &&
		rel->fdwroutine == input_rel->fdwroutine;
}

/* Does the service answer all of the query's WHERE clause? */
static bool
answers_all(PlannerInfo *root, const dv_join_plan *join)
{
	const RelOptInfo *baserel = dv_join_root(join)->baserel;

	if (!dv_join_is_exact(join) || root->parse->rowMarks != NIL)
		return false;
	if (list_length(join->tables) > 1)
		return true;
	return !dv_join_root(join)->gated && baserel->reloptkind == RELOPT_BASEREL &&
		bms_is_empty(baserel->lateral_relids) && root->parse->commandType == CMD_SELECT;
}

/*
 * COUNT(*)
 */

static bool
is_count(Node *node)
{
	Aggref	   *agg = (Aggref *) node;

	return IsA(agg, Aggref) && agg->aggfnoid == F_COUNT_ && agg->aggfilter == NULL &&
		agg->aggorder == NIL && agg->aggdistinct == NIL && agg->aggsplit == AGGSPLIT_SIMPLE;
}

/* SELECT count(*), provided that there are no other aggregates and no grouping. */
static void
add_count_path(PlannerInfo *root, const dv_join_plan *join, RelOptInfo *output_rel)
{
	const dv_table_plan *tp = dv_join_root(join);
	Query	   *parse = root->parse;
	PathTarget *target = root->upper_targets[UPPERREL_GROUP_AGG];
	dv_read_plan plan = DV_READ_PLAN;
	Cost		startup;
	Cost		total = tp->costs.request;
	List	   *parts;
	ListCell   *lc;

	if (list_length(join->tables) > 1 || tp->relation->type != DV_TABLE_STANDARD ||
		!answers_all(root, join) || parse->groupClause != NIL || parse->groupingSets != NIL ||
		parse->hasTargetSRFs || root->hasHavingQual)
		return;
	parts = pull_var_clause((Node *) target->exprs,
							PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_PLACEHOLDERS |
							PVC_INCLUDE_WINDOWFUNCS);
	if (parts == NIL)
		return;
	foreach(lc, parts)
	{
		if (!is_count(lfirst(lc)))
			return;
	}
	plan.count = true;
	/* what the service does not count is read, but only the ids */
	if (tp->fetched > MOST_COUNTED)
		dv_plan_scan_cost(tp, dv_cost_row_bytes(tp->relation, NIL), tp->fetched, 1, 1, &startup,
						  &total);
	add_path(output_rel, (Path *)
			 dv_foreign_upper_path(root, output_rel, target, 1, total, total + cpu_tuple_cost, NIL,
								   dv_read_plan_pack(&plan)));
}

/*
 * LIMIT and OFFSET
 */

static bool
is_limit(Node *limit)
{
	return limit == NULL || (!contain_volatile_functions(limit) && !contain_subplans(limit));
}

/* Is there a LIMIT or OFFSET whose rows could be those of a scan or join below it? */
static bool
is_plain_limit(PlannerInfo *root, const FinalPathExtraData *extra)
{
	Query	   *parse = root->parse;

	return extra->limit_needed && parse->limitOption != LIMIT_OPTION_WITH_TIES && !parse->hasAggs &&
		parse->groupClause == NIL && parse->groupingSets == NIL && parse->distinctClause == NIL &&
		!parse->hasWindowFuncs && parse->setOperations == NULL && !parse->hasTargetSRFs &&
		!root->hasHavingQual && is_limit(parse->limitCount) && is_limit(parse->limitOffset);
}

/*
 * Can the service sort as the query demands?  The order is one of the root's
 * columns.  For a join, nulls are where the service has them, because two queries
 * would be needed otherwise.
 */
static bool
can_sort(PlannerInfo *root, const dv_join_plan *join, dv_read_plan *plan)
{
	const dv_table_plan *tp = dv_join_root(join);

	if (root->sort_pathkeys == NIL)
		return true;
	return dv_plan_set_orders(tp, tp->own, root->sort_pathkeys, plan) &&
		(list_length(join->tables) == 1 ||
		 (plan->nulls == DV_NULLS_AS_SORTED && !dv_join_is_listed(join)));
}

static void
add_limit_path(PlannerInfo *root, const dv_join_plan *join, const RelOptInfo *rel,
			   RelOptInfo *output_rel, FinalPathExtraData *extra)
{
	const dv_table_plan *tp = dv_join_root(join);
	PathTarget *target = root->upper_targets[UPPERREL_FINAL];
	dv_read_plan plan = DV_READ_PLAN;
	bool		single = list_length(join->tables) == 1;
	double		fetched;
	Cost		startup;
	Cost		total;

	if (tp->relation->type == DV_TABLE_VIRTUAL || !answers_all(root, join) ||
		!is_plain_limit(root, extra) || !dv_join_has_columns(join, target->exprs) ||
		!can_sort(root, join, &plan))
		return;
	fetched = single ? tp->fetched : dv_join_fetched(root, join, rel);
	fetched = extra->limit_tuples > 0 ? Min(extra->limit_tuples, fetched) :
		clamp_row_est(fetched * 0.1);
	if (single)
		dv_plan_scan_cost(tp, tp->row_bytes, fetched, dv_plan_first_requests(&plan), 1, &startup,
						  &total);
	else
		dv_join_cost(join, fetched, &startup, &total);
	add_path(output_rel, (Path *)
			 dv_foreign_upper_path(root, output_rel, target, fetched, startup, total,
								   root->sort_pathkeys, dv_read_plan_pack(&plan)));
}

/* All paths above a read are paths of that read, so that the relation belongs to it. */
static const dv_join_plan *
own_upper_rel(RelOptInfo *output_rel, const RelOptInfo *rel)
{
	if (output_rel->fdw_private == NULL)
		output_rel->fdw_private = unconstify(dv_join_plan *, dv_join_plan_of(rel));
	return output_rel->fdw_private;
}

void
dataverseGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
							  RelOptInfo *output_rel, void *extra)
{
	const RelOptInfo *whole = whole_rel(root);

	if ((stage == UPPERREL_GROUP_AGG || stage == UPPERREL_DISTINCT) && !IS_UPPER_REL(input_rel) &&
		is_ours(input_rel, input_rel))
		dv_group_add_path(root, stage, own_upper_rel(output_rel, input_rel), input_rel, output_rel,
						  extra);
	if (!is_ours(whole, input_rel))
		return;
	if (stage == UPPERREL_GROUP_AGG)
		add_count_path(root, own_upper_rel(output_rel, whole), output_rel);
	else if (stage == UPPERREL_FINAL)
		add_limit_path(root, own_upper_rel(output_rel, whole), whole, output_rel, extra);
}

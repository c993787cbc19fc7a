/*
 * plan_lookup.c
 *		Planning of joins that ask for many keys at once.
 *
 * PostgreSQL knows two ways to join a foreign table: to read all of it, or to ask
 * it for the matches of one outer row at a time.  In between lies what suits the
 * service best: to collect the keys of many outer rows, and to ask for the rows
 * with any of these keys, some hundreds in each request.  The planner's hook for
 * joins offers that as a path wherever a join clause says that a column of the
 * foreign table equals an expression of the other side, if the service could be
 * asked for a list of such values (fdw/plan/ship.c).
 *
 * The inner side is a foreign scan with the condition "column = ANY (list)", so
 * everything that is known about long lists applies to it: how they are split
 * over requests, and when it takes less to read the whole table (fdw/scan/request.c).
 *
 * The target of an UPDATE or DELETE can be on either side.  If it is the foreign
 * table, the join reads all of its rows before it returns the first one, because a
 * statement must not see its own writes.  If it is a local table, PostgreSQL may
 * check a row again that has changed meanwhile (EvalPlanQual).  It then runs the
 * same plan once more, with scans that return no more than one row each: the new
 * version of the target's, and of each table that has a row mark, the row that was
 * joined with it, be it from its place in the table or, for a foreign table, from a
 * copy that the join has returned as a whole-row column.  That concerns the scans
 * of single tables, and happens in their nodes, whichever join asks them for rows:
 * the outer row becomes a batch of one, the inner scan returns the copy, whatever
 * the key is, after it has checked what the service was asked, and the join
 * compares all of its clauses, that of the key included.  So the result is that of
 * PostgreSQL's own joins, without a request.
 *
 * Statements that lock rows (SELECT FOR UPDATE) and MERGE are left to PostgreSQL's
 * joins.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "fdw/plan/plan.h"
#include "fdw/plan/ship.h"
#include "fdw/scan/list.h"
#include "fdw/scan/lookup.h"

/* The fraction of outer rows assumed to have the same key, as for a hash join */
#define UNKNOWN_ALIKE 0.1

static set_join_pathlist_hook_type next_hook = NULL;

/* A join that is being planned, with the clause that gives the keys. */
typedef struct key_join
{
	PlannerInfo *root;
	RelOptInfo *joinrel;
	RelOptInfo *innerrel;
	Path	   *outer;
	JoinType	type;
	List	   *restrictions;
	RestrictInfo *restriction;	/* the one of the clause */
	OpExpr	   *clause;			/* inner column = outer expression */
	Expr	   *keys;			/* inner column = ANY (list) */
	dv_keyed_read read;
} key_join;

/* The number of batches of outer rows, and the size of each */
typedef struct batch_estimate
{
	double		batches;
	double		keys;
	double		requests;
	double		fetched;
	double		alike;			/* outer rows in the bucket of the hash table that a row falls
								 * into */
} batch_estimate;

/*
 * Which joins
 */

static bool
is_our_table(const RelOptInfo *rel)
{
	return IS_SIMPLE_REL(rel) && rel->rtekind == RTE_RELATION && rel->fdwroutine != NULL &&
		rel->fdwroutine->GetForeignPlan == dataverseGetForeignPlan && rel->fdw_private != NULL;
}

static bool
has_gate(const List *restrictions)
{
	const ListCell *lc;

	foreach(lc, restrictions)
	{
		if (lfirst_node(RestrictInfo, lc)->pseudoconstant)
			return true;
	}
	return false;
}

static bool
has_placeholder(List *exprs, const PlaceHolderVar * wanted)
{
	ListCell   *lc;

	foreach(lc, exprs)
	{
		const		PlaceHolderVar *phv = lfirst(lc);

		if (IsA(phv, PlaceHolderVar) && phv->phid == wanted->phid)
			return true;
	}
	return false;
}

/*
 * Does the join compute a placeholder?  Its columns may become null in the join, and
 * it is hard to tell whether the placeholder is computed before or after that.
 */
static bool
computes_placeholder(const RelOptInfo *joinrel, const RelOptInfo *outerrel,
					 const RelOptInfo *innerrel)
{
	const ListCell *lc;

	foreach(lc, joinrel->reltarget->exprs)
	{
		const		PlaceHolderVar *phv = lfirst(lc);

		if (IsA(phv, PlaceHolderVar) && !has_placeholder(outerrel->reltarget->exprs, phv) &&
			!has_placeholder(innerrel->reltarget->exprs, phv))
			return true;
	}
	return false;
}

/*
 * PostgreSQL marks the rows of tables that are joined with the target of an UPDATE,
 * DELETE, or MERGE, and of all tables of a query that locks rows.
 */
static bool
is_left_to_others(const PlannerInfo *root)
{
	return root->rowMarks != NIL && root->parse->commandType != CMD_UPDATE &&
		root->parse->commandType != CMD_DELETE;
}

/*
 * Above the children of a target, such as partitions, columns of no table
 * (ROWID_VAR) identify its rows.  They cannot be part of a scan tuple.
 */
static bool
has_target_with_children(const PlannerInfo *root, const RelOptInfo *joinrel)
{
	return root->row_identity_vars != NIL &&
		bms_overlap(joinrel->relids, root->all_result_relids);
}

static bool
is_possible(PlannerInfo *root, const RelOptInfo *joinrel, const RelOptInfo *outerrel,
			const RelOptInfo *innerrel, JoinType type, const JoinPathExtraData * extra)
{
	/* enable_hashjoin applies to this join as well, since there is always another way to join */
	if (!dv_may_hash(extra) || dv_is_grouped_rel(joinrel))
		return false;
	if (type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI && type != JOIN_ANTI &&
		type != JOIN_UNIQUE_OUTER)
		return false;
	return is_our_table(innerrel) && !is_left_to_others(root) && !has_target_with_children(root, joinrel) &&
		bms_is_empty(joinrel->lateral_relids) && bms_is_empty(outerrel->lateral_relids) &&
		!has_gate(extra->restrictlist) &&
		!(IS_OUTER_JOIN(type) && computes_placeholder(joinrel, outerrel, innerrel));
}

/* Returns the clause with the inner side on the left, or NULL if it gives no keys. */
static OpExpr *
clause_of(const RestrictInfo *restriction, Relids outer, Relids inner)
{
	OpExpr	   *clause;

	/* such an operator can be hashed, and its arguments are not volatile */
	if (!restriction->can_join || !OidIsValid(restriction->hashjoinoperator))
		return NULL;
	clause = copyObject((OpExpr *) restriction->clause);
	if (bms_is_subset(restriction->left_relids, outer) &&
		bms_is_subset(restriction->right_relids, inner))
	{
		if (!OidIsValid(get_commutator(clause->opno)))
			return NULL;
		CommuteOpExpr(clause);
	}
	else if (!bms_is_subset(restriction->left_relids, inner) ||
			 !bms_is_subset(restriction->right_relids, outer))
		return NULL;
	set_opfuncid(clause);
	return op_strict(clause->opno) ? clause : NULL;
}

/* Returns "inner column = ANY (list)", or NULL if there is no such list. */
static Expr *
listing_of(const OpExpr *clause)
{
	Oid			type = get_array_type(exprType(lsecond(clause->args)));
	ScalarArrayOpExpr *listing = makeNode(ScalarArrayOpExpr);
	CaseTestExpr *list = makeNode(CaseTestExpr);
	RegProcedure hash[2];
	Oid			equal;

	if (!OidIsValid(type) || !get_op_hash_functions(clause->opno, &hash[0], &hash[1]) ||
		!get_compatible_hash_operators(clause->opno, NULL, &equal))
		return NULL;
	list->typeId = type;
	list->typeMod = -1;
	list->collation = exprCollation(lsecond(clause->args));
	listing->opno = clause->opno;
	listing->opfuncid = clause->opfuncid;
	listing->useOr = true;
	listing->inputcollid = clause->inputcollid;
	listing->args = list_make2(linitial(clause->args), list);
	listing->location = -1;
	return (Expr *) listing;
}

/*
 * Costs
 */

/* Bytes that a key takes up in a request. */
static size_t
bytes_of_key(const key_join *join)
{
	const Var  *var = lsecond(join->clause->args);
	const RelOptInfo *rel;
	int			width = 0;

	while (IsA(var, RelabelType))
		var = (const Var *) ((const RelabelType *) var)->arg;
	if (IsA(var, Var) && var->varno < join->root->simple_rel_array_size)
	{
		rel = join->root->simple_rel_array[var->varno];
		if (rel != NULL && rel->attr_widths != NULL && var->varattno >= rel->min_attr)
			width = rel->attr_widths[var->varattno - rel->min_attr];
	}
	return dv_ship_bytes(exprType(lsecond(join->clause->args)), width);
}

/* Number of distinct values in a whole table; "known" tells whether that is more than a guess. */
static double
distinct_values(const key_join *join, Node *expr, bool *known)
{
	VariableStatData data;
	double		distinct;
	bool		is_default;

	examine_variable(join->root, expr, 0, &data);
	distinct = get_variable_numdistinct(&data, &is_default);
	ReleaseVariableStats(data);
	*known = !is_default;
	return Max(distinct, 1);
}

/* Number of rows of the service for each key that there is in the table. */
static double
rows_of_key(const key_join *join)
{
	bool		known;

	if (join->read.is_id)
		return 1;
	return Max(join->read.rows / distinct_values(join, linitial(join->clause->args), &known), 1);
}

/* Number of distinct keys of the outer side; if nothing is known, none occurs twice. */
static double
outer_keys(const key_join *join, double rows, bool *known)
{
	Node	   *expr = lsecond(join->clause->args);

	(void) distinct_values(join, expr, known);
	return *known ? estimate_num_groups(join->root, list_make1(expr), rows, NULL, NULL) : rows;
}

static batch_estimate
estimate_batches(const key_join *join)
{
	double		rows = clamp_row_est(join->outer->rows);
	bool		known;
	double		keys = outer_keys(join, rows, &known);
	double		in_memory = (double) get_hash_memory_limit() /
	(join->outer->pathtarget->width + DV_LOOKUP_ROW_BYTES);
	double		of_batch = Min(rows, Max(in_memory, 1));
	batch_estimate e;

	if (keys > DV_LOOKUP_KEYS)
		of_batch = Min(of_batch, Max(rows * DV_LOOKUP_KEYS / keys, 1));
	e.batches = ceil(rows / of_batch);
	/* a key that occurs in several batches is asked for in each of them */
	e.keys = Min(of_batch, Min(keys, DV_LOOKUP_KEYS));
	e.requests = ceil(e.keys / dv_list_capacity(join->read.attribute, bytes_of_key(join)));
	e.fetched = e.keys * rows_of_key(join);
	/* other paths of the join expect this many matches, so do not expect fewer */
	if (join->type == JOIN_INNER && !join->read.is_id)
		e.fetched = Max(e.fetched, join->joinrel->rows / e.batches * e.keys / of_batch);
	e.fetched = clamp_row_est(Min(join->read.rows, e.fetched));
	e.alike = known ? of_batch / e.keys : clamp_row_est(of_batch * UNKNOWN_ALIKE);
	return e;
}

/* Sets the costs of a path whose children are known. */
static void
set_cost(const key_join *join, const batch_estimate *e, Path *path, const Path *inner)
{
	const Path *outer = join->outer;
	double		first = Min(1 / e->batches, DV_LOOKUP_FIRST_ROWS / clamp_row_est(outer->rows));
	double		fetched = e->fetched * e->batches;
	double		compared = fetched * e->alike;
	QualCost	qual;

	cost_qual_eval(&qual, join->restrictions, join->root);
	path->startup_cost = outer->startup_cost + inner->startup_cost + qual.startup +
		path->pathtarget->cost.startup +
		first * (outer->total_cost - outer->startup_cost);
	path->total_cost = outer->total_cost + inner->total_cost * e->batches + qual.startup +
		path->pathtarget->cost.startup +
		outer->rows * (cpu_tuple_cost + 2 * cpu_operator_cost) +
		fetched * cpu_operator_cost + compared * qual.per_tuple +
		path->rows * (cpu_tuple_cost + path->pathtarget->cost.per_tuple);
	if (join->read.written)
		path->startup_cost = path->total_cost;
}

/*
 * Paths
 */

static Plan *plan_join(PlannerInfo *root, RelOptInfo *rel, CustomPath * best_path, List *tlist,
					   List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "DataverseLookup",
	.PlanCustomPath = plan_join,
};

static void
add_join_path(const key_join *join)
{
	CustomPath *path = makeNode(CustomPath);
	batch_estimate e = estimate_batches(join);
	Path	   *inner = dv_plan_keyed_path(join->root, join->innerrel, join->keys, e.fetched,
										   e.requests);

	path->path.pathtype = T_CustomScan;
	path->path.parent = join->joinrel;
	path->path.pathtarget = join->joinrel->reltarget;
	path->path.rows = join->joinrel->rows;
	dv_set_disabled_nodes(&path->path, dv_disabled_nodes(join->outer) + dv_disabled_nodes(inner));
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make2(join->outer, inner);
	path->custom_private = list_make4(makeInteger(join->type), join->clause, join->restriction,
									  join->restrictions);
	path->methods = &path_methods;
	set_cost(join, &e, &path->path, inner);
	add_path(join->joinrel, &path->path);
}

static void
add_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		  JoinType type, JoinPathExtraData * extra)
{
	key_join	join = {.root = root, .joinrel = joinrel, .innerrel = innerrel,
	.type = type == JOIN_UNIQUE_OUTER ? JOIN_INNER : type, .restrictions = extra->restrictlist};
	ListCell   *lc;

	foreach(lc, extra->restrictlist)
	{
		join.restriction = lfirst_node(RestrictInfo, lc);
		if (IS_OUTER_JOIN(join.type) && RINFO_IS_PUSHED_DOWN(join.restriction, joinrel->relids))
			continue;
		join.clause = clause_of(join.restriction, outerrel->relids, innerrel->relids);
		join.keys = join.clause == NULL ? NULL : listing_of(join.clause);
		if (join.keys == NULL ||
			!dv_plan_takes_keys(root, innerrel, join.restriction, join.keys, &join.read))
			continue;
		if (join.outer == NULL)
			join.outer = type != JOIN_UNIQUE_OUTER ? outerrel->cheapest_total_path :
				dv_unique_path(root, outerrel, outerrel->cheapest_total_path, extra->sjinfo);
		if (join.outer == NULL || join.outer->param_info != NULL)
			return;
		add_join_path(&join);
	}
}

static void
offer_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
			JoinType type, JoinPathExtraData * extra)
{
	if (next_hook != NULL)
		next_hook(root, joinrel, outerrel, innerrel, type, extra);
	if (is_possible(root, joinrel, outerrel, innerrel, type, extra))
		add_paths(root, joinrel, outerrel, innerrel, type, extra);
}

void
dv_lookup_join_init(void)
{
	RegisterCustomScanMethods(&dv_lookup_join_methods);
	next_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = offer_paths;
}

/*
 * The plan
 */

/* Is this the same column, or the same expression computed below? */
static bool
is_same_value(const Node *a, const Node *b)
{
	if (IsA(a, Var) && IsA(b, Var))
		return ((const Var *) a)->varno == ((const Var *) b)->varno &&
			((const Var *) a)->varattno == ((const Var *) b)->varattno;
	return IsA(a, PlaceHolderVar) && IsA(b, PlaceHolderVar) &&
		((const PlaceHolderVar *) a)->phid == ((const PlaceHolderVar *) b)->phid;
}

static const Node *
same_value_in(const List *exprs, const Node *value)
{
	const ListCell *lc;

	foreach(lc, exprs)
	{
		const Node *expr = lfirst(lc);

		if (IsA(expr, TargetEntry))
			expr = (const Node *) ((const TargetEntry *) expr)->expr;
		if (is_same_value(value, expr))
			return expr;
	}
	return NULL;
}

/*
 * The scan tuple has each column once, as it is above the join: an outer join
 * may have made it null.  The planner insists that all expressions of the node
 * say the same about that.
 */
static void
adopt_from(Node *value, const List *exprs)
{
	const Node *same = same_value_in(exprs, value);

	if (same != NULL)
		dv_copy_nullingrels(value, same);
}

/*
 * Changes an expression in place, so that it refers to the scan tuple.  Whole rows
 * of a table that is written are of type record for PostgreSQL, and of the table's
 * type for users, but only one of them is read.
 */
static bool
adopt_all(Node *node, void *scan_tuple)
{
	const Node *same;

	if (node == NULL)
		return false;
	if (!IsA(node, Var) && !IsA(node, PlaceHolderVar))
		return expression_tree_walker(node, adopt_all, scan_tuple);
	adopt_from(node, scan_tuple);
	same = same_value_in(scan_tuple, node);
	if (same != NULL && IsA(node, Var))
		((Var *) node)->vartype = ((const Var *) same)->vartype;
	return expression_tree_walker(node, adopt_all, scan_tuple);
}

/*
 * Returns the columns that are needed above the join.  If the node computes the final
 * target list, that list has replaced the one of the relation or the path.
 */
static List *
values_above(const Path *path)
{
	return pull_var_clause((Node *) list_concat_copy(path->pathtarget->exprs,
													 path->parent->reltarget->exprs),
						   PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
						   PVC_INCLUDE_PLACEHOLDERS);
}

static List *
add_side(List *scan_tuple, const Plan *side, const List *above)
{
	const ListCell *lc;

	foreach(lc, side->targetlist)
	{
		Expr	   *expr = copyObject(lfirst_node(TargetEntry, lc)->expr);

		adopt_from((Node *) expr, above);
		scan_tuple = lappend(scan_tuple,
							 makeTargetEntry(expr, list_length(scan_tuple) + 1, NULL, false));
	}
	return scan_tuple;
}

/*
 * The clauses other than that of the keys, in the order of their security levels:
 * one that could reveal what it is applied to must not come before one that hides
 * rows.
 */
static List *
in_order(const List *restrictions, const RestrictInfo *key)
{
	List	   *ordered = NIL;
	const ListCell *lc;

	foreach(lc, restrictions)
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, lc);
		int			i = list_length(ordered);

		if (restriction == key)
			continue;
		while (i > 0 && ((RestrictInfo *) list_nth(ordered, i - 1))->security_level >
			   restriction->security_level)
			i--;
		ordered = list_insert_nth(ordered, i, restriction);
	}
	return ordered;
}

static Plan *
plan_join(PlannerInfo *root, RelOptInfo *rel, CustomPath * best_path, List *tlist,
		  List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	JoinType	type = intVal(linitial(best_path->custom_private));
	OpExpr	   *key = copyObject(lsecond(best_path->custom_private));
	List	   *others = in_order(lfourth(best_path->custom_private),
								  lthird(best_path->custom_private));
	const Plan *outer = linitial(custom_plans);
	List	   *above = values_above(&best_path->path);
	List	   *filter = NIL;

	if (IS_OUTER_JOIN(type))
		extract_actual_join_clauses(others, rel->relids, &others, &filter);
	else
		others = extract_actual_clauses(others, false);
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = copyObject(filter);
	scan->flags = best_path->flags;
	scan->custom_plans = custom_plans;
	scan->custom_exprs = list_make2(key, copyObject(others));
	scan->custom_private = list_make2_int(type, list_length(outer->targetlist));
	scan->custom_scan_tlist = add_side(add_side(NIL, outer, above), lsecond(custom_plans), above);
	scan->methods = &dv_lookup_join_methods;
	(void) adopt_all((Node *) scan->custom_exprs, scan->custom_scan_tlist);
	(void) adopt_all((Node *) scan->scan.plan.qual, scan->custom_scan_tlist);
	return &scan->scan.plan;
}

/*
 * plan.c
 *		Planning of reads.
 *
 * Each restriction clause is one of three: the service answers it exactly
 * (and nobody looks at it again), it answers a superset (and the clause is
 * checked here, too), or the clause stays here.  See fdw/ship.c.
 *
 * Besides the plain scan there are paths
 * - that take values from the outer side of a join: one request for each
 *	 outer row, which is worth it for few of them;
 * - in an order that the service keeps as PostgreSQL would;
 * - of rows to be updated or deleted whose ids the clauses name: they cost
 *	 nothing, since nobody is asked;
 * - for LIMIT and OFFSET, and for COUNT(*), only when the service answers all
 *	 clauses exactly, and only above the scan, where PostgreSQL knows that
 *	 nothing comes between.
 *
 * Costs: a request is dear, whatever it brings.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "fdw/estimate.h"
#include "fdw/plan.h"
#include "fdw/ship.h"
#include "fdw/result_relation.h"

/* In PostgreSQL's units, of which a page read in order is one. */
#define REQUEST_COST 100.0
#define ROW_COST 0.05
/* Rows of a table that nobody has counted. */
#define UNKNOWN_ROWS 10000.0

/* Kinds of what a path carries to the plan. */
typedef enum path_kind
{
	PATH_ROWS,
	PATH_LIMIT,
	PATH_COUNT
} path_kind;

/* What is known about a table of a query while it is planned. */
typedef struct table_plan
{
	RelOptInfo *baserel;
	dv_relation *relation;
	List	   *exact;			/* RestrictInfos */
	List	   *superset;
	List	   *local;
	List	   *conditions;		/* of the first two, for what they say about nulls */
	bool		gated;			/* a clause without columns decides about the whole scan */
	bool		long_in;
	bool		written;		/* by the statement: all rows have to be read before the first is
								 * written */
	Bitmapset  *changing;		/* parameters that would make it read more later */
	double		fetched;		/* rows that come over the wire */
} table_plan;

/*
 * Clauses
 */

static void
start_shipping(dv_shipping *shipping, PlannerInfo *root, const table_plan *tp)
{
	dv_shipping_init(shipping, root, tp->relation, tp->baserel->relid);
	shipping->changing = tp->changing;
}

/* What can be done with clauses, in the order given.  Values go to shipping->values. */
static void
classify(table_plan *tp, dv_shipping *shipping, List *clauses, List **exact, List **superset,
		 List **local, List **conditions)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		dv_policy	policy;
		List	   *condition;

		if (rinfo->pseudoconstant)
		{
			tp->gated = true;
			continue;
		}
		condition = dv_ship(shipping, rinfo->clause, &policy);
		if (condition != NIL)
			*conditions = lappend(*conditions, condition);
		if (policy == DV_EXACT)
			*exact = lappend(*exact, rinfo);
		else if (policy == DV_SUPERSET)
			*superset = lappend(*superset, rinfo);
		else
			*local = lappend(*local, rinfo);
	}
}

static double
selectivity_of(PlannerInfo *root, RelOptInfo *baserel, List *clauses)
{
	return clauselist_selectivity(root, clauses, baserel->relid, JOIN_INNER, NULL);
}

/* On whose behalf the table will be read. */
static Oid
scan_user(PlannerInfo *root, RelOptInfo *baserel)
{
	return OidIsValid(baserel->userid) ? baserel->userid : GetUserId();
}

void
dataverseGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	table_plan *tp = palloc0(sizeof(*tp));
	dv_shipping shipping;

	tp->baserel = baserel;
	tp->relation = dv_relation_open(foreigntableid);
	baserel->fdw_private = tp;
	if (dv_resultrel_may_be_written(root) && dv_resultrel_will_be_written(tp->relation, root))
	{
		tp->written = true;
		tp->changing = dv_resultrel_changing(root);
	}
	start_shipping(&shipping, root, tp);
	classify(tp, &shipping, baserel->baserestrictinfo, &tp->exact, &tp->superset, &tp->local,
			 &tp->conditions);
	tp->long_in = shipping.long_in;

	if (dv_option_bool(tp->relation->options, DV_OPT_USE_REMOTE_ESTIMATE))
		baserel->tuples = dv_remote_row_count(tp->relation, scan_user(root, baserel));
	else if (baserel->tuples <= 0)
		baserel->tuples = UNKNOWN_ROWS;
	set_baserel_size_estimates(root, baserel);
	tp->fetched = clamp_row_est(baserel->tuples *
								selectivity_of(root, baserel,
											   list_concat_copy(tp->exact, tp->superset)));
}

/*
 * Paths
 */

static void
scan_cost(const table_plan *tp, double fetched, int requests, Cost *startup, Cost *total)
{
	double		page_size = dv_relation_page_size(tp->relation);
	double		pages = ceil(fetched / page_size);
	QualCost	qual = tp->baserel->baserestrictcost;

	/* the first page comes whole, however few of its rows are wanted */
	*startup = REQUEST_COST * requests + Min(fetched, page_size) * ROW_COST + qual.startup +
		tp->baserel->reltarget->cost.startup;
	*total = *startup + REQUEST_COST * Max(pages - 1, 0) + Max(fetched - page_size, 0) * ROW_COST +
		fetched * (cpu_tuple_cost + qual.per_tuple + tp->baserel->reltarget->cost.per_tuple);
}

/* Rows whose ids the clauses name, and of which nothing else is wanted. */
static bool
is_given(PlannerInfo *root, table_plan *tp, List *clauses)
{
	dv_shipping shipping;
	List	   *exact = NIL;
	List	   *others = NIL;
	List	   *conditions = NIL;

	start_shipping(&shipping, root, tp);
	classify(tp, &shipping, clauses, &exact, &others, &others, &conditions);
	return others == NIL && dv_resultrel_is_given(root, tp->baserel, tp->relation, conditions);
}

/* What a path costs that asks for nothing. */
static void
given_cost(const table_plan *tp, double rows, Cost *startup, Cost *total)
{
	*startup = tp->baserel->baserestrictcost.startup + tp->baserel->reltarget->cost.startup;
	*total = *startup + rows * (cpu_tuple_cost + tp->baserel->reltarget->cost.per_tuple);
}

/* What a path carries: (kind, nulls, orders) */
static List *
path_private(path_kind kind, dv_nulls nulls, List *orders)
{
	return list_make3(makeInteger(kind), makeInteger(nulls), orders);
}

static Expr *
member_of(const table_plan *tp, EquivalenceClass *ec)
{
	ListCell   *lc;

	if (ec->ec_has_volatile)
		return NULL;
	foreach(lc, dv_members_of_class(ec, tp->baserel->relids))
	{
		EquivalenceMember *em = lfirst(lc);

		if (bms_equal(em->em_relids, tp->baserel->relids))
			return em->em_expr;
	}
	return NULL;
}

static bool
never_null(const table_plan *tp, AttrNumber attnum)
{
	ListCell   *lc;

	foreach(lc, tp->conditions)
	{
		if (dv_condition_guards(lfirst(lc), attnum))
			return true;
	}
	return false;
}

/*
 * The service's words for sort keys: (attribute number, descending, …).
 * False if it would sort otherwise.  *nulls: what has to be done about the
 * first key's nulls; for the others nothing can be done.
 */
static bool
orders_of(PlannerInfo *root, const table_plan *tp, List *pathkeys, List **orders, dv_nulls *nulls)
{
	dv_shipping shipping;
	ListCell   *lc;

	start_shipping(&shipping, root, tp);
	*orders = NIL;
	*nulls = DV_NULLS_AS_SORTED;
	foreach(lc, pathkeys)
	{
		PathKey    *key = lfirst_node(PathKey, lc);
		bool		descending = dv_pathkey_descending(key);
		Expr	   *expr = member_of(tp, key->pk_eclass);
		AttrNumber	attnum = expr == NULL ? 0 : dv_ship_order(&shipping, expr);
		TypeCacheEntry *type;

		if (attnum == 0)
			return false;
		type = lookup_type_cache(exprType((Node *) expr), TYPECACHE_BTREE_OPFAMILY);
		if (type->btree_opf != key->pk_opfamily)
			return false;
		if (key->pk_nulls_first == descending && !never_null(tp, attnum))
		{
			if (*orders != NIL)
				return false;
			*nulls = descending ? DV_NULLS_FIRST : DV_NULLS_LAST;
		}
		*orders = lappend_int(*orders, attnum);
		*orders = lappend_int(*orders, descending);
	}
	/* a list that goes in several requests cannot be sorted by one of them */
	return *orders != NIL && !tp->long_in;
}

static void
add_ordered_path(PlannerInfo *root, table_plan *tp)
{
	List	   *orders;
	dv_nulls	nulls;
	Cost		startup;
	Cost		total;

	if (root->query_pathkeys == NIL ||
		!orders_of(root, tp, root->query_pathkeys, &orders, &nulls))
		return;
	scan_cost(tp, tp->fetched, nulls == DV_NULLS_AS_SORTED ? 1 : 2, &startup, &total);
	add_path(tp->baserel, (Path *)
			 dv_foreignscan_path(root, tp->baserel, tp->baserel->rows, startup, total * 1.01,
								 root->query_pathkeys, tp->baserel->lateral_relids,
								 path_private(PATH_ROWS, nulls, orders)));
}

/*
 * Parameterised paths: clauses that a join gives, with the other side's
 * columns as values.
 */

static bool
joins_remotely(PlannerInfo *root, const table_plan *tp, RestrictInfo *rinfo)
{
	dv_shipping shipping;
	dv_policy	policy;

	start_shipping(&shipping, root, tp);
	return dv_ship(&shipping, rinfo->clause, &policy) != NIL;
}

static List *
add_parameterization(PlannerInfo *root, const table_plan *tp, RestrictInfo *rinfo, List *ppis)
{
	RelOptInfo *baserel = tp->baserel;
	Relids		outer;

	if (!join_clause_is_movable_to(rinfo, baserel) || !joins_remotely(root, tp, rinfo))
		return ppis;
	outer = bms_union(rinfo->clause_relids, baserel->lateral_relids);
	outer = bms_del_member(outer, baserel->relid);
	if (bms_is_empty(outer))
		return ppis;
	return list_append_unique_ptr(ppis, get_baserel_parampathinfo(root, baserel, outer));
}

/* Which member of equivalence classes is asked about, and which have been. */
typedef struct member_search
{
	Expr	   *current;
	List	   *done;
} member_search;

static bool
is_member_wanted(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec, EquivalenceMember *em,
				 void *arg)
{
	member_search *search = arg;

	if (search->current != NULL)
		return equal(em->em_expr, search->current);
	if (list_member(search->done, em->em_expr))
		return false;
	search->current = em->em_expr;
	return true;
}

static List *
add_equivalences(PlannerInfo *root, const table_plan *tp, List *ppis)
{
	member_search search = {NULL, NIL};

	for (;;)
	{
		List	   *clauses;
		ListCell   *lc;

		search.current = NULL;
		clauses = generate_implied_equalities_for_column(root, tp->baserel, is_member_wanted,
														 &search, tp->baserel->lateral_referencers);
		if (search.current == NULL)
			return ppis;
		foreach(lc, clauses)
		{
			ppis = add_parameterization(root, tp, lfirst_node(RestrictInfo, lc), ppis);
		}
		search.done = lappend(search.done, search.current);
	}
}

static void
add_parameterized_path(PlannerInfo *root, table_plan *tp, ParamPathInfo *ppi)
{
	List	   *clauses = list_concat_copy(tp->baserel->baserestrictinfo, ppi->ppi_clauses);
	bool		given = is_given(root, tp, clauses);
	List	   *remote = NIL;
	ListCell   *lc;
	Cost		startup;
	Cost		total;
	double		fetched;

	if (tp->written && !given &&
		!dv_resultrel_stays_as_read(root, tp->baserel, tp->relation,
									extract_actual_clauses(clauses, false)))
		return;
	foreach(lc, ppi->ppi_clauses)
	{
		if (joins_remotely(root, tp, lfirst_node(RestrictInfo, lc)))
			remote = lappend(remote, lfirst(lc));
	}
	fetched = clamp_row_est(tp->fetched * selectivity_of(root, tp->baserel, remote));
	scan_cost(tp, fetched, 1, &startup, &total);
	if (given)
		given_cost(tp, ppi->ppi_rows, &startup, &total);
	add_path(tp->baserel, (Path *)
			 dv_foreignscan_path(root, tp->baserel, ppi->ppi_rows, startup, total, NIL,
								 ppi->ppi_req_outer,
								 path_private(PATH_ROWS, DV_NULLS_AS_SORTED, NIL)));
}

void
dataverseGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	table_plan *tp = baserel->fdw_private;
	List	   *ppis = NIL;
	ListCell   *lc;
	Cost		startup;
	Cost		total;

	scan_cost(tp, tp->fetched, 1, &startup, &total);
	if (is_given(root, tp, baserel->baserestrictinfo))
		given_cost(tp, baserel->rows, &startup, &total);
	add_path(baserel, (Path *)
			 dv_foreignscan_path(root, baserel, baserel->rows, startup, total, NIL,
								 baserel->lateral_relids,
								 path_private(PATH_ROWS, DV_NULLS_AS_SORTED, NIL)));
	add_ordered_path(root, tp);

	foreach(lc, baserel->joininfo)
	{
		ppis = add_parameterization(root, tp, lfirst_node(RestrictInfo, lc), ppis);
	}
	if (baserel->has_eclass_joins)
		ppis = add_equivalences(root, tp, ppis);
	foreach(lc, ppis)
	{
		add_parameterized_path(root, tp, lfirst(lc));
	}
}

/*
 * Above the scan
 */

/* Does the service answer the whole WHERE clause of the only table of a query? */
static bool
answers_all(PlannerInfo *root, const table_plan *tp)
{
	return tp->local == NIL && tp->superset == NIL && !tp->gated &&
		bms_membership(root->all_baserels) == BMS_SINGLETON &&
		bms_equal(root->all_baserels, tp->baserel->relids) &&
		tp->baserel->reloptkind == RELOPT_BASEREL && bms_is_empty(tp->baserel->lateral_relids) &&
		root->parse->rowMarks == NIL && root->parse->commandType == CMD_SELECT;
}

static bool
is_count(Node *node)
{
	Aggref	   *agg = (Aggref *) node;

	return IsA(agg, Aggref) && agg->aggfnoid == F_COUNT_ && agg->aggfilter == NULL &&
		agg->aggorder == NIL && agg->aggdistinct == NIL && agg->aggsplit == AGGSPLIT_SIMPLE;
}

/* SELECT count(*): the one aggregate, if there is no other and no group. */
static void
add_count_path(PlannerInfo *root, table_plan *tp, RelOptInfo *output_rel)
{
	Query	   *parse = root->parse;
	PathTarget *target = root->upper_targets[UPPERREL_GROUP_AGG];
	List	   *parts;
	ListCell   *lc;

	if (tp->relation->type != DV_TABLE_STANDARD || !answers_all(root, tp) ||
		parse->groupClause != NIL || parse->groupingSets != NIL || parse->hasTargetSRFs ||
		root->hasHavingQual)
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
	output_rel->fdw_private = tp;
	add_path(output_rel, (Path *)
			 dv_foreign_upper_path(root, output_rel, target, 1, REQUEST_COST, REQUEST_COST + 1, NIL,
								   path_private(PATH_COUNT, DV_NULLS_AS_SORTED, NIL)));
}

static bool
is_limit(Node *limit)
{
	return limit == NULL || (!contain_volatile_functions(limit) && !contain_subplans(limit));
}

/* Only columns of the table: no whole rows, no system columns. */
static bool
has_plain_columns(PathTarget *target)
{
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) target->exprs, PVC_RECURSE_PLACEHOLDERS))
	{
		Var		   *var = lfirst(lc);

		if (var->varattno <= 0 || var->varlevelsup != 0)
			return false;
	}
	return true;
}

static void
add_limit_path(PlannerInfo *root, table_plan *tp, RelOptInfo *output_rel,
			   FinalPathExtraData *extra)
{
	Query	   *parse = root->parse;
	PathTarget *target = root->upper_targets[UPPERREL_FINAL];
	List	   *orders = NIL;
	dv_nulls	nulls = DV_NULLS_AS_SORTED;
	double		fetched;
	Cost		startup;
	Cost		total;

	if (!extra->limit_needed || parse->limitOption == LIMIT_OPTION_WITH_TIES ||
		tp->relation->type == DV_TABLE_VIRTUAL || !answers_all(root, tp) || parse->hasAggs ||
		parse->groupClause != NIL || parse->groupingSets != NIL || parse->distinctClause != NIL ||
		parse->hasWindowFuncs || parse->setOperations != NULL || parse->hasTargetSRFs ||
		root->hasHavingQual || !is_limit(parse->limitCount) || !is_limit(parse->limitOffset) ||
		!has_plain_columns(target))
		return;
	if (root->sort_pathkeys != NIL &&
		!orders_of(root, tp, root->sort_pathkeys, &orders, &nulls))
		return;
	fetched = extra->limit_tuples > 0 ? Min(extra->limit_tuples, tp->fetched) :
		clamp_row_est(tp->fetched * 0.1);
	scan_cost(tp, fetched, nulls == DV_NULLS_AS_SORTED ? 1 : 2, &startup, &total);
	output_rel->fdw_private = tp;
	add_path(output_rel, (Path *)
			 dv_foreign_upper_path(root, output_rel, target, fetched, startup, total,
								   root->sort_pathkeys, path_private(PATH_LIMIT, nulls, orders)));
}

void
dataverseGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
							  RelOptInfo *output_rel, void *extra)
{
	int			relid = bms_next_member(root->all_baserels, -1);
	RelOptInfo *baserel;

	/* the query is about one table, or there is nothing for us above it */
	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_FINAL) ||
		output_rel->fdw_private != NULL || bms_membership(root->all_baserels) != BMS_SINGLETON)
		return;
	baserel = root->simple_rel_array[relid];
	if (baserel == NULL || baserel->rtekind != RTE_RELATION || baserel->fdw_private == NULL ||
		baserel->fdwroutine == NULL || baserel->fdwroutine != input_rel->fdwroutine)
		return;
	if (stage == UPPERREL_GROUP_AGG)
		add_count_path(root, baserel->fdw_private, output_rel);
	else
		add_limit_path(root, baserel->fdw_private, output_rel, extra);
}

/*
 * The plan
 */

static List *
columns_of_base(PlannerInfo *root, const table_plan *tp, List *local, List *superset)
{
	Bitmapset  *used = dv_resultrel_columns(root, tp->baserel);
	List	   *columns = NIL;
	bool		whole;
	int			i;

	pull_varattnos((Node *) local, tp->baserel->relid, &used);
	pull_varattnos((Node *) superset, tp->baserel->relid, &used);
	whole = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used);
	for (i = 1; i <= tp->relation->natts; i++)
	{
		bool		wanted = tp->relation->attributes[i - 1].name != NULL &&
		(whole || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used));

		columns = lappend_int(columns, wanted ? i : 0);
	}
	return columns;
}

/* The scan tuple of a path above the scan. */
static List *
upper_tlist(path_kind kind, List *tlist, List **columns)
{
	List	   *parts = pull_var_clause((Node *) tlist, PVC_INCLUDE_AGGREGATES |
										PVC_RECURSE_PLACEHOLDERS);
	List	   *scan_tlist = add_to_flat_tlist(NIL, parts);
	ListCell   *lc;

	*columns = NIL;
	foreach(lc, scan_tlist)
	{
		Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;

		*columns = lappend_int(*columns, kind == PATH_COUNT ? 0 : ((Var *) expr)->varattno);
	}
	return scan_tlist;
}

static int
add_expression(List **values, Node *expr)
{
	if (expr == NULL)
		return -1;
	*values = lappend(*values, expr);
	return list_length(*values) - 1;
}

static List *
and_of(List *conditions)
{
	if (list_length(conditions) > 1)
		return lcons(makeInteger(DV_OP_AND), conditions);
	return conditions == NIL ? NIL : linitial(conditions);
}

/* First the table's own clauses, in the order in which they were judged before. */
static List *
in_order(const table_plan *tp, List *clauses)
{
	List	   *ordered = NIL;
	ListCell   *lc;

	foreach(lc, tp->baserel->baserestrictinfo)
	{
		if (list_member_ptr(clauses, lfirst(lc)))
			ordered = lappend(ordered, lfirst(lc));
	}
	return list_concat_unique_ptr(ordered, clauses);
}

ForeignScan *
dataverseGetForeignPlan(PlannerInfo *root, RelOptInfo *foreignrel, Oid foreigntableid,
						ForeignPath *best_path, List *tlist, List *scan_clauses, Plan *outer_plan)
{
	table_plan *tp = foreignrel->fdw_private;
	path_kind	kind = (path_kind) intVal(linitial(best_path->fdw_private));
	bool		upper = kind != PATH_ROWS;
	List	   *exact = NIL;
	List	   *superset = NIL;
	List	   *local = NIL;
	List	   *conditions = NIL;
	List	   *columns;
	List	   *scan_tlist = NIL;
	List	   *private;
	dv_shipping shipping;
	int			limit = -1;
	int			offset = -1;

	start_shipping(&shipping, root, tp);
	classify(tp, &shipping, upper ? tp->baserel->baserestrictinfo : in_order(tp, scan_clauses),
			 &exact, &superset, &local, &conditions);
	exact = extract_actual_clauses(exact, false);
	superset = extract_actual_clauses(superset, false);
	local = extract_actual_clauses(local, false);
	if (upper)
		scan_tlist = upper_tlist(kind, tlist, &columns);
	else
		columns = columns_of_base(root, tp, local, superset);
	if (kind == PATH_LIMIT)
	{
		limit = add_expression(&shipping.values, root->parse->limitCount);
		offset = add_expression(&shipping.values, root->parse->limitOffset);
	}
	private = list_make5(columns, and_of(conditions), lthird(best_path->fdw_private),
						 lsecond(best_path->fdw_private), makeInteger(limit));
	private = lappend(private, makeInteger(offset));
	private = lappend(private, makeInteger(kind == PATH_COUNT));
	private = lappend(private, makeInteger(list_length(superset)));
	private = lappend(private, makeInteger(!upper && superset == NIL && local == NIL &&
										   dv_resultrel_is_given(root, tp->baserel, tp->relation,
																 conditions)));
	return make_foreignscan(tlist, list_concat(local, superset), upper ? 0 : tp->baserel->relid,
							shipping.values, private, scan_tlist, upper ? NIL : exact, outer_plan);
}

bool
dv_path_gives_rows(const ForeignPath *path)
{
	const table_plan *tp = path->path.parent->fdw_private;

	/* what the statement writes is read as a whole, and nobody waits beside it */
	return intVal(linitial(path->fdw_private)) != PATH_COUNT && !tp->written;
}

Oid
dv_plan_relid(const ForeignScan *plan, EState *estate)
{
	int			rti = plan->scan.scanrelid > 0 ? (int) plan->scan.scanrelid :
	bms_next_member(plan->fs_relids, -1);

	return exec_rt_fetch(rti, estate)->relid;
}

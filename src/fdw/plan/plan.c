/*
 * plan.c
 *		Planning of reads.
 *
 * What the service does with the restriction clauses of a path is found out by
 * fdw/plan/plan_clauses.c.
 *
 * Besides the plain scan there are paths
 * - that take values from the outer side of a join: one request for each outer
 *	 row, which pays off if there are few of them;
 * - in an order that the service sorts by as PostgreSQL would;
 * - of rows to be updated or deleted whose ids are given by the clauses: these
 *	 need no request, so they cost almost nothing;
 * - below a join that gives a list of keys, over and over (fdw/plan/plan_lookup.c).
 *
 * In the cost model (fdw/plan/cost.h) a request is expensive, however few rows it
 * returns.
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

#include "client/forms.h"
#include "compat.h"
#include "fdw/connection.h"
#include "fdw/plan/plan_table.h"
#include "fdw/result_relation.h"
#include "fdw/scan/count.h"
#include "fdw/scan/list.h"
#include "fdw/tid.h"

/* The number of rows assumed for a table without statistics */
#define UNKNOWN_ROWS 10000.0

static double
selectivity_of(PlannerInfo *root, const RelOptInfo *rel, List *clauses)
{
	return clauselist_selectivity(root, clauses, rel->relid, JOIN_INNER, NULL);
}

/* The user that the table will be read as. */
static Oid
scan_user(PlannerInfo *root, RelOptInfo *baserel)
{
	return OidIsValid(baserel->userid) ? baserel->userid : GetUserId();
}

/* Returns the columns that PostgreSQL needs, including those of clauses that it checks. */
static List *
columns_to_read(const dv_table_plan *tp)
{
	List	   *checked = list_concat_copy(tp->own->superset, tp->own->local);
	Bitmapset  *used = NULL;
	List	   *columns = NIL;
	bool		whole;
	int			i;

	pull_varattnos((Node *) tp->baserel->reltarget->exprs, tp->baserel->relid, &used);
	pull_varattnos((Node *) extract_actual_clauses(checked, false), tp->baserel->relid, &used);
	whole = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used);
	for (i = 1; i <= tp->relation->natts; i++)
		if (whole || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used))
			columns = lappend_int(columns, i);
	return columns;
}

/* Raises an error if the query uses the ctid of rows in a way that is not supported. */
static void
check_tid(const RelOptInfo *baserel, const dv_relation *relation)
{
	List	   *clauses = list_concat_copy(baserel->baserestrictinfo, baserel->joininfo);
	Bitmapset  *used = NULL;

	pull_varattnos((Node *) baserel->reltarget->exprs, baserel->relid, &used);
	pull_varattnos((Node *) extract_actual_clauses(baserel->baserestrictinfo, false),
				   baserel->relid, &used);
	if (bms_is_member(DV_TID_MEMBER, used))
		dv_tid_check(relation, baserel->relid, clauses);
}

void
dataverseGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	dv_table_plan *tp = palloc0(sizeof(*tp));
	const dv_session *session;

	tp->baserel = baserel;
	tp->relation = dv_relation_open(foreigntableid);
	session = dv_connection_find(tp->relation->serverid, scan_user(root, baserel));
	tp->joins_refused = session != NULL && dv_form_noted(session, DV_FORM_JOINS);
	tp->costs = dv_costs_of(tp->relation, scan_user(root, baserel));
	check_tid(baserel, tp->relation);
	baserel->fdw_private = tp;
	dv_shipping_init(&tp->shipping, tp->relation, baserel->relid);
	if (dv_resultrel_may_be_written(root) && dv_resultrel_will_be_written(tp->relation, root))
	{
		tp->written = true;
		tp->shipping.changing = dv_resultrel_changing(root);
	}
	tp->own = dv_clauses_of(tp, NULL, NULL);

	if (dv_option_bool(tp->relation->options, DV_OPT_USE_REMOTE_ESTIMATE))
	{
		double		told = dv_count_told(tp->relation, scan_user(root, baserel));

		if (told >= 0)
			baserel->tuples = told;
	}
	tp->counted = baserel->tuples > 0;
	if (!tp->counted)
		baserel->tuples = UNKNOWN_ROWS;
	set_baserel_size_estimates(root, baserel);
	tp->fetched = clamp_row_est(baserel->tuples *
								selectivity_of(root, baserel,
											   list_concat_copy(tp->own->exact, tp->own->superset)));
	tp->row_bytes = dv_cost_row_bytes(tp->relation, columns_to_read(tp));
}

/*
 * Paths
 */

void
dv_plan_scan_cost(const dv_table_plan *tp, double row_bytes, double fetched, int requests, int parts,
				  Cost *startup, Cost *total)
{
	double		page_size = dv_relation_page_size(tp->relation);
	double		pages = Max(ceil(fetched / page_size), parts);
	double		row = dv_cost_row(&tp->costs, row_bytes);
	QualCost	qual = tp->baserel->baserestrictcost;

	/* the first page is sent completely, however few of its rows are needed */
	*startup = tp->costs.request * requests + Min(fetched, page_size) * row + qual.startup +
		tp->baserel->reltarget->cost.startup;
	*total = *startup + tp->costs.request * Max(pages - 1, 0) + Max(fetched - page_size, 0) * row +
		fetched * (cpu_tuple_cost + qual.per_tuple + tp->baserel->reltarget->cost.per_tuple);
}

int
dv_plan_first_requests(const dv_read_plan *plan)
{
	return plan->nulls == DV_NULLS_AS_SORTED ? 1 : 2;
}

/* Do the clauses give the ids of the rows, and is nothing but the ids needed? */
static bool
ids_suffice(PlannerInfo *root, const dv_table_plan *tp, const dv_path_clauses *c)
{
	return c->superset == NIL && c->local == NIL &&
		dv_resultrel_ids_suffice(root, tp->baserel, tp->relation, c->conditions);
}

/* The cost of a path that needs no request. */
static void
cost_without_request(const dv_table_plan *tp, double rows, Cost *startup, Cost *total)
{
	*startup = tp->baserel->baserestrictcost.startup + tp->baserel->reltarget->cost.startup;
	*total = *startup + rows * (cpu_tuple_cost + tp->baserel->reltarget->cost.per_tuple);
}

int
dv_plan_rows_without_list(PlannerInfo *root, const dv_table_plan *tp, const dv_path_clauses *c)
{
	List	   *others = list_concat_copy(c->exact, c->superset);

	if (!c->shipping.long_in || !tp->counted)
		return 0;
	if (c->listing != NULL)
		others = list_delete_ptr(others, c->listing);
	return (int) Min(clamp_row_est(tp->baserel->tuples *
								   selectivity_of(root, tp->baserel, others)), PG_INT32_MAX);
}

/*
 * Computes the cost of a scan with the clauses of a path.  A long list of values
 * is either sent in parts or not sent at all, and then more rows are read.  The
 * executor decides between the two when it knows the values
 * (fdw/scan/request.c).
 */
static void
path_cost(PlannerInfo *root, const dv_table_plan *tp, const dv_path_clauses *c, double fetched,
		  int requests, Cost *startup, Cost *total)
{
	int			parts = c->listing == NULL ? 1 : dv_list_parts(c->listing->clause);
	double		all = parts == 1 ? 0 : dv_plan_rows_without_list(root, tp, c);
	Cost		startup_all;
	Cost		total_all;

	dv_plan_scan_cost(tp, tp->row_bytes, fetched, requests, parts, startup, total);
	if (all == 0)
		return;
	dv_plan_scan_cost(tp, tp->row_bytes, all, requests, 1, &startup_all, &total_all);
	if (total_all < *total)
	{
		*startup = startup_all;
		*total = total_all;
	}
}

/* Adds a path that fetches "fetched" rows of the table and returns "rows" of them. */
static void
add_scan_path(PlannerInfo *root, dv_table_plan *tp, const dv_path_clauses *c, double rows,
			  double fetched, List *pathkeys, dv_read_plan *plan)
{
	RelOptInfo *baserel = tp->baserel;
	Cost		startup;
	Cost		total;

	plan->ids_suffice = ids_suffice(root, tp, c);
	if (plan->ids_suffice)
		cost_without_request(tp, rows, &startup, &total);
	else
		path_cost(root, tp, c, fetched, dv_plan_first_requests(plan), &startup, &total);
	add_path(baserel, (Path *)
			 dv_foreignscan_path(root, baserel, rows, startup,
								 pathkeys != NIL ? total * 1.01 : total, pathkeys,
								 c->param_info != NULL ? c->param_info->ppi_req_outer : NULL,
								 dv_read_plan_pack(plan)));
}

static Expr *
member_of(const dv_table_plan *tp, EquivalenceClass *ec)
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
never_null(const dv_path_clauses *c, AttrNumber attnum)
{
	ListCell   *lc;

	foreach(lc, c->conditions)
	{
		if (dv_condition_guards(lfirst(lc), attnum))
			return true;
	}
	return false;
}

/*
 * Translates sort keys to orders in the plan.  Returns false if the service
 * would sort differently.  Only for the first key can nulls be moved to the
 * other end.
 */
bool
dv_plan_set_orders(const dv_table_plan *tp, const dv_path_clauses *c, List *pathkeys,
				   dv_read_plan *plan)
{
	size_t		bytes = 0;
	ListCell   *lc;

	foreach(lc, pathkeys)
	{
		PathKey    *key = lfirst_node(PathKey, lc);
		bool		descending = dv_pathkey_descending(key);
		Expr	   *expr = member_of(tp, key->pk_eclass);
		AttrNumber	attnum = expr == NULL ? 0 : dv_ship_order(&tp->shipping, expr);
		TypeCacheEntry *type;

		if (attnum == 0)
			return false;
		type = lookup_type_cache(exprType((Node *) expr), TYPECACHE_BTREE_OPFAMILY);
		if (type->btree_opf != key->pk_opfamily)
			return false;
		if (key->pk_nulls_first == descending && !never_null(c, attnum))
		{
			if (plan->orders != NIL)
				return false;
			plan->nulls = descending ? DV_NULLS_FIRST : DV_NULLS_LAST;
		}
		bytes += strlen(dv_relation_attribute(tp->relation, attnum)->column.property) + 6;
		plan->orders = lappend_int(plan->orders, attnum);
		plan->orders = lappend_int(plan->orders, descending);
	}
	/* a list that is split over several requests cannot be sorted by the service */
	return plan->orders != NIL && !c->shipping.long_in && bytes <= DV_ORDER_BYTES;
}

/* Parameterized paths: join clauses, with the other side's columns as values. */

static List *
add_parameterization(PlannerInfo *root, const dv_table_plan *tp, RestrictInfo *rinfo, List *ppis)
{
	RelOptInfo *baserel = tp->baserel;
	Relids		outer;

	if (!join_clause_is_movable_to(rinfo, baserel) || !dv_clauses_can_ship(tp, rinfo))
		return ppis;
	outer = bms_union(rinfo->clause_relids, baserel->lateral_relids);
	outer = bms_del_member(outer, baserel->relid);
	if (bms_is_empty(outer))
		return ppis;
	return list_append_unique_ptr(ppis, get_baserel_parampathinfo(root, baserel, outer));
}

/* The member of equivalence classes being considered, and those considered before. */
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
add_equivalences(PlannerInfo *root, const dv_table_plan *tp, List *ppis)
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
add_parameterized_path(PlannerInfo *root, dv_table_plan *tp, ParamPathInfo *ppi)
{
	const dv_path_clauses *c = dv_clauses_of(tp, ppi, NULL);
	List	   *clauses = list_concat_copy(tp->baserel->baserestrictinfo, ppi->ppi_clauses);
	List	   *remote = list_concat(list_copy_tail(c->exact, list_length(tp->own->exact)),
									 list_copy_tail(c->superset, list_length(tp->own->superset)));
	dv_read_plan plan = DV_READ_PLAN;

	if (tp->written && !ids_suffice(root, tp, c) &&
		!dv_resultrel_stays_as_read(root, tp->baserel, tp->relation,
									extract_actual_clauses(clauses, false)))
		return;
	add_scan_path(root, tp, c, ppi->ppi_rows,
				  clamp_row_est(tp->fetched * selectivity_of(root, tp->baserel, remote)), NIL,
				  &plan);
}

void
dataverseGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	dv_table_plan *tp = baserel->fdw_private;
	const dv_path_clauses *c = dv_clauses_of(tp, get_baserel_parampathinfo(root, baserel,
																		   baserel->lateral_relids),
											 NULL);
	dv_read_plan plan = DV_READ_PLAN;
	dv_read_plan ordered = DV_READ_PLAN;
	List	   *ppis = NIL;
	ListCell   *lc;

	add_scan_path(root, tp, c, baserel->rows, tp->fetched, NIL, &plan);
	if (dv_plan_set_orders(tp, c, root->query_pathkeys, &ordered))
		add_scan_path(root, tp, c, baserel->rows, tp->fetched, root->query_pathkeys, &ordered);

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

/* Below a join that gives the keys of the rows that it needs, see fdw/plan/plan_lookup.c. */

bool
dv_plan_takes_keys(PlannerInfo *root, RelOptInfo *baserel, RestrictInfo *join, Expr *keys,
				   dv_keyed_read *read)
{
	dv_table_plan *tp = baserel->fdw_private;
	const dv_path_clauses *c;

	if (tp->gated || !bms_is_empty(baserel->lateral_relids) || !dv_clauses_may_ask(baserel, join) ||
		(tp->written && !dv_resultrel_is_sole_target(root, baserel, tp->relation)))
		return false;
	c = dv_clauses_of(tp, NULL, keys);
	if (c->key == 0)
		return false;
	read->attribute = dv_relation_attribute(tp->relation, c->key);
	read->is_id = strcmp(read->attribute->member, tp->relation->primary_id.property) == 0;
	read->written = tp->written;
	read->rows = tp->fetched;
	return true;
}

Path *
dv_plan_keyed_path(PlannerInfo *root, RelOptInfo *baserel, Expr *keys, double fetched,
				   double requests)
{
	const dv_table_plan *tp = baserel->fdw_private;
	dv_read_plan plan = DV_READ_PLAN;
	Cost		startup;
	Cost		each;

	dv_plan_scan_cost(tp, tp->row_bytes, fetched / requests, 1, 1, &startup, &each);
	return (Path *)
		dv_foreignscan_path(root, baserel, clamp_row_est(fetched * baserel->rows / tp->fetched),
							startup, each * requests, NIL, NULL,
							lappend(dv_read_plan_pack(&plan), keys));
}

/* The condition that a join adds to the path, or NULL. */
static Expr *
keys_of(const ForeignPath *path)
{
	return list_length(path->fdw_private) > DV_READ_PLAN_PARTS ?
		list_nth(path->fdw_private, DV_READ_PLAN_PARTS) : NULL;
}

/*
 * The plan
 */

static List *
columns_of_base(PlannerInfo *root, const dv_table_plan *tp, List *filter)
{
	Bitmapset  *used = dv_resultrel_columns(root, tp->baserel);
	List	   *columns = NIL;
	bool		whole;
	int			i;

	pull_varattnos((Node *) filter, tp->baserel->relid, &used);
	if (bms_is_member(DV_TID_MEMBER, used))
		used = bms_add_members(used, dv_tid_columns(tp->relation));
	whole = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used);
	for (i = 1; i <= tp->relation->natts; i++)
	{
		bool		wanted = tp->relation->attributes[i - 1].name != NULL &&
		(whole || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used));

		columns = lappend_int(columns, wanted ? i : 0);
	}
	return columns;
}

/* Returns the plan of a scan of the table. */
static ForeignScan *
plan_scan(PlannerInfo *root, RelOptInfo *baserel, ForeignPath *path, List *tlist,
		  List *scan_clauses, Plan *outer_plan)
{
	dv_table_plan *tp = baserel->fdw_private;
	const dv_path_clauses *c = dv_clauses_of(tp, path->path.param_info, keys_of(path));
	List	   *exact = extract_actual_clauses(c->exact, false);
	dv_read_plan plan = dv_read_plan_unpack(path->fdw_private);
	List	   *filter = dv_clauses_filter(c, scan_clauses, &plan.rechecks);
	dv_read_table *table = dv_read_plan_add_table(&plan);
	ListCell   *lc;

	table->rti = baserel->relid;
	table->condition = dv_condition_all(c->conditions);
	table->signature = tp->relation->signature;
	foreach(lc, columns_of_base(root, tp, filter))
	{
		dv_read_plan_add_column(&plan, 0, lfirst_int(lc));
	}
	plan.rows = tp->counted ? (int) Min(path->path.rows, PG_INT32_MAX) : 0;
	plan.rows_without_list = dv_plan_rows_without_list(root, tp, c);
	plan.keyed = keys_of(path) != NULL;
	return make_foreignscan(tlist, filter, baserel->relid, list_copy(c->shipping.values),
							dv_read_plan_pack(&plan), NIL, exact, outer_plan);
}

ForeignScan *
dataverseGetForeignPlan(PlannerInfo *root, RelOptInfo *foreignrel, Oid foreigntableid,
						ForeignPath *best_path, List *tlist, List *scan_clauses, Plan *outer_plan)
{
	if (IS_SIMPLE_REL(foreignrel))
		return plan_scan(root, foreignrel, best_path, tlist, scan_clauses, outer_plan);
	return dv_join_make_plan(root, foreignrel, best_path, tlist, outer_plan);
}

/* A scan of a table that the statement writes reads all rows first, so it is not asynchronous. */
bool
dv_path_gives_rows(const ForeignPath *path)
{
	dv_read_plan plan = dv_read_plan_unpack(path->fdw_private);
	const dv_join_plan *join = dv_join_plan_of(path->path.parent);
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		if (((const dv_joined_table *) lfirst(lc))->table->written)
			return false;
	}
	return !plan.count && !plan.grouped;
}

RangeTblEntry *
dv_plan_table(const ForeignScan *plan, EState *estate)
{
	int			rti = plan->scan.scanrelid > 0 ? (int) plan->scan.scanrelid :
	bms_next_member(plan->fs_relids, -1);

	return exec_rt_fetch(rti, estate);
}

/*
 * plan_group.c
 *		Planning of groups that the service forms.
 *
 * GROUP BY, DISTINCT, and aggregates are pushed down above a table or a join,
 * provided that the service answers all of its clauses.  The result has one row
 * for each group; HAVING is checked here, where the groups are few, and so are
 * ORDER BY and LIMIT.
 *
 * The service groups at most 50,000 rows and returns at most 5,000 groups.
 * Beyond that, the rows are divided by the ids of the root, and the groups of the
 * parts are put together here (fdw/scan/group_scan.c).  The costs take that into
 * account: with many groups, reading the rows is cheaper.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/tlist.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "fdw/plan/plan_table.h"

/* The cost of grouping a row, relative to that of returning it */
#define GROUPED_ROW_COST 0.1
/* Requests that each part of a divided query takes */
#define REQUESTS_FOR_PART 3.0

/* Bytes around the name of a grouping column, and how many columns a date becomes */
#define OUTPUT_BYTES 120
#define OUTPUTS_OF_DATE 3

/* The columns of the groups found so far. */
typedef struct grouping
{
	const dv_join_plan *join;
	List	   *exprs;			/* of the scan tuple */
	List	   *items;			/* dv_read_item for each of them */
} grouping;

/*
 * Keys
 */

static bool
allows(const grouping *g, int table, AttrNumber attnum, dv_op op)
{
	const dv_joined_table *t = list_nth(g->join->tables, table);

	return dv_ship_policy(&t->table->shipping, attnum, op) == DV_EXACT;
}

static bool
find_column(const grouping *g, Node *expr, dv_read_item *item)
{
	return dv_join_column(g->join, expr, &item->table, &item->attnum);
}

/* Returns false if it is not a constant that names one of the periods. */
static bool
find_period(Node *expr, dv_read_period *period)
{
	Const	   *constant = (Const *) expr;
	int			i;

	if (!IsA(constant, Const) || constant->constisnull || constant->consttype != TEXTOID)
		return false;
	for (i = 0; i < DV_READ_PERIODS; i++)
	{
		if (pg_strcasecmp(TextDatumGetCString(constant->constvalue), dv_read_periods[i]) == 0)
		{
			*period = (dv_read_period) i;
			return true;
		}
	}
	return false;
}

/*
 * date_trunc(period, column).  The column may be a date that is converted to the
 * type of the function.  Points in time are grouped in UTC; whether that is still
 * the session's time zone is seen again at execution.
 */
static bool
find_period_key(const grouping *g, Node *expr, dv_read_item *item)
{
	FuncExpr   *function = (FuncExpr *) expr;
	FuncExpr   *cast;

	if (!IsA(function, FuncExpr) || (function->funcid != F_DATE_TRUNC_TEXT_TIMESTAMPTZ &&
									 function->funcid != F_DATE_TRUNC_TEXT_TIMESTAMP) ||
		!find_period(linitial(function->args), &item->period))
		return false;
	item->content = DV_READ_PERIOD;
	cast = lsecond(function->args);
	if (IsA(cast, FuncExpr) &&
		(cast->funcid == F_TIMESTAMPTZ_DATE || cast->funcid == F_TIMESTAMP_DATE))
		return find_column(g, linitial(cast->args), item) &&
			dv_join_attribute(g->join, item->table, item->attnum)->column.type == DV_TYPE_DATE &&
			allows(g, item->table, item->attnum, DV_OP_PERIOD);
	if (!find_column(g, (Node *) cast, item) || !allows(g, item->table, item->attnum, DV_OP_PERIOD))
		return false;
	return dv_read_days_agree() ||
		dv_join_attribute(g->join, item->table, item->attnum)->pgtype != TIMESTAMPTZOID;
}

static bool
find_key(const grouping *g, Node *expr, dv_read_item *item)
{
	item->content = DV_READ_KEY;
	if (find_column(g, expr, item))
		return allows(g, item->table, item->attnum, DV_OP_GROUP);
	return find_period_key(g, expr, item);
}

/*
 * Aggregates
 */

static const struct
{
	Oid			function;
	dv_read_content content;
}			aggregates[] =

{
	{F_COUNT_, DV_READ_COUNT},
	{F_COUNT_ANY, DV_READ_COUNT_VALUES},
	{F_SUM_INT2, DV_READ_SUM}, {F_SUM_INT4, DV_READ_SUM}, {F_SUM_INT8, DV_READ_SUM},
	{F_SUM_NUMERIC, DV_READ_SUM},
	{F_AVG_INT2, DV_READ_AVG}, {F_AVG_INT4, DV_READ_AVG}, {F_AVG_INT8, DV_READ_AVG},
	{F_AVG_NUMERIC, DV_READ_AVG},
	{F_MIN_INT2, DV_READ_MIN}, {F_MIN_INT4, DV_READ_MIN}, {F_MIN_INT8, DV_READ_MIN},
	{F_MIN_NUMERIC, DV_READ_MIN}, {F_MIN_DATE, DV_READ_MIN},
	{F_MIN_TIMESTAMP, DV_READ_MIN}, {F_MIN_TIMESTAMPTZ, DV_READ_MIN},
	{F_MAX_INT2, DV_READ_MAX}, {F_MAX_INT4, DV_READ_MAX}, {F_MAX_INT8, DV_READ_MAX},
	{F_MAX_NUMERIC, DV_READ_MAX}, {F_MAX_DATE, DV_READ_MAX},
	{F_MAX_TIMESTAMP, DV_READ_MAX}, {F_MAX_TIMESTAMPTZ, DV_READ_MAX},
};

/*
 * PostgreSQL shows a sum with as many decimal places as the value that has the
 * most.  That is known only if the column declares its scale.
 */
static bool
has_scale(const dv_attribute *attribute)
{
	return attribute->pgtype != NUMERICOID || attribute->typmod >= (int32) VARHDRSZ;
}

static bool
is_allowed(const grouping *g, const dv_read_item *item)
{
	switch (item->content)
	{
		case DV_READ_COUNT_VALUES:
			return allows(g, item->table, item->attnum, DV_OP_NOT_NULL);
		case DV_READ_COUNT_DISTINCT:
			return allows(g, item->table, item->attnum, DV_OP_COUNT_DISTINCT);
		case DV_READ_SUM:
		case DV_READ_AVG:
			return allows(g, item->table, item->attnum, DV_OP_SUM) &&
				has_scale(dv_join_attribute(g->join, item->table, item->attnum));
		default:
			return allows(g, item->table, item->attnum, DV_OP_EXTREME);
	}
}

static bool
find_aggregate(const grouping *g, const Aggref * agg, dv_read_item *item)
{
	int			i = 0;

	while (i < (int) lengthof(aggregates) && aggregates[i].function != agg->aggfnoid)
		i++;
	if (i == (int) lengthof(aggregates) || agg->aggsplit != AGGSPLIT_SIMPLE ||
		agg->aggfilter != NULL || agg->aggorder != NIL)
		return false;
	item->content = aggregates[i].content;
	if (item->content == DV_READ_COUNT)
		return true;
	if (agg->aggdistinct != NIL && item->content == DV_READ_COUNT_VALUES)
		item->content = DV_READ_COUNT_DISTINCT;
	else if (agg->aggdistinct != NIL && item->content != DV_READ_MIN &&
			 item->content != DV_READ_MAX)
		return false;
	if (!find_column(g, (Node *) linitial_node(TargetEntry, agg->args)->expr, item))
		return false;
	/* each row has a primary id of its own */
	if (item->content == DV_READ_COUNT_DISTINCT && item->table == 0 &&
		dv_join_is_primary_id(g->join, 0, item->attnum))
		item->content = DV_READ_COUNT_VALUES;
	return is_allowed(g, item);
}

/*
 * The columns of the scan tuple
 */

static bool
add_column(grouping *g, Node *expr)
{
	dv_read_item *item = palloc0(sizeof(*item));

	if (list_member(g->exprs, expr))
		return true;
	if (IsA(expr, Aggref) ? !find_aggregate(g, (Aggref *) expr, item) : !find_key(g, expr, item))
		return false;
	g->exprs = lappend(g->exprs, expr);
	g->items = lappend(g->items, item);
	return true;
}

/* The argument of search_columns() */
typedef struct column_search
{
	grouping   *g;
	bool		failed;
} column_search;

/*
 * Walks down to the expressions that the service can return.  A column that is no
 * key depends on keys, so making it one changes no group.
 */
static bool
search_columns(Node *node, void *arg)
{
	column_search *search = arg;

	if (node == NULL || search->failed || list_member(search->g->exprs, node))
		return false;
	if (IsA(node, Aggref) || IsA(node, Var) || IsA(node, PlaceHolderVar) || IsA(node, GroupingFunc))
	{
		search->failed = !add_column(search->g, node);
		return false;
	}
	return expression_tree_walker(node, search_columns, arg);
}

static bool
add_columns_of(grouping *g, Node *expr)
{
	column_search search = {g, false};

	(void) search_columns(expr, &search);
	return !search.failed;
}

/* Finds the keys first, so that expressions of them are recognized as such. */
static bool
add_grouped_columns(PlannerInfo *root, grouping *g, PathTarget *target, List *having)
{
	ListCell   *lc;
	int			i = 0;

	foreach(lc, target->exprs)
	{
		Index		ref = get_pathtarget_sortgroupref(target, i);

		i++;
		if (ref != 0 && get_sortgroupref_clause_noerr(ref, root->parse->groupClause) != NULL &&
			!IsA(lfirst(lc), Const) && !add_column(g, lfirst(lc)))
			return false;
	}
	return add_columns_of(g, (Node *) target->exprs) && add_columns_of(g, (Node *) having);
}

static bool
add_distinct_columns(grouping *g, PathTarget *target)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (!IsA(lfirst(lc), Const) && !add_column(g, lfirst(lc)))
			return false;
	}
	return true;
}

/*
 * The path
 */

/*
 * Returns the expressions that the service forms groups by: the keys and, if the
 * rows are divided into parts, the arguments of count(DISTINCT).
 */
static List *
grouped_by(const grouping *g, bool parts)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, g->exprs)
	{
		const dv_read_item *item = list_nth(g->items, foreach_current_index(lc));
		const		Aggref *agg = lfirst(lc);

		if (!IsA(agg, Aggref))
			exprs = lappend(exprs, lfirst(lc));
		else if (parts && item->content == DV_READ_COUNT_DISTINCT)
			exprs = lappend(exprs, linitial_node(TargetEntry, agg->args)->expr);
	}
	return exprs;
}

/* estimate_num_groups() may expect fewer groups of several columns than one of them has values. */
static double
count_groups(PlannerInfo *root, const grouping *g, double rows, bool parts)
{
	List	   *exprs = grouped_by(g, parts);
	double		groups = exprs == NIL ? 1 : estimate_num_groups(root, exprs, rows, NULL, NULL);
	ListCell   *lc;

	foreach(lc, exprs)
	{
		groups = Max(groups, estimate_num_groups(root, list_make1(lfirst(lc)), rows, NULL, NULL));
	}
	return groups;
}

/*
 * Computes the cost of groups.  "groups" is their final number, and "pieces" the
 * number of groups that the service returns if the rows are divided into parts.
 */
static void
group_cost(const dv_join_plan *join, double rows, double groups, double pieces, Cost *startup,
		   Cost *total)
{
	bool		whole = rows <= DV_GROUPED_ROWS && groups <= DV_RETURNED_GROUPS;
	double		parts = whole ? 1 : ceil(rows / dv_read_rows_of_part(pieces));
	double		requests = whole ? 1 : parts * REQUESTS_FOR_PART;
	double		returned = whole ? groups : parts * dv_read_pieces_in(rows / parts, pieces);
	double		row = dv_join_root(join)->costs.row;

	/* nothing is known before the last part has been answered */
	*startup = dv_join_request_cost(join) * requests + rows * row * GROUPED_ROW_COST +
		returned * row;
	*total = *startup + groups * cpu_tuple_cost;
}

static bool
has_key(const grouping *g)
{
	ListCell   *lc;

	foreach(lc, g->exprs)
	{
		if (!IsA(lfirst(lc), Aggref))
			return true;
	}
	return false;
}

static size_t
output_bytes(const grouping *g)
{
	size_t		bytes = 0;
	ListCell   *lc;

	foreach(lc, g->items)
	{
		const dv_read_item *item = lfirst(lc);
		const dv_attribute *attribute = dv_join_attribute(g->join, item->table, item->attnum);

		bytes += OUTPUTS_OF_DATE *
			(OUTPUT_BYTES + (attribute != NULL ? strlen(attribute->column.name) : 0));
	}
	return bytes;
}

static bool
is_plain_grouping(PlannerInfo *root, UpperRelationKind stage, void *extra)
{
	Query	   *parse = root->parse;

	if (parse->groupingSets != NIL || parse->hasTargetSRFs || parse->rowMarks != NIL)
		return false;
	if (stage == UPPERREL_DISTINCT)
		return !parse->hasDistinctOn;
	return ((GroupPathExtraData *) extra)->patype == PARTITIONWISE_AGGREGATE_NONE;
}

void
dv_group_add_path(PlannerInfo *root, UpperRelationKind stage, const dv_join_plan *join,
				  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra)
{
	PathTarget *target = root->upper_targets[stage];
	List	   *having = stage == UPPERREL_GROUP_AGG ?
	(List *) ((GroupPathExtraData *) extra)->havingQual : NIL;
	grouping	g = {join, NIL, NIL};
	dv_read_plan plan = DV_READ_PLAN;
	double		rows;
	double		groups;
	double		pieces;
	Cost		startup;
	Cost		total;

	if (!dv_join_is_joinable(root, join) || dv_join_is_listed(join) ||
		!dv_join_allows(join, DV_OPT_PUSH_GROUPS) || !dv_join_is_exact(join) ||
		!is_plain_grouping(root, stage, extra))
		return;
	if (stage == UPPERREL_DISTINCT ? !add_distinct_columns(&g, target) :
		!add_grouped_columns(root, &g, target, having))
		return;
	/* a request without columns is not possible */
	if (g.exprs == NIL || !dv_join_has_room(join, output_bytes(&g)))
		return;

	/*
	 * GROUP BY of constants alone has no group of no rows, but without keys, the service always
	 * returns one.
	 */
	if (stage == UPPERREL_GROUP_AGG && root->parse->groupClause != NIL && !has_key(&g))
		return;
	rows = dv_join_fetched(root, join, input_rel);
	groups = count_groups(root, &g, rows, false);
	pieces = count_groups(root, &g, rows, true);
	group_cost(join, rows, groups, pieces, &startup, &total);
	plan.grouped = true;
	plan.items = g.items;
	plan.pieces = (int) Min(pieces, PG_INT32_MAX);
	plan.rows = dv_join_root(join)->counted ? (int) Min(rows, PG_INT32_MAX) : 0;
	add_path(output_rel, (Path *)
			 dv_foreign_upper_path(root, output_rel, target, clamp_row_est(groups), startup, total,
								   NIL, list_concat(dv_read_plan_pack(&plan),
													list_make2(g.exprs, having))));
}

List *
dv_group_filter(const ForeignPath *path)
{
	return lsecond(list_copy_tail(path->fdw_private, list_length(path->fdw_private) - 2));
}

List *
dv_group_columns(const ForeignPath *path)
{
	List	   *exprs = linitial(list_copy_tail(path->fdw_private,
												list_length(path->fdw_private) - 2));

	return add_to_flat_tlist(NIL, exprs);
}

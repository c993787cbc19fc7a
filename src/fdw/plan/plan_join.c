/*
 * plan_join.c
 *		Planning of joins that the service answers.
 *
 * The service joins a table to another along a pair of columns of ids.  What is
 * pushed down here is only what cannot multiply rows: the linked table is joined
 * by its primary id, so that each row of the join is one of the root's, and the
 * ids of the root order and page all rows.  A tree of such links, with the table
 * that has the lookups at its root, is built up as PostgreSQL combines tables to
 * larger and larger joins.  Semi-joins and anti-joins in the other direction
 * (accounts for which a contact exists) do not multiply rows, either.
 *
 * Inner joins may have further clauses; these are checked here.  What decides
 * whether a row of an outer join is filled with nulls, or whether a row has any
 * match at all, can only be decided where the join is made: all clauses of such
 * tables must be answered exactly.
 *
 * Below a security barrier, nothing is joined by the service: the order in which
 * clauses are applied is then PostgreSQL's alone to decide.
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
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"

#include "compat.h"
#include "fdw/operator.h"
#include "fdw/plan/plan_table.h"
#include "fdw/scan/list.h"

/* Conditions that requests for pages may add */
#define SPARE_CONDITIONS 10
/* The length of a condition in FetchXML, relative to its length in OData */
#define FETCHXML_LENGTH 3
/* Bytes around the names of a link */
#define LINK_BYTES 160
/* Bytes around the name of a column of rows */
#define OUTPUT_BYTES 50
/* The part by which each further table prolongs a request */
#define LINK_COST 0.1

static dv_joined_table *
table_at(const dv_join_plan *join, int i)
{
	return list_nth(join->tables, i);
}

const dv_attribute *
dv_join_attribute(const dv_join_plan *join, int table, AttrNumber attnum)
{
	return dv_relation_attribute(table_at(join, table)->table->relation, attnum);
}

bool
dv_join_column(const dv_join_plan *join, Node *expr, int *table, AttrNumber *attnum)
{
	Var		   *var = (Var *) expr;
	int			i;

	if (!IsA(var, Var) || var->varlevelsup != 0)
		return false;
	for (i = 0; i < list_length(join->tables); i++)
	{
		if (var->varno != (int) table_at(join, i)->table->baserel->relid ||
			dv_join_attribute(join, i, var->varattno) == NULL)
			continue;
		*table = i;
		*attnum = var->varattno;
		return true;
	}
	return false;
}

/*
 * Which tables and joins can be part of a larger query
 */

/* FetchXML names tables; OData needs no more than their entity sets. */
static bool
is_joinable(PlannerInfo *root, const dv_table_plan *tp)
{
	return tp->relation->named && (tp->relation->type == DV_TABLE_STANDARD || tp->relation->type == DV_TABLE_INTERSECT) &&
		(root->parse->commandType == CMD_SELECT || root->parse->commandType == CMD_INSERT) &&
		root->parse->rowMarks == NIL &&
		root->qual_security_level == 0 && !tp->written && !tp->gated &&
		bms_is_empty(tp->baserel->lateral_relids);
}

bool
dv_join_is_joinable(PlannerInfo *root, const dv_join_plan *join)
{
	return join != NULL &&
		(list_length(join->tables) > 1 || is_joinable(root, dv_join_root(join)));
}

const dv_join_plan *
dv_join_plan_of(const RelOptInfo *rel)
{
	dv_table_plan *tp = rel->fdw_private;
	dv_joined_table *root_table;
	dv_join_plan *join;

	if (tp == NULL)
		return NULL;
	if (tp->kind == DV_PLANNED_JOIN)
		return rel->fdw_private;
	root_table = palloc0(sizeof(*root_table));
	root_table->table = tp;
	root_table->parent = -1;
	join = palloc0(sizeof(*join));
	join->kind = DV_PLANNED_JOIN;
	join->tables = list_make1(root_table);
	return join;
}

bool
dv_join_allows(const dv_join_plan *join, dv_option option)
{
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		if (!dv_option_bool(((dv_joined_table *) lfirst(lc))->table->relation->options, option))
			return false;
	}
	return true;
}

static bool
is_answered(const dv_joined_table *t)
{
	return t->table->own->local == NIL && t->table->own->superset == NIL;
}

bool
dv_join_is_exact(const dv_join_plan *join)
{
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		if (!is_answered(lfirst(lc)))
			return false;
	}
	return join->checked == NIL;
}

/* Is it certain that a row of this table belongs to each row of the join? */
static bool
is_inner(const dv_join_plan *join, int table)
{
	for (; table >= 0; table = table_at(join, table)->parent)
		if (table_at(join, table)->kind != DV_LINK_INNER)
			return false;
	return true;
}

bool
dv_join_is_listed(const dv_join_plan *join)
{
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		if (((const dv_joined_table *) lfirst(lc))->table->own->listing != NULL)
			return true;
	}
	return false;
}

/*
 * Do the requests for the parts of a long list return different rows?  They do if
 * there is one such list, and if it restricts the root or a table that contributes
 * a row to each row of the join.  With any other table, the same row of the root
 * would be returned for several parts.
 */
static bool
can_divide_lists(const dv_join_plan *join)
{
	int			lists = 0;
	int			i;

	for (i = 0; i < list_length(join->tables); i++)
	{
		if (table_at(join, i)->table->own->listing == NULL)
			continue;
		if (++lists > 1 || !is_inner(join, i))
			return false;
	}
	return true;
}

/* Returns the number of requests that the list of a join takes, if it is known; else 1. */
static int
parts_of(const dv_join_plan *join)
{
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		const RestrictInfo *listing = ((const dv_joined_table *) lfirst(lc))->table->own->listing;

		if (listing != NULL)
			return dv_list_parts(listing->clause);
	}
	return 1;
}

/*
 * Links
 */

/* A clause that can become a link between two trees of tables. */
typedef struct link_clause
{
	RestrictInfo *rinfo;
	int			parent;			/* table of the tree that remains the root's */
	AttrNumber	to;
	AttrNumber	from;			/* of the root of the other tree */
} link_clause;

static bool
can_link(const dv_join_plan *join, int table, AttrNumber attnum)
{
	return dv_ship_policy(&table_at(join, table)->table->shipping, attnum, DV_OP_JOIN) == DV_EXACT;
}

bool
dv_join_is_primary_id(const dv_join_plan *join, int table, AttrNumber attnum)
{
	return strcmp(dv_join_attribute(join, table, attnum)->column.name,
				  table_at(join, table)->table->relation->primary_id.name) == 0;
}

/*
 * Is this "column of kept = column of the root of added"?  With "unique", the
 * latter must be the primary id.
 */
static bool
is_link(RestrictInfo *rinfo, const dv_join_plan *kept, const dv_join_plan *added, bool unique,
		link_clause *link)
{
	OpExpr	   *op = (OpExpr *) rinfo->clause;
	int			side;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || dv_operator_of(op->opno)->op != DV_OP_EQ)
		return false;
	for (side = 0; side < 2; side++)
	{
		int			table;

		if (!dv_join_column(kept, list_nth(op->args, side), &link->parent, &link->to) ||
			!dv_join_column(added, list_nth(op->args, 1 - side), &table, &link->from) ||
			table != 0 || !can_link(kept, link->parent, link->to) ||
			!can_link(added, 0, link->from) || (unique && !dv_join_is_primary_id(added, 0, link->from)))
			continue;
		link->rinfo = rinfo;
		return true;
	}
	return false;
}

static bool
find_link(List *clauses, const dv_join_plan *kept, const dv_join_plan *added, bool unique,
		  link_clause *link)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		if (is_link(lfirst(lc), kept, added, unique, link))
			return true;
	}
	return false;
}

/* Attaches the tree "added" to the tree "kept" by its root. */
static dv_join_plan *
attach(const dv_join_plan *kept, const dv_join_plan *added, const link_clause *link,
	   dv_link_kind kind)
{
	dv_join_plan *join = palloc0(sizeof(*join));
	int			n = list_length(kept->tables);
	ListCell   *lc;

	join->kind = DV_PLANNED_JOIN;
	join->tables = list_copy(kept->tables);
	join->checked = list_concat_copy(kept->checked, added->checked);
	foreach(lc, added->tables)
	{
		dv_joined_table *t = palloc(sizeof(*t));

		*t = *(dv_joined_table *) lfirst(lc);
		if (t->parent < 0)
		{
			t->parent = link->parent;
			t->kind = kind;
			t->from = link->from;
			t->to = link->to;
		}
		else
			t->parent += n;
		join->tables = lappend(join->tables, t);
	}
	return join;
}

/* Are there only outer links in the tree below its root? */
static bool
is_all_outer(const dv_join_plan *join)
{
	int			i;

	for (i = 1; i < list_length(join->tables); i++)
		if (table_at(join, i)->kind != DV_LINK_OUTER)
			return false;
	return true;
}

/* Are there tables of which only the existence of rows matters? */
static bool
has_conditions(const dv_join_plan *join)
{
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		dv_link_kind kind = ((dv_joined_table *) lfirst(lc))->kind;

		if (kind == DV_LINK_EXISTS || kind == DV_LINK_NOT_EXISTS)
			return true;
	}
	return false;
}

/* There is one function for each kind of join.  "clauses" decide which rows match. */

static dv_join_plan *
join_inner(const dv_join_plan *kept, const dv_join_plan *added, List *clauses)
{
	link_clause link;
	dv_join_plan *join;

	/* such conditions are documented for the root only */
	if (has_conditions(added) || !find_link(clauses, kept, added, true, &link) ||
		!is_inner(kept, link.parent))
		return NULL;
	join = attach(kept, added, &link, DV_LINK_INNER);
	join->checked = list_concat(join->checked, list_delete_ptr(list_copy(clauses), link.rinfo));
	return join;
}

static dv_join_plan *
join_outer(const dv_join_plan *kept, const dv_join_plan *added, List *clauses)
{
	link_clause link;

	if (list_length(clauses) != 1 || !dv_join_is_exact(added) || !is_all_outer(added) ||
		!find_link(clauses, kept, added, true, &link))
		return NULL;
	return attach(kept, added, &link, DV_LINK_OUTER);
}

/* Semi-joins and anti-joins with any number of matching rows */
static dv_join_plan *
join_existing(const dv_join_plan *kept, const dv_join_plan *added, List *clauses,
			  dv_link_kind kind)
{
	link_clause link;

	if (list_length(clauses) != 1 || list_length(added->tables) != 1 ||
		!dv_join_is_exact(added) || !find_link(clauses, kept, added, false, &link) ||
		link.parent != 0)
		return NULL;
	return attach(kept, added, &link, kind);
}

static dv_join_plan *
join_trees(JoinType jointype, const dv_join_plan *outer, const dv_join_plan *inner, List *clauses)
{
	dv_join_plan *join;

	switch (jointype)
	{
		case JOIN_INNER:
			join = join_inner(outer, inner, clauses);
			return join != NULL ? join : join_inner(inner, outer, clauses);
		case JOIN_LEFT:
			return join_outer(outer, inner, clauses);
		case JOIN_RIGHT:
			return join_outer(inner, outer, clauses);
		case JOIN_SEMI:
			/* at most one row has a primary id */
			join = join_inner(outer, inner, clauses);
			return join != NULL ? join : join_existing(outer, inner, clauses, DV_LINK_EXISTS);
		case JOIN_ANTI:
			return join_existing(outer, inner, clauses, DV_LINK_NOT_EXISTS);
		default:
			return NULL;
	}
}

/*
 * The join relation
 */

/* Are columns of this table compared with each other? */
static bool
compares_columns(const dv_joined_table *t)
{
	ListCell   *lc;

	foreach(lc, t->table->own->conditions)
	{
		if (dv_condition_has_columns(lfirst(lc)))
			return true;
	}
	return false;
}

static size_t
link_bytes(const dv_join_plan *join, const dv_joined_table *t)
{
	const dv_relation *relation = t->table->relation;

	if (t->parent < 0)
		return strlen(relation->entity_set) + strlen(relation->table);
	return LINK_BYTES + strlen(relation->table) +
		strlen(dv_relation_attribute(relation, t->from)->column.name) +
		strlen(dv_join_attribute(join, t->parent, t->to)->column.name);
}

bool
dv_join_has_room(const dv_join_plan *join, size_t output_bytes)
{
	size_t		bytes = output_bytes;
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		const dv_joined_table *t = lfirst(lc);

		bytes += link_bytes(join, t) + t->table->own->shipping.bytes * FETCHXML_LENGTH;
	}
	return bytes <= DV_REQUEST_BYTES;
}

/* Returns the bytes of the columns that expressions refer to, counting repeated ones twice. */
static size_t
output_bytes(const dv_join_plan *join, List *exprs)
{
	List	   *columns = pull_var_clause((Node *) exprs, PVC_RECURSE_PLACEHOLDERS);
	size_t		bytes = 0;
	ListCell   *lc;

	foreach(lc, columns)
	{
		int			table;
		AttrNumber	attnum;

		if (dv_join_column(join, lfirst(lc), &table, &attnum))
			bytes += OUTPUT_BYTES + strlen(dv_join_attribute(join, table, attnum)->column.name);
	}
	return bytes;
}

/*
 * Is the query within the limits of the service?  In a link below a link, the
 * service has been seen to generate invalid SQL for comparisons of two columns.
 */
static bool
is_accepted(const dv_join_plan *join)
{
	int			conditions = list_length(join->tables) - 1;
	ListCell   *lc;

	if (conditions > DV_MAX_LINKS || !can_divide_lists(join))
		return false;
	foreach(lc, join->tables)
	{
		const dv_joined_table *t = lfirst(lc);

		if (t->parent > 0 && compares_columns(t))
			return false;
		conditions += t->table->own->shipping.conditions;
	}
	return conditions <= DV_MAX_CONDITIONS - SPARE_CONDITIONS;
}

/*
 * Finds the column of the query that has the values of an expression.  A table in
 * EXISTS returns no columns.  However, the column by which it is linked equals a
 * column of its parent, and PostgreSQL may use the two interchangeably.
 */
static bool
find_source(const dv_join_plan *join, Node *expr, int *table, AttrNumber *attnum)
{
	const dv_joined_table *t;

	if (!dv_join_column(join, expr, table, attnum))
		return false;
	t = table_at(join, *table);
	if (t->kind == DV_LINK_EXISTS && *attnum == t->from)
	{
		*table = t->parent;
		*attnum = t->to;
		return true;
	}
	return t->kind == DV_LINK_INNER || t->kind == DV_LINK_OUTER;
}

/* A placeholder above a join may have been computed below it; above a scan, the scan computes it. */
bool
dv_join_has_columns(const dv_join_plan *join, List *exprs)
{
	List	   *parts = pull_var_clause((Node *) exprs, list_length(join->tables) > 1 ?
										PVC_INCLUDE_PLACEHOLDERS : PVC_RECURSE_PLACEHOLDERS);
	ListCell   *lc;

	foreach(lc, parts)
	{
		int			table;
		AttrNumber	attnum;

		if (!find_source(join, lfirst(lc), &table, &attnum))
			return false;
	}
	return true;
}

/* Collects the clauses that PostgreSQL checks, including those of the tables. */
static List *
clauses_to_check(const dv_join_plan *join)
{
	List	   *clauses = NIL;
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		const dv_path_clauses *own = ((dv_joined_table *) lfirst(lc))->table->own;

		clauses = list_concat(clauses, own->superset);
		clauses = list_concat(clauses, own->local);
	}
	return list_concat(clauses, join->checked);
}

/* Returns false if a clause cannot be part of a join that the service makes. */
static bool
sort_clauses(const RelOptInfo *joinrel, JoinType jointype, List *restrictlist, List **matching,
			 List **above)
{
	ListCell   *lc;

	*matching = *above = NIL;
	foreach(lc, restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant || contain_subplans((Node *) rinfo->clause))
			return false;
		if (IS_OUTER_JOIN(jointype) && RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids))
			*above = lappend(*above, rinfo);
		else
			*matching = lappend(*matching, rinfo);
	}
	return true;
}

double
dv_join_fetched(PlannerInfo *root, const dv_join_plan *join, const RelOptInfo *rel)
{
	List	   *clauses = list_copy(join->checked);
	ListCell   *lc;
	double		selectivity;

	foreach(lc, join->tables)
		clauses = list_concat(clauses, ((dv_joined_table *) lfirst(lc))->table->own->local);
	selectivity = clauselist_selectivity(root, clauses, 0, JOIN_INNER, NULL);
	/* PostgreSQL may expect more, but each row of the join is a row of the root */
	return clamp_row_est(Min(rel->rows / Max(selectivity, 1e-6),
							 table_at(join, 0)->table->fetched));
}

double
dv_join_request_cost(const dv_join_plan *join)
{
	return dv_join_root(join)->costs.request * (1 + LINK_COST * (list_length(join->tables) - 1));
}

/* The columns of all tables come in one row. */
static double
row_bytes(const dv_join_plan *join)
{
	double		bytes = 0;
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		const dv_joined_table *t = lfirst(lc);
		double		others = t->parent < 0 ? 0 : dv_cost_row_bytes(t->table->relation, NIL);

		if (t->kind != DV_LINK_EXISTS && t->kind != DV_LINK_NOT_EXISTS)
			bytes += t->table->row_bytes - others;
	}
	return bytes;
}

void
dv_join_cost(const dv_join_plan *join, double fetched, Cost *startup, Cost *total)
{
	const dv_relation *relation = dv_join_root(join)->relation;
	double		page_size = dv_relation_page_size(relation);
	double		request = dv_join_request_cost(join);
	double		row = dv_cost_row(&dv_join_root(join)->costs, row_bytes(join));
	double		pages = Max(ceil(fetched / page_size), parts_of(join));

	*startup = request + Min(fetched, page_size) * row;
	*total = pages * request + fetched * (row + cpu_tuple_cost);
}

/* Adds the columns of the scan tuple. */
static void
add_items(const dv_join_plan *join, List *exprs, dv_read_plan *plan)
{
	ListCell   *lc;

	foreach(lc, exprs)
	{
		int			table;
		AttrNumber	attnum;

		if (!find_source(join, lfirst(lc), &table, &attnum))
			elog(ERROR, "foreign join has no such column");
		dv_read_plan_add_column(plan, table, attnum);
	}
}

/* Adds the tables and conditions of a join to a plan, and sets the values of the conditions. */
static void
fill(const dv_join_plan *join, dv_read_plan *plan, List **values)
{
	ListCell   *lc;

	foreach(lc, join->tables)
	{
		const dv_joined_table *t = lfirst(lc);
		const dv_path_clauses *own = t->table->own;
		dv_read_table *table = dv_read_plan_add_table(plan);

		table->rti = t->table->baserel->relid;
		table->kind = t->kind;
		table->parent = t->parent;
		table->from = t->from;
		table->to = t->to;
		table->first_value = list_length(*values);
		table->condition = dv_condition_all(own->conditions);
		table->signature = t->table->relation->signature;
		*values = list_concat(*values, own->shipping.values);
	}
}

/* Does the session know that the service refuses the join? */
static bool
is_refused(const dv_join_plan *join, Oid userid)
{
	const dv_relation **relations;
	dv_read_plan plan = DV_READ_PLAN;
	List	   *values = NIL;
	ListCell   *lc;

	if (!dv_join_root(join)->joins_refused)
		return false;
	relations = palloc(sizeof(dv_relation *) * list_length(join->tables));
	foreach(lc, join->tables)
	{
		relations[foreach_current_index(lc)] = ((const dv_joined_table *) lfirst(lc))->table->relation;
	}
	fill(join, &plan, &values);
	return dv_read_plan_join_refused(&plan, relations, userid);
}

void
dataverseGetForeignJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
							 RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData * extra)
{
	const dv_join_plan *outer = dv_join_plan_of(outerrel);
	const dv_join_plan *inner = dv_join_plan_of(innerrel);
	dv_read_plan plan = DV_READ_PLAN;
	dv_join_plan *join;
	List	   *matching;
	List	   *above;
	List	   *checked;
	double		fetched;
	Cost		startup;
	Cost		total;

	/* the query is the same for each pair of relations that leads to the join */
	if (joinrel->fdw_private != NULL || dv_is_grouped_rel(joinrel) ||
		!dv_join_is_joinable(root, outer) || !dv_join_is_joinable(root, inner) ||
		!dv_join_allows(outer, DV_OPT_PUSH_JOINS) || !dv_join_allows(inner, DV_OPT_PUSH_JOINS) ||
		!bms_is_empty(joinrel->lateral_relids) ||
		!sort_clauses(joinrel, jointype, extra->restrictlist, &matching, &above))
		return;
	join = join_trees(jointype, outer, inner, matching);
	if (join == NULL)
		return;
	join->checked = list_concat(join->checked, above);
	checked = extract_actual_clauses(clauses_to_check(join), false);
	if (!is_accepted(join) ||
		is_refused(join, OidIsValid(joinrel->userid) ? joinrel->userid : GetUserId()) ||
		!dv_join_has_columns(join, joinrel->reltarget->exprs) ||
		!dv_join_has_columns(join, checked) ||
		!dv_join_has_room(join, output_bytes(join, list_concat_copy(joinrel->reltarget->exprs,
																	checked))))
		return;
	joinrel->fdw_private = join;
	fetched = dv_join_fetched(root, join, joinrel);
	dv_join_cost(join, fetched, &startup, &total);
	add_path(joinrel, (Path *)
			 dv_foreign_join_path(root, joinrel, joinrel->rows, startup, total,
								  dv_read_plan_pack(&plan)));
}

/*
 * The plan of a join, or of what is above it
 */

/*
 * Returns the scan tuple's columns: those of the path's target, and those of the
 * filter.  The plan's target list may still be empty: if a projection
 * follows, it replaces that list.
 */
static List *
columns_needed(const ForeignPath *path, List *filter)
{
	int			flags = PVC_INCLUDE_AGGREGATES | PVC_RECURSE_PLACEHOLDERS;
	List	   *columns = add_to_flat_tlist(NIL, pull_var_clause((Node *) path->path.pathtarget->exprs,
																 flags));

	return add_to_flat_tlist(columns, pull_var_clause((Node *) filter, flags));
}

static int
add_expression(List **values, Node *expr)
{
	if (expr == NULL)
		return -1;
	*values = lappend(*values, expr);
	return list_length(*values) - 1;
}

/* Adds the columns that are read, LIMIT, and OFFSET.  Returns the scan tuple's columns. */
static List *
plan_rows(PlannerInfo *root, const dv_join_plan *join, const ForeignPath *path, List *filter,
		  dv_read_plan *plan, List **values)
{
	List	   *scan_tlist = columns_needed(path, filter);

	if (!plan->count)
		add_items(join, get_tlist_exprs(scan_tlist, true), plan);
	if (!plan->count && IS_UPPER_REL(path->path.parent))
	{
		plan->limit = add_expression(values, root->parse->limitCount);
		plan->offset = add_expression(values, root->parse->limitOffset);
	}
	if (dv_join_root(join)->counted)
		plan->rows = (int) Min(path->path.rows, PG_INT32_MAX);
	if (list_length(join->tables) == 1)
		plan->rows_without_list = dv_plan_rows_without_list(root, dv_join_root(join), dv_join_root(join)->own);
	return scan_tlist;
}

ForeignScan *
dv_join_make_plan(PlannerInfo *root, RelOptInfo *rel, ForeignPath *path, List *tlist,
				  Plan *outer_plan)
{
	const dv_join_plan *join = dv_join_plan_of(rel);
	dv_read_plan plan = dv_read_plan_unpack(path->fdw_private);
	List	   *values = NIL;
	List	   *filter;
	List	   *scan_tlist;

	fill(join, &plan, &values);
	if (plan.grouped)
	{
		filter = dv_group_filter(path);
		scan_tlist = dv_group_columns(path);
	}
	else
	{
		filter = extract_actual_clauses(clauses_to_check(join), false);
		scan_tlist = plan_rows(root, join, path, filter, &plan, &values);
	}
	return make_foreignscan(tlist, filter, 0, values, dv_read_plan_pack(&plan), scan_tlist, NIL,
							outer_plan);
}

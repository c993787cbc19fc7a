/*
 * plan_table.h
 *		What is known of tables and joins while a query is planned.
 *
 * This is what RelOptInfo.fdw_private points to: of a table a dv_table_plan, of a
 * join, and of everything above a table or a join, a dv_join_plan.  plan.c plans
 * scans of tables, plan_join.c joins; plan_upper.c (LIMIT, COUNT) and plan_group.c
 * (groups) plan what is above either.
 *
 * Whatever is kept with a relation lives exactly as long as the relation, and
 * points only to what lives as long.  The memory context that is current while
 * joins are planned may be younger: GEQO, which plans queries with many tables,
 * tries one order of joins after the other, and frees each with all joins that it
 * has made, but not the tables.  So what is added to a relation later than by
 * GetForeignRelSize or GetForeignPaths is allocated in the relation's own context,
 * GetMemoryChunkContext(rel), and what it is found by is copied there.  A path
 * that is not added to the relation, and the plan of a join, are free to lie in
 * the current context, like the joins themselves.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PLAN_TABLE_H
#define DV_PLAN_TABLE_H

#include "nodes/pathnodes.h"

#include "fdw/plan/cost.h"
#include "fdw/plan/plan.h"
#include "fdw/plan/ship.h"

/* The restriction clauses of a path, and what the service does with each of them. */
typedef struct dv_path_clauses
{
	ParamPathInfo *param_info;	/* whose clauses are included; NULL: only the table's own */
	List	   *own;			/* the table's own */
	dv_shipping shipping;		/* contains the values that the conditions refer to */
	List	   *exact;			/* RestrictInfos */
	List	   *superset;
	List	   *local;
	List	   *conditions;		/* of the exact and superset clauses */
	RestrictInfo *listing;		/* the one with the list that may have any length, or NULL */
	Expr	   *keys;			/* the condition that a join adds (fdw/scan/lookup.h), or NULL */
	AttrNumber	key;			/* the column that it is about; 0: the service cannot be asked */
} dv_path_clauses;

typedef enum dv_planned_kind
{
	DV_PLANNED_TABLE,
	DV_PLANNED_JOIN
} dv_planned_kind;

/* A table. */
typedef struct dv_table_plan
{
	dv_planned_kind kind;
	RelOptInfo *baserel;
	dv_relation *relation;
	dv_shipping shipping;		/* the initial state, without values */
	List	   *judged;			/* dv_path_clauses */
	const dv_path_clauses *own; /* the clauses of the table alone */
	bool		gated;			/* a clause without columns decides whether there is a scan at all */
	bool		counted;		/* the number of its rows is known */
	bool		written;		/* the statement writes the table, so all rows must be read before
								 * the first one is written */
	bool		joins_refused;	/* the service has refused some joins to this session */
	double		fetched;		/* rows that the service sends */
	dv_costs	costs;
	double		row_bytes;		/* what the service sends for a row */
} dv_table_plan;

/* A table within a join. */
typedef struct dv_joined_table
{
	dv_table_plan *table;
	int			parent;			/* index in the join; -1: it is the root */
	dv_link_kind kind;
	AttrNumber	from;			/* of this table */
	AttrNumber	to;				/* of the parent */
} dv_joined_table;

/*
 * A join that the service can answer in one query, each of its rows being one
 * of the root's, or a single table that is regarded as such.
 */
typedef struct dv_join_plan
{
	dv_planned_kind kind;
	List	   *tables;			/* dv_joined_table; the root first, parents before the others */
	List	   *checked;		/* RestrictInfos of the join to be checked here */
} dv_join_plan;

/* plan_clauses.c */

extern bool dv_clauses_may_ask(const RelOptInfo *rel, RestrictInfo *rinfo);

/* Can the service answer this clause by itself? */
extern bool dv_clauses_can_ship(const dv_table_plan *tp, RestrictInfo *rinfo);

/*
 * Returns the clauses of a path with these parameters, or with the keys of a join,
 * and the table's own.  Each of the two may be NULL.
 */
extern const dv_path_clauses *dv_clauses_of(dv_table_plan *tp, ParamPathInfo *param_info,
											Expr *keys);

/*
 * Returns the clauses to be checked here, and in *rechecks the positions of
 * those that the service was sent, too.
 */
extern List *dv_clauses_filter(const dv_path_clauses *c, List *clauses, List **rechecks);

/* plan.c */

/*
 * The cost of a scan.  "requests" are needed before the first rows arrive, and
 * "parts" is the number of requests that a list of values takes, 1 if there is none.
 */
extern void dv_plan_scan_cost(const dv_table_plan *tp, double row_bytes, double fetched,
							  int requests, int parts, Cost *startup, Cost *total);

/* Returns how many requests are needed before the first rows arrive. */
extern int	dv_plan_first_requests(const dv_read_plan *plan);

/* Returns how many rows the service would send if it was not asked about the long list. */
extern int	dv_plan_rows_without_list(PlannerInfo *root, const dv_table_plan *tp,
									  const dv_path_clauses *c);

/*
 * Translates sort keys to orders in the plan.  Returns false if the service
 * would sort differently.
 */
extern bool dv_plan_set_orders(const dv_table_plan *tp, const dv_path_clauses *c, List *pathkeys,
							   dv_read_plan *plan);

/* plan_join.c */

/* What is read for a table, a join, or whatever is above either; NULL if it is not ours. */
extern const dv_join_plan *dv_join_plan_of(const RelOptInfo *rel);

/* Can the service answer it as part of a larger query? */
extern bool dv_join_is_joinable(PlannerInfo *root, const dv_join_plan *join);

/* Is this option on for each of the tables? */
extern bool dv_join_allows(const dv_join_plan *join, dv_option option);

/* Does the service answer every clause of the join and of its tables? */
extern bool dv_join_is_exact(const dv_join_plan *join);

/* Is there a list that may take several requests? */
extern bool dv_join_is_listed(const dv_join_plan *join);

/*
 * Finds a column that an expression consists of: the table's index in the join
 * and the attribute.  Returns false if it is anything else.
 */
extern bool dv_join_column(const dv_join_plan *join, Node *expr, int *table, AttrNumber *attnum);
extern const dv_attribute *dv_join_attribute(const dv_join_plan *join, int table,
											 AttrNumber attnum);

/* Are these columns of the tables, without whole rows, system columns, and placeholders? */
extern bool dv_join_has_columns(const dv_join_plan *join, List *exprs);

extern bool dv_join_is_primary_id(const dv_join_plan *join, int table, AttrNumber attnum);

/* Would the query be short enough if its columns took up so many bytes? */
extern bool dv_join_has_room(const dv_join_plan *join, size_t output_bytes);

/* The table whose rows those of the join are. */
static inline dv_table_plan *
dv_join_root(const dv_join_plan *join)
{
	return ((dv_joined_table *) linitial(join->tables))->table;
}

extern double dv_join_fetched(PlannerInfo *root, const dv_join_plan *join, const RelOptInfo *rel);
extern double dv_join_request_cost(const dv_join_plan *join);
extern void dv_join_cost(const dv_join_plan *join, double fetched, Cost *startup, Cost *total);
extern ForeignScan *dv_join_make_plan(PlannerInfo *root, RelOptInfo *rel, ForeignPath *path,
									  List *tlist, Plan *outer_plan);

/* plan_group.c */
extern void dv_group_add_path(PlannerInfo *root, UpperRelationKind stage, const dv_join_plan *join,
							  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);

/* The clauses of HAVING, and the columns of the scan tuple, of a path for groups. */
extern List *dv_group_filter(const ForeignPath *path);
extern List *dv_group_columns(const ForeignPath *path);

#endif							/* DV_PLAN_TABLE_H */

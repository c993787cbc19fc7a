/*-------------------------------------------------------------------------
 *
 * plan.h
 *		Planning of reads, and what a plan carries to execution.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_PLAN_H
#define DV_PLAN_H

#include "foreign/fdwapi.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"

#include "fdw/relation.h"

/*
 * The service sorts nulls first in ascending order.  If they are needed at the
 * other end, two requests produce the order: one for the nulls, one for the
 * other rows.
 */
typedef enum dv_nulls
{
	DV_NULLS_AS_SORTED,			/* or the column contains none */
	DV_NULLS_FIRST,				/* requested separately */
	DV_NULLS_LAST
} dv_nulls;

/*
 * A read as it was planned.  A path begins one, and the plan completes it.
 *
 * PostgreSQL copies, stores, and prints plans, so the lists contain only nodes
 * that it can copy.  Expressions are in fdw_exprs, where PostgreSQL looks for
 * them; the plan refers to them by their positions.  fdw/scan/request.c builds the
 * query (dataverse/query.h) from this when the scan begins and the values are
 * known.
 */
typedef struct dv_read_plan
{
	List	   *columns;		/* IntList: attribute number for each column of the scan tuple; 0
								 * if it is not fetched */
	List	   *condition;		/* see fdw/plan/ship.h; NIL: all rows */
	List	   *orders;			/* IntList: attribute number, descending, … */
	dv_nulls	nulls;			/* where the nulls of the first sort key are */
	int			limit;			/* position of an expression, or -1 */
	int			offset;
	bool		count;			/* COUNT(*) instead of rows */
	List	   *rechecks;		/* IntList: positions of the filter clauses that the service was
								 * sent, too */
	int			unlisted;		/* rows that the service would send without the long list of the
								 * condition; 0: not known, or there is no such list */
	bool		given;			/* the condition gives the ids of all rows, and only ids are
								 * needed: no request is made */
	bool		keyed;			/* a join sets the keys (fdw/scan/lookup.h), and keeps the rows if
								 * they must all be read first */
	uint32		signature;		/* of the table as it was planned for */
} dv_read_plan;

/* Reads these columns of all rows, in no particular order. */
#define DV_READ_PLAN(attnums) \
	((dv_read_plan) {.columns = (attnums), .limit = -1, .offset = -1})

/* Reads those whose column "listed" has one of the values of an array, the only expression. */
extern dv_read_plan dv_read_plan_listed(List *columns, AttrNumber listed);

/*
 * Returns how many ranges of ids may be read at a time, and whether that is the
 * extension's choice.
 */
extern int	dv_read_plan_ranges(const dv_relation *relation, const dv_read_plan *plan,
								bool *automatic);

/*
 * Conversion to fdw_private of paths and plans, and back.  That of a path may have
 * one more part, which the plan does not need.
 */
#define DV_READ_PLAN_PARTS 5
extern List *dv_read_plan_pack(const dv_read_plan *plan);
extern dv_read_plan dv_read_plan_unpack(List *packed);

/* Returns the table that a plan reads, even if the plan replaces nodes above the scan. */
extern RangeTblEntry *dv_plan_table(const ForeignScan *plan, EState *estate);

/* Does the path return rows, rather than their number? */
extern bool dv_path_gives_rows(const ForeignPath *path);

/* A table that is read below a join, key by key. */
typedef struct dv_keyed_read
{
	const dv_attribute *attribute;	/* the column that the keys are compared with */
	bool		is_id;			/* it identifies the rows */
	bool		written;		/* they are updated or deleted, so all of them must be read before
								 * the first one is written */
	double		rows;			/* that the service would send if it was not asked about keys */
} dv_keyed_read;

/*
 * For fdw/plan/plan_lookup.c.  "keys" is the condition "column = ANY (CaseTestExpr)",
 * with a list that is put together during execution.  The first function tells
 * whether the service can be asked about it, as the clause of a join implies it.
 * The second makes a path for one such list, which takes this number of requests
 * and fetches this number of rows.
 */
extern bool dv_plan_takes_keys(PlannerInfo *root, RelOptInfo *baserel, RestrictInfo *join,
							   Expr *keys, dv_keyed_read *read);
extern Path *dv_plan_keyed_path(PlannerInfo *root, RelOptInfo *baserel, Expr *keys, double fetched,
								double requests);

/* Callbacks */
extern void dataverseGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void dataverseGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void dataverseGetForeignJoinPaths(PlannerInfo *root, RelOptInfo *joinrel,
										 RelOptInfo *outerrel, RelOptInfo *innerrel,
										 JoinType jointype, JoinPathExtraData * extra);
extern void dataverseGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage,
										  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);
extern ForeignScan *dataverseGetForeignPlan(PlannerInfo *root, RelOptInfo *foreignrel,
											Oid foreigntableid, ForeignPath *best_path, List *tlist,
											List *scan_clauses, Plan *outer_plan);
extern void dataverseBeginForeignScan(ForeignScanState *node, int eflags);
extern TupleTableSlot *dataverseIterateForeignScan(ForeignScanState *node);
extern bool dataverseRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot);
extern void dataverseReScanForeignScan(ForeignScanState *node);
extern void dataverseEndForeignScan(ForeignScanState *node);
extern void dataverseExplainForeignScan(ForeignScanState *node, struct ExplainState *es);

/* fdw/scan/async.c: scans below an Append that wait at the same time */
extern bool dataverseIsForeignPathAsyncCapable(ForeignPath *path);
extern void dataverseForeignAsyncRequest(struct AsyncRequest *areq);
extern void dataverseForeignAsyncConfigureWait(struct AsyncRequest *areq);
extern void dataverseForeignAsyncNotify(struct AsyncRequest *areq);

#endif							/* DV_PLAN_H */

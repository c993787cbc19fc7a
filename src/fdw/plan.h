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

/*
 * The service has nulls first when it sorts upwards.  Where they are wanted
 * at the other end, two requests make the order: one for nulls, one for the
 * rest.
 */
typedef enum dv_nulls
{
	DV_NULLS_AS_SORTED,			/* or there are none */
	DV_NULLS_FIRST,				/* asked for apart */
	DV_NULLS_LAST
} dv_nulls;

/*
 * A read as it was planned.  A path begins one, and the plan completes it.
 *
 * PostgreSQL copies, keeps and prints plans, so only nodes that it can copy are
 * in the lists.  Expressions are kept in fdw_exprs, where PostgreSQL looks for
 * them, and are referred to by their number there.  The query of
 * dataverse/query.h is built from this when the scan begins and the values are
 * known (fdw/request.c).
 */
typedef struct dv_read_plan
{
	List	   *columns;		/* IntList: attribute number for each column of the scan tuple; 0:
								 * not fetched */
	List	   *condition;		/* see fdw/ship.h; NIL: all rows */
	List	   *orders;			/* IntList: attribute number, descending, … */
	dv_nulls	nulls;			/* of the first order */
	int			limit;			/* number of an expression, or -1 */
	int			offset;
	bool		count;			/* COUNT(*) instead of rows */
	List	   *rechecks;		/* IntList: positions of the clauses of the filter that the
								 * service has been asked, too */
	bool		given;			/* the condition names the ids of all rows wanted, and only their
								 * ids are wanted: no request is made */
} dv_read_plan;

/* All rows with these columns, in no order. */
#define DV_READ_PLAN(attnums) \
	((dv_read_plan) {.columns = (attnums), .limit = -1, .offset = -1})

/* To fdw_private of paths and plans, and back. */
extern List *dv_read_plan_pack(const dv_read_plan *plan);
extern dv_read_plan dv_read_plan_unpack(List *packed);

/* The table that a plan reads, also where the plan stands for what is above it. */
extern RangeTblEntry *dv_plan_table(const ForeignScan *plan, EState *estate);

/* Rows one by one, not their number. */
extern bool dv_path_gives_rows(const ForeignPath *path);

/* Callbacks */
extern void dataverseGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void dataverseGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void dataverseGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage,
										  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);
extern ForeignScan *dataverseGetForeignPlan(PlannerInfo *root, RelOptInfo *foreignrel,
											Oid foreigntableid, ForeignPath *best_path, List *tlist,
											List *scan_clauses, Plan *outer_plan);
extern void dataverseBeginForeignScan(ForeignScanState *node, int eflags);
extern TupleTableSlot *dataverseIterateForeignScan(ForeignScanState *node);
extern void dataverseReScanForeignScan(ForeignScanState *node);
extern void dataverseEndForeignScan(ForeignScanState *node);
extern void dataverseExplainForeignScan(ForeignScanState *node, struct ExplainState *es);

/* fdw/async.c: scans below an Append that wait at the same time */
extern bool dataverseIsForeignPathAsyncCapable(ForeignPath *path);
extern void dataverseForeignAsyncRequest(struct AsyncRequest *areq);
extern void dataverseForeignAsyncConfigureWait(struct AsyncRequest *areq);
extern void dataverseForeignAsyncNotify(struct AsyncRequest *areq);

#endif							/* DV_PLAN_H */

/*
 * plan.h
 *		Planning of reads, and what a plan carries to execution.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PLAN_H
#define DV_PLAN_H

#include "foreign/fdwapi.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"

#include "fdw/plan/read_plan.h"

/* Returns the table that a plan reads, even if the plan replaces nodes above the scan. */
extern RangeTblEntry *dv_plan_table(const ForeignScan *plan, EState *estate);

/* Does the path return rows as they come, rather than their number or groups of them? */
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

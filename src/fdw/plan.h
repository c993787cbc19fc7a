/*-------------------------------------------------------------------------
 *
 * plan.h
 *		What a plan carries from planning to execution.
 *
 * Plans are copied, kept and printed by PostgreSQL, so all of it is Lists and
 * Integers; expressions are in fdw_exprs, where PostgreSQL looks for them, and
 * are referred to by number.  The query of dataverse/query.h is built from
 * this when the scan begins, with the values then known.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_PLAN_H
#define DV_PLAN_H

#include "foreign/fdwapi.h"

#include "fdw/bind.h"
#include "fdw/relation.h"

/* Members of fdw_private */
typedef enum dv_plan_item
{
	DV_PLAN_COLUMNS,			/* IntList: attribute number for each column of the scan tuple; 0:
								 * not fetched */
	DV_PLAN_CONDITION,			/* List, see fdw/ship.h; NIL: all rows */
	DV_PLAN_ORDERS,				/* IntList: attribute number, descending, … */
	DV_PLAN_NULLS,				/* Integer: dv_nulls of the first order */
	DV_PLAN_LIMIT,				/* Integer: number of an expression, or -1 */
	DV_PLAN_OFFSET,
	DV_PLAN_COUNT,				/* Integer: COUNT(*) instead of rows */
	DV_PLAN_RECHECKS,			/* Integer: so many clauses at the end of the filter are answered
								 * by the service, too */
	DV_PLAN_GIVEN				/* Integer: the condition names all ids that are wanted, and
								 * nothing but these: no request */
} dv_plan_item;

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

#define dv_plan_list(plan, item) ((List *) list_nth((plan)->fdw_private, item))
#define dv_plan_int(plan, item) intVal(list_nth((plan)->fdw_private, item))

/* The table that a plan reads, also above it. */
extern Oid	dv_plan_relid(const ForeignScan *plan, EState *estate);

/* fdw/request.c: what is asked, with all values in place. */
typedef struct dv_request
{
	const dv_relation *relation;
	ForeignScan *plan;
	dv_bindings binding;
	int64		wanted;			/* rows that are still to come, at most; -1: all */
} dv_request;

/* One with room for the values of the plan's expressions. */
extern void dv_request_init(dv_request *request, ForeignScan *plan, EState *estate);

/*
 * Fills "query" for request "n" of those that the scan consists of.  False if
 * there are not so many, or if no row could come of it.  *more: try the next.
 */
extern bool dv_request_query(dv_request *request, int n, dv_query *query, bool *more);

/* Rows for each page, 0: $top says it. */
extern int	dv_request_page_size(const dv_request *request, const dv_query *query);

/* Annotations for the Prefer header, or NULL. */
extern const char *dv_request_annotations(const dv_request *request);

/* The URL, in the current memory context. */
extern char *dv_request_url(const dv_query *query, bool readable);

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

/*
 * local_join.c
 *		Joins that the service refuses, made here.
 *
 * A join that the service is asked for has a plan below it by which PostgreSQL makes
 * the same join of the tables alone.  It takes over if the service refuses the query
 * before its first row, and from then on in the session for joins of these tables.
 * As long as it is not run, the plan is kept out of sight: EXPLAIN would show nodes
 * that do nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/instrument.h"
#include "lib/stringinfo.h"

#include "fdw/scan/scan_state.h"

/* "contact, account": joins of the same tables are refused alike */
static const char *
names_of(const dv_request *request)
{
	StringInfoData s;
	int			i;

	initStringInfo(&s);
	for (i = 0; i < request->ntables; i++)
		appendStringInfo(&s, "%s%s", i == 0 ? "" : ", ", request->relations[i]->table);
	return s.data;
}

PlanState *
dv_local_join_take(ForeignScanState *node)
{
	PlanState  *local = outerPlanState(node);

	outerPlanState(node) = NULL;
	return local;
}

/*
 * The plan has evaluated the node's filter where its columns were, and returns no
 * more than the node's parent needs.  So the filter is for rows of the service.
 */
void
dv_local_join_begin(dv_scan *scan, ForeignScanState *node, PlanState * local)
{
	scan->local = local;
	if (local == NULL)
		return;
	scan->filter = node->ss.ps.qual;
	node->ss.ps.qual = NULL;
}

bool
dv_local_join_accepts(const dv_scan *scan, ForeignScanState *node, TupleTableSlot *slot)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	if (scan->filter == NULL || scan->joined_here)
		return true;
	econtext->ecxt_scantuple = slot;
	if (ExecQual(scan->filter, econtext))
		return true;
	InstrCountFiltered1(node, 1);
	return false;
}

bool
dv_local_join_takes_over(dv_scan *scan)
{
	if (scan->local != NULL && !scan->joined_here)
		scan->joined_here = dv_form_most(dv_read_session(scan), DV_FORM_JOINS,
										 names_of(&scan->request), 1) == 0;
	return scan->joined_here;
}

void
dv_local_join_start(dv_scan *scan, const dv_error *refusal)
{
	scan->joined_here = true;
	scan->refusal = MemoryContextStrdup(scan->context, refusal->message);
}

TupleTableSlot *
dv_local_join_next(dv_scan *scan)
{
	TupleTableSlot *slot;
	dv_error	refusal = {.message = scan->refusal};
	MemoryContext old;

	if (scan->request.wanted == 0)
		return NULL;
	/* nodes allocate in the current context what lasts longer than a row */
	old = MemoryContextSwitchTo(scan->context);
	slot = ExecProcNode(scan->local);
	MemoryContextSwitchTo(old);
	/* what the tables alone are refused for is no fault of the join's */
	if (scan->refusal != NULL)
		dv_form_refused(scan->session, DV_FORM_JOINS, names_of(&scan->request), 0, &refusal);
	scan->refusal = NULL;
	if (TupIsNull(slot))
		return NULL;
	if (scan->request.wanted > 0)
		scan->request.wanted--;
	slot_getallattrs(slot);
	return slot;
}

bool
dv_local_join_show(ForeignScanState *node)
{
	const dv_scan *scan = node->fdw_state;

	if (!scan->joined_here)
		return false;
	outerPlanState(node) = scan->local;
	return true;
}

void
dv_local_join_end(dv_scan *scan, const ForeignScanState *node)
{
	/* what EXPLAIN has shown is ended by the executor */
	if (scan->local != NULL && outerPlanState(node) == NULL)
		ExecEndNode(scan->local);
}

/*
 * scan.c
 *		Reads as nodes of the executor: the callbacks.
 *
 * The values of the query are computed when the first row is wanted, and again
 * after each rescan.  If they have not changed, the kept rows are returned
 * (fdw/scan/kept.c).  Rows come from fdw/scan/read.c.  All groups are formed before
 * the first one is returned (fdw/scan/group_scan.c).
 *
 * If the statement writes the table that it reads, all rows are read first
 * (fdw/scan/spool.c).  If a join sets the keys of the scan, the join does this.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "compat.h"
#include "fdw/modify/drain.h"
#include "fdw/plan/plan.h"
#include "fdw/result_relation.h"
#include "fdw/scan/evaluate.h"
#include "fdw/scan/scan_state.h"
#include "fdw/scan/wanted.h"

/* All scans of this backend that have a spool. */
static dlist_head spooled = DLIST_STATIC_INIT(spooled);

const dv_spool *
dv_scan_spool(const dv_scan *scan)
{
	return scan->spool;
}

void
dv_scan_groups(const dv_scan *scan, int *parts, bool *locally)
{
	*parts = scan->parts;
	*locally = scan->grouped_locally;
}

bool
dv_scan_joined_here(const dv_scan *scan)
{
	return scan->local_join != NULL;
}

bool
dv_scan_waiting(const dv_scan *scan)
{
	return scan->waiting;
}

bool
dv_scan_ready(const dv_scan *scan)
{
	if (!scan->waiting)
		return true;
	return scan->joined_here ? dv_local_join_ready(scan->local_join) : dv_ranges_ready(scan->ranges);
}

/*
 * Beginning
 */

static void
leave_spooled(void *arg)
{
	dv_scan    *scan = arg;

	if (scan->state != NULL)
		dlist_delete(&scan->node);
	scan->state = NULL;
}

static void
start_spool(dv_scan *scan, ForeignScanState *node)
{
	MemoryContextCallback *callback = palloc0(sizeof(*callback));

	scan->params = dv_evaluate_params(((ForeignScan *) node->ss.ps.plan)->fdw_exprs);
	scan->spool = dv_spool_create(node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
	scan->state = node;
	dlist_push_tail(&spooled, &scan->node);
	callback->func = leave_spooled;
	callback->arg = scan;
	MemoryContextRegisterResetCallback(node->ss.ps.state->es_query_cxt, callback);
}

/* Sets up what only the scan of one table has.  The statement may write that table. */
static void
begin_table(dv_scan *scan, ForeignScanState *node)
{
	const ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	const dv_relation *relation = scan->request.relations[0];
	const dv_read_plan *read = &scan->request.plan;

	if (plan->fsSystemCol)
		scan->system = dv_system_columns_in(list_concat_copy(plan->scan.plan.targetlist,
															 plan->scan.plan.qual),
											relation, node->ss.ps.state);
	scan->lists = dv_list_check_take(node, read);
	if (!read->ids_suffice && !read->keyed && dv_resultrel_is_written(relation, node->ss.ps.state))
		start_spool(scan, node);
}

void
dataverseBeginForeignScan(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	const dv_relation **relations;
	dv_read_plan read;
	dv_scan    *scan;
	bool		automatic;
	int			ranges;
	int			i;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	read = dv_read_plan_of(plan);
	relations = dv_read_plan_open(&read, estate);
	dv_resultrel_warn_of_lock(relations[0], estate, plan->scan.scanrelid);
	for (i = 0; i < list_length(read.tables); i++)
		dv_drain_visible(estate, relations[i]);
	ranges = dv_read_plan_ranges(&read, relations[0], &automatic);
	scan = dv_read_create(&read, relations, plan->fdw_exprs,
						  dv_scan_user(plan, dv_plan_table(plan, estate)), ranges > 1);
	node->fdw_state = scan;
	scan->most_ranges = ranges;
	scan->automatic = automatic;
	scan->operation = "read";
	scan->executor = &node->ss.ps;
	scan->expected = read.grouped || read.rows == 0 ? -1 : read.rows;
	scan->values = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
	if (scan->request.ntables == 1 && !read.grouped)
		begin_table(scan, node);
	scan->patient = !node->ss.ps.async_capable || scan->spool != NULL;
}

/*
 * Rows
 */

static void
bind_values(dv_scan *scan, ForeignScanState *node)
{
	MemoryContext old = MemoryContextSwitchTo(scan->query);
	dv_request *request = &scan->request;
	int64		limit;

	dv_evaluate(scan->values, node, request->values);
	scan->skip = Max(dv_row_count(request->values, request->plan.offset, false), 0);
	limit = dv_row_count(request->values, request->plan.limit, true);
	dv_request_start(request, limit < 0 ? -1 :
					 limit > PG_INT64_MAX - scan->skip ? PG_INT64_MAX : limit + scan->skip);
	if (scan->lists != NULL)
		dv_list_check_bind(scan->lists, request->values);
	scan->bound = true;
	MemoryContextSwitchTo(old);
}

/* Returns the only row of COUNT(*), which may have several columns. */
static bool
next_count(dv_scan *scan, TupleTableSlot *slot)
{
	int64		n;
	int			i;

	if (!scan->request.more)
		return false;
	n = dv_read_count(scan);
	for (i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		slot->tts_values[i] = Int64GetDatum(n);
		slot->tts_isnull[i] = false;
	}
	return true;
}

static bool
next_group(dv_scan *scan, TupleTableSlot *slot)
{
	if (scan->groups == NULL)
		dv_group_scan_form(scan, slot->tts_tupleDescriptor);
	return dv_groups_next(scan->groups, slot->tts_values, slot->tts_isnull);
}

/* Reads the next row that is not skipped; returns false at the end, or if the scan must wait. */
static bool
next_row(dv_scan *scan, TupleTableSlot *slot)
{
	do
	{
		if (dv_read_next(scan) != DV_PAGES_ROW)
			return false;
	} while (scan->skip-- > 0);
	scan->skip = 0;
	dv_scan_row(scan, slot->tts_tupleDescriptor->natts, slot->tts_values, slot->tts_isnull);
	return true;
}

/* Returns the next row from the service; an empty slot at the end, or if the scan must wait. */
static TupleTableSlot *
next_tuple(ForeignScanState *node)
{
	dv_scan    *scan = node->fdw_state;
	const dv_read_plan *plan = &scan->request.plan;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	for (;;)
	{
		ExecClearTuple(slot);
		if (!scan->bound)
			bind_values(scan, node);
		if (!(plan->count ? next_count : plan->grouped ? next_group : next_row) (scan, slot))
			break;
		ExecStoreVirtualTuple(slot);
		dv_slot_add_system(&scan->system, slot);
		if (scan->lists == NULL || dv_list_check_row(scan->lists, slot))
			return slot;
	}
	if (!scan->waiting && scan->progress != NULL)
		dv_progress_rest(scan->progress);
	return slot;
}

/*
 * The callbacks
 */

static void
read_all(dv_scan *scan)
{
	TupleTableSlot *slot = scan->state->ss.ss_ScanTupleSlot;

	for (next_tuple(scan->state); !TTS_EMPTY(slot); next_tuple(scan->state))
		dv_spool_put(scan->spool, slot);
	dv_spool_fill(scan->spool);
}

/* Gets the next row.  Returns true if it comes from the kept rows, or if these end. */
static bool
next_kept(dv_scan *scan, ForeignScanState *node)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (scan->kept.again &&
		!dv_kept_holds(&scan->kept, node, scan->values, scan->request.values))
		dv_read_restart(scan);
	if (!scan->bound)
		dv_kept_begin(&scan->kept, node);
	if (dv_kept_next(&scan->kept, slot))
		return true;
	(void) next_tuple(node);
	if (!TTS_EMPTY(slot) || !scan->waiting)
		dv_kept_add(&scan->kept, slot);
	return false;
}

TupleTableSlot *
dataverseIterateForeignScan(ForeignScanState *node)
{
	dv_scan    *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (scan->spool == NULL && !next_kept(scan, node))
		return slot;
	if (scan->spool != NULL && !dv_spool_is_full(scan->spool))
		read_all(scan);
	if (scan->spool != NULL)
		(void) dv_spool_next(scan->spool, slot);
	/* stored rows lack them */
	if (!TTS_EMPTY(slot))
		dv_slot_add_system(&scan->system, slot);
	return slot;
}

/* The row is a copy of one that the scan has returned before (see fdw/plan/plan_lookup.c). */
bool
dataverseRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot)
{
	dv_scan    *scan = node->fdw_state;

	dv_slot_add_system(&scan->system, slot);
	return scan->lists == NULL || dv_list_check_again(scan->lists);
}

void
dv_scan_read_all(EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &spooled)
	{
		dv_scan    *scan = dlist_container(dv_scan, node, iter.cur);

		/* a scan that depends on other rows was planned so that it can be read later */
		if (scan->state->ss.ps.state == estate && !dv_spool_is_full(scan->spool) &&
			bms_is_empty(scan->params))
			read_all(scan);
	}
}

void
dataverseReScanForeignScan(ForeignScanState *node)
{
	dv_scan    *scan = node->fdw_state;

	/* the rows are returned again, and not what has been written since */
	if (scan->spool != NULL && dv_spool_is_full(scan->spool) &&
		!bms_overlap(node->ss.ps.chgParam, scan->params))
	{
		dv_spool_rewind(scan->spool);
		return;
	}
	if (scan->spool == NULL && dv_kept_rescan(&scan->kept))
	{
		scan->waiting = false;
		return;
	}
	if (scan->spool != NULL)
		dv_spool_clear(scan->spool);
	dv_read_restart(scan);
}

void
dataverseEndForeignScan(ForeignScanState *node)
{
	dv_scan    *scan = node->fdw_state;

	if (scan == NULL)
		return;
	if (scan->spool != NULL)
	{
		leave_spooled(scan);
		dv_spool_end(scan->spool);
	}
	dv_read_end(scan);
}

/*-------------------------------------------------------------------------
 *
 * async.c
 *		Several scans below one Append, waiting for their answers at the same
 *		time.
 *
 * Append asks each scan for a row; one that would have to wait says so and is
 * put aside (ForeignAsyncRequest).  When no scan has a row, Append gives each
 * of those the chance to name a descriptor, waits for all of them and the
 * latch, and calls back those whose descriptor is readable.
 *
 * All calls of a backend share one descriptor, which says that something can
 * be moved on, not for whom, and must not be watched twice.  So only the last
 * of an Append's scans names it, after it has moved all calls on, and sets its
 * timer to when a call wants to be moved on next.  Since the last one speaks
 * for all, a scan does not wait for its callback: when Append prepares to
 * wait and its answer is there already, it gives the row at once, and the
 * descriptor is made readable so that nobody waits.
 *
 * Nothing is kept between these calls that a rescan would have to undo: what
 * is under way belongs to the scan.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/execAsync.h"
#include "executor/instrument.h"
#include "foreign/fdwapi.h"
#include "nodes/execnodes.h"
#include "storage/latch.h"
#include "utils/guc.h"

#include "compat.h"
#include "client/call.h"
#include "fdw/plan.h"
#include "fdw/scan.h"

bool
dataverseIsForeignPathAsyncCapable(ForeignPath *path)
{
	static int	running = 0;

	if (running == 0)
		running = atoi(GetConfigOption("server_version_num", false, false));
	return dv_append_notices_latch(running) && dv_path_gives_rows(path);
}

static dv_scan *
scan_of(const AsyncRequest *areq)
{
	return ((ForeignScanState *) areq->requestee)->fdw_state;
}

/* Has this one been put aside, and is it a scan of ours? */
static bool
is_pending(const AsyncRequest *areq)
{
	const ForeignScanState *node = (const ForeignScanState *) areq->requestee;

	return areq->callback_pending && IsA(node, ForeignScanState) &&
		node->fdwroutine->ForeignAsyncRequest == dataverseForeignAsyncRequest;
}

/* The next row, the end, or neither for now. */
static void
answer(AsyncRequest *areq)
{
	TupleTableSlot *slot = areq->requestee->ExecProcNodeReal(areq->requestee);

	if (TupIsNull(slot) && dv_scan_waiting(scan_of(areq)))
		ExecAsyncRequestPending(areq);
	else
		ExecAsyncRequestDone(areq, slot);
}

void
dataverseForeignAsyncRequest(AsyncRequest *areq)
{
	answer(areq);
}

void
dataverseForeignAsyncNotify(AsyncRequest *areq)
{
	answer(areq);
}

/* What the core does around a callback, where it does not expect an answer. */
static void
answer_unasked(AsyncRequest *areq)
{
	areq->callback_pending = false;
	answer(areq);
	ExecAsyncResponse(areq);
	if (areq->requestee->instrument != NULL)
		InstrUpdateTupleCount(areq->requestee->instrument, TupIsNull(areq->result) ? 0.0 : 1.0);
}

static bool
is_last_pending(const AsyncRequest *areq)
{
	AppendState *append = (AppendState *) areq->requestor;
	int			i = areq->request_index;

	while ((i = bms_next_member(append->as_asyncplans, i)) >= 0)
	{
		if (is_pending(append->as_asyncrequests[i]))
			return false;
	}
	return true;
}

/* Is there a row for Append to return, or one of ours that could be asked for one? */
static bool
has_something(const AppendState *append, bool *pending)
{
	bool		found = append->as_nasyncresults > 0;
	int			i = -1;

	*pending = false;
	while ((i = bms_next_member(append->as_asyncplans, i)) >= 0)
	{
		const AsyncRequest *areq = append->as_asyncrequests[i];

		if (!is_pending(areq))
			continue;
		*pending = true;
		found = found || dv_scan_ready(scan_of(areq));
	}
	return found;
}

void
dataverseForeignAsyncConfigureWait(AsyncRequest *areq)
{
	AppendState *append = (AppendState *) areq->requestor;
	bool		last = is_last_pending(areq);
	bool		found;
	bool		pending;

	if (dv_scan_ready(scan_of(areq)))
		answer_unasked(areq);
	if (!last)
		return;
	dv_call_advance();
	found = has_something(append, &pending);
	if (found || pending)
		AddWaitEventToSet(append->as_eventset, WL_SOCKET_READABLE,
						  dv_call_watch(found ? dv_now() : 0), NULL, areq);
}

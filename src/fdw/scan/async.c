/*
 * async.c
 *		Lets several scans below one Append wait for their answers at the same
 *		time.
 *
 * Append requests a row from each scan; a scan that would have to wait says so
 * and is set aside (ForeignAsyncRequest).  When no scan has a row, Append lets
 * each of those add a descriptor to its wait event set, waits for these and
 * the latch, and calls back the scans whose descriptors are readable.
 *
 * All calls of a backend share one descriptor.  It shows that some call can
 * make progress, but not which one, and it must not be watched twice.  So only
 * the last of an Append's pending scans adds it, after all calls have made
 * progress, and sets its timer to the time when a call wants to continue.
 * Since the last scan acts for all of them, a scan does not wait for its
 * callback: if its answer has arrived when Append prepares to wait, the scan
 * returns the row at once, and the descriptor is made readable so that Append
 * does not wait.
 *
 * Nothing is kept between these calls that a rescan would have to undo:
 * requests in progress belong to the scan.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/execAsync.h"
#include "executor/instrument.h"
#include "foreign/fdwapi.h"
#include "nodes/execnodes.h"
#include "storage/latch.h"
#include "utils/guc.h"

#include "client/call.h"
#include "compat.h"
#include "fdw/plan/plan.h"
#include "fdw/scan/scan.h"

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

/* Is this a scan of ours that has been set aside? */
static bool
is_pending(const AsyncRequest *areq)
{
	const ForeignScanState *node = (const ForeignScanState *) areq->requestee;

	return areq->callback_pending && IsA(node, ForeignScanState) &&
		node->fdwroutine->ForeignAsyncRequest == dataverseForeignAsyncRequest;
}

/* Returns the next row, the end, or neither for now. */
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

/* Append waits unless other subplans have rows, and calls this as soon as it is woken. */
void
dataverseForeignAsyncNotify(AsyncRequest *areq)
{
	if (((AppendState *) areq->requestor)->as_syncdone)
		dv_call_watched();
	answer(areq);
}

/* Does what the executor does around a callback, at a point where it expects no answer. */
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

/* Is there a row for Append to return, or a pending scan that could have one? */
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

/*-------------------------------------------------------------------------
 *
 * progress.h
 *		How far a write or a read of this backend is, for all to see.
 *
 * Told in a slot of the pool's memory, which is found when the operation
 * begins; if all are taken nobody sees it, and that is all.  Telling takes no
 * lock: the owner writes the copy that is not shown and then turns.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_PROGRESS_H
#define DV_PROGRESS_H

#include "net/http.h"

typedef struct dv_progress dv_progress;

/* What a backend waits for. */
typedef enum dv_wait_reason
{
	DV_WAIT_CONNECT,
	DV_WAIT_TOKEN,
	DV_WAIT_RESPONSE,
	DV_WAIT_SLOT,
	DV_WAIT_THROTTLE,
	DV_WAIT_BACKOFF
} dv_wait_reason;

#define DV_WAIT_REASONS (DV_WAIT_BACKOFF + 1)

/* "response" */
extern const char *dv_wait_reason_name(dv_wait_reason reason);

/* For pg_stat_activity, which has names for them from PostgreSQL 17 on. */
extern uint32 dv_wait_reason_event(dv_wait_reason reason);

/*
 * "table" is shown as it is; "total": rows expected, negative if that is not
 * known.  Ends with "owner", or by dv_progress_end.
 */
extern dv_progress *dv_progress_begin(Oid serverid, const char *server, const char *table,
									  const char *operation, double total, MemoryContext owner);

/* Of a write: rows so far, and batches under way.  To be told as often as one likes. */
extern void dv_progress_update(dv_progress *progress, int64 taken, int64 sent,
							   int64 acknowledged, int64 rejected, int in_flight);

/* Of a read: rows received, and requests under way. */
extern void dv_progress_read(dv_progress *progress, int64 taken, int in_flight);

/* Nothing is to be done: not shown until it goes on. */
extern void dv_progress_rest(dv_progress *progress);

extern void dv_progress_end(dv_progress *progress);

/* What this backend waits for from now on. */
extern void dv_progress_wait(dv_wait_reason reason);
extern void dv_progress_go_on(void);

#endif							/* DV_PROGRESS_H */

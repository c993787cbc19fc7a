/*
 * progress.h
 *		Progress reports of this backend's writes and reads.
 *
 * Progress is reported in a slot of the pool's shared memory, which is
 * claimed when the operation begins.  If all slots are taken, the operation
 * is not shown, but it runs all the same.  Reporting takes no lock: the owner
 * writes the copy that is not shown, and then switches copies.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PROGRESS_H
#define DV_PROGRESS_H

#include "net/http.h"

typedef struct dv_progress dv_progress;

/* The reasons why a backend waits. */
typedef enum dv_wait_reason
{
	DV_WAIT_CONNECT,
	DV_WAIT_TOKEN,
	DV_WAIT_RESPONSE,
	DV_WAIT_SLOT,
	DV_WAIT_THROTTLE,
	DV_WAIT_BACKOFF,
	DV_WAIT_JOB
} dv_wait_reason;

#define DV_WAIT_REASONS (DV_WAIT_JOB + 1)

/* Returns the name for views, such as "response". */
extern const char *dv_wait_reason_name(dv_wait_reason reason);

/* Returns the wait event for pg_stat_activity, which shows its name from PostgreSQL 17 on. */
extern uint32 dv_wait_reason_event(dv_wait_reason reason);

/*
 * Begins a report.  "table" is shown as it is; "total" is the number of rows
 * expected, or negative if it is not known.  The report ends with the memory
 * context "owner" or with dv_progress_end, whichever comes first.
 */
extern dv_progress *dv_progress_begin(Oid serverid, const char *server, const char *table,
									  const char *operation, double total, MemoryContext owner);

/*
 * Used in place of a number of requests in flight: there is one, and this backend
 * only waits for it, so the reason for the wait shows whether the request has been
 * sent.
 */
#define DV_PROGRESS_ONE (-1)

/*
 * Reports the requests of a write that were sent or answered, its rows so far, and
 * its batches in flight.  Cheap enough for every row.
 */
extern void dv_progress_update(dv_progress *progress, int64 requests, int64 taken, int64 sent,
							   int64 acknowledged, int64 rejected, int in_flight);

/*
 * Reports the answers and rows that a read has received, and its requests in
 * flight.  Does nothing if there is no report.
 */
extern void dv_progress_read(dv_progress *progress, int64 requests, int64 taken, int in_flight);

/* Reports that the operation has nothing to do.  It is hidden until it goes on. */
extern void dv_progress_rest(dv_progress *progress);

extern void dv_progress_end(dv_progress *progress);

/* Report the beginning of a wait and its reason, and its end. */
extern void dv_progress_wait(dv_wait_reason reason);
extern void dv_progress_go_on(void);

#endif							/* DV_PROGRESS_H */

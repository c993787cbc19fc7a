/*-------------------------------------------------------------------------
 *
 * throttle.h
 *		Whether one application user is throttled, until when, and how often
 *		it was.
 *
 * This decides whether the application user may be used now.  How many
 * requests it may have in flight is up to the rate controller (rate.h).
 *
 * Pure: time is an argument, and the state is a plain struct that may live
 * in shared memory, protected by a lock of its owner.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_THROTTLE_H
#define DV_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

/* Why the service answered 429. */
typedef enum dv_throttle_cause
{
	DV_THROTTLE_REQUESTS,		/* 0x80072322 */
	DV_THROTTLE_EXECUTION,		/* 0x80072321 */
	DV_THROTTLE_CONCURRENCY,	/* 0x80072326 */
	DV_THROTTLE_OTHER			/* a 429 or a busy server with another code */
} dv_throttle_cause;

#define DV_THROTTLE_CAUSES (DV_THROTTLE_OTHER + 1)

typedef struct dv_throttle
{
	int64_t		until;			/* 0: never throttled */
	int64_t		last_at;
	int64_t		last_retry_after;
	int64_t		burst_at;		/* when the last burst of throttles began */
	int			consecutive;	/* cuts since the last request that succeeded */
	uint64_t	events[DV_THROTTLE_CAUSES];
	int64_t		total_backoff;	/* time during which the user could not be used */
} dv_throttle;

/*
 * Records a 429.  "margin" (buffer and jitter) is added to the Retry-After,
 * and the end of the throttle never moves to an earlier time.  "cut" means
 * that this 429 began a new burst (see dv_rate_throttle).  An application
 * user that is cut repeatedly, without a successful request in between, is
 * left unused for a longer time after each cut.
 */
extern void dv_throttle_record(dv_throttle *throttle, dv_throttle_cause cause, bool cut,
							   int64_t retry_after, int64_t margin, int64_t now);

/* A request succeeded.  If it was sent before the last burst, that proves nothing. */
extern void dv_throttle_success(dv_throttle *throttle, int64_t sent_at);

extern bool dv_throttle_active(const dv_throttle *throttle, int64_t now);

/* Has the circuit breaker tripped?  If so, requests are sent one at a time until one succeeds. */
extern bool dv_throttle_probing(const dv_throttle *throttle);

extern uint64_t dv_throttle_events(const dv_throttle *throttle);

/* Returns the name for views: "0x80072322", or "429". */
extern const char *dv_throttle_code(dv_throttle_cause cause);

#endif							/* DV_THROTTLE_H */

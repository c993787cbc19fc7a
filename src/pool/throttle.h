/*
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

/* The circuit breaker opens after this many cuts in a row, or in a window of five minutes. */
#define DV_BREAKER_ROW		5
#define DV_BREAKER_WINDOW	20

typedef struct dv_throttle
{
	int64_t		until;			/* 0: never throttled */
	int64_t		last_at;
	int64_t		last_retry_after;
	dv_throttle_cause last_cause;
	int64_t		burst_at;		/* when the last burst of throttles began */
	int			consecutive;	/* cuts since the last request that succeeded */
	bool		open;			/* the circuit breaker, until a request goes through */
	uint32_t	ncuts;			/* since it was closed last */
	int64_t		cuts[DV_BREAKER_WINDOW];	/* when the last of them were, in turn */
	uint64_t	events[DV_THROTTLE_CAUSES];
	int64_t		total_backoff;	/* time during which the user could not be used */
} dv_throttle;

/*
 * Records a 429.  "margin" (buffer and jitter) is added to the Retry-After,
 * and the end of the throttle never moves to an earlier time.  "cut" means
 * that this 429 began a new burst (see dv_rate_throttle).  An application
 * user that is cut too often opens the circuit breaker: it is left unused for
 * a while, and for a longer time after each cut that has no successful request
 * before it.  Returns true if the circuit breaker has just opened.
 */
extern bool dv_throttle_record(dv_throttle *throttle, dv_throttle_cause cause, bool cut,
							   int64_t retry_after, int64_t margin, int64_t now);

/*
 * Notes that a request was answered.  This proves nothing if it was sent
 * before the last burst.  Returns true if the circuit breaker has just closed.
 */
extern bool dv_throttle_answered(dv_throttle *throttle, int64_t sent_at);

extern bool dv_throttle_active(const dv_throttle *throttle, int64_t now);

/*
 * Returns true if the circuit breaker is open: then requests are sent one at a time until one
 * succeeds.
 */
extern bool dv_throttle_probing(const dv_throttle *throttle);

/* Forgets that the user was throttled, but keeps the counters. */
extern void dv_throttle_reset(dv_throttle *throttle);

extern uint64_t dv_throttle_events(const dv_throttle *throttle);

/* Returns the name for views: "0x80072322", or "429". */
extern const char *dv_throttle_code(dv_throttle_cause cause);

#endif							/* DV_THROTTLE_H */

/*-------------------------------------------------------------------------
 *
 * throttle.h
 *		Is one application user throttled, until when, and how often was it?
 *
 * Answers "may it be used now"; how many requests it may have under way is
 * the rate controller's matter (rate.h).
 *
 * Pure: time is an argument, the state a plain struct that may live in
 * shared memory under the lock of its owner.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_THROTTLE_H
#define DV_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

/* Why the service said 429. */
typedef enum dv_throttle_cause
{
	DV_THROTTLE_REQUESTS,		/* 0x80072322 */
	DV_THROTTLE_EXECUTION,		/* 0x80072321 */
	DV_THROTTLE_CONCURRENCY,	/* 0x80072326 */
	DV_THROTTLE_OTHER			/* 429 or a busy server with another code */
} dv_throttle_cause;

#define DV_THROTTLE_CAUSES (DV_THROTTLE_OTHER + 1)

typedef struct dv_throttle
{
	int64_t		until;			/* 0: never throttled */
	int64_t		last_at;
	int64_t		last_retry_after;
	int64_t		burst_at;		/* when the last burst of throttles began */
	int			consecutive;	/* cuts since the last request that went through */
	uint64_t	events[DV_THROTTLE_CAUSES];
	int64_t		total_backoff;	/* time during which it could not be used */
} dv_throttle;

/*
 * Records a 429.  The expiry only ever moves later; "margin" (buffer and
 * jitter) is added to what the service asked.  "cut" says that it opened a
 * new burst (dv_rate_throttle); a user that is cut again and again without
 * one request going through is shut out for longer each time.
 */
extern void dv_throttle_record(dv_throttle *throttle, dv_throttle_cause cause, bool cut,
							   int64_t retry_after, int64_t margin, int64_t now);

/* A request went through.  One that was sent before the last burst shows nothing. */
extern void dv_throttle_success(dv_throttle *throttle, int64_t sent_at);

extern bool dv_throttle_active(const dv_throttle *throttle, int64_t now);

/* The circuit breaker has tripped: one request at a time until one goes through. */
extern bool dv_throttle_probing(const dv_throttle *throttle);

extern uint64_t dv_throttle_events(const dv_throttle *throttle);

/* How views name it: "0x80072322", or "429". */
extern const char *dv_throttle_code(dv_throttle_cause cause);

#endif							/* DV_THROTTLE_H */

/*-------------------------------------------------------------------------
 *
 * retry.h
 *		Is what came to nothing sent again, when, and by whom?
 *
 * The rules are the same for a whole request and for a part of a $batch.
 * Each cause of repetition has a counter of its own, so that throttles do not
 * use up the patience that deadlocks need.  Of the throttles only those count
 * that came although the request had waited as long as it was told: that
 * another user is throttled, too, is no sign that waiting does not help.
 *
 * Pure: time and chance are arguments.  trouble.h fills in an event from an
 * error, writes the log and counts.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_RETRY_H
#define DV_RETRY_H

#include "dataverse/error.h"
#include "pool/cause.h"

typedef struct dv_retry_policy
{
	int			max_throttle_retries;	/* 0 or less: no bound */
	int			max_retries;	/* for each other cause */
	int64_t		first_backoff;	/* doubled each time, with jitter */
	int64_t		longest_backoff;
	int64_t		tolerance;		/* max_retry_after_tolerance; -1: wait as long as it takes */
} dv_retry_policy;

/* What has happened to one request, or to parts that travel together.  Begins as zeros. */
typedef struct dv_retry
{
	int			times[DV_RETRY_CAUSES]; /* how often it was sent again; of throttles, those that
										 * count */
	int64_t		told_until;		/* it was told not to come back before */
	uint64_t	renewed;		/* users whose token was refused, and none since was accepted */
} dv_retry;

/* How an attempt ended. */
typedef struct dv_retry_event
{
	dv_verdict	verdict;
	dv_retry_cause cause;		/* verdict RETRY */
	bool		unknown;		/* it may have been carried out */
	bool		repeatable;		/* that would do no harm */
	bool		others;			/* the user is at fault, and there are others; verdict REFUSED */
	int			user;			/* who sent it */
	int64_t		sent_at;
	int64_t		told;			/* THROTTLED: how long it is to wait; RETRY: at least; < 0: not
								 * said */
	bool		held_back;		/* the pool keeps throttled users from sending */
	int64_t		pause;			/* how long it waits by itself if the pool does not */
	int64_t		now;
	double		random;			/* from 0 up to 1 */
} dv_retry_event;

typedef enum dv_retry_next
{
	DV_NEXT_END,				/* that was the last attempt */
	DV_NEXT_AGAIN,				/* when "delay" is over */
	DV_NEXT_OTHER_USER			/* at once, but not by this one */
} dv_retry_next;

typedef struct dv_retry_decision
{
	dv_retry_next next;
	dv_retry_cause cause;		/* of AGAIN, for the counters */
	int64_t		delay;
} dv_retry_decision;

extern dv_retry_decision dv_retry_decide(dv_retry *retry, const dv_retry_policy *policy,
										 const dv_retry_event *event);

/* Takes what happened to others that from now on travel with it for its own. */
extern void dv_retry_join(dv_retry *retry, const dv_retry *other);

/* Is that a time that may be waited for a throttle to pass? */
extern bool dv_retry_tolerates(const dv_retry_policy *policy, int64_t wait);

#endif							/* DV_RETRY_H */

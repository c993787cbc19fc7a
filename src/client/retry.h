/*
 * retry.h
 *		The rules by which a failed attempt is repeated: whether, when, and
 *		by which user.
 *
 * If the application user is at fault, and not the request, another user sends
 * it at once, if any is left, and nothing is counted.  A refused token that
 * has worked has expired, which can happen any number of times; only a request
 * that is refused repeatedly, with tokens with which others succeed, is
 * delayed and finally given up.
 *
 * The rules are the same for a whole request and for a part of a $batch.  Each
 * cause of repetition has a counter of its own, so that throttles do not use
 * up the retries that deadlocks need.  A throttle counts only if the request
 * had waited as long as it was told to, and if the service has carried out
 * nothing for any user of the pool since the previous refusal: neither a
 * throttle of another user nor bad luck while others are served shows that
 * waiting is useless.  Therefore throttles end a load only if the service
 * accepts no request.
 *
 * A request that may succeed in halves is repeated as a whole only once.  The
 * halves inherit its history, so that everything that came from one batch
 * shares the retries of one request.
 *
 * Pure: the time and the random number are arguments.  trouble.c derives the
 * event from an error, writes the log, and counts.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RETRY_H
#define DV_RETRY_H

#include "dataverse/error.h"
#include "pool/cause.h"

typedef struct dv_retry_policy
{
	int			max_throttle_retries;	/* 0 or less: no limit */
	int			max_retries;	/* for each other cause */
	int64_t		first_backoff;	/* doubled each time, with jitter */
	int64_t		longest_backoff;
	int64_t		tolerance;		/* max_retry_after_tolerance; -1: wait as long as it takes */
} dv_retry_policy;

/*
 * The history of one request, or of rows that are sent together.  All zeros at
 * first.  Rows are sent together only while they have been repeated equally
 * often, so the history is that of each of them.
 */
typedef struct dv_retry
{
	int			attempts;		/* how often it was sent */
	int			times[DV_RETRY_CAUSES]; /* number of repetitions; throttles count only since a
										 * request was last served */
	int64_t		told_until;		/* end of the longest wait that a throttle asked for */
	int64_t		refused_at;		/* when it was throttled last */
	int			renewals;		/* tokens found refused since one was last accepted */
} dv_retry;

/* How an attempt ended. */
typedef struct dv_retry_event
{
	dv_verdict	verdict;
	dv_retry_cause cause;		/* verdict RETRY */
	bool		unknown;		/* it may have been carried out */
	bool		repeatable;		/* carrying it out twice would do no harm */
	bool		at_fault;		/* its user is at fault; verdict REFUSED, AUTH, or RETRY */
	bool		others;			/* then: other users may send it */
	bool		divisible;		/* smaller requests may succeed; verdict RETRY */
	bool		found_out;		/* it is the first to find its token refused; verdict AUTH */
	int64_t		sent_at;
	int64_t		told;			/* the wait that the service asked for; < 0: none.  A minimum if
								 * the verdict is RETRY */
	int64_t		served_at;		/* when a request of any user of the pool was last carried out */
	bool		held_back;		/* the pool keeps the throttled user from sending */
	int64_t		pause;			/* the wait of the request if the pool does not; < 0: none */
	int64_t		now;
	double		random;			/* 0 <= random < 1 */
} dv_retry_event;

typedef enum dv_retry_next
{
	DV_NEXT_END,				/* do not repeat */
	DV_NEXT_AGAIN,				/* repeat after "delay" */
	DV_NEXT_OTHER_USER			/* repeat at once, but not with this user */
} dv_retry_next;

typedef struct dv_retry_decision
{
	dv_retry_next next;
	dv_retry_cause cause;		/* if "next" is AGAIN: the counter to increment */
	int64_t		delay;
} dv_retry_decision;

extern dv_retry_decision dv_retry_decide(dv_retry *retry, const dv_retry_policy *policy,
										 const dv_retry_event *event);

/* Returns how many throttles count, given the time at which the pool was last served. */
extern int	dv_retry_throttles(const dv_retry *retry, int64_t served_at);

/* State of a user that is set aside, so that others are preferred.  All zeros at first. */
typedef struct dv_aside
{
	int			times;			/* in a row; 0: the user is in good standing */
	int64_t		until;
	int64_t		last_at;		/* of the last trouble */
} dv_aside;

/*
 * Sets the user aside: for 5 s at first, twice as long each time, up to 5
 * minutes, and at least as long as we were told to wait.  Trouble during the
 * pause does not make it longer.  Returns true if the user was in good
 * standing.
 */
extern bool dv_aside_set(dv_aside *aside, int64_t told, int64_t now);

/*
 * Notes that a request of the user succeeded.  Returns true if the user had
 * been set aside and is back.  Only a request that was sent after the last
 * trouble shows this.
 */
extern bool dv_aside_clear(dv_aside *aside, int64_t sent_at);

extern bool dv_aside_active(const dv_aside *aside, int64_t now);

/*
 * Merges the history of another row that is to be sent together with these.
 * Returns false, and does nothing, if it has not been repeated equally often.
 */
extern bool dv_retry_join(dv_retry *retry, const dv_retry *other);

/* Returns true if the policy permits waiting this long for a throttle to end. */
extern bool dv_retry_tolerates(const dv_retry_policy *policy, int64_t wait);

#endif							/* DV_RETRY_H */

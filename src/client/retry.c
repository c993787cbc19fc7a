/*
 * retry.c
 *		The rules by which a failed attempt is repeated.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "client/retry.h"
#include "net/clock.h"
#include "net/date.h"

#define SHORTEST_ASIDE (5 * DV_SECOND)
#define LONGEST_ASIDE (300 * DV_SECOND)

/* For one request.  More refusals than this are no coincidence. */
#define RENEWALS_AT_ONCE 3
#define RENEWALS_MAX 20

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Doubles each time.  The random part separates requests that failed at the same time. */
static int64_t
backoff(const dv_retry_policy *policy, int attempt, double random)
{
	int64_t		delay = policy->first_backoff;

	while (--attempt > 0 && delay < policy->longest_backoff)
		delay *= 2;
	if (delay > policy->longest_backoff)
		delay = policy->longest_backoff;
	return delay / 2 + (int64_t) (random * (delay / 2));
}

int
dv_retry_throttles(const dv_retry *retry, int64_t served_at)
{
	return served_at > retry->refused_at ? 0 : retry->times[DV_RETRY_THROTTLE];
}

/*
 * The pool knows how long the user is throttled, and another user may be free,
 * so the request is repeated at once.  The request itself must wait only if
 * throttles are not tracked, or if the pool was not told of this one because
 * it throttled the table rather than the user.
 */
static bool
repeat_throttled(dv_retry *retry, const dv_retry_policy *policy, const dv_retry_event *event,
				 dv_retry_decision *decision)
{
	int		   *times = &retry->times[DV_RETRY_THROTTLE];

	*times = dv_retry_throttles(retry, event->served_at);
	if (event->sent_at >= retry->told_until)
		(*times)++;
	retry->refused_at = event->now;
	retry->told_until = later(retry->told_until, event->now + later(event->told, 0));
	decision->cause = DV_RETRY_THROTTLE;
	if (event->held_back)
		decision->delay = 0;
	else
		decision->delay = event->pause >= 0 ? event->pause : backoff(policy, *times, event->random);
	return (policy->max_throttle_retries <= 0 || *times <= policy->max_throttle_retries) &&
		dv_retry_tolerates(policy, decision->delay);
}

static bool
repeat_transient(dv_retry *retry, const dv_retry_policy *policy, const dv_retry_event *event,
				 dv_retry_decision *decision)
{
	int64_t		told = event->told < DV_LONGEST_RETRY_AFTER ? event->told : DV_LONGEST_RETRY_AFTER;

	if (retry->times[event->cause] >= policy->max_retries || !dv_retry_tolerates(policy, told))
		return false;
	if (event->divisible && retry->times[event->cause] > 0)
		return false;
	decision->cause = event->cause;
	decision->delay = later(backoff(policy, ++retry->times[event->cause], event->random), told);
	return true;
}

/* Renews a token that was refused, unless it has been renewed meanwhile. */
static bool
renew(dv_retry *retry, const dv_retry_policy *policy, const dv_retry_event *event,
	  dv_retry_decision *decision)
{
	decision->cause = DV_RETRY_AUTH;
	if (!event->found_out)
		return true;
	if (++retry->renewals > RENEWALS_MAX)
		return false;
	if (retry->renewals > RENEWALS_AT_ONCE)
		decision->delay = backoff(policy, retry->renewals - RENEWALS_AT_ONCE, event->random);
	return true;
}

dv_retry_decision
dv_retry_decide(dv_retry *retry, const dv_retry_policy *policy, const dv_retry_event *event)
{
	dv_retry_decision decision = {.next = DV_NEXT_END};
	bool		again = false;

	/* the outcome is unknown, even if the answer had a Retry-After */
	if (event->unknown && !event->repeatable)
		return decision;
	if (event->at_fault && event->others)
	{
		decision.next = DV_NEXT_OTHER_USER;
		return decision;
	}
	switch (event->verdict)
	{
		case DV_VERDICT_OK:
			retry->renewals = 0;
			break;
		case DV_VERDICT_REFUSED:
			break;
		case DV_VERDICT_THROTTLED:
			retry->renewals = 0;
			again = repeat_throttled(retry, policy, event, &decision);
			break;
		case DV_VERDICT_AUTH:
			again = !event->at_fault && renew(retry, policy, event, &decision);
			break;
		case DV_VERDICT_RETRY:
			/* an attempt that passed authentication had an acceptable token */
			if (event->cause != DV_RETRY_AUTH)
				retry->renewals = 0;
			again = repeat_transient(retry, policy, event, &decision);
			break;
	}
	if (again)
		decision.next = DV_NEXT_AGAIN;
	return decision;
}

bool
dv_retry_join(dv_retry *retry, const dv_retry *other)
{
	if (memcmp(retry->times, other->times, sizeof(retry->times)) != 0)
		return false;
	if (retry->attempts < other->attempts)
		retry->attempts = other->attempts;
	retry->told_until = later(retry->told_until, other->told_until);
	retry->refused_at = later(retry->refused_at, other->refused_at);
	if (retry->renewals < other->renewals)
		retry->renewals = other->renewals;
	return true;
}

bool
dv_retry_tolerates(const dv_retry_policy *policy, int64_t wait)
{
	return policy->tolerance < 0 || wait <= policy->tolerance;
}

bool
dv_aside_set(dv_aside *aside, int64_t told, int64_t now)
{
	int64_t		pause = SHORTEST_ASIDE;
	int			i;

	aside->last_at = now;
	if (dv_aside_active(aside, now))
		return false;
	for (i = 0; i < aside->times && pause < LONGEST_ASIDE; i++)
		pause *= 2;
	if (pause > LONGEST_ASIDE)
		pause = LONGEST_ASIDE;
	aside->until = now + later(pause, told);
	return aside->times++ == 0;
}

bool
dv_aside_clear(dv_aside *aside, int64_t sent_at)
{
	if (aside->times == 0 || sent_at <= aside->last_at)
		return false;
	aside->times = 0;
	aside->until = 0;
	return true;
}

bool
dv_aside_active(const dv_aside *aside, int64_t now)
{
	return now < aside->until;
}

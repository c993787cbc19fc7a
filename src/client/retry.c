/*-------------------------------------------------------------------------
 *
 * retry.c
 *		The rules by which a failed attempt is repeated.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "client/retry.h"

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

/*
 * The pool knows how long the user is throttled, and another user may be free,
 * so the request is repeated at once.  The request itself must wait only if
 * throttles are not tracked, or if the pool was not told of this one, because
 * it was the table that was throttled and not the user.
 */
static bool
repeat_throttled(dv_retry *retry, const dv_retry_policy *policy, const dv_retry_event *event,
				 dv_retry_decision *decision)
{
	int		   *times = &retry->times[DV_RETRY_THROTTLE];

	if (event->sent_at >= retry->told_until)
		(*times)++;
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
	if (retry->times[event->cause] >= policy->max_retries)
		return false;
	decision->cause = event->cause;
	decision->delay = later(backoff(policy, ++retry->times[event->cause], event->random),
							event->told);
	return true;
}

/* A token that is refused is renewed, but only once in a row. */
static bool
renew(dv_retry *retry, const dv_retry_event *event, dv_retry_decision *decision)
{
	uint64_t	bit = UINT64_C(1) << event->user;

	if ((retry->renewed & bit) != 0)
		return false;
	retry->renewed |= bit;
	decision->cause = DV_RETRY_AUTH;
	return true;
}

dv_retry_decision
dv_retry_decide(dv_retry *retry, const dv_retry_policy *policy, const dv_retry_event *event)
{
	dv_retry_decision decision = {.next = DV_NEXT_END};
	bool		again = false;

	/* the outcome is unknown, even if the answer said when to come back */
	if (event->unknown && !event->repeatable)
		return decision;
	switch (event->verdict)
	{
		case DV_VERDICT_OK:
			break;
		case DV_VERDICT_REFUSED:
			if (event->others)
				decision.next = DV_NEXT_OTHER_USER;
			break;
		case DV_VERDICT_THROTTLED:
			retry->renewed = 0;
			again = repeat_throttled(retry, policy, event, &decision);
			break;
		case DV_VERDICT_AUTH:
			again = renew(retry, event, &decision);
			break;
		case DV_VERDICT_RETRY:
			/* an attempt that got past authentication had an acceptable token */
			if (event->cause != DV_RETRY_AUTH)
				retry->renewed = 0;
			again = repeat_transient(retry, policy, event, &decision);
			break;
	}
	if (again)
		decision.next = DV_NEXT_AGAIN;
	return decision;
}

void
dv_retry_join(dv_retry *retry, const dv_retry *other)
{
	int			i;

	for (i = 0; i < DV_RETRY_CAUSES; i++)
		if (retry->times[i] < other->times[i])
			retry->times[i] = other->times[i];
	retry->told_until = later(retry->told_until, other->told_until);
	retry->renewed |= other->renewed;
}

bool
dv_retry_tolerates(const dv_retry_policy *policy, int64_t wait)
{
	return policy->tolerance < 0 || wait <= policy->tolerance;
}

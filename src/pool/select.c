/*-------------------------------------------------------------------------
 *
 * select.c
 *		Selection of an application user.
 *
 * Rotation goes by the ticket of the last request instead of a counter: it
 * needs no memory of its own, is the same seen from any backend, and gives
 * a user that comes back from a throttle its turn at once.  Ties go to the
 * first listed.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "pool/select.h"

typedef bool (*better_fn) (const dv_candidate *a, const dv_candidate *b);

static bool
less_recently_used(const dv_candidate *a, const dv_candidate *b)
{
	return a->last_used < b->last_used;
}

static bool
fewer_under_way(const dv_candidate *a, const dv_candidate *b)
{
	return a->in_flight < b->in_flight;
}

/* In the order of dv_selection. */
static const struct
{
	better_fn	better;
	bool		sees_throttles;
}			strategies[] =

{
	{less_recently_used, true},
	{less_recently_used, false},
	{fewer_under_way, true},
};

static void
note_earliest(int64_t *earliest, int64_t when)
{
	if (*earliest == 0 || when < *earliest)
		*earliest = when;
}

static dv_choice
choose(dv_choice_kind kind, int user, int64_t until)
{
	dv_choice	choice = {kind, user, until};

	return choice;
}

dv_choice
dv_select(const dv_candidate *candidates, int n, dv_selection strategy, int64_t now)
{
	dv_choice	choice = {DV_CHOICE_NONE, -1, 0};
	int			best = -1;
	int			first_free = -1;	/* of the throttled ones */
	int			throttled = 0;
	int64_t		paced_until = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		const dv_candidate *c = &candidates[i];

		if (now < c->throttled_until)
		{
			throttled++;
			if (first_free < 0 || c->throttled_until < candidates[first_free].throttled_until)
				first_free = i;
			if (strategies[strategy].sees_throttles)
				continue;
		}
		if (c->in_flight >= c->limit)
			continue;
		if (now < c->not_before)
		{
			note_earliest(&paced_until, c->not_before);
			continue;
		}
		if (best < 0 || strategies[strategy].better(c, &candidates[best]))
			best = i;
	}

	if (best >= 0 && now >= candidates[best].throttled_until)
		return choose(DV_CHOICE_USER, best, 0);
	if (best >= 0)				/* its turn has come, throttled or not: it is waited for */
		return choose(DV_CHOICE_THROTTLED, best, candidates[best].throttled_until);
	if (n > 0 && throttled == n)
		return choose(DV_CHOICE_THROTTLED, first_free, candidates[first_free].throttled_until);
	if (paced_until != 0)
		choice.kind = DV_CHOICE_PACED;
	else if (n > 0)
		choice.kind = DV_CHOICE_BUSY;
	choice.until = paced_until;
	if (first_free >= 0)
		note_earliest(&choice.until, candidates[first_free].throttled_until);
	return choice;
}

bool
dv_needier(const dv_claim *a, const dv_claim *b)
{
	if (a->leases != b->leases)
		return a->leases < b->leases;
	return a->waiting_since < b->waiting_since;
}

/* Who asks without having waited stands at the end of the queue. */
dv_contest
dv_contest_begin(const dv_claim *mine, int64_t now)
{
	dv_contest	contest = {*mine, 0};

	if (contest.mine.waiting_since == 0)
		contest.mine.waiting_since = now;
	return contest;
}

void
dv_contest_add(dv_contest *contest, const dv_claim *other, int64_t now)
{
	if (other->waiting_since == 0)
		return;
	if (other->woken_at != 0 && now - other->woken_at > DV_WAKE_GRACE)
		return;
	if (dv_needier(other, &contest->mine))
		contest->needier++;
}

int
dv_sendable(const dv_candidate *candidates, int n, int64_t now)
{
	int			sendable = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		const dv_candidate *c = &candidates[i];

		if (now < c->throttled_until || now < c->not_before || c->in_flight >= c->limit)
			continue;
		sendable += c->not_before != 0 ? 1 : c->limit - c->in_flight;
	}
	return sendable;
}

bool
dv_must_yield(const dv_contest *contest, int sendable)
{
	return contest->needier > 0 && contest->needier >= sendable;
}

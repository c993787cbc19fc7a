/*
 * select.c
 *		Selection of an application user.
 *
 * Both rotations use the ticket of the last request instead of a counter, so
 * they need no memory of their own and are the same for all backends.
 * throttle_aware gives a user that comes back from a throttle its turn at
 * once; round_robin continues where it was.  No strategy waits for a user that
 * cannot send while another can.  Ties go to the first listed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <limits.h>
#include <stddef.h>

#include "pool/select.h"

/* The input of the strategies. */
typedef struct rotation
{
	const dv_candidate *candidates;
	int			n;
	int			last;			/* the user that was used last */
} rotation;

/* Returns true if candidate "a" comes before "b". */
typedef bool (*better_fn) (const rotation *r, int a, int b);

static bool
less_recently_used(const rotation *r, int a, int b)
{
	return r->candidates[a].last_used < r->candidates[b].last_used;
}

static int
steps_after_last(const rotation *r, int i)
{
	return (i - r->last - 1 + r->n) % r->n;
}

static bool
next_in_line(const rotation *r, int a, int b)
{
	return steps_after_last(r, a) < steps_after_last(r, b);
}

static bool
fewer_under_way(const rotation *r, int a, int b)
{
	return r->candidates[a].in_flight < r->candidates[b].in_flight;
}

/* In the order of dv_selection. */
static const better_fn strategies[] = {less_recently_used, next_in_line, fewer_under_way};

static rotation
rotation_of(const dv_candidate *candidates, int n)
{
	rotation	r = {candidates, n, n - 1};
	uint64_t	latest = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		if (candidates[i].last_used <= latest)
			continue;
		latest = candidates[i].last_used;
		r.last = i;
	}
	return r;
}

int
dv_sendable(const dv_candidate *c, int64_t now)
{
	if (now < c->throttled_until || now < c->not_before || c->in_flight >= c->limit)
		return 0;
	return c->not_before != 0 ? 1 : c->limit - c->in_flight;
}

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
	rotation	r = rotation_of(candidates, n);
	dv_choice	choice = {DV_CHOICE_NONE, -1, 0};
	int			best = -1;
	int			first_free = -1;	/* of the throttled ones */
	int			throttled = 0;
	int64_t		paced_until = 0;
	bool		left = false;
	int			i;

	for (i = 0; i < n; i++)
	{
		const dv_candidate *c = &candidates[i];

		if (now < c->throttled_until)
		{
			throttled++;
			if (first_free < 0 || c->throttled_until < candidates[first_free].throttled_until)
				first_free = i;
		}
		else if (c->in_flight >= c->limit)
			continue;
		else if (now < c->not_before)
			note_earliest(&paced_until, c->not_before);
		else if (c->reserved >= dv_sendable(c, now))
			left = true;
		else if (best < 0 || strategies[strategy] (&r, i, best))
			best = i;
	}

	if (best >= 0)
		return choose(DV_CHOICE_USER, best, 0);
	if (n > 0 && throttled == n)
		return choose(DV_CHOICE_THROTTLED, first_free, candidates[first_free].throttled_until);
	if (paced_until != 0 && !left)
		choice.kind = DV_CHOICE_PACED;
	else if (n > 0)
		choice.kind = DV_CHOICE_BUSY;
	choice.until = paced_until;
	if (left)
		note_earliest(&choice.until, now + DV_WAKE_GRACE);
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

/* A backend that asks without having waited is at the end of the queue. */
dv_contest
dv_contest_begin(const dv_claim *mine, dv_candidate *candidates, int n, int64_t now)
{
	dv_contest	contest = {*mine, candidates, n, INT_MAX, now};

	if (contest.mine.waiting_since == 0)
		contest.mine.waiting_since = now;
	return contest;
}

void
dv_contest_add(dv_contest *contest, const dv_claim *other, uint64_t wanted)
{
	dv_candidate *most = NULL;
	int			i;

	if (other->waiting_since == 0 || wanted == 0)
		return;
	if (other->woken_at != 0 && contest->now - other->woken_at > DV_WAKE_GRACE)
		return;
	if (!dv_needier(other, &contest->mine))
		return;
	for (i = 0; i < contest->n; i++)
	{
		dv_candidate *c = &contest->candidates[i];

		if ((wanted >> i & 1) == 0 || dv_sendable(c, contest->now) <= c->reserved)
			continue;
		if (most == NULL || dv_sendable(c, contest->now) - c->reserved >
			dv_sendable(most, contest->now) - most->reserved)
			most = c;
	}
	if (most == NULL)
		return;
	most->reserved++;
	if (!most->shares || --contest->room > 0)
		return;
	/* all slots that they share are reserved */
	for (i = 0; i < contest->n; i++)
		if (contest->candidates[i].shares)
			contest->candidates[i].reserved = dv_sendable(&contest->candidates[i], contest->now);
}

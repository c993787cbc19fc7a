/*-------------------------------------------------------------------------
 *
 * select.h
 *		Which application user sends the next request.
 *
 * Pure: works on a copy of what it needs to know of each user.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_SELECT_H
#define DV_SELECT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum dv_selection
{
	DV_SELECT_THROTTLE_AWARE,	/* least recently used among those not throttled */
	DV_SELECT_ROUND_ROBIN,		/* the next one listed that is not throttled */
	DV_SELECT_LEAST_CONNECTIONS /* fewest requests under way among those not throttled */
} dv_selection;

typedef struct dv_candidate
{
	int64_t		throttled_until;
	int64_t		not_before;		/* budget pacing: earliest time of its next request; 0: not paced */
	int			in_flight;
	int			limit;			/* for this request, compared with in_flight */
	int			reserved;		/* of its free slots: left to others (dv_contest_add) */
	uint64_t	last_used;		/* ticket of its last request; 0: never used */
} dv_candidate;

typedef enum dv_choice_kind
{
	DV_CHOICE_NONE,				/* there are no candidates */
	DV_CHOICE_USER,				/* "user" may send now */
	DV_CHOICE_BUSY,				/* wait for a slot, or until "until" */
	DV_CHOICE_PACED,			/* a slot is free but not before "until" */
	DV_CHOICE_THROTTLED,		/* all are throttled; "user" is the first that is free again, at
								 * "until" */
	DV_CHOICE_TIMEOUT			/* a slot was waited for as long as is allowed (pool.h) */
} dv_choice_kind;

typedef struct dv_choice
{
	dv_choice_kind kind;
	int			user;
	int64_t		until;			/* 0: nothing to wait for but a slot */
} dv_choice;

extern dv_choice dv_select(const dv_candidate *candidates, int n, dv_selection strategy,
						   int64_t now);

/*
 * Fairness between the backends that share the users.  Who waits with fewer
 * slots comes first, then who has waited longest.
 */
typedef struct dv_claim
{
	int			leases;			/* slots held */
	int64_t		waiting_since;	/* 0: does not wait */
	int64_t		woken_at;		/* 0: not since it last tried */
} dv_claim;

/* A woken waiter that has not come by then is not waited for. */
#define DV_WAKE_GRACE INT64_C(50000)

/* Of two that wait: is "a" to be served before "b"? */
extern bool dv_needier(const dv_claim *a, const dv_claim *b);

/*
 * Leaves to the others what is theirs: dv_contest_add, once for each other
 * backend that waits, reserves one slot of those it wants ("wanted" has a bit
 * for each candidate) if that backend comes first.  What is not reserved
 * afterwards may be sent (dv_select); if everything is, the neediest waiters
 * are to be woken, and this one to try again at the latest after
 * DV_WAKE_GRACE.  Who wants other users is not in the way.
 */
typedef struct dv_contest
{
	dv_claim	mine;
	dv_candidate *candidates;
	int			n;
	int64_t		now;
} dv_contest;

extern dv_contest dv_contest_begin(const dv_claim *mine, dv_candidate *candidates, int n,
								   int64_t now);
extern void dv_contest_add(dv_contest *contest, const dv_claim *other, uint64_t wanted);

/*
 * How many requests this user could send right now, reserved or not: its free
 * slots, but if its budget is paced only one.
 */
extern int	dv_sendable(const dv_candidate *candidate, int64_t now);

#endif							/* DV_SELECT_H */

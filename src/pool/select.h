/*
 * select.h
 *		Which application user sends the next request.
 *
 * Pure: works on a copy of the relevant state of each user.
 *
 * SPDX-License-Identifier: PostgreSQL
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
	bool		shares;			/* its free slots are also those of others (dv_contest.room) */
	int			reserved;		/* of its free slots: left to others (dv_contest_add) */
	uint64_t	last_used;		/* ticket of its last request; 0: never used */
} dv_candidate;

typedef enum dv_choice_kind
{
	DV_CHOICE_NONE,				/* there are no candidates */
	DV_CHOICE_USER,				/* "user" may send now */
	DV_CHOICE_BUSY,				/* wait for a slot, or until the time "until" */
	DV_CHOICE_PACED,			/* a slot is free, but may not be used before "until" */
	DV_CHOICE_THROTTLED,		/* all are throttled; "user" is the first to become free, at
								 * "until" */
	DV_CHOICE_TIMEOUT			/* the time limit for waiting is over (pool.h) */
} dv_choice_kind;

typedef struct dv_choice
{
	dv_choice_kind kind;
	int			user;
	int64_t		until;			/* 0: wait only for a slot */
} dv_choice;

extern dv_choice dv_select(const dv_candidate *candidates, int n, dv_selection strategy,
						   int64_t now);

/*
 * Fairness between the backends that share the users.  A waiter with fewer
 * slots comes first, then the one that has waited longest.
 */
typedef struct dv_claim
{
	int			leases;			/* slots held */
	int64_t		waiting_since;	/* 0: not waiting */
	int64_t		woken_at;		/* 0: not since it last tried */
} dv_claim;

/* A woken waiter that has not tried after this time is skipped. */
#define DV_WAKE_GRACE INT64_C(50000)

/* Returns true if waiter "a" is to be served before "b". */
extern bool dv_needier(const dv_claim *a, const dv_claim *b);

/*
 * Reserves slots for backends that come first.  dv_contest_add is called once
 * for each other backend that waits, and reserves one slot of those it wants
 * ("wanted" has a bit for each candidate) if that backend comes first.  Slots
 * that are not reserved afterwards may be used (dv_select).  If all are, the
 * neediest waiters are to be woken, and this one has to try again after
 * DV_WAKE_GRACE at the latest.  Backends that want other users do not matter.
 */
typedef struct dv_contest
{
	dv_claim	mine;
	dv_candidate *candidates;
	int			n;
	int			room;			/* how many of the slots that candidates share may be used; set to
								 * any number at first */
	int64_t		now;
} dv_contest;

extern dv_contest dv_contest_begin(const dv_claim *mine, dv_candidate *candidates, int n,
								   int64_t now);
extern void dv_contest_add(dv_contest *contest, const dv_claim *other, uint64_t wanted);

/*
 * Returns how many requests this user could send right now, reserved or not:
 * its free slots, but only one if its budget is paced.
 */
extern int	dv_sendable(const dv_candidate *candidate, int64_t now);

#endif							/* DV_SELECT_H */

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
	DV_SELECT_ROUND_ROBIN,		/* least recently used, throttles not looked at */
	DV_SELECT_LEAST_CONNECTIONS /* fewest requests under way among those not throttled */
} dv_selection;

typedef struct dv_candidate
{
	int64_t		throttled_until;
	int64_t		not_before;		/* budget pacing: earliest time of its next request; 0: not paced */
	int			in_flight;
	int			limit;
	uint64_t	last_used;		/* ticket of its last request; 0: never used */
} dv_candidate;

typedef enum dv_choice_kind
{
	DV_CHOICE_NONE,				/* there are no candidates */
	DV_CHOICE_USER,				/* "user" may send now */
	DV_CHOICE_BUSY,				/* wait for a slot, or until "until" */
	DV_CHOICE_PACED,			/* a slot is free but not before "until" */
	DV_CHOICE_THROTTLED			/* all are throttled; "user" is the first that is free again, at
								 * "until" */
} dv_choice_kind;

typedef struct dv_choice
{
	dv_choice_kind kind;
	int			user;
	int64_t		until;			/* 0: nothing to wait for but a slot */
} dv_choice;

extern dv_choice dv_select(const dv_candidate *candidates, int n, dv_selection strategy, int64_t now);

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
 * Gathers what the others want; one dv_contest_add for each other backend
 * that waits for one of these users.
 */
typedef struct dv_contest
{
	dv_claim	mine;
	int			needier;		/* how many wait that come before this one */
} dv_contest;

extern dv_contest dv_contest_begin(const dv_claim *mine, int64_t now);
extern void dv_contest_add(dv_contest *contest, const dv_claim *other, int64_t now);

/*
 * How many requests could be sent right now: the free slots of the users
 * that may send, but of one whose budget is paced only one.
 */
extern int	dv_sendable(const dv_candidate *candidates, int n, int64_t now);

/*
 * Must this backend leave what is sendable to others?  If so the neediest
 * waiter is to be woken, and this one to try again at the latest after
 * DV_WAKE_GRACE.
 */
extern bool dv_must_yield(const dv_contest *contest, int sendable);

#endif							/* DV_SELECT_H */

/*
 * wait.h
 *		Backends that wait for slots: waking them, their presence, and the
 *		slots of absent ones.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_WAIT_H
#define DV_WAIT_H

#include "pool/shared.h"

/*
 * A session that has a single request, and nothing under way, counts as having waited longer by
 * this time than a session that has more: it goes first, but does not keep loads out.
 */
#define DV_SHORT_AHEAD (3 * DV_SECOND)

/* How many short requests may be under way beyond the limits, if there are loads. */
#define DV_SHORT_BEYOND	2

/* The caller of all of these functions holds the lock. */

/* Adds a backend to those that wait, and removes it if it is among them. */
extern void dv_wait_add(dv_shared *shared, int backend);
extern void dv_wait_remove(dv_shared *shared, int backend);

/* Return the rows of the backends that wait, in no order; NULL at the end. */
extern dv_shared_backend *dv_wait_first(dv_shared *shared);
extern dv_shared_backend *dv_wait_next(dv_shared *shared, const dv_shared_backend *row);

/*
 * Wakes present backends that wait for this user and have not tried since it last
 * changed, the neediest first, until n of them have been woken and have not tried
 * yet; only those that none of the obstacles (a set of dv_obstacle) stops.  "mine",
 * if it is not NULL, is the row of the caller, which is just trying and passes on
 * what it cannot use.
 */
extern void dv_wait_wake(dv_shared *shared, int user, int n, int obstacles,
						 const dv_shared_backend *mine, int64 now);

/*
 * Called when n slots of the user have become free; "obstacles" are those that the caller has
 * found in addition.  What it leaves of its environment's useful limit, another user may use.
 */
extern void dv_wait_freed(dv_shared *shared, int user, int n, int obstacles, int64 now);

/* Called when something else has changed about the user: all calls that wait for it try again. */
extern void dv_wait_changed(dv_shared *shared, int user, int64 now);

/*
 * Turns of those that wait for a budget.  Returns how many sessions come before this one; and
 * wakes the session whose turn comes first, unless it will try by then ("slack" later at most).
 */
extern int	dv_wait_ahead(dv_shared *shared, int user, const dv_shared_backend *mine, int64 now);
extern void dv_wait_turn(dv_shared *shared, int user, int64 when, int64 slack, int64 now);

/* Called when the user's place has moved, or is given up: calls that wait for it look for it again. */
extern void dv_wait_forget(dv_shared *shared, int user);

/* Returns the obstacles that are seen without the policy of a server: all but the budget. */
extern int	dv_wait_obstacles(dv_shared *shared, int user, int64 now);

/* Returns true if a session has several requests of the user under way, or waiting. */
extern bool dv_wait_has_loads(dv_shared *shared, int user);

/* Returns true if a backend that waits has a single call, and nothing under way. */
extern bool dv_wait_is_short(const dv_shared_backend *row);

/* Returns a backend's place in the queue, according to its row. */
extern dv_claim dv_wait_claim(const dv_shared_backend *row, int64 now);

/* Returns true if the backend would try for this user if it were woken, or will try by itself. */
extern bool dv_wait_may_use(dv_shared *shared, dv_shared_backend *row, int user, int64 now);

/*
 * Takes slots of the user from backends that are elsewhere, if requests of
 * their kind should have ended by now.  Returns their number, and lowers
 * "next" to the time when there may be more.
 */
extern int	dv_wait_lend(dv_shared *shared, int user, int mine, int64 now, int64 *next);

#endif							/* DV_WAIT_H */

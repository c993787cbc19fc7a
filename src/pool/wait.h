/*-------------------------------------------------------------------------
 *
 * wait.h
 *		Backends that wait for slots: who is woken, who is there, and slots of
 *		those that are not.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_WAIT_H
#define DV_WAIT_H

#include "pool/shared.h"

/* In all of these the caller holds the lock. */

/*
 * Wakes up to n backends that are there, wait for this user and have not
 * tried since it changed last, the neediest first.  "closed": only those that
 * throttles and budgets do not stop.
 */
extern void dv_wait_wake(dv_shared *shared, int user, int n, bool closed, int64 now);

/* Something has changed about the user: those that failed before may succeed now. */
extern void dv_wait_changed(dv_shared *shared, int user, int n, int64 now);

/* The user's entry is given up: nobody waits for it any more, and who did tries again. */
extern void dv_wait_forget(dv_shared *shared, int user);

/* What a backend's row says about its place in the queue. */
extern dv_claim dv_wait_claim(const dv_shared_backend *row, int64 now);

/* Would it try for this user if it were woken, or does it by itself? */
extern bool dv_wait_may_use(dv_shared *shared, dv_shared_backend *row, int user, int64 now);

/*
 * Takes slots of the user from backends that are elsewhere, if requests of
 * their kind should have ended by now.  How many; "next" is brought forward
 * to the time when there may be more.
 */
extern int	dv_wait_lend(dv_shared *shared, int user, int mine, int64 now, int64 *next);

#endif							/* DV_WAIT_H */

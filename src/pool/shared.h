/*-------------------------------------------------------------------------
 *
 * shared.h
 *		The pool's memory, common to all backends.
 *
 * Locking.  One LWLock, "lock", guards everything: it is held for a walk
 * over the users of one server (at most 64) and never across anything that
 * can wait or raise an error.  Field by field:
 *
 *	 nusers, nbackends, nhistory, tranche,
 *	 is_private								constant after creation
 *	 ticket, history_next					lock, exclusive
 *	 users[i], all fields					lock; exclusive to change, shared to read
 *	 backends[i].pid						lock exclusive; set by its owner, cleared
 *											by its owner or by a sweep when it is dead
 *	 backends[i].leases[]					lock exclusive; written by the owner
 *											(and by a sweep)
 *	 backends[i].waiting*					lock exclusive; written by the owner
 *	 backends[i].woken_at					lock exclusive; written by who wakes it,
 *											cleared by the owner
 *	 history[i]								lock exclusive to write, shared to read
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_SHARED_H
#define DV_SHARED_H

#include "storage/lwlock.h"

#include "pool/pool.h"

#define DV_NAME_LEN			64
#define DV_ORGANISATION_LEN 128

typedef struct dv_shared_user
{
	bool		used;
	char		organisation[DV_ORGANISATION_LEN];	/* origin of its service */
	char		client_id[DV_NAME_LEN];
	/* of the session that opened the pool first, then of the one answered last */
	char		server[DV_NAME_LEN];
	char		name[DV_NAME_LEN];
	Oid			databaseid;
	Oid			serverid;
	dv_pool_policy policy;

	dv_throttle throttle;
	dv_rate		rate;
	dv_budget	budget;
	int			dop_hint;		/* 0: not heard yet */
	double		remaining[DV_RATIONS];	/* as the service last said; < 0: never */
	int			in_flight;
	uint64		last_used;		/* ticket */
	dv_kind		last_kind;
	uint64		requests[DV_KINDS];
	uint64		rows[DV_KINDS];
	uint64		failures;
	uint64		retries[DV_RETRY_CAUSES];
	uint64		bytes_sent;
	uint64		bytes_received;
	int64		waited;			/* microseconds, summed over waiters */
} dv_shared_user;

typedef struct dv_shared_backend
{
	int			pid;			/* 0: free */
	int			procno;
	int64		waiting_since;	/* 0: not waiting */
	uint32		waiting_for;	/* a bit for each organisation (dv_pool.bit) */
	int64		woken_at;		/* 0: not since it last tried */
	uint16		leases[FLEXIBLE_ARRAY_MEMBER];	/* for each user */
} dv_shared_backend;

/* One throttle event. */
typedef struct dv_history
{
	int64		at;				/* dv_now */
	int			user;			/* -1: forgotten */
	dv_throttle_cause cause;
	dv_kind		kind;
	int			in_flight;
	int64		retry_after;
	bool		fallback;		/* the service did not say how long */
} dv_history;

typedef struct dv_shared
{
	int			nusers;
	int			nbackends;
	int			nhistory;
	int			tranche;
	bool		is_private;
	LWLock		lock;
	uint64		ticket;
	uint64		history_next;	/* events ever recorded */
	/* followed by users, history and backends */
} dv_shared;

extern PGDLLIMPORT int dv_max_application_users;
extern PGDLLIMPORT int dv_throttle_history;

/* From _PG_init: settings and, when preloaded, the request for memory. */
extern void dv_shared_init(void);

/* Never NULL: if there is no shared memory to be had, this backend's own. */
extern dv_shared *dv_shared_attach(void);

/* This backend's own, with one WARNING that says so; "existing": only if there is one, else NULL. */
extern dv_shared *dv_shared_private(bool existing);

/* Earliest time of the user's next request by its budget; 0: any (pool.c). */
extern int64 dv_pool_not_before(dv_shared_user *user, dv_kind kind, int64 now);

extern dv_shared_user *dv_shared_users(dv_shared *shared);
extern dv_history *dv_shared_history(dv_shared *shared);
extern dv_shared_backend *dv_shared_backend_at(dv_shared *shared, int i);

/* This backend's row, claimed on first use; -1 if all are taken. */
extern int	dv_shared_my_backend(dv_shared *shared);

/* The same without claiming one; -1 also when this backend is on its way out. */
extern int	dv_shared_claimed(const dv_shared *shared);

/* Lets all try that wait for one of these organisations; caller holds the lock. */
extern void dv_shared_wake_all(dv_shared *shared, uint32 waiting_for);

/* Gives back what dead backends held; caller holds the lock. */
extern int	dv_shared_sweep(dv_shared *shared);

#endif							/* DV_SHARED_H */

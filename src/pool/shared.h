/*-------------------------------------------------------------------------
 *
 * shared.h
 *		The pool's memory, common to all backends.
 *
 * Locking.  One LWLock, "lock", guards everything: it is held for a walk
 * over the users of one server (at most 64) and never across anything that
 * can wait or raise an error.  Field by field:
 *
 *	 nusers, nbackends, nhistory, nslots, tranche,
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
 *	 slots[i].pid and what is constant
 *	 while it has an owner					lock exclusive to write, shared to read
 *	 slots[i].waiting_for					none; written by the owner
 *	 slots[i].turn, counts[]				none; written by the owner, as said in
 *											progress.c; read under the lock, shared,
 *											so that the owner stays
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_SHARED_H
#define DV_SHARED_H

#include "storage/lwlock.h"

#include "pool/pool.h"
#include "pool/speed.h"

#define DV_NAME_LEN			64
#define DV_ORGANISATION_LEN 128
#define DV_TABLE_LEN		140 /* schema, dot, table, quotes */
#define DV_OPERATION_LEN	16

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

/* How far an operation is. */
typedef struct dv_progress_counts
{
	bool		resting;		/* there is nothing to show */
	bool		reads;			/* only the rows taken mean something */
	int			in_flight;
	int64		taken;
	int64		sent;
	int64		acknowledged;
	int64		rejected;
	dv_speed_mark speed;
} dv_progress_counts;

/* An operation that is under way (progress.c). */
typedef struct dv_progress_slot
{
	int			pid;			/* 0: free */
	int			backend;		/* which row */
	Oid			databaseid;
	Oid			serverid;
	Oid			roleid;
	char		server[DV_NAME_LEN];
	char		table[DV_TABLE_LEN];
	char		operation[DV_OPERATION_LEN];
	double		total;			/* rows expected; < 0: not known */
	int64		started;
	volatile int waiting_for;	/* dv_wait_reason; -1: for nothing */
	volatile uint32 turn;		/* odd: counts[1] is shown, even: counts[0] */
	dv_progress_counts counts[2];
} dv_progress_slot;

typedef struct dv_shared
{
	int			nusers;
	int			nbackends;
	int			nhistory;
	int			nslots;
	int			tranche;
	bool		is_private;
	LWLock		lock;
	uint64		ticket;
	uint64		history_next;	/* events ever recorded */
	/* followed by users, history, backends and slots */
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
extern dv_progress_slot *dv_shared_slots(dv_shared *shared);

/* What a slot shows; caller holds the lock (progress.c). */
extern dv_progress_counts dv_progress_counts_of(const dv_progress_slot *slot);

/* This backend's row, claimed on first use; -1 if all are taken. */
extern int	dv_shared_my_backend(dv_shared *shared);

/* The same without claiming one; -1 also when this backend is on its way out. */
extern int	dv_shared_claimed(const dv_shared *shared);

/* Lets all try that wait for one of these organisations; caller holds the lock. */
extern void dv_shared_wake_all(dv_shared *shared, uint32 waiting_for);

/* Gives back what dead backends held; caller holds the lock. */
extern int	dv_shared_sweep(dv_shared *shared);

#endif							/* DV_SHARED_H */

/*
 * shared.h
 *		The pool's memory, common to all backends.
 *
 * Locking.  One LWLock, "lock", guards everything: it is held for a walk
 * over the users of one server (at most 64) and the rows of the backends, and
 * never across anything that can wait or raise an error.  Field by field:
 *
 *	 nusers, nviews, nbackends, nhistory,
 *	 nslots, nwords, tranche, is_private	constant after creation
 *	 ticket, moves, history_next			lock, exclusive
 *	 users[i], environments[i],
 *	 views[i], leases[i],
 *	 all fields								lock; exclusive to change, shared to read
 *	 users[i].proven						likewise, but place.c reads it without the lock
 *	 backends[i].pid						lock exclusive; set by its owner, cleared
 *											by its owner or by a sweep when it is dead
 *	 backends[i].leases						lock exclusive; written by the owner, and
 *											by whoever lends on or sweeps
 *	 backends[i].uses, wants, waiting,
 *	 waiting_since, tried, next_try,
 *	 paced, heedless, heedful				lock exclusive; written by the owner, and
 *											by whoever makes an entry give way
 *	 first_waiter, backends[i].next_waiter,
 *	 previous_waiter						lock exclusive; written by a backend that begins
 *											or stops waiting, or that sweeps
 *	 backends[i].woken_at, woken_for			lock exclusive; written by the backend that
 *											wakes it, cleared by the owner; the owner
 *											reads it without the lock when it leaves
 *	 backends[i].presence, left_at			none; written by the owner, as said in
 *											wait.c
 *	 history[i]								lock exclusive to write, shared to read
 *	 slots[i].pid and what is constant
 *	 while it has an owner					lock exclusive to write, shared to read
 *	 slots[i].waiting_for					none; written by the owner
 *	 slots[i].turn, counts[]				none; written by the owner, as said in
 *											progress.c; read under the lock, shared,
 *											so that the owner stays
 *
 * Names are UTF-8, because databases with other encodings read them, too:
 * dv_text_common makes them, and dv_text_shown shows them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SHARED_H
#define DV_SHARED_H

#include "storage/lwlock.h"

#include "pool/latency.h"
#include "pool/pool.h"
#include "pool/speed.h"
#include "pool/useful.h"

#define DV_NAME_LEN			64
#define DV_URL_LEN			200
#define DV_TABLE_LEN		140 /* schema, dot, table, quotes */
#define DV_OPERATION_LEN	16
#define DV_REASON_LEN		128
#define DV_KEY_LEN			32	/* of a SHA-256 */
#define DV_CLAIMS			8	/* that are remembered of a user */

/*
 * More than a user can ever have: the hard ceiling, plus requests that were counted again after
 * their slots had been lent on.
 */
#define DV_USER_LEASES		64

/* The state of one application user. */
typedef struct dv_shared_user
{
	bool		used;
	bool		kept;			/* must not be reclaimed while the lock is held (entry.c) */
	uint64		born;			/* ticket */
	bool		proven;			/* the service has accepted requests of these claims: */
	uint8		claims[DV_CLAIMS][DV_KEY_LEN];	/* the last one first */
	uint8		key[DV_KEY_LEN];	/* dv_entry_key: the user's if it is proven, else that of the
									 * only claim */
	Oid			databaseid;		/* the account of the entry: */
	Oid			roleid;			/* the role it was opened for last */
	bool		common;			/* it has been opened for other roles before */

	dv_throttle throttle;
	dv_rate		rate;
	dv_budget	budget;
	int			dop_hint;		/* 0: none received yet */
	double		remaining[DV_RATIONS];	/* as of the last answer; < 0: none received yet */
	int64		served_at;		/* when the service last carried out a request */
	int			environment;	/* index plus 1; 0: none (environment.h) */
	int			in_flight;
	int			in_flight_of[DV_KINDS];
	uint64		changed;		/* ticket: waiters that failed before this change may succeed now */
	uint64		last_used;		/* ticket */
	dv_kind		last_kind;
	uint64		requests[DV_KINDS];
	uint64		rows[DV_KINDS];
	uint64		failures;
	uint64		retries[DV_RETRY_CAUSES];
	uint64		bytes_sent;
	uint64		bytes_received;
	int64		waited;			/* microseconds, summed over requests */
	dv_latency	latency;		/* of reads of rows */
} dv_shared_user;

/*
 * A user as one server sees it.  Several servers, also of several databases, can share one user.
 */
typedef struct dv_shared_view
{
	bool		used;
	int			user;
	Oid			databaseid;
	Oid			serverid;
	Oid			roleid;			/* the role whose mapping determines name and sharing */
	char		server[DV_NAME_LEN];
	char		name[DV_NAME_LEN];
	char		url[DV_URL_LEN];	/* of the service that the user belongs to */
	bool		former;			/* the server has another URL by now */
	dv_pool_policy policy;
	int			sharing;		/* users that share the DOP hint of an environment */
	int			in_flight;		/* requests of this server */
	uint64		opened;			/* ticket */
	int64		aside_until;	/* until this time, some session of this server prefers other
								 * users: */
	bool		aside_whole;	/* for all requests, or only for some */
	char		aside_reason[DV_REASON_LEN];
} dv_shared_view;

/* What all users of one environment share. */
typedef struct dv_shared_environment
{
	bool		used;
	uint8		key[DV_KEY_LEN];	/* dv_entry_key */
	int			in_flight;
	dv_useful	useful;
} dv_shared_environment;

/* A slot that is held by a backend. */
typedef struct dv_shared_lease
{
	uint64		ticket;			/* of the dv_lease; 0: this record is free */
	int64		due;			/* when such a request should have ended; 0: not sent */
	int			backend;		/* index of its row */
	int			view;
	dv_kind		kind;
	dv_useful_ticket useful;	/* zeros: not sent */
} dv_shared_lease;

/* The presence of a backend. */
typedef enum dv_presence
{
	DV_ELSEWHERE,				/* in the executor, with its client, or exiting */
	DV_INSIDE,					/* in the extension, where it notices its latch */
	DV_WATCHING					/* in the extension while an Append waits, else elsewhere */
} dv_presence;

/*
 * What can stop a call.  Each of them stops only calls that heed it: options make calls ignore
 * some, and short requests go beyond the others (wait.c).
 */
typedef enum dv_obstacle
{
	DV_OBSTACLE_THROTTLE = 1,
	DV_OBSTACLE_BUDGET = 2,
	DV_OBSTACLE_MAXIMUM = 4,	/* the DOP hint, or max_parallel */
	DV_OBSTACLE_RATE = 8,		/* the adaptive rate */
	DV_OBSTACLE_LATENCY = 16	/* the useful limit */
} dv_obstacle;

typedef struct dv_shared_backend
{
	int			pid;			/* 0: free */
	int			procno;
	int			leases;			/* slots held */
	int			waiting;		/* calls that wait for a slot */
	int64		waiting_since;	/* 0: no call waits */
	int64		woken_at;		/* 0: not since all its calls last tried */
	uint64		woken_for;		/* ticket of the change for which it was woken */
	uint64		tried;			/* ticket of the oldest of its calls' last tries */
	int64		next_try;		/* when one of them tries by itself; 0: never */
	bool		paced;			/* one of them waits for its turn */
	int			heedless;		/* dv_obstacle: those that do not stop some of its calls, */
	int			heedful;		/* and those that stop some of them */
	int			next_waiter;	/* in the list of those that wait: index of a row plus 1, or 0 */
	int			previous_waiter;
	volatile int presence;		/* dv_presence */
	volatile int64 left_at;		/* when it was last inside */
	/* two sets: users it waits for, views it has in use */
	uint64		words[FLEXIBLE_ARRAY_MEMBER];
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
	bool		fallback;		/* the service gave no Retry-After */
} dv_history;

/* The progress of an operation. */
typedef struct dv_progress_counts
{
	bool		resting;		/* there is nothing to show */
	bool		reads;			/* only the rows taken are meaningful */
	int			in_flight;		/* DV_PROGRESS_ONE: see progress.h */
	int64		requests;		/* that were answered */
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
	int			backend;		/* index of its row */
	Oid			databaseid;
	Oid			serverid;
	Oid			roleid;
	char		server[DV_NAME_LEN];
	char		table[DV_TABLE_LEN];
	char		operation[DV_OPERATION_LEN];
	double		total;			/* rows expected; < 0: not known */
	int64		started;
	volatile int waiting_for;	/* dv_wait_reason; -1: not waiting */
	volatile uint32 turn;		/* odd: counts[1] is shown, even: counts[0] */
	dv_progress_counts counts[2];
} dv_progress_slot;

typedef struct dv_shared
{
	int			nusers;
	int			nviews;
	int			nbackends;
	int			nhistory;
	int			nslots;
	int			nwords;			/* length of a set of users; a set of views has twice as many */
	int			tranche;
	bool		is_private;
	LWLock		lock;
	uint64		ticket;
	uint64		moves;			/* ticket: users may have moved since */
	uint64		history_next;	/* events ever recorded */
	int			first_waiter;	/* index of the row of a backend that waits, plus 1; 0: none waits */
	/* followed by users, environments, views, leases, history, backends and slots */
} dv_shared;

/* The largest table (dataverse_fdw.max_application_users). */
#define DV_SHARED_USERS_MAX 4096
#define DV_VIEWS_PER_USER	2

extern PGDLLIMPORT int dv_max_application_users;
extern PGDLLIMPORT int dv_throttle_history;

/* Called by _PG_init: defines settings and, when preloaded, requests the memory. */
extern void dv_shared_init(void);

/* Returns the shared memory, or this backend's own if there is none.  Never NULL. */
extern dv_shared *dv_shared_attach(void);

/* Returns the shared memory if this backend is attached to it, otherwise NULL. */
extern dv_shared *dv_shared_existing(void);

/*
 * Returns this backend's own memory, with a WARNING the first time; "existing": NULL unless it
 * exists already.
 */
extern dv_shared *dv_shared_private(bool existing);

/* Returns the earliest time of the user's next request by its budget; 0: any (pool.c). */
extern int64 dv_pool_not_before(dv_shared_user *user, dv_kind kind, int64 now);

extern dv_shared_user *dv_shared_users(dv_shared *shared);
extern dv_shared_environment *dv_shared_environments(dv_shared *shared);
extern dv_shared_view *dv_shared_views(dv_shared *shared);
extern dv_shared_lease *dv_shared_leases(dv_shared *shared, int user);
extern dv_history *dv_shared_history(dv_shared *shared);
extern dv_shared_backend *dv_shared_backend_at(dv_shared *shared, int i);
extern dv_progress_slot *dv_shared_slots(dv_shared *shared);

/* The sets of a backend's row. */
extern uint64 *dv_shared_wants(dv_shared_backend *row);
extern uint64 *dv_shared_uses(const dv_shared *shared, dv_shared_backend *row);

static inline bool
dv_set_has(const uint64 *set, int i)
{
	return (set[i / 64] >> (i % 64) & 1) != 0;
}

static inline void
dv_set_put(uint64 *set, int i, bool on)
{
	if (on)
		set[i / 64] |= UINT64CONST(1) << (i % 64);
	else
		set[i / 64] &= ~(UINT64CONST(1) << (i % 64));
}

/* Returns the counts that a slot shows.  Caller holds the lock (progress.c). */
extern dv_progress_counts dv_progress_counts_of(const dv_progress_slot *slot);

/* Returns this backend's row, which is claimed on first use, or -1 if all are taken. */
extern int	dv_shared_my_backend(dv_shared *shared);

/* Returns the row without claiming one; -1 also if this backend is exiting. */
extern int	dv_shared_claimed(const dv_shared *shared);

/*
 * Frees a slot.  Called by the owner, by a backend that lends the slot on, or
 * by one that sweeps; the first of them counts.  Caller holds the lock, and
 * wakes waiters.
 */
extern void dv_shared_free_lease(dv_shared *shared, int user, dv_shared_lease *lease);

/* Gives back what dead backends held; caller holds the lock. */
extern int	dv_shared_sweep(dv_shared *shared);

#endif							/* DV_SHARED_H */

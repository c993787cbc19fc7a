/*
 * pool.h
 *		Decides which application user of a server may send now, for all
 *		backends together.
 *
 * State for each (organisation, application user) is in shared memory:
 * throttle, rate controller, budget, requests in flight, counters.  The pure
 * modules (rate.h, throttle.h, budget.h, select.h) hold the rules; this module
 * has the memory, the lock, the leases, and the waiting.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_POOL_H
#define DV_POOL_H

#include "lib/ilist.h"

#include "net/http.h"
#include "pool/budget.h"
#include "pool/cause.h"
#include "pool/rate.h"
#include "pool/select.h"
#include "pool/throttle.h"

#define DV_POOL_USERS_MAX 64	/* of one server in one user mapping */

/* The scope of the DOP hint; in the order of the option's choices. */
typedef enum dv_dop_scope
{
	DV_DOP_USER,
	DV_DOP_ENVIRONMENT			/* all users share it */
} dv_dop_scope;

/* The server's options; copied into the views of the shared entries. */
typedef struct dv_pool_policy
{
	dv_rate_config rate;
	dv_selection selection;
	int			max_parallel;	/* of this server's requests; 0: the DOP hint */
	dv_dop_scope dop_scope;
	bool		throttle_tracking;
	bool		budget_pacing;
	bool		useful_limit;	/* unless the rate is not adaptive */
	bool		start_full;		/* at the maximum, if the budgets are full */
	int64		retry_after_buffer;
	int64		fallback_retry_after;
	int64		slot_timeout;	/* 0: none */
} dv_pool_policy;

typedef struct dv_pool dv_pool;

/* The place of a pool's user. */
typedef struct dv_place
{
	struct dv_shared *shared;	/* the memory of all backends, or this backend's own */
	int			entry;
	int			view;			/* of the server */
	uint64		born;			/* ticket of the entry; if it differs, the entry has given way */
} dv_place;

/* The parameters of a pool; strings are copied as far as they are kept. */
typedef struct dv_pool_spec
{
	const char *organisation;	/* origin of its service */
	const char *peer;			/* how the service is reached and tokens are obtained */
	Oid			serverid;
	const char *server_name;
	Oid			roleid;			/* the role on whose account its entries are, */
	int			entitled;		/* and how many its user mappings allow */
	int			n;
	const char *const *client_ids;
	const char *const *secrets; /* with which the mapping proves them */
	const char *const *names;	/* for views and logs */
	const dv_pool_policy *policy;
} dv_pool_spec;

/*
 * The pool of a session: one entry for each application user, found or made in
 * shared memory, and the server's view of it.  Lives in "context", which also
 * determines how long its entries are in use.
 *
 * A user mapping can name any application user, so it is only a claim.  Until
 * the service has accepted a request (dv_pool_prove), its user differs from
 * that of any other claim.
 */
extern dv_pool *dv_pool_open(const dv_pool_spec *spec, MemoryContext context);

/*
 * Called when the service has accepted a request of the user, which is
 * therefore the one that the mapping names.  From now on, it shares slots,
 * throttles, and budgets with all sessions that have proved the same.
 */
extern void dv_pool_prove(dv_pool *pool, int user);

/* A slot of one user, either held while a request is on the wire or waited for. */
typedef struct dv_lease
{
	dv_pool    *pool;			/* NULL: not held */
	int			user;			/* position in the pool, */
	dv_place	place;			/* and where the slot was taken */
	dv_kind		kind;
	bool		beside_loads;	/* it is short, and other sessions have loads */
	bool		passes;			/* it is short, and others wait for the budget */
	bool		sent;			/* dv_lease_sent */
	int64		sent_at;
	uint64		ticket;			/* of this lease, and of the previous one of the user */
	uint64		last_ticket;
	int			slot;			/* index of the record, or -1 if there is none (any more) */
	dv_budget_mark mark;

	dv_pool    *waits_in;		/* NULL: not waiting */
	dlist_node	node;			/* in "waiting", if it is */
	uint64		wanted;			/* the users that it waits for */
	uint64		tried;			/* ticket of the last try that failed */
	int64		next_try;		/* 0: never */
	bool		paced;			/* next_try is its turn */
	int64		busy_since;		/* when all slots were found taken, in the time of
								 * dv_http_present; 0: they are not */
} dv_lease;

/*
 * Takes a slot if one is free now: then the result is DV_CHOICE_USER, and the
 * lease is held.  Otherwise, the result says what to wait for: the time
 * choice.until (0: only a release).  This backend's latch is then set when a
 * slot may have become free, until a later try succeeds or dv_lease_drop is
 * called.  "allowed" has a bit for each user that may be chosen.
 */
extern dv_choice dv_pool_acquire(dv_pool *pool, dv_kind kind, uint64 allowed, dv_lease *lease);

/*
 * Returns how many more requests of this kind the users could have under way
 * now, apart from slots that others wait for.  "allowed" has a bit for each
 * user that counts.
 */
extern int	dv_pool_room(dv_pool *pool, dv_kind kind, uint64 allowed);

/*
 * Announce the presence of this backend.  Between "enter" and "leave", it
 * notices its latch and moves its calls on; after "watch", it does so while an
 * Append waits.  When it is elsewhere, its wake-ups go to others, and slots
 * that it holds for longer than such requests take are lent on.
 */
extern void dv_pool_enter(void);
extern void dv_pool_leave(void);
extern void dv_pool_watch(void);

/* With throttle_tracking off: returns how long a throttled request waits. */
extern int64 dv_pool_pause(const dv_pool *pool, int64 retry_after);

/*
 * How a request ended.  Only an answer that took the service work shows how
 * long such work takes and that the service could do more, so the controller
 * counts only SUCCESS and PARTIAL.  If a part was refused for its content, the
 * whole would have taken at least as long, so PARTIAL raises the average but
 * does not lower it.  REFUSED was answered early, and others like it may
 * follow, so it shows neither.  The budget counts everything that was
 * answered, as the service does.
 */
typedef enum dv_lease_outcome
{
	DV_LEASE_SUCCESS,			/* everything was carried out */
	DV_LEASE_PARTIAL,			/* a part was refused for its content, and the rest carried out */
	DV_LEASE_REFUSED,			/* nothing was carried out, or parts were throttled */
	DV_LEASE_THROTTLED,
	DV_LEASE_FAILED				/* transport trouble, 5xx */
} dv_lease_outcome;

/* A throttle of the request, or of a part of it. */
typedef struct dv_throttle_report
{
	dv_throttle_cause cause;
	int64		retry_after;	/* microseconds; < 0: absent, so the fallback applies */
} dv_throttle_report;

typedef struct dv_lease_report
{
	dv_lease_outcome outcome;
	int64		duration;		/* of the exchange alone */
	bool		measured;		/* this backend was there when the answer came */
	int			rows;			/* that were carried out */
	int64		bytes_sent;
	int64		bytes_received;
	int			dop_hint;		/* 0: absent */
	double		remaining[DV_RATIONS];	/* < 0: absent */
	int			nthrottles;
	const dv_throttle_report *throttles;
} dv_lease_report;

/* The request is about to be sent. */
extern void dv_lease_sent(dv_lease *lease);

/*
 * Called when this backend comes back and the request has not been answered:
 * if its slot was lent on meanwhile, it is counted again.
 */
extern void dv_lease_still_under_way(dv_lease *lease);

extern void dv_lease_release(dv_lease *lease, const dv_lease_report *report);

/*
 * Gives the slot back, unused or with unknown outcome, or stops waiting for
 * one.  Safe to call anywhere, even if the lease neither holds nor waits for a
 * slot.
 */
extern void dv_lease_drop(dv_lease *lease);

/*
 * Shows in the views, until this time, that a session of this server has set
 * the user aside, for all requests ("whole") or for some, and why.
 */
extern void dv_pool_show_aside(dv_pool *pool, int user, int64 until, bool whole,
							   const char *reason);

/* Stops showing it, unless another session has shown it with another time. */
extern void dv_pool_hide_aside(dv_pool *pool, int user, int64 until);

extern void dv_pool_count_retry(dv_pool *pool, int user, dv_retry_cause cause);
extern void dv_pool_count_wait(dv_pool *pool, int user, int64 microseconds);

/*
 * Notes how long an answer of this many bytes (before compression) with rows took,
 * and how many rows it had, in how many bytes.  Reads are planned from this.  Rows
 * whose size is not representative (0 bytes) are only counted.
 */
extern void dv_pool_note_answer(dv_pool *pool, int user, int64 bytes, int64 duration);
extern void dv_pool_note_rows(dv_pool *pool, int user, int64 rows, int64 bytes);

/*
 * Returns when a request of any of its users was last carried out, in any
 * session; and notes that one was carried out in part, as its caller has found
 * out.
 */
extern int64 dv_pool_served_at(const dv_pool *pool);
extern void dv_pool_note_served(dv_pool *pool, int user);

extern const char *dv_retry_cause_name(dv_retry_cause cause);

/* Returns a copy of the state of the throttle tracker. */
extern dv_throttle dv_pool_throttle(const dv_pool *pool, int user);

/* Logs how the rate of a user develops, for debugging. */
extern void dv_pool_log_rate(const dv_pool *pool, int user);

extern const char *dv_pool_user_name(const dv_pool *pool, int user);
extern int	dv_pool_size(const dv_pool *pool);

#endif							/* DV_POOL_H */

/*
 * turn.h
 *		A call between its attempts; the interface of call.c and turn.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_TURN_H
#define DV_TURN_H

#include "lib/ilist.h"

#include "client/call.h"
#include "client/senders.h"

typedef enum dv_call_state
{
	DV_CALL_WANTS_SLOT,			/* of a user that has a token */
	DV_CALL_ON_WIRE,
	DV_CALL_DONE
} dv_call_state;

struct dv_call
{
	dlist_node	node;			/* in calls */
	MemoryContext context;
	MemoryContext attempt;		/* headers, answer and error of the last attempt */
	dv_session *session;
	dv_call_spec spec;
	const char *url;
	SubTransactionId subid;
	dv_call_state state;
	dv_lease	lease;
	int			user;			/* the user of the last attempt; -1: none yet */
	dv_senders	senders;
	bool		is_batch;		/* each part has an answer of its own */
	dv_bearer  *bearer;			/* carried by the request on the wire, or NULL */
	bool		tries;			/* the request on the wire tries a user that was set aside */
	dv_http_call *http;
	dv_error	error;
	int			attempts;
	bool		stopped;		/* see dv_call_stopped */
	int64		causes[DV_RETRY_CAUSES];	/* of the repetitions */
	int			throttles;
	dv_retry	retry;
	bool		was_unknown;	/* an attempt may have been carried out */
	bool		pool_told;		/* of a throttle in the last answer, or in a part of it */
	bool		wait_logged;
	int64		not_before;		/* end of the backoff */
	int64		wake_at;		/* when to advance the call at the latest; 0: never */
	dv_wait_reason reason;
	int64		waiting_since;
	int64		waited;
};

/* call.c */

/*
 * Changes the state of a call.  No other code does, so this function keeps the
 * invariants: a slot and a bearer are held only on the wire, and a backend is
 * on the list of waiters only while one of its calls wants a slot
 * (dv_lease_drop).  "until" is the time that the call waits for (0: none).
 */
extern void dv_call_set_state(dv_call *call, dv_call_state state, dv_wait_reason reason,
							  int64 until);

/* Sends the call, for which a slot is held. */
extern void dv_call_send(dv_call *call, dv_bearer *bearer);

/* Sends the call once more, but not before "delay" has passed. */
extern void dv_call_again(dv_call *call, int64 delay);

/* Ends the call, whose error has been set. */
extern void dv_call_finish(dv_call *call);

/* turn.c */

/*
 * Sends a call that wants a slot if a user has a token and a slot for it; otherwise notes what it
 * waits for.
 */
extern void dv_turn_try(dv_call *call);

#endif							/* DV_TURN_H */

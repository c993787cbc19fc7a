/*
 * call.h
 *		One request to Dataverse, repeated until it is answered for good.
 *
 * A call waits for a slot of an application user, for that user's token, for
 * the answer and, if it has to be repeated, for a backoff to pass.  It holds
 * a slot only while it is on the wire.  A backend can have many calls under
 * way; dv_call_wait advances all of them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CALL_H
#define DV_CALL_H

#include "client/session.h"
#include "dataverse/error.h"
#include "pool/progress.h"

typedef struct dv_call dv_call;

typedef struct dv_call_spec
{
	const char *method;
	const char *path;			/* below the service root, or an absolute URL of the same origin */
	const char *const *headers; /* extra "Name: value" lines, NULL-terminated, or NULL */
	const char *body;			/* must outlive the call */
	size_t		body_len;
	dv_kind		kind;
	int			rows;			/* for the counters */
	const char *table;			/* its entity set; NULL: derived from the path */
	uint64		only;			/* a bit for each user that may send it; 0: any */
	bool		in_batch;		/* a $batch of one part, whose answer is that of the call */
	const dv_retry *history;	/* of its contents, in earlier calls; NULL: none */
	int64		delay;			/* it is not sent before this time has passed */
	bool		repeatable;		/* may be sent again after an unknown outcome */
	bool		divisible;		/* the caller can send it in smaller requests */
	bool	   *in_doubt;		/* true while the request may have been carried out; or NULL. Must
								 * outlive the call */
	bool	   *hold;			/* set when the call is done; while it is set, calls that share it
								 * get no slot.  Or NULL; must outlive the call */
} dv_call_spec;

/* Totals of all calls of this backend since it started. */
typedef struct dv_call_totals
{
	int64		requests;
	int64		throttles;		/* in their answers, including those of parts */
	int64		waited;			/* microseconds that the backend spent only waiting for them */
} dv_call_totals;

extern dv_call_totals dv_totals_of_calls;

/*
 * Starts a call, which is ended and freed with "owner".  The spec is copied,
 * except for its body and headers.
 */
extern dv_call *dv_call_start(dv_session *session, const dv_call_spec *spec, MemoryContext owner);

extern bool dv_call_done(const dv_call *call);

/* Returns true if the call waits for a slot, for a token, or for a backoff to pass. */
extern bool dv_call_waiting(const dv_call *call);

/* Returns true if there is a call, and the service is working on it. */
static inline bool
dv_call_in_flight(const dv_call *call)
{
	return call != NULL && !dv_call_done(call) && !dv_call_waiting(call);
}

/* Returns true if the call waits for a backoff to pass. */
extern bool dv_call_resting(const dv_call *call);

/* Advances all calls of this backend as far as possible without waiting. */
extern void dv_call_advance(void);

/*
 * Reads the answers that have arrived, but gives no slot to a call.  The caller
 * examines them, and then calls dv_call_advance.
 */
extern void dv_call_receive(void);

/* Waits until the call is done, and advances all others meanwhile.  Processes interrupts. */
extern void dv_call_wait(dv_call *call);

/*
 * Waits until something happens to any call, or until "until" (dv_now scale;
 * 0: no limit).  This is for callers that have many calls under way; they
 * advance them next.  "reason" applies if no call is under way.  Processes
 * interrupts.
 */
extern void dv_call_pause(int64 until, dv_wait_reason reason);

/*
 * For callers that wait in a WaitEventSet of their own: returns a descriptor
 * that becomes readable when it is time for dv_call_advance, at the latest at
 * "until" (dv_now scale; 0: no limit).  A call that waits for a slot is woken
 * by the latch, so the caller must wait for the latch, too.  Call this last,
 * just before waiting.
 */
extern int	dv_call_watch(int64 until);

/* To be called when the descriptor is ready, if the backend has done nothing but wait for it. */
extern void dv_call_watched(void);

/*
 * These are for calls that are done.  The verdict RETRY or THROTTLED means
 * that no attempts are left, or that the tolerance was exceeded; AUTH does not
 * occur.  Without attempts, there is no result and no header (NULL).  The answer
 * lives as long as the call.
 */
extern const dv_error *dv_call_error(const dv_call *call);
extern const dv_http_result *dv_call_result(const dv_call *call);
extern const char *dv_call_header(const dv_call *call, const char *name);
extern int	dv_call_user(const dv_call *call);
extern int	dv_call_attempts(const dv_call *call);

/*
 * Returns true if the call ended because the subtransaction in which it was
 * started was rolled back, possibly while a cursor opened outside of it still
 * needs the answer.
 */
extern bool dv_call_stopped(const dv_call *call);

/*
 * Adds the causes of repetitions to an array of DV_RETRY_CAUSES counters.  A
 * repetition by another user, because the first one was at fault, has no cause.
 */
extern void dv_call_add_causes(const dv_call *call, int64 *causes);

/* Returns the number of throttles in the answers to all attempts, including those of parts. */
extern int	dv_call_throttles(const dv_call *call);

/* Returns the history that the spec began with, plus what this call has added to it. */
extern const dv_retry *dv_call_history(const dv_call *call);

/* Returns the time at which the last attempt was sent. */
extern int64 dv_call_sent_at(const dv_call *call);

/* Returns true if the pool was told of a throttle in the last answer, or in a part of it. */
extern bool dv_call_told_pool(const dv_call *call);

/*
 * These are for callers that read the parts of a $batch, or the details of
 * rows.  The first notes what the error of a part or row says about the user,
 * and returns the other users that may be asked; 0 if there are none or if the
 * error is not about the user.  The second notes that the user was allowed to
 * carry out the request.
 */
extern uint64 dv_call_others(dv_call *call, const dv_error *error);
extern void dv_call_proved(dv_call *call);

/* For the same callers: tells the pool that a part or a row was carried out. */
extern void dv_call_served(dv_call *call);

/* Returns true if the outcome of any attempt is unknown. */
extern bool dv_call_was_unknown(const dv_call *call);
extern void dv_call_free(dv_call *call);

/* Starts a single call, waits for it, and raises its error, if any. */
extern dv_call *dv_call_run(dv_session *session, const dv_call_spec *spec, const char *what,
							MemoryContext owner);

#endif							/* DV_CALL_H */

/*-------------------------------------------------------------------------
 *
 * call.h
 *		One request to Dataverse, repeated until it is answered for good.
 *
 * A call waits for a slot of an application user, for that user's token, for
 * the wire and, when it must be repeated, for a backoff; it holds a slot only
 * while it is on the wire.  Many calls of a backend can be under way: each
 * is moved on by dv_call_wait, which waits for whatever comes first.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_CALL_H
#define DV_CALL_H

#include "client/session.h"
#include "dataverse/error.h"

typedef struct dv_call dv_call;

typedef struct dv_call_spec
{
	const char *method;
	const char *path;			/* below the service root, or an absolute URL of the same origin */
	const char *const *headers; /* extra "Name: value", NULL-terminated, or NULL */
	const char *body;			/* must outlive the call */
	size_t		body_len;
	dv_kind		kind;
	int			rows;			/* for the counters */
	int			pinned;			/* user that must send it; -1: any */
	bool		in_batch;		/* its body is a $batch of one part, whose answer is this call's */
	bool		repeatable;		/* may be sent again after an unknown outcome */
	bool	   *in_doubt;		/* kept true while it may have been carried out; or NULL. Outlives
								 * the call */
} dv_call_spec;

/* Starts it; ended and freed with "owner".  The spec is copied (not the body). */
extern dv_call *dv_call_start(dv_session *session, const dv_call_spec *spec, MemoryContext owner);

extern bool dv_call_done(const dv_call *call);

/* Not done and not on the wire: waits for a slot, a token, or its time. */
extern bool dv_call_waiting(const dv_call *call);

/* Waits for nothing but the time at which it may be repeated. */
extern bool dv_call_resting(const dv_call *call);

/* Moves all calls of this backend on, without waiting. */
extern void dv_call_advance(void);

/* Waits until this one, or (NULL) any one, is done.  Processes interrupts. */
extern void dv_call_wait(dv_call *call);

/*
 * Waits for whatever happens next to any call, or for "until" (dv_now scale;
 * 0: no time), and moves all on.  For callers that have many calls under way
 * and look at them afterwards.  Processes interrupts.
 */
extern void dv_call_pause(int64 until);

/*
 * For callers that wait in a WaitEventSet of their own: a descriptor that is
 * readable when it is time for dv_call_advance, at the latest at "until"
 * (dv_now scale, 0: no limit).  A call that waits for a slot is woken by the
 * latch, so the latch has to be waited for, too.  Call it last, when nothing
 * else is left to do.
 */
extern int	dv_call_watch(int64 until);

/*
 * Of a call that is done.  verdict OK or REFUSED; RETRY and THROTTLED mean
 * that its attempts are used up (or the tolerance exceeded).  The answer
 * lives as long as the call.
 */
extern const dv_error *dv_call_error(const dv_call *call);
extern const dv_http_result *dv_call_result(const dv_call *call);
extern const char *dv_call_header(const dv_call *call, const char *name);
extern int	dv_call_user(const dv_call *call);
extern int	dv_call_attempts(const dv_call *call);
extern int	dv_call_throttles(const dv_call *call);

/* Did an attempt end without anybody knowing whether it was carried out? */
extern bool dv_call_was_unknown(const dv_call *call);
extern void dv_call_free(dv_call *call);

/* Starts a call, waits for it, and raises its error, if any.  For single requests. */
extern dv_call *dv_call_run(dv_session *session, const dv_call_spec *spec, const char *what,
							MemoryContext owner);

#endif							/* DV_CALL_H */

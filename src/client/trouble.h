/*-------------------------------------------------------------------------
 *
 * trouble.h
 *		What is done about requests that came to nothing: sent again by the
 *		rules of retry.h, told to the log, the counters, and the user.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_TROUBLE_H
#define DV_TROUBLE_H

#include "client/session.h"

/* An attempt that came to nothing. */
typedef struct dv_attempt
{
	int			user;			/* whose it was */
	int			number;			/* of the request's attempts, from 1 */
	int64		sent_at;
	bool		repeatable;		/* even if nobody knows what became of it */
	bool		part;			/* only a part of a request: neither logged nor counted */
} dv_attempt;

/* Decides by what the service said.  Logs throttles, counts what is to be sent again. */
extern dv_retry_decision dv_trouble_decide(dv_session *session, dv_retry *retry,
										   const dv_error *error, const dv_attempt *attempt);

/* The same for a request that was not sent, because its user has no token. */
extern dv_retry_decision dv_trouble_no_token(dv_session *session, dv_retry *retry,
											 const dv_token_error *error, int user, bool others);

/* As an error: an exchange that did not end in an answer. */
extern void dv_trouble_read(const dv_http_result *result, dv_error *error);

/* What the pool calls a throttle of that meaning. */
extern dv_throttle_cause dv_trouble_throttle_cause(const dv_error *error);

/*
 * Raises it: "could not WHAT on server …" with what the service said; code,
 * status, request id and who asked in the detail.  "what" is a phrase that
 * begins with a verb: "insert into foreign table \"account\"".
 */
extern void dv_trouble_raise(const dv_error *error, const char *server, const char *what) __attribute__((noreturn));

#endif							/* DV_TROUBLE_H */

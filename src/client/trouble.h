/*
 * trouble.h
 *		Handles requests that fail: they are repeated by the rules of
 *		retry.h, logged, counted, and reported to the user.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_TROUBLE_H
#define DV_TROUBLE_H

#include "client/answer.h"
#include "client/session.h"
#include "compat.h"

/* An attempt that failed. */
typedef struct dv_attempt
{
	int			user;			/* the user that made it */
	int64		sent_at;
	bool		repeatable;		/* even if the outcome is unknown */
	bool		pool_told;		/* the pool knows of the throttle */
	bool		at_fault;		/* the user is at fault, not the request */
	bool		others;			/* then: other users may send it */
	bool		found_out;		/* this attempt is the first to find its token refused */
	bool		divisible;		/* its rows can be sent in smaller requests */
	bool		counted;		/* another row of the same request is repeated, too, and has been
								 * counted */
} dv_attempt;

/*
 * Logs each throttle of an answer.  "history" is that of the request, or of
 * the rows that it carries.
 */
extern void dv_trouble_log_throttles(dv_session *session, const dv_retry *history, int user,
									 const dv_answer *answer);

/* Decides whether to repeat a request or a part that got an error.  Counts repetitions. */
extern dv_retry_decision dv_trouble_decide(dv_session *session, dv_retry *retry,
										   const dv_error *error, const dv_attempt *attempt);

/* Does the same for a request that was not sent because its user could not get a token. */
extern dv_retry_decision dv_trouble_no_token(dv_session *session, dv_retry *retry,
											 const dv_token_error *error, int user, bool others);

/* Describes an exchange that did not end with an answer as an error. */
extern void dv_trouble_read(const dv_http_result *result, dv_error *error);

/* Makes it an error that does not come from the service, with nothing but these values. */
extern void dv_trouble_set(dv_error *error, dv_verdict verdict, int sqlstate, const char *message,
						   const char *hint);

/*
 * Copies an error with all of its texts into the current memory context.  Use
 * this function to keep an error for longer than its owner lives.
 */
extern void dv_trouble_copy(dv_error *copy, const dv_error *error);

/*
 * Returns the causes of repetitions, such as "connection 2, throttle 1": those
 * counted by dv_call_add_causes(), and the repetitions without a cause.
 */
extern const char *dv_trouble_causes(int64 repeated, const int64 *causes);

/* Returns the pool's name for a throttle with the meaning of this error. */
extern dv_throttle_cause dv_trouble_throttle_cause(const dv_error *error);

/*
 * For the list of ereport(): names the limit that was exceeded if the service, a
 * gateway before it, or the token endpoint was too busy, and no option of the server
 * limits the wait.  Other limits have the same SQLSTATE, and messages are for people.
 */
extern int	dv_trouble_limit(const dv_error *error, const dv_session_config *config);

/*
 * Returns true if an error with this constraint name was raised with dv_trouble_limit() in this
 * transaction.  Any function can raise an error with the name, but not make the service busy.
 */
extern bool dv_trouble_was_limit(const char *name);

/*
 * Raises the error as "could not WHAT on server …" with the message of the
 * service; the detail has the code, status, request id, and application user.
 * "what" is a phrase that begins with a verb, such as
 * "insert into foreign table \"account\"".
 */
extern void dv_trouble_raise(const dv_error *error, const dv_session_config *config,
							 const char *what) __attribute__((noreturn));

#endif							/* DV_TROUBLE_H */

/*
 * senders.h
 *		Which application users may send a call.
 *
 * At first these are all users of the session, or those that the caller
 * permits.  A user that is at fault for the failure of an attempt is crossed
 * out, and the others are tried.  The call fails when none is left.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SENDERS_H
#define DV_SENDERS_H

#include "client/session.h"

typedef struct dv_senders
{
	dv_session *session;
	MemoryContext context;		/* of the call */
	dv_deed		deed;
	uint64		allowed;		/* a bit for each user that may send it */
	uint64		in_vain;		/* users that cannot send it, or were refused */
	dv_error   *refusal;		/* the service's last refusal for lack of a privilege; or NULL */
} dv_senders;

/* Returns the users to choose from now, as dv_standing_choose() does. */
extern uint64 dv_senders_choose(const dv_senders *senders, int64 *until);

/* Returns true if one of the users may soon be among these, since another request is trying it. */
extern bool dv_senders_tried(const dv_senders *senders);

/*
 * The users by the state of their tokens.  A user without a token does not delay a
 * call that another user can send: its token is requested in the background, for
 * one user at a time, so that a token endpoint which does not answer for some users
 * costs only their share.  A call waits only if no user can send it, and after a
 * second it tries the next user as well.
 */
typedef struct dv_tokens
{
	uint64		senders;		/* users that may get the call: those with a token and, when it is
								 * time, those whose token has not been requested */
	uint64		awaited;		/* users whose token has been requested but not received */
	int64		next_at;		/* when the token of one more user may be requested; 0: no need to
								 * wait */
} dv_tokens;

extern dv_tokens dv_senders_tokens(const dv_senders *senders, uint64 users);

/* Returns the users that are left without this one. */
extern uint64 dv_senders_others(const dv_senders *senders, int user);

/* Notes what an error says about its user.  Returns true if the user is at fault. */
extern bool dv_senders_blame(dv_senders *senders, int user, const dv_error *error);

/*
 * Decides how to continue if a user cannot get a token.  Returns the same as
 * dv_trouble_no_token(), with *error set if the call has to end.
 */
extern dv_retry_decision dv_senders_no_token(dv_senders *senders, dv_retry *retry, int user,
											 dv_error *error);

/*
 * Makes the error of this user's last attempt that of the call when no user is left.  If a
 * user was refused for lack of a privilege, that error is used; otherwise the error says
 * what is wrong with each user.
 */
extern void dv_senders_explain(const dv_senders *senders, int user, dv_error *error);

#endif							/* DV_SENDERS_H */

/*-------------------------------------------------------------------------
 *
 * senders.h
 *		Which application users may send a call.
 *
 * At first these are all users of the session, or those that the caller
 * permits.  A user that is at fault for the failure of an attempt is crossed
 * out, and the others are asked.  The call fails when nobody is left.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
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
	uint64		in_vain;		/* users that cannot send it, or that were refused */
	dv_error   *refusal;		/* the service's last refusal for lack of a privilege; or NULL */
} dv_senders;

/* Returns the users to choose from now, as dv_standing_choose() does. */
extern uint64 dv_senders_choose(const dv_senders *senders, int64 *until);

/*
 * The users by the state of their tokens.  A user without a token does not delay a
 * call that another user can send: its token is requested in the background, for
 * one user at a time, so that a token endpoint which does not answer for some users
 * costs only their share.  A call waits only if no user can send it, and after a
 * second it tries the next user as well.
 */
typedef struct dv_tokens
{
	uint64		senders;		/* users that the call can be given to: those with a token, and,
								 * if it is time, those that have not been asked for one */
	uint64		awaited;		/* users that have been asked, and have not answered */
	int64		next_at;		/* when one more user may be asked; 0: there is no need to wait */
} dv_tokens;

extern dv_tokens dv_senders_tokens(const dv_senders *senders, uint64 users);

/* Returns those that are left without this user. */
extern uint64 dv_senders_others(const dv_senders *senders, int user);

/* Notes what an error says about its user.  Returns true if the user is at fault. */
extern bool dv_senders_blame(dv_senders *senders, int user, const dv_error *error);

/*
 * Decides what follows if a user cannot get a token.  Returns as
 * dv_trouble_no_token() does, with *error set if the call has to end.
 */
extern dv_retry_decision dv_senders_no_token(dv_senders *senders, dv_retry *retry, int user,
											 dv_error *error);

/*
 * Makes the error of the last attempt, of this user, that of the call, for which nobody is
 * left.  If a user was refused for lack of a privilege, that is the answer of
 * the service; otherwise the error says what is wrong with each user.
 */
extern void dv_senders_explain(const dv_senders *senders, int user, dv_error *error);

#endif							/* DV_SENDERS_H */

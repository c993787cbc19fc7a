/*-------------------------------------------------------------------------
 *
 * standing.h
 *		Application users in trouble: which of a session's users are set
 *		aside, and why.
 *
 * A user is set aside if it gets no token, if its tokens are refused, or if the
 * service does not admit it; and for one kind of request to one table if it
 * lacks the privilege.  Others are then preferred until a pause has passed,
 * which grows from one failure to the next.  Being set aside never makes a
 * request fail untried: if all users that may send it are set aside, they are
 * tried nevertheless.
 *
 * Who a user is to the service is shared by all backends, but its credentials
 * belong to a user mapping: a role with a wrong secret must not keep others
 * from a user whose secret they know.  So each session keeps its own record.
 * The pool only shows it.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_STANDING_H
#define DV_STANDING_H

#include "client/retry.h"
#include "dataverse/error.h"
#include "net/token.h"
#include "pool/pool.h"

typedef struct dv_standing dv_standing;

/* What a request does: a kind of request to a table. */
typedef struct dv_deed
{
	dv_kind		kind;
	const char *table;			/* entity set; "" for a request that is not about a table */
} dv_deed;

/* Those of a pool's users, in the current memory context. */
extern dv_standing *dv_standing_create(dv_pool *pool, const char *server_name);

/*
 * Returns those of the users (a bit for each) that are not set aside, or all of
 * them if each of them is.  *until becomes the time at which one that was left
 * out may be tried again, or 0.
 */
extern uint64 dv_standing_choose(dv_standing *standing, uint64 users, const dv_deed *deed,
								 int64 *until);

/* Returns true if one of the users is not set aside. */
extern bool dv_standing_any(dv_standing *standing, uint64 users, const dv_deed *deed);

/* Notes that a user could not get a token. */
extern void dv_standing_no_token(dv_standing *standing, int user, const dv_token_error *error);

/*
 * Notes what an error says about the user that sent the request: that the
 * service does not admit it, or that it lacks a privilege.
 */
extern void dv_standing_refused(dv_standing *standing, int user, const dv_deed *deed,
								const dv_error *error);

/*
 * Notes that the service has admitted the user to a request sent at this time
 * and, unless "deed" is NULL, let it do that.
 */
extern void dv_standing_proved(dv_standing *standing, int user, const dv_deed *deed,
							   int64 sent_at);

/*
 * Takes back what the views show about the users, because what was wrong with
 * them need not be so any more.
 */
extern void dv_standing_withdraw(const dv_standing *standing);

/* Returns, in the current memory context, each of the users with the reason why it was set aside. */
extern const char *dv_standing_reasons(const dv_standing *standing, uint64 users);

#endif							/* DV_STANDING_H */

/*
 * standing.h
 *		Application users in trouble: which of a session's users are set
 *		aside, and why.
 *
 * A user is set aside if it gets no token, if its tokens are refused, or if the
 * service does not admit it; and for one kind of request to one table if it
 * lacks the privilege.  Others are then preferred until a pause has passed,
 * which grows from one failure to the next.  Then one request at a time tries
 * the user until one succeeds: a service that has become silent for this user
 * holds up one request of the session and no more.  No request fails untried:
 * if all users that may send it are set aside, they are tried nevertheless.
 *
 * All backends share the state of a user, but its credentials belong to a user
 * mapping: a role with a wrong secret must not keep others from a user whose
 * secret they know.  Therefore each session keeps its own record, and the pool
 * only shows it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_STANDING_H
#define DV_STANDING_H

#include "client/retry.h"
#include "dataverse/error.h"
#include "net/token.h"
#include "pool/pool.h"

typedef struct dv_standing dv_standing;

/* A kind of request to a table. */
typedef struct dv_deed
{
	dv_kind		kind;
	const char *table;			/* entity set; "" for a request that is not about a table */
} dv_deed;

/* Creates the record of a pool's users, in the current memory context. */
extern dv_standing *dv_standing_create(dv_pool *pool, const char *server_name);

/*
 * Returns the users (a bit for each) that are not set aside and not being tried
 * by another request, or all of them if there is none.  *until becomes the time
 * at which a user that was left out may be tried again, or 0.
 */
extern uint64 dv_standing_choose(dv_standing *standing, uint64 users, const dv_deed *deed,
								 int64 *until);

/* Returns true if one of the users is not set aside. */
extern bool dv_standing_any(dv_standing *standing, uint64 users, const dv_deed *deed);

/* Returns true if a request is under way that tries one of the users. */
extern bool dv_standing_being_tried(dv_standing *standing, uint64 users, const dv_deed *deed);

/*
 * Notes that a request is sent.  Returns true if it tries a user that was set
 * aside; dv_standing_tried must then be called when it ends.
 */
extern bool dv_standing_try(dv_standing *standing, int user, const dv_deed *deed);
extern void dv_standing_tried(dv_standing *standing, int user, const dv_deed *deed);

/* Notes that a user could not get a token. */
extern void dv_standing_no_token(dv_standing *standing, int user, const dv_token_error *error);

/*
 * Notes that, according to an error, the service does not admit the user that
 * sent the request, or that it lacks a privilege.
 */
extern void dv_standing_refused(dv_standing *standing, int user, const dv_deed *deed,
								const dv_error *error);

/*
 * Notes that the service has admitted the user to a request sent at this time
 * and, unless "deed" is NULL, allowed the deed.
 */
extern void dv_standing_proved(dv_standing *standing, int user, const dv_deed *deed,
							   int64 sent_at);

/* Takes back what the views show about the users, because their trouble may be over. */
extern void dv_standing_withdraw(const dv_standing *standing);

/* Returns, in the current memory context, why each of the users was set aside. */
extern const char *dv_standing_reasons(const dv_standing *standing, uint64 users);

#endif							/* DV_STANDING_H */

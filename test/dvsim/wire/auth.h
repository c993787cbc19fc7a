/*
 * auth.h
 *		Application users, their tokens and their counters.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_AUTH_H
#define SIM_AUTH_H

#include "sim.h"

struct sim_user
{
	const char *client_id;		/* any text */
	const char *secret;			/* or NULL */
	const char *certificate;	/* PEM file whose key must have signed the assertion, or NULL */
	char		systemuser_id[37];
	int			number;			/* 0, 1, … in the order of --app-user; -1: app without user */
	bool		limited;		/* reads only rows that it owns */
	int			in_flight;
	int			peak_in_flight;
	uint64_t	requests[SIM_KINDS];
	uint64_t	rows[SIM_KINDS];
	uint64_t	throttles[3];	/* requests, execution time, concurrency */
};

struct sim_auth;
struct sim_credential;			/* assertion.h */

enum sim_bearer
{
	SIM_BEARER_OK,
	SIM_BEARER_MISSING,
	SIM_BEARER_INVALID,
	SIM_BEARER_EXPIRED
};

struct sim_auth *sim_auth_new(struct sim *sim, int64_t lifetime_us);
void		sim_auth_free(struct sim_auth *auth);

/*
 * "ID:SECRET" or "ID:@FILE".  Not a member: an app that gets tokens but has
 * no application user.  False with a message on stderr.
 */
bool		sim_auth_add(struct sim_auth *auth, const char *spec, bool member);

/* the application users, by number */
int			sim_auth_users(const struct sim_auth *auth);
struct sim_user *sim_auth_user(const struct sim_auth *auth, int number);

/* an application user or app by its client id, without regard to case; or NULL */
struct sim_user *sim_auth_find(const struct sim_auth *auth, const char *client_id);
const struct sim_credential *sim_user_credential(const struct sim_user *user);

/* the users' rows in systemuser (at the start and after a reset); false if SQLite refuses */
bool		sim_auth_rows(struct sim_auth *auth);

/* a new token of 64 characters, valid until the next call; seconds are real ones */
const char *sim_auth_issue(struct sim_auth *auth, struct sim_user *user, int64_t *seconds);

/* returns the user of an Authorization header (or NULL) */
enum sim_bearer sim_auth_check(struct sim_auth *auth, const char *header, struct sim_user **user);

/* makes the user's tokens expire now */
void		sim_auth_void(struct sim_auth *auth, const struct sim_user *user);

#endif

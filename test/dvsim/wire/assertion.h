/*
 * assertion.h
 *		Client assertions: JWTs signed with the key of a certificate.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ASSERTION_H
#define SIM_ASSERTION_H

#include "store/mem.h"

struct sim_credential;

/* from a PEM file; NULL with a message on stderr */
struct sim_credential *sim_credential_load(const char *file);
void		sim_credential_free(struct sim_credential *credential);

struct sim_assertion_error
{
	int			aadsts;			/* 0: the assertion is good */
	const char *text;
};

/*
 * Checks form, signature, subject, audience and times.  "now" is Unix time,
 * the real one: clients sign with their own clock.  "audiences" ends with NULL.
 */
struct sim_assertion_error sim_assertion_check(struct sim_arena *arena,
											   const struct sim_credential *credential,
											   const char *assertion, const char *client_id,
											   const char *const *audiences, int64_t now);

/* the client id in a JWT's claims without any check; NULL if there is none */
const char *sim_assertion_subject(struct sim_arena *arena, const char *assertion);

#endif

/*
 * session.h
 *		One backend's dealings with one server on behalf of one user mapping:
 *		connections, tokens, pool.
 *
 * Sessions are created from plain values.  fdw/connection.c reads those from
 * the catalogs, keeps the sessions, and drops them when the server or the
 * mapping changes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SESSION_H
#define DV_SESSION_H

#include "client/retry.h"
#include "client/standing.h"
#include "net/token.h"
#include "pool/entry.h"
#include "pool/pool.h"

typedef struct dv_session_config
{
	Oid			serverid;
	const char *server_name;
	Oid			roleid;			/* of the user mapping, */
	int			entitled;		/* and how many application users that role's mappings name */
	const char *base_url;		/* origin, no trailing slash */
	const char *peer;			/* dv_pool_spec */
	const char *api_version;	/* "9.2" */
	dv_http_options http;
	int			request_timeout_ms;
	dv_pool_policy pool;
	dv_retry_policy retry;
	bool		bounds_throttles;	/* options limit how often or how long throttles are waited
									 * out */
	int			nusers;
	const char **names;
	dv_credential *credentials;
	const char *caller_id;		/* impersonation, or NULL */
} dv_session_config;

typedef struct dv_session dv_session;
typedef struct dv_noted_form dv_noted_form; /* forms.c */

/*
 * Returns the keys by which the pool knows the application users: hashes of the URL, their names,
 * and credentials.
 */
extern dv_entry_key *dv_session_keys(const dv_session_config *config);

/* Copies its arguments into a new context below "parent". */
extern dv_session *dv_session_create(const dv_session_config *config, MemoryContext parent);
extern void dv_session_free(dv_session *session);

/* Returns the configuration, without credentials and transport options. */
extern const dv_session_config *dv_session_config_of(const dv_session *session);

/* Returns the context for data that the session needs beyond the end of a transaction. */
extern MemoryContext dv_session_context(const dv_session *session);

extern const char *dv_session_root(const dv_session *session);	/* "https://…/api/data/v9.2/" */

/*
 * Returns a path below the service root as a complete URL.  An absolute URL,
 * such as a link from the service, is returned as it is.  Raises an error
 * unless the URL leads to a place below the root of the service that our
 * tokens are for, however a server normalizes it.
 */
extern const char *dv_session_url(const dv_session *session, const char *path);

/* Returns true if dv_session_url accepts this path or URL, which leads to the host of the service. */
extern bool dv_session_reaches(const dv_session *session, const char *path);

/* Returns the entity set in a complete URL, or "" if it has none. */
extern const char *dv_session_table(const dv_session *session, const char *url);

extern dv_http_client *dv_session_client(const dv_session *session);
extern dv_pool *dv_session_pool(const dv_session *session);
extern dv_standing *dv_session_standing(const dv_session *session);
extern MemoryContext dv_session_memory(const dv_session *session);
extern dv_noted_form * *dv_session_noted_forms(const dv_session *session);

/*
 * Return true if the service has been seen to name columns of links as requested, in rows or in
 * groups.
 */
extern bool *dv_session_links_proven(const dv_session *session, bool grouped);

extern dv_token *dv_session_access_token(const dv_session *session, int user);

/*
 * The consistency token that the service returned for the last write to an
 * elastic table: a read that sends it sees that write.  NULL if nothing was
 * written, or if the table has no such tokens.  call.c notes the tokens of
 * requests; the sender of a $batch must note those of its parts.
 */
extern void dv_session_note_consistency_token(dv_session *session, const char *entity_set,
											  const char *token);
extern const char *dv_session_consistency_token(const dv_session *session,
												const char *entity_set);

#endif							/* DV_SESSION_H */

/*-------------------------------------------------------------------------
 *
 * token.h
 *		Access tokens of application users.
 *
 * A token belongs to the backend that knows the secret.  It is fetched on
 * first use, again some minutes before it expires, and once when the service
 * answers 401; however many calls wait for it, one request is under way.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_TOKEN_H
#define DV_TOKEN_H

#include "net/http.h"

typedef enum dv_credential_kind
{
	DV_CREDENTIAL_SECRET,
	DV_CREDENTIAL_CERTIFICATE,
	DV_CREDENTIAL_MANAGED_IDENTITY,
	DV_CREDENTIAL_TOKEN
} dv_credential_kind;

typedef struct dv_credential
{
	dv_credential_kind kind;
	const char *client_id;		/* managed identity: may be NULL */
	const char *secret;			/* secret, or fixed token, or pass phrase of the key */
	const char *certificate;	/* path of PEM certificate (and key, unless key is given) */
	const char *key;
	const char *token_url;		/* where to ask; made by the caller from authority and tenant */
	const char *resource;		/* origin of the service */
} dv_credential;

typedef struct dv_token dv_token;

typedef enum dv_token_state
{
	DV_TOKEN_READY,
	DV_TOKEN_PENDING,			/* a request is under way: dv_http_wait, then ask again */
	DV_TOKEN_FAILED
} dv_token_state;

typedef struct dv_token_error
{
	bool		transient;		/* network, 5xx, 429: worth another try */
	int64		retry_after;	/* microseconds; 0: not said */
	const char *message;		/* "AADSTS7000215: …", first line, secrets never in it */
	const char *hint;			/* what to do, or NULL */
} dv_token_error;

/* All strings are copied into "context", which owns the token. */
extern dv_token *dv_token_create(dv_http_client *client, const dv_credential *credential,
								 MemoryContext context);

/* Never waits, never raises for what the authority says.  READY: *bearer is valid until the next call. */
extern dv_token_state dv_token_poll(dv_token *token, const char **bearer);
extern const dv_token_error *dv_token_last_error(const dv_token *token);

/* The service refused this very bearer: the next poll fetches another, unless that has happened already. */
extern void dv_token_refused(dv_token *token, const char *bearer);

/* Seconds the current token is still good for; -1 without one. */
extern int	dv_token_lifetime(const dv_token *token);

#endif							/* DV_TOKEN_H */

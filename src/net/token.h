/*-------------------------------------------------------------------------
 *
 * token.h
 *		Access tokens of application users.
 *
 * A token belongs to the backend that knows the secret.  It is requested on
 * first use, again some minutes before it expires, and once when the service
 * answers 401.  However many calls wait for it, only one request is in flight.
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
	const char *client_id;		/* may be NULL for a managed identity */
	const char *secret;			/* client secret, fixed token, or pass phrase of the key */
	const char *certificate;	/* PEM file of the certificate, and of the key if that is NULL */
	const char *key;
	const char *token_url;		/* the caller makes it from authority and tenant */
	const char *resource;		/* origin of the service */
} dv_credential;

typedef struct dv_token dv_token;

typedef enum dv_token_state
{
	DV_TOKEN_READY,
	DV_TOKEN_PENDING,			/* a request is in flight: call dv_http_wait and poll again */
	DV_TOKEN_FAILED
} dv_token_state;

typedef struct dv_token_error
{
	bool		transient;		/* network, 5xx, 429: worth another try */
	int64		retry_after;	/* microseconds; 0: not said */
	const char *message;		/* the first line, "AADSTS7000215: …", without secrets */
	const char *hint;			/* what to do, or NULL */
} dv_token_error;

/* Creates a token in "context" and copies all strings of the credential there. */
extern dv_token *dv_token_create(dv_http_client *client, const dv_credential *credential,
								 MemoryContext context);

/*
 * Gets the token, or starts a request for it.  Never waits, and raises no
 * error for what the authority answers.  If the result is DV_TOKEN_READY,
 * *bearer is valid until the next call.
 */
extern dv_token_state dv_token_poll(dv_token *token, const char **bearer);
extern const dv_token_error *dv_token_last_error(const dv_token *token);

/*
 * The service refused this bearer token.  The next poll requests another
 * one, unless it has been replaced already.
 */
extern void dv_token_refused(dv_token *token, const char *bearer);

/* Returns for how many seconds the token is still valid, or -1 if there is none. */
extern int	dv_token_lifetime(const dv_token *token);

#endif							/* DV_TOKEN_H */

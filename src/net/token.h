/*
 * token.h
 *		Access tokens of application users.
 *
 * A token belongs to the backend that knows the secret.  It is requested on
 * first use, again some minutes before it expires, and whenever the service
 * answers 401.  However many calls wait for it, only one request is in flight.
 *
 * Each value that the authority sends is a bearer.  A bearer that the service
 * refuses after accepting some request with it has expired; this can happen
 * any number of times.  A bearer counts against the application user only if
 * all its requests were refused, which is known when the last of them has been
 * answered.  After DV_TOKEN_STRIKES such bearers in a row, the token is
 * hopeless.
 *
 * SPDX-License-Identifier: PostgreSQL
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
	const char *suffix;			/* of the names of its options: "_2" and so on; else NULL */
	const char *client_id;		/* may be NULL for a managed identity */
	const char *secret;			/* client secret, fixed token, or pass phrase of the key */
	const char *certificate;	/* PEM file of the certificate, and of the key if that is NULL */
	const char *key;
	const char *token_url;		/* the caller makes it from authority and tenant */
	const char *resource;		/* origin of the service */
} dv_credential;

typedef struct dv_token dv_token;
typedef struct dv_bearer dv_bearer;

/* The number of bearers in a row that never worked, after which a token is hopeless. */
#define DV_TOKEN_STRIKES 3

/* The result of a request for its bearer. */
typedef enum dv_bearer_fate
{
	DV_BEARER_UNTOLD,			/* nothing: there was no answer */
	DV_BEARER_ACCEPTED,			/* the answer was anything but 401 */
	DV_BEARER_REFUSED
} dv_bearer_fate;

typedef enum dv_token_state
{
	DV_TOKEN_READY,
	DV_TOKEN_PENDING,			/* a request is in flight, or waits for a descriptor: call
								 * dv_http_wait and poll again */
	DV_TOKEN_FAILED
} dv_token_state;

typedef struct dv_token_error
{
	bool		transient;		/* network, 5xx, 429: worth another try */
	bool		throttled;		/* 429, or 503 with Retry-After: busy rather than broken */
	int64		retry_after;	/* microseconds; 0: not said */
	const char *message;		/* the first line, "AADSTS7000215: …", without secrets */
	const char *hint;			/* what to do, or NULL */
	const char *brief;			/* the message without file names, for unprivileged users */
} dv_token_error;

/* Creates a token in "context", with copies of all strings of the credential. */
extern dv_token *dv_token_create(dv_http_client *client, const dv_credential *credential,
								 MemoryContext context);

/*
 * Gets the token, or starts a request for it.  Never waits, and raises no
 * error for an answer of the authority.  If the result is DV_TOKEN_READY,
 * *bearer is valid until the next call, or for longer if it is carried.
 */
extern dv_token_state dv_token_poll(dv_token *token, dv_bearer **bearer);

/* Returns true if a token can be used now. */
extern bool dv_token_usable(const dv_token *token);

/* Returns true if a request for the token has ended, and the next poll tells how. */
extern bool dv_token_has_news(const dv_token *token);

/* Returns the time at which the request under way was started, or 0 if there is none. */
extern int64 dv_token_requested_at(const dv_token *token);
extern const dv_token_error *dv_token_last_error(const dv_token *token);

/* Returns the value to send.  A request carries the bearer until its fate is known. */
extern const char *dv_bearer_carry(dv_bearer *bearer);

/*
 * A request that carried the bearer has ended.  Returns true if the bearer was
 * refused and this request is the first to find out; the next poll requests
 * another one.  The caller must not use the bearer afterwards.
 */
extern bool dv_token_note_fate(dv_token *token, dv_bearer *bearer, dv_bearer_fate fate);

/* Returns true if another bearer would be refused, too. */
extern bool dv_token_hopeless(const dv_token *token);

/* Returns what to do if the service refuses the token, or NULL. */
extern const char *dv_token_hint(const dv_token *token);

/* Returns for how many seconds the token is still valid, or -1 if there is none. */
extern int	dv_token_lifetime(const dv_token *token);

/*
 * Returns, in the current memory context, a text that identifies the
 * application user of a credential.  It is the same for all credentials of a
 * user, as far as that can be known.  It can contain the access token, so only
 * a hash of it may be shown or stored.
 */
extern const char *dv_credential_identity(const dv_credential *credential);

/* Likewise returns the secret of the credential; only a hash of it may be stored. */
extern const char *dv_credential_proof(const dv_credential *credential);

#endif							/* DV_TOKEN_H */

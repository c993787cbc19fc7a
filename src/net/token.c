/*
 * token.c
 *		Access tokens of application users.
 *
 * Each session has one token object for each application user.  Polling
 * never waits: it starts a request if one is needed, and returns "pending"
 * until that request has ended.  A token that is still valid is used while
 * its successor is being requested.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <curl/curl.h>
#include <json-c/json.h>
#include <time.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "net/assertion.h"
#include "net/clock.h"
#include "net/date.h"
#include "net/json.h"
#include "net/text.h"
#include "net/token.h"

#define REFRESH_BEFORE		(300 * DV_SECOND)	/* but at most a tenth of the lifetime */
#define UNUSABLE_BEFORE		(5 * DV_SECOND) /* likewise */
#define FAILURE_HOLDS		(DV_SECOND / 5) /* for all calls that wait for the same request */
#define REFRESH_AGAIN		(10 * DV_SECOND)	/* after a failure, while the old token is valid */
#define REQUEST_TIMEOUT_MS	30000
#define MAX_ANSWER			(256 * 1024)
#define USUAL_LIFETIME		3600	/* seconds */
#define LONGEST_LIFETIME	86400	/* a token is renewed after this time, whatever lifetime the
									 * authority states */
#define IMDS_URL			"http://169.254.169.254/metadata/identity/oauth2/token"

/*
 * One value of a token.  It is freed when it has been replaced or refused and
 * no request carries it any longer.
 */
struct dv_bearer
{
	char	   *value;
	int			carriers;		/* requests that carry it and whose answers have not told its fate */
	bool		current;		/* it is the token's current bearer */
	bool		worked;			/* a request that carried it was accepted */
	bool		refused;
};

struct dv_token
{
	MemoryContext context;		/* of the token */
	MemoryContext request;		/* of the current request, or of the last one */
	dv_http_client *client;
	dv_credential credential;	/* its strings are copies */
	dv_bearer  *bearer;			/* the current one, or NULL */
	int			strikes;		/* bearers in a row that never worked */
	bool		granted;		/* the authority has accepted these credentials before */
	int64		expires_at;
	int64		usable_until;
	int64		refresh_at;
	dv_http_call *call;			/* NULL: none in flight */
	int64		failed_at;		/* 0: the last request did not fail */
	dv_token_error error;
};

/* In hints, %s stands for the suffix of the application user's options. */
static const struct
{
	const char *code;
	const char *hint;
}			authority_hints[] =

{
	{"AADSTS7000215", "Check option \"client_secret%s\" of the user mapping.  It must be the secret's value, not its id."},
	{"AADSTS7000222", "The client secret has expired.  Create another one and set option \"client_secret%s\" of the user mapping."},
	{"AADSTS700016", "Check option \"client_id%s\" of the user mapping and \"tenant_id\" of the server."},
	{"AADSTS90002", "Check option \"tenant_id\" of the server."},
	{"AADSTS700027", "Upload the certificate of option \"client_certificate%s\" to the app registration."},
	{"AADSTS500011", "Check option \"url\" of the server."},
};

static const char *
copy(const char *s)
{
	return s != NULL ? pstrdup(s) : NULL;
}

static dv_bearer *
new_bearer(const char *value)
{
	dv_bearer  *bearer = palloc0(sizeof(*bearer));

	bearer->value = pstrdup(value);
	bearer->current = true;
	return bearer;
}

/* Frees a bearer that is no longer in use.  Now it is known whether it ever worked. */
static void
bury(dv_token *token, dv_bearer *bearer)
{
	if (bearer->current || bearer->carriers > 0)
		return;
	if (bearer->refused && !bearer->worked)
		token->strikes++;
	pfree(bearer->value);
	pfree(bearer);
}

/* Stops sending the current bearer. */
static void
retire_bearer(dv_token *token)
{
	dv_bearer  *bearer = token->bearer;

	token->bearer = NULL;
	if (bearer == NULL)
		return;
	bearer->current = false;
	bury(token, bearer);
}

dv_token *
dv_token_create(dv_http_client *client, const dv_credential *credential, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_token   *token = palloc0(sizeof(*token));

	token->context = context;
	token->request = AllocSetContextCreate(context, "dataverse token", ALLOCSET_SMALL_SIZES);
	token->client = client;
	token->credential.kind = credential->kind;
	token->credential.suffix = copy(credential->suffix);
	token->credential.client_id = copy(credential->client_id);
	token->credential.secret = copy(credential->secret);
	token->credential.certificate = copy(credential->certificate);
	token->credential.key = copy(credential->key);
	token->credential.token_url = copy(credential->token_url);
	token->credential.resource = copy(credential->resource);
	if (credential->kind == DV_CREDENTIAL_TOKEN)
		token->bearer = new_bearer(credential->secret);
	MemoryContextSwitchTo(old);
	return token;
}

/* A hint that names the options of this application user. */
static const char *
numbered(const dv_token *token, const char *hint)
{
	const char *n = token->credential.suffix != NULL ? token->credential.suffix : "";

	return psprintf(hint, n, n, n);
}

static void
failed(dv_token *token, bool transient, int64 retry_after, const char *message, const char *hint)
{
	token->failed_at = dv_now();
	token->error.transient = transient;
	token->error.throttled = false;
	token->error.retry_after = retry_after;
	token->error.message = MemoryContextStrdup(token->request, message);
	token->error.brief = token->error.message;
	token->error.hint = hint != NULL ? MemoryContextStrdup(token->request, numbered(token, hint)) : NULL;
}

static void
add_field(StringInfo form, const char *name, const char *value)
{
	char	   *escaped = curl_easy_escape(NULL, value, 0);

	if (escaped == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	appendStringInfo(form, "%s%s=%s", form->len > 0 ? "&" : "", name, escaped);
	curl_free(escaped);
}

/* Returns the form of the client credentials grant, or NULL if the certificate cannot be used. */
static const char *
grant_form(dv_token *token)
{
	const dv_credential *c = &token->credential;
	StringInfoData form;

	initStringInfo(&form);
	add_field(&form, "grant_type", "client_credentials");
	add_field(&form, "client_id", c->client_id);
	add_field(&form, "scope", psprintf("%s/.default", c->resource));
	if (c->kind == DV_CREDENTIAL_CERTIFICATE)
	{
		char		reason[512] = "";
		char	   *assertion = dv_assertion_make(c->certificate, c->key, c->secret, c->client_id,
												  c->token_url, (int64_t) time(NULL),
												  reason, sizeof(reason));

		if (assertion == NULL)
		{
			failed(token, false, 0, reason,
				   "Check options \"client_certificate%s\", \"client_key%s\", and \"client_key_password%s\" of the user mapping.");
			token->error.brief = "the certificate or its key cannot be used";
			return NULL;
		}
		add_field(&form, "client_assertion_type",
				  "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
		appendStringInfo(&form, "&client_assertion=%s", assertion); /* needs no escaping */
		free(assertion);
	}
	else
		add_field(&form, "client_secret", c->secret);
	return form.data;
}

static const char *
managed_identity_url(const dv_credential *c)
{
	StringInfoData query;

	initStringInfo(&query);
	add_field(&query, "api-version", "2018-02-01");
	add_field(&query, "resource", c->resource);
	if (c->client_id != NULL)
		add_field(&query, "client_id", c->client_id);
	return psprintf("%s?%s", c->token_url != NULL ? c->token_url : IMDS_URL, query.data);
}

static void
start_request(dv_token *token)
{
	static const char *const form_headers[] = {
		"Content-Type: application/x-www-form-urlencoded", "Accept: application/json", NULL
	};
	static const char *const identity_headers[] = {"Metadata: true", NULL};
	dv_http_request request = {0};
	MemoryContext old;

	MemoryContextReset(token->request);
	old = MemoryContextSwitchTo(token->request);
	token->failed_at = 0;
	request.timeout_ms = REQUEST_TIMEOUT_MS;
	request.max_response = MAX_ANSWER;
	if (token->credential.kind == DV_CREDENTIAL_MANAGED_IDENTITY)
	{
		request.method = "GET";
		request.url = managed_identity_url(&token->credential);
		request.headers = identity_headers;
		request.no_proxy = true;
	}
	else
	{
		request.method = "POST";
		request.url = token->credential.token_url;
		request.headers = form_headers;
		request.body = grant_form(token);
		request.body_len = request.body != NULL ? strlen(request.body) : 0;
	}
	if (token->failed_at == 0)
		token->call = dv_http_start(token->client, &request, token->request);
	MemoryContextSwitchTo(old);
}

/*
 * Gets the lifetime of a token, which managed identities have as a string.  It
 * may be any value, but not so short that tokens are requested all the time.
 */
static int64
lifetime_of(struct json_object *root)
{
	struct json_object *value;
	double		seconds;

	if (!json_object_object_get_ex(root, "expires_in", &value))
		return USUAL_LIFETIME;
	seconds = json_object_get_double(value);
	if (!(seconds > 0))
		return USUAL_LIFETIME;
	return (int64) Max(Min(seconds, (double) LONGEST_LIFETIME), 1);
}

static void
accept_token(dv_token *token, const char *value, int64 lifetime)
{
	int64		now = dv_now();
	MemoryContext old = MemoryContextSwitchTo(token->context);
	dv_bearer  *bearer = new_bearer(value);

	MemoryContextSwitchTo(old);
	retire_bearer(token);
	token->bearer = bearer;
	token->granted = true;
	token->expires_at = now + lifetime * DV_SECOND;
	token->refresh_at = token->expires_at - Min(REFRESH_BEFORE, lifetime * DV_SECOND / 10);
	token->usable_until = token->expires_at - Min(UNUSABLE_BEFORE, lifetime * DV_SECOND / 10);
}

static const char endpoint_hint[] =
"Check options \"authority\", \"tenant_id\", and \"token_url\" of the server.";

/* Records the first line of the authority's error message, and a hint. */
static void
refused(dv_token *token, int status, struct json_object *root)
{
	const char *text = root != NULL ? dv_json_string(root, "error_description") : NULL;
	const char *hint = NULL;
	bool		busy = (status >= 500 && status != 501) || status == 429;
	bool		transient = busy || status == 408;
	int64		told = dv_retry_after(dv_http_header(token->call, "Retry-After"),
									  dv_http_header(token->call, "Date"), (int64) time(NULL));
	int			i;

	if (text == NULL && root != NULL)
		text = dv_json_string(root, "error");

	/* an authority that refuses credentials says so; and these have been accepted before */
	if (text == NULL && token->granted)
		transient = true;
	if (text == NULL)
	{
		text = psprintf(status == 200 ? "the token endpoint answered without a token" :
						"the token endpoint answered with HTTP status %d", status);
		if (busy)
			hint = "Repeat the statement later.";
		else if (token->credential.kind != DV_CREDENTIAL_MANAGED_IDENTITY)
			hint = endpoint_hint;
	}
	for (i = 0; i < (int) lengthof(authority_hints); i++)
		if (strncmp(text, authority_hints[i].code, strlen(authority_hints[i].code)) == 0 &&
			text[strlen(authority_hints[i].code)] == ':')
			hint = authority_hints[i].hint;
	/* the identity service is not up yet, or is being updated */
	if (token->credential.kind == DV_CREDENTIAL_MANAGED_IDENTITY &&
		(status == 404 || status == 410))
		transient = true;
	failed(token, transient, Max(told, 0), dv_text_shown(text, strcspn(text, "\r\n")), hint);
	token->error.throttled = status == 429 || (status == 503 && told >= 0);
}

static const char *
transport_hint(dv_http_failure failure)
{
	if (failure == DV_HTTP_TLS)
		return "Check option \"ca_file\" of the server and the clock of this machine.";
	return "Check options \"authority\", \"token_url\", and \"proxy\" of the server, and that this machine can reach the service.";
}

static void
read_answer(dv_token *token)
{
	const dv_http_result *result = dv_http_result_of(token->call);
	struct json_object *root;
	const char *value = NULL;

	if (result->outcome != DV_HTTP_ANSWERED)
	{
		failed(token, result->failure != DV_HTTP_TLS, 0,
			   dv_http_failure_text(result), transport_hint(result->failure));
		return;
	}
	root = dv_json_parse(result->body, result->body_len, NULL);
	if (root == NULL && result->status != 200)
		root = dv_json_parse(dv_text_mended(result->body, result->body_len), result->body_len, NULL);
	if (root != NULL && !json_object_is_type(root, json_type_object))
		root = NULL;
	if (root != NULL)
		value = dv_json_string(root, "access_token");
	if (result->status != 200 || value == NULL)
	{
		refused(token, result->status, root);
		return;
	}
	if (!dv_text_is_word(value))
	{
		failed(token, false, 0, "the token endpoint sent a token that cannot be put into a header",
			   endpoint_hint);
		return;
	}
	accept_token(token, value, lifetime_of(root));
}

/* Requests that were canceled, or that could not be sent yet, leave no trace. */
static bool
is_answer(const dv_http_result *result)
{
	return result->failure != DV_HTTP_CANCELED && result->failure != DV_HTTP_NO_DESCRIPTOR_YET;
}

/* Processes the answer, if there is one. */
static void
finish_request(dv_token *token)
{
	MemoryContext old;

	if (!dv_token_has_news(token))
		return;
	old = MemoryContextSwitchTo(token->request);
	if (is_answer(dv_http_result_of(token->call)))
		read_answer(token);
	dv_http_free(token->call);
	token->call = NULL;
	MemoryContextSwitchTo(old);
}

/*
 * Returns true if a request is due, none is in flight, and the last failure is long enough ago.
 */
static bool
wants_request(const dv_token *token, bool usable, int64 now)
{
	if (token->call != NULL || (usable && now < token->refresh_at))
		return false;
	return token->failed_at == 0 ||
		now - token->failed_at > (usable ? REFRESH_AGAIN : FAILURE_HOLDS);
}

bool
dv_token_usable(const dv_token *token)
{
	return token->credential.kind == DV_CREDENTIAL_TOKEN ||
		(token->bearer != NULL && dv_now() < token->usable_until);
}

bool
dv_token_has_news(const dv_token *token)
{
	return token->call != NULL && dv_http_result_of(token->call)->outcome != DV_HTTP_PENDING;
}

int64
dv_token_requested_at(const dv_token *token)
{
	return token->call != NULL && !dv_token_has_news(token) ?
		dv_http_result_of(token->call)->started_at : 0;
}

dv_token_state
dv_token_poll(dv_token *token, dv_bearer **bearer)
{
	int64		now = dv_now();
	bool		usable;
	bool		wanted;

	*bearer = token->bearer;
	if (token->credential.kind == DV_CREDENTIAL_TOKEN)
		return DV_TOKEN_READY;
	finish_request(token);
	usable = dv_token_usable(token);
	wanted = wants_request(token, usable, now);
	if (wanted && dv_http_room_for(token->client, true) == DV_HTTP_ROOM)
	{
		start_request(token);
		wanted = false;
	}
	*bearer = token->bearer;
	if (usable)
		return DV_TOKEN_READY;
	return token->call != NULL || wanted ? DV_TOKEN_PENDING : DV_TOKEN_FAILED;
}

const dv_token_error *
dv_token_last_error(const dv_token *token)
{
	return &token->error;
}

const char *
dv_bearer_carry(dv_bearer *bearer)
{
	bearer->carriers++;
	return bearer->value;
}

bool
dv_token_note_fate(dv_token *token, dv_bearer *bearer, dv_bearer_fate fate)
{
	bool		found_out = fate == DV_BEARER_REFUSED && bearer->current;

	bearer->carriers--;
	if (fate == DV_BEARER_ACCEPTED)
	{
		bearer->worked = true;
		token->strikes = 0;
	}
	if (fate == DV_BEARER_REFUSED)
		bearer->refused = true;
	/* a fixed token has no successor, but the service may accept it again */
	if (token->credential.kind == DV_CREDENTIAL_TOKEN)
		token->strikes = fate == DV_BEARER_REFUSED ? DV_TOKEN_STRIKES : token->strikes;
	else if (found_out)
		retire_bearer(token);
	else
		bury(token, bearer);
	return found_out;
}

bool
dv_token_hopeless(const dv_token *token)
{
	return token->strikes >= DV_TOKEN_STRIKES;
}

const char *
dv_token_hint(const dv_token *token)
{
	if (token->credential.kind == DV_CREDENTIAL_TOKEN)
		return numbered(token, "The service has refused option \"access_token%s\" of the user mapping.  Set a valid one, or use a client secret, which renews its tokens.");
	return NULL;
}

int
dv_token_lifetime(const dv_token *token)
{
	if (token->credential.kind == DV_CREDENTIAL_TOKEN || token->bearer == NULL)
		return -1;
	return (int) (Max(token->expires_at - dv_now(), 0) / DV_SECOND);
}

/*
 * Identity.
 */

/* Returns the claims of a JSON Web Token, unverified, or NULL if it is not one. */
static struct json_object *
claims_of(const char *value)
{
	const char *payload = strchr(value, '.');
	size_t		len = payload != NULL ? strcspn(payload + 1, ".") : 0;
	struct json_object *claims;
	char	   *text;
	int			bits = 0;
	uint32		buffer = 0;
	size_t		n = 0;
	size_t		i;

	if (len == 0 || payload[1 + len] != '.')
		return NULL;
	text = palloc(len);
	for (i = 1; i <= len; i++)
	{
		static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
		const char *digit = strchr(digits, payload[i]);

		if (digit == NULL)
			return NULL;
		buffer = buffer << 6 | (uint32) (digit - digits);
		bits += 6;
		if (bits >= 8)
			text[n++] = (char) (buffer >> (bits -= 8));
	}
	claims = dv_json_parse(text, n, NULL);
	return claims != NULL && json_object_is_type(claims, json_type_object) ? claims : NULL;
}

/*
 * The token of an application names it (appid or azp).  A token with scopes
 * belongs to a person who uses an application, and the service limits the
 * person.
 */
static const char *
identity_in_token(const char *value)
{
	struct json_object *claims = claims_of(value);
	const char *name = NULL;

	if (claims != NULL && dv_json_string(claims, "scp") == NULL)
	{
		name = dv_json_string(claims, "appid");
		if (name == NULL)
			name = dv_json_string(claims, "azp");
	}
	if (name != NULL)
		return pstrdup(name);
	if (claims != NULL && (name = dv_json_string(claims, "oid")) != NULL)
		return psprintf("person %s", name);
	return psprintf("token %s", value);
}

const char *
dv_credential_identity(const dv_credential *credential)
{
	if (credential->kind == DV_CREDENTIAL_TOKEN)
		return identity_in_token(credential->secret);
	if (credential->client_id != NULL)
		return credential->client_id;
	return psprintf("managed identity of %s",
					credential->token_url != NULL ? credential->token_url : IMDS_URL);
}

const char *
dv_credential_proof(const dv_credential *credential)
{
	const char *const parts[] = {credential->secret, credential->certificate, credential->key};
	StringInfoData proof;
	int			i;

	initStringInfo(&proof);
	appendStringInfo(&proof, "%d", credential->kind);
	/* with their lengths, so that no two lists look alike */
	for (i = 0; i < (int) lengthof(parts); i++)
		if (parts[i] != NULL)
			appendStringInfo(&proof, " %d:%d:%s", i, (int) strlen(parts[i]), parts[i]);
	return proof.data;
}

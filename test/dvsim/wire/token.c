/*
 * token.c
 *		The endpoints that issue access tokens: Microsoft Entra's, with the
 *		document by which clients find it, the instance metadata service's and
 *		App Service's.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <strings.h>
#include <time.h>

#include "wire/assertion.h"
#include "wire/request.h"
#include "wire/wire.h"

#define TOKEN_TAIL "/oauth2/v2.0/token"
#define OPENID_TAIL "/v2.0/.well-known/openid-configuration"
#define IMDS_PATH "/metadata/identity/oauth2/token"
#define APP_SERVICE_PATH "/msi/token"
#define JWT_BEARER "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

static const struct sim_pair standing[] = {
	{"Cache-Control", "no-store, no-cache"},
	{"Pragma", "no-cache"},
	{"Expires", "-1"},
	{"X-Content-Type-Options", "nosniff"},
};

/* the tenant of "/{tenant}" and this tail, or NULL */
static const char *
tenant_of(const struct sim_req *req, const char *tail)
{
	const char *slash;

	if (req->path[0] != '/')
		return NULL;
	slash = strchr(req->path + 1, '/');
	if (slash == NULL || slash == req->path + 1 || strcmp(slash, tail) != 0)
		return NULL;
	return sim_strndup(req->arena, req->path + 1, (size_t) (slash - req->path - 1));
}

static bool
managed_path(const struct sim_req *req)
{
	return strcmp(req->path, IMDS_PATH) == 0 || strcmp(req->path, APP_SERVICE_PATH) == 0;
}

bool
sim_token_path(const struct sim_exchange *exchange)
{
	return managed_path(&exchange->req) || tenant_of(&exchange->req, TOKEN_TAIL) != NULL ||
		tenant_of(&exchange->req, OPENID_TAIL) != NULL;
}

/* the form's fields, or those of the query for managed identities, into req->params */
static void
read_fields(struct sim_req *req)
{
	const char *type = sim_header(req, "Content-Type");

	if (req->params.n > 0)
		return;
	if (managed_path(req))
		sim_query_parse(req->arena, req->query, &req->params);
	else if (type != NULL && req->body_len > 0 &&
			 strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0)
		sim_query_parse(req->arena, req->body, &req->params);
}

struct sim_user *
sim_token_user(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_req *req = &exchange->req;
	const char *client;

	read_fields(req);
	client = sim_param(req, "client_id");
	if (client == NULL && managed_path(req))
		return sim_auth_users(wire->auth) > 0 ? sim_auth_user(wire->auth, 0) : NULL;
	if (client == NULL && sim_param(req, "client_assertion") != NULL)
		client = sim_assertion_subject(req->arena, sim_param(req, "client_assertion"));
	return client ? sim_auth_find(wire->auth, client) : NULL;
}

static bool
			refuse(struct sim_exchange *exchange, int status, int aadsts, const char *error,
				   const char *fmt,...) __attribute__((format(printf, 5, 6)));

static bool
refuse(struct sim_exchange *exchange, int status, int aadsts, const char *error,
	   const char *fmt,...)
{
	struct sim_req *req = &exchange->req;
	struct sim_buf *body = &exchange->res.body;
	char		trace[37];
	char		correlation[37];
	char		stamp[32];
	time_t		now = (time_t) sim_unix_now(req->sim);
	struct tm	tm;
	va_list		args;
	const char *text;

	va_start(args, fmt);
	text = sim_vfmt(req->arena, fmt, args);

	va_end(args);
	sim_guid_random(req->sim, trace);
	sim_guid_random(req->sim, correlation);
	gmtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%SZ", &tm);
	text = sim_fmt(req->arena, "AADSTS%d: %s Trace ID: %s Correlation ID: %s Timestamp: %s",
				   aadsts, text, trace, correlation, stamp);

	exchange->res.status = status;
	exchange->res.content_type = "application/json; charset=utf-8";
	sim_putf(body, "{\"error\":\"%s\",\"error_description\":", error);
	sim_put_json_bytes(body, text, strlen(text));
	sim_putf(body, ",\"error_codes\":[%d],\"timestamp\":\"%s\",\"trace_id\":\"%s\","
			 "\"correlation_id\":\"%s\",\"error_uri\":"
			 "\"https://login.microsoftonline.com/error?code=%d\"}",
			 aadsts, stamp, trace, correlation, aadsts);
	return false;
}

/* returns true if a URL is this organisation's, as called by the client or as configured */
static bool
is_origin(const struct sim_req *req, const char *url, size_t len)
{
	while (len > 0 && url[len - 1] == '/')
		len--;
	return (strlen(req->base_url) == len && strncasecmp(req->base_url, url, len) == 0) ||
		(strlen(req->sim->base_url) == len && strncasecmp(req->sim->base_url, url, len) == 0);
}

static bool
check_scope(struct sim_exchange *exchange, const char *tenant)
{
	struct sim_req *req = &exchange->req;
	const char *scope = sim_param(req, "scope");
	size_t		len;

	if (scope == NULL || scope[0] == '\0')
		return refuse(exchange, 400, 900144, "invalid_request",
					  "The request body must contain the following parameter: 'scope'.");
	len = strlen(scope);
	if (len < 9 || strcmp(scope + len - 9, "/.default") != 0)
		return refuse(exchange, 400, 1002012, "invalid_scope",
					  "The provided value for scope %s is not valid. Client credential flows must "
					  "have a scope value with /.default suffixed to the resource identifier "
					  "(application ID URI).", scope);
	if (!is_origin(req, scope, len - 9))
		return refuse(exchange, 400, 500011, "invalid_resource",
					  "The resource principal named %.*s was not found in the tenant named %s. "
					  "This can happen if the application has not been installed by the "
					  "administrator of the tenant or consented to by any user in the tenant. "
					  "You might have sent your authentication request to the wrong tenant.",
					  (int) (len - 9), scope, tenant);
	return true;
}

static bool
check_assertion(struct sim_exchange *exchange, const struct sim_user *user, const char *tenant)
{
	struct sim_req *req = &exchange->req;
	const char *assertion = sim_param(req, "client_assertion");
	const char *type = sim_param(req, "client_assertion_type");
	const char *audiences[5] = {
		sim_fmt(req->arena, "%s/%s" TOKEN_TAIL, req->base_url, tenant),
		sim_fmt(req->arena, "%s/%s" TOKEN_TAIL, req->sim->base_url, tenant),
		sim_fmt(req->arena, "https://login.microsoftonline.com/%s" TOKEN_TAIL, tenant),
		sim_fmt(req->arena, "https://login.microsoftonline.com/%s/v2.0", tenant),
		NULL
	};
	struct sim_assertion_error error;

	if (type == NULL)
		return refuse(exchange, 400, 900144, "invalid_request", "The request body must contain "
					  "the following parameter: 'client_assertion_type'.");
	if (strcmp(type, JWT_BEARER) != 0)
		return refuse(exchange, 400, 50027, "invalid_request",
					  "The client assertion type '%s' is not supported.", type);
	if (sim_user_credential(user) == NULL)
		return refuse(exchange, 401, 700027, "invalid_client",
					  "The certificate with identifier used to sign the client assertion is not "
					  "registered on application. [Reason - The key was not found.]");
	error = sim_assertion_check(req->arena, sim_user_credential(user), assertion, user->client_id,
								audiences, (int64_t) time(NULL));
	if (error.aadsts != 0)
		return refuse(exchange, 401, error.aadsts, "invalid_client", "%s", error.text);
	return true;
}

static bool
check_credential(struct sim_exchange *exchange, const struct sim_user *user, const char *tenant)
{
	const char *secret = sim_param(&exchange->req, "client_secret");

	if (sim_param(&exchange->req, "client_assertion") != NULL)
		return check_assertion(exchange, user, tenant);
	if (secret == NULL)
		return refuse(exchange, 401, 7000218, "invalid_client",
					  "The request body must contain the following parameter: "
					  "'client_assertion' or 'client_secret'.");
	if (user->secret == NULL || strcmp(user->secret, secret) != 0)
		return refuse(exchange, 401, 7000215, "invalid_client",
					  "Invalid client secret provided. Ensure the secret being sent in the "
					  "request is the client secret value, not the client secret ID, for a secret "
					  "added to app '%s'.", user->client_id);
	return true;
}

static bool
check_tenant(struct sim_exchange *exchange, const char *tenant)
{
	if (strcmp(tenant, "unknown") == 0)
		return refuse(exchange, 400, 90002, "invalid_request",
					  "Tenant '%s' not found. Check to make sure you have the correct tenant ID "
					  "and are signing into the correct cloud. Check with your subscription "
					  "administrator, this may happen if there are no active subscriptions for "
					  "the tenant.", tenant);
	return true;
}

static bool
check_request(struct sim_wire *wire, struct sim_exchange *exchange, const char *tenant,
			  struct sim_user **user)
{
	struct sim_req *req = &exchange->req;
	const char *grant = sim_param(req, "grant_type");
	const char *client = sim_param(req, "client_id");

	if (strcmp(req->method, "POST") != 0)
		return refuse(exchange, 400, 900561, "invalid_request", "The endpoint only accepts POST "
					  "requests. Received a %s request.", req->method);
	if (!check_tenant(exchange, tenant))
		return false;
	if (grant == NULL || grant[0] == '\0')
		return refuse(exchange, 400, 900144, "invalid_request",
					  "The request body must contain the following parameter: 'grant_type'.");
	if (strcmp(grant, "client_credentials") != 0)
		return refuse(exchange, 400, 70003, "unsupported_grant_type",
					  "The app requested an unsupported grant type '%s'.", grant);
	*user = sim_token_user(wire, exchange);
	if (*user == NULL && (client == NULL || client[0] == '\0'))
		return refuse(exchange, 400, 900144, "invalid_request",
					  "The request body must contain the following parameter: 'client_id'.");
	if (*user == NULL)
		return refuse(exchange, 400, 700016, "unauthorized_client",
					  "Application with identifier '%s' was not found in the directory '%s'. "
					  "This can happen if the application has not been installed by the "
					  "administrator of the tenant or consented to by any user in the tenant. "
					  "You may have sent your authentication request to the wrong tenant.",
					  client, tenant);
	return check_credential(exchange, *user, tenant) && check_scope(exchange, tenant);
}

static void
entra(struct sim_wire *wire, struct sim_exchange *exchange, const char *tenant)
{
	struct sim_user *user;
	int64_t		seconds;
	const char *token;

	if (!check_request(wire, exchange, tenant, &user))
		return;
	token = sim_auth_issue(wire->auth, user, &seconds);
	exchange->res.status = 200;
	exchange->res.content_type = "application/json; charset=utf-8";
	sim_putf(&exchange->res.body, "{\"token_type\":\"Bearer\",\"expires_in\":%lld,"
			 "\"ext_expires_in\":%lld,\"access_token\":\"%s\"}",
			 (long long) seconds, (long long) seconds, token);
}

static void
put_address(struct sim_exchange *exchange, const char *name, const char *tenant, const char *tail)
{
	const char *url = sim_fmt(exchange->req.arena, "%s/%s%s", exchange->req.base_url, tenant, tail);

	sim_putf(&exchange->res.body, "\"%s\":", name);
	sim_put_json_bytes(&exchange->res.body, url, strlen(url));
}

/* The document by which MSAL for Python finds the token endpoint, as far as it applies here. */
static void
openid_configuration(struct sim_exchange *exchange, const char *tenant)
{
	struct sim_buf *body = &exchange->res.body;

	if (!check_tenant(exchange, tenant))
		return;
	exchange->res.status = 200;
	exchange->res.content_type = "application/json; charset=utf-8";
	sim_putc(body, '{');
	put_address(exchange, "token_endpoint", tenant, TOKEN_TAIL);
	sim_puts(body, ",\"token_endpoint_auth_methods_supported\":[\"client_secret_post\",\"private_key_jwt\"],");
	put_address(exchange, "issuer", tenant, "/v2.0");
	sim_putc(body, ',');
	put_address(exchange, "authorization_endpoint", tenant, "/oauth2/v2.0/authorize");
	sim_putc(body, '}');
}

static void
managed_error(struct sim_exchange *exchange, const char *error, const char *text)
{
	exchange->res.status = 400;
	exchange->res.content_type = "application/json; charset=utf-8";
	sim_putf(&exchange->res.body, "{\"error\":\"%s\",\"error_description\":\"%s\"}", error, text);
}

static void
managed_answer(struct sim_wire *wire, struct sim_exchange *exchange, struct sim_user *user,
			   const char *resource, bool app_service)
{
	struct sim_buf *body = &exchange->res.body;
	int64_t		seconds;
	const char *token = sim_auth_issue(wire->auth, user, &seconds);
	long long	now = (long long) time(NULL);

	exchange->res.status = 200;
	exchange->res.content_type = "application/json; charset=utf-8";
	sim_putf(body, "{\"access_token\":\"%s\",\"client_id\":", token);
	sim_put_json_bytes(body, user->client_id, strlen(user->client_id));
	sim_putf(body, ",\"expires_on\":\"%lld\",", now + (long long) seconds);
	if (!app_service)
		sim_putf(body, "\"expires_in\":\"%lld\",\"ext_expires_in\":\"%lld\","
				 "\"not_before\":\"%lld\",", (long long) seconds, (long long) seconds, now);
	sim_puts(body, "\"resource\":");
	sim_put_json_bytes(body, resource, strlen(resource));
	sim_puts(body, ",\"token_type\":\"Bearer\"}");
}

static void
managed_identity(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_req *req = &exchange->req;
	bool		app_service = sim_header(req, "X-IDENTITY-HEADER") != NULL;
	const char *metadata = sim_header(req, "Metadata");
	const char *resource = sim_param(req, "resource");
	struct sim_user *user = sim_token_user(wire, exchange);

	if (strcmp(req->method, "GET") != 0)
	{
		managed_error(exchange, "method_not_allowed", "Only GET is supported");
		exchange->res.status = 405;
	}
	else if (!app_service && (metadata == NULL || strcasecmp(metadata, "true") != 0))
		managed_error(exchange, "invalid_request", "Required metadata header not specified");
	else if (sim_param(req, "api-version") == NULL)
		managed_error(exchange, "invalid_request", "Required query variable 'api-version' is "
					  "missing");
	else if (resource == NULL)
		managed_error(exchange, "invalid_request", "Required audience parameter not specified");
	else if (!is_origin(req, resource, strlen(resource)))
		managed_error(exchange, "invalid_resource", "AADSTS500011: The resource principal was not "
					  "found in the tenant.");
	else if (user == NULL)
		managed_error(exchange, "invalid_request", "Identity not found");
	else
		managed_answer(wire, exchange, user, resource, app_service);
}

void
sim_token(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_arena *arena = exchange->req.arena;
	const char *tenant = tenant_of(&exchange->req, TOKEN_TAIL);
	const char *configured = tenant_of(&exchange->req, OPENID_TAIL);

	for (size_t i = 0; i < sizeof(standing) / sizeof(standing[0]); i++)
		sim_pair_borrow(arena, &exchange->head, standing[i].name, standing[i].value);
	read_fields(&exchange->req);
	if (configured != NULL)
		openid_configuration(exchange, configured);
	else if (tenant != NULL)
		entra(wire, exchange, tenant);
	else
		managed_identity(wire, exchange);
}

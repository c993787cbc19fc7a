/*
 * service.c
 *		The way of a request through the service: its user, its web server,
 *		faults, limits, its answer, and the time of the answer.
 *
 * The changes of a request are committed when sim_dispatch returns; only the
 * answer waits for the modelled latency.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/canned.h"
#include "wire/flags.h"
#include "store/guid.h"
#include "wire/request.h"
#include "store/store.h"
#include "wire/wire.h"

#define MAX_SEGMENT 260
#define COOKIE_TAIL "; expires=Fri, 31-Dec-2100 00:00:00 GMT; path=/; secure; HttpOnly"

static void
make_affinity(struct sim_wire *wire)
{
	uint64_t	state = wire->sim->seed ^ UINT64_C(0x617272);

	wire->affinity = sim_xalloc(sizeof(wire->affinity[0]) * (size_t) wire->web_servers);
	for (int i = 0; i < wire->web_servers; i++)
	{
		for (int at = 0; at < 64; at += 16)
			snprintf(wire->affinity[i] + at, 17, "%016llx",
					 (unsigned long long) sim_random_next(&state));
	}
}

static void
make_cookies(struct sim_wire *wire)
{
	struct sim_buf client = {0};
	struct sim_buf organization = {0};
	char		guid[37];

	sim_guid_text_of_name("ReqClientId", guid);
	sim_putf(&client, "ReqClientId=%s%s", guid, COOKIE_TAIL);
	sim_putf(&organization, "orgId=%s%s", wire->sim->organization_id, COOKIE_TAIL);
	wire->cookie_client = client.s;
	wire->cookie_organization = organization.s;
}

static bool
add_users(struct sim_wire *wire, const struct sim_flags *flags)
{
	for (int i = 0; i < flags->app_users.n; i++)
	{
		if (!sim_auth_add(wire->auth, flags->app_users.items[i], true))
			return false;
	}
	if (flags->app_users.n == 0 && !sim_auth_add(wire->auth, "app1:secret1", true))
		return false;
	for (int i = 0; i < flags->registrations.n; i++)
	{
		if (!sim_auth_add(wire->auth, flags->registrations.items[i], false))
			return false;
	}
	return sim_auth_rows(wire->auth);
}

static size_t
budgets(const struct sim_wire *wire)
{
	return (size_t) sim_auth_users(wire->auth) * (size_t) wire->servers;
}

static bool
set_up(struct sim_wire *wire, const struct sim_flags *flags)
{
	const char *error;

	if (!sim_latency_parse(&wire->latency, flags->latency ? flags->latency : "none", &error))
	{
		fprintf(stderr, "dvsim: --latency: %s\n", error);
		return false;
	}
	for (int i = 0; i < SIM_KINDS; i++)
		if (wire->latency.of[i].jitter == 0)
			wire->latency.of[i].jitter = flags->jitter / 100;
	sim_capacity_init(&wire->capacity, flags->capacity, flags->overload / 100);
	wire->journal = sim_journal_open(flags->journal_bytes, flags->log);
	if (wire->journal == NULL || !add_users(wire, flags))
		return false;
	wire->limits = sim_xalloc(sizeof(struct sim_limits) * budgets(wire));
	for (size_t i = 0; i < budgets(wire); i++)
		sim_limits_init(&wire->limits[i]);
	make_affinity(wire);
	make_cookies(wire);
	return true;
}

struct sim_wire *
sim_wire_new(struct sim *sim, const struct sim_flags *flags)
{
	struct sim_wire *wire = sim_xalloc(sizeof(*wire));

	wire->sim = sim;
	wire->auth = sim_auth_new(sim, flags->token_lifetime_us);
	wire->limits_config.window_us = flags->window_us;
	wire->limits_config.max_requests = flags->limit_requests;
	wire->limits_config.max_execution_us = flags->limit_exec_us;
	wire->limits_config.max_concurrent = (int) flags->limit_concurrent;
	wire->web_servers = (int) flags->web_servers;
	wire->servers = strcmp(flags->limit_scope, "shared") == 0 ? 1 : wire->web_servers;
	wire->tls = flags->tls;
	sim->late_delta_token = strcmp(flags->delta_token, "last") == 0;
	snprintf(wire->dop, sizeof(wire->dop), "%d", (int) flags->dop);
	sim->faults = &wire->faults;
	if (flags->canned)
		sim->canned = sim_canned_new();
	if (!set_up(wire, flags))
	{
		sim_wire_free(wire);
		return NULL;
	}
	return wire;
}

bool
sim_wire_reset(struct sim_wire *wire)
{
	wire->generation++;
	sim_faults_clear(&wire->faults);
	sim_late_clear(wire);
	sim_journal_clear(wire->journal);
	wire->requests = wire->bytes_in = wire->bytes_out = 0;
	for (int i = 0; i < sim_auth_users(wire->auth); i++)
	{
		struct sim_user *user = sim_auth_user(wire->auth, i);

		memset(user->requests, 0, sizeof(user->requests));
		memset(user->rows, 0, sizeof(user->rows));
		memset(user->throttles, 0, sizeof(user->throttles));
		user->peak_in_flight = user->in_flight;
	}
	for (size_t i = 0; i < budgets(wire); i++)
		sim_limits_init(&wire->limits[i]);
	wire->sim->random_state = wire->sim->seed;
	return sim_store_reset(wire->sim) && sim_auth_rows(wire->auth);
}

enum user_state
{
	USER_MISSING,
	USER_DISABLED,
	USER_ENABLED
};

/* looks up a user in systemuser by a column of GUIDs; "id" gets its id */
static enum user_state
find_user(struct sim_wire *wire, const char *column, const unsigned char key[16], char id[37])
{
	struct sim_table *table = sim_table_by_name(wire->sim->schema, "systemuser");
	enum user_state state = USER_MISSING;
	sqlite3_stmt *stmt;
	char		sql[256];

	if (table == NULL || sim_column_by_name(table, column, strlen(column)) == NULL)
		return strcmp(column, "systemuserid") == 0 ? USER_ENABLED : USER_MISSING;
	snprintf(sql, sizeof(sql), "SELECT \"systemuserid\", %s FROM \"systemuser\" WHERE \"%s\" = ?",
			 sim_column_by_name(table, "isdisabled", 10) ? "\"isdisabled\"" : "0", column);
	stmt = sim_stmt_get(wire->sim->store, sql);
	if (stmt == NULL)
		return USER_MISSING;
	sqlite3_bind_blob(stmt, 1, key, 16, SQLITE_STATIC);
	if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == 16)
	{
		sim_guid_print(sqlite3_column_blob(stmt, 0), id);
		id[36] = '\0';
		state = sqlite3_column_int(stmt, 1) ? USER_DISABLED : USER_ENABLED;
	}
	sim_stmt_put(wire->sim->store, stmt);
	return state;
}

static bool
check_user(struct sim_exchange *exchange, enum user_state state, const char *id)
{
	if (state == USER_MISSING)
		return sim_fail(&exchange->req, &exchange->res, 403, "0x80072560",
						"The user is not a member of the organization.");
	if (state == USER_DISABLED)
		return sim_fail(&exchange->req, &exchange->res, 403, "0x80040225",
						"The specified user(Id = %s) is disabled. Consider enabling this user.",
						id);
	return true;
}

static bool
unauthorized(struct sim_exchange *exchange, enum sim_bearer bearer)
{
	struct sim_req *req = &exchange->req;

	sim_res_header(req, &exchange->res, "WWW-Authenticate",
				   sim_fmt(req->arena, "Bearer authorization_uri=%s/%s/oauth2/authorize, "
						   "resource_id=%s/", req->base_url, req->sim->organization_id,
						   req->base_url));
	if (bearer == SIM_BEARER_EXPIRED)
		return sim_fail(req, &exchange->res, 401, "0x80041d52", "The OAuth token has expired.");
	return sim_fail(req, &exchange->res, 401, "0x8005F101",
					"The requested resource requires authentication.");
}

/* MSCRMCallerID and CallerObjectId: another user acts, but the limits of the caller apply */
static bool
impersonate(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_req *req = &exchange->req;
	const char *object = sim_header(req, "CallerObjectId");
	const char *caller = object ? object : sim_header(req, "MSCRMCallerID");
	unsigned char key[16];
	enum user_state state;

	if (caller == NULL)
		return true;
	if (!sim_guid_parse(caller, strlen(caller), key))
		return sim_fail(req, &exchange->res, 400, "0x80040203",
						"The caller id '%s' is not a valid GUID.", caller);
	state = find_user(wire, object ? "azureactivedirectoryobjectid" : "systemuserid", key,
					  req->user_id);
	return check_user(exchange, state, req->user_id);
}

static bool
authenticate(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_req *req = &exchange->req;
	enum sim_bearer bearer;
	unsigned char key[16];

	bearer = sim_auth_check(wire->auth, sim_header(req, "Authorization"), &req->user);
	if (bearer != SIM_BEARER_OK)
		return unauthorized(exchange, bearer);
	if (req->user->number < 0)
		return check_user(exchange, USER_MISSING, "");
	memcpy(req->user_id, req->user->systemuser_id, sizeof(req->user_id));
	sim_guid_parse(req->user_id, 36, key);
	return check_user(exchange, find_user(wire, "systemuserid", key, req->user_id),
					  req->user_id) &&
		impersonate(wire, exchange);
}

/* the affinity cookie selects the web server; without it, any may answer */
static int
choose_server(struct sim_wire *wire, struct sim_exchange *exchange)
{
	const char *cookie = sim_header(&exchange->req, "Cookie");
	const char *pin = cookie ? strstr(cookie, "ARRAffinity=") : NULL;

	if (wire->web_servers == 1)
		return 0;
	for (int i = 0; pin != NULL && i < wire->web_servers; i++)
	{
		if (strncmp(pin + strlen("ARRAffinity="), wire->affinity[i], 64) == 0)
			return i;
	}
	return (int) (sim_random(wire->sim) % (uint64_t) wire->web_servers);
}

/* requests that the service admits while a user is blocked */
static bool
is_light(const struct sim_req *req)
{
	static const char *const light[] = {
		"WhoAmI", "EntityDefinitions", "RelationshipDefinitions", "GlobalOptionSetDefinitions",
		"$metadata", "RetrieveMetadataChanges", "RetrieveCurrentOrganization"
	};

	for (size_t i = 0; i < sizeof(light) / sizeof(light[0]); i++)
	{
		if (strncmp(req->path, light[i], strlen(light[i])) == 0)
			return true;
	}
	return false;
}

static const char *
limit_message(const struct sim_wire *wire, struct sim_arena *arena, enum sim_limit limit)
{
	const struct sim_limits_config *config = &wire->limits_config;
	long long	window = (long long) ((config->window_us + 999999) / 1000000);

	switch (limit)
	{
		case SIM_LIMIT_REQUESTS:
			return sim_fmt(arena, "Number of requests exceeded the limit of %lld over time "
						   "window of %lld seconds.", (long long) config->max_requests, window);
		case SIM_LIMIT_EXECUTION:
			return sim_fmt(arena, "Combined execution time of incoming requests exceeded limit "
						   "of %lld milliseconds over time window of %lld seconds. Decrease "
						   "number of concurrent requests or reduce the duration of requests "
						   "and try again later.", (long long) (config->max_execution_us / 1000),
						   window);
		default:
			return sim_fmt(arena, "Number of concurrent requests exceeded the limit of %d.",
						   config->max_concurrent);
	}
}

/* the body of a 429 has no annotations even if they are requested */
static void
refuse(struct sim_wire *wire, struct sim_exchange *exchange, const struct sim_verdict *verdict)
{
	struct sim_req *req = &exchange->req;
	struct sim_res *res = &exchange->res;
	double		seconds = (double) verdict->retry_after_us / 1e6 / wire->sim->time_scale;

	req->user->throttles[verdict->limit]++;
	res->status = 429;
	res->error_code = sim_limit_code(verdict->limit);
	res->error_message = limit_message(wire, req->arena, verdict->limit);
	sim_putf(&res->body, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}", res->error_code,
			 res->error_message);
	res->content_type = "application/json; odata.metadata=minimal";
	sim_res_header(req, res, "Retry-After",
				   sim_fmt(req->arena, "%lld", (long long) ceil(seconds - 1e-9)));
}

/* the delay of a fault is real time, all else virtual */
static double
delay_of(const struct sim_wire *wire, const struct sim_rule *rule)
{
	return (double) rule->delay_ms * 1000 * wire->sim->time_scale;
}

/* the connection is reset at once; in this case, a token is never issued */
static void
commit_late(struct sim_wire *wire, struct sim_exchange *exchange, const struct sim_rule *rule)
{
	exchange->ending = SIM_RESET;
	if (exchange->req.user != NULL && !sim_token_path(exchange))
		sim_late_add(wire, &exchange->req,
					 exchange->arrived_us + (int64_t) delay_of(wire, rule));
}

/* a fault that answers in place of the service; true if the rule is one */
static bool
fault_instead(struct sim_wire *wire, struct sim_exchange *exchange, const struct sim_rule *rule)
{
	switch (rule->action)
	{
		case SIM_FAULT_STATUS:
			sim_fault_answer(rule, &exchange->req, &exchange->res);
			return true;
		case SIM_FAULT_RESET_BEFORE_COMMIT:
			exchange->ending = SIM_RESET;
			return true;
		case SIM_FAULT_EXPIRE_TOKEN:
			if (exchange->req.user != NULL)
				sim_auth_void(wire->auth, exchange->req.user);
			unauthorized(exchange, SIM_BEARER_EXPIRED);
			return true;
		case SIM_FAULT_STALL:
			exchange->ending = SIM_NEVER;
			return true;
		case SIM_FAULT_COMMIT_LATE:
			commit_late(wire, exchange, rule);
			return true;
		default:
			return false;
	}
}

/*
 * flips bits of the body after the first "whole" bytes; the next byte becomes a
 * control character, which JSON cannot contain
 */
static void
garble(struct sim_buf *body, size_t whole)
{
	for (size_t i = whole; i < body->len; i += 1 + i % 7)
		body->s[i] ^= 0x15;
	if (whole < body->len)
		body->s[whole] = '\x01';
}

/* a fault that spoils the answer after the request has been carried out */
static void
fault_after(struct sim_exchange *exchange, const struct sim_rule *rule)
{
	struct sim_buf *body = &exchange->res.body;

	switch (rule->action)
	{
		case SIM_FAULT_RESET_AFTER_COMMIT:
			exchange->ending = SIM_RESET;
			break;
		case SIM_FAULT_TRUNCATE:
			exchange->truncate_at = rule->bytes >= 0 ? (size_t) rule->bytes : body->len / 2;
			exchange->plain = true;
			/* without a body to cut, the whole answer is lost */
			exchange->ending = body->len > 0 ? SIM_TRUNCATE : SIM_RESET;
			break;
		case SIM_FAULT_GARBLE:
			exchange->plain = true;
			garble(body, rule->bytes >= 0 ? (size_t) rule->bytes : 0);
			break;
		case SIM_FAULT_SHORTEN:
			exchange->plain = true;
			if (rule->bytes < 0)
				body->len /= 2;
			else if ((size_t) rule->bytes < body->len)
				body->len = (size_t) rule->bytes;
			break;
		default:
			break;
	}
}

static struct sim_rule *
pick_fault(struct sim_wire *wire, struct sim_exchange *exchange, const struct sim_user *user)
{
	struct sim_rule *rule;

	if (wire->faults.n == 0)
		return NULL;
	rule = sim_fault_pick(&wire->faults, &exchange->req, user ? user->client_id : NULL, 0);
	if (rule == NULL)
		return NULL;
	exchange->fault = sim_fault_name(rule->action);
	return rule;
}

/* determines when the answer leaves */
static void
schedule(struct sim_wire *wire, struct sim_exchange *exchange, const struct sim_rule *rule)
{
	double		delay_us = 0;

	if (rule != NULL && rule->action != SIM_FAULT_COMMIT_LATE)
		delay_us += delay_of(wire, rule);
	if (wire->capacity.capacity > 0 && exchange->budget != NULL && exchange->modelled_us > 0)
	{
		exchange->delay_us = (int64_t) delay_us;
		exchange->due_us = INT64_MAX;
		sim_capacity_enter(&wire->capacity, exchange, (double) exchange->modelled_us,
						   exchange->arrived_us);
		return;
	}
	delay_us += exchange->modelled_us;
	if (delay_us > 0)
		exchange->due_us = exchange->arrived_us + (int64_t) delay_us;
}

struct sim_exchange *
sim_serve_carried_out(struct sim_wire *wire)
{
	struct sim_exchange *exchange = sim_capacity_done(&wire->capacity, sim_now_us(wire->sim));

	if (exchange != NULL)
		exchange->due_us = wire->capacity.now + exchange->delay_us;
	return exchange;
}

static void
execute(struct sim_wire *wire, struct sim_exchange *exchange, struct sim_limits *budget)
{
	struct sim_req *req = &exchange->req;
	struct sim_res *res = &exchange->res;
	struct sim_user *user = req->user;

	exchange->budget = budget;
	exchange->generation = wire->generation;
	if (++user->in_flight > user->peak_in_flight)
		user->peak_in_flight = user->in_flight;
	if (!sim_canned_replay(exchange))
		sim_dispatch(req, res);
	user->requests[res->kind]++;
	user->rows[res->kind] += (uint64_t) res->rows;
	exchange->modelled_us = sim_latency_us(&wire->latency, res->kind, res->rows, res->input,
										   sim_random(wire->sim));
}

/* admission, then the work; the remaining budget goes into the verdict */
static void
serve_admitted(struct sim_wire *wire, struct sim_exchange *exchange, int server,
			   struct sim_rule *rule, struct sim_verdict *verdict)
{
	struct sim_limits *budget;

	budget = &wire->limits[exchange->req.user->number * wire->servers +
						   (wire->servers > 1 ? server : 0)];
	*verdict = sim_limits_enter(budget, &wire->limits_config, exchange->arrived_us,
								is_light(&exchange->req));
	if (verdict->limit == SIM_LIMIT_NONE)
	{
		execute(wire, exchange, budget);
		if (rule != NULL)
			fault_after(exchange, rule);
		return;
	}
	refuse(wire, exchange, verdict);
	/* the rule waits for a request that is carried out */
	if (rule != NULL)
	{
		rule->hits--;
		exchange->fault = NULL;
	}
}

static void
serve_api(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_rule *rule = NULL;
	struct sim_verdict verdict;
	int			server = 0;

	if (authenticate(wire, exchange))
	{
		server = choose_server(wire, exchange);
		rule = pick_fault(wire, exchange, exchange->req.user);
		if (rule == NULL || !fault_instead(wire, exchange, rule))
			serve_admitted(wire, exchange, server, rule, &verdict);
	}
	schedule(wire, exchange, exchange->fault ? rule : NULL);
	sim_answer_head(wire, exchange, server, exchange->budget ? &verdict : NULL);
	sim_answer_compress(exchange);
	sim_canned_keep(exchange);
}

static void
serve_token(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_user *user = sim_token_user(wire, exchange);
	const struct sim_rule *rule;

	exchange->req.user = user;
	rule = pick_fault(wire, exchange, user);
	if (rule == NULL || !fault_instead(wire, exchange, rule))
	{
		sim_token(wire, exchange);
		exchange->res.kind = SIM_TOKEN;
		if (user != NULL)
			user->requests[SIM_TOKEN]++;
		exchange->modelled_us = sim_latency_us(&wire->latency, SIM_TOKEN, 0, 0,
											   sim_random(wire->sim));
		if (rule != NULL)
			fault_after(exchange, rule);
	}
	schedule(wire, exchange, rule);
}

/* an answer of the layers in front of the Web API, which send HTML */
static void
html_answer(struct sim_exchange *exchange, int status, const char *title, const char *text)
{
	exchange->res.status = status;
	exchange->res.content_type = "text/html; charset=us-ascii";
	sim_putf(&exchange->res.body,
			 "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\""
			 "\"http://www.w3.org/TR/html4/strict.dtd\">\r\n<HTML><HEAD><TITLE>%s</TITLE></HEAD>"
			 "\r\n<BODY><h2>%s</h2>\r\n<hr><p>HTTP Error %d. %s</p>\r\n</BODY></HTML>\r\n",
			 title, title, status, text);
}

/* returns the path below the service root of any version 9; NULL if the path is elsewhere */
static const char *
below_root(const char *path)
{
	static const char root[] = "/api/data/v9.";

	if (strncmp(path, root, sizeof(root) - 1) != 0)
		return NULL;
	path += sizeof(root) - 1;
	if (strspn(path, "0123456789") == 0)
		return NULL;
	path += strspn(path, "0123456789.");
	if (*path == '/')
		return path + 1;
	return *path == '\0' ? path : NULL;
}

static bool
segments_short(const char *path)
{
	while (*path)
	{
		size_t		len = strcspn(path, "/");

		if (len > MAX_SEGMENT)
			return false;
		path += len + (path[len] == '/');
	}
	return true;
}

/* "path" and "query" of a target, which may be absolute */
static void
split_target(struct sim_req *req)
{
	const char *s = req->target;
	char	   *path;
	char	   *question;

	if (strncasecmp(s, "http://", 7) == 0 || strncasecmp(s, "https://", 8) == 0)
	{
		s = strchr(s, ':') + 3;
		s += strcspn(s, "/?");
	}
	path = sim_strdup(req->arena, s);
	question = strchr(path, '?');
	if (question != NULL)
		*question++ = '\0';
	req->path = path;
	req->query = question ? question : path + strlen(path);
}

static bool
host_valid(const char *host)
{
	return host[0] != '\0' && strlen(host) < 256 &&
		strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]") ==
		strlen(host);
}

static void
prepare(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_req *req = &exchange->req;
	const char *host = sim_header(req, "Host");

	exchange->arrived_us = sim_now_us(wire->sim);
	exchange->arrived_real_us = sim_real_us();
	req->sim = wire->sim;
	req->base_url = wire->sim->base_url;
	if (host != NULL && host_valid(host))
		req->base_url = sim_fmt(req->arena, "%s://%s", wire->tls ? "https" : "http", host);
	split_target(req);
}

static void
count_arrival(struct sim_wire *wire, struct sim_exchange *exchange)
{
	const struct sim_req *req = &exchange->req;

	wire->requests++;
	wire->bytes_in += strlen(req->method) + strlen(req->target) + req->body_len;
	for (int i = 0; i < req->headers.n; i++)
		wire->bytes_in += strlen(req->headers.items[i].name) +
			strlen(req->headers.items[i].value) + 4;
	exchange->entry = sim_journal_begin(wire->journal, req,
										wire->sim->epoch_us + exchange->arrived_us);
}

void
sim_serve(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_req *req = &exchange->req;
	const char *path;
	bool		control;

	prepare(wire, exchange);
	control = strncmp(req->path, "/_dvsim/", 8) == 0;
	if (!control)
		count_arrival(wire, exchange);
	/* libmicrohttpd itself omits the body of an answer to HEAD */
	if (strcmp(req->method, "HEAD") == 0)
		req->method = "GET";
	if (control)
	{
		sim_control(wire, exchange);
		return;
	}
	path = below_root(req->path);
	if (sim_token_path(exchange))
		serve_token(wire, exchange);
	else if (path == NULL)
		html_answer(exchange, 404, "Not Found", "The requested resource is not found.");
	else if (strlen(req->target) <= 32768 && !segments_short(req->path))
		html_answer(exchange, 400, "Bad Request - Invalid URL", "The request URL is invalid.");
	else if (exchange->too_large)
	{
		sim_fail(req, &exchange->res, 413, "0x8004418a", "The request entity is too large.");
		sim_answer_head(wire, exchange, 0, NULL);
	}
	else
	{
		req->path += path - req->path;
		serve_api(wire, exchange);
	}
}

static const char *
retry_after_of(const struct sim_res *res)
{
	for (int i = 0; i < res->headers.n; i++)
	{
		if (strcasecmp(res->headers.items[i].name, "Retry-After") == 0)
			return res->headers.items[i].value;
	}
	return NULL;
}

void
sim_serve_end(struct sim_wire *wire, struct sim_exchange *exchange, bool sent)
{
	struct sim_user *user = exchange->req.user;
	struct sim_outcome outcome = {0};

	if (exchange->budget != NULL)
	{
		int64_t		now = sim_now_us(wire->sim);
		int64_t		elapsed = now - exchange->arrived_us;

		user->in_flight--;
		/* like the budget, it is free once the client has hung up */
		sim_capacity_remove(&wire->capacity, exchange, now);
		if (exchange->generation == wire->generation)
			sim_limits_leave(exchange->budget, &wire->limits_config, now,
							 elapsed > exchange->modelled_us ? elapsed : exchange->modelled_us);
		exchange->budget = NULL;
	}
	if (exchange->entry != NULL)
	{
		outcome.user = user ? user->client_id : NULL;
		outcome.status = sent ? exchange->res.status : 0;
		outcome.duration_us = sim_real_us() - exchange->arrived_real_us;
		outcome.fault = exchange->fault;
		outcome.rows = exchange->res.rows;
		outcome.kind = exchange->res.kind;
		outcome.bytes = sent ? exchange->res.body.len : 0;
		outcome.retry_after = sent ? retry_after_of(&exchange->res) : NULL;
		wire->bytes_out += outcome.bytes;
		sim_journal_finish(wire->journal, exchange->entry, &outcome);
		exchange->entry = NULL;
	}
}

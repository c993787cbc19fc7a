/*
 * control.c
 *		The control plane, /_dvsim/…: outside the Web API, its limits, its
 *		faults and its journal, and without tokens.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "wire/auth.h"
#include "store/drift.h"
#include "wire/flags.h"
#include "wire/json.h"
#include "limits/limits.h"
#include "wire/quirks.h"
#include "wire/request.h"
#include "store/seed_lookups.h"
#include "store/store.h"
#include "wire/wire.h"

#define MAX_JUMP_US (INT64_C(86400) * 365 * 100 * 1000000)
#define MAX_SEED INT64_C(100000000)

static void
			fail(struct sim_exchange *exchange, int status, const char *fmt,...)
			__attribute__((format(printf, 3, 4)));

static void
fail(struct sim_exchange *exchange, int status, const char *fmt,...)
{
	struct sim_buf *body = &exchange->res.body;
	const char *text;
	va_list		args;

	va_start(args, fmt);
	text = sim_vfmt(exchange->req.arena, fmt, args);

	va_end(args);
	body->len = 0;
	exchange->res.status = status;
	sim_puts(body, "{\"error\":");
	sim_put_json_bytes(body, text, strlen(text));
	sim_putc(body, '}');
}

/* returns the body as JSON; NULL (and an answer) if it is not JSON */
static struct json_object *
read_body(struct sim_exchange *exchange)
{
	struct sim_req *req = &exchange->req;
	const char *error;
	struct json_object *object = sim_json_document(req->arena, req->body, req->body_len, &error);

	if (object == NULL)
		fail(exchange, 400, "the body is not JSON: %s", error);
	return object;
}

static void
do_reset(struct sim_wire *wire, struct sim_exchange *exchange)
{
	if (!sim_wire_reset(wire))
		fail(exchange, 500, "the rows could not be reset");
	else
		sim_puts(&exchange->res.body, "{}");
}

/* reads how the body wants lookups to be filled; false after fail() */
static bool
read_lookups(struct sim_wire *wire, struct sim_exchange *exchange, struct sim_table *table,
			 struct sim_seed_lookups *lookups)
{
	struct json_object *body;
	const char *error;
	int			i;

	if (exchange->req.body_len == 0)
		return true;
	body = read_body(exchange);
	if (body == NULL)
		return false;
	error = sim_seed_lookups_read(exchange->req.arena, table, body, lookups);
	json_object_put(body);
	for (i = 0; i < lookups->n && error == NULL; i++)
	{
		const struct sim_table *target = lookups->items[i].target;

		if (target != table && sim_seeded_rows(wire->sim, target) == 0)
			error = sim_fmt(exchange->req.arena, "seed table \"%s\" first", target->name);
	}
	if (error != NULL)
		fail(exchange, 400, "%s", error);
	return error == NULL;
}

static void
do_seed(struct sim_wire *wire, struct sim_exchange *exchange)
{
	const char *name = sim_param(&exchange->req, "table");
	const char *rows = sim_param(&exchange->req, "rows");
	struct sim_seed_lookups lookups = {0};
	struct sim_table *table;
	char	   *end;
	long long	n;

	if (name == NULL || rows == NULL)
	{
		fail(exchange, 400, "say which table and how many rows: ?table=account&rows=1000");
		return;
	}
	table = sim_table_by_name(wire->sim->schema, name);
	if (table == NULL)
	{
		fail(exchange, 404, "there is no table \"%s\"", name);
		return;
	}
	n = strtoll(rows, &end, 10);
	if (end == rows || *end != '\0' || n < 0 || n > MAX_SEED)
	{
		fail(exchange, 400, "rows must be a number from 0 to %lld", (long long) MAX_SEED);
		return;
	}
	if (!read_lookups(wire, exchange, table, &lookups))
		return;
	if (!sim_seed_rows(wire->sim, table, n, &lookups))
	{
		fail(exchange, 400, "table \"%s\" could not be filled", name);
		return;
	}
	sim_putf(&exchange->res.body, "{\"table\":\"%s\",\"rows\":%lld}", table->name,
			 (long long) sim_row_count(wire->sim->store, table));
}

static void
list_faults(struct sim_wire *wire, struct sim_exchange *exchange)
{
	sim_faults_print(&wire->faults, &exchange->res.body);
}

/* Adds the rules of the body to some, and returns true if that is done. */
static bool
take_faults(struct sim_wire *wire, struct sim_exchange *exchange, struct sim_faults *faults)
{
	struct json_object *rules = read_body(exchange);
	const char *error = "dvsim --canned has no faults";
	bool		taken;

	if (rules == NULL)
		return false;
	taken = wire->sim->canned == NULL &&
		sim_faults_add(faults, exchange->req.arena, rules, &error);
	if (!taken)
		fail(exchange, 400, "%s", error);
	json_object_put(rules);
	return taken;
}

static void
add_faults(struct sim_wire *wire, struct sim_exchange *exchange)
{
	if (take_faults(wire, exchange, &wire->faults))
		list_faults(wire, exchange);
}

/* Every request meets either the old rules or the new ones. */
static void
replace_faults(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_faults fresh = {.last_id = wire->faults.last_id};

	if (!take_faults(wire, exchange, &fresh))
		return;
	sim_faults_clear(&wire->faults);
	wire->faults = fresh;
	list_faults(wire, exchange);
}

static void
clear_faults(struct sim_wire *wire, struct sim_exchange *exchange)
{
	sim_faults_clear(&wire->faults);
	list_faults(wire, exchange);
}

static void
list_quirks(struct sim_wire *wire, struct sim_exchange *exchange)
{
	sim_quirks_print(wire->sim, &exchange->res.body);
}

/* ["no-in", …]: exactly these are on from now on */
static void
set_quirks(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct json_object *names = read_body(exchange);
	uint64_t	before = wire->sim->quirks;
	bool		known = json_object_is_type(names, json_type_array);

	if (names == NULL)
		return;
	sim_quirks_clear(wire->sim);
	for (size_t i = 0; known && i < json_object_array_length(names); i++)
		known = sim_quirk_set(wire->sim,
							  json_object_get_string(json_object_array_get_idx(names, i)));
	if (known)
		list_quirks(wire, exchange);
	else
	{
		wire->sim->quirks = before;
		fail(exchange, 400, "say which quirks: [\"no-in\"]; \"dvsim --help\" lists them");
	}
	json_object_put(names);
}

static struct sim_user *
find_user(struct sim_wire *wire, struct json_object *name)
{
	const char *id = json_object_get_string(name);
	struct sim_user *user = id != NULL ? sim_auth_find(wire->auth, id) : NULL;

	return user != NULL && user->number >= 0 ? user : NULL;
}

static void
list_limited(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_buf *out = &exchange->res.body;
	const char *separator = "";

	sim_putc(out, '[');
	for (int i = 0; i < sim_auth_users(wire->auth); i++)
	{
		const struct sim_user *user = sim_auth_user(wire->auth, i);

		if (!user->limited)
			continue;
		sim_puts(out, separator);
		sim_put_json_bytes(out, user->client_id, strlen(user->client_id));
		separator = ",";
	}
	sim_putc(out, ']');
}

/* ["app2", …]: exactly these application users read only rows that they own */
static void
set_limited(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct json_object *names = read_body(exchange);
	bool		known = json_object_is_type(names, json_type_array);
	size_t		n = known ? json_object_array_length(names) : 0;

	if (names == NULL)
		return;
	for (size_t i = 0; known && i < n; i++)
		known = find_user(wire, json_object_array_get_idx(names, i)) != NULL;
	for (int i = 0; known && i < sim_auth_users(wire->auth); i++)
		sim_auth_user(wire->auth, i)->limited = false;
	for (size_t i = 0; known && i < n; i++)
		find_user(wire, json_object_array_get_idx(names, i))->limited = true;
	if (known)
		list_limited(wire, exchange);
	else
		fail(exchange, 400, "say which application users: [\"app2\"]");
	json_object_put(names);
}

/* the definitions, of one table or of all */
static void
show_schema(struct sim_wire *wire, struct sim_exchange *exchange)
{
	const char *table = sim_param(&exchange->req, "table");

	if (!sim_drift_print(wire->sim, table, &exchange->res.body))
		fail(exchange, 404, "there is no table \"%s\"", table);
}

static void
change_schema(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct json_object *changes = read_body(exchange);
	const char *error;

	if (changes == NULL)
		return;
	if (sim_drift_apply(wire->sim, exchange->req.arena, changes, &error))
		sim_putf(&exchange->res.body, "{\"changes\":%d}", wire->sim->schema->changes);
	else
		fail(exchange, 400, "%s", error);
	json_object_put(changes);
}

static void
list_requests(struct sim_wire *wire, struct sim_exchange *exchange)
{
	const char *since = sim_param(&exchange->req, "since");
	char	   *end = NULL;
	long long	number = since ? strtoll(since, &end, 10) : 0;

	if (since != NULL && (end == since || *end != '\0'))
		fail(exchange, 400, "since must be a number");
	else
		sim_journal_print(wire->journal, number, &exchange->res.body);
}

static void
put_kinds(struct sim_buf *out, const char *name, const uint64_t *counts)
{
	bool		first = true;

	sim_putf(out, "\"%s\":{", name);
	for (int kind = 0; kind < SIM_KINDS; kind++)
	{
		if (counts[kind] == 0)
			continue;
		sim_putf(out, "%s\"%s\":%llu", first ? "" : ",", sim_kind_name(kind),
				 (unsigned long long) counts[kind]);
		first = false;
	}
	sim_puts(out, "},");
}

static void
put_user(struct sim_buf *out, const struct sim_user *user)
{
	bool		first = true;

	sim_put_json_bytes(out, user->client_id, strlen(user->client_id));
	sim_puts(out, ":{");
	put_kinds(out, "requests", user->requests);
	put_kinds(out, "rows", user->rows);
	sim_putf(out, "\"in_flight\":%d,\"peak_in_flight\":%d,\"throttles\":{", user->in_flight,
			 user->peak_in_flight);
	for (int limit = 0; limit < 3; limit++)
	{
		if (user->throttles[limit] == 0)
			continue;
		sim_putf(out, "%s\"%s\":%llu", first ? "" : ",", sim_limit_code(limit),
				 (unsigned long long) user->throttles[limit]);
		first = false;
	}
	sim_puts(out, "}}");
}

static void
show_stats(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_buf *out = &exchange->res.body;
	struct sim_schema *schema = wire->sim->schema;
	bool		first = true;

	sim_puts(out, "{\"tables\":{");
	for (int i = 0; i < schema->ntables; i++)
	{
		struct sim_table *table = &schema->tables[i];
		int64_t		rows = sim_row_count(wire->sim->store, table);

		if (table->system && rows == 0)
			continue;
		sim_putf(out, "%s\"%s\":%lld", first ? "" : ",", table->name, (long long) rows);
		first = false;
	}
	sim_puts(out, "},\"users\":{");
	for (int i = 0; i < sim_auth_users(wire->auth); i++)
	{
		if (i > 0)
			sim_putc(out, ',');
		put_user(out, sim_auth_user(wire->auth, i));
	}
	sim_putf(out, "},\"bytes\":{\"in\":%llu,\"out\":%llu},\"requests\":%llu}",
			 (unsigned long long) wire->bytes_in, (unsigned long long) wire->bytes_out,
			 (unsigned long long) wire->requests);
}

static void
show_clock(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_buf *out = &exchange->res.body;
	int64_t		elapsed = sim_now_us(wire->sim);
	int64_t		now = wire->sim->epoch_us + elapsed;

	sim_puts(out, "{\"now\":\"");
	sim_put_time_us(out, now);
	sim_putf(out, "\",\"unix\":%.6f,\"elapsed\":%.6f,\"skew\":%.6f,\"time_scale\":%g}",
			 (double) now / 1e6, (double) elapsed / 1e6,
			 (double) wire->sim->clock_skew_us / 1e6, wire->sim->time_scale);
}

/* ?advance=5min, or a body {"advance": 300} or {"advance": "5min"} */
static void
jump_clock(struct sim_wire *wire, struct sim_exchange *exchange)
{
	const char *text = sim_param(&exchange->req, "advance");
	struct json_object *body = NULL;
	struct json_object *member;
	int64_t		jump;

	if (text == NULL)
	{
		body = read_body(exchange);
		if (body == NULL)
			return;
		if (json_object_object_get_ex(body, "advance", &member))
			text = json_object_get_string(member);
	}
	if (text == NULL || !sim_duration_parse(text, &jump) ||
		jump > MAX_JUMP_US - wire->sim->clock_skew_us)
		fail(exchange, 400, "say how far to jump ahead: {\"advance\": \"5min\"}");
	else
	{
		wire->sim->clock_skew_us += jump;
		show_clock(wire, exchange);
	}
	json_object_put(body);
}

static const struct
{
	const char *path;
	const char *method;
	void		(*handler) (struct sim_wire *wire, struct sim_exchange *exchange);
}			controls[] = {
	{"reset", "POST", do_reset},
	{"seed", "POST", do_seed},
	{"faults", "POST", add_faults},
	{"faults", "PUT", replace_faults},
	{"faults", "GET", list_faults},
	{"faults", "DELETE", clear_faults},
	{"quirks", "POST", set_quirks},
	{"quirks", "GET", list_quirks},
	{"limited", "POST", set_limited},
	{"limited", "GET", list_limited},
	{"schema", "GET", show_schema},
	{"schema", "POST", change_schema},
	{"requests", "GET", list_requests},
	{"stats", "GET", show_stats},
	{"clock", "GET", show_clock},
	{"clock", "POST", jump_clock},
};

void
sim_control(struct sim_wire *wire, struct sim_exchange *exchange)
{
	struct sim_req *req = &exchange->req;
	const char *path = req->path + strlen("/_dvsim/");
	bool		known = false;

	exchange->res.status = 200;
	exchange->res.content_type = "application/json; charset=utf-8";
	if (exchange->too_large)
	{
		fail(exchange, 413, "the body is too large");
		return;
	}
	if (!sim_query_parse(req->arena, req->query, &req->params))
	{
		fail(exchange, 400, "the query is malformed");
		return;
	}
	for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++)
	{
		if (strcmp(controls[i].path, path) != 0)
			continue;
		known = true;
		if (strcmp(controls[i].method, req->method) == 0)
		{
			controls[i].handler(wire, exchange);
			return;
		}
	}
	if (known)
		fail(exchange, 405, "/_dvsim/%s does not take %s", path, req->method);
	else
		fail(exchange, 404, "there is no /_dvsim/%s", path);
}

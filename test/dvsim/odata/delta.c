/*
 * delta.c
 *		Change tracking: full reads that end in a delta link, and later changes.
 *
 * The token of a link consists of the version counter when the full read began and the time of
 * that moment.  The documentation does not say which moment of the read it is; --delta-token last
 * makes it that of the last page.  A delta read returns rows with a higher version, oldest change
 * first, then the tombstones.  It stops at the counter's value when its first page was read,
 * which becomes the next token, so concurrent changes are neither lost nor returned twice.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/guid.h"
#include "odata/odata_read.h"
#include "wire/quirks.h"
#include "store/readers.h"

#define SECONDS_OF_DAY 86400
/* if the organization does not specify it */
#define DAYS_OF_TOKEN 7

struct delta
{
	struct sim_req *req;
	struct sim_res *res;
	const struct sim_source *source;
	struct sim_query query;
	struct sim_tracking since;	/* the token's */
	struct sim_tracking until;	/* becomes the next token */
	struct sim_cookie cookie;	/* of the request */
	bool		deletes;		/* only tombstones are left to return */
	int64_t		after;			/* the last version returned, */
	unsigned char after_id[16]; /* and its row */
	long		room;			/* rows that this page can still take */
	bool		more;
	bool		any;			/* a comma is needed */
};

bool
sim_delta_wanted(const struct sim_req *req)
{
	return sim_param(req, "$deltatoken") != NULL || sim_prefer(req, "odata.track-changes") != NULL;
}

static bool
check_request(struct sim_req *req, struct sim_res *res, struct sim_table *table)
{
	static const char *const names[] = {"$filter", "$orderby", "$expand", "$top", "$apply"};
	size_t		i;

	if (!table->change_tracking)
		return sim_fail(req, res, 400, "0x80072491",
						"Change tracking is not enabled for entity '%s'.", table->name);
	/* tables of the organization are read as a whole or not at all */
	if (!sim_reads_all(req, table) ||
		(sim_quirk(req->sim, SIM_QUIRK_LIMITED_READ) && table->ownership == SIM_USER_OWNED))
		return sim_fail(req, res, 403, "0x80040220",
						"Principal user (Id=%s, type=8) is missing prvRead%s privilege "
						"(Required Depth: Global) for entity '%s'.", req->user_id,
						table->schema_name, table->name);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		if (sim_param(req, names[i]) != NULL)
			return sim_fail(req, res, 400, SIM_BAD_QUERY, "The \"%s\" query parameter isn't "
							"supported when Change Tracking is enabled.", names[i]);
	}
	return true;
}

/* ----------
 * Tokens
 * ----------
 */

/* How many seconds a token is valid. */
static int64_t
token_life(const struct delta *delta)
{
	struct sim_store *store = delta->req->sim->store;
	sqlite3_stmt *stmt = sim_stmt_get(store, "SELECT \"expirechangetrackingindays\" FROM "
									  "\"organization\" LIMIT 1");
	int64_t		days = DAYS_OF_TOKEN;

	if (stmt == NULL)
		return days * SECONDS_OF_DAY;
	if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_type(stmt, 0) == SQLITE_INTEGER)
		days = sqlite3_column_int64(stmt, 0);
	sim_stmt_put(store, stmt);
	return days * SECONDS_OF_DAY;
}

/* 919042!08/22/2017 08:10:44 */
static bool
read_token(struct delta *delta, const char *token)
{
	long long	version;
	struct tm	tm = {0};
	char		end;

	if (sscanf(token, "%lld!%d/%d/%d %d:%d:%d%c", &version, &tm.tm_mon, &tm.tm_mday, &tm.tm_year,
			   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &end) != 7 || version < 0 ||
		tm.tm_year < 1970 || tm.tm_year > 9999)
		return sim_fail(delta->req, delta->res, 400, SIM_BAD_QUERY,
						"The delta token '%s' is not valid.", token);
	tm.tm_mon--;
	tm.tm_year -= 1900;
	delta->since.version = version;
	delta->since.time = timegm(&tm);
	if (sim_unix_now(delta->req->sim) - delta->since.time > token_life(delta) ||
		version < delta->source->table->tracked_since ||
		version > delta->req->sim->store->version)
		return sim_fail(delta->req, delta->res, 400, "0x80044352",
						"Version stamp associated with the client has expired. Please perform a "
						"full sync.");
	return true;
}

void
sim_put_delta_link(struct sim_buf *buf, struct sim_req *req, const char *path,
				   const struct sim_tracking *tracking)
{
	struct sim_buf url = {0};
	time_t		seconds = (time_t) tracking->time;
	struct tm	tm;

	gmtime_r(&seconds, &tm);
	sim_link_start(&url, req, path);
	sim_putf(&url, "$deltatoken=%lld%%21%02d%%2f%02d%%2f%04d%%20%02d%%3a%02d%%3a%02d",
			 (long long) tracking->version, tm.tm_mon + 1, tm.tm_mday, tm.tm_year + 1900,
			 tm.tm_hour, tm.tm_min, tm.tm_sec);
	sim_puts(buf, ",\"@odata.deltaLink\":");
	sim_put_json(buf, url.s, url.len);
	sim_buf_free(&url);
}

static int64_t
mark_number(const struct sim_cookie *cookie, const char *name, int64_t otherwise)
{
	const struct sim_mark *mark = sim_cookie_mark(cookie, name);

	return mark != NULL && mark->last != NULL ? strtoll(mark->last, NULL, 10) : otherwise;
}

/* returns the place in the $skiptoken of a delta read */
static bool
read_cookie(struct delta *delta)
{
	const struct sim_mark *id;

	if (!sim_cookie_parse(delta->req, delta->res, sim_param(delta->req, "$skiptoken"),
						  &delta->cookie))
		return false;
	delta->until.version = delta->req->sim->store->version;
	delta->until.time = sim_unix_now(delta->req->sim);
	delta->after = delta->since.version;
	memset(delta->after_id, 0xff, 16);
	if (delta->cookie.n == 0)
		return true;
	id = sim_cookie_mark(&delta->cookie, "id");
	if (id == NULL || id->last == NULL ||
		!sim_guid_parse(id->last, strlen(id->last), delta->after_id))
		return sim_cookie_bad(delta->req, delta->res);
	delta->after = mark_number(&delta->cookie, "version", delta->after);
	delta->until.version = mark_number(&delta->cookie, "trackingversion", delta->until.version);
	delta->until.time = mark_number(&delta->cookie, "trackingtime", delta->until.time);
	delta->deletes = sim_cookie_mark(&delta->cookie, "deleted") != NULL;
	return true;
}

static void
put_next_link(struct delta *delta)
{
	struct sim_arena *arena = delta->req->arena;
	struct sim_mark marks[5] = {
		{.name = "id"}, {.name = "version"}, {.name = "trackingversion"},
		{.name = "trackingtime"}, {.name = "deleted", .last = "1"}
	};
	struct sim_cookie cookie = {delta->cookie.page + 1, true, marks, delta->deletes ? 5 : 4};
	const char *token = sim_param(delta->req, "$deltatoken");
	struct sim_buf url = {0};
	char		id[36];

	sim_guid_print(delta->after_id, id);
	marks[0].last = sim_fmt(arena, "{%.36s}", id);
	marks[1].last = sim_fmt(arena, "%lld", (long long) delta->after);
	marks[2].last = sim_fmt(arena, "%lld", (long long) delta->until.version);
	marks[3].last = sim_fmt(arena, "%lld", (long long) delta->until.time);
	sim_link_start(&url, delta->req, delta->source->path);
	sim_puts(&url, "$deltatoken=");
	sim_put_url(&url, token, strlen(token));
	sim_putc(&url, '&');
	sim_link_cookie(&url, &cookie);
	sim_puts(&delta->res->body, ",\"@odata.nextLink\":");
	sim_put_json(&delta->res->body, url.s, url.len);
	sim_buf_free(&url);
}

/* ----------
 * Changed rows, then tombstones
 * ----------
 */

static void
note_row(struct delta *delta, sqlite3_stmt *stmt, int id_index, int version_index)
{
	memcpy(delta->after_id, sqlite3_column_blob(stmt, id_index), 16);
	delta->after = sqlite3_column_int64(stmt, version_index);
	delta->res->rows++;
	delta->room--;
}

static bool
put_changed(struct delta *delta)
{
	struct sim_table *table = delta->source->table;
	struct sim_rows rows = {0};
	struct sim_shape shape = {0};
	struct sim_buf text = {0};
	struct sim_buf alive = {0};
	struct sim_sql sql;
	struct sim_from from;
	sqlite3_stmt *stmt;
	int			next = 0;
	int			rc;

	sim_sql_init(&sql, delta->req, delta->res);
	sim_from_init(&sql, &from, table);
	sim_puts(&text, "SELECT ");
	sim_shape_sql(&sql, &from, from.alias, &delta->query, sim_out_flags(delta->req), &shape,
				  &text, &next);
	sim_puts(&text, " FROM ");
	sim_from_sql(&from, &text);
	sim_putf(&text, " WHERE (%s.\"versionnumber\",%s.\"%s\")>(?%d,?%d) AND "
			 "%s.\"versionnumber\"<=?%d", from.alias, from.alias, table->id->name,
			 sim_sql_bind_int(&sql, delta->after), sim_sql_bind_blob(&sql, delta->after_id),
			 from.alias, sim_sql_bind_int(&sql, delta->until.version));
	if (sim_alive_sql(&sql, table, from.alias, &alive))
		sim_putf(&text, " AND %s", alive.s);
	sim_putf(&text, " ORDER BY %s.\"versionnumber\",%s.\"%s\" LIMIT ?%d", from.alias, from.alias,
			 table->id->name, sim_sql_bind_int(&sql, delta->room + 1));
	sim_buf_free(&alive);
	stmt = sim_sql_run(&sql, text.s);
	sim_buf_free(&text);
	if (stmt == NULL)
		return false;
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW && delta->room > 0)
	{
		if (delta->any)
			sim_putc(&rows.text, ',');
		delta->any = true;
		sim_shape_print(&rows, &shape, stmt, delta->req->base_url);
		note_row(delta, stmt, shape.id_index, shape.out.version_index);
	}
	delta->more = rc == SQLITE_ROW;
	if (rows.text.len > 0)
		sim_put(&delta->res->body, rows.text.s, rows.text.len);
	sim_rows_free(&rows);
	return sim_sql_done(&sql, stmt, rc);
}

/* rows recreated under the same id are no longer tombstones */
#define DELETED \
	" FROM \"~deleted\" AS d WHERE d.table_name=?1 AND (d.versionnumber,d.id)>(?2,?3) AND " \
	"d.versionnumber<=?4 AND NOT EXISTS (SELECT 1 FROM \"%s\" AS t WHERE t.\"%s\"=d.id)"

static bool
put_deleted(struct delta *delta)
{
	struct sim_table *table = delta->source->table;
	struct sim_buf *body = &delta->res->body;
	struct sim_sql sql;
	sqlite3_stmt *stmt;
	int			rc;

	sim_sql_init(&sql, delta->req, delta->res);
	sim_sql_bind_text(&sql, table->name, strlen(table->name));
	sim_sql_bind_int(&sql, delta->after);
	sim_sql_bind_blob(&sql, delta->after_id);
	sim_sql_bind_int(&sql, delta->until.version);
	sim_sql_bind_int(&sql, delta->room + 1);
	stmt = sim_sql_run(&sql, sim_fmt(delta->req->arena, "SELECT d.id,d.versionnumber" DELETED
									 " ORDER BY 2,1 LIMIT ?5", table->name, table->id->name));
	if (stmt == NULL)
		return false;
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW && delta->room > 0)
	{
		char		id[36];

		sim_guid_print(sqlite3_column_blob(stmt, 0), id);
		sim_putf(body, "%s{\"@odata.context\":\"%s%s$metadata#%s/$deletedEntity\",\"id\":"
				 "\"%.36s\",\"reason\":\"deleted\"}", delta->any ? "," : "", delta->req->base_url,
				 SIM_ROOT, table->set_name, id);
		delta->any = true;
		note_row(delta, stmt, 0, 1);
	}
	delta->more = rc == SQLITE_ROW;
	return sim_sql_done(&sql, stmt, rc);
}

static bool
put_changes(struct delta *delta)
{
	if (!delta->deletes)
	{
		if (!put_changed(delta))
			return false;
		if (delta->more)
			return true;
		/* tombstones start again at the token */
		delta->deletes = true;
		delta->after = delta->since.version;
		memset(delta->after_id, 0xff, 16);
	}
	return put_deleted(delta);
}

static bool
read_changes(struct delta *delta)
{
	if (!read_token(delta, sim_param(delta->req, "$deltatoken")) ||
		!sim_options_parse(delta->req, delta->res, delta->source->table, false, &delta->query) ||
		!read_cookie(delta))
		return false;
	delta->room = sim_page_size(delta->req, delta->source->table);
	sim_put_context(delta->req, &delta->res->body, &delta->query, "/$delta");
	sim_puts(&delta->res->body, ",\"value\":[");
	if (!put_changes(delta))
		return false;
	sim_putc(&delta->res->body, ']');
	if (delta->more)
		put_next_link(delta);
	else
		sim_put_delta_link(&delta->res->body, delta->req, delta->source->path, &delta->until);
	sim_putc(&delta->res->body, '}');
	sim_json_answer(delta->res, 200);
	return true;
}

bool
sim_delta_read(struct sim_req *req, struct sim_res *res, const struct sim_source *source)
{
	struct delta delta = {.req = req, .res = res, .source = source};
	struct sim_tracking now;

	if (!check_request(req, res, source->table))
		return false;
	if (sim_param(req, "$deltatoken") != NULL)
		return read_changes(&delta);

	/*
	 * a full read: the links of later pages contain the time when the first one began, if that
	 * matters
	 */
	if (!sim_cookie_parse(req, res, sim_param(req, "$skiptoken"), &delta.cookie))
		return false;
	now.version = req->sim->store->version;
	now.time = sim_unix_now(req->sim);
	if (!req->sim->late_delta_token)
	{
		now.version = mark_number(&delta.cookie, "trackingversion", now.version);
		now.time = mark_number(&delta.cookie, "trackingtime", now.time);
	}
	return sim_read_page(req, res, source, &now);
}

bool
sim_delta_count(struct sim_req *req, struct sim_res *res, const struct sim_source *source)
{
	struct delta delta = {.req = req, .res = res, .source = source};
	struct sim_table *table = source->table;
	struct sim_buf alive = {0};
	const char *living = "";
	struct sim_sql sql;
	int64_t		n;

	if (!check_request(req, res, table) || !read_token(&delta, sim_param(req, "$deltatoken")))
		return false;
	memset(delta.after_id, 0xff, 16);
	sim_sql_init(&sql, req, res);
	sim_sql_bind_text(&sql, table->name, strlen(table->name));
	sim_sql_bind_int(&sql, delta.since.version);
	sim_sql_bind_blob(&sql, delta.after_id);
	sim_sql_bind_int(&sql, INT64_MAX);
	if (sim_alive_sql(&sql, table, "c", &alive))
		living = sim_fmt(req->arena, " AND %s", alive.s);
	sim_buf_free(&alive);
	if (!sim_sql_number(&sql, sim_fmt(req->arena, "SELECT (SELECT count(*) FROM \"%s\" AS c WHERE "
									  "c.\"versionnumber\">?2%s)+(SELECT count(*)" DELETED ")",
									  table->name, living, table->name, table->id->name), &n))
		return false;
	sim_number_answer(res, n);
	return true;
}

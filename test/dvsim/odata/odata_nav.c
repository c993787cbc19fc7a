/*
 * odata_nav.c
 *		Reading one row and the paths below it: properties, their raw
 *		values, the rows of lookups and collections.
 *
 * The path is walked segment by segment; a lookup moves on to the row to which
 * it points, so accounts(…)/primarycontactid/fullname needs no case of its own.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/guid.h"
#include "odata/odata_read.h"
#include "store/readers.h"
#include "write/row.h"
#include "write/row_write.h"

/* the position of the walk */
struct walk
{
	struct sim_req *req;
	struct sim_res *res;
	struct sim_table *table;
	struct sim_key key;
	unsigned char id[16];
	int64_t		version;
	const char *rest;			/* remaining segments, encoded */
};

static bool
no_segment(struct walk *walk, const char *segment)
{
	return sim_fail(walk->req, walk->res, 404, SIM_BAD_QUERY,
					"Resource not found for the segment '%s'.", segment);
}

static bool
no_content(struct sim_res *res)
{
	res->status = 204;
	res->content_type = NULL;
	return true;
}

/* the next segment, decoded; NULL at the end or if it cannot be decoded */
static const char *
next_segment(struct walk *walk)
{
	size_t		len = strcspn(walk->rest, "/");
	char	   *segment;

	if (*walk->rest == '\0')
		return NULL;
	segment = sim_strndup(walk->req->arena, walk->rest, len);
	walk->rest += len + (walk->rest[len] == '/');
	return sim_url_decode(segment, false) ? segment : NULL;
}

/* finds the row of the key: its id and version */
static bool
find_row(struct walk *walk)
{
	const char *partition = sim_partition_param(walk->req);
	enum sim_found found;

	if (walk->table->partition != NULL && walk->key.partition == NULL && partition != NULL)
	{
		walk->key.partition = partition;
		walk->key.partition_len = strlen(partition);
	}
	found = sim_row_find(walk->req, walk->res, &walk->key, walk->id, &walk->version);
	if (found == SIM_MISSING)
		return sim_row_missing(walk->req, walk->res, &walk->key);
	if (found == SIM_FOUND && !sim_may_read(walk->req, walk->table, walk->id))
	{
		char		id[37];

		sim_guid_print(walk->id, id);
		return sim_fail(walk->req, walk->res, 403, "0x80040220",
						"Principal user (Id=%s, type=8) does not have ReadAccess right(s) for record "
						"with id %.36s of entity %s", walk->req->user_id, id, walk->table->name);
	}
	return found == SIM_FOUND;
}

/* "SELECT … FROM the row"; the values of ?1 and ?2 are bound */
static sqlite3_stmt *
select_row(struct walk *walk, struct sim_sql *sql, const struct sim_from *from,
		   struct sim_buf *text)
{
	sqlite3_stmt *stmt;
	struct sim_table *table = walk->table;

	sim_puts(text, " FROM ");
	sim_from_sql(from, text);
	sim_putf(text, " WHERE %s.\"%s\"=?%d", from->alias, table->id->name,
			 sim_sql_bind_blob(sql, walk->id));
	if (table->partition != NULL)
		sim_putf(text, " AND %s.\"%s\"=?%d", from->alias, table->partition->name,
				 sim_sql_bind_text(sql, walk->key.partition ? walk->key.partition : "",
								   walk->key.partition ? walk->key.partition_len : 0));
	stmt = sim_sql_run(sql, text->s);
	sim_buf_free(text);
	return stmt;
}

/* ----------
 * The row itself
 * ----------
 */

/* returns true if the client has this version already */
static bool
not_modified(struct walk *walk)
{
	const char *header = sim_header(walk->req, "If-None-Match");
	char		etag[32];

	if (header == NULL || strcmp(header, "null") == 0)
		return false;
	if (strcmp(header, "*") == 0)
		return true;
	snprintf(etag, sizeof(etag), "\"%lld\"", (long long) walk->version);
	return strstr(header, etag) != NULL;
}

static bool
put_row(struct walk *walk, const struct sim_query *query, struct sim_rows *rows)
{
	struct sim_buf *body = &walk->res->body;
	struct sim_buf text = {0};
	bool		ok;

	ok = sim_rows_finish(walk->req, walk->res, query, rows,
						 sim_page_size(walk->req, walk->table), &text);
	if (ok)
	{
		sim_put_context(walk->req, body, query, "/$entity");
		/* the context comes first in the same object */
		sim_putc(body, ',');
		sim_put(body, text.s + 1, text.len - 1);
	}
	sim_buf_free(&text);
	return ok;
}

static bool
read_row(struct walk *walk)
{
	struct sim_query query;
	struct sim_shape shape = {0};
	struct sim_rows rows = {0};
	struct sim_buf text = {0};
	struct sim_sql sql;
	struct sim_from from;
	sqlite3_stmt *stmt;
	int			next = 0;
	int			rc;
	bool		ok;

	if (!sim_options_parse(walk->req, walk->res, walk->table, true, &query))
		return false;
	if (walk->table->version != NULL)
	{
		sim_res_header(walk->req, walk->res, "ETag",
					   sim_fmt(walk->req->arena, "W/\"%lld\"", (long long) walk->version));
		if (not_modified(walk))
		{
			walk->res->status = 304;
			return true;
		}
	}
	sim_sql_init(&sql, walk->req, walk->res);
	sim_from_init(&sql, &from, walk->table);
	sim_puts(&text, "SELECT ");
	sim_shape_sql(&sql, &from, from.alias, &query, sim_out_flags(walk->req), &shape, &text,
				  &next);
	stmt = select_row(walk, &sql, &from, &text);
	if (stmt == NULL)
		return false;
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		sim_shape_print(&rows, &shape, stmt, walk->req->base_url);
	ok = sim_sql_done(&sql, stmt, rc);
	if (ok && rc != SQLITE_ROW)
		ok = sim_row_missing(walk->req, walk->res, &walk->key);
	ok = ok && put_row(walk, &query, &rows);
	sim_rows_free(&rows);
	if (!ok)
		return false;
	walk->res->rows++;
	sim_json_answer(walk->res, 200);
	return true;
}

/* ----------
 * Properties
 * ----------
 */

/* returns a part of a file, as requested by the Range header */
static void
put_bytes(struct walk *walk, const char *bytes, size_t len)
{
	const char *range = sim_header(walk->req, "Range");
	unsigned long long first;
	unsigned long long last = len;
	int			n = range ? sscanf(range, "bytes=%llu-%llu", &first, &last) : 0;

	walk->res->status = 200;
	walk->res->content_type = "application/octet-stream";
	if (n < 1 || first >= len || first > last)
	{
		sim_put(&walk->res->body, bytes, len);
		return;
	}
	if (last >= len)
		last = len - 1;
	walk->res->status = 206;
	sim_res_header(walk->req, walk->res, "Content-Range",
				   sim_fmt(walk->req->arena, "bytes %llu-%llu/%zu", first, last, len));
	sim_put(&walk->res->body, bytes + first, (size_t) (last - first + 1));
}

static void
put_file_headers(struct walk *walk, const char *name, size_t len)
{
	bool		part = sim_header(walk->req, "Range") != NULL;

	sim_res_header(walk->req, walk->res, "x-ms-file-size", sim_fmt(walk->req->arena, "%zu", len));
	sim_res_header(walk->req, walk->res, "x-ms-file-name", sim_strdup(walk->req->arena, name ? name : ""));
	sim_res_header(walk->req, walk->res, "mimetype", "application/octet-stream");
	if (part)
		sim_res_header(walk->req, walk->res, "x-ms-chunk-size", "4194304");
	sim_res_header(walk->req, walk->res, "Access-Control-Expose-Headers", part ?
				   "x-ms-file-size; x-ms-file-name; x-ms-chunk-size; mimetype" :
				   "x-ms-file-size; x-ms-file-name; mimetype");
}

/* …/name/$value: text as it is, numbers as in JSON, the content of files and images */
static void
put_raw(struct walk *walk, struct sim_column *column, sqlite3_stmt *stmt)
{
	struct sim_buf *body = &walk->res->body;
	size_t		len = 0;
	const void *bytes;

	if (column->type == SIM_FILE)
	{
		bytes = sim_file_read(walk->req, sqlite3_column_blob(stmt, 0), &len);
		put_file_headers(walk, (const char *) sqlite3_column_text(stmt, 1), len);
		put_bytes(walk, bytes ? bytes : "", len);
		return;
	}
	if (column->type == SIM_IMAGE)
	{
		put_bytes(walk, sqlite3_column_blob(stmt, 0), (size_t) sqlite3_column_bytes(stmt, 0));
		return;
	}
	walk->res->status = 200;
	walk->res->content_type = "text/plain";
	sim_value_print(body, column, stmt, 0);
	/* strings lose the quotes, but not the escapes of their content: print those anew */
	if (body->len > 0 && body->s[0] == '"')
	{
		body->len = 0;
		if (sqlite3_column_type(stmt, 0) == SQLITE_TEXT && column->type != SIM_MULTISELECT)
			sim_put(body, (const char *) sqlite3_column_text(stmt, 0),
					(size_t) sqlite3_column_bytes(stmt, 0));
		else
			sim_value_print_literal(body, column, stmt, 0);
	}
}

static bool
read_property(struct walk *walk, struct sim_column *column, bool raw)
{
	struct sim_buf *body = &walk->res->body;
	struct sim_buf text = {0};
	struct sim_sql sql;
	struct sim_from from;
	sqlite3_stmt *stmt;
	bool		null = true;
	int			rc;

	sim_sql_init(&sql, walk->req, walk->res);
	sim_from_init(&sql, &from, walk->table);
	sim_puts(&text, "SELECT ");
	sim_out_value_sql(&text, from.alias, column);
	if (column->type == SIM_FILE)
		sim_putf(&text, ",%s.\"%s_name\"", from.alias, column->name);
	stmt = select_row(walk, &sql, &from, &text);
	if (stmt == NULL)
		return false;
	rc = sqlite3_step(stmt);
	null = rc != SQLITE_ROW || sqlite3_column_type(stmt, 0) == SQLITE_NULL;
	if (!null && raw)
		put_raw(walk, column, stmt);
	else if (!null)
	{
		char		id[36];

		sim_guid_print(walk->id, id);
		sim_putf(body, "{\"@odata.context\":\"%s%s$metadata#%s(%.36s)/%s\",\"value\":",
				 walk->req->base_url, SIM_ROOT, walk->table->set_name, id, column->property);
		sim_value_print(body, column, stmt, 0);
		sim_putc(body, '}');
		sim_json_answer(walk->res, 200);
	}
	if (!sim_sql_done(&sql, stmt, rc))
		return false;
	walk->res->rows++;
	return null ? no_content(walk->res) : true;
}

/* ----------
 * Navigation
 * ----------
 */

/* the row's own address below the service root */
static const char *
row_path(struct walk *walk)
{
	char		id[36];

	sim_guid_print(walk->id, id);
	return sim_fmt(walk->req->arena, "%s(%.36s)", walk->table->set_name, id);
}

/*
 * Moves on to the row to which a lookup points.  *there is false if it is
 * null, or points to a row of another table than the navigation property's.
 */
static bool
follow_lookup(struct walk *walk, struct sim_column *column, struct sim_target *target, bool *there)
{
	struct sim_buf text = {0};
	struct sim_sql sql;
	struct sim_from from;
	struct sim_key key = {.by_id = true};
	sqlite3_stmt *stmt;
	bool		elastic = target != NULL && target->table->type == SIM_ELASTIC;
	int			i;
	int			rc;

	sim_sql_init(&sql, walk->req, walk->res);
	sim_from_init(&sql, &from, walk->table);
	sim_putf(&text, "SELECT %s.\"%s\"", from.alias, column->name);
	sim_putf(&text, column->ntargets > 1 ? ",%s.\"%s.type\"" : ",NULL", from.alias, column->name);
	sim_putf(&text, elastic ? ",%s.\"%spid\"" : ",NULL", from.alias, column->name);
	stmt = select_row(walk, &sql, &from, &text);
	if (stmt == NULL)
		return false;
	rc = sqlite3_step(stmt);
	*there = false;
	if (rc == SQLITE_ROW && sqlite3_column_type(stmt, 0) == SQLITE_BLOB)
	{
		const char *type = (const char *) sqlite3_column_text(stmt, 1);

		for (i = 0; i < column->ntargets && !*there; i++)
		{
			struct sim_target *t = &column->targets[i];

			*there = (target == NULL || t == target) &&
				(type == NULL ? column->ntargets == 1 : strcmp(type, t->table->name) == 0);
			if (*there)
				key.table = t->table;
		}
		memcpy(key.id, sqlite3_column_blob(stmt, 0), 16);
		if (sqlite3_column_type(stmt, 2) == SQLITE_TEXT)
		{
			key.partition_len = (size_t) sqlite3_column_bytes(stmt, 2);
			key.partition = sim_strndup(walk->req->arena,
										(const char *) sqlite3_column_text(stmt, 2),
										key.partition_len);
		}
	}
	if (!sim_sql_done(&sql, stmt, rc))
		return false;
	if (*there)
	{
		walk->table = key.table;
		walk->key = key;
		memcpy(walk->id, key.id, 16);
	}
	return true;
}

static bool
read_lookup(struct walk *walk, struct sim_column *column, struct sim_target *target)
{
	const char *saved;
	const char *segment;
	bool		there;

	if (!follow_lookup(walk, column, target, &there))
		return false;
	if (!there)
		return no_content(walk->res);
	saved = walk->rest;
	segment = next_segment(walk);
	if (segment != NULL && strcmp(segment, "$ref") == 0 && *walk->rest == '\0')
	{
		sim_putf(&walk->res->body, "{\"@odata.context\":\"%s%s$metadata#$ref\",\"@odata.id\":"
				 "\"%s%s%s\"}", walk->req->base_url, SIM_ROOT, walk->req->base_url, SIM_ROOT,
				 row_path(walk));
		sim_json_answer(walk->res, 200);
		return true;
	}
	/* a cast to the type that it already has */
	if (segment == NULL ||
		strcmp(segment, sim_fmt(walk->req->arena, "Microsoft.Dynamics.CRM.%s",
								walk->table->name)) != 0)
		walk->rest = saved;
	return find_row(walk);
}

/* …/collection/$ref: the addresses only */
static bool
read_references(struct walk *walk, const struct sim_source *source)
{
	struct sim_buf *body = &walk->res->body;
	struct sim_buf text = {0};
	struct sim_sql sql;
	struct sim_from from;
	sqlite3_stmt *stmt;
	bool		any = false;
	bool		comma = false;
	int			rc;

	sim_sql_init(&sql, walk->req, walk->res);
	sim_from_init(&sql, &from, source->table);
	sim_putf(&text, "SELECT %s.\"%s\" FROM ", from.alias, source->table->id->name);
	sim_from_sql(&from, &text);
	sim_source_sql(&sql, &from, source, &any, &text);
	sim_putf(&text, " ORDER BY 1 LIMIT %d", SIM_PAGE);
	stmt = sim_sql_run(&sql, text.s);
	sim_buf_free(&text);
	if (stmt == NULL)
		return false;
	sim_putf(body, "{\"@odata.context\":\"%s%s$metadata#Collection($ref)\",\"value\":[",
			 walk->req->base_url, SIM_ROOT);
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
	{
		char		id[36];

		sim_guid_print(sqlite3_column_blob(stmt, 0), id);
		sim_putf(body, "%s{\"@odata.id\":\"%s%s%s(%.36s)\"}", comma ? "," : "",
				 walk->req->base_url, SIM_ROOT, source->table->set_name, id);
		comma = true;
		walk->res->rows++;
	}
	if (!sim_sql_done(&sql, stmt, rc))
		return false;
	sim_puts(body, "]}");
	sim_json_answer(walk->res, 200);
	return true;
}

static bool
read_collection(struct walk *walk, const struct sim_expand *via)
{
	struct sim_source source = {0};
	const char *segment;

	source.via = via;
	source.parent_table = walk->table;
	memcpy(source.parent, walk->id, 16);
	source.table = via->relationship ? via->relationship->referencing :
		via->far == via->many->column1 ? via->many->table1 : via->many->table2;
	source.path = sim_fmt(walk->req->arena, "%s/%s", row_path(walk), via->name);
	segment = next_segment(walk);
	if (segment == NULL)
		return sim_read_source(walk->req, walk->res, &source);
	if (*walk->rest == '\0' && strcmp(segment, "$count") == 0)
		return sim_count_source(walk->req, walk->res, &source);
	if (*walk->rest == '\0' && strcmp(segment, "$ref") == 0)
		return read_references(walk, &source);
	return no_segment(walk, segment);
}

/* the last segment: a property, perhaps with /$value */
static bool
read_last(struct walk *walk, const char *name)
{
	struct sim_column *column = sim_column_by_property(walk->table, name, strlen(name));
	const char *segment = next_segment(walk);

	if (column == NULL || !column->selectable || !column->valid_for_read ||
		!(column->stored || column->formula != NULL))
		return no_segment(walk, name);
	if (segment == NULL)
		return read_property(walk, column, false);
	if (strcmp(segment, "$value") == 0 && *walk->rest == '\0')
		return read_property(walk, column, true);
	return no_segment(walk, segment);
}

bool
sim_read_row(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *key,
			 const char *rest)
{
	struct walk walk = {.req = req, .res = res, .table = table, .rest = rest};

	if (!sim_options_check(req, res) || !sim_key_parse(req, res, table, key, &walk.key) ||
		!find_row(&walk))
		return false;
	while (*walk.rest != '\0')
	{
		const char *name = next_segment(&walk);
		struct sim_text text = {name, name ? strlen(name) : 0};
		struct sim_expand via;
		struct sim_target *target;
		struct sim_column *column;

		if (name == NULL)
			return sim_fail(req, res, 400, SIM_BAD_QUERY, "Bad Request - Error in query syntax.");
		if (sim_collection_find(walk.table, &text, &via))
			return read_collection(&walk, &via);
		column = sim_navigation(walk.table, &text, &target);
		if (column == NULL)
			return read_last(&walk, name);
		if (!read_lookup(&walk, column, target))
			return false;
		if (res->status != 0)
			return true;
	}
	return read_row(&walk);
}

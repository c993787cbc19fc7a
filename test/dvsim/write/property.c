/*
 * property.c
 *		One property of a row: PUT of a value, DELETE, and the bytes of file and
 *		image columns.
 *
 * A property's new value goes through the same writer as a PATCH.  The bytes
 * of files are kept beside the rows, in "~file", under the file's own id.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>

#include "store/guid.h"
#include "write/row_write.h"
#include "write/upload.h"

#define VALUE_SUFFIX "/$value"

static bool
internal_error(struct sim_req *req, struct sim_res *res)
{
	return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
}

const void *
sim_file_read(struct sim_req *req, const unsigned char file_id[16], size_t *len)
{
	sqlite3_stmt *stmt = sim_stmt_get(req->sim->store,
									  "SELECT bytes FROM \"~file\" WHERE id=?1");
	void	   *bytes = NULL;

	if (stmt == NULL)
		return NULL;
	sqlite3_bind_blob(stmt, 1, file_id, 16, SQLITE_STATIC);
	if (sqlite3_step(stmt) == SQLITE_ROW)
	{
		*len = sqlite3_column_bytes(stmt, 0);
		bytes = sim_alloc(req->arena, *len + 1);
		if (*len > 0)
			memcpy(bytes, sqlite3_column_blob(stmt, 0), *len);
	}
	sim_stmt_put(req->sim->store, stmt);
	return bytes;
}

static void
drop_file(struct sim *sim, struct sim_column *column, const unsigned char id[16])
{
	struct sim_table *t = column->table;
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;

	sim_putf(&sql, "DELETE FROM \"~file\" WHERE id=(SELECT \"%s\" FROM \"%s\" WHERE \"%s\"=?1)",
			 column->name, t->name, t->id->name);
	stmt = sim_stmt_get(sim->store, sql.s);
	sim_buf_free(&sql);
	if (stmt == NULL)
		return;
	sqlite3_bind_blob(stmt, 1, id, 16, SQLITE_STATIC);
	sqlite3_step(stmt);
	sim_stmt_put(sim->store, stmt);
}

void
sim_file_drop(struct sim *sim, struct sim_table *table, const unsigned char id[16])
{
	int			i;

	for (i = 0; i < table->ncolumns; i++)
		if (table->columns[i].type == SIM_FILE && table->columns[i].stored)
			drop_file(sim, &table->columns[i], id);
}

/* finds the row, which must exist, and its id */
static bool
find(struct sim_req *req, struct sim_res *res, struct sim_key *key, struct sim_write_row *row)
{
	int64_t		version;
	enum sim_found found = sim_row_find(req, res, key, row->id, &version);

	row->has_id = true;
	row->key = key;
	return found == SIM_FOUND || (found == SIM_MISSING && sim_row_missing(req, res, key));
}

/* updates the row with an object of one member */
static bool
update_member(struct sim_req *req, struct sim_res *res, struct sim_key *key,
			  struct sim_json *member)
{
	struct sim_json object = {.type = SIM_JSON_OBJECT, .child = member, .n = 1};
	struct sim_write_row row = {0};
	struct sim_writer w;
	enum sim_found found;
	bool		ok;

	if (!find(req, res, key, &row))
		return false;
	sim_writer_start(&w, req, res, key->table, SIM_WRITE_UPDATE);
	ok = sim_writer_decode(&w, &object, &row);
	if (ok)
	{
		found = sim_writer_update(&w, &row);
		ok = found == SIM_FOUND || (found == SIM_MISSING && sim_row_missing(req, res, key));
	}
	sim_writer_end(&w);
	return ok;
}

static bool
store_bytes(struct sim_req *req, struct sim_res *res, const unsigned char file_id[16],
			const void *bytes, size_t len)
{
	sqlite3_stmt *stmt = sim_stmt_get(req->sim->store,
									  "INSERT INTO \"~file\"(id,bytes) VALUES (?1,?2)");
	int			rc;

	if (stmt == NULL)
		return internal_error(req, res);
	sqlite3_bind_blob(stmt, 1, file_id, 16, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, len > 0 ? bytes : "", (int) len, SQLITE_STATIC);
	rc = sqlite3_step(stmt);
	sim_stmt_put(req->sim->store, stmt);
	return rc == SQLITE_DONE || internal_error(req, res);
}

/* points the row at its file; no file when file_id is NULL */
static bool
point_at_file(struct sim_req *req, struct sim_res *res, struct sim_column *column,
			  const unsigned char id[16], const unsigned char *file_id, const char *name)
{
	struct sim_table *t = column->table;
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;
	int			rc;

	sim_putf(&sql, "UPDATE \"%s\" SET \"%s\"=?1,\"%s_name\"=?2,\"versionnumber\"=?3 "
			 "WHERE \"%s\"=?4", t->name, column->name, column->name, t->id->name);
	stmt = sim_stmt_get(req->sim->store, sql.s);
	sim_buf_free(&sql);
	if (stmt == NULL)
		return internal_error(req, res);
	if (file_id != NULL)
	{
		sqlite3_bind_blob(stmt, 1, file_id, 16, SQLITE_STATIC);
		sqlite3_bind_text(stmt, 2, name, -1, SQLITE_STATIC);
	}
	else
	{
		sqlite3_bind_null(stmt, 1);
		sqlite3_bind_null(stmt, 2);
	}
	sqlite3_bind_int64(stmt, 3, sim_next_version(req->sim->store));
	sqlite3_bind_blob(stmt, 4, id, 16, SQLITE_STATIC);
	rc = sqlite3_step(stmt);
	sim_stmt_put(req->sim->store, stmt);
	return rc == SQLITE_DONE || internal_error(req, res);
}

static bool
is_bytes(const struct sim_req *req)
{
	const char *type = sim_header(req, "Content-Type");

	return type != NULL && strncasecmp(type, "application/octet-stream", 24) == 0;
}

/* the status is 204, unless it is set to that of a file that is not complete */
static bool
write_file(struct sim_req *req, struct sim_res *res, struct sim_key *key,
		   struct sim_column *column)
{
	struct sim_write_row row = {0};
	unsigned char file_id[16];
	bool		clear = strcmp(req->method, "DELETE") == 0;
	bool		part = !clear && sim_param(req, "sessiontoken") != NULL;
	bool		start = !clear && !part && sim_header(req, "x-ms-transfer-mode") != NULL;
	const char *name = sim_header(req, "x-ms-file-name");
	const void *bytes = req->body;
	size_t		len = req->body_len;

	if (!clear && !start && !is_bytes(req))
		return sim_fail(req, res, 400, "0x80040203", "File columns take one body of "
						"application/octet-stream.");
	if (name == NULL)
		name = sim_param(req, "x-ms-file-name");
	if (!clear && !part && name == NULL)
		return sim_fail(req, res, 400, "0x80040203", "The header x-ms-file-name is missing.");
	if (!find(req, res, key, &row))
		return false;
	if (start)
	{
		res->status = 200;
		return sim_upload_start(req, res, column, row.id, name);
	}
	if (part)
	{
		if (!sim_upload_part(req, res, column, row.id, &name, &bytes, &len))
			return false;
		if (bytes == NULL)
		{
			res->status = 206;
			return true;
		}
	}
	else if (!clear && !sim_upload_fits(req, res, column, len))
		return false;
	drop_file(req->sim, column, row.id);
	if (clear)
		return point_at_file(req, res, column, row.id, NULL, NULL);
	sim_guid_make((uint64_t) (req->sim->epoch_us + sim_now_us(req->sim)), sim_random(req->sim),
				  file_id);
	return store_bytes(req, res, file_id, bytes, len) &&
		point_at_file(req, res, column, row.id, file_id, name);
}

/* turns bytes of a picture into the base64 that a row's body would contain */
static bool
write_picture(struct sim_req *req, struct sim_res *res, struct sim_key *key,
			  struct sim_json *member)
{
	unsigned char *text = sim_alloc(req->arena, req->body_len * 4 / 3 + 8);

	member->type = SIM_JSON_STRING;
	member->s = (char *) text;

	member->len = EVP_EncodeBlock(text, (unsigned char *) req->body, (int) req->body_len);
	return update_member(req, res, key, member);
}

static bool
write_value(struct sim_req *req, struct sim_res *res, struct sim_key *key,
			struct sim_column *column)
{
	struct sim_json member = {.type = SIM_JSON_NULL};
	struct sim_json *object;
	struct sim_json *value;

	member.key = column->property;
	member.keylen = strlen(column->property);
	if (strcmp(req->method, "DELETE") != 0)
	{
		if (column->type == SIM_IMAGE && is_bytes(req))
			return write_picture(req, res, key, &member);
		if (strcmp(req->method, "PUT") != 0)
			return sim_wrong_method(req, res);
		object = sim_body_object(req, res, key->table);
		if (object == NULL)
			return false;
		value = sim_json_member(object, "value");
		if (value == NULL)
			return sim_payload_fail(req, res, key->table, "Microsoft.OData.ODataException: A "
									"property with name 'value' was not found.");
		member.type = value->type;
		member.s = value->s;
		member.len = value->len;
		member.child = value->child;
		member.n = value->n;
	}
	return update_member(req, res, key, &member);
}

bool
sim_write_property(struct sim_req *req, struct sim_res *res, struct sim_table *table,
				   struct sim_key *key, const char *property)
{
	size_t		len = strlen(property);
	size_t		suffix = sizeof(VALUE_SUFFIX) - 1;
	struct sim_column *column;
	bool		ok;

	res->kind = SIM_UPDATE;
	if (len > suffix && strcmp(property + len - suffix, VALUE_SUFFIX) == 0)
		len -= suffix;
	column = sim_column_by_property(table, property, len);
	if (column == NULL)
		return sim_fail(req, res, 404, "0x80060888", "Resource not found for the segment '%s'.",
						property);
	if (!sim_writable(req, res, table, "Update"))
		return false;
	if (strcmp(req->method, "POST") == 0)
		return sim_wrong_method(req, res);
	if (!sim_begin(req->sim->store))
		return internal_error(req, res);
	res->status = 204;
	ok = column->type == SIM_FILE ? write_file(req, res, key, column) :
		write_value(req, res, key, column);
	if (!ok)
	{
		sim_rollback(req->sim->store);
		return false;
	}
	if (!sim_commit(req->sim->store))
		return internal_error(req, res);
	res->rows = 1;
	return true;
}

/*
 * row.c
 *		Finding rows, and information about tables for writes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/guid.h"
#include "write/row_write.h"

static struct sim_write_info **infos;
static struct sim_schema *infos_of;
static struct sim_arena *infos_arena;

/* logical names of the columns that every write handles */
static const struct known_column
{
	const char *name;
	size_t		offset;
}			known_columns[] = {
	{"createdby", offsetof(struct sim_write_info, created_by)},
	{"createdonbehalfby", offsetof(struct sim_write_info, created_on_behalf)},
	{"modifiedby", offsetof(struct sim_write_info, modified_by)},
	{"modifiedon", offsetof(struct sim_write_info, modified_on)},
	{"modifiedonbehalfby", offsetof(struct sim_write_info, modified_on_behalf)},
	{"overriddencreatedon", offsetof(struct sim_write_info, overridden)},
	{"owninguser", offsetof(struct sim_write_info, owning_user)},
	{"owningteam", offsetof(struct sim_write_info, owning_team)},
	{"owningbusinessunit", offsetof(struct sim_write_info, owning_unit)},
	{"organizationid", offsetof(struct sim_write_info, organization)},
	{"transactioncurrencyid", offsetof(struct sim_write_info, currency)},
	{"exchangerate", offsetof(struct sim_write_info, exchange_rate)},
	{"ttlinseconds", offsetof(struct sim_write_info, ttl)},
};

static void
make_sql(struct sim_write_info *info)
{
	struct sim_table *t = info->table;
	const char *id = t->id->name;
	bool		elastic = t->partition != NULL;

	info->exists_sql = sim_fmt(infos_arena, "SELECT 1 FROM \"%s\" WHERE \"%s\"=?1", t->name, id);
	info->find_sql = sim_fmt(infos_arena, "SELECT \"%s\",%s,%s,%s,%s FROM \"%s\" WHERE \"%s\"=?1%s",
							 id, t->version != NULL ? "\"versionnumber\"" : "0",
							 elastic ? "\"partitionid\"" : "''",
							 info->ttl != NULL ? "\"ttlinseconds\"" : "NULL",
							 info->modified_on != NULL ? "\"modifiedon\"" : "0",
							 t->name, id, elastic ? " AND \"partitionid\"=?2" : "");
	info->delete_sql = sim_fmt(infos_arena, "DELETE FROM \"%s\" WHERE \"%s\"=?1%s", t->name, id,
							   elastic ? " AND \"partitionid\"=?2" : "");
}

static struct sim_write_info *
make_info(struct sim_table *table)
{
	struct sim_write_info *info = sim_alloc(infos_arena, sizeof(*info));
	size_t		i;

	info->table = table;
	for (i = 0; i < sizeof(known_columns) / sizeof(known_columns[0]); i++)
	{
		struct sim_column *column;

		column = sim_column_by_name(table, known_columns[i].name, strlen(known_columns[i].name));
		if (column != NULL && column->stored)
			*(struct sim_column **) ((char *) info + known_columns[i].offset) = column;
	}
	for (i = 0; i < (size_t) table->ncolumns; i++)
		if (table->columns[i].type == SIM_FILE)
			info->has_files = true;
	make_sql(info);
	return info;
}

struct sim_write_info *
sim_write_info(struct sim *sim, struct sim_table *table)
{
	struct sim_schema *schema = sim->schema;
	struct sim_write_info **slot;

	if (infos_of != schema)
	{
		sim_write_info_forget();
		infos_arena = sim_arena_new();
		infos = sim_alloc(infos_arena, sizeof(*infos) * (size_t) schema->ntables);
		infos_of = schema;
	}
	slot = &infos[table - schema->tables];
	if (*slot == NULL)
		*slot = make_info(table);
	return *slot;
}

void
sim_write_info_forget(void)
{
	if (infos_arena != NULL)
		sim_arena_free(infos_arena);
	infos_arena = NULL;
	infos = NULL;
	infos_of = NULL;
}

bool
sim_payload_fail(struct sim_req *req, struct sim_res *res, struct sim_table *table,
				 const char *fmt,...)
{
	va_list		args;
	char	   *inner;

	va_start(args, fmt);
	inner = sim_vfmt(req->arena, fmt, args);
	va_end(args);
	return sim_fail(req, res, 400, "0x80048d19",
					"Error identified in Payload provided by the user for Entity :'%s', "
					"For more information on this error please follow this help link "
					"https://go.microsoft.com/fwlink/?linkid=2195293  ---->  InnerException : %s",
					table != NULL && table->set_name != NULL ? table->set_name : "", inner);
}

/* JSON must be declared as such; parameters after it (charset, type=entry) do not matter */
static bool
is_declared_json(const struct sim_req *req)
{
	const char *type = sim_header(req, "Content-Type");
	size_t		len = strlen("application/json");

	return type != NULL && strncasecmp(type, "application/json", len) == 0 &&
		strchr("; ", type[len]) != NULL;
}

struct sim_json *
sim_body_object(struct sim_req *req, struct sim_res *res, struct sim_table *table)
{
	struct sim_json *json;
	const char *error;

	if (req->body_len == 0)
	{
		sim_payload_fail(req, res, table, "System.ArgumentNullException: Value cannot be null.\r\n"
						 "Parameter name: payload");
		return NULL;
	}
	if (!is_declared_json(req))
	{
		const char *type = sim_header(req, "Content-Type");

		sim_fail(req, res, 415, "",
				 "The request entity's media type '%s' is not supported for this resource.",
				 type != NULL ? type : "application/octet-stream");
		return NULL;
	}
	json = sim_json_parse(req->arena, req->body, req->body_len, &error);
	if (json == NULL)
	{
		sim_payload_fail(req, res, table, "Microsoft.OData.ODataException: Invalid JSON. %s.",
						 error);
		return NULL;
	}
	if (json->type != SIM_JSON_OBJECT)
	{
		sim_payload_fail(req, res, table, "Microsoft.OData.ODataException: An unexpected node was "
						 "found when reading from the JSON reader. A 'StartObject' node was "
						 "expected.");
		return NULL;
	}
	return json;
}

/* SELECT of the same columns as find_sql, by an alternate key */
static sqlite3_stmt *
find_by_values(struct sim *sim, struct sim_key *key)
{
	struct sim_table *t = key->table;
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;
	int			i;

	sim_putf(&sql, "SELECT \"%s\",%s,'',NULL,0 FROM \"%s\" WHERE ", t->id->name,
			 t->version != NULL ? "\"versionnumber\"" : "0", t->name);
	for (i = 0; i < key->def->n; i++)
		sim_putf(&sql, "%s\"%s\"=?%d", i > 0 ? " AND " : "", key->def->columns[i]->name, i + 1);
	stmt = sim_stmt_get(sim->store, sql.s);
	sim_buf_free(&sql);
	for (i = 0; stmt != NULL && i < key->def->n; i++)
		sim_value_bind(stmt, i + 1, &key->values[i]);
	return stmt;
}

static sqlite3_stmt *
find_by_id(struct sim *sim, struct sim_key *key)
{
	sqlite3_stmt *stmt = sim_stmt_get(sim->store, sim_write_info(sim, key->table)->find_sql);

	if (stmt == NULL)
		return NULL;
	sqlite3_bind_blob(stmt, 1, key->id, 16, SQLITE_STATIC);
	if (key->table->partition != NULL)
		sqlite3_bind_text(stmt, 2, key->partition != NULL ? key->partition : "",
						  key->partition != NULL ? (int) key->partition_len : 0, SQLITE_STATIC);
	return stmt;
}

static bool
expired(struct sim *sim, sqlite3_stmt *stmt)
{
	return sqlite3_column_type(stmt, 3) != SQLITE_NULL && sqlite3_column_int64(stmt, 3) > 0 &&
		sqlite3_column_int64(stmt, 4) + sqlite3_column_int64(stmt, 3) <= sim_unix_now(sim);
}

enum sim_found
sim_row_find(struct sim_req *req, struct sim_res *res, struct sim_key *key, unsigned char id[16],
			 int64_t *version)
{
	struct sim *sim = req->sim;
	sqlite3_stmt *stmt = key->by_id ? find_by_id(sim, key) : find_by_values(sim, key);
	enum sim_found found = SIM_MISSING;
	int			rc;

	if (stmt == NULL)
	{
		sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
		return SIM_ERROR;
	}
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == 16 && !expired(sim, stmt))
	{
		found = SIM_FOUND;
		if (key->partition == NULL)
			key->partition = "";
		memcpy(id, sqlite3_column_blob(stmt, 0), 16);
		*version = sqlite3_column_int64(stmt, 1);
	}
	else if (rc != SQLITE_ROW && rc != SQLITE_DONE)
	{
		sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
		found = SIM_ERROR;
	}
	sim_stmt_put(sim->store, stmt);
	return found;
}

bool
sim_row_missing(struct sim_req *req, struct sim_res *res, struct sim_key *key)
{
	char		text[37] = "";

	if (!key->by_id)
		return sim_fail(req, res, 404, "0x80060891",
						"A record with the specified key values does not exist in %s entity",
						key->table->name);
	sim_guid_print(key->id, text);
	return sim_fail(req, res, 404, "0x80040217", "Entity '%s' With Id = %s Does Not Exist",
					key->table->name, text);
}

bool
sim_reference_resolve(struct sim_req *req, struct sim_res *res, struct sim_key *key,
					  unsigned char id[16])
{
	sqlite3_stmt *stmt;
	int64_t		version;
	bool		there;

	if (!key->by_id)
	{
		enum sim_found found = sim_row_find(req, res, key, id, &version);

		return found == SIM_FOUND || (found == SIM_MISSING && sim_row_missing(req, res, key));
	}
	memcpy(id, key->id, 16);
	if (key->table->type == SIM_ELASTIC)
		return true;
	stmt = sim_stmt_get(req->sim->store, sim_write_info(req->sim, key->table)->exists_sql);
	if (stmt == NULL)
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	sqlite3_bind_blob(stmt, 1, id, 16, SQLITE_STATIC);
	there = sqlite3_step(stmt) == SQLITE_ROW;
	sim_stmt_put(req->sim->store, stmt);
	return there || sim_row_missing(req, res, key);
}

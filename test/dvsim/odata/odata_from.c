/*
 * odata_from.c
 *		The common parts of translated statements: bound values, joined
 *		lookups, and names of the Web API's model resolved to columns.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "odata/odata_sql.h"
#include "store/readers.h"

/* SQLite takes 32,766 */
#define MAX_BINDS 32000

/* ----------
 * Statements and their values
 * ----------
 */

void
sim_sql_init(struct sim_sql *sql, struct sim_req *req, struct sim_res *res)
{
	memset(sql, 0, sizeof(*sql));
	sql->req = req;
	sql->res = res;
}

static void
new_alias(struct sim_sql *sql, char alias[SIM_ALIAS_LEN])
{
	strcpy(alias, sim_fmt(sql->req->arena, "t%d", sql->naliases++));
}

void
sim_from_init(struct sim_sql *sql, struct sim_from *from, struct sim_table *table)
{
	memset(from, 0, sizeof(*from));
	from->table = table;
	from->rows = sim_readable(sql->req, table);
	from->variable.s = "";
	new_alias(sql, from->alias);
}

int
sim_sql_bind(struct sim_sql *sql, const struct sim_value *value)
{
	int			n = sql->nbinds;

	if ((n & (n - 1)) == 0)
	{
		struct sim_value *binds = sim_alloc(sql->req->arena, sizeof(*binds) * (n ? 2 * n : 1));

		if (n > 0)
			memcpy(binds, sql->binds, sizeof(*binds) * n);
		sql->binds = binds;
	}
	sql->binds[n] = *value;
	return ++sql->nbinds;
}

int
sim_sql_bind_blob(struct sim_sql *sql, const unsigned char bytes[16])
{
	struct sim_value value = {.kind = SIM_V_BLOB, .len = 16};

	memcpy(value.fixed, bytes, 16);
	return sim_sql_bind(sql, &value);
}

int
sim_sql_bind_text(struct sim_sql *sql, const char *s, size_t len)
{
	struct sim_value value = {.kind = SIM_V_TEXT, .s = s, .len = len};

	return sim_sql_bind(sql, &value);
}

int
sim_sql_bind_int(struct sim_sql *sql, int64_t i)
{
	struct sim_value value = {.kind = SIM_V_INT, .i = i};

	return sim_sql_bind(sql, &value);
}

static bool
sql_error(struct sim_sql *sql, int rc)
{
	if (rc == SQLITE_ERROR && sqlite3_errcode(sql->req->sim->store->db) == SQLITE_ERROR &&
		strstr(sqlite3_errmsg(sql->req->sim->store->db), "overflow") != NULL)
		return sim_fail(sql->req, sql->res, 400, SIM_SQL_OVERFLOW, SIM_SQL_OVERFLOW_MESSAGE);
	return sim_fail(sql->req, sql->res, 500, "0x80044150",
					"Generic SQL error. CRM ErrorCode: -2147204784 Sql ErrorCode: -2146232060 "
					"Sql Number: %d", rc);
}

sqlite3_stmt *
sim_sql_run(struct sim_sql *sql, const char *text)
{
	sqlite3_stmt *stmt;
	int			i;

	if (sql->nbinds > MAX_BINDS)
	{
		sim_fail(sql->req, sql->res, 400, "0x8004430E",
				 "Number of parameters in a condition exceeded maximum limit.");
		return NULL;
	}
	stmt = sim_stmt_get(sql->req->sim->store, text);
	if (stmt == NULL)
	{
		sql_error(sql, SQLITE_ERROR);
		return NULL;
	}
	for (i = 0; i < sql->nbinds; i++)
		sim_value_bind(stmt, i + 1, &sql->binds[i]);
	return stmt;
}

bool
sim_sql_done(struct sim_sql *sql, sqlite3_stmt *stmt, int rc)
{
	bool		ok = rc == SQLITE_DONE || rc == SQLITE_ROW || rc == SQLITE_OK;

	if (!ok)
		sql_error(sql, rc);
	sim_stmt_put(sql->req->sim->store, stmt);
	return ok;
}

/* ----------
 * FROM
 * ----------
 */

const char *
sim_from_join(struct sim_sql *sql, struct sim_from *from, const char *parent,
			  struct sim_column *column, struct sim_target *target)
{
	struct sim_join *join;
	int			n = from->njoins;
	int			i;

	for (i = 0; i < n; i++)
	{
		if (from->joins[i].column == column && from->joins[i].target == target &&
			strcmp(from->joins[i].parent, parent) == 0)
			return from->joins[i].alias;
	}
	join = sim_alloc(sql->req->arena, sizeof(*join) * (n + 1));
	if (n > 0)
		memcpy(join, from->joins, sizeof(*join) * n);
	from->joins = join;
	join = &from->joins[from->njoins++];
	strcpy(join->parent, parent);
	new_alias(sql, join->alias);
	join->column = column;
	join->target = target;
	join->rows = sim_readable(sql->req, target->table);
	return join->alias;
}

void
sim_from_sql(const struct sim_from *from, struct sim_buf *out)
{
	int			i;

	sim_putf(out, "%s AS %s", from->rows, from->alias);
	for (i = 0; i < from->njoins; i++)
	{
		const struct sim_join *join = &from->joins[i];
		struct sim_table *table = join->target->table;

		sim_putf(out, " LEFT JOIN %s AS %s ON %s.\"%s\"=", join->rows, join->alias,
				 join->alias, table->id->name);
		sim_column_sql(out, join->parent, join->column);
		if (join->column->ntargets > 1)
			sim_putf(out, " AND %s.\"%s.type\"='%s'", join->parent, join->column->name,
					 table->name);
		if (table->type == SIM_ELASTIC)
			sim_putf(out, " AND %s.\"partitionid\"=coalesce(%s.\"%spid\",'')", join->alias,
					 join->parent, join->column->name);
	}
}

/* ----------
 * Names
 * ----------
 */

bool
sim_no_property(struct sim_req *req, struct sim_res *res, const char *name, const char *type)
{
	return sim_fail(req, res, 400, "0x0", "Could not find a property named '%s' on type "
					"'Microsoft.Dynamics.CRM.%s'.", name, type);
}

const char *
sim_edm_type(const struct sim_column *column)
{
	static const char *const names[SIM_TYPES] = {
		[SIM_UUID] = "Edm.Guid", [SIM_STRING] = "Edm.String", [SIM_MEMO] = "Edm.String",
		[SIM_INTEGER] = "Edm.Int32", [SIM_BIGINT] = "Edm.Int64", [SIM_DECIMAL] = "Edm.Decimal",
		[SIM_MONEY] = "Edm.Decimal", [SIM_DOUBLE] = "Edm.Double", [SIM_BOOLEAN] = "Edm.Boolean",
		[SIM_PICKLIST] = "Edm.Int32", [SIM_STATE] = "Edm.Int32", [SIM_STATUS] = "Edm.Int32",
		[SIM_MULTISELECT] = "Edm.String", [SIM_DATETIME] = "Edm.DateTimeOffset",
		[SIM_LOOKUP] = "Edm.Guid", [SIM_CUSTOMER] = "Edm.Guid", [SIM_OWNER] = "Edm.Guid",
		[SIM_PARTYLIST] = "Collection(Microsoft.Dynamics.CRM.activityparty)",
		[SIM_ENTITYNAME] = "Edm.String", [SIM_IMAGE] = "Edm.Binary", [SIM_FILE] = "Edm.Guid",
		[SIM_MANAGED] = "Microsoft.Dynamics.CRM.BooleanManagedProperty",
		[SIM_VIRTUAL] = "Edm.String"
	};

	if (column->type == SIM_DATETIME && column->behaviour == SIM_DATE_ONLY)
		return "Edm.Date";
	return names[column->type];
}

struct sim_column *
sim_navigation(struct sim_table *table, const struct sim_text *name, struct sim_target **target)
{
	struct sim_column *column;

	*target = NULL;
	column = sim_column_by_navigation(table, name->s, name->len, target);
	if (column != NULL && *target == NULL && column->ntargets == 1)
		*target = &column->targets[0];
	return column;
}

struct sim_from *
sim_place_start(struct sim_from *from, const struct sim_node *path, int n, int *first)
{
	struct sim_from *f;

	*first = 1;
	for (f = from; f != NULL && n > 0; f = f->outer)
	{
		const struct sim_text *variable = &f->variable;

		if (variable->len > 0 && variable->len == path->path[0].len &&
			memcmp(variable->s, path->path[0].s, variable->len) == 0)
			return f;
	}
	/* anything else is a property of the row to which the whole filter applies */
	for (f = from; f->outer != NULL;)
		f = f->outer;
	*first = n > 0 && sim_text_is(&path->path[0], "$it");
	return f;
}

/* follows the lookups path[first..last-1]; returns the table and alias to which they lead */
static bool
follow(struct sim_sql *sql, struct sim_from *from, const struct sim_node *path, int first,
	   int last, struct sim_table **table, char alias[SIM_ALIAS_LEN])
{
	int			i;

	*table = from->table;
	strcpy(alias, from->alias);
	for (i = first; i < last; i++)
	{
		struct sim_target *target;
		struct sim_column *column = sim_navigation(*table, &path->path[i], &target);

		if (column == NULL &&
			sim_collection_by_name(*table, path->path[i].s, path->path[i].len) == NULL &&
			sim_many_by_name(*table, path->path[i].s, path->path[i].len) == NULL)
			return sim_no_property(sql->req, sql->res, path->path[i].s, (*table)->name);
		if (column == NULL)
			return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
							"The parent value for a property access of a property '%s' is not a "
							"single value. Property access can only be applied to a single value.",
							path->path[i + 1 < path->npath ? i + 1 : i].s);
		if (target == NULL)
			return sim_no_property(sql->req, sql->res, path->path[path->npath - 1].s, "principal");
		if (from->table->type == SIM_ELASTIC || target->table->type == SIM_ELASTIC)
			return sim_fail(sql->req, sql->res, 400, "0x80048d0b",
							"Link entities are not supported");
		if (from->njoins >= SIM_MAX_LINKS)
			return sim_fail(sql->req, sql->res, 400, "0x8004430D",
							"Number of link entities in query exceeded maximum limit.");
		strcpy(alias, sim_from_join(sql, from, alias, column, target));
		*table = target->table;
	}
	return true;
}

bool
sim_place_row(struct sim_sql *sql, struct sim_from *from, const struct sim_node *path, int n,
			  struct sim_place *place, struct sim_table **table)
{
	int			first;

	place->from = sim_place_start(from, path, n, &first);
	return follow(sql, place->from, path, first, n, table, place->alias);
}

bool
sim_place_find(struct sim_sql *sql, struct sim_from *from, const struct sim_node *path,
			   struct sim_place *place)
{
	const struct sim_text *name = &path->path[path->npath - 1];
	struct sim_table *table;

	if (!sim_place_row(sql, from, path, path->npath - 1, place, &table))
		return false;
	place->column = sim_column_by_property(table, name->s, name->len);
	if (place->column == NULL || !place->column->selectable || !place->column->valid_for_read)
		return sim_no_property(sql->req, sql->res, name->s, table->name);
	return true;
}

void
sim_place_sql(struct sim_buf *out, const struct sim_place *place)
{
	const struct sim_column *column = place->column;
	bool		text = column->type == SIM_STRING || column->type == SIM_MEMO ||
	column->type == SIM_ENTITYNAME;

	sim_out_value_sql(out, place->alias, place->column);
	if (text && (column->formula != NULL || column == column->table->partition))
		sim_puts(out, " COLLATE DV");
}

/*
 * store_tables.c
 *		A SQL table for each table of the schema.
 *
 * New tables and new columns are added to a file that lacks them; other
 * differences (another type, another primary key) are refused with a message.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/store_parts.h"

#include <stdio.h>
#include <string.h>

#include "store/value.h"

/* declared types; the names are what PRAGMA table_info shows again */
static const char *const sql_types[SIM_TYPES] = {
	[SIM_UUID] = "BLOB",
	[SIM_STRING] = "TEXT",
	[SIM_MEMO] = "TEXT",
	[SIM_INTEGER] = "INTEGER",
	[SIM_BIGINT] = "INTEGER",
	[SIM_DECIMAL] = "BLOB",
	[SIM_MONEY] = "BLOB",
	[SIM_DOUBLE] = "REAL",
	[SIM_BOOLEAN] = "INTEGER",
	[SIM_PICKLIST] = "INTEGER",
	[SIM_STATE] = "INTEGER",
	[SIM_STATUS] = "INTEGER",
	[SIM_MULTISELECT] = "TEXT",
	[SIM_DATETIME] = "INTEGER",
	[SIM_LOOKUP] = "BLOB",
	[SIM_CUSTOMER] = "BLOB",
	[SIM_OWNER] = "BLOB",
	[SIM_ENTITYNAME] = "TEXT",
	[SIM_IMAGE] = "BLOB",
	[SIM_FILE] = "BLOB",
	[SIM_MANAGED] = "INTEGER",
};

static bool
is_text(const struct sim_column *column)
{
	return (column->type == SIM_STRING || column->type == SIM_MEMO ||
			column->type == SIM_ENTITYNAME) && column != column->table->partition;
}

/* ", name TYPE …": one column of CREATE TABLE, or of ALTER TABLE without the comma */
static void
put_column(struct sim_buf *sql, const struct sim_column *column)
{
	sim_putf(sql, "\"%s\" %s", column->name, sql_types[column->type]);
	if (is_text(column))
		sim_puts(sql, " COLLATE DV");
	if (column->primary_id)
		sim_puts(sql, " NOT NULL");
	if (column == column->table->partition)
		sim_puts(sql, " NOT NULL DEFAULT ''");
}

bool
store_create_table(struct sim_store *store, const struct sim_table *table, const char *name)
{
	struct sim_buf sql = {0};
	bool		ok;
	int			i;

	sim_putf(&sql, "CREATE TABLE \"%s\" (", name);
	for (i = 0; i < table->ncolumns; i++)
	{
		const struct sim_column *column = &table->columns[i];

		if (!column->stored)
			continue;
		put_column(&sql, column);
		sim_puts(&sql, ", ");
		if (column->ntargets > 1)
			sim_putf(&sql, "\"%s.type\" TEXT, ", column->name);
	}
	sim_putf(&sql, "PRIMARY KEY (\"%s\"%s)) WITHOUT ROWID", table->id->name,
			 table->partition != NULL ? ", \"partitionid\"" : "");
	ok = sim_exec(store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

/* A column that the file must have: adds it, or compares the type. */
static bool
reconcile_column(struct sim_store *store, const struct sim_table *table, const char *name,
				 const char *type, const char *definition, bool is_key, const char *file)
{
	static const char find[] = "SELECT type, pk FROM pragma_table_info(?1) WHERE name = ?2";
	sqlite3_stmt *stmt = sim_stmt_get(store, find);
	struct sim_buf sql = {0};
	bool		exists;
	bool		same = false;
	bool		ok;

	if (stmt == NULL)
		return false;
	sqlite3_bind_text(stmt, 1, table->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, name, -1, SQLITE_STATIC);
	exists = sqlite3_step(stmt) == SQLITE_ROW;
	if (exists)
		same = strcmp((const char *) sqlite3_column_text(stmt, 0), type) == 0 &&
			(sqlite3_column_int(stmt, 1) > 0) == is_key;
	sim_stmt_put(store, stmt);
	if (exists || is_key)
	{
		if (!same)
			fprintf(stderr, "dvsim: data file \"%s\" does not fit the schema: table \"%s\" %s "
					"column \"%s\"\nUse another file, or the schema that it was made with.\n",
					file, table->name, exists ? "has another kind of" : "lacks key", name);
		return same;
	}
	sim_putf(&sql, "ALTER TABLE \"%s\" ADD COLUMN %s", table->name, definition);
	ok = sim_exec(store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

static bool
reconcile_table(struct sim_store *store, const struct sim_table *table, const char *file)
{
	struct sim_buf definition = {0};
	bool		ok = true;
	int			i;

	for (i = 0; ok && i < table->ncolumns; i++)
	{
		const struct sim_column *column = &table->columns[i];

		if (!column->stored)
			continue;
		definition.len = 0;
		put_column(&definition, column);
		ok = reconcile_column(store, table, column->name, sql_types[column->type], definition.s,
							  column->primary_id || column == table->partition, file);
		if (ok && column->ntargets > 1)
		{
			char		name[512];

			snprintf(name, sizeof(name), "%s.type", column->name);
			definition.len = 0;
			sim_putf(&definition, "\"%s\" TEXT", name);
			ok = reconcile_column(store, table, name, "TEXT", definition.s, false, file);
		}
	}
	sim_buf_free(&definition);
	return ok;
}

static bool
has_table(struct sim_store *store, const char *name)
{
	sqlite3_stmt *stmt = sim_stmt_get(store, "SELECT 1 FROM sqlite_schema "
									  "WHERE type = 'table' AND name = ?");
	bool		found;

	if (stmt == NULL)
		return false;
	sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	found = sqlite3_step(stmt) == SQLITE_ROW;
	sim_stmt_put(store, stmt);
	return found;
}

/* The index of a key; a row with NULL in one of its columns is not in it. */
static void
put_key_index(struct sim_buf *sql, const struct sim_table *table, const struct sim_key_def *key)
{
	int			i;

	sim_putf(sql, "\"%s~%s\" ON \"%s\" (", table->name, key->name, table->name);
	for (i = 0; i < key->n; i++)
		sim_putf(sql, "%s\"%s\"", i > 0 ? ", " : "", key->columns[i]->name);
	for (i = 0; i < key->n; i++)
		sim_putf(sql, "%s\"%s\" IS NOT NULL", i > 0 ? " AND " : ") WHERE ",
				 key->columns[i]->name);
}

bool
sim_index_key(struct sim_store *store, const struct sim_table *table,
			  const struct sim_key_def *key, bool *duplicates)
{
	struct sim_buf sql = {0};
	int			rc;

	sim_puts(&sql, "CREATE UNIQUE INDEX IF NOT EXISTS ");
	put_key_index(&sql, table, key);
	rc = sqlite3_exec(store->db, sql.s, NULL, NULL, NULL);
	*duplicates = rc == SQLITE_CONSTRAINT;
	if (rc != SQLITE_OK && !*duplicates)
		fprintf(stderr, "dvsim: SQLite refuses a statement: %s\n%s\n",
				sqlite3_errmsg(store->db), sql.s);
	sim_buf_free(&sql);
	return rc == SQLITE_OK;
}

bool
sim_unindex_key(struct sim_store *store, const struct sim_table *table,
				const struct sim_key_def *key)
{
	struct sim_buf sql = {0};
	bool		ok;

	sim_putf(&sql, "DROP INDEX IF EXISTS \"%s~%s\"", table->name, key->name);
	ok = sim_exec(store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

/* Returns true if this is the statement that made the index of one of the table's keys. */
static bool
is_key_index(const struct sim_table *table, const char *statement)
{
	struct sim_buf sql = {0};
	bool		found = false;

	for (int i = 0; i < table->nkeys && !found; i++)
	{
		sql.len = 0;
		sim_puts(&sql, "CREATE UNIQUE INDEX ");
		put_key_index(&sql, table, &table->keys[i]);
		found = strcmp(table->keys[i].status, "Active") == 0 && strcmp(sql.s, statement) == 0;
	}
	sim_buf_free(&sql);
	return found;
}

/* A file may have indexes of keys that this schema does not have. */
static bool
drop_old_indexes(struct sim_store *store, const struct sim_table *table)
{
	sqlite3_stmt *stmt = sim_stmt_get(store, "SELECT name, sql FROM sqlite_schema WHERE "
									  "type = 'index' AND tbl_name = ? AND "
									  "sql LIKE 'CREATE UNIQUE INDEX%'");
	struct sim_buf drops = {0};
	bool		ok;

	if (stmt == NULL)
		return false;
	sqlite3_bind_text(stmt, 1, table->name, -1, SQLITE_STATIC);
	while (sqlite3_step(stmt) == SQLITE_ROW)
		if (!is_key_index(table, (const char *) sqlite3_column_text(stmt, 1)))
			sim_putf(&drops, "DROP INDEX \"%s\";", (const char *) sqlite3_column_text(stmt, 0));
	sim_stmt_put(store, stmt);
	ok = drops.len == 0 || sim_exec(store, drops.s);
	sim_buf_free(&drops);
	return ok;
}

/* A key that the rows of a file violate exists, but has failed. */
static bool
index_keys(struct sim_store *store, struct sim_table *table)
{
	if (!drop_old_indexes(store, table))
		return false;
	for (int i = 0; i < table->nkeys && table->partition == NULL; i++)
	{
		struct sim_key_def *key = &table->keys[i];
		bool		duplicates = false;

		if (strcmp(key->status, "Active") != 0)
			continue;
		if (!sim_index_key(store, table, key, &duplicates) && !duplicates)
			return false;
		if (duplicates)
			key->status = "Failed";
	}
	return true;
}

/*
 * Lookups between business tables are indexed, for joins and for the effects
 * of deleting a row on those that point to it; lookups that every row has are
 * not.
 */
static bool
wants_index(const struct sim_column *column)
{
	static const char *const everywhere[] = {
		"createdby", "createdonbehalfby", "modifiedby", "modifiedonbehalfby", "ownerid",
		"owninguser", "owningteam", "owningbusinessunit", "transactioncurrencyid"
	};
	size_t		i;

	if (column->ntargets == 0)
		return false;
	for (i = 0; i < sizeof(everywhere) / sizeof(everywhere[0]); i++)
	{
		if (strcmp(everywhere[i], column->name) == 0)
			return false;
	}
	return true;
}

bool
sim_is_indexed(const struct sim_column *column)
{
	return column->primary_id || wants_index(column);
}

static bool
index_lookups(struct sim_store *store, const struct sim_table *table)
{
	struct sim_buf sql = {0};
	bool		ok = true;
	int			i;

	for (i = 0; ok && i < table->ncolumns; i++)
	{
		const char *name = table->columns[i].name;

		if (!wants_index(&table->columns[i]))
			continue;
		sql.len = 0;
		sim_putf(&sql, "CREATE INDEX IF NOT EXISTS \"%s.%s\" ON \"%s\" (\"%s\") "
				 "WHERE \"%s\" IS NOT NULL", table->name, name, table->name, name, name);
		ok = sim_exec(store, sql.s);
	}
	sim_buf_free(&sql);
	return ok;
}

static bool
index_others(struct sim_store *store, const struct sim_table *table)
{
	struct sim_buf sql = {0};
	bool		ok = true;

	if (table->type == SIM_INTERSECT)
	{
		const char *a = table->columns[1].name;
		const char *b = table->columns[2].name;

		sim_putf(&sql, "CREATE UNIQUE INDEX IF NOT EXISTS \"%s~pair\" ON \"%s\" (\"%s\", \"%s\");"
				 "CREATE INDEX IF NOT EXISTS \"%s~back\" ON \"%s\" (\"%s\", \"%s\");",
				 table->name, table->name, a, b, table->name, table->name, b, a);
	}
	if (table->change_tracking && table->version != NULL)
		sim_putf(&sql, "CREATE INDEX IF NOT EXISTS \"%s~version\" ON \"%s\" (\"versionnumber\");",
				 table->name, table->name);
	if (table->partition != NULL)
		sim_putf(&sql, "CREATE INDEX IF NOT EXISTS \"%s~partition\" ON \"%s\" (\"partitionid\");",
				 table->name, table->name);
	if (sql.len > 0)
		ok = sim_exec(store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

/*
 * Users and teams are owners, too: rows of "owner" follow them.  The triggers
 * are recreated each time, because a name may be a formula of the schema.
 */
static bool
owner_triggers(struct sim_store *store, struct sim_schema *schema, struct sim_table *table)
{
	static const char *const events[] = {"INSERT", "UPDATE"};
	struct sim_table *owner = sim_table_by_name(schema, "owner");
	struct sim_buf sql = {0};
	bool		ok;
	int			i;

	if (owner == NULL || table->primary_name == NULL ||
		sim_column_by_name(owner, "name", 4) == NULL)
		return true;
	for (i = 0; i < 2; i++)
	{
		sim_putf(&sql, "DROP TRIGGER IF EXISTS \"%s~%s\";"
				 "CREATE TRIGGER \"%s~%s\" AFTER %s ON \"%s\" BEGIN "
				 "INSERT OR REPLACE INTO \"owner\" (\"ownerid\", \"name\", \"versionnumber\") "
				 "VALUES (NEW.\"%s\", ", table->name, events[i], table->name, events[i], events[i],
				 table->name, table->id->name);
		sim_column_sql(&sql, "NEW", table->primary_name);
		sim_puts(&sql, ", NEW.\"versionnumber\"); END;");
	}
	sim_putf(&sql, "DROP TRIGGER IF EXISTS \"%s~DELETE\";"
			 "CREATE TRIGGER \"%s~DELETE\" AFTER DELETE ON \"%s\" BEGIN "
			 "DELETE FROM \"owner\" WHERE \"ownerid\" = OLD.\"%s\"; END;",
			 table->name, table->name, table->name, table->id->name);
	ok = sim_exec(store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

bool
store_table(struct sim_store *store, struct sim_schema *schema, struct sim_table *table,
			const char *file)
{
	bool		ok = has_table(store, table->name) ?
	reconcile_table(store, table, file) :
	store_create_table(store, table, table->name);

	if (!ok || !index_keys(store, table) || !index_lookups(store, table) ||
		!index_others(store, table))
		return false;
	return (strcmp(table->name, "systemuser") != 0 && strcmp(table->name, "team") != 0) ||
		owner_triggers(store, schema, table);
}

bool
store_own_tables(struct sim_store *store)
{
	static const char own_tables[] =
	"CREATE TABLE IF NOT EXISTS \"~meta\" (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS \"~deleted\" (table_name TEXT NOT NULL, id BLOB NOT NULL,"
	" versionnumber INTEGER NOT NULL, PRIMARY KEY (table_name, versionnumber, id)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS \"~file\" (id BLOB PRIMARY KEY, bytes BLOB);"
	"CREATE TABLE IF NOT EXISTS \"~upload\" (token BLOB PRIMARY KEY, row BLOB, place TEXT, name TEXT, bytes BLOB)";

	return sim_exec(store, own_tables);
}

bool
store_tables(struct sim_store *store, struct sim_schema *schema, const char *file)
{
	int			i;

	for (i = 0; i < schema->ntables; i++)
	{
		if (!store_table(store, schema, &schema->tables[i], file))
			return false;
	}
	return true;
}

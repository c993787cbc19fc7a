/*
 * row_delete.c
 *		Deleting a row with its dependents.
 *
 * Relationships determine the effect on the rows that point to it: the link is
 * cleared, the deletion refused, or they are deleted as well.  The order is:
 * refusals, the row itself (which ends cycles), then the others; the caller's
 * transaction undoes all of it if something refuses deeper down.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "write/row_write.h"

#define MAX_DEPTH 32

struct deletion
{
	struct sim_req *req;
	struct sim_res *res;
	int			depth;
};

static bool delete_row(struct deletion *d, struct sim_table *table, const unsigned char id[16],
					   const char *partition, size_t partition_len);

static bool
internal_error(struct deletion *d)
{
	return sim_fail(d->req, d->res, 500, "0x80040216", "An unexpected error occurred.");
}

/* "WHERE" over the rows that point to ?1 through this relationship */
static void
put_where(struct sim_buf *sql, const struct sim_relationship *rel)
{
	sim_putf(sql, " WHERE \"%s\"=?1", rel->column->name);
	if (rel->column->ntargets > 1)
		sim_putf(sql, " AND \"%s.type\"='%s'", rel->column->name, rel->referenced->name);
}

static sqlite3_stmt *
prepare(struct deletion *d, struct sim_buf *sql, const unsigned char id[16])
{
	sqlite3_stmt *stmt = sim_stmt_get(d->req->sim->store, sql->s);

	sim_buf_free(sql);
	if (stmt != NULL)
		sqlite3_bind_blob(stmt, 1, id, 16, SQLITE_STATIC);
	else
		internal_error(d);
	return stmt;
}

static bool
check_restricted(struct deletion *d, struct sim_relationship *rel, const unsigned char id[16])
{
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;
	bool		free_to_go;

	sim_putf(&sql, "SELECT 1 FROM \"%s\"", rel->referencing->name);
	put_where(&sql, rel);
	stmt = prepare(d, &sql, id);
	if (stmt == NULL)
		return false;
	free_to_go = sqlite3_step(stmt) != SQLITE_ROW;
	sim_stmt_put(d->req->sim->store, stmt);
	return free_to_go || sim_fail(d->req, d->res, 405, "0x80040227",
								  "The object you tried to delete is associated with another "
								  "object and cannot be deleted.");
}

static bool
clear_links(struct deletion *d, struct sim_relationship *rel, const unsigned char id[16])
{
	struct sim_buf sql = {0};
	const char *name = rel->column->name;
	sqlite3_stmt *stmt;
	int			rc;

	sim_putf(&sql, "UPDATE \"%s\" SET \"%s\"=NULL", rel->referencing->name, name);
	if (rel->column->ntargets > 1)
		sim_putf(&sql, ",\"%s.type\"=NULL", name);
	if (rel->referencing->version != NULL)
		sim_puts(&sql, ",\"versionnumber\"=?2");
	put_where(&sql, rel);
	stmt = prepare(d, &sql, id);
	if (stmt == NULL)
		return false;
	if (rel->referencing->version != NULL)
		sqlite3_bind_int64(stmt, 2, sim_next_version(d->req->sim->store));
	rc = sqlite3_step(stmt);
	sim_stmt_put(d->req->sim->store, stmt);
	return rc == SQLITE_DONE || internal_error(d);
}

/* all ids first: the statement must not run while its table changes */
static bool
delete_children(struct deletion *d, struct sim_relationship *rel, const unsigned char id[16])
{
	struct sim_buf sql = {0};
	struct sim_buf ids = {0};
	sqlite3_stmt *stmt;
	bool		ok = true;
	size_t		i;

	sim_putf(&sql, "SELECT \"%s\" FROM \"%s\"", rel->referencing->id->name,
			 rel->referencing->name);
	put_where(&sql, rel);
	stmt = prepare(d, &sql, id);
	if (stmt == NULL)
		return false;
	while (sqlite3_step(stmt) == SQLITE_ROW)
		sim_put(&ids, sqlite3_column_blob(stmt, 0), 16);
	sim_stmt_put(d->req->sim->store, stmt);
	for (i = 0; ok && i < ids.len; i += 16)
		ok = delete_row(d, rel->referencing, (unsigned char *) ids.s + i, "", 0);
	sim_buf_free(&ids);
	return ok;
}

/*
 * one pass checks for refusals, a second does the rest; elastic rows keep links to deleted rows
 */
static bool
for_each_link(struct deletion *d, struct sim_table *table, const unsigned char id[16],
			  bool refusals)
{
	int			i;

	for (i = 0; i < table->none_to_many; i++)
	{
		struct sim_relationship *rel = table->one_to_many[i];
		bool		ok = true;

		if (!rel->column->stored || rel->referencing->type == SIM_ELASTIC)
			continue;
		if (refusals)
			ok = rel->on_delete != SIM_RESTRICT || check_restricted(d, rel, id);
		else if (rel->on_delete == SIM_REMOVE_LINK)
			ok = clear_links(d, rel, id);
		else if (rel->on_delete == SIM_CASCADE)
			ok = delete_children(d, rel, id);
		if (!ok)
			return false;
	}
	return true;
}

static bool
unlink_many(struct deletion *d, struct sim_table *table, const unsigned char id[16])
{
	int			i;

	for (i = 0; i < table->nmany_to_many; i++)
	{
		struct sim_many *many = table->many_to_many[i];
		struct sim_buf sql = {0};
		sqlite3_stmt *stmt;

		sim_putf(&sql, "DELETE FROM \"%s\" WHERE (\"%s\"=?1 AND %d) OR (\"%s\"=?1 AND %d)",
				 many->intersect->name, many->column1->name, many->table1 == table,
				 many->column2->name, many->table2 == table);
		stmt = prepare(d, &sql, id);
		if (stmt == NULL)
			return false;
		sqlite3_step(stmt);
		sim_stmt_put(d->req->sim->store, stmt);
	}
	return true;
}

static bool
bury(struct deletion *d, struct sim_table *table, const unsigned char id[16])
{
	struct sim_store *store = d->req->sim->store;
	sqlite3_stmt *stmt;
	int			rc;

	if (!table->change_tracking)
		return true;
	stmt = sim_stmt_get(store, "INSERT OR REPLACE INTO \"~deleted\"(table_name,id,"
						"versionnumber) "
						"VALUES (?1,?2,?3)");
	if (stmt == NULL)
		return internal_error(d);
	sqlite3_bind_text(stmt, 1, table->name, -1, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, id, 16, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 3, sim_next_version(store));
	rc = sqlite3_step(stmt);
	sim_stmt_put(store, stmt);
	return rc == SQLITE_DONE || internal_error(d);
}

/* mostly nothing was ever deleted, so that loading need not check for tombstones */
bool
sim_any_tombstones(struct sim_store *store)
{
	static struct sim_store *of;
	static bool any;
	sqlite3_stmt *stmt;

	if (of == store && any)
		return true;
	stmt = sim_stmt_get(store, "SELECT EXISTS(SELECT 1 FROM \"~deleted\")");
	if (stmt == NULL)
		return false;
	any = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int(stmt, 0) != 0;
	sim_stmt_put(store, stmt);
	if (any)
		sim_exec(store, "CREATE INDEX IF NOT EXISTS \"~deleted~id\" ON \"~deleted\"(id)");
	of = store;
	return any;
}

void
sim_forget_tombstone(struct sim *sim, struct sim_table *table, const unsigned char id[16])
{
	sqlite3_stmt *stmt = sim_stmt_get(sim->store, "DELETE FROM \"~deleted\" WHERE id=?1 "
									  "AND table_name=?2");

	if (stmt == NULL)
		return;
	sqlite3_bind_blob(stmt, 1, id, 16, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, table->name, -1, SQLITE_STATIC);
	sqlite3_step(stmt);
	sim_stmt_put(sim->store, stmt);
}

static bool
delete_itself(struct deletion *d, struct sim_table *table, const unsigned char id[16],
			  const char *partition, size_t partition_len)
{
	struct sim_store *store = d->req->sim->store;
	struct sim_write_info *info = sim_write_info(d->req->sim, table);
	sqlite3_stmt *stmt;
	int			rc;

	if (info->has_files)
		sim_file_drop(d->req->sim, table, id);
	stmt = sim_stmt_get(store, info->delete_sql);
	if (stmt == NULL)
		return internal_error(d);
	sqlite3_bind_blob(stmt, 1, id, 16, SQLITE_STATIC);
	if (table->partition != NULL)
		sqlite3_bind_text(stmt, 2, partition, (int) partition_len, SQLITE_STATIC);
	rc = sqlite3_step(stmt);
	sim_stmt_put(store, stmt);
	return rc == SQLITE_DONE || internal_error(d);
}

static bool
delete_row(struct deletion *d, struct sim_table *table, const unsigned char id[16],
		   const char *partition, size_t partition_len)
{
	bool		ok;

	if (d->depth == MAX_DEPTH)
		return sim_fail(d->req, d->res, 400, "0x80040203",
						"The rows to delete are nested too deeply.");
	d->depth++;
	ok = for_each_link(d, table, id, true) &&
		delete_itself(d, table, id, partition, partition_len) &&
		bury(d, table, id) &&
		for_each_link(d, table, id, false) &&
		unlink_many(d, table, id);
	d->depth--;
	return ok;
}

bool
sim_delete_row(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			   const unsigned char id[16], const char *partition, size_t partition_len)
{
	struct deletion d = {.req = req, .res = res};

	return delete_row(&d, table, id, partition != NULL ? partition : "", partition_len);
}

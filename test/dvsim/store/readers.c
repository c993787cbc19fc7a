/*
 * readers.c
 *		The rows that an application user may read: all, or those that it owns.
 *
 * A security role gives the privilege to read a table with a depth.  dvsim has two:
 * the whole organization, and the user.  Queries silently omit rows that may not be
 * read; a request for such a row by its id is refused.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "wire/auth.h"
#include "store/guid.h"
#include "store/mem.h"
#include "store/readers.h"
#include "wire/request.h"
#include "store/store.h"

bool
sim_reads_all(const struct sim_req *req, const struct sim_table *table)
{
	return req->user == NULL || !req->user->limited || table->ownership != SIM_USER_OWNED;
}

/* "ownerid"=X'…' */
static const char *
owned(struct sim_req *req)
{
	unsigned char user[16];
	struct sim_buf sql = {0};
	const char *condition;

	sim_guid_parse(req->user_id, strlen(req->user_id), user);
	sim_puts(&sql, "\"ownerid\"=X'");
	for (size_t i = 0; i < sizeof(user); i++)
		sim_putf(&sql, "%02X", user[i]);
	sim_putc(&sql, '\'');
	condition = sim_fmt(req->arena, "%s", sql.s);
	sim_buf_free(&sql);
	return condition;
}

const char *
sim_readable(struct sim_req *req, const struct sim_table *table)
{
	if (sim_reads_all(req, table))
		return sim_fmt(req->arena, "\"%s\"", table->name);
	return sim_fmt(req->arena, "(SELECT * FROM \"%s\" WHERE %s)", table->name, owned(req));
}

bool
sim_may_read(struct sim_req *req, const struct sim_table *table, const unsigned char id[16])
{
	sqlite3_stmt *stmt;
	bool		found;

	if (sim_reads_all(req, table))
		return true;
	stmt = sim_stmt_get(req->sim->store, sim_fmt(req->arena, "SELECT 1 FROM \"%s\" WHERE \"%s\"=?1 AND %s",
												 table->name, table->id->name, owned(req)));
	if (stmt == NULL)
		return false;
	sqlite3_bind_blob(stmt, 1, id, 16, SQLITE_STATIC);
	found = sqlite3_step(stmt) == SQLITE_ROW;
	sim_stmt_put(req->sim->store, stmt);
	return found;
}

/*
 * store_parts.h
 *		The interface of the files of the store; no other file includes
 *		this.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_STORE_PARTS_H
#define SIM_STORE_PARTS_H

#include "store/store.h"

/* when the rows of the schema were created: 2020-01-01 */
#define STORE_EPOCH INT64_C(1577836800)

/* a prepared statement of the cache, in two chains of hash buckets */
struct store_stmt
{
	sqlite3_stmt *stmt;
	const char *sql;			/* SQLite's copy of the text */
	uint64_t	hash;
	bool		busy;
	uint64_t	used;			/* tick of the last use */
	struct store_stmt *next_text;
	struct store_stmt *next_stmt;
};

#define STORE_BUCKETS	1024
#define STORE_STMTS		512		/* if more exist, the free ones are discarded */

struct store_cache
{
	struct store_stmt *by_text[STORE_BUCKETS];
	struct store_stmt *by_stmt[STORE_BUCKETS];
	int			n;
	uint64_t	tick;
	bool		on_disk;
	int64_t		saved_version;
};

/* store_functions.c: collation and SQL functions */
bool		store_functions(sqlite3 *db);

/* store_tables.c: the tables whose names begin with "~" */
bool		store_own_tables(struct sim_store *store);

/* store_tables.c: an empty table with the columns of this one */
bool		store_create_table(struct sim_store *store, const struct sim_table *table,
							   const char *name);

/* store_tables.c: makes or checks a table, or all of them; "file" is for messages */
bool		store_table(struct sim_store *store, struct sim_schema *schema,
						struct sim_table *table, const char *file);
bool		store_tables(struct sim_store *store, struct sim_schema *schema, const char *file);

/*
 * store_drift.c: converts the rows of a table whose definition becomes another
 * one, in a transaction of the caller.  For a renamed column, both names are
 * given, or neither.
 */
bool		store_change_table(struct sim_store *store, struct sim_schema *schema,
							   const struct sim_table *old, struct sim_table *table,
							   const char *renamed_from, const char *renamed_to);
bool		store_drop_table(struct sim_store *store, const struct sim_table *table);

/* store_drift.c: gives every row another version, in the existing order */
bool		store_touch_rows(struct sim_store *store, const struct sim_table *table);

/* store_drift.c: dv_convert(value, type before, type now) */
void		store_func_convert(sqlite3_context *context, int nargs, sqlite3_value **args);

/* store_rows.c: rows of the schema file, and those that describe the schema */
bool		store_initial_rows(struct sim *sim);
bool		store_schema_rows(struct sim *sim);

#endif

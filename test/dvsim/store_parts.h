/*
 * store_parts.h
 *		What the files of the store share; nobody else includes this.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_STORE_PARTS_H
#define SIM_STORE_PARTS_H

#include "store.h"

/* when the rows of the schema were made: 2020-01-01 */
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
#define STORE_STMTS		512		/* more than these are forgotten when they are free */

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

/* store_tables.c: makes or checks all tables; "file" is for messages */
bool		store_tables(struct sim_store *store, struct sim_schema *schema, const char *file);

/* store_rows.c: rows of the schema file, and those that describe the schema */
bool		store_initial_rows(struct sim *sim);
bool		store_schema_rows(struct sim *sim);

#endif

/*
 * store.h
 *		Rows in SQLite.
 *
 * A SQL table for each table of the schema, named by its logical name, with
 * a column for each stored column named likewise (always quote both):
 *
 *	 uuid, lookup, file		BLOB of 16 bytes in SQL Server's order (guid.h), so
 *							that memcmp sorts as the service does.  A lookup with
 *							several targets has a second column "name.type"
 *							(TEXT, logical name of the target); a lookup that can
 *							point to an elastic table "namepid"; a file "name_name"
 *	 string, memo, entityname	TEXT COLLATE DV: compared without case, accents
 *							and trailing blanks.  '' is never stored
 *	 integer, bigint, boolean, picklist, state, status	INTEGER
 *	 decimal, money			BLOB of 16 bytes: 128-bit value times 10^10, sign bit
 *							flipped, big-endian (decimal.h); compares with memcmp
 *	 double					REAL
 *	 date and time			INTEGER, seconds since 1970 (date only: at midnight)
 *	 multi-select			TEXT ",1,9," ascending
 *	 image					BLOB
 *	 managed property		INTEGER
 *	 versionnumber			INTEGER, from one counter for the whole database
 *
 * Standard tables are WITHOUT ROWID with the id as primary key; elastic ones
 * have (id, partitionid) with partitionid '' where the client sees NULL;
 * intersect tables have their own id and a unique pair.  Alternate keys are
 * unique indexes.  Deletions of tables with change tracking are remembered
 * in "~deleted" (table_name TEXT, id BLOB, versionnumber INTEGER).  Contents
 * of files are kept by the file's id in "~file" (id BLOB, bytes BLOB).
 *
 * SQL functions registered: dv_like(value, pattern) as T-SQL LIKE under the
 * DV collation with %, _, [set] and [^set]; dv_fold(text); dv_dec(text) →
 * decimal BLOB; dec_sum, dec_avg (aggregates over decimal BLOBs → BLOB);
 * int_sum, int_avg, big_sum, big_avg (over whole numbers of 32 and 64 bits,
 * whose sum must be such a number, too: "arithmetic overflow");
 * dv_base(money, rate) and dv_guid(id), which formulas of the schema use.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include <sqlite3.h>

#include "store/schema.h"
#include "sim.h"

struct sim_seed_lookups;

struct sim_store
{
	sqlite3    *db;
	int64_t		version;		/* last versionnumber given out */
	int			depth;			/* open savepoints */
	void	   *statements;		/* cache, store.c's own */
};

/* NULL file: memory.  Creates missing tables; with a file, keeps its rows. */
struct sim_store *sim_store_open(struct sim *sim, const char *file);
void		sim_store_close(struct sim_store *store);

/* deletes all rows, and restores the schema's initial rows and the application users */
bool		sim_store_reset(struct sim *sim);

/*
 * A prepared statement from the cache (prepared if it is not in it), ready to
 * bind; return it with sim_stmt_put, which resets it.  The same text may be in
 * use twice at once.  NULL if SQLite refuses the text: the message is on
 * stderr and the caller answers 500.
 */
sqlite3_stmt *sim_stmt_get(struct sim_store *store, const char *sql);
void		sim_stmt_put(struct sim_store *store, sqlite3_stmt *stmt);

/* returns true if an index finds rows by this column */
bool		sim_is_indexed(const struct sim_column *column);

/* forgets all statements that are not in use, after which tables may change */
void		sim_stmts_forget(struct sim_store *store);

/* runs SQL without result; false if SQLite refuses (message on stderr) */
bool		sim_exec(struct sim_store *store, const char *sql);

/* nested transactions: BEGIN at depth 0, SAVEPOINT below */
bool		sim_begin(struct sim_store *store);
bool		sim_commit(struct sim_store *store);
void		sim_rollback(struct sim_store *store);	/* to the innermost begin, which ends */

/*
 * The index that enforces an alternate key.  With *duplicates, false means
 * that it does not exist because two rows have the same values.
 */
bool		sim_index_key(struct sim_store *store, const struct sim_table *table,
						  const struct sim_key_def *key, bool *duplicates);
bool		sim_unindex_key(struct sim_store *store, const struct sim_table *table,
							const struct sim_key_def *key);

/* the SQL function for the sum or the mean of a column's values */
const char *sim_number_aggregate(enum sim_type type, bool mean);

/* what SQL Server reports if a sum does not fit into the type of its column */
#define SIM_SQL_OVERFLOW "0x80041136"
#define SIM_SQL_OVERFLOW_MESSAGE \
	"Sql error: A SQL arithmetic overflow error occurred CRM ErrorCode: -2147217098 " \
	"Sql ErrorCode: -2146232060 Sql Number: 8115"

int64_t		sim_next_version(struct sim_store *store);
int64_t		sim_row_count(struct sim_store *store, struct sim_table *table);	/* exact */

/*
 * Fills a table with rows that depend only on (table, seed, ordinal) and the
 * given lookups (or NULL); returns false on error.
 */
bool		sim_seed_rows(struct sim *sim, struct sim_table *table, int64_t n,
						  const struct sim_seed_lookups *lookups);

/* returns how many rows of a table have been seeded: the ordinal of the next one */
int64_t		sim_seeded_rows(struct sim *sim, const struct sim_table *table);

#endif

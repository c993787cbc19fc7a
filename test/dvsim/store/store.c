/*
 * store.c
 *		The database: opening, statements, transactions, versions.
 *
 * Everything runs on one connection.  In memory, a transaction keeps its
 * journal in memory, too; a file has a write-ahead log that is not synced, so
 * that committed data survives the death of the process, but not that of the
 * machine.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/store_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/drift.h"
#include "store/guid.h"
#include "metadata/metadata_keys.h"

/* PRAGMA application_id of our files: "dvsm" */
#define APPLICATION_ID 1685484397

/* the version that the first row of a new database gets, less one */
#define FIRST_VERSION 1000000

/*
 * Versions used by a transaction that was rolled back are not in the file, but
 * clients may have seen them; no row must get one of these again.
 */
#define RESTART_GAP 1000000

/* Statements are long and looked up for every row, so hash them by words. */
static uint64_t
hash_text(const char *s)
{
	size_t		len = strlen(s);
	uint64_t	h = 0xcbf29ce484222325ULL ^ len;
	uint64_t	word;

	for (; len >= 8; len -= 8, s += 8)
	{
		memcpy(&word, s, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, s, len);
	h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 29;
}

static struct store_stmt **
stmt_bucket(struct store_cache *cache, const sqlite3_stmt *stmt)
{
	uint64_t	h = (uint64_t) (uintptr_t) stmt * 0x9e3779b97f4a7c15ULL;

	return &cache->by_stmt[h >> 54 & (STORE_BUCKETS - 1)];
}

static void
unlink_stmt(struct store_cache *cache, struct store_stmt *entry)
{
	struct store_stmt **p;

	for (p = &cache->by_text[entry->hash & (STORE_BUCKETS - 1)]; *p != entry;)
		p = &(*p)->next_text;
	*p = entry->next_text;
	for (p = stmt_bucket(cache, entry->stmt); *p != entry;)
		p = &(*p)->next_stmt;
	*p = entry->next_stmt;
	sqlite3_finalize(entry->stmt);
	free(entry);
	cache->n--;
}

/* Forgets the free statement that has not been used for the longest time. */
static void
evict_stmt(struct store_cache *cache)
{
	struct store_stmt *oldest = NULL;
	int			i;

	for (i = 0; i < STORE_BUCKETS; i++)
	{
		struct store_stmt *entry;

		for (entry = cache->by_text[i]; entry != NULL; entry = entry->next_text)
		{
			if (!entry->busy && (oldest == NULL || entry->used < oldest->used))
				oldest = entry;
		}
	}
	if (oldest != NULL)
		unlink_stmt(cache, oldest);
}

static struct store_stmt *
prepare(struct sim_store *store, const char *sql, uint64_t hash)
{
	struct store_cache *cache = store->statements;
	struct store_stmt *entry;
	struct store_stmt **bucket;
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK ||
		stmt == NULL)
	{
		fprintf(stderr, "dvsim: SQLite refuses a statement: %s\n%s\n",
				sqlite3_errmsg(store->db), sql);
		return NULL;
	}
	if (cache->n >= STORE_STMTS)
		evict_stmt(cache);
	entry = sim_xalloc(sizeof(*entry));
	entry->stmt = stmt;
	entry->sql = sqlite3_sql(stmt);
	entry->hash = hash;
	bucket = &cache->by_text[hash & (STORE_BUCKETS - 1)];
	entry->next_text = *bucket;
	*bucket = entry;
	bucket = stmt_bucket(cache, stmt);
	entry->next_stmt = *bucket;
	*bucket = entry;
	cache->n++;
	return entry;
}

sqlite3_stmt *
sim_stmt_get(struct sim_store *store, const char *sql)
{
	struct store_cache *cache = store->statements;
	uint64_t	hash = hash_text(sql);
	struct store_stmt *entry;

	for (entry = cache->by_text[hash & (STORE_BUCKETS - 1)]; entry != NULL; entry = entry->next_text)
	{
		if (entry->hash == hash && !entry->busy && strcmp(entry->sql, sql) == 0)
			break;
	}
	if (entry == NULL)
		entry = prepare(store, sql, hash);
	if (entry == NULL)
		return NULL;
	entry->busy = true;
	entry->used = ++cache->tick;
	return entry->stmt;
}

void
sim_stmt_put(struct sim_store *store, sqlite3_stmt *stmt)
{
	struct store_stmt *entry;

	if (stmt == NULL)
		return;
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	for (entry = *stmt_bucket(store->statements, stmt); entry != NULL; entry = entry->next_stmt)
	{
		if (entry->stmt == stmt)
			entry->busy = false;
	}
}

void
sim_stmts_forget(struct sim_store *store)
{
	struct store_cache *cache = store->statements;
	int			i;

	for (i = 0; i < STORE_BUCKETS; i++)
	{
		struct store_stmt *entry = cache->by_text[i];

		while (entry != NULL)
		{
			struct store_stmt *next = entry->next_text;

			if (!entry->busy)
				unlink_stmt(cache, entry);
			entry = next;
		}
	}
}

bool
sim_exec(struct sim_store *store, const char *sql)
{
	char	   *message = NULL;

	if (sqlite3_exec(store->db, sql, NULL, NULL, &message) == SQLITE_OK)
		return true;
	fprintf(stderr, "dvsim: SQLite refuses a statement: %s\n%s\n",
			message != NULL ? message : "out of memory", sql);
	sqlite3_free(message);
	return false;
}

/* Runs a statement of the cache that has no parameters and no result. */
static bool
run(struct sim_store *store, const char *sql)
{
	sqlite3_stmt *stmt = sim_stmt_get(store, sql);
	int			rc;

	if (stmt == NULL)
		return false;
	rc = sqlite3_step(stmt);
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		fprintf(stderr, "dvsim: %s: %s\n", sql, sqlite3_errmsg(store->db));
	sim_stmt_put(store, stmt);
	return rc == SQLITE_DONE || rc == SQLITE_ROW;
}

bool
sim_begin(struct sim_store *store)
{
	if (!run(store, store->depth == 0 ? "BEGIN" : "SAVEPOINT s"))
		return false;
	store->depth++;
	return true;
}

/* The counter goes into the file with the rows that used it. */
static bool
save_version(struct sim_store *store)
{
	struct store_cache *cache = store->statements;
	sqlite3_stmt *stmt;
	int			rc;

	if (!cache->on_disk || cache->saved_version == store->version)
		return true;
	stmt = sim_stmt_get(store, "INSERT OR REPLACE INTO \"~meta\" VALUES ('version', ?)");
	if (stmt == NULL)
		return false;
	sqlite3_bind_int64(stmt, 1, store->version);
	rc = sqlite3_step(stmt);
	sim_stmt_put(store, stmt);
	cache->saved_version = store->version;
	return rc == SQLITE_DONE;
}

bool
sim_commit(struct sim_store *store)
{
	if (store->depth == 1)
	{
		if (!save_version(store) || !run(store, "COMMIT"))
			return false;
	}
	else if (!run(store, "RELEASE s"))
		return false;
	store->depth--;
	return true;
}

void
sim_rollback(struct sim_store *store)
{
	struct store_cache *cache = store->statements;

	if (store->depth == 1)
	{
		/* a full disk may have ended the transaction already */
		if (sqlite3_get_autocommit(store->db) == 0)
			run(store, "ROLLBACK");
		cache->saved_version = -1;
	}
	else
	{
		run(store, "ROLLBACK TO s");
		run(store, "RELEASE s");
	}
	store->depth--;
}

int64_t
sim_next_version(struct sim_store *store)
{
	return ++store->version;
}

static int64_t
one_number(struct sim_store *store, const char *sql, int64_t otherwise)
{
	sqlite3_stmt *stmt = sim_stmt_get(store, sql);
	int64_t		n = otherwise;

	if (stmt != NULL && sqlite3_step(stmt) == SQLITE_ROW)
		n = sqlite3_column_int64(stmt, 0);
	sim_stmt_put(store, stmt);
	return n;
}

int64_t
sim_row_count(struct sim_store *store, struct sim_table *table)
{
	char		sql[512];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM \"%s\"", table->name);
	return one_number(store, sql, 0);
}

/* Returns true if the file is empty or one of ours. */
static bool
check_file(struct sim_store *store, const char *file)
{
	struct store_cache *cache = store->statements;

	cache->on_disk = true;
	if (one_number(store, "SELECT count(*) FROM sqlite_schema", -1) == 0)
		return sim_exec(store, "PRAGMA page_size = 8192; PRAGMA application_id = 1685484397");
	if (one_number(store, "PRAGMA application_id", 0) == APPLICATION_ID)
		return true;
	fprintf(stderr, "dvsim: \"%s\" is not a data file of dvsim, or another process has it open\n",
			file);
	return false;
}

static bool
open_database(struct sim_store *store, const char *file)
{
	static const char memory_settings[] =
	"PRAGMA page_size = 8192; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
	"PRAGMA temp_store = MEMORY; PRAGMA locking_mode = EXCLUSIVE";
	static const char file_settings[] =
	"PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
	"PRAGMA temp_store = MEMORY; PRAGMA cache_size = -262144; PRAGMA wal_autocheckpoint = 4000";

	if (sqlite3_open_v2(file != NULL ? file : ":memory:", &store->db,
						SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
						NULL) != SQLITE_OK)
	{
		fprintf(stderr, "dvsim: cannot open data file \"%s\": %s\n",
				file != NULL ? file : ":memory:", sqlite3_errmsg(store->db));
		return false;
	}
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 1200, 500);
	/* renaming a table must not change the triggers of others */
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 1, NULL);
	if (!store_functions(store->db))
		return false;
	if (file == NULL)
		return sim_exec(store, memory_settings);
	return check_file(store, file) && sim_exec(store, file_settings);
}

static bool
fill(struct sim *sim, const char *file)
{
	struct sim_store *store = sim->store;
	bool		fresh;

	if (!sim_begin(store))
		return false;
	if (!store_own_tables(store) || !sim_drift_restore(sim) ||
		!store_tables(store, sim->schema, file))
		return false;
	store->version = one_number(store, "SELECT value FROM \"~meta\" WHERE name = 'version'", 0);
	fresh = store->version == 0;
	store->version = fresh ? FIRST_VERSION : store->version + RESTART_GAP;
	if ((fresh && !store_initial_rows(sim)) || !store_schema_rows(sim))
		return false;
	return sim_commit(store);
}

struct sim_store *
sim_store_open(struct sim *sim, const char *file)
{
	struct sim_store *store = sim_xalloc(sizeof(*store));

	/* no counting of memory, no locks; refused when SQLite is in use already, which is fine */
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);

	store->statements = sim_xalloc(sizeof(struct store_cache));
	sim->store = store;
	if (sim->organization_id[0] == '\0')
		sim_guid_text_of_name("organization", sim->organization_id);
	if (sim->business_unit_id[0] == '\0')
		sim_guid_text_of_name("businessunit", sim->business_unit_id);
	if (open_database(store, file))
	{
		if (fill(sim, file))
			return store;
		fprintf(stderr, "dvsim: could not use data file \"%s\": %s\n",
				file != NULL ? file : ":memory:", sqlite3_errmsg(store->db));
	}
	sim_store_close(store);
	sim->store = NULL;
	return NULL;
}

void
sim_store_close(struct sim_store *store)
{
	struct store_cache *cache;
	int			i;

	if (store == NULL)
		return;
	cache = store->statements;
	for (i = 0; i < STORE_BUCKETS; i++)
	{
		while (cache->by_text[i] != NULL)
			unlink_stmt(cache, cache->by_text[i]);
	}
	free(cache);
	sqlite3_close(store->db);
	free(store);
}

static bool
empty_tables(struct sim *sim)
{
	char		sql[512];
	int			i;

	for (i = 0; i < sim->schema->ntables; i++)
	{
		snprintf(sql, sizeof(sql), "DELETE FROM \"%s\"", sim->schema->tables[i].name);
		if (!sim_exec(sim->store, sql))
			return false;
	}
	return sim_exec(sim->store, "DELETE FROM \"~deleted\"; DELETE FROM \"~file\"; DELETE FROM \"~upload\"");
}

bool
sim_store_reset(struct sim *sim)
{
	if (!sim_begin(sim->store))
		return false;
	if (sim_drift_reset(sim) && empty_tables(sim) && sim_keys_reset(sim) && store_initial_rows(sim) && store_schema_rows(sim) &&
		sim_commit(sim->store))
		return true;
	sim_rollback(sim->store);
	return false;
}

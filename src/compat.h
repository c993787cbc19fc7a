/*
 * compat.h
 *		Every difference between PostgreSQL versions that this extension
 *		meets, each with the version and the reason.
 *
 * Include it after postgres.h and the other PostgreSQL headers.  No other
 * file asks for PG_VERSION_NUM.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_COMPAT_H
#define DV_COMPAT_H

/*
 * Before 15.2 the executor flushes pending batches of foreign inserts in the
 * wrong order (es_insert_pending_result_relations came with 15.2), which would
 * break what this extension promises about rows in flight.
 */
#if PG_VERSION_NUM < 150002
#error "dataverse_fdw needs PostgreSQL 15.2 or later"
#endif

/*
 * We build with hidden visibility and export only what the server looks up.
 * Before 16, PGDLLEXPORT says nothing to the compiler and is not in the
 * declaration that PG_FUNCTION_INFO_V1 makes.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#define DV_FUNCTION(name) \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)
#else
#define DV_FUNCTION(name) PG_FUNCTION_INFO_V1(name)
#endif

/* From 18 a module can tell its name and version (pg_get_loaded_modules). */
#if PG_VERSION_NUM >= 180000
#define DV_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "dataverse_fdw", .version = DV_VERSION)
#else
#define DV_MODULE_MAGIC PG_MODULE_MAGIC
#endif

#endif

/*
 * import.h
 *		IMPORT FOREIGN SCHEMA, and the code that it shares with
 *		import_diff().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_IMPORT_H
#define DV_IMPORT_H

#include "lib/stringinfo.h"
#include "nodes/plannodes.h"
#include "tcop/utility.h"

#include "dataverse/metadata.h"
#include "fdw/option.h"

/* Called once, when the library is loaded. */
/*
 * To be called before and after each utility statement.  The first function returns
 * a memory context, which is the current one until the second, if the statement
 * creates a foreign table for an import; otherwise NULL.
 */
extern MemoryContext dv_import_begin_table(const PlannedStmt *pstmt, ProcessUtilityContext context);
extern void dv_import_end_table(const PlannedStmt *pstmt, MemoryContext scratch);

extern List *dataverseImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverOid);

/* An option as it is stored; the value is NULL if the option is not set. */
typedef struct dv_import_option
{
	dv_option	option;
	const char *value;
} dv_import_option;

#define DV_IMPORT_TABLE_OPTIONS  6
#define DV_IMPORT_COLUMN_OPTIONS 13

/* The options of a table or a column, in the order in which they are written. */
extern void dv_import_table_options(const dv_meta_table *table,
									dv_import_option options[DV_IMPORT_TABLE_OPTIONS]);
extern void dv_import_column_options(const dv_meta_column *column,
									 dv_import_option options[DV_IMPORT_COLUMN_OPTIONS]);

/* Appends "name type OPTIONS (…) COLLATE …". */
extern void dv_import_column_sql(StringInfo sql, const dv_meta_column *column, bool lengths,
								 bool collate);

/* Returns the schema-qualified type; "lengths": a text has its maximum length. */
extern const char *dv_import_type_sql(const dv_meta_column *column, bool lengths);

#endif							/* DV_IMPORT_H */

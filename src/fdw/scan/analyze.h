/*
 * analyze.h
 *		ANALYZE: counts and samples the rows of a table.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ANALYZE_H
#define DV_ANALYZE_H

#include "foreign/fdwapi.h"

#include "fdw/relation.h"

/* The smallest number reported; it may mean that the service does not count the table. */
#define DV_FEWEST_ROWS 2

/*
 * Requests the number of rows from the service, on behalf of the role.
 * Returns at least DV_FEWEST_ROWS, since plans made for one row are terrible
 * for many, or -1 if the service does not count the table.
 */
extern double dv_remote_row_count(const dv_relation *relation, Oid userid);

/* Callbacks */
extern bool dataverseAnalyzeForeignTable(Relation rel, AcquireSampleRowsFunc *func,
										 BlockNumber *totalpages);

/* only in versions of PostgreSQL that have it (compat.h) */
extern bool dataverseImportForeignStatistics(Relation rel, List *columns, int elevel);

#endif							/* DV_ANALYZE_H */

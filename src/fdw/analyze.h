/*
 * analyze.h
 *		ANALYZE: how many rows a table has, and which of them make its sample.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ANALYZE_H
#define DV_ANALYZE_H

#include "foreign/fdwapi.h"

#include "fdw/relation.h"

/* The least that is told; it may mean that the service does not count the table. */
#define DV_FEWEST_ROWS 2

/*
 * Asks the service, on behalf of the role: one request.  Never less than
 * DV_FEWEST_ROWS, since plans made for one row are terrible for many.
 */
extern double dv_remote_row_count(const dv_relation *relation, Oid userid);

/* Callbacks */
extern bool dataverseAnalyzeForeignTable(Relation rel, AcquireSampleRowsFunc *func,
										 BlockNumber *totalpages);

/* where there is such a thing (compat.h) */
extern bool dataverseImportForeignStatistics(Relation rel, List *columns, int elevel);

#endif							/* DV_ANALYZE_H */

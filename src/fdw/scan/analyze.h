/*
 * analyze.h
 *		ANALYZE: counts and samples the rows of a table.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ANALYZE_H
#define DV_ANALYZE_H

#include "foreign/fdwapi.h"

/* Callbacks */
extern bool dataverseAnalyzeForeignTable(Relation rel, AcquireSampleRowsFunc *func,
										 BlockNumber *totalpages);

/* only in versions of PostgreSQL that have it (compat.h) */
extern bool dataverseImportForeignStatistics(Relation rel, List *columns, int elevel);

#endif							/* DV_ANALYZE_H */

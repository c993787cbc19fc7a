/*
 * analyze.h
 *		ANALYZE: which rows of a table make its sample.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ANALYZE_H
#define DV_ANALYZE_H

#include "foreign/fdwapi.h"

/* Callbacks */
extern bool dataverseAnalyzeForeignTable(Relation rel, AcquireSampleRowsFunc *func,
										 BlockNumber *totalpages);

/* where there is such a thing (compat.h) */
extern bool dataverseImportForeignStatistics(Relation rel, List *columns, int elevel);

#endif							/* DV_ANALYZE_H */

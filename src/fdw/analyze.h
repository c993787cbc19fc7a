/*
 * analyze.h
 *		ANALYZE: which rows of a table make its sample.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ANALYZE_H
#define DV_ANALYZE_H

#include "foreign/fdwapi.h"

/* Callback */
extern bool dataverseAnalyzeForeignTable(Relation rel, AcquireSampleRowsFunc *func,
										 BlockNumber *totalpages);

#endif							/* DV_ANALYZE_H */

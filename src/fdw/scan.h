/*
 * scan.h
 *		What a scan that runs tells EXPLAIN, and scans without an executor.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SCAN_H
#define DV_SCAN_H

#include "nodes/execnodes.h"

#include "client/pages.h"
#include "dataverse/query.h"
#include "fdw/relation.h"
#include "fdw/spool.h"

typedef struct dv_scan dv_scan;

extern const dv_pages_stats *dv_scan_stats(const dv_scan *scan);

/* NULL: rows are given away as they come. */
extern const dv_spool *dv_scan_spool(const dv_scan *scan);

/*
 * Of a scan that does not wait (fdw/async.c): it gave no row because an answer
 * has to come first, and not because it is at its end.
 */
extern bool dv_scan_waiting(const dv_scan *scan);

/* What it waited for has come. */
extern bool dv_scan_ready(const dv_scan *scan);

/*
 * Before the first row is written: whatever a statement reads of what it
 * writes is read now, though nobody has asked for it yet.
 */
extern void dv_scan_read_all(EState *estate);

/*
 * For ANALYZE.  "columns" has the attribute number for each column of a row,
 * 0 for one that is left out and will be null; the primary id always comes.
 */
extern dv_scan *dv_scan_open(const dv_relation *relation, Oid userid, const char *what,
							 List *columns);

/*
 * Asks for so many rows (more than none) in the order of ids, or only for the
 * id of the last one ("wanted" is 1).  What was asked before is given up.
 */
extern void dv_scan_ask(dv_scan *scan, dv_filter *filter, bool last, int64 wanted);
extern bool dv_scan_next(dv_scan *scan);

/* Of the row at hand: its columns, valid until the next, and its id. */
extern void dv_scan_row(dv_scan *scan, int natts, Datum *values, bool *isnull);
extern const dv_value *dv_scan_id(const dv_scan *scan);
extern void dv_scan_close(dv_scan *scan);

#endif							/* DV_SCAN_H */

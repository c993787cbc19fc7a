/*
 * scan.h
 *		Running scans for EXPLAIN and async.c, and scans without an executor.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SCAN_H
#define DV_SCAN_H

#include "nodes/execnodes.h"

#include "client/ranges.h"
#include "dataverse/query.h"
#include "fdw/relation.h"
#include "fdw/scan/spool.h"

typedef struct dv_scan dv_scan;

/* Includes rows that have not been read, which are counted now. */
extern const dv_pages_stats *dv_scan_stats(dv_scan *scan);

/* Returns NULL if rows are returned as they arrive. */
extern const dv_spool *dv_scan_spool(const dv_scan *scan);

/* Sets the number of parts of groups, and whether they were formed locally. */
extern void dv_scan_groups(const dv_scan *scan, int *parts, bool *locally);

/* Were the tables read instead of their join, because the service refused it? */
extern bool dv_scan_joined_here(const dv_scan *scan);

/* For EXPLAIN: is a column of a link requested to prove the names of such columns? */
extern bool dv_scan_proves(ForeignScanState *node);

/*
 * For a scan that does not wait (fdw/scan/async.c): it returned no row because it
 * needs an answer, and not because it has ended.
 */
extern bool dv_scan_waiting(const dv_scan *scan);

/* The answer that it was waiting for has arrived. */
extern bool dv_scan_ready(const dv_scan *scan);

/*
 * To be called before a statement writes its first row: completes all scans of the
 * tables that it writes, even those that have not begun.
 */
extern void dv_scan_read_all(EState *estate);

/*
 * For ANALYZE and RETURNING, with the operation that the view dataverse.progress
 * shows.  "columns" has the attribute number for each column of a row, or 0 for a
 * column that is not read and will be null; the primary id is always read.
 * "listed" is the column of dv_scan_ask_listed(), or 0.
 */
extern dv_scan *dv_scan_open(const dv_relation *relation, Oid userid, const char *operation,
							 const char *what, List *columns, AttrNumber listed);

/*
 * Requests this number of rows (negative: all) in the order of ids, or only the
 * id of the last row ("wanted" is 1).  Ends the previous request.
 */
extern void dv_scan_ask(dv_scan *scan, dv_filter *filter, bool last, int64 wanted);

/*
 * The same for all rows whose column has one of the values of an array, in as many
 * requests as it takes.  They may come with other rows.  The array lasts until the
 * last row has been read.
 */
extern void dv_scan_ask_listed(dv_scan *scan, Datum array);
extern bool dv_scan_next(dv_scan *scan);

/* The columns of the current row, valid until the next one, and its id. */
extern void dv_scan_row(dv_scan *scan, int natts, Datum *values, bool *isnull);

/* Returns false if the service has returned no id, or none that is a uuid. */
extern bool dv_scan_id(const dv_scan *scan, uint8 *id);
extern void dv_scan_close(dv_scan *scan);

#endif							/* DV_SCAN_H */

/*
 * change_log.h
 *		The log of captured changes, dataverse_private.local_changes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CHANGE_LOG_H
#define DV_CHANGE_LOG_H

#include "access/heapam.h"
#include "utils/uuid.h"

#include "sync/captured.h"

/* The number of changes written at a time, unless their values are large. */
#define DV_CHANGE_LOG_ROWS 1000

/* Changes on their way to the log.  All zeros at first, except for these: */
typedef struct dv_change_log
{
	Oid			relid;			/* of the log */
	int			capacity;		/* how many changes are collected: 2, or DV_CHANGE_LOG_ROWS */

	/* private */
	Relation	rel;			/* NULL if there has been no change yet */
	int64		number;			/* of the statement */
	BulkInsertState bulk;
	MemoryContext context;		/* of the following members */
	MemoryContext scratch;
	int			nslots;
	int			n;				/* number of slots in use */
	TupleTableSlot **slots;
	pg_uuid_t  *ids;
} dv_change_log;

/* Values in this memory stay until the change to which they belong has been written. */
extern MemoryContext dv_change_log_memory(dv_change_log *log);

/*
 * Adds a change.  "columns" and "was" must stay until it is written; "was" has the
 * values of these columns in "old", the row before the change, or is missing if there
 * was none.
 */
extern void dv_change_log_add(dv_change_log *log, const dv_captured *table, char operation,
							  const pg_uuid_t * id, Datum columns, Datum was, TupleTableSlot *old);

/* Writes the remaining changes. */
extern void dv_change_log_close(dv_change_log *log);

#endif							/* DV_CHANGE_LOG_H */

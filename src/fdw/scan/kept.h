/*
 * kept.h
 *		Rows that a scan keeps, because it may be run again with the same values.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_KEPT_H
#define DV_KEPT_H

#include "nodes/execnodes.h"

#include "fdw/scan/bind.h"

/* All zero at first; lives as long as the scan. */
typedef struct dv_kept
{
	bool		decided;		/* "wanted" is known */
	bool		wanted;			/* the scan may be run again */
	MemoryContext context;		/* of the rows; NULL: none are kept */
	MinimalTuple *rows;
	int			nrows;
	int			room;
	int			next;			/* to be returned */
	bool		complete;		/* the scan has no other rows */
	bool		again;			/* the scan runs again, perhaps with other values */
} dv_kept;

/* The scan begins to read with new values.  Keeps its rows if it may be run again. */
extern void dv_kept_begin(dv_kept *kept, ForeignScanState *node);

/* The scan is run again.  Returns false if it must begin anew, because no rows are kept. */
extern bool dv_kept_rescan(dv_kept *kept);

/*
 * Are the values of the expressions still these?  If so, the rows are returned again;
 * otherwise the scan must begin anew.
 */
extern bool dv_kept_holds(dv_kept *kept, ForeignScanState *node, List *expressions,
						  const dv_bound_value *values);

/*
 * Returns the next row, or an empty slot at the end.  Returns false if the row must be
 * read.
 */
extern bool dv_kept_next(dv_kept *kept, TupleTableSlot *slot);

/* The next row has been read; an empty slot is the end. */
extern void dv_kept_add(dv_kept *kept, TupleTableSlot *slot);

#endif							/* DV_KEPT_H */

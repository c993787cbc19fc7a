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
	bool		decided;		/* the next is known */
	bool		wanted;			/* the scan may be run again */
	MemoryContext context;		/* of the rows; NULL: none are kept */
	MinimalTuple *rows;
	int			nrows;
	int			room;
	int			next;			/* the one to be returned */
	bool		complete;		/* the scan has no other rows */
	bool		again;			/* run again; whether with the same values is not known yet */
} dv_kept;

/* A scan begins to read with new values.  Keeps its rows if it may be run again. */
extern void dv_kept_begin(dv_kept *kept, ForeignScanState *node);

/* The scan is run again.  Returns false if it has to begin anew, because rows are not kept. */
extern bool dv_kept_rescan(dv_kept *kept);

/*
 * Are these the values of the expressions, as they are now?  If so, the rows are
 * returned once more; otherwise the scan has to begin anew.
 */
extern bool dv_kept_holds(dv_kept *kept, ForeignScanState *node, List *expressions,
						  const dv_bound_value *values);

/*
 * Returns the next row, or an empty slot if there is none.  Returns false if it
 * has to be read.
 */
extern bool dv_kept_next(dv_kept *kept, TupleTableSlot *slot);

/* The next row has been read; an empty slot is the end. */
extern void dv_kept_add(dv_kept *kept, TupleTableSlot *slot);

#endif							/* DV_KEPT_H */

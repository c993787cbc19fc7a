/*
 * spool.h
 *		Rows that are all read before the first of them is given away.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SPOOL_H
#define DV_SPOOL_H

#include "executor/tuptable.h"

typedef struct dv_spool dv_spool;

/* In the current memory context. */
extern dv_spool *dv_spool_create(TupleDesc desc);

/* False while rows are wanted. */
extern bool dv_spool_is_full(const dv_spool *spool);
extern void dv_spool_put(dv_spool *spool, TupleTableSlot *slot);
extern void dv_spool_fill(dv_spool *spool);

/* The next row goes into "slot", where it is valid until the one after it; empty at the end. */
extern TupleTableSlot *dv_spool_next(dv_spool *spool, TupleTableSlot *slot);

/* From the first row again; or forget all rows. */
extern void dv_spool_rewind(dv_spool *spool);
extern void dv_spool_clear(dv_spool *spool);
extern void dv_spool_end(dv_spool *spool);

/* Did its rows not fit in work_mem? */
extern bool dv_spool_is_on_disk(const dv_spool *spool);

#endif							/* DV_SPOOL_H */

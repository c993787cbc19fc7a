/*
 * spool.h
 *		Rows that are all read before the first of them is returned.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SPOOL_H
#define DV_SPOOL_H

#include "executor/tuptable.h"

typedef struct dv_spool dv_spool;
struct ExplainState;

/* Allocated in the current memory context. */
extern dv_spool *dv_spool_create(TupleDesc desc);

/* Returns false while rows may be added. */
extern bool dv_spool_is_full(const dv_spool *spool);
extern void dv_spool_put(dv_spool *spool, TupleTableSlot *slot);
extern void dv_spool_fill(dv_spool *spool);

/*
 * Puts the next row into "slot", where it is valid until the next call; leaves
 * the slot empty at the end.
 */
extern TupleTableSlot *dv_spool_next(dv_spool *spool, TupleTableSlot *slot);

/* Start again from the first row; remove all rows. */
extern void dv_spool_rewind(dv_spool *spool);
extern void dv_spool_clear(dv_spool *spool);
extern void dv_spool_end(dv_spool *spool);

/*
 * Shows that all rows are read before the first one is returned and, if known, where
 * they were kept.  The spool is NULL if the node has not been set up.
 */
extern void dv_spool_explain(const dv_spool *spool, struct ExplainState *es);

#endif							/* DV_SPOOL_H */

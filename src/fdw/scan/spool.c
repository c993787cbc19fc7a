/*
 * spool.c
 *		Rows that are all read before the first of them is returned.
 *
 * A statement must not see its own writes.  The service has no snapshots: a row that is
 * updated between two pages may move to a page that has not been read, or away from it.
 * So a scan of a table that its statement writes reads all rows first, into memory
 * (work_mem) or a temporary file.  A join that looks up keys in such a table does the
 * same (fdw/scan/lookup.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "fdw/scan/spool.h"

struct dv_spool
{
	MemoryContext context;		/* for rows read back from disk; outlives the executor's per-tuple
								 * memory */
	Tuplestorestate *store;
	TupleTableSlot *slot;		/* for rows in the form in which they are stored */
	bool		full;
	bool		on_disk;		/* when it was last checked */
};

dv_spool *
dv_spool_create(TupleDesc desc)
{
	dv_spool   *spool = palloc0(sizeof(*spool));

	spool->context = CurrentMemoryContext;
	spool->store = tuplestore_begin_heap(false, false, work_mem);
	spool->slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	return spool;
}

bool
dv_spool_is_full(const dv_spool *spool)
{
	return spool->full;
}

void
dv_spool_put(dv_spool *spool, TupleTableSlot *slot)
{
	tuplestore_puttupleslot(spool->store, slot);
}

void
dv_spool_fill(dv_spool *spool)
{
	spool->full = true;
	spool->on_disk = !tuplestore_in_memory(spool->store);
}

TupleTableSlot *
dv_spool_next(dv_spool *spool, TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(spool->context);
	bool		copied;

	ExecClearTuple(slot);
	if (tuplestore_gettupleslot(spool->store, true, false, spool->slot))
		ExecForceStoreMinimalTuple(ExecFetchSlotMinimalTuple(spool->slot, &copied), slot, false);
	MemoryContextSwitchTo(old);
	return slot;
}

void
dv_spool_rewind(dv_spool *spool)
{
	tuplestore_rescan(spool->store);
}

void
dv_spool_clear(dv_spool *spool)
{
	ExecClearTuple(spool->slot);
	tuplestore_clear(spool->store);
	spool->full = false;
}

void
dv_spool_end(dv_spool *spool)
{
	ExecDropSingleTupleTableSlot(spool->slot);
	tuplestore_end(spool->store);
}

void
dv_spool_explain(const dv_spool *spool, ExplainState *es)
{
	ExplainPropertyText("Spooled", !es->analyze || spool == NULL || !spool->full ?
						"before the first write" :
						spool->on_disk ? "on disk" : "in memory", es);
}

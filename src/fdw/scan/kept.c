/*
 * kept.c
 *		Rows that a scan keeps, because it may be run again with the same values.
 *
 * PostgreSQL runs a scan again for each row of an outer query or of the outer
 * side of a nested loop.  A scan of a local table is cheap, and finds the same rows
 * each time, since the statement has a snapshot.  The service has no snapshots, and a
 * request takes some milliseconds.  So the rows are kept in memory, up to work_mem, and
 * returned again while the values in the request are the same, whether or not
 * PostgreSQL has set their parameters again.  If there are more rows, they are requested
 * again.
 *
 * The scan need not have reached its end: the kept rows are returned first, and then
 * reading continues where it stopped.
 *
 * Tables that the statement writes are read as a whole (fdw/scan/spool.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "fdw/scan/evaluate.h"
#include "fdw/scan/kept.h"
#include "fdw/scan/wanted.h"

static void
forget(dv_kept *kept)
{
	if (kept->context != NULL)
		MemoryContextDelete(kept->context);
	kept->context = NULL;
	kept->nrows = kept->next = 0;
	kept->complete = kept->again = false;
}

void
dv_kept_begin(dv_kept *kept, ForeignScanState *node)
{
	forget(kept);
	if (!kept->decided)
		kept->wanted = dv_wanted_of(&node->ss.ps).again;
	kept->decided = true;
	if (!kept->wanted)
		return;
	kept->context = AllocSetContextCreate(node->ss.ps.state->es_query_cxt, "dataverse rows",
										  ALLOCSET_DEFAULT_SIZES);
	kept->room = 64;
	kept->rows = MemoryContextAlloc(kept->context, sizeof(MinimalTuple) * kept->room);
}

bool
dv_kept_rescan(dv_kept *kept)
{
	kept->again = kept->context != NULL;
	return kept->again;
}

static bool
are_equal(const dv_bound_value *a, const dv_bound_value *b)
{
	int16		typlen;
	bool		typbyval;

	if (a->isnull || b->isnull)
		return a->isnull && b->isnull;
	get_typlenbyval(a->type, &typlen, &typbyval);
	return datumIsEqual(a->value, b->value, typbyval, typlen);
}

bool
dv_kept_holds(dv_kept *kept, ForeignScanState *node, List *expressions,
			  const dv_bound_value *values)
{
	int			n = list_length(expressions);
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "dataverse values",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(scratch);
	dv_bound_value *now = palloc(sizeof(*now) * Max(n, 1));
	int			i;

	memcpy(now, values, sizeof(*now) * n);
	dv_evaluate(expressions, node, now);
	for (i = 0; i < n && are_equal(&now[i], &values[i]);)
		i++;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
	kept->again = false;
	kept->next = 0;
	return i == n;
}

bool
dv_kept_next(dv_kept *kept, TupleTableSlot *slot)
{
	if (kept->context == NULL || (kept->next == kept->nrows && !kept->complete))
		return false;
	ExecClearTuple(slot);
	if (kept->next < kept->nrows)
		ExecForceStoreMinimalTuple(kept->rows[kept->next++], slot, false);
	return true;
}

void
dv_kept_add(dv_kept *kept, TupleTableSlot *slot)
{
	MemoryContext old;

	if (kept->context == NULL)
		return;
	if (TTS_EMPTY(slot))
	{
		kept->complete = true;
		return;
	}
	old = MemoryContextSwitchTo(kept->context);
	if (kept->nrows == kept->room)
	{
		kept->room *= 2;
		kept->rows = repalloc_huge(kept->rows, sizeof(MinimalTuple) * kept->room);
	}
	kept->rows[kept->nrows++] = ExecCopySlotMinimalTuple(slot);
	kept->next = kept->nrows;
	MemoryContextSwitchTo(old);
	if (MemoryContextMemAllocated(kept->context, false) > (Size) work_mem * 1024)
		forget(kept);
}

/*
 * drain.c
 *		Decides when a statement waits for the rows that are under way.
 *
 * Rows are sent while the statement continues, so some are still under way at
 * its end.  EndForeignModify is too late to wait for them: by then PostgreSQL
 * has counted the rows for the command tag, fired the AFTER triggers, and
 * printed EXPLAIN ANALYZE.  Therefore hooks (statement.c) wait for them: after
 * ExecutorRun, and before and after ExecutorFinish, which completes
 * modifications in WITH and fires triggers.
 *
 * While the statement runs, it waits for rows on which something else depends:
 * another modification of the statement, which gets them from WITH and may write
 * references to them, or statements of functions and triggers, which must see
 * the changes that were made before they began.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"

#include "client/ledger.h"
#include "compat.h"
#include "fdw/modify/modify.h"

static dlist_head modifications = DLIST_STATIC_INIT(modifications);

static void
forget(void *arg)
{
	dlist_delete(&((dv_modify *) arg)->drain.node);
}

/* A modification in WITH can get rows only from those before it; the main one comes last. */
static int
rank_of(const ModifyTableState *mtstate)
{
	const List *subplans = mtstate->ps.state->es_subplanstates;
	ListCell   *lc;

	foreach(lc, subplans)
		if (lfirst(lc) == mtstate)
			return foreach_current_index(lc);
	/* a modification that is being initialized will be appended to the list */
	return list_length(subplans);
}

void
dv_drain_register(dv_modify *m, ModifyTableState *mtstate)
{
	const ModifyTable *node = (const ModifyTable *) mtstate->ps.plan;
	MemoryContextCallback *callback = MemoryContextAllocZero(m->context, sizeof(*callback));

	m->drain.mtstate = node != NULL ? mtstate : NULL;
	m->drain.counts = mtstate->canSetTag;
	m->drain.feeds = !m->drain.counts && node != NULL && node->returningLists != NIL;
	m->drain.rank = rank_of(mtstate);
	dlist_push_tail(&modifications, &m->drain.node);
	callback->func = forget;
	callback->arg = m;
	MemoryContextRegisterResetCallback(m->context, callback);
}

void
dv_drain_resume(dv_modify *m)
{
	m->drain.elsewhere = false;
	dv_refused_file_held(m);
}

/*
 * Waits for all rows of a modification.  Returns the number of rows that have
 * been counted since the last call but were not written.  It is negative if
 * rows were written that the executor has not counted, because they were not
 * returned to it (pending.c).  "elsewhere" means that another statement waits;
 * it holds until this one continues.
 */
static int64
drain(dv_modify *m, bool elsewhere)
{
	MemoryContext old;
	int64		excess;
	int64		ignored;

	if (m->writer == NULL)
		return 0;
	old = MemoryContextSwitchTo(m->row_context);
	m->drain.elsewhere = elsewhere;
	dv_writer_drain(m->writer);
	if (!elsewhere)
		dv_refused_file_held(m);
	MemoryContextSwitchTo(old);

	excess = m->drain.counted - m->drain.corrected - dv_writer_written(m->writer);
	m->drain.corrected += excess;
	/* the executor would have counted rows that exist already */
	ignored = dv_writer_tally(m->writer)->fates[DV_FATE_IGNORED];
	if (m->drain.mtstate != NULL)
		InstrCountTuples2(m->drain.mtstate, ignored - m->drain.ignored);
	m->drain.ignored = ignored;
	if (!m->drain.counts)
		return 0;
	m->estate->es_processed -= excess;
	return excess;
}

void
dv_drain(dv_modify *m)
{
	/* the executor has already added the rows of this run to the total */
	dv_correct_total(m->estate, drain(m, false));
}

static bool
may_feed(const dv_modify *other, const dv_modify *m)
{
	/* rows that are kept until they are settled exist when they are returned */
	return other->drain.feeds && other->pending.projection == NULL &&
		other->estate == m->estate && other->drain.rank < m->drain.rank &&
		other->relation->serverid == m->relation->serverid;
}

bool
dv_drain_is_fed(void *arg)
{
	const dv_modify *m = arg;
	dlist_iter	iter;

	dlist_foreach(iter, &modifications)
	{
		const dv_modify *other = dlist_container(dv_modify, drain.node, iter.cur);

		if (may_feed(other, m) && other->writer != NULL && !dv_writer_is_settled(other->writer))
			return true;
	}
	return false;
}

void
dv_drain_feeding(void *arg)
{
	const dv_modify *m = arg;
	dlist_iter	iter;

	dlist_foreach(iter, &modifications)
	{
		dv_modify  *other = dlist_container(dv_modify, drain.node, iter.cur);

		if (may_feed(other, m))
			(void) drain(other, m->drain.elsewhere);
	}
}

void
dv_drain_visible(const EState *estate, const dv_relation *relation)
{
	dlist_iter	iter;

	dlist_foreach(iter, &modifications)
	{
		dv_modify  *m = dlist_container(dv_modify, drain.node, iter.cur);

		if (m->estate != estate && m->writer != NULL && dv_writer_is_open(m->writer) &&
			m->relation->serverid == relation->serverid &&
			strcmp(m->relation->table, relation->table) == 0 &&
			(estate->es_snapshot == InvalidSnapshot ||
			 estate->es_snapshot->curcid > m->estate->es_output_cid))
			(void) drain(m, true);
	}
}

/* An error leaves the list intact: each modification is removed with its memory. */
void
dv_drain_statement(const EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &modifications)
	{
		dv_modify  *m = dlist_container(dv_modify, drain.node, iter.cur);

		if (m->estate == estate)
			dv_drain(m);
	}
}

static bool
writes(const EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &modifications)
		if (dlist_container(dv_modify, drain.node, iter.cur)->estate == estate)
			return true;
	return false;
}

void
dv_drain_routed(const ModifyTableState *mtstate, void (*show) (const dv_modify *m, void *arg),
				void *arg)
{
	dlist_iter	iter;

	dlist_foreach(iter, &modifications)
	{
		const dv_modify *m = dlist_container(dv_modify, drain.node, iter.cur);

		if (m->drain.mtstate == mtstate && m->refusal.routed && m->writer != NULL)
			show(m, arg);
	}
}

/*
 * The executor completes modifications in WITH that were not read to their end
 * right before it fires triggers.  The triggers must find the rows written, so
 * we complete the modifications before the executor does.
 */
static void
complete(EState *estate)
{
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	ListCell   *lc;

	estate->es_direction = ForwardScanDirection;
	foreach(lc, estate->es_auxmodifytables)
	{
		TupleTableSlot *slot;

		do
		{
			ResetPerTupleExprContext(estate);
			slot = ExecProcNode(lfirst(lc));
		} while (!TupIsNull(slot));
	}
	MemoryContextSwitchTo(old);
}

void
dv_drain_complete(EState *estate)
{
	if (writes(estate))
		complete(estate);
	dv_drain_statement(estate);
}

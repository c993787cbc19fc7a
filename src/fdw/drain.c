/*
 * drain.c
 *		When what is under way must have come to its end.
 *
 * Rows are sent while the statement goes on, so at its end some are still
 * under way.  PostgreSQL has a place for what it does at the end of a
 * modification, but it is too late: by then it has counted rows for the
 * command's tag, fired the triggers AFTER, and printed EXPLAIN ANALYZE.
 * Hence the hooks: rows are waited for when the executor has run, and before
 * and after it finishes (which completes modifications in WITH and fires
 * triggers).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"

#include "compat.h"
#include "fdw/modify.h"

static dlist_head modifications = DLIST_STATIC_INIT(modifications);
static ExecutorRun_hook_type next_run = NULL;
static ExecutorFinish_hook_type next_finish = NULL;

static void
forget(void *arg)
{
	dlist_delete(&((dv_modify *) arg)->node);
}

void
dv_drain_register(dv_modify *m)
{
	MemoryContextCallback *callback = MemoryContextAllocZero(m->context, sizeof(*callback));

	dlist_push_tail(&modifications, &m->node);
	callback->func = forget;
	callback->arg = m;
	MemoryContextRegisterResetCallback(m->context, callback);
}

void
dv_drain(dv_modify *m)
{
	MemoryContext old;
	int64		excess;

	if (m->writer == NULL)
		return;
	old = MemoryContextSwitchTo(m->row);
	dv_writer_drain(m->writer);
	MemoryContextSwitchTo(old);

	/* rows that were counted when they came and have not been written */
	excess = m->returned - m->corrected - dv_writer_ledger(m->writer)->acknowledged;
	if (m->counts && excess > 0)
	{
		m->estate->es_processed -= excess;
		dv_correct_total(m->estate, excess);
	}
	m->corrected += excess;
}

/* What raises here leaves the list as it is: the modifications go with their memory. */
static void
drain_all(const EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &modifications)
	{
		dv_modify  *m = dlist_container(dv_modify, node, iter.cur);

		if (m->estate == estate)
			dv_drain(m);
	}
}

static void
run(DV_EXECUTOR_RUN_PARAMETERS)
{
	if (next_run != NULL)
		next_run(DV_EXECUTOR_RUN_ARGUMENTS);
	else
		standard_ExecutorRun(DV_EXECUTOR_RUN_ARGUMENTS);
	drain_all(queryDesc->estate);
}

static void
finish(QueryDesc * queryDesc)
{
	drain_all(queryDesc->estate);
	if (next_finish != NULL)
		next_finish(queryDesc);
	else
		standard_ExecutorFinish(queryDesc);
	drain_all(queryDesc->estate);
}

void
dv_drain_init(void)
{
	next_run = ExecutorRun_hook;
	ExecutorRun_hook = run;
	next_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish;
}

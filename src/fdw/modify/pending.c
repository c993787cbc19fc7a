/*
 * pending.c
 *		Rows that RETURNING returns once it is known that they were written.
 *
 * PostgreSQL evaluates RETURNING as soon as the callback has returned the row.
 * At that time the row is usually in a batch that has not been sent yet.  If
 * the row may still be refused, ignored, or found missing, or if its values are
 * in the answer of the service, this module keeps it instead, and its batch
 * goes on filling.
 *
 * The callback that takes a kept row returns no row, so PostgreSQL passes the
 * next one.  When the first of the kept rows is settled, the callback makes
 * ExecModifyTable return: it returns a row, for which an empty list is
 * evaluated in place of RETURNING.  The node's ExecProcNode function, which is
 * replaced by one in this file, discards the empty result, evaluates RETURNING
 * for the rows that were written, and returns these.  At the end of the input,
 * it waits for the remaining rows.
 *
 * Rows that have to be read back are returned when there are enough of them to
 * be worth a request, or when nothing else is left to do.
 *
 * Rows are returned in the order in which they were taken.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "fdw/modify/modify.h"
#include "fdw/statement.h"

/*
 * Bytes of kept rows.  Rows that have been written are kept while an earlier one
 * is being sent again; beyond this size they wait for it.
 */
#define KEPT_MAX ((size_t) 32 * 1024 * 1024)

struct dv_pending_row
{
	dv_modify_outcome outcome;	/* must be first: the writer uses it as the owner */
	dlist_node	node;
	dv_modify  *m;
	size_t		size;
	dv_modify_written written;
	HeapTuple	old;			/* of an UPDATE, if RETURNING refers to it; or NULL */
	MinimalTuple plan;			/* of the subplan, if RETURNING refers to it; or NULL */
};

/* The rows of one ModifyTable node, which may write to several tables. */
struct dv_pending
{
	dlist_node	node;			/* in the list of this backend's nodes */
	MemoryContext context;
	ModifyTableState *mtstate;
	ExecProcNodeMtd next_row;	/* ExecModifyTable */
	bool		running;		/* it was called through this file */
	bool		ended;			/* its input has ended */
	dlist_head	rows;
	size_t		size;			/* of all kept rows */
	int			nsettled;		/* of them */
	bool		full;			/* they are returned until one of them is not settled */
	ProjectionInfo *pause;		/* evaluates nothing; NULL until a row is kept */
};

static dlist_head nodes = DLIST_STATIC_INIT(nodes);

/*
 * Preparing
 */

static void
forget(void *arg)
{
	dlist_delete(&((dv_pending *) arg)->node);
}

static dv_pending *
find(const PlanState * state)
{
	dlist_iter	iter;

	dlist_foreach(iter, &nodes)
	{
		dv_pending *p = dlist_container(dv_pending, node, iter.cur);

		if (&p->mtstate->ps == state)
			return p;
	}
	return NULL;
}

static dv_pending *
create(ModifyTableState *mtstate)
{
	MemoryContext context = AllocSetContextCreate(mtstate->ps.state->es_query_cxt,
												  "dataverse rows to return",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));
	dv_pending *p = MemoryContextAllocZero(context, sizeof(*p));

	p->context = context;
	p->mtstate = mtstate;
	dlist_init(&p->rows);
	dlist_push_head(&nodes, &p->node);
	callback->func = forget;
	callback->arg = p;
	MemoryContextRegisterResetCallback(context, callback);
	return p;
}

static TupleTableSlot *next_row(PlanState * state);

/*
 * While the node is being initialized, its function is not in use yet.  Later,
 * when rows are routed to a partition, it is being executed, and the new one
 * takes effect with the next call.
 */
static void
wrap(dv_pending *p)
{
	PlanState  *state = &p->mtstate->ps;

	if (state->ExecProcNodeReal == NULL)
	{
		p->next_row = state->ExecProcNode;
		state->ExecProcNode = next_row;
	}
	else
	{
		p->next_row = state->ExecProcNodeReal;
		ExecSetExecProcNode(state, next_row);
	}
}

/*
 * Returns true if rows are uncertain, or some of their values unknown, until
 * they are settled.  Rows that are needed as soon as they are written cannot
 * be kept.
 */
static bool
is_of_use(const dv_modify *m, const dv_modify_plan *plan, const ModifyTable *node)
{
	if (node == NULL || node->returningLists == NIL || plan->at_once ||
		plan->command != node->operation)
		return false;
	return m->ignore || m->refusal.go_on || plan->command != CMD_INSERT ||
		m->returned.read != NIL || (m->returned.new_id && !m->identity.make_ids);
}

void
dv_pending_prepare(dv_modify *m, const dv_modify_plan *plan, ModifyTableState *mtstate)
{
	ListCell   *lc;

	if (!is_of_use(m, plan, (const ModifyTable *) mtstate->ps.plan))
		return;
	m->pending.of = find(&mtstate->ps);
	if (m->pending.of == NULL)
	{
		m->pending.of = create(mtstate);
		wrap(m->pending.of);
	}
	if (m->returned.read != NIL)
		m->pending.columns = dv_read_back_columns(m);
	foreach(lc, plan->returned)
		m->pending.columns = bms_add_member(m->pending.columns, lfirst_int(lc));
}

static bool
refers_to_plan(const List *returning)
{
	Bitmapset  *columns = NULL;

	pull_varattnos((Node *) returning, OUTER_VAR, &columns);
	return !bms_is_empty(columns);
}

/* Takes the evaluation of RETURNING over from the executor. */
static void
take_over(dv_modify *m, const TupleTableSlot *planSlot)
{
	dv_pending *p = m->pending.of;
	dv_modify_pending *own = &m->pending;
	EState	   *estate = m->estate;
	ProjectionInfo *projection = m->rinfo->ri_projectReturning;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	own->slot = ExecInitExtraTupleSlot(estate, m->desc, &TTSOpsHeapTuple);
	own->old_slot = ExecInitExtraTupleSlot(estate, m->desc, &TTSOpsHeapTuple);
	own->uses_old = m->command == CMD_UPDATE && dv_returning_uses_old(projection);
	/* the expressions were prepared for slots of this kind */
	if (m->command != CMD_INSERT && refers_to_plan(m->rinfo->ri_returningList))
		own->plan_slot = ExecInitExtraTupleSlot(estate, planSlot->tts_tupleDescriptor,
												planSlot->tts_ops);
	if (p->pause == NULL)
		p->pause = ExecBuildProjectionInfo(NIL, projection->pi_exprContext,
										   ExecInitExtraTupleSlot(estate, ExecTypeFromTL(NIL),
																  &TTSOpsVirtual),
										   &p->mtstate->ps, NULL);
	own->projection = projection;
	m->rinfo->ri_projectReturning = p->pause;
	MemoryContextSwitchTo(old);
}

/*
 * Taking rows
 */

static void
remove_row(dv_pending_row *kept)
{
	dv_pending *p = kept->m->pending.of;

	dlist_delete(&kept->node);
	p->size -= kept->size;
	p->nsettled -= kept->outcome.settled;
}

dv_pending_row *
dv_pending_begin(dv_modify *m, const TupleTableSlot *planSlot)
{
	dv_pending *p = m->pending.of;
	dv_pending_row *kept;

	if (p == NULL)
		return NULL;
	if (m->pending.projection == NULL)
	{
		/* a caller that asks for a number of rows expects that no others are written */
		if (!p->running || (m->drain.counts && dv_statement_is_limited(m->estate)))
			return NULL;
		take_over(m, planSlot);
	}
	kept = MemoryContextAllocZero(p->context, sizeof(*kept));
	kept->m = m;
	kept->outcome.counter = &p->nsettled;
	dlist_push_tail(&p->rows, &kept->node);
	return kept;
}

void
dv_pending_forget(dv_pending_row *kept)
{
	remove_row(kept);
	pfree(kept);
}

void
dv_pending_settled(void *owner, const dv_batch_row *row, dv_fate fate)
{
	dv_modify_outcome *outcome = owner;

	if (outcome->counter != NULL && !outcome->settled)
		(*outcome->counter)++;
	outcome->settled = true;
	outcome->written = dv_fate_rules[fate].written;
	outcome->has_id = row->has_id;
	memcpy(outcome->id, row->id, DV_ID_LEN);
}

/* Copies the columns of the row that are used later. */
static HeapTuple
copy_row(const dv_modify *m, TupleTableSlot *slot)
{
	bool	   *isnull;
	HeapTuple	tuple;
	int			i;

	if (TTS_EMPTY(slot))
		return NULL;
	if (m->command == CMD_DELETE)
		return ExecCopySlotHeapTuple(slot);
	slot_getallattrs(slot);
	isnull = palloc(sizeof(bool) * m->desc->natts);
	for (i = 0; i < m->desc->natts; i++)
		isnull[i] = slot->tts_isnull[i] || !bms_is_member(i + 1, m->pending.columns);
	tuple = heap_form_tuple(m->desc, slot->tts_values, isnull);
	pfree(isnull);
	return tuple;
}

/* Waits for the first of the kept rows, and for all others of its table. */
static void
settle_first(dv_pending *p)
{
	dv_pending_row *first = dlist_head_element(dv_pending_row, node, &p->rows);
	MemoryContext old;

	dv_drain_resume(first->m);
	old = MemoryContextSwitchTo(first->m->row_context);
	dv_writer_drain(first->m->writer);
	MemoryContextSwitchTo(old);
	Assert(first->outcome.settled);
}

static bool
has_to_be_read(const dv_pending_row *kept)
{
	return kept->outcome.written && kept->m->returned.read != NIL && !kept->written.complete;
}

/* At the end of the input, rows are read back when no more of them are under way. */
static bool
can_return_first(const dv_pending *p)
{
	dlist_head *rows = unconstify(dlist_head *, &p->rows);
	const dv_pending_row *first = dlist_head_element(dv_pending_row, node, rows);

	return first->outcome.settled &&
		(!has_to_be_read(first) || p->nsettled >= DV_READ_BACK_ROWS || p->full ||
		 (p->ended && dv_writer_is_settled(first->m->writer)));
}

static size_t
size_of(HeapTuple tuple)
{
	return tuple != NULL ? HEAPTUPLESIZE + tuple->t_len : 0;
}

bool
dv_pending_keep(dv_pending_row *kept, TupleTableSlot *slot, TupleTableSlot *planSlot,
				const dv_modify_row *row)
{
	dv_modify  *m = kept->m;
	dv_pending *p = m->pending.of;
	MemoryContext old;

	kept->written.row = *row;
	/* these do not live as long, and are not needed to read a row back */
	kept->written.row.address = kept->written.row.line = kept->written.row.second = NULL;
	kept->written.row.key_members = kept->written.row.fold = NULL;
	kept->written.row.no_partition = true;
	old = MemoryContextSwitchTo(m->row_context);
	slot = dv_return_known(m, slot, planSlot);
	MemoryContextSwitchTo(p->context);
	kept->written.tuple = copy_row(m, slot);
	if (m->pending.uses_old)
		kept->old = ExecCopySlotHeapTuple(m->rinfo->ri_oldTupleSlot);
	if (m->pending.plan_slot != NULL)
		kept->plan = ExecCopySlotMinimalTuple(planSlot);
	MemoryContextSwitchTo(old);

	kept->size = sizeof(*kept) + size_of(kept->written.tuple) + size_of(kept->old) +
		(kept->plan != NULL ? kept->plan->t_len : 0);
	p->size += kept->size;
	if (p->size > KEPT_MAX)
	{
		settle_first(p);
		p->full = true;
	}
	return can_return_first(p);
}

/*
 * Returning rows
 */

/* Reads the first of the kept rows back, together with the settled rows behind it. */
static void
read_first(dv_pending *p)
{
	dv_modify  *m = dlist_head_element(dv_pending_row, node, &p->rows)->m;
	MemoryContext old;
	List	   *rows = NIL;
	dlist_iter	iter;

	MemoryContextReset(m->row_context);
	old = MemoryContextSwitchTo(m->row_context);
	dlist_foreach(iter, &p->rows)
	{
		dv_pending_row *kept = dlist_container(dv_pending_row, node, iter.cur);

		if (!kept->outcome.settled || list_length(rows) == DV_READ_BACK_ROWS)
			break;
		if (kept->m != m || !has_to_be_read(kept))
			continue;
		dv_return_learn(m, &kept->written.row, &kept->outcome);
		rows = lappend(rows, &kept->written);
	}
	dv_read_back(m, rows, p->context);
	MemoryContextSwitchTo(old);
}

static void
free_row(dv_pending_row *kept)
{
	if (kept->written.tuple != NULL)
		heap_freetuple(kept->written.tuple);
	if (kept->old != NULL)
		heap_freetuple(kept->old);
	if (kept->plan != NULL)
		pfree(kept->plan);
	pfree(kept);
}

/* From now on, the slots own the tuples. */
static void
fill_slots(dv_pending_row *kept)
{
	dv_modify_pending *own = &kept->m->pending;

	if (kept->written.tuple != NULL)
		ExecForceStoreHeapTuple(kept->written.tuple, own->slot, true);
	else
		ExecStoreAllNullTuple(own->slot);
	if (kept->old != NULL)
		ExecForceStoreHeapTuple(kept->old, own->old_slot, true);
	if (kept->plan != NULL)
		ExecForceStoreMinimalTuple(kept->plan, own->plan_slot, true);
}

/* Does what the executor would have done right after the row was taken. */
static TupleTableSlot *
evaluate(dv_pending_row *kept)
{
	dv_modify  *m = kept->m;
	dv_modify_pending *own = &m->pending;
	ExprContext *econtext = own->projection->pi_exprContext;
	TupleTableSlot *slot;
	MemoryContext old;

	ResetExprContext(econtext);
	MemoryContextReset(m->row_context);
	fill_slots(kept);
	dv_return_learn(m, &kept->written.row, &kept->outcome);
	old = MemoryContextSwitchTo(m->row_context);
	slot = m->command == CMD_DELETE ? dv_return_system_columns(m, own->slot) :
		dv_return_row(m, own->slot, &kept->written);
	if (own->uses_old)
		(void) dv_return_system_columns(m, own->old_slot);
	MemoryContextSwitchTo(old);
	slot->tts_tableOid = m->relation->relid;
	econtext->ecxt_scantuple = slot;
	econtext->ecxt_outertuple = own->plan_slot;
	dv_returning_set_rows(own->projection, econtext, m->estate, m->rinfo,
						  m->command == CMD_DELETE ? slot : own->uses_old ? own->old_slot : NULL,
						  m->command == CMD_DELETE ? NULL : slot);
	if (kept->written.read != NULL)
		heap_freetuple(kept->written.read);
	pfree(kept);
	return ExecProject(own->projection);
}

/* Returns the next kept row that has been written, or NULL if none is known to be. */
static TupleTableSlot *
next_kept(dv_pending *p)
{
	while (!dlist_is_empty(&p->rows))
	{
		dv_pending_row *first = dlist_head_element(dv_pending_row, node, &p->rows);

		if (can_return_first(p))
		{
			if (has_to_be_read(first))
				read_first(p);
			remove_row(first);
			if (first->outcome.written)
				return evaluate(first);
			free_row(first);
		}
		else if (p->ended)
			settle_first(p);
		else
			break;
	}
	p->full = false;
	return NULL;
}

/* The node's ExecProcNode function. */
static TupleTableSlot *
next_row(PlanState * state)
{
	dv_pending *p = find(state);

	for (;;)
	{
		TupleTableSlot *slot = next_kept(p);

		if (slot != NULL || p->ended)
			return slot;
		p->running = true;
		slot = p->next_row(state);
		p->running = false;
		if (TupIsNull(slot))
			p->ended = true;
		else if (p->pause == NULL || slot != p->pause->pi_state.resultslot)
			return slot;
	}
}

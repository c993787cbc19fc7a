/*
 * lookup.c
 *		Executes joins that request many keys at once (see fdw/plan/plan_lookup.c).
 *
 * Outer rows are read into a batch, which is bounded in memory and in the number
 * of its distinct keys.  The keys become the list of the inner scan, which is
 * scanned again for each batch, and each row that it returns is looked up in a
 * hash table of the batch.  So neither side is ever kept completely, and outer
 * rows without a match are known at the end of their batch.
 *
 * The hash table only suggests pairs: the join clauses decide, including the one
 * that provides the keys.
 *
 * If few rows of the join are probably wanted, the first batches are small.
 *
 * If the statement writes the table of the inner side, the whole join is read
 * before its first row is returned (fdw/scan/spool.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

#include "compat.h"
#include "fdw/plan/plan.h"
#include "fdw/result_relation.h"
#include "fdw/scan/lookup.h"
#include "fdw/scan/spool.h"
#include "fdw/scan/wanted.h"

/* the factor by which batches grow if the first one was small */
#define GROWTH 4

/* An outer row. */
typedef struct batch_row
{
	struct batch_row *next;		/* in the batch */
	struct batch_row *next_alike;	/* with the same key */
	bool		matched;
	MinimalTuple tuple;
} batch_row;

/* A key, with the rows that have it. */
typedef struct batch_key
{
	struct batch_key *next;		/* in the batch */
	struct batch_key *next_in_bucket;
	uint32		hash;
	Datum		value;
	batch_row  *rows;
	batch_row  *last;
} batch_key;

typedef enum join_phase
{
	JOIN_READS_OUTER,
	JOIN_READS_INNER,
	JOIN_RETURNS_UNMATCHED,
} join_phase;

typedef struct join_state
{
	CustomScanState css;		/* must be the first member */
	JoinType	type;
	PlanState  *outer;
	PlanState  *inner;
	int			nouter;			/* columns of the outer side in the scan tuple */
	TupleTableSlot *row;		/* an outer row of the batch */

	/* the clause that gives the keys, and all of them */
	ExprState  *outer_key;
	ExprState  *inner_key;
	ExprState  *clauses;
	FmgrInfo	outer_hash;
	FmgrInfo	inner_hash;
	FmgrInfo	equal;			/* compares two outer keys */
	Oid			collation;
	Oid			type_of_key;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	join_phase	phase;
	bool		outer_ended;
	double		most_rows;		/* of the next batch; 0: not known yet */

	MemoryContext context;		/* of the batch */
	batch_key **buckets;
	batch_key  *first_key;
	int			nkeys;
	batch_row  *first_row;
	batch_row  *last_row;
	double		nrows;
	double		unmatched;		/* number of rows that have a key but no match */
	size_t		bytes;
	batch_key  *found;			/* a key whose rows are compared with the inner one, */
	batch_row  *candidate;		/* and the next of them */
	batch_row  *returned;		/* the next row, which is returned if it has no match */

	dv_spool   *spool;			/* of scan tuples; used if the statement writes the table of the
								 * inner side, else NULL */

	/* for EXPLAIN */
	int64		batches;
	int64		keys;
} join_state;

/* Does a row that has no match appear in the result? */
static bool
keeps_unmatched(const join_state *j)
{
	return j->type == JOIN_LEFT || j->type == JOIN_ANTI;
}

/* Does the first match of a row suffice? */
static bool
needs_one_match(const join_state *j)
{
	return j->type == JOIN_SEMI || j->type == JOIN_ANTI;
}

/*
 * The scan tuple
 */

/* Copies the columns of a row (NULL: only nulls) to one side of the scan tuple. */
static void
set_half(join_state *j, int first, int natts, TupleTableSlot *row)
{
	TupleTableSlot *slot = j->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (row == NULL)
		memset(slot->tts_isnull + first, true, natts * sizeof(bool));
	else
	{
		slot_getallattrs(row);
		memcpy(slot->tts_values + first, row->tts_values, natts * sizeof(Datum));
		memcpy(slot->tts_isnull + first, row->tts_isnull, natts * sizeof(bool));
	}
	ExecStoreVirtualTuple(slot);
}

static void
set_outer(join_state *j, TupleTableSlot *row)
{
	set_half(j, 0, j->nouter, row);
}

static void
set_inner(join_state *j, TupleTableSlot *row)
{
	set_half(j, j->nouter, j->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - j->nouter, row);
}

static void
set_batch_row(join_state *j, const batch_row *row)
{
	ExecStoreMinimalTuple(row->tuple, j->row, false);
	set_outer(j, j->row);
}

/*
 * Reading the outer side
 */

static void
empty_batch(join_state *j)
{
	MemoryContextReset(j->context);
	memset(j->buckets, 0, DV_LOOKUP_BUCKETS * sizeof(batch_key *));
	j->first_key = NULL;
	j->nkeys = 0;
	j->first_row = NULL;
	j->last_row = NULL;
	j->nrows = 0;
	j->unmatched = 0;
	j->bytes = 0;
	j->candidate = NULL;
	/* the rows of the scan tuple have been freed */
	set_outer(j, NULL);
	set_inner(j, NULL);
}

/* Returns how many rows the first batch should have. */
static double
first_rows(const join_state *j)
{
	double		wanted = j->spool != NULL ? -1 : dv_wanted_of(&j->css.ss.ps).rows;

	return wanted < 0 ? PG_INT32_MAX : Max(wanted * GROWTH, DV_LOOKUP_FIRST_ROWS);
}

static bool
is_full(const join_state *j)
{
	return j->nkeys >= DV_LOOKUP_KEYS || j->bytes >= get_hash_memory_limit() ||
		j->nrows >= j->most_rows;
}

/* Returns the entry of a key, which is added if it is new. */
static batch_key *
enter_key(join_state *j, Datum value)
{
	uint32		hash = DatumGetUInt32(FunctionCall1Coll(&j->outer_hash, j->collation, value));
	batch_key **bucket = &j->buckets[hash & (DV_LOOKUP_BUCKETS - 1)];
	MemoryContext old;
	batch_key  *key;

	for (key = *bucket; key != NULL; key = key->next_in_bucket)
		if (key->hash == hash &&
			DatumGetBool(FunctionCall2Coll(&j->equal, j->collation, key->value, value)))
			return key;
	key = MemoryContextAllocZero(j->context, sizeof(batch_key));
	key->hash = hash;
	key->next_in_bucket = *bucket;
	*bucket = key;
	key->next = j->first_key;
	j->first_key = key;
	j->nkeys++;
	j->bytes += sizeof(batch_key) + datumGetSize(value, j->typbyval, j->typlen);
	old = MemoryContextSwitchTo(j->context);
	key->value = datumCopy(value, j->typbyval, j->typlen);
	MemoryContextSwitchTo(old);
	return key;
}

static void
add_row(join_state *j, TupleTableSlot *slot, batch_key *key)
{
	MemoryContext old = MemoryContextSwitchTo(j->context);
	batch_row  *row = palloc0(sizeof(*row));

	row->tuple = ExecCopySlotMinimalTuple(slot);
	MemoryContextSwitchTo(old);
	if (j->last_row != NULL)
		j->last_row->next = row;
	else
		j->first_row = row;
	j->last_row = row;
	j->nrows++;
	j->bytes += row->tuple->t_len + DV_LOOKUP_ROW_BYTES;
	if (key == NULL)
		return;
	if (key->last != NULL)
		key->last->next_alike = row;
	else
		key->rows = row;
	key->last = row;
	j->unmatched++;
}

/* Takes an outer row into the batch, unless it cannot contribute to the result. */
static void
take_row(join_state *j, TupleTableSlot *slot)
{
	ExprContext *econtext = j->css.ss.ps.ps_ExprContext;
	MemoryContext old;
	batch_key  *key = NULL;
	Datum		value;
	bool		isnull;

	ResetExprContext(econtext);
	set_outer(j, slot);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	value = ExecEvalExpr(j->outer_key, econtext, &isnull);
	if (!isnull)
	{
		if (j->typlen == -1)
			value = PointerGetDatum(PG_DETOAST_DATUM(value));
		key = enter_key(j, value);
	}
	MemoryContextSwitchTo(old);
	if (key != NULL || keeps_unmatched(j))
		add_row(j, slot, key);
}

/* Returns false if there are no more rows. */
static bool
read_outer(join_state *j)
{
	if (j->most_rows == 0)
		j->most_rows = first_rows(j);
	empty_batch(j);
	while (!j->outer_ended && !is_full(j))
	{
		TupleTableSlot *slot = ExecProcNode(j->outer);

		CHECK_FOR_INTERRUPTS();
		if (TupIsNull(slot))
			j->outer_ended = true;
		else
			take_row(j, slot);
	}
	j->most_rows = Min(j->most_rows * GROWTH, PG_INT32_MAX);
	return j->first_row != NULL;
}

/*
 * Reading the inner side
 */

/* Begins to request the rows with the keys of the batch. */
static void
start_inner(join_state *j)
{
	ExprContext *econtext = j->inner->ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(j->context);
	Datum	   *values = palloc(sizeof(Datum) * j->nkeys);
	const batch_key *key;
	int			n = 0;

	for (key = j->first_key; key != NULL; key = key->next)
		values[n++] = key->value;
	econtext->caseValue_datum =
		PointerGetDatum(construct_array(values, n, j->type_of_key, j->typlen, j->typbyval,
										j->typalign));
	econtext->caseValue_isNull = false;
	MemoryContextSwitchTo(old);
	ExecReScan(j->inner);
	j->batches++;
	j->keys += n;
}

/* Finds the next key with this hash value; there is seldom more than one. */
static void
find_key(join_state *j, batch_key *key, uint32 hash)
{
	while (key != NULL && key->hash != hash)
		key = key->next_in_bucket;
	j->found = key;
	j->candidate = key == NULL ? NULL : key->rows;
}

/* Returns the next outer row that may match the inner one, or NULL. */
static batch_row *
next_candidate(join_state *j)
{
	batch_row  *row = j->candidate;

	if (row == NULL)
		return NULL;
	j->candidate = row->next_alike;
	if (j->candidate == NULL)
		find_key(j, j->found->next_in_bucket, j->found->hash);
	return row;
}

/* Sets the scan tuple to the next inner row, and finds its outer rows. */
static bool
next_inner(join_state *j)
{
	ExprContext *econtext = j->css.ss.ps.ps_ExprContext;
	TupleTableSlot *slot = ExecProcNode(j->inner);
	MemoryContext old;
	Datum		value;
	bool		isnull;
	uint32		hash;

	if (TupIsNull(slot))
		return false;
	ResetExprContext(econtext);
	set_inner(j, slot);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	value = ExecEvalExpr(j->inner_key, econtext, &isnull);
	hash = isnull ? 0 : DatumGetUInt32(FunctionCall1Coll(&j->inner_hash, j->collation, value));
	MemoryContextSwitchTo(old);
	find_key(j, isnull ? NULL : j->buckets[hash & (DV_LOOKUP_BUCKETS - 1)], hash);
	return true;
}

/* Makes the scan tuple the next pair for which the join clauses hold. */
static bool
next_pair(join_state *j)
{
	ExprContext *econtext = j->css.ss.ps.ps_ExprContext;

	for (;;)
	{
		batch_row  *row;

		while ((row = next_candidate(j)) != NULL)
		{
			if (row->matched && needs_one_match(j))
				continue;
			CHECK_FOR_INTERRUPTS();
			ResetExprContext(econtext);
			set_batch_row(j, row);
			if (!ExecQual(j->clauses, econtext))
				continue;
			if (!row->matched)
				j->unmatched--;
			row->matched = true;
			if (j->type != JOIN_ANTI)
				return true;
		}
		if ((needs_one_match(j) && j->unmatched == 0) || !next_inner(j))
			return false;
	}
}

/* Makes the scan tuple the next outer row that has found no match. */
static bool
next_unmatched(join_state *j)
{
	while (j->returned != NULL)
	{
		const batch_row *row = j->returned;

		j->returned = row->next;
		if (row->matched)
			continue;
		set_batch_row(j, row);
		set_inner(j, NULL);
		return true;
	}
	return false;
}

/*
 * The node
 */

/* Makes the scan tuple the next row of the join; returns false at the end. */
static bool
next_row(join_state *j)
{
	for (;;)
	{
		switch (j->phase)
		{
			case JOIN_READS_OUTER:
				if (!read_outer(j))
					return false;
				if (j->nkeys > 0)
					start_inner(j);
				j->phase = j->nkeys > 0 ? JOIN_READS_INNER : JOIN_RETURNS_UNMATCHED;
				j->returned = j->first_row;
				break;
			case JOIN_READS_INNER:
				if (next_pair(j))
					return true;
				j->phase = JOIN_RETURNS_UNMATCHED;
				break;
			case JOIN_RETURNS_UNMATCHED:
				if (keeps_unmatched(j) && next_unmatched(j))
					return true;
				j->phase = JOIN_READS_OUTER;
				break;
		}
	}
}

static void
read_all(join_state *j)
{
	while (next_row(j))
		dv_spool_put(j->spool, j->css.ss.ss_ScanTupleSlot);
	dv_spool_fill(j->spool);
}

/* The same, but if rows are written, all are read before the first one is returned. */
static bool
next_kept_row(join_state *j)
{
	if (j->spool == NULL)
		return next_row(j);
	if (!dv_spool_is_full(j->spool))
		read_all(j);
	return !TTS_EMPTY(dv_spool_next(j->spool, j->css.ss.ss_ScanTupleSlot));
}

static TupleTableSlot *
exec_join(CustomScanState * node)
{
	join_state *j = (join_state *) node;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
	while (next_kept_row(j))
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		if (!ExecQual(node->ss.ps.qual, econtext))
			InstrCountFiltered1(node, 1);
		else if (node->ss.ps.ps_ProjInfo != NULL)
			return ExecProject(node->ss.ps.ps_ProjInfo);
		else
			return node->ss.ss_ScanTupleSlot;
	}
	return NULL;
}

/* Sets up what depends on the clause that gives the keys. */
static void
begin_key(join_state *j, OpExpr *key)
{
	PlanState  *parent = &j->css.ss.ps;
	RegProcedure inner_hash;
	RegProcedure outer_hash;
	Oid			equal;

	if (!get_op_hash_functions(key->opno, &inner_hash, &outer_hash) ||
		!get_compatible_hash_operators(key->opno, NULL, &equal))
		elog(ERROR, "could not find hash functions for operator %u", key->opno);
	fmgr_info(inner_hash, &j->inner_hash);
	fmgr_info(outer_hash, &j->outer_hash);
	fmgr_info(get_opcode(equal), &j->equal);
	j->collation = key->inputcollid;
	j->inner_key = ExecInitExpr(linitial(key->args), parent);
	j->outer_key = ExecInitExpr(lsecond(key->args), parent);
	j->type_of_key = exprType(lsecond(key->args));
	get_typlenbyvalalign(j->type_of_key, &j->typlen, &j->typbyval, &j->typalign);
}

/* Does the statement write the table of the inner side? */
static bool
is_written(const join_state *j)
{
	EState	   *estate = j->css.ss.ps.state;
	const RangeTblEntry *table = dv_plan_table((const ForeignScan *) j->inner->plan, estate);

	return dv_resultrel_is_written(dv_relation_open(table->relid), estate);
}

static void
begin_join(CustomScanState * node, EState *estate, int eflags)
{
	join_state *j = (join_state *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	/* both sides may be scanned again, but always forward */
	eflags &= ~(EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	j->type = dv_lookup_join_type(plan);
	j->nouter = dv_lookup_join_outer_columns(plan);
	j->outer = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	j->inner = ExecInitNode(lsecond(plan->custom_plans), estate, eflags);
	node->custom_ps = list_make2(j->outer, j->inner);
	(void) castNode(ForeignScanState, j->inner);
	/* as in other joins; a scan would require that whole rows are of the same type everywhere */
	if (node->ss.ps.ps_ProjInfo != NULL)
		ExecAssignProjectionInfo(&node->ss.ps, NULL);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	j->row = MakeSingleTupleTableSlot(ExecGetResultType(j->outer), &TTSOpsMinimalTuple);
	begin_key(j, dv_lookup_join_key(plan));
	j->clauses = ExecInitQual(lcons(dv_lookup_join_key(plan), list_copy(dv_lookup_join_clauses(plan))),
							  &node->ss.ps);
	j->context = AllocSetContextCreate(estate->es_query_cxt, "dataverse lookup",
									   ALLOCSET_DEFAULT_SIZES);
	j->buckets = palloc0(DV_LOOKUP_BUCKETS * sizeof(batch_key *));
	if (is_written(j))
		j->spool = dv_spool_create(node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
}

static void
rescan_join(CustomScanState * node)
{
	join_state *j = (join_state *) node;

	/* the rows are returned again, and not what has been written since */
	if (j->spool != NULL && dv_spool_is_full(j->spool) && node->ss.ps.chgParam == NULL)
	{
		dv_spool_rewind(j->spool);
		return;
	}
	if (j->spool != NULL)
		dv_spool_clear(j->spool);
	if (node->ss.ps.chgParam != NULL)
	{
		UpdateChangedParamSet(j->outer, node->ss.ps.chgParam);
		UpdateChangedParamSet(j->inner, node->ss.ps.chgParam);
	}
	/* otherwise the first read scans it again; each batch scans the inner side again */
	if (j->outer->chgParam == NULL)
		ExecReScan(j->outer);
	j->phase = JOIN_READS_OUTER;
	j->outer_ended = false;
	j->most_rows = 0;
	empty_batch(j);
}

static void
end_join(CustomScanState * node)
{
	join_state *j = (join_state *) node;

	ExecEndNode(j->outer);
	ExecEndNode(j->inner);
	if (j->spool != NULL)
		dv_spool_end(j->spool);
	if (j->row != NULL)
		ExecDropSingleTupleTableSlot(j->row);
	if (j->context != NULL)
		MemoryContextDelete(j->context);
}

/*
 * EXPLAIN
 */

static void
show_expression(const char *label, List *clauses, CustomScanState * node, List *ancestors,
				ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);

	if (clauses != NIL)
		ExplainPropertyText(label, deparse_expression((Node *) make_ands_explicit(clauses), context,
													  true, false), es);
}

static void
explain_join(CustomScanState * node, List *ancestors, ExplainState *es)
{
	const join_state *j = (const join_state *) node;
	const		CustomScan *plan = (const CustomScan *) node->ss.ps.plan;

	ExplainPropertyText("Join Type", j->type == JOIN_LEFT ? "Left" : j->type == JOIN_SEMI ? "Semi" :
						j->type == JOIN_ANTI ? "Anti" : "Inner", es);
	show_expression("Lookup Key", list_make1(dv_lookup_join_key(plan)), node, ancestors, es);
	show_expression("Join Filter", dv_lookup_join_clauses(plan), node, ancestors, es);
	if (es->analyze)
	{
		ExplainPropertyInteger("Batches", NULL, j->batches, es);
		ExplainPropertyInteger("Keys", NULL, j->keys, es);
	}
	if (is_written(j))
		dv_spool_explain(j->spool, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "DataverseLookup",
	.BeginCustomScan = begin_join,
	.ExecCustomScan = exec_join,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan_join,
	.ExplainCustomScan = explain_join,
};

static Node *
create_state(CustomScan * plan)
{
	join_state *j = (join_state *) newNode(sizeof(join_state), T_CustomScanState);

	j->css.methods = &exec_methods;
	return (Node *) j;
}

const		CustomScanMethods dv_lookup_join_methods = {
	.CustomName = "DataverseLookup",
	.CreateCustomScanState = create_state,
};

const		PlanState *
dv_lookup_join_outer(const PlanState * node)
{
	return IsA(node, CustomScanState) && ((const CustomScanState *) node)->methods == &exec_methods ?
		((const join_state *) node)->outer : NULL;
}

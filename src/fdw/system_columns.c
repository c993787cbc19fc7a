/*
 * system_columns.c
 *		System columns of rows of the service.
 *
 * Rows of the service have no transactions.  As with postgres_fdw, their xmin,
 * xmax, cmin, and cmax are 0.  Their ctid comes from fdw/tid.c, their tableoid
 * from PostgreSQL.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

#include "fdw/system_columns.h"

static bool
is_header_column(Node *node, void *context)
{
	if (node == NULL)
		return false;
	/* the executor takes ctid and tableoid from the slot */
	if (IsA(node, Var))
		return ((Var *) node)->varattno < SelfItemPointerAttributeNumber &&
			((Var *) node)->varattno != TableOidAttributeNumber;
	return expression_tree_walker(node, is_header_column, context);
}

dv_system_columns
dv_system_columns_in(List *expressions, const dv_relation *relation, const EState *estate)
{
	dv_system_columns columns = {0};

	columns.headers = is_header_column((Node *) expressions, NULL);
	columns.tids = dv_reads_tid(expressions);
	if (!columns.tids)
		return columns;
	columns.tid_source = dv_tid_source_of(relation);
	dv_tid_hold(estate->es_query_cxt);
	return columns;
}

static void
add_header(TupleTableSlot *slot)
{
	/* in these fields, a new tuple has those of a composite value */
	HeapTupleHeader header = ExecFetchSlotHeapTuple(slot, true, NULL)->t_data;

	HeapTupleHeaderSetXmin(header, InvalidTransactionId);
	HeapTupleHeaderSetXmax(header, InvalidTransactionId);
	HeapTupleHeaderSetCmin(header, FirstCommandId);
}

void
dv_slot_add_system(const dv_system_columns *columns, TupleTableSlot *slot)
{
	if ((columns->headers || columns->tids) && TTS_EMPTY(slot))
		ExecStoreAllNullTuple(slot);
	if (columns->headers)
		add_header(slot);
	if (columns->tids)
		dv_slot_add_tid(&columns->tid_source, slot);
}

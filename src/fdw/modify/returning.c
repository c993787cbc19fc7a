/*
 * returning.c
 *		Builds the rows for RETURNING and AFTER ROW triggers.
 *
 * The values that the statement supplies, and a locally generated id, are
 * known at once.  Values that only the service knows (defaults, computed
 * columns, labels) are read back after the row has been written (read_back.c).
 * The rows that a DELETE returns were read before they were deleted.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "fdw/modify/modify.h"
#include "fdw/option.h"
#include "fdw/result_relation.h"
#include "fdw/setting.h"

/* Returns true if the statement writes a column of one of these types. */
static bool
writes_type(const dv_modify *m, List *set, dv_type type, dv_type or_type)
{
	ListCell   *lc;

	foreach(lc, set)
	{
		dv_type		t = dv_relation_attribute(m->relation, lfirst_int(lc))->column.type;

		if (t == type || t == or_type)
			return true;
	}
	return false;
}

/* Returns true if a column that an UPDATE does not set keeps its value. */
static bool
is_untouched(const dv_modify *m, List *set, AttrNumber attnum)
{
	const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
	ListCell   *lc;

	if (attribute->readonly || attribute->is_label)
		return attnum == m->identity.id || attnum == m->identity.partition.attnum;
	if (attribute->column.type == DV_TYPE_STATE || attribute->column.type == DV_TYPE_STATUS)
		return !writes_type(m, set, DV_TYPE_STATE, DV_TYPE_STATUS);
	/* the name of a lookup's table changes with the lookup */
	foreach(lc, set)
		if (strcmp(dv_relation_attribute(m->relation, lfirst_int(lc))->column.name,
				   attribute->column.name) == 0)
			return false;
	return true;
}

bool
dv_return_is_known(const dv_modify *m, const dv_modify_plan *plan, AttrNumber attnum)
{
	if (list_member_int(plan->set, attnum))
		return true;
	if (plan->command == CMD_UPDATE)
		return is_untouched(m, plan->set, attnum);
	/* an id that is not generated locally is in the answer to the request */
	return attnum == m->identity.id && (m->operation == DV_CREATE || m->identity.ids_supplied);
}

/*
 * Returns true for values that the service does not keep as they are sent: it
 * stores an empty text or list as null and, in standard tables, times without
 * fractions of a second.
 */
static bool
may_be_altered(const dv_relation *relation, const dv_attribute *attribute)
{
	switch (attribute->pgtype)
	{
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
			return dv_types[attribute->column.type].wire == DV_WIRE_TEXT;
		case INT4ARRAYOID:
			return true;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return (dv_types[attribute->column.type].wire & DV_WIRE_TIMES) &&
				relation->type != DV_TABLE_ELASTIC && relation->type != DV_TABLE_VIRTUAL;
		default:
			return false;
	}
}

/* Replaces the value by the one that the service stores.  Returns false if they are the same. */
static bool
alter(Oid type, Datum *value, bool *isnull)
{
	Timestamp	t;

	switch (type)
	{
		case TEXTOID:
		case VARCHAROID:
			*isnull = VARSIZE_ANY_EXHDR(PG_DETOAST_DATUM_PACKED(*value)) == 0;
			return *isnull;
		case BPCHAROID:
			*isnull = DatumGetInt32(DirectFunctionCall1(bpcharlen, *value)) == 0;
			return *isnull;
		case INT4ARRAYOID:
			*isnull = ARR_NDIM(DatumGetArrayTypeP(*value)) == 0;
			return *isnull;
		default:
			t = DatumGetTimestamp(*value);
			if (TIMESTAMP_NOT_FINITE(t) || t % USECS_PER_SEC == 0)
				return false;
			t -= t % USECS_PER_SEC + (t < 0 ? USECS_PER_SEC : 0);
			*value = TimestampGetDatum(t);
			return true;
	}
}

bool
dv_return_alter(const dv_modify *m, List *columns, Datum *values, bool *isnull)
{
	bool		altered = false;
	ListCell   *lc;

	foreach(lc, columns)
	{
		int			i = lfirst_int(lc) - 1;

		if (!isnull[i])
			altered |= alter(dv_relation_attribute(m->relation, i + 1)->pgtype, &values[i],
							 &isnull[i]);
	}
	return altered;
}

List *
dv_return_altered(const dv_modify *m, List *columns)
{
	List	   *altered = NIL;
	ListCell   *lc;

	foreach(lc, columns)
		if (may_be_altered(m->relation, dv_relation_attribute(m->relation, lfirst_int(lc))))
			altered = lappend_int(altered, lfirst_int(lc));
	return altered;
}

void
dv_return_prepare(dv_modify *m, const dv_modify_plan *plan, List *targetlist)
{
	ListCell   *lc;

	if (plan->returned == NIL)
		return;
	if (plan->command == CMD_DELETE)
	{
		m->returned.whole_junk = ExecFindJunkAttributeInTlist(targetlist, DV_JUNK_ROW);
		return;
	}
	m->returned.new_id = m->operation == DV_CREATE &&
		list_member_int(plan->returned, m->identity.id);
	foreach(lc, plan->returned)
	{
		AttrNumber	attnum = lfirst_int(lc);
		bool		unless_null = dv_row_leaves_out_null(m, plan, attnum);

		if (unless_null)
			m->returned.sent = lappend_int(m->returned.sent, attnum);
		if (!dv_dry_run && (unless_null || !dv_return_is_known(m, plan, attnum)))
			m->returned.read = lappend_int(m->returned.read, attnum);
	}
	m->returned.altered = dv_return_altered(m, plan->returned);
}

/*
 * Rows
 */

/* The slot owns the copy. */
static TupleTableSlot *
store(TupleTableSlot *slot, HeapTuple tuple)
{
	MemoryContext old = MemoryContextSwitchTo(slot->tts_mcxt);
	HeapTuple	copy = heap_copytuple(tuple);

	MemoryContextSwitchTo(old);
	ExecForceStoreHeapTuple(copy, slot, true);
	return slot;
}

/* Returns the row as it was read before it was deleted. */
static TupleTableSlot *
return_deleted(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	bool		isnull;
	Datum		whole = ExecGetJunkAttribute(planSlot, m->returned.whole_junk, &isnull);
	HeapTupleData tuple = {0};

	if (isnull)
		return slot;
	tuple.t_data = DatumGetHeapTupleHeader(whole);
	tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = m->relation->relid;
	return store(slot, &tuple);
}

/* The list is not known yet when the modification begins. */
TupleTableSlot *
dv_return_system_columns(dv_modify *m, TupleTableSlot *slot)
{
	if (m->rinfo->ri_projectReturning == NULL)
		return slot;
	if (!m->returned.system_known)
		m->returned.system = dv_system_columns_in(m->rinfo->ri_returningList, m->relation, m->estate);
	m->returned.system_known = true;
	dv_slot_add_system(&m->returned.system, slot);
	return slot;
}

TupleTableSlot *
dv_return_known(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	if (m->returned.whole_junk != 0)
		slot = return_deleted(m, slot, planSlot);
	/* since 18, RETURNING can refer to the row before the UPDATE */
	if (m->command == CMD_UPDATE)
		(void) dv_return_system_columns(m, m->rinfo->ri_oldTupleSlot);
	return m->command == CMD_DELETE ? dv_return_system_columns(m, slot) : slot;
}

/* Replaces the values that the statement has supplied by those that have been read. */
static void
add_read(const dv_modify *m, HeapTuple read, Datum *values, bool *isnull)
{
	Datum	   *read_values = palloc(sizeof(Datum) * m->desc->natts);
	bool	   *read_null = palloc(sizeof(bool) * m->desc->natts);
	ListCell   *lc;

	heap_deform_tuple(read, m->desc, read_values, read_null);
	foreach(lc, m->returned.read)
	{
		int			i = lfirst_int(lc) - 1;

		values[i] = read_values[i];
		isnull[i] = read_null[i];
	}
}

static TupleTableSlot *
row_as_written(dv_modify *m, TupleTableSlot *slot, const dv_modify_written *w)
{
	bool		new_id = m->returned.new_id && w->row.has_id;
	Datum	   *values;
	bool	   *isnull;

	if (!new_id && w->read == NULL && m->returned.altered == NIL)
		return slot;
	slot_getallattrs(slot);
	values = palloc(sizeof(Datum) * m->desc->natts);
	isnull = palloc(sizeof(bool) * m->desc->natts);
	memcpy(values, slot->tts_values, sizeof(Datum) * m->desc->natts);
	memcpy(isnull, slot->tts_isnull, sizeof(bool) * m->desc->natts);
	if (!dv_return_alter(m, m->returned.altered, values, isnull) && !new_id && w->read == NULL)
		return slot;
	if (new_id)
	{
		values[m->identity.id - 1] = PointerGetDatum(w->row.id);
		isnull[m->identity.id - 1] = false;
	}
	if (w->read != NULL)
		add_read(m, w->read, values, isnull);
	return store(slot, heap_form_tuple(m->desc, values, isnull));
}

void
dv_return_learn(const dv_modify *m, dv_modify_row *row, const dv_modify_outcome *outcome)
{
	if (row->has_id || m->operation != DV_CREATE || !outcome->has_id)
		return;
	row->has_id = true;
	memcpy(row->id, outcome->id, DV_ID_LEN);
}

TupleTableSlot *
dv_return_row(dv_modify *m, TupleTableSlot *slot, const dv_modify_written *w)
{
	return dv_return_system_columns(m, row_as_written(m, slot, w));
}

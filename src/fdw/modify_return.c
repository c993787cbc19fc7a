/*
 * modify_return.c
 *		Rows as they are handed back, for RETURNING and WITH CHECK OPTION.
 *
 * What was given, and the id that was made here, is known at once.  What only
 * the service knows (defaults, columns that it computes, labels) is asked for
 * when the row has been written.  What a DELETE returns was read before.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"

#include "dataverse/address.h"
#include "fdw/bind.h"
#include "fdw/modify.h"
#include "fdw/scan.h"
#include "fdw/setting.h"
#include "fdw/result_relation.h"

/* Does the statement write a column of one of these types? */
static bool
writes_type(const dv_modify *m, List *given, dv_type type, dv_type or_type)
{
	ListCell   *lc;

	foreach(lc, given)
	{
		dv_type		t = dv_relation_attribute(m->relation, lfirst_int(lc))->column.type;

		if (t == type || t == or_type)
			return true;
	}
	return false;
}

/* A column that an UPDATE leaves alone: is it as it was? */
static bool
is_untouched(const dv_modify *m, List *given, AttrNumber attnum)
{
	const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
	ListCell   *lc;

	if (attribute->readonly || attribute->is_label)
		return attnum == m->id || attnum == m->partition;
	if (attribute->column.type == DV_TYPE_STATE || attribute->column.type == DV_TYPE_STATUS)
		return !writes_type(m, given, DV_TYPE_STATE, DV_TYPE_STATUS);
	/* the name of a lookup's table goes with the lookup */
	foreach(lc, given)
		if (strcmp(dv_relation_attribute(m->relation, lfirst_int(lc))->column.name,
				   attribute->column.name) == 0)
		return false;
	return true;
}

/* Is the column's value in the row as it will be in the service? */
static bool
is_known(const dv_modify *m, const dv_modify_plan *plan, AttrNumber attnum)
{
	if (list_member_int(plan->given, attnum))
		return true;
	if (plan->command == CMD_UPDATE)
		return is_untouched(m, plan->given, attnum);
	/* told when the row has been written, if not before */
	return attnum == m->id && (m->operation == DV_CREATE || m->ids_given);
}

/* Can WITH CHECK OPTION be checked before the row is written? */
static bool
is_checkable(const dv_modify *m, const dv_modify_plan *plan)
{
	ListCell   *lc;

	foreach(lc, plan->looked_at)
	{
		AttrNumber	attnum = lfirst_int(lc);

		/* an id that is made here is put in later */
		if (!dv_dry_run && (!is_known(m, plan, attnum) ||
							(plan->command == CMD_INSERT && attnum == m->id)))
			return false;
	}
	return plan->checked;
}

void
dv_modify_prepare_return(dv_modify *m, const dv_modify_plan *plan, List *targetlist)
{
	ListCell   *lc;
	int			i;

	m->checked_before = is_checkable(m, plan);
	if (plan->returned == NIL)
		return;
	if (plan->command == CMD_DELETE)
	{
		m->whole_junk = ExecFindJunkAttributeInTlist(targetlist, DV_TARGET_ROW);
		return;
	}
	m->return_id = m->operation == DV_CREATE && list_member_int(plan->returned, m->id);
	if (dv_dry_run)
		return;
	foreach(lc, plan->returned)
		m->read_back |= !is_known(m, plan, lfirst_int(lc));
	for (i = 1; i <= m->relation->natts; i++)
		m->wanted = lappend_int(m->wanted, list_member_int(plan->returned, i) &&
								!is_known(m, plan, i) ? i : 0);
}

/*
 * Which row to read back
 */

static char *
id_text(const uint8 *id)
{
	StringInfoData text;

	initStringInfo(&text);
	dv_append_id(&text, id);
	return text.data;
}

/* A value as conditions have it. */
static const char *
operand_of(dv_modify *m, AttrNumber attnum, dv_encoder *encoder, Datum value)
{
	const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
	StringInfoData text;
	dv_misfit	misfit;
	char	   *from;

	if (attribute->pgtype == UUIDOID)
		return id_text(DatumGetUUIDP(value)->data);
	if (attribute->column.type == DV_TYPE_STRING)
	{
		Oid			output;
		bool		varlena;
		char	   *s;

		getTypeOutputInfo(attribute->pgtype, &output, &varlena);
		s = OidOutputFunctionCall(output, value);
		return pg_server_to_any(s, strlen(s), PG_UTF8);
	}
	initStringInfo(&text);
	if (!dv_encode(encoder, value, false, NULL, &text, &misfit))
		ereport(ERROR, (errcode(misfit.sqlstate), errmsg("%s", misfit.message)));
	from = strchr(text.data, ':') + 1;
	if (*from == '"')
	{
		from++;
		text.data[text.len - 1] = '\0';
	}
	return from;
}

static List *
add_condition(List *conditions, dv_modify *m, AttrNumber attnum, const char *operand)
{
	return lappend(conditions,
				   dv_filter_of(DV_EQ, &dv_relation_attribute(m->relation, attnum)->column,
								operand));
}

static dv_filter *
filter_of(dv_modify *m, const dv_modify_row *row, TupleTableSlot *slot)
{
	List	   *conditions = NIL;
	int			i;

	if (row->has_id)
		conditions = list_make1(dv_filter_of(DV_EQ, &m->relation->primary_id, id_text(row->id)));
	for (i = 0; !row->has_id && i < m->nkeys; i++)
		conditions = add_condition(conditions, m, m->keys[i],
								   operand_of(m, m->keys[i], m->key_encoders[i],
											  slot->tts_values[m->keys[i] - 1]));
	for (i = 0; m->operation == DV_ASSOCIATE && i < 2; i++)
		conditions = add_condition(conditions, m, m->ends[i].attnum,
								   id_text(DatumGetUUIDP(slot->tts_values[m->ends[i].attnum - 1])->data));
	if (row->has_id && m->partition != 0 && !slot->tts_isnull[m->partition - 1])
		conditions = add_condition(conditions, m, m->partition,
								   operand_of(m, m->partition, m->partition_encoder,
											  slot->tts_values[m->partition - 1]));
	if (conditions == NIL)
		return NULL;
	return dv_filter_join(DV_AND, conditions);
}

/* Puts what the service has into "values"; false if the row is not there (any more). */
static bool
read_back(dv_modify *m, const dv_modify_row *row, TupleTableSlot *slot, Datum *values,
		  bool *isnull)
{
	dv_filter  *filter = filter_of(m, row, slot);
	Datum	   *read = palloc(sizeof(Datum) * m->relation->natts);
	bool	   *read_null = palloc(sizeof(bool) * m->relation->natts);
	MemoryContext old;
	ListCell   *lc;

	if (m->reader == NULL)
	{
		old = MemoryContextSwitchTo(m->context);
		m->reader = dv_scan_open(m->relation, m->userid,
								 psprintf("read back from foreign table \"%s\"",
										  m->relation->name),
								 m->wanted);
		MemoryContextSwitchTo(old);
	}
	if (filter == NULL)
		return false;
	dv_scan_ask(m->reader, filter, false, 1);
	if (!dv_scan_next(m->reader))
		return false;
	dv_scan_row(m->reader, m->relation->natts, read, read_null);
	foreach(lc, m->wanted)
	{
		int			i = foreach_current_index(lc);

		if (lfirst_int(lc) == 0)
			continue;
		values[i] = read[i];
		isnull[i] = read_null[i];
	}
	return true;
}

/*
 * Rows
 */

static TupleTableSlot *
store(TupleTableSlot *slot, TupleDesc desc, Datum *values, bool *isnull)
{
	MemoryContext old = MemoryContextSwitchTo(slot->tts_mcxt);
	HeapTuple	tuple = heap_form_tuple(desc, values, isnull);

	MemoryContextSwitchTo(old);
	ExecForceStoreHeapTuple(tuple, slot, true);
	return slot;
}

/* What was read before the row was deleted. */
static TupleTableSlot *
return_deleted(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	bool		isnull;
	Datum		whole = ExecGetJunkAttribute(planSlot, m->whole_junk, &isnull);
	HeapTupleData tuple;
	HeapTupleHeader header;
	MemoryContext old;
	HeapTuple	copy;

	if (isnull)
		return slot;
	header = DatumGetHeapTupleHeader(whole);
	memset(&tuple, 0, sizeof(tuple));
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = m->relation->relid;
	tuple.t_data = header;
	old = MemoryContextSwitchTo(slot->tts_mcxt);
	copy = heap_copytuple(&tuple);
	MemoryContextSwitchTo(old);
	ExecForceStoreHeapTuple(copy, slot, true);
	return slot;
}

TupleTableSlot *
dv_modify_return(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot,
				 dv_modify_row *row)
{
	Datum	   *values;
	bool	   *isnull;

	if (m->whole_junk != 0)
		return return_deleted(m, slot, planSlot);
	if (!m->return_id && !m->read_back)
		return slot;
	if (!row->has_id && m->operation == DV_CREATE)
		row->has_id = dv_writer_last_id(m->writer, row->id);
	slot_getallattrs(slot);
	values = palloc(sizeof(Datum) * m->desc->natts);
	isnull = palloc(sizeof(bool) * m->desc->natts);
	memcpy(values, slot->tts_values, sizeof(Datum) * m->desc->natts);
	memcpy(isnull, slot->tts_isnull, sizeof(bool) * m->desc->natts);
	if (m->return_id && row->has_id)
	{
		values[m->id - 1] = PointerGetDatum(row->id);
		isnull[m->id - 1] = false;
	}
	if (m->read_back)
		(void) read_back(m, row, slot, values, isnull);
	return store(slot, m->desc, values, isnull);
}

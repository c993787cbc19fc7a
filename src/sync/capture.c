/*
 * capture.c
 *		Captures changes in local copies: the trigger function of
 *		dataverse.track().
 *
 * Statement triggers get the old and the new rows of a statement as transition
 * tables, which list them in the same order.  Both are read side by side, and the
 * changes are appended to the log (sync/change_log.c): the id of the row, the
 * copied columns whose values differ, the version of the old row, and its values
 * in these columns.  If the ids of the two lists do not agree (an id was changed,
 * or a trigger has kept a row from its new partition), rows wait until their
 * counterparts come up.
 *
 * A copy that is itself a partition or a child has row triggers instead, because
 * statement triggers fire only for the table that the statement names.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "fdw/setting.h"
#include "sync/change_log.h"

DV_FUNCTION(dataverse_capture);

/* One call of the trigger function. */
typedef struct capture
{
	Relation	rel;
	dv_captured *table;
	dv_change_log log;
	HTAB	   *waiting;		/* rows whose counterparts have not come up; NULL: none */
	MemoryContext waiting_context;
	TupleTableSlot *waiting_slot;
} capture;

typedef struct waiting_row
{
	pg_uuid_t	id;				/* hash key */
	bool		is_old;
	MinimalTuple tuple;
} waiting_row;

/*
 * Rows
 */

/* Returns the id of a row, or NULL if it has none. */
static const pg_uuid_t *
id_of(const capture *c, TupleTableSlot *slot)
{
	bool		isnull;
	Datum		id = slot_getattr(slot, c->table->id, &isnull);

	return isnull ? NULL : DatumGetUUIDP(id);
}

static const pg_uuid_t *
id_of_new(const capture *c, TupleTableSlot *slot)
{
	const		pg_uuid_t *id = id_of(c, slot);

	if (id == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("a row of table \"%s\" has no id in column \"%s\"",
						RelationGetRelationName(c->rel),
						NameStr(TupleDescAttr(RelationGetDescr(c->rel), c->table->id - 1)->attname)),
				 errdetail("Changes of the table are captured, and rows are identified by their ids.")));
	return id;
}

/* Values are compared as pull() compares them: by their binary images. */
static bool
is_same_value(Datum a, Datum b, bool byval, int16 len)
{
	if (byval)
		return a == b;
	/* out-of-line and compressed values are mostly identical */
	if (len == -1 && VARSIZE_ANY(DatumGetPointer(a)) == VARSIZE_ANY(DatumGetPointer(b)) &&
		memcmp(DatumGetPointer(a), DatumGetPointer(b), VARSIZE_ANY(DatumGetPointer(a))) == 0)
		return true;
	return datum_image_eq(a, b, byval, len);
}

static void
changed_row(capture *c, const pg_uuid_t * id, TupleTableSlot *old, TupleTableSlot *new)
{
	const dv_captured *table = c->table;
	TupleDesc	desc = RelationGetDescr(c->rel);
	uint8		changed[MaxHeapAttributeNumber / 8 + 1];
	bool		any = false;
	int			i;

	slot_getsomeattrs(old, table->last);
	slot_getsomeattrs(new, table->last);
	memset(changed, 0, table->set_size);
	for (i = 0; i < table->ncolumns; i++)
	{
		int			j = table->columns[i] - 1;
		Form_pg_attribute att = TupleDescAttr(desc, j);

		if (old->tts_isnull[j] != new->tts_isnull[j] ||
			(!old->tts_isnull[j] && !is_same_value(old->tts_values[j], new->tts_values[j],
												   att->attbyval, att->attlen)))
		{
			changed[i / 8] |= 1 << i % 8;
			any = true;
		}
	}
	if (any)
	{
		MemoryContext context = MemoryContextSwitchTo(dv_change_log_memory(&c->log));
		Datum		was = dv_captured_values(table, changed, old);
		Datum		names = dv_captured_names(c->table, changed);

		MemoryContextSwitchTo(context);
		dv_change_log_add(&c->log, table, 'U', id, names, was, old);
	}
}

static void
new_row(capture *c, TupleTableSlot *new)
{
	dv_change_log_add(&c->log, c->table, 'I', id_of_new(c, new), c->table->none, (Datum) 0, NULL);
}

static void
gone_row(capture *c, TupleTableSlot *old)
{
	const		pg_uuid_t *id = id_of(c, old);

	/* the service does not know rows without an id */
	if (id != NULL)
		dv_change_log_add(&c->log, c->table, 'D', id, c->table->none, (Datum) 0, old);
}

/*
 * Old and new rows
 */

static bool
is_same_id(const pg_uuid_t * a, const pg_uuid_t * b)
{
	return a != NULL && b != NULL && memcmp(a, b, sizeof(pg_uuid_t)) == 0;
}

static TupleTableSlot *
waiting_in_slot(capture *c, const waiting_row *row)
{
	return ExecStoreMinimalTuple(row->tuple, c->waiting_slot, false);
}

/* Logs the rows without counterparts: their ids have disappeared or are new. */
static void
end_waiting(capture *c)
{
	HASH_SEQ_STATUS scan;
	waiting_row *row;

	if (c->waiting == NULL)
		return;
	hash_seq_init(&scan, c->waiting);
	while ((row = hash_seq_search(&scan)) != NULL)
	{
		if (row->is_old)
			gone_row(c, waiting_in_slot(c, row));
		else
			new_row(c, waiting_in_slot(c, row));
	}
	ExecDropSingleTupleTableSlot(c->waiting_slot);
	MemoryContextDelete(c->waiting_context);
	c->waiting = NULL;
}

static void
start_waiting(capture *c)
{
	HASHCTL		control = {.keysize = sizeof(pg_uuid_t), .entrysize = sizeof(waiting_row)};

	c->waiting_context = AllocSetContextCreate(CurrentMemoryContext, "dataverse waiting rows",
											   ALLOCSET_DEFAULT_SIZES);
	control.hcxt = c->waiting_context;
	c->waiting = hash_create("dataverse waiting rows", 64, &control,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	c->waiting_slot = MakeSingleTupleTableSlot(RelationGetDescr(c->rel), &TTSOpsMinimalTuple);
}

/* Pairs a row with its counterpart if that has come up before; otherwise the row waits. */
static void
wait_for_counterpart(capture *c, const pg_uuid_t * id, TupleTableSlot *slot, bool is_old)
{
	waiting_row *row;
	MemoryContext old;
	bool		found;

	if (c->waiting == NULL)
		start_waiting(c);
	row = hash_search(c->waiting, id, HASH_ENTER, &found);
	if (found && row->is_old != is_old)
	{
		TupleTableSlot *other = waiting_in_slot(c, row);

		changed_row(c, id, is_old ? slot : other, is_old ? other : slot);
		heap_free_minimal_tuple(row->tuple);
		(void) hash_search(c->waiting, id, HASH_REMOVE, NULL);
		return;
	}
	if (found)
	{
		/* an id that occurs twice, which unique indexes of several tables allow */
		if (is_old)
			gone_row(c, slot);
		else
			new_row(c, slot);
		return;
	}
	old = MemoryContextSwitchTo(c->waiting_context);
	row->is_old = is_old;
	row->tuple = ExecCopySlotMinimalTuple(slot);
	MemoryContextSwitchTo(old);

	/*
	 * log the waiting rows as deleted and inserted, which changes all columns, but is true as
	 * well
	 */
	if (MemoryContextMemAllocated(c->waiting_context, true) > work_mem * (Size) 1024)
		end_waiting(c);
}

static void
pair_rows(capture *c, TupleTableSlot *old, TupleTableSlot *new)
{
	const		pg_uuid_t *old_id = TupIsNull(old) ? NULL : id_of(c, old);
	const		pg_uuid_t *new_id = TupIsNull(new) ? NULL : id_of_new(c, new);

	if (is_same_id(old_id, new_id))
	{
		changed_row(c, new_id, old, new);
		return;
	}
	if (old_id != NULL)
		wait_for_counterpart(c, old_id, old, true);
	if (new_id != NULL)
		wait_for_counterpart(c, new_id, new, false);
}

static TupleTableSlot *
start_rows(const capture *c, Tuplestorestate *rows)
{
	/* another trigger may have read them before */
	tuplestore_select_read_pointer(rows, tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND));
	tuplestore_rescan(rows);
	return MakeSingleTupleTableSlot(RelationGetDescr(c->rel), &TTSOpsMinimalTuple);
}

static void
capture_statement(capture *c, Tuplestorestate *old_rows, Tuplestorestate *new_rows)
{
	TupleTableSlot *old = old_rows != NULL ? start_rows(c, old_rows) : NULL;
	TupleTableSlot *new = new_rows != NULL ? start_rows(c, new_rows) : NULL;

	for (;;)
	{
		bool		has_old = old != NULL && tuplestore_gettupleslot(old_rows, true, false, old);
		bool		has_new = new != NULL && tuplestore_gettupleslot(new_rows, true, false, new);

		CHECK_FOR_INTERRUPTS();
		if (!has_old && !has_new)
			break;
		if (c->table == NULL)
			c->table = dv_captured_table(c->rel, get_rel_namespace(c->log.relid));
		if (new == NULL)
			gone_row(c, old);
		else if (old == NULL)
			new_row(c, new);
		else
			pair_rows(c, old, new);
	}
	end_waiting(c);
	if (old != NULL)
		ExecDropSingleTupleTableSlot(old);
	if (new != NULL)
		ExecDropSingleTupleTableSlot(new);
}

static void
capture_row(capture *c, const TriggerData *trigger)
{
	c->table = dv_captured_table(c->rel, get_rel_namespace(c->log.relid));
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		new_row(c, trigger->tg_trigslot);
	else if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		gone_row(c, trigger->tg_trigslot);
	else if (is_same_id(id_of(c, trigger->tg_trigslot), id_of_new(c, trigger->tg_newslot)))
		changed_row(c, id_of(c, trigger->tg_newslot), trigger->tg_trigslot, trigger->tg_newslot);
	else
	{
		gone_row(c, trigger->tg_trigslot);
		new_row(c, trigger->tg_newslot);
	}
}

/*
 * The trigger function
 */

static void
refuse_truncate(const TriggerData *trigger)
{
	const char *name = RelationGetRelationName(trigger->tg_relation);

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot truncate table \"%s\", because its changes are captured", name),
			 errhint("Use DELETE, or call dataverse.untrack() first.")));
}

static void
check_trigger(const TriggerData *trigger)
{
	TriggerEvent event = trigger->tg_event;
	bool		needs_old = !TRIGGER_FIRED_BY_INSERT(event);
	bool		needs_new = !TRIGGER_FIRED_BY_DELETE(event);

	if (TRIGGER_FIRED_AFTER(event) &&
		(TRIGGER_FIRED_FOR_ROW(event) || ((!needs_old || trigger->tg_oldtable != NULL) &&
										  (!needs_new || trigger->tg_newtable != NULL))))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("trigger \"%s\" of table \"%s\" cannot call dataverse_private.capture()",
					trigger->tg_trigger->tgname, RelationGetRelationName(trigger->tg_relation)),
			 errhint("Drop the trigger; dataverse.track() creates the triggers that are needed.")));
}

/*
 * Returns true if the statement is not to be captured.  Only a role that could
 * drop the trigger may decide this: a change that is not captured is not sent,
 * and the next change of the service overwrites it.
 */
static bool
is_switched_off(PG_FUNCTION_ARGS, Relation rel)
{
	if (dv_capture || DatumGetInt32(pg_trigger_depth(fcinfo)) != 1)
		return false;
	if (!has_privs_of_role(dv_setting_role("capture"), rel->rd_rel->relowner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to change table \"%s\" without capturing the changes",
						RelationGetRelationName(rel)),
				 errdetail("\"dataverse_fdw.capture\" was set to \"off\" by a role that lacks the rights of the table's owner."),
				 errhint("RESET dataverse_fdw.capture;")));
	return true;
}

/*
 * capture(): a trigger of dataverse.track().  Changes by pull() and sync() are
 * not captured, as they turn the setting off; changes by triggers in consequence
 * are.
 */
Datum
dataverse_capture(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	capture		c = {0};

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("dataverse_private.capture() was not called as a trigger")));
	if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
		refuse_truncate(trigger);
	check_trigger(trigger);
	if (is_switched_off(fcinfo, trigger->tg_relation))
		return PointerGetDatum(NULL);
	c.rel = trigger->tg_relation;
	c.log.relid = get_relname_relid("local_changes", get_func_namespace(fcinfo->flinfo->fn_oid));
	c.log.capacity = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ? 2 : DV_CHANGE_LOG_ROWS;
	if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		capture_row(&c, trigger);
	else
		capture_statement(&c, trigger->tg_oldtable, trigger->tg_newtable);
	dv_change_log_close(&c.log);
	return PointerGetDatum(NULL);
}

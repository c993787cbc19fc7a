/*
 * change_log.c
 *		The log of captured changes, dataverse_private.local_changes.
 *
 * Roles that may write to a copy have no rights on the log, so rows are
 * inserted directly into the heap.  The log has no index and no constraints,
 * so nothing else is needed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "sync/change_log.h"

#define LOG_COLUMNS 7

static void
open_log(dv_change_log *log)
{
	log->rel = table_open(log->relid, RowExclusiveLock);
	if (RelationGetDescr(log->rel)->natts != LOG_COLUMNS)
		elog(ERROR, "unexpected number of columns in table \"%s\"", RelationGetRelationName(log->rel));
	if (RelationGetIndexList(log->rel) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" cannot have indexes", RelationGetRelationName(log->rel))));
	/* statements that change the same row wait for each other, so their numbers ascend */
	log->number = nextval_internal(get_relname_relid("local_changes_number_seq",
													 RelationGetNamespace(log->rel)), false);
	log->context = CurrentMemoryContext;
	log->slots = palloc(sizeof(TupleTableSlot *) * log->capacity);
	log->ids = palloc(sizeof(pg_uuid_t) * log->capacity);
	if (log->capacity == DV_CHANGE_LOG_ROWS)
		log->scratch = AllocSetContextCreate(log->context, "dataverse change log",
											 ALLOCSET_DEFAULT_SIZES);
}

static void
flush_log(dv_change_log *log)
{
	MemoryContext old;
	int			i;

	if (log->n == 0)
		return;
	old = MemoryContextSwitchTo(log->context);
	if (log->bulk == NULL && log->n == DV_CHANGE_LOG_ROWS)
		log->bulk = GetBulkInsertState();
	if (log->scratch != NULL)
		MemoryContextSwitchTo(log->scratch);
	table_multi_insert(log->rel, log->slots, log->n, GetCurrentCommandId(true), 0, log->bulk);
	for (i = 0; i < log->n; i++)
		ExecClearTuple(log->slots[i]);
	log->n = 0;
	MemoryContextSwitchTo(old);
	if (log->scratch != NULL)
		MemoryContextReset(log->scratch);
}

/* The lock on the log is kept until the transaction ends, as for every table that is written. */
void
dv_change_log_close(dv_change_log *log)
{
	int			i;

	if (log->rel == NULL)
		return;
	flush_log(log);
	if (log->bulk != NULL)
		FreeBulkInsertState(log->bulk);
	table_finish_bulk_insert(log->rel, 0);
	for (i = 0; i < log->nslots; i++)
		ExecDropSingleTupleTableSlot(log->slots[i]);
	table_close(log->rel, NoLock);
}

static TupleTableSlot *
next_slot(dv_change_log *log)
{
	if (log->n == log->nslots)
	{
		MemoryContext context = MemoryContextSwitchTo(log->context);

		log->slots[log->nslots++] = table_slot_create(log->rel, NULL);
		MemoryContextSwitchTo(context);
	}
	return log->slots[log->n];
}

MemoryContext
dv_change_log_memory(dv_change_log *log)
{
	if (log->rel == NULL)
		open_log(log);
	return log->scratch != NULL ? log->scratch : log->context;
}

void
dv_change_log_add(dv_change_log *log, const dv_captured *table, char operation,
				  const pg_uuid_t * id, Datum columns, Datum was, TupleTableSlot *old)
{
	TupleTableSlot *slot;

	if (log->rel == NULL)
		open_log(log);
	slot = next_slot(log);
	log->ids[log->n] = *id;
	memset(slot->tts_isnull, false, sizeof(bool) * LOG_COLUMNS);
	slot->tts_values[0] = Int64GetDatum(table->copy);
	slot->tts_values[1] = UUIDPGetDatum(&log->ids[log->n]);
	slot->tts_values[2] = CharGetDatum(operation);
	slot->tts_values[3] = columns;
	if (old != NULL)
		slot->tts_values[4] = slot_getattr(old, table->version, &slot->tts_isnull[4]);
	else
		slot->tts_isnull[4] = true;
	slot->tts_values[5] = Int64GetDatum(log->number);
	slot->tts_values[6] = was;
	slot->tts_isnull[6] = was == (Datum) 0;
	ExecStoreVirtualTuple(slot);
	if (++log->n == log->capacity ||
		(log->scratch != NULL &&
		 MemoryContextMemAllocated(log->scratch, false) > work_mem * (Size) 1024))
		flush_log(log);
}

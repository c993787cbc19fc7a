/*
 * capture.c
 *		Captures what is changed in local copies: the trigger function of
 *		dataverse.track(), and ids for new rows.
 *
 * Statement triggers get the old and the new rows of a statement as transition
 * tables, which list them in the same order.  Both are read side by side, and
 * what has changed is appended to dataverse.local_changes: the id of the row,
 * the copied columns whose values differ, the version that the row had, and the
 * values that these columns had.
 * Where the ids of the two lists do not agree (an id was changed, or a trigger
 * has kept a row from its new partition), rows wait until their counterparts
 * come up.
 *
 * A copy that is itself a partition or a child has row triggers instead, because
 * the triggers of a statement are those of the table that it names.
 *
 * Whoever may write to a copy writes to the log as well, without rights of its
 * own on it: rows are put there directly.  The log has no index and no
 * constraints, so there is nothing else to do.  In return, the trigger function
 * believes nothing that who made the trigger could say: it looks in
 * dataverse.copies for the copy that the table, or one above it, is the target
 * of.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

#include "compat.h"
#include "fdw/modify.h"
#include "fdw/option.h"
#include "fdw/setting.h"

DV_FUNCTION(dataverse_capture);
DV_FUNCTION(dataverse_new_id);

/* How many changes are written to the log at a time, unless their values are large. */
#define LOG_ROWS 1000
#define LOG_COLUMNS 7

/* How many different sets of changed columns are remembered for a table. */
#define MAX_SETS 1000

/*
 * A table whose changes are captured.  What is known of it outlives the
 * statement; it is made anew when the table or the entry of its copy has changed.
 */
typedef struct captured
{
	Oid			relid;			/* hash key */
	bool		is_valid;		/* no change of the table has been announced since */
	MemoryContext context;		/* of all that follows; NULL before the first use */
	Oid			target;			/* the table of the copy: this one, or one above it */
	int64		copy;
	Datum		stored[3];		/* what the entry of the copy said, as it is stored */
	FullTransactionId checked_in;	/* when it was last compared with the entry */
	CommandId	checked_at;
	AttrNumber	id;
	AttrNumber	version;
	AttrNumber	last;			/* of all attributes that are looked at */
	int			ncolumns;		/* those that are copied, without the id and the version */
	AttrNumber *columns;
	FmgrInfo   *to_jsonb;		/* for the type of each; valid once fn_expr is set */
	Datum	   *names;
	Datum		none;			/* an empty array */
	MemoryContext set_context;
	Size		set_size;
	HTAB	   *sets;			/* changed columns as bits, and as an array of their names */
} captured;

/* The members of captured.stored, and the names of their columns in dataverse.copies. */
static const char *const stored_names[] = {"id_column", "version_column", "columns"};

enum
{
	STORED_ID, STORED_VERSION, STORED_COLUMNS
};

/* Changes on their way to the log. */
typedef struct change_log
{
	Relation	rel;			/* NULL if there has been no change yet */
	int64		number;			/* of the statement */
	BulkInsertState bulk;
	MemoryContext context;		/* of what follows */
	MemoryContext scratch;
	int			capacity;		/* of the arrays */
	int			nslots;
	int			n;				/* of the slots that are in use */
	TupleTableSlot **slots;
	pg_uuid_t  *ids;
} change_log;

/* One call of the trigger function. */
typedef struct capture
{
	Relation	rel;
	captured   *table;
	Oid			log_relid;
	change_log	log;
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

static HTAB *tables = NULL;

/*
 * What is captured of a table
 */

static void
invalidate(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS scan;
	captured   *table;

	if (OidIsValid(relid))
	{
		table = hash_search(tables, &relid, HASH_FIND, NULL);
		if (table != NULL)
			table->is_valid = false;
		return;
	}
	hash_seq_init(&scan, tables);
	while ((table = hash_seq_search(&scan)) != NULL)
		table->is_valid = false;
}

static captured *
entry_of(Oid relid)
{
	captured   *table;
	bool		found;

	if (tables == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid), .entrysize = sizeof(captured)};

		tables = hash_create("dataverse captured tables", 16, &control, HASH_ELEM | HASH_BLOBS);
		CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	}
	table = hash_search(tables, &relid, HASH_ENTER, &found);
	if (!found)
		memset((char *) table + sizeof(Oid), 0, sizeof(captured) - sizeof(Oid));
	return table;
}

/* Returns the tables right above this one. */
static List *
parents_of(Oid relid)
{
	Relation	rel = table_open(InheritsRelationId, AccessShareLock);
	List	   *parents = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		parents = lappend_oid(parents, ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return parents;
}

/* Returns what dataverse.copies has of the copy with this target, or NULL if it is not tracked. */
static HeapTuple
entry_for(Relation copies, Oid index, Oid target)
{
	AttrNumber	id_column = get_attnum(RelationGetRelid(copies), stored_names[STORED_ID]);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	HeapTuple	result = NULL;

	ScanKeyInit(&key, get_attnum(RelationGetRelid(copies), "target_oid"), BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(target));
	scan = systable_beginscan(copies, index, OidIsValid(index), NULL, 1, &key);
	while (result == NULL && HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (!heap_attisnull(tuple, id_column, RelationGetDescr(copies)))
			result = heap_copytuple(tuple);
	systable_endscan(scan);
	return result;
}

/* Looks for the copy upwards from a table. */
static HeapTuple
find_copy(Relation copies, Oid index, Oid relid, Oid *target)
{
	List	   *relids = list_make1_oid(relid);
	ListCell   *lc;

	/* the list grows while it is gone through */
	foreach(lc, relids)
	{
		HeapTuple	tuple = entry_for(copies, index, lfirst_oid(lc));

		*target = lfirst_oid(lc);
		if (tuple != NULL)
			return tuple;
		relids = list_concat_unique_oid(relids, parents_of(lfirst_oid(lc)));
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("changes of table \"%s\" cannot be captured, because it is not tracked",
					get_rel_name(relid)),
			 errdetail("The table has a trigger that calls dataverse.capture()."),
			 errhint("Call dataverse.track() for the copy that the table belongs to, or dataverse.untrack() for the table.")));
}

static AttrNumber
column_of(Relation rel, Datum name, Oid type)
{
	const char *wanted = TextDatumGetCString(name);
	int			i;

	for (i = 0; i < RelationGetDescr(rel)->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), wanted) == 0 &&
			(type == InvalidOid || att->atttypid == type))
			return att->attnum;
	}
	if (type == InvalidOid)
		return InvalidAttrNumber;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("changes of table \"%s\" cannot be captured, because it has no column \"%s\" of type %s",
					RelationGetRelationName(rel), wanted, format_type_be(type)),
			 errhint("Call dataverse.pull() and then dataverse.track() again.")));
}

static Datum
array_of(Datum *names, int n)
{
	return PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* Prepares the place where sets of changed columns are remembered, and forgets those that were. */
static void
forget_sets(captured *table)
{
	HASHCTL		control = {0};

	if (table->set_context == NULL)
		table->set_context = AllocSetContextCreate(table->context, "dataverse sets of columns",
												   ALLOCSET_SMALL_SIZES);
	MemoryContextReset(table->set_context);
	table->set_size = Max((table->ncolumns + 7) / 8, 1);
	control.keysize = table->set_size;
	control.entrysize = MAXALIGN(table->set_size) + sizeof(Datum);
	control.hcxt = table->set_context;
	table->sets = hash_create("dataverse sets of columns", 16, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Finds the columns of the copy in the table: names are the same, numbers need not be. */
static void
prepare(captured *table, Relation rel)
{
	Bitmapset  *seen = NULL;	/* whoever owns the copy may have written anything into the entry */
	Datum	   *names;
	int			n;
	int			i;

	table->id = column_of(rel, table->stored[STORED_ID], UUIDOID);
	table->version = column_of(rel, table->stored[STORED_VERSION], INT8OID);
	table->last = Max(table->id, table->version);
	deconstruct_array(DatumGetArrayTypeP(table->stored[STORED_COLUMNS]), TEXTOID, -1, false,
					  TYPALIGN_INT, &names, NULL, &n);
	table->columns = palloc(sizeof(AttrNumber) * n);
	table->names = palloc(sizeof(Datum) * n);
	table->to_jsonb = palloc0(sizeof(FmgrInfo) * n);
	table->ncolumns = 0;
	for (i = 0; i < n; i++)
	{
		AttrNumber	attnum = column_of(rel, names[i], InvalidOid);

		/* a column may have been dropped, or made anew as a generated one, since the last run */
		if (attnum == InvalidAttrNumber || attnum == table->id || attnum == table->version ||
			bms_is_member(attnum, seen) ||
			TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attgenerated != '\0')
			continue;
		seen = bms_add_member(seen, attnum);
		table->columns[table->ncolumns] = attnum;
		table->names[table->ncolumns++] = names[i];
		table->last = Max(table->last, attnum);
	}
	table->none = array_of(table->names, 0);
	table->set_context = NULL;
	forget_sets(table);
}

/* Takes over what the entry of the copy says, unless it is what is known already. */
static void
take_entry(captured *table, Relation rel, Relation copies, HeapTuple tuple, Oid target)
{
	TupleDesc	desc = RelationGetDescr(copies);
	Datum		stored[lengthof(stored_names)];
	bool		same = table->is_valid;
	bool		isnull;
	MemoryContext old;
	int64		copy;
	int			i;

	copy = DatumGetInt64(heap_getattr(tuple, get_attnum(RelationGetRelid(copies), "id"), desc,
									  &isnull));
	same = same && copy == table->copy;
	for (i = 0; i < (int) lengthof(stored_names); i++)
	{
		stored[i] = heap_getattr(tuple, get_attnum(RelationGetRelid(copies), stored_names[i]), desc,
								 &isnull);
		if (isnull)
			elog(ERROR, "the entry of copy " INT64_FORMAT " has no \"%s\"", copy, stored_names[i]);
		same = same && datumIsEqual(stored[i], table->stored[i], false, -1);
	}
	if (same)
		return;
	table->is_valid = false;
	if (table->context == NULL)
		table->context = AllocSetContextCreate(CacheMemoryContext, "dataverse captured table",
											   ALLOCSET_SMALL_SIZES);
	MemoryContextReset(table->context);
	old = MemoryContextSwitchTo(table->context);
	table->copy = copy;
	table->target = target;
	for (i = 0; i < (int) lengthof(stored_names); i++)
		table->stored[i] = datumCopy(stored[i], false, -1);
	prepare(table, rel);
	table->is_valid = true;
	MemoryContextSwitchTo(old);
}

/* Returns what is captured of a table.  It is looked up once for each statement. */
static captured *
captured_table(Relation rel, Oid schema)
{
	captured   *table = entry_of(RelationGetRelid(rel));
	FullTransactionId transaction = GetTopFullTransactionId();
	CommandId	command = GetCurrentCommandId(false);
	Relation	copies;
	HeapTuple	tuple = NULL;
	Oid			target = table->target;
	Oid			index;

	if (table->is_valid && FullTransactionIdEquals(table->checked_in, transaction) &&
		table->checked_at == command)
		return table;
	copies = table_open(get_relname_relid("copies", schema), AccessShareLock);
	index = get_relname_relid("copies_target_oid_idx", schema);
	if (table->is_valid)
		tuple = entry_for(copies, index, target);
	if (tuple == NULL)
	{
		table->is_valid = false;
		tuple = find_copy(copies, index, RelationGetRelid(rel), &target);
	}
	take_entry(table, rel, copies, tuple, target);
	table_close(copies, AccessShareLock);
	table->checked_in = transaction;
	table->checked_at = command;
	return table;
}

/*
 * The log
 */

static void
open_log(capture *c)
{
	change_log *log = &c->log;

	log->rel = table_open(c->log_relid, RowExclusiveLock);
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
	if (log->capacity == LOG_ROWS)
		log->scratch = AllocSetContextCreate(log->context, "dataverse change log",
											 ALLOCSET_DEFAULT_SIZES);
}

static void
flush_log(change_log *log)
{
	MemoryContext old = MemoryContextSwitchTo(log->context);
	int			i;

	if (log->bulk == NULL && log->n == LOG_ROWS)
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
static void
close_log(change_log *log)
{
	int			i;

	if (log->rel == NULL)
		return;
	if (log->n > 0)
		flush_log(log);
	if (log->bulk != NULL)
		FreeBulkInsertState(log->bulk);
	table_finish_bulk_insert(log->rel, 0);
	for (i = 0; i < log->nslots; i++)
		ExecDropSingleTupleTableSlot(log->slots[i]);
	table_close(log->rel, NoLock);
}

static TupleTableSlot *
next_log_slot(capture *c)
{
	change_log *log = &c->log;

	if (log->rel == NULL)
		open_log(c);
	if (log->n == log->nslots)
	{
		MemoryContext context = MemoryContextSwitchTo(log->context);

		log->slots[log->nslots++] = table_slot_create(log->rel, NULL);
		MemoryContextSwitchTo(context);
	}
	return log->slots[log->n];
}

/*
 * "columns" must stay until the log is flushed; "was" has the values of these
 * columns in "old", the row before.  Both are missing if there was none.
 */
static void
log_change(capture *c, char operation, const pg_uuid_t * id, Datum columns, Datum was,
		   TupleTableSlot *old)
{
	change_log *log = &c->log;
	TupleTableSlot *slot = next_log_slot(c);

	log->ids[log->n] = *id;
	memset(slot->tts_isnull, false, sizeof(bool) * LOG_COLUMNS);
	slot->tts_values[0] = Int64GetDatum(c->table->copy);
	slot->tts_values[1] = UUIDPGetDatum(&log->ids[log->n]);
	slot->tts_values[2] = CharGetDatum(operation);
	slot->tts_values[3] = columns;
	if (old != NULL)
		slot->tts_values[4] = slot_getattr(old, c->table->version, &slot->tts_isnull[4]);
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

/* Returns the names of changed columns; most statements change the same ones in all rows. */
static Datum
names_of(capture *c, const uint8 *changed)
{
	captured   *table = c->table;
	Datum	   *names;
	Datum	   *set;
	MemoryContext old;
	bool		found;
	int			n = 0;
	int			i;

	if (hash_get_num_entries(table->sets) >= MAX_SETS &&
		hash_search(table->sets, changed, HASH_FIND, NULL) == NULL)
	{
		if (c->log.n > 0)
			flush_log(&c->log);
		forget_sets(table);
	}
	set = (Datum *) ((char *) hash_search(table->sets, changed, HASH_ENTER, &found) +
					 MAXALIGN(table->set_size));
	if (found)
		return *set;
	*set = table->none;
	names = palloc(sizeof(Datum) * table->ncolumns);
	for (i = 0; i < table->ncolumns; i++)
		if (changed[i / 8] & 1 << i % 8)
			names[n++] = table->names[i];
	old = MemoryContextSwitchTo(table->set_context);
	*set = array_of(names, n);
	MemoryContextSwitchTo(old);
	pfree(names);
	return *set;
}

/* Returns a value as JSON, whose form does not depend on settings such as DateStyle. */
static Datum
as_jsonb(const captured *table, int column, Oid type, Datum value)
{
	FmgrInfo   *to_jsonb = &table->to_jsonb[column];

	if (to_jsonb->fn_expr == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(table->context);
		Const	   *example = makeNullConst(type, -1, InvalidOid);

		fmgr_info_cxt(F_TO_JSONB, to_jsonb, table->context);
		fmgr_info_set_expr((Node *) makeFuncExpr(F_TO_JSONB, JSONBOID, list_make1(example), InvalidOid,
												 InvalidOid, COERCE_EXPLICIT_CALL), to_jsonb);
		MemoryContextSwitchTo(old);
	}
	return FunctionCall1(to_jsonb, value);
}

/* Returns the values that changed columns had, in the order of names_of(). */
static Datum
values_of(capture *c, const uint8 *changed, TupleTableSlot *old)
{
	const captured *table = c->table;
	MemoryContext context;
	Datum	   *values;
	bool	   *isnull;
	Datum		array;
	int			lower = 1;
	int			n = 0;
	int			i;

	if (c->log.rel == NULL)
		open_log(c);
	context = MemoryContextSwitchTo(c->log.scratch != NULL ? c->log.scratch : c->log.context);
	values = palloc(sizeof(Datum) * table->ncolumns);
	isnull = palloc(sizeof(bool) * table->ncolumns);
	for (i = 0; i < table->ncolumns; i++)
	{
		int			j = table->columns[i] - 1;

		if (!(changed[i / 8] & 1 << i % 8))
			continue;
		isnull[n] = old->tts_isnull[j];
		if (!isnull[n])
			values[n] = as_jsonb(table, i, TupleDescAttr(RelationGetDescr(c->rel), j)->atttypid,
								 old->tts_values[j]);
		n++;
	}
	array = PointerGetDatum(construct_md_array(values, isnull, 1, &n, &lower, JSONBOID, -1, false,
											   TYPALIGN_INT));
	MemoryContextSwitchTo(context);
	return array;
}

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
				 errdetail("Changes of the table are captured, and rows are known by their ids.")));
	return id;
}

/* Values are compared as pull() compares them: by their binary images. */
static bool
is_same_value(Datum a, Datum b, bool byval, int16 len)
{
	if (byval)
		return a == b;
	/* what is stored outside of the row, and compressed values, are mostly the very same */
	if (len == -1 && VARSIZE_ANY(DatumGetPointer(a)) == VARSIZE_ANY(DatumGetPointer(b)) &&
		memcmp(DatumGetPointer(a), DatumGetPointer(b), VARSIZE_ANY(DatumGetPointer(a))) == 0)
		return true;
	return datum_image_eq(a, b, byval, len);
}

static void
changed_row(capture *c, const pg_uuid_t * id, TupleTableSlot *old, TupleTableSlot *new)
{
	const captured *table = c->table;
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
		Datum		names = names_of(c, changed);

		log_change(c, 'U', id, names, values_of(c, changed, old), old);
	}
}

static void
new_row(capture *c, TupleTableSlot *new)
{
	log_change(c, 'I', id_of_new(c, new), c->table->none, (Datum) 0, NULL);
}

static void
gone_row(capture *c, TupleTableSlot *old)
{
	const		pg_uuid_t *id = id_of(c, old);

	/* what has no id is not known to the service */
	if (id != NULL)
		log_change(c, 'D', id, c->table->none, (Datum) 0, old);
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

/* Rows have no counterparts: an id that was there before is gone, or a new one is there now. */
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

/* Pairs a row with its counterpart if that has come up before; otherwise it waits. */
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
		/* an id that is there twice, which a unique index on each of several tables allows */
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
	/* a row that is deleted and inserted has changed in all columns, which is true as well */
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
			c->table = captured_table(c->rel, get_rel_namespace(c->log_relid));
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
	c->table = captured_table(c->rel, get_rel_namespace(c->log_relid));
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
			 errmsg("trigger \"%s\" of table \"%s\" cannot call dataverse.capture()",
					trigger->tg_trigger->tgname, RelationGetRelationName(trigger->tg_relation)),
			 errhint("Drop the trigger; dataverse.track() makes those that are needed.")));
}

/*
 * Is the statement not to be captured?  Only who could drop the trigger may say
 * so: a change that is not captured is not sent, and the next one of the service
 * overwrites it.
 */
static bool
is_switched_off(PG_FUNCTION_ARGS, Relation rel)
{
	if (dv_capture || DatumGetInt32(pg_trigger_depth(fcinfo)) != 1)
		return false;
	if (!has_privs_of_role(dv_setting_role("capture"), rel->rd_rel->relowner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to change table \"%s\" without its changes being captured",
						RelationGetRelationName(rel)),
				 errdetail("\"dataverse_fdw.capture\" was set to \"off\" by a role that lacks the rights of the table's owner."),
				 errhint("RESET dataverse_fdw.capture;")));
	return true;
}

/*
 * capture(): a trigger of dataverse.track().  What pull() and sync() write is
 * not captured, as they turn the setting off; what triggers do in consequence is.
 */
Datum
dataverse_capture(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	capture		c = {0};

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("dataverse.capture() was not called as a trigger")));
	if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
		refuse_truncate(trigger);
	check_trigger(trigger);
	if (is_switched_off(fcinfo, trigger->tg_relation))
		return PointerGetDatum(NULL);
	c.rel = trigger->tg_relation;
	c.log_relid = get_relname_relid("local_changes", get_func_namespace(fcinfo->flinfo->fn_oid));
	c.log.capacity = TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ? 2 : LOG_ROWS;
	if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		capture_row(&c, trigger);
	else
		capture_statement(&c, trigger->tg_oldtable, trigger->tg_newtable);
	close_log(&c.log);
	return PointerGetDatum(NULL);
}

/* new_id(): the next id, as it would be made for a row that is inserted without one */
Datum
dataverse_new_id(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *id = palloc(sizeof(*id));

	dv_identity_make(id->data);
	PG_RETURN_UUID_P(id);
}

/*
 * captured.c
 *		Cached information about tables whose changes are captured.
 *
 * The trigger function trusts nothing that the creator of the trigger could
 * specify: the copy is the one in dataverse_private.copies whose target is the table, or
 * one above it.  The owner of the copy may have written anything into its entry.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "sync/captured.h"

/* The most sets of changed columns that are remembered for a table. */
#define MAX_SETS 1000

/* The columns of dataverse_private.copies that are kept in dv_captured.stored. */
static const char *const stored_names[] = {"id_column", "version_column", "columns"};

enum
{
	STORED_ID, STORED_VERSION, STORED_COLUMNS
};

StaticAssertDecl(lengthof(stored_names) == DV_CAPTURED_STORED, "all of them are kept");

typedef struct known_table
{
	Oid			relid;			/* hash key */
	bool		is_valid;		/* no change of the table has been announced since */
	dv_captured *table;			/* NULL before the first use */
	FullTransactionId checked_in;	/* when it was last compared with the entry */
	CommandId	checked_at;
} known_table;

static HTAB *tables = NULL;

/*
 * The cache of tables
 */

static void
invalidate(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS scan;
	known_table *known;

	if (OidIsValid(relid))
	{
		known = hash_search(tables, &relid, HASH_FIND, NULL);
		if (known != NULL)
			known->is_valid = false;
		return;
	}
	hash_seq_init(&scan, tables);
	while ((known = hash_seq_search(&scan)) != NULL)
		known->is_valid = false;
}

static known_table *
entry_of(Oid relid)
{
	known_table *known;
	bool		found;

	if (tables == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid), .entrysize = sizeof(known_table)};

		tables = hash_create("dataverse captured tables", 16, &control, HASH_ELEM | HASH_BLOBS);
		CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	}
	known = hash_search(tables, &relid, HASH_ENTER, &found);
	if (!found)
		memset((char *) known + sizeof(Oid), 0, sizeof(known_table) - sizeof(Oid));
	return known;
}

/*
 * The entry of the copy
 */

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

/*
 * Returns the entry in dataverse_private.copies of the copy with this target, or NULL if it is not
 * tracked.
 */
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

/* Finds the copy, upwards from a table. */
static HeapTuple
find_copy(Relation copies, Oid index, Oid relid, Oid *target)
{
	List	   *relids = list_make1_oid(relid);
	ListCell   *lc;

	/* the list grows during the loop */
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
			 errdetail("The table has a trigger that calls dataverse_private.capture()."),
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

/* Also prepares the place where sets are remembered. */
static void
forget_sets(dv_captured *table)
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
prepare(dv_captured *table, Relation rel)
{
	Bitmapset  *seen = NULL;	/* the owner of the copy may have written anything into the entry */
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

		/* a column may have been dropped, or recreated as a generated one, since the last run */
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
	forget_sets(table);
}

/* Reads the entry of the copy, unless it has not changed. */
static void
take_entry(known_table *known, Relation rel, Relation copies, HeapTuple tuple, Oid target)
{
	TupleDesc	desc = RelationGetDescr(copies);
	Datum		stored[lengthof(stored_names)];
	bool		same = known->is_valid;
	bool		isnull;
	MemoryContext context;
	MemoryContext old;
	dv_captured *table;
	int64		copy;
	int			i;

	copy = DatumGetInt64(heap_getattr(tuple, get_attnum(RelationGetRelid(copies), "id"), desc,
									  &isnull));
	same = same && copy == known->table->copy;
	for (i = 0; i < (int) lengthof(stored_names); i++)
	{
		stored[i] = heap_getattr(tuple, get_attnum(RelationGetRelid(copies), stored_names[i]), desc,
								 &isnull);
		if (isnull)
			elog(ERROR, "the entry of copy " INT64_FORMAT " has no \"%s\"", copy, stored_names[i]);
		same = same && datumIsEqual(stored[i], known->table->stored[i], false, -1);
	}
	if (same)
		return;
	known->is_valid = false;
	context = AllocSetContextCreate(CurrentMemoryContext, "dataverse captured table",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	table = palloc0(sizeof(*table));
	table->context = context;
	table->copy = copy;
	table->target = target;
	for (i = 0; i < (int) lengthof(stored_names); i++)
		table->stored[i] = datumCopy(stored[i], false, -1);
	prepare(table, rel);
	MemoryContextSwitchTo(old);
	if (known->table != NULL)
		MemoryContextSetParent(known->table->context, TopTransactionContext);
	MemoryContextSetParent(context, CacheMemoryContext);
	known->table = table;
	known->is_valid = true;
}

dv_captured *
dv_captured_table(Relation rel, Oid schema)
{
	known_table *known = entry_of(RelationGetRelid(rel));
	FullTransactionId transaction = GetTopFullTransactionId();
	CommandId	command = GetCurrentCommandId(false);
	Relation	copies;
	HeapTuple	tuple = NULL;
	Oid			target = known->is_valid ? known->table->target : InvalidOid;
	Oid			index;

	if (known->is_valid && FullTransactionIdEquals(known->checked_in, transaction) &&
		known->checked_at == command)
		return known->table;
	copies = table_open(get_relname_relid("copies", schema), AccessShareLock);
	index = get_relname_relid("copies_target_oid_idx", schema);
	if (known->is_valid)
		tuple = entry_for(copies, index, target);
	if (tuple == NULL)
	{
		known->is_valid = false;
		tuple = find_copy(copies, index, RelationGetRelid(rel), &target);
	}
	take_entry(known, rel, copies, tuple, target);
	table_close(copies, AccessShareLock);
	known->checked_in = transaction;
	known->checked_at = command;
	return known->table;
}

/*
 * Changed columns
 */

static bool
is_in(const uint8 *set, int i)
{
	return (set[i / 8] & 1 << i % 8) != 0;
}

static bool
has_room(const dv_captured *table, const uint8 *changed)
{
	return hash_get_num_entries(table->sets) < MAX_SETS ||
		hash_search(table->sets, changed, HASH_FIND, NULL) != NULL;
}

static Datum
array_of_set(dv_captured *table, const uint8 *set)
{
	Datum	   *names = palloc(sizeof(Datum) * table->ncolumns);
	MemoryContext old;
	Datum		array;
	int			n = 0;
	int			i;

	for (i = 0; i < table->ncolumns; i++)
		if (is_in(set, i))
			names[n++] = table->names[i];
	old = MemoryContextSwitchTo(table->set_context);
	array = array_of(names, n);
	MemoryContextSwitchTo(old);
	pfree(names);
	return array;
}

/* Most statements change the same columns in all rows. */
Datum
dv_captured_names(dv_captured *table, const uint8 *changed)
{
	Datum	   *names;
	bool		found;

	if (!has_room(table, changed))
		forget_sets(table);
	names = (Datum *) ((char *) hash_search(table->sets, changed, HASH_ENTER, &found) +
					   MAXALIGN(table->set_size));
	if (!found)
	{
		*names = table->none;
		*names = array_of_set(table, changed);
	}
	return datumCopy(*names, false, -1);
}

/* Returns a value as JSON, whose form does not depend on settings such as DateStyle. */
static Datum
as_jsonb(const dv_captured *table, int column, Oid type, Datum value)
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

Datum
dv_captured_values(const dv_captured *table, const uint8 *changed, TupleTableSlot *row)
{
	Datum	   *values = palloc(sizeof(Datum) * table->ncolumns);
	bool	   *isnull = palloc(sizeof(bool) * table->ncolumns);
	int			lower = 1;
	int			n = 0;
	int			i;

	slot_getsomeattrs(row, table->last);
	for (i = 0; i < table->ncolumns; i++)
	{
		int			j = table->columns[i] - 1;

		if (!is_in(changed, i))
			continue;
		isnull[n] = row->tts_isnull[j];
		if (!isnull[n])
			values[n] = as_jsonb(table, i, TupleDescAttr(row->tts_tupleDescriptor, j)->atttypid,
								 row->tts_values[j]);
		n++;
	}
	return PointerGetDatum(construct_md_array(values, isnull, 1, &n, &lower, JSONBOID, -1, false,
											  TYPALIGN_INT));
}

/*
 * merge_page.c
 *		The rows that dataverse.pull() is about to merge.
 *
 * A page contains the rows that dataverse_private.read_page() has read, or that SQL has
 * put into it with dataverse_private.page_add() and dataverse_private.page_delete().  SQL gets
 * the rows from dataverse_private.page_rows() and the ids of deleted ones from
 * dataverse_private.page_deletions(), as often as it needs them, and merges them as sets.
 *
 * If the table of a copy refuses a set, SQL divides it: dataverse_private.page_window()
 * selects the entries that these functions return from then on.  Entries keep the
 * place in which the service first named them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"
#include "utils/uuid.h"

#include "compat.h"
#include "fdw/guard.h"
#include "fdw/relation.h"
#include "fdw/result.h"
#include "sync/merge_page.h"

DV_FUNCTION(dataverse_page_start);
DV_FUNCTION(dataverse_page_add);
DV_FUNCTION(dataverse_page_delete);
DV_FUNCTION(dataverse_page_leave_out);
DV_FUNCTION(dataverse_page_keep);
DV_FUNCTION(dataverse_page_window);
DV_FUNCTION(dataverse_page_rows);
DV_FUNCTION(dataverse_page_left_out);
DV_FUNCTION(dataverse_page_deletions);
DV_FUNCTION(dataverse_page_repeated);

typedef struct page_entry
{
	pg_uuid_t	id;				/* hash key */
	bool		deleted;
	bool		left_out;
	HeapTuple	tuple;			/* NULL if it is deleted */
} page_entry;

struct dv_merge_page
{
	MemoryContext context;
	Oid			roleid;			/* the role that has read it */
	Oid			rowtype;
	TupleDesc	desc;
	HTAB	   *entries;		/* each id once */
	page_entry **order;
	int64		n;
	int64		capacity;
	int64		upserts;
	int64		deletions;
	List	   *left_out;		/* tuples */
	List	   *repeated;		/* ids of rows that came several times */
	bool		divided;		/* a window has been selected: */
	int64		first;
	int64		end;
};

static dv_merge_page *current_page = NULL;

static void
forget_page(void *arg)
{
	if (current_page == arg)
		current_page = NULL;
}

dv_merge_page *
dv_merge_page_start(Oid relid)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dataverse page to merge",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));
	dv_merge_page *page = MemoryContextAllocZero(context, sizeof(*page));
	HASHCTL		control = {.keysize = sizeof(pg_uuid_t), .entrysize = sizeof(page_entry),
	.hcxt = context};
	Relation	rel = table_open(relid, AccessShareLock);
	MemoryContext old;

	dv_hold_check_types(rel);
	old = MemoryContextSwitchTo(context);

	page->desc = CreateTupleDescCopy(RelationGetDescr(rel));
	page->capacity = 1024;
	page->order = palloc(sizeof(page_entry *) * page->capacity);
	MemoryContextSwitchTo(old);
	page->roleid = GetUserId();
	page->rowtype = rel->rd_rel->reltype;
	table_close(rel, NoLock);
	page->context = context;
	page->entries = hash_create("dataverse page entries", 1024, &control,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	callback->func = forget_page;
	callback->arg = page;
	MemoryContextRegisterResetCallback(context, callback);
	dv_merge_page_end();
	return page;
}

void
dv_merge_page_keep(dv_merge_page *page)
{
	dv_merge_page_end();
	MemoryContextSetParent(page->context, TopTransactionContext);
	current_page = page;
}

void
dv_merge_page_end(void)
{
	if (current_page != NULL)
		MemoryContextDelete(current_page->context);
}

TupleDesc
dv_merge_page_desc(const dv_merge_page *page)
{
	return page->desc;
}

int64
dv_merge_page_upserts(const dv_merge_page *page)
{
	return page->upserts;
}

int64
dv_merge_page_deletions(const dv_merge_page *page)
{
	return page->deletions;
}

static page_entry *
note(dv_merge_page *page, const uint8 *id, bool deleted)
{
	page_entry *entry;
	bool		found;

	entry = hash_search(page->entries, id, HASH_ENTER, &found);
	if (found && !entry->deleted && !deleted)
	{
		MemoryContext old = MemoryContextSwitchTo(page->context);

		page->repeated = lappend(page->repeated, memcpy(palloc(sizeof(pg_uuid_t)), id, sizeof(pg_uuid_t)));
		MemoryContextSwitchTo(old);
	}
	if (found && entry->deleted)
		page->deletions--;
	else if (found)
		page->upserts--;
	else
	{
		if (page->n == page->capacity)
		{
			page->capacity *= 2;
			page->order = repalloc_huge(page->order, sizeof(page_entry *) * page->capacity);
		}
		page->order[page->n++] = entry;
	}
	entry->deleted = deleted;
	entry->left_out = false;
	entry->tuple = NULL;
	if (deleted)
		page->deletions++;
	else
		page->upserts++;
	return entry;
}

void
dv_merge_page_upsert(dv_merge_page *page, const uint8 *id, Datum *values, bool *nulls)
{
	page_entry *entry = note(page, id, false);
	MemoryContext old = MemoryContextSwitchTo(page->context);

	entry->tuple = heap_form_tuple(page->desc, values, nulls);
	MemoryContextSwitchTo(old);
}

void
dv_merge_page_delete(dv_merge_page *page, const uint8 *id)
{
	(void) note(page, id, true);
}

/*
 * For SQL
 */

/* Checks that the row type has not changed since the rows of the page were formed. */
static void
check_layout(const dv_merge_page *page, TupleDesc desc)
{
	bool		same = desc->natts == page->desc->natts;
	int			i;

	for (i = 0; same && i < desc->natts; i++)
	{
		Form_pg_attribute a = TupleDescAttr(desc, i);
		Form_pg_attribute b = TupleDescAttr(page->desc, i);

		same = a->attisdropped == b->attisdropped && a->atttypid == b->atttypid &&
			a->attlen == b->attlen && a->attbyval == b->attbyval && a->attalign == b->attalign;
	}
	if (!same)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("type %s has been altered since the page was read",
						format_type_be(page->rowtype))));
}

/*
 * Returns the page, or NULL.  A SECURITY DEFINER function may have read it with
 * rights that the caller of that function does not have.
 */
static dv_merge_page *
own_page(void)
{
	if (current_page != NULL && !has_privs_of_role(GetUserId(), current_page->roleid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the page has been read by another role")));
	return current_page;
}

/* Returns the page, which must have rows of this type. */
static dv_merge_page *
page_of(Oid type)
{
	TupleDesc	desc;

	if (own_page() == NULL || current_page->rowtype != type)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no page of rows of type %s has been read in this transaction",
						format_type_be(type))));
	desc = lookup_rowtype_tupdesc(type, -1);
	check_layout(current_page, desc);
	ReleaseTupleDesc(desc);
	return current_page;
}

/* page_start(foreign_table): begins an empty page */
Datum
dataverse_page_start(PG_FUNCTION_ARGS)
{
	dv_merge_page_keep(dv_merge_page_start(dv_relation_of(PG_GETARG_OID(0), ACL_SELECT)->relid));
	PG_RETURN_VOID();
}

/* page_add(id, row): puts a row into the page */
Datum
dataverse_page_add(PG_FUNCTION_ARGS)
{
	dv_merge_page *page = page_of(get_fn_expr_argtype(fcinfo->flinfo, 1));
	HeapTupleHeader row = PG_GETARG_HEAPTUPLEHEADER(1);
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row), .t_data = row};
	page_entry *entry = note(page, PG_GETARG_UUID_P(0)->data, false);
	MemoryContext old = MemoryContextSwitchTo(page->context);

	ItemPointerSetInvalid(&tuple.t_self);
	entry->tuple = heap_copytuple(&tuple);
	MemoryContextSwitchTo(old);
	PG_RETURN_BOOL(true);
}

/* page_delete(ids): puts deletions into the page */
Datum
dataverse_page_delete(PG_FUNCTION_ARGS)
{
	Datum	   *ids;
	bool	   *nulls;
	int			n;
	int			i;

	if (own_page() == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no page has been begun in this transaction")));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &ids, &nulls, &n);
	for (i = 0; i < n; i++)
		if (!nulls[i])
			dv_merge_page_delete(current_page, DatumGetUUIDP(ids[i])->data);
	PG_RETURN_VOID();
}

static void
forget_entry(dv_merge_page *page, const page_entry *entry)
{
	if (entry->deleted)
		page->deletions--;
	else
		page->upserts--;
	(void) hash_search(page->entries, &entry->id, HASH_REMOVE, NULL);
}

static void
leave_out(dv_merge_page *page, page_entry *entry)
{
	MemoryContext old = MemoryContextSwitchTo(page->context);

	entry->left_out = true;
	if (!entry->deleted)
		page->left_out = lappend(page->left_out, entry->tuple);
	MemoryContextSwitchTo(old);
}

/* Forgets the entries that are left out; the others move up. */
static void
close_gaps(dv_merge_page *page)
{
	int64		kept = 0;
	int64		i;

	for (i = 0; i < page->n; i++)
	{
		if (page->order[i]->left_out)
			forget_entry(page, page->order[i]);
		else
			page->order[kept++] = page->order[i];
	}
	page->n = kept;
}

/* Returns the entries with these ids. */
static List *
entries_of(const dv_merge_page *page, ArrayType *array)
{
	List	   *entries = NIL;
	Datum	   *ids;
	bool	   *nulls;
	int			n;
	int			i;

	deconstruct_array(array, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &ids, &nulls, &n);
	for (i = 0; i < n; i++)
	{
		page_entry *entry = nulls[i] ? NULL :
		hash_search(page->entries, DatumGetUUIDP(ids[i])->data, HASH_FIND, NULL);

		if (entry != NULL)
			entries = lappend(entries, entry);
	}
	return entries;
}

/*
 * page_leave_out(ids): these entries are not merged.  If the page has been
 * divided, the others must keep their places.
 */
Datum
dataverse_page_leave_out(PG_FUNCTION_ARGS)
{
	dv_merge_page *page = own_page();
	ListCell   *lc;

	if (page == NULL)
		PG_RETURN_VOID();
	foreach(lc, entries_of(page, PG_GETARG_ARRAYTYPE_P(0)))
	{
		page_entry *entry = lfirst(lc);

		if (!entry->left_out)
			leave_out(page, entry);
	}
	if (!page->divided)
		close_gaps(page);
	PG_RETURN_VOID();
}

/* page_keep(ids): forgets all other entries, as if they had not been read */
Datum
dataverse_page_keep(PG_FUNCTION_ARGS)
{
	dv_merge_page *page = own_page();
	ListCell   *lc;
	int64		i;

	if (page == NULL || page->divided)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no page has been begun in this transaction")));
	for (i = 0; i < page->n; i++)
		page->order[i]->left_out = true;
	foreach(lc, entries_of(page, PG_GETARG_ARRAYTYPE_P(0)))
		((page_entry *) lfirst(lc))->left_out = false;
	close_gaps(page);
	PG_RETURN_VOID();
}

/*
 * page_window(first, n): selects n entries of the page for the functions below,
 * from this one on (0 is the first one).  Returns how many of them are rows, and
 * how many are deletions.
 */
Datum
dataverse_page_window(PG_FUNCTION_ARGS)
{
	dv_merge_page *page = own_page();
	Datum		values[2];
	bool		nulls[2] = {false, false};
	int64		upserts = 0;
	int64		deletions = 0;
	int64		i;

	if (page == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no page has been begun in this transaction")));
	page->divided = true;
	page->first = Min(Max(PG_GETARG_INT64(0), 0), page->n);
	page->end = page->first + Min(Max(PG_GETARG_INT64(1), 0), page->n - page->first);
	for (i = page->first; i < page->end; i++)
	{
		if (page->order[i]->left_out)
			continue;
		if (page->order[i]->deleted)
			deletions++;
		else
			upserts++;
	}
	values[0] = Int64GetDatum(upserts);
	values[1] = Int64GetDatum(deletions);
	return dv_result_row(fcinfo, 2, values, nulls);
}

/* Begins the result of a function with rows of the page's type, and returns the page. */
static dv_merge_page *
begin_rows(FunctionCallInfo fcinfo)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	dv_merge_page *page = page_of(type);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	dv_init_materialized_scalars(fcinfo);
	check_layout(page, rsinfo->setDesc);
	return page;
}

/* page_rows(NULL::dv.account): the rows of the page, or of its window */
Datum
dataverse_page_rows(PG_FUNCTION_ARGS)
{
	dv_merge_page *page = begin_rows(fcinfo);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int64		end = page->divided ? page->end : page->n;
	int64		i;

	for (i = page->first; i < end; i++)
		if (!page->order[i]->deleted && !page->order[i]->left_out)
			tuplestore_puttuple(rsinfo->setResult, page->order[i]->tuple);
	return (Datum) 0;
}

/* page_left_out(NULL::dv.account): the rows that are not merged */
Datum
dataverse_page_left_out(PG_FUNCTION_ARGS)
{
	dv_merge_page *page = begin_rows(fcinfo);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	foreach(lc, page->left_out)
		tuplestore_puttuple(rsinfo->setResult, lfirst(lc));
	return (Datum) 0;
}

/* page_deletions(): the ids of deletions in the page, or in its window */
Datum
dataverse_page_deletions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	dv_merge_page *page = own_page();
	int64		end;
	int64		i;

	dv_init_materialized_scalars(fcinfo);
	if (page == NULL)
		return (Datum) 0;
	end = page->divided ? page->end : page->n;
	for (i = page->first; i < end; i++)
	{
		Datum		id = UUIDPGetDatum(&page->order[i]->id);
		bool		isnull = false;

		if (page->order[i]->deleted && !page->order[i]->left_out)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &id, &isnull);
	}
	return (Datum) 0;
}

/*
 * page_repeated(): the ids of rows that came several times; the page has the last version of each
 */
Datum
dataverse_page_repeated(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	dv_init_materialized_scalars(fcinfo);
	if (own_page() == NULL)
		return (Datum) 0;
	foreach(cell, current_page->repeated)
	{
		Datum		id = UUIDPGetDatum((pg_uuid_t *) lfirst(cell));
		bool		isnull = false;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &id, &isnull);
	}
	return (Datum) 0;
}

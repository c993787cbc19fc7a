/*
 * replay.c
 *		Which foreign tables dataverse.retry_rejects() writes to, and what it
 *		tries again.
 *
 * A row is written again with the rights of the role that filed it and calls
 * the function.  The table may have another owner, whose code (triggers,
 * default expressions, and the like) runs when the table is written.  That role
 * has agreed to this when it wrote to the table itself.  It has not agreed to
 * whatever the owner has added since, and with a single call it can write to
 * many tables that it does not name.
 *
 * Hence the rule: the code of a table's owner never runs with more rights than
 * the owner has.  A table is written if its owner could become the caller (the
 * owner is the caller, a member of the caller's role, or a superuser), or if
 * there is no such code.  Running the code as the owner instead is no solution,
 * because that would lend the owner's rights to the caller, who has chosen the
 * values that the code handles.
 *
 * Locks keep the table as it is, and where it is, from the check until the
 * transaction ends: statements find it by its name.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fdw/rejects.h"

DV_FUNCTION(dataverse_may_retry);
DV_FUNCTION(dataverse_retrying);

static ArrayType * entries = NULL;
static Oid	retrying_role = InvalidOid; /* whose they are */

/* Does the extension that has this function serve the table? */
static bool
is_served(Oid relid, Oid function)
{
	Oid			wrapper = GetForeignServer(GetForeignTable(relid)->serverid)->fdwid;
	Oid			extension = getExtensionOfObject(ProcedureRelationId, function);

	return OidIsValid(extension) &&
		getExtensionOfObject(ForeignDataWrapperRelationId, wrapper) == extension;
}

/* Types that come with PostgreSQL belong to nobody else; others can be domains. */
static bool
has_foreign_types(TupleDesc desc)
{
	int			i;

	for (i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			TupleDescAttr(desc, i)->atttypid >= FirstNormalObjectId)
			return true;
	return false;
}

static bool
has_key_expressions(Oid partitioned)
{
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(partitioned));
	bool		isnull = true;

	if (!HeapTupleIsValid(tuple))
		return false;
	(void) SysCacheGetAttr(PARTRELID, tuple, Anum_pg_partitioned_table_partexprs, &isnull);
	ReleaseSysCache(tuple);
	return !isnull;
}

/*
 * Whoever looks at the partition constraint evaluates what is constant in these
 * expressions; so does the relation cache, which is why it is not asked here.
 */
static bool
has_partition_expressions(Relation rel)
{
	ListCell   *lc;

	if (!rel->rd_rel->relispartition)
		return false;
	foreach(lc, get_partition_ancestors(RelationGetRelid(rel)))
	{
		if (has_key_expressions(lfirst_oid(lc)))
			return true;
	}
	return false;
}

/*
 * What there is of the owner's code, or NULL.  Expressions count even if they
 * only call functions of PostgreSQL, and even if no row is checked against
 * them, because the planner can evaluate any of them.
 */
static const char *
code_of(Relation rel)
{
	const		TupleConstr *constraints = RelationGetDescr(rel)->constr;

	if (rel->trigdesc != NULL)
		return "a trigger";
	if (constraints != NULL && constraints->num_defval > 0)
		return "a default or generated column";
	if (constraints != NULL && constraints->num_check > 0)
		return "a check constraint";
	if (RelationGetStatExtList(rel) != NIL)
		return "extended statistics";
	if (has_foreign_types(RelationGetDescr(rel)))
		return "a column of a type that does not come with PostgreSQL";
	if (has_partition_expressions(rel))
		return "a partition key with expressions";
	return NULL;
}

static bool
may_retry(Relation rel)
{
	Oid			owner = rel->rd_rel->relowner;
	const char *code;

	if (dv_can_become(owner, GetUserId()) || (code = code_of(rel)) == NULL)
		return true;
	ereport(WARNING,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("rejected rows of foreign table \"%s\" are not tried again",
					RelationGetRelationName(rel)),
			 errdetail("The table has %s, and its owner, \"%s\", would gain the rights of role \"%s\".",
					   code, GetUserNameFromId(owner, false), GetUserNameFromId(GetUserId(), false)),
			 errhint("Use INSERT with jsonb_populate_record() to write them nevertheless.")));
	return false;
}

/*
 * Keeps the schema's name, which is the key of its catalog row, so that no other
 * table can take the place of the one that was checked.
 */
static void
lock_schema_name(Oid schemaid)
{
	Relation	rel = table_open(NamespaceRelationId, RowShareLock);
	TM_FailureData failure;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	Buffer		buffer;

	ScanKeyInit(&key, Anum_pg_namespace_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(schemaid));
	scan = systable_beginscan(rel, NamespaceOidIndexId, true, NULL, 1, &key);
	tuple = heap_copytuple(systable_getnext(scan));
	systable_endscan(scan);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for schema %u", schemaid);
	if (heap_lock_tuple(rel, tuple, GetCurrentCommandId(false), LockTupleKeyShare, LockWaitBlock,
						false, &buffer, &failure) != TM_Ok)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("schema \"%s\" was changed by another transaction",
						NameStr(((Form_pg_namespace) GETSTRUCT(tuple))->nspname))));
	ReleaseBuffer(buffer);
	table_close(rel, NoLock);
}

/* may_retry(table_oid): false for what is not a foreign table of this extension */
Datum
dataverse_may_retry(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel;
	bool		result;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE ||
		pg_class_aclmask(relid, GetUserId(), ACL_INSERT | ACL_UPDATE | ACL_DELETE, ACLMASK_ANY) == 0)
		PG_RETURN_BOOL(false);
	/* of all locks that keep others from changing the table, the one that lets them write to it */
	rel = try_relation_open(relid, ShareUpdateExclusiveLock);
	if (rel == NULL)
		PG_RETURN_BOOL(false);
	result = is_served(relid, fcinfo->flinfo->fn_oid) && may_retry(rel);
	if (result)
		lock_schema_name(RelationGetNamespace(rel));
	relation_close(rel, NoLock);
	PG_RETURN_BOOL(result);
}

/*
 * What is tried again
 */

const		ArrayType *
dv_replay_entries(Oid roleid)
{
	return roleid == retrying_role ? entries : NULL;
}

void
dv_replay_refused(int64 entry)
{
	int64	   *ids = (int64 *) ((char *) entries + ARR_OVERHEAD_NONULLS(ARR_NDIM(entries)));
	int			n = ArrayGetNItems(ARR_NDIM(entries), ARR_DIMS(entries));
	int			i;

	/* each keeps its place, which may be that of its row */
	for (i = 0; i < n; i++)
		if (ids[i] == entry)
			ids[i] = 0;
}

static void
forget(void *arg)
{
	if (entries == arg)
		entries = NULL;
}

/*
 * retrying(ids): tells the entries of the statement that follows; null at its
 * end.  Whoever calls it has rows that are refused to the same role replace entries
 * of that role and table, which it could delete as well.  If the statement fails,
 * they are forgotten with the memory of the subtransaction.
 */
Datum
dataverse_retrying(PG_FUNCTION_ARGS)
{
	MemoryContextCallback *callback;
	MemoryContext old;
	ArrayType  *ids;

	entries = NULL;
	if (PG_ARGISNULL(0))
		PG_RETURN_VOID();
	old = MemoryContextSwitchTo(CurTransactionContext);
	callback = palloc0(sizeof(*callback));
	ids = PG_GETARG_ARRAYTYPE_P_COPY(0);
	MemoryContextSwitchTo(old);
	if (ARR_NDIM(ids) > 1 || array_contains_nulls(ids))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the ids of rejected rows must be a list without nulls")));
	callback->func = forget;
	callback->arg = ids;
	MemoryContextRegisterResetCallback(CurTransactionContext, callback);
	entries = ids;
	retrying_role = GetUserId();
	PG_RETURN_VOID();
}

/*
 * hold.c
 *		Tables that are written by name, with rights that other roles lack.
 *
 * The steps of a run, and dataverse.retry_rejects(), write to tables by name, often long
 * after these were checked.  dataverse_private.hold() locks such a table, and the name of its
 * schema, until the transaction ends.  It then makes sure that this is the intended table,
 * that statements will find it under its name, and that no role gains rights by code that
 * runs when it is written.
 *
 * The guard (guard.c), which is up while the statements run, refuses functions of other
 * roles.  But an expression can do harm with PostgreSQL's own functions alone
 * (pg_read_file), and a refusal may come when rows are in Dataverse already.  Therefore
 * the following are checked first:
 *
 * - triggers: their functions; their conditions, which may have been written by any role
 *   that has or had the privilege TRIGGER; and their arguments, if another role has it;
 * - defaults, generated columns, and check constraints of the owner, unless they only
 *   call functions that do not depend on the caller; and rules;
 * - domains, since a constraint can be added to them without a lock: their owners, and the
 *   functions that their constraints and defaults call.
 *
 * Other expressions (of indexes, statistics, partition keys) are immutable, and those of an owner
 * who is trusted may call functions of others only when they are needed, so the guard
 * suffices for them.  PostgreSQL keeps the constraints of domains, with functions in SQL put in
 * their places, for as long as the session lasts, so that the guard may not see the
 * functions.  Policies never run: copies are written with "row_security" off, and
 * foreign tables have none.
 *
 * An expression has no owner.  It counts as code of the table's owner, as for PostgreSQL, which
 * runs the expressions of indexes with the rights of that role.  A former owner may have
 * written it, but only a superuser can give a table to a role that he could not become.
 * Who takes over a table takes over its expressions, which any INSERT of that role would run.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

#include "compat.h"
#include "fdw/guard.h"
#include "fdw/relation.h"
#include "sync/hold.h"

DV_FUNCTION(dataverse_hold);

/*
 * Expressions
 */

/*
 * Functions that defaults and conditions of triggers usually call, and whose results do not
 * depend on the caller's rights.
 */
static bool
is_harmless(Oid function)
{
	switch (function)
	{
		case F_NOW:
		case F_CLOCK_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_TRANSACTION_TIMESTAMP:
		case F_GEN_RANDOM_UUID:
		case F_NEXTVAL:
		case F_PG_TRIGGER_DEPTH:
			return true;
		default:
			return func_volatile(function) == PROVOLATILE_IMMUTABLE;
	}
}

static Oid	stranger_of_type(Oid typid);

static bool
does_harm(Oid function, void *context)
{
	return !is_harmless(function) || !dv_guard_trusts(function, GetUserId());
}

static bool
has_harm(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain) &&
		OidIsValid(stranger_of_type(((CoerceToDomain *) node)->resulttype)))
		return true;
	return check_functions_in_node(node, does_harm, context) ||
		expression_tree_walker(node, has_harm, context);
}

static bool
is_harmful(const char *expression)
{
	return expression != NULL && has_harm(stringToNode(expression), NULL);
}

/*
 * Types
 */

static bool
is_strange(Oid function, void *role)
{
	if (dv_guard_trusts(function, GetUserId()))
		return false;
	*(Oid *) role = dv_guard_owner(function);
	return true;
}

/* Returns true if the expression of a trusted role calls functions of another *role. */
static bool
has_stranger(Node *node, void *role)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain))
		*(Oid *) role = stranger_of_type(((CoerceToDomain *) node)->resulttype);
	return OidIsValid(*(Oid *) role) || check_functions_in_node(node, is_strange, role) ||
		expression_tree_walker(node, has_stranger, role);
}

static Oid
stranger_of_expression(Datum expression)
{
	Oid			role = InvalidOid;

	(void) has_stranger(stringToNode(TextDatumGetCString(expression)), &role);
	return role;
}

/* The same for the constraints of a domain. */
static Oid
stranger_of_constraints(Oid domain)
{
	Relation	rel = table_open(ConstraintRelationId, AccessShareLock);
	Oid			role = InvalidOid;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_contypid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(domain));
	scan = systable_beginscan(rel, ConstraintTypidIndexId, true, NULL, 1, &key);
	while (!OidIsValid(role) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		expression = heap_getattr(tuple, Anum_pg_constraint_conbin, RelationGetDescr(rel), &isnull);

		if (!isnull)
			role = stranger_of_expression(expression);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return role;
}

static Oid
stranger_of_domain(HeapTuple domain)
{
	Form_pg_type type = (Form_pg_type) GETSTRUCT(domain);
	Oid			role = type->typowner;
	bool		isnull;
	Datum		value;

	if (!dv_can_become(role, GetUserId()))
		return role;
	value = SysCacheGetAttr(TYPEOID, domain, Anum_pg_type_typdefaultbin, &isnull);
	role = isnull ? InvalidOid : stranger_of_expression(value);
	if (!OidIsValid(role))
		role = stranger_of_constraints(type->oid);
	return OidIsValid(role) ? role : stranger_of_type(type->typbasetype);
}

static Oid
stranger_of_row(TupleDesc desc, const char **column)
{
	int			i;

	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute a = TupleDescAttr(desc, i);
		Oid			role = a->attisdropped ? InvalidOid : stranger_of_type(a->atttypid);

		if (OidIsValid(role))
		{
			*column = pstrdup(NameStr(a->attname));
			return role;
		}
	}
	return InvalidOid;
}

/* Returns the role, if any, whose code would run for values of the type. */
static Oid
stranger_of_type(Oid typid)
{
	HeapTuple	tuple;
	Form_pg_type type;
	Oid			role = InvalidOid;

	if (typid < FirstNormalObjectId)
		return InvalidOid;
	check_stack_depth();
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", typid);
	type = (Form_pg_type) GETSTRUCT(tuple);
	if (type->typtype == TYPTYPE_DOMAIN)
		role = stranger_of_domain(tuple);
	else if (type->typtype == TYPTYPE_COMPOSITE)
	{
		TupleDesc	desc = lookup_rowtype_tupdesc(typid, -1);
		const char *column;

		role = stranger_of_row(desc, &column);
		ReleaseTupleDesc(desc);
	}
	else if (type->typtype == TYPTYPE_RANGE)
		role = stranger_of_type(get_range_subtype(typid));
	else if (type->typtype == TYPTYPE_MULTIRANGE)
		role = stranger_of_type(get_multirange_range(typid));
	else if (OidIsValid(type->typelem))
		role = stranger_of_type(type->typelem);
	ReleaseSysCache(tuple);
	return role;
}

/*
 * Tables.  Each function returns the code that must not run and its role, or NULL.
 */

/* Does the list grant a role (ACL_ID_PUBLIC: all roles) the privilege TRIGGER? */
static bool
grants_triggers(const Acl * acl, Oid role, Oid owner)
{
	return aclmask(acl, role, owner, ACL_TRIGGER, ACLMASK_ANY) != 0;
}

/*
 * Returns true if a role that could not become the caller may create triggers of the
 * table: its owner, who is returned in *role, or another one, for which *role is the caller.
 */
static bool
is_open_to_triggers(Oid relid, Oid *role)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;
	Datum		acl;
	bool		isnull;
	bool		open;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	open = !dv_can_become(owner, GetUserId());
	*role = open ? owner : GetUserId();
	acl = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull);
	if (!open && !isnull)
	{
		const		Acl *grants = DatumGetAclPCopy(acl);
		Oid		   *members;
		int			n = aclmembers(grants, &members);
		int			i;

		open = grants_triggers(grants, ACL_ID_PUBLIC, owner);
		for (i = 0; i < n && !open; i++)
			open = !dv_can_become(members[i], GetUserId()) &&
				grants_triggers(grants, members[i], owner);
	}
	ReleaseSysCache(tuple);
	return open;
}

/* The same for the tables of which the trigger may have been created. */
static bool
is_open_to_trigger(Relation rel, const Trigger * t, Oid *role)
{
	ListCell   *lc;

	if (is_open_to_triggers(RelationGetRelid(rel), role))
		return true;
	/* triggers of a partitioned table are copied to its partitions */
	if (t->tgisclone)
		foreach(lc, get_partition_ancestors(RelationGetRelid(rel)))
			if (is_open_to_triggers(lfirst_oid(lc), role))
				return true;
	return false;
}

static const char *
code_of_triggers(Relation rel, Oid *role)
{
	int			i;

	for (i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const		Trigger *t = &rel->trigdesc->triggers[i];

		*role = dv_guard_owner(t->tgfoid);
		if (!dv_guard_trusts(t->tgfoid, GetUserId()))
			return psprintf("trigger \"%s\"", t->tgname);
		/* the author of the condition is unknown */
		*role = rel->rd_rel->relowner;
		if (is_harmful(t->tgqual))
			return psprintf("a condition of trigger \"%s\"", t->tgname);
		/* a trusted function may do with them what their author could not */
		if (t->tgnargs > 0 && t->tgfoid >= FirstNormalObjectId && is_open_to_trigger(rel, t, role))
			return psprintf("arguments of trigger \"%s\"", t->tgname);
	}
	return NULL;
}

static const char *
code_of_owner(Relation rel, Oid *role)
{
	const		TupleConstr *constraints = RelationGetDescr(rel)->constr;
	int			i;

	*role = rel->rd_rel->relowner;
	if (dv_can_become(*role, GetUserId()))
		return NULL;
	if (rel->rd_rules != NULL)
		return "a rule";
	for (i = 0; constraints != NULL && i < constraints->num_defval; i++)
		if (is_harmful(constraints->defval[i].adbin))
			return "a default or generated column";
	for (i = 0; constraints != NULL && i < constraints->num_check; i++)
		if (is_harmful(constraints->check[i].ccbin))
			return "a check constraint";
	return NULL;
}

static const char *
code_of_types(Relation rel, Oid *role)
{
	const char *column;

	*role = stranger_of_row(RelationGetDescr(rel), &column);
	return OidIsValid(*role) ? psprintf("a domain as type of column \"%s\"", column) : NULL;
}

static const char *
code_of(Relation rel, Oid *role)
{
	const char *what = code_of_triggers(rel, role);

	if (what == NULL)
		what = code_of_owner(rel, role);
	return what != NULL ? what : code_of_types(rel, role);
}

static void
refuse(Oid relid, const char *what, Oid role)
{
	if (role == GetUserId())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("table %s has code of an unknown role, which would gain the rights of role \"%s\"",
						dv_relation_qualified_name(relid), GetUserNameFromId(role, false)),
				 errdetail("The table has %s.", what),
				 errhint("Remove that code, or move it into a function of your own.")));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("table %s has code of role \"%s\", which would gain the rights of role \"%s\"",
					dv_relation_qualified_name(relid),
					GetUserNameFromId(role, false), GetUserNameFromId(GetUserId(), false)),
			 errdetail("The table has %s.", what),
			 errhint("Do this as role \"%s\", with SET ROLE, or remove that code.",
					 GetUserNameFromId(role, false))));
}

/*
 * Checks the table, and all tables to which its rows may go.  Writers do not keep its owner from
 * adding partitions and children, with code that has not been checked, so an owner who could not
 * become the caller is kept from it by a stronger lock.  Foreign tables are written by themselves
 * (ONLY).
 */
static void
check_code(Oid relid, bool alone)
{
	Relation	rel = relation_open(relid, RowExclusiveLock);
	Oid			role;
	const char *what;
	ListCell   *lc;

	check_stack_depth();
	if (!alone && !dv_can_become(rel->rd_rel->relowner, GetUserId()))
		LockRelationOid(relid, ShareUpdateExclusiveLock);
	what = code_of(rel, &role);
	if (what != NULL)
		refuse(relid, what, role);
	foreach(lc, find_inheritance_children(relid, RowExclusiveLock))
		check_code(lfirst_oid(lc), alone);
	relation_close(rel, NoLock);
}

void
dv_hold_check_types(Relation rel)
{
	Oid			role;
	const char *what;

	if (!dv_guard_is_up())
		return;
	what = code_of_types(rel, &role);
	if (what != NULL)
		refuse(RelationGetRelid(rel), what, role);
}

/*
 * The name
 */

/*
 * Locks the schema's name, which is the key of its catalog row, so that no other
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

static void
check_name(const char *name, Oid relid)
{
	RangeVar   *var = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(name)));

	if (RangeVarGetRelid(var, NoLock, true) != relid || var->schemaname == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s was dropped, renamed, or replaced by another one", name),
				 errhint("Call it again.")));
}

/* The name is qualified.  The caller needs a privilege to write, and could then lock the table anyway. */
void
dv_hold(const char *name, Oid relid)
{
	Relation	rel;

	check_name(name, relid);
	if (pg_class_aclmask(relid, GetUserId(), ACL_INSERT | ACL_UPDATE | ACL_DELETE, ACLMASK_ANY) == 0)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	rel = try_relation_open(relid, RowExclusiveLock);
	if (rel != NULL)
	{
		lock_schema_name(RelationGetNamespace(rel));
		relation_close(rel, NoLock);
	}
	check_name(name, relid);
	if (dv_guard_is_up())
		check_code(relid, get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE);
}

/* hold(name, relation) */
Datum
dataverse_hold(PG_FUNCTION_ARGS)
{
	dv_hold(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}

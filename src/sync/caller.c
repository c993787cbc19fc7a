/*
 * caller.c
 *		Finds the caller of functions that run as the owner of the extension.
 *
 * Within a SECURITY DEFINER function, PostgreSQL does not tell which role has
 * called it.  The session's role is not the answer: it may have called a SECURITY
 * DEFINER function of yet another role, and then this role is the one that acts.
 * Therefore the function that all roles can call is dataverse_as_owner(), which
 * runs with the rights of its caller.  It notes the caller, and calls the actual
 * function, which has the same name in schema dataverse_owner.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "compat.h"

DV_FUNCTION(dataverse_caller);
DV_FUNCTION(dataverse_as_owner);

typedef struct callee
{
	FmgrInfo	function;
	Oid			owner;
} callee;

/* The innermost call that is under way: the caller, and the role as which the function runs. */
static Oid	calling_role = InvalidOid;
static Oid	acting_role = InvalidOid;

static Oid
current_caller(void)
{
	Oid			role = GetUserId();

	/* functions of the owner call each other */
	return OidIsValid(acting_role) && role == acting_role ? calling_role : role;
}

/*
 * caller(): the role that calls, with its own rights, a function that runs as its
 * owner.
 *
 * While a superuser, or autovacuum, maintains another role's table, code of that
 * table's owner runs.  It must not call such functions.
 */
Datum
dataverse_caller(PG_FUNCTION_ARGS)
{
	Name		name = palloc(sizeof(NameData));

	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot use copies of dataverse_fdw within security-restricted operation"),
				 errdetail("The code of an index or of a materialized view, for example, runs with restricted rights.")));
	namestrcpy(name, GetUserNameFromId(current_caller(), false));
	PG_RETURN_NAME(name);
}

/* Finds the function with the name and the arguments of the one that is called. */
static pg_noinline callee *
find_callee(FmgrInfo * called)
{
	HeapTuple	tuple;
	HeapTuple	found;
	Form_pg_proc outer;
	callee	   *result;

	if (called->fn_extra != NULL)
		return called->fn_extra;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(called->fn_oid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", called->fn_oid);
	outer = (Form_pg_proc) GETSTRUCT(tuple);
	found = SearchSysCache3(PROCNAMEARGSNSP, NameGetDatum(&outer->proname),
							PointerGetDatum(&outer->proargtypes), ObjectIdGetDatum(get_namespace_oid("dataverse_owner", false)));
	if (!HeapTupleIsValid(found) || ((Form_pg_proc) GETSTRUCT(found))->proowner != outer->proowner)
		elog(ERROR, "function %s has no counterpart in schema dataverse_owner", NameStr(outer->proname));
	result = MemoryContextAllocZero(called->fn_mcxt, sizeof(callee));
	result->owner = outer->proowner;
	fmgr_info_cxt(((Form_pg_proc) GETSTRUCT(found))->oid, &result->function, called->fn_mcxt);
	fmgr_info_set_expr(called->fn_expr, &result->function);
	ReleaseSysCache(found);
	ReleaseSysCache(tuple);
	called->fn_extra = result;
	return result;
}

Datum
dataverse_as_owner(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(call, FUNC_MAX_ARGS);
	Oid			calling_before = calling_role;
	Oid			acting_before = acting_role;
	callee	   *function = find_callee(fcinfo->flinfo);
	Datum		result = (Datum) 0;

	InitFunctionCallInfoData(*call, &function->function, fcinfo->nargs, fcinfo->fncollation,
							 fcinfo->context, fcinfo->resultinfo);
	memcpy(call->args, fcinfo->args, fcinfo->nargs * sizeof(NullableDatum));
	PG_TRY();
	{
		calling_role = current_caller();
		acting_role = function->owner;
		result = FunctionCallInvoke(call);
	}
	PG_FINALLY();
	{
		calling_role = calling_before;
		acting_role = acting_before;
	}
	PG_END_TRY();
	fcinfo->isnull = call->isnull;
	return result;
}

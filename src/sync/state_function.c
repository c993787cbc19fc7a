/*
 * state_function.c
 *		Functions of state: those that steps of runs call in SQL.
 *
 * Their language, dataverse_state, is PL/pgSQL that runs as the owner of the extension.  Its
 * handler checks the caller once.  The names of parameters say how:
 *
 * - If the first one is named "copy", the copy must be one of the caller's.
 * - If the last one is named "caller", it is set to the caller, whatever was passed.  If
 *   the first one is not named "copy", the function has to do its own checks, for which
 *   there is copy_check().
 *
 * A function with neither is not carried out.  Nor is a procedure: what it commits would make
 * the owner the role of the session.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "compat.h"
#include "sync/state.h"
#include "sync/statement.h"

DV_FUNCTION(dataverse_copy_check);
DV_FUNCTION(dataverse_copy_owner);
DV_FUNCTION(dataverse_state_handler);

/*
 * A copy belongs to the owner of its table or, before the table exists, to the role
 * that requested it.
 */
static Oid
owner_of(Oid target, Oid role)
{
	HeapTuple	class = SearchSysCache1(RELOID, ObjectIdGetDatum(target));
	Oid			owner;

	if (!HeapTupleIsValid(class))
		return dv_state_role_or_superuser(role);
	owner = ((Form_pg_class) GETSTRUCT(class))->relowner;
	ReleaseSysCache(class);
	return owner;
}

/* copy_owner(copy): the role that a copy belongs to */
Datum
dataverse_copy_owner(PG_FUNCTION_ARGS)
{
	HeapTupleHeader copy = PG_GETARG_HEAPTUPLEHEADER(0);
	bool		isnull;
	Oid			target = DatumGetObjectId(GetAttributeByName(copy, "target_oid", &isnull));
	Oid			role = DatumGetObjectId(GetAttributeByName(copy, "role_oid", &isnull));

	PG_RETURN_OID(owner_of(target, role));
}

/* A role can act for another one if it has that role's rights without SET ROLE. */
static void
check_copy(int64 copy, Oid caller)
{
	static dv_statement find = {
		.sql = "SELECT c.target_oid, c.role_oid, c.target FROM dataverse_private.copies AS c WHERE c.id = $1",
		.nargs = 1, .types = {INT8OID}
	};
	Datum		id = Int64GetDatum(copy);
	dv_row		found;

	if (!dv_statement_execute_here(&find, &id, NULL, &found))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the copy has been forgotten"),
				 errdetail("Another session has called dataverse.forget_copy(), or has made a copy of the same name.")));
	if (!has_privs_of_role(caller, owner_of(DatumGetObjectId(found.values[0]), DatumGetObjectId(found.values[1]))))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of table %s", TextDatumGetCString(found.values[2]))));
}

/* copy_check(copy, caller): refuses roles that a copy does not belong to */
Datum
dataverse_copy_check(PG_FUNCTION_ARGS)
{
	check_copy(PG_GETARG_INT64(0), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}

static void
prepare_call(FunctionCallInfo fcinfo, Oid caller)
{
	HeapTuple	function = SearchSysCache1(PROCOID, ObjectIdGetDatum(fcinfo->flinfo->fn_oid));
	int			last = fcinfo->nargs - 1;
	bool		has_copy = false;
	bool		gets_caller = false;
	Oid		   *types;
	char	  **names;
	char	   *modes;

	if (!HeapTupleIsValid(function))
		elog(ERROR, "cache lookup failed for function %u", fcinfo->flinfo->fn_oid);
	(void) get_func_arg_info(function, &types, &names, &modes);
	ReleaseSysCache(function);
	if (last >= 0 && names != NULL)
	{
		has_copy = strcmp(names[0], "copy") == 0 && types[0] == INT8OID;
		gets_caller = strcmp(names[last], "caller") == 0 && types[last] == OIDOID;
	}
	if (fcinfo->context != NULL && IsA(fcinfo->context, CallContext))
		elog(ERROR, "procedure %u has the language of functions of state", fcinfo->flinfo->fn_oid);
	if (!has_copy && !gets_caller)
		elog(ERROR, "function %u knows neither a copy nor its caller", fcinfo->flinfo->fn_oid);
	/* null is no copy */
	if (has_copy && !PG_ARGISNULL(0))
		check_copy(PG_GETARG_INT64(0), caller);
	if (gets_caller)
	{
		fcinfo->args[last].value = ObjectIdGetDatum(caller);
		fcinfo->args[last].isnull = false;
	}
}

/* The handler of the language. */
Datum
dataverse_state_handler(PG_FUNCTION_ARGS)
{
	static PGFunction plpgsql = NULL;
	dv_caller	caller;
	Datum		result;

	if (plpgsql == NULL)
		plpgsql = load_external_function("$libdir/plpgsql", "plpgsql_call_handler", true, NULL);
	caller = dv_statement_begin();
	prepare_call(fcinfo, caller.role);
	result = plpgsql(fcinfo);
	dv_owner_end(&caller);
	return result;
}

/*
 * guard.c
 *		Whose code runs with whose rights.
 *
 * Reading or writing a table runs code: triggers and their conditions, defaults,
 * generated columns, constraints of tables and domains, rules, policies, expressions
 * of indexes, statistics, and partition keys, casts, operators, and the actions of
 * foreign keys.  Roles other than the table's owner may have created this code, and
 * may change it until it runs.  A list of all this code is never complete, and a
 * check before the table is locked is worth nothing.
 *
 * Hence the rule: while the guard is up, a function runs only if its owner, who can
 * replace it at any time, could become the role with whose rights it runs.  The owner
 * of the table does not matter.  PostgreSQL calls every function but its own through
 * the function manager, whose hooks refuse calls that break the rule at the moment of
 * the call.  This needs no lock, and misses no code.
 *
 * The guard is up while the extension reads or writes a table for a role that may not
 * be its owner:
 *
 * - "superusers" protects superusers only.  Other roles have named the table, as in
 *   any statement, and have thereby agreed to run its code.
 * - "everybody" protects all roles, in dataverse.pull_all() and retry_rejects(),
 *   which process tables that the caller has not named.
 *
 * The guard is a setting, so that it goes down however the function that has raised
 * it ends (SET dataverse_fdw.guard = ...), and applies to parallel workers as well.
 * A function that is called meanwhile cannot lower it: its own settings are made
 * before the hook is called, so they can only raise the guard.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fdw/guard.h"

/* "Superusers" is replaced by one of the others when it is set. */
enum
{
	GUARD_OFF, GUARD_EVERYBODY, GUARD_SUPERUSERS
};

static const struct config_enum_entry levels[] = {
	{"off", GUARD_OFF, false},
	{"superusers", GUARD_SUPERUSERS, false},
	{"everybody", GUARD_EVERYBODY, false},
	{NULL, 0, false}
};

static int	level = GUARD_OFF;

static needs_fmgr_hook_type next_needs_hook = NULL;
static fmgr_hook_type next_hook = NULL;

Oid
dv_guard_owner(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* The functions of the extension call each other, whichever role owns them by now. */
static bool
is_ours(Oid function)
{
	Oid			extension = getExtensionOfObject(ProcedureRelationId, function);

	return OidIsValid(extension) && extension == get_extension_oid("dataverse_fdw", true);
}

bool
dv_guard_is_up(void)
{
	return level != GUARD_OFF;
}

bool
dv_guard_trusts(Oid function, Oid roleid)
{
	return dv_can_become(dv_guard_owner(function), roleid) || is_ours(function);
}

static bool
may_run(Oid function)
{
	return level == GUARD_OFF || dv_guard_trusts(function, GetUserId());
}

static void
check_function(Oid function)
{
	Oid			owner;

	if (may_run(function))
		return;
	owner = dv_guard_owner(function);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("function %s of role \"%s\" does not run with the rights of role \"%s\"",
					format_procedure(function), GetUserNameFromId(owner, false),
					GetUserNameFromId(GetUserId(), false)),
			 errdetail("It is called by a trigger, a default, a constraint, a type, or the like of a table that is read or written, and its owner can change it at any time."),
			 errhint("Do this as the owner of the table (SET ROLE), or change the owner of the function to a role that may act as \"%s\".",
					 GetUserNameFromId(GetUserId(), false))));
}

/*
 * Functions with settings of their own, and those that are SECURITY DEFINER, are
 * called through the hook in any case.  Others are called through it, and not
 * inlined, if this function returns true.  The rights with which a function runs are
 * known only when it is called.
 */
static bool
needs_hook(Oid function)
{
	return (next_needs_hook != NULL && next_needs_hook(function)) ||
		!may_run(function);
}

static void
on_call(FmgrHookEventType event, FmgrInfo * flinfo, Datum *arg)
{
	if (event == FHET_START)
		check_function(flinfo->fn_oid);
	if (next_hook != NULL)
		next_hook(event, flinfo, arg);
}

/* The guard cannot be set in configuration files, nor for a role or database. */
static bool
check_level(int *newval, void **extra, GucSource source)
{
	if (*newval != GUARD_OFF && source < PGC_S_INTERACTIVE)
	{
		GUC_check_errdetail("It can be set only by functions.");
		return false;
	}
	if (*newval == GUARD_OFF || (*newval == GUARD_SUPERUSERS && !superuser()))
		*newval = level;
	else
		*newval = GUARD_EVERYBODY;
	return true;
}

void
dv_guard_init(void)
{
	DefineCustomEnumVariable("dataverse_fdw.guard",
							 "Prevents code of other roles from running with the rights of superusers, or of any role.", NULL,
							 &level, GUARD_OFF, levels, PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							 check_level, NULL, NULL);
	next_needs_hook = needs_fmgr_hook;
	needs_fmgr_hook = needs_hook;
	next_hook = fmgr_hook;
	fmgr_hook = on_call;
}

/*
 * caller.c
 *		Who calls the functions of copies.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "compat.h"

DV_FUNCTION(dataverse_caller);

/*
 * caller(): the role of SET ROLE, or else that of the session.
 *
 * While a superuser, or autovacuum, maintains the table of somebody else, code of
 * that table's owner runs in their session, so the session does not say who
 * calls.  Such code has no business here.
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
	namestrcpy(name, GetUserNameFromId(GetOuterUserId(), false));
	PG_RETURN_NAME(name);
}

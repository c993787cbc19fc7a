/*
 * statement.c
 *		Fixed statements that read and write the tables of state.
 *
 * They run as the owner of the extension, with a search path of their own.  A session
 * plans them once.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "sync/statement.h"

/*
 * While a superuser, or autovacuum, maintains another role's table, code of that table's owner
 * runs.  It must not reach these tables.  Nor do functions of state call each other: the caller
 * would be the owner, to whom all copies are open.  A role that has been dropped meanwhile has
 * none.
 */
dv_caller
dv_statement_begin(void)
{
	if (InSecurityRestrictedOperation() || dv_owner_is_acting())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot use copies of dataverse_fdw within security-restricted operation"),
				 errdetail("The code of an index or of a materialized view, for example, runs with restricted rights.")));
	(void) GetUserNameFromId(GetUserId(), false);
	return dv_owner_begin(get_relname_relid("push_states", get_namespace_oid("dataverse_private", false)),
						  false);
}

static void
execute_plan(dv_statement *s, Datum *args, const char *nulls)
{
	if (s->plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(s->sql, s->nargs, s->types);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare a statement: %s", s->sql);
		s->plan = plan;
	}
	if (SPI_execute_plan(s->plan, args, nulls, false, 0) < 0)
		elog(ERROR, "could not execute a statement: %s", s->sql);
}

/* Copies the row that a statement has returned, if any, to the memory context of the caller. */
static bool
take_row(dv_row *result)
{
	int			i;

	if (SPI_tuptable == NULL || SPI_processed == 0)
		return false;
	for (i = 0; i < SPI_tuptable->tupdesc->natts; i++)
	{
		Form_pg_attribute a = TupleDescAttr(SPI_tuptable->tupdesc, i);
		Datum		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i + 1,
										  &result->nulls[i]);

		result->values[i] = result->nulls[i] ? (Datum) 0 :
			SPI_datumTransfer(value, a->attbyval, a->attlen);
	}
	return true;
}

bool
dv_statement_execute_here(dv_statement *s, Datum *args, const char *nulls, dv_row *result)
{
	bool		found;

	SPI_connect();
	execute_plan(s, args, nulls);
	found = take_row(result);
	SPI_finish();
	return found;
}

bool
dv_statement_execute(dv_statement *s, Datum *args, const char *nulls, dv_row *result)
{
	dv_caller	caller = dv_statement_begin();
	bool		found = dv_statement_execute_here(s, args, nulls, result);

	dv_owner_end(&caller);
	return found;
}

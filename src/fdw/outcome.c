/*
 * outcome.c
 *		Adds to the error that ends a transaction how many rows stay in
 *		Dataverse.
 *
 * A transaction that fails leaves rows in Dataverse.  The error should report
 * this, whether a row was refused, the statement was canceled, or something else
 * failed: a WARNING after the error can be overlooked, and programs that keep
 * the last message, such as pg_cron with background workers, would take it for
 * the outcome of the statement.  Therefore the error has a DETAIL, and ledger.c
 * reports only the rest.
 *
 * An error that leaves the outermost statement ends the transaction, whereas an
 * inner one may be caught.  If there is a savepoint, the error does not
 * necessarily roll back all writes, so ledger.c reports them at the rollback.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "client/doubts.h"
#include "client/ledger.h"
#include "fdw/outcome.h"

void
dv_outcome_add(void)
{
	MemoryContext old;
	ErrorData  *error;
	const char *outcome;

	if (CurTransactionContext == NULL || !IsTransactionState() ||
		GetCurrentTransactionNestLevel() > 1 || !dv_ledger_has_written())
		return;
	old = MemoryContextSwitchTo(CurTransactionContext);
	error = CopyErrorData();
	outcome = dv_ledger_outcome(error->detail);
	if (outcome == NULL)
	{
		MemoryContextSwitchTo(old);
		return;
	}
	error->detail = error->detail != NULL ? psprintf("%s\n%s", error->detail, outcome) : pstrdup(outcome);
	if (error->hint == NULL && dv_ledger_has_doubts())
		error->hint = pstrdup(DV_DOUBTS_HINT);
	FlushErrorState();
	ReThrowError(error);
}

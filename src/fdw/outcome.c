/*
 * outcome.c
 *		Adds to the error that ends a transaction what stays in Dataverse.
 *
 * A transaction that fails leaves rows in Dataverse.  Whoever reads the error
 * should read that, too, whether a row was refused, the statement was canceled,
 * or something else failed: a WARNING that follows the error can be overlooked,
 * and programs that keep the last message, such as pg_cron with background
 * workers, would take it for the outcome of the statement.  Therefore the DETAIL
 * of the error says it, and ledger.c reports only what no error has said.
 *
 * An error that leaves the outermost statement ends the transaction, whereas one
 * inside of it may be caught.  If there is a savepoint, the error does not roll
 * back all that was written, so ledger.c reports it when that is decided.
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

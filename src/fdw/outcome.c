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
 * The hooks act on the outermost statement: an error that leaves it ends the
 * transaction, whereas one inside of it may be caught.  If there is a savepoint,
 * the error does not roll back all that was written, so ledger.c reports it when
 * that is decided.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "tcop/utility.h"
#include "utils/memutils.h"

#include "client/doubts.h"
#include "client/ledger.h"
#include "compat.h"
#include "fdw/outcome.h"

static ExecutorRun_hook_type next_run = NULL;
static ExecutorFinish_hook_type next_finish = NULL;
static ProcessUtility_hook_type next_utility = NULL;
static int	depth = 0;

/* The error is being thrown, and will end the transaction. */
static void
add_outcome(void)
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

#define OUTERMOST(call) \
	PG_TRY(); \
	{ \
		depth++; \
		call; \
		depth--; \
	} \
	PG_CATCH(); \
	{ \
		if (--depth == 0) \
			add_outcome(); \
		PG_RE_THROW(); \
	} \
	PG_END_TRY()

static void
run(DV_EXECUTOR_RUN_PARAMETERS)
{
	ExecutorRun_hook_type next = next_run != NULL ? next_run : standard_ExecutorRun;

	OUTERMOST(next(DV_EXECUTOR_RUN_ARGUMENTS));
}

static void
finish(QueryDesc * queryDesc)
{
	ExecutorFinish_hook_type next = next_finish != NULL ? next_finish : standard_ExecutorFinish;

	OUTERMOST(next(queryDesc));
}

static void
utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
		ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
		DestReceiver *dest, QueryCompletion *qc)
{
	ProcessUtility_hook_type next = next_utility != NULL ? next_utility : standard_ProcessUtility;

	OUTERMOST(next(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc));
}

void
dv_outcome_init(void)
{
	next_run = ExecutorRun_hook;
	ExecutorRun_hook = run;
	next_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish;
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}

/*
 * statement.c
 *		Hooks into statements, from their beginning to their end.
 *
 * PostgreSQL calls these hooks for every statement of a server that preloads the
 * library.  Each hook is installed once, and does little for a statement without
 * our foreign tables.  This file determines what happens at which point of a
 * statement; the modules that it calls know only their own part:
 *
 * - modify/drain.c waits for rows that are under way, after the executor has run
 *	 and before and after it finishes: see there why EndForeignModify is too late.
 * - outcome.c adds to an error that leaves the outermost statement, and so ends
 *	 the transaction, what stays in Dataverse.
 * - admin/import.c comments on each foreign table that an import has created.
 * - scan/wanted.c asks which query is running.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "tcop/utility.h"

#include "client/ledger.h"
#include "compat.h"
#include "fdw/admin/import.h"
#include "fdw/modify/drain.h"
#include "fdw/outcome.h"
#include "fdw/statement.h"

/* A statement that is executed, on the stack of the hook that executes it. */
typedef struct statement
{
	const		QueryDesc *query;	/* run by ExecutorRun; NULL: no query, or one that finishes */
	bool		limited;		/* the number of rows that it returns */
	struct statement *outer;
} statement;

static statement *innermost = NULL;

static ExecutorRun_hook_type next_run = NULL;
static ExecutorFinish_hook_type next_finish = NULL;
static ProcessUtility_hook_type next_utility = NULL;

/* Executes a part of a statement, which may fail. */
#define EXECUTE(here, call) \
	PG_TRY(); \
	{ \
		innermost = (here); \
		call; \
		innermost = (here)->outer; \
	} \
	PG_CATCH(); \
	{ \
		innermost = (here)->outer; \
		if (innermost == NULL) \
			dv_outcome_add(); \
		PG_RE_THROW(); \
	} \
	PG_END_TRY()

static void
run_and_drain(DV_EXECUTOR_RUN_PARAMETERS)
{
	/* the handler of an error executes statements: the rollback is complete */
	dv_ledger_tell();
	if (next_run != NULL)
		next_run(DV_EXECUTOR_RUN_ARGUMENTS);
	else
		standard_ExecutorRun(DV_EXECUTOR_RUN_ARGUMENTS);
	dv_drain_statement(queryDesc->estate);
}

static void
run(DV_EXECUTOR_RUN_PARAMETERS)
{
	statement	here = {.query = queryDesc, .limited = count != 0, .outer = innermost};

	EXECUTE(&here, run_and_drain(DV_EXECUTOR_RUN_ARGUMENTS));
}

static void
finish_and_drain(QueryDesc * queryDesc)
{
	dv_drain_complete(queryDesc->estate);
	if (next_finish != NULL)
		next_finish(queryDesc);
	else
		standard_ExecutorFinish(queryDesc);
	dv_drain_statement(queryDesc->estate);
	dv_ledger_tell();
}

static void
finish(QueryDesc * queryDesc)
{
	statement	here = {.outer = innermost};

	EXECUTE(&here, finish_and_drain(queryDesc));
}

static void
process(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
		ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
		DestReceiver *dest, QueryCompletion *qc)
{
	MemoryContext scratch = dv_import_begin_table(pstmt, context);

	if (next_utility != NULL)
		next_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	if (scratch != NULL)
		dv_import_end_table(pstmt, scratch);
}

static void
utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
		ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
		DestReceiver *dest, QueryCompletion *qc)
{
	statement	here = {.outer = innermost};

	EXECUTE(&here, process(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc));
}

const		QueryDesc *
dv_statement_running(void)
{
	const statement *s;

	for (s = innermost; s != NULL; s = s->outer)
		if (s->query != NULL)
			return s->query;
	return NULL;
}

bool
dv_statement_is_limited(const EState *estate)
{
	const statement *s;

	for (s = innermost; s != NULL; s = s->outer)
		if (s->query != NULL && s->query->estate == estate)
			return s->limited;
	return false;
}

void
dv_statement_init(void)
{
	next_run = ExecutorRun_hook;
	ExecutorRun_hook = run;
	next_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish;
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}

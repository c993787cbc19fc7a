/*
 * run.c
 *		Carries out runs: the tasks of a kind of run, step by step.
 *
 * A step runs in a subtransaction, so that its error can be recorded, and is committed
 * together with the state from which the next step continues.  The last step is
 * committed together with the end of the run.
 *
 * Transactions of a run are READ COMMITTED, whatever the session's default is: runs of
 * other sessions must not make this one fail.  Steps leave nothing that has to be
 * closed when the transaction ends, except what the state tells the next step.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/resowner.h"

#include "client/trouble.h"
#include "compat.h"
#include "sync/run.h"
#include "sync/run_lock.h"

DV_FUNCTION(dataverse_must_commit);
DV_FUNCTION(dataverse_run_requests);

/*
 * Transactions
 */

static void
must_commit(bool nonatomic, const char *procedure)
{
	if (IsTransactionBlock() || IsSubTransaction() || !nonatomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block or a function", procedure),
				 errdetail("It commits after each step."),
				 errhint("Send the CALL as the only statement of its string, outside of BEGIN and COMMIT.  This also applies to jobs of pg_cron.")));
}

void
dv_run_must_commit(FunctionCallInfo fcinfo, const char *procedure)
{
	must_commit(fcinfo->context != NULL && IsA(fcinfo->context, CallContext) &&
				!castNode(CallContext, fcinfo->context)->atomic, procedure);
}

/* pull_must_commit(procedure): the same for a procedure in PL/pgSQL that calls this function */
Datum
dataverse_must_commit(PG_FUNCTION_ARGS)
{
	must_commit(SPI_inside_nonatomic_context(), text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}

void
dv_run_set(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

void
dv_run_commit(void)
{
	SPI_commit();
	(void) set_config_option("transaction_isolation", "read committed", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
	EnsurePortalSnapshotExists();
}

/*
 * Steps
 */

static void
succeed(dv_run *run)
{
	const dv_task *task = &run->kind->tasks[run->task];

	memset(&run->counts, 0, sizeof(run->counts));
	run->task = task->step(run) ? run->task : task->next;
	dv_state_run_add(run->id, run->task == DV_RUN_END ? task->phase : run->kind->tasks[run->task].phase,
					 &run->counts);
}

/* Decides by the error of a step whether the run goes on. */
static void
handle(dv_run *run, ErrorData *error)
{
	const char *phase = run->kind->tasks[run->task].phase;
	const dv_run_counts none = {0};

	dv_state_run_add(run->id, phase, &none);
	if (error->constraint_name != NULL && dv_trouble_was_limit(error->constraint_name))
	{
		run->kind->go_on(run);
		FreeErrorData(error);
		return;
	}
	run->error = error;
	run->result = dv_state_run_end(run->id, error->sqlerrcode, error->message);
	run->kind->explain(run, phase, error);
}

static void
take_step(dv_run *run)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	int			task = run->task;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		SPI_connect();
		succeed(run);
		SPI_finish();
		MemoryContextSwitchTo(context);
		/* otherwise, the run could begin again although all of it has been done */
		if (run->task == DV_RUN_END)
			run->result = dv_state_run_end(run->id, 0, NULL);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		run->task = task;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error != NULL)
		handle(run, error);
}

static void
raise_error(const ErrorData *error)
{
	ereport(ERROR,
			(errcode(error->sqlerrcode),
			 errmsg_internal("%s", error->message),
			 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0,
			 error->hint != NULL ? errhint("%s", error->hint) : 0));
}

void
dv_run_carry_out(dv_run *run)
{
	while (run->task != DV_RUN_END && run->error == NULL)
	{
		take_step(run);
		dv_run_commit();
	}
	(void) dv_run_lock_release();
	if (run->error != NULL)
		raise_error(run->error);
}

/*
 * Requests
 */

/* They are counted in memory, not in a table, so that those of a step that is rolled back count, too. */
dv_call_totals
dv_run_effort(bool restart)
{
	static dv_call_totals before = {0};
	dv_call_totals effort = dv_totals_of_calls;

	if (restart)
		before = dv_totals_of_calls;
	effort.requests -= before.requests;
	effort.throttles -= before.throttles;
	effort.waited -= before.waited;
	return effort;
}

/* run_requests(restart): the same in SQL */
Datum
dataverse_run_requests(PG_FUNCTION_ARGS)
{
	dv_call_totals effort = dv_run_effort(PG_GETARG_BOOL(0));
	TupleDesc	tupdesc;
	Datum		values[3] = {
		Int64GetDatum(effort.requests), Int64GetDatum(effort.throttles), Int64GetDatum(effort.waited)
	};
	bool		nulls[3] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

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

#include "access/xact.h"
#include "executor/spi.h"
#include "nodes/parsenodes.h"
#include "tcop/pquery.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "client/trouble.h"
#include "compat.h"
#include "sync/run.h"
#include "sync/run_lock.h"

/*
 * Transactions
 */

void
dv_run_must_commit(FunctionCallInfo fcinfo, const char *procedure)
{
	if (IsTransactionBlock() || IsSubTransaction() || fcinfo->context == NULL ||
		!IsA(fcinfo->context, CallContext) || castNode(CallContext, fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block or a function", procedure),
				 errdetail("It commits after each step."),
				 errhint("Send the CALL as the only statement of its string, outside of BEGIN and COMMIT.  This also applies to jobs of pg_cron.")));
}

void
dv_run_set(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

int
dv_run_raise_guard(void)
{
	int			level = NewGUCNestLevel();

	dv_run_set("dataverse_fdw.guard", "superusers");
	return level;
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

typedef void (*action) (dv_run *run);

/* Acts in a subtransaction.  Returns the error that has rolled it back, or NULL. */
static ErrorData *
attempt(dv_run *run, action act)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		SPI_connect();
		act(run);
		SPI_finish();
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(run->context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/* Records what the current step adds to the counts, and the phase that has been reached. */
static void
add_counts(dv_run *run)
{
	if (run->id != 0)
		dv_state_run_add(run->id, run->phase, &run->counts);
	memset(&run->counts, 0, sizeof(run->counts));
}

static void
record_end(dv_run *run)
{
	MemoryContext before;

	if (run->id == 0)
		return;
	before = MemoryContextSwitchTo(run->context);
	if (run->error == NULL)
		run->result = dv_state_run_end(run->id, 0, NULL);
	else
		run->result = dv_state_run_end(run->id, run->error->sqlerrcode, run->error->message);
	MemoryContextSwitchTo(before);
}

static void
stop(dv_run *run)
{
	if (run->kind->stop != NULL)
		run->kind->stop(run);
	add_counts(run);
}

static int
task_after(const dv_run *run, dv_outcome outcome)
{
	const dv_task *task = &run->kind->tasks[run->task];

	switch (outcome)
	{
		case DV_STEP_DONE:
			return task->done;
		case DV_STEP_BACK:
			return task->back;
		case DV_STEP_LEAVE:
			return task->leave;
		case DV_STEP_MORE:
			break;
	}
	return run->task;
}

static void
show_phase(dv_run *run)
{
	const char *phase = run->kind->tasks[run->task].phase;

	run->phase = phase != NULL || run->kind->phase == NULL ? phase : run->kind->phase(run);
}

static void
take_step(dv_run *run)
{
	dv_outcome	outcome = run->kind->tasks[run->task].step(run);

	/* the task that has failed is the last one */
	if (run->error != NULL)
		return;
	run->task = task_after(run, outcome);
	if (run->task != DV_RUN_END)
	{
		/* the next step may have to wait */
		show_phase(run);
		add_counts(run);
		return;
	}
	/* otherwise, the run could begin again although all of it has been done */
	stop(run);
	record_end(run);
}

static void
go_on(dv_run *run)
{
	if (run->kind->go_on != NULL)
		run->kind->go_on(run);
	add_counts(run);
}

static char *
copy_of(const dv_run *run, const char *text)
{
	return text != NULL ? MemoryContextStrdup(run->context, text) : NULL;
}

static void
fail(dv_run *run)
{
	record_end(run);
	run->kind->explain(run);
	run->error->message = copy_of(run, run->error->message);
	run->error->detail = copy_of(run, run->error->detail);
	run->error->hint = copy_of(run, run->error->hint);
}

/* Decides by the error of a step, which was rolled back, whether the run goes on. */
static void
handle(dv_run *run, ErrorData *error)
{
	if (error->constraint_name != NULL && dv_trouble_was_limit(error->constraint_name))
	{
		FreeErrorData(error);
		error = attempt(run, go_on);
	}
	run->error = error;
}

static void
try_step(dv_run *run)
{
	dv_run		before = *run;
	ErrorData  *error;

	memset(&run->counts, 0, sizeof(run->counts));
	error = attempt(run, take_step);
	if (error == NULL)
		return;
	before.phase = run->phase;
	*run = before;
	memset(&run->counts, 0, sizeof(run->counts));
	handle(run, error);
}

/* Ends a run that has failed.  Another error meanwhile, such as a cancel, replaces that of the run. */
static void
end_failed(dv_run *run)
{
	static const action actions[] = {stop, fail, record_end};
	int			i;

	for (i = 0; i < (int) lengthof(actions); i++)
	{
		ErrorData  *error = attempt(run, actions[i]);

		if (error != NULL)
			run->error = error;
		else if (actions[i] == fail)
			break;
	}
}

void
dv_run_carry_out(dv_run *run)
{
	MemoryContext before = CurrentMemoryContext;
	MemoryContext step = AllocSetContextCreate(run->context, "dataverse step", ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(step);
	show_phase(run);
	while (run->task != DV_RUN_END && run->error == NULL)
	{
		try_step(run);
		dv_run_commit();
		MemoryContextReset(step);
	}
	if (run->error != NULL)
	{
		end_failed(run);
		dv_run_commit();
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(step);
	(void) dv_run_lock_release();
}

/*
 * Errors
 */

void
dv_run_fail(dv_run *run, const char *sqlstate, const char *message, const char *detail, const char *hint)
{
	ErrorData  *error = MemoryContextAllocZero(run->context, sizeof(*error));

	error->sqlerrcode = MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3], sqlstate[4]);
	error->message = copy_of(run, message);
	error->detail = copy_of(run, detail);
	error->hint = copy_of(run, hint);
	run->error = error;
}

void
dv_run_report_error(const ErrorData *error, int elevel)
{
	ereport(elevel,
			(errcode(error->sqlerrcode),
			 errmsg_internal("%s", error->message),
			 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0,
			 error->hint != NULL ? errhint("%s", error->hint) : 0));
}

char *
dv_run_number_of(int64 n, const char *noun)
{
	return psprintf("%lld %s%s", (long long) n, noun, n == 1 ? "" : "s");
}

char *
dv_run_join(const char *first, const char *separator, const char *second)
{
	bool		is_first = first != NULL && first[0] != '\0';
	bool		is_second = second != NULL && second[0] != '\0';

	if (!is_first || !is_second)
		return is_first ? pstrdup(first) : is_second ? pstrdup(second) : NULL;
	return psprintf("%s%s%s", first, separator, second);
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

/*
 * copy_run.c
 *		What runs of copies have in common: arguments, tasks, errors.
 *
 * A run first finds its copy, takes the copy's lock, and is recorded.  Its steps are
 * functions in SQL (pull_prepare.sql, pull_steps.sql), which run as the caller.  They
 * get the caller's search path as an argument, and the plan, which only they read.
 *
 * A copy can be forgotten, and get another owner, whenever no transaction keeps this
 * from happening.  So each step asks dataverse_private.copy_get(), which refuses such copies.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "compat.h"
#include "sync/copy_run.h"
#include "sync/run_lock.h"

/*
 * Arguments
 */

typedef struct argument
{
	const char *name;
	const char *check;			/* an expression that raises an error unless $1 is valid */
	dv_copy_use use;			/* the function that gets it, by its name */
} argument;

/* Of dataverse.pull(), pull_all(), and sync(), apart from tables; checked in this order. */
static const argument arguments[] = {
	{"columns", "dataverse_private.pull_check_columns($1)", DV_FOR_PULL},
	{"deletes", "dataverse_private.check_choice('argument \"deletes\"', $1, 'delete', 'mark', 'ignore')", DV_FOR_PULL},
	{"drift", "dataverse_private.check_choice('argument \"drift\"', $1, 'add', 'ignore', 'stop')", DV_FOR_PULL},
	{"on_error", "dataverse_private.check_choice('argument \"on_error\"', $1, 'abort', 'continue')", DV_FOR_PULL},
	{"sweep", "dataverse_private.pull_check_sweep($1)", DV_FOR_PULL},
	{"full", "dataverse_private.check_boolean('full', $1)", DV_FOR_PULL},
	{"wait", "dataverse_private.check_boolean('wait', $1)", DV_FOR_RUN},
	{"conflict", "dataverse_private.check_choice('argument \"conflict\"', $1, 'skip', 'service', 'local')", DV_FOR_SYNC},
	{"strict", "dataverse_private.check_boolean('strict', $1)", DV_FOR_SYNC},
	{"column_conflicts", "dataverse_private.sync_check_columns($1)", DV_FOR_SYNC}
};

struct dv_copy_arguments
{
	dv_spi_value values[lengthof(arguments)];	/* without a type: the procedure does not have it */
};

/* Returns the position of an argument of a procedure by its name, or -1. */
static int
position_of(const char *name, int n, char **names)
{
	int			i;

	for (i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

dv_copy_arguments *
dv_copy_arguments_of(FunctionCallInfo fcinfo)
{
	dv_copy_arguments *result = palloc0(sizeof(*result));
	HeapTuple	procedure = SearchSysCache1(PROCOID, ObjectIdGetDatum(fcinfo->flinfo->fn_oid));
	Oid		   *types;
	char	  **names;
	char	   *modes;
	int			n;
	int			i;

	if (!HeapTupleIsValid(procedure))
		elog(ERROR, "cache lookup failed for function %u", fcinfo->flinfo->fn_oid);
	n = get_func_arg_info(procedure, &types, &names, &modes);
	ReleaseSysCache(procedure);
	for (i = 0; i < (int) lengthof(arguments); i++)
	{
		int			at = position_of(arguments[i].name, n, names);
		dv_spi_value value;

		if (at < 0)
			continue;
		value = (dv_spi_value)
		{
			types[at], PG_GETARG_DATUM(at), PG_ARGISNULL(at)
		};
		dv_spi_call(psprintf("SELECT %s", arguments[i].check), value);
		result->values[i] = dv_spi_copy(&value, CurrentMemoryContext);
	}
	return result;
}

/* Returns a boolean argument of the run itself. */
static bool
is_on(const dv_copy_run *c, const char *name)
{
	int			i = 0;

	while (strcmp(arguments[i].name, name) != 0)
		i++;
	return DatumGetBool(c->arguments->values[i].datum);
}

dv_spi_value
dv_copy_prepare_with(const dv_copy_run *c, dv_copy_use use, const char *function,
					 int n, const char *const *names, const dv_spi_value *values)
{
	dv_spi_value *all = palloc(sizeof(dv_spi_value) * (n + lengthof(arguments)));
	StringInfoData sql;
	dv_spi_value plan;
	int			i;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT %s(", function);
	for (i = 0; i < n; i++)
	{
		all[i] = values[i];
		appendStringInfo(&sql, "%s%s => $%d", i > 0 ? ", " : "", names[i], i + 1);
	}
	for (i = 0; i < (int) lengthof(arguments); i++)
	{
		const dv_spi_value *value = &c->arguments->values[i];

		if (arguments[i].use != use)
			continue;
		if (OidIsValid(value->type))
			all[n++] = *value;
		appendStringInfo(&sql, OidIsValid(value->type) ? ", %s => $%d" : ", %s => NULL",
						 quote_identifier(arguments[i].name), n);
	}
	appendStringInfoChar(&sql, ')');
	dv_spi_execute(sql.data, n, all);
	plan = dv_spi_result(1);
	return dv_spi_copy(&plan, c->run.context);
}

void
dv_copy_run_init(dv_copy_run *c, const dv_run_kind *kind, Oid foreign_table, const char *target,
				 const dv_copy_arguments *args)
{
	c->run.kind = kind;
	c->run.context = CurrentMemoryContext;
	c->foreign_table = foreign_table;
	c->target = target;
	c->named = true;
	c->arguments = args;
	c->path = pstrdup(GetConfigOption("search_path", false, false));
	c->retry.isnull = true;
}

void
dv_copy_run_call(dv_copy_run *c, const dv_run_kind *kind, FunctionCallInfo fcinfo)
{
	Oid			foreign_table = PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0);
	const char *target = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));

	dv_spi_call("SELECT dataverse_private.pull_check_tables($1, $2)", dv_spi_of_table(foreign_table), dv_spi_of_text(target));
	dv_copy_run_init(c, kind, foreign_table, target, dv_copy_arguments_of(fcinfo));
	dv_run_commit();
	dv_run_carry_out(&c->run);
	if (c->run.error != NULL)
		dv_run_report_error(c->run.error, ERROR);
}

/*
 * The beginning
 */

/* Finds the copy, or makes its entry. */
dv_outcome
dv_copy_open(dv_run *run)
{
	dv_copy_run *c = (dv_copy_run *) run;
	const char *target;

	dv_spi_call("SELECT dataverse_private.pull_target($1, pg_catalog.to_regclass($1), pg_catalog.current_schema())",
				dv_spi_of_text(c->target));
	target = dv_spi_result_text(1);
	if (!c->named)
		dv_spi_call("SELECT dataverse_private.pull_stranger(pg_catalog.to_regclass($1))", dv_spi_of_text(target));
	dv_spi_call("SELECT dataverse_private.copy_open($1, $2)", dv_spi_of_table(c->foreign_table), dv_spi_of_text(target));
	c->copy = dv_spi_result_int8(1);
	c->target = MemoryContextStrdup(run->context, target);
	return DV_STEP_DONE;
}

static void
check_copy(const dv_copy_run *c)
{
	dv_spi_call("SELECT FROM dataverse_private.copy_get($1)", dv_spi_of_int8(c->copy));
}

/* Takes the lock of the copy, and records the run. */
dv_outcome
dv_copy_begin(dv_run *run)
{
	dv_copy_run *c = (dv_copy_run *) run;
	const char *phase = NULL;

	check_copy(c);
	if (dv_run_lock_copy(c->copy, is_on(c, "wait")))
		phase = "prepare";
	check_copy(c);
	run->id = dv_state_run_begin_copy(c->copy, run->kind->name, phase);
	if (phase != NULL)
		return DV_STEP_DONE;
	run->id = 0;
	ereport(NOTICE,
			(errmsg("skipped %s: another session is pulling or syncing it", c->target)));
	return DV_STEP_LEAVE;
}

dv_outcome
dv_copy_prepare(dv_run *run)
{
	static const char *const names[] = {"copy", "foreign_table", "target", "named"};
	dv_copy_run *c = (dv_copy_run *) run;
	dv_spi_value values[] = {
		dv_spi_of_int8(c->copy), dv_spi_of_table(c->foreign_table), dv_spi_of_text(c->target), dv_spi_of_bool(c->named)
	};

	dv_spi_call("SELECT dataverse_private.copy_resumes($1)", dv_spi_of_int8(c->copy));
	c->resumes = dv_spi_result_bool(1);
	c->plan = dv_copy_prepare_with(c, DV_FOR_PULL, "dataverse_private.pull_prepare", lengthof(names), names, values);
	return DV_STEP_DONE;
}

/*
 * Reading
 */

/* Returns true if the run will fail in any case because of the rows that are refused. */
static bool
is_hopeless(const dv_copy_run *c)
{
	dv_spi_call("SELECT dataverse_private.pull_is_hopeless($1, $2)", dv_spi_of_int8(c->copy), c->plan);
	return dv_spi_result_bool(1);
}

void
dv_copy_count(dv_run *run)
{
	dv_run_counts *n = &run->counts;
	const struct
	{
		const char *name;
		int64	   *count;
	}			counts[] = {
		{"rows_read", &n->rows_read}, {"rows_compared", &n->rows_compared}, {"inserted", &n->inserted},
		{"updated", &n->updated}, {"unchanged", &n->unchanged}, {"deleted", &n->deleted}, {"sent", &n->sent},
		{"missing", &n->missing}, {"rejected", &n->rejected}, {"conflicts", &n->conflicts}
	};
	int			i;

	for (i = 0; i < (int) lengthof(counts); i++)
		*counts[i].count += dv_spi_result_count(counts[i].name);
}

dv_outcome
dv_copy_read(dv_run *run)
{
	dv_copy_run *c = (dv_copy_run *) run;
	bool		more;
	bool		resumes = c->resumes;
	bool		spare_token;
	bool		hopeless;

	dv_spi_call("SELECT s.more, s.remark, s.spare_token, (s.counts).* FROM dataverse_private.pull_step($1, $2, $3, $4, $5) AS s",
				dv_spi_of_int8(c->copy), c->plan, dv_spi_of_text(c->path), dv_spi_of_bool(!c->has_read),
				dv_spi_of_bool(!c->token_dropped));
	more = dv_spi_result_bool(1);
	spare_token = dv_spi_result_bool(3);
	dv_copy_count(run);
	dv_state_run_note(run->id, dv_spi_result_text(2));
	hopeless = is_hopeless(c);
	c->has_read = true;
	c->token_dropped = !spare_token;
	c->resumes = resumes && more;
	c->more = more || resumes;
	return c->more && !hopeless ? DV_STEP_MORE : DV_STEP_DONE;
}

/* Rows that were refused may be accepted now, and others may need them. */
dv_outcome
dv_copy_retry(dv_run *run)
{
	dv_copy_run *c = (dv_copy_run *) run;
	dv_spi_value values[] = {
		dv_spi_of_int8(c->copy), c->plan, dv_spi_of_text(c->path), c->retry
	};
	const char *phase = run->phase;
	dv_spi_value retry;
	dv_outcome	outcome = DV_STEP_MORE;

	run->phase = "retry";
	if (c->retry.isnull)
		dv_spi_execute("SELECT r.at, (r.counts).* FROM dataverse_private.pull_retry($1, $2, $3, NULL) AS r", 3, values);
	else
		dv_spi_execute("SELECT r.at, (r.counts).* FROM dataverse_private.pull_retry($1, $2, $3, $4) AS r", 4, values);
	dv_copy_count(run);
	retry = dv_spi_result(1);
	retry = dv_spi_copy(&retry, run->context);
	if (retry.isnull)
		outcome = !c->more ? DV_STEP_DONE : is_hopeless(c) ? DV_STEP_LEAVE : DV_STEP_BACK;
	/* no row was refused */
	if (retry.isnull && c->retry.isnull)
		run->phase = phase;
	dv_spi_free(&c->retry);
	c->retry = retry;
	return outcome;
}

/* Reports the rows that are still refused. */
dv_outcome
dv_copy_finish(dv_run *run)
{
	dv_copy_run *c = (dv_copy_run *) run;
	char	   *sqlstate;

	dv_spi_call("SELECT f.sqlstate, f.message, f.detail, f.hint, (f.counts).* FROM dataverse_private.pull_finish($1, $2) AS f",
				dv_spi_of_int8(c->copy), c->plan);
	dv_copy_count(run);
	sqlstate = dv_spi_result_text(1);
	if (sqlstate != NULL)
		dv_run_fail(run, sqlstate, dv_spi_result_text(2), dv_spi_result_text(3), dv_spi_result_text(4));
	return DV_STEP_DONE;
}

/*
 * Functions of a kind of run
 */

const char *
dv_copy_phase(dv_run *run)
{
	dv_copy_run *c = (dv_copy_run *) run;
	const char *phase;

	if (run->kind->tasks[run->task].step != dv_copy_read)
		return run->phase;
	dv_spi_call("SELECT c.phase FROM dataverse_private.copy_get($1) AS c", dv_spi_of_int8(c->copy));
	phase = dv_spi_result_text(1);
	if (run->phase != NULL && strcmp(phase, run->phase) == 0)
		return run->phase;
	return MemoryContextStrdup(run->context, phase);
}

/* Looks up a remedy for the error.  The hint of the error may concern privileges in Dataverse. */
static void
find_cure(const dv_copy_run *c, ErrorData *error)
{
	const char *cure;

	dv_spi_call(psprintf("SELECT dataverse_private.pull_cure($1, $2, $3, '%s')", c->needed),
				dv_spi_of_table(c->foreign_table), dv_spi_of_text(c->target), dv_spi_of_text(unpack_sql_state(error->sqlerrcode)));
	cure = dv_spi_result_text(1);
	if (cure == NULL)
		return;
	if (error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE)
		cure = dv_run_join(cure, "  ", error->hint);
	error->hint = MemoryContextStrdup(c->run.context, cure);
}

void
dv_copy_stop(dv_run *run)
{
	if (run->id == 0)
		return;
	dv_spi_execute("SELECT dataverse_private.end_pages()", 0, NULL);
	if (run->error != NULL)
		find_cure((dv_copy_run *) run, run->error);
}

/* Returns the hint for an error that has no hint, before anything was done. */
static const char *
hint_at_first(const dv_copy_run *c)
{
	/* PostgreSQL looks up the table first */
	if (c->run.phase == NULL && c->run.error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE)
	{
		dv_spi_call("SELECT pg_catalog.format('GRANT USAGE, CREATE ON SCHEMA %I TO %I;', (pg_catalog.parse_ident($1))[1], CURRENT_USER)",
					dv_spi_of_text(c->target));
		return psprintf("Grant the privileges that are needed: %s", dv_spi_result_text(1));
	}
	return "Nothing was changed.  Remove the cause, and call the procedure again.";
}

void
dv_copy_explain(dv_run *run)
{
	const dv_copy_run *c = (dv_copy_run *) run;
	ErrorData  *error = run->error;
	const char *where = "The run has not begun.";
	const char *hint = error->hint;

	if (run->kind->tasks[run->task].step == dv_copy_begin &&
		(error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE || error->sqlerrcode == ERRCODE_QUERY_CANCELED))
	{
		where = "It was waiting for another session that is pulling or syncing the table.  The run has not begun.";
		hint = "Call the procedure again later.  With wait => false, it does not wait.";
	}
	if (run->phase != NULL)
		where = psprintf("The run was in phase \"%s\".", run->phase);
	if (run->phase != NULL && strcmp(run->phase, "prepare") != 0)
		hint = dv_run_join(hint, "  ", "The next call continues where this one stopped.");
	else if (hint == NULL)
		hint = hint_at_first(c);
	error->message = psprintf("could not %s %s: %s", run->kind->name, c->target, error->message);
	error->detail = dv_run_join(error->detail, "  ", where);
	error->hint = pstrdup(hint);
}

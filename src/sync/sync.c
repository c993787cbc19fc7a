/*
 * sync.c
 *		dataverse.sync(): a copy and its foreign table, both ways.
 *
 * A run first brings the copy up to date, as dataverse.pull() does, and then sends
 * local changes (sync_steps.sql).  Rows are staged in one step and sent in the next
 * one.  Rows that were refused because of other rows are sent again once the others
 * have been accepted.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "compat.h"
#include "sync/copy_run.h"

DV_FUNCTION(dataverse_sync);

typedef struct sync_run
{
	dv_copy_run c;
	bool		armed;			/* rows are staged for the next step */
	bool		progress;		/* rows were sent since refused ones were sent again */
	bool		loosened;		/* refused rows were sent without their references */
	int32		rounds;			/* how often refused rows were sent again */
	char	   *token;			/* of the last changes in Dataverse that were seen; NULL: they are
								 * not read */
	int64		unwritable;		/* rows with changes that were not sent */
	int64		open;			/* conflicts; -1: not counted yet */
	int64		unsent;			/* rows that were neither changed nor refused */
} sync_run;

enum
{
	OPEN, BEGIN, PREPARE, TRACK, READ, RETRY, TAKE, SEND, AGAIN, FINISH
};

static dv_spi_value
copy_of(const sync_run *s)
{
	return dv_spi_of_int8(s->c.copy);
}

/*
 * Tasks
 */

static dv_outcome
prepare(dv_run *run)
{
	static const char *const names[] = {"foreign_table", "target", "plan"};
	sync_run   *s = (sync_run *) run;
	dv_copy_run *c = &s->c;
	dv_spi_value values[lengthof(names)];
	dv_spi_value plan;

	(void) dv_copy_prepare(run);
	dv_spi_call("SELECT pg_catalog.to_regclass($1)", dv_spi_of_text(c->target));
	values[0] = dv_spi_of_table(c->foreign_table);
	values[1] = dv_spi_result(1);
	values[2] = c->plan;
	plan = dv_copy_prepare_with(c, DV_FOR_SYNC, "dataverse_private.sync_prepare", lengthof(names), names, values);
	dv_spi_free(&c->plan);
	c->plan = plan;
	return DV_STEP_DONE;
}

/* This is a transaction of its own, because it locks the table before the state of the copy. */
static dv_outcome
track(dv_run *run)
{
	dv_spi_call("CALL dataverse.track(pg_catalog.to_regclass($1))", dv_spi_of_text(((sync_run *) run)->c.target));
	return DV_STEP_DONE;
}

/* Keeps a token that is the result of a statement. */
static void
keep_token(sync_run *s, int column)
{
	char	   *token = dv_spi_result_text(column);

	if (s->token != NULL)
		pfree(s->token);
	s->token = token != NULL ? MemoryContextStrdup(s->c.run.context, token) : NULL;
}

static dv_outcome
take_changes(dv_run *run)
{
	sync_run   *s = (sync_run *) run;

	dv_spi_call("SELECT dataverse_private.sync_take($1, $2)", copy_of(s), s->c.plan);
	dv_spi_call("SELECT dataverse_private.pending_retry($1, NULL)", copy_of(s));
	dv_spi_call("SELECT dataverse_private.sync_token($1, $2)", copy_of(s), s->c.plan);
	keep_token(s, 1);
	return DV_STEP_DONE;
}

static dv_outcome
send_changes(dv_run *run)
{
	sync_run   *s = (sync_run *) run;
	char	   *next;

	dv_spi_call("SELECT s.next, s.sent, s.unwritable, s.refused, s.token FROM dataverse_private.sync_step($1, $2, $3, $4, $5) AS s",
				copy_of(s), s->c.plan, dv_spi_of_text(s->c.path), dv_spi_of_bool(s->armed), dv_spi_of_text(s->token));
	next = dv_spi_result_text(1);
	s->armed = strcmp(next, "send") == 0;
	run->counts.sent = dv_spi_result_int8(2);
	s->progress = s->progress || run->counts.sent > 0;
	s->unwritable += dv_spi_result_int8(3);
	run->counts.rejected = dv_spi_result_count("refused");
	keep_token(s, 5);
	return strcmp(next, "done") == 0 ? DV_STEP_DONE : DV_STEP_MORE;
}

/* Rows that were refused because of others may be accepted now.  They have been counted. */
static dv_outcome
again(dv_run *run)
{
	sync_run   *s = (sync_run *) run;

	dv_spi_call("SELECT a.retried, a.loosened, a.rounds::pg_catalog.int8 FROM dataverse_private.sync_again($1, $2, $3, $4, $5, $6::pg_catalog.int4) AS a",
				dv_spi_of_int8(run->id), copy_of(s), s->c.plan, dv_spi_of_bool(s->progress), dv_spi_of_bool(s->loosened), dv_spi_of_int8(s->rounds));
	s->progress = false;
	s->loosened = dv_spi_result_bool(2);
	s->rounds = dv_spi_result_int8(3);
	run->counts.rejected = -dv_spi_result_int8(1);
	return run->counts.rejected < 0 ? DV_STEP_BACK : DV_STEP_DONE;
}

static dv_outcome
finish(dv_run *run)
{
	sync_run   *s = (sync_run *) run;
	dv_outcome	outcome = dv_copy_finish(run);
	int64		open;
	int64		hidden;

	dv_spi_call("SELECT c.open, c.unsent, c.hidden FROM dataverse_private.pending_count($1) AS c", copy_of(s));
	open = dv_spi_result_int8(1);
	s->unsent = dv_spi_result_int8(2);
	hidden = dv_spi_result_int8(3);
	if (hidden > 0)
	{
		dv_spi_call("SELECT dataverse_private.pull_warn_hidden($1, $2)", s->c.plan, dv_spi_of_int8(hidden));
		dv_state_run_note(run->id, dv_spi_result_text(1));
	}
	run->counts.conflicts = open;
	run->counts.rejected += s->unsent;
	s->open = open;
	return outcome;
}

/*
 * The run
 */

/* Some of the rows may have been written.  A throttle does not count as an attempt. */
static void
go_on(dv_run *run)
{
	sync_run   *s = (sync_run *) run;

	s->armed = false;
	dv_spi_call("SELECT dataverse_private.pending_retry($1, NULL)", copy_of(s));
	run->counts.rejected = -dv_spi_result_int8(1);
}

static void
stop(dv_run *run)
{
	sync_run   *s = (sync_run *) run;

	dv_copy_stop(run);
	if (run->id == 0 || s->open >= 0)
		return;
	dv_spi_call("SELECT c.open FROM dataverse_private.pending_count($1) AS c", copy_of(s));
	run->counts.conflicts = dv_spi_result_int8(1);
}

static const dv_task tasks[] = {
	[OPEN] = {NULL, dv_copy_open, .done = BEGIN},
	[BEGIN] = {NULL, dv_copy_begin, .done = PREPARE, .leave = DV_RUN_END},
	[PREPARE] = {"prepare", prepare, .done = TRACK},
	[TRACK] = {"prepare", track, .done = READ},
	[READ] = {NULL, dv_copy_read, .done = RETRY},
	[RETRY] = {NULL, dv_copy_retry, .done = TAKE, .back = READ, .leave = FINISH},
	[TAKE] = {"send", take_changes, .done = SEND},
	[SEND] = {"send", send_changes, .done = AGAIN},
	[AGAIN] = {"send", again, .done = FINISH, .back = SEND},
	[FINISH] = {NULL, finish, .done = DV_RUN_END}
};

static const dv_run_kind kind = {
	.name = "sync",
	.tasks = tasks,
	.phase = dv_copy_phase,
	.go_on = go_on,
	.stop = stop,
	.explain = dv_copy_explain
};

static void
warn(const sync_run *s)
{
	if (s->unwritable > 0)
		ereport(WARNING,
				(errmsg("discarded changes of %s of %s in columns that cannot be written to Dataverse",
						dv_run_number_of(s->unwritable, "row"), s->c.target),
				 errdetail("These changes were not sent to Dataverse or were ignored by it; its values have replaced them.")));
	if (s->unsent > 0)
		ereport(WARNING,
				(errmsg("Dataverse neither changed nor refused %s sent from %s", dv_run_number_of(s->unsent, "row"), s->c.target),
				 errhint("The next run sends them again.")));
	if (s->open > 0)
		ereport(WARNING,
				(errmsg("%s in %s %s resolution", dv_run_number_of(s->open, "conflict"), s->c.target, s->open == 1 ? "awaits" : "await"),
				 errhint("The view dataverse.conflicts shows both versions.  Resolve conflicts with SELECT dataverse.resolve(id, 'service'); or with 'local',"
						 " and sync again.")));
}

static void
report(const sync_run *s)
{
	const dv_run_result *r = s->c.run.result;
	const dv_run_counts *n = &r->counts;

	ereport(NOTICE,
			(errmsg("synced %s: %s sent, %lld refused, %s; %lld read, %lld inserted, %lld updated, %lld deleted, %lld compared; %s",
					s->c.target, dv_run_number_of(n->sent, "row"), (long long) n->rejected, dv_run_number_of(s->open, "conflict"),
					(long long) n->rows_read, (long long) n->inserted, (long long) n->updated, (long long) n->deleted,
					(long long) n->rows_compared, r->took)));
}

/*
 * sync(foreign_table, target, conflict, column_conflicts, strict, columns, deletes, drift, full,
 * sweep, wait, on_error)
 */
Datum
dataverse_sync(PG_FUNCTION_ARGS)
{
	sync_run	s = {.c.needed = "{SELECT,INSERT,UPDATE,DELETE}", .open = -1};

	dv_run_must_commit(fcinfo, "dataverse.sync()");
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	dv_spi_execute("SELECT dataverse_private.check_session('tables cannot be synced')", 0, NULL);
	dv_copy_run_call(&s.c, &kind, fcinfo);
	if (s.c.run.result != NULL)
	{
		warn(&s);
		report(&s);
	}
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * pull.c
 *		dataverse.pull() and pull_all(): local copies of foreign tables.
 *
 * A run of dataverse.pull() brings a copy up to date.  dataverse.pull_all() has such a
 * run for each foreign table of a schema, and goes on with the next table after an
 * error.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "compat.h"
#include "sync/copy_run.h"

DV_FUNCTION(dataverse_pull);
DV_FUNCTION(dataverse_pull_all);

/* One table of a schema. */
typedef struct pulled
{
	Oid			relid;
	bool		due;			/* is to be pulled in the current round */
	bool		changed;		/* a run has changed its copy, or has refused rows */
	MemoryContext context;		/* of the last run, if that has failed */
	ErrorData  *error;			/* of that run */
} pulled;

/* A call of dataverse.pull_all(). */
typedef struct pull_all
{
	const char *schema;
	const char *target_schema;
	const dv_copy_arguments *arguments;
	pulled	   *tables;
	int			n;
} pull_all;

/*
 * The run
 */

enum
{
	OPEN, BEGIN, PREPARE, READ, RETRY, FINISH
};

static const dv_task tasks[] = {
	[OPEN] = {NULL, dv_copy_open, .done = BEGIN},
	[BEGIN] = {NULL, dv_copy_begin, .done = PREPARE, .leave = DV_RUN_END},
	[PREPARE] = {"prepare", dv_copy_prepare, .done = READ},
	[READ] = {NULL, dv_copy_read, .done = RETRY},
	[RETRY] = {NULL, dv_copy_retry, .done = FINISH, .back = READ, .leave = FINISH},
	[FINISH] = {NULL, dv_copy_finish, .done = DV_RUN_END}
};

#define NEEDED "{SELECT}"

static const dv_run_kind kind = {
	.name = "pull",
	.tasks = tasks,
	.phase = dv_copy_phase,
	.stop = dv_copy_stop,
	.explain = dv_copy_explain
};

static bool
has_changed(const dv_run_result *r)
{
	return r != NULL && r->counts.inserted + r->counts.updated + r->counts.deleted + r->counts.rejected > 0;
}

static void
report(const dv_copy_run *c)
{
	const dv_run_result *r = c->run.result;
	const char *refused = r->counts.rejected > 0 ? psprintf(", %lld refused", (long long) r->counts.rejected) : "";

	ereport(NOTICE,
			(errmsg("pulled %s: %s read, %lld inserted, %lld updated, %lld unchanged, %lld deleted, %lld compared%s; %s, %s, %s",
					c->target, dv_run_number_of(r->counts.rows_read, "row"), (long long) r->counts.inserted, (long long) r->counts.updated,
					(long long) r->counts.unchanged, (long long) r->counts.deleted, (long long) r->counts.rows_compared, refused,
					dv_run_number_of(r->requests, "request"), dv_run_number_of(r->throttles, "throttle"), r->took)));
}

/* pull(foreign_table, target, columns, deletes, drift, full, sweep, wait, on_error) */
Datum
dataverse_pull(PG_FUNCTION_ARGS)
{
	dv_copy_run c = {.needed = NEEDED};

	dv_run_must_commit(fcinfo, "dataverse.pull()");
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	dv_copy_run_call(&c, &kind, fcinfo);
	if (c.run.result != NULL)
		report(&c);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * All tables of a schema
 */

static void
check_schemas(const pull_all *all)
{
	if (all->schema[0] == '\0' || all->target_schema[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is null or empty", all->schema[0] == '\0' ? "schema" : "target_schema"),
				 errhint("Name the schema of the foreign tables and that of their copies, as in CALL dataverse.pull_all('dv', 'crm').")));
	if (all->n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("schema \"%s\" has no foreign tables of dataverse_fdw", all->schema),
				 errhint("Create them with IMPORT FOREIGN SCHEMA.")));
	if (!OidIsValid(get_namespace_oid(all->target_schema, true)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_SCHEMA_NAME),
				 errmsg("schema \"%s\" does not exist", all->target_schema),
				 errhint("Create it: CREATE SCHEMA %s;", quote_identifier(all->target_schema))));
}

static void
find_tables(pull_all *all)
{
	int			i;

	dv_spi_call("SELECT t FROM pg_catalog.unnest(dataverse_private.tables_of($1::pg_catalog.name)) AS t", dv_spi_of_text(all->schema));
	all->n = SPI_processed;
	all->tables = palloc0(sizeof(pulled) * (all->n + 1));
	for (i = 0; i < all->n; i++)
	{
		all->tables[i].relid = atooid(SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1));
		all->tables[i].due = true;
	}
}

/* Returns the name of a table in the other schema, or NULL if the table has been dropped. */
static char *
name_of_copy(const pull_all *all, Oid relid)
{
	const char *name = get_rel_name(relid);

	return name != NULL ? psprintf("%s.%s", pstrdup(quote_identifier(all->target_schema)), quote_identifier(name)) : NULL;
}

static void
forget_error(pulled *t)
{
	if (t->error != NULL)
		MemoryContextDelete(t->context);
	t->error = NULL;
}

static void
pull_table(const pull_all *all, pulled *t)
{
	MemoryContext before = CurrentMemoryContext;
	MemoryContext context;
	dv_copy_run c = {.needed = NEEDED};
	char	   *target = name_of_copy(all, t->relid);

	if (target == NULL)
		return;
	context = AllocSetContextCreate(before, "dataverse pull", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	dv_copy_run_init(&c, &kind, t->relid, target, all->arguments);
	c.named = false;
	dv_run_carry_out(&c.run);
	/* the caller has not named the table */
	if (c.run.error == NULL && has_changed(c.run.result))
		report(&c);
	MemoryContextSwitchTo(before);
	forget_error(t);
	t->changed = t->changed || has_changed(c.run.result);
	t->error = c.run.error;
	t->context = context;
	if (t->error == NULL)
		MemoryContextDelete(context);
}

/* Returns false if the call has been canceled. */
static bool
pull_due(const pull_all *all)
{
	int			i;

	for (i = 0; i < all->n; i++)
	{
		pulled	   *t = &all->tables[i];

		if (t->due)
			pull_table(all, t);
		if (t->error != NULL && t->error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			return false;
	}
	return true;
}

/*
 * Has copies pulled again if rows that they refuse may have waited for rows of other copies.
 * Returns false if there are none, or not fewer such rows than before; -1: not known.
 */
static bool
choose_again(const pull_all *all, int64 *waiting)
{
	int64		before = *waiting;
	Oid		   *due = palloc(sizeof(Oid) * all->n);
	int			n = 0;
	int			i;
	int			j;

	for (i = 0; i < all->n; i++)
		if (all->tables[i].due)
			due[n++] = all->tables[i].relid;
	*waiting = dv_state_copies_waiting(all->target_schema, due, &n);
	for (i = 0; i < all->n; i++)
	{
		all->tables[i].due = false;
		for (j = 0; j < n; j++)
			all->tables[i].due = all->tables[i].due || due[j] == all->tables[i].relid;
	}
	pfree(due);
	return *waiting > 0 && (before < 0 || *waiting < before);
}

/* Emits a WARNING for each table that has failed.  Returns how many have, and their first causes. */
static int
warn(const pull_all *all, char **causes)
{
	const int	most = 5;
	int			failures = 0;
	int			i;

	for (i = 0; i < all->n; i++)
	{
		const ErrorData *error = all->tables[i].error;

		if (error == NULL)
			continue;
		if (++failures <= most)
			*causes = dv_run_join(*causes, "\n", error->message);
		dv_run_report_error(error, WARNING);
	}
	return failures;
}

/* A schedule may call the procedure each minute, so it reports one line, plus one for each change. */
static void
report_all(const pull_all *all, int failures)
{
	int			changed = 0;
	int			i;

	for (i = 0; i < all->n; i++)
		changed += all->tables[i].changed;
	ereport(NOTICE,
			(errmsg("pulled %s of schema %s: %d with changes", dv_run_number_of(all->n - failures, "table"),
					quote_identifier(all->schema), changed)));
}

static void
pull_tables(const pull_all *all)
{
	int64		waiting = -1;
	char	   *causes = NULL;
	bool		canceled;
	int			failures;

	do
		canceled = !pull_due(all);
	while (!canceled && choose_again(all, &waiting));
	failures = warn(all, &causes);
	if (canceled)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("dataverse.pull_all() was canceled")));
	report_all(all, failures);
	if (failures > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("%d of %d tables could not be pulled", failures, all->n),
				 errdetail_internal("%s", causes),
				 errhint("The warnings and the view dataverse.runs contain the reasons.%s",
						 failures < all->n ? "  The other tables are in step." : "")));
}

/* pull_all(schema, target_schema, deletes, drift, full, sweep, wait, on_error) */
Datum
dataverse_pull_all(PG_FUNCTION_ARGS)
{
	pull_all	all = {
		.schema = PG_ARGISNULL(0) ? "" : NameStr(*PG_GETARG_NAME(0)),
		.target_schema = PG_ARGISNULL(1) ? "" : NameStr(*PG_GETARG_NAME(1))
	};

	dv_run_must_commit(fcinfo, "dataverse.pull_all()");
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	all.schema = pstrdup(all.schema);
	all.target_schema = pstrdup(all.target_schema);
	all.arguments = dv_copy_arguments_of(fcinfo);
	find_tables(&all);
	check_schemas(&all);
	dv_run_commit();
	pull_tables(&all);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * push.c
 *		dataverse.push(): the result of a query, written to a foreign table.
 *
 * The query runs once, into a table of the caller's with the rows, their numbers, and
 * their future ids.  From there they are sent in chunks.  Before a chunk is sent, this
 * intention is committed.  After a crash, only rows of this chunk can be in Dataverse
 * without being known to be, and we ask which of them are.
 *
 * All access to that table and to the foreign table runs as the caller.  The statements
 * (push_steps.sql) are planned for each chunk, since plans depend on the number of rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "fdw/relation.h"
#include "fdw/setting.h"
#include "sync/hold.h"
#include "sync/run.h"
#include "sync/run_lock.h"
#include "sync/state.h"

DV_FUNCTION(dataverse_push);
DV_FUNCTION(dataverse_forget_push);

/* What dataverse_private.push_statements() returns, in this order; the flags are "t" or "f". */
typedef enum plan_text
{
	SEND, SEND_THESE, SEND_RETURNING, ALL, FIRSTS, EXISTING, OURS, WITH_IDS, NUMBER_IDS, DUPLICATE, VERSION,
	MATCH, UPSERT_KEY, ID_COLUMN, IS_OWN, IS_GIVEN, BY_ID, PAIRS, PLAN_TEXTS
} plan_text;

typedef enum push_operation
{
	INSERT, UPDATE, UPSERT, DELETE
} push_operation;

static const char *const operations[] = {"insert", "update", "upsert", "delete"};

/* The numbers of some rows. */
typedef struct numbers
{
	int64	   *of;				/* in ascending order */
	int			n;
} numbers;

typedef struct push
{
	dv_run		run;
	int64		id;				/* in dataverse_private.push_states */
	const char *query;
	Oid			relid;			/* the foreign table */
	const char *name;			/* of that table */
	ArrayType  *key;			/* text[] */
	push_operation operation;
	bool		go_on;			/* on_error is "continue" */
	int64		max_errors;		/* -1: no limit */
	int			chunk;
	bool		wait;
	const char *path;			/* the caller's search path */
	char	   *plan[PLAN_TEXTS];
	int64		doubt;			/* rows up to this number may have been sent before */
} push;

/* The rows of a chunk: numbers greater than "first", up to "last". */
typedef struct push_chunk
{
	int64		first;
	int64		last;
	int64		tried;			/* rows that were not in Dataverse as they should be */
	int64		sent;
} push_chunk;

enum
{
	STAGE_ROWS, SEND_CHUNK
};

static bool
has(const push *p, plan_text flag)
{
	return p->plan[flag][0] == 't';
}

static char *
rows_of(int64 n)
{
	return dv_run_number_of(n, "row");
}

static const char *
are(int64 n)
{
	return n == 1 ? "is" : "are";
}

/*
 * Numbers of rows
 */

static int
compare(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/* Takes those of an array, bigint[]. */
static numbers
numbers_in(ArrayType *array)
{
	numbers		result = {0};
	Datum	   *values;
	int			i;

	if (array == NULL)
		return result;
	deconstruct_array(array, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values, NULL, &result.n);
	result.of = palloc(sizeof(int64) * (result.n + 1));
	for (i = 0; i < result.n; i++)
		result.of[i] = DatumGetInt64(values[i]);
	qsort(result.of, result.n, sizeof(int64), compare);
	return result;
}

static ArrayType *
array_of(numbers a)
{
	Datum	   *values = palloc(sizeof(Datum) * (a.n + 1));
	int			i;

	for (i = 0; i < a.n; i++)
		values[i] = Int64GetDatum(a.of[i]);
	return construct_array(values, a.n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

static numbers
minus(numbers a, numbers b)
{
	numbers		result = {.of = palloc(sizeof(int64) * (a.n + 1))};
	int			i;
	int			j = 0;

	for (i = 0; i < a.n; i++)
	{
		while (j < b.n && b.of[j] < a.of[i])
			j++;
		if (j == b.n || b.of[j] != a.of[i])
			result.of[result.n++] = a.of[i];
	}
	return result;
}

static numbers
plus(numbers a, numbers b)
{
	numbers		result = minus(a, b);

	result.of = repalloc(result.of, sizeof(int64) * (result.n + b.n + 1));
	if (b.n > 0)
		memcpy(result.of + result.n, b.of, sizeof(int64) * b.n);
	result.n += b.n;
	qsort(result.of, result.n, sizeof(int64), compare);
	return result;
}

/*
 * Statements
 */

/* How a statement writes the foreign table: the value of run_settings (fdw/setting.c). */
static char *
run_settings(const push *p, const char *insert_mode, bool go_on, int64 max_errors)
{
	const char *settings[] = {
		psprintf("insert_mode=%s", insert_mode != NULL ? insert_mode : p->operation == UPSERT ? "upsert" : "create"),
		psprintf("upsert_key=%s", p->plan[UPSERT_KEY] != NULL ? p->plan[UPSERT_KEY] : ""),
		psprintf("ids_made=%s", has(p, IS_OWN) ? "true" : "false"),
		psprintf("on_error=%s", go_on ? "continue" : "abort"),
		max_errors >= 0 ? psprintf("max_errors=%lld", (long long) max_errors) : "max_errors="
	};
	Datum		texts[lengthof(settings)];
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		texts[i] = CStringGetTextDatum(settings[i]);
	return psprintf("%u %d %s", p->relid, DatumGetInt32(OidFunctionCall0(F_PG_TRIGGER_DEPTH)),
					OidOutputFunctionCall(F_ARRAY_OUT,
										  PointerGetDatum(construct_array(texts, lengthof(settings), TEXTOID,
																		  -1, false, TYPALIGN_INT))));
}

/*
 * Makes the plan of a statement follow the order of the rows, and request nothing that is given.
 * If only the ids of the written rows are needed, a nested loop provides them.  If rows have to
 * be read for more, requesting each of them may take too long, so other joins remain possible.
 */
static void
guide_planner(bool nested_loops)
{
	dv_run_set("enable_seqscan", "off");
	dv_run_set("enable_bitmapscan", "on");
	dv_run_set("enable_mergejoin", "off");
	dv_run_set("enable_hashjoin", "on");
	dv_run_set("enable_nestloop", nested_loops ? "on" : "off");
	dv_run_set("jit", "off");
}

static void
execute(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	int			status = SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0);

	if (status < 0)
		elog(ERROR, "could not execute a statement: %s", SPI_result_code_string(status));
}

/* Executes a statement for rows of a chunk; "these" is an array of numbers or ids, or NULL. */
static void
execute_for(const char *sql, const push_chunk *c, ArrayType *these)
{
	Oid			types[] = {INT8OID, INT8OID, these != NULL ? get_array_type(ARR_ELEMTYPE(these)) : INT8ARRAYOID};
	Datum		values[] = {Int64GetDatum(c->first), Int64GetDatum(c->last), PointerGetDatum(these)};

	execute(sql, 3, types, values, these != NULL ? NULL : "  n");
}

static ArrayType *
returned_array(void)
{
	bool		isnull;
	Datum		value;

	if (SPI_processed == 0)
		return NULL;
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	return isnull ? NULL : DatumGetArrayTypePCopy(value);
}

/* Begins a statement that reads or writes the foreign table.  Returns the level of settings to end. */
static int
begin_statement(const char *path, const char *settings, bool nested_loops)
{
	int			level = NewGUCNestLevel();

	dv_run_set("dataverse_fdw.guard", "superusers");
	dv_run_set("dataverse_fdw.run_settings", settings);
	guide_planner(nested_loops);
	dv_run_set("search_path", path);
	return level;
}

/* Sends rows with a statement, as the caller would send them.  Returns how many were written. */
static int64
send_rows(const push *p, const char *sql, const push_chunk *c, ArrayType *these, const char *settings)
{
	int			level = begin_statement(p->path, settings, has(p, BY_ID) || has(p, PAIRS));
	int64		n;

	execute_for(sql, c, these);
	n = SPI_processed;
	AtEOXact_GUC(true, level);
	return n;
}

/* Returns the numbers of the rows that a statement returns. */
static numbers
look(const push *p, const char *sql, const char *path, const char *settings, const push_chunk *c, ArrayType *these)
{
	int			level = begin_statement(path, settings, false);
	numbers		result;

	execute_for(sql, c, these);
	result = numbers_in(returned_array());
	AtEOXact_GUC(true, level);
	return result;
}

/* For queries that only read, the search path pg_catalog suffices. */
#define READS "pg_catalog, pg_temp"

static numbers
look_among(const push *p, plan_text sql, const push_chunk *c, numbers these)
{
	numbers		none = {0};

	return these.n == 0 ? none : look(p, p->plan[sql], READS, "", c, array_of(these));
}

static int64
send_these(const push *p, const push_chunk *c, numbers these, const char *settings)
{
	return these.n == 0 ? 0 : send_rows(p, p->plan[SEND_THESE], c, array_of(these), settings);
}

/*
 * The table with the rows
 */

static void
execute_plainly(const char *sql)
{
	int			level = NewGUCNestLevel();

	dv_run_set("search_path", READS);
	execute(sql, 0, NULL, NULL, NULL);
	AtEOXact_GUC(true, level);
}

static void
drop_table(Oid relid)
{
	execute_plainly(psprintf("DROP TABLE %s", dv_relation_qualified_name(relid)));
}

/* Has the statements made for the rows in this table. */
static void
make_statements(push *p, Oid staging, const dv_push_state *state)
{
	Oid			types[] = {REGCLASSOID, REGCLASSOID, TEXTOID, TEXTARRAYOID, INT8OID, TIMESTAMPTZOID};
	Datum		values[] = {
		ObjectIdGetDatum(p->relid), ObjectIdGetDatum(staging), CStringGetTextDatum(operations[p->operation]),
		PointerGetDatum(p->key), Int64GetDatum(state->version_before), TimestampTzGetDatum(state->staged_at)
	};
	int			i;

	execute("SELECT * FROM dataverse_private.push_statements($1, $2, $3, $4, $5, $6)", 6, types, values,
			state->version_before >= 0 ? NULL : "    n ");
	for (i = 0; i < PLAN_TEXTS; i++)
	{
		const char *text = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i + 1);

		p->plan[i] = text != NULL ? MemoryContextStrdup(p->run.context, text) : NULL;
	}
}

static char *
source_address(const push *p)
{
	Oid			type = REGCLASSOID;
	Datum		table = ObjectIdGetDatum(p->relid);

	execute("SELECT dataverse_private.pull_source_address($1)", 1, &type, &table, NULL);
	return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

/* Creates the table, and returns the statement that fills it. */
static const char *
create_table(const push *p, const char *name, dv_push_state *state)
{
	Oid			types[] = {TEXTOID, REGCLASSOID, TEXTOID, TEXTOID, TEXTARRAYOID, TEXTOID};
	Datum		values[] = {
		CStringGetTextDatum(name), ObjectIdGetDatum(p->relid), CStringGetTextDatum(p->query),
		CStringGetTextDatum(operations[p->operation]), PointerGetDatum(p->key), CStringGetTextDatum(p->path)
	};
	int			level = NewGUCNestLevel();
	const char *fill;

	dv_run_set("search_path", p->path);
	execute("SELECT staging, fill, staging::pg_catalog.regclass::pg_catalog.oid"
			" FROM dataverse_private.push_table($1, $2, $3, $4, $5, pg_catalog.current_schemas(false), $6)",
			6, types, values, NULL);
	AtEOXact_GUC(true, level);
	state->staging = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	state->staged_as = atooid(SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 3));
	fill = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2);
	return fill;
}

/* Runs the query.  Returns the number of its rows. */
static int64
fill_table(const push *p, const char *fill, const char *table)
{
	int			level = NewGUCNestLevel();
	int64		n;

	dv_run_set("search_path", p->path);
	execute(fill, 0, NULL, NULL, NULL);
	n = SPI_processed;
	AtEOXact_GUC(true, level);

	/*
	 * The rows are stored in the order of their numbers.  Sorting them for a B-tree would take
	 * memory and time for each of them.
	 */
	execute_plainly(psprintf("CREATE INDEX ON %s USING brin (\"row number\" pg_catalog.int8_minmax_ops) WITH (pages_per_range = 16)", table));
	/* plans depend on the number of rows in a chunk */
	execute_plainly(psprintf("ANALYZE %s (\"row number\")", table));
	return n;
}

static void
refuse_duplicates(const push *p)
{
	const char *example;

	if (p->plan[DUPLICATE] == NULL)
		return;
	execute_plainly(p->plan[DUPLICATE]);
	if (SPI_processed == 0)
		return;
	example = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 errmsg("the query returns several rows for the same row of foreign table %s", p->name),
			 errdetail("One of them is (%s).", example),
			 errhint("Return only one row for each of them, for example with DISTINCT ON (%s).", p->plan[MATCH])));
}

/* Runs the query, and keeps its rows in a new table. */
static void
stage(push *p, const char *name, dv_push_state *state)
{
	const push_chunk none = {0};
	int			level = NewGUCNestLevel();
	const char *fill;

	/* values of its types are made before any row is sent */
	dv_run_set("dataverse_fdw.guard", "superusers");
	dv_hold(p->name, p->relid);
	AtEOXact_GUC(true, level);

	fill = create_table(p, name, state);
	state->staged_at = GetCurrentTimestamp();
	state->version_before = -1;
	make_statements(p, state->staged_as, state);
	/* columns that cannot be written at all are found before the query runs */
	(void) send_rows(p, psprintf("EXPLAIN %s", p->plan[SEND]), &none, NULL, run_settings(p, NULL, false, -1));
	state->rows = fill_table(p, fill, state->staging);
	refuse_duplicates(p);
	if (state->rows > 0 && p->plan[VERSION] != NULL)
	{
		numbers		version = look(p, p->plan[VERSION], READS, "", &none, NULL);

		state->version_before = version.n > 0 ? version.of[0] : 0;
	}
	state->staged_at = GetCurrentTimestamp();
	state->source = source_address(p);
}

/*
 * Staging, or finding the rows that were staged
 */

/* The rows were restored from a dump, so the rows sent since then are unknown. */
static void
take_restored(push *p, dv_push_state *state, Oid staging)
{
	int64		n = -1;

	if (OidIsValid(staging))
	{
		execute_plainly(psprintf("SELECT count(*) FROM ONLY %s", dv_relation_qualified_name(staging)));
		n = strtoll(SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1), NULL, 10);
	}
	if (n != state->rows)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the rows of push %lld are lost: table %s no longer contains them", (long long) p->id, state->staging),
				 errdetail("The query was run at %s and returned %s.  %lld of them %s in Dataverse, and %lld more may be.",
						   timestamptz_to_str(state->staged_at), rows_of(state->rows), (long long) state->done, are(state->done),
						   (long long) (state->marked - state->done)),
				 errhint("Find out which rows have to be sent.  Then abandon this push: SELECT dataverse.forget_push(%lld);", (long long) p->id)));
	state->staged_as = staging;
	state->marked = state->rows;
	dv_state_push_put(state);
}

/* The server can be altered while a run waits, so each step asks. */
static void
check_source(const push *p, const dv_push_state *state)
{
	const char *source = source_address(p);

	if (source != NULL && strcmp(state->source, source) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("push %lld was started to %s, but the server of the foreign table is now %s", (long long) p->id, state->source, source),
				 errdetail("%lld of its %s were sent to the former address, and %lld more may have been.", (long long) state->done,
						   rows_of(state->rows), (long long) (state->marked - state->done)),
				 errhint("Restore the server's URL, or abandon this push, so that the next call sends all rows: SELECT dataverse.forget_push(%lld);",
						 (long long) p->id)));
}

static void
resume(push *p, dv_push_state *state)
{
	Oid			staging = dv_state_push_staging(state);

	if (staging != state->staged_as)
		take_restored(p, state, staging);
	check_source(p, state);
	ereport(NOTICE,
			(errmsg("continuing the push started at %s: %lld of %s %s done",
					OidOutputFunctionCall(F_TIMESTAMPTZ_OUT,
										  TimestampTzGetDatum(state->opened_at - state->opened_at % USECS_PER_SEC)),
					(long long) state->done, rows_of(state->rows), are(state->done))));
	make_statements(p, staging, state);
	p->doubt = state->marked;
}

static dv_push_state *
get_state(const push *p)
{
	dv_push_state *state = dv_state_push_get(p->id);

	if (state == NULL)
		dv_state_push_forgotten(p->id);
	return state;
}

static dv_outcome
stage_rows(dv_run *run)
{
	push	   *p = (push *) run;
	dv_push_state *state = get_state(p);
	char	   *name;

	if (state->staging != NULL)
	{
		resume(p, state);
		return DV_STEP_DONE;
	}
	name = psprintf("dataverse_push_%lld_%08x", (long long) p->id, pg_prng_uint32(&pg_global_prng_state));
	stage(p, name, state);
	make_statements(p, state->staged_as, state);
	state->marked = Min(p->chunk, state->rows);
	dv_state_push_put(state);
	run->counts.rows_read = state->rows;
	p->doubt = 0;
	return DV_STEP_DONE;
}

/*
 * Sending
 */

/*
 * Sends new rows of a chunk that may have been sent before; "fit" are those that can have been
 * created, and "there" those of them whose ids exist.
 */
static void
create_again(const push *p, push_chunk *c, numbers all, numbers fit, numbers there, int64 errors_left)
{
	/* a late request of the lost session may create these rows meanwhile */
	char	   *settings = run_settings(p, "ignore_duplicates", p->go_on, errors_left);
	TimestampTz begun = GetCurrentTimestamp();
	numbers		rest = minus(fit, there);
	numbers		written = {0};
	dv_state_rejects filed;
	numbers		others;

	if (has(p, IS_GIVEN))
	{
		if (rest.n > 0)
			written = look(p, p->plan[SEND_RETURNING], p->path, settings, c, array_of(rest));
		c->sent = written.n;
	}
	else
	{
		c->sent = send_these(p, c, rest, settings);
		if (c->sent == rest.n)
			return;
	}
	filed = dv_state_rejects_since(begun);
	others = minus(rest, written);
	if (filed.n > 0)
		others = minus(others, look(p, p->plan[WITH_IDS], READS, "", c, filed.ids));
	/* rows that have not been written exist by now, or are duplicates in another column */
	there = plus(there, look_among(p, EXISTING, c, others));
	others = minus(others, there);
	if (has(p, IS_GIVEN))
	{
		numbers		not_ours = plus(minus(there, look_among(p, OURS, c, there)), minus(all, fit));

		c->tried += not_ours.n;
		others = plus(others, not_ours);
	}
	/* existing rows that are not ours are refused like any other duplicate */
	c->sent += send_these(p, c, others,
						  run_settings(p, NULL, p->go_on, errors_left < 0 ? -1 : Max(errors_left - filed.n, 0)));
}

/* Sends those rows of a chunk that may have been sent before, but were not. */
static void
send_again(const push *p, push_chunk *c, int64 errors_left)
{
	numbers		all = look(p, p->plan[ALL], READS, "", c, NULL);

	/* among rows with the same id, only the first one can have been created */
	numbers		fit = has(p, IS_GIVEN) ? look(p, p->plan[FIRSTS], READS, "", c, NULL) : all;
	bool		by_values = p->operation == UPDATE || p->operation == UPSERT;
	numbers		there = look_among(p, by_values ? OURS : EXISTING, c, fit);
	numbers		rest = p->operation == DELETE ? there : minus(fit, there);

	c->tried = rest.n;
	if (p->operation == INSERT && !has(p, PAIRS))
		create_again(p, c, all, fit, there, errors_left);
	else
		c->sent = send_these(p, c, rest, run_settings(p, NULL, p->go_on, errors_left));
}

/* Gives rows that were refused their numbers in the query. */
static void
number_rejects(const push *p, const push_chunk *c, const dv_state_rejects *rejects, bool in_doubt)
{
	bool		in_order = !in_doubt && (p->operation == INSERT || p->operation == UPSERT);
	ArrayType  *in_query = NULL;

	if (rejects->n == 0)
		return;
	if (!in_order && p->plan[NUMBER_IDS] != NULL)
	{
		int			level = begin_statement(READS, "", true);

		execute_for(p->plan[NUMBER_IDS], c, rejects->ids);
		in_query = returned_array();
		AtEOXact_GUC(true, level);
	}
	dv_state_rejects_number(rejects, in_query, c->first);
}

static void
count(push *p, const push_chunk *c, int64 rejected)
{
	bool		finds_rows = p->operation == UPDATE || p->operation == DELETE;
	int64		others = c->tried - c->sent - rejected;

	p->run.counts.sent = c->sent;
	p->run.counts.rejected = rejected;
	p->run.counts.missing = finds_rows ? others : 0;
	p->run.counts.unchanged = c->last - c->first - c->tried + (finds_rows ? 0 : others);
}

/*
 * Sends the next chunk, which is then committed together with the mark that the one after it may
 * be sent.  After the last one, the push is forgotten.
 */
static dv_outcome
send_chunk(dv_run *run)
{
	push	   *p = (push *) run;
	dv_push_state *state = get_state(p);
	Oid			staging = dv_state_push_staging(state);
	bool		in_doubt = state->done < p->doubt;
	push_chunk	c = {
		.first = state->done, .last = Min(state->done + p->chunk, in_doubt ? p->doubt : state->rows)
	};
	int64		errors_left = p->max_errors < 0 ? -1 : Max(p->max_errors - state->rejected, 0);
	TimestampTz begun = GetCurrentTimestamp();
	dv_state_rejects rejects = {0};
	int			level;

	if (staging != state->staged_as)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table %s with the rows to be pushed no longer exists", state->staging),
				 errhint("Find out which rows have to be sent.  Then abandon this push: SELECT dataverse.forget_push(%lld);", (long long) p->id)));
	level = NewGUCNestLevel();
	dv_run_set("dataverse_fdw.guard", "superusers");
	dv_hold(p->name, p->relid);
	AtEOXact_GUC(true, level);

	check_source(p, state);
	c.tried = c.last - c.first;
	if (in_doubt)
		send_again(p, &c, errors_left);
	else if (state->rows > 0)
		c.sent = send_rows(p, p->plan[SEND], &c, NULL, run_settings(p, NULL, p->go_on, errors_left));
	if (p->go_on)
		rejects = dv_state_rejects_since(begun);
	number_rejects(p, &c, &rejects, in_doubt);
	count(p, &c, rejects.n);

	if (c.last == state->rows)
	{
		drop_table(staging);
		dv_state_push_close(state);
		return DV_STEP_DONE;
	}
	state->done = c.last;
	state->marked = Max(state->marked, Min(c.last + p->chunk, state->rows));
	state->sent += c.sent;
	state->rejected += rejects.n;
	dv_state_push_put(state);
	return DV_STEP_MORE;
}

/*
 * Errors
 */

/* Some of the rows that were being sent may have been written. */
static void
doubt_marked(dv_run *run)
{
	push	   *p = (push *) run;

	p->doubt = get_state(p)->marked;
}

/* Returns how to give the role the rights that it lacks, or NULL. */
static const char *
cure_of(const push *p, int sqlstate)
{
	Oid			types[] = {REGCLASSOID, TEXTOID, TEXTOID};
	Datum		values[] = {
		ObjectIdGetDatum(p->relid), CStringGetTextDatum(unpack_sql_state(sqlstate)),
		CStringGetTextDatum(p->operation == UPSERT ? "insert" : operations[p->operation])
	};

	execute("SELECT dataverse_private.pull_cure($1, '', $2, ARRAY['SELECT', pg_catalog.upper($3)])", 3, types, values, NULL);
	return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

static void
explain(dv_run *run)
{
	push	   *p = (push *) run;
	dv_push_state *state = dv_state_push_get(p->id);
	ErrorData  *error = run->error;
	const char *where = psprintf("The run was in phase \"%s\".", run->phase);
	const char *hint = dv_run_join(cure_of(p, error->sqlerrcode), "  ", error->hint);

	if (state == NULL)
	{
		if (hint == NULL)
			hint = "The next call runs the query again.";
	}
	else if (state->staging == NULL)
	{
		where = psprintf("%s  Nothing has been sent.", where);
		if (hint == NULL)
			hint = "The next call runs the query again.";
		/* without a completed query, there is nothing to continue */
		dv_state_push_close(state);
	}
	else
	{
		const char *which = state->marked == state->done + 1 ? psprintf("row %lld was", (long long) state->marked) :
		psprintf("rows %lld to %lld were", (long long) state->done + 1, (long long) state->marked);

		where = psprintf("%s  Of %s, %lld %s done; %s being sent.", where, rows_of(state->rows), (long long) state->done,
						 are(state->done), which);
		hint = dv_run_join(hint, "\n", psprintf("The next call with the same query continues where this one stopped, without running the query again.  "
												"SELECT dataverse.forget_push(%lld) abandons the push.", (long long) p->id));
	}
	error->message = psprintf("could not push to foreign table %s: %s", state != NULL ? state->foreign_table : p->name, error->message);
	error->detail = dv_run_join(error->detail, "\n", where);
	error->hint = unconstify(char *, hint);
}

/*
 * The run
 */

static const dv_task tasks[] = {
	[STAGE_ROWS] = {"stage", stage_rows, SEND_CHUNK},
	[SEND_CHUNK] = {"send", send_chunk, DV_RUN_END}
};

static const dv_run_kind kind = {
	.name = "push",
	.tasks = tasks,
	.go_on = doubt_marked,
	.explain = explain
};

static void
check_arguments(FunctionCallInfo fcinfo)
{
	Oid			types[] = {TEXTOID, REGCLASSOID, TEXTARRAYOID, TEXTOID, TEXTOID, INT4OID, INT4OID, BOOLOID};
	Datum		values[8];
	char		nulls[9] = "";
	int			i;

	for (i = 0; i < 8; i++)
	{
		values[i] = PG_GETARG_DATUM(i);
		nulls[i] = PG_ARGISNULL(i) ? 'n' : ' ';
	}
	execute("SELECT dataverse_private.push_check($2, $1, $3, coalesce($4, CASE WHEN $3 IS NULL THEN 'insert' ELSE 'upsert' END), $5, $6, $7, $8)",
			8, types, values, nulls);
}

static push_operation
operation_of(FunctionCallInfo fcinfo)
{
	int			i;

	if (PG_ARGISNULL(3))
		return PG_ARGISNULL(2) ? INSERT : UPSERT;
	for (i = 0; strcmp(operations[i], text_to_cstring(PG_GETARG_TEXT_PP(3))) != 0; i++)
		continue;
	return i;
}

static push *
take_arguments(FunctionCallInfo fcinfo)
{
	push	   *p = palloc0(sizeof(*p));

	check_arguments(fcinfo);
	p->run.kind = &kind;
	p->run.context = CurrentMemoryContext;
	p->query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	p->relid = PG_GETARG_OID(1);
	p->name = dv_relation_qualified_name(p->relid);
	p->key = PG_ARGISNULL(2) ? construct_empty_array(TEXTOID) : PG_GETARG_ARRAYTYPE_P_COPY(2);
	p->operation = operation_of(fcinfo);
	p->go_on = strcmp(text_to_cstring(PG_GETARG_TEXT_PP(4)), "continue") == 0;
	p->max_errors = PG_ARGISNULL(5) ? -1 : PG_GETARG_INT32(5);
	p->chunk = PG_GETARG_INT32(6);
	p->wait = PG_GETARG_BOOL(7);
	p->path = pstrdup(GetConfigOption("search_path", false, false));
	return p;
}

/* With dataverse_fdw.dry_run, rows are only encoded, and nothing is kept. */
static void
rehearse(push *p)
{
	dv_push_state state = {0};
	push_chunk	all = {0};

	stage(p, psprintf("dataverse_push_dry_%08x", pg_prng_uint32(&pg_global_prng_state)), &state);
	all.last = state.rows;
	all.sent = send_rows(p, p->plan[SEND], &all, NULL, run_settings(p, NULL, p->go_on, p->max_errors));
	drop_table(state.staged_as);
	ereport(NOTICE,
			(errmsg("dry run of a push to %s: %s would be sent", p->name, rows_of(all.sent))));
}

static void
check_privileges(const push *p)
{
	if (pg_class_aclcheck(p->relid, GetUserId(), ACL_INSERT | ACL_UPDATE | ACL_DELETE) != ACLCHECK_OK &&
		pg_attribute_aclcheck_all(p->relid, GetUserId(), ACL_INSERT | ACL_UPDATE, ACLMASK_ANY) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for foreign table %s", p->name),
				 errhint("%s", cure_of(p, ERRCODE_INSUFFICIENT_PRIVILEGE))));
}

/* Takes the lock of the push, and begins a run.  Returns false if another session has the lock. */
static bool
begin(push *p)
{
	dv_push_state *state;

	check_privileges(p);
	for (;;)
	{
		p->id = dv_state_push_open(p->relid, p->query, operations[p->operation], p->key);
		dv_run_commit();
		state = dv_state_push_get(p->id);
		if (state == NULL)
			continue;
		if (!dv_run_lock_push(p->id, p->wait))
		{
			(void) dv_state_run_begin(state, NULL);
			ereport(NOTICE,
					(errmsg("skipped push to %s: another session is running it", p->name)));
			return false;
		}
		dv_run_commit();
		/* while this session waited, another one may have finished the push */
		state = dv_state_push_get(p->id);
		if (state != NULL)
			break;
		(void) dv_run_lock_release();
	}
	p->run.id = dv_state_run_begin(state, tasks[0].phase);
	dv_run_commit();
	return true;
}

static void
report(const push *p)
{
	const dv_run_result *r = p->run.result;
	const char *more = psprintf("%s%s%s",
								r->counts.unchanged > 0 ? psprintf(", %lld already done", (long long) r->counts.unchanged) : "",
								r->counts.missing > 0 ? psprintf(", %lld not found", (long long) r->counts.missing) : "",
								r->counts.rejected > 0 ? psprintf(", %lld refused", (long long) r->counts.rejected) : "");

	if (r->counts.missing > 0 && p->operation == UPDATE)
		ereport(WARNING,
				(errmsg("%s not found for update in foreign table %s", rows_of(r->counts.missing), p->name)));
	ereport(NOTICE,
			(errmsg("pushed to %s: %s sent%s; %lld request%s, %lld throttle%s, %s", p->name, rows_of(r->counts.sent), more,
					(long long) r->requests, r->requests == 1 ? "" : "s", (long long) r->throttles, r->throttles == 1 ? "" : "s", r->took)));
}

/* push(query, foreign_table, key, operation, on_error, max_errors, chunk, wait) */
Datum
dataverse_push(PG_FUNCTION_ARGS)
{
	push	   *p;

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	p = take_arguments(fcinfo);
	if (dv_dry_run)
		rehearse(p);
	else
	{
		dv_run_must_commit(fcinfo, "dataverse.push()");
		dv_run_commit();
		if (begin(p))
		{
			dv_run_carry_out(&p->run);
			if (p->run.error != NULL)
				dv_run_report_error(p->run.error, ERROR);
			report(p);
		}
	}
	SPI_finish();
	PG_RETURN_VOID();
}

/* forget_push(push): returns false if there is no such push */
Datum
dataverse_forget_push(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	dv_push_state *state;
	Oid			staging;

	/* nobody locks a future push of another role */
	if (dv_state_push_get(id) == NULL)
		PG_RETURN_BOOL(false);
	/* a run that began earlier would find a state that is about to vanish */
	if (!dv_run_lock_push_until_end(id))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("push %lld is under way", (long long) id),
				 errhint("Cancel the session that runs it.")));
	state = dv_state_push_get(id);
	if (state != NULL)
	{
		staging = dv_state_push_staging(state);
		SPI_connect();
		if (OidIsValid(staging))
			drop_table(staging);
		SPI_finish();
		dv_state_push_close(state);
	}
	PG_RETURN_BOOL(state != NULL);
}

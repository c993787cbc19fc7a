/*
 * state.c
 *		The tables in which runs keep their state and their results.
 *
 * Only the owner of the extension may write them.  So the statements of this file, which
 * are fixed, run as that owner (fdw/owner.c).  All names and values of callers are
 * parameters.  Whoever calls a function of this file has the rights of the caller of the
 * run again when it returns or raises an error.
 *
 * Steps in SQL call functions of state.  Their language, dataverse_state, is PL/pgSQL that
 * runs as the owner, after the caller has been checked here.
 *
 * A push belongs to a role, and the functions refuse roles that may not act for it.  The
 * table with its rows belongs to that role, too, and is known here by its name only.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "compat.h"
#include "fdw/owner.h"
#include "fdw/relation.h"
#include "sync/run.h"
#include "sync/state.h"

DV_FUNCTION(dataverse_state_handler);

#define MOST_VALUES 15

#define ARGS(...) ((Datum[]) {__VA_ARGS__})

typedef struct statement
{
	const char *sql;
	int			nargs;
	Oid			types[MOST_VALUES];
	SPIPlanPtr	plan;			/* NULL until it is first executed */
} statement;

/* roles and tables can be renamed, and a dump has names that others may have taken */
static statement rename_role = {
	.sql = "UPDATE dataverse_private.push_states AS p SET role = r.rolname"
	" FROM pg_roles AS r WHERE r.oid = p.role_oid AND r.rolname <> p.role AND (p.role_oid = $1 OR p.role = $2)",
	.nargs = 2, .types = {OIDOID, TEXTOID}
};

/* entries of other roles are skipped, because they may be locked for any time */
static statement rename_table = {
	.sql = "UPDATE dataverse_private.push_states AS p SET foreign_table = p.foreign_oid::regclass::text"
	" FROM pg_class AS c WHERE c.oid = p.foreign_oid AND p.role_oid = $1 AND p.foreign_table <> p.foreign_oid::regclass::text",
	.nargs = 1, .types = {OIDOID}
};

/* a recreated table replaces one that is gone, but not one that has another name now */
static statement find_push = {
	.sql = "SELECT p.id FROM dataverse_private.push_states AS p"
	" WHERE p.role_oid = $1"
	"  AND (p.foreign_oid = $2"
	"   OR p.foreign_table = $2::regclass::text AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = p.foreign_oid))"
	"  AND p.operation = $3 AND p.key = $4 AND p.query = $5"
	" ORDER BY p.foreign_oid = $2 DESC NULLS LAST LIMIT 1",
	.nargs = 5, .types = {OIDOID, OIDOID, TEXTOID, TEXTARRAYOID, TEXTOID}
};

/* those of a dropped role that had the same name */
static statement delete_namesakes = {
	.sql = "DELETE FROM dataverse_private.push_states AS p WHERE p.role = $2 AND p.role_oid <> $1",
	.nargs = 2, .types = {OIDOID, TEXTOID}
};

static statement insert_push = {
	.sql = "INSERT INTO dataverse_private.push_states (role, foreign_table, operation, key, query)"
	" VALUES ($1, $2::regclass::text, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING id",
	.nargs = 5, .types = {TEXTOID, OIDOID, TEXTOID, TEXTARRAYOID, TEXTOID}
};

static statement adopt_table = {
	.sql = "UPDATE dataverse_private.push_states AS p SET foreign_table = $2::regclass::text WHERE p.id = $1 AND p.foreign_oid IS DISTINCT FROM $2",
	.nargs = 2, .types = {INT8OID, OIDOID}
};

static statement get_push = {
	.sql = "SELECT p.id, p.role_oid, p.foreign_table, p.opened_at, p.staging, p.staged_as, p.staged_at, p.source, p.version_before,"
	"  p.rows, p.done, p.marked, p.sent, p.rejected"
	" FROM dataverse_private.push_states AS p WHERE p.id = $1",
	.nargs = 1, .types = {INT8OID}
};

static statement put_push = {
	.sql = "UPDATE dataverse_private.push_states AS p SET staging = $2, staged_as = $3, staged_at = $4, source = $5,"
	"  version_before = nullif($6, -1), rows = $7, done = $8, marked = $9, sent = $10, rejected = $11"
	" WHERE p.id = $1"
	" RETURNING p.id",
	.nargs = 11, .types = {INT8OID, TEXTOID, OIDOID, TIMESTAMPTZOID, TEXTOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID}
};

static statement delete_push = {
	.sql = "DELETE FROM dataverse_private.push_states AS p WHERE p.id = $1",
	.nargs = 1, .types = {INT8OID}
};

static statement delete_old_runs = {
	.sql = "DELETE FROM dataverse_private.run_log AS r"
	" WHERE r.push IS NOT NULL AND r.role_oid = $1 AND r.started_at < clock_timestamp() - interval '30 days'",
	.nargs = 1, .types = {OIDOID}
};

static statement delete_old_runs_of_copy = {
	.sql = "DELETE FROM dataverse_private.run_log AS r WHERE r.copy = $1 AND r.started_at < clock_timestamp() - interval '30 days'",
	.nargs = 1, .types = {INT8OID}
};

#define INTERRUPT_RUNS "UPDATE dataverse_private.run_log AS r" \
	" SET status = 'interrupted', ended_at = clock_timestamp(), error = 'the session that ran it has ended'"

static statement interrupt_runs = {
	.sql = INTERRUPT_RUNS " WHERE r.push = $1 AND r.role_oid = $2 AND r.status = 'running'",
	.nargs = 2, .types = {INT8OID, OIDOID}
};

static statement interrupt_runs_of_copy = {
	.sql = INTERRUPT_RUNS " WHERE r.copy = $1 AND r.status = 'running'",
	.nargs = 1, .types = {INT8OID}
};

#define STATUS_AND_END "CASE WHEN $3 IS NULL THEN 'skipped' ELSE 'running' END, CASE WHEN $3 IS NULL THEN clock_timestamp() END, $3"

static statement insert_run = {
	.sql = "INSERT INTO dataverse_private.run_log (push, foreign_table, query, operation, role, status, ended_at, phase)"
	" SELECT p.id, p.foreign_table, p.query, 'push', $2, " STATUS_AND_END
	" FROM dataverse_private.push_states AS p WHERE p.id = $1"
	" RETURNING id",
	.nargs = 3, .types = {INT8OID, TEXTOID, TEXTOID}
};

static statement insert_run_of_copy = {
	.sql = "INSERT INTO dataverse_private.run_log (copy, operation, role, status, ended_at, phase)"
	" SELECT c.id, $4, $2, " STATUS_AND_END " FROM dataverse_private.copies AS c WHERE c.id = $1"
	" RETURNING id",
	.nargs = 4, .types = {INT8OID, TEXTOID, TEXTOID, TEXTOID}
};

static statement add_to_run = {
	.sql = "UPDATE dataverse_private.run_log AS r"
	" SET phase = $2, requests = $3, throttles = $4, time_waited = make_interval(secs => $5 / 1e6),"
	"  rows_read = r.rows_read + $6, rows_compared = r.rows_compared + $7, inserted = r.inserted + $8,"
	"  updated = r.updated + $9, unchanged = r.unchanged + $10, deleted = r.deleted + $11, sent = r.sent + $12,"
	"  missing = r.missing + $13, rejected = r.rejected + $14, conflicts = r.conflicts + $15"
	" WHERE r.id = $1 AND r.status = 'running'",
	.nargs = 15, .types = {INT8OID, TEXTOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID,
	INT8OID, INT8OID, INT8OID, INT8OID}
};

static statement note_in_run = {
	.sql = "UPDATE dataverse_private.run_log AS r SET sqlstate = '01000', error = $2 WHERE r.id = $1 AND r.status = 'running'",
	.nargs = 2, .types = {INT8OID, TEXTOID}
};

static statement end_run = {
	.sql = "WITH n AS ("
	"UPDATE dataverse_private.run_log AS r SET status = CASE WHEN $2 IS NULL THEN 'succeeded' ELSE 'failed' END,"
	"  ended_at = clock_timestamp(), sqlstate = coalesce($2, r.sqlstate), error = coalesce($3, r.error),"
	"  requests = $4, throttles = $5, time_waited = make_interval(secs => $6 / 1e6)"
	" WHERE r.id = $1 AND r.status = 'running'"
	" RETURNING r.*), c AS ("
	"UPDATE dataverse_private.copies AS c SET succeeded_at = n.ended_at FROM n WHERE c.id = n.copy AND n.status = 'succeeded')"
	" SELECT n.rows_read, n.rows_compared, n.inserted, n.updated, n.unchanged, n.deleted, n.sent, n.missing, n.rejected,"
	"  n.conflicts, n.requests, n.throttles, date_trunc('milliseconds', n.ended_at - n.started_at)::text"
	" FROM n",
	.nargs = 6, .types = {INT8OID, TEXTOID, TEXTOID, INT8OID, INT8OID, INT8OID}
};

static statement find_rejects = {
	.sql = "SELECT count(*), array_agg(r.id ORDER BY r.id), array_agg(r.row_id ORDER BY r.id)"
	" FROM dataverse_private.rejected_rows AS r"
	" WHERE r.role_oid = $1 AND r.pid = pg_backend_pid() AND r.at >= $2 AND r.operation <> 'pull'",
	.nargs = 2, .types = {OIDOID, TIMESTAMPTZOID}
};

static statement number_rejects = {
	.sql = "UPDATE dataverse_private.rejected_rows AS r SET row_number = coalesce(u.n, r.row_number + $3)"
	" FROM unnest($1, $2) AS u (id, n) WHERE r.id = u.id",
	.nargs = 3, .types = {INT8ARRAYOID, INT8ARRAYOID, INT8OID}
};

static statement find_waiting = {
	.sql = "SELECT count(*), array_agg(DISTINCT c.foreign_oid)"
	" FROM dataverse_private.copies AS c JOIN dataverse_private.copy_refused AS r ON r.copy = c.id AND r.dangling"
	"  JOIN pg_class AS f ON f.oid = c.foreign_oid"
	" WHERE c.refused > 0 AND c.foreign_oid = ANY ($2) AND c.target = format('%I.%I', $3, f.relname)"
	"  AND pg_has_role($1, dataverse_private.copy_owner(c), 'USAGE')",
	.nargs = 3, .types = {OIDOID, OIDARRAYOID, TEXTOID}
};

static statement check_copy = {
	.sql = "SELECT dataverse_private.copy_check($1, $2)",
	.nargs = 2, .types = {INT8OID, OIDOID}
};

typedef struct row
{
	Datum		values[MOST_VALUES];
	bool		nulls[MOST_VALUES];
} row;

/*
 * While a superuser, or autovacuum, maintains another role's table, code of that table's owner
 * runs.  It must not reach these tables.  Nor do functions of state call each other: the
 * owner, who is then the caller, may use all copies.  A role that has been dropped meanwhile
 * has no copies.
 */
static dv_caller
begin(void)
{
	if (InSecurityRestrictedOperation() || dv_owner_is_acting())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot use copies of dataverse_fdw within security-restricted operation"),
				 errdetail("The code of an index or of a materialized view, for example, runs with restricted rights.")));
	(void) GetUserNameFromId(GetUserId(), false);
	return dv_owner_begin(get_relname_relid("push_states", get_namespace_oid("dataverse_private", false)), false);
}

static void
execute_plan(statement *s, Datum *args, const char *nulls)
{
	if (s->plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(s->sql, s->nargs, s->types);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare a statement: %s", s->sql);
		s->plan = plan;
	}
	if (SPI_execute_plan(s->plan, args, nulls, false, 0) < 0)
		elog(ERROR, "could not execute a statement: %s", s->sql);
}

/* Copies the row that a statement has returned, if any, to the memory context of the caller. */
static bool
take_row(row *result)
{
	int			i;

	if (SPI_tuptable == NULL || SPI_processed == 0)
		return false;
	for (i = 0; i < SPI_tuptable->tupdesc->natts; i++)
	{
		Form_pg_attribute a = TupleDescAttr(SPI_tuptable->tupdesc, i);
		Datum		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i + 1,
										  &result->nulls[i]);

		result->values[i] = result->nulls[i] ? (Datum) 0 :
			SPI_datumTransfer(value, a->attbyval, a->attlen);
	}
	return true;
}

/*
 * Executes a statement.  "nulls" is NULL if no argument is null.  Returns false if the statement
 * returns no row.
 */
static bool
execute_now(statement *s, Datum *args, const char *nulls, row *result)
{
	bool		found;

	SPI_connect();
	execute_plan(s, args, nulls);
	found = take_row(result);
	SPI_finish();
	return found;
}

/* The same as the owner. */
static bool
execute(statement *s, Datum *args, const char *nulls, row *result)
{
	dv_caller	caller = begin();
	bool		found = execute_now(s, args, nulls, result);

	dv_owner_end(&caller);
	return found;
}

static Datum
current_role_name(void)
{
	return CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
}

/*
 * Pushes
 */

int64
dv_state_push_open(Oid foreign_table, const char *query, const char *operation, ArrayType *key)
{
	Datum		me = ObjectIdGetDatum(GetUserId());
	Datum		name = current_role_name();
	Datum		table = ObjectIdGetDatum(foreign_table);
	Datum		to_find[] = {me, table, CStringGetTextDatum(operation), PointerGetDatum(key),
	CStringGetTextDatum(query)};
	Datum		to_insert[] = {name, table, to_find[2], to_find[3], to_find[4]};
	row			found;
	row			none;

	execute(&rename_role, ARGS(me, name), NULL, &none);
	execute(&rename_table, &me, NULL, &none);
	while (!execute(&find_push, to_find, NULL, &found))
	{
		execute(&delete_namesakes, ARGS(me, name), NULL, &none);
		if (execute(&insert_push, to_insert, NULL, &found))
			break;
	}
	execute(&adopt_table, ARGS(found.values[0], table), NULL, &none);
	return DatumGetInt64(found.values[0]);
}

/* Returns the role that this one is by now: entries of a dropped role belong to superusers. */
static Oid
role_or_superuser(Oid role)
{
	return SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)) ? role : BOOTSTRAP_SUPERUSERID;
}

static char *
text_or_null(const row *r, int i)
{
	return r->nulls[i] ? NULL : TextDatumGetCString(r->values[i]);
}

dv_push_state *
dv_state_push_get(int64 push)
{
	dv_push_state *state;
	row			r;

	if (!execute(&get_push, ARGS(Int64GetDatum(push)), NULL, &r))
		return NULL;
	state = palloc0(sizeof(*state));
	state->id = push;
	state->role = role_or_superuser(r.nulls[1] ? InvalidOid : DatumGetObjectId(r.values[1]));
	if (!has_privs_of_role(GetUserId(), state->role))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for push %lld", (long long) push)));
	state->foreign_table = text_or_null(&r, 2);
	state->opened_at = DatumGetTimestampTz(r.values[3]);
	state->staging = text_or_null(&r, 4);
	state->staged_as = DatumGetObjectId(r.values[5]);
	state->staged_at = r.nulls[6] ? 0 : DatumGetTimestampTz(r.values[6]);
	state->source = text_or_null(&r, 7);
	state->version_before = r.nulls[8] ? -1 : DatumGetInt64(r.values[8]);
	state->rows = r.nulls[9] ? 0 : DatumGetInt64(r.values[9]);
	state->done = DatumGetInt64(r.values[10]);
	state->marked = DatumGetInt64(r.values[11]);
	state->sent = DatumGetInt64(r.values[12]);
	state->rejected = DatumGetInt64(r.values[13]);
	return state;
}

void
dv_state_push_forgotten(int64 push)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("push %lld has been forgotten", (long long) push)));
}

void
dv_state_push_put(const dv_push_state *state)
{
	Datum		args[] = {
		Int64GetDatum(state->id), CStringGetTextDatum(state->staging),
		ObjectIdGetDatum(state->staged_as), TimestampTzGetDatum(state->staged_at),
		CStringGetTextDatum(state->source), Int64GetDatum(state->version_before),
		Int64GetDatum(state->rows), Int64GetDatum(state->done), Int64GetDatum(state->marked),
		Int64GetDatum(state->sent), Int64GetDatum(state->rejected)
	};
	row			r;

	if (!execute(&put_push, args, NULL, &r))
		dv_state_push_forgotten(state->id);
}

void
dv_state_push_close(const dv_push_state *state)
{
	row			r;

	execute(&delete_push, ARGS(Int64GetDatum(state->id)), NULL, &r);
}

/*
 * In a restored database, the table is found by its name; otherwise, the table or its schema may
 * have been renamed.
 */
static Oid
find_staging(const dv_push_state *state)
{
	RangeVar   *name = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(state->staging)));
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) ? relid : state->staged_as;
}

/* No other role than its owner could give such a table code that would run. */
static bool
is_staging(Oid relid, const dv_push_state *state)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class class;
	bool		is;

	if (!HeapTupleIsValid(tuple))
		return false;
	class = (Form_pg_class) GETSTRUCT(tuple);
	is = class->relkind == RELKIND_RELATION && class->relowner == state->role &&
		strncmp(NameStr(class->relname), "dataverse_push_", strlen("dataverse_push_")) == 0;
	ReleaseSysCache(tuple);
	return is;
}

Oid
dv_state_push_staging(const dv_push_state *state)
{
	Oid			relid;

	if (state->staging == NULL)
		return InvalidOid;
	relid = find_staging(state);
	if (!is_staging(relid, state))
		return InvalidOid;
	LockRelationOid(relid, RowShareLock);
	return find_staging(state) == relid && is_staging(relid, state) ? relid : InvalidOid;
}

/*
 * Runs
 */

/* "what" is the number of a push or a copy.  Returns 0 if it is gone. */
static int64
insert_run_with(statement *insert, int64 what, const char *phase, const char *operation)
{
	Datum		args[] = {
		Int64GetDatum(what), current_role_name(), phase != NULL ? CStringGetTextDatum(phase) : (Datum) 0,
		operation != NULL ? CStringGetTextDatum(operation) : (Datum) 0
	};
	row			r;

	if (!execute(insert, args, phase != NULL ? NULL : "  n ", &r))
		return 0;
	(void) dv_run_effort(true);
	return DatumGetInt64(r.values[0]);
}

int64
dv_state_run_begin(const dv_push_state *push, const char *phase)
{
	Datum		me = ObjectIdGetDatum(GetUserId());
	int64		run;
	row			r;

	if (phase != NULL)
	{
		execute(&delete_old_runs, &me, NULL, &r);
		execute(&interrupt_runs, ARGS(Int64GetDatum(push->id), me), NULL, &r);
	}
	run = insert_run_with(&insert_run, push->id, phase, NULL);
	if (run == 0 && phase != NULL)
		dv_state_push_forgotten(push->id);
	return run;
}

int64
dv_state_run_begin_copy(int64 copy, const char *operation, const char *phase)
{
	Datum		id = Int64GetDatum(copy);
	row			r;

	if (phase != NULL)
	{
		execute(&delete_old_runs_of_copy, &id, NULL, &r);
		execute(&interrupt_runs_of_copy, &id, NULL, &r);
	}
	return insert_run_with(&insert_run_of_copy, copy, phase, operation);
}

void
dv_state_run_add(int64 run, const char *phase, const dv_run_counts *counts)
{
	dv_call_totals effort = dv_run_effort(false);
	Datum		args[] = {
		Int64GetDatum(run), CStringGetTextDatum(phase),
		Int64GetDatum(effort.requests), Int64GetDatum(effort.throttles), Int64GetDatum(effort.waited),
		Int64GetDatum(counts->rows_read), Int64GetDatum(counts->rows_compared),
		Int64GetDatum(counts->inserted), Int64GetDatum(counts->updated),
		Int64GetDatum(counts->unchanged), Int64GetDatum(counts->deleted), Int64GetDatum(counts->sent),
		Int64GetDatum(counts->missing), Int64GetDatum(counts->rejected), Int64GetDatum(counts->conflicts)
	};
	row			r;

	execute(&add_to_run, args, NULL, &r);
}

void
dv_state_run_note(int64 run, const char *remark)
{
	row			r;

	if (remark != NULL)
		execute(&note_in_run, ARGS(Int64GetDatum(run), CStringGetTextDatum(remark)), NULL, &r);
}

dv_run_result *
dv_state_run_end(int64 run, int sqlstate, const char *message)
{
	dv_run_result *result = palloc0(sizeof(*result));
	dv_run_counts *counts = &result->counts;
	dv_call_totals effort = dv_run_effort(false);
	Datum		args[] = {
		Int64GetDatum(run),
		message != NULL ? CStringGetTextDatum(unpack_sql_state(sqlstate)) : (Datum) 0,
		message != NULL ? CStringGetTextDatum(message) : (Datum) 0,
		Int64GetDatum(effort.requests), Int64GetDatum(effort.throttles), Int64GetDatum(effort.waited)
	};
	int64	   *numbers[] = {
		&counts->rows_read, &counts->rows_compared, &counts->inserted, &counts->updated, &counts->unchanged,
		&counts->deleted, &counts->sent, &counts->missing, &counts->rejected, &counts->conflicts,
		&result->requests, &result->throttles
	};
	row			r;
	int			i;

	if (!execute(&end_run, args, message != NULL ? NULL : " nn   ", &r))
	{
		if (message == NULL)
			elog(ERROR, "run %lld has been forgotten", (long long) run);
		return NULL;
	}
	for (i = 0; i < (int) lengthof(numbers); i++)
		*numbers[i] = DatumGetInt64(r.values[i]);
	result->took = TextDatumGetCString(r.values[lengthof(numbers)]);
	return result;
}

/*
 * Rejected rows
 */

static ArrayType *
array_of_oids(const Oid *oids, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * (n + 1));
	int			i;

	for (i = 0; i < n; i++)
		values[i] = ObjectIdGetDatum(oids[i]);
	return construct_array(values, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT);
}

int64
dv_state_copies_waiting(const char *schema, Oid *foreign_tables, int *n)
{
	Datum		args[] = {
		ObjectIdGetDatum(GetUserId()), PointerGetDatum(array_of_oids(foreign_tables, *n)), CStringGetTextDatum(schema)
	};
	Datum	   *found;
	row			r;
	int			i;

	execute(&find_waiting, args, NULL, &r);
	*n = 0;
	if (r.nulls[1])
		return 0;
	deconstruct_array(DatumGetArrayTypeP(r.values[1]), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &found, NULL, n);
	for (i = 0; i < *n; i++)
		foreign_tables[i] = DatumGetObjectId(found[i]);
	return DatumGetInt64(r.values[0]);
}

dv_state_rejects
dv_state_rejects_since(TimestampTz time)
{
	dv_state_rejects rejects = {0};
	row			r;

	execute(&find_rejects, ARGS(ObjectIdGetDatum(GetUserId()), TimestampTzGetDatum(time)), NULL, &r);
	rejects.n = DatumGetInt64(r.values[0]);
	if (rejects.n > 0)
	{
		rejects.entries = DatumGetArrayTypeP(r.values[1]);
		rejects.ids = DatumGetArrayTypeP(r.values[2]);
	}
	return rejects;
}

void
dv_state_rejects_number(const dv_state_rejects *rejects, ArrayType *numbers, int64 before)
{
	Datum		args[] = {
		PointerGetDatum(rejects->entries), PointerGetDatum(numbers), Int64GetDatum(before)
	};
	row			r;

	execute(&number_rejects, args, numbers != NULL ? NULL : " n ", &r);
}

/*
 * Functions in SQL
 */

/*
 * Checks the copy that the first argument identifies, and sets the last one to the caller, if the
 * parameters are named so.
 */
static void
check_call(FunctionCallInfo fcinfo, Oid caller)
{
	HeapTuple	function = SearchSysCache1(PROCOID, ObjectIdGetDatum(fcinfo->flinfo->fn_oid));
	int			last = fcinfo->nargs - 1;
	bool		has_copy = false;
	bool		gets_caller = false;
	Oid		   *types;
	char	  **names;
	char	   *modes;
	row			none;

	if (!HeapTupleIsValid(function))
		elog(ERROR, "cache lookup failed for function %u", fcinfo->flinfo->fn_oid);
	(void) get_func_arg_info(function, &types, &names, &modes);
	ReleaseSysCache(function);
	if (last >= 0 && names != NULL)
	{
		has_copy = strcmp(names[0], "copy") == 0 && types[0] == INT8OID;
		gets_caller = strcmp(names[last], "caller") == 0 && types[last] == OIDOID;
	}
	if (!has_copy && !gets_caller)
		elog(ERROR, "function %u knows neither a copy nor its caller", fcinfo->flinfo->fn_oid);
	if (has_copy)
		execute_now(&check_copy, ARGS(PG_GETARG_DATUM(0), ObjectIdGetDatum(caller)),
					PG_ARGISNULL(0) ? "n " : NULL, &none);
	if (gets_caller)
	{
		fcinfo->args[last].value = ObjectIdGetDatum(caller);
		fcinfo->args[last].isnull = false;
	}
}

/* The handler of the language dataverse_state. */
Datum
dataverse_state_handler(PG_FUNCTION_ARGS)
{
	static PGFunction plpgsql = NULL;
	dv_caller	caller;
	Datum		result;

	if (plpgsql == NULL)
		plpgsql = load_external_function("$libdir/plpgsql", "plpgsql_call_handler", true, NULL);
	caller = begin();
	check_call(fcinfo, caller.role);
	result = plpgsql(fcinfo);
	dv_owner_end(&caller);
	return result;
}

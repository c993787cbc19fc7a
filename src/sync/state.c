/*
 * state.c
 *		The tables in which runs keep their state and their results.
 *
 * Only the owner of the extension may write them.  So the statements of this file, which
 * are fixed, run as that owner (statement.c).  All names and values of callers are
 * parameters.  Whoever calls a function of this file has the rights of the caller of the
 * run again when it returns or raises an error.
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
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "fdw/relation.h"
#include "sync/run.h"
#include "sync/state.h"
#include "sync/statement.h"

#define ARGS(...) ((Datum[]) {__VA_ARGS__})

/* roles and tables can be renamed, and a dump has names that others may have taken */
static dv_statement rename_role = {
	.sql = "UPDATE dataverse_private.push_states AS p SET role = r.rolname"
	" FROM pg_roles AS r WHERE r.oid = p.role_oid AND r.rolname <> p.role AND (p.role_oid = $1 OR p.role = $2)",
	.nargs = 2, .types = {OIDOID, TEXTOID}
};

/* entries of other roles are skipped, because they may be locked for any time */
static dv_statement rename_table = {
	.sql = "UPDATE dataverse_private.push_states AS p SET foreign_table = p.foreign_oid::regclass::text"
	" FROM pg_class AS c WHERE c.oid = p.foreign_oid AND p.role_oid = $1 AND p.foreign_table <> p.foreign_oid::regclass::text",
	.nargs = 1, .types = {OIDOID}
};

/* a recreated table replaces one that is gone, but not one that has another name now */
static dv_statement find_push = {
	.sql = "SELECT p.id FROM dataverse_private.push_states AS p"
	" WHERE p.role_oid = $1"
	"  AND (p.foreign_oid = $2"
	"   OR p.foreign_table = $2::regclass::text AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = p.foreign_oid))"
	"  AND p.operation = $3 AND p.key = $4 AND p.query = $5"
	" ORDER BY p.foreign_oid = $2 DESC NULLS LAST LIMIT 1",
	.nargs = 5, .types = {OIDOID, OIDOID, TEXTOID, TEXTARRAYOID, TEXTOID}
};

/* those of a dropped role that had the same name */
static dv_statement delete_namesakes = {
	.sql = "DELETE FROM dataverse_private.push_states AS p WHERE p.role = $2 AND p.role_oid <> $1",
	.nargs = 2, .types = {OIDOID, TEXTOID}
};

static dv_statement insert_push = {
	.sql = "INSERT INTO dataverse_private.push_states (role, foreign_table, operation, key, query)"
	" VALUES ($1, $2::regclass::text, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING id",
	.nargs = 5, .types = {TEXTOID, OIDOID, TEXTOID, TEXTARRAYOID, TEXTOID}
};

static dv_statement adopt_table = {
	.sql = "UPDATE dataverse_private.push_states AS p SET foreign_table = $2::regclass::text WHERE p.id = $1 AND p.foreign_oid IS DISTINCT FROM $2",
	.nargs = 2, .types = {INT8OID, OIDOID}
};

static dv_statement get_push = {
	.sql = "SELECT p.id, p.role_oid, p.foreign_table, p.opened_at, p.staging, p.staged_as, p.staged_at, p.source, p.version_before,"
	"  p.rows, p.done, p.marked, p.sent, p.rejected"
	" FROM dataverse_private.push_states AS p WHERE p.id = $1",
	.nargs = 1, .types = {INT8OID}
};

static dv_statement put_push = {
	.sql = "UPDATE dataverse_private.push_states AS p SET staging = $2, staged_as = $3, staged_at = $4, source = $5,"
	"  version_before = nullif($6, -1), rows = $7, done = $8, marked = $9, sent = $10, rejected = $11"
	" WHERE p.id = $1"
	" RETURNING p.id",
	.nargs = 11, .types = {INT8OID, TEXTOID, OIDOID, TIMESTAMPTZOID, TEXTOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID}
};

static dv_statement delete_push = {
	.sql = "DELETE FROM dataverse_private.push_states AS p WHERE p.id = $1",
	.nargs = 1, .types = {INT8OID}
};

static dv_statement delete_old_runs = {
	.sql = "DELETE FROM dataverse_private.run_log AS r"
	" WHERE r.push IS NOT NULL AND r.role_oid = $1 AND r.started_at < clock_timestamp() - interval '30 days'",
	.nargs = 1, .types = {OIDOID}
};

static dv_statement delete_old_runs_of_copy = {
	.sql = "DELETE FROM dataverse_private.run_log AS r WHERE r.copy = $1 AND r.started_at < clock_timestamp() - interval '30 days'",
	.nargs = 1, .types = {INT8OID}
};

#define INTERRUPT_RUNS "UPDATE dataverse_private.run_log AS r" \
	" SET status = 'interrupted', ended_at = clock_timestamp(), error = 'the session that ran it has ended'"

static dv_statement interrupt_runs = {
	.sql = INTERRUPT_RUNS " WHERE r.push = $1 AND r.role_oid = $2 AND r.status = 'running'",
	.nargs = 2, .types = {INT8OID, OIDOID}
};

static dv_statement interrupt_runs_of_copy = {
	.sql = INTERRUPT_RUNS " WHERE r.copy = $1 AND r.status = 'running'",
	.nargs = 1, .types = {INT8OID}
};

#define STATUS_AND_END "CASE WHEN $3 IS NULL THEN 'skipped' ELSE 'running' END, CASE WHEN $3 IS NULL THEN clock_timestamp() END, $3"

static dv_statement insert_run = {
	.sql = "INSERT INTO dataverse_private.run_log (push, foreign_table, query, operation, role, status, ended_at, phase)"
	" SELECT p.id, p.foreign_table, p.query, 'push', $2, " STATUS_AND_END
	" FROM dataverse_private.push_states AS p WHERE p.id = $1"
	" RETURNING id",
	.nargs = 3, .types = {INT8OID, TEXTOID, TEXTOID}
};

static dv_statement insert_run_of_copy = {
	.sql = "INSERT INTO dataverse_private.run_log (copy, operation, role, status, ended_at, phase)"
	" SELECT c.id, $4, $2, " STATUS_AND_END " FROM dataverse_private.copies AS c WHERE c.id = $1"
	" RETURNING id",
	.nargs = 4, .types = {INT8OID, TEXTOID, TEXTOID, TEXTOID}
};

static dv_statement add_to_run = {
	.sql = "UPDATE dataverse_private.run_log AS r"
	" SET phase = $2, requests = $3, throttles = $4, time_waited = make_interval(secs => $5 / 1e6),"
	"  rows_read = r.rows_read + $6, rows_compared = r.rows_compared + $7, inserted = r.inserted + $8,"
	"  updated = r.updated + $9, unchanged = r.unchanged + $10, deleted = r.deleted + $11, sent = r.sent + $12,"
	"  missing = r.missing + $13, rejected = r.rejected + $14, conflicts = r.conflicts + $15"
	" WHERE r.id = $1 AND r.status = 'running'",
	.nargs = 15, .types = {INT8OID, TEXTOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID,
	INT8OID, INT8OID, INT8OID, INT8OID}
};

static dv_statement note_in_run = {
	.sql = "UPDATE dataverse_private.run_log AS r SET sqlstate = '01000', error = $2 WHERE r.id = $1 AND r.status = 'running'",
	.nargs = 2, .types = {INT8OID, TEXTOID}
};

static dv_statement end_run = {
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

static dv_statement find_rejects = {
	.sql = "SELECT count(*), array_agg(r.id ORDER BY r.id), array_agg(r.row_id ORDER BY r.id)"
	" FROM dataverse_private.rejected_rows AS r"
	" WHERE r.role_oid = $1 AND r.pid = pg_backend_pid() AND r.at >= $2 AND r.operation <> 'pull'",
	.nargs = 2, .types = {OIDOID, TIMESTAMPTZOID}
};

static dv_statement number_rejects = {
	.sql = "UPDATE dataverse_private.rejected_rows AS r SET row_number = coalesce(u.n, r.row_number + $3)"
	" FROM unnest($1, $2) AS u (id, n) WHERE r.id = u.id",
	.nargs = 3, .types = {INT8ARRAYOID, INT8ARRAYOID, INT8OID}
};

static dv_statement find_waiting = {
	.sql = "SELECT count(*), array_agg(DISTINCT c.foreign_oid)"
	" FROM dataverse_private.copies AS c JOIN dataverse_private.copy_refused AS r ON r.copy = c.id AND r.dangling"
	"  JOIN pg_class AS f ON f.oid = c.foreign_oid"
	" WHERE c.refused > 0 AND c.foreign_oid = ANY ($2) AND c.target = format('%I.%I', $3, f.relname)"
	"  AND pg_has_role($1, dataverse_private.copy_owner(c), 'USAGE')",
	.nargs = 3, .types = {OIDOID, OIDARRAYOID, TEXTOID}
};

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
	dv_row		found;
	dv_row		none;

	dv_statement_execute(&rename_role, ARGS(me, name), NULL, &none);
	dv_statement_execute(&rename_table, &me, NULL, &none);
	while (!dv_statement_execute(&find_push, to_find, NULL, &found))
	{
		dv_statement_execute(&delete_namesakes, ARGS(me, name), NULL, &none);
		if (dv_statement_execute(&insert_push, to_insert, NULL, &found))
			break;
	}
	dv_statement_execute(&adopt_table, ARGS(found.values[0], table), NULL, &none);
	return DatumGetInt64(found.values[0]);
}

Oid
dv_state_role_or_superuser(Oid role)
{
	return SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)) ? role : BOOTSTRAP_SUPERUSERID;
}

static char *
text_or_null(const dv_row *r, int i)
{
	return r->nulls[i] ? NULL : TextDatumGetCString(r->values[i]);
}

dv_push_state *
dv_state_push_get(int64 push)
{
	dv_push_state *state;
	dv_row		r;

	if (!dv_statement_execute(&get_push, ARGS(Int64GetDatum(push)), NULL, &r))
		return NULL;
	state = palloc0(sizeof(*state));
	state->id = push;
	state->role = dv_state_role_or_superuser(r.nulls[1] ? InvalidOid : DatumGetObjectId(r.values[1]));
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
	dv_row		r;

	if (!dv_statement_execute(&put_push, args, NULL, &r))
		dv_state_push_forgotten(state->id);
}

void
dv_state_push_close(const dv_push_state *state)
{
	dv_row		r;

	dv_statement_execute(&delete_push, ARGS(Int64GetDatum(state->id)), NULL, &r);
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
insert_run_with(dv_statement *insert, int64 what, const char *phase, const char *operation)
{
	Datum		args[] = {
		Int64GetDatum(what), current_role_name(), phase != NULL ? CStringGetTextDatum(phase) : (Datum) 0,
		operation != NULL ? CStringGetTextDatum(operation) : (Datum) 0
	};
	dv_row		r;

	if (!dv_statement_execute(insert, args, phase != NULL ? NULL : "  n ", &r))
		return 0;
	(void) dv_run_effort(true);
	return DatumGetInt64(r.values[0]);
}

int64
dv_state_run_begin(const dv_push_state *push, const char *phase)
{
	Datum		me = ObjectIdGetDatum(GetUserId());
	int64		run;
	dv_row		r;

	if (phase != NULL)
	{
		dv_statement_execute(&delete_old_runs, &me, NULL, &r);
		dv_statement_execute(&interrupt_runs, ARGS(Int64GetDatum(push->id), me), NULL, &r);
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
	dv_row		r;

	if (phase != NULL)
	{
		dv_statement_execute(&delete_old_runs_of_copy, &id, NULL, &r);
		dv_statement_execute(&interrupt_runs_of_copy, &id, NULL, &r);
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
	dv_row		r;

	dv_statement_execute(&add_to_run, args, NULL, &r);
}

void
dv_state_run_note(int64 run, const char *remark)
{
	dv_row		r;

	if (remark != NULL)
		dv_statement_execute(&note_in_run, ARGS(Int64GetDatum(run), CStringGetTextDatum(remark)), NULL, &r);
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
	dv_row		r;
	int			i;

	if (!dv_statement_execute(&end_run, args, message != NULL ? NULL : " nn   ", &r))
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
	dv_row		r;
	int			i;

	dv_statement_execute(&find_waiting, args, NULL, &r);
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
	dv_row		r;

	dv_statement_execute(&find_rejects, ARGS(ObjectIdGetDatum(GetUserId()), TimestampTzGetDatum(time)), NULL, &r);
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
	dv_row		r;

	dv_statement_execute(&number_rejects, args, numbers != NULL ? NULL : " n ", &r);
}

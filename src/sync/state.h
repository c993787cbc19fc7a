/*
 * state.h
 *		The tables in which runs keep their state and their results.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_STATE_H
#define DV_STATE_H

#include "datatype/timestamp.h"
#include "utils/array.h"

/* An unfinished push: a row of dataverse_private.push_states. */
typedef struct dv_push_state
{
	int64		id;
	Oid			role;			/* that it belongs to */
	char	   *foreign_table;	/* with its schema */
	TimestampTz opened_at;

	/* set when the query has been run; until then, "staging" is NULL */
	char	   *staging;		/* the table with its rows */
	Oid			staged_as;
	TimestampTz staged_at;
	char	   *source;			/* the address that the rows are sent to */
	int64		version_before; /* the greatest one in Dataverse before; -1: not known */
	int64		rows;

	int64		done;			/* number of the last row of the chunks that are done */
	int64		marked;			/* and of the last row that may have been sent */
	int64		sent;
	int64		rejected;
} dv_push_state;

/* What a step adds to the record of its run. */
typedef struct dv_run_counts
{
	int64		rows_read;
	int64		rows_compared;
	int64		inserted;
	int64		updated;
	int64		unchanged;
	int64		deleted;
	int64		sent;
	int64		missing;
	int64		rejected;
	int64		conflicts;
} dv_run_counts;

/* The record of a run that has ended. */
typedef struct dv_run_result
{
	dv_run_counts counts;
	int64		requests;
	int64		throttles;
	char	   *took;
} dv_run_result;

/* Rows that this session has filed in dataverse.rejects. */
typedef struct dv_state_rejects
{
	int64		n;
	ArrayType  *entries;		/* bigint[], their numbers there; NULL if there are none */
	ArrayType  *ids;			/* uuid[], the ids of the rows */
} dv_state_rejects;

/* Returns the role that this one is by now: entries of a dropped role belong to superusers. */
extern Oid	dv_state_role_or_superuser(Oid role);

/*
 * Finds the current role's unfinished push of this query to this table, or begins one.  The
 * caller has checked that the role may write the table: it could only fill the table of state
 * otherwise.
 */
extern int64 dv_state_push_open(Oid foreign_table, const char *query, const char *operation,
								ArrayType *key);

/* Returns the state of a push, or NULL if it has ended.  Raises an error for other roles. */
extern dv_push_state *dv_state_push_get(int64 push);

/* Raises the error about a push that has ended while it was being run. */
extern void dv_state_push_forgotten(int64 push) __attribute__((noreturn));

/* Stores what has changed since dv_state_push_get(). */
extern void dv_state_push_put(const dv_push_state *state);
extern void dv_state_push_close(const dv_push_state *state);

/*
 * Returns the table with the rows of a push, locked so that it cannot change, or InvalidOid if
 * it is gone.
 */
extern Oid	dv_state_push_staging(const dv_push_state *state);

/*
 * Record a run of a push or a copy.  Without a phase, the run has been skipped, unless the push or
 * the copy is gone; then nothing is recorded.  The caller has checked that the copy is one of the
 * role's.
 */
extern int64 dv_state_run_begin(const dv_push_state *push, const char *phase);
extern int64 dv_state_run_begin_copy(int64 copy, const char *operation, const char *phase);

extern void dv_state_run_add(int64 run, const char *phase, const dv_run_counts *counts);

/* Records a remark, which a run keeps unless it fails; NULL: there is none. */
extern void dv_state_run_note(int64 run, const char *remark);

/*
 * Records the end of a run.  "message" is that of the error that has ended it, or NULL.  Returns
 * NULL if the run has failed and its record is gone, with that of its copy.
 */
extern dv_run_result *dv_state_run_end(int64 run, int sqlstate, const char *message);

/*
 * Finds the copies that refuse rows because others are missing: reduces a list of "n" foreign
 * tables to theirs.  The tables of the copies have the same names in "schema".  Returns the number
 * of these rows.
 */
extern int64 dv_state_copies_waiting(const char *schema, Oid *foreign_tables, int *n);

/* Returns the rows that were filed for the current role since then, in their order. */
extern dv_state_rejects dv_state_rejects_since(TimestampTz time);

/*
 * Rows are filed with their numbers in their statement.  Replaces these by the numbers given
 * (bigint[]), or else adds the number of rows before the statement.
 */
extern void dv_state_rejects_number(const dv_state_rejects *rejects, ArrayType *numbers,
									int64 before);

#endif							/* DV_STATE_H */

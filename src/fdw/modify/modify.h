/*
 * modify.h
 *		INSERT, UPDATE, DELETE, and COPY: declarations shared by modify*.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_MODIFY_H
#define DV_MODIFY_H

#include "executor/tuptable.h"
#include "foreign/fdwapi.h"

#include "client/writer.h"
#include "fdw/encode.h"
#include "fdw/modify/drain.h"
#include "fdw/modify/modify_plan.h"
#include "fdw/modify/seen.h"
#include "fdw/system_columns.h"

/* A column whose values are sent; attnum is 0 if no such column exists. */
typedef struct dv_modify_column
{
	AttrNumber	attnum;
	AttrNumber	type_attnum;	/* companion with the name of the table to which a lookup refers,
								 * or 0 */
	AttrNumber	old_type_attnum;	/* companion with the name of the table to which the old row's
									 * lookup refers, if needed to clear it, or 0 */
	bool		if_changed;		/* sent only if its value has changed */
	bool		refers_here;	/* may refer to rows of this table */
	dv_encoder *encoder;
} dv_modify_column;

/* One side of the pairs of rows in an intersect table. */
typedef struct dv_modify_side
{
	AttrNumber	attnum;			/* column of the foreign table */
	AttrNumber	junk;			/* for DELETE: junk attribute of the subplan */
	const char *set;
	const char *navigation;
} dv_modify_side;

/* How the rows of the service are identified (identity.c). */
typedef struct dv_modify_identity
{
	AttrNumber	id;				/* column of the primary id, or 0 */
	dv_modify_column partition;
	AttrNumber	id_junk;		/* junk attribute of the subplan */
	AttrNumber	partition_junk;
	AttrNumber	version;		/* column with the version that rows must still have, or 0 */
	AttrNumber	version_junk;
	bool		make_ids;
	bool		reserved;		/* the next id has been generated already */
	uint8		next_id[DV_ID_LEN];
	bool		ids_made;		/* the ids that the statement supplies were generated for its rows */
	bool		ids_supplied;	/* the statement supplies ids, at least for some rows */
	AttrNumber	existing_id;	/* column of ids that identify existing rows, or 0 */
	dv_modify_column *keys;		/* columns of option "upsert_key" */
	int			nkeys;
	dv_modify_side sides[2];	/* for intersect tables */
	dv_seen    *seen;			/* rows changed so far; NULL if the plan finds each row once */
} dv_modify_identity;

/* One row of the service. */
typedef struct dv_modify_row
{
	bool		has_id;
	bool		is_made;		/* the id was generated locally, so no other row can have it */
	uint8		id[DV_ID_LEN];
	const char *address;		/* in the form for bodies; NULL if the id identifies the row */
	const char *line;			/* in the form for request lines; NULL if it is the set with the
								 * id */
	dv_key_fit	fit;			/* where the address can be used, if it contains a key */
	const char *key_members;	/* for an alternate key that does not fit everywhere: the members
								 * that set its columns */
	const char *fold;			/* for an alternate key: the same for keys that the service may
								 * consider equal */
	const char *second;			/* for a new pair: the id on the other side */
	Datum		partition;
	bool		no_partition;
	int64		version;		/* as read, if the row must still have it */
} dv_modify_row;

/* When to send a column that the service may not accept while it creates the row. */
typedef enum dv_follows
{
	DV_FOLLOWS_STATE,			/* the state: in an update that follows, if it is not the active
								 * one */
	DV_FOLLOWS_STATUS,			/* the status: together with the state */
	DV_FOLLOWS_IMAGE			/* an image that is not the primary one: always in that update */
} dv_follows;

/* Such a column. */
typedef struct dv_modify_follower
{
	dv_modify_column column;
	dv_follows	follows;
} dv_modify_follower;

/* The values that are sent (row.c). */
typedef struct dv_modify_values
{
	dv_modify_column *columns;
	int			ncolumns;
	bool		ordered;		/* rows may refer to earlier rows of the statement */
	dv_modify_follower *followers;	/* of new rows; the state is the first of them if it is set */
	int			nfollowers;
	List	   *unwritable;		/* IntList: columns that must be null, or unchanged */
	bool		compares;		/* UPDATE with triggers: rows are compared with their old values */
	bool		needs_old;		/* the old values of rows are needed, for this or other purposes */
} dv_modify_values;

/* The contents of returned rows (returning.c). */
typedef struct dv_modify_return
{
	bool		new_id;			/* the id of a new row */
	List	   *read;			/* IntList: columns whose values only the service knows */
	List	   *sent;			/* IntList: columns whose values are known unless they are null */
	List	   *altered;		/* IntList: columns that the service may not store as they are */
	struct dv_scan *by_ids;		/* reads rows back; NULL until it is needed */
	struct dv_scan *by_conditions;	/* the same for rows that a list of ids cannot identify */
	AttrNumber	whole_junk;		/* for DELETE: junk attribute with the whole row, or 0 */
	bool		system_known;
	dv_system_columns system;	/* that RETURNING uses, once that is known */
} dv_modify_return;

/* WITH CHECK OPTION of views, and policies (check.c). */
typedef struct dv_modify_checks
{
	bool		any;
	WCOKind		policies;		/* that apply to the rows */
	List	   *not_null;		/* IntList: columns whose values are known unless they are null */
	List	   *altered;		/* IntList: columns that the service may not store as they are */
	bool		uses_id;		/* of a new row */
	List	   *options;		/* taken from the executor */
	TupleTableSlot *slot;		/* for a row as it will be stored */
} dv_modify_checks;

/* The outcome of a row, noted by the writer's callback. */
typedef struct dv_modify_outcome
{
	bool		settled;
	bool		written;
	bool		has_id;
	uint8		id[DV_ID_LEN];
	int		   *counter;		/* of rows that are settled; or NULL */
} dv_modify_outcome;

/* A row that has been written, and the values read back (read_back.c). */
typedef struct dv_modify_written
{
	dv_modify_row row;
	HeapTuple	tuple;			/* as the statement has written it; NULL: all columns are null */
	bool		complete;		/* nothing is to be read */
	HeapTuple	read;			/* with the columns that only the service knows; NULL if none of
								 * them was needed, or if the row no longer exists */
	const char *name;			/* private */
} dv_modify_written;

/* The number of rows that are worth a request. */
#define DV_READ_BACK_ROWS 500

typedef struct dv_pending dv_pending;
typedef struct dv_pending_row dv_pending_row;

/* Rows that are returned once they are settled (pending.c). */
typedef struct dv_modify_pending
{
	dv_pending *of;				/* the statement's node; NULL: rows are not kept */
	Bitmapset  *columns;		/* that are used when rows are returned */
	ProjectionInfo *projection; /* RETURNING; NULL until a row is kept */
	TupleTableSlot *slot;
	TupleTableSlot *old_slot;
	TupleTableSlot *plan_slot;	/* of the subplan; NULL if RETURNING does not refer to it */
	bool		uses_old;		/* RETURNING refers to the row before the UPDATE */
} dv_modify_pending;

/* The reason why a row cannot be sent. */
typedef struct dv_modify_fault
{
	AttrNumber	attnum;			/* of the column at fault */
	dv_misfit	misfit;
} dv_modify_fault;

/* The handling of refused rows (refused.c). */
typedef struct dv_modify_refusal
{
	bool		go_on;			/* refused rows are filed and the statement continues */
	bool		routed;			/* the table is a partition that gets only some of the rows */
	int64		most;			/* maximum number of refused rows; -1: no limit */
	int64		rows;
	int64		unfinished;		/* of these: created, but the update that follows was refused */
	int64		doubtful;		/* of these: not refused, but it is not known who wrote the row */
	List	   *first;			/* texts about the first of them */
	Oid			roleid;			/* for whom rows are filed: the role that began the statement */
	Bitmapset  *hidden;			/* columns whose values that role must not learn */
	List	   *held;			/* List of dv_reject: refused, but not filed yet */
	const dv_modify_fault *fault;	/* of the row that is being refused before it is sent, or NULL */
	TupleTableSlot *slot;		/* that row, */
	Datum		row;			/* and as JSON, if it is to be filed */
} dv_modify_refusal;

/* State of the modification of one table. */
typedef struct dv_modify
{
	EState	   *estate;
	ResultRelInfo *rinfo;
	MemoryContext context;		/* holds all of this */
	MemoryContext row_context;	/* reset for each row */
	const dv_relation *relation;
	dv_options	options;		/* settings, then options of the table and of the server */
	Oid			userid;
	TupleDesc	desc;
	CmdType		command;
	dv_operation operation;
	const char *what;			/* "insert into foreign table \"account\"" */
	double		expected;		/* the plan's estimate of rows; negative if there is none */
	bool		ignore;			/* rows that already exist are skipped */
	bool		one_by_one;		/* each row is settled before it is returned */
	dv_modify_outcome outcome;	/* then: of the current one */
	dv_session *session;		/* NULL until the first row */
	dv_writer  *writer;
	int64		started;

	dv_modify_identity identity;
	dv_modify_values values;
	dv_modify_return returned;
	dv_modify_checks checks;
	dv_modify_pending pending;
	dv_modify_refusal refusal;
	dv_modify_drain drain;
} dv_modify;

/* modify.c */
extern void dataverseBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
										List *private, int subplan_index, int eflags);
extern void dataverseBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rinfo);

/* Serves INSERT, UPDATE, and DELETE, whichever of the two functions above began it. */
extern TupleTableSlot *dataverseExecForeignModify(EState *estate, ResultRelInfo *rinfo,
												  TupleTableSlot *slot, TupleTableSlot *planSlot);
extern void dataverseEndForeignModify(EState *estate, ResultRelInfo *rinfo);

/* identity.c */
/* Generates and returns the id of the next new row that has none. */
extern const uint8 *dv_identity_reserve(dv_modify *m);

extern void dv_identity_prepare(dv_modify *m, const dv_modify_plan *plan, List *targetlist);

/*
 * Identifies the row of the service.  Returns false, with "fault" filled in,
 * if the row does not identify one or cannot be sent.
 */
extern bool dv_identity_find(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot,
							 dv_modify_row *row, dv_modify_fault *fault);

/*
 * Returns true if the statement has changed this row before.  Then it does not
 * change it again, as PostgreSQL does with its own tables.
 */
extern bool dv_identity_is_repeated(dv_modify *m, const dv_modify_row *row);

/*
 * Returns a value that is equal for rows that are, or may be, the same for the
 * service, and never 0, which means that the row is not known yet.
 */
extern uint64 dv_identity_key(const dv_modify *m, const dv_modify_row *row);
extern uint64 dv_identity_key_of_id(const uint8 *id);

/* row.c */
extern void dv_row_prepare(dv_modify *m, const dv_modify_plan *plan);

/* Returns true if the service makes a value of its own when the statement's value is null. */
extern bool dv_row_leaves_out_null(const dv_modify *m, const dv_modify_plan *plan,
								   AttrNumber attnum);

/*
 * Writes a row.  Returns false if the row was refused before it was sent (and
 * counted), or was changed before by the same statement.  "row" is filled in
 * as far as it is known.
 */
extern bool dv_row_write(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot,
						 dv_modify_row *row);

/* stored.c */

/* Returns how the columns of rows are read back; NULL if the writer need not know. */
extern const dv_stored_column *dv_stored_columns(const dv_modify *m, int *n);

/* returning.c */
extern void dv_return_prepare(dv_modify *m, const dv_modify_plan *plan, List *targetlist);

/* Returns true if the row contains the value that the column will have in the service. */
extern bool dv_return_is_known(const dv_modify *m, const dv_modify_plan *plan, AttrNumber attnum);

/* Returns those of these columns that the service may not store as they are sent. */
extern List *dv_return_altered(const dv_modify *m, List *columns);

/*
 * Replaces values of these columns by those that the service stores.  Returns false if they
 * are the same.
 */
extern bool dv_return_alter(const dv_modify *m, List *columns, Datum *values, bool *isnull);

/* Returns the row without the values that are known only when it has been written. */
extern TupleTableSlot *dv_return_known(dv_modify *m, TupleTableSlot *slot,
									   TupleTableSlot *planSlot);

/* Takes the id of a new row from the service's answer, if the service has generated it. */
extern void dv_return_learn(const dv_modify *m, dv_modify_row *row,
							const dv_modify_outcome *outcome);

/* Adds the values that are known only when the row has been written; not for DELETE. */
extern TupleTableSlot *dv_return_row(dv_modify *m, TupleTableSlot *slot,
									 const dv_modify_written *w);

/* Adds the system columns that RETURNING uses, if any. */
extern TupleTableSlot *dv_return_system_columns(dv_modify *m, TupleTableSlot *slot);

/* read_back.c */

/*
 * Completes rows (a List of dv_modify_written, preferably at most
 * DV_READ_BACK_ROWS) in as few requests as possible.  The values read are
 * allocated in "context".
 */
extern void dv_read_back(dv_modify *m, List *rows, MemoryContext context);

/* Returns the columns by which rows are recognized when they are read. */
extern Bitmapset *dv_read_back_columns(const dv_modify *m);

/* check.c */
extern void dv_check_prepare(dv_modify *m, const dv_modify_plan *plan,
							 const ModifyTableState *mtstate);

/* Raises an error if a view or policy does not allow the row, or if this cannot be decided. */
extern void dv_check_row(dv_modify *m, TupleTableSlot *slot);

/* pending.c */
extern void dv_pending_prepare(dv_modify *m, const dv_modify_plan *plan,
							   ModifyTableState *mtstate);

/*
 * Reserves a place for the next row, which then owns that row.  Returns NULL if
 * the row is to be returned at once.
 */
extern dv_pending_row *dv_pending_begin(dv_modify *m, const TupleTableSlot *planSlot);

/* Gives the place up, because the row was not taken. */
extern void dv_pending_forget(dv_pending_row *kept);

/* The writer's callback; "owner" is a dv_modify_outcome. */
extern void dv_pending_settled(void *owner, const dv_batch_row *row, dv_fate fate);

/* Keeps the row.  Returns true if rows can be returned now. */
extern bool dv_pending_keep(dv_pending_row *kept, TupleTableSlot *slot, TupleTableSlot *planSlot,
							const dv_modify_row *row);

/* refused.c */
extern void dv_refused_prepare(dv_modify *m);

/* Refuses the row that the writer has begun, because it cannot be sent. */
extern void dv_refused_here(dv_modify *m, TupleTableSlot *slot, const dv_modify_fault *fault);

/* The writer's callbacks; "arg" is a dv_modify. */
extern bool dv_refused_file(void *arg, const dv_failure *failure);
extern void dv_refused_raise(void *arg, const dv_failure *failure);

/* Files the refused rows that could not be filed when they were refused. */
extern void dv_refused_file_held(dv_modify *m);

/* Reports the number of refused rows at the end. */
extern void dv_refused_report(const dv_modify *m);

/* explain.c */
extern void dv_explain_init(void);
extern void dataverseExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
										  List *private, int subplan_index,
										  struct ExplainState *es);

#endif							/* DV_MODIFY_H */

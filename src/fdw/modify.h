/*-------------------------------------------------------------------------
 *
 * modify.h
 *		INSERT, UPDATE, DELETE and COPY: what the files modify*.c share.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_MODIFY_H
#define DV_MODIFY_H

#include "executor/tuptable.h"
#include "foreign/fdwapi.h"

#include "client/writer.h"
#include "fdw/drain.h"
#include "fdw/encode.h"
#include "fdw/modify_plan.h"

/* A column whose values are sent; its number in the table is 0 if there is none. */
typedef struct dv_modify_column
{
	AttrNumber	attnum;
	AttrNumber	type_attnum;	/* companion that says which table a lookup refers to; 0: none */
	bool		if_changed;
	bool		refers_here;	/* it can refer to rows of this table */
	dv_encoder *encoder;
} dv_modify_column;

/* One side of the pairs that an intersect table consists of. */
typedef struct dv_modify_side
{
	AttrNumber	attnum;			/* of the table */
	AttrNumber	junk;			/* among those of the plan below, of DELETE */
	const char *set;
	const char *navigation;
} dv_modify_side;

struct dv_seen_hash;

/* What says which row of the service is meant (modify_identity.c). */
typedef struct dv_modify_identity
{
	AttrNumber	id;				/* 0: none */
	dv_modify_column partition;
	AttrNumber	id_junk;		/* among those of the plan below */
	AttrNumber	partition_junk;
	bool		make_ids;
	bool		ids_given;		/* some of them */
	dv_modify_column *keys;		/* of option "upsert_key" */
	int			nkeys;
	dv_modify_side sides[2];	/* of intersect tables */
	struct dv_seen_hash *seen;	/* rows that have been changed; NULL: the plan finds each once */
	bool		seen_is_full;
} dv_modify_identity;

/* One row of the service. */
typedef struct dv_modify_row
{
	bool		has_id;
	uint8		id[DV_ID_LEN];
	const char *address;		/* NULL: by id, or anew */
	const char *second;			/* of a pair that is made: the id on the other side */
	Datum		partition;
	bool		no_partition;
} dv_modify_row;

/* Which values are sent (modify_row.c). */
typedef struct dv_modify_values
{
	dv_modify_column *columns;
	int			ncolumns;
	bool		ordered;		/* rows may refer to earlier ones of the statement */
	dv_modify_column state;		/* of rows that are made */
	dv_modify_column status;
	List	   *unwritable;		/* IntList: columns that must be null */
	bool		compares;		/* UPDATE with triggers: rows are compared with what they were */
} dv_modify_values;

/* What is in the rows that are handed back (modify_return.c). */
typedef struct dv_modify_return
{
	bool		new_id;			/* the id of a row that has been made */
	bool		read_back;		/* what only the service knows */
	List	   *wanted;			/* of that: for each column its number, or 0 */
	struct dv_scan *reader;		/* NULL: nothing has been read yet */
	AttrNumber	whole_junk;		/* the whole row, of DELETE; 0: it is not wanted */
	bool		checked_before; /* WITH CHECK OPTION looks only at what is known here */
} dv_modify_return;

/* Why a row cannot be sent. */
typedef struct dv_modify_fault
{
	AttrNumber	attnum;			/* of the column at fault */
	dv_misfit	misfit;
} dv_modify_fault;

/* What becomes of rows that are refused (modify_refused.c). */
typedef struct dv_modify_refusal
{
	bool		go_on;			/* they are filed */
	int64		most;			/* so many are; -1: any number */
	int64		rows;
	List	   *held;			/* dv_reject: refused, but not filed yet */
	const dv_modify_fault *fault;	/* of the row that is being refused here; or NULL */
	TupleTableSlot *slot;		/* that row */
} dv_modify_refusal;

/* A modification of one table while it lasts. */
typedef struct dv_modify
{
	EState	   *estate;
	const ResultRelInfo *rinfo;
	MemoryContext context;		/* of all this */
	MemoryContext row_context;	/* reset for each row */
	const dv_relation *relation;
	dv_options	options;		/* settings, the table's, the server's */
	Oid			userid;
	TupleDesc	desc;
	CmdType		command;
	dv_operation operation;
	const char *what;			/* "insert into foreign table \"account\"" */
	double		expected;		/* rows, by the plan's estimate; < 0: there is none */
	bool		ignore;			/* rows that exist already */
	bool		one_by_one;		/* nothing may be under way when a row is handed back */
	dv_session *session;		/* NULL: no row yet */
	dv_writer  *writer;
	int64		started;

	dv_modify_identity identity;
	dv_modify_values values;
	dv_modify_return returned;
	dv_modify_refusal refusal;
	dv_modify_drain drain;
} dv_modify;

/* modify.c */
extern void dataverseBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
										List *private, int subplan_index, int eflags);
extern void dataverseBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rinfo);

/* Of all three commands, and of both beginnings. */
extern TupleTableSlot *dataverseExecForeignModify(EState *estate, ResultRelInfo *rinfo,
												  TupleTableSlot *slot, TupleTableSlot *planSlot);
extern void dataverseEndForeignModify(EState *estate, ResultRelInfo *rinfo);

/* modify_identity.c */
extern void dv_identity_prepare(dv_modify *m, const dv_modify_plan *plan, List *targetlist);

/* False: the row does not say it, or cannot be sent. */
extern bool dv_identity_find(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot,
							 dv_modify_row *row, dv_modify_fault *fault);

/*
 * A row that the statement has changed before is not changed again: PostgreSQL
 * does so, too.  Beyond work_mem the last change wins.
 */
extern bool dv_identity_is_repeated(dv_modify *m, const dv_modify_row *row);

/* The same for the same row, and not 0; 0: nobody knows yet which one it is. */
extern uint64 dv_identity_key(const dv_modify_row *row);
extern uint64 dv_identity_key_of_id(const uint8 *id);

/* modify_row.c */
extern void dv_row_prepare(dv_modify *m, const dv_modify_plan *plan);

/*
 * Writes a row.  False if it was refused here (and counted), or changed
 * before by the same statement.  "row" is filled as far as it is known.
 */
extern bool dv_row_write(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot,
						 dv_modify_row *row);

/* modify_return.c */
extern void dv_return_prepare(dv_modify *m, const dv_modify_plan *plan, List *targetlist);

/* Must the row have been written before it can be handed back? */
extern bool dv_return_waits(const dv_modify *m, const dv_modify_row *row);
extern TupleTableSlot *dv_return_row(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot,
									 dv_modify_row *row);

/* modify_refused.c */
extern void dv_refused_prepare(dv_modify *m);

/* The row that the writer has begun cannot be sent. */
extern void dv_refused_here(dv_modify *m, TupleTableSlot *slot, const dv_modify_fault *fault);

/* The writer's callbacks; "arg" is a dv_modify. */
extern bool dv_refused_file(void *arg, const dv_failure *failure);
extern void dv_refused_raise(void *arg, const dv_failure *failure);

/* Files those that could not be filed when they came. */
extern void dv_refused_file_held(dv_modify *m);

/* Says at the end how many there were. */
extern void dv_refused_report(const dv_modify *m);

/* modify_explain.c */
extern void dataverseExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
										  List *private, int subplan_index,
										  struct ExplainState *es);

#endif							/* DV_MODIFY_H */

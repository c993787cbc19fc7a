/*-------------------------------------------------------------------------
 *
 * modify.h
 *		INSERT, UPDATE, DELETE and COPY: what a plan carries to execution,
 *		and what the files modify*.c share.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_MODIFY_H
#define DV_MODIFY_H

#include "executor/tuptable.h"
#include "foreign/fdwapi.h"
#include "lib/ilist.h"

#include "client/writer.h"
#include "fdw/encode.h"
#include "fdw/relation.h"

/* Members of fdw_private */
typedef enum dv_modify_item
{
	DV_MODIFY_GIVEN,			/* IntList: columns that are written whatever they hold */
	DV_MODIFY_OTHERS,			/* IntList: columns that are written only if they are not null
								 * (INSERT) or not what they were (UPDATE) */
	DV_MODIFY_RETURNED,			/* IntList: columns that RETURNING and WITH CHECK OPTION look at */
	DV_MODIFY_CHECKED,			/* IntList: of them, those that WITH CHECK OPTION looks at */
	DV_MODIFY_IGNORE,			/* Integer: ON CONFLICT DO NOTHING */
	DV_MODIFY_REPEATS			/* Integer: the plan may find a row more than once */
} dv_modify_item;

#define dv_modify_list(private, item) ((List *) list_nth(private, item))
#define dv_modify_int(private, item) intVal(list_nth(private, item))

/* What a modification is to do with one table. */
typedef struct dv_modify_plan
{
	CmdType		command;
	List	   *given;			/* as above */
	List	   *others;
	List	   *returned;
	List	   *looked_at;		/* by WITH CHECK OPTION */
	bool		ignore;
	bool		repeats;
	bool		checked;		/* WITH CHECK OPTION */
} dv_modify_plan;

typedef struct dv_modify_column
{
	AttrNumber	attnum;
	AttrNumber	type_attnum;	/* companion that says which table a lookup refers to; 0: none */
	bool		if_changed;
	bool		refers_here;	/* it can refer to rows of this table */
	dv_encoder *encoder;
} dv_modify_column;

/* One end of the pairs that an intersect table consists of. */
typedef struct dv_modify_end
{
	AttrNumber	attnum;			/* of the table */
	AttrNumber	junk;			/* among those of the plan below, of DELETE */
	const char *set;
	const char *navigation;
} dv_modify_end;

/* Which row of the service is meant. */
typedef struct dv_modify_row
{
	bool		has_id;
	uint8		id[DV_ID_LEN];
	const char *address;		/* NULL: by id, or anew */
	uint64		key;
} dv_modify_row;

struct dv_seen_hash;

/* A modification of one table while it lasts. */
typedef struct dv_modify
{
	dlist_node	node;			/* among those of this backend */
	EState	   *estate;
	MemoryContext context;		/* of all this */
	MemoryContext row;			/* reset for each */
	const dv_relation *relation;
	dv_options	options;		/* settings, the table's, the server's */
	Oid			userid;
	TupleDesc	desc;
	CmdType		command;
	dv_operation operation;
	const char *what;			/* "insert into foreign table \"account\"" */
	const char *server;
	dv_session *session;		/* NULL: no row yet */
	dv_writer  *writer;
	int64		started;
	double		expected;		/* rows, by the plan's estimate; < 0: there is none */
	bool		ignore;			/* rows that exist already */
	bool		go_on;			/* after a row that is refused */
	bool		counts;			/* its rows make the command's tag */
	bool		one_by_one;		/* nothing may be under way when a row is handed back */
	bool		feeds;			/* modifications of higher rank may get its rows from WITH */
	int			rank;			/* among those of its statement */

	/* rows (modify_row.c) */
	AttrNumber	id;				/* columns of the table; 0: none */
	AttrNumber	partition;
	AttrNumber	state;
	AttrNumber	status;
	AttrNumber	id_junk;		/* among those of the plan below */
	AttrNumber	partition_junk;
	bool		make_ids;
	bool		ids_given;		/* some of them */
	dv_modify_end ends[2];		/* of intersect tables */
	dv_modify_column *columns;
	int			ncolumns;
	bool		ordered;		/* rows may refer to earlier ones of the statement */
	dv_encoder *id_encoder;		/* the others are NULL if there is none */
	dv_encoder *partition_encoder;
	dv_encoder *state_encoder;
	dv_encoder *status_encoder;
	AttrNumber *keys;			/* of upsert_key */
	dv_encoder **key_encoders;
	int			nkeys;
	AttrNumber *refused;		/* columns that cannot be written: they must be null */
	int			nrefused;
	TupleTableSlot *before;		/* the row as it was, of UPDATE with triggers; or NULL */
	struct dv_seen_hash *seen;	/* rows that have been changed; NULL: the plan finds each once */
	bool		forgetful;		/* … but there are too many of them */

	/* rows handed back (modify_return.c) */
	bool		return_id;		/* the id of a new row is to be in them */
	bool		read_back;		/* … and what only the service knows */
	bool		checked_before; /* WITH CHECK OPTION looks only at what is known here */
	AttrNumber	whole_junk;		/* the whole row, of DELETE */
	struct dv_scan *reader;
	List	   *wanted;			/* columns to be read back */
	int64		returned;		/* rows */
	int64		corrected;		/* of them, taken from the tag again */

	/* rows refused (modify_refused.c) */
	int64		max_errors;		/* -1: any number */
	int64		refusals;
	bool		elsewhere;		/* another statement waits for rows of this one */
	List	   *held;			/* dv_rejected_row: refused meanwhile, and not filed yet */
	AttrNumber	at_fault;		/* column of the row that is being refused here; 0: none */
	TupleTableSlot *slot;		/* that row */
} dv_modify;

/* modify_plan.c */
extern List *dataversePlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation,
										int subplan_index);
extern int	dataverseIsForeignRelUpdatable(Relation rel);

/* Can values be written into it? */
extern bool dv_modify_is_writable(const dv_attribute *attribute);

/* What is written when there is no plan: COPY, and rows that are routed to a partition. */
extern void dv_modify_plan_rows(const dv_relation *relation, dv_modify_plan *plan);

/* Columns that expressions about a table refer to. */
extern List *dv_modify_columns_of(const dv_relation *relation, Node *expressions, Index varno);

/* All of them: what triggers AFTER ROW get to see is the row as it has become. */
extern List *dv_modify_all_columns(const dv_relation *relation);

/* modify.c */
extern void dataverseBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
										List *private, int subplan_index, int eflags);
extern TupleTableSlot *dataverseExecForeignInsert(EState *estate, ResultRelInfo *rinfo,
												  TupleTableSlot *slot, TupleTableSlot *planSlot);
extern TupleTableSlot *dataverseExecForeignUpdate(EState *estate, ResultRelInfo *rinfo,
												  TupleTableSlot *slot, TupleTableSlot *planSlot);
extern TupleTableSlot *dataverseExecForeignDelete(EState *estate, ResultRelInfo *rinfo,
												  TupleTableSlot *slot, TupleTableSlot *planSlot);
extern void dataverseEndForeignModify(EState *estate, ResultRelInfo *rinfo);
extern void dataverseBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rinfo);
extern void dataverseEndForeignInsert(EState *estate, ResultRelInfo *rinfo);

/* modify_row.c: from slots to rows of the service */
extern void dv_modify_prepare(dv_modify *m, const dv_modify_plan *plan, List *targetlist);

/*
 * Writes a row.  False if it was refused here (and counted), or changed
 * before by the same statement.  "row" is filled as far as it is known.
 */
extern bool dv_modify_write(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot,
							dv_modify_row *row);

/* modify_return.c: rows as they are handed back */
extern void dv_modify_prepare_return(dv_modify *m, const dv_modify_plan *plan, List *targetlist);

/* NULL: there is none. */
extern TupleTableSlot *dv_modify_return(dv_modify *m, TupleTableSlot *slot,
										TupleTableSlot *planSlot, dv_modify_row *row);

/* modify_refused.c: rows that the service does not take */
extern bool dv_modify_file_refused(void *arg, const dv_failure *failure);
extern void dv_modify_raise_refused(void *arg, const dv_failure *failure);

/* Files those that could not be filed when they came. */
extern void dv_modify_file_held(dv_modify *m);

/* Says at the end how many there were. */
extern void dv_modify_report_refused(dv_modify *m);

/* drain.c: when what is under way must have come to its end */
extern void dv_drain_init(void);
extern void dv_drain_register(dv_modify *m);

/* Waits for all of it, when the executor does not run. */
extern void dv_drain(dv_modify *m);

/* Rows that those of a modification ("arg") may refer to: are any under way?  Waits for them. */
extern bool dv_drain_is_fed(void *arg);
extern void dv_drain_feeding(void *arg);

/* Waits for rows of a table that other statements have changed and this one is to see. */
extern void dv_drain_visible(const EState *estate, const dv_relation *relation);

/* modify_explain.c */
extern void dataverseExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
										  List *private, int subplan_index,
										  struct ExplainState *es);

/* The operation that a command is, by the table and the options. */
extern dv_operation dv_modify_operation(const dv_relation *relation, dv_options options,
										CmdType command);

#endif							/* DV_MODIFY_H */

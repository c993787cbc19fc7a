/*
 * drain.h
 *		Decides when a statement waits for the rows that are under way.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DRAIN_H
#define DV_DRAIN_H

#include "lib/ilist.h"
#include "nodes/execnodes.h"

#include "fdw/relation.h"

struct dv_modify;

/* The state of a modification for drain.c. */
typedef struct dv_modify_drain
{
	dlist_node	node;			/* in the list of this backend's modifications */
	ModifyTableState *mtstate;	/* NULL: COPY */
	bool		counts;			/* its rows are counted in the command tag */
	bool		feeds;			/* modifications of higher rank may get its rows from WITH */
	int			rank;			/* among the modifications of its statement */
	bool		elsewhere;		/* another statement waits for rows of this one */
	int64		counted;		/* rows that were returned to the executor, which has therefore
								 * counted them */
	int64		ignored;		/* rows that EXPLAIN shows as conflicting */
	int64		corrected;		/* ignored rows that were subtracted from the tag again */
} dv_modify_drain;

extern void dv_drain_register(struct dv_modify *m, ModifyTableState *mtstate);

/*
 * Called when the statement itself continues: files rows that were refused while others waited
 * for it.
 */
extern void dv_drain_resume(struct dv_modify *m);

/* Waits for all rows of a modification.  Must not be called inside ExecutorRun. */
extern void dv_drain(struct dv_modify *m);

/* Waits for all rows that a statement has changed. */
extern void dv_drain_statement(const EState *estate);

/* The same, after all modifications in WITH have been run to completion. */
extern void dv_drain_complete(EState *estate);

/* Calls a function for each partition to which the node has routed rows. */
extern void dv_drain_routed(const ModifyTableState *mtstate,
							void (*show) (const struct dv_modify *m, void *arg), void *arg);

/*
 * Waits for rows of a table that other statements have changed and that must be visible to this
 * one.
 */
extern void dv_drain_visible(const EState *estate, const dv_relation *relation);

/*
 * The writer's callbacks; "arg" is a dv_modify.  They concern rows of other
 * modifications to which rows of this one may refer: the first callback
 * returns true if any are under way, the second waits for them.
 */
extern bool dv_drain_is_fed(void *arg);
extern void dv_drain_feeding(void *arg);

#endif							/* DV_DRAIN_H */

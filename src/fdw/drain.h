/*
 * drain.h
 *		When what is under way must have come to its end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DRAIN_H
#define DV_DRAIN_H

#include "lib/ilist.h"
#include "nodes/execnodes.h"

#include "fdw/relation.h"

struct dv_modify;

/* What drain.c knows of a modification. */
typedef struct dv_modify_drain
{
	dlist_node	node;			/* among those of this backend */
	bool		counts;			/* its rows make the command's tag */
	bool		feeds;			/* modifications of higher rank may get its rows from WITH */
	int			rank;			/* among those of its statement */
	bool		elsewhere;		/* another statement waits for rows of this one */
	int64		counted;		/* rows, when they were handed back */
	int64		corrected;		/* of them, taken from the tag again */
} dv_modify_drain;

extern void dv_drain_init(void);
extern void dv_drain_register(struct dv_modify *m, const ModifyTableState *mtstate);

/* The statement itself goes on: what was refused while others waited for it is filed. */
extern void dv_drain_resume(struct dv_modify *m);

/* Waits for all of it, when the executor does not run. */
extern void dv_drain(struct dv_modify *m);

/* Waits for rows of a table that other statements have changed and this one is to see. */
extern void dv_drain_visible(const EState *estate, const dv_relation *relation);

/*
 * The writer's callbacks; "arg" is a dv_modify.  Rows that those of a
 * modification may refer to: are any under way?  Waits for them.
 */
extern bool dv_drain_is_fed(void *arg);
extern void dv_drain_feeding(void *arg);

#endif							/* DV_DRAIN_H */

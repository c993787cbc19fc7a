/*
 * xact.h
 *		Callbacks at the end of transactions and subtransactions, called in
 *		order.
 *
 * PostgreSQL calls callbacks in the reverse order of their registration, which
 * depends on what a session did first.  The participants of this module are
 * called in three phases.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_XACT_H
#define DV_XACT_H

#include "access/xact.h"

typedef enum dv_xact_phase
{
	DV_XACT_TELL,				/* count requests under way, and report them */
	DV_XACT_STOP,				/* stop it */
	DV_XACT_FREE				/* free memory that is no longer in use */
} dv_xact_phase;

#define DV_XACT_PHASES (DV_XACT_FREE + 1)

/* The end of a subtransaction. */
typedef struct dv_subxact_end
{
	bool		aborted;
	SubTransactionId mine;
	SubTransactionId parent;
} dv_subxact_end;

/* A participant is a static variable, and is never unregistered. */
typedef struct dv_xact_participant
{
	dv_xact_phase phase;
	void		(*on_xact) (XactEvent event);
	void		(*on_subxact) (const dv_subxact_end *end);	/* or NULL */
	void		(*on_subxact_start) (void); /* or NULL */
	bool		joined;
	struct dv_xact_participant *next;
} dv_xact_participant;

/* Registers the participant, unless it has been registered before. */
extern void dv_xact_join(dv_xact_participant *participant);

/* Returns true if the event is the rollback of the whole transaction. */
extern bool dv_xact_is_abort(XactEvent event);

/*
 * For an object that belongs to the subtransaction *owner: returns true if that
 * one has been rolled back.  If it has been committed, *owner becomes its
 * parent.
 */
extern bool dv_subxact_ended(const dv_subxact_end *end, SubTransactionId *owner);

#endif							/* DV_XACT_H */

/*-------------------------------------------------------------------------
 *
 * xact.h
 *		What happens at the end of transactions and subtransactions, in order.
 *
 * PostgreSQL calls callbacks in the reverse order of their registration, which
 * depends on what a session did first.  Here every participant belongs to one
 * of three phases.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_XACT_H
#define DV_XACT_H

#include "access/xact.h"

typedef enum dv_xact_phase
{
	DV_XACT_TELL,				/* what is under way is counted, while it still is */
	DV_XACT_STOP,				/* it is stopped */
	DV_XACT_FREE				/* what nobody has in use any more is freed */
} dv_xact_phase;

#define DV_XACT_PHASES (DV_XACT_FREE + 1)

/* The end of a subtransaction. */
typedef struct dv_subxact_end
{
	bool		aborted;
	SubTransactionId mine;
	SubTransactionId parent;
} dv_subxact_end;

/* Static, joined once. */
typedef struct dv_xact_participant
{
	dv_xact_phase phase;
	void		(*on_xact) (XactEvent event);
	void		(*on_subxact) (const dv_subxact_end *end);	/* or NULL */
	bool		joined;
	struct dv_xact_participant *next;
} dv_xact_participant;

/* From now on it is called.  Joining again changes nothing. */
extern void dv_xact_join(dv_xact_participant *participant);

/* Is that event the rollback of the whole transaction? */
extern bool dv_xact_is_abort(XactEvent event);

/*
 * For what belongs to the subtransaction "owner": true if it ended with it,
 * by a rollback.  If it was committed, it belongs to the parent from now on.
 */
extern bool dv_subxact_ended(const dv_subxact_end *end, SubTransactionId *owner);

#endif							/* DV_XACT_H */

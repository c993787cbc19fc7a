/*
 * xact.c
 *		Callbacks at the end of transactions and subtransactions, called in
 *		order.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "net/xact.h"

static dv_xact_participant *participants[DV_XACT_PHASES];

static void
on_xact(XactEvent event, void *arg)
{
	const dv_xact_participant *p;
	int			phase;

	for (phase = 0; phase < DV_XACT_PHASES; phase++)
		for (p = participants[phase]; p != NULL; p = p->next)
			p->on_xact(event);
}

static void
on_subxact(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	dv_subxact_end end = {event == SUBXACT_EVENT_ABORT_SUB, mine, parent};
	const dv_xact_participant *p;
	int			phase;

	for (phase = 0; phase < DV_XACT_PHASES; phase++)
		for (p = participants[phase]; p != NULL; p = p->next)
		{
			if (event == SUBXACT_EVENT_START_SUB && p->on_subxact_start != NULL)
				p->on_subxact_start();
			if ((event == SUBXACT_EVENT_ABORT_SUB || event == SUBXACT_EVENT_COMMIT_SUB) &&
				p->on_subxact != NULL)
				p->on_subxact(&end);
		}
}

void
dv_xact_join(dv_xact_participant *participant)
{
	static bool registered = false;

	if (participant->joined)
		return;
	if (!registered)
	{
		RegisterXactCallback(on_xact, NULL);
		RegisterSubXactCallback(on_subxact, NULL);
		registered = true;
	}
	participant->next = participants[participant->phase];
	participants[participant->phase] = participant;
	participant->joined = true;
}

bool
dv_xact_is_abort(XactEvent event)
{
	return event == XACT_EVENT_ABORT || event == XACT_EVENT_PARALLEL_ABORT;
}

bool
dv_subxact_ended(const dv_subxact_end *end, SubTransactionId *owner)
{
	if (*owner != end->mine)
		return false;
	if (!end->aborted)
		*owner = end->parent;
	return end->aborted;
}

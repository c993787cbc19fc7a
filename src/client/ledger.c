/*-------------------------------------------------------------------------
 *
 * ledger.c
 *		What a transaction has written to Dataverse.
 *
 * Rows are counted for the subtransaction in which they were written, moved
 * to its parent when it commits, and reported when it is rolled back.  Rows in
 * doubt are counted at the abort, or earlier if the memory of the statement is
 * freed before.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/ledger.h"
#include "net/xact.h"

/* The counts of one subtransaction.  There is none for those that wrote nothing. */
typedef struct ledger_page
{
	struct ledger_page *next;
	SubTransactionId subid;
	int64		stays;
	int64		in_doubt;
} ledger_page;

static ledger_page *pages = NULL;	/* in TopTransactionContext */
static dlist_head entries = DLIST_STATIC_INIT(entries);

static ledger_page *
page_of(SubTransactionId subid)
{
	ledger_page *p;

	for (p = pages; p != NULL; p = p->next)
		if (p->subid == subid)
			return p;
	p = MemoryContextAllocZero(TopTransactionContext, sizeof(*p));
	p->subid = subid;
	p->next = pages;
	pages = p;
	return p;
}

/* Avoids allocating memory in an abort unless there is something to report. */
static void
add_doubt(SubTransactionId subid, int64 rows)
{
	if (rows > 0)
		page_of(subid)->in_doubt += rows;
}

static void
tell(const char *what, int64 stays, int64 in_doubt)
{
	if (stays > 0)
		ereport(WARNING,
				(errmsg_plural("the %s was rolled back, but %lld row written to Dataverse stays there",
							   "the %s was rolled back, but %lld rows written to Dataverse stay there",
							   stays, what, (long long) stays),
				 in_doubt > 0 ?
				 errdetail_plural("For %lld more row, it is not known whether it was written.",
								  "For %lld more rows, it is not known whether they were written.",
								  in_doubt, (long long) in_doubt) : 0));
	else if (in_doubt > 0)
		ereport(WARNING,
				(errmsg_plural("the %s was rolled back, but it is not known whether %lld row sent to Dataverse was written",
							   "the %s was rolled back, but it is not known whether %lld rows sent to Dataverse were written",
							   in_doubt, what, (long long) in_doubt)));
}

static void
on_xact(XactEvent event)
{
	int64		stays = 0;
	int64		in_doubt = 0;
	dlist_mutable_iter iter;

	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (pages != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot prepare a transaction that has written to Dataverse"),
						 errdetail("Dataverse cannot take part in a two-phase commit.")));
			return;
		case XACT_EVENT_ABORT:
			break;
		case XACT_EVENT_COMMIT:
			pages = NULL;
			return;
		default:
			return;
	}
	dlist_foreach_modify(iter, &entries)
		dv_ledger_close(dlist_container(dv_ledger_entry, node, iter.cur));
	for (; pages != NULL; pages = pages->next)
	{
		stays += pages->stays;
		in_doubt += pages->in_doubt;
	}
	tell("transaction", stays, in_doubt);
}

static void
on_subxact(const dv_subxact_end *end)
{
	dlist_mutable_iter iter;
	ledger_page **at = &pages;
	ledger_page *p;

	dlist_foreach_modify(iter, &entries)
	{
		dv_ledger_entry *entry = dlist_container(dv_ledger_entry, node, iter.cur);

		if (dv_subxact_ended(end, &entry->subid))
			dv_ledger_close(entry);
	}
	while (*at != NULL && (*at)->subid != end->mine)
		at = &(*at)->next;
	p = *at;
	if (p == NULL)
		return;
	*at = p->next;
	if (end->aborted)
		tell("savepoint", p->stays, p->in_doubt);
	else
	{
		ledger_page *outer = page_of(end->parent);

		outer->stays += p->stays;
		outer->in_doubt += p->in_doubt;
	}
}

static dv_xact_participant xact_participant = {
	.phase = DV_XACT_TELL,
	.on_xact = on_xact,
	.on_subxact = on_subxact
};

void
dv_ledger_open(dv_ledger_entry *entry, int64 (*in_doubt) (const dv_ledger_entry *entry))
{
	dv_xact_join(&xact_participant);
	entry->open = true;
	entry->subid = GetCurrentSubTransactionId();
	entry->in_doubt = in_doubt;
	dlist_push_tail(&entries, &entry->node);
}

void
dv_ledger_close(dv_ledger_entry *entry)
{
	if (!entry->open)
		return;
	entry->open = false;
	dlist_delete(&entry->node);
	add_doubt(entry->subid, entry->in_doubt(entry));
}

void
dv_ledger_stays(const dv_ledger_entry *entry, int64 rows)
{
	dv_xact_join(&xact_participant);
	page_of(entry != NULL ? entry->subid : GetCurrentSubTransactionId())->stays += rows;
}

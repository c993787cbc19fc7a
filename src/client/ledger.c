/*
 * ledger.c
 *		Counts what a transaction has written to Dataverse.
 *
 * Rows are counted for the subtransaction in which they were written, moved
 * to its parent when it commits, and reported when it is rolled back.  Rows in
 * doubt are counted at the abort, or earlier if the memory of the statement is
 * freed before.
 *
 * What the error that ends the transaction has already reported
 * (dv_ledger_outcome) is not reported again.
 *
 * A rollback may end several subtransactions, one after the other, but it is
 * reported once: with the sum, as soon as the transaction continues.  The
 * report does not speak of savepoints, because blocks of PL/pgSQL with an
 * EXCEPTION clause are subtransactions as well.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "client/doubts.h"
#include "client/ledger.h"
#include "net/xact.h"

typedef struct ledger_sum
{
	int64		stays;
	int64		in_doubt;
} ledger_sum;

/* The counts of one subtransaction, if it wrote anything. */
typedef struct ledger_page
{
	struct ledger_page *next;
	SubTransactionId subid;
	ledger_sum	sum;
} ledger_page;

static ledger_page *pages = NULL;	/* in TopTransactionContext */
static dlist_head entries = DLIST_STATIC_INIT(entries);
static ledger_sum untold;		/* of subtransactions that were rolled back */
static ledger_sum told;			/* by the error that ends the transaction */

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

/* Allocates no memory in an abort unless there is something to report. */
static void
add_doubt(SubTransactionId subid, int64 rows)
{
	if (rows > 0)
		page_of(subid)->sum.in_doubt += rows;
}

static void
add(ledger_sum *sum, const ledger_sum *more)
{
	sum->stays += more->stays;
	sum->in_doubt += more->in_doubt;
}

/*
 * A process that starts background workers may take their last message for the
 * outcome.  Therefore, a background worker reports no WARNING, which could hide
 * an earlier error.
 */
static void
tell(const char *what, const ledger_sum *sum)
{
	int			level = MyBackendType == B_BG_WORKER ? LOG_SERVER_ONLY : WARNING;

	if (sum->stays > 0)
		ereport(level,
				(errmsg_plural("%s was rolled back, but %lld row written to Dataverse stays there",
							   "%s was rolled back, but %lld rows written to Dataverse stay there",
							   sum->stays, what, (long long) sum->stays),
				 sum->in_doubt > 0 ?
				 errdetail_plural("%lld more row was sent without a conclusive answer and may or may not have been written.",
								  "%lld more rows were sent without a conclusive answer and may or may not have been written.",
								  sum->in_doubt, (long long) sum->in_doubt) : 0,
				 sum->in_doubt > 0 ? errhint(DV_DOUBTS_HINT) : 0));
	else if (sum->in_doubt > 0)
		ereport(level,
				(errmsg_plural("%s was rolled back, but %lld row was sent to Dataverse without a conclusive answer and may or may not have been written",
							   "%s was rolled back, but %lld rows were sent to Dataverse without a conclusive answer and may or may not have been written",
							   sum->in_doubt, what, (long long) sum->in_doubt),
				 errhint(DV_DOUBTS_HINT)));
}

/* Includes requests under way, which will not continue. */
static ledger_sum
sum_up(void)
{
	ledger_sum	sum = untold;
	dlist_mutable_iter iter;
	const ledger_page *p;

	dlist_foreach_modify(iter, &entries)
		dv_ledger_close(dlist_container(dv_ledger_entry, node, iter.cur));
	for (p = pages; p != NULL; p = p->next)
		add(&sum, &p->sum);
	return sum;
}

bool
dv_ledger_has_written(void)
{
	return pages != NULL || !dlist_is_empty(&entries) || untold.stays > 0 || untold.in_doubt > 0;
}

bool
dv_ledger_has_doubts(void)
{
	return sum_up().in_doubt > 0;
}

char *
dv_ledger_sentence(const char *what, int64 stays, int64 in_doubt)
{
	StringInfoData buf;

	initStringInfo(&buf);
	if (stays > 0)
		appendStringInfo(&buf, ngettext("%lld row of this %s has been written to Dataverse and stays there.",
										"%lld rows of this %s have been written to Dataverse and stay there.",
										stays), (long long) stays, what);
	if (stays > 0 && in_doubt > 0)
		appendStringInfo(&buf, ngettext("\n%lld more row was sent without a conclusive answer and may or may not have been written.",
										"\n%lld more rows were sent without a conclusive answer and may or may not have been written.",
										in_doubt), (long long) in_doubt);
	else if (in_doubt > 0)
		appendStringInfo(&buf, ngettext("%lld row of this %s was sent without a conclusive answer and may or may not have been written.",
										"%lld rows of this %s were sent without a conclusive answer and may or may not have been written.",
										in_doubt), (long long) in_doubt, what);
	return buf.len > 0 ? buf.data : NULL;
}

char *
dv_ledger_outcome(const char *detail)
{
	ledger_sum	sum = sum_up();
	const char *known = dv_ledger_sentence("statement", sum.stays, sum.in_doubt);

	told = sum;
	if (known == NULL || (detail != NULL && strstr(detail, known) != NULL))
		return NULL;
	return dv_ledger_sentence("transaction", sum.stays, sum.in_doubt);
}

void
dv_ledger_tell(void)
{
	ledger_sum	sum = untold;

	/* nothing is reported twice, even if the report raises an error */
	memset(&untold, 0, sizeof(untold));
	memset(&told, 0, sizeof(told));
	tell("part of the transaction", &sum);
}

/* Reports the rollback of the whole transaction, unless the error that caused it has done so. */
static void
tell_all(void)
{
	ledger_sum	sum = sum_up();
	bool		known = told.stays == sum.stays && told.in_doubt == sum.in_doubt;

	pages = NULL;
	memset(&untold, 0, sizeof(untold));
	memset(&told, 0, sizeof(told));
	if (!known)
		tell("the transaction", &sum);
}

static void
on_xact(XactEvent event)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			dv_ledger_tell();
			return;
		case XACT_EVENT_PRE_PREPARE:
			dv_ledger_tell();
			if (pages != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot prepare a transaction that has written to Dataverse"),
						 errdetail("Dataverse cannot take part in a two-phase commit."),
						 errhint("Write to Dataverse in a transaction that is committed by itself.")));
			return;
		case XACT_EVENT_ABORT:
			tell_all();
			return;
		case XACT_EVENT_COMMIT:
			pages = NULL;
			memset(&told, 0, sizeof(told));
			return;
		default:
			return;
	}
}

static void
on_subxact(const dv_subxact_end *end)
{
	dlist_mutable_iter iter;
	ledger_page **at = &pages;
	ledger_page *p;

	if (!end->aborted)
		dv_ledger_tell();
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
		add(&untold, &p->sum);
	else
		add(&page_of(end->parent)->sum, &p->sum);
}

static dv_xact_participant xact_participant = {
	.phase = DV_XACT_TELL,
	.on_xact = on_xact,
	.on_subxact = on_subxact,
	.on_subxact_start = dv_ledger_tell
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
	page_of(entry != NULL ? entry->subid : GetCurrentSubTransactionId())->sum.stays += rows;
}

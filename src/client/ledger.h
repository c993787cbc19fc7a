/*
 * ledger.h
 *		Counts what a transaction has written to Dataverse, where nothing
 *		can be rolled back.
 *
 * When a transaction, or a part of it, that wrote is rolled back, one WARNING
 * reports how many rows remain written, and how many are in doubt.  A
 * transaction that wrote cannot be prepared.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_LEDGER_H
#define DV_LEDGER_H

#include "lib/ilist.h"

/* A writer that may have requests under way.  The entry is open until its memory is freed. */
typedef struct dv_ledger_entry
{
	dlist_node	node;
	bool		open;
	SubTransactionId subid;
	int64		(*in_doubt) (const struct dv_ledger_entry *entry);	/* also notes the rows
																	 * (doubts.h) */
} dv_ledger_entry;

extern void dv_ledger_open(dv_ledger_entry *entry,
						   int64 (*in_doubt) (const dv_ledger_entry *entry));

/* Closes the entry, unless it is closed.  Rows that are in doubt now stay in doubt. */
extern void dv_ledger_close(dv_ledger_entry *entry);

/*
 * Counts rows that have been written.  They belong to the subtransaction of
 * the entry, which need not be the current one, or, if the entry is NULL, to
 * the current one.
 */
extern void dv_ledger_stays(const dv_ledger_entry *entry, int64 rows);

/* Returns true if the transaction has written rows, or sent rows that may have been written. */
extern bool dv_ledger_has_written(void);
extern bool dv_ledger_has_doubts(void);

/*
 * Returns a sentence for the DETAIL of an error: how many rows of "what" have
 * been written for good, and how many are in doubt; or NULL if there are none.
 */
extern char *dv_ledger_sentence(const char *what, int64 stays, int64 in_doubt);

/*
 * Called when the transaction fails.  Returns the sentence about all that it
 * has written, for its error, or NULL if "detail" has the sentence already or
 * there is nothing to report.  The rollback will then not be reported again.
 */
extern char *dv_ledger_outcome(const char *detail);

/*
 * Reports the rows written by parts of the transaction that have been rolled
 * back.  Called when the transaction continues after a rollback.
 */
extern void dv_ledger_tell(void);

#endif							/* DV_LEDGER_H */

/*-------------------------------------------------------------------------
 *
 * ledger.h
 *		What a transaction has changed in Dataverse, where nothing can be
 *		rolled back.
 *
 * When a transaction or a savepoint that wrote is rolled back, one WARNING
 * says how many rows stay as they were written, and of how many it is not
 * known.  A transaction that wrote cannot be prepared.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_LEDGER_H
#define DV_LEDGER_H

#include "lib/ilist.h"

/* Somebody who has requests under way, open until its memory goes. */
typedef struct dv_ledger_entry
{
	dlist_node	node;
	bool		open;
	SubTransactionId subid;
	int64		(*in_doubt) (const struct dv_ledger_entry *entry);
} dv_ledger_entry;

extern void dv_ledger_open(dv_ledger_entry *entry,
						   int64 (*in_doubt) (const dv_ledger_entry *entry));

/* What is in doubt now will stay so. */
extern void dv_ledger_close(dv_ledger_entry *entry);

/*
 * Rows that are written for good: of an entry, which may have been opened
 * outside of the savepoint of whoever waits for them now, or NULL.
 */
extern void dv_ledger_stays(const dv_ledger_entry *entry, int64 rows);

#endif							/* DV_LEDGER_H */

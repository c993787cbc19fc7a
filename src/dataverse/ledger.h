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

#include "c.h"

/* Rows of the current subtransaction that are written for good. */
extern void dv_ledger_stays(int64 rows);

/* Rows that were sent and whose answer will never be read. */
extern void dv_ledger_in_doubt(int64 rows);

#endif							/* DV_LEDGER_H */

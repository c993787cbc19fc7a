/*-------------------------------------------------------------------------
 *
 * outcome.h
 *		Adds to the error that ends a transaction what stays in Dataverse.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_OUTCOME_H
#define DV_OUTCOME_H

/* From _PG_init, after all others that install hooks of the executor. */
extern void dv_outcome_init(void);

#endif							/* DV_OUTCOME_H */

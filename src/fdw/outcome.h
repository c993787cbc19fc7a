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

/* The current error is leaving the outermost statement: throws it with what it adds. */
extern void dv_outcome_add(void);

#endif							/* DV_OUTCOME_H */

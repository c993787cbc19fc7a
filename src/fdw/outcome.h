/*
 * outcome.h
 *		Adds to the error that ends a transaction how many rows stay in
 *		Dataverse.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_OUTCOME_H
#define DV_OUTCOME_H

/* Throws the current error, which is leaving the outermost statement, with this addition. */
extern void dv_outcome_add(void);

#endif							/* DV_OUTCOME_H */

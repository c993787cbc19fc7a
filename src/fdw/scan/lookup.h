/*
 * lookup.h
 *		Joins that request the inner rows for many outer rows at once.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_LOOKUP_H
#define DV_LOOKUP_H

#include "nodes/execnodes.h"
#include "nodes/extensible.h"

/* A batch of outer rows has at most this many distinct keys. */
#define DV_LOOKUP_KEYS 10000

/* Size of its hash table: a power of two. */
#define DV_LOOKUP_BUCKETS 16384

/* The fewest outer rows of the first batch if few rows of the join are wanted. */
#define DV_LOOKUP_FIRST_ROWS 100

/* Bytes that a row of a batch takes up besides its columns, roughly. */
#define DV_LOOKUP_ROW_BYTES 100

/*
 * The plan node: custom_plans are the outer and the inner side.  The scan tuple has
 * the columns of the outer side, and then those of the inner side.
 *
 * The first expression is the clause "inner column = outer expression".  The
 * inner side is a ForeignScan with the condition "inner column = ANY (list)",
 * and the list is a CaseTestExpr: the join sets it in the ForeignScan's
 * expression context before each rescan.  The second is the list of all other
 * join clauses.
 */
#define dv_lookup_join_key(plan) ((OpExpr *) linitial((plan)->custom_exprs))
#define dv_lookup_join_clauses(plan) ((List *) lsecond((plan)->custom_exprs))
#define dv_lookup_join_type(plan) ((JoinType) linitial_int((plan)->custom_private))
#define dv_lookup_join_outer_columns(plan) lsecond_int((plan)->custom_private)

extern const CustomScanMethods dv_lookup_join_methods;

/* For fdw/scan/wanted.c: returns the outer side if the node is such a join, else NULL. */
extern const PlanState *dv_lookup_join_outer(const PlanState * node);

/* plan_lookup.c */
extern void dv_lookup_join_init(void);

#endif							/* DV_LOOKUP_H */

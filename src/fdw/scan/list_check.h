/*
 * list_check.h
 *		Checks rows against long lists of values.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_LIST_CHECK_H
#define DV_LIST_CHECK_H

#include "nodes/execnodes.h"

#include "fdw/plan/plan.h"
#include "fdw/scan/bind.h"

typedef struct dv_list_check dv_list_check;

/*
 * Removes the clauses with lists of the scan's values from the node's filter.  Returns
 * NULL if there are none.
 */
extern dv_list_check *dv_list_check_take(ForeignScanState *node, const dv_read_plan *plan);

/* Makes tables of the lists, in the current memory context, which lasts as long as the values. */
extern void dv_list_check_bind(dv_list_check *check, const dv_bound_value *values);

/* Do the clauses select the row in a slot?  If not, counts it for EXPLAIN. */
extern bool dv_list_check_row(dv_list_check *check, TupleTableSlot *slot);

/* The same for a row that EvalPlanQual checks again, for which no values have been bound. */
extern bool dv_list_check_again(dv_list_check *check);

#endif							/* DV_LIST_CHECK_H */

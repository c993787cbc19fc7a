/*
 * evaluate.h
 *		Computes the values of a plan's expressions when a scan begins.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_EVALUATE_H
#define DV_EVALUATE_H

#include "nodes/execnodes.h"

#include "fdw/scan/bind.h"

/* Computes the values of ExprStates, in the current memory context. */
extern void dv_evaluate(List *expressions, ForeignScanState *node, dv_bound_value *values);

/* Returns the parameters in expressions that the executor sets. */
extern Bitmapset *dv_evaluate_params(List *expressions);

/* Returns the value of LIMIT or OFFSET; -1 if it is null, or "position" is negative. */
extern int64 dv_row_count(const dv_bound_value *values, int position, bool is_limit);

#endif							/* DV_EVALUATE_H */

/*
 * result.h
 *		Results of SQL functions that are rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RESULT_H
#define DV_RESULT_H

#include "fmgr.h"
#include "nodes/execnodes.h"

/*
 * Each of them raises an error if the function was not declared with this number of
 * columns, which is so between the installation of another version of the library and
 * ALTER EXTENSION.
 */

/* Returns the row as the result of the function. */
extern Datum dv_result_row(FunctionCallInfo fcinfo, int ncolumns, Datum *values, bool *nulls);

/* Begins a set of rows, to which dv_result_add() adds rows. */
extern ReturnSetInfo *dv_result_rows(FunctionCallInfo fcinfo, int ncolumns);

extern void dv_result_add(ReturnSetInfo *result, Datum *values, bool *nulls);

#endif							/* DV_RESULT_H */

/*
 * stage.h
 *		The rows of a query, stored in a table from which a push sends them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_STAGE_H
#define DV_STAGE_H

#include "executor/spi.h"
#include "utils/array.h"

/* Plans a query.  Raises an error if it is anything else. */
extern SPIPlanPtr dv_stage_prepare(const char *query);

/* Returns the names of its columns, text[]. */
extern ArrayType *dv_stage_columns(SPIPlanPtr query);

/*
 * Runs the query, and stores its rows in a new table that has a column for each of theirs, and "row
 * number".  "id" is the column of this table for ids that are made for rows without one, or NULL;
 * if there is a column "own id", it shows which rows these are.  Returns the number of rows.
 */
extern int64 dv_stage_fill(SPIPlanPtr query, Oid table, const char *id);

#endif							/* DV_STAGE_H */

/*
 * statement.h
 *		Fixed statements that read and write the tables of state.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_STATEMENT_H
#define DV_STATEMENT_H

#include "executor/spi.h"

#include "fdw/owner.h"

#define DV_STATEMENT_MOST 15

typedef struct dv_statement
{
	const char *sql;
	int			nargs;
	Oid			types[DV_STATEMENT_MOST];
	SPIPlanPtr	plan;			/* NULL until it is first executed */
} dv_statement;

typedef struct dv_row
{
	Datum		values[DV_STATEMENT_MOST];
	bool		nulls[DV_STATEMENT_MOST];
} dv_row;

/*
 * Acts as the owner of the tables until dv_owner_end().  Raises an error if the code that runs must
 * not reach them.
 */
extern dv_caller dv_statement_begin(void);

/*
 * Executes a statement as the current role.  "nulls" is NULL if no argument is null.  Returns false
 * if the statement returns no row.
 */
extern bool dv_statement_execute_here(dv_statement *s, Datum *args, const char *nulls, dv_row *result);

/* The same as the owner of the tables. */
extern bool dv_statement_execute(dv_statement *s, Datum *args, const char *nulls, dv_row *result);

#endif							/* DV_STATEMENT_H */

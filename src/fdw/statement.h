/*
 * statement.h
 *		Hooks into statements, from their beginning to their end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_STATEMENT_H
#define DV_STATEMENT_H

#include "executor/execdesc.h"

/* Installs the hooks. */
extern void dv_statement_init(void);

/* Returns the innermost query that ExecutorRun executes, or NULL. */
extern const QueryDesc *dv_statement_running(void);

/* Returns true if the executor, as it runs now, returns a limited number of rows of the query. */
extern bool dv_statement_is_limited(const EState *estate);

#endif							/* DV_STATEMENT_H */

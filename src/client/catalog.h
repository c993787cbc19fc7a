/*-------------------------------------------------------------------------
 *
 * catalog.h
 *		Asks the service for its tables and their definitions.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_CATALOG_H
#define DV_CATALOG_H

#include "dataverse/metadata.h"
#include "client/session.h"

/*
 * All tables, in the current memory context.  One request.  "what" goes on
 * with "could not".
 */
extern dv_meta_catalog *dv_catalog_get(dv_session *session, const char *what);

/*
 * Marks the tables of the solution as wanted; raises if there is no such
 * solution.  One request (each 5,000 tables), more only to say what is wrong.
 */
extern void dv_catalog_mark_solution(dv_session *session, dv_meta_catalog *catalog,
									 const char *solution, const char *what);

/*
 * Calls "visit" with the definition of each table that is wanted; "table"
 * lives as long as that call.  One request, and another when intersect tables
 * are among them.
 */
extern void
			dv_catalog_definitions(dv_session *session, dv_meta_catalog *catalog, const dv_meta_wish *wish,
								   void (*visit) (const dv_meta_table *table, void *arg), void *arg,
								   const char *what);

#endif							/* DV_CATALOG_H */

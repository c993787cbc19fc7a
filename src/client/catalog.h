/*-------------------------------------------------------------------------
 *
 * catalog.h
 *		Requests the tables of the service and their definitions.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_CATALOG_H
#define DV_CATALOG_H

#include "client/session.h"
#include "dataverse/metadata.h"

/*
 * Returns all tables, in the current memory context.  Makes one request.
 * "what" completes messages that begin with "could not".
 */
extern dv_meta_catalog *dv_catalog_get(dv_session *session, const char *what);

/*
 * Marks the tables of the solution as wanted; raises an error if the solution
 * does not exist.  Makes one request for every 5,000 components, and another
 * one only if the solution has no tables.
 */
extern void dv_catalog_mark_solution(dv_session *session, dv_meta_catalog *catalog,
									 const char *solution, const char *what);

/*
 * Calls "visit" with the definition of each table that is wanted; "table" is
 * freed when "visit" returns.  Makes one request, and another one if there are
 * intersect tables among the wanted ones.
 */
typedef void (*dv_catalog_visit) (const dv_meta_table *table, void *arg);

extern void dv_catalog_definitions(dv_session *session, dv_meta_catalog *catalog,
								   const dv_meta_wish *wish, dv_catalog_visit visit, void *arg,
								   const char *what);

#endif							/* DV_CATALOG_H */

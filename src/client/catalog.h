/*
 * catalog.h
 *		Requests the tables of the service and their definitions.
 *
 * SPDX-License-Identifier: PostgreSQL
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
 * does not exist.  Makes one request for every 5,000 components, plus one if
 * the solution has no tables.
 */
extern void dv_catalog_mark_solution(dv_session *session, dv_meta_catalog *catalog,
									 const char *solution, const char *what);

/* A caller that wants definitions. */
typedef struct dv_catalog_reader
{
	void		(*visit) (const dv_meta_table *table, void *arg);
	void	   *arg;
	const char *what;			/* completes messages that begin with "could not" */
	const char *operation;		/* for dataverse.progress, which counts tables as rows */
	const char *schema;			/* likewise, in place of a table */
} dv_catalog_reader;

/*
 * Calls the reader's "visit" with the definition of each table that is wanted;
 * "table" is freed when it returns.  Makes a request for every DV_META_CHUNK
 * tables, one more if some of them are intersect tables, and two more if
 * comments are wanted.  If the service refuses RetrieveMetadataChanges, makes
 * several requests for each table.
 */
extern void dv_catalog_definitions(dv_session *session, dv_meta_catalog *catalog,
								   const dv_meta_wish *wish, const dv_catalog_reader *reader);

#endif							/* DV_CATALOG_H */

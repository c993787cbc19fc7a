/*
 * forms.h
 *		Forms of requests that the service has refused, or that have proved to work.
 *
 * Some requests are optimisations: plainer requests can do the same, but then more
 * or longer ones are needed.  If the service refuses such a form, we use the
 * plainer one instead, and do not try the form again in this session.  An error is
 * raised only if the plainest form is refused, too.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FORMS_H
#define DV_FORMS_H

#include "client/session.h"
#include "dataverse/error.h"

typedef enum dv_form
{
	DV_FORM_BATCH_PARTS,		/* this many parts in one $batch */
	DV_FORM_CREATE_MULTIPLE,	/* bulk messages of a table, in the order of dv_operation */
	DV_FORM_UPSERT_MULTIPLE,
	DV_FORM_UPDATE_MULTIPLE,
	DV_FORM_DELETE_MULTIPLE,
	DV_FORM_METADATA_CHANGES,	/* RetrieveMetadataChanges */
	DV_FORM_TOTAL_COUNT,		/* RetrieveTotalRecordCount, of a table */
	DV_FORM_LISTS,				/* this many values in one In or NotIn on a table */
	DV_FORM_COUNTS,				/* rows of a table counted by $apply */
	DV_FORM_COUNTS_OF_LISTS,	/* the same with In or NotIn in the filter */
	DV_FORM_RANGES,				/* rows of a table between two ids, or with the greatest id */
	DV_FORM_FETCH_RANGES,		/* the same in FetchXML: rows of joins, and parts of groups */
	DV_FORM_JOINS				/* joins; instead of a table's name, all of their tables and links */
} dv_form;

#define DV_FORMS (DV_FORM_JOINS + 1)

/*
 * Returns how much of the form may be used: "most", or less if the service has
 * refused that much.  0 means that the form cannot be used.  "table" is a
 * table's logical name if the form depends on the table, else NULL.
 */
extern int	dv_form_most(const dv_session *session, dv_form form, const char *table, int most);

/* Has anything been remembered about the form, whatever the table is? */
extern bool dv_form_noted(const dv_session *session, dv_form form);

/*
 * Remembers that the service has refused the form with this error, and that
 * only "most" of it is to be used from now on.  Logs this at DEBUG1.
 */
extern void dv_form_refused(const dv_session *session, dv_form form, const char *table, int most,
							const dv_error *error);

/* Remembers that an answer has shown that the form works. */
extern bool dv_form_proven(const dv_session *session, dv_form form, const char *table);
extern void dv_form_prove(const dv_session *session, dv_form form, const char *table);

/*
 * Returns true if the error says that the service does not accept requests of this form from any
 * user.
 */
extern bool dv_form_blamed(const dv_error *error);

#endif							/* DV_FORMS_H */

/*
 * header.h
 *		Headers of requests, and the annotations that they request.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_HEADER_H
#define DV_HEADER_H

#include <stdbool.h>

/* Annotations of a row's members: "ownerid@…". */
#define DV_ANNOTATION_LABEL "OData.Community.Display.V1.FormattedValue"
#define DV_ANNOTATION_TABLE "Microsoft.Dynamics.CRM.lookuplogicalname"
#define DV_ANNOTATION_BIND "odata.bind"

/* Annotations of an answer to FetchXML: "@…". */
#define DV_ANNOTATION_COOKIE "Microsoft.Dynamics.CRM.fetchxmlpagingcookie"
#define DV_ANNOTATION_MORE "Microsoft.Dynamics.CRM.morerecords"

/* of a page: changes with every change of any definition */
#define DV_ANNOTATION_METADATA "Microsoft.Dynamics.CRM.globalmetadataversion"

/* "names" is a string literal: names separated by commas, or "*". */
#define DV_PREFER_ANNOTATIONS(names) "Prefer: odata.include-annotations=\"" names "\""

/* Impersonates the user with this object id. */
#define DV_HEADER_CALLER "CallerObjectId: "

/* Lets a $batch continue after a part that was refused. */
#define DV_PREFER_CONTINUE "Prefer: odata.continue-on-error"

/* Custom logic to bypass, in the order of the choices of option bypass_custom_logic. */
typedef enum dv_bypass
{
	DV_BYPASS_NONE,
	DV_BYPASS_SYNC,
	DV_BYPASS_ASYNC,
	DV_BYPASS_ALL
} dv_bypass;

typedef struct dv_write_manner
{
	dv_bypass	bypass;
	bool		bypass_flows;
	bool		detect_duplicates;	/* apply the organisation's rules for duplicates */
} dv_write_manner;

/* Headers of every request that writes, and of each of its parts, NULL-terminated. */
extern const char *const *dv_headers_of_write(const dv_write_manner *manner);

/*
 * Headers of a request for a page of rows, NULL-terminated.  A page_size of 0
 * leaves the size to the service.  The annotations, and the session token of
 * earlier writes that must be visible, may be NULL.
 */
extern const char *const *dv_headers_of_page(int page_size, bool track_changes, const char *annotations,
											 const char *session_token);

/*
 * All headers of a request, NULL-terminated: the extra ones and those defaults
 * that they do not override.  "caller_id" (impersonation) and "extra" may be NULL.
 */
extern const char *const *dv_headers_of_request(const char *bearer, const char *caller_id,
												const char *const *extra, bool has_body);

#endif							/* DV_HEADER_H */

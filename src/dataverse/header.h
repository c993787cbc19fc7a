/*-------------------------------------------------------------------------
 *
 * header.h
 *		Headers of requests, and the annotations that they ask for.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
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

/* "names" is a string literal: names with commas between them, or "*". */
#define DV_PREFER_ANNOTATIONS(names) "Prefer: odata.include-annotations=\"" names "\""

/* Who is impersonated, by object id. */
#define DV_HEADER_CALLER "CallerObjectId: "

/* A $batch goes on after a part that was refused. */
#define DV_PREFER_CONTINUE "Prefer: odata.continue-on-error"

/* Custom logic that is to be left out; in the order of option bypass_custom_logic. */
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
	bool		detect_duplicates;	/* by the rules of the organisation */
} dv_write_manner;

/* Headers of every request that writes, and of every part of it, NULL-terminated. */
extern const char *const *dv_headers_of_write(const dv_write_manner *manner);

/*
 * Headers of a page of rows, NULL-terminated.  A page_size of 0 leaves the size
 * to the service; annotations, and the session token of writes to see, may be
 * NULL.
 */
extern const char *const *dv_headers_of_page(int page_size, const char *annotations,
											 const char *session_token);

#endif							/* DV_HEADER_H */

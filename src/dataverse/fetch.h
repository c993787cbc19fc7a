/*
 * fetch.h
 *		Writes queries as FetchXML: the part of the URL after the service root.
 *
 * For FetchXML written by users, see fetchxml.h.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FETCH_H
#define DV_FETCH_H

#include "dataverse/odata.h"

/* The page to request; the service supports "top" only without pages. */
typedef struct dv_fetch_page
{
	int			page;			/* from 1 */
	int			count;			/* rows of a page */
	const char *cookie;			/* of the page before, decoded; NULL if there is none */
} dv_fetch_page;

/*
 * "accounts?fetchXml=<fetch>…</fetch>", percent-encoded for the wire.  In the
 * READABLE style nothing is percent-encoded, and the XML is still valid, except
 * that placeholders are written as they are.  Like snprintf, returns the length
 * of the complete text; what fits is in "out", with a NUL.  Without "page"
 * (NULL), the first rows are requested, as many as query->top says.
 *
 * Output n of the query is the member "cn" of a row, unless it is plain.  Without outputs, rows
 * have the same members as in OData; rows that are not aggregated have the primary id of the
 * root as well.  NULLs are omitted from rows.  A count is the member "n".
 */
extern size_t dv_fetch_query(const dv_query *query, dv_odata_style style,
							 const dv_fetch_page *page, char *out, size_t size);

/* Returns the length of a text as a value of the WIRE style, with its wildcards quoted. */
extern size_t dv_fetch_text_length(const char *text);

#endif

/*
 * odata.h
 *		Writes queries as OData: the part of the URL after the service root.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ODATA_H
#define DV_ODATA_H

#include "dataverse/query.h"

/*
 * The longest URL that the service accepts in a request line, and in a part of a $batch
 * (README.md, Requests).
 */
#define DV_ODATA_MAX_URL 32768
#define DV_ODATA_MAX_BATCH_URL 65536

typedef enum dv_odata_style
{
	DV_ODATA_WIRE,				/* as it is sent */
	DV_ODATA_READABLE			/* the same with blanks, quotes, and brackets unencoded */
} dv_odata_style;

/*
 * "accounts?$select=name&$filter=…".  Like snprintf, returns the length of the
 * complete text; what fits is in "out", with a NUL.  The filter must not be
 * DV_FALSE, since nothing needs to be requested then.
 */
extern size_t dv_odata_query(const dv_query *query, dv_odata_style style, char *out, size_t size);

/* Returns the length of a text inside a literal of the WIRE style, with its wildcards quoted. */
extern size_t dv_odata_text_length(const char *text);

/* Returns true if the service accepts a list of values of this column as IN. */
extern bool dv_odata_has_in(const dv_column *column, int max_length);

#endif

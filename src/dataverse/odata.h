/*
 * odata.h
 *		Queries as OData: what stands behind the service root.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ODATA_H
#define DV_ODATA_H

#include "dataverse/query.h"

/* What the service takes in a request line, and in a part of a $batch (facts 1.1). */
#define DV_ODATA_MAX_URL 32768
#define DV_ODATA_MAX_BATCH_URL 65536

typedef enum dv_odata_style
{
	DV_ODATA_WIRE,				/* as it is sent */
	DV_ODATA_READABLE			/* the same with blanks, quotes and brackets as they are */
} dv_odata_style;

/*
 * "accounts?$select=name&$filter=…".  Written as snprintf writes: returns the
 * length of the whole, and what fits is in "out", with a NUL.  The filter may
 * not be DV_FALSE: there is nothing to ask then.
 */
extern size_t dv_odata_query(const dv_query *query, dv_odata_style style, char *out, size_t size);

/* Can the service take a list of such values as IN? */
extern bool dv_odata_has_in(const dv_column *column, int max_length);

#endif

/*
 * request.h
 *		What a read asks the service for, with all values in place.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_REQUEST_H
#define DV_REQUEST_H

#include "dataverse/query.h"
#include "fdw/bind.h"
#include "fdw/plan.h"
#include "fdw/relation.h"

typedef struct dv_request
{
	const dv_relation *relation;
	dv_read_plan plan;
	const dv_column **columns;	/* of the plan, each once */
	int			ncolumns;
	int			page_size;		/* rows for each page, where $top does not say it */
	int			largest_top;	/* more rows than this come in pages */
	const char *annotations;	/* for the Prefer header, or NULL */

	/* to be set before the first request */
	dv_bindings binding;
	dv_filter  *within;			/* only these of the plan's rows; NULL: all */
	bool		last;			/* only the id of the last of them, in the order of ids */

	int64		wanted;			/* rows that are still to come, at most; -1: all */
	int			next;			/* number of the next request, */
	bool		more;			/* if there may be one */
} dv_request;

/* One with room for the values of the plan's expressions, whose types it knows. */
extern void dv_request_init(dv_request *request, const dv_relation *relation,
							const dv_read_plan *plan, List *exprs);

/* From the first request on, with the values that are now in place. */
extern void dv_request_start(dv_request *request, int64 wanted);

/*
 * Fills "query" for the next of the requests that the read consists of.  False
 * at the end.
 */
extern bool dv_request_next(dv_request *request, dv_query *query);

/* The URL, in the current memory context. */
extern char *dv_request_url(const dv_query *query, bool readable);

#endif							/* DV_REQUEST_H */

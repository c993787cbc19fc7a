/*
 * fetch_request.h
 *		The query of a read that FetchXML expresses, with all values in place.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FETCH_REQUEST_H
#define DV_FETCH_REQUEST_H

#include "nodes/execnodes.h"

#include "dataverse/fetch.h"
#include "fdw/plan/fetch_plan.h"
#include "fdw/relation.h"
#include "fdw/scan/bind.h"

/* Where the value of a column of the scan tuple is found. */
typedef struct dv_fetch_source
{
	const dv_fetch_item *item;
	const dv_relation *relation;
	const dv_attribute *attribute;	/* NULL: rows are counted */
	int			members[3];		/* indexes of members: of a period its year, month, and day, of an
								 * average the sum and the count; else the first one */
} dv_fetch_source;

typedef struct dv_fetch_request
{
	const dv_fetch_plan *plan;
	int			ntables;
	const dv_relation **relations;
	dv_bindings *bindings;		/* one for each table */
	dv_bound_value *values;		/* of the plan's expressions */

	/* what is requested */
	dv_fetch_source *sources;	/* for each column of the scan tuple */
	int			nsources;
	const char **members;		/* of a row */
	int			nmembers;
	dv_output  *outputs;
	int			noutputs;
	dv_order   *orders;
	const char *annotations;	/* for the Prefer header */
	int			page_size;

	/*
	 * Of groups: request the rows that they consist of; or the values of COUNT(DISTINCT) instead
	 * of their number.  To be set before the sources are.
	 */
	bool		rows;
	bool		distinct_values;

	/*
	 * Request something of a link as well that is not null where a row is joined; "proof" is the
	 * index of its member, or -1 if nothing of links is requested.  If it is certain, then no row
	 * of the answer lacks it.  To be set before the sources are.
	 */
	bool		prove;
	int			proof;
	int			proof_link;		/* the table it belongs to */
	bool		proof_certain;

	/* to be set before a query is made */
	int64		wanted;			/* maximum number of rows; -1: all */
	dv_filter  *within;			/* a further restriction of the root's rows; or NULL */
} dv_fetch_request;

/*
 * Initializes a request with room for the values of the plan's expressions, and
 * with their types.
 */
extern void dv_fetch_request_init(dv_fetch_request *request, const dv_fetch_plan *plan,
								  List *exprs, EState *estate);

/* Decides what is requested.  To be called once more if "rows", "distinct_values", or "prove"
 * change. */
extern void dv_fetch_request_choose(dv_fetch_request *request);

/* Does the service form groups, rather than return the rows that they consist of? */
extern bool dv_fetch_request_grouped(const dv_fetch_request *request);

/* Fills the query with the current values; returns false if no row can match. */
extern bool dv_fetch_request_query(dv_fetch_request *request, dv_query *query);

/* A query for nothing but the first id of the root's rows, or the last one. */
extern bool dv_fetch_request_end(dv_fetch_request *request, bool last, dv_query *query);

/* A query for any row of the root that is joined with one of "proof_link", whose id is the member. */
extern void dv_fetch_request_pair(dv_fetch_request *request, dv_query *query, const char **member);

/* Returns the URL, allocated in the current memory context. */
extern char *dv_fetch_request_url(const dv_query *query, const dv_fetch_page *page, bool readable);

#endif							/* DV_FETCH_REQUEST_H */

/*
 * request.h
 *		The requests of a read, with all values in place.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_REQUEST_H
#define DV_REQUEST_H

#include "client/forms.h"
#include "dataverse/query.h"
#include "fdw/plan/plan.h"
#include "fdw/relation.h"
#include "fdw/scan/bind.h"

typedef struct dv_request
{
	const dv_relation *relation;
	dv_read_plan plan;
	const dv_column **columns;	/* columns of the plan, each once */
	int			ncolumns;
	int			ncolumns_unlisted;	/* if the long list is not sent: that column, too */
	AttrNumber	list_column;	/* of the list that may have any length; 0: there is none */
	int			page_size;		/* rows for each page, unless there is a $top */
	int			largest_top;	/* more rows than this are requested in pages */
	bool		all_columns;	/* there are too many to be named */
	const char *annotations;	/* for the Prefer header, or NULL */

	/* to be set before the first request */
	dv_bindings binding;
	dv_filter  *within;			/* a further restriction of the plan's rows; NULL if there is none */
	bool		last;			/* request only the id of the last row in the order of ids */

	Oid			userid;			/* by whom the service may be asked how many rows there are */

	/* knows which forms the service has refused; NULL: it has refused none */
	const dv_session *session;

	int64		wanted;			/* maximum number of rows still wanted; -1: all */
	int			part;			/* which of the two requests of an order by nulls it is */
	int			next_part;		/* the next request: its part, */
	int			next_first;		/* and where it begins in a long list */
	bool		more;			/* there may be a next request */

	/* the current request: which forms it has that the service may refuse */
	bool		counts;
	int			listed;			/* most values of an In or NotIn; 0 if there is none */
	/* because the service has refused the same request in other forms */
	bool		count_here;		/* rows are read in order to count them */
	int			most_listed;
	List	   *refusals;		/* of these forms, until a plainer request is accepted */
} dv_request;

/*
 * Initializes a request with room for the values of the plan's expressions,
 * and with their types.
 */
extern void dv_request_init(dv_request *request, const dv_relation *relation,
							const dv_read_plan *plan, List *exprs);

/* Starts again from the first request, with the current values. */
extern void dv_request_start(dv_request *request, int64 wanted);

/* Fills "query" for the next request of the read.  Returns false at the end. */
extern bool dv_request_next(dv_request *request, dv_query *query);

/*
 * Can the current request be put more plainly?  If the service refuses it, the
 * next one is the same in a plainer form.  Once the service has accepted that
 * one, the session remembers what it refused.
 */
extern bool dv_request_has_plainer(const dv_request *request);
extern void dv_request_refused(dv_request *request, const dv_error *error);
extern void dv_request_accepted(dv_request *request);

/* Makes the next request the current one once more. */
extern void dv_request_again(dv_request *request);

/* Returns the URL, allocated in the current memory context. */
extern char *dv_request_url(const dv_query *query, bool readable);

#endif							/* DV_REQUEST_H */

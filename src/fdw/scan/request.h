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
#include "fdw/plan/read_plan.h"
#include "fdw/relation.h"
#include "fdw/scan/bind.h"

/* Where the value of a column of the scan tuple is found. */
typedef struct dv_source
{
	const dv_read_item *item;
	const dv_relation *relation;
	const dv_attribute *attribute;	/* NULL: it is not fetched, or rows are counted */
	int			members[3];		/* indexes of members: for a period year, month, and day, for an
								 * average the sum and the count; else the first one */
} dv_source;

/* The part of the plan's rows that is requested. */
typedef enum dv_extent
{
	DV_EXTENT_ALL,
	DV_EXTENT_FIRST,			/* the first or the last one in the order of ids, and nothing but
								 * its id */
	DV_EXTENT_LAST
} dv_extent;

typedef struct dv_request
{
	dv_read_plan plan;
	dv_language language;
	int			ntables;
	const dv_relation **relations;	/* the root first */
	dv_bindings *bindings;		/* one for each table */
	dv_bound_value *values;		/* of the plan's expressions */
	int			list_table;		/* the table with the list that may have any length, and the
								 * column whose values it contains; 0: there is none */
	AttrNumber	list_column;

	/* what is requested (members.c) */
	dv_source  *sources;		/* for each column of the scan tuple */
	int			nsources;
	const char **members;		/* of a row */
	int			nmembers;
	int			id;				/* index of the member that is the primary id of the root, or -1 */
	int			listed;			/* that of the column of the long list */
	const dv_column **columns;	/* in OData: the columns, each once */
	int			ncolumns;
	int			ncolumns_list_omitted;	/* if the long list is not sent: that column, too */
	bool		all_columns;	/* they are too many to be named */
	dv_output  *outputs;		/* in FetchXML */
	int			noutputs;
	const char *annotations;	/* for the Prefer header, or NULL */
	int			page_size;		/* rows for each page, unless there is a $top */
	int			largest_top;	/* more rows than this are requested in pages */

	/*
	 * For groups: request their rows, or the values of COUNT(DISTINCT) instead of their number.
	 * To be set before dv_request_choose().
	 */
	bool		rows;
	bool		distinct_values;

	/*
	 * Also request a column of a link that is not null in a joined row.  "proof" is the index of
	 * its member, or -1 if no column of a link is requested.  If it is certain, no row of the
	 * answer lacks it.  To be set before dv_request_choose().
	 */
	bool		prove;
	int			proof;
	int			proof_link;		/* the table it belongs to */
	bool		proof_certain;

	bool		wants_id;		/* the primary id of the root is a member; to be set likewise */

	/* to be set before the first request */
	dv_filter  *within;			/* a further restriction of the root's rows; NULL if there is none */
	dv_extent	extent;
	Oid			userid;			/* whose user mapping counts the rows of a table */

	/* knows which forms the service has refused; NULL: it has refused none */
	const dv_session *session;

	int64		wanted;			/* maximum number of rows still wanted; -1: all */
	int			part;			/* which of the two requests of an order by nulls it is */
	int			next_part;		/* the next request: its part, */
	int			next_first;		/* and where it begins in a long list */
	bool		more;			/* there may be a next request */

	/* the current request: which forms it has that the service may refuse */
	bool		counts;
	int			in_list;		/* most values of an In or NotIn; 0 if there is none */
	/* because the service has refused the same request in other forms */
	bool		counts_locally; /* rows are read to be counted */
	int			most_listed;
	List	   *refusals;		/* of these forms, until a plainer request is accepted */
} dv_request;

/*
 * Initializes a request of the plan's tables with room for the values of its
 * expressions, and with their types.
 */
extern void dv_request_init(dv_request *request, const dv_read_plan *plan,
							const dv_relation **relations, List *exprs);

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

/* The bindings of the table with the list that may have any length, or of the root. */
static inline dv_bindings *
dv_request_listing(const dv_request *request)
{
	return &request->bindings[request->list_table];
}

/* A query for any row of the root with its row of "proof_link", whose id is the member. */
extern void dv_request_pair(const dv_request *request, dv_query *query, const char **member);

/* members.c */

/* Decides what is requested.  To be called again if the settings for it change. */
extern void dv_request_choose(dv_request *request);

/* Does the service form groups, rather than return the rows that they consist of? */
extern bool dv_request_groups(const dv_request *request);

#endif							/* DV_REQUEST_H */

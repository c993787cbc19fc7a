/*
 * scan_state.h
 *		A scan, as the files that carry it out see it.
 *
 * read.c sends the requests of a read and returns rows as the service has them;
 * scan.c turns these into tuples for the executor, link_names.c proves that columns
 * of joined tables are what they seem to be, local_join.c makes
 * joins that the service refuses, and group_scan.c forms groups.
 *
 * Memory: "query" lasts until the next rescan, "row" until the next row; pages
 * have contexts of their own below "query".
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SCAN_STATE_H
#define DV_SCAN_STATE_H

#include "lib/ilist.h"

#include "client/id_range.h"
#include "client/ranges.h"
#include "fdw/decode.h"
#include "fdw/scan/group_merge.h"
#include "fdw/scan/kept.h"
#include "fdw/scan/list_check.h"
#include "fdw/scan/request.h"
#include "fdw/scan/scan.h"
#include "fdw/system_columns.h"

typedef struct dv_local_join dv_local_join;

struct dv_scan
{
	/* the read */
	dv_request	request;
	Oid			userid;
	dv_session *session;		/* NULL before the first request */
	const char *what;			/* "read foreign tables …" */
	const char *operation;		/* shown by the view dataverse.progress */
	double		expected;		/* number of rows; negative if not known */
	MemoryContext context;		/* of the scan itself */
	MemoryContext query;
	MemoryContext row;
	dv_progress *progress;
	dv_pages_stats *stats;

	/* what a row consists of */
	dv_decoder **decoders;		/* for each column of the scan tuple; NULL if nothing is fetched */
	int		   *fetched;		/* the columns that have one */
	int			nfetched;
	dv_decoder *listed;			/* of the column of the list that may have any length, or NULL */
	dv_names   *names;
	dv_value   *members;		/* of the current row */

	/* the current request */
	dv_ranges  *ranges;			/* NULL if none is in progress */
	int			most_ranges;	/* at a time; 1: the rows are not divided */
	bool		automatic;		/* this number is the extension's choice */
	const dv_filter *ids;		/* ids for which no request is needed; NULL if there are none */
	int			ids_returned;	/* how many of them have been returned */
	bool		accepted;		/* the service has answered it */
	bool		patient;		/* waits for answers instead of returning without a row */
	bool		waiting;		/* it has returned without a row */

	/* of joins: whether columns of links have the names that were requested */
	bool		proof_chosen[2];	/* of rows, and of groups: whether "proves" is known */
	bool		proves[2];		/* see request.prove */
	bool		pair_sought;	/* a joined row has been requested */

	/* of joins that the service refuses */
	dv_local_join *local_join;	/* NULL: none was needed so far */
	bool		joined_here;	/* rows come from it */

	/* of groups */
	dv_groups  *groups;			/* once they are complete */
	int			parts;			/* that the rows were divided into */
	bool		grouped_locally;	/* the service did not form the groups */

	/* the node of the executor */
	const		PlanState *executor;	/* NULL: there is none */
	double		wants;			/* dv_wanted_of(); 0: not known yet */
	List	   *values;			/* ExprStates */
	bool		bound;			/* the values have been computed */
	int64		skip;			/* rows of OFFSET that remain to be skipped */
	Bitmapset  *params;			/* parameters that the values depend on */
	dv_system_columns system;	/* that the plan uses */
	dv_list_check *lists;		/* or NULL */
	dv_kept		kept;			/* used if there is no spool */
	dv_spool   *spool;			/* used if the statement writes the table, else NULL */
	dlist_node	node;			/* among the scans with a spool */
	ForeignScanState *state;	/* set while the scan is among them */
};

/* read.c */

extern dv_scan *dv_read_create(const dv_read_plan *plan, const dv_relation **relations, List *exprs,
							   Oid userid, bool wants_id);

/* Decides again what is requested. */
extern void dv_read_choose(dv_scan *scan);

extern dv_session *dv_read_session(dv_scan *scan);

/* What all queries of a scan have in common. */
extern dv_pages_spec dv_read_pages_spec(dv_scan *scan);

/*
 * Reads the next row into the members.  Returns none at the end of all requests, or if
 * the scan must wait and is not patient.
 */
extern dv_pages_state dv_read_next(dv_scan *scan);

/* Returns the value of a column of the scan tuple. */
extern Datum dv_read_value(const dv_scan *scan, int source, bool *isnull);

/* Returns an id that the service must have returned. */
extern dv_ordered_id dv_read_id(const dv_scan *scan, const dv_value *value);

/* COUNT(*): counts the rows of all requests. */
extern int64 dv_read_count(dv_scan *scan);

/* Ends all requests; the values have to be computed again. */
extern void dv_read_restart(dv_scan *scan);

extern void dv_read_end(dv_scan *scan);

/* Returns how many rows will probably be wanted, or -1 if all are needed. */
extern double dv_read_wants(dv_scan *scan);

/* Will EXPLAIN ANALYZE show what the scan took? */
extern bool dv_read_is_instrumented(const dv_scan *scan);

/* link_names.c */

/* Decides whether the names have to be proved.  Returns true if that changes the request. */
extern bool dv_link_names_choose(dv_scan *scan);

/*
 * To be called for each row or group that has been read into the members.  This may
 * start a local join, which replaces the current request.
 */
extern void dv_link_names_check(dv_scan *scan);

/* local_join.c */

/*
 * Reads the tables of the join instead of the join, from its current request on,
 * with the current values.  "refusal" is the answer to that request; NULL: it has
 * not been sent, because the session knows it to be refused.
 */
extern void dv_local_join_start(dv_scan *scan, const dv_error *refusal);

/* The same as dv_read_next(), without the limit. */
extern dv_pages_state dv_local_join_next(dv_local_join *j);

/* Returns the value of a column of the scan tuple, valid until the next row. */
extern Datum dv_local_join_value(const dv_local_join *j, int source, bool *isnull);

/* Has the answer arrived that it was waiting for? */
extern bool dv_local_join_ready(const dv_local_join *j);
extern void dv_local_join_count_unread(const dv_local_join *j);

/* Ends its requests.  It can be started again. */
extern void dv_local_join_leave(dv_scan *scan);
extern void dv_local_join_end(dv_local_join *j);

/* group_scan.c: forms all groups */
extern void dv_group_scan_form(dv_scan *scan, TupleDesc desc);

#endif							/* DV_SCAN_STATE_H */

/*
 * fetch_scan.h
 *		Execution of reads that FetchXML expresses.
 *
 * fdw/scan/scan.c passes the executor's calls on to these if a plan is of this kind.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FETCH_SCAN_H
#define DV_FETCH_SCAN_H

#include "nodes/execnodes.h"

#include "client/pages.h"
#include "fdw/decode.h"
#include "fdw/scan/fetch_request.h"
#include "fdw/scan/group_merge.h"
#include "fdw/scan/kept.h"

typedef struct dv_fetch_scan
{
	dv_fetch_plan *plan;
	dv_fetch_request request;
	Oid			userid;
	dv_session *session;
	const		PlanState *executor;	/* the node that wants rows; NULL: all are wanted */
	const char *what;			/* "read foreign tables …" */
	List	   *values;			/* ExprStates */
	MemoryContext context;		/* of the scan itself */
	MemoryContext query;		/* until the next rescan */
	MemoryContext row;			/* until the next row */
	dv_decoder **decoders;		/* for each column of the scan tuple; NULL where rows are counted */
	dv_names   *names;
	dv_value   *members;
	dv_pages   *pages;			/* of a query for rows */
	bool		bound;			/* the values have been computed */
	bool		proof_chosen[2];	/* of rows, and of groups: whether "proves" is known */
	bool		proves[2];		/* see request.prove */
	bool		pair_sought;	/* two rows that are joined have been asked for */
	int64		skip;			/* rows of OFFSET that remain to be skipped */
	dv_groups  *groups;			/* of a query for groups, once they are complete */
	int			parts;			/* that the rows were divided into */
	bool		grouped_here;	/* the service did not form the groups */
	dv_kept		kept;
	dv_progress *progress;
	dv_pages_stats stats;
} dv_fetch_scan;

extern void dv_fetch_begin(ForeignScanState *node);
extern TupleTableSlot *dv_fetch_iterate(ForeignScanState *node);
extern void dv_fetch_rescan(ForeignScanState *node);
extern void dv_fetch_end(ForeignScanState *node);

/* For EXPLAIN: is a column of a link requested by which the session recognizes its names? */
extern bool dv_fetch_proves(ForeignScanState *node);

/* For fdw/scan/group_scan.c: */

/* Returns the value of a source, however FetchXML spells it. */
extern Datum dv_fetch_decode(const dv_fetch_scan *scan, int source, bool *isnull);

/* Sets up names of members for the outputs that are requested now. */
extern void dv_fetch_name_members(dv_fetch_scan *scan);

/* Begins a query for rows. */
extern dv_pages *dv_fetch_start_rows(dv_fetch_scan *scan, MemoryContext owner);

/* Decides whether the names of links' columns have to be proved. */
extern void dv_fetch_choose_proof(dv_fetch_scan *scan);

/* To be called for each row or group that has been read into the members. */
extern void dv_fetch_check_names(dv_fetch_scan *scan);

/* Reads the next of these rows into the members; returns false at the end. */
extern bool dv_fetch_next(dv_fetch_scan *scan);

/* What all queries have in common. */
extern dv_pages_spec dv_fetch_pages_spec(dv_fetch_scan *scan);

/* fdw/scan/group_scan.c: forms all groups */
extern void dv_fetch_form_groups(dv_fetch_scan *scan, TupleDesc desc);

#endif							/* DV_FETCH_SCAN_H */

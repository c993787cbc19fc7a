/*
 * range.h
 *		A range of ids and its requests; the interface of ranges.c, which reads
 *		the rows of ranges, and spread.c, which begins them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RANGE_H
#define DV_RANGE_H

#include "client/forms.h"
#include "client/ranges.h"
#include "dataverse/id_order.h"

#define DV_MOST_RANGES 64

/* The number of new ranges that a page allows for, and each range that may be read at a time. */
#define DV_CREDIT_OF_PAGE 2
#define DV_CREDIT_OF_RANGE 3

/* A request for no more than an id. */
typedef struct dv_probe
{
	dv_call    *call;			/* NULL: not under way */
	MemoryContext context;
	bool		counted;		/* its answer */
} dv_probe;

typedef struct dv_range
{
	dv_ranges  *all;
	MemoryContext context;		/* of the range and its requests */
	dv_pages   *pages;
	dv_query	query;			/* for its rows */
	bool		plain;			/* its bounds were not sent */
	bool		has_low;
	bool		has_high;
	dv_ordered_id low;			/* the first id that belongs to it, */
	dv_ordered_id high;			/* and the first one that does not */

	/* how far it has been read */
	int64		rows;
	bool		has_last;
	dv_ordered_id last;			/* id of the last row */

	/* the page opened last */
	bool		more;			/* another one seems to follow */
	bool		has_tail;
	bool		has_head;
	dv_ordered_id head;			/* ids of its first and, as it seems, of its last row */
	dv_ordered_id tail;

	/* what lies behind that page */
	bool		sparse;			/* the end of the range may be far from its last row */
	bool		has_top;
	dv_ordered_id top;			/* id of the last row, when the service was asked for it */
	dv_probe	probe;			/* asks for it */
} dv_range;

struct dv_ranges
{
	dv_ranges_spec spec;
	dv_query	query;
	MemoryContext context;
	dv_range   *ranges[DV_MOST_RANGES]; /* those that have not ended */
	int			n;
	int			current;		/* the one whose page is being read; -1: none */
	int			turn;			/* the one that was selected last */
	const dv_error *refusal;	/* see dv_pages_refusal */
	dv_names   *id_name;		/* for probes */

	/* whether ids are compared as we do */
	dv_ordered_id tried;		/* the id that is asked for */
	dv_probe	trial;			/* asks for it */

	bool		divides;		/* new ranges may be begun */
	bool		divided;		/* there has been more than one */
	bool		look;			/* something has happened that may allow for a new range */
	int			allowed;		/* ranges at a time, for now */
	int			credit;			/* new ranges that pages have paid for */
	int			failures;		/* probes whose answers were unreadable */
	int64		given;			/* rows returned to the caller */
	int64		pages;			/* opened */
	uint32		since_advance;

	int			told_in_flight; /* what the progress says of requests under way */

	/* time spent waiting, altogether and when "allowed" was last thought about */
	int64		waiting_since;	/* 0: does not wait */
	int64		waited;
	int64		mark_waited;
	int64		mark_time;
	int64		mark_pages;
	int64		mark_repeated;	/* requests that had been sent again */
};

/* In ranges.c: adds a range without bounds, whose query is the whole one, and begins to read it. */
extern dv_range *dv_ranges_add(dv_ranges *all);
extern void dv_ranges_begin(dv_range *range);

/* The form of requests that ranges take. */
extern dv_form dv_ranges_form(const dv_ranges *all);

/* In spread.c: take note of answers to probes, and begin as many new ranges as are of use now. */
extern void dv_spread_probes(dv_ranges *all);
extern void dv_spread(dv_ranges *all);

/* Ends a request, if there is one, and counts it as abandoned unless its answer has been counted. */
extern void dv_spread_drop(dv_ranges *all, dv_probe *probe);

#endif							/* DV_RANGE_H */

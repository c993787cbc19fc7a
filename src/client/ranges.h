/*
 * ranges.h
 *		All rows of a query, read as several ranges of ids at a time.
 *
 * If the service takes a second for a page, following its links yields one page a
 * second.  So the ids are divided into ranges, and each range is read by requests of
 * its own.  The rows come in no particular order.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RANGES_H
#define DV_RANGES_H

#include "client/id_range.h"
#include "client/pages.h"
#include "dataverse/query.h"

typedef struct dv_ranges dv_ranges;

typedef struct dv_ranges_spec
{
	dv_pages_spec pages;		/* of the query as a whole */
	const dv_query *query;		/* the same query, in the order of ids unless it is not divided;
								 * it is copied, but not what it points to */
	const char *table;			/* logical name */
	int			id;				/* index of the primary id among the members wanted */
	int			most;			/* ranges at a time; 1: the query is not divided */
	bool		automatic;		/* as many of them as make reading faster */
	double		expected;		/* number of rows; negative if not known */
	const dv_id_range *left;	/* what an earlier read has left (see dv_ranges_left); copied */
	int			nleft;			/* 0: all rows, or those from the path of "pages" on */
} dv_ranges_spec;

/* The most ranges at a time unless options say otherwise. */
#define DV_RANGES_AUTOMATIC 16

/*
 * These are like the functions of pages.h.  Each row that exists all the time is
 * returned once, whatever is written meanwhile.
 */
extern dv_ranges *dv_ranges_start(const dv_ranges_spec *spec, MemoryContext owner);
extern bool dv_ranges_next(dv_ranges *ranges, dv_value *values);
extern dv_pages_state dv_ranges_step(dv_ranges *ranges, dv_value *values);
extern dv_pages_state dv_ranges_poll(dv_ranges *ranges, dv_value *values);
extern bool dv_ranges_ready(const dv_ranges *ranges);
extern const dv_error *dv_ranges_refusal(const dv_ranges *ranges);
extern void dv_ranges_count_unread(dv_ranges *ranges);

/*
 * Where another read continues, when this one has returned DV_PAGES_TURNED.  As long as
 * the rows were not divided, this is the link to the next page.  Then it is the ranges
 * of ids that have not been returned, of which there are at most DV_RANGES_MOST; their
 * number is returned.  NULL and 0: all rows have been returned.
 */
#define DV_RANGES_MOST 64
extern const char *dv_ranges_link(const dv_ranges *ranges);
extern int	dv_ranges_left(const dv_ranges *ranges, dv_id_range *left);

/* See dv_pages_leave and, with "counts_unread", dv_pages_count_unread.  "ranges" may be NULL. */
extern void dv_ranges_leave(dv_ranges *ranges, bool counts_unread);
extern void dv_ranges_end(dv_ranges *ranges);

#endif							/* DV_RANGES_H */

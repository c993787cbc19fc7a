/*
 * ranges.h
 *		All rows of a query, read as several ranges of ids at a time.
 *
 * A service that takes a second for a page gives no more than a page a second
 * to whoever follows its links.  So the ids are divided into ranges, each of
 * which is read by requests of its own; the rows come in no particular order.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RANGES_H
#define DV_RANGES_H

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
	bool		automatic;		/* no more of them than make it faster */
	double		expected;		/* number of rows; negative if not known */
} dv_ranges_spec;

/* The most ranges at a time if nothing else is said. */
#define DV_RANGES_AUTOMATIC 16

/*
 * These are like the functions of pages.h.  Each row is returned once, if it
 * was there all the time, whatever is written meanwhile.
 */
extern dv_ranges *dv_ranges_start(const dv_ranges_spec *spec, MemoryContext owner);
extern bool dv_ranges_next(dv_ranges *ranges, dv_value *values);
extern dv_pages_state dv_ranges_poll(dv_ranges *ranges, dv_value *values);
extern bool dv_ranges_ready(const dv_ranges *ranges);
extern const dv_error *dv_ranges_refusal(const dv_ranges *ranges);
extern void dv_ranges_count_unread(dv_ranges *ranges);

/* See dv_pages_leave; "counts_unread": and dv_pages_count_unread.  There need be no ranges. */
extern void dv_ranges_leave(dv_ranges *ranges, bool counts_unread);
extern void dv_ranges_end(dv_ranges *ranges);

#endif							/* DV_RANGES_H */

/*
 * known.h
 *		Rows that a reader of pages has received, and may receive again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_KNOWN_H
#define DV_KNOWN_H

#include "dataverse/page.h"

typedef struct dv_known_row dv_known_row;

/*
 * Later answers may contain these rows again: another answer to the same request,
 * and also those to the next requests, if other rows have been inserted before
 * them.
 */
typedef struct dv_known
{
	MemoryContext owner;		/* set by the caller */
	const char *id;				/* the member that identifies rows; also set by the caller */

	/* private */
	dv_names   *names;
	MemoryContext context;		/* NULL: there are no rows */
	dv_known_row *rows;			/* in the order of their ids */
	int			n;
	int			room;
} dv_known;

/* Adds the rows of the page that have been read so far. */
extern void dv_known_add(dv_known *known, const dv_page *page);

/*
 * Finds known rows on a page that is being read.  Returns the number of its
 * rows up to and including the last known one.
 */
extern uint64 dv_known_find(dv_known *known, const dv_page *page);

/* Called at the end of a page: forgets the rows found on it, which will not come again. */
extern void dv_known_forget_found(dv_known *known);

#endif							/* DV_KNOWN_H */

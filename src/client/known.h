/*
 * known.h
 *		Rows that a reader of pages has got, and may get again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_KNOWN_H
#define DV_KNOWN_H

#include "dataverse/page.h"

typedef struct dv_known_row dv_known_row;

/*
 * Further answers may contain these rows again: that to the same request, and also
 * those to the next ones, if other rows have come in front of them since.
 */
typedef struct dv_known
{
	MemoryContext owner;		/* set by the caller */
	const char *id;				/* the member by which rows are told apart; the same */

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
 * Finds known rows on a page that is being read.  Returns how many of its rows come
 * before or are the last one of these.
 */
extern uint64 dv_known_find(dv_known *known, const dv_page *page);

/* The page is done with, and what was found on it will not come again. */
extern void dv_known_forget_found(dv_known *known);

#endif							/* DV_KNOWN_H */

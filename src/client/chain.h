/*
 * chain.h
 *		Links and cookies between pages: detects links that lead in a circle,
 *		and reads cookies.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CHAIN_H
#define DV_CHAIN_H

#include "utils/palloc.h"

#include "dataverse/page.h"

/* The links of one query so far; zeroed at first. */
typedef struct dv_chain
{
	char	   *mark;			/* a link that was met before */
	uint64		since;			/* links since then */
	uint64		limit;			/* number of links after which the mark is replaced */
} dv_chain;

/*
 * To be called with each link.  Returns true if the link leads back to an
 * earlier page, at the latest when all pages of the circle have been read
 * three times.
 */
extern bool dv_chain_leads_back(dv_chain *chain, MemoryContext context, const char *link);

/* Returns the cookie of a page of FetchXML, decoded, or NULL if it has none. */
extern char *dv_chain_cookie(const dv_page *page);

#endif							/* DV_CHAIN_H */

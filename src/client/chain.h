/*
 * chain.h
 *		Notices that links from page to page lead in a circle.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CHAIN_H
#define DV_CHAIN_H

#include "utils/palloc.h"

/* The links of one query so far; zeroed in the beginning. */
typedef struct dv_chain
{
	char	   *mark;			/* a link that was met before */
	uint64		since;			/* links since then */
	uint64		limit;			/* after so many links another mark is set */
} dv_chain;

/*
 * To be called with each link.  Returns true if it leads back to an earlier
 * page, at the latest when all pages of the circle have been read three times.
 */
extern bool dv_chain_leads_back(dv_chain *chain, MemoryContext context, const char *link);

#endif							/* DV_CHAIN_H */

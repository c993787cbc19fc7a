/*
 * chain.c
 *		Notices that links from page to page lead in a circle.
 *
 * One link is remembered, and each later one is compared with it; it is replaced
 * after one, two, four, eight … links.  Sooner or later it is a link of the
 * circle and the circle is shorter than the time until the next replacement
 * (R. P. Brent's algorithm).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/chain.h"

bool
dv_chain_leads_back(dv_chain *chain, MemoryContext context, const char *link)
{
	if (chain->mark != NULL && strcmp(chain->mark, link) == 0)
		return true;
	if (chain->mark == NULL || ++chain->since == chain->limit)
	{
		if (chain->mark != NULL)
			pfree(chain->mark);
		chain->mark = MemoryContextStrdup(context, link);
		chain->since = 0;
		chain->limit = chain->limit == 0 ? 1 : 2 * chain->limit;
	}
	return false;
}

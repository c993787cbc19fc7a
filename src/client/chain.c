/*
 * chain.c
 *		Links and cookies between pages: detects links that lead in a circle,
 *		and reads cookies.
 *
 * One link is remembered, and each later one is compared with it; it is replaced
 * after one, two, four, eight … links.  Eventually it is a link of the circle,
 * and the circle is shorter than the distance to the next replacement (R.  P.
 * Brent's algorithm).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/chain.h"
#include "dataverse/fetchxml.h"

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

char *
dv_chain_cookie(const dv_page *page)
{
	char	   *annotation;
	char	   *cookie = NULL;
	size_t		len;

	if (page->paging_cookie.kind != DV_VALUE_STRING)
		return NULL;
	annotation = palloc(page->paging_cookie.len + 1);
	if (dv_value_string(&page->paging_cookie, annotation, &len) == DV_VALUE_OK)
	{
		annotation[len] = '\0';
		cookie = palloc(len + 1);
		if (!dv_fetchxml_cookie(annotation, cookie))
		{
			pfree(cookie);
			cookie = NULL;
		}
	}
	pfree(annotation);
	return cookie;
}

/*
 * fetchxml.h
 *		FetchXML written by users: reads what paging needs, and writes the
 *		same query for another page.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FETCHXML_H
#define DV_FETCHXML_H

#include <stdbool.h>
#include <stddef.h>

#define DV_FETCHXML_NAME_MAX 128

/* Points into the text that was read, which must remain valid. */
typedef struct dv_fetchxml
{
	const char *attributes;		/* of the element fetch, up to its ">" */
	size_t		attributes_len;
	const char *content;		/* the text after the start tag of fetch */
	char		entity[DV_FETCHXML_NAME_MAX + 1];	/* logical name of the root table */
	int			page;			/* 0 if not given, as for the other two */
	int			count;
	int			top;
} dv_fetchxml;

/*
 * Reads as much of the query as paging needs.  Returns false, and a static
 * text in *error, if it does not have the form <fetch …><entity name="…" …
 * The rest is left for the service to check.
 */
extern bool dv_fetchxml_read(const char *xml, dv_fetchxml *query, const char **error);

/*
 * Writes the query for one page, with the paging cookie of the previous page
 * (NULL if there is none).  Like snprintf, returns the length of the complete
 * text.
 */
extern size_t dv_fetchxml_page(const dv_fetchxml *query, int page, int count, const char *cookie,
							   char *out, size_t size);

/*
 * Extracts the cookie from the annotation fetchxmlpagingcookie.  "out" must
 * have room for as many bytes as the annotation has.  Returns false if there
 * is none.
 */
extern bool dv_fetchxml_cookie(const char *annotation, char *out);

#endif							/* DV_FETCHXML_H */

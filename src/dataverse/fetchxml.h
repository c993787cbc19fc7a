/*-------------------------------------------------------------------------
 *
 * fetchxml.h
 *		FetchXML that somebody else wrote: what it asks for, and the same
 *		query for another page.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_FETCHXML_H
#define DV_FETCHXML_H

#include <stdbool.h>
#include <stddef.h>

#define DV_FETCHXML_NAME_MAX 128

/* Points into the text that was read, which must stay. */
typedef struct dv_fetchxml
{
	const char *attributes;		/* of the element fetch, up to its ">" */
	size_t		attributes_len;
	const char *content;		/* what follows */
	char		entity[DV_FETCHXML_NAME_MAX + 1];	/* logical name of the root table */
	int			page;			/* 0: not given */
	int			count;
	int			top;
} dv_fetchxml;

/*
 * Reads as much of the query as paging needs; false, and a static text in
 * *error, if it is not of the form <fetch …><entity name="…" …  The rest is
 * for the service to judge.
 */
extern bool dv_fetchxml_read(const char *xml, dv_fetchxml *query, const char **error);

/*
 * The query for one page, with the paging cookie of the page before it
 * (NULL: none).  Written as snprintf writes: returns the length of the whole.
 */
extern size_t dv_fetchxml_page(const dv_fetchxml *query, int page, int count, const char *cookie,
							   char *out, size_t size);

/*
 * Takes the cookie out of the annotation fetchxmlpagingcookie.  "out" has
 * room for as many bytes as the annotation.  False if there is none.
 */
extern bool dv_fetchxml_cookie(const char *annotation, char *out);

#endif							/* DV_FETCHXML_H */

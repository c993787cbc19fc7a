/*
 * fetchxml_fuzz.c
 *		Arbitrary text as FetchXML, and as the cookie of its next page.
 *
 * A query that was read can be written for another page; the result is the
 * same query for that page, with the given cookie.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataverse/fetchxml.h"

#define PAGE 7
#define COUNT 500

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
__attribute__((noreturn))
wrong(const char *what)
{
	fprintf(stderr, "fetchxml_fuzz: %s\n", what);
	abort();
}

static void
check_page(const dv_fetchxml *query, const char *cookie)
{
	size_t		size = dv_fetchxml_page(query, PAGE, COUNT, cookie, NULL, 0) + 1;
	char	   *page = malloc(size);
	char	   *half = malloc(size / 2 + 1);
	const char *error;
	dv_fetchxml again;

	if (dv_fetchxml_page(query, PAGE, COUNT, cookie, page, size) != size - 1 ||
		strlen(page) != size - 1)
		wrong("another length");
	if (!dv_fetchxml_read(page, &again, &error))
		wrong("a page that cannot be read");
	if (again.page != PAGE || again.count != COUNT || again.top != query->top ||
		strcmp(again.entity, query->entity) != 0 || strcmp(again.content, query->content) != 0)
		wrong("a page of another query");
	if ((cookie != NULL) != (strstr(page, " paging-cookie=\"") != NULL) && cookie != NULL)
		wrong("a page without its cookie");
	/* less room than it takes */
	(void) dv_fetchxml_page(query, PAGE, COUNT, cookie, half, size / 2);
	free(half);
	free(page);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = strndup((const char *) data, size);
	char	   *cookie = malloc(strlen(text) + 1);
	bool		given = dv_fetchxml_cookie(text, cookie);
	const char *error = NULL;
	dv_fetchxml query;

	if (given && (cookie[0] == '\0' || strlen(cookie) > strlen(text)))
		wrong("a cookie that grew");
	if (dv_fetchxml_read(text, &query, &error))
	{
		check_page(&query, NULL);
		check_page(&query, text);
	}
	else if (error == NULL)
		wrong("an error without a reason");
	if (given && dv_fetchxml_read("<fetch><entity name='a'/></fetch>", &query, &error))
		check_page(&query, cookie);
	free(cookie);
	free(text);
	return 0;
}

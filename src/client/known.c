/*
 * known.c
 *		Rows that a reader of pages has received, and may receive again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/known.h"

struct dv_known_row
{
	char	   *id;
	bool		found;			/* on the current page */
};

static int
compare(const void *a, const void *b)
{
	return strcmp(((const dv_known_row *) a)->id, ((const dv_known_row *) b)->id);
}

/* Opens the answer that "page" reads once more, for the ids of its rows. */
static void
open_for_ids(dv_known *known, const dv_page *page, dv_page *ids)
{
	if (known->names == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(known->owner);

		known->names = dv_names_init(palloc(dv_names_size(&known->id, 1)), &known->id, 1);
		if (known->names == NULL)
			elog(ERROR, "invalid member name \"%s\"", known->id);
		MemoryContextSwitchTo(old);
	}
	dv_page_open(ids, known->names, page->json.text, page->json.end - page->json.text);
}

static void
forget(dv_known *known)
{
	if (known->context != NULL)
		MemoryContextDelete(known->context);
	known->context = NULL;
	known->rows = NULL;
	known->n = known->room = 0;
}

/* Keeps one row for each id; none of them has been found on the page that comes next. */
static void
remove_repeated(dv_known *known)
{
	int			n = 0;
	int			i;

	for (i = 0; i < known->n; i++)
	{
		if (n > 0 && compare(&known->rows[i], &known->rows[n - 1]) == 0)
			continue;
		known->rows[n] = known->rows[i];
		known->rows[n++].found = false;
	}
	known->n = n;
}

static void
make_room(dv_known *known)
{
	dv_known_row *larger;

	if (known->n < known->room)
		return;
	larger = palloc(sizeof(dv_known_row) * Max(2 * known->room, 64));
	if (known->n > 0)
		memcpy(larger, known->rows, sizeof(dv_known_row) * known->n);
	known->rows = larger;
	known->room = Max(2 * known->room, 64);
}

void
dv_known_add(dv_known *known, const dv_page *page)
{
	MemoryContext old;
	dv_page		ids;
	dv_value	id;

	if (page->rows == 0)
		return;
	if (known->context == NULL)
		known->context = AllocSetContextCreate(known->owner, "dataverse known rows",
											   ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(known->context);
	open_for_ids(known, page, &ids);
	while (ids.rows < page->rows && dv_page_next(&ids, &id) == DV_PAGE_ROW)
	{
		if (id.kind != DV_VALUE_STRING)
			continue;
		make_room(known);
		known->rows[known->n++].id = pnstrdup(id.text, id.len);
	}
	MemoryContextSwitchTo(old);
	qsort(known->rows, known->n, sizeof(dv_known_row), compare);
	remove_repeated(known);
}

uint64
dv_known_find(dv_known *known, const dv_page *page)
{
	uint64		last = 0;
	dv_page		ids;
	dv_value	id;

	if (known->n == 0)
		return 0;
	open_for_ids(known, page, &ids);
	while (dv_page_next(&ids, &id) == DV_PAGE_ROW)
	{
		char		text[64];
		dv_known_row key = {.id = text};
		dv_known_row *row;

		if (id.kind != DV_VALUE_STRING || id.len >= sizeof(text))
			continue;
		memcpy(text, id.text, id.len);
		text[id.len] = '\0';
		row = bsearch(&key, known->rows, known->n, sizeof(dv_known_row), compare);
		if (row == NULL)
			continue;
		row->found = true;
		last = ids.rows;
	}
	return last;
}

void
dv_known_forget_found(dv_known *known)
{
	int			n = 0;
	int			i;

	for (i = 0; i < known->n; i++)
		if (!known->rows[i].found)
			known->rows[n++] = known->rows[i];
	known->n = n;
	if (n == 0)
		forget(known);
}

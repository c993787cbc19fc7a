/*
 * page.h
 *		Pages of rows as the service answers them, read row by row.
 *
 *		names = dv_names_init(palloc(dv_names_size(wanted, n)), wanted, n);
 *		dv_page_open(&page, names, body, len);
 *		while ((step = dv_page_next(&page, values)) == DV_PAGE_ROW)
 *			... values[i] is the member wanted[i] of this row ...
 *
 * Then step is DV_PAGE_END, and page.next_link says whether there is more; or
 * DV_PAGE_BROKEN, and page.json.error and page.json.error_at say why and where.
 *
 * Only DV_PAGE_END says that the rows were all of this page.  It comes after
 * the last byte of the body was read and found right; anything else that is
 * not a row is DV_PAGE_BROKEN, and stays so.  Rows given before an error are
 * rows of the service, but a page that broke must never count as read.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PAGE_H
#define DV_PAGE_H

#include "dataverse/json_cursor.h"
#include "dataverse/names.h"

typedef enum dv_page_step
{
	DV_PAGE_ROW,
	DV_PAGE_TOMBSTONE,			/* of a delta page: page->deleted_id, page->deleted_reason */
	DV_PAGE_END,
	DV_PAGE_BROKEN
} dv_page_step;

/* Where the reader stands. */
typedef enum dv_page_state
{
	DV_PAGE_IN_FRONT,			/* before "value" */
	DV_PAGE_IN_ROWS,
	DV_PAGE_AT_END
} dv_page_state;

typedef struct dv_page
{
	/*
	 * The envelope: what the page says of pages that follow, DV_VALUE_ABSENT until its member was
	 * read.  What stands behind the rows (the links, as a rule) is known at DV_PAGE_END and not
	 * before.
	 */
	dv_value	next_link;		/* STRING, never empty */
	dv_value	delta_link;		/* STRING, never empty */
	dv_value	paging_cookie;	/* STRING: of FetchXML, encoded as it came */
	dv_value	more_records;	/* TRUE or FALSE: of FetchXML */

	/* the tombstone last given */
	dv_value	deleted_id;		/* STRING */
	dv_value	deleted_reason; /* STRING, or null */

	uint64_t	rows;			/* rows and tombstones given so far */
	dv_cursor	json;			/* DV_PAGE_BROKEN: its error says why and where */

	/* private */
	dv_names   *names;
	dv_page_state state;
	bool		value_seen;
} dv_page;

/*
 * Begins a page and reads up to its first row.  "body" must have a NUL behind
 * its last byte (dv_http_result's have) and live as long as values are used.
 * Errors show in the first dv_page_next().
 */
extern void dv_page_open(dv_page *page, dv_names *names, const char *body, size_t len);

/*
 * The next row.  "values" has room for the wanted members; NULL is allowed to
 * skip a row, which is checked all the same (but not for members given twice).
 */
extern dv_page_step dv_page_next(dv_page *page, dv_value *values);

/* Reads the rest without giving rows: DV_PAGE_END or DV_PAGE_BROKEN; page->rows counts. */
extern dv_page_step dv_page_drain(dv_page *page);

/*
 * The continuation link, found from the end of the body without reading the
 * rows, so that the next page can be asked for before this one is read.  False
 * if the body does not end as the service's do.  A guess about the body until
 * DV_PAGE_END says the same link; good for a request, not for a decision.
 */
extern bool dv_page_peek_link(const char *body, size_t len, dv_value *link);

#endif							/* DV_PAGE_H */

/*
 * page.h
 *		Reads the service's pages row by row.
 *
 *		names = dv_names_init(palloc(dv_names_size(wanted, n)), wanted, n);
 *		dv_page_open(&page, names, body, len);
 *		while ((step = dv_page_next(&page, values)) == DV_PAGE_ROW)
 *			... values[i] is the member wanted[i] of this row ...
 *
 * In the end, step is DV_PAGE_END, and page.next_link says whether more pages
 * follow; or it is DV_PAGE_BROKEN, and page.json.error and page.json.error_at
 * say why and where.
 *
 * Only DV_PAGE_END means that these were all rows of the page.  It comes after
 * the last byte of the body was read and found correct.  Everything else that
 * is not a row is DV_PAGE_BROKEN, and remains so.  Rows returned before an
 * error are genuine, but a page that broke must never count as read.
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

/* How far the page has been read. */
typedef enum dv_page_state
{
	DV_PAGE_IN_FRONT,			/* before "value" */
	DV_PAGE_IN_ROWS,
	DV_PAGE_AT_END
} dv_page_state;

typedef struct dv_page
{
	/*
	 * The envelope: information about the pages that follow.  Members are DV_VALUE_ABSENT until
	 * they have been read; those after the rows (as a rule, the links) are not known before
	 * DV_PAGE_END.
	 */
	dv_value	next_link;		/* STRING, never empty */
	dv_value	delta_link;		/* STRING, never empty */
	dv_value	paging_cookie;	/* STRING: of FetchXML, still encoded */
	dv_value	more_records;	/* TRUE or FALSE: of FetchXML */
	dv_value	metadata_version;	/* differs from that of an earlier page if a definition has
									 * changed */

	/* the tombstone returned last */
	dv_value	deleted_id;		/* STRING */
	dv_value	deleted_reason; /* STRING, or null */

	uint64_t	rows;			/* number of rows and tombstones returned so far */
	dv_cursor	json;			/* its error says why and where the page is broken */
	bool		misnamed;		/* it is broken because of a name that the service would use again */

	/* private */
	dv_names   *names;
	dv_page_state state;
	bool		value_seen;
} dv_page;

/*
 * Begins a page and reads up to its first row.  A NUL must follow the last
 * byte of "body", as in a dv_http_result, and it must live as long as its
 * values are used.  Errors are reported by the first dv_page_next().
 */
extern void dv_page_open(dv_page *page, dv_names *names, const char *body, size_t len);

/*
 * Reads the next row.  "values" must have room for the wanted members, or be
 * NULL to skip the row, which is checked nevertheless (but not for members
 * given twice).
 */
extern dv_page_step dv_page_next(dv_page *page, dv_value *values);

/* Reads the rest without returning rows; page->rows counts them.  Returns END or BROKEN. */
extern dv_page_step dv_page_drain(dv_page *page);

/*
 * Finds the continuation link from the end of the body without reading the
 * rows, so that the next page can be requested before this one is read.
 * Returns false if the body does not end as the service's bodies do.  Until
 * DV_PAGE_END confirms the link, it is a guess: good enough for a request, but
 * not for a decision.
 */
extern bool dv_page_peek_link(const char *body, size_t len, dv_value *link);

/*
 * Finds the last text that is the value of a member of this name, without
 * reading the rows: of a member of all rows, that of the last one.  This is a
 * guess, too.
 */
extern bool dv_page_peek_last(const char *body, size_t len, const char *name, dv_value *value);

/*
 * Copies the version of all definitions, empty if the page does not state it, at
 * most DV_METADATA_VERSION - 1 bytes of it.
 */
#define DV_METADATA_VERSION 64
extern void dv_page_metadata(const dv_page *page, char *out);

#endif							/* DV_PAGE_H */

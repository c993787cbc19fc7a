/*
 * pages.h
 *		All rows of a query, page after page.
 *
 * While a page is read, the next one is already on its way; there are never
 * more than these two.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PAGES_H
#define DV_PAGES_H

#include "client/call.h"
#include "dataverse/page.h"
#include "pool/progress.h"

typedef struct dv_pages dv_pages;

/* What reading took; whoever has it adds up. */
typedef struct dv_pages_stats
{
	int64		requests;		/* answered, and how often sent */
	int64		sent;
	int64		throttles;		/* answers that told to come back later */
	int64		pages;
	int64		rows;			/* received */
	int64		bytes;			/* received, as sent over the wire */
	int64		waited;			/* microseconds until answers came */
} dv_pages_stats;

typedef struct dv_pages_spec
{
	dv_session *session;
	const char *path;			/* below the service root */
	int			page_size;		/* 0: that is settled by $top */
	int64		wanted;			/* rows that will be asked for, at most; -1: all */
	const char *annotations;	/* NULL: none */
	const char *session_token;	/* of writes to see; NULL: none */
	dv_names   *names;			/* members wanted */
	const char *what;			/* "read foreign table \"account\"" */
	dv_meaning	tolerated;		/* an error that is not to be raised; OTHER: none */
	dv_pages_stats *stats;
	dv_progress *progress;		/* is told of rows received; or NULL */
} dv_pages_spec;

/* Asks for the first page.  What the spec points to must live as long as it; ended with "owner". */
extern dv_pages *dv_pages_start(const dv_pages_spec *spec, MemoryContext owner);

/*
 * The next row; false at the end.  Values are valid until the next call.
 * Raises if the service refuses, or if an answer is not whole.
 */
extern bool dv_pages_next(dv_pages *pages, dv_value *values);

/* The same without waiting. */
typedef enum dv_pages_state
{
	DV_PAGES_ROW,
	DV_PAGES_END,
	DV_PAGES_WAITING			/* for an answer: dv_call_watch */
} dv_pages_state;

extern dv_pages_state dv_pages_poll(dv_pages *pages, dv_value *values);

/* Is there an answer, or a part of one, that was not read yet? */
extern bool dv_pages_ready(const dv_pages *pages);

/* Was the end due to the error that is tolerated? */
extern bool dv_pages_refused(const dv_pages *pages);
extern void dv_pages_end(dv_pages *pages);

#endif							/* DV_PAGES_H */

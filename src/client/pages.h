/*
 * pages.h
 *		All rows of a query, page after page.
 *
 * While a page is read, the next one has already been requested, but never
 * more than these two.
 *
 * A caller that will probably need only a few rows can have these requested
 * first.  If it needs more, all rows are requested in pages, and those that it
 * already has are skipped.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PAGES_H
#define DV_PAGES_H

#include "client/call.h"
#include "dataverse/fetch.h"
#include "dataverse/page.h"
#include "pool/progress.h"

typedef struct dv_pages dv_pages;

/* Totals of the cost of reading.  The caller owns the struct; reading adds to it. */
typedef struct dv_pages_stats
{
	int64		requests;		/* answered */
	int64		sent;			/* including repetitions */
	int64		causes[DV_RETRY_CAUSES];	/* of the repetitions */
	int64		throttles;		/* answers that asked us to come back later */
	int64		pages;
	int64		rows;			/* received and read */
	int64		unread;			/* received only; see dv_pages_count_unread */
	int64		abandoned;		/* requests, repetitions included, whose answers were not awaited */
	int64		bytes;			/* received over the wire */
	int64		waited;			/* microseconds spent waiting for answers */
	int64		ranges;			/* of ids that were read one beside the other; see ranges.h */
	int			most_ranges;	/* at a time */
} dv_pages_stats;

/*
 * Returns the path of a page of FetchXML, given its number, counted from 1,
 * and the cookie of the previous page.
 */
typedef char *(*dv_pages_linker) (void *arg, int number, const char *cookie);

/*
 * Called with each page of a query for all rows, before its rows are returned;
 * "more" is true if another page seems to follow.  In that case, the result is
 * true if it should be requested at once, instead of at the end of this page.
 */
typedef bool (*dv_pages_watcher) (void *arg, const char *body, size_t len, bool more);

typedef struct dv_pages_spec
{
	dv_session *session;
	const char *path;			/* below the service root */
	const char *first_path;		/* the same query for the first rows only; NULL: none */
	int64		first;			/* then: their number */
	const char *id;				/* member that ends the order of the rows and differs in each of
								 * them; NULL: there is none */
	int			page_size;		/* 0: $top limits the rows */
	int64		wanted;			/* the most rows that the caller will fetch; -1: all */
	double		likely;			/* the number that it will probably fetch; -1: all */
	const char *annotations;	/* NULL: none */
	const char *session_token;	/* consistency token of the writes that must be seen, or NULL */
	dv_names   *names;			/* members wanted */
	bool		computed;		/* rows are computed from others: the time that this takes says
								 * nothing about other reads */
	const char *what;			/* "read foreign table \"account\"" */
	bool		track_changes;	/* the service must end the rows with a delta link */
	bool		by_page;		/* the caller wants to know where each page ends, and what is
								 * deleted */
	bool		tentative;		/* it may end after the first page: the second one is not
								 * requested before its rows are wanted */
	const char *way_out;		/* hint for errors that a query of another kind would avoid; or
								 * NULL */
	bool		has_plainer;	/* the query has a plainer form: see dv_pages_refusal */
	bool		is_stored;		/* the path has a link or token that was stored, which the service
								 * may not know any more: see dv_pages_refusal */
	bool		is_fetchxml;	/* pages are numbered instead of linked */
	dv_pages_linker linker;		/* then: leads from page to page; NULL: a single page */
	void	   *linker_arg;
	dv_pages_stats *stats;
	bool		counts_unread;	/* unread rows are counted at once; see ranges.c */
	dv_progress *progress;		/* updated with the rows received; or NULL */
	char	   *metadata;		/* gets what dv_page_metadata says of each page that has been
								 * read; or NULL */
	dv_pages_watcher watcher;	/* decides instead of "wanted" and "likely"; or NULL */
	void	   *watcher_arg;
} dv_pages_spec;

/*
 * Returns the path of a query in its language, allocated in the current memory
 * context; for FetchXML, that of a page, or of the first rows (NULL).
 */
extern char *dv_query_path(const dv_query *query, dv_odata_style style, const dv_fetch_page *page);

/* Returns the bytes of the path as it is sent. */
extern size_t dv_query_bytes(const dv_query *query);

/*
 * Requests the first page.  The memory that the spec points to must live as
 * long as the result, which is ended with "owner".
 */
extern dv_pages *dv_pages_start(const dv_pages_spec *spec, MemoryContext owner);

/*
 * Fetches the next row; returns false at the end.  Values are valid until the
 * next call.  Raises an error if the service refuses the query, or if an
 * answer is incomplete.
 */
extern bool dv_pages_next(dv_pages *pages, dv_value *values);

/* The same without waiting. */
typedef enum dv_pages_state
{
	DV_PAGES_ROW,
	DV_PAGES_END,
	DV_PAGES_WAITING,			/* for an answer; see dv_call_watch */
	/* only with "by_page" */
	DV_PAGES_TOMBSTONE,			/* see dv_pages_page */
	DV_PAGES_TURNED				/* all rows of a page have been returned */
} dv_pages_state;

extern dv_pages_state dv_pages_poll(dv_pages *pages, dv_value *values);

/* Returns true if dv_pages_poll would not return DV_PAGES_WAITING. */
extern bool dv_pages_ready(const dv_pages *pages);

/*
 * To be called when no more rows are needed, before the memory is freed: tells the
 * pool how many rows of the current page have been read.
 */
extern void dv_pages_leave(dv_pages *pages);

/* Returns the number of its requests that the service is working on. */
extern int	dv_pages_in_flight(const dv_pages *pages);

/*
 * For a query with a plainer form, or with a path that was stored: if the service
 * has refused the query altogether, no rows are returned, and this returns the error,
 * which lives as long as the pages.  Otherwise NULL.
 */
extern const dv_error *dv_pages_refusal(const dv_pages *pages);

/*
 * Returns true if this page is a retry of a partly consumed one.  Rows that
 * were inserted meanwhile before the last returned row may then be returned,
 * unless that row still exists.
 */
extern bool dv_pages_repeated(const dv_pages *pages);

/* For FetchXML with a single page: returns true if the service has more rows than it returned. */
extern bool dv_pages_cut_short(const dv_pages *pages);

/*
 * Counts the unread rows of the current page, and the requests with unread
 * answers, unless this has been done.  To be called when no more rows will be
 * read; it takes as long as reading them.
 */
extern void dv_pages_count_unread(dv_pages *pages);

/* Counts a request whose answer has arrived. */
extern void dv_pages_count_answer(dv_pages_stats *stats, const dv_call *call);

/*
 * With "by_page": the last page read, with the id of its tombstone and its
 * delta link, and after DV_PAGES_TURNED the link to the next page, or NULL if
 * this was the last one.  They live until the next step, or the end of the
 * pages.
 */
extern const dv_page *dv_pages_page(const dv_pages *pages);
extern const char *dv_pages_link(const dv_pages *pages);

/* The same as dv_pages_poll, but waits, so that it does not return DV_PAGES_WAITING. */
extern dv_pages_state dv_pages_step(dv_pages *pages, dv_value *values);

extern void dv_pages_end(dv_pages *pages);

#endif							/* DV_PAGES_H */

/*
 * pages.c
 *		All rows of a query, page after page.
 *
 * Before the rows of a page are read, its end is searched for the link to the
 * next page, which is requested at once.  That is a guess: when the page has
 * been read to its end, the link found there decides, and the request made
 * ahead is used only if it was for the same link.
 *
 * An incomplete page is an error; it never looks like the end of the rows.  A
 * link that leads back to the page it came with is an error, too.
 *
 * A URL that is too long for a request line goes into a $batch of one part.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "client/chain.h"
#include "client/pages.h"
#include "client/trouble.h"
#include "dataverse/batch.h"
#include "dataverse/header.h"
#include "dataverse/multipart.h"
#include "dataverse/odata.h"

/* While rows are read, data is fetched from the sockets once for this many rows. */
#define ADVANCE_EVERY 256

/* The request for a page, whose answer is awaited or being read. */
typedef struct page_request
{
	dv_call    *call;			/* NULL: none */
	MemoryContext context;		/* of the call and of everything that belongs to it */
	char	   *url;
	bool		batched;
} page_request;

struct dv_pages
{
	dv_pages_spec spec;
	MemoryContext context;
	page_request now;
	page_request ahead;
	bool		open;			/* "page" reads the answer of "now" */
	bool		done;
	bool		begun;			/* the service has answered the query with a page */
	const dv_error *refusal;	/* see dv_pages_refusal */
	dv_page		page;
	dv_chain	chain;			/* of the links to the pages */
	int64		given;			/* rows returned to the caller */
	int64		waiting_since;	/* when the caller first wanted the answer of "now"; 0: not yet */
	uint32		since_advance;
};

/* Puts the request into a $batch, where a URL can be twice as long. */
static void
make_batch(const dv_pages *pages, const char *url, dv_call_spec *spec)
{
	const char **headers = palloc0(2 * sizeof(char *));
	const char *whole = dv_session_url(pages->spec.session, url);
	StringInfoData body;

	if (strlen(url) > DV_ODATA_MAX_BATCH_URL)
		ereport(ERROR,
				(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				 errmsg("could not %s: the query is too long for Dataverse", pages->spec.what),
				 errhint("Shorten the constants of the WHERE clause, or put them in a table and join.")));
	initStringInfo(&body);
	dv_batch_read(whole, spec->headers, &body, &headers[0]);
	spec->method = "POST";
	spec->path = "$batch";
	spec->table = dv_call_table(pages->spec.session, whole);
	spec->headers = headers;
	spec->body = body.data;
	spec->body_len = body.len;
	spec->in_batch = true;
}

static void
send_request(dv_pages *pages, page_request *r, const char *url)
{
	dv_call_spec spec = {.method = "GET", .kind = DV_KIND_READ, .repeatable = true};
	MemoryContext old;

	r->context = AllocSetContextCreate(pages->context, "dataverse page", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(r->context);
	r->url = pstrdup(url);
	spec.path = r->url;
	spec.headers = dv_headers_of_page(pages->spec.page_size, pages->spec.annotations,
									  pages->spec.session_token);
	spec.rows = pages->spec.page_size;
	/* the service root, which may precede the path, counts as well */
	r->batched = strlen(url) + strlen(dv_session_root(pages->spec.session)) > DV_ODATA_MAX_URL;
	if (r->batched)
		make_batch(pages, r->url, &spec);
	r->call = dv_call_start(pages->spec.session, &spec, r->context);
	MemoryContextSwitchTo(old);
	dv_call_advance();
}

static void
drop_request(page_request *r)
{
	if (r->context != NULL)
		MemoryContextDelete(r->context);
	memset(r, 0, sizeof(*r));
}

dv_pages *
dv_pages_start(const dv_pages_spec *spec, MemoryContext owner)
{
	MemoryContext context = AllocSetContextCreate(owner, "dataverse pages", ALLOCSET_SMALL_SIZES);
	dv_pages   *pages = MemoryContextAllocZero(context, sizeof(*pages));

	pages->spec = *spec;
	pages->context = context;
	send_request(pages, &pages->now, spec->path);
	return pages;
}

void
dv_pages_end(dv_pages *pages)
{
	MemoryContextDelete(pages->context);
}

const dv_error *
dv_pages_refusal(const dv_pages *pages)
{
	return pages->refusal;
}

static void
not_whole(const dv_pages *pages, const char *why, size_t at)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
			 errmsg("could not %s: an answer from Dataverse was incomplete", pages->spec.what),
			 errdetail("At byte " UINT64_FORMAT ": %s.", (uint64) at, why)));
}

/* Does the service say that it cannot answer the query as it is put? */
static bool
is_about_query(const dv_error *error)
{
	return error->verdict == DV_VERDICT_REFUSED && (error->status == 400 || error->status == 501);
}

/* Raises an error of the service, unless the caller can put the query more plainly. */
static void
refused(dv_pages *pages, const dv_error *error)
{
	if (pages->spec.has_plainer && !pages->begun && is_about_query(error))
	{
		pages->refusal = error;
		pages->done = true;
		return;
	}
	dv_trouble_raise(error, dv_session_config_of(pages->spec.session)->server_name,
					 pages->spec.what);
}

/* Extracts the answer from a $batch.  It is copied, because pages must end with a NUL. */
static void
unpack_batch(dv_pages *pages, const dv_http_result *result, const char **body, size_t *len)
{
	dv_multipart multipart;
	dv_part		part;
	dv_part		end;
	char	   *copy;

	if (!dv_multipart_open(&multipart, dv_call_header(pages->now.call, "Content-Type"),
						   result->body, result->body_len) ||
		dv_multipart_next(&multipart, &part) != DV_PART)
		not_whole(pages, "a part of a batch expected", 0);
	if (dv_multipart_next(&multipart, &end) != DV_PART_END)
		not_whole(pages, "the end of a batch expected", result->body_len);
	copy = MemoryContextAllocHuge(pages->now.context, part.body.len + 1);
	memcpy(copy, part.body.s, part.body.len);
	copy[part.body.len] = '\0';
	*body = copy;
	*len = part.body.len;
}

/*
 * When a subtransaction is rolled back, the requests made in it are stopped,
 * even those of a cursor that was opened outside of it and is still in use.
 */
static bool
was_abandoned(const dv_call *call)
{
	const dv_error *error = dv_call_error(call);

	return error->verdict == DV_VERDICT_REFUSED && error->status == 0 &&
		error->sqlstate == ERRCODE_QUERY_CANCELED;
}

/*
 * Returns true if the caller will need more than the current page, which holds
 * page_size rows unless it is the last one.
 */
static bool
more_is_wanted(const dv_pages *pages)
{
	return pages->spec.wanted < 0 || pages->given + pages->spec.page_size < pages->spec.wanted;
}

static void
tell_progress(const dv_pages *pages, int in_flight)
{
	if (pages->spec.progress != NULL)
		dv_progress_read(pages->spec.progress, pages->spec.stats->rows, in_flight);
}

/* Returns true if the answer of "now" has come.  Measures the time spent waiting. */
static bool
has_arrived(dv_pages *pages)
{
	int64		now = dv_now();

	if (pages->waiting_since == 0)
	{
		pages->waiting_since = now;
		tell_progress(pages, 1);
	}
	if (!dv_call_done(pages->now.call))
		dv_call_advance();
	if (dv_call_done(pages->now.call) && was_abandoned(pages->now.call))
	{
		char	   *url = MemoryContextStrdup(pages->context, pages->now.url);

		drop_request(&pages->now);
		send_request(pages, &pages->now, url);
		pfree(url);
	}
	if (!dv_call_done(pages->now.call))
		return false;
	pages->spec.stats->waited += dv_now() - pages->waiting_since;
	pages->waiting_since = 0;
	return true;
}

/* Begins to read the answer of "now", and requests the next page. */
static void
open_page(dv_pages *pages)
{
	dv_pages_stats *stats = pages->spec.stats;
	const dv_http_result *result;
	const char *body;
	size_t		len;
	dv_value	link;

	stats->requests++;
	stats->sent += dv_call_attempts(pages->now.call);
	dv_call_add_causes(pages->now.call, stats->causes);
	stats->throttles += dv_call_throttles(pages->now.call);
	if (dv_call_error(pages->now.call)->verdict != DV_VERDICT_OK)
	{
		refused(pages, dv_call_error(pages->now.call));
		return;
	}
	result = dv_call_result(pages->now.call);
	stats->bytes += result->bytes_received;
	body = result->body;
	len = result->body_len;
	if (pages->now.batched)
		unpack_batch(pages, result, &body, &len);
	stats->pages++;
	pages->begun = true;
	if (more_is_wanted(pages) && dv_page_peek_link(body, len, &link) && !link.escaped)
	{
		char	   *url = pnstrdup(link.text, link.len);

		send_request(pages, &pages->ahead, url);
		pfree(url);
	}
	tell_progress(pages, pages->ahead.call != NULL);
	dv_page_open(&pages->page, pages->spec.names, body, len);
	pages->open = true;
}

/* At the end of a page, goes on to the next one, if any. */
static void
turn_page(dv_pages *pages)
{
	const dv_value *link = &pages->page.next_link;
	char	   *url;
	size_t		len;

	pages->open = false;
	if (dv_value_is_null(link))
	{
		pages->done = true;
		drop_request(&pages->ahead);
		return;
	}
	url = palloc(link->len + 1);
	if (dv_value_string(link, url, &len) != DV_VALUE_OK)
		not_whole(pages, "a link expected", pages->now.batched ? 0 : link->text - pages->page.json.text);
	url[len] = '\0';
	if (strcmp(url, pages->now.url) == 0 ||
		dv_chain_leads_back(&pages->chain, pages->context, url))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s: Dataverse returned the same page again", pages->spec.what),
				 errdetail("The link to the next page leads back to a page that has been read.")));
	if (pages->ahead.call == NULL || strcmp(pages->ahead.url, url) != 0)
	{
		drop_request(&pages->ahead);
		send_request(pages, &pages->ahead, url);
	}
	pfree(url);
	drop_request(&pages->now);
	pages->now = pages->ahead;
	memset(&pages->ahead, 0, sizeof(pages->ahead));
}

bool
dv_pages_ready(const dv_pages *pages)
{
	return pages->done || pages->open || dv_call_done(pages->now.call);
}

dv_pages_state
dv_pages_poll(dv_pages *pages, dv_value *values)
{
	while (!pages->done)
	{
		CHECK_FOR_INTERRUPTS();
		if (!pages->open)
		{
			if (!has_arrived(pages))
				return DV_PAGES_WAITING;
			open_page(pages);
			continue;
		}
		if (++pages->since_advance % ADVANCE_EVERY == 0 && pages->ahead.call != NULL)
			dv_call_advance();
		switch (dv_page_next(&pages->page, values))
		{
			case DV_PAGE_ROW:
				pages->spec.stats->rows++;
				pages->given++;
				return DV_PAGES_ROW;
			case DV_PAGE_TOMBSTONE:
				break;
			case DV_PAGE_END:
				turn_page(pages);
				break;
			case DV_PAGE_BROKEN:
				not_whole(pages, pages->page.json.error, pages->page.json.error_at);
		}
	}
	return DV_PAGES_END;
}

bool
dv_pages_next(dv_pages *pages, dv_value *values)
{
	dv_pages_state state;

	while ((state = dv_pages_poll(pages, values)) == DV_PAGES_WAITING)
		dv_call_wait(pages->now.call);
	return state == DV_PAGES_ROW;
}

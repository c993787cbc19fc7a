/*
 * pages.c
 *		All rows of a query, page after page.
 *
 * Before the rows of a page are read, its end is searched for the link to the
 * next page, which is requested at once.  This is speculative: when the page
 * has been read to its end, the link found there decides, and the early
 * request is used only if it was for the same link.
 *
 * A page is an answer with status 200 that is correct to its last byte; nothing
 * else is ever taken for the end of the rows.  Any other answer is requested
 * again, within the retries of a request.  When a page turns out to be broken,
 * the caller may already have some of its rows.  These are skipped in the page
 * that replaces it: all rows up to the last one that the caller has.  Rows among
 * them that it does not have are new, and a page that begins after a row does
 * not return new rows before it, either.  If so many rows are new that those
 * that the caller has are no longer all on this page, the others are skipped in
 * later pages.  This requires rows that can be distinguished and have an order.
 * Otherwise a page is checked to its end before any of its rows are returned.
 *
 * A link that leads back to its own page is an error.
 *
 * With FetchXML, the next page is requested by its number and by the cookie of
 * this one, which replaces the link.  For some queries the service returns no
 * cookies; their pages are requested only by their numbers.
 *
 * A URL that is too long for a request line is sent in a $batch of one part.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "client/chain.h"
#include "client/known.h"
#include "client/pages.h"
#include "client/trouble.h"
#include "dataverse/batch.h"
#include "dataverse/fetchxml.h"
#include "dataverse/header.h"
#include "dataverse/multipart.h"
#include "dataverse/odata.h"

/* While rows are read, data is fetched from the sockets once for this many rows. */
#define ADVANCE_EVERY 256
/* The number of rows that FetchXML can return in pages without cookies. */
#define MOST_WITHOUT_COOKIES 50000

/* The request for a page, whose answer is awaited or being read. */
typedef struct page_request
{
	dv_call    *call;			/* NULL: none, or with a URL, not sent yet */
	MemoryContext context;		/* of the call and everything that belongs to it */
	char	   *url;
	bool		batched;
	bool		counted;		/* in the stats */
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
	bool		first;			/* "now" is the request for the first rows only */
	dv_known	known;			/* rows that the caller has, and may get again */
	dv_page		page;
	dv_chain	chain;			/* of the links to the pages, or of their cookies */
	int			number;			/* of the current page, from 1 */
	bool		cut_short;		/* see dv_pages_cut_short */
	bool		unread_counted; /* see dv_pages_count_unread */
	bool		unannounced;	/* the previous page did not announce this one */
	bool		reread;			/* this happened, so the first page was requested again */
	int64		given;			/* rows returned to the caller */
	int			told_in_flight; /* requests under way, in the progress view */
	int64		waiting_since;	/* when the caller first needed the answer of "now"; 0: not yet */
	uint32		since_advance;
};

static size_t
write_query(const dv_query *query, dv_odata_style style, const dv_fetch_page *page, char *out,
			size_t size)
{
	return query->language == DV_LANGUAGE_FETCHXML ? dv_fetch_query(query, style, page, out, size) :
		dv_odata_query(query, style, out, size);
}

char *
dv_query_path(const dv_query *query, dv_odata_style style, const dv_fetch_page *page)
{
	size_t		len = write_query(query, style, page, NULL, 0);
	char	   *path = palloc(len + 1);

	write_query(query, style, page, path, len + 1);
	return path;
}

size_t
dv_query_bytes(const dv_query *query)
{
	return write_query(query, DV_ODATA_WIRE, NULL, NULL, 0);
}

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
				 errmsg("could not %s on server \"%s\": the query is too long for Dataverse", pages->spec.what,
						dv_session_config_of(pages->spec.session)->server_name),
				 errhint("Shorten the constants of the WHERE clause, or put them in a table and join.")));
	initStringInfo(&body);
	dv_batch_read(whole, spec->headers, &body, &headers[0]);
	spec->method = "POST";
	spec->path = "$batch";
	spec->table = dv_session_table(pages->spec.session, whole);
	spec->headers = headers;
	spec->body = body.data;
	spec->body_len = body.len;
	spec->in_batch = true;
}

/* "history" and "delay" apply to a page that is requested again. */
static void
send_request(dv_pages *pages, page_request *r, const char *url, const dv_retry *history,
			 int64 delay)
{
	dv_call_spec spec = {.method = "GET", .kind = DV_KIND_READ, .repeatable = true};
	int			page_size = pages->first || pages->spec.is_fetchxml ? 0 : pages->spec.page_size;
	MemoryContext old;

	spec.history = history;
	spec.delay = delay;
	r->context = AllocSetContextCreate(pages->context, "dataverse page", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(r->context);
	r->url = pstrdup(url);
	spec.path = r->url;
	spec.headers = dv_headers_of_page(page_size, pages->spec.track_changes,
									  pages->spec.annotations, pages->spec.session_token);
	spec.rows = page_size;
	/* the service root, which may precede the path, counts as well */
	r->batched = strlen(url) + strlen(dv_session_root(pages->spec.session)) > DV_ODATA_MAX_URL;
	if (r->batched)
		make_batch(pages, r->url, &spec);
	r->call = dv_call_start(pages->spec.session, &spec, r->context);
	MemoryContextSwitchTo(old);
	dv_call_advance();
}

/* Counts the request as abandoned, unless its answer has been counted. */
static void
count_abandoned(dv_pages *pages, page_request *r)
{
	if (r->call != NULL && !r->counted)
		pages->spec.stats->abandoned += dv_call_attempts(r->call);
	r->counted = true;
}

static void
drop_request(dv_pages *pages, page_request *r)
{
	count_abandoned(pages, r);
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
	pages->known.owner = context;
	pages->known.id = spec->id;
	pages->told_in_flight = -1;
	pages->first = spec->first_path != NULL;
	pages->number = 1;
	send_request(pages, &pages->now, pages->first ? spec->first_path : spec->path, NULL, 0);
	return pages;
}

void
dv_pages_end(dv_pages *pages)
{
	drop_request(pages, &pages->now);
	drop_request(pages, &pages->ahead);
	MemoryContextDelete(pages->context);
}

const dv_error *
dv_pages_refusal(const dv_pages *pages)
{
	return pages->refusal;
}

/* Skips the rows of the page just opened that the caller already has. */
static void
skip_known(dv_pages *pages)
{
	uint64		last = dv_known_find(&pages->known, &pages->page);

	while (pages->page.rows < last && dv_page_next(&pages->page, NULL) == DV_PAGE_ROW)
		pages->spec.stats->unread++;
}

/*
 * Answers that are not pages
 */

/* "at" is the position in the answer, or negative if the error concerns the whole answer. */
static void
not_whole(const dv_pages *pages, const char *why, int64 at)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
			 errmsg("could not %s on server \"%s\": an answer from Dataverse was incomplete", pages->spec.what,
					dv_session_config_of(pages->spec.session)->server_name),
			 at < 0 ? errdetail("%s.", why) : errdetail("At byte " UINT64_FORMAT ": %s.", (uint64) at, why),
			 at == 0 ? errhint(DV_ANSWER_HINT) : 0));
}

/* A value under another name than the requested one would be read as null. */
static void
misnamed(const dv_pages *pages)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
			 errmsg("could not %s on server \"%s\": Dataverse does not name columns of joined tables as requested",
					pages->spec.what, dv_session_config_of(pages->spec.session)->server_name),
			 pages->spec.way_out != NULL ? errhint("%s", pages->spec.way_out) : 0));
}

/*
 * Requests the current page again, because its answer was not a page, or raises
 * an error if no retries are left.
 */
static void
request_again(dv_pages *pages, const char *why, int64 at)
{
	const dv_call *call = pages->now.call;
	dv_retry	history = *dv_call_history(call);
	dv_error	error = {.verdict = DV_VERDICT_RETRY, .meaning = DV_MEANING_SERVER,
	.retry_after = -1, .code = "", .message = why};
	dv_attempt	attempt = {.user = dv_call_user(call), .sent_at = dv_call_sent_at(call),
	.repeatable = true};
	dv_retry_decision decision = {.next = DV_NEXT_END};
	char	   *url;

	if (pages->page.misnamed)
		misnamed(pages);
	if (pages->open && pages->spec.id != NULL)
		dv_known_add(&pages->known, &pages->page);
	if (!pages->open || pages->spec.id != NULL || pages->page.rows == 0)
		decision = dv_trouble_decide(pages->spec.session, &history, &error, &attempt);
	if (decision.next != DV_NEXT_AGAIN)
		not_whole(pages, why, at);
	pages->open = false;
	/* counted as an answer only once it is a page */
	pages->spec.stats->requests--;
	url = pstrdup(pages->now.url);
	drop_request(pages, &pages->now);
	send_request(pages, &pages->now, url, &history, decision.delay);
	pfree(url);
}

/*
 * Returns true if the service says that it cannot answer the query in this form.
 * For some tables (logs, audits) it does so with an internal error, every time.
 * Gateways do not use the codes of such errors.
 */
static bool
is_about_query(const dv_error *error)
{
	if (error->verdict == DV_VERDICT_RETRY)
		return error->status == 500 && error->code[0] != '\0';
	return error->verdict == DV_VERDICT_REFUSED && (error->status == 400 || error->status == 501);
}

/*
 * Returns true if the service says that the request is wrong.  An expired token, and a table
 * that is not tracked, have SQLSTATEs of their own.
 */
static bool
is_about_request(const dv_error *error)
{
	return error->verdict == DV_VERDICT_REFUSED && error->status >= 400 && error->status < 500 &&
		error->status != 401 && error->status != 403 && error->status != 429 &&
		error->sqlstate != DV_SQLSTATE_TOKEN_EXPIRED && error->sqlstate != DV_SQLSTATE_NOT_TRACKED &&
		!dv_error_is_about_user(error);
}

/* Returns true if the caller can send another query instead of the one that is refused. */
static bool
can_be_replaced(const dv_pages *pages, const dv_error *error)
{
	if (pages->begun)
		return false;
	return (pages->spec.has_plainer && is_about_query(error)) ||
		(pages->spec.is_stored && is_about_request(error));
}

/* Raises an error of the service, unless the caller can do without the answer. */
static void
refused(dv_pages *pages, const dv_error *error)
{
	dv_error	raised;

	if (can_be_replaced(pages, error))
	{
		pages->refusal = error;
		pages->done = true;
		return;
	}
	raised = *error;
	if (raised.hint == NULL && is_about_query(error))
		raised.hint = pages->spec.way_out;
	dv_trouble_raise(&raised, dv_session_config_of(pages->spec.session),
					 pages->spec.what);
}

/*
 * Extracts the answer from a $batch.  It is copied, because pages must end with a
 * NUL.  Returns what is wrong with the batch, or NULL.
 */
static const char *
unpack_batch(dv_pages *pages, const dv_http_result *result, int *status, const char **body,
			 size_t *len)
{
	dv_multipart multipart;
	dv_part		part;
	dv_part		end;
	char	   *copy;

	if (!dv_multipart_open(&multipart, dv_call_header(pages->now.call, "Content-Type"),
						   result->body, result->body_len) ||
		dv_multipart_next(&multipart, &part) != DV_PART)
		return "It does not contain the part of a batch";
	if (dv_multipart_next(&multipart, &end) != DV_PART_END)
		return "The batch does not end where it should";
	copy = MemoryContextAllocHuge(pages->now.context, part.body.len + 1);
	memcpy(copy, part.body.s, part.body.len);
	copy[part.body.len] = '\0';
	*status = part.status;
	*body = copy;
	*len = part.body.len;
	return NULL;
}

/*
 * Returns true if the caller will probably need more than the current page, which
 * holds page_size rows unless it is the last one.
 */
static bool
more_is_wanted(const dv_pages *pages)
{
	const dv_pages_spec *spec = &pages->spec;
	int64		then = pages->given + spec->page_size;

	if (spec->wanted >= 0 && then >= spec->wanted)
		return false;
	/* a prediction that has proved wrong is ignored */
	return spec->likely < 0 || then < spec->likely || pages->given >= spec->likely;
}

int
dv_pages_in_flight(const dv_pages *pages)
{
	return dv_call_in_flight(pages->now.call) + dv_call_in_flight(pages->ahead.call);
}

static void
tell_progress(dv_pages *pages)
{
	pages->told_in_flight = dv_pages_in_flight(pages);
	dv_progress_read(pages->spec.progress, pages->spec.stats->requests, pages->spec.stats->rows,
					 pages->told_in_flight);
}

/* Returns true if the answer of "now" has come.  Measures the time spent waiting. */
static bool
has_arrived(dv_pages *pages)
{
	int64		now = dv_now();

	if (pages->waiting_since == 0)
		pages->waiting_since = now;
	if (pages->now.call == NULL)
		send_request(pages, &pages->now, pages->now.url, NULL, 0);
	if (!dv_call_done(pages->now.call))
		dv_call_advance();
	/* a request that waited for a slot may have left */
	if (dv_pages_in_flight(pages) != pages->told_in_flight)
		tell_progress(pages);
	if (dv_call_done(pages->now.call) && dv_call_stopped(pages->now.call))
	{
		char	   *url = MemoryContextStrdup(pages->context, pages->now.url);

		drop_request(pages, &pages->now);
		send_request(pages, &pages->now, url, NULL, 0);
		pfree(url);
	}
	if (!dv_call_done(pages->now.call))
		return false;
	pages->spec.stats->waited += dv_now() - pages->waiting_since;
	pages->waiting_since = 0;
	return true;
}

/*
 * Finds the page in the answer of "now".  Returns what is wrong with it, or NULL.
 * Only 200 means a page: other 2xx statuses, and 304, come from something between
 * us and the service, with a body that may look like one.
 */
static const char *
find_page(dv_pages *pages, const char **body, size_t *len)
{
	const dv_http_result *result = dv_call_result(pages->now.call);
	const char *wrong = NULL;
	int			status = result->status;

	*body = result->body;
	*len = result->body_len;
	if (pages->now.batched && status == 200)
		wrong = unpack_batch(pages, result, &status, body, len);
	if (wrong == NULL && status != 200)
		wrong = psprintf("It has HTTP status %d, not 200", status);
	return wrong;
}

/*
 * Returns the probable link to the next page, or NULL. With FetchXML, the
 * cookie is known if it precedes the rows.
 */
static char *
guess_next(dv_pages *pages, const char *body, size_t len)
{
	dv_value	link;

	if (pages->spec.is_fetchxml)
	{
		char	   *cookie = pages->spec.linker != NULL ? dv_chain_cookie(&pages->page) : NULL;
		char	   *url;

		if (cookie == NULL)
			return NULL;
		url = pages->spec.linker(pages->spec.linker_arg, pages->number + 1, cookie);
		pfree(cookie);
		return url;
	}
	if (!dv_page_peek_link(body, len, &link) || link.escaped)
		return NULL;
	return pnstrdup(link.text, link.len);
}

/* Is it uncertain whether the caller wants a second page? */
static bool
hesitates(const dv_pages *pages)
{
	return pages->spec.tentative && pages->number == 1;
}

/* Requests the next page, if one probably exists. */
static void
look_ahead(dv_pages *pages, const char *body, size_t len)
{
	page_request *ahead = &pages->ahead;
	char	   *url;
	bool		wanted;

	if (pages->first || hesitates(pages))
		return;
	url = guess_next(pages, body, len);
	wanted = pages->spec.watcher == NULL ? more_is_wanted(pages) :
		pages->spec.watcher(pages->spec.watcher_arg, body, len, url != NULL);
	if (url != NULL && !wanted)
		pfree(url);
	if (url == NULL || !wanted)
		return;
	/* when this page is requested again, the next one is already on its way */
	if (ahead->call != NULL && strcmp(ahead->url, url) != 0)
		drop_request(pages, ahead);
	if (ahead->call == NULL)
		send_request(pages, ahead, url, NULL, 0);
	pfree(url);
}

/*
 * Tells the pool how long an answer took.  This is known only if the backend was
 * reading: if the answer waited in the socket, or its sender was blocked because
 * it was not read, the duration is that of this backend.
 */
static void
note_duration(const dv_pages *pages)
{
	const dv_http_result *result = dv_call_result(pages->now.call);

	if (dv_http_is_measured(result) && !pages->spec.computed)
		dv_pool_note_answer(dv_session_pool(pages->spec.session), dv_call_user(pages->now.call),
							(int64) result->body_len, result->duration);
}

void
dv_pages_count_answer(dv_pages_stats *stats, const dv_call *call)
{
	stats->requests++;
	stats->sent += dv_call_attempts(call);
	dv_call_add_causes(call, stats->causes);
	stats->throttles += dv_call_throttles(call);
}

/* Begins to read the answer of "now", and requests the next page. */
static void
open_page(dv_pages *pages)
{
	dv_pages_stats *stats = pages->spec.stats;
	const char *wrong;
	const char *body;
	size_t		len;

	dv_pages_count_answer(stats, pages->now.call);
	pages->now.counted = true;
	if (dv_call_error(pages->now.call)->verdict != DV_VERDICT_OK)
	{
		refused(pages, dv_call_error(pages->now.call));
		return;
	}
	stats->bytes += dv_call_result(pages->now.call)->bytes_received;
	wrong = find_page(pages, &body, &len);
	if (wrong != NULL)
	{
		request_again(pages, wrong, -1);
		return;
	}
	if (pages->spec.id == NULL)
	{
		dv_page_open(&pages->page, pages->spec.names, body, len);
		if (dv_page_drain(&pages->page) != DV_PAGE_END)
		{
			request_again(pages, pages->page.json.error, pages->page.json.error_at);
			return;
		}
	}
	note_duration(pages);
	stats->pages++;
	dv_page_open(&pages->page, pages->spec.names, body, len);
	look_ahead(pages, body, len);
	tell_progress(pages);
	pages->open = true;
	skip_known(pages);
}

/*
 * Returns true if the page announces another one in any way.  With FetchXML, the
 * last one has neither of the annotations.
 */
static bool
says_more(const dv_pages *pages)
{
	const dv_page *page = &pages->page;

	if (!dv_value_is_null(&page->more_records))
		return page->more_records.kind == DV_VALUE_TRUE;
	if (!dv_value_is_null(&page->next_link))
		return true;
	return pages->spec.linker != NULL && page->rows > 0 && !dv_value_is_null(&page->paging_cookie);
}

/* The first rows have all been read.  Unless there were fewer, requests all rows. */
static void
leave_first(dv_pages *pages)
{
	if (pages->page.rows < (uint64) pages->spec.first && !says_more(pages))
	{
		pages->done = true;
		return;
	}
	dv_known_add(&pages->known, &pages->page);
	pages->first = false;
	drop_request(pages, &pages->now);
	send_request(pages, &pages->now, pages->spec.path, NULL, 0);
}

/*
 * If something removes the request for annotations, every page looks like the
 * last one.  A first page with as many rows as requested is therefore verified.
 */
static bool
may_be_silenced(const dv_pages *pages)
{
	return pages->spec.linker != NULL && pages->number == 1 &&
		dv_value_is_null(&pages->page.more_records) &&
		pages->page.rows >= (uint64) pages->spec.page_size;
}

/*
 * Without a cookie, the service finds pages by their numbers, but only up to
 * this number of rows.
 */
static void
check_reach(const dv_pages *pages)
{
	if ((pages->number + 1) * (int64) pages->spec.page_size <= MOST_WITHOUT_COOKIES)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_EXECUTION),
			 errmsg("could not %s on server \"%s\": the query returns more than %d rows, and Dataverse provides no paging cookies for it",
					pages->spec.what, dv_session_config_of(pages->spec.session)->server_name,
					MOST_WITHOUT_COOKIES),
			 pages->spec.way_out != NULL ? errhint("%s", pages->spec.way_out) : 0));
}

/* The same as find_next, for FetchXML. */
static char *
find_next_number(dv_pages *pages, char **chained, const char **wrong)
{
	pages->cut_short = says_more(pages);
	pages->unannounced = !pages->cut_short && may_be_silenced(pages);
	if (pages->unannounced)
	{
		*chained = pages->spec.linker(pages->spec.linker_arg, pages->number + 1, NULL);
		return *chained;
	}
	if (!pages->cut_short)
		return NULL;
	if (pages->spec.linker == NULL)
	{
		if (pages->given < pages->spec.wanted)
			*wrong = "It ends before all requested rows have been returned";
		return NULL;
	}
	*chained = dv_chain_cookie(&pages->page);
	if (*chained != NULL)
		return pages->spec.linker(pages->spec.linker_arg, pages->number + 1, *chained);
	/* only a full page can announce another one */
	if (dv_value_is_null(&pages->page.paging_cookie) &&
		pages->page.rows >= (uint64) pages->spec.page_size)
	{
		check_reach(pages);
		*chained = pages->spec.linker(pages->spec.linker_arg, pages->number + 1, NULL);
		return *chained;
	}
	*wrong = "It has no cookie for the next page";
	return NULL;
}

/*
 * An unannounced page has rows.  Either the annotations of the previous page were
 * removed, or these rows were inserted after it had been answered.  Requests the
 * first page again, which announces the next one unless its annotations are
 * removed.
 */
static void
reread_first(dv_pages *pages)
{
	dv_page		rest = pages->page;

	if (pages->reread || pages->spec.id == NULL)
		not_whole(pages, "The previous page did not announce another page", -1);
	(void) dv_page_drain(&rest);
	pages->spec.stats->unread += rest.rows - pages->page.rows + 1;
	pages->reread = true;
	pages->unannounced = false;
	pages->open = false;
	pages->number = 1;
	memset(&pages->chain, 0, sizeof(pages->chain));
	drop_request(pages, &pages->now);
	drop_request(pages, &pages->ahead);
	send_request(pages, &pages->now, pages->spec.path, NULL, 0);
}

/*
 * Returns the link to the next page according to the page that has been read.
 * Sets *chained to the text that must differ from page to page.  Returns NULL if
 * this was the last page, and sets *wrong if that is uncertain.
 */
static char *
find_next(dv_pages *pages, char **chained, const char **wrong)
{
	const dv_page *page = &pages->page;
	char	   *url;
	size_t		len;

	*wrong = NULL;
	if (pages->spec.is_fetchxml)
		return find_next_number(pages, chained, wrong);
	if (dv_value_is_null(&page->next_link))
		return NULL;
	url = palloc(page->next_link.len + 1);
	if (dv_value_string(&page->next_link, url, &len) != DV_VALUE_OK)
	{
		*wrong = "Its link to the next page is not a string";
		return NULL;
	}
	url[len] = '\0';
	*chained = url;
	return url;
}

/* Counts the rows of the current page that have been read; "bytes" is the size of all its rows. */
static void
note_rows(const dv_pages *pages, size_t bytes)
{
	dv_pool_note_rows(dv_session_pool(pages->spec.session), dv_call_user(pages->now.call),
					  (int64) pages->page.rows, (int64) bytes);
}

/*
 * At the end of a page, continues with the next one, if any.  Returns false if
 * the page must be requested again.
 */
static bool
turn_page(dv_pages *pages)
{
	const char *wrong;
	char	   *chained = NULL;
	char	   *url;

	pages->begun = true;
	note_rows(pages, pages->spec.computed ? 0 : dv_call_result(pages->now.call)->body_len);
	if (pages->first)
	{
		pages->open = false;
		leave_first(pages);
		return true;
	}
	url = find_next(pages, &chained, &wrong);
	if (wrong != NULL)
	{
		request_again(pages, wrong, -1);
		return false;
	}
	/* only now is it certain that the page need not be requested again */
	dv_known_forget_found(&pages->known);
	if (pages->unannounced && pages->spec.id != NULL)
		dv_known_add(&pages->known, &pages->page);
	if (pages->spec.metadata != NULL)
		dv_page_metadata(&pages->page, pages->spec.metadata);
	pages->open = false;
	if (url == NULL)
	{
		pages->done = true;
		drop_request(pages, &pages->ahead);
		return true;
	}
	if (strcmp(url, pages->now.url) == 0 ||
		dv_chain_leads_back(&pages->chain, pages->context, chained))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse returned the same page again", pages->spec.what,
						dv_session_config_of(pages->spec.session)->server_name),
				 errdetail("The link to the next page leads back to a page that has been read.")));
	if (pages->ahead.call == NULL || strcmp(pages->ahead.url, url) != 0)
	{
		drop_request(pages, &pages->ahead);
		if (hesitates(pages))
			pages->ahead.url = MemoryContextStrdup(pages->context, url);
		else
			send_request(pages, &pages->ahead, url, NULL, 0);
	}
	if (chained != url)
		pfree(chained);
	pfree(url);
	pages->number++;
	drop_request(pages, &pages->now);
	pages->now = pages->ahead;
	memset(&pages->ahead, 0, sizeof(pages->ahead));
	return true;
}

const dv_page *
dv_pages_page(const dv_pages *pages)
{
	return &pages->page;
}

const char *
dv_pages_link(const dv_pages *pages)
{
	return pages->done ? NULL : pages->now.url;
}

bool
dv_pages_repeated(const dv_pages *pages)
{
	return pages->known.n > 0;
}

bool
dv_pages_cut_short(const dv_pages *pages)
{
	return pages->cut_short;
}

void
dv_pages_leave(dv_pages *pages)
{
	if (pages->open)
		note_rows(pages, 0);
	pages->open = false;
	pages->done = true;
}

void
dv_pages_count_unread(dv_pages *pages)
{
	dv_pages_stats *stats = pages->spec.stats;
	dv_page		rest = pages->page;

	if (pages->done || pages->unread_counted)
		return;
	pages->unread_counted = true;
	if (pages->open)
	{
		(void) dv_page_drain(&rest);
		stats->unread += rest.rows - pages->page.rows;
	}
	else
		count_abandoned(pages, &pages->now);
	count_abandoned(pages, &pages->ahead);
}

bool
dv_pages_ready(const dv_pages *pages)
{
	return pages->done || pages->open || (pages->now.call != NULL && dv_call_done(pages->now.call));
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
				if (pages->unannounced)
				{
					reread_first(pages);
					continue;
				}
				pages->begun = true;
				pages->spec.stats->rows++;
				pages->given++;
				return DV_PAGES_ROW;
			case DV_PAGE_TOMBSTONE:
				if (pages->spec.by_page)
					return DV_PAGES_TOMBSTONE;
				break;
			case DV_PAGE_END:
				if (turn_page(pages) && pages->spec.by_page)
					return DV_PAGES_TURNED;
				break;
			case DV_PAGE_BROKEN:
				request_again(pages, pages->page.json.error, pages->page.json.error_at);
		}
	}
	return DV_PAGES_END;
}

dv_pages_state
dv_pages_step(dv_pages *pages, dv_value *values)
{
	dv_pages_state state;

	while ((state = dv_pages_poll(pages, values)) == DV_PAGES_WAITING)
		dv_call_wait(pages->now.call);
	return state;
}

bool
dv_pages_next(dv_pages *pages, dv_value *values)
{
	return dv_pages_step(pages, values) == DV_PAGES_ROW;
}

/*
 * ranges.c
 *		All rows of a query, read as several ranges of ids at a time.
 *
 * Reading begins with one range, of all ids.  When another range can be read
 * at the same time, the one that seems to have most left is cut: it keeps its
 * requests and ends at the cut, and the ids from there on become a new range.
 * Each range has its own pages (client/pages.h), and a page that waits to be
 * read is not followed by a request for the next one.  So no more than one page
 * for each range is kept, and one more.
 *
 * Each row is returned once, wherever and whenever ranges are cut:  the ranges
 * that have not ended are disjoint, and together they are all ids that have not
 * been passed.  A cut lies behind the last row that its range has returned, and
 * only decides which range returns the rows behind it.  Each row is compared with
 * the bounds of its range, even if the service was asked to do so.  This requires
 * that the service sorts and compares ids as we do, which is proved before the
 * first cut (id_range.h); and the order of the rows is checked.
 *
 * Where to cut:  the distribution of ids is unknown, and those that the service
 * generates are extremely clustered, because they begin with the addresses of
 * machines.  The density of ids on the page of a range gives an estimate of what
 * is left of the range.  If the estimate is credible, the ids between the last row
 * of the page and the last one of the range are cut into parts of equal width.  A
 * probe asks the service for that last row, unless the end of the range will do,
 * as it does until a part of it has turned out to be nearly empty.  If the estimate
 * is not credible, the page is in a cluster, of which only the beginning is known.
 * Then the parts grow from the width of the page to that of the range, each by the
 * same factor, so that the next cuts, or those after them, fall into the cluster.
 *
 * New ranges are paid for by pages (CREDIT_OF_PAGE), so that the number of
 * requests is bounded, however the ids are distributed: by a multiple of the
 * number of pages and of the number of ranges that may be read at a time.
 *
 * How many ranges at a time:  as many as the caller allows, but each new one
 * needs a slot that is free (pool/pool.h).  If the caller leaves the number to us,
 * more ranges are begun as long as most of the time is spent waiting for answers,
 * and only as many as would end the waiting.
 *
 * With "by_page", the caller learns where each page ends, and what is left to be
 * read then.  Between two pages, every range is at the end of one of its own, or in
 * a page that is requested again, and what it has returned ends with its last row.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "client/forms.h"
#include "client/id_range.h"
#include "client/ranges.h"
#include "client/standing.h"
#include "dataverse/header.h"

/* The number of new ranges that a page allows for, and each range that may be read at a time. */
#define CREDIT_OF_PAGE 2
#define CREDIT_OF_RANGE 3

/* While rows are read, data is fetched from the sockets once for this many rows. */
#define ADVANCE_EVERY 256

/* What the bounds of a range add to a URL, and more. */
#define LENGTH_OF_BOUNDS 400

/* An estimate of so many pages is credible, whatever is known of the table. */
#define CREDIBLE_PAGES 1024

/*
 * A scan that has waited for less than this, or whose answers take less, is not
 * worth another request.
 */
#define SHORTEST_WAIT (DV_SECOND / 4)
#define SHORTEST_ANSWER (DV_SECOND / 5)

/* A smaller table is not worth a second range. */
#define LARGE_IN_PAGES 4
#define LARGE_IN_ROWS 5000

/* After so many unreadable answers to probes, ranges are no longer divided. */
#define PROBE_FAILURES 3

/* A request for an id. */
typedef struct probe
{
	dv_call    *call;			/* NULL: not under way */
	MemoryContext context;
	bool		counted;		/* its answer */
} probe;

typedef struct range
{
	dv_ranges  *all;
	MemoryContext context;		/* of the range and its requests */
	dv_pages   *pages;
	dv_query	query;			/* for its rows */
	bool		undivided;		/* its request is that for the query as a whole */
	bool		opened;			/* has had a page */
	bool		plain;			/* its bounds were not sent: it reads "plain" of all rows */
	dv_id_range bounds;

	/* how far it has been read */
	int64		rows;
	bool		has_last;
	dv_ordered_id last;			/* id of the last row */

	/* the page opened last */
	bool		more;			/* another one seems to follow */
	bool		has_tail;
	bool		has_head;
	dv_ordered_id head;			/* ids of its first and, as it seems, of its last row */
	dv_ordered_id tail;

	/* what lies behind that page */
	bool		sparse;			/* the end of the range may be far from its last row */
	bool		has_top;
	dv_ordered_id top;			/* id of the last row, when it was requested */
	probe		top_probe;		/* requests it */
} range;

struct dv_ranges
{
	dv_ranges_spec spec;
	dv_query	query;
	MemoryContext context;
	range	   *ranges[DV_RANGES_MOST]; /* those that are being read */
	int			n;
	dv_id_range later[DV_RANGES_MOST];	/* those of an earlier read that have not begun */
	int			nlater;
	dv_id_range plain[DV_RANGES_MOST];	/* those whose bounds the service has refused */
	int			nplain;
	int			current;		/* the one whose page is being read; -1: none */
	int			turn;			/* the one that was selected last */
	const dv_error *refusal;	/* see dv_pages_refusal */
	dv_names   *id_name;		/* for probes */

	/* whether the service compares ids as we do */
	dv_ordered_id tried;		/* the requested id */
	probe		trial;			/* requests it */

	bool		single;			/* the query is undivided, and its pages do everything themselves */
	bool		divides;		/* new ranges may be begun */
	bool		divided;		/* there has been more than one */
	bool		look;			/* a new range may have become possible */
	int			allowed;		/* ranges at a time, for now */
	int			credit;			/* new ranges that pages have paid for */
	int			failures;		/* probes whose answers were unreadable */
	int64		returned;		/* rows, to the caller */
	int64		pages;			/* opened */
	uint32		since_advance;

	int			told_in_flight; /* requests under way, as last reported to the progress */

	/* time spent waiting, in total and when "allowed" was last reconsidered */
	int64		waiting_since;	/* 0: does not wait */
	int64		waited;
	int64		mark_waited;
	int64		mark_time;
	int64		mark_pages;
	int64		mark_repeated;	/* requests that had been sent again */
};

/*
 * Requests
 */

/*
 * Notes where a page begins and ends.  Returns whether the next one is to be requested
 * at once: not if other ranges read what follows.
 */
static bool
watch_page(void *arg, const char *body, size_t len, bool more)
{
	range	   *r = arg;
	dv_ranges  *all = r->all;
	const dv_ranges_spec *spec = &all->spec;
	dv_value	id;
	int64		then = all->returned + (int64) all->n * spec->pages.page_size;

	all->look = true;
	all->pages++;
	r->opened = true;
	r->more = more;
	r->has_head = false;
	r->has_tail = dv_page_peek_last(body, len, spec->pages.id, &id) && dv_id_of_value(&id, &r->tail);
	if (!more)
		return false;
	all->credit += CREDIT_OF_PAGE;
	if (r->has_tail && r->bounds.has_high && dv_id_compare(&r->tail, &r->bounds.high) >= 0)
		return false;
	/* as more_is_wanted() of pages.c, but all ranges have a page */
	if (spec->pages.wanted >= 0 && then >= spec->pages.wanted)
		return false;
	return spec->pages.likely < 0 || then < spec->pages.likely ||
		all->returned >= spec->pages.likely;
}

static range *
add_range(dv_ranges *all)
{
	MemoryContext context = AllocSetContextCreate(all->context, "dataverse range",
												  ALLOCSET_SMALL_SIZES);
	range	   *r = MemoryContextAllocZero(context, sizeof(*r));

	r->all = all;
	r->context = context;
	r->query = all->query;
	all->ranges[all->n++] = r;
	return r;
}

/* A query for the first rows has only one page. */
static bool
is_paged(const dv_query *query)
{
	return query->language == DV_LANGUAGE_FETCHXML && query->top == 0;
}

/* Returns the path of a page of FetchXML. */
static char *
path_of_page(void *arg, int number, const char *cookie)
{
	const range *r = arg;
	dv_fetch_page page = {number, r->all->spec.pages.page_size, cookie};

	return dv_query_path(&r->query, DV_ODATA_WIRE, is_paged(&r->query) ? &page : NULL);
}

/* Begins to read a range, or the query as a whole. */
static void
start_pages(range *r, dv_pages_spec *spec)
{
	if (is_paged(&r->query))
	{
		spec->linker = path_of_page;
		spec->linker_arg = r;
	}
	r->pages = dv_pages_start(spec, r->context);
}

static void
start_range(range *r)
{
	dv_pages_spec spec = r->all->spec.pages;

	spec.progress = NULL;
	spec.watcher = watch_page;
	spec.watcher_arg = r;
	if (!r->undivided)
	{
		MemoryContext old = MemoryContextSwitchTo(r->context);

		spec.path = path_of_page(r, 1, NULL);
		spec.first_path = NULL;
		spec.has_plainer = !r->plain;
		spec.is_stored = false;
		MemoryContextSwitchTo(old);
	}
	start_pages(r, &spec);
}

static dv_form
form_of(const dv_ranges *all)
{
	return all->query.language == DV_LANGUAGE_FETCHXML ? DV_FORM_FETCH_RANGES : DV_FORM_RANGES;
}

/*
 * Probes
 */

/* Ends a probe, if there is one, and counts it as abandoned unless its answer has been counted. */
static void
drop_probe(dv_ranges *all, probe *p)
{
	if (p->call != NULL && !p->counted)
		all->spec.pages.stats->abandoned += dv_call_attempts(p->call);
	if (p->context != NULL)
		MemoryContextDelete(p->context);
	memset(p, 0, sizeof(*p));
}

/* Begins a probe, and returns the context to switch back to. */
static MemoryContext
begin_probe(probe *p, MemoryContext owner)
{
	p->context = AllocSetContextCreate(owner, "dataverse probe", ALLOCSET_SMALL_SIZES);
	return MemoryContextSwitchTo(p->context);
}

static void
send_probe(const dv_ranges *all, probe *p, const dv_query *query, bool repeatable)
{
	dv_call_spec spec = {.method = "GET", .kind = DV_KIND_READ, .repeatable = repeatable};

	spec.path = dv_query_path(query, DV_ODATA_WIRE, NULL);
	spec.headers = dv_headers_of_page(0, false, NULL, NULL);
	p->call = dv_call_start(all->spec.pages.session, &spec, p->context);
}

/* Returns the id behind which the range can be cut: it reads the rows up to there itself. */
static const dv_ordered_id *
front_of(const range *r)
{
	return r->has_last && dv_id_compare(&r->last, &r->tail) > 0 ? &r->last : &r->tail;
}

/* Requests the id of the last row of a range. */
static void
request_top(range *r)
{
	dv_query	query = r->all->query;
	dv_id_range left = r->bounds;
	MemoryContext old = begin_probe(&r->top_probe, r->context);

	left.has_low = true;
	left.low = *front_of(r);
	query.filter = dv_id_range_filter(query.filter, query.primary_id, DV_GT, &left);
	dv_id_ask_end(&query, true);
	/* the rows can be read without it, so the request is not repeated */
	send_probe(r->all, &r->top_probe, &query, false);
	MemoryContextSwitchTo(old);
	dv_call_advance();
}

/* Requests an id that has been read, in a way that shows how the service compares ids. */
static void
request_trial(dv_ranges *all, const dv_ordered_id *id)
{
	dv_query	query = all->query;
	MemoryContext old = begin_probe(&all->trial, all->context);

	all->tried = *id;
	dv_id_ask_trial(&query, id);
	send_probe(all, &all->trial, &query, true);
	MemoryContextSwitchTo(old);
	dv_call_advance();
}

/*
 * Reads an answer with at most one row.  Returns the number of rows, and the id; a
 * negative number if the answer cannot be read.
 */
static int
read_answer(dv_ranges *all, const dv_http_result *result, dv_ordered_id *id)
{
	dv_page		page;
	dv_value	value;
	dv_page_step step;

	if (result->status != 200)
		return -1;
	dv_page_open(&page, all->id_name, result->body, result->body_len);
	step = dv_page_next(&page, &value);
	all->spec.pages.stats->pages++;
	all->spec.pages.stats->unread += step == DV_PAGE_ROW;
	if (step == DV_PAGE_ROW)
	{
		if (!dv_id_of_value(&value, id))
			return -1;
		step = dv_page_next(&page, &value);
	}
	return step == DV_PAGE_END ? (int) page.rows : -1;
}

/*
 * Counts the answer to a probe, and reads it if it is a success.  If the service
 * does not accept such queries, ranges are not divided in this session.
 */
static int
take_answer(dv_ranges *all, probe *p, dv_ordered_id *id)
{
	const dv_error *error = dv_call_error(p->call);

	dv_pages_count_answer(all->spec.pages.stats, p->call);
	p->counted = true;
	if (error->verdict == DV_VERDICT_OK)
	{
		all->spec.pages.stats->bytes += dv_call_result(p->call)->bytes_received;
		return read_answer(all, dv_call_result(p->call), id);
	}
	if (dv_form_blamed(error))
	{
		dv_form_refused(all->spec.pages.session, form_of(all), all->spec.table, 0, error);
		all->divides = false;
	}
	return -1;
}

static void
take_top(range *r)
{
	dv_ranges  *all = r->all;
	int			rows = take_answer(all, &r->top_probe, &r->top);

	/* no row is left */
	if (rows == 0)
		r->top = *front_of(r);
	r->has_top = rows >= 0;
	if (!r->has_top && ++all->failures >= PROBE_FAILURES)
		all->divides = false;
}

static void
take_trial(dv_ranges *all)
{
	dv_ordered_id id;

	if (take_answer(all, &all->trial, &id) == 1 && dv_id_compare(&id, &all->tried) == 0)
		dv_form_prove(all->spec.pages.session, form_of(all), all->spec.table);
	else
		all->divides = false;
}

/* Reads the answer to a probe of a range, or to the trial (NULL), if it has arrived. */
static void
check_probe(dv_ranges *all, probe *p, range *r)
{
	if (p->call == NULL || !dv_call_done(p->call))
		return;
	all->look = true;
	/* a probe that ended with its subtransaction can be sent again */
	if (dv_call_stopped(p->call))
		;
	else if (r != NULL)
		take_top(r);
	else
		take_trial(all);
	drop_probe(all, p);
}

static void
check_probes(dv_ranges *all)
{
	int			i;

	check_probe(all, &all->trial, NULL);
	for (i = 0; i < all->n; i++)
		check_probe(all, &all->ranges[i]->top_probe, all->ranges[i]);
}

/*
 * Dividing
 */

/* Returns how many slots are free for further ranges. */
static int
room(const dv_ranges *all)
{
	const dv_pages_spec *spec = &all->spec.pages;
	dv_pool    *pool = dv_session_pool(spec->session);
	dv_deed		deed = {.kind = DV_KIND_READ, .table = all->query.entity_set};
	int			slots;
	int64		until;
	int			i;

	slots = dv_pool_room(pool, DV_KIND_READ,
						 dv_standing_choose(dv_session_standing(spec->session), PG_UINT64_MAX,
											&deed, &until));
	/* a range whose page waits to be read will need a slot again */
	for (i = 0; i < all->n; i++)
		if (i != all->current && dv_pages_ready(all->ranges[i]->pages))
			slots--;
	return slots;
}

/* Returns the number of rows that the caller is expected to want; negative: all. */
static double
rows_wanted(const dv_ranges *all)
{
	const dv_pages_spec *spec = &all->spec.pages;
	double		wanted = spec->wanted >= 0 ? (double) spec->wanted : -1;

	if (spec->likely >= 0 && all->returned < spec->likely && (wanted < 0 || spec->likely < wanted))
		wanted = spec->likely;
	return wanted;
}

/*
 * Allows more ranges at a time if most of the time was spent waiting.  If one range
 * is waited for during (1 - 1 / n) of the time, n ranges keep the reader busy.
 */
static void
allow_more(dv_ranges *all)
{
	int64		now = dv_now();
	int64		elapsed = now - all->mark_time;
	int64		waited = all->waited - all->mark_waited;
	double		expected = all->spec.expected;
	double		large = (double) LARGE_IN_PAGES * all->spec.pages.page_size;
	int64		pages = all->pages - all->mark_pages;
	int64		repeated = all->spec.pages.stats->sent - all->spec.pages.stats->requests;
	double		enough;

	if (pages < all->allowed)
		return;
	/* the expected size may be wrong, so even a small table gets more ranges in the end */
	if (all->waited < SHORTEST_WAIT ||
		(expected < large && all->returned < LARGE_IN_ROWS && all->pages < LARGE_IN_PAGES))
		return;
	/* requests that must be repeated are no reason to send more of them */
	if (all->n >= all->allowed && waited > elapsed / 2 && repeated == all->mark_repeated &&
		waited * all->n >= SHORTEST_ANSWER * pages)
	{
		enough = ceil(all->allowed * (double) elapsed / Max((double) (elapsed - waited), 1.0));
		/* unless the table is known to be large, step by step */
		if (expected < large)
			enough = Min(enough, 2.0 * all->allowed);
		all->allowed = (int) Min(Max(enough, all->allowed), all->spec.most);
	}
	all->mark_time = now;
	all->mark_waited = all->waited;
	all->mark_pages = all->pages;
	all->mark_repeated = repeated;
}

/* Returns how many ranges can be added. */
static int
addable(dv_ranges *all)
{
	double		wanted = rows_wanted(all);
	int			most;

	if (all->spec.automatic)
		allow_more(all);
	most = all->allowed;
	if (wanted >= 0)
		most = (int) Min(most, ceil((wanted - all->returned) / all->spec.pages.page_size));
	most = Min(most - all->n, all->credit);
	return most <= 0 ? 0 : Min(most, room(all));
}

/* Begins to read a range of its own. */
static range *
begin_range(dv_ranges *all, const dv_id_range *bounds)
{
	range	   *r = add_range(all);
	MemoryContext old = MemoryContextSwitchTo(r->context);

	r->bounds = *bounds;
	r->query.filter = dv_id_range_filter(r->query.filter, r->query.primary_id, DV_GE, &r->bounds);
	start_range(r);
	MemoryContextSwitchTo(old);
	return r;
}

/* Begins ranges that an earlier read has left. */
static void
begin_later(dv_ranges *all)
{
	dv_pages_stats *stats = all->spec.pages.stats;

	while (all->nlater > 0 && (all->n == 0 || addable(all) > 0))
	{
		begin_range(all, &all->later[--all->nlater]);
		stats->ranges++;
		stats->most_ranges = Max(stats->most_ranges, all->n);
	}
}

static bool
has_end(const range *r)
{
	return r->has_top || r->bounds.has_high;
}

static const dv_ordered_id *
end_of(const range *r)
{
	return r->has_top ? &r->top : &r->bounds.high;
}

/* Returns the width of what lies behind the current page, in widths of that page. */
static double
pages_left(const range *r)
{
	double		left = dv_id_distance(front_of(r), end_of(r));
	double		width = dv_id_distance(&r->head, front_of(r));

	return left / Max(width, 1.0);
}

/* Returns the largest number of pages that a range is believed to have left. */
static double
credible_pages(const dv_ranges *all)
{
	return Max(2 * all->spec.expected / all->spec.pages.page_size, CREDIBLE_PAGES);
}

/* Estimates the pages behind the current page of a range; 0 if it cannot be cut. */
static double
estimate(const range *r)
{
	if (!r->more || !r->has_tail || !r->has_head || r->top_probe.call != NULL)
		return 0;
	return has_end(r) ? Min(pages_left(r), credible_pages(r->all)) : credible_pages(r->all);
}

/* Cuts a range in two, and begins to read the second one. */
static void
cut_range(range *before, const dv_ordered_id *cut)
{
	dv_id_range rest = dv_id_range_cut(&before->bounds, cut);
	range	   *r = begin_range(before->all, &rest);

	r->has_top = before->has_top;
	r->top = before->top;
	before->has_top = false;
	before->all->credit--;
	before->all->spec.pages.stats->ranges++;
}

/*
 * Cuts what is left of a range into parts, and keeps the first one.  The last part is
 * cut off first, so that the ranges are disjoint at any time.
 */
static void
divide(range *r, int parts)
{
	dv_ranges  *all = r->all;
	dv_pages_stats *stats = all->spec.pages.stats;
	dv_ordered_id front = *front_of(r);
	dv_ordered_id end = *end_of(r);
	double		width = dv_id_distance(&r->head, &front);
	double		left = pages_left(r);
	double		factor = left > credible_pages(all) ? pow(left, 1.0 / parts) : 0;
	int			n = all->n;
	int			i;

	for (i = parts - 1; i > 0; i--)
	{
		dv_ordered_id cut = factor == 0 ? dv_id_cut(&front, &end, i, parts) :
		dv_id_after(&front, Max(width, 1.0) * pow(factor, i));

		if (dv_id_compare(&cut, &front) <= 0)
			break;
		if (!r->bounds.has_high || dv_id_compare(&cut, &r->bounds.high) < 0)
			cut_range(r, &cut);
	}
	if (all->n == n)
		return;
	r->sparse = false;
	if (!all->divided)
		stats->ranges++;
	all->divided = true;
	stats->most_ranges = Max(stats->most_ranges, all->n);
}

/* Does the service compare ids as we do?  A session finds out by a request. */
static bool
order_is_proven(const range *r)
{
	dv_ranges  *all = r->all;

	if (dv_form_proven(all->spec.pages.session, form_of(all), all->spec.table))
		return true;
	if (all->trial.call == NULL)
		request_trial(all, &r->head);
	return false;
}

static void
add_ranges(dv_ranges *all)
{
	double		left[DV_RANGES_MOST];
	int			parts[DV_RANGES_MOST];
	int			n = all->n;
	int			more;
	bool		ordered;
	int			i;

	all->look = false;
	begin_later(all);
	if (!all->divides || all->nlater > 0)
		return;
	more = addable(all);
	for (i = 0; i < n; i++)
	{
		left[i] = estimate(all->ranges[i]);
		parts[i] = 1;
	}
	/* the next page of each range is under way, so each part has at least one page */
	for (; more > 0; more--)
	{
		int			best = -1;

		for (i = 0; i < n; i++)
			if (left[i] / (parts[i] + 1) >= 1 &&
				(best < 0 || left[i] / parts[i] > left[best] / parts[best]))
				best = i;
		if (best < 0)
			break;
		parts[best]++;
	}
	for (i = 0; i < n; i++)
	{
		range	   *r = all->ranges[i];

		if (parts[i] == 1)
			continue;
		ordered = order_is_proven(r);
		if (!r->has_top && (r->sparse || !r->bounds.has_high))
			request_top(r);
		else if (ordered)
			divide(r, parts[i]);
	}
}

/*
 * The service refuses bounds
 */

/* See dv_pages_count_unread. */
static void
count_unread(range *r)
{
	drop_probe(r->all, &r->top_probe);
	dv_pages_count_unread(r->pages);
}

static void
drop_range(dv_ranges *all, int i)
{
	range	   *r = all->ranges[i];

	if (all->spec.pages.counts_unread)
		count_unread(r);
	drop_probe(all, &r->top_probe);
	MemoryContextDelete(r->context);
	all->ranges[i] = all->ranges[--all->n];
	all->current = -1;
	all->look = true;
}

/*
 * Requests all rows, and keeps those of the ranges that have not had a page.  All of them are read
 * at once, since each would take as many requests as the whole query.  The others go on by links
 * of the service.
 */
static void
read_plainly(dv_ranges *all)
{
	MemoryContext old;
	range	   *r;
	int			i;

	for (i = all->n - 1; i >= 0; i--)
		if (!all->ranges[i]->opened)
		{
			all->plain[all->nplain++] = all->ranges[i]->bounds;
			drop_range(all, i);
		}
	memcpy(&all->plain[all->nplain], all->later, sizeof(dv_id_range) * all->nlater);
	all->nplain += all->nlater;
	all->nlater = 0;
	all->divides = false;

	r = add_range(all);
	old = MemoryContextSwitchTo(r->context);
	r->plain = true;
	/* it ends with the last of them */
	r->bounds = all->plain[0];
	r->bounds.has_low = false;
	for (i = 1; i < all->nplain && r->bounds.has_high; i++)
		if (!all->plain[i].has_high || dv_id_compare(&all->plain[i].high, &r->bounds.high) > 0)
		{
			r->bounds.has_high = all->plain[i].has_high;
			r->bounds.high = all->plain[i].high;
		}
	start_range(r);
	MemoryContextSwitchTo(old);
}

static bool
is_in(const dv_ordered_id *id, const dv_id_range *range)
{
	return (!range->has_low || dv_id_compare(id, &range->low) >= 0) &&
		(!range->has_high || dv_id_compare(id, &range->high) < 0);
}

/* Does the row belong to one of the ranges whose bounds were refused? */
static bool
is_plain(const dv_ranges *all, const dv_ordered_id *id)
{
	int			i;

	for (i = 0; i < all->nplain; i++)
		if (is_in(id, &all->plain[i]))
			return true;
	return false;
}

/*
 * Beginning and end
 */

dv_ranges *
dv_ranges_start(const dv_ranges_spec *spec, MemoryContext owner)
{
	MemoryContext context = AllocSetContextCreate(owner, "dataverse ranges", ALLOCSET_SMALL_SIZES);
	dv_ranges  *all = MemoryContextAllocZero(context, sizeof(*all));
	range	   *r;

	all->spec = *spec;
	all->spec.pages.is_fetchxml = spec->query->language == DV_LANGUAGE_FETCHXML;
	all->query = *spec->query;
	all->context = context;
	all->current = -1;
	all->allowed = spec->automatic ? 1 : Min(spec->most, DV_RANGES_MOST);
	all->credit = spec->most * CREDIT_OF_RANGE;
	all->divides = spec->most > 1 &&
		strlen(spec->pages.path) + strlen(dv_session_root(spec->pages.session)) +
		LENGTH_OF_BOUNDS < DV_ODATA_MAX_URL &&
		dv_form_most(spec->pages.session, form_of(all), spec->table, 1) > 0;
	if (all->divides)
		all->id_name = dv_names_init(MemoryContextAlloc(context, dv_names_size(&all->spec.pages.id, 1)),
									 &all->spec.pages.id, 1);
	all->mark_time = dv_now();
	if (spec->nleft > 0)
	{
		all->divided = true;
		all->nlater = spec->nleft;
		memcpy(all->later, spec->left, sizeof(dv_id_range) * spec->nleft);
		if (spec->automatic)
			all->allowed = Min(spec->nleft, spec->most);
		if (dv_form_most(spec->pages.session, form_of(all), spec->table, 1) == 0)
			read_plainly(all);
		else
			begin_later(all);
		return all;
	}
	r = add_range(all);
	r->undivided = true;
	/* pages that are neither divided nor counted do everything themselves */
	all->single = !all->divides && !spec->pages.by_page;
	if (all->single)
		start_pages(r, &all->spec.pages);
	else
		start_range(r);
	return all;
}

void
dv_ranges_end(dv_ranges *all)
{
	drop_probe(all, &all->trial);
	MemoryContextDelete(all->context);
}

void
dv_ranges_count_unread(dv_ranges *all)
{
	int			i;

	drop_probe(all, &all->trial);
	for (i = 0; i < all->n; i++)
		count_unread(all->ranges[i]);
}

void
dv_ranges_leave(dv_ranges *all, bool counts_unread)
{
	int			i;

	if (all != NULL && counts_unread)
		dv_ranges_count_unread(all);
	for (i = 0; all != NULL && i < all->n; i++)
		dv_pages_leave(all->ranges[i]->pages);
}

const dv_error *
dv_ranges_refusal(const dv_ranges *all)
{
	return all->refusal;
}

/*
 * Rows
 */

/* The service compares the bounds of ranges in another order. */
static void
out_of_order(const dv_ranges *all, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
			 errmsg("could not %s on server \"%s\": Dataverse returned rows in an unexpected order",
					all->spec.pages.what, dv_session_config_of(all->spec.pages.session)->server_name),
			 errdetail("%s", why),
			 errhint("Set \"scan_parallelism\" to 1 to read all rows one after the other.")));
}

/* A single range may have any order, but must not be divided then. */
static void
doubt_order(dv_ranges *all, const char *why)
{
	if (all->divided)
		out_of_order(all, why);
	all->divides = false;
}

/*
 * Ends a range.  If it was nearly empty, so may be the end of the range before it, from
 * which it was cut off.
 */
static void
end_range(dv_ranges *all, int i)
{
	const range *ended = all->ranges[i];
	int			j;

	for (j = 0; j < all->n && ended->bounds.has_low; j++)
	{
		range	   *r = all->ranges[j];

		if (ended->rows < all->spec.pages.page_size / 2 && r->bounds.has_high &&
			dv_id_compare(&r->bounds.high, &ended->bounds.low) == 0)
			r->sparse = true;
	}
	drop_range(all, i);
}

/* The last page of a range has been read, or the service has refused the first one. */
static void
end_pages(dv_ranges *all, int i)
{
	range	   *r = all->ranges[i];
	const dv_error *refusal = dv_pages_refusal(r->pages);

	if (refusal == NULL)
	{
		end_range(all, i);
		return;
	}
	if (!all->divided)
	{
		/* it lives as long as the pages */
		all->refusal = refusal;
		all->n = 0;
		return;
	}
	dv_form_refused(all->spec.pages.session, form_of(all), all->spec.table, 0, refusal);
	read_plainly(all);
}

typedef enum row_place
{
	ROW_BEFORE,					/* belongs to another range, or to what has been passed */
	ROW_INSIDE,
	ROW_BEHIND
} row_place;

/* Compares the id of a row with the bounds of its range. */
static row_place
place_of(range *r, const dv_value *value)
{
	dv_ranges  *all = r->all;
	dv_ordered_id id;

	if (!dv_id_of_value(value, &id))
	{
		doubt_order(all, "A row has no id.");
		return ROW_INSIDE;
	}
	if (r->has_last && dv_id_compare(&id, &r->last) <= 0)
	{
		/* a page came again, without its last row, but with a new one in front of that */
		if (all->divided && dv_pages_repeated(r->pages))
			return ROW_BEFORE;
		doubt_order(all, "The ids of its pages do not ascend.");
	}
	r->last = id;
	r->has_last = true;
	if (!r->has_head)
		r->head = id;
	r->has_head = true;
	if (r->bounds.has_high && dv_id_compare(&id, &r->bounds.high) >= 0)
		return ROW_BEHIND;
	if (r->plain && !is_plain(all, &id))
		return ROW_BEFORE;
	if (r->bounds.has_low && dv_id_compare(&id, &r->bounds.low) < 0)
		out_of_order(all, "A row is not in the requested range of ids.");
	r->rows++;
	return ROW_INSIDE;
}

/* Returns a range that need not wait, or -1.  The ranges take turns. */
static int
find_ready(dv_ranges *all)
{
	int			i;

	for (i = 1; i <= all->n; i++)
	{
		int			next = (all->turn + i) % all->n;

		if (dv_pages_ready(all->ranges[next]->pages))
			return next;
	}
	return -1;
}

static int
in_flight(const dv_ranges *all)
{
	int			calls = dv_call_in_flight(all->trial.call);
	int			i;

	for (i = 0; i < all->n; i++)
	{
		calls += dv_pages_in_flight(all->ranges[i]->pages);
		calls += dv_call_in_flight(all->ranges[i]->top_probe.call);
	}
	return calls;
}

/* Reports progress: "rows" were received before the page that is being read. */
static void
tell_progress(dv_ranges *all, int64 rows)
{
	all->told_in_flight = in_flight(all);
	dv_progress_read(all->spec.pages.progress, all->spec.pages.stats->requests, rows,
					 all->told_in_flight);
}

/* Selects the range to read next; returns false if all of them have to wait. */
static bool
select_range(dv_ranges *all)
{
	int64		now;

	all->current = find_ready(all);
	if (all->current < 0)
	{
		dv_call_advance();
		all->current = find_ready(all);
	}
	now = dv_now();
	if (all->current < 0)
	{
		/* a request that waited for a slot may have been sent */
		if (all->waiting_since == 0 || in_flight(all) != all->told_in_flight)
			tell_progress(all, all->spec.pages.stats->rows);
		if (all->waiting_since == 0)
			all->waiting_since = now;
		return false;
	}
	if (all->waiting_since != 0)
	{
		all->waited += now - all->waiting_since;
		all->spec.pages.stats->waited += now - all->waiting_since;
	}
	all->waiting_since = 0;
	all->turn = all->current;
	return true;
}

/*
 * Reads one row of the current range.  Returns DV_PAGES_WAITING if there is none that
 * belongs to it, and with "by_page", DV_PAGES_TURNED at the end of a page.
 */
static dv_pages_state
read_row(dv_ranges *all, dv_value *values)
{
	bool		by_page = all->spec.pages.by_page;
	int			i = all->current;
	range	   *r = all->ranges[i];
	dv_pages_stats *stats = all->spec.pages.stats;
	int64		waited = stats->waited;
	int64		rows = stats->rows;
	int64		pages = all->pages;
	dv_pages_state state = dv_pages_poll(r->pages, values);

	/* while one range waits, another one is read */
	stats->waited = waited;
	if (all->pages != pages)
		tell_progress(all, rows);
	switch (state)
	{
		case DV_PAGES_WAITING:
			all->current = -1;
			return DV_PAGES_WAITING;
		case DV_PAGES_END:
			end_pages(all, i);
			return DV_PAGES_WAITING;
		case DV_PAGES_TURNED:
			all->current = -1;
			if (dv_pages_link(r->pages) == NULL)
				end_range(all, i);
			return DV_PAGES_TURNED;
		case DV_PAGES_TOMBSTONE:	/* only changes have them */
		case DV_PAGES_ROW:
			break;
	}
	switch (place_of(r, &values[all->spec.id]))
	{
		case ROW_BEFORE:
			return DV_PAGES_WAITING;
		case ROW_BEHIND:
			if (by_page && all->spec.pages.metadata != NULL)
				dv_page_metadata(dv_pages_page(r->pages), all->spec.pages.metadata);
			end_range(all, i);
			return by_page ? DV_PAGES_TURNED : DV_PAGES_WAITING;
		case ROW_INSIDE:
			break;
	}
	all->returned++;
	return DV_PAGES_ROW;
}

dv_pages_state
dv_ranges_poll(dv_ranges *all, dv_value *values)
{
	if (all->single)
	{
		dv_pages_state state = dv_pages_poll(all->ranges[0]->pages, values);

		all->refusal = dv_pages_refusal(all->ranges[0]->pages);
		return state;
	}
	if (all->n > 1 && ++all->since_advance % ADVANCE_EVERY == 0)
		dv_call_advance();
	while (all->n + all->nlater > 0)
	{
		dv_pages_state state;

		CHECK_FOR_INTERRUPTS();
		if (all->look || all->current < 0)
		{
			check_probes(all);
			if (all->look)
				add_ranges(all);
		}
		if (all->current < 0 && !select_range(all))
			return DV_PAGES_WAITING;
		state = read_row(all, values);
		if (state != DV_PAGES_WAITING)
			return state;
	}
	return DV_PAGES_END;
}

bool
dv_ranges_ready(const dv_ranges *all)
{
	int			i;

	for (i = 0; i < all->n; i++)
		if (dv_pages_ready(all->ranges[i]->pages))
			return true;
	return all->n == 0;
}

dv_pages_state
dv_ranges_step(dv_ranges *all, dv_value *values)
{
	dv_pages_state state;

	while ((state = dv_ranges_poll(all, values)) == DV_PAGES_WAITING)
		dv_call_pause(0, DV_WAIT_RESPONSE);
	return state;
}

bool
dv_ranges_next(dv_ranges *all, dv_value *values)
{
	if (all->single)
	{
		bool		any = dv_pages_next(all->ranges[0]->pages, values);

		all->refusal = dv_pages_refusal(all->ranges[0]->pages);
		return any;
	}
	return dv_ranges_step(all, values) == DV_PAGES_ROW;
}

/*
 * What is left to be read
 */

const char *
dv_ranges_link(const dv_ranges *all)
{
	return all->divided || all->n == 0 ? NULL : dv_pages_link(all->ranges[0]->pages);
}

/* Adds what a range has not returned within these bounds. */
static int
add_rest(const range *r, const dv_id_range *bounds, dv_id_range *left)
{
	dv_id_range rest = *bounds;

	/* rows before the bounds are no part of it */
	if (r->has_last && (!rest.has_low || dv_id_compare(&r->last, &rest.low) >= 0))
	{
		rest.has_low = true;
		rest.low = dv_id_after(&r->last, 1);
	}
	if (rest.has_low && rest.has_high && dv_id_compare(&rest.low, &rest.high) >= 0)
		return 0;
	*left = rest;
	return 1;
}

int
dv_ranges_left(const dv_ranges *all, dv_id_range *left)
{
	int			n = 0;
	int			i;
	int			j;

	for (i = 0; all->divided && i < all->n; i++)
	{
		const range *r = all->ranges[i];

		for (j = 0; r->plain && j < all->nplain; j++)
			n += add_rest(r, &all->plain[j], &left[n]);
		if (!r->plain)
			n += add_rest(r, &r->bounds, &left[n]);
	}
	memcpy(&left[n], all->later, sizeof(dv_id_range) * all->nlater);
	return n + all->nlater;
}

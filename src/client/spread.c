/*
 * spread.c
 *		Where ranges of ids are cut, and how many are read at a time.
 *
 * Where to cut:  nothing is known of how ids are distributed, and those that
 * the service makes are clustered to the extreme, because they begin with the
 * addresses of machines.  How much is left of a range is estimated by how dense
 * ids were on its page.  If that can be true, what lies between the last row of
 * the page and the last one of the range is cut into parts of equal width.  For
 * the last one, the service is asked (a probe), unless the end of the range will
 * do: as long as no part of it has turned out to be nearly empty.  If it cannot
 * be true, the page is in a cluster, of which only the beginning is known: the
 * parts grow from the width of the page to that of the range, each by the same
 * factor, so that the next cuts, or those after them, fall into the cluster.
 *
 * Before there is a second range, the service is asked whether it compares ids as
 * we do (id_trial.h).
 *
 * New ranges are paid for by pages (DV_CREDIT_OF_PAGE), so that the number of
 * requests is bounded, however the ids are distributed: by a multiple of the
 * number of pages and of the number of ranges that may be read at a time.
 *
 * How many ranges at a time:  as many as the caller allows, but each new one
 * needs a slot that is free (pool/pool.h).  If the caller leaves it to us, more
 * are begun as long as most of the time is spent waiting for answers, and as
 * many as would leave no such time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "utils/memutils.h"

#include "client/id_trial.h"
#include "client/range.h"
#include "client/standing.h"
#include "dataverse/header.h"

/* That so many pages are left is believed, whatever is known of the table. */
#define CREDIBLE_PAGES 1024

/*
 * A scan that has waited for less than this, or whose answers take less, is not
 * worth another request.
 */
#define SHORTEST_WAIT (DV_SECOND / 4)
#define SHORTEST_ANSWER (DV_SECOND / 5)

/* A table of fewer pages, or rows, is not worth a guess. */
#define LARGE_IN_PAGES 4
#define LARGE_IN_ROWS 5000

/* So many answers to probes may be unreadable. */
#define PROBE_FAILURES 3

/*
 * Requests
 */

/* Restricts a query to rows from, or behind, an id and before another one, if any. */
static void
restrict_to(dv_query *query, dv_filter_kind kind, const dv_ordered_id *low,
			const dv_ordered_id *high)
{
	dv_filter  *both = palloc0(sizeof(*both));

	both->kind = DV_AND;
	both->parts = palloc(3 * sizeof(dv_filter *));
	if (query->filter != NULL && query->filter->kind != DV_TRUE)
		both->parts[both->n++] = unconstify(dv_filter *, query->filter);
	both->parts[both->n++] = dv_id_filter(kind, query->primary_id, low);
	if (high != NULL)
		both->parts[both->n++] = dv_id_filter(DV_LT, query->primary_id, high);
	query->filter = both;
}

/* Has the query return nothing but ids. */
static void
ask_for_ids(dv_query *query)
{
	query->ncolumns = 0;
	query->noutputs = 0;
	query->all_columns = false;
	query->norders = 0;
}

/*
 * Probes
 */

void
dv_spread_drop(dv_ranges *all, dv_probe *probe)
{
	if (probe->call != NULL && !probe->counted)
		all->spec.pages.stats->abandoned += dv_call_attempts(probe->call);
	if (probe->context != NULL)
		MemoryContextDelete(probe->context);
	memset(probe, 0, sizeof(*probe));
}

/* Returns the last id that the range is sure to read itself: it is cut behind it. */
static const dv_ordered_id *
front_of(const dv_range *r)
{
	return r->has_last && dv_id_compare(&r->last, &r->tail) > 0 ? &r->last : &r->tail;
}

/* Sends a query for no more than ids. */
static void
send_probe(const dv_ranges *all, dv_probe *probe, const dv_query *query, bool repeatable)
{
	dv_call_spec spec = {.method = "GET", .kind = DV_KIND_READ, .repeatable = repeatable};

	spec.path = dv_query_path(query, DV_ODATA_WIRE, NULL);
	spec.headers = dv_headers_of_page(0, false, NULL, NULL);
	probe->call = dv_call_start(all->spec.pages.session, &spec, probe->context);
}

/* Asks for the last row of a range. */
static void
ask_for_top(dv_range *r)
{
	dv_ranges  *all = r->all;
	dv_order	backwards = {.column = all->query.primary_id, .descending = true};
	dv_query	query = all->query;
	MemoryContext old;

	r->probe.context = AllocSetContextCreate(r->context, "dataverse probe", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(r->probe.context);
	ask_for_ids(&query);
	query.orders = &backwards;
	query.norders = 1;
	query.top = 1;
	restrict_to(&query, DV_GT, front_of(r), r->has_high ? &r->high : NULL);
	/* the rows can be read without it, so that it is not worth a repetition */
	send_probe(all, &r->probe, &query, false);
	MemoryContextSwitchTo(old);
	dv_call_advance();
}

/* Asks for a row that has been read, in a way that shows whether ids are compared as ours. */
static void
ask_for_order(dv_ranges *all, const dv_ordered_id *id)
{
	dv_query	query = all->query;
	MemoryContext old;

	all->trial.context = AllocSetContextCreate(all->context, "dataverse probe",
											   ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(all->trial.context);
	ask_for_ids(&query);
	query.nlinks = 0;
	query.filter = dv_id_trial_filter(query.primary_id, id);
	send_probe(all, &all->trial, &query, true);
	MemoryContextSwitchTo(old);
	dv_call_advance();
}

/*
 * Reads an answer that has a row at most.  Returns the number of rows, and the
 * id; a negative number if it is no such answer.
 */
static int
read_id(dv_ranges *all, const dv_http_result *result, dv_ordered_id *id)
{
	dv_page		page;
	dv_value	value;
	uint8		uuid[DV_ID_LEN];
	dv_page_step step;

	if (result->status != 200)
		return -1;
	if (all->id_name == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(all->context);
		const char *name = all->spec.pages.id;

		all->id_name = dv_names_init(palloc(dv_names_size(&name, 1)), &name, 1);
		MemoryContextSwitchTo(old);
		if (all->id_name == NULL)
			elog(ERROR, "invalid member name \"%s\"", name);
	}
	dv_page_open(&page, all->id_name, result->body, result->body_len);
	step = dv_page_next(&page, &value);
	all->spec.pages.stats->pages++;
	all->spec.pages.stats->unread += step == DV_PAGE_ROW;
	if (step == DV_PAGE_ROW)
	{
		if (dv_value_uuid(&value, uuid) != DV_VALUE_OK)
			return -1;
		dv_id_order(uuid, id);
		step = dv_page_next(&page, &value);
	}
	return step == DV_PAGE_END ? (int) page.rows : -1;
}

/*
 * Counts the answer to a probe, and returns it if it is a success.  If the service
 * does not take such queries, ranges are not divided in this session.
 */
static const dv_http_result *
take_answer(dv_ranges *all, dv_probe *probe)
{
	const dv_call *call = probe->call;
	dv_pages_stats *stats = all->spec.pages.stats;
	const dv_error *error = dv_call_error(call);

	dv_pages_count_answer(stats, call);
	probe->counted = true;
	if (error->verdict == DV_VERDICT_OK)
	{
		stats->bytes += dv_call_result(call)->bytes_received;
		return dv_call_result(call);
	}
	if (dv_form_blamed(error))
	{
		dv_form_refused(all->spec.pages.session, dv_ranges_form(all), all->spec.table, 0, error);
		all->divides = false;
	}
	return NULL;
}

static void
take_probe(dv_range *r)
{
	dv_ranges  *all = r->all;
	const dv_http_result *result;
	int			rows;

	all->look = true;
	/* with the subtransaction in which it was sent; it can be sent again */
	if (dv_call_stopped(r->probe.call))
	{
		dv_spread_drop(all, &r->probe);
		return;
	}
	result = take_answer(all, &r->probe);
	if (result != NULL)
	{
		rows = read_id(all, result, &r->top);
		/* without a row, nothing is left */
		if (rows == 0)
			r->top = *front_of(r);
		r->has_top = rows >= 0;
	}
	if (!r->has_top && ++all->failures >= PROBE_FAILURES)
		all->divides = false;
	dv_spread_drop(all, &r->probe);
}

static void
take_trial(dv_ranges *all)
{
	const dv_http_result *result;
	dv_ordered_id id;

	all->look = true;
	if (dv_call_stopped(all->trial.call))
	{
		dv_spread_drop(all, &all->trial);
		return;
	}
	result = take_answer(all, &all->trial);
	if (result != NULL && read_id(all, result, &id) == 1 && dv_id_compare(&id, &all->tried) == 0)
		dv_form_prove(all->spec.pages.session, dv_ranges_form(all), all->spec.table);
	else
		all->divides = false;
	dv_spread_drop(all, &all->trial);
}

void
dv_spread_probes(dv_ranges *all)
{
	int			i;

	if (all->trial.call != NULL && dv_call_done(all->trial.call))
		take_trial(all);
	for (i = 0; i < all->n; i++)
		if (all->ranges[i]->probe.call != NULL && dv_call_done(all->ranges[i]->probe.call))
			take_probe(all->ranges[i]);
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
	/* ranges whose page waits to be read will want theirs back */
	for (i = 0; i < all->n; i++)
		if (i != all->current && dv_pages_ready(all->ranges[i]->pages))
			slots--;
	return slots;
}

/* Returns the number of rows that the caller will want, as far as is known; negative: all. */
static double
rows_wanted(const dv_ranges *all)
{
	const dv_pages_spec *spec = &all->spec.pages;
	double		wanted = spec->wanted >= 0 ? (double) spec->wanted : -1;

	if (spec->likely >= 0 && all->given < spec->likely && (wanted < 0 || spec->likely < wanted))
		wanted = spec->likely;
	return wanted;
}

/*
 * Lets more ranges be read at a time, if most of the time was spent waiting: n
 * ranges give as many rows as can be taken if they are waited for during (1 - 1
 * / n) of the time that one of them takes.
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
	/* what is said of the size may be far from the truth, so a small table begins later */
	if (all->waited < SHORTEST_WAIT ||
		(expected < large && all->given < LARGE_IN_ROWS && all->pages < LARGE_IN_PAGES))
		return;
	/* requests that have to be sent again are no reason for more of them */
	if (all->n >= all->allowed && waited > elapsed / 2 && repeated == all->mark_repeated &&
		waited * all->n >= SHORTEST_ANSWER * pages)
	{
		enough = ceil(all->allowed * (double) elapsed / Max((double) (elapsed - waited), 1.0));
		/* unless it is known to be worth it, as the rows come */
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
		most = (int) Min(most, ceil((wanted - all->given) / all->spec.pages.page_size));
	most = Min(most - all->n, all->credit);
	return most <= 0 ? 0 : Min(most, room(all));
}

static bool
has_end(const dv_range *r)
{
	return r->has_top || r->has_high;
}

static const dv_ordered_id *
end_of(const dv_range *r)
{
	return r->has_top ? &r->top : &r->high;
}

/* Returns how many times as wide as the current page is what lies behind it. */
static double
pages_left(const dv_range *r)
{
	double		left = dv_id_distance(front_of(r), end_of(r));
	double		width = dv_id_distance(&r->head, front_of(r));

	return left / Max(width, 1.0);
}

/* Returns the largest number of pages that a range can have left, as far as is known. */
static double
credible_pages(const dv_ranges *all)
{
	return Max(2 * all->spec.expected / all->spec.pages.page_size, CREDIBLE_PAGES);
}

/* Returns an estimate of the pages behind the current page of a range; 0 if it cannot be cut. */
static double
estimate(const dv_range *r)
{
	if (!r->more || !r->has_tail || !r->has_head || r->probe.call != NULL)
		return 0;
	return has_end(r) ? Min(pages_left(r), credible_pages(r->all)) : credible_pages(r->all);
}

/* The new range is from "low" on; the bounds of the one before it change later. */
static void
begin_range(dv_range *before, const dv_ordered_id *low, const dv_ordered_id *high, bool last)
{
	dv_ranges  *all = before->all;
	dv_range   *r = dv_ranges_add(all);
	MemoryContext old = MemoryContextSwitchTo(r->context);

	r->has_low = true;
	r->low = *low;
	r->has_high = high != NULL;
	if (high != NULL)
		r->high = *high;
	if (last)
	{
		r->has_top = before->has_top;
		r->top = before->top;
	}
	restrict_to(&r->query, DV_GE, low, high);
	dv_ranges_begin(r);
	MemoryContextSwitchTo(old);
	all->credit--;
	all->spec.pages.stats->ranges++;
}

/*
 * Cuts what is left of a range into parts, of which it keeps the first one.  The
 * last part is cut off first, so that at any time the ranges are disjoint.
 */
static void
divide(dv_range *r, int parts)
{
	dv_ranges  *all = r->all;
	dv_pages_stats *stats = all->spec.pages.stats;
	dv_ordered_id front = *front_of(r);
	dv_ordered_id end = *end_of(r);
	double		width = dv_id_distance(&r->head, &front);
	double		left = pages_left(r);
	double		factor = left > credible_pages(all) ? pow(left, 1.0 / parts) : 0;
	bool		last = true;
	int			i;

	for (i = parts - 1; i > 0; i--)
	{
		dv_ordered_id cut = factor == 0 ? dv_id_cut(&front, &end, i, parts) :
		dv_id_after(&front, Max(width, 1.0) * pow(factor, i));

		if (dv_id_compare(&cut, &front) <= 0)
			break;
		if (r->has_high && dv_id_compare(&cut, &r->high) >= 0)
			continue;
		begin_range(r, &cut, r->has_high ? &r->high : NULL, last);
		r->has_high = true;
		r->high = cut;
		last = false;
	}
	if (last)
		return;
	r->has_top = false;
	r->sparse = false;
	if (!all->divided)
		stats->ranges++;
	all->divided = true;
	stats->most_ranges = Max(stats->most_ranges, all->n);
}

/* Does the service compare ids as we do?  If that is not known, it is asked, once in a session. */
static bool
order_is_proven(const dv_range *r)
{
	dv_ranges  *all = r->all;

	if (dv_form_proven(all->spec.pages.session, dv_ranges_form(all), all->spec.table))
		return true;
	if (all->trial.call == NULL)
	{
		all->tried = r->head;
		ask_for_order(all, &all->tried);
	}
	return false;
}

void
dv_spread(dv_ranges *all)
{
	double		left[DV_MOST_RANGES];
	int			parts[DV_MOST_RANGES];
	int			n = all->n;
	int			more;
	bool		ordered;
	int			i;

	all->look = false;
	if (!all->divides)
		return;
	more = addable(all);
	for (i = 0; i < n; i++)
	{
		left[i] = estimate(all->ranges[i]);
		parts[i] = 1;
	}
	/* the next page of each range is under way, so a part has to be one page at least */
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
		dv_range   *r = all->ranges[i];

		if (parts[i] == 1)
			continue;
		ordered = order_is_proven(r);
		if (!r->has_top && (r->sparse || !r->has_high))
			ask_for_top(r);
		else if (ordered)
			divide(r, parts[i]);
	}
}

/*
 * ranges.c
 *		All rows of a query, read as several ranges of ids at a time.
 *
 * Reading begins with one range, of all ids.  When another range can be read
 * at the same time, the one that seems to have most left is cut: it keeps its
 * requests and ends here, at the cut, and the ids from there on become a new
 * range (spread.c).  Each range has its own pages (client/pages.h), and a page
 * that waits to be read is not followed by a request for the next one; so no
 * more is kept than a page for each range, and one more.
 *
 * Why rows are returned once, whatever is cut when:  the ranges that have not
 * ended are disjoint, and together they are all ids that have not been passed.
 * A cut lies behind the last row that its range has returned, and changes
 * nothing but who returns the rows beyond.  Each row is compared with the bounds
 * of its range, also where the service was asked to do so.  That takes a
 * service that sorts and compares ids as we do (dataverse/id_order.h), which it is
 * asked before the first cut (id_trial.h); and the order of the rows is checked.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "client/range.h"

/* While rows are read, data is fetched from the sockets once for this many rows. */
#define ADVANCE_EVERY 256

/* What the bounds of a range add to a URL, and more. */
#define LENGTH_OF_BOUNDS 400

/*
 * Requests
 */

/* What is behind the end of the current page may be read by others. */
static bool
watch_page(void *arg, const char *body, size_t len, bool more)
{
	dv_range   *r = arg;
	dv_ranges  *all = r->all;
	const dv_ranges_spec *spec = &all->spec;
	dv_value	id;
	uint8		uuid[DV_ID_LEN];
	int64		then = all->given + (int64) all->n * spec->pages.page_size;

	all->look = true;
	all->pages++;
	r->more = more;
	r->has_head = false;
	r->has_tail = dv_page_peek_last(body, len, spec->pages.id, &id) &&
		dv_value_uuid(&id, uuid) == DV_VALUE_OK;
	if (!more)
		return false;
	all->credit += DV_CREDIT_OF_PAGE;
	if (r->has_tail)
		dv_id_order(uuid, &r->tail);
	if (r->has_tail && r->has_high && dv_id_compare(&r->tail, &r->high) >= 0)
		return false;
	/* as more_is_wanted() of pages.c, but all ranges have a page */
	if (spec->pages.wanted >= 0 && then >= spec->pages.wanted)
		return false;
	return spec->pages.likely < 0 || then < spec->pages.likely ||
		all->given >= spec->pages.likely;
}

dv_range *
dv_ranges_add(dv_ranges *all)
{
	MemoryContext context = AllocSetContextCreate(all->context, "dataverse range",
												  ALLOCSET_SMALL_SIZES);
	dv_range   *r = MemoryContextAllocZero(context, sizeof(*r));

	r->all = all;
	r->context = context;
	r->query = all->query;
	all->ranges[all->n++] = r;
	return r;
}

/* The rows of a query for the first rows come in one answer. */
static bool
is_paged(const dv_query *query)
{
	return query->language == DV_LANGUAGE_FETCHXML && query->top == 0;
}

/* Returns the path of a page of FetchXML. */
static char *
path_of_page(void *arg, int number, const char *cookie)
{
	const dv_range *r = arg;
	dv_fetch_page page = {number, r->all->spec.pages.page_size, cookie};

	return dv_query_path(&r->query, DV_ODATA_WIRE, is_paged(&r->query) ? &page : NULL);
}

/* Begins to read a range, or the query as a whole. */
static void
start_pages(dv_range *r, dv_pages_spec *spec)
{
	if (is_paged(&r->query))
	{
		spec->linker = path_of_page;
		spec->linker_arg = r;
	}
	r->pages = dv_pages_start(spec, r->context);
}

void
dv_ranges_begin(dv_range *r)
{
	dv_pages_spec spec = r->all->spec.pages;

	spec.progress = NULL;
	spec.watcher = watch_page;
	spec.watcher_arg = r;
	if (r->has_low || r->plain)
	{
		MemoryContext old = MemoryContextSwitchTo(r->context);

		spec.path = path_of_page(r, 1, NULL);
		spec.first_path = NULL;
		spec.has_plainer = !r->plain;
		MemoryContextSwitchTo(old);
	}
	start_pages(r, &spec);
}

dv_form
dv_ranges_form(const dv_ranges *all)
{
	return all->query.language == DV_LANGUAGE_FETCHXML ? DV_FORM_FETCH_RANGES : DV_FORM_RANGES;
}

dv_ranges *
dv_ranges_start(const dv_ranges_spec *spec, MemoryContext owner)
{
	MemoryContext context = AllocSetContextCreate(owner, "dataverse ranges", ALLOCSET_SMALL_SIZES);
	dv_ranges  *all = MemoryContextAllocZero(context, sizeof(*all));
	dv_range   *r;

	all->spec = *spec;
	all->spec.pages.is_fetchxml = spec->query->language == DV_LANGUAGE_FETCHXML;
	all->query = *spec->query;
	all->context = context;
	all->current = -1;
	all->allowed = spec->automatic ? 1 : Min(spec->most, DV_MOST_RANGES);
	all->credit = spec->most * DV_CREDIT_OF_RANGE;
	all->divides = spec->most > 1 &&
		strlen(spec->pages.path) + strlen(dv_session_root(spec->pages.session)) +
		LENGTH_OF_BOUNDS < DV_ODATA_MAX_URL &&
		dv_form_most(spec->pages.session, dv_ranges_form(all), spec->table, 1) > 0;
	all->mark_time = dv_now();
	r = dv_ranges_add(all);
	if (all->divides)
		dv_ranges_begin(r);
	else
		start_pages(r, &all->spec.pages);
	if (!all->divides)
		all->spec.most = 1;
	return all;
}

void
dv_ranges_end(dv_ranges *all)
{
	dv_spread_drop(all, &all->trial);
	MemoryContextDelete(all->context);
}

/* Counts what has been requested and will not be read; see dv_pages_count_unread. */
static void
count_unread(dv_range *r)
{
	dv_spread_drop(r->all, &r->probe);
	dv_pages_count_unread(r->pages);
}

void
dv_ranges_count_unread(dv_ranges *all)
{
	int			i;

	dv_spread_drop(all, &all->trial);
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

/* There will be one range only, whose pages do everything themselves. */
static bool
is_single(const dv_ranges *all)
{
	return all->spec.most == 1;
}

/*
 * Rows
 */

/* The bounds of ranges mean something else to the service than to us. */
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

/* As long as there is one range, any order will do; but then there must not be more. */
static void
doubt_order(dv_ranges *all, const char *why)
{
	if (all->divided)
		out_of_order(all, why);
	all->divides = false;
}

static void
drop_range(dv_ranges *all, int i)
{
	if (all->spec.pages.counts_unread)
		count_unread(all->ranges[i]);
	dv_spread_drop(all, &all->ranges[i]->probe);
	MemoryContextDelete(all->ranges[i]->context);
	all->ranges[i] = all->ranges[--all->n];
	all->current = -1;
	all->look = true;
}

/*
 * If nearly nothing was in the range, the same may be true of the one before it,
 * of which it was cut off.
 */
static void
end_range(dv_ranges *all, int i)
{
	const dv_range *ended = all->ranges[i];
	int			j;

	for (j = 0; j < all->n && ended->has_low; j++)
	{
		dv_range   *r = all->ranges[j];

		if (ended->rows < all->spec.pages.page_size / 2 && r->has_high &&
			dv_id_compare(&r->high, &ended->low) == 0)
			r->sparse = true;
	}
	drop_range(all, i);
}

/* The pages of a range have come to their end. */
static void
end_pages(dv_ranges *all, int i)
{
	dv_range   *r = all->ranges[i];
	const dv_error *refusal = dv_pages_refusal(r->pages);

	if (refusal == NULL)
	{
		end_range(all, i);
		return;
	}
	if (!all->divided)
	{
		/* which lives as long as the pages */
		all->refusal = refusal;
		all->n = 0;
		return;
	}
	/* the service does not take the bounds: it returns all rows, and those of this range are kept */
	dv_form_refused(all->spec.pages.session, dv_ranges_form(all), all->spec.table, 0, refusal);
	all->divides = false;
	all->current = -1;
	dv_pages_end(r->pages);
	r->plain = true;
	r->query = all->query;
	dv_ranges_begin(r);
}

typedef enum row_place
{
	ROW_BEFORE,					/* belongs to another range, or to what has been passed */
	ROW_INSIDE,
	ROW_BEHIND
} row_place;

/* Where is the row that the range has got? */
static row_place
place_of(dv_range *r, const dv_value *value)
{
	dv_ranges  *all = r->all;
	uint8		uuid[DV_ID_LEN];
	dv_ordered_id id;

	if (dv_value_uuid(value, uuid) != DV_VALUE_OK)
	{
		doubt_order(all, "A row has no id.");
		return ROW_INSIDE;
	}
	dv_id_order(uuid, &id);
	if (r->has_last && dv_id_compare(&id, &r->last) <= 0)
	{
		/* new, or written again, in front of rows that were deleted since they were returned */
		if (all->divided && dv_pages_repeated(r->pages))
			return ROW_BEFORE;
		doubt_order(all, "The ids of its pages do not ascend.");
	}
	r->last = id;
	r->has_last = true;
	if (!r->has_head)
		r->head = id;
	r->has_head = true;
	if (r->has_high && dv_id_compare(&id, &r->high) >= 0)
		return ROW_BEHIND;
	if (r->has_low && dv_id_compare(&id, &r->low) < 0)
	{
		if (!r->plain)
			out_of_order(all, "A row is not in the requested range of ids.");
		return ROW_BEFORE;
	}
	r->rows++;
	return ROW_INSIDE;
}

/* Returns a range that need not be waited for, or -1.  Each of them has its turn. */
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
		calls += dv_call_in_flight(all->ranges[i]->probe.call);
	}
	return calls;
}

/* "rows" have been received before the page that is being read. */
static void
tell_progress(dv_ranges *all, int64 rows)
{
	all->told_in_flight = in_flight(all);
	dv_progress_read(all->spec.pages.progress, all->spec.pages.stats->requests, rows,
					 all->told_in_flight);
}

/* Selects the range to read next; returns false if all of them have to be waited for. */
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
		/* a request that waited for a slot may have left */
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

/* Reads one row of the current range.  Returns true if it belongs to it. */
static bool
read_row(dv_ranges *all, dv_value *values)
{
	int			i = all->current;
	dv_range   *r = all->ranges[i];
	dv_pages_stats *stats = all->spec.pages.stats;
	int64		waited = stats->waited;
	int64		rows = stats->rows;
	int64		pages = all->pages;
	dv_pages_state state = dv_pages_poll(r->pages, values);

	/* what one range waits for, another one makes use of */
	stats->waited = waited;
	if (all->pages != pages)
		tell_progress(all, rows);
	switch (state)
	{
		case DV_PAGES_WAITING:
			all->current = -1;
			return false;
		case DV_PAGES_END:
			end_pages(all, i);
			return false;
		case DV_PAGES_TOMBSTONE:	/* these only with "by_page" */
		case DV_PAGES_TURNED:
		case DV_PAGES_ROW:
			break;
	}
	switch (place_of(r, &values[all->spec.id]))
	{
		case ROW_BEFORE:
			return false;
		case ROW_BEHIND:
			end_range(all, i);
			return false;
		case ROW_INSIDE:
			break;
	}
	all->given++;
	return true;
}

dv_pages_state
dv_ranges_poll(dv_ranges *all, dv_value *values)
{
	if (is_single(all))
	{
		dv_pages_state state = dv_pages_poll(all->ranges[0]->pages, values);

		all->refusal = dv_pages_refusal(all->ranges[0]->pages);
		return state;
	}
	if (all->n > 1 && ++all->since_advance % ADVANCE_EVERY == 0)
		dv_call_advance();
	while (all->n > 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (all->look || all->current < 0)
		{
			dv_spread_probes(all);
			if (all->look)
				dv_spread(all);
		}
		if (all->current < 0 && !select_range(all))
			return DV_PAGES_WAITING;
		if (read_row(all, values))
			return DV_PAGES_ROW;
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

bool
dv_ranges_next(dv_ranges *all, dv_value *values)
{
	dv_pages_state state;

	if (is_single(all))
	{
		bool		any = dv_pages_next(all->ranges[0]->pages, values);

		all->refusal = dv_pages_refusal(all->ranges[0]->pages);
		return any;
	}
	while ((state = dv_ranges_poll(all, values)) == DV_PAGES_WAITING)
		dv_call_pause(0, DV_WAIT_RESPONSE);
	return state == DV_PAGES_ROW;
}

/*
 * group_scan.c
 *		Groups that the service forms, of any number of rows.
 *
 * The service groups at most 50,000 rows and returns at most 5,000 groups.  It refuses
 * to group more rows, and omits further groups without notice.  Larger reads are
 * divided by the ids of the root's rows, and several parts are requested at a time.
 * Each row is in exactly one part, whatever is written meanwhile, and a part that is
 * still too large is divided again.  As ids are usually not spread evenly, the cuts lie
 * between the first and the last id that exist.  The first division of a session
 * requires proof that the service compares ids as we do (client/id_range.h).
 *
 * COUNT(DISTINCT) of parts cannot be added up, and neither can that of the months of a
 * quarter or the days of a week.  Once there are parts, or if there are such periods,
 * the values become keys of the query, and are counted locally.
 *
 * Rows are read and grouped locally if the service refuses to form groups, if it would
 * form other groups because its days do not begin when the session's do, or if there
 * turn out to be about as many groups as rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "client/forms.h"
#include "client/id_range.h"
#include "dataverse/address.h"
#include "fdw/scan/scan_state.h"

/* Parts that are requested at the same time. */
#define PARTS_AT_ONCE 8

/* Useless answers may have so many groups, as a share of the rows. */
#define MOST_WASTED 0.25
/* The number of rows that is assumed if none is known. */
#define UNKNOWN_ROWS 40000

typedef enum part_state
{
	PART_GROUPING,
	PART_SEEKING_FIRST,			/* the first and the last id, to divide the part */
	PART_SEEKING_LAST,
	PART_PROVING				/* the order of ids, by the first one */
} part_state;

typedef struct part
{
	MemoryContext context;		/* of the part itself */
	dv_id_range bounds;
	dv_ordered_id first;		/* of the ids that exist */
	dv_ordered_id last;
	part_state	state;
	dv_pages   *pages;			/* NULL: none has been sent */
	MemoryContext request;		/* of the current request and its rows */
	List	   *rows;			/* arrays of dv_group_value */
	bool		any;			/* the answer has a row */
	bool		single;			/* the part had only one row when it was to be divided */
} part;

typedef struct grouping
{
	dv_scan    *scan;
	MemoryContext context;
	List	   *waiting;		/* parts; the newest come first, so that there are few */
	List	   *active;
	int			cut_short;		/* answers that had no room for all groups */
	bool		refused;		/* the service does not form such groups */
} grouping;

/*
 * Values of groups
 */

static dv_value
number_of(const dv_scan *scan, int member)
{
	dv_value	value = scan->members[member];

	dv_value_respell(&value, DV_FORM_NUMBER);
	return value;
}

/* Reads a part of a date; returns false if it is null. */
static bool
read_number(const dv_scan *scan, int member, int *number)
{
	dv_value	value = number_of(scan, member);
	int32_t		n;

	if (dv_value_is_null(&value))
		return false;
	if (dv_value_int32(&value, &n) != DV_VALUE_OK)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse returned no number for a part of a date", scan->what,
						dv_session_config_of(scan->session)->server_name)));
	*number = n;
	return true;
}

static int64
read_count(const dv_scan *scan, int member)
{
	dv_value	value = number_of(scan, member);
	int64_t		n = 0;

	/* a count is never null, so a missing one does not mean 0 */
	if (dv_value_int64(&value, &n) != DV_VALUE_OK || n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse returned no count", scan->what,
						dv_session_config_of(scan->session)->server_name)));
	return n;
}

static void
read_sum(const dv_scan *scan, int member, dv_group_value *out)
{
	dv_value	value = number_of(scan, member);

	out->isnull = dv_value_is_null(&value);
	if (out->isnull && out->count == 0)
		return;
	if (value.kind != DV_VALUE_NUMBER)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse returned no number for a sum", scan->what,
						dv_session_config_of(scan->session)->server_name)));
	out->value = DirectFunctionCall3(numeric_in, CStringGetDatum(pnstrdup(value.text, value.len)),
									 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

/* Returns the first day of a period. */
static DateADT
begin_period(dv_read_period period, int year, int month, int day)
{
	int			julian;

	switch (period)
	{
		case DV_READ_YEAR:
			month = day = 1;
			break;
		case DV_READ_QUARTER:
			month = (month - 1) / 3 * 3 + 1;
			day = 1;
			break;
		case DV_READ_MONTH:
			day = 1;
			break;
		case DV_READ_WEEK:
		case DV_READ_DAY:
			break;
	}
	julian = date2j(year, month, day);
	/* weeks begin on Monday */
	if (period == DV_READ_WEEK)
		julian -= (j2day(julian) + 6) % 7;
	return julian - POSTGRES_EPOCH_JDATE;
}

static Datum
as_type(DateADT date, Oid type)
{
	if (type == TIMESTAMPTZOID)
		return DirectFunctionCall1(date_timestamptz, DateADTGetDatum(date));
	if (type == TIMESTAMPOID)
		return DirectFunctionCall1(date_timestamp, DateADTGetDatum(date));
	return DateADTGetDatum(date);
}

static void
read_period(const dv_scan *scan, const dv_source *source, dv_read_period period,
			Oid type, dv_group_value *out)
{
	int			year;
	int			month = 1;
	int			day = 1;

	out->isnull = !read_number(scan, source->members[0], &year) ||
		(period != DV_READ_YEAR && !read_number(scan, source->members[1], &month)) ||
		((period == DV_READ_WEEK || period == DV_READ_DAY) &&
		 !read_number(scan, source->members[2], &day));
	if (!out->isnull)
		out->value = as_type(begin_period(period, year, month, day), type);
}

static void
read_key(const dv_scan *scan, int i, dv_group_value *out)
{
	const dv_source *source = &scan->request.sources[i];

	if (source->attribute->column.type == DV_TYPE_DATE)
		read_period(scan, source, DV_READ_DAY, source->attribute->pgtype, out);
	else
		out->value = dv_read_value(scan, i, &out->isnull);
}

/* Reads one column of a group as the service returned it. */
static void
read_column(const dv_scan *scan, int i, Oid type, dv_group_value *out)
{
	const dv_source *source = &scan->request.sources[i];

	switch (source->item->content)
	{
		case DV_READ_KEY:
			read_key(scan, i, out);
			break;
		case DV_READ_PERIOD:
			read_period(scan, source, source->item->period, type, out);
			break;
		case DV_READ_COUNT:
		case DV_READ_COUNT_VALUES:
			out->count = read_count(scan, source->members[0]);
			break;
		case DV_READ_COUNT_DISTINCT:
			if (scan->request.distinct_values)
				read_key(scan, i, out);
			else
			{
				out->isnull = true;
				out->count = read_count(scan, source->members[0]);
			}
			break;
		case DV_READ_AVG:
			out->count = read_count(scan, source->members[1]);
			read_sum(scan, source->members[0], out);
			break;
		case DV_READ_SUM:
			read_sum(scan, source->members[0], out);
			break;
		default:
			out->value = dv_read_value(scan, i, &out->isnull);
	}
}

static dv_group_value *
read_group(const dv_scan *scan, TupleDesc desc)
{
	dv_group_value *values = palloc0(sizeof(dv_group_value) * Max(scan->request.nsources, 1));
	int			i;

	for (i = 0; i < scan->request.nsources; i++)
		read_column(scan, i, TupleDescAttr(desc, i)->atttypid, &values[i]);
	return values;
}

/*
 * Parts
 */

static part *
create_part(MemoryContext owner)
{
	MemoryContext context = AllocSetContextCreate(owner, "dataverse part", ALLOCSET_SMALL_SIZES);
	part	   *p = MemoryContextAllocZero(context, sizeof(*p));

	p->context = context;
	p->request = AllocSetContextCreate(context, "dataverse groups", ALLOCSET_DEFAULT_SIZES);
	return p;
}

/* Groups take one request.  The requests of parts differ only in their restrictions. */
static bool
next_query(dv_request *request, dv_query *query)
{
	dv_request_again(request);
	return dv_request_next(request, query);
}

/* Sends the request for the state of the part; returns false if no row can match. */
static bool
send_part(dv_scan *scan, part *p)
{
	static const dv_extent extents[] = {
		[PART_GROUPING] = DV_EXTENT_ALL,
		[PART_SEEKING_FIRST] = DV_EXTENT_FIRST,
		[PART_SEEKING_LAST] = DV_EXTENT_LAST,
		[PART_PROVING] = DV_EXTENT_ALL,
	};
	dv_request *request = &scan->request;
	bool		for_groups = p->state == PART_GROUPING;
	const char *const *members = for_groups ? request->members :
	&request->relations[0]->primary_id.property;
	int			n = for_groups ? request->nmembers : 1;
	MemoryContext old;
	dv_pages_spec spec;
	dv_query	query;
	bool		any;

	MemoryContextReset(p->request);
	p->rows = NIL;
	p->any = false;
	old = MemoryContextSwitchTo(p->request);
	request->within = dv_id_range_filter(NULL, &request->relations[0]->primary_id, DV_GE, &p->bounds);
	request->extent = extents[p->state];
	any = next_query(request, &query);
	request->within = NULL;
	request->extent = DV_EXTENT_ALL;
	if (any)
	{
		if (p->state == PART_PROVING)
			dv_id_ask_trial(&query, &p->first);
		query.top = for_groups ? 0 : 1;
		spec = dv_read_pages_spec(scan);
		spec.path = dv_query_path(&query, DV_ODATA_WIRE, NULL);
		spec.names = dv_names_init(palloc(dv_names_size(members, n)), members, n);
		/* if the service refuses, rows can be read instead */
		spec.has_plainer = true;
		p->pages = dv_pages_start(&spec, p->request);
	}
	MemoryContextSwitchTo(old);
	return any;
}

static void
seek(grouping *g, part *p, part_state state)
{
	p->state = state;
	if (!send_part(g->scan, p))
		elog(ERROR, "no rows of foreign table \"%s\" to divide", g->scan->request.relations[0]->name);
}

static void
add_part(grouping *g, const dv_id_range *bounds)
{
	part	   *p = create_part(g->context);

	p->bounds = *bounds;
	g->waiting = lcons(p, g->waiting);
	g->scan->parts++;
}

/*
 * Replaces a part by several, with cuts between the first and the last id that exist in
 * it: the whole by as many as its size requires, a part of it by two.
 */
static void
divide(grouping *g, const part *p)
{
	bool		again = p->bounds.has_low || p->bounds.has_high;
	int			n = again ? 2 : Max(dv_read_parts(&g->scan->request.plan), 2);
	dv_id_range left = p->bounds;
	dv_ordered_id before = p->first;
	int			i;

	for (i = 1; i < n; i++)
	{
		dv_ordered_id cut = dv_id_cut(&p->first, &p->last, i, n);
		dv_id_range rest;

		/* there may be fewer ids than parts; but each of two parts gets one */
		if (n == 2 && dv_id_compare(&cut, &before) <= 0)
			cut = p->last;
		if (dv_id_compare(&cut, &before) <= 0)
			continue;
		rest = dv_id_range_cut(&left, &cut);
		add_part(g, &left);
		left = rest;
		before = cut;
	}
	add_part(g, &left);
}

/*
 * A part that was too large has turned out to have a row or none.  Usually its other
 * rows have been deleted in the meantime, so it can be grouped now.  Returns true if the
 * part is finished.
 */
static bool
group_single(grouping *g, part *p)
{
	if (p->single)
	{
		g->refused = true;
		return true;
	}
	p->single = true;
	p->state = PART_GROUPING;
	return !send_part(g->scan, p);
}

/*
 * Reads the id that was requested of a part that is too large.  Returns true if the part
 * is finished.
 */
static bool
finish_seeking(grouping *g, part *p)
{
	dv_scan    *scan = g->scan;
	const char *table = scan->request.relations[0]->table;
	dv_ordered_id id;

	/* the rows have been deleted, so there is nothing to group */
	if (!p->any)
	{
		g->refused = p->state == PART_PROVING;
		return true;
	}
	id = dv_read_id(scan, &scan->members[0]);
	switch (p->state)
	{
		case PART_SEEKING_FIRST:
			p->first = id;
			seek(g, p, PART_SEEKING_LAST);
			return false;
		case PART_SEEKING_LAST:
			p->last = id;
			if (dv_id_compare(&p->first, &p->last) >= 0)
				return group_single(g, p);
			if (dv_form_proven(scan->session, DV_FORM_FETCH_RANGES, table))
				break;
			seek(g, p, PART_PROVING);
			return false;
		default:
			g->refused = dv_id_compare(&id, &p->first) != 0;
			if (g->refused)
				return true;
			dv_form_prove(scan->session, DV_FORM_FETCH_RANGES, table);
	}
	divide(g, p);
	return true;
}

/* The service does not group so many rows, or does not return so many groups. */
static void
part_is_too_large(grouping *g, part *p)
{
	dv_scan    *scan = g->scan;

	if (scan->parts == 0 && !scan->request.distinct_values)
	{
		/* from now on, request only what can be merged */
		scan->request.distinct_values = true;
		dv_read_choose(scan);
	}
	seek(g, p, PART_SEEKING_FIRST);
}

/*
 * Have so many answers lacked groups that reading the rows takes less?  If parts of a
 * size that the service can group have too many groups, then smaller parts have few
 * rows for each group, and there are more of them than pages of the table.
 */
static bool
is_in_vain(const grouping *g)
{
	double		rows = g->scan->request.plan.rows > 0 ? g->scan->request.plan.rows : UNKNOWN_ROWS;

	return (double) g->cut_short * DV_RETURNED_GROUPS >= rows * MOST_WASTED;
}

/* The answer to a part is complete.  Returns true if the part is finished. */
static bool
finish_answer(grouping *g, part *p)
{
	dv_scan    *scan = g->scan;
	const dv_error *refusal = dv_pages_refusal(p->pages);
	ListCell   *lc;

	if (refusal != NULL &&
		(p->state != PART_GROUPING || refusal->meaning != DV_MEANING_COUNT_LIMIT))
	{
		g->refused = true;
		return true;
	}
	if (p->state != PART_GROUPING)
		return finish_seeking(g, p);
	if (refusal != NULL || dv_pages_cut_short(p->pages) ||
		list_length(p->rows) >= DV_RETURNED_GROUPS)
	{
		if (refusal == NULL)
			g->cut_short++;
		if (is_in_vain(g))
		{
			g->refused = true;
			return true;
		}
		part_is_too_large(g, p);
		return false;
	}
	foreach(lc, p->rows)
	{
		dv_groups_add(scan->groups, lfirst(lc));
	}
	return true;
}

/* Reads what has arrived of a part.  Returns true if the part is finished. */
static bool
advance_part(grouping *g, part *p, TupleDesc desc)
{
	dv_scan    *scan = g->scan;

	for (;;)
	{
		MemoryContext old;

		switch (dv_pages_poll(p->pages, scan->members))
		{
			case DV_PAGES_WAITING:
				return false;
			case DV_PAGES_END:
				if (finish_answer(g, p))
					return true;
				continue;
			case DV_PAGES_TOMBSTONE:	/* these occur only with "by_page" */
			case DV_PAGES_TURNED:
			case DV_PAGES_ROW:
				break;
		}
		p->any = true;
		if (p->state != PART_GROUPING)
			continue;
		dv_link_names_check(scan);
		old = MemoryContextSwitchTo(p->request);
		p->rows = lappend(p->rows, read_group(scan, desc));
		MemoryContextSwitchTo(old);
	}
}

/* Starts as many parts as are allowed at a time. */
static void
start_parts(grouping *g)
{
	while (g->waiting != NIL && list_length(g->active) < PARTS_AT_ONCE)
	{
		part	   *p = linitial(g->waiting);

		g->waiting = list_delete_first(g->waiting);
		if (send_part(g->scan, p))
			g->active = lappend(g->active, p);
		else
			MemoryContextDelete(p->context);
	}
}

/* Reads what has arrived of all parts. */
static void
advance_parts(grouping *g, TupleDesc desc)
{
	ListCell   *lc;

	foreach(lc, g->active)
	{
		part	   *p = lfirst(lc);

		if (!advance_part(g, p, desc))
			continue;
		MemoryContextDelete(p->context);
		g->active = foreach_delete_current(g->active, lc);
		if (g->refused)
			return;
	}
}

/* Do all parts wait for answers?  While one was read, the answer to another may have arrived. */
static bool
all_are_waiting(const grouping *g)
{
	ListCell   *lc;

	foreach(lc, g->active)
	{
		if (dv_pages_ready(((const part *) lfirst(lc))->pages))
			return false;
	}
	return g->active != NIL;
}

/* Returns false if the service does not form such groups. */
static bool
form_in_parts(grouping *g, TupleDesc desc)
{
	dv_scan    *scan = g->scan;
	part	   *whole = create_part(g->context);
	dv_query	query;

	if (!next_query(&scan->request, &query))
		return true;
	(void) dv_link_names_choose(scan);
	/* if all rows are certainly too many, they are not requested as a whole */
	if (dv_read_parts(&scan->request.plan) > 1)
	{
		g->active = list_make1(whole);
		part_is_too_large(g, whole);
	}
	else
		g->waiting = list_make1(whole);
	while (!g->refused && (g->waiting != NIL || g->active != NIL))
	{
		start_parts(g);
		advance_parts(g, desc);
		if (!g->refused && all_are_waiting(g))
			dv_call_pause(0, DV_WAIT_RESPONSE);
	}
	return !g->refused;
}

/* The same, without a request left under way. */
static bool
form_remotely(dv_scan *scan, TupleDesc desc)
{
	grouping	g = {.scan = scan};
	MemoryContext old;
	ListCell   *lc;
	bool		formed;

	g.context = AllocSetContextCreate(CurrentMemoryContext, "dataverse parts",
									  ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(g.context);
	formed = form_in_parts(&g, desc);
	/* if they were not formed, requests may still be under way */
	foreach(lc, g.active)
	{
		dv_pages_count_unread(((part *) lfirst(lc))->pages);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(g.context);
	return formed;
}

/*
 * Groups of rows that are read
 */

/* Returns what date_trunc() of a column is in the statement. */
static Datum
truncate_to_period(dv_read_period period, Datum value, Oid type, Oid result)
{
	Datum		name = CStringGetTextDatum(dv_read_periods[period]);

	if (type == DATEOID)
		value = as_type(DatumGetDateADT(value), result);
	return result == TIMESTAMPTZOID ? DirectFunctionCall2(timestamptz_trunc, name, value) :
		DirectFunctionCall2(timestamp_trunc, name, value);
}

static Datum
as_numeric(Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return NumericGetDatum(int64_to_numeric(DatumGetInt16(value)));
		case INT4OID:
			return NumericGetDatum(int64_to_numeric(DatumGetInt32(value)));
		case INT8OID:
			return NumericGetDatum(int64_to_numeric(DatumGetInt64(value)));
		default:
			return value;
	}
}

/* Turns a row into a group of its own. */
static void
group_row(dv_scan *scan, TupleDesc desc, dv_group_value *values)
{
	int			i;

	for (i = 0; i < scan->request.nsources; i++)
	{
		const dv_source *source = &scan->request.sources[i];
		dv_group_value *v = &values[i];

		v->isnull = true;
		v->count = 1;
		if (source->attribute == NULL)
			continue;
		v->value = dv_read_value(scan, i, &v->isnull);
		v->count = v->isnull ? 0 : 1;
		if (v->isnull)
			continue;
		if (source->item->content == DV_READ_PERIOD)
			v->value = truncate_to_period(source->item->period, v->value, source->attribute->pgtype,
										  TupleDescAttr(desc, i)->atttypid);
		else if (source->item->content == DV_READ_SUM || source->item->content == DV_READ_AVG)
			v->value = as_numeric(v->value, source->attribute->pgtype);
	}
}

static void
form_locally(dv_scan *scan, TupleDesc desc)
{
	dv_group_value *values = palloc0(sizeof(dv_group_value) * Max(scan->request.nsources, 1));
	MemoryContext old;

	scan->grouped_locally = true;
	if (!scan->request.rows)
	{
		scan->request.rows = true;
		scan->request.wants_id = true;
		dv_read_choose(scan);
	}
	dv_request_start(&scan->request, -1);
	while (dv_read_next(scan) == DV_PAGES_ROW)
	{
		MemoryContextReset(scan->row);
		old = MemoryContextSwitchTo(scan->row);
		group_row(scan, desc, values);
		MemoryContextSwitchTo(old);
		dv_groups_add(scan->groups, values);
	}
}

/*
 * All groups
 */

static dv_groups *
begin_groups(const dv_scan *scan, TupleDesc desc)
{
	int			n = scan->request.nsources;
	Oid		   *types = palloc0(sizeof(Oid) * Max(n, 1));
	int		   *scales = palloc0(sizeof(int) * Max(n, 1));
	int			i;

	for (i = 0; i < n; i++)
	{
		const dv_attribute *attribute = scan->request.sources[i].attribute;

		if (attribute == NULL)
			continue;
		types[i] = attribute->pgtype;
		if (attribute->pgtype == NUMERICOID)
			scales[i] = dv_decoder_scale(scan->decoders[i]);
	}
	return dv_groups_begin(scan->request.plan.items, desc, types, scales);
}

/* Do the service's periods begin when the statement's do? */
static bool
has_same_periods(const dv_scan *scan)
{
	int			i;

	for (i = 0; i < scan->request.nsources; i++)
	{
		const dv_source *source = &scan->request.sources[i];

		if (source->item->content == DV_READ_PERIOD &&
			source->attribute->pgtype == TIMESTAMPTZOID && !dv_read_days_agree())
			return false;
	}
	return true;
}

void
dv_group_scan_form(dv_scan *scan, TupleDesc desc)
{
	MemoryContext old = MemoryContextSwitchTo(scan->query);

	scan->groups = begin_groups(scan, desc);
	if (scan->request.rows || !has_same_periods(scan) ||
		dv_read_plan_join_refused(&scan->request.plan, scan->request.relations, scan->userid))
		form_locally(scan, desc);
	else if (!form_remotely(scan, desc))
	{
		scan->groups = begin_groups(scan, desc);
		form_locally(scan, desc);
	}
	MemoryContextSwitchTo(old);
}

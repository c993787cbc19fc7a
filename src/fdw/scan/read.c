/*
 * read.c
 *		Sends the requests of a read, and returns its rows as they come.
 *
 * Rows are read from the current page (client/pages.h), and decoded one at a
 * time, when they are wanted.  If their order does not matter, several ranges
 * of ids may be read at a time (client/ranges.h).  This holds for tables and for
 * joins, whose rows are those of the root.
 *
 * Not only scans of the executor read rows: ANALYZE and RETURNING do, too.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "dataverse/policy.h"
#include "fdw/connection.h"
#include "fdw/scan/list.h"
#include "fdw/scan/scan_state.h"
#include "fdw/scan/wanted.h"
#include "net/text.h"

const dv_pages_stats *
dv_scan_stats(dv_scan *scan)
{
	if (scan->ranges != NULL)
		dv_ranges_count_unread(scan->ranges);
	if (scan->joined_here)
		dv_local_join_count_unread(scan->local_join);
	return scan->stats;
}

bool
dv_read_is_instrumented(const dv_scan *scan)
{
	return scan->executor != NULL && scan->executor->instrument != NULL;
}

/*
 * Beginning
 */

/* Sets up names of members for what is requested now. */
static void
name_members(dv_scan *scan)
{
	const dv_request *request = &scan->request;

	scan->names = dv_names_init(palloc(dv_names_size(request->members, request->nmembers)),
								request->members, request->nmembers);
	if (scan->names == NULL)
		elog(ERROR, "invalid member names of foreign table \"%s\"", request->relations[0]->name);
	scan->members = palloc0(sizeof(dv_value) * Max(request->nmembers, 1));
}

void
dv_read_choose(dv_scan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->context);

	dv_request_choose(&scan->request);
	name_members(scan);
	MemoryContextSwitchTo(old);
}

/* Creates the decoders, and returns whether errors of one of them name the row. */
static bool
create_decoders(dv_scan *scan)
{
	const dv_request *request = &scan->request;
	bool		names_rows = false;
	int			i;

	scan->decoders = palloc0(sizeof(dv_decoder *) * Max(request->nsources, 1));
	scan->fetched = palloc(sizeof(int) * Max(request->nsources, 1));
	for (i = 0; i < request->nsources; i++)
	{
		const dv_source *source = &request->sources[i];

		if (source->attribute == NULL)
			continue;
		scan->decoders[i] = dv_decoder_create(source->relation, source->attribute);
		scan->fetched[scan->nfetched++] = i;
		names_rows |= source->item->table == 0 && dv_decoder_names_rows(scan->decoders[i]);
	}
	if (request->list_column != 0)
	{
		const dv_relation *relation = request->relations[request->list_table];

		scan->listed = dv_decoder_create(relation,
										 dv_relation_attribute(relation, request->list_column));
	}
	return names_rows;
}

/* "read foreign tables "contact" and "account"" */
static const char *
describe(const dv_request *request)
{
	StringInfoData s;
	int			i;

	initStringInfo(&s);
	appendStringInfoString(&s, request->ntables > 1 ? "read foreign tables " : "read foreign table ");
	for (i = 0; i < request->ntables; i++)
		appendStringInfo(&s, "%s\"%s\"", i == 0 ? "" : i < request->ntables - 1 ? ", " : " and ",
						 request->relations[i]->name);
	return s.data;
}

dv_scan *
dv_read_create(const dv_read_plan *plan, const dv_relation **relations, List *exprs, Oid userid,
			   bool wants_id)
{
	dv_scan    *scan = palloc0(sizeof(*scan));

	dv_request_init(&scan->request, plan, relations, exprs);
	scan->userid = userid;
	scan->request.userid = userid;
	scan->what = describe(&scan->request);
	scan->stats = palloc0(sizeof(*scan->stats));
	scan->patient = true;
	scan->most_ranges = 1;
	scan->context = CurrentMemoryContext;
	scan->query = AllocSetContextCreate(CurrentMemoryContext, "dataverse query",
										ALLOCSET_DEFAULT_SIZES);
	scan->row = AllocSetContextCreate(CurrentMemoryContext, "dataverse row",
									  ALLOCSET_DEFAULT_SIZES);
	scan->request.wants_id = create_decoders(scan) || wants_id;
	dv_read_choose(scan);
	return scan;
}

/*
 * Requests
 */

dv_session *
dv_read_session(dv_scan *scan)
{
	if (scan->session == NULL)
		scan->session = dv_connection_get(scan->request.relations[0]->serverid, scan->userid);
	scan->request.session = scan->session;
	return scan->session;
}

/* Returns a hint for the case that the service does not answer the query as it should. */
static const char *
way_out(const dv_request *request)
{
	if (request->language == DV_LANGUAGE_ODATA)
		return NULL;
	return request->ntables > 1 ?
		"To join the tables in PostgreSQL, set option \"push_joins\" of the server, or of one of the foreign tables, to \"off\"." :
		"To form the groups in PostgreSQL, set option \"push_groups\" of the server, or of the foreign table, to \"off\".";
}

dv_pages_spec
dv_read_pages_spec(dv_scan *scan)
{
	dv_pages_spec spec = {0};

	spec.session = dv_read_session(scan);
	if (scan->progress == NULL)
		scan->progress = dv_relation_progress(scan->request.relations[0], scan->operation,
											  scan->expected, scan->context);
	spec.page_size = scan->request.page_size;
	spec.wanted = -1;
	spec.likely = -1;
	spec.annotations = scan->request.annotations;
	spec.names = scan->names;
	spec.computed = dv_request_groups(&scan->request);
	spec.what = scan->what;
	spec.way_out = way_out(&scan->request);
	spec.is_fetchxml = scan->request.language == DV_LANGUAGE_FETCHXML;
	spec.stats = scan->stats;
	spec.counts_unread = dv_read_is_instrumented(scan);
	spec.progress = scan->progress;
	return spec;
}

/* Returns the token that makes the last writes of this session to an elastic table visible. */
static const char *
session_token(const dv_scan *scan)
{
	const dv_relation *relation = scan->request.relations[0];
	const char *token = relation->type != DV_TABLE_ELASTIC ? NULL :
	dv_session_consistency_token(scan->session, relation->entity_set);

	/* the next write replaces it */
	return token != NULL ? pstrdup(token) : NULL;
}

/* Gets the next request, in a form that the service has not refused to this session. */
static bool
next_query(dv_scan *scan, dv_query *query)
{
	bool		any = dv_request_next(&scan->request, query);
	bool		new_session = scan->session == NULL;

	scan->accepted = false;
	/* if there are no rows to request, no session is needed */
	if (!any || scan->request.plan.ids_suffice)
		return any;
	(void) dv_read_session(scan);
	if (!dv_link_names_choose(scan) &&
		!(new_session && dv_request_has_plainer(&scan->request)))
		return true;
	dv_request_again(&scan->request);
	return dv_request_next(&scan->request, query);
}

double
dv_read_wants(dv_scan *scan)
{
	/* groups need all rows */
	if (scan->wants == 0)
		scan->wants = scan->executor == NULL || scan->spool != NULL || scan->request.plan.grouped ? -1 :
			dv_wanted_of(scan->executor).rows;
	return scan->wants;
}

/* Requests a few rows first if the statement will probably not want more (see client/pages.h). */
static void
ask_for_first(dv_scan *scan, const dv_query *query, dv_pages_spec *spec)
{
	dv_query	few = *query;

	spec->likely = dv_read_wants(scan) > 0 ? scan->wants : -1;
	/* the rows of one large page cost no more than a small answer and another request */
	if (scan->wants <= 0 || scan->wants > spec->page_size / 2 || spec->id == NULL)
		return;
	few.top = (int64_t) scan->wants;
	spec->first = few.top;
	spec->first_path = dv_query_path(&few, DV_ODATA_WIRE, NULL);
}

static dv_pages_spec
pages_of(dv_scan *scan, const dv_query *query)
{
	dv_pages_spec spec = dv_read_pages_spec(scan);
	dv_fetch_page first = {1, scan->request.page_size, NULL};

	spec.path = dv_query_path(query, DV_ODATA_WIRE, query->top > 0 ? NULL : &first);
	if (query->count || query->top > 0)
		spec.page_size = 0;
	/* except in virtual and elastic tables, ids are unique, and every order ends with the id */
	if ((scan->request.relations[0]->type == DV_TABLE_STANDARD || spec.is_fetchxml) && !query->count)
		spec.id = query->primary_id->property;
	spec.computed = query->count;
	spec.wanted = dv_request_listing(&scan->request)->list_omitted ? -1 : scan->request.wanted;
	spec.session_token = session_token(scan);
	spec.has_plainer = dv_request_has_plainer(&scan->request) || scan->request.ntables > 1;
	ask_for_first(scan, query, &spec);
	return spec;
}

static dv_ranges *
start_ranges(dv_scan *scan, const dv_query *query)
{
	dv_ranges_spec spec = {.query = query, .automatic = scan->automatic};

	spec.pages = pages_of(scan, query);
	spec.table = scan->request.relations[0]->table;
	spec.id = scan->request.id;
	spec.expected = scan->expected;
	/* the rows of $top come in one answer */
	spec.most = spec.pages.page_size > 0 ? scan->most_ranges : 1;
	return dv_ranges_start(&spec, scan->query);
}

/*
 * The first row or the end of the current request has arrived.  If the service has
 * refused the form of the request, the next one is for the same rows; if it has
 * refused a join, reads of its tables are.
 */
static void
note_answer(dv_scan *scan, const dv_error *refusal)
{
	MemoryContext old;

	if (scan->accepted)
		return;
	old = MemoryContextSwitchTo(scan->query);
	if (refusal != NULL && scan->request.ntables > 1)
		dv_local_join_start(scan, refusal);
	else if (refusal != NULL)
		dv_request_refused(&scan->request, refusal);
	else
		dv_request_accepted(&scan->request);
	scan->accepted = refusal == NULL;
	MemoryContextSwitchTo(old);
}

/* Begins the next request; returns false if there is none. */
static bool
next_request(dv_scan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->query);
	dv_query	query;
	bool		any = next_query(scan, &query);

	if (any && scan->request.plan.ids_suffice)
	{
		scan->ids = query.filter;
		scan->ids_returned = 0;
	}
	else if (any && dv_read_plan_join_refused(&scan->request.plan, scan->request.relations, scan->userid))
		dv_local_join_start(scan, NULL);
	else if (any)
		scan->ranges = start_ranges(scan, &query);
	MemoryContextSwitchTo(old);
	return any;
}

/*
 * Rows
 */

/* Returns the next id in the filter as if it came from a page. */
static bool
next_id(dv_scan *scan)
{
	dv_value	id = {.kind = DV_VALUE_STRING};
	int			i;

	if (scan->ids->kind != DV_EQ && scan->ids->kind != DV_IN)
		elog(ERROR, "ids of foreign table \"%s\" are not given", scan->request.relations[0]->name);
	if (scan->ids_returned >= scan->ids->n)
	{
		scan->ids = NULL;
		return false;
	}
	id.text = scan->ids->operands[scan->ids_returned++].text;
	id.len = strlen(id.text);
	/* all requested columns contain the id */
	for (i = 0; i < scan->request.nmembers; i++)
		scan->members[i] = id;
	return true;
}

/* Reads the next row of the current request. */
static dv_pages_state
next_row(dv_scan *scan)
{
	dv_pages_state state = DV_PAGES_END;

	if (scan->ids != NULL)
		return next_id(scan) ? DV_PAGES_ROW : DV_PAGES_END;
	if (!scan->patient)
	{
		state = dv_ranges_poll(scan->ranges, scan->members);
		scan->waiting = state == DV_PAGES_WAITING;
	}
	else if (dv_ranges_next(scan->ranges, scan->members))
		state = DV_PAGES_ROW;
	if (state != DV_PAGES_WAITING)
		note_answer(scan, dv_ranges_refusal(scan->ranges));
	if (state == DV_PAGES_ROW)
		dv_link_names_check(scan);
	if (state == DV_PAGES_ROW && scan->joined_here)
		state = DV_PAGES_END;
	if (state == DV_PAGES_END)
	{
		dv_ranges_end(scan->ranges);
		scan->ranges = NULL;
	}
	return state;
}

/* Returns the id of the row, for messages about its values, or NULL. */
static const dv_value *
id_of(const dv_scan *scan)
{
	return scan->request.id >= 0 ? &scan->members[scan->request.id] : NULL;
}

/*
 * Does the row belong to the part of the long list that was requested?  As the service
 * ignores the case of texts, its answer to one part may contain rows of another.  Such a
 * row counts only in the answer to the part with its exact text.  If the list was not
 * sent, each row is compared with all values.
 */
static bool
is_of_part(dv_scan *scan)
{
	dv_bindings *binding = dv_request_listing(&scan->request);
	const dv_filter *list = binding->chunk_filter;
	const dv_attribute *attribute;
	MemoryContext old;
	Datum		value;
	bool		isnull;
	bool		listed = false;

	if (binding->chunk_attnum == 0 ||
		(binding->first == 0 && binding->rest == 0 && !binding->list_omitted))
		return true;
	attribute = dv_relation_attribute(binding->relation, binding->chunk_attnum);
	if (dv_comparison_of(attribute->column.type, DV_COLLATION_BYTES) != DV_COMPARE_TEXT)
	{
		if (!binding->list_omitted)
			return true;
		list = NULL;
	}
	MemoryContextReset(scan->row);
	old = MemoryContextSwitchTo(scan->row);
	value = dv_decode(scan->listed, &scan->members[scan->request.listed], id_of(scan), &isnull);
	if (!isnull && list != NULL)
		listed = dv_list_requested(binding, dv_text_to_utf8(TextDatumGetCString(value)));
	else if (!isnull)
		listed = dv_list_contains(binding, value);
	MemoryContextSwitchTo(old);
	return listed;
}

dv_pages_state
dv_read_next(dv_scan *scan)
{
	while (scan->request.wanted != 0 &&
		   (scan->joined_here || scan->ranges != NULL || scan->ids != NULL || next_request(scan)))
	{
		bool		here = scan->joined_here;
		dv_pages_state state = here ? dv_local_join_next(scan->local_join) : next_row(scan);

		if (state == DV_PAGES_WAITING || (state == DV_PAGES_END && here))
			return state;
		if (state == DV_PAGES_END || (!here && !is_of_part(scan)))
			continue;
		if (scan->request.wanted > 0)
			scan->request.wanted--;
		return DV_PAGES_ROW;
	}
	return DV_PAGES_END;
}

/* Converts a value of FetchXML to the form that it has in OData. */
static void
respell(const dv_attribute *attribute, dv_value *value)
{
	switch (dv_types[attribute->column.type].wire)
	{
		case DV_WIRE_INTEGER:
		case DV_WIRE_BIGINT:
		case DV_WIRE_CHOICE:
		case DV_WIRE_DECIMAL:
		case DV_WIRE_DOUBLE:
			dv_value_respell(value, DV_FORM_NUMBER);
			break;
		case DV_WIRE_BOOLEAN:
			dv_value_respell(value, DV_FORM_TRUTH);
			break;
		case DV_WIRE_DATE:
			dv_value_respell(value, DV_FORM_DAY);
			break;
		default:
			break;
	}
}

static pg_noinline Datum
read_respelled(const dv_scan *scan, int i, bool *isnull)
{
	const dv_source *source = &scan->request.sources[i];
	dv_value	value = scan->members[source->members[0]];

	respell(source->attribute, &value);
	return dv_decode(scan->decoders[i], &value, source->item->table == 0 ? id_of(scan) : NULL, isnull);
}

static inline Datum
read_value(const dv_scan *scan, int i, bool *isnull)
{
	if (scan->joined_here)
		return dv_local_join_value(scan->local_join, i, isnull);
	if (scan->request.language != DV_LANGUAGE_ODATA)
		return read_respelled(scan, i, isnull);
	return dv_decode(scan->decoders[i], &scan->members[scan->request.sources[i].members[0]], id_of(scan), isnull);
}

Datum
dv_read_value(const dv_scan *scan, int i, bool *isnull)
{
	return read_value(scan, i, isnull);
}

dv_ordered_id
dv_read_id(const dv_scan *scan, const dv_value *value)
{
	dv_ordered_id id;

	if (!dv_id_of_value(value, &id))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse returned a row without an id", scan->what,
						dv_session_config_of(scan->session)->server_name)));
	return id;
}

void
dv_scan_row(dv_scan *scan, int natts, Datum *values, bool *isnull)
{
	MemoryContext old;
	int			i;

	MemoryContextReset(scan->row);
	old = MemoryContextSwitchTo(scan->row);
	memset(isnull, true, natts * sizeof(bool));
	for (i = 0; i < scan->nfetched; i++)
	{
		int			column = scan->fetched[i];

		values[column] = read_value(scan, column, &isnull[column]);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Counts the rows of a request.  The service counts up to 50,000 rows.  If there are
 * more, or if it refuses to count, the next request reads ids, which are counted
 * locally.
 */
static int64
count_rows(dv_scan *scan, const dv_query *query)
{
	dv_pages_spec spec = pages_of(scan, query);
	dv_pages   *pages = dv_pages_start(&spec, scan->query);
	int64_t		n = 0;
	bool		counted = true;

	if (query->count)
		counted = dv_pages_next(pages, scan->members) &&
			dv_value_int64(&scan->members[0], &n) == DV_VALUE_OK && n >= 0 &&
			!dv_pages_next(pages, scan->members);
	else
		while (dv_pages_next(pages, scan->members))
			n += is_of_part(scan);
	note_answer(scan, dv_pages_refusal(pages));
	/* an answer without a row does not mean 0 */
	if (scan->accepted && !counted)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse returned no count", scan->what,
						dv_session_config_of(scan->session)->server_name)));
	dv_pages_end(pages);
	return scan->accepted ? n : 0;
}

int64
dv_read_count(dv_scan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->query);
	dv_query	query;
	int64		n = 0;

	while (next_query(scan, &query))
		n += count_rows(scan, &query);
	MemoryContextSwitchTo(old);
	return n;
}

void
dv_read_restart(dv_scan *scan)
{
	dv_ranges_leave(scan->ranges, dv_read_is_instrumented(scan));
	dv_local_join_leave(scan);
	/* this also ends the requests in progress */
	MemoryContextReset(scan->query);
	scan->ranges = NULL;
	scan->ids = NULL;
	scan->groups = NULL;
	scan->bound = false;
	scan->waiting = false;
}

void
dv_read_end(dv_scan *scan)
{
	int			i;

	for (i = 0; i < scan->nfetched; i++)
		dv_decoder_end(scan->decoders[scan->fetched[i]]);
	if (scan->progress != NULL)
		dv_progress_end(scan->progress);
	if (scan->local_join != NULL)
		dv_local_join_end(scan->local_join);
	dv_ranges_leave(scan->ranges, false);
	MemoryContextDelete(scan->query);
	MemoryContextDelete(scan->row);
}

/*
 * Without an executor
 */

dv_scan *
dv_scan_open(const dv_relation *relation, Oid userid, const char *operation, const char *what,
			 List *columns, AttrNumber listed)
{
	dv_read_plan plan = listed != 0 ? dv_read_plan_listed(columns, listed) :
	dv_read_plan_columns(columns);
	const dv_relation **relations = palloc(sizeof(dv_relation *));
	List	   *exprs = NIL;
	dv_scan    *scan;

	relations[0] = relation;
	if (listed != 0)
		exprs = list_make1(makeNullConst(get_array_type(dv_relation_attribute(relation, listed)->pgtype),
										 -1, InvalidOid));
	scan = dv_read_create(&plan, relations, exprs, userid, true);
	scan->what = what;
	scan->operation = operation;
	scan->expected = -1;
	/* wide rows come in pages, however few of them are wanted */
	scan->request.largest_top = scan->request.page_size;
	return scan;
}

static void
ask(dv_scan *scan, int64 wanted)
{
	dv_read_restart(scan);
	dv_request_start(&scan->request, wanted);
	if (!next_request(scan))
		elog(ERROR, "no rows of foreign table \"%s\" to request", scan->request.relations[0]->name);
}

void
dv_scan_ask(dv_scan *scan, dv_filter *filter, bool last, int64 wanted)
{
	scan->request.within = filter;
	scan->request.extent = last ? DV_EXTENT_LAST : DV_EXTENT_ALL;
	ask(scan, wanted);
}

void
dv_scan_ask_listed(dv_scan *scan, Datum array)
{
	dv_bound_value *value = &scan->request.values[0];

	value->value = array;
	value->isnull = false;
	ask(scan, -1);
}

bool
dv_scan_next(dv_scan *scan)
{
	return dv_read_next(scan) == DV_PAGES_ROW;
}

bool
dv_scan_id(const dv_scan *scan, uint8 *id)
{
	return dv_value_uuid(&scan->members[scan->request.id], id) == DV_VALUE_OK;
}

void
dv_scan_close(dv_scan *scan)
{
	dv_read_end(scan);
}

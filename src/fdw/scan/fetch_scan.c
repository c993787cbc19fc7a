/*
 * fetch_scan.c
 *		Execution of reads that FetchXML expresses: rows of joins, and groups.
 *
 * Rows come page after page, as those of a single table do (fdw/scan/scan.c); the
 * cookie of a page leads to the next one.  Groups are formed completely before
 * the first of them is returned (fdw/scan/group_scan.c).
 *
 * Memory: "query" lasts until the next rescan, "row" until the next row.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "compat.h"
#include "fdw/connection.h"
#include "fdw/modify/drain.h"
#include "fdw/plan/plan.h"
#include "fdw/scan/evaluate.h"
#include "fdw/scan/fetch_scan.h"
#include "fdw/scan/wanted.h"

/*
 * Beginning
 */

/* "read foreign tables "contact" and "account"" */
static const char *
describe(const dv_fetch_request *request)
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

static void
create_decoders(dv_fetch_scan *scan)
{
	int			i;

	scan->decoders = palloc0(sizeof(dv_decoder *) * Max(scan->request.nsources, 1));
	for (i = 0; i < scan->request.nsources; i++)
	{
		const dv_fetch_source *source = &scan->request.sources[i];

		if (source->attribute != NULL)
			scan->decoders[i] = dv_decoder_create(source->relation, source->attribute);
	}
}

void
dv_fetch_begin(ForeignScanState *node)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	dv_fetch_scan *scan = palloc0(sizeof(*scan));
	int			i;

	scan->plan = dv_fetch_plan_of(plan);
	dv_fetch_request_init(&scan->request, scan->plan, plan->fdw_exprs, estate);
	for (i = 0; i < scan->request.ntables; i++)
		dv_drain_visible(estate, scan->request.relations[i]);
	scan->userid = dv_scan_user(plan, dv_plan_table(plan, estate));
	scan->what = describe(&scan->request);
	scan->values = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
	scan->context = CurrentMemoryContext;
	scan->query = AllocSetContextCreate(CurrentMemoryContext, "dataverse query",
										ALLOCSET_DEFAULT_SIZES);
	scan->row = AllocSetContextCreate(CurrentMemoryContext, "dataverse row",
									  ALLOCSET_DEFAULT_SIZES);
	create_decoders(scan);
	/* groups are made of all rows */
	if (!scan->plan->grouped)
		scan->executor = &node->ss.ps;
	node->fdw_state = scan;
}

/*
 * Requests
 */

void
dv_fetch_name_members(dv_fetch_scan *scan)
{
	const dv_fetch_request *request = &scan->request;

	scan->names = dv_names_init(palloc(dv_names_size(request->members, request->nmembers)),
								request->members, request->nmembers);
	if (scan->names == NULL)
		elog(ERROR, "invalid member names of foreign table \"%s\"", request->relations[0]->name);
	scan->members = palloc0(sizeof(dv_value) * Max(request->nmembers, 1));
}

static dv_session *
session_of(dv_fetch_scan *scan)
{
	if (scan->session == NULL)
		scan->session = dv_connection_get(scan->request.relations[0]->serverid, scan->userid);
	return scan->session;
}

/* What helps if the service does not answer the query as it should. */
static const char *
way_out(const dv_fetch_scan *scan)
{
	return scan->request.ntables > 1 ?
		"Have the tables joined by PostgreSQL: set option \"push_joins\" of the server, or of one of the foreign tables, to \"off\"." :
		"Have the groups formed by PostgreSQL: set option \"push_groups\" of the server, or of the foreign table, to \"off\".";
}

dv_pages_spec
dv_fetch_pages_spec(dv_fetch_scan *scan)
{
	dv_pages_spec spec = {0};

	(void) session_of(scan);
	if (scan->progress == NULL)
		scan->progress = dv_relation_progress(scan->request.relations[0], "read", -1, scan->context);
	spec.session = scan->session;
	spec.page_size = scan->request.page_size;
	spec.wanted = -1;
	spec.likely = -1;
	spec.annotations = scan->request.annotations;
	spec.names = scan->names;
	spec.what = scan->what;
	spec.way_out = way_out(scan);
	spec.is_fetchxml = true;
	spec.computed = scan->plan->grouped;
	spec.stats = &scan->stats;
	spec.progress = scan->progress;
	return spec;
}

/* The query is bound again for each page, so that it need not be kept. */
static char *
path_of_page(void *arg, int number, const char *cookie)
{
	dv_fetch_scan *scan = arg;
	dv_fetch_page page = {number, scan->request.page_size, cookie};
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "dataverse request",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(scratch);
	dv_query	query;
	char	   *path;

	(void) dv_fetch_request_query(&scan->request, &query);
	path = dv_fetch_request_url(&query, &page, false);
	MemoryContextSwitchTo(old);
	path = pstrdup(path);
	MemoryContextDelete(scratch);
	return path;
}

/*
 * If the statement will probably want only a few rows, these are requested first,
 * which is no more than a guess (see client/pages.h).
 */
static void
ask_for_first(const dv_fetch_scan *scan, const dv_query *query, dv_pages_spec *spec)
{
	dv_query	few = *query;
	double		wanted = scan->executor == NULL ? -1 : dv_wanted_rows(scan->executor);

	if (wanted <= 0)
		return;
	spec->likely = wanted;
	/* the rows of one large page cost no more than a small answer and another request */
	if (wanted > spec->page_size / 2)
		return;
	few.top = (int64_t) wanted;
	spec->first = few.top;
	spec->first_path = dv_fetch_request_url(&few, NULL, false);
}

/* The first joins of a session show that columns of links have the names that were requested. */
void
dv_fetch_choose_proof(dv_fetch_scan *scan)
{
	bool		grouped = dv_fetch_request_grouped(&scan->request);
	MemoryContext old;

	/* rescans send the same request */
	if (scan->request.ntables == 1 || scan->proof_chosen[grouped])
		return;
	scan->proof_chosen[grouped] = true;
	scan->proves[grouped] = !*dv_session_links_proven(session_of(scan), grouped);
	scan->request.prove = scan->proves[grouped];
	old = MemoryContextSwitchTo(scan->context);
	dv_fetch_request_choose(&scan->request);
	MemoryContextSwitchTo(old);
}

bool
dv_fetch_proves(ForeignScanState *node)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	RangeTblEntry *rte = dv_plan_table(plan, node->ss.ps.state);
	const dv_fetch_scan *scan = node->fdw_state;
	const bool	grouped = dv_fetch_plan_of(plan)->grouped;
	const dv_session *session;

	if (scan != NULL && scan->proof_chosen[grouped])
		return scan->proves[grouped];
	session = dv_connection_find(GetForeignTable(rte->relid)->serverid, dv_scan_user(plan, rte));
	return session == NULL || !*dv_session_links_proven(session, grouped);
}

dv_pages *
dv_fetch_start_rows(dv_fetch_scan *scan, MemoryContext owner)
{
	dv_pages_spec spec;
	dv_query	query;
	dv_fetch_page first = {1, scan->request.page_size, NULL};

	if (!dv_fetch_request_query(&scan->request, &query))
		return NULL;
	dv_fetch_choose_proof(scan);
	(void) dv_fetch_request_query(&scan->request, &query);
	dv_fetch_name_members(scan);
	spec = dv_fetch_pages_spec(scan);
	spec.path = dv_fetch_request_url(&query, query.top > 0 ? NULL : &first, false);
	spec.wanted = scan->request.wanted;
	spec.computed = false;
	/* ids are unique, and every order ends with them */
	spec.id = query.primary_id->property;
	if (query.top == 0)
	{
		spec.linker = path_of_page;
		spec.linker_arg = scan;
		ask_for_first(scan, &query, &spec);
	}
	return dv_pages_start(&spec, owner);
}

/*
 * Rows
 */

static void
bind_values(dv_fetch_scan *scan, ForeignScanState *node)
{
	MemoryContext old = MemoryContextSwitchTo(scan->query);
	int64		limit;
	int			i;

	dv_evaluate(scan->values, node, scan->request.values);
	for (i = 0; i < scan->request.ntables; i++)
		dv_bind_start(&scan->request.bindings[i]);
	scan->skip = Max(dv_row_count(scan->request.values, scan->plan->offset, false), 0);
	limit = dv_row_count(scan->request.values, scan->plan->limit, true);
	scan->request.wanted = limit < 0 ? -1 :
		limit > PG_INT64_MAX - scan->skip ? PG_INT64_MAX : limit + scan->skip;
	scan->bound = true;
	MemoryContextSwitchTo(old);
}

/* Values under other names than requested would seem to be null. */
static void
misnamed(const dv_fetch_scan *scan)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
			 errmsg("could not %s on server \"%s\": Dataverse does not name columns of joined tables as requested",
					scan->what, dv_session_config_of(scan->session)->server_name),
			 errdetail("A row lacks the id of a joined table."),
			 errhint("%s", way_out(scan))));
}

/* Asks for any two rows that are joined.  If there are none, all columns of links are null. */
static void
ask_for_pair(dv_fetch_scan *scan)
{
	MemoryContext context = AllocSetContextCreate(scan->query, "dataverse pair",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_pages_spec spec = dv_fetch_pages_spec(scan);
	const char *member;
	dv_query	query;
	dv_value	id;

	dv_fetch_request_pair(&scan->request, &query, &member);
	spec.path = dv_fetch_request_url(&query, NULL, false);
	spec.names = dv_names_init(palloc(dv_names_size(&member, 1)), &member, 1);
	spec.progress = NULL;
	spec.computed = true;
	if (dv_pages_next(dv_pages_start(&spec, context), &id))
	{
		if (dv_value_is_null(&id))
			misnamed(scan);
		*dv_session_links_proven(scan->session, false) = true;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* Looks whether columns of links have their names in the row that has been read. */
void
dv_fetch_check_names(dv_fetch_scan *scan)
{
	const dv_fetch_request *request = &scan->request;
	bool	   *proven;

	if (request->proof < 0)
		return;
	proven = dv_session_links_proven(scan->session, dv_fetch_request_grouped(request));
	if (!dv_value_is_null(&scan->members[request->proof]))
		*proven = true;
	else if (request->proof_certain)
		misnamed(scan);
	else if (!*proven && !scan->pair_sought)
	{
		scan->pair_sought = true;
		ask_for_pair(scan);
	}
}

bool
dv_fetch_next(dv_fetch_scan *scan)
{
	if (!dv_pages_next(scan->pages, scan->members))
		return false;
	dv_fetch_check_names(scan);
	return true;
}

static const dv_value *
member_of(const dv_fetch_scan *scan, int source)
{
	return &scan->members[scan->request.sources[source].members[0]];
}

/* Returns the first member of a source, in the form that rows have. */
static dv_value
respelled(const dv_fetch_scan *scan, int source)
{
	const dv_attribute *attribute = scan->request.sources[source].attribute;
	dv_value	value = *member_of(scan, source);

	switch (dv_types[attribute->column.type].wire)
	{
		case DV_WIRE_INTEGER:
		case DV_WIRE_BIGINT:
		case DV_WIRE_CHOICE:
		case DV_WIRE_DECIMAL:
		case DV_WIRE_DOUBLE:
			dv_value_respell(&value, DV_FORM_NUMBER);
			break;
		case DV_WIRE_BOOLEAN:
			dv_value_respell(&value, DV_FORM_TRUTH);
			break;
		case DV_WIRE_DATE:
			dv_value_respell(&value, DV_FORM_DAY);
			break;
		default:
			break;
	}
	return value;
}

Datum
dv_fetch_decode(const dv_fetch_scan *scan, int source, bool *isnull)
{
	dv_value	value = respelled(scan, source);

	return dv_decode(scan->decoders[source], &value, NULL, isnull);
}

static TupleTableSlot *
next_row(dv_fetch_scan *scan, TupleTableSlot *slot)
{
	MemoryContext old;
	int			i;

	for (;;)
	{
		if (scan->pages == NULL || scan->request.wanted == 0 ||
			!dv_fetch_next(scan))
			return slot;
		if (scan->request.wanted > 0)
			scan->request.wanted--;
		if (scan->skip == 0)
			break;
		scan->skip--;
	}
	MemoryContextReset(scan->row);
	old = MemoryContextSwitchTo(scan->row);
	for (i = 0; i < scan->request.nsources; i++)
		slot->tts_values[i] = dv_fetch_decode(scan, i, &slot->tts_isnull[i]);
	MemoryContextSwitchTo(old);
	return ExecStoreVirtualTuple(slot);
}

/* Returns the next row from the service; an empty slot at the end. */
static TupleTableSlot *
next_tuple(ForeignScanState *node)
{
	dv_fetch_scan *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	bool		begin = !scan->bound;

	ExecClearTuple(slot);
	if (begin)
		bind_values(scan, node);
	if (begin && scan->plan->grouped)
		dv_fetch_form_groups(scan, slot->tts_tupleDescriptor);
	else if (begin)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->query);

		scan->pages = dv_fetch_start_rows(scan, scan->query);
		MemoryContextSwitchTo(old);
	}
	if (!scan->plan->grouped)
		slot = next_row(scan, slot);
	else if (dv_groups_next(scan->groups, slot->tts_values, slot->tts_isnull))
		slot = ExecStoreVirtualTuple(slot);
	if (TTS_EMPTY(slot) && scan->progress != NULL)
		dv_progress_rest(scan->progress);
	return slot;
}

static void
restart(dv_fetch_scan *scan, const ForeignScanState *node)
{
	if (scan->pages != NULL && node->ss.ps.instrument != NULL)
		dv_pages_count_unread(scan->pages);
	if (scan->pages != NULL)
		dv_pages_leave(scan->pages);
	/* this also ends the requests in progress */
	MemoryContextReset(scan->query);
	scan->pages = NULL;
	scan->groups = NULL;
	scan->bound = false;
}

TupleTableSlot *
dv_fetch_iterate(ForeignScanState *node)
{
	dv_fetch_scan *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (scan->kept.again &&
		!dv_kept_holds(&scan->kept, node, scan->values, scan->request.values))
		restart(scan, node);
	if (!scan->bound)
		dv_kept_begin(&scan->kept, node);
	if (!dv_kept_next(&scan->kept, slot))
		dv_kept_add(&scan->kept, next_tuple(node));
	return slot;
}

void
dv_fetch_rescan(ForeignScanState *node)
{
	dv_fetch_scan *scan = node->fdw_state;

	if (!dv_kept_rescan(&scan->kept))
		restart(scan, node);
}

void
dv_fetch_end(ForeignScanState *node)
{
	dv_fetch_scan *scan = node->fdw_state;
	int			i;

	for (i = 0; i < scan->request.nsources; i++)
		if (scan->decoders[i] != NULL)
			dv_decoder_end(scan->decoders[i]);
	if (scan->progress != NULL)
		dv_progress_end(scan->progress);
	if (scan->pages != NULL)
		dv_pages_leave(scan->pages);
	MemoryContextDelete(scan->query);
	MemoryContextDelete(scan->row);
}

/*
 * scan.c
 *		Execution of reads: sends requests and returns rows.
 *
 * The values of the query are computed when the first row is wanted, and again
 * after each rescan.  If they have not changed, rows are returned as they were
 * (fdw/scan/kept.c).  Rows are decoded one at a time, when they are wanted,
 * from the current page (client/pages.c).  Where their order does not matter,
 * several ranges of ids may be read at a time (client/ranges.c).
 *
 * If the statement writes the table that it reads, all rows are read first
 * (fdw/scan/spool.c).  Below a join that gives the keys, it is the join that does that.
 *
 * Memory: "query" lasts until the next rescan, "row" until the next row; pages
 * have contexts of their own below "query".
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "dataverse/policy.h"
#include "fdw/connection.h"
#include "fdw/decode.h"
#include "fdw/modify/drain.h"
#include "fdw/option.h"
#include "fdw/result_relation.h"
#include "fdw/scan/evaluate.h"
#include "fdw/scan/fetch_scan.h"
#include "fdw/scan/kept.h"
#include "fdw/scan/list.h"
#include "fdw/scan/list_check.h"
#include "fdw/scan/request.h"
#include "fdw/scan/scan.h"
#include "fdw/scan/wanted.h"
#include "fdw/system_columns.h"
#include "net/text.h"

/* A column of the scan tuple that is fetched. */
typedef struct scan_target
{
	int			slot;			/* index in the scan tuple */
	int			member;			/* index of the name among the row's members */
	dv_decoder *decoder;
} scan_target;

struct dv_scan
{
	dlist_node	node;			/* in spooled, if there is a spool */
	ForeignScanState *state;	/* set while the scan is in spooled */
	const		PlanState *executor;	/* the node that it is run for; NULL: none */
	double		wants;			/* dv_wanted_rows(); 0: not known yet */
	dv_request	request;
	Oid			userid;
	dv_session *session;
	const char *what;
	const char *operation;		/* shown by the view dataverse.progress */
	double		expected;		/* number of rows; negative if not known */
	MemoryContext context;		/* the context of the scan itself */
	dv_progress *progress;
	List	   *values;			/* ExprStates */
	MemoryContext query;
	MemoryContext row;

	scan_target *targets;
	int			ntargets;
	scan_target listed;			/* the column of the list that may have any length, if there is
								 * one */
	dv_names   *names;
	dv_value   *members;
	int			id;				/* index of the primary id among the members, or -1 */

	dv_ranges  *ranges;			/* NULL if no request is in progress */
	int			most_ranges;	/* at a time; 1: the rows are not divided */
	bool		automatic;		/* this number is the extension's choice */
	const dv_filter *given;		/* ids for which no request is needed; NULL if there are none */
	int			ngiven;			/* how many of them have been returned */
	bool		accepted;		/* the service has answered the current request */
	bool		bound;			/* the values have been computed */
	dv_system_columns system;	/* that the plan uses */
	dv_list_check *lists;		/* or NULL */
	bool		patient;		/* waits for answers instead of returning without a row */
	bool		waiting;		/* it did return without a row */
	int64		skip;			/* rows of OFFSET that remain to be skipped */
	Bitmapset  *params;			/* parameters that the values depend on */
	dv_kept		kept;			/* used if there is no spool */
	dv_spool   *spool;			/* used if the statement writes what it reads here, else NULL */
	dv_pages_stats stats;
};

/* All scans of this backend that have a spool. */
static dlist_head spooled = DLIST_STATIC_INIT(spooled);

const dv_pages_stats *
dv_scan_stats(dv_scan *scan)
{
	if (scan->ranges != NULL)
		dv_ranges_count_unread(scan->ranges);
	return &scan->stats;
}

const dv_spool *
dv_scan_spool(const dv_scan *scan)
{
	return scan->spool;
}

bool
dv_scan_waiting(const dv_scan *scan)
{
	return scan->waiting;
}

bool
dv_scan_ready(const dv_scan *scan)
{
	return !scan->waiting || dv_ranges_ready(scan->ranges);
}

/*
 * Beginning
 */

/* Returns the index of a name, which is added if it is new. */
static int
add_name(const char **names, int *nnames, const char *name)
{
	int			i;

	for (i = 0; i < *nnames; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	names[(*nnames)++] = name;
	return i;
}

/* Collects the members of rows, each once: two columns may show the same one. */
static void
add_targets(dv_scan *scan, bool with_id)
{
	List	   *columns = scan->request.plan.columns;
	const char **names = palloc(sizeof(char *) * (list_length(columns) + 3));
	int			nnames = 0;
	ListCell   *lc;

	if (scan->request.plan.count)
		names[nnames++] = "n";
	scan->targets = palloc0(sizeof(scan_target) * Max(list_length(columns), 1));
	foreach(lc, columns)
	{
		const dv_attribute *attribute = dv_relation_attribute(scan->request.relation,
															  lfirst_int(lc));
		scan_target *t = &scan->targets[scan->ntargets];

		if (attribute == NULL)
			continue;
		t->slot = foreach_current_index(lc);
		t->member = add_name(names, &nnames, attribute->member);
		t->decoder = dv_decoder_create(scan->request.relation, attribute);
		/* the service returns the id of a row whether or not it is asked for */
		with_id = with_id || dv_decoder_names_rows(t->decoder);
		scan->ntargets++;
	}
	if (scan->request.list_column != 0)
	{
		const dv_attribute *attribute = dv_relation_attribute(scan->request.relation,
															  scan->request.list_column);

		scan->listed.member = add_name(names, &nnames, attribute->member);
		scan->listed.decoder = dv_decoder_create(scan->request.relation, attribute);
	}
	scan->id = -1;
	if (with_id)
		scan->id = add_name(names, &nnames, scan->request.relation->primary_id.property);
	scan->names = dv_names_init(palloc(dv_names_size(names, nnames)), names, nnames);
	if (scan->names == NULL)
		elog(ERROR, "invalid member names of foreign table \"%s\"", scan->request.relation->name);
	scan->members = palloc0(sizeof(dv_value) * Max(nnames, 1));
}

static dv_scan *
create_scan(const dv_relation *relation, const dv_read_plan *plan, List *exprs, Oid userid,
			bool with_id)
{
	dv_scan    *scan = palloc0(sizeof(*scan));

	dv_request_init(&scan->request, relation, plan, exprs);
	scan->userid = userid;
	scan->request.userid = userid;
	scan->patient = true;
	scan->most_ranges = 1;
	scan->context = CurrentMemoryContext;
	scan->query = AllocSetContextCreate(CurrentMemoryContext, "dataverse query",
										ALLOCSET_DEFAULT_SIZES);
	scan->row = AllocSetContextCreate(CurrentMemoryContext, "dataverse row",
									  ALLOCSET_DEFAULT_SIZES);
	add_targets(scan, with_id);
	return scan;
}

/* The planner's estimate is only worth reporting if it knew the table's size. */
static double
rows_expected(const dv_scan *scan, const ForeignScanState *node)
{
	Relation	relation = node->ss.ss_currentRelation;

	if (relation == NULL ||
		(relation->rd_rel->reltuples < 0 &&
		 !dv_option_bool(scan->request.relation->options, DV_OPT_USE_REMOTE_ESTIMATE)))
		return -1;
	return node->ss.ps.plan->plan_rows;
}

static void
leave_spooled(void *arg)
{
	dv_scan    *scan = arg;

	if (scan->state != NULL)
		dlist_delete(&scan->node);
	scan->state = NULL;
}

static void
start_spool(dv_scan *scan, ForeignScanState *node)
{
	MemoryContextCallback *callback = palloc0(sizeof(*callback));

	scan->params = dv_evaluate_params(((ForeignScan *) node->ss.ps.plan)->fdw_exprs);
	scan->spool = dv_spool_create(node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
	scan->state = node;
	dlist_push_tail(&spooled, &scan->node);
	callback->func = leave_spooled;
	callback->arg = scan;
	MemoryContextRegisterResetCallback(node->ss.ps.state->es_query_cxt, callback);
}

void
dataverseBeginForeignScan(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	RangeTblEntry *rte;
	dv_read_plan read;
	const dv_relation *relation;
	dv_scan    *scan;
	bool		automatic;
	int			ranges;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	if (dv_is_fetch_plan(plan->fdw_private))
	{
		dv_fetch_begin(node);
		return;
	}
	read = dv_read_plan_unpack(plan->fdw_private);
	rte = dv_plan_table(plan, estate);
	relation = dv_relation_open(rte->relid);
	dv_relation_check(relation, read.signature);
	dv_resultrel_warn_of_lock(relation, estate, plan->scan.scanrelid);
	dv_drain_visible(estate, relation);
	ranges = dv_read_plan_ranges(relation, &read, &automatic);
	scan = create_scan(relation, &read, plan->fdw_exprs, dv_scan_user(plan, rte), ranges > 1);
	node->fdw_state = scan;
	scan->most_ranges = ranges;
	scan->automatic = automatic;
	scan->what = psprintf("read foreign table \"%s\"", relation->name);
	scan->operation = "read";
	scan->executor = &node->ss.ps;
	scan->expected = rows_expected(scan, node);
	scan->values = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
	if (plan->fsSystemCol)
		scan->system = dv_system_columns_in(list_concat_copy(plan->scan.plan.targetlist,
															 plan->scan.plan.qual),
											relation, estate);
	scan->lists = dv_list_check_take(node, &read);
	scan->patient = !node->ss.ps.async_capable;
	if (!read.given && !read.keyed && dv_resultrel_is_written(relation, estate))
		start_spool(scan, node);
	scan->patient |= scan->spool != NULL;
}

/*
 * Values
 */

static void
bind_values(dv_scan *scan, ForeignScanState *node)
{
	MemoryContext old = MemoryContextSwitchTo(scan->query);
	const dv_bound_value *values = scan->request.binding.values;
	int64		limit;

	dv_evaluate(scan->values, node, scan->request.binding.values);
	scan->skip = Max(dv_row_count(values, scan->request.plan.offset, false), 0);
	limit = dv_row_count(values, scan->request.plan.limit, true);
	dv_request_start(&scan->request, limit < 0 ? -1 :
					 limit > PG_INT64_MAX - scan->skip ? PG_INT64_MAX : limit + scan->skip);
	if (scan->lists != NULL)
		dv_list_check_bind(scan->lists, values);
	scan->bound = true;
	MemoryContextSwitchTo(old);
}

/*
 * Requests
 */

/* Makes the rows of an elastic table visible that this session wrote last. */
static const char *
session_token(const dv_scan *scan)
{
	const char *token = scan->request.relation->type != DV_TABLE_ELASTIC ? NULL :
	dv_session_consistency_token(scan->session, scan->request.relation->entity_set);

	/* the next write would replace it, so it is copied */
	return token != NULL ? pstrdup(token) : NULL;
}

/* Gets the next request, in a form that the service has not refused to this session. */
static bool
next_query(dv_scan *scan, dv_query *query)
{
	bool		any = dv_request_next(&scan->request, query);

	scan->accepted = false;
	if (!any || scan->request.plan.given || scan->session != NULL)
		return any;
	/* without rows to request, no session is needed */
	scan->session = dv_connection_get(scan->request.relation->serverid, scan->userid);
	scan->request.session = scan->session;
	if (!dv_request_has_plainer(&scan->request))
		return true;
	dv_request_again(&scan->request);
	return dv_request_next(&scan->request, query);
}

/* Requests a few rows first if the statement will probably want no more (see client/pages.h). */
static void
ask_for_first(dv_scan *scan, const dv_query *query, dv_pages_spec *spec)
{
	dv_query	few = *query;

	if (scan->wants == 0)
		scan->wants = scan->executor == NULL || scan->spool != NULL ? -1 :
			dv_wanted_rows(scan->executor);
	spec->likely = scan->wants > 0 ? scan->wants : -1;
	/* the rows of one large page cost no more than a small answer and another request */
	if (scan->wants <= 0 || scan->wants > spec->page_size / 2 || spec->id == NULL)
		return;
	few.top = (int64_t) scan->wants;
	spec->first = few.top;
	spec->first_path = dv_request_url(&few, false);
}

/* Will EXPLAIN ANALYZE show what the scan took? */
static bool
is_instrumented(const dv_scan *scan)
{
	return scan->executor != NULL && scan->executor->instrument != NULL;
}

static dv_pages_spec
pages_of(dv_scan *scan, const dv_query *query)
{
	dv_pages_spec spec = {0};

	if (scan->progress == NULL)
		scan->progress = dv_relation_progress(scan->request.relation, scan->operation,
											  scan->expected, scan->context);
	spec.session = scan->session;
	spec.path = dv_request_url(query, false);
	spec.page_size = query->count || query->top > 0 ? 0 : scan->request.page_size;
	/* ids are unique, and every order ends with them, in standard tables */
	if (scan->request.relation->type == DV_TABLE_STANDARD && !query->count)
		spec.id = query->primary_id->property;
	spec.computed = query->count;
	spec.wanted = scan->request.binding.unlisted ? -1 : scan->request.wanted;
	spec.annotations = scan->request.annotations;
	spec.session_token = session_token(scan);
	spec.names = scan->names;
	spec.what = scan->what;
	spec.has_plainer = dv_request_has_plainer(&scan->request);
	spec.stats = &scan->stats;
	spec.counts_unread = is_instrumented(scan);
	spec.progress = scan->progress;
	ask_for_first(scan, query, &spec);
	return spec;
}

static dv_ranges *
start_ranges(dv_scan *scan, const dv_query *query)
{
	dv_ranges_spec spec = {.query = query, .automatic = scan->automatic};

	spec.pages = pages_of(scan, query);
	spec.table = scan->request.relation->table;
	spec.id = scan->id;
	spec.expected = scan->expected;
	/* the rows of $top come in one answer */
	spec.most = spec.pages.page_size > 0 ? scan->most_ranges : 1;
	return dv_ranges_start(&spec, scan->query);
}

/*
 * The first row or the end of the current request has come.  If that is because
 * the service refuses its form, the next request is for the same rows.
 */
static void
note_answer(dv_scan *scan, const dv_error *refusal)
{
	MemoryContext old;

	if (scan->accepted)
		return;
	old = MemoryContextSwitchTo(scan->query);
	if (refusal != NULL)
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

	if (any && scan->request.plan.given)
	{
		scan->given = query.filter;
		scan->ngiven = 0;
	}
	else if (any)
		scan->ranges = start_ranges(scan, &query);
	MemoryContextSwitchTo(old);
	return any;
}

/* Returns the next id given by the filter as if it came from a page, each of them once. */
static bool
next_given(dv_scan *scan)
{
	dv_value	id = {.kind = DV_VALUE_STRING};
	int			i;

	if (scan->given->kind != DV_EQ && scan->given->kind != DV_IN)
		elog(ERROR, "ids of foreign table \"%s\" are not given", scan->request.relation->name);
	if (scan->ngiven >= scan->given->n)
	{
		scan->given = NULL;
		return false;
	}
	id.text = scan->given->operands[scan->ngiven++].text;
	id.len = strlen(id.text);
	/* all columns that are needed contain the id */
	for (i = 0; i < scan->ntargets; i++)
		scan->members[scan->targets[i].member] = id;
	if (scan->id >= 0)
		scan->members[scan->id] = id;
	return true;
}

/* Reads the next row of the current request. */
static dv_pages_state
next_row(dv_scan *scan)
{
	dv_pages_state state = DV_PAGES_END;

	if (scan->given != NULL)
		return next_given(scan) ? DV_PAGES_ROW : DV_PAGES_END;
	if (!scan->patient)
	{
		state = dv_ranges_poll(scan->ranges, scan->members);
		scan->waiting = state == DV_PAGES_WAITING;
	}
	else if (dv_ranges_next(scan->ranges, scan->members))
		state = DV_PAGES_ROW;
	if (state != DV_PAGES_WAITING)
		note_answer(scan, dv_ranges_refusal(scan->ranges));
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
	return scan->id >= 0 ? &scan->members[scan->id] : NULL;
}

/*
 * A list of texts that is split over several requests: because the service
 * ignores case, its answer to one part may contain rows of another.  A row
 * counts only in the answer to the part that contains its exact text.  Of a list
 * that was not sent, all rows are compared with all values.
 */
static bool
belongs_here(dv_scan *scan)
{
	dv_bindings *binding = &scan->request.binding;
	const scan_target *t = &scan->listed;
	const dv_filter *list = binding->chunk_filter;
	const dv_attribute *attribute;
	MemoryContext old;
	Datum		value;
	bool		isnull;
	bool		listed = false;

	if (binding->chunk_attnum == 0 ||
		(binding->first == 0 && binding->rest == 0 && !binding->unlisted))
		return true;
	attribute = dv_relation_attribute(scan->request.relation, binding->chunk_attnum);
	if (dv_comparison_of(attribute->column.type, DV_COLLATION_BYTES) != DV_COMPARE_TEXT)
	{
		if (!binding->unlisted)
			return true;
		list = NULL;
	}
	MemoryContextReset(scan->row);
	old = MemoryContextSwitchTo(scan->row);
	value = dv_decode(t->decoder, &scan->members[t->member], id_of(scan), &isnull);
	if (!isnull && list != NULL)
		listed = dv_list_requested(binding, dv_text_out(TextDatumGetCString(value)));
	else if (!isnull)
		listed = dv_list_contains(binding, value);
	MemoryContextSwitchTo(old);
	return listed;
}

void
dv_scan_row(dv_scan *scan, int natts, Datum *values, bool *isnull)
{
	MemoryContext old;
	int			i;

	MemoryContextReset(scan->row);
	old = MemoryContextSwitchTo(scan->row);
	memset(isnull, true, natts * sizeof(bool));
	for (i = 0; i < scan->ntargets; i++)
	{
		const scan_target *t = &scan->targets[i];

		values[t->slot] = dv_decode(t->decoder, &scan->members[t->member], id_of(scan), &isnull[t->slot]);
	}
	MemoryContextSwitchTo(old);
}

/*
 * COUNT(*).  The service counts up to 50,000 rows.  If there are more, or if it
 * refuses to count, their ids are read and counted here, which is another request.
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
			n += belongs_here(scan);
	note_answer(scan, dv_pages_refusal(pages));
	/* an answer without a row is not a count of 0 */
	if (scan->accepted && !counted)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse returned no count", scan->what,
						dv_session_config_of(scan->session)->server_name)));
	dv_pages_end(pages);
	return scan->accepted ? n : 0;
}

static TupleTableSlot *
iterate_count(dv_scan *scan, TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(scan->query);
	dv_query	query;
	int64		n = 0;
	int			i;

	if (!scan->request.more)
	{
		MemoryContextSwitchTo(old);
		return slot;
	}
	while (next_query(scan, &query))
		n += count_rows(scan, &query);
	if (scan->progress != NULL)
		dv_progress_rest(scan->progress);
	for (i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		slot->tts_values[i] = Int64GetDatum(n);
		slot->tts_isnull[i] = false;
	}
	MemoryContextSwitchTo(old);
	return ExecStoreVirtualTuple(slot);
}

/* Returns the next row from the service; an empty slot at the end, or while none is available. */
static TupleTableSlot *
next_tuple(ForeignScanState *node)
{
	dv_scan    *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (!scan->bound)
		bind_values(scan, node);
	if (scan->request.plan.count)
		return iterate_count(scan, slot);

	while (scan->request.wanted != 0 &&
		   (scan->ranges != NULL || scan->given != NULL || next_request(scan)))
	{
		dv_pages_state state = next_row(scan);

		if (state == DV_PAGES_WAITING)
			return slot;
		if (state == DV_PAGES_END)
			continue;
		if (!belongs_here(scan))
			continue;
		if (scan->request.wanted > 0)
			scan->request.wanted--;
		if (scan->skip > 0)
		{
			scan->skip--;
			continue;
		}
		dv_scan_row(scan, slot->tts_tupleDescriptor->natts, slot->tts_values, slot->tts_isnull);
		ExecStoreVirtualTuple(slot);
		dv_slot_add_system(&scan->system, slot);
		if (scan->lists == NULL || dv_list_check_row(scan->lists, slot))
			return slot;
		ExecClearTuple(slot);
	}
	if (scan->progress != NULL)
		dv_progress_rest(scan->progress);
	return slot;
}

/*
 * The callbacks
 */

static void
read_all(dv_scan *scan)
{
	TupleTableSlot *slot = scan->state->ss.ss_ScanTupleSlot;

	for (next_tuple(scan->state); !TTS_EMPTY(slot); next_tuple(scan->state))
		dv_spool_put(scan->spool, slot);
	dv_spool_fill(scan->spool);
}

static bool
is_fetch(const ForeignScanState *node)
{
	return dv_is_fetch_plan(((ForeignScan *) node->ss.ps.plan)->fdw_private);
}

static void
restart(dv_scan *scan)
{
	dv_ranges_leave(scan->ranges, is_instrumented(scan));
	/* this also ends the requests in progress */
	MemoryContextReset(scan->query);
	scan->ranges = NULL;
	scan->given = NULL;
	scan->bound = false;
	scan->waiting = false;
}

/* Gets the next row.  Returns true if it is one that has been kept, or the end of these. */
static bool
next_kept(dv_scan *scan, ForeignScanState *node)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (scan->kept.again &&
		!dv_kept_holds(&scan->kept, node, scan->values, scan->request.binding.values))
		restart(scan);
	if (!scan->bound)
		dv_kept_begin(&scan->kept, node);
	if (dv_kept_next(&scan->kept, slot))
		return true;
	(void) next_tuple(node);
	if (!TTS_EMPTY(slot) || !scan->waiting)
		dv_kept_add(&scan->kept, slot);
	return false;
}

TupleTableSlot *
dataverseIterateForeignScan(ForeignScanState *node)
{
	dv_scan    *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (is_fetch(node))
		return dv_fetch_iterate(node);
	if (scan->spool == NULL && !next_kept(scan, node))
		return slot;
	if (scan->spool != NULL && !dv_spool_is_full(scan->spool))
		read_all(scan);
	if (scan->spool != NULL)
		(void) dv_spool_next(scan->spool, slot);
	/* the form in which rows are stored has none */
	if (!TTS_EMPTY(slot))
		dv_slot_add_system(&scan->system, slot);
	return slot;
}

/* The row is a copy of one that the scan has returned before (see fdw/plan/plan_lookup.c). */
bool
dataverseRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot)
{
	dv_scan    *scan = node->fdw_state;

	if (is_fetch(node))
		return true;
	dv_slot_add_system(&scan->system, slot);
	return scan->lists == NULL || dv_list_check_again(scan->lists);
}

void
dv_scan_read_all(EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &spooled)
	{
		dv_scan    *scan = dlist_container(dv_scan, node, iter.cur);

		/* a scan that depends on other rows was planned so that it can be read later */
		if (scan->state->ss.ps.state == estate && !dv_spool_is_full(scan->spool) &&
			bms_is_empty(scan->params))
			read_all(scan);
	}
}

void
dataverseReScanForeignScan(ForeignScanState *node)
{
	dv_scan    *scan = node->fdw_state;

	if (is_fetch(node))
	{
		dv_fetch_rescan(node);
		return;
	}
	/* the same rows would be returned again, but not what has been written since */
	if (scan->spool != NULL && dv_spool_is_full(scan->spool) &&
		!bms_overlap(node->ss.ps.chgParam, scan->params))
	{
		dv_spool_rewind(scan->spool);
		return;
	}
	if (scan->spool == NULL && dv_kept_rescan(&scan->kept))
	{
		scan->waiting = false;
		return;
	}
	if (scan->spool != NULL)
		dv_spool_clear(scan->spool);
	restart(scan);
}

void
dataverseEndForeignScan(ForeignScanState *node)
{
	dv_scan    *scan = node->fdw_state;

	if (scan == NULL)
		return;
	if (is_fetch(node))
	{
		dv_fetch_end(node);
		return;
	}
	if (scan->spool != NULL)
	{
		leave_spooled(scan);
		dv_spool_end(scan->spool);
	}
	dv_scan_close(scan);
}

/*
 * Without an executor
 */

dv_scan *
dv_scan_open(const dv_relation *relation, Oid userid, const char *operation, const char *what,
			 List *columns, AttrNumber listed)
{
	dv_read_plan plan = listed != 0 ? dv_read_plan_listed(columns, listed) : DV_READ_PLAN(columns);
	List	   *exprs = NIL;
	dv_scan    *scan;

	if (listed != 0)
		exprs = list_make1(makeNullConst(get_array_type(dv_relation_attribute(relation, listed)->pgtype),
										 -1, InvalidOid));
	scan = create_scan(relation, &plan, exprs, userid, true);
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
	restart(scan);
	dv_request_start(&scan->request, wanted);
	if (!next_request(scan))
		elog(ERROR, "no rows of foreign table \"%s\" to request", scan->request.relation->name);
}

void
dv_scan_ask(dv_scan *scan, dv_filter *filter, bool last, int64 wanted)
{
	scan->request.within = filter;
	scan->request.last = last;
	ask(scan, wanted);
}

void
dv_scan_ask_listed(dv_scan *scan, Datum array)
{
	dv_bound_value *value = &scan->request.binding.values[0];

	value->value = array;
	value->isnull = false;
	ask(scan, -1);
}

bool
dv_scan_next(dv_scan *scan)
{
	while (scan->request.wanted != 0 && (scan->ranges != NULL || next_request(scan)))
	{
		if (next_row(scan) == DV_PAGES_END)
			continue;
		if (scan->request.wanted > 0)
			scan->request.wanted--;
		return true;
	}
	return false;
}

bool
dv_scan_id(const dv_scan *scan, uint8 *id)
{
	return dv_value_uuid(&scan->members[scan->id], id) == DV_VALUE_OK;
}

void
dv_scan_close(dv_scan *scan)
{
	int			i;

	for (i = 0; i < scan->ntargets; i++)
		dv_decoder_end(scan->targets[i].decoder);
	if (scan->progress != NULL)
		dv_progress_end(scan->progress);
	dv_ranges_leave(scan->ranges, false);
	MemoryContextDelete(scan->query);
	MemoryContextDelete(scan->row);
}

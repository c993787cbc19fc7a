/*
 * changes.c
 *		The pages of a table one at a time, for dataverse.pull() and
 *		dataverse.changes().
 *
 * dataverse_private.read_page() reads the next page of all rows, of the changes since a
 * token, or of the rows above a version.  It keeps the page until the next one is
 * read or the transaction ends, and returns how to continue: by a link, by a token,
 * or not at all.  SQL gets the page's rows and the ids of deleted ones from
 * merge_page.c.
 *
 * All rows of a standard table are read in ranges of ids (client/ranges.h), if that
 * makes it faster and no token is wanted.  From the first division on, the link to
 * continue by is a text of ours, "ids FROM..TO FROM..TO": the ranges that are left,
 * each from an id up to another one, which does not belong to it; either can be
 * missing.  It says as much as the last rows of all ranges, so nothing expires with
 * it, and whoever continues reads at most the pages again that were on their way.
 * Before the first division, the link is that of the service, because only a session
 * that divides ids has proved that the service sorts them as we do.
 *
 * The reader itself, with the next page on its way, outlives the transaction.  A
 * procedure that commits each page together with the link to the next one therefore
 * loses no time.  The reader continues only if the requested page is the one that it
 * has reached; otherwise it starts over at the requested place.
 *
 * The service may refuse a link or token that was stored: an older version of it gave
 * the link, or a column in it was dropped.  If it answers the same query without them,
 * read_page() says so, and the caller reads that anew.  Otherwise its refusal of the
 * query is the error.
 *
 * While a page is read, functions of users run: constraints of domains.  They may
 * read pages as well.  Therefore reader and page are private to the call until the
 * page is complete, and live in its memory, which is freed if there is an error.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "client/call.h"
#include "client/pages.h"
#include "client/ranges.h"
#include "compat.h"
#include "dataverse/address.h"
#include "dataverse/header.h"
#include "fdw/connection.h"
#include "fdw/decode.h"
#include "fdw/plan/plan.h"
#include "fdw/result.h"
#include "fdw/scan/count.h"
#include "fdw/scan/request.h"
#include "net/clock.h"
#include "net/text.h"
#include "net/xact.h"
#include "sync/changes.h"
#include "sync/delta_token.h"
#include "sync/merge_page.h"

DV_FUNCTION(dataverse_pull_info);
DV_FUNCTION(dataverse_read_page);
DV_FUNCTION(dataverse_end_pages);
DV_FUNCTION(dataverse_count_changes);

/* A read under way.  Between calls, it lives in a context below that of its session. */
typedef struct reader
{
	MemoryContext context;
	dv_session *session;
	Oid			relid;
	char	   *members;		/* those of "names", to compare */
	char	   *link;			/* where the next page is; NULL: at the end */
	bool		track;			/* it is to end with a token */
	dv_names   *names;
	dv_ranges  *ranges;			/* NULL: it has pages */
	dv_pages   *pages;
	dv_pages_stats stats;
	dv_progress *progress;
	char		metadata[DV_METADATA_VERSION];	/* of the page that was read last */
} reader;

/* What the caller of read_page() wants. */
typedef struct wish
{
	const dv_relation *relation;
	dv_session *session;
	dv_request	request;
	List	   *columns;		/* their attribute numbers */
	const char **names;			/* members of rows: each one once */
	int			nnames;
	int		   *members;		/* the index of each column's member, and then that of the id */
	const char *link;			/* of the page; NULL: the first one of ranges of ids */
	bool		begins;			/* this is the first page */
	bool		is_stored;		/* an earlier run has stored the link, or the token in it */
	bool		track;
	bool		in_ranges;
	double		expected;		/* rows in all; negative if not known */
} wish;

static reader *current_reader = NULL;

static void
drop_reader(void)
{
	if (current_reader != NULL)
		MemoryContextDelete(current_reader->context);
}

/* Takes the reader for the time in which a page is read. */
static reader *
take_reader(void)
{
	reader	   *r = current_reader;

	current_reader = NULL;
	MemoryContextSetParent(r->context, CurrentMemoryContext);
	return r;
}

static void
keep_reader(reader *r)
{
	drop_reader();
	MemoryContextSetParent(r->context, dv_session_context(r->session));
	current_reader = r;
}

static void
forget_reader(void *arg)
{
	if (current_reader == arg)
		current_reader = NULL;
}

static void
on_xact(XactEvent event)
{
	if (dv_xact_is_abort(event))
		drop_reader();
}

static dv_xact_participant xact_participant = {
	.phase = DV_XACT_FREE,
	.on_xact = on_xact
};

/*
 * Arguments
 */

dv_relation *
dv_changes_open(Oid relid)
{
	dv_relation *relation = dv_relation_of(relid, ACL_SELECT);
	AclResult	acl = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT);

	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_FOREIGN_TABLE, relation->name);
	acl = dv_server_aclcheck(relation->serverid, GetUserId(), ACL_USAGE);
	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_FOREIGN_SERVER, GetForeignServer(relation->serverid)->servername);
	return relation;
}

/* Returns the attribute numbers of these columns, or of all columns if "names" is NULL. */
static List *
columns_of(const dv_relation *relation, ArrayType *names)
{
	List	   *columns = NIL;
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			i;

	if (names == NULL)
	{
		for (i = 1; i <= relation->natts; i++)
			if (dv_relation_attribute(relation, i) != NULL)
				columns = lappend_int(columns, i);
		return columns;
	}
	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &n);
	for (i = 0; i < n; i++)
	{
		const char *name = nulls[i] ? "" : TextDatumGetCString(values[i]);
		AttrNumber	attnum = get_attnum(relation->relid, name);

		if (dv_relation_attribute(relation, attnum) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of foreign table \"%s\" does not exist", name,
							relation->name)));
		columns = lappend_int(columns, attnum);
	}
	return columns;
}

/*
 * Sets up the query for all rows, for changes since a token, or for rows above a version.
 * The order of pages is the same in all requests, so that no row is skipped; only change
 * tracking accepts no order, and has its own.
 */
static dv_query
query_of(const dv_relation *relation, const dv_request *request, const char *token,
		 const int64 *after, bool track)
{
	AttrNumber	version = dv_relation_column_of(relation, "versionnumber");
	dv_query	query = {.entity_set = relation->entity_set, .table = relation->table};

	query.primary_id = &relation->primary_id;
	query.columns = request->columns;
	query.ncolumns = request->ncolumns;
	query.all_columns = request->all_columns;
	query.by_id = token == NULL && !track && relation->type != DV_TABLE_VIRTUAL;
	if (after != NULL)
	{
		dv_order   *order = palloc0(sizeof(*order));

		if (version == 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("foreign table \"%s\" has no column for \"versionnumber\"",
							relation->name)));
		order->column = &dv_relation_attribute(relation, version)->column;
		query.filter = dv_filter_of(DV_GT, order->column, psprintf(INT64_FORMAT, *after));
		query.orders = order;
		query.norders = 1;
	}
	return query;
}

/* Returns the first request of a query. */
static char *
first_link(const dv_query *query, const char *token)
{
	char	   *link = dv_query_path(query, DV_ODATA_WIRE, NULL);

	if (token == NULL)
		return link;
	dv_delta_token_check(token);
	return psprintf("%s%c$deltatoken=%s", link, strchr(link, '?') == NULL ? '?' : '&', token);
}

/*
 * Ranges that are left
 */

#define LEFT "ids"

static bool
is_left(const char *link)
{
	return link != NULL && strncmp(link, LEFT " ", strlen(LEFT) + 1) == 0;
}

static void
append_id(StringInfo text, bool any, const dv_ordered_id *id)
{
	uint8		uuid[UUID_LEN];

	if (!any)
		return;
	dv_id_unorder(id, uuid);
	appendStringInfoString(text, dv_id_text(uuid));
}

/* Returns the text for ranges. */
static char *
write_left(const dv_id_range *left, int n)
{
	StringInfoData text;
	int			i;

	initStringInfo(&text);
	appendStringInfoString(&text, LEFT);
	for (i = 0; i < n; i++)
	{
		appendStringInfoChar(&text, ' ');
		append_id(&text, left[i].has_low, &left[i].low);
		appendStringInfoString(&text, "..");
		append_id(&text, left[i].has_high, &left[i].high);
	}
	return text.data;
}

/* Reads an id, if there is one, and what must follow it. */
static const char *
read_id(const char *p, const char *then, bool *any, dv_ordered_id *id)
{
	dv_value	value = {.kind = DV_VALUE_STRING, .text = p, .len = strcspn(p, ". ")};

	*any = value.len > 0;
	p += value.len;
	if ((*any && !dv_id_of_value(&value, id)) || strncmp(p, then, strlen(then)) != 0)
		elog(ERROR, "invalid ranges of ids");
	return p + strlen(then);
}

/* Reads ranges from their text; returns their number. */
static int
read_left(const char *link, dv_id_range *left)
{
	const char *p = link + strlen(LEFT);
	int			n = 0;

	while (*p == ' ')
	{
		if (n == DV_RANGES_MOST)
			elog(ERROR, "too many ranges of ids");
		p = read_id(p + 1, "..", &left[n].has_low, &left[n].low);
		p = read_id(p, "", &left[n].has_high, &left[n].high);
		n++;
	}
	if (n == 0 || *p != '\0')
		elog(ERROR, "invalid ranges of ids");
	return n;
}

/*
 * Reading
 */

/* The members of rows: one for each column, in their order, and then the id. */
static const char **
members_of(const dv_relation *relation, List *columns, int *members, int *n)
{
	const char **names = palloc(sizeof(char *) * (list_length(columns) + 1));
	ListCell   *lc;

	*n = 0;
	foreach(lc, columns)
	{
		const char *name = dv_relation_attribute(relation, lfirst_int(lc))->member;
		int			i;

		for (i = 0; i < *n && strcmp(names[i], name) != 0; i++)
			;
		if (i == *n)
			names[(*n)++] = name;
		members[foreach_current_index(lc)] = i;
	}
	for (members[list_length(columns)] = 0; members[list_length(columns)] < *n &&
		 strcmp(names[members[list_length(columns)]], relation->primary_id.property) != 0;)
		members[list_length(columns)]++;
	if (members[list_length(columns)] == *n)
		names[(*n)++] = relation->primary_id.property;
	return names;
}

static char *
joined(const char **names, int n)
{
	StringInfoData text;
	int			i;

	initStringInfo(&text);
	for (i = 0; i < n; i++)
		appendStringInfo(&text, "%s,", names[i]);
	return text.data;
}

static bool
is_reached(const wish *w)
{
	const reader *r = current_reader;

	return r != NULL && w->link != NULL && r->session == w->session &&
		r->relid == w->relation->relid && r->link != NULL && strcmp(r->link, w->link) == 0 &&
		r->track == w->track && strcmp(r->members, joined(w->names, w->nnames)) == 0;
}

/*
 * Begins to read ranges of ids.  Everything that their requests are made of lives as long as
 * the reader, which the definition of the foreign table does not.
 */
static void
start_ranges(reader *r, const wish *w, dv_pages_spec *spec)
{
	const dv_relation *relation = dv_relation_open(r->relid);
	dv_read_plan plan = dv_read_plan_columns(list_copy(w->columns));
	dv_request	request;
	dv_query   *query = palloc(sizeof(*query));
	dv_id_range left[DV_RANGES_MOST];
	dv_ranges_spec ranges = {.table = relation->table, .expected = w->expected, .left = left};

	dv_request_init(&request, &plan, &relation, NIL);
	*query = query_of(relation, &request, NULL, NULL, false);
	ranges.query = query;
	ranges.id = w->members[list_length(w->columns)];
	ranges.most = dv_read_plan_ranges(&plan, relation, &ranges.automatic);
	ranges.nleft = is_left(r->link) ? read_left(r->link, left) : 0;
	if (r->link == NULL || ranges.nleft > 0)
		spec->path = first_link(query, NULL);
	spec->id = relation->primary_id.property;
	ranges.pages = *spec;
	r->ranges = dv_ranges_start(&ranges, r->context);
}

static reader *
start_reader(const wish *w)
{
	const dv_relation *relation = w->relation;
	const char *annotations = w->request.annotations;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dataverse reader",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	MemoryContextCallback *callback = palloc0(sizeof(*callback));
	dv_pages_spec spec = {0};
	reader	   *r = palloc0(sizeof(*r));

	drop_reader();
	dv_xact_join(&xact_participant);
	r->context = context;
	r->session = w->session;
	r->relid = relation->relid;
	r->track = w->track;
	callback->func = forget_reader;
	callback->arg = r;
	MemoryContextRegisterResetCallback(context, callback);

	r->members = joined(w->names, w->nnames);
	r->link = w->link != NULL ? pstrdup(w->link) : NULL;
	r->names = dv_names_init(palloc(dv_names_size(w->names, w->nnames)), w->names, w->nnames);
	if (r->names == NULL)
		elog(ERROR, "invalid member names of foreign table \"%s\"", relation->name);
	r->progress = dv_relation_progress(relation, "pull", -1, context);
	spec.session = w->session;
	spec.path = r->link;
	spec.page_size = w->request.page_size;
	spec.wanted = -1;
	spec.likely = -1;
	spec.annotations = psprintf("%s%s" DV_ANNOTATION_METADATA, annotations != NULL ? annotations : "",
								annotations != NULL ? "," : "");
	spec.names = r->names;
	spec.what = psprintf("read foreign table \"%s\"", relation->name);
	spec.track_changes = w->track;
	spec.is_stored = w->is_stored;
	/* after the first page, the caller may turn to ranges of ids */
	spec.tentative = w->track && w->begins;
	spec.by_page = true;
	spec.stats = &r->stats;
	spec.progress = r->progress;
	spec.metadata = r->metadata;
	if (w->in_ranges)
		start_ranges(r, w, &spec);
	else
		r->pages = dv_pages_start(&spec, context);
	MemoryContextSwitchTo(old);
	return r;
}

static void
read_row_id(const dv_relation *relation, const dv_value *id, uint8 *uuid)
{
	if (dv_value_is_null(id) || dv_value_uuid(id, uuid) != DV_VALUE_OK)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not read foreign table \"%s\" on server \"%s\": Dataverse returned a row without an id",
						relation->name, GetForeignServer(relation->serverid)->servername)));
}

static dv_pages_state
next_row(reader *r, dv_value *row)
{
	return r->ranges != NULL ? dv_ranges_step(r->ranges, row) : dv_pages_step(r->pages, row);
}

/* Returns the error with which the service has refused a stored link or token, or NULL. */
static const dv_error *
refusal_of(const reader *r)
{
	return r->ranges != NULL ? dv_ranges_refusal(r->ranges) : dv_pages_refusal(r->pages);
}

/* Raises an error unless the service answers the query without a link or token. */
static void
ask_plainly(const wish *w)
{
	wish		plain = *w;
	dv_query	query = query_of(w->relation, &w->request, NULL, NULL, false);
	reader	   *r;

	query.top = 1;
	plain.link = first_link(&query, NULL);
	plain.begins = true;
	plain.is_stored = false;
	plain.request.page_size = 0;
	plain.track = false;
	plain.in_ranges = false;
	r = start_reader(&plain);
	(void) next_row(r, palloc0(sizeof(dv_value) * w->nnames));
	MemoryContextDelete(r->context);
}

/* Fills the page with the rows of one answer, of several if they have none. */
static void
fill_page(dv_merge_page *page, const wish *w, reader *r)
{
	const dv_relation *relation = w->relation;
	List	   *columns = w->columns;
	const int  *members = w->members;
	MemoryContext rows = AllocSetContextCreate(CurrentMemoryContext, "dataverse row",
											   ALLOCSET_DEFAULT_SIZES);
	dv_decoder **decoders = palloc(sizeof(dv_decoder *) * list_length(columns));
	dv_value   *row = palloc0(sizeof(dv_value) * w->nnames);
	const dv_value *id = &row[members[list_length(columns)]];
	Datum	   *values = palloc0(sizeof(Datum) * dv_merge_page_desc(page)->natts);
	bool	   *nulls = palloc(sizeof(bool) * dv_merge_page_desc(page)->natts);
	dv_pages_state state;
	ListCell   *lc;

	memset(nulls, true, dv_merge_page_desc(page)->natts);
	foreach(lc, columns)
		decoders[foreach_current_index(lc)] =
			dv_decoder_create(relation, dv_relation_attribute(relation, lfirst_int(lc)));
	while ((state = next_row(r, row)) == DV_PAGES_ROW || state == DV_PAGES_TOMBSTONE ||
		   (state == DV_PAGES_TURNED && r->ranges != NULL && dv_merge_page_upserts(page) == 0))
	{
		uint8		uuid[UUID_LEN];
		MemoryContext old;

		if (state == DV_PAGES_TURNED)
			continue;
		if (state == DV_PAGES_TOMBSTONE)
		{
			read_row_id(relation, &dv_pages_page(r->pages)->deleted_id, uuid);
			dv_merge_page_delete(page, uuid);
			continue;
		}
		read_row_id(relation, id, uuid);
		old = MemoryContextSwitchTo(rows);
		foreach(lc, columns)
		{
			int			i = foreach_current_index(lc);

			values[lfirst_int(lc) - 1] = dv_decode(decoders[i], &row[members[i]], id,
												   &nulls[lfirst_int(lc) - 1]);
		}
		MemoryContextSwitchTo(old);
		dv_merge_page_upsert(page, uuid, values, nulls);
		MemoryContextReset(rows);
	}
	foreach(lc, columns)
		dv_decoder_end(decoders[foreach_current_index(lc)]);
	MemoryContextDelete(rows);
}

/* Returns where to continue, or NULL at the end. */
static const char *
find_link(const reader *r)
{
	dv_id_range left[DV_RANGES_MOST];
	int			n;

	if (r->ranges == NULL)
		return dv_pages_link(r->pages);
	n = dv_ranges_left(r->ranges, left);
	return n > 0 ? write_left(left, n) : dv_ranges_link(r->ranges);
}

static void
note_link(reader *r)
{
	const char *next = find_link(r);

	if (r->link != NULL)
		pfree(r->link);
	r->link = next != NULL ? MemoryContextStrdup(r->context, next) : NULL;
}

/* Returns the link for changes at the end of a page, or null. */
static const dv_value *
delta_link(const reader *r)
{
	static const dv_value none = {.kind = DV_VALUE_NULL};

	return r->ranges != NULL ? &none : &dv_pages_page(r->pages)->delta_link;
}

enum page_column
{
	PAGE_LINK, PAGE_TOKEN, PAGE_UPSERTS, PAGE_DELETIONS, PAGE_METADATA, PAGE_REFUSED,
	PAGE_COLUMNS
};

/* Returns the record of read_page() for a link or token that the service does not know any more. */
static Datum
refused_page(FunctionCallInfo fcinfo, const wish *w, const dv_error *error)
{
	Datum		values[PAGE_COLUMNS] = {0};
	bool		nulls[PAGE_COLUMNS];

	ask_plainly(w);
	ereport(LOG,
			(errmsg("Dataverse no longer knows where reading foreign table \"%s\" was to continue", w->relation->name),
			 error != NULL ? errdetail_internal("%s", dv_text_told(error->message)) : 0));
	memset(nulls, true, sizeof(nulls));
	nulls[PAGE_REFUSED] = false;
	values[PAGE_REFUSED] = BoolGetDatum(true);
	return dv_result_row(fcinfo, PAGE_COLUMNS, values, nulls);
}

/*
 * read_page(foreign_table, columns, link, token, after, track, expected, stored): reads a
 * page and keeps it.  Without a link, this is the first page: of the changes since the
 * token, of the rows above the version "after", or of all rows, of which so many are
 * expected.  An earlier run may have "stored" the link, or the token without a link.
 */
Datum
dataverse_read_page(PG_FUNCTION_ARGS)
{
	const char *token = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	int64		version = PG_ARGISNULL(4) ? 0 : PG_GETARG_INT64(4);
	const int64 *after = PG_ARGISNULL(4) ? NULL : &version;
	wish		w = {0};
	dv_read_plan plan;
	dv_query	query;
	dv_merge_page *page;
	Datum		values[PAGE_COLUMNS] = {0};
	bool		nulls[PAGE_COLUMNS] = {0};
	reader	   *r;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	w.relation = dv_changes_open(PG_GETARG_OID(0));
	w.session = dv_connection_get(w.relation->serverid, GetUserId());
	w.columns = columns_of(w.relation, PG_ARGISNULL(1) ? NULL : PG_GETARG_ARRAYTYPE_P(1));
	plan = dv_read_plan_columns(w.columns);
	dv_request_init(&w.request, &plan, &w.relation, NIL);
	w.members = palloc(sizeof(int) * (list_length(w.columns) + 1));
	w.names = members_of(w.relation, w.columns, w.members, &w.nnames);
	w.link = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));
	w.begins = w.link == NULL;
	/* the service does not know our ranges */
	w.is_stored = !PG_ARGISNULL(7) && PG_GETARG_BOOL(7) && !is_left(w.link);
	w.track = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);
	w.expected = PG_ARGISNULL(6) ? -1 : PG_GETARG_FLOAT8(6);
	w.in_ranges = w.relation->type == DV_TABLE_STANDARD && token == NULL && after == NULL && !w.track;
	query = query_of(w.relation, &w.request, token, after, w.track);
	if (w.begins && !w.in_ranges)
		w.link = first_link(&query, token);
	if (w.is_stored && w.link != NULL && !dv_session_reaches(w.session, w.link))
		return refused_page(fcinfo, &w, NULL);
	r = is_reached(&w) ? take_reader() : start_reader(&w);
	page = dv_merge_page_start(w.relation->relid);
	fill_page(page, &w, r);
	if (refusal_of(r) != NULL)
		return refused_page(fcinfo, &w, refusal_of(r));
	note_link(r);

	values[PAGE_LINK] = r->link != NULL ? CStringGetTextDatum(r->link) : (Datum) 0;
	nulls[PAGE_LINK] = r->link == NULL;
	nulls[PAGE_TOKEN] = r->link != NULL || dv_value_is_null(delta_link(r));
	if (!nulls[PAGE_TOKEN])
		values[PAGE_TOKEN] = CStringGetTextDatum(dv_delta_token_of(delta_link(r)));
	values[PAGE_UPSERTS] = Int64GetDatum(dv_merge_page_upserts(page));
	values[PAGE_DELETIONS] = Int64GetDatum(dv_merge_page_deletions(page));
	nulls[PAGE_METADATA] = r->metadata[0] == '\0';
	if (!nulls[PAGE_METADATA])
		values[PAGE_METADATA] = CStringGetTextDatum(r->metadata);
	values[PAGE_REFUSED] = BoolGetDatum(false);
	dv_merge_page_keep(page);
	if (r->link != NULL)
		keep_reader(r);
	else
		MemoryContextDelete(r->context);
	return dv_result_row(fcinfo, PAGE_COLUMNS, values, nulls);
}

/* end_pages(): ends reading */
Datum
dataverse_end_pages(PG_FUNCTION_ARGS)
{
	drop_reader();
	dv_merge_page_end();
	PG_RETURN_VOID();
}

/* Returns the name of the column for this one of the service, or NULL. */
static const char *
column_name(const dv_relation *relation, const char *name)
{
	AttrNumber	attnum = dv_relation_column_of(relation, name);

	return attnum == 0 ? NULL : dv_relation_attribute(relation, attnum)->name;
}

#define INFO_COLUMNS 8

/* pull_info(foreign_table): what dataverse.pull() needs to know about the table */
Datum
dataverse_pull_info(PG_FUNCTION_ARGS)
{
	dv_relation *relation = dv_changes_open(PG_GETARG_OID(0));
	const char *names[5];
	ArrayBuildState *columns = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	ArrayBuildState *attributes = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	Datum		values[INFO_COLUMNS] = {0};
	bool		nulls[INFO_COLUMNS] = {0};
	int			i;

	names[0] = GetForeignServer(relation->serverid)->servername;
	names[1] = relation->table;
	names[2] = relation->entity_set;
	names[3] = column_name(relation, relation->primary_id.name);
	names[4] = column_name(relation, "versionnumber");
	for (i = 0; i < 5; i++)
	{
		nulls[i] = names[i] == NULL;
		values[i] = nulls[i] ? (Datum) 0 : CStringGetTextDatum(names[i]);
	}
	values[5] = BoolGetDatum(relation->type == DV_TABLE_ELASTIC);
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute == NULL)
			continue;
		(void) accumArrayResult(columns, CStringGetTextDatum(attribute->name), false, TEXTOID,
								CurrentMemoryContext);
		(void) accumArrayResult(attributes, CStringGetTextDatum(attribute->column.name), false, TEXTOID,
								CurrentMemoryContext);
	}
	values[6] = makeArrayResult(columns, CurrentMemoryContext);
	values[7] = makeArrayResult(attributes, CurrentMemoryContext);
	return dv_result_row(fcinfo, INFO_COLUMNS, values, nulls);
}

/*
 * How much has changed, for a view that must not wait
 */

/* A server that has not answered in time gets no further request for this long. */
#define PAUSE_US 10000000

/* Answers within this time are prompt. */
#define PROMPT_US 100000

typedef struct silence
{
	Oid			serverid;
	int64		until;
} silence;

static List *silent = NIL;		/* silence: servers that have not answered */

static bool
is_silent(Oid serverid)
{
	ListCell   *lc;

	foreach(lc, silent)
	{
		silence    *s = lfirst(lc);

		if (s->until <= dv_now())
		{
			silent = foreach_delete_current(silent, lc);
			pfree(s);
		}
		else if (s->serverid == serverid)
			return true;
	}
	return false;
}

static void
note_silence(Oid serverid)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	silence    *s = palloc(sizeof(*s));

	s->serverid = serverid;
	s->until = dv_now() + PAUSE_US;
	silent = lappend(silent, s);
	MemoryContextSwitchTo(old);
}

/*
 * Returns how much longer the current statement may wait for slow servers, at most
 * "most" for all of them together.  Each server gets half of the remaining time, so
 * that some is left for the next.
 */
static int64 *
time_left(int64 most)
{
	static TimestampTz statement = 0;
	static int64 left;

	if (statement != GetCurrentStatementStartTimestamp())
	{
		statement = GetCurrentStatementStartTimestamp();
		left = most;
	}
	return &left;
}

/*
 * copy_count_changes(foreign_table, token, after, limit): how many rows have changed
 * since the token, or have a greater version; NULL if the service does not answer
 * within this many milliseconds.  All calls of a statement together wait no longer than
 * twice that for slow servers.
 */
Datum
dataverse_count_changes(PG_FUNCTION_ARGS)
{
	dv_relation *relation;
	int64	   *left;
	int64		begun;
	char	   *path;
	int64		n;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(3) || (PG_ARGISNULL(1) && PG_ARGISNULL(2)))
		PG_RETURN_NULL();
	relation = dv_changes_open(PG_GETARG_OID(0));
	if (is_silent(relation->serverid))
		PG_RETURN_NULL();
	if (!PG_ARGISNULL(1))
	{
		char	   *token = text_to_cstring(PG_GETARG_TEXT_PP(1));

		dv_delta_token_check(token);
		path = psprintf("%s/$count?$deltatoken=%s", relation->entity_set, token);
	}
	else
		path = psprintf("%s/$count?$filter=versionnumber%%20gt%%20" INT64_FORMAT, relation->entity_set,
						PG_GETARG_INT64(2));
	left = time_left(PG_GETARG_INT32(3) * INT64CONST(2000));
	begun = dv_now();
	n = dv_count_by_path(dv_connection_get(relation->serverid, GetUserId()), path, begun + *left / 2);
	*left = Max(*left - Max(dv_now() - begun - PROMPT_US, 0), 0);
	if (n < 0)
	{
		note_silence(relation->serverid);
		PG_RETURN_NULL();
	}
	PG_RETURN_INT64(n);
}

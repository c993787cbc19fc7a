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
 * The reader itself, with the next page on its way, outlives the transaction.  A
 * procedure that commits each page together with the link to the next one therefore
 * loses no time.  The reader continues only if the requested page is the one that it
 * has reached; otherwise it starts over at the requested place.
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
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "client/call.h"
#include "client/pages.h"
#include "compat.h"
#include "dataverse/header.h"
#include "fdw/connection.h"
#include "fdw/decode.h"
#include "fdw/plan/plan.h"
#include "fdw/scan/count.h"
#include "fdw/scan/request.h"
#include "net/clock.h"
#include "net/xact.h"
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
	dv_pages   *pages;
	dv_pages_stats stats;
	dv_progress *progress;
	char		metadata[DV_METADATA_VERSION];	/* of the page that was read last */
} reader;

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

/*
 * The caller must be allowed to read the table, and to send requests that the table itself would
 * not send.
 */
static dv_relation *
open_relation(Oid relid)
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
 * A token is the text between "$deltatoken=" and the next option in a delta link, still encoded.
 */
static void
check_token(const char *token)
{
	if (token[0] == '\0' || token[strcspn(token, "&#?/ \t\r\n")] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid token of change tracking"),
				 errhint("Tokens are returned by dataverse.changes().")));
}

static char *
token_in(const dv_value *value)
{
	char	   *link = palloc(value->len + 1);
	const char *p;
	size_t		len;

	if (dv_value_string(value, link, &len) != DV_VALUE_OK)
		len = 0;
	link[len] = '\0';
	for (p = link; *p != '\0'; p++)
		if (pg_strncasecmp(p, "deltatoken=", 11) == 0 && p > link &&
			(p[-1] == '$' || (p - link >= 3 && pg_strncasecmp(p - 3, "%24", 3) == 0)))
			return pnstrdup(p + 11, strcspn(p + 11, "&#"));
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
			 errmsg("Dataverse returned a delta link without a token"),
			 errdetail_internal("%s", link)));
}

/*
 * Returns the first request for all rows, for changes since a token, or for rows
 * above a version.  The order of pages is the same in all requests, so that no row
 * is skipped; only change tracking accepts no order, and has its own.
 */
static char *
first_link(const dv_relation *relation, const dv_request *request, const char *token,
		   const int64 *after, bool track)
{
	AttrNumber	version = dv_relation_column_of(relation, "versionnumber");
	dv_query	query = {.entity_set = relation->entity_set, .table = relation->table};
	dv_order	order = {0};
	dv_operand	operand = {0};
	dv_filter	filter = {.kind = DV_GT, .n = 1, .operands = &operand};
	char	   *link;

	query.primary_id = &relation->primary_id;
	query.columns = request->columns;
	query.ncolumns = request->ncolumns;
	query.all_columns = request->all_columns;
	if (after != NULL)
	{
		if (version == 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("foreign table \"%s\" has no column for \"versionnumber\"",
							relation->name)));
		filter.column = order.column = &dv_relation_attribute(relation, version)->column;
		operand.text = psprintf(INT64_FORMAT, *after);
		query.filter = &filter;
		query.orders = &order;
		query.norders = 1;
	}
	query.by_id = token == NULL && !track && relation->type != DV_TABLE_VIRTUAL;
	link = dv_query_path(&query, DV_ODATA_WIRE, NULL);
	if (token == NULL)
		return link;
	check_token(token);
	return psprintf("%s%c$deltatoken=%s", link, strchr(link, '?') == NULL ? '?' : '&', token);
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
is_reached(const dv_relation *relation, const dv_session *session, const char *link,
		   const char *members, bool track)
{
	const reader *r = current_reader;

	return r != NULL && r->session == session && r->relid == relation->relid &&
		r->link != NULL && strcmp(r->link, link) == 0 && r->track == track &&
		strcmp(r->members, members) == 0;
}

/* "ordered": rows come in the order of their ids. */
static reader *
start_reader(const dv_relation *relation, const dv_request *request, dv_session *session,
			 const char *link, const char **names, int nnames, bool track, bool ordered)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dataverse reader",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	MemoryContextCallback *callback = palloc0(sizeof(*callback));
	dv_pages_spec spec = {0};
	reader	   *r = palloc0(sizeof(*r));

	drop_reader();
	dv_xact_join(&xact_participant);
	r->context = context;
	r->session = session;
	r->relid = relation->relid;
	r->track = track;
	callback->func = forget_reader;
	callback->arg = r;
	MemoryContextRegisterResetCallback(context, callback);

	r->members = joined(names, nnames);
	r->link = pstrdup(link);
	r->names = dv_names_init(palloc(dv_names_size(names, nnames)), names, nnames);
	if (r->names == NULL)
		elog(ERROR, "invalid member names of foreign table \"%s\"", relation->name);
	r->progress = dv_relation_progress(relation, "pull", -1, context);
	spec.session = session;
	spec.path = r->link;
	spec.id = ordered ? pstrdup(relation->primary_id.property) : NULL;
	spec.page_size = request->page_size;
	spec.wanted = -1;
	spec.likely = -1;
	spec.annotations = psprintf("%s%s" DV_ANNOTATION_METADATA,
								request->annotations != NULL ? request->annotations : "",
								request->annotations != NULL ? "," : "");
	spec.names = r->names;
	spec.what = psprintf("read foreign table \"%s\"", relation->name);
	spec.track_changes = track;
	spec.by_page = true;
	spec.stats = &r->stats;
	spec.progress = r->progress;
	spec.metadata = r->metadata;
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

static void
fill_page(dv_merge_page *page, const dv_relation *relation, reader *r, List *columns,
		  const int *members, int nnames)
{
	MemoryContext rows = AllocSetContextCreate(CurrentMemoryContext, "dataverse row",
											   ALLOCSET_DEFAULT_SIZES);
	dv_decoder **decoders = palloc(sizeof(dv_decoder *) * list_length(columns));
	dv_value   *row = palloc0(sizeof(dv_value) * nnames);
	const dv_value *id = &row[members[list_length(columns)]];
	Datum	   *values = palloc0(sizeof(Datum) * dv_merge_page_desc(page)->natts);
	bool	   *nulls = palloc(sizeof(bool) * dv_merge_page_desc(page)->natts);
	dv_pages_state state;
	ListCell   *lc;

	memset(nulls, true, dv_merge_page_desc(page)->natts);
	foreach(lc, columns)
		decoders[foreach_current_index(lc)] =
			dv_decoder_create(relation, dv_relation_attribute(relation, lfirst_int(lc)));
	while ((state = dv_pages_step(r->pages, row)) == DV_PAGES_ROW || state == DV_PAGES_TOMBSTONE)
	{
		uint8		uuid[UUID_LEN];
		MemoryContext old;

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

static void
note_link(reader *r)
{
	const char *next = dv_pages_link(r->pages);

	if (r->link != NULL)
		pfree(r->link);
	r->link = next != NULL ? MemoryContextStrdup(r->context, next) : NULL;
}

enum page_column
{
	PAGE_LINK, PAGE_TOKEN, PAGE_UPSERTS, PAGE_DELETIONS, PAGE_METADATA,
	PAGE_COLUMNS
};

/*
 * read_page(foreign_table, columns, link, token, after, track): reads a page and
 * keeps it.  Without a link, this is the first page: of the changes since the
 * token, of the rows above the version "after", or of all rows.
 */
Datum
dataverse_read_page(PG_FUNCTION_ARGS)
{
	dv_relation *relation;
	dv_session *session;
	const dv_relation *relations[1];
	List	   *columns;
	dv_read_plan plan;
	dv_request	request;
	int		   *members;
	int			nnames;
	const char **names;
	const char *link;
	const char *token = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	int64		after = PG_ARGISNULL(4) ? 0 : PG_GETARG_INT64(4);
	bool		track = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);
	dv_merge_page *page;
	TupleDesc	tupdesc;
	Datum		values[PAGE_COLUMNS] = {0};
	bool		nulls[PAGE_COLUMNS] = {0};
	reader	   *r;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	relation = open_relation(PG_GETARG_OID(0));
	session = dv_connection_get(relation->serverid, GetUserId());
	columns = columns_of(relation, PG_ARGISNULL(1) ? NULL : PG_GETARG_ARRAYTYPE_P(1));
	plan = dv_read_plan_columns(columns);
	relations[0] = relation;
	dv_request_init(&request, &plan, relations, NIL);
	members = palloc(sizeof(int) * (list_length(columns) + 1));
	names = members_of(relation, columns, members, &nnames);
	link = !PG_ARGISNULL(2) ? text_to_cstring(PG_GETARG_TEXT_PP(2)) :
		first_link(relation, &request, token, PG_ARGISNULL(4) ? NULL : &after, track);
	r = is_reached(relation, session, link, joined(names, nnames), track) ? take_reader() :
		start_reader(relation, &request, session, link, names, nnames, track,
					 relation->type == DV_TABLE_STANDARD && token == NULL && PG_ARGISNULL(4) && !track);
	page = dv_merge_page_start(relation->relid);
	fill_page(page, relation, r, columns, members, nnames);
	note_link(r);

	values[PAGE_LINK] = r->link != NULL ? CStringGetTextDatum(r->link) : (Datum) 0;
	nulls[PAGE_LINK] = r->link == NULL;
	nulls[PAGE_TOKEN] = r->link != NULL || dv_value_is_null(&dv_pages_page(r->pages)->delta_link);
	if (!nulls[PAGE_TOKEN])
		values[PAGE_TOKEN] = CStringGetTextDatum(token_in(&dv_pages_page(r->pages)->delta_link));
	values[PAGE_UPSERTS] = Int64GetDatum(dv_merge_page_upserts(page));
	values[PAGE_DELETIONS] = Int64GetDatum(dv_merge_page_deletions(page));
	nulls[PAGE_METADATA] = r->metadata[0] == '\0';
	if (!nulls[PAGE_METADATA])
		values[PAGE_METADATA] = CStringGetTextDatum(r->metadata);
	dv_merge_page_keep(page);
	if (r->link != NULL)
		keep_reader(r);
	else
		MemoryContextDelete(r->context);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
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

/* pull_info(foreign_table): what dataverse.pull() needs to know about the table */
Datum
dataverse_pull_info(PG_FUNCTION_ARGS)
{
	dv_relation *relation = open_relation(PG_GETARG_OID(0));
	const char *names[5];
	ArrayBuildState *columns = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	ArrayBuildState *attributes = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	TupleDesc	tupdesc;
	Datum		values[8] = {0};
	bool		nulls[8] = {0};
	int			i;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
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
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
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
	relation = open_relation(PG_GETARG_OID(0));
	if (is_silent(relation->serverid))
		PG_RETURN_NULL();
	if (!PG_ARGISNULL(1))
	{
		char	   *token = text_to_cstring(PG_GETARG_TEXT_PP(1));

		check_token(token);
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

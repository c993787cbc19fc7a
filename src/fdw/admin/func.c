/*
 * func.c
 *		SQL functions that access Dataverse directly (whoami, test_connection,
 *		request, fetchxml), and version.
 *
 * The former use the user mapping of the caller.  Like CREATE FOREIGN TABLE,
 * they require the USAGE privilege on the server, so that a role that may only
 * read one foreign table cannot use its server for anything else.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <curl/curl.h>
#include <json-c/json_c_version.h>
#include <time.h>

#include "access/htup_details.h"
#include "catalog/pg_foreign_server.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "client/call.h"
#include "compat.h"
#include "dataverse/address.h"
#include "dataverse/fetchxml.h"
#include "dataverse/header.h"
#include "dataverse/json_cursor.h"
#include "dataverse/odata.h"
#include "fdw/connection.h"
#include "fdw/excerpt.h"
#include "fdw/result.h"
#include "net/date.h"
#include "net/inflate.h"
#include "net/json.h"
#include "net/text.h"
#include "net/url.h"

DV_FUNCTION(dataverse_whoami);
DV_FUNCTION(dataverse_test_connection);
DV_FUNCTION(dataverse_request);
DV_FUNCTION(dataverse_fetchxml);
DV_FUNCTION(dataverse_version);

static dv_session *
session_of(Name server_name)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*server_name), false);
	AclResult	acl = dv_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);

	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_FOREIGN_SERVER, server->servername);
	return dv_connection_get(server->serverid, GetUserId());
}

/* Calls an input function with a text of the service. */
static Datum
read_text(PGFunction input, const char *text)
{
	MemoryContext context = CurrentMemoryContext;
	Datum		value = (Datum) 0;

	PG_TRY();
	{
		value = DirectFunctionCall1(input, CStringGetDatum(text));
	}
	PG_CATCH();
	{
		dv_excerpt_rethrow(context, NULL);
	}
	PG_END_TRY();
	return value;
}

static Datum
uuid_member(struct json_object *object, const char *name, bool *isnull)
{
	const char *text = dv_json_string(object, name);

	*isnull = text == NULL;
	return text == NULL ? (Datum) 0 : read_text(uuid_in, dv_text_in(text, strlen(text)));
}

static struct json_object *
object_of(const dv_session *session, const dv_call *call, const char *what)
{
	const dv_http_result *result = dv_call_result(call);
	const char *error;
	struct json_object *root = dv_json_parse(result->body, result->body_len, &error);

	if (root == NULL || !dv_json_is_object(root))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("could not %s on server \"%s\": an answer from Dataverse was not a JSON object", what,
						dv_session_config_of(session)->server_name),
				 errhint(DV_ANSWER_HINT)));
	return root;
}

/* whoami(server): the user in Dataverse as which the next request would be sent */
Datum
dataverse_whoami(PG_FUNCTION_ARGS)
{
	dv_session *session = session_of(PG_GETARG_NAME(0));
	dv_call_spec spec = {.method = "GET", .path = "WhoAmI", .kind = DV_KIND_OTHER, .repeatable = true};
	dv_call    *call = dv_call_run(session, &spec, "identify the application user", CurrentMemoryContext);
	struct json_object *root = object_of(session, call, "identify the application user");
	Datum		values[4];
	bool		nulls[4] = {false};

	values[0] = CStringGetTextDatum(dv_pool_user_name(dv_session_pool(session), dv_call_user(call)));
	values[1] = uuid_member(root, "UserId", &nulls[1]);
	values[2] = uuid_member(root, "BusinessUnitId", &nulls[2]);
	values[3] = uuid_member(root, "OrganizationId", &nulls[3]);
	return dv_result_row(fcinfo, 4, values, nulls);
}

static Datum
interval_of(double seconds)
{
	Interval   *interval = palloc0(sizeof(*interval));

	interval->time = (TimeOffset) (seconds * USECS_PER_SEC);
	return IntervalPGetDatum(interval);
}

enum test_column
{
	TEST_NAME,
	TEST_OK,
	TEST_USER_ID,
	TEST_TOKEN_LIFETIME,
	TEST_ROUND_TRIP,
	TEST_DOP,
	TEST_CLOCK_SKEW,
	TEST_ERROR,
	TEST_HINT,
	TEST_COLUMNS
};

/* Fills in the result for one application user. */
static void
fill_test(const dv_session *session, dv_call *call, Datum *values, bool *nulls)
{
	const dv_error *error = dv_call_error(call);
	double		dop;
	int64_t		date;

	values[TEST_OK] = BoolGetDatum(error->verdict == DV_VERDICT_OK);
	nulls[TEST_OK] = false;
	if (error->verdict != DV_VERDICT_OK)
	{
		values[TEST_ERROR] = CStringGetTextDatum(error->message);
		nulls[TEST_ERROR] = false;
		nulls[TEST_HINT] = error->hint == NULL;
		if (!nulls[TEST_HINT])
			values[TEST_HINT] = CStringGetTextDatum(error->hint);
		return;
	}
	values[TEST_USER_ID] = uuid_member(object_of(session, call, "test the connection"), "UserId",
									   &nulls[TEST_USER_ID]);
	nulls[TEST_TOKEN_LIFETIME] =
		dv_token_lifetime(dv_session_access_token(session, dv_call_user(call))) < 0;
	values[TEST_TOKEN_LIFETIME] =
		interval_of(dv_token_lifetime(dv_session_access_token(session, dv_call_user(call))));
	values[TEST_ROUND_TRIP] = interval_of(dv_call_result(call)->duration / 1e6);
	nulls[TEST_ROUND_TRIP] = false;
	dop = dv_http_number(dv_call_header(call, "x-ms-dop-hint"));
	nulls[TEST_DOP] = dop < 0;
	values[TEST_DOP] = Int32GetDatum((int32) dop);
	date = dv_http_date(dv_call_header(call, "Date"));
	nulls[TEST_CLOCK_SKEW] = date < 0;
	values[TEST_CLOCK_SKEW] = interval_of((double) (date - (int64_t) time(NULL)));
}

/* test_connection(server): a row for each application user, even if its request fails */
Datum
dataverse_test_connection(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = dv_result_rows(fcinfo, TEST_COLUMNS);
	dv_session *session = session_of(PG_GETARG_NAME(0));
	int			n = dv_pool_size(dv_session_pool(session));
	int			i;

	for (i = 0; i < n; i++)
	{
		dv_call_spec spec = {.method = "GET", .path = "WhoAmI", .kind = DV_KIND_OTHER, .only = UINT64CONST(1) << i, .repeatable = true};
		dv_call    *call = dv_call_start(session, &spec, CurrentMemoryContext);
		Datum		values[TEST_COLUMNS] = {0};
		bool		nulls[TEST_COLUMNS];

		memset(nulls, true, sizeof(nulls));
		values[TEST_NAME] = CStringGetTextDatum(dv_pool_user_name(dv_session_pool(session), i));
		nulls[TEST_NAME] = false;
		dv_call_wait(call);
		fill_test(session, call, values, nulls);
		dv_result_add(result, values, nulls);
		dv_call_free(call);
	}
	return (Datum) 0;
}

static const struct
{
	const char *method;
	dv_kind		kind;
	bool		repeatable;
}			methods[] =

{
	{"GET", DV_KIND_READ, true},
	{"POST", DV_KIND_OTHER, false},
	{"PATCH", DV_KIND_UPDATE, false},
	{"PUT", DV_KIND_UPDATE, true},
	{"DELETE", DV_KIND_DELETE, true},
};

static void
refuse_path(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg_internal("%s", message),
			 errhint("%s", hint)));
}

static void
check_path(const char *path)
{
	switch (dv_url_is_absolute(path) ? DV_PATH_OK : dv_path_check(path))
	{
		case DV_PATH_OK:
			break;
		case DV_PATH_CHARACTER:
			refuse_path("path contains a backslash", "Write %5C if it is meant literally.");
			break;
		case DV_PATH_FRAGMENT:
			refuse_path("path contains a number sign", "Write %23 if it is meant literally.");
			break;
		case DV_PATH_DOTS:
			refuse_path("path contains \".\" or \"..\" as a segment",
						"It must lead to a resource below the service root.");
			break;
	}
}

/* Accepts paths with a leading slash, with blanks, and with any letters, none of which can be sent. */
static const char *
tidy_path(const char *path)
{
	StringInfoData buf;

	if (dv_text_has_controls(path, strlen(path)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("path of a request to Dataverse contains a control character")));
	initStringInfo(&buf);
	for (path = dv_text_to_utf8(path + strspn(path, "/")); *path != '\0'; path++)
	{
		if (*path == ' ' || IS_HIGHBIT_SET(*path))
		{
			enlargeStringInfo(&buf, 3);
			buf.len = dv_url_put(buf.data + buf.len, *path) - buf.data;
			buf.data[buf.len] = '\0';
		}
		else
			appendStringInfoChar(&buf, *path);
	}
	check_path(buf.data);
	return buf.data;
}

static Datum
json_to_jsonb(const char *text, size_t len)
{
	return read_text(jsonb_in, dv_text_json_in(text, len));
}

/* Appends text of the service as a JSON string. */
static void
append_string(StringInfo json, const char *text, size_t len)
{
	escape_json(json, dv_text_in(text, len));
}

/*
 * Converts an answer to jsonb.  JSON is returned as it is, and other text as a
 * JSON string.  Without a body, the address of the row in the headers is returned.
 */
static Datum
answer_to_jsonb(const dv_call *call, bool *isnull)
{
	const dv_http_result *result = dv_call_result(call);
	const char *type = dv_call_header(call, "Content-Type");
	const char *id = dv_call_header(call, "OData-EntityId");
	StringInfoData buf;

	*isnull = false;
	if (result->body_len > 0 && type != NULL && strncmp(type, "application/json", 16) == 0)
		return json_to_jsonb(result->body, result->body_len);
	initStringInfo(&buf);
	if (result->body_len > 0)
		append_string(&buf, result->body, result->body_len);
	else if (id != NULL)
	{
		appendStringInfoString(&buf, "{\"@odata.id\":");
		append_string(&buf, id, strlen(id));
		appendStringInfoChar(&buf, '}');
	}
	else
	{
		*isnull = true;
		return (Datum) 0;
	}
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(buf.data));
}

/* Requests for definitions bypass the caches of the service, which may be a moment old. */
static const char *const fresh_headers[] = {"Consistency: Strong", NULL};

/* request(server, method, path, body) */
Datum
dataverse_request(PG_FUNCTION_ARGS)
{
	char	   *method;
	dv_call_spec spec = {.rows = 1};
	dv_session *session;
	dv_call    *call;
	bool		isnull;
	Datum		result;
	int			i;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	method = text_to_cstring(PG_GETARG_TEXT_PP(1));
	for (i = 0; i < (int) lengthof(methods); i++)
	{
		if (pg_strcasecmp(method, methods[i].method) != 0)
			continue;
		spec.method = methods[i].method;
		spec.kind = methods[i].kind;
		spec.repeatable = methods[i].repeatable;
	}
	if (spec.method == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid HTTP method \"%s\"", method),
				 errhint("Use GET, POST, PATCH, PUT, or DELETE.")));
	if (spec.kind != DV_KIND_READ)
		PreventCommandIfReadOnly("dataverse.request() other than GET");
	session = session_of(PG_GETARG_NAME(0));
	spec.path = tidy_path(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	if (strncmp(spec.path, "EntityDefinitions", strlen("EntityDefinitions")) == 0)
		spec.headers = fresh_headers;
	if (!PG_ARGISNULL(3))
	{
		Jsonb	   *body = PG_GETARG_JSONB_P(3);

		spec.body = dv_text_to_utf8(JsonbToCString(NULL, &body->root, VARSIZE(body)));
		spec.body_len = strlen(spec.body);
	}
	call = dv_call_run(session, &spec, psprintf("carry out %s %s", spec.method, spec.path),
					   CurrentMemoryContext);
	result = answer_to_jsonb(call, &isnull);
	if (isnull)
		PG_RETURN_NULL();
	return result;
}

/*
 * fetchxml(server, xml): the rows of a FetchXML query, all pages.
 */

/* The entity set of the query's root table. */
static const char *
entity_set_of(dv_session *session, const char *table)
{
	dv_call_spec spec = {.method = "GET", .kind = DV_KIND_OTHER, .repeatable = true};
	const char *set;
	dv_call    *call;

	spec.path = dv_address_entity_set(table);
	call = dv_call_run(session, &spec, psprintf("find table \"%s\"", table), CurrentMemoryContext);
	set = dv_json_string(object_of(session, call, psprintf("find table \"%s\"", table)), "EntitySetName");
	if (set == NULL || !dv_url_is_name(set))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_TABLE_NOT_FOUND),
				 errmsg("table \"%s\" is not available in the Web API", table),
				 errhint(DV_TABLE_NAME_HINT)));
	set = pstrdup(set);
	dv_call_free(call);
	return set;
}

#define PAGE_SIZE 5000

/* A query whose pages are being read. */
typedef struct fetch_state
{
	dv_session *session;
	const char *xml;
	dv_fetchxml query;
	const char *set;
	int			page;
	char	   *cookie;			/* of the previous page, or NULL */
	bool		more;
} fetch_state;

static const char *
fetch_path(const fetch_state *state)
{
	int			count = state->query.count > 0 ? state->query.count : PAGE_SIZE;
	const char *xml = state->xml;
	char	   *paged;
	char	   *path;
	size_t		len;

	/* a query for a certain page or number of rows is sent as it is */
	if (state->query.top == 0 && state->query.page == 0)
	{
		len = dv_fetchxml_page(&state->query, state->page, count, state->cookie, NULL, 0);
		paged = palloc(len + 1);
		(void) dv_fetchxml_page(&state->query, state->page, count, state->cookie, paged, len + 1);
		xml = paged;
	}
	len = strlen(state->set) + strlen("?fetchXml=");
	path = palloc(len + 3 * strlen(xml) + 1);
	sprintf(path, "%s?fetchXml=", state->set);
	len += dv_url_encode(xml, path + len);
	if (strlen(dv_session_root(state->session)) + len > DV_ODATA_MAX_URL)
		ereport(ERROR,
				(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				 errmsg("FetchXML query is too long"),
				 errdetail("Its URL would have %zu characters, but Dataverse accepts at most %d.",
						   strlen(dv_session_root(state->session)) + len, DV_ODATA_MAX_URL)));
	return path;
}

/* The part of a page that announces the next one. */
typedef struct page_end
{
	dv_value	more;
	dv_value	cookie;			/* a string, or absent */
	int64		rows;
} page_end;

/* Returns true unless this is the last page, which has neither of the annotations. */
static bool
says_more(const page_end *end)
{
	if (!dv_value_is_null(&end->more))
		return end->more.kind == DV_VALUE_TRUE || dv_value_equals(&end->more, "true");
	return end->rows > 0 && !dv_value_is_null(&end->cookie);
}

/* Finds out whether there is a next page, and how to request it. */
static void
note_page_end(fetch_state *state, const page_end *end, MemoryContext keep)
{
	char	   *before = state->cookie;
	char	   *annotation;
	size_t		len;

	state->more = state->query.top == 0 && state->query.page == 0 && says_more(end);
	state->cookie = NULL;
	if (!state->more)
		return;
	state->page++;
	annotation = palloc(end->cookie.len + 1);
	if (end->cookie.kind != DV_VALUE_STRING ||
		dv_value_string(&end->cookie, annotation, &len) != DV_VALUE_OK)
		return;
	annotation[len] = '\0';
	state->cookie = MemoryContextAlloc(keep, len + 1);
	if (!dv_fetchxml_cookie(annotation, state->cookie))
	{
		/* without a cookie, the page number must be enough */
		pfree(state->cookie);
		state->cookie = NULL;
	}
	else if (before != NULL && strcmp(before, state->cookie) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not read from \"%s\" on server \"%s\": Dataverse returned the same page again",
						state->query.entity, dv_session_config_of(state->session)->server_name)));
	if (before != NULL)
		pfree(before);
}

/* Each row is a slice of the answer, which PostgreSQL parses.  Returns the number of rows. */
static int64
put_rows(dv_cursor *json, ReturnSetInfo *rsinfo)
{
	dv_value	row;
	int64		rows = 0;

	(void) dv_cursor_enter(json, '[');
	while (dv_cursor_next(json, ']') && dv_cursor_value(json, &row))
	{
		Datum		value;
		bool		isnull = false;

		CHECK_FOR_INTERRUPTS();
		if (row.kind != DV_VALUE_OBJECT)
		{
			(void) dv_cursor_fail(json, row.text, "row expected");
			return rows;
		}
		value = json_to_jsonb(pnstrdup(row.text, row.len), row.len);
		dv_result_add(rsinfo, &value, &isnull);
		rows++;
	}
	return rows;
}

static void
read_page(const fetch_state *state, const dv_http_result *result, ReturnSetInfo *rsinfo,
		  page_end *end)
{
	dv_cursor	json;
	dv_value	name;
	dv_value	value;
	bool		found = false;

	memset(end, 0, sizeof(*end));
	/* other answers come from a gateway or proxy, even if they look alike */
	if (result->status != 200)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not read from \"%s\" on server \"%s\": an answer from Dataverse was incomplete",
						state->query.entity, dv_session_config_of(state->session)->server_name),
				 errdetail("It has HTTP status %d, not 200.", (int) result->status)));
	dv_cursor_open(&json, result->body, result->body_len);
	(void) dv_cursor_enter(&json, '{');
	while (dv_cursor_next(&json, '}') && dv_cursor_name(&json, &name))
	{
		if (dv_value_equals(&name, "value"))
		{
			found = true;
			end->rows = put_rows(&json, rsinfo);
		}
		else if (!dv_cursor_value(&json, &value))
			break;
		else if (dv_value_equals(&name, "@" DV_ANNOTATION_MORE))
			end->more = value;
		else if (dv_value_equals(&name, "@" DV_ANNOTATION_COOKIE))
			end->cookie = value;
	}
	if (dv_cursor_ended(&json) && found)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_ERROR),
			 errmsg("could not read from \"%s\" on server \"%s\": an answer from Dataverse had no list of rows",
					state->query.entity, dv_session_config_of(state->session)->server_name),
			 json.error != NULL ? errdetail("At byte %zu: %s.", json.error_at, json.error) : 0));
}

static void
fetch_page(fetch_state *state, ReturnSetInfo *rsinfo, MemoryContext keep)
{
	static const char *const headers[] = {
		DV_PREFER_ANNOTATIONS(DV_ANNOTATION_COOKIE "," DV_ANNOTATION_MORE),
		NULL
	};
	dv_call_spec spec = {.method = "GET", .headers = headers, .kind = DV_KIND_READ, .repeatable = true};
	const char *what = psprintf("read from \"%s\"", state->query.entity);
	dv_call    *call;
	page_end	end;

	spec.path = fetch_path(state);
	call = dv_call_run(state->session, &spec, what, CurrentMemoryContext);
	read_page(state, dv_call_result(call), rsinfo, &end);
	dv_pool_note_rows(dv_session_pool(state->session), dv_call_user(call), end.rows, 0);
	note_page_end(state, &end, keep);
}

Datum
dataverse_fetchxml(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext keep = CurrentMemoryContext;
	MemoryContext page = AllocSetContextCreate(keep, "dataverse page", ALLOCSET_DEFAULT_SIZES);
	fetch_state state = {.page = 1};
	const char *error;

	state.xml = dv_text_to_utf8(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	if (!dv_fetchxml_read(state.xml, &state.query, &error))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid FetchXML"),
				 errdetail("%s", error)));
	if (!dv_url_is_name(state.query.entity))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid FetchXML"),
				 errdetail("The name of the table must consist of letters, digits, and underscores.")));
	state.session = session_of(PG_GETARG_NAME(0));
	dv_init_materialized_scalars(fcinfo);
	state.set = entity_set_of(state.session, state.query.entity);
	do
	{
		MemoryContextSwitchTo(page);
		fetch_page(&state, rsinfo, keep);
		MemoryContextSwitchTo(keep);
		MemoryContextReset(page);
	} while (state.more);
	return (Datum) 0;
}

/*
 * dataverse.version(): the versions in use, for bug reports.  They come from the
 * loaded libraries, not from the headers that the extension was compiled with,
 * because libraries can be upgraded without recompiling it.  libdeflate does not tell.
 */

enum version_column
{
	VERSION_EXTENSION,
	VERSION_POSTGRESQL,
	VERSION_LIBCURL,
	VERSION_TLS,
	VERSION_JSON_C,
	VERSION_LIBDEFLATE,
	VERSION_COLUMNS
};

Datum
dataverse_version(PG_FUNCTION_ARGS)
{
	const		curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
	Datum		values[VERSION_COLUMNS];
	bool		nulls[VERSION_COLUMNS] = {false};


	values[VERSION_EXTENSION] = CStringGetTextDatum(DV_VERSION);
	values[VERSION_POSTGRESQL] = CStringGetTextDatum(
													 GetConfigOption("server_version", false, false));
	values[VERSION_LIBCURL] = CStringGetTextDatum(curl->version);
	values[VERSION_JSON_C] = CStringGetTextDatum(json_c_version());

	/* libcurl may have been built without TLS; then it cannot reach Dataverse */
	if (curl->ssl_version != NULL)
		values[VERSION_TLS] = CStringGetTextDatum(curl->ssl_version);
	else
		nulls[VERSION_TLS] = true;
	if (dv_inflate_version != NULL)
		values[VERSION_LIBDEFLATE] = CStringGetTextDatum(dv_inflate_version);
	else
		nulls[VERSION_LIBDEFLATE] = true;

	return dv_result_row(fcinfo, VERSION_COLUMNS, values, nulls);
}

/*
 * delta_token.c
 *		Tokens of change tracking.
 *
 * The service returns a token at the end of a read of all rows, or of the changes
 * since an earlier token.  Such a read is one chain of pages, because the service
 * accepts neither a filter nor an order with it.  A table that is read in ranges of
 * ids (client/ranges.h) needs the token first: then changes that are made meanwhile
 * come with the changes since the token, and it does not matter which rows the
 * ranges still contain.
 *
 * Such a token is obtained by a request for the changes since the greatest version
 * of the table, which are few or none.  The token that this request needs is made of
 * the version and the service's time, as in "919042!08/22/2017 08:10:44", which is
 * how the service writes tokens and how Microsoft's own portals make their first one.
 * It is not documented.  Nothing relies on it: the rows in the answer are ignored, and
 * what is kept is the token at its end, which the service has made before any of the
 * rows are read.  If there is no such token, all rows are read to get one.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <time.h>

#include "access/htup_details.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "client/call.h"
#include "client/trouble.h"
#include "compat.h"
#include "dataverse/address.h"
#include "dataverse/header.h"
#include "dataverse/page.h"
#include "fdw/connection.h"
#include "fdw/result.h"
#include "fdw/scan/count.h"
#include "net/date.h"
#include "sync/changes.h"
#include "sync/delta_token.h"

DV_FUNCTION(dataverse_first_token);

void
dv_delta_token_check(const char *token)
{
	if (token[0] == '\0' || token[strcspn(token, "&#?/ \t\r\n")] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid token of change tracking"),
				 errhint("Tokens are returned by dataverse.changes().")));
}

char *
dv_delta_token_of(const dv_value *value)
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

/* Returns the version in a token, or -1 if it does not begin with one. */
static int64
version_in(const char *token)
{
	char	   *end;
	int64		version = strtoll(token, &end, 10);

	return end > token && (*end == '!' || strncmp(end, "%21", 3) == 0) ? version : -1;
}

/* Begins a request whose answer fits into a page. */
static dv_call *
start(dv_session *session, const char *path)
{
	dv_call_spec spec = {.method = "GET", .kind = DV_KIND_READ, .repeatable = true};
	dv_call    *call;

	spec.path = path;
	spec.headers = dv_headers_of_page(0, false, NULL, NULL);
	call = dv_call_start(session, &spec, CurrentMemoryContext);
	dv_call_advance();
	return call;
}

/*
 * Waits for an answer, and reads it to the end, and one member of its last row.  Returns
 * false if the service refuses to answer, or does not answer as it should: no token is
 * needed.  But if it is too busy, so it is for everything else.
 */
static bool
read_answer(dv_call *call, const dv_relation *relation, dv_session *session, const char *member,
			dv_page *page, dv_value *value)
{
	dv_names   *names = dv_names_init(palloc(dv_names_size(&member, 1)), &member, 1);
	const dv_http_result *result;
	dv_page_step step;

	dv_call_wait(call);
	if (dv_call_error(call)->verdict == DV_VERDICT_THROTTLED)
		dv_trouble_raise(dv_call_error(call), dv_session_config_of(session),
						 psprintf("read foreign table \"%s\"", relation->name));
	result = dv_call_result(call);
	if (dv_call_error(call)->verdict != DV_VERDICT_OK || result->status != 200)
		return false;
	dv_page_open(page, names, result->body, result->body_len);
	while ((step = dv_page_next(page, value)) == DV_PAGE_ROW || step == DV_PAGE_TOMBSTONE)
		;
	return step == DV_PAGE_END;
}

/* Finds the greatest version of a table, and the time at which the service had it. */
static bool
find_top(dv_session *session, const dv_relation *relation, int64 *version, time_t *at)
{
	dv_call    *call = start(session, psprintf("%s?$select=versionnumber&$orderby=versionnumber%%20desc&$top=1",
											   relation->entity_set));
	dv_page		page;
	dv_value	value;
	bool		found;

	found = read_answer(call, relation, session, "versionnumber", &page, &value) && page.rows == 1 &&
		dv_value_int64(&value, version) == DV_VALUE_OK;
	*at = found ? (time_t) dv_http_date(dv_call_header(call, "Date")) : -1;
	dv_call_free(call);
	return *at >= 0;
}

/* Begins to request the changes since a version that the service had at this time. */
static dv_call *
start_changes(dv_session *session, const dv_relation *relation, int64 version, time_t at)
{
	struct tm	tm;
	char		time[64];

	gmtime_r(&at, &tm);
	strftime(time, sizeof(time), "%m%%2f%d%%2f%Y%%20%H%%3a%M%%3a%S", &tm);
	return start(session, psprintf("%s?$select=%s&$deltatoken=" INT64_FORMAT "%%21%s", relation->entity_set,
								   relation->primary_id.property, version, time));
}

/* Returns the token at the end of these changes, or NULL. */
static char *
take_token(dv_call *call, const dv_relation *relation, dv_session *session)
{
	char	   *token = NULL;
	dv_page		page;
	dv_value	value;

	/* a page that has a successor is the first one of many, perhaps of all rows */
	if (read_answer(call, relation, session, relation->primary_id.property, &page, &value) &&
		dv_value_is_null(&page.next_link) && !dv_value_is_null(&page.delta_link))
		token = dv_delta_token_of(&page.delta_link);
	dv_call_free(call);
	return token;
}

/* Returns about how many rows there are, or -1 if the service does not say so. */
static double
count_rows(dv_session *session, const dv_relation *relation)
{
	int64		rows = dv_count_is_told(relation, GetUserId()) ?
	dv_count_by_path(session, dv_address_row_count(relation->table), 0) : 0;

	/* it can be a day old, and 0 if the table is not counted */
	return rows > 0 ? (double) rows : -1;
}

/*
 * first_token(foreign_table): a token that the service gives before it is asked for any
 * rows, or NULL; and about how many rows there are, or NULL
 */
Datum
dataverse_first_token(PG_FUNCTION_ARGS)
{
	dv_relation *relation = dv_changes_open(PG_GETARG_OID(0));
	dv_session *session = dv_connection_get(relation->serverid, GetUserId());
	Datum		values[2] = {0};
	bool		nulls[2] = {true, true};
	dv_call    *call;
	int64		version;
	time_t		at;
	char	   *token;
	double		rows;

	if (find_top(session, relation, &version, &at))
	{
		call = start_changes(session, relation, version, at);
		rows = count_rows(session, relation);
		token = take_token(call, relation, session);
		nulls[0] = token == NULL || version_in(token) < version;
		if (!nulls[0])
			values[0] = CStringGetTextDatum(token);
		nulls[1] = rows < 0;
		values[1] = Float8GetDatum(rows);
	}
	return dv_result_row(fcinfo, 2, values, nulls);
}

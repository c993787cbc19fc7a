/*
 * count.c
 *		How many rows a table has, as far as the service says without returning them.
 *
 * RetrieveTotalRecordCount answers from a count that can be a day old.  For
 * some of the service's own tables it returns 0, which cannot be distinguished
 * from an empty table, and for others it fails.  Then plans are made with what
 * the last ANALYZE has found, and ANALYZE has the rows counted exactly, which
 * the service does up to a limit.
 *
 * Whoever asks can do without the number, so a request is not repeated if its
 * outcome is unknown.  SELECT count(*) cannot: it is a read (fdw/scan/read.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <json-c/json.h>

#include "utils/memutils.h"

#include "client/forms.h"
#include "client/pages.h"
#include "client/trouble.h"
#include "dataverse/address.h"
#include "fdw/connection.h"
#include "fdw/scan/count.h"
#include "net/clock.h"
#include "net/json.h"

/* Sends a request for a number, and waits for the answer until then (0: no limit). */
static dv_call *
request_number(dv_session *session, const char *path, int64 until)
{
	dv_call_spec spec = {.method = "GET", .kind = DV_KIND_READ, .path = path};
	dv_call    *call = dv_call_start(session, &spec, CurrentMemoryContext);

	if (until == 0)
	{
		dv_call_wait(call);
		return call;
	}
	dv_call_advance();
	while (!dv_call_done(call) && dv_now() < until)
	{
		dv_call_pause(until, DV_WAIT_RESPONSE);
		dv_call_advance();
	}
	return call;
}

/* Returns the only element of an array, or NULL. */
static struct json_object *
only_element(struct json_object *array)
{
	return dv_json_length(array) == 1 ? dv_json_item(array, 0) : NULL;
}

/*
 * Reads 1234, {"value":[{"n":1234}]}, or {"EntityRecordCountCollection":{"Values":[1234]}}.
 * Returns -1 if the answer is none of these.
 */
static int64
number_in(const dv_call *call)
{
	const dv_http_result *result = dv_call_result(call);

	/* text may begin with a byte order mark */
	size_t		mark = strspn(result->body, "\xef\xbb\xbf");
	struct json_object *root = dv_json_parse(result->body + mark, result->body_len - mark, NULL);
	struct json_object *counts = dv_json_member(root, "EntityRecordCountCollection");
	struct json_object *number = root;

	if (counts != NULL)
		number = only_element(dv_json_array(counts, "Values"));
	else if (dv_json_is_object(root))
		number = dv_json_member(only_element(dv_json_array(root, "value")), "n");
	return json_object_is_type(number, json_type_int) ? Max(json_object_get_int64(number), 0) : -1;
}

/* Returns false if reading rows would meet the same error, so that nothing else helps. */
static bool
is_about_count(const dv_error *error)
{
	if (error->verdict == DV_VERDICT_REFUSED)
		return error->meaning != DV_MEANING_USER && error->meaning != DV_MEANING_CALLER;
	return error->verdict == DV_VERDICT_RETRY && error->outcome_unknown;
}

bool
dv_count_is_told(const dv_relation *relation, Oid userid)
{
	return relation->type != DV_TABLE_VIRTUAL &&
		dv_form_most(dv_connection_get(relation->serverid, userid), DV_FORM_TOTAL_COUNT,
					 relation->table, 1) > 0;
}

double
dv_count_told(const dv_relation *relation, Oid userid)
{
	dv_session *session;
	dv_call    *call;
	const dv_error *error;
	double		rows = -1;

	if (!dv_count_is_told(relation, userid))
		return -1;
	session = dv_connection_get(relation->serverid, userid);
	call = request_number(session, dv_address_row_count(relation->table), 0);
	error = dv_call_error(call);
	if (error->verdict == DV_VERDICT_OK)
		rows = Max((double) number_in(call), DV_FEWEST_ROWS);
	else if (!is_about_count(error))
		dv_trouble_raise(error, dv_session_config_of(session),
						 psprintf("estimate foreign table \"%s\"", relation->name));
	/* what fails inside of the service fails again, unlike a lost connection */
	else if (error->verdict == DV_VERDICT_REFUSED || error->status == 500)
		dv_form_refused(session, DV_FORM_TOTAL_COUNT, relation->table, 0, error);
	dv_call_free(call);
	return rows;
}

/* Has the service count the rows.  Returns 0 if it does not. */
static double
count_exactly(const dv_relation *relation, Oid userid)
{
	dv_query	query = {.language = DV_LANGUAGE_ODATA, .entity_set = relation->entity_set, .count = true};
	double		rows = 0;
	dv_call    *call;

	if (relation->type == DV_TABLE_VIRTUAL)
		return 0;
	call = request_number(dv_connection_get(relation->serverid, userid),
						  dv_query_path(&query, DV_ODATA_WIRE, NULL), 0);
	if (dv_call_error(call)->verdict == DV_VERDICT_OK)
		rows = Max((double) number_in(call), 0);
	else if (dv_call_error(call)->meaning == DV_MEANING_COUNT_LIMIT)
		rows = DV_COUNTED_ROWS;
	dv_call_free(call);
	return rows;
}

double
dv_count_rows(const dv_relation *relation, Oid userid)
{
	double		rows = dv_count_told(relation, userid);

	return rows >= 0 ? rows : count_exactly(relation, userid);
}

int64
dv_count_by_path(dv_session *session, const char *path, int64 until)
{
	dv_call    *call = request_number(session, path, until);
	int64		n = -1;

	if (dv_call_done(call) && dv_call_error(call)->verdict == DV_VERDICT_OK)
		n = number_in(call);
	dv_call_free(call);
	return n;
}

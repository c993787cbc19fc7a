/*
 * estimate.c
 *		How many rows a table of the service has, more or less.
 *
 * RetrieveTotalRecordCount tells from a count that is up to a day old (facts
 * 6.7).  For some tables of the service's own it says 0, which nobody can
 * tell from the truth: so a plan is never made for less than two rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <json-c/json.h>

#include "utils/memutils.h"

#include "client/call.h"
#include "dataverse/address.h"
#include "fdw/connection.h"
#include "fdw/estimate.h"
#include "net/json.h"

/* {"EntityRecordCountCollection":{"Keys":["account"],"Values":[1234]}} */
static double
count_in(const dv_http_result *result)
{
	struct json_object *root = dv_json_parse(result->body, result->body_len, NULL);
	struct json_object *counts;
	struct json_object *values;

	if (root == NULL ||
		!json_object_object_get_ex(root, "EntityRecordCountCollection", &counts) ||
		!json_object_object_get_ex(counts, "Values", &values) ||
		!json_object_is_type(values, json_type_array) || json_object_array_length(values) != 1)
		return 0;
	return (double) json_object_get_int64(json_object_array_get_idx(values, 0));
}

double
dv_remote_row_count(const dv_relation *relation, Oid userid)
{
	dv_call_spec spec = {0};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dataverse estimate",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_session *session = dv_connection_get(relation->serverid, userid);
	dv_call    *call;
	const dv_error *error;
	double		rows = 0;

	spec.method = "GET";
	spec.path = dv_address_row_count(relation->table);
	spec.kind = DV_KIND_READ;
	spec.pinned = -1;
	spec.repeatable = true;
	call = dv_call_start(session, &spec, context);
	dv_call_wait(call);
	error = dv_call_error(call);
	if (error->verdict == DV_VERDICT_OK)
		rows = count_in(dv_call_result(call));
	/* there are tables that can be read and are not counted */
	else if (error->status != 404)
		dv_error_raise(error, dv_session_config_of(session)->server_name,
					   psprintf("estimate foreign table \"%s\"", relation->name));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return Max(rows, DV_FEWEST_ROWS);
}

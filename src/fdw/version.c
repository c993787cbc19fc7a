/*
 * version.c
 *		dataverse.version(): what runs here, for the first line of every
 *		report of a problem.
 *
 * All five are asked of what is loaded, not taken from the headers that the
 * extension was compiled with: libraries are upgraded under a running server.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <curl/curl.h>
#include <json-c/json_c_version.h>

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "compat.h"

enum version_column
{
	VERSION_EXTENSION,
	VERSION_POSTGRESQL,
	VERSION_LIBCURL,
	VERSION_TLS,
	VERSION_JSON_C,
	VERSION_COLUMNS
};

DV_FUNCTION(dataverse_version);

Datum
dataverse_version(PG_FUNCTION_ARGS)
{
	const		curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
	TupleDesc	tupdesc;
	Datum		values[VERSION_COLUMNS];
	bool		nulls[VERSION_COLUMNS] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	values[VERSION_EXTENSION] = CStringGetTextDatum(DV_VERSION);
	values[VERSION_POSTGRESQL] = CStringGetTextDatum(
													 GetConfigOption("server_version", false, false));
	values[VERSION_LIBCURL] = CStringGetTextDatum(curl->version);
	values[VERSION_JSON_C] = CStringGetTextDatum(json_c_version());

	/* a libcurl without TLS exists, and cannot reach Dataverse */
	if (curl->ssl_version != NULL)
		values[VERSION_TLS] = CStringGetTextDatum(curl->ssl_version);
	else
		nulls[VERSION_TLS] = true;

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

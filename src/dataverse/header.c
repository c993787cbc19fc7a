/*
 * header.c
 *		Headers of requests, and the annotations that they request.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "lib/stringinfo.h"
#include "utils/uuid.h"

#include "dataverse/address.h"
#include "dataverse/header.h"

#define MAX_HEADERS 5
#define MAX_REQUEST_HEADERS 24

const char *const *
dv_headers_of_write(const dv_write_manner *manner)
{
	static const char *const bypasses[] = {
		[DV_BYPASS_SYNC] = "MSCRM.BypassBusinessLogicExecution: CustomSync",
		[DV_BYPASS_ASYNC] = "MSCRM.BypassBusinessLogicExecution: CustomAsync",
		[DV_BYPASS_ALL] = "MSCRM.BypassBusinessLogicExecution: CustomSync,CustomAsync"
	};
	const char **headers = palloc0(sizeof(char *) * MAX_HEADERS);
	int			n = 0;

	if (manner->bypass != DV_BYPASS_NONE)
		headers[n++] = bypasses[manner->bypass];
	if (manner->bypass_flows)
		headers[n++] = "MSCRM.SuppressCallbackRegistrationExpanderJob: true";
	if (manner->detect_duplicates)
		headers[n++] = "MSCRM.SuppressDuplicateDetection: false";
	/* includes names of errors and, for elastic tables, the rows that failed */
	headers[n++] = DV_PREFER_ANNOTATIONS("*");
	return headers;
}

const char *const *
dv_headers_of_page(int page_size, bool track_changes, const char *annotations,
				   const char *session_token)
{
	const char **headers = palloc0(sizeof(char *) * MAX_HEADERS);
	StringInfoData prefer;
	int			n = 0;

	initStringInfo(&prefer);
	if (page_size > 0)
		appendStringInfo(&prefer, "odata.maxpagesize=%d", page_size);
	if (track_changes)
		appendStringInfo(&prefer, "%sodata.track-changes", prefer.len > 0 ? "," : "");
	if (annotations != NULL)
		appendStringInfo(&prefer, "%sodata.include-annotations=\"%s\"", prefer.len > 0 ? "," : "",
						 annotations);
	if (prefer.len > 0)
		headers[n++] = psprintf("Prefer: %s", prefer.data);
	if (session_token != NULL)
		headers[n++] = psprintf("MSCRM.SessionToken: %s", session_token);
	return headers;
}

static const char *
new_request_id(void)
{
	/* it only identifies the request in the service's logs, so it need not be unpredictable */
	uint64		random[] = {
		pg_prng_uint64(&pg_global_prng_state), pg_prng_uint64(&pg_global_prng_state)
	};
	uint8		id[UUID_LEN];

	memcpy(id, random, sizeof(id));
	/* version 4 */
	id[6] = (id[6] & 0x0f) | 0x40;
	id[8] = (id[8] & 0x3f) | 0x80;
	return psprintf("x-ms-client-request-id: %s", dv_id_text(id));
}

static bool
has_header(const char *const *headers, const char *name)
{
	size_t		len = strlen(name);

	for (; headers != NULL && *headers != NULL; headers++)
		if (pg_strncasecmp(*headers, name, len) == 0 && (*headers)[len] == ':')
			return true;
	return false;
}

const char *const *
dv_headers_of_request(const char *bearer, const char *caller_id, const char *const *extra,
					  bool has_body)
{
	static const char *const defaults[][2] = {
		{"Accept", "Accept: application/json"},
		{"OData-MaxVersion", "OData-MaxVersion: 4.0"},
		{"OData-Version", "OData-Version: 4.0"},
		{"If-None-Match", "If-None-Match: null"},
	};
	const char **headers = palloc0((MAX_REQUEST_HEADERS + 1) * sizeof(char *));
	int			n = 0;
	int			i;

	headers[n++] = psprintf("Authorization: Bearer %s", bearer);
	headers[n++] = new_request_id();
	for (i = 0; i < (int) lengthof(defaults); i++)
		if (!has_header(extra, defaults[i][0]))
			headers[n++] = defaults[i][1];
	if (has_body && !has_header(extra, "Content-Type"))
		headers[n++] = "Content-Type: application/json; charset=utf-8";
	if (caller_id != NULL)
		headers[n++] = psprintf(DV_HEADER_CALLER "%s", caller_id);
	for (; extra != NULL && *extra != NULL; extra++)
	{
		if (n >= MAX_REQUEST_HEADERS)
			elog(ERROR, "too many request headers");
		headers[n++] = *extra;
	}
	return headers;
}

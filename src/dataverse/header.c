/*-------------------------------------------------------------------------
 *
 * header.c
 *		Headers of requests, and the annotations that they request.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "dataverse/header.h"

#define MAX_HEADERS 5

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
dv_headers_of_page(int page_size, const char *annotations, const char *session_token)
{
	const char **headers = palloc0(sizeof(char *) * MAX_HEADERS);
	StringInfoData prefer;
	int			n = 0;

	initStringInfo(&prefer);
	if (page_size > 0)
		appendStringInfo(&prefer, "odata.maxpagesize=%d", page_size);
	if (annotations != NULL)
		appendStringInfo(&prefer, "%sodata.include-annotations=\"%s\"", prefer.len > 0 ? "," : "",
						 annotations);
	if (prefer.len > 0)
		headers[n++] = psprintf("Prefer: %s", prefer.data);
	if (session_token != NULL)
		headers[n++] = psprintf("MSCRM.SessionToken: %s", session_token);
	return headers;
}

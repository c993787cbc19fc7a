/*
 * answer.c
 *		Reads the answer to an attempt, for the call and for the pool.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "client/answer.h"
#include "client/trouble.h"
#include "dataverse/address.h"
#include "dataverse/batch_answer.h"
#include "net/date.h"
#include "net/text.h"

#define LARGEST_ROW		((size_t) 16 * 1024 * 1024) /* that a write returns */
#define LARGEST_RESULT	((size_t) 64 * 1024)	/* for one row of a batch */

static bool
open_parts(const dv_http_call *http, dv_multipart *multipart)
{
	const dv_http_result *result = dv_http_result_of(http);

	return dv_multipart_open(multipart, dv_http_header(http, "Content-Type"), result->body,
							 result->body_len);
}

/* The service sends its id under both names. */
static const char *
request_id_of(const dv_http_call *http)
{
	const char *id = dv_http_header(http, "REQ_ID");

	return id != NULL ? id : dv_http_header(http, "x-ms-service-request-id");
}

/*
 * A $batch that stops at its first failure has the status of the failed part,
 * which contains the error.
 */
static void
read_error(const dv_http_call *http, bool in_batch, dv_error *error)
{
	const dv_http_result *result = dv_http_result_of(http);
	const char *request_id = request_id_of(http);
	dv_multipart multipart;
	dv_part		part;

	if ((in_batch || result->status >= 300) && open_parts(http, &multipart) &&
		dv_multipart_failure(&multipart, &part))
	{
		dv_batch_answer_read(&part, error);
		if (error->request_id == NULL && request_id != NULL)
			error->request_id = dv_text_shown(request_id, strlen(request_id));
	}
	else
		dv_error_read(result->status, result->body, result->body_len,
					  dv_http_header(http, "Retry-After"), dv_http_header(http, "Date"),
					  request_id, error);
}

static void
note_throttle(dv_answer *answer, const dv_error *error, int part)
{
	dv_answer_throttle *throttle;

	/* the array doubles when the number of its elements is a power of two */
	if (answer->throttles == NULL)
		answer->throttles = palloc(sizeof(*throttle));
	else if ((answer->nthrottles & (answer->nthrottles - 1)) == 0)
		answer->throttles = repalloc(answer->throttles,
									 2 * answer->nthrottles * sizeof(*throttle));
	throttle = &answer->throttles[answer->nthrottles++];
	throttle->part = part;
	throttle->error = *error;
}

static void
read_parts(const dv_http_call *http, dv_answer *answer)
{
	dv_multipart multipart;
	dv_part		part;
	dv_error	error;

	if (!open_parts(http, &multipart))
		return;
	while (dv_multipart_next(&multipart, &part) == DV_PART)
	{
		if (part.status < 300)
		{
			answer->accepted++;
			continue;
		}
		answer->failed++;
		dv_batch_answer_read(&part, &error);
		if (error.verdict == DV_VERDICT_THROTTLED)
			note_throttle(answer, &error, answer->accepted + answer->failed);
	}
}

void
dv_answer_read(const dv_http_call *http, bool in_batch, dv_answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	if (dv_http_result_of(http)->outcome != DV_HTTP_ANSWERED)
	{
		dv_trouble_read(dv_http_result_of(http), &answer->error);
		return;
	}
	read_error(http, in_batch, &answer->error);

	/* the throttle of a request's only part is the throttle of the request, not a second one */
	if (answer->error.verdict == DV_VERDICT_THROTTLED)
		note_throttle(answer, &answer->error, 0);
	else
		read_parts(http, answer);
}

/*
 * Values in addresses may be confidential, so only the shape of an address is
 * logged.
 */
void
dv_answer_log(const dv_http_call *http, const char *method, const char *path)
{
	const dv_http_result *result = dv_http_result_of(http);
	const char *id = request_id_of(http);
	const char *shape;

	if (!message_level_is_interesting(DEBUG2))
		return;
	shape = dv_address_shape(path);
	if (result->outcome != DV_HTTP_ANSWERED)
		ereport(DEBUG2,
				(errmsg_internal("Dataverse did not answer %s %s: %s", method,
								 dv_text_told(shape), dv_http_failure_name(result->failure))));
	else
		ereport(DEBUG2,
				(errmsg_internal("Dataverse answered %s %s with HTTP status %d, request id %s",
								 method, dv_text_told(shape), result->status,
								 id != NULL ? dv_text_told(dv_text_shown(id, strlen(id))) :
								 "unknown")));
}

static bool
writes_rows(dv_kind kind)
{
	return kind != DV_KIND_READ && kind != DV_KIND_OTHER;
}

size_t
dv_answer_largest(dv_kind kind, int rows)
{
	return writes_rows(kind) ? LARGEST_ROW + (size_t) rows * LARGEST_RESULT : 0;
}

bool
dv_answer_is_dense(dv_kind kind, bool is_batch)
{
	return writes_rows(kind) && !is_batch;
}

static double
header_number(const dv_http_call *http, const char *name)
{
	return dv_http_number(dv_http_header(http, name));
}

/* See dv_lease_outcome for the consequences. */
static dv_lease_outcome
outcome_of(const dv_http_call *http, const dv_answer *answer)
{
	switch (answer->error.verdict)
	{
		case DV_VERDICT_OK:
			if (answer->failed == 0)
				return DV_LEASE_SUCCESS;
			return answer->accepted > 0 && answer->nthrottles == 0 ?
				DV_LEASE_PARTIAL : DV_LEASE_REFUSED;
		case DV_VERDICT_REFUSED:
			/* the details list rows of an elastic table, some of which were written */
			if (answer->error.details != NULL)
				return DV_LEASE_PARTIAL;
			return dv_http_result_of(http)->outcome == DV_HTTP_ANSWERED ?
				DV_LEASE_REFUSED : DV_LEASE_FAILED;
		case DV_VERDICT_THROTTLED:
			return DV_LEASE_THROTTLED;
		case DV_VERDICT_AUTH:
		case DV_VERDICT_RETRY:
			break;
	}
	return DV_LEASE_FAILED;
}

static const dv_throttle_report *
report_throttles(const dv_answer *answer)
{
	dv_throttle_report *reports = palloc(answer->nthrottles * sizeof(*reports));
	int			i;

	for (i = 0; i < answer->nthrottles; i++)
	{
		reports[i].cause = dv_trouble_throttle_cause(&answer->throttles[i].error);
		reports[i].retry_after = answer->throttles[i].error.retry_after;
	}
	return reports;
}

void
dv_answer_report(const dv_http_call *http, const dv_answer *answer, dv_kind kind,
				 int rows, dv_lease_report *report)
{
	const dv_http_result *result = dv_http_result_of(http);

	memset(report, 0, sizeof(*report));
	report->outcome = outcome_of(http, answer);
	report->duration = result->duration;
	report->measured = dv_http_is_measured(result);
	report->bytes_sent = result->bytes_sent;
	report->bytes_received = result->bytes_received;
	/* the rows of a read are counted when they are read */
	if (answer->error.verdict == DV_VERDICT_OK && kind != DV_KIND_READ)
		report->rows = answer->failed > 0 ? Min(rows, answer->accepted) : rows;
	report->dop_hint = (int) Max(header_number(http, "x-ms-dop-hint"), 0);
	report->remaining[DV_RATION_REQUESTS] =
		header_number(http, "x-ms-ratelimit-burst-remaining-xrm-requests");
	report->remaining[DV_RATION_SECONDS] =
		header_number(http, "x-ms-ratelimit-time-remaining-xrm-requests");
	report->nthrottles = answer->nthrottles;
	report->throttles = report_throttles(answer);
}

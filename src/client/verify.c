/*-------------------------------------------------------------------------
 *
 * verify.c
 *		Verification: finding out which rows of a job exist.
 *
 * Rows are verified when they are in doubt after an attempt to create them,
 * and a later attempt was refused.  If their ids were generated here, rows that
 * exist are ours.  Rows with ids that the user supplied may have existed
 * before; such a row is ours if it was created after it was first sent, by
 * the clock of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "client/job.h"
#include "dataverse/address.h"
#include "dataverse/page.h"
#include "net/date.h"

/* Rows verified by one query. */
#define VERIFY_AT_ONCE 100
/* The service reports whole seconds, and creation times may be slightly early. */
#define CLOCK_SLACK (2 * DV_SECOND)
/* Seconds from 1970 to 2000 */
#define EPOCH_SECONDS INT64CONST(946684800)

/*
 * Returns the column with the real time of creation.  It is createdon, unless
 * the rows set overriddencreatedon, which makes the two change places (see
 * src/dataverse/README.md, State).  The search cannot find the name in a
 * value, where the quotes would be preceded by backslashes.
 */
static const char *
birth_column(const dv_job *job)
{
	return strstr(job->batch->bytes.data, ",\"overriddencreatedon\":\"") != NULL ?
		"overriddencreatedon" : "createdon";
}

static int
verified_now(const dv_job *job)
{
	return Min(job->batch->nrows - job->verified, VERIFY_AT_ONCE);
}

const char *
dv_verify_path(const dv_job *job)
{
	const dv_destination *destination = job->batch->destination;
	StringInfoData s;
	int			i;

	initStringInfo(&s);
	appendStringInfo(&s, "%s?$select=%s", destination->entity_set, destination->primary_id);
	if (!job->spec->ids_made)
		appendStringInfo(&s, ",%s", birth_column(job));
	appendStringInfoString(&s, "&$filter=");
	for (i = 0; i < verified_now(job); i++)
	{
		appendStringInfo(&s, "%s%s%%20eq%%20", i > 0 ? "%20or%20" : "", destination->primary_id);
		dv_append_id(&s, job->batch->rows[job->verified + i].id);
	}
	return s.data;
}

/* Returns the earliest time at which the first attempt can have created a row (a TimestampTz). */
static int64
first_moment(const dv_job *job)
{
	const char *date = dv_call_header(job->call, "Date");
	int64		now = date != NULL ? dv_http_date(date) : -1;

	/* without the date of the answer, no row is considered ours */
	if (now < 0)
		return PG_INT64_MAX;
	return (now - EPOCH_SECONDS) * DV_SECOND - (dv_now() - job->first_sent) - CLOCK_SLACK;
}

static void
note_found(dv_job *job, const dv_value *values)
{
	uint8		id[DV_ID_LEN];
	int64_t		birth;
	int			i;

	if (dv_value_uuid(&values[0], id) != DV_VALUE_OK)
		return;
	if (!job->spec->ids_made &&
		(dv_value_timestamp(&values[1], &birth) != DV_VALUE_OK || birth < first_moment(job)))
		return;
	for (i = 0; i < job->batch->nrows; i++)
		if (memcmp(job->batch->rows[i].id, id, DV_ID_LEN) == 0)
			job->found[i] = true;
}

static bool
read_answer(dv_job *job)
{
	const char *wanted[] = {job->spec->destination.primary_id, birth_column(job)};
	const dv_http_result *result = dv_call_result(job->call);
	dv_names   *names = dv_names_init(palloc(dv_names_size(wanted, 2)), wanted, 2);
	dv_value	values[2];
	dv_page		page;
	dv_page_step step;

	if (job->found == NULL)
		job->found = MemoryContextAllocZero(job->context, job->batch->nrows * sizeof(bool));
	dv_page_open(&page, names, result->body, result->body_len);
	while ((step = dv_page_next(&page, values)) == DV_PAGE_ROW)
		note_found(job, values);
	return step == DV_PAGE_END && page.next_link.kind == DV_VALUE_ABSENT;
}

/* Settles all rows, when each of them has been verified. */
static void
conclude(dv_job *job)
{
	const dv_error **refused = palloc0(sizeof(dv_error *) * job->batch->nrows);
	dv_job	   *rest = NULL;
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		const dv_batch_row *row = &job->batch->rows[i];

		if (job->found[i])
			dv_writer_settle_row(job, row, DV_FATE_ACKNOWLEDGED);
		else if (job->refused_whole)
			rest = dv_job_keep(rest, job, row, DV_ROUTE_CHANGESET);
		else
			refused[i] = &job->refusals[i];
	}
	dv_settle_refusals(job, refused);
	/* the refusal was about one of these rows */
	if (rest != NULL)
	{
		rest->retry = job->retry;
		rest->verifications = job->verifications;
		rest->refusals = NULL;
		dv_batch_seal(rest->batch);
		dv_settle_isolate(rest);
	}
	dv_job_free(job);
}

void
dv_verify_settle(dv_job *job, const dv_error *error)
{
	if (error->verdict != DV_VERDICT_OK)
		dv_writer_fail_job(job, error);
	else if (read_answer(job))
	{
		job->verified += verified_now(job);
		if (job->verified < job->batch->nrows)
			dv_writer_again(job, 0);
		else
			conclude(job);
	}
	else
		dv_settle_unreadable(job);
}

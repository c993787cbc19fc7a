/*
 * search.c
 *		Searches: finding rows whose alternate keys cannot be used as addresses.
 *
 * Some keys cannot be part of an address, or not of one in a request line (see
 * src/dataverse/README.md, Alternate keys).  Before a job with such keys is
 * sent, a query looks for each of these rows.  Those that exist are updated by
 * id.  The others are upserted with an id that was generated when the row was
 * taken, and with the columns of the key as members.
 *
 * Meanwhile another client may create or delete the row.  Then the service
 * refuses the key as a duplicate, or finds no row with the id, and the search is
 * repeated.  Whichever request is lost or repeated, no row is created twice: it
 * has the same id each time, and the service admits one row with its key.
 *
 * The same can happen to a row with any other key when two clients upsert it at
 * the same time, since the service looks for a row and creates it in two steps.
 * Such a row is sent again without a search.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "client/job.h"
#include "dataverse/batch_answer.h"

/*
 * A row is sent at most so many times again after another client has changed its row.
 * The duplicate may also be of another key of the table, and then repeating does not
 * help.
 */
#define TRIES_MAX 3

static bool
is_sought(const dv_job *job, const dv_batch_row *row)
{
	return dv_batch_is_sought(row, job->after_search != DV_ROUTE_BULK);
}

int
dv_search_rows(const dv_job *job)
{
	int			n = 0;
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		n += is_sought(job, &job->batch->rows[i]);
	return n;
}

void
dv_search_before(dv_job *job)
{
	if (job->batch->operation != DV_UPSERT || job->route == DV_ROUTE_SEARCH ||
		job->route == DV_ROUTE_VERIFY)
		return;
	job->after_search = job->route;
	if (dv_search_rows(job) == 0)
		return;
	job->route = DV_ROUTE_SEARCH;
	/* these are other requests, which other users may be allowed to send */
	memset(&job->retry, 0, sizeof(job->retry));
	job->only = 0;
	job->refusals = NULL;
}

void
dv_search_request(const dv_job *job, StringInfo body, const char **content_type)
{
	dv_batch_search(job->batch, job->after_search != DV_ROUTE_BULK, body, content_type);
}

void
dv_search_answers(const dv_job *job, dv_row_answer *answers)
{
	const dv_http_result *result = dv_call_result(job->call);
	int			n = dv_search_rows(job);
	dv_row_answer *found = palloc(sizeof(dv_row_answer) * n);
	int			i;

	/* rows that are missing in a broken answer are marked as such */
	(void) dv_batch_answer_found(dv_call_header(job->call, "Content-Type"), result->body,
								 result->body_len, job->batch->destination->primary_id, n, found);
	for (i = 0; i < job->batch->nrows; i++)
	{
		if (is_sought(job, &job->batch->rows[i]))
			answers[i] = *found++;
		else
		{
			answers[i].told = true;
			answers[i].error.verdict = DV_VERDICT_OK;
		}
	}
}

/* Returns a job for rows that the search has found, or that are sent as they were taken. */
static dv_job *
new_job(const dv_job *from, dv_operation operation, dv_route route)
{
	dv_job	   *job = dv_job_like(from, operation, route);

	job->only = 0;
	if (route == DV_ROUTE_BULK)
		job->route = dv_job_route(job->spec, job->batch);
	return job;
}

static bool
has_id(const dv_batch *batch, const uint8 *id)
{
	int			i;

	for (i = 0; i < batch->nrows; i++)
		if (memcmp(batch->rows[i].id, id, DV_ID_LEN) == 0)
			return true;
	return false;
}

void
dv_search_settle(dv_search *search, const dv_job *job, const dv_batch_row *row,
				 const dv_row_answer *answer)
{
	if (!is_sought(job, row))
	{
		if (search->others == NULL)
			search->others = new_job(job, DV_UPSERT, job->after_search);
		(void) dv_batch_copy_keyed_row(search->others->batch, job->batch, row, NULL);
	}
	else if (!answer->has_id)
	{
		if (search->missing == NULL)
			search->missing = new_job(job, DV_UPSERT, job->after_search);
		(void) dv_batch_copy_keyed_row(search->missing->batch, job->batch, row, row->id);
	}
	else
	{
		if (search->found == NULL)
			search->found = new_job(job, DV_UPDATE, job->after_search);

		/*
		 * More keys may be equal in the collation of the service than the writer knows.  The
		 * service would ignore the second row of a bulk message.
		 */
		if (search->found->route == DV_ROUTE_BULK && has_id(search->found->batch, answer->id))
			search->found->route = DV_ROUTE_SINGLE;
		(void) dv_batch_copy_keyed_row(search->found->batch, job->batch, row, answer->id);
	}
}

bool
dv_search_helps(const dv_batch *batch, const dv_batch_row *row, const dv_error *error, bool missing)
{
	if (!row->by_key || row->tries >= TRIES_MAX)
		return false;
	return missing || (batch->operation == DV_UPSERT && error->meaning == DV_MEANING_DUPLICATE);
}

void
dv_search_again(dv_search *search, const dv_job *job, const dv_batch_row *row)
{
	if (search->again == NULL)
		search->again = new_job(job, DV_UPSERT, job->route);
	dv_batch_copy_keyed_row(search->again->batch, job->batch, row, NULL)->tries++;
}

void
dv_search_queue(dv_search *search)
{
	dv_job	   *jobs[] = {search->others, search->missing, search->found, search->again};
	int			i;

	for (i = 0; i < (int) lengthof(jobs); i++)
		if (jobs[i] != NULL)
			dv_pipeline_queue(jobs[i]);
	memset(search, 0, sizeof(*search));
}

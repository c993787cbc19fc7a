/*
 * verify.c
 *		Verification: finding out which rows of a job exist, and in what
 *		state.
 *
 * Rows are verified when they are in doubt after an attempt to create them, or
 * to update them in a certain version, and a later attempt was refused.  proof.c
 * decides whether a row that exists is ours.  If it cannot decide, the row is
 * not counted as written.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "client/proof.h"
#include "dataverse/odata.h"
#include "dataverse/page.h"

/* The most rows verified by one query; for an elastic table each takes two of 500 conditions. */
#define VERIFY_AT_ONCE 100

/*
 * Names of partitions can be long, so a query may have room for fewer rows, but for at least one.
 */
const char *
dv_verify_path(dv_job *job)
{
	const int	most = DV_ODATA_MAX_URL - (int) strlen(job->spec->destination.root);
	StringInfoData s;
	const char **names;
	int			n;
	int			i;

	initStringInfo(&s);
	names = dv_proof_properties(job, &n);
	appendStringInfo(&s, "%s?$select=%s", job->batch->destination->entity_set, names[0]);
	for (i = 1; i < n; i++)
		if (names[i][0] != '@')
			appendStringInfo(&s, ",%s", names[i]);
	appendStringInfoString(&s, "&$filter=");
	for (i = 0; i < VERIFY_AT_ONCE && job->verified + i < job->batch->nrows; i++)
	{
		int			len = s.len;

		if (i > 0)
			appendStringInfoString(&s, "%20or%20");
		dv_proof_condition(job, &job->batch->rows[job->verified + i], &s);
		if (i > 0 && s.len > most)
		{
			s.data[s.len = len] = '\0';
			break;
		}
	}
	job->asked = i;
	return s.data;
}

static bool
read_answer(dv_job *job)
{
	const dv_http_result *result = dv_call_result(job->call);
	dv_names   *names;
	dv_value   *values;
	dv_page		page;
	dv_page_step step;
	const char **wanted;
	int			n;

	/* an empty answer of another kind would say that no row exists */
	if (result->status != 200)
		return false;
	wanted = dv_proof_properties(job, &n);
	names = dv_names_init(palloc(dv_names_size(wanted, n)), wanted, n);
	if (names == NULL)
		elog(ERROR, "columns of rows to be verified have the same name");
	values = palloc(n * sizeof(dv_value));
	dv_page_open(&page, names, result->body, result->body_len);
	while ((step = dv_page_next(&page, values)) == DV_PAGE_ROW)
		dv_proof_judge(job, values);
	return step == DV_PAGE_END && page.next_link.kind == DV_VALUE_ABSENT;
}

/* Lets the statement fail because of a row that may or may not have been written. */
static void
fail_in_doubt(dv_job *job, const dv_batch_row *row, const dv_error *error)
{
	dv_job	   *lost = dv_job_keep(NULL, job, row, job->route);

	lost->was_in_doubt = true;
	lost->nrows = lost->batch->nrows;
	dv_pipeline_fail_job(lost, error);
}

/* Settles rows that exist and may be ours: they are not counted. */
static void
settle_unclear(dv_job *job, const dv_proof *proofs, const dv_finding *findings)
{
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		const dv_batch_row *row = &job->batch->rows[i];
		dv_error	error;

		if (findings[i] != DV_FINDING_UNCLEAR)
			continue;
		error = dv_proof_doubt(job, &proofs[i]);
		if (job->spec->ignore_duplicates)
			dv_writer_settle_row(job, row, DV_FATE_IGNORED);
		else if (job->spec->go_on)
			dv_pipeline_reject(job, row, &error);
		else
			fail_in_doubt(job, row, &error);
	}
}

/* Sends rows again that were refused together, to find out which of them are at fault. */
static void
isolate(dv_job *rest, const dv_job *job, bool in_doubt)
{
	if (rest == NULL)
		return;
	rest->was_in_doubt = in_doubt;
	rest->retry = job->retry;
	rest->verifications = job->verifications;
	rest->refusals = NULL;
	dv_batch_seal(rest->batch);
	dv_settle_isolate(rest);
}

/* Settles all rows, when each of them has been verified. */
static void
conclude(dv_job *job)
{
	const dv_error **refused = palloc0(sizeof(dv_error *) * job->batch->nrows);
	dv_finding *findings = palloc(sizeof(dv_finding) * job->batch->nrows);
	const dv_proof *proofs = dv_proof_conclude(job);
	dv_job	   *absent = NULL;
	dv_job	   *theirs = NULL;
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		const dv_batch_row *row = &job->batch->rows[i];
		dv_finding	finding = proofs[i].finding;

		/* an earlier row of this job may have turned out to be the existing one */
		if (finding != DV_FINDING_ABSENT && dv_writer_created_twin(job, row))
			finding = DV_FINDING_THEIRS;
		findings[i] = finding;
		if (finding == DV_FINDING_OURS)
			dv_writer_settle_row(job, row, DV_FATE_ACKNOWLEDGED);
		else if (finding == DV_FINDING_UNCLEAR)
			continue;
		/* it was deleted since it was refused */
		else if (finding == DV_FINDING_ABSENT && job->batch->operation == DV_UPDATE)
			dv_writer_settle_row(job, row, DV_FATE_MISSING);
		else if (!job->refused_whole)
			refused[i] = &job->refusals[i];
		else if (finding == DV_FINDING_THEIRS)
			theirs = dv_job_keep(theirs, job, row, DV_ROUTE_CHANGESET);
		else
			absent = dv_job_keep(absent, job, row, DV_ROUTE_CHANGESET);
	}
	/* an attempt to create an absent row may still be carried out */
	isolate(absent, job, true);
	isolate(theirs, job, false);
	/* last, because the callback that files them may raise an error */
	dv_settle_refusals(job, refused);
	settle_unclear(job, proofs, findings);
	dv_job_free(job);
}

void
dv_verify_settle(dv_job *job, const dv_error *error)
{
	if (error->verdict != DV_VERDICT_OK)
		dv_pipeline_fail_job(job, error);
	else if (read_answer(job))
	{
		job->verified += job->asked;
		if (job->verified < job->batch->nrows)
			dv_pipeline_again(job, 0);
		else
			conclude(job);
	}
	else
		dv_settle_unreadable(job);
}

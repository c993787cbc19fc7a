/*-------------------------------------------------------------------------
 *
 * settle.c
 *		What answers mean for the rows of a batch.
 *
 * A bulk message of a standard table is carried out as a whole or not at
 * all, and a refusal does not say which row is at fault.  Then its rows go
 * again, in one $batch: as single requests if good rows are to be written all
 * the same, as one changeset, whose answer names the row, if they are not.
 *
 * Answers that cannot be read, and requests that got none, leave rows in
 * doubt.  They are sent again, the same bytes; if the second request is
 * refused, that may be because the first was not: rows that were to be
 * created are looked for (verify.c) before a refusal is believed.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/trouble.h"
#include "client/job.h"
#include "dataverse/batch_answer.h"
#include "dataverse/payload.h"

/* A late first attempt may still come while its rows are looked for, but not for ever. */
#define VERIFICATIONS_MAX 3

/*
 * What errors say
 */

/* It may succeed in halves; so may what took the service too long or caused a deadlock. */
static bool
says_too_large(const dv_error *error)
{
	return error->meaning == DV_MEANING_TOO_LARGE ||
		(error->verdict == DV_VERDICT_RETRY &&
		 (error->meaning == DV_MEANING_SQL_TIMEOUT || error->meaning == DV_MEANING_DEADLOCK));
}

/* The service has not looked at any row: no answer, no token. */
static bool
is_about_no_row(const dv_error *error)
{
	return error->status == 0 || error->meaning == DV_MEANING_CALLER;
}

/* The row itself is not there; not one that it refers to. */
static bool
says_missing(const dv_error *error, dv_operation operation, const dv_batch_row *row)
{
	char		text[DV_PAYLOAD_UUID];
	const char *at;

	if (error->meaning != DV_MEANING_MISSING)
		return false;
	if (dv_operation_rule_of(operation)->effect == DV_EFFECT_REMOVED)
		return true;
	if (operation != DV_UPDATE || !row->has_id)
		return false;
	(void) dv_payload_uuid(text, row->id);
	for (at = error->message; *at != '\0'; at++)
		if (pg_strncasecmp(at, text, sizeof(text)) == 0)
			return true;
	return error->code[0] == '\0';
}

/*
 * More than one request for the same rows
 */

static void
split(dv_job *job)
{
	dv_job	   *halves[2] = {NULL, NULL};
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		dv_job	  **half = &halves[i >= job->batch->nrows / 2];

		*half = dv_job_keep(*half, job, &job->batch->rows[i], job->route);
	}
	dv_job_free(job);
	dv_writer_queue(halves[1]);
	dv_writer_queue(halves[0]);
}

/* Its rows go one by one, each with all the patience there is. */
static void
send_singly(dv_job *job)
{
	job->route = DV_ROUTE_SINGLE;
	memset(&job->retry, 0, sizeof(job->retry));
	dv_writer_again(job, 0);
}

void
dv_settle_isolate(dv_job *job)
{
	bool		all_or_none = !job->spec->go_on && !job->spec->ignore_duplicates;

	job->isolating = all_or_none;
	/* a changeset of an elastic table is not carried out as a whole */
	if (!all_or_none || job->batch->destination->type == DV_TABLE_ELASTIC)
		send_singly(job);
	else
	{
		job->route = DV_ROUTE_CHANGESET;
		dv_writer_again(job, 0);
	}
}

static const dv_error not_whole = {
	.verdict = DV_VERDICT_RETRY,
	.meaning = DV_MEANING_SERVER,
	.outcome_unknown = true,
	.retry_after = -1,
	.code = "",
	.message = "an answer of Dataverse is not whole",
	.sqlstate = ERRCODE_FDW_UNABLE_TO_CREATE_REPLY,
};

/* For a job, or for rows of it. */
static dv_retry_decision
decide(const dv_job *job, dv_retry *retry, const dv_error *error, bool repeatable)
{
	dv_attempt	attempt = {
		.user = dv_call_user(job->call),
		.number = dv_call_attempts(job->call),
		.sent_at = job->started_at,
		.repeatable = repeatable,
		.part = true,
	};

	return dv_trouble_decide(job->spec->session, retry, error, &attempt);
}

/* The answer makes no sense: the rows may be written or not. */
void
dv_settle_unreadable(dv_job *job)
{
	dv_retry_decision decision = decide(job, &job->retry, &not_whole,
										dv_job_is_repeatable(job));

	job->was_in_doubt = true;
	if (decision.next == DV_NEXT_AGAIN)
		dv_writer_again(job, decision.delay);
	else
		dv_writer_fail_job(job, &not_whole);
}

/*
 * Bulk messages
 */

static void
acknowledge_all(dv_job *job)
{
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		dv_writer_settle_row(job, &job->batch->rows[i], DV_FATE_ACKNOWLEDGED);
	dv_job_free(job);
}

/* There is nothing to read.  A page of some proxy is no answer, whatever its status. */
static bool
says_nothing(const dv_call *call)
{
	const char *type = dv_call_header(call, "Content-Type");

	return dv_call_result(call)->body_len == 0 ||
		(type != NULL && pg_strncasecmp(type, "application/json", 16) == 0);
}

/* The service has made it. */
static void
learn_id(dv_batch_row *row, const uint8 *id)
{
	row->has_id = true;
	memcpy(row->id, id, DV_ID_LEN);
}

static void
settle_bulk_success(dv_job *job)
{
	const dv_http_result *result = dv_call_result(job->call);
	dv_batch   *batch = job->batch;
	uint8		(*ids)[DV_ID_LEN];
	int			i;

	if (batch->operation == DV_CREATE)
	{
		ids = MemoryContextAlloc(job->context, DV_ID_LEN * batch->nrows);
		if (!dv_batch_answer_ids(result->body, result->body_len, batch->nrows, ids))
		{
			dv_settle_unreadable(job);
			return;
		}
		for (i = 0; i < batch->nrows; i++)
			if (batch->rows[i].has_id && memcmp(ids[i], batch->rows[i].id, DV_ID_LEN) != 0)
			{
				dv_settle_unreadable(job);
				return;
			}
		/* an update may have to follow */
		for (i = 0; i < batch->nrows; i++)
			learn_id(&batch->rows[i], ids[i]);
		dv_writer_note_id(job->writer, ids[batch->nrows - 1]);
	}
	else if (!says_nothing(job->call))
	{
		dv_settle_unreadable(job);
		return;
	}
	acknowledge_all(job);
}

/* The row is there already, and that is to be ignored. */
static bool
is_ignored(const dv_job *job, const dv_error *error)
{
	return job->spec->ignore_duplicates && error->meaning == DV_MEANING_DUPLICATE &&
		dv_operation_rule_of(job->batch->operation)->effect == DV_EFFECT_MADE;
}

/* Rows that were refused without a reason are sent once more, singly: then it is told. */
void
dv_settle_refusals(dv_job *job, const dv_error *const *errors)
{
	dv_job	   *why = NULL;
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		if (errors[i] != NULL && errors[i]->vague && !is_ignored(job, errors[i]))
			why = dv_job_keep(why, job, &job->batch->rows[i], DV_ROUTE_SINGLE);
	if (why != NULL)
		dv_writer_queue(why);
	for (i = 0; i < job->batch->nrows; i++)
	{
		const dv_batch_row *row = &job->batch->rows[i];

		if (errors[i] == NULL)
			continue;
		if (is_ignored(job, errors[i]))
			dv_writer_settle_row(job, row, DV_FATE_IGNORED);
		else if (!errors[i]->vague)
			dv_writer_reject(job, row, errors[i]);
	}
}

/* The whole was refused: notes that as every row's refusal, and looks for the rows. */
static void
verify_all(dv_job *job, const dv_error *error)
{
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		dv_verify_note_refusal(job, i, error);
	job->refused_whole = true;
	job->route = DV_ROUTE_VERIFY;
	dv_writer_again(job, 0);
}

/*
 * Rows one by one
 */

/* Rows of a job being sorted by what was answered to them. */
typedef struct sorting
{
	dv_job	   *job;
	const dv_row_answer *answers;
	dv_job	   *again;			/* to be sent once more */
	dv_job	   *to_verify;		/* to be looked for */
	const dv_error **refused;	/* for good: why */
	dv_job	   *lost;			/* in doubt, and they cannot be sent again */
	const dv_error *lost_error;
} sorting;

/* The outcome is unknown, or the service was busy.  False: that was the last attempt. */
static bool
send_again(sorting *s, const dv_batch_row *row, const dv_error *error)
{
	dv_retry	retry = s->job->retry;
	dv_retry_decision decision = decide(s->job, &retry, error,
										s->job->batch->operation != DV_CREATE || row->has_id);

	if (decision.next != DV_NEXT_AGAIN)
		return false;
	s->again = dv_job_keep(s->again, s->job, row, s->job->route);
	s->again->was_in_doubt |= error->outcome_unknown;
	s->again->not_before = Max(s->again->not_before, dv_now() + decision.delay);
	dv_retry_join(&s->again->retry, &retry);
	return true;
}

/* The same id was given twice: the row that is there is the first one. */
static bool
has_elder_twin(const sorting *s, const dv_batch_row *row)
{
	const dv_batch_row *rows = s->job->batch->rows;
	int			i;

	for (i = 0; !s->job->spec->ids_made && &rows[i] < row; i++)
		if (memcmp(rows[i].id, row->id, DV_ID_LEN) == 0 && rows[i].has_id && s->answers[i].told &&
			(s->answers[i].error.verdict == DV_VERDICT_OK ||
			 s->answers[i].error.meaning == DV_MEANING_DUPLICATE))
			return true;
	return false;
}

/* A refusal of what may have been done already. */
static bool
settle_in_doubt(sorting *s, const dv_batch_row *row, const dv_error *error)
{
	dv_batch   *batch = s->job->batch;
	bool		is_done = false;

	switch (batch->operation)
	{
		case DV_DELETE:
		case DV_DISASSOCIATE:
			is_done = says_missing(error, batch->operation, row);
			break;
		case DV_ASSOCIATE:
			is_done = error->meaning == DV_MEANING_DUPLICATE;
			break;
		case DV_CREATE:
			/* elastic tables have no other key: an id made here is taken by its own row */
			is_done = batch->destination->type == DV_TABLE_ELASTIC && s->job->spec->ids_made &&
				error->meaning == DV_MEANING_DUPLICATE;
			if (is_done || !row->has_id || has_elder_twin(s, row))
				break;
			s->to_verify = dv_job_keep(s->to_verify, s->job, row, DV_ROUTE_VERIFY);
			dv_verify_note_refusal(s->to_verify, s->to_verify->batch->nrows - 1, error);
			return true;
		default:
			break;
	}
	if (is_done)
		dv_writer_settle_row(s->job, row, DV_FATE_ACKNOWLEDGED);
	return is_done;
}

static void
settle_refusal(sorting *s, const dv_batch_row *row, const dv_error *error)
{
	if (s->job->was_in_doubt && settle_in_doubt(s, row, error))
		return;
	if (says_missing(error, s->job->batch->operation, row))
		dv_writer_settle_row(s->job, row, DV_FATE_MISSING);
	else
		s->refused[row - s->job->batch->rows] = error;
}

static void
settle_row(sorting *s, dv_batch_row *row, const dv_row_answer *answer)
{
	static const dv_row_answer untold = {0};
	const dv_error *error;

	/* no update can follow a row whose id is not told */
	if (row->then_len > 0 && !row->has_id && !answer->has_id && answer->told &&
		answer->error.verdict == DV_VERDICT_OK)
		answer = &untold;
	error = answer->told ? &answer->error : &not_whole;
	if (error->verdict == DV_VERDICT_OK)
	{
		if (answer->has_id && s->job->batch->operation == DV_CREATE)
		{
			if (!row->has_id)
				learn_id(row, answer->id);
			dv_writer_note_id(s->job->writer, answer->id);
		}
		dv_writer_settle_row(s->job, row, DV_FATE_ACKNOWLEDGED);
	}
	else if (error->verdict == DV_VERDICT_REFUSED || error->verdict == DV_VERDICT_AUTH)
		settle_refusal(s, row, error);
	else if (send_again(s, row, error))
		 /* nothing more to say */ ;
	else if (error->outcome_unknown)
	{
		s->lost = dv_job_keep(s->lost, s->job, row, s->job->route);
		s->lost_error = error;
	}
	else
		s->refused[row - s->job->batch->rows] = error;
}

static void
settle_rows(dv_job *job, const dv_row_answer *answers)
{
	sorting		s = {.job = job, .answers = answers};
	int			i;

	s.refused = palloc0(sizeof(dv_error *) * job->batch->nrows);
	for (i = 0; i < job->batch->nrows; i++)
		settle_row(&s, &job->batch->rows[i], &answers[i]);
	if (s.to_verify != NULL)
		dv_writer_queue(s.to_verify);
	if (s.again != NULL)
		dv_writer_queue(s.again);
	/* last, because the callback that files them may raise: all others are accounted for */
	dv_settle_refusals(job, s.refused);
	if (s.lost != NULL)
	{
		s.lost->was_in_doubt = true;
		s.lost->nrows = s.lost->batch->nrows;
		dv_writer_fail_job(s.lost, s.lost_error);
	}
	dv_job_free(job);
}

static dv_row_answer *
new_answers(const dv_job *job)
{
	return palloc0(sizeof(dv_row_answer) * job->batch->nrows);
}

/* The whole was refused, and that is the answer to its only row. */
static void
settle_only_row(dv_job *job, const dv_error *error)
{
	dv_row_answer answer = {.told = true, .status = error->status, .error = *error};

	settle_rows(job, &answer);
}

/* Some rows of an elastic table were written, others were not. */
static void
settle_details(dv_job *job, const dv_error *error)
{
	dv_row_answer *answers = new_answers(job);

	if (dv_batch_answer_details(error, job->batch->nrows, answers))
		settle_rows(job, answers);
	else
		dv_settle_unreadable(job);
}

static void
settle_bulk_refusal(dv_job *job, const dv_error *error)
{
	dv_batch   *batch = job->batch;

	if (error->meaning == DV_MEANING_NO_BULK)
	{
		dv_job_learn_no_bulk(job);
		send_singly(job);
		return;
	}
	/* which rows of an elastic table were written all the same, it does not say */
	if (batch->nrows > 1 && batch->destination->type == DV_TABLE_ELASTIC)
		job->was_in_doubt = true;
	if (batch->nrows > 1 && says_too_large(error))
		split(job);
	else if (batch->nrows == 1)
		settle_only_row(job, error);
	else if (job->was_in_doubt && batch->operation == DV_CREATE)
		verify_all(job, error);
	else
		dv_settle_isolate(job);
}

/* The answer says nothing about rows: the request failed as a whole, or its outcome is unknown. */
static void
settle_no_answer(dv_job *job, const dv_error *error)
{
	if (job->batch->nrows > 1 && says_too_large(error))
		split(job);
	else if (job->batch->nrows == 1 && !error->outcome_unknown && !job->was_in_doubt &&
			 job->spec->go_on && error->verdict == DV_VERDICT_RETRY && error->status != 0)
	{
		dv_writer_reject(job, &job->batch->rows[0], error);
		dv_job_free(job);
	}
	else
		dv_writer_fail_job(job, error);
}

static void
settle_bulk(dv_job *job, const dv_error *error)
{
	if (error->verdict == DV_VERDICT_OK)
		settle_bulk_success(job);
	else if (error->details != NULL)
		settle_details(job, error);
	else if (error->verdict == DV_VERDICT_REFUSED && !is_about_no_row(error))
		settle_bulk_refusal(job, error);
	else
		settle_no_answer(job, error);
}

/*
 * Parts of a $batch
 */

static void
settle_parts(dv_job *job, const dv_error *error)
{
	const dv_http_result *result = dv_call_result(job->call);
	dv_row_answer *answers;

	if (error->verdict == DV_VERDICT_REFUSED && job->batch->nrows > 1 && says_too_large(error))
		split(job);
	else if (error->verdict != DV_VERDICT_OK)
		settle_no_answer(job, error);
	else
	{
		answers = new_answers(job);
		/* what is missing at the end is not told: that is all there is to know of a broken one */
		(void) dv_batch_answer_parts(dv_call_header(job->call, "Content-Type"), result->body,
									 result->body_len, job->batch->nrows, answers);
		settle_rows(job, answers);
	}
}

/* None was carried out, and this row is why; the others are not to be blamed. */
static void
blame(dv_job *job, int failed, const dv_error *error)
{
	dv_batch   *batch = job->batch;

	if (error->verdict == DV_VERDICT_REFUSED && job->was_in_doubt &&
		batch->operation == DV_CREATE && job->verifications++ < VERIFICATIONS_MAX)
		verify_all(job, error);
	else if (error->verdict != DV_VERDICT_REFUSED || failed >= batch->nrows)
		dv_writer_fail_job(job, error);
	else if (says_missing(error, batch->operation, &batch->rows[failed]))
		/* rows that are not there do no harm: the rest is written one by one */
		send_singly(job);
	else
	{
		dv_writer_reject(job, &batch->rows[failed], error);
		/* the statement has failed: the rest was not written now, and will not be */
		job->nrows--;
		dv_writer_give_up(job);
	}
}

static void
settle_changeset(dv_job *job, const dv_error *error)
{
	const dv_http_result *result = dv_call_result(job->call);
	dv_row_answer *answers;
	int			failed;

	if (error->verdict != DV_VERDICT_OK)
	{
		settle_no_answer(job, error);
		return;
	}
	answers = new_answers(job);
	if (!dv_batch_answer_changeset(dv_call_header(job->call, "Content-Type"), result->body,
								   result->body_len, job->batch->nrows, answers, &failed))
		dv_settle_unreadable(job);
	else if (failed < 0)
		settle_rows(job, answers);
	else
	{
		const dv_error *reason = &answers[failed < job->batch->nrows ? failed : 0].error;
		dv_retry_decision decision = decide(job, &job->retry, reason, true);

		/* the request was carried out, and that changed nothing */
		job->in_doubt = false;
		if (reason->verdict != DV_VERDICT_AUTH && decision.next == DV_NEXT_AGAIN)
		{
			job->was_in_doubt |= reason->outcome_unknown;
			dv_writer_again(job, decision.delay);
		}
		else
			blame(job, failed, reason);
	}
}

void
dv_settle_job(dv_job *job)
{
	const dv_error *error = dv_call_error(job->call);

	job->was_in_doubt |= dv_call_was_unknown(job->call) && job->route != DV_ROUTE_VERIFY;
	switch (job->route)
	{
		case DV_ROUTE_BULK:
			settle_bulk(job, error);
			break;
		case DV_ROUTE_SINGLE:
			settle_parts(job, error);
			break;
		case DV_ROUTE_CHANGESET:
			settle_changeset(job, error);
			break;
		case DV_ROUTE_VERIFY:
			dv_verify_settle(job, error);
			break;
	}
}

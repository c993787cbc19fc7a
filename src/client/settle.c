/*
 * settle.c
 *		Settling: deciding the fate of each row from the answer to its job.
 *
 * A bulk message of a standard table is carried out as a whole or not at all,
 * and a refusal does not say which row is at fault.  The rows are then sent
 * again in one $batch: as single requests if the good rows are to be written
 * nevertheless, otherwise as one change set, whose answer identifies the row.
 * A change set that keeps failing for transient causes is sent as single
 * requests after all.
 *
 * Answers that are missing or cannot be read leave rows in doubt.  The same
 * bytes are sent again.  If the second request is refused, the reason may be
 * that the first one was carried out.  Therefore rows to be created are
 * verified (verify.c) before a refusal is believed, and so are rows to be
 * updated that no longer have the expected version.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/job.h"
#include "client/trouble.h"
#include "dataverse/batch_answer.h"
#include "dataverse/payload.h"

/*
 * How often the rows of a refused change set are verified.  A late first
 * attempt may be carried out after a verification, but not repeatedly.
 */
#define VERIFICATIONS_MAX 3

/*
 * What errors say
 */

/* Returns true if the error names the id of the row. */
static bool
names(const dv_error *error, const dv_batch_row *row)
{
	char		text[DV_PAYLOAD_UUID];
	const char *at;

	if (!row->has_id)
		return false;
	(void) dv_payload_uuid(text, row->id);
	for (at = error->message; *at != '\0'; at++)
		if (pg_strncasecmp(at, text, sizeof(text)) == 0)
			return true;
	return false;
}

/* Returns true if the row itself does not exist, as opposed to one that it refers to. */
static bool
says_missing(const dv_error *error, dv_operation operation, const dv_batch_row *row)
{
	/* with another status, the code is about a row that a plug-in looked for */
	if (error->meaning != DV_MEANING_MISSING || error->status != 404)
		return false;
	if (dv_operation_rule_of(operation)->effect == DV_EFFECT_REMOVED)
		return true;
	if (operation != DV_UPDATE || !row->has_id)
		return false;
	return names(error, row) || error->code[0] == '\0';
}

/*
 * Returns true if the refusal of a bulk message may mean that the table does
 * not have the message, although it has no code for this.  A refusal that is
 * about a row has a known code, or names the row.
 */
static bool
may_lack_message(const dv_job *job, const dv_error *error)
{
	int			i;

	if (error->known || (error->status != 400 && error->status != 404 && error->status != 405 &&
						 error->status != 501))
		return false;
	for (i = 0; i < job->batch->nrows; i++)
		if (names(error, &job->batch->rows[i]))
			return false;
	return true;
}

/*
 * Sending rows again in another way
 */

/* Sends the rows in two smaller requests, which inherit the history of the job. */
static void
split(dv_job *job)
{
	dlist_head	halves;

	dlist_init(&halves);
	dv_job_split(job, (job->batch->nrows + 1) / 2, &halves);
	while (!dlist_is_empty(&halves))
	{
		dv_job	   *half = dlist_container(dv_job, node, dlist_tail_node(&halves));

		dlist_delete(&half->node);
		dv_pipeline_queue(half);
	}
}

/* Sends a job in halves if its $batch had too many parts; otherwise returns false. */
static bool
split_if_long(dv_job *job, const dv_error *error)
{
	if (error->meaning != DV_MEANING_MANY_PARTS || job->batch->nrows == 1)
		return false;
	dv_job_length_refused(job, error);
	split(job);
	return true;
}

/* Sends the rows of a job in another way, for which all retries start over. */
static void
reroute(dv_job *job, dv_route route)
{
	if (job->route != route)
		memset(&job->retry, 0, sizeof(job->retry));
	job->route = route;
	dv_pipeline_again(job, 0);
}

void
dv_settle_isolate(dv_job *job)
{
	bool		all_or_none = !job->spec->go_on && !job->spec->ignore_duplicates;

	job->isolating = all_or_none;
	/* a change set of an elastic table is not carried out as a whole */
	if (!all_or_none || job->batch->destination->type == DV_TABLE_ELASTIC)
		reroute(job, DV_ROUTE_SINGLE);
	else
		reroute(job, DV_ROUTE_CHANGESET);
}

static const dv_error incomplete = {
	.verdict = DV_VERDICT_RETRY,
	.meaning = DV_MEANING_SERVER,
	.outcome_unknown = true,
	.retry_after = -1,
	.code = "",
	.message = "an answer from Dataverse was incomplete",
	.sqlstate = ERRCODE_FDW_UNABLE_TO_CREATE_REPLY,
};

/* Sending such rows again would create them under further ids. */
static const dv_error renamed = {
	.verdict = DV_VERDICT_REFUSED,
	.retry_after = -1,
	.code = "",
	.message = "Dataverse created a row with an id other than the one it was given",
	.sqlstate = ERRCODE_FDW_UNABLE_TO_CREATE_REPLY,
};

/* Decides whether a job, or a row of it, is sent again. */
static dv_retry_decision
decide(const dv_job *job, dv_retry *retry, const dv_error *error, bool repeatable, bool counted)
{
	dv_attempt	attempt = {
		.user = dv_call_user(job->call),
		.sent_at = dv_call_sent_at(job->call),
		.repeatable = repeatable,
		.pool_told = dv_call_told_pool(job->call),
		.counted = counted,
	};

	return dv_trouble_decide(job->spec->session, retry, error, &attempt);
}

void
dv_settle_unreadable(dv_job *job)
{
	dv_retry_decision decision = decide(job, &job->retry, &incomplete,
										dv_job_is_repeatable(job), false);

	job->was_in_doubt |= dv_job_writes(job);
	if (decision.next == DV_NEXT_AGAIN)
		dv_pipeline_again(job, decision.delay);
	else
		dv_pipeline_fail_job(job, &incomplete);
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

/*
 * Returns true if the answer to a bulk message that returns nothing looks like one
 * of the service.  A page from a proxy is not an answer, whatever its status.
 */
static bool
is_plain_success(const dv_call *call)
{
	const char *type = dv_call_header(call, "Content-Type");

	return dv_call_result(call)->body_len == 0 ||
		(type != NULL && pg_strncasecmp(type, "application/json", 16) == 0);
}

/* Notes the id that the service has generated. */
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
				job->was_in_doubt = true;
				dv_pipeline_fail_job(job, &renamed);
				return;
			}
		/* an update that follows needs the id, and so does the row's owner */
		for (i = 0; i < batch->nrows; i++)
			learn_id(&batch->rows[i], ids[i]);
	}
	else if (!is_plain_success(job->call))
	{
		dv_settle_unreadable(job);
		return;
	}
	acknowledge_all(job);
}

/* Returns true if the row was refused because it exists, and duplicates are ignored. */
static bool
is_ignored(const dv_job *job, const dv_error *error)
{
	return job->spec->ignore_duplicates && error->meaning == DV_MEANING_DUPLICATE &&
		dv_operation_rule_of(job->batch->operation)->effect == DV_EFFECT_MADE;
}

/* Sends rows without an individual reason for their refusal once more, singly, to learn it. */
void
dv_settle_refusals(dv_job *job, const dv_error *const *errors)
{
	dv_job	   *why = NULL;
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		if (errors[i] != NULL && errors[i]->vague && !is_ignored(job, errors[i]))
			why = dv_job_keep(why, job, &job->batch->rows[i], DV_ROUTE_SINGLE);
	if (why != NULL)
		dv_pipeline_queue(why);
	for (i = 0; i < job->batch->nrows; i++)
	{
		const dv_batch_row *row = &job->batch->rows[i];

		if (errors[i] == NULL)
			continue;
		if (is_ignored(job, errors[i]))
			dv_writer_settle_row(job, row, DV_FATE_IGNORED);
		else if (!errors[i]->vague)
			dv_pipeline_reject(job, row, errors[i]);
	}
}

/* Notes the refusal of a job as the refusal of each row, and verifies the rows. */
static void
verify_all(dv_job *job, const dv_error *error)
{
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		dv_job_note_refusal(job, i, error);
	job->refused_whole = true;
	job->route = DV_ROUTE_VERIFY;
	dv_pipeline_again(job, 0);
}

/*
 * Settling rows one by one
 */

/* The rows of a job, sorted by their answers. */
typedef struct sorting
{
	dv_job	   *job;
	const dv_row_answer *answers;
	dlist_head	again;			/* rows to be sent once more: one job for all that have been
								 * repeated equally often */
	dv_job	   *for_others;		/* rows to be sent by other users */
	dv_job	   *to_verify;		/* rows to be verified */
	dv_search	search;			/* rows that were looked for, or must be looked for again */
	const dv_error **refused;	/* the error of each row that was refused, otherwise NULL */
	dv_job	   *lost;			/* rows in doubt that cannot be sent again */
	const dv_error *lost_error;
} sorting;

/*
 * Copies a row into the job that is sent again with this history.  Rows whose
 * histories differ are sent separately, so that no row uses up the retries of
 * another or waits for its backoff.
 */
static dv_job *
keep_for_again(sorting *s, const dv_batch_row *row, const dv_retry *retry)
{
	dv_job	   *job;
	dlist_iter	iter;

	dlist_foreach(iter, &s->again)
	{
		job = dlist_container(dv_job, node, iter.cur);
		if (dv_retry_join(&job->retry, retry))
			return dv_job_keep(job, s->job, row, s->job->route);
	}
	job = dv_job_keep(NULL, s->job, row, s->job->route);
	job->retry = *retry;
	dlist_push_tail(&s->again, &job->node);
	return job;
}

/*
 * Sends a row again whose outcome is unknown, or for which the service was too
 * busy.  Returns false if no attempts are left.
 */
static bool
send_again(sorting *s, const dv_batch_row *row, const dv_error *error)
{
	dv_retry	retry = s->job->retry;

	/* each part is a request of its own, but the rows of a bulk message are not */
	bool		counted = s->job->route == DV_ROUTE_BULK && !dlist_is_empty(&s->again);
	dv_retry_decision decision = decide(s->job, &retry, error,
										s->job->batch->operation != DV_CREATE || row->has_id,
										counted);
	dv_job	   *again;

	if (decision.next != DV_NEXT_AGAIN)
		return false;
	again = keep_for_again(s, row, &retry);
	again->was_in_doubt |= error->outcome_unknown && dv_job_writes(s->job);
	again->not_before = Max(again->not_before, dv_now() + decision.delay);
	return true;
}

/*
 * Lets another user send a row that was refused because of the user.  A row is
 * rejected only when all users were refused.
 */
static bool
pass_on(sorting *s, const dv_batch_row *row, const dv_error *error)
{
	uint64		others = dv_call_others(s->job->call, error);

	if (others == 0)
		return false;
	s->for_others = dv_job_keep(s->for_others, s->job, row, s->job->route);
	s->for_others->only = others;
	dv_job_note_refusal(s->for_others, s->for_others->batch->nrows - 1, error);
	return true;
}

/*
 * Returns true if an earlier row has the same id (and partition), so that this is the row that
 * exists.
 */
static bool
has_elder_twin(const sorting *s, const dv_batch_row *row)
{
	const dv_batch_row *rows = s->job->batch->rows;
	int			i;

	for (i = 0; row->key != 0 && &rows[i] < row; i++)
		if (rows[i].key == row->key && s->answers[i].told &&
			(s->answers[i].error.verdict == DV_VERDICT_OK ||
			 s->answers[i].error.meaning == DV_MEANING_DUPLICATE))
			return true;
	return false;
}

/* Lets a row be verified before its refusal is believed. */
static void
keep_to_verify(sorting *s, const dv_batch_row *row, const dv_error *error)
{
	s->to_verify = dv_job_keep(s->to_verify, s->job, row, DV_ROUTE_VERIFY);
	dv_job_note_refusal(s->to_verify, s->to_verify->batch->nrows - 1, error);
}

/* Settles a row that was refused, if the reason may be that it has already been written. */
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

			/*
			 * elastic tables have no other key, and only this row can have an id that we have
			 * generated
			 */
			is_done = batch->destination->type == DV_TABLE_ELASTIC && s->job->spec->ids_made &&
				error->meaning == DV_MEANING_DUPLICATE;
			if (is_done || !row->has_id || has_elder_twin(s, row))
				break;
			keep_to_verify(s, row, error);
			return true;
		case DV_UPDATE:
			/* whatever the code is, the condition of the request does not hold */
			if (!batch->destination->match_version || error->status != 412)
				break;
			keep_to_verify(s, row, error);
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
	bool		missing;

	if (pass_on(s, row, error))
		return;
	if (s->job->was_in_doubt && settle_in_doubt(s, row, error))
		return;
	missing = says_missing(error, s->job->batch->operation, row);
	if (dv_search_helps(s->job->batch, row, error, missing))
		dv_search_again(&s->search, s->job, row);
	else if (missing)
		dv_writer_settle_row(s->job, row, DV_FATE_MISSING);
	else
		s->refused[row - s->job->batch->rows] = error;
}

/* Keeps a row whose outcome will remain unknown. */
static void
lose(sorting *s, const dv_batch_row *row, const dv_error *error)
{
	s->lost = dv_job_keep(s->lost, s->job, row, s->job->route);
	s->lost_error = error;
}

/* Returns true if the answer says that the row has another id than the one it was given. */
static bool
is_renamed(const dv_job *job, const dv_batch_row *row, const dv_row_answer *answer)
{
	/* the ids in the details of an error are not those under which rows were stored */
	return job->route != DV_ROUTE_BULK && job->batch->operation == DV_CREATE && answer->told &&
		answer->error.verdict == DV_VERDICT_OK && answer->has_id && row->has_id &&
		memcmp(answer->id, row->id, DV_ID_LEN) != 0;
}

static void
settle_row(sorting *s, dv_batch_row *row, const dv_row_answer *answer)
{
	static const dv_row_answer untold = {0};
	const dv_error *error;

	/* no update can follow a row whose id is not in the answer */
	if (row->then_len > 0 && !row->has_id && !answer->has_id && answer->told &&
		answer->error.verdict == DV_VERDICT_OK)
		answer = &untold;
	error = answer->told ? &answer->error : &incomplete;
	if (error->verdict == DV_VERDICT_OK && s->job->route == DV_ROUTE_SEARCH)
		dv_search_settle(&s->search, s->job, row, answer);
	else if (is_renamed(s->job, row, answer))
		lose(s, row, &renamed);
	else if (error->verdict == DV_VERDICT_OK)
	{
		if (answer->has_id && !row->has_id && s->job->batch->operation == DV_CREATE)
			learn_id(row, answer->id);
		dv_writer_settle_row(s->job, row, DV_FATE_ACKNOWLEDGED);
	}
	else if (error->verdict == DV_VERDICT_REFUSED || error->verdict == DV_VERDICT_AUTH)
		settle_refusal(s, row, error);
	else if (send_again(s, row, error))
		 /* it will be settled later */ ;
	else if (error->outcome_unknown)
		lose(s, row, error);
	else
		s->refused[row - s->job->batch->rows] = error;
}

static bool
is_written_whole(const dv_job *job, const dv_row_answer *answers)
{
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		if (!answers[i].told || answers[i].error.verdict != DV_VERDICT_OK)
			return false;
	return true;
}

static void
settle_rows(dv_job *job, const dv_row_answer *answers)
{
	sorting		s = {.job = job, .answers = answers};
	dlist_mutable_iter iter;
	bool		acknowledged = false;
	int			i;

	if (job->suspicion != NULL && is_written_whole(job, answers))
		dv_job_bulk_refused(job, job->suspicion);
	dlist_init(&s.again);
	s.refused = palloc0(sizeof(dv_error *) * job->batch->nrows);
	for (i = 0; i < job->batch->nrows; i++)
		/* rows that were not looked for have no status */
		acknowledged |= answers[i].status != 0 && answers[i].error.verdict == DV_VERDICT_OK;
	/* first, because it counts for the other rows, which may have been throttled */
	if (acknowledged)
		dv_call_served(job->call);
	for (i = 0; i < job->batch->nrows; i++)
		settle_row(&s, &job->batch->rows[i], &answers[i]);
	if (s.to_verify != NULL)
		dv_pipeline_queue(s.to_verify);
	dv_search_queue(&s.search);
	dlist_foreach_modify(iter, &s.again)
	{
		dlist_delete(iter.cur);
		dv_pipeline_queue(dlist_container(dv_job, node, iter.cur));
	}
	if (s.for_others != NULL)
		dv_pipeline_queue(s.for_others);
	else if (acknowledged)
		dv_call_proved(job->call);
	/* last, because the callback that files them may raise an error */
	dv_settle_refusals(job, s.refused);
	if (s.lost != NULL)
	{
		s.lost->was_in_doubt |= dv_job_writes(job);
		s.lost->nrows = s.lost->batch->nrows;
		dv_pipeline_fail_job(s.lost, s.lost_error);
	}
	dv_job_free(job);
}

static dv_row_answer *
new_answers(const dv_job *job)
{
	return palloc0(sizeof(dv_row_answer) * job->batch->nrows);
}

/* Notes in the errors of rows which user sent them, and how often they were sent. */
static void
sign(const dv_job *job, dv_row_answer *answers)
{
	const dv_error *whole = dv_call_error(job->call);
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		answers[i].error.user = whole->user;
		answers[i].error.attempts = whole->attempts;
	}
}

/* Takes the refusal of a job as the answer to its only row. */
static void
settle_only_row(dv_job *job, const dv_error *error)
{
	dv_row_answer answer = {.told = true, .status = error->status, .error = *error};

	settle_rows(job, &answer);
}

/* Settles a job if some rows were written and others were not (elastic tables). */
static void
settle_details(dv_job *job, const dv_error *error)
{
	dv_row_answer *answers = new_answers(job);

	if (dv_batch_answer_details(error, job->batch->nrows, answers))
	{
		sign(job, answers);
		settle_rows(job, answers);
	}
	else
		dv_settle_unreadable(job);
}

static void
note_suspicion(dv_job *job, const dv_error *error)
{
	MemoryContext old = MemoryContextSwitchTo(job->context);

	job->suspicion = palloc0(sizeof(dv_error));
	dv_trouble_copy(job->suspicion, error);
	MemoryContextSwitchTo(old);
}

static void
settle_bulk_refusal(dv_job *job, const dv_error *error)
{
	dv_batch   *batch = job->batch;

	if (error->meaning == DV_MEANING_NO_BULK)
	{
		dv_job_bulk_refused(job, error);
		reroute(job, DV_ROUTE_SINGLE);
		return;
	}
	/* if the plain requests succeed for all rows, the table does not have the message */
	if (may_lack_message(job, error))
		note_suspicion(job, error);
	/* for an elastic table, some rows may have been written nevertheless */
	if (batch->nrows > 1 && batch->destination->type == DV_TABLE_ELASTIC)
		job->was_in_doubt = true;
	if (batch->nrows > 1 && dv_error_asks_for_less(error))
		split(job);
	else if (batch->nrows == 1 && job->suspicion != NULL && error->status != 400)
		reroute(job, DV_ROUTE_SINGLE);
	else if (batch->nrows == 1)
		settle_only_row(job, error);
	else if (job->was_in_doubt && batch->operation == DV_CREATE)
	{
		memset(&job->retry, 0, sizeof(job->retry));
		verify_all(job, error);
	}
	else
		dv_settle_isolate(job);
}

/* Settles a change set that was not carried out because of one row. */
static void
blame(dv_job *job, int failed, const dv_error *error)
{
	dv_batch   *batch = job->batch;
	bool		missing = failed < batch->nrows &&
	says_missing(error, batch->operation, &batch->rows[failed]);

	if (error->verdict == DV_VERDICT_REFUSED && job->was_in_doubt &&
		batch->operation == DV_CREATE && job->verifications++ < VERIFICATIONS_MAX)
		verify_all(job, error);
	else if (error->verdict != DV_VERDICT_REFUSED || failed >= batch->nrows)
		dv_pipeline_fail_job(job, error);
	else if (missing || dv_search_helps(batch, &batch->rows[failed], error, missing))
		/* such rows are no errors, so the others are written one by one */
		reroute(job, DV_ROUTE_SINGLE);
	else
	{
		dv_pipeline_reject(job, &batch->rows[failed], error);
		/* the statement has failed, so the other rows are not sent again */
		job->nrows--;
		dv_pipeline_give_up(job);
	}
}

/*
 * Settles rows that were refused because of the user when no other user can be
 * asked: each row's refusal stands.  Returns false if there are no such rows.
 */
static bool
settle_by_refusals(dv_job *job)
{
	sorting		s = {.job = job};
	int			i;

	if (job->only == 0 || job->refusals == NULL)
		return false;
	if (job->route == DV_ROUTE_CHANGESET)
	{
		/* the job still has all rows, but only one was refused */
		for (i = 0; i < job->batch->nrows; i++)
			if (job->refusals[i].message != NULL)
				break;
		if (i == job->batch->nrows)
			return false;
		blame(job, i, &job->refusals[i]);
		return true;
	}
	/* of a change set that others refused, only one row has a reason */
	for (i = 0; i < job->batch->nrows; i++)
		if (job->refusals[i].message == NULL)
			return false;
	s.answers = new_answers(job);
	s.refused = palloc0(sizeof(dv_error *) * job->batch->nrows);
	for (i = 0; i < job->batch->nrows; i++)
		if (!job->was_in_doubt || !settle_in_doubt(&s, &job->batch->rows[i], &job->refusals[i]))
			s.refused[i] = &job->refusals[i];
	if (s.to_verify != NULL)
		dv_pipeline_queue(s.to_verify);
	dv_settle_refusals(job, s.refused);
	dv_job_free(job);
	return true;
}

/* Settles a job whose answer, if any, is not about rows. */
static void
settle_no_answer(dv_job *job, const dv_error *error)
{
	if (dv_error_is_about_user(error) && settle_by_refusals(job))
		return;
	if (job->batch->nrows > 1 && dv_error_asks_for_less(error))
		split(job);
	else if (job->batch->nrows == 1 && !error->outcome_unknown && !job->was_in_doubt &&
			 job->spec->go_on && error->verdict == DV_VERDICT_RETRY && error->status != 0)
	{
		dv_pipeline_reject(job, &job->batch->rows[0], error);
		dv_job_free(job);
	}
	else
		dv_pipeline_fail_job(job, error);
}

static void
settle_bulk(dv_job *job, const dv_error *error)
{
	if (error->verdict == DV_VERDICT_OK)
		settle_bulk_success(job);
	else if (error->details != NULL)
		settle_details(job, error);
	else if (dv_error_is_about_rows(error))
		settle_bulk_refusal(job, error);
	else
		settle_no_answer(job, error);
}

/*
 * Settling the parts of a $batch
 */

/*
 * Lets the statement fail if the table does not compare versions, because then
 * no row can be written.
 */
static bool
fail_without_versions(dv_job *job, const dv_row_answer *answers)
{
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		if (!answers[i].told || answers[i].error.meaning != DV_MEANING_NO_VERSIONS)
			return false;
	job->in_doubt = job->was_in_doubt = false;
	dv_pipeline_fail_job(job, &answers[0].error);
	return true;
}

static void
settle_parts(dv_job *job, const dv_error *error)
{
	const dv_http_result *result = dv_call_result(job->call);
	dv_row_answer *answers;

	if (split_if_long(job, error))
		return;
	if (error->verdict == DV_VERDICT_REFUSED && job->batch->nrows > 1 && dv_error_asks_for_less(error))
		split(job);
	else if (error->verdict != DV_VERDICT_OK)
		settle_no_answer(job, error);
	else
	{
		answers = new_answers(job);
		/* ignore the result: rows that a broken answer does not reach are marked as such */
		if (job->route == DV_ROUTE_SEARCH)
			dv_search_answers(job, answers);
		else
			(void) dv_batch_answer_parts(dv_call_header(job->call, "Content-Type"), result->body,
										 result->body_len, job->batch->nrows, answers);
		sign(job, answers);
		if (!fail_without_versions(job, answers))
			settle_rows(job, answers);
	}
}

static void
settle_changeset(dv_job *job, const dv_error *error)
{
	const dv_http_result *result = dv_call_result(job->call);
	dv_row_answer *answers;
	int			failed;

	/* one of the halves may be written even if the other has the row that is refused */
	if (split_if_long(job, error))
		return;
	if (error->verdict != DV_VERDICT_OK)
	{
		settle_no_answer(job, error);
		return;
	}
	answers = new_answers(job);
	if (!dv_batch_answer_changeset(dv_call_header(job->call, "Content-Type"), result->body,
								   result->body_len, job->batch->nrows, answers, &failed))
	{
		dv_settle_unreadable(job);
		return;
	}
	sign(job, answers);
	if (failed < 0)
		settle_rows(job, answers);
	else
	{
		const dv_error *reason = &answers[failed < job->batch->nrows ? failed : 0].error;
		dv_retry_decision decision = decide(job, &job->retry, reason, true, false);
		uint64		others = dv_call_others(job->call, reason);

		/* the request was answered, so nothing was changed */
		job->in_doubt = false;
		if (reason->verdict != DV_VERDICT_AUTH && decision.next == DV_NEXT_AGAIN)
		{
			job->was_in_doubt |= reason->outcome_unknown;

			/*
			 * Another row may fail each time, and then the whole would never succeed.  As single
			 * requests, only the rows that failed are sent again.
			 */
			if (reason->verdict == DV_VERDICT_RETRY && job->retry.times[decision.cause] > 1)
				job->route = DV_ROUTE_SINGLE;
			dv_pipeline_again(job, decision.delay);
		}
		else if (others != 0)
		{
			job->only = others;
			if (failed < job->batch->nrows)
				dv_job_note_refusal(job, failed, reason);
			dv_pipeline_again(job, 0);
		}
		else
			blame(job, failed, reason);
	}
}

void
dv_settle_job(dv_job *job)
{
	const dv_error *error = dv_call_error(job->call);

	/* a query that verifies rows is a different request from the one that wrote them */
	if (job->route != DV_ROUTE_VERIFY)
	{
		job->was_in_doubt |= dv_job_writes(job) && dv_call_was_unknown(job->call);
		job->retry = *dv_call_history(job->call);
	}
	switch (job->route)
	{
		case DV_ROUTE_BULK:
			settle_bulk(job, error);
			break;
		case DV_ROUTE_SINGLE:
		case DV_ROUTE_SEARCH:
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

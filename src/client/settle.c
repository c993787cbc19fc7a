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
 * created are asked for (verify.c) before a refusal is believed.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "utils/memutils.h"

#include "dataverse/batch_answer.h"
#include "client/job.h"
#include "dataverse/payload.h"

/* A late first attempt may still come while the question is answered, but not for ever. */
#define QUESTIONS_MAX 3

/* Tables that were found to have no bulk message, in this backend. */
typedef struct dv_no_bulk
{
	struct dv_no_bulk *next;
	Oid			serverid;
	dv_operation operation;
	char		table[FLEXIBLE_ARRAY_MEMBER];
} dv_no_bulk;

static dv_no_bulk *no_bulk = NULL;

static bool
knows_no_bulk(const dv_writer *writer, dv_operation operation)
{
	Oid			serverid = dv_session_config_of(writer->spec.session)->serverid;
	const dv_no_bulk *n;

	for (n = no_bulk; n != NULL; n = n->next)
		if (n->serverid == serverid && n->operation == operation &&
			strcmp(n->table, writer->spec.destination.table) == 0)
			return true;
	return false;
}

static void
learn_no_bulk(const dv_writer *writer, dv_operation operation)
{
	const char *table = writer->spec.destination.table;
	dv_no_bulk *n;

	if (knows_no_bulk(writer, operation))
		return;
	n = MemoryContextAlloc(TopMemoryContext, offsetof(dv_no_bulk, table) + strlen(table) + 1);
	n->serverid = dv_session_config_of(writer->spec.session)->serverid;
	n->operation = operation;
	strcpy(n->table, table);
	n->next = no_bulk;
	no_bulk = n;
}

dv_route
dv_route_of(const dv_writer *writer, const dv_batch *batch)
{
	return dv_batch_bulk_path(batch) == NULL || knows_no_bulk(writer, batch->operation) ?
		DV_ROUTE_SINGLE : DV_ROUTE_BULK;
}

/*
 * What errors say
 */

static bool
has_code(const dv_error *error, const char *code)
{
	return pg_strcasecmp(error->code, code) == 0;
}

/* The table has no such message: its rows go as single requests, now and later. */
static bool
says_no_bulk(const dv_error *error)
{
	return has_code(error, "0x80048d2d") ||
		strstr(error->message, "is not enabled on the entity") != NULL ||
		strstr(error->message, "does not support entities of type") != NULL ||
		strstr(error->message, "has not yet been implemented") != NULL ||
		strstr(error->message, "for the segment 'Microsoft.Dynamics.CRM.") != NULL;
}

static bool
says_too_large(const dv_error *error)
{
	return error->status == 413 || has_code(error, "0x8004418a") ||
		strstr(error->message, "Message size exceeded") != NULL ||
		(error->verdict == DV_VERDICT_RETRY && !error->outcome_unknown &&
		 (error->cause == DV_RETRY_SQL_TIMEOUT || error->cause == DV_RETRY_DEADLOCK));
}

static bool
says_duplicate(const dv_error *error)
{
	return has_code(error, "0x80040237") || has_code(error, "0x80060892") ||
		has_code(error, "0x80073002") || error->status == 409;
}

/* The service has not looked at any row: no token, no such user. */
static bool
is_about_no_row(const dv_error *error)
{
	return error->status == 0 || error->status == 401;
}

/* The row itself is not there; not one that it refers to. */
static bool
says_missing(const dv_error *error, dv_operation operation, const dv_batch_row *row)
{
	char		text[DV_PAYLOAD_UUID];
	const char *at;

	if (error->status != 404 || !(has_code(error, "0x80040217") || error->code[0] == '\0'))
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
 * The ends that a row can come to
 */

void
dv_job_acknowledge(dv_writer *writer, const dv_job *job, const dv_batch_row *row)
{
	/* an update that follows its row's creation has nothing new to stay */
	if (job->batch->operation == writer->spec.operation)
		dv_ledger_stays(&writer->entry, 1);
	if (row->then_len > 0)
	{
		dv_writer_follow(writer, job->batch, row);
		return;
	}
	writer->tally.acknowledged++;
	dv_writer_row_done(writer, row);
}

static const char *
copy(const char *s)
{
	return s != NULL ? pstrdup(s) : NULL;
}

void
dv_writer_fail_with(dv_writer *writer, const dv_failure *failure)
{
	MemoryContext old;

	if (writer->failed)
		return;
	old = MemoryContextSwitchTo(writer->context);
	writer->failed = true;
	writer->failure = *failure;
	writer->error = *failure->error;
	writer->error.code = copy(failure->error->code);
	writer->error.name = copy(failure->error->name);
	writer->error.message = copy(failure->error->message);
	writer->error.request_id = copy(failure->error->request_id);
	writer->error.details = copy(failure->error->details);
	writer->failure.error = &writer->error;
	if (failure->id != NULL)
		writer->failure.id = memcpy(palloc(DV_ID_LEN), failure->id, DV_ID_LEN);
	if (failure->object != NULL)
		writer->failure.object = pnstrdup(failure->object, failure->object_len);
	MemoryContextSwitchTo(old);
}

static void
reject(dv_writer *writer, const dv_job *job, const dv_batch_row *row, const dv_error *error)
{
	dv_failure	failure = {.error = error};

	failure.first = failure.last = row->ordinal;
	failure.then = job->batch->operation != writer->spec.operation;
	failure.id = row->has_id ? row->id : NULL;
	failure.object = dv_batch_object(job->batch, row, &failure.object_len);
	writer->tally.rejected++;
	dv_writer_row_done(writer, row);
	if (writer->failed)
		return;
	if (!writer->spec.go_on || !writer->spec.reject(writer->spec.arg, &failure))
		dv_writer_fail_with(writer, &failure);
}

/* It will not be sent again. */
static void
give_up(dv_writer *writer, dv_job *job)
{
	if (job->in_doubt || job->doubted)
		dlist_push_tail(&writer->lost, &job->node);
	else
		dv_job_free(writer, job);
}

void
dv_job_fail(dv_writer *writer, dv_job *job, const dv_error *error)
{
	dv_failure	failure = {.error = error};
	int			i;

	failure.first = PG_INT64_MAX;
	for (i = 0; i < job->batch->nrows; i++)
	{
		failure.first = Min(failure.first, job->batch->rows[i].ordinal);
		failure.last = Max(failure.last, job->batch->rows[i].ordinal);
	}
	if (job->batch->nrows == 1)
	{
		failure.id = job->batch->rows[0].has_id ? job->batch->rows[0].id : NULL;
		failure.object = dv_batch_object(job->batch, &job->batch->rows[0], &failure.object_len);
	}
	dv_writer_fail_with(writer, &failure);
	give_up(writer, job);
}

/*
 * More than one request for the same rows
 */

static int64
backoff(const dv_writer *writer, int tries)
{
	const dv_retry_policy *policy = &dv_session_config_of(writer->spec.session)->retry;
	int64		delay = policy->first_backoff;

	while (--tries > 0 && delay < policy->longest_backoff)
		delay *= 2;
	delay = Min(delay, policy->longest_backoff);
	return delay / 2 + (int64) (pg_prng_double(&pg_global_prng_state) * delay / 2);
}

dv_job *
dv_job_keep(dv_writer *writer, dv_job *kept, const dv_job *from, const dv_batch_row *row,
			dv_route route)
{
	if (kept == NULL)
	{
		kept = dv_job_create(writer, from->batch->operation, route, from->batch->nrows);
		kept->doubted = from->doubted;
		kept->isolating = from->isolating;
		kept->first_sent = from->first_sent;
		kept->told_until = from->told_until;
	}
	dv_batch_copy_row(kept->batch, from->batch, row, false);
	return kept;
}

static void
split(dv_writer *writer, dv_job *job)
{
	dv_job	   *halves[2] = {NULL, NULL};
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		dv_job	  **half = &halves[i >= job->batch->nrows / 2];

		*half = dv_job_keep(writer, *half, job, &job->batch->rows[i], job->route);
	}
	dv_job_free(writer, job);
	dv_job_queue(writer, halves[1]);
	dv_job_queue(writer, halves[0]);
}

void
dv_job_isolate(dv_writer *writer, dv_job *job)
{
	/* a changeset of an elastic table is not carried out as a whole (facts 4.7) */
	job->route = writer->spec.go_on || writer->spec.ignore_duplicates ||
		job->batch->destination->type == DV_TABLE_ELASTIC ? DV_ROUTE_SINGLE : DV_ROUTE_CHANGESET;
	job->isolating = !writer->spec.go_on && !writer->spec.ignore_duplicates;
	dv_job_again(writer, job, 0);
}

static const dv_error not_whole = {
	.verdict = DV_VERDICT_RETRY,
	.outcome_unknown = true,
	.retry_after = -1,
	.code = "",
	.message = "an answer of Dataverse is not whole",
	.sqlstate = ERRCODE_FDW_UNABLE_TO_CREATE_REPLY,
};

/* The answer makes no sense: the rows may be written or not. */
void
dv_job_unreadable(dv_writer *writer, dv_job *job)
{
	const dv_retry_policy *policy = &dv_session_config_of(writer->spec.session)->retry;
	int			i;

	job->doubted = true;
	for (i = 0; i < job->batch->nrows; i++)
		if (job->batch->operation == DV_CREATE && !job->batch->rows[i].has_id)
			break;
	if (i == job->batch->nrows && job->tries++ < policy->max_retries)
	{
		dv_job_again(writer, job, backoff(writer, job->tries));
		return;
	}
	dv_job_fail(writer, job, &not_whole);
}

/*
 * Bulk messages
 */

static void
acknowledge_all(dv_writer *writer, dv_job *job)
{
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		dv_job_acknowledge(writer, job, &job->batch->rows[i]);
	dv_job_free(writer, job);
}

/* No body is to be read; a page of something in between, whatever its status, is no answer. */
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
settle_bulk_success(dv_writer *writer, dv_job *job)
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
			dv_job_unreadable(writer, job);
			return;
		}
		for (i = 0; i < batch->nrows; i++)
			if (batch->rows[i].has_id && memcmp(ids[i], batch->rows[i].id, DV_ID_LEN) != 0)
			{
				dv_job_unreadable(writer, job);
				return;
			}
		/* an update may have to follow */
		for (i = 0; i < batch->nrows; i++)
			learn_id(&batch->rows[i], ids[i]);
		memcpy(writer->last_id, ids[batch->nrows - 1], DV_ID_LEN);
		writer->has_last_id = true;
	}
	else if (!says_nothing(job->call))
	{
		dv_job_unreadable(writer, job);
		return;
	}
	acknowledge_all(writer, job);
}

/* That a row is there already may be no matter. */
static bool
is_ignored(const dv_writer *writer, const dv_job *job, const dv_error *error)
{
	return writer->spec.ignore_duplicates && says_duplicate(error) &&
		dv_operation_rule_of(job->batch->operation)->effect == DV_EFFECT_MADE;
}

/* Rows of which it is not said why are sent once more, each for itself: that tells. */
void
dv_job_refuse(dv_writer *writer, const dv_job *job, const dv_error *const *errors)
{
	dv_job	   *why = NULL;
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		if (errors[i] != NULL && errors[i]->vague && !is_ignored(writer, job, errors[i]))
			why = dv_job_keep(writer, why, job, &job->batch->rows[i], DV_ROUTE_SINGLE);
	if (why != NULL)
		dv_job_queue(writer, why);
	for (i = 0; i < job->batch->nrows; i++)
	{
		const dv_batch_row *row = &job->batch->rows[i];

		if (errors[i] == NULL)
			continue;
		if (is_ignored(writer, job, errors[i]))
		{
			writer->tally.ignored++;
			dv_writer_row_done(writer, row);
		}
		else if (!errors[i]->vague)
			reject(writer, job, row, errors[i]);
	}
}

/* A refusal of the whole, as every row's. */
static void
ask_for_all(dv_writer *writer, dv_job *job, const dv_error *error)
{
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
		dv_job_note_refusal(job, i, error);
	job->whole = true;
	job->route = DV_ROUTE_VERIFY;
	dv_job_again(writer, job, 0);
}

/*
 * Rows one by one
 */

/* Rows of a job being sorted by what was answered to them. */
typedef struct sorting
{
	dv_writer  *writer;
	dv_job	   *job;
	const dv_row_answer *answers;
	dv_job	   *again;			/* to be sent once more */
	dv_job	   *asked;			/* to be asked for */
	const dv_error **refused;	/* for good: why */
	dv_job	   *lost;			/* in doubt, and they cannot be sent again */
	const dv_error *lost_error;
} sorting;

/* Nobody knows, or the service was busy.  False: enough of that. */
static bool
send_again(sorting *s, dv_batch_row *row, const dv_row_answer *answer)
{
	const dv_retry_policy *policy = &dv_session_config_of(s->writer->spec.session)->retry;
	bool		throttled = answer->told && answer->error.verdict == DV_VERDICT_THROTTLED;
	bool		unknown = !answer->told || answer->error.outcome_unknown;
	int			allowed = throttled ? policy->max_throttle_retries : policy->max_retries;

	if (unknown && s->job->batch->operation == DV_CREATE && !row->has_id)
		return false;
	/* a throttle counts only if it came although the rows had waited as told */
	if (!(throttled && (s->job->started_at < s->job->told_until || allowed <= 0)) &&
		row->tries++ >= (uint32) Max(allowed, 0))
		return false;
	s->again = dv_job_keep(s->writer, s->again, s->job, row, s->job->route);
	s->again->doubted |= unknown;
	if (throttled)
		s->again->told_until = Max(s->again->told_until,
								   dv_now() + Max(answer->error.retry_after, 0));
	return true;
}

/* An id that was given twice: what is there is the first row's. */
static bool
has_elder_twin(const sorting *s, const dv_batch_row *row)
{
	const dv_batch_row *rows = s->job->batch->rows;
	int			i;

	for (i = 0; !s->writer->spec.ids_made && &rows[i] < row; i++)
		if (memcmp(rows[i].id, row->id, DV_ID_LEN) == 0 && rows[i].has_id && s->answers[i].told &&
			(s->answers[i].error.verdict == DV_VERDICT_OK || says_duplicate(&s->answers[i].error)))
			return true;
	return false;
}

/* A refusal of what may have been done already. */
static bool
settle_doubted(sorting *s, const dv_batch_row *row, const dv_error *error)
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
			is_done = says_duplicate(error);
			break;
		case DV_CREATE:
			/* elastic tables have no other key: an id made here is taken by its own row */
			is_done = batch->destination->type == DV_TABLE_ELASTIC && s->writer->spec.ids_made &&
				says_duplicate(error);
			if (is_done || !row->has_id || has_elder_twin(s, row))
				break;
			s->asked = dv_job_keep(s->writer, s->asked, s->job, row, DV_ROUTE_VERIFY);
			dv_job_note_refusal(s->asked, s->asked->batch->nrows - 1, error);
			return true;
		default:
			break;
	}
	if (is_done)
		dv_job_acknowledge(s->writer, s->job, row);
	return is_done;
}

static void
settle_refusal(sorting *s, const dv_batch_row *row, const dv_error *error)
{
	if (s->job->doubted && settle_doubted(s, row, error))
		return;
	if (says_missing(error, s->job->batch->operation, row))
	{
		s->writer->tally.missing++;
		dv_writer_row_done(s->writer, row);
	}
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
			memcpy(s->writer->last_id, answer->id, DV_ID_LEN);
			s->writer->has_last_id = true;
		}
		dv_job_acknowledge(s->writer, s->job, row);
	}
	else if (error->verdict == DV_VERDICT_REFUSED || error->verdict == DV_VERDICT_AUTH)
		settle_refusal(s, row, error);
	else if (send_again(s, row, answer))
		 /* nothing more to say */ ;
	else if (error->outcome_unknown)
	{
		s->lost = dv_job_keep(s->writer, s->lost, s->job, row, s->job->route);
		s->lost_error = error;
	}
	else
		s->refused[row - s->job->batch->rows] = error;
}

static void
settle_rows(dv_writer *writer, dv_job *job, const dv_row_answer *answers)
{
	sorting		s = {.writer = writer, .job = job, .answers = answers};
	int			i;

	s.refused = palloc0(sizeof(dv_error *) * job->batch->nrows);
	for (i = 0; i < job->batch->nrows; i++)
		settle_row(&s, &job->batch->rows[i], &answers[i]);
	if (s.asked != NULL)
		dv_job_queue(writer, s.asked);
	if (s.again != NULL)
	{
		s.again->not_before = dv_now() + backoff(writer, s.again->batch->rows[0].tries);
		dv_job_queue(writer, s.again);
	}
	/* at last, since who is told of them may raise: all others are accounted for */
	dv_job_refuse(writer, job, s.refused);
	if (s.lost != NULL)
	{
		s.lost->doubted = true;
		s.lost->nrows = s.lost->batch->nrows;
		dv_job_fail(writer, s.lost, s.lost_error);
	}
	dv_job_free(writer, job);
}

static dv_row_answer *
new_answers(const dv_job *job)
{
	return palloc0(sizeof(dv_row_answer) * job->batch->nrows);
}

/* The whole was refused, and that is the answer to its only row. */
static void
settle_only_row(dv_writer *writer, dv_job *job, const dv_error *error)
{
	dv_row_answer answer = {.told = true, .status = error->status, .error = *error};

	settle_rows(writer, job, &answer);
}

/* Some rows of an elastic table were written, others were not. */
static void
settle_details(dv_writer *writer, dv_job *job, const dv_error *error)
{
	dv_row_answer *answers = new_answers(job);

	if (dv_batch_answer_details(error, job->batch->nrows, answers))
		settle_rows(writer, job, answers);
	else
		dv_job_unreadable(writer, job);
}

static void
settle_bulk_refusal(dv_writer *writer, dv_job *job, const dv_error *error)
{
	dv_batch   *batch = job->batch;

	if (says_no_bulk(error))
	{
		learn_no_bulk(writer, batch->operation);
		job->route = DV_ROUTE_SINGLE;
		dv_job_again(writer, job, 0);
		return;
	}
	/* which rows of an elastic table were written all the same, it does not say */
	if (batch->nrows > 1 && batch->destination->type == DV_TABLE_ELASTIC)
		job->doubted = true;
	if (batch->nrows > 1 && says_too_large(error))
		split(writer, job);
	else if (batch->nrows == 1)
		settle_only_row(writer, job, error);
	else if (job->doubted && batch->operation == DV_CREATE)
		ask_for_all(writer, job, error);
	else
		dv_job_isolate(writer, job);
}

/* Not a word about its rows: the request as a whole came to nothing, or to nobody knows what. */
static void
settle_no_answer(dv_writer *writer, dv_job *job, const dv_error *error)
{
	if (job->batch->nrows > 1 && says_too_large(error))
		split(writer, job);
	else if (job->batch->nrows == 1 && !error->outcome_unknown && !job->doubted &&
			 writer->spec.go_on && error->verdict == DV_VERDICT_RETRY && error->status != 0)
	{
		reject(writer, job, &job->batch->rows[0], error);
		dv_job_free(writer, job);
	}
	else
		dv_job_fail(writer, job, error);
}

static void
settle_bulk(dv_writer *writer, dv_job *job, const dv_error *error)
{
	if (error->verdict == DV_VERDICT_OK)
		settle_bulk_success(writer, job);
	else if (error->details != NULL)
		settle_details(writer, job, error);
	else if (error->verdict == DV_VERDICT_REFUSED && !is_about_no_row(error))
		settle_bulk_refusal(writer, job, error);
	else
		settle_no_answer(writer, job, error);
}

/*
 * Parts of a $batch
 */

static void
settle_parts(dv_writer *writer, dv_job *job, const dv_error *error)
{
	const dv_http_result *result = dv_call_result(job->call);
	dv_row_answer *answers;

	if (error->verdict == DV_VERDICT_REFUSED && job->batch->nrows > 1 && says_too_large(error))
		split(writer, job);
	else if (error->verdict != DV_VERDICT_OK)
		settle_no_answer(writer, job, error);
	else
	{
		answers = new_answers(job);
		/* what is missing at the end is not told: that is all there is to know of a broken one */
		(void) dv_batch_answer_parts(dv_call_header(job->call, "Content-Type"), result->body,
									 result->body_len, job->batch->nrows, answers);
		settle_rows(writer, job, answers);
	}
}

/* A change set came to nothing for a reason that passes: once more? */
static bool
is_borne(const dv_writer *writer, dv_job *job, const dv_error *reason)
{
	const dv_retry_policy *policy = &dv_session_config_of(writer->spec.session)->retry;
	bool		had_waited = job->started_at >= job->told_until;

	if (reason->verdict == DV_VERDICT_RETRY)
		return job->tries++ < policy->max_retries;
	if (reason->verdict != DV_VERDICT_THROTTLED)
		return false;
	job->told_until = Max(job->told_until, dv_now() + Max(reason->retry_after, 0));
	return policy->max_throttle_retries < 0 || !had_waited ||
		job->throttles++ < policy->max_throttle_retries;
}

/* None was carried out, and this row is why; the others are not to be blamed. */
static void
blame(dv_writer *writer, dv_job *job, int failed, const dv_error *error)
{
	dv_batch   *batch = job->batch;

	if (error->verdict == DV_VERDICT_REFUSED && job->doubted && batch->operation == DV_CREATE &&
		job->questions++ < QUESTIONS_MAX)
		ask_for_all(writer, job, error);
	else if (error->verdict != DV_VERDICT_REFUSED || failed >= batch->nrows)
		dv_job_fail(writer, job, error);
	else if (says_missing(error, batch->operation, &batch->rows[failed]))
	{
		/* rows that are not there do no harm: the rest is written one by one */
		job->route = DV_ROUTE_SINGLE;
		dv_job_again(writer, job, 0);
	}
	else
	{
		reject(writer, job, &batch->rows[failed], error);
		/* the statement has failed: the rest was not written now, and will not be */
		job->nrows--;
		give_up(writer, job);
	}
}

static void
settle_changeset(dv_writer *writer, dv_job *job, const dv_error *error)
{
	const dv_http_result *result = dv_call_result(job->call);
	dv_row_answer *answers;
	int			failed;

	if (error->verdict != DV_VERDICT_OK)
	{
		settle_no_answer(writer, job, error);
		return;
	}
	answers = new_answers(job);
	if (!dv_batch_answer_changeset(dv_call_header(job->call, "Content-Type"), result->body,
								   result->body_len, job->batch->nrows, answers, &failed))
		dv_job_unreadable(writer, job);
	else if (failed < 0)
		settle_rows(writer, job, answers);
	else
	{
		const dv_error *reason = &answers[failed < job->batch->nrows ? failed : 0].error;

		/* the request was carried out, and that changed nothing */
		job->in_doubt = false;
		if (is_borne(writer, job, reason))
		{
			int64		delay = backoff(writer, job->tries);

			job->doubted |= reason->outcome_unknown;
			dv_job_again(writer, job, Max(delay, reason->retry_after));
		}
		else
			blame(writer, job, failed, reason);
	}
}

static void
count(dv_writer *writer, const dv_job *job)
{
	const dv_call *call = job->call;
	int			attempts = dv_call_attempts(call);

	if (attempts > 0)
	{
		writer->tally.requests++;
		writer->tally.repeated += attempts - 1;
		writer->tally.users |= UINT64CONST(1) << dv_call_user(call);
		writer->tally.bytes += dv_call_result(call)->bytes_sent;
	}
	writer->tally.throttles += dv_call_throttles(call);
}

void
dv_job_settle(dv_writer *writer, dv_job *job)
{
	MemoryContext old = MemoryContextSwitchTo(writer->scratch);
	const dv_error *error = dv_call_error(job->call);

	count(writer, job);
	job->doubted |= dv_call_was_unknown(job->call) && job->route != DV_ROUTE_VERIFY;
	switch (job->route)
	{
		case DV_ROUTE_BULK:
			settle_bulk(writer, job, error);
			break;
		case DV_ROUTE_SINGLE:
			settle_parts(writer, job, error);
			break;
		case DV_ROUTE_CHANGESET:
			settle_changeset(writer, job, error);
			break;
		case DV_ROUTE_VERIFY:
			dv_job_settle_verify(writer, job, error);
			break;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(writer->scratch);
}

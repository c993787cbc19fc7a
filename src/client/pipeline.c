/*
 * pipeline.c
 *		The pipeline of one modification: sealed batches out, answers in.
 *
 * Jobs leave the queue in order, each as a call that waits for a slot.  Only a
 * few calls may wait at a time, so that one writer does not crowd the pool.
 * Answers are settled before calls get slots, because a row that was refused
 * can end the statement.  When the statement fails, requests on the wire are waited for, and nothing
 * else is sent.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/doubts.h"
#include "client/pipeline.h"
#include "client/trouble.h"

/* Most calls that wait for a slot: enough to use several application users */
#define WAITING_MAX 4
/* Most calls that wait for a backoff to pass: few enough to spare a service that is down */
#define RESTING_MAX 32
/*
 * After this many consecutive requests given up because the service was in trouble, it is
 * believed to be down
 */
#define STRIKES_MAX 3
/*
 * The same for rows that may be at fault themselves, because others were written after their
 * first attempt
 */
#define STRIKES_AMID_MAX 30

/* Properties of each fate. */
const dv_fate_rule dv_fate_rules[DV_FATES] = {
	[DV_FATE_ACKNOWLEDGED] = {"Rows Written", true, false},
	[DV_FATE_REJECTED] = {"Rows Refused", false, true},
	[DV_FATE_IGNORED] = {"Rows Ignored", false, false},
	[DV_FATE_MISSING] = {"Rows Missing", false, false},
};

/*
 * Jobs
 */

MemoryContext
dv_pipeline_job_context(dv_writer *writer)
{
	return AllocSetContextCreate(writer->context, "dataverse batch", ALLOCSET_SMALL_SIZES);
}

dv_batch *
dv_pipeline_new_batch(dv_writer *writer, MemoryContext context, dv_operation operation, int room)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_batch   *batch = dv_batch_create(operation, &writer->spec.destination, room);

	MemoryContextSwitchTo(old);
	return batch;
}

/* Counts a job that joins the queue. */
static void
account(dv_writer *writer, dv_job *job)
{
	dv_search_before(job);
	/* after a detour by another route, it may be longer than a request may be */
	if (dv_job_parts(job) > dv_job_most(&writer->spec, job->route))
		writer->reconsider = true;
	job->nrows = job->batch->nrows;
	writer->held += dv_job_size(job);
	writer->queued++;
}

void
dv_pipeline_enqueue(dv_writer *writer, dv_job *job, bool first)
{
	account(writer, job);
	if (first)
		dlist_push_head(&writer->queue, &job->node);
	else
		dlist_push_tail(&writer->queue, &job->node);
}

void
dv_pipeline_queue(dv_job *job)
{
	dv_batch_seal(job->batch);
	dv_pipeline_enqueue(job->writer, job, true);
}

void
dv_pipeline_again(dv_job *job, int64 delay)
{
	dv_job_rewind(job);
	job->not_before = dv_now() + delay;
	dv_pipeline_enqueue(job->writer, job, true);
}

static int64
rows_in_doubt(const dlist_head *list)
{
	int64		rows = 0;
	dlist_iter	iter;

	dlist_foreach(iter, unconstify(dlist_head *, list))
	{
		const dv_job *job = dlist_container(dv_job, node, iter.cur);

		if (dv_job_is_in_doubt(job))
			rows += job->nrows;
	}
	return rows;
}

static int64
in_doubt(const dv_writer *writer)
{
	return rows_in_doubt(&writer->queue) + rows_in_doubt(&writer->under_way) +
		rows_in_doubt(&writer->lost);
}

/* The callback of the ledger, when the writer ends. */
int64
dv_pipeline_tell_doubts(const dv_ledger_entry *entry)
{
	const dv_writer *writer = (const dv_writer *) entry;

	dv_doubts_note(&writer->lost, writer->failure.first);
	dv_doubts_note(&writer->under_way, writer->failure.first);
	dv_doubts_note(&writer->queue, writer->failure.first);
	return in_doubt(writer);
}

/*
 * Sending
 */

static void
send_job(dv_writer *writer, dv_job *job)
{
	if (job->first_sent == 0)
	{
		job->first_sent = dv_now();
		if (!dv_job_is_then(job))
			writer->rows_sent += job->nrows;
	}
	PG_TRY();
	{
		dv_job_start(job);
	}
	PG_CATCH();
	{
		/* its rows may be in doubt because of an earlier request */
		dlist_push_tail(&writer->lost, &job->node);
		PG_RE_THROW();
	}
	PG_END_TRY();
	dlist_push_tail(&writer->under_way, &job->node);
	writer->sent++;
}

/*
 * Returns true if no more calls should be started now.  Calls in a backoff are
 * counted separately, so that others can use the free slots meanwhile.
 */
static bool
enough_waiting(const dv_writer *writer)
{
	int			waiting = 0;
	int			resting = 0;
	dlist_iter	iter;

	if (writer->spec.max_calls > 0 && writer->sent >= writer->spec.max_calls)
		return true;
	dlist_foreach(iter, unconstify(dlist_head *, &writer->under_way))
	{
		const dv_call *call = dlist_container(dv_job, node, iter.cur)->call;

		if (dv_call_resting(call))
			resting++;
		else if (dv_call_waiting(call))
			waiting++;
	}
	return waiting >= WAITING_MAX || resting >= RESTING_MAX;
}

static bool
has_isolating(const dlist_head *list)
{
	dlist_iter	iter;

	dlist_foreach(iter, unconstify(dlist_head *, list))
		if (dlist_container(dv_job, node, iter.cur)->isolating)
			return true;
	return false;
}

/* Puts jobs that have not been sent yet back into the queue, in order. */
static void
recall_waiting(dv_writer *writer)
{
	dlist_node *node = NULL;

	if (!dlist_is_empty(&writer->under_way))
		node = dlist_tail_node(&writer->under_way);

	while (node != NULL)
	{
		dv_job	   *job = dlist_container(dv_job, node, node);

		node = dlist_has_prev(&writer->under_way, node) ?
			dlist_prev_node(&writer->under_way, node) : NULL;
		if (job->isolating || !dv_call_waiting(job->call) || dv_call_attempts(job->call) > 0)
			continue;
		dlist_delete(&job->node);
		writer->sent--;
		writer->held -= dv_job_size(job);
		dv_pipeline_again(job, 0);
	}
}

/* Cuts jobs that are longer than the session now knows a request of their route may be. */
static void
cut_long_jobs(dv_writer *writer)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &writer->queue)
	{
		dv_job	   *job = dlist_container(dv_job, node, iter.cur);
		int			most = dv_job_most(&writer->spec, job->route);
		dlist_node *before;
		dlist_head	pieces;

		if (dv_job_parts(job) <= most)
			continue;
		writer->held -= dv_job_size(job);
		writer->queued--;
		if (job->barred)
			writer->barred--;
		dlist_init(&pieces);
		/* the node before the first one is the head of the list */
		before = job->node.prev;
		dlist_delete(&job->node);
		dv_job_split(job, most, &pieces);
		while (!dlist_is_empty(&pieces))
		{
			dv_job	   *piece = dlist_container(dv_job, node, dlist_pop_head_node(&pieces));

			dv_batch_seal(piece->batch);
			account(writer, piece);
			if (piece->barred)
				writer->barred++;
			dlist_insert_after(before, &piece->node);
			before = &piece->node;
		}
	}
}

/*
 * Takes back jobs that have not been sent yet, and plans them anew without a form that was
 * refused.
 */
static void
plan_anew(dv_writer *writer)
{
	dlist_iter	iter;

	recall_waiting(writer);
	dlist_foreach(iter, &writer->queue)
	{
		dv_job	   *job = dlist_container(dv_job, node, iter.cur);

		if (job->route != DV_ROUTE_BULK)
			continue;
		job->route = dv_job_route(&writer->spec, job->batch);
		/* more keys fit into bodies than into addresses */
		dv_search_before(job);
	}
	cut_long_jobs(writer);
	writer->reconsider = false;
}

void
dv_pipeline_reconsider(dv_writer *writer)
{
	writer->reconsider = true;
}

static void
send_queued(dv_writer *writer)
{
	int64		now = dv_now();
	bool		only_isolating;
	dlist_mutable_iter iter;

	if (writer->reconsider)
		plan_anew(writer);
	writer->next_time = 0;
	/* a refused row may end the statement: later rows wait until that is decided */
	only_isolating = has_isolating(&writer->queue) || has_isolating(&writer->under_way);
	if (only_isolating)
		recall_waiting(writer);
	dlist_foreach_modify(iter, &writer->queue)
	{
		dv_job	   *job = dlist_container(dv_job, node, iter.cur);

		if (job->barred || (only_isolating && !job->isolating))
			continue;
		if (job->not_before > now)
		{
			if (writer->next_time == 0 || job->not_before < writer->next_time)
				writer->next_time = job->not_before;
			continue;
		}
		/* this job is ready, so the queue waits for a call to end, not for a backoff */
		if (enough_waiting(writer))
		{
			writer->next_time = 0;
			return;
		}
		dlist_delete(&job->node);
		writer->queued--;
		writer->held -= dv_job_size(job);
		send_job(writer, job);
		writer->held += dv_job_size(job);
		dv_call_advance();
	}
}

static void
count(dv_writer *writer, const dv_call *call)
{
	int			attempts = dv_call_attempts(call);

	if (attempts > 0)
	{
		writer->tally.requests++;
		writer->tally.repeated += attempts - 1;
		dv_call_add_causes(call, writer->tally.causes);
		writer->tally.users |= UINT64CONST(1) << dv_call_user(call);
		writer->tally.bytes += dv_call_result(call)->bytes_sent;
	}
	writer->tally.throttles += dv_call_throttles(call);
}

static void
settle_done(dv_writer *writer)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &writer->under_way)
	{
		dv_job	   *job = dlist_container(dv_job, node, iter.cur);
		MemoryContext old;

		if (!dv_call_done(job->call))
			continue;
		dlist_delete(&job->node);
		writer->sent--;
		writer->held -= dv_job_size(job);
		count(writer, job->call);
		old = MemoryContextSwitchTo(writer->scratch);
		writer->settling_at = dv_now();
		dv_settle_job(job);
		MemoryContextSwitchTo(old);
		MemoryContextReset(writer->scratch);
	}
	writer->hold = writer->failed;
}

/* Returns the number of rows settled: all of them, or only those that count as refused. */
int64
dv_pipeline_settled(const dv_writer *writer, bool only_refused)
{
	int64		rows = 0;
	int			fate;

	for (fate = 0; fate < DV_FATES; fate++)
		if (!only_refused || dv_fate_rules[fate].refused)
			rows += writer->tally.fates[fate];
	return rows;
}

/* Returns the number of requests that the service is working on. */
static int
in_flight(const dv_writer *writer)
{
	int			calls = 0;
	dlist_iter	iter;

	dlist_foreach(iter, unconstify(dlist_head *, &writer->under_way))
		if (!dv_call_waiting(dlist_container(dv_job, node, iter.cur)->call))
			calls++;
	return calls;
}

static void
tell_progress(const dv_writer *writer)
{
	int64		refused = dv_pipeline_settled(writer, true);

	if (writer->spec.progress == NULL)
		return;
	dv_progress_update(writer->spec.progress, writer->tally.requests, writer->tally.taken,
					   writer->rows_sent, dv_pipeline_settled(writer, false) - refused, refused,
					   in_flight(writer));
}

/* Returns true if a call has ended since its job was last looked at. */
static bool
any_done(const dv_writer *writer)
{
	dlist_iter	iter;

	dlist_foreach(iter, unconstify(dlist_head *, &writer->under_way))
		if (dv_call_done(dlist_container(dv_job, node, iter.cur)->call))
			return true;
	return false;
}

/* Sends and settles jobs as far as possible without waiting. */
void
dv_pipeline_pump(dv_writer *writer)
{
	do
	{
		dv_call_receive();
		settle_done(writer);
		if (!writer->failed)
			send_queued(writer);
		dv_call_advance();
	} while (any_done(writer));
	tell_progress(writer);
}

bool
dv_pipeline_has_work(const dv_writer *writer)
{
	return !dlist_is_empty(unconstify(dlist_head *, &writer->queue)) ||
		!dlist_is_empty(unconstify(dlist_head *, &writer->under_way));
}

void
dv_pipeline_unbar(dv_writer *writer)
{
	dlist_iter	iter;

	dlist_foreach(iter, &writer->queue)
		dlist_container(dv_job, node, iter.cur)->barred = false;
	writer->barred = 0;
}

void
dv_pipeline_wait_a_step(dv_writer *writer)
{
	int64		until = writer->failed ? 0 : writer->next_time;
	int64		start = dv_now();

	/* only barred jobs are left to be sent: wait for the rows that they may refer to */
	if (!writer->failed && writer->barred > 0 && writer->queued == writer->barred)
	{
		writer->spec.wait_for_feed(writer->spec.arg);
		dv_pipeline_unbar(writer);
		dv_pipeline_pump(writer);
		return;
	}
	if ((writer->sent == 0 && until == 0) || any_done(writer))
	{
		dv_pipeline_pump(writer);
		return;
	}
	dv_call_pause(until, DV_WAIT_BACKOFF);
	writer->tally.waited += dv_now() - start;
	dv_pipeline_pump(writer);
}

/*
 * Failing.  Requests on the wire are waited for, and no others are sent.
 */

void
dv_pipeline_give_up(dv_job *job)
{
	if (dv_job_is_in_doubt(job))
		dlist_push_tail(&job->writer->lost, &job->node);
	else
		dv_job_free(job);
}

static void
give_up_what_waits(dv_writer *writer)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &writer->queue)
	{
		dlist_delete(iter.cur);
		dv_pipeline_give_up(dlist_container(dv_job, node, iter.cur));
	}
	writer->queued = 0;
	dlist_foreach_modify(iter, &writer->under_way)
	{
		dv_job	   *job = dlist_container(dv_job, node, iter.cur);

		if (!dv_call_waiting(job->call))
			continue;
		dv_call_free(job->call);
		job->call = NULL;
		writer->sent--;
		dlist_delete(&job->node);
		dv_pipeline_give_up(job);
	}
}

void
dv_pipeline_fail(dv_writer *writer)
{
	give_up_what_waits(writer);
	while (writer->sent > 0)
	{
		dv_pipeline_wait_a_step(writer);
		give_up_what_waits(writer);
	}
	writer->failure.in_doubt = in_doubt(writer);
	writer->spec.fail(writer->spec.arg, &writer->failure);
	elog(ERROR, "callback of a modification that failed did not raise an error");
}

/* Notes that the statement has failed, so that nothing more is sent.  The first failure counts. */
static void
fail_with(dv_writer *writer, const dv_failure *failure)
{
	MemoryContext old;

	if (writer->failed)
		return;
	old = MemoryContextSwitchTo(writer->context);
	writer->failed = true;
	writer->failure = *failure;
	dv_trouble_copy(&writer->error, failure->error);
	writer->failure.error = &writer->error;
	if (failure->id != NULL)
		writer->failure.id = memcpy(palloc(DV_ID_LEN), failure->id, DV_ID_LEN);
	if (failure->object != NULL)
		writer->failure.object = pnstrdup(failure->object, failure->object_len);
	if (failure->address != NULL)
		writer->failure.address = pstrdup(failure->address);
	MemoryContextSwitchTo(old);
}

/* Files a row that was refused; returns false if the statement fails instead. */
bool
dv_pipeline_file(dv_writer *writer, const dv_failure *failure)
{
	if (writer->spec.go_on && writer->spec.reject(writer->spec.arg, failure))
		return true;
	fail_with(writer, failure);
	return false;
}

void
dv_pipeline_describe_row(dv_failure *failure, const dv_batch *batch, const dv_batch_row *row)
{
	failure->id = row->has_id && !row->by_key ? row->id : NULL;
	failure->object = dv_batch_object(batch, row, &failure->object_len);
	failure->address = dv_batch_address(batch, row);
}

/*
 * A single row may take too long because of its values, but many in succession
 * mean that the service is down.  Filing all of them would take the retries of
 * each.  The rows of one $batch are given up together and count once.
 */
static bool
is_down(dv_job *job, const dv_error *error)
{
	dv_writer  *writer = job->writer;

	if (error->verdict != DV_VERDICT_RETRY)
		return false;
	if (!job->struck)
		writer->strikes++;
	job->struck = true;
	return writer->strikes >
		(writer->last_written >= job->first_sent ? STRIKES_AMID_MAX : STRIKES_MAX);
}

void
dv_pipeline_reject(dv_job *job, const dv_batch_row *row, const dv_error *error)
{
	dv_failure	failure = {.error = error, .first = row->ordinal, .last = row->ordinal};

	failure.then = dv_job_is_then(job);
	dv_pipeline_describe_row(&failure, job->batch, row);
	dv_writer_settle_row(job, row, DV_FATE_REJECTED);
	if (job->writer->failed)
		return;
	if (is_down(job, error))
	{
		dv_error	down = *error;

		down.hint = "Rows that were sent singly failed as well, so the statement ends regardless of \"on_error\".";
		failure.error = &down;
		fail_with(job->writer, &failure);
	}
	else
		(void) dv_pipeline_file(job->writer, &failure);
}

void
dv_pipeline_fail_job(dv_job *job, const dv_error *error)
{
	dv_failure	failure = {.error = error, .first = PG_INT64_MAX};
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		failure.first = Min(failure.first, job->batch->rows[i].ordinal);
		failure.last = Max(failure.last, job->batch->rows[i].ordinal);
	}
	if (job->batch->nrows == 1)
		dv_pipeline_describe_row(&failure, job->batch, &job->batch->rows[0]);
	fail_with(job->writer, &failure);
	dv_pipeline_give_up(job);
}

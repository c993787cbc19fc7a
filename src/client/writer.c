/*-------------------------------------------------------------------------
 *
 * writer.c
 *		The pipeline of one modification, from rows to requests.
 *
 * A row goes into the open batch.  A full batch becomes a job in the queue.
 * Jobs leave the queue in order, each as a call that waits for a slot.  Only a
 * few calls may wait at a time, so that one writer does not crowd the pool.
 * When the queue is full, or too many bytes are held, the caller has to wait.
 *
 * Two changes to the same row of the service are never under way at the same
 * time: the second waits until the first is settled.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "client/job.h"
#include "client/ledger.h"
#include "client/trouble.h"

/* Jobs in the queue, not counting barred ones */
#define QUEUE_MAX 8
/* Barred jobs in the queue: enough to keep the writer that they wait for busy */
#define BARRED_MAX 64
/* Calls that wait for a slot: enough to use several application users */
#define WAITING_MAX 4
/* Calls that wait for a backoff to pass: few enough to spare a service that is down */
#define RESTING_MAX 32
/* Bytes held by all jobs */
#define HELD_MAX ((size_t) 24 * 1024 * 1024)
/* Rows refused in a row because the service was in trouble, after which it is believed to be down */
#define STRIKES_MAX 3
/* Bytes at which a batch is full; the service takes 128 MB, its sandbox less */
#define BATCH_BYTES_MAX (8 * 1024 * 1024)

typedef struct dv_key
{
	uint64		key;
	char		status;
} dv_key;

#define SH_PREFIX dv_keys
#define SH_ELEMENT_TYPE dv_key
#define SH_KEY_TYPE uint64
#define SH_KEY key
#define SH_HASH_KEY(tb, k) ((uint32) murmurhash32((uint32) ((k) ^ ((k) >> 32))))
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct dv_writer
{
	dv_ledger_entry entry;		/* must be first: the ledger's callback casts it */
	MemoryContext context;
	MemoryContext scratch;		/* for settling one job */
	dv_writer_spec spec;
	dv_batch   *open;			/* rows being taken; NULL: none */
	MemoryContext open_context;
	dv_batch   *then;			/* updates that follow rows just created; NULL: none */
	MemoryContext then_context;
	void	   *owner;			/* of rows begun from now on */
	bool		row_begun;
	uint64		begun_key;
	dlist_head	queue;			/* sealed, in order */
	dlist_head	under_way;
	dlist_head	lost;			/* given up, but in doubt */
	int			queued;			/* number of jobs in the queue */
	int			barred;			/* number of those that are barred */
	int			sent;			/* number of jobs under way */
	int64		next_time;		/* when a backoff of a queued job ends, if that is what delays the
								 * queue; or 0 */
	int64		rows_sent;		/* rows that have been sent at least once */
	size_t		held;			/* bytes of jobs */
	dv_keys_hash *keys;			/* keys of rows that are not settled */
	dv_tally	tally;
	int			strikes;		/* rows given up for transient causes since one was written */
	bool		failed;			/* nothing more is sent */
	dv_failure	failure;		/* the first one */
	dv_error	error;			/* what "failure" points to */
};

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

static MemoryContext
job_context(dv_writer *writer)
{
	return AllocSetContextCreate(writer->context, "dataverse batch", ALLOCSET_SMALL_SIZES);
}

static dv_batch *
new_batch(dv_writer *writer, MemoryContext context, dv_operation operation, int room)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_batch   *batch = dv_batch_create(operation, &writer->spec.destination, room);

	MemoryContextSwitchTo(old);
	return batch;
}

static void
enqueue(dv_writer *writer, dv_job *job, bool first)
{
	job->nrows = job->batch->nrows;
	writer->held += dv_job_size(job);
	writer->queued++;
	if (first)
		dlist_push_head(&writer->queue, &job->node);
	else
		dlist_push_tail(&writer->queue, &job->node);
}

void
dv_writer_queue(dv_job *job)
{
	dv_batch_seal(job->batch);
	enqueue(job->writer, job, true);
}

void
dv_writer_again(dv_job *job, int64 delay)
{
	dv_job_rewind(job);
	job->not_before = dv_now() + delay;
	enqueue(job->writer, job, true);
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
in_doubt(const dv_ledger_entry *entry)
{
	const dv_writer *writer = (const dv_writer *) entry;

	return rows_in_doubt(&writer->queue) + rows_in_doubt(&writer->under_way) +
		rows_in_doubt(&writer->lost);
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
		if (job->batch->operation == writer->spec.operation)
			writer->rows_sent += job->nrows;
	}
	dv_job_start(job);
	dlist_push_tail(&writer->under_way, &job->node);
	writer->sent++;
}

/*
 * Returns true if no more calls should be started now.  Calls in a backoff are
 * counted separately, so that others can use the slots that are free meanwhile.
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
		dv_writer_again(job, 0);
	}
}

static void
send_queued(dv_writer *writer)
{
	int64		now = dv_now();
	bool		only_isolating;
	dlist_mutable_iter iter;

	writer->next_time = 0;
	/* a row was refused, which may end the statement: later rows wait until that is known */
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
		dv_settle_job(job);
		MemoryContextSwitchTo(old);
		MemoryContextReset(writer->scratch);
	}
}

/* Returns the number of rows settled: all of them, or only those that count as refused. */
static int64
settled(const dv_writer *writer, bool only_refused)
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
	int64		refused = settled(writer, true);

	if (writer->spec.progress != NULL)
		dv_progress_update(writer->spec.progress, writer->tally.taken, writer->rows_sent,
						   settled(writer, false) - refused, refused, in_flight(writer));
}

/* Sends and settles jobs as far as possible without waiting. */
static void
pump(dv_writer *writer)
{
	dv_call_advance();
	settle_done(writer);
	if (!writer->failed)
		send_queued(writer);
	tell_progress(writer);
}

static bool
has_work(const dv_writer *writer)
{
	return !dlist_is_empty(unconstify(dlist_head *, &writer->queue)) ||
		!dlist_is_empty(unconstify(dlist_head *, &writer->under_way));
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

static void
unbar(dv_writer *writer)
{
	dlist_iter	iter;

	dlist_foreach(iter, &writer->queue)
		dlist_container(dv_job, node, iter.cur)->barred = false;
	writer->barred = 0;
}

static void
wait_a_step(dv_writer *writer)
{
	int64		until = writer->failed ? 0 : writer->next_time;
	int64		start = dv_now();

	/* only barred jobs are left to be sent: wait for the rows that they may refer to */
	if (!writer->failed && writer->barred > 0 && writer->queued == writer->barred)
	{
		writer->spec.wait_for_feed(writer->spec.arg);
		unbar(writer);
		pump(writer);
		return;
	}
	if ((writer->sent == 0 && until == 0) || any_done(writer))
	{
		pump(writer);
		return;
	}
	dv_call_pause(until);
	writer->tally.waited += dv_now() - start;
	pump(writer);
}

/*
 * Failing.  Requests on the wire are waited for, and no others are sent.
 */

void
dv_writer_give_up(dv_job *job)
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
		dv_writer_give_up(dlist_container(dv_job, node, iter.cur));
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
		dv_writer_give_up(job);
	}
}

static void
fail(dv_writer *writer)
{
	give_up_what_waits(writer);
	while (writer->sent > 0)
	{
		wait_a_step(writer);
		give_up_what_waits(writer);
	}
	writer->failure.in_doubt = in_doubt(&writer->entry);
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
	MemoryContextSwitchTo(old);
}

/* Files a row that was refused; returns false if the statement fails instead. */
static bool
file(dv_writer *writer, const dv_failure *failure)
{
	if (writer->spec.go_on && writer->spec.reject(writer->spec.arg, failure))
		return true;
	fail_with(writer, failure);
	return false;
}

static void
describe_row(dv_failure *failure, const dv_batch *batch, const dv_batch_row *row)
{
	failure->id = row->has_id ? row->id : NULL;
	failure->object = dv_batch_object(batch, row, &failure->object_len);
}

/*
 * A row may take too long because of its values, but not one row after the
 * other.  To file them all would take the retries of each.
 */
static bool
is_down(dv_writer *writer, const dv_error *error)
{
	return error->verdict == DV_VERDICT_RETRY && ++writer->strikes > STRIKES_MAX;
}

void
dv_writer_reject(dv_job *job, const dv_batch_row *row, const dv_error *error)
{
	dv_failure	failure = {.error = error, .first = row->ordinal, .last = row->ordinal};

	failure.then = job->batch->operation != job->spec->operation;
	describe_row(&failure, job->batch, row);
	dv_writer_settle_row(job, row, DV_FATE_REJECTED);
	if (job->writer->failed)
		return;
	if (is_down(job->writer, error))
	{
		dv_error	down = *error;

		down.hint = "Rows were sent singly and failed as well, so the statement ends whatever \"on_error\" says.";
		failure.error = &down;
		fail_with(job->writer, &failure);
	}
	else
		(void) file(job->writer, &failure);
}

void
dv_writer_fail_job(dv_job *job, const dv_error *error)
{
	dv_failure	failure = {.error = error, .first = PG_INT64_MAX};
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		failure.first = Min(failure.first, job->batch->rows[i].ordinal);
		failure.last = Max(failure.last, job->batch->rows[i].ordinal);
	}
	if (job->batch->nrows == 1)
		describe_row(&failure, job->batch, &job->batch->rows[0]);
	fail_with(job->writer, &failure);
	dv_writer_give_up(job);
}

/*
 * Taking rows
 */

static void
release_key(dv_writer *writer, const dv_batch_row *row)
{
	if (row->key != 0)
		dv_keys_delete(writer->keys, row->key);
}

static void
note_fate(dv_writer *writer, const dv_batch_row *row, dv_fate fate)
{
	writer->tally.fates[fate]++;
	release_key(writer, row);
	if (row->owner != NULL)
		writer->spec.settled(row->owner, row, fate);
}

/* In a dry run, counts a batch as if the service had accepted it. */
static void
rehearse(dv_writer *writer, dv_batch *batch)
{
	int			i;

	writer->rows_sent += batch->nrows;
	for (i = 0; i < batch->nrows; i++)
		note_fate(writer, &batch->rows[i], DV_FATE_ACKNOWLEDGED);
}

static void
enqueue_open(dv_writer *writer)
{
	dv_job	   *job = dv_job_create(writer, &writer->spec, writer->open_context, writer->open,
									dv_job_route(&writer->spec, writer->open));

	if (writer->spec.is_fed != NULL && writer->spec.is_fed(writer->spec.arg))
	{
		job->barred = true;
		writer->barred++;
	}
	else if (writer->barred > 0)
		unbar(writer);
	enqueue(writer, job, false);
}

static void
seal_open(dv_writer *writer)
{
	if (writer->open == NULL || writer->open->nrows == 0)
		return;
	writer->tally.batches++;
	dv_batch_seal(writer->open);
	if (writer->spec.dry_run)
	{
		rehearse(writer, writer->open);
		MemoryContextDelete(writer->open_context);
	}
	else
		enqueue_open(writer);
	writer->open = NULL;
	writer->open_context = NULL;
}

static void
seal_then(dv_writer *writer)
{
	if (writer->then == NULL || writer->then->nrows == 0)
		return;
	writer->tally.batches++;
	dv_batch_seal(writer->then);
	enqueue(writer, dv_job_create(writer, &writer->spec, writer->then_context, writer->then,
								  dv_job_route(&writer->spec, writer->then)), false);
	writer->then = NULL;
	writer->then_context = NULL;
}

/* Takes the update that follows the creation of a row. */
static void
follow(dv_writer *writer, const dv_batch *batch, const dv_batch_row *row)
{
	if (writer->then == NULL)
	{
		writer->then_context = job_context(writer);
		writer->then = new_batch(writer, writer->then_context, DV_UPDATE,
								 writer->spec.batch_size);
	}
	dv_batch_copy_row(writer->then, batch, row, true);
	if (writer->then->nrows >= writer->spec.batch_size)
		seal_then(writer);
}

void
dv_writer_settle_row(dv_job *job, const dv_batch_row *row, dv_fate fate)
{
	dv_writer  *writer = job->writer;

	if (fate == DV_FATE_ACKNOWLEDGED)
	{
		writer->strikes = 0;
		/* an update that follows the creation of its row does not add a row */
		if (job->batch->operation == writer->spec.operation)
			dv_ledger_stays(&writer->entry, 1);
		if (row->then_len > 0)
		{
			follow(writer, job->batch, row);
			return;
		}
	}
	note_fate(writer, row, fate);
}

/* Sends what can be sent, and waits until there is room for another batch. */
static void
make_room(dv_writer *writer)
{
	pump(writer);
	while (!writer->failed && has_work(writer) &&
		   (writer->queued - writer->barred >= QUEUE_MAX || writer->barred >= BARRED_MAX ||
			writer->held >= HELD_MAX))
		wait_a_step(writer);
	if (writer->failed)
		fail(writer);
}

static bool
is_under_way(const dv_writer *writer, uint64 key)
{
	return dv_keys_lookup(writer->keys, key) != NULL;
}

static void
wait_for_key(dv_writer *writer, uint64 key)
{
	pump(writer);
	while (!writer->failed && is_under_way(writer, key))
	{
		if (!has_work(writer))
			seal_then(writer);
		wait_a_step(writer);
	}
	if (writer->failed)
		fail(writer);
}

void
dv_writer_wait_for(dv_writer *writer, uint64 key)
{
	int			i;

	if (!is_under_way(writer, key))
		return;
	/* the rows of a batch are created one after the other */
	for (i = 0; writer->open != NULL && i < writer->open->nrows; i++)
		if (writer->open->rows[i].key == key)
			return;
	wait_for_key(writer, key);
}

void
dv_writer_set_owner(dv_writer *writer, void *owner)
{
	writer->owner = owner;
}

StringInfo
dv_writer_begin_row(dv_writer *writer, const uint8 *id, const char *address, uint64 key)
{
	dv_batch_row *row;
	MemoryContext old;

	Assert(!writer->row_begun);
	/* another change to this row is not settled yet: it must be settled first */
	if (key != 0 && is_under_way(writer, key))
	{
		seal_open(writer);
		wait_for_key(writer, key);
	}
	if (writer->open == NULL)
	{
		writer->open_context = job_context(writer);
		writer->open = new_batch(writer, writer->open_context, writer->spec.operation,
								 writer->spec.batch_size);
	}
	old = MemoryContextSwitchTo(writer->open_context);
	row = dv_batch_begin_row(writer->open, id, address);
	MemoryContextSwitchTo(old);
	row->ordinal = ++writer->tally.taken;
	row->key = key;
	row->owner = writer->owner;
	if (key != 0)
	{
		bool		found;

		(void) dv_keys_insert(writer->keys, key, &found);
	}
	writer->row_begun = true;
	writer->begun_key = key;
	return &writer->open->bytes;
}

StringInfo
dv_writer_begin_then(dv_writer *writer)
{
	dv_batch_begin_then(writer->open);
	return &writer->open->extra;
}

void
dv_writer_end_then(dv_writer *writer)
{
	dv_batch_end_then(writer->open);
}

void
dv_writer_end_row(dv_writer *writer)
{
	dv_batch   *batch = writer->open;

	dv_batch_end_row(batch);
	writer->row_begun = false;
	if (batch->nrows < writer->spec.batch_size && batch->bytes.len < BATCH_BYTES_MAX)
		return;
	seal_open(writer);
	make_room(writer);
}

void
dv_writer_forget_row(dv_writer *writer, const dv_error *error)
{
	dv_failure	failure = {.error = error};

	writer->row_begun = false;
	if (writer->begun_key != 0)
		dv_keys_delete(writer->keys, writer->begun_key);
	if (error == NULL)
	{
		dv_batch_forget_row(writer->open);
		writer->tally.taken--;
		return;
	}
	/* it is filed with the members that were appended so far */
	dv_batch_end_row(writer->open);
	failure.first = failure.last = writer->tally.taken;
	describe_row(&failure, writer->open, &writer->open->rows[writer->open->nrows - 1]);
	writer->tally.fates[DV_FATE_REJECTED]++;
	if (!file(writer, &failure))
		fail(writer);
	dv_batch_forget_row(writer->open);
}

static void
check_tally(const dv_writer *writer)
{
	if (!dv_writer_is_settled(writer))
		elog(ERROR, "%lld rows were taken to %s, but %lld rows are settled",
			 (long long) writer->tally.taken, writer->spec.what,
			 (long long) settled(writer, false));
}

void
dv_writer_drain(dv_writer *writer)
{
	seal_open(writer);
	pump(writer);
	while (!writer->failed && (has_work(writer) || writer->then != NULL))
	{
		if (!has_work(writer))
			seal_then(writer);
		wait_a_step(writer);
	}
	if (writer->failed)
		fail(writer);
	check_tally(writer);
}

/*
 * Creating and freeing
 */

static void
writer_gone(void *arg)
{
	dv_writer  *writer = arg;

	dv_ledger_close(&writer->entry);
}

dv_writer *
dv_writer_create(const dv_writer_spec *spec, MemoryContext owner)
{
	MemoryContext context = AllocSetContextCreate(owner, "dataverse writer",
												  ALLOCSET_DEFAULT_SIZES);
	dv_writer  *writer = MemoryContextAllocZero(context, sizeof(*writer));
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));

	writer->context = context;
	writer->spec = *spec;
	writer->scratch = AllocSetContextCreate(context, "dataverse answer", ALLOCSET_SMALL_SIZES);
	dlist_init(&writer->queue);
	dlist_init(&writer->under_way);
	dlist_init(&writer->lost);
	writer->keys = dv_keys_create(context, 256, NULL);
	dv_ledger_open(&writer->entry, in_doubt);
	callback->func = writer_gone;
	callback->arg = writer;
	MemoryContextRegisterResetCallback(context, callback);
	return writer;
}

bool
dv_writer_is_settled(const dv_writer *writer)
{
	return writer->tally.taken == settled(writer, false);
}

bool
dv_writer_is_open(const dv_writer *writer)
{
	return writer->entry.open;
}

bool
dv_writer_is_dry(const dv_writer *writer)
{
	return writer->spec.dry_run;
}

const dv_tally *
dv_writer_tally(const dv_writer *writer)
{
	return &writer->tally;
}

int64
dv_writer_written(const dv_writer *writer)
{
	int64		rows = 0;
	int			fate;

	for (fate = 0; fate < DV_FATES; fate++)
		if (dv_fate_rules[fate].written)
			rows += writer->tally.fates[fate];
	return rows;
}

/*-------------------------------------------------------------------------
 *
 * writer.c
 *		Rows in, requests out.
 *
 * A row goes into the open batch.  A full batch becomes a job in the queue.
 * Jobs leave the queue in order, each as a call that waits for a slot; only
 * few may wait at a time, so that rows that are ready do not press upon the
 * pool.  When the queue is full, or too many bytes are held, whoever brings
 * rows waits.
 *
 * Rows that are the same row of the service are never under way at once: the
 * second waits until the first has come to its end.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "client/job.h"
#include "dataverse/header.h"

/* Sealed batches that wait behind those that want a slot. */
#define QUEUE_MAX 8
/* Sealed batches that wait for rows of another writer: enough to keep that one busy. */
#define BARRED_MAX 64
/* Calls that want a slot: enough to wake up several application users. */
#define WAITING_MAX 4
/* Calls that rest until they are repeated: few enough to leave a service alone that is down */
#define RESTING_MAX 32
/* Of all that is held. */
#define HELD_MAX ((size_t) 24 * 1024 * 1024)
/* A batch is full at that size, too; the service takes 128 MB, its sandbox less (facts 4.4) */
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

/*
 * Jobs
 */

static size_t
job_size(const dv_job *job)
{
	return job->batch->bytes.maxlen + job->batch->extra.maxlen +
		job->batch->room * sizeof(dv_batch_row);
}

static dv_job *
new_job(dv_writer *writer, MemoryContext context, dv_batch *batch, dv_route route)
{
	dv_job	   *job = MemoryContextAllocZero(writer->context, sizeof(*job));

	job->context = context;
	job->batch = batch;
	job->route = route;
	return job;
}

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

dv_job *
dv_job_create(dv_writer *writer, dv_operation operation, dv_route route, int room)
{
	MemoryContext context = job_context(writer);

	return new_job(writer, context, new_batch(writer, context, operation, room), route);
}

static void
enqueue(dv_writer *writer, dv_job *job, bool first)
{
	job->nrows = job->batch->nrows;
	writer->held += job_size(job);
	writer->queued++;
	if (first)
		dlist_push_head(&writer->queue, &job->node);
	else
		dlist_push_tail(&writer->queue, &job->node);
}

void
dv_job_queue(dv_writer *writer, dv_job *job)
{
	dv_batch_seal(job->batch);
	enqueue(writer, job, true);
}

void
dv_job_again(dv_writer *writer, dv_job *job, int64 delay)
{
	if (job->call != NULL)
		dv_call_free(job->call);
	job->call = NULL;
	job->in_doubt = false;
	job->not_before = dv_now() + delay;
	enqueue(writer, job, true);
}

void
dv_job_free(dv_writer *writer, dv_job *job)
{
	MemoryContextDelete(job->context);
	pfree(job);
}

static int64
doubtful_rows(const dlist_head *list)
{
	int64		rows = 0;
	dlist_iter	iter;

	dlist_foreach(iter, unconstify(dlist_head *, list))
	{
		const dv_job *job = dlist_container(dv_job, node, iter.cur);

		if (job->in_doubt || job->doubted)
			rows += job->nrows;
	}
	return rows;
}

static int64
in_doubt(const dv_ledger_entry *entry)
{
	const dv_writer *writer = (const dv_writer *) entry;

	return doubtful_rows(&writer->queue) + doubtful_rows(&writer->under_way) +
		doubtful_rows(&writer->lost);
}

/*
 * Sending
 */

static dv_kind
kind_of(const dv_job *job)
{
	static const dv_kind kinds[DV_EFFECTS] = {
		[DV_EFFECT_MADE] = DV_KIND_CREATE,
		[DV_EFFECT_MADE_OR_CHANGED] = DV_KIND_UPSERT,
		[DV_EFFECT_CHANGED] = DV_KIND_UPDATE,
		[DV_EFFECT_REMOVED] = DV_KIND_DELETE,
	};

	return job->route == DV_ROUTE_VERIFY ? DV_KIND_READ :
		kinds[dv_operation_rule_of(job->batch->operation)->effect];
}

/* Sent again after an unknown outcome, does it do no harm that could not be told? */
static bool
is_repeatable(const dv_job *job)
{
	int			i;

	if (job->route == DV_ROUTE_VERIFY || job->batch->operation != DV_CREATE)
		return true;
	for (i = 0; i < job->batch->nrows; i++)
		if (!job->batch->rows[i].has_id)
			return false;
	return true;
}

/* A request of parts, with the headers that belong to the whole. */
static void
prepare_parts(dv_job *job, dv_call_spec *spec)
{
	const char **headers = palloc0(3 * sizeof(char *));

	if (job->body.data == NULL)
		initStringInfo(&job->body);
	resetStringInfo(&job->body);
	dv_batch_parts(job->batch, job->route == DV_ROUTE_CHANGESET ?
				   DV_PARTS_CHANGESET : DV_PARTS_SINGLE, &job->body, &headers[0]);
	/* the status of the whole would say nothing of the rows that went before */
	headers[1] = DV_PREFER_CONTINUE;
	spec->path = "$batch";
	spec->headers = headers;
	spec->body = job->body.data;
	spec->body_len = job->body.len;
}

static void
send_job(dv_writer *writer, dv_job *job)
{
	MemoryContext old = MemoryContextSwitchTo(job->context);
	dv_call_spec spec = {.method = "POST", .pinned = -1};

	spec.kind = kind_of(job);
	spec.rows = job->batch->nrows;
	spec.repeatable = is_repeatable(job);
	switch (job->route)
	{
		case DV_ROUTE_BULK:
			spec.path = dv_batch_bulk_path(job->batch);
			spec.headers = writer->spec.destination.headers;
			spec.body = job->batch->bytes.data;
			spec.body_len = job->batch->bytes.len;
			break;
		case DV_ROUTE_SINGLE:
		case DV_ROUTE_CHANGESET:
			prepare_parts(job, &spec);
			break;
		case DV_ROUTE_VERIFY:
			spec.method = "GET";
			spec.path = dv_job_verify_path(writer, job);
			break;
	}
	if (job->route != DV_ROUTE_VERIFY)
		spec.in_doubt = &job->in_doubt;
	job->started_at = dv_now();
	if (job->first_sent == 0)
	{
		job->first_sent = job->started_at;
		if (job->batch->operation == writer->spec.operation)
			writer->rows_sent += job->nrows;
	}
	job->call = dv_call_start(writer->spec.session, &spec, job->context);
	dlist_push_tail(&writer->under_way, &job->node);
	writer->sent++;
	MemoryContextSwitchTo(old);
}

/* Calls that rest do not keep others from the slots that are free meanwhile. */
static bool
enough_waits(const dv_writer *writer)
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

/* Back into the queue, in order, with what has not left yet. */
static void
recall_waiting(dv_writer *writer)
{
	dlist_node *node = dlist_is_empty(&writer->under_way) ? NULL :
	dlist_tail_node(&writer->under_way);

	while (node != NULL)
	{
		dv_job	   *job = dlist_container(dv_job, node, node);

		node = dlist_has_prev(&writer->under_way, node) ?
			dlist_prev_node(&writer->under_way, node) : NULL;
		if (job->isolating || !dv_call_waiting(job->call) || dv_call_attempts(job->call) > 0)
			continue;
		dlist_delete(&job->node);
		writer->sent--;
		writer->held -= job_size(job);
		dv_job_again(writer, job, 0);
	}
}

static void
send_queued(dv_writer *writer)
{
	int64		now = dv_now();
	bool		only_isolating = has_isolating(&writer->queue) ||
	has_isolating(&writer->under_way);
	dlist_mutable_iter iter;

	writer->next_time = 0;
	/* a row was refused, and that may be the end: what comes later waits until it is known */
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
		/* what is ready waits for a call to end, not for a time */
		if (enough_waits(writer))
		{
			writer->next_time = 0;
			return;
		}
		dlist_delete(&job->node);
		writer->queued--;
		writer->held -= job_size(job);
		send_job(writer, job);
		writer->held += job_size(job);
		dv_call_advance();
	}
}

static void
settle_done(dv_writer *writer)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &writer->under_way)
	{
		dv_job	   *job = dlist_container(dv_job, node, iter.cur);

		if (!dv_call_done(job->call))
			continue;
		dlist_delete(&job->node);
		writer->sent--;
		writer->held -= job_size(job);
		dv_job_settle(writer, job);
	}
}

static void
tell_progress(const dv_writer *writer)
{
	const dv_tally *l = &writer->tally;

	if (writer->spec.progress != NULL)
		dv_progress_update(writer->spec.progress, l->taken, writer->rows_sent,
						   l->acknowledged + l->ignored + l->missing, l->rejected, writer->sent);
}

/* As far as it goes without waiting. */
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

/* An answer came while something was being sent. */
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

	/* nothing else is left to be sent: now what these rows refer to has to be there */
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
 * Failing.  What is on the wire is waited for; what has not left never will.
 */

static void
give_up(dv_writer *writer, dv_job *job)
{
	dlist_delete(&job->node);
	if (job->in_doubt || job->doubted)
		dlist_push_tail(&writer->lost, &job->node);
	else
		dv_job_free(writer, job);
}

static void
give_up_what_waits(dv_writer *writer)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &writer->queue)
		give_up(writer, dlist_container(dv_job, node, iter.cur));
	writer->queued = 0;
	dlist_foreach_modify(iter, &writer->under_way)
	{
		dv_job	   *job = dlist_container(dv_job, node, iter.cur);

		if (!dv_call_waiting(job->call))
			continue;
		dv_call_free(job->call);
		job->call = NULL;
		writer->sent--;
		give_up(writer, job);
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
	elog(ERROR, "a modification that failed did not end");
}

/*
 * Taking rows
 */

void
dv_writer_row_done(dv_writer *writer, const dv_batch_row *row)
{
	if (row->key != 0)
		dv_keys_delete(writer->keys, row->key);
}

/* Nothing is sent: it counts as if the service had taken it. */
static void
rehearse(dv_writer *writer, dv_batch *batch)
{
	int			i;

	writer->rows_sent += batch->nrows;
	for (i = 0; i < batch->nrows; i++)
		dv_writer_row_done(writer, &batch->rows[i]);
	writer->tally.acknowledged += batch->nrows;
}

static void
enqueue_open(dv_writer *writer)
{
	dv_job	   *job = new_job(writer, writer->open_context, writer->open,
							  dv_route_of(writer, writer->open));

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
	enqueue(writer, new_job(writer, writer->then_context, writer->then,
							dv_route_of(writer, writer->then)), false);
	writer->then = NULL;
	writer->then_context = NULL;
}

void
dv_writer_follow(dv_writer *writer, const dv_batch *batch, const dv_batch_row *row)
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

/* Sends what can be sent; returns when there is room for more. */
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
	/* rows of one batch are made one after the other */
	for (i = 0; writer->open != NULL && i < writer->open->nrows; i++)
		if (writer->open->rows[i].key == key)
			return;
	wait_for_key(writer, key);
}

StringInfo
dv_writer_begin_row(dv_writer *writer, const uint8 *id, const char *address, uint64 key)
{
	dv_batch_row *row;
	MemoryContext old;

	Assert(!writer->row_begun);
	/* a row that is not yet done comes again: the one before goes first */
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
	/* told with what was written of it so far */
	dv_batch_end_row(writer->open);
	failure.first = failure.last = writer->tally.taken;
	failure.object = dv_batch_object(writer->open, &writer->open->rows[writer->open->nrows - 1],
									 &failure.object_len);
	failure.id = writer->open->rows[writer->open->nrows - 1].has_id ?
		writer->open->rows[writer->open->nrows - 1].id : NULL;
	writer->tally.rejected++;
	if (!writer->spec.go_on || !writer->spec.reject(writer->spec.arg, &failure))
	{
		dv_writer_fail_with(writer, &failure);
		fail(writer);
	}
	dv_batch_forget_row(writer->open);
}

static void
check_tally(const dv_writer *writer)
{
	const dv_tally *l = &writer->tally;

	if (!dv_writer_is_settled(writer))
		elog(ERROR, "%lld rows were taken to %s, but %lld are accounted for",
			 (long long) l->taken, writer->spec.what,
			 (long long) (l->acknowledged + l->rejected + l->ignored + l->missing));
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
 * Beginning and end
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
	const dv_tally *l = &writer->tally;

	return l->taken == l->acknowledged + l->rejected + l->ignored + l->missing;
}

bool
dv_writer_is_open(const dv_writer *writer)
{
	return writer->entry.open;
}

const dv_tally *
dv_writer_tally(const dv_writer *writer)
{
	return &writer->tally;
}

bool
dv_writer_last_id(const dv_writer *writer, uint8 *id)
{
	if (writer->has_last_id)
		memcpy(id, writer->last_id, DV_ID_LEN);
	return writer->has_last_id;
}

/*
 * writer.c
 *		The way of rows into a pipeline.
 *
 * A row goes into the open batch.  A full batch becomes a job in the queue
 * (pipeline.c).  When the queue is full, or too many bytes are held, the
 * caller has to wait.
 *
 * Two changes to the same row of the service are never under way at the same
 * time: the second waits until the first is settled.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/keys.h"
#include "client/pipeline.h"

/* Most jobs in the queue, not counting barred ones */
#define QUEUE_MAX 8
/* Most barred jobs in the queue: enough to keep the writer busy for which they wait */
#define BARRED_MAX 64
/* Most bytes held by all jobs */
#define HELD_MAX ((size_t) 24 * 1024 * 1024)
/* Bytes at which a batch is full; the service takes 128 MB, its sandbox less */
#define BATCH_BYTES_MAX (8 * 1024 * 1024)

/*
 * Taking rows
 */

static void
note_fate(dv_writer *writer, const dv_batch_row *row, dv_fate fate)
{
	writer->tally.fates[fate]++;
	dv_keys_release(writer->keys, row->key);
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

	job->whole = dv_job_is_atomic(job);
	if (writer->spec.is_fed != NULL && writer->spec.is_fed(writer->spec.arg))
	{
		job->barred = true;
		writer->barred++;
	}
	else if (writer->barred > 0)
		dv_pipeline_unbar(writer);
	dv_pipeline_enqueue(writer, job, false);
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
	dv_pipeline_enqueue(writer, dv_job_create(writer, &writer->spec, writer->then_context, writer->then,
											  dv_job_route(&writer->spec, writer->then)), false);
	writer->then = NULL;
	writer->then_context = NULL;
}

/* Returns the number of rows at which a batch is full. */
static int
most_rows(const dv_writer *writer, const dv_batch *batch)
{
	return Min(writer->spec.batch_size,
			   dv_job_most(&writer->spec, dv_job_route(&writer->spec, batch)));
}

static bool
is_full(const dv_batch *batch, int most)
{
	return batch->nrows >= most || batch->bytes.len + batch->extra.len >= BATCH_BYTES_MAX;
}

/* Takes the update that follows the creation of a row. */
static void
follow(dv_writer *writer, const dv_batch *batch, const dv_batch_row *row)
{
	if (writer->then == NULL)
	{
		writer->then_context = dv_pipeline_job_context(writer);
		writer->then = dv_pipeline_new_batch(writer, writer->then_context, DV_UPDATE,
											 writer->spec.batch_size);
		writer->then_most = most_rows(writer, writer->then);
	}
	dv_batch_copy_row(writer->then, batch, row, true);
	if (is_full(writer->then, writer->then_most))
		seal_then(writer);
}

void
dv_writer_settle_row(dv_job *job, const dv_batch_row *row, dv_fate fate)
{
	dv_writer  *writer = job->writer;

	if (fate == DV_FATE_ACKNOWLEDGED)
	{
		writer->strikes = 0;
		writer->last_written = writer->settling_at;
		/* an update that follows the creation of its row does not add a row */
		if (!dv_job_is_then(job))
		{
			dv_ledger_stays(&writer->entry, 1);
			writer->stays++;
		}
		if (job->batch->operation == DV_CREATE && !writer->spec.ids_made)
			dv_keys_note_created(writer->keys, row->key, dv_now());
		if (row->then_len > 0)
		{
			follow(writer, job->batch, row);
			return;
		}
	}
	note_fate(writer, row, fate);
}

bool
dv_writer_created_twin(const dv_job *job, const dv_batch_row *row)
{
	return !job->spec->ids_made && dv_keys_was_created(job->writer->keys, row->key);
}

/* Sends as much as possible, and waits until there is room for another batch. */
static void
make_room(dv_writer *writer)
{
	dv_pipeline_pump(writer);
	while (!writer->failed && dv_pipeline_has_work(writer) &&
		   (writer->queued - writer->barred >= QUEUE_MAX || writer->barred >= BARRED_MAX ||
			writer->held >= HELD_MAX))
		dv_pipeline_wait_a_step(writer);
	if (writer->failed)
		dv_pipeline_fail(writer);
}

static bool
is_under_way(const dv_writer *writer, uint64 key)
{
	return dv_keys_rows(writer->keys, key) > 0;
}

static bool
is_in_open(const dv_writer *writer, uint64 key)
{
	int			i;

	for (i = 0; writer->open != NULL && i < writer->open->nrows; i++)
		if (writer->open->rows[i].key == key)
			return true;
	return false;
}

static void
wait_for_key(dv_writer *writer, uint64 key)
{
	dv_pipeline_pump(writer);
	while (!writer->failed && is_under_way(writer, key))
	{
		if (!dv_pipeline_has_work(writer))
			seal_then(writer);
		dv_pipeline_wait_a_step(writer);
	}
	if (writer->failed)
		dv_pipeline_fail(writer);
}

void
dv_writer_wait_for(dv_writer *writer, uint64 key)
{
	/* the rows of a batch are created one after the other */
	if (is_under_way(writer, key) && !is_in_open(writer, key))
		wait_for_key(writer, key);
}

/* Begins a row by an alternate key if there is one, or else by id or address. */
static StringInfo
begin_row(dv_writer *writer, const uint8 *id, const char *address, const dv_batch_key *by_key,
		  uint64 key)
{
	dv_batch_row *row;
	MemoryContext old;

	Assert(!writer->row_begun);

	/*
	 * Another change to this row must be settled first.  Rows to be created may have the same id
	 * in one batch, whose order the service keeps.
	 */
	if (key != 0 && is_under_way(writer, key) &&
		!(writer->spec.operation == DV_CREATE && is_in_open(writer, key)))
	{
		seal_open(writer);
		wait_for_key(writer, key);
	}
	if (writer->open == NULL)
	{
		writer->open_context = dv_pipeline_job_context(writer);
		writer->open = dv_pipeline_new_batch(writer, writer->open_context, writer->spec.operation,
											 writer->spec.batch_size);
		writer->open_most = most_rows(writer, writer->open);
	}
	old = MemoryContextSwitchTo(writer->open_context);
	row = by_key != NULL ? dv_batch_begin_keyed_row(writer->open, by_key) :
		dv_batch_begin_row(writer->open, id, address);
	MemoryContextSwitchTo(old);
	row->ordinal = ++writer->tally.taken;
	row->key = key;
	row->owner = writer->owner;
	dv_keys_hold(writer->keys, key);
	writer->row_begun = true;
	writer->begun_key = key;
	return &writer->open->bytes;
}

void
dv_writer_set_owner(dv_writer *writer, void *owner)
{
	writer->owner = owner;
}

StringInfo
dv_writer_begin_row(dv_writer *writer, const uint8 *id, const char *address, uint64 key)
{
	return begin_row(writer, id, address, NULL, key);
}

StringInfo
dv_writer_begin_keyed_row(dv_writer *writer, const dv_batch_key *by_key, uint64 key)
{
	return begin_row(writer, NULL, NULL, by_key, key);
}

void
dv_writer_set_version(dv_writer *writer, int64 version)
{
	dv_batch_set_version(writer->open, version);
}

void
dv_writer_end_head(dv_writer *writer)
{
	dv_batch_end_head(writer->open);
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
	if (!is_full(batch, writer->open_most))
		return;
	seal_open(writer);
	make_room(writer);
}

void
dv_writer_refuse_row(dv_writer *writer, dv_failure *failure)
{
	const dv_batch_row *row = &writer->open->rows[writer->open->nrows - 1];

	failure->first = failure->last = row->ordinal;
	if (row->has_id && !row->by_key)
		failure->id = memcpy(palloc(DV_ID_LEN), row->id, DV_ID_LEN);
	dv_batch_forget_row(writer->open);
	dv_keys_release(writer->keys, writer->begun_key);
	writer->row_begun = false;
	writer->tally.fates[DV_FATE_REJECTED]++;
}

void
dv_writer_file_row(dv_writer *writer, const dv_failure *failure)
{
	if (!dv_pipeline_file(writer, failure))
		dv_pipeline_fail(writer);
}

static void
check_tally(const dv_writer *writer)
{
	if (!dv_writer_is_settled(writer))
		elog(ERROR, "%lld rows were taken to %s, but %lld rows are settled",
			 (long long) writer->tally.taken, writer->spec.what,
			 (long long) dv_pipeline_settled(writer, false));
}

void
dv_writer_drain(dv_writer *writer)
{
	seal_open(writer);
	dv_pipeline_pump(writer);
	while (!writer->failed && (dv_pipeline_has_work(writer) || writer->then != NULL))
	{
		if (!dv_pipeline_has_work(writer))
			seal_then(writer);
		dv_pipeline_wait_a_step(writer);
	}
	if (writer->failed)
		dv_pipeline_fail(writer);
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
	writer->keys = dv_keys_create(context);
	dv_ledger_open(&writer->entry, dv_pipeline_tell_doubts);
	callback->func = writer_gone;
	callback->arg = writer;
	MemoryContextRegisterResetCallback(context, callback);
	return writer;
}

bool
dv_writer_is_settled(const dv_writer *writer)
{
	return writer->tally.taken == dv_pipeline_settled(writer, false);
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
dv_writer_stays(const dv_writer *writer)
{
	return writer->stays;
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

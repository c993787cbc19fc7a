/*
 * job.c
 *		Jobs: creating, copying and sending them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/forms.h"
#include "client/job.h"
#include "client/pipeline.h"
#include "client/trouble.h"
#include "dataverse/header.h"

/*
 * Routes
 */

static dv_form
bulk_form(dv_operation operation)
{
	Assert(operation <= DV_DELETE);
	return DV_FORM_CREATE_MULTIPLE + (operation - DV_CREATE);
}

void
dv_job_bulk_refused(const dv_job *job, const dv_error *error)
{
	dv_form_refused(job->spec->session, bulk_form(job->batch->operation),
					job->spec->destination.table, 0, error);
	dv_pipeline_reconsider(job->writer);
}

dv_route
dv_job_route(const dv_writer_spec *spec, const dv_batch *batch)
{
	return dv_batch_bulk_path(batch) != NULL &&
		dv_form_most(spec->session, bulk_form(batch->operation), spec->destination.table, 1) > 0 ?
		DV_ROUTE_BULK : DV_ROUTE_SINGLE;
}

int
dv_job_most(const dv_writer_spec *spec, dv_route route)
{
	if (route == DV_ROUTE_BULK || route == DV_ROUTE_VERIFY)
		return PG_INT32_MAX;
	return dv_form_most(spec->session, DV_FORM_BATCH_PARTS, NULL, PG_INT32_MAX);
}

int
dv_job_parts(const dv_job *job)
{
	switch (job->route)
	{
		case DV_ROUTE_SINGLE:
		case DV_ROUTE_CHANGESET:
			return job->batch->nrows;
		case DV_ROUTE_SEARCH:
			return dv_search_rows(job);
		case DV_ROUTE_BULK:
		case DV_ROUTE_VERIFY:
			break;
	}
	return 0;
}

void
dv_job_length_refused(const dv_job *job, const dv_error *error)
{
	dv_form_refused(job->spec->session, DV_FORM_BATCH_PARTS, NULL, (dv_job_parts(job) + 1) / 2,
					error);
	dv_pipeline_reconsider(job->writer);
}

/*
 * Creating and freeing
 */

/*
 * When a statement fails, its jobs are freed before the writer, because the
 * children of a memory context are deleted before its callbacks are called.
 * Therefore the first job to be freed makes the writer note which rows are in
 * doubt.
 */
static void
job_gone(void *arg)
{
	dv_job	   *job = arg;

	if (!job->freed)
		dv_ledger_close(&job->writer->entry);
}

dv_job *
dv_job_create(dv_writer *writer, const dv_writer_spec *spec, MemoryContext context,
			  dv_batch *batch, dv_route route)
{
	dv_job	   *job = MemoryContextAllocZero(MemoryContextGetParent(context), sizeof(*job));
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));

	callback->func = job_gone;
	callback->arg = job;
	MemoryContextRegisterResetCallback(context, callback);
	job->writer = writer;
	job->spec = spec;
	job->context = context;
	job->batch = batch;
	job->route = route;
	return job;
}

void
dv_job_free(dv_job *job)
{
	job->freed = true;
	MemoryContextDelete(job->context);
	pfree(job);
}

dv_job *
dv_job_like(const dv_job *from, dv_operation operation, dv_route route)
{
	MemoryContext context = AllocSetContextCreate(MemoryContextGetParent(from->context),
												  "dataverse batch", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_batch   *batch = dv_batch_create(operation, from->batch->destination, from->batch->nrows);
	dv_job	   *job = dv_job_create(from->writer, from->spec, context, batch, route);

	MemoryContextSwitchTo(old);
	job->was_in_doubt = from->was_in_doubt;
	job->isolating = from->isolating;
	job->only = from->only;
	job->after_search = from->after_search;
	job->first_sent = from->first_sent;
	if (route == from->route)
		job->retry = from->retry;
	return job;
}

void
dv_job_note_refusal(dv_job *job, int row, const dv_error *error)
{
	MemoryContext old = MemoryContextSwitchTo(job->context);

	if (job->refusals == NULL)
		job->refusals = palloc0(sizeof(dv_error) * job->batch->room);
	dv_trouble_copy(&job->refusals[row], error);
	MemoryContextSwitchTo(old);
}

dv_job *
dv_job_keep(dv_job *kept, const dv_job *from, const dv_batch_row *row, dv_route route)
{
	const dv_error *refusal = NULL;

	if (from->refusals != NULL)
		refusal = &from->refusals[row - from->batch->rows];
	if (kept == NULL)
		kept = dv_job_like(from, from->batch->operation, route);
	dv_batch_copy_row(kept->batch, from->batch, row, false);
	if (refusal != NULL && refusal->message != NULL)
		dv_job_note_refusal(kept, kept->batch->nrows - 1, refusal);
	return kept;
}

void
dv_job_split(dv_job *job, int most, dlist_head *pieces)
{
	dv_job	   *piece = NULL;
	int			i;

	for (i = 0; i < job->batch->nrows; i++)
	{
		bool		first = i % most == 0;

		piece = dv_job_keep(first ? NULL : piece, job, &job->batch->rows[i], job->route);
		if (!first)
			continue;
		piece->barred = job->barred;
		piece->not_before = job->not_before;
		dlist_push_tail(pieces, &piece->node);
	}
	dv_job_free(job);
}

size_t
dv_job_size(const dv_job *job)
{
	return job->batch->bytes.maxlen + job->batch->extra.maxlen +
		job->batch->room * sizeof(dv_batch_row);
}

bool
dv_job_is_in_doubt(const dv_job *job)
{
	return job->in_doubt || job->was_in_doubt;
}

bool
dv_job_writes(const dv_job *job)
{
	return job->route != DV_ROUTE_VERIFY && job->route != DV_ROUTE_SEARCH;
}

bool
dv_job_is_then(const dv_job *job)
{
	/* rows that were found by their key are updated, too */
	return job->batch->operation != job->spec->operation && !job->batch->rows[0].by_key;
}

bool
dv_job_is_atomic(const dv_job *job)
{
	return job->batch->destination->type == DV_TABLE_STANDARD &&
		(job->route == DV_ROUTE_BULK || job->route == DV_ROUTE_CHANGESET);
}

bool
dv_job_is_repeatable(const dv_job *job)
{
	int			i;

	if (!dv_job_writes(job) || job->batch->operation != DV_CREATE)
		return true;
	for (i = 0; i < job->batch->nrows; i++)
		if (!job->batch->rows[i].has_id)
			return false;
	return true;
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

	return !dv_job_writes(job) ? DV_KIND_READ :
		kinds[dv_operation_rule_of(job->batch->operation)->effect];
}

/* Prepares a $batch. */
static void
prepare_parts(dv_job *job, dv_call_spec *spec)
{
	const char **headers = palloc0(3 * sizeof(char *));

	if (job->body.data == NULL)
		initStringInfo(&job->body);
	resetStringInfo(&job->body);
	if (job->route == DV_ROUTE_SEARCH)
		dv_search_request(job, &job->body, &headers[0]);
	else
		dv_batch_parts(job->batch, job->route == DV_ROUTE_CHANGESET ?
					   DV_PARTS_CHANGESET : DV_PARTS_SINGLE, &job->body, &headers[0]);
	/* a $batch that stops at a failure would report nothing about the rows before it */
	headers[1] = DV_PREFER_CONTINUE;
	spec->path = "$batch";
	spec->headers = headers;
	spec->body = job->body.data;
	spec->body_len = job->body.len;
}

void
dv_job_start(dv_job *job)
{
	MemoryContext old = MemoryContextSwitchTo(job->context);
	dv_call_spec spec = {.method = "POST"};

	spec.kind = kind_of(job);
	spec.rows = job->batch->nrows;
	spec.repeatable = dv_job_is_repeatable(job);
	/* see dv_settle_job(): a change set or a query of rows is not divided */
	spec.divisible = job->batch->nrows > 1 &&
		(job->route == DV_ROUTE_BULK || job->route == DV_ROUTE_SINGLE);
	spec.table = job->batch->destination->entity_set;
	/* a user that may not write the rows may be able to read them */
	spec.only = job->route != DV_ROUTE_VERIFY ? job->only : 0;
	switch (job->route)
	{
		case DV_ROUTE_BULK:
			spec.path = dv_batch_bulk_path(job->batch);
			spec.headers = job->spec->destination.headers;
			spec.body = job->batch->bytes.data;
			spec.body_len = job->batch->bytes.len;
			break;
		case DV_ROUTE_SINGLE:
		case DV_ROUTE_CHANGESET:
		case DV_ROUTE_SEARCH:
			prepare_parts(job, &spec);
			break;
		case DV_ROUTE_VERIFY:
			spec.method = "GET";
			spec.path = dv_verify_path(job);
			break;
	}
	if (dv_job_writes(job))
	{
		job->whole &= dv_job_is_atomic(job);
		spec.in_doubt = &job->in_doubt;
	}
	spec.hold = &job->writer->hold;
	if (job->route != DV_ROUTE_VERIFY)
		spec.history = &job->retry;
	job->call = dv_call_start(job->spec->session, &spec, job->context);
	MemoryContextSwitchTo(old);
}

void
dv_job_rewind(dv_job *job)
{
	if (job->call != NULL)
		dv_call_free(job->call);
	job->call = NULL;
	job->in_doubt = false;
}

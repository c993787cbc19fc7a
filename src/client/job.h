/*-------------------------------------------------------------------------
 *
 * job.h
 *		A batch on its way: what writer.c, settle.c and verify.c share.
 *
 * writer.c takes rows, queues jobs and sends them.  When a job's call is
 * done, settle.c reads the answer and decides the fate of each row, or what
 * else has to be sent.  verify.c finds out which rows are there.
 *
 * Rows are in doubt if they were sent and nobody knows whether they were
 * written.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_JOB_H
#define DV_JOB_H

#include "lib/ilist.h"

#include "client/writer.h"

/* How rows are sent, or looked for. */
typedef enum dv_route
{
	DV_ROUTE_BULK,				/* the bulk message */
	DV_ROUTE_SINGLE,			/* $batch of single requests */
	DV_ROUTE_CHANGESET,			/* $batch of one changeset */
	DV_ROUTE_VERIFY				/* a query: which of them are there? */
} dv_route;

/* A sealed batch on its way.  The struct lives as long as the writer, its bytes below "context". */
typedef struct dv_job
{
	dlist_node	node;			/* in a list of the writer */
	dv_writer  *writer;
	const dv_writer_spec *spec; /* the writer's */
	MemoryContext context;
	dv_batch   *batch;
	int			nrows;			/* of it: outlives it */
	dv_route	route;
	dv_call    *call;			/* under way, or answered */
	StringInfoData body;		/* other than the batch's bytes */
	bool		in_doubt;		/* its rows are, by the request under way: kept by the call */
	bool		was_in_doubt;	/* they are, by an earlier request */
	bool		isolating;		/* the statement fails unless this finds that nothing is wrong */
	bool		barred;			/* what its rows may refer to is still under way */
	dv_retry	retry;
	int64		not_before;		/* it is to be sent again */
	int64		started_at;
	int64		first_sent;		/* of these rows, in whatever job */
	int			verifications;	/* how often the rows of a refused change set were looked for */

	/* DV_ROUTE_VERIFY */
	dv_error   *refusals;		/* what each row was refused with */
	bool		refused_whole;	/* with a bulk message or a change set, as one */
	int			verified;		/* rows up to here have been looked for */
	bool	   *found;			/* those that are there */
} dv_job;

/*
 * job.c
 */

/* Takes over the batch and the context that holds it. */
extern dv_job *dv_job_create(dv_writer *writer, const dv_writer_spec *spec, MemoryContext context,
							 dv_batch *batch, dv_route route);
extern void dv_job_free(dv_job *job);

/* Of several rows, those that are not done, in a job of their own ("kept", made when it is NULL). */
extern dv_job *dv_job_keep(dv_job *kept, const dv_job *from, const dv_batch_row *row,
						   dv_route route);

/* Bytes that it holds. */
extern size_t dv_job_size(const dv_job *job);

/* Starts its call. */
extern void dv_job_start(dv_job *job);

/* Forgets its call: it is to be sent once more. */
extern void dv_job_rewind(dv_job *job);

extern bool dv_job_is_in_doubt(const dv_job *job);

/* May all of its rows be sent again after an unknown outcome, because that can be told? */
extern bool dv_job_is_repeatable(const dv_job *job);

/* How the rows of a batch are sent, as far as this backend has found out about their table. */
extern dv_route dv_job_route(const dv_writer_spec *spec, const dv_batch *batch);

/* The table has no such bulk message. */
extern void dv_job_learn_no_bulk(const dv_job *job);

/*
 * settle.c
 */

/* What becomes of a job whose call is done; frees it, or queues what is left of it. */
extern void dv_settle_job(dv_job *job);

/*
 * Rows of a job that are refused for good: an error for each, or NULL.  The
 * callback that files them may raise.
 */
extern void dv_settle_refusals(dv_job *job, const dv_error *const *errors);

/* Its answer makes no sense: it is sent once more, or the statement fails. */
extern void dv_settle_unreadable(dv_job *job);

/* To find out which row is at fault. */
extern void dv_settle_isolate(dv_job *job);

/*
 * verify.c
 */

/* The path that looks for the next rows. */
extern const char *dv_verify_path(const dv_job *job);

/* What a row was refused with, should it not be there. */
extern void dv_verify_note_refusal(dv_job *job, int row, const dv_error *error);

/* Reads the answer. */
extern void dv_verify_settle(dv_job *job, const dv_error *error);

/*
 * writer.c, which is told what becomes of a job
 */

/* To be sent next; seals its batch. */
extern void dv_writer_queue(dv_job *job);

/* The same rows and bytes once more. */
extern void dv_writer_again(dv_job *job, int64 delay);

/* A row has come to its end: others with the same key may go. */
extern void dv_writer_settle_row(dv_job *job, const dv_batch_row *row, dv_fate fate);

/* A row was refused: it is filed, or the statement fails. */
extern void dv_writer_reject(dv_job *job, const dv_batch_row *row, const dv_error *error);

/* The statement fails: this job's rows cannot be written.  Gives it up. */
extern void dv_writer_fail_job(dv_job *job, const dv_error *error);

/* It will not be sent again. */
extern void dv_writer_give_up(dv_job *job);

/* The id of a row that was just created. */
extern void dv_writer_note_id(dv_writer *writer, const uint8 *id);

#endif							/* DV_JOB_H */

/*-------------------------------------------------------------------------
 *
 * job.h
 *		What writer.c and settle.c share: a batch under way, and whose it is.
 *
 * writer.c takes rows, queues jobs and sends them; settle.c reads answers
 * and decides what becomes of each row.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_JOB_H
#define DV_JOB_H

#include "client/ledger.h"
#include "client/writer.h"

/* What is asked of the service about the rows of a job. */
typedef enum dv_route
{
	DV_ROUTE_BULK,				/* the bulk message */
	DV_ROUTE_SINGLE,			/* $batch of single requests */
	DV_ROUTE_CHANGESET,			/* $batch of one changeset */
	DV_ROUTE_VERIFY				/* which of them are there: to settle what nobody knows */
} dv_route;

/* A sealed batch on its way.  The struct lives as long as the writer, its bytes below "context". */
typedef struct dv_job
{
	dlist_node	node;			/* in queue or under_way */
	MemoryContext context;
	dv_batch   *batch;
	int			nrows;			/* of it: outlives it */
	dv_route	route;
	dv_call    *call;			/* under way */
	StringInfoData body;		/* other than the batch's bytes */
	bool		in_doubt;		/* rows may have been written: kept by the call */
	bool		doubted;		/* so they may, by an earlier request */
	bool		isolating;		/* the statement fails unless this finds that nothing is wrong */
	bool		whole;			/* VERIFY: about a bulk message that was refused as one */
	bool		barred;			/* what its rows may refer to is still under way */
	dv_retry	retry;
	int64		not_before;		/* it is to be sent again */
	int64		started_at;
	int64		first_sent;		/* of these rows, in whatever job */
	int			questions;		/* how often a refused change set was asked for */
	dv_error   *errors;			/* VERIFY: what each row was refused with */
	int			asked;			/* VERIFY: rows up to here have been asked for */
	bool	   *found;			/* VERIFY: those that are there */
} dv_job;

/* Rows under way that must not overtake each other. */
struct dv_keys_hash;

struct dv_writer
{
	dv_ledger_entry entry;		/* first: found by it */
	MemoryContext context;
	MemoryContext scratch;		/* of one answer */
	dv_writer_spec spec;
	dv_batch   *open;			/* rows being taken; NULL: none */
	MemoryContext open_context;
	dv_batch   *then;			/* updates that follow rows just created; NULL: none */
	MemoryContext then_context;
	bool		row_begun;
	uint64		begun_key;
	dlist_head	queue;			/* sealed, in order */
	dlist_head	under_way;
	dlist_head	lost;			/* given up, in doubt */
	int			queued;
	int			barred;			/* of them: they wait for another writer's rows */
	int			sent;			/* jobs under way */
	int64		next_time;		/* when something queued may be sent, if only time keeps it; or 0 */
	int64		rows_sent;		/* rows that have been sent at least once */
	size_t		held;			/* bytes of jobs */
	struct dv_keys_hash *keys;
	dv_tally	tally;
	bool		failed;			/* nothing more is sent */
	dv_failure	failure;		/* the first */
	dv_error	error;			/* it points here */
	uint8		last_id[DV_ID_LEN];
	bool		has_last_id;
};

/* What became of a job whose call is done; frees it, or queues what is left of it. */
extern void dv_job_settle(dv_writer *writer, dv_job *job);

/* A job for rows that are copied into it, and its way into the queue. */
extern dv_job *dv_job_create(dv_writer *writer, dv_operation operation, dv_route route, int room);
extern void dv_job_queue(dv_writer *writer, dv_job *job);
extern void dv_job_free(dv_writer *writer, dv_job *job);

/* The same rows and bytes once more. */
extern void dv_job_again(dv_writer *writer, dv_job *job, int64 delay);

/* An update that follows a row just created. */
extern void dv_writer_follow(dv_writer *writer, const dv_batch *batch, const dv_batch_row *row);

/* The row has come to its end: others with the same key may go. */
extern void dv_writer_row_done(dv_writer *writer, const dv_batch_row *row);

/* Nothing more is sent, and what is on the wire is the last; the first failure counts. */
extern void dv_writer_fail_with(dv_writer *writer, const dv_failure *failure);

/* VERIFY: the path that asks for the next rows. */
extern const char *dv_job_verify_path(const dv_writer *writer, const dv_job *job);

/* VERIFY: what a row was refused with, should it not be there. */
extern void dv_job_note_refusal(dv_job *job, int row, const dv_error *error);

/* VERIFY: reads the answer. */
extern void dv_job_settle_verify(dv_writer *writer, dv_job *job, const dv_error *error);

/*
 * Rows of a job that are refused for good: an error for each, or NULL.  Who
 * is told of them may raise.
 */
extern void dv_job_refuse(dv_writer *writer, const dv_job *job, const dv_error *const *errors);

/* One row of a job, written. */
extern void dv_job_acknowledge(dv_writer *writer, const dv_job *job, const dv_batch_row *row);

/* Its answers make no sense: once more, or the end of it. */
extern void dv_job_unreadable(dv_writer *writer, dv_job *job);

/* Ends the statement: this job's rows cannot be written. */
extern void dv_job_fail(dv_writer *writer, dv_job *job, const dv_error *error);

/* To find out which row is at fault. */
extern void dv_job_isolate(dv_writer *writer, dv_job *job);

/* Of several rows, those that are not done, in a job of their own (made when it is needed). */
extern dv_job *dv_job_keep(dv_writer *writer, dv_job *kept, const dv_job *from,
						   const dv_batch_row *row, dv_route route);

/* How this backend has found a table's rows to be written. */
extern dv_route dv_route_of(const dv_writer *writer, const dv_batch *batch);

#endif							/* DV_JOB_H */

/*
 * pipeline.h
 *		The state of a writer, which writer.c and pipeline.c share.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PIPELINE_H
#define DV_PIPELINE_H

#include "client/job.h"
#include "client/keys.h"
#include "client/ledger.h"

struct dv_writer
{
	dv_ledger_entry entry;		/* must be first: the ledger's callback casts it */
	MemoryContext context;
	MemoryContext scratch;		/* for settling one job */
	dv_writer_spec spec;
	dv_batch   *open;			/* rows being taken; NULL: none */
	MemoryContext open_context;
	int			open_most;		/* number of rows at which it is full */
	dv_batch   *then;			/* updates that follow rows just created; NULL: none */
	MemoryContext then_context;
	int			then_most;
	void	   *owner;			/* of rows begun from now on */
	bool		row_begun;
	uint64		begun_key;
	dlist_head	queue;			/* sealed, in order */
	dlist_head	under_way;
	dlist_head	lost;			/* given up, but in doubt */
	int			queued;			/* number of jobs in the queue */
	int			barred;			/* number of those that are barred */
	int			sent;			/* number of jobs under way */
	bool		reconsider;		/* a form of requests was refused, and jobs may be planned to use
								 * it */
	int64		next_time;		/* when a backoff of a queued job ends, if the queue waits for it;
								 * or 0 */
	int64		rows_sent;		/* rows that have been sent at least once */
	size_t		held;			/* bytes of jobs */
	dv_keys    *keys;
	dv_tally	tally;
	int64		stays;			/* rows that a rollback leaves in Dataverse */
	int			strikes;		/* requests given up for transient causes since a row was last
								 * written */
	int64		last_written;	/* when a row was last written; 0: never */
	int64		settling_at;	/* the current time while an answer is being settled */
	bool		hold;			/* no call gets a slot: some are done but not settled, or the
								 * statement has failed */
	bool		failed;			/* nothing more is sent */
	dv_failure	failure;		/* the first one */
	dv_error	error;			/* the strings that "failure" points to */
};

/* Creates the context of a job, and a batch in it with room for this many rows. */
extern MemoryContext dv_pipeline_job_context(dv_writer *writer);
extern dv_batch *dv_pipeline_new_batch(dv_writer *writer, MemoryContext context,
									   dv_operation operation, int room);

/* Puts a job into the queue, in front of all others or behind them. */
extern void dv_pipeline_enqueue(dv_writer *writer, dv_job *job, bool first);

/* Sends and settles jobs as far as possible without waiting. */
extern void dv_pipeline_pump(dv_writer *writer);

/* Waits until something happens, and pumps. */
extern void dv_pipeline_wait_a_step(dv_writer *writer);

/* Returns true if jobs are queued or under way. */
extern bool dv_pipeline_has_work(const dv_writer *writer);

/* Releases jobs that waited for rows to which their rows may refer. */
extern void dv_pipeline_unbar(dv_writer *writer);

/* Returns the number of rows settled: all of them, or only those that count as refused. */
extern int64 dv_pipeline_settled(const dv_writer *writer, bool only_refused);

/* Files a row that was refused; returns false if the statement fails instead. */
extern bool dv_pipeline_file(dv_writer *writer, const dv_failure *failure);
extern void dv_pipeline_describe_row(dv_failure *failure, const dv_batch *batch,
									 const dv_batch_row *row);

/* Waits for the requests on the wire, and raises the error of a writer that has failed. */
extern void dv_pipeline_fail(dv_writer *writer) __attribute__((noreturn));

/* The callback of the ledger, when the writer ends. */
extern int64 dv_pipeline_tell_doubts(const dv_ledger_entry *entry);

#endif							/* DV_PIPELINE_H */

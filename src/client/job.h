/*
 * job.h
 *		Jobs, which are sealed batches on their way: what pipeline.c, settle.c,
 *		verify.c and search.c share.
 *
 * writer.c takes rows and queues jobs, and pipeline.c sends them.  When a job's call is
 * done, settle.c reads the answer and decides the fate of each row, or what
 * else has to be sent.  verify.c finds out which rows exist, and search.c which
 * rows alternate keys mean.
 *
 * Rows are in doubt if they were sent and it is not known whether they were
 * written.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_JOB_H
#define DV_JOB_H

#include "lib/ilist.h"

#include "client/writer.h"

struct dv_row_answer;

/* How rows are sent, verified, or searched for. */
typedef enum dv_route
{
	DV_ROUTE_BULK,				/* the bulk message */
	DV_ROUTE_SINGLE,			/* a $batch of single requests */
	DV_ROUTE_CHANGESET,			/* a $batch of one change set */
	DV_ROUTE_VERIFY,			/* a query that finds those that exist */
	DV_ROUTE_SEARCH				/* a $batch of queries by alternate keys */
} dv_route;

/* The struct is allocated in the writer's context; "context" holds the batch. */
typedef struct dv_job
{
	dlist_node	node;			/* in one of the writer's lists */
	dv_writer  *writer;
	const dv_writer_spec *spec; /* the writer's */
	MemoryContext context;
	bool		freed;			/* by dv_job_free, rather than with the writer */
	dv_batch   *batch;
	int			nrows;			/* rows of the batch that have not been settled */
	dv_route	route;
	dv_call    *call;			/* under way or done; NULL: not sent */
	StringInfoData body;		/* of the request, unless it is the batch's bytes */
	bool		in_doubt;		/* the request under way puts its rows in doubt; set by the call */
	bool		was_in_doubt;	/* an earlier request has put its rows in doubt */
	bool		whole;			/* each request so far had all of these rows, and had to be
								 * carried out as a whole */
	bool		isolating;		/* a row was refused, and this job finds out which */
	bool		barred;			/* rows that its rows may refer to are still under way */
	uint64		only;			/* a bit for each user that may write it; 0: any.  The others were
								 * refused for lack of a privilege */
	dv_error   *suspicion;		/* the error of its bulk message, if that may mean that the table
								 * lacks the message; or NULL */
	dv_error   *refusals;		/* for each row, the error with which it was refused, which counts
								 * if the row does not exist, or if no other user can be asked; or
								 * NULL */
	dv_retry	retry;			/* history of each of its rows on this route */
	int64		not_before;		/* end of the backoff */
	int64		first_sent;		/* when these rows were first sent, in any job */
	dv_route	after_search;	/* DV_ROUTE_SEARCH: how the rows are sent afterwards */
	int			verifications;	/* number of verifications of the rows of a refused change set */
	bool		struck;			/* it counts in the writer's "strikes" */

	/* DV_ROUTE_VERIFY */
	bool		refused_whole;	/* the rows were refused together, not one by one */
	int			verified;		/* number of rows that have been verified */
	int			asked;			/* number of rows in the query under way */
	struct dv_findings *findings;	/* of the rows verified so far (proof.h); or NULL */
} dv_job;

/*
 * job.c
 */

/* The job will own the batch and the context that holds it. */
extern dv_job *dv_job_create(dv_writer *writer, const dv_writer_spec *spec, MemoryContext context,
							 dv_batch *batch, dv_route route);
extern void dv_job_free(dv_job *job);

/* Returns a job for rows of another one, with the same history. */
extern dv_job *dv_job_like(const dv_job *from, dv_operation operation, dv_route route);

/*
 * Copies a row of "from" that must be sent or verified again into the job
 * "kept", which is created if it is NULL.  Returns that job.
 */
extern dv_job *dv_job_keep(dv_job *kept, const dv_job *from, const dv_batch_row *row,
						   dv_route route);

/*
 * Cuts a job into jobs of at most "most" rows each, which are appended to the
 * list in order and have to be sealed.  Frees the job.
 */
extern void dv_job_split(dv_job *job, int most, dlist_head *pieces);

/* Notes the error with which a row was refused. */
extern void dv_job_note_refusal(dv_job *job, int row, const dv_error *error);

/* Returns the number of bytes that the job holds. */
extern size_t dv_job_size(const dv_job *job);

/* Starts the job's call. */
extern void dv_job_start(dv_job *job);

/* Frees the job's call, so that the job can be sent again. */
extern void dv_job_rewind(dv_job *job);

extern bool dv_job_is_in_doubt(const dv_job *job);

/* Returns true if the job writes rows, as opposed to reading which of them exist. */
extern bool dv_job_writes(const dv_job *job);

/* Returns true if these are the updates that follow the creation of rows. */
extern bool dv_job_is_then(const dv_job *job);

/*
 * Returns true if the request of the job's route is carried out either as a whole or not at all.
 */
extern bool dv_job_is_atomic(const dv_job *job);

/*
 * Returns true if the job can be sent again after an unknown outcome, because
 * rows that were written the first time will be recognized.
 */
extern bool dv_job_is_repeatable(const dv_job *job);

/* Returns how to send the rows of a batch, as far as this session knows their table. */
extern dv_route dv_job_route(const dv_writer_spec *spec, const dv_batch *batch);

/* Returns the most parts of a request on this route, as far as this session knows. */
extern int	dv_job_most(const dv_writer_spec *spec, dv_route route);

/* Returns the number of parts of the job's request; 0: it is not a $batch. */
extern int	dv_job_parts(const dv_job *job);

/* Remembers that the service has refused the bulk message of this job. */
extern void dv_job_bulk_refused(const dv_job *job, const dv_error *error);

/* Remembers that the service has refused a $batch with as many parts as this job has. */
extern void dv_job_length_refused(const dv_job *job, const dv_error *error);

/*
 * settle.c
 */

/* Settles a job whose call is done: frees it, or queues what is left of it. */
extern void dv_settle_job(dv_job *job);

/*
 * Settles the rows of a job that were refused.  "errors" has one element for
 * each row, NULL if it was not refused.  The callback that files the rows may
 * raise an error.
 */
extern void dv_settle_refusals(dv_job *job, const dv_error *const *errors);

/* Sends a job again whose answer cannot be read, or lets the statement fail. */
extern void dv_settle_unreadable(dv_job *job);

/* Sends a job again that was refused, in a way that shows which row is at fault. */
extern void dv_settle_isolate(dv_job *job);

/*
 * verify.c
 */

/* Returns the path of the query that verifies the next rows. */
extern const char *dv_verify_path(dv_job *job);

/* Settles a job whose query is done, or queues the next query. */
extern void dv_verify_settle(dv_job *job, const dv_error *error);

/*
 * search.c
 */

/* The jobs that the rows of one job go into. */
typedef struct dv_search
{
	dv_job	   *found;
	dv_job	   *missing;
	dv_job	   *others;			/* rows of the job that needed no query */
	dv_job	   *again;			/* rows that are sent again as they were taken */
} dv_search;

/* Lets a job that joins the queue look for its rows first, if necessary. */
extern void dv_search_before(dv_job *job);

/* Returns how many of its rows a job looks for. */
extern int	dv_search_rows(const dv_job *job);

/* Appends the request of a job that looks for rows. */
extern void dv_search_request(const dv_job *job, StringInfo body, const char **content_type);

/* Reads the answer to that request, row by row. */
extern void dv_search_answers(const dv_job *job, struct dv_row_answer *answers);

/* Copies a row whose query was answered to the job for its next step. */
extern void dv_search_settle(dv_search *search, const dv_job *job, const dv_batch_row *row,
							 const struct dv_row_answer *answer);

/*
 * Returns true if a row was refused only because of other clients' changes to
 * the row with its key.  "missing": the error says that the row does not
 * exist.
 */
extern bool dv_search_helps(const dv_batch *batch, const dv_batch_row *row, const dv_error *error,
							bool missing);

/* Copies such a row, to be sent again. */
extern void dv_search_again(dv_search *search, const dv_job *job, const dv_batch_row *row);

/* Queues the jobs. */
extern void dv_search_queue(dv_search *search);

/*
 * pipeline.c
 */

/* Seals the batch of a new job and puts the job at the head of the queue. */
extern void dv_pipeline_queue(dv_job *job);

/* Puts a job that was sent back at the head of the queue, to be sent after "delay". */
extern void dv_pipeline_again(dv_job *job, int64 delay);

/* Files a row that was refused, or lets the statement fail. */
extern void dv_pipeline_reject(dv_job *job, const dv_batch_row *row, const dv_error *error);

/* Gives up a job whose rows cannot be written, and lets the statement fail. */
extern void dv_pipeline_fail_job(dv_job *job, const dv_error *error);

/* Frees a job that will not be sent again, or keeps it for the count of rows in doubt. */
extern void dv_pipeline_give_up(dv_job *job);

/* Notes that the session has learned of a form that was refused. */
extern void dv_pipeline_reconsider(dv_writer *writer);

/*
 * writer.c
 */

/* Notes the fate of a row; another row with the same key may now be sent. */
extern void dv_writer_settle_row(dv_job *job, const dv_batch_row *row, dv_fate fate);

/*
 * Returns true if the existing row is another row of this statement with the
 * same id, created a moment ago.  A row that is merely on its way proves
 * nothing: the one whose values the existing row has is the one that was
 * created, and this is then known for the others.
 */
extern bool dv_writer_created_twin(const dv_job *job, const dv_batch_row *row);

#endif							/* DV_JOB_H */

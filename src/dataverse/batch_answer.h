/*
 * batch_answer.h
 *		The service's answers to batches, row by row.
 *
 * An answer that is incomplete, or does not have the form that the request
 * calls for, is broken: the outcome of the batch is then unknown.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_BATCH_ANSWER_H
#define DV_BATCH_ANSWER_H

#include "lib/stringinfo.h"

#include "dataverse/batch.h"
#include "dataverse/error.h"
#include "dataverse/multipart.h"

/*
 * CreateMultipleResponse: {"Ids":["guid",…]} in the order of the rows.
 * Returns false if the answer is broken.  "ids" has room for n; a NUL must
 * follow the body.
 */
extern bool dv_batch_answer_ids(const char *body, size_t len, int n, uint8 (*ids)[DV_ID_LEN]);

/* The outcome of one row. */
typedef struct dv_row_answer
{
	bool		told;			/* false if the answer says nothing about the row */
	int			status;			/* HTTP, or with the same meaning */
	dv_error	error;			/* as dv_error_read() sets it; its verdict is OK for 2xx */
	bool		has_id;			/* the answer contains the id of the created row */
	uint8		id[DV_ID_LEN];
} dv_row_answer;

/*
 * Plugin.BulkApiErrorDetails (dv_error.details) of an elastic table's partial
 * failure.  Rows that it does not list keep told = false.  Returns false if it
 * is broken; then all rows do.  The service gives statuses without reasons;
 * they are read as those of HTTP (409: the row exists already; 424: another row
 * is at fault, so the row is sent again).
 */
extern bool dv_batch_answer_details(const dv_error *whole, int n, dv_row_answer *rows);

/* Reads a part of the answer to a $batch like dv_error_read(). */
extern void dv_batch_answer_read(const dv_part *part, dv_error *error);

/*
 * The multipart answer to a $batch of single requests, in their order.  If the
 * answer ends early, the remaining rows keep told = false.  Returns false if it
 * is broken; the rows before that point count nevertheless.
 */
extern bool dv_batch_answer_parts(const char *content_type, const char *body, size_t len, int n,
								  dv_row_answer *rows);

/*
 * The same for the answer to a $batch of queries (dv_batch_search) that find at
 * most one row each: has_id is true if there is one.  A query that finds two
 * rows is a refusal, because then the columns are not a key.
 */
extern bool dv_batch_answer_found(const char *content_type, const char *body, size_t len,
								  const char *primary_id, int n, dv_row_answer *rows);

/*
 * The answer to a $batch whose only part is a changeset of n rows, sent with
 * or without continue-on-error.  Returns false if it is broken.  *failed is -1
 * if all rows were written (told is true for all of them then).  Otherwise no row was
 * written, and rows[*failed].error says why; if *failed is n, rows[0].error
 * says why, but not which row is at fault.
 */
extern bool dv_batch_answer_changeset(const char *content_type, const char *body, size_t len, int n,
									  dv_row_answer *rows, int *failed);

#endif							/* DV_BATCH_ANSWER_H */

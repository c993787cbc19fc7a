/*-------------------------------------------------------------------------
 *
 * batch_answer.h
 *		What the service answers to batches of rows, row by row.
 *
 * An answer that is not whole, or not what this request gets, is said to be
 * broken: who sent the batch then does not know what became of it.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_BATCH_ANSWER_H
#define DV_BATCH_ANSWER_H

#include "lib/stringinfo.h"

#include "dataverse/batch.h"
#include "dataverse/error.h"
#include "dataverse/multipart.h"

/*
 * CreateMultipleResponse: {"Ids":["guid",…]} in the order of the rows.
 * False: broken.  "ids" has room for n; a NUL stands behind the body.
 */
extern bool dv_batch_answer_ids(const char *body, size_t len, int n, uint8 (*ids)[DV_ID_LEN]);

/* What became of one row. */
typedef struct dv_row_answer
{
	bool		told;			/* false: the answer says nothing about it */
	int			status;			/* HTTP, or HTTP-like */
	dv_error	error;			/* verdict OK for 2xx; as dv_error_read() has it */
	bool		has_id;			/* of a row that was created */
	uint8		id[DV_ID_LEN];
} dv_row_answer;

/*
 * Plugin.BulkApiErrorDetails (dv_error.details) of an elastic table's partial
 * failure.  Rows that it does not list stay untold.  False: broken, and
 * nothing is told.  The service gives no reasons but statuses; they become
 * those of HTTP (409: exists already, 424: another row's fault, to be repeated).
 */
extern bool dv_batch_answer_details(const dv_error *whole, int n, dv_row_answer *rows);

/* What a part of the answer to a $batch says, as dv_error_read() has it. */
extern void dv_batch_answer_read(const dv_part *part, dv_error *error);

/*
 * The multipart answer to a $batch of single requests, in their order.  Rows
 * behind the end of an answer that ends early stay untold; false: broken at
 * that point (what was told before counts).
 */
extern bool dv_batch_answer_parts(const char *content_type, const char *body, size_t len, int n,
								  dv_row_answer *rows);

/*
 * The answer to a $batch whose only part is a changeset of n rows, sent with or
 * without continue-on-error.  Returns false if it is broken.  *failed: -1, all were carried out (rows are told);
 * else none was, and rows[*failed].error says why; n: none was, and rows[0].error
 * says why without saying which row is at fault.
 */
extern bool dv_batch_answer_changeset(const char *content_type, const char *body, size_t len, int n,
									  dv_row_answer *rows, int *failed);

#endif							/* DV_BATCH_ANSWER_H */

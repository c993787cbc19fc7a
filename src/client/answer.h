/*
 * answer.h
 *		Reads the answer to an attempt, for the call and for the pool.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ANSWER_H
#define DV_ANSWER_H

#include "client/session.h"
#include "dataverse/error.h"

/* A throttle of the request or, if that is a $batch that was not throttled itself, of a part. */
typedef struct dv_answer_throttle
{
	int			part;			/* number of the part, from 1; 0: the request */
	dv_error	error;
} dv_answer_throttle;

typedef struct dv_answer
{
	dv_error	error;			/* of the request */
	int			accepted;		/* number of parts that succeeded */
	int			failed;			/* number of other parts, including those that were throttled */
	int			nthrottles;
	dv_answer_throttle *throttles;
} dv_answer;

/*
 * Reads an answer, in the current memory context.  "in_batch" means that the
 * request is the only part of a $batch, so the part's error is the error of
 * the request.
 */
extern void dv_answer_read(const dv_http_call *http, bool in_batch, dv_answer *answer);

/*
 * Logs the service's answer at level DEBUG2, with the service's id of the
 * request.  "path" is the address below the root.
 */
extern void dv_answer_log(const dv_http_call *http, const char *method, const char *path);

/*
 * Returns the limit for the bytes of an answer; 0: the general limit.  The
 * answer to a write is in proportion to its rows, and errors and other small
 * answers have limits of their own.
 */
extern size_t dv_answer_largest(dv_kind kind, int rows);

/*
 * Returns true if it does not pay to have an answer compressed: a message that
 * writes rows returns their ids, which hardly shrink.  The parts of a $batch do.
 */
extern bool dv_answer_is_dense(dv_kind kind, bool is_batch);

/*
 * Fills in the report for the pool, in the current memory context.  "rows" is
 * the number of rows that were sent; rows that are read are counted elsewhere.
 */
extern void dv_answer_report(const dv_http_call *http, const dv_answer *answer, dv_kind kind,
							 int rows, dv_lease_report *report);

#endif							/* DV_ANSWER_H */

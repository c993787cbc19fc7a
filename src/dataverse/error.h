/*-------------------------------------------------------------------------
 *
 * error.h
 *		What the service says when it says no.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_ERROR_H
#define DV_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What can be done about an answer. */
typedef enum dv_verdict
{
	DV_VERDICT_OK,				/* 2xx, 304 */
	DV_VERDICT_REFUSED,			/* final: the content or the caller is at fault */
	DV_VERDICT_THROTTLED,
	DV_VERDICT_AUTH,			/* the token was not accepted: another, once */
	DV_VERDICT_RETRY			/* transient: the same request may do better later */
} dv_verdict;

/* What an error is about, as far as somebody acts on it. */
typedef enum dv_meaning
{
	DV_MEANING_OTHER,			/* no more than its verdict says */

	/* refused */
	DV_MEANING_CALLER,			/* it is about who asks: no row has been looked at */
	DV_MEANING_DUPLICATE,		/* a row with that key is there already */
	DV_MEANING_MISSING,			/* a row is not there: the one addressed, or one it refers to */
	DV_MEANING_TOO_LARGE,		/* less at a time may do */
	DV_MEANING_NO_BULK,			/* the table does not have this bulk message */
	DV_MEANING_COUNT_LIMIT,		/* more rows than the service counts */

	/* throttled */
	DV_MEANING_MANY_REQUESTS,
	DV_MEANING_LONG_EXECUTION,
	DV_MEANING_CONCURRENCY,

	/* transient */
	DV_MEANING_CONNECTION,
	DV_MEANING_TIMEOUT,
	DV_MEANING_SERVER,			/* 5xx */
	DV_MEANING_DEADLOCK,
	DV_MEANING_SQL_TIMEOUT,
	DV_MEANING_NEW_TABLE		/* bulk messages race with a change of the schema */
} dv_meaning;

/* An error in any of the shapes that the service gives it, in one memory context. */
typedef struct dv_error
{
	dv_verdict	verdict;
	dv_meaning	meaning;
	bool		outcome_unknown;	/* the request may have been carried out */
	int64_t		retry_after;	/* microseconds; -1: not said */
	int			status;			/* HTTP; 0: no answer */
	const char *code;			/* "0x80040237", "" when there is none */
	const char *name;			/* "DuplicateRecord", or NULL */
	const char *message;		/* never empty */
	bool		vague;			/* the message is another row's, or nobody's */
	const char *request_id;		/* REQ_ID, or NULL */
	const char *details;		/* BulkApiErrorDetails (JSON text), or NULL */
	const char *user;			/* application user that asked last, or NULL */
	int			attempts;		/* 0: not known */
	int			sqlstate;		/* MAKE_SQLSTATE form */
	const char *hint;			/* or NULL */
} dv_error;

/*
 * Reads an answer: headers may be NULL for parts of a $batch (then status,
 * body and Retry-After of the part are given).
 */
extern void dv_error_read(int status, const char *body, size_t len, const char *retry_after,
						  const char *request_id, dv_error *error);

/* Code, status, request id and who asked, as a sentence; "" if none is known. */
extern const char *dv_error_detail(const dv_error *error);

#endif							/* DV_ERROR_H */

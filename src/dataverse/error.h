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

#include "net/http.h"
#include "pool/pool.h"

/* What can be done about an answer. */
typedef enum dv_verdict
{
	DV_VERDICT_OK,				/* 2xx, 304 */
	DV_VERDICT_REFUSED,			/* final: the content or the caller is at fault */
	DV_VERDICT_THROTTLED,
	DV_VERDICT_AUTH,			/* the token was not accepted: another, once */
	DV_VERDICT_RETRY			/* transient; "cause" says which counter it counts against */
} dv_verdict;

/* An error of any of the shapes of facts 3.1, in one memory context. */
typedef struct dv_error
{
	dv_verdict	verdict;
	dv_retry_cause cause;		/* verdict RETRY */
	dv_throttle_cause throttle; /* verdict THROTTLED */
	bool		outcome_unknown;	/* the request may have been carried out */
	int64		retry_after;	/* microseconds; -1: not said */
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

/* The same for an exchange that did not end in an answer. */
extern void dv_error_transport(const dv_http_result *result, dv_error *error);

/* Code, status, request id and who asked, as a sentence; "" if none is known. */
extern const char *dv_error_detail(const dv_error *error);

/*
 * Raises it: "could not WHAT on server …" with what the service said; code,
 * status, request id and who asked in the detail.  "what" is a phrase that
 * begins with a verb: "insert into foreign table \"account\"".
 */
extern void dv_error_raise(const dv_error *error, const char *server, const char *what) __attribute__((noreturn));

#endif							/* DV_ERROR_H */

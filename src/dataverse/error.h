/*
 * error.h
 *		Errors of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ERROR_H
#define DV_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How to treat an answer. */
typedef enum dv_verdict
{
	DV_VERDICT_OK,				/* 2xx or 304 */
	DV_VERDICT_REFUSED,			/* final: the request or the caller is at fault */
	DV_VERDICT_THROTTLED,
	DV_VERDICT_AUTH,			/* the token was not accepted: try another one */
	DV_VERDICT_RETRY			/* transient: the same request may succeed later */
} dv_verdict;

/* The subject of an error, as far as anything depends on it. */
typedef enum dv_meaning
{
	DV_MEANING_OTHER,			/* nothing beyond its verdict */

	/* refused */
	DV_MEANING_CALLER,			/* it concerns the caller: no row has been looked at */
	DV_MEANING_USER,			/* the service does not admit the application user at all */
	DV_MEANING_PRIVILEGE,		/* the user may not do this to any row of the table */
	DV_MEANING_ACCESS,			/* the user may not do this, perhaps only to this row */
	DV_MEANING_DUPLICATE,		/* a row with that key exists already */
	DV_MEANING_MISSING,			/* a row does not exist: the one addressed, or one that it refers
								 * to */
	DV_MEANING_CHANGED,			/* the row has another version than the request says */
	DV_MEANING_NO_VERSIONS,		/* the table does not compare versions */
	DV_MEANING_TOO_LARGE,		/* smaller requests may succeed */
	DV_MEANING_MANY_PARTS,		/* a $batch has more parts than the service accepts */
	DV_MEANING_NO_BULK,			/* the table does not have this bulk message */
	DV_MEANING_COUNT_LIMIT,		/* the service does not count this many rows */
	DV_MEANING_MANY_VALUES,		/* a condition has too many values */

	/* throttled */
	DV_MEANING_MANY_REQUESTS,
	DV_MEANING_LONG_EXECUTION,
	DV_MEANING_CONCURRENCY,

	/* transient */
	DV_MEANING_CONNECTION,
	DV_MEANING_TIMEOUT,
	DV_MEANING_SERVER,			/* 5xx, or too costly a query */
	DV_MEANING_BUSY,			/* the service, not the user, is at its limits; a throttle if
								 * there is a Retry-After */
	DV_MEANING_DEADLOCK,
	DV_MEANING_SQL_TIMEOUT,
	DV_MEANING_NEW_TABLE		/* a bulk message conflicts with a recent change of the schema */
} dv_meaning;

/* Of change tracking: the token is too old, or the table is not tracked (MAKE_SQLSTATE form). */
#define DV_SQLSTATE_TOKEN_EXPIRED MAKE_SQLSTATE('D', 'V', '0', '0', '1')
#define DV_SQLSTATE_NOT_TRACKED MAKE_SQLSTATE('D', 'V', '0', '0', '2')

/* Hint for errors about alternate keys */
#define DV_KEY_HINT \
"Name the columns of an alternate key of the table, in option \"upsert_key\" or in argument \"key\" of dataverse.push().  The key must be active: its index cannot be built while several rows have the same values."

/* Hint for answers that do not come from the service */
#define DV_ANSWER_HINT "If the answer came from somewhere else, check options \"url\" and \"proxy\" of the server."

/* For names of tables that do not exist */
#define DV_TABLE_NAME_HINT "Specify the logical name of the table, such as \"account\"."

/*
 * An error in any of the forms that the service uses.  Its texts are in the
 * database encoding, except the details.
 *
 * Any of its texts can be a constant, or belong to the request, the token, or the
 * session that caused the error.  An assignment borrows them all, and is valid as
 * long as the request lives; to keep an error for longer, copy all texts
 * (dv_trouble_copy).
 */
typedef struct dv_error
{
	dv_verdict	verdict;
	dv_meaning	meaning;
	bool		outcome_unknown;	/* the request may have been carried out */
	bool		known;			/* the meaning of its code is known */
	int64_t		retry_after;	/* microseconds; -1 if absent */
	int			status;			/* HTTP; 0 if there was no answer */
	const char *code;			/* "0x80040237", or "" if there is none */
	const char *name;			/* "DuplicateRecord", or NULL */
	const char *message;		/* never empty */
	bool		vague;			/* the message is about another row, or about no particular one */
	const char *request_id;		/* REQ_ID, or NULL */
	const char *details;		/* BulkApiErrorDetails (JSON text, in UTF-8), or NULL */
	const char *user;			/* application user of the last attempt, or NULL */
	int			attempts;		/* 0 if unknown */
	int			sqlstate;		/* MAKE_SQLSTATE form */
	const char *hint;			/* or NULL */
} dv_error;

/*
 * Reads an answer.  retry_after, date and request_id, the values of headers, may
 * be NULL; for a part of a $batch they are those of the part.
 */
extern void dv_error_read(int status, const char *body, size_t len, const char *retry_after,
						  const char *date, const char *request_id, dv_error *error);

/* Returns true if the error concerns the user that sent the request: another one may succeed. */
extern bool dv_error_is_about_user(const dv_error *error);

/*
 * Returns true if smaller requests may succeed: this one was too large, took too long, or
 * collided with another one.
 */
extern bool dv_error_asks_for_less(const dv_error *error);

/*
 * Returns true if the service has refused rows.  It has not looked at any row if
 * it did not admit the caller, or if there was no answer.
 */
extern bool dv_error_is_about_rows(const dv_error *error);

/*
 * Returns code, status, Retry-After, request id, application user, and attempts
 * as a sentence; "" if none is known.
 */
extern const char *dv_error_detail(const dv_error *error);

#endif							/* DV_ERROR_H */

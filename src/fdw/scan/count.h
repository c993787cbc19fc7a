/*
 * count.h
 *		How many rows a table has, as far as the service says without returning them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_COUNT_H
#define DV_COUNT_H

#include "client/session.h"
#include "fdw/relation.h"

/* The smallest number returned by dv_count_told(); the table may also be one without a count. */
#define DV_FEWEST_ROWS 2

/* The most rows that the service counts when it is asked for an exact number. */
#define DV_COUNTED_ROWS 50000

/*
 * Requests the number of rows from the service, on behalf of the role.  It can be a
 * day old.  Returns at least DV_FEWEST_ROWS, since plans made for one row are
 * terrible for many, or -1 if the service does not keep a count of the table.
 */
extern double dv_count_told(const dv_relation *relation, Oid userid);

/* Returns false if the service does not keep a count of the table, as far as is known. */
extern bool dv_count_is_told(const dv_relation *relation, Oid userid);

/*
 * The same, but if there is no such count, the service counts the rows, up to
 * DV_COUNTED_ROWS.  Returns 0 if it does not.
 */
extern double dv_count_rows(const dv_relation *relation, Oid userid);

/*
 * Requests a number of rows by any path that has one as its answer.  Returns -1 if
 * there is no answer before "until" (dv_now scale), or none with a number.
 */
extern int64 dv_count_by_path(dv_session *session, const char *path, int64 until);

#endif							/* DV_COUNT_H */

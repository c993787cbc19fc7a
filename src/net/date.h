/*
 * date.h
 *		Dates, delays, and other numbers in HTTP headers.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DATE_H
#define DV_DATE_H

#include <stdint.h>

/* Converts "Sun, 06 Nov 1994 08:49:37 GMT" to seconds since 1970; -1 if it is not a date. */
extern int64_t dv_http_date(const char *value);

/*
 * The longest wait that a Retry-After can cause, in microseconds.  No sensible
 * value is longer, and the limit keeps sums from overflowing.
 */
#define DV_LONGEST_RETRY_AFTER (INT64_C(86400) * 1000000)

/*
 * Converts a Retry-After header, which has seconds (fractions are allowed) or a
 * date, to microseconds from now.  A date is compared with the service's clock,
 * that is, with the Date header of the same answer ("date"), or with our clock
 * if that is NULL.  Returns -1 if the value is absent, malformed, or longer than
 * a year.
 */
extern int64_t dv_retry_after(const char *value, const char *date, int64_t unix_now);

/*
 * Converts a header such as "1,200.00" to a number that fits every integer type.
 * Returns -1 if it is absent, not a number, negative, or too large.
 */
extern double dv_http_number(const char *value);

#endif							/* DV_DATE_H */

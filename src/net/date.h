/*
 * date.h
 *		Dates and delays in HTTP headers.
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
 * Converts a Retry-After header, which has seconds (fractions are allowed) or
 * a date, to microseconds from now.  Returns -1 if it is absent, malformed, or
 * longer than a year.
 */
extern int64_t dv_retry_after(const char *value, int64_t unix_now);

#endif							/* DV_DATE_H */

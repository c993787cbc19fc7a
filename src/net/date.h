/*
 * date.h
 *		Dates as HTTP headers give them.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DATE_H
#define DV_DATE_H

#include <stdint.h>

/* "Sun, 06 Nov 1994 08:49:37 GMT" in seconds since 1970; -1 when it is not one. */
extern int64_t dv_http_date(const char *value);

/*
 * Retry-After in microseconds: seconds (fractions allowed) or a date; -1 when it is absent,
 * malformed, or more than a year.
 */
extern int64_t dv_retry_after(const char *value, int64_t unix_now);

#endif							/* DV_DATE_H */

/*
 * clock.h
 *		The clock for all measurements, in microseconds.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CLOCK_H
#define DV_CLOCK_H

#include <stdint.h>
#include <time.h>

#define DV_MILLISECOND INT64_C(1000)
#define DV_SECOND INT64_C(1000000)

/* Returns monotonic microseconds, from the same clock in all processes of the machine. */
static inline int64_t
dv_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * DV_SECOND + now.tv_nsec / 1000;
}

#endif							/* DV_CLOCK_H */

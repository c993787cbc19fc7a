/*
 * speed.h
 *		How fast rows are processed, now and overall, and when the last one
 *		will be.
 *
 * The current speed is that of the last 30 seconds.  It is measured from the
 * oldest sample within that time, or from the beginning.  Other backends need
 * only that sample (dv_speed_mark) to compute the speed, and see it fall while
 * nothing happens.
 *
 * Pure: time is an argument, in microseconds; the state is a plain struct.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SPEED_H
#define DV_SPEED_H

#include <stdint.h>

#define DV_SPEED_SAMPLES 32

/* The number of rows processed by a point in time. */
typedef struct dv_speed_sample
{
	int64_t		at;
	int64_t		rows;
} dv_speed_sample;

typedef struct dv_speed
{
	int			newest;
	int			n;
	dv_speed_sample samples[DV_SPEED_SAMPLES];	/* a ring, at least a second apart */
} dv_speed;

/* The data from which another backend computes the speed. */
typedef struct dv_speed_mark
{
	dv_speed_sample since;
	dv_speed_sample last;
} dv_speed_mark;

extern void dv_speed_start(dv_speed *speed, int64_t now);

/* Records that "rows" rows have been processed since the start. */
extern dv_speed_mark dv_speed_note(dv_speed *speed, int64_t rows, int64_t now);

/* Return rows per second, or 0 if that is not known yet. */
extern double dv_speed_now(const dv_speed_mark *mark, int64_t now);
extern double dv_speed_overall(int64_t rows, int64_t started, int64_t now);

/*
 * Returns the microseconds until all rows are processed at the given speed, or
 * -1 if that is not known because "total" is unknown (negative) or too low, or
 * because the rest would take more than seven days.
 */
extern int64_t dv_speed_left(double total, int64_t rows, double per_second);

#endif							/* DV_SPEED_H */

/*-------------------------------------------------------------------------
 *
 * speed.h
 *		How fast rows go by, now and overall, and when the last one will.
 *
 * The speed "now" is that of the last 30 seconds: of the rows since the
 * oldest of some samples in that time, or since the beginning.  Who looks on
 * from elsewhere needs that one sample only (dv_speed_mark) and finds the
 * speed falling while nothing happens.
 *
 * Pure: time is an argument, in microseconds; the state is a plain struct.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_SPEED_H
#define DV_SPEED_H

#include <stdint.h>

#define DV_SPEED_SAMPLES 32

/* So many rows had gone by then. */
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

/* What it takes to tell the speed from elsewhere. */
typedef struct dv_speed_mark
{
	dv_speed_sample since;
	dv_speed_sample last;
} dv_speed_mark;

extern void dv_speed_start(dv_speed *speed, int64_t now);

/* So many rows have gone by since the start. */
extern dv_speed_mark dv_speed_note(dv_speed *speed, int64_t rows, int64_t now);

/* Rows per second; 0 as long as nobody can tell. */
extern double dv_speed_now(const dv_speed_mark *mark, int64_t now);
extern double dv_speed_overall(int64_t rows, int64_t started, int64_t now);

/*
 * Microseconds until all rows have gone by at so many per second; -1 if that
 * cannot be told: "total" is not known (negative) or was wrong, or it would
 * be more than seven days.
 */
extern int64_t dv_speed_left(double total, int64_t rows, double per_second);

#endif							/* DV_SPEED_H */

/*
 * speed.c
 *		How fast rows are processed, now and overall.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "net/clock.h"
#include "pool/speed.h"

#define WINDOW	  (30 * DV_SECOND)
#define SPACING	  DV_SECOND
#define TOO_SOON  (DV_SECOND / 10)	/* too short to measure a speed */
#define TOO_SLOW  0.001
#define TOO_LONG  (7.0 * 24 * 60 * 60)

void
dv_speed_start(dv_speed *speed, int64_t now)
{
	speed->newest = 0;
	speed->n = 1;
	speed->samples[0].at = now;
	speed->samples[0].rows = 0;
}

/* Returns the oldest sample of the window, or the newest sample if all are older than that. */
static dv_speed_sample
base_of(const dv_speed *speed, int64_t now)
{
	dv_speed_sample base = speed->samples[speed->newest];
	int			i;

	for (i = 1; i < speed->n; i++)
	{
		int			k = (speed->newest + DV_SPEED_SAMPLES - i) % DV_SPEED_SAMPLES;

		if (now - speed->samples[k].at > WINDOW)
			break;
		base = speed->samples[k];
	}
	return base;
}

dv_speed_mark
dv_speed_note(dv_speed *speed, int64_t rows, int64_t now)
{
	dv_speed_mark mark;

	mark.since = base_of(speed, now);
	mark.last.at = now;
	mark.last.rows = rows;
	if (now - speed->samples[speed->newest].at >= SPACING)
	{
		speed->newest = (speed->newest + 1) % DV_SPEED_SAMPLES;
		speed->samples[speed->newest] = mark.last;
		if (speed->n < DV_SPEED_SAMPLES)
			speed->n++;
	}
	return mark;
}

double
dv_speed_now(const dv_speed_mark *mark, int64_t now)
{
	if (now - mark->last.at > WINDOW)
		return 0;
	return dv_speed_overall(mark->last.rows - mark->since.rows, mark->since.at, now);
}

double
dv_speed_overall(int64_t rows, int64_t started, int64_t now)
{
	if (now - started <= TOO_SOON)
		return 0;
	return (double) rows * DV_SECOND / (double) (now - started);
}

int64_t
dv_speed_left(double total, int64_t rows, double per_second)
{
	double		left = total - (double) rows;

	if (total < 0 || left < 0 || per_second < TOO_SLOW || left / per_second > TOO_LONG)
		return -1;
	return (int64_t) (left / per_second * DV_SECOND + 0.5);
}

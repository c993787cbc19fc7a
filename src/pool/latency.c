/*
 * latency.c
 *		How long answers to reads take, as a function of their size.
 *
 * The line through the samples is found by medians (Theil and Sen).  The slope
 * is computed only from pairs of a small and a large answer, because other pairs
 * are too close to each other.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "net/clock.h"
#include "pool/latency.h"

/* Answers between these sizes count neither as small nor as large. */
#define SMALL_BYTES 16384
#define LARGE_BYTES 65536
/* The least number of small answers for an estimate. */
#define FEWEST_SMALL 8
#define FEWEST_LARGE 4
/* The most users whose samples are merged. */
#define MOST_PARTS 64
/*
 * The number of rows over which their average size is taken, and the largest part of it that a
 * page replaces.
 */
#define WINDOW_ROWS 50000.0
#define MOST_REPLACED 0.1
/* Bounds of all estimates, in milliseconds and bytes. */
#define LEAST_REQUEST 1.0
#define MOST_REQUEST 60000.0
#define LEAST_BYTE 1e-6
#define MOST_BYTE 0.1
#define LEAST_ROW_BYTES 10.0
#define MOST_ROW_BYTES 1e7

#define ASSUMED_BYTE (DV_LATENCY_ROW / DV_LATENCY_ROW_BYTES)

static double
clamp(double value, double least, double most)
{
	/* this also replaces NaN */
	if (!(value > least))
		return least;
	return value > most ? most : value;
}

static void
put(dv_latency_ring *ring, dv_latency_sample sample)
{
	ring->samples[ring->next] = sample;
	ring->next = (ring->next + 1) % DV_LATENCY_SAMPLES;
	if (ring->n < DV_LATENCY_SAMPLES)
		ring->n++;
}

void
dv_latency_note(dv_latency *latency, int64_t bytes, int64_t duration)
{
	dv_latency_sample sample = {(float) bytes, (float) ((double) duration / DV_MILLISECOND)};

	if (bytes < 0 || duration <= 0)
		return;
	if (bytes <= SMALL_BYTES)
		put(&latency->small, sample);
	else if (bytes >= LARGE_BYTES)
		put(&latency->large, sample);
}

void
dv_latency_note_rows(dv_latency *latency, int64_t rows, int64_t bytes)
{
	double		kept = (double) rows / WINDOW_ROWS;

	if (rows <= 0 || bytes <= 0)
		return;
	kept = 1 - (kept < MOST_REPLACED ? kept : MOST_REPLACED);
	latency->rows = latency->rows * kept + (double) rows;
	latency->bytes = latency->bytes * kept + (double) bytes;
}

/* Takes the newest sample of each ring, then the second newest, and so on. */
static void
merge_rings(dv_latency_ring *total, const dv_latency_ring *const *rings, int n)
{
	int			age;
	int			i;

	for (age = 1; age <= DV_LATENCY_SAMPLES; age++)
	{
		for (i = 0; i < n && total->n < DV_LATENCY_SAMPLES; i++)
		{
			const dv_latency_ring *ring = rings[i];

			if (age <= ring->n)
				put(total, ring->samples[(ring->next - age + DV_LATENCY_SAMPLES) % DV_LATENCY_SAMPLES]);
		}
	}
}

void
dv_latency_merge(dv_latency *total, const dv_latency *parts, int n)
{
	const dv_latency_ring *rings[MOST_PARTS] = {NULL};
	int			i;

	memset(total, 0, sizeof(*total));
	if (n > MOST_PARTS)
		n = MOST_PARTS;
	for (i = 0; i < n; i++)
		rings[i] = &parts[i].small;
	merge_rings(&total->small, rings, n);
	for (i = 0; i < n; i++)
		rings[i] = &parts[i].large;
	merge_rings(&total->large, rings, n);
	for (i = 0; i < n; i++)
	{
		total->rows += parts[i].rows;
		total->bytes += parts[i].bytes;
	}
}

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/* Sorts the values. */
static double
median(double *values, int n)
{
	qsort(values, n, sizeof(double), compare);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static double
slope_between(const dv_latency_ring *small, const dv_latency_ring *large)
{
	double		slopes[DV_LATENCY_SAMPLES * DV_LATENCY_SAMPLES];
	int			n = 0;
	int			i;
	int			k;

	for (i = 0; i < small->n; i++)
		for (k = 0; k < large->n; k++)
			slopes[n++] = ((double) large->samples[k].time - (double) small->samples[i].time) /
				((double) large->samples[k].bytes - (double) small->samples[i].bytes);
	return median(slopes, n);
}

static double
intercept_of(const dv_latency_ring *ring, double slope)
{
	double		times[DV_LATENCY_SAMPLES];
	int			i;

	for (i = 0; i < ring->n; i++)
		times[i] = (double) ring->samples[i].time - slope * (double) ring->samples[i].bytes;
	return median(times, ring->n);
}

/* Returns the ratio of these answers' durations to those assumed without measurements. */
static double
factor_of(const dv_latency_ring *ring)
{
	double		factors[DV_LATENCY_SAMPLES];
	int			i;

	for (i = 0; i < ring->n; i++)
		factors[i] = (double) ring->samples[i].time /
			(DV_LATENCY_REQUEST + ASSUMED_BYTE * (double) ring->samples[i].bytes);
	return median(factors, ring->n);
}

bool
dv_latency_estimate_of(const dv_latency *latency, dv_latency_estimate *estimate)
{
	const dv_latency_ring *small = &latency->small;
	const dv_latency_ring *large = &latency->large;

	if (small->n >= FEWEST_SMALL)
	{
		estimate->byte = ASSUMED_BYTE;
		if (large->n >= FEWEST_LARGE)
			estimate->byte = clamp(slope_between(small, large), LEAST_BYTE, MOST_BYTE);
		estimate->request = intercept_of(small, estimate->byte);
	}
	else if (large->n >= FEWEST_SMALL)
	{
		double		factor = factor_of(large);

		estimate->byte = clamp(factor * ASSUMED_BYTE, LEAST_BYTE, MOST_BYTE);
		estimate->request = factor * DV_LATENCY_REQUEST;
	}
	else
		return false;
	estimate->request = clamp(estimate->request, LEAST_REQUEST, MOST_REQUEST);
	estimate->row_bytes = latency->rows > 0 ?
		clamp(latency->bytes / latency->rows, LEAST_ROW_BYTES, MOST_ROW_BYTES) : DV_LATENCY_ROW_BYTES;
	return true;
}

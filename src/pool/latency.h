/*
 * latency.h
 *		How long answers to reads take, as a function of their size.
 *
 * An answer takes some time however small it is, and more with each byte.  Both
 * are estimated from the last answers: the former from small ones, the latter
 * from the difference between large and small ones.  The two sizes are kept
 * apart, because a query that sends a thousand requests for one row each would
 * displace all samples of large answers.
 *
 * The estimates are medians, so a few answers that took much longer, because a
 * service or a proxy had to start, do not change them.
 *
 * Pure; the state is a plain struct that starts as zeros.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_LATENCY_H
#define DV_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

/* of each size */
#define DV_LATENCY_SAMPLES 16

/* Assumed in the absence of measurements, in milliseconds. */
#define DV_LATENCY_REQUEST 100.0
#define DV_LATENCY_ROW 0.05
#define DV_LATENCY_ROW_BYTES 500.0

typedef struct dv_latency_sample
{
	float		bytes;
	float		time;			/* milliseconds */
} dv_latency_sample;

/* The last answers of one size, in a ring. */
typedef struct dv_latency_ring
{
	int			n;
	int			next;
	dv_latency_sample samples[DV_LATENCY_SAMPLES];
} dv_latency_ring;

typedef struct dv_latency
{
	dv_latency_ring small;
	dv_latency_ring large;
	double		rows;			/* moving sums */
	double		bytes;			/* of these rows */
} dv_latency;

/* In milliseconds. */
typedef struct dv_latency_estimate
{
	double		request;		/* an answer without any rows */
	double		byte;
	double		row_bytes;		/* of an average row */
} dv_latency_estimate;

/* Notes that an answer of this many bytes, before compression, took this many microseconds. */
extern void dv_latency_note(dv_latency *latency, int64_t bytes, int64_t duration);

/* Notes that this many rows had this many bytes. */
extern void dv_latency_note_rows(dv_latency *latency, int64_t rows, int64_t bytes);

/* Merges what several users have measured of one service, taking the newest samples of each. */
extern void dv_latency_merge(dv_latency *total, const dv_latency *parts, int n);

/* Returns false if too few answers have been measured. */
extern bool dv_latency_estimate_of(const dv_latency *latency, dv_latency_estimate *estimate);

#endif							/* DV_LATENCY_H */

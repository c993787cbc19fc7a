/*
 * latency_test.c
 *		How long answers take, as estimated from the last ones.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/latency.h"

#define MILLISECOND INT64_C(1000)

static dv_latency latency;

static int
setup(void **state)
{
	(void) state;
	memset(&latency, 0, sizeof(latency));
	return 0;
}

/* notes n answers that took "request" plus a time for each byte, in milliseconds */
static void
answers(int n, int64_t bytes, double request, double byte)
{
	while (n-- > 0)
		dv_latency_note(&latency, bytes,
						(int64_t) ((request + byte * (double) bytes) * MILLISECOND));
}

static void
assert_near(double is, double should)
{
	if (!(fabs(is - should) <= 0.01 * should))
		fail_msg("%g instead of %g", is, should);
}

static void
assert_estimate(double request, double byte)
{
	dv_latency_estimate estimate;

	assert_true(dv_latency_estimate_of(&latency, &estimate));
	assert_near(estimate.request, request);
	assert_near(estimate.byte, byte);
}

static void
too_few(void **state)
{
	dv_latency_estimate estimate;

	(void) state;
	assert_false(dv_latency_estimate_of(&latency, &estimate));
	answers(7, 1000, 50, 0);
	answers(7, 1000000, 50, 0);
	/* these are neither small nor large */
	answers(20, 30000, 50, 0);
	/* and these are ignored */
	dv_latency_note(&latency, -1, MILLISECOND);
	dv_latency_note(&latency, 10, 0);
	dv_latency_note(&latency, 10, -5);
	assert_false(dv_latency_estimate_of(&latency, &estimate));
	answers(1, 1000, 50, 0);
	assert_true(dv_latency_estimate_of(&latency, &estimate));
}

static void
line(void **state)
{
	(void) state;
	answers(4, 300, 40, 0.0002);
	answers(4, 12000, 40, 0.0002);
	answers(2, 100000, 40, 0.0002);
	answers(2, 3000000, 40, 0.0002);
	assert_estimate(40, 0.0002);
}

/* Sizes and times that vary, and one answer in five that took far too long. */
static void
noise(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 15; i++)
	{
		double		noise = (i * 7 % 5 - 2) * 0.1;
		double		late = i % 5 == 4 ? 20000 : 0;

		answers(1, 400 + i * 100, 80 + noise + late, 0.0001);
		answers(1, 500000 + i * 200000, 80 + noise + late, 0.0001);
	}
	assert_estimate(80, 0.0001);
}

/* Many small answers do not displace the samples of large ones, and vice versa. */
static void
apart(void **state)
{
	(void) state;
	answers(4, 2000000, 60, 0.0003);
	answers(1000, 300, 60, 0.0003);
	assert_estimate(60, 0.0003);
	answers(1000, 1000000, 60, 0.0003);
	assert_estimate(60, 0.0003);
}

/* After some answers, it is known that a service has become slower or faster. */
static void
moving(void **state)
{
	(void) state;
	answers(16, 300, 10, 0.0001);
	answers(16, 1000000, 10, 0.0001);
	assert_estimate(10, 0.0001);
	answers(7, 300, 1000, 0.0005);
	answers(7, 1000000, 1000, 0.0005);
	assert_estimate(10, 0.0001);
	answers(9, 300, 1000, 0.0005);
	answers(9, 1000000, 1000, 0.0005);
	assert_estimate(1000, 0.0005);
	answers(16, 300, 10, 0.0001);
	answers(16, 1000000, 10, 0.0001);
	assert_estimate(10, 0.0001);
}

/* With answers of one size only, the other value is assumed, or follows from it. */
static void
one_size(void **state)
{
	(void) state;
	answers(16, 1000, 30, 0);
	answers(3, 1000000, 30, 0);
	assert_estimate(29.9, 0.0001);
	setup(NULL);
	answers(16, 1000000, 200, 0.0002);
	assert_estimate(200, 0.0002);
	setup(NULL);
	answers(16, 1000000, 100, 0);
	assert_estimate(50, 0.00005);
}

static void
bounds(void **state)
{
	(void) state;
	answers(16, 100, 0.002, 0);
	answers(16, 1000000, 0.002, 0);
	assert_estimate(1, 1e-6);
	/* large answers that came faster than small ones */
	answers(16, 100, 300, 0);
	answers(16, 1000000, 20, 0);
	assert_estimate(300, 1e-6);
	answers(16, 100, 1e7, 0);
	answers(16, 100000, 1e7, 5);
	assert_estimate(60000, 0.1);
}

static void
rows(void **state)
{
	dv_latency_estimate estimate;
	int			i;

	(void) state;
	answers(8, 300, 50, 0);
	assert_true(dv_latency_estimate_of(&latency, &estimate));
	assert_near(estimate.row_bytes, DV_LATENCY_ROW_BYTES);
	dv_latency_note_rows(&latency, 0, 200);
	dv_latency_note_rows(&latency, -1, 200);
	dv_latency_note_rows(&latency, 5000, 1000000);
	/* rows by themselves have little weight */
	for (i = 0; i < 10; i++)
		dv_latency_note_rows(&latency, 1, 900);
	assert_true(dv_latency_estimate_of(&latency, &estimate));
	assert_near(estimate.row_bytes, 200);
	for (i = 0; i < 60; i++)
		dv_latency_note_rows(&latency, 5000, 5000000);
	assert_true(dv_latency_estimate_of(&latency, &estimate));
	assert_near(estimate.row_bytes, 1000);
}

static void
merged(void **state)
{
	static dv_latency parts[64];
	dv_latency_estimate estimate;
	dv_latency	total;
	int			i;

	(void) state;
	/* none of them knows enough */
	for (i = 0; i < 4; i++)
	{
		setup(NULL);
		answers(2, 300, 70, 0.0002);
		answers(1, 1000000, 70, 0.0002);
		dv_latency_note_rows(&latency, 1000, 300000);
		parts[i] = latency;
		assert_false(dv_latency_estimate_of(&parts[i], &estimate));
	}
	dv_latency_merge(&latency, parts, 4);
	assert_estimate(70, 0.0002);
	assert_true(dv_latency_estimate_of(&latency, &estimate));
	assert_near(estimate.row_bytes, 300);

	/* together they have more than there is room for: only the newest count */
	for (i = 0; i < 64; i++)
	{
		setup(NULL);
		answers(20, 300, 500, 0);
		answers(20, 1000000, 500, 0);
		answers(1, 300, 20, 0.0004);
		answers(1, 1000000, 20, 0.0004);
		parts[i] = latency;
	}
	dv_latency_merge(&total, parts, 64);
	latency = total;
	assert_estimate(20, 0.0004);
	dv_latency_merge(&total, parts, 0);
	assert_false(dv_latency_estimate_of(&total, &estimate));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(too_few, setup),
		cmocka_unit_test_setup(line, setup),
		cmocka_unit_test_setup(noise, setup),
		cmocka_unit_test_setup(apart, setup),
		cmocka_unit_test_setup(moving, setup),
		cmocka_unit_test_setup(one_size, setup),
		cmocka_unit_test_setup(bounds, setup),
		cmocka_unit_test_setup(rows, setup),
		cmocka_unit_test_setup(merged, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

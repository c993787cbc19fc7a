/*
 * speed_test.c
 *		Rows per second, now and overall, and the time that is left.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/speed.h"

#define SECOND INT64_C(1000000)
#define NOW    (1000 * SECOND)
#define HOUR   (3600 * SECOND)

static dv_speed speed;

/* "tolerance" is absolute */
static void
assert_rate(double is, double should, double tolerance)
{
	if (is < should - tolerance || is > should + tolerance)
		fail_msg("%g rows/s instead of %g", is, should);
}

static int
setup(void **state)
{
	(void) state;
	/* reveals members that are not initialized */
	memset(&speed, 0x5a, sizeof(speed));
	dv_speed_start(&speed, NOW);
	return 0;
}

static void
overall(void **state)
{
	(void) state;
	assert_rate(dv_speed_overall(500, NOW, NOW + 10 * SECOND), 50, 0);
	assert_rate(dv_speed_overall(0, NOW, NOW + 10 * SECOND), 0, 0);
	/* there is no speed in the first tenth of a second */
	assert_rate(dv_speed_overall(500, NOW, NOW), 0, 0);
	assert_rate(dv_speed_overall(500, NOW, NOW + SECOND / 10), 0, 0);
	assert_rate(dv_speed_overall(500, NOW, NOW + SECOND / 10 + 1), 4999.95, 0.001);
	assert_rate(dv_speed_overall(500, NOW, NOW - SECOND), 0, 0);
}

static void
left(void **state)
{
	(void) state;
	assert_int_equal(dv_speed_left(1000, 500, 50), 10 * SECOND);
	assert_int_equal(dv_speed_left(1000, 999, 3), 333333);
	assert_int_equal(dv_speed_left(1000, 1000, 50), 0);
	assert_int_equal(dv_speed_left(0, 0, 50), 0);
	/* more rows than expected, so the expectation was wrong */
	assert_int_equal(dv_speed_left(1000, 1001, 50), -1);
	assert_int_equal(dv_speed_left(-1, 0, 50), -1);
	/* too slow, and too long */
	assert_int_equal(dv_speed_left(1, 0, 0), -1);
	assert_int_equal(dv_speed_left(1, 0, 0.00099), -1);
	assert_int_equal(dv_speed_left(1, 0, 0.001), 1000 * SECOND);
	assert_int_equal(dv_speed_left(604800, 0, 1), 7 * 24 * HOUR);
	assert_int_equal(dv_speed_left(604801, 0, 1), -1);
}

static void
since_the_beginning(void **state)
{
	dv_speed_mark mark = dv_speed_note(&speed, 0, NOW);

	(void) state;
	assert_rate(dv_speed_now(&mark, NOW), 0, 0);
	mark = dv_speed_note(&speed, 100, NOW + 2 * SECOND);
	assert_rate(dv_speed_now(&mark, NOW + 2 * SECOND), 50, 0);
	mark = dv_speed_note(&speed, 300, NOW + 4 * SECOND);
	assert_rate(dv_speed_now(&mark, NOW + 4 * SECOND), 75, 0);
}

/* 100 rows per second for a minute, reported four times a second, and then 10 per second */
static void
of_the_last_half_minute(void **state)
{
	dv_speed_mark mark = {{0, 0}, {0, 0}};
	int64_t		now = NOW;
	int64_t		rows = 0;
	int			i;

	(void) state;
	for (i = 1; i <= 240; i++)
	{
		now += SECOND / 4;
		rows += 25;
		mark = dv_speed_note(&speed, rows, now);
		if (i >= 4)
			assert_rate(dv_speed_now(&mark, now), 100, 0.001);
	}
	for (i = 1; i <= 15; i++)
	{
		now += SECOND;
		rows += 10;
		mark = dv_speed_note(&speed, rows, now);
	}
	/* half of the window at 100, half at 10 */
	assert_rate(dv_speed_now(&mark, now), 55, 0.001);
	for (i = 1; i <= 15; i++)
	{
		now += SECOND;
		rows += 10;
		mark = dv_speed_note(&speed, rows, now);
	}
	assert_rate(dv_speed_now(&mark, now), 10, 0.001);
	assert_rate(dv_speed_overall(rows, NOW, now), 70, 0.001);
}

/* No more rows are reported. */
static void
standstill(void **state)
{
	dv_speed_mark mark = dv_speed_note(&speed, 300, NOW + 10 * SECOND);

	(void) state;
	assert_rate(dv_speed_now(&mark, NOW + 10 * SECOND), 30, 0);
	assert_rate(dv_speed_now(&mark, NOW + 20 * SECOND), 15, 0);
	assert_rate(dv_speed_now(&mark, NOW + 40 * SECOND), 7.5, 0);
	assert_rate(dv_speed_now(&mark, NOW + 40 * SECOND + 1), 0, 0);
}

/* Rows that arrive after a standstill count for the whole time. */
static void
after_a_standstill(void **state)
{
	dv_speed_mark mark = dv_speed_note(&speed, 300, NOW + 10 * SECOND);

	(void) state;
	mark = dv_speed_note(&speed, 400, NOW + 110 * SECOND);
	assert_int_equal(mark.since.at, NOW + 10 * SECOND);
	assert_rate(dv_speed_now(&mark, NOW + 110 * SECOND), 1, 0);
	mark = dv_speed_note(&speed, 500, NOW + 120 * SECOND);
	assert_rate(dv_speed_now(&mark, NOW + 120 * SECOND), 10, 0);
}

/* The ring has enough room for the window, however often rows are reported. */
static void
told_all_the_time(void **state)
{
	dv_speed_mark mark = {{0, 0}, {0, 0}};
	int64_t		now = NOW;
	int			i;

	(void) state;
	for (i = 1; i <= 100000; i++)
	{
		now += SECOND / 1000;
		mark = dv_speed_note(&speed, i, now);
	}
	assert_rate(dv_speed_now(&mark, now), 1000, 0.001);
	assert_in_range(now - mark.since.at, 29 * SECOND, 30 * SECOND);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(overall, setup),
		cmocka_unit_test_setup(left, setup),
		cmocka_unit_test_setup(since_the_beginning, setup),
		cmocka_unit_test_setup(of_the_last_half_minute, setup),
		cmocka_unit_test_setup(standstill, setup),
		cmocka_unit_test_setup(after_a_standstill, setup),
		cmocka_unit_test_setup(told_all_the_time, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

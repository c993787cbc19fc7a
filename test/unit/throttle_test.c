/*
 * throttle_test.c
 *		The throttle tracker and its circuit breaker.
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

#include "pool/throttle.h"
#include "random_events.h"

#define SECOND INT64_C(1000000)
#define NOW    (1000 * SECOND)

static dv_throttle throttle;

static int
setup(void **state)
{
	(void) state;
	memset(&throttle, 0, sizeof(throttle));
	return 0;
}

static void
record(int64_t retry_after, int64_t now)
{
	dv_throttle_record(&throttle, DV_THROTTLE_REQUESTS, true, retry_after, 0, now);
}

static void
never_throttled(void **state)
{
	(void) state;
	assert_false(dv_throttle_active(&throttle, NOW));
	assert_false(dv_throttle_probing(&throttle));
	assert_int_equal(dv_throttle_events(&throttle), 0);
	assert_int_equal(throttle.until, 0);
	assert_int_equal(throttle.total_backoff, 0);
}

static void
until_its_expiry(void **state)
{
	(void) state;
	record(30 * SECOND, NOW);
	assert_true(dv_throttle_active(&throttle, NOW));
	assert_true(dv_throttle_active(&throttle, NOW + 30 * SECOND - 1));
	assert_false(dv_throttle_active(&throttle, NOW + 30 * SECOND));
	assert_int_equal(throttle.last_at, NOW);
	assert_int_equal(throttle.last_retry_after, 30 * SECOND);
}

static void
margin_is_added(void **state)
{
	(void) state;
	dv_throttle_record(&throttle, DV_THROTTLE_OTHER, true, 10 * SECOND, 3 * SECOND / 2, NOW);
	assert_int_equal(throttle.until, NOW + 10 * SECOND + 3 * SECOND / 2);
	dv_throttle_record(&throttle, DV_THROTTLE_OTHER, false, 0, 0, NOW);
	assert_int_equal(throttle.until, NOW + 10 * SECOND + 3 * SECOND / 2);
}

static void
the_later_expiry_stays(void **state)
{
	(void) state;
	record(60 * SECOND, NOW);
	record(5 * SECOND, NOW + SECOND);
	assert_int_equal(throttle.until, NOW + 60 * SECOND);
	record(120 * SECOND, NOW + 2 * SECOND);
	assert_int_equal(throttle.until, NOW + 122 * SECOND);
}

static void
events_by_cause(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < DV_THROTTLE_CAUSES; i++)
		dv_throttle_record(&throttle, (dv_throttle_cause) i, i == 0, SECOND, 0, NOW);
	for (i = 0; i < DV_THROTTLE_CAUSES; i++)
		assert_int_equal(throttle.events[i], 1);
	assert_int_equal(dv_throttle_events(&throttle), DV_THROTTLE_CAUSES);
}

static void
backoff_counts_time_once(void **state)
{
	(void) state;
	record(30 * SECOND, NOW);
	record(30 * SECOND, NOW);
	record(30 * SECOND, NOW + 10 * SECOND);
	assert_int_equal(throttle.total_backoff, 40 * SECOND);
	record(5 * SECOND, NOW + 100 * SECOND);
	assert_int_equal(throttle.total_backoff, 45 * SECOND);
}

static void
retry_after_is_kept_sensible(void **state)
{
	(void) state;
	record(-SECOND, NOW);
	assert_int_equal(throttle.until, 0);
	record(INT64_MAX, NOW);
	assert_int_equal(throttle.until, NOW + 86400 * SECOND);
}

static void
breaker_opens_after_five_cuts(void **state)
{
	static const int pauses[] = {30, 60, 120, 240, 300, 300};
	int64_t		now = NOW;
	int			i;

	(void) state;
	for (i = 0; i < 4; i++, now += 10 * SECOND)
	{
		record(SECOND, now);
		assert_false(dv_throttle_probing(&throttle));
		assert_int_equal(throttle.until, now + SECOND);
	}
	for (i = 0; i < 6; i++, now = throttle.until + SECOND)
	{
		record(SECOND, now);
		assert_true(dv_throttle_probing(&throttle));
		assert_int_equal(throttle.until, now + pauses[i] * SECOND);
	}
}

static void
breaker_respects_a_longer_wait(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 6; i++)
		record(400 * SECOND, NOW + i * 500 * SECOND);
	assert_int_equal(throttle.until, NOW + (5 * 500 + 400) * SECOND);
}

static void
one_burst_does_not_open_the_breaker(void **state)
{
	int			i;

	(void) state;
	record(SECOND, NOW);
	for (i = 0; i < 100; i++)
		dv_throttle_record(&throttle, DV_THROTTLE_EXECUTION, false, SECOND, 0, NOW + i);
	assert_false(dv_throttle_probing(&throttle));
}

static void
only_a_later_success_closes_the_breaker(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 5; i++)
		record(SECOND, NOW + i * 10 * SECOND);
	dv_throttle_answered(&throttle, NOW + 40 * SECOND - 1); /* was in flight */
	assert_true(dv_throttle_probing(&throttle));
	dv_throttle_answered(&throttle, NOW + 40 * SECOND);
	assert_false(dv_throttle_probing(&throttle));
	record(SECOND, NOW + 100 * SECOND);
	assert_int_equal(throttle.until, NOW + 101 * SECOND);
}

/* With a request that goes through after each cut, so that no five are in a row. */
static int64_t
cut_often(int n, int64_t apart, int64_t now)
{
	int			i;

	for (i = 0; i < n; i++, now += apart)
	{
		assert_false(dv_throttle_record(&throttle, DV_THROTTLE_REQUESTS, true, SECOND, 0, now));
		assert_false(dv_throttle_answered(&throttle, now + SECOND));
	}
	return now;
}

static void
breaker_opens_after_many_cuts_in_a_window(void **state)
{
	int64_t		now = cut_often(DV_BREAKER_WINDOW - 1, 10 * SECOND, NOW);

	(void) state;
	assert_true(dv_throttle_record(&throttle, DV_THROTTLE_REQUESTS, true, SECOND, 0, now));
	assert_true(dv_throttle_probing(&throttle));
	assert_int_equal(throttle.until, now + 30 * SECOND);
	assert_false(dv_throttle_record(&throttle, DV_THROTTLE_REQUESTS, true, SECOND, 0,
									now + 31 * SECOND));
	assert_true(dv_throttle_answered(&throttle, now + 70 * SECOND));
	assert_false(dv_throttle_probing(&throttle));
	/* and the count begins anew */
	cut_often(DV_BREAKER_WINDOW - 1, SECOND, now + 80 * SECOND);
}

static void
breaker_stays_closed_when_cuts_are_few(void **state)
{
	(void) state;
	cut_often(10 * DV_BREAKER_WINDOW, 300 * SECOND / (DV_BREAKER_WINDOW - 1) + 1, NOW);
}

static void
a_reset_closes_the_breaker(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 5; i++)
		record(SECOND, NOW + i * 10 * SECOND);
	dv_throttle_reset(&throttle);
	assert_false(dv_throttle_probing(&throttle));
	assert_false(dv_throttle_active(&throttle, NOW + 41 * SECOND));
	assert_int_equal(dv_throttle_events(&throttle), 5);
}

static void
names_of_causes(void **state)
{
	(void) state;
	assert_string_equal(dv_throttle_code(DV_THROTTLE_REQUESTS), "0x80072322");
	assert_string_equal(dv_throttle_code(DV_THROTTLE_EXECUTION), "0x80072321");
	assert_string_equal(dv_throttle_code(DV_THROTTLE_CONCURRENCY), "0x80072326");
	assert_string_equal(dv_throttle_code(DV_THROTTLE_OTHER), "429");
}

static void
expiry_never_moves_earlier(void **state)
{
	int64_t		now = NOW;
	int			i;

	(void) state;
	seed_random("throttle");
	for (i = 0; i < EVENTS; i++)
	{
		dv_throttle before = throttle;
		int64_t		retry_after = random_below(400 * SECOND) - 10 * SECOND;

		now += random_below(100 * SECOND);
		if (random_below(3) == 0)
			dv_throttle_answered(&throttle, now - random_below(50 * SECOND));
		else
			dv_throttle_record(&throttle, (dv_throttle_cause) random_below(DV_THROTTLE_CAUSES),
							   random_below(2), retry_after, random_below(2 * SECOND), now);
		assert_true(throttle.until >= before.until);
		assert_true(throttle.until <= before.until || throttle.until <= now + 402 * SECOND);
		assert_true(throttle.total_backoff >= before.total_backoff);
		assert_true(throttle.total_backoff <= throttle.until - NOW || throttle.until == 0);
		assert_true(throttle.consecutive >= 0);
	}
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(never_throttled),
		TEST(until_its_expiry),
		TEST(margin_is_added),
		TEST(the_later_expiry_stays),
		TEST(events_by_cause),
		TEST(backoff_counts_time_once),
		TEST(retry_after_is_kept_sensible),
		TEST(breaker_opens_after_five_cuts),
		TEST(breaker_respects_a_longer_wait),
		TEST(one_burst_does_not_open_the_breaker),
		TEST(only_a_later_success_closes_the_breaker),
		TEST(breaker_opens_after_many_cuts_in_a_window),
		TEST(breaker_stays_closed_when_cuts_are_few),
		TEST(a_reset_closes_the_breaker),
		TEST(names_of_causes),
		TEST(expiry_never_moves_earlier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

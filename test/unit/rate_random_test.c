/*
 * rate_random_test.c
 *		The rate controller under events in random order: no limit ever leaves
 *		its bounds.
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

#include "pool/rate.h"
#include "random_events.h"

static dv_rate_config config;
static dv_rate rate;
static int64_t now = 1000 * DV_SECOND;

static void
random_event(void)
{
	dv_kind		kind = (dv_kind) random_below(DV_KINDS);
	int64_t		duration = random_below(random_below(2) ? 30 * DV_SECOND : DV_SECOND);
	int			in_flight[DV_KINDS] = {0};
	dv_binding	binding;

	now += random_below(random_below(1000) == 0 ? 700 * DV_SECOND : 3 * DV_SECOND);
	switch (random_below(8))
	{
		case 0:
			(void) dv_rate_throttle(&rate, &config, now - random_below(5 * DV_SECOND),
									random_below(600 * DV_SECOND), now);
			break;
		case 1:
			if (random_below(50) == 0)
				dv_rate_set_max(&rate, &config, (int) random_below(60) - 3);
			break;
		case 2:
			if (random_below(200) == 0)
				dv_rate_reset(&rate, &config, now);
			break;
		case 3:
			in_flight[kind] = (int) random_below(3);
			(void) dv_rate_limit(&rate, &config, kind, in_flight, now, &binding);
			break;
		case 4:
			dv_rate_sent(&rate, (int) random_below(53));
			break;
		default:
			dv_rate_sent(&rate, rate.current);
			dv_rate_success(&rate, &config, kind, duration, now);
	}
}

static void
assert_bounds(void)
{
	int			floor = config.min_parallelism < rate.max ? config.min_parallelism : rate.max;
	dv_binding	binding;
	int			kind;

	assert_in_range(rate.current, floor, rate.max);
	assert_in_range(rate.last_known_good, floor, rate.max);
	for (kind = 0; kind < DV_KINDS; kind++)
	{
		int			value = dv_rate_peek(&rate, &config, (dv_kind) kind, now, &binding);

		assert_in_range(value, floor, rate.max);
		assert_true(value <= rate.current);
		if (now < rate.throttle_ceiling_until && rate.throttle_ceiling > floor)
			assert_true(value <= rate.throttle_ceiling);
		if (rate.samples[kind] >= 3 && rate.average[kind] >= config.slow_batch_threshold)
			assert_true(value <= dv_execution_ceiling(config.execution_factor, rate.average[kind],
													  floor, rate.max));
	}
}

static void
limits_never_leave_their_bounds(void **state)
{
	int64_t		total = 0;
	int			i;

	(void) state;
	seed_random("rate");
	for (i = 0; i < EVENTS; i++)
	{
		if (i % 10000 == 0)
		{
			config = dv_rate_preset((dv_preset) random_below(3));
			config.min_parallelism = 1 + (int) random_below(6);
			dv_rate_init(&rate, &config, 1 + (int) random_below(52), now);
			total = 0;
		}
		random_event();
		assert_bounds();
		assert_true(rate.total_throttles >= total);
		total = rate.total_throttles;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_never_leave_their_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

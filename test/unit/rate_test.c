/*
 * rate_test.c
 *		The rate controller: each of its rules, and the golden vectors of its
 *		specification.
 *
 * drive() plays one success per second with the limit fully used, as the golden
 * vectors assume.
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

#define NOW (1000 * DV_SECOND)

static dv_rate_config config;
static dv_rate rate;
static int64_t now;

static int
setup(void **state)
{
	(void) state;
	config = dv_rate_preset(DV_PRESET_BALANCED);
	now = NOW;
	dv_rate_init(&rate, &config, 52, now);
	return 0;
}

static void
init(int max)
{
	dv_rate_init(&rate, &config, max, now);
}

static int
peek(dv_kind kind)
{
	dv_binding	binding;

	return dv_rate_peek(&rate, &config, kind, now, &binding);
}

static dv_binding
binds(dv_kind kind)
{
	dv_binding	binding;

	(void) dv_rate_peek(&rate, &config, kind, now, &binding);
	return binding;
}

static void
succeed(dv_kind kind, double seconds)
{
	dv_rate_sent(&rate, rate.current);
	dv_rate_success(&rate, &config, kind, (int64_t) (seconds * DV_SECOND), now);
}

/* plays one success for each of these seconds */
static void
drive(int seconds)
{
	while (seconds-- > 0)
	{
		now += DV_SECOND;
		succeed(DV_KIND_CREATE, 1);
	}
}

static bool
throttle(double retry_after)
{
	dv_rate_sent(&rate, rate.current);
	return dv_rate_throttle(&rate, &config, now, (int64_t) (retry_after * DV_SECOND), now);
}

/* checks the values that the limit takes one after the other */
static void
assert_climb(const int *expected, int n, int seconds)
{
	int			i = 0;
	int			last = rate.current;

	assert_int_equal(last, expected[i++]);
	while (seconds-- > 0 && i < n)
	{
		drive(1);
		if (rate.current != last)
			assert_int_equal(last = rate.current, expected[i++]);
	}
	assert_int_equal(i, n);
}

#define ASSERT_CLIMB(seconds, ...) \
	do \
	{ \
		static const int expected_[] = {__VA_ARGS__}; \
		assert_climb(expected_, (int) (sizeof(expected_) / sizeof(int)), seconds); \
	} \
	while (0)

static void
first_limit_is_half_the_maximum(void **state)
{
	static const int starts[][2] = {{1, 1}, {2, 1}, {3, 1}, {4, 2}, {5, 2}, {8, 4}, {52, 26}};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
	{
		init(starts[i][0]);
		assert_int_equal(peek(DV_KIND_READ), starts[i][1]);
		assert_int_equal(rate.last_known_good, starts[i][1]);
	}
}

static void
start_respects_the_minimum(void **state)
{
	(void) state;
	config.initial_factor = 0.1;
	config.min_parallelism = 5;
	init(10);
	assert_int_equal(rate.current, 5);
	init(3);					/* a minimum above the maximum is reduced to it */
	assert_int_equal(rate.current, 3);
	assert_int_equal(peek(DV_KIND_READ), 3);
}

static void
factors_are_not_cut_by_binary_fractions(void **state)
{
	int			max;
	int			percent;

	(void) state;
	for (max = 1; max <= 52; max++)
	{
		for (percent = 10; percent <= 90; percent++)
		{
			int			expected = max * percent / 100;

			config.initial_factor = config.decrease_factor = percent / 100.0;
			init(max);
			assert_int_equal(rate.current, expected > 1 ? expected : 1);
			rate.current = max;
			throttle(0);
			assert_int_equal(rate.current, expected > 1 ? expected : 1);
		}
	}
}

static void
disabled_is_the_maximum(void **state)
{
	(void) state;
	config.adaptive = false;
	throttle(300);
	assert_int_equal(peek(DV_KIND_READ), 52);
	assert_int_equal(binds(DV_KIND_READ), DV_BINDS_FIXED);
}

static void
maximum_from_option_and_hint(void **state)
{
	(void) state;
	assert_int_equal(dv_rate_maximum(0, 0), 4);
	assert_int_equal(dv_rate_maximum(0, 5), 5);
	assert_int_equal(dv_rate_maximum(0, 500), 52);
	assert_int_equal(dv_rate_maximum(20, 5), 20);
	assert_int_equal(dv_rate_maximum(500, 5), 52);
}

static void
presets_are_exact(void **state)
{
	static const struct
	{
		double		factor;
		int			threshold;
		double		decrease;
		int			batches;
		int			interval;
	}			expected[] = {{140, 6, 0.4, 5, 8}, {200, 8, 0.5, 3, 5}, {320, 11, 0.6, 2, 3}};
	int			i;

	(void) state;
	for (i = 0; i < 3; i++)
	{
		dv_rate_config p = dv_rate_preset((dv_preset) i);

		assert_true(p.adaptive);
		assert_true(p.execution_factor == expected[i].factor);
		assert_int_equal(p.slow_batch_threshold, expected[i].threshold * DV_SECOND);
		assert_true(p.decrease_factor == expected[i].decrease);
		assert_int_equal(p.stabilization_batches, expected[i].batches);
		assert_int_equal(p.min_increase_interval, expected[i].interval * DV_SECOND);
		assert_true(p.initial_factor == 0.5 && p.recovery_multiplier == 2.0);
		assert_int_equal(p.min_parallelism, 1);
		assert_int_equal(p.increase_rate, 2);
		assert_int_equal(p.last_known_good_ttl, 300 * DV_SECOND);
		assert_int_equal(p.idle_reset_period, 300 * DV_SECOND);
		assert_int_equal(p.debounce, 2 * DV_SECOND);
	}
}

static void
an_override_leaves_the_rest(void **state)
{
	(void) state;
	config = dv_rate_preset(DV_PRESET_CONSERVATIVE);
	config.execution_factor = 200;
	init(52);
	succeed(DV_KIND_DELETE, 10);
	succeed(DV_KIND_DELETE, 10);
	succeed(DV_KIND_DELETE, 10);
	assert_int_equal(peek(DV_KIND_DELETE), 20);
	throttle(0);
	assert_int_equal(rate.current, 10); /* 26 x 0.4 */
}

static void
golden_climb(void **state)
{
	(void) state;
	ASSERT_CLIMB(45, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44);
}

static void
golden_recovery_from_44(void **state)
{
	(void) state;
	drive(45);
	assert_true(throttle(0));
	assert_int_equal(rate.last_known_good, 42);
	assert_true(dv_rate_in_recovery(&rate, &config, now));
	ASSERT_CLIMB(60, 22, 26, 30, 34, 38, 42, 44, 46);
	assert_false(dv_rate_in_recovery(&rate, &config, now));
}

static void
golden_recovery_from_41(void **state)
{
	(void) state;
	rate.current = 41;
	assert_true(throttle(0));
	assert_int_equal(rate.last_known_good, 39);
	ASSERT_CLIMB(60, 20, 24, 28, 32, 36, 40, 42, 44);
}

/* The example of the specification of the rate, with the five seconds that its throttle lasts. */
static void
golden_example(void **state)
{
	(void) state;
	drive(45);
	assert_true(throttle(5));
	now += 4 * DV_SECOND;
	ASSERT_CLIMB(60, 22, 26, 30, 34, 38, 42, 44, 46, 48, 50, 52);
	assert_int_equal(rate.throttle_ceiling, 0);
}

/* It may mean nothing, and any ceiling takes away a whole request. */
static void
a_lone_short_wait_sets_no_ceiling(void **state)
{
	static const int maxima[] = {1, 2, 4, 5, 10, 20, 52};
	static const int waits[] = {1, 5, 15, 30};
	int			m;
	int			w;

	(void) state;
	for (m = 0; m < 7; m++)
	{
		for (w = 0; w < 4; w++)
		{
			init(maxima[m]);
			rate.current = maxima[m];
			assert_true(throttle(waits[w]));
			assert_int_equal(rate.throttle_ceiling, 0);
			now += waits[w] * DV_SECOND;
			drive(60);
			assert_int_equal(peek(DV_KIND_CREATE), maxima[m]);
		}
	}
}

static void
a_long_wait_sets_a_ceiling_at_once(void **state)
{
	static const int waits[] = {31, 60, 150, 300};
	static const int ceilings[] = {49, 46, 39, 26};
	int			i;

	(void) state;
	for (i = 0; i < 4; i++)
	{
		init(52);
		rate.current = 52;
		throttle(waits[i]);
		assert_int_equal(rate.throttle_ceiling, ceilings[i]);
		assert_int_equal(rate.throttle_ceiling_until, now + (waits[i] + 300) * DV_SECOND);
	}
}

/*
 * After a second short wait, too, the limit can return to the known good value, with a ceiling
 * just above.
 */
static void
a_second_throttle_sets_a_ceiling(void **state)
{
	static const int waits[] = {1, 5, 15, 30};
	static const int ceilings[] = {51, 51, 50, 50};
	int64_t		until;
	int			i;

	(void) state;
	for (i = 0; i < 4; i++)
	{
		init(52);
		rate.current = 52;
		throttle(5);
		now += 100 * DV_SECOND;
		rate.current = 52;
		throttle(waits[i]);
		until = rate.throttle_ceiling_until;
		assert_int_equal(rate.last_known_good, 50);
		assert_int_equal(rate.throttle_ceiling, ceilings[i]);
		now += waits[i] * DV_SECOND;
		drive(30);				/* 26, 30, 34, …, 50 */
		assert_true(rate.current >= 50);
		drive(30);
		assert_int_equal(rate.current, ceilings[i]);
		assert_int_equal(binds(DV_KIND_CREATE), DV_BINDS_THROTTLE_CEILING);
		now = until;
		drive(6);
		assert_int_equal(rate.current, 52);
	}
}

/* Five minutes from the end of the wait, as long as a ceiling would have lasted. */
static void
a_second_throttle_must_come_within_the_window(void **state)
{
	int			late;

	(void) state;
	for (late = 0; late < 2; late++)
	{
		init(52);
		throttle(20);
		now += 320 * DV_SECOND - 1 + late;
		throttle(1);
		assert_int_equal(rate.throttle_ceiling > 0, !late);
	}
}

/* The stamp of the known good value is that of the throttle, not of the start. */
static void
what_was_good_lasts_from_the_throttle(void **state)
{
	(void) state;
	drive(290);
	throttle(0);
	assert_int_equal(rate.last_known_good_at, now);
	ASSERT_CLIMB(60, 26, 30, 34, 38, 42, 46, 50, 52);
}

static void
recovery_takes_23_seconds(void **state)
{
	(void) state;
	drive(47);					/* two seconds after the last step */
	throttle(0);
	drive(22);
	assert_int_equal(rate.current, 38);
	drive(1);
	assert_int_equal(rate.current, 42);
}

static void
both_gates_are_needed(void **state)
{
	(void) state;
	now += 4 * DV_SECOND;
	succeed(DV_KIND_CREATE, 1);
	succeed(DV_KIND_CREATE, 1);
	succeed(DV_KIND_CREATE, 1);
	assert_int_equal(rate.current, 26); /* enough batches, but too early */
	now += DV_SECOND;
	succeed(DV_KIND_CREATE, 1);
	assert_int_equal(rate.current, 28); /* exactly the interval */
	assert_int_equal(rate.successes, 0);
	now += 100 * DV_SECOND;
	succeed(DV_KIND_CREATE, 1);
	succeed(DV_KIND_CREATE, 1);
	assert_int_equal(rate.current, 28); /* late enough, but too few batches */
	succeed(DV_KIND_CREATE, 1);
	assert_int_equal(rate.current, 30); /* exactly the number */
}

static void
never_above_the_maximum(void **state)
{
	(void) state;
	init(27);
	drive(600);
	assert_int_equal(rate.current, 27);
	assert_int_equal(binds(DV_KIND_CREATE), DV_BINDS_MAXIMUM);
}

static void
grows_only_when_used(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 600; i++)
	{
		now += DV_SECOND;
		dv_rate_sent(&rate, 25);
		dv_rate_success(&rate, &config, DV_KIND_READ, DV_SECOND, now);
	}
	assert_int_equal(rate.current, 26);
	dv_rate_sent(&rate, 26);
	dv_rate_success(&rate, &config, DV_KIND_READ, DV_SECOND, now);
	assert_int_equal(rate.current, 28);
}

static void
throttle_halves_and_counts(void **state)
{
	(void) state;
	rate.current = 52;
	now += DV_SECOND;
	throttle(0);
	assert_int_equal(rate.current, 26);
	assert_int_equal(rate.total_throttles, 1);
	assert_int_equal(rate.last_throttle, now);
	assert_int_equal(rate.last_activity, now);
	assert_int_equal(rate.successes, 0);
}

static void
a_lone_request_halves_the_limit_too(void **state)
{
	(void) state;
	rate.current = 10;
	dv_rate_sent(&rate, 1);
	assert_true(dv_rate_throttle(&rate, &config, now, 0, now));
	assert_int_equal(rate.current, 5);
}

static void
throttles_stop_at_the_minimum(void **state)
{
	int			i;

	(void) state;
	config.min_parallelism = 3;
	for (i = 0; i < 20; i++, now += 10 * DV_SECOND)
		throttle(0);
	assert_int_equal(rate.current, 3);
	assert_int_equal(rate.last_known_good, 3);
	assert_int_equal(peek(DV_KIND_READ), 3);
}

static void
a_burst_is_one_cut(void **state)
{
	int64_t		sent = now + 44 * DV_SECOND;
	int			i;

	(void) state;
	drive(45);
	assert_true(dv_rate_throttle(&rate, &config, sent, 0, now));
	for (i = 0; i < 4; i++)
	{
		now += DV_SECOND / 10;
		assert_false(dv_rate_throttle(&rate, &config, sent, 0, now));
	}
	assert_int_equal(rate.current, 22);
	assert_int_equal(rate.last_known_good, 42);
	assert_int_equal(rate.total_throttles, 5);
}

static void
a_burst_ends_by_time_and_by_sending(void **state)
{
	int64_t		cut;

	(void) state;
	rate.current = 40;
	throttle(0);
	cut = now;
	now = cut + config.debounce - 1;
	assert_false(dv_rate_throttle(&rate, &config, cut + 1, 0, now));
	now = cut + config.debounce;
	assert_false(dv_rate_throttle(&rate, &config, cut, 0, now));	/* sent before the cut */
	now = cut + 600 * DV_SECOND;
	assert_false(dv_rate_throttle(&rate, &config, cut, 0, now));
	now = cut + config.debounce;
	assert_true(dv_rate_throttle(&rate, &config, cut + 1, 0, now));
	assert_int_equal(rate.current, 10);
}

static void
an_unused_level_is_not_blamed(void **state)
{
	(void) state;
	drive(45);					/* to 44 */
	throttle(0);				/* 22, known good 42 */
	now += 10 * DV_SECOND;
	dv_rate_sent(&rate, 3);
	assert_true(dv_rate_throttle(&rate, &config, now, 0, now));
	assert_int_equal(rate.current, 11); /* half of the limit, however little of it was used */
	assert_int_equal(rate.last_known_good, 20);
}

static void
known_good_goes_stale(void **state)
{
	(void) state;
	rate.current = 40;
	throttle(0);
	now += 300 * DV_SECOND;
	assert_false(dv_rate_known_good_stale(&rate, &config, now));
	assert_true(dv_rate_in_recovery(&rate, &config, now));
	now += 1;
	assert_true(dv_rate_known_good_stale(&rate, &config, now));
	assert_false(dv_rate_in_recovery(&rate, &config, now));
	succeed(DV_KIND_READ, 1);
	assert_int_equal(rate.last_known_good, 20); /* the current one, with a new stamp */
	assert_int_equal(rate.last_known_good_at, now);
	succeed(DV_KIND_READ, 1);
	succeed(DV_KIND_READ, 1);
	assert_int_equal(rate.current, 22); /* a cautious step */
}

static int
limit(int in_flight)
{
	const int	reads[DV_KINDS] = {[DV_KIND_READ] = in_flight};
	dv_binding	binding;

	return dv_rate_limit(&rate, &config, DV_KIND_READ, reads, now, &binding);
}

static void
idleness_resets(void **state)
{
	(void) state;
	drive(45);
	rate.total_throttles = 7;
	succeed(DV_KIND_DELETE, 9);
	now += 300 * DV_SECOND;
	assert_int_equal(limit(0), 44); /* exactly the period, but not longer */
	now += 300 * DV_SECOND + 1;
	assert_int_equal(limit(1), 44); /* a request is in flight */
	now += 300 * DV_SECOND + 1;
	assert_int_equal(limit(0), 26);
	assert_int_equal(rate.total_throttles, 7);
	assert_int_equal(rate.samples[DV_KIND_DELETE], 1);	/* averages are kept */
}

static void
asking_is_activity(void **state)
{
	(void) state;
	drive(45);
	now += 200 * DV_SECOND;
	assert_int_equal(limit(0), 44);
	now += 200 * DV_SECOND;		/* more than the period since a request, not since it was asked */
	assert_int_equal(limit(0), 44);
}

static void
idleness_clears_the_throttle_ceiling(void **state)
{
	(void) state;
	throttle(60);
	assert_int_not_equal(rate.throttle_ceiling, 0);
	now += 400 * DV_SECOND;
	(void) limit(0);
	assert_int_equal(rate.throttle_ceiling, 0);
}

static void
waiting_out_a_throttle_is_not_idleness(void **state)
{
	(void) state;
	drive(45);
	throttle(480);
	now += 481 * DV_SECOND;
	assert_int_equal(limit(0), 22);
}

static void
looking_is_not_activity(void **state)
{
	(void) state;
	drive(45);
	now += 200 * DV_SECOND;
	(void) peek(DV_KIND_READ);
	now += 200 * DV_SECOND;
	assert_int_equal(limit(0), 26);
}

static void
reset_keeps_the_total(void **state)
{
	(void) state;
	drive(45);
	throttle(60);
	succeed(DV_KIND_DELETE, 9);
	dv_rate_reset(&rate, &config, now);
	assert_int_equal(rate.current, 26);
	assert_int_equal(rate.total_throttles, 1);
	assert_int_equal(rate.throttle_ceiling, 0);
	assert_int_equal(rate.samples[DV_KIND_DELETE], 0);
	assert_false(dv_rate_in_recovery(&rate, &config, now));
}

static void
users_are_isolated(void **state)
{
	dv_rate		other;

	(void) state;
	dv_rate_init(&other, &config, 52, now);
	throttle(60);
	assert_int_equal(other.current, 26);
	assert_int_equal(other.total_throttles, 0);
	succeed(DV_KIND_DELETE, 20);
	succeed(DV_KIND_DELETE, 20);
	succeed(DV_KIND_DELETE, 20);
	assert_int_equal(binds(DV_KIND_DELETE), DV_BINDS_EXECUTION_CEILING);
	/* the durations of one's requests do not affect the other's */
	dv_rate_success(&other, &config, DV_KIND_DELETE, DV_SECOND, now);
	assert_int_equal(other.samples[DV_KIND_DELETE], 1);
	assert_true(other.average[DV_KIND_DELETE] == DV_SECOND);
	assert_true(rate.average[DV_KIND_DELETE] == 20 * DV_SECOND);
}

static void
a_falling_maximum_binds_at_once(void **state)
{
	(void) state;
	drive(45);
	dv_rate_set_max(&rate, &config, 8);
	assert_int_equal(peek(DV_KIND_READ), 8);
	assert_int_equal(rate.last_known_good, 8);
}

static void
a_rising_maximum_is_a_start_until_a_throttle(void **state)
{
	(void) state;
	init(4);
	dv_rate_set_max(&rate, &config, 52);	/* the first hint */
	assert_int_equal(rate.current, 26);
	drive(10);
	dv_rate_set_max(&rate, &config, 52);
	assert_int_equal(rate.current, 30);
	throttle(0);
	dv_rate_set_max(&rate, &config, 8);
	dv_rate_set_max(&rate, &config, 52);
	assert_int_equal(rate.current, 8);
}

/* If budgets are full, it starts at the maximum, but two machines may do so at the same time. */
static void
starts_full(void **state)
{
	static const int starts[][2] = {{1, 1}, {2, 2}, {5, 5}, {10, 10}, {26, 26}, {40, 26}, {52, 26}};
	int			i;

	(void) state;
	for (i = 0; i < 7; i++)
	{
		init(starts[i][0]);
		dv_rate_start_full(&rate);
		assert_int_equal(rate.current, starts[i][1]);
		assert_int_equal(rate.last_known_good, starts[i][1]);
	}
	drive(10);
	dv_rate_start_full(&rate);
	assert_int_equal(rate.current, 30); /* nothing is taken away */
	throttle(0);
	dv_rate_start_full(&rate);
	assert_int_equal(rate.current, 15); /* after a throttle nothing is given */
	now += 400 * DV_SECOND;
	(void) limit(0);			/* starts over */
	init(20);
	dv_rate_start_full(&rate);
	assert_int_equal(rate.current, 20);
}

static void
execution_ceiling_vectors(void **state)
{
	static const double seconds[] = {8.5, 9, 10, 12};
	static const struct
	{
		double		factor;
		int			ceilings[4];
	}			vectors[] = {{200, {23, 22, 20, 16}}, {140, {16, 15, 14, 11}}, {320, {37, 35, 32, 26}}};
	int			i;
	int			k;

	(void) state;
	for (i = 0; i < 3; i++)
		for (k = 0; k < 4; k++)
			assert_int_equal(
							 dv_execution_ceiling(vectors[i].factor, seconds[k] * DV_SECOND, 10, 52),
							 vectors[i].ceilings[k]);
	assert_int_equal(dv_execution_ceiling(200, 0, 10, 52), 52);
	assert_int_equal(dv_execution_ceiling(200, 1, 10, 52), 52);
	assert_int_equal(dv_execution_ceiling(200, 1e12, 10, 52), 10);
}

static void
average_vectors(void **state)
{
	static const double expected[] = {7.0, 11.5, 14.65, 16.855, 18.3985, 19.47895};
	int			i;

	(void) state;
	for (i = 0; i < 6; i++)
	{
		succeed(DV_KIND_UPDATE, i == 0 ? 7 : 22);
		assert_true(rate.average[DV_KIND_UPDATE] / DV_SECOND > expected[i] - 1e-6);
		assert_true(rate.average[DV_KIND_UPDATE] / DV_SECOND < expected[i] + 1e-6);
	}
}

static void
slow_batches_bind_after_three(void **state)
{
	(void) state;
	rate.current = 52;
	succeed(DV_KIND_DELETE, 10);
	succeed(DV_KIND_DELETE, 10);
	assert_int_equal(peek(DV_KIND_DELETE), 52);
	succeed(DV_KIND_DELETE, 10);
	assert_int_equal(peek(DV_KIND_DELETE), 20);
	assert_int_equal(binds(DV_KIND_DELETE), DV_BINDS_EXECUTION_CEILING);
	assert_int_equal(peek(DV_KIND_CREATE), 52); /* each kind separately */
}

static void
fast_requests_do_not_keep_slow_ones_out(void **state)
{
	int			in_flight[DV_KINDS] = {[DV_KIND_CREATE] = 30};
	dv_binding	binding;

	(void) state;
	rate.current = 52;
	rate.samples[DV_KIND_DELETE] = rate.samples[DV_KIND_UPDATE] = 3;
	rate.average[DV_KIND_DELETE] = 10 * DV_SECOND;
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_DELETE, in_flight, now, &binding), 50);
	assert_int_equal(binding, DV_BINDS_EXECUTION_CEILING);
	in_flight[DV_KIND_CREATE] = 40; /* and not more than all together may be */
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_DELETE, in_flight, now, &binding), 52);
	in_flight[DV_KIND_CREATE] = 0;
	in_flight[DV_KIND_UPDATE] = 12; /* slow requests themselves count */
	rate.average[DV_KIND_UPDATE] = 8 * DV_SECOND;
	/* 12 of 25 are in use, so 13/25 of 20 are left */
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_DELETE, in_flight, now, &binding), 22);
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_CREATE, in_flight, now, &binding), 52);
}

static void
slow_requests_do_not_keep_slower_ones_out(void **state)
{
	int			in_flight[DV_KINDS] = {[DV_KIND_DELETE] = 19};
	dv_binding	binding;

	(void) state;
	rate.current = 52;
	rate.samples[DV_KIND_DELETE] = rate.samples[DV_KIND_UPDATE] = 3;
	rate.average[DV_KIND_DELETE] = 10 * DV_SECOND;	/* 20 at once */
	rate.average[DV_KIND_UPDATE] = 100 * DV_SECOND; /* 2 at once */
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_UPDATE, in_flight, now, &binding), 20);
	in_flight[DV_KIND_UPDATE] = 1;	/* now more than all of it is in use */
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_UPDATE, in_flight, now, &binding), 20);
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_DELETE, in_flight, now, &binding), 20);
	in_flight[DV_KIND_DELETE] = 9;
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_DELETE, in_flight, now, &binding), 11);
	in_flight[DV_KIND_DELETE] = 0;
	in_flight[DV_KIND_UPDATE] = 2;
	assert_int_equal(dv_rate_limit(&rate, &config, DV_KIND_UPDATE, in_flight, now, &binding), 2);
	assert_int_equal(binding, DV_BINDS_EXECUTION_CEILING);
}

static void
slow_threshold_is_inclusive(void **state)
{
	(void) state;
	rate.current = 52;
	rate.samples[DV_KIND_UPDATE] = 3;
	rate.average[DV_KIND_UPDATE] = 8 * DV_SECOND - 1;
	assert_int_equal(peek(DV_KIND_UPDATE), 52);
	rate.average[DV_KIND_UPDATE] = 8 * DV_SECOND;
	assert_int_equal(peek(DV_KIND_UPDATE), 25);
	config.execution_factor = 0;
	assert_int_equal(peek(DV_KIND_UPDATE), 52);
}

static void
a_ceiling_binds_at_every_read(void **state)
{
	(void) state;
	rate.current = 50;
	rate.samples[DV_KIND_UPDATE] = 3;
	rate.average[DV_KIND_UPDATE] = 20 * DV_SECOND;
	assert_int_equal(peek(DV_KIND_UPDATE), 10);
	assert_int_equal(limit(0), 50);
	rate.average[DV_KIND_UPDATE] = 1 * DV_SECOND;
	assert_int_equal(peek(DV_KIND_UPDATE), 50);
}

/* The ceiling of slow requests also limits growth. */
static void
growth_ends_at_the_execution_ceiling(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 3; i++)
		succeed(DV_KIND_DELETE, 10);
	rate.current = 17;
	for (i = 0; i < 100; i++)
	{
		now += DV_SECOND;
		succeed(DV_KIND_DELETE, 10);
	}
	assert_int_equal(rate.current, 20);
	assert_int_equal(peek(DV_KIND_CREATE), 20);
	drive(6);					/* fast ones are not bound by it */
	assert_int_equal(rate.current, 28);
}

static void
throttle_ceiling_vectors(void **state)
{
	static const double retry_after[] = {1.3, 30, 60, 150, 300, 480};
	static const int expected[] = {39, 38, 36, 30, 20, 20};
	int			existing = 0;
	int			i;

	(void) state;
	for (i = 0; i < 6; i++)
		assert_int_equal(dv_throttle_ceiling(40, 0, (int64_t) (retry_after[i] * DV_SECOND), 10),
						 expected[i]);
	for (i = 0; i < 4; i++)		/* a cascade of throttles over 1.3 s, from 30 */
	{
		existing = dv_throttle_ceiling(i == 0 ? 30 : 15, existing, 13 * DV_SECOND / 10, 1);
		assert_int_equal(existing, 29 - i);
	}
	assert_int_equal(dv_throttle_ceiling(4, 0, 300 * DV_SECOND, 3), 3);
}

static void
throttle_ceiling_stops_recovery(void **state)
{
	int64_t		until;

	(void) state;
	rate.current = 40;
	throttle(150);
	assert_int_equal(rate.throttle_ceiling, 30);
	until = now + (150 + 300) * DV_SECOND;
	assert_int_equal(rate.throttle_ceiling_until, until);
	now += 150 * DV_SECOND;
	drive(200);
	assert_int_equal(rate.current, 30);
	assert_int_equal(binds(DV_KIND_CREATE), DV_BINDS_THROTTLE_CEILING);
	now = until - 1;
	rate.current = 50;
	assert_int_equal(peek(DV_KIND_CREATE), 30);
	now = until;
	assert_int_equal(peek(DV_KIND_CREATE), 50);
}

static void
expired_ceiling_is_not_a_base(void **state)
{
	(void) state;
	rate.current = 50;
	throttle(60);
	assert_int_equal(rate.throttle_ceiling, 45);
	now += 361 * DV_SECOND;
	rate.current = 20;
	rate.peak_in_flight = 0;
	throttle(60);
	assert_int_equal(rate.throttle_ceiling, 18);
}

static void
without_a_wait_there_is_no_ceiling(void **state)
{
	(void) state;
	throttle(0);
	assert_int_equal(rate.throttle_ceiling, 0);
}

static void
names(void **state)
{
	(void) state;
	assert_string_equal(dv_kind_name(DV_KIND_READ), "read");
	assert_string_equal(dv_kind_name(DV_KIND_OTHER), "other");
	assert_string_equal(dv_binding_name(DV_BINDS_FIXED), "fixed");
	assert_string_equal(dv_binding_name(DV_BINDS_CURRENT), "adaptive rate");
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(first_limit_is_half_the_maximum),
		TEST(start_respects_the_minimum),
		TEST(factors_are_not_cut_by_binary_fractions),
		TEST(disabled_is_the_maximum),
		TEST(maximum_from_option_and_hint),
		TEST(presets_are_exact),
		TEST(an_override_leaves_the_rest),
		TEST(golden_climb),
		TEST(golden_recovery_from_44),
		TEST(golden_recovery_from_41),
		TEST(golden_example),
		TEST(a_lone_short_wait_sets_no_ceiling),
		TEST(a_long_wait_sets_a_ceiling_at_once),
		TEST(a_second_throttle_sets_a_ceiling),
		TEST(a_second_throttle_must_come_within_the_window),
		TEST(what_was_good_lasts_from_the_throttle),
		TEST(recovery_takes_23_seconds),
		TEST(both_gates_are_needed),
		TEST(never_above_the_maximum),
		TEST(grows_only_when_used),
		TEST(throttle_halves_and_counts),
		TEST(a_lone_request_halves_the_limit_too),
		TEST(throttles_stop_at_the_minimum),
		TEST(a_burst_is_one_cut),
		TEST(a_burst_ends_by_time_and_by_sending),
		TEST(an_unused_level_is_not_blamed),
		TEST(known_good_goes_stale),
		TEST(idleness_resets),
		TEST(asking_is_activity),
		TEST(idleness_clears_the_throttle_ceiling),
		TEST(waiting_out_a_throttle_is_not_idleness),
		TEST(looking_is_not_activity),
		TEST(reset_keeps_the_total),
		TEST(users_are_isolated),
		TEST(a_falling_maximum_binds_at_once),
		TEST(a_rising_maximum_is_a_start_until_a_throttle),
		TEST(starts_full),
		TEST(execution_ceiling_vectors),
		TEST(average_vectors),
		TEST(slow_batches_bind_after_three),
		TEST(fast_requests_do_not_keep_slow_ones_out),
		TEST(slow_requests_do_not_keep_slower_ones_out),
		TEST(slow_threshold_is_inclusive),
		TEST(a_ceiling_binds_at_every_read),
		TEST(growth_ends_at_the_execution_ceiling),
		TEST(throttle_ceiling_vectors),
		TEST(throttle_ceiling_stops_recovery),
		TEST(expired_ceiling_is_not_a_base),
		TEST(without_a_wait_there_is_no_ceiling),
		TEST(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * rate_random_test.c
 *		The rate controller under events in random order: no limit ever
 *		leaves its bounds, and where the specification is complete, the state
 *		is that of its pseudocode.
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

/*
 * The pseudocode of the specification of the rate, and of the later one about
 * execution time, with corrections: idleness is tested before the activity is
 * noted, values that are too old get a new stamp, and the start value is not
 * below the minimum.  It has no bursts and no ceiling after a throttle, and
 * assumes that the limit is used.
 */
typedef struct model
{
	int			max;
	int			current;
	int			last_known_good;
	int			successes;
	int			total;
	int64_t		last_known_good_at;
	int64_t		last_increase;
	int64_t		last_activity;
	double		average;
	int			samples;
} model;

static int
at_least(int value, int least)
{
	return value > least ? value : least;
}

static int
at_most(int value, int most)
{
	return value < most ? value : most;
}

static void
model_start(model *m)
{
	m->current = at_least((int) (m->max * config.initial_factor + 1e-9), config.min_parallelism);
	m->last_known_good = m->current;
	m->last_known_good_at = m->last_increase = m->last_activity = now;
	m->successes = 0;
}

static int
model_ceiling(const model *m)
{
	if (m->samples < 3 || m->average < config.slow_batch_threshold)
		return m->max;
	return at_most(at_least((int) (config.execution_factor / (m->average / DV_SECOND)),
							config.min_parallelism), m->max);
}

static int
model_limit(model *m)
{
	if (now - m->last_activity > config.idle_reset_period)
		model_start(m);
	m->last_activity = now;
	return at_most(m->current, model_ceiling(m));
}

static void
model_success(model *m, int64_t duration)
{
	int			step = config.increase_rate;

	m->last_activity = now;
	m->successes++;
	m->average = m->samples++ == 0 ? duration : 0.3 * duration + 0.7 * m->average;
	if (now - m->last_known_good_at > config.last_known_good_ttl)
	{
		m->last_known_good = m->current;
		m->last_known_good_at = now;
	}
	if (m->successes < config.stabilization_batches ||
		now - m->last_increase < config.min_increase_interval || m->current >= model_ceiling(m))
		return;
	if (m->current < m->last_known_good)
		step = (int) (config.increase_rate * config.recovery_multiplier + 1e-9);
	m->current = at_most(m->current + step, model_ceiling(m));
	m->successes = 0;
	m->last_increase = now;
}

static void
model_throttle(model *m)
{
	m->last_activity = now;
	m->total++;
	m->last_known_good = at_least(m->current - config.increase_rate, config.min_parallelism);
	m->last_known_good_at = now;
	m->current = at_least((int) (m->current * config.decrease_factor + 1e-9),
						  config.min_parallelism);
	m->successes = 0;
}

static void
draw_config(int max)
{
	config.initial_factor = (10 + random_below(91)) / 100.0;
	config.min_parallelism = 1 + (int) random_below(at_most(max, 6));
	config.increase_rate = 1 + (int) random_below(5);
	config.decrease_factor = (10 + random_below(81)) / 100.0;
	config.stabilization_batches = 1 + (int) random_below(5);
	config.min_increase_interval = random_below(9) * DV_SECOND;
	config.recovery_multiplier = 1 + random_below(31) / 10.0;
	config.last_known_good_ttl = (1 + random_below(60)) * DV_SECOND;
	config.idle_reset_period = (1 + random_below(60)) * DV_SECOND;
	config.debounce = 0;
}

static void
assert_same(const dv_rate *r, const model *m)
{
	if (r->current != m->current || r->last_known_good != m->last_known_good ||
		r->successes != m->successes || r->total_throttles != m->total ||
		r->last_known_good_at != m->last_known_good_at ||
		r->last_increase != m->last_increase || r->last_activity != m->last_activity)
		fail_msg("limit %d, known good %d, successes %d, throttles %d; by the specification %d, %d, %d, %d; "
				 "stamps differ by %lld, %lld, %lld",
				 r->current, r->last_known_good, r->successes, (int) r->total_throttles,
				 m->current, m->last_known_good, m->successes, m->total,
				 (long long) (r->last_known_good_at - m->last_known_good_at),
				 (long long) (r->last_increase - m->last_increase),
				 (long long) (r->last_activity - m->last_activity));
}

/* Two users, so that one's state must not affect the other's. */
static void
the_state_is_that_of_the_specification(void **state)
{
	static const int none[DV_KINDS] = {0};
	dv_rate		rates[2];
	model		models[2];
	dv_binding	binding;
	int			i;

	(void) state;
	seed_random("model of the rate");
	for (i = 0; i < EVENTS; i++)
	{
		int			user = (int) random_below(2);
		dv_rate    *r = &rates[user];
		model	   *m = &models[user];
		int64_t		duration = random_below(i / 100 % 2 ? 30 * DV_SECOND : DV_SECOND);

		if (i % 250 == 0)
		{
			int			max = 1 + (int) random_below(52);

			config = dv_rate_preset((dv_preset) random_below(3));
			draw_config(max);
			for (int u = 0; u < 2; u++)
			{
				dv_rate_init(&rates[u], &config, max, now);
				models[u] = (model)
				{
					.max = max
				};
				model_start(&models[u]);
			}
		}
		now += 1 + random_below(random_below(50) == 0 ? 90 * DV_SECOND : 3 * DV_SECOND);
		dv_rate_sent(r, r->current);
		switch (random_below(10))
		{
			case 0:
				assert_true(dv_rate_throttle(r, &config, now, 0, now));
				model_throttle(m);
				break;
			case 1:
				assert_int_equal(dv_rate_limit(r, &config, DV_KIND_CREATE, none, now, &binding),
								 model_limit(m));
				break;
			default:
				dv_rate_success(r, &config, DV_KIND_CREATE, duration, now);
				model_success(m, duration);
		}
		assert_same(r, m);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_never_leave_their_bounds),
		cmocka_unit_test(the_state_is_that_of_the_specification),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

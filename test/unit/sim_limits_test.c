/*
 * sim_limits_test.c
 *		The model of service protection, in virtual time.
 *
 * Every rule of limits.h has a test of its own with a window of 300 s, so a
 * slice is a second and figures can be verified mentally.  The last test compares
 * a million random events with a reference that keeps every event instead of
 * sums.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "limits/limits.h"

#define SECOND INT64_C(1000000)
#define WINDOW (300 * SECOND)
#define EVENTS 1000000
#define SEED 20260822

/* the limits of the service */
static const struct sim_limits_config service = {
	WINDOW, 6000, 1200 * SECOND, 52
};

static struct sim_limits limits;

static int
setup(void **state)
{
	(void) state;
	sim_limits_init(&limits);
	return 0;
}

static struct sim_verdict
demand(const struct sim_limits_config *config, int64_t now)
{
	return sim_limits_enter(&limits, config, now, false);
}

/* enters and leaves at once, with this execution time */
static void
run(const struct sim_limits_config *config, int64_t now, int64_t execution)
{
	struct sim_verdict verdict = demand(config, now);

	assert_int_equal(verdict.limit, SIM_LIMIT_NONE);
	sim_limits_leave(&limits, config, now, execution);
}

static void
run_many(const struct sim_limits_config *config, int64_t now, int n)
{
	while (n-- > 0)
		run(config, now, 0);
}

static void
assert_admitted(const struct sim_limits_config *config, int64_t now)
{
	assert_int_equal(demand(config, now).limit, SIM_LIMIT_NONE);
}

static void
assert_refused(const struct sim_limits_config *config, int64_t now, enum sim_limit limit,
			   int64_t retry_after)
{
	struct sim_verdict verdict = demand(config, now);

	assert_int_equal(verdict.limit, limit);
	assert_int_equal(verdict.retry_after_us, retry_after);
}

static void
starts_with_the_whole_budget(void **state)
{
	struct sim_verdict verdict = demand(&service, 0);

	(void) state;
	assert_int_equal(verdict.limit, SIM_LIMIT_NONE);
	assert_int_equal(verdict.retry_after_us, 0);
	assert_int_equal(verdict.remaining_requests, 5999);
	assert_int_equal(verdict.remaining_execution_us, 1200 * SECOND);
	sim_limits_leave(&limits, &service, 1, 30000);
	verdict = demand(&service, 2);
	assert_int_equal(verdict.remaining_requests, 5998);
	assert_int_equal(verdict.remaining_execution_us, 1200 * SECOND - 30000);
}

static void
admits_exactly_the_limit_of_requests(void **state)
{
	struct sim_verdict verdict;

	(void) state;
	run_many(&service, 0, 5999);
	verdict = demand(&service, 0);
	assert_int_equal(verdict.limit, SIM_LIMIT_NONE);
	assert_int_equal(verdict.remaining_requests, 0);
	sim_limits_leave(&limits, &service, 0, 0);
	assert_refused(&service, 0, SIM_LIMIT_REQUESTS, 301 * SECOND);
	assert_int_equal(limits.requests, 6000);
	assert_int_equal(limits.in_flight, 0);
	assert_int_equal(limits.throttles[SIM_LIMIT_REQUESTS], 1);
}

static void
refuses_when_time_is_used_up_exactly(void **state)
{
	(void) state;
	run(&service, 0, 1200 * SECOND - 1);
	assert_admitted(&service, 0);
	sim_limits_leave(&limits, &service, 0, 1);
	assert_refused(&service, 0, SIM_LIMIT_EXECUTION, 301 * SECOND);
	assert_int_equal(limits.throttles[SIM_LIMIT_EXECUTION], 1);
}

static void
time_may_be_overshot_by_what_is_in_flight(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 52; i++)
		assert_admitted(&service, 0);
	for (i = 0; i < 52; i++)
		sim_limits_leave(&limits, &service, 100 * SECOND, 100 * SECOND);
	assert_int_equal(limits.execution_us, 5200 * SECOND);

	/* charged when it ended, so it leaves a window later */
	assert_refused(&service, 100 * SECOND, SIM_LIMIT_EXECUTION, 301 * SECOND);
	assert_admitted(&service, 401 * SECOND);
	assert_int_equal(limits.execution_us, 0);
}

static void
concurrency_is_exact_and_blocks_nothing(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 52; i++)
		assert_admitted(&service, 0);
	assert_refused(&service, 0, SIM_LIMIT_CONCURRENCY, 0);
	assert_int_equal(limits.in_flight, 52);
	assert_int_equal(limits.throttles[SIM_LIMIT_CONCURRENCY], 1);
	sim_limits_leave(&limits, &service, 0, 0);
	assert_admitted(&service, 0);
	assert_int_equal(limits.requests, 53);
}

static void
concurrency_wait_grows_with_the_pressure(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 52; i++)
		assert_admitted(&service, 0);
	for (i = 0; i < 300; i++)
		assert_refused(&service, 0, SIM_LIMIT_CONCURRENCY,
					   (i / 26 < 5 ? i / 26 : 5) * SECOND);

	/* the count is forgotten with the slice */
	assert_refused(&service, SECOND, SIM_LIMIT_CONCURRENCY, 0);
}

static void
requests_come_before_time_and_time_before_concurrency(void **state)
{
	static const struct sim_limits_config tiny = {WINDOW, 2, SECOND, 1};

	(void) state;
	run(&tiny, 0, SECOND);
	assert_int_equal(demand(&tiny, 0).limit, SIM_LIMIT_EXECUTION);
	setup(NULL);
	assert_admitted(&tiny, 0);
	sim_limits_leave(&limits, &tiny, 0, SECOND - 1);
	assert_admitted(&tiny, 0);
	assert_int_equal(demand(&tiny, 0).limit, SIM_LIMIT_REQUESTS);
	sim_limits_leave(&limits, &tiny, 0, 1);
	assert_int_equal(demand(&tiny, 0).limit, SIM_LIMIT_REQUESTS);
}

static void
the_longer_wait_counts_when_both_are_reached(void **state)
{
	static const struct sim_limits_config tiny = {WINDOW, 2, SECOND, 9};

	(void) state;
	run(&tiny, 0, 0);
	run(&tiny, 100 * SECOND, SECOND);

	/* the first request leaves at 301 s, the time at 401 s */
	assert_refused(&tiny, 200 * SECOND, SIM_LIMIT_REQUESTS, 201 * SECOND);
}

static void
a_request_leaves_with_its_slice(void **state)
{
	static const struct sim_limits_config one = {WINDOW, 1, 1200 * SECOND, 9};

	(void) state;
	/* the last microsecond of slice 7 leaves with the first microsecond of slice 308 */
	run(&one, 8 * SECOND - 1, 0);
	assert_int_equal(sim_limits_enter(&limits, &one, 308 * SECOND - 1, true).limit,
					 SIM_LIMIT_REQUESTS);
	setup(NULL);
	run(&one, 8 * SECOND - 1, 0);
	assert_int_equal(sim_limits_enter(&limits, &one, 308 * SECOND, true).limit,
					 SIM_LIMIT_NONE);
	setup(NULL);
	/* and the first microsecond of slice 7 stays until the same time */
	run(&one, 7 * SECOND, 0);
	assert_refused(&one, 7 * SECOND, SIM_LIMIT_REQUESTS, 301 * SECOND);
}

static void
window_slides_slice_by_slice(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 300; i++)
		run_many(&service, i * SECOND, 10);
	assert_int_equal(limits.requests, 3000);
	for (i = 301; i <= 600; i++)
	{
		sim_limits_leave(&limits, &service, i * SECOND, 0);
		assert_int_equal(limits.requests, 3000 - 10 * (i - 300));
	}
}

static void
windows_that_do_not_divide_are_exact(void **state)
{
	static const struct sim_limits_config odd = {SECOND + 7, 1, SECOND, 9};

	(void) state;
	run(&odd, 0, 0);

	/* slice 301 begins at ceil(301 * 1000007 / 300) */
	assert_refused(&odd, 0, SIM_LIMIT_REQUESTS, 1003341);
	assert_admitted(&odd, 1003341);
}

static void
retry_after_waits_for_headroom(void **state)
{
	static const struct sim_limits_config hundred = {WINDOW, 100, 1200 * SECOND, 9};
	int			i;

	(void) state;
	for (i = 0; i < 100; i++)
		run(&hundred, i * SECOND, 0);

	/* the goal is 95, so the five requests of seconds 0 to 4 must leave */
	assert_refused(&hundred, 100 * SECOND, SIM_LIMIT_REQUESTS, 205 * SECOND);
}

static void
retry_after_of_a_tiny_limit_waits_for_one(void **state)
{
	static const struct sim_limits_config three = {WINDOW, 3, 1200 * SECOND, 9};

	(void) state;
	run(&three, 0, 0);
	run(&three, 10 * SECOND, 0);
	run(&three, 20 * SECOND, 0);
	assert_refused(&three, 30 * SECOND, SIM_LIMIT_REQUESTS, 271 * SECOND);
}

static void
retry_after_can_be_zero(void **state)
{
	static const struct sim_limits_config one = {WINDOW, 1, 1200 * SECOND, 9};
	int64_t		room = 301 * SECOND;

	(void) state;
	run(&one, 0, 0);
	/* half a slice is reported, but not less */
	assert_refused(&one, room - SECOND / 2, SIM_LIMIT_REQUESTS, SECOND / 2);
	setup(NULL);
	run(&one, 0, 0);
	assert_refused(&one, room - SECOND / 2 + 1, SIM_LIMIT_REQUESTS, 0);
	assert_int_equal(limits.blocked_until_us, room - SECOND / 2 + 1);
	/* after a Retry-After of 0, an immediate request does not make things worse */
	assert_refused(&one, room - SECOND / 2 + 2, SIM_LIMIT_REQUESTS, 0);
	assert_int_equal(limits.penalty_us, 0);
	assert_admitted(&one, room);
}

static void
a_standing_block_refuses_although_there_is_room(void **state)
{
	static const struct sim_limits_config hundred = {WINDOW, 100, 1200 * SECOND, 200};
	int			i;

	(void) state;
	for (i = 0; i < 100; i++)
		run(&hundred, i * SECOND, 0);
	assert_refused(&hundred, 100 * SECOND, SIM_LIMIT_REQUESTS, 205 * SECOND);

	/* one has left, so the window has room, but the block lasts until 305 s */
	assert_int_equal(sim_limits_enter(&limits, &hundred, 301 * SECOND, true).limit,
					 SIM_LIMIT_NONE);
	assert_int_equal(limits.requests, 100);
	assert_int_equal(sim_limits_enter(&limits, &hundred, 301 * SECOND, true).limit,
					 SIM_LIMIT_REQUESTS);
	assert_int_equal(demand(&hundred, 304 * SECOND).limit, SIM_LIMIT_REQUESTS);
}

static void
a_block_ends_at_its_last_microsecond(void **state)
{
	static const struct sim_limits_config hundred = {WINDOW, 100, 1200 * SECOND, 200};
	struct sim_limits copy;
	int			i;

	(void) state;
	for (i = 0; i < 100; i++)
		run(&hundred, i * SECOND, 0);
	assert_refused(&hundred, 100 * SECOND, SIM_LIMIT_REQUESTS, 205 * SECOND);
	copy = limits;
	assert_int_equal(demand(&hundred, 305 * SECOND - 1).limit, SIM_LIMIT_REQUESTS);
	limits = copy;
	assert_admitted(&hundred, 305 * SECOND);
}

static void
penalty_doubles_and_is_capped(void **state)
{
	static const int64_t penalties[] = {1, 2, 4, 8, 16, 32, 64, 120, 120};
	static const struct sim_limits_config one = {WINDOW, 1, 1200 * SECOND, 9};
	size_t		i;

	(void) state;
	run(&one, 0, 0);
	assert_refused(&one, 0, SIM_LIMIT_REQUESTS, 301 * SECOND);
	for (i = 0; i < sizeof(penalties) / sizeof(penalties[0]); i++)
	{
		int64_t		now = (int64_t) (i + 1) * SECOND;

		assert_refused(&one, now, SIM_LIMIT_REQUESTS, (301 + penalties[i]) * SECOND - now);
		assert_int_equal(limits.penalty_us, penalties[i] * SECOND);
	}

	/* more than the window, because values above 300 are possible */
	assert_int_equal(limits.blocked_until_us, 421 * SECOND);
	assert_int_equal(limits.throttles[SIM_LIMIT_REQUESTS], 10);
}

static void
penalty_grows_once_a_slice(void **state)
{
	static const struct sim_limits_config one = {WINDOW, 1, 1200 * SECOND, 9};
	int			i;

	(void) state;
	run(&one, 0, 0);
	/* all requests of a burst that were in flight when the block began */
	for (i = 0; i < 50; i++)
		assert_refused(&one, i, SIM_LIMIT_REQUESTS, 301 * SECOND - i);
	assert_int_equal(limits.penalty_us, 0);
	for (i = 0; i < 50; i++)
		assert_refused(&one, SECOND + i, SIM_LIMIT_REQUESTS, 301 * SECOND - i);
	assert_int_equal(limits.penalty_us, SECOND);
}

static void
who_never_stops_asking_never_comes_in(void **state)
{
	static const struct sim_limits_config one = {WINDOW, 1, 1200 * SECOND, 9};
	int64_t		now;

	(void) state;
	run(&one, 0, 0);
	for (now = SECOND; now < 2000 * SECOND; now += SECOND)
		assert_int_equal(demand(&one, now).limit, SIM_LIMIT_REQUESTS);
	/* the window has long been empty, and only the penalty is left */
	assert_int_equal(limits.requests, 0);
	assert_int_equal(limits.blocked_until_us, (1999 + 120) * SECOND);
	assert_int_equal(sim_limits_enter(&limits, &one, now, true).limit, SIM_LIMIT_NONE);
}

static void
light_requests_do_not_grow_the_penalty(void **state)
{
	static const struct sim_limits_config one = {WINDOW, 1, 1200 * SECOND, 9};
	int64_t		now;

	(void) state;
	run(&one, 0, 0);
	assert_refused(&one, 0, SIM_LIMIT_REQUESTS, 301 * SECOND);
	for (now = SECOND; now < 300 * SECOND; now += SECOND)
	{
		struct sim_verdict verdict = sim_limits_enter(&limits, &one, now, true);

		assert_int_equal(verdict.limit, SIM_LIMIT_REQUESTS);
		assert_int_equal(verdict.retry_after_us, 301 * SECOND - now);
	}
	assert_int_equal(limits.penalty_us, 0);
}

static void
penalty_halves_with_quiet(void **state)
{
	static const struct sim_limits_config one = {WINDOW, 1, 1200 * SECOND, 9};
	int			i;

	(void) state;
	run(&one, 0, 0);
	for (i = 0; i <= 4; i++)
		assert_int_equal(demand(&one, i * SECOND).limit, SIM_LIMIT_REQUESTS);
	assert_int_equal(limits.penalty_us, 8 * SECOND);
	sim_limits_leave(&limits, &one, 34 * SECOND - 1, 0);
	assert_int_equal(limits.penalty_us, 8 * SECOND);
	sim_limits_leave(&limits, &one, 34 * SECOND, 0);
	assert_int_equal(limits.penalty_us, 4 * SECOND);
	sim_limits_leave(&limits, &one, 94 * SECOND, 0);
	assert_int_equal(limits.penalty_us, SECOND);
	sim_limits_leave(&limits, &one, INT64_C(1000000) * SECOND, 0);
	assert_int_equal(limits.penalty_us, 0);
}

static void
an_obeyed_window_clears_the_penalty(void **state)
{
	static const struct sim_limits_config one = {WINDOW, 1, 1200 * SECOND, 9};
	int64_t		now;

	(void) state;
	run(&one, 0, 0);
	for (now = 0; now < 20 * SECOND; now += SECOND)
		assert_int_equal(demand(&one, now).limit, SIM_LIMIT_REQUESTS);
	now = limits.blocked_until_us;
	assert_int_equal(now, 421 * SECOND);
	assert_admitted(&one, now);
	assert_int_equal(limits.penalty_us, 0);
}

static void
a_standing_penalty_adds_to_the_next_block(void **state)
{
	static const struct sim_limits_config config = {WINDOW, 1000, 10 * SECOND, 9};

	(void) state;
	run(&config, 0, 10 * SECOND);
	assert_refused(&config, 280 * SECOND, SIM_LIMIT_EXECUTION, 21 * SECOND);
	assert_refused(&config, 281 * SECOND, SIM_LIMIT_EXECUTION, 21 * SECOND);
	assert_refused(&config, 282 * SECOND, SIM_LIMIT_EXECUTION, 21 * SECOND);
	assert_int_equal(limits.penalty_us, 2 * SECOND);
	run(&config, 303 * SECOND, 10 * SECOND);

	/* 301 s until the slice leaves, and the 2 s that have not yet decayed */
	assert_refused(&config, 303 * SECOND, SIM_LIMIT_EXECUTION, 303 * SECOND);
}

static void
a_block_keeps_its_code(void **state)
{
	static const struct sim_limits_config config = {WINDOW, 1000, 100 * SECOND, 9};

	(void) state;
	run(&config, 0, 100 * SECOND);
	assert_refused(&config, 0, SIM_LIMIT_EXECUTION, 301 * SECOND);
	assert_refused(&config, 300 * SECOND, SIM_LIMIT_EXECUTION, 2 * SECOND);

	/* now the window is empty, and only the penalty is left */
	assert_refused(&config, 301 * SECOND, SIM_LIMIT_EXECUTION, 2 * SECOND);
	assert_int_equal(limits.execution_us, 0);
}

static void
time_that_goes_back_stands_still(void **state)
{
	(void) state;
	run(&service, 500 * SECOND, SECOND);
	run(&service, 100 * SECOND, SECOND);
	assert_int_equal(limits.requests, 2);
	assert_int_equal(limits.execution_us, 2 * SECOND);
	run(&service, 800 * SECOND, 0);
	assert_int_equal(limits.requests, 3);
	assert_int_equal(limits.execution_us, 2 * SECOND);
	run(&service, 801 * SECOND, 0);
	assert_int_equal(limits.requests, 2);
	assert_int_equal(limits.execution_us, 0);
}

static void
leaving_too_often_or_negative_does_no_harm(void **state)
{
	(void) state;
	sim_limits_leave(&limits, &service, 0, -5);
	assert_int_equal(limits.in_flight, 0);
	assert_int_equal(limits.execution_us, 0);
}

static void
codes_are_the_services(void **state)
{
	(void) state;
	assert_string_equal(sim_limit_code(SIM_LIMIT_REQUESTS), "0x80072322");
	assert_string_equal(sim_limit_code(SIM_LIMIT_EXECUTION), "0x80072321");
	assert_string_equal(sim_limit_code(SIM_LIMIT_CONCURRENCY), "0x80072326");
	assert_string_equal(sim_limit_code(SIM_LIMIT_NONE), "");
}

/* ------------------------------------------------------------ a million events */

/* an event: a request arrived (execution 0) or ended (execution > 0) */
struct event
{
	int64_t		slice;
	int64_t		requests;
	int64_t		execution_us;
};

static struct event *events;
static size_t first;
static size_t n_events;
static int64_t sum_requests;
static int64_t sum_execution;

static uint64_t random_state;

static uint64_t
next_random(void)
{
	uint64_t	z = (random_state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static int64_t
random_below(int64_t n)
{
	return (int64_t) (next_random() % (uint64_t) n);
}

static void
remember(int64_t slice, int64_t requests, int64_t execution)
{
	events[n_events++] = (struct event)
	{
		slice, requests, execution
	};
	sum_requests += requests;
	sum_execution += execution;
}

static void
forget_before(int64_t slice)
{
	for (; first < n_events && events[first].slice < slice; first++)
	{
		sum_requests -= events[first].requests;
		sum_execution -= events[first].execution_us;
	}
}

/* a lone client that obeys Retry-After is admitted */
static void
check_obedience(const struct sim_limits_config *config, int64_t now, int64_t retry_after)
{
	struct sim_limits copy = limits;
	int64_t		then = now + retry_after;

	if (retry_after == 0)
		then += config->window_us / SIM_LIMIT_SLICES;
	copy.in_flight = 0;
	assert_int_equal(sim_limits_enter(&copy, config, then, false).limit, SIM_LIMIT_NONE);
}

static void
check_refusal(const struct sim_limits_config *config, int64_t now, bool light,
			  const struct sim_limits *before, struct sim_verdict verdict)
{
	int64_t		slice = config->window_us / SIM_LIMIT_SLICES;

	assert_in_range(verdict.retry_after_us, 0,
					config->window_us + (2 + SIM_LIMIT_MAX_PENALTY) * (slice + 1));
	if (verdict.limit == SIM_LIMIT_CONCURRENCY)
	{
		assert_int_equal(limits.in_flight, config->max_concurrent);
		assert_int_equal(limits.blocked_until_us, before->blocked_until_us);
		assert_true(verdict.retry_after_us <= 5 * slice);
		return;
	}
	assert_int_equal(limits.blocked_until_us, now + verdict.retry_after_us);
	assert_true(light || now < before->blocked_until_us ||
				sum_requests >= config->max_requests ||
				sum_execution >= config->max_execution_us);
	/* another request never shortens the block, except by the last half slice */
	if (verdict.retry_after_us > 0)
		assert_true(limits.blocked_until_us >= before->blocked_until_us);
	check_obedience(config, now, verdict.retry_after_us);
}

static bool
enter_and_check(const struct sim_limits_config *config, int64_t now)
{
	bool		light = random_below(10) == 0;
	struct sim_limits before = limits;
	struct sim_verdict verdict = sim_limits_enter(&limits, config, now, light);
	bool		room = sum_requests < config->max_requests &&
	sum_execution < config->max_execution_us &&
	before.in_flight < config->max_concurrent;
	bool		admitted = room && (light || now >= before.blocked_until_us);

	assert_int_equal(verdict.limit == SIM_LIMIT_NONE, admitted);
	assert_int_equal(limits.in_flight, before.in_flight + admitted);
	if (admitted)
	{
		remember(limits.slice, 1, 0);
		assert_int_equal(verdict.remaining_requests, config->max_requests - sum_requests);
		assert_int_equal(verdict.remaining_execution_us,
						 config->max_execution_us - sum_execution);
		assert_true(verdict.remaining_requests >= 0);
		assert_true(verdict.remaining_execution_us > 0);
	}
	else
		check_refusal(config, now, light, &before, verdict);
	return admitted;
}

static void
a_million_random_events(void **state)
{
	static const struct sim_limits_config config = {WINDOW + 41, 500, 300 * SECOND, 12};
	const char *seed = getenv("SEED");
	int64_t		now = 0;
	int			admitted = 0;
	int			i;

	(void) state;
	random_state = seed != NULL ? strtoull(seed, NULL, 10) : SEED;
	print_message("SEED=%llu\n", (unsigned long long) random_state);
	events = calloc(EVENTS, sizeof(*events));
	assert_non_null(events);

	for (i = 0; i < EVENTS; i++)
	{
		/* periods of hammering, steady work, and silence */
		int64_t		pace = random_below(2000) == 0 ? 400 * SECOND
		: (i / 5000) % 3 == 0 ? SECOND / 50 : (i / 5000) % 3 == 1 ? SECOND / 2 : 2 * SECOND;

		now += random_below(pace);
		forget_before(now * SIM_LIMIT_SLICES / config.window_us - SIM_LIMIT_SLICES);
		if (limits.in_flight > 0 && random_below(5) < 2)
		{
			int64_t		execution = 1 + random_below((i / 50000 % 2 == 0 ? 1 : 3) * SECOND);

			sim_limits_leave(&limits, &config, now, execution);
			remember(limits.slice, 0, execution);
		}
		else
			admitted += enter_and_check(&config, now);

		assert_int_equal(limits.requests, sum_requests);
		assert_int_equal(limits.execution_us, sum_execution);
		assert_in_range(limits.in_flight, 0, config.max_concurrent);
		assert_true(limits.penalty_us >= 0);
	}

	/* the random walk has met every outcome */
	assert_true(admitted > 1000);
	assert_true(limits.throttles[SIM_LIMIT_REQUESTS] > 1000);
	assert_true(limits.throttles[SIM_LIMIT_EXECUTION] > 1000);
	assert_true(limits.throttles[SIM_LIMIT_CONCURRENCY] > 1000);
	free(events);
}

int
main(void)
{
#define RULE(name) cmocka_unit_test_setup(name, setup)
	static const struct CMUnitTest tests[] = {
		RULE(starts_with_the_whole_budget),
		RULE(admits_exactly_the_limit_of_requests),
		RULE(refuses_when_time_is_used_up_exactly),
		RULE(time_may_be_overshot_by_what_is_in_flight),
		RULE(concurrency_is_exact_and_blocks_nothing),
		RULE(concurrency_wait_grows_with_the_pressure),
		RULE(requests_come_before_time_and_time_before_concurrency),
		RULE(the_longer_wait_counts_when_both_are_reached),
		RULE(a_request_leaves_with_its_slice),
		RULE(window_slides_slice_by_slice),
		RULE(windows_that_do_not_divide_are_exact),
		RULE(retry_after_waits_for_headroom),
		RULE(retry_after_of_a_tiny_limit_waits_for_one),
		RULE(retry_after_can_be_zero),
		RULE(a_standing_block_refuses_although_there_is_room),
		RULE(a_block_ends_at_its_last_microsecond),
		RULE(penalty_doubles_and_is_capped),
		RULE(penalty_grows_once_a_slice),
		RULE(who_never_stops_asking_never_comes_in),
		RULE(light_requests_do_not_grow_the_penalty),
		RULE(penalty_halves_with_quiet),
		RULE(an_obeyed_window_clears_the_penalty),
		RULE(a_standing_penalty_adds_to_the_next_block),
		RULE(a_block_keeps_its_code),
		RULE(time_that_goes_back_stands_still),
		RULE(leaving_too_often_or_negative_does_no_harm),
		RULE(codes_are_the_services),
		RULE(a_million_random_events)
	};

	return cmocka_run_group_tests_name("sim_limits", tests, NULL, NULL);
}

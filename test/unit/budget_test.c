/*
 * budget_test.c
 *		Budget pacing: the estimate of the remaining budget, learning from
 *		answers, and the time of the next request.
 *
 * A few lines simulate the service, with a single, exact window.
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

#include "pool/budget.h"
#include "random_events.h"

#define SECOND INT64_C(1000000)
#define NOW    (1000 * SECOND)
#define UNSAID (-1.0)

static dv_budget budget;
static int64_t now;

static int
setup(void **state)
{
	(void) state;
	now = NOW;
	dv_budget_init(&budget, now);
	return 0;
}

/* sends a request that is answered at once with the remainder */
static void
exchange(double seconds, double requests_left, double seconds_left)
{
	double		remaining[DV_RATIONS] = {requests_left, seconds_left};

	dv_budget_answered(&budget, dv_budget_sent(&budget, now), seconds, remaining, now);
}

/* sends requests to a service without other users; 0 starts anew */
static void
use(int requests, double seconds)
{
	static double used;

	if (requests == 0)
		used = 0;
	while (requests-- > 0)
	{
		exchange(seconds, 6000 - budget.rations[DV_RATION_REQUESTS].used - 1, 1200 - used);
		used += seconds;
	}
}

static int64_t
not_before(double seconds)
{
	return dv_budget_not_before(&budget, 0, seconds, now);
}

static void
about(double value, double expected, double tolerance)
{
	if (value < expected - tolerance || value > expected + tolerance)
		fail_msg("%g is not %g", value, expected);
}

static void
starts_with_the_defaults(void **state)
{
	(void) state;
	about(dv_budget_left(&budget, DV_RATION_REQUESTS, now), 6000, 0);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), 1200, 0);
	assert_int_equal(not_before(5), 0);
}

static void
nothing_said_nothing_held_back(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 10000; i++)
		exchange(1, UNSAID, UNSAID);
	assert_int_equal(not_before(1), 0);
}

static void
own_use_counts(void **state)
{
	(void) state;
	use(0, 0);
	use(100, 2);
	about(dv_budget_left(&budget, DV_RATION_REQUESTS, now), 5900, 2);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), 1000, 3);
}

static void
use_leaves_the_window(void **state)
{
	(void) state;
	use(0, 0);
	use(100, 2);
	now += DV_BUDGET_WINDOW;
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), 1000,
		  3);					/* use does not leave before that */
	now += 3 * DV_BUDGET_WINDOW / DV_BUDGET_SLICES;
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), 1200, 3);
	now += 100 * DV_BUDGET_WINDOW;
	(void) dv_budget_sent(&budget, now);
	about(budget.rations[DV_RATION_REQUESTS].used, 1, 0);
}

static void
time_may_stand_still(void **state)
{
	(void) state;
	use(0, 0);
	use(100, 2);
	now -= 50 * SECOND;
	use(10, 2);
	about(budget.rations[DV_RATION_REQUESTS].used, 110, 0);
}

static void
small_parts_add_up(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 1000; i++)
		exchange(0.013, UNSAID, UNSAID);
	about(budget.rations[DV_RATION_SECONDS].used, 13, 0.001);
	now += 10 * SECOND;
	exchange(0, UNSAID, UNSAID);
	about(budget.rations[DV_RATION_SECONDS].used, 13, 0.001);
}

static void
the_first_half_is_free(void **state)
{
	(void) state;
	use(0, 0);
	use(59, 10);
	assert_int_equal(not_before(10), 0);
	use(3, 10);
	assert_true(not_before(10) != 0);
}

static void
what_is_in_flight_counts(void **state)
{
	(void) state;
	use(0, 0);
	use(50, 10);
	assert_int_equal(dv_budget_not_before(&budget, 0, 10, now), 0);
	assert_true(dv_budget_not_before(&budget, 30, 10, now) > 0);
}

static void
a_long_request_is_not_kept_out_by_short_ones(void **state)
{
	int			i;

	(void) state;
	use(0, 0);
	use(100, 10);				/* little is left, and short requests go on */
	for (i = 0; i < 60; i++, now += DV_SECOND / 10)
		use(1, 0.2);
	assert_true(not_before(0.2) > now);
	assert_true(not_before(10) - now < 2 * (not_before(0.2) - now));
}

static void
no_silence_after_a_burst(void **state)
{
	int			sent = 0;
	int64_t		last = 0;
	int64_t		longest = 0;

	(void) state;
	use(0, 0);
	use(62, 10);
	last = now;
	while (now < NOW + DV_BUDGET_WINDOW)
	{
		int64_t		when = not_before(1);

		if (when > now)
		{
			now = when;
			continue;
		}
		if (now - last > longest)
			longest = now - last;
		last = now;
		use(1, 1);
		sent++;
	}
	about(sent, 580, 30);		/* the budget that was left, and no more */
	assert_true(longest < 3 * SECOND);
}

static void
others_are_seen(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 100; i++)
		exchange(0, 6000 - i - 1 - 4000, 1200);
	about(dv_budget_left(&budget, DV_RATION_REQUESTS, now), 1900, 20);
	assert_true(not_before(0.1) > 0);
}

/* Answers to requests that we and others have sent by turns, one second apart. */
static void
take_turns(int times, double own, double others, double *sum)
{
	while (times-- > 0)
	{
		exchange(own, UNSAID, 1200 - *sum);
		*sum += own + others;
		now += DV_SECOND;
	}
}

static void
what_others_used_leaves_the_window(void **state)
{
	double		sum = 0;

	(void) state;
	/* it is not known when they had used it: evenly */
	exchange(0, UNSAID, 200);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), 200, 1);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now + DV_BUDGET_WINDOW / 2), 700, 10);
	now += DV_BUDGET_WINDOW + 5 * SECOND;
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), 1200, 1);
	/* they use it while we watch */
	take_turns(20, 1, 10, &sum);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), 980, 30);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now + DV_BUDGET_WINDOW - 25 * SECOND), 980, 30);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now + DV_BUDGET_WINDOW + 5 * SECOND), 1200, 30);
}

static void
machines_share_what_is_left(void **state)
{
	double		sum = 0;
	double		alone;

	(void) state;
	take_turns(90, 10, 0, &sum);
	alone = (double) (not_before(10) - now) / SECOND;
	setup(NULL);
	sum = 0;
	take_turns(90, 5, 5, &sum);
	/* the same is left, and half of it is for the others, less a reserve */
	assert_true((not_before(5) - now) * 1.0 / SECOND >= alone);
	assert_true((not_before(5) - now) * 1.0 / SECOND <= 2 * alone);
}

/* Others have used up all but little: the rest is for all of the time until theirs leaves the window. */
static void
machines_go_on_when_little_is_left(void **state)
{
	double		sum = 0;
	int			sent = 0;

	(void) state;
	take_turns(20, 5, 42, &sum);
	while (now < NOW + 280 * SECOND)
	{
		int64_t		turn = not_before(5);

		assert_true(turn <= now + 15 * SECOND);
		now = turn > now ? turn : now + SECOND;
		exchange(5, UNSAID, 1200 - sum);
		/* the others do the same */
		sum += 10;
		sent++;
	}
	assert_true(sum < 1200);
	assert_true(sent >= 10);
}

static void
a_larger_limit_is_learnt(void **state)
{
	(void) state;
	exchange(0, 7999, 2400);
	about(budget.rations[DV_RATION_REQUESTS].limit, 7999, 0);
	about(budget.rations[DV_RATION_SECONDS].limit, 2400, 0);
	exchange(0, 7998, 2400);
	about(dv_budget_left(&budget, DV_RATION_REQUESTS, now), 7998, 2);
}

static void
several_servers_share_the_load(void **state)
{
	double		counted[4] = {0};
	int			i;

	(void) state;
	seed_random("budget, servers");
	for (i = 0; i < 4000; i++)
	{
		int			server = (int) random_below(4);

		exchange(0, 6000 - ++counted[server], 1200);
	}
	about(budget.rations[DV_RATION_REQUESTS].scale, 0.25, 0.03);
	about(dv_budget_left(&budget, DV_RATION_REQUESTS, now), 5000, 120);
}

static void
a_server_that_forgot_is_believed(void **state)
{
	int			i;

	(void) state;
	use(0, 0);
	use(100, 10);
	assert_true(not_before(10) > 0);
	for (i = 0; i < 5; i++)
		exchange(10, 5999 - i, 1200 - 10 * i);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), 1150, 25);
	assert_int_equal(not_before(10), 0);
}

static void
marks_from_before_it_forgot_are_ignored(void **state)
{
	double		remaining[DV_RATIONS] = {5990, 1190};
	dv_budget_mark mark;
	double		left;
	int			i;

	(void) state;
	use(0, 0);
	use(100, 10);
	mark = dv_budget_sent(&budget, now);
	for (i = 0; i < 5; i++)
		exchange(10, 5999 - i, 1200 - 10 * i);
	left = dv_budget_left(&budget, DV_RATION_SECONDS, now);
	dv_budget_answered(&budget, mark, 0, remaining, now);
	about(dv_budget_left(&budget, DV_RATION_SECONDS, now), left, 0.001);
}

static void
a_refusal_is_believed_and_costs_nothing(void **state)
{
	(void) state;
	use(0, 0);
	use(50, 10);
	(void) dv_budget_sent(&budget, now);
	dv_budget_refused(&budget, DV_RATION_SECONDS, now);
	about(budget.rations[DV_RATION_REQUESTS].used, 50, 0);
	assert_true(dv_budget_left(&budget, DV_RATION_SECONDS, now) <= 0.001);
	assert_true(not_before(10) > now);
	dv_budget_refused(&budget, DV_RATIONS, now);	/* concurrency is not a ration */
	assert_true(dv_budget_left(&budget, DV_RATION_REQUESTS, now) > 5000);
}

/* If a part of a $batch was refused, the refusal is believed, and the $batch counts. */
static void
a_refusal_of_a_part_is_believed_but_the_request_counts(void **state)
{
	(void) state;
	use(0, 0);
	use(50, 10);
	exchange(10, 5949, 690);
	assert_true(dv_budget_left(&budget, DV_RATION_SECONDS, now) > 600);
	dv_budget_used_up(&budget, DV_RATION_SECONDS, now);
	dv_budget_used_up(&budget, DV_RATION_SECONDS, now);
	about(budget.rations[DV_RATION_REQUESTS].used, 51, 0);
	assert_true(dv_budget_left(&budget, DV_RATION_SECONDS, now) <= 0.001);
	assert_true(not_before(10) > now);
	dv_budget_used_up(&budget, DV_RATIONS, now);
	assert_true(dv_budget_left(&budget, DV_RATION_REQUESTS, now) > 5000);
}

/* A 429 that our own use does not explain must not keep the user unused for a window. */
static void
an_unexplained_refusal_is_soon_tried_again(void **state)
{
	(void) state;
	exchange(0.1, 5999, 1199.9);
	(void) dv_budget_sent(&budget, now);
	dv_budget_refused(&budget, DV_RATION_SECONDS, now);
	assert_true(not_before(1) > now);
	assert_true(not_before(1) <= now + 5 * SECOND);
	now += 10 * SECOND;
	assert_true(not_before(1) <= now);
	exchange(0.1, 5998, 1199.8);
	now += SECOND;
	exchange(0.1, 5997, 1199.7);
	assert_true(not_before(1) <= now);
}

/* Neither must a 429 that our own use explains only in part. */
static void
own_use_does_not_delay_the_retry(void **state)
{
	(void) state;
	use(0, 0);
	use(5, 10);
	(void) dv_budget_sent(&budget, now);
	dv_budget_refused(&budget, DV_RATION_SECONDS, now);
	assert_true(not_before(10) <= now + 5 * SECOND);
}

static void
asks_again_when_others_have_it_all(void **state)
{
	(void) state;
	exchange(0, 0, 0);
	assert_true(not_before(1) > now);
	assert_true(not_before(1) <= now + 15 * SECOND);
	now = not_before(1);
	(void) dv_budget_sent(&budget, now);
	assert_true(not_before(1) > now);	/* sends one request and waits for the answer */
}

static void
state_is_small(void **state)
{
	(void) state;
	assert_true(sizeof(dv_budget) <= 2304);
}

/* Lets a random client use a random service, whose answer may be wrong. */
static void
random_exchange(double *foreign)
{
	double		seconds = random_below(20000) / 1000.0;
	double		remaining[DV_RATIONS];
	dv_budget_mark mark = dv_budget_sent(&budget, now);
	int			i;

	*foreign += random_below(21) - 10;
	if (*foreign < 0)
		*foreign = 0;
	now += random_below(2 * SECOND);
	for (i = 0; i < DV_RATIONS; i++)
	{
		remaining[i] = budget.rations[i].limit - mark.used[i] - *foreign;
		if (remaining[i] < 0)
			remaining[i] = 0;
		if (random_below(50) == 0)
			remaining[i] = random_below(9000) - 500;
	}
	if (random_below(20) == 0)
		dv_budget_refused(&budget, (dv_ration_kind) random_below(DV_RATIONS + 1), now);
	else
		dv_budget_answered(&budget, mark, seconds, remaining, now);
}

static void
assert_sane(void)
{
	int			i;

	for (i = 0; i < DV_RATIONS; i++)
	{
		const dv_ration *ration = &budget.rations[i];

		assert_true(ration->used >= 0 && ration->used < 1e7);
		assert_true(ration->scale > 0 && ration->scale <= 1);
		assert_true(ration->spread >= 0 && ration->spread < 1e6);
		assert_true(ration->offset > -1e6 && ration->offset < 1e6);
	}
}

static void
never_asks_to_wait_for_ever(void **state)
{
	double		foreign = 0;
	int			i;

	(void) state;
	seed_random("budget");
	for (i = 0; i < EVENTS; i++)
	{
		int64_t		when;

		if (i % 20000 == 0)
		{
			dv_budget_init(&budget, now);
			foreign = 0;
		}
		now += random_below(random_below(100) == 0 ? 400 * SECOND : SECOND);
		when = dv_budget_not_before(&budget, (int) random_below(52), random_below(60), now);
		assert_true(when >= 0 && when <= now + DV_BUDGET_LONGEST_WAIT);
		assert_int_equal(
						 dv_budget_not_before(&budget, budget.known_in_flight, budget.known_seconds, now), when);
		random_exchange(&foreign);
		assert_sane();
	}
}

/* our use leaves after the window, and the limit is renewed with each window */
static void
knows_how_much_will_be_admitted(void **state)
{
	(void) state;
	assert_true(isinf(dv_budget_capacity(&budget, 0, now)));
	use(0, 0);
	use(3000, 0.1);
	about(dv_budget_capacity(&budget, 0, now), 3000, 20);
	about(dv_budget_capacity(&budget, 200 * SECOND, now), 3000, 20);
	about(dv_budget_capacity(&budget, 310 * SECOND, now), 6000 + 200, 50);
	about(dv_budget_capacity(&budget, 600 * SECOND, now), 12000, 100);
}

/* the time that requests took can be scarce, and so can their number */
static void
knows_what_binds(void **state)
{
	(void) state;
	use(0, 0);
	use(110, 10);
	about(dv_budget_capacity(&budget, 0, now), 10, 2);
	assert_true(not_before(10) > now);
	assert_int_equal(dv_budget_bound_by(&budget), DV_RATION_SECONDS);
	dv_budget_init(&budget, now);
	use(0, 0);
	use(5900, 0.001);
	assert_true(not_before(0.001) > now);
	assert_int_equal(dv_budget_bound_by(&budget), DV_RATION_REQUESTS);
}

static void
knows_when_it_is_full(void **state)
{
	(void) state;
	assert_false(dv_budget_is_full(&budget, now));	/* the service has not said anything */
	exchange(1, 5999, UNSAID);
	assert_false(dv_budget_is_full(&budget, now));
	exchange(1, 5998, 1199);
	assert_true(dv_budget_is_full(&budget, now));
	setup(state);
	exchange(1, 5999, 1000);	/* others have used the rest */
	assert_false(dv_budget_is_full(&budget, now));
	setup(state);
	exchange(1, 5000, 1200);
	assert_false(dv_budget_is_full(&budget, now));
	setup(state);
	use(0, 0);
	use(20, 10);
	assert_false(dv_budget_is_full(&budget, now));	/* we have used it */
	now += DV_BUDGET_LONGEST_WAIT;
	assert_true(dv_budget_is_full(&budget, now));
	dv_budget_refused(&budget, DV_RATION_SECONDS, now);
	assert_false(dv_budget_is_full(&budget, now));
}

static void
short_requests_are_not_spaced(void **state)
{
	(void) state;
	assert_true(dv_budget_keeps(&budget, 0, now));
	use(0, 0);
	use(80, 10);
	assert_true(not_before(10) > now);
	assert_true(dv_budget_keeps(&budget, 0, now));
	/* what is in flight will be charged, too */
	assert_false(dv_budget_keeps(&budget, 40, now));
	use(39, 10);
	assert_true(dv_budget_keeps(&budget, 0, now));
	use(1, 10);
	assert_false(dv_budget_keeps(&budget, 0, now));
}

static void
a_part_is_kept_for_short_requests(void **state)
{
	int			i;

	(void) state;
	use(0, 0);
	/* all of these at once, down to what others must leave */
	for (i = 0; i < 6000 && not_before(0.01) <= now + DV_SECOND; i++)
		use(1, 0.01);
	assert_true(dv_budget_left(&budget, DV_RATION_REQUESTS, now) > 10);
	assert_true(dv_budget_keeps(&budget, 0, now));
	dv_budget_refused(&budget, DV_RATION_REQUESTS, now);
	assert_false(dv_budget_keeps(&budget, 0, now));
}

static void
fast_requests_do_not_use_up_the_turns_of_slow_ones(void **state)
{
	int64_t		turn;

	(void) state;
	use(0, 0);
	use(100, 10);
	turn = not_before(10);
	assert_true(turn > now);
	/* shortly before its turn, a fast one is sent */
	now = turn - DV_SECOND / 100;
	(void) not_before(0.05);
	use(1, 0.05);
	assert_true(not_before(10) <= now + DV_SECOND);
}

static void
short_requests_do_not_make_a_load_cheap(void **state)
{
	const double remaining[DV_RATIONS] = {UNSAID, UNSAID};
	int64_t		alone;
	int			i;

	(void) state;
	use(0, 0);
	use(150, 5);
	alone = not_before(5) - now;
	for (i = 0; i < 100; i++)
	{
		dv_budget_mark mark = dv_budget_sent(&budget, now);

		mark.beside_loads = true;
		dv_budget_answered(&budget, mark, 0.01, remaining, now);
	}
	assert_true(not_before(5) - now >= alone * 9 / 10);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(starts_with_the_defaults),
		TEST(nothing_said_nothing_held_back),
		TEST(own_use_counts),
		TEST(use_leaves_the_window),
		TEST(time_may_stand_still),
		TEST(small_parts_add_up),
		TEST(the_first_half_is_free),
		TEST(what_is_in_flight_counts),
		TEST(a_long_request_is_not_kept_out_by_short_ones),
		TEST(no_silence_after_a_burst),
		TEST(others_are_seen),
		TEST(what_others_used_leaves_the_window),
		TEST(machines_share_what_is_left),
		TEST(machines_go_on_when_little_is_left),
		TEST(a_larger_limit_is_learnt),
		TEST(several_servers_share_the_load),
		TEST(a_server_that_forgot_is_believed),
		TEST(marks_from_before_it_forgot_are_ignored),
		TEST(a_refusal_is_believed_and_costs_nothing),
		TEST(a_refusal_of_a_part_is_believed_but_the_request_counts),
		TEST(an_unexplained_refusal_is_soon_tried_again),
		TEST(own_use_does_not_delay_the_retry),
		TEST(asks_again_when_others_have_it_all),
		TEST(state_is_small),
		TEST(never_asks_to_wait_for_ever),
		TEST(knows_how_much_will_be_admitted),
		TEST(knows_what_binds),
		TEST(knows_when_it_is_full),
		TEST(short_requests_are_not_spaced),
		TEST(a_part_is_kept_for_short_requests),
		TEST(fast_requests_do_not_use_up_the_turns_of_slow_ones),
		TEST(short_requests_do_not_make_a_load_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

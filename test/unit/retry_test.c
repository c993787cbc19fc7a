/*
 * retry_test.c
 *		Whether a failed request is sent again, when, and by which application user.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/retry.h"

#define SECOND INT64_C(1000000)
#define NOW    (1000 * SECOND)

static dv_retry retry;
static dv_retry_policy policy;
static dv_retry_event event;

static int
setup(void **state)
{
	(void) state;
	memset(&retry, 0, sizeof(retry));
	policy = (dv_retry_policy)
	{
		.max_throttle_retries = 3,
			.max_retries = 5,
			.first_backoff = SECOND / 2,
			.longest_backoff = 30 * SECOND,
			.tolerance = -1,
	};
	event = (dv_retry_event)
	{
		.verdict = DV_VERDICT_RETRY,
			.cause = DV_RETRY_SERVER,
			.repeatable = true,
			.sent_at = NOW,
			.told = -1,
			.held_back = true,
			.now = NOW + SECOND,
	};
	return 0;
}

static dv_retry_decision
decide(void)
{
	return dv_retry_decide(&retry, &policy, &event);
}

/* The request was sent as soon as it was allowed, and throttled a second later. */
static dv_retry_decision
throttle_after_waiting(int64_t told)
{
	event.verdict = DV_VERDICT_THROTTLED;
	event.sent_at = retry.told_until > event.now ? retry.told_until : event.now;
	event.now = event.sent_at + SECOND;
	event.told = told;
	return decide();
}

/* Everything that came from one batch shares the retries of one request. */
static void
what_can_be_divided_is_repeated_once(void **state)
{
	(void) state;
	event.cause = DV_RETRY_SQL_TIMEOUT;
	event.divisible = true;
	assert_int_equal(decide().next, DV_NEXT_AGAIN);
	assert_int_equal(decide().next, DV_NEXT_END);
	/* a half, which inherits the history */
	assert_int_equal(decide().next, DV_NEXT_END);
	/* a single row */
	event.divisible = false;
	for (int i = 1; i < policy.max_retries; i++)
		assert_int_equal(decide().next, DV_NEXT_AGAIN);
	assert_int_equal(decide().next, DV_NEXT_END);
}

static void
what_is_final_ends(void **state)
{
	(void) state;
	event.verdict = DV_VERDICT_OK;
	assert_int_equal(decide().next, DV_NEXT_END);
	event.verdict = DV_VERDICT_REFUSED;
	assert_int_equal(decide().next, DV_NEXT_END);
}

static void
a_refusal_of_the_user_goes_to_another(void **state)
{
	(void) state;
	event.verdict = DV_VERDICT_REFUSED;
	event.others = true;
	assert_int_equal(decide().next, DV_NEXT_END);
	event.at_fault = true;
	assert_int_equal(decide().next, DV_NEXT_OTHER_USER);
	assert_int_equal(decide().delay, 0);
	event.verdict = DV_VERDICT_AUTH;
	assert_int_equal(decide().next, DV_NEXT_OTHER_USER);

	/*
	 * it gets no token now, but might later: the others do not wait for it, and nothing is
	 * counted
	 */
	event.verdict = DV_VERDICT_RETRY;
	event.cause = DV_RETRY_AUTH;
	assert_int_equal(decide().next, DV_NEXT_OTHER_USER);
	assert_int_equal(decide().delay, 0);
	assert_int_equal(retry.times[DV_RETRY_AUTH], 0);
	event.others = false;
	assert_int_equal(decide().next, DV_NEXT_AGAIN);
	assert_int_equal(retry.times[DV_RETRY_AUTH], 1);
	event.verdict = DV_VERDICT_AUTH;
	assert_int_equal(decide().next, DV_NEXT_END);
	event.verdict = DV_VERDICT_REFUSED;
	assert_int_equal(decide().next, DV_NEXT_END);
}

static void
only_throttles_after_waiting_count(void **state)
{
	int			i;

	(void) state;
	event.verdict = DV_VERDICT_THROTTLED;
	event.told = 10 * SECOND;
	/* other users, all throttled: it was sent at once, because they did not make it wait */
	assert_int_equal(decide().next, DV_NEXT_AGAIN);
	for (i = 0; i < 100; i++)
	{
		event.sent_at = event.now;
		event.now += SECOND / 100;
		assert_int_equal(decide().next, DV_NEXT_AGAIN);
	}
	assert_int_equal(retry.times[DV_RETRY_THROTTLE], 1);
	assert_int_equal(retry.told_until, event.now + 10 * SECOND);

	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	assert_int_equal(retry.times[DV_RETRY_THROTTLE], 3);
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_END);
}

/* A load ends only if the service accepts no request. */
static void
throttles_count_while_nobody_is_served(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 100; i++)
	{
		assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
		assert_int_equal(retry.times[DV_RETRY_THROTTLE], 1);
		event.served_at = event.now + 1;
	}
	event.served_at = event.now;	/* in the same answer, at the latest: not since */
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	assert_int_equal(retry.times[DV_RETRY_THROTTLE], 3);
	event.served_at = event.now + 1;
	assert_int_equal(dv_retry_throttles(&retry, event.served_at), 0);
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	assert_int_equal(dv_retry_throttles(&retry, event.served_at), 1);
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_END);
}

static void
told_until_never_moves_earlier(void **state)
{
	(void) state;
	throttle_after_waiting(60 * SECOND);
	assert_int_equal(retry.told_until, event.now + 60 * SECOND);
	event.told = SECOND;
	event.sent_at = event.now;
	decide();
	assert_int_equal(retry.told_until, event.now + 60 * SECOND);
}

static void
a_throttle_without_a_bound(void **state)
{
	static const int none[] = {-1, 0};
	int			i;
	int			n;

	(void) state;
	for (i = 0; i < 2; i++)
	{
		policy.max_throttle_retries = none[i];
		for (n = 0; n < 1000; n++)
			assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	}
}

static void
the_pool_waits_or_the_request_does(void **state)
{
	(void) state;
	event.pause = 12 * SECOND;
	assert_int_equal(throttle_after_waiting(10 * SECOND).delay, 0);
	event.held_back = false;
	assert_int_equal(throttle_after_waiting(10 * SECOND).delay, 12 * SECOND);
}

/* A throttle that the pool does not know of, without a Retry-After. */
static void
without_a_pause_it_backs_off(void **state)
{
	(void) state;
	event.held_back = false;
	event.pause = -1;
	assert_int_equal(throttle_after_waiting(-1).delay, SECOND / 4);
	assert_int_equal(throttle_after_waiting(-1).delay, SECOND / 2);
	assert_int_equal(throttle_after_waiting(-1).delay, SECOND);
	assert_int_equal(throttle_after_waiting(-1).next, DV_NEXT_END);
}

static void
a_pause_beyond_the_tolerance_ends(void **state)
{
	(void) state;
	policy.tolerance = 10 * SECOND;
	event.pause = 10 * SECOND;
	event.held_back = false;
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
	event.pause++;
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_END);
	assert_true(dv_retry_tolerates(&policy, 10 * SECOND));
	assert_false(dv_retry_tolerates(&policy, 10 * SECOND + 1));
	policy.tolerance = 0;
	assert_true(dv_retry_tolerates(&policy, 0));
	assert_false(dv_retry_tolerates(&policy, 1));
	policy.tolerance = -1;
	assert_true(dv_retry_tolerates(&policy, INT64_MAX));
}

static void
each_cause_has_its_own_patience(void **state)
{
	int			cause;
	int			i;

	(void) state;
	for (cause = DV_RETRY_CONNECTION; cause < DV_RETRY_CAUSES; cause++)
	{
		event.cause = (dv_retry_cause) cause;
		for (i = 0; i < 5; i++)
		{
			dv_retry_decision decision = decide();

			assert_int_equal(decision.next, DV_NEXT_AGAIN);
			assert_int_equal(decision.cause, cause);
		}
		assert_int_equal(decide().next, DV_NEXT_END);
	}
	assert_int_equal(throttle_after_waiting(SECOND).next, DV_NEXT_AGAIN);
}

static void
no_patience_at_all(void **state)
{
	(void) state;
	policy.max_retries = 0;
	assert_int_equal(decide().next, DV_NEXT_END);
}

static void
backoff_doubles_up_to_its_cap(void **state)
{
	int64_t		whole = SECOND / 2;
	int			i;

	(void) state;
	policy.max_retries = 100;
	for (i = 0; i < 100; i++)
	{
		dv_retry	before = retry;
		int64_t		shortest;
		int64_t		longest;

		event.random = 0;
		shortest = decide().delay;
		retry = before;
		event.random = 0.9999999999;
		longest = decide().delay;
		assert_int_equal(shortest, whole / 2);
		assert_in_range(longest, whole - 2, whole);
		whole = whole * 2 < 30 * SECOND ? whole * 2 : 30 * SECOND;
	}
}

static void
not_before_it_was_told(void **state)
{
	(void) state;
	event.told = 100 * SECOND;
	assert_int_equal(decide().delay, 100 * SECOND);
	event.told = 1;
	assert_in_range(decide().delay, SECOND / 2, SECOND);
}

static void
what_it_was_told_is_limited(void **state)
{
	(void) state;
	event.told = 300 * 86400 * SECOND;
	assert_int_equal(decide().delay, 86400 * SECOND);
	policy.tolerance = 100 * SECOND;
	event.told = 100 * SECOND;
	assert_int_equal(decide().next, DV_NEXT_AGAIN);
	event.told = 101 * SECOND;
	assert_int_equal(decide().next, DV_NEXT_END);
}

static void
a_token_that_was_renewed_meanwhile_is_just_used(void **state)
{
	int			i;

	(void) state;
	event.verdict = DV_VERDICT_AUTH;
	for (i = 0; i < 1000; i++)
	{
		assert_int_equal(decide().next, DV_NEXT_AGAIN);
		assert_int_equal(decide().delay, 0);
	}
}

static void
a_request_that_finds_every_token_refused_is_given_up(void **state)
{
	int			i;

	(void) state;
	event.verdict = DV_VERDICT_AUTH;
	event.found_out = true;
	for (i = 1; i <= 20; i++)
	{
		dv_retry_decision decision = decide();

		assert_int_equal(decision.next, DV_NEXT_AGAIN);
		assert_int_equal(decision.cause, DV_RETRY_AUTH);
		assert_int_equal(decision.delay > 0, i > 3);
	}
	assert_int_equal(decide().next, DV_NEXT_END);
}

static void
a_token_that_was_accepted_may_expire_again(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 100; i++)
	{
		event.verdict = DV_VERDICT_AUTH;
		event.found_out = true;
		assert_int_equal(decide().next, DV_NEXT_AGAIN);
		assert_int_equal(decide().delay, 0);
		if (i % 2 == 0)
		{
			event.verdict = DV_VERDICT_RETRY;
			event.cause = DV_RETRY_SERVER;
			retry.times[DV_RETRY_SERVER] = 0;
			decide();
		}
		else
		{
			policy.max_throttle_retries = 0;
			throttle_after_waiting(SECOND);
		}
	}
	/* could not get a token, so no token was accepted */
	for (i = 0; i < 3; i++)
	{
		event.verdict = DV_VERDICT_AUTH;
		decide();
		event.verdict = DV_VERDICT_RETRY;
		event.cause = DV_RETRY_AUTH;
		decide();
	}
	event.verdict = DV_VERDICT_AUTH;
	assert_true(decide().delay > 0);
}

static void
a_user_is_set_aside_for_longer_each_time(void **state)
{
	static const int seconds[] = {5, 10, 20, 40, 80, 160, 300, 300, 300};
	dv_aside	aside = {0};
	int64_t		now = NOW;
	size_t		i;

	(void) state;
	assert_false(dv_aside_active(&aside, now));
	for (i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
	{
		/* only the first time is news */
		assert_int_equal(dv_aside_set(&aside, 0, now), i == 0);
		assert_int_equal(aside.until, now + seconds[i] * SECOND);
		assert_true(dv_aside_active(&aside, aside.until - 1));
		/* trouble during the pause changes nothing */
		assert_false(dv_aside_set(&aside, 1000 * SECOND, aside.until - 1));
		assert_int_equal(aside.until, now + seconds[i] * SECOND);
		now = aside.until;
		assert_false(dv_aside_active(&aside, now));
	}
	/* an answer to a request sent before the trouble does not show that the user is back */
	assert_false(dv_aside_clear(&aside, aside.last_at));
	assert_true(dv_aside_clear(&aside, aside.last_at + 1));
	assert_false(dv_aside_clear(&aside, aside.last_at + 1));
	assert_true(dv_aside_set(&aside, 60 * SECOND, now));
	assert_int_equal(aside.until, now + 60 * SECOND);
}

static void
an_unknown_outcome_is_repeated_only_if_that_does_no_harm(void **state)
{
	static const dv_verdict verdicts[] = {DV_VERDICT_RETRY, DV_VERDICT_THROTTLED};
	int			i;

	(void) state;
	event.unknown = true;
	for (i = 0; i < 2; i++)
	{
		event.verdict = verdicts[i];
		event.repeatable = true;
		assert_int_equal(decide().next, DV_NEXT_AGAIN);
		event.repeatable = false;
		assert_int_equal(decide().next, DV_NEXT_END);
		event.unknown = false;
		assert_int_equal(decide().next, DV_NEXT_AGAIN);
		event.unknown = true;
	}
}

/* Otherwise the retries of one row would be used up by the failures of another. */
static void
only_rows_repeated_equally_often_travel_together(void **state)
{
	dv_retry	other = {.attempts = 4, .told_until = 7, .refused_at = 6, .renewals = 4};

	(void) state;
	retry.attempts = 4;
	retry.times[DV_RETRY_SERVER] = 3;
	retry.told_until = 5;
	retry.renewals = 1;
	other.times[DV_RETRY_SERVER] = 2;
	other.times[DV_RETRY_THROTTLE] = 1;
	assert_false(dv_retry_join(&retry, &other));
	assert_int_equal(retry.times[DV_RETRY_THROTTLE], 0);
	assert_int_equal(retry.told_until, 5);
	assert_int_equal(retry.renewals, 1);

	memcpy(other.times, retry.times, sizeof(other.times));
	assert_true(dv_retry_join(&retry, &other));
	assert_int_equal(retry.times[DV_RETRY_SERVER], 3);
	assert_int_equal(retry.attempts, 4);
	assert_int_equal(retry.told_until, 7);
	assert_int_equal(retry.refused_at, 6);
	assert_int_equal(retry.renewals, 4);
}

static void
a_success_shows_that_the_token_is_accepted(void **state)
{
	(void) state;
	event.verdict = DV_VERDICT_AUTH;
	assert_int_equal(decide().next, DV_NEXT_AGAIN);
	event.verdict = DV_VERDICT_OK;
	assert_int_equal(decide().next, DV_NEXT_END);
	event.verdict = DV_VERDICT_AUTH;
	assert_int_equal(decide().next, DV_NEXT_AGAIN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_final_ends, setup),
		cmocka_unit_test_setup(what_can_be_divided_is_repeated_once, setup),
		cmocka_unit_test_setup(a_refusal_of_the_user_goes_to_another, setup),
		cmocka_unit_test_setup(only_throttles_after_waiting_count, setup),
		cmocka_unit_test_setup(throttles_count_while_nobody_is_served, setup),
		cmocka_unit_test_setup(told_until_never_moves_earlier, setup),
		cmocka_unit_test_setup(a_throttle_without_a_bound, setup),
		cmocka_unit_test_setup(the_pool_waits_or_the_request_does, setup),
		cmocka_unit_test_setup(without_a_pause_it_backs_off, setup),
		cmocka_unit_test_setup(a_pause_beyond_the_tolerance_ends, setup),
		cmocka_unit_test_setup(each_cause_has_its_own_patience, setup),
		cmocka_unit_test_setup(no_patience_at_all, setup),
		cmocka_unit_test_setup(backoff_doubles_up_to_its_cap, setup),
		cmocka_unit_test_setup(not_before_it_was_told, setup),
		cmocka_unit_test_setup(what_it_was_told_is_limited, setup),
		cmocka_unit_test_setup(a_token_that_was_renewed_meanwhile_is_just_used, setup),
		cmocka_unit_test_setup(a_request_that_finds_every_token_refused_is_given_up, setup),
		cmocka_unit_test_setup(a_user_is_set_aside_for_longer_each_time, setup),
		cmocka_unit_test_setup(a_token_that_was_accepted_may_expire_again, setup),
		cmocka_unit_test_setup(an_unknown_outcome_is_repeated_only_if_that_does_no_harm, setup),
		cmocka_unit_test_setup(only_rows_repeated_equally_often_travel_together, setup),
		cmocka_unit_test_setup(a_success_shows_that_the_token_is_accepted, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * select_test.c
 *		The choice of the application user that sends, and of the backend
 *		that comes first.
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

#include "pool/select.h"
#include "random_events.h"

#define NOW   INT64_C(1000000000)
#define USERS 8

static dv_candidate users[USERS];
static uint64_t ticket;

/* all are free, have never been used, and may have four requests in flight */
static int
setup(void **state)
{
	int			i;

	(void) state;
	memset(users, 0, sizeof(users));
	for (i = 0; i < USERS; i++)
		users[i].limit = 4;
	ticket = 0;
	return 0;
}

static int
take(int n, dv_selection strategy)
{
	dv_choice	choice = dv_select(users, n, strategy, NOW);

	assert_int_equal(choice.kind, DV_CHOICE_USER);
	users[choice.user].last_used = ++ticket;
	return choice.user;
}

static void
assert_choice(dv_choice choice, dv_choice_kind kind, int user, int64_t until)
{
	assert_int_equal(choice.kind, kind);
	assert_int_equal(choice.user, user);
	assert_int_equal(choice.until, until);
}

static void
nobody_and_one(void **state)
{
	int			strategy;

	(void) state;
	for (strategy = 0; strategy < 3; strategy++)
	{
		assert_choice(dv_select(users, 0, (dv_selection) strategy, NOW), DV_CHOICE_NONE, -1, 0);
		assert_choice(dv_select(users, 1, (dv_selection) strategy, NOW), DV_CHOICE_USER, 0, 0);
	}
}

static void
rotation(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 9; i++)
		assert_int_equal(take(3, DV_SELECT_THROTTLE_AWARE), i % 3);
	for (i = 0; i < 9; i++)
		assert_int_equal(take(3, DV_SELECT_ROUND_ROBIN), i % 3);
}

static void
throttled_users_are_passed_over(void **state)
{
	(void) state;
	users[1].throttled_until = NOW + 1;
	assert_int_equal(take(3, DV_SELECT_THROTTLE_AWARE), 0);
	assert_int_equal(take(3, DV_SELECT_THROTTLE_AWARE), 2);
	assert_int_equal(take(3, DV_SELECT_THROTTLE_AWARE), 0);
	users[1].throttled_until = NOW; /* it is free at the moment of the expiry */
	assert_int_equal(take(3, DV_SELECT_THROTTLE_AWARE), 1);
}

static void
round_robin_passes_over_throttled_users(void **state)
{
	(void) state;
	users[0].throttled_until = NOW + 7;
	assert_int_equal(take(3, DV_SELECT_ROUND_ROBIN), 1);
	assert_int_equal(take(3, DV_SELECT_ROUND_ROBIN), 2);
	assert_int_equal(take(3, DV_SELECT_ROUND_ROBIN), 1);
	users[0].throttled_until = NOW;
	assert_int_equal(take(3, DV_SELECT_ROUND_ROBIN), 2);	/* it goes on where it was … */
	assert_int_equal(take(3, DV_SELECT_ROUND_ROBIN), 0);
	users[0].throttled_until = NOW + 7;
	assert_int_equal(take(3, DV_SELECT_ROUND_ROBIN), 1);
	users[0].throttled_until = NOW;
	assert_int_equal(take(3, DV_SELECT_THROTTLE_AWARE), 2); /* … throttle_aware takes the one
															 * that has waited longest */
}

static void
least_connections(void **state)
{
	(void) state;
	users[0].in_flight = 3;
	users[1].in_flight = 2;
	users[2].in_flight = 2;
	assert_int_equal(take(3, DV_SELECT_LEAST_CONNECTIONS), 1);	/* a tie: the first */
	users[2].in_flight = 0;
	assert_int_equal(take(3, DV_SELECT_LEAST_CONNECTIONS), 2);
	users[2].throttled_until = NOW + 1;
	assert_int_equal(take(3, DV_SELECT_LEAST_CONNECTIONS), 1);
}

static void
all_throttled(void **state)
{
	int			strategy;

	(void) state;
	users[0].throttled_until = NOW + 9;
	users[1].throttled_until = NOW + 5;
	users[2].throttled_until = NOW + 5;
	for (strategy = 0; strategy < 3; strategy++)
		assert_choice(dv_select(users, 3, (dv_selection) strategy, NOW), DV_CHOICE_THROTTLED, 1,
					  NOW + 5);
}

static void
full_users_are_passed_over(void **state)
{
	(void) state;
	users[0].in_flight = 4;
	users[1].in_flight = 3;
	assert_int_equal(take(2, DV_SELECT_THROTTLE_AWARE), 1);
	users[1].in_flight = 4;
	assert_choice(dv_select(users, 2, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_BUSY, -1, 0);
	users[0].limit = 0;			/* the limit fell below the requests in flight */
	assert_choice(dv_select(users, 2, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_BUSY, -1, 0);
}

static void
busy_until_the_first_throttle_ends(void **state)
{
	(void) state;
	users[0].in_flight = 4;
	users[1].throttled_until = NOW + 8;
	assert_choice(dv_select(users, 2, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_BUSY, -1, NOW + 8);
}

static void
paced(void **state)
{
	(void) state;
	users[0].not_before = NOW + 5;
	users[1].not_before = NOW + 3;
	assert_choice(dv_select(users, 2, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_PACED, -1, NOW + 3);
	users[2].throttled_until = NOW + 2;
	assert_choice(dv_select(users, 3, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_PACED, -1, NOW + 2);
	users[1].not_before = NOW;
	assert_int_equal(take(3, DV_SELECT_THROTTLE_AWARE), 1);
}

static void
sendable(void **state)
{
	(void) state;
	assert_int_equal(dv_sendable(&users[0], NOW), 4);
	users[0].in_flight = 3;
	assert_int_equal(dv_sendable(&users[0], NOW), 1);
	users[1].not_before = NOW;	/* paced, and its time has come */
	assert_int_equal(dv_sendable(&users[1], NOW), 1);
	users[1].not_before = NOW + 1;
	assert_int_equal(dv_sendable(&users[1], NOW), 0);
	users[0].throttled_until = NOW + 1;
	assert_int_equal(dv_sendable(&users[0], NOW), 0);
	users[2].in_flight = 9;
	assert_int_equal(dv_sendable(&users[2], NOW), 0);
}

static void
who_is_needier(void **state)
{
	dv_claim	a = {1, 50, 0};
	dv_claim	b = {2, 10, 0};

	(void) state;
	assert_true(dv_needier(&a, &b));
	assert_false(dv_needier(&b, &a));
	b.leases = 1;
	assert_false(dv_needier(&a, &b));
	assert_true(dv_needier(&b, &a));
	assert_false(dv_needier(&a, &a));
}

static dv_claim
claim(int leases, int64_t waiting_since, int64_t woken_at)
{
	dv_claim	result = {leases, waiting_since, woken_at};

	return result;
}

/* Returns true if this backend has to leave the free slots of the first user to another one. */
static bool
yields(dv_claim mine, dv_claim other, int free)
{
	dv_contest	contest = dv_contest_begin(&mine, users, 1, NOW);

	users[0].in_flight = 0;
	users[0].limit = free;
	users[0].reserved = 0;
	dv_contest_add(&contest, &other, 1);
	return dv_select(users, 1, DV_SELECT_THROTTLE_AWARE, NOW).kind != DV_CHOICE_USER;
}

static void
yielding(void **state)
{
	(void) state;
	assert_true(yields(claim(2, 0, 0), claim(1, 10, 0), 1));
	assert_false(yields(claim(2, 0, 0), claim(1, 10, 0), 2));	/* one for each */
	assert_false(yields(claim(2, 0, 0), claim(1, 0, 0), 1));	/* the other one does not wait */
	assert_false(yields(claim(1, 0, 0), claim(2, 10, 0), 1));
	assert_true(yields(claim(0, 0, 0), claim(0, NOW - 1, 0), 1));	/* the other one waits */
	assert_true(yields(claim(0, 20, 0), claim(0, 10, 0), 1));
	assert_false(yields(claim(0, 10, 0), claim(0, 20, 0), 1));
}

static void
who_does_not_come_is_not_waited_for(void **state)
{
	dv_claim	other = {0, 10, NOW - DV_WAKE_GRACE};

	(void) state;
	assert_true(yields(claim(2, 0, 0), other, 1));
	other.woken_at--;
	assert_false(yields(claim(2, 0, 0), other, 1));
}

/* Each waits for other users: the two that want the first one are served by it. */
static void
only_who_wants_the_same_user_is_waited_for(void **state)
{
	dv_claim	mine = claim(2, 0, 0);
	dv_claim	other = claim(0, 10, 0);
	dv_contest	contest = dv_contest_begin(&mine, users, 2, NOW);

	(void) state;
	users[0].limit = users[1].limit = 1;
	dv_contest_add(&contest, &other, 0);
	assert_choice(dv_select(users, 2, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_USER, 0, 0);
	dv_contest_add(&contest, &other, 1);
	dv_contest_add(&contest, &other, 1);
	assert_choice(dv_select(users, 2, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_USER, 1, 0);
	dv_contest_add(&contest, &other, 3);
	assert_choice(dv_select(users, 2, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_BUSY, -1,
				  NOW + DV_WAKE_GRACE);
}

static void
who_can_use_either_takes_one(void **state)
{
	dv_claim	mine = claim(2, 0, 0);
	dv_claim	other = claim(0, 10, 0);
	dv_contest	contest = dv_contest_begin(&mine, users, 2, NOW);

	(void) state;
	users[0].limit = users[1].limit = 1;
	dv_contest_add(&contest, &other, 3);
	assert_choice(dv_select(users, 2, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_USER, 1, 0);
}

static void
of_a_paced_user_one_is_sendable(void **state)
{
	dv_claim	mine = claim(2, 0, 0);
	dv_claim	other = claim(0, 10, 0);
	dv_contest	contest = dv_contest_begin(&mine, users, 1, NOW);

	(void) state;
	users[0].not_before = NOW;
	dv_contest_add(&contest, &other, 1);
	assert_choice(dv_select(users, 1, DV_SELECT_THROTTLE_AWARE, NOW), DV_CHOICE_BUSY, -1,
				  NOW + DV_WAKE_GRACE);
}

static void
random_users(int n)
{
	int			i;

	for (i = 0; i < n; i++)
	{
		users[i].throttled_until = random_below(3) ? 0 : NOW - 5 + random_below(10);
		users[i].not_before = random_below(3) ? 0 : NOW - 5 + random_below(10);
		users[i].in_flight = (int) random_below(6);
		users[i].limit = (int) random_below(6);
		users[i].reserved = 0;
		users[i].last_used = (uint64_t) random_below(4);
	}
}

static void
assert_sound(dv_choice choice, int n)
{
	const dv_candidate *c = &users[choice.user < 0 ? 0 : choice.user];

	assert_int_equal(choice.kind == DV_CHOICE_NONE, n == 0);
	assert_in_range(choice.user + 1, 0, n);
	if (choice.kind == DV_CHOICE_USER)
	{
		assert_true(c->in_flight < c->limit && NOW >= c->throttled_until && NOW >= c->not_before);
		assert_true(dv_sendable(c, NOW) > c->reserved);
	}
	else
		assert_true(choice.until == 0 || choice.until > NOW);
	if (choice.kind == DV_CHOICE_THROTTLED)
		assert_int_equal(choice.until, c->throttled_until);
	if (choice.kind == DV_CHOICE_PACED)
		assert_true(choice.until > NOW);
}

static bool
any_sendable(int n)
{
	int			i;

	for (i = 0; i < n; i++)
		if (dv_sendable(&users[i], NOW) > users[i].reserved)
			return true;
	return false;
}

/* Of any set of backends that compete for too few slots, at least one need not yield. */
static void
assert_somebody_goes(void)
{
	dv_candidate one = {.limit = 1};
	dv_claim	claims[USERS];
	int			n = 1 + (int) random_below(USERS);
	int			going = 0;
	int			i;
	int			k;

	for (i = 0; i < n; i++)
		claims[i] = claim((int) random_below(4), NOW - random_below(20) - 1,
						  random_below(2) ? NOW - random_below(2 * DV_WAKE_GRACE) : 0);
	for (i = 0; i < n; i++)
	{
		dv_contest	contest = dv_contest_begin(&claims[i], &one, 1, NOW);

		one.reserved = 0;
		for (k = 0; k < n; k++)
			if (k != i)
				dv_contest_add(&contest, &claims[k], 1);
		going += one.reserved == 0;
	}
	assert_true(going >= 1);
}

static void
random_contest(int n)
{
	dv_claim	mine = claim((int) random_below(4), 0, 0);
	dv_contest	contest = dv_contest_begin(&mine, users, n, NOW);
	int			others = (int) random_below(20);

	while (others-- > 0)
	{
		dv_claim	other = claim((int) random_below(4), NOW - random_below(20), 0);

		dv_contest_add(&contest, &other, (uint64_t) random_below(1 << USERS));
	}
}

static void
choices_are_sound(void **state)
{
	int			i;

	(void) state;
	seed_random("select");
	for (i = 0; i < EVENTS; i++)
	{
		int			n = (int) random_below(USERS + 1);
		dv_selection strategy = (dv_selection) random_below(3);
		dv_choice	choice;

		random_users(n);
		choice = dv_select(users, n, strategy, NOW);
		assert_sound(choice, n);
		assert_int_equal(choice.kind == DV_CHOICE_USER, any_sendable(n));
		random_contest(n);
		choice = dv_select(users, n, strategy, NOW);
		assert_sound(choice, n);
		assert_int_equal(choice.kind == DV_CHOICE_USER, any_sendable(n));
		assert_somebody_goes();
	}
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_and_one),
		TEST(rotation),
		TEST(throttled_users_are_passed_over),
		TEST(round_robin_passes_over_throttled_users),
		TEST(least_connections),
		TEST(all_throttled),
		TEST(full_users_are_passed_over),
		TEST(busy_until_the_first_throttle_ends),
		TEST(paced),
		TEST(sendable),
		TEST(who_is_needier),
		TEST(yielding),
		TEST(who_does_not_come_is_not_waited_for),
		TEST(only_who_wants_the_same_user_is_waited_for),
		TEST(who_can_use_either_takes_one),
		TEST(of_a_paced_user_one_is_sendable),
		TEST(choices_are_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * sim_capacity_test.c
 *		The capacity that requests under way at the same time share.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "limits/capacity.h"

#define SECOND INT64_C(1000000)
#define NEVER INT64_MAX

static struct sim_capacity capacity;
static int	requests[64];

static int
teardown(void **state)
{
	(void) state;
	sim_capacity_free(&capacity);
	return 0;
}

static void
enter(int request, double seconds, int64_t now)
{
	sim_capacity_enter(&capacity, &requests[request], seconds * SECOND, now);
}

/* the next request to be done, and when, give or take a microsecond */
static void
assert_next(int request, double seconds)
{
	int64_t		next = sim_capacity_next(&capacity);

	if (fabs((double) next - seconds * SECOND) > 2)
		fail_msg("the next one at %lld us, not at %g s", (long long) next, seconds);
	assert_null(sim_capacity_done(&capacity, next - 1));
	assert_ptr_equal(sim_capacity_done(&capacity, next), &requests[request]);
}

static void
without_end(void **state)
{
	(void) state;
	sim_capacity_init(&capacity, 0, 0);
	assert_int_equal(sim_capacity_next(&capacity), NEVER);
	enter(0, 3, 0);
	enter(1, 1, 0);
	enter(2, 1, SECOND / 2);
	assert_next(1, 1);
	assert_next(2, 1.5);
	assert_next(0, 3);
	assert_int_equal(sim_capacity_next(&capacity), NEVER);
}

static void
below_capacity_nobody_waits(void **state)
{
	(void) state;
	sim_capacity_init(&capacity, 2, 0);
	enter(0, 3, 0);
	enter(1, 1, 0);
	assert_next(1, 1);
	assert_next(0, 3);
}

static void
beyond_it_all_are_slower(void **state)
{
	int			i;

	(void) state;
	sim_capacity_init(&capacity, 2.5, 0);
	for (i = 0; i < 10; i++)
		enter(i, 1, 0);
	for (i = 0; i < 10; i++)
		assert_next(i, 4);
}

/* two share one from 1 s on: the first has 1 s left, which takes 2 s; the second then runs alone */
static void
exact_under_changes(void **state)
{
	(void) state;
	sim_capacity_init(&capacity, 1, 0);
	enter(0, 2, 0);
	enter(1, 2, SECOND);
	assert_next(0, 3);
	assert_next(1, 4);
}

static void
capacity_changes(void **state)
{
	(void) state;
	sim_capacity_init(&capacity, 1, 0);
	enter(0, 2, 0);
	sim_capacity_change(&capacity, 0.5, SECOND);
	assert_next(0, 3);
}

/* at 6 requests, 2 beyond twice the capacity, 0.9 * 0.9 of it are left */
static void
overload_costs_capacity(void **state)
{
	int			i;

	(void) state;
	sim_capacity_init(&capacity, 2, 0.1);
	for (i = 0; i < 6; i++)
		enter(i, 1, 0);
	assert_next(0, 3 / 0.81);
}

static void
removed_request_no_longer_counts(void **state)
{
	(void) state;
	sim_capacity_init(&capacity, 1, 0);
	enter(0, 2, 0);
	enter(1, 2, 0);
	assert_true(sim_capacity_remove(&capacity, &requests[0], SECOND));
	assert_false(sim_capacity_remove(&capacity, &requests[0], SECOND));
	assert_next(1, 2.5);
}

/* a call that comes late gets everything, as it would have been done in time */
static void
late_call(void **state)
{
	(void) state;
	sim_capacity_init(&capacity, 1, 0);
	enter(0, 1, 0);
	enter(1, 2, 0);
	enter(2, 3, 0);
	assert_ptr_equal(sim_capacity_done(&capacity, 5 * SECOND + 10), &requests[0]);
	assert_ptr_equal(sim_capacity_done(&capacity, 5 * SECOND + 10), &requests[1]);
	assert_null(sim_capacity_done(&capacity, 5 * SECOND + 10));
	assert_next(2, 6);
}

/* the work done never exceeds the capacity, and nothing is lost, whatever comes and goes */
static void
random_arrivals(void **state)
{
	uint64_t	random = 1;
	int64_t		now = 0;
	double		work = 0;
	int			under_way = 0;
	int			i;

	(void) state;
	sim_capacity_init(&capacity, 3, 0);
	for (i = 0; i < 10000; i++)
	{
		double		seconds;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		seconds = (double) (random >> 40) / (1 << 24);
		enter(0, seconds, now);
		work += seconds;
		under_way++;
		while (under_way >= 20)
		{
			now = sim_capacity_next(&capacity);
			while (sim_capacity_done(&capacity, now) != NULL)
				under_way--;
		}
	}
	while ((now = sim_capacity_next(&capacity)) != NEVER)
		assert_non_null(sim_capacity_done(&capacity, now));
	now = capacity.now;
	if (fabs((double) now / SECOND - work / 3) > 2)
		fail_msg("%g s of work took %g s", work, (double) now / SECOND);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(without_end, teardown),
		cmocka_unit_test_teardown(below_capacity_nobody_waits, teardown),
		cmocka_unit_test_teardown(beyond_it_all_are_slower, teardown),
		cmocka_unit_test_teardown(exact_under_changes, teardown),
		cmocka_unit_test_teardown(capacity_changes, teardown),
		cmocka_unit_test_teardown(overload_costs_capacity, teardown),
		cmocka_unit_test_teardown(removed_request_no_longer_counts, teardown),
		cmocka_unit_test_teardown(late_call, teardown),
		cmocka_unit_test_teardown(random_arrivals, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

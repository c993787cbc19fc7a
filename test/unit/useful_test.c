/*
 * useful_test.c
 *		The useful limit: how it finds the capacity of a simple machine.
 *
 * The machine is always fully used, and all requests of a round take the same time,
 * longer in proportion to their number beyond the capacity.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/useful.h"

static dv_useful useful;
static int64_t now;

/* What is under way in a stream of requests. */
static struct
{
	dv_useful_ticket ticket;
	bool		is_slow;
	int64_t		sent_at;
	int64_t		until;
}			requests[2000];
static int	n_requests;
static int	n_slow;
static int	serial;

static int
setup(void **state)
{
	(void) state;
	memset(&useful, 0, sizeof(useful));
	n_requests = n_slow = serial = 0;
	now = 1000 * DV_SECOND;
	return 0;
}

/* As many requests as are allowed, at most "most", all at once, until the limit changes, or "times". */
static void
play(dv_kind kind, int64_t size, double seconds, double capacity, int most, int hint, int times)
{
	int			before = dv_useful_limit(&useful, hint, now);

	while (times-- > 0 && dv_useful_limit(&useful, hint, now) == before)
	{
		dv_useful_ticket tickets[1000];
		int			n = before < most ? before : most;
		double		took = n > capacity ? seconds * n / capacity : seconds;
		int			i;

		for (i = 0; i < n; i++)
			tickets[i] = dv_useful_sent(&useful, n, now);
		now += (int64_t) (took * DV_SECOND);
		for (i = 0; i < n; i++)
		{
			dv_useful_answered(&useful, tickets[i], kind, size, (int64_t) (took * DV_SECOND));
			dv_useful_gone(&useful, tickets[i], n, now);
		}
	}
}

static void
play_long(double seconds, double capacity, int most)
{
	int			i;

	for (i = 0; i < 60; i++)
		play(DV_KIND_CREATE, 1000, seconds, capacity, most, 0, 100);
}

static void
assert_limit(int least, int most)
{
	int			limit = dv_useful_peek(&useful);

	if (limit < least || limit > most)
		fail_msg("the limit is %d, not between %d and %d", limit, least, most);
}

static void
starts_low_and_doubles(void **state)
{
	int			i;

	(void) state;
	assert_int_equal(dv_useful_peek(&useful), 0);
	for (i = 2; i <= 256; i *= 2)
	{
		assert_int_equal(dv_useful_limit(&useful, 0, now), i);
		play(DV_KIND_CREATE, 1000, 1, 1000, 1000, 0, 10);
	}
}

/* after the first round, a part of a large hint is taken on trust */
static void
hint_makes_the_first_step_longer(void **state)
{
	(void) state;
	play(DV_KIND_CREATE, 1000, 1, 1000, 1000, 48, 10);
	assert_int_equal(dv_useful_peek(&useful), 8);
}

static void
finds_the_capacity(void **state)
{
	static const double capacities[] = {2, 3, 5.5, 12, 50, 200};
	size_t		i;

	for (i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++)
	{
		setup(state);
		play_long(1, capacities[i], 1000);
		if (useful.phase == DV_USEFUL_NORMAL)
			assert_limit((int) capacities[i], (int) (1.5 * capacities[i] + 0.01));
		assert_true(dv_useful_base(&useful, DV_KIND_CREATE) < 1.05 * DV_SECOND);
	}
}

/* a first load finds room for several requests, if single ones have been answered before */
static void
single_requests_make_the_first_step(void **state)
{
	(void) state;
	play(DV_KIND_OTHER, 300, 0.1, 1000, 1, 48, 4);
	assert_limit(8, 8);
}

/* also if it was exceeded at the start, so that the first base was too long */
static void
finds_a_capacity_below_the_start(void **state)
{
	(void) state;
	play_long(1, 1, 1000);
	/* now and then, it tries two */
	assert_limit(1, 2);
	assert_true(dv_useful_base(&useful, DV_KIND_CREATE) < 1.05 * DV_SECOND);
}

static void
does_not_grow_unless_used(void **state)
{
	(void) state;
	play_long(1, 1000, 3);
	assert_limit(2, 4);
}

static void
follows_a_capacity_that_falls_and_rises(void **state)
{
	(void) state;
	play_long(1, 40, 1000);
	play_long(1, 10, 1000);
	if (useful.phase == DV_USEFUL_NORMAL)
		assert_limit(10, 15);
	play_long(1, 40, 1000);
	if (useful.phase == DV_USEFUL_NORMAL)
		assert_limit(40, 60);
}

/* if requests are slow for another reason, fewer of them are slow, too, and the cut is undone */
static void
slow_plugin_is_not_load(void **state)
{
	int			before;

	(void) state;
	play_long(1, 1000, 32);
	before = dv_useful_peek(&useful);
	play(DV_KIND_CREATE, 1000, 3, 1000, 32, 0, 100);
	assert_int_equal(useful.phase, DV_USEFUL_CHECK);
	assert_limit(1, 20);
	play(DV_KIND_CREATE, 1000, 3, 1000, 32, 0, 100);
	assert_int_equal(dv_useful_peek(&useful), before);
	assert_true(dv_useful_base(&useful, DV_KIND_CREATE) > 2.9 * DV_SECOND);
}

/* kinds and sizes have a base each */
static void
sizes_are_told_apart(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 200; i++)
	{
		play(DV_KIND_CREATE, 1000, 1, 20, 1000, 0, 1);
		play(DV_KIND_CREATE, 100000, 10, 20, 1000, 0, 1);
		play(DV_KIND_READ, 300, 0.2, 20, 1000, 0, 1);
	}
	if (useful.phase == DV_USEFUL_NORMAL)
		assert_limit(20, 30);
	assert_true(dv_useful_base(&useful, DV_KIND_READ) < 0.21 * DV_SECOND);
}

/* every third request takes much longer, as if one of three users were slow: that is not load */
static void
slow_user_is_not_load(void **state)
{
	dv_useful_ticket tickets[64];
	int			answers = 0;

	(void) state;
	play_long(0.1, 3, 1000);
	if (useful.phase == DV_USEFUL_NORMAL)
		assert_limit(3, 4);
	while (answers < 300)
	{
		int			n = dv_useful_limit(&useful, 0, now);
		int			i;

		n = n < 64 ? n : 64;
		for (i = 0; i < n; i++)
			tickets[i] = dv_useful_sent(&useful, n, now);
		now += 3 * DV_SECOND;
		for (i = 0; i < n; i++)
		{
			dv_useful_answered(&useful, tickets[i], DV_KIND_CREATE, 1000,
							   ++answers % 3 == 0 ? 3 * DV_SECOND : DV_SECOND / 10);
			dv_useful_gone(&useful, tickets[i], n, now);
		}
	}
	assert_limit(16, 256);
}

/* answers of a few milliseconds may take some more without a reason to send fewer requests */
static void
short_waits_do_not_matter(void **state)
{
	(void) state;
	play_long(0.002, 2, 32);
	assert_limit(32, 64);
}

/* requests without an answer (throttled, failed, dropped) end a round, but tell nothing */
static void
requests_without_answer(void **state)
{
	dv_useful_ticket tickets[8];
	int			i;
	int			k;

	(void) state;
	for (k = 0; k < 20; k++)
	{
		int			n = dv_useful_limit(&useful, 0, now);

		for (i = 0; i < n; i++)
			tickets[i] = dv_useful_sent(&useful, n, now);
		for (i = 0; i < n; i++)
			assert_false(dv_useful_gone(&useful, tickets[i], n, now));
	}
	assert_limit(2, 2);
	play(DV_KIND_CREATE, 1000, 1, 1000, 1000, 0, 10);
	assert_limit(4, 4);
}

/* a request of an earlier round does not count, nor one of before a reset */
static void
stale_requests(void **state)
{
	dv_useful_ticket ticket;

	(void) state;
	dv_useful_limit(&useful, 0, now);
	ticket = dv_useful_sent(&useful, 1, now);
	dv_useful_reset(&useful);
	assert_int_equal(dv_useful_limit(&useful, 0, now), 2);
	dv_useful_answered(&useful, ticket, DV_KIND_CREATE, 1, DV_SECOND);
	assert_false(dv_useful_gone(&useful, ticket, 1, now));
	assert_int_equal(useful.left, 0);
	assert_true(dv_useful_sent(&useful, 1, now).round != ticket.round);
}

static void
starts_over_after_idling(void **state)
{
	(void) state;
	play_long(1, 1000, 64);
	assert_limit(64, 128);
	now += 3599 * DV_SECOND;
	assert_true(dv_useful_limit(&useful, 0, now) >= 64);
	now += 2 * DV_SECOND;
	assert_int_equal(dv_useful_limit(&useful, 0, now), 2);
}

/* one more is sent for a request that hangs; those that always take so long do not hang */
static void
is_silent_while_requests_hang(void **state)
{
	int			i;

	(void) state;
	assert_int_equal(dv_useful_limit(&useful, 0, now), 2);
	for (i = 0; i < 2; i++)
		assert_int_not_equal(dv_useful_sent(&useful, i + 1, now).round, 0);
	assert_false(dv_useful_is_silent(&useful, now + DV_USEFUL_PATIENCE));
	now += DV_USEFUL_PATIENCE + 1;
	assert_true(dv_useful_is_silent(&useful, now));
	dv_useful_sent(&useful, 3, now);
	assert_false(dv_useful_is_silent(&useful, now));

	setup(state);
	play(DV_KIND_CREATE, 1000, 30, 100, 2, 0, 10);
	dv_useful_sent(&useful, 1, now);
	assert_false(dv_useful_is_silent(&useful, now + 30 * DV_SECOND));
	assert_true(dv_useful_is_silent(&useful, now + 31 * DV_SECOND));
}

static dv_useful_ticket
send(int in_flight)
{
	return dv_useful_sent(&useful, in_flight, now);
}

static void
answer(dv_useful_ticket ticket, int in_flight, int64_t sent_at)
{
	dv_useful_answered(&useful, ticket, DV_KIND_CREATE, 1000, now - sent_at);
	dv_useful_gone(&useful, ticket, in_flight, now);
}

/* once a later request is answered, those of the start are known to hang, and the limit is for others */
static void
requests_hang_at_the_start(void **state)
{
	dv_useful_ticket hang[2];
	dv_useful_ticket third;

	(void) state;
	dv_useful_limit(&useful, 0, now);
	hang[0] = send(1);
	hang[1] = send(2);
	now += DV_USEFUL_PATIENCE + 1;
	third = send(3);
	now += DV_SECOND / 10;
	assert_int_equal(dv_useful_limit(&useful, 0, now), 2);
	answer(third, 3, now - DV_SECOND / 10);
	assert_int_equal(dv_useful_limit(&useful, 0, now), 4);
	assert_int_equal(dv_useful_peek(&useful), 2);

	/* in the end they are answered, which shows nothing about load */
	dv_useful_answered(&useful, hang[0], DV_KIND_CREATE, 1000, 60 * DV_SECOND);
	dv_useful_gone(&useful, hang[0], 2, now);
	dv_useful_gone(&useful, hang[1], 1, now);
	assert_int_equal(dv_useful_limit(&useful, 0, now), 2);
	play(DV_KIND_CREATE, 1000, 0.1, 1000, 1000, 0, 10);
	assert_limit(4, 4);
}

/* "seconds" includes the wait for others */
static void
send_one(double seconds, bool is_slow)
{
	requests[n_requests].is_slow = is_slow;
	requests[n_requests].sent_at = now;
	requests[n_requests].until = now + (int64_t) (seconds * DV_SECOND);
	n_slow += is_slow;
	n_requests++;
	requests[n_requests - 1].ticket = send(n_requests);
}

static void
end_one(int i)
{
	n_slow -= requests[i].is_slow;
	answer(requests[i].ticket, n_requests, requests[i].sent_at);
	requests[i] = requests[--n_requests];
}

static int
next_to_end(void)
{
	int			next = 0;
	int			i;

	for (i = 1; i < n_requests; i++)
		if (requests[i].until < requests[next].until)
			next = i;
	return next;
}

/*
 * Keeps the limit in use for so many seconds.  Every "nth" request takes "slow" seconds and no
 * capacity, as long as fewer than "most_slow" do.  Returns how many times as long the others took
 * in the second half because of load.
 */
static double
stream(double seconds, double capacity, int nth, double slow, int most_slow, double length)
{
	int64_t		end = now + (int64_t) (length * DV_SECOND);
	int64_t		middle = (now + end) / 2;
	double		sum = 0;
	int			n = 0;

	while (now < end)
	{
		while (n_requests < dv_useful_limit(&useful, 0, now) || dv_useful_is_silent(&useful, now))
		{
			double		load = (n_requests + 1 - n_slow) / capacity;

			load = load > 1 ? load : 1;
			if (++serial % nth == 0 && n_slow < most_slow)
				send_one(slow, true);
			else
			{
				send_one(load * seconds, false);
				sum += now >= middle ? load : 0;
				n += now >= middle;
			}
		}
		if (requests[next_to_end()].until > now + DV_SECOND)
			now += DV_SECOND;
		else
		{
			now = requests[next_to_end()].until;
			end_one(next_to_end());
		}
	}
	return n > 0 ? sum / n : 0;
}

/* those that were measured count, and the limit returns to what it was */
static void
requests_hang_during_a_probe(void **state)
{
	int64_t		began;
	int			before;

	(void) state;
	stream(1, 16, 1000, 0, 0, 20);
	while (useful.phase != DV_USEFUL_PROBE)
		stream(1, 16, 1000, 0, 0, 0.1);
	before = (int) useful.before;
	began = now;
	while (useful.phase == DV_USEFUL_PROBE && now - began < 60 * DV_SECOND)
		stream(1, 16, 3, 120, 2, 0.1);
	assert_int_not_equal(useful.phase, DV_USEFUL_PROBE);
	assert_in_range(now - began, 0, 10 * DV_SECOND);
	assert_limit(16, before);
	assert_int_equal(dv_useful_limit(&useful, 0, now) - dv_useful_peek(&useful), 2);
}

/* a few very slow requests show nothing about load, nor do they take up the limit */
static void
some_requests_are_very_slow(void **state)
{
	(void) state;
	stream(1, 150, 20, 100, 1000, 30);
	assert_limit(100, 512);
	setup(state);
	assert_true(stream(0.1, 8, 20, 10, 200, 120) < 1.5);
	assert_true(dv_useful_base(&useful, DV_KIND_CREATE) < 0.105 * DV_SECOND);
}

/* nor do all requests of one user, which hang from the start on */
static void
all_requests_of_a_user_hang(void **state)
{
	(void) state;
	assert_true(stream(0.1, 8, 2, 120, 26, 60) < 1.5);
	assert_limit(8, 20);
	setup(state);
	assert_true(stream(0.1, 8, 1, 120, 2, 10) < 1.5);
	assert_limit(8, 20);
	assert_true(dv_useful_base(&useful, DV_KIND_CREATE) < 0.105 * DV_SECOND);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(starts_low_and_doubles, setup),
		cmocka_unit_test_setup(hint_makes_the_first_step_longer, setup),
		cmocka_unit_test_setup(finds_the_capacity, setup),
		cmocka_unit_test_setup(single_requests_make_the_first_step, setup),
		cmocka_unit_test_setup(finds_a_capacity_below_the_start, setup),
		cmocka_unit_test_setup(does_not_grow_unless_used, setup),
		cmocka_unit_test_setup(follows_a_capacity_that_falls_and_rises, setup),
		cmocka_unit_test_setup(slow_plugin_is_not_load, setup),
		cmocka_unit_test_setup(sizes_are_told_apart, setup),
		cmocka_unit_test_setup(slow_user_is_not_load, setup),
		cmocka_unit_test_setup(short_waits_do_not_matter, setup),
		cmocka_unit_test_setup(requests_without_answer, setup),
		cmocka_unit_test_setup(stale_requests, setup),
		cmocka_unit_test_setup(starts_over_after_idling, setup),
		cmocka_unit_test_setup(is_silent_while_requests_hang, setup),
		cmocka_unit_test_setup(requests_hang_at_the_start, setup),
		cmocka_unit_test_setup(requests_hang_during_a_probe, setup),
		cmocka_unit_test_setup(some_requests_are_very_slow, setup),
		cmocka_unit_test_setup(all_requests_of_a_user_hang, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

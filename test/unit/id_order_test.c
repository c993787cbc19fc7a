/*
 * id_order_test.c
 *		Ids as numbers: SQL Server's order, distances, and points between two ids.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/id_order.h"

static uint64_t state_of_chance = 88172645463325252u;

static uint64_t
chance(void)
{
	state_of_chance ^= state_of_chance << 13;
	state_of_chance ^= state_of_chance >> 7;
	state_of_chance ^= state_of_chance << 17;
	return state_of_chance;
}

/* An id from the two halves of its number. */
static dv_ordered_id
id_of(uint64_t upper, uint64_t lower)
{
	dv_ordered_id id;
	int			i;

	for (i = 7; i >= 0; i--, upper >>= 8, lower >>= 8)
	{
		id.bytes[i] = (uint8_t) upper;
		id.bytes[i + 8] = (uint8_t) lower;
	}
	return id;
}

static unsigned __int128
number(const dv_ordered_id *id)
{
	unsigned	__int128 n = 0;
	int			i;

	for (i = 0; i < DV_ID_LEN; i++)
		n = n << 8 | id->bytes[i];
	return n;
}

static void
assert_same(const dv_ordered_id *a, const dv_ordered_id *b)
{
	assert_memory_equal(a->bytes, b->bytes, DV_ID_LEN);
}

/* The bytes from the least to the most significant one, as SQL Server documents them. */
static void
order(void **state)
{
	static const int ascending[DV_ID_LEN] = {
		0, 1, 2, 3, 4, 5, 6, 7, 9, 8, 15, 14, 13, 12, 11, 10
	};
	dv_ordered_id last = {{0}};
	int			i;

	(void) state;
	for (i = 0; i < DV_ID_LEN; i++)
	{
		uint8_t		uuid[DV_ID_LEN] = {0};
		uint8_t		back[DV_ID_LEN];
		dv_ordered_id id;

		uuid[ascending[i]] = 1;
		dv_id_order(uuid, &id);
		assert_true(dv_id_compare(&last, &id) < 0);
		assert_true(dv_id_compare(&id, &last) > 0);
		assert_int_equal(dv_id_compare(&id, &id), 0);
		dv_id_unorder(&id, back);
		assert_memory_equal(uuid, back, DV_ID_LEN);
		last = id;
	}
}

static void
distance(void **state)
{
	dv_ordered_id a = id_of(0, 5);
	dv_ordered_id b = id_of(0, 12);
	dv_ordered_id c = id_of(1, 4);
	dv_ordered_id first = id_of(0, 0);
	dv_ordered_id last = id_of(UINT64_MAX, UINT64_MAX);

	(void) state;
	assert_true(dv_id_distance(&a, &b) == 7);
	assert_true(dv_id_distance(&b, &a) == 0);
	assert_true(dv_id_distance(&a, &a) == 0);
	assert_true(dv_id_distance(&a, &c) == 18446744073709551615.0);
	assert_true(dv_id_distance(&first, &last) > 3.4e38);
}

static void
midpoints(void **state)
{
	dv_ordered_id a = id_of(0, 0);
	dv_ordered_id b = id_of(UINT64_MAX, UINT64_MAX);
	dv_ordered_id middle = id_of(UINT64_C(0x7fffffffffffffff), UINT64_MAX);
	dv_ordered_id point = dv_id_cut(&a, &b, 1, 2);

	(void) state;
	assert_same(&point, &middle);
	/* an odd distance is rounded down, and of neighbours the lower one is the midpoint */
	a = id_of(7, UINT64_MAX);
	b = id_of(8, 0);
	point = dv_id_cut(&a, &b, 1, 2);
	assert_same(&point, &a);
	b = id_of(8, 1);
	point = dv_id_cut(&a, &b, 1, 2);
	middle = id_of(8, 0);
	assert_same(&point, &middle);
	point = dv_id_cut(&a, &a, 1, 2);
	assert_same(&point, &a);
	/* the ends */
	point = dv_id_cut(&a, &b, 0, 16);
	assert_same(&point, &a);
	point = dv_id_cut(&a, &b, 16, 16);
	assert_same(&point, &b);
}

/* Compares with the arithmetic of the compiler. */
static void
cuts(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 200000; i++)
	{
		/* of all lengths, so that carries and borrows run through */
		dv_ordered_id a = id_of(chance() >> chance() % 64, chance() >> chance() % 64);
		dv_ordered_id b = id_of(chance() >> chance() % 64, chance() >> chance() % 64);
		uint32_t	parts = 1 + (uint32_t) (chance() % (i % 2 == 0 ? 64 : DV_ID_MOST_PARTS));
		uint32_t	part = (uint32_t) (chance() % (parts + 1));
		dv_ordered_id low = dv_id_compare(&a, &b) < 0 ? a : b;
		dv_ordered_id high = dv_id_compare(&a, &b) < 0 ? b : a;
		dv_ordered_id point = dv_id_cut(&low, &high, part, parts);
		unsigned	__int128 d = number(&high) - number(&low);
		unsigned	__int128 wanted = number(&low) + d / parts * part + d % parts * part / parts;
		double		ratio;

		assert_true(number(&point) == wanted);
		ratio = dv_id_distance(&low, &high) - (double) d;
		assert_true(ratio <= (double) d * 1e-14 && -ratio <= (double) d * 1e-14);
	}
}

static void
after(void **state)
{
	dv_ordered_id a = id_of(7, UINT64_MAX);
	dv_ordered_id wanted = id_of(8, 4);
	dv_ordered_id point = dv_id_after(&a, 5);
	dv_ordered_id last = id_of(UINT64_MAX, UINT64_MAX);
	int			i;

	(void) state;
	assert_same(&point, &wanted);
	point = dv_id_after(&a, 0.9);
	assert_same(&point, &a);
	point = dv_id_after(&a, 18446744073709551616.0);
	wanted = id_of(8, UINT64_MAX);
	assert_same(&point, &wanted);
	point = dv_id_after(&a, 1e40);
	assert_same(&point, &last);
	a = id_of(UINT64_MAX, UINT64_MAX - 4);
	point = dv_id_after(&a, 4);
	assert_same(&point, &last);
	point = dv_id_after(&a, 5);
	assert_same(&point, &last);
	/* the distance to the point is the distance asked for */
	for (i = 0; i < 100000; i++)
	{
		dv_ordered_id low = id_of(chance() >> (1 + chance() % 63), chance());
		double		distance = (double) (chance() >> chance() % 64) * (i % 2 == 0 ? 1 : 1e18);
		double		found;

		point = dv_id_after(&low, distance);
		found = dv_id_distance(&low, &point);
		assert_true(found - distance <= distance * 1e-14 && distance - found <= distance * 1e-14);
	}
}

/* Halving comes to an end, with ranges that do not overlap and leave nothing out. */
static void
halving(void **state)
{
	dv_ordered_id low = id_of(0, 0);
	dv_ordered_id high = id_of(UINT64_MAX, UINT64_MAX);
	int			steps = 0;

	(void) state;
	for (;;)
	{
		dv_ordered_id cut = dv_id_cut(&low, &high, 1, 2);

		if (dv_id_compare(&cut, &low) <= 0)
			break;
		assert_true(dv_id_compare(&cut, &high) < 0);
		if (chance() % 2 == 0)
			low = cut;
		else
			high = cut;
		steps++;
	}
	assert_true(steps >= 126 && steps <= 129);
}

/* Compares ids whose bytes are significant in another order. */
static int
compare_in(const int *significance, const dv_ordered_id *a, const dv_ordered_id *b)
{
	int			i;

	for (i = 0; i < DV_ID_LEN; i++)
		if (a->bytes[significance[i]] != b->bytes[significance[i]])
			return a->bytes[significance[i]] < b->bytes[significance[i]] ? -1 : 1;
	return 0;
}

static bool
passes(const int *significance, const dv_ordered_id *id)
{
	dv_id_trial trials[DV_ID_TRIALS];
	int			n = dv_id_trials(id, trials);
	int			i;

	for (i = 0; i < n; i++)
		if (compare_in(significance, id, &trials[i].id) != (trials[i].greater ? -1 : 1))
			return false;
	return true;
}

/* Only this order passes all trials. */
static void
trials(void **state)
{
	int			significance[DV_ID_LEN];
	dv_id_trial none[DV_ID_TRIALS];
	dv_ordered_id zeros = id_of(0, 0);
	dv_ordered_id ones = id_of(UINT64_MAX, UINT64_MAX);
	dv_ordered_id low = id_of(0, 5);
	int			round;
	int			i;

	(void) state;
	assert_int_equal(dv_id_trials(&zeros, none), 0);
	assert_int_equal(dv_id_trials(&ones, none), 0);
	assert_int_equal(dv_id_trials(&low, none), 1);
	for (round = 0; round < 2000; round++)
	{
		/* no byte is 0 or 255, so that there are all trials */
		dv_ordered_id id = id_of((chance() & UINT64_C(0x7f7f7f7f7f7f7f7f)) | UINT64_C(0x0101010101010101),
								 (chance() & UINT64_C(0x7f7f7f7f7f7f7f7f)) | UINT64_C(0x0101010101010101));
		int			from = (int) (chance() % DV_ID_LEN);
		int			to = (int) (chance() % DV_ID_LEN);

		assert_int_equal(dv_id_trials(&id, none), DV_ID_TRIALS);
		for (i = 0; i < DV_ID_LEN; i++)
			significance[i] = i;
		assert_true(passes(significance, &id));
		significance[from] = to;
		significance[to] = from;
		assert_true(passes(significance, &id) == (from == to));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order),
		cmocka_unit_test(distance),
		cmocka_unit_test(midpoints),
		cmocka_unit_test(cuts),
		cmocka_unit_test(after),
		cmocka_unit_test(halving),
		cmocka_unit_test(trials),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

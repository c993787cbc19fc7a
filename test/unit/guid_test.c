/*
 * guid_test.c
 *		Ids that suit SQL Server's indexes: order, layout, erratic clocks.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/guid.h"

#define NOW INT64_C(1790000000123456)

static uint64_t
chance(void)
{
	static uint64_t state = 42;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* compares as SQL Server compares uniqueidentifiers */
static int
compare(const uint8_t *a, const uint8_t *b)
{
	static const int order[] = {10, 11, 12, 13, 14, 15, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0};
	int			i;

	for (i = 0; i < 16; i++)
		if (a[order[i]] != b[order[i]])
			return a[order[i]] < b[order[i]] ? -1 : 1;
	return 0;
}

static void
layout(void **state)
{
	dv_guid_clock clock = {0};
	uint8_t		id[16];
	static const uint8_t wanted[16] = {
		0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x43, 0x01, 0x80, 0x00,
		0x01, 0xa0, 0xc4, 0x50, 0x6c, 0x7b
	};
	static const uint8_t wanted_next[16] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x4f, 0xff, 0x80, 0x01,
		0x01, 0xa0, 0xc4, 0x50, 0x6c, 0x7b
	};

	(void) state;
	dv_guid_make(&clock, NOW, UINT64_C(0x0123456789abcdef), id);
	assert_memory_equal(id, wanted, 16);
	dv_guid_make(&clock, NOW, UINT64_MAX, id);
	assert_memory_equal(id, wanted_next, 16);
}

/* Makes ids, and checks that each is greater than the previous one, and a UUID of version 4. */
static void
make_many(dv_guid_clock *clock, uint8_t *last, int n, int64_t now, int64_t step)
{
	int			i;

	for (i = 0; i < n; i++, now += step)
	{
		uint8_t		id[16];

		dv_guid_make(clock, now, chance(), id);
		assert_int_equal(id[6] >> 4, 4);
		assert_int_equal(id[8] >> 6, 2);
		assert_true(compare(last, id) < 0);
		memcpy(last, id, 16);
	}
}

static void
order(void **state)
{
	dv_guid_clock clock = {0};
	uint8_t		last[16] = {0};

	(void) state;
	/* one every few microseconds, one every few days, and far more than fit into a millisecond */
	make_many(&clock, last, 100000, NOW, 7);
	make_many(&clock, last, 1000, NOW + 1000000, INT64_C(1000000) * 86400 * 3);
	make_many(&clock, last, 100000, NOW, 0);
}

static void
full_tick(void **state)
{
	dv_guid_clock clock = {0};
	uint8_t		last[16] = {0};

	(void) state;
	make_many(&clock, last, 1 << 14, NOW, 0);
	assert_int_equal(clock.tick, NOW / 1000);
	make_many(&clock, last, 1, NOW, 0);
	assert_int_equal(clock.tick, NOW / 1000 + 1);
	assert_int_equal(clock.counter, 0);
	/* time catches up with the clock, and overtakes it */
	make_many(&clock, last, 1, NOW + 1000, 0);
	assert_int_equal(clock.counter, 1);
	make_many(&clock, last, 1, NOW + 2000, 0);
	assert_int_equal(clock.tick, NOW / 1000 + 2);
	assert_int_equal(clock.counter, 0);
}

static void
set_back(void **state)
{
	dv_guid_clock clock = {0};
	uint8_t		last[16] = {0};

	(void) state;
	make_many(&clock, last, 10, NOW, 1000);
	make_many(&clock, last, 10, NOW - INT64_C(3600000000), 1000);
	make_many(&clock, last, 10, -1, 1000);
	make_many(&clock, last, 10, NOW + 60000, 1000);
	assert_int_equal(clock.tick, NOW / 1000 + 69);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout),
		cmocka_unit_test(order),
		cmocka_unit_test(full_tick),
		cmocka_unit_test(set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

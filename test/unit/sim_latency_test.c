/*
 * sim_latency_test.c
 *		The latency model: its specifications and the resulting latencies.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "limits/latency.h"

/* the random numbers for the least, the middle, and the greatest latency */
#define LEAST UINT64_C(0)
#define MIDDLE (UINT64_C(1) << 63)
#define MOST UINT64_MAX

static int64_t
price_at(const char *spec, enum sim_kind kind, int rows, uint64_t random)
{
	struct sim_latency latency;
	const char *error = "unset";

	if (!sim_latency_parse(&latency, spec, &error))
		fail_msg("%s: %s", spec, error);
	assert_null(error);
	return sim_latency_us(&latency, kind, rows, 0, random);
}

static int64_t
price(const char *spec, enum sim_kind kind, int rows)
{
	return price_at(spec, kind, rows, MIDDLE);
}

static int64_t
price_with_input(const char *spec, int rows, int input)
{
	struct sim_latency latency;
	const char *error;

	if (!sim_latency_parse(&latency, spec, &error))
		fail_msg("%s: %s", spec, error);
	return sim_latency_us(&latency, SIM_READ, rows, input, MIDDLE);
}

static void
prices_base_and_rows(void **state)
{
	const char *spec = "all=20ms,create=50ms+8ms/row";

	(void) state;
	assert_int_equal(price(spec, SIM_CREATE, 0), 50000);
	assert_int_equal(price(spec, SIM_CREATE, 1), 58000);
	assert_int_equal(price(spec, SIM_CREATE, 100), 850000);
	assert_int_equal(price(spec, SIM_CREATE, -1), 50000);
	assert_int_equal(price(spec, SIM_READ, 5000), 20000);
}

static void
prices_input(void **state)
{
	(void) state;
	assert_int_equal(price_with_input("read=20ms+196us/row+20us/input", 1, 0), 20196);
	assert_int_equal(price_with_input("read=20ms+196us/row+20us/input", 5000, 0), 1000000);
	assert_int_equal(price_with_input("read=20ms+196us/row+20us/input", 10, 50000), 1021960);
	assert_int_equal(price_with_input("read=20ms+20us/input+196us/row", 10, 50000), 1021960);
	assert_int_equal(price_with_input("read=20ms+20us/input", 10, 3), 20060);
	assert_int_equal(price_with_input("read=20ms+20us/input", 10, -1), 20000);
}

static void
knows_every_operation(void **state)
{
	static const struct
	{
		const char *spec;
		enum sim_kind kind;
	}			operations[] = {
		{"other=7ms", SIM_OTHER}, {"read=7ms", SIM_READ}, {"create=7ms", SIM_CREATE},
		{"update=7ms", SIM_UPDATE}, {"upsert=7ms", SIM_UPSERT}, {"delete=7ms", SIM_DELETE},
		{"batch=7ms", SIM_BATCH}, {"metadata=7ms", SIM_METADATA}, {"token=7ms", SIM_TOKEN}
	};
	size_t		i;
	int			kind;

	(void) state;
	assert_int_equal(sizeof(operations) / sizeof(operations[0]), SIM_KINDS);
	for (i = 0; i < SIM_KINDS; i++)
		for (kind = 0; kind < SIM_KINDS; kind++)
			assert_int_equal(price(operations[i].spec, (enum sim_kind) kind, 1),
							 kind == (int) operations[i].kind ? 7000 : 0);
}

static void
all_spares_the_token(void **state)
{
	int			kind;

	(void) state;
	for (kind = 0; kind < SIM_KINDS; kind++)
		assert_int_equal(price("all=5ms", (enum sim_kind) kind, 0), kind == SIM_TOKEN ? 0 : 5000);
	assert_int_equal(price("token=1s,all=5ms", SIM_TOKEN, 0), 1000000);
}

static void
later_items_override(void **state)
{
	(void) state;
	assert_int_equal(price("read=1ms+1ms/row,read=2ms", SIM_READ, 10), 2000);
	assert_int_equal(price("read=1ms,all=2ms", SIM_READ, 10), 2000);
	assert_int_equal(price("real,create=1ms", SIM_CREATE, 100), 1000);
	assert_int_equal(price("create=1ms,none", SIM_CREATE, 100), 0);
}

static void
reads_units_and_fractions(void **state)
{
	(void) state;
	assert_int_equal(price("read=0", SIM_READ, 0), 0);
	assert_int_equal(price("read=0+0/row", SIM_READ, 9), 0);
	assert_int_equal(price("read=250us", SIM_READ, 0), 250);
	assert_int_equal(price("read=1.5s", SIM_READ, 0), 1500000);
	assert_int_equal(price("read=.5ms", SIM_READ, 0), 500);
	assert_int_equal(price("read=0+0.1us/row", SIM_READ, 5000), 500);

	/* neither the latency per row nor the sum is truncated */
	assert_int_equal(price("read=0+1.001us/row", SIM_READ, 1000000), 1001000);
	assert_int_equal(price("read=1.6us", SIM_READ, 0), 2);
}

static void
jitters_evenly_to_both_sides(void **state)
{
	const char *spec = "read=100ms+1ms/row~20%";

	(void) state;
	assert_int_equal(price_at(spec, SIM_READ, 100, LEAST), 160000);
	assert_int_equal(price_at(spec, SIM_READ, 100, MIDDLE), 200000);
	assert_int_equal(price_at(spec, SIM_READ, 100, MOST), 240000);
	assert_int_equal(price_at("read=100ms~100%", SIM_READ, 0, LEAST), 0);
	assert_int_equal(price_at("read=100ms~0%", SIM_READ, 0, MOST), 100000);
}

static void
real_is_as_measured(void **state)
{
	(void) state;
	assert_int_equal(price("real", SIM_CREATE, 100), 1000000);
	assert_in_range(price("real", SIM_CREATE, 1), 99000, 100000);
	assert_in_range(price("real", SIM_BATCH, 100), 4000000, 4100000);
	assert_in_range(price("real", SIM_UPSERT, 100), 2400000, 2500000);
	assert_true(price("real", SIM_TOKEN, 0) > 0);
}

static void
refuses_what_is_malformed(void **state)
{
	static const char *const bad[] = {
		"", ",", "read", "read=", "read=5", "read=ms", "read=-5ms", "read=5 ms", "read=5min",
		"read=1.2.3ms", "read=.ms", "read=1e3ms", "read=infs", "read=5ms+", "read=5ms+1ms",
		"read=5ms+1ms/rows", "read=5ms+1/row", "read=5ms+1ms/inputs", "read=5ms+1ms/page",
		"read=5ms+1ms/row1ms/input", "read=5ms~", "read=5ms~20",
		"read=5ms~101%", "read=5ms~1.2.3%", "read=5ms~.%",
		"read=5ms~-1%", "read=5ms~20%%", "read=5ms~20%+1ms/row", "read=5ms,", ",read=5ms",
		"Read=5ms", "write=5ms", "rea=5ms", "reads=5ms", "=5ms", "real=5ms", "unreal", "reals",
		"read=100001s", "read=1ms+100001s/row", "read=5ms;create=5ms"
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		struct sim_latency latency;
		const char *error = NULL;

		if (sim_latency_parse(&latency, bad[i], &error))
			fail_msg("accepted: %s", bad[i]);
		assert_non_null(error);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(prices_base_and_rows),
		cmocka_unit_test(prices_input),
		cmocka_unit_test(knows_every_operation),
		cmocka_unit_test(all_spares_the_token),
		cmocka_unit_test(later_items_override),
		cmocka_unit_test(reads_units_and_fractions),
		cmocka_unit_test(jitters_evenly_to_both_sides),
		cmocka_unit_test(real_is_as_measured),
		cmocka_unit_test(refuses_what_is_malformed)
	};

	return cmocka_run_group_tests_name("sim_latency", tests, NULL, NULL);
}

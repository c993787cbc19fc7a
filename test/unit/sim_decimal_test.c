/*
 * sim_decimal_test.c
 *		Exact decimals: reading, rounding, printing, and the order of the packed form.
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

#include "store/decimal.h"

static void
reads_rounds_and_prints(void **state)
{
	static const struct
	{
		const char *in;
		int			precision;
		int			digits;
		const char *out;
	}			cases[] = {
		{"0", 10, 0, "0"}, {"-0", 10, 2, "0.00"}, {"12.5", 10, 10, "12.5000000000"},
		{"12.345", 2, 2, "12.35"}, {"-12.345", 2, 2, "-12.35"}, {"12.344999", 2, 2, "12.34"},
		{"0.005", 2, 2, "0.01"}, {"0.0049", 2, 2, "0.00"}, {"0.5", 0, 0, "1"}, {"0.05", 0, 0, "0"},
		{"99.995", 2, 2, "100.00"}, {"1e3", 2, 2, "1000.00"}, {"1.5E-3", 10, 10, "0.0015000000"},
		{"1.5e+2", 2, 0, "150"}, {"000123", 2, 0, "123"}, {"+7", 0, 0, "7"}, {".5", 2, 2, "0.50"},
		{"5.", 2, 2, "5.00"}, {"100000000000", 10, 10, "100000000000.0000000000"},
		{"922337203685477.5807", 4, 4, "922337203685477.5807"},
		{"1e-400", 10, 10, "0.0000000000"}, {"0e999999999999", 2, 0, "0"},
		{"12345.6789012345", 10, 3, "12345.679"}, {"-0.0000000001", 10, 2, "0.00"},
		{"17014118346046923173168730371.5884105727", 10, 10,
		"17014118346046923173168730371.5884105727"},
	};
	char		text[48];
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		sim_dec		v;
		int			n;

		if (!sim_dec_parse(cases[i].in, strlen(cases[i].in), cases[i].precision, &v))
			fail_msg("\"%s\" is refused", cases[i].in);
		n = sim_dec_print(v, cases[i].digits, text);
		assert_int_equal(n, strlen(text));
		assert_string_equal(text, cases[i].out);
	}
}

static void
refuses_what_is_no_decimal(void **state)
{
	static const char *const bad[] = {
		"", "-", "+", ".", "e5", "1e", "1e+", "1.2.3", "1,5", "abc", "1 ", " 1", "0x10", "--1",
		"1e40", "17014118346046923173168730371.5884105728", "99999999999999999999999999999",
		"1e99999999999999999999", "NaN", "Infinity"
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		sim_dec		v;

		if (sim_dec_parse(bad[i], strlen(bad[i]), 10, &v))
			fail_msg("\"%s\" is taken", bad[i]);
	}
}

static void
packed_form_sorts(void **state)
{
	static const char *const ascending[] = {
		"-17014118346046923173168730371", "-1000000", "-1.5", "-0.0000000001", "0",
		"0.0000000001", "1", "1.0000000001", "2", "10", "255.9", "256", "17014118346046923173168730371"
	};
	unsigned char packed[2][16];
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(ascending) / sizeof(ascending[0]); i++)
	{
		sim_dec		v;

		assert_true(sim_dec_parse(ascending[i], strlen(ascending[i]), 10, &v));
		sim_dec_pack(v, packed[i % 2]);
		assert_true(sim_dec_unpack(packed[i % 2]) == v);
		if (i > 0)
			assert_true(memcmp(packed[(i + 1) % 2], packed[i % 2], 16) < 0);
	}
}

static void
prints_any_number_of_digits(void **state)
{
	const sim_dec least = (sim_dec) ((unsigned __int128) 1 << 127);
	char		text[48];

	(void) state;
	sim_dec_print(least, 10, text);
	assert_string_equal(text, "-17014118346046923173168730371.5884105728");
	sim_dec_print(least, 0, text);
	assert_string_equal(text, "-17014118346046923173168730372");
	sim_dec_print(15, 99, text);
	assert_string_equal(text, "0.0000000015");
	sim_dec_print(5000000000LL, -1, text);
	assert_string_equal(text, "1");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_rounds_and_prints),
		cmocka_unit_test(refuses_what_is_no_decimal),
		cmocka_unit_test(packed_form_sorts),
		cmocka_unit_test(prints_any_number_of_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

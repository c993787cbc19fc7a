/*
 * stored_test.c
 *		Values that were sent, and the values that the service may return
 *		for them.
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

#include "dataverse/json_cursor.h"
#include "dataverse/stored.h"

#define EQUAL DV_STORED_EQUAL
#define BOTH_NULL DV_STORED_NULL
#define UNKNOWN DV_STORED_UNKNOWN
#define DIFFERENT DV_STORED_DIFFERENT

/* reads a JSON text as a value, whose slice is then valid as long as the text */
static dv_value
value_of(const char *json)
{
	dv_cursor	cursor;
	dv_value	value;

	dv_cursor_open(&cursor, json, strlen(json));
	assert_true(dv_cursor_value(&cursor, &value));
	assert_true(dv_cursor_ended(&cursor));
	return value;
}

/* the scratch is exactly as long as promised, so that the sanitizer sees what exceeds it */
static dv_stored
compare(dv_wire wire, const char *sent, const char *read)
{
	dv_value	a = value_of(sent);
	dv_value	b = value_of(read);
	char	   *scratch = malloc((size_t) a.len + b.len + 1);
	dv_stored	result = dv_stored_compare(wire, &a, &b, scratch);

	free(scratch);
	return result;
}

struct sample
{
	dv_wire		wire;
	const char *sent;
	const char *read;
	dv_stored	result;
};

static void
check(const struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		dv_stored	result = compare(samples[i].wire, samples[i].sent, samples[i].read);

		if (result != samples[i].result)
			fail_msg("%s, read as %s: %d, not %d", samples[i].sent, samples[i].read, result,
					 samples[i].result);
	}
}

#define CHECK(samples) check(samples, sizeof(samples) / sizeof((samples)[0]))

static void
texts(void **state)
{
	static const struct sample samples[] = {
		{DV_WIRE_TEXT, "\"a\"", "\"a\"", EQUAL},
		{DV_WIRE_TEXT, "\"a\"", "\"b\"", DIFFERENT},
		{DV_WIRE_TEXT, "\"a\"", "\"A\"", DIFFERENT},
		{DV_WIRE_TEXT, "\"a\"", "\"ab\"", DIFFERENT},
		{DV_WIRE_TEXT, "\"\\u00e9 \\\"\"", "\"\xc3\xa9 \\u0022\"", EQUAL},
		{DV_WIRE_TEXT, "\"\\n\\n\"", "\"\\u000a\\u000A\"", EQUAL},
		/* blanks at the ends and line ends may be changed */
		{DV_WIRE_TEXT, "\"a \"", "\"a\"", UNKNOWN},
		{DV_WIRE_TEXT, "\"a\\nb\"", "\"a\\r\\nb\"", UNKNOWN},
		{DV_WIRE_TEXT, "\" \"", "null", UNKNOWN},
		{DV_WIRE_TEXT, "\"a \"", "\"b\"", DIFFERENT},
		{DV_WIRE_TEXT, "\"\"", "null", BOTH_NULL},
		{DV_WIRE_TEXT, "null", "null", BOTH_NULL},
		{DV_WIRE_TEXT, "null", "\"\"", BOTH_NULL},
		{DV_WIRE_TEXT, "null", "\"a default\"", UNKNOWN},
		{DV_WIRE_TEXT, "\"a\"", "null", DIFFERENT},
		{DV_WIRE_TEXT, "\"1\"", "1", UNKNOWN},
	};

	(void) state;
	CHECK(samples);
}

static void
numbers(void **state)
{
	static const struct sample samples[] = {
		{DV_WIRE_INTEGER, "1", "1", EQUAL},
		{DV_WIRE_INTEGER, "1", "2", DIFFERENT},
		{DV_WIRE_INTEGER, "null", "0", UNKNOWN},
		{DV_WIRE_CHOICE, "100000001", "100000001", EQUAL},
		{DV_WIRE_BIGINT, "9223372036854775807", "9223372036854775806", DIFFERENT},
		{DV_WIRE_BIGINT, "9223372036854775807", "9223372036854775807", EQUAL},

		{DV_WIRE_DECIMAL, "12.5", "12.5000000000", EQUAL},
		{DV_WIRE_DECIMAL, "-12.5", "12.5", DIFFERENT},
		{DV_WIRE_DECIMAL, "-0.0", "0", EQUAL},
		{DV_WIRE_DECIMAL, "12.504", "12.50", UNKNOWN},
		{DV_WIRE_DECIMAL, "12.505", "12.50", UNKNOWN},
		{DV_WIRE_DECIMAL, "12.505", "12.51", UNKNOWN},
		{DV_WIRE_DECIMAL, "12.506", "12.50", DIFFERENT},
		{DV_WIRE_DECIMAL, "-12.504", "-12.50", UNKNOWN},
		{DV_WIRE_DECIMAL, "0.4", "0", UNKNOWN},
		{DV_WIRE_DECIMAL, "-0.4", "0", UNKNOWN},
		{DV_WIRE_DECIMAL, "-0.6", "0", DIFFERENT},
		{DV_WIRE_DECIMAL, "1.1", "1.2", DIFFERENT},
		{DV_WIRE_DECIMAL, "9.99", "10", UNKNOWN},
		/* doubles do not distinguish these */
		{DV_WIRE_DECIMAL, "922337203685477.5807", "922337203685477.5806", DIFFERENT},
		{DV_WIRE_DECIMAL, "12345678901234567890.12", "12345678901234567890.12", EQUAL},
		{DV_WIRE_DECIMAL, "12345678901234567890.12", "12345678901234567891.12", DIFFERENT},
		{DV_WIRE_DECIMAL, "1e2", "100", EQUAL},
		{DV_WIRE_DECIMAL, "99999999999999999999999999999999999999999.5", "1", DIFFERENT},
		{DV_WIRE_DECIMAL, "9999999999999999999999999999999999999999", "-9999999999999999999999999999999999999999", DIFFERENT},

		{DV_WIRE_DOUBLE, "47.639583", "47.639583", EQUAL},
		{DV_WIRE_DOUBLE, "47.639583", "47.63958", UNKNOWN},
		{DV_WIRE_DOUBLE, "47.639583", "47.63957", DIFFERENT},
		{DV_WIRE_DOUBLE, "0.1", "0.10000000000000001", EQUAL},
		{DV_WIRE_DOUBLE, "1.5e10", "15000000000", EQUAL},
		{DV_WIRE_DOUBLE, "5.1", "5.2", DIFFERENT},

		{DV_WIRE_BOOLEAN, "true", "true", EQUAL},
		{DV_WIRE_BOOLEAN, "true", "false", DIFFERENT},
		{DV_WIRE_BOOLEAN, "null", "false", UNKNOWN},

		{DV_WIRE_CHOICES, "\"1,3\"", "\"3,1\"", EQUAL},
		{DV_WIRE_CHOICES, "\"1,3,1\"", "\"1,3\"", EQUAL},
		{DV_WIRE_CHOICES, "\"1,3\"", "\"1\"", DIFFERENT},
		{DV_WIRE_CHOICES, "\"1\"", "\"1,3\"", DIFFERENT},
		{DV_WIRE_CHOICES, "\"\"", "null", BOTH_NULL},
	};

	(void) state;
	CHECK(samples);
}

static void
times(void **state)
{
	static const struct sample samples[] = {
		{DV_WIRE_MOMENT, "\"2026-01-31T10:00:00Z\"", "\"2026-01-31T10:00:00Z\"", EQUAL},
		{DV_WIRE_MOMENT, "\"2026-01-31T10:00:00.999999Z\"", "\"2026-01-31T10:00:00Z\"", EQUAL},
		{DV_WIRE_MOMENT, "\"1999-12-31T23:59:59.9Z\"", "\"1999-12-31T23:59:59Z\"", EQUAL},
		{DV_WIRE_MOMENT, "\"2026-01-31T10:00:00.9Z\"", "\"2026-01-31T10:00:01Z\"", UNKNOWN},
		{DV_WIRE_MOMENT, "\"2026-01-31T10:00:00Z\"", "\"2026-01-31T10:00:01Z\"", DIFFERENT},
		{DV_WIRE_MOMENT, "\"2026-01-31T10:00:02Z\"", "\"2026-01-31T10:00:01Z\"", DIFFERENT},
		{DV_WIRE_MOMENT, "\"2026-01-31T10:00:00Z\"", "\"2026-01-31T00:00:00Z\"", UNKNOWN},
		{DV_WIRE_MOMENT, "\"2026-01-31T10:00:00Z\"", "\"2026-02-02T00:00:00Z\"", DIFFERENT},
		{DV_WIRE_LOCAL_TIME, "\"2026-01-31T10:00:00Z\"", "\"2026-01-31T11:00:00Z\"", DIFFERENT},
		{DV_WIRE_DATE, "\"2026-01-31\"", "\"2026-01-31\"", EQUAL},
		{DV_WIRE_DATE, "\"2026-01-31\"", "\"2026-01-30\"", DIFFERENT},
		{DV_WIRE_DATE, "\"2026-01-31\"", "\"2026-01-31T00:00:00Z\"", UNKNOWN},
		{DV_WIRE_DATE, "\"2026-01-31\"", "null", DIFFERENT},
	};

	(void) state;
	CHECK(samples);
}

#define ONE "11111111-aaaa-1111-1111-111111111111"
#define TWO "22222222-aaaa-1111-1111-111111111111"

static void
ids(void **state)
{
	static const struct sample samples[] = {
		{DV_WIRE_ID, "\"" ONE "\"", "\"11111111-AAAA-1111-1111-111111111111\"", EQUAL},
		{DV_WIRE_ID, "\"" ONE "\"", "\"" TWO "\"", DIFFERENT},
		{DV_WIRE_REFERENCE, "\"/accounts(" ONE ")\"", "\"" ONE "\"", EQUAL},
		{DV_WIRE_REFERENCE, "\"/accounts(" ONE ")\"", "\"" TWO "\"", DIFFERENT},
		{DV_WIRE_REFERENCE, "\"/accounts(" ONE ")\"", "null", DIFFERENT},
		{DV_WIRE_REFERENCE, "\"/accounts(accountnumber='7')\"", "\"" TWO "\"", UNKNOWN},
		{DV_WIRE_REFERENCE, "\"/accounts(name='xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')\"", "\"" TWO "\"", UNKNOWN},
		{DV_WIRE_REFERENCE, "null", "null", BOTH_NULL},
		{DV_WIRE_REFERENCE, "null", "\"" TWO "\"", UNKNOWN},
		{DV_WIRE_BYTES, "\"AAAA\"", "\"BBBB\"", UNKNOWN},
		{DV_WIRE_OPAQUE, "{}", "null", UNKNOWN},
	};

	(void) state;
	CHECK(samples);
	assert_false(dv_stored_comparable(DV_WIRE_BYTES));
	assert_true(dv_stored_comparable(DV_WIRE_TEXT));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(numbers),
		cmocka_unit_test(times),
		cmocka_unit_test(ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

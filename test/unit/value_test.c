/*
 * value_test.c
 *		Values of the service as PostgreSQL stores them: every type, its limits,
 *		and text that is not a value of the type.
 *
 * Values are read from a page first, as always, so conversions never see
 * invalid JSON.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/page.h"

#define LENGTH(array) ((int) (sizeof(array) / sizeof((array)[0])))

#define SECOND INT64_C(1000000)
#define DAY (86400 * SECOND)

static dv_names *names;
static char *body;

static int
setup(void **state)
{
	static const char *const wanted[] = {"v"};

	(void) state;
	names = dv_names_init(malloc(dv_names_size(wanted, 1)), wanted, 1);
	return names == NULL;
}

static int
teardown(void **state)
{
	(void) state;
	free(names);
	free(body);
	return 0;
}

/* returns the value of this JSON text, which is valid until the next call */
static const dv_value *
value_of(const char *json)
{
	static dv_value value;
	dv_page		page;

	free(body);
	body = malloc(strlen(json) + 32);
	sprintf(body, "{\"value\":[{\"v\":%s}]}", json);
	dv_page_open(&page, names, body, strlen(body));
	if (dv_page_next(&page, &value) != DV_PAGE_ROW || dv_page_drain(&page) != DV_PAGE_END)
		fail_msg("%s: %s", json, page.json.error);
	return &value;
}

/* does the same for the text of a string */
static const dv_value *
string_of(const char *text)
{
	char		json[4096];

	snprintf(json, sizeof(json), "\"%s\"", text);
	return value_of(json);
}

static void
expect_status(const char *what, dv_value_status got, dv_value_status wanted)
{
	if (got != wanted)
		fail_msg("%s: \"%s\" instead of \"%s\"", what, dv_value_reason(got),
				 dv_value_reason(wanted));
}

static void
other_kinds(void **state)
{
	static const char *const all[] = {"null", "true", "false", "1", "\"1\"", "{}", "[]"};
	static const dv_value absent;
	char		text[64];
	uint8_t		bytes[64];
	int64_t		big;
	int32_t		number;
	int32_t		numbers[4];
	double		real;
	size_t		len;
	bool		flag;
	int			n;
	int			i;

	(void) state;
	for (i = -1; i < LENGTH(all); i++)
	{
		const dv_value *v = i < 0 ? &absent : value_of(all[i]);

		assert_int_equal(dv_value_is_null(v), i <= 0);
		assert_int_equal(dv_value_bool(v, &flag) == DV_VALUE_TYPE, i != 1 && i != 2);
		assert_int_equal(dv_value_int32(v, &number) == DV_VALUE_TYPE, i != 3);
		assert_int_equal(dv_value_int64(v, &big) == DV_VALUE_TYPE, i != 3);
		assert_int_equal(dv_value_double(v, &real) == DV_VALUE_TYPE, i != 3);
		assert_int_equal(dv_value_decimal(v, &big, &n) == DV_VALUE_TYPE, i != 3);
		assert_int_equal(dv_value_string(v, text, &len) == DV_VALUE_TYPE, i != 4);
		assert_int_equal(dv_value_uuid(v, bytes) == DV_VALUE_TYPE, i != 4);
		assert_int_equal(dv_value_timestamp(v, &big) == DV_VALUE_TYPE, i != 4);
		assert_int_equal(dv_value_date(v, &number) == DV_VALUE_TYPE, i != 4);
		assert_int_equal(dv_value_choices(v, numbers, 4, &n) == DV_VALUE_TYPE, i != 4);
		assert_int_equal(dv_value_base64(v, bytes, &len) == DV_VALUE_TYPE, i != 4);
		assert_int_equal(dv_value_equals(v, "1"), i == 4);
		assert_int_equal(dv_value_ends_with(v, "1"), i == 4);
	}
}

static void
booleans(void **state)
{
	bool		flag;

	(void) state;
	assert_int_equal(dv_value_bool(value_of("true"), &flag), DV_VALUE_OK);
	assert_true(flag);
	assert_int_equal(dv_value_bool(value_of("false"), &flag), DV_VALUE_OK);
	assert_false(flag);
}

/* Spellings of FetchXML are read like those of rows; no others are accepted. */
static void
respelled(void **state)
{
	static const struct
	{
		const char *json;
		dv_value_form form;
		dv_value_kind kind;
		const char *text;
	}			cases[] = {
		{"\"12.50\"", DV_FORM_NUMBER, DV_VALUE_NUMBER, "12.50"},
		{"\"-0\"", DV_FORM_NUMBER, DV_VALUE_NUMBER, "-0"},
		{"\"1.5E-7\"", DV_FORM_NUMBER, DV_VALUE_NUMBER, "1.5E-7"},
		{"12", DV_FORM_NUMBER, DV_VALUE_NUMBER, "12"},
		{"\"\"", DV_FORM_NUMBER, DV_VALUE_STRING, ""},
		{"\"-\"", DV_FORM_NUMBER, DV_VALUE_STRING, "-"},
		{"\"1.\"", DV_FORM_NUMBER, DV_VALUE_STRING, "1."},
		{"\"01\"", DV_FORM_NUMBER, DV_VALUE_STRING, "01"},
		{"\"1e\"", DV_FORM_NUMBER, DV_VALUE_STRING, "1e"},
		{"\"1,000\"", DV_FORM_NUMBER, DV_VALUE_STRING, "1,000"},
		{"\" 1\"", DV_FORM_NUMBER, DV_VALUE_STRING, " 1"},
		{"true", DV_FORM_NUMBER, DV_VALUE_TRUE, NULL},
		{"null", DV_FORM_NUMBER, DV_VALUE_NULL, NULL},
		{"1", DV_FORM_TRUTH, DV_VALUE_TRUE, NULL},
		{"0", DV_FORM_TRUTH, DV_VALUE_FALSE, NULL},
		{"\"1\"", DV_FORM_TRUTH, DV_VALUE_TRUE, NULL},
		{"2", DV_FORM_TRUTH, DV_VALUE_NUMBER, "2"},
		{"10", DV_FORM_TRUTH, DV_VALUE_NUMBER, "10"},
		{"\"true\"", DV_FORM_TRUTH, DV_VALUE_STRING, "true"},
		{"\"2026-01-02T00:00:00Z\"", DV_FORM_DAY, DV_VALUE_STRING, "2026-01-02"},
		{"\"2026-01-02T00:00:00\"", DV_FORM_DAY, DV_VALUE_STRING, "2026-01-02"},
		{"\"2026-01-02\"", DV_FORM_DAY, DV_VALUE_STRING, "2026-01-02"},
		{"\"2026-01-02T00:00:01Z\"", DV_FORM_DAY, DV_VALUE_STRING, "2026-01-02T00:00:01Z"},
		{"\"2026-01-02T00:00:00+01:00\"", DV_FORM_DAY, DV_VALUE_STRING, "2026-01-02T00:00:00+01:00"},
		{"\"2026-01-02T00:00:00Z\"", DV_FORM_OTHER, DV_VALUE_STRING, "2026-01-02T00:00:00Z"},
		{"\"1\"", DV_FORM_OTHER, DV_VALUE_STRING, "1"}
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		dv_value	value = *value_of(cases[i].json);

		dv_value_respell(&value, cases[i].form);
		if (value.kind != cases[i].kind ||
			(cases[i].text != NULL && (value.len != strlen(cases[i].text) ||
									   memcmp(value.text, cases[i].text, value.len) != 0)))
			fail_msg("%s: kind %d, \"%.*s\"", cases[i].json, value.kind, (int) value.len, value.text);
	}
}

static void
strings(void **state)
{
	static const struct
	{
		const char *text;
		const char *meaning;	/* NULL: cannot be stored */
	}			cases[] = {
		{"", ""},
		{"plain", "plain"},
		{"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
		{"a\\u0041b", "aAb"},
		{"\\u0001\\u007F\\u0080\\u07ff\\u0800\\uFFFF", "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
		{"\\ud7ff\\ue000", "\xed\x9f\xbf\xee\x80\x80"},
		{"\\ud800\\udc00\\uDBFF\\uDFFF", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
		{"x\\ud83d\\ude00y\xf0\x9f\x98\x80", "x\xf0\x9f\x98\x80y\xf0\x9f\x98\x80"},
		{"\\\\u0041", "\\u0041"},
		{"\\u0000", NULL},
		{"a\\u0000b", NULL},
		{"\\ud83d", NULL},
		{"\\ud83dx", NULL},
		{"\\ud83d\\n", NULL},
		{"\\ud83d\\u0041", NULL},
		{"\\ud83d\\ud83d", NULL},
		{"\\ud83d\\ue000", NULL},
		{"\\ude00", NULL},
		{"\\ude00\\ud83d", NULL},
	};
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		const dv_value *value = string_of(cases[i].text);
		char	   *out = malloc(value->len + 1);
		size_t		len = 0;
		dv_value_status status = dv_value_string(value, out, &len);

		expect_status(cases[i].text, status, cases[i].meaning ? DV_VALUE_OK : DV_VALUE_CHARACTER);
		if (cases[i].meaning != NULL)
		{
			assert_int_equal(len, strlen(cases[i].meaning));
			assert_memory_equal(out, cases[i].meaning, len);
		}
		free(out);
	}
}

static void
comparing(void **state)
{
	(void) state;
	assert_true(dv_value_equals(string_of(""), ""));
	assert_true(dv_value_equals(string_of("true"), "true"));
	assert_false(dv_value_equals(string_of("true"), "tru"));
	assert_false(dv_value_equals(string_of("tru"), "true"));
	assert_true(dv_value_equals(string_of("t\\u0072ue"), "true"));
	assert_false(dv_value_equals(string_of("t\\u0072u"), "true"));
	assert_false(dv_value_equals(string_of("t\\u0072uee"), "true"));
	assert_false(dv_value_equals(string_of("\\u0000"), ""));
	assert_true(dv_value_ends_with(string_of("x/$delta"), "/$delta"));
	assert_true(dv_value_ends_with(string_of("/$delta"), "/$delta"));
	assert_false(dv_value_ends_with(string_of("$delta"), "/$delta"));
	assert_false(dv_value_ends_with(string_of("x/$delta/"), "/$delta"));
	assert_true(dv_value_ends_with(string_of("x\\/$d\\u0065lta"), "/$delta"));
	assert_true(dv_value_ends_with(string_of("0123456789012345678901234567890123456789\\/$delta"),
								   "/$delta"));
	assert_false(dv_value_ends_with(string_of("\\\\u002f$delta"), "/$delta"));
	assert_false(dv_value_ends_with(string_of("\\ud800$delta"), "/$delta"));
	assert_false(dv_value_ends_with(string_of("\\n\\n$delta"), "/$delta"));
	assert_false(dv_value_ends_with(string_of("\\u0074\\u0061"), "/$delta"));
}

static void
integers(void **state)
{
	static const struct
	{
		const char *text;
		int64_t		number;
		dv_value_status as64;
		dv_value_status as32;
	}			cases[] = {
		{"0", 0, DV_VALUE_OK, DV_VALUE_OK},
		{"-0", 0, DV_VALUE_OK, DV_VALUE_OK},
		{"-1", -1, DV_VALUE_OK, DV_VALUE_OK},
		{"2147483647", INT32_MAX, DV_VALUE_OK, DV_VALUE_OK},
		{"-2147483648", INT32_MIN, DV_VALUE_OK, DV_VALUE_OK},
		{"2147483648", INT64_C(2147483648), DV_VALUE_OK, DV_VALUE_RANGE},
		{"-2147483649", INT64_C(-2147483649), DV_VALUE_OK, DV_VALUE_RANGE},
		{"9007199254740993", INT64_C(9007199254740993), DV_VALUE_OK, DV_VALUE_RANGE},
		{"9223372036854775807", INT64_MAX, DV_VALUE_OK, DV_VALUE_RANGE},
		{"-9223372036854775808", INT64_MIN, DV_VALUE_OK, DV_VALUE_RANGE},
		{"9223372036854775808", 0, DV_VALUE_RANGE, DV_VALUE_RANGE},
		{"-9223372036854775809", 0, DV_VALUE_RANGE, DV_VALUE_RANGE},
		{"18446744073709551615", 0, DV_VALUE_RANGE, DV_VALUE_RANGE},
		{"18446744073709551616", 0, DV_VALUE_RANGE, DV_VALUE_RANGE},
		{"18446744073709551617", 0, DV_VALUE_RANGE, DV_VALUE_RANGE},
		{"99999999999999999999999999999999", 0, DV_VALUE_RANGE, DV_VALUE_RANGE},
		{"440000.000000000", 440000, DV_VALUE_OK, DV_VALUE_OK},
		{"-7.0", -7, DV_VALUE_OK, DV_VALUE_OK},
		{"7.5", 0, DV_VALUE_SYNTAX, DV_VALUE_SYNTAX},
		{"7.0000000001", 0, DV_VALUE_SYNTAX, DV_VALUE_SYNTAX},
		{"7e0", 0, DV_VALUE_SYNTAX, DV_VALUE_SYNTAX},
		{"7.0e1", 0, DV_VALUE_SYNTAX, DV_VALUE_SYNTAX},
	};
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		const dv_value *value = value_of(cases[i].text);
		int64_t		big = 0;
		int32_t		number = 0;

		expect_status(cases[i].text, dv_value_int64(value, &big), cases[i].as64);
		expect_status(cases[i].text, dv_value_int32(value, &number), cases[i].as32);
		assert_true(big == cases[i].number);
		if (cases[i].as32 == DV_VALUE_OK)
			assert_int_equal(number, cases[i].number);
	}
}

static void
decimals(void **state)
{
	static const struct
	{
		const char *text;
		int64_t		unscaled;
		int			scale;		/* -1: numeric_in() converts it */
	}			cases[] = {
		{"0", 0, 0}, {"0.0000", 0, 4}, {"-0.00", 0, 2}, {"12.5000000000", INT64_C(125000000000), 10},
		{"-20000.0000", -200000000, 4}, {"873637.1700", INT64_C(8736371700), 4}, {"1", 1, 0},
		{"100000000000.000000", INT64_C(100000000000000000), 6},
		{"999999999999999999", INT64_C(999999999999999999), 0},
		{"-0.999999999999999999", INT64_C(-999999999999999999), 18},
		{"0.0000000001", 1, 10}, {"0.000000000000000001", 1, 18}, {"0.0000000000000000001", 0, -1},
		{"1000000000000000000", 0, -1}, {"922337203685477.5807", 0, -1}, {"100000000000.0000000000", 0, -1},
		{"1e2", 0, -1}, {"1.5E-3", 0, -1},
	};
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		int64_t		unscaled = 0;
		int			scale = -1;

		expect_status(cases[i].text, dv_value_decimal(value_of(cases[i].text), &unscaled, &scale),
					  cases[i].scale < 0 ? DV_VALUE_RANGE : DV_VALUE_OK);
		if (cases[i].scale < 0)
			continue;
		assert_true(unscaled == cases[i].unscaled);
		assert_int_equal(scale, cases[i].scale);
	}
}

static void
check_double(const char *text)
{
	double		got = 0;
	double		right = strtod(text, NULL);

	expect_status(text, dv_value_double(value_of(text), &got), DV_VALUE_OK);
	if (memcmp(&got, &right, sizeof(got)) != 0)
		fail_msg("%s: %.17g instead of %.17g", text, got, right);
}

static void
doubles(void **state)
{
	static const char *const good[] = {
		"0", "-0", "0.0", "-0.0", "1", "-1.5", "47.63958", "-122.50000", "0.1", "0.3",
		"100000000000", "-99999999999.99999", "9007199254740992", "9007199254740993",
		"9007199254740991.5", "0.1234567890123456789", "123456789012345678", "1e22", "1e23",
		"1.7976931348623157e308", "2.2250738585072014e-308", "2.2250738585072011e-308", "5e-324",
		"1e-400", "0e999", "0.000000000000000000000001", "3.1415926535897932384626433832795",
		"179769313486231580793728971405301e276", "8.41e+21", "6929495644600919.5", "0.00000000000000000000005",
	};
	char		text[64];
	uint64_t	seed = 42;
	double		number;
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(good); i++)
		check_double(good[i]);
	for (i = 0; i < 20000; i++)
	{
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		snprintf(text, sizeof(text), "%s%llu.%0*llu", seed & 1 ? "-" : "",
				 (unsigned long long) (seed >> 33) % 100000, (int) (seed >> 1 & 15) + 1,
				 (unsigned long long) (seed >> 20) % 10);
		check_double(text);
		snprintf(text, sizeof(text), "%.*e", (int) (seed >> 5 & 15) + 1, ldexp((double) seed, (int) (seed >> 40 & 127) - 64));
		check_double(text);
	}
	expect_status("too large", dv_value_double(value_of("1e309"), &number), DV_VALUE_RANGE);
	expect_status("too small", dv_value_double(value_of("-1e400"), &number), DV_VALUE_RANGE);
}

static void
long_numbers(void **state)
{
	char		text[2048];
	int64_t		big;
	double		number;
	int			scale;

	(void) state;
	/* a thousand characters are accepted, but not more */
	memset(text, '0', sizeof(text));
	text[0] = '1';
	text[1] = '.';
	text[1000] = '\0';
	assert_int_equal(dv_value_double(value_of(text), &number), DV_VALUE_OK);
	assert_true(number == 1);
	assert_int_equal(dv_value_int64(value_of(text), &big), DV_VALUE_OK);
	assert_int_equal(dv_value_decimal(value_of(text), &big, &scale), DV_VALUE_RANGE);
	text[1000] = '0';
	text[1001] = '\0';
	assert_int_equal(dv_value_double(value_of(text), &number), DV_VALUE_RANGE);
}

static void
uuids(void **state)
{
	static const uint8_t right[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
	static const char good[] = "01234567-89ab-cdef-fedc-ba9876543210";
	static const char *const bad[] = {
		"", "01234567-89ab-cdef-fedc-ba987654321", "01234567-89ab-cdef-fedc-ba98765432100",
		"0123456789abcdeffedcba9876543210", "{01234567-89ab-cdef-fedc-ba9876543210}",
		"01234567 89ab-cdef-fedc-ba9876543210", " 1234567-89ab-cdef-fedc-ba9876543210"
	};
	char		text[64];
	uint8_t		uuid[16];
	int			at;
	int			c;
	int			i;

	(void) state;
	assert_int_equal(dv_value_uuid(string_of(good), uuid), DV_VALUE_OK);
	assert_memory_equal(uuid, right, 16);
	assert_int_equal(dv_value_uuid(string_of("01234567-89AB-CDEF-fEdC-Ba9876543210"), uuid), DV_VALUE_OK);
	assert_memory_equal(uuid, right, 16);
	assert_int_equal(dv_value_uuid(string_of("\\u0030123456\\u0037-89ab\\u002dcdef-fedc-ba9876543210"), uuid), DV_VALUE_OK);
	assert_memory_equal(uuid, right, 16);
	for (i = 0; i < LENGTH(bad); i++)
		expect_status(bad[i], dv_value_uuid(string_of(bad[i]), uuid), DV_VALUE_SYNTAX);
	/* every byte at every position */
	for (at = 0; at < 36; at++)
	{
		for (c = 0x20; c < 0x7f; c++)
		{
			bool		hex = strchr("0123456789abcdefABCDEF", c) != NULL;
			bool		dash = at == 8 || at == 13 || at == 18 || at == 23;

			if (c == '"' || c == '\\')
				continue;
			strcpy(text, good);
			text[at] = (char) c;
			expect_status(text, dv_value_uuid(string_of(text), uuid),
						  (dash ? c == '-' : hex) ? DV_VALUE_OK : DV_VALUE_SYNTAX);
		}
	}
	/* 36 bytes, but not 36 characters */
	assert_int_equal(dv_value_uuid(string_of("0123456\xc3\xa9-9ab-cdef-fedc-ba9876543210"), uuid), DV_VALUE_SYNTAX);
	assert_int_equal(dv_value_uuid(string_of("012345\xc3\xa9-89ab-cdef-fedc-ba9876543210"), uuid), DV_VALUE_SYNTAX);
}

static void
timestamps(void **state)
{
	static const struct
	{
		const char *text;
		int64_t		time;
	}			good[] = {
		{"2000-01-01T00:00:00Z", 0},
		{"2000-01-01T00:00Z", 0},
		{"1999-12-31T23:59:59Z", -SECOND},
		{"1970-01-01T00:00:00Z", -10957 * DAY},
		{"2023-04-07T21:59:01Z", INT64_C(734219941) * SECOND},
		{"2023-04-07T21:59:01.0000000Z", INT64_C(734219941) * SECOND},
		{"2023-04-07T21:59:01.5Z", INT64_C(734219941) * SECOND + 500000},
		{"2023-04-07T21:59:01.000001Z", INT64_C(734219941) * SECOND + 1},
		{"2023-04-07T21:59:01.0000014Z", INT64_C(734219941) * SECOND + 1},
		{"2023-04-07T21:59:01.0000015Z", INT64_C(734219941) * SECOND + 2},
		{"2023-04-07T21:59:01.9999999Z", INT64_C(734219942) * SECOND},
		{"2023-04-07T23:59:01+02:00", INT64_C(734219941) * SECOND},
		{"2023-04-07T23:59:01\\u002b02:00", INT64_C(734219941) * SECOND},
		{"2023-04-07T13:59:01-08:00", INT64_C(734219941) * SECOND},
		{"2023-04-07T21:59:01-00:00", INT64_C(734219941) * SECOND},
		{"2023-04-08T11:58:01+13:59", INT64_C(734219941) * SECOND},
		{"2000-02-29T00:00:00Z", 59 * DAY},
		{"2004-02-29T00:00:00Z", (4 * 365 + 1 + 59) * DAY},
		{"1753-01-01T00:00:00Z", -90214 * DAY},
		{"9999-12-31T23:59:59Z", INT64_C(2921940) * DAY - SECOND},
		{"9999-12-31T23:59:59.9999999Z", INT64_C(2921940) * DAY},
		{"0001-01-01T00:00:00Z", -730119 * DAY},
	};
	static const char *const bad[] = {
		"", "Z", "2023", "2023-04-07", "2023-04-07T", "2023-04-07T21", "2023-04-07T21:59",
		"2023-04-07T21:59:01", "2023-04-07T21:59:01.Z", "2023-04-07T21:59:01.5", "2023-04-07T21:59:",
		"2023-04-07T21:59:Z", "2023-04-07T21Z", "2023-04-07 21:59:01Z", "2023-04-07t21:59:01z",
		"2023-04-07T21:59:01ZZ", "2023-04-07T21:59:01Z ", " 2023-04-07T21:59:01Z",
		"2023-04-07T21:59:01+02", "2023-04-07T21:59:01+0200", "2023-04-07T21:59:01+02:0",
		"2023-04-07T21:59:01+02:000", "2023-04-07T21:59:01+15:00", "2023-04-07T21:59:01+02:60",
		"2023-04-07T21:59:01-", "2023-04-07T21:59:01+02:00Z", "2023-04-07T24:00:00Z",
		"2023-04-07T21:60:00Z", "2023-04-07T21:59:60Z", "2023-00-07T00:00:00Z", "2023-13-07T00:00:00Z",
		"2023-04-00T00:00:00Z", "2023-04-31T00:00:00Z", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
		"2100-02-29T00:00:00Z", "0000-01-01T00:00:00Z", "-001-01-01T00:00:00Z", "10000-01-01T00:00:00Z",
		"202x-04-07T21:59:01Z", "x023-04-07T21:59:01Z", "2023-0x-07T21:59:01Z", "2023-04-x7T21:59:01Z",
		"2023-04-07Tx1:59:01Z", "2023-04-07T21:5x:01Z", "2023-04-07T21:59:0xZ", "2023/04/07T21:59:01Z",
		"2023-04-07T21:59:01\\u0000Z", "/Date(1680904741000)/", "infinity", "now", "2023-04-07T21:59:01.1-08:00:00", "20230407T215901Z",
		"2023-04-07T21-59-01Z", "\\n", "2023-04-07T21:59:01,5Z", "2023-04-07T+1:59:01Z",
	};
	int64_t		time;
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(good); i++)
	{
		expect_status(good[i].text, dv_value_timestamp(string_of(good[i].text), &time), DV_VALUE_OK);
		if (time != good[i].time)
			fail_msg("%s: %lld", good[i].text, (long long) time);
	}
	for (i = 0; i < LENGTH(bad); i++)
		expect_status(bad[i], dv_value_timestamp(string_of(bad[i]), &time), DV_VALUE_SYNTAX);
}

/* every day of the calendar */
static void
dates(void **state)
{
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	static const char *const bad[] = {
		"", "2023-04-07T00:00:00Z", "2023-04-7", "2023-4-07", "2023-04-07 ", "2023-04-077", "2023-02-30",
		"23-04-07", "2023-04", "07.04.2023",
	};
	char		text[48];
	int32_t		days = 0;
	int32_t		counted = -730119;
	int			year;
	int			month;
	int			day;
	int			i;

	(void) state;
	for (year = 1; year <= 9999; year++)
	{
		bool		leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

		/* skip years in which nothing happens */
		if (year > 5 && year < 1580)
		{
			counted += 365 + leap;
			continue;
		}
		for (month = 1; month <= 12; month++)
		{
			int			length = lengths[month - 1] + (month == 2 && leap);

			for (day = 1; day <= length + 1; day += year % 50 == 0 ? 1 : length - 1)
			{
				snprintf(text, sizeof(text), "%04d-%02d-%02d", year, month, day);
				if (dv_value_date(string_of(text), &days) != (day <= length ? DV_VALUE_OK : DV_VALUE_SYNTAX) ||
					(day <= length && days != counted + day - 1))
					fail_msg("%s: %d", text, days);
			}
			counted += length;
		}
	}
	for (i = 0; i < LENGTH(bad); i++)
		expect_status(bad[i], dv_value_date(string_of(bad[i]), &days), DV_VALUE_SYNTAX);
}

static void
choices(void **state)
{
	static const struct
	{
		const char *text;
		dv_value_status status;
		int			n;
		int32_t		numbers[4];
	}			cases[] = {
		{"", DV_VALUE_OK, 0, {0}},
		{"1", DV_VALUE_OK, 1, {1}},
		{"1,9", DV_VALUE_OK, 2, {1, 9}},
		{"1, 9,  100000000", DV_VALUE_OK, 3, {1, 9, 100000000}},
		{"-1,-2147483648,2147483647,0", DV_VALUE_OK, 4, {-1, INT32_MIN, INT32_MAX, 0}},
		{"1\\u002c2", DV_VALUE_OK, 2, {1, 2}},
		{"1,2,3,4,5", DV_VALUE_RANGE, 4, {1, 2, 3, 4}},
		{"2147483648", DV_VALUE_RANGE, 0, {0}},
		{"-2147483649", DV_VALUE_RANGE, 0, {0}},
		{"99999999999999999999999", DV_VALUE_RANGE, 0, {0}},
		{",", DV_VALUE_SYNTAX, 0, {0}},
		{"1,", DV_VALUE_SYNTAX, 1, {1}},
		{",1", DV_VALUE_SYNTAX, 0, {0}},
		{"1,,2", DV_VALUE_SYNTAX, 1, {1}},
		{"1 ,2", DV_VALUE_SYNTAX, 1, {1}},
		{"1;2", DV_VALUE_SYNTAX, 1, {1}},
		{"1,a", DV_VALUE_SYNTAX, 1, {1}},
		{"-", DV_VALUE_SYNTAX, 0, {0}},
		{"1.5", DV_VALUE_SYNTAX, 1, {1}},
		{" 1", DV_VALUE_SYNTAX, 0, {0}},
	};
	char		text[2048] = "";
	int32_t		numbers[150];
	int			n;
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		expect_status(cases[i].text, dv_value_choices(string_of(cases[i].text), numbers, 4, &n),
					  cases[i].status);
		assert_int_equal(n, cases[i].n);
		assert_memory_equal(numbers, cases[i].numbers, sizeof(int32_t) * (size_t) n);
	}
	/* as many choices as a column can have */
	for (i = 0; i < 150; i++)
		sprintf(text + strlen(text), "%s%d", i > 0 ? "," : "", 100000000 + i);
	assert_int_equal(dv_value_choices(string_of(text), numbers, 150, &n), DV_VALUE_OK);
	assert_int_equal(n, 150);
	assert_int_equal(numbers[149], 100000149);
}

static void
bytes(void **state)
{
	static const struct
	{
		const char *text;
		int			len;		/* -1: refused */
		const char *bytes;
	}			cases[] = {
		{"", 0, ""}, {"AA==", 1, "\0"}, {"AAA=", 2, "\0\0"}, {"AAAA", 3, "\0\0\0"}, {"AA", 1, "\0"},
		{"AAA", 2, "\0\0"}, {"Zm9v", 3, "foo"}, {"Zm9vYg==", 4, "foob"}, {"Zm9vYmE=", 5, "fooba"},
		{"Zm9vYmFy", 6, "foobar"}, {"+/+/", 3, "\xfb\xff\xbf"}, {"-_-_", 3, "\xfb\xff\xbf"},
		{"\\u002B\\/+/", 3, "\xfb\xff\xbf"}, {"\\u005am9vYg==", 4, "foob"}, {"/w==", 1, "\xff"},
		{"/x==", -1, NULL}, {"/I==", -1, NULL}, {"//+=", -1, NULL}, {"//9=", -1, NULL}, {"A", -1, NULL}, {"AAAAA", -1, NULL}, {"=", -1, NULL},
		{"====", -1, NULL}, {"A===", -1, NULL}, {"AA=A", -1, NULL}, {"AA=", -1, NULL}, {"AAAA=", -1, NULL},
		{"AAAA====", -1, NULL}, {"AA AA", -1, NULL}, {"AAAA\\nAAAA", -1, NULL}, {"AA*A", -1, NULL},
		{"AA==AAAA", -1, NULL}, {"\xc3\xa9\xc3\xa9", -1, NULL}, {"AA\\u0000A", -1, NULL},
	};
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		const dv_value *value = string_of(cases[i].text);
		uint8_t    *out = malloc(value->len + 1);
		size_t		len = 0;

		expect_status(cases[i].text, dv_value_base64(value, out, &len),
					  cases[i].len < 0 ? DV_VALUE_SYNTAX : DV_VALUE_OK);
		if (cases[i].len >= 0)
		{
			assert_int_equal(len, cases[i].len);
			assert_memory_equal(out, cases[i].bytes, len);
		}
		free(out);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_kinds),
		cmocka_unit_test(booleans),
		cmocka_unit_test(respelled),
		cmocka_unit_test(strings),
		cmocka_unit_test(comparing),
		cmocka_unit_test(integers),
		cmocka_unit_test(decimals),
		cmocka_unit_test(doubles),
		cmocka_unit_test(long_numbers),
		cmocka_unit_test(uuids),
		cmocka_unit_test(timestamps),
		cmocka_unit_test(dates),
		cmocka_unit_test(choices),
		cmocka_unit_test(bytes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

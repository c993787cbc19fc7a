/*
 * json_cursor_test.c
 *		Reading JSON text from front to back: slices of values, and text that is
 *		not JSON.
 *
 * page_test.c and page_garble_test.c read whole pages, and compare with json-c.
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

#define LENGTH(array) ((int) (sizeof(array) / sizeof((array)[0])))

/* allocated so that it ends with its NUL, for the sanitizer */
static char *text;
static dv_cursor cursor;

static void
open_bytes(const char *bytes, size_t len)
{
	free(text);
	text = malloc(len + 1);
	memcpy(text, bytes, len);
	text[len] = '\0';
	dv_cursor_open(&cursor, text, len);
}

static int
forget(void **state)
{
	(void) state;
	free(text);
	text = NULL;
	return 0;
}

static void
expect_slice(const char *json, dv_value_kind kind, const char *slice, bool escaped)
{
	dv_value	value;

	open_bytes(json, strlen(json));
	if (!dv_cursor_value(&cursor, &value))
		fail_msg("%s at %zu of %s", cursor.error, cursor.error_at, json);
	assert_int_equal(value.kind, kind);
	assert_int_equal(value.len, strlen(slice));
	assert_memory_equal(value.text, slice, value.len);
	assert_int_equal(value.escaped, escaped);
	assert_true(dv_cursor_ended(&cursor));
}

static void
values_are_slices(void **state)
{
	static const char *const numbers[] = {
		"0", "-0", "7", "-12", "1234567890123456789012345", "0.5", "-1.50", "1e5", "0E+10", "2.5e-3"
	};
	static const char *const nested[] = {
		"{}", "{ }", "{\"a\":1}", "{\"a\":{\"b\":[1,{},\"}\"]},\n\"c\" : null }"
	};
	static const char *const lists[] = {"[]", "[ ]", "[1]", "[[[]],[{}], \"]\",true ]"};
	int			i;

	(void) state;
	expect_slice("null", DV_VALUE_NULL, "null", false);
	expect_slice("true", DV_VALUE_TRUE, "true", false);
	expect_slice("false ", DV_VALUE_FALSE, "false", false);
	expect_slice("\"\"", DV_VALUE_STRING, "", false);
	expect_slice("\"exactly8\"", DV_VALUE_STRING, "exactly8", false);
	expect_slice("\"more than eight\"\n", DV_VALUE_STRING, "more than eight", false);
	expect_slice("\"a\\\"b\"", DV_VALUE_STRING, "a\\\"b", true);
	expect_slice("\"\\\\\"", DV_VALUE_STRING, "\\\\", true);
	expect_slice("\"\\u00e9\\ud83d\"", DV_VALUE_STRING, "\\u00e9\\ud83d", true);
	expect_slice("\"L\xc3\xb3pez \xf0\x9f\x98\x80\x7f\"", DV_VALUE_STRING,
				 "L\xc3\xb3pez \xf0\x9f\x98\x80\x7f", false);
	for (i = 0; i < LENGTH(numbers); i++)
		expect_slice(numbers[i], DV_VALUE_NUMBER, numbers[i], false);
	for (i = 0; i < LENGTH(nested); i++)
		expect_slice(nested[i], DV_VALUE_OBJECT, nested[i], false);
	for (i = 0; i < LENGTH(lists); i++)
		expect_slice(lists[i], DV_VALUE_ARRAY, lists[i], false);
}

static void
what_is_no_value(void **state)
{
	static const struct
	{
		const char *json;
		const char *error;
		size_t		at;
	}			bad[] = {
		{"", "unexpected end of the text", 0},
		{"x", "value expected", 0},
		{"nul", "value expected", 0},
		{"True", "value expected", 0},
		{"+1", "value expected", 0},
		{"-", "unexpected end of the text", 1},
		{"-x", "digit expected", 1},
		{"1.x", "digit expected", 2},
		{"1ex", "digit expected", 2},
		{"1e+", "unexpected end of the text", 3},
		{"\"abc", "unexpected end of the text", 4},
		{"\"a\nb\"", "control character in a string", 2},
		{"\"\\x\"", "invalid escape sequence", 2},
		{"\"\\u12g4\"", "hexadecimal digit expected", 5},
		{"\"\\u12", "unexpected end of the text", 5},
		{"\"\x80\"", "invalid UTF-8", 1},
		{"\"\xc0\x80\"", "invalid UTF-8", 1},
		{"\"\xed\xa0\x80\"", "invalid UTF-8", 2},
		{"\"\xf4\x90\x80\x80\"", "invalid UTF-8", 2},
		{"\"\xe2\x82\"", "invalid UTF-8", 3},
		{"[1", "unexpected end of the text", 2},
		{"[1 2]", "\",\" or \"]\" expected", 3},
		{"[1,]", "value expected", 3},
		{"[,]", "value expected", 1},
		{"[1}", "\",\" or \"]\" expected", 2},
		{"{\"a\"}", "\":\" expected", 4},
		{"{\"a\":}", "value expected", 5},
		{"{\"a\":1,}", "member name expected", 7},
		{"{\"a\":1]", "\",\" or \"}\" expected", 6},
		{"{1:2}", "member name expected", 1},
	};
	dv_value	value;
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(bad); i++)
	{
		open_bytes(bad[i].json, strlen(bad[i].json));
		if (dv_cursor_value(&cursor, &value))
			fail_msg("taken: %s", bad[i].json);
		if (strcmp(cursor.error, bad[i].error) != 0 || cursor.error_at != bad[i].at)
			fail_msg("%s at %zu of %s", cursor.error, cursor.error_at, bad[i].json);
	}
}

static void
what_stands_behind(void **state)
{
	dv_value	value;

	(void) state;
	open_bytes("01", 2);
	assert_true(dv_cursor_value(&cursor, &value));
	assert_false(dv_cursor_ended(&cursor));
	assert_string_equal(cursor.error, "text after the end");
	/* a NUL does not end the text */
	open_bytes("1\0", 2);
	assert_true(dv_cursor_value(&cursor, &value));
	assert_false(dv_cursor_ended(&cursor));
	assert_int_equal(cursor.error_at, 1);
	dv_cursor_open(&cursor, "1", (size_t) INT32_MAX + 1);
	assert_false(dv_cursor_value(&cursor, &value));
	assert_string_equal(cursor.error, "the text is too long");
}

static void
depth_has_a_limit(void **state)
{
	char		nest[2 * (DV_CURSOR_MAX_DEPTH + 1)];
	dv_value	value;
	int			n;

	(void) state;
	for (n = DV_CURSOR_MAX_DEPTH; n <= DV_CURSOR_MAX_DEPTH + 1; n++)
	{
		memset(nest, '[', (size_t) n);
		memset(nest + n, ']', (size_t) n);
		open_bytes(nest, 2 * (size_t) n);
		assert_int_equal(dv_cursor_value(&cursor, &value), n == DV_CURSOR_MAX_DEPTH);
	}
	assert_string_equal(cursor.error, "nested too deeply");
	assert_int_equal(cursor.error_at, DV_CURSOR_MAX_DEPTH);
}

#define STEPS " { \"a\" : [ 1 , [] , {\"x\":2} ] , \"b\":\"c\" , \"empty\" : [ ] , \"last\":{}} "

/* Counts the items of "a" and "empty"; returns the number of members, or -1 if it is malformed. */
static int
walk_steps(int *items)
{
	dv_value	name;
	dv_value	value;
	int			members = 0;

	*items = 0;
	if (!dv_cursor_enter(&cursor, '{'))
		return -1;
	for (; dv_cursor_next(&cursor, '}') && dv_cursor_name(&cursor, &name); members++)
	{
		if (!dv_value_equals(&name, "a") && !dv_value_equals(&name, "empty"))
			dv_cursor_value(&cursor, &value);
		else if (dv_cursor_enter(&cursor, '['))
			while (dv_cursor_next(&cursor, ']') && dv_cursor_value(&cursor, &value))
				++* items;
	}
	return dv_cursor_ended(&cursor) ? members : -1;
}

static void
step_by_step(void **state)
{
	static const char *const bad[] = {
		"[]", "{\"a\":{}}", "{\"a\":[1 2]}", "{\"a\":[1,]}", "{\"a\":[,1]}", "{\"a\":[1]]}", "{,}",
		"{\"b\":1 \"c\":2}", "{\"b\":1,}", "{\"b\"}", "{\"a\":[}", "{}}", "{} x"
	};
	int			items;
	size_t		len;
	int			i;

	(void) state;
	open_bytes(STEPS, strlen(STEPS));
	assert_int_equal(walk_steps(&items), 4);
	assert_int_equal(items, 3);
	for (i = 0; i < LENGTH(bad); i++)
	{
		open_bytes(bad[i], strlen(bad[i]));
		if (walk_steps(&items) >= 0)
			fail_msg("taken: %s", bad[i]);
		assert_non_null(cursor.error);
	}
	/* only the complete text is accepted */
	for (len = 0; len < strlen(STEPS) - 1; len++)
	{
		open_bytes(STEPS, len);
		assert_int_equal(walk_steps(&items), -1);
		assert_string_equal(cursor.error, "unexpected end of the text");
	}
}

static void
stays_at_the_first_error(void **state)
{
	dv_value	value;

	(void) state;
	open_bytes("[x]", 3);
	assert_true(dv_cursor_enter(&cursor, '['));
	assert_true(dv_cursor_next(&cursor, ']'));
	assert_false(dv_cursor_value(&cursor, &value));
	assert_int_equal(cursor.error_at, 1);
	assert_false(dv_cursor_name(&cursor, &value));
	assert_false(dv_cursor_enter(&cursor, '{'));
	assert_false(dv_cursor_next(&cursor, ']'));
	assert_false(dv_cursor_value(&cursor, &value));
	assert_false(dv_cursor_ended(&cursor));
	assert_string_equal(cursor.error, "value expected");
	assert_int_equal(cursor.error_at, 1);
}

/* The first special byte is marked, wherever it is and whatever stands behind it. */
static void
special_bytes(void **state)
{
	char		bytes[16];
	int			at;
	int			b;
	int			rest;

	(void) state;
	for (b = 0; b < 256; b++)
	{
		bool		special = b < 0x20 || b >= 0x80 || b == '"' || b == '\\';

		for (at = 0; at < 16; at++)
			for (rest = 0; rest < 256; rest++)
			{
				memset(bytes, 'a', at);
				memset(bytes + at, special ? rest : 'a', sizeof(bytes) - at);
				bytes[at] = (char) b;
#ifdef __SSE2__
				assert_int_equal(dv_cursor_special_in_16(bytes) & ((UINT64_C(2) << at) - 1),
								 special ? UINT64_C(1) << at : 0);
#endif
				if (at < 8 && special)
					assert_int_equal(__builtin_ctzll(dv_cursor_special_in_8(bytes)) / 8, at);
				else
					assert_int_equal(dv_cursor_special_in_8(bytes), 0);
			}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(values_are_slices, forget),
		cmocka_unit_test_teardown(what_is_no_value, forget),
		cmocka_unit_test_teardown(what_stands_behind, forget),
		cmocka_unit_test_teardown(depth_has_a_limit, forget),
		cmocka_unit_test_teardown(step_by_step, forget),
		cmocka_unit_test_teardown(stays_at_the_first_error, forget),
		cmocka_unit_test(special_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

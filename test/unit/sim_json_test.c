/*
 * sim_json_test.c
 *		The reader for bodies of writes: texts that it accepts, and texts
 *		that it refuses.
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
#include <json-c/json.h>

#include "wire/json.h"

static struct sim_arena *arena;
static const char *error;

static int
begin(void **state)
{
	(void) state;
	arena = sim_arena_new();
	return 0;
}

static int
end(void **state)
{
	(void) state;
	sim_arena_free(arena);
	return 0;
}

/* the allocation has as many bytes as the text, so that reads beyond it are detected */
static struct sim_json *
parse_bytes(const char *text, size_t len)
{
	char	   *copy = malloc(len > 0 ? len : 1);
	char	   *in_place;
	struct sim_json *json;

	memcpy(copy, text, len);
	json = sim_json_parse(arena, copy, len, &error);
	in_place = sim_strndup(arena, copy, len);
	if (json != NULL && json->s != NULL)
		json->s = in_place + (json->s - copy);
	free(copy);
	return json;
}

static struct sim_json *
parse(const char *text)
{
	char	   *copy = sim_strdup(arena, text);

	return sim_json_parse(arena, copy, strlen(copy), &error);
}

static void
refused(const char *text)
{
	error = NULL;
	if (parse_bytes(text, strlen(text)) != NULL)
		fail_msg("taken: %s", text);
	assert_non_null(error);
}

static void
string_is(const char *text, const char *expected, size_t len)
{
	struct sim_json *json = parse_bytes(text, strlen(text));

	if (json == NULL)
		fail_msg("%s: %s", text, error);
	assert_int_equal(json->type, SIM_JSON_STRING);
	assert_int_equal(json->len, len);
	assert_memory_equal(json->s, expected, len);
}

static void
test_scalars(void **state)
{
	(void) state;
	assert_int_equal(parse("null")->type, SIM_JSON_NULL);
	assert_int_equal(parse(" true ")->type, SIM_JSON_TRUE);
	assert_int_equal(parse("\r\n\tfalse")->type, SIM_JSON_FALSE);
	assert_int_equal(parse("\xef\xbb\xbf{}")->type, SIM_JSON_OBJECT);
}

static void
test_numbers(void **state)
{
	static const char *const good[] = {"0", "-0", "12", "-1.50", "1e5", "1E+5", "0.1e-7",
	"9007199254740993", "12345678901234567890.123456789012345678901"};
	static const char *const bad[] = {"01", "-", "1.", ".5", "+1", "1e", "1e+", "0x1", "1.e5",
	"--1", "NaN", "Infinity", "1 2"};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
	{
		struct sim_json *json = parse_bytes(good[i], strlen(good[i]));

		assert_non_null(json);
		assert_int_equal(json->type, SIM_JSON_NUMBER);
		assert_int_equal(json->len, strlen(good[i]));
		assert_memory_equal(json->s, good[i], json->len);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(bad[i]);
}

static void
test_strings(void **state)
{
	(void) state;
	string_is("\"\"", "", 0);
	string_is("\"plain text of more than eight bytes\"", "plain text of more than eight bytes", 35);
	string_is("\"a\\\"b\\\\c\\/d\"", "a\"b\\c/d", 7);
	string_is("\"\\b\\f\\n\\r\\t\"", "\b\f\n\r\t", 5);
	string_is("\"x\\u00e9y\\u20ACz\"", "x\xc3\xa9y\xe2\x82\xacz", 8);
	string_is("\"\\ud83d\\ude00 after\"", "\xf0\x9f\x98\x80 after", 10);
	string_is("\"\\u0000\"", "\0", 1);
	string_is("\"raw \xc3\xa9 \xf0\x9f\x98\x80\"", "raw \xc3\xa9 \xf0\x9f\x98\x80", 11);
}

static void
test_bad_strings(void **state)
{
	static const char *const bad[] = {"\"", "\"abc", "\"abcdefgh\\", "\"\\", "\"\\x\"", "\"\\u12\"",
		"\"\\u12g4\"", "\"\\ud83d\"", "\"\\ud83d\\u0041\"", "\"\\ude00\"", "\"\\ud83d\\n\"",
	"\"line\nbreak\"", "\"tab\there\"", "\"eight by\x01te\"", "'single'"};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(bad[i]);
}

/* a quote, an escape, or a control character at each position of a word of eight */
static void
test_every_offset(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < 24; i++)
	{
		char		text[64];

		memset(text, 'x', sizeof(text));
		text[0] = text[i + 1] = '"';

		assert_int_equal(parse_bytes(text, i + 2)->len, i);
		text[i + 1] = '\\';
		text[i + 2] = 'n';
		text[i + 3] = '"';

		assert_int_equal(parse_bytes(text, i + 4)->len, i + 1);
		text[i + 1] = 0x1f;

		assert_null(parse_bytes(text, i + 4));
	}
}

static void
test_structure(void **state)
{
	struct sim_json *json = parse("{\"a\":[1,{\"b\":null},[]],\"c\":{},\"a\":2}");
	struct sim_json *a;

	(void) state;
	assert_int_equal(json->type, SIM_JSON_OBJECT);
	assert_int_equal(json->n, 3);
	a = sim_json_member(json, "a");
	assert_int_equal(a->type, SIM_JSON_ARRAY);	/* the first of two */
	assert_int_equal(a->n, 3);
	assert_int_equal(a->child->type, SIM_JSON_NUMBER);
	assert_int_equal(sim_json_member(a->child->next, "b")->type, SIM_JSON_NULL);
	assert_int_equal(a->child->next->next->n, 0);
	assert_int_equal(sim_json_member(json, "c")->n, 0);
	assert_null(sim_json_member(json, "b"));
	assert_null(sim_json_member(a, "b"));
	assert_null(sim_json_member(NULL, "b"));
}

static void
test_bad_structure(void **state)
{
	static const char *const bad[] = {"", " ", "{", "}", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]",
		"{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\":1 \"b\":2}", "{\"a\" 1}", "{,}",
	"[1]]", "{}x", "nul", "truE", "{\"a\":1", "[\"a\"", "{1:2}"};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(bad[i]);
	assert_non_null(strstr(error, "position"));
}

static void
test_depth(void **state)
{
	char		text[300];

	(void) state;
	memset(text, '[', 64);
	memset(text + 64, ']', 64);
	text[128] = '\0';

	assert_non_null(parse(text));
	memset(text, '[', 65);
	memset(text + 65, ']', 65);
	text[130] = '\0';

	refused(text);
}

/* more nodes than one block holds */
static void
test_many_nodes(void **state)
{
	struct sim_buf buf = {0};
	struct sim_json *json;
	struct sim_json *item;
	int			i;

	(void) state;
	sim_puts(&buf, "[0");
	for (i = 1; i < 5000; i++)
		sim_putf(&buf, ",%d", i);
	sim_putc(&buf, ']');
	json = sim_json_parse(arena, buf.s, buf.len, &error);
	assert_int_equal(json->n, 5000);
	for (i = 0, item = json->child; item != NULL; item = item->next, i++)
		assert_int_equal(strtol(item->s, NULL, 10), i);
	assert_int_equal(i, 5000);
	sim_buf_free(&buf);
}

/* the same with every json-c: non-ASCII text is accepted, but only strict JSON */
static void
test_documents(void **state)
{
	static const char *const bad[] = {
		"", "null", "{", "[1,]", "[1] x", "['a']", "{a: 1}", "/* a */ []", "[01]", "[NaN]", "[TRUE]",
		"[\"a\nb\"]", "{\"a\tb\": 1}", "[\"\xff\"]", "[\"\xc3\"]",
	};
	const char *good = "{\"größe\": [\"ÿ€𝄞\", 1.50]} ";
	struct json_object *document;
	size_t		i;

	(void) state;
	document = sim_json_document(arena, good, strlen(good), &error);
	assert_non_null(document);
	assert_null(error);
	assert_string_equal(json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN),
						"{\"größe\":[\"ÿ€𝄞\",1.50]}");
	json_object_put(document);
	document = sim_json_document(arena, "17", 2, &error);
	assert_int_equal(json_object_get_int(document), 17);
	json_object_put(document);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		if (sim_json_document(arena, bad[i], strlen(bad[i]), &error) != NULL)
			fail_msg("taken: %s", bad[i]);
		assert_non_null(error);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_scalars, begin, end),
		cmocka_unit_test_setup_teardown(test_numbers, begin, end),
		cmocka_unit_test_setup_teardown(test_strings, begin, end),
		cmocka_unit_test_setup_teardown(test_bad_strings, begin, end),
		cmocka_unit_test_setup_teardown(test_every_offset, begin, end),
		cmocka_unit_test_setup_teardown(test_structure, begin, end),
		cmocka_unit_test_setup_teardown(test_bad_structure, begin, end),
		cmocka_unit_test_setup_teardown(test_depth, begin, end),
		cmocka_unit_test_setup_teardown(test_many_nodes, begin, end),
		cmocka_unit_test_setup_teardown(test_documents, begin, end),
	};

	return cmocka_run_group_tests_name("sim_json", tests, NULL, NULL);
}

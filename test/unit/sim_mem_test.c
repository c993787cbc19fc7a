/*
 * sim_mem_test.c
 *		Arenas, growing byte strings, and the escapes of JSON, XML, and URLs.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/mem.h"

static void
arena_gives_zeroed_aligned_memory(void **state)
{
	struct sim_arena *arena;
	int			round;
	int			i;

	(void) state;
	for (round = 0; round < 3; round++)
	{
		arena = sim_arena_new();
		for (i = 0; i < 2000; i++)
		{
			size_t		size = (size_t) (i * 37) % 300 + (i % 500 == 0 ? 70000 : 0);
			unsigned char *p = sim_alloc(arena, size);
			size_t		j;

			assert_int_equal((uintptr_t) p % 16, 0);
			for (j = 0; j < size; j++)
				assert_int_equal(p[j], 0);
			memset(p, 0xaa, size);
		}
		assert_non_null(sim_alloc(arena, 65536));
		sim_arena_free(arena);
	}
	sim_arena_free(NULL);
}

static void
arena_formats_text_of_any_length(void **state)
{
	struct sim_arena *arena = sim_arena_new();
	char		expected[1001];

	(void) state;
	memset(expected, '0', 1000);
	expected[1000] = '\0';
	assert_string_equal(sim_fmt(arena, "%s-%d", "a", 5), "a-5");
	assert_string_equal(sim_fmt(arena, "%01000d", 0), expected);
	assert_string_equal(sim_strndup(arena, "abc", 2), "ab");
	assert_string_equal(sim_strndup(arena, NULL, 0), "");
	sim_arena_free(arena);
}

static void
buffers_grow(void **state)
{
	struct sim_buf buf = {0};
	size_t		i;

	(void) state;
	sim_put(&buf, NULL, 0);
	assert_string_equal(buf.s, "");
	for (i = 0; i < 5000; i++)
		sim_putc(&buf, 'x');
	sim_putf(&buf, "%0300d", 7);
	assert_int_equal(buf.len, 5300);
	assert_int_equal(strlen(buf.s), buf.len);
	sim_buf_free(&buf);
	assert_null(buf.s);

	sim_put_i64(&buf, 0);
	sim_putc(&buf, ' ');
	sim_put_i64(&buf, INT64_MIN);
	sim_putc(&buf, ' ');
	sim_put_i64(&buf, INT64_MAX);
	assert_string_equal(buf.s, "0 -9223372036854775808 9223372036854775807");
	sim_buf_free(&buf);
}

/* every case at every offset, because words of eight bytes are examined at once */
static void
json_is_escaped(void **state)
{
	static const char *const cases[][2] = {
		{"", ""}, {"plain", "plain"}, {"a\"b", "a\\\"b"}, {"a\\b", "a\\\\b"},
		{"\b\f\n\r\t", "\\b\\f\\n\\r\\t"}, {"\x01\x1f", "\\u0001\\u001f"}, {"\x7f/", "\x7f/"},
		{"Köln 漢 \xf0\x9f\x98\x80", "Köln 漢 \xf0\x9f\x98\x80"}, {"\xff", "\xef\xbf\xbd"},
		{"\xc3", "\xef\xbf\xbd"}, {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xc3(", "\xef\xbf\xbd("}, {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	};
	size_t		i;
	size_t		offset;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		for (offset = 0; offset < 17; offset++)
		{
			struct sim_buf in = {0};
			struct sim_buf expected = {0};
			struct sim_buf out = {0};

			sim_putf(&in, "%.*s%s", (int) offset, "0123456789abcdefgh", cases[i][0]);
			sim_putf(&expected, "\"%.*s%s\"", (int) offset, "0123456789abcdefgh", cases[i][1]);
			sim_put_json(&out, in.s, in.len);
			assert_string_equal(out.s, expected.s);
			sim_buf_free(&in);
			sim_buf_free(&expected);
			sim_buf_free(&out);
		}
	}
}

static void
json_keeps_nul(void **state)
{
	struct sim_buf out = {0};

	(void) state;
	sim_put_json(&out, "a\0b", 3);
	assert_string_equal(out.s, "\"a\\u0000b\"");
	sim_buf_free(&out);
}

static void
xml_and_urls_are_escaped(void **state)
{
	struct sim_buf out = {0};

	(void) state;
	sim_put_xml(&out, "<a b=\"c\">'&'</a>", 16);
	assert_string_equal(out.s, "&lt;a b=&quot;c&quot;&gt;&apos;&amp;&apos;&lt;/a&gt;");
	sim_buf_free(&out);
	sim_put_url(&out, "aZ09-._~ %/?\xc3\xa9", 14);
	assert_string_equal(out.s, "aZ09-._~%20%25%2f%3f%c3%a9");
	sim_buf_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_gives_zeroed_aligned_memory),
		cmocka_unit_test(arena_formats_text_of_any_length),
		cmocka_unit_test(buffers_grow),
		cmocka_unit_test(json_is_escaped),
		cmocka_unit_test(json_keeps_nul),
		cmocka_unit_test(xml_and_urls_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * sim_batch_test.c
 *		The body of a $batch as a list of requests, and names of query operators.
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

#include "write/batch_parse.h"
#include "fetch/query_expression.h"

#define TYPE "multipart/mixed; boundary=\"b1\""
#define PART "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
#define LF_PART "Content-Type: application/http\nContent-Transfer-Encoding: binary\n"
#define GET_PART "--b1\r\n" PART "\r\nGET /api/data/v9.2/accounts HTTP/1.1\r\n\r\n\r\n"

static struct sim_arena *arena;
static struct sim_part *parts;
static const char *error;
static bool unreadable;

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

static bool
parse_as(const char *type, const char *text)
{
	char	   *copy = sim_strdup(arena, text);

	error = NULL;
	return sim_batch_parse(arena, type, copy, strlen(copy), SIM_BATCH_MAX, &parts, &error, &unreadable);
}

static bool
parse(const char *text)
{
	return parse_as(TYPE, text);
}

/* the same with line feeds only */
static const char *
line_feeds(const char *text)
{
	char	   *copy = sim_strdup(arena, text);
	char	   *out = copy;
	const char *s;

	for (s = text; *s; s++)
		if (*s != '\r')
			*out++ = *s;
	*out = '\0';
	return copy;
}

static void
test_boundary(void **state)
{
	(void) state;
	assert_string_equal(sim_batch_boundary(arena, "multipart/mixed;boundary=batch_7"), "batch_7");
	assert_string_equal(sim_batch_boundary(arena, "Multipart/Mixed; x=1; Boundary=\"a b\""), "a b");
	assert_string_equal(sim_batch_boundary(arena, "multipart/mixed; boundary = x ; y=z"), "x");
	assert_null(sim_batch_boundary(arena, "multipart/mixed"));
	assert_null(sim_batch_boundary(arena, "multipart/mixed; boundary="));
	assert_null(sim_batch_boundary(arena, "application/json; boundary=x"));
	assert_null(sim_batch_boundary(arena, NULL));
}

static void
test_get(void **state)
{
	(void) state;
	assert_true(parse(GET_PART "--b1--\r\n"));
	assert_string_equal(parts->method, "GET");
	assert_string_equal(parts->url, "/api/data/v9.2/accounts");
	assert_int_equal(parts->body_len, 0);
	assert_null(parts->next);
	assert_false(parts->is_changeset);
}

static void
test_body_and_headers(void **state)
{
	(void) state;
	assert_true(parse("preamble\r\n--b1\r\n" PART "Content-ID:7\r\n\r\n"
					  "POST accounts?$select=name eq 'x y' HTTP/1.1\r\nPrefer:  a=b \r\n"
					  "Content-Type: application/json\r\n\r\n{\"a\":\r\n1}\r\n--b1--"));
	assert_string_equal(parts->content_id, "7");
	assert_string_equal(parts->url, "accounts?$select=name eq 'x y'");
	assert_int_equal(parts->headers.n, 2);
	assert_string_equal(parts->headers.items[0].value, "a=b");
	assert_string_equal(parts->body, "{\"a\":\r\n1}");
	assert_int_equal(parts->body_len, strlen(parts->body));
}

static const char changeset[] =
"--b1\r\nContent-Type: multipart/mixed; boundary=c1\r\n\r\n"
"--c1\r\n" PART "Content-ID: 1\r\n\r\nPOST a HTTP/1.1\r\n\r\n{}\r\n"
"--c1\r\n" PART "Content-ID: 2\r\n\r\nDELETE $1 HTTP/1.1\r\n\r\n\r\n"
"--c1--\r\n\r\n" GET_PART "--b1--\r\n";

static void
check_changeset(void)
{
	assert_true(parts->is_changeset);
	assert_string_equal(parts->parts->method, "POST");
	assert_string_equal(parts->parts->body, "{}");
	assert_string_equal(parts->parts->next->url, "$1");
	assert_null(parts->parts->next->next);
	assert_string_equal(parts->next->method, "GET");
	assert_null(parts->next->next);
}

static void
test_changeset(void **state)
{
	(void) state;
	assert_true(parse(changeset));
	check_changeset();
}

static void
test_line_feeds(void **state)
{
	char	   *text = sim_strdup(arena, line_feeds(changeset));

	(void) state;
	assert_true(parse(text));
	check_changeset();
	text = sim_strdup(arena, line_feeds(changeset));
	text[strlen(text) - 1] = '\0';	/* no line end after the closing delimiter */

	assert_true(parse(text));
	check_changeset();
}

static void
test_other_boundary(void **state)
{
	(void) state;
	assert_true(parse_as("multipart/mixed; boundary=other", GET_PART "--b1--\r\n"));
	assert_null(parts);
	assert_true(parse(""));
	assert_null(parts);
	/* a longer boundary is another one */
	assert_true(parse_as("multipart/mixed; boundary=b", GET_PART "--b1--\r\n"));
	assert_null(parts);
	/* text after the closing delimiter is ignored */
	assert_true(parse(GET_PART "--b1--\r\n" GET_PART));
	assert_null(parts->next);
}

/* A part may end with its headers: the empty line's end is then the delimiter's. */
static void
test_ends_with_headers(void **state)
{
	static const char *const forms[] = {
		"--b1\r\n" PART "\r\nGET accounts HTTP/1.1\r\n\r\n--b1--\r\n",
		"--b1\r\n" PART "\r\nGET accounts HTTP/1.1\r\nAccept: a\r\n\r\n--b1--\r\n",
		"--b1\n" LF_PART "\nGET accounts HTTP/1.1\n\n--b1--",
		"--b1\n" LF_PART "\nGET accounts HTTP/1.1\nAccept: a\n\n--b1--"
	};

	(void) state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
	{
		if (!parse(forms[i]))
			fail_msg("refused: %s", forms[i]);
		assert_string_equal(parts->method, "GET");
		assert_string_equal(parts->url, "accounts");
		assert_int_equal(parts->headers.n, (int) (i % 2));
		assert_int_equal(parts->body_len, 0);
		assert_null(parts->next);
	}
}

/* each change set numbers its parts anew */
static void
test_content_ids(void **state)
{
#define ONE_SET(c) "--b1\r\nContent-Type: multipart/mixed; boundary=" c "\r\n\r\n--" c "\r\n" PART \
	"Content-ID: 1\r\n\r\nPOST a HTTP/1.1\r\n\r\n{}\r\n--" c "--\r\n"
	(void) state;
	if (!parse(ONE_SET("c1") ONE_SET("c2") "--b1--\r\n"))
		fail_msg("%s", error);
	assert_string_equal(parts->next->parts->content_id, "1");
}

static void
cut_short(const char *text)
{
	if (parse(text))
		fail_msg("taken: %s", text);
	assert_true(unreadable);
	assert_non_null(strstr(error, "Stream was not readable."));
}

static void
test_cut_short(void **state)
{
	(void) state;
	cut_short(GET_PART);
	cut_short("--b1\r\n");
	cut_short("--b1\r\n--b1--\r\n");
	cut_short("--b1\r\n" PART "--b1--\r\n");
	cut_short("--b1\r\n" PART "\r\n--b1--\r\n");
	/* the empty line behind the headers is missing */
	cut_short("--b1\r\n" PART "\r\nGET accounts HTTP/1.1\r\n--b1--\r\n");
	cut_short("--b1\r\n" PART "\r\nGET accounts HTTP/1.1\r\nAccept: a\r\n--b1--\r\n");
	cut_short("--b1\r\n" PART "\r\nGET accounts HTTP/1.1\r\n\r\n");
	cut_short("--b1\r\n" PART "\r\nGET accounts\r\n\r\n\r\n--b1--\r\n");
	cut_short("--b1\r\n" PART "\r\nGET accounts HTTP/1.1\r\nno colon\r\n\r\n\r\n--b1--\r\n");
	/* the change set never ends */
	cut_short("--b1\r\nContent-Type: multipart/mixed; boundary=c1\r\n\r\n"
			  "--c1\r\n" PART "\r\nPOST a HTTP/1.1\r\n\r\n{}\r\n--b1--\r\n");
}

static void
not_allowed(const char *text, const char *why)
{
	if (parse(text))
		fail_msg("taken: %s", text);
	assert_false(unreadable);
	if (strstr(error, why) == NULL)
		fail_msg("%s", error);
}

static void
test_not_allowed(void **state)
{
	(void) state;
	not_allowed("--b1\r\nContent-Type: multipart/mixed; boundary=c1\r\n\r\n"
				"--c1\r\n" PART "\r\nGET a HTTP/1.1\r\n\r\n\r\n--c1--\r\n--b1--\r\n",
				"'GET' was detected");
	not_allowed("--b1\r\nContent-Type: multipart/mixed; boundary=c1\r\n\r\n"
				"--c1\r\nContent-Type: multipart/mixed; boundary=d1\r\n\r\n\r\n"
				"--c1--\r\n--b1--\r\n",
				"Nested");
	not_allowed("--b1\r\nContent-Type: multipart/mixed\r\n\r\nx\r\n--b1--\r\n", "no boundary");
	not_allowed("--b1\r\nContent-Type: application/json\r\n\r\n{}\r\n--b1--\r\n",
				"application/http");
	not_allowed("--b1\r\n\r\nGET a HTTP/1.1\r\n\r\n\r\n--b1--\r\n", "application/http");
	not_allowed("--b1\r\n" PART "Content-ID: 1\r\n\r\nPOST a HTTP/1.1\r\n\r\n{}\r\n"
				"--b1\r\n" PART "Content-ID: 1\r\n\r\nPOST a HTTP/1.1\r\n\r\n{}\r\n--b1--\r\n",
				"more than once");
}

static bool
parse_n(int n)
{
	struct sim_buf buf = {0};
	bool		ok;
	int			i;

	for (i = 0; i < n; i++)
		sim_puts(&buf, GET_PART);
	sim_puts(&buf, "--b1--\r\n");
	ok = parse(buf.s);
	sim_buf_free(&buf);
	return ok;
}

static void
test_limit(void **state)
{
	(void) state;
	assert_true(parse_n(1000));
	assert_false(parse_n(1001));
	assert_non_null(strstr(error, "1000"));
}

static void
operator_is(const char *name, const char *fetch)
{
	char		out[64];

	assert_true(sim_query_operator(name, strlen(name), out));
	assert_string_equal(out, fetch);
}

static void
test_operators(void **state)
{
	char		out[64];

	(void) state;
	operator_is("Equal", "eq");
	operator_is("NotIn", "not-in");
	operator_is("OnOrAfter", "on-or-after");
	operator_is("LastXDays", "last-x-days");
	operator_is("OlderThanXMonths", "olderthan-x-months");
	operator_is("DoesNotBeginWith", "not-begin-with");
	assert_false(sim_query_operator("", 0, out));
	assert_false(sim_query_operator("eq", 2, out));
	assert_false(sim_query_operator("A\"B", 3, out));
	assert_false(sim_query_operator("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ", 36, out));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_boundary, begin, end),
		cmocka_unit_test_setup_teardown(test_get, begin, end),
		cmocka_unit_test_setup_teardown(test_body_and_headers, begin, end),
		cmocka_unit_test_setup_teardown(test_changeset, begin, end),
		cmocka_unit_test_setup_teardown(test_line_feeds, begin, end),
		cmocka_unit_test_setup_teardown(test_other_boundary, begin, end),
		cmocka_unit_test_setup_teardown(test_ends_with_headers, begin, end),
		cmocka_unit_test_setup_teardown(test_content_ids, begin, end),
		cmocka_unit_test_setup_teardown(test_cut_short, begin, end),
		cmocka_unit_test_setup_teardown(test_not_allowed, begin, end),
		cmocka_unit_test_setup_teardown(test_limit, begin, end),
		cmocka_unit_test_setup_teardown(test_operators, begin, end),
	};

	return cmocka_run_group_tests_name("sim_batch", tests, NULL, NULL);
}

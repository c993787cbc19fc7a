/*
 * answer_test.c
 *		Headers, trailers, cookies, and the body of an answer, and their limits.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/answer.h"

static dv_answer answer;

static int
setup(void **state)
{
	(void) state;
	memset(&answer, 0, sizeof(answer));
	answer.max_body = 100;
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	dv_answer_free(&answer);
	return 0;
}

static dv_answer_result
line(const char *text)
{
	/* an exact copy, so that the sanitizer notices when something behind it is read */
	size_t		len = strlen(text);
	char		copy[len > 0 ? len : 1];

	memcpy(copy, text, len);
	return dv_answer_add_line(&answer, copy, len);
}

static void
lines(const char *const *text)
{
	for (; *text != NULL; text++)
		assert_int_equal(line(*text), DV_ANSWER_TAKEN);
}

static void
headers_are_found(void **state)
{
	static const char *const head[] = {
		"HTTP/1.1 200 OK\r\n", "Content-Type: text/plain\r\n", "X-Empty:\r\n", "x: \t a b \r\n",
		"X: second\r\n", "\r\n", NULL
	};

	(void) state;
	assert_null(dv_answer_header(&answer, "X"));
	lines(head);
	assert_int_equal(answer.status, 200);
	assert_string_equal(dv_answer_header(&answer, "content-type"), "text/plain");
	assert_string_equal(dv_answer_header(&answer, "X-Empty"), "");
	assert_string_equal(dv_answer_header(&answer, "X"), "a b ");
	assert_null(dv_answer_header(&answer, "Content"));
}

static void
interim_answers_and_trailers_say_nothing(void **state)
{
	static const char *const head[] = {
		"HTTP/1.1 103 Early Hints\r\n", "Retry-After: 1\r\n", "\r\n",
		"HTTP/1.1 503 Busy\r\n", "A: 1\r\n", "\r\n",
		"Retry-After: 2\r\n", "HTTP/1.1 200 OK\r\n", "B: 2\r\n", "\r\n", NULL
	};

	(void) state;
	lines(head);
	assert_int_equal(answer.status, 503);
	assert_string_equal(dv_answer_header(&answer, "A"), "1");
	assert_null(dv_answer_header(&answer, "B"));
	assert_null(dv_answer_header(&answer, "Retry-After"));
}

static void
what_looks_like_a_status_line_is_none(void **state)
{
	static const char *const head[] = {
		"HTTP/1.1 200 OK\r\n", "A: 1\r\n", "HTTP/1.1\r\n", "HTTP/1.1 20\r\n", "HTTP/x: 2 00\r\n", "\r\n", NULL
	};

	(void) state;
	lines(head);
	assert_int_equal(answer.status, 200);
	assert_string_equal(dv_answer_header(&answer, "A"), "1");
}

/* How many lines of a kilobyte are taken? */
static size_t
pour(void)
{
	char		text[1025];
	size_t		n = 0;

	memset(text, 'x', 1022);
	strcpy(text + 1022, "\r\n");
	while (line(text) == DV_ANSWER_TAKEN)
		assert_true(++n < 1000000);
	return n;
}

static void
all_lines_have_one_limit(void **state)
{
	static const char *const head[] = {"HTTP/1.1 200 OK\r\n", "\r\n", NULL};
	size_t		n = DV_ANSWER_MAX_HEAD / 1024;

	(void) state;
	assert_int_equal(pour(), n);
	teardown(NULL);
	setup(NULL);
	lines(head);
	assert_int_equal(pour(), n - 1);
	assert_true(answer.lines_room < DV_ANSWER_MAX_HEAD);
	assert_int_equal(line("HTTP/1.1 100 Continue\r\n"), DV_ANSWER_TAKEN);
}

static void
interim_answers_have_an_end(void **state)
{
	size_t		n = 0;

	(void) state;
	while (line("HTTP/1.1 100 Continue\r\n") == DV_ANSWER_TAKEN && line("\r\n") == DV_ANSWER_TAKEN)
		assert_true(++n < 1000000);
	assert_true(n > 10);
}

static void
the_body_has_a_limit(void **state)
{
	char		data[100] = "body";

	(void) state;
	assert_int_equal(dv_answer_add_body(&answer, data, 99), DV_ANSWER_TAKEN);
	assert_int_equal(dv_answer_add_body(&answer, data, 2), DV_ANSWER_TOO_LARGE);
	assert_int_equal(dv_answer_add_body(&answer, data, 1), DV_ANSWER_TAKEN);
	assert_int_equal(dv_answer_add_body(&answer, data, 1), DV_ANSWER_TOO_LARGE);
	assert_int_equal(dv_answer_add_body(&answer, data, SIZE_MAX), DV_ANSWER_TOO_LARGE);
	assert_int_equal(answer.body_len, 100);
	assert_int_equal(answer.body_room, 101);
	assert_int_equal(answer.body[100], '\0');
}

static void
an_error_has_a_smaller_limit(void **state)
{
	static char data[DV_ANSWER_MAX_ERROR + 1];

	(void) state;
	answer.max_body = SIZE_MAX / 2;
	line("HTTP/1.1 400 Bad Request\r\n");
	assert_int_equal(dv_answer_add_body(&answer, data, sizeof(data)), DV_ANSWER_TOO_LARGE);
	assert_int_equal(dv_answer_add_body(&answer, data, sizeof(data) - 1), DV_ANSWER_TAKEN);
	line("HTTP/1.1 200 OK\r\n");
	assert_int_equal(dv_answer_add_body(&answer, data, 1), DV_ANSWER_TAKEN);
}

static void
a_cookie_is_found(void **state)
{
	static const char *const head[] = {
		"HTTP/1.1 200 OK\r\n", "Set-Cookie: ARRAffinityX=no\r\n", "Set-Cookie: junk=ARRAffinity=no\r\n",
		"Set-Cookie: ARRAffinity=a7; Path=/; HttpOnly\r\n", "\r\n", NULL
	};
	size_t		len;
	const char *cookie;

	(void) state;
	assert_null(dv_answer_cookie(&answer, "ARRAffinity", &len));
	lines(head);
	cookie = dv_answer_cookie(&answer, "ARRAffinity", &len);
	assert_int_equal(len, strlen("ARRAffinity=a7"));
	assert_memory_equal(cookie, "ARRAffinity=a7", len);
	assert_null(dv_answer_cookie(&answer, "Affinity", &len));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(headers_are_found, setup, teardown),
		cmocka_unit_test_setup_teardown(interim_answers_and_trailers_say_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(what_looks_like_a_status_line_is_none, setup, teardown),
		cmocka_unit_test_setup_teardown(all_lines_have_one_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(interim_answers_have_an_end, setup, teardown),
		cmocka_unit_test_setup_teardown(the_body_has_a_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(an_error_has_a_smaller_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(a_cookie_is_found, setup, teardown),
	};

	return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}

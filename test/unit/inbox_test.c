/*
 * inbox_test.c
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

#include "net/inbox.h"

static dv_inbox_store store;
static dv_inbox inbox;

static int
setup(void **state)
{
	(void) state;
	memset(&inbox, 0, sizeof(inbox));
	memset(&store, 0, sizeof(store));
	store.room = (size_t) 1024 * 1024 * 1024;
	inbox.store = &store;
	inbox.max_body = 100;
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	dv_inbox_free(&inbox);
	return 0;
}

static dv_inbox_result
line(const char *text)
{
	/* an exact copy, so that the sanitizer detects reads beyond it */
	size_t		len = strlen(text);
	char		copy[len > 0 ? len : 1];

	memcpy(copy, text, len);
	return dv_inbox_add_line(&inbox, copy, len);
}

static void
lines(const char *const *text)
{
	for (; *text != NULL; text++)
		assert_int_equal(line(*text), DV_INBOX_TAKEN);
}

static void
headers_are_found(void **state)
{
	static const char *const head[] = {
		"HTTP/1.1 200 OK\r\n", "Content-Type: text/plain\r\n", "X-Empty:\r\n", "x: \t a b \r\n",
		"X: second\r\n", "\r\n", NULL
	};

	(void) state;
	assert_null(dv_inbox_header(&inbox, "X"));
	lines(head);
	assert_int_equal(inbox.status, 200);
	assert_string_equal(dv_inbox_header(&inbox, "content-type"), "text/plain");
	assert_string_equal(dv_inbox_header(&inbox, "X-Empty"), "");
	assert_string_equal(dv_inbox_header(&inbox, "X"), "a b ");
	assert_null(dv_inbox_header(&inbox, "Content"));
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
	assert_int_equal(inbox.status, 503);
	assert_string_equal(dv_inbox_header(&inbox, "A"), "1");
	assert_null(dv_inbox_header(&inbox, "B"));
	assert_null(dv_inbox_header(&inbox, "Retry-After"));
}

static void
what_looks_like_a_status_line_is_none(void **state)
{
	static const char *const head[] = {
		"HTTP/1.1 200 OK\r\n", "A: 1\r\n", "HTTP/1.1\r\n", "HTTP/1.1 20\r\n", "HTTP/x: 2 00\r\n", "\r\n", NULL
	};

	(void) state;
	lines(head);
	assert_int_equal(inbox.status, 200);
	assert_string_equal(dv_inbox_header(&inbox, "A"), "1");
}

/* Returns how many lines of a kilobyte are accepted. */
static size_t
pour(void)
{
	char		text[1025];
	size_t		n = 0;

	memset(text, 'x', 1022);
	strcpy(text + 1022, "\r\n");
	while (line(text) == DV_INBOX_TAKEN)
		assert_true(++n < 1000000);
	return n;
}

static void
all_lines_have_one_limit(void **state)
{
	static const char *const head[] = {"HTTP/1.1 200 OK\r\n", "\r\n", NULL};
	size_t		n = DV_INBOX_MAX_HEAD / 1024;

	(void) state;
	assert_int_equal(pour(), n);
	teardown(NULL);
	setup(NULL);
	lines(head);
	assert_int_equal(pour(), n - 1);
	assert_true(inbox.lines_room < DV_INBOX_MAX_HEAD);
	assert_int_equal(line("HTTP/1.1 100 Continue\r\n"), DV_INBOX_TAKEN);
}

static void
interim_answers_have_an_end(void **state)
{
	size_t		n = 0;

	(void) state;
	while (line("HTTP/1.1 100 Continue\r\n") == DV_INBOX_TAKEN && line("\r\n") == DV_INBOX_TAKEN)
		assert_true(++n < 1000000);
	assert_true(n > 10);
}

static void
the_body_has_a_limit(void **state)
{
	char		data[100] = "body";

	(void) state;
	assert_int_equal(dv_inbox_add_body(&inbox, data, 99), DV_INBOX_TAKEN);
	assert_int_equal(dv_inbox_add_body(&inbox, data, 2), DV_INBOX_TOO_LARGE);
	assert_int_equal(dv_inbox_add_body(&inbox, data, 1), DV_INBOX_TAKEN);
	assert_int_equal(dv_inbox_add_body(&inbox, data, 1), DV_INBOX_TOO_LARGE);
	assert_int_equal(dv_inbox_add_body(&inbox, data, SIZE_MAX), DV_INBOX_TOO_LARGE);
	assert_int_equal(inbox.body_len, 100);
	assert_int_equal(inbox.body_room, 101);
	assert_int_equal(inbox.body[100], '\0');
}

/*
 * Memory that one inbox has taken is not available to another, however its body arrives; but a
 * small body always has room.
 */
static void
inboxes_share_a_store(void **state)
{
	static char data[DV_INBOX_SMALL];
	dv_inbox	other = {.store = &store, .max_body = SIZE_MAX / 2};

	(void) state;
	store.room = 3 * sizeof(data);
	inbox.max_body = SIZE_MAX / 2;
	assert_int_equal(dv_inbox_add_body(&inbox, data, sizeof(data)), DV_INBOX_TAKEN);
	assert_int_equal(dv_inbox_add_body(&inbox, data, sizeof(data)), DV_INBOX_TAKEN);
	assert_int_equal(store.taken, inbox.body_room);
	assert_int_equal(dv_inbox_add_body(&other, data, 1), DV_INBOX_TAKEN);
	assert_int_equal(store.taken, inbox.body_room + other.body_room);
	assert_int_equal(dv_inbox_add_body(&other, data, sizeof(data)), DV_INBOX_STORE_FULL);
	assert_int_equal(dv_inbox_add_body(&other, data, sizeof(data) - 2), DV_INBOX_TAKEN);
	assert_int_equal(dv_inbox_add_body(&inbox, data, sizeof(data)), DV_INBOX_STORE_FULL);
	assert_int_equal(other.body_room, sizeof(data));
	dv_inbox_free(&inbox);
	assert_int_equal(store.taken, other.body_room);
	assert_int_equal(dv_inbox_add_body(&other, data, sizeof(data)), DV_INBOX_TAKEN);
	dv_inbox_free(&other);
	assert_int_equal(store.taken, 0);
}

/* A large body does not take much more than it needs. */
static void
room_is_not_wasted(void **state)
{
	static char data[100 * 1024];

	(void) state;
	inbox.max_body = SIZE_MAX / 2;
	while (inbox.body_len < 100 * sizeof(data) * 10)
	{
		assert_int_equal(dv_inbox_add_body(&inbox, data, sizeof(data)), DV_INBOX_TAKEN);
		assert_int_equal(store.taken, inbox.body_room);
		assert_true(inbox.body_len < 14000000 || inbox.body_room < inbox.body_len + inbox.body_len / 4);
	}
}

static void
an_error_has_a_smaller_limit(void **state)
{
	static char data[DV_INBOX_MAX_ERROR + 1];

	(void) state;
	inbox.max_body = SIZE_MAX / 2;
	line("HTTP/1.1 400 Bad Request\r\n");
	assert_int_equal(dv_inbox_add_body(&inbox, data, sizeof(data)), DV_INBOX_TOO_LARGE);
	assert_int_equal(dv_inbox_add_body(&inbox, data, sizeof(data) - 1), DV_INBOX_TAKEN);
	line("HTTP/1.1 200 OK\r\n");
	assert_int_equal(dv_inbox_add_body(&inbox, data, 1), DV_INBOX_TAKEN);
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
	assert_null(dv_inbox_cookie(&inbox, "ARRAffinity", &len));
	lines(head);
	cookie = dv_inbox_cookie(&inbox, "ARRAffinity", &len);
	assert_int_equal(len, strlen("ARRAffinity=a7"));
	assert_memory_equal(cookie, "ARRAffinity=a7", len);
	assert_null(dv_inbox_cookie(&inbox, "Affinity", &len));
}

static void
only_gzip_is_taken_and_once(void **state)
{
	static const struct
	{
		const char *lines[3];
		bool		taken;
	}			cases[] =

	{
		{{"Content-Encoding: gzip\r\n"}, true},
		{{"content-encoding: x-GZIP , identity\r\n", "Transfer-Encoding: chunked\r\n"}, true},
		{{"Content-Encoding:\r\n", "Transfer-Encoding: identity\r\n"}, true},
		{{"X-Content-Encoding: zstd\r\n", "Content-Encoding-X: br\r\n"}, true},
		{{"Content-Encoding: gzip, gzip\r\n"}, false},
		{{"Content-Encoding: gzip\r\n", "Content-Encoding: gzip\r\n"}, false},
		{{"Content-Encoding: zstd\r\n"}, false},
		{{"Content-Encoding: identity,\tBR\r\n"}, false},
		{{"Content-Encoding: deflate\r\n"}, false},
		{{"Content-Encoding: gzipped\r\n"}, false},
		{{"Transfer-Encoding: gzip, chunked\r\n"}, false},
	};
	static const char *const elsewhere[] = {
		"HTTP/1.1 103 Early Hints\r\n", "Content-Encoding: gzip\r\n", "\r\n",
		"HTTP/1.1 200 OK\r\n", "Content-Encoding: gzip\r\n", "\r\n",
		"Content-Encoding: gzip\r\n", NULL
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const char *const *text = cases[i].lines;
		dv_inbox_result result;

		assert_int_equal(line("HTTP/1.1 200 OK\r\n"), DV_INBOX_TAKEN);
		while ((result = line(*text++)) == DV_INBOX_TAKEN && *text != NULL)
			;
		assert_int_equal(result, cases[i].taken ? DV_INBOX_TAKEN : DV_INBOX_ENCODED);
		dv_inbox_free(&inbox);
	}

	/* cookies of interim answers and of trailers do not count */
	lines(elsewhere);
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
		cmocka_unit_test_setup_teardown(inboxes_share_a_store, setup, teardown),
		cmocka_unit_test_setup_teardown(room_is_not_wasted, setup, teardown),
		cmocka_unit_test_setup_teardown(an_error_has_a_smaller_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(only_gzip_is_taken_and_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_cookie_is_found, setup, teardown),
	};

	return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}

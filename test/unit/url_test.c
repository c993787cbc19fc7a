/*
 * url_test.c
 *		The addresses to which secrets may be sent.
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

#include "net/url.h"

struct vector
{
	const char *url;
	bool		path_allowed;
	enum dv_url_verdict verdict;
};

static void
check_all(const struct vector *vectors, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		enum dv_url_verdict got = dv_url_check(vectors[i].url, vectors[i].path_allowed);

		if (got != vectors[i].verdict)
			fail_msg("%s: verdict %d, not %d", vectors[i].url, got, vectors[i].verdict);
	}
}

#define CHECK(vectors) check_all(vectors, sizeof(vectors) / sizeof((vectors)[0]))

static void
https_is_accepted(void **state)
{
	static const struct vector vectors[] = {
		{"https://contoso.crm.dynamics.com", false, DV_URL_OK},
		{"https://contoso.crm.dynamics.com/", false, DV_URL_OK},
		{"HTTPS://CONTOSO.crm4.dynamics.com:443", false, DV_URL_OK},
		{"https://10.0.0.1:8443", false, DV_URL_OK},
		{"https://[2001:db8::1]:8443/", false, DV_URL_OK},
		{"https://login.microsoftonline.com/t/oauth2/v2.0/token", true, DV_URL_OK},
	};

	(void) state;
	CHECK(vectors);
}

static void
http_only_on_loopback(void **state)
{
	static const struct vector vectors[] = {
		{"http://localhost", false, DV_URL_OK},
		{"http://LocalHost:80/", false, DV_URL_OK},
		{"http://127.0.0.1:65535", false, DV_URL_OK},
		{"http://127.8.9.10", false, DV_URL_OK},
		{"http://[::1]:8080", false, DV_URL_OK},
		{"http://[0:0:0:0:0:0:0:1]", false, DV_URL_OK},
		{"http://contoso.crm.dynamics.com", false, DV_URL_NOT_HTTPS},
		{"http://localhost.example.com", false, DV_URL_NOT_HTTPS},
		{"http://127.0.0.1.example.com", false, DV_URL_NOT_HTTPS},
		{"http://128.0.0.1", false, DV_URL_NOT_HTTPS},
		{"http://127.1", false, DV_URL_NOT_HTTPS},
		{"http://[::2]", false, DV_URL_NOT_HTTPS},
		{"http://[::ffff:10.0.0.1]", false, DV_URL_NOT_HTTPS},
		{"ftp://localhost", false, DV_URL_NOT_HTTPS},
		{"file:///etc/passwd", false, DV_URL_NOT_HTTPS},
		{"httpss://contoso.crm.dynamics.com", false, DV_URL_NOT_HTTPS},
	};

	(void) state;
	CHECK(vectors);
}

static void
only_one_reading(void **state)
{
	static const struct vector vectors[] = {
		{"", false, DV_URL_MALFORMED},
		{"contoso.crm.dynamics.com", false, DV_URL_MALFORMED},
		{"://contoso.crm.dynamics.com", false, DV_URL_MALFORMED},
		{"https://", false, DV_URL_MALFORMED},
		{"https:///path", true, DV_URL_MALFORMED},
		{"https://.com", false, DV_URL_MALFORMED},
		{"https://a b", false, DV_URL_MALFORMED},
		{"https://a\\b", false, DV_URL_MALFORMED},
		{"https://a\r\nHost: b", false, DV_URL_MALFORMED},
		{"https://b\xc3\xbc"
			"cher.example",
		false, DV_URL_MALFORMED},
		{"https://under_score", false, DV_URL_MALFORMED},
		{"https://a%2eb", false, DV_URL_MALFORMED},
		{"https://a:", false, DV_URL_MALFORMED},
		{"https://a:0", false, DV_URL_MALFORMED},
		{"https://a:65536", false, DV_URL_MALFORMED},
		{"https://a:443x", false, DV_URL_MALFORMED},
		{"https://a:-443", false, DV_URL_MALFORMED},
		{"https://[::1", false, DV_URL_MALFORMED},
		{"https://[]", false, DV_URL_MALFORMED},
		{"https://[::1]x", false, DV_URL_MALFORMED},
		{"https://[::1/]", false, DV_URL_MALFORMED},
		{"https://[fe80::1%25eth0]", false, DV_URL_MALFORMED},
		{"https://user@host", false, DV_URL_USERINFO},
		{"https://user:secret@host/", false, DV_URL_USERINFO},
		{"http://127.0.0.1@example.com", false, DV_URL_USERINFO},
		{"https://host/a@b", true, DV_URL_OK},
		{"https://host?a=1", true, DV_URL_QUERY},
		{"https://host/#x", true, DV_URL_QUERY},
		{"https://host/api/data/v9.2", false, DV_URL_PATH},
		{"https://host//", false, DV_URL_PATH},
	};

	(void) state;
	CHECK(vectors);
}

static void
longest_host(void **state)
{
	char		url[300];

	(void) state;
	memset(url, 'a', sizeof(url));
	memcpy(url, "https://", 8);
	url[8 + 253] = '\0';
	assert_int_equal(dv_url_check(url, false), DV_URL_OK);
	url[8 + 253] = 'a';
	url[8 + 254] = '\0';
	assert_int_equal(dv_url_check(url, false), DV_URL_MALFORMED);
}

static void
encoding(void **state)
{
	char		out[64];

	(void) state;
	assert_int_equal(dv_url_encode("", out), 0);
	assert_string_equal(out, "");
	assert_int_equal(dv_url_encode("aZ09-._~", out), 8);
	assert_string_equal(out, "aZ09-._~");
	assert_int_equal(dv_url_encode("<a b='%&+/\"\xc3\xa9'>", out), 41);
	assert_string_equal(out, "%3Ca%20b%3D%27%25%26%2B%2F%22%C3%A9%27%3E");
}

static void
paths_stay_below(void **state)
{
	static const struct
	{
		const char *path;
		dv_path_verdict verdict;
	}			vectors[] = {
		{"", DV_PATH_OK},
		{"accounts", DV_PATH_OK},
		{"accounts(name='..')/x", DV_PATH_OK},
		{"accounts(name='a%2fb')", DV_PATH_OK},
		{"a..b/...", DV_PATH_OK},
		{"a//b", DV_PATH_OK},
		{"a?b=../..&c=\\", DV_PATH_OK},
		{"a%", DV_PATH_OK},
		{"a%2", DV_PATH_OK},
		{"%zz..", DV_PATH_OK},
		{".", DV_PATH_DOTS},
		{"..", DV_PATH_DOTS},
		{"../a", DV_PATH_DOTS},
		{"a/..", DV_PATH_DOTS},
		{"a/./b", DV_PATH_DOTS},
		{"a/..?b", DV_PATH_DOTS},
		{"%2e", DV_PATH_DOTS},
		{"a/%2E%2e/b", DV_PATH_DOTS},
		{"a/.%2e", DV_PATH_DOTS},
		{"a%2f..%2Fb", DV_PATH_DOTS},
		{"a%5c%2e%2e", DV_PATH_DOTS},
		{"..;a/b", DV_PATH_DOTS},
		{"a/.%3bc", DV_PATH_DOTS},
		{"a\\b", DV_PATH_CHARACTER},
		{"a b", DV_PATH_CHARACTER},
		{"a\r\nb", DV_PATH_CHARACTER},
		{"a?b\nc", DV_PATH_CHARACTER},
		{"a\x7f", DV_PATH_CHARACTER},
		{"\xc3\xa9", DV_PATH_CHARACTER},
		{"a#b", DV_PATH_FRAGMENT},
		{"a?b#c", DV_PATH_FRAGMENT},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
	{
		dv_path_verdict got = dv_path_check(vectors[i].path);

		if (got != vectors[i].verdict)
			fail_msg("%s: verdict %d, not %d", vectors[i].path, got, vectors[i].verdict);
	}
}

static void
names_and_schemes(void **state)
{
	(void) state;
	assert_true(dv_url_is_name("Account_2"));
	assert_false(dv_url_is_name(""));
	assert_false(dv_url_is_name("a.b"));
	assert_false(dv_url_is_name("a\n"));
	assert_true(dv_url_is_absolute("https://a"));
	assert_true(dv_url_is_absolute("a+b.c-d://"));
	assert_false(dv_url_is_absolute("://a"));
	assert_false(dv_url_is_absolute("a?b=c://d"));
	assert_false(dv_url_is_absolute("//a"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(https_is_accepted),
		cmocka_unit_test(http_only_on_loopback),
		cmocka_unit_test(only_one_reading),
		cmocka_unit_test(longest_host),
		cmocka_unit_test(encoding),
		cmocka_unit_test(paths_stay_below),
		cmocka_unit_test(names_and_schemes),
	};

	return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}

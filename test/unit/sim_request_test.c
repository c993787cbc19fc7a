/*
 * sim_request_test.c
 *		How dvsim reads headers, preferences, queries, and escapes of requests,
 *		and durations and addresses of its flags.
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

#include "wire/flags.h"
#include "wire/request.h"

static struct sim_req req;

static int
setup(void **state)
{
	(void) state;
	memset(&req, 0, sizeof(req));
	req.arena = sim_arena_new();
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	sim_arena_free(req.arena);
	return 0;
}

static void
header(const char *name, const char *value)
{
	sim_pair_add(req.arena, &req.headers, name, value);
}

static void
headers_are_found_in_any_case(void **state)
{
	(void) state;
	for (int i = 0; i < 40; i++)
		header(sim_fmt(req.arena, "X-%d", i), "v");
	header("If-Match", "*");
	header("IF-MATCH", "second");
	assert_string_equal(sim_header(&req, "if-match"), "*");
	assert_string_equal(sim_header(&req, "x-39"), "v");
	assert_null(sim_header(&req, "If-None-Match"));
}

static void
preferences_come_in_many_forms(void **state)
{
	(void) state;
	header("Prefer", "odata.maxpagesize=50, return=representation;x=y ,respond-async");
	header("Other", "odata.track-changes");
	header("prefer", "odata.include-annotations=\"a,b\" , odata.continue-on-error");
	assert_string_equal(sim_prefer(&req, "odata.maxpagesize"), "50");
	assert_string_equal(sim_prefer(&req, "RETURN"), "representation");
	assert_string_equal(sim_prefer(&req, "respond-async"), "");
	assert_string_equal(sim_prefer(&req, "odata.include-annotations"), "a,b");
	assert_string_equal(sim_prefer(&req, "odata.continue-on-error"), "");
	assert_null(sim_prefer(&req, "odata.track-changes"));
	assert_null(sim_prefer(&req, "a"));
	assert_null(sim_prefer(&req, "odata"));
	assert_int_equal(sim_prefer_int(&req, "odata.maxpagesize"), 50);
	assert_int_equal(sim_prefer_int(&req, "return"), -1);
	assert_int_equal(sim_prefer_int(&req, "nothing"), -1);
}

static void
broken_preferences_do_no_harm(void **state)
{
	static const char *const broken[] = {
		"", ",", ";;", "=", "a=", "=b", "a=\"", "a=\"b", "\"", "a = \" , b", "a==b", "a=b=c",
	};

	(void) state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
	{
		req.headers.n = 0;
		header("Prefer", broken[i]);
		sim_prefer(&req, "a");
		sim_prefer(&req, "nothing");
		sim_wants_annotation(&req, "x");
		sim_annotations_valid(&req);
	}
	req.headers.n = 0;
	header("Prefer", "odata.maxpagesize=-5");
	assert_int_equal(sim_prefer_int(&req, "odata.maxpagesize"), -1);
	header("Prefer", "n=99999999999999999999");
	assert_int_equal(sim_prefer_int(&req, "n"), -1);
}

static bool
wants(const char *list, const char *annotation)
{
	req.headers.n = 0;
	header("Prefer", sim_fmt(req.arena, "odata.include-annotations=%s", list));
	return sim_wants_annotation(&req, annotation);
}

static void
annotations_by_name_prefix_and_star(void **state)
{
	(void) state;
	assert_true(wants("\"*\"", "anything"));
	assert_true(wants("*", "anything"));
	assert_true(wants("\"a.b\"", "a.b"));
	assert_false(wants("\"a.b\"", "a.bc"));
	assert_false(wants("\"a.b\"", "a"));
	assert_true(wants("\"a.*\"", "a.bc"));
	assert_true(wants("\"a.b*\"", "a.b"));
	assert_false(wants("\"a.b*\"", "a.c"));
	assert_true(wants("\"x, a.b ,y\"", "a.b"));
	assert_true(wants("\"*,-a.*\"", "b.c"));
	assert_false(wants("\"*,-a.*\"", "a.c"));
	assert_false(wants("\"\"", "a"));
	req.headers.n = 0;
	assert_false(sim_wants_annotation(&req, "a"));
}

static bool
valid(const char *list)
{
	req.headers.n = 0;
	header("Prefer", sim_fmt(req.arena, "odata.include-annotations=%s", list));
	return sim_annotations_valid(&req);
}

static void
annotation_lists_are_checked(void **state)
{
	(void) state;
	assert_true(valid("\"*\""));
	assert_true(valid("\"a.b,C.d_1*,*\""));
	assert_true(valid("\"a.b , c.d\""));
	assert_true(valid("\"*,-a.b\""));
	assert_false(valid("\"\""));
	assert_false(valid("\"a,\""));
	assert_false(valid("\",a\""));
	assert_false(valid("\"a b\""));
	assert_false(valid("\"*a\""));
	assert_false(valid("\"a(b)\""));
}

static bool
decodes(const char *text, bool plus, const char *expected)
{
	char	   *copy = sim_strdup(req.arena, text);

	if (!sim_url_decode(copy, plus))
		return expected == NULL;
	return expected != NULL && strcmp(copy, expected) == 0;
}

static void
escapes_are_decoded(void **state)
{
	(void) state;
	assert_true(decodes("a%20b%2Fc%2f", false, "a b/c/"));
	assert_true(decodes("a+b", true, "a b"));
	assert_true(decodes("a+b%2B", false, "a+b+"));
	assert_true(decodes("%c3%A4", false, "\xc3\xa4"));
	assert_true(decodes("", false, ""));
	assert_true(decodes("%", false, NULL));
	assert_true(decodes("%2", false, NULL));
	assert_true(decodes("%zz", false, NULL));
	assert_true(decodes("a%00b", false, NULL));
}

static void
queries_are_split_and_decoded(void **state)
{
	(void) state;
	assert_true(sim_query_parse(req.arena, "%24filter=a+eq+'b%26c'&$top=5&&flag&x=y=z",
								&req.params));
	assert_int_equal(req.params.n, 4);
	assert_string_equal(sim_param(&req, "$filter"), "a eq 'b&c'");
	assert_string_equal(sim_param(&req, "$top"), "5");
	assert_string_equal(sim_param(&req, "flag"), "");
	assert_string_equal(sim_param(&req, "x"), "y=z");
	assert_null(sim_param(&req, "$TOP"));
	assert_false(sim_query_parse(req.arena, "a=%", &req.params));
	assert_false(sim_query_parse(req.arena, "%=a", &req.params));
}

static int64_t
duration(const char *text)
{
	int64_t		us;

	return sim_duration_parse(text, &us) ? us : -1;
}

static void
durations_have_units(void **state)
{
	static const char *const bad[] = {
		"", "s", "-1s", "1 s", "1d", "1S", "0x10", "inf", "nan", "1e400", "99999999999999h", ".",
		"1s ", "+1",
	};

	(void) state;
	assert_int_equal(duration("5"), 5000000);
	assert_int_equal(duration("1.5s"), 1500000);
	assert_int_equal(duration("250ms"), 250000);
	assert_int_equal(duration("7us"), 7);
	assert_int_equal(duration("5min"), 300000000);
	assert_int_equal(duration("2h"), INT64_C(7200000000));
	assert_int_equal(duration("0"), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		if (duration(bad[i]) != -1)
			fail_msg("\"%s\" was taken", bad[i]);
	}
}

static void
addresses_are_host_and_port(void **state)
{
	static const char *const bad[] = {
		"", ":80", "127.0.0.1", "127.0.0.1:", "a:x", "a:70000", "a:-1", "a:80x", "[]:80",
	};
	char		host[64];
	int			port;

	(void) state;
	assert_true(sim_listen_parse("127.0.0.1:0", host, sizeof(host), &port));
	assert_string_equal(host, "127.0.0.1");
	assert_int_equal(port, 0);
	assert_true(sim_listen_parse("[::1]:8443", host, sizeof(host), &port));
	assert_string_equal(host, "::1");
	assert_int_equal(port, 8443);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		if (sim_listen_parse(bad[i], host, sizeof(host), &port))
			fail_msg("\"%s\" was taken", bad[i]);
	}
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		RULE(headers_are_found_in_any_case),
		RULE(preferences_come_in_many_forms),
		RULE(broken_preferences_do_no_harm),
		RULE(annotations_by_name_prefix_and_star),
		RULE(annotation_lists_are_checked),
		RULE(escapes_are_decoded),
		RULE(queries_are_split_and_decoded),
		RULE(durations_have_units),
		RULE(addresses_are_host_and_port),
	};

	return cmocka_run_group_tests_name("sim_request", tests, NULL, NULL);
}

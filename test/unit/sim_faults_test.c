/*
 * sim_faults_test.c
 *		dvsim's fault rules: reading, matching, counting, answering.
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

#include "wire/auth.h"
#include "wire/faults.h"

static struct sim_faults faults;
static struct sim_arena *arena;
static struct sim sim;

static int
setup(void **state)
{
	(void) state;
	arena = sim_arena_new();
	memset(&sim, 0, sizeof(sim));
	sim.faults = &faults;
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	sim_faults_clear(&faults);
	sim_arena_free(arena);
	return 0;
}

/* returns NULL, or the error message */
static const char *
add(const char *json)
{
	struct json_object *rules = json_tokener_parse(json);
	const char *error = NULL;
	bool		added = sim_faults_add(&faults, arena, rules, &error);

	json_object_put(rules);
	return added ? NULL : error;
}

static int64_t
pick(const char *method, const char *target, const char *user)
{
	struct sim_req req = {.method = method, .target = target, .body = ""};
	const struct sim_rule *rule = sim_fault_pick(&faults, &req, user, 0);

	return rule ? rule->id : 0;
}

/* the part of a $batch */
static const struct sim_rule *
pick_part(int64_t part)
{
	struct sim_req req = {.method = "POST", .target = "/$batch", .body = ""};

	return sim_fault_pick(&faults, &req, "u", part);
}

/* returns the statuses of n picks as digits, with '.' for none */
static const char *
statuses(int n)
{
	static char out[64];

	for (int i = 0; i < n; i++)
	{
		struct sim_req req = {.method = "GET", .target = "/x", .body = ""};
		const struct sim_rule *rule = sim_fault_pick(&faults, &req, "u", 0);

		out[i] = rule ? (char) ('0' + rule->status - 500) : '.';
	}
	out[n] = '\0';
	return out;
}

static void
an_empty_rule_matches_everything_once(void **state)
{
	(void) state;
	assert_null(add("[{}]"));
	assert_int_equal(pick("GET", "/a", NULL), 1);
	assert_int_equal(pick("GET", "/a", NULL), 0);
	assert_int_equal(faults.rules[0]->matches, 2);
	assert_int_equal(faults.rules[0]->hits, 1);
	assert_int_equal(faults.rules[0]->status, 503);
}

static void
method_path_and_user_must_all_match(void **state)
{
	(void) state;
	assert_null(add("[{\"method\":\"PATCH\",\"path\":\"accounts(\",\"app_user\":\"app1\","
					"\"times\":0}]"));
	assert_int_equal(pick("PATCH", "/api/accounts(1)", "app1"), 1);
	assert_int_equal(pick("patch", "/api/accounts(1)", "APP1"), 1);
	assert_int_equal(pick("POST", "/api/accounts(1)", "app1"), 0);
	assert_int_equal(pick("PATCH", "/api/accounts", "app1"), 0);
	assert_int_equal(pick("PATCH", "/api/accounts(1)", "app2"), 0);
	assert_int_equal(pick("PATCH", "/api/accounts(1)", NULL), 0);
	assert_int_equal(faults.rules[0]->matches, 2);
}

static void
after_every_and_times_combine(void **state)
{
	(void) state;
	assert_null(add("[{\"status\":501,\"after\":2,\"every\":3,\"times\":2}]"));
	assert_string_equal(statuses(12), "....1..1....");
}

static void
every_counts_from_after(void **state)
{
	(void) state;
	assert_null(add("[{\"status\":501,\"every\":4,\"times\":0}]"));
	assert_string_equal(statuses(9), "...1...1.");
}

static void
times_zero_never_ends(void **state)
{
	(void) state;
	assert_null(add("[{\"status\":502,\"times\":0}]"));
	assert_string_equal(statuses(20), "22222222222222222222");
}

static void
rules_take_turns(void **state)
{
	(void) state;
	assert_null(add("[{\"status\":501},{\"status\":502,\"times\":2},{\"status\":503}]"));
	assert_string_equal(statuses(6), "1223..");
}

static void
a_rule_counts_matches_that_another_answers(void **state)
{
	(void) state;
	assert_null(add("[{\"status\":501,\"times\":3},{\"status\":502,\"after\":4}]"));
	assert_string_equal(statuses(6), "111.2.");
}

static void
ids_go_up_and_rules_stay_in_order(void **state)
{
	(void) state;
	assert_null(add("[{\"status\":501},{\"status\":502}]"));
	assert_null(add("{\"status\":503}"));
	assert_int_equal(faults.n, 3);
	assert_int_equal(faults.rules[2]->id, 3);
	assert_string_equal(statuses(4), "123.");
}

static void
a_bad_list_adds_nothing(void **state)
{
	(void) state;
	assert_null(add("[{\"status\":501}]"));
	assert_string_equal(add("[{\"status\":502},{\"statsu\":503}]"),
						"rule 1: a rule has no member \"statsu\"");
	assert_int_equal(faults.n, 1);
	assert_null(add("[{\"status\":504}]"));
	assert_int_equal(faults.rules[1]->id, 2);
}

static void
every_member_is_checked(void **state)
{
	static const char *const bad[] = {
		"[{\"method\":null}]", "[{\"path\":7}]", "[{\"app_user\":[]}]", "[{\"after\":-1}]",
		"[{\"after\":\"1\"}]", "[{\"after\":1.5}]", "[{\"every\":0}]", "[{\"times\":-1}]",
		"[{\"times\":99999999999}]", "[{\"action\":\"\"}]", "[{\"action\":null}]",
		"[{\"status\":600}]", "[{\"code\":1}]", "[{\"message\":{}}]", "[{\"retry_after\":true}]",
		"[{\"retry_after\":\"a\\nb\"}]", "[{\"headers\":\"x\"}]", "[{\"headers\":{\"\":\"x\"}}]",
		"[{\"headers\":{\"a\":1}}]", "[{\"headers\":{\"a\":\"b\\r\\nc\"}}]",
		"[{\"headers\":{\"a:b\":\"c\"}}]", "[{\"headers\":{\"a\":[\"b\",2]}}]",
		"[{\"body\":null}]", "[{\"bytes\":-1}]", "[{\"delay_ms\":-1}]", "[{\"batch_part\":0}]",
		"[{\"batch_part\":1001}]", "[{\"action\":\"delay\"}]",
		"[{\"action\":\"commit_late\"}]", "[null]", "7", "null",
	};

	(void) state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		if (add(bad[i]) == NULL)
			fail_msg("%s was taken", bad[i]);
	}
	assert_int_equal(faults.n, 0);
	assert_null(add("[]"));
}

static void
a_member_given_twice_does_not_leak(void **state)
{
	(void) state;
	assert_null(add("[{\"code\":\"a\",\"code\":\"b\"}]"));
	assert_string_equal(faults.rules[0]->code, "b");
}

static void
bodies_contain_texts(void **state)
{
	char		body[] = "{\"a\":1}{\"b\":2}";
	struct sim_req req = {.method = "POST", .target = "/", .body = body, .body_len = strlen(body)};

	(void) state;
	assert_null(add("[{\"contains\":\"a\\\":2\"},{\"contains\":\"b\\\":2\",\"times\":0}]"));
	assert_int_equal(sim_fault_pick(&faults, &req, "u", 0)->id, 2);
	body[12] = 'c';
	assert_int_equal(pick("POST", "/", "u"), 0);
	assert_null(sim_fault_pick(&faults, &req, "u", 0));
	assert_non_null(add("[{\"contains\":\"a\",\"batch_part\":1}]"));
}

static void
parts_match_apart_from_whole_requests(void **state)
{
	(void) state;
	assert_null(add("[{\"batch_part\":2,\"status\":501},{\"status\":502,\"after\":1}]"));
	assert_int_equal(pick("POST", "/$batch", "u"), 0);
	assert_null(pick_part(1));
	assert_int_equal(pick_part(2)->id, 1);
	assert_null(pick_part(2));
	assert_int_equal(faults.rules[0]->matches, 2);
	assert_int_equal(faults.rules[1]->matches, 1);
}

static void
other_actions_hit_the_whole_batch(void **state)
{
	(void) state;
	assert_null(add("[{\"batch_part\":2,\"action\":\"garble\"}]"));
	assert_null(pick_part(2));
	assert_int_equal(pick("POST", "/$batch", "u"), 1);
}

static void
a_part_is_answered_and_the_throttle_counted(void **state)
{
	struct sim_user user = {.client_id = "u"};
	struct sim_req outer = {.sim = &sim, .arena = arena, .method = "POST", .target = "/$batch",
	.user = &user};
	struct sim_res part = {0};
	struct sim_res another = {0};

	(void) state;
	assert_null(add("[{\"batch_part\":3,\"status\":429,\"code\":\"0x80072326\",\"message\":\"m\","
					"\"retry_after\":9,\"headers\":{\"A\":\"b\"}}]"));
	assert_false(sim_fault_part(&outer, 2, &part));
	assert_true(sim_fault_part(&outer, 3, &part));
	assert_false(sim_fault_part(&outer, 3, &another));
	assert_int_equal(part.status, 429);
	assert_string_equal(part.body.s, "{\"error\":{\"code\":\"0x80072326\",\"message\":\"m\"}}");
	assert_int_equal(part.headers.n, 2);
	assert_string_equal(part.headers.items[0].value, "9");
	assert_string_equal(part.headers.items[1].name, "A");
	assert_int_equal(user.throttles[2], 1);
	assert_int_equal(user.throttles[0] + user.throttles[1], 0);
	sim_buf_free(&part.body);
}

static void
the_list_is_json_and_tells_all(void **state)
{
	struct sim_buf out = {0};
	struct json_object *list;
	struct json_object *rule;

	(void) state;
	assert_null(add("[{\"path\":\"a\\\"b\",\"action\":\"truncate\",\"bytes\":3,\"delay_ms\":4},"
					"{\"body\":{\"a\":1}}]"));
	sim_faults_print(&faults, &out);
	list = json_tokener_parse(out.s);
	assert_int_equal(json_object_array_length(list), 2);
	rule = json_object_array_get_idx(list, 0);
	assert_string_equal(json_object_get_string(json_object_object_get(rule, "path")), "a\"b");
	assert_string_equal(json_object_get_string(json_object_object_get(rule, "action")),
						"truncate");
	assert_int_equal(json_object_get_int(json_object_object_get(rule, "bytes")), 3);
	assert_int_equal(json_object_get_int(json_object_object_get(rule, "hits")), 0);
	rule = json_object_array_get_idx(list, 1);
	assert_string_equal(json_object_get_string(json_object_object_get(rule, "body")),
						"{\"a\":1}");
	json_object_put(list);
	sim_buf_free(&out);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		RULE(an_empty_rule_matches_everything_once),
		RULE(method_path_and_user_must_all_match),
		RULE(after_every_and_times_combine),
		RULE(every_counts_from_after),
		RULE(times_zero_never_ends),
		RULE(rules_take_turns),
		RULE(a_rule_counts_matches_that_another_answers),
		RULE(ids_go_up_and_rules_stay_in_order),
		RULE(a_bad_list_adds_nothing),
		RULE(every_member_is_checked),
		RULE(a_member_given_twice_does_not_leak),
		RULE(bodies_contain_texts),
		RULE(parts_match_apart_from_whole_requests),
		RULE(other_actions_hit_the_whole_batch),
		RULE(a_part_is_answered_and_the_throttle_counted),
		RULE(the_list_is_json_and_tells_all),
	};

	return cmocka_run_group_tests_name("sim_faults", tests, NULL, NULL);
}

/*
 * pg_error_test.c
 *		The meanings of the service's codes, texts, and statuses.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "dataverse/error.h"
#include "pg_stand_in.h"

static dv_error
read_error(int status, const char *code, const char *message, const char *retry_after)
{
	dv_error	error;
	char	   *body = psprintf("{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}", code, message);

	dv_error_read(status, body, strlen(body), retry_after, NULL, NULL, &error);
	return error;
}

static void
meanings(void **state)
{
	static const struct
	{
		int			status;
		const char *code;
		const char *message;
		dv_verdict	verdict;
		dv_meaning	meaning;
	}			known[] = {
		{429, "0x80072322", "m", DV_VERDICT_THROTTLED, DV_MEANING_MANY_REQUESTS},
		{429, "0X80072321", "m", DV_VERDICT_THROTTLED, DV_MEANING_LONG_EXECUTION},
		{429, "0x80072326", "m", DV_VERDICT_THROTTLED, DV_MEANING_CONCURRENCY},
		{429, "-2147015902", "m", DV_VERDICT_THROTTLED, DV_MEANING_MANY_REQUESTS},
		{429, "-2147015903", "m", DV_VERDICT_THROTTLED, DV_MEANING_LONG_EXECUTION},
		{429, "-2147015898", "m", DV_VERDICT_THROTTLED, DV_MEANING_CONCURRENCY},
		{429, "-2147015901", "m", DV_VERDICT_RETRY, DV_MEANING_BUSY},
		{429, "0x800723222", "m", DV_VERDICT_THROTTLED, DV_MEANING_OTHER},
		{429, "", "m", DV_VERDICT_THROTTLED, DV_MEANING_OTHER},
		{412, "0x80040237", "m", DV_VERDICT_REFUSED, DV_MEANING_DUPLICATE},
		{409, "", "m", DV_VERDICT_REFUSED, DV_MEANING_DUPLICATE},
		{409, "0x80040333", "m", DV_VERDICT_REFUSED, DV_MEANING_DUPLICATE},
		{412, "0x80040333", "m", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
		{412, "0x80060882", "m", DV_VERDICT_REFUSED, DV_MEANING_CHANGED},
		{400, "0x8006088D", "m", DV_VERDICT_REFUSED, DV_MEANING_NO_VERSIONS},
		{404, "0x80040217", "m", DV_VERDICT_REFUSED, DV_MEANING_MISSING},
		{404, "", "m", DV_VERDICT_REFUSED, DV_MEANING_MISSING},
		{404, "0x8006088a", "m", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
		{404, "0x12345678", "m", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
		{413, "", "m", DV_VERDICT_REFUSED, DV_MEANING_TOO_LARGE},
		{400, "0x8004418a", "m", DV_VERDICT_REFUSED, DV_MEANING_TOO_LARGE},
		{500, "", "Message size exceeded when sending", DV_VERDICT_RETRY, DV_MEANING_TOO_LARGE},
		{400, "0x80048d2d", "m", DV_VERDICT_REFUSED, DV_MEANING_NO_BULK},
		{400, "0x0", "CreateMultiple is not enabled on the entity x", DV_VERDICT_REFUSED, DV_MEANING_NO_BULK},
		{405, "0x80040800", "The 'UpsertMultiple' method does not support entities of type 'queue'.", DV_VERDICT_REFUSED, DV_MEANING_NO_BULK},
		{400, "0x80040265", "Refunds: this case has not yet been implemented.", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
		{400, "0x80040265", "Message size exceeded", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
		{404, "0x80060888", "Resource not found for the segment 'Microsoft.Dynamics.CRM.CreateMultiple'.", DV_VERDICT_REFUSED, DV_MEANING_NO_BULK},
		{404, "", "Resource not found for the segment 'Microsoft.Dynamics.CRM.CreateMultiple'.", DV_VERDICT_REFUSED, DV_MEANING_NO_BULK},
		{404, "0x80060888", "Resource not found for the segment 'accounts'.", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
		{404, "0x80040217", "Contact With Ids = 1 Do Not Exist", DV_VERDICT_REFUSED, DV_MEANING_MISSING},
		{400, "0x80060888", "The current batch message contains too many parts.", DV_VERDICT_REFUSED, DV_MEANING_MANY_PARTS},
		{400, "0x8004E023", "m", DV_VERDICT_REFUSED, DV_MEANING_COUNT_LIMIT},
		{401, "", "m", DV_VERDICT_AUTH, DV_MEANING_CALLER},
		{401, "0x80040237", "m", DV_VERDICT_AUTH, DV_MEANING_CALLER},
		{403, "", "m", DV_VERDICT_REFUSED, DV_MEANING_ACCESS},
		{403, "0x80040225", "m", DV_VERDICT_REFUSED, DV_MEANING_USER},
		{403, "0x80072560", "m", DV_VERDICT_REFUSED, DV_MEANING_USER},
		{403, "0x80040220", "does not have WriteAccess right(s) for record", DV_VERDICT_REFUSED, DV_MEANING_ACCESS},
		{403, "0x80040220", "Principal user is missing prvWriteAccount privilege", DV_VERDICT_REFUSED, DV_MEANING_PRIVILEGE},
		{400, "0x80048306", "is missing prvReadAccount", DV_VERDICT_REFUSED, DV_MEANING_PRIVILEGE},
		{400, "", "is missing prvReadAccount", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
		{403, "0x80072325", "m", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
		{403, "0x8005F101", "m", DV_VERDICT_AUTH, DV_MEANING_OTHER},
		{500, "0x80044150", "Sql Number: 1205", DV_VERDICT_RETRY, DV_MEANING_DEADLOCK},
		{500, "0x80044150", "a deadlock", DV_VERDICT_RETRY, DV_MEANING_DEADLOCK},
		{500, "0x80044150", "Sql Number: 208", DV_VERDICT_RETRY, DV_MEANING_NEW_TABLE},
		{500, "0x80044150", "m", DV_VERDICT_RETRY, DV_MEANING_SERVER},
		{500, "0x80044151", "m", DV_VERDICT_RETRY, DV_MEANING_SQL_TIMEOUT},
		{504, "", "m", DV_VERDICT_RETRY, DV_MEANING_TIMEOUT},
		{503, "", "m", DV_VERDICT_RETRY, DV_MEANING_BUSY},
		{599, "", "m", DV_VERDICT_RETRY, DV_MEANING_SERVER},
		{400, "", "m", DV_VERDICT_REFUSED, DV_MEANING_OTHER},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < lengthof(known); i++)
	{
		dv_error	error = read_error(known[i].status, known[i].code, known[i].message, NULL);

		if (error.verdict != known[i].verdict || error.meaning != known[i].meaning)
			fail_msg("status %d, code \"%s\", message \"%s\": verdict %d, meaning %d",
					 known[i].status, known[i].code, known[i].message, error.verdict,
					 error.meaning);
	}
}

/* Errors with these codes are judged alike, whatever the status. */
static void
judged_alike(const char *const *codes, size_t n, const char *retry_after, dv_verdict verdict,
			 dv_meaning meaning)
{
	static const int statuses[] = {400, 403, 429, 500, 503};
	size_t		i;
	size_t		s;

	for (i = 0; i < n; i++)
	{
		for (s = 0; s < lengthof(statuses); s++)
		{
			dv_error	error = read_error(statuses[s], codes[i], "m", retry_after);

			if (error.verdict != verdict || error.meaning != meaning || error.outcome_unknown)
				fail_msg("status %d, code \"%s\", Retry-After %s: verdict %d, meaning %d",
						 statuses[s], codes[i], retry_after != NULL ? retry_after : "none",
						 error.verdict, error.meaning);
		}
	}
}

static const char *const busy[] = {
	"0x8005F103", "0x80072323", "0x80072324", "0x80072327", "0x80072329", "0x8004A001",
	"0x80048559", "0x80048d04"
};

static void
a_busy_server_that_says_when_throttles(void **state)
{
	(void) state;
	assert_int_equal(read_error(503, "", "m", "7").verdict, DV_VERDICT_THROTTLED);
	assert_int_equal(read_error(503, "", "m", "7").retry_after, 7000000);
	assert_int_equal(read_error(503, "", "m", NULL).verdict, DV_VERDICT_RETRY);
	assert_int_equal(read_error(503, "0x80040217", "m", "7").verdict, DV_VERDICT_REFUSED);
	judged_alike(busy, lengthof(busy), "7", DV_VERDICT_THROTTLED, DV_MEANING_BUSY);
}

/* It tells nothing about the user, whose other requests and limit are not affected. */
static void
a_busy_server_that_does_not_say_when_is_transient(void **state)
{
	(void) state;
	judged_alike(busy, lengthof(busy), NULL, DV_VERDICT_RETRY, DV_MEANING_BUSY);
}

/* Some of the attempts of such a query fail, from any user. */
static void
a_throttled_query_is_transient(void **state)
{
	static const char *const throttled[] = {
		"0x80048544", "0x80048644", "0x80048744", "0x80048745", "0x80050544"
	};
	static const char *const timeouts[] = {
		"0x80044151", "0x80048573", "0x80048574", "0x80048575"
	};

	(void) state;
	judged_alike(throttled, lengthof(throttled), NULL, DV_VERDICT_RETRY, DV_MEANING_SERVER);
	judged_alike(throttled, lengthof(throttled), "7", DV_VERDICT_RETRY, DV_MEANING_SERVER);
	judged_alike(timeouts, lengthof(timeouts), NULL, DV_VERDICT_RETRY, DV_MEANING_SQL_TIMEOUT);
	judged_alike(timeouts, lengthof(timeouts), "7", DV_VERDICT_RETRY, DV_MEANING_SQL_TIMEOUT);
	assert_int_equal(read_error(400, "-2147187388", "m", NULL).verdict, DV_VERDICT_RETRY);
}

static void
a_code_that_is_known_tells_the_outcome(void **state)
{
	(void) state;
	assert_true(read_error(500, "", "m", NULL).outcome_unknown);
	assert_false(read_error(500, "0x80040255", "m", NULL).outcome_unknown);
	assert_false(read_error(400, "", "m", NULL).outcome_unknown);
}

static void
an_error_without_a_code_has_no_name(void **state)
{
	dv_error	error = read_error(400, "0x80040237", "m", NULL);

	(void) state;
	error.name = "DuplicateRecord";
	assert_string_equal(dv_error_detail(&error),
						"Dataverse code 0x80040237 (DuplicateRecord), HTTP status 400.");
	/* an answer may name an error and leave out its code */
	error.code = "";
	assert_string_equal(dv_error_detail(&error), "HTTP status 400.");
}

static void
mistakes_have_hints(void **state)
{
	static const struct
	{
		int			status;
		const char *code;
		const char *message;
		const char *hint;		/* its beginning; NULL: none */
	}			mistakes[] = {
		{404, "0x80060888", "Resource not found for the segment 'accnts'.", "Check the name of the table"},
		{404, "0x8006088a", "m", "Check the name of the table"},
		{404, "0x80040217", "The entity with a name = 'accounts' was not found in the MetadataCache.",
		"Specify the logical name of the table"},
		{400, "0x0", "Could not find a property named 'nam' on type 'x'.", "Check the name of the column"},
		{400, "0x80048d19", "InnerException : Invalid property 'nam' was found in entity 'x'.", "Check the name of the column"},
		{400, "0x80048d19", "InnerException : Cannot convert the literal '1' to the expected type 'Edm.Boolean'.",
		"Check the type of the column"},
		{404, "", "", "Check options \"url\", \"api_version\""},
		{401, "", "Unauthorized", "Check that the application user exists"},
		{403, "", "Forbidden", "Check the security roles"},
		{400, "0x80048644", "m", "Dataverse accepts only some queries"},
		{503, "0x8004A001", "m", NULL},
		{403, "0x80072325", "m", NULL},
		{403, "0x80040220", "m", "Give the application user a security role"},
		{400, "0x80048d19", "m", NULL},
		{404, "0x80040217", "account With Id = 1 Does Not Exist", NULL},
		{500, "", "m", NULL},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < lengthof(mistakes); i++)
	{
		const char *hint = read_error(mistakes[i].status, mistakes[i].code, mistakes[i].message, NULL).hint;

		if (mistakes[i].hint == NULL ? hint != NULL :
			hint == NULL || strncmp(hint, mistakes[i].hint, strlen(mistakes[i].hint)) != 0)
			fail_msg("status %d, code \"%s\", message \"%s\": hint \"%s\"", mistakes[i].status,
					 mistakes[i].code, mistakes[i].message, hint != NULL ? hint : "");
	}
}

static void
a_detail_repeats_no_user(void **state)
{
	dv_error	error = {.code = "", .retry_after = -1, .user = "app1", .attempts = 2,
	.message = "timed out"};

	(void) state;
	assert_string_equal(dv_error_detail(&error), "Application user \"app1\", attempts 2.");
	error.message = "could not get a token for application user \"app1\": no";
	assert_string_equal(dv_error_detail(&error), "");
	error.user = "app";
	assert_string_equal(dv_error_detail(&error), "Application user \"app\", attempts 2.");
}

static int
teardown(void **state)
{
	(void) state;
	pg_stand_in_reset();
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(meanings, teardown),
		cmocka_unit_test_teardown(a_busy_server_that_says_when_throttles, teardown),
		cmocka_unit_test_teardown(a_busy_server_that_does_not_say_when_is_transient, teardown),
		cmocka_unit_test_teardown(a_throttled_query_is_transient, teardown),
		cmocka_unit_test_teardown(a_code_that_is_known_tells_the_outcome, teardown),
		cmocka_unit_test_teardown(an_error_without_a_code_has_no_name, teardown),
		cmocka_unit_test_teardown(mistakes_have_hints, teardown),
		cmocka_unit_test_teardown(a_detail_repeats_no_user, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

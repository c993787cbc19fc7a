/*
 * date_test.c
 *		Dates and Retry-After, in all forms that a server may send.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/date.h"

#define SECOND 1000000

static void
test_dates(void **state)
{
	(void) state;
	assert_int_equal(dv_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
	assert_int_equal(dv_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
	assert_int_equal(dv_http_date("Tue, 29 Feb 2028 23:59:59 GMT"), 1835481599);
	assert_int_equal(dv_http_date(NULL), -1);
	assert_int_equal(dv_http_date(""), -1);
	assert_int_equal(dv_http_date("yesterday"), -1);
	assert_int_equal(dv_http_date("Sun, 06 Nov"), -1);
	assert_int_equal(dv_http_date("Sun, 06 anF 1994 08:49:37 GMT"), -1);
	/* numbers that are not valid in dates */
	assert_int_equal(dv_http_date("Sun, -6 Nov 1994 08:49:37 GMT"), -1);
	assert_int_equal(dv_http_date("Sun, 32 Nov 1994 08:49:37 GMT"), -1);
	assert_int_equal(dv_http_date("Sun, 06 Nov 1969 08:49:37 GMT"), -1);
	assert_int_equal(dv_http_date("Sun, 06 Nov 1994 24:49:37 GMT"), -1);
	assert_int_equal(dv_http_date("Sun, 06 Nov 1994 08:-9:37 GMT"), -1);
	assert_int_equal(dv_http_date("Sun, 06 Nov 1994 08:49:61 GMT"), -1);
}

static void
test_retry_after(void **state)
{
	(void) state;
	assert_int_equal(dv_retry_after("0", NULL, 0), 0);
	assert_int_equal(dv_retry_after("30", NULL, 0), 30 * SECOND);
	assert_int_equal(dv_retry_after("427 ", NULL, 0), 427 * SECOND);
	assert_int_equal(dv_retry_after("1.5", NULL, 0), 1500000);
	/* a date in the future, and one in the past */
	assert_int_equal(dv_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", NULL, 784111777 - 12), 12 * SECOND);
	assert_int_equal(dv_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", NULL, 784111777 + 12), 0);
	/* waits of more than a year are ignored in both forms */
	/* by the service's clock, if it is known */
	assert_int_equal(dv_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:25 GMT", 784111777 - 3600), 12 * SECOND);
	assert_int_equal(dv_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:25 GMT", 784111777 + 3600), 12 * SECOND);
	assert_int_equal(dv_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", "today", 784111777 - 12), 12 * SECOND);
	assert_int_equal(dv_retry_after("7", "Sun, 06 Nov 1994 08:49:25 GMT", 0), 7 * SECOND);

	assert_int_equal(dv_retry_after("31622401", NULL, 0), -1);
	assert_int_equal(dv_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", NULL, 784111777 - 31622401), -1);
	assert_int_equal(dv_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", NULL, 784111777 - 31622400),
					 31622400 * INT64_C(1000000));
	/* absent, or malformed */
	assert_int_equal(dv_retry_after(NULL, NULL, 0), -1);
	assert_int_equal(dv_retry_after("", NULL, 0), -1);
	assert_int_equal(dv_retry_after("soon", NULL, 0), -1);
	assert_int_equal(dv_retry_after("-1", NULL, 0), -1);
	assert_int_equal(dv_retry_after("30x", NULL, 0), -1);
	assert_int_equal(dv_retry_after("nan", NULL, 0), -1);
	assert_int_equal(dv_retry_after("inf", NULL, 0), -1);
	assert_int_equal(dv_retry_after("1e30", NULL, 0), -1);
}

static void
test_numbers(void **state)
{
	static const char *const wrong[] = {
		"", "-1", "x", "nan", "inf", "1e300", "2147483648", "99999999999999999999999999999999999999999999999999999999999999999999"
	};
	size_t		i;

	(void) state;
	assert_true(dv_http_number("0") == 0);
	assert_true(dv_http_number("5") == 5);
	assert_true(dv_http_number("1,200.50") == 1200.5);
	assert_true(dv_http_number("2147483647") == 2147483647);
	assert_true(dv_http_number(NULL) == -1);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_true(dv_http_number(wrong[i]) == -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests_name("date", tests, NULL, NULL);
}

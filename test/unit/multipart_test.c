/*
 * multipart_test.c
 *		429 in the parts of a $batch's answer.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/multipart.h"

#define PART "--batchresponse_5d1\r\n" \
	"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
#define DONE PART "HTTP/1.1 204 No Content\r\nOData-Version: 4.0\r\n\r\n\r\n"
#define THROTTLED PART "HTTP/1.1 429 Too Many Requests\r\n" \
	"Content-Type: application/json\r\nRetry-After: 17\r\n\r\n" \
	"{\"error\":{\"code\":\"0x80072322\",\"message\":\"Number of requests\"}}\r\n"
#define END "--batchresponse_5d1--\r\n"

static int
count(const char *body, dv_part_throttle *last)
{
	dv_part_throttle throttle;
	size_t		at = 0;
	int			n = 0;

	while (dv_multipart_throttle(body, strlen(body), &at, &throttle))
	{
		*last = throttle;
		n++;
	}
	return n;
}

static void
finds_each(void **state)
{
	dv_part_throttle last = {0};

	(void) state;
	assert_int_equal(count(DONE DONE END, &last), 0);
	assert_int_equal(count(DONE THROTTLED DONE END, &last), 1);
	assert_string_equal(last.code, "0x80072322");
	assert_string_equal(last.retry_after, "17");
	assert_int_equal(count(THROTTLED DONE THROTTLED END, &last), 2);
}

static void
reads_what_there_is(void **state)
{
	dv_part_throttle last = {0};

	(void) state;
	assert_int_equal(count(PART "HTTP/1.1 429 Too Many Requests\n\n{}\n" END, &last), 1);
	assert_string_equal(last.code, "");
	assert_string_equal(last.retry_after, "");
	assert_int_equal(count(PART "HTTP/1.1 429\r\nretry-after:3\r\n\r\n{\"error\": {\"code\" : \"0x8005F103\"}}",
						   &last), 1);
	assert_string_equal(last.code, "0x8005F103");
	assert_string_equal(last.retry_after, "3");
}

static void
is_not_misled(void **state)
{
	dv_part_throttle last = {0};

	(void) state;
	assert_int_equal(count("{\"name\":\"HTTP/1.1 429 \\nHTTP/1.1 429 x\"}", &last), 0);
	assert_int_equal(count(PART "HTTP/1.1 4290\r\n\r\n", &last), 0);
	assert_int_equal(count("HTTP/1.1 42", &last), 0);
	assert_int_equal(count("", &last), 0);
	assert_true(dv_is_multipart("multipart/mixed; boundary=x"));
	assert_true(dv_is_multipart("Multipart/Mixed"));
	assert_false(dv_is_multipart("application/json"));
	assert_false(dv_is_multipart(NULL));
}

static void
survives_being_cut_anywhere(void **state)
{
	static const char whole[] = DONE THROTTLED END;
	dv_part_throttle throttle;
	size_t		len;

	(void) state;
	for (len = 0; len < sizeof(whole); len++)
	{
		char	   *copy = test_malloc(len + 1);
		size_t		at = 0;

		memcpy(copy, whole, len);
		while (dv_multipart_throttle(copy, len, &at, &throttle))
			assert_true(strlen(throttle.code) <= 10);
		test_free(copy);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_each),
		cmocka_unit_test(reads_what_there_is),
		cmocka_unit_test(is_not_misled),
		cmocka_unit_test(survives_being_cut_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

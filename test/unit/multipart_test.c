/*
 * multipart_test.c
 *		Reading the answer to a $batch, part by part.
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

#define TYPE "multipart/mixed; boundary=batchresponse_5d1"
#define PART "--batchresponse_5d1\r\n" \
	"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
#define DONE PART "HTTP/1.1 204 No Content\r\nOData-Version: 4.0\r\n\r\n\r\n"
#define FOUND PART "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"value\":[]}\r\n"
#define THROTTLED PART "HTTP/1.1 429 Too Many Requests\r\n" \
	"Content-Type: application/json\r\nRetry-After: 17\r\n\r\n" \
	"{\"error\":{\"code\":\"0x80072322\",\"message\":\"Number of requests\"}}\r\n"
#define END "--batchresponse_5d1--\r\n"

#define CHANGESET "--batchresponse_5d1\r\n" \
	"Content-Type: multipart/mixed; boundary=changesetresponse_9aa\r\n\r\n"
#define MEMBER(id) "--changesetresponse_9aa\r\n" \
	"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: " id "\r\n\r\n" \
	"HTTP/1.1 204 No Content\r\nOData-EntityId: https://x/y(" id ")\r\n\r\n\r\n"
#define THROTTLED_MEMBER "--changesetresponse_9aa\r\n" \
	"Content-Type: application/http\r\n\r\nHTTP/1.1 429 Too Many Requests\r\n\r\n\r\n"
#define CHANGESET_END "--changesetresponse_9aa--\r\n"

/* reads everything; returns the number of parts, or -1 minus the number if it is malformed */
static int
read_all(const char *type, const char *body, size_t len, dv_part *parts)
{
	dv_multipart multipart;
	dv_part		part;
	dv_part_step step;
	int			n = 0;

	if (!dv_multipart_open(&multipart, type, body, len))
		return -1;
	while ((step = dv_multipart_next(&multipart, &part)) == DV_PART)
	{
		if (parts != NULL)
			parts[n] = part;
		n++;
	}
	/* further calls return the same */
	assert_int_equal(dv_multipart_next(&multipart, &part), step);
	return step == DV_PART_END ? n : -1 - n;
}

static int
count_parts(const char *body)
{
	return read_all(TYPE, body, strlen(body), NULL);
}

static void
assert_slice(dv_slice s, const char *text)
{
	assert_non_null(s.s);
	assert_int_equal(s.len, strlen(text));
	assert_memory_equal(s.s, text, s.len);
}

static void
reads_parts(void **state)
{
	static const char body[] = DONE FOUND THROTTLED END;
	dv_part		parts[3];

	(void) state;
	assert_int_equal(read_all(TYPE, body, strlen(body), parts), 3);
	assert_int_equal(parts[0].status, 204);
	assert_int_equal(parts[0].body.len, 0);
	assert_int_equal(parts[0].content_id, -1);
	assert_int_equal(parts[0].changeset, 0);
	assert_slice(dv_part_header(&parts[0], "odata-version"), "4.0");
	assert_null(dv_part_header(&parts[0], "OData").s);
	assert_int_equal(parts[1].status, 200);
	assert_slice(parts[1].body, "{\"value\":[]}");
	assert_slice(dv_part_header(&parts[2], "Retry-After"), "17");
	assert_int_equal(count_parts(END), 0);
}

static void
reads_changesets(void **state)
{
	static const char body[] = DONE CHANGESET MEMBER("1") MEMBER("2") CHANGESET_END
	CHANGESET MEMBER("7") CHANGESET_END FOUND END;
	dv_part		parts[5];

	(void) state;
	assert_int_equal(read_all(TYPE, body, strlen(body), parts), 5);
	assert_int_equal(parts[0].changeset, 0);
	assert_int_equal(parts[1].changeset, 1);
	assert_int_equal(parts[1].content_id, 1);
	assert_int_equal(parts[2].content_id, 2);
	assert_slice(dv_part_header(&parts[2], "OData-EntityId"), "https://x/y(2)");
	assert_int_equal(parts[3].changeset, 2);
	assert_int_equal(parts[3].content_id, 7);
	assert_int_equal(parts[4].changeset, 0);
	assert_slice(parts[4].body, "{\"value\":[]}");
}

static void
is_lenient(void **state)
{
	static const char body[] = "preamble\n--x\nContent-Type:application/http\nContent-ID :3 \n\n"
	"HTTP/1.1 412\nREQ_ID:ab\nLocation:[y]\n\n{}\n--x--";
	dv_part		part;

	(void) state;
	assert_int_equal(read_all("Multipart/Mixed;charset=utf-8;Boundary=\"x\"", body, strlen(body),
							  &part), 1);
	assert_int_equal(part.status, 412);
	assert_int_equal(part.content_id, 3);
	assert_slice(dv_part_header(&part, "REQ_ID"), "ab");
	assert_slice(dv_part_header(&part, "Location"), "[y]");
	assert_slice(part.body, "{}");
	assert_int_equal(count_parts(DONE END "epilogue\r\n" DONE), 1);
	/* headers that end where the part ends */
	assert_int_equal(count_parts(PART "HTTP/1.1 204 No Content\r\n" END), 1);
}

static void
tells_what_is_broken(void **state)
{
	(void) state;
	assert_int_equal(count_parts(""), -1);
	assert_int_equal(count_parts("{\"error\":{}}"), -1);
	assert_int_equal(count_parts(DONE FOUND), -2);
	assert_int_equal(count_parts(DONE "--batchresponse_5d1\r\n"), -2);
	/* a delimiter with another boundary */
	assert_int_equal(count_parts(DONE "--batchresponse_5d12--\r\n"), -1);
	assert_int_equal(count_parts(DONE "--other--\r\n"), -1);
	/* not an HTTP response */
	assert_int_equal(count_parts(DONE PART "{}\r\n" END), -2);
	assert_int_equal(count_parts(DONE PART "HTTP/1.1 4290\r\n\r\n" END), -2);
	assert_int_equal(count_parts(DONE PART "HTTP/1.1 099 x\r\n\r\n" END), -2);
	/* a change set that does not end, a nested one, and one without a boundary */
	assert_int_equal(count_parts(CHANGESET MEMBER("1") END), -1);
	assert_int_equal(count_parts(CHANGESET CHANGESET_END END), 0);
	assert_int_equal(count_parts(CHANGESET "--changesetresponse_9aa\r\n"
								 "Content-Type: multipart/mixed; boundary=z\r\n\r\n--z--\r\n"
								 CHANGESET_END END), -1);
	assert_int_equal(count_parts("--batchresponse_5d1\r\nContent-Type: multipart/mixed\r\n\r\n"
								 MEMBER("1") CHANGESET_END END), -1);
}

static void
wants_a_boundary(void **state)
{
	dv_multipart multipart;

	(void) state;
	assert_true(dv_multipart_open(&multipart, "multipart/mixed; boundary=x", "", 0));
	assert_true(dv_multipart_open(&multipart, "Multipart/Mixed;boundary=x", "", 0));
	assert_false(dv_multipart_open(&multipart, "application/json", "", 0));
	assert_false(dv_multipart_open(&multipart, NULL, "", 0));
	assert_false(dv_multipart_open(&multipart, "application/json; boundary=x", "", 0));
	assert_false(dv_multipart_open(&multipart, "multipart/mixed", "", 0));
	assert_false(dv_multipart_open(&multipart, "multipart/mixed; boundary=", "", 0));
	assert_false(dv_multipart_open(&multipart, "multipart/mixed; boundary=\"", "", 0));
	assert_false(dv_multipart_open(&multipart, "multipart/mixed; boundary=\"\"", "", 0));
	assert_false(dv_multipart_open(&multipart, "multipart/mixed; aboundary=x", "", 0));
	assert_true(dv_multipart_open(&multipart, "multipart/mixed; a=b; boundary=x", "", 0));
	assert_true(dv_multipart_open(&multipart, "multipart/mixed; boundary=x; a=b", "", 0));
	assert_slice(multipart.whole.boundary, "x");
}

static int
count_failures(const char *body, dv_part *last)
{
	dv_multipart multipart;
	dv_part		part;
	int			n = 0;

	assert_true(dv_multipart_open(&multipart, TYPE, body, strlen(body)));
	while (dv_multipart_failure(&multipart, &part))
	{
		*last = part;
		n++;
	}
	return n;
}

static void
finds_failures(void **state)
{
	dv_part		last = {0};

	(void) state;
	assert_int_equal(count_failures(DONE DONE FOUND END, &last), 0);
	assert_int_equal(count_failures(DONE THROTTLED DONE END, &last), 1);
	assert_int_equal(last.status, 429);
	assert_slice(last.body, "{\"error\":{\"code\":\"0x80072322\",\"message\":\"Number of requests\"}}");
	assert_slice(dv_part_header(&last, "Retry-After"), "17");
	assert_int_equal(count_failures(THROTTLED DONE THROTTLED END, &last), 2);
	assert_int_equal(count_failures(CHANGESET THROTTLED_MEMBER CHANGESET_END DONE END, &last), 1);
	/* the parts before the error count */
	assert_int_equal(count_failures(THROTTLED DONE THROTTLED, &last), 1);
	assert_int_equal(count_failures(PART "HTTP/1.1 429 Too Many Requests\n\n{}\n" END, &last), 1);
	assert_slice(last.body, "{}");
	assert_null(dv_part_header(&last, "Retry-After").s);
	assert_int_equal(count_failures(PART "HTTP/1.1 400\r\nretry-after:3\r\n\r\n"
									"{\"error\": {\"code\" : \"0x8005F103\"}}\r\n" END, &last), 1);
	assert_int_equal(last.status, 400);
	assert_slice(dv_part_header(&last, "Retry-After"), "3");
	/* text of a row that looks like a status line */
	assert_int_equal(count_failures(PART "HTTP/1.1 200 OK\r\n\r\n"
									"{\"name\":\"HTTP/1.1 429 \\nHTTP/1.1 429 x\"}\r\n" END,
									&last), 0);
}

/* only the complete text is valid, and the reader never looks beyond its end */
static void
survives_being_cut_anywhere(void **state)
{
	static const char whole[] = DONE CHANGESET MEMBER("1") MEMBER("2") CHANGESET_END THROTTLED END;
	size_t		len;

	(void) state;
	for (len = 0; len < sizeof(whole); len++)
	{
		char	   *copy = test_malloc(len + 1);
		int			n;

		memcpy(copy, whole, len);
		n = read_all(TYPE, copy, len, NULL);
		/* the last delimiter needs no line end */
		if (len >= strlen(whole) - 2)
			assert_int_equal(n, 4);
		else
			assert_in_range(-1 - n, 0, 3);
		test_free(copy);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_parts),
		cmocka_unit_test(reads_changesets),
		cmocka_unit_test(is_lenient),
		cmocka_unit_test(tells_what_is_broken),
		cmocka_unit_test(wants_a_boundary),
		cmocka_unit_test(finds_failures),
		cmocka_unit_test(survives_being_cut_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * pg_batch_answer_test.c
 *		Answers to batches of rows, row by row.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "dataverse/batch_answer.h"
#include "pg_stand_in.h"

#define ID1 "00112233-4455-6677-8899-aabbccddeeff"
#define ID2 "FFEEDDCC-bbaa-9988-7766-554433221100"
#define MAX_ROWS 8

static const uint8 id1[DV_ID_LEN] = {
	0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff
};
static const uint8 id2[DV_ID_LEN] = {
	0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00
};

static dv_row_answer rows[MAX_ROWS];

static int
reset(void **state)
{
	pg_stand_in_reset();
	return 0;
}

/* reads from a copy that ends with its NUL */
static bool
ids_of(const char *text, int n, uint8 (*ids)[DV_ID_LEN])
{
	size_t		len = strlen(text);
	char	   *copy = test_malloc(len + 1);
	bool		ok;

	memcpy(copy, text, len + 1);
	ok = dv_batch_answer_ids(copy, len, n, ids);
	test_free(copy);
	return ok;
}

static void
reads_ids(void **state)
{
	uint8		ids[3][DV_ID_LEN];

	assert_true(ids_of("{\"@odata.context\":\"https://x/$metadata#Microsoft.Dynamics.CRM.CreateMultipleResponse\","
					   "\"Ids\":[\"" ID1 "\",\"" ID2 "\"]}", 2, ids));
	assert_memory_equal(ids[0], id1, DV_ID_LEN);
	assert_memory_equal(ids[1], id2, DV_ID_LEN);
	assert_true(ids_of(" {\n\"Ids\" : [ \"" ID2 "\" ] , \"a\\\"\" : {\"b\":[1,{}],\"c\":\"}\"},"
					   "\"d\":-1.5e3, \"e\":null}\r\n", 1, ids));
	assert_memory_equal(ids[0], id2, DV_ID_LEN);
}

static void
refuses_other_ids(void **state)
{
	static const char *const broken[] = {
		"", "{}", "[]", "null", "{\"Ids\":[]}", "{\"Ids\":null}", "{\"Ids\":[\"" ID1 "\"",
		"{\"Ids\":[\"" ID1 "\"]", "{\"Ids\":[\"" ID1 "\"]}x", "{\"Ids\":[\"" ID1 "\"]}{}",
		"{\"Ids\":[\"" ID1 "\",\"" ID2 "\"]}", "{\"Ids\":[\"" ID1 "\",]}", "{\"Ids\":[null]}",
		"{\"Ids\":[\"00112233-4455-6677-8899-aabbccddeef\"]}", "{\"Ids\":[\"\\u0030\"]}",
		"{\"Ids\":[\"" ID1 "\"],\"Ids\":[\"" ID1 "\"]}", "{\"ids\":[\"" ID1 "\"]}",
		"{\"Ids\":[\"" ID1 "\"],}", "{\"a\":[},\"Ids\":[\"" ID1 "\"]}",
		"{\"a\":{\"Ids\":[\"" ID1 "\"]}}", "{\"a\":\"x\n\",\"Ids\":[\"" ID1 "\"]}",
		"{\"a\":\"\\", "{\"\\u\":\"\"", "{\"\\u00",
	};
	uint8		ids[1][DV_ID_LEN];
	int			i;

	for (i = 0; i < (int) lengthof(broken); i++)
		if (ids_of(broken[i], 1, ids))
			fail_msg("taken: %s", broken[i]);
	/* nested deeper than any answer of the service */
	assert_false(ids_of("{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
						1, ids));
}

static bool
details(const char *text, int n)
{
	dv_error	whole = {
		.verdict = DV_VERDICT_REFUSED, .retry_after = 5000000, .status = 400, .code = "0x80048d0b",
		.message = "Entity Does Not Exist", .request_id = "r-1", .details = text
	};

	return dv_batch_answer_details(&whole, n, rows);
}

static void
reads_details(void **state)
{
	assert_true(details("[{\"RequestIndex\":2,\"Id\":\"" ID1 "\",\"StatusCode\":201},"
						"{\"RequestIndex\":0,\"Id\":\"\",\"StatusCode\":409}]", 4));
	assert_true(rows[2].told && rows[2].has_id);
	assert_int_equal(rows[2].error.verdict, DV_VERDICT_OK);
	assert_memory_equal(rows[2].id, id1, DV_ID_LEN);
	assert_true(rows[0].told && !rows[0].has_id);
	assert_int_equal(rows[0].status, 409);
	assert_int_equal(rows[0].error.verdict, DV_VERDICT_REFUSED);
	assert_int_equal(rows[0].error.sqlstate, ERRCODE_UNIQUE_VIOLATION);
	/* it is the only one that failed, so the message is about it */
	assert_string_equal(rows[0].error.message, "Entity Does Not Exist");
	assert_string_equal(rows[0].error.request_id, "r-1");
	assert_false(rows[1].told || rows[3].told);
}

static void
judges_details(void **state)
{
	assert_true(details("[{\"RequestIndex\":0,\"StatusCode\":429},"
						"{\"RequestIndex\":1,\"StatusCode\":424},"
						"{\"RequestIndex\":2,\"StatusCode\":404},"
						"{\"RequestIndex\":3,\"StatusCode\":413},"
						"{\"RequestIndex\":4,\"StatusCode\":503},"
						"{\"RequestIndex\":5,\"StatusCode\":408}]", 6));
	assert_int_equal(rows[0].error.verdict, DV_VERDICT_THROTTLED);
	assert_int_equal(rows[0].error.retry_after, 5000000);
	assert_int_equal(rows[1].error.verdict, DV_VERDICT_RETRY);
	assert_false(rows[1].error.outcome_unknown);
	assert_int_equal(rows[2].error.verdict, DV_VERDICT_REFUSED);
	assert_int_equal(rows[2].status, 404);
	assert_string_equal(rows[2].error.message,
						"status 404; the error of the whole request is: Entity Does Not Exist");
	assert_true(rows[2].error.vague);
	assert_int_equal(rows[3].error.sqlstate, ERRCODE_PROGRAM_LIMIT_EXCEEDED);
	assert_true(rows[5].error.outcome_unknown);
}

static void
refuses_other_details(void **state)
{
	static const char *const broken[] = {
		"", "{}", "null", "[1]", "[{}]", "[{\"RequestIndex\":0}]", "[{\"StatusCode\":409}]",
		"[{\"RequestIndex\":2,\"StatusCode\":409}]", "[{\"RequestIndex\":-1,\"StatusCode\":409}]",
		"[{\"RequestIndex\":\"0\",\"StatusCode\":409}]", "[{\"RequestIndex\":0,\"StatusCode\":\"\"}]",
		"[{\"RequestIndex\":0,\"StatusCode\":0}]", "[{\"RequestIndex\":0,\"StatusCode\":304}]", "[{\"RequestIndex\":0,\"StatusCode\":409}",
		"[{\"RequestIndex\":0,\"StatusCode\":409},{\"RequestIndex\":0,\"StatusCode\":201}]",
	};
	int			i;

	assert_false(details(NULL, 2));
	for (i = 0; i < (int) lengthof(broken); i++)
	{
		if (details(broken[i], 2))
			fail_msg("taken: %s", broken[i]);
		assert_false(rows[0].told || rows[1].told);
	}
	assert_true(details("[]", 2));
}

#define CONTENT_TYPE "multipart/mixed; boundary=b"
#define PART "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
#define CREATED PART "HTTP/1.1 204 No Content\r\nOData-Version: 4.0\r\n" \
	"Location: https://h/api/data/v9.2/accounts(" ID1 ")\r\n" \
	"OData-EntityId: https://h/api/data/v9.2/accounts(" ID1 ")\r\n\r\n\r\n"
#define DUPLICATE "HTTP/1.1 412 Precondition Failed\r\n" \
	"Content-Type: application/json\r\nREQ_ID: r-2\r\n\r\n" \
	"{\"error\":{\"code\":\"0x80040237\",\"message\":\"A record with matching key values already exists.\"}}\r\n"
#define THROTTLED "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\r\n" \
	"{\"error\":{\"code\":\"0x80072322\",\"message\":\"Number of requests\"}}\r\n"
#define END "--b--\r\n"

static bool
parts(const char *text, int n)
{
	return dv_batch_answer_parts(CONTENT_TYPE, text, strlen(text), n, rows);
}

static void
reads_parts(void **state)
{
	assert_true(parts(CREATED PART DUPLICATE PART THROTTLED
					  PART "HTTP/1.1 204 No Content\r\n"
					  "OData-EntityId: https://h/api/data/v9.2/accounts(accountnumber='A')\r\n\r\n\r\n"
					  END, 5));
	assert_true(rows[0].told && rows[0].has_id);
	assert_int_equal(rows[0].error.verdict, DV_VERDICT_OK);
	assert_memory_equal(rows[0].id, id1, DV_ID_LEN);
	assert_int_equal(rows[1].status, 412);
	assert_string_equal(rows[1].error.code, "0x80040237");
	assert_string_equal(rows[1].error.request_id, "r-2");
	assert_int_equal(rows[1].error.sqlstate, ERRCODE_UNIQUE_VIOLATION);
	assert_false(rows[1].has_id);
	assert_int_equal(rows[2].error.verdict, DV_VERDICT_THROTTLED);
	assert_int_equal(rows[2].error.retry_after, 7000000);
	assert_true(rows[3].told && !rows[3].has_id);
	/* the answer ended early */
	assert_false(rows[4].told);
}

static void
refuses_other_parts(void **state)
{
	assert_false(parts(CREATED PART DUPLICATE, 2));
	assert_true(rows[0].told);
	assert_false(rows[1].told);
	/* neither success nor failure */
	assert_false(parts(CREATED PART "HTTP/1.1 304 Not Modified\r\n\r\n\r\n" END, 2));
	assert_false(parts(CREATED PART "HTTP/1.1 100 Continue\r\n\r\n\r\n" END, 2));
	assert_true(rows[0].told);
	assert_false(rows[1].told);
	/* more parts than requests */
	assert_false(parts(CREATED CREATED CREATED END, 2));
	assert_false(parts("{\"error\":{}}", 2));
	assert_false(dv_batch_answer_parts("application/json", CREATED END, strlen(CREATED END), 1, rows));
	assert_false(rows[0].told);
	assert_false(parts("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n"
					   "--c\r\nContent-ID: 1\r\n\r\nHTTP/1.1 204 x\r\n\r\n\r\n--c--\r\n" END, 1));
}

#define CHANGESET(members) "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n" members "--c--\r\n" END
#define ANONYMOUS "--c\r\nContent-Type: application/http\r\n\r\n"
#define MEMBER(id) "--c\r\nContent-Type: application/http\r\nContent-ID: " id "\r\n\r\n"
#define GOOD "HTTP/1.1 204 No Content\r\nOData-EntityId: https://h/accounts(" ID1 ")\r\n\r\n\r\n"

static bool
changeset(const char *text, int n, int *failed)
{
	return dv_batch_answer_changeset(CONTENT_TYPE, text, strlen(text), n, rows, failed);
}

static void
reads_changesets(void **state)
{
	int			failed;

	assert_true(changeset(CHANGESET(MEMBER("2") GOOD MEMBER("1") GOOD), 2, &failed));
	assert_int_equal(failed, -1);
	assert_true(rows[0].told && rows[1].told && rows[1].has_id);
	assert_true(changeset(CHANGESET(ANONYMOUS GOOD ANONYMOUS GOOD), 2, &failed));
	assert_int_equal(failed, -1);

	assert_true(changeset(CHANGESET(MEMBER("2") DUPLICATE), 3, &failed));
	assert_int_equal(failed, 1);
	assert_false(rows[0].told || rows[2].told);
	assert_int_equal(rows[1].error.sqlstate, ERRCODE_UNIQUE_VIOLATION);

	/* the answer does not say which request failed */
	assert_true(changeset(CHANGESET(MEMBER("4") DUPLICATE), 3, &failed));
	assert_int_equal(failed, 3);
	assert_string_equal(rows[0].error.code, "0x80040237");
	assert_true(changeset(PART THROTTLED END, 2, &failed));
	assert_int_equal(failed, 2);
	assert_int_equal(rows[0].error.verdict, DV_VERDICT_THROTTLED);
}

static void
refuses_other_changesets(void **state)
{
	int			failed;

	assert_false(changeset(CHANGESET(MEMBER("1") GOOD), 2, &failed));
	assert_false(changeset(CHANGESET(MEMBER("1") GOOD MEMBER("1") GOOD), 2, &failed));
	assert_false(changeset(CHANGESET(MEMBER("1") GOOD MEMBER("3") GOOD), 2, &failed));
	assert_false(changeset(CHANGESET(MEMBER("1") GOOD MEMBER("2") GOOD MEMBER("3") GOOD), 2, &failed));
	/* if only some requests succeeded, it was not a change set */
	assert_false(changeset(CHANGESET(MEMBER("1") GOOD MEMBER("2") DUPLICATE), 2, &failed));
	assert_false(changeset(CHANGESET(MEMBER("2") DUPLICATE MEMBER("1") GOOD), 2, &failed));
	assert_false(changeset(CHANGESET(MEMBER("1") DUPLICATE MEMBER("2") DUPLICATE), 2, &failed));
	assert_false(changeset(PART GOOD END, 1, &failed));
	assert_false(changeset(CHANGESET(MEMBER("1") "HTTP/1.1 304 x\r\n\r\n\r\n"), 1, &failed));
	assert_false(changeset(END, 1, &failed));
	assert_false(changeset("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n"
						   MEMBER("1") GOOD END, 1, &failed));
	assert_false(changeset(CHANGESET(MEMBER("1") GOOD) "x", 2, &failed));
}

static bool
found_of(const char *text, int n)
{
	return dv_batch_answer_found("multipart/mixed; boundary=batchresponse_1", text, strlen(text),
								 "accountid", n, rows);
}

#define FOUND_PART(status, body) "--batchresponse_1\r\nContent-Type: application/http\r\n\r\n" \
	"HTTP/1.1 " status "\r\nContent-Type: application/json\r\n\r\n" body "\r\n"
#define FOUND_END "--batchresponse_1--\r\n"

static void
reads_found(void **state)
{
	assert_true(found_of(FOUND_PART("200 OK", "{\"value\":[{\"@odata.etag\":\"x\",\"accountid\":\"" ID2 "\"}]}")
						 FOUND_PART("200 OK", "{\"value\":[]}")
						 FOUND_PART("200 OK", "{\"value\":[{\"accountid\":\"" ID1 "\"},{\"accountid\":\"" ID2 "\"}]}")
						 FOUND_PART("403 Forbidden", "{\"error\":{\"code\":\"0x80040220\",\"message\":\"no\"}}")
						 FOUND_END, 4));
	assert_true(rows[0].told && rows[0].has_id);
	assert_int_equal(rows[0].error.verdict, DV_VERDICT_OK);
	assert_memory_equal(rows[0].id, id2, DV_ID_LEN);
	assert_true(rows[1].told && !rows[1].has_id);
	assert_int_equal(rows[1].error.verdict, DV_VERDICT_OK);
	assert_true(rows[2].told);
	assert_int_equal(rows[2].error.verdict, DV_VERDICT_REFUSED);
	assert_int_equal(rows[2].error.sqlstate, ERRCODE_CARDINALITY_VIOLATION);
	assert_true(rows[3].told);
	assert_int_not_equal(rows[3].error.verdict, DV_VERDICT_OK);
}

/* any other page proves nothing: above all, not that there is no row */
static void
refuses_other_found(void **state)
{
	assert_true(found_of(FOUND_PART("200 OK", "{\"value\":[{\"accountid\":\"" ID1 "\"}]")
						 FOUND_PART("200 OK", "<html></html>")
						 FOUND_PART("200 OK", "{\"value\":[{\"accountid\":\"x\"}]}")
						 FOUND_PART("200 OK", "{\"value\":[{}]}")
						 FOUND_PART("204 No Content", "")
						 FOUND_PART("200 OK", "{\"value\":[]}") FOUND_END, 6));
	assert_false(rows[0].told);
	assert_false(rows[1].told);
	assert_false(rows[2].told);
	assert_false(rows[3].told);
	assert_false(rows[4].told);
	assert_true(rows[5].told);
	assert_false(found_of(FOUND_PART("200 OK", "{\"value\":[]}") FOUND_PART("200 OK", "{\"value\":[]}"), 2));
	assert_true(rows[0].told);
	assert_false(rows[1].told);
	assert_false(found_of(FOUND_PART("200 OK", "{\"value\":[]}") FOUND_PART("200 OK", "{\"value\":[]}") FOUND_END, 1));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(reads_ids, reset),
		cmocka_unit_test_teardown(refuses_other_ids, reset),
		cmocka_unit_test_teardown(reads_details, reset),
		cmocka_unit_test_teardown(judges_details, reset),
		cmocka_unit_test_teardown(refuses_other_details, reset),
		cmocka_unit_test_teardown(reads_parts, reset),
		cmocka_unit_test_teardown(refuses_other_parts, reset),
		cmocka_unit_test_teardown(reads_found, reset),
		cmocka_unit_test_teardown(refuses_other_found, reset),
		cmocka_unit_test_teardown(reads_changesets, reset),
		cmocka_unit_test_teardown(refuses_other_changesets, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

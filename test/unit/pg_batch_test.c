/*
 * pg_batch_test.c
 *		Bulk messages and $batches made from rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "dataverse/address.h"
#include "dataverse/batch.h"
#include "pg_stand_in.h"

#define ID1 "00112233-4455-6677-8899-aabbccddeeff"
#define ID2 "ffeeddcc-bbaa-9988-7766-554433221100"
#define TYPE "\"@odata.type\":\"Microsoft.Dynamics.CRM.account\""

static const uint8 id1[DV_ID_LEN] = {
	0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff
};
static const uint8 id2[DV_ID_LEN] = {
	0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00
};

static const char *const headers[] = {"Prefer: a", "MSCRMCallerID: b", NULL};

static dv_destination destination = {
	.root = "https://contoso.crm.dynamics.com/api/data/v9.2/",
	.table = "account",
	.entity_set = "accounts",
	.primary_id = "accountid",
	.type = DV_TABLE_STANDARD
};

static dv_destination elastic = {
	.root = "https://contoso.crm.dynamics.com/api/data/v9.2/",
	.table = "account",
	.entity_set = "accounts",
	.primary_id = "accountid",
	.type = DV_TABLE_ELASTIC,
	.tag = "load%201",
	.headers = headers
};

static int
reset(void **state)
{
	pg_stand_in_reset();
	return 0;
}

static dv_batch_row *
add(dv_batch *batch, const uint8 *id, const char *address, const char *members)
{
	dv_batch_row *row = dv_batch_begin_row(batch, id, address);

	row->ordinal = batch->nrows;
	appendStringInfoString(&batch->bytes, members);
	dv_batch_end_row(batch);
	return row;
}

static dv_batch_row *
add_keyed(dv_batch *batch, const char *address, dv_key_fit fit, const char *members)
{
	const dv_batch_key key = {
		.address = address, .fit = fit, .members = ",\"k\":\"K\"", .new_id = id2
	};
	dv_batch_row *row = dv_batch_begin_keyed_row(batch, &key);

	row->ordinal = batch->nrows;
	appendStringInfoString(&batch->bytes, members);
	dv_batch_end_row(batch);
	return row;
}

static void
assert_body(dv_batch *batch, const char *expected)
{
	dv_batch_seal(batch);
	assert_string_equal(batch->bytes.data, expected);
	assert_int_equal(batch->bytes.len, strlen(expected));
}

static void
assert_object(const dv_batch *batch, int i, const char *expected)
{
	size_t		len;
	const char *object = dv_batch_object(batch, &batch->rows[i], &len);

	assert_int_equal(len, strlen(expected));
	assert_memory_equal(object, expected, len);
}

static const char *
parts(const dv_batch *batch, dv_parts how)
{
	StringInfoData body;
	const char *type;

	initStringInfo(&body);
	dv_batch_parts(batch, how, &body, &type);
	assert_string_equal(type, "Content-Type: multipart/mixed; boundary=batch_dataverse_fdw");
	return body.data;
}

static void
writes_creates(void **state)
{
	dv_batch   *batch = dv_batch_create(DV_CREATE, &destination, 1);

	add(batch, id1, NULL, ",\"name\":\"A\"");
	add(batch, NULL, NULL, ",\"name\":\"B\"");
	add(batch, NULL, NULL, "");
	assert_true(batch->rows[0].has_id);
	assert_false(batch->rows[1].has_id);
	assert_body(batch, "{\"Targets\":[{" TYPE ",\"accountid\":\"" ID1 "\",\"name\":\"A\"},"
				"{" TYPE ",\"name\":\"B\"},{" TYPE "}]}");
	assert_object(batch, 1, "{" TYPE ",\"name\":\"B\"}");
	assert_string_equal(dv_batch_bulk_path(batch), "accounts/Microsoft.Dynamics.CRM.CreateMultiple");
}

static void
writes_updates_and_upserts(void **state)
{
	dv_batch   *batch = dv_batch_create(DV_UPDATE, &elastic, 10);

	add(batch, id2, NULL, ",\"name\":null");
	assert_body(batch, "{\"Targets\":[{" TYPE ",\"accountid\":\"" ID2 "\",\"name\":null}]}");
	assert_string_equal(dv_batch_bulk_path(batch),
						"accounts/Microsoft.Dynamics.CRM.UpdateMultiple?tag=load%201");

	batch = dv_batch_create(DV_UPSERT, &destination, 10);
	add(batch, id1, NULL, ",\"a\":1");
	add_keyed(batch, "accounts(accountnumber='x ''\"\\')", DV_KEY_FITS_NOWHERE, ",\"a\":2");
	add_keyed(batch, "accounts(b=1)", DV_KEY_FITS, "");
	assert_body(batch, "{\"Targets\":[{" TYPE ",\"accountid\":\"" ID1 "\",\"a\":1},"
				"{" TYPE ",\"@odata.id\":\"accounts(accountnumber='x ''\\\"\\\\')\",\"a\":2},"
				"{" TYPE ",\"@odata.id\":\"accounts(b=1)\"}]}");
	assert_string_equal(dv_batch_bulk_path(batch), "accounts/Microsoft.Dynamics.CRM.UpsertMultiple");
}

static void
has_no_message_for_some(void **state)
{
	assert_null(dv_batch_bulk_path(dv_batch_create(DV_DELETE, &destination, 1)));
	assert_string_equal(dv_batch_bulk_path(dv_batch_create(DV_DELETE, &elastic, 1)),
						"accounts/Microsoft.Dynamics.CRM.DeleteMultiple?tag=load%201");
	assert_null(dv_batch_bulk_path(dv_batch_create(DV_ASSOCIATE, &elastic, 1)));
	assert_null(dv_batch_bulk_path(dv_batch_create(DV_DISASSOCIATE, &elastic, 1)));
}

#define B "--batch_dataverse_fdw"
#define C "--changeset_dataverse_fdw"
#define MIME "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
#define JSON "Content-Type: application/json\r\n"
#define EXTRA "Prefer: a\r\nMSCRMCallerID: b\r\n"

static void
writes_single_parts(void **state)
{
	dv_batch   *batch = dv_batch_create(DV_CREATE, &destination, 1);

	add(batch, id1, NULL, ",\"name\":\"A\"");
	add(batch, NULL, NULL, ",\"name\":\"B\"");
	add(batch, NULL, NULL, "");
	dv_batch_seal(batch);
	assert_string_equal(parts(batch, DV_PARTS_SINGLE),
						B MIME "\r\nPOST /api/data/v9.2/accounts HTTP/1.1\r\n" JSON "\r\n"
						"{\"accountid\":\"" ID1 "\",\"name\":\"A\"}\r\n"
						B MIME "\r\nPOST /api/data/v9.2/accounts HTTP/1.1\r\n" JSON "\r\n"
						"{\"name\":\"B\"}\r\n"
						B MIME "\r\nPOST /api/data/v9.2/accounts HTTP/1.1\r\n" JSON "\r\n{}\r\n"
						B "--\r\n");

	batch = dv_batch_create(DV_DELETE, &destination, 1);
	add(batch, id1, NULL, "");
	add(batch, NULL, "accounts(accountnumber='A-1')", "");
	dv_batch_seal(batch);
	assert_string_equal(parts(batch, DV_PARTS_SINGLE),
						B MIME "\r\nDELETE /api/data/v9.2/accounts(" ID1 ") HTTP/1.1\r\n\r\n\r\n"
						B MIME "\r\nDELETE /api/data/v9.2/accounts(accountnumber='A-1') HTTP/1.1\r\n\r\n\r\n"
						B "--\r\n");
}

static void
writes_changesets(void **state)
{
	dv_batch   *batch = dv_batch_create(DV_UPDATE, &elastic, 1);

	add(batch, id1, "accounts(accountid=" ID1 ",partitionid='p')", ",\"a\":1");
	add(batch, id2, NULL, "");
	dv_batch_seal(batch);
	assert_string_equal(parts(batch, DV_PARTS_CHANGESET),
						B "\r\nContent-Type: multipart/mixed; boundary=changeset_dataverse_fdw\r\n\r\n"
						C MIME "Content-ID: 1\r\n\r\n"
						"PATCH /api/data/v9.2/accounts(accountid=" ID1
						",partitionid='p')?tag=load%201 HTTP/1.1\r\n"
						EXTRA "If-Match: *\r\n" JSON "\r\n{\"a\":1}\r\n"
						C MIME "Content-ID: 2\r\n\r\n"
						"PATCH /api/data/v9.2/accounts(" ID2 ")?tag=load%201 HTTP/1.1\r\n"
						EXTRA "If-Match: *\r\n" JSON "\r\n{}\r\n"
						C "--\r\n\r\n" B "--\r\n");
}

/* an upsert creates missing rows */
static void
writes_upserts_without_a_condition(void **state)
{
	dv_batch   *batch = dv_batch_create(DV_UPSERT, &destination, 1);

	add_keyed(batch, "accounts(k='\"')", DV_KEY_FITS, ",\"a\":1");
	dv_batch_seal(batch);
	assert_string_equal(parts(batch, DV_PARTS_SINGLE),
						B MIME "\r\nPATCH /api/data/v9.2/accounts(k='%22') HTTP/1.1\r\n" JSON
						"\r\n{\"a\":1}\r\n" B "--\r\n");
}

/* bulk messages do not support versions, so each row is a request of its own */
static void
writes_versions(void **state)
{
	dv_destination versions = destination;
	dv_batch   *batch;
	dv_batch   *copy;

	versions.match_version = true;
	assert_null(dv_batch_bulk_path(dv_batch_create(DV_UPDATE, &versions, 1)));
	batch = dv_batch_create(DV_UPDATE, &versions, 1);
	dv_batch_begin_row(batch, id1, NULL);
	dv_batch_set_version(batch, INT64CONST(1234567890123));
	appendStringInfoString(&batch->bytes, ",\"a\":1");
	dv_batch_end_row(batch);
	dv_batch_begin_row(batch, id2, NULL);
	dv_batch_set_version(batch, 2);
	dv_batch_end_row(batch);
	dv_batch_seal(batch);
	assert_string_equal(parts(batch, DV_PARTS_SINGLE),
						B MIME "\r\nPATCH /api/data/v9.2/accounts(" ID1 ") HTTP/1.1\r\n"
						"If-Match: W/\"1234567890123\"\r\n" JSON "\r\n{\"a\":1}\r\n"
						B MIME "\r\nPATCH /api/data/v9.2/accounts(" ID2 ") HTTP/1.1\r\n"
						"If-Match: W/\"2\"\r\n" JSON "\r\n{}\r\n" B "--\r\n");

	batch = dv_batch_create(DV_DELETE, &versions, 1);
	dv_batch_begin_row(batch, id1, NULL);
	dv_batch_set_version(batch, 3);
	dv_batch_end_row(batch);
	/* rows that are sent again have the same versions */
	copy = dv_batch_create(DV_DELETE, &versions, 1);
	dv_batch_copy_row(copy, batch, &batch->rows[0], false);
	dv_batch_seal(copy);
	assert_string_equal(parts(copy, DV_PARTS_SINGLE),
						B MIME "\r\nDELETE /api/data/v9.2/accounts(" ID1 ") HTTP/1.1\r\n"
						"If-Match: W/\"3\"\r\n\r\n\r\n" B "--\r\n");
}

/* a partition that is in the address is not repeated in the body of a part */
static void
extends_heads(void **state)
{
	dv_batch   *batch = dv_batch_create(DV_UPDATE, &elastic, 1);

	dv_batch_begin_row(batch, id1, "accounts(accountid=" ID1 ",partitionid='p%20q')");
	appendStringInfoString(&batch->bytes, ",\"partitionid\":\"p q\"");
	dv_batch_end_head(batch);
	appendStringInfoString(&batch->bytes, ",\"a\":1");
	dv_batch_end_row(batch);
	add(batch, id2, NULL, ",\"partitionid\":\"p#\"");
	assert_body(batch, "{\"Targets\":[{" TYPE ",\"accountid\":\"" ID1 "\",\"partitionid\":\"p q\",\"a\":1},"
				"{" TYPE ",\"accountid\":\"" ID2 "\",\"partitionid\":\"p#\"}]}");
	assert_string_equal(parts(batch, DV_PARTS_SINGLE),
						B MIME "\r\nPATCH /api/data/v9.2/accounts(accountid=" ID1
						",partitionid='p%20q')?tag=load%201 HTTP/1.1\r\n"
						EXTRA "If-Match: *\r\n" JSON "\r\n{\"a\":1}\r\n"
						B MIME "\r\nPATCH /api/data/v9.2/accounts(" ID2 ")?tag=load%201 HTTP/1.1\r\n"
						EXTRA "If-Match: *\r\n" JSON "\r\n{\"partitionid\":\"p#\"}\r\n"
						B "--\r\n");
}

static void
searches(void **state)
{
	dv_destination impersonating = destination;
	dv_batch   *batch;
	StringInfoData body;
	const char *type;

	impersonating.caller = "me";
	batch = dv_batch_create(DV_UPSERT, &impersonating, 1);
	add_keyed(batch, "accounts(k='1')", DV_KEY_FITS, "");
	add_keyed(batch, "accounts(k='2')", DV_KEY_FITS_BODIES, "");
	add_keyed(batch, "accounts(k='it''s 5/6',n=3)", DV_KEY_FITS_NOWHERE, "");
	add(batch, id1, NULL, "");
	assert_false(dv_batch_is_sought(&batch->rows[0], true));
	assert_true(dv_batch_is_sought(&batch->rows[1], true));
	assert_false(dv_batch_is_sought(&batch->rows[1], false));
	assert_true(dv_batch_is_sought(&batch->rows[2], false));
	assert_false(dv_batch_is_sought(&batch->rows[3], true));
#define SEARCH "\r\nGET /api/data/v9.2/accounts?$select=accountid&$top=2&$filter="
#define HEADERS " HTTP/1.1\r\nAccept: application/json\r\nCallerObjectId: me\r\n\r\n\r\n"
	initStringInfo(&body);
	dv_batch_search(batch, false, &body, &type);
	assert_string_equal(body.data, B MIME SEARCH "k%20eq%20'it''s%205%2F6'%20and%20n%20eq%203" HEADERS
						B "--\r\n");
	assert_string_equal(type, "Content-Type: multipart/mixed; boundary=batch_dataverse_fdw");
	initStringInfo(&body);
	dv_batch_search(batch, true, &body, &type);
	assert_string_equal(body.data, B MIME SEARCH "k%20eq%20'2'" HEADERS
						B MIME SEARCH "k%20eq%20'it''s%205%2F6'%20and%20n%20eq%203" HEADERS B "--\r\n");
}

/* back and forth between a row in its original form, an update and an upsert by id */
static void
copies_keyed_rows(void **state)
{
#define TAKEN "{" TYPE ",\"@odata.id\":\"accounts(k='5/6')\",\"a\":1}"
#define FOUND "{" TYPE ",\"accountid\":\"" ID1 "\",\"a\":1}"
#define MISSING "{" TYPE ",\"accountid\":\"" ID2 "\",\"k\":\"K\",\"a\":1}"
	dv_batch   *from = dv_batch_create(DV_UPSERT, &destination, 1);
	dv_batch   *found = dv_batch_create(DV_UPDATE, &destination, 1);
	dv_batch   *missing = dv_batch_create(DV_UPSERT, &destination, 1);
	dv_batch   *again = dv_batch_create(DV_UPSERT, &destination, 1);
	dv_batch   *last = dv_batch_create(DV_UPSERT, &destination, 1);
	dv_batch_row *row;
	int			i;

	add_keyed(from, "accounts(k='5/6')", DV_KEY_FITS_NOWHERE, ",\"a\":1")->key = 9;
	dv_batch_copy_keyed_row(found, from, &from->rows[0], id1);
	dv_batch_copy_keyed_row(missing, from, &from->rows[0], from->rows[0].id);
	row = dv_batch_copy_keyed_row(again, found, &found->rows[0], NULL);
	assert_true(dv_batch_is_sought(row, false));
	assert_false(dv_batch_is_sought(&found->rows[0], true));
	assert_int_equal(row->ordinal, 1);
	assert_int_equal(row->key, 9);
	dv_batch_copy_keyed_row(again, missing, &missing->rows[0], NULL);
	dv_batch_copy_keyed_row(last, again, &again->rows[1], id2);
	assert_object(from, 0, TAKEN);
	assert_object(found, 0, TAKEN);
	assert_object(missing, 0, TAKEN);
	for (i = 0; i < 2; i++)
		assert_object(again, i, TAKEN);
	assert_body(found, "{\"Targets\":[" FOUND "]}");
	assert_body(missing, "{\"Targets\":[" MISSING "]}");
	assert_body(again, "{\"Targets\":[" TAKEN "," TAKEN "]}");
	assert_body(last, "{\"Targets\":[" MISSING "]}");
	assert_string_equal(parts(found, DV_PARTS_SINGLE),
						B MIME "\r\nPATCH /api/data/v9.2/accounts(" ID1 ") HTTP/1.1\r\nIf-Match: *\r\n" JSON
						"\r\n{\"a\":1}\r\n" B "--\r\n");
	assert_string_equal(parts(missing, DV_PARTS_SINGLE),
						B MIME "\r\nPATCH /api/data/v9.2/accounts(" ID2 ") HTTP/1.1\r\n" JSON
						"\r\n{\"k\":\"K\",\"a\":1}\r\n" B "--\r\n");
}

static void
writes_references(void **state)
{
	dv_batch   *batch = dv_batch_create(DV_ASSOCIATE, &elastic, 1);

	add(batch, NULL, "accounts(x)/nav/$ref", ",\"@odata.id\":\"https://h/contacts(y)\"");
	dv_batch_seal(batch);
	assert_string_equal(parts(batch, DV_PARTS_SINGLE),
						B MIME "\r\nPOST /api/data/v9.2/accounts(x)/nav/$ref?tag=load%201 HTTP/1.1\r\n"
						EXTRA JSON "\r\n{\"@odata.id\":\"https://h/contacts(y)\"}\r\n" B "--\r\n");

	batch = dv_batch_create(DV_DISASSOCIATE, &elastic, 1);
	add(batch, NULL, "accounts(x)/nav/$ref?$id=https://h/contacts(y)", "");
	dv_batch_seal(batch);
	assert_string_equal(parts(batch, DV_PARTS_SINGLE),
						B MIME "\r\nDELETE /api/data/v9.2/accounts(x)/nav/$ref?$id=https://h/contacts(y)"
						"&tag=load%201 HTTP/1.1\r\n" EXTRA "\r\n\r\n" B "--\r\n");
}

static void
forgets_rows(void **state)
{
	const dv_batch_key forgotten = {.address = "accounts(a=3)", .members = ",\"a\":3"};
	dv_batch   *batch = dv_batch_create(DV_UPSERT, &destination, 4);

	add(batch, id1, "accounts(a=1)", ",\"a\":1");
	dv_batch_forget_row(batch);
	assert_int_equal(batch->nrows, 0);
	add_keyed(batch, "accounts(a=2)", DV_KEY_FITS_NOWHERE, ",\"a\":2");
	dv_batch_begin_keyed_row(batch, &forgotten);
	dv_batch_begin_then(batch);
	appendStringInfoString(&batch->extra, ",\"b\":3");
	dv_batch_end_then(batch);
	dv_batch_forget_row(batch);
	add(batch, id2, NULL, "");
	assert_string_equal(batch->extra.data, "accounts(a=2),\"k\":\"K\"");
	assert_body(batch, "{\"Targets\":[{" TYPE ",\"@odata.id\":\"accounts(a=2)\",\"a\":2},"
				"{" TYPE ",\"accountid\":\"" ID2 "\"}]}");
}

static dv_batch *
make_creates_and_updates(void)
{
	dv_batch   *batch = dv_batch_create(DV_CREATE, &destination, 4);
	dv_batch_row *row = add(batch, NULL, NULL, ",\"name\":\"A\"");

	row->key = 7;
	row = dv_batch_begin_row(batch, id2, "accounts(z)");
	row->ordinal = 2;
	row->key = 8;
	appendStringInfoString(&batch->bytes, ",\"name\":\"B\"");
	dv_batch_begin_then(batch);
	appendStringInfoString(&batch->extra, ",\"statecode\":1");
	dv_batch_end_then(batch);
	dv_batch_end_row(batch);
	dv_batch_seal(batch);
	return batch;
}

static void
copies_rows(void **state)
{
	dv_batch   *from = make_creates_and_updates();
	dv_batch   *copy = dv_batch_create(DV_CREATE, &destination, 1);
	dv_batch   *again = dv_batch_create(DV_CREATE, &destination, 1);
	dv_batch   *then = dv_batch_create(DV_UPDATE, &destination, 1);

	dv_batch_copy_row(copy, from, &from->rows[1], false);
	dv_batch_copy_row(copy, from, &from->rows[0], false);
	assert_body(copy, "{\"Targets\":[{" TYPE ",\"accountid\":\"" ID2 "\",\"name\":\"B\"},"
				"{" TYPE ",\"name\":\"A\"}]}");
	assert_int_equal(copy->rows[0].ordinal, 2);
	assert_int_equal(copy->rows[0].key, 8);
	assert_int_equal(copy->rows[1].key, 7);
	assert_memory_equal(copy->rows[0].id, id2, DV_ID_LEN);

	/* requests that follow a row are copied with it, however often */
	dv_batch_copy_row(again, copy, &copy->rows[1], false);
	dv_batch_copy_row(again, copy, &copy->rows[0], false);
	assert_int_equal(again->rows[0].then_len, 0);
	dv_batch_copy_row(then, again, &again->rows[1], true);
	assert_int_equal(then->rows[0].ordinal, 2);
	assert_int_equal(then->rows[0].key, 8);
	assert_body(then, "{\"Targets\":[{" TYPE ",\"accountid\":\"" ID2 "\",\"statecode\":1}]}");
	assert_string_equal(parts(then, DV_PARTS_SINGLE),
						B MIME "\r\nPATCH /api/data/v9.2/accounts(z) HTTP/1.1\r\nIf-Match: *\r\n" JSON
						"\r\n{\"statecode\":1}\r\n" B "--\r\n");
}

/* Texts in parentheses, and the values of options, are not revealed. */
static void
tells_shapes_of_addresses(void **state)
{
	static const char *const shapes[][2] = {
		{"WhoAmI", "WhoAmI"},
		{"accounts(11111111-2222-3333-4444-555555555555)/name", "accounts(...)/name"},
		{"new_meters(new_serial='a)%2F(''b')?tag=x", "new_meters(...)?tag"},
		{"accounts(new_a='1',new_b=2)/new_x(3)/$ref", "accounts(...)/new_x(...)/$ref"},
		{"accounts?$select=name&$filter=startswith(name,'x')&$top=1", "accounts?$select&$filter&$top"},
		{"accounts?fetchXml=%3Cfetch%3E", "accounts?fetchXml"},
		{"RetrieveTotalRecordCount(EntityNames=@p1)?@p1=%5B%22account%22%5D", "RetrieveTotalRecordCount(...)?@p1"},
		{"accounts(unfinished", "accounts(..."},
		{"accounts?", "accounts?"},
		{"accounts?a&b", "accounts?a&b"},
	};
	size_t		i;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		assert_string_equal(dv_address_shape(shapes[i][0]), shapes[i][1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(tells_shapes_of_addresses, reset),
		cmocka_unit_test_teardown(writes_creates, reset),
		cmocka_unit_test_teardown(writes_updates_and_upserts, reset),
		cmocka_unit_test_teardown(has_no_message_for_some, reset),
		cmocka_unit_test_teardown(writes_single_parts, reset),
		cmocka_unit_test_teardown(writes_changesets, reset),
		cmocka_unit_test_teardown(writes_upserts_without_a_condition, reset),
		cmocka_unit_test_teardown(writes_versions, reset),
		cmocka_unit_test_teardown(extends_heads, reset),
		cmocka_unit_test_teardown(searches, reset),
		cmocka_unit_test_teardown(copies_keyed_rows, reset),
		cmocka_unit_test_teardown(writes_references, reset),
		cmocka_unit_test_teardown(forgets_rows, reset),
		cmocka_unit_test_teardown(copies_rows, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

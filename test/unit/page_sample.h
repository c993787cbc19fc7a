/*
 * page_sample.h
 *		A page of rows for tests, and functions that read pages.
 *
 * Each body is copied to an allocation that ends with its NUL, so that
 * AddressSanitizer detects reads beyond it.
 *
 * Each program that tests src/dataverse/page.c includes this file once.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PAGE_SAMPLE_H
#define PAGE_SAMPLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/page.h"

#define LENGTH(array) ((int) (sizeof(array) / sizeof((array)[0])))
#define MAX_WANTED 16

#define CONTEXT "\"@odata.context\":\"https://c.crm.dynamics.com/api/data/v9.2/$metadata#accounts(name)\""
#define GUID "00000000-0000-0010-979e-0000421049e5"

/* an example of everything, in the order of the service */
#define SAMPLE \
	"{" CONTEXT ",\"@odata.count\":5000," \
	"\"@Microsoft.Dynamics.CRM.totalrecordcount\":-1," \
	"\"@Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded\":false," \
	"\"@Microsoft.Dynamics.CRM.globalmetadataversion\":\"1000024\",\"value\":[" \
	"{\"@odata.etag\":\"W/\\\"1000177\\\"\",\"name\":\"Open \\u00fc\\ud83d\\ude00 1\"," \
	"\"revenue@OData.Community.Display.V1.FormattedValue\":\"$1.50\",\"revenue\":-1.50e0," \
	"\"numberofemployees\":841561,\"creditonhold\":false,\"accountid\":\"" GUID "\"," \
	"\"_ownerid_value@Microsoft.Dynamics.CRM.lookuplogicalname\":\"systemuser\"," \
	"\"_ownerid_value\":\"" GUID "\"}," \
	"{\"@odata.etag\":\"W/\\\"1000178\\\"\",\"name\":\"L\xc3\xb3pez \xf0\x9f\x98\x80\",\"revenue\":null," \
	"\"numberofemployees\":null,\"creditonhold\":true,\"accountid\":\"" GUID "\"," \
	"\"_ownerid_value\":null,\"nested\":{\"a\":[1,{\"b\":[]},{}],\"c\":null}}" \
	"],\"@odata.nextLink\":\"https://c.crm.dynamics.com/api/data/v9.2/accounts?$skiptoken=x\"}"

static const char *const wanted[] = {
	"accountid", "name", "revenue", "numberofemployees", "creditonhold",
	"_ownerid_value", "_ownerid_value@Microsoft.Dynamics.CRM.lookuplogicalname",
	"revenue@OData.Community.Display.V1.FormattedValue", "nested", "missing"
};

enum
{
	ACCOUNTID, NAME, REVENUE, EMPLOYEES, ON_HOLD, OWNER, OWNER_TYPE, REVENUE_LABEL, NESTED, MISSING
};

static dv_names *names;
static char *body;				/* the body of the open page */
static dv_page page;
static dv_value values[MAX_WANTED];

static int
make_names(void **state)
{
	(void) state;
	names = dv_names_init(malloc(dv_names_size(wanted, LENGTH(wanted))), wanted, LENGTH(wanted));
	return names == NULL;
}

static int
free_all(void **state)
{
	(void) state;
	free(names);
	free(body);
	body = NULL;
	return 0;
}

static void
open_bytes(const char *text, size_t len)
{
	free(body);
	body = malloc(len + 1);
	memcpy(body, text, len);
	body[len] = '\0';
	dv_page_open(&page, names, body, len);
}

static void
open_page(const char *text)
{
	open_bytes(text, strlen(text));
}

/* reads to the end, with values */
static dv_page_step
read_all(void)
{
	dv_page_step step;

	do
		step = dv_page_next(&page, values);
	while (step == DV_PAGE_ROW || step == DV_PAGE_TOMBSTONE);
	/* further calls return the same */
	assert_int_equal(dv_page_next(&page, values), step);
	assert_int_equal(dv_page_next(&page, NULL), step);
	if (step == DV_PAGE_BROKEN)
	{
		assert_non_null(page.json.error);
		assert_true(page.json.error_at <= (size_t) (page.json.end - page.json.text));
	}
	return step;
}

static void
expect_end(uint64_t rows)
{
	if (read_all() != DV_PAGE_END)
		fail_msg("%s at %zu of %s", page.json.error, page.json.error_at, page.json.text);
	assert_int_equal(page.rows, rows);
}

#endif							/* PAGE_SAMPLE_H */

/*
 * fetchxml_test.c
 *		FetchXML as users write it, and the requests for its other pages.
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

#include "dataverse/fetchxml.h"

static void
read_ok(const char *xml, dv_fetchxml *query)
{
	const char *error = NULL;

	if (!dv_fetchxml_read(xml, query, &error))
		fail_msg("%s: %s", xml, error);
}

static void
refuses(const char *xml, const char *why)
{
	dv_fetchxml query;
	const char *error = NULL;

	assert_false(dv_fetchxml_read(xml, &query, &error));
	assert_non_null(error);
	if (strstr(error, why) == NULL)
		fail_msg("%s: %s", xml, error);
}

static void
test_finds_the_table(void **state)
{
	dv_fetchxml q;

	(void) state;
	read_ok("<fetch><entity name=\"account\"/></fetch>", &q);
	assert_string_equal(q.entity, "account");
	read_ok("<?xml version=\"1.0\"?>\n<!-- <fetch><entity name=\"x\"/> -->\n"
			"<fetch mapping='logical' >\n <!-- > --> <entity  name = 'new_x'><attribute name='y'/>", &q);
	assert_string_equal(q.entity, "new_x");
	read_ok("<fetch distinct=\"a > b\"><entity enableprefiltering=\"1\" name=\"contact\">", &q);
	assert_string_equal(q.entity, "contact");
}

static void
test_reads_paging(void **state)
{
	dv_fetchxml q;

	(void) state;
	read_ok("<fetch><entity name='a'/></fetch>", &q);
	assert_int_equal(q.page + q.count + q.top, 0);
	read_ok("<fetch count='10' page='3'><entity name='a'/></fetch>", &q);
	assert_int_equal(q.page, 3);
	assert_int_equal(q.count, 10);
	read_ok("<fetch top=\"7\"><entity name='a'/></fetch>", &q);
	assert_int_equal(q.top, 7);
}

static void
test_refuses(void **state)
{
	(void) state;
	refuses("", "begin with");
	refuses("SELECT 1", "begin with");
	refuses("<fetching><entity name='a'/></fetching>", "begin with");
	refuses("<!-- no end", "begin with");
	refuses("<fetch/>", "has no");
	refuses("<fetch", "begin with");
	refuses("<fetch ", "malformed");
	refuses("<fetch count=5>", "malformed");
	refuses("<fetch count='5><entity name=a/>", "malformed");
	refuses("<fetch count='0'><entity name='a'/>", "positive");
	refuses("<fetch count='-1'><entity name='a'/>", "positive");
	refuses("<fetch top='99999999999'><entity name='a'/>", "positive");
	refuses("<fetch page='1x'><entity name='a'/>", "positive");
	refuses("<fetch></fetch>", "\"entity\"");
	refuses("<fetch><entity/></fetch>", "\"entity\"");
	refuses("<fetch><entity name=''/></fetch>", "\"entity\"");
	refuses("<fetch><entity name=\"a')/b\"/></fetch>", "\"entity\"");
	refuses("<fetch><link-entity name='a'/></fetch>", "\"entity\"");
}

static void
page_is(const char *xml, int page, int count, const char *cookie, const char *expected)
{
	dv_fetchxml q;
	char		out[512];
	size_t		len;

	read_ok(xml, &q);
	len = dv_fetchxml_page(&q, page, count, cookie, NULL, 0);
	assert_int_equal(len, strlen(expected));
	assert_int_equal(dv_fetchxml_page(&q, page, count, cookie, out, sizeof(out)), len);
	assert_string_equal(out, expected);
	/* a result that does not fit is truncated and terminated */
	assert_int_equal(dv_fetchxml_page(&q, page, count, cookie, out, 10), len);
	assert_int_equal(strlen(out), 9);
}

static void
test_writes_pages(void **state)
{
	(void) state;
	page_is("<fetch><entity name='a'/></fetch>", 1, 5000, NULL,
			"<fetch count=\"5000\" page=\"1\"><entity name='a'/></fetch>");
	page_is("<!-- c --><fetch  distinct='true' count = '3'\n no-lock=\"a > b\"><entity name='a'/></fetch>",
			2, 3, "<cookie page=\"1\"><x last=\"a&b\n\" /></cookie>",
			"<fetch distinct='true' no-lock=\"a > b\" count=\"3\" page=\"2\" paging-cookie=\""
			"&lt;cookie page=&quot;1&quot;&gt;&lt;x last=&quot;a&amp;b&#10;&quot; /&gt;&lt;/cookie&gt;\">"
			"<entity name='a'/></fetch>");
	page_is("<fetch paging-cookie='old' page='9'><entity name='a'/></fetch>", 1, 1, NULL,
			"<fetch count=\"1\" page=\"1\"><entity name='a'/></fetch>");
}

static void
test_takes_cookies(void **state)
{
	char		out[256];

	(void) state;
	assert_true(dv_fetchxml_cookie(
								   "<cookie pagenumber=\"2\" pagingcookie=\"%253ccookie%2520page%253d%25221%2522%253e%253c%252fcookie%253e\" istracking=\"False\" />",
								   out));
	assert_string_equal(out, "<cookie page=\"1\"></cookie>");
	/* a lone percent sign, and an escape that would end the text */
	assert_true(dv_fetchxml_cookie("<cookie pagingcookie='100% %zz %00 %4'/>", out));
	assert_string_equal(out, "100% %zz %00 %4");
	assert_false(dv_fetchxml_cookie("<cookie pagenumber='2'/>", out));
	assert_false(dv_fetchxml_cookie("<cookie pagingcookie=''/>", out));
	assert_false(dv_fetchxml_cookie("<cookie pagingcookie='x", out));
	assert_false(dv_fetchxml_cookie("", out));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_the_table),
		cmocka_unit_test(test_reads_paging),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_writes_pages),
		cmocka_unit_test(test_takes_cookies),
	};

	return cmocka_run_group_tests_name("fetchxml", tests, NULL, NULL);
}

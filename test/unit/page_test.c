/*
 * page_test.c
 *		Pages of rows: every form of the service's answers, and texts that
 *		must never be accepted as a page.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "page_sample.h"

static void
expect_row(void)
{
	if (dv_page_next(&page, values) != DV_PAGE_ROW)
		fail_msg("no row: %s at %zu", page.json.error ? page.json.error : "the end", page.json.error_at);
}

static void
expect_broken(const char *text, const char *reason)
{
	open_page(text);
	if (read_all() != DV_PAGE_BROKEN)
		fail_msg("taken as a page: %s", text);
	if (strcmp(page.json.error, reason) != 0)
		fail_msg("\"%s\" instead of \"%s\" at %zu of %s", page.json.error, reason, page.json.error_at, text);
}

static void
expect_text(const dv_value *value, dv_value_kind kind, const char *text)
{
	assert_int_equal(value->kind, kind);
	assert_int_equal(value->len, strlen(text));
	assert_memory_equal(value->text, text, value->len);
}

/* -- Answers of the service -- */

static void
sample_page(void **state)
{
	char		text[64];
	size_t		len;

	(void) state;
	open_page(SAMPLE);
	/* members after the rows are not known yet */
	assert_int_equal(page.next_link.kind, DV_VALUE_ABSENT);

	expect_row();
	expect_text(&values[ACCOUNTID], DV_VALUE_STRING, GUID);
	expect_text(&values[REVENUE], DV_VALUE_NUMBER, "-1.50e0");
	expect_text(&values[EMPLOYEES], DV_VALUE_NUMBER, "841561");
	assert_int_equal(values[ON_HOLD].kind, DV_VALUE_FALSE);
	expect_text(&values[OWNER], DV_VALUE_STRING, GUID);
	expect_text(&values[OWNER_TYPE], DV_VALUE_STRING, "systemuser");
	expect_text(&values[REVENUE_LABEL], DV_VALUE_STRING, "$1.50");
	assert_int_equal(values[NESTED].kind, DV_VALUE_ABSENT);
	assert_true(values[NAME].escaped);
	assert_int_equal(dv_value_string(&values[NAME], text, &len), DV_VALUE_OK);
	assert_int_equal(len, strlen("Open \xc3\xbc\xf0\x9f\x98\x80 1"));
	assert_memory_equal(text, "Open \xc3\xbc\xf0\x9f\x98\x80 1", len);

	expect_row();
	assert_false(values[NAME].escaped);
	expect_text(&values[NAME], DV_VALUE_STRING, "L\xc3\xb3pez \xf0\x9f\x98\x80");
	assert_int_equal(values[REVENUE].kind, DV_VALUE_NULL);
	assert_int_equal(values[ON_HOLD].kind, DV_VALUE_TRUE);
	assert_int_equal(values[OWNER].kind, DV_VALUE_NULL);
	assert_int_equal(values[OWNER_TYPE].kind, DV_VALUE_ABSENT);
	assert_int_equal(values[REVENUE_LABEL].kind, DV_VALUE_ABSENT);
	assert_int_equal(values[MISSING].kind, DV_VALUE_ABSENT);
	expect_text(&values[NESTED], DV_VALUE_OBJECT, "{\"a\":[1,{\"b\":[]},{}],\"c\":null}");

	expect_end(2);
	expect_text(&page.next_link, DV_VALUE_STRING,
				"https://c.crm.dynamics.com/api/data/v9.2/accounts?$skiptoken=x");
	assert_int_equal(page.delta_link.kind, DV_VALUE_ABSENT);
}

static void
smallest_pages(void **state)
{
	(void) state;
	open_page("{\"value\":[]}");
	expect_end(0);
	assert_int_equal(page.next_link.kind, DV_VALUE_ABSENT);
	open_page("{\"value\":[{}]}");
	expect_end(1);
	open_page("\xef\xbb\xbf{\"value\":[]}");
	expect_end(0);
	open_page(" \r\n\t{ \"value\" : [ { } , { \"name\" : \"a\" } ] , \"x\" : 1 } \n");
	expect_row();
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "a");
	expect_end(2);
	/* an empty page in the middle */
	open_page("{\"value\":[],\"@odata.nextLink\":\"https://x/\"}");
	expect_end(0);
	expect_text(&page.next_link, DV_VALUE_STRING, "https://x/");
}

static void
members_in_any_order(void **state)
{
	static const char *const parts[] = {
		CONTEXT, "\"@odata.count\":2", "\"value\":[{\"name\":\"a\"},{\"name\":\"b\"}]",
		"\"@odata.nextLink\":\"https://x/\"", "\"unknown\":{\"value\":[{}],\"@odata.nextLink\":\"no\"}"
	};
	int			n = LENGTH(parts);
	int			order[5];
	char		text[1024];
	int			tried = 0;
	int			code;
	int			i;
	int			j;

	(void) state;
	for (code = 0; code < 5 * 5 * 5 * 5 * 5; code++)
	{
		int			rest = code;
		unsigned int used = 0;

		for (i = 0; i < n; i++, rest /= 5)
			used |= 1u << (order[i] = rest % 5);
		if (used != 31)
			continue;
		strcpy(text, "{");
		for (j = 0; j < n; j++)
		{
			strcat(text, j > 0 ? "," : "");
			strcat(text, parts[order[j]]);
		}
		strcat(text, "}");
		open_page(text);
		expect_end(2);
		expect_text(&page.next_link, DV_VALUE_STRING, "https://x/");
		tried++;
	}
	assert_int_equal(tried, 120);
}

static void
metadata_version(void **state)
{
	char		version[DV_METADATA_VERSION];
	char		body[400];

	(void) state;
	/* before the rows, after them, as a number, or not at all */
	open_page("{" CONTEXT ",\"@Microsoft.Dynamics.CRM.globalmetadataversion\":\"1000024\",\"value\":[]}");
	expect_end(0);
	dv_page_metadata(&page, version);
	assert_string_equal(version, "1000024");
	open_page("{\"value\":[],\"@Microsoft.Dynamics.CRM.globalmetadataversion\":17}");
	expect_end(0);
	dv_page_metadata(&page, version);
	assert_string_equal(version, "17");
	open_page("{\"value\":[]}");
	expect_end(0);
	dv_page_metadata(&page, version);
	assert_string_equal(version, "");

	/* longer than expected: its beginning */
	snprintf(body, sizeof(body), "{\"value\":[],\"@Microsoft.Dynamics.CRM.globalmetadataversion\":\"%0100d\"}", 0);
	open_page(body);
	expect_end(0);
	dv_page_metadata(&page, version);
	assert_int_equal(strlen(version), DV_METADATA_VERSION - 1);
}

static void
fetchxml_page(void **state)
{
	(void) state;
	/* nulls are omitted, and each row has members of its own */
	open_page("{" CONTEXT ",\"@Microsoft.Dynamics.CRM.fetchxmlpagingcookie\":"
			  "\"<cookie pagenumber=\\\"2\\\" istracking=\\\"False\\\" />\","
			  "\"@Microsoft.Dynamics.CRM.morerecords\":true,\"value\":["
			  "{\"name\":\"a\",\"revenue\":1,\"numberofemployees\":2},{\"numberofemployees\":3},"
			  "{\"revenue\":4},{\"name\":\"b\",\"numberofemployees\":5},{},"
			  "{\"o.name\":\"x\",\"revenue\":6,\"name\":\"c\"}]}");
	assert_int_equal(page.more_records.kind, DV_VALUE_TRUE);
	assert_true(dv_value_equals(&page.paging_cookie,
								"<cookie pagenumber=\"2\" istracking=\"False\" />"));
	expect_row();
	expect_row();
	assert_int_equal(values[NAME].kind, DV_VALUE_ABSENT);
	expect_text(&values[EMPLOYEES], DV_VALUE_NUMBER, "3");
	expect_row();
	assert_int_equal(values[EMPLOYEES].kind, DV_VALUE_ABSENT);
	expect_text(&values[REVENUE], DV_VALUE_NUMBER, "4");
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "b");
	expect_text(&values[EMPLOYEES], DV_VALUE_NUMBER, "5");
	expect_row();
	assert_int_equal(values[NAME].kind, DV_VALUE_ABSENT);
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "c");
	expect_end(6);

	/* the annotation as a string */
	open_page("{\"value\":[],\"@Microsoft.Dynamics.CRM.morerecords\":\"true\"}");
	expect_end(0);
	assert_int_equal(page.more_records.kind, DV_VALUE_TRUE);
	open_page("{\"value\":[],\"@Microsoft.Dynamics.CRM.morerecords\":\"false\"}");
	expect_end(0);
	assert_int_equal(page.more_records.kind, DV_VALUE_FALSE);
	expect_broken("{\"value\":[],\"@Microsoft.Dynamics.CRM.morerecords\":\"maybe\"}",
				  "member of the wrong type");
}

#define DELETED "\"@odata.context\":\"https://x/$metadata#accounts/$deletedEntity\""

static void
delta_page(void **state)
{
	(void) state;
	open_page("{\"@odata.context\":\"https://x/$metadata#accounts/$delta\",\"value\":["
			  "{\"@odata.etag\":\"W/\\\"1\\\"\",\"name\":\"a\",\"accountid\":\"" GUID "\"},"
			  "{" DELETED ",\"id\":\"" GUID "\",\"reason\":\"deleted\"},"
			  "{\"reason\":\"changed\",\"id\":\"2\"," DELETED "},"
			  "{\"@odata.context\":\"https:\\/\\/x\\/$metadata#accounts\\/\\u0024deletedEntity\","
			  "\"id\":\"3\"},"
			  "{\"@odata.context\":\"https://x/$metadata#accounts/$entity\",\"name\":\"b\"}"
			  "],\"@odata.deltaLink\":\"https://x/accounts?$deltatoken=1\"}");
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "a");
	assert_int_equal(dv_page_next(&page, values), DV_PAGE_TOMBSTONE);
	expect_text(&page.deleted_id, DV_VALUE_STRING, GUID);
	expect_text(&page.deleted_reason, DV_VALUE_STRING, "deleted");
	assert_int_equal(values[NAME].kind, DV_VALUE_ABSENT);
	assert_int_equal(dv_page_next(&page, values), DV_PAGE_TOMBSTONE);
	expect_text(&page.deleted_id, DV_VALUE_STRING, "2");
	expect_text(&page.deleted_reason, DV_VALUE_STRING, "changed");
	assert_int_equal(dv_page_next(&page, NULL), DV_PAGE_TOMBSTONE);
	expect_text(&page.deleted_id, DV_VALUE_STRING, "3");
	assert_int_equal(page.deleted_reason.kind, DV_VALUE_ABSENT);
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "b");
	expect_end(5);
	expect_text(&page.delta_link, DV_VALUE_STRING, "https://x/accounts?$deltatoken=1");

	expect_broken("{\"value\":[{" DELETED "}]}", "deleted row without an id");
	expect_broken("{\"value\":[{" DELETED ",\"id\":5}]}", "deleted row without an id");
	expect_broken("{\"value\":[{" DELETED ",\"id\":\"1\",\"id\":\"2\"}]}", "member given twice");
	expect_broken("{\"value\":[{" DELETED ",\"id\":\"1\",\"reason\":{}}]}",
				  "deleted row with an invalid reason");
	expect_broken("{\"value\":[{\"@odata.context\":7}]}", "member of the wrong type");
	expect_broken("{\"value\":[{\"@removed\":{\"reason\":\"deleted\"},\"id\":\"1\"}]}",
				  "neither a row nor a deleted row");
	expect_broken("{\"value\":[{\"@odata.context\":\"#accounts/$deletedLink\"}]}",
				  "neither a row nor a deleted row");
}

/* members that the reader uses itself may be wanted, too */
static void
wanted_marks(void **state)
{
	static const char *const some[] = {"id", "@odata.etag", "@odata.context"};
	dv_names   *before = names;

	(void) state;
	names = dv_names_init(malloc(dv_names_size(some, 3)), some, 3);
	open_page("{\"value\":[{\"@odata.etag\":\"W/\\\"1\\\"\",\"id\":\"x\",\"reason\":\"y\"}]}");
	expect_row();
	expect_text(&values[0], DV_VALUE_STRING, "x");
	assert_true(dv_value_equals(&values[1], "W/\"1\""));
	assert_int_equal(values[2].kind, DV_VALUE_ABSENT);
	expect_end(1);
	free(names);
	names = before;
}

static void
names_that_cannot_be_wanted(void **state)
{
	static const char *const bad[][2] = {
		{"a", "a"}, {"a", ""}, {"a\"b", "c"}, {"a\\b", "c"}, {"a\nb", "c"}
	};
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(bad); i++)
	{
		void	   *memory = malloc(dv_names_size(bad[i], 2));

		assert_null(dv_names_init(memory, bad[i], 2));
		free(memory);
	}
}

static void
escaped_names(void **state)
{
	char		text[4096];

	(void) state;
	/* a link whose name is written with escapes is still a link */
	open_page("{\"v\\u0061lue\":[{\"n\\u0061me\":\"x\"},{\"name\":\"y\"}],"
			  "\"\\u0040odata.next\\u004cink\":\"https://x/\"}");
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "x");
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "y");
	expect_end(2);
	expect_text(&page.next_link, DV_VALUE_STRING, "https://x/");
	expect_broken("{\"value\":[{\"n\\u0061me\":\"x\",\"name\":\"y\"}]}", "member given twice");
	/* names that columns of links could have */
	expect_broken("{\"value\":[{\"t1.c0\":1}]}", "a column of a joined table does not have the name that was requested");
	assert_true(page.misnamed);
	expect_broken("{\"value\":[{\"name\":\"x\"},{\"t15_x002e_name\" :1}]}", "a column of a joined table does not have the name that was requested");
	expect_broken("{\"value\":[{\"t1\\u002ename@x\":1}]}", "a column of a joined table does not have the name that was requested");
	open_page("{\"value\":[{\"t.x\":1,\"t1\":2,\"t1x.y\":3,\"t1_x002\":4,\"name@t1.c0\":5,\"1.c\":6,\"name\":\"y\"}]}");
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "y");
	expect_end(1);
	assert_false(page.misnamed);
	/* names without a meaning */
	open_page("{\"value\":[{\"\\ud800\":1,\"\":2,\"\\u0000\":3,\"name\":\"y\"}]}");
	expect_row();
	expect_text(&values[NAME], DV_VALUE_STRING, "y");
	expect_end(1);
	snprintf(text, sizeof(text), "{\"value\":[{\"\\t%0600d\":1}]}", 0);
	expect_broken(text, "member name is too long");
	snprintf(text, sizeof(text), "{\"value\":[{\"%03000d\":1,\"name\":2}]}", 0);
	open_page(text);
	expect_row();
	expect_text(&values[NAME], DV_VALUE_NUMBER, "2");
	expect_end(1);
}

/* more names than are remembered, in two orders, several times */
static void
many_members(void **state)
{
	size_t		room = 1 << 20;
	char	   *text = malloc(room);
	size_t		n;
	int			row;
	int			i;

	(void) state;
	n = (size_t) sprintf(text, "{\"value\":[");
	for (row = 0; row < 8; row++)
	{
		n += (size_t) sprintf(text + n, "%s{\"name\":\"%d\"", row > 0 ? "," : "", row);
		for (i = 0; i < 700; i++)
			n += (size_t) sprintf(text + n, ",\"c%d%s\":%d", row % 2 ? 700 - i : i,
								  row % 3 ? "" : "@OData.Community.Display.V1.FormattedValue", i);
		n += (size_t) sprintf(text + n, ",\"revenue\":%d}", row);
	}
	sprintf(text + n, "]}");
	open_page(text);
	for (row = 0; row < 8; row++)
	{
		char		number[16];

		sprintf(number, "%d", row);
		expect_row();
		expect_text(&values[NAME], DV_VALUE_STRING, number);
		expect_text(&values[REVENUE], DV_VALUE_NUMBER, number);
	}
	expect_end(8);
	free(text);
	/* what was expected in one page does not affect the next */
	open_page(SAMPLE);
	expect_end(2);
}

/* names with blanks around them cannot be predicted, but are found */
static void
blanks_in_rows(void **state)
{
	int			row;

	(void) state;
	open_page("{\"value\":[{ \"x\" : 1 , \"name\" : \"a\" },\n{ \"x\" : 2 , \"name\" : \"a\" },"
			  "{\"x\":3,\"name\":\"a\"},{\"x\" :4,\"name\" :\"a\"},{\"x\" : 5 , \"name\": \"a\" }]}");
	for (row = 0; row < 5; row++)
	{
		expect_row();
		expect_text(&values[NAME], DV_VALUE_STRING, "a");
	}
	expect_end(5);
}

#define N_PREFIXES 1000

/* names each of which is a prefix of the next, in several orders */
static void
similar_names(void **state)
{
	char		letters[N_PREFIXES + 1] = "";
	const char *some[N_PREFIXES];
	dv_value   *found = calloc(N_PREFIXES, sizeof(dv_value));
	char	   *text = malloc(5 * N_PREFIXES * (N_PREFIXES / 2 + 20));
	dv_names   *before = names;
	size_t		n;
	int			row;
	int			i;

	(void) state;
	memset(letters, 'a', N_PREFIXES);
	for (i = 0; i < N_PREFIXES; i++)
		some[i] = letters + i;
	names = dv_names_init(malloc(dv_names_size(some, N_PREFIXES)), some, N_PREFIXES);
	n = (size_t) sprintf(text, "{\"value\":[");
	for (row = 0; row < 4; row++)
	{
		n += (size_t) sprintf(text + n, "%s{", row > 0 ? "," : "");
		/* the step and the number of names have no common divisor */
		for (i = 0; i < N_PREFIXES; i++)
		{
			int			name = (i * (row < 2 ? 7 : 333) + row) % N_PREFIXES;

			n += (size_t) sprintf(text + n, "%s\"%s\":%d", i > 0 ? "," : "", some[name],
								  name + row);
		}
		n += (size_t) sprintf(text + n, "}");
	}
	sprintf(text + n, "]}");
	open_page(text);
	for (row = 0; row < 4; row++)
	{
		assert_int_equal(dv_page_next(&page, found), DV_PAGE_ROW);
		for (i = 0; i < N_PREFIXES; i++)
		{
			char		number[16];

			sprintf(number, "%d", i + row);
			expect_text(&found[i], DV_VALUE_NUMBER, number);
		}
	}
	assert_int_equal(dv_page_next(&page, found), DV_PAGE_END);
	free(names);
	names = before;
	free(found);
	free(text);
}

static void
depth(void **state)
{
	char		text[1024];
	char		nest[2 * DV_CURSOR_MAX_DEPTH + 3];
	int			n;

	(void) state;
	for (n = DV_CURSOR_MAX_DEPTH; n <= DV_CURSOR_MAX_DEPTH + 1; n++)
	{
		memset(nest, '[', (size_t) n);
		memset(nest + n, ']', (size_t) n);
		nest[2 * n] = '\0';
		snprintf(text, sizeof(text), "{\"value\":[{\"nested\":%s}]}", nest);
		if (n > DV_CURSOR_MAX_DEPTH)
		{
			expect_broken(text, "nested too deeply");
			snprintf(text, sizeof(text), "{\"x\":%s,\"value\":[]}", nest);
			expect_broken(text, "nested too deeply");
			continue;
		}
		open_page(text);
		expect_row();
		expect_text(&values[NESTED], DV_VALUE_ARRAY, nest);
		expect_end(1);
	}
}

static void
skipping_and_draining(void **state)
{
	(void) state;
	open_page(SAMPLE);
	assert_int_equal(dv_page_next(&page, NULL), DV_PAGE_ROW);
	assert_int_equal(dv_page_drain(&page), DV_PAGE_END);
	assert_int_equal(page.rows, 2);
	assert_int_equal(page.next_link.kind, DV_VALUE_STRING);
	open_page("{\"value\":[{},{},{\"a\":tru}]}");
	assert_int_equal(dv_page_drain(&page), DV_PAGE_BROKEN);
	assert_int_equal(page.rows, 2);
}

/* -- Texts to be refused -- */

static void
broken_pages(void **state)
{
	static const struct
	{
		const char *text;
		const char *reason;
	}			cases[] = {
		{"", "unexpected end of the text"},
		{" ", "unexpected end of the text"},
		{"\xef\xbb\xbf", "unexpected end of the text"},
		{"\xef\xbb{\"value\":[]}", "\"{\" expected"},
		{"\xef\xbb\xbf\xef\xbb\xbf{\"value\":[]}", "\"{\" expected"},
		{"[]", "\"{\" expected"},
		{"null", "\"{\" expected"},
		{"<html>", "\"{\" expected"},
		{"{}", "\"value\" is missing"},
		{"{\"name\":\"a\"}", "\"value\" is missing"},
		{"{\"Value\":[]}", "\"value\" is missing"},
		{"{\"x\":{\"value\":[]}}", "\"value\" is missing"},
		{"{\"value\":{}}", "\"value\" is not an array"},
		{"{\"value\":null}", "\"value\" is not an array"},
		{"{\"value\":\"[]\"}", "\"value\" is not an array"},
		{"{\"value\":[],\"value\":[]}", "member given twice"},
		{"{\"value\":[{}],\"v\\u0061lue\":[{}]}", "member given twice"},
		{"{\"value\":[]}}", "text after the end"},
		{"{\"value\":[]}{\"value\":[]}", "text after the end"},
		{"{\"value\":[]} x", "text after the end"},
		{"{\"value\":[]],}", "\",\" or \"}\" expected"},
		{"{{\"value\":[]}", "member name expected"},
		{"{\"value\":[],}", "member name expected"},
		{"{,\"value\":[]}", "member name expected"},
		{"{\"value\":[]\"x\":1}", "\",\" or \"}\" expected"},
		{"{\"value\"[]}", "\":\" expected"},
		{"{value:[]}", "member name expected"},
		{"{'value':[]}", "member name expected"},
		{"{\"value\":[,]}", "row expected"},
		{"{\"value\":[{},]}", "row expected"},
		{"{\"value\":[{},,{}]}", "row expected"},
		{"{\"value\":[{}{}]}", "\",\" or \"]\" expected"},
		{"{\"value\":[{}}", "\",\" or \"]\" expected"},
		{"{\"value\":[{{}}]}", "member name expected"},
		{"{\"value\":[null]}", "row expected"},
		{"{\"value\":[1]}", "row expected"},
		{"{\"value\":[[]]}", "row expected"},
		{"{\"value\":[\"a\"]}", "row expected"},
		{"{\"value\":[{}],\"error\":{\"code\":\"0x0\",\"message\":\"late\"}}",
		"the service reports an error inside the page"},
		{"{\"error\":{\"code\":\"0x0\",\"message\":\"early\"}}",
		"the service reports an error inside the page"},
		{"{\"value\":[{},{\"error\"", "unexpected end of the text"},
		{"{\"value\":[],\"@odata.nextLink\":null}", "member of the wrong type"},
		{"{\"value\":[],\"@odata.nextLink\":5}", "member of the wrong type"},
		{"{\"value\":[],\"@odata.nextLink\":\"\"}", "link is empty"},
		{"{\"value\":[],\"@odata.deltaLink\":\"\"}", "link is empty"},
		{"{\"value\":[],\"@odata.nextLink\":\"a\",\"@odata.nextLink\":\"b\"}", "member given twice"},
		{"{\"value\":[],\"@odata.nextLink\":\"a\",\"@nextLink\":\"b\"}", "member given twice"},
		{"{\"@odata.deltaLink\":[],\"value\":[]}", "member of the wrong type"},
		{"{\"value\":[{\"name\":1,\"name\":2}]}", "member given twice"},
		{"{\"value\":[{\"name\":1,\"x\":0,\"name\":null}]}", "member given twice"},
		{"{\"value\":[{\"name\"}]}", "\":\" expected"},
		{"{\"value\":[{\"name\":}]}", "value expected"},
		{"{\"value\":[{\"name\":,}]}", "value expected"},
		{"{\"value\":[{\"name\":1,}]}", "member name expected"},
		{"{\"value\":[{\"name\":1 2}]}", "\",\" or \"}\" expected"},
		{"{\"value\":[{name:1}]}", "member name expected"},
		{"{\"value\":[{\"name\":1;\"x\":2}]}", "\",\" or \"}\" expected"},
		{"{\"value\":[{\"x\":[1,]}]}", "value expected"},
		{"{\"value\":[{\"x\":[1}]}]}", "\",\" or \"]\" expected"},
		{"{\"value\":[{\"x\":{\"y\":1]}]}", "\",\" or \"}\" expected"},
		{"{\"value\":[{\"x\":{1:2}}]}", "member name expected"},
		{"{\"value\":[]} \x01", "text after the end"},
		{"{\"value\":[]}\f", "text after the end"},
		/* comments, as some readers allow them */
		{"{\"value\":[]}//", "text after the end"},
		{"{/**/\"value\":[]}", "member name expected"},
	};
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
		expect_broken(cases[i].text, cases[i].reason);
}

/* invalid values, wanted and not, in rows, nested, and outside */
static void
broken_values(void **state)
{
	static const char *const bad[] = {
		"tru", "True", "TRUE", "truee", "nul", "nulll", "falsey", "undefined", "NaN", "Infinity",
		"-Infinity", "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1E-",
		"0x10", "1_000", "1,5", "1.2.3", "--1", "1e5.5", "1a",
		"\"", "\"a", "\"\\", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u123g\"", "\"\\u\"", "\"\\U0041\"",
		"\"\\'\"", "\"a\nb\"", "\"a\tb\"", "\"\x01\"", "\"\x1f\"", "'a'", "\"a\"b\"", "\"abcdefgh\x02\"",
		"\"\x80\"", "\"\xbf\"", "\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xc3\"", "\"\xc3(\"",
		"\"\xe0\x80\x80\"", "\"\xe0\x9f\xbf\"", "\"\xe2\x82\"", "\"\xe2(\xa1\"", "\"\xed\xa0\x80\"",
		"\"\xed\xbf\xbf\"", "\"\xf0\x80\x80\x80\"", "\"\xf0\x8f\xbf\xbf\"", "\"\xf0\x9f\x98\"",
		"\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xff\"", "\"\xfe\"", "\"0123456\xc3\"",
		"\"01234567\xe2\x82\"", "[", "{", "[1", "[1,", "{\"a\"", "{\"a\":", "{\"a\":1", "[}", "{]", "[1:2]",
		"{\"a\":1,}", "[[]", "{\"a\":{}", "{\"a\" 1}", "{\"a\":1 \"b\":2}",
	};
	static const char *const around[] = {
		"{\"value\":[{\"name\":%s}]}",
		"{\"value\":[{\"x\":%s}]}",
		"{\"value\":[{\"x\":1,\"name\":\"a\"},{\"x\":%s,\"name\":\"b\"}]}",
		"{\"value\":[{\"x\":[0,%s]}]}",
		"{\"value\":[{\"x\":{\"y\":%s}}]}",
		"{\"x\":%s,\"value\":[]}",
		"{\"value\":[],\"x\":%s}",
	};
	char		text[256];
	int			i;
	int			j;

	(void) state;
	for (i = 0; i < LENGTH(bad); i++)
	{
		for (j = 0; j < LENGTH(around); j++)
		{
			/* in an array, these are two numbers */
			if (j == 3 && strcmp(bad[i], "1,5") == 0)
				continue;
			snprintf(text, sizeof(text), around[j], bad[i]);
			open_page(text);
			if (read_all() != DV_PAGE_BROKEN)
				fail_msg("taken as a page: %s", text);
		}
	}
}

static void
good_values(void **state)
{
	static const char *const good[] = {
		"0", "-0", "0.0", "-0.5e-10", "1E+400", "123456789012345678901234567890.5", "1e5",
		"\"\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"", "\"\\ud83d\\ude00\"", "\"\x7f\"", "\"0123456789abcdef\"",
		"\"\xc2\x80\xdf\xbf\"", "\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"",
		"\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"", "\"0123456\xc3\xa9\xc3\xa9\xc3\xa9 01234567\"",
		"[]", "{}", "[ ]", "{ }", "[1 , \"a\" , null]", "{ \"a\" : [ { } ] }", "true", "false", "null",
	};
	char		text[256];
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(good); i++)
	{
		snprintf(text, sizeof(text), "{\"value\":[{\"name\":%s,\"x\":%s}],\"x\":%s}", good[i], good[i],
				 good[i]);
		open_page(text);
		expect_row();
		if (values[NAME].kind == DV_VALUE_STRING)
			assert_memory_equal(values[NAME].text, good[i] + 1, strlen(good[i]) - 2);
		else
			expect_text(&values[NAME], values[NAME].kind, good[i]);
		expect_end(1);
	}
}

static void
nul_bytes(void **state)
{
	static const char in_string[] = "{\"value\":[{\"name\":\"a\0b\"}]}";
	static const char behind[] = "{\"value\":[]}\0";
	static const char between[] = "{\"value\":[{},\0{}]}";

	(void) state;
	open_bytes(in_string, sizeof(in_string) - 1);
	assert_int_equal(read_all(), DV_PAGE_BROKEN);
	assert_string_equal(page.json.error, "control character in a string");
	open_bytes(behind, sizeof(behind) - 1);
	assert_int_equal(read_all(), DV_PAGE_BROKEN);
	assert_string_equal(page.json.error, "text after the end");
	open_bytes(between, sizeof(between) - 1);
	assert_int_equal(read_all(), DV_PAGE_BROKEN);
	assert_string_equal(page.json.error, "row expected");
}

/* strings of all lengths, with each kind of special byte at each position */
static void
string_boundaries(void **state)
{
	static const char *const specials[] = {
		"x", "\\n", "\xc3\xa9", "\\\"", "\\\"\\\"", "\x01", "\xff", "\\q"
	};
	static const char *const lower = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
	static const char *const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char		text[256];
	char		string[128];
	int			len;
	int			at;
	int			i;

	(void) state;
	for (len = 0; len <= 40; len++)
	{
		for (at = 0; at <= len; at++)
		{
			for (i = 0; i < LENGTH(specials); i++)
			{
				sprintf(string, "%.*s%s%.*s", at, lower, specials[i], len - at, upper);
				sprintf(text, "{\"value\":[{\"name\":\"%s\"}]}", string);
				open_page(text);
				if (i >= 5)
				{
					assert_int_equal(read_all(), DV_PAGE_BROKEN);
					assert_int_equal(page.json.error_at, 19 + at + (i == 7));
					continue;
				}
				expect_row();
				expect_text(&values[NAME], DV_VALUE_STRING, string);
				assert_int_equal(values[NAME].escaped, i == 1 || i == 3 || i == 4);
				expect_end(1);
				/* the same string as the last thing, truncated */
				open_bytes(text, (size_t) (19 + at));
				assert_int_equal(read_all(), DV_PAGE_BROKEN);
				assert_string_equal(page.json.error, "unexpected end of the text");
			}
		}
	}
}

static void
too_long(void **state)
{
	(void) state;
	dv_page_open(&page, names, "{\"value\":[]}", (size_t) INT32_MAX + 1);
	assert_int_equal(dv_page_next(&page, values), DV_PAGE_BROKEN);
	assert_string_equal(page.json.error, "the text is too long");
}

/* ----------
 * Finding the link to the next page in advance
 * ----------
 */

static void
peeking(void **state)
{
	static const struct
	{
		const char *text;
		const char *link;		/* NULL: no link is found */
	}			cases[] = {
		{SAMPLE, "https://c.crm.dynamics.com/api/data/v9.2/accounts?$skiptoken=x"},
		{"{\"value\":[],\"@odata.nextLink\":\"https://x/\"}\r\n", "https://x/"},
		{"{\"value\":[] , \"@odata.nextLink\": \"https://x/\" } ", "https://x/"},
		{"{\"value\":[],\"@odata.nextLink\":\"https://x/?a=\\\"b\\\\\"}", "https://x/?a=\"b\\"},
		{"{\"value\":[],\"@odata.nextLink\":\"\"}", NULL},
		{"{\"value\":[],\"@odata.nextLink\":\"a\\x\"}", NULL},
		{"{\"value\":[],\"@odata.nextLink\":\"a\\\"}", NULL},
		{"{\"value\":[],\"@odata.deltaLink\":\"https://x/\"}", NULL},
		{"{\"value\":[{\"x@odata.nextLink\":\"https://x/\"}]}", NULL},
		{"{\"value\":[],\"x@odata.nextLink\":\"https://x/\"}", NULL},
		{"{\"@odata.nextLink\":\"https://x/\",\"value\":[]}", NULL},
		{"\"@odata.nextLink\":\"https://x/\"}", NULL},
		{" \"@odata.nextLink\":\"https://x/\"}", NULL},
		{"\"x\"}", NULL}, {"\"}", NULL}, {"}", NULL}, {"", NULL}, {" ", NULL}, {"\\\"}", NULL},
	};
	char		text[128];
	size_t		len;
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		dv_value	link;

		open_page(cases[i].text);
		if (dv_page_peek_link(body, strlen(body), &link) != (cases[i].link != NULL))
			fail_msg("%s", cases[i].text);
		if (cases[i].link == NULL)
			continue;
		assert_int_equal(dv_value_string(&link, text, &len), DV_VALUE_OK);
		text[len] = '\0';
		assert_string_equal(text, cases[i].link);
		assert_int_equal(read_all(), DV_PAGE_END);
		assert_ptr_equal(page.next_link.text, link.text);
		assert_int_equal(page.next_link.len, link.len);
	}
}

static void
peeking_at_the_last_row(void **state)
{
	static const struct
	{
		const char *text;
		const char *last;		/* NULL: none */
	}			cases[] = {
		{"{\"value\":[{\"id\":\"a\",\"x\":1},{\"x\":2,\"id\":\"b\"}]}", "b"},
		{"{\"value\":[{\"id\":\"a\"},{\"id\":\"b\",\"x\":3}],\"@odata.nextLink\":\"l\"}", "b"},
		{"{\"value\":[{\"id\":\"\"}]}", ""},
		/* only members of exactly that name, and no text that looks like one */
		{"{\"value\":[{\"id\":\"a\",\"xid\":\"b\",\"idx\":\"c\",\"id@x\":\"d\"}]}", "a"},
		{"{\"value\":[{\"id\":\"a\",\"x\":\"\\\"id\\\":\\\"b\\\"\"}]}", "a"},
		{"{\"value\":[{\"id\":null}]}", NULL},
		{"{\"value\":[{\"id\":\"a", NULL},
		{"{\"value\":[]}", NULL},
		{"\"id\":\"", NULL}, {"\"id\":", NULL}, {"\"id", NULL}, {"", NULL},
	};
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
	{
		dv_value	last;

		open_page(cases[i].text);
		if (dv_page_peek_last(body, strlen(body), "id", &last) != (cases[i].last != NULL))
			fail_msg("%s", cases[i].text);
		if (cases[i].last != NULL && (last.len != strlen(cases[i].last) ||
									  memcmp(last.text, cases[i].last, last.len) != 0))
			fail_msg("%s: %.*s", cases[i].text, (int) last.len, last.text);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample_page),
		cmocka_unit_test(smallest_pages),
		cmocka_unit_test(members_in_any_order),
		cmocka_unit_test(metadata_version),
		cmocka_unit_test(fetchxml_page),
		cmocka_unit_test(delta_page),
		cmocka_unit_test(wanted_marks),
		cmocka_unit_test(names_that_cannot_be_wanted),
		cmocka_unit_test(escaped_names),
		cmocka_unit_test(many_members),
		cmocka_unit_test(blanks_in_rows),
		cmocka_unit_test(similar_names),
		cmocka_unit_test(depth),
		cmocka_unit_test(skipping_and_draining),
		cmocka_unit_test(broken_pages),
		cmocka_unit_test(broken_values),
		cmocka_unit_test(good_values),
		cmocka_unit_test(nul_bytes),
		cmocka_unit_test(string_boundaries),
		cmocka_unit_test(too_long),
		cmocka_unit_test(peeking),
		cmocka_unit_test(peeking_at_the_last_row),
	};

	return cmocka_run_group_tests(tests, make_names, free_all);
}

/*
 * fetch_test.c
 *		Queries as FetchXML: each feature, escapes, encoding, lengths.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/fetch.h"

static const dv_column id = {"accountid", "accountid", DV_TYPE_UNIQUEIDENTIFIER};
static const dv_column name = {"name", "name", DV_TYPE_STRING};
static const dv_column size = {"size", "size", DV_TYPE_INTEGER};
static const dv_column statecode = {"statecode", "statecode", DV_TYPE_STATE};
static const dv_column active = {"active", "active", DV_TYPE_BOOLEAN};
static const dv_column colors = {"colors", "colors", DV_TYPE_CHOICES};
static const dv_column changed = {"modifiedon", "modifiedon", DV_TYPE_DATETIME};
static const dv_column boss = {"primarycontactid", "_primarycontactid_value", DV_TYPE_LOOKUP};
static const dv_column contact_id = {"contactid", "contactid", DV_TYPE_UNIQUEIDENTIFIER};
static const dv_column full_name = {"fullname", "fullname", DV_TYPE_STRING};
static const dv_column employer = {"parentcustomerid", "_parentcustomerid_value", DV_TYPE_CUSTOMER};
static const dv_column owner = {"ownerid", "_ownerid_value", DV_TYPE_OWNER};
static const dv_column user_id = {"systemuserid", "systemuserid", DV_TYPE_UNIQUEIDENTIFIER};

#define N(array) ((int) (sizeof(array) / sizeof((array)[0])))

static char text[8192];

static dv_query
accounts(void)
{
	dv_query	query = {.entity_set = "accounts", .table = "account", .primary_id = &id};

	return query;
}

/* Writes a query in all ways, which must agree, and returns it. */
static const char *
written(const dv_query *query, dv_odata_style style, const dv_fetch_page *page)
{
	size_t		len = dv_fetch_query(query, style, page, NULL, 0);
	char	   *exact = malloc(len + 1);
	size_t		room;

	assert_int_equal(dv_fetch_query(query, style, page, text, sizeof(text)), len);
	assert_int_equal(strlen(text), len);
	/* text that does not fit is cut off; the sanitizer detects writes beyond the room */
	for (room = 0; room <= len + 1; room += room < 40 ? 1 : len / 3)
	{
		memset(exact, 'x', len + 1);
		assert_int_equal(dv_fetch_query(query, style, page, exact, room), len);
		if (room > 0)
		{
			assert_memory_equal(exact, text, room - 1);
			assert_int_equal(exact[room - 1], '\0');
		}
		if (room <= len)
			assert_int_equal(exact[room], 'x');
	}
	free(exact);
	return text;
}

/* The query has this middle part, between a constant beginning and end. */
static void
check_query(const dv_query *query, const dv_fetch_page *page, const char *fetch, const char *inside)
{
	char		expected[4096];

	snprintf(expected, sizeof(expected),
			 "accounts?fetchXml=<fetch%s><entity name='account'>%s</entity></fetch>", fetch, inside);
	assert_string_equal(written(query, DV_ODATA_READABLE, page), expected);
}

static void
check_filter(const dv_filter *filter, const char *expected)
{
	dv_query	query = accounts();
	char		inside[2048];

	query.filter = filter;
	snprintf(inside, sizeof(inside), "<attribute name='accountid'/>%s", expected);
	check_query(&query, NULL, "", inside);
}

static dv_filter
leaf(dv_filter_kind kind, const dv_column *column, dv_operand *operands, int n)
{
	dv_filter	filter = {.kind = kind, .column = column, .n = n, .operands = operands};

	return filter;
}

/* A condition with one value. */
static void
check_condition(dv_filter_kind kind, const dv_column *column, const char *value, const char *expected)
{
	dv_operand	operand = {value, false};
	dv_filter	filter = leaf(kind, column, &operand, value != NULL);
	char		inside[1024];

	snprintf(inside, sizeof(inside), "<filter><condition attribute='%s' %s/></filter>", column->name,
			 expected);
	check_filter(&filter, inside);
}

/* Columns without aliases, so that the rows look like those of OData. */
static void
test_columns(void **state)
{
	const dv_column *columns[] = {&name, &boss};
	dv_query	query = accounts();

	(void) state;
	check_query(&query, NULL, "", "<attribute name='accountid'/>");
	query.columns = columns;
	query.ncolumns = 2;
	check_query(&query, NULL, "", "<attribute name='name'/><attribute name='primarycontactid'/>");
	query.all_columns = true;
	check_query(&query, NULL, "", "<all-attributes/>");
}

static void
test_outputs(void **state)
{
	const dv_column *columns[] = {&changed};
	dv_output	outputs[] = {{DV_OUTPUT_COLUMN, 0, &boss, false}, {DV_OUTPUT_COLUMN, 0, &name, false}};
	dv_query	query = accounts();

	(void) state;
	query.columns = columns;
	query.ncolumns = 1;
	query.outputs = outputs;
	query.noutputs = 2;
	check_query(&query, NULL, "",
				"<attribute name='primarycontactid' alias='c0'/><attribute name='name' alias='c1'/>");
}

static void
test_aggregates(void **state)
{
	dv_output	outputs[] = {
		{DV_OUTPUT_GROUP, 0, &boss, false}, {DV_OUTPUT_YEAR, 0, &changed, false}, {DV_OUTPUT_MONTH, 0, &changed, false},
		{DV_OUTPUT_DAY, 0, &changed, false}, {DV_OUTPUT_COUNT, 0, &id, false}, {DV_OUTPUT_COUNT_VALUES, 0, &name, false},
		{DV_OUTPUT_COUNT_DISTINCT, 0, &name, false}, {DV_OUTPUT_SUM, 0, &size, false}, {DV_OUTPUT_MIN, 0, &size, false},
		{DV_OUTPUT_MAX, 0, &size, false}
	};
	dv_order	orders[] = {{&statecode, false, 0}};
	dv_operand	one = {"1", false};
	dv_filter	filter = leaf(DV_EQ, &size, &one, 1);
	dv_query	query = accounts();

	(void) state;
	query.outputs = outputs;
	query.noutputs = N(outputs);
	/* groups have no ids, and no order */
	query.orders = orders;
	query.norders = 1;
	query.by_id = true;
	check_query(&query, NULL, " aggregate='true'",
				"<attribute name='primarycontactid' alias='c0' groupby='true'/>"
				"<attribute name='modifiedon' alias='c1' groupby='true' dategrouping='year' usertimezone='false'/>"
				"<attribute name='modifiedon' alias='c2' groupby='true' dategrouping='month' usertimezone='false'/>"
				"<attribute name='modifiedon' alias='c3' groupby='true' dategrouping='day' usertimezone='false'/>"
				"<attribute name='accountid' alias='c4' aggregate='count'/>"
				"<attribute name='name' alias='c5' aggregate='countcolumn'/>"
				"<attribute name='name' alias='c6' aggregate='countcolumn' distinct='true'/>"
				"<attribute name='size' alias='c7' aggregate='sum'/>"
				"<attribute name='size' alias='c8' aggregate='min'/>"
				"<attribute name='size' alias='c9' aggregate='max'/>");

	/* the number of rows */
	query.outputs = NULL;
	query.noutputs = 0;
	query.count = true;
	query.filter = &filter;
	check_query(&query, NULL, " aggregate='true'",
				"<attribute name='accountid' alias='n' aggregate='count'/>"
				"<filter><condition attribute='size' operator='eq' value='1'/></filter>");
}

static void
test_conditions(void **state)
{
	(void) state;
	check_condition(DV_IS_NULL, &boss, NULL, "operator='null'");
	check_condition(DV_IS_NOT_NULL, &boss, NULL, "operator='not-null'");
	check_condition(DV_EQ, &size, "-5", "operator='eq' value='-5'");
	check_condition(DV_NE, &active, "true", "operator='ne' value='true'");
	check_condition(DV_LT, &size, "1e+20", "operator='lt' value='1e+20'");
	check_condition(DV_LE, &statecode, "1", "operator='le' value='1'");
	check_condition(DV_GT, &size, "0.0000000001", "operator='gt' value='0.0000000001'");
	check_condition(DV_GE, &changed, "2024-02-29T12:00:00Z",
					"operator='ge' value='2024-02-29T12:00:00Z'");
	check_condition(DV_EQ, &boss, "00000000-0000-0000-0000-000000000001",
					"operator='eq' value='00000000-0000-0000-0000-000000000001'");
	check_condition(DV_EQ, &name, "", "operator='eq' value=''");
	check_condition(DV_STARTS_WITH, &name, "a", "operator='begins-with' value='a'");
	check_condition(DV_ENDS_WITH, &name, "a", "operator='ends-with' value='a'");
	check_condition(DV_CONTAINS, &name, "a", "operator='like' value='%a%'");
}

static void
test_escapes(void **state)
{
	(void) state;
	check_condition(DV_EQ, &name, "O'Neil", "operator='eq' value='O&apos;Neil'");
	check_condition(DV_EQ, &name, "<a href=\"b\">&amp;</a>",
					"operator='eq' value='&lt;a href=&quot;b&quot;&gt;&amp;amp;&lt;/a&gt;'");
	/* a parser would turn these into blanks, or CR LF into one character */
	check_condition(DV_EQ, &name, "a\tb\r\nc", "operator='eq' value='a&#9;b&#13;&#10;c'");
	check_condition(DV_EQ, &name, " \xc3\xa4\xf0\x9f\x98\x80 ",
					"operator='eq' value=' \xc3\xa4\xf0\x9f\x98\x80 '");
	/* wildcards are quoted where they are wildcards */
	check_condition(DV_EQ, &name, "50%_[c]", "operator='eq' value='50%_[c]'");
	check_condition(DV_CONTAINS, &name, "50%", "operator='like' value='%50[%]%'");
	check_condition(DV_STARTS_WITH, &name, "a_b[c]", "operator='begins-with' value='a[_]b[[]c]'");
	check_condition(DV_ENDS_WITH, &name, "<'", "operator='ends-with' value='&lt;&apos;'");
}

static void
test_lists(void **state)
{
	dv_operand	texts[] = {{"a", false}, {"<&>", false}, {"50%\n", false}};
	dv_operand	numbers[] = {{"1", false}};
	dv_filter	in = leaf(DV_IN, &name, texts, 3);
	dv_filter	not_in = leaf(DV_NOT_IN, &boss, numbers, 1);
	dv_filter	contain = leaf(DV_CONTAIN_VALUES, &colors, numbers, 1);

	(void) state;
	check_filter(&in, "<filter><condition attribute='name' operator='in'><value>a</value>"
				 "<value>&lt;&amp;&gt;</value><value>50%&#10;</value></condition></filter>");
	check_filter(&not_in, "<filter><condition attribute='primarycontactid' operator='not-in'>"
				 "<value>1</value></condition></filter>");
	check_filter(&contain, "<filter><condition attribute='colors' operator='contain-values'>"
				 "<value>1</value></condition></filter>");
}

static void
test_other_columns(void **state)
{
	static const char *const words[] = {
		[DV_EQ] = "eq", [DV_NE] = "ne", [DV_LT] = "lt", [DV_LE] = "le", [DV_GT] = "gt", [DV_GE] = "ge"
	};
	int			kind;

	(void) state;
	for (kind = DV_EQ; kind <= DV_GE; kind++)
	{
		dv_filter	filter = {.kind = (dv_filter_kind) kind, .column = &boss, .other = &owner};
		char		expected[200];

		snprintf(expected, sizeof(expected), "<filter><condition attribute='primarycontactid' "
				 "operator='%s' valueof='ownerid'/></filter>", words[kind]);
		check_filter(&filter, expected);
	}
}

static void
test_placeholders(void **state)
{
	dv_operand	unknown = {"($1 < '2')", true};
	dv_filter	eq = leaf(DV_EQ, &name, &unknown, 1);
	dv_filter	like = leaf(DV_CONTAINS, &name, &unknown, 1);
	dv_filter	in = leaf(DV_IN, &name, &unknown, 1);

	(void) state;
	check_filter(&eq, "<filter><condition attribute='name' operator='eq' value='($1 < '2')'/></filter>");
	check_filter(&like, "<filter><condition attribute='name' operator='like' value='%($1 < '2')%'/>"
				 "</filter>");
	check_filter(&in, "<filter><condition attribute='name' operator='in'><value>($1 < '2')</value>"
				 "</condition></filter>");
}

#define SIZE_1 "<condition attribute='size' operator='eq' value='1'/>"
#define NAME_NULL "<condition attribute='name' operator='null'/>"
#define BOSS_NULL "<condition attribute='primarycontactid' operator='not-null'/>"

static void
test_groups(void **state)
{
	dv_operand	one = {"1", false};
	dv_filter	a = leaf(DV_EQ, &size, &one, 1);
	dv_filter	b = leaf(DV_IS_NULL, &name, NULL, 0);
	dv_filter	c = leaf(DV_IS_NOT_NULL, &boss, NULL, 0);
	dv_filter	always = {.kind = DV_TRUE};
	dv_filter	never = {.kind = DV_FALSE};
	dv_filter  *pair[] = {&b, &c};
	dv_filter	either = {.kind = DV_OR, .n = 2, .parts = pair};
	dv_filter	both = {.kind = DV_AND, .n = 2, .parts = pair};
	dv_filter  *with_either[] = {&a, &either};
	dv_filter  *with_both[] = {&both, &a};
	dv_filter	all = {.kind = DV_AND, .n = 2, .parts = with_either};
	dv_filter	any = {.kind = DV_OR, .n = 2, .parts = with_both};
	dv_filter  *with_constants[] = {&always, &never};
	dv_filter	constants = {.kind = DV_OR, .n = 2, .parts = with_constants};

	(void) state;
	check_filter(&both, "<filter>" NAME_NULL BOSS_NULL "</filter>");
	check_filter(&either, "<filter type='or'>" NAME_NULL BOSS_NULL "</filter>");
	check_filter(&all, "<filter>" SIZE_1 "<filter type='or'>" NAME_NULL BOSS_NULL "</filter></filter>");
	check_filter(&any, "<filter type='or'><filter>" NAME_NULL BOSS_NULL "</filter>" SIZE_1 "</filter>");
	/* every row has an id */
	check_filter(&always, "");
	check_filter(&never, "<filter><condition attribute='accountid' operator='null'/></filter>");
	check_filter(&constants, "<filter type='or'><condition attribute='accountid' operator='not-null'/>"
				 "<condition attribute='accountid' operator='null'/></filter>");
}

#define FULL_NAME "<filter><condition attribute='fullname' operator='eq' value='Bo'/></filter>"

static void
test_links(void **state)
{
	dv_operand	bo = {"Bo", false};
	dv_filter	named = leaf(DV_EQ, &full_name, &bo, 1);
	dv_filter	large = leaf(DV_IS_NOT_NULL, &size, NULL, 0);
	dv_link		links[] = {
		{DV_LINK_OUTER, 0, "contact", &contact_id, &boss, &named},
		{DV_LINK_INNER, 0, "systemuser", &user_id, &owner, NULL},
		{DV_LINK_OUTER, 1, "systemuser", &user_id, &owner, NULL},
	};
	dv_output	outputs[] = {
		{DV_OUTPUT_COLUMN, 3, &user_id, false}, {DV_OUTPUT_COLUMN, 0, &name, false},
		{DV_OUTPUT_COLUMN, 1, &full_name, false}, {DV_OUTPUT_COLUMN, 0, &id, false}
	};
	dv_order	orders[] = {{&full_name, true, 1}, {&size, false, 0}};
	dv_query	query = accounts();

	(void) state;
	query.links = links;
	query.nlinks = N(links);
	query.outputs = outputs;
	query.noutputs = N(outputs);
	query.filter = &large;
	query.orders = orders;
	query.norders = 2;
	query.by_id = true;
	check_query(&query, NULL, "",
				"<attribute name='name' alias='c1'/><attribute name='accountid' alias='c3'/>"
				"<order entityname='t1' attribute='fullname' descending='true'/>"
				"<order attribute='size'/><order attribute='accountid'/>"
				"<filter><condition attribute='size' operator='not-null'/></filter>"
				"<link-entity name='contact' from='contactid' to='primarycontactid' link-type='outer' alias='t1'>"
				"<attribute name='fullname' alias='c2'/>" FULL_NAME
				"<link-entity name='systemuser' from='systemuserid' to='ownerid' link-type='outer' alias='t3'>"
				"<attribute name='systemuserid' alias='c0'/></link-entity></link-entity>"
				"<link-entity name='systemuser' from='systemuserid' to='ownerid' link-type='inner' alias='t2'>"
				"</link-entity>");

	/* all columns belong to links, and then the root would return all of its own */
	query.noutputs = 1;
	query.nlinks = 1;
	query.filter = NULL;
	query.norders = 0;
	query.by_id = false;
	outputs[0].table = 1;
	outputs[0].column = &contact_id;
	links[0].filter = NULL;
	check_query(&query, NULL, "", "<attribute name='accountid'/>"
				"<link-entity name='contact' from='contactid' to='primarycontactid' link-type='outer' alias='t1'>"
				"<attribute name='contactid' alias='c0'/></link-entity>");
	/* but groups have no id */
	outputs[0].kind = DV_OUTPUT_GROUP;
	check_query(&query, NULL, " aggregate='true'",
				"<link-entity name='contact' from='contactid' to='primarycontactid' link-type='outer' alias='t1'>"
				"<attribute name='contactid' alias='c0' groupby='true'/></link-entity>");
}

#define TO_ACCOUNT "<link-entity name='contact' from='parentcustomerid' to='accountid' link-type="

static void
test_semi_joins(void **state)
{
	dv_operand	bo = {"Bo", false};
	dv_filter	named = leaf(DV_EQ, &full_name, &bo, 1);
	dv_filter	never = {.kind = DV_FALSE};
	dv_filter	b = leaf(DV_IS_NULL, &name, NULL, 0);
	dv_filter	c = leaf(DV_IS_NOT_NULL, &boss, NULL, 0);
	dv_filter  *pair[] = {&b, &c};
	dv_filter	group = {.kind = DV_AND, .n = 2, .parts = pair};
	dv_link		links[] = {
		{DV_LINK_EXISTS, 0, "contact", &employer, &id, &named},
		{DV_LINK_NOT_EXISTS, 0, "contact", &employer, &id, &named},
		{DV_LINK_NOT_EXISTS, 0, "contact", &employer, &id, NULL},
	};
	dv_query	query = accounts();

	(void) state;
	query.links = links;
	query.nlinks = 1;
	check_query(&query, NULL, "", "<attribute name='accountid'/>" TO_ACCOUNT "'exists'>" FULL_NAME
				"</link-entity>");
	/* a row without a match lacks the column that joins it */
	links[0].filter = &never;
	check_query(&query, NULL, "", "<attribute name='accountid'/>" TO_ACCOUNT "'exists'>"
				"<filter><condition attribute='parentcustomerid' operator='null'/></filter>"
				"</link-entity>");

	/* an entity has one filter, whatever it contains */
	links[0].filter = NULL;
	query.nlinks = 3;
	check_query(&query, NULL, "", "<attribute name='accountid'/><filter>"
				TO_ACCOUNT "'not any'>" FULL_NAME "</link-entity>"
				TO_ACCOUNT "'not any'></link-entity></filter>" TO_ACCOUNT "'exists'></link-entity>");
	query.links = &links[2];
	query.nlinks = 1;
	query.filter = &group;
	check_query(&query, NULL, "", "<attribute name='accountid'/><filter>" NAME_NULL BOSS_NULL
				TO_ACCOUNT "'not any'></link-entity></filter>");
	group.kind = DV_OR;
	check_query(&query, NULL, "", "<attribute name='accountid'/><filter><filter type='or'>" NAME_NULL
				BOSS_NULL "</filter>" TO_ACCOUNT "'not any'></link-entity></filter>");
	query.filter = &b;
	check_query(&query, NULL, "", "<attribute name='accountid'/><filter>" NAME_NULL
				TO_ACCOUNT "'not any'></link-entity></filter>");
}

static void
test_orders(void **state)
{
	dv_order	orders[] = {{&size, true, 0}, {&id, true, 0}};
	dv_query	query = accounts();

	(void) state;
	query.by_id = true;
	check_query(&query, NULL, "", "<attribute name='accountid'/><order attribute='accountid'/>");
	query.orders = orders;
	query.norders = 1;
	check_query(&query, NULL, "", "<attribute name='accountid'/>"
				"<order attribute='size' descending='true'/><order attribute='accountid'/>");
	query.norders = 2;
	check_query(&query, NULL, "", "<attribute name='accountid'/>"
				"<order attribute='size' descending='true'/><order attribute='accountid' descending='true'/>");
	/* the id of another table does not decide between rows of the root */
	orders[1].table = 2;
	check_query(&query, NULL, "", "<attribute name='accountid'/><order attribute='size' descending='true'/>"
				"<order entityname='t2' attribute='accountid' descending='true'/><order attribute='accountid'/>");
	/* choices and booleans are ordered by their values, not by their labels */
	query.norders = 1;
	orders[0].column = &statecode;
	check_query(&query, NULL, " useraworderby='true'", "<attribute name='accountid'/>"
				"<order attribute='statecode' descending='true'/><order attribute='accountid'/>");
	orders[0].column = &active;
	query.by_id = false;
	check_query(&query, NULL, " useraworderby='true'", "<attribute name='accountid'/>"
				"<order attribute='active' descending='true'/>");
}

static void
test_pages(void **state)
{
	dv_fetch_page page = {1, 5000, NULL};
	dv_query	query = accounts();

	(void) state;
	query.top = 12;
	check_query(&query, NULL, " top='12'", "<attribute name='accountid'/>");
	/* the service refuses both */
	check_query(&query, &page, " count='5000' page='1'", "<attribute name='accountid'/>");
	page.page = 2;
	page.cookie = "<cookie page=\"1\"><name last=\"a&amp;'\" /></cookie>";
	check_query(&query, &page, " count='5000' page='2' paging-cookie='&lt;cookie page=&quot;1&quot;&gt;"
				"&lt;name last=&quot;a&amp;amp;&apos;&quot; /&gt;&lt;/cookie&gt;'",
				"<attribute name='accountid'/>");
}

/* In a URL, everything but letters, digits, and some signs is percent-encoded. */
static void
test_wire(void **state)
{
	dv_operand	value = {"a&b<\n\xc3\xa4%+#", false};
	dv_operand	partition = {"p \xc3\xa4=&", false};
	dv_filter	filter = leaf(DV_CONTAINS, &name, &value, 1);
	dv_query	query = accounts();

	(void) state;
	query.filter = &filter;
	assert_string_equal(written(&query, DV_ODATA_WIRE, NULL),
						"accounts?fetchXml=%3Cfetch%3E%3Centity%20name%3D'account'%3E"
						"%3Cattribute%20name%3D'accountid'%2F%3E%3Cfilter%3E"
						"%3Ccondition%20attribute%3D'name'%20operator%3D'like'%20value%3D'"
						"%25a%26amp%3Bb%26lt%3B%26%2310%3B%C3%A4%5B%25%5D%2B%23%25'%2F%3E"
						"%3C%2Ffilter%3E%3C%2Fentity%3E%3C%2Ffetch%3E");
	/* a partition is an option of its own */
	query.filter = NULL;
	query.partition = &partition;
	assert_string_equal(written(&query, DV_ODATA_WIRE, NULL),
						"accounts?fetchXml=%3Cfetch%3E%3Centity%20name%3D'account'%3E"
						"%3Cattribute%20name%3D'accountid'%2F%3E%3C%2Fentity%3E%3C%2Ffetch%3E"
						"&partitionId=p%20%C3%A4%3D%26");
	partition.placeholder = true;
	assert_string_equal(written(&query, DV_ODATA_READABLE, NULL),
						"accounts?fetchXml=<fetch><entity name='account'><attribute name='accountid'/>"
						"</entity></fetch>&partitionId=p \xc3\xa4=&");
}

/* Planning uses this length, so it must not be shorter than the text written. */
static void
test_text_length(void **state)
{
	static const char *const values[] = {"", "a", "O'Neil", "50%", "a_b[c]", "\xc3\xa4", "a\nb", "<\\\"&"};
	static const dv_filter_kind kinds[] = {DV_EQ, DV_STARTS_WITH, DV_ENDS_WITH, DV_CONTAINS, DV_IN};
	int			i;
	int			k;

	(void) state;
	assert_int_equal(dv_fetch_text_length("a"), 1);
	assert_int_equal(dv_fetch_text_length("%"), 3 * 3);
	assert_int_equal(dv_fetch_text_length("'"), strlen("%26apos%3B"));
	for (i = 0; i < N(values); i++)
	{
		for (k = 0; k < N(kinds); k++)
		{
			dv_operand	operand = {"", false};
			dv_filter	filter = leaf(kinds[k], &name, &operand, 1);
			dv_query	query = accounts();
			size_t		without;

			query.filter = &filter;
			without = dv_fetch_query(&query, DV_ODATA_WIRE, NULL, NULL, 0);
			operand.text = values[i];
			assert_true(dv_fetch_query(&query, DV_ODATA_WIRE, NULL, NULL, 0) - without <=
						dv_fetch_text_length(values[i]));
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_aggregates),
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_other_columns),
		cmocka_unit_test(test_placeholders),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_semi_joins),
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_wire),
		cmocka_unit_test(test_text_length),
	};

	return cmocka_run_group_tests_name("fetch", tests, NULL, NULL);
}

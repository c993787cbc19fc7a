/*
 * odata_test.c
 *		Queries as OData: literals, escapes, grouping, lengths.  Also the
 *		parts of the table of policies that none of dvsim's tables cover.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/odata.h"
#include "dataverse/policy.h"

static const dv_column id = {"accountid", "accountid", DV_TYPE_UNIQUEIDENTIFIER};
static const dv_column name = {"name", "name", DV_TYPE_STRING};
static const dv_column size = {"size", "size", DV_TYPE_INTEGER};
static const dv_column parent = {"parentid", "_parentid_value", DV_TYPE_LOOKUP};
static const dv_column changed = {"modifiedon", "modifiedon", DV_TYPE_DATETIME};

static char text[4096];

static dv_filter
leaf(dv_filter_kind kind, const dv_column *column, dv_operand *operands, int n)
{
	dv_filter	filter = {.kind = kind, .column = column, .n = n, .operands = operands};

	return filter;
}

/* Returns the text after "$filter=". */
static const char *
filter_text(const dv_filter *filter, dv_odata_style style)
{
	static const char front[] = "accounts?$select=accountid&$filter=";
	dv_query	query = {.entity_set = "accounts", .primary_id = &id, .filter = filter};
	size_t		len = dv_odata_query(&query, style, text, sizeof(text));

	assert_int_equal(len, strlen(text));
	assert_memory_equal(text, front, strlen(front));
	return text + strlen(front);
}

static void
check(dv_filter_kind kind, const dv_column *column, const char *value, const char *wire,
	  const char *readable)
{
	dv_operand	operand = {value, false};
	dv_filter	filter = leaf(kind, column, &operand, 1);

	assert_string_equal(filter_text(&filter, DV_ODATA_WIRE), wire);
	assert_string_equal(filter_text(&filter, DV_ODATA_READABLE), readable);
}

static void
test_literals(void **state)
{
	(void) state;
	check(DV_EQ, &size, "-5", "size%20eq%20-5", "size eq -5");
	check(DV_EQ, &name, "O'Neil", "name%20eq%20'O''Neil'", "name eq 'O''Neil'");
	check(DV_EQ, &name, "50%", "name%20eq%20'50%25'", "name eq '50%25'");
	check(DV_EQ, &name, "a&b=c#d+e/f?g", "name%20eq%20'a%26b%3Dc%23d%2Be%2Ff%3Fg'",
		  "name eq 'a%26b=c%23d%2Be/f?g'");
	check(DV_EQ, &name, "\xc3\xa4", "name%20eq%20'%C3%A4'", "name eq '\xc3\xa4'");
	check(DV_EQ, &name, "a\nb", "name%20eq%20'a%0Ab'", "name eq 'a%0Ab'");
	check(DV_GE, &changed, "2024-02-29T12:00:00Z", "modifiedon%20ge%202024-02-29T12:00:00Z",
		  "modifiedon ge 2024-02-29T12:00:00Z");
	check(DV_NE, &parent, "00000000-0000-0000-0000-000000000001",
		  "_parentid_value%20ne%2000000000-0000-0000-0000-000000000001",
		  "_parentid_value ne 00000000-0000-0000-0000-000000000001");
	check(DV_IS_NULL, &parent, NULL, "_parentid_value%20eq%20null", "_parentid_value eq null");
	check(DV_LT, &size, "1e+20", "size%20lt%201e%2B20", "size lt 1e%2B20");
}

static void
test_wildcards(void **state)
{
	(void) state;
	check(DV_CONTAINS, &name, "a%b", "contains(name,'a%5B%25%5Db')", "contains(name,'a[%25]b')");
	check(DV_STARTS_WITH, &name, "a_b[c]", "startswith(name,'a%5B_%5Db%5B%5B%5Dc%5D')",
		  "startswith(name,'a[_]b[[]c]')");
	check(DV_ENDS_WITH, &name, "'", "endswith(name,'''')", "endswith(name,'''')");
	/* where they are not wildcards, they are not quoted */
	check(DV_EQ, &name, "a_b[c]", "name%20eq%20'a_b%5Bc%5D'", "name eq 'a_b[c]'");
}

static void
test_lists(void **state)
{
	dv_operand	values[] = {{"a\"b", false}, {"c\\d", false}, {"e'f\n", false}};
	dv_filter	filter = leaf(DV_IN, &name, values, 3);
	dv_filter	lookup = leaf(DV_NOT_IN, &parent, values, 1);

	(void) state;
	assert_string_equal(filter_text(&filter, DV_ODATA_READABLE),
						"Microsoft.Dynamics.CRM.In(PropertyName='name',PropertyValues="
						"[\"a%5C\"b\",\"c%5C%5Cd\",\"e'f%5Cn\"])");
	/* functions require the logical name */
	values[0].text = "1";
	assert_string_equal(filter_text(&lookup, DV_ODATA_READABLE),
						"Microsoft.Dynamics.CRM.NotIn(PropertyName='parentid',PropertyValues=[\"1\"])");
	assert_true(dv_odata_has_in(&size, 0));
	assert_true(dv_odata_has_in(&name, 850));
	assert_false(dv_odata_has_in(&name, 851));
	assert_false(dv_odata_has_in(&name, 0));
	assert_false(dv_odata_has_in(&changed, 0));
}

static void
test_groups(void **state)
{
	dv_operand	one = {"1", false};
	dv_operand	unknown = {"$1", true};
	dv_filter	a = leaf(DV_EQ, &size, &one, 1);
	dv_filter	b = leaf(DV_EQ, &name, &unknown, 1);
	dv_filter	c = leaf(DV_IS_NOT_NULL, &name, NULL, 0);
	dv_filter  *inner[] = {&b, &c};
	dv_filter	either = {.kind = DV_OR, .n = 2, .parts = inner};
	dv_filter  *outer[] = {&a, &either};
	dv_filter	both = {.kind = DV_AND, .n = 2, .parts = outer};

	(void) state;
	assert_string_equal(filter_text(&both, DV_ODATA_READABLE),
						"size eq 1 and (name eq $1 or name ne null)");
}

/* Columns are compared with columns by the names that they have in rows. */
static void
test_other_columns(void **state)
{
	static const char *const words[] = {
		[DV_EQ] = "eq", [DV_NE] = "ne", [DV_LT] = "lt", [DV_LE] = "le", [DV_GT] = "gt", [DV_GE] = "ge"
	};
	dv_filter	filter = {.column = &parent, .other = &id};
	int			kind;

	(void) state;
	for (kind = DV_EQ; kind <= DV_GE; kind++)
	{
		char		expected[100];

		filter.kind = (dv_filter_kind) kind;
		snprintf(expected, sizeof(expected), "_parentid_value %s accountid", words[kind]);
		assert_string_equal(filter_text(&filter, DV_ODATA_READABLE), expected);
	}
	assert_string_equal(filter_text(&filter, DV_ODATA_WIRE), "_parentid_value%20ge%20accountid");
}

static void
test_query(void **state)
{
	const dv_column *columns[] = {&name, &parent};
	dv_order	orders[] = {{&size, true, 0}, {&id, false, 0}};
	dv_operand	one = {"1", false};
	dv_operand	partition = {"a \xC3\xA4=1", false};
	dv_filter	filter = leaf(DV_EQ, &size, &one, 1);
	dv_query	query = {.entity_set = "accounts", .primary_id = &id, .columns = columns,
	.ncolumns = 2, .by_id = true, .top = 12};
	char		small[8];
	size_t		len;

	(void) state;
	len = dv_odata_query(&query, DV_ODATA_WIRE, text, sizeof(text));
	assert_string_equal(text, "accounts?$select=name,_parentid_value&$orderby=accountid&$top=12");
	assert_int_equal(dv_odata_query(&query, DV_ODATA_WIRE, small, sizeof(small)), len);
	assert_string_equal(small, "account");
	assert_int_equal(dv_odata_query(&query, DV_ODATA_WIRE, NULL, 0), len);

	query.partition = &partition;
	dv_odata_query(&query, DV_ODATA_WIRE, text, sizeof(text));
	assert_string_equal(text, "accounts?$select=name,_parentid_value&$orderby=accountid&$top=12"
						"&partitionId=a%20%C3%A4%3D1");
	dv_odata_query(&query, DV_ODATA_READABLE, text, sizeof(text));
	assert_non_null(strstr(text, "&partitionId=a \xC3\xA4=1"));
	query.partition = NULL;

	query.orders = orders;
	query.norders = 2;
	query.top = 0;
	dv_odata_query(&query, DV_ODATA_READABLE, text, sizeof(text));
	assert_string_equal(text,
						"accounts?$select=name,_parentid_value&$orderby=size desc,accountid");
	query.count = true;
	query.filter = &filter;
	dv_odata_query(&query, DV_ODATA_WIRE, text, sizeof(text));
	assert_string_equal(text,
						"accounts?$apply=filter(size%20eq%201)/aggregate($count%20as%20n)");

	/* without the names of columns, which would be too long */
	query.count = false;
	query.all_columns = true;
	dv_odata_query(&query, DV_ODATA_WIRE, text, sizeof(text));
	assert_string_equal(text, "accounts?$filter=size%20eq%201&$orderby=size%20desc,accountid");
	query.filter = NULL;
	query.norders = 0;
	query.by_id = false;
	query.top = 1;
	dv_odata_query(&query, DV_ODATA_WIRE, text, sizeof(text));
	assert_string_equal(text, "accounts?$top=1");
	query.top = 0;
	dv_odata_query(&query, DV_ODATA_WIRE, text, sizeof(text));
	assert_string_equal(text, "accounts");
}

/* Planning uses this length, so it must not be shorter than the text written. */
static void
test_text_length(void **state)
{
	static const char *const values[] = {"", "a", "O'Neil", "50%", "a_b[c]", "\xc3\xa4", "a\nb", "\\\""};
	size_t		i;

	(void) state;
	assert_int_equal(dv_odata_text_length("a"), 3);
	assert_int_equal(dv_odata_text_length("'"), 4);
	assert_int_equal(dv_odata_text_length("%"), 2 + 3 * 3);
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++)
	{
		dv_operand	one = {values[i], false};
		dv_filter_kind kinds[] = {DV_EQ, DV_STARTS_WITH, DV_ENDS_WITH, DV_CONTAINS, DV_IN};
		size_t		k;

		for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		{
			dv_operand	none = {"", false};
			dv_filter	without = leaf(kinds[k], &name, &none, 1);
			dv_filter	with = leaf(kinds[k], &name, &one, 1);
			dv_query	query = {.entity_set = "accounts", .primary_id = &id, .filter = &without};
			size_t		base = dv_odata_query(&query, DV_ODATA_WIRE, NULL, 0);

			query.filter = &with;
			/* a value of In is a string of JSON in which up to every byte is escaped */
			assert_true(dv_odata_query(&query, DV_ODATA_WIRE, NULL, 0) - base <=
						dv_odata_text_length(values[i]) - 2 + (kinds[k] == DV_IN ? 3 * strlen(values[i]) : 0));
		}
	}
}

static void
test_policies(void **state)
{
	int			comparison;
	int			op;

	(void) state;
	for (comparison = 0; comparison < DV_COMPARISONS; comparison++)
	{
		for (op = 0; op < DV_OPS; op++)
		{
			dv_policy	standard = dv_policy_of(DV_TABLE_STANDARD, comparison, op);

			/*
			 * providers may lack any feature, so nothing is exact; standard tables support most
			 */
			assert_true(dv_policy_of(DV_TABLE_VIRTUAL, comparison, op) < DV_EXACT);
			assert_true(dv_policy_of(DV_TABLE_VIRTUAL, comparison, op) <= standard);
			assert_true(dv_policy_of(DV_TABLE_ELASTIC, comparison, op) <= standard);
		}
		assert_int_equal(dv_policy_of(DV_TABLE_ELASTIC, comparison, DV_OP_ORDER), DV_NEVER);
		assert_int_equal(dv_policy_of(DV_TABLE_STANDARD, comparison, DV_OP_OTHER), DV_NEVER);
	}
	assert_int_equal(dv_policy_of(DV_TABLE_STANDARD, DV_COMPARE_NUMBER, DV_OP_ORDER), DV_EXACT);
	assert_int_equal(dv_policy_of(DV_TABLE_STANDARD, DV_COMPARE_TEXT, DV_OP_NE), DV_NEVER);
	assert_int_equal(dv_policy_of(DV_TABLE_STANDARD, DV_COMPARE_TEXT_CI_AI, DV_OP_EQ), DV_SUPERSET);
	assert_int_equal(dv_policy_of(DV_TABLE_STANDARD, DV_COMPARE_TEXT_CI_AI, DV_OP_NE), DV_NEVER);
	assert_int_equal(dv_policy_of(DV_TABLE_ELASTIC, DV_COMPARE_TEXT_CI_AI, DV_OP_EQ), DV_NEVER);
	assert_int_equal(dv_policy_of(DV_TABLE_ELASTIC, DV_COMPARE_TEXT_CI_AI, DV_OP_NULL), DV_EXACT);
	assert_int_equal(dv_policy_of(DV_TABLE_ELASTIC, DV_COMPARE_TIME, DV_OP_GT), DV_SUPERSET);
}

static void
test_operators(void **state)
{
	int			op;
	int			i;

	(void) state;
	for (op = 0; op < DV_OPS; op++)
	{
		const dv_op_info *info = &dv_ops[op];

		/* a letter for each kind of comparison, separated by blanks */
		assert_int_equal(strlen(info->policy), 2 * DV_COMPARISONS - 1);
		for (i = 0; i < DV_COMPARISONS; i++)
		{
			assert_non_null(strchr("ES.", info->policy[2 * i]));
			assert_true(i == 0 || info->policy[2 * i - 1] == ' ');
		}
		assert_true(info->opposite == DV_OP_OTHER || dv_op_opposite(info->opposite) == (dv_op) op);
	}
	assert_int_equal(dv_op_opposite(DV_OP_LT), DV_OP_GE);
	assert_int_equal(dv_op_opposite(DV_OP_LIKE), DV_OP_OTHER);
	assert_int_equal(dv_op_opposite(DV_OP_OTHER), DV_OP_OTHER);
	assert_int_equal(dv_op_opposite(DV_OP_AND), DV_OP_OTHER);
}

static void
test_types(void **state)
{
	dv_type		none;
	int			i;

	(void) state;
	for (i = 0; i < DV_TYPES; i++)
	{
		dv_type		type = DV_TYPES;

		assert_true(dv_type_by_name(dv_types[i].name, &type));
		assert_int_equal(type, i);
		assert_true(dv_comparison_of(i, DV_COLLATION_BYTES) < DV_COMPARISONS);
		/* fdw/scan/bind.c needs the ranges of types that are compared as numbers */
		assert_true(dv_types[i].range != NULL ||
					(dv_types[i].comparison != DV_COMPARE_NUMBER &&
					 dv_types[i].comparison != DV_COMPARE_CHOICE));
	}
	assert_false(dv_type_by_name("String", &none));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_literals),
		cmocka_unit_test(test_wildcards),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_other_columns),
		cmocka_unit_test(test_query),
		cmocka_unit_test(test_text_length),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_types),
	};

	return cmocka_run_group_tests_name("odata", tests, NULL, NULL);
}

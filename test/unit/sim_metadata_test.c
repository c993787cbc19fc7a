/*
 * sim_metadata_test.c
 *		The tables of properties behind dvsim's metadata, the filter over
 *		them, and the lists that functions take.
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

#include "metadata/metadata.h"

static struct sim_schema *schema;

static int
setup(void **state)
{
	(void) state;
	schema = sim_schema_load(NULL);
	return schema ? 0 : -1;
}

static int
teardown(void **state)
{
	(void) state;
	sim_schema_free(schema);
	return 0;
}

/* ---------------------------------------------------------------- the tables */

static void
check_prop(const struct sim_meta_type *type, const struct sim_meta_prop *prop)
{
	/* if it is found by its name, no other one before it has that name */
	if (sim_meta_prop_of(type, prop->name, strlen(prop->name)) != prop)
		fail_msg("%s has two properties %s", type->name, prop->name);
	if (sim_meta_nav_of(type, prop->name, strlen(prop->name)))
		fail_msg("%s: %s is a navigation, too", type->name, prop->name);
	if (prop->source == SIM_META_FIXED && prop->fixed &&
		(prop->kind == SIM_META_BOOL || prop->kind == SIM_META_MANAGED) &&
		strcmp(prop->fixed, "true") != 0 && strcmp(prop->fixed, "false") != 0)
		fail_msg("%s: %s is neither true nor false", type->name, prop->name);
	if ((prop->kind == SIM_META_ENUM || prop->kind == SIM_META_MANAGED ||
		 prop->kind == SIM_META_LEVEL) && prop->extra == NULL)
		fail_msg("%s: %s lacks the name of its type", type->name, prop->name);
	if (prop->source == SIM_META_GET)
		assert_non_null(prop->get);
	if (prop->source == SIM_META_PUT)
	{
		assert_non_null(prop->put);
		assert_int_equal(prop->kind, SIM_META_JSON);
	}
}

static void
check_type(const struct sim_meta_type *type)
{
	const struct sim_meta_prop *const *group;
	const struct sim_meta_prop *prop;

	assert_non_null(sim_meta_prop_of(type, "MetadataId", 10));
	assert_non_null(sim_meta_prop_of(type, "HasChanged", 10));
	assert_non_null(sim_meta_prop_of(type, "IsManaged", 9));
	assert_non_null(sim_meta_prop_of(type, type->key, strlen(type->key)));
	if (type->base)
		assert_ptr_equal(type->groups[0], type->base->groups[0]);
	for (group = type->groups; *group; group++)
		for (prop = *group; prop->name; prop++)
			check_prop(type, prop);
}

static void
test_tables(void **state)
{
	static const char *const derived[] = {
		"String", "Memo", "Integer", "BigInt", "Decimal", "Double", "Money", "DateTime", "Lookup",
		"Picklist", "MultiSelectPicklist", "State", "Status", "Boolean", "Image", "File",
		"ManagedProperty", "EntityName", "UniqueIdentifier"
	};
	size_t		i;

	(void) state;
	check_type(&sim_meta_entity);
	check_type(&sim_meta_key);
	check_type(&sim_meta_one_to_many);
	check_type(&sim_meta_many_to_many);
	check_type(&sim_meta_option_set);
	check_type(&sim_meta_boolean_set);
	check_type(&sim_meta_attribute);
	for (i = 0; i < sizeof(derived) / sizeof(derived[0]); i++)
	{
		char		name[64];
		const struct sim_meta_type *type;

		snprintf(name, sizeof(name), "%sAttributeMetadata", derived[i]);
		type = sim_meta_derived(&sim_meta_attribute, name, strlen(name));
		assert_non_null(type);
		check_type(type);
	}
	assert_null(sim_meta_derived(&sim_meta_attribute, "EnumAttributeMetadata", 21));
	assert_null(sim_meta_derived(&sim_meta_attribute, "OptionSetMetadata", 17));
	assert_null(sim_meta_derived(&sim_meta_entity, "StringAttributeMetadata", 23));
}

/* Every property of every column can be printed without reading missing data. */
static void
test_every_value(void **state)
{
	struct sim_arena *arena = sim_arena_new();
	struct sim_meta_query query = {.arena = arena, .type = &sim_meta_attribute, .all = true};
	struct sim_buf buf = {0};
	int			i;

	(void) state;
	for (i = 0; i < schema->ntables; i++)
	{
		struct sim_meta_item table = {&sim_meta_entity, &schema->tables[i], NULL};
		struct sim_meta_list columns = {0};

		sim_meta_attributes(arena, &table, &columns);
		assert_int_equal(columns.n, schema->tables[i].ncolumns);
		assert_int_equal(sim_meta_put_list(&query, &columns, &buf), columns.n);
	}
	assert_null(strstr(buf.s, "(null)"));
	sim_buf_free(&buf);
	sim_arena_free(arena);
}

/* ---------------------------------------------------------------- filters */

/* Returns how many tables match, or minus the status of the error. */
static int
count(const char *text)
{
	struct sim	sim = {.schema = schema};
	struct sim_req req = {.sim = &sim, .arena = sim_arena_new(), .base_url = "http://x"};
	struct sim_res res = {0};
	const struct sim_meta_filter *filter;
	int			n = 0;
	int			i;

	sim_pair_add(req.arena, &req.params, "@p", "'account'");
	sim_pair_add(req.arena, &req.params, "@loop", "@loop");
	filter = sim_meta_filter_parse(&req, &res, &sim_meta_entity, text);
	for (i = 0; filter && i < schema->ntables; i++)
	{
		struct sim_meta_item item = {&sim_meta_entity, &schema->tables[i], NULL};

		n += sim_meta_matches(filter, &item);
	}
	if (filter == NULL)
		n = -res.status;
	sim_buf_free(&res.body);
	sim_arena_free(req.arena);
	return n;
}

static void
test_filter(void **state)
{
	int			all = schema->ntables;
	int			custom = count("IsCustomEntity");

	(void) state;
	assert_int_equal(count("LogicalName eq 'account'"), 1);
	assert_int_equal(count("LogicalName eq 'ACCOUNT'"), 0);
	assert_int_equal(count("LogicalName eq @p"), 1);
	assert_int_equal(count("LogicalName ne 'account'"), all - 1);
	assert_int_equal(count("LogicalName eq 'account' or LogicalName eq 'contact'"), 2);
	assert_int_equal(count("LogicalName eq 'account' and LogicalName eq 'contact'"), 0);

	/* "and" binds tighter than "or", and "not" binds tightest */
	assert_int_equal(count("LogicalName eq 'account' or LogicalName eq 'contact' "
						   "and LogicalName eq 'team'"), 1);
	assert_int_equal(count("(LogicalName eq 'account' or LogicalName eq 'contact') "
						   "and LogicalName eq 'contact'"), 1);
	assert_int_equal(count("not LogicalName eq 'account' and not (LogicalName eq 'contact')"),
					 all - 2);

	assert_true(custom > 0 && custom < all);
	assert_int_equal(count("IsCustomEntity eq true"), custom);
	assert_int_equal(count("IsCustomEntity ne true"), all - custom);
	assert_int_equal(count("ObjectTypeCode le 2 and ObjectTypeCode ge 1"), 2);
	assert_int_equal(count("IsCustomizable/Value eq true"), all);
	assert_int_equal(count("OwnershipType eq " SIM_NAMESPACE "OwnershipTypes'UserOwned' or "
						   "OwnershipType ne " SIM_NAMESPACE "OwnershipTypes'UserOwned'"), all);

	assert_int_equal(count("OwnershipType eq 'UserOwned' or OwnershipType ne 'UserOwned'"), all);
	assert_int_equal(count("OwnershipType eq 'UserOwned'"),
					 count("OwnershipType eq " SIM_NAMESPACE "OwnershipTypes'UserOwned'"));
	assert_true(count("OwnershipType eq 'UserOwned'") > 0);

	/* null equals nothing but null */
	assert_int_equal(count("ExternalName eq null"), all);
	assert_int_equal(count("ExternalName ne 'x'"), all);
	assert_int_equal(count("ExternalName gt 'a' or ExternalName le 'a'"), 0);
}

static void
test_filter_refusals(void **state)
{
	(void) state;
	assert_int_equal(count(""), -400);
	assert_int_equal(count("LogicalName"), -400);
	assert_int_equal(count("LogicalName eq"), -400);
	assert_int_equal(count("LogicalName eq 'account"), -400);
	assert_int_equal(count("LogicalName eq 'account' LogicalName"), -400);
	assert_int_equal(count("(LogicalName eq 'account'"), -400);
	assert_int_equal(count("logicalname eq 'account'"), -400);
	assert_int_equal(count("LogicalName eq 5"), -400);
	assert_int_equal(count("LogicalName eq @missing"), -400);
	assert_int_equal(count("LogicalName eq @loop"), -400);
	assert_int_equal(count("OwnershipType eq 'Nobody'"), -400);
	assert_int_equal(count("OwnershipType eq ' None'"), -400);
	assert_int_equal(count("OwnershipType eq 5"), -400);
	assert_int_equal(count("OwnershipType eq " SIM_NAMESPACE "AttributeTypeCode'Lookup'"), -400);
	assert_int_equal(count("IsCustomizable eq true"), -400);
	assert_int_equal(count("DisplayName eq 'Account'"), -400);
	assert_int_equal(count("LogicalName/Value eq 'account'"), -400);
	assert_int_equal(count("startswith(LogicalName,'acc')"), -501);
}

static void
test_filter_depth(void **state)
{
	char		deep[2001];

	(void) state;
	memset(deep, '(', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	assert_int_equal(count(deep), -400);
}

/* ---------------------------------------------------------------- small things */

static void
check_list(const char *text, int expected)
{
	struct sim_arena *arena = sim_arena_new();
	const char **items;
	int			n;

	if (expected < 0)
		assert_false(sim_text_list(arena, text, &items, &n));
	else
	{
		assert_true(sim_text_list(arena, text, &items, &n));
		assert_int_equal(n, expected);
		if (n > 0)
			assert_string_equal(items[0], "a");
	}
	sim_arena_free(arena);
}

static void
test_text_list(void **state)
{
	(void) state;
	check_list("[]", 0);
	check_list(" [ ] ", 0);
	check_list("['a']", 1);
	check_list("[\"a\",'b' , \"c\"]", 3);
	check_list("", -1);
	check_list("[", -1);
	check_list("['a'", -1);
	check_list("['a',]", -1);
	check_list("['a' 'b']", -1);
	check_list("['a]", -1);
	check_list("[a]", -1);
	check_list("['a']x", -1);
}

static void
test_derived_id(void **state)
{
	static const char id[] = "05b3d9c3-eb55-51c6-92b0-c699bc95f89b";
	char		a[37];
	char		b[37];

	(void) state;
	sim_meta_derive_id(id, "a", a);
	sim_meta_derive_id(id, "b", b);
	assert_string_not_equal(a, id);
	assert_string_not_equal(a, b);
	assert_string_equal(a + 8, id + 8);
	assert_int_equal(strspn(a, "0123456789abcdef"), 8);
	sim_meta_derive_id(id, "a", b);
	assert_string_equal(a, b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_every_value),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_filter_refusals),
		cmocka_unit_test(test_filter_depth),
		cmocka_unit_test(test_text_list),
		cmocka_unit_test(test_derived_id)
	};

	return cmocka_run_group_tests_name("sim_metadata", tests, setup, teardown);
}

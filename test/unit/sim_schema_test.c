/*
 * sim_schema_test.c
 *		The schema: the built-in one, on which other tests rely, and custom files.
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
#include <unistd.h>

#include <cmocka.h>

#include "store/schema.h"

static struct sim_schema *schema;

static int
begin(void **state)
{
	(void) state;
	schema = sim_schema_load(NULL);
	return schema != NULL ? 0 : -1;
}

static int
end(void **state)
{
	(void) state;
	sim_schema_free(schema);
	return 0;
}

static struct sim_table *
table_of(const char *name)
{
	struct sim_table *table = sim_table_by_name(schema, name);

	if (table == NULL)
		fail_msg("there is no table %s", name);
	return table;
}

static struct sim_column *
column_of(const char *table, const char *name)
{
	struct sim_column *column = sim_column_by_name(table_of(table), name, strlen(name));

	if (column == NULL)
		fail_msg("%s has no column %s", table, name);
	return column;
}

/* the schema of a file with this text; NULL if it is refused */
static struct sim_schema *
load_text(const char *text)
{
	char		path[] = "/tmp/sim_schema_test.XXXXXX";
	int			fd = mkstemp(path);
	struct sim_schema *loaded;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	loaded = sim_schema_load(path);
	unlink(path);
	return loaded;
}

static void
tables_are_found(void **state)
{
	struct sim_table *account = table_of("account");

	(void) state;
	assert_ptr_equal(sim_table_by_set(schema, "accounts(â35¦)", 8), account);
	assert_null(sim_table_by_name(schema, "Account"));
	assert_null(sim_table_by_set(schema, "account", 7));
	assert_int_equal(account->type_code, 1);
	assert_string_equal(account->primary_name->name, "name");
	assert_string_equal(account->id->name, "accountid");
	assert_true(account->change_tracking && account->optimistic_concurrency);
	assert_true(account->create_multiple && account->update_multiple);
	assert_false(account->delete_multiple);
	assert_false(table_of("task")->create_multiple);
	assert_false(table_of("annotation")->create_multiple);
	assert_true(table_of("new_reading")->delete_multiple);
	assert_int_equal(table_of("new_reading")->type, SIM_ELASTIC);
	assert_string_equal(table_of("new_reading")->partition->name, "partitionid");
	assert_string_equal(table_of("task")->id->name, "activityid");
	assert_string_equal(table_of("new_meter")->schema_name, "new_Meter");
	assert_string_equal(table_of("opportunity")->set_name, "opportunities");
}

static void
columns_have_the_services_flags(void **state)
{
	static const struct
	{
		const char *table;
		const char *column;
		const char *flags;		/* create, read, update, selectable, stored, logical, custom */
	}			cases[] = {
		{"account", "accountid", "cr-ss--"}, {"account", "name", "cruss--"},
		{"account", "createdon", "-r-ss--"}, {"account", "createdby", "-r-ss--"},
		{"account", "versionnumber", "-r-ss--"}, {"account", "overriddencreatedon", "cr-ss--"},
		{"account", "ownerid", "cruss--"}, {"account", "owninguser", "-r-ss--"},
		{"account", "statecode", "-russ--"}, {"account", "statuscode", "cruss--"},
		{"account", "address1_city", "crussl-"}, {"account", "revenue_base", "-r-s---"},
		{"account", "exchangerate", "-r-ss--"}, {"account", "transactioncurrencyid", "cruss--"},
		{"account", "owneridname", "-r---l-"}, {"account", "industrycodename", "-r---l-"},
		{"account", "entityimage_url", "-r-s-l-"}, {"contact", "fullname", "-r-s---"},
		{"new_meter", "new_serial", "crussc"}, {"new_meter", "createdon", "-r-ss--"},
		{"new_alltypes", "new_hidden", "c-u-sc"}, {"new_alltypes", "new_calculated", "-r-s-c"},
		{"new_alltypes", "new_file", "-r-ssc"}, {"new_alltypes", "new_file_name", "-r-sslc"},
		{"new_alltypes", "new_readingidpid", "crussc"}, {"phonecall", "to", "cru----"},
		{"new_reading", "partitionid", "cr-ss--"}, {"new_reading", "ttlinseconds", "cruss--"},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const struct sim_column *c = column_of(cases[i].table, cases[i].column);
		const char *f = cases[i].flags;

		if (c->valid_for_create != (f[0] == 'c') || c->valid_for_read != (f[1] == 'r') ||
			c->valid_for_update != (f[2] == 'u') || c->selectable != (f[3] == 's') ||
			c->stored != (f[4] == 's') || c->is_logical != (f[5] == 'l') ||
			c->custom != (strlen(f) > 5 && f[strlen(f) - 1] == 'c'))
			fail_msg("%s.%s is not %s", cases[i].table, cases[i].column, f);
	}
}

static void
properties_are_what_the_web_api_has(void **state)
{
	struct sim_table *account = table_of("account");
	struct sim_column *owner = column_of("account", "ownerid");

	(void) state;
	assert_string_equal(owner->property, "_ownerid_value");
	assert_ptr_equal(sim_column_by_property(account, "_ownerid_value", 14), owner);
	assert_null(sim_column_by_property(account, "ownerid", 7));
	assert_null(sim_column_by_property(account, "Name", 4));
	assert_null(sim_column_by_property(account, "owneridname", 11));
	assert_null(sim_column_by_property(table_of("phonecall"), "to", 2));
	assert_null(sim_column_by_property(table_of("new_alltypes"), "new_hidden", 10));
	assert_non_null(sim_column_by_property(account, "entityimage_timestamp", 21));
	assert_string_equal(column_of("account", "owneridname")->attribute_of, "ownerid");
}

static void
navigation_properties_have_the_services_names(void **state)
{
	static const struct
	{
		const char *table;
		const char *navigation;
		const char *column;		/* NULL: there is no column */
		const char *target;		/* NULL: several */
	}			cases[] = {
		{"account", "primarycontactid", "primarycontactid", "contact"},
		{"account", "ownerid", "ownerid", NULL}, {"account", "owninguser", "owninguser", "systemuser"},
		{"contact", "parentcustomerid_account", "parentcustomerid", "account"},
		{"contact", "parentcustomerid_contact", "parentcustomerid", "contact"},
		{"contact", "parentcustomerid", NULL, NULL},
		{"task", "regardingobjectid_account_task", "regardingobjectid", "account"},
		{"task", "regardingobjectid_new_meter_task", "regardingobjectid", "new_meter"},
		{"task", "ownerid_task", "ownerid", NULL}, {"task", "ownerid", "ownerid", NULL},
		{"task", "createdby_task", "createdby", "systemuser"},
		{"annotation", "objectid_contact", "objectid", "contact"},
		{"new_meter", "new_AccountId", "new_accountid", "account"},
		{"new_meter", "new_accountid", NULL, NULL},
		{"new_alltypes", "new_RelatedId_new_meter", "new_relatedid", "new_meter"},
		{"new_alltypes", "new_customerid_account", "new_customerid", "account"},
		{"sdkmessagefilter", "sdkmessageid", "sdkmessageid", "sdkmessage"},
		{"solutioncomponent", "solutionid", "solutionid", "solution"},
		{"account", "name", NULL, NULL},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		struct sim_target *target;
		struct sim_column *column = sim_column_by_navigation(table_of(cases[i].table),
															 cases[i].navigation,
															 strlen(cases[i].navigation), &target);

		if (column == NULL || cases[i].column == NULL)
		{
			if ((column == NULL) != (cases[i].column == NULL))
				fail_msg("%s of %s", cases[i].navigation, cases[i].table);
			continue;
		}
		assert_string_equal(column->name, cases[i].column);
		if (cases[i].target == NULL)
			assert_null(target);
		else
			assert_string_equal(target->table->name, cases[i].target);
	}
}

static void
relationships_are_seen_from_both_sides(void **state)
{
	struct sim_table *account = table_of("account");
	struct sim_relationship *rel;
	struct sim_many *many;

	(void) state;
	rel = sim_collection_by_name(account, "contact_customer_accounts", 25);
	assert_non_null(rel);
	assert_string_equal(rel->referencing->name, "contact");
	assert_string_equal(rel->column->name, "parentcustomerid");
	assert_int_equal(rel->on_delete, SIM_CASCADE);
	rel = sim_collection_by_name(table_of("new_meter"), "new_meter_new_alltypes", 22);
	assert_non_null(rel);
	assert_int_equal(rel->on_delete, SIM_RESTRICT);
	assert_non_null(sim_collection_by_name(account, "Account_Tasks", 13));
	assert_null(sim_collection_by_name(account, "account_tasks", 13));

	/* as in the service, the owner's relationship is with "owner" */
	rel = column_of("account", "ownerid")->targets[0].relationship;
	assert_string_equal(rel->schema_name, "owner_accounts");
	assert_string_equal(rel->referenced->name, "owner");
	assert_ptr_equal(rel, column_of("account", "ownerid")->targets[1].relationship);

	many = sim_many_by_name(account, "new_Account_Contact", 19);
	assert_non_null(many);
	assert_ptr_equal(many, sim_many_by_name(table_of("contact"), "new_Account_Contact", 19));
	assert_string_equal(many->column1->name, "accountid");
	assert_string_equal(many->column2->name, "contactid");
}

static void
keys_options_and_states(void **state)
{
	struct sim_table *meter = table_of("new_meter");
	struct sim_table *task = table_of("task");
	struct sim_option *option;

	(void) state;
	assert_int_equal(meter->nkeys, 2);
	assert_string_equal(meter->keys[0].name, "new_serialkey");
	assert_int_equal(meter->keys[1].n, 2);
	assert_string_equal(meter->keys[1].columns[0]->name, "new_accountid");
	assert_string_equal(table_of("new_reading")->keys[0].schema_name,
						"KeyForNoSqlEntityWithPKPartitionId");
	assert_true(column_of("new_meter", "new_kind")->options->global);
	option = sim_option_by_value(column_of("new_meter", "new_kind")->options, 100000001);
	assert_string_equal(option->label, "Gas");
	assert_null(sim_option_by_value(column_of("new_meter", "new_kind")->options, 1));

	option = sim_option_by_value(task->status->options, 5);
	assert_int_equal(option->state, 1);
	assert_true(option->is_default);
	option = sim_option_by_value(task->status->options, 3);
	assert_int_equal(option->state, 0);
	assert_false(option->is_default);
	assert_int_equal(task->status->default_value, 2);
	assert_false(table_of("new_reading")->has_state);
	assert_false(table_of("annotation")->has_state);
}

/* Every column type of the service is used, nearly all of them in new_alltypes. */
static void
every_type_is_there(void **state)
{
	bool		seen[SIM_TYPES] = {false};
	int			i;
	int			j;

	(void) state;
	for (i = 0; i < schema->ntables; i++)
	{
		for (j = 0; j < schema->tables[i].ncolumns; j++)
			seen[schema->tables[i].columns[j].type] = true;
	}
	for (i = 0; i < SIM_TYPES; i++)
	{
		if (!seen[i])
			fail_msg("no column is of %s", sim_type_name((enum sim_type) i));
	}
	assert_string_equal(sim_type_name(SIM_UUID), "UniqueidentifierType");
}

static void
pointers_and_ids_are_consistent(void **state)
{
	int			i;
	int			j;

	(void) state;
	for (i = 0; i < schema->ntables; i++)
	{
		struct sim_table *t = &schema->tables[i];

		assert_int_equal(strlen(t->metadata_id), 36);
		for (j = 0; j < t->ncolumns; j++)
		{
			struct sim_column *c = &t->columns[j];

			assert_ptr_equal(c->table, t);
			assert_int_equal(c->ordinal, j);
			assert_ptr_equal(sim_column_by_name(t, c->name, strlen(c->name)), c);
			assert_int_equal(strlen(c->metadata_id), 36);
			assert_true(c->formula == NULL || !c->stored);
			if (c->type == SIM_LOOKUP || c->type == SIM_CUSTOMER || c->type == SIM_OWNER)
				assert_true(c->ntargets > 0);
		}
		for (j = 0; j < t->none_to_many; j++)
			assert_ptr_equal(t->one_to_many[j]->referenced, t);
		for (j = 0; j < t->nmany_to_one; j++)
			assert_ptr_equal(t->many_to_one[j]->referencing, t);
	}
}

static void
a_file_of_ones_own(void **state)
{
	struct sim_schema *own = load_text(
									   "{\"tables\": [{\"name\": \"crf_Site\", \"primary_name\": \"crf_name\", \"columns\": ["
									   "{\"name\": \"crf_Name\", \"type\": \"string\"},"
									   "{\"name\": \"crf_ParentId\", \"type\": \"lookup\", \"targets\": [\"crf_site\"]}]}],"
									   "\"rows\": {\"crf_site\": [{\"crf_name\": \"first\"}]}}");
	struct sim_table *site;
	struct sim_target *target;

	(void) state;
	assert_non_null(own);
	site = sim_table_by_name(own, "crf_site");
	assert_non_null(site);
	assert_string_equal(site->set_name, "crf_sites");
	assert_string_equal(site->label, "Site");
	assert_true(site->custom && site->create_multiple && site->optimistic_concurrency);
	assert_non_null(sim_column_by_navigation(site, "crf_ParentId", 12, &target));
	assert_ptr_equal(target->table, site);
	assert_non_null(sim_table_by_name(own, "systemuser"));
	assert_non_null(sim_table_by_name(own, "sdkmessagefilter"));
	assert_null(sim_table_by_name(own, "account"));
	sim_schema_free(own);
}

static void
faulty_files_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "{", "[]", "{}", "{\"tables\": {}}", "{\"tables\": []} x",
		"{\"tables\": [{}]}", "{\"tables\": [5]}", "{\"tables\": [{\"name\": \"\"}]}",
		"{\"tables\": [{\"name\": \"a\"}, {\"name\": \"A\"}]}",
		"{\"tables\": [{\"name\": \"a\\\"b\"}]}", "{\"tables\": [{\"name\": \"1a\"}]}",
		"{\"tables\": [{\"name\": \"a\", \"id\": \"~\"}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x.y\", \"type\": \"memo\"}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"set\": \"x\"}, {\"name\": \"b\", \"set\": \"x\"}]}",
		"{\"tables\": [{\"name\": \"a\", \"type\": \"square\"}]}",
		"{\"tables\": [{\"name\": \"a\", \"ownership\": \"mine\"}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": {}}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [5]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"type\": \"string\"}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x\", \"type\": \"text\"}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x\", \"type\": \"state\"}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x\", \"type\": \"picklist\"}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x\", \"type\": \"lookup\"}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x\", \"type\": \"lookup\","
		" \"targets\": [\"nowhere\"]}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x\", \"type\": \"lookup\","
		" \"targets\": [{\"table\": \"a\", \"delete\": \"explode\"}]}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x\", \"type\": \"picklist\","
		" \"option_set\": \"none\"}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"columns\": [{\"name\": \"x\", \"type\": \"string\"},"
		" {\"name\": \"X\", \"type\": \"memo\"}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"primary_name\": \"x\"}]}",
		"{\"tables\": [{\"name\": \"a\", \"keys\": [{\"name\": \"k\", \"columns\": [\"x\"]}]}]}",
		"{\"tables\": [{\"name\": \"a\", \"states\": [[0, \"Active\"]]}]}",
		"{\"tables\": [{\"name\": \"a\", \"states\": []}]}",
		"{\"tables\": [{\"name\": \"a\", \"states\": [[0, \"Active\", []]]}]}",
		"{\"tables\": [{\"name\": \"a\", \"type\": \"intersect\"}]}",
		"{\"tables\": [{\"name\": \"a\", \"type\": \"intersect\", \"many\": {\"table1\": \"b\"}}]}",
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		struct sim_schema *loaded = load_text(bad[i]);

		if (loaded != NULL)
			fail_msg("taken: %s", bad[i]);
	}
	assert_null(sim_schema_load("/nonexistent/schema.json"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_are_found),
		cmocka_unit_test(columns_have_the_services_flags),
		cmocka_unit_test(properties_are_what_the_web_api_has),
		cmocka_unit_test(navigation_properties_have_the_services_names),
		cmocka_unit_test(relationships_are_seen_from_both_sides),
		cmocka_unit_test(keys_options_and_states),
		cmocka_unit_test(every_type_is_there),
		cmocka_unit_test(pointers_and_ids_are_consistent),
		cmocka_unit_test(a_file_of_ones_own),
		cmocka_unit_test(faulty_files_are_refused),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

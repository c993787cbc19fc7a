/*
 * metadata_test.c
 *		Foreign tables made from definitions, especially odd ones, and from
 *		answers that are malformed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "dataverse/name_index.h"
#include "metadata_sample.h"

static const dv_meta_wish all_columns = {.readonly = true};

/* Makes a column that exists only for FetchXML, as labels do. */
#define HELPER(name, type, parent) \
	ATTRIBUTE(name, type, ",\"AttributeOf\":\"" parent "\",\"IsValidODataAttribute\":false")

/* Returns all names, in their order. */
static const char *
names(void)
{
	dv_arena_text text = dv_arena_text_begin(&arena);
	int			i;

	for (i = 0; i < table.ncolumns; i++)
		dv_arena_append_item(&text, " ", table.columns[i].name);
	return text.s;
}

/* ---------------------------------------------------------------- the catalog */

#define LONG "new_12345678901234567890123456789012345678901234567890123456789"	/* 63 bytes */

static void
tables_are_sorted_and_named(void **state)
{
	(void) state;
	read_catalog(ENTRY("new_b") ",{\"LogicalName\":\"hidden\",\"EntitySetName\":null},"
				 "{\"LogicalName\":\"empty\",\"EntitySetName\":\"\"}," ENTRY(
																			 LONG "3") "," ENTRY(LONG "45") ",null,17," ENTRY("account"));
	assert_int_equal(catalog.n, 4);
	assert_string_equal(catalog.entries[0].table, "account");
	assert_null(dv_meta_find(&catalog, "hidden"));
	assert_null(dv_meta_find(&catalog, NULL));
	assert_string_equal(dv_meta_find(&catalog, "new_b")->entity_set, "new_bs");
	/* names are truncated as PostgreSQL does it, and then numbered */
	assert_string_equal(dv_meta_find(&catalog, LONG "3")->local, LONG);
	assert_int_equal(strlen(dv_meta_find(&catalog, LONG "45")->local), 63);
	assert_memory_equal(dv_meta_find(&catalog, LONG "45")->local, LONG, 61);
	assert_string_equal(dv_meta_find(&catalog, LONG "45")->local + 61, "_2");
	assert_ptr_equal(dv_meta_find_local(&catalog, LONG), dv_meta_find(&catalog, LONG "3"));
}

/* A name that need not be truncated is never given to another column. */
static void
short_names_come_first(void **state)
{
	(void) state;
	read_catalog(ENTRY(LONG "3") "," ENTRY(LONG));
	assert_string_equal(dv_meta_find(&catalog, LONG)->local, LONG);
	assert_string_equal(dv_meta_find(&catalog, LONG "3")->local + 61, "_2");
}

static void
no_catalogue(void **state)
{
	(void) state;
	dv_meta_catalog_read(&arena, NULL, &catalog);
	assert_int_equal(catalog.n, 0);
	assert_null(dv_meta_find(&catalog, "account"));
}

/* ---------------------------------------------------------------- the answer */

/* Returns the definitions, separated by blanks, or NULL if the reader refused the answer. */
static const char *
definitions_of(const char *answer, size_t len)
{
	char	   *copy = malloc(len + 1);
	dv_arena_text text = dv_arena_text_begin(&arena);
	dv_meta_reader reader;
	const char *one;
	size_t		n;

	/* the allocation ends where the text ends, for the sanitizer */
	memcpy(copy, answer, len);
	copy[len] = '\0';
	dv_meta_reader_begin(&reader, copy, len);
	while (dv_meta_reader_next(&reader, &one, &n))
	{
		if (text.len > 0)
			dv_arena_append(&text, " ");
		dv_arena_append_len(&text, one, n);
	}
	assert_false(dv_meta_reader_next(&reader, &one, &n));
	free(copy);
	return dv_meta_reader_failed(&reader) ? NULL : text.s;
}

static const char good[] =
"{\"@odata.context\":\"x\",\"A\":[1,{\"EntityMetadata\":[{}]}],\"B\" : {\"C\":\"]}\"}, \"D\":-1.5,"
"\"EntityMetadata\" : [ {\"a\":\"}\\\"{\",\"b\":[{},[]]} ,\n{\"c\":\"\\\\\"}, {} ],\"E\":null}";

static void
definitions_are_found(void **state)
{
	(void) state;
	assert_string_equal(definitions_of(good, strlen(good)),
						"{\"a\":\"}\\\"{\",\"b\":[{},[]]} {\"c\":\"\\\\\"} {}");
	assert_string_equal(definitions_of("{\"EntityMetadata\":[]}", 21), "");
}

static void
half_an_answer_is_none(void **state)
{
	const char *end = strstr(good, "],\"E\"");
	size_t		n;

	(void) state;
	for (n = 0; n <= (size_t) (end - good); n++)
		assert_null(definitions_of(good, n));
}

static void
other_answers_are_none(void **state)
{
	static const char *const bad[] = {"[]",
		"{}",
		"{\"EntityMetadata\":null}",
		"{\"EntityMetadata\":[1]}",
		"{\"EntityMetadata\":[{} {}]}",
		"{\"EntityMetadata\":[{},]}",
		"{\"A\":1}",
		"{\"A\":1,}",
		"{\"A\":[1},\"EntityMetadata\":[]}",
		"{\"A\":01,\"EntityMetadata\":[]}",
		"{\"A\":\"\\x\",\"EntityMetadata\":[]}",
		"{\"A\"",
		"{\"A\\",
		"{1:2}",
		"{\"EntityMetadata\":[\"",
		"nothing",
	"<html>"};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (definitions_of(bad[i], strlen(bad[i])) != NULL)
			fail_msg("%s was taken for an answer", bad[i]);
}

/* ---------------------------------------------------------------- columns */

static void
key_first_then_by_number(void **state)
{
	(void) state;
	read_table(
			   ATTRIBUTE("c", "IntegerType", ",\"ColumnNumber\":3") "," ATTRIBUTE(
																				  "b", "IntegerType",
																				  ",\"ColumnNumber\":2") "," ATTRIBUTE("new_tid", "UniqueidentifierType",
																													   ",\"ColumnNumber\":9") "," ATTRIBUTE("a",
																																							"IntegerType",
																																							",\"ColumnNumber\":3"),
			   "", &everything);
	assert_string_equal(names(), "new_tid b a c");
	assert_true(column("new_tid")->primary);
	assert_string_equal(table.primary_id, "new_tid");
	assert_string_equal(table.table_type, "standard");
	assert_string_equal(table.entity_set, "new_ts");
	assert_null(table.keys);
	assert_null(table.comment);
}

static void
what_cannot_be_read_is_no_column(void **state)
{
	(void) state;
	read_table(
			   ATTRIBUTE("unread", "StringType", ",\"IsValidForRead\":false") "," ATTRIBUTE("fetch", "StringType", ",\"IsValidODataAttribute\":false") "," ATTRIBUTE(
																																									 "to", "PartyListType",
																																									 "") "," ATTRIBUTE("rule", "CalendarRulesType",
																																													   "") "," ATTRIBUTE("new", "FutureType",
																																																		 "") ",{\"LogicalName\":\"untyped\"},{},null," ATTRIBUTE("good",
																																																																 "StringType",
																																																																 ""),
			   "", &everything);
	assert_string_equal(names(), "good");
	/* without a length, any length is allowed */
	assert_string_equal(column("good")->sql, "text");
}

static void
types_hold_what_is_read(void **state)
{
	(void) state;
	read_table(ATTRIBUTE("plain",
						 "StringType", ",\"MaxLength\":100,\"DatabaseLength\":200") "," ATTRIBUTE("shrunk",
																								  "StringType", ",\"MaxLength\":50,\"DatabaseLength\":800") "," ATTRIBUTE("endless", "StringType", ",\"MaxLength\":100,\"DatabaseLength\":-1") "," ATTRIBUTE("huge", "StringType", ",\"MaxLength\":1073741823") "," ATTRIBUTE("borrowed",
																																																																															  "StringType", ",\"MaxLength\":100,\"IsLogical\":true") "," ATTRIBUTE("dec",
																																																																																																   "DecimalType", ",\"Precision\":3") "," ATTRIBUTE("dec_any",
																																																																																																													"DecimalType", "") "," ATTRIBUTE("own",
																																																																																																																					 "MoneyType",
																																																																																																																					 ",\"Precision\":2,\"PrecisionSource\":0") "," ATTRIBUTE("currency",
																																																																																																																																			 "MoneyType",
																																																																																																																																			 ",\"Precision\":2,\"PrecisionSource\":2") "," ATTRIBUTE("base",
																																																																																																																																																	 "MoneyType",
																																																																																																																																																	 ",\"Precision\":2,\"PrecisionSource\":0,"
																																																																																																																																																	 "\"IsValidForCreate\":false,\"IsValidForUpdate\":false") "," ATTRIBUTE("day",
																																																																																																																																																																			"DateTimeType", ",\"DateTimeBehavior\":{\"Value\":\"DateOnly\"}") "," ATTRIBUTE("clock",
																																																																																																																																																																																							"DateTimeType", ",\"DateTimeBehavior\":{\"Value\":\"TimeZoneIndependent\"}") "," ATTRIBUTE("instant",
																																																																																																																																																																																																													   "DateTimeType",
																																																																																																																																																																																																													   ",\"Format\":\"DateOnly\""),
			   "", &everything);
	assert_string_equal(column("plain")->sql, "varchar(100)");
	assert_string_equal(column("shrunk")->sql, "varchar(400)");
	assert_string_equal(column("endless")->sql, "varchar(100)");
	assert_string_equal(column("huge")->sql, "text");
	assert_string_equal(column("borrowed")->sql, "text");
	assert_string_equal(column("dec")->sql, "numeric(15,3)");
	assert_string_equal(column("dec_any")->sql, "numeric(22,10)");
	assert_string_equal(column("own")->sql, "numeric(17,2)");
	assert_string_equal(column("currency")->sql, "numeric(19,4)");
	assert_string_equal(column("base")->sql, "numeric(19,4)");
	assert_int_equal(column("day")->type, DV_TYPE_DATE);
	assert_string_equal(column("day")->sql, "date");
	assert_int_equal(column("clock")->type, DV_TYPE_DATETIME_INDEPENDENT);
	assert_string_equal(column("clock")->sql, "timestamp");
	assert_string_equal(column("instant")->sql, "timestamptz");
}

/* The values of virtual tables depend on their providers. */
static void
virtual_text_has_no_length(void **state)
{
	(void) state;
	read_table(ATTRIBUTE("plain", "StringType", ",\"MaxLength\":100"), ",\"TableType\":\"Virtual\"",
			   &everything);
	assert_string_equal(table.table_type, "virtual");
	assert_string_equal(column("plain")->sql, "text");
}

static void
read_only_columns(void **state)
{
	static const char attributes[] =
	ATTRIBUTE("new_tid", "UniqueidentifierType", ",\"IsValidForCreate\":false,\"IsValidForUpdate\":false") "," ATTRIBUTE("create_only", "IntegerType", ",\"IsValidForUpdate\":false") "," ATTRIBUTE(
																																																	"update_only", "StateType",
																																																	",\"IsValidForCreate\":false") "," ATTRIBUTE("neither", "IntegerType",
																																																												 ",\"IsValidForCreate\":false,\"IsValidForUpdate\":false") "," ATTRIBUTE("computed",
																																																																														 "IntegerType",
																																																																														 ",\"SourceType\":3") "," ATTRIBUTE("upload",
																																																																																							"FileType",
																																																																																							"") "," ATTRIBUTE("setting",
																																																																																											  "ManagedPropertyType",
																																																																																											  "") "," ATTRIBUTE("later", "IntegerType", ",\"IsValidForCreate\":false");

	(void) state;
	read_table(attributes, "", &all_columns);
	assert_false(column("create_only")->readonly);
	assert_false(column("update_only")->readonly);
	assert_false(column("later")->readonly);
	assert_true(column("later")->update_only);
	assert_false(column("later")->create_only);
	assert_true(column("create_only")->create_only);
	assert_false(column("create_only")->update_only);
	assert_false(column("neither")->create_only);
	assert_false(column("new_tid")->create_only);
	/* the writer sends a state again, after the row */
	assert_false(column("update_only")->update_only);
	assert_false(column("neither")->update_only);
	assert_false(column("new_tid")->update_only);
	assert_true(column("neither")->readonly);
	assert_true(column("computed")->readonly);
	assert_string_equal(column("computed")->source, "formula");
	assert_null(column("neither")->source);
	assert_true(column("upload")->readonly);
	assert_true(column("setting")->readonly);
	/* the key is needed even if it cannot be written */
	read_table(attributes, "", &nothing);
	assert_string_equal(names(), "new_tid create_only later update_only");
}

/* ---------------------------------------------------------------- helpers and names */

static void
labels_are_found_by_what_they_help(void **state)
{
	(void) state;
	read_table(
			   ATTRIBUTE("kind", "PicklistType", ",\"ColumnNumber\":1") "," HELPER("kindyominame", "StringType", "kind") "," HELPER("kindcaption", "VirtualType", "kind") "," ATTRIBUTE(
																																														"state", "StateType",
																																														",\"ColumnNumber\":2") "," HELPER("statelabel", "VirtualType",
																																																						  "state") "," HELPER("thestatename", "VirtualType",
																																																											  "state") "," ATTRIBUTE("flag",
																																																																	 "BooleanType",
																																																																	 ",\"ColumnNumber\":3") "," HELPER("aflagname",
																																																																									   "VirtualType",
																																																																									   "flag") "," HELPER("flagname",
																																																																														  "VirtualType",
																																																																														  "flag") "," ATTRIBUTE("many",
																																																																																				"MultiSelectPicklistType",
																																																																																				",\"ColumnNumber\":4"),
			   "", &everything);
	/* the last one has no helper columns */
	assert_string_equal(names(), "kind kindcaption state thestatename flag flagname many manyname");
	assert_string_equal(column("kindcaption")->label_of, "kind");
	assert_true(column("kindcaption")->readonly);
	assert_null(column("kindcaption")->column);
	read_table(ATTRIBUTE("kind", "PicklistType", "") "," HELPER("kindname", "VirtualType", "kind"),
			   "", &all_columns);
	assert_string_equal(names(), "kind");
}

/* A column keeps its name even if a label or a type would have the same name. */
static void
columns_keep_their_names(void **state)
{
	(void) state;
	read_table(
			   ATTRIBUTE("kind", "PicklistType", ",\"ColumnNumber\":1") "," ATTRIBUTE("kindname", "StringType", ",\"ColumnNumber\":7") "," ATTRIBUTE(
																																					 "kindname_2", "StringType",
																																					 ",\"ColumnNumber\":8") "," ATTRIBUTE("who", "CustomerType",
																																														  ",\"ColumnNumber\":2,\"Targets\":[\"account\",\"contact\"]") "," ATTRIBUTE("whotype",
																																																																	 "IntegerType",
																																																																	 ",\"ColumnNumber\":9") "," ATTRIBUTE("ctid",
																																																																										  "IntegerType",
																																																																										  ",\"ColumnNumber\":10"),
			   "", &everything);
	assert_string_equal(names(),
						"kind kindname_3 who whotype_2 whoname kindname kindname_2 whotype ctid_2");
	assert_string_equal(column("kindname_3")->label_of, "kind");
	assert_string_equal(column("whotype_2")->ref_type_of, "who");
	assert_string_equal(column("ctid_2")->column, "ctid");
}

static void
long_names_are_cut(void **state)
{
	(void) state;
	read_table(
			   ATTRIBUTE(LONG "1", "IntegerType", ",\"ColumnNumber\":1") "," ATTRIBUTE(
																					   LONG "2", "BooleanType",
																					   ",\"ColumnNumber\":2") "," ATTRIBUTE("\xc3\xa4" LONG, "IntegerType",
																															",\"ColumnNumber\":3") "," ATTRIBUTE("new_123456789012345678901234567890123456789012345678901234567\xf0\x9f\x98\x80",
																																								 "IntegerType",
																																								 ",\"ColumnNumber\":4"),
			   "", &everything);
	assert_int_equal(table.ncolumns, 5);
	assert_string_equal(table.columns[0].name, LONG);
	assert_string_equal(table.columns[0].column, LONG "1");
	assert_string_equal(table.columns[1].name + 61, "_2");
	assert_string_equal(table.columns[2].name + 61, "_3");
	assert_string_equal(table.columns[2].label_of, LONG "2");
	assert_int_equal(strlen(table.columns[3].name), 63);
	/* names are not truncated in the middle of a character */
	assert_string_equal(table.columns[4].name,
						"new_123456789012345678901234567890123456789012345678901234567");
}

static void
helpers_that_are_properties(void **state)
{
	(void) state;
	read_table(
			   ATTRIBUTE("pic", "ImageType", ",\"ColumnNumber\":1") "," ATTRIBUTE("pic_url", "StringType", ",\"ColumnNumber\":2,\"AttributeOf\":\"pic\",\"IsValidODataAttribute\":true") "," ATTRIBUTE(
																																																	   "pic_old", "StringType", ",\"ColumnNumber\":2,\"AttributeOf\":\"pic\"") "," ATTRIBUTE("site", "LookupType", ",\"ColumnNumber\":3,\"Targets\":[\"account\"]") "," ATTRIBUTE("sitepid", "StringType", ",\"ColumnNumber\":4,\"AttributeOf\":\"site\",\"IsValidODataAttribute\":true") "," ATTRIBUTE("sitename", "StringType", ",\"ColumnNumber\":5,\"AttributeOf\":\"site\",\"IsValidODataAttribute\":true") "," ATTRIBUTE("orphan",
																																																																																																																																																							   "StringType",
																																																																																																																																																							   ",\"ColumnNumber\":6,\"AttributeOf\":\"nobody\",\"IsValidODataAttribute\":true"),
			   "", &all_columns);
	assert_string_equal(names(), "pic pic_url site sitepid");
	assert_string_equal(column("pic_url")->helper_of, "pic");
	assert_string_equal(column("sitepid")->helper_of, "site");
	assert_null(column("pic")->helper_of);
}

static void
sources(void **state)
{
	static const char *const names_of[] = {NULL, "calculated", "rollup", "formula", "prompt", "other"};
	int			i;

	(void) state;
	for (i = 0; i < 6; i++)
	{
		char		attributes[256];

		snprintf(attributes, sizeof(attributes), ATTRIBUTE("c", "IntegerType", ",\"SourceType\":%d"), i);
		read_table(attributes, "", &all_columns);
		assert_int_equal(column("c")->readonly, i > 0);
		if (names_of[i] == NULL)
			assert_null(column("c")->source);
		else
			assert_string_equal(column("c")->source, names_of[i]);
	}
	read_table(ATTRIBUTE("c", "IntegerType", ",\"SourceType\":null"), "", &all_columns);
	assert_null(column("c")->source);
	read_table(ATTRIBUTE("c", "IntegerType", ",\"SourceType\":-1"), "", &all_columns);
	assert_string_equal(column("c")->source, "other");
}

/* ---------------------------------------------------------------- lookups, keys, comments */

#define LEADS(column, target, navigation) \
	"{\"ReferencingAttribute\":\"" column "\",\"ReferencedEntity\":\"" target "\"," \
	"\"ReferencingEntityNavigationPropertyName\":\"" navigation "\"}"

static void
lookups_know_where_they_lead(void **state)
{
	(void) state;
	read_table(
			   ATTRIBUTE("one", "LookupType", ",\"ColumnNumber\":1,\"Targets\":[\"account\"]") "," ATTRIBUTE("two", "CustomerType", ",\"ColumnNumber\":2,\"Targets\":[\"account\",\"contact\"]") "," ATTRIBUTE(
																																																			   "some", "LookupType",
																																																			   ",\"ColumnNumber\":3,\"Targets\":[\"contact\",\"hidden\",\"team\"]") "," ATTRIBUTE("none",
																																																																								  "LookupType",
																																																																								  ",\"ColumnNumber\":4,\"Targets\":[]") "," ATTRIBUTE("ownerid",
																																																																																					  "OwnerType",
																																																																																					  ",\"ColumnNumber\":5"),
			   ",\"ManyToOneRelationships\":[" LEADS("one", "account", "new_One") "," LEADS("two", "contact", "two_contact") "," LEADS(
																																	   "two", "account",
																																	   "two_account") "," LEADS("some", "contact",
																																								"some_contact") "," LEADS("some", "hidden",
																																														  "some_hidden") "," LEADS("ownerid",
																																																				   "owner",
																																																				   "ownerid") "]",
			   &all_columns);
	assert_string_equal(names(), "one two twotype some sometype none ownerid owneridtype");
	assert_string_equal(column("one")->navigation, "new_One");
	assert_string_equal(column("one")->target, "account");
	assert_string_equal(column("one")->target_set, "accounts");
	assert_string_equal(column("two")->navigation, "two_account,two_contact");
	assert_string_equal(column("two")->target, "account,contact");
	assert_string_equal(column("two")->target_set, "accounts,contacts");
	/* a table that is not served, and a table without a navigation property */
	assert_string_equal(column("some")->target, "contact");
	assert_true(column("none")->readonly);
	assert_null(column("none")->target);
	assert_string_equal(column("ownerid")->navigation, "ownerid,ownerid");
	assert_string_equal(column("ownerid")->target, "systemuser,team");
}

static void
active_keys(void **state)
{
	(void) state;
	read_table(ATTRIBUTE("a", "StringType", ""),
			   ",\"TableType\":\"Elastic\",\"Keys\":["
			   "{\"KeyAttributes\":[\"a\"],\"EntityKeyIndexStatus\":\"Active\"},"
			   "{\"KeyAttributes\":[\"b\"],\"EntityKeyIndexStatus\":\"Pending\"},"
			   "{\"KeyAttributes\":[\"c\",\"d\"],\"EntityKeyIndexStatus\":\"Active\"}]",
			   &everything);
	assert_string_equal(table.keys, "a;c,d");
	assert_string_equal(table.table_type, "elastic");
	assert_null(table.partition_id);
}

#define LABEL(text) \
	"{\"UserLocalizedLabel\":{\"Label\":\"" text "\"},\"LocalizedLabels\":[{\"Label\":\"other\"}]}"

static void
comments(void **state)
{
	(void) state;
	read_table(
			   ATTRIBUTE("kind", "PicklistType", ",\"ColumnNumber\":1,\"DisplayName\":" LABEL("Kind") ",\"Description\":" LABEL("what it is") ",\"OptionSet\":{\"Options\":[{\"Value\":1,\"Label\":" LABEL("Gut") "},{\"Value\":-2,\"Label\":null}]}") "," ATTRIBUTE(
																																																																	 "flag", "BooleanType",
																																																																	 ",\"ColumnNumber\":2,\"OptionSet\":{\"TrueOption\":{\"Label\":" LABEL("Ja") "},\"FalseOption\":{\"Label\":" LABEL(
																																																																																													   "Nein") "}}") "," ATTRIBUTE("foreign", "IntegerType",
																																																																																																				   ",\"ColumnNumber\":3,\"DisplayName\":"
																																																																																																				   "{\"UserLocalizedLabel\":null,\"LocalizedLabels\":[{\"Label\":\"Zahl\"}]}") "," ATTRIBUTE("bare",
																																																																																																																											 "IntegerType",
																																																																																																																											 ",\"ColumnNumber\":4,\"DisplayName\":" LABEL(
																																																																																																																																						  "")),
			   ",\"DisplayName\":" LABEL("T"), &everything);
	assert_string_equal(table.comment, "T");
	assert_string_equal(column("kind")->comment, "Kind (1 = Gut, -2): what it is");
	assert_string_equal(column("flag")->comment, "(false = Nein, true = Ja)");
	assert_string_equal(column("foreign")->comment, "Zahl");
	assert_null(column("bare")->comment);
}

/* Only with labels can there be more columns than PostgreSQL allows, so labels are left out. */
static void
labels_give_way(void **state)
{
	dv_arena_text text = dv_arena_text_begin(&arena);
	int			i;

	(void) state;
	for (i = 0; i < 801; i++)
		dv_arena_append_item(&text, ",",
							 dv_arena_printf(&arena, ATTRIBUTE("c%d", "BooleanType", ""), i));
	read_table(text.s, "", &everything);
	assert_int_equal(table.ncolumns, 801);
	assert_true(table.without_labels);
}

#define MANY 20000

/* If the time grew faster than their number, this would take hours. */
static void
test_many_names(void **state)
{
	char	   *text = allocate(NULL, MANY * 200);
	dv_name_index seen = dv_name_index_begin(&arena);
	char	   *end = text;
	size_t		i;

	(void) state;
	for (i = 0; i < MANY; i++)
		end += sprintf(end, "%s{\"LogicalName\":\"" LONG "%zu\",\"EntitySetName\":\"x\"}",
					   i > 0 ? "," : "", i);
	read_catalog(text);
	assert_int_equal(catalog.n, MANY);
	for (i = 0; i < catalog.n; i++)
	{
		assert_true(strlen(catalog.entries[i].local) <= DV_META_NAME_MAX);
		assert_true(dv_name_index_add(&seen, catalog.entries[i].local, i));
		assert_int_equal(*dv_name_index_find(&seen, catalog.entries[i].local), i);
	}
	assert_string_equal(catalog.entries[MANY - 1].local + 57, "_20000");
	assert_null(dv_name_index_find(&seen, "another"));
}

/* A number is skipped if a short enough name has it already. */
static void
test_taken_numbers(void **state)
{
	(void) state;
	read_table(ATTRIBUTE("ctid", "IntegerType", "") "," ATTRIBUTE("ctid_2", "IntegerType", "") ","
			   ATTRIBUTE("ctid_4", "IntegerType", "") "," ATTRIBUTE("tableoid", "IntegerType", ""),
			   "", &all_columns);
	assert_string_equal(column("ctid_3")->column, "ctid");
	assert_string_equal(column("tableoid_2")->column, "tableoid");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_many_names),
		TEST(test_taken_numbers),
		TEST(tables_are_sorted_and_named),
		TEST(short_names_come_first),
		TEST(no_catalogue),
		TEST(definitions_are_found),
		TEST(half_an_answer_is_none),
		TEST(other_answers_are_none),
		TEST(key_first_then_by_number),
		TEST(what_cannot_be_read_is_no_column),
		TEST(types_hold_what_is_read),
		TEST(virtual_text_has_no_length),
		TEST(read_only_columns),
		TEST(labels_are_found_by_what_they_help),
		TEST(columns_keep_their_names),
		TEST(long_names_are_cut),
		TEST(helpers_that_are_properties),
		TEST(sources),
		TEST(lookups_know_where_they_lead),
		TEST(active_keys),
		TEST(comments),
		TEST(labels_give_way),
	};

	return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}

/*
 * metadata_request_test.c
 *		Requests for the definitions of tables, and the definitions merged
 *		from their answers.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "metadata_sample.h"

/* ---------------------------------------------------------------- many tables at once */

/* Returns the JSON of a request. */
static const char *
query_of(const char *path)
{
	static const char begin[] = "RetrieveMetadataChanges(Query=@p1)?@p1=";
	char	   *json = allocate(NULL, strlen(path) + 1);
	char	   *out = json;

	assert_non_null(path);
	assert_memory_equal(path, begin, strlen(begin));
	for (path += strlen(begin); *path != '\0'; path++)
	{
		unsigned int byte = (unsigned char) *path;

		if (*path == '%')
		{
			assert_int_equal(sscanf(path + 1, "%2x", &byte), 1);
			path += 2;
		}
		*out++ = (char) byte;
	}
	*out = '\0';
	json_object_put(document);
	document = json_tokener_parse(json);
	if (document == NULL)
		fail_msg("malformed: %s", json);
	return json;
}

#define EQUALS(name) \
	"{\"ConditionOperator\":\"Equals\",\"PropertyName\":\"LogicalName\"," \
	"\"Value\":{\"Type\":\"System.String\",\"Value\":\"" name "\"}}"

#define CRITERIA(conditions) \
	"{\"Criteria\":{\"FilterOperator\":\"Or\",\"Conditions\":[" conditions "]}," \
	"\"Properties\":{\"AllProperties\":false,\"PropertyNames\":[\"LogicalName\","

static void
tables_are_named_as_documented(void **state)
{
	dv_meta_wish wish = everything;
	const char *json;
	size_t		next = 0;
	int			n;

	(void) state;
	read_catalog(ENTRY("a") "," ENTRY("b") "," ENTRY("c\\\"") "," ENTRY("d") "," ENTRY("e"));
	catalog.entries[1].wanted = true;
	catalog.entries[2].wanted = true;
	catalog.entries[3].wanted = true;
	catalog.entries[3].met = true;
	json = query_of(dv_meta_changes_path(&arena, &catalog, &wish, &next, &n));
	assert_int_equal(n, 2);
	assert_memory_equal(json, CRITERIA(EQUALS("b") "," EQUALS("c\\\"")),
						strlen(CRITERIA(EQUALS("b") "," EQUALS("c\\\""))));
	assert_non_null(strstr(json, "\"OptionSet\""));
	assert_null(strstr(json, "LabelQuery"));
	assert_null(strstr(json, "[,"));
	assert_null(dv_meta_changes_path(&arena, &catalog, &wish, &next, &n));
	assert_int_equal(n, 0);

	/* only the labels that are needed */
	next = 0;
	wish.nlanguages = 2;
	wish.languages[0] = 1031;
	wish.languages[1] = 1033;
	json = query_of(dv_meta_changes_path(&arena, &catalog, &wish, &next, &n));
	assert_non_null(strstr(json, ",\"LabelQuery\":{\"FilterLanguages\":[1031,1033],"
						   "\"MissingLabelBehavior\":0}}"));
	next = 0;
	wish.comments = false;
	json = query_of(dv_meta_changes_path(&arena, &catalog, &wish, &next, &n));
	assert_null(strstr(json, "LabelQuery"));
	assert_null(strstr(json, "OptionSet"));
	assert_null(strstr(json, "DisplayName"));
}

/* Requests all tables whose names have this form, and returns the number of requests. */
static int
requests_for(const char *form, int ntables, int most)
{
	dv_arena_text text = dv_arena_text_begin(&arena);
	const char *path;
	size_t		next = 0;
	int			requests = 0;
	int			sum = 0;
	int			n;
	int			i;

	for (i = 0; i < ntables; i++)
		dv_arena_append_item(&text, ",", dv_arena_printf(&arena, ENTRY("%s%d"), form, i, form, i));
	read_catalog(text.s);
	assert_int_equal(catalog.n, ntables);
	for (i = 0; i < ntables; i++)
		catalog.entries[i].wanted = true;
	while ((path = dv_meta_changes_path(&arena, &catalog, &everything, &next, &n)) != NULL)
	{
		const char *p;
		int			named = 0;

		assert_true(strlen(path) <= (size_t) most);
		for (p = strstr(query_of(path), "System.String"); p != NULL; p = strstr(p + 1, "System.String"))
			named++;
		assert_int_equal(named, n);
		sum += n;
		requests++;
	}
	assert_int_equal(sum, ntables);
	return requests;
}

static void
many_tables_take_several_requests(void **state)
{
	char		name[40001];

	(void) state;
	assert_int_equal(requests_for("new_t", DV_META_CHUNK, DV_META_PATH_MAX), 1);
	assert_int_equal(requests_for("new_t", DV_META_CHUNK + 1, DV_META_PATH_MAX), 2);
	assert_int_equal(requests_for("new_t", 10 * DV_META_CHUNK, DV_META_PATH_MAX), 10);
	/* names so long that fewer fit into a request */
	memset(name, 'x', sizeof(name));
	name[1000] = '\0';
	assert_true(requests_for(name, 60, DV_META_PATH_MAX) > 2);
	/* and one that does not fit, which nevertheless gets a request */
	name[1000] = 'x';
	name[40000] = '\0';
	assert_int_equal(requests_for(name, 1, 45000), 1);
}

/* ---------------------------------------------------------------- languages */

static dv_meta_wish
languages_of(const char *label, const char *organization)
{
	dv_meta_wish wish = {.comments = true};

	json_object_put(document);
	document = json_tokener_parse(label);
	dv_meta_language_read(document, &wish);
	json_object_put(document);
	document = json_tokener_parse(organization);
	dv_meta_language_read(document, &wish);
	return wish;
}

#define USER_LABEL(code) "{\"DisplayName\":{\"UserLocalizedLabel\":{\"Label\":\"User\",\"LanguageCode\":" code "}}}"

static void
languages(void **state)
{
	dv_meta_wish wish = languages_of(USER_LABEL("1031"), "{\"value\":[{\"languagecode\":1033}]}");

	(void) state;
	assert_int_equal(wish.nlanguages, 2);
	assert_int_equal(wish.languages[0], 1031);
	assert_int_equal(wish.languages[1], 1033);
	assert_int_equal(languages_of(USER_LABEL("1033"), "{\"value\":[{\"languagecode\":1033}]}").nlanguages, 1);
	assert_int_equal(languages_of("{\"DisplayName\":null}", "{\"value\":[]}").nlanguages, 0);
	assert_int_equal(languages_of(USER_LABEL("\"1033\""), "{\"value\":[{\"languagecode\":-1}]}").nlanguages, 0);
	assert_int_equal(languages_of("[]", "nothing").nlanguages, 0);
}

/* ---------------------------------------------------------------- the plain way */

#define PLAIN_TABLE \
	"EntityDefinitions(LogicalName='new_t')?$select=LogicalName,PrimaryIdAttribute,TableType," \
	"IsIntersect%s&$expand=Attributes($select=LogicalName,AttributeTypeName,AttributeOf," \
	"ColumnNumber,IsLogical,IsValidForRead,IsValidForCreate,IsValidForUpdate," \
	"IsValidODataAttribute,SourceType%s),ManyToOneRelationships($select=ReferencedEntity," \
	"ReferencingAttribute,ReferencingEntityNavigationPropertyName)," \
	"Keys($select=LogicalName,KeyAttributes,EntityKeyIndexStatus)"
#define CAST "EntityDefinitions(LogicalName='new_t')/Attributes/Microsoft.Dynamics.CRM."

/* Returns the requests for columns, without their common part. */
static const char *
casts_of(const dv_meta_wish *wish)
{
	dv_arena_text text = dv_arena_text_begin(&arena);
	int			i;

	for (i = 0; i < DV_META_CASTS; i++)
	{
		const char *path = dv_meta_cast_path(&arena, "new_t", document, wish, i);

		if (path == NULL)
			continue;
		assert_memory_equal(path, CAST, strlen(CAST));
		dv_arena_append_item(&text, " ", path + strlen(CAST));
	}
	return text.s;
}

#define CHOICES(of) "OptionSet($select=" of "),GlobalOptionSet($select=" of ")"

static void
plain_requests(void **state)
{
	dv_meta_wish wish = everything;

	(void) state;
	read_table(ATTRIBUTE("a", "StringType", "") "," ATTRIBUTE("b", "OwnerType", "") ","
			   ATTRIBUTE("c", "BooleanType", "") "," ATTRIBUTE("d", "IntegerType", "") ",{},null", "", &nothing);
	assert_string_equal(dv_meta_table_path(&arena, "new_t", &nothing),
						dv_arena_printf(&arena, PLAIN_TABLE, "", ""));
	assert_string_equal(dv_meta_table_path(&arena, "new_t", &wish),
						dv_arena_printf(&arena, PLAIN_TABLE, ",DisplayName,Description",
										",DisplayName,Description"));
	assert_string_equal(casts_of(&nothing),
						"StringAttributeMetadata?$select=LogicalName,MaxLength,DatabaseLength "
						"LookupAttributeMetadata?$select=LogicalName,Targets");
	/* a single language can be named, several cannot */
	wish.nlanguages = 1;
	wish.languages[0] = 1033;
	assert_non_null(strstr(dv_meta_table_path(&arena, "new_t", &wish), "&LabelLanguages=1033"));
	assert_string_equal(casts_of(&wish),
						"StringAttributeMetadata?$select=LogicalName,MaxLength,DatabaseLength "
						"LookupAttributeMetadata?$select=LogicalName,Targets "
						"BooleanAttributeMetadata?$select=LogicalName&$expand="
						CHOICES("TrueOption,FalseOption") "&LabelLanguages=1033");
	wish.nlanguages = 2;
	assert_null(strstr(dv_meta_table_path(&arena, "new_t", &wish), "LabelLanguages"));
	assert_null(strstr(casts_of(&wish), "LabelLanguages"));
	assert_string_equal(dv_meta_table_path(&arena, "o'n", &nothing) + strlen("EntityDefinitions"),
						strstr(dv_arena_printf(&arena, "(LogicalName='o''n')%s",
											   strchr(dv_arena_printf(&arena, PLAIN_TABLE, "", ""), '?')), "("));
}

/* Adds the answer to the request for the columns of one kind. */
static void
add_answer(const char *kind, const char *rows)
{
	int			i;

	for (i = 0; i < DV_META_CASTS; i++)
	{
		const char *path = dv_meta_cast_path(&arena, "new_t", document, &everything, i);
		struct json_object *answer;

		if (path == NULL || strncmp(path + strlen(CAST), kind, strlen(kind)) != 0)
			continue;
		answer = json_tokener_parse(dv_arena_printf(&arena, "{\"value\":[%s]}", rows));
		assert_non_null(answer);
		dv_meta_cast_read(&arena, document, answer, i);
		json_object_put(answer);
		return;
	}
	fail_msg("there is no request for columns of kind %s", kind);
}

static void
plain_answers_are_put_together(void **state)
{
	(void) state;
	read_table(ATTRIBUTE("a", "StringType", "") "," ATTRIBUTE("b", "LookupType", "") ","
			   ATTRIBUTE("c", "PicklistType", "") "," ATTRIBUTE("d", "PicklistType", "") ","
			   ATTRIBUTE("e", "MoneyType", ""), "", &nothing);
	add_answer("String", "{\"LogicalName\":\"a\",\"MaxLength\":10,\"DatabaseLength\":20},"
			   "{\"LogicalName\":\"gone\",\"MaxLength\":1},{\"MaxLength\":2},null,17,"
			   "{\"LogicalName\":\"b\",\"MaxLength\":3}");
	add_answer("Lookup", "{\"LogicalName\":\"b\",\"Targets\":[\"account\"]}");
	add_answer("Picklist", "{\"LogicalName\":\"c\",\"OptionSet\":{\"Options\":[{\"Value\":1}]},"
			   "\"GlobalOptionSet\":null},"
			   "{\"LogicalName\":\"d\",\"OptionSet\":null,\"GlobalOptionSet\":{\"Options\":[{\"Value\":2}]}}");
	add_answer("Money", "{\"LogicalName\":\"e\",\"Precision\":2,\"PrecisionSource\":0}");
	json_object_object_add(document, "ManyToOneRelationships",
						   json_tokener_parse("[{\"ReferencingAttribute\":\"b\",\"ReferencedEntity\":\"account\","
											  "\"ReferencingEntityNavigationPropertyName\":\"new_B\"}]"));
	dv_meta_table_read(&arena, &catalog, dv_meta_entry_of(&catalog, document), document,
					   &everything, &table);
	assert_string_equal(column("a")->sql, "varchar(10)");
	assert_string_equal(column("b")->target, "account");
	assert_string_equal(column("b")->navigation, "new_B");
	assert_string_equal(column("c")->comment, "(1)");
	assert_string_equal(column("d")->comment, "(2)");
	assert_string_equal(column("e")->sql, "numeric(17,2)");
}

/* ---------------------------------------------------------------- solutions */

static void
paths_of_solutions(void **state)
{
	(void) state;
	assert_string_equal(dv_meta_components_path(&arena, "it's 1"),
						"solutioncomponents?$select=objectid&$filter=componenttype%20eq%201%20and%20"
						"solutionid/uniquename%20eq%20'it''s%201'");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tables_are_named_as_documented),
		TEST(many_tables_take_several_requests),
		TEST(languages),
		TEST(plain_requests),
		TEST(plain_answers_are_put_together),
		TEST(paths_of_solutions),
	};

	return cmocka_run_group_tests_name("metadata_request", tests, NULL, NULL);
}

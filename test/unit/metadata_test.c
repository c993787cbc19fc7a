/*
 * metadata_test.c
 *		Foreign tables made from definitions, especially odd ones, and from
 *		answers that are malformed.
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
#include <json-c/json.h>

#include "dataverse/metadata.h"
#include "dataverse/name_index.h"

/* ---------------------------------------------------------------- help */

typedef struct chunk
{
	struct chunk *next;
	max_align_t data[];
}			chunk;

static const dv_meta_wish nothing;
static const dv_meta_wish all_columns = {.readonly = true};

static chunk * chunks;
static struct json_object *document;
static dv_meta_catalog catalog;
static dv_meta_table table;
static const dv_meta_wish everything = {.labels = true, .readonly = true, .comments = true};

static void *
allocate(void *context, size_t size)
{
	chunk	   *c = malloc(sizeof(*c) + size);

	(void) context;
	assert_non_null(c);
	c->next = chunks;
	chunks = c;
	return c->data;
}

static const dv_arena arena = {allocate, NULL};

static int
forget(void **state)
{
	(void) state;
	while (chunks != NULL)
	{
		chunk	   *next = chunks->next;

		free(chunks);
		chunks = next;
	}
	json_object_put(document);
	document = NULL;
	return 0;
}

static void
read_catalog(const char *tables)
{
	char	   *text = allocate(NULL, strlen(tables) + 20);
	struct json_object *json;

	sprintf(text, "{\"value\":[%s]}", tables);
	json = json_tokener_parse(text);
	assert_non_null(json);
	dv_meta_catalog_read(&arena, json, &catalog);
	json_object_put(json);
}

#define ENTRY(name) "{\"LogicalName\":\"" name "\",\"EntitySetName\":\"" name "s\"}"

/* Makes the table "new_t" with these attributes and additional members. */
static void
read_table(const char *attributes, const char *more, const dv_meta_wish *wish)
{
	char	   *text = allocate(NULL, strlen(attributes) + strlen(more) + 200);

	read_catalog(ENTRY("new_t") "," ENTRY("account") "," ENTRY("contact") "," ENTRY(
																					"systemuser") "," ENTRY("team") "," ENTRY("owner"));
	sprintf(text,
			"{\"LogicalName\":\"new_t\",\"PrimaryIdAttribute\":\"new_tid\","
			"\"Attributes\":[%s]%s}",
			attributes, more);
	json_object_put(document);
	document = json_tokener_parse(text);
	assert_non_null(document);
	dv_meta_table_read(&arena, &catalog, dv_meta_entry_of(&catalog, document), document, wish,
					   &table);
}

#define TYPE(type)                  "\"AttributeTypeName\":{\"Value\":\"" type "\"}"
#define ATTRIBUTE(name, type, more) "{\"LogicalName\":\"" name "\"," TYPE(type) more "}"

/* Makes a column that exists only for FetchXML, as labels do. */
#define HELPER(name, type, parent) \
	ATTRIBUTE(name, type, ",\"AttributeOf\":\"" parent "\",\"IsValidODataAttribute\":false")

static const dv_meta_column *
column(const char *name)
{
	int			i;

	for (i = 0; i < table.ncolumns; i++)
		if (strcmp(table.columns[i].name, name) == 0)
			return &table.columns[i];
	fail_msg("there is no column \"%s\"", name);
	return NULL;
}

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

/* ---------------------------------------------------------------- the request */

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

/* Asks for all tables whose names have the form, and returns the number of requests. */
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
	/* and one that does not fit, for which there is a request all the same */
	name[1000] = 'x';
	name[40000] = '\0';
	assert_int_equal(requests_for(name, 1, 45000), 1);
}

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

/* Returns the requests for columns, without what all have in common. */
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

static void
paths_of_solutions(void **state)
{
	(void) state;
	assert_string_equal(dv_meta_components_path(&arena, "it's 1"),
						"solutioncomponents?$select=objectid&$filter=componenttype%20eq%201%20and%20"
						"solutionid/uniquename%20eq%20'it''s%201'");
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
																																																																																											  "");

	(void) state;
	read_table(attributes, "", &all_columns);
	assert_false(column("create_only")->readonly);
	assert_false(column("update_only")->readonly);
	assert_true(column("neither")->readonly);
	assert_true(column("computed")->readonly);
	assert_string_equal(column("computed")->source, "formula");
	assert_null(column("neither")->source);
	assert_true(column("upload")->readonly);
	assert_true(column("setting")->readonly);
	/* the key is needed even if it cannot be written */
	read_table(attributes, "", &nothing);
	assert_string_equal(names(), "new_tid create_only update_only");
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

/* With time that grows faster than their number, this would take hours. */
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

/* A number is skipped where a name that is short enough has it already. */
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
#define TEST(f) cmocka_unit_test_teardown(f, forget)
	const struct CMUnitTest tests[] = {
		TEST(test_many_names),
		TEST(test_taken_numbers),
		TEST(tables_are_sorted_and_named),
		TEST(short_names_come_first),
		TEST(no_catalogue),
		TEST(tables_are_named_as_documented),
		TEST(many_tables_take_several_requests),
		TEST(languages),
		TEST(plain_requests),
		TEST(plain_answers_are_put_together),
		TEST(paths_of_solutions),
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

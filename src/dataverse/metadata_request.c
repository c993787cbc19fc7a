/*
 * metadata_request.c
 *		The requests for definitions of tables.
 *
 * There are two ways.  RetrieveMetadataChanges returns all properties of many
 * tables in one answer.  Its answers are large, because they have every existing
 * property, null unless it was requested.  Therefore it is called for some tables
 * at a time, in the only documented form of a list: conditions of which one has to
 * be true.
 *
 * The plain way is a request for each table.  Its columns come with the
 * properties that all columns have.  For other properties, they are requested again
 * as columns of their type ("cast"), with one request for each type that the
 * table has and that has such properties.  Their answers are put into that of
 * the table, so that the definition looks the same.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <json-c/json.h>
#include <string.h>

#include "dataverse/metadata.h"
#include "dataverse/metadata_json.h"
#include "dataverse/payload.h"
#include "net/url.h"

const char *const dv_meta_catalog_path =
"EntityDefinitions?$select=LogicalName,EntitySetName,IsPrivate,IsIntersect";

const char *const dv_meta_sides_path =
"RelationshipDefinitions/Microsoft.Dynamics.CRM.ManyToManyRelationshipMetadata"
"?$select=IntersectEntityName,"
"Entity1LogicalName,Entity1IntersectAttribute,Entity1NavigationPropertyName,"
"Entity2LogicalName,Entity2IntersectAttribute,Entity2NavigationPropertyName";

const char *const dv_meta_solutions_path =
"solutions?$select=uniquename&$filter=isvisible%20eq%20true&$orderby=uniquename";

/* Appends a text as it is written in a request line: 'it''s%201' */
static void
append_quoted(dv_arena_text *path, const dv_arena *arena, const char *text)
{
	size_t		len = strlen(text);
	char	   *key = arena->alloc(arena->context, DV_PAYLOAD_KEY(len));
	size_t		key_len = (size_t) (dv_payload_key(key, text, len) - key);
	char	   *line = arena->alloc(arena->context, DV_PAYLOAD_LINE(key_len));

	dv_arena_append_len(path, line, (size_t) (dv_payload_line(line, key, key_len) - line));
}

const char *
dv_meta_components_path(const dv_arena *arena, const char *solution)
{
	dv_arena_text path = dv_arena_text_begin(arena);

	dv_arena_append(&path, "solutioncomponents?$select=objectid"
					"&$filter=componenttype%20eq%201%20and%20solutionid/uniquename%20eq%20");
	append_quoted(&path, arena, solution);
	return path.s;
}

/* ---------------------------------------------------------------- languages */

const char *const dv_meta_language_paths[DV_META_LANGUAGES] = {
	"EntityDefinitions(LogicalName='systemuser')?$select=DisplayName",
	"organizations?$select=languagecode"
};

static void
add_language(dv_meta_wish *wish, int code)
{
	int			i;

	for (i = 0; i < wish->nlanguages; i++)
		if (wish->languages[i] == code)
			return;
	if (code > 0 && wish->nlanguages < DV_META_LANGUAGES)
		wish->languages[wish->nlanguages++] = code;
}

void
dv_meta_language_read(struct json_object *answer, dv_meta_wish *wish)
{
	struct json_object *label = dv_meta_member(dv_meta_member(answer, "DisplayName"),
											   "UserLocalizedLabel");
	struct json_object *rows = dv_meta_array(answer, "value");

	add_language(wish, dv_meta_int(label, "LanguageCode", 0));
	if (dv_meta_length(rows) == 1)
		add_language(wish, dv_meta_int(json_object_array_get_idx(rows, 0), "languagecode", 0));
}

/* ---------------------------------------------------------------- properties */

static const char *const table_properties[] = {
	"LogicalName", "PrimaryIdAttribute", "TableType", "IsIntersect", NULL
};

/* Properties of all columns. */
static const char *const column_properties[] = {
	"LogicalName", "AttributeTypeName", "AttributeOf", "ColumnNumber", "IsLogical",
	"IsValidForRead", "IsValidForCreate", "IsValidForUpdate", "IsValidODataAttribute",
	"SourceType", NULL
};

static const char *const relationship_properties[] = {
	"ReferencedEntity", "ReferencingAttribute", "ReferencingEntityNavigationPropertyName", NULL
};

static const char *const key_properties[] = {
	"LogicalName", "KeyAttributes", "EntityKeyIndexStatus", NULL
};

/* The collections that belong to a table. */
static const char *const collections[] = {
	"Attributes", "ManyToOneRelationships", "Keys", NULL
};

/* Properties for comments, with the choices of columns. */
static const char *const labels[] = {
	"DisplayName", "Description", NULL
};

#define MOST_TYPES 3			/* that share a cast */
#define MOST_PROPERTIES 3

typedef struct cast
{
	const char *name;			/* without "AttributeMetadata" */
	const char *types[MOST_TYPES];	/* AttributeTypeName of the columns that it returns */
	const char *properties[MOST_PROPERTIES];	/* of these columns only */
	const char *choices;		/* properties of their choices, which are only needed for comments */
} cast;

static const cast casts[DV_META_CASTS] = {
	{"String", {"StringType"}, {"MaxLength", "DatabaseLength"}, NULL},
	{"Decimal", {"DecimalType"}, {"Precision"}, NULL},
	{"Money", {"MoneyType"}, {"Precision", "PrecisionSource"}, NULL},
	{"DateTime", {"DateTimeType"}, {"DateTimeBehavior"}, NULL},
	{"Image", {"ImageType"}, {"IsPrimaryImage"}, NULL},
	{"Lookup", {"LookupType", "CustomerType", "OwnerType"}, {"Targets"}, NULL},
	{"Picklist", {"PicklistType"}, {NULL}, "Options"},
	{"MultiSelectPicklist", {"MultiSelectPicklistType"}, {NULL}, "Options"},
	{"State", {"StateType"}, {NULL}, "Options"},
	{"Status", {"StatusType"}, {NULL}, "Options"},
	{"EntityName", {"EntityNameType"}, {NULL}, "Options"},
	{"Boolean", {"BooleanType"}, {NULL}, "TrueOption,FalseOption"},
};

static void
append_names(dv_arena_text *text, const char *const *names, int most, const char *quote)
{
	int			i;

	for (i = 0; i < most && names[i] != NULL; i++)
	{
		if (text->len > 0 && text->s[text->len - 1] != '[' && text->s[text->len - 1] != '=')
			dv_arena_append(text, ",");
		dv_arena_append(text, quote);
		dv_arena_append(text, names[i]);
		dv_arena_append(text, quote);
	}
}

#define ALL_NAMES 100			/* the list ends with NULL */

/* ---------------------------------------------------------------- many tables at once */

/* Appends the beginning of a member "Properties", whose list is still open. */
static void
begin_properties(dv_arena_text *json, const char *const *names)
{
	dv_arena_append(json, "\"Properties\":{\"AllProperties\":false,\"PropertyNames\":[");
	append_names(json, names, ALL_NAMES, "\"");
}

static void
end_properties(dv_arena_text *json)
{
	dv_arena_append(json, "]}");
}

/* The properties that only some columns have; a name may be in several casts. */
static void
append_cast_properties(dv_arena_text *json)
{
	dv_name_index seen = dv_name_index_begin(json->arena);
	int			i;
	int			j;

	for (i = 0; i < DV_META_CASTS; i++)
		for (j = 0; j < MOST_PROPERTIES && casts[i].properties[j] != NULL; j++)
			if (dv_name_index_add(&seen, casts[i].properties[j], 0))
				append_names(json, &casts[i].properties[j], 1, "\"");
}

static void
append_languages(dv_arena_text *json, const dv_meta_wish *wish)
{
	int			i;

	if (!wish->comments || wish->nlanguages == 0)
		return;
	dv_arena_append(json, ",\"LabelQuery\":{\"FilterLanguages\":[");
	for (i = 0; i < wish->nlanguages; i++)
		dv_arena_append(json, dv_arena_printf(json->arena, "%s%d", i > 0 ? "," : "",
											  wish->languages[i]));
	dv_arena_append(json, "],\"MissingLabelBehavior\":0}");
}

/* Returns the requested properties, which are the same for all tables. */
static const char *
question(const dv_arena *arena, const dv_meta_wish *wish)
{
	static const char *const choices[] = {"OptionSet", NULL};
	dv_arena_text json = dv_arena_text_begin(arena);

	begin_properties(&json, table_properties);
	append_names(&json, collections, ALL_NAMES, "\"");
	if (wish->comments)
		append_names(&json, labels, ALL_NAMES, "\"");
	end_properties(&json);
	dv_arena_append(&json, ",\"AttributeQuery\":{");
	begin_properties(&json, column_properties);
	append_cast_properties(&json);
	if (wish->comments)
	{
		append_names(&json, labels, ALL_NAMES, "\"");
		append_names(&json, choices, ALL_NAMES, "\"");
	}
	end_properties(&json);
	dv_arena_append(&json, "},\"RelationshipQuery\":{");
	begin_properties(&json, relationship_properties);
	end_properties(&json);
	dv_arena_append(&json, "},\"KeyQuery\":{");
	begin_properties(&json, key_properties);
	end_properties(&json);
	dv_arena_append(&json, "}");
	append_languages(&json, wish);
	return json.s;
}

/* {"ConditionOperator":"Equals",…}, in the form that is documented */
static const char *
condition_of(const dv_arena *arena, const char *table)
{
	dv_arena_text json = dv_arena_text_begin(arena);
	size_t		len = strlen(table);
	size_t		extra = dv_payload_extra(table, len);
	char	   *text = arena->alloc(arena->context, len + extra);

	dv_arena_append(&json, "{\"ConditionOperator\":\"Equals\",\"PropertyName\":\"LogicalName\","
					"\"Value\":{\"Type\":\"System.String\",\"Value\":\"");
	dv_arena_append_len(&json, text, (size_t) (dv_payload_text(text, table, len, extra) - text));
	dv_arena_append(&json, "\"}}");
	return json.s;
}

static const char *
encoded(const dv_arena *arena, const char *text)
{
	char	   *out = arena->alloc(arena->context, 3 * strlen(text) + 1);

	(void) dv_url_encode(text, out);
	return out;
}

const char *
dv_meta_changes_path(const dv_arena *arena, const dv_meta_catalog *catalog,
					 const dv_meta_wish *wish, size_t *next, int *ntables)
{
	dv_arena_text path = dv_arena_text_begin(arena);
	const char *end = encoded(arena, dv_arena_printf(arena, "]},%s}", question(arena, wish)));
	const char *comma = encoded(arena, ",");

	dv_arena_append(&path, "RetrieveMetadataChanges(Query=@p1)?@p1=");
	dv_arena_append(&path, encoded(arena, "{\"Criteria\":{\"FilterOperator\":\"Or\",\"Conditions\":["));
	*ntables = 0;
	for (; *next < catalog->n && *ntables < DV_META_CHUNK; (*next)++)
	{
		const dv_meta_entry *entry = &catalog->entries[*next];
		const char *condition;

		if (!entry->wanted || entry->met)
			continue;
		condition = encoded(arena, condition_of(arena, entry->table));
		/* one table is always requested, or there would be no progress */
		if (*ntables > 0 &&
			path.len + strlen(comma) + strlen(condition) + strlen(end) > DV_META_PATH_MAX)
			break;
		if (*ntables > 0)
			dv_arena_append(&path, comma);
		dv_arena_append(&path, condition);
		(*ntables)++;
	}
	dv_arena_append(&path, end);
	return *ntables > 0 ? path.s : NULL;
}

/* ---------------------------------------------------------------- one table */

/* "EntityDefinitions(LogicalName='account')" */
static dv_arena_text
begin_table(const dv_arena *arena, const char *table)
{
	dv_arena_text path = dv_arena_text_begin(arena);

	dv_arena_append(&path, "EntityDefinitions(LogicalName=");
	append_quoted(&path, arena, table);
	dv_arena_append(&path, ")");
	return path;
}

/* A request can name only one language; if several are wanted, none is named. */
static void
append_language(dv_arena_text *path, const dv_meta_wish *wish)
{
	if (wish->comments && wish->nlanguages == 1)
		dv_arena_append(path, dv_arena_printf(path->arena, "&LabelLanguages=%d",
											  wish->languages[0]));
}

static void
append_expand(dv_arena_text *path, const char *collection, const char *const *properties,
			  bool labelled)
{
	dv_arena_append(path, collection);
	dv_arena_append(path, "($select=");
	append_names(path, properties, ALL_NAMES, "");
	if (labelled)
		append_names(path, labels, ALL_NAMES, "");
	dv_arena_append(path, ")");
}

const char *
dv_meta_table_path(const dv_arena *arena, const char *table, const dv_meta_wish *wish)
{
	dv_arena_text path = begin_table(arena, table);

	dv_arena_append(&path, "?$select=");
	append_names(&path, table_properties, ALL_NAMES, "");
	if (wish->comments)
		append_names(&path, labels, ALL_NAMES, "");
	dv_arena_append(&path, "&$expand=");
	append_expand(&path, collections[0], column_properties, wish->comments);
	dv_arena_append(&path, ",");
	append_expand(&path, collections[1], relationship_properties, false);
	dv_arena_append(&path, ",");
	append_expand(&path, collections[2], key_properties, false);
	append_language(&path, wish);
	return path.s;
}

static bool
is_of_cast(struct json_object *column, const cast *c)
{
	const char *type = dv_meta_string(dv_meta_member(column, "AttributeTypeName"), "Value");
	int			i;

	for (i = 0; type != NULL && i < MOST_TYPES && c->types[i] != NULL; i++)
		if (strcmp(type, c->types[i]) == 0)
			return true;
	return false;
}

const char *
dv_meta_cast_path(const dv_arena *arena, const char *table, struct json_object *definition,
				  const dv_meta_wish *wish, int number)
{
	const cast *c = &casts[number];
	struct json_object *columns = dv_meta_array(definition, "Attributes");
	dv_arena_text path;
	size_t		i;

	if (c->choices != NULL && !wish->comments)
		return NULL;
	for (i = 0; i < dv_meta_length(columns); i++)
		if (is_of_cast(json_object_array_get_idx(columns, i), c))
			break;
	if (i == dv_meta_length(columns))
		return NULL;
	path = begin_table(arena, table);
	dv_arena_append(&path, dv_arena_printf(arena, "/Attributes/Microsoft.Dynamics.CRM.%s"
										   "AttributeMetadata?$select=LogicalName", c->name));
	append_names(&path, c->properties, MOST_PROPERTIES, "");
	if (c->choices != NULL)
	{
		dv_arena_append(&path, dv_arena_printf(arena, "&$expand=OptionSet($select=%s),"
											   "GlobalOptionSet($select=%s)",
											   c->choices, c->choices));
		append_language(&path, wish);
	}
	return path.s;
}

/* Copies a member, unless it is absent or null. */
static void
copy_member(struct json_object *to, const char *name, struct json_object *from, const char *as)
{
	struct json_object *value = dv_meta_member(from, name);

	if (value != NULL)
		json_object_object_add(to, as, json_object_get(value));
}

void
dv_meta_cast_read(const dv_arena *arena, struct json_object *definition,
				  struct json_object *answer, int number)
{
	const cast *c = &casts[number];
	struct json_object *columns = dv_meta_array(definition, "Attributes");
	struct json_object *rows = dv_meta_array(answer, "value");
	dv_name_index by_name = dv_name_index_begin(arena);
	size_t		i;
	int			j;

	for (i = 0; i < dv_meta_length(columns); i++)
	{
		struct json_object *column = json_object_array_get_idx(columns, i);
		const char *name = dv_meta_string(column, "LogicalName");

		if (name != NULL && is_of_cast(column, c))
			(void) dv_name_index_add(&by_name, name, i);
	}
	for (i = 0; i < dv_meta_length(rows); i++)
	{
		struct json_object *row = json_object_array_get_idx(rows, i);
		const char *name = dv_meta_string(row, "LogicalName");
		const size_t *at = name != NULL ? dv_name_index_find(&by_name, name) : NULL;
		struct json_object *column;

		if (at == NULL)
			continue;
		column = json_object_array_get_idx(columns, *at);
		for (j = 0; j < MOST_PROPERTIES && c->properties[j] != NULL; j++)
			copy_member(column, c->properties[j], row, c->properties[j]);
		if (c->choices == NULL)
			continue;
		copy_member(column, "GlobalOptionSet", row, "OptionSet");
		copy_member(column, "OptionSet", row, "OptionSet");
	}
}

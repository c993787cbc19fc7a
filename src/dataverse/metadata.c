/*
 * metadata.c
 *		All tables of an environment, and answers with the definitions of
 *		some of them.
 *
 * The first request lists all tables with their entity sets.  Foreign tables
 * are named from the whole list, so that a name does not depend on what else
 * is imported, and writes need the entity sets of tables that are only
 * referred to.  Then the definitions of the wanted tables are requested
 * (metadata_request.c).  The answers have every existing property, null unless
 * it was requested, so they are cut into tables before anything is parsed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataverse/metadata.h"
#include "dataverse/metadata_json.h"

/* ---------------------------------------------------------------- the catalog */

static int
compare_entries(const void *a, const void *b)
{
	return strcmp(((const dv_meta_entry *) a)->table, ((const dv_meta_entry *) b)->table);
}

static int
compare_to_entry(const void *name, const void *entry)
{
	return strcmp(name, ((const dv_meta_entry *) entry)->table);
}

dv_meta_entry *
dv_meta_find(const dv_meta_catalog *catalog, const char *table)
{
	if (table == NULL || catalog->n == 0)
		return NULL;
	return bsearch(table, catalog->entries, catalog->n, sizeof(*catalog->entries),
				   compare_to_entry);
}

dv_meta_entry *
dv_meta_find_local(const dv_meta_catalog *catalog, const char *local)
{
	size_t		i;

	for (i = 0; i < catalog->n; i++)
		if (strcmp(catalog->entries[i].local, local) == 0)
			return &catalog->entries[i];
	return NULL;
}

/* Returns the length of the longest prefix of whole UTF-8 characters that fits. */
static size_t
clip(const char *name, size_t room)
{
	size_t		len = strlen(name);

	if (len <= room)
		return len;
	len = room;
	while (len > 0 && ((unsigned char) name[len] & 0xc0) == 0x80)
		len--;
	return len;
}

dv_meta_names
dv_meta_names_begin(const dv_arena *arena)
{
	dv_meta_names names = {arena, dv_name_index_begin(arena), dv_name_index_begin(arena)};

	return names;
}

bool
dv_meta_names_take(dv_meta_names *names, const char *name)
{
	return dv_name_index_add(&names->taken, name, 0);
}

/*
 * Tries the names with a number of so many digits, beginning with the first
 * number that has not been tried for the same truncated name.
 */
static const char *
give_numbered(dv_meta_names *names, const char *name, int digits)
{
	char		key[DV_META_NAME_MAX + 16];
	size_t		len = clip(name, (size_t) (DV_META_NAME_MAX - 1 - digits));
	size_t		end = 10;
	size_t	   *next;
	int			i;

	for (i = 1; i < digits; i++)
		end *= 10;
	snprintf(key, sizeof(key), "%.*s/%d", (int) len, name, digits);
	next = dv_name_index_find(&names->numbers, key);
	if (next == NULL)
	{
		(void) dv_name_index_add(&names->numbers, dv_arena_copy(names->arena, key),
								 digits == 1 ? 2 : end / 10);
		next = dv_name_index_find(&names->numbers, key);
	}
	while (*next < end)
	{
		const char *numbered = dv_arena_printf(names->arena, "%.*s_%zu", (int) len, name, (*next)++);

		if (dv_meta_names_take(names, numbered))
			return numbered;
	}
	return NULL;
}

const char *
dv_meta_names_give(dv_meta_names *names, const char *name)
{
	const char *unique = dv_arena_printf(names->arena, "%.*s", (int) clip(name, DV_META_NAME_MAX),
										 name);
	int			digits;

	if (dv_meta_names_take(names, unique))
		return unique;
	unique = NULL;
	for (digits = 1; unique == NULL; digits++)
		unique = give_numbered(names, name, digits);
	return unique;
}

/*
 * Long names are truncated as PostgreSQL truncates them, so that the full name
 * can be typed.  Names that are short enough are given out first; no other
 * table may take them.
 */
static void
name_locally(const dv_arena *arena, dv_meta_catalog *catalog)
{
	dv_meta_names names = dv_meta_names_begin(arena);
	size_t		i;

	for (i = 0; i < catalog->n; i++)
		if (strlen(catalog->entries[i].table) <= DV_META_NAME_MAX &&
			dv_meta_names_take(&names, catalog->entries[i].table))
			catalog->entries[i].local = catalog->entries[i].table;
	for (i = 0; i < catalog->n; i++)
		if (catalog->entries[i].local == NULL)
			catalog->entries[i].local = dv_meta_names_give(&names, catalog->entries[i].table);
}

void
dv_meta_catalog_read(const dv_arena *arena, struct json_object *answer, dv_meta_catalog *catalog)
{
	struct json_object *tables = dv_meta_array(answer, "value");
	size_t		n = dv_meta_length(tables);
	size_t		i;

	catalog->n = 0;
	catalog->entries = dv_arena_zeroed(arena, n, sizeof(*catalog->entries));
	for (i = 0; i < n; i++)
	{
		struct json_object *table = json_object_array_get_idx(tables, i);
		dv_meta_entry *entry = &catalog->entries[catalog->n];

		entry->table = dv_arena_copy(arena, dv_meta_string(table, "LogicalName"));
		entry->entity_set = dv_arena_copy(arena, dv_meta_string(table, "EntitySetName"));
		entry->id = dv_arena_copy(arena, dv_meta_string(table, "MetadataId"));
		entry->internal = dv_meta_bool(table, "IsPrivate", false);
		entry->intersect = dv_meta_bool(table, "IsIntersect", false);
		if (entry->table != NULL && entry->table[0] != '\0' && entry->entity_set != NULL &&
			entry->entity_set[0] != '\0')
			catalog->n++;
	}
	qsort(catalog->entries, catalog->n, sizeof(*catalog->entries), compare_entries);
	name_locally(arena, catalog);
}

/* Reads one half of a relationship's properties. */
static dv_meta_side
side_of(const dv_arena *arena, struct json_object *relationship, const char *const *names)
{
	dv_meta_side side;

	side.table = dv_arena_copy(arena, dv_meta_string(relationship, names[0]));
	side.column = dv_arena_copy(arena, dv_meta_string(relationship, names[1]));
	side.navigation = dv_arena_copy(arena, dv_meta_string(relationship, names[2]));
	return side;
}

void
dv_meta_sides_read(const dv_arena *arena, struct json_object *answer, dv_meta_catalog *catalog)
{
	static const char *const names[2][3] = {
		{"Entity1LogicalName", "Entity1IntersectAttribute", "Entity1NavigationPropertyName"},
		{"Entity2LogicalName", "Entity2IntersectAttribute", "Entity2NavigationPropertyName"},
	};
	struct json_object *relationships = dv_meta_array(answer, "value");
	size_t		n = dv_meta_length(relationships);
	size_t		i;

	for (i = 0; i < n; i++)
	{
		struct json_object *relationship = json_object_array_get_idx(relationships, i);
		dv_meta_entry *entry = dv_meta_find(catalog,
											dv_meta_string(relationship, "IntersectEntityName"));

		if (entry == NULL)
			continue;
		entry->sides[0] = side_of(arena, relationship, names[0]);
		entry->sides[1] = side_of(arena, relationship, names[1]);
	}
}

/* ---------------------------------------------------------------- the answer */

void
dv_meta_reader_begin(dv_meta_reader *reader, const char *text, size_t len)
{
	dv_cursor_open(&reader->json, text, len);
	reader->begun = false;
	reader->done = false;
}

bool
dv_meta_reader_failed(const dv_meta_reader *reader)
{
	return reader->json.error != NULL;
}

/* Moves to the first definition, after the "[" of the member EntityMetadata. */
static bool
find_definitions(dv_cursor *json)
{
	dv_value	name;
	dv_value	other;

	if (!dv_cursor_enter(json, '{'))
		return false;
	while (dv_cursor_next(json, '}') && dv_cursor_name(json, &name))
	{
		if (dv_value_equals(&name, "EntityMetadata"))
			return dv_cursor_enter(json, '[');
		(void) dv_cursor_value(json, &other);
	}
	dv_cursor_fail(json, json->at, "\"EntityMetadata\" is missing");
	return false;
}

bool
dv_meta_reader_next(dv_meta_reader *reader, const char **text, size_t *len)
{
	dv_cursor  *json = &reader->json;
	dv_value	definition;

	if (!reader->begun && !find_definitions(json))
		return false;
	reader->begun = true;
	if (reader->done || !dv_cursor_next(json, ']'))
	{
		/* the rest of the answer does not matter */
		reader->done = json->error == NULL;
		return false;
	}
	if (!dv_cursor_value(json, &definition))
		return false;
	if (definition.kind != DV_VALUE_OBJECT)
	{
		dv_cursor_fail(json, definition.text, "\"{\" expected");
		return false;
	}
	*text = definition.text;
	*len = definition.len;
	return true;
}

dv_meta_entry *
dv_meta_entry_of(const dv_meta_catalog *catalog, struct json_object *definition)
{
	return dv_meta_find(catalog, dv_meta_string(definition, "LogicalName"));
}

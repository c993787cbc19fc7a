/*
 * schema.c
 *		Reads the schema from a JSON file or from the built-in one.
 *
 * The built-in file is part of the program.  A user's file need not repeat the
 * tables that the service requires ("core": users, business units, solutions,
 * …): missing ones are taken from the built-in file.  Passes: headers of all
 * tables, ids, columns, system columns, links (schema_links.c), hashed names
 * (schema_index.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/guid.h"
#include "wire/json.h"
#include "store/schema_build.h"
#include "store/schema_index.h"

/* the built-in schema, found by the assembler in the folder of this file */
__asm__(".section .rodata\n"
		"sim_builtin_schema:\n"
		".incbin \"schema.json\"\n"
		"sim_builtin_schema_end:\n"
		".byte 0\n"
		".previous\n");
extern const char sim_builtin_schema[];
extern const char sim_builtin_schema_end[];

/* the reason why the last schema could not be built */
static char failure[1024];

bool
build_fail(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	vsnprintf(failure, sizeof(failure), fmt, args);
	va_end(args);
	return false;
}

const char *
sim_schema_error(void)
{
	return failure;
}

const char *
build_text(struct build *build, struct json_object *json, const char *key, const char *otherwise)
{
	struct json_object *value;

	if (!json_object_object_get_ex(json, key, &value) || value == NULL)
		return otherwise;
	return sim_strdup(build->arena, json_object_get_string(value));
}

bool
build_flag(struct json_object *json, const char *key, bool otherwise)
{
	struct json_object *value;

	if (!json_object_object_get_ex(json, key, &value))
		return otherwise;
	return json_object_get_boolean(value);
}

int64_t
build_int(struct json_object *json, const char *key, int64_t otherwise)
{
	struct json_object *value;

	if (!json_object_object_get_ex(json, key, &value))
		return otherwise;
	return json_object_get_int64(value);
}

bool
build_one_of(struct json_object *json, const char *key, const char *const *names, int n, int *out)
{
	struct json_object *value;
	const char *text;
	int			i;

	if (!json_object_object_get_ex(json, key, &value) || value == NULL)
		return true;
	text = json_object_get_string(value);

	for (i = 0; i < n; i++)
	{
		if (strcmp(names[i], text) == 0)
		{
			*out = i;
			return true;
		}
	}
	return false;
}

bool
build_is_name(const char *name)
{
	const char *p;

	if (!isalpha((unsigned char) *name))
		return false;
	for (p = name; *p != '\0'; p++)
	{
		if (!isalnum((unsigned char) *p) && *p != '_')
			return false;
	}
	return p - name <= 100;
}

char *
build_lower(struct build *build, const char *s)
{
	char	   *copy = sim_strdup(build->arena, s);
	char	   *p;

	for (p = copy; *p != '\0'; p++)
		*p = (char) tolower((unsigned char) *p);
	return copy;
}

/* "new_SerialNumber" is called "Serial Number" unless the file specifies a name. */
const char *
build_label(struct build *build, const char *schema_name)
{
	const char *p = schema_name;
	char	   *label = sim_alloc(build->arena, 2 * strlen(p) + 1);
	char	   *out = label;

	if (islower((unsigned char) *p) && strchr(p, '_') != NULL)
		p = strchr(p, '_') + 1;
	for (; *p != '\0'; p++)
	{
		bool		begins = isupper((unsigned char) p[0]) && out != label &&
		(islower((unsigned char) p[-1]) || islower((unsigned char) p[1]));

		if (begins && out[-1] != ' ')
			*out++ = ' ';
		*out = *p == '_' ? ' ' : *p;
		out++;
	}
	*label = (char) toupper((unsigned char) *label);
	return label;
}

void
build_metadata_id(char out[37], const char *kind, const char *a, const char *b)
{
	char		name[512];

	snprintf(name, sizeof(name), "%s %s.%s", kind, a, b);
	sim_guid_text_of_name(name, out);
}

/* An object recreated under the name of a deleted one has another id. */
void
build_given_id(struct json_object *json, char id[37])
{
	struct json_object *given;
	unsigned char bytes[16];

	if (json_object_object_get_ex(json, "metadata_id", &given) &&
		json_object_is_type(given, json_type_string) &&
		sim_guid_parse(json_object_get_string(given), 36, bytes))
		sim_guid_print(bytes, id);
}

/* "city" has the set "cities" and "box" "boxes" unless the file specifies one. */
static const char *
plural(struct build *build, const char *name)
{
	size_t		len = strlen(name);
	char		last = len > 0 ? name[len - 1] : '\0';

	if (last == 'y' && len > 1 && strchr("aeiou", name[len - 2]) == NULL)
		return sim_fmt(build->arena, "%.*sies", (int) len - 1, name);
	if (last == 's' || last == 'x')
		return sim_fmt(build->arena, "%ses", name);
	return sim_fmt(build->arena, "%ss", name);
}

static bool
table_kind(struct sim_table *table, struct json_object *json)
{
	static const char *const kinds[] = {"standard", "elastic", "virtual", "intersect"};
	static const char *const owners[] = {"user", "organization", "business", "none"};
	int			type = SIM_STANDARD;
	int			ownership;

	if (!build_one_of(json, "type", kinds, 4, &type))
		return build_fail("table \"%s\" is of an unknown \"type\"", table->name);
	ownership = type == SIM_INTERSECT ? SIM_OWNED_BY_NONE :
		type == SIM_VIRTUAL_TABLE ? SIM_ORGANIZATION_OWNED : SIM_USER_OWNED;
	if (!build_one_of(json, "ownership", owners, 4, &ownership))
		return build_fail("table \"%s\" has an unknown \"ownership\"", table->name);
	table->type = (enum sim_table_type) type;
	table->ownership = (enum sim_ownership) ownership;
	return true;
}

static void
table_solutions(struct build *build, struct sim_table *table, struct json_object *json)
{
	struct json_object *array;
	int			i;

	if (!json_object_object_get_ex(json, "solutions", &array) ||
		!json_object_is_type(array, json_type_array))
		return;
	table->nsolutions = (int) json_object_array_length(array);
	table->solutions = sim_alloc(build->arena, (size_t) table->nsolutions * sizeof(char *));
	for (i = 0; i < table->nsolutions; i++)
	{
		const char *name = json_object_get_string(json_object_array_get_idx(array, (size_t) i));

		table->solutions[i] = sim_strdup(build->arena, name != NULL ? name : "");
	}
}

static bool
bulk_refusal(struct sim_table *table, struct json_object *json)
{
	static const char *const names[SIM_BULK_REFUSALS] = {
		[SIM_BULK_NO_SEGMENT] = "no-segment",
		[SIM_BULK_NOT_ENABLED] = "not-enabled",
		[SIM_BULK_NOT_SUPPORTED] = "not-supported",
		[SIM_BULK_NOT_FOUND] = "not-found",
	};
	int			refusal = SIM_BULK_NO_SEGMENT;

	if (!build_one_of(json, "bulk_refusal", names, SIM_BULK_REFUSALS, &refusal))
		return build_fail("table \"%s\" has an unknown \"bulk_refusal\"", table->name);
	table->bulk_refusal = (enum sim_bulk_refusal) refusal;
	return true;
}

/* All of a table but its columns and links. */
static bool
build_header(struct build *build, struct draft *draft, int ordinal)
{
	struct sim_table *table = draft->table;
	struct json_object *json = draft->json;
	bool		bulk;

	table->schema_name = build_text(build, json, "name", NULL);
	if (table->schema_name == NULL || !build_is_name(table->schema_name))
		return build_fail("table %d has no name, or none that can be one", ordinal + 1);
	table->name = build_lower(build, table->schema_name);
	if (!table_kind(table, json))
		return false;
	table->set_name = build_text(build, json, "set", plural(build, table->name));
	table->label = build_text(build, json, "label", build_label(build, table->schema_name));
	table->collection_label = build_text(build, json, "collection_label",
										 plural(build, table->label));
	table->type_code = (int) build_int(json, "type_code", 10000 + ordinal);
	table->custom = build_flag(json, "custom", strchr(table->name, '_') != NULL);
	table->activity = build_flag(json, "activity", false);
	table->system = build_flag(json, "system", false);
	table->bumps_modifiedon = build_flag(json, "bumps_modifiedon", true);
	table->change_tracking = build_flag(json, "change_tracking", false);
	table->optimistic_concurrency = build_flag(json, "optimistic_concurrency",
											   table->custom && table->type == SIM_STANDARD);
	bulk = build_flag(json, "bulk", table->type == SIM_ELASTIC ||
					  (table->custom && table->type == SIM_STANDARD));
	table->create_multiple = build_flag(json, "create_multiple", bulk);
	table->update_multiple = build_flag(json, "update_multiple", bulk);
	table->delete_multiple = table->type == SIM_ELASTIC;
	if (!bulk_refusal(table, json))
		return false;
	table_solutions(build, table, json);
	table->tracked_since = build_int(json, "tracked_since", 0);
	build_metadata_id(table->metadata_id, "entity", table->name, "");
	build_given_id(json, table->metadata_id);
	return true;
}

/* An intersect has the ids of both of its tables, in columns 1 and 2. */
static bool
build_intersect_columns(struct build *build, struct draft *draft)
{
	struct json_object *json;
	const char *ids[2] = {NULL, NULL};
	const char *names[2];
	int			i;

	if (!json_object_object_get_ex(draft->json, "many", &json))
		return build_fail("table \"%s\" is an intersect without \"many\"", draft->table->name);
	names[0] = build_text(build, json, "table1", "");
	names[1] = build_text(build, json, "table2", "");
	for (i = 0; i < build->schema->ntables; i++)
	{
		const char *name = build->schema->tables[i].name;
		const char *id = build->drafts[i].columns[0].column.schema_name;

		if (strcmp(name, names[0]) == 0)
			ids[0] = id;
		if (strcmp(name, names[1]) == 0)
			ids[1] = id;
	}
	if (ids[0] == NULL || ids[1] == NULL)
		return build_fail("table \"%s\": \"many\" names no two tables", draft->table->name);
	for (i = 0; i < 2; i++)
	{
		static const char *const suffix[] = {"One", "Two"};
		struct sim_column *column;

		column = &build_add_column(build, draft, strcmp(ids[0], ids[1]) != 0 ? ids[i] :
								   sim_fmt(build->arena, "%s%s", ids[i], suffix[i]),
								   SIM_UUID)->column;
		column->valid_for_create = false;
		column->valid_for_update = false;
	}
	return true;
}

static bool
build_columns(struct build *build, struct draft *draft)
{
	struct json_object *columns = NULL;
	size_t		i;

	if (draft->table->type == SIM_INTERSECT && !build_intersect_columns(build, draft))
		return false;
	if (json_object_object_get_ex(draft->json, "columns", &columns) &&
		!json_object_is_type(columns, json_type_array))
		return build_fail("table \"%s\": \"columns\" is not an array", draft->table->name);
	for (i = 0; columns != NULL && i < json_object_array_length(columns); i++)
	{
		struct json_object *json = json_object_array_get_idx(columns, i);

		if (!json_object_is_type(json, json_type_object))
			return build_fail("table \"%s\": column %d is not an object",
							  draft->table->name, (int) i + 1);
		if (!build_column(build, draft, json))
			return false;
	}
	return build_system_columns(build, draft);
}

/* "option_sets": {"new_color": [[1, "Red"], …]} */
static bool
build_global_options(struct build *build)
{
	struct json_object *sets;
	struct lh_entry *entry;

	if (!json_object_object_get_ex(build->root, "option_sets", &sets))
		return true;
	if (!json_object_is_type(sets, json_type_object))
		return build_fail("\"option_sets\" is not an object");
	build->schema->option_sets = sim_alloc(build->arena,
										   (size_t) json_object_object_length(sets) *
										   sizeof(struct sim_option_set *));
	for (entry = json_object_get_object(sets)->head; entry != NULL; entry = lh_entry_next(entry))
	{
		struct sim_option_set *set = sim_alloc(build->arena, sizeof(*set));
		struct json_object *array = (struct json_object *) lh_entry_v(entry);

		set->name = sim_strdup(build->arena, lh_entry_k(entry));
		if (!json_object_is_type(array, json_type_array))
			return build_fail("option set \"%s\" is not an array", set->name);
		set->global = true;
		build_options(build, set, array);
		build->schema->option_sets[build->schema->noption_sets++] = set;
	}
	return true;
}

static bool
build_all(struct build *build)
{
	int			i;

	if (!build_global_options(build))
		return false;
	for (i = 0; i < build->schema->ntables; i++)
	{
		if (!build_header(build, &build->drafts[i], i))
			return false;
	}
	for (i = 0; i < build->schema->ntables; i++)
	{
		if (!build_primary_id(build, &build->drafts[i]))
			return false;
	}
	for (i = 0; i < build->schema->ntables; i++)
	{
		if (!build_columns(build, &build->drafts[i]))
			return false;
	}
	return build_links(build) && sim_index_schema(build->schema);
}

static bool
has_table(struct json_object *tables, const char *name)
{
	size_t		i;

	for (i = 0; i < json_object_array_length(tables); i++)
	{
		struct json_object *value;

		if (json_object_object_get_ex(json_object_array_get_idx(tables, i), "name", &value) &&
			value != NULL && strcasecmp(json_object_get_string(value), name) == 0)
			return true;
	}
	return false;
}

/* Adds the core tables of the built-in schema that the user's schema lacks, with their rows. */
static void
borrow_core(struct json_object *root, struct json_object *builtin)
{
	struct json_object *tables = json_object_object_get(root, "tables");
	struct json_object *rows = json_object_object_get(root, "rows");
	struct json_object *from = json_object_object_get(builtin, "tables");
	size_t		i;

	if (!json_object_is_type(rows, json_type_object))
	{
		rows = json_object_new_object();
		json_object_object_add(root, "rows", rows);
	}
	for (i = 0; i < json_object_array_length(from); i++)
	{
		struct json_object *table = json_object_array_get_idx(from, i);
		const char *name = json_object_get_string(json_object_object_get(table, "name"));
		struct json_object *its_rows = NULL;
		char		logical[128];
		size_t		j;

		if (!build_flag(table, "core", false) || has_table(tables, name))
			continue;
		json_object_object_add(table, "borrowed", json_object_new_boolean(1));
		json_object_array_add(tables, json_object_get(table));
		for (j = 0; name[j] != '\0' && j < sizeof(logical) - 1; j++)
			logical[j] = (char) tolower((unsigned char) name[j]);
		logical[j] = '\0';
		if (json_object_object_get_ex(json_object_object_get(builtin, "rows"), logical, &its_rows) &&
			!json_object_object_get_ex(rows, logical, NULL))
			json_object_object_add(rows, logical, json_object_get(its_rows));
	}
}

static struct json_object *
parse(const char *text, size_t len, const char *name)
{
	struct sim_arena *arena = sim_arena_new();
	const char *error;
	struct json_object *root = sim_json_document(arena, text, len, &error);
	struct json_object *tables;

	if (root == NULL)
		fprintf(stderr, "dvsim: schema %s: %s\n", name, error);
	sim_arena_free(arena);
	if (root != NULL && (!json_object_object_get_ex(root, "tables", &tables) ||
						 !json_object_is_type(tables, json_type_array)))
	{
		fprintf(stderr, "dvsim: schema %s has no array \"tables\"\n", name);
		json_object_put(root);
		root = NULL;
	}
	return root;
}

static struct json_object *
parse_file(const char *path)
{
	struct json_object *root;
	struct sim_buf text = {0};
	FILE	   *file = fopen(path, "rb");
	size_t		n;

	if (file == NULL)
	{
		fprintf(stderr, "dvsim: cannot open schema file \"%s\": %s\n", path, strerror(errno));
		return NULL;
	}
	do
	{
		sim_buf_reserve(&text, 65536);
		n = fread(text.s + text.len, 1, 65536, file);
		text.len += n;
	} while (n > 0);
	fclose(file);
	text.s[text.len] = '\0';
	root = text.len > 100 * 1024 * 1024 ? NULL : parse(text.s, text.len, path);

	sim_buf_free(&text);
	return root;
}

struct sim_schema *
sim_schema_build(struct json_object *root)
{
	struct sim_arena *arena = sim_arena_new();
	struct json_object *tables = json_object_object_get(root, "tables");
	struct build build = {arena, sim_alloc(arena, sizeof(struct sim_schema)), root, NULL};
	struct sim_schema *schema = build.schema;
	int			i;

	schema->arena = arena;
	schema->ntables = (int) json_object_array_length(tables);
	schema->tables = sim_alloc(arena, (size_t) schema->ntables * sizeof(struct sim_table));
	build.drafts = sim_alloc(arena, (size_t) schema->ntables * sizeof(struct draft));
	for (i = 0; i < schema->ntables; i++)
	{
		build.drafts[i].table = &schema->tables[i];
		build.drafts[i].json = json_object_array_get_idx(tables, (size_t) i);
		build.drafts[i].borrowed = build_flag(build.drafts[i].json, "borrowed", false);
	}
	failure[0] = '\0';
	if (!build_all(&build))
	{
		sim_schema_free(schema);
		return NULL;
	}
	schema->changes = (int) build_int(root, "changes", 0);
	schema->root = json_object_get(root);
	schema->rows = json_object_get(json_object_object_get(root, "rows"));
	return schema;
}

struct sim_schema *
sim_schema_load(const char *path)
{
	struct json_object *builtin;
	struct json_object *root;
	struct sim_schema *schema = NULL;

	builtin = parse(sim_builtin_schema,
					(size_t) (sim_builtin_schema_end - sim_builtin_schema), "(built in)");
	if (builtin == NULL)
		return NULL;
	if (path == NULL)
		schema = sim_schema_build(builtin);
	else if ((root = parse_file(path)) != NULL)
	{
		borrow_core(root, builtin);
		schema = sim_schema_build(root);
		json_object_put(root);
	}
	if (schema == NULL && failure[0] != '\0')
		fprintf(stderr, "dvsim: schema: %s\n", failure);
	json_object_put(builtin);
	return schema;
}

void
sim_schema_free(struct sim_schema *schema)
{
	if (schema == NULL)
		return;
	json_object_put(schema->root);
	json_object_put(schema->rows);
	sim_arena_free(schema->arena);
}

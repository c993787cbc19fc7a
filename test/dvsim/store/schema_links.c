/*
 * schema_links.c
 *		The last step of reading a schema: columns get their final place, and
 *		targets, relationships, keys and N:N are linked by pointer.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/schema_build.h"

#include <stdio.h>
#include <string.h>

/* by name and without the hash, which is made last */
static struct sim_table *
table_named(struct build *build, const char *name)
{
	int			i;

	for (i = 0; i < build->schema->ntables; i++)
	{
		if (strcmp(build->schema->tables[i].name, name) == 0)
			return &build->schema->tables[i];
	}
	return NULL;
}

static struct sim_column *
column_named(struct sim_table *table, const char *name)
{
	int			i;

	for (i = 0; i < table->ncolumns; i++)
	{
		if (strcmp(table->columns[i].name, name) == 0)
			return &table->columns[i];
	}
	return NULL;
}

static bool
place_columns(struct build *build, struct draft *draft)
{
	struct sim_table *table = draft->table;
	const char *primary_name = build_text(build, draft->json, "primary_name", NULL);
	int			i;

	table->columns = sim_alloc(build->arena, (size_t) draft->n * sizeof(struct sim_column));
	table->ncolumns = draft->n;
	for (i = 0; i < draft->n; i++)
	{
		table->columns[i] = draft->columns[i].column;
		table->columns[i].table = table;
		table->columns[i].ordinal = i;
		if (table->columns[i].type == SIM_STATE)
			table->state = &table->columns[i];
		if (table->columns[i].type == SIM_STATUS)
			table->status = &table->columns[i];
	}
	table->id = &table->columns[0];
	if (table->type == SIM_ELASTIC)
		table->partition = column_named(table, "partitionid");
	table->owner = table->ownership == SIM_USER_OWNED ? column_named(table, "ownerid") : NULL;
	table->created_on = column_named(table, "createdon");
	table->version = column_named(table, "versionnumber");
	if (primary_name == NULL)
		return true;
	table->primary_name = column_named(table, primary_name);
	if (table->primary_name == NULL)
		return build_fail("table \"%s\" has no column \"%s\" for its primary name",
						  table->name, primary_name);
	table->primary_name->primary_name = true;
	return true;
}

static const char *
default_navigation(struct build *build, const struct sim_column *column,
				   const struct draft_target *target, bool several)
{
	const struct sim_table *table = column->table;
	const char *name = column->custom ? column->schema_name : column->name;

	if (column->type == SIM_CUSTOMER)
		name = column->name;
	if (several)
		name = sim_fmt(build->arena, "%s_%s", name, target->table);
	if (table->activity && !column->custom)
		name = sim_fmt(build->arena, "%s_%s", name, table->name);
	return name;
}

static struct sim_relationship *
find_relationship(struct sim_schema *schema, const struct sim_column *column,
				  const struct sim_table *referenced)
{
	int			i;

	/* the relationships of one column stand together, at the end */
	for (i = schema->nrelationships - 1; i >= 0; i--)
	{
		struct sim_relationship *rel = &schema->relationships[i];

		if (rel->column != column)
			return NULL;
		if (rel->referenced == referenced)
			return rel;
	}
	return NULL;
}

static struct sim_relationship *
add_relationship(struct build *build, struct sim_column *column, struct sim_table *referenced,
				 const struct draft_target *target, const char *navigation, bool several)
{
	struct sim_schema *schema = build->schema;
	struct sim_relationship *rel = find_relationship(schema, column, referenced);
	const char *name = target->relationship;

	if (rel != NULL)
		return rel;
	if (name == NULL)
		name = several ?
			sim_fmt(build->arena, "%s_%s_%s", column->table->schema_name, column->schema_name,
					referenced->schema_name) :
			sim_fmt(build->arena, "%s_%s", column->table->schema_name, column->schema_name);
	rel = &schema->relationships[schema->nrelationships++];
	rel->schema_name = name;
	rel->column = column;
	rel->referencing = column->table;
	rel->referenced = referenced;
	rel->navigation = navigation;
	rel->collection = target->collection != NULL ? target->collection : name;
	rel->on_delete = target->on_delete;
	rel->custom = column->custom;
	build_metadata_id(rel->metadata_id, "relationship", column->table->name, name);
	return rel;
}

static bool
link_targets(struct build *build, struct draft *draft, int ordinal)
{
	struct draft_column *from = &draft->columns[ordinal];
	struct sim_column *column = &draft->table->columns[ordinal];
	bool		several = from->ntargets > 1;
	int			i;

	column->targets = sim_alloc(build->arena,
								(size_t) from->ntargets * sizeof(struct sim_target));
	for (i = 0; i < from->ntargets; i++)
	{
		struct draft_target *target = &from->targets[i];
		struct sim_table *table = table_named(build, target->table);
		struct sim_table *referenced = target->referenced != NULL ?
		table_named(build, target->referenced) : table;
		struct sim_target *out = &column->targets[column->ntargets];

		if (table == NULL || referenced == NULL)
		{
			if (draft->borrowed)
				continue;
			return build_fail("table \"%s\": column \"%s\": there is no table \"%s\" to point to",
							  draft->table->name, column->name, target->table);
		}
		out->table = table;
		out->navigation = target->navigation != NULL ? target->navigation :
			default_navigation(build, column, target, several);
		out->relationship = add_relationship(build, column, referenced, target,
											 out->navigation, several);
		column->ntargets++;
	}
	return true;
}

/* The lists of relationships that each table has on either side. */
static void
list_relationships(struct build *build)
{
	struct sim_schema *schema = build->schema;
	int			i;

	for (i = 0; i < schema->nrelationships; i++)
	{
		schema->relationships[i].referencing->nmany_to_one++;
		schema->relationships[i].referenced->none_to_many++;
	}
	for (i = 0; i < schema->ntables; i++)
	{
		struct sim_table *table = &schema->tables[i];

		table->many_to_one = sim_alloc(build->arena,
									   (size_t) table->nmany_to_one * sizeof(void *));
		table->one_to_many = sim_alloc(build->arena,
									   (size_t) table->none_to_many * sizeof(void *));
		table->nmany_to_one = table->none_to_many = 0;
	}
	for (i = 0; i < schema->nrelationships; i++)
	{
		struct sim_relationship *rel = &schema->relationships[i];

		rel->referencing->many_to_one[rel->referencing->nmany_to_one++] = rel;
		rel->referenced->one_to_many[rel->referenced->none_to_many++] = rel;
	}
}

static bool
link_key(struct build *build, struct sim_table *table, struct json_object *json,
		 struct sim_key_def *key)
{
	struct json_object *columns;
	int			i;

	key->schema_name = build_text(build, json, "name", NULL);
	key->status = build_text(build, json, "status", "Active");
	if (key->schema_name == NULL || !build_is_name(key->schema_name) ||
		!json_object_object_get_ex(json, "columns", &columns) ||
		!json_object_is_type(columns, json_type_array) || json_object_array_length(columns) == 0)
		return build_fail("table \"%s\" has a key without name or columns", table->name);
	key->name = build_lower(build, key->schema_name);
	key->label = build_text(build, json, "label", key->schema_name);
	key->synchronous = !json_object_object_get_ex(json, "async_job", NULL);
	snprintf(key->async_job, sizeof(key->async_job), "%s",
			 build_text(build, json, "async_job", ""));
	key->n = (int) json_object_array_length(columns);
	key->columns = sim_alloc(build->arena, (size_t) key->n * sizeof(void *));
	for (i = 0; i < key->n; i++)
	{
		const char *name = json_object_get_string(json_object_array_get_idx(columns, (size_t) i));

		key->columns[i] = column_named(table, name != NULL ? name : "");
		if (key->columns[i] == NULL || !key->columns[i]->stored)
			return build_fail("table \"%s\": key \"%s\": there is no column \"%s\" to have a key on",
							  table->name, key->schema_name, name != NULL ? name : "");
	}
	build_metadata_id(key->metadata_id, "key", table->name, key->name);
	build_given_id(json, key->metadata_id);
	return true;
}

/* An elastic table has one key: its id within the partition. */
static void
elastic_key(struct build *build, struct sim_table *table)
{
	struct sim_key_def *key = sim_alloc(build->arena, sizeof(*key));

	key->schema_name = "KeyForNoSqlEntityWithPKPartitionId";
	key->name = "keyfornosqlentitywithpkpartitionid";
	key->label = key->schema_name;
	key->synchronous = true;
	key->status = "Active";
	key->n = 2;
	key->columns = sim_alloc(build->arena, 2 * sizeof(void *));
	key->columns[0] = table->id;
	key->columns[1] = table->partition;
	build_metadata_id(key->metadata_id, "key", table->name, key->name);
	table->keys = key;
	table->nkeys = 1;
}

static bool
link_keys(struct build *build, struct draft *draft)
{
	struct sim_table *table = draft->table;
	struct json_object *keys;
	int			i;

	if (table->type == SIM_ELASTIC)
		elastic_key(build, table);
	if (!json_object_object_get_ex(draft->json, "keys", &keys))
		return true;
	if (!json_object_is_type(keys, json_type_array) || table->type != SIM_STANDARD)
		return build_fail("table \"%s\": \"keys\" is an array, and for standard tables only",
						  table->name);
	table->nkeys = (int) json_object_array_length(keys);
	table->keys = sim_alloc(build->arena, (size_t) table->nkeys * sizeof(struct sim_key_def));
	for (i = 0; i < table->nkeys; i++)
	{
		if (!link_key(build, table, json_object_array_get_idx(keys, (size_t) i), &table->keys[i]))
			return false;
	}
	return true;
}

/* "many" of an intersect table; its two columns have been added before. */
static bool
link_many(struct build *build, struct draft *draft)
{
	struct sim_table *table = draft->table;
	struct sim_many *many = &build->schema->many[build->schema->nmany++];
	struct json_object *json;

	if (!json_object_object_get_ex(draft->json, "many", &json))
		return build_fail("table \"%s\" is an intersect without \"many\"", table->name);
	many->schema_name = build_text(build, json, "name", table->schema_name);
	many->intersect = table;
	many->table1 = table_named(build, build_text(build, json, "table1", ""));
	many->table2 = table_named(build, build_text(build, json, "table2", ""));
	if (many->table1 == NULL || many->table2 == NULL)
		return build_fail("table \"%s\": \"many\" names no two tables", table->name);
	many->column1 = &table->columns[1];
	many->column2 = &table->columns[2];
	many->navigation1 = build_text(build, json, "navigation1", many->schema_name);
	many->navigation2 = build_text(build, json, "navigation2", many->schema_name);
	build_metadata_id(many->metadata_id, "relationship", table->name, many->schema_name);
	return true;
}

static void
list_many(struct build *build)
{
	struct sim_schema *schema = build->schema;
	int			i;

	for (i = 0; i < schema->ntables; i++)
		schema->tables[i].many_to_many = sim_alloc(build->arena,
												   (size_t) (schema->nmany + 1) * sizeof(void *));
	for (i = 0; i < schema->nmany; i++)
	{
		struct sim_many *many = &schema->many[i];

		many->table1->many_to_many[many->table1->nmany_to_many++] = many;
		if (many->table2 != many->table1)
			many->table2->many_to_many[many->table2->nmany_to_many++] = many;
	}
}

bool
build_links(struct build *build)
{
	struct sim_schema *schema = build->schema;
	int			targets = 0;
	int			intersects = 0;
	int			i;
	int			j;

	for (i = 0; i < schema->ntables; i++)
	{
		if (!place_columns(build, &build->drafts[i]))
			return false;
		intersects += schema->tables[i].type == SIM_INTERSECT;
		for (j = 0; j < build->drafts[i].n; j++)
			targets += build->drafts[i].columns[j].ntargets;
	}
	schema->relationships = sim_alloc(build->arena,
									  (size_t) targets * sizeof(struct sim_relationship));
	schema->many = sim_alloc(build->arena, (size_t) intersects * sizeof(struct sim_many));
	for (i = 0; i < schema->ntables; i++)
	{
		struct draft *draft = &build->drafts[i];

		for (j = 0; j < draft->n; j++)
		{
			if (draft->columns[j].ntargets > 0 && !link_targets(build, draft, j))
				return false;
		}
		if (!link_keys(build, draft))
			return false;
		if (draft->table->type == SIM_INTERSECT && !link_many(build, draft))
			return false;
	}
	list_relationships(build);
	list_many(build);
	return true;
}

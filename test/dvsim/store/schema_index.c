/*
 * schema_index.c
 *		Look-ups of tables, columns, properties and navigation properties.
 *
 * One open-addressing hash for the tables of the schema and one for each
 * table, whose key is the name and its kind.  They are at most half full, so
 * nearly every look-up ends at its first slot.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/schema_build.h"
#include "store/schema_index.h"

#include <stdio.h>
#include <string.h>

enum name_kind
{
	NAME_TABLE = 1,
	NAME_SET,
	NAME_COLUMN,
	NAME_PROPERTY,
	NAME_NAVIGATION,
	NAME_COLLECTION,
	NAME_MANY
};

struct slot
{
	const char *name;			/* NULL: free */
	size_t		len;
	uint32_t	hash;
	enum name_kind kind;
	void	   *value;
	struct sim_target *target;	/* of navigation properties */
};

struct sim_index
{
	uint32_t	mask;
	struct slot *slots;
};

static inline uint32_t
hash_name(enum name_kind kind, const char *name, size_t len)
{
	uint32_t	h = 0x811c9dc5U ^ (uint32_t) kind;
	size_t		i;

	for (i = 0; i < len; i++)
		h = (h ^ (unsigned char) name[i]) * 0x01000193U;
	return h ^ h >> 15;
}

static struct slot *
find_slot(struct sim_index *index, enum name_kind kind, const char *name, size_t len)
{
	uint32_t	hash = hash_name(kind, name, len);
	uint32_t	i;

	for (i = hash & index->mask;; i = (i + 1) & index->mask)
	{
		struct slot *slot = &index->slots[i];

		if (slot->name == NULL)
			return slot;
		if (slot->hash == hash && slot->kind == kind && slot->len == len &&
			memcmp(slot->name, name, len) == 0)
			return slot;
	}
}

static void *
find(struct sim_index *index, enum name_kind kind, const char *name, size_t len)
{
	return find_slot(index, kind, name, len)->value;
}

/* false if the name is taken */
static bool
add(struct sim_index *index, enum name_kind kind, const char *name, void *value,
	struct sim_target *target)
{
	size_t		len = strlen(name);
	struct slot *slot = find_slot(index, kind, name, len);

	if (slot->name != NULL)
		return false;
	slot->name = name;
	slot->len = len;
	slot->hash = hash_name(kind, name, len);
	slot->kind = kind;
	slot->value = value;
	slot->target = target;
	return true;
}

static struct sim_index *
index_new(struct sim_arena *arena, int names)
{
	struct sim_index *index = sim_alloc(arena, sizeof(*index));
	uint32_t	size = 16;

	while (size < (uint32_t) names * 2)
		size *= 2;
	index->slots = sim_alloc(arena, size * sizeof(struct slot));
	index->mask = size - 1;
	return index;
}

static bool
taken(const struct sim_table *table, const char *what, const char *name)
{
	return build_fail("table \"%s\": %s \"%s\" is there twice", table->name, what, name);
}

/* One property may serve several targets of its column, no other column. */
static bool
add_navigation(struct sim_table *table, const char *name, struct sim_column *column,
			   struct sim_target *target)
{
	struct slot *slot = find_slot(table->index, NAME_NAVIGATION, name, strlen(name));

	if (slot->name == NULL)
		return add(table->index, NAME_NAVIGATION, name, column, target);
	slot->target = NULL;
	return slot->value == column;
}

/*
 * An activity inherits the navigation properties of activitypointer, so its
 * "ownerid_task" is "ownerid", too.
 */
static void
add_inherited(struct sim_arena *arena, struct sim_table *table, struct sim_column *column,
			  struct sim_target *target)
{
	size_t		len = strlen(target->navigation);
	size_t		suffix = strlen(table->name) + 1;
	const char *tail = target->navigation + len - suffix;

	if (len <= suffix || tail[0] != '_' || strcmp(tail + 1, table->name) != 0)
		return;
	add_navigation(table, sim_strndup(arena, target->navigation, len - suffix), column, target);
}

static bool
index_navigation(struct sim_arena *arena, struct sim_table *table, struct sim_column *column)
{
	int			i;

	for (i = 0; i < column->ntargets; i++)
	{
		struct sim_target *target = &column->targets[i];

		if (!add_navigation(table, target->navigation, column, target))
			return taken(table, "navigation property", target->navigation);
		if (table->activity)
			add_inherited(arena, table, column, target);
	}
	return true;
}

static bool
index_columns(struct sim_arena *arena, struct sim_table *table)
{
	int			i;

	for (i = 0; i < table->ncolumns; i++)
	{
		struct sim_column *column = &table->columns[i];

		if (!add(table->index, NAME_COLUMN, column->name, column, NULL))
			return taken(table, "column", column->name);
		if (column->selectable &&
			!add(table->index, NAME_PROPERTY, column->property, column, NULL))
			return taken(table, "property", column->property);
		if (!index_navigation(arena, table, column))
			return false;
	}
	return true;
}

static bool
index_table(struct sim_arena *arena, struct sim_table *table)
{
	int			names = table->none_to_many + table->nmany_to_many;
	int			i;

	for (i = 0; i < table->ncolumns; i++)
		names += 2 + 2 * table->columns[i].ntargets;
	names += 2 * table->nmany_to_many;
	table->index = index_new(arena, names);
	if (!index_columns(arena, table))
		return false;
	for (i = 0; i < table->none_to_many; i++)
	{
		struct sim_relationship *rel = table->one_to_many[i];

		if (!add(table->index, NAME_COLLECTION, rel->collection, rel, NULL))
			return taken(table, "collection", rel->collection);
	}
	for (i = 0; i < table->nmany_to_many; i++)
	{
		struct sim_many *many = table->many_to_many[i];

		if (many->table1 == table && !add(table->index, NAME_MANY, many->navigation1, many, NULL))
			return taken(table, "collection", many->navigation1);
		if (many->table2 == table && (many->table1 != table ||
									  strcmp(many->navigation1, many->navigation2) != 0) &&
			!add(table->index, NAME_MANY, many->navigation2, many, NULL))
			return taken(table, "collection", many->navigation2);
	}
	return true;
}

bool
sim_index_schema(struct sim_schema *schema)
{
	int			i;

	schema->index = index_new(schema->arena, 2 * schema->ntables);
	for (i = 0; i < schema->ntables; i++)
	{
		struct sim_table *table = &schema->tables[i];

		if (!add(schema->index, NAME_TABLE, table->name, table, NULL))
			return taken(table, "table", table->name);
		if (!add(schema->index, NAME_SET, table->set_name, table, NULL))
			return taken(table, "entity set", table->set_name);
		if (!index_table(schema->arena, table))
			return false;
	}
	return true;
}

struct sim_table *
sim_table_by_name(struct sim_schema *schema, const char *logical_name)
{
	return find(schema->index, NAME_TABLE, logical_name, strlen(logical_name));
}

struct sim_table *
sim_table_by_set(struct sim_schema *schema, const char *set_name, size_t len)
{
	return find(schema->index, NAME_SET, set_name, len);
}

struct sim_column *
sim_column_by_name(struct sim_table *table, const char *name, size_t len)
{
	return find(table->index, NAME_COLUMN, name, len);
}

struct sim_column *
sim_column_by_property(struct sim_table *table, const char *property, size_t len)
{
	return find(table->index, NAME_PROPERTY, property, len);
}

struct sim_column *
sim_column_by_navigation(struct sim_table *table, const char *name, size_t len,
						 struct sim_target **target)
{
	struct slot *slot = find_slot(table->index, NAME_NAVIGATION, name, len);

	if (target != NULL)
		*target = slot->target;
	return slot->value;
}

struct sim_relationship *
sim_collection_by_name(struct sim_table *table, const char *name, size_t len)
{
	return find(table->index, NAME_COLLECTION, name, len);
}

struct sim_many *
sim_many_by_name(struct sim_table *table, const char *name, size_t len)
{
	return find(table->index, NAME_MANY, name, len);
}

struct sim_option *
sim_option_by_value(const struct sim_option_set *set, int value)
{
	int			i;

	if (set == NULL)
		return NULL;
	for (i = 0; i < set->n; i++)
	{
		if (set->options[i].value == value)
			return &set->options[i];
	}
	return NULL;
}

struct sim_column *
sim_base_money(const struct sim_column *column)
{
	char		name[256];
	int			len;

	if (column->type != SIM_MONEY)
		return NULL;
	len = snprintf(name, sizeof(name), "%s_base", column->name);
	return sim_column_by_name(column->table, name, (size_t) len);
}

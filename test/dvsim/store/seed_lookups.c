/*
 * seed_lookups.c
 *		How the lookups of seeded rows are filled, if the request specifies
 *		it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/seed_lookups.h"

#include <json-c/json.h>
#include <math.h>
#include <string.h>

#define MOST_SKEW 10.0

static struct sim_table *
target_of(const struct sim_column *column, const char *name)
{
	int			i;

	for (i = 0; i < column->ntargets; i++)
	{
		struct sim_table *table = column->targets[i].table;

		if (table != NULL && (name == NULL || strcmp(table->name, name) == 0))
			return table;
	}
	return NULL;
}

static bool
read_number(struct json_object *value, double most, double *number)
{
	if (!json_object_is_type(value, json_type_double) && !json_object_is_type(value, json_type_int))
		return false;
	*number = json_object_get_double(value);
	return *number >= 0 && *number <= most;
}

static const char *
read_member(struct sim_arena *arena, struct sim_seed_lookup *lookup, const char *name,
			struct json_object *value)
{
	if (strcmp(name, "table") == 0)
	{
		lookup->target = json_object_is_type(value, json_type_string)
			? target_of(lookup->column, json_object_get_string(value)) : NULL;
		return lookup->target ? NULL
			: sim_fmt(arena, "\"table\" of \"%s\" must be one of the lookup's targets",
					  lookup->column->name);
	}
	if (strcmp(name, "filled") == 0)
		return read_number(value, 1, &lookup->filled) ? NULL
			: sim_fmt(arena, "\"filled\" of \"%s\" must be a number from 0 to 1",
					  lookup->column->name);
	if (strcmp(name, "skew") == 0)
		return read_number(value, MOST_SKEW, &lookup->skew) ? NULL
			: sim_fmt(arena, "\"skew\" of \"%s\" must be a number from 0 to 10",
					  lookup->column->name);
	return sim_fmt(arena, "a lookup has no member \"%s\"", name);
}

static const char *
read_lookup(struct sim_arena *arena, struct sim_table *table, const char *name,
			struct json_object *object, struct sim_seed_lookup *lookup)
{
	struct sim_column *column = sim_column_by_name(table, name, strlen(name));
	struct json_object_iter member;
	const char *error = NULL;

	if (column == NULL || (column->type != SIM_LOOKUP && column->type != SIM_CUSTOMER) ||
		!column->valid_for_create)
		return sim_fmt(arena, "table \"%s\" has no lookup \"%s\" that can be filled",
					   table->name, name);
	if (!json_object_is_type(object, json_type_object))
		return sim_fmt(arena, "\"%s\" must be an object", name);
	lookup->column = column;
	lookup->target = target_of(column, NULL);
	lookup->filled = 1;
	lookup->skew = 0;
	json_object_object_foreachC(object, member)
	{
		if (error == NULL)
			error = read_member(arena, lookup, member.key, member.val);
	}
	if (error == NULL && lookup->target == NULL)
		error = sim_fmt(arena, "the target of \"%s\" is unknown", name);
	return error;
}

const char *
sim_seed_lookups_read(struct sim_arena *arena, struct sim_table *table,
					  struct json_object *body, struct sim_seed_lookups *lookups)
{
	struct json_object *list = NULL;
	struct json_object_iter member;
	const char *error = NULL;

	lookups->n = 0;
	if (!json_object_is_type(body, json_type_object))
		return "the body must be an object";
	json_object_object_foreachC(body, member)
	{
		if (strcmp(member.key, "lookups") != 0)
			return sim_fmt(arena, "seeding has no member \"%s\"", member.key);
		list = member.val;
	}
	if (list == NULL)
		return NULL;
	if (!json_object_is_type(list, json_type_object))
		return "\"lookups\" must be an object";
	lookups->items = sim_alloc(arena, (size_t) (json_object_object_length(list) + 1) *
							   sizeof(*lookups->items));
	json_object_object_foreachC(list, member)
	{
		if (error == NULL)
			error = read_lookup(arena, table, member.key, member.val, &lookups->items[lookups->n]);
		lookups->n++;
	}
	return error;
}

/*
 * The inverse of the distribution 1/x^skew between 1 and n+1, cut off to
 * whole numbers: close enough to Zipf's, and needs no table.
 */
int64_t
sim_seed_pick(double skew, int64_t n, double even)
{
	double		end = (double) n + 1;
	double		power = 1 - skew;
	double		x;
	int64_t		i;

	if (fabs(power) < 1e-9)
		x = pow(end, even);
	else
		x = pow((pow(end, power) - 1) * even + 1, 1 / power);
	i = (int64_t) x - 1;
	return i < 0 ? 0 : i >= n ? n - 1 : i;
}

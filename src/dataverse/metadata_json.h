/*
 * metadata_json.h
 *		Shared by metadata.c and definition.c: access to members of JSON
 *		objects that may be absent or null, and names that are too long.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_METADATA_JSON_H
#define DV_METADATA_JSON_H

#include <json-c/json.h>
#include <stdbool.h>

#include "dataverse/arena.h"
#include "dataverse/name_index.h"

/* Returns a member of any type; NULL if it is absent or null, or if "object" is not an object. */
static inline struct json_object *
dv_meta_member(struct json_object *object, const char *name)
{
	struct json_object *value;

	if (!json_object_is_type(object, json_type_object) ||
		!json_object_object_get_ex(object, name, &value))
		return NULL;
	return value;
}

static inline const char *
dv_meta_string(struct json_object *object, const char *name)
{
	struct json_object *value = dv_meta_member(object, name);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

static inline bool
dv_meta_bool(struct json_object *object, const char *name, bool otherwise)
{
	struct json_object *value = dv_meta_member(object, name);

	return json_object_is_type(value, json_type_boolean) ? json_object_get_boolean(value)
		: otherwise;
}

static inline int
dv_meta_int(struct json_object *object, const char *name, int otherwise)
{
	struct json_object *value = dv_meta_member(object, name);

	return json_object_is_type(value, json_type_int) ? json_object_get_int(value) : otherwise;
}

static inline struct json_object *
dv_meta_array(struct json_object *object, const char *name)
{
	struct json_object *value = dv_meta_member(object, name);

	return json_object_is_type(value, json_type_array) ? value : NULL;
}

static inline size_t
dv_meta_length(struct json_object *array)
{
	return array != NULL ? json_object_array_length(array) : 0;
}

/* Names that have been given to the tables of a catalog, or to the columns of a table. */
typedef struct dv_meta_names
{
	const dv_arena *arena;
	dv_name_index taken;
	dv_name_index numbers;		/* for a truncated name, the next number to be appended */
} dv_meta_names;

extern dv_meta_names dv_meta_names_begin(const dv_arena *arena);

/* Gives this name, which must be short enough, unless it is taken. */
extern bool dv_meta_names_take(dv_meta_names *names, const char *name);

/*
 * Gives the name, truncated to the length that PostgreSQL supports, and
 * numbered ("_2", "_3" …) if it is taken.  The time that this takes does not
 * depend on the number of equal names.
 */
extern const char *dv_meta_names_give(dv_meta_names *names, const char *name);

#endif							/* DV_METADATA_JSON_H */

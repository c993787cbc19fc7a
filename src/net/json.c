/*-------------------------------------------------------------------------
 *
 * json.c
 *		json-c documents owned by memory contexts.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <json-c/json.h>
#include <limits.h>

#include "utils/memutils.h"

#include "net/json.h"

static void
put(void *document)
{
	json_object_put(document);
}

struct json_object *
dv_json_parse(const char *text, size_t len, const char **error)
{
	MemoryContextCallback *callback = palloc0(sizeof(*callback));
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *root;
	enum json_tokener_error code;

	if (tokener == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	/* nothing raises an error from here to the registration of the callback */
	json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
	root = json_tokener_parse_ex(tokener, text, (int) Min(len, (size_t) INT_MAX));
	code = json_tokener_get_error(tokener);
	if (code == json_tokener_continue && len > 0 && root == NULL)
	{
		/* a bare number or literal ends with the text */
		root = json_tokener_parse_ex(tokener, "", 1);
		code = json_tokener_get_error(tokener);
	}
	json_tokener_free(tokener);
	if (error != NULL)
		*error = code == json_tokener_success ? NULL : json_tokener_error_desc(code);
	if (code != json_tokener_success)
	{
		json_object_put(root);
		return NULL;
	}
	callback->func = put;
	callback->arg = root;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	return root;
}

struct json_object *
dv_json_member(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) ? value : NULL;
}

const char *
dv_json_string(struct json_object *object, const char *name)
{
	struct json_object *value;

	if (json_object_object_get_ex(object, name, &value) &&
		json_object_is_type(value, json_type_string))
		return json_object_get_string(value);
	return NULL;
}

bool
dv_json_is_object(const struct json_object *value)
{
	return json_object_is_type(value, json_type_object);
}

bool
dv_json_true(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) && value != NULL &&
		strcmp(json_object_get_string(value), "true") == 0;
}

struct json_object *
dv_json_array(struct json_object *object, const char *name)
{
	struct json_object *value;

	if (json_object_object_get_ex(object, name, &value) &&
		json_object_is_type(value, json_type_array))
		return value;
	return NULL;
}

size_t
dv_json_length(const struct json_object *array)
{
	return json_object_array_length(array);
}

struct json_object *
dv_json_item(const struct json_object *array, size_t i)
{
	return json_object_array_get_idx(array, i);
}

const char *
dv_json_text(struct json_object *value)
{
	return json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
}

/*
 * json.c
 *		json-c documents owned by memory contexts.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <json-c/json.h>
#include <limits.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "net/json.h"

/* The number of bytes that are parsed between two checks for interrupts. */
#define PARSED_AT_ONCE (512 * 1024)

/*
 * json-c takes more than a hundred bytes for a value that takes two in the text.
 * Documents with more values are refused; those of the service have at most a
 * tenth of this.
 */
#define MOST_VALUES (2 * 1024 * 1024)

/* What json-c has allocated. */
typedef struct parsed
{
	MemoryContextCallback callback;
	struct json_tokener *tokener;
	struct json_object *root;
} parsed;

static void
put(void *arg)
{
	parsed	   *p = arg;

	if (p->tokener != NULL)
		json_tokener_free(p->tokener);
	json_object_put(p->root);
}

/*
 * Returns how much of the text to parse next.  The portion ends at a comma,
 * because json-c may misread part of a number, and rejects part of a character.
 */
static size_t
next_portion(const char *text, size_t len)
{
	size_t		n = PARSED_AT_ONCE;

	if (len <= n)
		return len;
	while (n > 0 && text[n - 1] != ',')
		n--;
	for (n = n > 0 ? n : PARSED_AT_ONCE; n < len && n < INT_MAX && text[n - 1] != ','; n++)
		;
	return n;
}

/* Returns the largest number of values that the text can have; commas in strings count, too. */
static size_t
count_values(const char *text, size_t len)
{
	size_t		n = 0;
	size_t		i;

	for (i = 0; i < len; i++)
		n += text[i] == ',' || text[i] == '[' || text[i] == '{';
	return n;
}

/* Parses the text, and returns json-c's result. */
static enum json_tokener_error
parse(parsed *p, const char *text, size_t len)
{
	enum json_tokener_error code = json_tokener_continue;
	size_t		done = 0;
	size_t		values = 0;

	do
	{
		size_t		n = next_portion(text + done, len - done);

		CHECK_FOR_INTERRUPTS();
		values += count_values(text + done, n);
		if (values > MOST_VALUES)
			return json_tokener_error_size;
		p->root = json_tokener_parse_ex(p->tokener, text + done, (int) n);
		code = json_tokener_get_error(p->tokener);
		done += n;
	} while (code == json_tokener_continue && done < len);
	if (code == json_tokener_continue && len > 0 && p->root == NULL)
	{
		/* a bare number or literal ends with the text */
		p->root = json_tokener_parse_ex(p->tokener, "", 1);
		code = json_tokener_get_error(p->tokener);
	}
	return code;
}

struct json_object *
dv_json_parse(const char *text, size_t len, const char **error)
{
	parsed	   *p = palloc0(sizeof(*p));
	enum json_tokener_error code;

	p->callback.func = put;
	p->callback.arg = p;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &p->callback);
	p->tokener = json_tokener_new();
	if (p->tokener == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	json_tokener_set_flags(p->tokener, JSON_TOKENER_VALIDATE_UTF8);
	code = parse(p, text, len);
	json_tokener_free(p->tokener);
	p->tokener = NULL;
	if (error != NULL)
		*error = code == json_tokener_success ? NULL : json_tokener_error_desc(code);
	if (code != json_tokener_success)
	{
		json_object_put(p->root);
		p->root = NULL;
	}
	return p->root;
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
	return array != NULL ? json_object_array_length(array) : 0;
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

/*
 * json.h
 *		json-c documents owned by memory contexts.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_JSON_H
#define DV_JSON_H

#include <stddef.h>

/*
 * json-c's own header cannot be included together with PostgreSQL's
 * builtins.h, because both declare a "json_object".  Files that need more
 * than this include <json-c/json.h>.
 */
struct json_object;

/*
 * Parses a whole document, which is freed with the current memory context.
 * Returns NULL if it is malformed, or if it is the literal null.  Unless
 * "error" is NULL, *error is set to the reason, or to NULL.
 */
extern struct json_object *dv_json_parse(const char *text, size_t len, const char **error);

extern bool dv_json_is_object(const struct json_object *value);

/* Returns a member, or NULL if it is absent or null. */
extern struct json_object *dv_json_member(struct json_object *object, const char *name);

/* Returns a member that is a string, or NULL. */
extern const char *dv_json_string(struct json_object *object, const char *name);

/*
 * Returns a member that is an array, or NULL, which has no elements.  The next functions
 * access them.
 */
extern struct json_object *dv_json_array(struct json_object *object, const char *name);
extern size_t dv_json_length(const struct json_object *array);
extern struct json_object *dv_json_item(const struct json_object *array, size_t i);

/*
 * Returns a value as JSON text, with numbers as they were written.  The text
 * is valid until the next call for the same value, or until the document is
 * freed.
 */
extern const char *dv_json_text(struct json_object *value);

#endif							/* DV_JSON_H */

/*-------------------------------------------------------------------------
 *
 * json.h
 *		json-c documents owned by memory contexts.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_JSON_H
#define DV_JSON_H

#include <stddef.h>

/*
 * json-c's own header cannot be included together with PostgreSQL's
 * builtins.h: both have a "json_object".  Who needs more than this includes
 * <json-c/json.h>.
 */
struct json_object;

/*
 * Parses a whole document.  It is freed with the current memory context.
 * NULL if it is malformed (or the literal null); *error says why, unless NULL.
 */
extern struct json_object *dv_json_parse(const char *text, size_t len, const char **error);

extern bool dv_json_is_object(const struct json_object *value);

/* A member, or NULL (also for null). */
extern struct json_object *dv_json_member(struct json_object *object, const char *name);

/* A string member, or NULL. */
extern const char *dv_json_string(struct json_object *object, const char *name);

/* Is the member true, or the string "true"? */
extern bool dv_json_true(struct json_object *object, const char *name);

/* A member that is an array, or NULL; its parts. */
extern struct json_object *dv_json_array(struct json_object *object, const char *name);
extern size_t dv_json_length(const struct json_object *array);
extern struct json_object *dv_json_item(const struct json_object *array, size_t i);

/* As text, numbers as they were written; lives as long as the document, until asked again. */
extern const char *dv_json_text(struct json_object *value);

#endif							/* DV_JSON_H */

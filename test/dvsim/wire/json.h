/*
 * json.h
 *		A reader for the bodies of writes.
 *
 * All other code uses json-c.  Bodies of writes must be read fast (a hundred
 * thousand rows a second on one core) and numbers kept as they were written,
 * so the body is read in place into nodes of the request's arena: strings are
 * unescaped inside the body, numbers stay text.  Strict RFC 8259.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_JSON_H
#define SIM_JSON_H

#include <stdint.h>

#include "store/mem.h"

enum sim_json_type
{
	SIM_JSON_NULL,
	SIM_JSON_FALSE,
	SIM_JSON_TRUE,
	SIM_JSON_NUMBER,
	SIM_JSON_STRING,
	SIM_JSON_ARRAY,
	SIM_JSON_OBJECT
};

struct sim_json
{
	enum sim_json_type type;
	uint32_t	keylen;
	const char *key;			/* of a member; not terminated */
	const char *s;				/* string or number; not terminated */
	size_t		len;
	struct sim_json *child;		/* first item or member */
	struct sim_json *next;
	int			n;				/* items or members */
};

/*
 * NULL on error, with the reason in *error (arena or static); the text is changed; nesting is
 * limited to 64
 */
struct sim_json *sim_json_parse(struct sim_arena *arena, char *text, size_t len, const char **error);
struct sim_json *sim_json_member(const struct sim_json *object, const char *key);

/*
 * A text, which stays as it is, as a document of json-c.  NULL on error, as above, and for
 * null.  The reader above decides what is JSON, because json-c's strict mode differs between
 * its versions (0.18 refuses everything that is not ASCII, earlier ones accept control
 * characters).
 */
struct json_object *sim_json_document(struct sim_arena *arena, const char *text, size_t len,
									  const char **error);

#endif

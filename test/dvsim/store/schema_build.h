/*
 * schema_build.h
 *		A schema while it is read.
 *
 * Tables grow column by column as drafts; when all are complete, the drafts
 * are turned into the arrays of schema.h and the links between them are made.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_SCHEMA_BUILD_H
#define SIM_SCHEMA_BUILD_H

#include <json-c/json.h>

#include "store/schema.h"

/* a target of a lookup, by name; members that are NULL get their defaults */
struct draft_target
{
	const char *table;
	const char *referenced;		/* table of the relationship, if not the target itself */
	const char *navigation;
	const char *relationship;
	const char *collection;
	enum sim_cascade on_delete;
};

struct draft_column
{
	struct sim_column column;
	struct draft_target *targets;
	int			ntargets;
};

struct draft
{
	struct sim_table *table;
	struct json_object *json;
	bool		borrowed;		/* from the built-in schema: may lack targets */
	struct draft_column *columns;
	int			n;
	int			cap;
};

struct build
{
	struct sim_arena *arena;
	struct sim_schema *schema;
	struct json_object *root;
	struct draft *drafts;		/* in the order of schema->tables */
};

/* keeps the message for sim_schema_error(); always false */
bool		build_fail(const char *fmt,...) __attribute__((format(printf, 1, 2)));

/* members of objects, with a default when absent; strings are copied into the arena */
const char *build_text(struct build *build, struct json_object *json, const char *key,
					   const char *otherwise);
bool		build_flag(struct json_object *json, const char *key, bool otherwise);
int64_t		build_int(struct json_object *json, const char *key, int64_t otherwise);
bool		build_one_of(struct json_object *json, const char *key, const char *const *names,
						 int n, int *out);
bool		build_is_name(const char *name);	/* a letter, then letters, digits and "_"; at most
												 * 100 */
char	   *build_lower(struct build *build, const char *s);
const char *build_label(struct build *build, const char *schema_name);
void		build_metadata_id(char out[37], const char *kind, const char *a, const char *b);
void		build_given_id(struct json_object *json, char id[37]);

/* schema_column.c; the pointer is valid until the next column is added */
struct draft_column *build_add_column(struct build *build, struct draft *draft,
									  const char *schema_name, enum sim_type type);
bool		build_column(struct build *build, struct draft *draft, struct json_object *json);
bool		build_companions(struct build *build, struct draft *draft, int ordinal);
bool		build_has_column(const struct draft *draft, const char *name);
void		build_options(struct build *build, struct sim_option_set *set, struct json_object *array);

/* schema_system.c */
bool		build_primary_id(struct build *build, struct draft *draft);
bool		build_system_columns(struct build *build, struct draft *draft);

/* schema_links.c: columns into place, then targets, relationships, keys, N:N */
bool		build_links(struct build *build);

#endif

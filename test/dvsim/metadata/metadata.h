/*
 * metadata.h
 *		Definitions of tables, columns, keys, relationships and choices as
 *		the Web API shows them.
 *
 * Every property is defined once, in a table of its type (metadata_types.c,
 * metadata_attributes.c, metadata_choices.c): its name, its kind and the place of its value.
 * $select, $filter, $expand, paths, printing and RetrieveMetadataChanges all use these tables.
 * Before rows of a type are printed, the requested properties are compiled into a plan in
 * which everything common to all rows is literal text, so that an answer of megabytes is
 * mostly memcpy.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_METADATA_H
#define SIM_METADATA_H

#include "wire/json.h"
#include "store/schema.h"
#include "sim.h"

#define SIM_NAMESPACE "Microsoft.Dynamics.CRM."
#define SIM_LANGUAGE 1033		/* the only one the organisation has */

/* The form of a property in JSON, which determines how it can be filtered. */
enum sim_meta_kind
{
	SIM_META_TEXT,
	SIM_META_ENUM,				/* a string in JSON; "extra" names the type */
	SIM_META_GUID,
	SIM_META_TIME,
	SIM_META_BOOL,
	SIM_META_INT,
	SIM_META_NUMBER,			/* decimal text */
	SIM_META_VALUE,				/* {"Value":"text"} */
	SIM_META_MANAGED,			/* {"Value":true,"CanBeChanged":…}; "extra" names the property */
	SIM_META_LEVEL,				/* the same with an enum */
	SIM_META_LABEL,
	SIM_META_JSON				/* printed by "put"; neither compared nor null */
};

struct sim_meta_value
{
	bool		null;
	int64_t		i;				/* int, bool, managed */
	const char *s;				/* all others */
	char		text[160];		/* s may point to it */
};

struct sim_meta_type;

/* One definition: its type and the struct of schema.h that it shows. */
struct sim_meta_item
{
	const struct sim_meta_type *type;
	const void *object;
	const void *owner;			/* the table of a key, the column of a local choice */
};

struct sim_meta_list
{
	struct sim_meta_item *items;
	int			n;
};

struct sim_meta_query;

/* Ways to write a property down. */
#define META_FIXED(n, k, v) \
	{.name = n, .kind = SIM_META_##k, .source = SIM_META_FIXED, .fixed = v}
#define META_AT(n, k, s, t, f) \
	{.name = n, .kind = SIM_META_##k, .source = SIM_META_##s##_AT, .offset = offsetof(t, f)}
#define META_GET(n, k, f) {.name = n, .kind = SIM_META_##k, .source = SIM_META_GET, .get = f}
#define META_ENUM(n, e, f) \
	{.name = n, .kind = SIM_META_ENUM, .source = SIM_META_GET, .extra = e, .get = f}
#define META_ENUM_FIXED(n, e, v) \
	{.name = n, .kind = SIM_META_ENUM, .source = SIM_META_FIXED, .extra = e, .fixed = v}
#define META_MANAGED(n, m, v) \
	{.name = n, .kind = SIM_META_MANAGED, .source = SIM_META_FIXED, .extra = m, .fixed = v}
#define META_PUT(n, f) {.name = n, .kind = SIM_META_JSON, .source = SIM_META_PUT, .put = f}
#define META_END {.name = NULL}

/* The source of a property's value. */
enum sim_meta_source
{
	SIM_META_FIXED,				/* "fixed" says it (NULL is null) */
	SIM_META_TEXT_AT,			/* const char * at "offset" of the object */
	SIM_META_CHARS_AT,			/* char array there */
	SIM_META_BOOL_AT,
	SIM_META_INT_AT,
	SIM_META_GET,
	SIM_META_PUT
};

struct sim_meta_prop
{
	const char *name;
	enum sim_meta_kind kind;
	enum sim_meta_source source;
	const char *extra;
	const char *fixed;
	size_t		offset;
	void		(*get) (const struct sim_meta_item *item, struct sim_meta_value *value);
	void		(*put) (struct sim_meta_query *query, const struct sim_meta_item *item,
						struct sim_buf *buf);
};

/* A navigation property; a table of them ends with a NULL name. */
struct sim_meta_nav
{
	const char *name;
	const struct sim_meta_type *type;
	bool		collection;
	bool		inlined;		/* also a property of the Complex… type */
	void		(*list) (struct sim_arena *arena, const struct sim_meta_item *item,
						 struct sim_meta_list *out);
};

struct sim_meta_type
{
	const char *name;			/* without namespace */
	const struct sim_meta_type *base;
	const char *key;			/* property of the alternate key, or NULL */
	bool		untyped;		/* its rows carry no @odata.type */
	const struct sim_meta_nav *navs;	/* or NULL */
	const struct sim_meta_prop *groups[4];	/* ends with NULL; a group ends with a NULL name */
};

/* metadata_types.c */
extern const struct sim_meta_type sim_meta_entity;
extern const struct sim_meta_type sim_meta_key;
extern const struct sim_meta_type sim_meta_relationship;	/* base of the next two */
extern const struct sim_meta_type sim_meta_one_to_many;
extern const struct sim_meta_type sim_meta_many_to_many;

/* metadata_choices.c */
extern const struct sim_meta_type sim_meta_option_set_base; /* base of the next two */
extern const struct sim_meta_type sim_meta_option_set;
extern const struct sim_meta_type sim_meta_boolean_set;

/* metadata_attributes.c */
extern const struct sim_meta_type sim_meta_attribute;	/* base of all columns' types */
void		sim_meta_attributes(struct sim_arena *arena, const struct sim_meta_item *item,
								struct sim_meta_list *out);

/* the derived (or same) type of that name without namespace; NULL if there is none */
const struct sim_meta_type *sim_meta_derived(const struct sim_meta_type *base, const char *name,
											 size_t len);
const struct sim_meta_type *sim_meta_attribute_type(const char *name, size_t len);
const struct sim_meta_prop *sim_meta_prop_of(const struct sim_meta_type *type, const char *name,
											 size_t len);

/*
 * the property in any type derived from this one; case does not matter, as in
 * RetrieveMetadataChanges
 */
const struct sim_meta_prop *sim_meta_prop_anywhere(const struct sim_meta_type *type,
												   const char *name, size_t len);
const struct sim_meta_prop *sim_meta_attribute_prop(const char *name, size_t len);
const struct sim_meta_nav *sim_meta_nav_of(const struct sim_meta_type *type, const char *name,
										   size_t len);

void		sim_meta_get(const struct sim_meta_prop *prop, const struct sim_meta_item *item,
						 struct sim_meta_value *value);
const char *sim_meta_id(const struct sim_meta_item *item, struct sim_meta_value *value);
struct sim_meta_item *sim_meta_add(struct sim_arena *arena, struct sim_meta_list *list, int most);

/* derives an id from another one */
void		sim_meta_derive_id(const char *id, const char *salt, char out[37]);

/* metadata_filter.c */
enum sim_meta_op
{
	SIM_META_EQ,
	SIM_META_NE,
	SIM_META_GT,
	SIM_META_GE,
	SIM_META_LT,
	SIM_META_LE,
	SIM_META_AND,
	SIM_META_OR,
	SIM_META_NOT,
	SIM_META_TRUE
};

struct sim_meta_filter
{
	enum sim_meta_op op;
	const struct sim_meta_filter *left;
	const struct sim_meta_filter *right;
	const struct sim_meta_prop *prop;	/* NULL: look "name" up in each row's type */
	const char *name;
	bool		changeable;		/* compares CanBeChanged of a managed property */
	const struct sim_meta_value *value;
};

/* $filter text over rows of this type; NULL with a failed response if it is not possible */
const struct sim_meta_filter *sim_meta_filter_parse(struct sim_req *req, struct sim_res *res,
													const struct sim_meta_type *type,
													const char *text);
bool		sim_meta_matches(const struct sim_meta_filter *filter,
							 const struct sim_meta_item *item);

/* metadata_json.c */
struct sim_meta_expand
{
	const struct sim_meta_nav *nav;
	struct sim_meta_query *query;
	struct sim_meta_expand *next;
};

struct sim_meta_plan;

struct sim_meta_query
{
	struct sim_arena *arena;
	const struct sim_meta_type *type;	/* declared: rows of other types state their own */
	bool		cast;			/* rows of other types are skipped */
	bool		sparse;			/* RetrieveMetadataChanges: properties that were not requested are
								 * null */
	bool		all;			/* no selection */
	const char **names;			/* the selection */
	int			nnames;
	const struct sim_meta_filter *filter;
	struct sim_meta_expand *expands;
	const int  *languages;		/* of labels; NULL: all */
	int			nlanguages;
	struct sim_meta_plan *plans;	/* one for each type met */
};

bool		sim_meta_wanted(const struct sim_meta_query *query, const struct sim_meta_item *item);

/* a whole object, with this @odata.context if it is not NULL */
void		sim_meta_put(struct sim_meta_query *query, const struct sim_meta_item *item,
						 const char *context, struct sim_buf *buf);

/* "[…]" of the wanted definitions; returns their number */
int			sim_meta_put_list(struct sim_meta_query *query, const struct sim_meta_list *list,
							  struct sim_buf *buf);
void		sim_meta_put_prop(struct sim_meta_query *query, const struct sim_meta_prop *prop,
							  const struct sim_meta_item *item, struct sim_buf *buf);
void		sim_meta_put_label(struct sim_meta_query *query, const char *label, const char *id,
							   const char *salt, bool managed, struct sim_buf *buf);

/* functions.c: "['a','b']", also with double quotes; false if it does not look like that */
bool		sim_text_list(struct sim_arena *arena, const char *text, const char ***items, int *n);

/* changes.c; the parameters as text, NULL if absent */
bool		sim_metadata_changes(struct sim_req *req, struct sim_res *res, const char *query,
								 const char *stamp);

#endif

/*
 * metadata_json.c
 *		Definitions as JSON: look-ups in the tables of properties, values,
 *		labels, and the plans by which rows are printed.
 *
 * A plan belongs to a query and a type.  Properties with the same value in
 * every row, names, commas and (for RetrieveMetadataChanges) the nulls of
 * other properties are combined into literal text; only the parts that differ
 * from row to row remain as steps between.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "metadata/metadata.h"

/* Text, then a property or a navigation (or, at the end, neither). */
struct step
{
	const char *text;
	size_t		len;
	const struct sim_meta_prop *prop;
	const struct sim_meta_expand *expand;
	const struct sim_meta_nav *nav; /* of this very type */
};

struct sim_meta_plan
{
	const struct sim_meta_type *type;
	struct step *steps;
	int			n;
	struct sim_meta_plan *next;
};

/* ---------------------------------------------------------------- look-ups */

const struct sim_meta_prop *
sim_meta_prop_of(const struct sim_meta_type *type, const char *name, size_t len)
{
	const struct sim_meta_prop *const *group;
	const struct sim_meta_prop *prop;

	for (group = type->groups; *group; group++)
		for (prop = *group; prop->name; prop++)
			if (strncmp(prop->name, name, len) == 0 && prop->name[len] == '\0')
				return prop;
	return NULL;
}

const struct sim_meta_prop *
sim_meta_prop_anywhere(const struct sim_meta_type *type, const char *name, size_t len)
{
	static const struct sim_meta_type *const relationships[] = {
		&sim_meta_one_to_many, &sim_meta_many_to_many, NULL
	};
	const struct sim_meta_type *const only[] = {type, NULL};
	const struct sim_meta_type *const *types;
	const struct sim_meta_prop *const *group;
	const struct sim_meta_prop *prop;

	types = type == &sim_meta_relationship ? relationships : only;
	for (; *types; types++)
		for (group = (*types)->groups; *group; group++)
			for (prop = *group; prop->name; prop++)
				if (strncasecmp(prop->name, name, len) == 0 && prop->name[len] == '\0')
					return prop;
	return type == &sim_meta_attribute ? sim_meta_attribute_prop(name, len) : NULL;
}

const struct sim_meta_nav *
sim_meta_nav_of(const struct sim_meta_type *type, const char *name, size_t len)
{
	const struct sim_meta_nav *nav;

	for (nav = type->navs; nav && nav->name; nav++)
		if (strncmp(nav->name, name, len) == 0 && nav->name[len] == '\0')
			return nav;
	return NULL;
}

const struct sim_meta_type *
sim_meta_derived(const struct sim_meta_type *base, const char *name, size_t len)
{
	static const struct sim_meta_type *const others[] = {
		&sim_meta_one_to_many, &sim_meta_many_to_many, &sim_meta_option_set,
		&sim_meta_boolean_set
	};
	const struct sim_meta_type *found = NULL;
	size_t		i;

	if (strncmp(base->name, name, len) == 0 && base->name[len] == '\0')
		return base;
	if (base == &sim_meta_attribute)
		found = sim_meta_attribute_type(name, len);
	for (i = 0; i < sizeof(others) / sizeof(others[0]) && found == NULL; i++)
		if (strncmp(others[i]->name, name, len) == 0 && others[i]->name[len] == '\0')
			found = others[i];
	return found && found->base == base ? found : NULL;
}

/* Room for "most" rows is allocated with the first. */
struct sim_meta_item *
sim_meta_add(struct sim_arena *arena, struct sim_meta_list *list, int most)
{
	if (list->items == NULL)
		list->items = sim_alloc(arena, (size_t) most * sizeof(*list->items));
	return &list->items[list->n++];
}

/* ---------------------------------------------------------------- values */

static void
fixed_value(const struct sim_meta_prop *prop, struct sim_meta_value *value)
{
	value->null = prop->fixed == NULL;
	value->s = prop->fixed;
	if (value->null)
		return;
	if (prop->kind == SIM_META_BOOL || prop->kind == SIM_META_MANAGED)
		value->i = strcmp(prop->fixed, "true") == 0;
	else if (prop->kind == SIM_META_INT)
		value->i = strtoll(prop->fixed, NULL, 10);
}

/* A property printed by "put" has no value, so it is null. */
void
sim_meta_get(const struct sim_meta_prop *prop, const struct sim_meta_item *item,
			 struct sim_meta_value *value)
{
	const char *at = (const char *) item->object + prop->offset;

	value->null = false;
	value->s = NULL;
	value->i = 0;
	switch (prop->source)
	{
		case SIM_META_FIXED:
			fixed_value(prop, value);
			break;
		case SIM_META_TEXT_AT:
			memcpy(&value->s, at, sizeof(value->s));
			value->null = value->s == NULL;
			break;
		case SIM_META_CHARS_AT:
			value->s = at;
			break;
		case SIM_META_BOOL_AT:
			value->i = *(const bool *) at;
			break;
		case SIM_META_INT_AT:
			value->i = *(const int *) at;
			break;
		case SIM_META_GET:
			prop->get(item, value);
			break;
		case SIM_META_PUT:
			value->null = true;
			break;
	}
}

const char *
sim_meta_id(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	sim_meta_get(sim_meta_prop_of(item->type, "MetadataId", 10), item, value);
	return value->s;
}

void
sim_meta_derive_id(const char *id, const char *salt, char out[37])
{
	uint32_t	hash = 2166136261u;
	char		head[9];

	for (; *salt; salt++)
		hash = (hash ^ (unsigned char) *salt) * 16777619u;
	memcpy(head, id, 8);
	head[8] = '\0';
	memcpy(out, id, 36);
	out[36] = '\0';
	snprintf(head, sizeof(head), "%08x", (uint32_t) strtoul(head, NULL, 16) ^ hash);
	memcpy(out, head, 8);
}

static bool
language_wanted(const struct sim_meta_query *query)
{
	int			i;

	for (i = 0; i < query->nlanguages; i++)
		if (query->languages[i] == SIM_LANGUAGE)
			return true;
	return query->languages == NULL;
}

void
sim_meta_put_label(struct sim_meta_query *query, const char *label, const char *id,
				   const char *salt, bool managed, struct sim_buf *buf)
{
	char		own[37];
	size_t		start;
	size_t		len;

	if (label == NULL || !language_wanted(query))
	{
		sim_puts(buf, "{\"LocalizedLabels\":[],\"UserLocalizedLabel\":null}");
		return;
	}
	sim_meta_derive_id(id, salt, own);
	sim_puts(buf, "{\"LocalizedLabels\":[");
	start = buf->len;
	sim_puts(buf, "{\"Label\":");
	sim_put_json(buf, label, strlen(label));
	sim_puts(buf, ",\"LanguageCode\":1033,\"IsManaged\":");
	sim_puts(buf, managed ? "true" : "false");
	sim_puts(buf, ",\"MetadataId\":\"");
	sim_put(buf, own, 36);
	sim_puts(buf, "\",\"HasChanged\":null}");
	len = buf->len - start;

	/* print again; with enough room, the text does not move */
	sim_buf_reserve(buf, len + 64);
	sim_puts(buf, "],\"UserLocalizedLabel\":");
	sim_put(buf, buf->s + start, len);
	sim_putc(buf, '}');
}

static void
put_managed(const struct sim_meta_prop *prop, const char *value, const char *quote,
			struct sim_buf *buf)
{
	sim_puts(buf, "{\"Value\":");
	sim_puts(buf, quote);
	sim_puts(buf, value);
	sim_puts(buf, quote);
	sim_puts(buf, ",\"CanBeChanged\":true,\"ManagedPropertyLogicalName\":\"");
	sim_puts(buf, prop->extra);
	sim_puts(buf, "\"}");
}

static void
put_quoted(const char *s, struct sim_buf *buf)
{
	sim_putc(buf, '"');
	sim_puts(buf, s);
	sim_putc(buf, '"');
}

static bool
item_managed(const struct sim_meta_item *item)
{
	const struct sim_meta_prop *prop = sim_meta_prop_of(item->type, "IsManaged", 9);
	struct sim_meta_value value;

	sim_meta_get(prop, item, &value);
	return value.i != 0;
}

static void
put_label_prop(struct sim_meta_query *query, const struct sim_meta_prop *prop,
			   const struct sim_meta_item *item, const char *label, struct sim_buf *buf)
{
	struct sim_meta_value id;

	if (label == NULL)
		sim_meta_put_label(query, NULL, NULL, NULL, false, buf);
	else
		sim_meta_put_label(query, label, sim_meta_id(item, &id), prop->name, item_managed(item),
						   buf);
}

void
sim_meta_put_prop(struct sim_meta_query *query, const struct sim_meta_prop *prop,
				  const struct sim_meta_item *item, struct sim_buf *buf)
{
	struct sim_meta_value value;

	if (prop->source == SIM_META_PUT)
	{
		prop->put(query, item, buf);
		return;
	}
	sim_meta_get(prop, item, &value);
	if (prop->kind == SIM_META_LABEL)
		put_label_prop(query, prop, item, value.null ? NULL : value.s, buf);
	else if (value.null)
		sim_puts(buf, "null");
	else if (prop->kind == SIM_META_BOOL)
		sim_puts(buf, value.i ? "true" : "false");
	else if (prop->kind == SIM_META_INT)
		sim_put_i64(buf, value.i);
	else if (prop->kind == SIM_META_NUMBER)
		sim_puts(buf, value.s);
	else if (prop->kind == SIM_META_MANAGED)
		put_managed(prop, value.i ? "true" : "false", "", buf);
	else if (prop->kind == SIM_META_LEVEL)
		put_managed(prop, value.s, "\"", buf);
	else if (prop->kind == SIM_META_TEXT)
		sim_put_json(buf, value.s, strlen(value.s));
	else if (prop->kind == SIM_META_VALUE)
	{
		sim_puts(buf, "{\"Value\":");
		sim_put_json(buf, value.s, strlen(value.s));
		sim_putc(buf, '}');
	}
	else
		put_quoted(value.s, buf);
}

/* ---------------------------------------------------------------- plans */

static bool
selected(const struct sim_meta_query *query, const char *name)
{
	int			i;

	if (query->all || strcmp(name, "MetadataId") == 0)
		return true;
	if (query->sparse &&
		(strcmp(name, "LogicalName") == 0 || strcmp(name, "HasChanged") == 0))
		return true;
	for (i = 0; i < query->nnames; i++)
		if (strcmp(query->names[i], name) == 0)
			return true;
	return false;
}

/* The types of RetrieveMetadataChanges are named after those of the entity sets. */
static void
plan_type(struct sim_meta_query *query, const struct sim_meta_type *type, struct sim_buf *text)
{
	if (type != query->type && !type->untyped)
		sim_putf(text, "\"@odata.type\":\"#" SIM_NAMESPACE "%s%s\"",
				 query->sparse ? "Complex" : "", type->name);
}

static void
plan_name(struct sim_buf *text, const char *name, bool *first)
{
	if (!*first)
		sim_putc(text, ',');
	*first = false;
	put_quoted(name, text);
	sim_putc(text, ':');
}

/* Ends the literal text so far with a step. */
static struct step *
plan_step(struct sim_meta_query *query, struct sim_meta_plan *plan, struct sim_buf *text)
{
	struct step *step = &plan->steps[plan->n++];

	step->len = text->len;
	step->text = sim_strndup(query->arena, text->s ? text->s : "", text->len);
	text->len = 0;
	return step;
}

static void
plan_props(struct sim_meta_query *query, struct sim_meta_plan *plan, struct sim_buf *text,
		   bool *first)
{
	static const struct sim_meta_item nothing;
	const struct sim_meta_prop *const *group;
	const struct sim_meta_prop *prop;

	for (group = plan->type->groups; *group; group++)
		for (prop = *group; prop->name; prop++)
		{
			bool		wanted = selected(query, prop->name);

			if (!wanted && !query->sparse)
				continue;
			plan_name(text, prop->name, first);
			if (!wanted)
				sim_puts(text, "null");
			else if (prop->source == SIM_META_FIXED &&
					 (prop->kind != SIM_META_LABEL || prop->fixed == NULL))
				sim_meta_put_prop(query, prop, &nothing, text);
			else
				plan_step(query, plan, text)->prop = prop;
		}
}

static void
plan_navs(struct sim_meta_query *query, struct sim_meta_plan *plan, struct sim_buf *text,
		  bool *first)
{
	const struct sim_meta_nav *nav;

	for (nav = plan->type->navs; nav && nav->name; nav++)
	{
		const struct sim_meta_expand *expand;

		if (query->sparse && !nav->inlined)
			continue;
		for (expand = query->expands; expand; expand = expand->next)
			if (strcmp(expand->nav->name, nav->name) == 0)
				break;
		if (expand && query->sparse && !selected(query, nav->name))
			expand = NULL;
		if (expand == NULL && !query->sparse)
			continue;
		plan_name(text, nav->name, first);
		if (expand == NULL)
			sim_puts(text, "null");
		else
		{
			struct step *step = plan_step(query, plan, text);

			step->expand = expand;
			step->nav = nav;
		}
	}
}

static int
count_members(const struct sim_meta_type *type)
{
	const struct sim_meta_prop *const *group;
	const struct sim_meta_prop *prop;
	const struct sim_meta_nav *nav;
	int			n = 0;

	for (group = type->groups; *group; group++)
		for (prop = *group; prop->name; prop++)
			n++;
	for (nav = type->navs; nav && nav->name; nav++)
		n++;
	return n;
}

static const struct sim_meta_plan *
plan_for(struct sim_meta_query *query, const struct sim_meta_type *type)
{
	struct sim_meta_plan *plan;
	struct sim_buf text = {0};
	bool		first;

	for (plan = query->plans; plan; plan = plan->next)
		if (plan->type == type)
			return plan;
	plan = sim_alloc(query->arena, sizeof(*plan));
	plan->type = type;
	plan->steps = sim_alloc(query->arena, sizeof(struct step) * (count_members(type) + 1));
	plan_type(query, type, &text);
	first = text.len == 0;
	plan_props(query, plan, &text, &first);
	plan_navs(query, plan, &text, &first);
	sim_putc(&text, '}');
	plan_step(query, plan, &text);
	sim_buf_free(&text);
	plan->next = query->plans;
	query->plans = plan;
	return plan;
}

/* ---------------------------------------------------------------- rows */

bool
sim_meta_wanted(const struct sim_meta_query *query, const struct sim_meta_item *item)
{
	if (query->cast && item->type != query->type && query->type->base != NULL)
		return false;
	return query->filter == NULL || sim_meta_matches(query->filter, item);
}

static void
put_expand(struct sim_meta_query *query, const struct step *step,
		   const struct sim_meta_item *item, struct sim_buf *buf)
{
	struct sim_meta_list list = {0};

	step->nav->list(query->arena, item, &list);
	if (step->nav->collection)
		sim_meta_put_list(step->expand->query, &list, buf);
	else if (list.n == 0)
		sim_puts(buf, "null");
	else
	{
		/* the same expansion serves sets of options and of yes and no */
		step->expand->query->type = list.items[0].type;
		sim_meta_put(step->expand->query, &list.items[0], NULL, buf);
	}
}

void
sim_meta_put(struct sim_meta_query *query, const struct sim_meta_item *item,
			 const char *context, struct sim_buf *buf)
{
	const struct sim_meta_plan *plan = plan_for(query, item->type);
	int			i;

	sim_putc(buf, '{');
	if (context)
	{
		sim_puts(buf, "\"@odata.context\":");
		sim_put_json(buf, context, strlen(context));
		sim_putc(buf, ',');
	}
	for (i = 0; i < plan->n; i++)
	{
		const struct step *step = &plan->steps[i];

		sim_put(buf, step->text, step->len);
		if (step->prop)
			sim_meta_put_prop(query, step->prop, item, buf);
		else if (step->expand)
			put_expand(query, step, item, buf);
	}
}

int
sim_meta_put_list(struct sim_meta_query *query, const struct sim_meta_list *list,
				  struct sim_buf *buf)
{
	int			n = 0;
	int			i;

	sim_putc(buf, '[');
	for (i = 0; i < list->n; i++)
	{
		if (!sim_meta_wanted(query, &list->items[i]))
			continue;
		if (n++ > 0)
			sim_putc(buf, ',');
		sim_meta_put(query, &list->items[i], NULL, buf);
	}
	sim_putc(buf, ']');
	return n;
}

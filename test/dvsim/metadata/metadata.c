/*
 * metadata.c
 *		EntityDefinitions, RelationshipDefinitions and
 *		GlobalOptionSetDefinitions.
 *
 * A path is walked segment by segment over lists of definitions: a key picks
 * one, a cast narrows the type, a navigation property leads to another list,
 * a property ends it.  The query options then determine the output.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/guid.h"
#include "metadata/metadata.h"
#include "metadata/metadata_keys.h"

struct walk
{
	struct sim_req *req;
	struct sim_res *res;
	const struct sim_meta_type *type;	/* declared, as cast */
	bool		cast;
	bool		single;
	struct sim_meta_list list;
	struct sim_meta_item parent;	/* to whose navigation property the list belongs */
	const struct sim_meta_prop *prop;	/* the path ended in it */
	const char *context;		/* up to the name of the collection */
	const char *key;			/* that follows, or "" */
	const char *cast_text;		/* that follows, or "" */
};

/* Texts of the options of one level. */
struct options
{
	const char *select;
	const char *filter;
	const char *expand;
};

static bool
not_found(struct sim_req *req, struct sim_res *res, const char *segment)
{
	return sim_fail(req, res, 404, "0x80060888", "Resource not found for the segment '%s'.",
					segment);
}

static bool
no_option(struct sim_req *req, struct sim_res *res, const char *name)
{
	return sim_fail(req, res, 400, "0x80060888", "The query parameter %s is not supported", name);
}

/* ---------------------------------------------------------------- the path */

static void
all_tables(struct walk *walk)
{
	const struct sim_schema *schema = walk->req->sim->schema;
	int			i;

	for (i = 0; i < schema->ntables; i++)
	{
		struct sim_meta_item *item = sim_meta_add(walk->req->arena, &walk->list,
												  schema->ntables);

		item->type = &sim_meta_entity;
		item->object = &schema->tables[i];
	}
}

static void
all_relationships(struct walk *walk)
{
	const struct sim_schema *schema = walk->req->sim->schema;
	int			most = schema->nrelationships + schema->nmany;
	int			i;

	for (i = 0; i < most; i++)
	{
		struct sim_meta_item *item = sim_meta_add(walk->req->arena, &walk->list, most);
		bool		many = i >= schema->nrelationships;

		item->type = many ? &sim_meta_many_to_many : &sim_meta_one_to_many;
		if (many)
			item->object = &schema->many[i - schema->nrelationships];
		else
			item->object = &schema->relationships[i];
	}
}

static void
all_option_sets(struct walk *walk)
{
	const struct sim_schema *schema = walk->req->sim->schema;
	int			i;

	for (i = 0; i < schema->noption_sets; i++)
	{
		struct sim_meta_item *item = sim_meta_add(walk->req->arena, &walk->list,
												  schema->noption_sets);

		item->type = &sim_meta_option_set;
		item->object = schema->option_sets[i];
	}
}

static const struct
{
	const char *name;
	const struct sim_meta_type *type;
	void		(*all) (struct walk *walk);
}			roots[] = {
	{"EntityDefinitions", &sim_meta_entity, all_tables},
	{"RelationshipDefinitions", &sim_meta_relationship, all_relationships},
	{"GlobalOptionSetDefinitions", &sim_meta_option_set_base, all_option_sets}
};

/* "guid", "MetadataId=guid" or "LogicalName='account'": the property and the value */
static const char *
read_key(struct walk *walk, char *text, const struct sim_meta_prop **prop)
{
	char	   *equals = strchr(text, '=');
	char	   *value = equals ? equals + 1 : text;
	size_t		len = strlen(value);
	const char *name = walk->type->key;
	unsigned char guid[16];

	if (equals == NULL || (equals - text == 10 && strncmp(text, "MetadataId", 10) == 0))
	{
		*prop = sim_meta_prop_of(walk->type, "MetadataId", 10);
		return len == 36 && sim_guid_parse(value, len, guid) ? value : NULL;
	}
	if (name == NULL || strlen(name) != (size_t) (equals - text) ||
		strncmp(name, text, strlen(name)) != 0)
		return NULL;
	if (len < 2 || value[0] != '\'' || value[len - 1] != '\'')
		return NULL;
	value[len - 1] = '\0';
	*prop = sim_meta_prop_of(walk->type, name, strlen(name));
	return value + 1;
}

static bool
missing(struct walk *walk, const char *value)
{
	if (walk->type == &sim_meta_entity)
		return sim_fail(walk->req, walk->res, 404, "0x80040217",
						"The entity with a name = '%s' was not found in the MetadataCache.", value);
	return sim_fail(walk->req, walk->res, 404, "0x80040217",
					"Could not find a definition of type '%s' with the specified name or id: %s.",
					walk->type->name, value);
}

static bool
pick(struct walk *walk, char *text)
{
	const struct sim_meta_prop *prop = NULL;
	const char *wanted = read_key(walk, text, &prop);
	bool		by_id;
	int			i;

	if (wanted == NULL || walk->single)
		return sim_fail(walk->req, walk->res, 400, "0x80060888",
						"Bad Request - Error in query syntax.");
	by_id = prop->kind == SIM_META_GUID;
	for (i = 0; i < walk->list.n; i++)
	{
		struct sim_meta_value value;

		if (walk->cast && walk->type->base && walk->list.items[i].type != walk->type)
			continue;
		sim_meta_get(prop, &walk->list.items[i], &value);
		if (value.s && (by_id ? strcasecmp(value.s, wanted) : strcmp(value.s, wanted)) == 0)
			break;
	}
	if (i == walk->list.n)
		return missing(walk, wanted);
	walk->list.items = &walk->list.items[i];
	walk->list.n = 1;
	walk->single = true;
	walk->key = sim_fmt(walk->req->arena, by_id ? "(%s)" : "('%s')", wanted);
	return true;
}

static bool
cast(struct walk *walk, const char *name)
{
	const char *plain = name + strlen(SIM_NAMESPACE);
	const struct sim_meta_type *type = sim_meta_derived(walk->type, plain, strlen(plain));

	if (type == NULL || walk->cast)
		return sim_fail(walk->req, walk->res, 400, "0x80060888",
						"The type '%s' specified in the URI is neither a base type nor a "
						"sub-type of '" SIM_NAMESPACE "%s'.", name, walk->type->name);
	if (walk->single && type != walk->type && walk->list.n == 1 &&
		walk->list.items[0].type != type)
		return not_found(walk->req, walk->res, name);
	walk->type = type;
	walk->cast = true;
	walk->cast_text = sim_fmt(walk->req->arena, "/%s", name);
	return true;
}

/* One more segment, decoded; "key" is the text of its parentheses. */
static bool
step(struct walk *walk, const char *name, char *key)
{
	const struct sim_meta_nav *nav;
	struct sim_meta_list list = {0};

	if (walk->prop)
		return not_found(walk->req, walk->res, name);
	if (strncmp(name, SIM_NAMESPACE, strlen(SIM_NAMESPACE)) == 0)
		return cast(walk, name) && (key == NULL || pick(walk, key));
	if (!walk->single || walk->list.n == 0)
		return not_found(walk->req, walk->res, name);
	walk->context = sim_fmt(walk->req->arena, "%s%s%s/%s", walk->context, walk->key,
							walk->cast_text, name);
	walk->key = walk->cast_text = "";
	nav = sim_meta_nav_of(walk->type, name, strlen(name));
	if (nav == NULL)
	{
		walk->prop = sim_meta_prop_of(walk->type, name, strlen(name));
		return (walk->prop && key == NULL) || not_found(walk->req, walk->res, name);
	}
	walk->parent = walk->list.items[0];
	nav->list(walk->req->arena, &walk->parent, &list);
	walk->list = list;
	walk->type = nav->type;
	walk->cast = false;
	walk->single = !nav->collection;
	return key == NULL || pick(walk, key);
}

/* Cuts off the first segment, decodes it and separates it from its key. */
static bool
next_segment(struct walk *walk, char **rest, char **name, char **key)
{
	char	   *s = *rest;
	char	   *end;
	int			depth = 0;
	bool		quoted = false;

	for (end = s; *end && (*end != '/' || depth > 0 || quoted); end++)
	{
		if (*end == '\'' || strncmp(end, "%27", 3) == 0)
			quoted = !quoted;
		else if (*end == '(' && !quoted)
			depth++;
		else if (*end == ')' && !quoted)
			depth--;
	}
	*rest = *end ? end + 1 : end;
	*end = '\0';
	*name = s;
	*key = NULL;
	if (sim_url_decode(s, false))
	{
		char	   *open = strchr(s, '(');
		size_t		len = strlen(s);

		if (open == NULL)
			return true;
		if (s[len - 1] == ')')
		{
			s[len - 1] = '\0';
			*open = '\0';
			*key = open + 1;
			return true;
		}
	}
	return sim_fail(walk->req, walk->res, 400, "0x80060888",
					"Bad Request - Error in query syntax.");
}

/* ---------------------------------------------------------------- options */

static bool
check_selected(struct walk *walk, const struct sim_meta_type *type, const char *name)
{
	size_t		len = strlen(name);

	if (sim_meta_prop_of(type, name, len) || sim_meta_nav_of(type, name, len))
		return true;
	return sim_fail(walk->req, walk->res, 400, "0x0",
					"Could not find a property named '%s' on type '" SIM_NAMESPACE "%s'.",
					name, type->name);
}

static char *
trimmed(char *s)
{
	size_t		len;

	while (*s == ' ')
		s++;
	for (len = strlen(s); len > 0 && s[len - 1] == ' '; len--)
		s[len - 1] = '\0';
	return s;
}

static bool
read_select(struct walk *walk, struct sim_meta_query *query, const char *text)
{
	char	   *list;
	char	   *item;

	query->all = text == NULL || strcmp(text, "*") == 0;
	if (query->all)
		return true;
	list = sim_strdup(walk->req->arena, text);
	query->names = sim_alloc(walk->req->arena, (strlen(text) / 2 + 1) * sizeof(*query->names));
	while ((item = strsep(&list, ",")) != NULL)
	{
		item = trimmed(item);
		if (*item == '\0' && list == NULL && query->nnames > 0)
			break;				/* a comma behind the last name */
		if (!check_selected(walk, query->type, item))
			return false;
		query->names[query->nnames++] = item;
	}
	return true;
}

/* Cuts at the next separator outside quotes and parentheses; NULL at the end. */
static char *
split(char **text, char separator)
{
	char	   *start = *text;
	char	   *p;
	int			depth = 0;
	bool		quoted = false;

	if (start == NULL)
		return NULL;
	for (p = start; *p && (*p != separator || depth > 0 || quoted); p++)
	{
		if (*p == '\'')
			quoted = !quoted;
		else if (!quoted)
			depth += (*p == '(') - (*p == ')');
	}
	*text = *p ? p + 1 : NULL;
	*p = '\0';
	return start;
}

/* "$select=…;$filter=…" of an expanded property */
static bool
nested_options(struct walk *walk, char *text, struct options *options)
{
	char	   *item;

	while ((item = split(&text, ';')) != NULL)
	{
		char	   *equals = strchr(item = trimmed(item), '=');

		if (equals == NULL)
			return sim_fail(walk->req, walk->res, 400, "0x80060888",
							"Syntax error in the options of $expand: '%s'.", item);
		*equals = '\0';
		if (strcmp(item, "$select") == 0)
			options->select = equals + 1;
		else if (strcmp(item, "$filter") == 0)
			options->filter = equals + 1;
		else if (strcmp(item, "$expand") == 0)
			return sim_fail(walk->req, walk->res, 400, "0x80060888",
							"Multiple levels of expansion aren't supported.");
		else
			return no_option(walk->req, walk->res, item);
	}
	return true;
}

static bool
read_filter(struct walk *walk, struct sim_meta_query *query, const char *text)
{
	if (text == NULL)
		return true;
	query->filter = sim_meta_filter_parse(walk->req, walk->res, query->type, text);
	return query->filter != NULL;
}

/* "Attributes", "Attributes($select=…)", "Attributes/Microsoft.Dynamics.CRM.…($select=…)" */
static bool
read_expand_item(struct walk *walk, struct sim_meta_query *query, char *item)
{
	struct sim_meta_expand *expand = sim_alloc(walk->req->arena, sizeof(*expand));
	struct sim_meta_query *inner = sim_alloc(walk->req->arena, sizeof(*inner));
	struct sim_meta_expand **last;
	struct options options = {0};
	char	   *open = strchr(item, '(');
	char	   *to_type;
	size_t		len = strlen(item);

	if (open && (item[len - 1] != ')'))
		return sim_fail(walk->req, walk->res, 400, "0x80060888",
						"Syntax error in $expand: '%s'.", item);
	if (open)
	{
		item[len - 1] = '\0';
		*open++ = '\0';
		if (!nested_options(walk, open, &options))
			return false;
	}
	to_type = strchr(item, '/');
	if (to_type)
		*to_type++ = '\0';
	expand->nav = sim_meta_nav_of(query->type, item, strlen(item));
	if (expand->nav == NULL)
		return check_selected(walk, query->type, item) &&
			sim_fail(walk->req, walk->res, 400, "0x80060888",
					 "Property '%s' on type '" SIM_NAMESPACE "%s' is not a navigation property "
					 "or complex property. Only navigation properties can be expanded.",
					 item, query->type->name);
	inner->arena = walk->req->arena;
	inner->type = expand->nav->type;
	inner->languages = query->languages;
	inner->nlanguages = query->nlanguages;
	if (to_type)
	{
		const char *plain = to_type + strlen(SIM_NAMESPACE);

		inner->cast = true;
		inner->type = NULL;
		if (strncmp(to_type, SIM_NAMESPACE, strlen(SIM_NAMESPACE)) == 0)
			inner->type = sim_meta_derived(expand->nav->type, plain, strlen(plain));
		if (inner->type == NULL)
			return not_found(walk->req, walk->res, to_type);
	}
	expand->query = inner;
	for (last = &query->expands; *last; last = &(*last)->next)
		continue;
	*last = expand;
	return read_select(walk, inner, options.select) && read_filter(walk, inner, options.filter);
}

static bool
read_expand(struct walk *walk, struct sim_meta_query *query, const char *text)
{
	char	   *list = text ? sim_strdup(walk->req->arena, text) : NULL;
	char	   *item;

	while ((item = split(&list, ',')) != NULL)
		if (!read_expand_item(walk, query, trimmed(item)))
			return false;
	return true;
}

static void
read_languages(struct walk *walk, struct sim_meta_query *query)
{
	const char *text = sim_param(walk->req, "LabelLanguages");
	char	   *list = text ? sim_strdup(walk->req->arena, text) : NULL;
	char	   *item;
	int		   *languages;

	if (text == NULL)
		return;
	query->languages = languages = sim_alloc(walk->req->arena,
											 (strlen(text) + 1) * sizeof(*languages));
	while ((item = strsep(&list, ",")) != NULL)
		languages[query->nlanguages++] = atoi(item);
}

static bool
read_options(struct walk *walk, struct sim_meta_query *query)
{
	struct options options = {0};
	int			i;

	for (i = 0; i < walk->req->params.n; i++)
	{
		const struct sim_pair *pair = &walk->req->params.items[i];

		if (strcmp(pair->name, "$select") == 0)
			options.select = pair->value;
		else if (strcmp(pair->name, "$expand") == 0)
			options.expand = pair->value;
		else if (strcmp(pair->name, "$filter") == 0 && !walk->single &&
				 walk->type->base != &sim_meta_option_set_base &&
				 walk->type != &sim_meta_option_set_base)
			options.filter = pair->value;
		else if (pair->name[0] == '$')
			return no_option(walk->req, walk->res, pair->name);
	}
	query->arena = walk->req->arena;
	query->type = walk->type;
	query->cast = walk->cast;
	read_languages(walk, query);
	return read_select(walk, query, options.select) &&
		read_filter(walk, query, options.filter) &&
		read_expand(walk, query, options.expand);
}

/* ---------------------------------------------------------------- the answer */

/* "(LogicalName,Attributes(SchemaName))": the selection, as the context repeats it */
static void
put_selection(const struct sim_meta_query *query, struct sim_buf *buf)
{
	const struct sim_meta_expand *expand;
	int			i;

	if (query->nnames == 0 && query->expands == NULL)
		return;
	sim_putc(buf, '(');
	for (i = 0; i < query->nnames; i++)
	{
		if (i > 0)
			sim_putc(buf, ',');
		sim_puts(buf, query->names[i]);
	}
	for (expand = query->expands; expand; expand = expand->next)
	{
		if (i++ > 0)
			sim_putc(buf, ',');
		sim_puts(buf, expand->nav->name);
		if (expand->query->nnames == 0)
			sim_puts(buf, "()");
		put_selection(expand->query, buf);
	}
	sim_putc(buf, ')');
}

static const char *
context_of(struct walk *walk, const struct sim_meta_query *query)
{
	struct sim_buf buf = {0};
	const char *context;

	sim_putf(&buf, "%s" SIM_ROOT "$metadata#%s", walk->req->base_url, walk->context);
	if (query)
	{
		sim_puts(&buf, walk->cast_text);
		put_selection(query, &buf);
		if (walk->single)
			sim_puts(&buf, "/$entity");
	}
	context = sim_strndup(walk->req->arena, buf.s, buf.len);
	sim_buf_free(&buf);
	return context;
}

/* A single property: complex values show their members beside the context. */
static bool
answer_prop(struct walk *walk)
{
	struct sim_meta_query query = {0};
	struct sim_buf value = {0};
	const char *context = context_of(walk, NULL);
	struct sim_buf *body = &walk->res->body;

	query.arena = walk->req->arena;
	query.type = walk->type;
	read_languages(walk, &query);
	sim_meta_put_prop(&query, walk->prop, &walk->list.items[0], &value);
	if (strcmp(value.s, "null") == 0)
		walk->res->status = 204;
	else
	{
		sim_json_answer(walk->res, 200);
		sim_puts(body, "{\"@odata.context\":");
		sim_put_json(body, context, strlen(context));
		if (value.s[0] == '{')
			sim_putf(body, ",%s", value.s + 1);
		else
			sim_putf(body, ",\"value\":%s}", value.s);
	}
	sim_buf_free(&value);
	return true;
}

static bool
answer(struct walk *walk)
{
	struct sim_meta_query query = {0};
	const char *context;

	if (walk->prop)
		return answer_prop(walk);
	if (!read_options(walk, &query))
		return false;
	context = context_of(walk, &query);
	if (walk->single && walk->list.n == 0)
	{
		walk->res->status = 204;
		return true;
	}
	sim_json_answer(walk->res, 200);
	if (walk->single)
		sim_meta_put(&query, &walk->list.items[0], context, &walk->res->body);
	else
	{
		sim_puts(&walk->res->body, "{\"@odata.context\":");
		sim_put_json(&walk->res->body, context, strlen(context));
		sim_puts(&walk->res->body, ",\"value\":");
		walk->res->rows = sim_meta_put_list(&query, &walk->list, &walk->res->body);
		sim_putc(&walk->res->body, '}');
	}
	return true;
}

/* Only alternate keys can be created and deleted. */
static bool
change(struct walk *walk)
{
	struct sim_req *req = walk->req;
	bool		keys = walk->type == &sim_meta_key && walk->prop == NULL;
	struct sim_table *table = keys ? (struct sim_table *) walk->parent.object : NULL;

	if (keys && !walk->single && strcmp(req->method, "POST") == 0)
		return sim_key_create(req, walk->res, table);
	if (keys && walk->single && strcmp(req->method, "DELETE") == 0)
		return sim_key_delete(req, walk->res, table, walk->list.items[0].object);
	return sim_fail(req, walk->res, 405, "0x80060888",
					"The requested resource does not support http method '%s'.", req->method);
}

bool
sim_metadata(struct sim_req *req, struct sim_res *res, const char *segment, const char *key,
			 const char *rest)
{
	struct walk walk = {.req = req, .res = res, .key = "", .cast_text = ""};
	char	   *left = sim_strdup(req->arena, rest);
	size_t		i;

	res->kind = SIM_METADATA;
	for (i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		if (strcmp(roots[i].name, segment) == 0)
			break;
	if (i == sizeof(roots) / sizeof(roots[0]))
		return not_found(req, res, segment);
	walk.context = roots[i].name;
	walk.type = roots[i].type;
	roots[i].all(&walk);
	if (key && !pick(&walk, sim_strdup(req->arena, key)))
		return false;
	while (*left)
	{
		char	   *name;
		char	   *args;

		if (!next_segment(&walk, &left, &name, &args) || !step(&walk, name, args))
			return false;
	}
	if (strcmp(req->method, "GET") != 0)
		return change(&walk);
	return answer(&walk);
}

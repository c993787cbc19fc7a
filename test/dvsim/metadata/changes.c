/*
 * changes.c
 *		RetrieveMetadataChanges: definitions of many tables, with all their
 *		derived properties, in one answer; and the stamp by which a client
 *		learns that nothing changed.
 *
 * The query becomes the same sim_meta_query that $select, $filter and
 * $expand do, in its "complex" form.  While dvsim runs, only keys change, so a
 * stamp of this process means "the tables whose keys have changed since", one
 * of another process "everything", and one older than 90 days has expired.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "metadata/metadata.h"
#include "wire/quirks.h"
#include "store/value.h"

#define STAMP_LIFE (90 * 86400)

struct reader
{
	struct sim_req *req;
	struct sim_res *res;
	const int  *languages;
	int			nlanguages;
};

static bool
invalid(struct reader *reader, const char *what)
{
	return sim_fail(reader->req, reader->res, 400, "0x80060888",
					"Invalid parameter of RetrieveMetadataChanges: %s", what);
}

/* ---------------------------------------------------------------- reading the query */

static bool
is_text(const struct sim_json *json, const char *text)
{
	return json->type == SIM_JSON_STRING && json->len == strlen(text) &&
		memcmp(json->s, text, json->len) == 0;
}

static const char *
text_of(struct reader *reader, const struct sim_json *json)
{
	return sim_strndup(reader->req->arena, json->s, json->len);
}

/* Members that are not declared are refused, as is a value that is no object. */
static bool
check_members(struct reader *reader, const struct sim_json *object, const char *type,
			  const char *const *names)
{
	const struct sim_json *member;

	if (object->type != SIM_JSON_OBJECT)
		return invalid(reader, sim_fmt(reader->req->arena, "'%s' must be an object.", type));
	for (member = object->child; member; member = member->next)
	{
		const char *const *name;

		if (member->keylen > 0 && member->key[0] == '@')
			continue;
		for (name = names; *name; name++)
			if (strlen(*name) == member->keylen &&
				memcmp(*name, member->key, member->keylen) == 0)
				break;
		if (*name == NULL)
			return invalid(reader, sim_fmt(reader->req->arena, "The property '%.*s' does not "
										   "exist on type '" SIM_NAMESPACE "%s'.",
										   (int) member->keylen, member->key, type));
	}
	return true;
}

/* NULL if it is absent or null */
static struct sim_json *
member_of(const struct sim_json *object, const char *name)
{
	struct sim_json *member = sim_json_member(object, name);

	return member && member->type != SIM_JSON_NULL ? member : NULL;
}

static bool
read_properties(struct reader *reader, struct sim_meta_query *query,
				const struct sim_json *json)
{
	static const char *const members[] = {
		"AllProperties", "PropertyNames", "ExtensionData", NULL
	};
	const struct sim_json *names;
	const struct sim_json *name;
	const struct sim_json *all;

	query->all = json == NULL;
	if (json == NULL)
		return true;
	if (!check_members(reader, json, "MetadataPropertiesExpression", members))
		return false;
	all = member_of(json, "AllProperties");
	query->all = all && all->type == SIM_JSON_TRUE;
	names = member_of(json, "PropertyNames");
	if (names == NULL)
		return true;
	if (names->type != SIM_JSON_ARRAY)
		return invalid(reader, "'PropertyNames' must be an array.");
	query->names = sim_alloc(reader->req->arena, sizeof(*query->names) * (size_t) (names->n + 1));
	for (name = names->child; name; name = name->next)
	{
		if (name->type != SIM_JSON_STRING)
			return invalid(reader, "'PropertyNames' must hold strings.");
		query->names[query->nnames++] = text_of(reader, name);
	}
	return true;
}

/* One operand in the form in which the property is compared. */
static bool
read_value(const struct sim_meta_prop *prop, const char *text, struct sim_meta_value *out)
{
	char	   *end;

	memset(out, 0, sizeof(*out));
	out->s = text;
	out->null = text == NULL;
	if (text == NULL)
		return true;
	if (prop->kind == SIM_META_BOOL || prop->kind == SIM_META_MANAGED)
	{
		out->i = strcasecmp(text, "true") == 0;
		return out->i || strcasecmp(text, "false") == 0;
	}
	if (prop->kind == SIM_META_INT || prop->kind == SIM_META_NUMBER)
	{
		strtold(text, &end);
		return *text != '\0' && *end == '\0';
	}
	return true;
}

/* Returns true if this is the .NET type of the values with which the property is compared. */
static bool
is_type_of(const struct sim_meta_prop *prop, const char *type)
{
	static const char *const names[] = {
		[SIM_META_TEXT] = "System.String",
		[SIM_META_GUID] = "System.Guid",
		[SIM_META_TIME] = "System.DateTime",
		[SIM_META_BOOL] = "System.Boolean",
		[SIM_META_MANAGED] = "System.Boolean",
		[SIM_META_INT] = "System.Int32",
		[SIM_META_LEVEL] = "Microsoft.Xrm.Sdk.Metadata.AttributeRequiredLevel"
	};
	static const char metadata[] = "Microsoft.Xrm.Sdk.Metadata.";
	size_t		len = sizeof(metadata) - 1;

	switch (prop->kind)
	{
		case SIM_META_ENUM:
			return strncmp(type, metadata, len) == 0 && strcmp(type + len, prop->extra) == 0;
		case SIM_META_VALUE:
			return strncmp(type, metadata, len) == 0;
		case SIM_META_NUMBER:
			return strcmp(type, "System.Decimal") == 0 || strcmp(type, "System.Double") == 0 ||
				strcmp(type, "System.Int64") == 0;
		default:
			return strcmp(type, names[prop->kind]) == 0;
	}
}

/*
 * The value of a condition: {"Type":"System.String","Value":"account"}, or
 * null.  "System.String[]" is documented as a type, but the syntax of its
 * values is not, so none are accepted.
 */
static bool
read_operand(struct reader *reader, struct sim_meta_filter *leaf,
			 const struct sim_meta_prop *prop, struct sim_json *json)
{
	struct sim_json *type = json ? member_of(json, "Type") : NULL;
	struct sim_json *value = json ? member_of(json, "Value") : NULL;
	const char *text = value && value->type == SIM_JSON_STRING ? text_of(reader, value) : NULL;
	struct sim_meta_value *operand = sim_alloc(reader->req->arena, sizeof(*operand));

	if (value && text == NULL)
		return invalid(reader, "the 'Value' of a condition must be a string.");
	if (json && (type == NULL || type->type != SIM_JSON_STRING ||
				 !is_type_of(prop, text_of(reader, type))))
		return invalid(reader, sim_fmt(reader->req->arena,
									   "the 'Type' of the value is not that of the property '%s'.",
									   prop->name));
	if (!read_value(prop, text, operand))
		return invalid(reader, sim_fmt(reader->req->arena, "'%s' is no value for the property '%s'.",
									   text, prop->name));
	leaf->value = operand;
	return true;
}

static const struct
{
	const char *name;
	enum sim_meta_op op;
}			operators[] = {
	{"Equals", SIM_META_EQ},
	{"NotEquals", SIM_META_NE},
	{"GreaterThan", SIM_META_GT},
	{"LessThan", SIM_META_LT}
};

/* Labels, collections and SourceType cannot be conditions. */
static bool
can_be_condition(const struct sim_meta_prop *prop)
{
	return prop->kind != SIM_META_LABEL && prop->kind != SIM_META_JSON &&
		strcmp(prop->name, "SourceType") != 0;
}

static const struct sim_meta_filter *
read_condition(struct reader *reader, const struct sim_meta_type *type,
			   const struct sim_json *json)
{
	static const char *const members[] = {
		"PropertyName", "ConditionOperator", "Value", "ExtensionData", NULL
	};
	static const char *const value_members[] = {"Type", "Value", NULL};
	struct sim_meta_filter *leaf = sim_alloc(reader->req->arena, sizeof(*leaf));
	const struct sim_json *name;
	const struct sim_json *op;
	struct sim_json *value;
	const struct sim_meta_prop *prop;
	size_t		i;

	if (!check_members(reader, json, "MetadataConditionExpression", members))
		return NULL;
	name = member_of(json, "PropertyName");
	op = member_of(json, "ConditionOperator");
	value = member_of(json, "Value");
	prop = name && name->type == SIM_JSON_STRING ?
		sim_meta_prop_anywhere(type, name->s, name->len) : NULL;
	if (prop == NULL || !can_be_condition(prop))
	{
		sim_fail(reader->req, reader->res, 400, "0x80040203",
				 "The property '%s' cannot be used in the criteria of a metadata query.",
				 name && name->type == SIM_JSON_STRING ? text_of(reader, name) : "");
		return NULL;
	}
	for (i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (op && is_text(op, operators[i].name))
			break;
	if (op && (is_text(op, "In") || is_text(op, "NotIn")))
	{
		invalid(reader, "the value of In and NotIn could not be read as a list.");
		return NULL;
	}
	if (i == sizeof(operators) / sizeof(operators[0]))
	{
		invalid(reader, "unknown ConditionOperator.");
		return NULL;
	}
	if (value && !check_members(reader, value, "Object", value_members))
		return NULL;
	leaf->op = operators[i].op;
	leaf->name = prop->name;

	/* shared by all types of the collection, it need not be looked up again */
	if (sim_meta_prop_of(type, prop->name, strlen(prop->name)) == prop)
		leaf->prop = prop;
	return read_operand(reader, leaf, prop, value) ? leaf : NULL;
}

static const struct sim_meta_filter *read_criteria(struct reader *reader,
												   const struct sim_meta_type *type,
												   const struct sim_json *json);

/* Reads the conditions or filters of an array and hangs them into the tree. */
static bool
join(struct reader *reader, const struct sim_meta_type *type, const struct sim_json *array,
	 enum sim_meta_op op, bool conditions, const struct sim_meta_filter **tree)
{
	const struct sim_json *json;

	if (array == NULL)
		return true;
	if (array->type != SIM_JSON_ARRAY)
		return invalid(reader, "'Conditions' and 'Filters' must be arrays.");
	for (json = array->child; json; json = json->next)
	{
		const struct sim_meta_filter *next;
		struct sim_meta_filter *node;

		next = conditions ? read_condition(reader, type, json) : read_criteria(reader, type, json);
		if (next == NULL && reader->res->status != 0)
			return false;
		if (next == NULL)
			continue;			/* an empty filter */
		if (*tree == NULL)
		{
			*tree = next;
			continue;
		}
		node = sim_alloc(reader->req->arena, sizeof(*node));
		node->op = op;
		node->left = *tree;
		node->right = next;
		*tree = node;
	}
	return true;
}

/* NULL: no criteria at all, or a failed response */
static const struct sim_meta_filter *
read_criteria(struct reader *reader, const struct sim_meta_type *type,
			  const struct sim_json *json)
{
	static const char *const members[] = {
		"FilterOperator", "Conditions", "Filters", "ExtensionData", NULL
	};
	const struct sim_meta_filter *tree = NULL;
	const struct sim_json *op;
	enum sim_meta_op joined = SIM_META_AND;

	if (!check_members(reader, json, "MetadataFilterExpression", members))
		return NULL;
	op = member_of(json, "FilterOperator");
	if (op && is_text(op, "Or"))
		joined = SIM_META_OR;
	else if (op && !is_text(op, "And"))
	{
		invalid(reader, "unknown FilterOperator.");
		return NULL;
	}
	if (!join(reader, type, member_of(json, "Conditions"), joined, true, &tree) ||
		!join(reader, type, member_of(json, "Filters"), joined, false, &tree))
		return NULL;
	return tree;
}

/* The common members of all expressions: Properties and Criteria. */
static bool
read_expression(struct reader *reader, struct sim_meta_query *query,
				const struct sim_json *json, const char *type, const char *const *members)
{
	const struct sim_json *criteria;

	query->arena = reader->req->arena;
	query->sparse = true;
	query->languages = reader->languages;
	query->nlanguages = reader->nlanguages;
	query->all = true;
	if (json == NULL)
		return true;
	if (!check_members(reader, json, type, members) ||
		!read_properties(reader, query, member_of(json, "Properties")))
		return false;
	criteria = member_of(json, "Criteria");
	if (criteria)
		query->filter = read_criteria(reader, query->type, criteria);
	return reader->res->status == 0;
}

static bool
read_labels(struct reader *reader, const struct sim_json *json)
{
	static const char *const members[] = {
		"FilterLanguages", "MissingLabelBehavior", "ExtensionData", NULL
	};
	const struct sim_json *list;
	const struct sim_json *item;
	int		   *languages;

	if (json == NULL)
		return true;
	if (!check_members(reader, json, "LabelQueryExpression", members))
		return false;
	list = member_of(json, "FilterLanguages");
	if (list == NULL)
		return true;
	if (list->type != SIM_JSON_ARRAY)
		return invalid(reader, "'FilterLanguages' must be an array.");
	if (list->n == 0)
		return true;
	languages = sim_alloc(reader->req->arena, sizeof(*languages) * (size_t) list->n);
	for (item = list->child; item; item = item->next)
	{
		if (item->type != SIM_JSON_NUMBER)
			return invalid(reader, "'FilterLanguages' must hold numbers.");
		languages[reader->nlanguages++] = atoi(text_of(reader, item));
	}
	reader->languages = languages;
	return true;
}

/* -- definitions that belong to a table */

static struct sim_meta_query *
add_expand(struct reader *reader, struct sim_meta_query *query, const struct sim_meta_type *on,
		   const char *name)
{
	struct sim_meta_expand *expand = sim_alloc(reader->req->arena, sizeof(*expand));

	expand->nav = sim_meta_nav_of(on, name, strlen(name));
	expand->query = sim_alloc(reader->req->arena, sizeof(*expand->query));
	expand->query->type = expand->nav->type;
	expand->next = query->expands;
	query->expands = expand;
	return expand->query;
}

/* A choice column's options are always whole. */
static bool
add_option_sets(struct reader *reader, struct sim_meta_query *attributes)
{
	const struct sim_meta_type *picklist = sim_meta_attribute_type("PicklistAttributeMetadata",
																   25);

	return read_expression(reader, add_expand(reader, attributes, picklist, "OptionSet"), NULL,
						   NULL, NULL);
}

/*
 * Relationships of both kinds are filtered by properties that only one of
 * them may have, so the criteria are read for their common base.
 */
static bool
add_relationships(struct reader *reader, struct sim_meta_query *query, const struct sim_json *json,
				  const char *const *members)
{
	static const char *const navs[] = {
		"ManyToManyRelationships", "ManyToOneRelationships", "OneToManyRelationships"
	};
	size_t		i;

	for (i = 0; i < sizeof(navs) / sizeof(navs[0]); i++)
	{
		struct sim_meta_query *inner = add_expand(reader, query, &sim_meta_entity, navs[i]);
		const struct sim_meta_type *type = inner->type;

		inner->type = &sim_meta_relationship;
		if (!read_expression(reader, inner, json, "RelationshipQueryExpression", members))
			return false;
		inner->type = type;
	}
	return true;
}

static bool
read_query(struct reader *reader, struct sim_meta_query *query, const struct sim_json *json)
{
	static const char *const members[] = {
		"Properties", "Criteria", "AttributeQuery", "RelationshipQuery", "KeyQuery",
		"LabelQuery", "ExtensionData", NULL
	};
	static const char *const inner_members[] = {
		"Properties", "Criteria", "ExtensionData", NULL
	};
	struct sim_meta_query *attributes;
	struct sim_meta_query *keys;

	if (json && !check_members(reader, json, "EntityQueryExpression", members))
		return false;
	if (json && !read_labels(reader, member_of(json, "LabelQuery")))
		return false;
	query->type = &sim_meta_entity;
	if (!read_expression(reader, query, json, "EntityQueryExpression", members))
		return false;
	attributes = add_expand(reader, query, &sim_meta_entity, "Attributes");
	keys = add_expand(reader, query, &sim_meta_entity, "Keys");
	return read_expression(reader, attributes, json ? member_of(json, "AttributeQuery") : NULL,
						   "AttributeQueryExpression", inner_members) &&
		add_option_sets(reader, attributes) &&
		read_expression(reader, keys, json ? member_of(json, "KeyQuery") : NULL,
						"EntityKeyQueryExpression", inner_members) &&
		add_relationships(reader, query, json ? member_of(json, "RelationshipQuery") : NULL,
						  inner_members);
}

/* ---------------------------------------------------------------- stamps */

/* "74812162!10/09/2022 22:10:22": which process, and when */
static long long
process_number(const struct sim *sim)
{
	return (long long) (sim->epoch_us / 1000);
}

static void
put_stamp(const struct sim *sim, struct sim_buf *buf)
{
	struct sim_buf time = {0};
	const char *t;

	sim_time_print(&time, sim_unix_now(sim), false);
	t = time.s;					/* 2022-10-09T22:10:22Z */
	sim_putf(buf, "\"%lld!%.2s/%.2s/%.4s %.8s\"", process_number(sim), t + 5, t + 8, t, t + 11);
	sim_buf_free(&time);
}

/*
 * False if it has expired, or is not a stamp.  *since is left alone if the
 * stamp belongs to another process.
 */
static bool
read_stamp(struct reader *reader, const char *stamp, int64_t *since)
{
	int			month,
				day,
				year,
				hour,
				minute,
				second,
				end = 0;
	long long	number;
	char		iso[32];
	int64_t		when;
	int64_t		now = sim_unix_now(reader->req->sim);

	if (strlen(stamp) < 64 &&
		sscanf(stamp, "%18lld!%2d/%2d/%4d %2d:%2d:%2d%n", &number, &month, &day, &year, &hour,
			   &minute, &second, &end) == 7 && stamp[end] == '\0')
	{
		int			len = snprintf(iso, sizeof(iso), "%04d-%02d-%02dT%02d:%02d:%02dZ", year,
								   month, day, hour, minute, second);

		if (len == 20 && sim_time_parse(iso, (size_t) len, &when) && now - when <= STAMP_LIFE)
		{
			if (number == process_number(reader->req->sim))
				*since = when;
			return true;
		}
	}
	return sim_fail(reader->req, reader->res, 400, "0x80044352",
					"Version stamp associated with the client has expired. "
					"Please perform a full sync.");
}

/* ---------------------------------------------------------------- the answer */

/* Stamps are whole seconds, so changes in the stamp's own second are reported again. */
static void
put_tables(struct reader *reader, struct sim_meta_query *query, int64_t since)
{
	const struct sim_schema *schema = reader->req->sim->schema;
	struct sim_meta_list list = {0};
	int			i;

	for (i = 0; i < schema->ntables; i++)
	{
		struct sim_meta_item *item;

		if (schema->tables[i].changed_on < since)
			continue;
		item = sim_meta_add(reader->req->arena, &list, schema->ntables);
		item->type = &sim_meta_entity;
		item->object = &schema->tables[i];
	}
	reader->res->rows = sim_meta_put_list(query, &list, &reader->res->body);
}

bool
sim_metadata_changes(struct sim_req *req, struct sim_res *res, const char *query,
					 const char *stamp)
{
	struct reader reader = {.req = req, .res = res};
	struct sim_meta_query compiled = {0};
	struct sim_json *json = NULL;
	const char *error = NULL;
	int64_t		since = 0;

	if (sim_quirk(req->sim, SIM_QUIRK_NO_METADATA_CHANGES))
		return invalid(&reader, "'Query' is not supported.");
	if (query)
	{
		json = sim_json_parse(req->arena, sim_strdup(req->arena, query), strlen(query), &error);
		if (json == NULL)
			return invalid(&reader, error ? error : "'Query' is not valid JSON.");
	}
	if (!read_query(&reader, &compiled, json) || (stamp && !read_stamp(&reader, stamp, &since)))
		return false;
	sim_json_answer(res, 200);
	sim_putf(&res->body, "{\"@odata.context\":\"%s" SIM_ROOT "$metadata#" SIM_NAMESPACE
			 "RetrieveMetadataChangesResponse\",\"ServerVersionStamp\":", req->base_url);
	put_stamp(req->sim, &res->body);
	sim_puts(&res->body, ",\"DeletedMetadata\":{\"Count\":0,\"IsReadOnly\":false,\"Keys\":[],"
			 "\"Values\":[]},\"EntityMetadata\":");
	put_tables(&reader, &compiled, since);
	sim_putc(&res->body, '}');
	return true;
}

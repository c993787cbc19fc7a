/*
 * fetch_parse.c
 *		FetchXML text to a tree.
 *
 * Expat does the reading; a table lists the permitted parents and attributes
 * of each element, and everything else is refused.  A document type is refused
 * before any entity of it could be expanded.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <errno.h>
#include <expat.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch_parse.h"

#define MAX_DEPTH 64
#define MAX_NUMBER 1000000000

#define BAD_XML "0x80040201"
#define BAD_NODE "0x8004111c"
#define BAD_VALUE "0x80041139"
#define NOT_POSITIVE "0x8004110c"
#define NO_ATTRIBUTE "0x8004111e"
#define NO_ELEMENT "0x80041123"
#define BAD_ALIAS "0x80041109"

enum element
{
	E_FETCH,
	E_ENTITY,
	E_LINK,
	E_ATTRIBUTE,
	E_ALL_ATTRIBUTES,
	E_NO_ATTRIBUTES,
	E_ORDER,
	E_FILTER,
	E_CONDITION,
	E_VALUE,
	E_COUNT
};

#define IN(element) (1u << (element))

static const struct element_rule
{
	const char *name;
	unsigned int parents;		/* 0: the document */
}			elements[E_COUNT] = {
	{"fetch", 0},
	{"entity", IN(E_FETCH)},
	{"link-entity", IN(E_ENTITY) | IN(E_LINK) | IN(E_FILTER)},
	{"attribute", IN(E_ENTITY) | IN(E_LINK)},
	{"all-attributes", IN(E_ENTITY) | IN(E_LINK)},
	{"no-attrs", IN(E_ENTITY) | IN(E_LINK)},
	{"order", IN(E_ENTITY) | IN(E_LINK)},
	{"filter", IN(E_ENTITY) | IN(E_LINK) | IN(E_FILTER)},
	{"condition", IN(E_FILTER)},
	{"value", IN(E_CONDITION)},
};

enum kind
{
	K_TEXT,
	K_BOOL,
	K_POSITIVE,					/* a whole number from 1 on; 0 counts as not given */
	K_CHOICE,
	K_ALIAS,
	K_IGNORED
};

struct choice
{
	const char *name;
	int			value;
};

static const struct choice link_types[] = {
	{"inner", SIM_LINK_INNER}, {"natural", SIM_LINK_INNER}, {"outer", SIM_LINK_OUTER},
	{"matchfirstrowusingcrossapply", SIM_LINK_FIRST}, {"exists", SIM_LINK_EXISTS},
	{"in", SIM_LINK_IN}, {"any", SIM_LINK_ANY}, {"not any", SIM_LINK_NOT_ANY},
	{"all", SIM_LINK_ALL}, {"not all", SIM_LINK_NOT_ALL}, {NULL, 0}
};

static const struct choice aggregates[] = {
	{"avg", SIM_AGGREGATE_AVG}, {"count", SIM_AGGREGATE_COUNT},
	{"countcolumn", SIM_AGGREGATE_COUNTCOLUMN}, {"max", SIM_AGGREGATE_MAX},
	{"min", SIM_AGGREGATE_MIN}, {"sum", SIM_AGGREGATE_SUM}, {NULL, 0}
};

static const struct choice parts[] = {
	{"day", SIM_PART_DAY}, {"week", SIM_PART_WEEK}, {"month", SIM_PART_MONTH},
	{"quarter", SIM_PART_QUARTER}, {"year", SIM_PART_YEAR},
	{"fiscal-period", SIM_PART_FISCAL_PERIOD}, {"fiscal-year", SIM_PART_FISCAL_YEAR},
	{NULL, 0}
};

static const struct choice filter_types[] = {{"and", 0}, {"or", 1}, {NULL, 0}};
static const struct choice row_aggregates[] = {{"CountChildren", 1}, {NULL, 0}};
static const struct choice mappings[] = {{"logical", 0}, {"internal", 0}, {NULL, 0}};
static const struct choice hints[] = {{"union", 0}, {NULL, 0}};
static const struct choice datasources[] = {{"retained", 0}, {"bin", 0}, {NULL, 0}};

static const struct attribute_rule
{
	enum element element;
	const char *name;
	enum kind	kind;
	size_t		offset;
	const struct choice *choices;
	const char *code;			/* of a bad value; NULL: BAD_VALUE */
}			attribute_rules[] = {
#define FETCH(field) offsetof(struct sim_fetch_tree, field)
	{E_FETCH, "version", K_IGNORED, 0, NULL, NULL},
	{E_FETCH, "mapping", K_CHOICE, SIZE_MAX, mappings, "0x80041116"},
	{E_FETCH, "output-format", K_IGNORED, 0, NULL, NULL},
	{E_FETCH, "no-lock", K_BOOL, SIZE_MAX, NULL, "0x80041118"},
	{E_FETCH, "min-active-row-version", K_BOOL, SIZE_MAX, NULL, "0x8004111b"},
	{E_FETCH, "latematerialize", K_BOOL, SIZE_MAX, NULL, NULL},
	{E_FETCH, "options", K_IGNORED, 0, NULL, NULL},
	{E_FETCH, "datasource", K_CHOICE, SIZE_MAX, datasources, NULL},
	{E_FETCH, "datasource", K_TEXT, FETCH(datasource), NULL, NULL},
	{E_FETCH, "aggregate", K_BOOL, FETCH(aggregate), NULL, NULL},
	{E_FETCH, "aggregatelimit", K_POSITIVE, FETCH(aggregate_limit), NULL, NULL},
	{E_FETCH, "count", K_POSITIVE, FETCH(count), NULL, NULL},
	{E_FETCH, "page", K_POSITIVE, FETCH(page), NULL, NULL},
	{E_FETCH, "paging-cookie", K_TEXT, FETCH(cookie), NULL, NULL},
	{E_FETCH, "top", K_POSITIVE, FETCH(top), NULL, NULL},
	{E_FETCH, "distinct", K_BOOL, FETCH(distinct), NULL, "0x80041115"},
	{E_FETCH, "returntotalrecordcount", K_BOOL, FETCH(total), NULL, NULL},
	{E_FETCH, "useraworderby", K_BOOL, FETCH(raw_order), NULL, "0x800410fd"},
#define ENTITY(field) offsetof(struct sim_fetch_entity, field)
	{E_ENTITY, "name", K_TEXT, ENTITY(name), NULL, NULL},
	{E_ENTITY, "enableprefiltering", K_BOOL, SIZE_MAX, NULL, NULL},
	{E_ENTITY, "prefilterparametername", K_IGNORED, 0, NULL, NULL},
	{E_LINK, "name", K_TEXT, ENTITY(name), NULL, NULL},
	{E_LINK, "from", K_TEXT, ENTITY(from), NULL, NULL},
	{E_LINK, "to", K_TEXT, ENTITY(to), NULL, NULL},
	{E_LINK, "alias", K_ALIAS, ENTITY(alias), NULL, NULL},
	{E_LINK, "link-type", K_CHOICE, ENTITY(type), link_types, "0x80041117"},
	{E_LINK, "intersect", K_BOOL, ENTITY(intersect), NULL, NULL},
	{E_LINK, "visible", K_BOOL, SIZE_MAX, NULL, NULL},
	{E_LINK, "enableprefiltering", K_BOOL, SIZE_MAX, NULL, NULL},
	{E_LINK, "prefilterparametername", K_IGNORED, 0, NULL, NULL},
#define ATTRIBUTE(field) offsetof(struct sim_fetch_attribute, field)
	{E_ATTRIBUTE, "name", K_TEXT, ATTRIBUTE(name), NULL, NULL},
	{E_ATTRIBUTE, "alias", K_ALIAS, ATTRIBUTE(alias), NULL, NULL},
	{E_ATTRIBUTE, "aggregate", K_CHOICE, ATTRIBUTE(aggregate), aggregates, "0x8004111a"},
	{E_ATTRIBUTE, "groupby", K_BOOL, ATTRIBUTE(groupby), NULL, "0x8004112E"},
	{E_ATTRIBUTE, "dategrouping", K_CHOICE, ATTRIBUTE(part), parts, "0x80041135"},
	{E_ATTRIBUTE, "distinct", K_BOOL, ATTRIBUTE(distinct), NULL, "0x80041115"},
	{E_ATTRIBUTE, "usertimezone", K_BOOL, ATTRIBUTE(user_time_zone), NULL, NULL},
	{E_ATTRIBUTE, "rowaggregate", K_CHOICE, ATTRIBUTE(count_children), row_aggregates,
	"0x8004111a"},
	{E_ATTRIBUTE, "build", K_IGNORED, 0, NULL, NULL},
	{E_ATTRIBUTE, "addedby", K_IGNORED, 0, NULL, NULL},
#define ORDER(field) offsetof(struct sim_fetch_order, field)
	{E_ORDER, "attribute", K_TEXT, ORDER(attribute), NULL, NULL},
	{E_ORDER, "alias", K_TEXT, ORDER(alias), NULL, NULL},
	{E_ORDER, "entityname", K_TEXT, ORDER(entityname), NULL, NULL},
	{E_ORDER, "descending", K_BOOL, ORDER(descending), NULL, "0x80041119"},
#define FILTER(field) offsetof(struct sim_fetch_filter, field)
	{E_FILTER, "type", K_CHOICE, FILTER(any), filter_types, "0x80041122"},
	{E_FILTER, "hint", K_CHOICE, SIZE_MAX, hints, NULL},
	{E_FILTER, "isquickfindfields", K_BOOL, SIZE_MAX, NULL, "0x80041138"},
	{E_FILTER, "overridequickfindrecordlimitenabled", K_BOOL, SIZE_MAX, NULL, NULL},
	{E_FILTER, "overridequickfindrecordlimitdisabled", K_BOOL, SIZE_MAX, NULL, NULL},
#define CONDITION(field) offsetof(struct sim_fetch_condition, field)
	{E_CONDITION, "attribute", K_TEXT, CONDITION(attribute), NULL, NULL},
	{E_CONDITION, "entityname", K_TEXT, CONDITION(entityname), NULL, NULL},
	{E_CONDITION, "operator", K_TEXT, CONDITION(operator), NULL, NULL},
	{E_CONDITION, "value", K_TEXT, CONDITION(value), NULL, NULL},
	{E_CONDITION, "valueof", K_TEXT, CONDITION(valueof), NULL, NULL},
	{E_CONDITION, "uiname", K_IGNORED, 0, NULL, NULL},
	{E_CONDITION, "uitype", K_IGNORED, 0, NULL, NULL},
	{E_CONDITION, "uihidden", K_IGNORED, 0, NULL, NULL},
	{E_VALUE, "uiname", K_IGNORED, 0, NULL, NULL},
	{E_VALUE, "uitype", K_IGNORED, 0, NULL, NULL},
};

#define NRULES (sizeof(attribute_rules) / sizeof(attribute_rules[0]))

struct frame
{
	enum element element;
	void	   *node;
};

struct reader
{
	struct sim_req *req;
	struct sim_res *res;
	XML_Parser	parser;
	struct sim_fetch_tree *tree;
	struct frame stack[MAX_DEPTH];
	int			depth;
	bool		failed;
	struct sim_buf text;		/* of the <value> being read */
};

/* appends to a singly linked list that is walked: lists here are short or built once */
#define APPEND(type, head, node) \
	do { \
		type **tail_ = &(head); \
		while (*tail_ != NULL) \
			tail_ = &(*tail_)->next; \
		*tail_ = (node); \
	} while (0)

static bool
refuse(struct reader *r, const char *code, const char *message)
{
	if (!r->failed)
		sim_fail(r->req, r->res, 400, code, "%s", message);
	r->failed = true;
	XML_StopParser(r->parser, XML_FALSE);
	return false;
}

static bool
refuse_value(struct reader *r, const struct attribute_rule *rule, const char *value)
{
	return refuse(r, rule->code ? rule->code : BAD_VALUE,
				  sim_fmt(r->req->arena, "Invalid value '%s' for the attribute '%s' of the "
						  "element '%s'.", value, rule->name, elements[rule->element].name));
}

static bool
valid_alias(const char *s)
{
	if (!isalpha((unsigned char) *s) && *s != '_')
		return false;
	while (isalnum((unsigned char) *s) || *s == '_')
		s++;
	return *s == '\0';
}

/* stores one attribute's value at its place in the node */
static bool
set_attribute(struct reader *r, const struct attribute_rule *rule, char *node, const char *value)
{
	void	   *at = rule->offset == SIZE_MAX ? NULL : node + rule->offset;
	const struct choice *choice;
	char	   *end;
	long		number;

	switch (rule->kind)
	{
		case K_IGNORED:
			return true;
		case K_ALIAS:
			if (!valid_alias(value))
				return refuse(r, BAD_ALIAS,
							  sim_fmt(r->req->arena, "Invalid alias '%s'.", value));
			/* FALLTHROUGH */
		case K_TEXT:
			*(const char **) at = sim_strdup(r->req->arena, value);
			return true;
		case K_BOOL:
			if (strcmp(value, "true") != 0 && strcmp(value, "1") != 0 &&
				strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
				return refuse_value(r, rule, value);
			if (at != NULL)
				*(bool *) at = (*value == 't' || *value == '1');
			return true;
		case K_POSITIVE:
			errno = 0;
			number = strtol(value, &end, 10);
			if (!isdigit((unsigned char) *value) || *end != '\0' || errno != 0 ||
				number > MAX_NUMBER)
				return refuse_value(r, rule, value);
			*(int *) at = (int) number;
			return true;
		case K_CHOICE:
			for (choice = rule->choices; choice->name != NULL; choice++)
			{
				if (strcmp(choice->name, value) == 0)
					break;
			}
			if (choice->name == NULL)
				return refuse_value(r, rule, value);
			if (at != NULL)
				*(int *) at = choice->value;
			return true;
	}
	return true;
}

static bool
set_attributes(struct reader *r, enum element element, void *node, const char **pairs)
{
	for (; *pairs != NULL; pairs += 2)
	{
		bool		known = false;
		size_t		i;

		for (i = 0; i < NRULES; i++)
		{
			const struct attribute_rule *rule = &attribute_rules[i];

			if (rule->element != element || strcmp(rule->name, pairs[0]) != 0)
				continue;
			known = true;
			if (!set_attribute(r, rule, node, pairs[1]))
				return false;
		}
		if (!known)
			return refuse(r, BAD_NODE,
						  sim_fmt(r->req->arena, "The attribute '%s' of the element '%s' is "
								  "invalid.", pairs[0], elements[element].name));
	}
	return true;
}

static bool
require(struct reader *r, const char *value, enum element element, const char *name)
{
	if (value != NULL && *value != '\0')
		return true;
	return refuse(r, NO_ATTRIBUTE,
				  sim_fmt(r->req->arena, "The required attribute '%s' of the element '%s' was "
						  "not specified.", name, elements[element].name));
}

static bool
check_limits(struct reader *r)
{
	if (r->tree->links > SIM_FETCH_MAX_LINKS)
		return refuse(r, "0x8004430D",
					  "Number of link entities in query exceeded maximum limit.");
	if (r->tree->links + r->tree->conditions > SIM_FETCH_MAX_CONDITIONS)
		return refuse(r, "0x8004430C",
					  "Number of conditions in query exceeded maximum limit.");
	return true;
}

/* returns the item of a filter that holds a new child */
static struct sim_fetch_item *
add_item(struct reader *r, struct sim_fetch_filter *filter)
{
	struct sim_fetch_item *item = sim_alloc(r->req->arena, sizeof(*item));

	APPEND(struct sim_fetch_item, filter->items, item);
	return item;
}

/* returns the entity or link-entity around the element being read, at any depth */
static struct sim_fetch_entity *
enclosing_entity(struct reader *r)
{
	int			i;

	for (i = r->depth - 1; i >= 0; i--)
	{
		if (r->stack[i].element == E_ENTITY || r->stack[i].element == E_LINK)
			return r->stack[i].node;
	}
	return NULL;
}

static void *
start_entity(struct reader *r, const char **pairs)
{
	struct sim_fetch_entity *entity = sim_alloc(r->req->arena, sizeof(*entity));

	if (r->tree->root != NULL)
	{
		refuse(r, BAD_NODE, "There can be only one 'entity' element.");
		return NULL;
	}
	r->tree->root = entity;
	if (!set_attributes(r, E_ENTITY, entity, pairs) ||
		!require(r, entity->name, E_ENTITY, "name"))
		return NULL;
	return entity;
}

/* checks which links may be in a filter, and which may not */
static bool
check_link_place(struct reader *r, const struct sim_fetch_entity *link)
{
	bool		joins = link->type <= SIM_LINK_FIRST;
	bool		filters = link->type >= SIM_LINK_ANY;

	if ((link->in_filter && joins) || (!link->in_filter && filters))
		return refuse(r, "0x80041121",
					  link->in_filter
					  ? "The link-type of a link-entity inside a filter must be any, not any, "
					  "all, not all, exists or in."
					  : "The link-types any, not any, all and not all are supported inside a "
					  "filter only.");
	return true;
}

static void *
start_link(struct reader *r, void *parent, enum element parent_element, const char **pairs)
{
	struct sim_fetch_entity *link = sim_alloc(r->req->arena, sizeof(*link));

	r->tree->links++;
	link->number = r->tree->links;
	link->parent = enclosing_entity(r);
	link->in_filter = parent_element == E_FILTER;
	if (!check_limits(r) || !set_attributes(r, E_LINK, link, pairs) ||
		!require(r, link->name, E_LINK, "name") || !check_link_place(r, link))
		return NULL;
	if (link->in_filter)
		add_item(r, parent)->link = link;
	else
		APPEND(struct sim_fetch_entity, link->parent->links, link);
	return link;
}

static void *
start_attribute(struct reader *r, struct sim_fetch_entity *entity, const char **pairs)
{
	struct sim_fetch_attribute *attribute = sim_alloc(r->req->arena, sizeof(*attribute));

	attribute->user_time_zone = true;
	if (!set_attributes(r, E_ATTRIBUTE, attribute, pairs) ||
		!require(r, attribute->name, E_ATTRIBUTE, "name"))
		return NULL;
	APPEND(struct sim_fetch_attribute, entity->attributes, attribute);
	return attribute;
}

static void *
start_order(struct reader *r, struct sim_fetch_entity *entity, const char **pairs)
{
	struct sim_fetch_order *order = sim_alloc(r->req->arena, sizeof(*order));

	if (!set_attributes(r, E_ORDER, order, pairs))
		return NULL;
	APPEND(struct sim_fetch_order, entity->orders, order);
	return order;
}

static void *
start_filter(struct reader *r, void *parent, enum element parent_element, const char **pairs)
{
	struct sim_fetch_filter *filter = sim_alloc(r->req->arena, sizeof(*filter));
	struct sim_fetch_filter *outer = parent;

	if (parent_element != E_FILTER)
		outer = &((struct sim_fetch_entity *) parent)->filter;
	if (!set_attributes(r, E_FILTER, filter, pairs))
		return NULL;
	add_item(r, outer)->filter = filter;
	return filter;
}

static void
add_value(struct reader *r, struct sim_fetch_condition *condition, const char *s, size_t len)
{
	struct sim_fetch_value *value = sim_alloc(r->req->arena, sizeof(*value));

	value->text = sim_strndup(r->req->arena, s, len);
	value->len = len;
	/* lists can be thousands long: newest first, turned around at the end of the condition */
	value->next = condition->values;
	condition->values = value;
	condition->nvalues++;
}

static void *
start_condition(struct reader *r, struct sim_fetch_filter *filter, const char **pairs)
{
	struct sim_fetch_condition *condition = sim_alloc(r->req->arena, sizeof(*condition));

	r->tree->conditions++;
	if (!check_limits(r) || !set_attributes(r, E_CONDITION, condition, pairs) ||
		!require(r, condition->attribute, E_CONDITION, "attribute") ||
		!require(r, condition->operator, E_CONDITION, "operator"))
		return NULL;
	if (condition->value != NULL)
		add_value(r, condition, condition->value, strlen(condition->value));
	add_item(r, filter)->condition = condition;
	return condition;
}

static void *
start_value(struct reader *r, struct sim_fetch_condition *condition, const char **pairs)
{
	if (condition->value != NULL)
	{
		refuse(r, BAD_NODE, "A condition has either a 'value' attribute or 'value' elements.");
		return NULL;
	}
	r->text.len = 0;
	return set_attributes(r, E_VALUE, condition, pairs) ? condition : NULL;
}

static void *
start_flag(struct reader *r, enum element element, struct sim_fetch_entity *entity,
		   const char **pairs)
{
	if (!set_attributes(r, element, entity, pairs))
		return NULL;
	if (element == E_ALL_ATTRIBUTES)
		entity->all_attributes = true;
	else
		entity->no_attributes = true;
	return entity;
}

static void *
start_node(struct reader *r, enum element element, const struct frame *parent,
		   const char **pairs)
{
	switch (element)
	{
		case E_FETCH:
			return set_attributes(r, E_FETCH, r->tree, pairs) ? r->tree : NULL;
		case E_ENTITY:
			return start_entity(r, pairs);
		case E_LINK:
			return start_link(r, parent->node, parent->element, pairs);
		case E_ATTRIBUTE:
			return start_attribute(r, parent->node, pairs);
		case E_ORDER:
			return start_order(r, parent->node, pairs);
		case E_FILTER:
			return start_filter(r, parent->node, parent->element, pairs);
		case E_CONDITION:
			return start_condition(r, parent->node, pairs);
		case E_VALUE:
			return start_value(r, parent->node, pairs);
		default:
			return start_flag(r, element, parent->node, pairs);
	}
}

static void XMLCALL
start_element(void *user, const XML_Char *name, const XML_Char **pairs)
{
	struct reader *r = user;
	const struct frame *parent = r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
	unsigned int where = parent ? IN(parent->element) : 0;
	void	   *node;
	int			e;

	if (r->failed)
		return;
	for (e = 0; e < E_COUNT && strcmp(elements[e].name, name) != 0; e++)
		;
	if (e == E_COUNT || (parent ? !(elements[e].parents & where) : e != E_FETCH))
	{
		refuse(r, BAD_NODE, sim_fmt(r->req->arena, "The element node encountered is invalid: "
									"'%s'.", name));
		return;
	}
	if (r->depth == MAX_DEPTH)
	{
		refuse(r, BAD_NODE, "The elements are nested too deeply.");
		return;
	}
	node = start_node(r, e, parent, pairs);
	if (node == NULL)
		return;
	r->stack[r->depth].element = e;
	r->stack[r->depth].node = node;
	r->depth++;
}

static void
end_condition(struct sim_fetch_condition *condition)
{
	struct sim_fetch_value *list = NULL;

	while (condition->values != NULL)
	{
		struct sim_fetch_value *value = condition->values;

		condition->values = value->next;
		value->next = list;
		list = value;
	}
	condition->values = list;
}

static void XMLCALL
end_element(void *user, const XML_Char *name)
{
	struct reader *r = user;
	struct frame *frame;

	(void) name;
	if (r->failed)
		return;
	frame = &r->stack[--r->depth];
	if (frame->element == E_VALUE)
		add_value(r, frame->node, r->text.s ? r->text.s : "", r->text.len);
	else if (frame->element == E_CONDITION)
		end_condition(frame->node);
}

static void XMLCALL
character_data(void *user, const XML_Char *s, int len)
{
	struct reader *r = user;
	int			i;

	if (r->failed || r->depth == 0)
		return;
	if (r->stack[r->depth - 1].element == E_VALUE)
	{
		sim_put(&r->text, s, len);
		return;
	}
	for (i = 0; i < len; i++)
	{
		if (strchr(" \t\r\n", s[i]) == NULL)
		{
			refuse(r, BAD_NODE, "The element node encountered is invalid: text.");
			return;
		}
	}
}

static void XMLCALL
start_doctype(void *user, const XML_Char *name, const XML_Char *system_id,
			  const XML_Char *public_id, int internal)
{
	(void) name;
	(void) system_id;
	(void) public_id;
	(void) internal;
	refuse(user, BAD_XML, "Invalid XML. A document type is not allowed.");
}

/* checks the query as a whole, without the schema */
static bool
check_tree(struct reader *r)
{
	struct sim_fetch_tree *tree = r->tree;
	const char *with = NULL;

	if (tree->root == NULL)
		return refuse(r, NO_ELEMENT, "A required element was not specified: 'entity'.");
	if (tree->top > 5000)
		return refuse(r, BAD_VALUE, "The top attribute can't exceed 5000.");
	if (tree->aggregate_limit > SIM_FETCH_MAX_AGGREGATE)
		return refuse(r, BAD_VALUE, "The aggregatelimit attribute can't exceed 50000.");
	if (tree->page > 0)
		with = "page";
	else if (tree->count > 0)
		with = "count";
	else if (tree->total)
		with = "returntotalrecordcount";
	if (tree->top > 0 && with != NULL)
		return refuse(r, "0x80040203",
					  sim_fmt(r->req->arena, "The top attribute can't be specified with paging "
							  "attribute %s", with));
	return true;
}

bool
sim_fetch_parse(struct sim_req *req, struct sim_res *res, const char *xml,
				struct sim_fetch_tree **tree)
{
	struct reader r = {.req = req, .res = res};
	size_t		len = strlen(xml);

	if (len > INT32_MAX)
		return sim_fail(req, res, 400, BAD_XML, "Invalid XML.");
	r.tree = sim_alloc(req->arena, sizeof(*r.tree));
	r.parser = XML_ParserCreate("UTF-8");
	XML_SetUserData(r.parser, &r);
	XML_SetElementHandler(r.parser, start_element, end_element);
	XML_SetCharacterDataHandler(r.parser, character_data);
	XML_SetStartDoctypeDeclHandler(r.parser, start_doctype);
	if (XML_Parse(r.parser, xml, (int) len, XML_TRUE) != XML_STATUS_OK && !r.failed)
		refuse(&r, BAD_XML,
			   sim_fmt(req->arena, "Invalid XML. %s, line %lu, column %lu.",
					   XML_ErrorString(XML_GetErrorCode(r.parser)),
					   (unsigned long) XML_GetCurrentLineNumber(r.parser),
					   (unsigned long) XML_GetCurrentColumnNumber(r.parser)));
	if (!r.failed)
		check_tree(&r);
	XML_ParserFree(r.parser);
	sim_buf_free(&r.text);
	*tree = r.tree;
	return !r.failed;
}

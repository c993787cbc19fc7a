/*
 * query_expression.c
 *		A QueryExpression (JSON) as FetchXML.
 *
 * Both say the same in other words, so the translator of FetchXML does the
 * work.  Most operators are FetchXML's in Pascal case; the table has the rest.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "fetch/query_expression.h"

static const struct
{
	const char *name;
	const char *fetch;
}			irregular[] = {
	{"Equal", "eq"},
	{"NotEqual", "ne"},
	{"GreaterThan", "gt"},
	{"LessThan", "lt"},
	{"GreaterEqual", "ge"},
	{"LessEqual", "le"},
	{"DoesNotBeginWith", "not-begin-with"},
	{"DoesNotEndWith", "not-end-with"},
	{"Last7Days", "last-seven-days"},
	{"Next7Days", "next-seven-days"},
	{"EqualUserId", "eq-userid"},
	{"NotEqualUserId", "ne-userid"},
	{"EqualBusinessId", "eq-businessid"},
	{"NotEqualBusinessId", "ne-businessid"},
	{"EqualUserTeams", "eq-userteams"},
	{"EqualUserOrUserTeams", "eq-useroruserteams"},
	{"ContainValues", "contain-values"},
	{"DoesNotContainValues", "not-contain-values"},
	{"AboveOrEqual", "eq-or-above"},
	{"UnderOrEqual", "eq-or-under"},
	{"OlderThanXMinutes", "olderthan-x-minutes"},
	{"OlderThanXHours", "olderthan-x-hours"},
	{"OlderThanXDays", "olderthan-x-days"},
	{"OlderThanXWeeks", "olderthan-x-weeks"},
	{"OlderThanXMonths", "olderthan-x-months"},
	{"OlderThanXYears", "olderthan-x-years"},
};

struct writer
{
	struct sim_req *req;
	struct sim_res *res;
	struct sim_buf xml;
};

bool
sim_query_operator(const char *name, size_t len, char out[64])
{
	size_t		n = 0;
	size_t		i;

	for (i = 0; i < sizeof(irregular) / sizeof(irregular[0]); i++)
	{
		if (strlen(irregular[i].name) == len && memcmp(irregular[i].name, name, len) == 0)
		{
			strcpy(out, irregular[i].fetch);
			return true;
		}
	}
	if (len == 0 || len > 30 || !isupper((unsigned char) name[0]))
		return false;
	for (i = 0; i < len; i++)
	{
		if (!isalpha((unsigned char) name[i]))
			return false;
		if (isupper((unsigned char) name[i]) && i > 0)
			out[n++] = '-';
		out[n++] = tolower((unsigned char) name[i]);
	}
	out[n] = '\0';
	return true;
}

static bool
refuse(struct writer *w, const char *what)
{
	return sim_fail(w->req, w->res, 400, "0x80040203", "The query is not valid: %s", what);
}

static void
put_scalar(struct writer *w, const struct sim_json *json)
{
	if (json->type == SIM_JSON_TRUE)
		sim_puts(&w->xml, "1");
	else if (json->type == SIM_JSON_FALSE)
		sim_puts(&w->xml, "0");
	else
		sim_put_xml(&w->xml, json->s, json->len);
}

/* {"Value": …, "Type": "System.Guid"}, or the value itself */
static bool
put_value(struct writer *w, const struct sim_json *json)
{
	if (json->type == SIM_JSON_OBJECT)
		json = sim_json_member(json, "Value");
	if (json == NULL || json->type == SIM_JSON_NULL || json->type == SIM_JSON_ARRAY ||
		json->type == SIM_JSON_OBJECT)
		return refuse(w, "a condition's value must be a scalar.");
	sim_puts(&w->xml, "<value>");
	put_scalar(w, json);
	sim_puts(&w->xml, "</value>");
	return true;
}

static bool
is_string(const struct sim_json *json)
{
	return json != NULL && json->type == SIM_JSON_STRING && json->len > 0;
}

static bool
put_condition(struct writer *w, const struct sim_json *condition)
{
	const struct sim_json *attribute = sim_json_member(condition, "AttributeName");
	const struct sim_json *op = sim_json_member(condition, "Operator");
	const struct sim_json *values = sim_json_member(condition, "Values");
	const struct sim_json *value;
	char		name[64];

	if (!is_string(attribute) || !is_string(op) || !sim_query_operator(op->s, op->len, name))
		return refuse(w, "a condition needs AttributeName and Operator.");
	sim_puts(&w->xml, "<condition attribute=\"");
	sim_put_xml(&w->xml, attribute->s, attribute->len);
	sim_putf(&w->xml, "\" operator=\"%s\"", name);
	if (values != NULL && values->type == SIM_JSON_ARRAY && values->n == 1 &&
		strcmp(name, "in") != 0 && strcmp(name, "not-in") != 0)
	{
		value = values->child;
		if (value->type == SIM_JSON_OBJECT)
			value = sim_json_member(value, "Value");
		if (value == NULL || value->type == SIM_JSON_NULL || value->type == SIM_JSON_ARRAY ||
			value->type == SIM_JSON_OBJECT)
			return refuse(w, "a condition's value must be a scalar.");
		sim_puts(&w->xml, " value=\"");
		put_scalar(w, value);
		sim_puts(&w->xml, "\"/>");
		return true;
	}
	sim_putc(&w->xml, '>');
	if (values != NULL && values->type == SIM_JSON_ARRAY)
		for (value = values->child; value != NULL; value = value->next)
			if (!put_value(w, value))
				return false;
	sim_puts(&w->xml, "</condition>");
	return true;
}

static bool
put_filter(struct writer *w, const struct sim_json *filter)
{
	const struct sim_json *op = sim_json_member(filter, "FilterOperator");
	const struct sim_json *list;
	const struct sim_json *item;
	bool		any = false;

	if (op != NULL)
		any = (op->type == SIM_JSON_STRING && op->len == 2 && strncasecmp(op->s, "Or", 2) == 0) ||
			(op->type == SIM_JSON_NUMBER && op->len == 1 && op->s[0] == '1');
	sim_putf(&w->xml, "<filter type=\"%s\">", any ? "or" : "and");
	list = sim_json_member(filter, "Conditions");
	for (item = list != NULL ? list->child : NULL; item != NULL; item = item->next)
		if (!put_condition(w, item))
			return false;
	list = sim_json_member(filter, "Filters");
	for (item = list != NULL ? list->child : NULL; item != NULL; item = item->next)
		if (!put_filter(w, item))
			return false;
	sim_puts(&w->xml, "</filter>");
	return true;
}

static bool
has_content(const struct sim_json *filter)
{
	const struct sim_json *conditions = sim_json_member(filter, "Conditions");
	const struct sim_json *filters = sim_json_member(filter, "Filters");

	return (conditions != NULL && conditions->n > 0) || (filters != NULL && filters->n > 0);
}

static bool
put_query(struct writer *w, const struct sim_json *query, struct sim_table **table)
{
	const struct sim_json *name = sim_json_member(query, "EntityName");
	const struct sim_json *criteria = sim_json_member(query, "Criteria");
	const struct sim_json *links = sim_json_member(query, "LinkEntities");

	if (!is_string(name))
		return refuse(w, "EntityName is missing.");
	*table = sim_table_by_name(w->req->sim->schema, sim_strndup(w->req->arena, name->s, name->len));
	if (*table == NULL)
		return sim_fail(w->req, w->res, 400, "0x80041102", "The entity with a name = '%.*s' was "
						"not found in the MetadataCache.", (int) name->len, name->s);
	if (links != NULL && links->n > 0)
		return refuse(w, "LinkEntities are not supported.");
	sim_putf(&w->xml, "<fetch><entity name=\"%s\"><attribute name=\"%s\"/>", (*table)->name,
			 (*table)->id->name);
	if (criteria != NULL && has_content(criteria) && !put_filter(w, criteria))
		return false;
	sim_puts(&w->xml, "</entity></fetch>");
	return true;
}

const char *
sim_query_expression_xml(struct sim_req *req, struct sim_res *res, const struct sim_json *query,
						 struct sim_table **table)
{
	struct writer w = {.req = req, .res = res};
	const char *xml = NULL;

	if (query->type != SIM_JSON_OBJECT)
		refuse(&w, "QuerySet must hold QueryExpressions.");
	else if (put_query(&w, query, table))
		xml = sim_strdup(req->arena, w.xml.s);
	sim_buf_free(&w.xml);
	return xml;
}

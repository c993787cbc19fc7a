/*
 * functions.c
 *		Unbound functions: WhoAmI, RetrieveTotalRecordCount,
 *		RetrieveMetadataChanges and those that describe the organisation;
 *		and unbound actions.
 *
 * Parameters stand between the parentheses, either as literals or as aliases
 * ("@p1") whose values are query options.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include <expat.h>

#include "metadata/metadata.h"
#include "metadata/metadata_keys.h"
#include "write/row_write.h"
#include "wire/quirks.h"
#include "store/store.h"

#define VERSION "9.2.25093.00168"
#define MAX_PARAMETERS 4

struct function
{
	const char *name;
	bool		(*run) (struct sim_req *req, struct sim_res *res, const char *const *values);
	struct
	{
		const char *name;
		bool		required;
	}			parameters[MAX_PARAMETERS];
};

/* Opens the answer of a function: its @odata.context names the response type. */
static void
begin(struct sim_req *req, struct sim_res *res, const char *function)
{
	sim_json_answer(res, 200);
	sim_putf(&res->body, "{\"@odata.context\":\"%s" SIM_ROOT "$metadata#" SIM_NAMESPACE
			 "%sResponse\"", req->base_url, function);
}

static bool
bad_parameter(struct sim_req *req, struct sim_res *res)
{
	return sim_fail(req, res, 400, "0x80060888", "Request message has unresolved parameters");
}

/* ---------------------------------------------------------------- the functions */

static bool
who_am_i(struct sim_req *req, struct sim_res *res, const char *const *values)
{
	(void) values;
	begin(req, res, "WhoAmI");
	sim_putf(&res->body, ",\"BusinessUnitId\":\"%s\",\"UserId\":\"%s\",\"OrganizationId\":\"%s\"}",
			 req->sim->business_unit_id, req->user_id, req->sim->organization_id);
	return true;
}

static bool
retrieve_version(struct sim_req *req, struct sim_res *res, const char *const *values)
{
	(void) values;
	begin(req, res, "RetrieveVersion");
	sim_puts(&res->body, ",\"Version\":\"" VERSION "\"}");
	return true;
}

/* the language of the organisation, which is also the only one that is installed */
static bool
retrieve_languages(struct sim_req *req, struct sim_res *res, const char *function,
				   const char *member)
{
	begin(req, res, function);
	sim_putf(&res->body, ",\"%s\":[%d]}", member, SIM_LANGUAGE);
	return true;
}

static bool
retrieve_available_languages(struct sim_req *req, struct sim_res *res,
							 const char *const *values)
{
	(void) values;
	return retrieve_languages(req, res, "RetrieveAvailableLanguages", "LocaleIds");
}

static bool
retrieve_provisioned_languages(struct sim_req *req, struct sim_res *res,
							   const char *const *values)
{
	(void) values;
	return retrieve_languages(req, res, "RetrieveProvisionedLanguages",
							  "RetrieveProvisionedLanguages");
}

/* An enum: with or without its type in front of the quotes. */
static bool
known_access_type(const char *text)
{
	static const char *const known[] = {"'Default'", "'Internet'", "'Intranet'"};
	const char *type = SIM_NAMESPACE "EndpointAccessType";
	size_t		i;

	if (strncmp(text, type, strlen(type)) == 0)
		text += strlen(type);

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(text, known[i]) == 0)
			return true;
	return false;
}

static bool
retrieve_current_organization(struct sim_req *req, struct sim_res *res,
							  const char *const *values)
{
	const char *id = req->sim->organization_id;

	if (!known_access_type(values[0]))
		return bad_parameter(req, res);
	begin(req, res, "RetrieveCurrentOrganization");
	sim_putf(&res->body, ",\"Detail\":{\"OrganizationId\":\"%s\",\"FriendlyName\":\"dvsim\","
			 "\"OrganizationVersion\":\"" VERSION "\",\"EnvironmentId\":\"%s\","
			 "\"DatacenterId\":null,\"Geo\":\"EMEA\",\"TenantId\":null,\"UrlName\":\"dvsim\","
			 "\"UniqueName\":\"dvsim\",\"State\":\"Enabled\",\"SchemaType\":\"Standard\","
			 "\"OrganizationType\":\"CustomerTest\",\"Endpoints\":{\"Count\":1,"
			 "\"IsReadOnly\":false,\"Keys\":[\"WebApplication\"],\"Values\":[", id, id);
	sim_put_json(&res->body, req->base_url, strlen(req->base_url));
	sim_puts(&res->body, "]}}}");
	return true;
}

bool
sim_text_list(struct sim_arena *arena, const char *text, const char ***items, int *n)
{
	const char *p = text + strspn(text, " ");
	bool		more = true;

	*n = 0;
	*items = sim_alloc(arena, (strlen(text) / 2 + 1) * sizeof(**items));
	if (*p++ != '[')
		return false;
	p += strspn(p, " ");
	if (*p == ']')
		more = false;
	while (more)
	{
		char		quote = *p;
		const char *end;

		if (quote != '\'' && quote != '"')
			return false;
		end = strchr(p + 1, quote);
		if (end == NULL)
			return false;
		(*items)[(*n)++] = sim_strndup(arena, p + 1, (size_t) (end - p - 1));
		p = end + 1;
		p += strspn(p, " ");
		more = *p == ',';
		if (more)
			p += 1 + strspn(p + 1, " ");
	}
	if (*p++ != ']')
		return false;
	return p[strspn(p, " ")] == '\0';
}

/* The service's numbers are up to a day old; these are exact. */
static bool
retrieve_total_record_count(struct sim_req *req, struct sim_res *res, const char *const *values)
{
	struct sim_table **tables;
	const char **names;
	int			n;
	int			i;

	if (!sim_text_list(req->arena, values[0], &names, &n))
		return bad_parameter(req, res);
	if (sim_quirk(req->sim, SIM_QUIRK_FAILING_TOTAL_COUNT))
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	tables = sim_alloc(req->arena, sizeof(*tables) * (size_t) (n + 1));
	for (i = 0; i < n; i++)
	{
		tables[i] = sim_table_by_name(req->sim->schema, names[i]);
		if (tables[i] == NULL)
			return sim_fail(req, res, 400, "0x80041102",
							"The entity with a name = '%s' with namemapping = 'Logical' was not "
							"found in the MetadataCache.", names[i]);
	}
	begin(req, res, "RetrieveTotalRecordCount");
	sim_putf(&res->body, ",\"EntityRecordCountCollection\":{\"Count\":%d,\"IsReadOnly\":false,"
			 "\"Keys\":[", n);
	for (i = 0; i < n; i++)
		sim_putf(&res->body, "%s\"%s\"", i > 0 ? "," : "", tables[i]->name);
	sim_puts(&res->body, "],\"Values\":[");
	for (i = 0; i < n; i++)
	{
		if (i > 0)
			sim_putc(&res->body, ',');
		sim_put_i64(&res->body, sim_row_count(req->sim->store, tables[i]));
	}
	sim_puts(&res->body, "]}}");
	return true;
}

/* 'text' without its quotes */
static bool
unquote(struct sim_req *req, const char *text, const char **out)
{
	size_t		len = strlen(text);
	char	   *copy;
	size_t		n = 0;
	size_t		i;

	if (len < 2 || text[0] != '\'' || text[len - 1] != '\'')
		return false;
	copy = sim_alloc(req->arena, len);
	for (i = 1; i < len - 1; i++)
	{
		copy[n++] = text[i];

		if (text[i] == '\'' && text[i + 1] == '\'' && i + 1 < len - 1)
			i++;
	}
	*out = copy;
	return true;
}

static bool
retrieve_metadata_changes(struct sim_req *req, struct sim_res *res, const char *const *values)
{
	const char *stamp = NULL;

	res->kind = SIM_METADATA;
	if (values[1] && !unquote(req, values[1], &stamp))
		return bad_parameter(req, res);
	return sim_metadata_changes(req, res, values[0], stamp);
}

static const struct function functions[] = {
	{"WhoAmI", who_am_i, {{NULL, false}}},
	{"RetrieveVersion", retrieve_version, {{NULL, false}}},
	{"RetrieveAvailableLanguages", retrieve_available_languages, {{NULL, false}}},
	{"RetrieveProvisionedLanguages", retrieve_provisioned_languages, {{NULL, false}}},
	{"RetrieveCurrentOrganization", retrieve_current_organization, {{"AccessType", true}}},
	{"RetrieveTotalRecordCount", retrieve_total_record_count, {{"EntityNames", true}}},
	{"RetrieveMetadataChanges", retrieve_metadata_changes,
	{{"Query", false}, {"ClientVersionStamp", false}, {"DeletedMetadataFilters", false}}}
};

/* ---------------------------------------------------------------- parameters */

/* The next "name=value" up to a comma that is not inside of quotes or brackets. */
static char *
next_argument(char **text)
{
	char	   *start = *text;
	char	   *p;
	char		quote = '\0';
	int			depth = 0;

	if (start == NULL || *start == '\0')
		return NULL;
	for (p = start; *p && (*p != ',' || quote || depth > 0); p++)
	{
		if (quote)
			quote = *p == quote ? '\0' : quote;
		else if (*p == '\'' || *p == '"')
			quote = *p;
		else if (strchr("([{", *p))
			depth++;
		else if (strchr(")]}", *p))
			depth--;
	}
	*text = *p ? p + 1 : p;
	*p = '\0';
	return start;
}

/* An alias without a value and the literal null are the same. */
static const char *
argument_value(struct sim_req *req, const char *text)
{
	if (text[0] == '@')
		text = sim_param(req, text);
	return text && strcmp(text, "null") != 0 ? text : NULL;
}

static bool
read_arguments(struct sim_req *req, const struct function *function, char *args,
			   const char **values)
{
	char	   *argument;
	int			i;

	while ((argument = next_argument(&args)) != NULL)
	{
		char	   *equals = strchr(argument, '=');

		if (equals == NULL)
			return false;
		*equals = '\0';
		argument += strspn(argument, " ");
		for (i = 0; i < MAX_PARAMETERS; i++)
			if (function->parameters[i].name &&
				strcmp(function->parameters[i].name, argument) == 0)
				break;
		if (i == MAX_PARAMETERS)
			return false;
		values[i] = argument_value(req, equals + 1);
	}
	for (i = 0; i < MAX_PARAMETERS; i++)
		if (function->parameters[i].required && values[i] == NULL)
			return false;
	return true;
}

bool
sim_function(struct sim_req *req, struct sim_res *res, const char *name, const char *args)
{
	const char *values[MAX_PARAMETERS] = {NULL};
	char	   *text = sim_strdup(req->arena, args);
	size_t		i;

	res->kind = SIM_OTHER;
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (strcmp(functions[i].name, name) == 0)
			break;
	if (i == sizeof(functions) / sizeof(functions[0]) || strcmp(req->method, "GET") != 0)
		return sim_fail(req, res, 404, "0x80060888", "Resource not found for the segment '%s'.",
						name);
	if (!sim_url_decode(text, false) || !read_arguments(req, &functions[i], text, values))
		return bad_parameter(req, res);
	return functions[i].run(req, res, values);
}

/* -- the actions */

/* Definitions take effect at once, so nothing is left to publish. */
static bool
publish_all_xml(struct sim_req *req, struct sim_res *res)
{
	(void) req;
	res->status = 204;
	return true;
}

static bool
publish_xml(struct sim_req *req, struct sim_res *res)
{
	struct sim_json *body = sim_body_object(req, res, NULL);
	const struct sim_json *xml;
	XML_Parser	parser;
	bool		ok;

	if (body == NULL)
		return false;
	xml = sim_json_member(body, "ParameterXml");
	if (xml == NULL || xml->type != SIM_JSON_STRING)
		return sim_fail(req, res, 400, "0x80040203",
						"Required field 'ParameterXml' is missing for PublishXml.");
	parser = XML_ParserCreate("UTF-8");
	ok = parser != NULL && XML_Parse(parser, xml->s, (int) xml->len, 1) == XML_STATUS_OK;
	XML_ParserFree(parser);
	if (!ok)
		return sim_fail(req, res, 400, "0x80040203", "ParameterXml is not valid XML.");
	return publish_all_xml(req, res);
}

static const struct
{
	const char *name;
	bool		(*run) (struct sim_req *req, struct sim_res *res);
}			actions[] = {
	{"BulkDelete", sim_bulk_delete},
	{"PublishAllXml", publish_all_xml},
	{"PublishXml", publish_xml},
	{"ReactivateEntityKey", sim_key_reactivate}
};

bool
sim_action(struct sim_req *req, struct sim_res *res, const char *name)
{
	res->kind = SIM_OTHER;
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strcmp(actions[i].name, name) == 0)
			return actions[i].run(req, res);
	return sim_fail(req, res, 404, "0x80060888", "Resource not found for the segment '%s'.", name);
}

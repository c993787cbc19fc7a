/*
 * route.c
 *		From the path of a request to the handler that answers it.
 *
 * The first segment decides: a system resource, an entity set, or the name of
 * a function or an action.  A request of its own and a part of a $batch are
 * routed alike; only the permitted length of the URL differs.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <strings.h>

#include "store/drift.h"
#include "metadata/metadata_keys.h"
#include "wire/request.h"
#include "store/schema.h"

#define MAX_URL 32768
#define MAX_URL_IN_BATCH 65536
#define MAX_STEP_IDS 3

/* the path's first segment, and the rest */
struct segment
{
	char	   *name;			/* decoded */
	char	   *args;			/* between the parentheses, as written; NULL without them */
	const char *rest;
};

typedef bool (*system_handler) (struct sim_req *req, struct sim_res *res,
								const struct segment *segment, const char *key);

static bool
service_document(struct sim_req *req, struct sim_res *res, const struct segment *segment,
				 const char *key)
{
	(void) segment;
	(void) key;
	return sim_service_document(req, res);
}

static bool
csdl(struct sim_req *req, struct sim_res *res, const struct segment *segment, const char *key)
{
	(void) segment;
	(void) key;
	return sim_csdl(req, res);
}

static bool
batch(struct sim_req *req, struct sim_res *res, const struct segment *segment, const char *key)
{
	(void) segment;
	(void) key;
	if (req->in_batch)
		return sim_fail(req, res, 400, "0x80060888", "Nested batch requests are not supported.");
	return sim_batch(req, res);
}

static bool
metadata(struct sim_req *req, struct sim_res *res, const struct segment *segment, const char *key)
{
	return sim_metadata(req, res, segment->name, key, segment->rest);
}

static const struct
{
	const char *name;
	const char *method;			/* NULL: the handler knows */
	enum sim_kind kind;
	system_handler handler;
}			system_segments[] = {
	{"", "GET", SIM_METADATA, service_document},
	{"$metadata", "GET", SIM_METADATA, csdl},
	{"$batch", "POST", SIM_BATCH, batch},
	{"EntityDefinitions", NULL, SIM_METADATA, metadata},
	{"RelationshipDefinitions", "GET", SIM_METADATA, metadata},
	{"GlobalOptionSetDefinitions", "GET", SIM_METADATA, metadata},
	{"ManagedPropertyDefinitions", "GET", SIM_METADATA, metadata},
};

static bool
wrong_method(struct sim_req *req, struct sim_res *res)
{
	return sim_fail(req, res, 405, "0x80060888",
					"The requested resource does not support http method '%s'.", req->method);
}

static bool
unknown_segment(struct sim_req *req, struct sim_res *res, const char *name)
{
	return sim_fail(req, res, 404, "0x80060888", "Resource not found for the segment '%s'.", name);
}

/*
 * Returns the end of the first segment: the first slash outside parentheses,
 * as a key may contain one in quotes.  *open and *close get its parentheses.
 */
static const char *
segment_end(const char *s, const char **open, const char **close)
{
	bool		quoted = false;

	*open = *close = NULL;
	for (; *s; s++)
	{
		if (*open == NULL || *close != NULL)
		{
			if (*s == '/')
				break;
			if (*s == '(' && *open == NULL)
				*open = s;
		}
		else if (*s == '\'')
			quoted = !quoted;
		else if (strncmp(s, "%27", 3) == 0)
			quoted = !quoted;
		else if (*s == ')' && !quoted)
			*close = s;
	}
	return s;
}

static bool
split(struct sim_req *req, struct sim_res *res, struct segment *segment)
{
	const char *open;
	const char *close;
	const char *end = segment_end(req->path, &open, &close);
	size_t		len = (size_t) (end - req->path);

	if (open != NULL)
	{
		if (close == NULL || close + 1 != end)
			return sim_fail(req, res, 400, "0x80060888",
							"Bad Request - Error in query syntax.");
		segment->args = sim_strndup(req->arena, open + 1, (size_t) (close - open - 1));
		len = (size_t) (open - req->path);
	}
	segment->name = sim_strndup(req->arena, req->path, len);
	segment->rest = *end == '/' ? end + 1 : end;
	if (!sim_url_decode(segment->name, false))
		return sim_fail(req, res, 400, "0x80060888", "Bad Request - Error in query syntax.");
	return true;
}

static bool
table_request(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			  const struct segment *segment, const char *key)
{
	if (strcmp(req->method, "GET") == 0)
	{
		res->kind = SIM_READ;
		if (key != NULL)
			return sim_read_row(req, res, table, key, segment->rest);
		return sim_read_set(req, res, table, segment->rest);
	}
	return sim_write(req, res, table, key, segment->rest);
}

static bool
named_request(struct sim_req *req, struct sim_res *res, const struct segment *segment)
{
	if (segment->rest[0] != '\0')
		return unknown_segment(req, res, segment->name);
	if (strcmp(req->method, "GET") == 0)
		return sim_function(req, res, segment->name, segment->args ? segment->args : "");
	if (strcmp(req->method, "POST") == 0)
		return sim_action(req, res, segment->name);
	return unknown_segment(req, res, segment->name);
}

static bool
route(struct sim_req *req, struct sim_res *res)
{
	struct segment segment = {0};
	struct sim_table *table;
	char	   *key = NULL;

	if (!split(req, res, &segment))
		return false;
	if (segment.args != NULL)
	{
		key = sim_strdup(req->arena, segment.args);
		if (!sim_url_decode(key, false))
			return sim_fail(req, res, 400, "0x80060888", "Bad Request - Error in query syntax.");
	}
	for (size_t i = 0; i < sizeof(system_segments) / sizeof(system_segments[0]); i++)
	{
		if (strcmp(system_segments[i].name, segment.name) == 0)
		{
			res->kind = system_segments[i].kind;
			if (system_segments[i].method != NULL &&
				strcmp(system_segments[i].method, req->method) != 0)
				return wrong_method(req, res);
			return system_segments[i].handler(req, res, &segment, key);
		}
	}
	table = sim_table_by_set(req->sim->schema, segment.name, strlen(segment.name));
	if (table != NULL)
		return table_request(req, res, table, &segment, key);
	return named_request(req, res, &segment);
}

static bool
method_known(const char *method)
{
	static const char *const known[] = {"GET", "POST", "PATCH", "PUT", "DELETE"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		if (strcmp(known[i], method) == 0)
			return true;
	}
	return false;
}

static int
list_length(const char *list)
{
	int			n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

/*
 * checks headers that request something the service does not support; in a $batch each part has
 * its own
 */
static bool
check_headers(struct sim_req *req, struct sim_res *res)
{
	const char *encoding = sim_header(req, "Content-Encoding");
	const char *steps = sim_header(req, "MSCRM.BypassBusinessLogicExecutionStepIds");

	if (encoding != NULL && strcasecmp(encoding, "identity") != 0)
		return sim_fail(req, res, 415, "",
						"The request entity's content encoding '%s' is not supported.", encoding);
	if (steps != NULL && list_length(steps) > MAX_STEP_IDS)
		return sim_fail(req, res, 400, "0x80040203",
						"The number of step ids to bypass exceeds the limit of %d.",
						MAX_STEP_IDS);
	if (!sim_annotations_valid(req))
		return sim_fail(req, res, 400, "0x80097303",
						"The odata.include-annotations preference is malformed.");
	return true;
}

static bool
check_and_route(struct sim_req *req, struct sim_res *res)
{
	if (strlen(req->target) > (req->in_batch ? MAX_URL_IN_BATCH : MAX_URL))
		return sim_fail(req, res, 400, "0x80060888",
						"Invalid URI: The Uri string is too long.");
	if (!method_known(req->method))
		return wrong_method(req, res);
	if (!check_headers(req, res))
		return false;
	if (req->params.n == 0 && req->query != NULL &&
		!sim_query_parse(req->arena, req->query, &req->params))
		return sim_fail(req, res, 400, "0x80060888", "Bad Request - Error in query syntax.");
	return route(req, res);
}

/*
 * Preference-Applied.  A preference counts as honoured when the answer shows
 * it; handlers can ignore this, and one that sets it itself has priority.
 */
static void
applied(struct sim_req *req, struct sim_res *res, const char *name, bool quoted)
{
	const char *value = sim_prefer(req, name);

	if (value == NULL)
		return;
	if (quoted)
		value = sim_fmt(req->arena, "%s=\"%s\"", name, value);
	else if (value[0] != '\0')
		value = sim_fmt(req->arena, "%s=%s", name, value);
	else
		value = name;
	sim_res_header(req, res, "Preference-Applied", value);
}

static void
tell_applied(struct sim_req *req, struct sim_res *res)
{
	bool		reading = strcmp(req->method, "GET") == 0;
	const char *form = sim_prefer(req, "return");

	for (int i = 0; i < res->headers.n; i++)
	{
		if (strcmp(res->headers.items[i].name, "Preference-Applied") == 0)
			return;
	}
	if (res->kind == SIM_BATCH)
	{
		applied(req, res, "odata.continue-on-error", false);
		return;
	}
	if (res->status >= 300 || res->body.len == 0)
		return;
	applied(req, res, "odata.include-annotations", true);
	if (reading && res->kind == SIM_READ)
	{
		if (sim_prefer_int(req, "odata.maxpagesize") > 0)
			applied(req, res, "odata.maxpagesize", false);
		if (sim_prefer(req, "odata.track-changes") != NULL &&
			strstr(res->body.s, "@odata.deltaLink") != NULL)
			applied(req, res, "odata.track-changes", false);
	}
	if (!reading && form != NULL && strcmp(form, "representation") == 0)
		applied(req, res, "return", false);
}

void
sim_advance(struct sim *sim)
{
	sim_drift_collect(sim);
	sim_jobs_advance(sim);
	sim_keys_advance(sim);
}

void
sim_dispatch(struct sim_req *req, struct sim_res *res)
{
	if (!req->in_batch)
		sim_advance(req->sim);
	check_and_route(req, res);
	if (res->status == 0)
		sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	if (sim_header(req, "Prefer") != NULL)
		tell_applied(req, res);
}

/*
 * write.c
 *		POST, PATCH, PUT and DELETE on tables: creates, upserts, conditional
 *		updates, deletions.  Single properties, references and bulk messages
 *		are handled in their own files.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/guid.h"
#include "write/row_write.h"

#define NAMESPACE "Microsoft.Dynamics.CRM."
#define NAMESPACE_LEN (sizeof(NAMESPACE) - 1)

/* If-Match and If-None-Match, as far as they matter to writes */
struct condition
{
	bool		must_exist;		/* If-Match */
	bool		must_not_exist; /* If-None-Match: * */
	bool		versioned;		/* If-Match with an etag */
	int64_t		version;
};

bool
sim_wrong_method(struct sim_req *req, struct sim_res *res)
{
	return sim_fail(req, res, 405, "0x80060888",
					"The requested resource does not support http method '%s'.", req->method);
}

bool
sim_writable(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			 const char *method)
{
	if (table->type != SIM_INTERSECT && table->type != SIM_VIRTUAL_TABLE)
		return true;
	return sim_fail(req, res, 405, "0x80040800", "The '%s' method does not support entities of "
					"type '%s'. MessageProcessorCache returned MessageProcessor.Empty.", method,
					table->name);
}

/* W/"123"; anything else is a version that no row has */
static int64_t
parse_etag(const char *s)
{
	char	   *end;
	long long	version;

	if (strncmp(s, "W/", 2) == 0)
		s += 2;
	if (*s++ != '"')
		return -1;
	version = strtoll(s, &end, 10);
	return end > s && strcmp(end, "\"") == 0 ? version : -1;
}

static void
read_condition(struct sim_req *req, struct condition *c)
{
	const char *match = sim_header(req, "If-Match");
	const char *none = sim_header(req, "If-None-Match");

	memset(c, 0, sizeof(*c));
	if (match != NULL && *match != '\0' && strcasecmp(match, "null") != 0)
	{
		c->must_exist = true;
		c->versioned = strcmp(match, "*") != 0;
		if (c->versioned)
			c->version = parse_etag(match);
	}
	c->must_not_exist = none != NULL && strcmp(none, "*") == 0;
}

static bool
check_version(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			  const struct condition *c, int64_t version)
{
	if (!c->versioned)
		return true;
	if (!table->optimistic_concurrency)
		return sim_fail(req, res, 400, "0x8006088D", "Optimistic concurrency isn't enabled for "
						"entity type %s. The IfVersionMatches value of ConcurrencyBehavior can "
						"only be used if optimistic concurrency is enabled.", table->name);
	if (c->version == version)
		return true;
	return sim_fail(req, res, 412, "0x80060882", "The version of the existing record doesn't match "
					"the RowVersion property provided.");
}

static bool
wants_representation(const struct sim_req *req)
{
	const char *form = sim_prefer(req, "return");

	return form != NULL && strcmp(form, "representation") == 0;
}

/* a key that finds the row again */
static const char *
row_key(struct sim_req *req, struct sim_table *table, const struct sim_write_row *row)
{
	char		id[37] = "";
	struct sim_buf buf = {0};
	const char *key;
	size_t		i;

	sim_guid_print(row->id, id);
	if (table->partition == NULL || row->partition_len == 0)
		return sim_strdup(req->arena, id);
	sim_putf(&buf, "%s=%s,partitionid='", table->id->name, id);
	for (i = 0; i < row->partition_len; i++)
	{
		if (row->partition[i] == '\'')
			sim_putc(&buf, '\'');
		sim_putc(&buf, row->partition[i]);
	}
	sim_putc(&buf, '\'');
	key = sim_strdup(req->arena, buf.s);
	sim_buf_free(&buf);
	return key;
}

/* answers like a GET of the row, but without its conditions and $expand */
static bool
represent(struct sim_req *req, struct sim_res *res, struct sim_table *table,
		  const struct sim_write_row *row, int status)
{
	struct sim_req get = *req;
	enum sim_kind kind = res->kind;
	const char *select = sim_param(req, "$select");
	int			i;

	get.method = "GET";
	get.query = "";
	memset(&get.params, 0, sizeof(get.params));
	memset(&get.headers, 0, sizeof(get.headers));
	if (select != NULL)
		sim_pair_add(req->arena, &get.params, "$select", select);
	for (i = 0; i < req->headers.n; i++)
		if (strncasecmp(req->headers.items[i].name, "If-", 3) != 0)
			sim_pair_add(req->arena, &get.headers, req->headers.items[i].name,
						 req->headers.items[i].value);
	if (!sim_read_row(&get, res, table, row_key(req, table, row), ""))
		return false;
	res->status = status;
	res->kind = kind;
	return true;
}

static void
tell_entity(struct sim_req *req, struct sim_res *res, const char *segment)
{
	const char *url = sim_fmt(req->arena, "%s" SIM_ROOT "%s", req->base_url, segment);

	if (req->in_batch)
		sim_res_header(req, res, "Location", url);
	sim_res_header(req, res, "OData-EntityId", url);
}

/* the end of a create or update: returns the row itself or its address */
static bool
written(struct sim_req *req, struct sim_res *res, struct sim_table *table,
		const struct sim_write_row *row, bool created)
{
	char		id[37] = "";
	const char *segment;

	sim_guid_print(row->id, id);
	res->entity = sim_fmt(req->arena, "%s(%s)", table->set_name, row_key(req, table, row));
	if (wants_representation(req) && created && req->sim->canned != NULL)
		return sim_fail(req, res, 501, "0x8006088a", "dvsim --canned keeps no row to return.");
	if (wants_representation(req))
		return represent(req, res, table, row, created ? 201 : 200);
	segment = sim_fmt(req->arena, "%s(%s)", table->set_name, id);
	if (strcmp(req->method, "POST") != 0)
		segment = sim_strndup(req->arena, req->path, strcspn(req->path, "?"));
	tell_entity(req, res, segment);
	res->status = 204;
	return true;
}

/* ends the transaction according to the outcome */
static bool
finish(struct sim_req *req, struct sim_res *res, bool ok)
{
	if (ok && sim_commit(req->sim->store))
	{
		res->rows = 1;
		return true;
	}
	if (ok)
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	sim_rollback(req->sim->store);
	return false;
}

static bool
create(struct sim_req *req, struct sim_res *res, struct sim_table *table)
{
	struct sim_write_row row = {0};
	struct sim_json *object;

	res->kind = SIM_CREATE;
	if (!sim_writable(req, res, table, "Create"))
		return false;
	object = sim_body_object(req, res, table);
	if (object == NULL)
		return false;
	if (!sim_begin(req->sim->store))
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	return finish(req, res, sim_create_row(req, res, table, object, NULL, &row) &&
				  written(req, res, table, &row, true));
}

/* inserts, replaces or updates the row of a key that was looked up */
static bool
write_found(struct sim_req *req, struct sim_res *res, struct sim_key *key,
			struct sim_json *object, enum sim_write_mode mode, struct sim_write_row *row)
{
	struct sim_writer w;
	enum sim_found found;
	bool		ok;

	sim_writer_start(&w, req, res, key->table, mode);
	row->key = key;
	ok = sim_writer_decode(&w, object, row);
	if (ok && mode != SIM_WRITE_UPDATE)
		ok = sim_writer_insert(&w, object, row);
	else if (ok)
	{
		found = sim_writer_update(&w, row);
		ok = found == SIM_FOUND || (found == SIM_MISSING && sim_row_missing(req, res, key));
	}
	sim_writer_end(&w);
	return ok;
}

/* an elastic row may be identified by the partition in the body */
static void
partition_from_body(struct sim_key *key, struct sim_json *object)
{
	struct sim_json *partition;

	if (key->table->partition == NULL || key->partition != NULL)
		return;
	partition = sim_json_member(object, "partitionid");
	if (partition != NULL && partition->type == SIM_JSON_STRING)
	{
		key->partition = partition->s;
		key->partition_len = partition->len;
	}
}

static bool
patch_found(struct sim_req *req, struct sim_res *res, struct sim_key *key,
			struct sim_json *object, const struct condition *c)
{
	struct sim_write_row row = {0};
	enum sim_write_mode mode = SIM_WRITE_UPDATE;
	int64_t		version = 0;
	enum sim_found found = sim_row_find(req, res, key, row.id, &version);

	if (found == SIM_ERROR)
		return false;
	if (found == SIM_FOUND)
	{
		if (c->must_not_exist)
			return sim_fail(req, res, 412, "0x80040237",
							"A record with matching key values already exists.");
		if (!check_version(req, res, key->table, c, version))
			return false;
		row.has_id = true;
		if (key->table->type == SIM_ELASTIC && !c->must_exist)
			mode = SIM_WRITE_REPLACE;
	}
	else
	{
		if (c->must_exist)
			return sim_row_missing(req, res, key);
		mode = key->table->type == SIM_ELASTIC ? SIM_WRITE_REPLACE : SIM_WRITE_INSERT;
	}
	return write_found(req, res, key, object, mode, &row) &&
		written(req, res, key->table, &row, found == SIM_MISSING);
}

static bool
patch(struct sim_req *req, struct sim_res *res, struct sim_key *key)
{
	struct condition c;
	struct sim_json *object;

	read_condition(req, &c);
	res->kind = c.must_exist ? SIM_UPDATE : c.must_not_exist ? SIM_CREATE : SIM_UPSERT;
	if (!sim_writable(req, res, key->table, "Update"))
		return false;
	object = sim_body_object(req, res, key->table);
	if (object == NULL)
		return false;
	if (key->by_id && sim_key_repeated(key, object))
		return sim_fail(req, res, 400, "0x80040216", "An unexpected error occurred.");
	partition_from_body(key, object);
	if (!sim_begin(req->sim->store))
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	return finish(req, res, patch_found(req, res, key, object, &c));
}

static bool
delete_found(struct sim_req *req, struct sim_res *res, struct sim_key *key)
{
	struct condition c;
	unsigned char id[16];
	int64_t		version = 0;

	read_condition(req, &c);
	switch (sim_row_find(req, res, key, id, &version))
	{
		case SIM_ERROR:
			return false;
		case SIM_MISSING:
			return sim_row_missing(req, res, key);
		default:
			break;
	}
	if (!check_version(req, res, key->table, &c, version))
		return false;
	res->status = 204;
	return sim_delete_row(req, res, key->table, id, key->partition, key->partition_len);
}

static bool
delete_one(struct sim_req *req, struct sim_res *res, struct sim_key *key)
{
	res->kind = SIM_DELETE;
	if (!sim_writable(req, res, key->table, "Delete"))
		return false;
	if (!sim_begin(req->sim->store))
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	return finish(req, res, delete_found(req, res, key));
}

static bool
ends_with_ref(const char *rest)
{
	size_t		len = strlen(rest);

	return len >= 5 && strcmp(rest + len - 5, "/$ref") == 0;
}

/* POST to a collection of a row: a new row that refers to it */
static bool
create_related(struct sim_req *req, struct sim_res *res, struct sim_key *key, struct sim_relationship *rel)
{
	struct sim_write_row row = {0};
	struct sim_json *object;
	unsigned char id[16];
	int64_t		version;
	enum sim_found found;

	res->kind = SIM_CREATE;
	if (!sim_writable(req, res, rel->referencing, "Create"))
		return false;
	object = sim_body_object(req, res, rel->referencing);
	if (object == NULL)
		return false;
	if (!sim_begin(req->sim->store))
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	found = sim_row_find(req, res, key, id, &version);
	if (found != SIM_FOUND)
		return finish(req, res, found == SIM_MISSING && sim_row_missing(req, res, key));
	sim_bind_parent(req, rel, id, object);
	return finish(req, res, sim_create_row(req, res, rel->referencing, object, NULL, &row) &&
				  written(req, res, rel->referencing, &row, true));
}

static bool
write_row(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *text,
		  char *rest)
{
	struct sim_relationship *rel;
	struct sim_key key;

	if (!sim_key_parse(req, res, table, text, &key))
		return false;
	if (*rest != '\0')
	{
		if (ends_with_ref(rest))
			return sim_associate(req, res, table, &key, rest);
		rel = sim_collection_by_name(table, rest, strlen(rest));
		if (rel != NULL && strcmp(req->method, "POST") == 0)
			return create_related(req, res, &key, rel);
		return sim_write_property(req, res, table, &key, rest);
	}
	if (strcmp(req->method, "PATCH") == 0)
		return patch(req, res, &key);
	if (strcmp(req->method, "DELETE") == 0)
		return delete_one(req, res, &key);
	return sim_wrong_method(req, res);
}

static bool
write_set(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *rest)
{
	if (*rest == '\0')
	{
		if (strcmp(req->method, "POST") == 0)
			return create(req, res, table);
		return sim_wrong_method(req, res);
	}
	if (strncmp(rest, NAMESPACE, NAMESPACE_LEN) == 0)
	{
		if (strcmp(req->method, "POST") == 0)
			return sim_bulk(req, res, table, rest + NAMESPACE_LEN);
		return sim_wrong_method(req, res);
	}
	if (strcmp(req->method, "POST") == 0 && strchr(rest, '/') == NULL)
		return sim_fail(req, res, 400, "0x80060888", "Request message has unresolved parameters.");
	return sim_fail(req, res, 404, "0x80060888", "Resource not found for the segment '%s'.", rest);
}

bool
sim_write(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *key,
		  const char *rest)
{
	char	   *decoded = sim_strdup(req->arena, rest);

	if (!sim_url_decode(decoded, false))
		return sim_fail(req, res, 400, "0x80060888", "Bad Request - Error in query syntax.");
	if (key == NULL)
		return write_set(req, res, table, decoded);
	return write_row(req, res, table, key, decoded);
}

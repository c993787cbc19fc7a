/*
 * bulk.c
 *		CreateMultiple, UpdateMultiple, UpsertMultiple and DeleteMultiple.
 *
 * On standard tables a request is one transaction and one error.  On elastic
 * tables, every target is independent: a request with failures is refused as a
 * whole by its status, but successful targets stay, and the details (if the
 * client requests annotations) have the outcome of each.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "store/guid.h"
#include "wire/quirks.h"
#include "write/row_write.h"

/* rows seen in Targets: 16 bytes each, open addressing */
struct seen
{
	unsigned char (*ids)[16];
	bool	   *used;
	uint32_t	mask;
};

struct bulk
{
	struct sim_req *req;
	struct sim_res *res;		/* of the request, or of the target (elastic) */
	struct sim_table *table;
	struct sim_writer writer;	/* creates, or updates */
	struct sim_writer inserter; /* upserts: the rows that are new */
	struct seen seen;
	struct sim_buf ids;			/* of CreateMultiple's answer */
};

/* the outcome of one target: its id and Cosmos DB's status */
struct outcome
{
	unsigned char id[16];
	int			status;
};

struct message
{
	const char *name;
	enum sim_kind kind;
	enum sim_write_mode mode;
	bool		(*target) (struct bulk *b, struct sim_json *json, struct outcome *out);
};

static void
seen_start(struct bulk *b, int n)
{
	uint32_t	size = 16;

	while (size < (uint32_t) n * 2)
		size *= 2;
	b->seen.ids = sim_alloc(b->req->arena, (size_t) size * 16);
	b->seen.used = sim_alloc(b->req->arena, size);
	b->seen.mask = size - 1;
}

/* elastic rows are also identified by their partition, so it is folded into the id */
static bool
seen_before(struct bulk *b, const unsigned char id[16], const char *partition, size_t len)
{
	unsigned char key[16];
	uint64_t	words[2];
	uint64_t	h = 14695981039346656037ULL;
	size_t		i;
	uint32_t	at;

	for (i = 0; i < len; i++)
		h = (h ^ (unsigned char) partition[i]) * 1099511628211ULL;
	memcpy(words, id, 16);
	if (len > 0)
		words[0] ^= h;
	memcpy(key, words, 16);
	h = (words[0] ^ (words[1] * 0x9e3779b97f4a7c15ULL)) * 0xbf58476d1ce4e5b9ULL;
	for (at = (uint32_t) (h >> 32) & b->seen.mask; b->seen.used[at]; at = (at + 1) & b->seen.mask)
		if (memcmp(b->seen.ids[at], key, 16) == 0)
			return true;
	b->seen.used[at] = true;
	memcpy(b->seen.ids[at], key, 16);
	return false;
}

static bool
untyped(struct bulk *b)
{
	return sim_payload_fail(b->req, b->res, b->table, "Microsoft.OData.ODataException: Cannot "
							"instantiate abstract resource type 'Microsoft.Dynamics.CRM."
							"crmbaseentity'. The annotation '@odata.type' is missing.");
}

static bool
no_identity(struct bulk *b)
{
	return sim_fail(b->req, b->res, 400, "0x80040203",
					"Entity Id must be specified for every target of table %s.", b->table->name);
}

/*
 * a row that is new, or of an elastic table, cannot repeat columns of its @odata.id in the body
 */
static bool
repeats_key(struct bulk *b, const struct sim_key *key, struct sim_json *json)
{
	if (sim_json_member(json, "@odata.id") == NULL || !sim_key_repeated(key, json))
		return false;
	sim_fail(b->req, b->res, 400, "0x80040216", "An unexpected error occurred.");
	return true;
}

static void
put_id(struct bulk *b, const unsigned char id[16])
{
	char		text[40];

	text[0] = b->ids.len > 0 ? ',' : '[';
	text[1] = '"';

	sim_guid_print(id, text + 2);
	text[38] = '"';

	sim_put(&b->ids, text, 39);
}

static bool
create_target(struct bulk *b, struct sim_json *json, struct outcome *out)
{
	struct sim_write_row row = {0};

	if (!sim_writer_decode(&b->writer, json, &row))
		return false;
	if (!row.typed)
		return untyped(b);
	if (!sim_writer_insert(&b->writer, json, &row))
		return false;
	memcpy(out->id, row.id, 16);
	put_id(b, row.id);
	out->status = 201;
	return true;
}

static bool
missing_target(struct bulk *b, const struct sim_key *key)
{
	char		id[37] = "";

	sim_guid_print(key->id, id);
	return sim_fail(b->req, b->res, 404, "0x80040217", "%s With Ids = %s Do Not Exist",
					b->table->schema_name, id);
}

static bool
update_target(struct bulk *b, struct sim_json *json, struct outcome *out)
{
	struct sim_write_row row = {0};
	struct sim_key key;
	bool		found;

	if (!sim_target_identity(b->req, b->res, b->table, json, &key, &found))
		return false;
	if (!found || !key.by_id)
		return no_identity(b);
	if (repeats_key(b, &key, json))
		return false;
	memcpy(out->id, key.id, 16);
	if (seen_before(b, key.id, key.partition, key.partition_len))
		return true;
	row.key = &key;
	if (!sim_writer_decode(&b->writer, json, &row))
		return false;
	if (!row.typed)
		return untyped(b);
	switch (sim_writer_update(&b->writer, &row))
	{
		case SIM_MISSING:
			return missing_target(b, &key);
		case SIM_ERROR:
			return false;
		default:
			out->status = 200;
			return true;
	}
}

/* finds the row.  Elastic upserts replace it in either case. */
static enum sim_found
find_target(struct bulk *b, struct sim_key *key, struct sim_write_row *row)
{
	int64_t		version;

	if (key->table->type == SIM_ELASTIC && key->by_id)
		return SIM_MISSING;
	return sim_row_find(b->req, b->res, key, row->id, &version);
}

/* the same row twice in one request is refused */
static bool
first_time(struct bulk *b, const struct sim_key *key, struct outcome *out)
{
	memcpy(out->id, key->id, 16);
	return !seen_before(b, key->id, key->partition, key->partition_len) ||
		sim_fail(b->req, b->res, 412, "0x80040237", "Cannot insert duplicate key");
}

static bool
upsert_target(struct bulk *b, struct sim_json *json, struct outcome *out)
{
	struct sim_write_row row = {0};
	struct sim_writer *w = &b->inserter;
	enum sim_found there = SIM_MISSING;
	struct sim_key key;
	bool		found;
	bool		ok;

	if (!sim_target_identity(b->req, b->res, b->table, json, &key, &found))
		return false;
	if (found)
	{
		row.key = &key;
		if (key.by_id && !first_time(b, &key, out))
			return false;
		there = find_target(b, &key, &row);
	}
	if (there == SIM_ERROR || (found && there == SIM_MISSING && repeats_key(b, &key, json)))
		return false;
	if (there == SIM_FOUND)
		w = &b->writer;
	row.has_id = there == SIM_FOUND;
	if (!sim_writer_decode(w, json, &row))
		return false;
	if (!row.typed)
		return untyped(b);
	if (there == SIM_FOUND)
		ok = sim_writer_update(w, &row) == SIM_FOUND;
	else
		ok = sim_writer_insert(w, json, &row);
	if (!ok)
		return false;
	memcpy(out->id, row.id, 16);
	if (!found || !key.by_id)
	{
		memcpy(key.id, row.id, 16);
		key.partition_len = 0;
		if (!first_time(b, &key, out))
			return false;
	}
	out->status = there == SIM_FOUND ? 200 : 201;
	return true;
}

static bool
delete_target(struct bulk *b, struct sim_json *json, struct outcome *out)
{
	struct sim_key key;
	unsigned char id[16];
	int64_t		version;
	bool		found;

	if (sim_json_member(json, "@odata.type") == NULL)
		return untyped(b);
	if (!sim_target_identity(b->req, b->res, b->table, json, &key, &found))
		return false;
	if (!found)
		return no_identity(b);
	memcpy(out->id, key.id, 16);
	switch (sim_row_find(b->req, b->res, &key, id, &version))
	{
		case SIM_ERROR:
			return false;
		case SIM_MISSING:
			return sim_row_missing(b->req, b->res, &key);
		default:
			out->status = 204;
			return sim_delete_row(b->req, b->res, b->table, id, key.partition, key.partition_len);
	}
}

static const struct message messages[] = {
	{"CreateMultiple", SIM_CREATE, SIM_WRITE_INSERT, create_target},
	{"UpdateMultiple", SIM_UPDATE, SIM_WRITE_UPDATE, update_target},
	{"UpsertMultiple", SIM_UPSERT, SIM_WRITE_UPDATE, upsert_target},
	{"DeleteMultiple", SIM_DELETE, SIM_WRITE_UPDATE, delete_target},
};

static const struct message *
find_message(const char *name)
{
	size_t		i;

	for (i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
		if (strcmp(messages[i].name, name) == 0)
			return &messages[i];
	return NULL;
}

/* "team" refuses a message that it does not have with other words than "queue" */
static bool
refuse_message(struct bulk *b, const char *message)
{
	switch (b->table->bulk_refusal)
	{
		case SIM_BULK_NOT_ENABLED:
			return sim_fail(b->req, b->res, 400, "0x80040216", "%s is not enabled on the entity %s",
							message, b->table->name);
		case SIM_BULK_NOT_SUPPORTED:
			return sim_fail(b->req, b->res, 405, "0x80040800", "The '%s' method does not support "
							"entities of type '%s'. MessageProcessorCache returned "
							"MessageProcessor.Empty. ", message, b->table->name);
		case SIM_BULK_NOT_FOUND:
			return sim_fail(b->req, b->res, 404, "", "No HTTP resource was found that matches the "
							"request URI '%s%s'.", b->req->base_url, b->req->target);
		default:
			return sim_fail(b->req, b->res, 404, "0x80060888", "Resource not found for the "
							"segment 'Microsoft.Dynamics.CRM.%s'.", message);
	}
}

static bool
check_available(struct bulk *b, const struct message *message)
{
	const struct sim_table *t = b->table;
	bool		there = false;

	if (sim_quirk(b->req->sim, SIM_QUIRK_BULK_DISABLED))
		return sim_fail(b->req, b->res, 400, "0x80048d2d",
						"%s API is disabled for Organization with ID %s.", message->name,
						b->req->sim->organization_id);
	switch (message->kind)
	{
		case SIM_CREATE:
			there = t->create_multiple;
			break;
		case SIM_UPDATE:
			there = t->update_multiple;
			break;
		case SIM_UPSERT:
			there = t->create_multiple && t->update_multiple;
			break;
		default:
			if (!t->delete_multiple)
				return sim_fail(b->req, b->res, 400, "0x80040216",
								"DeleteMultiple has not yet been implemented.");
			there = true;
			break;
	}
	return there || refuse_message(b, message->name);
}

/* returns the array, after checking the rest of the body; NULL after a failure */
static struct sim_json *
find_targets(struct bulk *b, const struct message *message)
{
	struct sim_json *body = sim_body_object(b->req, b->res, b->table);
	struct sim_json *targets = NULL;
	struct sim_json *m;

	if (body == NULL)
		return NULL;
	for (m = body->child; m != NULL; m = m->next)
	{
		if (m->keylen == 7 && memcmp(m->key, "Targets", 7) == 0)
			targets = m;
		else if (m->keylen == 0 || m->key[0] != '@')
		{
			sim_payload_fail(b->req, b->res, b->table, "Microsoft.OData.ODataException: The "
							 "parameter '%.*s' in the request payload is not a valid parameter for "
							 "the operation '%s'.", (int) m->keylen, m->key, message->name);
			return NULL;
		}
	}
	if (targets == NULL || targets->type != SIM_JSON_ARRAY || targets->n == 0)
	{
		sim_fail(b->req, b->res, 400, "0x80040203",
				 "The parameter Targets of %s must be a collection of at least one row.",
				 message->name);
		return NULL;
	}
	for (m = targets->child; m != NULL; m = m->next)
		if (m->type != SIM_JSON_OBJECT)
		{
			sim_payload_fail(b->req, b->res, b->table, "Microsoft.OData.ODataException: An "
							 "unexpected node was found when reading from the JSON reader. A "
							 "'StartObject' node was expected.");
			return NULL;
		}
	return targets;
}

/* all or nothing */
static bool
run_standard(struct bulk *b, const struct message *message, struct sim_json *targets)
{
	struct sim_json *json;

	for (json = targets->child; json != NULL; json = json->next)
	{
		struct outcome out = {0};

		if (!message->target(b, json, &out))
		{
			b->res->rows = 0;
			return false;
		}
		b->res->rows += out.status != 0;
	}
	return true;
}

/* Cosmos DB has a status of its own for existing rows */
static int
cosmos_status(const struct sim_res *res)
{
	return res->status == 412 ? 409 : res->status;
}

static void
put_detail(struct sim_buf *details, int index, const struct outcome *out, int status)
{
	char		id[37] = "";

	sim_guid_print(out->id, id);
	sim_putf(details, "%s{\"RequestIndex\":%d,\"Id\":\"%s\",\"StatusCode\":%d}",
			 index > 0 ? "," : "[", index, id, status);
}

static bool
refuse_partly(struct bulk *b, struct sim_buf *json, const char *first)
{
	struct sim_pairs details = {0};

	sim_putc(json, ']');
	sim_fail(b->req, b->res, 400, "0x80048d0b", "%s", first);
	sim_pair_add(b->req->arena, &details, "Plugin.BulkApiErrorDetails", json->s);
	sim_error_body(b->req, b->res, &details);
	return false;
}

/* notes the id in a target, for the details should it be refused */
static void
note_id(struct bulk *b, struct sim_json *json, struct outcome *out)
{
	struct sim_json *id = sim_json_member(json, b->table->id->name);

	if (id == NULL || id->type != SIM_JSON_STRING || !sim_guid_parse(id->s, id->len, out->id))
		memset(out->id, 0, sizeof(out->id));
}

/* each target independently; true if all succeeded */
static bool
run_elastic(struct bulk *b, const struct message *message, struct sim_json *targets)
{
	struct sim_res *outer = b->res;
	struct sim_buf details = {0};
	const char *first = NULL;
	struct sim_json *json;
	int			index = 0;
	bool		ok;

	for (json = targets->child; json != NULL; json = json->next, index++)
	{
		struct sim_res res = {0};
		struct outcome out = {0};

		note_id(b, json, &out);
		b->res = b->writer.res = b->inserter.res = &res;
		ok = message->target(b, json, &out);
		if (!ok)
			out.status = cosmos_status(&res);
		put_detail(&details, index, &out, out.status != 0 ? out.status : 200);
		if (ok)
			outer->rows += out.status != 0;
		else if (first == NULL)
			first = res.error_message;
		outer->session_token |= res.session_token;
		sim_buf_free(&res.body);
	}
	b->res = b->writer.res = b->inserter.res = outer;
	ok = first == NULL || refuse_partly(b, &details, first);
	sim_buf_free(&details);
	return ok;
}

static void
answer(struct bulk *b, const struct message *message)
{
	struct sim_buf *body = &b->res->body;

	if (message->kind != SIM_CREATE)
	{
		b->res->status = 204;
		return;
	}
	sim_json_answer(b->res, 200);
	sim_buf_reserve(body, b->ids.len + 256);
	sim_puts(body, "{\"@odata.context\":\"");
	sim_puts(body, b->req->base_url);
	sim_puts(body, SIM_ROOT "$metadata#Microsoft.Dynamics.CRM.CreateMultipleResponse\",\"Ids\":");
	sim_put(body, b->ids.s, b->ids.len);
	sim_puts(body, "]}");
}

static bool
run(struct bulk *b, const struct message *message, struct sim_json *targets)
{
	struct sim_store *store = b->req->sim->store;
	bool		elastic = b->table->type == SIM_ELASTIC;
	bool		ok;

	if (!sim_begin(store))
		return sim_fail(b->req, b->res, 500, "0x80040216", "An unexpected error occurred.");
	sim_writer_start(&b->writer, b->req, b->res, b->table, message->mode);
	sim_writer_start(&b->inserter, b->req, b->res, b->table,
					 elastic ? SIM_WRITE_REPLACE : SIM_WRITE_INSERT);
	b->writer.bulk = b->inserter.bulk = true;
	ok = elastic ? run_elastic(b, message, targets) : run_standard(b, message, targets);
	sim_writer_end(&b->writer);
	sim_writer_end(&b->inserter);
	if (!ok && !elastic)
		sim_rollback(store);
	else if (!sim_commit(store))
		return sim_fail(b->req, b->res, 500, "0x80040216", "An unexpected error occurred.");
	return ok;
}

bool
sim_bulk(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *name)
{
	struct bulk b = {.req = req, .res = res, .table = table};
	const struct message *message = find_message(name);
	struct sim_json *targets;
	bool		ok;

	if (message == NULL)
		return sim_fail(req, res, 404, "0x80060888", "Resource not found for the segment "
						"'Microsoft.Dynamics.CRM.%s'.", name);
	res->kind = message->kind;
	if (!check_available(&b, message))
		return false;
	targets = find_targets(&b, message);
	if (targets == NULL)
		return false;
	seen_start(&b, targets->n);
	ok = run(&b, message, targets);
	if (ok)
		answer(&b, message);
	sim_buf_free(&b.ids);
	return ok;
}

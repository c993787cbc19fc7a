/*
 * batch.c
 *		Batches: the rows of one request on their way to the service.
 *
 * Everything that is the same for all rows is prepared when a batch is
 * created, so that each row costs only a few copies.  The body of the bulk
 * message grows row by row and only needs to be closed; a $batch is written
 * from the same bytes when it is needed, which is rare except for deletes.
 *
 * Invariants: the object of a row is bytes[at, at + len).  A comma or the
 * closing brace follows its first "head" bytes.  JSON strings contain no line
 * ends, so no row can contain a line that looks like a delimiter.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "dataverse/address.h"
#include "dataverse/batch.h"
#include "dataverse/header.h"

#define BOUNDARY "batch_dataverse_fdw"
#define CHANGESET "changeset_dataverse_fdw"

static const char bulk_begin[] = "{\"Targets\":[";
static const char bulk_end[] = "]}";

static char *
make_bulk_path(const dv_batch *batch)
{
	const dv_operation_rule *rule = dv_operation_rule_of(batch->operation);
	const dv_destination *destination = batch->destination;

	if (rule->message == NULL || (rule->elastic_only && destination->type != DV_TABLE_ELASTIC))
		return NULL;
	/* bulk messages do not support versions */
	if (destination->match_version)
		return NULL;
	return psprintf("%s/Microsoft.Dynamics.CRM.%s%s%s", destination->entity_set, rule->message,
					destination->tag != NULL ? "?tag=" : "",
					destination->tag != NULL ? destination->tag : "");
}

dv_batch *
dv_batch_create(dv_operation operation, const dv_destination *destination, int room)
{
	dv_batch   *batch = palloc0(sizeof(*batch));

	batch->operation = operation;
	batch->destination = destination;
	batch->room = Max(room, 1);
	batch->rows = palloc(batch->room * sizeof(dv_batch_row));
	initStringInfo(&batch->bytes);
	initStringInfo(&batch->extra);
	batch->head = psprintf("{\"@odata.type\":\"Microsoft.Dynamics.CRM.%s\",\"%s\":\"",
						   destination->table, destination->primary_id);
	batch->head_len = strlen(batch->head);
	batch->type_len = batch->head_len - strlen(destination->primary_id) - strlen(",\"\":\"");
	batch->bulk_path = make_bulk_path(batch);
	appendBinaryStringInfo(&batch->bytes, bulk_begin, sizeof(bulk_begin) - 1);
	return batch;
}

static void
append_text(StringInfo out, const char *text, size_t len)
{
	size_t		extra = dv_payload_extra(text, len);

	enlargeStringInfo(out, len + extra);
	out->len = dv_payload_text(out->data + out->len, text, len, extra) - out->data;
}

/* Adds a row that has no bytes yet. */
static dv_batch_row *
add_row(dv_batch *batch)
{
	dv_batch_row *row;

	if (batch->nrows == batch->room)
	{
		batch->room *= 2;
		batch->rows = repalloc(batch->rows, batch->room * sizeof(dv_batch_row));
	}
	if (batch->nrows > 0)
		appendStringInfoCharMacro(&batch->bytes, ',');
	batch->extra_mark = batch->extra.len;
	row = &batch->rows[batch->nrows++];
	memset(row, 0, sizeof(*row));
	row->at = batch->bytes.len;
	return row;
}

static void
set_address(dv_batch *batch, dv_batch_row *row, const char *address, size_t len)
{
	row->address_at = batch->extra.len;
	row->address_len = len;
	appendBinaryStringInfo(&batch->extra, address, len);
}

/* Returns true if the row is addressed by its key rather than by an id. */
static bool
is_at_key(const dv_batch_row *row)
{
	return row->by_key && !row->has_id;
}

static void
append_odata_id(StringInfo out, const char *address, size_t len)
{
	appendStringInfoString(out, ",\"@odata.id\":\"");
	append_text(out, address, len);
	appendStringInfoCharMacro(out, '"');
}

static void
append_head(dv_batch *batch, dv_batch_row *row)
{
	StringInfo	out = &batch->bytes;

	if (row->has_id)
	{
		enlargeStringInfo(out, batch->head_len + DV_PAYLOAD_UUID + 1);
		memcpy(out->data + out->len, batch->head, batch->head_len);
		out->len += batch->head_len;
		(void) dv_payload_uuid(out->data + out->len, row->id);
		out->len += DV_PAYLOAD_UUID;
		out->data[out->len++] = '"';
		out->data[out->len] = '\0';
	}
	else
		appendBinaryStringInfo(out, batch->head, batch->type_len);
	if (is_at_key(row))
		append_odata_id(out, batch->extra.data + row->address_at, row->address_len);
	row->head = dv_operation_rule_of(batch->operation)->at_set ? batch->type_len : out->len - row->at;
}

static dv_batch_row *
begin_row(dv_batch *batch, const uint8 *id, const char *address, size_t address_len)
{
	dv_batch_row *row = add_row(batch);

	if (id != NULL)
	{
		row->has_id = true;
		memcpy(row->id, id, DV_ID_LEN);
	}
	if (address_len > 0)
		set_address(batch, row, address, address_len);
	append_head(batch, row);
	return row;
}

dv_batch_row *
dv_batch_begin_row(dv_batch *batch, const uint8 *id, const char *address)
{
	return begin_row(batch, id, address, address != NULL ? strlen(address) : 0);
}

static void
set_key_members(dv_batch *batch, dv_batch_row *row, const char *members, size_t len)
{
	row->key_at = batch->extra.len;
	row->key_len = len;
	appendBinaryStringInfo(&batch->extra, members, len);
}

dv_batch_row *
dv_batch_begin_keyed_row(dv_batch *batch, const dv_batch_key *key)
{
	dv_batch_row *row = add_row(batch);

	Assert(batch->operation == DV_UPSERT);
	row->by_key = true;
	row->fit = key->fit;
	if (key->new_id != NULL)
		memcpy(row->id, key->new_id, DV_ID_LEN);
	set_address(batch, row, key->address, strlen(key->address));
	if (key->members != NULL)
		set_key_members(batch, row, key->members, strlen(key->members));
	append_head(batch, row);
	return row;
}

void
dv_batch_set_version(dv_batch *batch, int64 version)
{
	Assert(batch->destination->match_version);
	batch->rows[batch->nrows - 1].version = version;
}

void
dv_batch_end_head(dv_batch *batch)
{
	dv_batch_row *row = &batch->rows[batch->nrows - 1];

	row->head = batch->bytes.len - row->at;
}

void
dv_batch_end_row(dv_batch *batch)
{
	dv_batch_row *row = &batch->rows[batch->nrows - 1];

	appendStringInfoCharMacro(&batch->bytes, '}');
	row->len = batch->bytes.len - row->at;
}

void
dv_batch_forget_row(dv_batch *batch)
{
	dv_batch_row *row = &batch->rows[--batch->nrows];

	/* remove the comma before it, too */
	batch->bytes.len = row->at - (batch->nrows > 0 ? 1 : 0);
	batch->bytes.data[batch->bytes.len] = '\0';
	batch->extra.len = batch->extra_mark;
	batch->extra.data[batch->extra.len] = '\0';
}

void
dv_batch_begin_then(dv_batch *batch)
{
	batch->rows[batch->nrows - 1].then_at = batch->extra.len;
}

void
dv_batch_end_then(dv_batch *batch)
{
	dv_batch_row *row = &batch->rows[batch->nrows - 1];

	row->then_len = batch->extra.len - row->then_at;
}

static void
copy_address(dv_batch *batch, dv_batch_row *copy, const dv_batch *from, const dv_batch_row *row)
{
	if (row->address_len > 0)
		set_address(batch, copy, from->extra.data + row->address_at, row->address_len);
	if (row->key_len > 0)
		set_key_members(batch, copy, from->extra.data + row->key_at, row->key_len);
}

/* Copies the update that follows a row. */
static void
copy_then(dv_batch *batch, const dv_batch *from, const dv_batch_row *row)
{
	dv_batch_row *copy = begin_row(batch, row->has_id ? row->id : NULL,
								   from->extra.data + row->address_at, row->address_len);

	copy->ordinal = row->ordinal;
	copy->key = row->key;
	copy->owner = row->owner;
	appendBinaryStringInfo(&batch->bytes, from->extra.data + row->then_at, row->then_len);
	dv_batch_end_row(batch);
}

void
dv_batch_copy_row(dv_batch *batch, const dv_batch *from, const dv_batch_row *row, bool then)
{
	dv_batch_row *copy;
	size_t		at;

	if (then)
	{
		copy_then(batch, from, row);
		return;
	}
	Assert(batch->operation == from->operation);
	copy = add_row(batch);
	at = copy->at;
	*copy = *row;
	copy->at = at;
	appendBinaryStringInfo(&batch->bytes, from->bytes.data + row->at, row->len);
	copy_address(batch, copy, from, row);
	if (row->then_len > 0)
	{
		dv_batch_begin_then(batch);
		appendBinaryStringInfo(&batch->extra, from->extra.data + row->then_at, row->then_len);
		dv_batch_end_then(batch);
	}
}

/* Returns the original members of a row addressed by key, with the closing brace. */
static const char *
original_members(const dv_batch *batch, const dv_batch_row *row, size_t *len)
{
	/* a row that is to be created first sets the columns of its key */
	uint32		before = row->head +
	(row->has_id && batch->operation == DV_UPSERT ? row->key_len : 0);

	*len = row->len - before;
	return batch->bytes.data + row->at + before;
}

dv_batch_row *
dv_batch_copy_keyed_row(dv_batch *batch, const dv_batch *from, const dv_batch_row *row,
						const uint8 *id)
{
	dv_batch_row *copy = add_row(batch);
	size_t		at = copy->at;
	size_t		len;
	const char *members = original_members(from, row, &len);

	Assert(row->by_key && row->then_len == 0);
	*copy = *row;
	copy->at = at;
	copy->has_id = id != NULL;
	if (id != NULL)
		memcpy(copy->id, id, DV_ID_LEN);
	copy_address(batch, copy, from, row);
	append_head(batch, copy);
	if (copy->has_id && batch->operation == DV_UPSERT)
		appendBinaryStringInfo(&batch->bytes, from->extra.data + row->key_at, row->key_len);
	appendBinaryStringInfo(&batch->bytes, members, len);
	copy->len = batch->bytes.len - copy->at;
	return copy;
}

void
dv_batch_seal(dv_batch *batch)
{
	appendBinaryStringInfo(&batch->bytes, bulk_end, sizeof(bulk_end) - 1);
}

const char *
dv_batch_bulk_path(const dv_batch *batch)
{
	return batch->bulk_path;
}

const char *
dv_batch_object(const dv_batch *batch, const dv_batch_row *row, size_t *len)
{
	StringInfoData object;
	const char *members;

	if (!row->by_key || !row->has_id)
	{
		*len = row->len;
		return batch->bytes.data + row->at;
	}
	members = original_members(batch, row, len);
	initStringInfo(&object);
	appendBinaryStringInfo(&object, batch->head, batch->type_len);
	append_odata_id(&object, batch->extra.data + row->address_at, row->address_len);
	appendBinaryStringInfo(&object, members, *len);
	*len = object.len;
	return object.data;
}

const char *
dv_batch_address(const dv_batch *batch, const dv_batch_row *row)
{
	return row->address_len > 0 ?
		pnstrdup(batch->extra.data + row->address_at, row->address_len) : NULL;
}

/*
 * Rows as parts of a $batch.
 */

/* Returns "https://host/api/data/v9.2/" without scheme and host. */
static const char *
root_path(const char *root)
{
	const char *host = strstr(root, "://");
	const char *path = host != NULL ? strchr(host + 3, '/') : NULL;

	return path != NULL ? path : root;
}

static void
append_address(StringInfo body, const dv_batch *batch, const dv_batch_row *row)
{
	const dv_destination *destination = batch->destination;
	const char *address = batch->extra.data + row->address_at;
	bool		has_query = false;

	if (dv_operation_rule_of(batch->operation)->at_set)
		appendStringInfoString(body, destination->entity_set);
	else if (is_at_key(row))
	{
		enlargeStringInfo(body, DV_PAYLOAD_LINE(row->address_len));
		body->len = dv_payload_line(body->data + body->len, address, row->address_len) - body->data;
	}
	else if (row->address_len > 0 && !row->by_key)
	{
		appendBinaryStringInfo(body, address, row->address_len);
		has_query = memchr(address, '?', row->address_len) != NULL;
	}
	else
	{
		appendStringInfo(body, "%s(", destination->entity_set);
		dv_append_id(body, row->id);
		appendStringInfoChar(body, ')');
	}
	if (destination->tag != NULL)
		appendStringInfo(body, "%ctag=%s", has_query ? '&' : '?', destination->tag);
}

/* Appends the object without its head. */
static void
append_body(StringInfo body, const dv_batch *batch, const dv_batch_row *row)
{
	const char *rest = batch->bytes.data + row->at + row->head;
	uint32		len = row->len - row->head;

	if (*rest == ',')
	{
		rest++;
		len--;
	}
	appendStringInfoChar(body, '{');
	appendBinaryStringInfo(body, rest, len);
}

/* Returns the text between the path of every part and its condition. */
static char *
make_part_headers(const dv_batch *batch)
{
	const char *const *header;
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, " HTTP/1.1\r\n");
	for (header = batch->destination->headers; header != NULL && *header != NULL; header++)
		appendStringInfo(&s, "%s\r\n", *header);
	if (batch->destination->caller != NULL)
		appendStringInfo(&s, DV_HEADER_CALLER "%s\r\n", batch->destination->caller);
	return s.data;
}

/* Appends the condition on which a row is written, if there is one. */
static void
append_condition(StringInfo body, const dv_batch *batch, const dv_batch_row *row)
{
	if (batch->destination->match_version)
		appendStringInfo(body, "If-Match: W/\"" INT64_FORMAT "\"\r\n", row->version);
	else
		appendStringInfoString(body, dv_operation_rule_of(batch->operation)->header);
}

/* Writes a part up to its request line. */
static void
begin_part(StringInfo body, const char *boundary, int content_id)
{
	appendStringInfo(body, "--%s\r\n"
					 "Content-Type: application/http\r\n"
					 "Content-Transfer-Encoding: binary\r\n", boundary);
	if (content_id > 0)
		appendStringInfo(body, "Content-ID: %d\r\n", content_id);
	appendStringInfoString(body, "\r\n");
}

/*
 * The line end belongs to the body.  Without a body it belongs to the empty
 * line that ends the headers.
 */
static void
end_part(StringInfo body)
{
	appendStringInfoString(body, "\r\n");
}

static void
end_batch(StringInfo body, const char **content_type)
{
	appendStringInfoString(body, "--" BOUNDARY "--\r\n");
	*content_type = "Content-Type: multipart/mixed; boundary=" BOUNDARY;
}

static void
append_rows(StringInfo body, const dv_batch *batch, const char *boundary, bool numbered)
{
	const dv_operation_rule *rule = dv_operation_rule_of(batch->operation);
	const char *root = root_path(batch->destination->root);
	char	   *headers = make_part_headers(batch);
	int			i;

	for (i = 0; i < batch->nrows; i++)
	{
		begin_part(body, boundary, numbered ? i + 1 : 0);
		appendStringInfo(body, "%s %s", rule->method, root);
		append_address(body, batch, &batch->rows[i]);
		appendStringInfoString(body, headers);
		append_condition(body, batch, &batch->rows[i]);
		appendStringInfoString(body, rule->has_body ? "Content-Type: application/json\r\n\r\n" :
							   "\r\n");
		if (rule->has_body)
			append_body(body, batch, &batch->rows[i]);
		end_part(body);
	}
	pfree(headers);
}

void
dv_batch_parts(const dv_batch *batch, dv_parts how, StringInfo body, const char **content_type)
{
	if (how == DV_PARTS_CHANGESET)
	{
		appendStringInfoString(body, "--" BOUNDARY "\r\n"
							   "Content-Type: multipart/mixed; boundary=" CHANGESET "\r\n\r\n");
		append_rows(body, batch, CHANGESET, true);
		appendStringInfoString(body, "--" CHANGESET "--\r\n\r\n");
	}
	else
		append_rows(body, batch, BOUNDARY, false);
	end_batch(body, content_type);
}

bool
dv_batch_is_sought(const dv_batch_row *row, bool as_part)
{
	return is_at_key(row) && (row->fit == DV_KEY_FITS_NOWHERE ||
							  (row->fit == DV_KEY_FITS_BODIES && as_part));
}

void
dv_batch_search(const dv_batch *batch, bool as_part, StringInfo body, const char **content_type)
{
	const dv_destination *destination = batch->destination;
	int			i;

	for (i = 0; i < batch->nrows; i++)
	{
		const dv_batch_row *row = &batch->rows[i];

		if (!dv_batch_is_sought(row, as_part))
			continue;
		begin_part(body, BOUNDARY, 0);
		/* two rows are enough to see that it is not a key */
		appendStringInfo(body, "GET %s%s?$select=%s&$top=2&$filter=", root_path(destination->root),
						 destination->entity_set, destination->primary_id);
		enlargeStringInfo(body, DV_PAYLOAD_FILTER(row->address_len));
		body->len = dv_payload_filter(body->data + body->len, batch->extra.data + row->address_at,
									  row->address_len) - body->data;
		appendStringInfoString(body, " HTTP/1.1\r\nAccept: application/json\r\n");
		if (destination->caller != NULL)
			appendStringInfo(body, DV_HEADER_CALLER "%s\r\n", destination->caller);
		appendStringInfoString(body, "\r\n");
		end_part(body);
	}
	end_batch(body, content_type);
}

void
dv_batch_read(const char *url, const char *const *headers, StringInfo body,
			  const char **content_type)
{
	begin_part(body, BOUNDARY, 0);
	appendStringInfo(body, "GET %s HTTP/1.1\r\nAccept: application/json\r\n", url);
	for (; *headers != NULL; headers++)
		appendStringInfo(body, "%s\r\n", *headers);
	appendStringInfoString(body, "\r\n");
	end_part(body);
	end_batch(body, content_type);
}

/*-------------------------------------------------------------------------
 *
 * batch.c
 *		Batches: the rows of one request on their way to the service.
 *
 * Whatever is the same for all rows is prepared when a batch is made, so that
 * each row costs a few copies only.  The body of the bulk message grows row by
 * row and only needs to be closed; a $batch is written from the same bytes
 * when it is needed, which is rare except for deletes.
 *
 * Invariants: the object of a row is bytes[at, at + len).  A comma or the
 * closing brace follows its first "head" bytes.  JSON strings contain no line
 * ends, so no row can contain a line that looks like a delimiter.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "dataverse/address.h"
#include "dataverse/batch.h"
#include "dataverse/header.h"
#include "dataverse/payload.h"

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

static void
append_head(dv_batch *batch, dv_batch_row *row)
{
	static const char odata_id[] = ",\"@odata.id\":\"";
	StringInfo	out = &batch->bytes;
	bool		by_address = batch->operation == DV_UPSERT && row->address_len > 0;

	if (row->has_id && !by_address)
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
	if (by_address)
	{
		appendBinaryStringInfo(out, odata_id, sizeof(odata_id) - 1);
		append_text(out, batch->extra.data + row->address_at, row->address_len);
		appendStringInfoCharMacro(out, '"');
	}
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
	if (row->address_len > 0)
		set_address(batch, copy, from->extra.data + row->address_at, row->address_len);
	if (row->then_len > 0)
	{
		dv_batch_begin_then(batch);
		appendBinaryStringInfo(&batch->extra, from->extra.data + row->then_at, row->then_len);
		dv_batch_end_then(batch);
	}
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
	*len = row->len;
	return batch->bytes.data + row->at;
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
	else if (row->address_len > 0)
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

/* Returns what stands between the path and the body of every part. */
static char *
make_part_headers(const dv_batch *batch)
{
	const dv_operation_rule *rule = dv_operation_rule_of(batch->operation);
	const char *const *header;
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, " HTTP/1.1\r\n");
	for (header = batch->destination->headers; header != NULL && *header != NULL; header++)
		appendStringInfo(&s, "%s\r\n", *header);
	if (batch->destination->caller != NULL)
		appendStringInfo(&s, DV_HEADER_CALLER "%s\r\n", batch->destination->caller);
	appendStringInfoString(&s, rule->header);
	if (rule->has_body)
		appendStringInfoString(&s, "Content-Type: application/json\r\n");
	appendStringInfoString(&s, "\r\n");
	return s.data;
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

/*
 * batch_answer.c
 *		The service's answers to batches, row by row.
 *
 * The answers decide whether a row counts as written, so nothing is guessed:
 * an answer with one id too many, with two results for one row, or without its
 * last delimiter is broken.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <json-c/json.h>

#include "dataverse/batch_answer.h"
#include "dataverse/json_cursor.h"
#include "dataverse/page.h"
#include "dataverse/payload.h"
#include "net/json.h"

/* A row is either written or refused.  Other HTTP statuses mean neither. */
static bool
is_answer(int status)
{
	return (status >= 200 && status < 300) || (status >= 400 && status < 600);
}

/* Reads a CreateMultipleResponse.  Every batch gets one, so no tree is built. */

static bool
read_ids(dv_cursor *cursor, int n, uint8 (*ids)[DV_ID_LEN])
{
	dv_value	id;
	int			i = 0;

	if (!dv_cursor_enter(cursor, '['))
		return false;
	while (dv_cursor_next(cursor, ']'))
		if (i == n || !dv_cursor_value(cursor, &id) || dv_value_uuid(&id, ids[i++]) != DV_VALUE_OK)
			return false;
	return i == n;
}

bool
dv_batch_answer_ids(const char *body, size_t len, int n, uint8 (*ids)[DV_ID_LEN])
{
	dv_cursor	cursor;
	dv_value	name;
	dv_value	value;
	bool		found = false;

	dv_cursor_open(&cursor, body, len);
	if (!dv_cursor_enter(&cursor, '{'))
		return false;
	while (dv_cursor_next(&cursor, '}') && dv_cursor_name(&cursor, &name))
	{
		if (!dv_value_equals(&name, "Ids"))
			(void) dv_cursor_value(&cursor, &value);
		else if (found || !read_ids(&cursor, n, ids))
			return false;
		else
			found = true;
	}
	return dv_cursor_ended(&cursor) && found;
}

/*
 * Partial failures of elastic tables.
 */

/* Statuses of Cosmos DB that mean something else than in HTTP. */
static const struct
{
	int			status;
	dv_verdict	verdict;
	dv_meaning	meaning;
	int			sqlstate;
}			cosmos_rules[] =

{
	{400, DV_VERDICT_REFUSED, DV_MEANING_OTHER, ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE},
	{404, DV_VERDICT_REFUSED, DV_MEANING_MISSING, ERRCODE_FOREIGN_KEY_VIOLATION},
	{409, DV_VERDICT_REFUSED, DV_MEANING_DUPLICATE, ERRCODE_UNIQUE_VIOLATION},
	{424, DV_VERDICT_RETRY, DV_MEANING_SERVER, ERRCODE_FDW_UNABLE_TO_CREATE_EXECUTION},
	{449, DV_VERDICT_RETRY, DV_MEANING_SERVER, ERRCODE_T_R_SERIALIZATION_FAILURE},
};

static bool
read_int(struct json_object *entry, const char *name, int *n)
{
	struct json_object *value;

	if (!json_object_object_get_ex(entry, name, &value) ||
		!json_object_is_type(value, json_type_int))
		return false;
	*n = json_object_get_int(value);
	return true;
}

static void
judge_row(const dv_error *whole, int status, dv_row_answer *row)
{
	int			i;

	dv_error_read(status, NULL, 0, NULL, NULL, whole->request_id, &row->error);
	if (row->error.verdict == DV_VERDICT_OK)
		return;
	row->error.retry_after = whole->retry_after;
	row->error.message = psprintf("status %d; the error of the whole request is: %s", status,
								  whole->message);
	row->error.vague = true;
	for (i = 0; i < (int) lengthof(cosmos_rules); i++)
	{
		if (cosmos_rules[i].status != status)
			continue;
		row->error.verdict = cosmos_rules[i].verdict;
		row->error.sqlstate = cosmos_rules[i].sqlstate;
		row->error.meaning = cosmos_rules[i].meaning;
	}
}

static bool
read_detail(const dv_error *whole, struct json_object *entry, int n, dv_row_answer *rows)
{
	const char *id;
	int			index;
	int			status;

	if (!json_object_is_type(entry, json_type_object) ||
		!read_int(entry, "RequestIndex", &index) || !read_int(entry, "StatusCode", &status) ||
		index < 0 || index >= n || rows[index].told || !is_answer(status))
		return false;
	rows[index].told = true;
	rows[index].status = status;
	judge_row(whole, status, &rows[index]);
	id = dv_json_string(entry, "Id");
	if (id != NULL)
	{
		dv_value	value = {.text = id, .len = strlen(id), .kind = DV_VALUE_STRING};

		rows[index].has_id = dv_value_uuid(&value, rows[index].id) == DV_VALUE_OK;
	}
	return true;
}

/* If only one row failed, the text of the whole answer applies to that row. */
static void
claim_text(const dv_error *whole, int n, dv_row_answer *rows)
{
	dv_row_answer *refused = NULL;
	int			i;

	for (i = 0; i < n; i++)
	{
		if (!rows[i].told || rows[i].error.verdict == DV_VERDICT_OK)
			continue;
		if (refused != NULL)
			return;
		refused = &rows[i];
	}
	if (refused == NULL)
		return;
	refused->error.message = pstrdup(whole->message);
	refused->error.vague = false;
}

bool
dv_batch_answer_details(const dv_error *whole, int n, dv_row_answer *rows)
{
	struct json_object *details = NULL;
	size_t		i;

	memset(rows, 0, n * sizeof(*rows));
	if (whole->details != NULL)
		details = dv_json_parse(whole->details, strlen(whole->details), NULL);
	if (details == NULL || !json_object_is_type(details, json_type_array))
		return false;
	for (i = 0; i < dv_json_length(details); i++)
	{
		if (read_detail(whole, dv_json_item(details, i), n, rows))
			continue;
		memset(rows, 0, n * sizeof(*rows));
		return false;
	}
	claim_text(whole, n, rows);
	return true;
}

/*
 * Parts of a $batch.
 */

static const char *
to_text(dv_slice s)
{
	return s.s != NULL ? pnstrdup(s.s, s.len) : NULL;
}

/* "https://…/accounts(guid)"; other forms of addresses do not contain the id. */
static bool
read_entity_id(const dv_part *part, uint8 *id)
{
	dv_slice	url = dv_part_header(part, "OData-EntityId");
	dv_value	value = {.kind = DV_VALUE_STRING, .len = DV_PAYLOAD_UUID};

	if (url.s == NULL)
		url = dv_part_header(part, "Location");
	if (url.len < DV_PAYLOAD_UUID + 2 || url.s[url.len - 1] != ')' ||
		url.s[url.len - DV_PAYLOAD_UUID - 2] != '(')
		return false;
	value.text = url.s + url.len - DV_PAYLOAD_UUID - 1;
	return dv_value_uuid(&value, id) == DV_VALUE_OK;
}

void
dv_batch_answer_read(const dv_part *part, dv_error *error)
{
	bool		good = part->status < 300;

	dv_error_read(part->status, part->body.s, part->body.len,
				  good ? NULL : to_text(dv_part_header(part, "Retry-After")),
				  good ? NULL : to_text(dv_part_header(part, "Date")),
				  good ? NULL : to_text(dv_part_header(part, "REQ_ID")), error);
}

static void
tell(const dv_part *part, dv_row_answer *row)
{
	row->told = true;
	row->status = part->status;
	dv_batch_answer_read(part, &row->error);
	if (part->status < 300)
		row->has_id = read_entity_id(part, row->id);
}

/* Reads the rows found by a query.  Returns false if the page is broken. */
static bool
read_found(const dv_part *part, const char *primary_id, dv_row_answer *row)
{
	dv_names   *names = dv_names_init(palloc(dv_names_size(&primary_id, 1)), &primary_id, 1);

	/* the reader needs a NUL behind the page */
	const char *body = pnstrdup(part->body.s, part->body.len);
	dv_value	id;
	dv_page		page;
	dv_page_step step;

	row->has_id = false;
	dv_page_open(&page, names, body, part->body.len);
	while ((step = dv_page_next(&page, &id)) == DV_PAGE_ROW)
	{
		if (dv_value_uuid(&id, row->id) != DV_VALUE_OK)
			return false;
		if (row->has_id)
		{
			row->error.verdict = DV_VERDICT_REFUSED;
			row->error.sqlstate = ERRCODE_CARDINALITY_VIOLATION;
			row->error.message = "more than one row has this key";
			row->error.hint = DV_KEY_HINT;
		}
		row->has_id = true;
	}
	return step == DV_PAGE_END;
}

/*
 * Reads one part for each row.  If "primary_id" is given, each part is a page of query results.
 */
static bool
read_parts(const char *content_type, const char *body, size_t len, const char *primary_id,
		   int n, dv_row_answer *rows)
{
	dv_multipart multipart;
	dv_part_step step;
	dv_part		part;
	int			i = 0;

	memset(rows, 0, n * sizeof(*rows));
	if (!dv_multipart_open(&multipart, content_type, body, len))
		return false;
	while ((step = dv_multipart_next(&multipart, &part)) == DV_PART)
	{
		if (i == n || part.changeset > 0 || !is_answer(part.status))
			return false;
		tell(&part, &rows[i]);

		/*
		 * other answers without errors are no pages either: an empty one would mean that there is
		 * no row
		 */
		if (primary_id != NULL)
			rows[i].told = part.status >= 300 ||
				(part.status == 200 && read_found(&part, primary_id, &rows[i]));
		i++;
	}
	return step == DV_PART_END;
}

bool
dv_batch_answer_parts(const char *content_type, const char *body, size_t len, int n,
					  dv_row_answer *rows)
{
	return read_parts(content_type, body, len, NULL, n, rows);
}

bool
dv_batch_answer_found(const char *content_type, const char *body, size_t len,
					  const char *primary_id, int n, dv_row_answer *rows)
{
	return read_parts(content_type, body, len, primary_id, n, rows);
}

/* Returns the row to which a part of a changeset belongs, or n if the part does not say. */
static int
row_of_part(const dv_part *part, int n)
{
	return part->content_id >= 1 && part->content_id <= n ? part->content_id - 1 : n;
}

/* Records a part that succeeded; returns false if it is out of place. */
static bool
tell_success(const dv_part *part, int n, int position, dv_row_answer *rows)
{
	int			row = part->content_id == -1 ? position : row_of_part(part, n);

	if (position >= n || row >= n || rows[row].told || part->changeset != 1)
		return false;
	tell(part, &rows[row]);
	return true;
}

bool
dv_batch_answer_changeset(const char *content_type, const char *body, size_t len, int n,
						  dv_row_answer *rows, int *failed)
{
	dv_multipart multipart;
	dv_part_step step;
	dv_part		part;
	dv_part		bad = {0};
	int			good = 0;

	memset(rows, 0, n * sizeof(*rows));
	*failed = -1;
	if (!dv_multipart_open(&multipart, content_type, body, len))
		return false;
	while ((step = dv_multipart_next(&multipart, &part)) == DV_PART)
	{
		/* either all parts succeed, or there is only the one that failed */
		if (bad.status != 0 || (part.status >= 300 && good > 0) || !is_answer(part.status))
			return false;
		if (part.status >= 300)
			bad = part;
		else if (!tell_success(&part, n, good++, rows))
			return false;
	}
	if (step != DV_PART_END || (bad.status == 0 && good != n))
		return false;
	if (bad.status != 0)
	{
		*failed = row_of_part(&bad, n);
		tell(&bad, &rows[*failed < n ? *failed : 0]);
	}
	return true;
}

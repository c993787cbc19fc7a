/*
 * answer_fuzz.c
 *		Arbitrary bytes as the answer to a batch of rows.
 *
 * The first line is the Content-Type.  Every result lies inside the answer;
 * ids are those that json-c finds; and an answer in parts that counts as
 * complete no longer does without its last delimiter.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE				/* memrchr */
#include "postgres.h"

#include <json-c/json.h>

#include "dataverse/batch_answer.h"
#include "dataverse/multipart.h"
#include "dataverse/payload.h"
#include "pg_stand_in.h"

#undef fprintf

#define ROWS 3
#define UUID_LEN 36

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
__attribute__((noreturn))
wrong(const char *what)
{
	fprintf(stderr, "answer_fuzz: %s\n", what);
	abort();
}

static void
assert_inside(dv_slice s, const char *body, size_t len)
{
	if (s.s != NULL && (s.s < body || s.s + s.len > body + len))
		wrong("a slice of something else");
}

static bool
walk(const char *type, const char *body, size_t len)
{
	dv_multipart multipart;
	dv_part_step step;
	dv_part		part;
	int			failures = 0;

	if (!dv_multipart_open(&multipart, type, body, len))
		return false;
	while ((step = dv_multipart_next(&multipart, &part)) == DV_PART)
	{
		assert_inside(part.headers, body, len);
		assert_inside(part.body, body, len);
		assert_inside(dv_part_header(&part, "Retry-After"), part.headers.s, part.headers.len);
		if (part.status < 100 || part.status > 999 || part.content_id < -1)
			wrong("no such status");
		failures += part.status >= 300;
	}
	dv_multipart_open(&multipart, type, body, len);
	while (dv_multipart_failure(&multipart, &part))
		failures--;
	if (failures != 0)
		wrong("another number of failures");
	return step == DV_PART_END;
}

static void
check_parts(const char *type, const char *body, size_t len)
{
	dv_row_answer rows[ROWS];
	bool		whole = walk(type, body, len);
	int			failed;
	int			i;

	if (dv_batch_answer_parts(type, body, len, ROWS, rows) && !whole)
		wrong("a broken answer was taken");
	for (i = 1; i < ROWS; i++)
		if (rows[i].told && !rows[i - 1].told)
			wrong("rows out of order");
	if (!dv_batch_answer_changeset(type, body, len, ROWS, rows, &failed))
		return;
	if (!whole || failed < -1 || failed > ROWS)
		wrong("a broken changeset was taken");
	for (i = 0; i < ROWS; i++)
		if ((failed == -1) != (rows[i].told && rows[i].error.verdict == DV_VERDICT_OK))
			wrong("some rows were carried out");
}

/* a truncated answer is never complete */
static void
check_cuts(const char *type, const char *body, size_t len)
{
	dv_multipart multipart;
	dv_part		part;
	char	   *cut;

	if (!walk(type, body, len))
		return;
	dv_multipart_open(&multipart, type, body, len);
	while (dv_multipart_next(&multipart, &part) == DV_PART)
		;
	/* the end of its last delimiter's line, without blanks and line end */
	len = multipart.whole.at - body;
	while (len > 0 && strchr(" \t\r\n", body[len - 1]) != NULL)
		len--;
	cut = palloc(len - 1);
	memcpy(cut, body, len - 1);
	if (walk(type, cut, len - 1))
		wrong("half an answer is whole");
}

static void
check_ids(const char *body, size_t len)
{
	uint8		ids[ROWS][DV_ID_LEN];
	struct json_object *tree;
	struct json_object *list;
	char	   *text = palloc(len + 1);
	char		id[UUID_LEN + 1] = "";
	int			i;

	/* with a NUL after it, and possibly more inside */
	memcpy(text, body, len);
	text[len] = '\0';
	if (!dv_batch_answer_ids(text, len, ROWS, ids) || (tree = json_tokener_parse(text)) == NULL)
		return;
	if (!json_object_object_get_ex(tree, "Ids", &list) || json_object_array_length(list) != ROWS)
		wrong("there are no such ids");
	for (i = 0; i < ROWS; i++)
	{
		(void) dv_payload_uuid(id, ids[i]);
		if (strcasecmp(json_object_get_string(json_object_array_get_idx(list, i)), id) != 0)
			wrong("another id");
	}
	json_object_put(tree);
}

static void
check_details(const char *body, size_t len)
{
	dv_row_answer rows[ROWS];
	dv_error	whole;
	bool		ok;
	int			i;

	dv_error_read(400, body, len, NULL, NULL, NULL, &whole);
	if (whole.details == NULL)
		whole.details = pnstrdup(body, len);
	ok = dv_batch_answer_details(&whole, ROWS, rows);
	for (i = 0; i < ROWS; i++)
		if (rows[i].told && (!ok || rows[i].status == 0))
			wrong("a row was told by a broken answer");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\n', size);
	size_t		line = end != NULL ? (size_t) (end - data) : 0;
	char	   *type = pnstrdup((const char *) data, line);
	size_t		len = size - (end != NULL ? line + 1 : 0);
	char	   *body = palloc(len);

	memcpy(body, data + size - len, len);
	check_parts(type, body, len);
	check_cuts(type, body, len);
	check_ids(body, len);
	check_details(body, len);
	pg_stand_in_reset();
	return 0;
}

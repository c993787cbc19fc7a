/*
 * page_fuzz.c
 *		Arbitrary bytes as a page of rows.
 *
 * A text that the reader accepts as a complete page must be one to json-c as
 * well, with the same rows, and each wanted member must have the value that
 * json-c finds.  For any other text, no conversion may read beyond its slice.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE				/* memmem */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "dataverse/page.h"

#define LENGTH(array) ((int) (sizeof(array) / sizeof((array)[0])))
#define MAX_CHOICES 8
#define DEEP 200

static const char *const wanted[] = {
	"name", "a", "accountid", "createdon", "_ownerid_value",
	"_ownerid_value@Microsoft.Dynamics.CRM.lookuplogicalname", "id", "missing"
};

#define N_WANTED (LENGTH(wanted))

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
__attribute__((noreturn))
wrong(const char *what)
{
	fprintf(stderr, "page_fuzz: %s\n", what);
	abort();
}

/* all conversions, whether they make sense or not */
static void
convert(const dv_value *value)
{
	char	   *room = malloc(value->len + 1);
	int32_t		choices[MAX_CHOICES];
	uint8_t		uuid[16];
	int64_t		big;
	int32_t		number;
	double		real;
	size_t		len;
	bool		flag;
	int			n;

	if (dv_value_string(value, room, &len) == DV_VALUE_OK && len > value->len)
		wrong("a string grew");
	if (dv_value_base64(value, (uint8_t *) room, &len) == DV_VALUE_OK && len > value->len)
		wrong("bytes grew");
	if (dv_value_choices(value, choices, MAX_CHOICES, &n) == DV_VALUE_OK && n > MAX_CHOICES)
		wrong("too many choices");
	if (dv_value_int32(value, &number) == DV_VALUE_OK &&
		(dv_value_int64(value, &big) != DV_VALUE_OK || big != number))
		wrong("an integer is two numbers");
	dv_value_int64(value, &big);
	dv_value_decimal(value, &big, &n);
	dv_value_double(value, &real);
	dv_value_bool(value, &flag);
	dv_value_uuid(value, uuid);
	dv_value_date(value, &number);
	dv_value_timestamp(value, &big);
	dv_value_equals(value, "name");
	dv_value_ends_with(value, "/$deletedEntity");
	free(room);
}

/* In strict mode, json-c 0.18 treats every byte beyond ASCII as a control character. */
#if JSON_C_MAJOR_VERSION == 0 && JSON_C_MINOR_VERSION == 18
#define STRICT 0
#else
#define STRICT JSON_TOKENER_STRICT
#endif

/* the whole text as json-c reads it, NULL if it does not */
static struct json_object *
parse_tree(const char *text, size_t len)
{
	struct json_tokener *tokener = json_tokener_new_ex(DEEP);
	struct json_object *tree;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
	{
		text += 3;
		len -= 3;
	}
	while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
		len--;
	json_tokener_set_flags(tokener, STRICT | JSON_TOKENER_VALIDATE_UTF8);
	tree = json_tokener_parse_ex(tokener, text, (int) len);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
		json_tokener_get_parse_end(tokener) != len)
	{
		json_object_put(tree);
		tree = NULL;
	}
	json_tokener_free(tokener);
	return tree;
}

/* true if json-c found this value under the same name */
static void
compare_value(const dv_value *value, struct json_object *row, const char *name)
{
	static const enum json_type types[] = {
		json_type_null, json_type_null, json_type_boolean, json_type_boolean, json_type_double,
		json_type_string, json_type_object, json_type_array
	};
	struct json_object *theirs = NULL;
	bool		there = json_object_object_get_ex(row, name, &theirs);
	enum json_type type = json_object_get_type(theirs);
	int64_t		big;

	if (there != (value->kind != DV_VALUE_ABSENT))
		wrong("a member is there only once");
	if (type != types[value->kind] && !(type == json_type_int && value->kind == DV_VALUE_NUMBER))
		wrong("a member of another kind");
	if (type == json_type_boolean &&
		(bool) json_object_get_boolean(theirs) != (value->kind == DV_VALUE_TRUE))
		wrong("another boolean");
	if (type == json_type_int && dv_value_int64(value, &big) == DV_VALUE_OK &&
		big != json_object_get_int64(theirs))
		wrong("another number");
	if (type == json_type_string)
	{
		char	   *text = malloc(value->len + 1);
		size_t		len;

		if (dv_value_string(value, text, &len) == DV_VALUE_OK &&
			(len != (size_t) json_object_get_string_len(theirs) ||
			 memcmp(text, json_object_get_string(theirs), len) != 0))
			wrong("another string");
		free(text);
	}
}

static void
compare_rows(dv_names *names, const char *body, size_t len)
{
	struct json_object *tree = parse_tree(body, len);
	struct json_object *rows;
	dv_value	values[N_WANTED];
	dv_page		page;
	dv_page_step step;
	size_t		row;
	int			i;

	/* json-c's names end at a NUL */
	if (memmem(body, len, "\\u0000", 6) != NULL)
	{
		json_object_put(tree);
		return;
	}
	if (tree == NULL)
		wrong("this is no JSON");
	rows = json_object_object_get(tree, "value");
	if (json_object_get_type(rows) != json_type_array)
		wrong("there are no rows");
	dv_page_open(&page, names, body, len);
	for (row = 0; (step = dv_page_next(&page, values)) < DV_PAGE_END; row++)
		for (i = 0; i < N_WANTED; i++)
			compare_value(&values[i], json_object_array_get_idx(rows, row), wanted[i]);
	if (step != DV_PAGE_END || row != json_object_array_length(rows) || row != page.rows)
		wrong("another number of rows");
	json_object_put(tree);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static dv_names *names;
	dv_value	values[N_WANTED];
	dv_value	link = {0};
	dv_page		page;
	dv_page_step step;
	char	   *body = malloc(size + 1);
	bool		peeked;
	int			i;

	if (names == NULL)
		names = dv_names_init(malloc(dv_names_size(wanted, N_WANTED)), wanted, N_WANTED);
	memcpy(body, data, size);
	body[size] = '\0';
	if (dv_page_peek_last(body, size, wanted[0], &link))
		convert(&link);
	peeked = dv_page_peek_link(body, size, &link);
	dv_page_open(&page, names, body, size);
	while ((step = dv_page_next(&page, values)) < DV_PAGE_END)
		for (i = 0; i < N_WANTED; i++)
			convert(&values[i]);
	if (step == DV_PAGE_END)
	{
		if (peeked && page.next_link.text != link.text)
			wrong("another link was foreseen");
		compare_rows(names, body, size);
		/* a page is complete only with its last byte */
		for (i = (int) size; i > 0 && strchr(" \t\r\n", body[i - 1]) != NULL; i--)
			;
		body[i - 1] = '\0';
		dv_page_open(&page, names, body, (size_t) i - 1);
		if (dv_page_drain(&page) != DV_PAGE_BROKEN)
			wrong("half a page is a page");
	}
	else if (page.json.error == NULL || page.json.error_at > size)
		wrong("an error without a reason");
	free(body);
	return 0;
}

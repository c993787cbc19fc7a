/*
 * metadata_sample.h
 *		A catalog and a table made from JSON, for tests of definitions.
 *
 * Each program that tests src/dataverse/metadata.h includes this file once.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef METADATA_SAMPLE_H
#define METADATA_SAMPLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "dataverse/metadata.h"

typedef struct chunk
{
	struct chunk *next;
	max_align_t data[];
}			chunk;

static const dv_meta_wish nothing;

static chunk * chunks;
static struct json_object *document;
static dv_meta_catalog catalog;
static dv_meta_table table;
static const dv_meta_wish everything = {.labels = true, .readonly = true, .comments = true};

static void *
allocate(void *context, size_t size)
{
	chunk	   *c = malloc(sizeof(*c) + size);

	(void) context;
	assert_non_null(c);
	c->next = chunks;
	chunks = c;
	return c->data;
}

static const dv_arena arena = {allocate, NULL};

static int
forget(void **state)
{
	(void) state;
	while (chunks != NULL)
	{
		chunk	   *next = chunks->next;

		free(chunks);
		chunks = next;
	}
	json_object_put(document);
	document = NULL;
	return 0;
}

static void
read_catalog(const char *tables)
{
	char	   *text = allocate(NULL, strlen(tables) + 20);
	struct json_object *json;

	sprintf(text, "{\"value\":[%s]}", tables);
	json = json_tokener_parse(text);
	assert_non_null(json);
	dv_meta_catalog_read(&arena, json, &catalog);
	json_object_put(json);
}

#define ENTRY(name) "{\"LogicalName\":\"" name "\",\"EntitySetName\":\"" name "s\"}"

/* Makes the table "new_t" with these attributes and additional members. */
static void
read_table(const char *attributes, const char *more, const dv_meta_wish *wish)
{
	char	   *text = allocate(NULL, strlen(attributes) + strlen(more) + 200);

	read_catalog(ENTRY("new_t") "," ENTRY("account") "," ENTRY("contact") "," ENTRY(
																					"systemuser") "," ENTRY("team") "," ENTRY("owner"));
	sprintf(text,
			"{\"LogicalName\":\"new_t\",\"PrimaryIdAttribute\":\"new_tid\","
			"\"Attributes\":[%s]%s}",
			attributes, more);
	json_object_put(document);
	document = json_tokener_parse(text);
	assert_non_null(document);
	dv_meta_table_read(&arena, &catalog, dv_meta_entry_of(&catalog, document), document, wish,
					   &table);
}

#define TYPE(type)                  "\"AttributeTypeName\":{\"Value\":\"" type "\"}"
#define ATTRIBUTE(name, type, more) "{\"LogicalName\":\"" name "\"," TYPE(type) more "}"

static const dv_meta_column *
column(const char *name)
{
	int			i;

	for (i = 0; i < table.ncolumns; i++)
		if (strcmp(table.columns[i].name, name) == 0)
			return &table.columns[i];
	fail_msg("there is no column \"%s\"", name);
	return NULL;
}

#define TEST(f) cmocka_unit_test_teardown(f, forget)

#endif							/* METADATA_SAMPLE_H */

/*
 * metadata_fuzz.c
 *		Arbitrary bytes as the answer to a request for definitions.
 *
 * Every definition lies inside the answer, and yields a foreign table that
 * PostgreSQL accepts: its columns have types and distinct, sufficiently short
 * names.  The same answer is also read as the answer to the requests for all
 * tables and all relationships.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "dataverse/metadata.h"

#define MAX_PIECES 100000

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *pieces[MAX_PIECES];
static int	npieces;

static void
__attribute__((noreturn))
wrong(const char *what)
{
	fprintf(stderr, "metadata_fuzz: %s\n", what);
	abort();
}

static void *
allocate(void *context, size_t size)
{
	if (npieces == MAX_PIECES)
		wrong("too many pieces of memory");
	return pieces[npieces++] = malloc(size);
}

static const dv_arena arena = {allocate, NULL};

/* As dv_json_parse() does it. */
static struct json_object *
parse(const char *text, size_t len)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *root;

	json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
	root = json_tokener_parse_ex(tokener, text, (int) len);
	json_tokener_free(tokener);
	return root;
}

static void
check_name(const char *name)
{
	if (name == NULL || name[0] == '\0' || strlen(name) > DV_META_NAME_MAX)
		wrong("no name for PostgreSQL");
}

static void
check_table(const dv_meta_table *table)
{
	int			i;
	int			j;

	check_name(table->local);
	if (table->ncolumns > DV_META_COLUMNS_MAX)
		wrong("too many columns");
	for (i = 0; i < table->ncolumns; i++)
	{
		const dv_meta_column *column = &table->columns[i];

		check_name(column->name);
		if (column->sql == NULL || (unsigned) column->type >= DV_TYPES)
			wrong("a column without a type");
		for (j = 0; j < i; j++)
			if (strcmp(table->columns[j].name, column->name) == 0)
				wrong("two columns of the same name");
	}
}

static void
read_definition(const dv_meta_catalog *catalog, const char *text, size_t len)
{
	static const dv_meta_wish wishes[] = {
		{.labels = true, .readonly = true, .comments = true}, {.labels = false}
	};
	struct json_object *definition = parse(text, len);
	const dv_meta_entry *entry = dv_meta_entry_of(catalog, definition);
	int			i;

	for (i = 0; entry != NULL && i < 2; i++)
	{
		dv_meta_table table;

		dv_meta_table_read(&arena, catalog, entry, definition, &wishes[i], &table);
		check_table(&table);
	}
	json_object_put(definition);
}

/* The tables of the seeds, and those that the input has itself. */
static void
read_catalog(const char *body, size_t len, dv_meta_catalog *catalog)
{
	static const char known[] =
	"{\"value\":[{\"LogicalName\":\"new_t\",\"EntitySetName\":\"new_ts\"},"
	"{\"LogicalName\":\"account\",\"EntitySetName\":\"accounts\"}]}";
	struct json_object *answer = parse(body, len);
	size_t		i;

	dv_meta_catalog_read(&arena, answer, catalog);
	for (i = 0; i < catalog->n; i++)
		check_name(catalog->entries[i].local);
	if (catalog->n == 0)
	{
		json_object_put(answer);
		answer = parse(known, strlen(known));
		dv_meta_catalog_read(&arena, answer, catalog);
	}
	dv_meta_sides_read(&arena, answer, catalog);
	json_object_put(answer);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	dv_meta_catalog catalog;
	dv_meta_reader reader;
	char	   *body = malloc(size + 1);
	const char *text;
	size_t		len;

	memcpy(body, data, size);
	body[size] = '\0';
	read_catalog(body, size, &catalog);
	dv_meta_reader_begin(&reader, body, size);
	while (dv_meta_reader_next(&reader, &text, &len))
	{
		if (text < body || text + len > body + size || len < 2)
			wrong("a definition of something else");
		read_definition(&catalog, text, len);
	}
	if (dv_meta_reader_failed(&reader) == reader.done)
		wrong("neither the end nor a failure");
	free(body);
	while (npieces > 0)
		free(pieces[--npieces]);
	return 0;
}

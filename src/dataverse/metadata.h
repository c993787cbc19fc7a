/*-------------------------------------------------------------------------
 *
 * metadata.h
 *		Definitions of tables as the service tells them, and the foreign
 *		tables that they become.
 *
 * Pure but for json-c: needs neither PostgreSQL nor libcurl.  All memory
 * comes from the caller's arena and is never given back here.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_METADATA_H
#define DV_METADATA_H

#include <stdbool.h>
#include <stddef.h>

#include "dataverse/arena.h"
#include "dataverse/json_cursor.h"
#include "dataverse/type.h"

struct json_object;

/* Longest identifier, in bytes; PostgreSQL's NAMEDATALEN less one. */
#define DV_META_NAME_MAX 63

/* Most columns of a table; PostgreSQL's MaxHeapAttributeNumber. */
#define DV_META_COLUMNS_MAX 1600

/* Longest path below the service root: URLs have at most 32,768 characters. */
#define DV_META_PATH_MAX 32000

/* One side of an N:N relationship: how rows of "table" are tied to the other side's. */
typedef struct dv_meta_side
{
	const char *table;
	const char *column;			/* of the intersect table */
	const char *navigation;		/* collection of that table */
} dv_meta_side;

/* What is known of every table of the organisation. */
typedef struct dv_meta_entry
{
	const char *table;			/* logical name */
	const char *entity_set;
	const char *id;				/* MetadataId */
	const char *local;			/* name of the foreign table: short enough, and its alone */
	bool		internal;		/* IsPrivate */
	bool		intersect;
	bool		wanted;			/* for the caller */
	bool		met;			/* its definition has come; for the caller */
	dv_meta_side sides[2];		/* of an intersect table; {NULL} until they are read */
} dv_meta_entry;

/* Sorted by logical name; tables that the Web API does not serve are not there. */
typedef struct dv_meta_catalog
{
	dv_meta_entry *entries;
	size_t		n;
} dv_meta_catalog;

typedef struct dv_meta_column
{
	const char *name;			/* here: at most 63 bytes, its alone, not a system column's */
	const char *column;			/* logical name; NULL: follows another column */
	dv_type		type;
	const char *sql;			/* type here, without schema: "varchar(100)" */
	bool		text;			/* compared without case and accents there */
	bool		readonly;
	bool		primary;
	const char *navigation;		/* one for each target, with commas; NULL: none */
	const char *target;
	const char *target_set;		/* their entity sets */
	const char *ref_type_of;
	const char *label_of;
	const char *comment;
} dv_meta_column;

typedef struct dv_meta_table
{
	const char *table;
	const char *local;
	const char *entity_set;
	const char *primary_id;
	const char *table_type;
	const char *partition_id;	/* NULL: not partitioned */
	const char *keys;			/* active alternate keys, "a;b,c"; NULL: none */
	const char *comment;
	dv_meta_column *columns;
	int			ncolumns;
	bool		without_labels; /* though they were wanted: there would be too many columns */
} dv_meta_table;

typedef struct dv_meta_wish
{
	bool		labels;			/* columns with the formatted values too */
	bool		readonly;		/* columns that cannot be written too */
	bool		comments;
} dv_meta_wish;

/* The request for all tables, below the service root. */
extern const char *const dv_meta_catalog_path;

/* The same for the N:N relationships. */
extern const char *const dv_meta_sides_path;

/* The names of the solutions that people see; the ids of the tables of one. */
extern const char *const dv_meta_solutions_path;
extern const char *dv_meta_components_path(const dv_arena *arena, const char *solution);

/*
 * Reads the answers to these; the members "value" have come whole.  Sides
 * are read into the catalogue.
 */
extern void
			dv_meta_catalog_read(const dv_arena *arena, struct json_object *answer, dv_meta_catalog *catalog);
extern void
			dv_meta_sides_read(const dv_arena *arena, struct json_object *answer, dv_meta_catalog *catalog);

/* NULL: no such table.  Names are the service's: in lower case. */
extern dv_meta_entry *dv_meta_find(const dv_meta_catalog *catalog, const char *table);

/* By the name of the foreign table, at most 63 bytes of it. */
extern dv_meta_entry *dv_meta_find_local(const dv_meta_catalog *catalog, const char *local);

/*
 * The one request for the definitions of the tables that are wanted.  It
 * names them, or those that are not wanted, whichever takes less room; when
 * neither has room in a URL it asks for all.
 */
extern const char *dv_meta_definitions_path(const dv_arena *arena, const dv_meta_catalog *catalog,
											const dv_meta_wish *wish);

/*
 * Walks over the definitions in the answer without reading it whole, which
 * can have hundreds of megabytes, most of them nulls.
 */
typedef struct dv_meta_reader
{
	dv_cursor	json;
	bool		begun;
	bool		done;
} dv_meta_reader;

/* A NUL stands behind the text. */
extern void dv_meta_reader_begin(dv_meta_reader *reader, const char *text, size_t len);

/* The next definition, as JSON text; false at the end, and when the text is not as it should be. */
extern bool dv_meta_reader_next(dv_meta_reader *reader, const char **text, size_t *len);

/* After the last one: is this not, or not all of, what was asked for? */
extern bool dv_meta_reader_failed(const dv_meta_reader *reader);

/* The entry that a definition belongs to; NULL: none. */
extern dv_meta_entry *dv_meta_entry_of(const dv_meta_catalog *catalog, struct json_object *definition);

/* The foreign table that a definition becomes. */
extern void dv_meta_table_read(const dv_arena *arena, const dv_meta_catalog *catalog,
							   const dv_meta_entry *entry, struct json_object *definition,
							   const dv_meta_wish *wish, dv_meta_table *table);

#endif							/* DV_METADATA_H */

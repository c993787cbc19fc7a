/*
 * metadata.h
 *		Definitions of tables, and the foreign tables that they become.
 *
 * Pure but for json-c: needs neither PostgreSQL nor libcurl.  All memory comes
 * from the caller's arena and is never freed by these functions.
 *
 * SPDX-License-Identifier: PostgreSQL
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

/* Maximum number of columns of a table; PostgreSQL's MaxHeapAttributeNumber. */
#define DV_META_COLUMNS_MAX 1600

/* Longest path below the service root: URLs have at most 32,768 characters. */
#define DV_META_PATH_MAX 32000

/*
 * Most tables in one request for definitions.  A table of a hundred columns
 * takes about a quarter of a megabyte of the answer.
 */
#define DV_META_CHUNK 50

/* Most languages of labels: the user's, and the one that all labels are made in. */
#define DV_META_LANGUAGES 2

/* One side of an N:N relationship: how rows of "table" are linked to the other side's. */
typedef struct dv_meta_side
{
	const char *table;
	const char *column;			/* of the intersect table */
	const char *navigation;		/* collection-valued navigation property of "table" */
} dv_meta_side;

/* The data about every table of the environment. */
typedef struct dv_meta_entry
{
	const char *table;			/* logical name */
	const char *entity_set;
	const char *id;				/* MetadataId */
	const char *local;			/* name of the foreign table, short enough and unique */
	bool		internal;		/* IsPrivate */
	bool		intersect;
	bool		wanted;			/* set by the caller: the definition is wanted */
	bool		met;			/* set by the caller: the definition has arrived */
	dv_meta_side sides[2];		/* of an intersect table; {NULL} until read */
} dv_meta_entry;

/* Sorted by logical name; without the tables that the Web API does not serve. */
typedef struct dv_meta_catalog
{
	dv_meta_entry *entries;
	size_t		n;
} dv_meta_catalog;

/* A value of a choice.  Those of a yes/no column are 0 and 1. */
typedef struct dv_meta_choice
{
	int			value;
	const char *label;			/* NULL if it has none */
} dv_meta_choice;

typedef struct dv_meta_column
{
	const char *name;			/* of the foreign table's column: short enough, unique, not a
								 * system column's */
	const char *column;			/* logical name; NULL if this column follows another one */
	dv_type		type;
	const char *sql;			/* PostgreSQL's type without schema: "varchar(100)" */
	bool		text;			/* the service compares it without regard to case and accents */
	bool		readonly;
	bool		update_only;	/* ignored by the service when a row is created */
	bool		create_only;	/* ignored by the service when a row is updated */
	bool		left_out;		/* unless columns that cannot be written are wanted */
	bool		primary;
	bool		primary_image;	/* the only image that a new row can have */
	const char *navigation;		/* one for each target, separated by commas; NULL if there are
								 * none */
	const char *target;
	const char *target_set;		/* their entity sets, separated by commas */
	const char *ref_type_of;
	const char *label_of;
	const char *helper_of;		/* logical name of the column for which this one is a helper */
	const char *source;			/* "calculated" …; NULL if it is a simple column */
	const char *comment;
	dv_meta_choice *choices;	/* only if comments are wanted */
	int			nchoices;
} dv_meta_column;

typedef struct dv_meta_table
{
	const char *table;
	const char *local;
	const char *entity_set;
	const char *primary_id;
	const char *table_type;
	const char *partition_id;	/* NULL if the table is not partitioned */
	const char *keys;			/* active alternate keys, "a;b,c"; NULL if there are none */
	const char *comment;
	dv_meta_column *columns;
	int			ncolumns;
	bool		without_labels; /* labels were left out because there would be too many columns */
} dv_meta_table;

typedef struct dv_meta_wish
{
	bool		labels;			/* include columns with the formatted values */
	bool		readonly;		/* include columns that cannot be written */
	bool		comments;		/* and choices with their labels */
	bool		bytes;			/* PostgreSQL counts the bytes of a text, not its characters */
	int			languages[DV_META_LANGUAGES];	/* codes (LCID) of the languages of labels */
	int			nlanguages;		/* 0: all that there are */
} dv_meta_wish;

/* The request for all tables, below the service root. */
extern const char *const dv_meta_catalog_path;

/* The same for the N:N relationships. */
extern const char *const dv_meta_sides_path;

/* Requests for the names of the visible solutions, and for the ids of the tables of one. */
extern const char *const dv_meta_solutions_path;
extern const char *dv_meta_components_path(const dv_arena *arena, const char *solution);

/*
 * Read the answers to these requests, whose member "value" must be complete.
 * Sides are read into the catalog.
 */
extern void
			dv_meta_catalog_read(const dv_arena *arena, struct json_object *answer, dv_meta_catalog *catalog);
extern void
			dv_meta_sides_read(const dv_arena *arena, struct json_object *answer, dv_meta_catalog *catalog);

/* Returns NULL if there is no such table.  Names are the service's, in lower case. */
extern dv_meta_entry *dv_meta_find(const dv_meta_catalog *catalog, const char *table);

/* Finds a table by the name of its foreign table, which is truncated to 63 bytes. */
extern dv_meta_entry *dv_meta_find_local(const dv_meta_catalog *catalog, const char *local);

/*
 * Requests for the languages in which labels are needed: a label in the user's
 * language, and the language of the organisation.  Each answer adds to the
 * languages of the wish.
 */
extern const char *const dv_meta_language_paths[DV_META_LANGUAGES];
extern void dv_meta_language_read(struct json_object *answer, dv_meta_wish *wish);

/*
 * Returns a request for the definitions of the next tables that are wanted and
 * have not been met, and their number; NULL if there are none left.  "next" is
 * the entry to begin with, at first 0, and is moved past the tables.
 */
extern const char *dv_meta_changes_path(const dv_arena *arena, const dv_meta_catalog *catalog,
										const dv_meta_wish *wish, size_t *next, int *ntables);

/*
 * The plain way, with several requests for each table.  The first one returns
 * its definition without properties that only columns of some type have.  Then
 * there is one for each kind of such columns, or NULL if it is not needed; its
 * answer is added to the definition.
 */
#define DV_META_CASTS 12

extern const char *dv_meta_table_path(const dv_arena *arena, const char *table,
									  const dv_meta_wish *wish);
extern const char *dv_meta_cast_path(const dv_arena *arena, const char *table,
									 struct json_object *definition, const dv_meta_wish *wish,
									 int number);
extern void dv_meta_cast_read(const dv_arena *arena, struct json_object *definition,
							  struct json_object *answer, int number);

/*
 * Iterates over the definitions in the answer without parsing all of it,
 * because it can have hundreds of megabytes, most of them nulls.
 */
typedef struct dv_meta_reader
{
	dv_cursor	json;
	bool		begun;
	bool		done;
} dv_meta_reader;

/* A NUL must follow the text. */
extern void dv_meta_reader_begin(dv_meta_reader *reader, const char *text, size_t len);

/*
 * Returns the next definition as JSON text.  False at the end, and if the
 * answer is malformed.
 */
extern bool dv_meta_reader_next(dv_meta_reader *reader, const char **text, size_t *len);

/* After the last one: returns true if the answer was malformed or incomplete. */
extern bool dv_meta_reader_failed(const dv_meta_reader *reader);

/* Returns the entry that a definition belongs to, or NULL. */
extern dv_meta_entry *dv_meta_entry_of(const dv_meta_catalog *catalog, struct json_object *definition);

/* The foreign table that a definition becomes. */
extern void dv_meta_table_read(const dv_arena *arena, const dv_meta_catalog *catalog,
							   const dv_meta_entry *entry, struct json_object *definition,
							   const dv_meta_wish *wish, dv_meta_table *table);

#endif							/* DV_METADATA_H */

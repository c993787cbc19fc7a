/*
 * captured.h
 *		Cached information about tables whose changes are captured.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CAPTURED_H
#define DV_CAPTURED_H

#include "executor/tuptable.h"
#include "fmgr.h"
#include "utils/hsearch.h"
#include "utils/relcache.h"

/* The values in a copy's entry in dataverse_private.copies, in the order of its columns in captured.c. */
#define DV_CAPTURED_STORED 3

/*
 * A table whose changes are captured.  This information outlives the statement.  It
 * is made anew when the table or the entry of its copy has changed, even while a
 * statement that captures changes calls functions of users, such as casts to JSON.
 * The old information stays until the transaction ends.
 */
typedef struct dv_captured
{
	int64		copy;
	AttrNumber	id;
	AttrNumber	version;
	AttrNumber	last;			/* of all attributes that are examined */
	int			ncolumns;		/* columns that are copied, without the id and the version */
	AttrNumber *columns;
	Datum		none;			/* an empty array */
	Size		set_size;		/* bytes of a set of columns, with a bit for each */

	/* private */
	MemoryContext context;
	Oid			target;			/* the table of the copy: this one, or one above it */
	Datum		stored[DV_CAPTURED_STORED]; /* the values in the entry of the copy, as they are
											 * stored */
	FmgrInfo   *to_jsonb;		/* for the type of each column; valid once fn_expr is set */
	Datum	   *names;
	MemoryContext set_context;
	HTAB	   *sets;			/* sets of columns, and their names as arrays */
} dv_captured;

/*
 * Returns the information about a table.  It is looked up once for each
 * statement.  "schema" is that of the extension.
 */
extern dv_captured *dv_captured_table(Relation rel, Oid schema);

/* Returns the names of the changed columns, whose bits are set. */
extern Datum dv_captured_names(dv_captured *table, const uint8 *changed);

/*
 * Returns the values of changed columns in a row, as jsonb[] in the order of their
 * names.  Calls functions of users.
 */
extern Datum dv_captured_values(const dv_captured *table, const uint8 *changed, TupleTableSlot *row);

#endif							/* DV_CAPTURED_H */

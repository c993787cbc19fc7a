/*
 * captured.h
 *		Tables whose changes are captured: what is known of them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CAPTURED_H
#define DV_CAPTURED_H

#include "executor/tuptable.h"
#include "fmgr.h"
#include "utils/hsearch.h"
#include "utils/relcache.h"

/* What the entry of a copy in dataverse.copies says, in the order of its columns in captured.c. */
#define DV_CAPTURED_STORED 3

/*
 * A table whose changes are captured.  What is known of it outlives the
 * statement; it is made anew when the table or the entry of its copy has changed,
 * even while a statement that captures changes calls functions of users, as casts to
 * JSON are.  What was known before stays until the transaction ends.
 */
typedef struct dv_captured
{
	int64		copy;
	AttrNumber	id;
	AttrNumber	version;
	AttrNumber	last;			/* of all attributes that are looked at */
	int			ncolumns;		/* those that are copied, without the id and the version */
	AttrNumber *columns;
	Datum		none;			/* an empty array */
	Size		set_size;		/* bytes of a set of columns, with a bit for each */

	/* private */
	MemoryContext context;
	Oid			target;			/* the table of the copy: this one, or one above it */
	Datum		stored[DV_CAPTURED_STORED]; /* what the entry of the copy said, as it is stored */
	FmgrInfo   *to_jsonb;		/* for the type of each column; valid once fn_expr is set */
	Datum	   *names;
	MemoryContext set_context;
	HTAB	   *sets;			/* sets of columns, and their names as arrays */
} dv_captured;

/*
 * Returns what is known of a table.  It is looked up once for each statement.
 * "schema" is that of the extension.
 */
extern dv_captured *dv_captured_table(Relation rel, Oid schema);

/* Returns the names of changed columns, which are those whose bits are set. */
extern Datum dv_captured_names(dv_captured *table, const uint8 *changed);

/*
 * Returns the values that changed columns have in a row, as jsonb[] in the order of
 * their names.  Calls functions of users.
 */
extern Datum dv_captured_values(const dv_captured *table, const uint8 *changed, TupleTableSlot *row);

#endif							/* DV_CAPTURED_H */

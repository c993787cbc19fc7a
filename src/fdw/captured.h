/*
 * captured.h
 *		Tables whose changes are captured: what is known of them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CAPTURED_H
#define DV_CAPTURED_H

#include "access/transam.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "utils/hsearch.h"
#include "utils/relcache.h"

/* What the entry of a copy in dataverse.copies says, in the order of its columns in captured.c. */
#define DV_CAPTURED_STORED 3

/*
 * A table whose changes are captured.  What is known of it outlives the
 * statement; it is made anew when the table or the entry of its copy has changed.
 */
typedef struct dv_captured
{
	Oid			relid;			/* hash key */
	int64		copy;
	AttrNumber	id;
	AttrNumber	version;
	AttrNumber	last;			/* of all attributes that are looked at */
	int			ncolumns;		/* those that are copied, without the id and the version */
	AttrNumber *columns;
	Datum		none;			/* an empty array */
	Size		set_size;		/* bytes of a set of columns, with a bit for each */

	/* private */
	bool		is_valid;		/* no change of the table has been announced since */
	MemoryContext context;		/* of what is known; NULL before the first use */
	Oid			target;			/* the table of the copy: this one, or one above it */
	Datum		stored[DV_CAPTURED_STORED]; /* what the entry of the copy said, as it is stored */
	FullTransactionId checked_in;	/* when it was last compared with the entry */
	CommandId	checked_at;
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

/*
 * Returns the names of changed columns, which are those whose bits are set.  The
 * array stays until the sets are forgotten, which is due when there is no room for
 * another one.
 */
extern Datum dv_captured_names(dv_captured *table, const uint8 *changed);
extern bool dv_captured_has_room(const dv_captured *table, const uint8 *changed);
extern void dv_captured_forget_sets(dv_captured *table);

/* Returns the values that changed columns have in a row, as jsonb[] in the order of their names. */
extern Datum dv_captured_values(const dv_captured *table, const uint8 *changed, TupleTableSlot *row);

#endif							/* DV_CAPTURED_H */

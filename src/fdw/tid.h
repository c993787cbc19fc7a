/*
 * tid.h
 *		The ctid of rows of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_TID_H
#define DV_TID_H

#include "access/sysattr.h"
#include "executor/tuptable.h"
#include "nodes/bitmapset.h"
#include "nodes/nodes.h"
#include "nodes/pg_list.h"
#include "storage/itemptr.h"

#include "fdw/relation.h"

/* In a set of columns in the form of pull_varattnos(). */
#define DV_TID_MEMBER (SelfItemPointerAttributeNumber - FirstLowInvalidHeapAttributeNumber)

/* Returns true if this is the ctid of a row of the table with number "relid" in the query. */
extern bool dv_is_tid(const Node *node, Index relid);

/* Returns true if the expressions refer to the ctid of a row. */
extern bool dv_reads_tid(List *expressions);

/*
 * Raises an error if rows of this table cannot have a ctid, or if a clause
 * compares it with anything but a ctid of this session.
 */
extern void dv_tid_check(const dv_relation *relation, Index relid, List *clauses);

/* Keeps every ctid that is read from now on known at least as long as this context lives. */
extern void dv_tid_hold(MemoryContext context);

/* The columns that determine the ctid of a row; "partition" may be 0. */
typedef struct dv_tid_source
{
	Oid			relid;
	AttrNumber	id;
	AttrNumber	partition;
} dv_tid_source;

extern dv_tid_source dv_tid_source_of(const dv_relation *relation);

/* The same as a set in the form of pull_varattnos(). */
extern Bitmapset *dv_tid_columns(const dv_relation *relation);

/* Gives the row in a slot, which must have the values of these columns, its ctid. */
extern void dv_slot_add_tid(const dv_tid_source *source, TupleTableSlot *slot);

/*
 * Returns the id of the row that has this ctid, or NULL if it does not belong
 * to the service, or belongs to another table.  Raises an error if the session
 * does not know the ctid.
 */
extern const uint8 *dv_tid_row(const dv_relation *relation, ItemPointer tid);

#endif							/* DV_TID_H */

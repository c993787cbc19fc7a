/*
 * rejects.h
 *		Rows that the service refused, in the table dataverse.rejects.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_REJECTS_H
#define DV_REJECTS_H

#include "executor/tuptable.h"

#include "fdw/relation.h"

/*
 * A row that was refused: either the JSON object that was sent, or, if it was
 * refused before it was sent, columns of its slot.  With neither it cannot be
 * tried again.
 */
typedef struct dv_reject
{
	const char *operation;		/* insert, update, upsert or delete */
	int64		ordinal;		/* which row of the statement, from 1; 0: not known */
	const uint8 *id;			/* 16 bytes, or NULL */
	const char *object;			/* whole, or NULL */
	size_t		object_len;
	TupleTableSlot *slot;		/* of the foreign table's columns, or NULL */
	List	   *columns;		/* attribute numbers */
	const char *code;			/* the service's, or NULL */
	int			sqlstate;
	const char *message;
} dv_reject;

/* Files it on behalf of the current user. */
extern void dv_rejects_file(const dv_relation *relation, const dv_reject *reject);

#endif							/* DV_REJECTS_H */

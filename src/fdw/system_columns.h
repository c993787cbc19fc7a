/*
 * system_columns.h
 *		System columns of rows of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SYSTEM_COLUMNS_H
#define DV_SYSTEM_COLUMNS_H

#include "nodes/execnodes.h"

#include "fdw/tid.h"

/* The system columns that a query uses. */
typedef struct dv_system_columns
{
	bool		headers;		/* columns that only the header of a tuple contains */
	bool		tids;
	dv_tid_source tid_source;
} dv_system_columns;

/* Returns the system columns that expressions refer to. */
extern dv_system_columns dv_system_columns_in(List *expressions, const dv_relation *relation,
											  const EState *estate);

/* Adds them to the row in a slot. */
extern void dv_slot_add_system(const dv_system_columns *columns, TupleTableSlot *slot);

#endif							/* DV_SYSTEM_COLUMNS_H */

/*
 * name_index.h
 *		Finds values by names, however many names there are.
 *
 * Pure: needs neither PostgreSQL nor libcurl.  All memory comes from the
 * caller's arena.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_NAME_INDEX_H
#define DV_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "dataverse/arena.h"

typedef struct dv_name_slot
{
	const char *name;			/* NULL: free */
	size_t		value;
} dv_name_slot;

/* An open hash table. */
typedef struct dv_name_index
{
	const dv_arena *arena;
	dv_name_slot *slots;
	size_t		size;			/* a power of two */
	size_t		n;
} dv_name_index;

extern dv_name_index dv_name_index_begin(const dv_arena *arena);

/*
 * Returns the value that belongs to the name, which the caller may change; NULL
 * if there is none.  The pointer is valid until the next name is added.
 */
extern size_t *dv_name_index_find(const dv_name_index *index, const char *name);

/*
 * Adds a name, which is not copied, unless the index already has it.  Returns true if it was
 * added.
 */
extern bool dv_name_index_add(dv_name_index *index, const char *name, size_t value);

#endif							/* DV_NAME_INDEX_H */

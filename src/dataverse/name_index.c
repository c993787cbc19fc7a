/*
 * name_index.c
 *		Finds values by names, however many names there are.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdint.h>
#include <string.h>

#include "dataverse/name_index.h"

#define FIRST_SIZE 64

/*
 * FNV-1a.  It starts from an address, which differs from one process to another,
 * so that names that share a slot cannot be chosen.
 */
static size_t
hash_of(const dv_name_index *index, const char *name)
{
	uint64_t	hash = UINT64_C(14695981039346656037) ^ (uint64_t) (uintptr_t) index->slots;

	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char) *name) * UINT64_C(1099511628211);
	return (size_t) (hash ^ (hash >> 32));
}

/* Returns the slot of the name, or the free one where it belongs. */
static dv_name_slot *
slot_of(const dv_name_index *index, const char *name)
{
	size_t		i = hash_of(index, name) & (index->size - 1);

	while (index->slots[i].name != NULL && strcmp(index->slots[i].name, name) != 0)
		i = (i + 1) & (index->size - 1);
	return &index->slots[i];
}

dv_name_index
dv_name_index_begin(const dv_arena *arena)
{
	dv_name_index index = {arena, NULL, FIRST_SIZE, 0};

	index.slots = dv_arena_zeroed(arena, FIRST_SIZE, sizeof(*index.slots));
	return index;
}

static void
grow(dv_name_index *index)
{
	dv_name_slot *old = index->slots;
	size_t		size = index->size;
	size_t		i;

	index->slots = dv_arena_zeroed(index->arena, 2 * size, sizeof(*old));
	index->size = 2 * size;
	for (i = 0; i < size; i++)
		if (old[i].name != NULL)
			*slot_of(index, old[i].name) = old[i];
}

size_t *
dv_name_index_find(const dv_name_index *index, const char *name)
{
	dv_name_slot *slot = slot_of(index, name);

	return slot->name != NULL ? &slot->value : NULL;
}

bool
dv_name_index_add(dv_name_index *index, const char *name, size_t value)
{
	dv_name_slot *slot;

	if (2 * index->n >= index->size)
		grow(index);
	slot = slot_of(index, name);
	if (slot->name != NULL)
		return false;
	slot->name = name;
	slot->value = value;
	index->n++;
	return true;
}

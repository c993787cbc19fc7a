/*
 * keys.c
 *		The keys of a statement's rows that are on their way, or were
 *		created a moment ago.
 *
 * Keys of created rows are kept in two tables.  New keys go into one of them;
 * when it has been in use for as long as keys must be remembered, the other
 * one is emptied and takes its place.  A key is also kept as long as another
 * row with the same key is on its way.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "client/keys.h"
#include "net/clock.h"

/* How long created rows are remembered; older ones are recognized by their time of creation. */
#define CREATED_SPAN (5 * DV_SECOND)

typedef struct key_entry
{
	uint64		key;
	int			rows;
	char		status;
} key_entry;

#define SH_PREFIX key_table
#define SH_ELEMENT_TYPE key_entry
#define SH_KEY_TYPE uint64
#define SH_KEY key
#define SH_HASH_KEY(tb, k) ((uint32) murmurhash32((uint32) ((k) ^ ((k) >> 32))))
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct dv_keys
{
	MemoryContext context;
	key_table_hash *under_way;
	key_table_hash *created;	/* NULL until a row is noted */
	key_table_hash *created_before;
	int64		since;			/* when "created" was begun */
};

dv_keys *
dv_keys_create(MemoryContext context)
{
	dv_keys    *keys = MemoryContextAllocZero(context, sizeof(*keys));

	keys->context = context;
	keys->under_way = key_table_create(context, 256, NULL);
	return keys;
}

void
dv_keys_hold(dv_keys *keys, uint64 key)
{
	bool		found;
	key_entry  *entry;

	if (key == 0)
		return;
	entry = key_table_insert(keys->under_way, key, &found);
	if (!found)
		entry->rows = 0;
	entry->rows++;
}

void
dv_keys_release(dv_keys *keys, uint64 key)
{
	key_entry  *entry = key != 0 ? key_table_lookup(keys->under_way, key) : NULL;

	if (entry != NULL && --entry->rows == 0)
		key_table_delete_item(keys->under_way, entry);
}

int
dv_keys_rows(const dv_keys *keys, uint64 key)
{
	const key_entry *entry = key != 0 ? key_table_lookup(keys->under_way, key) : NULL;

	return entry != NULL ? entry->rows : 0;
}

/* Empties the older table, and uses it for new keys. */
static void
take_turns(dv_keys *keys)
{
	key_table_hash *older = keys->created_before;
	key_table_iterator iterator;
	key_entry  *entry;
	bool		found;

	/* keep the younger one for another turn */
	key_table_start_iterate(older, &iterator);
	while ((entry = key_table_iterate(older, &iterator)) != NULL)
		if (dv_keys_rows(keys, entry->key) > 0)
			(void) key_table_insert(keys->created, entry->key, &found);
	keys->created_before = keys->created;
	keys->created = older;
	key_table_reset(older);
}

void
dv_keys_note_created(dv_keys *keys, uint64 key, int64 now)
{
	bool		found;

	if (key == 0)
		return;
	if (keys->created == NULL)
	{
		keys->created = key_table_create(keys->context, 256, NULL);
		keys->created_before = key_table_create(keys->context, 256, NULL);
		keys->since = now;
	}
	if (now - keys->since > CREATED_SPAN)
	{
		take_turns(keys);
		keys->since = now;
	}
	(void) key_table_insert(keys->created, key, &found);
}

bool
dv_keys_was_created(const dv_keys *keys, uint64 key)
{
	return key != 0 && keys->created != NULL &&
		(key_table_lookup(keys->created, key) != NULL ||
		 key_table_lookup(keys->created_before, key) != NULL);
}

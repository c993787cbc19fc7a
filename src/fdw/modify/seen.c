/*
 * seen.c
 *		The rows that a statement has changed so far, however many there are.
 *
 * A join can find a row several times, but a statement changes and counts it once.
 * PostgreSQL recognizes this by the row itself; we need a set of all rows that have
 * been changed.
 *
 * The newest keys are in memory.  When they take up work_mem, they are merged with
 * the keys of a sorted temporary file into a new file.  A lookup reads one block of
 * the file, since the first keys of all its blocks are in memory.  Writing the file
 * anew each time is about as fast as keeping several files and looking into each of
 * them, up to ten million keys.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/buffile.h"

#include "compat.h"
#include "fdw/modify/seen.h"

#define KEYS_OF_BLOCK ((int) (BLCKSZ / sizeof(dv_seen_key)))

typedef struct seen_entry
{
	dv_seen_key key;
	char		status;
} seen_entry;

#define SH_PREFIX keys
#define SH_ELEMENT_TYPE seen_entry
#define SH_KEY_TYPE dv_seen_key
#define SH_KEY key
#define SH_HASH_KEY(tb, k) ((uint32) murmurhash32((uint32) ((k).a ^ ((k).b >> 16))))
#define SH_EQUAL(tb, k, l) ((k).a == (l).a && (k).b == (l).b)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct dv_seen
{
	MemoryContext context;
	keys_hash  *newest;
	uint32		most;			/* maximum number of these */
	BufFile    *file;			/* the others, in order; NULL if there are none */
	BufFile    *merged;			/* the next file, while it is being written */
	int64		nkeys;			/* in the file */
	dv_seen_key *first;			/* key of each block of the file */
	dv_seen_key block[KEYS_OF_BLOCK];
};

static void
close_files(void *arg)
{
	dv_seen    *seen = arg;

	if (seen->file != NULL)
		BufFileClose(seen->file);
	if (seen->merged != NULL)
		BufFileClose(seen->merged);
}

dv_seen *
dv_seen_begin(void)
{
	dv_seen    *seen = palloc0(sizeof(*seen));
	MemoryContextCallback *callback = palloc0(sizeof(*callback));

	seen->context = CurrentMemoryContext;
	seen->newest = keys_create(seen->context, 1024, NULL);
	/* a table that has just grown is half empty */
	seen->most = (uint32) Min(work_mem * (Size) 1024 / sizeof(seen_entry) / 2, PG_INT32_MAX);
	callback->func = close_files;
	callback->arg = seen;
	MemoryContextRegisterResetCallback(seen->context, callback);
	return seen;
}

static int
compare(const void *a, const void *b)
{
	const dv_seen_key *k = a;
	const dv_seen_key *l = b;

	if (k->a != l->a)
		return k->a < l->a ? -1 : 1;
	return k->b == l->b ? 0 : k->b < l->b ? -1 : 1;
}

static void
find_block(dv_seen *seen, int64 block)
{
	if (BufFileSeekBlock(seen->file, block) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in the temporary file of changed rows")));
}

static void
read_keys(dv_seen *seen, dv_seen_key *keys, size_t n)
{
	if (BufFileRead(seen->file, keys, n * sizeof(*keys)) != n * sizeof(*keys))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read the temporary file of changed rows")));
}

static bool
is_in_file(dv_seen *seen, const dv_seen_key *key)
{
	int64		low = 0;
	int64		high = (seen->nkeys + KEYS_OF_BLOCK - 1) / KEYS_OF_BLOCK;
	size_t		n;

	/* find the block before the first one that begins with a greater key */
	while (low < high)
	{
		int64		middle = low + (high - low) / 2;

		if (compare(&seen->first[middle], key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	n = Min(seen->nkeys - (low - 1) * KEYS_OF_BLOCK, KEYS_OF_BLOCK);
	find_block(seen, low - 1);
	read_keys(seen, seen->block, n);
	return bsearch(key, seen->block, n, sizeof(*key), compare) != NULL;
}

/* Returns the keys in memory, in order. */
static dv_seen_key *
sort_newest(dv_seen *seen)
{
	dv_seen_key *keys = palloc_extended(sizeof(dv_seen_key) * seen->newest->members, MCXT_ALLOC_HUGE);
	keys_iterator iterator;
	const seen_entry *entry;
	size_t		n = 0;

	keys_start_iterate(seen->newest, &iterator);
	while ((entry = keys_iterate(seen->newest, &iterator)) != NULL)
		keys[n++] = entry->key;
	qsort(keys, n, sizeof(*keys), compare);
	return keys;
}

/* Moves the keys in memory to the file, which has none of them. */
static void
write_out(dv_seen *seen)
{
	/* the new file belongs to this context rather than to a resource owner */
	MemoryContext old = MemoryContextSwitchTo(seen->context);
	dv_seen_key *sorted = sort_newest(seen);
	const dv_seen_key *next = sorted;
	const dv_seen_key *end = sorted + seen->newest->members;
	dv_seen_key in_file;
	int64		left = seen->nkeys;
	int64		nkeys = left + (end - next);
	dv_seen_key *first = palloc_extended(sizeof(*first) * (nkeys / KEYS_OF_BLOCK + 1), MCXT_ALLOC_HUGE);
	int64		i;

	PrepareTempTablespaces();
	seen->merged = BufFileCreateTemp(true);
	if (left > 0)
	{
		find_block(seen, 0);
		read_keys(seen, &in_file, 1);
	}
	for (i = 0; i < nkeys; i++)
	{
		bool		is_new = left == 0 || (next < end && compare(next, &in_file) < 0);
		dv_seen_key key = is_new ? *next++ : in_file;

		CHECK_FOR_INTERRUPTS();
		if (i % KEYS_OF_BLOCK == 0)
			first[i / KEYS_OF_BLOCK] = key;
		BufFileWrite(seen->merged, &key, sizeof(key));
		if (!is_new && --left > 0)
			read_keys(seen, &in_file, 1);
	}

	if (seen->file != NULL)
	{
		BufFileClose(seen->file);
		pfree(seen->first);
	}
	seen->file = seen->merged;
	seen->merged = NULL;
	seen->first = first;
	seen->nkeys = nkeys;
	pfree(sorted);
	keys_reset(seen->newest);
	MemoryContextSwitchTo(old);
}

bool
dv_seen_before(dv_seen *seen, dv_seen_key key)
{
	bool		found;

	if (keys_lookup(seen->newest, key) != NULL || is_in_file(seen, &key))
		return true;
	(void) keys_insert(seen->newest, key, &found);
	if (seen->newest->members >= seen->most)
		write_out(seen);
	return false;
}

/*
 * seen.c
 *		The rows that a statement has changed so far, however many there are.
 *
 * A join can find a row several times, but a statement changes and counts it
 * once.  PostgreSQL sees that from the row; here, it takes a set of all rows
 * that have been changed.
 *
 * The newest keys are in memory.  When they take up work_mem, they are written to
 * a temporary file, in order: a run.  Two runs of the same level are merged to
 * one of the next level, so that there are few of them.  To look for a key takes
 * one block of each run, since the first keys of all blocks are in memory: a
 * thousandth of what is on disk.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/buffile.h"

#include "compat.h"
#include "fdw/seen.h"

#define KEYS_OF_BLOCK ((int) (BLCKSZ / sizeof(dv_seen_key)))
/* Runs of the last level would have more keys than there are rows anywhere. */
#define LEVELS 40

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

typedef struct run
{
	BufFile    *file;			/* NULL: there is no such run */
	int64		nkeys;
	dv_seen_key *first;			/* of each block */
} run;

struct dv_seen
{
	MemoryContext context;
	keys_hash  *keys;			/* the newest ones */
	uint32		most;			/* of these */
	run			runs[LEVELS];
	run			fresh;			/* that is being written */
	run			merged;			/* that is being merged into it */
	dv_seen_key block[KEYS_OF_BLOCK];
};

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
close_run(run *r)
{
	if (r->file != NULL)
		BufFileClose(r->file);
	if (r->first != NULL)
		pfree(r->first);
	memset(r, 0, sizeof(*r));
}

static void
close_files(void *arg)
{
	dv_seen    *seen = arg;
	int			i;

	for (i = 0; i < LEVELS; i++)
		close_run(&seen->runs[i]);
	close_run(&seen->fresh);
	close_run(&seen->merged);
}

dv_seen *
dv_seen_begin(void)
{
	dv_seen    *seen = palloc0(sizeof(*seen));
	MemoryContextCallback *callback = palloc0(sizeof(*callback));

	seen->context = CurrentMemoryContext;
	seen->keys = keys_create(seen->context, 1024, NULL);
	/* half of a table that has just grown is empty */
	seen->most = (uint32) (work_mem * (Size) 1024 / sizeof(seen_entry) / 2);
	callback->func = close_files;
	callback->arg = seen;
	MemoryContextRegisterResetCallback(seen->context, callback);
	return seen;
}

/*
 * Runs
 */

/* Begins to write a run.  Its file belongs to the set, rather than to a resource owner. */
static void
begin_run(dv_seen *seen, int64 most)
{
	MemoryContext old = MemoryContextSwitchTo(seen->context);

	PrepareTempTablespaces();
	seen->fresh.first = palloc_extended(sizeof(dv_seen_key) * (most / KEYS_OF_BLOCK + 1), MCXT_ALLOC_HUGE);
	seen->fresh.file = BufFileCreateTemp(true);
	MemoryContextSwitchTo(old);
}

static void
add_to_run(run *r, const dv_seen_key *key)
{
	dv_seen_key copy = *key;

	if (r->nkeys % KEYS_OF_BLOCK == 0)
		r->first[r->nkeys / KEYS_OF_BLOCK] = copy;
	BufFileWrite(r->file, &copy, sizeof(copy));
	r->nkeys++;
}

static void
read_keys(run *r, dv_seen_key *keys, size_t n)
{
	if (BufFileRead(r->file, keys, n * sizeof(*keys)) != n * sizeof(*keys))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read the temporary file of changed rows")));
}

static void
find_block(run *r, int64 block)
{
	if (BufFileSeekBlock(r->file, block) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in the temporary file of changed rows")));
}

static bool
is_in_run(dv_seen *seen, run *r, const dv_seen_key *key)
{
	int64		low = 0;
	int64		high = (r->nkeys + KEYS_OF_BLOCK - 1) / KEYS_OF_BLOCK;
	size_t		n;

	/* the block before the first one that begins with a greater key */
	while (low < high)
	{
		int64		middle = low + (high - low) / 2;

		if (compare(&r->first[middle], key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	n = Min(r->nkeys - (low - 1) * KEYS_OF_BLOCK, KEYS_OF_BLOCK);
	find_block(r, low - 1);
	read_keys(r, seen->block, n);
	return bsearch(key, seen->block, n, sizeof(*key), compare) != NULL;
}

/* Puts the fresh run and another one together. */
static void
merge(dv_seen *seen, run *other)
{
	run		   *from[2] = {&seen->merged, other};
	dv_seen_key keys[2];
	int64		left[2];
	int			i;

	seen->merged = seen->fresh;
	memset(&seen->fresh, 0, sizeof(seen->fresh));
	begin_run(seen, from[0]->nkeys + from[1]->nkeys);
	for (i = 0; i < 2; i++)
	{
		find_block(from[i], 0);
		read_keys(from[i], &keys[i], 1);
		left[i] = from[i]->nkeys;
	}
	while (left[0] > 0 || left[1] > 0)
	{
		CHECK_FOR_INTERRUPTS();
		i = left[0] == 0 || (left[1] > 0 && compare(&keys[1], &keys[0]) < 0) ? 1 : 0;
		add_to_run(&seen->fresh, &keys[i]);
		if (--left[i] > 0)
			read_keys(from[i], &keys[i], 1);
	}
	close_run(from[0]);
	close_run(from[1]);
}

/* Moves the keys in memory to a run. */
static void
write_out(dv_seen *seen)
{
	uint32		n = seen->keys->members;
	dv_seen_key *sorted = MemoryContextAllocHuge(seen->context, sizeof(dv_seen_key) * n);
	keys_iterator iterator;
	const seen_entry *entry;
	uint32		i = 0;
	int			level = 0;

	keys_start_iterate(seen->keys, &iterator);
	while ((entry = keys_iterate(seen->keys, &iterator)) != NULL)
		sorted[i++] = entry->key;
	qsort(sorted, n, sizeof(dv_seen_key), compare);
	keys_reset(seen->keys);
	begin_run(seen, n);
	for (i = 0; i < n; i++)
		add_to_run(&seen->fresh, &sorted[i]);
	pfree(sorted);
	while (seen->runs[level].file != NULL)
		merge(seen, &seen->runs[level++]);
	seen->runs[level] = seen->fresh;
	memset(&seen->fresh, 0, sizeof(seen->fresh));
}

bool
dv_seen_before(dv_seen *seen, dv_seen_key key)
{
	bool		found;
	int			level;

	(void) keys_insert(seen->keys, key, &found);
	for (level = 0; level < LEVELS && !found; level++)
		found = seen->runs[level].file != NULL && is_in_run(seen, &seen->runs[level], &key);
	if (seen->keys->members >= seen->most)
		write_out(seen);
	return found;
}

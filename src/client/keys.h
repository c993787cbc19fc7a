/*
 * keys.h
 *		The keys of a statement's rows that are on their way, or were
 *		created a moment ago.
 *
 * A key is a hash of a row's identity.  Two changes to the same row must not
 * be under way at the same time, so the keys of rows that are not settled are
 * kept.
 *
 * A user may supply two rows with the same id.  The time of creation shows
 * that an existing row is older than our attempt to create it, but only if it
 * is older by some seconds.  Therefore we remember the rows that the statement
 * has created in the last few seconds.  The memory for them depends on the
 * rate at which rows are written, not on their number.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_KEYS_H
#define DV_KEYS_H

typedef struct dv_keys dv_keys;

extern dv_keys *dv_keys_create(MemoryContext context);

/* Rows on their way.  A key of 0 stands for no key. */
extern void dv_keys_hold(dv_keys *keys, uint64 key);
extern void dv_keys_release(dv_keys *keys, uint64 key);

/* Returns the number of rows with this key that are on their way. */
extern int	dv_keys_rows(const dv_keys *keys, uint64 key);

/* Rows just created */
extern void dv_keys_note_created(dv_keys *keys, uint64 key, int64 now);
extern bool dv_keys_was_created(const dv_keys *keys, uint64 key);

#endif							/* DV_KEYS_H */

/*
 * keys.h
 *		Which rows of a statement are on their way, and which of them were
 *		created a moment ago, by their keys.
 *
 * A key is a hash of what identifies a row.  Two changes to the same row must
 * not be under way at the same time, so the keys of rows that are not settled
 * are kept here.
 *
 * A row with an id that the user supplied may be given twice.  The time of
 * creation shows that the row that exists is older than an attempt to create
 * it, but only if it is older by some seconds.  What the statement created
 * since is remembered here, and forgotten after a few seconds, so the memory
 * depends on the rate at which rows are written, not on their number.
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

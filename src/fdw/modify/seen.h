/*
 * seen.h
 *		The rows that a statement has changed so far, however many there are.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SEEN_H
#define DV_SEEN_H

/* The id of a row, or two hashes of its address. */
typedef struct dv_seen_key
{
	uint64		a;
	uint64		b;
} dv_seen_key;

typedef struct dv_seen dv_seen;

/* Allocated in the current memory context, which closes its files when it is deleted. */
extern dv_seen *dv_seen_begin(void);

/* Adds the key.  Returns true if it was seen before. */
extern bool dv_seen_before(dv_seen *seen, dv_seen_key key);

#endif							/* DV_SEEN_H */

/*-------------------------------------------------------------------------
 *
 * entry.h
 *		The table of application users: finding, making and reclaiming entries.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_ENTRY_H
#define DV_ENTRY_H

#include "pool/shared.h"

/* A set of views. */
typedef uint64 dv_view_set[DV_VIEWS_PER_USER * DV_SHARED_USERS_MAX / 64];

/* The views that some session uses.  Caller holds the lock. */
extern void dv_entry_find_in_use(dv_shared *shared, uint64 *set);

/* The hashes of the client ids, in the current memory context. */
typedef uint8 dv_entry_key[DV_KEY_LEN];

extern dv_entry_key *dv_entry_keys(const dv_pool_spec *spec);

/* Returns the index of a user, or -1 if there is no entry for it.  Caller holds the lock. */
extern int	dv_entry_find(dv_shared *shared, const uint8 *key);

/*
 * The views of a pool's users, made as far as they are not there, and marked
 * as in use by the backend whose row that is.  All of them, or (false) none:
 * then there is no room for the pool in this memory.  Caller holds the lock.
 */
extern bool dv_entry_open(dv_shared *shared, dv_shared_backend *mine, const dv_pool_spec *spec,
						  const dv_entry_key *keys, int *views, int64 now);

/* The most requests that one server lets a user have under way. */
extern int	dv_view_maximum(const dv_shared_view *view, int dop_hint);

/*
 * The most that any server lets it have: that of its rate controller.  Only
 * servers that were answered have a say, as soon as there is one: to know a
 * client id is not enough.
 */
extern int	dv_entry_maximum(dv_shared *shared, int user);

/*
 * Forgets what servers that have another URL now knew of the users of the former
 * one, unless a session uses it still.  Caller holds the lock.
 */
extern void dv_entry_forget_former(dv_shared *shared);

#endif							/* DV_ENTRY_H */

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

/*
 * What a mapping says of an application user: its identity in the service, and the
 * claim to be that user, with the credential for it.  Both are hashes that contain
 * how the service is reached, since answers of another proxy, authority, or token
 * endpoint are about other users.
 */
typedef struct dv_entry_key
{
	uint8		user[DV_KEY_LEN];
	uint8		claim[DV_KEY_LEN];
} dv_entry_key;

/* In the current memory context. */
extern dv_entry_key *dv_entry_keys(const dv_pool_spec *spec);

/*
 * Returns the index of the entry for this claim, or -1: that of the user, if the
 * claim is proven, and otherwise that of the claim itself.  Caller holds the lock.
 */
extern int	dv_entry_find(dv_shared *shared, const dv_entry_key *key);

/*
 * The service has accepted a request of this claim, whose entry that is.
 * Returns the entry of the user: the same one, unless the user had one already,
 * to which the counters are then added.  Caller holds the lock.
 */
extern int	dv_entry_prove(dv_shared *shared, int entry, const dv_entry_key *key);

/*
 * The server's view of the user with this number, marked as in use by the
 * backend, or -1 if there is no room for it.  Caller holds the lock.
 */
extern int	dv_entry_view(dv_shared *shared, dv_shared_backend *mine, const dv_pool_spec *spec,
						  int number, int entry);

/*
 * A claim has become a user, and less is left in its own entry: frees that if
 * nothing is.  Caller holds the lock.
 */
extern void dv_entry_leave(dv_shared *shared, int entry, int user);

/*
 * The views of a pool's users, made as far as they are not there, and marked
 * as in use by the backend whose row that is.  All of them, or (false) none:
 * then there is no room for the pool in this memory.  Caller holds the lock.
 */
extern bool dv_entry_open(dv_shared *shared, dv_shared_backend *mine, const dv_pool_spec *spec,
						  const dv_entry_key *keys, int *views, int64 now);

/* The most requests that one server lets a user have under way. */
extern int	dv_view_maximum(const dv_shared_view *view, int dop_hint);

/* The most that any server lets it have: that of its rate controller. */
extern int	dv_entry_maximum(dv_shared *shared, int user);

/*
 * Forgets what servers that have another URL now knew of the users of the former
 * one, unless a session uses it still.  Caller holds the lock.
 */
extern void dv_entry_forget_former(dv_shared *shared);

#endif							/* DV_ENTRY_H */

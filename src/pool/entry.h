/*
 * entry.h
 *		The table of application users: finding, making and reclaiming entries.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ENTRY_H
#define DV_ENTRY_H

#include "pool/shared.h"

/* A set of views. */
typedef uint64 dv_view_set[DV_VIEWS_PER_USER * DV_SHARED_USERS_MAX / 64];

/* The views that some session uses.  Caller holds the lock. */
extern void dv_entry_find_in_use(dv_shared *shared, uint64 *set);

/*
 * A mapping's statement about an application user: its environment, its identity there,
 * and the claim to be that user, with the credential for it.  All are hashes that
 * include how the service is reached, since answers of another proxy, authority,
 * or token endpoint are about other users.
 */
typedef struct dv_entry_key
{
	uint8		environment[DV_KEY_LEN];
	uint8		user[DV_KEY_LEN];
	uint8		claim[DV_KEY_LEN];
} dv_entry_key;

/* Allocates the result in the current memory context. */
extern dv_entry_key *dv_entry_keys(const dv_pool_spec *spec);

/*
 * Returns the index of the entry for this claim, or -1: the user's entry if the
 * claim is proven, otherwise the claim's own.  Caller holds the lock.
 */
extern int	dv_entry_find(dv_shared *shared, const dv_entry_key *key);

/*
 * Called when the service has accepted a request of the claim that this entry
 * belongs to.  Returns the entry of the user: the same one, unless the user
 * already had one, which then takes over the counters.  Caller holds the lock.
 */
extern int	dv_entry_prove(dv_shared *shared, int entry, const dv_entry_key *key, int64 now);

/*
 * Returns the server's view of the user with this number, marked as in use by
 * the backend, or -1 if there is no room for it.  Caller holds the lock.
 */
extern int	dv_entry_view(dv_shared *shared, dv_shared_backend *mine, const dv_pool_spec *spec,
						  int number, int entry);

/*
 * Called when a claim has become a user: frees the claim's own entry if
 * nothing is left in it.  Caller holds the lock.
 */
extern void dv_entry_leave(dv_shared *shared, int entry, int user);

/*
 * Finds or makes the views of a pool's users, and marks them as in use by the
 * backend with this row.  Returns false, without views, if this memory has no
 * room for all of them.  Caller holds the lock.
 */
extern bool dv_entry_open(dv_shared *shared, dv_shared_backend *mine, const dv_pool_spec *spec,
						  const dv_entry_key *keys, int *views, int64 now);

/* Returns the most requests that one server lets a user have under way. */
extern int	dv_view_maximum(const dv_shared_view *view, int dop_hint);

/* Returns the most that any server lets it have, which is the maximum of its rate controller. */
extern int	dv_entry_maximum(dv_shared *shared, int user);

/*
 * Removes the views of servers whose URL has changed since, unless a session
 * still uses them.  Caller holds the lock.
 */
extern void dv_entry_forget_former(dv_shared *shared);

#endif							/* DV_ENTRY_H */

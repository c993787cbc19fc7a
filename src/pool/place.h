/*
 * place.h
 *		A pool and the places of its users; the interface of pool.c and
 *		place.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PLACE_H
#define DV_PLACE_H

#include "pool/entry.h"

struct dv_pool
{
	dlist_node	node;			/* in dv_pools */
	dv_shared  *shared;			/* that of all backends, or this backend's private one */
	uint64		moves;			/* value of shared->moves when the places were last looked up */
	dv_pool_policy policy;
	dv_pool_spec spec;			/* with names as other databases read them */
	dv_entry_key *keys;
	const char *server_name;	/* as this database reads it, like these: */
	const char **names;
	dv_place   *places;			/* of each user */
	int		   *wanting;		/* the number of calls that wait for each user */
};

/* The pools of this backend. */
extern dlist_head dv_pools;

/* Raises an error if this memory has no row for the session. */
extern dv_shared_backend *dv_place_my_row(dv_shared *shared);

/* Returns the user's entry, or its view, or NULL if it has given way.  Caller holds the lock. */
extern dv_shared_user *dv_place_user(const dv_place *place);
extern dv_shared_view *dv_place_view(const dv_place *place);

/*
 * Looks up the places of the pool's users again, if any have changed.  Returns
 * false if the entry of one has given way.  Caller holds the lock.
 */
extern bool dv_place_look(dv_pool *pool);

/*
 * Finds new places for the users of a pool that has lost one: in this backend's
 * own memory, if shared memory has no room.  No call may be waiting in the pool.
 */
extern void dv_place_find(dv_pool *pool);

/* pool.c: shows in the backend's row whether its calls wait for the entry.  Caller holds the lock. */
extern void dv_pool_show_wanted(dv_shared *shared, dv_shared_backend *mine, int entry);

#endif							/* DV_PLACE_H */

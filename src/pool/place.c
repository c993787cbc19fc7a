/*
 * place.c
 *		The places of a pool's users in shared memory.
 *
 * The place of a user changes while its pool is open when a claim is proved,
 * in this session or another, and when its entry has to give way (entry.c).  A
 * lease keeps the place where its slot was taken.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "net/text.h"
#include "pool/place.h"

dlist_head	dv_pools = DLIST_STATIC_INIT(dv_pools);

dv_shared_backend *
dv_place_my_row(dv_shared *shared)
{
	int			mine = dv_shared_claimed(shared);

	if (mine < 0)
		elog(ERROR, "this session has no place in the pool");
	return dv_shared_backend_at(shared, mine);
}

dv_shared_user *
dv_place_user(const dv_place *place)
{
	dv_shared_user *user = &dv_shared_users(place->shared)[place->entry];

	return user->used && user->born == place->born ? user : NULL;
}

dv_shared_view *
dv_place_view(const dv_place *place)
{
	return dv_place_user(place) != NULL ? &dv_shared_views(place->shared)[place->view] : NULL;
}

/*
 * Opening and closing.
 */

static bool
is_open(const dv_shared *shared, int view)
{
	dlist_iter	iter;
	int			i;

	dlist_foreach(iter, &dv_pools)
	{
		const dv_pool *pool = dlist_container(dv_pool, node, iter.cur);

		for (i = 0; i < pool->spec.n; i++)
			if (pool->places[i].shared == shared && pool->places[i].view == view &&
				dv_place_user(&pool->places[i]) != NULL)
				return true;
	}
	return false;
}

/* The pool is not among dv_pools.  Caller holds the lock. */
static void
leave(dv_pool *pool)
{
	dv_shared_backend *mine = dv_place_my_row(pool->shared);
	int			i;

	for (i = 0; i < pool->spec.n; i++)
		if (!is_open(pool->shared, pool->places[i].view))
			dv_set_put(dv_shared_uses(pool->shared, mine), pool->places[i].view, false);
}

static void
close_pool(void *arg)
{
	dv_pool    *pool = arg;

	dlist_delete(&pool->node);
	if (dv_shared_claimed(pool->shared) < 0)
		return;
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	leave(pool);
	dv_entry_forget_former(pool->shared);
	LWLockRelease(&pool->shared->lock);
}

/* Copies the spec, with the names as other databases read them. */
static void
copy_spec(dv_pool *pool, const dv_pool_spec *spec)
{
	const char **common = palloc(spec->n * sizeof(char *));
	int			i;

	pool->policy = *spec->policy;
	pool->server_name = pstrdup(spec->server_name);
	pool->names = palloc(spec->n * sizeof(char *));
	for (i = 0; i < spec->n; i++)
	{
		pool->names[i] = pstrdup(spec->names[i]);
		common[i] = dv_text_common(spec->names[i], DV_NAME_LEN);
	}
	pool->spec = *spec;
	pool->spec.organisation = pstrdup(spec->organisation);
	pool->spec.server_name = dv_text_common(spec->server_name, DV_NAME_LEN);
	pool->spec.names = common;
	pool->spec.policy = &pool->policy;
	pool->spec.peer = NULL;
	pool->spec.client_ids = pool->spec.secrets = NULL;
}

static void
set_place(dv_pool *pool, int user, int view)
{
	dv_place   *place = &pool->places[user];

	place->shared = pool->shared;
	place->view = view;
	place->entry = dv_shared_views(pool->shared)[view].user;
	place->born = dv_shared_users(pool->shared)[place->entry].born;
}

/*
 * Finds places for all users in this memory.  Returns false, without places, if it has no room.
 */
static bool
enter(dv_pool *pool, dv_shared *shared)
{
	int		   *views = palloc(pool->spec.n * sizeof(int));
	bool		fits;
	int			i;

	pool->shared = shared;
	if (dv_shared_my_backend(shared) < 0)
		return false;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	fits = dv_entry_open(shared, dv_place_my_row(shared), &pool->spec, pool->keys, views, dv_now());
	for (i = 0; i < pool->spec.n && fits; i++)
		set_place(pool, i, views[i]);
	pool->moves = shared->moves;
	LWLockRelease(&shared->lock);
	pfree(views);
	return fits;
}

static void
enter_any(dv_pool *pool)
{
	if (!enter(pool, dv_shared_attach()) && !enter(pool, dv_shared_private(false)))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many application users"),
				 errdetail("Without shared memory, a session can use at most %d.", pool->shared->nusers),
				 errhint("Add \"dataverse_fdw\" to \"shared_preload_libraries\", or raise \"dataverse_fdw.max_application_users\", and restart the server.")));
}

dv_pool *
dv_pool_open(const dv_pool_spec *spec, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_pool    *pool = palloc0(sizeof(*pool));
	MemoryContextCallback *callback = palloc0(sizeof(*callback));

	copy_spec(pool, spec);
	pool->keys = dv_entry_keys(spec);
	pool->places = palloc0(spec->n * sizeof(dv_place));
	pool->wanting = palloc0(spec->n * sizeof(int));
	MemoryContextSwitchTo(old);

	enter_any(pool);
	dlist_push_tail(&dv_pools, &pool->node);
	callback->func = close_pool;
	callback->arg = pool;
	MemoryContextRegisterResetCallback(context, callback);
	return pool;
}

/*
 * Moving.
 */

/* Returns false if there is no room for the server's view of the entry. */
static bool
move(dv_pool *pool, int user, int entry)
{
	dv_shared_backend *mine = dv_place_my_row(pool->shared);
	dv_place	before = pool->places[user];
	int			view = dv_entry_view(pool->shared, mine, &pool->spec, user, entry);

	if (view < 0)
		return false;
	set_place(pool, user, view);
	if (!is_open(pool->shared, before.view))
		dv_set_put(dv_shared_uses(pool->shared, mine), before.view, false);
	dv_pool_show_wanted(pool->shared, mine, before.entry);
	dv_pool_show_wanted(pool->shared, mine, entry);
	if (dv_place_user(&before) != NULL)
		dv_entry_leave(pool->shared, before.entry, entry);
	return true;
}

bool
dv_place_look(dv_pool *pool)
{
	int			i;

	if (pool->moves == pool->shared->moves)
		return true;
	for (i = 0; i < pool->spec.n; i++)
	{
		int			entry = dv_entry_find(pool->shared, &pool->keys[i]);

		if (entry >= 0 &&
			(entry != pool->places[i].entry || dv_place_user(&pool->places[i]) == NULL))
			(void) move(pool, i, entry);
		if (dv_place_user(&pool->places[i]) == NULL)
			return false;
	}
	pool->moves = pool->shared->moves;
	return true;
}

void
dv_place_find(dv_pool *pool)
{
	dlist_delete(&pool->node);
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	leave(pool);
	LWLockRelease(&pool->shared->lock);
	dlist_push_tail(&dv_pools, &pool->node);
	enter_any(pool);
}

void
dv_pool_prove(dv_pool *pool, int user)
{
	const dv_place *place = &pool->places[user];

	/* no lock: an entry stays proven, and one that has given way is looked up again */
	if (dv_shared_users(pool->shared)[place->entry].proven)
		return;
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	if (dv_place_user(place) != NULL)
	{
		int			entry = dv_entry_prove(pool->shared, place->entry, &pool->keys[user], dv_now());

		if (entry != place->entry)
			(void) move(pool, user, entry);
	}
	LWLockRelease(&pool->shared->lock);
}

/*-------------------------------------------------------------------------
 *
 * entry.c
 *		The table of application users: finding, making and reclaiming entries.
 *
 * There is one entry for each application user of an organisation, found by
 * the hash of both, and a view of it for each server that uses it.  An entry
 * outlives its sessions: what is known about throttles and budgets is worth
 * keeping.  When room is needed, the entry goes that has been idle longest
 * among those that nobody uses and that have nothing left to tell: no
 * throttle, nothing in the service's window, nothing in the recent history.
 *
 * Each entry is on the account of a role.  A role whose mappings name so many
 * users has no more entries than that: what it used before gives way first,
 * told or not, so nobody fills the table by changing mappings.  An entry that
 * was opened for several roles is spared, because any role can name the
 * application user of another one, which would then forget its throttles.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "miscadmin.h"

#include "pool/entry.h"

/* How long what has happened to a user is of interest: the service's window, and the history. */
#define WINDOW			(300 * DV_SECOND)
#define HISTORY_LASTS	(3600 * DV_SECOND)

StaticAssertDecl(DV_KEY_LEN == PG_SHA256_DIGEST_LENGTH, "a key is a hash");

dv_entry_key *
dv_entry_keys(const dv_pool_spec *spec)
{
	dv_entry_key *keys = palloc(spec->n * sizeof(dv_entry_key));
	int			i;

	for (i = 0; i < spec->n; i++)
	{
		pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);

		/* with its NUL, so that no two pairs look alike */
		if (pg_cryptohash_init(ctx) < 0 ||
			pg_cryptohash_update(ctx, (const uint8 *) spec->organisation,
								 strlen(spec->organisation) + 1) < 0 ||
			pg_cryptohash_update(ctx, (const uint8 *) spec->client_ids[i],
								 strlen(spec->client_ids[i])) < 0 ||
			pg_cryptohash_final(ctx, keys[i], DV_KEY_LEN) < 0)
			elog(ERROR, "could not compute the hash of a client id: %s",
				 pg_cryptohash_error(ctx));
		pg_cryptohash_free(ctx);
	}
	return keys;
}

/* The DOP hint of an environment is for all its users together. */
int
dv_view_maximum(const dv_shared_view *view, int dop_hint)
{
	if (view->policy.dop_scope == DV_DOP_ENVIRONMENT && dop_hint > 0)
		dop_hint = Max(dop_hint / view->sharing, 1);
	return dv_rate_maximum(view->policy.max_parallel, dop_hint);
}

int
dv_entry_maximum(dv_shared *shared, int user)
{
	int			dop_hint = dv_shared_users(shared)[user].dop_hint;
	int			answered = 0;
	int			any = 0;
	int			i;

	for (i = 0; i < shared->nviews; i++)
	{
		const dv_shared_view *view = &dv_shared_views(shared)[i];

		if (!view->used || view->user != user)
			continue;
		any = Max(any, dv_view_maximum(view, dop_hint));
		if (view->answered)
			answered = Max(answered, dv_view_maximum(view, dop_hint));
	}
	return answered > 0 ? answered : any;
}

int
dv_entry_find(dv_shared *shared, const uint8 *key)
{
	const dv_shared_user *users = dv_shared_users(shared);
	int			i;

	for (i = 0; i < shared->nusers; i++)
		if (users[i].used && memcmp(users[i].key, key, DV_KEY_LEN) == 0)
			return i;
	return -1;
}

static int
find_view(dv_shared *shared, Oid serverid, int user)
{
	const dv_shared_view *views = dv_shared_views(shared);
	int			i;

	for (i = 0; i < shared->nviews; i++)
		if (views[i].used && views[i].user == user && views[i].serverid == serverid &&
			views[i].databaseid == MyDatabaseId)
			return i;
	return -1;
}

/*
 * Reclaiming.
 */

void
dv_entry_find_in_use(dv_shared *shared, uint64 *set)
{
	int			i;
	int			k;

	memset(set, 0, sizeof(dv_view_set));
	for (i = 0; i < shared->nbackends; i++)
	{
		dv_shared_backend *row = dv_shared_backend_at(shared, i);

		if (row->pid == 0)
			continue;
		for (k = 0; k < DV_VIEWS_PER_USER * shared->nwords; k++)
			set[k] |= dv_shared_uses(shared, row)[k];
	}
}

static bool
is_in_use(dv_shared *shared, int user, const uint64 *views_in_use)
{
	int			i;

	if (dv_shared_users(shared)[user].in_flight > 0)
		return true;
	for (i = 0; i < shared->nviews; i++)
		if (dv_set_has(views_in_use, i) && dv_shared_views(shared)[i].user == user)
			return true;
	return false;
}

static bool
has_nothing_to_tell(const dv_shared_user *user, int64 now)
{
	return now >= user->throttle.until && now - user->rate.last_activity >= WINDOW &&
		(user->throttle.last_at == 0 || now - user->throttle.last_at >= HISTORY_LASTS);
}

static bool
is_mine(const dv_shared_user *user, Oid roleid)
{
	return user->used && user->roleid == roleid && user->databaseid == MyDatabaseId;
}

/*
 * The user that has been idle longest of those that may be reclaimed, or -1.
 * A role's own ("roleid" is valid) may be even if they have something to tell,
 * unless they are others' as well.
 */
static int
reclaimable_user(dv_shared *shared, Oid roleid, const uint64 *views_in_use, int64 now)
{
	const dv_shared_user *users = dv_shared_users(shared);
	int			best = -1;
	int			i;

	for (i = 0; i < shared->nusers; i++)
	{
		if (!users[i].used || users[i].kept ||
			(OidIsValid(roleid) && !is_mine(&users[i], roleid)) ||
			((!OidIsValid(roleid) || users[i].common) && !has_nothing_to_tell(&users[i], now)) ||
			(best >= 0 && users[i].rate.last_activity >= users[best].rate.last_activity) ||
			is_in_use(shared, i, views_in_use))
			continue;
		best = i;
	}
	return best;
}

static bool
reclaim_user(dv_shared *shared, Oid roleid, const uint64 *views_in_use, int64 now)
{
	int			user = reclaimable_user(shared, roleid, views_in_use, now);
	int			i;

	if (user < 0)
		return false;
	for (i = 0; i < shared->nviews; i++)
		if (dv_shared_views(shared)[i].user == user)
			dv_shared_views(shared)[i].used = false;
	for (i = 0; i < shared->nhistory; i++)
		if (dv_shared_history(shared)[i].user == user)
			dv_shared_history(shared)[i].user = -1;
	dv_shared_users(shared)[user].used = false;
	return true;
}

/* Views of the server that the room is for are not reclaimed, but those of its users' other servers are. */
static bool
reclaim_view(dv_shared *shared, Oid serverid, const uint64 *views_in_use)
{
	dv_shared_view *views = dv_shared_views(shared);
	int			best = -1;
	int			i;

	for (i = 0; i < shared->nviews; i++)
		if (views[i].used && views[i].in_flight == 0 && !dv_set_has(views_in_use, i) &&
			(views[i].serverid != serverid || views[i].databaseid != MyDatabaseId) &&
			(best < 0 || views[i].opened < views[best].opened))
			best = i;
	if (best >= 0)
		views[best].used = false;
	return best >= 0;
}

/*
 * After ALTER SERVER ... url the server's users are those of another service.
 * The views of the former one are kept as long as sessions use them; then they
 * would only be mistaken for those of the present one.
 */

static void
mark_former_views(dv_shared *shared, const dv_pool_spec *spec)
{
	dv_shared_view *views = dv_shared_views(shared);
	int			i;

	for (i = 0; i < shared->nviews; i++)
		if (views[i].used && views[i].serverid == spec->serverid &&
			views[i].databaseid == MyDatabaseId)
			views[i].former = strncmp(views[i].url, spec->organisation, DV_URL_LEN - 1) != 0;
}

void
dv_entry_forget_former(dv_shared *shared)
{
	dv_shared_view *views = dv_shared_views(shared);
	bool		any = false;
	dv_view_set in_use;
	int			i;

	for (i = 0; i < shared->nviews && !any; i++)
		any = views[i].used && views[i].former;
	if (!any)
		return;
	dv_entry_find_in_use(shared, in_use);
	for (i = 0; i < shared->nviews; i++)
		if (views[i].used && views[i].former && views[i].in_flight == 0 && !dv_set_has(in_use, i))
			views[i].used = false;
}

/*
 * Room.
 */

static int
count_users(dv_shared *shared, Oid roleid)
{
	const dv_shared_user *users = dv_shared_users(shared);
	int			n = 0;
	int			i;

	for (i = 0; i < shared->nusers; i++)
		n += OidIsValid(roleid) ? is_mine(&users[i], roleid) : users[i].used;
	return n;
}

static int
count_views(dv_shared *shared)
{
	int			n = 0;
	int			i;

	for (i = 0; i < shared->nviews; i++)
		n += dv_shared_views(shared)[i].used;
	return n;
}

/*
 * For so many users and views that are not there yet.  After a mapping was
 * changed, other sessions may still use what it named before: for them a role
 * may have as many again.
 */
static bool
make_room(dv_shared *shared, const dv_pool_spec *spec, int users, int views, int64 now)
{
	dv_view_set in_use;

	dv_entry_find_in_use(shared, in_use);
	if (!shared->is_private && users > 0)
	{
		int			entitled = Max(spec->entitled, spec->n);

		while (count_users(shared, spec->roleid) + users > entitled &&
			   reclaim_user(shared, spec->roleid, in_use, now))
			;
		if (count_users(shared, spec->roleid) + users > 2 * entitled)
			return false;
	}
	while (count_users(shared, InvalidOid) + users > shared->nusers)
		if (!reclaim_user(shared, InvalidOid, in_use, now))
			return false;
	while (count_views(shared) + views > shared->nviews)
		if (!reclaim_view(shared, spec->serverid, in_use))
			return false;
	return true;
}

/* What is there already is not reclaimed for the rest. */
static bool
find_room(dv_shared *shared, const dv_pool_spec *spec, const dv_entry_key *keys, int64 now)
{
	dv_shared_user *users = dv_shared_users(shared);
	int			missing_users = 0;
	int			missing_views = 0;
	bool		found;
	int			i;

	for (i = 0; i < spec->n; i++)
	{
		int			user = dv_entry_find(shared, keys[i]);

		if (user < 0)
			missing_users++;
		else
			users[user].kept = true;
		if (user < 0 || find_view(shared, spec->serverid, user) < 0)
			missing_views++;
	}
	found = (missing_users == 0 && missing_views == 0) ||
		make_room(shared, spec, missing_users, missing_views, now);
	for (i = 0; i < shared->nusers; i++)
		users[i].kept = false;
	return found;
}

/*
 * Making.
 */

static int
make_user(dv_shared *shared, const uint8 *key, int64 now)
{
	dv_shared_user *users = dv_shared_users(shared);
	int			user = 0;
	int			i;

	while (users[user].used)
		user++;
	memset(&users[user], 0, sizeof(users[user]));
	users[user].used = true;
	memcpy(users[user].key, key, DV_KEY_LEN);
	for (i = 0; i < DV_RATIONS; i++)
		users[user].remaining[i] = -1;
	dv_budget_init(&users[user].budget, now);
	return user;
}

static int
make_view(dv_shared *shared, Oid serverid, int user)
{
	dv_shared_view *views = dv_shared_views(shared);
	int			view = 0;

	while (views[view].used)
		view++;
	memset(&views[view], 0, sizeof(views[view]));
	views[view].used = true;
	views[view].user = user;
	views[view].databaseid = MyDatabaseId;
	views[view].serverid = serverid;
	return view;
}

/*
 * The mappings of several roles can name the same user.  Once the service has
 * accepted a request, what only the mapping says is left as it is for the
 * others, whether or not they can prove that they are that user.
 */
static void
fill_view(dv_shared *shared, int which, const dv_pool_spec *spec, int number)
{
	dv_shared_view *view = &dv_shared_views(shared)[which];

	strlcpy(view->server, spec->server_name, DV_NAME_LEN);
	strlcpy(view->url, spec->organisation, DV_URL_LEN);
	view->policy = *spec->policy;
	view->opened = ++shared->ticket;
	if (view->answered && view->roleid != spec->roleid)
		return;
	strlcpy(view->name, spec->names[number], DV_NAME_LEN);
	view->sharing = spec->n;
	view->roleid = spec->roleid;
}

bool
dv_entry_open(dv_shared *shared, dv_shared_backend *mine, const dv_pool_spec *spec,
			  const dv_entry_key *keys, int *views, int64 now)
{
	int			i;

	if (!find_room(shared, spec, keys, now))
		return false;
	for (i = 0; i < spec->n; i++)
	{
		int			user = dv_entry_find(shared, keys[i]);
		bool		is_new = user < 0;

		if (is_new)
			user = make_user(shared, keys[i], now);
		views[i] = find_view(shared, spec->serverid, user);
		if (views[i] < 0)
			views[i] = make_view(shared, spec->serverid, user);
		fill_view(shared, views[i], spec, i);
		dv_set_put(dv_shared_uses(shared, mine), views[i], true);
		if (!is_new && !is_mine(&dv_shared_users(shared)[user], spec->roleid))
			dv_shared_users(shared)[user].common = true;
		dv_shared_users(shared)[user].databaseid = MyDatabaseId;
		dv_shared_users(shared)[user].roleid = spec->roleid;
		if (is_new)
			dv_rate_init(&dv_shared_users(shared)[user].rate, &spec->policy->rate,
						 dv_entry_maximum(shared, user), now);
		else
			dv_rate_set_max(&dv_shared_users(shared)[user].rate, &spec->policy->rate,
							dv_entry_maximum(shared, user));
	}
	mark_former_views(shared, spec);
	dv_entry_forget_former(shared);
	return true;
}

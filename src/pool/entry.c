/*
 * entry.c
 *		The table of application users: finding, making and reclaiming entries.
 *
 * There is one entry for each application user of an organisation, and a view of it
 * for each server that uses it.  An entry belongs to a claim, which is one
 * credential of one user, until the service has accepted a request that was sent
 * with it.  Then it belongs to the user, and other claims that are proved to be the
 * same user join it.  Therefore made-up tokens, wrong secrets, and answers of peers
 * that only the owner of a server trusts cannot take a user's slots, throttle it, or
 * set it aside for others.
 *
 * An entry outlives its sessions, because its throttles and budgets are worth
 * keeping.  When room is needed, we reclaim the entry that has been idle longest
 * among those that no session uses and that hold nothing of interest: no throttle,
 * nothing in the service's window, nothing in the recent history.
 *
 * Each entry is on the account of a role.  A role has no more entries than its
 * mappings name users: the entries that it used before give way first, of interest
 * or not, so nobody can fill the table by changing mappings.  An entry that was
 * opened for several roles is spared.
 *
 * If the table is full of entries in use, the role that has the most loses one to a
 * role that would still have fewer: an entry of an unproved claim, or, if the role
 * has more than half of the table, any entry.  Sessions that used such an entry find
 * out when they next look for it, and go on without shared memory.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "miscadmin.h"

#include "pool/entry.h"
#include "pool/environment.h"
#include "pool/wait.h"

/* How long the events of a user are of interest: the service's window, and the history. */
#define WINDOW			(300 * DV_SECOND)
#define HISTORY_LASTS	(3600 * DV_SECOND)

StaticAssertDecl(DV_KEY_LEN == PG_SHA256_DIGEST_LENGTH, "a key is a hash");

/* Hashes texts, each with its NUL, so that no two lists look alike. */
static void
hash(uint8 *digest, const char *const *texts)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	bool		failed = pg_cryptohash_init(ctx) < 0;

	for (; *texts != NULL && !failed; texts++)
		failed = pg_cryptohash_update(ctx, (const uint8 *) *texts, strlen(*texts) + 1) < 0;
	if (failed || pg_cryptohash_final(ctx, digest, DV_KEY_LEN) < 0)
		elog(ERROR, "could not compute the hash of a client id: %s", pg_cryptohash_error(ctx));
	pg_cryptohash_free(ctx);
}

dv_entry_key *
dv_entry_keys(const dv_pool_spec *spec)
{
	dv_entry_key *keys = palloc(spec->n * sizeof(dv_entry_key));
	int			i;

	for (i = 0; i < spec->n; i++)
	{
		const char *texts[] = {
			spec->organisation, spec->peer, NULL, NULL, NULL
		};

		hash(keys[i].environment, texts);
		texts[2] = spec->client_ids[i];
		hash(keys[i].user, texts);
		texts[3] = spec->secrets[i];
		hash(keys[i].claim, texts);
	}
	return keys;
}

/* The DOP hint of an environment applies to all its users together. */
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
	int			maximum = 0;
	int			i;

	for (i = 0; i < shared->nviews; i++)
	{
		const dv_shared_view *view = &dv_shared_views(shared)[i];

		if (view->used && view->user == user)
			maximum = Max(maximum, dv_view_maximum(view, dop_hint));
	}
	return maximum;
}

static int
find_key(dv_shared *shared, const uint8 *key)
{
	const dv_shared_user *users = dv_shared_users(shared);
	int			i;

	for (i = 0; i < shared->nusers; i++)
		if (users[i].used && memcmp(users[i].key, key, DV_KEY_LEN) == 0)
			return i;
	return -1;
}

static bool
has_claim(const dv_shared_user *user, const uint8 *claim)
{
	int			i;

	for (i = 0; i < DV_CLAIMS; i++)
		if (memcmp(user->claims[i], claim, DV_KEY_LEN) == 0)
			return true;
	return false;
}

int
dv_entry_find(dv_shared *shared, const dv_entry_key *key)
{
	int			user = find_key(shared, key->user);

	if (user >= 0 && has_claim(&dv_shared_users(shared)[user], key->claim))
		return user;
	return find_key(shared, key->claim);
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

/* An account is that of a role in this database, or of this database's mappings for PUBLIC. */
static bool
is_on_account(const dv_shared_user *user, Oid databaseid, Oid roleid)
{
	return user->used && user->roleid == roleid && user->databaseid == databaseid;
}

static int
count_account(dv_shared *shared, Oid databaseid, Oid roleid)
{
	const dv_shared_user *users = dv_shared_users(shared);
	int			n = 0;
	int			i;

	for (i = 0; i < shared->nusers; i++)
		n += is_on_account(&users[i], databaseid, roleid);
	return n;
}

static int
count_users(dv_shared *shared)
{
	int			n = 0;
	int			i;

	for (i = 0; i < shared->nusers; i++)
		n += dv_shared_users(shared)[i].used;
	return n;
}

/*
 * Returns the reclaimable user that has been idle longest, or -1.  A role's
 * own users ("own" is given) are reclaimable even if they hold something of
 * interest, unless other roles use them, too.
 */
static int
reclaimable_user(dv_shared *shared, const dv_pool_spec *own, const uint64 *views_in_use, int64 now)
{
	const dv_shared_user *users = dv_shared_users(shared);
	int			best = -1;
	int			i;

	for (i = 0; i < shared->nusers; i++)
	{
		if (!users[i].used || users[i].kept ||
			(own != NULL && !is_on_account(&users[i], MyDatabaseId, own->roleid)) ||
			((own == NULL || users[i].common) && !has_nothing_to_tell(&users[i], now)) ||
			(best >= 0 && users[i].rate.last_activity >= users[best].rate.last_activity) ||
			is_in_use(shared, i, views_in_use))
			continue;
		best = i;
	}
	return best;
}

static void
free_user(dv_shared *shared, int user)
{
	int			i;

	for (i = 0; i < shared->nviews; i++)
		if (dv_shared_views(shared)[i].user == user)
			dv_shared_views(shared)[i].used = false;
	for (i = 0; i < shared->nhistory; i++)
		if (dv_shared_history(shared)[i].user == user)
			dv_shared_history(shared)[i].user = -1;
	dv_environment_leave(shared, user);
	dv_shared_users(shared)[user].used = false;
}

static bool
reclaim_user(dv_shared *shared, const dv_pool_spec *own, const uint64 *views_in_use, int64 now)
{
	int			user = reclaimable_user(shared, own, views_in_use, now);

	if (user >= 0)
		free_user(shared, user);
	return user >= 0;
}

/*
 * Returns the entry that gives way to a role that will then have "share" entries, or
 * -1.  It is one of the role that has the most entries, and more than "share".  A
 * proved user gives way only if its role has more than half of the table.
 */
static int
displaceable_user(dv_shared *shared, int share)
{
	const dv_shared_user *users = dv_shared_users(shared);
	int			most = share;
	int			best = -1;
	int			i;

	for (i = 0; i < shared->nusers; i++)
	{
		int			count;

		if (!users[i].used || users[i].kept)
			continue;
		count = count_account(shared, users[i].databaseid, users[i].roleid);
		if (users[i].proven && count <= shared->nusers / 2)
			continue;
		if (count > most || (best >= 0 && count == most && users[best].proven && !users[i].proven))
		{
			most = count;
			best = i;
		}
	}
	return best;
}

/*
 * Sessions that use the entry lose its slots; those that wait for one are woken, and so are those
 * that wait for other users of the environment.
 */
static bool
displace_user(dv_shared *shared, int share, int64 now)
{
	int			user = displaceable_user(shared, share);
	dv_shared_lease *leases;
	int			i;
	int			k;

	if (user < 0)
		return false;
	leases = dv_shared_leases(shared, user);
	for (i = 0; i < DV_USER_LEASES; i++)
		if (leases[i].ticket != 0)
			dv_shared_free_lease(shared, user, &leases[i]);
	dv_wait_forget(shared, user);
	dv_wait_freed(shared, user, 1, 0, now);
	for (i = 0; i < shared->nviews; i++)
		for (k = 0; k < shared->nbackends && dv_shared_views(shared)[i].user == user; k++)
			dv_set_put(dv_shared_uses(shared, dv_shared_backend_at(shared, k)), i, false);
	free_user(shared, user);
	shared->moves = ++shared->ticket;
	return true;
}

/*
 * Views of the server that needs the room are not reclaimed, but those of its users' other
 * servers are.
 */
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
 * After ALTER SERVER ... url, the server's users are those of another service.
 * The views of the former service are kept while sessions use them; after
 * that, they would only be mistaken for views of the present one.
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
count_views(dv_shared *shared)
{
	int			n = 0;
	int			i;

	for (i = 0; i < shared->nviews; i++)
		n += dv_shared_views(shared)[i].used;
	return n;
}

/*
 * Makes room for this many new users and views.  After a mapping was changed,
 * other sessions may still use the users that it named before, so a role may
 * have twice as many.
 */
static bool
make_room(dv_shared *shared, const dv_pool_spec *spec, int users, int views, int64 now)
{
	dv_view_set in_use;

	dv_entry_find_in_use(shared, in_use);
	if (!shared->is_private && users > 0)
	{
		int			entitled = Max(spec->entitled, spec->n);

		while (count_account(shared, MyDatabaseId, spec->roleid) + users > entitled &&
			   reclaim_user(shared, spec, in_use, now))
			;
		if (count_account(shared, MyDatabaseId, spec->roleid) + users > 2 * entitled)
			return false;
	}
	while (count_users(shared) + users > shared->nusers)
		if (!reclaim_user(shared, NULL, in_use, now) &&
			!displace_user(shared, count_account(shared, MyDatabaseId, spec->roleid) + users, now))
			return false;
	while (count_views(shared) + views > shared->nviews)
		if (!reclaim_view(shared, spec->serverid, in_use))
			return false;
	return true;
}

/*
 * Entries that exist, including those of users that a claim names, are not reclaimed for the
 * others.
 */
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
		int			user = dv_entry_find(shared, &keys[i]);
		int			named = find_key(shared, keys[i].user);

		if (named >= 0)
			users[named].kept = true;
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
make_user(dv_shared *shared, const dv_entry_key *key, int64 now)
{
	dv_shared_user *users = dv_shared_users(shared);
	int			user = 0;
	int			i;

	while (users[user].used)
		user++;
	memset(&users[user], 0, sizeof(users[user]));
	users[user].used = true;
	users[user].born = ++shared->ticket;
	memcpy(users[user].key, key->claim, DV_KEY_LEN);
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
 * The mappings of several roles can name the same user.  Attributes that only
 * mappings have come from the mapping that proved it first.
 */
static void
fill_view(dv_shared *shared, int which, const dv_pool_spec *spec, int number)
{
	dv_shared_view *view = &dv_shared_views(shared)[which];
	bool		is_new = view->opened == 0;

	strlcpy(view->server, spec->server_name, DV_NAME_LEN);
	strlcpy(view->url, spec->organisation, DV_URL_LEN);
	view->policy = *spec->policy;
	view->opened = ++shared->ticket;
	if (!is_new && dv_shared_users(shared)[view->user].proven && view->roleid != spec->roleid)
		return;
	strlcpy(view->name, spec->names[number], DV_NAME_LEN);
	view->sharing = spec->n;
	view->roleid = spec->roleid;
}

int
dv_entry_view(dv_shared *shared, dv_shared_backend *mine, const dv_pool_spec *spec, int number,
			  int entry)
{
	dv_shared_user *user = &dv_shared_users(shared)[entry];
	int			view = find_view(shared, spec->serverid, entry);

	if (view < 0)
	{
		dv_view_set in_use;

		dv_entry_find_in_use(shared, in_use);
		if (count_views(shared) == shared->nviews &&
			!reclaim_view(shared, spec->serverid, in_use))
			return -1;
		view = make_view(shared, spec->serverid, entry);
	}
	fill_view(shared, view, spec, number);
	dv_set_put(dv_shared_uses(shared, mine), view, true);
	if (!is_on_account(user, MyDatabaseId, spec->roleid))
		user->common = true;
	user->databaseid = MyDatabaseId;
	user->roleid = spec->roleid;
	dv_rate_set_max(&user->rate, &spec->policy->rate, dv_entry_maximum(shared, entry));
	return view;
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
		int			entry = dv_entry_find(shared, &keys[i]);
		bool		is_new = entry < 0;
		dv_shared_user *user;

		if (is_new)
			entry = make_user(shared, &keys[i], now);
		user = &dv_shared_users(shared)[entry];
		views[i] = dv_entry_view(shared, mine, spec, i, entry);
		if (!is_new)
			continue;
		user->common = false;
		dv_rate_init(&user->rate, &spec->policy->rate, dv_entry_maximum(shared, entry), now);
	}
	mark_former_views(shared, spec);
	dv_entry_forget_former(shared);
	return true;
}

/*
 * Proving.
 */

static void
add_claim(dv_shared_user *user, const uint8 *claim)
{
	if (has_claim(user, claim))
		return;
	memmove(user->claims[1], user->claims[0], (DV_CLAIMS - 1) * DV_KEY_LEN);
	memcpy(user->claims[0], claim, DV_KEY_LEN);
}

/* Adds the counters of a claim to those of its user. */
static void
move_counters(dv_shared_user *user, dv_shared_user *claim)
{
	int			i;

	for (i = 0; i < DV_KINDS; i++)
	{
		user->requests[i] += claim->requests[i];
		user->rows[i] += claim->rows[i];
	}
	for (i = 0; i < DV_RETRY_CAUSES; i++)
		user->retries[i] += claim->retries[i];
	user->failures += claim->failures;
	user->bytes_sent += claim->bytes_sent;
	user->bytes_received += claim->bytes_received;
	user->waited += claim->waited;
	memset(claim->requests, 0, sizeof(claim->requests));
	memset(claim->rows, 0, sizeof(claim->rows));
	memset(claim->retries, 0, sizeof(claim->retries));
	claim->failures = claim->bytes_sent = claim->bytes_received = 0;
	claim->waited = 0;
}

int
dv_entry_prove(dv_shared *shared, int entry, const dv_entry_key *key, int64 now)
{
	dv_shared_user *claim = &dv_shared_users(shared)[entry];
	int			known = find_key(shared, key->user);
	dv_shared_user *user;

	if (known < 0)
	{
		memcpy(claim->key, key->user, DV_KEY_LEN);
		claim->proven = true;
		dv_environment_join(shared, entry, key->environment);
		/* its useful limit may be higher than that of a claim */
		dv_wait_freed(shared, entry, 1, 0, now);
		known = entry;
	}
	user = &dv_shared_users(shared)[known];
	add_claim(user, key->claim);
	if (known != entry)
	{
		move_counters(user, claim);
		shared->moves = ++shared->ticket;
		/* those that wait for a slot of the claim may find one of the user */
		dv_wait_forget(shared, entry);
	}
	return known;
}

void
dv_entry_leave(dv_shared *shared, int entry, int user)
{
	dv_shared_user *users = dv_shared_users(shared);
	dv_view_set in_use;

	if (users[entry].proven)
		return;
	move_counters(&users[user], &users[entry]);
	dv_entry_find_in_use(shared, in_use);
	if (!is_in_use(shared, entry, in_use))
		free_user(shared, entry);
}

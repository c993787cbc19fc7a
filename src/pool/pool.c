/*-------------------------------------------------------------------------
 *
 * pool.c
 *		Slots of application users: taking, holding, giving back, waiting.
 *
 * A slot is a lease of its backend: counted in the user's in_flight, and
 * recorded, so that whatever happens to the backend it can be given back, by
 * whoever is first.  Whoever finds no slot leaves its mark in the backend's
 * row and sleeps on its latch; whoever gives one back wakes those that wait,
 * the ones that hold least first (wait.c).  Nobody waits with a slot in hand.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "miscadmin.h"

#include "net/text.h"
#include "pool/entry.h"
#include "pool/report.h"
#include "pool/wait.h"

#define SWEEP_INTERVAL	DV_SECOND

struct dv_pool
{
	dlist_node	node;			/* in pools */
	dv_shared  *shared;			/* that of all backends, or this backend's own */
	dv_pool_policy policy;
	char	   *server_name;
	int			n;
	const char **names;
	int		   *entry;			/* index in shared memory, for each user, */
	int		   *view;			/* and of the server's view of it */
	int		   *wanting;		/* calls that wait for it */
};

/* Those of this backend, and its leases that are waited for. */
static dlist_head pools = DLIST_STATIC_INIT(pools);
static dlist_head waiting = DLIST_STATIC_INIT(waiting);

/* In the order of dv_retry_cause. */
static const char *const cause_names[] = {
	"throttle", "connection", "timeout", "server", "token", "deadlock", "sql timeout", "new table"
};

const char *
dv_retry_cause_name(dv_retry_cause cause)
{
	return cause_names[cause];
}

static dv_shared_backend *
my_row(dv_shared *shared)
{
	int			mine = dv_shared_claimed(shared);

	if (mine < 0)
		elog(ERROR, "this session has no place in the pool");
	return dv_shared_backend_at(shared, mine);
}

static dv_shared_user *
user_at(const dv_pool *pool, int user)
{
	return &dv_shared_users(pool->shared)[pool->entry[user]];
}

static dv_shared_view *
view_at(const dv_pool *pool, int user)
{
	return &dv_shared_views(pool->shared)[pool->view[user]];
}

/*
 * Opening and closing.
 */

static bool
is_open(const dv_shared *shared, int view)
{
	dlist_iter	iter;
	int			i;

	dlist_foreach(iter, &pools)
	{
		const dv_pool *pool = dlist_container(dv_pool, node, iter.cur);

		for (i = 0; i < pool->n; i++)
			if (pool->shared == shared && pool->view[i] == view)
				return true;
	}
	return false;
}

static void
close_pool(void *arg)
{
	dv_pool    *pool = arg;
	int			i;

	dlist_delete(&pool->node);
	if (dv_shared_claimed(pool->shared) < 0)
		return;
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	for (i = 0; i < pool->n; i++)
		if (!is_open(pool->shared, pool->view[i]))
			dv_set_put(dv_shared_uses(pool->shared, my_row(pool->shared)), pool->view[i], false);
	dv_entry_forget_former(pool->shared);
	LWLockRelease(&pool->shared->lock);
}

/* The names as other databases read them, made before the lock is taken. */
static dv_pool_spec
with_common_names(const dv_pool_spec *spec)
{
	dv_pool_spec common = *spec;
	const char **names = palloc(spec->n * sizeof(char *));
	int			i;

	for (i = 0; i < spec->n; i++)
		names[i] = dv_text_common(spec->names[i], DV_NAME_LEN);
	common.names = names;
	common.server_name = dv_text_common(spec->server_name, DV_NAME_LEN);
	return common;
}

/* All of its users, or (false) none: then this memory is of no use for the pool. */
static bool
enter_users(dv_pool *pool, const dv_pool_spec *spec, const dv_entry_key *keys)
{
	dv_pool_spec common = with_common_names(spec);
	int64		now = dv_now();
	bool		fits;
	int			i;

	if (dv_shared_my_backend(pool->shared) < 0)
		return false;
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	fits = dv_entry_open(pool->shared, my_row(pool->shared), &common, keys, pool->view, now);
	for (i = 0; i < pool->n && fits; i++)
		pool->entry[i] = view_at(pool, i)->user;
	LWLockRelease(&pool->shared->lock);
	return fits;
}

dv_pool *
dv_pool_open(const dv_pool_spec *spec, MemoryContext context)
{
	dv_entry_key *keys = dv_entry_keys(spec);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_pool    *pool = palloc0(sizeof(*pool));
	MemoryContextCallback *callback = palloc0(sizeof(*callback));
	int			i;

	pool->n = spec->n;
	pool->policy = *spec->policy;
	pool->server_name = pstrdup(spec->server_name);
	pool->names = palloc(spec->n * sizeof(char *));
	for (i = 0; i < spec->n; i++)
		pool->names[i] = pstrdup(spec->names[i]);
	pool->entry = palloc0(spec->n * sizeof(int));
	pool->view = palloc0(spec->n * sizeof(int));
	pool->wanting = palloc0(spec->n * sizeof(int));
	MemoryContextSwitchTo(old);

	pool->shared = dv_shared_attach();
	if (!enter_users(pool, spec, keys))
	{
		pool->shared = dv_shared_private(false);
		if (!enter_users(pool, spec, keys))
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many application users"),
					 errdetail("There is room for %d without shared memory.",
							   pool->shared->nusers),
					 errhint("Add \"dataverse_fdw\" to \"shared_preload_libraries\", or raise \"dataverse_fdw.max_application_users\", and restart the server.")));
	}
	dlist_push_tail(&pools, &pool->node);
	callback->func = close_pool;
	callback->arg = pool;
	MemoryContextRegisterResetCallback(context, callback);
	pfree(keys);
	return pool;
}

int
dv_pool_size(const dv_pool *pool)
{
	return pool->n;
}

const char *
dv_pool_user_name(const dv_pool *pool, int user)
{
	return pool->names[user];
}

/*
 * Taking a slot.
 */

/*
 * When the service has said how long to wait and that is over, its word
 * stands above our reckoning: one request goes at once and tells.
 */
int64
dv_pool_not_before(dv_shared_user *entry, dv_kind kind, int64 now)
{
	if (entry->in_flight == 0 && entry->throttle.last_at != 0 &&
		entry->throttle.last_at >= entry->budget.last_answer)
		return 0;
	return dv_budget_not_before(&entry->budget, entry->in_flight,
								entry->rate.average[kind] / DV_SECOND, now);
}

/*
 * The rate bounds the requests of a user, whichever server they are of.  The
 * server's own ceiling bounds its own requests: compared with all of them, a
 * server with a low ceiling would starve beside one with a high one.
 */
static int
limit_of(const dv_pool *pool, int user, dv_kind kind, int64 now)
{
	dv_shared_user *entry = user_at(pool, user);
	dv_shared_view *view = view_at(pool, user);
	dv_binding	binding;
	int			limit;

	limit = dv_rate_limit(&entry->rate, &pool->policy.rate, kind, entry->in_flight_of, now,
						  &binding);
	if (dv_throttle_probing(&entry->throttle))
		limit = Min(limit, 1);
	return Min(limit, entry->in_flight + dv_view_maximum(view, entry->dop_hint) - view->in_flight);
}

static dv_candidate
candidate_of(const dv_pool *pool, int user, dv_kind kind, int64 now)
{
	dv_shared_user *entry = user_at(pool, user);
	dv_candidate c = {0};

	c.limit = limit_of(pool, user, kind, now);
	c.in_flight = entry->in_flight;
	c.last_used = entry->last_used;
	if (pool->policy.throttle_tracking)
		c.throttled_until = entry->throttle.until;
	if (pool->policy.budget_pacing && now >= c.throttled_until && c.in_flight < c.limit)
		c.not_before = dv_pool_not_before(entry, kind, now);
	return c;
}

/* How many more requests the user could have under way, of whatever kind and server. */
static int
room_of(const dv_pool *pool, int user, int64 now)
{
	const dv_shared_user *entry = user_at(pool, user);
	dv_binding	binding;
	int			limit = 0;
	int			kind;

	for (kind = 0; kind < DV_KINDS; kind++)
		limit = Max(limit, dv_rate_peek(&entry->rate, &pool->policy.rate, (dv_kind) kind, now,
										&binding));
	return limit - entry->in_flight;
}

/* One try to get a slot. */
typedef struct dv_try
{
	dv_pool    *pool;
	dv_shared_backend *mine;
	dv_lease   *lease;
	dv_kind		kind;
	int64		now;
	int			n;
	dv_candidate candidates[DV_POOL_USERS_MAX];
	int			user[DV_POOL_USERS_MAX];	/* in the pool, of each candidate */
} dv_try;

static int
entry_of(const dv_try *t, int candidate)
{
	return t->pool->entry[t->user[candidate]];
}

/* Candidates that this backend would try for if it were woken now. */
static uint64
wanted_by(const dv_try *t, dv_shared_backend *row)
{
	uint64		wanted = 0;
	int			i;

	for (i = 0; i < t->n; i++)
		if (dv_wait_may_use(t->pool->shared, row, entry_of(t, i), t->now))
			wanted |= UINT64CONST(1) << i;
	return wanted;
}

/* Leaves to others what is theirs. */
static void
contest(dv_try *t)
{
	dv_shared  *shared = t->pool->shared;
	dv_claim	claim = dv_wait_claim(t->mine);
	dv_contest	contest = dv_contest_begin(&claim, t->candidates, t->n, t->now);
	int			i;

	for (i = 0; i < shared->nbackends; i++)
	{
		dv_shared_backend *row = dv_shared_backend_at(shared, i);

		if (row == t->mine || row->pid == 0 || row->waiting == 0)
			continue;
		claim = dv_wait_claim(row);
		dv_contest_add(&contest, &claim, wanted_by(t, row));
	}
}

/*
 * Does the call leave nothing of this user?  What its kind or its server may
 * not use, another may.
 */
static bool
uses_up(const dv_try *t, int candidate, const dv_choice *choice)
{
	const dv_candidate *c = &t->candidates[candidate];
	int			taken = choice->kind == DV_CHOICE_USER && choice->user == candidate;

	if (choice->kind != DV_CHOICE_USER || dv_sendable(c, t->now) > taken)
		return false;
	return t->now < c->throttled_until || t->now < c->not_before ||
		room_of(t->pool, t->user[candidate], t->now) <= taken;
}

/*
 * What this call could not use may be of use to another: a user that has
 * changed since it last tried, or whose slots it leaves to others.
 */
static void
pass_on(const dv_try *t, const dv_choice *choice)
{
	int			i;

	for (i = 0; i < t->n; i++)
	{
		const dv_candidate *c = &t->candidates[i];
		int			entry = entry_of(t, i);

		if (c->reserved > 0)
			dv_wait_wake(t->pool->shared, entry, c->reserved, false, t->now);
		else if (t->lease->tried >= dv_shared_users(t->pool->shared)[entry].changed ||
				 uses_up(t, i, choice))
			continue;
		else
			dv_wait_wake(t->pool->shared, entry, 1,
						 t->now < c->throttled_until || t->now < c->not_before, t->now);
	}
}

/* Marks in the backend's row what its calls wait for, of this pool's user. */
static void
show_wanted(const dv_pool *pool, dv_shared_backend *mine, int user)
{
	bool		wanted = false;
	dlist_iter	iter;
	int			i;

	dlist_foreach(iter, &pools)
	{
		const dv_pool *other = dlist_container(dv_pool, node, iter.cur);

		for (i = 0; i < other->n && other->shared == pool->shared; i++)
			wanted = wanted || (other->entry[i] == pool->entry[user] && other->wanting[i] > 0);
	}
	dv_set_put(dv_shared_wants(mine), pool->entry[user], wanted);
}

static void
change_wanted(dv_lease *lease, dv_pool *pool, dv_shared_backend *mine, uint64 wanted)
{
	uint64		changed = lease->wanted ^ wanted;
	int			i;

	for (i = 0; i < pool->n && changed != 0; i++)
	{
		if ((changed >> i & 1) == 0)
			continue;
		pool->wanting[i] += (wanted >> i & 1) != 0 ? 1 : -1;
		show_wanted(pool, mine, i);
	}
	lease->wanted = wanted;
}

/*
 * A backend has tried when each of its calls has: a wake-up that came between
 * the tries of two of them is not spent by the second one.
 */
static void
sum_up_tries(dv_shared *shared, dv_shared_backend *mine)
{
	dlist_iter	iter;

	mine->tried = PG_UINT64_MAX;
	mine->next_try = 0;
	dlist_foreach(iter, &waiting)
	{
		const dv_lease *lease = dlist_container(dv_lease, node, iter.cur);

		if (lease->waits_in->shared != shared)
			continue;
		mine->tried = Min(mine->tried, lease->tried);
		if (lease->next_try != 0 && (mine->next_try == 0 || lease->next_try < mine->next_try))
			mine->next_try = lease->next_try;
	}
	if (mine->tried >= mine->woken_for)
		mine->woken_at = 0;
}

static void
enlist(const dv_try *t, uint64 allowed, const dv_choice *choice)
{
	dv_shared_backend *mine = t->mine;
	bool		left = false;
	int			i;

	if (t->lease->waits_in == NULL)
	{
		mine->waiting++;
		dlist_push_tail(&waiting, &t->lease->node);
	}
	t->lease->waits_in = t->pool;
	if (mine->waiting_since == 0)
		mine->waiting_since = t->now;
	change_wanted(t->lease, t->pool, mine, allowed);
	mine->heedless = mine->heedless || !t->pool->policy.throttle_tracking ||
		!t->pool->policy.budget_pacing;
	t->lease->next_try = choice->until;
	/* what it leaves to others it wants to hear of if they do not take it */
	for (i = 0; i < t->n; i++)
		left = left || t->candidates[i].reserved > 0;
	if (left)
		mine->woken_at = 0;
	else
		t->lease->tried = t->pool->shared->ticket;
	sum_up_tries(t->pool->shared, mine);
}

/* The call has got its slot, or has given up. */
static void
delist(dv_lease *lease, dv_shared_backend *mine, int64 now)
{
	if (lease->waits_in == NULL)
		return;
	change_wanted(lease, lease->waits_in, mine, 0);
	dlist_delete(&lease->node);
	sum_up_tries(lease->waits_in->shared, mine);
	lease->waits_in = NULL;
	lease->tried = 0;
	lease->next_try = 0;
	lease->busy_since = 0;
	mine->waiting--;
	/* what else it waits for it waits for at the end of the queue */
	mine->waiting_since = mine->waiting > 0 ? now : 0;
	if (mine->waiting == 0)
		mine->heedless = false;
}

/* Counts the lease; false: nobody knows where to record it. */
static bool
record(dv_lease *lease, int64 due)
{
	dv_pool    *pool = lease->pool;
	dv_shared_lease *records = dv_shared_leases(pool->shared, pool->entry[lease->user]);
	int			i = 0;

	while (i < DV_USER_LEASES && records[i].ticket != 0)
		i++;
	lease->slot = i < DV_USER_LEASES ? i : -1;
	if (lease->slot < 0)
		return false;
	records[i].ticket = lease->ticket;
	records[i].due = due;
	records[i].backend = dv_shared_claimed(pool->shared);
	records[i].view = pool->view[lease->user];
	records[i].kind = lease->kind;
	user_at(pool, lease->user)->in_flight++;
	user_at(pool, lease->user)->in_flight_of[lease->kind]++;
	view_at(pool, lease->user)->in_flight++;
	my_row(pool->shared)->leases++;
	return true;
}

/* The lease's record; NULL: its slot was lent on. */
static dv_shared_lease *
record_of(const dv_lease *lease)
{
	dv_pool    *pool = lease->pool;
	dv_shared_lease *record;

	if (lease->slot < 0)
		return NULL;
	record = &dv_shared_leases(pool->shared, pool->entry[lease->user])[lease->slot];
	return record->ticket == lease->ticket ? record : NULL;
}

static void
take(const dv_try *t, int chosen)
{
	dv_lease   *lease = t->lease;
	dv_shared_user *user = user_at(t->pool, chosen);

	delist(lease, t->mine, t->now);
	memset(lease, 0, sizeof(*lease));
	lease->pool = t->pool;
	lease->user = chosen;
	lease->kind = t->kind;
	lease->last_ticket = user->last_used;
	lease->ticket = ++t->pool->shared->ticket;
	user->last_used = lease->ticket;
	user->last_kind = t->kind;
	(void) record(lease, 0);
}

static void
find_candidates(dv_try *t, uint64 allowed)
{
	int			i;

	t->n = 0;
	for (i = 0; i < t->pool->n; i++)
	{
		if ((allowed >> i & 1) == 0)
			continue;
		t->candidates[t->n] = candidate_of(t->pool, i, t->kind, t->now);
		t->user[t->n++] = i;
	}
}

static dv_choice
try_acquire(dv_try *t, uint64 allowed)
{
	dv_selection strategy = t->pool->policy.selection;
	dv_choice	choice;

	find_candidates(t, allowed);
	choice = dv_select(t->candidates, t->n, strategy, t->now);
	if (choice.kind == DV_CHOICE_USER)
	{
		contest(t);
		choice = dv_select(t->candidates, t->n, strategy, t->now);
	}
	return choice;
}

/* So that slots of backends that are elsewhere, or dead, are used: how many were found. */
static int
free_slots(dv_try *t, int64 *until)
{
	static int64 last_sweep = 0;
	dv_shared  *shared = t->pool->shared;
	int			freed = 0;
	int			i;

	if (t->now - last_sweep > SWEEP_INTERVAL)
	{
		last_sweep = t->now;
		freed += dv_shared_sweep(shared);
	}
	for (i = 0; i < t->n; i++)
		if (t->candidates[i].in_flight >= t->candidates[i].limit)
			freed += dv_wait_lend(shared, entry_of(t, i), dv_shared_claimed(shared), t->now,
								  until);
	return freed;
}

/*
 * How long all slots may be taken.  A backend that has some of them itself waits
 * for its own requests, too, which have a limit of their own.
 */
static void
watch_timeout(dv_try *t, dv_choice *choice)
{
	int64		until;

	if (choice->kind != DV_CHOICE_BUSY || t->mine->leases > 0)
	{
		t->lease->busy_since = 0;
		return;
	}
	if (t->lease->busy_since == 0)
		t->lease->busy_since = dv_http_present();
	if (t->pool->policy.slot_timeout == 0)
		return;
	until = t->now + t->lease->busy_since + t->pool->policy.slot_timeout - dv_http_present();
	if (until <= t->now)
		choice->kind = DV_CHOICE_TIMEOUT;
	else if (choice->until == 0 || until < choice->until)
		choice->until = until;
}

dv_choice
dv_pool_acquire(dv_pool *pool, dv_kind kind, uint64 allowed, dv_lease *lease)
{
	dv_try		t = {.pool = pool, .lease = lease, .kind = kind, .mine = my_row(pool->shared)};
	dv_choice	choice;
	int64		until = 0;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	t.now = dv_now();
	choice = try_acquire(&t, allowed);
	if (choice.kind == DV_CHOICE_BUSY && free_slots(&t, &until) > 0)
		choice = try_acquire(&t, allowed);
	if (choice.kind == DV_CHOICE_BUSY && until != 0 &&
		(choice.until == 0 || until < choice.until))
		choice.until = until;
	pass_on(&t, &choice);
	if (choice.user >= 0)
		choice.user = t.user[choice.user];
	watch_timeout(&t, &choice);
	if (choice.kind == DV_CHOICE_USER)
		take(&t, choice.user);
	else
		enlist(&t, allowed, &choice);
	LWLockRelease(&pool->shared->lock);
	return choice;
}

int
dv_pool_room(dv_pool *pool, dv_kind kind, uint64 allowed)
{
	dv_try		t = {.pool = pool, .kind = kind, .mine = my_row(pool->shared)};
	int			room = 0;
	int			i;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	t.now = dv_now();
	find_candidates(&t, allowed);
	contest(&t);
	for (i = 0; i < t.n; i++)
		room += Max(dv_sendable(&t.candidates[i], t.now) - t.candidates[i].reserved, 0);
	LWLockRelease(&pool->shared->lock);
	return room;
}

/*
 * Giving back.
 */

/* Caller holds the lock. */
static void
give_back(dv_lease *lease, int64 now)
{
	dv_pool    *pool = lease->pool;
	dv_shared_user *user = user_at(pool, lease->user);
	dv_shared_lease *record = record_of(lease);

	if (record != NULL)
		dv_shared_free_lease(pool->shared, pool->entry[lease->user], record);
	/* a turn that was not used is not lost */
	if (!lease->sent && user->last_used == lease->ticket)
		user->last_used = lease->last_ticket;
	dv_wait_changed(pool->shared, pool->entry[lease->user],
					Max(room_of(pool, lease->user, now), 1), now);
	lease->pool = NULL;
}

int64
dv_pool_pause(const dv_pool *pool, int64 retry_after)
{
	if (retry_after < 0)
		retry_after = pool->policy.fallback_retry_after;
	return retry_after + dv_report_margin(&pool->policy);
}

static void
log_breaker(const dv_pool *pool, int user, dv_breaker_change change)
{
	if (change == DV_BREAKER_OPENED)
		ereport(LOG,
				(errmsg("circuit breaker of application user \"%s\" of server \"%s\" has opened",
						pool->names[user], pool->server_name),
				 errdetail("The user was throttled too often.  After a pause, one request at a time tries whether Dataverse accepts it again.")));
	else if (change == DV_BREAKER_CLOSED)
		ereport(LOG,
				(errmsg("circuit breaker of application user \"%s\" of server \"%s\" has closed",
						pool->names[user], pool->server_name)));
}

/* By all experience, how long a request takes at most. */
static int64
due_after(const dv_shared_user *user, dv_kind kind)
{
	return Max((int64) (2 * user->rate.average[kind]), DV_SECOND);
}

void
dv_lease_sent(dv_lease *lease)
{
	dv_shared  *shared = lease->pool->shared;
	dv_shared_user *user = user_at(lease->pool, lease->user);
	dv_shared_lease *record;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	lease->sent = true;
	lease->sent_at = dv_now();
	dv_rate_sent(&user->rate, user->in_flight);
	lease->mark = dv_budget_sent(&user->budget, lease->sent_at);
	record = record_of(lease);
	if (record != NULL)
		record->due = lease->sent_at + due_after(user, lease->kind);
	LWLockRelease(&shared->lock);
}

void
dv_lease_still_under_way(dv_lease *lease)
{
	dv_shared  *shared = lease->pool->shared;

	/* without the lock: it can have been lent on only while this backend was elsewhere */
	if (record_of(lease) != NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (record_of(lease) == NULL)
		(void) record(lease, dv_now() + due_after(user_at(lease->pool, lease->user), lease->kind));
	LWLockRelease(&shared->lock);
}

void
dv_lease_release(dv_lease *lease, const dv_lease_report *report)
{
	dv_pool    *pool = lease->pool;
	int64		now = dv_now();
	dv_breaker_change change;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	change = dv_report_apply(pool->shared, pool->view[lease->user], &pool->policy, lease, report,
							 now);
	give_back(lease, now);
	LWLockRelease(&pool->shared->lock);
	log_breaker(pool, lease->user, change);
}

/* It waits no longer; what it was woken for is for another.  Caller holds the lock. */
static void
give_up(dv_lease *lease, int64 now)
{
	dv_pool    *pool = lease->waits_in;
	uint64		wanted = lease->wanted;
	uint64		tried = lease->tried;
	int			i;

	delist(lease, my_row(pool->shared), now);
	for (i = 0; i < pool->n; i++)
		if ((wanted >> i & 1) != 0 && tried < user_at(pool, i)->changed)
			dv_wait_wake(pool->shared, pool->entry[i], 1, false, now);
}

void
dv_lease_drop(dv_lease *lease)
{
	dv_pool    *pool = lease->pool != NULL ? lease->pool : lease->waits_in;

	if (pool == NULL)
		return;
	/* on the way out everything was given back at once */
	if (dv_shared_claimed(pool->shared) >= 0)
	{
		LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
		if (lease->waits_in != NULL)
			give_up(lease, dv_now());
		if (lease->pool != NULL)
			give_back(lease, dv_now());
		LWLockRelease(&pool->shared->lock);
	}
	else if (lease->waits_in != NULL)
		dlist_delete(&lease->node);
	lease->pool = NULL;
	lease->waits_in = NULL;
}

void
dv_pool_show_aside(dv_pool *pool, int user, int64 until, bool whole, const char *reason)
{
	const char *common = dv_text_common(reason, DV_REASON_LEN);
	dv_shared_view *view;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	view = view_at(pool, user);
	view->aside_until = until;
	view->aside_whole = whole;
	strlcpy(view->aside_reason, common, DV_REASON_LEN);
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_hide_aside(dv_pool *pool, int user, int64 until)
{
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	if (view_at(pool, user)->aside_until == until)
		view_at(pool, user)->aside_until = 0;
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_count_retry(dv_pool *pool, int user, dv_retry_cause cause)
{
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	user_at(pool, user)->retries[cause]++;
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_count_wait(dv_pool *pool, int user, int64 microseconds)
{
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	user_at(pool, user)->waited += microseconds;
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_note_answer(dv_pool *pool, int user, int64 bytes, int64 duration)
{
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	dv_latency_note(&user_at(pool, user)->latency, bytes, duration);
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_note_rows(dv_pool *pool, int user, int64 rows, int64 bytes)
{
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	user_at(pool, user)->rows[DV_KIND_READ] += rows;
	dv_latency_note_rows(&user_at(pool, user)->latency, rows, bytes);
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_log_rate(const dv_pool *pool, int user)
{
	dv_rate		rate;

	if (!message_level_is_interesting(DEBUG2))
		return;
	LWLockAcquire(&pool->shared->lock, LW_SHARED);
	rate = user_at(pool, user)->rate;
	LWLockRelease(&pool->shared->lock);
	ereport(DEBUG2,
			(errmsg_internal("adaptive rate of application user \"%s\": %d of %d requests at once, %d successes since it changed, %lld throttles in total",
							 pool->names[user], rate.current, rate.max, rate.successes,
							 (long long) rate.total_throttles)));
}

dv_throttle
dv_pool_throttle(const dv_pool *pool, int user)
{
	dv_throttle throttle;

	LWLockAcquire(&pool->shared->lock, LW_SHARED);
	throttle = user_at(pool, user)->throttle;
	LWLockRelease(&pool->shared->lock);
	return throttle;
}

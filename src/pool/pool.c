/*
 * pool.c
 *		Slots of application users: taking, holding, giving back, waiting.
 *
 * A slot is held as a lease of its backend.  It is counted in the user's
 * in_flight and recorded, so that it can be given back whatever happens to the
 * backend, by the first process to notice.  A backend that finds no slot notes
 * this in its row and sleeps on its latch; a backend that gives one back wakes
 * those that wait, beginning with those that hold the fewest (wait.c).  No
 * call waits while it holds a slot.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/latch.h"

#include "pool/environment.h"
#include "pool/place.h"
#include "pool/report.h"
#include "pool/wait.h"

#define SWEEP_INTERVAL	DV_SECOND

/* This backend's leases that wait for a slot. */
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

/* The next functions are for users of a pool whose places have just been looked up. */

static dv_shared_user *
user_at(const dv_pool *pool, int user)
{
	return &dv_shared_users(pool->shared)[pool->places[user].entry];
}

static dv_shared_view *
view_at(const dv_pool *pool, int user)
{
	return &dv_shared_views(pool->shared)[pool->places[user].view];
}

int
dv_pool_size(const dv_pool *pool)
{
	return pool->spec.n;
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
 * When the wait that the service asked for is over, it overrides our estimate:
 * one request is sent at once, to find out.
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

static bool
heeds_useful_limit(const dv_pool_policy *policy)
{
	return policy->useful_limit && policy->rate.adaptive;
}

/* One try to get a slot. */
typedef struct dv_try
{
	dv_pool    *pool;
	dv_shared_backend *mine;
	dv_lease   *lease;
	dv_kind		kind;
	int64		now;
	uint64		tried;			/* ticket of the lease's previous try */
	bool		is_short;		/* the session has nothing else under way or waiting */
	bool		goes_beyond;	/* the limits, because it is short */
	int			n;
	dv_candidate candidates[DV_POOL_USERS_MAX];
	int			user[DV_POOL_USERS_MAX];	/* in the pool, of each candidate */
} dv_try;

/*
 * The rate limits the requests of a user for all servers.  The server's own
 * ceiling limits its own requests: if it were compared with all requests, a
 * server with a low ceiling would starve beside one with a high ceiling.
 *
 * A few short requests go beyond the rate and the hint, if there are loads: they would wait
 * much longer than they take.  They do not go beyond what the owner of the server
 * has set, or the service grants.
 */
static int
limit_of(const dv_try *t, int user)
{
	const dv_pool *pool = t->pool;
	dv_shared_user *entry = user_at(pool, user);
	dv_shared_view *view = view_at(pool, user);
	int			maximum = dv_view_maximum(view, entry->dop_hint);
	int			beyond = 0;
	dv_binding	binding;
	int			limit;

	limit = dv_rate_limit(&entry->rate, &pool->policy.rate, t->kind, entry->in_flight_of, t->now,
						  &binding);
	if (dv_throttle_probing(&entry->throttle))
		limit = Min(limit, 1);
	else if (t->goes_beyond && dv_wait_has_loads(pool->shared, pool->places[user].entry))
	{
		limit = Min(limit + DV_SHORT_BEYOND, DV_HARD_CEILING);
		beyond = DV_SHORT_BEYOND;
		if (pool->policy.max_parallel == 0)
			maximum = Min(maximum + DV_SHORT_BEYOND, DV_HARD_CEILING);
	}
	if (heeds_useful_limit(&pool->policy))
		limit = Min(limit, entry->in_flight + beyond +
					dv_environment_room(pool->shared, pool->places[user].entry, t->now));
	return Min(limit, entry->in_flight + maximum - view->in_flight);
}

static dv_candidate
candidate_of(const dv_try *t, int user)
{
	const dv_pool_policy *policy = &t->pool->policy;
	dv_shared_user *entry = user_at(t->pool, user);
	dv_candidate c = {0};

	c.limit = limit_of(t, user);
	c.in_flight = entry->in_flight;
	c.shares = heeds_useful_limit(policy) && entry->environment > 0;
	c.last_used = entry->last_used;
	if (policy->throttle_tracking)
		c.throttled_until = entry->throttle.until;
	if (policy->budget_pacing && t->now >= c.throttled_until && c.in_flight < c.limit)
	{
		c.not_before = dv_pool_not_before(entry, t->kind, t->now);
		if (t->goes_beyond && dv_budget_keeps(&entry->budget, entry->in_flight, t->now))
			c.not_before = Min(c.not_before, t->now);
	}
	return c;
}

/* Returns how many more requests the rate of the user admits, of any kind and server. */
static int
room_of(const dv_pool_policy *policy, const dv_shared_user *user, int64 now)
{
	dv_binding	binding;
	int			limit = 0;
	int			kind;

	for (kind = 0; kind < DV_KINDS; kind++)
		limit = Max(limit, dv_rate_peek(&user->rate, &policy->rate, (dv_kind) kind, now, &binding));
	return limit - user->in_flight;
}

static int
entry_of(const dv_try *t, int candidate)
{
	return t->pool->places[t->user[candidate]].entry;
}

/* Returns the candidates that this backend would try for if it were woken now. */
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

/* Returns the entry of a candidate that shares its slots with others, or -1. */
static int
sharing_entry(const dv_try *t)
{
	int			i;

	for (i = 0; i < t->n; i++)
		if (t->candidates[i].shares)
			return entry_of(t, i);
	return -1;
}

/* Returns how many of the slots that candidates share may be used. */
static int
shared_room(const dv_try *t)
{
	int			entry = sharing_entry(t);

	return entry >= 0 ? dv_environment_room(t->pool->shared, entry, t->now) :
		INT_MAX - DV_SHORT_BEYOND;
}

/* Leaves slots to other backends with a better claim. */
static void
contest(dv_try *t)
{
	dv_shared  *shared = t->pool->shared;
	dv_claim	claim = dv_wait_claim(t->mine, t->now);
	dv_contest	contest;
	dv_shared_backend *row;

	if (t->is_short && claim.waiting_since == 0)
		claim.waiting_since = t->now - DV_SHORT_AHEAD;
	contest = dv_contest_begin(&claim, t->candidates, t->n, t->now);
	contest.room = shared_room(t) + (t->goes_beyond ? DV_SHORT_BEYOND : 0);
	for (row = dv_wait_first(shared); row != NULL; row = dv_wait_next(shared, row))
	{
		/* what is beyond the limits is for short requests alone */
		if (row == t->mine || (t->goes_beyond && !dv_wait_is_short(row)))
			continue;
		claim = dv_wait_claim(row, t->now);
		if (dv_needier(&claim, &contest.mine))
			dv_contest_add(&contest, &claim, wanted_by(t, row));
	}
}

/* Returns what calls of the pool do not heed; the maximum, only if they are short. */
static int
heedless_of(const dv_pool_policy *policy)
{
	return (policy->throttle_tracking ? 0 : DV_OBSTACLE_THROTTLE) |
		(policy->budget_pacing ? 0 : DV_OBSTACLE_BUDGET) |
		(policy->max_parallel > 0 ? 0 : DV_OBSTACLE_MAXIMUM) |
		(policy->rate.adaptive ? 0 : DV_OBSTACLE_RATE) |
		(heeds_useful_limit(policy) ? 0 : DV_OBSTACLE_LATENCY);
}

/* Returns the time of the user's next request, if its budget is paced, or 0. */
static int64
pace_of(const dv_pool_policy *policy, dv_shared_user *user, dv_kind kind, int64 now)
{
	return policy->budget_pacing ? dv_pool_not_before(user, kind, now) : 0;
}

/* Returns what stops other calls for this user. */
static int
obstacles_to(const dv_pool_policy *policy, dv_shared *shared, int entry, dv_kind kind, int64 now)
{
	dv_shared_user *user = &dv_shared_users(shared)[entry];
	int			obstacles = dv_wait_obstacles(shared, entry, now);

	if (now < pace_of(policy, user, kind, now))
		obstacles |= DV_OBSTACLE_BUDGET;
	if (room_of(policy, user, now) <= 0)
		obstacles |= DV_OBSTACLE_RATE;
	return obstacles;
}

/*
 * Those that wait for the budget of a user try one after the other.  Called when it has
 * changed, or is left to the next one.
 */
static void
call_next(const dv_pool_policy *policy, dv_shared *shared, int entry, dv_kind kind, int obstacles,
		  int64 now)
{
	dv_shared_user *user = &dv_shared_users(shared)[entry];
	int64		when = pace_of(policy, user, kind, now);

	obstacles &= ~heedless_of(policy) | DV_OBSTACLE_MAXIMUM;
	if (when != 0 && (obstacles & ~DV_OBSTACLE_BUDGET) == 0)
		dv_wait_turn(shared, entry, Max(when, now), user->budget.spacing / 4, now);
}

/* Offers others what is free of a user. */
static void
offer(const dv_pool_policy *policy, dv_shared *shared, int entry, dv_kind kind, int64 now)
{
	dv_shared_user *user = &dv_shared_users(shared)[entry];
	int			obstacles;
	int			room = 1;

	if (dv_wait_first(shared) == NULL)
		return;
	obstacles = obstacles_to(policy, shared, entry, kind, now);
	if (pace_of(policy, user, kind, now) == 0)
		room = room_of(policy, user, now);
	if (heeds_useful_limit(policy))
		room = Min(room, dv_environment_room(shared, entry, now));
	dv_wait_freed(shared, entry, Max(room, 1), obstacles, now);
	call_next(policy, shared, entry, kind, obstacles, now);
}

/*
 * Returns when it is this session's turn.  Those ahead of it take one turn each, at the rate of
 * all users that they wait for.
 */
static int64
turn_of(const dv_try *t, int64 first)
{
	double		rate = 0;
	int			ahead = 0;
	int			i;

	for (i = 0; i < t->n; i++)
	{
		const dv_candidate *c = &t->candidates[i];
		int64		spacing = user_at(t->pool, t->user[i])->budget.spacing;

		/* when a throttle ends, there may be slots for all */
		if (t->now < c->throttled_until)
			return first;
		if (t->now >= c->not_before)
			continue;
		rate += 1.0 / (spacing > 0 ? spacing : DV_WAKE_GRACE);
		ahead = Max(ahead, dv_wait_ahead(t->pool->shared, entry_of(t, i), t->mine, t->now));
	}
	return first + (int64) (ahead / rate);
}

/*
 * Wakes others for what this call could not use, because of its kind, its server,
 * or its options: a user that has changed since it last tried, or whose slots it
 * leaves to others.  The call has taken what it can.
 */
static void
pass_on(const dv_try *t)
{
	const dv_pool_policy *policy = &t->pool->policy;
	dv_shared  *shared = t->pool->shared;
	int			i;

	if (dv_wait_first(shared) == NULL)
		return;
	for (i = 0; i < t->n; i++)
	{
		int			entry = entry_of(t, i);
		int			reserved = t->candidates[i].reserved;
		bool		taken = t->lease->pool != NULL && t->lease->user == t->user[i];
		int			obstacles;

		if (reserved > 0)
			dv_wait_wake(shared, entry, reserved, 0, t->mine, t->now);
		if (reserved > 0 || t->tried >= user_at(t->pool, t->user[i])->changed)
			continue;
		obstacles = obstacles_to(policy, shared, entry, t->kind, t->now);
		/* a turn is over when the request is sent */
		if (taken && t->candidates[i].not_before != 0)
			obstacles |= DV_OBSTACLE_BUDGET;
		dv_wait_wake(shared, entry, 1, obstacles, t->mine, t->now);
		if (!taken)
			call_next(policy, shared, entry, t->kind, obstacles, t->now);
	}
}

void
dv_pool_show_wanted(dv_shared *shared, dv_shared_backend *mine, int entry)
{
	bool		wanted = false;
	dlist_iter	iter;
	int			i;

	dlist_foreach(iter, &dv_pools)
	{
		const dv_pool *pool = dlist_container(dv_pool, node, iter.cur);

		for (i = 0; i < pool->spec.n && pool->shared == shared; i++)
			wanted = wanted || (pool->places[i].entry == entry && pool->wanting[i] > 0);
	}
	dv_set_put(dv_shared_wants(mine), entry, wanted);
}

static void
change_wanted(dv_lease *lease, dv_pool *pool, dv_shared_backend *mine, uint64 wanted)
{
	uint64		changed = lease->wanted ^ wanted;
	int			i;

	for (i = 0; i < pool->spec.n && changed != 0; i++)
	{
		if ((changed >> i & 1) == 0)
			continue;
		pool->wanting[i] += (wanted >> i & 1) != 0 ? 1 : -1;
		dv_pool_show_wanted(pool->shared, mine, pool->places[i].entry);
	}
	lease->wanted = wanted;
}

/*
 * A backend has tried when each of its calls has: the second of two calls does
 * not consume a wake-up that came between their tries.
 */
static void
sum_up_tries(dv_shared *shared, dv_shared_backend *mine)
{
	dlist_iter	iter;

	mine->tried = PG_UINT64_MAX;
	mine->next_try = 0;
	mine->paced = false;
	dlist_foreach(iter, &waiting)
	{
		const dv_lease *lease = dlist_container(dv_lease, node, iter.cur);

		if (lease->waits_in->shared != shared)
			continue;
		mine->tried = Min(mine->tried, lease->tried);
		if (lease->next_try != 0 && (mine->next_try == 0 || lease->next_try < mine->next_try))
			mine->next_try = lease->next_try;
		mine->paced |= lease->paced;
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
		if (mine->waiting++ == 0)
			dv_wait_add(t->pool->shared, dv_shared_claimed(t->pool->shared));
		dlist_push_tail(&waiting, &t->lease->node);
	}
	t->lease->waits_in = t->pool;
	if (mine->waiting_since == 0)
		mine->waiting_since = t->now;
	change_wanted(t->lease, t->pool, mine, allowed);
	mine->heedless |= heedless_of(&t->pool->policy);
	mine->heedful |= ~heedless_of(&t->pool->policy);
	t->lease->next_try = choice->until;
	t->lease->paced = choice->kind == DV_CHOICE_PACED;
	/* it wants to be woken if others do not take the slots that it leaves to them */
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
	dv_shared  *shared;

	if (lease->waits_in == NULL)
		return;
	shared = lease->waits_in->shared;
	change_wanted(lease, lease->waits_in, mine, 0);
	dlist_delete(&lease->node);
	sum_up_tries(shared, mine);
	lease->waits_in = NULL;
	lease->tried = 0;
	lease->next_try = 0;
	lease->paced = false;
	lease->busy_since = 0;
	if (--mine->waiting == 0)
		dv_wait_remove(shared, dv_shared_claimed(shared));
	/* for its other calls, it goes to the end of the queue */
	mine->waiting_since = mine->waiting > 0 ? now : 0;
	if (mine->waiting == 0)
		mine->heedless = mine->heedful = 0;
}

/* Counts the lease, unless its user is gone or there is no free record. */
static void
record(dv_lease *lease, int64 due)
{
	dv_place   *place = &lease->place;
	dv_shared_user *user = dv_place_user(place);
	dv_shared_lease *records = dv_shared_leases(place->shared, place->entry);
	int			i = 0;

	while (i < DV_USER_LEASES && records[i].ticket != 0)
		i++;
	lease->slot = i < DV_USER_LEASES && user != NULL ? i : -1;
	if (lease->slot < 0)
		return;
	records[i].ticket = lease->ticket;
	records[i].due = due;
	records[i].backend = dv_shared_claimed(place->shared);
	records[i].view = place->view;
	records[i].kind = lease->kind;
	memset(&records[i].useful, 0, sizeof(dv_useful_ticket));
	user->in_flight++;
	user->in_flight_of[lease->kind]++;
	dv_environment_taken(place->shared, place->entry);
	dv_place_view(place)->in_flight++;
	dv_place_my_row(place->shared)->leases++;
}

/* Returns the lease's record, or NULL if its slot was lent on or its user is gone. */
static dv_shared_lease *
record_of(const dv_lease *lease)
{
	dv_shared_lease *record;

	if (lease->slot < 0)
		return NULL;
	record = &dv_shared_leases(lease->place.shared, lease->place.entry)[lease->slot];
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
	lease->place = t->pool->places[chosen];
	lease->kind = t->kind;
	lease->beside_loads = t->is_short && dv_wait_has_loads(t->pool->shared, lease->place.entry);
	lease->passes = t->goes_beyond && dv_pool_not_before(user, t->kind, t->now) > t->now;
	lease->last_ticket = user->last_used;
	lease->ticket = ++t->pool->shared->ticket;
	user->last_used = lease->ticket;
	user->last_kind = t->kind;
	record(lease, 0);
}

static void
find_candidates(dv_try *t, uint64 allowed)
{
	int			i;

	t->n = 0;
	for (i = 0; i < t->pool->spec.n; i++)
	{
		if ((allowed >> i & 1) == 0)
			continue;
		t->candidates[t->n] = candidate_of(t, i);
		t->user[t->n++] = i;
	}
}

static dv_choice
select_user(dv_try *t, uint64 allowed)
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

static dv_choice
try_acquire(dv_try *t, uint64 allowed)
{
	dv_choice	choice;

	t->is_short = t->mine->leases == 0 && t->mine->waiting == (t->lease->waits_in != NULL);
	t->goes_beyond = false;
	choice = select_user(t, allowed);
	if (t->is_short && (choice.kind == DV_CHOICE_BUSY || choice.kind == DV_CHOICE_PACED))
	{
		t->goes_beyond = true;
		choice = select_user(t, allowed);
	}
	return choice;
}

/*
 * Lends slots that candidates share, even if users hold them that this pool, or this server, does
 * not have.  Returns their number.
 */
static int
lend_shared_slots(dv_try *t, int64 *until)
{
	dv_shared  *shared = t->pool->shared;
	const dv_shared_user *users = dv_shared_users(shared);
	int			environment = users[sharing_entry(t)].environment;
	int			freed = 0;
	int			i;

	for (i = 0; i < shared->nusers; i++)
		if (users[i].used && users[i].environment == environment)
			freed += dv_wait_lend(shared, i, dv_shared_claimed(shared), t->now, until);
	return freed;
}

/* Frees slots of backends that are elsewhere or dead, and returns their number. */
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
	if (shared_room(t) <= 0)
		freed += lend_shared_slots(t, until);
	return freed;
}

/*
 * Ends the wait if all slots have been taken for too long.  A backend that holds
 * some of them also waits for its own requests, which have a limit of their own.
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

/* Looks for the pool's users in other memory, where no call is waiting yet. */
static void
retreat(dv_pool *pool)
{
	dv_shared_backend *mine = dv_place_my_row(pool->shared);
	dlist_mutable_iter iter;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	dlist_foreach_modify(iter, &waiting)
	{
		dv_lease   *lease = dlist_container(dv_lease, node, iter.cur);

		if (lease->waits_in == pool)
			delist(lease, mine, dv_now());
	}
	LWLockRelease(&pool->shared->lock);
	dv_place_find(pool);
	/* those calls try again */
	SetLatch(MyLatch);
}

/* Acquires the lock, and makes sure that all users of the pool have their places. */
static void
lock_pool(dv_pool *pool)
{
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	while (!dv_place_look(pool))
	{
		LWLockRelease(&pool->shared->lock);
		retreat(pool);
		LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	}
}

dv_choice
dv_pool_acquire(dv_pool *pool, dv_kind kind, uint64 allowed, dv_lease *lease)
{
	dv_try		t = {.pool = pool, .lease = lease, .kind = kind};
	dv_choice	choice;
	int64		until = 0;

	lock_pool(pool);
	t.mine = dv_place_my_row(pool->shared);
	t.now = dv_now();
	t.tried = lease->tried;
	choice = try_acquire(&t, allowed);
	if (choice.kind == DV_CHOICE_BUSY && free_slots(&t, &until) > 0)
		choice = try_acquire(&t, allowed);
	if (choice.kind == DV_CHOICE_BUSY && until != 0 &&
		(choice.until == 0 || until < choice.until))
		choice.until = until;
	if (choice.kind == DV_CHOICE_PACED)
		choice.until = turn_of(&t, choice.until);
	if (choice.user >= 0)
		choice.user = t.user[choice.user];
	watch_timeout(&t, &choice);
	if (choice.kind == DV_CHOICE_USER)
		take(&t, choice.user);
	else
		enlist(&t, allowed, &choice);
	pass_on(&t);
	LWLockRelease(&pool->shared->lock);
	return choice;
}

int
dv_pool_room(dv_pool *pool, dv_kind kind, uint64 allowed)
{
	dv_try		t = {.pool = pool, .kind = kind};
	int			room = 0;
	int			shared = 0;
	int			i;

	lock_pool(pool);
	t.mine = dv_place_my_row(pool->shared);
	t.now = dv_now();
	find_candidates(&t, allowed);
	contest(&t);
	for (i = 0; i < t.n; i++)
		*(t.candidates[i].shares ? &shared : &room) +=
			Max(dv_sendable(&t.candidates[i], t.now) - t.candidates[i].reserved, 0);
	room += Min(shared, Max(shared_room(&t), 0));
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
	dv_shared  *shared = lease->place.shared;
	dv_place   *place = &pool->places[lease->user];
	dv_shared_user *user = dv_place_user(&lease->place);
	dv_shared_lease *record = record_of(lease);

	lease->pool = NULL;
	if (record != NULL)
		dv_shared_free_lease(shared, lease->place.entry, record);
	if (user == NULL)
		return;
	/* a turn that was not used is not lost */
	if (!lease->sent && user->last_used == lease->ticket)
		user->last_used = lease->last_ticket;
	offer(&pool->policy, shared, lease->place.entry, lease->kind, now);
	/* the claim has been proved meanwhile */
	if (place->shared == shared && place->entry != lease->place.entry &&
		dv_place_user(place) != NULL)
		dv_entry_leave(shared, lease->place.entry, place->entry);
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
				 errdetail("The user was throttled too often.  After a pause, one request at a time tests whether Dataverse accepts the user again.")));
	else if (change == DV_BREAKER_CLOSED)
		ereport(LOG,
				(errmsg("circuit breaker of application user \"%s\" of server \"%s\" has closed",
						pool->names[user], pool->server_name)));
}

/* Returns when the request should have ended by all experience. */
static int64
due_after(const dv_shared_user *user, dv_kind kind)
{
	return Max((int64) (2 * user->rate.average[kind]), DV_SECOND);
}

void
dv_lease_sent(dv_lease *lease)
{
	dv_shared  *shared = lease->place.shared;
	dv_shared_user *user;
	dv_shared_lease *record;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	lease->sent = true;
	lease->sent_at = dv_now();
	user = dv_place_user(&lease->place);
	if (user != NULL)
	{
		dv_rate_sent(&user->rate, user->in_flight);
		lease->mark = dv_budget_sent(&user->budget, lease->sent_at);
		lease->mark.beside_loads = lease->beside_loads;
		lease->mark.passed = lease->passes;
		record = record_of(lease);
		if (record != NULL)
		{
			record->due = lease->sent_at + due_after(user, lease->kind);
			dv_environment_sent(shared, lease->place.entry, record, lease->sent_at);
		}
		if (dv_wait_first(shared) != NULL)
			call_next(&lease->pool->policy, shared, lease->place.entry, lease->kind,
					  dv_wait_obstacles(shared, lease->place.entry, lease->sent_at), lease->sent_at);
	}
	LWLockRelease(&shared->lock);
}

void
dv_lease_still_under_way(dv_lease *lease)
{
	dv_shared  *shared = lease->place.shared;
	dv_shared_user *user;

	/* no lock: the slot can have been lent on only while this backend was elsewhere */
	if (record_of(lease) != NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	user = dv_place_user(&lease->place);
	if (user != NULL && record_of(lease) == NULL)
		record(lease, dv_now() + due_after(user, lease->kind));
	LWLockRelease(&shared->lock);
}

void
dv_lease_release(dv_lease *lease, const dv_lease_report *report)
{
	dv_pool    *pool = lease->pool;
	dv_shared  *shared = lease->place.shared;
	int64		now = dv_now();
	dv_breaker_change change = DV_BREAKER_SAME;
	const dv_shared_lease *record;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	record = record_of(lease);
	if (record != NULL)
		dv_environment_answered(shared, lease->place.entry, record, report);
	if (dv_place_user(&lease->place) != NULL)
		change = dv_report_apply(shared, lease->place.entry, &pool->policy, lease, report, now);
	give_back(lease, now);
	LWLockRelease(&shared->lock);
	log_breaker(pool, lease->user, change);
}

/* Stops waiting, and passes on a wake-up.  Caller holds the lock. */
static void
give_up(dv_lease *lease, int64 now)
{
	dv_pool    *pool = lease->waits_in;
	uint64		wanted = lease->wanted;
	uint64		tried = lease->tried;
	bool		paced = lease->paced;
	int			i;

	delist(lease, dv_place_my_row(pool->shared), now);
	for (i = 0; i < pool->spec.n; i++)
	{
		dv_shared_user *user = dv_place_user(&pool->places[i]);
		int			entry = pool->places[i].entry;

		if ((wanted >> i & 1) == 0 || user == NULL)
			continue;
		if (tried < user->changed)
			dv_wait_wake(pool->shared, entry, 1, 0, NULL, now);
		if (paced)
			call_next(&pool->policy, pool->shared, entry, user->last_kind, 0, now);
	}
}

/* When the session exits, everything has been given back already. */
static void
drop_in(dv_shared *shared, dv_lease *lease, void (*drop) (dv_lease *, int64))
{
	if (dv_shared_claimed(shared) < 0)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	drop(lease, dv_now());
	LWLockRelease(&shared->lock);
}

void
dv_lease_drop(dv_lease *lease)
{
	if (lease->waits_in != NULL)
		drop_in(lease->waits_in->shared, lease, give_up);
	if (lease->waits_in != NULL)
		dlist_delete(&lease->node);
	if (lease->pool != NULL)
		drop_in(lease->place.shared, lease, give_back);
	lease->pool = NULL;
	lease->waits_in = NULL;
}

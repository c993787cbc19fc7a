/*-------------------------------------------------------------------------
 *
 * pool.c
 *		Slots of application users: taking, holding, giving back, waiting.
 *
 * A slot is a lease of its backend: counted in the user's in_flight and in
 * the backend's own row, so that whatever happens to the backend it can be
 * given back.  Whoever finds no slot leaves its mark in the backend's row and
 * sleeps on its latch; whoever gives one back wakes those that wait, the
 * ones that hold least first.  Nobody waits with a slot in hand.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "compat.h"
#include "pool/pool.h"
#include "pool/shared.h"

#define SWEEP_INTERVAL	DV_SECOND

struct dv_pool
{
	dv_shared  *shared;			/* that of all backends, or this backend's own */
	uint32		bit;			/* of its organisation, in what a backend waits for */
	Oid			serverid;
	const char *server_name;
	dv_pool_policy policy;
	int64		yielding_since; /* a slot is left to others; 0: not */
	int			n;
	const char **names;
	int			entry[FLEXIBLE_ARRAY_MEMBER];	/* index in shared memory */
};

/* Which of them this backend waits in: an abort takes the mark away. */
static dv_shared *enlisted = NULL;

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

/*
 * Opening.
 */

static bool
same_user(const dv_shared_user *user, const char *organisation, const char *client_id)
{
	return user->used && strcmp(user->client_id, client_id) == 0 &&
		strcmp(user->organisation, organisation) == 0;
}

/* What the views show of the user's entry is this session's from now on. */
static void
take_over(const dv_pool *pool, int user)
{
	dv_shared_user *entry = user_at(pool, user);

	entry->databaseid = MyDatabaseId;
	entry->serverid = pool->serverid;
	entry->policy = pool->policy;
	strlcpy(entry->server, pool->server_name, DV_NAME_LEN);
	strlcpy(entry->name, pool->names[user], DV_NAME_LEN);
}

static void
make_entry(dv_pool *pool, int user, const char *organisation, const char *client_id, int64 now)
{
	dv_shared_user *entry = user_at(pool, user);
	int			i;

	memset(entry, 0, sizeof(*entry));
	entry->used = true;
	strlcpy(entry->organisation, organisation, DV_ORGANISATION_LEN);
	strlcpy(entry->client_id, client_id, DV_NAME_LEN);
	for (i = 0; i < DV_RATIONS; i++)
		entry->remaining[i] = -1;
	dv_rate_init(&entry->rate, &pool->policy.rate,
				 dv_rate_maximum(pool->policy.max_parallel, 0), now);
	dv_budget_init(&entry->budget, now);
	take_over(pool, user);
}

/* Index of the user's entry, or -1. */
static int
find_entry(dv_shared *shared, const char *organisation, const char *client_id)
{
	const dv_shared_user *entries = dv_shared_users(shared);
	int			i;

	for (i = 0; i < shared->nusers; i++)
		if (same_user(&entries[i], organisation, client_id))
			return i;
	return -1;
}

static int
unused_entry(dv_shared *shared)
{
	const dv_shared_user *entries = dv_shared_users(shared);
	int			i = 0;

	while (i < shared->nusers && entries[i].used)
		i++;
	return i < shared->nusers ? i : -1;
}

/* Caller holds the lock. */
static bool
has_room(const dv_pool *pool, const char *organisation, const char *const *client_ids)
{
	int			room = 0;
	int			i;

	for (i = 0; i < pool->shared->nusers; i++)
		room += !dv_shared_users(pool->shared)[i].used;
	for (i = 0; i < pool->n; i++)
		room -= find_entry(pool->shared, organisation, client_ids[i]) < 0;
	return room >= 0;
}

/* All of them, or (false) none: then this memory is of no use for the pool. */
static bool
enter_users(dv_pool *pool, const char *organisation, const char *const *client_ids)
{
	int64		now = dv_now();
	bool		fits;
	int			i;

	if (dv_shared_my_backend(pool->shared) < 0)
		return false;
	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	fits = has_room(pool, organisation, client_ids);
	for (i = 0; i < pool->n && fits; i++)
	{
		pool->entry[i] = find_entry(pool->shared, organisation, client_ids[i]);
		if (pool->entry[i] >= 0)
			continue;
		pool->entry[i] = unused_entry(pool->shared);
		make_entry(pool, i, organisation, client_ids[i], now);
	}
	LWLockRelease(&pool->shared->lock);
	return fits;
}

dv_pool *
dv_pool_open(const char *organisation, Oid serverid, const char *server_name,
			 int n, const char *const *client_ids, const char *const *names,
			 const dv_pool_policy *policy, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_pool    *pool = palloc0(offsetof(dv_pool, entry) + n * sizeof(int));
	int			i;

	pool->n = n;
	pool->policy = *policy;
	pool->serverid = serverid;
	pool->server_name = pstrdup(server_name);
	pool->names = palloc(n * sizeof(char *));
	for (i = 0; i < n; i++)
		pool->names[i] = pstrdup(names[i]);
	pool->bit = (uint32) 1 <<
		(hash_bytes((const unsigned char *) organisation, strlen(organisation)) % 32);
	MemoryContextSwitchTo(old);

	pool->shared = dv_shared_attach();
	if (!enter_users(pool, organisation, client_ids))
	{
		pool->shared = dv_shared_private(false);
		if (!enter_users(pool, organisation, client_ids))
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many application users"),
					 errdetail("There is room for %d without shared memory.",
							   pool->shared->nusers),
					 errhint("Add \"dataverse_fdw\" to \"shared_preload_libraries\", or raise \"dataverse_fdw.max_application_users\", and restart the server.")));
	}
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

/* The DOP hint of an environment is for all its users together. */
static int
maximum_of(const dv_pool *pool, int dop_hint)
{
	if (pool->policy.dop_scope == DV_DOP_ENVIRONMENT && dop_hint > 0)
		dop_hint = Max(dop_hint / pool->n, 1);
	return dv_rate_maximum(pool->policy.max_parallel, dop_hint);
}

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

static dv_candidate
candidate_of(const dv_pool *pool, int user, dv_kind kind, int64 now)
{
	dv_shared_user *entry = user_at(pool, user);
	dv_candidate c = {0};
	dv_binding	binding;

	c.limit = dv_rate_limit(&entry->rate, &pool->policy.rate, kind, entry->in_flight, now,
							&binding);
	/* the entry's maximum is that of the session answered last */
	c.limit = Min(c.limit, maximum_of(pool, entry->dop_hint));
	if (dv_throttle_probing(&entry->throttle))
		c.limit = Min(c.limit, 1);
	c.in_flight = entry->in_flight;
	c.last_used = entry->last_used;
	if (pool->policy.throttle_tracking)
		c.throttled_until = entry->throttle.until;
	if (pool->policy.budget_pacing && now >= c.throttled_until && c.in_flight < c.limit)
		c.not_before = dv_pool_not_before(entry, kind, now);
	return c;
}

static dv_claim
claim_of(const dv_pool *pool, const dv_shared_backend *row)
{
	dv_claim	claim = {0, row->waiting_since, row->woken_at};
	int			i;

	for (i = 0; i < pool->n; i++)
		claim.leases += row->leases[pool->entry[i]];
	return claim;
}

static bool
waits_for(const dv_pool *pool, const dv_shared_backend *row)
{
	return row->pid != 0 && row->waiting_since != 0 && (row->waiting_for & pool->bit) != 0;
}

/*
 * Those who come first may be unable to use what is free (they want a user
 * that is throttled, or a kind of request with another limit): what nobody
 * has taken for a while is not left to them any longer.
 */
static bool
must_yield(dv_pool *pool, const dv_shared_backend *mine, int sendable, int64 now)
{
	dv_claim	claim = claim_of(pool, mine);
	dv_contest	contest = dv_contest_begin(&claim, now);
	int			i;

	if (pool->yielding_since != 0 && now - pool->yielding_since >= DV_WAKE_GRACE)
		return false;
	for (i = 0; i < pool->shared->nbackends; i++)
	{
		const dv_shared_backend *row = dv_shared_backend_at(pool->shared, i);

		if (row == mine || !waits_for(pool, row))
			continue;
		claim = claim_of(pool, row);
		dv_contest_add(&contest, &claim, now);
	}
	return dv_must_yield(&contest, sendable);
}

/*
 * Waking.  Caller holds the lock.  As many are woken as slots may be free;
 * who has least goes first, then who has waited longest.  A woken row is not
 * woken again until it has tried.
 */

static dv_shared_backend *
neediest_waiter(const dv_pool *pool)
{
	dv_shared_backend *best = NULL;
	dv_claim	best_claim = {0};
	int			i;

	for (i = 0; i < pool->shared->nbackends; i++)
	{
		dv_shared_backend *row = dv_shared_backend_at(pool->shared, i);
		dv_claim	claim;

		if (!waits_for(pool, row) || row->woken_at != 0)
			continue;
		claim = claim_of(pool, row);
		if (best == NULL || dv_needier(&claim, &best_claim))
		{
			best = row;
			best_claim = claim;
		}
	}
	return best;
}

static void
wake_waiters(const dv_pool *pool, int n, int64 now)
{
	while (n-- > 0)
	{
		dv_shared_backend *row = neediest_waiter(pool);

		if (row == NULL)
			return;
		row->woken_at = now;
		SetLatch(&ProcGlobal->allProcs[row->procno].procLatch);
	}
}

static void
enlist(const dv_pool *pool, dv_shared_backend *mine, int64 now)
{
	if (mine->waiting_since == 0)
		mine->waiting_since = now;
	mine->waiting_for |= pool->bit;
	mine->woken_at = 0;
	enlisted = pool->shared;
}

/* What it still waits for elsewhere it keeps its place for. */
static void
delist(uint32 bits, dv_shared_backend *mine)
{
	mine->waiting_for &= ~bits;
	mine->woken_at = 0;
	if (mine->waiting_for == 0)
	{
		mine->waiting_since = 0;
		enlisted = NULL;
	}
}

static void
take(dv_pool *pool, dv_shared_backend *mine, int chosen, dv_kind kind, dv_lease *lease)
{
	dv_shared_user *user = user_at(pool, chosen);

	memset(lease, 0, sizeof(*lease));
	lease->pool = pool;
	lease->user = chosen;
	lease->kind = kind;
	lease->last_ticket = user->last_used;
	lease->ticket = ++pool->shared->ticket;
	user->last_used = lease->ticket;
	user->last_kind = kind;
	user->in_flight++;
	mine->leases[pool->entry[chosen]]++;
}

static dv_choice
try_acquire(dv_pool *pool, dv_shared_backend *mine, dv_kind kind, uint64 allowed, int64 now,
			dv_lease *lease)
{
	dv_candidate candidates[DV_POOL_USERS_MAX];
	int			position[DV_POOL_USERS_MAX];
	int			n = 0;
	dv_choice	choice;
	int			i;

	for (i = 0; i < pool->n; i++)
	{
		if ((allowed >> i & 1) == 0)
			continue;
		candidates[n] = candidate_of(pool, i, kind, now);
		position[n++] = i;
	}
	choice = dv_select(candidates, n, pool->policy.selection, now);
	if (choice.user >= 0)
		choice.user = position[choice.user];
	if (choice.kind == DV_CHOICE_USER &&
		must_yield(pool, mine, dv_sendable(candidates, n, now), now))
	{
		wake_waiters(pool, 1, now);
		choice.kind = DV_CHOICE_BUSY;
		choice.user = -1;
		choice.until = now + DV_WAKE_GRACE;
		if (pool->yielding_since == 0)
			pool->yielding_since = now;
	}
	else
		pool->yielding_since = 0;
	if (choice.kind == DV_CHOICE_USER)
	{
		take(pool, mine, choice.user, kind, lease);
		delist(pool->bit, mine);
	}
	else
		enlist(pool, mine, now);
	return choice;
}

dv_choice
dv_pool_acquire(dv_pool *pool, dv_kind kind, uint64 allowed, dv_lease *lease)
{
	static int64 last_sweep = 0;
	dv_shared_backend *mine = my_row(pool->shared);
	int64		now = dv_now();
	dv_choice	choice;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	choice = try_acquire(pool, mine, kind, allowed, now, lease);
	if (choice.kind == DV_CHOICE_BUSY && now - last_sweep > SWEEP_INTERVAL)
	{
		last_sweep = now;
		if (dv_shared_sweep(pool->shared) > 0)
			choice = try_acquire(pool, mine, kind, allowed, now, lease);
	}
	LWLockRelease(&pool->shared->lock);
	return choice;
}

void
dv_pool_delist(dv_pool *pool)
{
	dv_shared  *shared = pool != NULL ? pool->shared : enlisted;
	uint32		bits = pool != NULL ? pool->bit : ~(uint32) 0;
	dv_shared_backend *mine;

	/* whose row is given up on the way out has nothing to take back */
	if (enlisted == NULL || shared != enlisted || dv_shared_claimed(shared) < 0)
		return;
	mine = my_row(shared);
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (mine->woken_at != 0)	/* the slot it was woken for is another's */
		dv_shared_wake_all(shared, mine->waiting_for & bits);
	delist(bits, mine);
	LWLockRelease(&shared->lock);
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
	dv_binding	binding;
	int			limit;

	user->in_flight--;
	my_row(pool->shared)->leases[pool->entry[lease->user]]--;
	/* a turn that was not used is not lost */
	if (!lease->sent && user->last_used == lease->ticket)
		user->last_used = lease->last_ticket;
	limit = dv_rate_peek(&user->rate, &pool->policy.rate, lease->kind, now, &binding);
	wake_waiters(pool, Max(limit - user->in_flight, 1), now);
	lease->pool = NULL;
}

static void
note_event(const dv_lease *lease, dv_throttle_cause cause, int64 retry_after, bool fallback,
		   int64 now)
{
	dv_shared  *shared = lease->pool->shared;
	dv_history *event;

	if (shared->nhistory == 0)
		return;
	event = &dv_shared_history(shared)[shared->history_next++ % shared->nhistory];
	event->at = now;
	event->user = lease->pool->entry[lease->user];
	event->cause = cause;
	event->kind = lease->kind;
	event->in_flight = user_at(lease->pool, lease->user)->in_flight;
	event->retry_after = retry_after;
	event->fallback = fallback;
}

/* Buffer, and something random: not all that wait come back in the same moment. */
static int64
margin_of(const dv_pool *pool)
{
	int64		margin = pool->policy.retry_after_buffer;

	if (margin > 0)
		margin += (int64) (pg_prng_double(&pg_global_prng_state) * Min(margin, DV_SECOND));
	return margin;
}

int64
dv_pool_pause(const dv_pool *pool, int64 retry_after)
{
	if (retry_after < 0)
		retry_after = pool->policy.fallback_retry_after;
	return retry_after + margin_of(pool);
}

/* Caller holds the lock. */
static void
note_throttle(const dv_lease *lease, dv_throttle_cause cause, int64 retry_after, int64 now)
{
	static const dv_ration_kind used_up[DV_THROTTLE_CAUSES] = {
		DV_RATION_REQUESTS, DV_RATION_SECONDS, DV_RATIONS, DV_RATIONS
	};
	const dv_pool_policy *policy = &lease->pool->policy;
	dv_shared_user *user = user_at(lease->pool, lease->user);
	bool		fallback = retry_after < 0;
	bool		cut;

	if (fallback)
		retry_after = policy->fallback_retry_after;
	cut = dv_rate_throttle(&user->rate, &policy->rate, lease->sent_at, retry_after, now);
	dv_throttle_record(&user->throttle, cause, cut, retry_after, margin_of(lease->pool), now);
	dv_budget_refused(&user->budget, used_up[cause], now);
	note_event(lease, cause, retry_after, fallback, now);
}

static void
note_success(const dv_lease *lease, const dv_lease_report *report, int64 now)
{
	const dv_pool *pool = lease->pool;
	dv_shared_user *user = user_at(pool, lease->user);
	int			i;

	take_over(pool, lease->user);
	if (report->dop_hint > 0)
		user->dop_hint = report->dop_hint;
	for (i = 0; i < DV_RATIONS; i++)
		if (report->remaining[i] >= 0)
			user->remaining[i] = report->remaining[i];
	user->rows[lease->kind] += report->rows;
	dv_rate_set_max(&user->rate, &pool->policy.rate, maximum_of(pool, user->dop_hint));
	dv_throttle_success(&user->throttle, lease->sent_at);
	dv_rate_success(&user->rate, &pool->policy.rate, lease->kind, report->duration, now);
	dv_budget_answered(&user->budget, lease->mark, (double) report->duration / DV_SECOND,
					   report->remaining, now);
}

void
dv_lease_sent(dv_lease *lease)
{
	dv_shared  *shared = lease->pool->shared;
	dv_shared_user *user = user_at(lease->pool, lease->user);

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	lease->sent = true;
	lease->sent_at = dv_now();
	dv_rate_sent(&user->rate, user->in_flight);
	lease->mark = dv_budget_sent(&user->budget, lease->sent_at);
	LWLockRelease(&shared->lock);
}

void
dv_lease_release(dv_lease *lease, const dv_lease_report *report)
{
	dv_shared  *shared = lease->pool->shared;
	dv_shared_user *user = user_at(lease->pool, lease->user);
	int64		now = dv_now();

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	user->requests[lease->kind]++;
	user->bytes_sent += report->bytes_sent;
	user->bytes_received += report->bytes_received;
	switch (report->outcome)
	{
		case DV_LEASE_SUCCESS:
			note_success(lease, report, now);
			break;
		case DV_LEASE_THROTTLED:
			note_throttle(lease, report->cause, report->retry_after, now);
			break;
		case DV_LEASE_FAILED:
			user->failures++;
			break;
	}
	give_back(lease, now);
	LWLockRelease(&shared->lock);
}

void
dv_lease_drop(dv_lease *lease)
{
	dv_shared  *shared;

	if (lease->pool == NULL)
		return;
	shared = lease->pool->shared;
	if (dv_shared_claimed(shared) < 0)
	{
		lease->pool = NULL;		/* on the way out everything was given back at once */
		return;
	}
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	give_back(lease, dv_now());
	LWLockRelease(&shared->lock);
}

void
dv_lease_throttled_part(dv_lease *lease, dv_throttle_cause cause, int64 retry_after)
{
	dv_shared  *shared = lease->pool->shared;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	note_throttle(lease, cause, retry_after, dv_now());
	LWLockRelease(&shared->lock);
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

dv_rate
dv_pool_rate(const dv_pool *pool, int user)
{
	dv_rate		rate;

	LWLockAcquire(&pool->shared->lock, LW_SHARED);
	rate = user_at(pool, user)->rate;
	LWLockRelease(&pool->shared->lock);
	return rate;
}

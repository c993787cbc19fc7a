/*-------------------------------------------------------------------------
 *
 * stats.c
 *		What the pool's memory says, for views; and starting over.
 *
 * Everything is copied under the lock and looked at after it.  A session
 * that found no room in shared memory sees its own memory too.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "pool/stats.h"

/* The memories that this session knows; the second may be NULL. */
static void
find_memories(dv_shared *memories[2])
{
	memories[0] = dv_shared_attach();
	memories[1] = dv_shared_private(true);
	if (memories[1] == memories[0])
		memories[1] = NULL;
}

/*
 * The limit for one more request, by the same rules as those of who sends:
 * of the throttle (nothing), the circuit breaker, the rate controller, and
 * the budget, which delays.
 */
static void
find_limit(dv_user_stats *stats, int64 now)
{
	dv_shared_user *user = &stats->user;
	dv_binding	binding;

	stats->limit = dv_rate_peek(&user->rate, &user->policy.rate, user->last_kind, now, &binding);
	stats->limited_by = dv_binding_name(binding);
	if (dv_throttle_probing(&user->throttle))
	{
		stats->limit = 1;
		stats->limited_by = "circuit breaker";
	}
	if (user->policy.budget_pacing &&
		dv_pool_not_before(user, user->last_kind, now) > now)
	{
		stats->limit = Min(stats->limit, user->in_flight);
		stats->limited_by = "budget";
	}
	if (user->policy.throttle_tracking && dv_throttle_active(&user->throttle, now))
	{
		stats->limit = 0;
		stats->limited_by = "throttle";
	}
}

dv_user_stats *
dv_stats_users(int64 now, int *n)
{
	dv_shared  *memories[2];
	dv_user_stats *stats;
	int			room = 0;
	int			m;
	int			i;

	find_memories(memories);
	for (m = 0; m < 2; m++)
		if (memories[m] != NULL)
			room += memories[m]->nusers;
	stats = palloc_extended(room * sizeof(*stats), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	*n = 0;
	for (m = 0; m < 2 && memories[m] != NULL; m++)
	{
		LWLockAcquire(&memories[m]->lock, LW_SHARED);
		for (i = 0; i < memories[m]->nusers; i++)
		{
			const dv_shared_user *user = &dv_shared_users(memories[m])[i];

			if (!user->used)
				continue;
			stats[*n].user = *user;
			stats[(*n)++].is_private = memories[m]->is_private;
		}
		LWLockRelease(&memories[m]->lock);
	}
	for (i = 0; i < *n; i++)
		find_limit(&stats[i], now);
	return stats;
}

/* Caller holds the lock. */
static int
copy_events(dv_shared *shared, dv_event_stats *stats)
{
	uint64		first = 0;
	uint64		k;
	int			n = 0;

	if (shared->history_next > (uint64) shared->nhistory)
		first = shared->history_next - shared->nhistory;
	for (k = first; k < shared->history_next; k++)
	{
		const dv_history *event = &dv_shared_history(shared)[k % shared->nhistory];
		const dv_shared_user *user;

		if (event->user < 0)
			continue;
		user = &dv_shared_users(shared)[event->user];
		stats[n].event = *event;
		stats[n].databaseid = user->databaseid;
		stats[n].serverid = user->serverid;
		strlcpy(stats[n].server, user->server, DV_NAME_LEN);
		strlcpy(stats[n].name, user->name, DV_NAME_LEN);
		n++;
	}
	return n;
}

dv_event_stats *
dv_stats_events(int *n)
{
	dv_shared  *memories[2];
	dv_event_stats *stats;
	int			room = 1;
	int			m;

	find_memories(memories);
	for (m = 0; m < 2; m++)
		if (memories[m] != NULL)
			room += memories[m]->nhistory;
	stats = palloc_extended(room * sizeof(*stats), MCXT_ALLOC_HUGE);
	*n = 0;
	for (m = 0; m < 2 && memories[m] != NULL; m++)
	{
		LWLockAcquire(&memories[m]->lock, LW_SHARED);
		*n += copy_events(memories[m], stats + *n);
		LWLockRelease(&memories[m]->lock);
	}
	return stats;
}

/* Caller holds the lock. */
static int
copy_slots(dv_shared *shared, dv_progress_stats *stats)
{
	const dv_progress_slot *slots = dv_shared_slots(shared);
	int			n = 0;
	int			i;

	for (i = 0; i < shared->nslots; i++)
	{
		if (slots[i].pid == 0)
			continue;
		stats[n].counts = dv_progress_counts_of(&slots[i]);
		if (stats[n].counts.resting)
			continue;
		stats[n++].slot = slots[i];
	}
	return n;
}

/* Of a write counts what was acknowledged, and is done what was refused too. */
static void
find_speed(dv_progress_stats *stats, int64 now)
{
	const dv_progress_counts *counts = &stats->counts;
	int64		good = counts->reads ? counts->taken : counts->acknowledged;
	int64		done = good + counts->rejected;

	stats->per_second = dv_speed_now(&counts->speed, now);
	stats->per_second_overall = dv_speed_overall(good, stats->slot.started, now);
	stats->total = stats->slot.total >= (double) done ? stats->slot.total : -1;
	stats->left = dv_speed_left(stats->total, done, stats->per_second_overall);
}

dv_progress_stats *
dv_stats_progress(int64 now, int *n)
{
	dv_shared  *memories[2];
	dv_progress_stats *stats;
	int			room = 0;
	int			m;
	int			i;

	find_memories(memories);
	for (m = 0; m < 2; m++)
		if (memories[m] != NULL)
			room += memories[m]->nslots;
	stats = palloc_extended(room * sizeof(*stats), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	*n = 0;
	for (m = 0; m < 2 && memories[m] != NULL; m++)
	{
		LWLockAcquire(&memories[m]->lock, LW_EXCLUSIVE);
		/* who waits for what is given back here is not to wait longer */
		if (dv_shared_sweep(memories[m]) > 0)
			dv_shared_wake_all(memories[m], ~(uint32) 0);
		*n += copy_slots(memories[m], stats + *n);
		LWLockRelease(&memories[m]->lock);
	}
	for (i = 0; i < *n; i++)
		find_speed(&stats[i], now);
	return stats;
}

/*
 * Starting over.
 */

static void
reset_pool(dv_shared *shared, int which, int64 now)
{
	dv_shared_user *user = &dv_shared_users(shared)[which];

	user->throttle.until = 0;
	user->throttle.consecutive = 0;
	dv_rate_reset(&user->rate, &user->policy.rate, now);
	dv_budget_init(&user->budget, now);
}

static void
reset_counters(dv_shared *shared, int which, int64 now)
{
	dv_shared_user *user = &dv_shared_users(shared)[which];
	int			i;

	(void) now;
	memset(user->requests, 0, sizeof(user->requests));
	memset(user->rows, 0, sizeof(user->rows));
	memset(user->retries, 0, sizeof(user->retries));
	memset(user->throttle.events, 0, sizeof(user->throttle.events));
	user->throttle.total_backoff = 0;
	user->throttle.last_at = 0;
	user->rate.total_throttles = 0;
	user->failures = 0;
	user->bytes_sent = 0;
	user->bytes_received = 0;
	user->waited = 0;
	for (i = 0; i < shared->nhistory; i++)
		if (dv_shared_history(shared)[i].user == which)
			dv_shared_history(shared)[i].user = -1;
}

static int
for_users_of(Oid databaseid, Oid serverid, void (*reset) (dv_shared *, int, int64))
{
	dv_shared  *memories[2];
	int64		now = dv_now();
	int			n = 0;
	int			m;
	int			i;

	find_memories(memories);
	for (m = 0; m < 2 && memories[m] != NULL; m++)
	{
		LWLockAcquire(&memories[m]->lock, LW_EXCLUSIVE);
		for (i = 0; i < memories[m]->nusers; i++)
		{
			const dv_shared_user *user = &dv_shared_users(memories[m])[i];

			if (!user->used || user->databaseid != databaseid || user->serverid != serverid)
				continue;
			reset(memories[m], i, now);
			n++;
		}
		dv_shared_wake_all(memories[m], ~(uint32) 0);
		LWLockRelease(&memories[m]->lock);
	}
	return n;
}

int
dv_stats_reset_pool(Oid databaseid, Oid serverid)
{
	return for_users_of(databaseid, serverid, reset_pool);
}

int
dv_stats_reset_counters(Oid databaseid, Oid serverid)
{
	return for_users_of(databaseid, serverid, reset_counters);
}

/*
 * stats.c
 *		Copies of the pool's memory for views, and resets.
 *
 * Everything is copied under the lock and examined after its release.  A
 * session that found no room in shared memory also sees its own memory.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "net/text.h"
#include "pool/environment.h"
#include "pool/stats.h"
#include "pool/wait.h"

#define LONGEST_ETA (7 * 24 * INT64CONST(3600) * DV_SECOND)

/* Finds the memories that this session uses; the second may be NULL. */
static void
find_memories(dv_shared *memories[2])
{
	memories[0] = dv_shared_attach();
	memories[1] = dv_shared_private(true);
	if (memories[1] == memories[0])
		memories[1] = NULL;
}

/*
 * Determines the limit for one more request by the rules for sending: a
 * throttle (no request), the circuit breaker, the rate controller, the useful limit,
 * and the budget, which delays.  That sessions have set the user aside comes last.
 */
static void
limit_by(dv_user_stats *stats, int limit, const char *rule, int64 until)
{
	stats->limit = Min(stats->limit, limit);
	stats->limited_by = rule;
	stats->limited_until = until;
}

/* Returns the budget that holds requests back, and how much of it is left. */
static const char *
name_budget(const dv_budget *budget, int64 now)
{
	dv_ration_kind which = dv_budget_bound_by(budget);
	double		left = Max(dv_budget_left(budget, which, now), 0);
	double		limit = budget->rations[which].limit;

	if (which == DV_RATION_REQUESTS)
		return psprintf("budget: %.0f of %.0f requests left", left, limit);
	return psprintf("budget: %.1f of %.0f s of execution time left", left, limit);
}

static void
find_limit(dv_user_stats *stats, int64 now)
{
	dv_shared_user *user = &stats->user;
	const dv_pool_policy *policy = &stats->view.policy;
	dv_binding	binding;

	stats->maximum = dv_view_maximum(&stats->view, user->dop_hint);
	stats->limit = dv_rate_peek(&user->rate, &policy->rate, user->last_kind, now, &binding);
	if (stats->maximum < stats->limit)
	{
		stats->limit = stats->maximum;
		binding = policy->rate.adaptive ? DV_BINDS_MAXIMUM : DV_BINDS_FIXED;
	}
	stats->limited_by = dv_binding_name(binding);
	if (binding == DV_BINDS_THROTTLE_CEILING)
		stats->limited_until = user->rate.throttle_ceiling_until;
	if (policy->useful_limit && policy->rate.adaptive && dv_useful_peek(&stats->useful) > 0)
	{
		int			room = dv_useful_allowed(&stats->useful) - stats->environment_in_flight;

		if (user->in_flight + room < stats->limit)
			limit_by(stats, user->in_flight + Max(room, 0), "latency", 0);
	}
	if (policy->budget_pacing)
	{
		int64		not_before = dv_pool_not_before(user, user->last_kind, now);

		if (not_before > now)
			limit_by(stats, user->in_flight, name_budget(&user->budget, now), not_before);
	}
	if (policy->throttle_tracking && dv_throttle_active(&user->throttle, now))
		limit_by(stats, 0, "throttle", user->throttle.until);
	if (dv_throttle_probing(&user->throttle))
		limit_by(stats, 1, "circuit breaker", user->throttle.until > now ? user->throttle.until : 0);
	if (now < stats->view.aside_until)
		limit_by(stats, stats->view.aside_whole ? 0 : stats->limit,
				 psprintf("set aside: %s", dv_text_shown(stats->view.aside_reason,
														 strlen(stats->view.aside_reason))),
				 stats->view.aside_until);
}

/* Caller holds the lock. */
static int
copy_users(dv_shared *shared, dv_user_stats *stats)
{
	dv_view_set in_use;
	int			n = 0;
	int			i;

	dv_entry_find_in_use(shared, in_use);
	for (i = 0; i < shared->nviews; i++)
	{
		const dv_shared_view *view = &dv_shared_views(shared)[i];
		const dv_shared_environment *environment;

		if (!view->used)
			continue;
		stats[n].view = *view;
		stats[n].in_use = dv_set_has(in_use, i);
		environment = dv_environment_of(shared, view->user);
		if (environment != NULL)
		{
			stats[n].useful = environment->useful;
			stats[n].environment_in_flight = environment->in_flight;
		}
		stats[n].user = dv_shared_users(shared)[view->user];
		stats[n++].is_private = shared->is_private;
	}
	return n;
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
			room += memories[m]->nviews;
	stats = palloc_extended(room * sizeof(*stats), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	*n = 0;
	for (m = 0; m < 2 && memories[m] != NULL; m++)
	{
		LWLockAcquire(&memories[m]->lock, LW_SHARED);
		*n += copy_users(memories[m], stats + *n);
		LWLockRelease(&memories[m]->lock);
	}
	for (i = 0; i < *n; i++)
		find_limit(&stats[i], now);
	return stats;
}

bool
dv_stats_latency(const dv_entry_key *keys, int n, dv_latency_estimate *estimate)
{
	dv_shared  *memories[2] = {NULL, dv_shared_private(true)};
	dv_latency *parts;
	dv_latency	total;
	int			known = 0;
	int			m;
	int			i;

	if (dv_shared_existing() != NULL)
		memories[0] = dv_shared_attach();
	if (n == 0 || (memories[0] == NULL && memories[1] == NULL))
		return false;
	parts = palloc(2 * n * sizeof(*parts));
	for (m = 0; m < 2; m++)
	{
		if (memories[m] == NULL)
			continue;
		LWLockAcquire(&memories[m]->lock, LW_SHARED);
		for (i = 0; i < n; i++)
		{
			int			user = dv_entry_find(memories[m], &keys[i]);

			if (user >= 0)
				parts[known++] = dv_shared_users(memories[m])[user].latency;
		}
		LWLockRelease(&memories[m]->lock);
	}
	dv_latency_merge(&total, parts, known);
	pfree(parts);
	return dv_latency_estimate_of(&total, estimate);
}

static int
count_views(dv_shared *shared, int user)
{
	int			n = 0;
	int			i;

	for (i = 0; i < shared->nviews; i++)
		n += dv_shared_views(shared)[i].used && dv_shared_views(shared)[i].user == user;
	return n;
}

/* Returns the number of events; "stats" NULL: only counts.  Caller holds the lock. */
static int
copy_events(dv_shared *shared, dv_event_stats *stats)
{
	dv_view_set in_use;
	uint64		first = 0;
	uint64		k;
	int			n = 0;
	int			i;

	dv_entry_find_in_use(shared, in_use);
	if (shared->history_next > (uint64) shared->nhistory)
		first = shared->history_next - shared->nhistory;
	for (k = first; k < shared->history_next; k++)
	{
		const dv_history *event = &dv_shared_history(shared)[k % shared->nhistory];

		if (stats == NULL)
			n += event->user >= 0 ? count_views(shared, event->user) : 0;
		for (i = 0; i < shared->nviews && stats != NULL && event->user >= 0; i++)
		{
			const dv_shared_view *view = &dv_shared_views(shared)[i];

			if (!view->used || view->user != event->user)
				continue;
			stats[n].event = *event;
			memcpy(stats[n].key, dv_shared_users(shared)[event->user].key, DV_KEY_LEN);
			stats[n].in_use = dv_set_has(in_use, i);
			stats[n].databaseid = view->databaseid;
			stats[n].serverid = view->serverid;
			strlcpy(stats[n].server, view->server, DV_NAME_LEN);
			strlcpy(stats[n].name, view->name, DV_NAME_LEN);
			n++;
		}
	}
	return n;
}

/* Their number is known only under the lock, under which nothing may be allocated. */
static dv_event_stats *
copy_all_events(dv_shared *shared, int *n)
{
	dv_event_stats *stats = NULL;
	int			room = -1;

	do
	{
		if (stats != NULL)
			pfree(stats);
		room = Max(2 * room, shared->nhistory + 1);
		stats = palloc_extended((Size) room * sizeof(*stats), MCXT_ALLOC_HUGE);
		LWLockAcquire(&shared->lock, LW_SHARED);
		*n = copy_events(shared, NULL);
		if (*n <= room)
			*n = copy_events(shared, stats);
		LWLockRelease(&shared->lock);
	} while (*n > room);
	return stats;
}

dv_event_stats *
dv_stats_events(int *n)
{
	dv_shared  *memories[2];
	dv_event_stats *stats;
	dv_event_stats *private;
	int			more;

	find_memories(memories);
	stats = copy_all_events(memories[0], n);
	if (memories[1] == NULL)
		return stats;
	private = copy_all_events(memories[1], &more);
	stats = repalloc_huge(stats, (Size) (*n + more + 1) * sizeof(*stats));
	memcpy(stats + *n, private, more * sizeof(*stats));
	*n += more;
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

/* For a write, the speed counts acknowledged rows, but refused rows are done as well. */
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
	stats->requests_left = done > 0 ? (stats->total - (double) done) * (double) counts->requests / (double) done : 0;
}

/* Returns how many more requests the users of a server could send within this time. */
static double
capacity_of(const dv_user_stats *users, int nusers, const dv_progress_slot *slot, int64 within,
			int64 now)
{
	double		capacity = 0;
	int			i;

	for (i = 0; i < nusers; i++)
	{
		const dv_user_stats *u = &users[i];
		int64		throttled = Max(u->user.throttle.until - now, 0);

		if (u->view.databaseid != slot->databaseid || u->view.serverid != slot->serverid ||
			u->view.former || throttled > within)
			continue;
		capacity += dv_budget_capacity(&u->user.budget, within, now);
	}
	return capacity;
}

/*
 * If budgets are used up faster than they are renewed, the rest takes longer
 * than the speed so far suggests: then the budgets determine the time left.
 */
static void
heed_budgets(dv_progress_stats *stats, const dv_user_stats *users, int nusers, int64 now)
{
	int64		low = 0;
	int64		high = LONGEST_ETA;

	if (stats->left < 0 ||
		capacity_of(users, nusers, &stats->slot, stats->left, now) >= stats->requests_left)
		return;
	if (capacity_of(users, nusers, &stats->slot, high, now) < stats->requests_left)
	{
		stats->left = -1;
		return;
	}
	while (high - low > DV_SECOND / 10)
	{
		int64		middle = low + (high - low) / 2;

		if (capacity_of(users, nusers, &stats->slot, middle, now) < stats->requests_left)
			low = middle;
		else
			high = middle;
	}
	stats->left = Max(stats->left, high);
}

dv_progress_stats *
dv_stats_progress(int64 now, int *n)
{
	dv_shared  *memories[2];
	dv_progress_stats *stats;
	dv_user_stats *users;
	int			nusers;
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
		(void) dv_shared_sweep(memories[m]);
		*n += copy_slots(memories[m], stats + *n);
		LWLockRelease(&memories[m]->lock);
	}
	users = dv_stats_users(now, &nusers);
	for (i = 0; i < *n; i++)
	{
		find_speed(&stats[i], now);
		heed_budgets(&stats[i], users, nusers, now);
	}
	pfree(users);
	return stats;
}

/*
 * Starting over.
 */

static void
reset_pool(dv_shared *shared, const dv_shared_view *view, int64 now)
{
	dv_shared_user *user = &dv_shared_users(shared)[view->user];
	dv_shared_environment *environment = dv_environment_of(shared, view->user);

	if (environment != NULL)
		dv_useful_reset(&environment->useful);
	dv_throttle_reset(&user->throttle);
	dv_rate_reset(&user->rate, &view->policy.rate, now);
	dv_budget_init(&user->budget, now);
	memset(&user->latency, 0, sizeof(user->latency));
	dv_wait_changed(shared, view->user, now);
}

static void
reset_counters(dv_shared *shared, const dv_shared_view *view, int64 now)
{
	dv_shared_user *user = &dv_shared_users(shared)[view->user];
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
		if (dv_shared_history(shared)[i].user == view->user)
			dv_shared_history(shared)[i].user = -1;
}

static int
for_users_of(Oid databaseid, Oid serverid, const char *name,
			 void (*reset) (dv_shared *, const dv_shared_view *, int64))
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
		for (i = 0; i < memories[m]->nviews; i++)
		{
			const dv_shared_view *view = &dv_shared_views(memories[m])[i];

			if (!view->used || view->databaseid != databaseid || view->serverid != serverid ||
				(name != NULL && strcmp(view->name, name) != 0))
				continue;
			reset(memories[m], view, now);
			n++;
		}
		LWLockRelease(&memories[m]->lock);
	}
	return n;
}

int
dv_stats_reset_pool(Oid databaseid, Oid serverid, const char *name)
{
	return for_users_of(databaseid, serverid, name, reset_pool);
}

int
dv_stats_reset_counters(Oid databaseid, Oid serverid)
{
	return for_users_of(databaseid, serverid, NULL, reset_counters);
}

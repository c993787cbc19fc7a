/*
 * note.c
 *		What sessions note about application users, and read of them, beside
 *		leases.  Nothing is noted about a user whose entry has given way.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "net/text.h"
#include "pool/place.h"

void
dv_pool_show_aside(dv_pool *pool, int user, int64 until, bool whole, const char *reason)
{
	const char *common = dv_text_common(reason, DV_REASON_LEN);
	dv_shared_view *view;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	view = dv_place_view(&pool->places[user]);
	if (view != NULL)
	{
		view->aside_until = until;
		view->aside_whole = whole;
		strlcpy(view->aside_reason, common, DV_REASON_LEN);
	}
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_hide_aside(dv_pool *pool, int user, int64 until)
{
	dv_shared_view *view;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	view = dv_place_view(&pool->places[user]);
	if (view != NULL && view->aside_until == until)
		view->aside_until = 0;
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_count_retry(dv_pool *pool, int user, dv_retry_cause cause)
{
	dv_shared_user *entry;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	entry = dv_place_user(&pool->places[user]);
	if (entry != NULL)
		entry->retries[cause]++;
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_count_wait(dv_pool *pool, int user, int64 microseconds)
{
	dv_shared_user *entry;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	entry = dv_place_user(&pool->places[user]);
	if (entry != NULL)
		entry->waited += microseconds;
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_note_answer(dv_pool *pool, int user, int64 bytes, int64 duration)
{
	dv_shared_user *entry;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	entry = dv_place_user(&pool->places[user]);
	if (entry != NULL)
		dv_latency_note(&entry->latency, bytes, duration);
	LWLockRelease(&pool->shared->lock);
}

void
dv_pool_note_rows(dv_pool *pool, int user, int64 rows, int64 bytes)
{
	dv_shared_user *entry;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	entry = dv_place_user(&pool->places[user]);
	if (entry != NULL)
	{
		entry->rows[DV_KIND_READ] += rows;
		dv_latency_note_rows(&entry->latency, rows, bytes);
	}
	LWLockRelease(&pool->shared->lock);
}

int64
dv_pool_served_at(const dv_pool *pool)
{
	int64		last = 0;
	int			i;

	LWLockAcquire(&pool->shared->lock, LW_SHARED);
	for (i = 0; i < dv_pool_size(pool); i++)
	{
		const dv_shared_user *entry = dv_place_user(&pool->places[i]);

		if (entry != NULL)
			last = Max(last, entry->served_at);
	}
	LWLockRelease(&pool->shared->lock);
	return last;
}

void
dv_pool_note_served(dv_pool *pool, int user)
{
	dv_shared_user *entry;

	LWLockAcquire(&pool->shared->lock, LW_EXCLUSIVE);
	entry = dv_place_user(&pool->places[user]);
	if (entry != NULL)
		entry->served_at = dv_now();
	LWLockRelease(&pool->shared->lock);
}

/* Returns false if the user's entry has given way. */
static bool
copy_user(const dv_pool *pool, int user, dv_shared_user *copy)
{
	const dv_shared_user *entry;

	LWLockAcquire(&pool->shared->lock, LW_SHARED);
	entry = dv_place_user(&pool->places[user]);
	if (entry != NULL)
		*copy = *entry;
	LWLockRelease(&pool->shared->lock);
	return entry != NULL;
}

void
dv_pool_log_rate(const dv_pool *pool, int user)
{
	dv_shared_user copy;

	if (!message_level_is_interesting(DEBUG2) || !copy_user(pool, user, &copy))
		return;
	ereport(DEBUG2,
			(errmsg_internal("adaptive rate of application user \"%s\": %d of %d requests at once, %d successes since it changed, %lld throttles in total",
							 pool->names[user], copy.rate.current, copy.rate.max,
							 copy.rate.successes, (long long) copy.rate.total_throttles)));
}

dv_throttle
dv_pool_throttle(const dv_pool *pool, int user)
{
	dv_throttle none = {0};
	dv_shared_user copy;

	return copy_user(pool, user, &copy) ? copy.throttle : none;
}

/*
 * wait.c
 *		Backends that wait for slots: waking them, their presence, and the slots
 *		of absent ones.
 *
 * Waking.  A backend that finds no slot notes in its row which users it could use,
 * and the ticket at which it tried.  A backend that changes something about a user
 * (gives a slot back, lifts its limit, ends its throttle) gives it a new ticket and
 * wakes the neediest waiters that want it, have not tried since, and are not stopped
 * by anything else (dv_obstacle), one for each slot: those that have been woken
 * before and have not tried yet count.  A waiter that cannot use what it was woken
 * for, or not all of it, wakes the next one.  No waiter is woken twice for the same
 * change, so this comes to an end, and no waiter that could send sleeps on.
 *
 * Turns.  When the budget of a user is paced, all that wait for it would find the same
 * time for the next request.  Each sleeps until its own turn instead, behind those that
 * are needier (dv_wait_ahead).  The pace changes and sessions leave, so whenever a
 * request has been sent or answered, the first in turn is woken if its turn has come
 * nearer (dv_wait_turn).  If its turn is later, it finds that out by itself.
 *
 * Presence.  A backend that has an open cursor, whose client sends no more rows, or
 * that waits for a lock, may have calls under way or waiting, but does not notice
 * its latch.  Others do not wait for it or wake it, and it tries by itself when it
 * comes back.  "presence" is written without the lock, so a backend may be woken in
 * the moment in which it leaves.  Each side writes its own word (woken_at, presence)
 * before it reads the other's, so at least one of the two notices, and the wake-up
 * goes to another backend.
 *
 * An Append that waits for our scans may return a row of another one, and does not
 * tell us that it has stopped waiting.  A wake-up of a backend that only watches is
 * therefore an offer: the next waiter is woken as well, and leaves the slot to the
 * first one for DV_WAKE_GRACE.
 *
 * A backend may be inside and yet not run, because it has been stopped.  It then
 * fails to try although it was woken, or was due to try by itself.  After
 * DV_WAKE_GRACE, others no longer wait for it or wake it.  They find the slot for
 * which it was woken when they try by themselves, as soon as the requests that held
 * them up should have ended (dv_wait_lend).
 *
 * Lending on.  If a request should have ended by all experience while its backend is
 * elsewhere, its slot is taken from it, for the same user or for another one of its
 * environment.  The record of the lease is freed; from this, the owner learns that it
 * has nothing to give back.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "pool/environment.h"
#include "pool/wait.h"

/* A backend that comes back sooner does not count as absent. */
#define ABSENCE DV_SECOND

/* Returns true if the backend will notice its latch at once. */
static bool
is_there(const dv_shared_backend *row)
{
	if (row->presence == DV_WATCHING)
		return ProcGlobal->allProcs[row->procno].wait_event_info == WAIT_EVENT_APPEND_READY;
	return row->presence == DV_INSIDE;
}

/* Returns since when the backend has had a reason to try, or 0 if it has none. */
static int64
called_at(const dv_shared_backend *row, int64 now)
{
	if (row->woken_at != 0)
		return row->woken_at;
	return row->next_try != 0 && row->next_try <= now ? row->next_try : 0;
}

/* Returns true if the backend should have tried by now, but apparently does not run. */
static bool
is_overdue(const dv_shared_backend *row, int64 now)
{
	return called_at(row, now) != 0 && now - called_at(row, now) > DV_WAKE_GRACE;
}

bool
dv_wait_is_short(const dv_shared_backend *row)
{
	return row->waiting == 1 && row->leases == 0;
}

dv_claim
dv_wait_claim(const dv_shared_backend *row, int64 now)
{
	dv_claim	claim = {row->leases, row->waiting_since, called_at(row, now)};

	if (dv_wait_is_short(row))
		claim.waiting_since -= DV_SHORT_AHEAD;
	return claim;
}

/*
 * The list of backends that wait.  Looking for one does not take the longer, the more sessions
 * the server has, of which most do not wait.
 */

static dv_shared_backend *
waiter_at(dv_shared *s, int place)
{
	return place > 0 ? dv_shared_backend_at(s, place - 1) : NULL;
}

dv_shared_backend *
dv_wait_first(dv_shared *s)
{
	return waiter_at(s, s->first_waiter);
}

dv_shared_backend *
dv_wait_next(dv_shared *s, const dv_shared_backend *row)
{
	return waiter_at(s, row->next_waiter);
}

void
dv_wait_add(dv_shared *s, int backend)
{
	dv_shared_backend *row = dv_shared_backend_at(s, backend);
	dv_shared_backend *next = dv_wait_first(s);

	row->next_waiter = s->first_waiter;
	row->previous_waiter = 0;
	if (next != NULL)
		next->previous_waiter = backend + 1;
	s->first_waiter = backend + 1;
}

void
dv_wait_remove(dv_shared *s, int backend)
{
	dv_shared_backend *row = dv_shared_backend_at(s, backend);
	dv_shared_backend *next = waiter_at(s, row->next_waiter);
	dv_shared_backend *previous = waiter_at(s, row->previous_waiter);

	if (next != NULL)
		next->previous_waiter = row->previous_waiter;
	if (previous != NULL)
		previous->next_waiter = row->next_waiter;
	else if (s->first_waiter == backend + 1)
		s->first_waiter = row->next_waiter;
	row->next_waiter = row->previous_waiter = 0;
}

/* Returns true if the backend, which is on the list, waits for this user. */
static bool
waits_for(dv_shared_backend *row, int user)
{
	return row->waiting > 0 && dv_set_has(dv_shared_wants(row), user);
}

bool
dv_wait_may_use(dv_shared *s, dv_shared_backend *row, int user, int64 now)
{
	return waits_for(row, user) && is_there(row) &&
		(row->tried < dv_shared_users(s)[user].changed ||
		 (row->next_try != 0 && row->next_try <= now));
}

/*
 * Obstacles.
 */

int
dv_wait_obstacles(dv_shared *s, int user, int64 now)
{
	const dv_shared_user *entry = &dv_shared_users(s)[user];

	return (now < entry->throttle.until ? DV_OBSTACLE_THROTTLE : 0) |
		(entry->in_flight >= entry->rate.max ? DV_OBSTACLE_MAXIMUM : 0) |
		(entry->in_flight >= entry->rate.current ? DV_OBSTACLE_RATE : 0) |
		(dv_environment_room(s, user, now) <= 0 ? DV_OBSTACLE_LATENCY : 0);
}

bool
dv_wait_has_loads(dv_shared *s, int user)
{
	const dv_shared_lease *leases = dv_shared_leases(s, user);
	dv_shared_backend *row;
	int			i;

	for (i = 0; i < DV_USER_LEASES; i++)
		if (leases[i].ticket != 0 && dv_shared_backend_at(s, leases[i].backend)->leases > 1)
			return true;
	for (row = dv_wait_first(s); row != NULL; row = dv_wait_next(s, row))
		if (row->waiting > 1 && waits_for(row, user))
			return true;
	return false;
}

/* Returns the obstacles that do not stop a short request now (limit_of and candidate_of in pool.c). */
static int
passable(dv_shared *s, int user, int64 now)
{
	const dv_shared_user *entry = &dv_shared_users(s)[user];
	int			in_flight = entry->in_flight - DV_SHORT_BEYOND;
	int			passable = 0;

	if (dv_budget_keeps(&entry->budget, entry->in_flight, now))
		passable |= DV_OBSTACLE_BUDGET;
	if (!dv_wait_has_loads(s, user))
		return passable;
	if (in_flight < entry->rate.max)
		passable |= DV_OBSTACLE_MAXIMUM;
	if (in_flight < entry->rate.current)
		passable |= DV_OBSTACLE_RATE;
	if (dv_environment_room(s, user, now) + DV_SHORT_BEYOND > 0)
		passable |= DV_OBSTACLE_LATENCY;
	return passable;
}

/* Returns the obstacles that do not stop all calls of the backend. */
static int
heedless_of(const dv_shared_backend *row, int passable)
{
	int			heedless = row->heedless & ~DV_OBSTACLE_MAXIMUM;

	if (dv_wait_is_short(row))
		heedless |= passable & (row->heedless | ~DV_OBSTACLE_MAXIMUM);
	return heedless;
}

/*
 * Returns the number of backends that have been woken and will look for slots of this user.  A
 * backend that only watches may not come, so it does not count.
 */
static int
count_woken(dv_shared *s, int user, const dv_shared_backend *mine, int64 now)
{
	dv_shared_backend *row;
	int			n = 0;

	for (row = dv_wait_first(s); row != NULL; row = dv_wait_next(s, row))
		n += row != mine && row->woken_at != 0 && row->presence == DV_INSIDE &&
			waits_for(row, user) && !is_overdue(row, now);
	return n;
}

static dv_shared_backend *
neediest_waiter(dv_shared *s, int user, int obstacles, int passable, const dv_shared_backend *mine,
				int64 now)
{
	uint64		changed = dv_shared_users(s)[user].changed;
	dv_shared_backend *best = NULL;
	dv_claim	best_claim = {0};
	dv_shared_backend *row;

	for (row = dv_wait_first(s); row != NULL; row = dv_wait_next(s, row))
	{
		dv_claim	claim;

		if (row == mine || !waits_for(row, user) || row->woken_at != 0 || row->tried >= changed ||
			(obstacles & ~heedless_of(row, passable)) != 0 || !is_there(row) || is_overdue(row, now))
			continue;
		claim = dv_wait_claim(row, now);
		if (best == NULL || dv_needier(&claim, &best_claim))
		{
			best = row;
			best_claim = claim;
		}
	}
	return best;
}

/* Returns false if it has just left. */
static bool
wake(dv_shared_backend *row, uint64 changed, int64 now)
{
	row->woken_at = now;
	row->woken_for = changed;
	pg_memory_barrier();
	if (is_there(row))
		SetLatch(&ProcGlobal->allProcs[row->procno].procLatch);
	else
		row->woken_at = 0;
	return row->woken_at != 0;
}

void
dv_wait_wake(dv_shared *s, int user, int n, int obstacles, const dv_shared_backend *mine, int64 now)
{
	int			beyond = 0;

	if (dv_wait_first(s) == NULL)
		return;
	if (obstacles != 0)
		beyond = passable(s, user, now);
	n -= count_woken(s, user, mine, now);
	while (n > 0)
	{
		dv_shared_backend *row = neediest_waiter(s, user, obstacles, beyond, mine, now);

		if (row == NULL)
			return;
		if (wake(row, dv_shared_users(s)[user].changed, now) && row->presence != DV_WATCHING)
			n--;
	}
}

static void
change(dv_shared *s, int user, int n, int obstacles, int64 now)
{
	dv_shared_users(s)[user].changed = ++s->ticket;
	dv_wait_wake(s, user, n, obstacles, NULL, now);
}

/* Returns true if a call that heeds the useful limit waits for this user. */
static bool
is_limited(dv_shared *s, int user)
{
	dv_shared_backend *row;

	for (row = dv_wait_first(s); row != NULL; row = dv_wait_next(s, row))
		if ((row->heedful & DV_OBSTACLE_LATENCY) != 0 && waits_for(row, user))
			return true;
	return false;
}

/* Wakes those that the useful limit may have kept from using other users of the environment. */
static void
change_others(dv_shared *s, int user, int64 now)
{
	const dv_shared_user *users = dv_shared_users(s);
	int			i;

	if (users[user].environment == 0 || dv_wait_first(s) == NULL ||
		dv_environment_room(s, user, now) <= 0)
		return;
	for (i = 0; i < s->nusers; i++)
		if (i != user && users[i].used && users[i].environment == users[user].environment &&
			is_limited(s, i))
			change(s, i, 1, dv_wait_obstacles(s, i, now), now);
}

void
dv_wait_freed(dv_shared *s, int user, int n, int obstacles, int64 now)
{
	change(s, user, n, obstacles | dv_wait_obstacles(s, user, now), now);
	change_others(s, user, now);
}

void
dv_wait_changed(dv_shared *s, int user, int64 now)
{
	change(s, user, INT_MAX, 0, now);
	change_others(s, user, now);
}

/*
 * Turns.
 */

int
dv_wait_ahead(dv_shared *s, int user, const dv_shared_backend *mine, int64 now)
{
	dv_claim	claim = dv_wait_claim(mine, now);
	dv_shared_backend *row;
	int			n = 0;

	for (row = dv_wait_first(s); row != NULL; row = dv_wait_next(s, row))
	{
		dv_claim	other = dv_wait_claim(row, now);

		n += row != mine && row->paced && waits_for(row, user) && is_there(row) &&
			!is_overdue(row, now) && dv_needier(&other, &claim);
	}
	return n;
}

/* Those that have not tried since something changed do not know yet that they have a turn. */
static dv_shared_backend *
first_in_turn(dv_shared *s, int user, int64 now)
{
	uint64		changed = dv_shared_users(s)[user].changed;
	dv_shared_backend *best = NULL;
	dv_claim	best_claim = {0};
	dv_shared_backend *row;

	for (row = dv_wait_first(s); row != NULL; row = dv_wait_next(s, row))
	{
		dv_claim	claim;

		if (!waits_for(row, user) || (!row->paced && row->tried >= changed) ||
			(row->heedful & DV_OBSTACLE_BUDGET) == 0 || !is_there(row) || is_overdue(row, now))
			continue;
		claim = dv_wait_claim(row, now);
		if (best == NULL || dv_needier(&claim, &best_claim))
		{
			best = row;
			best_claim = claim;
		}
	}
	return best;
}

void
dv_wait_turn(dv_shared *s, int user, int64 when, int64 slack, int64 now)
{
	dv_shared_backend *row;

	do
	{
		row = first_in_turn(s, user, now);
		if (row == NULL || row->woken_at != 0 || (row->paced && row->next_try <= when + slack))
			return;
	} while (!wake(row, dv_shared_users(s)[user].changed, now));
}

void
dv_wait_forget(dv_shared *s, int user)
{
	dv_shared_backend *row;

	for (row = dv_wait_first(s); row != NULL; row = dv_wait_next(s, row))
	{
		if (!waits_for(row, user))
			continue;
		dv_set_put(dv_shared_wants(row), user, false);
		SetLatch(&ProcGlobal->allProcs[row->procno].procLatch);
	}
}

/*
 * Returns when the slot can be lent on at the earliest, if its owner stays as it is now, or
 * leaves now.
 */
static int64
lendable_at(const dv_shared_backend *owner, const dv_shared_lease *lease, int64 now)
{
	return Max(lease->due, (is_there(owner) ? now : owner->left_at) + ABSENCE);
}

int
dv_wait_lend(dv_shared *s, int user, int mine, int64 now, int64 *next)
{
	dv_shared_lease *leases = dv_shared_leases(s, user);
	int			n = 0;
	int			i;

	for (i = 0; i < DV_USER_LEASES; i++)
	{
		dv_shared_lease *lease = &leases[i];
		int64		when;

		if (lease->ticket == 0 || lease->backend == mine)
			continue;
		when = lendable_at(dv_shared_backend_at(s, lease->backend), lease, now);
		if (when <= now)
		{
			dv_shared_free_lease(s, user, lease);
			n++;
		}
		else if (*next == 0 || when < *next)
			*next = when;
	}
	if (n > 0)
		dv_shared_users(s)[user].changed = ++s->ticket;
	return n;
}

/*
 * Coming and going.
 */

/* Returns this backend's row in the shared memory.  Nobody else looks at its private memory. */
static dv_shared_backend *
row_of_mine(dv_shared **s)
{
	*s = dv_shared_existing();
	if (*s == NULL || dv_shared_claimed(*s) < 0)
		return NULL;
	return dv_shared_backend_at(*s, dv_shared_claimed(*s));
}

/* Passes on a wake-up that came while this backend left. */
static void
pass_on_wake(dv_shared *s, dv_shared_backend *mine)
{
	int64		now = dv_now();
	int			i;

	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
	mine->woken_at = 0;
	for (i = 0; i < s->nusers; i++)
		if (waits_for(mine, i) && mine->tried < dv_shared_users(s)[i].changed)
			dv_wait_wake(s, i, 1, 0, mine, now);
	LWLockRelease(&s->lock);
}

void
dv_pool_enter(void)
{
	dv_shared  *s;
	dv_shared_backend *mine = row_of_mine(&s);

	if (mine != NULL)
		mine->presence = DV_INSIDE;
}

static void
go(dv_presence presence)
{
	dv_shared  *s;
	dv_shared_backend *mine = row_of_mine(&s);

	if (mine == NULL)
		return;
	mine->left_at = dv_now();
	pg_write_barrier();
	mine->presence = presence;
	pg_memory_barrier();
	if (presence == DV_ELSEWHERE && mine->woken_at != 0)
		pass_on_wake(s, mine);
}

void
dv_pool_leave(void)
{
	go(DV_ELSEWHERE);
}

void
dv_pool_watch(void)
{
	go(DV_WATCHING);
}

/*
 * shared.c
 *		Allocates the pool's memory.
 *
 * If the library is preloaded, memory is requested at server start in its full
 * size.  Otherwise, it is allocated on first use: from PostgreSQL 17 on as a
 * named DSM segment, before that as a few kilobytes of the main segment's
 * reserve.  If even that fails, the backend works on memory of its own, and
 * warns once that other backends do not know of its throttles.
 *
 * The struct is the same in all cases; only its dimensions differ.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "compat.h"
#include "pool/environment.h"
#include "pool/shared.h"
#include "pool/wait.h"

/* The version is part of the name, because another layout needs another segment. */
#define SEGMENT_NAME "dataverse_fdw 1.0"

/* What fits the reserve of the main segment (100 kB for all extensions). */
#define SMALL_USERS		8
#define SMALL_BACKENDS	Min(MaxBackends, 160)
#define SMALL_HISTORY	32
#define SMALL_SLOTS		24

/* For one backend alone. */
#define PRIVATE_USERS	DV_POOL_USERS_MAX
#define PRIVATE_SLOTS	4

/* Most sessions do nothing, and few do more than two things at once. */
#define FULL_SLOTS		(2 * MaxBackends)

#define DEFAULT_USERS	128
#define DEFAULT_HISTORY 1000

int			dv_max_application_users = DEFAULT_USERS;
int			dv_throttle_history = DEFAULT_HISTORY;

static dv_shared *shared = NULL;
static dv_shared *private = NULL;
static int	my_backend = -1;	/* in "shared" */

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static int
words_for(int nusers)
{
	return (nusers + 63) / 64;
}

static Size
backend_size(int nwords)
{
	return MAXALIGN(offsetof(dv_shared_backend, words) +
					(1 + DV_VIEWS_PER_USER) * nwords * sizeof(uint64));
}

static Size
shared_size(int nusers, int nbackends, int nhistory, int nslots)
{
	Size		size = MAXALIGN(sizeof(dv_shared));

	size = add_size(size, MAXALIGN(mul_size(nusers, sizeof(dv_shared_user))));
	size = add_size(size, MAXALIGN(mul_size(nusers, sizeof(dv_shared_environment))));
	size = add_size(size, MAXALIGN(mul_size(DV_VIEWS_PER_USER * nusers, sizeof(dv_shared_view))));
	size = add_size(size, MAXALIGN(mul_size(DV_USER_LEASES * nusers, sizeof(dv_shared_lease))));
	size = add_size(size, MAXALIGN(mul_size(nhistory, sizeof(dv_history))));
	size = add_size(size, mul_size(nbackends, backend_size(words_for(nusers))));
	return add_size(size, mul_size(nslots, sizeof(dv_progress_slot)));
}

dv_shared_user *
dv_shared_users(dv_shared *s)
{
	return (dv_shared_user *) ((char *) s + MAXALIGN(sizeof(dv_shared)));
}

dv_shared_environment *
dv_shared_environments(dv_shared *s)
{
	return (dv_shared_environment *) ((char *) dv_shared_users(s) +
									  MAXALIGN(s->nusers * sizeof(dv_shared_user)));
}

dv_shared_view *
dv_shared_views(dv_shared *s)
{
	return (dv_shared_view *) ((char *) dv_shared_environments(s) +
							   MAXALIGN(s->nusers * sizeof(dv_shared_environment)));
}

dv_shared_lease *
dv_shared_leases(dv_shared *s, int user)
{
	return (dv_shared_lease *) ((char *) dv_shared_views(s) +
								MAXALIGN(s->nviews * sizeof(dv_shared_view))) +
		user * DV_USER_LEASES;
}

dv_history *
dv_shared_history(dv_shared *s)
{
	return (dv_history *) ((char *) dv_shared_leases(s, 0) +
						   MAXALIGN(s->nusers * DV_USER_LEASES * sizeof(dv_shared_lease)));
}

dv_shared_backend *
dv_shared_backend_at(dv_shared *s, int i)
{
	return (dv_shared_backend *) ((char *) dv_shared_history(s) +
								  MAXALIGN(s->nhistory * sizeof(dv_history)) +
								  i * backend_size(s->nwords));
}

dv_progress_slot *
dv_shared_slots(dv_shared *s)
{
	return (dv_progress_slot *) dv_shared_backend_at(s, s->nbackends);
}

uint64 *
dv_shared_wants(dv_shared_backend *row)
{
	return row->words;
}

uint64 *
dv_shared_uses(const dv_shared *s, dv_shared_backend *row)
{
	return row->words + s->nwords;
}

static void
lay_out(dv_shared *s, int nusers, int nbackends, int nhistory, int nslots, int tranche)
{
	memset(s, 0, shared_size(nusers, nbackends, nhistory, nslots));
	s->nusers = nusers;
	s->nviews = DV_VIEWS_PER_USER * nusers;
	s->nbackends = nbackends;
	s->nhistory = nhistory;
	s->nslots = nslots;
	s->nwords = words_for(nusers);
	s->tranche = tranche;
	LWLockInitialize(&s->lock, tranche);
}

static Size
full_size(void)
{
	return shared_size(dv_max_application_users, MaxBackends, dv_throttle_history, FULL_SLOTS);
}

static void
on_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(full_size());
}

static void
on_shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct(SEGMENT_NAME, full_size(), &found);
	if (!found)
		lay_out(shared, dv_max_application_users, MaxBackends, dv_throttle_history, FULL_SLOTS,
				dv_lwlock_new_tranche("dataverse_fdw"));
	LWLockRelease(AddinShmemInitLock);
}

void
dv_shared_init(void)
{
	/* settings that are fixed at server start can only be defined by the postmaster */
	GucContext	context = process_shared_preload_libraries_in_progress ? PGC_POSTMASTER : PGC_SIGHUP;

	DefineCustomIntVariable("dataverse_fdw.max_application_users",
							"Sets the number of application users whose state is shared by all sessions.",
							"Takes effect when the library is preloaded.",
							&dv_max_application_users, DEFAULT_USERS, 1, DV_SHARED_USERS_MAX,
							context, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("dataverse_fdw.throttle_history",
							"Sets the number of throttle events kept for the view dataverse.throttle_history.",
							"Takes effect when the library is preloaded.",
							&dv_throttle_history, DEFAULT_HISTORY, 0, 1000000,
							context, 0, NULL, NULL, NULL);
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = on_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = on_shmem_startup;
}

#ifdef DV_NAMED_SEGMENTS

static void
DV_SEGMENT_INIT(init_segment, segment)
{
	lay_out(segment, DEFAULT_USERS, MaxBackends, DEFAULT_HISTORY, FULL_SLOTS,
			dv_lwlock_new_tranche("dataverse_fdw"));
}

/* The size must be the same in all sessions, so no setting may influence it. */
static dv_shared *
attach_late(void)
{
	bool		found;

	return dv_named_segment(SEGMENT_NAME,
							shared_size(DEFAULT_USERS, MaxBackends, DEFAULT_HISTORY, FULL_SLOTS),
							init_segment, &found);
}

#else

static dv_shared *
attach_late(void)
{
	dv_shared  *volatile result = NULL;
	MemoryContext context = CurrentMemoryContext;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	PG_TRY();
	{
		bool		found;

		result = ShmemInitStruct(SEGMENT_NAME,
								 shared_size(SMALL_USERS, SMALL_BACKENDS, SMALL_HISTORY,
											 SMALL_SLOTS),
								 &found);
		if (!found)
			lay_out(result, SMALL_USERS, SMALL_BACKENDS, SMALL_HISTORY, SMALL_SLOTS,
					dv_lwlock_new_tranche("dataverse_fdw"));
	}
	PG_CATCH();
	{
		/* the reserve is used up, which is no reason to fail */
		HOLD_INTERRUPTS();		/* the error has reset it, the lock will resume */
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	LWLockRelease(AddinShmemInitLock);
	return result;
}

#endif

/*
 * Nobody ever waits for the lock of private memory, so it uses the tranche of
 * the shared memory, or else the first tranche.  A tranche of its own would be
 * lost to the whole cluster each time that a backend needs one.
 */
dv_shared *
dv_shared_private(bool existing)
{
	Size		size = shared_size(PRIVATE_USERS, 1, SMALL_HISTORY, PRIVATE_SLOTS);
	dv_shared  *fresh;

	if (private != NULL || existing)
		return private;
	fresh = MemoryContextAlloc(TopMemoryContext, size);
	lay_out(fresh, PRIVATE_USERS, 1, SMALL_HISTORY, PRIVATE_SLOTS,
			shared != NULL ? shared->tranche : LWTRANCHE_FIRST_USER_DEFINED);
	fresh->is_private = true;
	dv_shared_backend_at(fresh, 0)->pid = MyProcPid;
	dv_shared_backend_at(fresh, 0)->procno = dv_my_procno();
	private = fresh;
	ereport(WARNING,
			(errmsg("dataverse_fdw has no shared memory for this session"),
			 errdetail("This session and other sessions will not learn of each other's throttles."),
			 errhint("Add \"dataverse_fdw\" to \"shared_preload_libraries\", or raise \"dataverse_fdw.max_application_users\", and restart the server.")));
	return private;
}

dv_shared *
dv_shared_existing(void)
{
	return shared;
}

dv_shared *
dv_shared_attach(void)
{
	static bool registered = false;

	if (shared == NULL)
		shared = attach_late();
	if (shared == NULL)
		return dv_shared_private(false);
	if (!registered)
	{
		dv_lwlock_register_tranche(shared->tranche, "dataverse_fdw");
		registered = true;
	}
	return shared;
}

void
dv_shared_free_lease(dv_shared *s, int user, dv_shared_lease *lease)
{
	dv_environment_freed(s, user, lease, dv_now());
	dv_shared_users(s)[user].in_flight--;
	dv_shared_users(s)[user].in_flight_of[lease->kind]--;
	dv_shared_views(s)[lease->view].in_flight--;
	dv_shared_backend_at(s, lease->backend)->leases--;
	lease->ticket = 0;
}

/* Caller holds the lock. */
static void
free_backend(dv_shared *s, int which)
{
	dv_shared_backend *backend = dv_shared_backend_at(s, which);
	dv_progress_slot *slots = dv_shared_slots(s);
	int64		now = dv_now();
	int			i;
	int			k;

	for (i = 0; i < s->nslots; i++)
		if (slots[i].backend == which)
			slots[i].pid = 0;
	backend->pid = 0;
	dv_wait_remove(s, which);
	for (i = 0; i < s->nusers; i++)
	{
		dv_shared_lease *leases = dv_shared_leases(s, i);
		int			freed = 0;

		for (k = 0; k < DV_USER_LEASES && backend->leases > 0; k++)
		{
			if (leases[k].ticket == 0 || leases[k].backend != which)
				continue;
			dv_shared_free_lease(s, i, &leases[k]);
			freed++;
		}
		/* pass on the wake-up that it got, and the slots that it had a claim to */
		if (freed > 0 || (backend->waiting > 0 && dv_set_has(dv_shared_wants(backend), i)))
			dv_wait_freed(s, i, Max(freed, 1), 0, now);
	}
	memset(backend, 0, backend_size(s->nwords));
}

/*
 * When a session is terminated, this runs before its transaction is aborted,
 * so it gives back what the abort would give back.
 */
static void
on_exit_free(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (my_backend < 0)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	free_backend(shared, my_backend);
	LWLockRelease(&shared->lock);
	my_backend = -1;
}

/* Returns true if the process is gone or its PID has been reused. */
static bool
is_dead(const dv_shared_backend *backend)
{
	return backend->pid != 0 &&
		ProcGlobal->allProcs[backend->procno].pid != backend->pid;
}

int
dv_shared_sweep(dv_shared *s)
{
	int			freed = 0;
	int			i;

	for (i = 0; i < s->nbackends; i++)
		if (is_dead(dv_shared_backend_at(s, i)))
		{
			free_backend(s, i);
			freed++;
		}
	return freed;
}

static int
claim(dv_shared *s)
{
	int			i;

	for (i = 0; i < s->nbackends; i++)
	{
		dv_shared_backend *backend = dv_shared_backend_at(s, i);

		if (backend->pid == 0)
		{
			backend->pid = MyProcPid;
			backend->procno = dv_my_procno();
			return i;
		}
	}
	return -1;
}

int
dv_shared_claimed(const dv_shared *s)
{
	return s->is_private ? 0 : my_backend;
}

int
dv_shared_my_backend(dv_shared *s)
{
	if (dv_shared_claimed(s) >= 0)
		return dv_shared_claimed(s);
	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
	my_backend = claim(s);
	if (my_backend < 0 && dv_shared_sweep(s) > 0)
		my_backend = claim(s);
	LWLockRelease(&s->lock);
	if (my_backend >= 0)
		before_shmem_exit(on_exit_free, (Datum) 0);
	return my_backend;
}

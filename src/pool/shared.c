/*-------------------------------------------------------------------------
 *
 * shared.c
 *		Where the pool's memory comes from.
 *
 * Preloaded, it is requested at start in its full size.  Otherwise it is
 * made on first use: from PostgreSQL 17 on as a named DSM segment, before
 * that as a few kilobytes out of the main segment's reserve.  If even that
 * fails the backend works on memory of its own and says so once: throttles
 * are then not known to other backends.
 *
 * The struct is the same in all cases; only its dimensions differ.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "compat.h"
#include "pool/shared.h"

/* The version is part of the name: another layout is another segment. */
#define SEGMENT_NAME "dataverse_fdw 1.0"

/* What fits the reserve of the main segment (100 kB for all extensions). */
#define SMALL_USERS		8
#define SMALL_BACKENDS	Min(MaxBackends, 160)
#define SMALL_HISTORY	32
#define SMALL_SLOTS		24

/* One backend alone. */
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

static Size
backend_size(int nusers)
{
	return MAXALIGN(offsetof(dv_shared_backend, leases) + nusers * sizeof(uint16));
}

static Size
shared_size(int nusers, int nbackends, int nhistory, int nslots)
{
	Size		size = MAXALIGN(sizeof(dv_shared));

	size = add_size(size, MAXALIGN(mul_size(nusers, sizeof(dv_shared_user))));
	size = add_size(size, MAXALIGN(mul_size(nhistory, sizeof(dv_history))));
	size = add_size(size, mul_size(nbackends, backend_size(nusers)));
	return add_size(size, mul_size(nslots, sizeof(dv_progress_slot)));
}

dv_shared_user *
dv_shared_users(dv_shared *s)
{
	return (dv_shared_user *) ((char *) s + MAXALIGN(sizeof(dv_shared)));
}

dv_history *
dv_shared_history(dv_shared *s)
{
	return (dv_history *) ((char *) dv_shared_users(s) +
						   MAXALIGN(s->nusers * sizeof(dv_shared_user)));
}

dv_shared_backend *
dv_shared_backend_at(dv_shared *s, int i)
{
	return (dv_shared_backend *) ((char *) dv_shared_history(s) +
								  MAXALIGN(s->nhistory * sizeof(dv_history)) +
								  i * backend_size(s->nusers));
}

dv_progress_slot *
dv_shared_slots(dv_shared *s)
{
	return (dv_progress_slot *) dv_shared_backend_at(s, s->nbackends);
}

static void
lay_out(dv_shared *s, int nusers, int nbackends, int nhistory, int nslots)
{
	memset(s, 0, shared_size(nusers, nbackends, nhistory, nslots));
	s->nusers = nusers;
	s->nbackends = nbackends;
	s->nhistory = nhistory;
	s->nslots = nslots;
	s->tranche = dv_lwlock_new_tranche("dataverse_fdw");
	LWLockInitialize(&s->lock, s->tranche);
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
		lay_out(shared, dv_max_application_users, MaxBackends, dv_throttle_history, FULL_SLOTS);
	LWLockRelease(AddinShmemInitLock);
}

void
dv_shared_init(void)
{
	/* only the postmaster may define what is fixed at start */
	GucContext	context = process_shared_preload_libraries_in_progress ? PGC_POSTMASTER : PGC_SIGHUP;

	DefineCustomIntVariable("dataverse_fdw.max_application_users",
							"Sets the number of application users whose state is shared by all sessions.",
							"Takes effect when the library is preloaded.",
							&dv_max_application_users, DEFAULT_USERS, 1, 4096,
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
	lay_out(segment, DEFAULT_USERS, MaxBackends, DEFAULT_HISTORY, FULL_SLOTS);
}

/* The size must be the same in all sessions, so no setting has a say in it. */
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
			lay_out(result, SMALL_USERS, SMALL_BACKENDS, SMALL_HISTORY, SMALL_SLOTS);
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

dv_shared *
dv_shared_private(bool existing)
{
	Size		size = shared_size(PRIVATE_USERS, 1, SMALL_HISTORY, PRIVATE_SLOTS);

	if (private != NULL || existing)
		return private;
	private = MemoryContextAlloc(TopMemoryContext, size);
	lay_out(private, PRIVATE_USERS, 1, SMALL_HISTORY, PRIVATE_SLOTS);
	private->is_private = true;
	dv_lwlock_register_tranche(private->tranche, "dataverse_fdw");
	dv_shared_backend_at(private, 0)->pid = MyProcPid;
	dv_shared_backend_at(private, 0)->procno = dv_my_procno();
	ereport(WARNING,
			(errmsg("dataverse_fdw has no shared memory for this session, which throttles of other sessions will not reach"),
			 errhint("Add \"dataverse_fdw\" to \"shared_preload_libraries\", or raise \"dataverse_fdw.max_application_users\", and restart the server.")));
	return private;
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
dv_shared_wake_all(dv_shared *s, uint32 waiting_for)
{
	int			i;

	for (i = 0; i < s->nbackends; i++)
	{
		dv_shared_backend *row = dv_shared_backend_at(s, i);

		if (row->pid != 0 && row->waiting_since != 0 && (row->waiting_for & waiting_for) != 0)
			SetLatch(&ProcGlobal->allProcs[row->procno].procLatch);
	}
}

/* Caller holds the lock. */
static void
free_backend(dv_shared *s, int which)
{
	dv_shared_backend *backend = dv_shared_backend_at(s, which);
	dv_shared_user *users = dv_shared_users(s);
	dv_progress_slot *slots = dv_shared_slots(s);
	int			i;

	for (i = 0; i < s->nslots; i++)
		if (slots[i].backend == which)
			slots[i].pid = 0;
	for (i = 0; i < s->nusers; i++)
	{
		users[i].in_flight -= Min(backend->leases[i], users[i].in_flight);
		backend->leases[i] = 0;
	}
	backend->waiting_since = 0;
	backend->waiting_for = 0;
	backend->woken_at = 0;
	backend->pid = 0;
}

/*
 * Runs before the transaction that is under way is aborted, when a session
 * is terminated: what that would give back is given back here.
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
	dv_shared_wake_all(shared, ~(uint32) 0);
	LWLockRelease(&shared->lock);
	my_backend = -1;
}

/* Its process is gone, or has become another. */
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

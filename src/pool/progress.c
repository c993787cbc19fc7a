/*
 * progress.c
 *		Progress reports of this backend's writes and reads.
 *
 * The lock is taken only to claim and to release a slot.  The slot holds two
 * copies of the counts, and the owner never writes the copy that is shown.  A
 * reader therefore never sees a half-written copy and never waits for the
 * owner, which may have been stopped.  A reader only has to check whether the
 * copies were switched in the meantime.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "net/text.h"
#include "pool/progress.h"
#include "pool/shared.h"

struct dv_progress
{
	dlist_node	node;			/* in mine */
	dv_shared  *shared;
	dv_progress_slot *slot;		/* NULL: none was free, or it was released */
	bool		listed;
	dv_speed	speed;
};

/* In the order of dv_wait_reason. */
static const struct
{
	const char *event;
	const char *name;
}			waits[DV_WAIT_REASONS] =

{
	{"DataverseConnect", "connect"},
	{"DataverseToken", "token"},
	{"DataverseResponse", "response"},
	{"DataverseSlot", "slot"},
	{"DataverseThrottle", "throttle"},
	{"DataverseBackoff", "backoff"},
	{"DataverseJob", "job"}
};

/* The reports of this backend. */
static dlist_head mine = DLIST_STATIC_INIT(mine);

/* When the session ends, all its slots are released together, before the reports end. */
static dv_progress_slot *
slot_of(const dv_progress *progress)
{
	if (progress->slot == NULL || dv_shared_claimed(progress->shared) < 0)
		return NULL;
	return progress->slot;
}

static void
show(dv_progress *progress, const dv_progress_counts *counts)
{
	dv_progress_slot *slot = slot_of(progress);
	uint32		turn;

	if (slot == NULL)
		return;
	turn = slot->turn + 1;
	slot->counts[turn % 2] = *counts;
	pg_write_barrier();
	slot->turn = turn;
	/* the next call writes the copy that was shown until now */
	pg_write_barrier();
}

dv_progress_counts
dv_progress_counts_of(const dv_progress_slot *slot)
{
	dv_progress_counts counts;
	uint32		turn;

	do
	{
		turn = slot->turn;
		pg_read_barrier();
		counts = slot->counts[turn % 2];
		pg_read_barrier();
	} while (slot->turn != turn);
	return counts;
}

/* The caller must hold the lock. */
static dv_progress_slot *
free_slot(dv_shared *shared)
{
	dv_progress_slot *slots = dv_shared_slots(shared);
	int			i;

	for (i = 0; i < shared->nslots; i++)
		if (slots[i].pid == 0)
			return &slots[i];
	return NULL;
}

static void
ended(void *arg)
{
	dv_progress_end(arg);
}

dv_progress *
dv_progress_begin(Oid serverid, const char *server, const char *table, const char *operation,
				  double total, MemoryContext owner)
{
	dv_progress *progress = MemoryContextAllocZero(owner, sizeof(*progress));
	MemoryContextCallback *callback = MemoryContextAllocZero(owner, sizeof(*callback));
	dv_shared  *shared = dv_shared_attach();
	char	   *common_server = dv_text_common(server, DV_NAME_LEN);
	char	   *common_table = dv_text_common(table, DV_TABLE_LEN);
	int64		now = dv_now();
	dv_progress_slot *slot = NULL;

	progress->shared = shared;
	dv_speed_start(&progress->speed, now);
	callback->func = ended;
	callback->arg = progress;
	if (dv_shared_my_backend(shared) >= 0)
	{
		LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
		slot = free_slot(shared);
		if (slot != NULL)
		{
			memset(slot, 0, sizeof(*slot));
			slot->pid = MyProcPid;
			slot->backend = dv_shared_claimed(shared);
			slot->databaseid = MyDatabaseId;
			slot->serverid = serverid;
			slot->roleid = GetOuterUserId();
			strlcpy(slot->server, common_server, DV_NAME_LEN);
			strlcpy(slot->table, common_table, DV_TABLE_LEN);
			strlcpy(slot->operation, operation, DV_OPERATION_LEN);
			slot->total = total;
			slot->started = now;
			slot->waiting_for = -1;
			slot->counts[0].resting = true;
		}
		LWLockRelease(&shared->lock);
	}
	pfree(common_server);
	pfree(common_table);
	progress->slot = slot;
	dlist_push_tail(&mine, &progress->node);
	progress->listed = true;
	MemoryContextRegisterResetCallback(owner, callback);
	return progress;
}

void
dv_progress_end(dv_progress *progress)
{
	dv_progress_slot *slot = slot_of(progress);

	if (progress->listed)
		dlist_delete(&progress->node);
	progress->listed = false;
	progress->slot = NULL;
	if (slot == NULL)
		return;
	LWLockAcquire(&progress->shared->lock, LW_EXCLUSIVE);
	slot->pid = 0;
	LWLockRelease(&progress->shared->lock);
}

void
dv_progress_update(dv_progress *progress, int64 requests, int64 taken, int64 sent,
				   int64 acknowledged, int64 rejected, int in_flight)
{
	dv_progress_counts counts = {0};

	counts.taken = taken;
	counts.sent = sent;
	counts.acknowledged = acknowledged;
	counts.rejected = rejected;
	counts.in_flight = in_flight;
	counts.requests = requests;
	counts.speed = dv_speed_note(&progress->speed, acknowledged, dv_now());
	show(progress, &counts);
}

void
dv_progress_read(dv_progress *progress, int64 requests, int64 taken, int in_flight)
{
	dv_progress_counts counts = {0};

	if (progress == NULL)
		return;
	counts.reads = true;
	counts.taken = taken;
	counts.in_flight = in_flight;
	counts.requests = requests;
	counts.speed = dv_speed_note(&progress->speed, taken, dv_now());
	show(progress, &counts);
}

void
dv_progress_rest(dv_progress *progress)
{
	dv_progress_counts counts = {0};

	counts.resting = true;
	show(progress, &counts);
}

static void
set_waiting_for(int reason)
{
	dlist_iter	iter;

	dlist_foreach(iter, &mine)
	{
		dv_progress_slot *slot = slot_of(dlist_container(dv_progress, node, iter.cur));

		if (slot != NULL)
			slot->waiting_for = reason;
	}
}

void
dv_progress_wait(dv_wait_reason reason)
{
	set_waiting_for(reason);
}

void
dv_progress_go_on(void)
{
	set_waiting_for(-1);
}

const char *
dv_wait_reason_name(dv_wait_reason reason)
{
	return waits[reason].name;
}

uint32
dv_wait_reason_event(dv_wait_reason reason)
{
	static uint32 events[DV_WAIT_REASONS];

	if (events[reason] == 0)
		events[reason] = dv_wait_event_new(waits[reason].event);
	return events[reason];
}

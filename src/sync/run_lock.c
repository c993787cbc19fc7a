/*
 * run_lock.c
 *		The lock of a run of dataverse.pull(), push(), or sync().
 *
 * This is a session-level lock, like advisory locks, because a run commits many times.
 * PostgreSQL keeps such locks when a statement fails.  If a run were cancelled where it
 * cannot catch the error, it would then seem to run for as long as its session lives,
 * and all others would wait.  Therefore the rollback of the whole transaction, which no
 * run survives, releases the lock.
 *
 * dataverse.forget_push() takes the lock for its transaction only.  It must keep it to the
 * end: until then, the others still see the push.  And its error may be caught.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"

#include "compat.h"
#include "net/xact.h"
#include "sync/run_lock.h"

/* A session has one run at a time. */
static LOCKTAG held;
static bool is_held = false;

/* The first keys of the locks of pushes and copies, as in the view dataverse.runs. */
#define PUSH_LOCK_CLASS 1685483635
#define COPY_LOCK_CLASS 1685480816

bool
dv_run_lock_release(void)
{
	if (!is_held)
		return false;
	is_held = false;
	return LockRelease(&held, ExclusiveLock, true);
}

static void
on_xact(XactEvent event)
{
	if (dv_xact_is_abort(event))
		(void) dv_run_lock_release();
}

static dv_xact_participant xact_participant = {
	.phase = DV_XACT_FREE,
	.on_xact = on_xact
};

static LOCKTAG
tag_of(uint32 class, uint32 key)
{
	LOCKTAG		tag;

	if (is_held)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this session holds the lock of a run already")));
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, class, key, 2);
	/* any role can take advisory locks in SQL, and so could keep all others from running */
	tag.locktag_type = LOCKTAG_USERLOCK;
	return tag;
}

static bool
take(uint32 class, uint32 key, bool wait)
{
	LOCKTAG		tag = tag_of(class, key);

	dv_xact_join(&xact_participant);
	if (LockAcquire(&tag, ExclusiveLock, true, !wait) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	held = tag;
	is_held = true;
	return true;
}

static uint32
key_of(int64 number)
{
	return (uint32) (number % PG_INT32_MAX);
}

bool
dv_run_lock_push(int64 push, bool wait)
{
	return take(PUSH_LOCK_CLASS, key_of(push), wait);
}

bool
dv_run_lock_copy(int64 copy, bool wait)
{
	return take(COPY_LOCK_CLASS, key_of(copy), wait);
}

bool
dv_run_lock_push_until_end(int64 push)
{
	LOCKTAG		tag = tag_of(PUSH_LOCK_CLASS, key_of(push));

	return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

/*
 * run_lock.h
 *		The lock of a run of dataverse.pull(), push(), or sync().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RUN_LOCK_H
#define DV_RUN_LOCK_H

/* Takes the lock of a push or a copy.  Returns false if another session has it and "wait" is false. */
extern bool dv_run_lock_push(int64 push, bool wait);
extern bool dv_run_lock_copy(int64 copy, bool wait);

/*
 * Takes the lock of a push until the transaction ends.  Returns false if another session has it.
 * Raises an error if this session has a run.
 */
extern bool dv_run_lock_push_until_end(int64 push);

/* Releases the lock that this session holds.  Returns false if it holds none. */
extern bool dv_run_lock_release(void);

#endif							/* DV_RUN_LOCK_H */

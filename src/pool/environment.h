/*
 * environment.h
 *		The environments that application users belong to, and the useful limit
 *		of each (useful.h).
 *
 * All users of an environment share the machine behind it, so they share its useful
 * limit.  A claim that the service has not accepted belongs to none: it neither
 * takes part of what others may use, nor tells them how long answers take.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ENVIRONMENT_H
#define DV_ENVIRONMENT_H

#include "pool/shared.h"

/* The caller of all of these functions holds the lock.  "user" is the index of an entry. */

/* Called when the service has accepted a request of the user: it belongs to the environment with this key. */
extern void dv_environment_join(dv_shared *shared, int user, const uint8 *key);

/* Called when the entry is given up.  An environment without users is forgotten. */
extern void dv_environment_leave(dv_shared *shared, int user);

/* Returns the user's environment, or NULL. */
extern dv_shared_environment *dv_environment_of(dv_shared *shared, int user);

/*
 * Returns how many more requests are of use; negative if fewer would be.  Requests that hang do not
 * hold up all others until they time out.
 */
extern int	dv_environment_room(dv_shared *shared, int user, int64 now);

/* A slot of the user has been taken; its request is about to be sent; the slot is being freed. */
extern void dv_environment_taken(dv_shared *shared, int user);
extern void dv_environment_sent(dv_shared *shared, int user, dv_shared_lease *lease, int64 now);
extern void dv_environment_freed(dv_shared *shared, int user, const dv_shared_lease *lease, int64 now);

/* The service has carried out the request of this lease. */
extern void dv_environment_answered(dv_shared *shared, int user, const dv_shared_lease *lease,
									const dv_lease_report *report);

#endif							/* DV_ENVIRONMENT_H */

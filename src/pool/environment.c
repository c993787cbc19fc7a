/*
 * environment.c
 *		The environments that application users belong to.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "pool/environment.h"

static int
find(dv_shared *shared, const uint8 *key)
{
	const dv_shared_environment *environments = dv_shared_environments(shared);
	int			i;

	for (i = 0; i < shared->nusers; i++)
		if (environments[i].used && memcmp(environments[i].key, key, DV_KEY_LEN) == 0)
			return i;
	return -1;
}

/* There is one for each user, so one is free. */
static int
make(dv_shared *shared, const uint8 *key)
{
	dv_shared_environment *environments = dv_shared_environments(shared);
	int			i = 0;

	while (environments[i].used)
		i++;
	memset(&environments[i], 0, sizeof(environments[i]));
	environments[i].used = true;
	memcpy(environments[i].key, key, DV_KEY_LEN);
	return i;
}

void
dv_environment_join(dv_shared *shared, int user, const uint8 *key)
{
	dv_shared_user *entry = &dv_shared_users(shared)[user];
	int			which = find(shared, key);

	if (which < 0)
		which = make(shared, key);
	entry->environment = which + 1;
	dv_shared_environments(shared)[which].in_flight += entry->in_flight;
}

void
dv_environment_leave(dv_shared *shared, int user)
{
	dv_shared_user *users = dv_shared_users(shared);
	dv_shared_environment *environment = dv_environment_of(shared, user);
	int			which = users[user].environment;
	int			i;

	users[user].environment = 0;
	if (environment == NULL)
		return;
	environment->in_flight -= users[user].in_flight;
	for (i = 0; i < shared->nusers; i++)
		if (users[i].used && users[i].environment == which)
			return;
	environment->used = false;
}

dv_shared_environment *
dv_environment_of(dv_shared *shared, int user)
{
	int			which = dv_shared_users(shared)[user].environment;

	return which > 0 ? &dv_shared_environments(shared)[which - 1] : NULL;
}

int
dv_environment_room(dv_shared *shared, int user, int64 now)
{
	const dv_shared_user *entry = &dv_shared_users(shared)[user];
	dv_shared_environment *environment = dv_environment_of(shared, user);
	bool		is_silent;
	int			room;

	if (environment != NULL)
	{
		room = dv_useful_limit(&environment->useful, entry->dop_hint, now) - environment->in_flight;
		is_silent = dv_useful_is_silent(&environment->useful, now);
	}
	else
	{
		room = DV_USEFUL_START - entry->in_flight;
		is_silent = now - entry->budget.last_sent > DV_USEFUL_PATIENCE;
	}
	return is_silent ? Max(room, 1) : room;
}

void
dv_environment_taken(dv_shared *shared, int user)
{
	dv_shared_environment *environment = dv_environment_of(shared, user);

	if (environment != NULL)
		environment->in_flight++;
}

void
dv_environment_sent(dv_shared *shared, int user, dv_shared_lease *lease, int64 now)
{
	dv_shared_environment *environment = dv_environment_of(shared, user);

	if (environment != NULL)
		lease->useful = dv_useful_sent(&environment->useful, environment->in_flight, now);
}

void
dv_environment_freed(dv_shared *shared, int user, const dv_shared_lease *lease, int64 now)
{
	dv_shared_environment *environment = dv_environment_of(shared, user);

	if (environment == NULL)
		return;
	dv_useful_gone(&environment->useful, lease->useful, environment->in_flight, now);
	environment->in_flight--;
}

/* The work of a request is about as large as what travels, in either direction. */
void
dv_environment_answered(dv_shared *shared, int user, const dv_shared_lease *lease,
						const dv_lease_report *report)
{
	dv_shared_environment *environment = dv_environment_of(shared, user);
	bool		carried_out = report->outcome == DV_LEASE_SUCCESS || report->outcome == DV_LEASE_PARTIAL;

	if (environment != NULL && carried_out && report->nthrottles == 0 && report->measured)
		dv_useful_answered(&environment->useful, lease->useful, lease->kind,
						   report->bytes_sent + report->bytes_received, report->duration);
}

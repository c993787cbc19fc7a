/*
 * stats.h
 *		Copies of the pool's memory for views, and resets.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_STATS_H
#define DV_STATS_H

#include "pool/entry.h"

/* The state of one application user as it was at "now", as one server sees it. */
typedef struct dv_user_stats
{
	dv_shared_user user;
	dv_shared_view view;
	bool		is_private;		/* visible only to this session */
	bool		in_use;			/* by some session */
	int			maximum;		/* of requests of this server */
	dv_useful	useful;			/* of its environment, */
	int			environment_in_flight;	/* and the requests of that */
	int			limit;			/* for the next request of the last kind */
	const char *limited_by;		/* the rule that determines it */
	int64		limited_until;	/* 0: not known */
} dv_user_stats;

/*
 * Estimates how long answers to these users take.  Returns false if too little
 * is known.  Does not attach, create, or report anything.
 */
extern bool dv_stats_latency(const dv_entry_key *keys, int n, dv_latency_estimate *estimate);

/* Returns all users, for each server that uses them, copied into the current memory context. */
extern dv_user_stats *dv_stats_users(int64 now, int *n);

typedef struct dv_event_stats
{
	dv_history	event;
	uint8		key[DV_KEY_LEN];	/* of its user */
	bool		in_use;			/* by some session of the server */
	Oid			databaseid;
	Oid			serverid;
	char		server[DV_NAME_LEN];
	char		name[DV_NAME_LEN];
} dv_event_stats;

/* Returns throttle events, oldest first, for each server that uses the user. */
extern dv_event_stats *dv_stats_events(int *n);

/* An operation that is under way, as it was at "now". */
typedef struct dv_progress_stats
{
	dv_progress_slot slot;
	dv_progress_counts counts;
	double		per_second;		/* current speed */
	double		per_second_overall;
	double		total;			/* < 0: unknown, or known to be wrong */
	double		requests_left;	/* for the remaining rows, estimated from those so far */
	int64		left;			/* microseconds; < 0: unknown */
} dv_progress_stats;

extern dv_progress_stats *dv_stats_progress(int64 now, int *n);

/*
 * Resets throttles and rates of a server's users, but not their counters, and
 * returns the number of users.  "name": only the user that the server knows by
 * this name.
 */
extern int	dv_stats_reset_pool(Oid databaseid, Oid serverid, const char *name);

/* Resets counters and history, but not throttles and rates. */
extern int	dv_stats_reset_counters(Oid databaseid, Oid serverid);

#endif							/* DV_STATS_H */

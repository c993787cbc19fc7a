/*-------------------------------------------------------------------------
 *
 * stats.h
 *		What the pool's memory says, for views; and starting over.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_STATS_H
#define DV_STATS_H

#include "pool/entry.h"

/* The state of one application user as it was at "now", as one server sees it. */
typedef struct dv_user_stats
{
	dv_shared_user user;
	dv_shared_view view;
	bool		is_private;		/* of this session alone */
	bool		in_use;			/* some session uses it */
	int			maximum;		/* of requests of this server */
	int			limit;			/* for requests of the last kind, now */
	const char *limited_by;		/* the rule that binds it */
	int64		limited_until;	/* 0: not known */
} dv_user_stats;

/*
 * How long answers to these users take.  Returns false if too little is known:
 * nothing is attached, created, or reported for that.
 */
extern bool dv_stats_latency(const dv_entry_key *keys, int n, dv_latency_estimate *estimate);

/* All of them, for each server that uses them, copied into the current memory context. */
extern dv_user_stats *dv_stats_users(int64 now, int *n);

typedef struct dv_event_stats
{
	dv_history	event;
	uint8		key[DV_KEY_LEN];	/* of its user */
	bool		in_use;			/* some session of the server uses it */
	Oid			databaseid;
	Oid			serverid;
	char		server[DV_NAME_LEN];
	char		name[DV_NAME_LEN];
} dv_event_stats;

/* Throttle events, oldest first, for each server that uses the user. */
extern dv_event_stats *dv_stats_events(int *n);

/* An operation that is under way, as it was at "now". */
typedef struct dv_progress_stats
{
	dv_progress_slot slot;
	dv_progress_counts counts;
	double		per_second;		/* of late */
	double		per_second_overall;
	double		total;			/* < 0: not known, or known to be wrong */
	double		requests_left;	/* for the rows that are left, judging by those so far */
	int64		left;			/* microseconds; < 0: not known */
} dv_progress_stats;

extern dv_progress_stats *dv_stats_progress(int64 now, int *n);

/*
 * Throttles and rates of a server's users start over, what was counted stays;
 * how many users.  "name": only the user that the server knows by this name.
 */
extern int	dv_stats_reset_pool(Oid databaseid, Oid serverid, const char *name);

/* The reverse: counters and history; throttles and rates stay. */
extern int	dv_stats_reset_counters(Oid databaseid, Oid serverid);

#endif							/* DV_STATS_H */

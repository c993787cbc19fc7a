/*
 * service.h
 *		The service: web servers with limits of their own, and the durations
 *		of requests.
 *
 * A request travels for half of "overhead", is checked by dvsim's limits, and
 * runs; its answer travels for the other half.  A refused request takes
 * REFUSAL instead of running.  Each pair of user and server has a struct
 * sim_limits.  All requests that run share dvsim's capacity.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_SERVICE_H
#define RATESIM_SERVICE_H

#include "engine.h"
#include "limits/capacity.h"
#include "limits/limits.h"
#include "rate.h"

#define SERVICE_USERS   16
#define SERVICE_SERVERS 16
#define REFUSAL         (30 * INT64_C(1000))

/* Which server a request goes to. */
enum routing
{
	ROUTE_RANDOM,				/* a random one each time (no affinity) */
	ROUTE_STICKY				/* one for all; from time to time another, with a fresh window */
};

struct service_config
{
	int			servers;
	enum routing routing;
	double		sticky_for;		/* mean seconds until the next server */
	double		overhead;		/* network and gateway, seconds on average */
	double		overhead_varies;	/* by this share */
	double		charged;		/* share of the duration that is charged */
	int			dop_low;		/* the hint swings between these */
	int			dop_high;
	double		dop_every;		/* seconds; 0: always dop_high */
	double		capacity;		/* requests that run at full speed; 0: any number */
	double		capacity_low;	/* the capacity swings between the two, */
	double		capacity_every; /* seconds; 0: it does not */
	double		overload;		/* share lost for each request beyond twice the capacity */
	double		slow_at;		/* from this second on, if not 0, a plug-in makes requests */
	double		slow_by;		/* take this many times as long */
	double		hang_share;		/* this share of the requests of users up to hang_users waits so */
	int			hang_users;		/* long for something else than the machine */
	double		hang_for;		/* seconds */

	/* all requests are refused for fault_for seconds from fault_at on; 0: never */
	double		fault_at;
	double		fault_for;
	enum sim_limit fault_limit;
};

struct answer
{
	bool		refused;
	enum sim_limit limit;
	int64_t		retry_after;
	double		remaining_requests;
	double		remaining_seconds;
	int64_t		duration;		/* of the exchange, */
	int64_t		hung;			/* the part of it that the machine had no part in, */
	int64_t		alone;			/* and what the rest would have been without load */
	int			dop_hint;
};

struct service
{
	struct engine *engine;
	struct service_config config;
	struct sim_limits_config limits_config;
	struct sim_limits limits[SERVICE_USERS][SERVICE_SERVERS];
	int			under_way[SERVICE_USERS][SERVICE_SERVERS];	/* sent, but not done */
	double		owed[SERVICE_USERS][SERVICE_SERVERS];	/* what these will be charged */
	int			stuck_to;
	struct sim_capacity capacity;
	int64_t		timer;			/* number of the current one of the capacity; others are stale */
	double		served_seconds; /* charged execution time, all users */
	int64_t		served_requests;
};

typedef void (*answer_fn) (void *target, void *request, const struct answer *answer);

void
			service_init(struct service *service, struct engine *engine, const struct service_config *config);

void		service_free(struct service *service);

/* Sends a request that will run for "seconds".  "done" is called when the answer arrives. */
void		service_send(struct service *service, int user, double seconds, answer_fn done, void *target,
						 void *request);

/* Could every server accept such a request from this user without a 429? */
bool		service_has_room(const struct service *service, int user, double seconds);

#endif

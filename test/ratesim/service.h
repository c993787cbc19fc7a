/*
 * service.h
 *		The service's side: web servers with limits of their own, and how
 *		long requests take.
 *
 * A request travels half of "overhead", is judged by dvsim's limits, runs,
 * and its answer travels the other half.  What a refused one takes is
 * REFUSAL.  Each (user, server) has a struct sim_limits.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_SERVICE_H
#define RATESIM_SERVICE_H

#include "engine.h"
#include "limits.h"
#include "rate.h"

#define SERVICE_USERS   16
#define SERVICE_SERVERS 16
#define REFUSAL         (30 * INT64_C(1000))

/* Which server a request comes to. */
enum routing
{
	ROUTE_RANDOM,				/* any, each time: no affinity */
	ROUTE_STICKY				/* one for all, and another with a fresh window from time to time */
};

struct service_config
{
	int			servers;
	enum routing routing;
	double		sticky_for;		/* mean seconds until the next server */
	double		overhead;		/* network and gateway, seconds */
	double		charged;		/* share of the duration that counts as execution time */
	int			dop_low;		/* the hint swings between these */
	int			dop_high;
	double		dop_every;		/* seconds; 0: always dop_high */

	/* everything from fault_at on for fault_for is refused; 0: never */
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
	int64_t		duration;		/* of the exchange */
	int			dop_hint;
};

struct service
{
	struct engine *engine;
	struct service_config config;
	struct sim_limits_config limits_config;
	struct sim_limits limits[SERVICE_USERS][SERVICE_SERVERS];
	int			under_way[SERVICE_USERS][SERVICE_SERVERS];	/* sent, not yet left */
	double		owed[SERVICE_USERS][SERVICE_SERVERS];	/* their seconds */
	int			stuck_to;
	double		served_seconds; /* charged execution time, all users */
	int64_t		served_requests;
};

typedef void (*answer_fn) (void *target, void *request, const struct answer *answer);

void
			service_init(struct service *service, struct engine *engine, const struct service_config *config);

/* "seconds" is how long it would run; "done" is called when the answer is there */
void		service_send(struct service *service, int user, double seconds, answer_fn done, void *target,
						 void *request);

/* Could every server take a request of so many seconds from this user without a 429? */
bool		service_has_room(const struct service *service, int user, double seconds);

#endif

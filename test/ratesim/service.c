/*
 * service.c
 *		Web servers, routing, and requests in flight.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "service.h"

struct request
{
	struct service *service;
	int			user;
	int			server;
	double		seconds;
	int64_t		sent_at;
	answer_fn	done;
	void	   *target;
	void	   *request;
	struct answer answer;
};

static void
move_on(struct engine *engine, void *target, int64_t number)
{
	struct service *service = target;
	double		wait = -log(1 - engine_random(engine)) * service->config.sticky_for;
	int			user;

	(void) number;
	service->stuck_to = (service->stuck_to + 1) % service->config.servers;
	for (user = 0; user < SERVICE_USERS; user++)
	{
		struct sim_limits *fresh = &service->limits[user][service->stuck_to];

		sim_limits_init(fresh);
		fresh->in_flight = 0;
	}
	engine_at(engine, engine->now + (int64_t) (wait * SECOND), move_on, service, 0);
}

void
service_init(struct service *service, struct engine *engine, const struct service_config *config)
{
	int			user;
	int			server;

	memset(service, 0, sizeof(*service));
	service->engine = engine;
	service->config = *config;
	service->limits_config = (struct sim_limits_config)
	{
		300		   *SECOND,
					6000,
					1200 * SECOND,
					52
	};
	for (user = 0; user < SERVICE_USERS; user++)
		for (server = 0; server < SERVICE_SERVERS; server++)
			sim_limits_init(&service->limits[user][server]);
	if (config->routing == ROUTE_STICKY)
		engine_at(engine, engine->now + (int64_t) (config->sticky_for * SECOND), move_on, service,
				  0);
}

static int
dop_now(const struct service *service)
{
	const struct service_config *config = &service->config;
	int64_t		phase;

	if (config->dop_every <= 0)
		return config->dop_high;
	phase = (service->engine->now - service->engine->start) /
		(int64_t) (config->dop_every * SECOND);
	return phase % 2 == 0 ? config->dop_high : config->dop_low;
}

static void
answered(struct engine *engine, void *target, int64_t number)
{
	struct request *request = target;

	(void) number;
	request->answer.duration = engine->now - request->sent_at;
	request->answer.dop_hint = dop_now(request->service);
	request->done(request->target, request->request, &request->answer);
	free(request);
}

static void
travel_back(struct request *request, int64_t from)
{
	struct service *service = request->service;

	engine_at(service->engine, from + (int64_t) (service->config.overhead / 2 * SECOND), answered,
			  request, 0);
}

static void
left(struct engine *engine, void *target, int64_t number)
{
	struct request *request = target;
	struct service *service = request->service;
	double		charged = request->seconds * service->config.charged;

	(void) number;
	sim_limits_leave(&service->limits[request->user][request->server], &service->limits_config,
					 engine->now, (int64_t) (charged * SECOND));
	service->under_way[request->user][request->server]--;
	service->owed[request->user][request->server] -= charged;
	service->served_seconds += charged;
	service->served_requests++;
	travel_back(request, engine->now);
}

/* Refuses the request if it arrives during the fault that the scenario asks for. */
static bool
at_fault(const struct service *service, struct answer *answer)
{
	const struct service_config *config = &service->config;
	int64_t		begin = service->engine->start + (int64_t) (config->fault_at * SECOND);
	int64_t		end = begin + (int64_t) (config->fault_for * SECOND);
	int64_t		now = service->engine->now;

	if (config->fault_at <= 0 || now < begin || now >= end)
		return false;
	answer->refused = true;
	answer->limit = config->fault_limit;
	answer->retry_after = end - now;
	return true;
}

static void
arrived(struct engine *engine, void *target, int64_t number)
{
	struct request *request = target;
	struct service *service = request->service;
	struct sim_verdict verdict;

	(void) number;
	if (!at_fault(service, &request->answer))
	{
		verdict = sim_limits_enter(&service->limits[request->user][request->server],
								   &service->limits_config, engine->now, false);
		request->answer.refused = verdict.limit != SIM_LIMIT_NONE;
		request->answer.limit = verdict.limit;
		request->answer.retry_after = verdict.retry_after_us;
		request->answer.remaining_requests = (double) verdict.remaining_requests;
		request->answer.remaining_seconds = (double) verdict.remaining_execution_us / SECOND;
	}
	if (request->answer.refused)
	{
		service->under_way[request->user][request->server]--;
		service->owed[request->user][request->server] -= request->seconds * service->config.charged;
		travel_back(request, engine->now + REFUSAL);
		return;
	}
	engine_at(engine, engine->now + (int64_t) (request->seconds * SECOND), left, request, 0);
}

void
service_send(struct service *service, int user, double seconds, answer_fn done, void *target,
			 void *handle)
{
	struct request *request = allocate(sizeof(*request));
	int			server = service->stuck_to;

	if (service->config.routing == ROUTE_RANDOM)
		server = (int) (engine_random(service->engine) * service->config.servers);
	*request = (struct request)
	{
		service, user, server, seconds, service->engine->now,
			done, target, handle,
		{
			0
		}
	};
	service->under_way[user][server]++;
	service->owed[user][server] += seconds * service->config.charged;
	engine_at(service->engine,
			  service->engine->now + (int64_t) (service->config.overhead / 2 * SECOND), arrived,
			  request, 0);
}

/* Returns how much of what is charged by now will be in a server's window at a later time. */
static double
charged_then(const struct sim_limits *limits, int64_t then)
{
	int64_t		first = then / SECOND - SIM_LIMIT_SLICES;
	int64_t		sum = 0;
	int64_t		slice;

	if (first < limits->slice - SIM_LIMIT_SLICES)
		first = limits->slice - SIM_LIMIT_SLICES;
	for (slice = first; slice <= limits->slice; slice++)
		sum += limits->slice_execution_us[slice % SIM_LIMIT_RING];
	return (double) sum / SECOND;
}

bool
service_has_room(const struct service *service, int user, double seconds)
{
	const struct sim_limits_config *config = &service->limits_config;
	int64_t		now = service->engine->now;
	double		most = (double) config->max_execution_us / SECOND;
	int			server;

	for (server = 0; server < service->config.servers; server++)
	{
		const struct sim_limits *limits = &service->limits[user][server];
		int			under_way = service->under_way[user][server];
		int64_t		then = now + (int64_t) (seconds * SECOND);
		int64_t		requests = 0;
		int64_t		slice;

		for (slice = now / SECOND - SIM_LIMIT_SLICES; slice <= limits->slice; slice++)
			requests += limits->slice_requests[slice % SIM_LIMIT_RING];
		if (requests + under_way >= config->max_requests || under_way >= config->max_concurrent)
			return false;
		if (charged_then(limits, now) >= most ||
			charged_then(limits, then) + service->owed[user][server] + seconds > most)
			return false;
	}
	return true;
}

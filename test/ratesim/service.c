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
	int64_t		began;			/* running */
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

static void
			capacity_turns(struct engine *engine, void *target, int64_t number);

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
	sim_capacity_init(&service->capacity, config->capacity, config->overload);
	if (config->capacity_every > 0)
		engine_at(engine, engine->now + (int64_t) (config->capacity_every * SECOND),
				  capacity_turns, service, 1);
}

void
service_free(struct service *service)
{
	struct request *request;

	while ((request = sim_capacity_done(&service->capacity, INT64_MAX - 1)) != NULL)
		free(request);
	sim_capacity_free(&service->capacity);
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

/* Returns how long a request or an answer travels. */
static int64_t
travel_time(const struct service *service)
{
	double		seconds = service->config.overhead / 2;

	if (service->config.overhead_varies > 0)
		seconds *= 1 + service->config.overhead_varies * (2 * engine_random(service->engine) - 1);
	return (int64_t) (seconds * SECOND);
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

	engine_at(service->engine, from + travel_time(service), answered, request, 0);
}

/* The time that a request waits for others is charged, too. */
static void
left(struct request *request)
{
	struct service *service = request->service;
	struct engine *engine = service->engine;
	double		seconds = (double) (engine->now - request->began) / SECOND;
	double		charged = seconds * service->config.charged;

	sim_limits_leave(&service->limits[request->user][request->server], &service->limits_config,
					 engine->now, (int64_t) (charged * SECOND));
	service->under_way[request->user][request->server]--;
	service->owed[request->user][request->server] -= request->seconds * service->config.charged;
	service->served_seconds += charged;
	service->served_requests++;
	travel_back(request, engine->now);
}

static void work_on(struct engine *engine, void *target, int64_t number);

static void
set_timer(struct service *service)
{
	int64_t		next = sim_capacity_next(&service->capacity);

	service->timer++;
	if (next != INT64_MAX)
		engine_at(service->engine, next, work_on, service, service->timer);
}

static void
work_on(struct engine *engine, void *target, int64_t number)
{
	struct service *service = target;
	struct request *request;

	if (number != service->timer)
		return;
	while ((request = sim_capacity_done(&service->capacity, engine->now)) != NULL)
		left(request);
	set_timer(service);
}

/* "number" counts the changes. */
static void
capacity_turns(struct engine *engine, void *target, int64_t number)
{
	struct service *service = target;
	const struct service_config *config = &service->config;

	sim_capacity_change(&service->capacity,
						number % 2 != 0 ? config->capacity_low : config->capacity, engine->now);
	set_timer(service);
	engine_at(engine, engine->now + (int64_t) (config->capacity_every * SECOND), capacity_turns,
			  service, number + 1);
}

static double
work_of(const struct service *service, double seconds)
{
	int64_t		now = service->engine->now - service->engine->start;

	if (service->config.slow_at > 0 && now >= (int64_t) (service->config.slow_at * SECOND))
		seconds *= service->config.slow_by;
	return seconds * SECOND;
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
run(struct engine *engine, void *target, int64_t number)
{
	struct request *request = target;
	struct service *service = request->service;

	(void) number;
	sim_capacity_enter(&service->capacity, request, work_of(service, request->seconds), engine->now);
	set_timer(service);
}

/* Returns how long the request waits for something else than the machine. */
static int64_t
hang_time(const struct service *service, int user)
{
	const struct service_config *config = &service->config;

	if (config->hang_share <= 0 || user >= config->hang_users ||
		engine_random(service->engine) >= config->hang_share)
		return 0;
	return (int64_t) (config->hang_for * SECOND);
}

static void
arrived(struct engine *engine, void *target, int64_t number)
{
	struct request *request = target;
	struct service *service = request->service;
	struct sim_verdict verdict;
	int64_t		hangs = hang_time(service, request->user);

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
	request->began = engine->now;
	request->answer.hung = hangs;
	request->answer.alone = (int64_t) (work_of(service, request->seconds) +
									   service->config.overhead * SECOND);
	if (hangs > 0)
		engine_at(engine, engine->now + hangs, run, request, 0);
	else
		run(engine, request, 0);
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
		service, user, server, seconds, service->engine->now, 0,
			done, target, handle,
		{
			0
		}
	};
	service->under_way[user][server]++;
	service->owed[user][server] += seconds * service->config.charged;
	engine_at(service->engine, service->engine->now + travel_time(service), arrived, request, 0);
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

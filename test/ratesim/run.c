/*
 * run.c
 *		Sets up a simulation, runs it, and sums up the outcome.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

struct neighbour
{
	struct neighbour_config config;
	struct service *service;
	bool		busy;
	int64_t		shut_until;
	double		done;
	double		done_seconds;
};

static void
neighbour_answered(void *target, void *request, const struct answer *answer)
{
	struct neighbour *neighbour = target;
	int64_t		now = neighbour->service->engine->now;

	(void) request;
	if (answer->refused)
		neighbour->shut_until = now + answer->retry_after + SECOND;
	else
	{
		neighbour->done++;
		neighbour->done_seconds += neighbour->config.seconds;
	}
}

static void
neighbour_sends(struct engine *engine, void *target, int64_t number)
{
	struct neighbour *neighbour = target;
	double		every = neighbour->config.seconds / neighbour->config.busy_rate;

	(void) number;
	if (neighbour->busy && engine->now >= neighbour->shut_until)
		service_send(neighbour->service, 0, neighbour->config.seconds, neighbour_answered,
					 neighbour, NULL);
	engine_at(engine, engine->now + (int64_t) (every * SECOND), neighbour_sends, neighbour, 0);
}

static void
neighbour_turns(struct engine *engine, void *target, int64_t number)
{
	struct neighbour *neighbour = target;
	double		mean;

	(void) number;
	neighbour->busy = !neighbour->busy;
	mean = neighbour->busy ? neighbour->config.busy_for : neighbour->config.quiet_for;
	engine_at(engine, engine->now - (int64_t) (log(1 - engine_random(engine)) * mean * SECOND),
			  neighbour_turns, neighbour, 0);
}

static void
neighbour_start(struct neighbour *neighbour, struct engine *engine, struct service *service,
				const struct neighbour_config *config)
{
	*neighbour = (struct neighbour)
	{
		.config = *config, .service = service
	};
	if (config->seconds <= 0)
		return;
	neighbour_turns(engine, neighbour, 0);
	neighbour_sends(engine, neighbour, 0);
}

static double
smaller(double a, double b)
{
	return a < b ? a : b;
}

/* Returns how many concurrent requests the hint and the hard limit allow, on average. */
static double
mean_parallelism(const struct run *run)
{
	const struct machine_config *machine = &run->machines[0];
	double		high = dv_rate_maximum(machine->max_parallel, run->service.dop_high);
	double		low = dv_rate_maximum(machine->max_parallel, run->service.dop_low);

	return run->service.dop_every > 0 ? (high + low) / 2 : high;
}

double
best_possible(const struct run *run, double neighbour_requests, double neighbour_seconds)
{
	const struct machine_config *machine = &run->machines[0];
	const struct service_config *service = &run->service;
	double		mean = work_mean(machine);
	double		servers = service->routing == ROUTE_RANDOM ? service->servers : 1;
	double		requests = 20 * run->seconds * servers * machine->users - neighbour_requests;
	double		capacity = service->capacity;
	double		seconds = 4 * run->seconds * servers * machine->users - neighbour_seconds;
	double		slots = mean_parallelism(run) * run->nmachines * run->seconds * machine->users;

	if (service->capacity_every > 0)
		capacity = (capacity + service->capacity_low) / 2;
	if (capacity > 0)
		requests = smaller(requests, capacity * run->seconds / mean - neighbour_requests);
	return smaller(smaller(requests, seconds / (mean * service->charged)),
				   slots / (mean + service->overhead));
}

struct run
run_default(const char *name)
{
	struct run	run = {
		.name = name,
		.seconds = 3600,
		.seed = 1,
		.repeats = 1,
		.service = {.servers = 1, .overhead = 0.05, .charged = 1, .dop_high = 52},
		.nmachines = 1,
	};
	struct machine_config machine = {
		.users = 1,
		.backends = 1,
		.want = 52 * SERVICE_USERS,
		.rate = dv_rate_preset(DV_PRESET_BALANCED),
		.policy = POLICY_BUDGET,
		.useful = true,
	};

	run.machines[0] = machine;
	run.machines[1] = machine;
	return run;
}

void
run_work(struct run *run, dv_kind kind, double shortest, double longest)
{
	int			i;

	for (i = 0; i < RUN_MACHINES; i++)
	{
		struct machine_config *machine = &run->machines[i];

		machine->works[machine->nworks++] = (struct work)
		{
			kind, 1, shortest, longest, false
		};
	}
}

/* Requests in flight at the end are half done on average. */
static double
unfinished(const struct machine *machine)
{
	int			under_way = 0;
	int			user;

	for (user = 0; user < machine->config.users; user++)
		under_way += machine->users[user].in_flight;
	return under_way / 2.0;
}

static void
add_up(const struct run *run, const struct neighbour *neighbour, struct outcome *outcome)
{
	double		shares[RUN_MACHINES];
	double		user_seconds = 0;
	int64_t		waited = 0;
	int64_t		alone = 0;
	double		wasted = 0;
	int			i;

	outcome->best = best_possible(run, neighbour->done, neighbour->done_seconds);
	for (i = 0; i < run->nmachines; i++)
	{
		struct machine *machine = outcome->machines[i];

		outcome->done += machine->done_seconds / work_mean(&run->machines[0]) + unfinished(machine);
		outcome->sent += machine->sent;
		waited += machine->waited;
		alone += machine->alone;
		outcome->throttles += machine->throttles;
		wasted += machine_wasted(machine);
		user_seconds += run->seconds * machine->config.users;
		shares[i] = machine->done_seconds;
		if (machine->peak > outcome->peak)
			outcome->peak = machine->peak;
		if ((double) machine->silence / SECOND > outcome->silence)
			outcome->silence = (double) machine->silence / SECOND;
		if ((double) machine->gap / SECOND > outcome->gap)
			outcome->gap = (double) machine->gap / SECOND;
	}
	outcome->stretched = alone > 0 ? (double) waited / (double) alone : 1;
	outcome->wasted = wasted / user_seconds;
	outcome->fairness = run->nmachines > 1 ? jain(shares, run->nmachines)
		: machine_fairness(outcome->machines[0]);
}

static void
play_once(const struct run *run, struct outcome *outcome)
{
	struct engine *engine = allocate(sizeof(*engine));
	struct service *service = allocate(sizeof(*service));
	struct neighbour *neighbour = allocate(sizeof(*neighbour));
	int			i;

	memset(outcome, 0, sizeof(*outcome));
	engine_init(engine, run->seconds, run->seed);
	service_init(service, engine, &run->service);
	neighbour_start(neighbour, engine, service, &run->neighbour);
	for (i = 0; i < run->nmachines; i++)
	{
		outcome->machines[i] = allocate(sizeof(struct machine));
		machine_init(outcome->machines[i], engine, service, &run->machines[i]);
	}
	engine_run(engine);
	add_up(run, neighbour, outcome);
	engine_free(engine);
	free(engine);
	service_free(service);
	free(service);
	free(neighbour);
}

static void
merge(struct outcome *sum, const struct outcome *one, int repeats)
{
	sum->best += one->best;
	sum->done += one->done;
	sum->sent += one->sent;
	sum->throttles += one->throttles;
	sum->wasted += one->wasted / repeats;
	sum->stretched += one->stretched / repeats;
	sum->fairness += one->fairness / repeats;
	if (one->silence > sum->silence)
		sum->silence = one->silence;
	if (one->gap > sum->gap)
		sum->gap = one->gap;
	if (one->peak > sum->peak)
		sum->peak = one->peak;
}

void
run_start(const struct run *run, struct outcome *outcome)
{
	struct run	again = *run;
	struct outcome one;
	int			i;
	int			k;

	memset(outcome, 0, sizeof(*outcome));
	for (i = 0; i < run->repeats; i++, again.seed++)
	{
		play_once(&again, &one);
		merge(outcome, &one, run->repeats);
		for (k = 0; i == 0 && k < RUN_MACHINES; k++)
			outcome->machines[k] = one.machines[k];
		if (i > 0)
			outcome_free(&one);
	}
}

void
outcome_free(struct outcome *outcome)
{
	int			i;

	for (i = 0; i < RUN_MACHINES; i++)
		free(outcome->machines[i]);
}

/*
 * run.h
 *		One simulation: a service, machines, perhaps a noisy neighbour; and
 *		what came of it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_RUN_H
#define RATESIM_RUN_H

#include "machine.h"

#define RUN_MACHINES 2

/* Someone else who uses user 0: busy and quiet in turn, whatever happens to others. */
struct neighbour_config
{
	double		seconds;		/* of one request; 0: there is none */
	double		busy_rate;		/* execution seconds for a second while busy */
	double		busy_for;		/* mean lengths */
	double		quiet_for;
};

struct run
{
	const char *name;
	double		seconds;
	uint64_t	seed;
	int			repeats;		/* with other seeds; the outcome is that of all together */
	struct service_config service;
	int			nmachines;
	struct machine_config machines[RUN_MACHINES];
	struct neighbour_config neighbour;
};

struct outcome
{
	double		best;			/* requests, see best_possible */
	double		done;			/* requests */
	int64_t		sent;
	int64_t		throttles;
	double		wasted;			/* share of all user time spent shut out, 0 to 1 */
	double		fairness;		/* between backends, or between machines */
	double		silence;		/* longest, seconds */
	int			peak;
	struct machine *machines[RUN_MACHINES];
};

/* the machines of the outcome are those of the first time */
void		run_start(const struct run *run, struct outcome *outcome);
void		outcome_free(struct outcome *outcome);

/*
 * The most requests that the limits allow in the time, whatever a client
 * does: for each user the least of requests, execution time and concurrency;
 * less what a neighbour used.  With several servers this counts every server
 * in full, which nobody reaches who cannot choose the server (README.md).
 */
double		best_possible(const struct run *run, double neighbour_requests, double neighbour_seconds);

struct run	run_default(const char *name);

/* works from shortest to longest seconds */
void		run_work(struct run *run, dv_kind kind, double shortest, double longest);

#endif

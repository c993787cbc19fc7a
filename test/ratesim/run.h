/*
 * run.h
 *		One simulation (a service, machines, and possibly a noisy neighbour)
 *		and its outcome.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_RUN_H
#define RATESIM_RUN_H

#include "machine.h"

#define RUN_MACHINES 2

/* Another client of user 0, which is busy and quiet in turn, regardless of other clients. */
struct neighbour_config
{
	double		seconds;		/* of one request; 0: there is none */
	double		busy_rate;		/* seconds of execution per second while busy */
	double		busy_for;		/* mean durations in seconds */
	double		quiet_for;
};

struct run
{
	const char *name;
	double		seconds;
	uint64_t	seed;
	int			repeats;		/* with different seeds; the outcome combines all of them */
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
	double		wasted;			/* share of all users' time spent throttled, 0 to 1 */
	double		stretched;		/* mean duration relative to that without load */
	double		fairness;		/* between backends, or between machines */
	double		silence;		/* longest, seconds */
	double		gap;			/* longest without an answer, seconds */
	int			peak;
	struct machine *machines[RUN_MACHINES];
};

/* Runs a simulation.  The machines of the outcome are those of the first repetition. */
void		run_start(const struct run *run, struct outcome *outcome);
void		outcome_free(struct outcome *outcome);

/*
 * Returns the most requests that the limits allow in the time, whatever a
 * client does: for each user, the least of requests, execution time, and
 * concurrency, minus what a neighbour used.  With several servers, this counts
 * the full limits of each server, which a client that cannot choose the server
 * does not reach (see README.md).
 */
double		best_possible(const struct run *run, double neighbour_requests, double neighbour_seconds);

struct run	run_default(const char *name);

/* Adds work that takes from "shortest" to "longest" seconds. */
void		run_work(struct run *run, dv_kind kind, double shortest, double longest);

#endif

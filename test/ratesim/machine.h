/*
 * machine.h
 *		One PostgreSQL machine: users in shared memory and the backends that
 *		send through them.
 *
 * This follows the rules of src/pool/pool.c and wait.c and uses the same pure
 * modules: candidates, dv_select, fairness, leases, and waking.  A backend keeps
 * up to "want" requests in flight as long as there is work.  All backends are
 * always present, so no slots are lent on.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_MACHINE_H
#define RATESIM_MACHINE_H

#include "policy.h"
#include "rate.h"
#include "select.h"
#include "throttle.h"
#include "useful.h"

#define MACHINE_BACKENDS 64
#define SAMPLE_EVERY     1		/* seconds */
#define SAMPLES          4096

/* A kind of request.  Several kinds are mixed at random, by weight. */
struct work
{
	dv_kind		kind;
	double		weight;
	double		shortest;		/* seconds, uniformly distributed in between */
	double		longest;
	bool		sized;			/* longer requests are larger ones, as batches of more rows are */
};

#define WORKS 4

/* How long the short requests of a reader take. */
#define READ_SECONDS  0.05
#define READS_MAX     131072

/* Rules of the rate controller on which the founding documents contradict one another. */
enum reading
{
	READING_OURS,
	READING_NO_CEILING,			/* throttles leave no ceiling */
	READING_FIRST_CEILING,		/* the first throttle leaves one, however short the wait */
	READING_SLOW_CEILING,		/* they leave one for slow kinds only */
	READING_CUT_WHAT_IS_USED	/* they cut what was in flight instead of the limit */
};

struct machine_config
{
	int			users;
	int			backends;
	int			want;			/* most requests that a backend has in flight */
	dv_rate_config rate;
	int			max_parallel;
	enum reading reading;
	enum policy policy;
	bool		useful;			/* the useful limit is on */
	bool		start_half;		/* also where the budgets are full */
	dv_selection selection;
	int			nworks;
	struct work works[WORKS];
	bool		own_work;		/* each backend has one of them; else all have all */
	double		begin;			/* seconds after the start */
	int64_t		requests;		/* of each kind of work, one kind after the other; 0: all kinds
								 * mixed, without end */
	double		stagger;		/* seconds between the starts of backends */
	int			readers;		/* the last backends send short requests, one after the other, */
	double		read_pause;		/* with a pause of so many seconds after each */
};

struct machine;

struct backend
{
	struct machine *machine;
	int			leases;
	int64_t		waiting_since;
	int64_t		woken_at;
	uint64_t	tried;			/* ticket of its last try that failed */
	int64_t		next_try;		/* when it tries by itself; 0: no time */
	int64_t		timer;			/* number of the current timer; others are stale */
	bool		started;
	bool		reader;
	int64_t		asked_at;		/* when a reader needed its request */
	const struct work *next;	/* the request to send next */
	int64_t		done;
	double		done_seconds;
};

struct user
{
	dv_rate		rate;
	dv_throttle throttle;
	struct policy_state pacing;
	int			in_flight;
	int			in_flight_of[DV_KINDS];
	int			ceiling;		/* of the last throttle, where it applies to slow kinds only */
	uint64_t	changed;		/* ticket: since then waiters that failed may succeed */
	uint64_t	last_used;
};

/* The state of all users together at one moment, for the plots. */
struct sample
{
	double		in_flight;
	double		limit;
	double		rate;			/* requests finished per second since the last sample */
	int			throttles;		/* since the last sample */
};

struct machine
{
	struct engine *engine;
	struct service *service;
	struct machine_config config;
	dv_useful	useful;			/* of all users */
	int			in_flight;
	int			dop_hint;		/* of the last answer */
	struct user users[SERVICE_USERS];
	int			order[SERVICE_USERS];	/* of the users, the least recently used one first */
	struct backend backends[MACHINE_BACKENDS];
	uint64_t	ticket;
	int64_t		sent;
	int64_t		done;
	double		done_seconds;	/* execution time of the requests done */
	int64_t		waited;			/* sum of the durations of the requests done, */
	int64_t		alone;			/* and of what they would have been without load */
	int64_t		done_of[WORKS];
	int64_t		throttles;
	int			job;			/* current work, if kinds come one after the other */
	double		job_ended[WORKS];	/* seconds after the start */
	int64_t		job_throttles[WORKS];
	int			peak;			/* most requests in flight, of one user */
	int64_t		silence;		/* longest time without sending while not throttled */
	int64_t		last_sent;
	int64_t		gap;			/* longest time without an answer to a load, whatever the reason */
	int64_t		last_done;
	double		reads[READS_MAX];	/* seconds from need to answer of the reader's requests */
	int			nreads;
	struct sample samples[SAMPLES];
	int			nsamples;
	int64_t		sampled_done;
	int64_t		sampled_throttles;
};

void		machine_init(struct machine *machine, struct engine *engine, struct service *service,
						 const struct machine_config *config);

/* Returns the seconds, summed over users, during which throttles left them unused. */
double		machine_wasted(const struct machine *machine);

/* Return Jain's index of what the backends have done, and of any shares. */
double		machine_fairness(const struct machine *machine);
double		jain(const double *shares, int n);

/* Returns the time that 95 % of the reader's requests took at most. */
double		machine_slow_read(struct machine *machine);

double		work_mean(const struct machine_config *config);

#endif

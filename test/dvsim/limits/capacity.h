/*
 * capacity.h
 *		The capacity of an environment: requests that are carried out at the same
 *		time share it.
 *
 * With n requests under way, each progresses at min(1, capacity / n) of full
 * speed (processor sharing), so that beyond the capacity requests only wait for
 * each other.  Overload costs capacity: each request beyond twice the capacity
 * takes away a share of what is left.
 *
 * Pure: time is an argument, and what happens between two calls is computed
 * exactly, however the number of requests has changed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_CAPACITY_H
#define SIM_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

struct sim_task
{
	double		end;			/* progress at which it is done */
	uint64_t	order;			/* tasks that end together are done in the order of their arrival */
	void	   *request;
};

struct sim_capacity
{
	double		capacity;		/* requests that progress at full speed; 0: no end */
	double		overload;		/* 0 to 1: see above */
	int64_t		now;			/* microseconds, as of which is: */
	double		progress;		/* of a task that has been here from the start, microseconds */
	uint64_t	entered;
	struct sim_task *tasks;		/* a heap, the first to be done on top */
	int			n;
	int			room;
};

void		sim_capacity_init(struct sim_capacity *capacity, double requests, double overload);
void		sim_capacity_free(struct sim_capacity *capacity);

/* Changes the capacity from now on. */
void		sim_capacity_change(struct sim_capacity *capacity, double requests, int64_t now);

/* A request begins, which takes "work" microseconds at full speed. */
void		sim_capacity_enter(struct sim_capacity *capacity, void *request, double work, int64_t now);

/* Takes out a request that is not done.  Returns whether it was there. */
bool		sim_capacity_remove(struct sim_capacity *capacity, const void *request, int64_t now);

/* Returns when the next request is done if none begins before; INT64_MAX: there is none. */
int64_t		sim_capacity_next(const struct sim_capacity *capacity);

/* Takes out a request that is done by now; NULL: there is none. */
void	   *sim_capacity_done(struct sim_capacity *capacity, int64_t now);

#endif

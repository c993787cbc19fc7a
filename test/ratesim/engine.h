/*
 * engine.h
 *		Virtual time: events in order, and random numbers that repeat.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_ENGINE_H
#define RATESIM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECOND INT64_C(1000000)

struct engine;

/* "number" is for whoever scheduled it, for instance to know a stale timer. */
typedef void (*event_fn) (struct engine *engine, void *target, int64_t number);

struct event
{
	int64_t		at;
	uint64_t	order;			/* events of one moment run as they were scheduled */
	event_fn	run;
	void	   *target;
	int64_t		number;
};

struct engine
{
	int64_t		now;
	int64_t		start;
	int64_t		end;
	uint64_t	random;
	uint64_t	scheduled;
	struct event *heap;
	int			n;
	int			room;
};

void		engine_init(struct engine *engine, double seconds, uint64_t seed);
void		engine_free(struct engine *engine);
void		engine_at(struct engine *engine, int64_t at, event_fn run, void *target, int64_t number);

/* until nothing is left to happen or the end is reached */
void		engine_run(struct engine *engine);

/* even in [0, 1) */
double		engine_random(struct engine *engine);

/* exits when there is no memory */
void	   *allocate(size_t size);

#endif

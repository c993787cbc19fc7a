/*
 * engine.h
 *		Virtual time: ordered events, and reproducible random numbers.
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

/* "number" is up to the code that schedules the event, which may use it to detect stale timers. */
typedef void (*event_fn) (struct engine *engine, void *target, int64_t number);

struct event
{
	int64_t		at;
	uint64_t	order;			/* simultaneous events run in the order of scheduling */
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

/* Runs events until none is left or the end is reached. */
void		engine_run(struct engine *engine);

/* Returns a random number, uniformly distributed in [0, 1). */
double		engine_random(struct engine *engine);

/* Allocates zeroed memory, or exits if there is none. */
void	   *allocate(size_t size);

#endif

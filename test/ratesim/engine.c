/*
 * engine.c
 *		A binary heap of events, and a small random number generator (splitmix64).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

void *
allocate(size_t size)
{
	void	   *memory = calloc(1, size);

	if (memory == NULL)
	{
		fputs("ratesim: out of memory\n", stderr);
		exit(2);
	}
	return memory;
}

void
engine_init(struct engine *engine, double seconds, uint64_t seed)
{
	memset(engine, 0, sizeof(*engine));
	engine->start = 1000 * SECOND;	/* 0 means "never" to the pure modules */
	engine->now = engine->start;
	engine->end = engine->start + (int64_t) (seconds * SECOND);
	engine->random = seed;
	engine->room = 1024;
	engine->heap = allocate(engine->room * sizeof(struct event));
}

void
engine_free(struct engine *engine)
{
	free(engine->heap);
}

static bool
before(const struct event *a, const struct event *b)
{
	if (a->at != b->at)
		return a->at < b->at;
	return a->order < b->order;
}

static void
swap(struct event *a, struct event *b)
{
	struct event c = *a;

	*a = *b;
	*b = c;
}

void
engine_at(struct engine *engine, int64_t at, event_fn run, void *target, int64_t number)
{
	struct event *heap;
	int			i;

	if (engine->n == engine->room)
	{
		engine->room *= 2;
		engine->heap = realloc(engine->heap, engine->room * sizeof(struct event));
		if (engine->heap == NULL)
			exit(2);
	}
	heap = engine->heap;
	i = engine->n++;
	heap[i] = (struct event)
	{
		at > engine->now ? at : engine->now, engine->scheduled++, run, target,
			number
	};
	for (; i > 0 && before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&heap[i], &heap[(i - 1) / 2]);
}

static struct event
next_event(struct engine *engine)
{
	struct event *heap = engine->heap;
	struct event first = heap[0];
	int			i = 0;

	heap[0] = heap[--engine->n];
	for (;;)
	{
		int			child = 2 * i + 1;

		if (child >= engine->n)
			break;
		if (child + 1 < engine->n && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &heap[i]))
			break;
		swap(&heap[child], &heap[i]);
		i = child;
	}
	return first;
}

void
engine_run(struct engine *engine)
{
	while (engine->n > 0 && engine->heap[0].at < engine->end)
	{
		struct event event = next_event(engine);

		engine->now = event.at;
		event.run(engine, event.target, event.number);
	}
	engine->now = engine->end;
}

double
engine_random(struct engine *engine)
{
	uint64_t	z = engine->random += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	z ^= z >> 31;
	return (z >> 11) * (1.0 / 9007199254740992.0);
}

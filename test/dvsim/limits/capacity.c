/*
 * capacity.c
 *		Processor sharing, exact in virtual time.
 *
 * All tasks progress at the same speed, so one clock suffices: "progress" is how
 * far a task has come that has been here from the start.  A task that enters is
 * done when the clock has moved on by its work; whatever the speed will be, the
 * order in which tasks are done is known.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "limits/capacity.h"

/* progress that is lost in rounding */
#define NEARLY 1e-3

void
sim_capacity_init(struct sim_capacity *capacity, double requests, double overload)
{
	memset(capacity, 0, sizeof(*capacity));
	capacity->capacity = requests;
	capacity->overload = overload;
}

void
sim_capacity_free(struct sim_capacity *capacity)
{
	free(capacity->tasks);
	memset(capacity, 0, sizeof(*capacity));
}

/* of each task, relative to full speed */
static double
speed_of(const struct sim_capacity *capacity)
{
	double		served = capacity->capacity;

	if (served <= 0 || capacity->n <= served)
		return 1;
	if (capacity->n > 2 * served)
		served *= pow(1 - capacity->overload, capacity->n - 2 * served);
	return served / capacity->n;
}

static void
move_on(struct sim_capacity *capacity, int64_t now)
{
	if (now <= capacity->now)
		return;
	if (capacity->n > 0)
		capacity->progress += speed_of(capacity) * (double) (now - capacity->now);
	else
		capacity->progress = 0;
	capacity->now = now;
}

void
sim_capacity_change(struct sim_capacity *capacity, double requests, int64_t now)
{
	move_on(capacity, now);
	capacity->capacity = requests;
}

static bool
earlier(const struct sim_task *a, const struct sim_task *b)
{
	if (a->end != b->end)
		return a->end < b->end;
	return a->order < b->order;
}

/* moves the task at this place up to where it belongs */
static void
lift(struct sim_task *tasks, int i)
{
	struct sim_task task = tasks[i];

	for (; i > 0 && earlier(&task, &tasks[(i - 1) / 2]); i = (i - 1) / 2)
		tasks[i] = tasks[(i - 1) / 2];
	tasks[i] = task;
}

static void
sink(struct sim_task *tasks, int n, int i)
{
	struct sim_task task = tasks[i];
	int			child;

	while ((child = 2 * i + 1) < n)
	{
		if (child + 1 < n && earlier(&tasks[child + 1], &tasks[child]))
			child++;
		if (!earlier(&tasks[child], &task))
			break;
		tasks[i] = tasks[child];
		i = child;
	}
	tasks[i] = task;
}

static void
take_out(struct sim_capacity *capacity, int i)
{
	int			last = --capacity->n;

	if (i == last)
		return;
	capacity->tasks[i] = capacity->tasks[last];
	sink(capacity->tasks, capacity->n, i);
	lift(capacity->tasks, i);
}

void
sim_capacity_enter(struct sim_capacity *capacity, void *request, double work, int64_t now)
{
	move_on(capacity, now);
	if (capacity->n == capacity->room)
	{
		capacity->room = capacity->room > 0 ? 2 * capacity->room : 64;
		capacity->tasks = realloc(capacity->tasks, capacity->room * sizeof(struct sim_task));
		if (capacity->tasks == NULL)
			abort();
	}
	capacity->tasks[capacity->n] = (struct sim_task)
	{
		capacity->progress + work, capacity->entered++, request
	};
	lift(capacity->tasks, capacity->n++);
}

bool
sim_capacity_remove(struct sim_capacity *capacity, const void *request, int64_t now)
{
	int			i;

	move_on(capacity, now);
	for (i = 0; i < capacity->n; i++)
	{
		if (capacity->tasks[i].request != request)
			continue;
		take_out(capacity, i);
		return true;
	}
	return false;
}

int64_t
sim_capacity_next(const struct sim_capacity *capacity)
{
	double		left;

	if (capacity->n == 0)
		return INT64_MAX;
	left = capacity->tasks[0].end - capacity->progress;
	if (left <= NEARLY)
		return capacity->now;
	left = ceil(left / speed_of(capacity) - NEARLY);
	return left < 1e17 ? capacity->now + (int64_t) left : INT64_MAX;
}

void *
sim_capacity_done(struct sim_capacity *capacity, int64_t now)
{
	void	   *request;

	/* a call that comes late finds each request done at its own time */
	while (sim_capacity_next(capacity) <= now)
	{
		move_on(capacity, sim_capacity_next(capacity));
		if (capacity->tasks[0].end - capacity->progress > NEARLY)
			continue;
		request = capacity->tasks[0].request;
		take_out(capacity, 0);
		return request;
	}
	return NULL;
}

/*
 * limits.c
 *		Service protection limits: the arithmetic behind a 429.
 *
 * limits.h describes the rules.  Slices are numbered from time 0 and their
 * borders are computed from the window each time (not as multiples of a
 * rounded width), so any window length is exact to the microsecond.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "limits/limits.h"

/* headroom for which a Retry-After waits: this fraction of the limit */
#define HEADROOM 20

/* the most slices of a Retry-After for concurrency */
#define MAX_CONCURRENCY_WAIT 5

static int64_t
slice_of(const struct sim_limits_config *config, int64_t us)
{
	return us * SIM_LIMIT_SLICES / config->window_us;
}

/* the first microsecond of a slice */
static int64_t
slice_start(const struct sim_limits_config *config, int64_t slice)
{
	return (slice * config->window_us + SIM_LIMIT_SLICES - 1) / SIM_LIMIT_SLICES;
}

static int64_t
slice_width(const struct sim_limits_config *config)
{
	return config->window_us / SIM_LIMIT_SLICES;
}

/* place in the ring; slices before time 0 are empty places too */
static int
place(int64_t slice)
{
	return (int) ((slice + SIM_LIMIT_RING) % SIM_LIMIT_RING);
}

static int64_t
larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t
smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void
slide(struct sim_limits *limits, int64_t slice)
{
	int64_t		steps = smaller(slice - limits->slice, SIM_LIMIT_RING);
	int64_t		i;

	for (i = 1; i <= steps; i++)
	{
		int			gone = place(slice - steps + i);

		limits->requests -= limits->slice_requests[gone];
		limits->execution_us -= limits->slice_execution_us[gone];
		limits->slice_requests[gone] = 0;
		limits->slice_execution_us[gone] = 0;
	}
	limits->slice = slice;
}

static void
decay(struct sim_limits *limits, const struct sim_limits_config *config)
{
	int64_t		halvings = (limits->slice - limits->decay_slice) / SIM_LIMIT_DECAY;

	if (halvings == 0)
		return;
	limits->penalty_us = halvings < 63 ? limits->penalty_us >> halvings : 0;
	if (limits->penalty_us < slice_width(config))
		limits->penalty_us = 0;
	limits->decay_slice += halvings * SIM_LIMIT_DECAY;
}

/* moves the window to the current time; time that goes back stands still */
static void
advance(struct sim_limits *limits, const struct sim_limits_config *config, int64_t now_us)
{
	int64_t		slice = slice_of(config, now_us);

	if (slice <= limits->slice)
		return;
	slide(limits, slice);
	decay(limits, config);
}

/*
 * Returns when enough slices will have left that "sum" is below "max" with
 * headroom; in the past if it already is.
 */
static int64_t
room_at(const struct sim_limits *limits, const struct sim_limits_config *config,
		const int64_t *slices, int64_t sum, int64_t max)
{
	int64_t		goal = max - larger(max / HEADROOM, 1);
	int64_t		oldest = limits->slice - SIM_LIMIT_SLICES;

	while (sum > goal && oldest <= limits->slice)
		sum -= slices[place(oldest++)];
	return slice_start(config, oldest + SIM_LIMIT_SLICES);
}

/* returns the limit that the window itself has reached */
static enum sim_limit
window_limit(const struct sim_limits *limits, const struct sim_limits_config *config)
{
	if (limits->requests >= config->max_requests)
		return SIM_LIMIT_REQUESTS;
	if (limits->execution_us >= config->max_execution_us)
		return SIM_LIMIT_EXECUTION;
	return SIM_LIMIT_NONE;
}

static void
grow_penalty(struct sim_limits *limits, const struct sim_limits_config *config)
{
	int64_t		unit = slice_width(config);

	if (limits->slice == limits->penalty_slice)
		return;
	limits->penalty_us = smaller(larger(limits->penalty_us * 2, unit),
								 SIM_LIMIT_MAX_PENALTY * unit);
	limits->penalty_slice = limits->slice;
	limits->decay_slice = limits->slice;
}

/* refuses for requests or time, and returns the Retry-After */
static int64_t
block(struct sim_limits *limits, const struct sim_limits_config *config, int64_t now_us,
	  bool light)
{
	int64_t		until = now_us;
	int64_t		wait;

	if (limits->requests >= config->max_requests)
		until = larger(until, room_at(limits, config, limits->slice_requests,
									  limits->requests, config->max_requests));
	if (limits->execution_us >= config->max_execution_us)
		until = larger(until, room_at(limits, config, limits->slice_execution_us,
									  limits->execution_us, config->max_execution_us));

	/*
	 * A block that begins marks its slice, so that only later requests count as coming back.  The
	 * rest of an older penalty stays.
	 */
	if (now_us >= limits->blocked_until_us)
		limits->penalty_slice = limits->slice;
	else if (!light)
		grow_penalty(limits, config);

	wait = larger(until + limits->penalty_us, limits->blocked_until_us) - now_us;
	if (wait < slice_width(config) / 2)
		wait = 0;
	limits->blocked_until_us = now_us + wait;
	return wait;
}

static int64_t
concurrency_wait(struct sim_limits *limits, const struct sim_limits_config *config)
{
	int64_t		slices;

	if (limits->refused_slice != limits->slice)
	{
		limits->refused_slice = limits->slice;
		limits->refused = 0;
	}
	slices = limits->refused * 2 / larger(config->max_concurrent, 1);
	limits->refused++;
	return smaller(slices, MAX_CONCURRENCY_WAIT) * slice_width(config);
}

void
sim_limits_init(struct sim_limits *limits)
{
	memset(limits, 0, sizeof(*limits));
	limits->blocked_by = SIM_LIMIT_NONE;
}

struct sim_verdict
sim_limits_enter(struct sim_limits *limits, const struct sim_limits_config *config,
				 int64_t now_us, bool light)
{
	struct sim_verdict verdict = {SIM_LIMIT_NONE, 0, 0, 0};

	advance(limits, config, now_us);
	verdict.limit = window_limit(limits, config);
	if (verdict.limit == SIM_LIMIT_NONE && !light && now_us < limits->blocked_until_us)
		verdict.limit = limits->blocked_by;

	if (verdict.limit != SIM_LIMIT_NONE)
	{
		limits->blocked_by = verdict.limit;
		verdict.retry_after_us = block(limits, config, now_us, light);
	}
	else if (limits->in_flight >= config->max_concurrent)
	{
		verdict.limit = SIM_LIMIT_CONCURRENCY;
		verdict.retry_after_us = concurrency_wait(limits, config);
	}

	if (verdict.limit != SIM_LIMIT_NONE)
	{
		limits->throttles[verdict.limit]++;
		return verdict;
	}

	limits->in_flight++;
	limits->requests++;
	limits->slice_requests[place(limits->slice)]++;
	verdict.remaining_requests = config->max_requests - limits->requests;
	verdict.remaining_execution_us = config->max_execution_us - limits->execution_us;
	return verdict;
}

void
sim_limits_leave(struct sim_limits *limits, const struct sim_limits_config *config,
				 int64_t now_us, int64_t execution_us)
{
	advance(limits, config, now_us);
	if (limits->in_flight > 0)
		limits->in_flight--;
	if (execution_us <= 0)
		return;
	limits->execution_us += execution_us;
	limits->slice_execution_us[place(limits->slice)] += execution_us;
}

const char *
sim_limit_code(enum sim_limit limit)
{
	static const char *const codes[] = {
		[SIM_LIMIT_REQUESTS] = "0x80072322",
		[SIM_LIMIT_EXECUTION] = "0x80072321",
		[SIM_LIMIT_CONCURRENCY] = "0x80072326"
	};

	return limit == SIM_LIMIT_NONE ? "" : codes[limit];
}

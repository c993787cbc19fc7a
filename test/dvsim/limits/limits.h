/*
 * limits.h
 *		Service protection limits of one (user, web server): requests,
 *		execution time and concurrency over a sliding window.
 *
 * Pure: no clock, no allocation, no randomness; time is an argument in
 * microseconds and never goes back (if it does, it is treated as the newest
 * slice).  dvsim and ratesim link this very object.
 *
 * The window.  A ring of SIM_LIMIT_SLICES whole slices and the running one,
 * so a request leaves it more than window and at most window + window/SLICES
 * after it arrived.  A request is counted when it is admitted, its execution
 * time when it ends; refused ones are not counted.
 *
 * Admission.  A request is admitted while requests < max_requests, execution
 * time < max_execution_us and in flight < max_concurrent, checked in this
 * order: exactly max_requests fit into a window, and a request that finds
 * exactly max_execution_us used up is refused.  Execution time is known only
 * at the end, so requests in flight may exceed it without bound.
 *
 * Retry-After for requests and time.  The time until enough slices have left
 * that usage is 5 % under the limit (at least one request or microsecond),
 * plus the standing penalty; under half a slice it is 0.  Until it is over
 * (until now = blocked_until_us) every demanding request is refused with the
 * same code even if the window has room; light ones then pass.
 *
 * Penalty.  A demanding request refused before blocked_until_us sets the
 * penalty to one slice (one second of the service's 300), and doubles it each
 * further time up to SIM_LIMIT_MAX_PENALTY slices, and restarts the block: a
 * client that never stops sending is never admitted.  The penalty grows at
 * most once per slice, and not in the slice in which the block began, because
 * requests that were under way when the first 429 was sent did not ignore
 * it.  It halves with every SIM_LIMIT_DECAY slices without growth and ends
 * under one slice, so a Retry-After of a whole window clears it.
 *
 * Retry-After for concurrency.  Nothing remains blocked; it only reflects the
 * load: 0 at first, plus a slice for every half of max_concurrent refused
 * within the current slice, at most five.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_LIMITS_H
#define SIM_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_LIMIT_SLICES 300
#define SIM_LIMIT_RING (SIM_LIMIT_SLICES + 1)
#define SIM_LIMIT_MAX_PENALTY 120
#define SIM_LIMIT_DECAY 30

enum sim_limit
{
	SIM_LIMIT_NONE = -1,
	SIM_LIMIT_REQUESTS,			/* 0x80072322 */
	SIM_LIMIT_EXECUTION,		/* 0x80072321 */
	SIM_LIMIT_CONCURRENCY		/* 0x80072326 */
};

/* All above 0; window_us at least SIM_LIMIT_SLICES. */
struct sim_limits_config
{
	int64_t		window_us;
	int64_t		max_requests;
	int64_t		max_execution_us;
	int			max_concurrent;
};

struct sim_limits
{
	int64_t		slice;			/* number of the newest slice */
	int64_t		requests;		/* sums over the window */
	int64_t		execution_us;
	int64_t		slice_requests[SIM_LIMIT_RING];
	int64_t		slice_execution_us[SIM_LIMIT_RING];
	int			in_flight;
	int64_t		penalty_us;		/* added to Retry-After for retrying too early */
	int64_t		penalty_slice;	/* when it last grew, or the block began */
	int64_t		decay_slice;	/* when it last grew or halved */
	int64_t		blocked_until_us;	/* end of the last Retry-After given for requests or time */
	enum sim_limit blocked_by;
	int64_t		refused_slice;	/* concurrency: the slice that "refused" counts */
	int64_t		refused;
	int64_t		throttles[3];	/* refusals by limit, since the start */
};

struct sim_verdict
{
	enum sim_limit limit;		/* NONE: admitted, in_flight was raised */
	int64_t		retry_after_us; /* when refused; may be 0 */
	int64_t		remaining_requests; /* after this request, when admitted; never negative */
	int64_t		remaining_execution_us;
};

void		sim_limits_init(struct sim_limits *limits);

/* "light" requests (WhoAmI, metadata) pass a standing block if the window itself has room */
struct sim_verdict sim_limits_enter(struct sim_limits *limits,
									const struct sim_limits_config *config,
									int64_t now_us, bool light);

/* an admitted request ended after running for execution_us */
void		sim_limits_leave(struct sim_limits *limits, const struct sim_limits_config *config,
							 int64_t now_us, int64_t execution_us);

/* "0x80072322" …; "" for SIM_LIMIT_NONE */
const char *sim_limit_code(enum sim_limit limit);

#endif

/*
 * rate.h
 *		How many requests one application user may have in flight.
 *
 * The limit follows additive increase, multiplicative decrease (AIMD), with
 * one ceiling learned from throttles and another one computed from the
 * execution time of slow batches.
 *
 * Pure: this module needs no PostgreSQL header and no clock, and allocates
 * nothing.  Time is an argument, in microseconds of any monotonic clock.  The
 * state is a plain struct that may live in shared memory; the caller must
 * hold the lock that protects it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RATE_H
#define DV_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/clock.h"

/* The number of concurrent requests that the service grants to every application user. */
#define DV_HARD_CEILING		52
#define DV_UNKNOWN_DOP		4	/* until the first x-ms-dop-hint */

/* Kinds of operations, whose durations are averaged separately. */
typedef enum dv_kind
{
	DV_KIND_READ,
	DV_KIND_CREATE,
	DV_KIND_UPDATE,
	DV_KIND_UPSERT,
	DV_KIND_DELETE,
	DV_KIND_OTHER
} dv_kind;

#define DV_KINDS (DV_KIND_OTHER + 1)

typedef enum dv_preset
{
	DV_PRESET_CONSERVATIVE,
	DV_PRESET_BALANCED,
	DV_PRESET_AGGRESSIVE
} dv_preset;

/* The rule that determines the limit in force.  Of several that agree, the first is reported. */
typedef enum dv_binding
{
	DV_BINDS_FIXED,				/* adaptive rate is off */
	DV_BINDS_MAXIMUM,			/* DOP hint, max_parallel or the hard ceiling */
	DV_BINDS_THROTTLE_CEILING,
	DV_BINDS_EXECUTION_CEILING,
	DV_BINDS_CURRENT			/* the AIMD value itself */
} dv_binding;

typedef struct dv_rate_config
{
	bool		adaptive;
	double		initial_factor;
	int			min_parallelism;
	int			increase_rate;
	double		decrease_factor;
	int			stabilization_batches;
	int64_t		min_increase_interval;
	double		recovery_multiplier;
	int64_t		last_known_good_ttl;
	int64_t		idle_reset_period;
	double		execution_factor;	/* 0 turns the execution-time ceiling off */
	int64_t		slow_batch_threshold;
	int64_t		debounce;		/* 429s within this time of a cut belong to its burst */
} dv_rate_config;

typedef struct dv_rate
{
	bool		started;		/* dv_rate_init has run; false in zeroed memory */
	bool		cut;			/* a throttle has cut the limit since the start */
	int			max;			/* min(hard ceiling, DOP hint or option) */
	int			current;
	int			last_known_good;
	int			successes;		/* since the last change of current */
	int			peak_in_flight; /* since the last change of current */
	int			throttle_ceiling;	/* 0: none */
	int64_t		throttle_ceiling_until;
	int64_t		last_known_good_at;
	int64_t		last_increase;
	int64_t		last_activity;
	int64_t		paused_until;	/* end of the last Retry-After; waiting does not count as idling */
	int64_t		last_throttle;	/* 0: never */
	int64_t		last_cut;		/* last throttle that cut the limit; 0: never */
	int64_t		total_throttles;	/* survives every reset */
	double		average[DV_KINDS];	/* moving average of batch times, microseconds */
	int			samples[DV_KINDS];
} dv_rate;

extern dv_rate_config dv_rate_preset(dv_preset preset);

/* Computes the maximum from the option and the DOP hint; 0 means that one is not set. */
extern int	dv_rate_maximum(int max_parallel, int dop_hint);

extern void dv_rate_init(dv_rate *rate, const dv_rate_config *config, int max, int64_t now);

/* Starts over.  Only the total number of throttles is kept. */
extern void dv_rate_reset(dv_rate *rate, const dv_rate_config *config, int64_t now);

/*
 * Sets a new maximum.  A lower one reduces the current value at once.  A
 * higher one raises it to the start value of that maximum, unless a throttle
 * has cut it, because the first DOP hint comes only with the first answer.
 */
extern void dv_rate_set_max(dv_rate *rate, const dv_rate_config *config, int max);

/*
 * Called when the service has said that its budgets are full, so no caution is
 * needed: unless a throttle has cut the limit since the start, it becomes the
 * maximum.  However, budgets do not show what another machine with the same
 * user has in flight, so the limit is at most what two machines may have at
 * once.
 */
extern void dv_rate_start_full(dv_rate *rate);

/*
 * Return the limit for the next request of this kind, to be compared with the
 * number of all requests in flight.  Callers that are about to send a request
 * use dv_rate_limit, which starts over after an idle period and records the
 * activity; "in_flight" is the number of requests of each kind.  Observers,
 * such as views, use dv_rate_peek, which assumes that no others are in flight.
 */
extern int	dv_rate_limit(dv_rate *rate, const dv_rate_config *config, dv_kind kind,
						  const int in_flight[DV_KINDS], int64_t now, dv_binding *binding);
extern int	dv_rate_peek(const dv_rate *rate, const dv_rate_config *config, dv_kind kind,
						 int64_t now, dv_binding *binding);

/*
 * Returns how many requests of this kind may be in flight if there are no
 * others of slow kinds, or the maximum if the kind is not slow.  Fast requests
 * do not count: since they have no such ceiling, they would fill it and keep
 * the slow ones out.
 */
extern int	dv_rate_execution_ceiling(const dv_rate *rate, const dv_rate_config *config,
									  dv_kind kind);

/* Notes that a request was sent; "in_flight" includes it. */
extern void dv_rate_sent(dv_rate *rate, int in_flight);

/*
 * Notes that the service accepted a batch.  "duration" is that of the HTTP
 * exchange alone, without any waiting on our side.
 */
extern void dv_rate_success(dv_rate *rate, const dv_rate_config *config, dv_kind kind,
							int64_t duration, int64_t now);

/*
 * Notes that the service answered 429.  Only the first throttle of a burst
 * cuts the limit; throttles of requests that were sent before the last cut,
 * and those that arrive within the debounce time after it, are only counted.
 * Returns true if the limit was cut.
 */
extern bool dv_rate_throttle(dv_rate *rate, const dv_rate_config *config,
							 int64_t sent_at, int64_t retry_after, int64_t now);

extern bool dv_rate_in_recovery(const dv_rate *rate, const dv_rate_config *config, int64_t now);
extern bool dv_rate_known_good_stale(const dv_rate *rate, const dv_rate_config *config, int64_t now);

/* The formulas of the two ceilings, for the controller and the tests. */
extern int	dv_throttle_ceiling(int current, int existing, int64_t retry_after, int floor);
extern int	dv_execution_ceiling(double factor, double average, int floor, int ceiling);

extern const char *dv_binding_name(dv_binding binding);
extern const char *dv_kind_name(dv_kind kind);

#endif							/* DV_RATE_H */

/*
 * rate.c
 *		Rate controller of one application user.
 *
 * The limit climbs by a fixed step while the service keeps up, and is cut by a
 * factor when the service throttles.  The last value that was good before the
 * cut is remembered, and climbing back to it is faster than climbing beyond
 * it.  Two ceilings hold the limit down, and apply whenever it is read, not
 * only when it would grow: the throttle ceiling, which remembers for a while
 * how long the service made us wait, and the execution-time ceiling, which
 * keeps slow batches from using up the execution time that the service grants
 * per window.  The latter counts only slow requests, each by its share.  If it
 * were compared with the number of all requests, fast requests would keep out
 * slow ones, and slow ones those that are slower.
 *
 * The limit grows only if it has been fully used since it last changed, so
 * light load does not inflate it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "pool/rate.h"

#define MIN_SAMPLES			3
#define AVERAGE_WEIGHT		0.3
#define WINDOW				(300 * DV_SECOND)

/*
 * A Retry-After up to this does not cast doubt on the last known good value, and
 * sets a ceiling only if it follows another throttle.
 */
#define SHORT_WAIT			(30 * DV_SECOND)

#define Min2(a, b) ((a) < (b) ? (a) : (b))
#define Max2(a, b) ((a) > (b) ? (a) : (b))

/* The values in which the presets differ, in the order of dv_preset. */
static const struct
{
	double		execution_factor;
	int64_t		slow_batch_threshold;
	double		decrease_factor;
	int			stabilization_batches;
	int64_t		min_increase_interval;
}			presets[] =

{
	{140, 6 * DV_SECOND, 0.4, 5, 8 * DV_SECOND},
	{200, 8 * DV_SECOND, 0.5, 3, 5 * DV_SECOND},
	{320, 11 * DV_SECOND, 0.6, 2, 3 * DV_SECOND},
};

static const char *const binding_names[] = {
	"fixed", "maximum", "throttle ceiling", "execution-time ceiling", "adaptive rate"
};

static const char *const kind_names[] = {
	"read", "create", "update", "upsert", "delete", "other"
};

dv_rate_config
dv_rate_preset(dv_preset preset)
{
	dv_rate_config config = {
		.adaptive = true,
		.initial_factor = 0.5,
		.min_parallelism = 1,
		.increase_rate = 2,
		.decrease_factor = presets[preset].decrease_factor,
		.stabilization_batches = presets[preset].stabilization_batches,
		.min_increase_interval = presets[preset].min_increase_interval,
		.recovery_multiplier = 2.0,
		.last_known_good_ttl = 300 * DV_SECOND,
		.idle_reset_period = 300 * DV_SECOND,
		.execution_factor = presets[preset].execution_factor,
		.slow_batch_threshold = presets[preset].slow_batch_threshold,
		.debounce = 2 * DV_SECOND,
	};

	return config;
}

int
dv_rate_maximum(int max_parallel, int dop_hint)
{
	int			wanted = dop_hint > 0 ? dop_hint : DV_UNKNOWN_DOP;

	if (max_parallel > 0)
		wanted = max_parallel;
	return Max2(Min2(wanted, DV_HARD_CEILING), 1);
}

/* The floor is never above the maximum. */
static int
floor_of(const dv_rate *rate, const dv_rate_config *config)
{
	return Max2(Min2(config->min_parallelism, rate->max), 1);
}

static int
clamp_to_bounds(const dv_rate *rate, const dv_rate_config *config, int value)
{
	return Max2(Min2(value, rate->max), floor_of(rate, config));
}

/* Rounds toward zero, but compensates for the inexactness of binary fractions. */
static int
part_of(int whole, double factor)
{
	return (int) (whole * factor + 1e-9);
}

static int
start_value(const dv_rate *rate, const dv_rate_config *config)
{
	return clamp_to_bounds(rate, config, part_of(rate->max, config->initial_factor));
}

/* Sets start values.  The averages stay: a pause does not change how long batches take. */
static void
start_over(dv_rate *rate, const dv_rate_config *config, int64_t now)
{
	rate->started = true;
	rate->cut = false;
	rate->current = start_value(rate, config);
	rate->last_known_good = rate->current;
	rate->last_known_good_at = now;
	rate->last_increase = now;
	rate->last_activity = now;
	rate->successes = 0;
	rate->peak_in_flight = 0;
	rate->throttle_ceiling = 0;
	rate->throttle_ceiling_until = 0;
}

void
dv_rate_init(dv_rate *rate, const dv_rate_config *config, int max, int64_t now)
{
	memset(rate, 0, sizeof(*rate));
	rate->max = Max2(max, 1);
	start_over(rate, config, now);
}

void
dv_rate_reset(dv_rate *rate, const dv_rate_config *config, int64_t now)
{
	int64_t		total = rate->total_throttles;

	dv_rate_init(rate, config, rate->max, now);
	rate->total_throttles = total;
}

static void
set_current(dv_rate *rate, int current)
{
	rate->current = current;
	rate->successes = 0;
	rate->peak_in_flight = 0;
}

/* Starts with at least this value, unless a throttle has cut the limit since the start. */
static void
start_with(dv_rate *rate, int value)
{
	if (rate->cut || rate->current >= value)
		return;
	rate->last_known_good = value;
	set_current(rate, value);
}

void
dv_rate_set_max(dv_rate *rate, const dv_rate_config *config, int max)
{
	rate->max = Max2(max, 1);
	rate->current = clamp_to_bounds(rate, config, rate->current);
	rate->last_known_good = clamp_to_bounds(rate, config, rate->last_known_good);
	start_with(rate, start_value(rate, config));
}

void
dv_rate_start_full(dv_rate *rate)
{
	start_with(rate, Min2(rate->max, DV_HARD_CEILING / 2));
}

int
dv_throttle_ceiling(int current, int existing, int64_t retry_after, int floor)
{
	double		overshoot = (double) retry_after / WINDOW;
	double		factor = Max2(Min2(1.0 - overshoot / 2, 1.0), 0.5);
	int			base = Max2(current, existing);

	return Max2(part_of(base, factor), floor);
}

int
dv_execution_ceiling(double factor, double average, int floor, int ceiling)
{
	double		value;

	if (average <= 0)
		return ceiling;
	value = factor / (average / DV_SECOND);
	if (value >= ceiling)
		return ceiling;
	return Max2((int) value, floor);
}

static bool
throttle_ceiling_holds(const dv_rate *rate, int64_t now)
{
	return rate->throttle_ceiling > 0 && now < rate->throttle_ceiling_until;
}

static bool
is_slow(const dv_rate *rate, const dv_rate_config *config, dv_kind kind)
{
	return config->execution_factor > 0 &&
		rate->samples[kind] >= MIN_SAMPLES &&
		rate->average[kind] >= config->slow_batch_threshold;
}

/*
 * Returns the most that the AIMD value may be now, for any kind; "binding" is set to the reason.
 */
static int
general_ceiling(const dv_rate *rate, const dv_rate_config *config, int64_t now,
				dv_binding *binding)
{
	*binding = DV_BINDS_MAXIMUM;
	if (!throttle_ceiling_holds(rate, now) || rate->throttle_ceiling >= rate->max)
		return rate->max;
	*binding = DV_BINDS_THROTTLE_CEILING;
	return Max2(rate->throttle_ceiling, floor_of(rate, config));
}

int
dv_rate_execution_ceiling(const dv_rate *rate, const dv_rate_config *config, dv_kind kind)
{
	if (!is_slow(rate, config, kind))
		return rate->max;
	return dv_execution_ceiling(config->execution_factor, rate->average[kind],
								floor_of(rate, config), rate->max);
}

/* Returns the limit of all requests together, however slow they are. */
static int
general_limit(const dv_rate *rate, const dv_rate_config *config, int64_t now,
			  dv_binding *binding)
{
	int			ceiling;

	if (!config->adaptive)
	{
		*binding = DV_BINDS_FIXED;
		return rate->max;
	}
	ceiling = general_ceiling(rate, config, now, binding);
	if (rate->current >= ceiling)
		return ceiling;
	*binding = DV_BINDS_CURRENT;
	return rate->current;
}

/*
 * Returns the share of the execution time that slow requests in flight use up: of
 * a kind that may have n at once, each uses 1/n.
 */
static double
share_in_use(const dv_rate *rate, const dv_rate_config *config, const int in_flight[DV_KINDS])
{
	double		share = 0;
	int			i;

	for (i = 0; i < DV_KINDS; i++)
		if (is_slow(rate, config, (dv_kind) i))
			share += (double) in_flight[i] /
				dv_rate_execution_ceiling(rate, config, (dv_kind) i);
	return share;
}

/*
 * Lowers the limit of a slow kind to the requests in flight plus those that are
 * left for it.  While any share is left, at least one request is: if a slower
 * kind had to wait for its whole share, a faster one would always be sent before
 * it.
 */
static int
apply_execution_ceiling(const dv_rate *rate, const dv_rate_config *config, dv_kind kind,
						int in_flight, double share, int limit, dv_binding *binding)
{
	int			room = in_flight;

	if (!config->adaptive || !is_slow(rate, config, kind))
		return limit;
	if (share < 1 - 1e-9)
		room += Max2(part_of(dv_rate_execution_ceiling(rate, config, kind), 1 - share), 1);
	if (room >= limit)
		return limit;
	*binding = DV_BINDS_EXECUTION_CEILING;
	return room;
}

int
dv_rate_peek(const dv_rate *rate, const dv_rate_config *config, dv_kind kind,
			 int64_t now, dv_binding *binding)
{
	int			limit = general_limit(rate, config, now, binding);

	return apply_execution_ceiling(rate, config, kind, 0, 0, limit, binding);
}

int
dv_rate_limit(dv_rate *rate, const dv_rate_config *config, dv_kind kind,
			  const int in_flight[DV_KINDS], int64_t now, dv_binding *binding)
{
	int64_t		idle_since = Max2(rate->last_activity, rate->paused_until);
	int			total = 0;
	int			limit;
	int			i;

	for (i = 0; i < DV_KINDS; i++)
		total += in_flight[i];
	if (total == 0 && now - idle_since > config->idle_reset_period)
		start_over(rate, config, now);
	rate->last_activity = now;
	limit = general_limit(rate, config, now, binding);
	return apply_execution_ceiling(rate, config, kind, total,
								   share_in_use(rate, config, in_flight), limit, binding);
}

void
dv_rate_sent(dv_rate *rate, int in_flight)
{
	rate->peak_in_flight = Max2(rate->peak_in_flight, in_flight);
}

static void
average_in(dv_rate *rate, dv_kind kind, int64_t duration)
{
	if (rate->samples[kind] == 0)
		rate->average[kind] = (double) duration;
	else
		rate->average[kind] = AVERAGE_WEIGHT * duration +
			(1 - AVERAGE_WEIGHT) * rate->average[kind];
	if (rate->samples[kind] < MIN_SAMPLES)
		rate->samples[kind]++;
}

void
dv_rate_success(dv_rate *rate, const dv_rate_config *config, dv_kind kind,
				int64_t duration, int64_t now)
{
	dv_binding	binding;
	int			ceiling;
	int			step;

	rate->last_activity = now;
	rate->successes++;
	average_in(rate, kind, duration);

	if (now - rate->last_known_good_at > config->last_known_good_ttl)
	{
		rate->last_known_good = rate->current;
		rate->last_known_good_at = now;
	}

	if (rate->successes < config->stabilization_batches ||
		now - rate->last_increase < config->min_increase_interval ||
		rate->peak_in_flight < rate->current)
		return;

	ceiling = Min2(general_ceiling(rate, config, now, &binding),
				   dv_rate_execution_ceiling(rate, config, kind));
	if (rate->current >= ceiling)
		return;
	step = config->increase_rate;
	if (rate->current < rate->last_known_good)
		step = part_of(step, config->recovery_multiplier);
	set_current(rate, Min2(rate->current + Max2(step, 1), ceiling));
	rate->last_increase = now;
}

/*
 * Sets the throttle ceiling for the Retry-After and one window.  A ceiling is
 * a whole number of requests, so at a small limit it costs much more than the
 * percent or so that a short wait calls for.  Therefore a single short wait,
 * which may mean nothing, sets no ceiling, nor does a Retry-After of zero,
 * which means that the limit was hardly exceeded.
 */
static void
note_ceiling(dv_rate *rate, int floor, int64_t retry_after, bool again, int64_t now)
{
	int			existing = throttle_ceiling_holds(rate, now) ? rate->throttle_ceiling : 0;
	int			ceiling = dv_throttle_ceiling(rate->current, existing, retry_after, floor);

	if (retry_after == 0 || (retry_after <= SHORT_WAIT && !again))
		return;
	if (retry_after <= SHORT_WAIT)
		ceiling = Max2(ceiling, rate->last_known_good);
	rate->throttle_ceiling = Min2(ceiling, rate->max);
	rate->throttle_ceiling_until = now + retry_after + WINDOW;
}

bool
dv_rate_throttle(dv_rate *rate, const dv_rate_config *config,
				 int64_t sent_at, int64_t retry_after, int64_t now)
{
	int			floor = floor_of(rate, config);
	int			good = Max2(rate->current - config->increase_rate, floor);
	bool		used = rate->peak_in_flight == 0 || rate->peak_in_flight >= rate->current;
	bool		again = rate->last_cut != 0 &&
	now - Max2(rate->last_cut, rate->paused_until) < WINDOW;

	rate->last_activity = now;
	rate->last_throttle = now;
	rate->paused_until = Max2(rate->paused_until, now + retry_after);
	rate->total_throttles++;

	if (rate->last_cut != 0 &&
		(sent_at <= rate->last_cut || now - rate->last_cut < config->debounce))
		return false;
	rate->last_cut = now;
	rate->cut = true;

	/* without full use, the limit has not been shown to be good */
	if (used || rate->last_known_good > good)
		rate->last_known_good = good;
	rate->last_known_good_at = now;
	note_ceiling(rate, floor, retry_after, again, now);
	set_current(rate, Max2(part_of(rate->current, config->decrease_factor), floor));
	return true;
}

bool
dv_rate_known_good_stale(const dv_rate *rate, const dv_rate_config *config, int64_t now)
{
	return now - rate->last_known_good_at > config->last_known_good_ttl;
}

bool
dv_rate_in_recovery(const dv_rate *rate, const dv_rate_config *config, int64_t now)
{
	return rate->current < rate->last_known_good &&
		!dv_rate_known_good_stale(rate, config, now);
}

const char *
dv_binding_name(dv_binding binding)
{
	return binding_names[binding];
}

const char *
dv_kind_name(dv_kind kind)
{
	return kind_names[kind];
}

/*
 * budget.c
 *		Budget pacing of one application user.
 *
 * test/ratesim compares this policy with others and with the best possible
 * one; its README has the measurements behind the constants.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <string.h>

#include "pool/budget.h"

#define SLICE (DV_BUDGET_WINDOW / DV_BUDGET_SLICES)
#define RING (DV_BUDGET_SLICES + 2)

#define Min2(a, b) ((a) < (b) ? (a) : (b))
#define Max2(a, b) ((a) > (b) ? (a) : (b))

/* No request is held back while more than this share of the limit is left. */
#define FREE_SHARE 0.5

/* The limit counts as full if this share of it is left. */
#define FULL_SHARE 0.9

/* No request is sent unless this share of the limit is left. */
#define SMALLEST_ROOM 0.001
#define SHARED_ROOM 0.005

/*
 * Weights of a new answer in the averages.  Bad news has more weight.
 * Answers that come rarely weigh more; an answer that comes FORGETTING after
 * the previous one replaces the average.
 */
#define SCALE_WEIGHT (1.0 / 16)
#define WORSE_WEIGHT (1.0 / 2)
#define BETTER_WEIGHT (1.0 / 8)
#define SPREAD_WEIGHT (1.0 / 8)
#define TYPICAL_WEIGHT (1.0 / 8)
#define FORGETTING (30.0 * DV_SECOND)

/* The margin, in mean deviations. */
#define MARGIN 1.0

/* Below this share of the limit, our own use tells little about the scale. */
#define SCALE_PRIOR 0.02
#define SMALLEST_SCALE (1.0 / 64)

/*
 * After this many successive answers that count this much less than expected,
 * the server is taken to be a new one.
 */
#define FORGOTTEN_ANSWERS 4
#define FORGOTTEN_SPREADS 2
#define FORGOTTEN_SHARE   0.2

/* The user counts as shared when others use at least this share of the limit. */
#define OTHERS_SHARE 0.03

/*
 * Leveling between machines: the share of its lead that the first machine
 * gives up, and the time in which it and the others use up what is left.
 */
#define GIVEN_UP 0.3
#define FIRST_TAKES_IN (60 * DV_SECOND)
#define OTHERS_TAKE_IN (8 * DV_SECOND)

/* A charge that is due later than this counts as due then; in seconds. */
#define LONGEST_DELAY 150

/* How often a request is sent to find out whether others have left room. */
#define SHORTEST_PROBE (1 * DV_SECOND)
#define LONGEST_PROBE (15 * DV_SECOND)

/* The same after a refusal, once Retry-After is over, whatever our estimate. */
#define PROBE_AFTER_REFUSAL (5 * DV_SECOND)

/*
 * A request waits for room for at most this many average requests.  If it had
 * to wait for all that it costs, faster ones would always be sent before it.
 */
#define MUCH_SLOWER 1.2

/*
 * How many requests may be sent early to make up for late ones: average requests, since a fast one
 * that is sent must not take from slow ones what they have been waiting for.
 */
#define CATCH_UP 2

static const double default_limits[DV_RATIONS] = {6000, 1200};

/* The shares of the limits that are kept for short requests: a dozen requests of 50 ms. */
static const double kept_shares[DV_RATIONS] = {0.002, 0.0005};

/* The units in which slices count. */
static const double units[DV_RATIONS] = {1, 0.1};
#define FULL_SLICE 65535

/* What a request costs in one of the rations. */
typedef struct load
{
	double		cost;			/* of the request, as the service counts it */
	double		committed;		/* cost of the requests in flight */
	int64_t		delay;			/* time until the cost is charged */
} load;

static int64_t
slice_of(int64_t now)
{
	return now / SLICE;
}

void
dv_budget_init(dv_budget *budget, int64_t now)
{
	int			i;

	memset(budget, 0, sizeof(*budget));
	budget->slice = slice_of(now);
	for (i = 0; i < DV_RATIONS; i++)
	{
		budget->rations[i].limit = default_limits[i];
		budget->rations[i].scale = 1;
	}
}

/* Waiting for our own use to leave the window does not make room. */
#define NEVER INT64_MAX

static double
unit_of(const dv_budget *budget, const dv_ration *ration)
{
	return units[ration - budget->rations];
}

/* Returns our own use of the window as of "now", without changing anything. */
static double
used_at(const dv_budget *budget, const dv_ration *ration, int64_t now)
{
	double		unit = unit_of(budget, ration);
	int64_t		gone = slice_of(now) - budget->slice;
	double		used = ration->used;
	int64_t		i;

	if (gone >= RING)
		return 0;
	for (i = 1; i <= gone; i++)
		used -= unit * ration->slices[(budget->slice + i) % RING];
	return Max2(used, 0);
}

static void
forget_slice(dv_budget *budget, int place)
{
	int			i;

	for (i = 0; i < DV_RATIONS; i++)
		budget->rations[i].slices[place] = 0;
}

static void
sum_slices(dv_budget *budget)
{
	int			i;
	int			k;

	for (i = 0; i < DV_RATIONS; i++)
	{
		dv_ration  *ration = &budget->rations[i];
		int64_t		sum = 0;

		for (k = 0; k < RING; k++)
			sum += ration->slices[k];
		ration->used = sum * units[i] + ration->unbooked;
	}
}

static void
slide(dv_budget *budget, int64_t now)
{
	int64_t		target = slice_of(now);

	budget->known = false;
	if (target <= budget->slice)
		return;
	if (target - budget->slice > RING)
		budget->slice = target - RING;
	while (budget->slice < target)
		forget_slice(budget, ++budget->slice % RING);
	sum_slices(budget);
}

static void
use(dv_budget *budget, dv_ration_kind which, double amount)
{
	dv_ration  *ration = &budget->rations[which];
	uint16_t   *slice = &ration->slices[budget->slice % RING];
	double		whole = amount + ration->unbooked;
	int64_t		booked = (int64_t) (whole / units[which]);

	booked = Max2(Min2(booked, FULL_SLICE - *slice), -*slice);
	*slice += booked;
	ration->unbooked = Max2(Min2(whole - booked * units[which], units[which]), 0);
	ration->used = Max2(ration->used + amount, 0);
}

dv_budget_mark
dv_budget_sent(dv_budget *budget, int64_t now)
{
	dv_budget_mark mark;
	int			i;

	mark.epoch = budget->epoch;
	mark.beside_loads = false;
	slide(budget, now);
	use(budget, DV_RATION_REQUESTS, 1);
	budget->last_sent = now;
	budget->paid_until = Max2(budget->paid_until + budget->spacing,
							  now - CATCH_UP * budget->typical_spacing);
	budget->paid_until = Min2(budget->paid_until, now);
	for (i = 0; i < DV_RATIONS; i++)
		mark.used[i] = budget->rations[i].used;
	return mark;
}

/* Returns what others have used in the window, estimated from the averages. */
static double
others_of(const dv_ration *ration)
{
	return Max2(ration->counted - ration->own, 0);
}

static bool
is_shared(const dv_ration *ration)
{
	return others_of(ration) >= OTHERS_SHARE * ration->limit;
}

static void
learn_scale(dv_ration *ration)
{
	double		prior = SCALE_PRIOR * ration->limit;
	double		scale = (ration->counted + prior) / (ration->own + prior);

	ration->scale = Max2(Min2(scale, 1), SMALLEST_SCALE);
}

/*
 * Returns true if the server has lost count.  A single answer that counts much
 * less than expected may come from another of several servers.  Several in a
 * row do not, even if the later ones are less of a surprise because the
 * averages have followed by then.
 */
static bool
lost_count(dv_ration *ration, double surprise)
{
	double		least = FORGOTTEN_SHARE * ration->limit + FORGOTTEN_SPREADS * ration->spread;

	if (ration->forgotten > 0)
		least = FORGOTTEN_SHARE * ration->limit / 4;
	if (surprise < -least)
		return ++ration->forgotten >= FORGOTTEN_ANSWERS;
	ration->forgotten = 0;
	return false;
}

static void
start_anew(dv_budget *budget, dv_ration_kind which, double counted)
{
	dv_ration  *ration = &budget->rations[which];

	memset(ration->slices, 0, sizeof(ration->slices));
	ration->used = ration->unbooked = 0;
	use(budget, which, counted);
	ration->counted = ration->own = counted;
	ration->scale = 1;
	ration->offset = ration->spread = 0;
	ration->forgotten = 0;
	budget->epoch++;
}

/*
 * Remembers the largest limit seen, because a limit above the default shows
 * only while the window is nearly empty.
 */
static void
learn(dv_budget *budget, dv_ration_kind which, double own, double remaining, double weight)
{
	dv_ration  *ration = &budget->rations[which];
	double		counted;
	double		surprise;

	if (remaining > ration->limit)
		ration->limit = remaining;
	counted = ration->limit - remaining;
	if (!ration->said)
	{
		ration->counted = counted;
		ration->own = own;
		ration->offset = counted - own;
		ration->said = true;
	}
	ration->counted += SCALE_WEIGHT * (counted - ration->counted);
	ration->own += SCALE_WEIGHT * (own - ration->own);
	learn_scale(ration);

	if (ration->refused)		/* the first answer replaces the guess that the refusal caused */
		ration->offset = counted - ration->scale * own;
	ration->refused = false;
	surprise = counted - ration->scale * own - ration->offset;
	if (lost_count(ration, surprise))
	{
		start_anew(budget, which, counted);
		return;
	}
	ration->offset += Min2((surprise > 0 ? WORSE_WEIGHT : BETTER_WEIGHT) + weight, 1) * surprise;
	ration->spread += Min2(SPREAD_WEIGHT + weight, 1) *
		((surprise < 0 ? -surprise : surprise) - ration->spread);
}

/*
 * Long requests are more frequent among those in flight than among those
 * sent, so the average duration of requests in flight is the average of the
 * squared durations divided by the average duration.
 */
static void
learn_typical(dv_budget *budget, double seconds)
{
	if (budget->typical == 0)
	{
		budget->typical = seconds;
		budget->squares = seconds * seconds;
	}
	budget->typical += TYPICAL_WEIGHT * (seconds - budget->typical);
	budget->squares += TYPICAL_WEIGHT * (seconds * seconds - budget->squares);
}

static double
typical_in_flight(const dv_budget *budget)
{
	return budget->typical > 0 ? budget->squares / budget->typical : 0;
}

void
dv_budget_answered(dv_budget *budget, dv_budget_mark mark, double seconds,
				   const double remaining[DV_RATIONS], int64_t now)
{
	double		weight = Max2(now - budget->last_answer, 0) / FORGETTING;
	int			i;

	slide(budget, now);
	use(budget, DV_RATION_SECONDS, seconds);
	budget->last_answer = now;
	/* short requests would make a load look cheap, which would use up the window too soon */
	if (!mark.beside_loads)
		learn_typical(budget, seconds);
	for (i = 0; i < DV_RATIONS; i++)
		if (remaining[i] >= 0 && mark.epoch == budget->epoch)
			learn(budget, (dv_ration_kind) i, mark.used[i], remaining[i], weight);
}

void
dv_budget_refused(dv_budget *budget, dv_ration_kind which, int64_t now)
{
	slide(budget, now);
	use(budget, DV_RATION_REQUESTS, -1);
	budget->last_answer = now;
	dv_budget_used_up(budget, which, now);
}

void
dv_budget_used_up(dv_budget *budget, dv_ration_kind which, int64_t now)
{
	double		left;

	if (which >= DV_RATIONS)
		return;
	slide(budget, now);
	left = dv_budget_left(budget, which, now);
	budget->rations[which].refused = true;
	if (left > 0)
		budget->rations[which].offset += left;
}

double
dv_budget_left(const dv_budget *budget, dv_ration_kind which, int64_t now)
{
	const dv_ration *ration = &budget->rations[which];

	return ration->limit - ration->offset - MARGIN * ration->spread -
		ration->scale * used_at(budget, ration, now);
}

bool
dv_budget_is_full(const dv_budget *budget, int64_t now)
{
	int			i;

	for (i = 0; i < DV_RATIONS; i++)
	{
		const dv_ration *ration = &budget->rations[i];

		if (!ration->said || ration->refused ||
			dv_budget_left(budget, (dv_ration_kind) i, now) < FULL_SHARE * ration->limit)
			return false;
	}
	return true;
}

/*
 * Walks through the slices as they will leave the window.  Returns the highest
 * even rate, per microsecond, that is covered at every moment from "delay" on.
 * If there is no such rate, *refilled is set to the time at which there will
 * be room for one request.
 */
static double
sustainable_rate(const dv_budget *budget, const dv_ration *ration, const load *load,
				 double left, int64_t now, int64_t *refilled)
{
	double		worth = unit_of(budget, ration) * ration->scale;
	double		covered = left;
	double		over = 0;
	double		least = -1;
	int			i;

	*refilled = NEVER;
	for (i = 1; i <= RING; i++)
	{
		int64_t		leaves = (budget->slice + i) * SLICE;
		int64_t		ahead = leaves - now - load->delay;

		if (ahead > 0)
		{
			if (least < 0 || covered * over < least * ahead)
			{
				least = Max2(covered, 0);
				over = ahead;
			}
			if (*refilled == NEVER && covered >= load->cost)
				*refilled = i == 1 ? now : leaves - SLICE - load->delay;
		}
		covered += worth * ration->slices[(budget->slice + i) % RING];
	}
	return over > 0 ? least / over : 0;
}

/*
 * Among machines that share the application user, the one that uses more than
 * all others together keeps less of its even rate, and the others get what is
 * left sooner.  The part that they do not use returns to the first machine.
 */
static double
levelled_rate(const dv_ration *ration, const load *load, double rate, double left)
{
	double		others = others_of(ration);
	double		lead;

	if (!is_shared(ration))
		return rate;
	left = Max2(left, 0);
	lead = (ration->own - others) / (ration->own + others);
	if (lead > 0)
		return (1 - GIVEN_UP * lead) * rate + Min2(4 * lead, 1) * left / FIRST_TAKES_IN;
	return rate + Min2(-4 * lead, 1) * left / (OTHERS_TAKE_IN + load->delay);
}

/* Returns when enough of our own use will have left the window to make room. */
static int64_t
room_at(const dv_budget *budget, const dv_ration *ration, double left, double need, int64_t now)
{
	int64_t		slice = Max2(slice_of(now), budget->slice);
	int64_t		last = budget->slice + RING;
	double		worth = unit_of(budget, ration) * ration->scale;

	if (left >= need)
		return now;
	while (left < need && slice < last)
		left += worth * ration->slices[++slice % RING];
	if (left < need)
		return NEVER;
	return slice * SLICE;
}

/* What one ration allows: the time between requests, or a time to wait for. */
typedef struct allowance
{
	int64_t		spacing;		/* 0: not held back */
	int64_t		not_before;		/* 0: only the spacing matters */
} allowance;

/*
 * Only the average use of others is known, and the way to learn more is to
 * send a request.  "missing" is how much room is lacking.
 */
static allowance
wait_until(const dv_budget *budget, const dv_ration *ration, int64_t when, double missing)
{
	int64_t		asked = Max2(budget->last_answer, budget->last_sent);
	double		wait = LONGEST_PROBE;

	if (ration->refused)
		wait = PROBE_AFTER_REFUSAL;
	else if (is_shared(ration))
		wait = missing / others_of(ration) * DV_BUDGET_WINDOW;
	else if (when != NEVER)
		return (allowance)
	{
		0, when
	};
	wait = Max2(Min2(wait, LONGEST_PROBE), SHORTEST_PROBE);
	return (allowance)
	{
		0, Min2(when, asked + (int64_t) wait)
	};
}

/*
 * Returns what must be left for a request to be sent.  Others may have as
 * much in flight as their use suggests.
 */
static double
needed_room(const dv_ration *ration, const load *load)
{
	if (!is_shared(ration))
		return ration->limit * SMALLEST_ROOM;
	return ration->limit * SHARED_ROOM + others_of(ration) * load->delay / DV_BUDGET_WINDOW;
}

static allowance
allowance_of(const dv_budget *budget, dv_ration_kind which, load load, int64_t now)
{
	const dv_ration *ration = &budget->rations[which];
	double		left = dv_budget_left(budget, which, now) - kept_shares[which] * ration->limit;
	double		need;
	double		rate;
	int64_t		refilled;
	int64_t		room;

	if (!ration->said || load.cost <= 0)
		return (allowance)
	{
		0, 0
	};
	load.		cost *= ration->scale;
	load.		committed *= ration->scale;

	if (left - load.committed > ration->limit * FREE_SHARE)
		return (allowance)
	{
		0, 0
	};

	need = needed_room(ration, &load);
	room = room_at(budget, ration, left, need, now);
	if (room > now)
		return wait_until(budget, ration, room, need - left);
	left -= load.committed;

	rate = sustainable_rate(budget, ration, &load, left, now, &refilled);
	rate = levelled_rate(ration, &load, rate, left);
	if (rate * DV_BUDGET_WINDOW <= load.cost)
		return wait_until(budget, ration, refilled, load.cost - left);
	return (allowance)
	{
		Max2((int64_t) (load.cost / rate), 1), 0
	};
}

bool
dv_budget_keeps(const dv_budget *budget, int in_flight, int64_t now)
{
	const load	loads[DV_RATIONS] = {
		{1, 0, 0},
		{budget->typical, in_flight * typical_in_flight(budget), 0}
	};
	int			i;

	for (i = 0; i < DV_RATIONS; i++)
	{
		const dv_ration *ration = &budget->rations[i];
		double		left = dv_budget_left(budget, (dv_ration_kind) i, now);

		if (ration->refused ||
			(ration->said && left - ration->scale * loads[i].committed < needed_room(ration, &loads[i])))
			return false;
	}
	return true;
}

int64_t
dv_budget_not_before(dv_budget *budget, int in_flight, double expected_seconds, int64_t now)
{
	load		requests = {1, 0, 0};
	load		seconds;
	allowance	a;
	allowance	b;
	double		delay;
	int64_t		spaced;

	if (expected_seconds <= 0)
		expected_seconds = budget->typical;
	if (budget->known && budget->known_in_flight == in_flight &&
		budget->known_seconds == (float) expected_seconds)
		return budget->known_time;

	delay = Max2(expected_seconds, typical_in_flight(budget));
	seconds.cost = Min2(expected_seconds, MUCH_SLOWER * budget->typical);
	seconds.committed = in_flight * typical_in_flight(budget);
	seconds.delay = (int64_t) (Min2(delay, LONGEST_DELAY) * DV_SECOND);
	a = allowance_of(budget, DV_RATION_REQUESTS, requests, now);
	b = allowance_of(budget, DV_RATION_SECONDS, seconds, now);

	budget->spacing = Max2(a.spacing, b.spacing);
	budget->typical_spacing = budget->spacing;
	if (expected_seconds > 0 && expected_seconds < budget->typical)
		budget->typical_spacing =
			Max2(a.spacing, (int64_t) (b.spacing * budget->typical / expected_seconds));
	spaced = budget->spacing != 0 ? budget->paid_until + budget->spacing : 0;
	budget->known = true;
	budget->known_in_flight = in_flight;
	budget->known_seconds = (float) expected_seconds;
	budget->known_time = Max2(Max2(a.not_before, b.not_before), spaced);
	/* a ration with nothing left holds back longer than one that only spaces requests */
	if (a.not_before != b.not_before)
		budget->known_ration = a.not_before > b.not_before ? DV_RATION_REQUESTS : DV_RATION_SECONDS;
	else
		budget->known_ration = a.spacing > b.spacing ? DV_RATION_REQUESTS : DV_RATION_SECONDS;
	return budget->known_time;
}

dv_ration_kind
dv_budget_bound_by(const dv_budget *budget)
{
	return budget->known_ration;
}

/* Returns how much of our own use will have left the window by then. */
static double
freed_by(const dv_budget *budget, const dv_ration *ration, int64_t then, int64_t now)
{
	return ration->scale * (used_at(budget, ration, now) - used_at(budget, ration, then));
}

/*
 * Once the window has passed, requests sent in it leave, too: from then on,
 * each window renews the limit.
 */
static double
room_within(const dv_budget *budget, dv_ration_kind which, int64_t within, int64_t now)
{
	const dv_ration *ration = &budget->rations[which];
	double		room = Max2(dv_budget_left(budget, which, now), 0) +
	freed_by(budget, ration, now + within, now);

	if (within > DV_BUDGET_WINDOW)
		room += Max2(ration->limit - others_of(ration), 0) * (within - DV_BUDGET_WINDOW) / DV_BUDGET_WINDOW;
	return room;
}

double
dv_budget_capacity(const dv_budget *budget, int64_t within, int64_t now)
{
	const double costs[DV_RATIONS] = {1, budget->typical};
	double		capacity = INFINITY;
	int			i;

	for (i = 0; i < DV_RATIONS; i++)
	{
		double		cost = costs[i] * budget->rations[i].scale;

		if (budget->rations[i].said && cost > 0)
			capacity = Min2(capacity, room_within(budget, (dv_ration_kind) i, within, now) / cost);
	}
	return capacity;
}

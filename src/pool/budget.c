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
 * What is left beyond what will be needed while less leaves the window than is
 * used, which is at least this share of the limit, is used up in this time.
 */
#define SPARE_TAKES (20 * DV_SECOND)
#define USUAL_SHARE 0.8

/*
 * Machines that share the user.  Rates are those of the last RECENT slices, and
 * are even over times of EVEN_FOR and more.  The reserve is what others use in
 * RESERVED delays.
 */
#define RECENT 24
#define EVEN_FOR (5 * DV_SECOND)
#define RESERVED 3.0
#define LEAD_KEPT 0.4

/* After this time without an answer, others count as having done nothing of late. */
#define LONGEST_UNSEEN (60 * DV_SECOND)

/* Others are taken to have at most this many times as much in flight as we have. */
#define OTHERS_IN_FLIGHT 2.0

/*
 * Nothing is known about the time at which others used what they had used when
 * we met them.  It is entered evenly, and this share of it is relied upon.
 */
#define UNSEEN_SHARE 0.5

/* What others used may leave the window up to this many slices earlier than was entered. */
#define EARLIER 8

/* A charge that is due later than this counts as due then; in seconds. */
#define LONGEST_DELAY 150

/* How often a request is sent to find out whether others have left room. */
#define SHORTEST_PROBE (1 * DV_SECOND)
#define LONGEST_PROBE (7 * DV_SECOND)

/* How often a request is sent at least while there is room, if others use the user, too. */
#define LONGEST_SPACING (15 * DV_SECOND)

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

/*
 * Short requests may use this share of the limits by passing others, up to this
 * time ahead.
 */
#define PASSING_SHARE 0.1
#define PASSING_AHEAD (60 * DV_SECOND)

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

/* Returns what is left of an amount when slices have left the window until "now". */
static double
remains_at(const dv_budget *budget, const dv_ration *ration, const uint16_t *slices,
		   double amount, int64_t now)
{
	double		unit = unit_of(budget, ration);
	int64_t		gone = Min2(slice_of(now) - budget->slice, RING);
	int64_t		i;

	for (i = 1; i <= gone; i++)
		amount -= unit * slices[(budget->slice + i) % RING];
	return Max2(amount, 0);
}

/* Returns our own use of the window as of "now", without changing anything. */
static double
used_at(const dv_budget *budget, const dv_ration *ration, int64_t now)
{
	if (slice_of(now) - budget->slice >= RING)
		return 0;
	return remains_at(budget, ration, ration->slices, ration->used, now);
}

/* Returns the offset as of "now": what others used leaves the window, too. */
static double
offset_at(const dv_budget *budget, const dv_ration *ration, int64_t now)
{
	if (ration->offset <= 0)
		return ration->offset;
	return remains_at(budget, ration, ration->others, ration->offset, now);
}

static void
forget_slice(dv_budget *budget, int place)
{
	int			i;

	for (i = 0; i < DV_RATIONS; i++)
	{
		budget->rations[i].slices[place] = 0;
		budget->rations[i].others[place] = 0;
	}
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
	int			i;

	budget->known = false;
	if (target <= budget->slice)
		return;
	for (i = 0; i < DV_RATIONS; i++)
		budget->rations[i].offset = offset_at(budget, &budget->rations[i], now);
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
	mark.sent_at = now;
	mark.beside_loads = false;
	mark.passed = false;
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

/* Returns what others have used in the window: the average shows less while it grows. */
static double
others_of(const dv_ration *ration)
{
	return Max2(Max2(ration->counted - ration->own, ration->offset), 0);
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
	memset(ration->others, 0, sizeof(ration->others));
	ration->met_others = false;
	ration->used = ration->unbooked = 0;
	use(budget, which, counted);
	ration->counted = ration->own = counted;
	ration->scale = 1;
	ration->offset = ration->spread = 0;
	ration->forgotten = 0;
	budget->epoch++;
}

/* Makes the use of others this many times as large, and carries what is not a whole unit. */
static void
scale_others(dv_ration *ration, double factor)
{
	double		carried = 0;
	int			k;

	for (k = 0; k < RING; k++)
	{
		double		units_then = ration->others[k] * factor + carried;

		ration->others[k] = (uint16_t) units_then;
		carried = units_then - ration->others[k];
	}
}

/* Enters what others had used when we met them evenly. */
static void
meet_others(dv_budget *budget, dv_ration *ration, int64_t amount)
{
	int			k;

	for (k = 0; k < RING; k++)
		ration->others[k] = FULL_SLICE;
	scale_others(ration, (double) amount / RING / FULL_SLICE);
	ration->met_others = true;
	ration->met_in = budget->slice;
}

/*
 * Enters the change of what others have used in the window, as the service
 * counted it at this time.  More was used just then.  Less means that the oldest
 * has left a little early; beyond that, that we know less than we thought.
 */
static void
enter_others(dv_budget *budget, dv_ration *ration, int64_t at)
{
	int64_t		slice = Max2(Min2(slice_of(at), budget->slice), budget->slice - DV_BUDGET_SLICES);
	int64_t		total = (int64_t) (Max2(ration->offset, 0) / unit_of(budget, ration));
	int64_t		entered = 0;
	int			k;

	if (!ration->met_others)
	{
		meet_others(budget, ration, total);
		return;
	}
	for (k = 0; k < RING; k++)
		entered += ration->others[k];
	if (total > entered)
		ration->others[slice % RING] += Min2(total - entered, FULL_SLICE - ration->others[slice % RING]);
	for (k = 1; k <= EARLIER && total < entered; k++)
	{
		uint16_t   *oldest = &ration->others[(budget->slice + k) % RING];
		int64_t		early = Min2(entered - total, *oldest);

		*oldest -= early;
		entered -= early;
	}
	if (total < entered)
		scale_others(ration, (double) total / entered);
}

/*
 * Remembers the largest limit seen, because a limit above the default shows
 * only while the window is nearly empty.
 */
static void
learn(dv_budget *budget, dv_ration_kind which, const dv_budget_mark *mark, double remaining,
	  double weight)
{
	dv_ration  *ration = &budget->rations[which];
	double		own = mark->used[which];
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
	enter_others(budget, ration, mark->sent_at);
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

/* Charges a request that has passed others to the share of such requests. */
static void
charge_passing(dv_budget *budget, double seconds, int64_t now)
{
	const double costs[DV_RATIONS] = {1, seconds};
	double		share = 0;
	int			i;

	for (i = 0; i < DV_RATIONS; i++)
		share = Max2(share, costs[i] / (PASSING_SHARE * budget->rations[i].limit));
	budget->passed_until = Max2(budget->passed_until, now) + (int64_t) (share * DV_BUDGET_WINDOW);
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
	budget->seen_at = Max2(budget->seen_at, mark.sent_at);
	if (mark.passed)
		charge_passing(budget, seconds, now);
	/* short requests would make a load look cheap, which would use up the window too soon */
	if (!mark.beside_loads)
		learn_typical(budget, seconds);
	for (i = 0; i < DV_RATIONS; i++)
		if (remaining[i] >= 0 && mark.epoch == budget->epoch)
			learn(budget, (dv_ration_kind) i, &mark, remaining[i], weight);
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

	return ration->limit - offset_at(budget, ration, now) - MARGIN * ration->spread -
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

/* Returns how much leaves the window with the i-th slice from now. */
static double
leaving(const dv_budget *budget, const dv_ration *ration, int i)
{
	int			place = (budget->slice + i) % RING;
	double		amount = ration->scale * ration->slices[place];

	if (is_shared(ration))
		amount += ration->others[place] *
			(budget->slice + i - RING <= ration->met_in ? UNSEEN_SHARE : 1);
	return amount * unit_of(budget, ration);
}

/*
 * Walks through the slices as they will leave the window.  Returns the highest
 * even rate, per microsecond, that is covered at every moment from "delay" on;
 * less than zero if more than what is left was used.  If there is no such rate,
 * *refilled is set to the time at which there will be room for one request.
 */
static double
sustainable_rate(const dv_budget *budget, const dv_ration *ration, const load *load,
				 double left, int64_t now, int64_t *refilled)
{
	int64_t		even_for = is_shared(ration) ? EVEN_FOR : 0;
	double		covered = left;
	double		over = 0;
	double		least = 0;
	int			i;

	*refilled = NEVER;
	for (i = 1; i <= RING; i++)
	{
		int64_t		leaves = (budget->slice + i) * SLICE;
		int64_t		ahead = leaves - now - load->delay;

		if (ahead > even_for)
		{
			if (over == 0 || covered * over < least * ahead)
			{
				least = covered;
				over = ahead;
			}
			if (*refilled == NEVER && covered >= load->cost)
				*refilled = i == 1 ? now : leaves - SLICE - load->delay;
		}
		covered += leaving(budget, ration, i);
	}
	return over > 0 ? least / over : 0;
}

/*
 * Returns what is needed to go on at the usual rate of all machines whenever less
 * than that leaves the window.
 */
static double
needed_for_holes(const dv_budget *budget, const dv_ration *ration, const load *load, int64_t now)
{
	double		total = 0;
	double		left = 0;
	double		needed = 0;
	double		rate;
	int			i;

	for (i = 1; i <= RING; i++)
		total += leaving(budget, ration, i);
	rate = Max2(total, USUAL_SHARE * ration->limit) / (RING * SLICE);
	for (i = 1; i <= RING; i++)
	{
		int64_t		ahead = (budget->slice + i) * SLICE - now - load->delay;

		needed = Max2(needed, rate * ahead - left);
		left += leaving(budget, ration, i);
	}
	return needed;
}

/* Returns the rate, per microsecond, at which the slices were filled of late. */
static double
recent_rate(const dv_budget *budget, const dv_ration *ration, const uint16_t *slices, int64_t until)
{
	int64_t		sum = 0;
	int			k;

	for (k = 0; k < RECENT; k++)
		if (slice_of(until) - k <= budget->slice)
			sum += slices[(slice_of(until) - k) % RING];
	return unit_of(budget, ration) * sum / ((RECENT - 1) * SLICE + until % SLICE);
}

/*
 * Returns our part of the rate of all machines that share the user: half of it,
 * and most of the lead over all others together.
 */
static double
part_of(double rate, const dv_budget *budget, const dv_ration *ration, int64_t now)
{
	double		own = ration->scale * recent_rate(budget, ration, ration->slices, now);
	double		others = recent_rate(budget, ration, ration->others,
									 Max2(budget->seen_at, now - LONGEST_UNSEEN));

	return rate / 2 + LEAD_KEPT * Max2(own - others, 0);
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
 * Returns the part of what is left that is not planned to be used, but covers what
 * others do meanwhile.  They may soon use half of the limit, even if they do not now.
 */
static double
reserve_of(const dv_ration *ration, const load *load)
{
	double		others = (Min2(others_of(ration), ration->limit / 2) + ration->limit / 2) / 2;

	return ration->limit * SHARED_ROOM + RESERVED * others * load->delay / DV_BUDGET_WINDOW;
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

/* Returns true if so much is left that no request is held back. */
static bool
is_plenty(const dv_ration *ration, const load *load, double left)
{
	double		others = 0;

	if (is_shared(ration))
		others = Min2(others_of(ration) / Max2(ration->own, 1), OTHERS_IN_FLIGHT);
	return left - load->committed * (1 + others) > ration->limit * FREE_SHARE;
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

	if (is_plenty(ration, &load, left))
		return (allowance)
	{
		0, 0
	};

	need = needed_room(ration, &load);
	room = room_at(budget, ration, left, need, now);
	if (room > now)
		return wait_until(budget, ration, room, need - left);
	left -= load.committed;

	if (is_shared(ration))		/* the margin is a part of the reserve */
		left += MARGIN * ration->spread - reserve_of(ration, &load);

	rate = sustainable_rate(budget, ration, &load, left, now, &refilled) +
		Max2(left - needed_for_holes(budget, ration, &load, now), 0) / SPARE_TAKES;
	if (is_shared(ration))
		rate = Max2(part_of(rate, budget, ration, now), load.cost / LONGEST_SPACING);
	else if (rate * DV_BUDGET_WINDOW <= load.cost)
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

	if (budget->passed_until > now + PASSING_AHEAD)
		return false;
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

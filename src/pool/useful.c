/*
 * useful.c
 *		The useful limit of one environment.
 *
 * A round is the requests that are sent from one decision to the next.  It is
 * judged when all of them have left: the first answers to arrive would be those
 * of the shortest requests.  It goes on while its answers are too few to decide.
 *
 * Requests may hang: a plug-in waits for a lock, or a query takes minutes.  If a request
 * has taken four times as long as is usual, and one that was sent later has been answered,
 * it is left behind: its round no longer waits for it, and the limit counts only the others.
 * What is usual is the mean of all durations, with those of load.  So load does not leave more
 * requests behind, and what is left of the durations grows in proportion to all of them,
 * however they are distributed.  Load that holds up everything leaves nothing behind, since
 * nothing is answered before what was sent earlier.
 *
 * All durations are divided by the base of their kind and size, so the mean, g,
 * has a standard error, whatever the requests are.
 *
 * The limit starts low and doubles in each round, until the first sign of waiting.
 * It grows while g is below 1.12.  Above 1.40 it is cut to what should
 * make g 1.25.  If, after a cut, fewer requests in flight take as long, the load
 * was not the cause (a plug-in has become slow): what they take is the new base,
 * and the cut is undone.
 *
 * A base that was measured while requests waited is too long.  So while they do,
 * the limit is halved now and then for a round.  Its durations are the base, since
 * with g at most 1.40 half as many requests do not wait.  A minimum as base would be
 * that of the luckiest answer: it is a mean of many.
 *
 * Load makes all requests slower alike.  If some are very much slower than others of
 * the same class, a user or a table is slow, and the limit does not fall.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "pool/useful.h"

/* g: below the first, the limit grows; above the last, it is cut, as for the one between */
#define NO_WAITING			1.12
#define AIM					1.25
#define TOO_MUCH			1.40
#define MOST_EXPECTED		1.45	/* it does not grow to where more is to be expected */
/* with so many in flight, a base is verified by one with fewer, and with so many times more */
#define DOUBTFUL			3.5
#define VERIFIES			1.7
/* an aim of 2.55 requests is 3 of them */
#define ROUND_UP			0.45

/* the part of the hint with which the limit continues after the first round, and the most of it */
#define SECOND_MOST			8
#define SECOND_PART			4

/* of the limit in a round, before and after the first sign of waiting */
#define GROWTH_FIRST		2.0
#define GROWTH				1.25

/* answers of a round: at least, and at most until a decision that is not sure */
#define FEWEST_AT_FIRST		4	/* in the second round, half as many in the first */
#define FEWEST				8
#define ENOUGH				64
/* standard errors that make a decision sure, and the error with which all are sure */
#define SURE				2.0
#define VERY_SURE			3.0
#define EXACT				0.04
/* answers that differ this much, for other reasons than load, show it only if there are very many */
#define VAGUE				0.15
#define ENOUGH_IF_VAGUE		16
/* requests that take so many times as long as is usual hang; usual is the mean of so many answers */
#define PATIENT				4
#define TYPICAL_OF			8
/* a shorter time counts as this one: nobody minds such waits, and this machine may be their cause */
#define SHORTEST			(50 * DV_MILLISECOND)
/* the relative error of one answer that is assumed in addition to what is measured */
#define LEAST_DEVIATION		0.05

/* so many answers of a round count as much as what is known of the deviation of their class */
#define PRIOR				8.0

/* the deviation that is assumed of a class, and as that of how many answers it counts */
#define DEVIATION			0.3
#define FEW					2

#define MOST_WEIGHT			128
/* a probe takes at most this part of the time, once the base is known well */
#define PROBE_PART			40
#define LEAST_PROBE_PART	10
/* if answers take longer in proportion to the requests in flight, to this part, all of them wait */
#define WAITS_HERE			0.85
#define PROBE_INTERVAL		(60 * DV_SECOND)
/* how long waiting is remembered */
#define CAPACITY_LASTS		(120 * DV_SECOND)
/* an environment changes less often than loads come and go */
#define IDLE				(3600 * DV_SECOND)

#define Min2(a, b) ((a) < (b) ? (a) : (b))
#define Max2(a, b) ((a) > (b) ? (a) : (b))

/* What a round shows. */
typedef struct finding
{
	int			n;				/* answers whose base is known */
	double		g;
	double		error;			/* standard error of the durations */
	double		base_error;		/* and of the bases */
	double		used;			/* requests in flight, on average */
} finding;

/*
 * Rounds.
 */

static void
open_round(dv_useful *u)
{
	int			i;

	u->sent = 0;
	u->under_way = 0;
	u->closed = false;
	u->traffic.round++;
	if (u->traffic.round == 0)
		u->traffic.round = 1;
	for (i = 0; i < DV_USEFUL_PERIODS; i++)
		u->traffic.periods[i].counted = 0;
}

/* Requests that were sent before no longer count. */
static void
begin_round(dv_useful *u, int64_t now)
{
	int			i;

	open_round(u);
	u->began = now;
	u->peak = 0;
	u->in_flight = 0;
	u->in_flight_left = 0;
	u->counted = 0;
	u->left = 0;
	for (i = 0; i < DV_USEFUL_CLASSES; i++)
	{
		memset(&u->classes[i].now, 0, sizeof(dv_useful_sums));
	}
}

static void
set_limit(dv_useful *u, double limit, dv_useful_phase phase, int64_t now)
{
	u->limit = Max2(limit, 1);
	u->phase = phase;
	begin_round(u, now);
}

void
dv_useful_reset(dv_useful *u)
{
	dv_useful_traffic traffic = u->traffic;

	memset(u, 0, sizeof(*u));
	u->traffic = traffic;
}

static void
start(dv_useful *u, int64_t now)
{
	dv_useful_reset(u);
	u->growth = GROWTH_FIRST;
	set_limit(u, DV_USEFUL_START, DV_USEFUL_NORMAL, now);
}

int
dv_useful_limit(dv_useful *u, int hint, int64_t now)
{
	if (u->limit == 0 || now - u->traffic.last_sent > IDLE)
		start(u, now);
	if (hint > 0)
		u->hint = hint;
	return dv_useful_allowed(u);
}

int
dv_useful_allowed(const dv_useful *u)
{
	return dv_useful_peek(u) + u->traffic.hanging;
}

int
dv_useful_peek(const dv_useful *u)
{
	return (int) (u->limit + 1e-9);
}

/*
 * As many requests count as may be sent at once, so that a round takes about one duration.  After
 * the limit has doubled, these are half as many.
 */
static int
wanted(const dv_useful *u)
{
	int			limit = dv_useful_peek(u);

	if (u->phase == DV_USEFUL_PROBE)
		return Max2(FEWEST, Min2(2 * limit, ENOUGH / 2));
	if (u->g == 0)
		return FEWEST_AT_FIRST / 2;
	if (u->capacity == 0)
		return Max2(FEWEST_AT_FIRST, Min2(limit / 2, ENOUGH));
	return Max2(FEWEST, Min2(limit, ENOUGH));
}

/*
 * Requests under way.
 */

static dv_useful_period *
period_of(dv_useful_traffic *traffic, uint32_t number)
{
	return &traffic->periods[number % DV_USEFUL_PERIODS];
}

/* Returns how long requests under way should take at most. */
static int64_t
patience(const dv_useful *u)
{
	return Max2((int64_t) (PATIENT * u->typical), DV_USEFUL_PATIENCE);
}

/* Begins a period, unless requests of the one that it would replace are still under way. */
static void
begin_period(dv_useful_traffic *traffic, int64_t now)
{
	dv_useful_period *period = period_of(traffic, traffic->period + 1);

	if (traffic->first + DV_USEFUL_PERIODS == traffic->period + 1)
	{
		if (period->under_way > 0)
			return;
		traffic->first++;
	}
	memset(period, 0, sizeof(*period));
	period->began = now;
	traffic->period++;
	if (traffic->first == 0)
		traffic->first = traffic->period;
}

static bool
hangs(const dv_useful *u, dv_useful_ticket ticket)
{
	return ticket.period < u->traffic.first;
}

static bool
counts(const dv_useful *u, dv_useful_ticket ticket)
{
	return ticket.round != 0 && ticket.round == u->traffic.round && !hangs(u, ticket);
}

dv_useful_ticket
dv_useful_sent(dv_useful *u, int in_flight, int64_t now)
{
	dv_useful_traffic *traffic = &u->traffic;
	dv_useful_ticket ticket = {0};
	dv_useful_period *period;

	traffic->last_sent = now;
	if (traffic->period == 0 ||
		now - period_of(traffic, traffic->period)->began > patience(u) / (DV_USEFUL_PERIODS / 2))
		begin_period(traffic, now);
	ticket.period = traffic->period;
	period = period_of(traffic, ticket.period);
	period->ended = now;
	period->under_way++;
	in_flight -= traffic->hanging;
	u->peak = Max2(u->peak, in_flight);
	if (u->closed || u->limit == 0)
		return ticket;
	ticket.round = traffic->round;
	period->counted++;
	u->in_flight += in_flight;
	u->counted++;
	u->under_way++;
	if (++u->sent >= wanted(u))
		u->closed = true;
	return ticket;
}

/* Requests hang if later ones have been answered although they have not, after all patience. */
static void
leave_behind(dv_useful *u, int64_t now)
{
	dv_useful_traffic *traffic = &u->traffic;

	while (traffic->first < traffic->answered &&
		   now - period_of(traffic, traffic->first)->ended > patience(u))
	{
		const dv_useful_period *period = period_of(traffic, traffic->first);

		traffic->hanging += period->under_way;
		u->under_way -= period->counted;
		traffic->first++;
	}
}

bool
dv_useful_is_silent(const dv_useful *u, int64_t now)
{
	return now - u->traffic.last_sent > Max2((int64_t) u->typical, DV_USEFUL_PATIENCE);
}

/*
 * Classes.
 */

/* Sizes within a factor of two count as the same. */
static int
key_of(dv_kind kind, int64_t size)
{
	int			key = 1;

	while (size > 1)
	{
		size /= 2;
		key++;
	}
	return key * DV_KINDS + kind;
}

static dv_useful_class *
class_of(dv_useful *u, int key)
{
	dv_useful_class *class = &u->classes[0];
	int			i;

	for (i = 0; i < DV_USEFUL_CLASSES; i++)
	{
		dv_useful_class *c = &u->classes[i];

		if (c->key == key)
			return c;
		if (c->seen < class->seen)
			class = c;
	}
	memset(class, 0, sizeof(*class));
	class->key = key;
	return class;
}

/* What has taken longer than all patience may have hung. */
static void
note_duration(dv_useful *u, int64_t duration)
{
	if (u->typical == 0)
		u->typical = (double) duration;
	else
		u->typical += ((double) Min2(duration, patience(u)) - u->typical) / TYPICAL_OF;
}

void
dv_useful_answered(dv_useful *u, dv_useful_ticket ticket, dv_kind kind, int64_t size,
				   int64_t duration)
{
	dv_useful_class *class;

	u->traffic.answered = Max2(u->traffic.answered, ticket.period);
	if (duration > 0)
		note_duration(u, duration);
	if (!counts(u, ticket) || duration <= 0)
		return;
	duration = Max2(duration, SHORTEST);
	class = class_of(u, key_of(kind, size));
	class->seen = u->traffic.round;
	class->now.n++;
	class->now.sum += (double) duration;
	class->now.squares += (double) duration * (double) duration;
}

double
dv_useful_base(const dv_useful *u, dv_kind kind)
{
	const dv_useful_class *last = NULL;
	int			i;

	for (i = 0; i < DV_USEFUL_CLASSES; i++)
	{
		const dv_useful_class *c = &u->classes[i];

		if (c->key != 0 && c->key % DV_KINDS == (int) kind && c->base > 0 &&
			(last == NULL || c->seen > last->seen || (c->seen == last->seen && c->weight > last->weight)))
			last = c;
	}
	return last != NULL ? last->base : 0;
}

static double
mean_of(const dv_useful_sums *sums)
{
	return sums->sum / sums->n;
}

/* Returns the sum of squares of the deviations from the mean. */
static double
deviations_of(const dv_useful_sums *sums)
{
	return Max2(sums->squares - sums->sum * mean_of(sums), 0);
}

/*
 * Bases.
 */

static void
set_base(dv_useful_class *c, double base, double weight)
{
	double		mean = mean_of(&c->now);

	c->base = base;
	c->weight = Min2(weight, MOST_WEIGHT);
	/* a few answers may be alike by chance */
	c->variance = (deviations_of(&c->now) / (mean * mean) + FEW * DEVIATION * DEVIATION) /
		(c->now.n - 1 + FEW);
}

static void
add_to_base(dv_useful_class *c, const dv_useful_sums *sums)
{
	double		weight = c->weight + sums->n;
	double		base = (c->base * c->weight + sums->sum) / weight;

	c->variance = (c->variance * c->weight + deviations_of(sums) / (base * base)) / weight;
	c->base = base;
	c->weight = Min2(weight, MOST_WEIGHT);
}

/* Gives classes that are new in this round a base, assuming that their requests waited like others. */
static void
guess_bases(dv_useful *u, double g)
{
	int			i;

	for (i = 0; i < DV_USEFUL_CLASSES; i++)
	{
		dv_useful_class *c = &u->classes[i];

		if (c->now.n >= 2 && c->base == 0)
			set_base(c, mean_of(&c->now) / Max2(g, 1), g > NO_WAITING ? 1 : c->now.n);
	}
}

/* Returns the number of answers that the bases of this round were computed from, on average. */
static double
base_weight(const dv_useful *u)
{
	double		weight = 0;
	int			n = 0;
	int			i;

	for (i = 0; i < DV_USEFUL_CLASSES; i++)
	{
		weight += u->classes[i].weight * u->classes[i].now.n;
		n += u->classes[i].now.n;
	}
	return n > 0 ? weight / n : 0;
}

/* What this round took is the base. */
static void
replace_bases(dv_useful *u)
{
	int			i;

	for (i = 0; i < DV_USEFUL_CLASSES; i++)
	{
		dv_useful_class *c = &u->classes[i];

		if (c->now.n >= 3)
			set_base(c, mean_of(&c->now), c->now.n);
	}
}

/* What this round took is a base, too. */
static void
refine_bases(dv_useful *u)
{
	int			i;

	for (i = 0; i < DV_USEFUL_CLASSES; i++)
		if (u->classes[i].now.n > 0 && u->classes[i].base > 0)
			add_to_base(&u->classes[i], &u->classes[i].now);
}

/*
 * The limit grows from this round: only now is it known that nothing waited in the last one, which
 * had half as many requests in flight.
 */
static void
refine_by_last(dv_useful *u)
{
	int			i;

	for (i = 0; i < DV_USEFUL_CLASSES; i++)
	{
		dv_useful_class *c = &u->classes[i];

		if (c->last.n > 0 && c->base > 0)
			add_to_base(c, &c->last);
		c->last = c->now;
	}
}

/*
 * Findings.
 */

static finding
find(const dv_useful *u)
{
	finding		f = {0};
	double		sum = 0;
	double		squares = 0;
	double		base_variance = 0;
	int			classes = 0;
	int			i;

	for (i = 0; i < DV_USEFUL_CLASSES; i++)
	{
		const dv_useful_class *c = &u->classes[i];
		int			n = c->now.n;

		if (n == 0 || c->base == 0)
			continue;
		classes++;
		f.n += n;
		sum += c->now.sum / c->base;
		squares += (deviations_of(&c->now) / (c->base * c->base) + PRIOR * c->variance) * n / (n + PRIOR);
		base_variance += n * (c->variance + LEAST_DEVIATION * LEAST_DEVIATION) / c->weight;
	}
	/* their number has grown or shrunk to the limit meanwhile */
	if (u->left > 0)
		f.used = Max2(u->in_flight / u->counted, u->in_flight_left / u->left);
	if (f.n == 0)
		return f;
	f.g = sum / f.n;
	squares = f.n > classes ? squares / (f.n - classes) : 0;
	f.error = sqrt((squares + LEAST_DEVIATION * LEAST_DEVIATION * f.g * f.g) / f.n);
	f.base_error = f.g * sqrt(base_variance / f.n);
	return f;
}

/*
 * Decisions.
 */

static void
grow(dv_useful *u, const finding *f, int64_t now)
{
	double		limit = Max2(u->limit * u->growth, dv_useful_peek(u) + 1);

	if (u->limit <= DV_USEFUL_START && u->capacity == 0)
		limit = Max2(limit, Min2(u->hint / SECOND_PART, SECOND_MOST));
	/* unless that has changed, do not go at once to where requests have been found to wait */
	if (u->capacity > 0 && now - u->capacity_at < CAPACITY_LASTS && f->used < 1.1 * u->capacity)
		limit = Min2(limit, Max2(u->capacity * MOST_EXPECTED, u->limit));
	if (floor(limit) > dv_useful_peek(u))
		u->growth = Min2(1 + 2 * (u->growth - 1), GROWTH_FIRST);
	set_limit(u, limit, DV_USEFUL_NORMAL, now);
}

static void
remember(dv_useful *u, const finding *f)
{
	u->before = u->limit;
	u->before_used = f->used;
	u->before_g = f->g;
	u->before_error = f->error;
}

static void
note_waiting(dv_useful *u, const finding *f, int64_t now)
{
	if (u->growth == GROWTH_FIRST && u->capacity == 0)
		u->next_probe = now;
	u->growth = GROWTH;
	u->capacity = f->used / f->g;
	u->capacity_at = now;
}

static void
probe(dv_useful *u, const finding *f, int64_t now)
{
	remember(u, f);
	set_limit(u, floor(Min2(f->used, f->used * AIM / f->g) / 2 + ROUND_UP), DV_USEFUL_PROBE, now);
}

/* As many wait as should. */
static void
stay(dv_useful *u, const finding *f, int64_t now)
{
	if (now >= u->next_probe && f->used >= 1.5)
		probe(u, f, now);
	else if (f->n >= ENOUGH)
		begin_round(u, now);
	else
		open_round(u);
}

static void
cut(dv_useful *u, const finding *f, int64_t now)
{
	double		limit = floor(f->used * AIM / f->g + ROUND_UP);

	note_waiting(u, f, now);
	if (f->used < 1.5)
	{
		/* one request waits for nobody */
		replace_bases(u);
		begin_round(u, now);
		return;
	}
	if (limit >= floor(f->used + ROUND_UP))
	{
		stay(u, f, now);
		return;
	}
	remember(u, f);
	set_limit(u, limit, DV_USEFUL_CHECK, now);
}

/*
 * The limit is not used.  If the base was measured with about as many requests in flight, they may
 * all have waited.
 */
static void
doubt(dv_useful *u, const finding *f, int64_t now)
{
	if (!u->verified && f->used >= DOUBTFUL && now >= u->next_probe)
		probe(u, f, now);
	else
		begin_round(u, now);
}

/* Returns true if durations differ too much for what they are compared with, as if the users or tables differ. */
static bool
is_vague(const finding *f)
{
	return f->n >= ENOUGH_IF_VAGUE && f->error > VAGUE * f->g;
}

static bool
is_enough(const finding *f)
{
	return f->n >= ENOUGH && !is_vague(f);
}

static bool
sure_below(const finding *f, double bound)
{
	double		error = hypot(f->error, f->base_error);

	return f->g + SURE * error < bound || ((error < EXACT || is_enough(f)) && f->g < bound);
}

static bool
sure_above(const finding *f, double bound)
{
	double		error = hypot(f->error, f->base_error);

	return f->g - SURE * error > bound || ((error < EXACT || is_enough(f)) && f->g > bound);
}

/* The first step needs no use of the limit, or the first load after some single requests would begin with it. */
static void
go_on(dv_useful *u, const finding *f, int64_t now)
{
	bool		first = u->capacity == 0 && dv_useful_peek(u) <= DV_USEFUL_START;

	if (first || u->peak >= dv_useful_peek(u))
		grow(u, f, now);
	else
		doubt(u, f, now);
}

/* Load makes all requests slower alike. */
static bool
are_alike(const finding *f)
{
	return f->error < 2 * VAGUE * f->g;
}

/*
 * If requests differ too much, as if one of the users or tables were slow, the base was not that of
 * all of them, and the limit grows unless they clearly wait.
 */
static void
judge_vague(dv_useful *u, const finding *f, int64_t now)
{
	bool		waits = u->capacity > 0 && f->g - hypot(f->error, f->base_error) > NO_WAITING;

	if (!are_alike(f))
	{
		/* nothing is known of these requests */
		waits = false;
		replace_bases(u);
		u->capacity = 0;
		u->growth = GROWTH_FIRST;
	}
	else if (!waits)
		refine_bases(u);
	if (!waits && u->peak >= dv_useful_peek(u))
		grow(u, f, now);
	else
		begin_round(u, now);
}

static void
judge_normal(dv_useful *u, const finding *f, int64_t now)
{
	double		error = hypot(f->error, f->base_error);
	bool		alike = are_alike(f);

	u->g = f->g;
	if (alike && sure_above(f, TOO_MUCH))
		cut(u, f, now);
	else if (is_vague(f) && (u->capacity == 0 || !alike || f->n >= ENOUGH))
		judge_vague(u, f, now);
	else if (sure_below(f, NO_WAITING) || (u->capacity == 0 && f->g - error < NO_WAITING))
	{
		u->verified = u->verified || f->used >= VERIFIES * u->base_used;
		/* shorter than ever: the base was too long */
		if (f->g + VERY_SURE * error < 1)
			replace_bases(u);
		else if (u->capacity == 0)
			refine_by_last(u);
		else if (f->used < Max2(u->capacity / 2, 1.1 * u->base_used))
			refine_bases(u);
		go_on(u, f, now);
	}
	else if (alike && sure_above(f, NO_WAITING))
	{
		note_waiting(u, f, now);
		stay(u, f, now);
	}
	else if (alike && f->g > NO_WAITING && f->error < f->base_error &&
			 base_weight(u) < FEWEST && f->used >= 1.5)
		probe(u, f, now);
	else
		open_round(u);
}

/* After a cut: did the answers become faster, as they must if requests waited for each other? */
static void
judge_check(dv_useful *u, const finding *f, int64_t now)
{
	double		ratio = f->g / u->before_g;
	double		error = hypot(f->error / f->g, u->before_error / u->before_g) * ratio;
	double		expected = Max2(1 / u->before_g, f->used / u->before_used);
	double		middle = (1 + expected) / 2;

	if (fabs(ratio - middle) < SURE * error && f->n < (is_vague(f) ? ENOUGH_IF_VAGUE : ENOUGH))
	{
		open_round(u);
		return;
	}
	u->g = f->g;
	if (ratio < middle && are_alike(f))
	{
		/* no more were in flight when the base was measured */
		if (f->used <= 1.1 * u->base_used)
			refine_bases(u);
		set_limit(u, u->limit, DV_USEFUL_NORMAL, now);
		return;
	}
	replace_bases(u);
	u->capacity = 0;
	u->g = 1;
	set_limit(u, u->before, DV_USEFUL_NORMAL, now);
}

/* The less is known of the base, the sooner. */
static void
plan_probe(dv_useful *u, int64_t now)
{
	double		weight = base_weight(u);

	u->probe_interval = (int64_t) ((double) (now - u->began) *
								   Max2(PROBE_PART * weight / MOST_WEIGHT, LEAST_PROBE_PART));
	u->next_probe = now + Max2(u->probe_interval, PROBE_INTERVAL);
}

/*
 * At half of the limit.  If answers take as long as before, or only somewhat less
 * long, they did not wait here.  If they take half as long, they may still wait, and
 * will be found to be too slow at the old limit.
 */
static void
judge_probe(dv_useful *u, const finding *f, int64_t now)
{
	double		off = fabs(f->g - 1);
	double		ratio = u->before_g / f->g;
	double		limit = u->before;

	if (off <= VERY_SURE * hypot(f->error, f->base_error))
		refine_bases(u);
	else
		replace_bases(u);
	u->base_used = f->used;
	u->verified = true;
	plan_probe(u, now);
	if (ratio > WAITS_HERE * u->before_used / f->used)
	{
		/* the base is still too long */
		limit = f->used * AIM;
		u->verified = false;
		u->next_probe = now;
	}
	else if (ratio > TOO_MUCH)
		limit = u->before_used * AIM / ratio;
	set_limit(u, Min2(floor(limit + ROUND_UP), u->before), DV_USEFUL_NORMAL, now);
}

static void
judge(dv_useful *u, int64_t now)
{
	finding		f = find(u);

	if (u->base_used == 0)
		u->base_used = f.used;
	guess_bases(u, f.n > 0 ? f.g : u->g);
	f = find(u);
	if (f.n < FEWEST_AT_FIRST / 2)
		open_round(u);
	else if (u->phase == DV_USEFUL_CHECK)
		judge_check(u, &f, now);
	else if (u->phase == DV_USEFUL_PROBE)
		judge_probe(u, &f, now);
	else
		judge_normal(u, &f, now);
}

bool
dv_useful_gone(dv_useful *u, dv_useful_ticket ticket, int in_flight, int64_t now)
{
	dv_useful_traffic *traffic = &u->traffic;
	int			before = dv_useful_allowed(u);

	if (ticket.period == 0)
		return false;
	if (counts(u, ticket))
	{
		u->in_flight_left += in_flight - traffic->hanging;
		u->left++;
		u->under_way--;
		period_of(traffic, ticket.period)->counted--;
	}
	if (hangs(u, ticket))
		traffic->hanging--;
	else
		period_of(traffic, ticket.period)->under_way--;
	leave_behind(u, now);
	if (u->under_way == 0 && u->closed)
		judge(u, now);
	return dv_useful_allowed(u) != before;
}

/*
 * machine.c
 *		Backends that acquire leases, send requests, and release the leases.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

/* longest time that a woken backend takes to run */
#define WAKE_LATENCY (SECOND / 2000)

/* how long a backend waits at most before it looks again for a slot */
#define LOOK_AGAIN SECOND

#define BUFFER SECOND			/* retry_after_buffer */

/* as in pool.c and wait.h */
#define SHORT_BEYOND 2
#define SHORT_AHEAD	 (3 * SECOND)

static const struct work read_work = {DV_KIND_READ, 1, READ_SECONDS, READ_SECONDS, false};

struct ticket
{
	struct backend *backend;
	int			user;
	const struct work *work;
	double		seconds;
	int64_t		sent_at;
	int64_t		from;			/* for the part that has run by the end */
	dv_budget_mark mark;
	dv_useful_ticket useful;
	int			place;			/* among the requests in flight */
};

static void try(struct engine *engine, void *target, int64_t number);

static bool
is_slow(const struct machine *machine, const struct user *user, dv_kind kind)
{
	return user->rate.samples[kind] >= 3 &&
		user->rate.average[kind] >= machine->config.rate.slow_batch_threshold;
}

/* Where the ceiling of throttles applies to slow kinds only: hides it from the others. */
static void
apply_reading(const struct machine *machine, struct user *user, dv_kind kind)
{
	if (machine->config.reading == READING_SLOW_CEILING)
		user->rate.throttle_ceiling = is_slow(machine, user, kind) ? user->ceiling : 0;
}

static bool
throttle_rate(struct machine *machine, struct user *user, const struct ticket *ticket,
			  int64_t retry_after)
{
	dv_rate    *rate = &user->rate;
	int64_t		until = machine->engine->now + retry_after + DV_BUDGET_WINDOW;
	int			before = rate->current;
	bool		cut;

	rate->throttle_ceiling = user->ceiling;
	if (machine->config.reading == READING_CUT_WHAT_IS_USED && rate->peak_in_flight > 0 &&
		rate->peak_in_flight < rate->current)
		rate->current = rate->peak_in_flight;
	cut = dv_rate_throttle(rate, &machine->config.rate, ticket->sent_at, retry_after,
						   machine->engine->now);
	if (machine->config.reading == READING_NO_CEILING)
		rate->throttle_ceiling = 0;
	if (machine->config.reading == READING_FIRST_CEILING && cut && retry_after > 0 &&
		rate->throttle_ceiling_until < until)
	{
		rate->throttle_ceiling = dv_throttle_ceiling(before, 0, retry_after, rate->last_known_good);
		rate->throttle_ceiling_until = until;
	}
	user->ceiling = rate->throttle_ceiling;
	return cut;
}

/* Returns how many more requests are of use. */
static int
room_of_environment(struct machine *machine)
{
	int64_t		now = machine->engine->now;
	int			room = dv_useful_limit(&machine->useful, machine->dop_hint, now) - machine->in_flight;

	return room < 1 && dv_useful_is_silent(&machine->useful, now) ? 1 : room;
}

static dv_candidate
candidate_of(struct machine *machine, int which, dv_kind kind, bool beyond)
{
	struct user *user = &machine->users[which];
	int64_t		now = machine->engine->now;
	dv_candidate c = {0};
	dv_binding	binding;

	apply_reading(machine, user, kind);
	c.limit = user->in_flight;
	if (beyond || user->in_flight < user->rate.max)
		c.limit = dv_rate_limit(&user->rate, &machine->config.rate, kind, user->in_flight_of, now,
								&binding);
	if (dv_throttle_probing(&user->throttle) && c.limit > 1)
		c.limit = 1;
	else if (beyond)
		c.limit = c.limit + SHORT_BEYOND < DV_HARD_CEILING ? c.limit + SHORT_BEYOND : DV_HARD_CEILING;
	if (machine->config.useful)
	{
		int			room = room_of_environment(machine) + (beyond ? SHORT_BEYOND : 0);

		if (c.limit > user->in_flight + room)
			c.limit = user->in_flight + (room > 0 ? room : 0);
	}
	c.in_flight = user->in_flight;
	c.last_used = user->last_used;
	c.throttled_until = user->throttle.until;
	if (now >= c.throttled_until && c.in_flight < c.limit)
		c.not_before = policy_not_before(machine->config.policy, &user->pacing, machine->service,
										 which, user->in_flight,
										 user->rate.average[kind] / SECOND, now);
	if (beyond && dv_budget_keeps(&user->pacing.budget, c.in_flight, now))
		c.not_before = 0;
	return c;
}

static dv_claim
claim_of(const struct backend *backend)
{
	return (dv_claim)
	{
		backend->leases, backend->waiting_since - (backend->reader ? SHORT_AHEAD : 0),
			backend->woken_at
	};
}

/* Would the backend try to get this user if it were woken, or will it do so anyway? */
static bool
may_use(const struct backend *backend, const struct user *user, int64_t now)
{
	return backend->waiting_since != 0 &&
		(backend->tried < user->changed ||
		 (backend->next_try != 0 && backend->next_try <= now));
}

/* All want every user. */
static void
contest(struct machine *machine, struct backend *mine, dv_candidate *candidates)
{
	int64_t		now = machine->engine->now;
	dv_claim	claim = claim_of(mine);
	dv_contest	contest = dv_contest_begin(&claim, candidates, machine->config.users, now);
	int			i;
	int			k;

	for (i = 0; i < machine->config.backends; i++)
	{
		const struct backend *backend = &machine->backends[i];
		uint64_t	wanted = 0;

		for (k = 0; k < machine->config.users; k++)
			if (may_use(backend, &machine->users[k], now))
				wanted |= UINT64_C(1) << k;
		claim = claim_of(backend);
		if (backend != mine && backend->waiting_since != 0)
			dv_contest_add(&contest, &claim, wanted);
	}
}

/* All that have been woken want every user. */
static int
count_woken(const struct machine *machine, const struct backend *mine)
{
	int			n = 0;
	int			i;

	for (i = 0; i < machine->config.backends; i++)
		n += &machine->backends[i] != mine && machine->backends[i].waiting_since != 0 &&
			machine->backends[i].woken_at != 0;
	return n;
}

static struct backend *
neediest_waiter(struct machine *machine, const struct user *user, const struct backend *mine)
{
	struct backend *best = NULL;
	int			i;

	for (i = 0; i < machine->config.backends; i++)
	{
		struct backend *b = &machine->backends[i];
		dv_claim	claim = claim_of(b);
		dv_claim	best_claim;

		if (b == mine || b->waiting_since == 0 || b->woken_at != 0 || b->tried >= user->changed)
			continue;
		if (best != NULL)
			best_claim = claim_of(best);
		if (best == NULL || dv_needier(&claim, &best_claim))
			best = b;
	}
	return best;
}

static void
wake_waiters(struct machine *machine, const struct user *user, int n, const struct backend *mine)
{
	struct engine *engine = machine->engine;

	n -= count_woken(machine, mine);
	while (n-- > 0)
	{
		struct backend *backend = neediest_waiter(machine, user, mine);

		if (backend == NULL)
			return;
		backend->woken_at = engine->now;
		engine_at(engine, engine->now + (int64_t) (engine_random(engine) * WAKE_LATENCY), try,
				  backend, ++backend->timer);
	}
}

static const struct work *
draw_work(struct machine *machine, const struct backend *backend)
{
	const struct machine_config *config = &machine->config;
	double		total = 0;
	double		at;
	int			i;

	if (backend->reader)
		return &read_work;
	if (config->requests > 0)
		return &config->works[machine->job];
	if (config->own_work)
		return &config->works[(backend - machine->backends) % config->nworks];
	for (i = 0; i < config->nworks; i++)
		total += config->works[i].weight;
	at = engine_random(machine->engine) * total;
	for (i = 0; i < config->nworks - 1; i++)
	{
		at -= config->works[i].weight;
		if (at < 0)
			break;
	}
	return &config->works[i];
}

static void answered(void *target, void *request, const struct answer *answer);

static void
note_used(struct machine *machine, int which)
{
	int			last = machine->config.users - 1;
	int			i = 0;

	while (machine->order[i] != which)
		i++;
	memmove(&machine->order[i], &machine->order[i + 1], (last - i) * sizeof(int));
	machine->order[last] = which;
}

static void
send_one(struct machine *machine, struct backend *backend, int which, const struct work *work,
		 bool beyond)
{
	struct user *user = &machine->users[which];
	int64_t		now = machine->engine->now;
	struct ticket *ticket = allocate(sizeof(*ticket));

	ticket->backend = backend;
	ticket->user = which;
	ticket->work = work;
	ticket->seconds = work->shortest +
		engine_random(machine->engine) * (work->longest - work->shortest);
	ticket->sent_at = now;
	beyond = beyond && policy_not_before(machine->config.policy, &user->pacing, machine->service,
										 which, user->in_flight,
										 user->rate.average[work->kind] / SECOND, now) > now;
	user->in_flight++;
	user->in_flight_of[work->kind]++;
	user->last_used = ++machine->ticket;
	note_used(machine, which);
	backend->leases++;
	dv_rate_sent(&user->rate, user->in_flight);
	ticket->mark = dv_budget_sent(&user->pacing.budget, now);
	ticket->useful = dv_useful_sent(&machine->useful, ++machine->in_flight, now);
	ticket->mark.beside_loads = backend->reader && machine->config.backends > machine->config.readers;
	ticket->mark.passed = beyond;
	policy_sent(&user->pacing, user->rate.average[work->kind] / SECOND, now);
	if (user->in_flight > machine->peak)
		machine->peak = user->in_flight;
	machine->sent++;
	service_send(machine->service, which, ticket->seconds, answered, machine, ticket);
}

/* Measures how long no request was sent although there was no Retry-After to wait for. */
static void
note_silence(struct machine *machine, bool sent)
{
	int64_t		now = machine->engine->now;
	int			i;

	for (i = 0; i < machine->config.users; i++)
		if (!sent && now < machine->users[i].throttle.until)
			machine->last_sent = machine->users[i].throttle.until;
	if (machine->last_sent != 0 && now - machine->last_sent > machine->silence)
		machine->silence = now - machine->last_sent;
	if (sent)
		machine->last_sent = now;
}

/* Returns how many more requests the user could have under way, of any kind. */
static int
room_of(const struct machine *machine, const struct user *user)
{
	dv_binding	binding;
	int			limit = 0;
	int			kind;

	for (kind = 0; kind < DV_KINDS; kind++)
	{
		int			l = dv_rate_peek(&user->rate, &machine->config.rate, (dv_kind) kind,
									 machine->engine->now, &binding);

		if (l > limit)
			limit = l;
	}
	return limit - user->in_flight;
}

/* Another backend may be able to use the slots that this one leaves.  Returns true if it left any. */
static bool
pass_on(struct machine *machine, const struct backend *mine, const dv_candidate *candidates,
		const dv_choice *choice)
{
	int64_t		now = machine->engine->now;
	bool		left = false;
	int			i;

	for (i = 0; i < machine->config.users; i++)
	{
		const dv_candidate *c = &candidates[i];
		const struct user *user = &machine->users[i];
		int			taken = choice->kind == DV_CHOICE_USER && choice->user == i;

		left = left || c->reserved > 0;
		if (c->reserved > 0)
			wake_waiters(machine, user, c->reserved, mine);
		else if (mine->tried < user->changed && now >= c->throttled_until && now >= c->not_before &&
				 room_of(machine, user) > taken)
			wake_waiters(machine, user, 1, mine);
	}
	return left;
}

/*
 * A backend that has no others beside it needs to look only at the users that come before the one it
 * takes.  That is the same choice as with all candidates, for much less time.
 */
static dv_choice
choose_alone(struct machine *machine, const struct work *work)
{
	dv_candidate candidates[SERVICE_USERS];
	int64_t		now = machine->engine->now;
	int			n = machine->config.users;
	int			i;

	if (machine->config.useful && room_of_environment(machine) <= 0)
		return (dv_choice)
	{
		DV_CHOICE_BUSY, -1, 0
	};
	for (i = 0; i < n; i++)
	{
		candidates[i] = candidate_of(machine, machine->order[i], work->kind, false);
		if (dv_sendable(&candidates[i], now) > 0)
			return (dv_choice)
		{
			DV_CHOICE_USER, machine->order[i], 0
		};
	}
	return dv_select(candidates, n, machine->config.selection, now);
}

static dv_choice
choose(struct machine *machine, struct backend *backend, const struct work *work, bool *left,
	   bool *beyond)
{
	dv_candidate candidates[SERVICE_USERS];
	int64_t		now = machine->engine->now;
	int			n = machine->config.users;
	dv_choice	choice;
	int			i;

	for (i = 0; i < n; i++)
		candidates[i] = candidate_of(machine, i, work->kind, false);
	choice = dv_select(candidates, n, machine->config.selection, now);
	if (choice.kind == DV_CHOICE_USER)
	{
		contest(machine, backend, candidates);
		choice = dv_select(candidates, n, machine->config.selection, now);
	}
	*beyond = backend->reader &&
		(choice.kind == DV_CHOICE_BUSY || choice.kind == DV_CHOICE_PACED);
	if (*beyond)
	{
		for (i = 0; i < n; i++)
			candidates[i] = candidate_of(machine, i, work->kind, true);
		choice = dv_select(candidates, n, machine->config.selection, now);
	}
	*left = pass_on(machine, backend, candidates, &choice);
	return choice;
}

static dv_choice
acquire(struct machine *machine, struct backend *backend, const struct work *work)
{
	int64_t		now = machine->engine->now;
	bool		left = false;
	bool		beyond = false;
	dv_choice	choice;

	note_silence(machine, false);
	if (machine->config.backends == 1 && machine->config.selection == DV_SELECT_THROTTLE_AWARE)
		choice = choose_alone(machine, work);
	else
		choice = choose(machine, backend, work, &left, &beyond);
	if (choice.kind == DV_CHOICE_USER)
	{
		note_silence(machine, true);
		send_one(machine, backend, choice.user, work, beyond);
		backend->waiting_since = 0;
	}
	else
	{
		if (backend->waiting_since == 0)
			backend->waiting_since = now;
		backend->next_try = choice.until;
		if (!left)
			backend->tried = machine->ticket;
	}
	backend->woken_at = 0;
	return choice;
}

static bool
work_left(const struct machine *machine)
{
	const struct machine_config *config = &machine->config;

	if (config->requests == 0)
		return true;
	return machine->job < config->nworks &&
		machine->sent - machine->throttles < config->requests * (machine->job + 1);
}

/* Sends as long as the backend may, and then waits for a release or for the time to send again. */
static void
try(struct engine *engine, void *target, int64_t number)
{
	struct backend *backend = target;
	struct machine *machine = backend->machine;

	if (number != backend->timer)
		return;
	backend->started = true;
	if (backend->reader && backend->asked_at == 0)
		backend->asked_at = engine->now;
	while (backend->leases < (backend->reader ? 1 : machine->config.want) && work_left(machine))
	{
		dv_choice	choice;

		if (backend->next == NULL)
			backend->next = draw_work(machine, backend);
		choice = acquire(machine, backend, backend->next);
		if (choice.kind == DV_CHOICE_USER)
		{
			backend->next = NULL;
			continue;
		}
		backend->timer++;
		if (choice.until != 0)
			engine_at(engine, choice.until, try, backend, backend->timer);
		return;
	}
	backend->waiting_since = 0;
	backend->woken_at = 0;
}

static void
note_throttle(struct machine *machine, const struct ticket *ticket, const struct answer *answer)
{
	struct engine *engine = machine->engine;
	struct user *user = &machine->users[ticket->user];
	int64_t		retry_after = (answer->retry_after + SECOND - 1) / SECOND * SECOND;
	int64_t		margin = BUFFER + (int64_t) (engine_random(engine) * SECOND);
	bool		was_throttled = engine->now < user->throttle.until;
	bool		cut;

	machine->throttles++;
	machine->job_throttles[machine->job < WORKS ? machine->job : WORKS - 1]++;
	if (!was_throttled)
		user->changed = ++machine->ticket;
	cut = throttle_rate(machine, user, ticket, retry_after);
	dv_throttle_record(&user->throttle, (dv_throttle_cause) answer->limit, cut, retry_after, margin,
					   engine->now);
	dv_budget_refused(&user->pacing.budget, answer->limit == SIM_LIMIT_REQUESTS ? DV_RATION_REQUESTS
					  : answer->limit == SIM_LIMIT_EXECUTION ? DV_RATION_SECONDS : DV_RATIONS,
					  engine->now);
}

static void
next_job(struct machine *machine)
{
	struct engine *engine = machine->engine;
	int			i;

	machine->job_ended[machine->job++] = (double) (engine->now - engine->start) / SECOND;
	for (i = 0; i < machine->config.backends; i++)
	{
		struct backend *backend = &machine->backends[i];

		backend->next = NULL;
		engine_at(engine, engine->now, try, backend, ++backend->timer);
	}
}

/* Measures how long no rows of loads were written, from the first ones on. */
static void
note_gap(struct machine *machine)
{
	int64_t		now = machine->engine->now;

	if (machine->last_done != 0 && now - machine->last_done > machine->gap)
		machine->gap = now - machine->last_done;
	machine->last_done = now;
}

static void
note_success(struct machine *machine, const struct ticket *ticket, const struct answer *answer)
{
	struct user *user = &machine->users[ticket->user];
	double		remaining[DV_RATIONS] = {answer->remaining_requests, answer->remaining_seconds};
	int64_t		now = machine->engine->now;

	machine->dop_hint = answer->dop_hint;
	user->pacing.said_requests = answer->remaining_requests;
	user->pacing.said_seconds = answer->remaining_seconds;
	dv_rate_set_max(&user->rate, &machine->config.rate,
					dv_rate_maximum(machine->config.max_parallel, answer->dop_hint));
	apply_reading(machine, user, ticket->work->kind);
	dv_throttle_answered(&user->throttle, ticket->sent_at);
	dv_rate_success(&user->rate, &machine->config.rate, ticket->work->kind, answer->duration, now);
	dv_budget_answered(&user->pacing.budget, ticket->mark, (double) answer->duration / SECOND,
					   remaining, now);
	if (machine->config.policy == POLICY_BUDGET && !machine->config.start_half &&
		dv_budget_is_full(&user->pacing.budget, now))
		dv_rate_start_full(&user->rate);
	dv_useful_answered(&machine->useful, ticket->useful, ticket->work->kind,
					   ticket->work->sized ? (int64_t) (ticket->seconds * 100000) : 0, answer->duration);
	machine->waited += answer->duration - answer->hung;
	machine->alone += answer->alone;
	ticket->backend->done++;
	ticket->backend->done_seconds += ticket->seconds;
	machine->done++;
	if (!ticket->backend->reader)
	{
		machine->done_of[ticket->work - machine->config.works]++;
		note_gap(machine);
	}
	machine->done_seconds += ticket->seconds;
	if (machine->config.requests > 0 &&
		machine->done == machine->config.requests * (machine->job + 1))
		next_job(machine);
}

static void
note_read(struct machine *machine, struct backend *backend)
{
	int64_t		now = machine->engine->now;

	if (machine->nreads < READS_MAX)
		machine->reads[machine->nreads++] = (double) (now - backend->asked_at) / SECOND;
	backend->asked_at = 0;
	engine_at(machine->engine, now + (int64_t) (machine->config.read_pause * SECOND), try, backend, ++backend->timer);
}

static void
answered(void *target, void *request, const struct answer *answer)
{
	struct machine *machine = target;
	struct ticket *ticket = request;
	struct user *user = &machine->users[ticket->user];
	struct backend *backend = ticket->backend;
	int			room;

	if (answer->refused)
		note_throttle(machine, ticket, answer);
	else
		note_success(machine, ticket, answer);
	user->in_flight--;
	user->in_flight_of[ticket->work->kind]--;
	user->changed = ++machine->ticket;
	backend->leases--;
	dv_useful_gone(&machine->useful, ticket->useful, machine->in_flight--, machine->engine->now);
	room = room_of(machine, user);
	wake_waiters(machine, user, room > 1 ? room : 1, NULL);
	free(ticket);
	if (backend->reader && !answer->refused)
		note_read(machine, backend);
	else
		try(machine->engine, backend, ++backend->timer);
}

/* Waiters look again from time to time, and find that nothing is being sent. */
static void
end_silence(struct engine *engine, void *target, int64_t number)
{
	struct machine *machine = target;

	(void) number;
	if (machine->config.useful && dv_useful_is_silent(&machine->useful, engine->now))
	{
		machine->users[0].changed = ++machine->ticket;
		wake_waiters(machine, &machine->users[0], 1, NULL);
	}
	engine_at(engine, engine->now + LOOK_AGAIN, end_silence, machine, 0);
}

static void
take_sample(struct engine *engine, void *target, int64_t number)
{
	struct machine *machine = target;
	struct sample *sample = &machine->samples[machine->nsamples];
	dv_binding	binding;
	int			i;

	(void) number;
	if (machine->nsamples < SAMPLES)
	{
		machine->nsamples++;
		for (i = 0; i < machine->config.users; i++)
		{
			struct user *user = &machine->users[i];

			sample->in_flight += user->in_flight;
			sample->limit += dv_rate_peek(&user->rate, &machine->config.rate,
										  machine->config.works[0].kind, engine->now, &binding);
		}
		sample->rate = (double) (machine->done - machine->sampled_done) / SAMPLE_EVERY;
		sample->throttles = (int) (machine->throttles - machine->sampled_throttles);
		machine->sampled_done = machine->done;
		machine->sampled_throttles = machine->throttles;
	}
	engine_at(engine, engine->now + SAMPLE_EVERY * SECOND, take_sample, machine, 0);
}

void
machine_init(struct machine *machine, struct engine *engine, struct service *service,
			 const struct machine_config *config)
{
	int64_t		begin = engine->now + (int64_t) (config->begin * SECOND);
	int			i;

	memset(machine, 0, sizeof(*machine));
	machine->engine = engine;
	machine->service = service;
	machine->config = *config;
	for (i = 0; i < config->users; i++)
	{
		machine->order[i] = i;
		dv_rate_init(&machine->users[i].rate, &config->rate,
					 dv_rate_maximum(config->max_parallel, 0), begin);
		dv_budget_init(&machine->users[i].pacing.budget, begin);
		machine->users[i].pacing.said_requests = 6000;
		machine->users[i].pacing.said_seconds = 1200;
	}
	for (i = 0; i < config->backends; i++)
	{
		machine->backends[i].machine = machine;
		machine->backends[i].reader = i >= config->backends - config->readers;
		engine_at(engine, begin + (int64_t) (i * config->stagger * SECOND), try,
				  &machine->backends[i], 0);
	}
	engine_at(engine, engine->now + SAMPLE_EVERY * SECOND, take_sample, machine, 0);
	engine_at(engine, begin + LOOK_AGAIN, end_silence, machine, 0);
}

double
machine_wasted(const struct machine *machine)
{
	double		wasted = 0;
	int			i;

	for (i = 0; i < machine->config.users; i++)
		wasted += (double) machine->users[i].throttle.total_backoff / SECOND;
	return wasted;
}

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

double
machine_slow_read(struct machine *machine)
{
	qsort(machine->reads, machine->nreads, sizeof(double), compare);
	return machine->nreads > 0 ? machine->reads[(int) (machine->nreads * 0.95)] : 0;
}

double
jain(const double *shares, int n)
{
	double		sum = 0;
	double		squares = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		sum += shares[i];
		squares += shares[i] * shares[i];
	}
	return squares > 0 ? sum * sum / (n * squares) : 1;
}

double
machine_fairness(const struct machine *machine)
{
	double		shares[MACHINE_BACKENDS];
	int			i;

	for (i = 0; i < machine->config.backends; i++)
		shares[i] = machine->backends[i].done_seconds;
	return jain(shares, machine->config.backends);
}

double
work_mean(const struct machine_config *config)
{
	double		total = 0;
	double		sum = 0;
	int			i;

	for (i = 0; i < config->nworks; i++)
	{
		const struct work *work = &config->works[i];

		total += work->weight;
		sum += work->weight * (work->shortest + work->longest) / 2;
	}
	return sum / total;
}

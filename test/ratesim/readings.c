/*
 * readings.c
 *		Scenarios (f) and (g): questions that the founding documents leave
 *		open.
 *
 * (f) compares rules about which they contradict one another: which kinds the
 * ceiling after a throttle applies to, and whether a throttle cuts the limit
 * or what was in flight.  (g) has a slow table beside a fast one, with one
 * average for both and with one for each.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "scenario.h"

/* In the order of enum reading. */
static const char *const readings[] = {
	"in use", "no ceiling", "ceiling after each throttle", "ceiling for slow kinds only", "what was in flight is cut"
};

#define READINGS ((int) (sizeof(readings) / sizeof(readings[0])))

/* One load under which the readings are compared. */
struct trial
{
	const char *name;
	double		seconds;		/* of a batch */
	enum policy policy;
	int			machines;
	double		neighbour;		/* seconds of its requests; 0: there is none */
	double		fault_for;		/* everything is refused for so long, once, in 15 minutes */
	double		limit;			/* 429s may be less than so many times those without a ceiling; 0:
								 * any number.  The target is 1, see README.md */
};

static const struct trial trials[] = {
	{"AIMD alone, 1 s", 1, POLICY_NONE, 1, 0, 0, 1.15},
	{"AIMD alone, 4 s", 4, POLICY_NONE, 1, 0, 0, 1},
	{"AIMD alone, 8 s", 8, POLICY_NONE, 1, 0, 0, 1},
	{"neighbour, 7.5 s", 7.5, POLICY_BUDGET, 1, 5, 0, 0},
	{"2 machines, 8 s", 8, POLICY_BUDGET, 2, 0, 0, 0},
	{"one refusal, 15 s", 0.5, POLICY_BUDGET, 1, 0, 15, 0},
};

#define TRIALS ((int) (sizeof(trials) / sizeof(trials[0])))

static void
play(const struct trial *trial, enum reading reading, struct outcome *outcome)
{
	struct run	run = run_default(trial->name);
	int			i;

	run.repeats = 5;
	run.nmachines = trial->machines;
	for (i = 0; i < RUN_MACHINES; i++)
	{
		run.machines[i].policy = trial->policy;
		run.machines[i].reading = reading;
		run.machines[i].begin = 60 * i;
	}
	if (trial->neighbour > 0)
		run.neighbour = (struct neighbour_config)
	{
		trial->neighbour, 1, 60, 60
	};
	if (trial->fault_for > 0)
	{
		run.seconds = 900;
		run.service.servers = SERVICE_SERVERS;
		run.service.fault_at = 300;
		run.service.fault_for = trial->fault_for;
		run.service.fault_limit = SIM_LIMIT_CONCURRENCY;
	}
	run_work(&run, DV_KIND_CREATE, trial->seconds * 0.85, trial->seconds * 1.15);
	run_start(&run, outcome);
}

/* The ceiling must pay: without it, AIMD alone is refused more often, and waits longer. */
static void
check_ceiling(struct report *report, const struct trial *trial, const struct outcome *ours,
			  const struct outcome *without)
{
	if (trial->limit == 0)
		return;
	report_check(report, (double) ours->throttles < trial->limit * (double) without->throttles &&
				 ours->wasted < without->wasted,
				 "(f) %s: %lld 429s and %.0f %% waiting, without the ceiling %lld and %.0f %%",
				 trial->name, (long long) ours->throttles, 100 * ours->wasted,
				 (long long) without->throttles, 100 * without->wasted);
}

void
scenario_readings(struct report *report)
{
	struct outcome outcomes[READINGS][TRIALS];
	int			r;
	int			t;

	report_text(report, "\n### (f) Rules that the founding documents leave open\n\n"
				"Share of the best possible, 429s, and the share of time spent waiting for Retry-After.\n\n| |");
	for (t = 0; t < TRIALS; t++)
		report_text(report, " %s |", trials[t].name);
	report_text(report, "\n|---|---:|---:|---:|---:|---:|---:|\n");
	for (r = 0; r < READINGS; r++)
	{
		report_text(report, "| %s |", readings[r]);
		for (t = 0; t < TRIALS; t++)
		{
			struct outcome *o = &outcomes[r][t];

			play(&trials[t], (enum reading) r, o);
			report_text(report, " %.1f %%, %lld, %.0f %% |", 100 * o->done / o->best,
						(long long) o->throttles, 100 * o->wasted);
			outcome_free(o);
		}
		report_text(report, "\n");
	}
	for (t = 0; t < TRIALS; t++)
		check_ceiling(report, &trials[t], &outcomes[READING_OURS][t],
					  &outcomes[READING_NO_CEILING][t]);
}

/*
 * The work done in ten minutes after the service has refused everything for five
 * seconds, although its limits were not reached.  Batches take a second, and only
 * parallelism matters.
 */
static double
play_lone_refusal(int dop, enum reading reading)
{
	struct run	run = run_default("lone refusal");
	struct outcome outcome;
	double		done;

	run.seconds = 900;
	run.service.servers = SERVICE_SERVERS;
	run.service.dop_high = dop;
	run.service.fault_at = 300;
	run.service.fault_for = 5;
	run.service.fault_limit = SIM_LIMIT_CONCURRENCY;
	run.machines[0].reading = reading;
	run_work(&run, DV_KIND_CREATE, 0.85, 1.15);
	run_start(&run, &outcome);
	done = outcome.done;
	outcome_free(&outcome);
	return done;
}

/* A refusal that means nothing must cost no more than the wait and the way back. */
void
scenario_lone_refusal(struct report *report)
{
	static const int dops[] = {2, 4, 5, 8, 10, 20, 52};
	int			i;

	report_text(report, "\n### (f) What a throttle costs that meant nothing\n\n"
				"Retry-After 5 s; share of what is done in 15 minutes without the ceiling.\n\n"
				"| DOP | in use | ceiling after each throttle |\n|---:|---:|---:|\n");
	for (i = 0; i < (int) (sizeof(dops) / sizeof(dops[0])); i++)
	{
		double		without = play_lone_refusal(dops[i], READING_NO_CEILING);
		double		ours = play_lone_refusal(dops[i], READING_OURS) / without;
		double		each = play_lone_refusal(dops[i], READING_FIRST_CEILING) / without;

		report_text(report, "| %d | %.1f %% | %.1f %% |\n", dops[i], 100 * ours, 100 * each);
		report_check(report, ours >= 0.999, "(f) DOP %d: after a throttle that meant nothing, %.1f %% is done",
					 dops[i], 100 * ours);
	}
}

/* A slow table and a fast one. */
static const struct
{
	const char *name;
	double		slow[2];		/* range of seconds of a batch */
	double		fast[2];
	double		charged;		/* share of the duration */
}			pairs[] =

{
	{"12.5 s and 0.2 s", {10, 15}, {0.1, 0.3}, 1},
	{"12.5 s and 1 s", {10, 15}, {0.8, 1.2}, 1},
	{"12.5 s and 4 s", {10, 15}, {3, 5}, 1},
	{"12.5 s and 4 s, a quarter charged", {10, 15}, {3, 5}, 0.25},
};

/* Returns the number of slow batches; "apart" gives each table an average of its own. */
static double
play_pair(struct report *report, int pair, bool sessions, bool apart)
{
	struct run	run = run_default(pairs[pair].name);
	struct outcome outcome;
	double		slow;

	run.service.charged = pairs[pair].charged;
	run.repeats = 5;
	run_work(&run, DV_KIND_CREATE, pairs[pair].slow[0], pairs[pair].slow[1]);
	run_work(&run, apart ? DV_KIND_UPSERT : DV_KIND_CREATE, pairs[pair].fast[0],
			 pairs[pair].fast[1]);
	if (sessions)
	{
		run.machines[0].own_work = true;
		run.machines[0].backends = 2;
	}
	run_start(&run, &outcome);
	slow = (double) outcome.machines[0]->done_of[0];
	report_text(report, " %.0f | %lld | %lld |", slow,
				(long long) outcome.machines[0]->done_of[1], (long long) outcome.throttles);
	outcome_free(&outcome);
	return slow;
}

void
scenario_tables(struct report *report)
{
	int			pair;
	int			sessions;

	report_text(report, "\n### (g) A slow table beside a fast one\n\n"
				"Batches in an hour, and 429s in five hours; two sessions load a table each, or one session "
				"alternates at random.\n\n"
				"| | one average: slow | fast | 429s | an average each: slow | fast | 429s |\n"
				"|---|---:|---:|---:|---:|---:|---:|\n");
	for (pair = 0; pair < (int) (sizeof(pairs) / sizeof(pairs[0])); pair++)
	{
		for (sessions = 1; sessions >= 0; sessions--)
		{
			double		slow[2];
			int			apart;

			report_text(report, "| %s, %s |", pairs[pair].name,
						sessions ? "two sessions" : "one session");
			for (apart = 0; apart < 2; apart++)
				slow[apart] = play_pair(report, pair, sessions, apart);
			report_text(report, "\n");
			report_check(report, slow[0] >= 300 && slow[1] >= 300,
						 "(g) %s: the slow table gets %.0f and %.0f batches, at least 300",
						 pairs[pair].name, slow[0], slow[1]);
		}
	}
}

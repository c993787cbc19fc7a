/*
 * hour.c
 *		Scenario (c): an hour of saturated load, with budget pacing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "scenario.h"

/* The range of durations of batches that take this many seconds on average. */
#define AROUND(seconds) (seconds) * 0.85, (seconds) * 1.15

static const struct target usual = {.throughput = 0.97, .throttled = 0.001, .silence = 60};

/* where a request is a small part of the window */
static const struct target quick = {.throughput = 0.99, .throttled = 0.001, .silence = 60};

/* looser limits for what misses its target (see README.md), to keep it from getting worse */
static const struct target longest = {.throughput = 0.95, .throttled = 0.003, .silence = 60};
static const struct target noisy = {.throughput = 0.92, .throttled = 0.002, .gap = 60};

/* With few long batches, results vary more, so these runs are repeated. */
static void
play(struct report *report, struct run *run, const struct target *target, const char *file)
{
	struct outcome outcome;

	run->repeats = run->machines[0].users > 4 ? 1 : work_mean(&run->machines[0]) > 2 ? 5 : 1;
	run_start(run, &outcome);
	report_row(report, run, &outcome, target);
	if (file != NULL)
		report_plot(report, file, run->name, &outcome, run->seconds);
	outcome_free(&outcome);
}

static void
batches(struct report *report)
{
	static const struct
	{
		double		seconds;
		const struct target *target;
	}			lengths[] = {
		{0.05, &quick}, {0.2, &quick}, {1, &quick}, {4, &usual},
		{8, &usual}, {12, &usual}, {20, &longest},
	};
	int			i;

	for (i = 0; i < (int) (sizeof(lengths) / sizeof(lengths[0])); i++)
	{
		char		name[64];
		struct run	run;

		snprintf(name, sizeof(name), "1 user, batches of %g s", lengths[i].seconds);
		run = run_default(name);
		run_work(&run, DV_KIND_CREATE, AROUND(lengths[i].seconds));
		play(report, &run, lengths[i].target, lengths[i].seconds == 8 ? "c-one-user" : NULL);
	}
}

static void
users(struct report *report)
{
	static const double lengths[] = {0.2, 8};
	int			n;
	int			i;

	for (i = 0; i < 2; i++)
	{
		for (n = 2; n <= SERVICE_USERS; n *= 2)
		{
			char		name[64];
			struct run	run;

			snprintf(name, sizeof(name), "%d users, batches of %g s", n, lengths[i]);
			run = run_default(name);
			run.machines[0].users = n;
			run_work(&run, DV_KIND_CREATE, AROUND(lengths[i]));
			play(report, &run, lengths[i] > 1 ? &usual : &quick, NULL);
		}
	}
}

static void
conditions(struct report *report)
{
	struct run	run = run_default("mixed: create, update, delete, read");

	run_work(&run, DV_KIND_CREATE, 7, 8);
	run_work(&run, DV_KIND_UPDATE, 10, 15);
	run_work(&run, DV_KIND_DELETE, 8, 12);
	run_work(&run, DV_KIND_READ, 0.1, 0.5);
	play(report, &run, &usual, "c-mixed");

	run = run_default("a third of the time is charged");
	run.service.charged = 0.36;
	run_work(&run, DV_KIND_CREATE, 7, 8);
	play(report, &run, &usual, NULL);

	run = run_default("DOP hint swings, 6 and 48");
	run.service.dop_low = 6;
	run.service.dop_high = 48;
	run.service.dop_every = 300;
	run_work(&run, DV_KIND_CREATE, 7, 8);
	play(report, &run, &usual, "c-changing-hint");

	run = run_default("DOP hint swings, 1 and 3");
	run.service.dop_low = 1;
	run.service.dop_high = 3;
	run.service.dop_every = 600;
	run_work(&run, DV_KIND_CREATE, 7, 8);
	play(report, &run, &usual, NULL);

	run = run_default("DOP hint 4, batches of 1 s");
	run.service.dop_high = 4;
	run_work(&run, DV_KIND_CREATE, 0.9, 1.1);
	play(report, &run, &usual, NULL);
}

static void
others(struct report *report)
{
	struct run	run = run_default("noisy neighbour, batches of 0.25 s");

	run.neighbour = (struct neighbour_config)
	{
		0.5, 1, 60, 60
	};
	run_work(&run, DV_KIND_CREATE, 0.2, 0.3);
	play(report, &run, &noisy, NULL);

	run = run_default("noisy neighbour, batches of 7.5 s");
	run.neighbour = (struct neighbour_config)
	{
		5, 1, 60, 60
	};
	run_work(&run, DV_KIND_CREATE, 7, 8);
	play(report, &run, &noisy, "c-noisy-neighbour");
}

static void
restarts(struct report *report)
{
	static const double lengths[] = {0.2, 1, 8};
	int			i;

	for (i = 0; i < 3; i++)
	{
		char		name[64];
		struct run	run;

		snprintf(name, sizeof(name), "budgets reset, batches of %g s", lengths[i]);
		run = run_default(name);
		run.service.servers = 2;
		run.service.routing = ROUTE_STICKY;
		run.service.sticky_for = 900;
		run_work(&run, DV_KIND_CREATE, AROUND(lengths[i]));
		play(report, &run, &usual, i == 2 ? "c-budgets-reset" : NULL);
	}
}

/*
 * Each request goes to a random server, and the fullest server refuses first.
 * What is possible is determined by a client that sees the counts of all
 * servers, but cannot choose a server.
 */
static void
servers(struct report *report)
{
	static const double lengths[] = {0.1, 1, 8};
	static const double shares[] = {0.97, 0.95, 0.88};
	int			n;
	int			i;

	for (n = 2; n <= 8; n *= 2)
	{
		for (i = 0; i < 3; i++)
		{
			struct target target = {.throughput = shares[i],.throttled = 0.002};
			struct outcome outcome;
			char		name[64];
			struct run	run;

			snprintf(name, sizeof(name), "%d servers, batches of %g s", n, lengths[i]);
			run = run_default(name);
			run.service.servers = n;
			run_work(&run, DV_KIND_CREATE, AROUND(lengths[i]));
			run.machines[0].policy = POLICY_ORACLE;
			run.repeats = lengths[i] > 2 ? 5 : 1;
			run_start(&run, &outcome);
			report_row(report, &run, &outcome, NULL);
			target.of = outcome.done;
			outcome_free(&outcome);
			run.machines[0].policy = POLICY_BUDGET;
			snprintf(name, sizeof(name), "%d servers, %g s, of the oracle's", n, lengths[i]);
			play(report, &run, &target, NULL);
		}
	}
}

void
scenario_hour(struct report *report)
{
	report_head(report, "(c) An hour of saturated load", "Balanced preset, budget pacing.");
	batches(report);
	users(report);
	conditions(report);
	others(report);
	restarts(report);
	report_head(report, "(c) Several servers that count separately",
				"Each request goes to a random server.");
	servers(report);
}

void
scenario_policies(struct report *report)
{
	static const struct
	{
		const char *name;
		int			users;
		int			servers;
		double		seconds;
	}			cases[] = {
		{"1 user, 0.2 s", 1, 1, 0.2}, {"1 user, 1 s", 1, 1, 1}, {"1 user, 8 s", 1, 1, 8},
		{"16 users, 8 s", 16, 1, 8}, {"4 servers, 0.1 s", 1, 4, 0.1}, {"4 servers, 8 s", 1, 4, 8},
	};
	int			i;
	int			policy;

	report_head(report, "Pacing policies compared", "One hour each.");
	for (i = 0; i < (int) (sizeof(cases) / sizeof(cases[0])); i++)
	{
		for (policy = 0; policy < POLICIES; policy++)
		{
			struct run	run = run_default(cases[i].name);

			run.machines[0].users = cases[i].users;
			run.machines[0].policy = (enum policy) policy;
			run.service.servers = cases[i].servers;
			run_work(&run, DV_KIND_CREATE, AROUND(cases[i].seconds));
			play(report, &run, NULL, i == 2 && policy == POLICY_NONE ? "c-aimd-alone" : NULL);
		}
	}
}

/*
 * sharing.c
 *		Scenarios (d), (e), and (j): backends and machines get equal shares of a
 *		user, and short requests do not wait beside loads.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "scenario.h"

static const double lengths[] = {0.1, 1, 8};

void
scenario_backends(struct report *report)
{
	static const struct target target = {
	.throughput = 0.97, .throttled = 0.001, .fairness = 0.95, .silence = 60};
	int			n;
	int			i;

	report_head(report, "(d) Backends that share a user",
				"Each keeps up to 8 requests in flight and starts 1 s after the previous one.");
	for (i = 0; i < 3; i++)
	{
		for (n = 2; n <= MACHINE_BACKENDS; n *= 2)
		{
			struct outcome outcome;
			char		name[64];
			struct run	run;

			snprintf(name, sizeof(name), "%d backends, batches of %g s", n, lengths[i]);
			run = run_default(name);
			run.machines[0].backends = n;
			run.machines[0].want = 8;
			run.machines[0].stagger = 1;
			run_work(&run, DV_KIND_CREATE, lengths[i] * 0.85, lengths[i] * 1.15);
			run.repeats = lengths[i] > 2 ? 5 : 1;
			run_start(&run, &outcome);
			report_row(report, &run, &outcome, &target);
			outcome_free(&outcome);
		}
	}
}

void
scenario_machines(struct report *report)
{
	static const struct
	{
		double		seconds;
		double		gap;
	}			batches[] = {{0.1, 10}, {1, 10}, {4, 20}, {8, 40}};
	static const double starts[] = {0, 60, 300};
	int			s;
	int			i;

	report_head(report, "(e) Machines that share a user",
				"The two machines do not know of each other, and the second one starts later.");
	for (i = 0; i < (int) (sizeof(batches) / sizeof(batches[0])); i++)
	{
		for (s = 0; s < 3; s++)
		{
			const struct target target = {
			.throughput = 0.94, .throttled = 0.003, .fairness = 0.9, .gap = batches[i].gap};
			double		seconds = batches[i].seconds;
			struct outcome outcome;
			char		name[80];
			struct run	run;

			snprintf(name, sizeof(name), "batches of %g s, second after %.0f s", seconds, starts[s]);
			run = run_default(name);
			run.nmachines = 2;
			run.machines[1].begin = starts[s];
			run_work(&run, DV_KIND_CREATE, seconds * 0.85, seconds * 1.15);
			run.repeats = seconds > 2 ? 5 : 1;
			run_start(&run, &outcome);
			report_row(report, &run, &outcome, &target);
			if (i == 1 && s == 2)
				report_plot(report, "e-two-machines", "(e) two machines, the second 300 s later",
							&outcome, run.seconds);
			outcome_free(&outcome);
		}
	}
}

/*
 * Readers that never pause want more than the limits allow: they and the loads
 * share it, and nobody waits for the end of the window.
 */
static void
hasty_readers(struct report *report)
{
	static const struct target target = {.throughput = 0.97, .throttled = 0.001, .silence = 10, .gap = 20};
	struct run	run = run_default("1 load, batches of 0.1 s, 4 readers without a pause");
	struct target mine = target;
	struct outcome outcome;

	run.machines[0].backends = 5;
	run.machines[0].readers = 4;
	run_work(&run, DV_KIND_CREATE, 0.085, 0.115);
	run_start(&run, &outcome);
	mine.of = best_possible(&run, outcome.machines[0]->nreads * (1 - READ_SECONDS / 0.1), 0);
	report_row(report, &run, &outcome, &mine);
	outcome_free(&outcome);
}

/* Returns what 95 % of the reader's requests take at most, beside so many loads. */
static double
slow_read(int loads, double seconds, int hint, const struct target *target, struct report *report)
{
	struct outcome outcome;
	double		slow;
	char		name[80];
	struct run	run;

	snprintf(name, sizeof(name), "%d loads, batches of %g s, DOP hint %d", loads, seconds, hint);
	run = run_default(name);
	run.service.dop_high = hint;
	run.machines[0].backends = loads + 1;
	run.machines[0].readers = 1;
	run.machines[0].read_pause = 1;
	run_work(&run, DV_KIND_CREATE, seconds * 0.85, seconds * 1.15);
	run_start(&run, &outcome);
	if (target != NULL)
	{
		/* where the limit of requests binds, a short one takes the place of a batch */
		double		reads = outcome.machines[0]->nreads * (1 - READ_SECONDS / seconds);
		struct target mine = *target;

		mine.of = best_possible(&run, reads, 0);
		report_row(report, &run, &outcome, &mine);
	}
	slow = machine_slow_read(outcome.machines[0]);
	outcome_free(&outcome);
	return slow;
}

void
scenario_short(struct report *report)
{
	static const struct target target = {.throughput = 0.97, .throttled = 0.001, .silence = 10};
	static const struct
	{
		int			loads;
		double		seconds;
		int			hint;
	}			cases[] = {
		{1, 0.1, 52}, {16, 0.1, 52}, {1, 1, 52}, {16, 1, 52}, {1, 4, 52}, {16, 4, 52},
		{1, 1, 4}, {16, 1, 4}, {16, 1, 20},
	};
	const int	n = sizeof(cases) / sizeof(cases[0]);
	double		alone = slow_read(0, 1, 52, NULL, report);
	double		slow[sizeof(cases) / sizeof(cases[0])];
	int			i;

	report_head(report, "(j) Short requests beside loads",
				"A session sends requests of 50 ms, one second apart, beside loads that use up the limits.");
	for (i = 0; i < n; i++)
		slow[i] = slow_read(cases[i].loads, cases[i].seconds, cases[i].hint, &target, report);
	hasty_readers(report);
	report_text(report, "\n95 %% of the requests take at most %.0f ms alone, and beside these loads:\n\n"
				"| loads, batches, DOP hint | |\n|---|---:|\n", 1000 * alone);
	for (i = 0; i < n; i++)
	{
		report_text(report, "| %d, %g s, %d | %.0f ms |\n", cases[i].loads, cases[i].seconds,
					cases[i].hint, 1000 * slow[i]);
		report_check(report, slow[i] <= 3 * alone,
					 "(j) %d loads, %g s, hint %d: a short request takes %.0f ms, at most three times %.0f ms",
					 cases[i].loads, cases[i].seconds, cases[i].hint, 1000 * slow[i], 1000 * alone);
	}
}

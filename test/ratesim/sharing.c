/*
 * sharing.c
 *		Scenarios (d) and (e): backends and machines get equal shares of a user.
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
	static const struct target target = {.throughput = 0.85, .throttled = 0.04, .fairness = 0.9};
	static const double starts[] = {0, 60, 300};
	int			s;
	int			i;

	report_head(report, "(e) Machines that share a user",
				"The two machines do not know of each other, and the second one starts later.");
	for (i = 0; i < 3; i++)
	{
		for (s = 0; s < 3; s++)
		{
			struct outcome outcome;
			char		name[80];
			struct run	run;

			snprintf(name, sizeof(name), "batches of %g s, second after %.0f s", lengths[i],
					 starts[s]);
			run = run_default(name);
			run.nmachines = 2;
			run.machines[1].begin = starts[s];
			run_work(&run, DV_KIND_CREATE, lengths[i] * 0.85, lengths[i] * 1.15);
			run.repeats = lengths[i] > 2 ? 5 : 1;
			run_start(&run, &outcome);
			report_row(report, &run, &outcome, &target);
			if (i == 1 && s == 2)
				report_plot(report, "e-two-machines", "(e) two machines, the second 300 s later",
							&outcome, run.seconds);
			outcome_free(&outcome);
		}
	}
}

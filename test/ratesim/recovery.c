/*
 * recovery.c
 *		How long the recovery from a throttle takes.
 *
 * There are sixteen servers and short batches, so that only parallelism
 * matters.  The service refuses everything for a while.  Then the time is
 * measured until the rate of finished requests is back to 95 % of what it
 * was.  At a DOP of 20, the last known good value, which is two less than the
 * limit, is below 95 %.  The last step is then a cautious one, and recovery
 * takes more than half as long as with plain AIMD.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "scenario.h"

#define FAULT_AT 600
#define AVERAGE  4				/* seconds */

static double
mean_rate(const struct machine *machine, int from, int to)
{
	double		sum = 0;
	int			i;

	for (i = from; i < to; i++)
		sum += machine->samples[i / SAMPLE_EVERY].rate;
	return sum / (to - from);
}

static double
recovery_time(const struct machine *machine, double pause)
{
	double		before = mean_rate(machine, FAULT_AT - 100, FAULT_AT);
	int			free_again = (int) (FAULT_AT + pause);
	int			at;

	while (free_again < machine->nsamples && machine->samples[free_again].rate == 0)
		free_again++;
	for (at = free_again; at < machine->nsamples; at++)
		if (mean_rate(machine, at, at + AVERAGE) >= 0.95 * before)
			break;
	return at - free_again;
}

static double
play(struct report *report, bool plain, int dop, double pause, uint64_t seed)
{
	struct run	run = run_default("recovery");
	struct outcome outcome;
	double		seconds;
	char		file[64];

	run.seconds = 900;
	run.seed = seed;
	run.service.servers = SERVICE_SERVERS;
	run.service.dop_high = dop;
	run.service.fault_at = FAULT_AT;
	run.service.fault_for = pause;
	run.service.fault_limit = SIM_LIMIT_CONCURRENCY;
	run_work(&run, DV_KIND_CREATE, 0.4, 0.6);
	if (plain)
	{
		run.machines[0].policy = POLICY_NONE;
		run.machines[0].rate.recovery_multiplier = 1;
	}
	run_start(&run, &outcome);
	seconds = recovery_time(outcome.machines[0], pause);
	snprintf(file, sizeof(file), "c-recovery-%s", plain ? "plain" : "ours");
	if (dop == 52 && pause < 15 && seed == 1)
		report_plot(report, file, plain ? "recovery, plain AIMD" : "recovery, last known good",
					&outcome, run.seconds);
	outcome_free(&outcome);
	return seconds;
}

void
scenario_recovery(struct report *report)
{
	static const int dops[] = {20, 32, 44, 52};
	static const double pauses[] = {5, 10};
	int			d;
	int			p;
	uint64_t	seed;

	report_text(
				report,
				"\n### Recovery after a throttle\n\n"
				"Seconds from the first answer after Retry-After to 95 %% of the earlier rate; mean of five runs.\n\n"
				"| DOP | Retry-After | plain AIMD | last known good | ratio |\n"
				"|---:|---:|---:|---:|---:|\n");
	for (d = 0; d < 4; d++)
	{
		for (p = 0; p < 2; p++)
		{
			double		plain = 0;
			double		ours = 0;

			for (seed = 1; seed <= 5; seed++)
			{
				plain += play(report, true, dops[d], pauses[p], seed) / 5;
				ours += play(report, false, dops[d], pauses[p], seed) / 5;
			}
			report_text(report, "| %d | %.0f s | %.1f s | %.1f s | %.2f |\n", dops[d], pauses[p],
						plain, ours, ours / plain);
			report_check(report, dops[d] <= 20 || ours <= 0.5 * plain,
						 "recovery at DOP %d: %.1f s, plain AIMD %.1f s", dops[d], ours,
						 plain);
		}
	}
}

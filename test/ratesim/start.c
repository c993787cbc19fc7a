/*
 * start.c
 *		Scenario (h): a load starts with the whole limit or with half of it.
 *
 * The service is at rest, so its budgets are full, as for a schedule that runs
 * every ten minutes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "scenario.h"

static void
play(int dop, double batch, double seconds, bool half, struct outcome *outcome)
{
	struct run	run = run_default("start");

	run.seconds = seconds;
	run.repeats = seconds > 60 ? 1 : 3;
	run.service.dop_high = dop;
	run.machines[0].start_half = half;
	run_work(&run, DV_KIND_CREATE, batch * 0.85, batch * 1.15);
	run_start(&run, outcome);
	outcome_free(outcome);
}

void
scenario_start(struct report *report)
{
	static const int dops[] = {5, 10, 20, 52};
	static const double batches[] = {0.2, 1, 4, 8, 12};
	struct outcome full;
	struct outcome half;
	long long	throttles[2] = {0, 0};
	double		done[2] = {0, 0};
	int			d;
	int			b;

	report_text(report, "\n### (h) A start with full budgets\n\n"
				"What is done in the first minute, relative to a start with half of the limit, and 429s in that minute.\n\n"
				"| DOP, batches | first minute | 429s | 429s from half |\n|---|---:|---:|---:|\n");
	for (d = 0; d < 4; d++)
	{
		for (b = 0; b < 5; b++)
		{
			play(dops[d], batches[b], 60, false, &full);
			play(dops[d], batches[b], 60, true, &half);
			report_text(report, "| %d, %g s | %+.0f %% | %lld | %lld |\n", dops[d], batches[b],
						100 * full.done / half.done - 100, (long long) full.throttles,
						(long long) half.throttles);
			report_check(report, full.done >= half.done && full.throttles <= half.throttles,
						 "(h) DOP %d, %g s: %.1f %% more is done in the first minute, %lld and %lld 429s",
						 dops[d], batches[b], 100 * full.done / half.done - 100,
						 (long long) full.throttles, (long long) half.throttles);
			play(dops[d], batches[b], 3600, false, &full);
			play(dops[d], batches[b], 3600, true, &half);
			throttles[0] += full.throttles;
			throttles[1] += half.throttles;
			done[0] += full.done;
			done[1] += half.done;
		}
	}
	report_text(report, "\nIn an hour of each: %lld 429s, from half %lld.\n", throttles[0], throttles[1]);
	report_check(report, done[0] >= 0.999 * done[1] && throttles[0] < 0.0001 * done[0],
				 "(h) in an hour of each, %.2f %% of what is done from half, %lld and %lld 429s",
				 100 * done[0] / done[1], throttles[0], throttles[1]);
}

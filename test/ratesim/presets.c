/*
 * presets.c
 *		Scenario (b): the tuning rounds behind the presets.
 *
 * Two users create, then update, and then delete 42,366 records in batches of
 * 100, one job right after the other, with the rate controller alone and with
 * budget pacing, and up to 52 requests in flight for each user.  A quarter of
 * a batch's duration is charged.  At that share, Balanced runs updates at
 * exactly the execution time that the service grants (200 / 12.5 s x 1/4 = 4
 * seconds per second).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "scenario.h"

#define RECORDS 42366
#define BATCH   100
#define CHARGED 0.25

static const char *const preset_names[] = {"Conservative", "Balanced", "Aggressive"};

/* Throttles and records per second of one preset, by job. */
struct round
{
	long long	throttles[3];
	double		rate[3];
};

static struct round
play(struct report *report, dv_preset preset, enum policy policy)
{
	struct run	run = run_default(preset_names[preset]);
	struct machine_config *machine = &run.machines[0];
	struct outcome outcome;
	struct round round;
	double		begin = 0;
	char		file[64];
	int			i;

	machine->users = 2;
	machine->policy = policy;
	machine->max_parallel = 52;
	machine->rate = dv_rate_preset(preset);
	machine->requests = (RECORDS + BATCH - 1) / BATCH;
	run.seconds = 1800;
	run.service.charged = CHARGED;
	run_work(&run, DV_KIND_CREATE, 7, 8);
	run_work(&run, DV_KIND_UPDATE, 10, 15);
	run_work(&run, DV_KIND_DELETE, 8, 12);
	run_start(&run, &outcome);
	for (i = 0; i < 3; i++)
	{
		round.throttles[i] = outcome.machines[0]->job_throttles[i];
		round.rate[i] = RECORDS / (outcome.machines[0]->job_ended[i] - begin);
		begin = outcome.machines[0]->job_ended[i];
	}
	snprintf(file, sizeof(file), "b-%s", preset_names[preset]);
	if (policy == POLICY_NONE)
		report_plot(report, file, preset_names[preset], &outcome, begin);
	outcome_free(&outcome);
	return round;
}

static void
play_all(struct report *report, enum policy policy, struct round *rounds)
{
	int			i;

	for (i = 0; i < 3; i++)
	{
		struct round *r = &rounds[i];

		*r = play(report, (dv_preset) i, policy);
		report_text(report, "| %s, %s | %.0f/s | %lld | %.0f/s | %lld | %.0f/s | %lld |\n",
					preset_names[i], policy_name(policy), r->rate[0], r->throttles[0], r->rate[1],
					r->throttles[1], r->rate[2], r->throttles[2]);
	}
}

void
scenario_presets(struct report *report)
{
	struct round rounds[3];
	struct round paced[3];
	const struct round *balanced = &rounds[DV_PRESET_BALANCED];
	int			i;

	report_text(
				report,
				"\n### (b) The tuning rounds behind the presets\n\n"
				"Records per second, and 429s.\n\n"
				"| preset | create | | update | | delete | |\n|---|---:|---:|---:|---:|---:|---:|\n");
	play_all(report, POLICY_NONE, rounds);
	play_all(report, POLICY_BUDGET, paced);
	report_check(report, balanced->throttles[0] == 0 && balanced->rate[0] >= 483,
				 "(b): Balanced creates %.0f/s, at least 483/s, without throttles", balanced->rate[0]);
	report_check(report, balanced->throttles[1] == 0 && balanced->rate[1] >= 153,
				 "(b): Balanced updates %.0f/s, at least 153/s, without throttles", balanced->rate[1]);
	report_check(report, rounds[DV_PRESET_CONSERVATIVE].throttles[2] == 0,
				 "(b): Conservative is not throttled on deletes");
	for (i = 0; i < 3; i++)
		report_check(report,
					 paced[i].throttles[0] + paced[i].throttles[1] + paced[i].throttles[2] == 0,
					 "(b): %s is not throttled with budget pacing", preset_names[i]);
	for (i = 0; i < 2; i++)
	{
		report_check(report,
					 rounds[i].rate[0] <= 1.01 * rounds[i + 1].rate[0] &&
					 rounds[i].rate[1] < rounds[i + 1].rate[1],
					 "(b): %s is slower than %s", preset_names[i], preset_names[i + 1]);
		report_check(report, rounds[i].throttles[2] <= rounds[i + 1].throttles[2],
					 "(b): %s is throttled no more often than %s", preset_names[i],
					 preset_names[i + 1]);
	}
}

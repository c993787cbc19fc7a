/*
 * ratesim.c
 *		Simulates rate control and budget pacing in virtual time.
 *
 *	 ratesim				prints the tables
 *	 ratesim --plots DIR	also writes the plots to DIR
 *	 ratesim --check		prints a line of TAP for each target instead; fails if one is missed
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "saturation.h"
#include "scenario.h"

/* Each describes one run that is played instead of the scenarios. */
static const struct
{
	const char *name;
	size_t		offset;
}			numbers[] = {
	{"--capacity", offsetof(struct saturation, capacity)},
	{"--capacity-low", offsetof(struct saturation, capacity_low)},
	{"--every", offsetof(struct saturation, every)},
	{"--overload", offsetof(struct saturation, overload)},
	{"--jitter", offsetof(struct saturation, jitter)},
	{"--batch", offsetof(struct saturation, batch)},
	{"--users", offsetof(struct saturation, users)},
	{"--hint", offsetof(struct saturation, hint)},
	{"--max-parallel", offsetof(struct saturation, max_parallel)},
	{"--charged", offsetof(struct saturation, charged)},
	{"--hang-share", offsetof(struct saturation, hang_share)},
	{"--hang-users", offsetof(struct saturation, hang_users)},
	{"--hang-for", offsetof(struct saturation, hang_for)},
	{"--seconds", offsetof(struct saturation, seconds)},
	{"--seed", offsetof(struct saturation, seed)},
};

static bool
set_number(struct saturation *saturation, const char *name, const char *value)
{
	size_t		i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
	{
		char	   *end;
		double		number;

		if (strcmp(name, numbers[i].name) != 0 || value == NULL)
			continue;
		number = strtod(value, &end);
		if (end == value || *end != '\0' || number < 0)
			return false;
		*(double *) ((char *) saturation + numbers[i].offset) = number;
		return true;
	}
	return false;
}

static int
usage(void)
{
	fputs("usage: ratesim [--check] [--only limits | --only capacity] [--plots DIR]\n"
		  "       ratesim --capacity N [--overload PERCENT] [--jitter PERCENT] ... (see README.md)\n", stderr);
	return 2;
}

/* Scenarios (a) to (h), and (j): the limits of the service. */
static void
play_limits(struct report *report)
{
	scenario_timeline(report);
	scenario_presets(report);
	scenario_hour(report);
	scenario_recovery(report);
	scenario_backends(report);
	scenario_machines(report);
	scenario_readings(report);
	scenario_lone_refusal(report);
	scenario_tables(report);
	scenario_start(report);
	scenario_short(report);
	if (!report->quiet)
		scenario_policies(report);
}

/* Scenario (i). */
static void
play_capacity(struct report *report)
{
	scenario_saturation(report);
	scenario_changes(report);
	scenario_yardsticks(report);
}

int
main(int argc, char **argv)
{
	struct report report = {0};
	struct saturation saturation = saturation_default;
	const char *only = NULL;
	bool		single = false;
	int			i;

	for (i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--check") == 0)
			report.quiet = true;
		else if (strcmp(argv[i], "--plots") == 0 && i + 1 < argc)
			report.plots = argv[++i];
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			only = argv[++i];
		else if (strcmp(argv[i], "--no-useful-limit") == 0)
			saturation.off = true;
		else if (set_number(&saturation, argv[i], argv[i + 1]))
		{
			single = true;
			i++;
		}
		else
			return usage();
	}
	if (single)
	{
		saturation_play(&report, &saturation);
		return 0;
	}
	if (only == NULL || strcmp(only, "limits") == 0)
		play_limits(&report);
	if (only == NULL || strcmp(only, "capacity") == 0)
		play_capacity(&report);
	if (report.quiet)
		printf("1..%d\n", report.checks);
	return report.failures > 0;
}

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
#include <stdio.h>
#include <string.h>

#include "scenario.h"

static int
usage(void)
{
	fputs("usage: ratesim [--check] [--plots DIR]\n", stderr);
	return 2;
}

int
main(int argc, char **argv)
{
	struct report report = {0};
	int			i;

	for (i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--check") == 0)
			report.quiet = true;
		else if (strcmp(argv[i], "--plots") == 0 && i + 1 < argc)
			report.plots = argv[++i];
		else
			return usage();
	}
	scenario_timeline(&report);
	scenario_presets(&report);
	scenario_hour(&report);
	scenario_recovery(&report);
	scenario_backends(&report);
	scenario_machines(&report);
	scenario_readings(&report);
	scenario_lone_refusal(&report);
	scenario_tables(&report);
	scenario_start(&report);
	if (!report.quiet)
		scenario_policies(&report);
	if (report.quiet)
		printf("1..%d\n", report.checks);
	return report.failures > 0;
}

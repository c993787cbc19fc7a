/*
 * report.c
 *		Prints and draws the outcomes of scenarios.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report.h"
#include "svg.h"

void
report_text(struct report *report, const char *format,...)
{
	va_list		args;

	if (report->quiet)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
}

void
report_check(struct report *report, bool what, const char *format,...)
{
	va_list		args;

	if (!report->quiet && what)
		return;
	report->checks++;
	report->failures += !what;
	printf("%s %d - ", what ? "ok" : "not ok", report->checks);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void
report_head(struct report *report, const char *title, const char *note)
{
	report_text(report, "\n### %s\n\n%s\n\n", title, note);
	report_text(report,
				"| | policy | of best possible | 429s | of requests | wasted | Jain | silence | gap |\n");
	report_text(report, "|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
}

static void
check_target(struct report *report, const struct run *run, const struct outcome *outcome,
			 const struct target *target, double share, double throttled)
{
	report_check(report, share >= target->throughput,
				 "%s: %.2f %% of the best possible, target %.2f %%", run->name, 100 * share,
				 100 * target->throughput);
	report_check(report, throttled <= target->throttled, "%s: %.3f %% 429s, at most %.3f %%",
				 run->name, 100 * throttled, 100 * target->throttled);
	report_check(report, outcome->fairness >= target->fairness, "%s: Jain %.3f, target %.3f",
				 run->name, outcome->fairness, target->fairness);
	report_check(report, target->silence == 0 || outcome->silence <= target->silence,
				 "%s: silent for %.1f s, at most %.0f s (0: any)", run->name, outcome->silence,
				 target->silence);
	report_check(report, target->gap == 0 || outcome->gap <= target->gap,
				 "%s: no answer for %.1f s, at most %.0f s (0: any)", run->name, outcome->gap,
				 target->gap);
}

void
report_row(struct report *report, const struct run *run, const struct outcome *outcome,
		   const struct target *target)
{
	double		of = target != NULL && target->of > 0 ? target->of : outcome->best;
	double		share = outcome->done / of;
	double		throttled = outcome->sent > 0 ? (double) outcome->throttles / outcome->sent : 0;

	report_text(report, "| %s | %s | %.1f %% | %lld | %.3f %% | %.1f %% | %.3f | %.0f s | %.0f s |\n",
				run->name, policy_name(run->machines[0].policy), 100 * share,
				(long long) outcome->throttles, 100 * throttled, 100 * outcome->wasted,
				outcome->fairness, outcome->silence, outcome->gap);
	if (target != NULL)
		check_target(report, run, outcome, target, share, throttled);
}

#define BINS 360

/* Averages samples, so that a plot does not have more points than it can show. */
static int
bins_of(const struct machine *machine, struct sample *bins, int nsamples)
{
	int			n = nsamples < BINS ? nsamples : BINS;
	int			i;
	int			k;

	for (i = 0; i < n; i++)
	{
		int			from = (int) ((int64_t) i * nsamples / n);
		int			to = (int) ((int64_t) (i + 1) * nsamples / n);

		memset(&bins[i], 0, sizeof(bins[i]));
		for (k = from; k < to; k++)
		{
			bins[i].in_flight += machine->samples[k].in_flight / (to - from);
			bins[i].limit += machine->samples[k].limit / (to - from);
			bins[i].rate += machine->samples[k].rate / (to - from);
			bins[i].throttles += machine->samples[k].throttles;
		}
	}
	return n;
}

static void
plot_machine(struct svg *svg, const struct machine *machine, int which, int nsamples)
{
	static const char *const limit_colors[] = {"#9ecae1", "#fdd0a2"};
	static const char *const use_colors[] = {"#08519c", "#d94801"};
	struct sample bins[BINS];
	double		values[BINS];
	int			n = bins_of(machine, bins, nsamples);
	char		name[64];
	int			i;

	for (i = 0; i < n; i++)
		values[i] = bins[i].limit;
	snprintf(name, sizeof(name), "limit%s", which > 0 ? " (2nd machine)" : "");
	svg_line(svg, 0, name, limit_colors[which], values, n);
	for (i = 0; i < n; i++)
		values[i] = bins[i].in_flight;
	snprintf(name, sizeof(name), "in flight%s", which > 0 ? " (2nd machine)" : "");
	svg_line(svg, 0, name, use_colors[which], values, n);
	for (i = 0; i < n; i++)
		values[i] = bins[i].rate;
	snprintf(name, sizeof(name), "finished/s%s", which > 0 ? " (2nd machine)" : "");
	svg_line(svg, 1, name, use_colors[which], values, n);
	for (i = 0; i < n; i++)
		values[i] = bins[i].throttles;
	snprintf(name, sizeof(name), "429s%s", which > 0 ? " (2nd machine)" : "");
	svg_bars(svg, 2, name, which > 0 ? "#fc9272" : "#cb181d", values, n);
}

void
report_plot(struct report *report, const char *file, const char *title,
			const struct outcome *outcome, double seconds)
{
	static const char *const panels[] = {"parallelism", "requests a second", "429s"};
	struct svg	svg;
	char		path[4096];
	int			nsamples = outcome->machines[0]->nsamples;
	int			i;

	if (report->plots == NULL)
		return;
	snprintf(path, sizeof(path), "%s/%s.svg", report->plots, file);
	if (nsamples > (int) seconds / SAMPLE_EVERY)
		nsamples = (int) seconds / SAMPLE_EVERY;
	svg_begin(&svg, title, panels, 3, seconds);
	for (i = 0; i < RUN_MACHINES; i++)
		if (outcome->machines[i] != NULL)
			plot_machine(&svg, outcome->machines[i], i, nsamples);
	if (!svg_write(&svg, path))
	{
		fprintf(stderr, "ratesim: could not write \"%s\"\n", path);
		report->failures++;
	}
}

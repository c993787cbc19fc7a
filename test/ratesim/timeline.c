/*
 * timeline.c
 *		Scenario (a): the timeline of the AIMD specification, second by second.
 *
 * The limit is fully used and one batch succeeds each second; the throttle
 * comes when the limit is 44, and lasts for five seconds, as in the example of
 * the specification.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>

#include "scenario.h"
#include "svg.h"

#define THROTTLE_AT 46
#define RETRY_AFTER 5
#define QUIET_AT    110
#define LENGTH      440

/* when the limit changes, and to what */
static const struct
{
	int			at;
	int			limit;
}			expected[] = {
	{0, 26}, {5, 28}, {10, 30}, {15, 32}, {20, 34}, {25, 36}, {30, 38}, {35, 40},
	{40, 42}, {45, 44}, {46, 22}, {53, 26}, {58, 30}, {63, 34}, {68, 38}, {73, 42},
	{78, 44}, {83, 46}, {88, 48}, {93, 50}, {98, 52}, {411, 26},
};

#define EXPECTED ((int) (sizeof(expected) / sizeof(expected[0])))

static void
second(dv_rate *rate, const dv_rate_config *config, int64_t now, int at)
{
	dv_rate_sent(rate, rate->current);
	if (at == THROTTLE_AT)
		(void) dv_rate_throttle(rate, config, now, RETRY_AFTER * SECOND, now);
	else if ((at > 0 && at < THROTTLE_AT) || (at >= THROTTLE_AT + RETRY_AFTER && at <= QUIET_AT))
		dv_rate_success(rate, config, DV_KIND_CREATE, SECOND, now);
}

/* Peeking is not activity, but requesting a limit after the pause is. */
static int
limit_at(dv_rate *rate, const dv_rate_config *config, int64_t now, int at)
{
	static const int none[DV_KINDS] = {0};
	dv_binding	binding;

	if (at > QUIET_AT + 300)
		return dv_rate_limit(rate, config, DV_KIND_CREATE, none, now, &binding);
	return dv_rate_peek(rate, config, DV_KIND_CREATE, now, &binding);
}

static void
draw(struct report *report, const double *limits)
{
	static const char *const panels[] = {"parallelism"};
	struct svg	svg;
	char		path[4096];

	if (report->plots == NULL)
		return;
	snprintf(path, sizeof(path), "%s/a-timeline.svg", report->plots);
	svg_begin(&svg, "(a) the AIMD timeline: throttle at 44, then five minutes without activity",
			  panels, 1, LENGTH);
	svg_line(&svg, 0, "limit", "#08519c", limits, LENGTH);
	report_check(report, svg_write(&svg, path), "plot \"%s\" is written", path);
}

void
scenario_timeline(struct report *report)
{
	dv_rate_config config = dv_rate_preset(DV_PRESET_BALANCED);
	dv_rate		rate;
	double		limits[LENGTH];
	int64_t		start = 1000 * SECOND;
	int			next = 0;
	int			last = 0;
	int			at;

	dv_rate_init(&rate, &config, 52, start);
	report_text(
				report,
				"\n### (a) The AIMD timeline\n\n| second | limit | last known good |\n|---:|---:|---:|\n");
	for (at = 0; at < LENGTH; at++)
	{
		int64_t		now = start + at * SECOND;
		int			limit;

		second(&rate, &config, now, at);
		limit = limit_at(&rate, &config, now, at);
		limits[at] = limit;
		if (limit == last)
			continue;
		report_text(report, "| %d | %d | %d |\n", at, limit, rate.last_known_good);
		report_check(report,
					 next < EXPECTED && expected[next].at == at && expected[next].limit == limit,
					 "(a): %d at %d s", limit, at);
		next++;
		last = limit;
	}
	report_check(report, next == EXPECTED, "(a): %d changes of the limit, of %d", next, EXPECTED);
	draw(report, limits);
}

/*
 * plot.c
 *		Draws samples.
 *
 *		plot TITLE FILE.svg PANEL… <samples
 *
 * Each line of the samples is "panel TAB series TAB seconds TAB value"; panels
 * are numbered from 0.  A series whose name begins with an asterisk is drawn as
 * bars, which sum up events.  Other series are drawn as lines, in which a
 * sample lasts until the next one.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "svg.h"

#define SLOTS 240
#define LINE_MAX_LEN 256

struct sample
{
	double		at;
	double		value;
};

struct series
{
	int			panel;
	char		name[64];
	int			n;
	int			room;
	struct sample *samples;
};

static struct series all[SVG_SERIES];
static int	nseries;
static double seconds = 1;

static struct series *
series_of(int panel, const char *name)
{
	int			i;

	for (i = 0; i < nseries; i++)
		if (all[i].panel == panel && strcmp(all[i].name, name) == 0)
			return &all[i];
	if (nseries == SVG_SERIES)
		return NULL;
	all[nseries].panel = panel;
	snprintf(all[nseries].name, sizeof(all[nseries].name), "%s", name);
	return &all[nseries++];
}

static void
add(struct series *s, double at, double value)
{
	if (s->n == s->room)
	{
		s->room = s->room > 0 ? s->room * 2 : 256;
		s->samples = realloc(s->samples, s->room * sizeof(struct sample));
		if (s->samples == NULL)
			exit(1);
	}
	s->samples[s->n].at = at;
	s->samples[s->n++].value = value;
	if (at > seconds)
		seconds = at;
}

static void
read_samples(FILE *in)
{
	char		line[LINE_MAX_LEN];

	while (fgets(line, sizeof(line), in) != NULL)
	{
		char		name[64];
		int			panel;
		double		at;
		double		value;
		struct series *s;

		if (sscanf(line, "%d\t%63[^\t]\t%lf\t%lf", &panel, name, &at, &value) == 4 &&
			(s = series_of(panel, name)) != NULL)
			add(s, at, value);
	}
}

static const char *
bare_name(const struct series *s)
{
	return s->name[0] == '*' ? s->name + 1 : s->name;
}

/* Series of the same name have the same color in all panels. */
static const char *
color_of(int n)
{
	static const char *const colors[] = {
		"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#17becf", "#7f7f7f"
	};
	int			i;

	for (i = 0; strcmp(bare_name(&all[i]), bare_name(&all[n])) != 0; i++)
		;
	return colors[i % (sizeof(colors) / sizeof(colors[0]))];
}

static void
spread(const struct series *s, double *values)
{
	bool		sums = s->name[0] == '*';
	double		last = 0;
	int			next = 0;
	int			i;

	for (i = 0; i < SLOTS; i++)
	{
		double		end = seconds * (i + 1) / SLOTS;

		if (sums)
			last = 0;
		for (; next < s->n && (s->samples[next].at <= end || i == SLOTS - 1); next++)
			last = sums ? last + s->samples[next].value : s->samples[next].value;
		values[i] = last;
	}
}

int
main(int argc, char **argv)
{
	static struct svg svg;
	int			i;

	if (argc < 4)
	{
		fprintf(stderr, "usage: plot TITLE FILE.svg PANEL... <samples\n");
		return 2;
	}
	read_samples(stdin);
	svg_begin(&svg, argv[1], (const char *const *) &argv[3], argc - 3, seconds);
	for (i = 0; i < nseries; i++)
	{
		double		values[SLOTS];

		if (all[i].panel < 0 || all[i].panel >= argc - 3)
			continue;
		spread(&all[i], values);
		if (all[i].name[0] == '*')
			svg_bars(&svg, all[i].panel, bare_name(&all[i]), color_of(i), values, SLOTS);
		else
			svg_line(&svg, all[i].panel, bare_name(&all[i]), color_of(i), values, SLOTS);
	}
	if (svg_write(&svg, argv[2]))
		return 0;
	perror(argv[2]);
	return 1;
}

/*
 * svg.c
 *		Plots without a library.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "svg.h"

#define WIDTH 900
#define LEFT  60
#define RIGHT 20
#define TOP   50
#define PANEL 130
#define GAP   46
#define PLOT  (WIDTH - LEFT - RIGHT)

/* Ticks of an axis at most, beside the one at 0. */
#define X_TICKS 8
#define Y_TICKS 5

void
svg_begin(struct svg *svg, const char *title, const char *const *panels, int npanels,
		  double seconds)
{
	svg->title = title;
	svg->panels = panels;
	svg->npanels = npanels;
	svg->seconds = seconds;
	svg->nseries = 0;
}

static void
add_series(struct svg *svg, int panel, bool bars, const char *name, const char *color,
		   const double *values, int n)
{
	struct svg_series *series;

	if (svg->nseries == SVG_SERIES)
		return;
	series = &svg->series[svg->nseries++];
	series->panel = panel;
	series->bars = bars;
	snprintf(series->name, sizeof(series->name), "%s", name);
	series->color = color;
	series->n = n < SVG_POINTS ? n : SVG_POINTS;
	memcpy(series->values, values, series->n * sizeof(double));
}

void
svg_line(struct svg *svg, int panel, const char *name, const char *color, const double *values,
		 int n)
{
	add_series(svg, panel, false, name, color, values, n);
}

void
svg_bars(struct svg *svg, int panel, const char *name, const char *color, const double *values,
		 int n)
{
	add_series(svg, panel, true, name, color, values, n);
}

/* Returns the distance between the ticks of an axis: 1, 2, or 5 times a power of ten. */
static double
tick_of(double range, int most)
{
	static const double steps[] = {1, 2, 5};
	double		power;
	int			i;

	for (power = 1;; power *= 10)
		for (i = 0; i < 3; i++)
			if (power * steps[i] * most >= range)
				return power * steps[i];
}

/* Returns the end of an axis: a tick that no value exceeds. */
static double
highest(const struct svg *svg, int panel)
{
	double		high = 1;
	double		tick;
	int			s;
	int			i;

	for (s = 0; s < svg->nseries; s++)
		if (svg->series[s].panel == panel)
			for (i = 0; i < svg->series[s].n; i++)
				if (svg->series[s].values[i] > high)
					high = svg->series[s].values[i];
	tick = tick_of(high, Y_TICKS);
	return ceil(high / tick) * tick;
}

static int
base_of(int panel)
{
	return TOP + panel * (PANEL + GAP) + PANEL;
}

static void
write_axes(FILE *out, const struct svg *svg, int panel, double high)
{
	int			base = base_of(panel);
	bool		minutes = svg->seconds > 300;
	double		end = minutes ? svg->seconds / 60 : svg->seconds;
	double		at;

	fprintf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", LEFT, base - PANEL - 8,
			svg->panels[panel]);
	for (at = 0; at <= high; at += tick_of(high, Y_TICKS))
	{
		double		y = base - at / high * PANEL;

		fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, LEFT + PLOT);
		fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 6, y + 4, at);
	}
	for (at = 0; at <= end; at += tick_of(end, X_TICKS))
		fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g %s</text>\n",
				LEFT + at / end * PLOT, base + 16, at, minutes ? "min" : "s");
}

static void
write_series(FILE *out, const struct svg_series *series, double high)
{
	int			base = base_of(series->panel);
	double		step = (double) PLOT / series->n;
	int			i;

	fprintf(out, "<path fill=\"%s\" stroke=\"%s\" stroke-width=\"%s\" d=\"", "none", series->color,
			series->bars ? "2.5" : "1.3");
	for (i = 0; i < series->n; i++)
	{
		double		x = LEFT + (i + 0.5) * step;
		double		y = base - series->values[i] / high * PANEL;

		if (!series->bars)
			fprintf(out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x, y);
		else if (series->values[i] > 0)
			fprintf(out, "M%.1f %dV%.1f", x, base, y);
	}
	fprintf(out, "\"/>\n");
}

static void
write_legend(FILE *out, const struct svg *svg, int panel)
{
	int			x = LEFT + 170;
	int			y = base_of(panel) - PANEL - 8;
	int			s;

	for (s = 0; s < svg->nseries; s++)
	{
		const struct svg_series *series = &svg->series[s];

		if (series->panel != panel)
			continue;
		fprintf(out, "<path d=\"M%d %dh16\" stroke=\"%s\" stroke-width=\"3\"/>", x, y - 4,
				series->color);
		fprintf(out, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 20, y, series->name);
		x += 40 + 7 * (int) strlen(series->name);
	}
}

bool
svg_write(const struct svg *svg, const char *path)
{
	FILE	   *out = fopen(path, "w");
	int			height = base_of(svg->npanels - 1) + 30;
	int			panel;
	int			s;
	bool		written;

	if (out == NULL)
		return false;
	fprintf(
			out,
			"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
			"font-family=\"sans-serif\" font-size=\"12\">\n",
			WIDTH, height);
	fprintf(out, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
	fprintf(out, "<text x=\"%d\" y=\"20\" font-size=\"15\">%s</text>\n", LEFT, svg->title);
	for (panel = 0; panel < svg->npanels; panel++)
	{
		double		high = highest(svg, panel);

		write_axes(out, svg, panel, high);
		write_legend(out, svg, panel);
		for (s = 0; s < svg->nseries; s++)
			if (svg->series[s].panel == panel)
				write_series(out, &svg->series[s], high);
	}
	fprintf(out, "</svg>\n");
	written = ferror(out) == 0;
	return fclose(out) == 0 && written;
}

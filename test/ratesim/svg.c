/*
 * svg.c
 *		Plots without a library.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
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

/* Returns the end of an axis: 1, 2, or 5 times a power of ten, and not less than the values. */
static double
round_up(double value)
{
	static const double steps[] = {1, 2, 5, 10};
	double		power = 1;
	int			i;

	while (power < value)
		power *= 10;
	for (i = 0; i < 4; i++)
		if (power / 10 * steps[i] >= value)
			return power / 10 * steps[i] > 1 ? power / 10 * steps[i] : 1;
	return power;
}

static double
highest(const struct svg *svg, int panel)
{
	double		high = 0;
	int			s;
	int			i;

	for (s = 0; s < svg->nseries; s++)
		if (svg->series[s].panel == panel)
			for (i = 0; i < svg->series[s].n; i++)
				if (svg->series[s].values[i] > high)
					high = svg->series[s].values[i];
	return round_up(high);
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
	int			i;

	fprintf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", LEFT, base - PANEL - 8,
			svg->panels[panel]);
	for (i = 0; i <= 2; i++)
	{
		int			y = base - i * PANEL / 2;

		fprintf(out, "<path d=\"M%d %dH%d\" stroke=\"#ddd\"/>\n", LEFT, y, LEFT + PLOT);
		fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%g</text>\n", LEFT - 6, y + 4,
				high * i / 2);
	}
	for (i = 0; i <= 6; i++)
		fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.4g %s</text>\n",
				LEFT + i * PLOT / 6, base + 16,
				svg->seconds > 300 ? svg->seconds * i / 360 : svg->seconds * i / 6,
				svg->seconds > 300 ? "min" : "s");
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

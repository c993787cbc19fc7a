/*
 * svg.h
 *		Plots with panels above each other that share a time axis.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_SVG_H
#define RATESIM_SVG_H

#include <stdbool.h>

#define SVG_PANELS 3
#define SVG_SERIES 12
#define SVG_POINTS 512

struct svg_series
{
	int			panel;
	bool		bars;
	char		name[64];
	const char *color;
	int			n;
	double		values[SVG_POINTS];
};

struct svg
{
	const char *title;
	const char *const *panels;
	int			npanels;
	double		seconds;
	int			nseries;
	struct svg_series series[SVG_SERIES];
};

void		svg_begin(struct svg *svg, const char *title, const char *const *panels, int npanels,
					  double seconds);

/* The values are evenly spaced in time. */
void		svg_line(struct svg *svg, int panel, const char *name, const char *color, const double *values,
					 int n);
void		svg_bars(struct svg *svg, int panel, const char *name, const char *color, const double *values,
					 int n);

/* Returns false if the file could not be written. */
bool		svg_write(const struct svg *svg, const char *path);

#endif

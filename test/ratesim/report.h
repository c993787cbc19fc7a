/*
 * report.h
 *		Markdown tables, SVG plots, and checks of targets.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_REPORT_H
#define RATESIM_REPORT_H

#include "run.h"

struct report
{
	const char *plots;			/* folder for SVG files; NULL: none */
	bool		quiet;			/* print no tables, but check targets, as TAP */
	int			checks;
	int			failures;
};

/* A target.  Members that are 0 do not matter, except for "throttled". */
struct target
{
	double		throughput;		/* at least this share of "of" */
	double		of;				/* in requests; 0 means best_possible */
	double		throttled;		/* at most this share of the requests; 1: any */
	double		fairness;		/* at least */
	double		silence;		/* at most, seconds */
	double		gap;			/* at most, seconds */
};

void		report_text(struct report *report, const char *format,...)
			__attribute__((format(printf, 2, 3)));
void		report_head(struct report *report, const char *title, const char *note);
void		report_row(struct report *report, const struct run *run, const struct outcome *outcome,
					   const struct target *target);

/* Counts a failure unless "what" is true.  Prints a line of TAP: always if quiet, else on failure. */
void		report_check(struct report *report, bool what, const char *format,...)
			__attribute__((format(printf, 3, 4)));

/* Draws the machines of a run over time, as FILE.svg in the folder of plots. */
void		report_plot(struct report *report, const char *file, const char *title,
						const struct outcome *outcome, double seconds);

#endif

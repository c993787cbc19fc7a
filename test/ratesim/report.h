/*
 * report.h
 *		Markdown tables, SVG plots, and which targets were missed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_REPORT_H
#define RATESIM_REPORT_H

#include "run.h"

struct report
{
	const char *plots;			/* folder for SVG files; NULL: none */
	bool		quiet;			/* no tables: the targets, as TAP */
	int			checks;
	int			failures;
};

/* A target; what is 0 is not asked. */
struct target
{
	double		throughput;		/* at least this share of "of" */
	double		of;				/* requests; 0: of best_possible */
	double		throttled;		/* at most this share of the requests, 1: whatever */
	double		fairness;		/* at least */
	double		silence;		/* at most, seconds */
};

void		report_text(struct report *report, const char *format,...)
			__attribute__((format(printf, 2, 3)));
void		report_head(struct report *report, const char *title, const char *note);
void		report_row(struct report *report, const struct run *run, const struct outcome *outcome,
					   const struct target *target);

/* "what" holds or the report has a failure; a line of TAP, or (not quiet) only when it fails */
void		report_check(struct report *report, bool what, const char *format,...)
			__attribute__((format(printf, 3, 4)));

/* A plot of the machines of a run over time, as FILE.svg in the folder of plots. */
void		report_plot(struct report *report, const char *file, const char *title,
						const struct outcome *outcome, double seconds);

#endif

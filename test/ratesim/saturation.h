/*
 * saturation.h
 *		A service with a capacity, as the command line describes it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_SATURATION_H
#define RATESIM_SATURATION_H

#include "report.h"

struct saturation
{
	double		capacity;		/* requests served at full speed */
	double		capacity_low;	/* it falls to this and rises again, */
	double		every;			/* every so many seconds; 0: it does not */
	double		overload;		/* percent lost for each request beyond twice the capacity */
	double		jitter;			/* of durations, percent */
	double		batch;			/* seconds */
	double		users;
	double		hint;			/* 0: none */
	double		max_parallel;	/* 0: the hint */
	double		charged;		/* percent of its duration that a request is charged */
	double		hang_share;		/* percent of the requests of users up to hang_users that hang */
	double		hang_users;
	double		hang_for;		/* seconds */
	double		seconds;		/* length of the run */
	double		seed;
	bool		off;			/* without the useful limit */
};

/* One hour of batches of 1 s, one user, a hint of 52, no capacity. */
extern const struct saturation saturation_default;

/* Returns the run that this describes. */
struct run	saturation_run(const struct saturation *saturation, const char *name);

/* Plays it, and prints a row of a table. */
void		saturation_play(struct report *report, const struct saturation *saturation);

#endif

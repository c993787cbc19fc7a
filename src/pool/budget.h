/*-------------------------------------------------------------------------
 *
 * budget.h
 *		How much of the window's requests and execution time is left, and
 *		when the next request may be sent so that it lasts.
 *
 * The service grants so many requests and so many seconds of execution in a
 * sliding window, and says with each answer what remained when the request
 * came in: "limit - remaining" is what it had counted.  What this machine
 * used itself is kept in coarse slices of the same window.  The two are
 * compared at the moment the request was sent:
 *
 *	 scale	how much of a unit of ours a server counts.  1 for one server;
 *			1/n when requests are spread over n servers that count apart; less
 *			than 1 also when the service charges less than we measured.
 *	 offset what it counts beyond that: others who use the same user.
 *	 spread how far single answers are from it: servers differ, others are
 *			noisy.  It becomes the margin.
 *
 *	 left = limit - offset - scale * own use - margin
 *
 * A server that is new, or was restarted, knows nothing of what we used: then
 * we forget it too.
 *
 * While more than half of the limit is left nothing is held back, so a short
 * job runs at full speed.  Below, requests are spaced at the highest even
 * rate that what is left and what will leave the window can sustain at every
 * moment ahead, so no long silence follows a burst.  Execution time is
 * charged when a request ends: what is looked at is the window at that time.
 *
 * Machines that share a user know nothing of each other but what the service
 * has counted.  The one that uses more than all others gives up a part of
 * what leaves the window, and all take what is left at the same pace: that
 * levels them.
 *
 * Pure: time is an argument, the state a plain struct.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_BUDGET_H
#define DV_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "net/clock.h"

#define DV_BUDGET_SLICES 240
#define DV_BUDGET_WINDOW (300 * DV_SECOND)

/* No answer of dv_budget_not_before is further ahead than this. */
#define DV_BUDGET_LONGEST_WAIT (DV_BUDGET_WINDOW + 2 * DV_BUDGET_WINDOW / DV_BUDGET_SLICES)

/* The two things that are rationed. */
typedef enum dv_ration_kind
{
	DV_RATION_REQUESTS,
	DV_RATION_SECONDS
} dv_ration_kind;

#define DV_RATIONS (DV_RATION_SECONDS + 1)

typedef struct dv_ration
{
	bool		said;			/* the service names what remains */
	bool		refused;		/* and has not been heard of since */
	uint8_t		forgotten;		/* answers in a row that know of much less than we used */
	double		limit;			/* the most it ever named; the default before */
	double		used;			/* by this machine, in the window */
	double		counted;		/* average of what the service had counted */
	double		own;			/* average of what we had used then */
	double		scale;
	double		offset;
	double		spread;
	double		unbooked;		/* own use that is less than a unit of the slices */
	uint16_t	slices[DV_BUDGET_SLICES + 2];	/* in units; of the window, the running one, a
												 * spare */
} dv_ration;

typedef struct dv_budget
{
	int64_t		slice;			/* number of the newest slice */
	uint32_t	epoch;			/* how often the service has forgotten */
	int64_t		last_sent;
	int64_t		last_answer;
	double		typical;		/* average seconds of a request, whatever its kind */
	double		squares;		/* and of their squares */
	int64_t		paid_until;		/* what the even rate has been used for */
	int64_t		spacing;		/* between requests at that rate; 0: not paced */

	/* the last answer of dv_budget_not_before, while nothing has changed */
	bool		known;
	int64_t		known_time;
	int			known_in_flight;
	float		known_seconds;
	dv_ration	rations[DV_RATIONS];
} dv_budget;

/* What we had used when a request was sent; comes back with its answer. */
typedef struct dv_budget_mark
{
	double		used[DV_RATIONS];
	uint32_t	epoch;
} dv_budget_mark;

extern void dv_budget_init(dv_budget *budget, int64_t now);

extern dv_budget_mark dv_budget_sent(dv_budget *budget, int64_t now);

/* "seconds" of execution were used; "remaining" < 0 where the answer did not say. */
extern void dv_budget_answered(dv_budget *budget, dv_budget_mark mark, double seconds,
							   const double remaining[DV_RATIONS], int64_t now);

/*
 * A request was refused with 429: it does not count.  The service said that
 * "which" is used up, or, DV_RATIONS, something that is not rationed.
 */
extern void dv_budget_refused(dv_budget *budget, dv_ration_kind which, int64_t now);

/* What is left now by our own reckoning; < 0 when more than that was used. */
extern double dv_budget_left(const dv_budget *budget, dv_ration_kind which, int64_t now);

/*
 * Earliest time of the next request if it is expected to run for so many
 * seconds; 0 when nothing is held back.  Valid until the budget changes.
 */
extern int64_t dv_budget_not_before(dv_budget *budget, int in_flight, double expected_seconds,
									int64_t now);

#endif							/* DV_BUDGET_H */

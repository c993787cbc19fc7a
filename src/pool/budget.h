/*
 * budget.h
 *		How much of the window's requests and execution time is left, and
 *		when the next request may be sent so that it lasts.
 *
 * The service grants a number of requests and a number of seconds of
 * execution in a sliding window.  Each answer says what remained when the
 * request arrived, so "limit - remaining" is what the service had counted.
 * This machine's own use is kept in coarse slices of the same window.  The
 * two are compared as of the moment the request was sent:
 *
 *	 scale	how much of each unit of our use a server counts: 1 for a single
 *			server, 1/n when requests are spread over n servers that count
 *			separately, and less than 1 also when the service charges less
 *			than we measured
 *	 offset what the service counts beyond that, which is the use of other
 *			machines with the same application user
 *	 spread how far single answers deviate from that, because servers differ
 *			and the use of others fluctuates; it becomes the margin
 *
 *	 left = limit - offset - scale * own use - margin
 *
 * A server that is new or was restarted knows nothing of our earlier use, so
 * we forget that use, too.
 *
 * While more than half of the limit is left, no request is held back, so a
 * short job runs at full speed.  Below that, requests are spaced at the
 * highest even rate that can be sustained, at every moment ahead, by what is
 * left plus what will leave the window.  A burst is therefore never followed
 * by a long silence.  Execution time is charged when a request ends, so the
 * window is considered as it will be at that time.
 *
 * A small part of each ration is kept for short requests, which pass the others: a
 * session that has nothing else under way does not wait beside a load.  However,
 * sessions that send one short request after another are a load themselves, so
 * only a share of the limits can be used in that way, and the rest is spaced.
 *
 * Machines that share an application user know about each other only what
 * the service has counted.  Each of them enters what others have used in slices
 * of its own, so it also knows how fast they use it and when it will leave the
 * window.  The even rate is then that of all machines together.  Each may use
 * half of it, and the one that uses more than all others together keeps most of
 * its lead, so nothing is lost if the others do not want more, and otherwise the
 * shares converge.  A reserve covers what others have in flight.  No machine
 * waits for others to stop: it sends less often instead.
 *
 * Pure: time is an argument, the state a plain struct.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_BUDGET_H
#define DV_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "net/clock.h"

#define DV_BUDGET_SLICES 240
#define DV_BUDGET_WINDOW (300 * DV_SECOND)

/* dv_budget_not_before never returns a time that is further ahead than this. */
#define DV_BUDGET_LONGEST_WAIT (DV_BUDGET_WINDOW + 2 * DV_BUDGET_WINDOW / DV_BUDGET_SLICES)

/* The kinds of rations. */
typedef enum dv_ration_kind
{
	DV_RATION_REQUESTS,
	DV_RATION_SECONDS
} dv_ration_kind;

#define DV_RATIONS (DV_RATION_SECONDS + 1)

typedef struct dv_ration
{
	bool		said;			/* the service has said what remains */
	bool		met_others;		/* what others had used by then is entered */
	bool		refused;		/* it is used up; no answer has come since */
	uint8_t		forgotten;		/* successive answers that count much less than our use */
	double		limit;			/* largest limit seen; at first, the default */
	double		used;			/* by this machine within the window */
	double		counted;		/* average of what the service had counted */
	double		own;			/* average of our own use at the same time */
	double		scale;
	double		offset;
	double		spread;
	double		unbooked;		/* own use too small to be a unit of the slices */
	uint16_t	slices[DV_BUDGET_SLICES + 2];	/* in units: the window, the current slice, and a
												 * spare one */
	uint16_t	others[DV_BUDGET_SLICES + 2];	/* the same of others */
	int64_t		met_in;			/* slice: when others used what they had used before is not known */
} dv_ration;

typedef struct dv_budget
{
	int64_t		slice;			/* number of the newest slice */
	uint32_t	epoch;			/* how often a server has lost count */
	int64_t		last_sent;
	int64_t		last_answer;
	int64_t		seen_at;		/* what others have done since is not known */
	int64_t		passed_until;	/* time up to which the share of short requests is used up */
	double		typical;		/* average seconds of a request of any kind */
	double		squares;		/* average of the squares of these seconds */
	int64_t		paid_until;		/* time up to which the even rate is used up */
	int64_t		spacing;		/* time between requests at that rate; 0: not paced */
	int64_t		typical_spacing;	/* the same for requests of average duration, if they are
									 * slower */

	/* the last result of dv_budget_not_before, valid until something changes */
	bool		known;
	int64_t		known_time;
	dv_ration_kind known_ration;	/* that held it back longest */
	int			known_in_flight;
	float		known_seconds;
	dv_ration	rations[DV_RATIONS];
} dv_budget;

/* Our own use when a request was sent, to be handed back with its answer. */
typedef struct dv_budget_mark
{
	double		used[DV_RATIONS];
	int64_t		sent_at;
	uint32_t	epoch;
	bool		beside_loads;	/* a short request beside loads; set by the caller, as is */
	bool		passed;			/* that it was sent although others had to wait */
} dv_budget_mark;

extern void dv_budget_init(dv_budget *budget, int64_t now);

extern dv_budget_mark dv_budget_sent(dv_budget *budget, int64_t now);

/*
 * The request took "seconds" to execute.  "remaining" is negative if the answer did not have it.
 */
extern void dv_budget_answered(dv_budget *budget, dv_budget_mark mark, double seconds,
							   const double remaining[DV_RATIONS], int64_t now);

/*
 * A request was refused with 429, so it does not count.  "which" is the ration
 * that the service says is used up, or DV_RATIONS if none is.
 */
extern void dv_budget_refused(dv_budget *budget, dv_ration_kind which, int64_t now);

/* A part of a request was refused for this reason, but the request counts. */
extern void dv_budget_used_up(dv_budget *budget, dv_ration_kind which, int64_t now);

/* Returns the ration that determined the last result of dv_budget_not_before. */
extern dv_ration_kind dv_budget_bound_by(const dv_budget *budget);

/*
 * Returns how many requests like the recent ones the service would admit "within"
 * the next microseconds, if we sent as many as it allows; INFINITY while it has not
 * said what remains.
 */
extern double dv_budget_capacity(const dv_budget *budget, int64_t within, int64_t now);

/* Returns our estimate of what is left now; negative if more than the limit was used. */
extern double dv_budget_left(const dv_budget *budget, dv_ration_kind which, int64_t now);

/* Returns true if the service has said that nearly the whole limit remains. */
extern bool dv_budget_is_full(const dv_budget *budget, int64_t now);

/*
 * Returns true if what is kept for short requests suffices for one of them, and they
 * have not had their share of late, so that it may be sent at once.
 */
extern bool dv_budget_keeps(const dv_budget *budget, int in_flight, int64_t now);

/*
 * Returns the earliest time at which a request that is expected to run for
 * "expected_seconds" may be sent, or 0 if it need not wait.  The result is
 * valid until the budget changes.
 */
extern int64_t dv_budget_not_before(dv_budget *budget, int in_flight, double expected_seconds,
									int64_t now);

#endif							/* DV_BUDGET_H */

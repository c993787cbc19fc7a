/*
 * useful.h
 *		How many requests in flight are of use to one environment.
 *
 * The limits of the service are one wall, its capacity is another.  Beyond it,
 * requests in flight only wait for each other: their answers take longer, and no
 * more of them arrive.  This module finds the number of requests at which that
 * begins, from how long answers take, and keeps their number slightly above it.
 *
 * Durations are compared with those of few requests in flight (the base), for
 * each kind and size of request.  "g" is their ratio: 1 if nothing waits, 2 if
 * half of the time is spent waiting.
 *
 * All users of an environment share the machine behind it, so there is one such
 * state for all of them.  The rate controller of a user (rate.h) and the budgets
 * bound it from above, and it knows nothing of them.
 *
 * Pure: no header of PostgreSQL, no clock.  The state is a plain struct that
 * may live in shared memory, and starts as zeros; the caller must hold the lock that
 * protects it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_USEFUL_H
#define DV_USEFUL_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/rate.h"

/* The kinds and sizes of requests that are told apart; the one not seen longest gives way. */
#define DV_USEFUL_CLASSES 16

/* The limit at the start. */
#define DV_USEFUL_START	2

/* Requests may hang.  The least time after which one is suspected, if it should have taken less. */
#define DV_USEFUL_PATIENCE (3 * DV_SECOND)

/* Requests under way are told apart by when they were sent, in so many periods. */
#define DV_USEFUL_PERIODS 8

typedef enum dv_useful_phase
{
	DV_USEFUL_NORMAL,			/* grows, stays, or is cut */
	DV_USEFUL_CHECK,			/* after a cut: are fewer requests in flight faster? */
	DV_USEFUL_PROBE				/* at half, to measure the base again */
} dv_useful_phase;

/* Durations. */
typedef struct dv_useful_sums
{
	int			n;
	double		sum;
	double		squares;
} dv_useful_sums;

/* Requests of one kind and about the same size. */
typedef struct dv_useful_class
{
	int			key;			/* 0: not used */
	double		base;			/* duration without waiting, microseconds; 0: not known */
	double		weight;			/* number of answers that it was computed from */
	double		variance;		/* of their durations, relative to the square of the base */
	uint64_t	seen;			/* number of the round that had one */
	/* of this round, */
	dv_useful_sums now;
	/* and, during the first growth, of the round before the limit grew */
	dv_useful_sums last;
} dv_useful_class;

/* Requests that were sent in one period. */
typedef struct dv_useful_period
{
	int64_t		began;
	int64_t		ended;			/* the last one was sent */
	int			under_way;
	int			counted;		/* of these, requests of the current round */
} dv_useful_period;

/* What is under way, whatever is known of durations. */
typedef struct dv_useful_traffic
{
	uint32_t	round;			/* number of the current round; of a request: 0 if it does not
								 * count */
	uint32_t	period;			/* number of the last period; 0: none */
	uint32_t	first;			/* requests of earlier periods hang */
	uint32_t	answered;		/* the last period of which a request was answered */
	int			hanging;
	int64_t		last_sent;
	dv_useful_period periods[DV_USEFUL_PERIODS];
} dv_useful_traffic;

/* When a request was sent. */
typedef struct dv_useful_ticket
{
	uint32_t	round;
	uint32_t	period;
} dv_useful_ticket;

typedef struct dv_useful
{
	double		limit;			/* 0: nothing has been sent yet */
	dv_useful_phase phase;
	int			hint;			/* DOP hint of a user; 0: none */
	double		growth;			/* factor of the next growth */
	double		g;				/* of the last round at this limit or a higher one; 0: not known */

	/* before a cut or probe */
	double		before;			/* the limit */
	double		before_used;	/* requests in flight */
	double		before_g;
	double		before_error;
	double		capacity;		/* where waiting began, by the last round that waited; 0: not
								 * known */
	int64_t		capacity_at;
	int64_t		probe_interval; /* 0: none has been made */

	dv_useful_traffic traffic;
	double		typical;		/* duration of all answers, on average; 0: not known */

	/* the round: requests sent since the limit was last changed */
	int			sent;			/* requests that count; */
	int			under_way;		/* of these */
	bool		closed;			/* no more of them count */
	int			peak;			/* most requests in flight */
	double		in_flight;		/* sums over the requests that count, of requests in flight: when
								 * sent, */
	double		in_flight_left; /* and when they left */
	int			counted;
	int			left;
	int64_t		began;

	double		base_used;		/* requests in flight when the base was measured; */
	bool		verified;		/* more of them took no longer */
	int64_t		next_probe;
	dv_useful_class classes[DV_USEFUL_CLASSES];
} dv_useful;

/*
 * Returns how many requests the environment may have in flight, including those that
 * hang.  "hint" is the DOP hint of a user (0: none), of which it trusts a part.  After an
 * idle period, it starts over.
 */
extern int	dv_useful_limit(dv_useful *useful, int hint, int64_t now);

/* The same for observers. */
extern int	dv_useful_allowed(const dv_useful *useful);

/* Returns the limit: without requests that hang; 0: not known. */
extern int	dv_useful_peek(const dv_useful *useful);

/*
 * Notes that a request was sent; "in_flight" is the number of the environment's
 * requests, including this one.
 */
extern dv_useful_ticket dv_useful_sent(dv_useful *useful, int in_flight, int64_t now);

/*
 * Notes how long the exchange of a request took that the service carried out.  "size" is
 * that of its work, in bytes.
 */
extern void dv_useful_answered(dv_useful *useful, dv_useful_ticket ticket, dv_kind kind,
							   int64_t size, int64_t duration);

/*
 * Notes that a request is no longer in flight, whether it was answered or not, after
 * dv_useful_answered; "in_flight" still includes it.  Returns true if the limit has changed.
 */
extern bool dv_useful_gone(dv_useful *useful, dv_useful_ticket ticket, int in_flight, int64_t now);

/* Returns true if no request has been sent for longer than the requests under way should take. */
extern bool dv_useful_is_silent(const dv_useful *useful, int64_t now);

/* Starts over with the next request. */
extern void dv_useful_reset(dv_useful *useful);

/* Returns the base of requests of this kind: of the size seen last; 0: not known. */
extern double dv_useful_base(const dv_useful *useful, dv_kind kind);

#endif							/* DV_USEFUL_H */

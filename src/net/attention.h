/*
 * attention.h
 *		The time during which a backend attends to its exchanges.
 *
 * A backend is often elsewhere: between two FETCHes of a cursor, while the
 * client of a COPY pauses, or in a slow node of the plan.  Answers that arrive
 * meanwhile wait in the socket, and a clock that ran on would turn them into
 * timeouts.  Therefore timeouts are measured by these clocks, which are moved on
 * when the backend looks at its sockets, after it has read them:
 *
 * "attended" is for timeouts of the service.  An absence counts in full if the
 * backend finds nothing to do when it looks again, because then the service has
 * been silent all the time; otherwise, it counts as a short absence.
 *
 * "present" is for timeouts of anything else.  An absence counts as a short
 * absence.
 *
 * Pure: the time is an argument.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ATTENTION_H
#define DV_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "net/clock.h"

/* The longest absence that counts in full. */
#define DV_SHORT_ABSENCE (DV_SECOND / 10)

/* All times are in microseconds. */
typedef struct dv_attention
{
	int64_t		looked_at;		/* when the backend last looked; it must be set at first */
	int64_t		expected_at;	/* until when it is known to wait, in whatever part of the code */
	int64_t		attended;
	int64_t		present;
	int64_t		missed;			/* time that "attended" does not include */
	int64_t		unseen;			/* how long ago the data found last may have arrived */
} dv_attention;

/*
 * The backend has looked.  "waited" means that it has done nothing but wait
 * since it last looked, and "found" that there was something to do.
 */
extern void dv_attention_look(dv_attention *attention, bool waited, bool found, int64_t now);

/* The backend is going to wait elsewhere until that time, and then to look. */
extern void dv_attention_expect(dv_attention *attention, int64_t until);

/* Returns the earliest time at which "attended" can have reached "deadline". */
extern int64_t dv_attention_due(const dv_attention *attention, int64_t deadline);

#endif							/* DV_ATTENTION_H */

/*
 * throttle.c
 *		Throttle tracker of one application user, with its circuit breaker.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stddef.h>
#include <string.h>

#include "net/clock.h"
#include "net/date.h"
#include "pool/throttle.h"

/* The shortest time for which the user is left unused after the circuit breaker opens. */
#define BREAKER_FIRST		(30 * DV_SECOND)
#define BREAKER_LONGEST		(300 * DV_SECOND)

#define WINDOW				(300 * DV_SECOND)

/* The names of the causes in views, which are the codes of the service. */
static const char *const codes[] = {"0x80072322", "0x80072321", "0x80072326"};

#define NCODES ((int) (sizeof(codes) / sizeof(codes[0])))

/* Longer after each cut, until a request succeeds. */
static int64_t
breaker_pause(const dv_throttle *throttle)
{
	int64_t		pause = BREAKER_FIRST;
	int			i;

	if (!throttle->open)
		return 0;
	for (i = DV_BREAKER_ROW; i < throttle->consecutive && pause < BREAKER_LONGEST; i++)
		pause *= 2;
	return pause < BREAKER_LONGEST ? pause : BREAKER_LONGEST;
}

/* Returns true if this cut opens the circuit breaker. */
static bool
note_cut(dv_throttle *throttle, int64_t now)
{
	int64_t		oldest;
	bool		many;

	throttle->cuts[throttle->ncuts++ % DV_BREAKER_WINDOW] = now;
	oldest = throttle->cuts[throttle->ncuts % DV_BREAKER_WINDOW];
	many = throttle->ncuts >= DV_BREAKER_WINDOW && now - oldest < WINDOW;
	throttle->consecutive++;
	throttle->burst_at = now;
	if (throttle->open || (throttle->consecutive < DV_BREAKER_ROW && !many))
		return false;
	throttle->open = true;
	return true;
}

bool
dv_throttle_record(dv_throttle *throttle, dv_throttle_cause cause, bool cut,
				   int64_t retry_after, int64_t margin, int64_t now)
{
	int64_t		since = throttle->until > now ? throttle->until : now;
	bool		opened = false;
	int64_t		pause;
	int64_t		until;

	if (retry_after < 0)
		retry_after = 0;
	if (retry_after > DV_LONGEST_RETRY_AFTER)
		retry_after = DV_LONGEST_RETRY_AFTER;
	throttle->events[cause]++;
	throttle->last_at = now;
	throttle->last_retry_after = retry_after;
	throttle->last_cause = cause;
	if (cut)
		opened = note_cut(throttle, now);

	pause = breaker_pause(throttle);
	if (retry_after > pause)
		pause = retry_after;
	until = now + pause + margin;
	if (until > since)
	{
		/* count the time that overlapping throttles have in common only once */
		throttle->total_backoff += until - since;
		throttle->until = until;
	}
	return opened;
}

bool
dv_throttle_answered(dv_throttle *throttle, int64_t sent_at)
{
	bool		closed = throttle->open;

	if (sent_at < throttle->burst_at)
		return false;
	throttle->consecutive = 0;
	if (closed)
		throttle->ncuts = 0;
	throttle->open = false;
	return closed;
}

void
dv_throttle_reset(dv_throttle *throttle)
{
	throttle->until = 0;
	throttle->consecutive = 0;
	throttle->open = false;
	throttle->ncuts = 0;
}

bool
dv_throttle_active(const dv_throttle *throttle, int64_t now)
{
	return now < throttle->until;
}

bool
dv_throttle_probing(const dv_throttle *throttle)
{
	return throttle->open;
}

uint64_t
dv_throttle_events(const dv_throttle *throttle)
{
	uint64_t	total = 0;
	int			i;

	for (i = 0; i < DV_THROTTLE_CAUSES; i++)
		total += throttle->events[i];
	return total;
}

const char *
dv_throttle_code(dv_throttle_cause cause)
{
	return (int) cause < NCODES ? codes[cause] : "429";
}

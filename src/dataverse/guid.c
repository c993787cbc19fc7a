/*
 * guid.c
 *		Makes ids that ascend in the order of SQL Server's clustered indexes.
 *
 * The bytes, in the order in which SQL Server compares them:
 *
 *	10-15	milliseconds since 1970
 *	 8-9	the variant of RFC 9562 (two bits), and a counter within the millisecond
 *	 0-7	random, except for the version in the upper half of byte 6
 *
 * Version 4 makes the id opaque to everyone else.  Two backends that use the
 * same counter value in the same millisecond differ by 60 random bits.  If the
 * counter overflows, or if the system clock is set back, the id clock runs
 * ahead of the time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "dataverse/guid.h"
#include "net/clock.h"

#define COUNTS (1 << 14)

static void
next(dv_guid_clock *clock, int64_t now)
{
	uint64_t	tick = now > 0 ? (uint64_t) now / DV_MILLISECOND : 0;

	if (tick > clock->tick)
	{
		clock->tick = tick;
		clock->counter = 0;
	}
	else if (++clock->counter == COUNTS)
	{
		clock->tick++;
		clock->counter = 0;
	}
}

void
dv_guid_make(dv_guid_clock *clock, int64_t now, uint64_t random, uint8_t *id)
{
	int			i;

	next(clock, now);
	for (i = 0; i < 8; i++)
		id[i] = (uint8_t) (random >> 8 * i);
	id[6] = (uint8_t) (0x40 | (id[6] & 0x0f));
	id[8] = (uint8_t) (0x80 | clock->counter >> 8);
	id[9] = (uint8_t) clock->counter;
	for (i = 0; i < 6; i++)
		id[10 + i] = (uint8_t) (clock->tick >> (40 - 8 * i));
}

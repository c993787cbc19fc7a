/*
 * guid.h
 *		Ids in the order of SQL Server's clustered indexes.
 *
 * SQL Server compares the last six bytes of a uniqueidentifier first, then
 * bytes 8 and 9.  A time and a counter stand there, so that rows of one load
 * go to the end of the index; the rest is random.
 *
 * Pure: needs neither PostgreSQL nor libcurl; time and chance are arguments.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_GUID_H
#define DV_GUID_H

#include <stdint.h>

typedef struct dv_guid_clock
{
	uint64_t	tick;			/* of the last id */
	uint32_t	counter;		/* of ids within it */
} dv_guid_clock;

/*
 * The next id of this clock, greater than all before it.  "now": microseconds
 * since 1970; a clock that is set back goes on from the last id.
 */
extern void dv_guid_make(dv_guid_clock *clock, int64_t now, uint64_t random, uint8_t *id);

#endif							/* DV_GUID_H */

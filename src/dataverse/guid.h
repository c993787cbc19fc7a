/*
 * guid.h
 *		Makes ids that ascend in the order of SQL Server's clustered indexes.
 *
 * SQL Server compares the last six bytes of a uniqueidentifier first, then
 * bytes 8 and 9.  These hold a time and a counter, so that the rows of one load
 * go to the end of the index; the other bytes are random.
 *
 * Pure: needs neither PostgreSQL nor libcurl; time and randomness are arguments.
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
 * Makes the next id of this clock, greater than all before it.  "now" is in
 * microseconds since 1970.  If it goes back, the clock continues from the last
 * id.
 */
extern void dv_guid_make(dv_guid_clock *clock, int64_t now, uint64_t random, uint8_t *id);

#endif							/* DV_GUID_H */

/*
 * id_order.h
 *		Ids in the order in which SQL Server compares them, as numbers.
 *
 * The service filters and sorts standard tables by ids in this order, so ids
 * can be treated as numbers of 16 bytes, and the range between two of them can
 * be divided.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ID_ORDER_H
#define DV_ID_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#define DV_ID_LEN 16

/* An id with its most significant byte first. */
typedef struct dv_ordered_id
{
	uint8_t		bytes[DV_ID_LEN];
} dv_ordered_id;

/* From and to the 16 bytes of a pg_uuid_t. */
extern void dv_id_order(const uint8_t *uuid, dv_ordered_id *id);
extern void dv_id_unorder(const dv_ordered_id *id, uint8_t *uuid);

/* Less than, equal to, or greater than 0, like memcmp. */
extern int	dv_id_compare(const dv_ordered_id *a, const dv_ordered_id *b);

/* Returns high - low, or 0 if that is negative. */
extern double dv_id_distance(const dv_ordered_id *low, const dv_ordered_id *high);

/* Returns about low + distance, or the greatest id if that is beyond it. */
extern dv_ordered_id dv_id_after(const dv_ordered_id *low, double distance);

/*
 * Returns the start of part "part" if the range from low to high is cut into
 * this many parts: low + (high - low) * part / parts, rounded down.  "low" must
 * not be greater than "high", and neither number of parts than DV_ID_MOST_PARTS.
 */
#define DV_ID_MOST_PARTS 65536
extern dv_ordered_id dv_id_cut(const dv_ordered_id *low, const dv_ordered_id *high, uint32_t part,
							   uint32_t parts);

/*
 * Ids that compare with another one as they do only in this order: of any two bytes
 * that follow each other in significance, one is greater by one, and the other one
 * less.  Two bytes that are both 0, or both 255, have none.  Returns their number.
 */
#define DV_ID_TRIALS (DV_ID_LEN - 1)
typedef struct dv_id_trial
{
	dv_ordered_id id;
	bool		greater;		/* than the original id */
} dv_id_trial;

extern int	dv_id_trials(const dv_ordered_id *id, dv_id_trial *trials);

#endif							/* DV_ID_ORDER_H */

/*
 * cause.h
 *		The reasons for sending a request again, for counters and views;
 *		pure.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CAUSE_H
#define DV_CAUSE_H

typedef enum dv_retry_cause
{
	DV_RETRY_THROTTLE,
	DV_RETRY_CONNECTION,
	DV_RETRY_TIMEOUT,
	DV_RETRY_SERVER,			/* 5xx, 408 */
	DV_RETRY_AUTH,
	DV_RETRY_DEADLOCK,
	DV_RETRY_SQL_TIMEOUT,
	DV_RETRY_NEW_TABLE			/* bulk races after a schema change */
} dv_retry_cause;

#define DV_RETRY_CAUSES (DV_RETRY_NEW_TABLE + 1)

#endif							/* DV_CAUSE_H */

/*-------------------------------------------------------------------------
 *
 * report.h
 *		What the answer to a request changes about its application user.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_REPORT_H
#define DV_REPORT_H

#include "pool/shared.h"

/* What a report has done to the circuit breaker. */
typedef enum dv_breaker_change
{
	DV_BREAKER_SAME,
	DV_BREAKER_OPENED,
	DV_BREAKER_CLOSED
} dv_breaker_change;

/* Records how the request of a lease of this user ended.  Caller holds the lock. */
extern dv_breaker_change dv_report_apply(dv_shared *shared, int entry, const dv_pool_policy *policy,
										 const dv_lease *lease, const dv_lease_report *report,
										 int64 now);

/* What is added to a Retry-After: the buffer, and jitter, so that not all return at once. */
extern int64 dv_report_margin(const dv_pool_policy *policy);

#endif							/* DV_REPORT_H */

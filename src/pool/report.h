/*
 * report.h
 *		Updates the state of an application user after an answer.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_REPORT_H
#define DV_REPORT_H

#include "pool/shared.h"

/* The effect of a report on the circuit breaker. */
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

/*
 * Returns what is added to a Retry-After: the buffer, and jitter, so that not all requests return
 * at once.
 */
extern int64 dv_report_margin(const dv_pool_policy *policy);

#endif							/* DV_REPORT_H */

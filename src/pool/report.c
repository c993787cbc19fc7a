/*
 * report.c
 *		Updates the state of an application user after an answer.
 *
 * Every answer counts for the totals, for the budget, and for the service's
 * limits.  Successes and throttles are also passed to the rate controller and
 * the circuit breaker (see dv_lease_outcome).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/pg_prng.h"

#include "pool/entry.h"
#include "pool/report.h"
#include "pool/wait.h"

/* A report and its subject. */
typedef struct reporting
{
	dv_shared  *shared;
	int			entry;			/* index of the user */
	dv_shared_user *user;
	const dv_pool_policy *policy;
	const dv_lease *lease;
	const dv_lease_report *report;
	int64		now;
} reporting;

int64
dv_report_margin(const dv_pool_policy *policy)
{
	int64		margin = policy->retry_after_buffer;

	if (margin > 0)
		margin += (int64) (pg_prng_double(&pg_global_prng_state) * Min(margin, DV_SECOND));
	return margin;
}

static void
note_event(const reporting *r, dv_throttle_cause cause, int64 retry_after, bool fallback)
{
	dv_history *event;

	if (r->shared->nhistory == 0)
		return;
	event = &dv_shared_history(r->shared)[r->shared->history_next++ % r->shared->nhistory];
	event->at = r->now;
	event->user = r->entry;
	event->cause = cause;
	event->kind = r->lease->kind;
	event->in_flight = r->user->in_flight;
	event->retry_after = retry_after;
	event->fallback = fallback;
}

/* Returns true if the circuit breaker has opened. */
static bool
note_throttle(const reporting *r, const dv_throttle_report *throttle)
{
	static const dv_ration_kind used_up[DV_THROTTLE_CAUSES] = {
		DV_RATION_REQUESTS, DV_RATION_SECONDS, DV_RATIONS, DV_RATIONS
	};
	dv_shared_user *user = r->user;
	bool		fallback = throttle->retry_after < 0;
	int64		retry_after = fallback ? r->policy->fallback_retry_after : throttle->retry_after;
	bool		was_throttled = dv_throttle_active(&user->throttle, r->now);
	bool		opened;
	bool		cut;

	cut = dv_rate_throttle(&user->rate, &r->policy->rate, r->lease->sent_at, retry_after, r->now);
	opened = dv_throttle_record(&user->throttle, throttle->cause, cut, retry_after,
								dv_report_margin(r->policy), r->now);
	/* a request that was throttled only in part counts */
	if (r->report->outcome == DV_LEASE_THROTTLED)
		dv_budget_refused(&user->budget, used_up[throttle->cause], r->now);
	else
		dv_budget_used_up(&user->budget, used_up[throttle->cause], r->now);
	note_event(r, throttle->cause, retry_after, fallback);
	/* all calls that wait for a slot of this user now wait for the throttle to end */
	if (!was_throttled)
		dv_wait_changed(r->shared, r->entry, r->now);
	return opened;
}

/* Notes what every answer tells, successful or not. */
static void
note_answer(const reporting *r)
{
	const dv_lease_report *report = r->report;
	dv_shared_user *user = r->user;
	int			i;

	if (report->dop_hint > 0)
		user->dop_hint = report->dop_hint;
	for (i = 0; i < DV_RATIONS; i++)
		if (report->remaining[i] >= 0)
			user->remaining[i] = report->remaining[i];
	user->rows[r->lease->kind] += report->rows;
	dv_rate_set_max(&user->rate, &r->policy->rate, dv_entry_maximum(r->shared, r->entry));
	dv_budget_answered(&user->budget, r->lease->mark, (double) report->duration / DV_SECOND,
					   report->remaining, r->now);
	if (r->policy->start_full && dv_budget_is_full(&user->budget, r->now))
		dv_rate_start_full(&user->rate);
}

static void
note_success(const reporting *r)
{
	int64		duration = r->report->duration;

	if (r->report->outcome == DV_LEASE_SUCCESS)
		r->user->served_at = r->now;
	if (r->report->outcome == DV_LEASE_PARTIAL)
		duration = Max(duration, (int64) r->user->rate.average[r->lease->kind]);
	dv_rate_success(&r->user->rate, &r->policy->rate, r->lease->kind, duration, r->now);
}

static void
note_totals(const reporting *r)
{
	const dv_lease_report *report = r->report;

	r->user->requests[r->lease->kind]++;
	r->user->bytes_sent += report->bytes_sent;
	r->user->bytes_received += report->bytes_received;
	if (report->outcome == DV_LEASE_FAILED)
		r->user->failures++;
}

dv_breaker_change
dv_report_apply(dv_shared *shared, int entry, const dv_pool_policy *policy, const dv_lease *lease,
				const dv_lease_report *report, int64 now)
{
	reporting	r = {
		.shared = shared,
		.entry = entry,
		.user = &dv_shared_users(shared)[entry],
		.policy = policy,
		.lease = lease,
		.report = report,
		.now = now,
	};
	dv_breaker_change change = DV_BREAKER_SAME;
	bool		answered = true;
	int			i;

	note_totals(&r);
	switch (report->outcome)
	{
		case DV_LEASE_SUCCESS:
		case DV_LEASE_PARTIAL:
			note_answer(&r);
			note_success(&r);
			break;
		case DV_LEASE_REFUSED:
			note_answer(&r);
			break;
		case DV_LEASE_THROTTLED:
		case DV_LEASE_FAILED:
			answered = false;
			break;
	}
	/* an answer shows that the user is not throttled, whatever else it contains */
	if (answered && report->nthrottles == 0 &&
		dv_throttle_answered(&r.user->throttle, lease->sent_at))
		change = DV_BREAKER_CLOSED;
	/* after the budget has been noted as it was when the request arrived */
	for (i = 0; i < report->nthrottles; i++)
		if (note_throttle(&r, &report->throttles[i]))
			change = DV_BREAKER_OPENED;
	return change;
}

/*
 * policy.c
 *		The pacing policies that are compared.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "policy.h"

#define LOOK_AGAIN (SECOND / 4)

static const char *const names[] = {"AIMD alone", "budget pacing", "even rate",
"token bucket", "greedy on headers", "oracle"};

/* the service's limits, per second */
static const double rates[DV_RATIONS] = {20, 4};

const char *
policy_name(enum policy policy)
{
	return names[policy];
}

static double
cost_of(int ration, double expected)
{
	return ration == DV_RATION_REQUESTS ? 1 : expected;
}

void
policy_sent(struct policy_state *state, double expected, int64_t now)
{
	int			i;

	for (i = 0; i < DV_RATIONS; i++)
	{
		if (state->due[i] < now)
			state->due[i] = now;
		state->due[i] += (int64_t) (cost_of(i, expected) / rates[i] * SECOND);
	}
}

static int64_t
fixed_rate(const struct policy_state *state, int64_t tolerance)
{
	int64_t		latest = state->due[0] > state->due[1] ? state->due[0] : state->due[1];

	return latest - tolerance;
}

static int64_t
greedy(const struct policy_state *state, int in_flight, double expected, int64_t now)
{
	if (state->said_seconds - in_flight * expected > expected &&
		state->said_requests - in_flight > 1)
		return 0;
	return in_flight > 0 ? now + LOOK_AGAIN : 0;
}

int64_t
policy_not_before(enum policy policy, struct policy_state *state, const struct service *service,
				  int user, int in_flight, double expected, int64_t now)
{
	switch (policy)
	{
		case POLICY_BUDGET:
			return dv_budget_not_before(&state->budget, in_flight, expected, now);
		case POLICY_EVEN:
			return fixed_rate(state, 0);
		case POLICY_BUCKET:
			return fixed_rate(state, 30 * SECOND);
		case POLICY_GREEDY:
			return greedy(state, in_flight, expected, now);
		case POLICY_ORACLE:
			return service_has_room(service, user, expected) ? 0 : now + LOOK_AGAIN;
		case POLICY_NONE:
			break;
	}
	return 0;
}

/*
 * policy.h
 *		When the next request of a user may be sent: the extension's budget
 *		pacing, and the policies that it is compared with.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_POLICY_H
#define RATESIM_POLICY_H

#include "budget.h"
#include "service.h"

enum policy
{
	POLICY_NONE,				/* the rate controller alone, which reacts to 429s */
	POLICY_BUDGET,				/* the extension's */
	POLICY_EVEN,				/* a fixed rate: limit / window, no headers read */
	POLICY_BUCKET,				/* the same, but a tenth of the window at once */
	POLICY_GREEDY,				/* full speed until the headers say that nothing is left */
	POLICY_ORACLE				/* sees the counts of all servers, but cannot choose one */
};

#define POLICIES (POLICY_ORACLE + 1)

struct policy_state
{
	dv_budget	budget;			/* every policy keeps it */
	double		said_seconds;	/* what remained, by the last answer */
	double		said_requests;
	int64_t		due[DV_RATIONS];	/* fixed rates: when the next request is due */
};

const char *policy_name(enum policy policy);

void		policy_sent(struct policy_state *state, double expected, int64_t now);
int64_t
			policy_not_before(enum policy policy, struct policy_state *state, const struct service *service,
							  int user, int in_flight, double expected, int64_t now);

#endif

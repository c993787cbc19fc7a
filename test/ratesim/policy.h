/*
 * policy.h
 *		When the next request of a user may be sent: the extension's budget
 *		pacing, and what it is compared with.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_POLICY_H
#define RATESIM_POLICY_H

#include "budget.h"
#include "service.h"

enum policy
{
	POLICY_NONE,				/* the rate controller alone: wait for the 429 */
	POLICY_BUDGET,				/* the extension's */
	POLICY_EVEN,				/* a fixed rate: limit / window, no headers read */
	POLICY_BUCKET,				/* the same with a tenth of the window at once */
	POLICY_GREEDY,				/* at full speed until the header says that nothing is left */
	POLICY_ORACLE				/* sees all books of all servers; only it cannot choose one */
};

#define POLICIES (POLICY_ORACLE + 1)

struct policy_state
{
	dv_budget	budget;			/* every policy keeps it */
	double		said_seconds;	/* remaining by the last answer */
	double		said_requests;
	int64_t		due[DV_RATIONS];	/* fixed rates: when the last one is paid for */
};

const char *policy_name(enum policy policy);

void		policy_sent(struct policy_state *state, double expected, int64_t now);
int64_t
			policy_not_before(enum policy policy, struct policy_state *state, const struct service *service,
							  int user, int in_flight, double expected, int64_t now);

#endif

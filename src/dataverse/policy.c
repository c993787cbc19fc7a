/*
 * policy.c
 *		The predicates that the service may evaluate in place of
 *		PostgreSQL.
 *
 * operator_list.h contains the table and the reasons for its entries.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stddef.h>

#include "dataverse/policy.h"

const dv_op_info dv_ops[DV_OPS] = {
#define DV_OPERATOR(policy, symbol, opposite, filter) \
	[DV_OP_##symbol] = {policy, #symbol, DV_OP_##opposite, filter},
#include "dataverse/operator_list.h"
};

static const char *const comparison_names[DV_COMPARISONS] = {
	"id", "text", "text_ci_ai", "number", "double", "boolean", "choice",
	"choices", "time", "date", "label", "table_name", "opaque"
};

#ifdef DV_TEST
static int	flipped_comparison = -1;
static int	flipped_op = -1;

void
dv_policy_flip(int comparison, int op)
{
	flipped_comparison = comparison;
	flipped_op = op;
}
#endif

dv_comparison
dv_comparison_of(dv_type type, dv_collation collation)
{
	dv_comparison comparison = dv_types[type].comparison;

	if (comparison == DV_COMPARE_TEXT && collation == DV_COLLATION_CI_AI)
		return DV_COMPARE_TEXT_CI_AI;
	return comparison;
}

static dv_policy
entry_of(dv_comparison comparison, dv_op op)
{
	char		entry = dv_ops[op].policy[2 * comparison];

#ifdef DV_TEST
	/* wrong on purpose: omits rechecks, and pushes down conditions that must not be */
	if ((int) comparison == flipped_comparison && (int) op == flipped_op)
		return DV_EXACT;
#endif
	return entry == 'E' ? DV_EXACT : entry == 'S' ? DV_SUPERSET : DV_NEVER;
}

/* The table holds for standard tables; others can do less. */
dv_policy
dv_policy_of(dv_table_type table, dv_comparison comparison, dv_op op)
{
	dv_policy	policy;

	if ((int) op >= DV_OPS)
		return DV_NEVER;
	policy = entry_of(comparison, op);
	if (table == DV_TABLE_STANDARD || table == DV_TABLE_INTERSECT || policy == DV_NEVER)
		return policy;
	if (op == DV_OP_ORDER)
		return DV_NEVER;
	/* these are not in SQL Server, and it is unknown how they compare text */
	if (comparison == DV_COMPARE_TEXT_CI_AI && op != DV_OP_NULL && op != DV_OP_NOT_NULL)
		return DV_NEVER;
	if (table == DV_TABLE_VIRTUAL)
		return DV_SUPERSET;
	/* elastic: IS DISTINCT FROM a time with a fraction cannot be widened */
	if (comparison == DV_COMPARE_TIME && op != DV_OP_NULL && op != DV_OP_NOT_NULL)
		return op == DV_OP_DISTINCT ? DV_NEVER : DV_SUPERSET;
	return policy;
}

dv_op
dv_op_opposite(dv_op op)
{
	return (int) op < DV_OPS ? dv_ops[op].opposite : DV_OP_OTHER;
}

const char *
dv_comparison_name(dv_comparison comparison)
{
	return comparison_names[comparison];
}

/*
 * policy.h
 *		The predicates that the service may evaluate in place of
 *		PostgreSQL.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_POLICY_H
#define DV_POLICY_H

#include "dataverse/query.h"

/*
 * The operators that SQL applies to a column.  NOT is not an operator: it turns each into its
 * opposite.
 */
typedef enum dv_op
{
#define DV_OPERATOR(policy, symbol, opposite, filter) \
	DV_OP_##symbol,
#include "dataverse/operator_list.h"
	DV_OPS,
	DV_OP_OTHER = DV_OPS,		/* any other: the service cannot evaluate it for any column */
	/* of combined conditions */
	DV_OP_AND,
	DV_OP_OR
} dv_op;

typedef struct dv_op_info
{
	char		policy[2 * DV_COMPARISONS];
	const char *name;			/* "EQ", for messages and tests */
	dv_op		opposite;		/* see dv_op_opposite() */
	dv_filter_kind filter;		/* while its value is not known */
} dv_op_info;

extern const dv_op_info dv_ops[DV_OPS];

/* How PostgreSQL compares the text of a predicate. */
typedef enum dv_collation
{
	DV_COLLATION_BYTES,			/* any deterministic collation: equal means equal byte by byte */
	DV_COLLATION_CI_AI,			/* dataverse.ci_ai: equality much like the service's */
	DV_COLLATION_OTHER			/* any other nondeterministic collation */
} dv_collation;

typedef enum dv_policy
{
	DV_NEVER,
	DV_SUPERSET,				/* PostgreSQL rechecks the rows */
	DV_EXACT
} dv_policy;

/* Returns how columns of the type are compared under that collation. */
extern dv_comparison dv_comparison_of(dv_type type, dv_collation collation);
extern dv_policy dv_policy_of(dv_table_type table, dv_comparison comparison, dv_op op);

/* Returns the operator's negation, or DV_OP_OTHER if there is none. */
extern dv_op dv_op_opposite(dv_op op);

/* For messages and tests: "text". */
extern const char *dv_comparison_name(dv_comparison comparison);

#ifdef DV_TEST
/*
 * Test builds can make one entry of the table wrong, to check that the tests
 * notice it.  -1 restores the table.
 */
extern void dv_policy_flip(int comparison, int op);
#endif

#endif

/*
 * policy.h
 *		Which predicates the service may answer in PostgreSQL's place.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_POLICY_H
#define DV_POLICY_H

#include "dataverse/type.h"

/* What SQL asks of a column.  NOT is no operator: it turns each into its opposite. */
typedef enum dv_op
{
	DV_OP_EQ,
	DV_OP_NE,
	DV_OP_LT,
	DV_OP_LE,
	DV_OP_GT,
	DV_OP_GE,
	DV_OP_IN,
	DV_OP_NOT_IN,
	DV_OP_DISTINCT,				/* IS DISTINCT FROM */
	DV_OP_NOT_DISTINCT,
	DV_OP_NULL,
	DV_OP_NOT_NULL,
	DV_OP_LIKE,
	DV_OP_ILIKE,
	DV_OP_STARTS,				/* ^@ */
	DV_OP_OVERLAPS,				/* && */
	DV_OP_CONTAINS,				/* @>, and value = ANY (column) */
	DV_OP_ORDER,				/* not a predicate: ORDER BY */
	DV_OP_OTHER,				/* whatever else: no column answers it remotely */
	/* of conditions */
	DV_OP_AND,
	DV_OP_OR
} dv_op;

#define DV_OPS (DV_OP_ORDER + 1)

/* How PostgreSQL compares the text of a predicate. */
typedef enum dv_collation
{
	DV_COLLATION_BYTES,			/* any deterministic one: equal is equal byte by byte */
	DV_COLLATION_CI_AI,			/* dataverse.ci_ai: the service's idea of equality is asked for */
	DV_COLLATION_OTHER			/* other nondeterministic ones */
} dv_collation;

typedef enum dv_policy
{
	DV_NEVER,
	DV_SUPERSET,				/* what comes is checked again here */
	DV_EXACT
} dv_policy;

/* What a column is to the table of policies: DV_KIND_… is taken by kinds of requests. */
typedef enum dv_comparison
{
	DV_COMPARE_ID,
	DV_COMPARE_TEXT,			/* compared here by bytes */
	DV_COMPARE_TEXT_CI_AI,
	DV_COMPARE_NUMBER,
	DV_COMPARE_DOUBLE,
	DV_COMPARE_BOOLEAN,
	DV_COMPARE_CHOICE,
	DV_COMPARE_CHOICES,
	DV_COMPARE_TIME,
	DV_COMPARE_DATE,
	DV_COMPARE_LABEL,			/* formatted value of another column */
	DV_COMPARE_TABLE_NAME,		/* where a polymorphic lookup points to */
	DV_COMPARE_OPAQUE
} dv_comparison;

#define DV_COMPARISONS (DV_COMPARE_OPAQUE + 1)

extern dv_comparison dv_comparison_of(dv_type type, dv_collation collation);
extern dv_policy dv_policy_of(dv_table_type table, dv_comparison sort, dv_op op);

/* Names for messages and tests: "text", "EQ". */
extern const char *dv_comparison_name(dv_comparison sort);
extern const char *dv_op_name(dv_op op);

#ifdef DV_TEST
/*
 * Test builds can turn one entry of the table into a wrong one, to see that
 * the tests notice.  sort -1 puts everything right again.
 */
extern void dv_policy_flip(int sort, int op);
#endif

#endif

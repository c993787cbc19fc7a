/*
 * operator.h
 *		The meaning of PostgreSQL's operators and functions.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_OPERATOR_H
#define DV_OPERATOR_H

#include "dataverse/policy.h"

typedef struct dv_operator
{
	dv_op		op;				/* of "column operator value" */
	dv_op		mirrored;		/* of "value operator column"; DV_OP_OTHER if there is none */
	bool		negated;
} dv_operator;

/* Returns DV_OP_OTHER for both if the operator is unknown. */
extern const dv_operator *dv_operator_of(Oid opno);
extern const dv_operator *dv_operator_of_function(Oid function);

#endif							/* DV_OPERATOR_H */

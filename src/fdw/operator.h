/*
 * operator.h
 *		What operators and functions of PostgreSQL mean.
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

/* Of what is not known, both are DV_OP_OTHER. */
extern const dv_operator *dv_operator_of(Oid opno);
extern const dv_operator *dv_operator_of_function(Oid function);

#endif							/* DV_OPERATOR_H */

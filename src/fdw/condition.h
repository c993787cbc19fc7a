/*
 * condition.h
 *		Conditions: restriction clauses, as far as the service can answer them.
 *
 * A condition is a clause reduced to columns, operators, and values.  It is
 * part of a plan, so it consists of nodes that can be copied: a list
 *
 *		(DV_OP_AND | DV_OP_OR, condition, condition, …)
 *		(DV_OP_NULL | DV_OP_NOT_NULL, attribute number)
 *		(DV_OP_COLUMNS_EQ and the like, attribute number, attribute number, flags)
 *		(any other dv_op, attribute number, position of a value, flags)
 *
 * with Integer nodes for everything that is not a list.  Values are expressions
 * without columns of this table: constants, parameters, columns of the outer side
 * of a join, stable functions.  They are in the plan's fdw_exprs and are
 * evaluated once for each scan.  So only the type of a value is known at
 * planning, and fdw/scan/bind.c does the rest.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CONDITION_H
#define DV_CONDITION_H

#include "access/attnum.h"
#include "nodes/pg_list.h"
#include "nodes/value.h"

#include "dataverse/policy.h"

/* Flags of a condition */
#define DV_CONDITION_EXACT	0x01	/* not checked again: it must be sent */
#define DV_CONDITION_LONG	0x02	/* IN: may be split into several requests */
#define DV_CONDITION_CI_AI	0x04	/* text is compared under dataverse.ci_ai */

#define dv_condition_op(c) ((dv_op) intVal(linitial(c)))
#define dv_condition_attnum(c) ((AttrNumber) intVal(lsecond(c)))
#define dv_condition_compares_columns(c) \
	(dv_condition_op(c) >= DV_OP_COLUMNS_EQ && dv_condition_op(c) <= DV_OP_COLUMNS_LE)
#define dv_condition_other(c) ((AttrNumber) intVal(lthird(c)))
#define dv_condition_value(c) intVal(lthird(c))
#define dv_condition_flags(c) intVal(lfourth(c))

/* Returns true if the condition, when true, implies that the column is not null. */
extern bool dv_condition_guards(List *condition, AttrNumber attnum);

/*
 * Returns true if the condition, when true, implies the exact text of the
 * column.  An equality under dataverse.ci_ai does not.
 */
extern bool dv_condition_fixes_text(List *condition, AttrNumber attnum);

/* Returns true if the condition compares columns with each other. */
extern bool dv_condition_has_columns(List *condition);

/* Returns the conjunction of these conditions; NIL if there are none. */
extern List *dv_condition_all(const List *conditions);

#endif							/* DV_CONDITION_H */

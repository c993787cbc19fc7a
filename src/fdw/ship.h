/*-------------------------------------------------------------------------
 *
 * ship.h
 *		Which restriction clauses the service can answer, and how it is asked.
 *
 * A condition is what remains of a clause when only columns, operators and
 * values are left.  It has to live in a plan, so it is made of nodes that can
 * be copied: a list
 *
 *		(DV_OP_AND | DV_OP_OR, condition, condition, …)
 *		(DV_OP_NULL | DV_OP_NOT_NULL, attribute number)
 *		(any other dv_op, attribute number, number of a value, flags)
 *
 * with Integer nodes for all that is not a list.  Values are expressions
 * without columns of this table: constants, parameters, columns of the outer
 * side of a join, stable functions.  They are evaluated once for each scan, in
 * the list that the plan keeps for that (fdw_exprs).  So nothing of a value is
 * known here but its type, and fdw/bind.c does the rest.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_SHIP_H
#define DV_SHIP_H

#include "nodes/pathnodes.h"

#include "dataverse/policy.h"
#include "fdw/relation.h"

/* Flags of a condition */
#define DV_CONDITION_EXACT	0x01	/* nobody checks it again: it must be sent */
#define DV_CONDITION_LONG	0x02	/* IN: may be split into several requests */

/* Values that an IN may have to be part of a bigger condition, or come twice. */
#define DV_SMALL_IN 200

typedef struct dv_shipping
{
	const dv_relation *relation;
	Index		relid;			/* of the table in the query */
	Oid			ci_ai;			/* collation dataverse.ci_ai, or InvalidOid */
	List	   *values;			/* expressions so far */
	int			conditions;		/* so far, of those the service can take */
	const Bitmapset *changing;	/* parameters that are no values here */
	bool		long_in;		/* one IN may have any length: it goes in several requests */
} dv_shipping;

extern void dv_shipping_init(dv_shipping *shipping, const dv_relation *relation, Index relid);

/*
 * The condition for a clause, and how much of the clause it is.  NIL and
 * DV_NEVER if it has to stay here.
 */
extern List *dv_ship(dv_shipping *shipping, Expr *clause, dv_policy *policy);

/* Does the condition, met, make sure that the column is not null? */
extern bool dv_condition_guards(List *condition, AttrNumber attnum);

/*
 * Does the condition, met, say byte by byte which text the column has?  An
 * equality that the service decides alone ignores case.
 */
extern bool dv_condition_fixes_text(List *condition, AttrNumber attnum);

/* The column that a sort expression is, if the service can sort by it as PostgreSQL would; else 0. */
extern AttrNumber dv_ship_order(const dv_shipping *shipping, Expr *expr);

#define dv_condition_op(c) ((dv_op) intVal(linitial(c)))
#define dv_condition_attnum(c) ((AttrNumber) intVal(lsecond(c)))
#define dv_condition_value(c) intVal(lthird(c))
#define dv_condition_flags(c) intVal(lfourth(c))

#endif							/* DV_SHIP_H */

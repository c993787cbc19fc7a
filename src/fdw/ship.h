/*-------------------------------------------------------------------------
 *
 * ship.h
 *		Decides which restriction clauses can be sent to the service.
 *
 * A condition is a clause reduced to columns, operators, and values.  It is
 * part of a plan, so it consists of nodes that can be copied: a list
 *
 *		(DV_OP_AND | DV_OP_OR, condition, condition, …)
 *		(DV_OP_NULL | DV_OP_NOT_NULL, attribute number)
 *		(any other dv_op, attribute number, position of a value, flags)
 *
 * with Integer nodes for everything that is not a list.  Values are
 * expressions without columns of this table: constants, parameters, columns
 * of the outer side of a join, stable functions.  They are in the plan's
 * fdw_exprs and are evaluated once for each scan.  So only the type of a value
 * is known here, and fdw/bind.c does the rest.
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
#define DV_CONDITION_EXACT	0x01	/* not checked again: it must be sent */
#define DV_CONDITION_LONG	0x02	/* IN: may be split over several requests */
#define DV_CONDITION_CI_AI	0x04	/* text is compared under dataverse.ci_ai */

/*
 * Bytes of a request's address.  What must be sent, because it is not checked
 * here, takes up at most DV_EXACT_BYTES, all conditions with known values
 * DV_FILTER_BYTES, names of columns DV_SELECT_BYTES, and an order
 * DV_ORDER_BYTES.  The value of a text is often not known before the scan begins;
 * if the request is then longer than DV_REQUEST_BYTES, fdw/request.c leaves out
 * conditions that are checked here.  What is left of the longest address that the
 * service accepts is for its root and for what the service adds to links.
 */
#define DV_REQUEST_BYTES 50000
#define DV_FILTER_BYTES 46000
#define DV_EXACT_BYTES 30000
#define DV_SELECT_BYTES 10000
#define DV_ORDER_BYTES 4000

/* An IN with at most this many values is always sent as a whole. */
#define DV_SMALL_IN 200

typedef struct dv_shipping
{
	const dv_relation *relation;
	Index		relid;			/* of the table in the query */
	Oid			ci_ai;			/* collation dataverse.ci_ai, or InvalidOid */
	List	   *values;			/* expressions collected so far */
	int			conditions;		/* number of conditions so far, of those that the service accepts */
	size_t		bytes;			/* that they take up in a request, as far as that is known */
	const Bitmapset *changing;	/* parameters that cannot be values here */
	bool		long_in;		/* one IN may have any length; it is split over several requests */
} dv_shipping;

extern void dv_shipping_init(dv_shipping *shipping, const dv_relation *relation, Index relid);

/*
 * Returns the condition for a clause, and to what degree it covers the
 * clause.  NIL and DV_NEVER mean that the clause has to be checked here.
 */
extern List *dv_ship(dv_shipping *shipping, Expr *clause, dv_policy *policy);

/* Does the condition, if true, imply that the column is not null? */
extern bool dv_condition_guards(List *condition, AttrNumber attnum);

/*
 * Does the condition, if true, imply the exact text of the column?  An
 * equality under dataverse.ci_ai does not.
 */
extern bool dv_condition_fixes_text(List *condition, AttrNumber attnum);

/*
 * Returns the column that a sort expression consists of, if the service sorts
 * by it as PostgreSQL would; else 0.
 */
extern AttrNumber dv_ship_order(const dv_shipping *shipping, Expr *expr);

#define dv_condition_op(c) ((dv_op) intVal(linitial(c)))
#define dv_condition_attnum(c) ((AttrNumber) intVal(lsecond(c)))
#define dv_condition_value(c) intVal(lthird(c))
#define dv_condition_flags(c) intVal(lfourth(c))

#endif							/* DV_SHIP_H */

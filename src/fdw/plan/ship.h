/*
 * ship.h
 *		Decides which restriction clauses can be sent to the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SHIP_H
#define DV_SHIP_H

#include "nodes/pathnodes.h"

#include "fdw/condition.h"
#include "fdw/relation.h"

/*
 * Bytes of a request's address.  What must be sent, because it is not checked
 * here, takes up at most DV_EXACT_BYTES, all conditions with known values
 * DV_FILTER_BYTES, names of columns DV_SELECT_BYTES, and an order
 * DV_ORDER_BYTES.  The value of a text is often not known before the scan begins;
 * if the request is then longer than DV_REQUEST_BYTES, fdw/scan/request.c leaves out
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

/* Returns the bytes that a value of this type takes up in a request; "width" is that of a text. */
extern size_t dv_ship_bytes(Oid type, int width);

extern void dv_shipping_init(dv_shipping *shipping, const dv_relation *relation, Index relid);

/*
 * Returns the condition for a clause, and to what degree it covers the
 * clause.  NIL and DV_NEVER mean that the clause has to be checked here.
 */
extern List *dv_ship(dv_shipping *shipping, Expr *clause, dv_policy *policy);

/*
 * Returns the column that a sort expression consists of, if the service sorts
 * by it as PostgreSQL would; else 0.
 */
extern AttrNumber dv_ship_order(const dv_shipping *shipping, Expr *expr);

/* What the policy says of a column that is used as it is. */
extern dv_policy dv_ship_policy(const dv_shipping *shipping, AttrNumber attnum, dv_op op);

#endif							/* DV_SHIP_H */

/*
 * list.h
 *		Lists of values, and what fdw/scan/bind.c and fdw/scan/list.c share.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_LIST_H
#define DV_LIST_H

#include "nodes/primnodes.h"

#include "dataverse/policy.h"
#include "fdw/scan/bind.h"

/* A condition on a column that is being bound. */
typedef struct dv_leaf
{
	dv_bindings *binding;
	const dv_attribute *attribute;
	const dv_column *column;
	dv_op		op;
	const dv_attribute *other;	/* that the column is compared with, or NULL */
	const dv_bound_value *value;
	int			flags;
} dv_leaf;

/* bind.c */
extern dv_filter *dv_leaf_compare(const dv_leaf *l, dv_filter_kind kind, const char *operand);
extern dv_filter *dv_leaf_not_null(const dv_leaf *l);

/* Returns the filter for "column = value". */
extern dv_filter *dv_leaf_equals(const dv_leaf *l, Oid type, Datum value);

/* list.c */
extern dv_filter *dv_list_in(const dv_leaf *l);
extern dv_filter *dv_list_not_in(const dv_leaf *l);

/* Returns how many values of this many bytes fit into one request. */
extern int	dv_list_capacity(const dv_attribute *attribute, size_t bytes);

/* Returns how many requests a clause with a list takes; 1 if the list is not known. */
extern int	dv_list_parts(const Expr *clause);

/* Is the value of a column in the part of the long list that was bound last? */
extern bool dv_list_contains(dv_bindings *binding, Datum value);

/* Is a text (in UTF-8) among the values of the current request? */
extern bool dv_list_requested(const dv_bindings *binding, const char *text);

#endif							/* DV_LIST_H */

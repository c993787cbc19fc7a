/*
 * bind.h
 *		Conditions and values to filters: what is left to do when a scan begins.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_BIND_H
#define DV_BIND_H

#include "nodes/pg_list.h"

#include "dataverse/query.h"
#include "fdw/relation.h"

typedef struct dv_bound_value
{
	Oid			type;
	Datum		value;
	bool		isnull;
	const char *placeholder;	/* "$1": not known yet; else NULL */
} dv_bound_value;

typedef struct dv_bindings
{
	const dv_relation *relation;
	dv_bound_value *values;
	int			chunk;			/* which part of a long IN is asked for */
	/* set by dv_bind() */
	int			nchunks;		/* in how many parts it goes; 1: there is none */
	AttrNumber	chunk_attnum;	/* its column, and */
	const dv_filter *chunk_filter;	/* the values of this part, sorted by strcmp() */
} dv_bindings;

/*
 * The filter for a condition (NIL: all rows), simplified: DV_FALSE and DV_TRUE
 * are the whole of it if they are in it.  Text is in UTF-8.
 */
extern dv_filter *dv_bind(dv_bindings *binding, List *condition);

/* For those who add to filters. */
extern dv_filter *dv_filter_of(dv_filter_kind kind, const dv_column *column, const char *operand);
extern dv_filter *dv_filter_join(dv_filter_kind kind, List *parts);

#endif							/* DV_BIND_H */

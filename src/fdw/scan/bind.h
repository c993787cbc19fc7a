/*
 * bind.h
 *		Turns conditions and values into filters when a scan begins.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_BIND_H
#define DV_BIND_H

#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"

#include "dataverse/query.h"
#include "fdw/relation.h"

typedef struct dv_bound_value
{
	Oid			type;
	Datum		value;
	bool		isnull;
	const char *placeholder;	/* "$1" if the value is not known yet, else NULL */
} dv_bound_value;

typedef struct dv_bindings
{
	const dv_relation *relation;
	dv_bound_value *values;
	int			most_listed;	/* maximum number of values of one In or NotIn; 0: do not use them */
	int			first;			/* where the requested part of a long IN list begins */
	int			chunk_bytes;	/* bytes of an address that its values may take up */
	bool		list_omitted;	/* do not ask for its values: rows are compared with them here */
	Bitmapset  *dropped;		/* parts of the condition, from 1, that the filter omits */
	/* set by dv_bind() */
	int			rest;			/* where the next part begins, or 0 if this is the last one */
	int			nchunks;		/* number of parts from this one on; 1 without a long IN list */
	AttrNumber	chunk_attnum;	/* column of the long IN list */
	const dv_filter *chunk_filter;	/* the values of this part, sorted by strcmp() */
	/* private: the long IN list, sorted once for all of its parts */
	dv_filter  *list;
	List	   *ranges;
} dv_bindings;

/* Bytes of an address that the values of a long IN list take up, if there is room. */
#define DV_CHUNK_BYTES 28000

/*
 * Returns the filter for a condition (NIL: all rows).  It is simplified:
 * DV_FALSE and DV_TRUE occur only as the whole filter.  Text is in UTF-8.
 */
extern dv_filter *dv_bind(dv_bindings *binding, List *condition);

/* Forgets the values of the last scan. */
extern void dv_bind_start(dv_bindings *binding);

/*
 * Omits another part of the condition from the filter: of those that are also checked
 * locally, the one that takes up most of a request.  Returns false if there is none.
 */
extern bool dv_bind_drop(dv_bindings *binding, List *condition);

/* Returns whether there is such a part, and sets the bytes that its values take up. */
extern bool dv_bind_droppable(dv_bindings *binding, List *condition, size_t *bytes);

#endif							/* DV_BIND_H */

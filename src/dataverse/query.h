/*-------------------------------------------------------------------------
 *
 * query.h
 *		A query of the service, in whatever language it is written.
 *
 * fdw/ builds it once, with all values in place, and dataverse/odata.h writes
 * it.  Everything here is plain data in the memory of the builder; the writer
 * only reads it.
 *
 * A filter says what the service does, not what SQL means: its DV_NE is true
 * for NULL.  There is no NOT: each condition has an opposite, and the builder
 * knows which of the two is meant.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_QUERY_H
#define DV_QUERY_H

#include <stddef.h>
#include <stdint.h>

#include "dataverse/type.h"

/* Maximum number of conditions and links in a query (README.md, Filters). */
#define DV_MAX_CONDITIONS 500

typedef struct dv_column
{
	const char *name;			/* logical name */
	const char *property;		/* of the Web API: the name, or _name_value */
	dv_type		type;
} dv_column;

typedef enum dv_filter_kind
{
	DV_FALSE,
	DV_TRUE,
	DV_AND,						/* of parts */
	DV_OR,
	/* conditions on a column */
	DV_IS_NULL,
	DV_IS_NOT_NULL,
	DV_EQ,						/* with one operand */
	DV_NE,
	DV_LT,
	DV_LE,
	DV_GT,
	DV_GE,
	DV_STARTS_WITH,				/* operands are plain text: wildcards are escaped when they are
								 * written */
	DV_ENDS_WITH,
	DV_CONTAINS,
	DV_IN,						/* with one or more operands */
	DV_NOT_IN,
	DV_CONTAIN_VALUES
} dv_filter_kind;

#define DV_FILTER_KINDS (DV_CONTAIN_VALUES + 1)

/*
 * A value as the service writes it: 5, 2023-01-31T10:00:00Z, strings as plain
 * text.  A placeholder stands for a value that is not known yet; it is written
 * without quotes or encoding.
 */
typedef struct dv_operand
{
	const char *text;
	bool		placeholder;
} dv_operand;

typedef struct dv_filter
{
	dv_filter_kind kind;
	const dv_column *column;
	int			n;				/* parts or operands */
	struct dv_filter **parts;
	dv_operand *operands;
} dv_filter;

typedef struct dv_order
{
	const dv_column *column;
	bool		descending;
} dv_order;

typedef struct dv_query
{
	const char *entity_set;
	const dv_column *primary_id;
	const dv_column **columns;
	int			ncolumns;		/* 0: only the primary id */
	bool		all_columns;	/* their names would be too long: the service returns all of them */
	const dv_filter *filter;	/* NULL: all rows */
	const dv_operand *partition;	/* of an elastic table: all rows are in it; NULL: any */
	const dv_order *orders;
	int			norders;
	bool		by_id;			/* add the primary id to the order, so that paging is reliable */
	int64_t		top;			/* 0: no limit */
	bool		count;			/* return the number of rows, as "n", instead of the rows */
} dv_query;

#endif							/* DV_QUERY_H */

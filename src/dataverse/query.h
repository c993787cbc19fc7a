/*
 * query.h
 *		A query of the service, independent of the language in which it is
 *		sent.
 *
 * fdw/ builds it once, with all values in place, and says in which language it
 * is to be written: dataverse/odata.h writes queries of a single table,
 * dataverse/fetch.h joins, groups, and aggregates.  A query is plain data in
 * the memory of the builder; the writers only read it.
 *
 * A filter has the semantics of the service, not of SQL: its DV_NE is true for
 * NULL.  There is no NOT: each condition has an opposite, and the builder
 * chooses between the two.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_QUERY_H
#define DV_QUERY_H

#include <stddef.h>
#include <stdint.h>

#include "dataverse/type.h"

/* The languages of queries. */
typedef enum dv_language
{
	DV_LANGUAGE_ODATA,
	DV_LANGUAGE_FETCHXML
} dv_language;

/* Maximum number of conditions and links in a query, and of links alone (README.md, Filters). */
#define DV_MAX_CONDITIONS 500
#define DV_MAX_LINKS 15

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
	const dv_column *other;		/* of DV_EQ to DV_GE without operands: the column of the same row
								 * with which it is compared; else NULL */
	int			n;				/* parts or operands */
	struct dv_filter **parts;
	dv_operand *operands;
} dv_filter;

struct List;

/* Returns a filter of a column (NULL: of none), with an operand unless that is NULL. */
extern dv_filter *dv_filter_of(dv_filter_kind kind, const dv_column *column, const char *operand);

/*
 * Returns DV_AND or DV_OR of a list of filters, simplified: parts of the same kind are
 * flattened, and DV_FALSE and DV_TRUE occur only as the whole filter.
 */
extern dv_filter *dv_filter_join(dv_filter_kind kind, struct List *parts);

/*
 * A further table of a query, joined to the root or to another link.  The
 * first two kinds have at most one row for each row of the parent, because
 * "from" is the primary id of the linked table; so rows of the query are rows
 * of the root, and can be paged in the order of its ids.  The other two are
 * conditions on the parent, and have no links of their own and no columns in
 * the result.
 */
typedef enum dv_link_kind
{
	DV_LINK_INNER,
	DV_LINK_OUTER,				/* the filter is applied before the join, and links below it are
								 * outer ones, too */
	DV_LINK_EXISTS,				/* any row matches */
	DV_LINK_NOT_EXISTS			/* no row matches */
} dv_link_kind;

/* Tables are numbered: 0 is the root, n is links[n - 1]. */
typedef struct dv_link
{
	dv_link_kind kind;
	int			parent;			/* number of a table that comes before this one */
	const char *table;			/* logical name */
	const dv_column *from;		/* of this table */
	const dv_column *to;		/* of the parent, with the same value */
	const dv_filter *filter;	/* of its rows; NULL: all */
} dv_link;

typedef enum dv_output_kind
{
	DV_OUTPUT_COLUMN,			/* of each row */
	/* of groups; a query with any of them has no DV_OUTPUT_COLUMN */
	DV_OUTPUT_GROUP,			/* the common value of the rows of a group */
	DV_OUTPUT_YEAR,				/* the same, of a time in UTC */
	DV_OUTPUT_MONTH,
	DV_OUTPUT_DAY,
	DV_OUTPUT_COUNT,			/* the number of rows; "column" is the primary id */
	DV_OUTPUT_COUNT_VALUES,		/* of values that are not null */
	DV_OUTPUT_COUNT_DISTINCT,
	DV_OUTPUT_SUM,
	DV_OUTPUT_MIN,
	DV_OUTPUT_MAX
} dv_output_kind;

/* Output n of a query is the member "cn" of each row, or the column's property if it is plain. */
typedef struct dv_output
{
	dv_output_kind kind;
	int			table;			/* number */
	const dv_column *column;
	bool		plain;			/* it has no other name, because rows are ordered by it */
} dv_output;

typedef struct dv_order
{
	const dv_column *column;
	bool		descending;
	int			table;			/* number */
} dv_order;

typedef struct dv_query
{
	dv_language language;
	const char *entity_set;
	const char *table;			/* logical name of the root; only needed for links and outputs */
	const dv_column *primary_id;
	const dv_column **columns;
	int			ncolumns;		/* 0: only the primary id */
	bool		all_columns;	/* the list of names would be too long: the service returns all
								 * columns */
	const dv_filter *filter;	/* NULL: all rows */
	const dv_operand *partition;	/* of an elastic table: all rows are in it; NULL: any */
	const dv_order *orders;
	int			norders;
	bool		by_id;			/* add the primary id to the order, so that paging is reliable */
	int64_t		top;			/* 0: no limit */
	bool		count;			/* return the number of rows, as "n", instead of the rows */

	/* what only FetchXML can express */
	const dv_link *links;
	int			nlinks;
	const dv_output *outputs;	/* instead of "columns" */
	int			noutputs;
} dv_query;

#endif							/* DV_QUERY_H */

/*
 * fetch_plan.h
 *		A read that FetchXML expresses, as it was planned: rows of several
 *		tables, or groups.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FETCH_PLAN_H
#define DV_FETCH_PLAN_H

#include "nodes/plannodes.h"

#include "dataverse/query.h"

/* What the service takes into a query for groups at most, and what it returns of it. */
#define DV_GROUPED_ROWS 50000
#define DV_RETURNED_GROUPS 5000

/* A table of the query: the root, or one that is linked to another. */
typedef struct dv_fetch_table
{
	int			rti;			/* in the range table */
	dv_link_kind kind;
	int			parent;			/* index of a table; -1: this is the root */
	AttrNumber	from;			/* column of this table, */
	AttrNumber	to;				/* of the parent */
	int			first_value;	/* where the values of its condition begin in fdw_exprs */
	List	   *condition;		/* see fdw/plan/ship.h; NIL: all rows */
	uint32		signature;		/* of the table as it was planned for */
} dv_fetch_table;

/* What a column of the scan tuple contains. */
typedef enum dv_fetch_content
{
	DV_FETCH_COLUMN,			/* of a row */
	/* of groups */
	DV_FETCH_KEY,				/* a column that all rows of the group have in common */
	DV_FETCH_PERIOD,			/* date_trunc() of it */
	DV_FETCH_COUNT,
	DV_FETCH_COUNT_VALUES,
	DV_FETCH_COUNT_DISTINCT,
	DV_FETCH_SUM,
	DV_FETCH_AVG,
	DV_FETCH_MIN,
	DV_FETCH_MAX
} dv_fetch_content;

/* The periods that date_trunc() is answered for. */
typedef enum dv_fetch_period
{
	DV_FETCH_YEAR,
	DV_FETCH_QUARTER,
	DV_FETCH_MONTH,
	DV_FETCH_WEEK,
	DV_FETCH_DAY
} dv_fetch_period;

#define DV_FETCH_PERIODS (DV_FETCH_DAY + 1)

/* Their names as arguments of date_trunc(). */
extern const char *const dv_fetch_periods[DV_FETCH_PERIODS];

typedef struct dv_fetch_item
{
	dv_fetch_content content;
	int			table;			/* index */
	AttrNumber	attnum;			/* 0: of DV_FETCH_COUNT, which counts rows */
	dv_fetch_period period;
} dv_fetch_item;

typedef struct dv_fetch_plan
{
	List	   *tables;			/* dv_fetch_table *, parents before the others */
	List	   *items;			/* dv_fetch_item *, one for each column of the scan tuple */
	bool		grouped;
	List	   *orders;			/* IntList: attribute number of the root, descending, … */
	int			limit;			/* position of an expression, or -1 */
	int			offset;
	int			rows;			/* of groups: the number of rows that they will consist of; 0: not
								 * known */
	int			pieces;			/* how many groups the service would return of all rows, if it did
								 * so for parts of them (see dv_fetch_rows_of_part) */
} dv_fetch_plan;

/* Conversion to fdw_private of paths and plans, and back. */
extern List *dv_fetch_plan_pack(const dv_fetch_plan *plan);
extern dv_fetch_plan *dv_fetch_plan_unpack(List *packed);

/* The plan that a finished plan node carries. */
extern dv_fetch_plan *dv_fetch_plan_of(const ForeignScan *node);

/*
 * Do days always begin at the same time in UTC, by which the service groups
 * points in time, and in the session's time zone?
 */
extern bool dv_fetch_days_agree(void);

/*
 * Returns how many rows a part should have, so that the service groups them, and
 * returns the groups of all of them.  "pieces" is the number of different groups in
 * all parts; where values are counted once, each of these makes a group of its own.
 */
extern double dv_fetch_rows_of_part(double pieces);

/* How many groups it will return of so many rows. */
extern double dv_fetch_pieces_in(double rows, double pieces);

/* Into how many parts the rows of groups are divided at first; 1: they are not. */
extern int	dv_fetch_parts(const dv_fetch_plan *plan);

/* Is it a plan of this kind, rather than one of a single table (fdw/plan/plan.h)? */
extern bool dv_is_fetch_plan(List *packed);

#endif							/* DV_FETCH_PLAN_H */

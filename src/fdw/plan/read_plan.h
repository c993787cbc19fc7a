/*
 * read_plan.h
 *		A read as it was planned: rows of a table, rows of several that are
 *		joined, or groups of either.
 *
 * In which language the service is asked is not part of the plan: it follows
 * from what is asked, when the request is made (fdw/scan/request.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_READ_PLAN_H
#define DV_READ_PLAN_H

#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

#include "client/session.h"
#include "dataverse/error.h"
#include "dataverse/query.h"
#include "fdw/relation.h"

/* The most rows that the service groups in one query, and the most groups that it returns */
#define DV_GROUPED_ROWS 50000
#define DV_RETURNED_GROUPS 5000

/*
 * The service sorts nulls first in ascending order.  If they are needed at the
 * other end, two requests produce the order: one for the nulls, one for the
 * other rows.
 */
typedef enum dv_nulls
{
	DV_NULLS_AS_SORTED,			/* or the column contains none */
	DV_NULLS_FIRST,				/* requested separately */
	DV_NULLS_LAST
} dv_nulls;

/* A table of the read: the root, or one that is linked to another. */
typedef struct dv_read_table
{
	int			rti;			/* in the range table */
	dv_link_kind kind;
	int			parent;			/* index of a table; -1: this is the root */
	AttrNumber	from;			/* column of this table, */
	AttrNumber	to;				/* of the parent */
	int			first_value;	/* where the values of its condition begin in fdw_exprs */
	List	   *condition;		/* see fdw/condition.h; NIL: all rows */
	uint32		signature;		/* of the table as it was planned for */
} dv_read_table;

/* What a column of the scan tuple contains. */
typedef enum dv_read_content
{
	DV_READ_COLUMN,				/* of a row */
	/* of groups */
	DV_READ_KEY,				/* a column that all rows of the group have in common */
	DV_READ_PERIOD,				/* date_trunc() of it */
	DV_READ_COUNT,
	DV_READ_COUNT_VALUES,
	DV_READ_COUNT_DISTINCT,
	DV_READ_SUM,
	DV_READ_AVG,
	DV_READ_MIN,
	DV_READ_MAX
} dv_read_content;

/* The periods that date_trunc() is answered for. */
typedef enum dv_read_period
{
	DV_READ_YEAR,
	DV_READ_QUARTER,
	DV_READ_MONTH,
	DV_READ_WEEK,
	DV_READ_DAY
} dv_read_period;

#define DV_READ_PERIODS (DV_READ_DAY + 1)

/* Their names as arguments of date_trunc(). */
extern const char *const dv_read_periods[DV_READ_PERIODS];

typedef struct dv_read_item
{
	dv_read_content content;
	int			table;			/* index */
	AttrNumber	attnum;			/* 0: a column that is not fetched, or DV_READ_COUNT, which counts
								 * rows */
	dv_read_period period;
} dv_read_item;

/*
 * A path begins such a plan, and the plan node completes it.
 *
 * PostgreSQL copies, stores, and prints plans, so that its packed form contains
 * only nodes that it can copy.  Expressions are in fdw_exprs, where PostgreSQL
 * looks for them; the plan refers to them by their positions.
 */
typedef struct dv_read_plan
{
	List	   *tables;			/* dv_read_table *, parents before the others */
	List	   *items;			/* dv_read_item *, one for each column of the scan tuple */
	List	   *orders;			/* IntList: attribute number of the root, descending, … */
	dv_nulls	nulls;			/* where the nulls of the first sort key are */
	int			limit;			/* position of an expression, or -1 */
	int			offset;
	int			rows;			/* how many are expected of the tables; 0: not known */
	bool		count;			/* COUNT(*) of a table instead of rows */

	/* of groups */
	bool		grouped;
	int			pieces;			/* how many groups the service would return of all rows, if it did
								 * so for parts of them (see dv_read_rows_of_part) */

	/* of a single table */
	List	   *rechecks;		/* IntList: positions of the filter clauses that the service was
								 * sent, too */
	int			rows_without_list;	/* rows that the service would send without the long list of
									 * the condition; 0: not known, or there is no such list */
	bool		ids_suffice;	/* the condition gives the ids of all rows, and only ids are
								 * needed: no request is made */
	bool		keyed;			/* a join sets the keys (fdw/scan/lookup.h), and keeps the rows if
								 * they must all be read first */
} dv_read_plan;

/* Begins a plan, which reads all rows of its tables in no particular order. */
#define DV_READ_PLAN ((dv_read_plan) {.limit = -1, .offset = -1})

/* Adds a table whose rows are not restricted, or a column of a table's rows. */
extern dv_read_table *dv_read_plan_add_table(dv_read_plan *plan);
extern void dv_read_plan_add_column(dv_read_plan *plan, int table, AttrNumber attnum);

/* Reads these columns (IntList, with 0 for those that are not fetched) of a table. */
extern dv_read_plan dv_read_plan_columns(const List *columns);

/* The same of rows whose column "listed" has one of the values of an array, the only expression. */
extern dv_read_plan dv_read_plan_listed(const List *columns, AttrNumber listed);

static inline dv_read_table *
dv_read_plan_table(const dv_read_plan *plan, int i)
{
	return (dv_read_table *) list_nth(plan->tables, i);
}

/*
 * Conversion to fdw_private of paths and plans, and back.  That of a path may have
 * further parts, which the plan does not need.
 */
#define DV_READ_PLAN_PARTS 5
extern List *dv_read_plan_pack(const dv_read_plan *plan);
extern dv_read_plan dv_read_plan_unpack(const List *packed);

/* The plan that a finished plan node carries. */
extern dv_read_plan dv_read_plan_of(const ForeignScan *node);

/* Opens the tables of a plan, which must be as they were when it was made. */
extern const dv_relation **dv_read_plan_open(const dv_read_plan *plan, EState *estate);

/*
 * Has the service refused such a join to this session of the user?  That is one of
 * the same tables, linked in the same way, or of two tables that this one links in
 * that way.  The other function remembers it.
 */
extern bool dv_read_plan_join_refused(const dv_read_plan *plan, const dv_relation **relations,
									  Oid userid);
extern void dv_read_plan_refuse_join(const dv_read_plan *plan, const dv_relation **relations,
									 const dv_session *session, const dv_error *error);

/*
 * Returns how many ranges of ids may be read at a time, and whether that is the
 * extension's choice.
 */
extern int	dv_read_plan_ranges(const dv_read_plan *plan, const dv_relation *root,
								bool *automatic);

/*
 * Do days always begin at the same time in UTC, by which the service groups
 * points in time, and in the session's time zone?
 */
extern bool dv_read_days_agree(void);

/*
 * Returns how many rows a part should have, so that the service groups them, and
 * returns the groups of all of them.  "pieces" is the number of different groups in
 * all parts; where values are counted once, each of these makes a group of its own.
 */
extern double dv_read_rows_of_part(double pieces);

/* How many groups it will return of so many rows. */
extern double dv_read_pieces_in(double rows, double pieces);

/* Into how many parts the rows of groups are divided at first; 1: they are not. */
extern int	dv_read_parts(const dv_read_plan *plan);

#endif							/* DV_READ_PLAN_H */

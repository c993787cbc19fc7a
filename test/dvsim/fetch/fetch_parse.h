/*
 * fetch_parse.h
 *		A FetchXML query as a tree.
 *
 * The tree represents the text, checked for its form (elements, attributes,
 * values, limits) but not against the schema; fetch_sql.c fills in the members
 * marked as its own when it resolves names.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_FETCH_PARSE_H
#define SIM_FETCH_PARSE_H

#include "store/schema.h"
#include "sim.h"

#define SIM_FETCH_MAX_LINKS 15
#define SIM_FETCH_MAX_CONDITIONS 500	/* together with the links */
#define SIM_FETCH_MAX_AGGREGATE 50000
#define SIM_FETCH_MAX_SIMPLE 50000	/* rows that paging without a cookie reaches */

enum sim_fetch_link_type
{
	SIM_LINK_INNER,
	SIM_LINK_OUTER,
	SIM_LINK_FIRST,				/* matchfirstrowusingcrossapply */
	SIM_LINK_EXISTS,
	SIM_LINK_IN,
	SIM_LINK_ANY,
	SIM_LINK_NOT_ANY,
	SIM_LINK_ALL,
	SIM_LINK_NOT_ALL
};

enum sim_fetch_aggregate
{
	SIM_AGGREGATE_NONE,
	SIM_AGGREGATE_AVG,
	SIM_AGGREGATE_COUNT,
	SIM_AGGREGATE_COUNTCOLUMN,
	SIM_AGGREGATE_MAX,
	SIM_AGGREGATE_MIN,
	SIM_AGGREGATE_SUM
};

enum sim_fetch_part
{
	SIM_PART_NONE,
	SIM_PART_DAY,
	SIM_PART_WEEK,
	SIM_PART_MONTH,
	SIM_PART_QUARTER,
	SIM_PART_YEAR,
	SIM_PART_FISCAL_PERIOD,
	SIM_PART_FISCAL_YEAR
};

struct sim_fetch_attribute
{
	const char *name;
	const char *alias;
	int			aggregate;		/* enum sim_fetch_aggregate */
	int			part;			/* enum sim_fetch_part */
	int			count_children; /* rowaggregate="CountChildren" */
	bool		groupby;
	bool		distinct;
	bool		user_time_zone; /* the user's time zone is UTC, so this has no effect */
	struct sim_fetch_attribute *next;
};

struct sim_fetch_order
{
	const char *attribute;
	const char *alias;
	const char *entityname;
	bool		descending;
	struct sim_fetch_order *next;
};

struct sim_fetch_value
{
	const char *text;
	size_t		len;
	struct sim_fetch_value *next;
};

struct sim_fetch_condition
{
	const char *attribute;
	const char *entityname;
	const char *operator;
	const char *valueof;
	const char *value;			/* the attribute; it is in "values" too */
	struct sim_fetch_value *values;
	int			nvalues;
};

/* a child of a filter; exactly one of the pointers is set */
struct sim_fetch_item
{
	struct sim_fetch_condition *condition;
	struct sim_fetch_filter *filter;
	struct sim_fetch_entity *link;
	struct sim_fetch_item *next;
};

struct sim_fetch_filter
{
	int			any;			/* type="or" */
	struct sim_fetch_item *items;
};

/* <entity> and <link-entity> */
struct sim_fetch_entity
{
	const char *name;
	const char *from;
	const char *to;
	const char *alias;
	int			type;			/* enum sim_fetch_link_type */
	bool		intersect;
	bool		all_attributes;
	bool		no_attributes;
	bool		in_filter;		/* a child of a filter */
	int			number;			/* 0 for the root, then 1, 2, … as they stand in the text */
	struct sim_fetch_attribute *attributes;
	struct sim_fetch_order *orders;
	struct sim_fetch_filter filter; /* all filters of the entity, and-ed */
	struct sim_fetch_entity *parent;
	struct sim_fetch_entity *links; /* those not in filters */
	struct sim_fetch_entity *next;

	/* of fetch_sql.c */
	struct sim_table *table;
	struct sim_column *from_column;
	struct sim_column *to_column;	/* of the parent */
	struct sim_many *many;		/* N:N to the parent through its hidden intersect table */
	bool		many_reversed;	/* the parent is table2 of it */
	const char *sql;			/* alias in the SQL: t0, t1, … */
	const char *label;			/* prefix of its columns in the answer */
	struct sim_fetch_entity *block; /* in whose SELECT it is joined: the root, or a semi-join */
	int			position;		/* among the joins of that block */
};

struct sim_fetch_tree
{
	struct sim_fetch_entity *root;
	const char *cookie;
	const char *datasource;
	int			top;			/* these four: 0 if absent */
	int			count;
	int			page;
	int			aggregate_limit;
	bool		aggregate;
	bool		distinct;
	bool		total;			/* returntotalrecordcount */
	bool		raw_order;
	bool		limited;		/* by SQL, to "top" rows after "offset", either of which may be 0 */
	int			offset;
	int			links;
	int			conditions;
};

/* false after sim_fail(): bad XML, unknown names and values, too many links or conditions */
bool		sim_fetch_parse(struct sim_req *req, struct sim_res *res, const char *xml,
							struct sim_fetch_tree **tree);

#endif

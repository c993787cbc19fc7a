/*
 * odata_query.h
 *		The query options of a read, resolved against the schema.
 *
 * One sim_query is a query of one table: of the set itself, or of one level of
 * $expand.  Filters and orders stay trees until odata_sql.h makes them SQL,
 * since the aliases of joins are known only then.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ODATA_QUERY_H
#define SIM_ODATA_QUERY_H

#include "odata/odata_sql.h"

#define SIM_MAX_EXPANDS 15

struct sim_query;

struct sim_order
{
	struct sim_node *path;
	bool		desc;

	/* odata_page.c's own, per statement */
	const char *sql;			/* expression */
	const char *name;			/* in the paging cookie */
	struct sim_column *column;	/* whose values these are; NULL for plain text */
	int			stmt_index;
};

enum sim_expand_kind
{
	SIM_EXPAND_LOOKUP,
	SIM_EXPAND_PRINCIPAL,		/* "ownerid": any of several tables */
	SIM_EXPAND_COLLECTION,
	SIM_EXPAND_MANY
};

struct sim_expand
{
	enum sim_expand_kind kind;
	const char *name;			/* navigation property */
	bool		ref;			/* nav/$ref */
	const char *options;		/* between the parentheses, or "" */
	struct sim_column *column;	/* lookups */
	struct sim_target *target;
	struct sim_relationship *relationship;	/* collections */
	struct sim_many *many;
	struct sim_column *near;	/* of the intersect table: points to the parent, */
	struct sim_column *far;		/* points to the row listed */
	struct sim_query *query;	/* of the expanded rows; NULL for $ref and principals */
};

struct sim_query
{
	struct sim_table *table;
	bool		all;			/* no $select */
	const char *select;			/* as received, for the context; "" if all */
	struct sim_column **columns;	/* what each row prints */
	int			ncolumns;
	struct sim_node *filter;	/* or NULL */
	struct sim_order *order;
	int			norder;
	struct sim_expand *expand;
	int			nexpand;
	bool		collections;	/* some expand at this level or below is one */
	bool		nested;			/* some expand has an expand of its own */
	long		top;			/* 0: none */
	bool		count;
};

/* the options of a request; "single" refuses those that need a collection */
bool		sim_options_parse(struct sim_req *req, struct sim_res *res, struct sim_table *table,
							  bool single, struct sim_query *query);

/* refuses options that no read supports: unknown $ options, and options given twice */
bool		sim_options_check(struct sim_req *req, struct sim_res *res);

/* finds the rows of a collection's navigation property; false if there is none of that name */
bool		sim_collection_find(struct sim_table *table, const struct sim_text *name,
								struct sim_expand *out);

/* "(name,primarycontactid(fullname))", or nothing */
void		sim_query_context(struct sim_buf *buf, const struct sim_query *query);

#endif

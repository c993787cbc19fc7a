/*
 * fetch_sql.h
 *		A FetchXML tree as SQL for SQLite.
 *
 * sim_fetch_translate() resolves the tree's names and writes the parts of a
 * SELECT; fetch_page.c combines them with the requested place in the result.
 * The order of the rows is always total: the query's order is completed by the
 * primary keys of the root and of those links that can return a row of the
 * root more than once (with distinct: by all columns of the answer).  The
 * paging cookie contains less, like that of the service: the columns by which
 * the query orders, and the primary key of the root (with distinct: only those
 * columns).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_FETCH_SQL_H
#define SIM_FETCH_SQL_H

#include "fetch/fetch_parse.h"
#include "store/row_print.h"
#include "store/value.h"

/* how columns compare; columns of one class may be joined and compared */
enum sim_fetch_class
{
	SIM_CLASS_NONE,				/* has no value that a query could use */
	SIM_CLASS_TEXT,
	SIM_CLASS_NAME,				/* logical name of a table */
	SIM_CLASS_INTEGER,
	SIM_CLASS_DECIMAL,
	SIM_CLASS_REAL,
	SIM_CLASS_BOOLEAN,
	SIM_CLASS_CHOICE,
	SIM_CLASS_CHOICES,
	SIM_CLASS_GUID,				/* id itself */
	SIM_CLASS_LOOKUP,
	SIM_CLASS_DATE,
	SIM_CLASS_BINARY
};

/* a column as a query uses it */
struct sim_fetch_term
{
	struct sim_fetch_entity *entity;
	struct sim_column *column;
	enum sim_fetch_class class;
	const char *expr;			/* SQL */
	bool		derived;		/* helper column or formula: no collation of its own */
};

enum sim_fetch_key_kind
{
	SIM_KEY_ID,
	SIM_KEY_TEXT,
	SIM_KEY_INTEGER,
	SIM_KEY_REAL,
	SIM_KEY_LITERAL				/* as printed by sim_value_print_literal() */
};

/* a key by which the rows are ordered */
struct sim_fetch_key
{
	const char *name;			/* element of the cookie */
	const char *expr;
	enum sim_fetch_key_kind kind;
	bool		descending;
	bool		never_null;
	bool		aliased;		/* the answer has it under an alias: null in the cookie */
	struct sim_column *column;
	int			index;			/* in the result, or -1 */
};

struct sim_fetch_query
{
	struct sim_req *req;
	struct sim_res *res;
	struct sim_table *table;
	struct sim_fetch_tree *tree;
	struct sim_out out;
	int			out_cap;
	const char **exprs;			/* result columns */
	int			nexprs;
	int			cexprs;
	struct sim_fetch_key *keys;
	int			nkeys;
	int			ckeys;
	int			ncookie;		/* number of leading keys that are in the cookie */
	bool		cookie;			/* pages by cookie are possible */
	struct sim_value *binds;	/* of ?1, ?2, … */
	int			nbinds;
	int			cbinds;
	int			nfilter;		/* number of these in "from" */
	struct sim_buf from;		/* FROM … WHERE … */
	size_t		where;			/* position of WHERE in it */
	struct sim_buf inner;		/* aggregates: the rows' select list, as c0, c1, … */
	struct sim_buf tail;		/* aggregates: the text after the rows' query */
	struct sim_buf sql;			/* the statement, by sim_fetch_page() */

	/* by sim_fetch_page() */
	int			limit;			/* rows of the page; one more is requested if may_have_more */
	bool		may_have_more;
	int			page;
	bool		link;			/* the answer has a link to the next page, as that of an OData
								 * query */
};

/* returns the number of a new parameter */
int			sim_fetch_bind(struct sim_fetch_query *q, const struct sim_value *value);
void		sim_fetch_bind_int(struct sim_fetch_query *q, struct sim_buf *sql, int64_t value);

/* fetch_resolve.c */
bool		sim_fetch_resolve(struct sim_fetch_query *q);
bool		sim_fetch_term(struct sim_fetch_query *q, struct sim_fetch_entity *entity,
						   const char *attribute, struct sim_fetch_term *term);
enum sim_fetch_class sim_fetch_class_of(const struct sim_column *column);
const char *sim_fetch_text(struct sim_fetch_query *q, struct sim_buf *buf); /* frees buf */

/* the entity of an alias (or name) in the same block, joined not later than "until" (-1: any) */
struct sim_fetch_entity *sim_fetch_by_alias(struct sim_fetch_query *q,
											struct sim_fetch_entity *scope,
											const char *alias, int until);

/* the lookup of a table to itself, or NULL */
struct sim_column *sim_fetch_hierarchy(const struct sim_table *table);

/* the next entity joined in the same block, depth first; NULL after the last */
struct sim_fetch_entity *sim_fetch_next_join(struct sim_fetch_entity *entity);

/* fetch_condition.c: "until" as in sim_fetch_by_alias */
bool		sim_fetch_condition(struct sim_fetch_query *q, struct sim_buf *sql,
								struct sim_fetch_entity *scope,
								const struct sim_fetch_condition *condition, int until);

/* fetch_sql.c */
bool		sim_fetch_translate(struct sim_fetch_query *q);
void		sim_fetch_free(struct sim_fetch_query *q);
struct sim_out_column *sim_fetch_output(struct sim_fetch_query *q, const char *name);

/* returns the result column of an expression, a new one unless it exists; likewise a key */
int			sim_fetch_select(struct sim_fetch_query *q, const char *expr);
void		sim_fetch_add_key(struct sim_fetch_query *q, const struct sim_fetch_key *key);

/* fetch_order.c */
bool		sim_fetch_order(struct sim_fetch_query *q);

/* returns SQL that turns a choice's value into its rank among the labels */
const char *sim_fetch_rank(struct sim_fetch_query *q, const char *expr,
						   const struct sim_column *column);

/* fetch_aggregate.c: select list, keys and tail of an aggregate query */
bool		sim_fetch_aggregate(struct sim_fetch_query *q);

/* fetch_page.c */
bool		sim_fetch_page(struct sim_fetch_query *q);
void		sim_fetch_put_select(const struct sim_fetch_query *q, struct sim_buf *sql);
void		sim_fetch_put_order(const struct sim_fetch_query *q, struct sim_buf *sql);

/* the cookie for the page after this one; the texts are those of the first and last row's keys */
void		sim_fetch_put_cookie(const struct sim_fetch_query *q, struct sim_buf *out,
								 const char *const *first, const char *const *last);

/* a key of the current row as text for a cookie, NULL for null */
const char *sim_fetch_key_text(const struct sim_fetch_query *q, const struct sim_fetch_key *key,
							   sqlite3_stmt *stmt);

#endif

/*
 * odata_sql.h
 *		A $filter's tree into SQLite's SQL and the values to bind.
 *
 * A sim_sql collects the bound values of one statement; parameters are
 * numbered, so the parts of the statement can be written in any order.  A
 * sim_from is one SELECT's FROM: its table and the lookups followed from it,
 * each a LEFT JOIN that cannot multiply rows.  Lambdas open a sim_from of
 * their own.
 *
 * Negation is pushed down to the comparisons as the service does it, and
 * comparisons that negate (ne, NotIn, not contains …) let NULL through.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ODATA_SQL_H
#define SIM_ODATA_SQL_H

#include "odata/odata_parse.h"
#include "store/row_print.h"
#include "store/store.h"
#include "store/value.h"

#define SIM_MAX_CONDITIONS 500
#define SIM_MAX_LINKS 15
#define SIM_ALIAS_LEN 12

struct sim_join
{
	char		parent[SIM_ALIAS_LEN];
	char		alias[SIM_ALIAS_LEN];
	struct sim_column *column;
	struct sim_target *target;
	const char *rows;			/* of the target that may be read */
};

struct sim_from
{
	struct sim_table *table;
	const char *rows;			/* those of its rows that may be read */
	char		alias[SIM_ALIAS_LEN];
	struct sim_from *outer;		/* of the lambda around this one, or NULL */
	struct sim_text variable;	/* the lambda's; empty for the root */
	struct sim_join *joins;
	int			njoins;
};

struct sim_sql
{
	struct sim_req *req;
	struct sim_res *res;
	struct sim_value *binds;
	int			nbinds;
	int			naliases;
	int			nconditions;
	int			depth;			/* of SQLite's parser, in its terms */
};

/* the place to which a property path leads */
struct sim_place
{
	struct sim_from *from;
	struct sim_column *column;
	char		alias[SIM_ALIAS_LEN];
};

void		sim_sql_init(struct sim_sql *sql, struct sim_req *req, struct sim_res *res);
void		sim_from_init(struct sim_sql *sql, struct sim_from *from, struct sim_table *table);

/* takes a copy of the value; text and blobs must live as long as the request */
int			sim_sql_bind(struct sim_sql *sql, const struct sim_value *value);
int			sim_sql_bind_blob(struct sim_sql *sql, const unsigned char bytes[16]);
int			sim_sql_bind_text(struct sim_sql *sql, const char *s, size_t len);
int			sim_sql_bind_int(struct sim_sql *sql, int64_t i);

/*
 * follows a lookup to one of its targets, joining it unless it has been joined; returns its alias
 */
const char *sim_from_join(struct sim_sql *sql, struct sim_from *from, const char *parent,
						  struct sim_column *column, struct sim_target *target);

/* "account" AS t0 LEFT JOIN … */
void		sim_from_sql(const struct sim_from *from, struct sim_buf *out);

/*
 * Returns the FROM of the first of a path's n segments: that of a lambda's
 * variable, or else of the root.  *first is where the path continues.
 */
struct sim_from *sim_place_start(struct sim_from *from, const struct sim_node *path, int n,
								 int *first);

/*
 * Finds the row to which the first n segments of a path lead, from the root or
 * from a lambda's variable: its table, and "from" and "alias" of the place.
 */
bool		sim_place_row(struct sim_sql *sql, struct sim_from *from, const struct sim_node *path,
						  int n, struct sim_place *place, struct sim_table **table);

/* finds a column, perhaps of a row to which lookups lead; refuses unknown names */
bool		sim_place_find(struct sim_sql *sql, struct sim_from *from, const struct sim_node *path,
						   struct sim_place *place);

/* writes its expression, with the collation if SQLite would not know it */
void		sim_place_sql(struct sim_buf *out, const struct sim_place *place);

bool		sim_filter_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node,
						   struct sim_buf *out);

/* odata_fn.c: Microsoft.Dynamics.CRM.Fn(…) */
bool		sim_function_sql(struct sim_sql *sql, struct sim_from *from,
							 const struct sim_node *node, struct sim_buf *out);

/* counts a condition; refuses the 501st */
bool		sim_sql_condition(struct sim_sql *sql);

/* "'Microsoft.Dynamics.CRM.account' has no property of that name": 400, code 0x0 */
bool		sim_no_property(struct sim_req *req, struct sim_res *res, const char *name,
							const char *type);

/* a name of the Web API's model: Edm.String … */
const char *sim_edm_type(const struct sim_column *column);

/*
 * returns the lookup of a navigation property and the target to which it leads; NULL if there is
 * none
 */
struct sim_column *sim_navigation(struct sim_table *table, const struct sim_text *name,
								  struct sim_target **target);

/* prepared and bound, or NULL with the response filled */
sqlite3_stmt *sim_sql_run(struct sim_sql *sql, const char *text);

/*
 * after the last step: returns the statement to the cache; false and a response if "rc" is an
 * error
 */
bool		sim_sql_done(struct sim_sql *sql, sqlite3_stmt *stmt, int rc);

#endif

/*
 * odata_page.h
 *		Order, paging cookies and links to the next page.
 *
 * Pages are not a snapshot: each is a query of its own for the rows that come
 * after the last row of the previous page, by the values of the order and then
 * the key.  Those values are in the cookie of the link, as in the service:
 * <cookie page="1"><name last="…" first="…" /></cookie>, twice
 * percent-encoded.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ODATA_PAGE_H
#define SIM_ODATA_PAGE_H

#include "odata/odata_query.h"

/* one value of a page's last (and first) row */
struct sim_mark
{
	const char *name;
	const char *last;
	const char *first;
	bool		null;
	bool		first_null;
	bool		unknown;		/* too long for a cookie: to be looked up in the row */
};

struct sim_cookie
{
	long		page;			/* the current page */
	bool		tracking;
	struct sim_mark *marks;
	int			n;
};

/* the order of a statement: the query's order, then the key */
struct sim_ordering
{
	struct sim_order *items;
	int			n;
	struct sim_from *from;
	struct sim_mark *marks;		/* of the page being read; room for n */
};

bool		sim_ordering_init(struct sim_sql *sql, struct sim_from *from,
							  const struct sim_query *query, struct sim_ordering *ordering);

/* appends the expressions to a select list (see sim_out_sql) */
void		sim_ordering_select(struct sim_ordering *ordering, struct sim_buf *sql, int *next);

/* " ORDER BY …" */
void		sim_ordering_sql(const struct sim_ordering *ordering, struct sim_buf *sql);

/* the rows after the cookie's, as a condition */
bool		sim_keyset_sql(struct sim_sql *sql, const struct sim_ordering *ordering,
						   const struct sim_cookie *cookie, struct sim_buf *out);

/* notes the current row as the page's last; "first": also as its first */
void		sim_ordering_mark(struct sim_req *req, struct sim_ordering *ordering,
							  sqlite3_stmt *stmt, bool first);

/* the value of $skiptoken; NULL gives page 1 without marks */
bool		sim_cookie_parse(struct sim_req *req, struct sim_res *res, const char *text,
							 struct sim_cookie *cookie);
const struct sim_mark *sim_cookie_mark(const struct sim_cookie *cookie, const char *name);
bool		sim_cookie_bad(struct sim_req *req, struct sim_res *res);

/*
 * "…?options&" as in the request, but without the tokens, to which a
 * $skiptoken or $deltatoken is appended; "path" is below the service root.
 */
void		sim_link_start(struct sim_buf *url, const struct sim_req *req, const char *path);
void		sim_link_cookie(struct sim_buf *url, const struct sim_cookie *cookie);

/* appends to a URL, percent-encoding characters that are not allowed in a query */
void		sim_put_query_text(struct sim_buf *url, const char *s);

#endif

/*
 * odata_read.h
 *		Reading collections: sets, and the targets of navigation.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ODATA_READ_H
#define SIM_ODATA_READ_H

#include "odata/odata_expand.h"

#define SIM_PAGE 5000
#define SIM_ELASTIC_PAGE 500

/* rows to read: a whole table, or those that belong to one row */
struct sim_source
{
	struct sim_table *table;
	const char *path;			/* below the service root, for links */
	const struct sim_expand *via;	/* the collection, or NULL */
	struct sim_table *parent_table;
	unsigned char parent[16];
};

/* a full read with odata.track-changes: the state when it began */
struct sim_tracking
{
	int64_t		version;
	int64_t		time;			/* seconds since 1970 */
};

/* GET of the rows, and of their number with "rest" = "$count" */
bool		sim_read_source(struct sim_req *req, struct sim_res *res,
							const struct sim_source *source);
bool		sim_count_source(struct sim_req *req, struct sim_res *res,
							 const struct sim_source *source);

/* one page of rows; "tracking" is NULL for an ordinary read */
bool		sim_read_page(struct sim_req *req, struct sim_res *res,
						  const struct sim_source *source, const struct sim_tracking *tracking);

/*
 * The condition of the source and of ?partitionId=, preceded by " WHERE " or "
 * AND " according to *any; nothing if there is none.
 */
bool		sim_source_sql(struct sim_sql *sql, const struct sim_from *from,
						   const struct sim_source *source, bool *any, struct sim_buf *out);

/* runs a SELECT of one integer */
bool		sim_sql_number(struct sim_sql *sql, const char *text, int64_t *out);

/* returns how many rows the filter leaves, at most "cap" + 1 */
bool		sim_count_rows(struct sim_req *req, struct sim_res *res,
						   const struct sim_source *source, const struct sim_node *filter,
						   int64_t cap, int64_t *out);

/* odata.maxpagesize if it is within the table's limit, else 0 */
long		sim_wanted_page(const struct sim_req *req, const struct sim_table *table);
long		sim_page_size(const struct sim_req *req, const struct sim_table *table);

/*
 * "rows of an elastic table live for so long after their last change"; false if there is no such
 * condition
 */
bool		sim_alive_sql(struct sim_sql *sql, const struct sim_table *table, const char *alias,
						  struct sim_buf *out);

/* text/plain with the byte order mark that the service sends */
void		sim_number_answer(struct sim_res *res, int64_t n);

/* value of ?partitionId= without its quotes, or NULL */
const char *sim_partition_param(struct sim_req *req);

/* {"@odata.context":"…$metadata#accounts(name)…" */
void		sim_put_context(struct sim_req *req, struct sim_buf *buf,
							const struct sim_query *query, const char *suffix);

/* odata_apply.c */
bool		sim_apply(struct sim_req *req, struct sim_res *res, const struct sim_source *source,
					  const char *text);

/* delta.c: reads with odata.track-changes or $deltatoken */
bool		sim_delta_wanted(const struct sim_req *req);
bool		sim_delta_read(struct sim_req *req, struct sim_res *res,
						   const struct sim_source *source);
bool		sim_delta_count(struct sim_req *req, struct sim_res *res,
							const struct sim_source *source);

/* ,"@odata.deltaLink":"…" */
void		sim_put_delta_link(struct sim_buf *buf, struct sim_req *req, const char *path,
							   const struct sim_tracking *tracking);

#endif

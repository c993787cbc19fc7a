/*
 * odata_expand.h
 *		Rows as nested objects: $expand.
 *
 * A sim_shape describes how one object is printed: its columns, and below them
 * the lookups that are expanded, which are joined into the same statement.
 * Collections are not: while the rows are printed, a sim_point remembers the
 * place of each row's children in the text.  Then one statement for each
 * collection (not for each row) reads the children of all rows, and the text
 * is put together.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ODATA_EXPAND_H
#define SIM_ODATA_EXPAND_H

#include "odata/odata_page.h"

struct sim_shape
{
	const struct sim_query *query;
	struct sim_out out;
	int			id_index;
	struct sim_shape *lookups;	/* one for each of query->expand */
	int			type_index;		/* of a principal: its logical name */
};

struct sim_point
{
	size_t		offset;			/* in the text, where the children are inserted */
	const struct sim_expand *expand;
	struct sim_table *table;	/* of the row */
	unsigned char id[16];
};

/* rows already printed, with commas between them, and their gaps */
struct sim_rows
{
	struct sim_buf text;
	struct sim_point *points;
	int			npoints;
	int			cap;
};

/* appends a table's select list and fills the shape */
void		sim_shape_sql(struct sim_sql *sql, struct sim_from *from, const char *alias,
						  const struct sim_query *query, unsigned int flags,
						  struct sim_shape *shape, struct sim_buf *out, int *next);

/* prints the current row */
void		sim_shape_print(struct sim_rows *rows, const struct sim_shape *shape,
							sqlite3_stmt *stmt, const char *base_url);

/* fills the gaps: the finished text goes to "out"; page_size is that of nested collections */
bool		sim_rows_finish(struct sim_req *req, struct sim_res *res,
							const struct sim_query *query, struct sim_rows *rows, long page_size,
							struct sim_buf *out);
void		sim_rows_free(struct sim_rows *rows);

#endif

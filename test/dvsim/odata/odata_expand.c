/*
 * odata_expand.c
 *		Rows as nested objects: $expand.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "store/guid.h"
#include "odata/odata_expand.h"

#define MAX_CHILDREN 5000
#define MAX_ELASTIC_CHILDREN 500
#define MAX_ANSWER (1UL << 30)
#define CHUNK 8192				/* parents in one statement */

typedef unsigned char guid_bytes[16];

/* the children of one row: a part of the text of all children */
struct group
{
	unsigned char parent[16];
	size_t		start;
	size_t		end;
	int			first_point;
	int			last_point;
	bool		more;
	unsigned char last[16];		/* the last child returned, if there are more */
};

/* the children of all rows by one collection */
struct children
{
	const struct sim_expand *expand;
	struct sim_rows rows;
	struct group *groups;		/* ordered by parent */
	int			ngroups;
	int			cap;
	struct children *below;		/* collections within these children */
	int			nbelow;
};

struct reader
{
	struct sim_req *req;
	struct sim_res *res;
	unsigned int flags;
	bool		paged;			/* some expand is nested: collections have pages */
	long		page_size;
	size_t		total;			/* bytes read so far */
};

static bool fill_children(struct reader *rd, const struct sim_rows *rows,
						  struct children **children, int *n);

/* ----------
 * Printing
 * ----------
 */

void
sim_shape_sql(struct sim_sql *sql, struct sim_from *from, const char *alias,
			  const struct sim_query *query, unsigned int flags, struct sim_shape *shape,
			  struct sim_buf *out, int *next)
{
	struct sim_arena *arena = sql->req->arena;
	int			i;

	shape->query = query;
	shape->out.flags = flags;
	shape->out.n = query->ncolumns;
	shape->out.columns = sim_alloc(arena, sizeof(*shape->out.columns) * (query->ncolumns + 1));
	shape->out.version_index = -1;
	if (query->table->version != NULL)
	{
		sim_putf(out, "%s%s.\"%s\"", *next > 0 ? "," : "", alias, query->table->version->name);
		shape->out.version_index = (*next)++;
	}
	for (i = 0; i < query->ncolumns; i++)
	{
		shape->out.columns[i].column = query->columns[i];
		sim_out_sql(out, alias, &shape->out.columns[i], flags, next);
	}
	sim_out_prepare(arena, &shape->out);
	sim_putf(out, "%s%s.\"%s\"", *next > 0 ? "," : "", alias, query->table->id->name);
	shape->id_index = (*next)++;
	if (query->nexpand > 0)
		shape->lookups = sim_alloc(arena, sizeof(*shape->lookups) * query->nexpand);
	for (i = 0; i < query->nexpand; i++)
	{
		const struct sim_expand *expand = &query->expand[i];
		struct sim_shape *lookup = &shape->lookups[i];

		if (expand->query != NULL && expand->kind == SIM_EXPAND_LOOKUP)
		{
			const char *target = sim_from_join(sql, from, alias, expand->column, expand->target);

			sim_shape_sql(sql, from, target, expand->query, flags, lookup, out, next);
		}
		else if (expand->kind == SIM_EXPAND_LOOKUP || expand->kind == SIM_EXPAND_PRINCIPAL)
		{
			sim_putc(out, ',');
			sim_column_sql(out, alias, expand->column);
			lookup->id_index = (*next)++;
			lookup->type_index = -1;
			if (expand->column->ntargets > 1)
			{
				sim_putf(out, ",%s.\"%s.type\"", alias, expand->column->name);
				lookup->type_index = (*next)++;
			}
		}
	}
}

static void
add_point(struct sim_rows *rows, const struct sim_shape *shape, const struct sim_expand *expand,
		  sqlite3_stmt *stmt)
{
	struct sim_point *point;

	if (rows->npoints == rows->cap)
	{
		rows->cap = rows->cap ? rows->cap * 2 : 64;
		rows->points = sim_xrealloc(rows->points, sizeof(*rows->points) * rows->cap);
	}
	point = &rows->points[rows->npoints++];
	point->offset = rows->text.len;
	point->expand = expand;
	point->table = shape->query->table;
	memcpy(point->id, sqlite3_column_blob(stmt, shape->id_index), 16);
}

/* a lookup with only its reference requested, or whose target may be in any table */
static void
print_reference(struct sim_buf *buf, const struct sim_expand *expand,
				const struct sim_shape *shape, sqlite3_stmt *stmt, const char *base_url)
{
	const char *type = NULL;
	char		id[36];

	if (shape->type_index >= 0)
		type = (const char *) sqlite3_column_text(stmt, shape->type_index);
	if (sqlite3_column_type(stmt, shape->id_index) != SQLITE_BLOB ||
		(expand->ref && type != NULL && strcmp(type, expand->target->table->name) != 0))
	{
		sim_puts(buf, "null");
		return;
	}
	sim_guid_print(sqlite3_column_blob(stmt, shape->id_index), id);
	if (expand->ref)
		sim_putf(buf, "{\"@odata.id\":\"%s%s%s(%.36s)\"}", base_url, SIM_ROOT,
				 expand->target->table->set_name, id);
	else
		sim_putf(buf, "{\"@odata.type\":\"#Microsoft.Dynamics.CRM.%s\",\"%s\":\"%.36s\"}",
				 type ? type : "principal", expand->column->name, id);
}

static void
print_object(struct sim_rows *rows, const struct sim_shape *shape, sqlite3_stmt *stmt,
			 const char *base_url)
{
	const struct sim_query *query = shape->query;
	struct sim_buf *buf = &rows->text;
	int			i;

	sim_putc(buf, '{');
	sim_print_members(buf, &shape->out, stmt);
	for (i = 0; i < query->nexpand; i++)
	{
		const struct sim_expand *expand = &query->expand[i];
		const struct sim_shape *lookup = &shape->lookups[i];

		if (expand->kind == SIM_EXPAND_COLLECTION || expand->kind == SIM_EXPAND_MANY)
		{
			add_point(rows, shape, expand, stmt);
			continue;
		}
		sim_putf(buf, ",\"%s\":", expand->name);
		if (expand->query == NULL)
			print_reference(buf, expand, lookup, stmt, base_url);
		else if (sqlite3_column_type(stmt, lookup->id_index) == SQLITE_NULL)
			sim_puts(buf, "null");
		else
			print_object(rows, lookup, stmt, base_url);
	}
	sim_putc(buf, '}');
}

void
sim_shape_print(struct sim_rows *rows, const struct sim_shape *shape, sqlite3_stmt *stmt,
				const char *base_url)
{
	if (shape->query->nexpand > 0)
		print_object(rows, shape, stmt, base_url);
	else
		sim_print_row(&rows->text, &shape->out, stmt);
}

void
sim_rows_free(struct sim_rows *rows)
{
	sim_buf_free(&rows->text);
	free(rows->points);
	memset(rows, 0, sizeof(*rows));
}

static void
free_children(struct children *children, int n)
{
	int			i;

	for (i = 0; i < n; i++)
	{
		free_children(children[i].below, children[i].nbelow);
		sim_rows_free(&children[i].rows);
		free(children[i].groups);
	}
}

/* ----------
 * Reading the children of many rows at once
 * ----------
 */

static int
compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

/* the different parents of one collection, in order; their number */
static int
collect_parents(struct sim_arena *arena, const struct sim_rows *rows,
				const struct sim_expand *expand, guid_bytes **out)
{
	guid_bytes *ids = sim_alloc(arena, sizeof(*ids) * (size_t) (rows->npoints + 1));
	int			n = 0;
	int			distinct = 0;
	int			i;

	for (i = 0; i < rows->npoints; i++)
	{
		if (rows->points[i].expand == expand)
			memcpy(ids[n++], rows->points[i].id, 16);
	}
	qsort(ids, (size_t) n, 16, compare_ids);
	for (i = 0; i < n; i++)
	{
		if (i == 0 || memcmp(ids[i], ids[i - 1], 16) != 0)
			memmove(ids[distinct++], ids[i], 16);
	}
	*out = ids;
	return distinct;
}

/* a list of parameters, filled up so that there are few different texts */
static void
parents_sql(struct sim_sql *sql, const guid_bytes *ids, int n, struct sim_buf *out)
{
	int			last = 0;
	int			room = 1;
	int			i;

	for (i = 0; i < n; i++)
	{
		last = sim_sql_bind_blob(sql, ids[i]);
		sim_putf(out, "%s?%d", i > 0 ? "," : "", last);
	}
	while (room < n)
		room *= 2;
	for (; i < room; i++)
		sim_putf(out, ",?%d", last);
}

static bool
children_sql(struct reader *rd, struct sim_sql *sql, const struct sim_expand *expand,
			 const guid_bytes *ids, int n, struct sim_shape *shape, int *parent_index,
			 struct sim_buf *out)
{
	const struct sim_query *query = expand->query;
	struct sim_table *parent = expand->relationship ? expand->relationship->referenced : NULL;
	struct sim_buf where = {0};
	struct sim_ordering ordering;
	struct sim_from from;
	const char *pointer;
	int			next = 0;
	bool		ok;

	sim_from_init(sql, &from, query->table);
	if (expand->many != NULL)
		pointer = sim_fmt(rd->req->arena, "i.\"%s\"", expand->near->name);
	else
		pointer = sim_fmt(rd->req->arena, "%s.\"%s\"", from.alias,
						  expand->relationship->column->name);
	sim_puts(out, "SELECT ");
	sim_shape_sql(sql, &from, from.alias, query, rd->flags, shape, out, &next);
	sim_putf(out, ",%s FROM ", pointer);
	*parent_index = next;
	ok = (query->filter == NULL || sim_filter_sql(sql, &from, query->filter, &where)) &&
		sim_ordering_init(sql, &from, query, &ordering);
	if (ok)
	{
		sim_from_sql(&from, out);
		if (expand->many != NULL)
			sim_putf(out, " JOIN \"%s\" AS i ON i.\"%s\"=%s.\"%s\"",
					 expand->many->intersect->name, expand->far->name, from.alias,
					 query->table->id->name);
		sim_putf(out, " WHERE %s IN (", pointer);
		parents_sql(sql, ids, n, out);
		sim_putc(out, ')');
		if (parent != NULL && expand->relationship->column->ntargets > 1)
			sim_putf(out, " AND %s.\"%s.type\"='%s'", from.alias,
					 expand->relationship->column->name, parent->name);
		if (where.len > 0)
			sim_putf(out, " AND %s", where.s);
		/* the parent first, then the requested order */
		where.len = 0;
		sim_ordering_sql(&ordering, &where);
		sim_putf(out, " ORDER BY %s,%s", pointer, where.s + strlen(" ORDER BY "));
	}
	sim_buf_free(&where);
	return ok;
}

static struct group *
new_group(struct children *children, const void *parent)
{
	struct group *group;

	if (children->ngroups == children->cap)
	{
		children->cap = children->cap ? children->cap * 2 : 64;
		children->groups = sim_xrealloc(children->groups,
										sizeof(*children->groups) * children->cap);
	}
	group = &children->groups[children->ngroups++];
	memset(group, 0, sizeof(*group));
	memcpy(group->parent, parent, 16);
	group->start = group->end = children->rows.text.len;
	group->first_point = group->last_point = children->rows.npoints;
	return group;
}

/* returns the most children of a row */
static long
children_limit(const struct reader *rd, const struct sim_query *query)
{
	long		limit = query->table->type == SIM_ELASTIC ? MAX_ELASTIC_CHILDREN : MAX_CHILDREN;

	if (rd->paged && rd->page_size < limit)
		limit = rd->page_size;
	if (query->top > 0 && query->top < limit)
		limit = query->top;
	return limit;
}

/* reads the children of some rows, after those that were read before */
static bool
read_chunk(struct reader *rd, struct children *children, const guid_bytes *ids, int nids)
{
	const struct sim_expand *expand = children->expand;
	long		limit = children_limit(rd, expand->query);
	struct sim_buf text = {0};
	struct sim_shape shape = {0};
	struct group *group = NULL;
	struct sim_sql sql;
	sqlite3_stmt *stmt = NULL;
	int			parent_index;
	long		n = 0;
	int			rc;

	sim_sql_init(&sql, rd->req, rd->res);
	if (children_sql(rd, &sql, expand, ids, nids, &shape, &parent_index, &text))
		stmt = sim_sql_run(&sql, text.s);
	sim_buf_free(&text);
	if (stmt == NULL)
		return false;
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW && children->rows.text.len < MAX_ANSWER)
	{
		const void *parent = sqlite3_column_blob(stmt, parent_index);

		if (group == NULL || memcmp(group->parent, parent, 16) != 0)
		{
			group = new_group(children, parent);
			n = 0;
		}
		if (n++ >= limit)
		{
			group->more = expand->query->top == 0;
			continue;
		}
		if (n > 1)
			sim_putc(&children->rows.text, ',');
		sim_shape_print(&children->rows, &shape, stmt, rd->req->base_url);
		memcpy(group->last, sqlite3_column_blob(stmt, shape.id_index), 16);
		group->end = children->rows.text.len;
		group->last_point = children->rows.npoints;
		rd->res->rows++;
	}
	return sim_sql_done(&sql, stmt, rc);
}

static bool
read_children(struct reader *rd, const struct sim_rows *rows, struct children *children)
{
	guid_bytes *ids;
	int			n = collect_parents(rd->req->arena, rows, children->expand, &ids);
	int			i;

	for (i = 0; i < n && children->rows.text.len < MAX_ANSWER; i += CHUNK)
	{
		if (!read_chunk(rd, children, (const guid_bytes *) ids + i, n - i < CHUNK ? n - i : CHUNK))
			return false;
	}
	rd->total += children->rows.text.len;
	if (rd->total >= MAX_ANSWER)
		return sim_fail(rd->req, rd->res, 400, "0x8004418a",
						"The response is larger than the limit.");
	return true;
}

/* one entry for each collection that the rows have gaps for, read and filled in turn */
static bool
fill_children(struct reader *rd, const struct sim_rows *rows, struct children **children, int *n)
{
	int			i;
	int			j;

	*n = 0;
	*children = sim_alloc(rd->req->arena, sizeof(**children) * (SIM_MAX_EXPANDS + 1));
	for (i = 0; i < rows->npoints; i++)
	{
		for (j = 0; j < *n && (*children)[j].expand != rows->points[i].expand;)
			j++;
		if (j == *n)
			(*children)[(*n)++].expand = rows->points[i].expand;
	}
	for (i = 0; i < *n; i++)
	{
		struct children *c = &(*children)[i];

		if (!read_children(rd, rows, c) ||
			!fill_children(rd, &c->rows, &c->below, &c->nbelow))
			return false;
	}
	return true;
}

/* ----------
 * Putting the text together
 * ----------
 */

/* the link to a row's children alone: all of them, or those that did not fit */
static void
put_children_link(struct reader *rd, const struct sim_point *point, const struct group *group,
				  struct sim_buf *out)
{
	const struct sim_expand *expand = point->expand;
	const char *options = expand->options;
	struct sim_buf url = {0};
	struct sim_text item;
	char		id[36];
	bool		any = false;

	sim_guid_print(point->id, id);
	sim_putf(&url, "%s%s%s(%.36s)/%s", rd->req->base_url, SIM_ROOT, point->table->set_name, id,
			 expand->name);
	while (sim_list_next(rd->req->arena, &options, ';', &item))
	{
		if (item.len == 0)
			continue;
		sim_putc(&url, any ? '&' : '?');
		sim_put_query_text(&url, item.s);
		any = true;
	}
	if (rd->paged)
	{
		struct sim_mark mark = {.name = expand->query->table->id->name};
		struct sim_cookie cookie = {2, false, &mark, 1};

		sim_guid_print(group->last, id);
		mark.last = mark.first = sim_fmt(rd->req->arena, "{%.36s}", id);
		sim_putc(&url, any ? '&' : '?');
		sim_link_cookie(&url, &cookie);
	}
	sim_putf(out, ",\"%s@odata.nextLink\":", expand->name);
	sim_put_json(out, url.s, url.len);
	sim_buf_free(&url);
}

static const struct children *
children_of(const struct children *children, int n, const struct sim_expand *expand)
{
	int			i;

	for (i = 0; i < n && children[i].expand != expand;)
		i++;
	return i < n ? &children[i] : NULL;
}

/* copies a part of the rows' text, with its gaps filled */
static void
put_rows(struct reader *rd, const struct sim_rows *rows, size_t start, size_t end,
		 int first_point, int last_point, const struct children *children, int n,
		 struct sim_buf *out)
{
	int			i;

	for (i = first_point; i < last_point; i++)
	{
		const struct sim_point *point = &rows->points[i];
		const struct children *c = children_of(children, n, point->expand);
		const struct group *group = NULL;

		if (c != NULL && c->ngroups > 0)
			group = bsearch(point->id, c->groups, (size_t) c->ngroups, sizeof(*group),
							compare_ids);
		sim_put(out, rows->text.s + start, point->offset - start);
		start = point->offset;
		sim_putf(out, ",\"%s\":[", point->expand->name);
		if (group != NULL)
			put_rows(rd, &c->rows, group->start, group->end, group->first_point,
					 group->last_point, c->below, c->nbelow, out);
		sim_putc(out, ']');
		if (!rd->paged || (group != NULL && group->more))
			put_children_link(rd, point, group, out);
	}
	if (end > start)
		sim_put(out, rows->text.s + start, end - start);
}

bool
sim_rows_finish(struct sim_req *req, struct sim_res *res, const struct sim_query *query,
				struct sim_rows *rows, long page_size, struct sim_buf *out)
{
	struct reader rd = {req, res, sim_out_flags(req), query->nested, page_size, 0};
	struct children *children = NULL;
	int			n = 0;
	bool		ok;

	rd.total = rows->text.len;
	ok = fill_children(&rd, rows, &children, &n);
	if (ok)
		put_rows(&rd, rows, 0, rows->text.len, 0, rows->npoints, children, n, out);
	free_children(children, n);
	return ok;
}

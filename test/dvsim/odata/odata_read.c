/*
 * odata_read.c
 *		Reading collections: pages of rows, and counts.
 *
 * A page is one statement: the wanted columns and those of expanded lookups,
 * after the last row of the previous page, in the requested order and then by
 * the key, with one row more than the page holds to see whether a next page
 * follows.  Without $orderby, this is a walk along the primary key.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "store/drift.h"
#include "odata/odata_read.h"

/* a page being read */
struct page
{
	struct sim_req *req;
	struct sim_res *res;
	const struct sim_source *source;
	struct sim_query query;
	struct sim_cookie cookie;	/* of the request */
	struct sim_sql sql;
	struct sim_from from;
	struct sim_shape shape;
	struct sim_ordering ordering;
	long		limit;			/* rows of this page */
	const struct sim_tracking *tracking;	/* or NULL */
	bool		links;			/* the answer has a link to the next page if rows remain */
	bool		more;
};

long
sim_wanted_page(const struct sim_req *req, const struct sim_table *table)
{
	long		max = table->type == SIM_ELASTIC ? SIM_ELASTIC_PAGE : SIM_PAGE;
	long		wanted = sim_prefer_int(req, "odata.maxpagesize");

	return wanted > 0 && wanted <= max ? wanted : 0;
}

long
sim_page_size(const struct sim_req *req, const struct sim_table *table)
{
	long		wanted = sim_wanted_page(req, table);

	if (wanted > 0)
		return wanted;
	return table->type == SIM_ELASTIC ? SIM_ELASTIC_PAGE : SIM_PAGE;
}

const char *
sim_partition_param(struct sim_req *req)
{
	const char *value = sim_param(req, "partitionId");
	size_t		len;

	if (value == NULL)
		return NULL;
	len = strlen(value);
	if (len >= 2 && value[0] == '\'' && value[len - 1] == '\'')
		return sim_strndup(req->arena, value + 1, len - 2);
	return value;
}

void
sim_number_answer(struct sim_res *res, int64_t n)
{
	res->status = 200;
	res->content_type = "text/plain";
	sim_puts(&res->body, "\xEF\xBB\xBF");
	sim_put_i64(&res->body, n);
}

void
sim_put_context(struct sim_req *req, struct sim_buf *buf, const struct sim_query *query,
				const char *suffix)
{
	sim_putf(buf, "{\"@odata.context\":\"%s%s$metadata#%s", req->base_url, SIM_ROOT,
			 query->table->set_name);
	sim_query_context(buf, query);
	sim_putf(buf, "%s\"", suffix);
}

static void
put_and(bool *any, struct sim_buf *out)
{
	sim_puts(out, *any ? " AND " : " WHERE ");
	*any = true;
}

bool
sim_alive_sql(struct sim_sql *sql, const struct sim_table *table, const char *alias,
			  struct sim_buf *out)
{
	if (table->type != SIM_ELASTIC ||
		sim_column_by_name((struct sim_table *) table, "ttlinseconds", 12) == NULL)
		return false;
	sim_putf(out, "(coalesce(%s.\"ttlinseconds\",0)<=0 OR %s.\"modifiedon\"+"
			 "%s.\"ttlinseconds\">?%d)", alias, alias, alias,
			 sim_sql_bind_int(sql, sim_unix_now(sql->req->sim)));
	return true;
}

bool
sim_source_sql(struct sim_sql *sql, const struct sim_from *from, const struct sim_source *source,
			   bool *any, struct sim_buf *out)
{
	const struct sim_expand *via = source->via;
	const char *partition = sim_partition_param(sql->req);
	struct sim_buf alive = {0};

	if (sim_alive_sql(sql, source->table, from->alias, &alive))
	{
		put_and(any, out);
		sim_put(out, alive.s, alive.len);
	}
	sim_buf_free(&alive);
	if (partition != NULL && source->table->partition != NULL)
	{
		put_and(any, out);
		sim_putf(out, "%s.\"%s\"=?%d", from->alias, source->table->partition->name,
				 sim_sql_bind_text(sql, partition, strlen(partition)));
	}
	if (via == NULL)
		return true;
	put_and(any, out);
	if (via->many != NULL)
	{
		sim_putf(out, "%s.\"%s\" IN (SELECT i.\"%s\" FROM \"%s\" AS i WHERE i.\"%s\"=?%d)",
				 from->alias, from->table->id->name, via->far->name, via->many->intersect->name,
				 via->near->name, sim_sql_bind_blob(sql, source->parent));
		return true;
	}
	sim_putf(out, "%s.\"%s\"=?%d", from->alias, via->relationship->column->name,
			 sim_sql_bind_blob(sql, source->parent));
	if (via->relationship->column->ntargets > 1)
		sim_putf(out, " AND %s.\"%s.type\"='%s'", from->alias, via->relationship->column->name,
				 source->parent_table->name);
	return true;
}

bool
sim_sql_number(struct sim_sql *sql, const char *text, int64_t *out)
{
	sqlite3_stmt *stmt = sim_sql_run(sql, text);
	int			rc;

	if (stmt == NULL)
		return false;
	rc = sqlite3_step(stmt);
	*out = rc == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
	return sim_sql_done(sql, stmt, rc);
}

bool
sim_count_rows(struct sim_req *req, struct sim_res *res, const struct sim_source *source,
			   const struct sim_node *filter, int64_t cap, int64_t *out)
{
	struct sim_buf where = {0};
	struct sim_buf text = {0};
	struct sim_sql sql;
	struct sim_from from;
	bool		any = false;
	bool		ok;

	sim_sql_init(&sql, req, res);
	sim_from_init(&sql, &from, source->table);
	ok = sim_source_sql(&sql, &from, source, &any, &where);
	if (ok && filter != NULL)
	{
		put_and(&any, &where);
		ok = sim_filter_sql(&sql, &from, filter, &where);
	}
	if (ok)
	{
		sim_puts(&text, "SELECT count(*) FROM (SELECT 1 FROM ");
		sim_from_sql(&from, &text);
		sim_putf(&text, "%s LIMIT ?%d)", where.s ? where.s : "", sim_sql_bind_int(&sql, cap + 1));
		ok = sim_sql_number(&sql, text.s, out);
		if (ok)
			res->input += (int) *out;
	}
	sim_buf_free(&where);
	sim_buf_free(&text);
	return ok;
}

/* ----------
 * One page
 * ----------
 */

/* the statement's text; its parts are written in the order in which joins become known */
static bool
page_sql(struct page *page, struct sim_buf *out)
{
	struct sim_sql *sql = &page->sql;
	struct sim_buf where = {0};
	bool		any = false;
	bool		ok;
	int			next = 0;

	sim_sql_init(sql, page->req, page->res);
	sim_from_init(sql, &page->from, page->query.table);
	sim_puts(out, "SELECT ");
	sim_shape_sql(sql, &page->from, page->from.alias, &page->query, sim_out_flags(page->req),
				  &page->shape, out, &next);
	ok = sim_ordering_init(sql, &page->from, &page->query, &page->ordering);
	/* first, because SQLite starts at the first of several lower limits */
	if (ok && page->cookie.n > 0)
	{
		put_and(&any, &where);
		ok = sim_keyset_sql(sql, &page->ordering, &page->cookie, &where);
	}
	ok = ok && sim_source_sql(sql, &page->from, page->source, &any, &where);
	if (ok && page->query.filter != NULL)
	{
		put_and(&any, &where);
		ok = sim_filter_sql(sql, &page->from, page->query.filter, &where);
	}
	if (ok)
	{
		sim_ordering_select(&page->ordering, out, &next);
		sim_puts(out, " FROM ");
		sim_from_sql(&page->from, out);
		if (where.len > 0)
			sim_put(out, where.s, where.len);
		sim_ordering_sql(&page->ordering, out);
		sim_putf(out, " LIMIT ?%d", sim_sql_bind_int(sql, page->limit + 1));
	}
	sim_buf_free(&where);
	return ok;
}

/* prints up to a page of rows */
static bool
print_rows(struct page *page, sqlite3_stmt *stmt, struct sim_rows *rows)
{
	const char *base_url = page->req->base_url;
	long		n = 0;
	int			rc;

	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
	{
		if (n == page->limit)
		{
			page->more = true;
			rc = SQLITE_DONE;
			break;
		}
		if (n++ > 0)
			sim_putc(&rows->text, ',');
		sim_shape_print(rows, &page->shape, stmt, base_url);
		if (n == 1 || n == page->limit)
			sim_ordering_mark(page->req, &page->ordering, stmt, n == 1);
	}
	page->res->rows += (int) n;
	return sim_sql_done(&page->sql, stmt, rc);
}

/* writes the rows into the answer; those with collections first into a text of their own */
static bool
read_rows(struct page *page)
{
	struct sim_buf *body = &page->res->body;
	struct sim_rows rows = {0};
	struct sim_buf text = {0};
	sqlite3_stmt *stmt = NULL;
	bool		gaps = page->query.collections;
	bool		ok;

	if (page_sql(page, &text))
		stmt = sim_sql_run(&page->sql, text.s);
	sim_buf_free(&text);
	if (stmt == NULL)
		return false;
	if (gaps)
		ok = print_rows(page, stmt, &rows) &&
			sim_rows_finish(page->req, page->res, &page->query, &rows,
							sim_page_size(page->req, page->query.table), body);
	else
	{
		rows.text = *body;
		memset(body, 0, sizeof(*body));
		ok = print_rows(page, stmt, &rows);
		/* otherwise, the answer already has the body of an error */
		if (ok)
		{
			*body = rows.text;
			memset(&rows.text, 0, sizeof(rows.text));
		}
	}
	sim_rows_free(&rows);
	return ok;
}

static void
put_next_link(struct page *page)
{
	int			n = page->ordering.n;
	struct sim_mark *marks = sim_alloc(page->req->arena, sizeof(*marks) * (n + 2));
	struct sim_cookie cookie = {page->cookie.page + 1, page->tracking != NULL, marks, n};
	struct sim_buf url = {0};

	memcpy(marks, page->ordering.marks, sizeof(*marks) * n);
	if (page->tracking != NULL)
	{
		/* changes since the first page began are left to the delta link */
		marks[cookie.n].name = "trackingversion";
		marks[cookie.n++].last = sim_fmt(page->req->arena, "%lld",
										 (long long) page->tracking->version);
		marks[cookie.n].name = "trackingtime";
		marks[cookie.n++].last = sim_fmt(page->req->arena, "%lld",
										 (long long) page->tracking->time);
	}
	sim_link_start(&url, page->req, page->source->path);
	sim_link_cookie(&url, &cookie);
	sim_puts(&page->res->body, ",\"@odata.nextLink\":");
	sim_put_json(&page->res->body, url.s, url.len);
	sim_buf_free(&url);
}

/* @odata.count and the annotations about it */
static bool
put_counts(struct page *page)
{
	struct sim_buf *body = &page->res->body;
	int64_t		cap = page->query.table->type == SIM_ELASTIC ? SIM_ELASTIC_PAGE : SIM_PAGE;
	int64_t		n = -1;
	bool		exceeded = false;

	if (page->query.count)
	{
		if (!sim_count_rows(page->req, page->res, page->source, page->query.filter, cap, &n))
			return false;
		exceeded = n > cap;
		n = exceeded ? cap : n;
		sim_putf(body, ",\"@odata.count\":%lld", (long long) n);
	}
	if (sim_wants_annotation(page->req, "Microsoft.Dynamics.CRM.totalrecordcount"))
		sim_putf(body, ",\"@Microsoft.Dynamics.CRM.totalrecordcount\":%lld", (long long) n);
	if (sim_wants_annotation(page->req, "Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded"))
		sim_putf(body, ",\"@Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded\":%s",
				 exceeded ? "true" : "false");
	if (sim_wants_annotation(page->req, "Microsoft.Dynamics.CRM.globalmetadataversion"))
		sim_putf(body, ",\"@Microsoft.Dynamics.CRM.globalmetadataversion\":\"%d\"",
				 sim_metadata_version(page->req->sim));
	return true;
}

/* when many rows of elastic tables are read, they cannot be joined */
static bool
check_elastic(struct page *page, const struct sim_query *query)
{
	int			i;

	for (i = 0; i < query->nexpand; i++)
	{
		const struct sim_query *sub = query->expand[i].query;

		if (query->table->type == SIM_ELASTIC ||
			(sub != NULL && sub->table->type == SIM_ELASTIC))
			return sim_fail(page->req, page->res, 400, "0x80048d0b",
							"Link entities are not supported");
		if (sub != NULL && !check_elastic(page, sub))
			return false;
	}
	return true;
}

/*
 * rows that are read for a token come by version, so that a row that changes meanwhile comes
 * again
 */
static bool
order_by_version(struct page *page)
{
	static const char name[] = "versionnumber";
	struct sim_order *order = sim_alloc(page->req->arena, sizeof(*order));

	memset(order, 0, sizeof(*order));
	page->query.order = order;
	page->query.norder = 1;
	return sim_path_parse(page->req, page->res, name, sizeof(name) - 1, &order->path);
}

bool
sim_read_page(struct sim_req *req, struct sim_res *res, const struct sim_source *source,
			  const struct sim_tracking *tracking)
{
	struct page page = {0};
	long		wanted = sim_wanted_page(req, source->table);

	page.req = req;
	page.res = res;
	page.source = source;
	page.tracking = tracking;
	if (!sim_options_parse(req, res, source->table, false, &page.query) ||
		!check_elastic(&page, &page.query) ||
		(tracking != NULL && source->table->type != SIM_ELASTIC && !order_by_version(&page)) ||
		!sim_cookie_parse(req, res, sim_param(req, "$skiptoken"), &page.cookie))
		return false;
	page.limit = sim_page_size(req, source->table);
	page.links = wanted > 0 || page.query.top == 0;
	if (!page.links && page.query.top < page.limit)
		page.limit = page.query.top;
	sim_put_context(req, &res->body, &page.query, "");
	if (!put_counts(&page))
		return false;
	sim_puts(&res->body, ",\"value\":[");
	if (!read_rows(&page))
		return false;
	sim_putc(&res->body, ']');
	if (page.more && page.links)
		put_next_link(&page);
	else if (tracking != NULL)
		sim_put_delta_link(&res->body, req, source->path, tracking);
	sim_putc(&res->body, '}');
	sim_json_answer(res, 200);
	return true;
}

/* -- Options of a set -- */

/* refuses queries that dvsim does not support */
static bool
check_unsupported(struct sim_req *req, struct sim_res *res)
{
	static const char *const views[] = {"savedQuery", "userQuery"};
	int			i;

	for (i = 0; i < 2; i++)
	{
		if (sim_param(req, views[i]) != NULL)
			return sim_fail(req, res, 404, "0x80040217",
							"%s With Id = %s Does Not Exist", i ? "userquery" : "savedquery",
							sim_param(req, views[i]));
	}
	return true;
}

bool
sim_read_source(struct sim_req *req, struct sim_res *res, const struct sim_source *source)
{
	const char *apply = sim_param(req, "$apply");

	if (!sim_options_check(req, res) || !check_unsupported(req, res))
		return false;
	if (source->via == NULL && sim_delta_wanted(req))
		return sim_delta_read(req, res, source);
	if (apply != NULL)
		return sim_apply(req, res, source, apply);
	return sim_read_page(req, res, source, NULL);
}

bool
sim_count_source(struct sim_req *req, struct sim_res *res, const struct sim_source *source)
{
	int64_t		cap = source->table->type == SIM_ELASTIC ? SIM_ELASTIC_PAGE : SIM_PAGE;
	const char *filter = sim_param(req, "$filter");
	struct sim_node *node = NULL;
	int64_t		n;

	if (!sim_options_check(req, res))
		return false;
	if (sim_param(req, "$deltatoken") != NULL)
		return sim_delta_count(req, res, source);
	if (filter != NULL && !sim_filter_parse(req, res, filter, true, &node))
		return false;
	if (!sim_count_rows(req, res, source, node, cap, &n))
		return false;
	sim_number_answer(res, n > cap ? cap : n);
	return true;
}

bool
sim_read_set(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *rest)
{
	struct sim_source source = {.table = table, .path = table->set_name};
	const char *xml = sim_param(req, "fetchXml");
	const char *sql = sim_param(req, "sql");

	if (strcmp(rest, "$count") == 0 || strcmp(rest, "%24count") == 0)
		return sim_count_source(req, res, &source);
	if (rest[0] != '\0')
		return sim_fail(req, res, 404, SIM_BAD_QUERY, "Resource not found for the segment '%s'.",
						sim_strndup(req->arena, rest, strcspn(rest, "(/")));
	if (xml != NULL)
		return sim_fetch(req, res, table, xml);
	if (sql != NULL)
		return sim_fetch_by_sql(req, res, table, sql);
	return sim_read_source(req, res, &source);
}

/*
 * fetch_read.c
 *		Answers a FetchXML query, or one in SQL.
 *
 * The statement requests one row more than the page holds.  Its presence
 * decides about the paging annotations, which precede the rows and need the
 * last row's keys.  So the rows are first printed into a separate buffer.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "store/drift.h"
#include "fetch/fetch_sql.h"
#include "odata/odata_page.h"
#include "odata/odata_read.h"
#include "wire/quirks.h"
#include "fetch/sql_query.h"
#include "store/store.h"

#define COOKIE_ANNOTATION "Microsoft.Dynamics.CRM.fetchxmlpagingcookie"
#define MORE_ANNOTATION "Microsoft.Dynamics.CRM.morerecords"
#define COUNT_ANNOTATION "Microsoft.Dynamics.CRM.totalrecordcount"
#define OVER_ANNOTATION "Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded"
#define VERSION_ANNOTATION "Microsoft.Dynamics.CRM.globalmetadataversion"

#define COUNT_STANDARD 5000
#define COUNT_ELASTIC 500

struct result
{
	struct sim_buf rows;		/* the objects, with commas */
	int			n;
	bool		more;
	int64_t		total;			/* -1: not requested */
	bool		total_exceeded;
	const char **first;			/* keys of the first and the last row */
	const char **last;
};

static bool
sql_error(struct sim_fetch_query *q)
{
	const char *message = sqlite3_errmsg(q->req->sim->store->db);

	if (strstr(message, "overflow") != NULL && strstr(message, "stack") == NULL)
		return sim_fail(q->req, q->res, 400, SIM_SQL_OVERFLOW, SIM_SQL_OVERFLOW_MESSAGE);
	if (strstr(message, "stack overflow") != NULL || strstr(message, "too large") != NULL)
		return sim_fail(q->req, q->res, 400, "0x80041101",
						"An unexpected error occurred. The query is nested too deeply.");
	return sim_fail(q->req, q->res, 500, "0x80044150", "Generic SQL error. %s", message);
}

/* a statement with the first "n" parameters bound; NULL after sim_fail() */
static sqlite3_stmt *
prepare(struct sim_fetch_query *q, const char *sql, int n)
{
	sqlite3_stmt *stmt = sim_stmt_get(q->req->sim->store, sql);
	int			i;

	if (stmt == NULL)
	{
		sql_error(q);
		return NULL;
	}
	for (i = 0; i < n; i++)
		sim_value_bind(stmt, i + 1, &q->binds[i]);
	return stmt;
}

/* returns the number of rows of "SELECT … FROM …", counted up to "limit" */
static bool
count_rows(struct sim_fetch_query *q, bool outer, int limit, int64_t *n)
{
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;
	bool		ok = false;

	sim_puts(&sql, "SELECT COUNT(*) FROM (");
	if (outer && (q->tree->aggregate || q->tree->distinct))
		sim_fetch_put_select(q, &sql);
	else
		sim_puts(&sql, "SELECT 1");
	sim_put(&sql, q->from.s, q->from.len);
	if (outer && q->tail.len > 0)
		sim_put(&sql, q->tail.s, q->tail.len);
	sim_putf(&sql, " LIMIT %d)", limit);
	stmt = prepare(q, sql.s, q->nfilter);
	sim_buf_free(&sql);
	if (stmt == NULL)
		return false;
	if (sqlite3_step(stmt) == SQLITE_ROW)
	{
		*n = sqlite3_column_int64(stmt, 0);
		q->res->input += (int) *n;
		ok = true;
	}
	else
		sql_error(q);
	sim_stmt_put(q->req->sim->store, stmt);
	return ok;
}

static bool
check_aggregate_limit(struct sim_fetch_query *q)
{
	int			limit;
	int64_t		n;

	if (!q->tree->aggregate)
		return true;
	limit = q->tree->aggregate_limit > 0 ? q->tree->aggregate_limit : SIM_FETCH_MAX_AGGREGATE;
	if (!count_rows(q, false, limit + 1, &n))
		return false;
	if (n > SIM_FETCH_MAX_AGGREGATE && q->tree->aggregate_limit == 0)
		return sim_fail(q->req, q->res, 400, "0x8004E023",
						"AggregateQueryRecordLimit exceeded. Cannot perform this operation.");
	return true;
}

static bool
count_total(struct sim_fetch_query *q, struct result *result)
{
	const char *count = sim_param(q->req, "$count");
	int			max = q->table->type == SIM_ELASTIC ? COUNT_ELASTIC : COUNT_STANDARD;

	result->total = -1;
	if (!q->tree->total && (count == NULL || strcmp(count, "true") != 0))
		return true;
	if (!count_rows(q, true, max + 1, &result->total))
		return false;
	result->total_exceeded = result->total > max;
	if (result->total_exceeded)
		result->total = max;
	return true;
}

static void
keep_keys(struct sim_fetch_query *q, sqlite3_stmt *stmt, const char **texts)
{
	int			i;

	for (i = 0; i < q->ncookie; i++)
		texts[i] = q->keys[i].aliased ? NULL : sim_fetch_key_text(q, &q->keys[i], stmt);
}

static bool
print_rows(struct sim_fetch_query *q, struct result *result)
{
	sqlite3_stmt *stmt = prepare(q, q->sql.s, q->nbinds);
	bool		keys = q->cookie && q->may_have_more;
	int			rc;

	if (stmt == NULL)
		return false;
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
	{
		if (result->n == q->limit)
		{
			result->more = true;
			break;
		}
		if (keys && result->n == 0)
			keep_keys(q, stmt, result->first);
		if (keys && result->n == q->limit - 1)
			keep_keys(q, stmt, result->last);
		if (result->n > 0)
			sim_putc(&result->rows, ',');
		sim_print_row(&result->rows, &q->out, stmt);
		result->n++;
	}
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		sql_error(q);
	sim_stmt_put(q->req->sim->store, stmt);
	return rc == SQLITE_ROW || rc == SQLITE_DONE;
}

/* "accounts(name,accountid)": the root's columns; all or none are not listed */
static void
put_context(struct sim_fetch_query *q, struct sim_buf *out)
{
	const struct sim_fetch_entity *root = q->tree->root;
	char		separator = '(';
	int			i;

	sim_puts(out, "{\"@odata.context\":\"");
	sim_puts(out, q->req->base_url);
	sim_puts(out, SIM_ROOT "$metadata#");
	sim_puts(out, q->table->set_name);
	for (i = 0; i < q->out.n && !root->all_attributes; i++)
	{
		const struct sim_out_column *column = &q->out.columns[i];

		if (column->aliased)
			continue;
		sim_putc(out, separator);
		sim_puts(out, column->name);
		separator = ',';
	}
	sim_puts(out, separator == ',' ? ")\"" : "\"");
}

static void
put_paging(struct sim_fetch_query *q, struct sim_buf *out, const struct result *result)
{
	struct sim_buf cookie = {0};

	if (!result->more || q->link)
		return;
	if (q->cookie && !sim_quirk(q->req->sim, SIM_QUIRK_NO_COOKIES) &&
		sim_wants_annotation(q->req, COOKIE_ANNOTATION))
	{
		sim_fetch_put_cookie(q, &cookie, result->first, result->last);
		sim_puts(out, ",\"@" COOKIE_ANNOTATION "\":");
		sim_put_json(out, cookie.s, cookie.len);
		sim_buf_free(&cookie);
	}
	if (sim_wants_annotation(q->req, MORE_ANNOTATION))
		sim_puts(out, ",\"@" MORE_ANNOTATION "\":true");
}

/* a page without a cookie is requested by its number */
static void
put_link(struct sim_fetch_query *q, struct sim_buf *out, const struct result *result)
{
	struct sim_buf url = {0};
	struct sim_buf cookie = {0};

	if (!result->more || !q->link)
		return;
	if (q->cookie && !sim_quirk(q->req->sim, SIM_QUIRK_NO_COOKIES))
		sim_fetch_put_cookie(q, &cookie, result->first, result->last);
	else
		sim_putf(&cookie, "<cookie pagenumber=\"%d\" istracking=\"False\" />", q->page + 1);
	sim_link_start(&url, q->req, q->table->set_name);
	sim_puts(&url, "$skiptoken=");
	sim_put_query_text(&url, cookie.s);
	sim_puts(out, ",\"@odata.nextLink\":");
	sim_put_json(out, url.s, url.len);
	sim_buf_free(&url);
	sim_buf_free(&cookie);
}

static void
put_answer(struct sim_fetch_query *q, const struct result *result)
{
	struct sim_buf *out = &q->res->body;

	sim_buf_reserve(out, result->rows.len + 4096);
	put_context(q, out);
	if (result->total >= 0)
		sim_putf(out, ",\"@odata.count\":%lld", (long long) result->total);
	if (sim_wants_annotation(q->req, COUNT_ANNOTATION))
		sim_putf(out, ",\"@" COUNT_ANNOTATION "\":%lld", (long long) result->total);
	if (sim_wants_annotation(q->req, OVER_ANNOTATION))
		sim_putf(out, ",\"@" OVER_ANNOTATION "\":%s", result->total_exceeded ? "true" : "false");
	/* the same figure as with OData reads */
	if (sim_wants_annotation(q->req, VERSION_ANNOTATION))
		sim_putf(out, ",\"@" VERSION_ANNOTATION "\":\"%d\"",
				 sim_metadata_version(q->req->sim));
	put_paging(q, out, result);
	sim_puts(out, ",\"value\":[");
	if (result->rows.len > 0)
		sim_put(out, result->rows.s, result->rows.len);
	sim_putc(out, ']');
	put_link(q, out, result);
	sim_putc(out, '}');
	q->res->rows = result->n;
	sim_json_answer(q->res, 200);
}

/* checks for query options of OData that the query itself has */
static bool
check_options(struct sim_req *req, struct sim_res *res, const char *allowed, const char *language)
{
	int			i;

	for (i = 0; i < req->params.n; i++)
	{
		const char *name = req->params.items[i].name;

		if (*name == '$' && strcmp(name, allowed) != 0)
			return sim_fail(req, res, 400, "0x80060888",
							"The query option '%s' is not supported together with %s.", name,
							language);
	}
	return true;
}

/* answers the query whose tree has been read */
static bool
answer(struct sim_fetch_query *q)
{
	struct result result = {0};
	bool		ok;

	q->out.flags = sim_out_flags(q->req) | SIM_OUT_OMIT_NULLS;
	ok = sim_fetch_translate(q) && sim_fetch_page(q) && check_aggregate_limit(q) &&
		count_total(q, &result);
	if (ok)
	{
		sim_out_prepare(q->req->arena, &q->out);
		result.first = sim_alloc(q->req->arena, (q->nkeys + 1) * sizeof(char *));
		result.last = sim_alloc(q->req->arena, (q->nkeys + 1) * sizeof(char *));
		ok = print_rows(q, &result);
	}
	if (ok)
		put_answer(q, &result);
	sim_buf_free(&result.rows);
	sim_fetch_free(q);
	return ok;
}

bool
sim_fetch(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *xml)
{
	struct sim_fetch_query q = {.req = req, .res = res, .table = table};

	res->kind = SIM_READ;
	return check_options(req, res, "$count", "fetchXml") &&
		sim_fetch_parse(req, res, xml, &q.tree) && answer(&q);
}

/*
 * returns an attribute of the cookie in a link: "pagenumber", "pagingcookie"; NULL if it is
 * missing
 */
static const char *
cookie_attribute(struct sim_req *req, const char *cookie, const char *name)
{
	const char *s = strstr(cookie, sim_fmt(req->arena, " %s=\"", name));

	if (s == NULL)
		return NULL;
	s = strchr(s, '"') + 1;
	return sim_strndup(req->arena, s, strcspn(s, "\""));
}

/* appends the attributes of <fetch> that select the page */
static bool
put_page(struct sim_req *req, struct sim_res *res, struct sim_table *table, struct sim_buf *xml)
{
	const char *token = sim_param(req, "$skiptoken");
	const char *number = token ? cookie_attribute(req, token, "pagenumber") : "1";
	char	   *cookie = token ? (char *) cookie_attribute(req, token, "pagingcookie") : NULL;

	if (number == NULL || atoi(number) < 1 ||
		(cookie != NULL && !(sim_url_decode(cookie, false) && sim_url_decode(cookie, false))))
		return sim_fail(req, res, 400, "0x8004112A", "Invalid page number in paging cookie.");
	sim_putf(xml, " count=\"%ld\" page=\"%d\"", sim_page_size(req, table), atoi(number));
	if (cookie != NULL)
	{
		sim_puts(xml, " paging-cookie=\"");
		sim_put_xml(xml, cookie, strlen(cookie));
		sim_putc(xml, '"');
	}
	return true;
}

bool
sim_fetch_by_sql(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *sql)
{
	struct sim_fetch_query q = {.req = req, .res = res, .table = table, .link = true};
	struct sim_sql_select select = {0};
	struct sim_buf xml = {0};
	bool		ok;

	res->kind = SIM_READ;
	sim_puts(&xml, "<fetch");
	ok = check_options(req, res, "$skiptoken", "sql") && sim_sql_parse(req, res, sql, &select) &&
		(select.limited || select.aggregate || put_page(req, res, table, &xml));
	if (ok)
	{
		sim_putf(&xml, "%s%s>", select.aggregate ? " aggregate=\"true\"" : " useraworderby=\"true\"",
				 select.distinct ? " distinct=\"true\"" : "");
		sim_put(&xml, select.xml.s, select.xml.len);
		sim_puts(&xml, "</fetch>");
		ok = sim_fetch_parse(req, res, xml.s, &q.tree);
	}
	sim_buf_free(&xml);
	sim_buf_free(&select.xml);
	if (!ok)
		return false;
	q.tree->limited = select.limited;
	q.tree->top = select.limit;
	q.tree->offset = select.offset;
	return answer(&q);
}

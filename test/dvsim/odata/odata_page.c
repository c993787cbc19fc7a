/*
 * odata_page.c
 *		Order, paging cookies and links to the next page.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "store/guid.h"
#include "odata/odata_page.h"

/* longer values would make links that cannot be sent back */
#define MAX_COOKIE_VALUE 200
#define MAX_MARKS 64

/* -- The order of the rows -- */

static bool
unorderable(struct sim_sql *sql, const struct sim_column *column)
{
	return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
					"The attribute '%s' of type '%s' cannot be used in $orderby.", column->name,
					sim_type_name(column->type));
}

static bool
is_lookup(const struct sim_column *column)
{
	return column->type == SIM_LOOKUP || column->type == SIM_CUSTOMER ||
		column->type == SIM_OWNER;
}

static bool
order_expression(struct sim_sql *sql, const struct sim_place *place, struct sim_order *order)
{
	struct sim_column *column = place->column;
	struct sim_buf buf = {0};
	bool		elastic = place->from->table->type == SIM_ELASTIC;

	if (column->type == SIM_MULTISELECT || column->type == SIM_IMAGE ||
		column->type == SIM_FILE || column->type == SIM_MANAGED ||
		!(column->stored || column->formula != NULL))
		return unorderable(sql, column);
	if (elastic && is_lookup(column))
		return sim_fail(sql->req, sql->res, 400, "0x80048d0b",
						"Sorting by the lookup '%s' is not supported for this table.",
						column->name);
	order->column = NULL;
	if (is_lookup(column))
	{
		sim_lookup_label_sql(&buf, place->alias, column);
		sim_puts(&buf, " COLLATE DV");
	}
	else if (elastic && column->type == SIM_UUID)
		/* an elastic table sorts GUIDs as their text */
		sim_putf(&buf, "coalesce(dv_guid(%s.\"%s\"), '')", place->alias, column->name);
	else
	{
		order->column = column;
		sim_place_sql(&buf, place);
	}
	order->sql = sim_strndup(sql->req->arena, buf.s, buf.len);
	order->name = strcmp(place->alias, place->from->alias) == 0 ? column->name :
		sim_fmt(sql->req->arena, "%s.%s", place->alias, column->name);
	/* not by the name of the key, which follows in an order of its own */
	if (elastic && order->column == NULL)
		order->name = sim_fmt(sql->req->arena, "%s.text", column->name);
	sim_buf_free(&buf);
	return true;
}

static void
add_key(struct sim_sql *sql, struct sim_ordering *ordering, struct sim_column *column)
{
	struct sim_order *order = &ordering->items[ordering->n++];

	/* an order that was ignored may have been written here */
	memset(order, 0, sizeof(*order));
	order->column = column;
	order->name = column->name;
	order->sql = sim_fmt(sql->req->arena, "%s.\"%s\"", ordering->from->alias, column->name);
}

bool
sim_ordering_init(struct sim_sql *sql, struct sim_from *from, const struct sim_query *query,
				  struct sim_ordering *ordering)
{
	int			i;

	memset(ordering, 0, sizeof(*ordering));
	ordering->from = from;
	ordering->items = sim_alloc(sql->req->arena, sizeof(*ordering->items) * (query->norder + 2));
	ordering->marks = sim_alloc(sql->req->arena, sizeof(*ordering->marks) * (query->norder + 2));
	for (i = 0; i < query->norder; i++)
	{
		struct sim_order *order = &ordering->items[ordering->n];
		struct sim_place place;
		int			j;

		*order = query->order[i];
		if (!sim_place_find(sql, from, order->path, &place) ||
			!sim_column_filterable(sql->req, sql->res, place.column) || !order_expression(sql, &place, order))
			return false;
		if (sim_column_ignores_order(place.column))
			continue;
		for (j = 0; j < ordering->n && strcmp(ordering->items[j].name, order->name) != 0;)
			j++;
		/* ordering by the same column again has no effect */
		if (j < ordering->n)
			continue;
		ordering->n++;
		/* no order matters after a key */
		if (order->column == from->table->id && from->table->partition == NULL &&
			strcmp(place.alias, from->alias) == 0)
			return true;
	}
	add_key(sql, ordering, from->table->id);
	if (from->table->partition != NULL)
		add_key(sql, ordering, from->table->partition);
	return true;
}

void
sim_ordering_select(struct sim_ordering *ordering, struct sim_buf *sql, int *next)
{
	int			i;

	for (i = 0; i < ordering->n; i++)
	{
		sim_putf(sql, "%s%s", *next > 0 ? "," : "", ordering->items[i].sql);
		ordering->items[i].stmt_index = (*next)++;
	}
}

void
sim_ordering_sql(const struct sim_ordering *ordering, struct sim_buf *sql)
{
	int			i;

	for (i = 0; i < ordering->n; i++)
		sim_putf(sql, "%s%s%s", i == 0 ? " ORDER BY " : ",", ordering->items[i].sql,
				 ordering->items[i].desc ? " DESC" : "");
}

/* ----------
 * The page's first and last row
 * ----------
 */

static const char *
mark_value(struct sim_req *req, const struct sim_order *order, sqlite3_stmt *stmt)
{
	struct sim_buf buf = {0};
	char	   *text;

	if (order->column == NULL || order->column == order->column->table->partition)
		return sim_strndup(req->arena, (const char *) sqlite3_column_text(stmt, order->stmt_index),
						   (size_t) sqlite3_column_bytes(stmt, order->stmt_index));
	if (order->column->type == SIM_UUID)
	{
		char		guid[36];
		int			i;

		sim_guid_print(sqlite3_column_blob(stmt, order->stmt_index), guid);
		for (i = 0; i < 36; i++)
			guid[i] = (char) toupper((unsigned char) guid[i]);
		return sim_fmt(req->arena, "{%.36s}", guid);
	}
	/* every bit of it, or rows might come twice */
	if (order->column->type == SIM_DOUBLE)
		return sim_fmt(req->arena, "%.17g", sqlite3_column_double(stmt, order->stmt_index));
	sim_value_print_literal(&buf, order->column, stmt, order->stmt_index);
	text = sim_strndup(req->arena, buf.s ? buf.s : "", buf.len);

	sim_buf_free(&buf);
	return text;
}

void
sim_ordering_mark(struct sim_req *req, struct sim_ordering *ordering, sqlite3_stmt *stmt,
				  bool first)
{
	int			i;

	for (i = 0; i < ordering->n; i++)
	{
		const struct sim_order *order = &ordering->items[i];
		struct sim_mark *mark = &ordering->marks[i];
		int			type = sqlite3_column_type(stmt, order->stmt_index);

		mark->name = order->name;
		mark->null = type == SQLITE_NULL;
		mark->unknown = type == SQLITE_TEXT &&
			sqlite3_column_bytes(stmt, order->stmt_index) > MAX_COOKIE_VALUE;
		mark->last = mark->null || mark->unknown ? NULL : mark_value(req, order, stmt);
		if (first)
		{
			mark->first = mark->last;
			mark->first_null = mark->null;
		}
	}
}

/* -- After the last row -- */

bool
sim_cookie_bad(struct sim_req *req, struct sim_res *res)
{
	return sim_fail(req, res, 400, "0x8004112A", "Paging cookie: the cookie is malformed or does "
					"not belong to this query.");
}

/* a too long value is read from the row itself */
static const char *
looked_up(struct sim_sql *sql, const struct sim_ordering *ordering, const struct sim_order *order,
		  const struct sim_cookie *cookie)
{
	const struct sim_table *table = ordering->from->table;
	const struct sim_mark *id = sim_cookie_mark(cookie, table->id->name);
	unsigned char bytes[16];
	struct sim_buf buf = {0};
	char	   *text;

	if (id == NULL || id->last == NULL || !sim_guid_parse(id->last, strlen(id->last), bytes))
		return NULL;
	sim_putf(&buf, "(SELECT %s FROM ", order->sql);
	sim_from_sql(ordering->from, &buf);
	sim_putf(&buf, " WHERE %s.\"%s\"=?%d LIMIT 1)", ordering->from->alias, table->id->name,
			 sim_sql_bind_blob(sql, bytes));
	text = sim_strndup(sql->req->arena, buf.s, buf.len);

	sim_buf_free(&buf);
	return text;
}

/* returns the SQL of the last row's value for one item: usually a parameter; NULL on failure */
static const char *
mark_sql(struct sim_sql *sql, const struct sim_ordering *ordering, int i,
		 const struct sim_cookie *cookie)
{
	const struct sim_order *order = &ordering->items[i];
	const struct sim_mark *mark = sim_cookie_mark(cookie, order->name);
	struct sim_value value;
	const char *text = NULL;
	int			n = 0;

	if (mark == NULL)
		sim_cookie_bad(sql->req, sql->res);
	else if (mark->null)
		return "NULL";
	else if (mark->unknown)
	{
		text = looked_up(sql, ordering, order, cookie);

		if (text == NULL)
			sim_cookie_bad(sql->req, sql->res);
		return text;
	}
	else if (order->column == NULL || order->column == order->column->table->partition)
		n = sim_sql_bind_text(sql, mark->last, strlen(mark->last));
	else if (sim_value_from_literal(sql->req, sql->res, order->column, mark->last,
									strlen(mark->last), &value))
		n = sim_sql_bind(sql, &value);
	return n > 0 ? sim_fmt(sql->req->arena, "?%d", n) : NULL;
}

/* "comes after the value"; returns false if nothing can */
static bool
behind(struct sim_buf *out, const struct sim_ordering *ordering, const struct sim_order *order,
	   const char *value)
{
	/* the rows' own key, not that of a row to which a lookup leads */
	bool		key = order->column == ordering->from->table->id &&
	order->name == order->column->name;
	bool		null = strcmp(value, "NULL") == 0;

	if (null && order->desc)
		return false;
	if (null)
		sim_putf(out, "%s IS NOT NULL", order->sql);
	else if (order->desc && key)
		sim_putf(out, "%s<%s", order->sql, value);
	else if (order->desc)
		sim_putf(out, "(%s<%s OR %s IS NULL)", order->sql, value, order->sql);
	else
		sim_putf(out, "%s>%s", order->sql, value);
	return true;
}

bool
sim_keyset_sql(struct sim_sql *sql, const struct sim_ordering *ordering,
			   const struct sim_cookie *cookie, struct sim_buf *out)
{
	const char *values[MAX_MARKS];
	bool		any = false;
	int			i;
	int			j;

	for (i = 0; i < ordering->n && i < MAX_MARKS; i++)
	{
		values[i] = mark_sql(sql, ordering, i, cookie);
		if (values[i] == NULL)
			return false;
	}
	if (ordering->n == 1)
	{
		if (!behind(out, ordering, &ordering->items[0], values[0]))
			sim_putc(out, '0');
		return true;
	}
	/* implied by the next condition, but an index can serve this one */
	if (!ordering->items[0].desc && strcmp(values[0], "NULL") != 0)
		sim_putf(out, "%s>=%s AND ", ordering->items[0].sql, values[0]);
	sim_putc(out, '(');
	for (i = 0; i < ordering->n; i++)
	{
		struct sim_buf rung = {0};

		if (behind(&rung, ordering, &ordering->items[i], values[i]))
		{
			sim_puts(out, any ? " OR (" : "(");
			for (j = 0; j < i; j++)
				sim_putf(out, "%s IS %s AND ", ordering->items[j].sql, values[j]);
			sim_put(out, rung.s, rung.len);
			sim_putc(out, ')');
			any = true;
		}
		sim_buf_free(&rung);
	}
	sim_puts(out, any ? ")" : "0)");
	return true;
}

/* ----------
 * Reading a cookie
 * ----------
 */

struct reading
{
	struct sim_req *req;
	struct sim_cookie *cookie;
	const char *inner;			/* the cookie within the cookie */
	bool		outer;
};

static void
read_outer(struct reading *rd, const char **atts)
{
	for (; atts[0] != NULL; atts += 2)
	{
		if (strcmp(atts[0], "pagenumber") == 0)
			rd->cookie->page = strtol(atts[1], NULL, 10);
		else if (strcmp(atts[0], "pagingcookie") == 0)
			rd->inner = sim_strdup(rd->req->arena, atts[1]);
		else if (strcmp(atts[0], "istracking") == 0)
			rd->cookie->tracking = strcmp(atts[1], "True") == 0;
	}
}

static void
read_mark(struct reading *rd, const char *name, const char **atts)
{
	struct sim_mark *mark;

	if (rd->cookie->n == MAX_MARKS)
		return;
	mark = &rd->cookie->marks[rd->cookie->n++];
	mark->name = sim_strdup(rd->req->arena, name);
	mark->unknown = true;
	for (; atts[0] != NULL; atts += 2)
	{
		if (strcmp(atts[0], "last") == 0)
			mark->last = sim_strdup(rd->req->arena, atts[1]);
		else if (strcmp(atts[0], "lastnull") == 0)
			mark->null = true;
		else if (strcmp(atts[0], "first") == 0)
			mark->first = sim_strdup(rd->req->arena, atts[1]);
	}
	if (mark->last != NULL || mark->null)
		mark->unknown = false;
}

static void XMLCALL
read_element(void *data, const XML_Char *name, const XML_Char **atts)
{
	struct reading *rd = data;

	if (rd->outer && strcmp(name, "cookie") == 0)
		read_outer(rd, atts);
	else if (!rd->outer && strcmp(name, "cookie") != 0)
		read_mark(rd, name, atts);
}

static bool
read_xml(struct reading *rd, const char *text)
{
	XML_Parser	parser = XML_ParserCreate("UTF-8");
	bool		ok;

	XML_SetUserData(parser, rd);
	XML_SetStartElementHandler(parser, read_element);
	ok = XML_Parse(parser, text, (int) strlen(text), 1) == XML_STATUS_OK;
	XML_ParserFree(parser);
	return ok;
}

bool
sim_cookie_parse(struct sim_req *req, struct sim_res *res, const char *text,
				 struct sim_cookie *cookie)
{
	struct reading rd = {req, cookie, NULL, true};
	char	   *inner;

	memset(cookie, 0, sizeof(*cookie));
	cookie->page = 1;
	if (text == NULL)
		return true;
	if (!read_xml(&rd, text) || rd.inner == NULL || cookie->page < 2)
		return sim_cookie_bad(req, res);
	inner = sim_strdup(req->arena, rd.inner);
	cookie->marks = sim_alloc(req->arena, sizeof(*cookie->marks) * MAX_MARKS);
	rd.outer = false;
	if (!sim_url_decode(inner, false) || !read_xml(&rd, inner) || cookie->n == 0)
		return sim_cookie_bad(req, res);
	return true;
}

const struct sim_mark *
sim_cookie_mark(const struct sim_cookie *cookie, const char *name)
{
	int			i;

	for (i = 0; i < cookie->n; i++)
	{
		if (strcmp(cookie->marks[i].name, name) == 0)
			return &cookie->marks[i];
	}
	return NULL;
}

/* ----------
 * Writing links
 * ----------
 */

/* writes an XML attribute's value: white space other than blanks would not survive unescaped */
static void
put_attribute(struct sim_buf *buf, const char *name, const char *value)
{
	sim_putf(buf, " %s=\"", name);
	for (; *value != '\0'; value++)
	{
		if ((unsigned char) *value < ' ')
			sim_putf(buf, "&#%d;", *value);
		else
			sim_put_xml(buf, value, 1);
	}
	sim_putc(buf, '"');
}

static void
put_encoded(struct sim_buf *url, const char *s, const char *plain)
{
	for (; *s != '\0'; s++)
	{
		if (isalnum((unsigned char) *s) || strchr(plain, *s) != NULL)
			sim_putc(url, *s);
		else
			sim_putf(url, "%%%02X", (unsigned char) *s);
	}
}

void
sim_link_cookie(struct sim_buf *url, const struct sim_cookie *cookie)
{
	struct sim_buf inner = {0};
	struct sim_buf outer = {0};
	const char *s;
	int			i;

	sim_putf(&inner, "<cookie page=\"%ld\">", cookie->page - 1);
	for (i = 0; i < cookie->n; i++)
	{
		const struct sim_mark *mark = &cookie->marks[i];

		sim_putf(&inner, "<%s", mark->name);
		if (mark->last != NULL || mark->null)
			put_attribute(&inner, mark->null ? "lastnull" : "last", mark->null ? "1" : mark->last);
		if (mark->first != NULL || mark->first_null)
			put_attribute(&inner, mark->first_null ? "firstnull" : "first",
						  mark->first_null ? "1" : mark->first);
		sim_puts(&inner, " />");
	}
	sim_puts(&inner, "</cookie>");
	sim_putf(&outer, "<cookie pagenumber=\"%ld\" pagingcookie=\"", cookie->page);
	for (s = inner.s; *s != '\0'; s++)
	{
		if (isalnum((unsigned char) *s) || strchr("-_.", *s) != NULL)
			sim_putc(&outer, *s);
		else
			sim_putf(&outer, "%%%02x", (unsigned char) *s);
	}
	sim_putf(&outer, "\" istracking=\"%s\" />", cookie->tracking ? "True" : "False");
	sim_puts(url, "$skiptoken=");
	put_encoded(url, outer.s, "-_.=/");
	sim_buf_free(&inner);
	sim_buf_free(&outer);
}

void
sim_put_query_text(struct sim_buf *url, const char *s)
{
	put_encoded(url, s, "-_.~$,()/:=@'!*;");
}

/* returns true if this option, as written in a URL, is one of the two tokens */
static bool
is_token(const struct sim_req *req, const char *option, size_t len)
{
	char	   *name = sim_strndup(req->arena, option, len);
	char	   *equals = strchr(name, '=');

	if (equals != NULL)
		*equals = '\0';
	return sim_url_decode(name, true) &&
		(strcmp(name, "$skiptoken") == 0 || strcmp(name, "$deltatoken") == 0);
}

void
sim_link_start(struct sim_buf *url, const struct sim_req *req, const char *path)
{
	const char *p = req->query;

	sim_putf(url, "%s%s%s?", req->base_url, SIM_ROOT, path);
	while (*p != '\0')
	{
		size_t		len = strcspn(p, "&");

		if (len > 0 && !is_token(req, p, len))
		{
			/* as received, but with characters encoded that the client should have encoded */
			put_encoded(url, sim_strndup(req->arena, p, len), "%+-_.~$,()/:=@'!*;[]&?");
			sim_putc(url, '&');
		}
		p += len + (p[len] == '&');
	}
}

/*
 * fetch_page.c
 *		The page of a FetchXML query: page size, paging cookies, and the
 *		complete statement.
 *
 * A cookie is used when it belongs to the page before the one asked for:
 * the statement then looks for rows after the cookie's keys.  Else the pages
 * are counted off ("simple paging"), which ends at 50,000 rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <expat.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch_sql.h"
#include "store/guid.h"

#define PAGE_STANDARD 5000
#define PAGE_ELASTIC 500

#define WHERE " WHERE "			/* as fetch_sql.c writes it */

#define WRONG_COOKIE "0x80041129"	/* of another order */
#define BAD_COOKIE "0x8004112A"

struct entry
{
	const char *name;
	const char *last;			/* NULL: null */
	struct entry *next;
};

struct cookie
{
	struct sim_arena *arena;
	XML_Parser	parser;
	int			page;
	struct entry *entries;
	struct entry **tail;
	int			depth;
	bool		bad;
};

static const char *
xml_attribute(const XML_Char **pairs, const char *name)
{
	for (; *pairs != NULL; pairs += 2)
	{
		if (strcmp(pairs[0], name) == 0)
			return pairs[1];
	}
	return NULL;
}

static void XMLCALL
start_element(void *user, const XML_Char *name, const XML_Char **pairs)
{
	struct cookie *cookie = user;

	cookie->depth++;
	if (cookie->depth == 1)
	{
		const char *page = xml_attribute(pairs, "page");

		if (strcmp(name, "cookie") != 0 || page == NULL)
			cookie->bad = true;
		else
			cookie->page = (int) strtol(page, NULL, 10);
	}
	else if (cookie->depth == 2)
	{
		struct entry *entry = sim_alloc(cookie->arena, sizeof(*entry));
		const char *last = xml_attribute(pairs, "last");

		if (last == NULL && xml_attribute(pairs, "lastnull") == NULL)
			cookie->bad = true;
		entry->name = sim_strdup(cookie->arena, name);
		entry->last = last ? sim_strdup(cookie->arena, last) : NULL;
		*cookie->tail = entry;
		cookie->tail = &entry->next;
	}
	else
		cookie->bad = true;
}

static void XMLCALL
end_element(void *user, const XML_Char *name)
{
	(void) name;
	((struct cookie *) user)->depth--;
}

static void XMLCALL
start_doctype(void *user, const XML_Char *name, const XML_Char *system_id,
			  const XML_Char *public_id, int internal)
{
	struct cookie *cookie = user;

	(void) name;
	(void) system_id;
	(void) public_id;
	(void) internal;
	cookie->bad = true;
	XML_StopParser(cookie->parser, XML_FALSE);
}

static bool
parse_cookie(struct sim_fetch_query *q, struct cookie *cookie)
{
	const char *xml = q->tree->cookie;
	bool		ok;

	memset(cookie, 0, sizeof(*cookie));
	cookie->arena = q->req->arena;
	cookie->tail = &cookie->entries;
	cookie->parser = XML_ParserCreate("UTF-8");
	XML_SetUserData(cookie->parser, cookie);
	XML_SetElementHandler(cookie->parser, start_element, end_element);
	XML_SetStartDoctypeDeclHandler(cookie->parser, start_doctype);
	ok = XML_Parse(cookie->parser, xml, (int) strlen(xml), XML_TRUE) == XML_STATUS_OK;
	XML_ParserFree(cookie->parser);
	if (!ok || cookie->bad || cookie->page < 1)
		return sim_fail(q->req, q->res, 400, BAD_COOKIE, "Invalid page number in paging cookie.");
	return true;
}

/* the keys */

static bool
key_value(struct sim_fetch_query *q, const struct sim_fetch_key *key, const char *text,
		  struct sim_value *value)
{
	char	   *end = "";

	memset(value, 0, sizeof(*value));
	if (text == NULL)
		return true;
	switch (key->kind)
	{
		case SIM_KEY_ID:
			value->kind = SIM_V_BLOB;
			if (!sim_guid_parse(text, strlen(text), value->fixed))
				end = "?";
			break;
		case SIM_KEY_TEXT:
			value->kind = SIM_V_TEXT;
			value->s = text;

			value->len = strlen(text);
			break;
		case SIM_KEY_INTEGER:
			value->kind = SIM_V_INT;
			value->i = strtoll(text, &end, 10);
			break;
		case SIM_KEY_REAL:
			value->kind = SIM_V_REAL;
			value->r = strtod(text, &end);
			break;
		case SIM_KEY_LITERAL:
			return sim_value_from_literal(q->req, q->res, key->column, text, strlen(text),
										  value);
	}
	if (*end != '\0' || *text == '\0')
	{
		if (key->kind == SIM_KEY_TEXT)
			return true;
		return sim_fail(q->req, q->res, 400, BAD_COOKIE, "Invalid paging cookie.");
	}
	return true;
}

const char *
sim_fetch_key_text(const struct sim_fetch_query *q, const struct sim_fetch_key *key,
				   sqlite3_stmt *stmt)
{
	struct sim_arena *arena = q->req->arena;
	struct sim_buf buf = {0};
	const char *text;
	char	   *c;

	if (sqlite3_column_type(stmt, key->index) == SQLITE_NULL)
		return NULL;
	switch (key->kind)
	{
		case SIM_KEY_ID:
			if (sqlite3_column_bytes(stmt, key->index) != 16)
				return NULL;
			text = sim_fmt(arena, "{%36s}", "");

			sim_guid_print(sqlite3_column_blob(stmt, key->index), (char *) text + 1);
			for (c = (char *) text; *c != '\0'; c++)
			{
				if (*c >= 'a' && *c <= 'f')
					*c -= 'a' - 'A';
			}
			return text;

		case SIM_KEY_INTEGER:
			return sim_fmt(arena, "%lld", (long long) sqlite3_column_int64(stmt, key->index));
		case SIM_KEY_REAL:
			return sim_fmt(arena, "%.17g", sqlite3_column_double(stmt, key->index));
		case SIM_KEY_TEXT:
			return sim_strdup(arena, (const char *) sqlite3_column_text(stmt, key->index));
		default:
			sim_value_print_literal(&buf, key->column, stmt, key->index);
			text = sim_strndup(arena, buf.s ? buf.s : "", buf.len);

			sim_buf_free(&buf);
			return text;
	}
}

static void
put_key(struct sim_buf *sql, const struct sim_fetch_key *key)
{
	sim_puts(sql, key->expr);
	/* partitions differ by case */
	if (key->kind == SIM_KEY_TEXT &&
		(key->column == NULL || key->column != key->column->table->partition))
		sim_puts(sql, " COLLATE DV");
}

/* the key is greater than the cookie's, null being the least value */
static void
put_greater(struct sim_buf *sql, const struct sim_fetch_key *key, int param)
{
	bool		or_null = key->descending && !key->never_null;

	if (param == 0 && key->descending)
		sim_putc(sql, '0');
	else if (param == 0)
		sim_putf(sql, "%s IS NOT NULL", key->expr);
	else
	{
		sim_puts(sql, or_null ? "(" : "");
		put_key(sql, key);
		sim_putf(sql, "%c?%d", key->descending ? '<' : '>', param);
		if (or_null)
			sim_putf(sql, " OR %s IS NULL)", key->expr);
	}
}

static void
put_equal(struct sim_buf *sql, const struct sim_fetch_key *key, int param)
{
	put_key(sql, key);
	if (param == 0)
		sim_puts(sql, " IS NULL");
	else
		sim_putf(sql, "=?%d", param);
}

/*
 * "The row comes after the one with these keys": the first key is greater, or
 * it is equal and the second is greater, and so on.  Not nested, because
 * SQLite's parser has a small stack.  Parameter 0 stands for null.
 */
static void
put_after(struct sim_buf *sql, const struct sim_fetch_key *keys, int n, const int *params)
{
	int			i;
	int			j;

	sim_putc(sql, '(');
	for (i = 0; i < n; i++)
	{
		if (i > 0)
			sim_puts(sql, " OR ");
		for (j = 0; j < i; j++)
		{
			put_equal(sql, &keys[j], params[j]);
			sim_puts(sql, " AND ");
		}
		put_greater(sql, &keys[i], params[i]);
	}
	sim_putc(sql, ')');
}

static bool
put_cookie_condition(struct sim_fetch_query *q, const struct cookie *cookie)
{
	const struct entry *entry = cookie->entries;
	struct sim_value value;
	int		   *params;
	int			i;

	params = sim_alloc(q->req->arena, (q->ncookie + 1) * sizeof(*params));
	for (i = 0; i < q->ncookie && entry != NULL; i++, entry = entry->next)
	{
		if (strcmp(entry->name, q->keys[i].name) != 0)
			break;
		if (!key_value(q, &q->keys[i], entry->last, &value))
			return false;
		if (!sim_value_is_null(&value))
			params[i] = sim_fetch_bind(q, &value);
	}
	if (!q->cookie || i < q->ncookie || entry != NULL)
		return sim_fail(q->req, q->res, 400, WRONG_COOKIE,
						"Order by columns do not match those in paging cookie.");
	/* lets SQLite start in the middle of the primary key's index */
	if (q->ncookie > 1 && params[0] > 0 && (!q->keys[0].descending || q->keys[0].never_null))
	{
		put_key(&q->sql, &q->keys[0]);
		sim_putf(&q->sql, "%s?%d AND ", q->keys[0].descending ? "<=" : ">=", params[0]);
	}
	put_after(&q->sql, q->keys, q->ncookie, params);
	return true;
}

/* the statement */

void
sim_fetch_put_order(const struct sim_fetch_query *q, struct sim_buf *sql)
{
	int			i;

	for (i = 0; i < q->nkeys; i++)
	{
		sim_puts(sql, i == 0 ? " ORDER BY " : ",");
		put_key(sql, &q->keys[i]);
		if (q->keys[i].descending)
			sim_puts(sql, " DESC");
	}
}

void
sim_fetch_put_select(const struct sim_fetch_query *q, struct sim_buf *sql)
{
	int			i;

	sim_puts(sql, q->tree->distinct && !q->tree->aggregate ? "SELECT DISTINCT " : "SELECT ");
	for (i = 0; i < q->nexprs; i++)
	{
		if (i > 0)
			sim_putc(sql, ',');
		sim_puts(sql, q->exprs[i]);
	}
	if (q->nexprs == 0)
		sim_putc(sql, '1');
	if (q->tree->aggregate)
		sim_putf(sql, " FROM (SELECT %s", q->inner.s);
}

static void
set_page(struct sim_fetch_query *q)
{
	const struct sim_fetch_tree *tree = q->tree;
	int			max = q->table->type == SIM_ELASTIC ? PAGE_ELASTIC : PAGE_STANDARD;

	q->limit = tree->top > 0 ? tree->top : tree->count;
	if ((q->limit == 0 && !tree->limited) || q->limit > max)
		q->limit = max;
	/* no annotation announces more groups than an answer holds */
	q->may_have_more = tree->top == 0 && !tree->limited && !tree->aggregate;
	q->page = tree->page > 0 ? tree->page : 1;
}

bool
sim_fetch_page(struct sim_fetch_query *q)
{
	struct cookie cookie = {0};
	bool		use_cookie = false;
	int64_t		skip = q->tree->offset;

	set_page(q);
	if (q->tree->cookie != NULL && *q->tree->cookie != '\0')
	{
		if (!parse_cookie(q, &cookie))
			return false;
		use_cookie = cookie.page == q->page - 1;
	}
	if (!use_cookie && q->page > 1)
	{
		skip = (int64_t) (q->page - 1) * q->limit;
		if (skip + q->limit > SIM_FETCH_MAX_SIMPLE)
			return sim_fail(q->req, q->res, 400, "0x8004430A",
							"Paging cookie is required when trying to retrieve a set of records "
							"on any high pages.");
	}
	sim_fetch_put_select(q, &q->sql);
	sim_put(&q->sql, q->from.s, q->where);
	if (use_cookie)
	{
		/* first, because SQLite starts at the first of several lower limits */
		sim_puts(&q->sql, WHERE);
		if (!put_cookie_condition(q, &cookie))
			return false;
		sim_puts(&q->sql, " AND ");
		sim_puts(&q->sql, q->from.s + q->where + strlen(WHERE));
	}
	else
		sim_puts(&q->sql, q->from.s + q->where);
	if (q->tail.len > 0)
		sim_put(&q->sql, q->tail.s, q->tail.len);
	sim_fetch_put_order(q, &q->sql);
	sim_puts(&q->sql, " LIMIT ");
	sim_fetch_bind_int(q, &q->sql, q->limit + q->may_have_more);
	if (skip > 0)
	{
		sim_puts(&q->sql, " OFFSET ");
		sim_fetch_bind_int(q, &q->sql, skip);
	}
	return true;
}

/* the cookie's text */

/* percent-encoding with lower-case digits, as the service writes it */
static void
put_encoded(struct sim_buf *out, const char *s, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	size_t		i;

	for (i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) s[i];

		if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			strchr("-._", c) != NULL)
			sim_putc(out, (char) c);
		else
		{
			sim_putc(out, '%');
			sim_putc(out, digits[c >> 4]);
			sim_putc(out, digits[c & 15]);
		}
	}
}

static void
put_cookie_value(struct sim_buf *xml, const char *which, const char *text)
{
	if (text == NULL)
		sim_putf(xml, " %snull=\"1\"", which);
	else
	{
		sim_putf(xml, " %s=\"", which);
		sim_put_xml(xml, text, strlen(text));
		sim_putc(xml, '"');
	}
}

void
sim_fetch_put_cookie(const struct sim_fetch_query *q, struct sim_buf *out,
					 const char *const *first, const char *const *last)
{
	struct sim_buf xml = {0};
	struct sim_buf once = {0};
	int			i;

	sim_putf(&xml, "<cookie page=\"%d\">", q->page);
	for (i = 0; i < q->ncookie; i++)
	{
		sim_putf(&xml, "<%s", q->keys[i].name);
		put_cookie_value(&xml, "last", last[i]);
		put_cookie_value(&xml, "first", first[i]);
		sim_puts(&xml, " />");
	}
	sim_puts(&xml, "</cookie>");
	sim_putf(out, "<cookie pagenumber=\"%d\" pagingcookie=\"", q->page + 1);
	put_encoded(&once, xml.s, xml.len);
	put_encoded(out, once.s, once.len);
	sim_puts(out, "\" istracking=\"False\" />");
	sim_buf_free(&xml);
	sim_buf_free(&once);
}

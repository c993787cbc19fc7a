/*
 * odata_apply.c
 *		$apply: filter(…)/groupby((…),aggregate(…)) and its parts.
 *
 * One grouped statement.  The rows are counted first, since the service
 * refuses to aggregate more than 50,000 of them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "store/decimal.h"
#include "odata/odata_read.h"
#include "wire/quirks.h"
#include "store/store.h"

#define MAX_ROWS 50000
#define MAX_ITEMS 50

enum method
{
	M_COUNT,
	M_SUM,
	M_AVERAGE,
	M_MIN,
	M_MAX
};

struct aggregate
{
	enum method method;
	struct sim_place place;		/* not for M_COUNT */
	const char *alias;
	int			stmt_index;
};

struct group
{
	struct sim_place place;
	struct sim_out_column out;
};

struct apply
{
	struct sim_req *req;
	struct sim_res *res;
	const struct sim_source *source;
	struct sim_sql sql;
	struct sim_from from;
	struct sim_node filter;		/* AND of the filters given */
	struct group groups[MAX_ITEMS];
	int			ngroups;
	struct aggregate aggregates[MAX_ITEMS];
	int			naggregates;
	bool		grouped;		/* groupby or aggregate was present */
};

static bool
refuse(struct apply *ap, const char *fmt, const char *what)
{
	return sim_fail(ap->req, ap->res, 400, SIM_BAD_QUERY, fmt, what);
}

static bool
path_of(struct apply *ap, struct sim_text text, struct sim_place *place)
{
	struct sim_node *path;

	return sim_path_parse(ap->req, ap->res, text.s, text.len, &path) &&
		sim_place_find(&ap->sql, &ap->from, path, place);
}

/* name(inner): returns true if it is that call */
static bool
call_of(struct apply *ap, const struct sim_text *text, const char *name, struct sim_text *inner)
{
	size_t		len = strlen(name);

	if (text->len < len + 2 || memcmp(text->s, name, len) != 0 || text->s[len] != '(' ||
		text->s[text->len - 1] != ')')
		return false;
	inner->len = text->len - len - 2;

	inner->s = sim_strndup(ap->req->arena, text->s + len + 1, inner->len);
	return true;
}

/* ----------
 * Reading the transformations
 * ----------
 */

static bool
has_function(const struct sim_node *node)
{
	int			i;

	if (node->kind == SIM_NODE_FUNCTION)
		return true;
	for (i = 0; i < node->nargs; i++)
	{
		if (has_function(node->args[i]))
			return true;
	}
	return false;
}

static bool
add_filter(struct apply *ap, const char *text)
{
	struct sim_node *node;
	struct sim_node **args = sim_alloc(ap->req->arena, sizeof(*args) * (ap->filter.nargs + 1));

	if (!sim_filter_parse(ap->req, ap->res, text, true, &node))
		return false;
	if (has_function(node) && sim_quirk(ap->req->sim, SIM_QUIRK_NO_APPLY_FUNCTIONS))
		return refuse(ap, "The query node %s is not supported.", "SingleValueFunctionCall");
	if (ap->filter.nargs > 0)
		memcpy(args, ap->filter.args, sizeof(*args) * ap->filter.nargs);
	args[ap->filter.nargs++] = node;
	ap->filter.args = args;
	return true;
}

static bool
groupable(const struct sim_column *column)
{
	return column->type != SIM_DATETIME && column->type != SIM_MULTISELECT &&
		column->type != SIM_IMAGE && column->type != SIM_FILE && column->type != SIM_MANAGED &&
		(column->stored || column->formula != NULL);
}

static bool
add_group(struct apply *ap, struct sim_text text)
{
	struct group *group = &ap->groups[ap->ngroups];
	struct sim_column *column;

	if (ap->ngroups == MAX_ITEMS)
		return refuse(ap, "Too many items in %s.", "groupby");
	if (!path_of(ap, text, &group->place))
		return false;
	column = group->place.column;
	if (!groupable(column))
		return refuse(ap, "Grouping by the attribute '%s' is not supported.", column->name);
	memset(&group->out, 0, sizeof(group->out));
	group->out.column = column;
	if (strcmp(group->place.alias, ap->from.alias) != 0)
		group->out.name = sim_fmt(ap->req->arena, "%s_%s", column->table->name, column->name);
	ap->ngroups++;
	return true;
}

static bool
identifier(const char *s)
{
	if (!isalpha((unsigned char) *s) && *s != '_')
		return false;
	while (isalnum((unsigned char) *s) || *s == '_')
		s++;
	return *s == '\0';
}

/* returns true if a method accepts columns of a type */
static bool
takes(enum method method, enum sim_type type)
{
	bool		number = type == SIM_INTEGER || type == SIM_BIGINT || type == SIM_DECIMAL ||
	type == SIM_MONEY || type == SIM_DOUBLE;

	if (method == M_SUM || method == M_AVERAGE)
		return number;
	return number || type == SIM_DATETIME;
}

/* "revenue with sum as total", "$count as n" */
static bool
add_aggregate(struct apply *ap, struct sim_text text)
{
	static const char *const methods[] = {NULL, "sum", "average", "min", "max"};
	struct aggregate *aggregate = &ap->aggregates[ap->naggregates];
	char		what[128];
	char		with[16] = "";
	char		method[32];
	char		as[16];
	char		alias[128];
	int			m = M_COUNT;
	int			i;

	if (ap->naggregates == MAX_ITEMS)
		return refuse(ap, "Too many items in %s.", "aggregate");
	if (sscanf(text.s, "%127s %15s %31s %15s %127s", what, with, method, as, alias) == 5 &&
		strcmp(with, "with") == 0 && strcmp(as, "as") == 0)
	{
		struct sim_text path = {what, strlen(what)};

		for (m = M_SUM; m <= M_MAX && strcmp(methods[m], method) != 0;)
			m++;
		if (m > M_MAX)
			return refuse(ap, "The aggregation method '%s' is not supported.",
						  sim_strdup(ap->req->arena, method));
		if (!path_of(ap, path, &aggregate->place))
			return false;
		if (!takes((enum method) m, aggregate->place.column->type))
			return sim_fail(ap->req, ap->res, 400, "0x80040203",
							"The aggregation method '%s' is not valid for attribute '%s'.",
							methods[m], aggregate->place.column->name);
	}
	else if (sscanf(text.s, "%127s %15s %127s %1s", what, as, alias, method) != 3 ||
			 strcmp(what, "$count") != 0 || strcmp(as, "as") != 0)
		return refuse(ap, "Syntax error in the aggregate expression '%s'.", text.s);
	if (!identifier(alias))
		return refuse(ap, "The alias of '%s' is not a valid name.", text.s);
	for (i = 0; i < ap->naggregates; i++)
	{
		if (strcmp(ap->aggregates[i].alias, alias) == 0)
			return refuse(ap, "The alias of '%s' is used twice.", text.s);
	}
	aggregate->method = (enum method) m;
	aggregate->alias = sim_strdup(ap->req->arena, alias);
	ap->naggregates++;
	return true;
}

static bool
add_aggregates(struct apply *ap, const char *list)
{
	struct sim_text item;

	ap->grouped = true;
	while (sim_list_next(ap->req->arena, &list, ',', &item))
	{
		if (!add_aggregate(ap, item))
			return false;
	}
	return true;
}

/* "(a,b)" or "(a,b),aggregate(…)" */
static bool
add_groupby(struct apply *ap, const char *text)
{
	struct sim_text item;
	struct sim_text inner;
	const char *list;

	ap->grouped = true;
	if (!sim_list_next(ap->req->arena, &text, ',', &item) || !call_of(ap, &item, "", &inner))
		return refuse(ap, "Syntax error in the groupby expression '%s'.", item.s);
	list = inner.s;
	while (sim_list_next(ap->req->arena, &list, ',', &item))
	{
		if (!add_group(ap, item))
			return false;
	}
	if (!sim_list_next(ap->req->arena, &text, ',', &item))
		return true;
	if (!call_of(ap, &item, "aggregate", &inner) || text != NULL)
		return refuse(ap, "Syntax error in the groupby expression '%s'.", item.s);
	return add_aggregates(ap, inner.s);
}

static bool
read_transformations(struct apply *ap, const char *text)
{
	const char *p = text;
	struct sim_text item;
	struct sim_text inner;

	while (sim_list_next(ap->req->arena, &p, '/', &item))
	{
		bool		ok;

		if (ap->grouped)
			return refuse(ap, "The transformation '%s' is not supported after grouping.", item.s);
		if (call_of(ap, &item, "filter", &inner))
			ok = add_filter(ap, inner.s);
		else if (call_of(ap, &item, "groupby", &inner))
			ok = add_groupby(ap, inner.s);
		else if (call_of(ap, &item, "aggregate", &inner))
			ok = add_aggregates(ap, inner.s);
		else
			return refuse(ap, "The transformation '%s' is not supported in $apply.", item.s);
		if (!ok)
			return false;
	}
	if (!ap->grouped)
		return refuse(ap, "$apply '%s' neither groups nor aggregates.", text);
	return true;
}

/* ----------
 * The statement
 * ----------
 */

static void
aggregate_sql(struct aggregate *aggregate, struct sim_buf *out)
{
	struct sim_place place = aggregate->place;

	if (aggregate->method == M_COUNT)
	{
		sim_puts(out, "count(*)");
		return;
	}
	/* amounts may be in different currencies */
	if (sim_base_money(place.column) != NULL)
		place.column = sim_base_money(place.column);
	if (aggregate->method == M_MIN || aggregate->method == M_MAX)
		sim_puts(out, aggregate->method == M_MIN ? "min" : "max");
	else if (aggregate->method == M_AVERAGE)
		sim_puts(out, place.column->type == SIM_DECIMAL || place.column->type == SIM_MONEY
				 ? "dec_avg" : "avg");
	else
		sim_puts(out, sim_number_aggregate(place.column->type, false));
	sim_putc(out, '(');
	sim_place_sql(out, &place);
	sim_putc(out, ')');
}

/* $orderby can refer only to the groups */
static bool
order_sql(struct apply *ap, const struct sim_query *query, struct sim_buf *out)
{
	int			i;
	int			j;

	for (i = 0; i < query->norder; i++)
	{
		const struct sim_node *path = query->order[i].path;
		struct sim_place place;

		for (j = 0; j < ap->naggregates; j++)
		{
			if (path->npath == 1 && sim_text_is(&path->path[0], ap->aggregates[j].alias))
				return refuse(ap, "The query node %s is not supported.",
							  "SingleValueOpenPropertyAccess");
		}
		if (!sim_place_find(&ap->sql, &ap->from, path, &place))
			return false;
		for (j = 0; j < ap->ngroups; j++)
		{
			if (ap->groups[j].place.column == place.column &&
				strcmp(ap->groups[j].place.alias, place.alias) == 0)
				break;
		}
		if (j == ap->ngroups)
			return refuse(ap, "The attribute '%s' of $orderby is not one of groupby.",
						  place.column->name);
		if (ap->groups[j].out.label_index >= 0)
			sim_putf(out, "%s%d COLLATE DV", out->len > 0 ? "," : " ORDER BY ",
					 ap->groups[j].out.label_index + 1);
		else
			sim_putf(out, "%s%d", out->len > 0 ? "," : " ORDER BY ",
					 ap->groups[j].out.stmt_index + 1);
		sim_puts(out, query->order[i].desc ? " DESC" : "");
	}
	/* so that the answer is the same every time */
	for (j = 0; j < ap->ngroups; j++)
		sim_putf(out, "%s%d", out->len > 0 ? "," : " ORDER BY ", ap->groups[j].out.stmt_index + 1);
	return true;
}

static bool
apply_sql(struct apply *ap, const struct sim_query *query, unsigned int flags, struct sim_buf *out)
{
	struct sim_buf where = {0};
	struct sim_buf order = {0};
	bool		any = false;
	bool		ok;
	int			next = 0;
	int			i;

	sim_puts(out, "SELECT ");
	for (i = 0; i < ap->ngroups; i++)
		sim_out_sql(out, ap->groups[i].place.alias, &ap->groups[i].out,
					flags | (query->norder > 0 ? SIM_OUT_LABELS : 0), &next);
	for (i = 0; i < ap->naggregates; i++)
	{
		sim_puts(out, next > 0 ? "," : "");
		aggregate_sql(&ap->aggregates[i], out);
		ap->aggregates[i].stmt_index = next++;
	}
	ok = sim_source_sql(&ap->sql, &ap->from, ap->source, &any, &where);
	if (ok && ap->filter.nargs > 0)
	{
		sim_puts(&where, any ? " AND " : " WHERE ");
		ok = sim_filter_sql(&ap->sql, &ap->from, &ap->filter, &where);
	}
	ok = ok && order_sql(ap, query, &order);
	if (ok)
	{
		sim_puts(out, " FROM ");
		sim_from_sql(&ap->from, out);
		if (where.len > 0)
			sim_put(out, where.s, where.len);
		for (i = 0; i < ap->ngroups; i++)
			sim_putf(out, "%s%d", i > 0 ? "," : " GROUP BY ", ap->groups[i].out.stmt_index + 1);
		if (order.len > 0)
			sim_put(out, order.s, order.len);
		sim_putf(out, " LIMIT ?%d", sim_sql_bind_int(&ap->sql, query->top > 0 ? query->top :
													 ap->source->table->type == SIM_ELASTIC ?
													 SIM_ELASTIC_PAGE : SIM_PAGE));
	}
	sim_buf_free(&where);
	sim_buf_free(&order);
	return ok;
}

/* ----------
 * The answer
 * ----------
 */

static void
put_aggregate(struct sim_buf *buf, const struct aggregate *aggregate, sqlite3_stmt *stmt,
			  unsigned int flags, bool comma)
{
	struct sim_column *column = aggregate->place.column;
	struct sim_buf label = {0};
	int			i = aggregate->stmt_index;
	int			type = sqlite3_column_type(stmt, i);
	char		digits[48];

	if ((flags & SIM_OUT_LABELS) && aggregate->method != M_COUNT &&
		aggregate->method != M_AVERAGE && sim_value_label(&label, column, stmt, i))
	{
		sim_putf(buf, "%s\"%s@OData.Community.Display.V1.FormattedValue\":", comma ? "," : "",
				 aggregate->alias);
		sim_put_json(buf, label.s ? label.s : "", label.len);
		comma = true;
	}
	sim_buf_free(&label);
	sim_putf(buf, "%s\"%s\":", comma ? "," : "", aggregate->alias);
	if (type == SQLITE_BLOB)
		sim_put(buf, digits, (size_t) sim_dec_print(sim_dec_unpack(sqlite3_column_blob(stmt, i)),
													SIM_DEC_SCALE, digits));
	else if (aggregate->method == M_COUNT || (aggregate->method == M_SUM && type == SQLITE_INTEGER))
		sim_put_i64(buf, sqlite3_column_int64(stmt, i));
	else if (aggregate->method == M_AVERAGE)
		sim_putf(buf, "%.15g", sqlite3_column_double(stmt, i));
	else
		sim_value_print(buf, column, stmt, i);
}

static bool
print_groups(struct apply *ap, const struct sim_query *query, unsigned int flags)
{
	struct sim_out out = {.n = ap->ngroups, .flags = flags | SIM_OUT_OMIT_NULLS,
	.version_index = -1};
	struct sim_buf *body = &ap->res->body;
	struct sim_buf text = {0};
	sqlite3_stmt *stmt = NULL;
	bool		first = true;
	int			i;
	int			rc;

	if (apply_sql(ap, query, flags, &text))
		stmt = sim_sql_run(&ap->sql, text.s);
	sim_buf_free(&text);
	if (stmt == NULL)
		return false;
	out.columns = sim_alloc(ap->req->arena, sizeof(*out.columns) * (ap->ngroups + 1));
	for (i = 0; i < ap->ngroups; i++)
		out.columns[i] = ap->groups[i].out;
	sim_out_prepare(ap->req->arena, &out);
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
	{
		bool		any;

		sim_puts(body, first ? "{" : ",{");
		first = false;
		any = sim_print_members(body, &out, stmt);
		for (i = 0; i < ap->naggregates; i++)
		{
			if (sqlite3_column_type(stmt, ap->aggregates[i].stmt_index) == SQLITE_NULL)
				continue;
			put_aggregate(body, &ap->aggregates[i], stmt, flags, any);
			any = true;
		}
		sim_putc(body, '}');
		ap->res->rows++;
	}
	return sim_sql_done(&ap->sql, stmt, rc);
}

/* checks options that make no sense with $apply */
static bool
check_options(struct apply *ap)
{
	static const char *const names[] = {"$filter", "$expand", "$skiptoken"};
	size_t		i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		if (sim_param(ap->req, names[i]) != NULL)
			return refuse(ap, "The query option %s is not supported together with $apply.",
						  names[i]);
	}
	return true;
}

bool
sim_apply(struct sim_req *req, struct sim_res *res, const struct sim_source *source,
		  const char *text)
{
	struct apply *ap = sim_alloc(req->arena, sizeof(*ap));
	struct sim_query query;
	int64_t		n;

	ap->req = req;
	ap->res = res;
	ap->source = source;
	ap->filter.kind = SIM_NODE_AND;
	sim_sql_init(&ap->sql, req, res);
	sim_from_init(&ap->sql, &ap->from, source->table);
	if (!check_options(ap) || !sim_options_parse(req, res, source->table, false, &query) ||
		!read_transformations(ap, text) ||
		!sim_count_rows(req, res, source, ap->filter.nargs > 0 ? &ap->filter : NULL, MAX_ROWS, &n))
		return false;
	if (n > MAX_ROWS)
		return sim_fail(req, res, 400, "0x8004E023",
						"AggregateQueryRecordLimit exceeded. Cannot perform this operation.");
	sim_putf(&res->body, "{\"@odata.context\":\"%s%s$metadata#%s\",\"value\":[", req->base_url,
			 SIM_ROOT, source->table->set_name);
	if (!print_groups(ap, &query, sim_out_flags(req)))
		return false;
	sim_puts(&res->body, "]}");
	sim_json_answer(res, 200);
	return true;
}

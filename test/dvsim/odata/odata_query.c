/*
 * odata_query.c
 *		The query options of a read, resolved against the schema.
 *
 * The options of the request and those inside an $expand's parentheses go
 * through the same functions; a table lists where each is allowed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "odata/odata_query.h"

#define MAX_TOP 5000

/* state of reading the options of one level */
struct reader
{
	struct sim_req *req;
	struct sim_res *res;
	int			level;			/* 0: the request's own options */
	bool		single;			/* one row, not a collection */
	int		   *nexpands;		/* in the whole query */
};

static bool parse_level(struct reader *rd, const struct sim_pairs *options,
						struct sim_query *query);

static bool
bad_query(struct reader *rd, const char *fmt, const char *what)
{
	return sim_fail(rd->req, rd->res, 400, SIM_BAD_QUERY, fmt, what);
}

/* ----------
 * $select
 * ----------
 */

static bool
has_column(const struct sim_query *query, const struct sim_column *column)
{
	int			i;

	for (i = 0; i < query->ncolumns; i++)
	{
		if (query->columns[i] == column)
			return true;
	}
	return false;
}

static void
add_column(struct sim_query *query, struct sim_column *column)
{
	if (column != NULL && !has_column(query, column))
		query->columns[query->ncolumns++] = column;
}

/* returns true if this column's value can be printed */
static bool
readable(const struct sim_column *column)
{
	return column->selectable && column->valid_for_read &&
		(column->stored || column->formula != NULL);
}

static void
select_all(struct sim_query *query)
{
	int			i;

	for (i = 0; i < query->table->ncolumns; i++)
	{
		if (readable(&query->table->columns[i]))
			query->columns[query->ncolumns++] = &query->table->columns[i];
	}
}

static bool
select_name(struct reader *rd, struct sim_query *query, const struct sim_text *name)
{
	struct sim_column *column = sim_column_by_property(query->table, name->s, name->len);
	struct sim_expand collection;
	struct sim_target *target;

	if (column != NULL && readable(column))
	{
		add_column(query, column);
		return true;
	}
	if (sim_navigation(query->table, name, &target) != NULL ||
		sim_collection_find(query->table, name, &collection))
		return bad_query(rd, "The navigation property '%s' cannot be used in $select; use $expand "
						 "or the property of the lookup's value.", name->s);
	return sim_no_property(rd->req, rd->res, name->s, query->table->name);
}

/* a comma after the last name is ignored, as samples have one; a lone one is not */
static const char *
without_last_comma(struct reader *rd, const char *list)
{
	size_t		len = strlen(list);

	while (len > 0 && list[len - 1] == ' ')
		len--;
	if (len < 2 || list[len - 1] != ',')
		return list;
	return sim_strndup(rd->req->arena, list, len - 1);
}

static bool
parse_select(struct reader *rd, const char *value, struct sim_query *query)
{
	struct sim_table *table = query->table;
	struct sim_column *currency;
	struct sim_text item;
	bool		money = false;
	int			i;

	query->columns = sim_alloc(rd->req->arena, sizeof(*query->columns) * (table->ncolumns + 2));
	query->select = value = without_last_comma(rd, value == NULL ? "" : value);
	query->all = value[strspn(value, " ")] == '\0';
	while (!query->all && sim_list_next(rd->req->arena, &value, ',', &item))
	{
		if (sim_text_is(&item, "*"))
			query->all = true;
		else if (!select_name(rd, query, &item))
			return false;
	}
	if (query->all)
	{
		query->select = "";
		query->ncolumns = 0;
		select_all(query);
		return true;
	}
	for (i = 0; i < query->ncolumns; i++)
		money |= query->columns[i]->type == SIM_MONEY;
	add_column(query, table->id);
	currency = sim_column_by_name(table, "transactioncurrencyid", 21);
	if (money && currency != NULL && readable(currency))
		add_column(query, currency);
	return true;
}

/* ----------
 * $orderby, $top, $count
 * ----------
 */

/* a trailing " asc" or " desc" of an item; the item loses it */
static bool
direction(struct sim_text *item, bool *desc)
{
	const char *blank = memchr(item->s, ' ', item->len);
	const char *word;

	*desc = false;
	if (blank == NULL)
		return true;
	for (word = blank; *word == ' ';)
		word++;
	*desc = strcmp(word, "desc") == 0;
	item->len = (size_t) (blank - item->s);
	return *desc || strcmp(word, "asc") == 0;
}

/* a parameter alias becomes its value, which is a column without a direction */
static bool
resolve_item(struct reader *rd, struct sim_text *item)
{
	if (item->s[0] != '@' || rd->level > 0)
		return true;
	item->s = sim_param(rd->req, sim_strndup(rd->req->arena, item->s, item->len));
	if (item->s == NULL)
		return false;
	item->len = strlen(item->s);
	return item->len > 0;
}

static bool
parse_orderby(struct reader *rd, const char *value, struct sim_query *query)
{
	struct sim_arena *arena = rd->req->arena;
	const char *p = value;
	struct sim_text item;
	int			n = 0;

	if (value == NULL || value[strspn(value, " ")] == '\0')
		return true;
	while (sim_list_next(arena, &p, ',', &item))
		n++;
	if (n > 50)
		return bad_query(rd, "Too many items in %s.", "$orderby");
	query->order = sim_alloc(arena, sizeof(*query->order) * n);
	for (p = value; sim_list_next(arena, &p, ',', &item);)
	{
		struct sim_order *order = &query->order[query->norder++];

		if (item.len == 0 || !direction(&item, &order->desc) || !resolve_item(rd, &item))
			return bad_query(rd, "Syntax error in $orderby '%s'.", value);
		if (!sim_path_parse(rd->req, rd->res, item.s, item.len, &order->path))
			return false;
	}
	return true;
}

static bool
parse_top(struct reader *rd, const char *value, struct sim_query *query)
{
	char	   *end;

	if (value == NULL)
		return true;
	query->top = strtol(value, &end, 10);
	if (end == value || *end != '\0' || query->top < 0)
		return bad_query(rd, "Invalid value '%s' for $top query option found. The $top query "
						 "option requires a non-negative integer value.", value);
	if (query->top == 0)
		return bad_query(rd, "Invalid value '%s' for $top query option found. The value must be "
						 "between 1 and 5000.", value);
	if (query->top > MAX_TOP)
		query->top = MAX_TOP;
	return true;
}

static bool
parse_count(struct reader *rd, const char *value, struct sim_query *query)
{
	if (value == NULL || strcmp(value, "false") == 0)
		return true;
	query->count = strcmp(value, "true") == 0;
	if (query->count)
		return true;
	return bad_query(rd, "Invalid value '%s' for $count query option found. The $count query "
					 "option requires 'true' or 'false'.", value);
}

/* ----------
 * $expand
 * ----------
 */

bool
sim_collection_find(struct sim_table *table, const struct sim_text *name, struct sim_expand *out)
{
	struct sim_many *many;

	memset(out, 0, sizeof(*out));
	out->name = name->s;
	out->options = "";
	out->kind = SIM_EXPAND_COLLECTION;
	out->relationship = sim_collection_by_name(table, name->s, name->len);
	if (out->relationship != NULL)
		return true;
	many = sim_many_by_name(table, name->s, name->len);
	if (many == NULL)
		return false;
	out->kind = SIM_EXPAND_MANY;
	out->many = many;
	if (many->table1 == table && strcmp(many->navigation1, name->s) == 0)
	{
		out->near = many->column1;
		out->far = many->column2;
	}
	else
	{
		out->near = many->column2;
		out->far = many->column1;
	}
	return true;
}

/* returns the table of an expanded navigation property's rows */
static struct sim_table *
expand_table(const struct sim_expand *expand)
{
	switch (expand->kind)
	{
		case SIM_EXPAND_LOOKUP:
			return expand->target->table;
		case SIM_EXPAND_COLLECTION:
			return expand->relationship->referencing;
		case SIM_EXPAND_MANY:
			return expand->many->column1 == expand->far ? expand->many->table1 :
				expand->many->table2;
		default:
			return NULL;
	}
}

static bool
find_navigation(struct reader *rd, struct sim_table *table, const struct sim_text *name,
				struct sim_expand *expand)
{
	struct sim_target *target;
	struct sim_column *column = sim_navigation(table, name, &target);

	if (column == NULL)
	{
		if (sim_collection_find(table, name, expand))
			return true;
		if (sim_column_by_property(table, name->s, name->len) != NULL)
			return bad_query(rd, "Property '%s' is not a navigation property or complex property. "
							 "Only navigation properties can be expanded.", name->s);
		return sim_no_property(rd->req, rd->res, name->s, table->name);
	}
	memset(expand, 0, sizeof(*expand));
	expand->kind = target == NULL ? SIM_EXPAND_PRINCIPAL : SIM_EXPAND_LOOKUP;
	expand->name = name->s;
	expand->options = "";
	expand->column = column;
	expand->target = target;
	return true;
}

/* "$select=a;$filter=b" into pairs */
static bool
split_options(struct reader *rd, const char *text, struct sim_pairs *options)
{
	struct sim_text item;

	while (sim_list_next(rd->req->arena, &text, ';', &item))
	{
		char	   *equals;

		if (item.len == 0)
			continue;
		equals = strchr(item.s, '=');
		if (equals == NULL)
			return bad_query(rd, "Syntax error in the options '%s' of $expand.", item.s);
		*equals = '\0';
		sim_pair_add(rd->req->arena, options, item.s, equals + 1);
	}
	return true;
}

/* of a principal, the service returns only the id */
static bool
principal_options(struct reader *rd, const struct sim_pairs *options)
{
	int			i;

	for (i = 0; i < options->n; i++)
	{
		const char *value = options->items[i].value;
		struct sim_text item;

		if (strcmp(options->items[i].name, "$select") != 0)
			return bad_query(rd, "The query option '%s' is not supported for ownerid.",
							 options->items[i].name);
		while (sim_list_next(rd->req->arena, &value, ',', &item))
		{
			if (!sim_text_is(&item, "ownerid"))
				return sim_no_property(rd->req, rd->res, item.s, "principal");
		}
	}
	return true;
}

/* one item: nav, nav/$ref or nav(options) */
static bool
parse_expand_item(struct reader *rd, struct sim_text item, struct sim_query *query,
				  struct sim_expand *expand)
{
	struct reader below = *rd;
	struct sim_pairs options = {0};
	struct sim_text name = item;
	const char *open = memchr(item.s, '(', item.len);
	const char *text = "";
	bool		ref = false;

	if (open != NULL)
	{
		if (item.s[item.len - 1] != ')')
			return bad_query(rd, "Syntax error in $expand '%s'.", item.s);
		text = sim_strndup(rd->req->arena, open + 1, item.len - (size_t) (open - item.s) - 2);
		name.len = (size_t) (open - item.s);
	}
	if (name.len > 5 && memcmp(name.s + name.len - 5, "/$ref", 5) == 0)
	{
		name.len -= 5;
		ref = true;
	}
	name.s = sim_strndup(rd->req->arena, name.s, name.len);
	if (name.len == 0 || strchr(name.s, '/') != NULL)
		return bad_query(rd, "The path '%s' is not supported in $expand.", item.s);
	if (!find_navigation(rd, query->table, &name, expand) ||
		!split_options(rd, text, &options))
		return false;
	expand->options = text;
	expand->ref = ref;
	if (ref)
		return expand->kind == SIM_EXPAND_LOOKUP ? true :
			bad_query(rd, "$ref is not supported on the navigation property '%s'.", name.s);
	if (expand->kind == SIM_EXPAND_PRINCIPAL)
		return principal_options(rd, &options);
	below.level++;
	below.single = expand->kind == SIM_EXPAND_LOOKUP;
	expand->query = sim_alloc(rd->req->arena, sizeof(*expand->query));
	expand->query->table = expand_table(expand);
	return parse_level(&below, &options, expand->query);
}

static bool
parse_expand(struct reader *rd, const char *value, struct sim_query *query)
{
	struct sim_arena *arena = rd->req->arena;
	struct sim_text item;

	if (value == NULL || value[strspn(value, " ")] == '\0')
		return true;
	query->expand = sim_alloc(arena, sizeof(*query->expand) * SIM_MAX_EXPANDS);
	while (sim_list_next(arena, &value, ',', &item))
	{
		struct sim_expand *expand;
		int			i;

		if (++*rd->nexpands > SIM_MAX_EXPANDS)
			return sim_fail(rd->req, rd->res, 400, "0x8004430D",
							"Number of link entities in query exceeded maximum limit.");
		expand = &query->expand[query->nexpand];
		if (!parse_expand_item(rd, item, query, expand))
			return false;
		for (i = 0; i < query->nexpand; i++)
		{
			if (strcmp(query->expand[i].name, expand->name) == 0)
				return bad_query(rd, "The navigation property '%s' is expanded twice.",
								 expand->name);
		}
		query->nexpand++;
		if (expand->query != NULL)
		{
			query->nested |= expand->query->nexpand > 0;
			query->collections |= expand->kind != SIM_EXPAND_LOOKUP ||
				expand->query->collections;
		}
	}
	return true;
}

/*
 * Once an expand has an expand of its own, collections are paged and lose
 * $top and $orderby below the first level, and N:N ones are refused.
 */
static bool
check_nesting(struct reader *rd, const struct sim_query *query, bool nested, int level)
{
	int			i;

	for (i = 0; nested && i < query->nexpand; i++)
	{
		const struct sim_expand *expand = &query->expand[i];
		const struct sim_query *sub = expand->query;

		if (sub == NULL)
			continue;
		if (expand->kind == SIM_EXPAND_MANY && (level > 0 || sub->nexpand > 0))
			return bad_query(rd, "Nested $expand on the many-to-many navigation property '%s' is "
							 "not supported.", expand->name);
		if ((sub->top > 0 || sub->norder > 0) && (level > 0 || sub->nexpand > 0))
			return bad_query(rd, "$top and $orderby are not supported in a nested $expand of "
							 "'%s'.", expand->name);
		if (!check_nesting(rd, sub, nested, level + 1))
			return false;
	}
	return true;
}

/* ----------
 * All of them
 * ----------
 */

static const char *
option(const struct sim_pairs *options, const char *name)
{
	int			i;

	for (i = 0; i < options->n; i++)
	{
		if (strcmp(options->items[i].name, name) == 0)
			return options->items[i].value;
	}
	return NULL;
}

static bool
known(const char *name, const char *const *names)
{
	for (; *names != NULL; names++)
	{
		if (strcmp(*names, name) == 0)
			return true;
	}
	return false;
}

/* checks that options are at their place, and given once */
static bool
check_options(struct reader *rd, const struct sim_pairs *options)
{
	static const char *const root[] = {
		"$select", "$filter", "$orderby", "$expand", "$apply", "$top", "$count", "$skiptoken",
		"$deltatoken", NULL
	};
	static const char *const inner[] = {
		"$select", "$filter", "$orderby", "$expand", "$top", NULL
	};
	static const char *const custom[] = {
		"fetchXml", "sql", "savedQuery", "userQuery", "tag", "partitionId", "UnMaskedData",
		"size", NULL
	};
	int			i;
	int			j;

	for (i = 0; i < options->n; i++)
	{
		const char *name = options->items[i].name;

		if (rd->level == 0 && (name[0] == '@' || known(name, custom)))
			continue;
		if (strcmp(name, "$skip") == 0)
			return bad_query(rd, "Skip Clause is not supported in CRM%s", "");
		if (!known(name, rd->level == 0 ? root : inner))
			return bad_query(rd, "The query parameter %s is not supported.", name);
		for (j = 0; j < i; j++)
		{
			if (strcmp(options->items[j].name, name) == 0)
				return bad_query(rd, "Query option '%s' was specified more than once, but it must "
								 "be specified at most once.", name);
		}
	}
	return true;
}

/* checks that a single row has no order and no filter */
static bool
check_single(struct reader *rd, const struct sim_pairs *options)
{
	static const char *const names[] = {"$filter", "$orderby", "$top", "$count", "$apply"};
	size_t		i;

	for (i = 0; rd->single && i < sizeof(names) / sizeof(names[0]); i++)
	{
		if (option(options, names[i]) != NULL)
			return bad_query(rd, "The query option %s cannot be applied to a single row.",
							 names[i]);
	}
	return true;
}

static bool
parse_level(struct reader *rd, const struct sim_pairs *options, struct sim_query *query)
{
	const char *filter;

	if (!check_options(rd, options) || !check_single(rd, options))
		return false;
	if (!parse_select(rd, option(options, "$select"), query) ||
		!parse_orderby(rd, option(options, "$orderby"), query) ||
		!parse_top(rd, option(options, "$top"), query) ||
		!parse_count(rd, option(options, "$count"), query) ||
		!parse_expand(rd, option(options, "$expand"), query))
		return false;
	filter = option(options, "$filter");
	if (filter == NULL)
		return true;
	return sim_filter_parse(rd->req, rd->res, filter, rd->level == 0, &query->filter);
}

bool
sim_options_check(struct sim_req *req, struct sim_res *res)
{
	struct reader rd = {req, res, 0, false, NULL};

	return check_options(&rd, &req->params);
}

bool
sim_options_parse(struct sim_req *req, struct sim_res *res, struct sim_table *table, bool single,
				  struct sim_query *query)
{
	int			nexpands = 0;
	struct reader rd = {req, res, 0, single, &nexpands};

	memset(query, 0, sizeof(*query));
	query->table = table;
	return parse_level(&rd, &req->params, query) &&
		check_nesting(&rd, query, query->nested, 0);
}

static void
context_of_expands(struct sim_buf *buf, const struct sim_query *query, bool comma)
{
	int			i;

	for (i = 0; i < query->nexpand; i++)
	{
		if (comma)
			sim_putc(buf, ',');
		comma = true;
		sim_puts(buf, query->expand[i].name);
		if (query->expand[i].query == NULL)
			sim_puts(buf, query->expand[i].ref ? "/$ref" : "()");
		else
		{
			sim_putc(buf, '(');
			sim_puts(buf, query->expand[i].query->select);
			context_of_expands(buf, query->expand[i].query,
							   !query->expand[i].query->all);
			sim_putc(buf, ')');
		}
	}
}

void
sim_query_context(struct sim_buf *buf, const struct sim_query *query)
{
	struct sim_buf text = {0};

	sim_puts(&text, query->select);
	context_of_expands(&text, query, !query->all);
	if (text.len > 0)
	{
		size_t		quotes;

		/* escaped for the JSON string it becomes a part of */
		sim_putc(buf, '(');
		quotes = buf->len;
		sim_put_json(buf, text.s, text.len);
		memmove(buf->s + quotes, buf->s + quotes + 1, buf->len - quotes - 2);
		buf->len -= 2;
		sim_putc(buf, ')');
	}
	sim_buf_free(&text);
}

/*
 * sql_query.c
 *		The query option "sql": a SELECT as FetchXML.
 *
 * The service documents only what FetchXML can express, so the translator of
 * FetchXML does the work.  The grammar is one SELECT from a table and others
 * that are joined to it, conditions that compare a column to constants,
 * groups, and an order.  Everything else is refused.
 *
 * SQL and FetchXML differ in negations: <>, NOT IN, and NOT LIKE are not true
 * for null in SQL.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "fetch/fetch_parse.h"
#include "fetch/sql_query.h"
#include "fetch/sql_scan.h"

#define MAX_TABLES (SIM_FETCH_MAX_LINKS + 1)
#define MAX_COLUMNS 1000
#define MAX_ROWS 5000

/* a column as it was written; its table is known when all tables are */
struct reference
{
	const char *qualifier;		/* NULL: none */
	const char *name;
};

struct item
{
	struct reference column;
	const char *aggregate;		/* NULL: none */
	const char *alias;			/* NULL: none */
	bool		all;			/* COUNT(*) */
};

struct table
{
	const char *name;
	const char *alias;			/* its name, unless it has another */
	struct sim_table *definition;
	int			parent;
	const char *from;
	const char *to;
	bool		outer;
	struct sim_buf attributes;
	struct sim_buf filter;		/* the other conditions in ON */
};

struct parser
{
	struct sim_sql_scan scan;
	struct sim_sql_select *select;
	struct table tables[MAX_TABLES];
	int			ntables;
	struct item items[MAX_COLUMNS];
	int			nitems;
	struct reference groups[MAX_COLUMNS];
	int			ngroups;
	struct sim_buf where;
	struct sim_buf orders;
	int			joining;		/* number of the table whose ON is being read, or -1 */
};

/*
 * Columns
 */

static bool
reference(struct parser *p, struct reference *column)
{
	bool		dot;

	column->qualifier = NULL;
	if (!sim_sql_name(&p->scan, "a column", &column->name) || !sim_sql_take(&p->scan, ".", &dot))
		return false;
	if (!dot)
		return !sim_sql_is(&p->scan, "(") || sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "the function \"%s\" is not supported here", column->name));
	column->qualifier = column->name;
	return sim_sql_name(&p->scan, "a column", &column->name);
}

/* the number of the column's table; -1 after sim_fail() */
static int
table_of(struct parser *p, const struct reference *column)
{
	int			found = -1;
	int			i;

	for (i = 0; i < p->ntables; i++)
	{
		const struct table *table = &p->tables[i];

		if (column->qualifier != NULL ? strcmp(table->alias, column->qualifier) != 0
			: sim_column_by_name(table->definition, column->name, strlen(column->name)) == NULL)
			continue;
		if (found >= 0)
		{
			sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "the column \"%s\" is ambiguous", column->name));
			return -1;
		}
		found = i;
	}
	if (found < 0 && column->qualifier != NULL)
		sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "there is no table \"%s\"", column->qualifier));
	else if (found < 0)
		sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "there is no column \"%s\"", column->name));
	return found;
}

static bool
is_same(struct parser *p, const struct reference *a, const struct reference *b)
{
	return strcmp(a->name, b->name) == 0 && table_of(p, a) == table_of(p, b);
}

static void
put_buffer(struct sim_buf *xml, const struct sim_buf *more)
{
	if (more->len > 0)
		sim_put(xml, more->s, more->len);
}

static void
put_attribute(struct sim_buf *xml, const char *attribute, const char *value)
{
	sim_putf(xml, " %s=\"", attribute);
	sim_put_xml(xml, value, strlen(value));
	sim_putc(xml, '"');
}

/*
 * Conditions
 */

static void
put_condition(struct parser *p, struct sim_buf *xml, int table, const char *column, const char *operator,
			  const char *value)
{
	struct tm	tm;
	struct sim_column *definition = sim_column_by_name(p->tables[table].definition, column, strlen(column));

	sim_puts(xml, "<condition");
	/* conditions in WHERE apply after the joins */
	if (table > 0 && table != p->joining)
		put_attribute(xml, "entityname", p->tables[table].alias);
	put_attribute(xml, "attribute", column);
	put_attribute(xml, "operator", operator);
	if (value == NULL)
		return;
	/* times of SQL are in UTC */
	if (definition != NULL && definition->type == SIM_DATETIME && sim_sql_time(value, &tm) && strlen(value) > 10)
		value = sim_sql_print_time(&p->scan, (int64_t) timegm(&tm));
	put_attribute(xml, "value", value);
}

static void
put_simple(struct parser *p, struct sim_buf *xml, int table, const char *column, const char *operator,
		   const char *value)
{
	put_condition(p, xml, table, column, operator, value);
	sim_puts(xml, "/>");
}

/* a comparison with null is never true */
static void
put_comparison(struct parser *p, struct sim_buf *xml, int table, const char *column, const char *operator,
			   const char *value)
{
	if (value == NULL)
	{
		put_simple(p, xml, table, column, "null", NULL);
		put_simple(p, xml, table, column, "not-null", NULL);
	}
	else
		put_simple(p, xml, table, column, operator, value);
	if (value != NULL && (strcmp(operator, "ne") == 0 || strncmp(operator, "not-", 4) == 0))
		put_simple(p, xml, table, column, "not-null", NULL);
}

static bool
list(struct parser *p, struct sim_buf *xml, int table, const char *column, bool negated)
{
	bool		comma;
	bool		null = false;

	if (!sim_sql_expect(&p->scan, "("))
		return false;
	if (sim_sql_is(&p->scan, "select"))
		return sim_sql_refuse(&p->scan, "subqueries are not supported");
	put_condition(p, xml, table, column, negated ? "not-in" : "in", NULL);
	sim_putc(xml, '>');
	do
	{
		const char *value;

		if (!sim_sql_constant(&p->scan, &value))
			return false;
		null = null || value == NULL;
		if (value != NULL)
		{
			sim_puts(xml, "<value>");
			sim_put_xml(xml, value, strlen(value));
			sim_puts(xml, "</value>");
		}
		if (!sim_sql_take(&p->scan, ",", &comma))
			return false;
	} while (comma);
	sim_puts(xml, "</condition>");
	if (negated)
		put_simple(p, xml, table, column, "not-null", NULL);
	if (negated && null)
		put_simple(p, xml, table, column, "null", NULL);
	return sim_sql_expect(&p->scan, ")");
}

static const char *
comparison_of(const char *sign)
{
	static const char *const pairs[][2] = {
		{"=", "eq"}, {"<>", "ne"}, {"!=", "ne"}, {"<", "lt"}, {"<=", "le"}, {">", "gt"}, {">=", "ge"}
	};
	size_t		i;

	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (strcmp(pairs[i][0], sign) == 0)
			return pairs[i][1];
	return NULL;
}

static bool
test(struct parser *p, struct sim_buf *xml, int table, const char *column)
{
	const char *operator;
	const char *value;
	const char *high;
	bool		negated;
	bool		took;

	if (!sim_sql_take(&p->scan, "is", &took))
		return false;
	if (took)
	{
		if (!sim_sql_take(&p->scan, "not", &negated) || !sim_sql_expect(&p->scan, "null"))
			return false;
		put_simple(p, xml, table, column, negated ? "not-null" : "null", NULL);
		return true;
	}
	if (!sim_sql_take(&p->scan, "not", &negated) || !sim_sql_take(&p->scan, "in", &took))
		return false;
	if (took)
		return list(p, xml, table, column, negated);
	if (!sim_sql_take(&p->scan, "like", &took))
		return false;
	if (took)
	{
		if (!sim_sql_constant(&p->scan, &value))
			return false;
		put_comparison(p, xml, table, column, negated ? "not-like" : "like", value);
		return true;
	}
	if (negated)
		return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "NOT is not supported before \"%s\"", p->scan.text));
	if (!sim_sql_take(&p->scan, "between", &took))
		return false;
	if (took)
	{
		if (!sim_sql_constant(&p->scan, &value) || !sim_sql_expect(&p->scan, "and") || !sim_sql_constant(&p->scan, &high))
			return false;
		put_comparison(p, xml, table, column, "ge", value);
		put_comparison(p, xml, table, column, "le", high);
		return true;
	}
	operator = p->scan.token == T_SIGN ? comparison_of(p->scan.text) : NULL;
	if (operator == NULL)
		return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "an operator was expected near \"%s\"", p->scan.text));
	if (!sim_sql_next(&p->scan))
		return false;
	if ((p->scan.token == T_NAME && !sim_sql_reserved(&p->scan) && !sim_sql_is(&p->scan, "getutcdate") && !sim_sql_is(&p->scan, "dateadd")) || p->scan.token == T_QUOTED)
		return sim_sql_refuse(&p->scan, "a column can only be compared to a constant");
	if (!sim_sql_constant(&p->scan, &value))
		return false;
	put_comparison(p, xml, table, column, operator, value);
	return true;
}

static bool either(struct parser *p, struct sim_buf *xml);

static bool
condition(struct parser *p, struct sim_buf *xml)
{
	struct reference column;
	bool		parenthesis;
	int			table;

	if (sim_sql_is(&p->scan, "exists") || sim_sql_is(&p->scan, "not"))
		return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "%s is not supported here", p->scan.text));
	if (p->scan.token == T_NUMBER || p->scan.token == T_STRING)
		return sim_sql_refuse(&p->scan, "a condition begins with a column");
	if (!sim_sql_take(&p->scan, "(", &parenthesis))
		return false;
	if (parenthesis)
	{
		if (++p->scan.depth > SIM_SQL_MAX_DEPTH)
			return sim_sql_refuse(&p->scan, "it is nested too deeply");
		if (!either(p, xml) || !sim_sql_expect(&p->scan, ")"))
			return false;
		p->scan.depth--;
		return true;
	}
	if (!reference(p, &column))
		return false;
	table = table_of(p, &column);
	if (table < 0)
		return false;
	if (p->joining >= 0 && table != p->joining)
		return sim_sql_refuse(&p->scan, "further conditions of ON are on the joined table");
	return test(p, xml, table, column.name);
}

/* conditions with AND and OR */
static bool
either(struct parser *p, struct sim_buf *xml)
{
	bool		both;
	bool		or;

	sim_puts(xml, "<filter type=\"or\">");
	do
	{
		sim_puts(xml, "<filter>");
		do
		{
			if (!condition(p, xml) || !sim_sql_take(&p->scan, "and", &both))
				return false;
		} while (both);
		sim_puts(xml, "</filter>");
		if (!sim_sql_take(&p->scan, "or", &or))
			return false;
	} while (or);
	sim_puts(xml, "</filter>");
	return true;
}

/*
 * Tables
 */

static bool
table_name(struct parser *p)
{
	struct table *table = &p->tables[p->ntables];
	bool		as;
	int			i;

	if (p->ntables == MAX_TABLES)
		return sim_fail(p->scan.req, p->scan.res, 400, "0x8004430D", "Number of link entities in query exceeded maximum limit.");
	if (!sim_sql_name(&p->scan, "a table", &table->name))
		return false;
	table->definition = sim_table_by_name(p->scan.req->sim->schema, table->name);
	if (table->definition == NULL)
		return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "there is no table \"%s\"", table->name));
	table->alias = table->name;
	if (!sim_sql_take(&p->scan, "as", &as))
		return false;
	if ((as || p->scan.token == T_NAME || p->scan.token == T_QUOTED) && (as || !sim_sql_reserved(&p->scan)) &&
		!sim_sql_name(&p->scan, "an alias", &table->alias))
		return false;
	for (i = 0; i < p->ntables; i++)
		if (strcmp(p->tables[i].alias, table->alias) == 0)
			return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "two tables are called \"%s\"", table->alias));
	p->ntables++;
	return true;
}

/* "a = b", with one column of the joined table and one of another table; or a condition */
static bool
join_condition(struct parser *p, struct table *table)
{
	const char *before = p->scan.at;
	enum sim_sql_token token = p->scan.token;
	const char *text = p->scan.text;
	struct reference columns[2];
	bool		equal;
	int			own;

	if ((token == T_NAME || token == T_QUOTED) && !sim_sql_reserved(&p->scan))
	{
		int			of[2];

		if (!reference(p, &columns[0]) || !sim_sql_take(&p->scan, "=", &equal))
			return false;
		if (equal && (p->scan.token == T_QUOTED || (p->scan.token == T_NAME && !sim_sql_reserved(&p->scan) && !sim_sql_is(&p->scan, "dateadd") &&
													!sim_sql_is(&p->scan, "getutcdate"))))
		{
			if (!reference(p, &columns[1]))
				return false;
			of[0] = table_of(p, &columns[0]);
			of[1] = of[0] < 0 ? -1 : table_of(p, &columns[1]);
			if (of[1] < 0)
				return false;
			own = of[1] == p->joining;
			if (table->from != NULL || of[own] != p->joining || of[!own] == p->joining)
				return sim_sql_refuse(&p->scan, "ON compares one column of the joined table with one of another table");
			table->from = columns[own].name;
			table->to = columns[!own].name;
			table->parent = of[!own];
			return true;
		}
		p->scan.at = before;
		p->scan.token = token;
		p->scan.text = text;
	}
	return condition(p, &table->filter);
}

static bool
join(struct parser *p, bool outer)
{
	struct table *table = &p->tables[p->ntables];
	bool		both;

	if (!sim_sql_expect(&p->scan, "join") || !table_name(p) || !sim_sql_expect(&p->scan, "on"))
		return false;
	table->outer = outer;
	p->joining = p->ntables - 1;
	do
	{
		if (!join_condition(p, table) || !sim_sql_take(&p->scan, "and", &both))
			return false;
	} while (both);
	p->joining = -1;
	if (sim_sql_is(&p->scan, "or"))
		return sim_sql_refuse(&p->scan, "further conditions of ON are combined with AND");
	return table->from != NULL || sim_sql_refuse(&p->scan, "ON compares columns of the two tables by =");
}

static bool
from(struct parser *p)
{
	bool		outer;
	bool		took;

	if (!sim_sql_expect(&p->scan, "from") || !table_name(p))
		return false;
	for (;;)
	{
		if (sim_sql_is(&p->scan, ",") || sim_sql_is(&p->scan, "right") || sim_sql_is(&p->scan, "full") || sim_sql_is(&p->scan, "cross"))
			return sim_sql_refuse(&p->scan, "tables are joined by INNER JOIN or LEFT JOIN");
		if (!sim_sql_take(&p->scan, "left", &outer) || (outer && !sim_sql_take(&p->scan, "outer", &took)))
			return false;
		if (!outer && !sim_sql_take(&p->scan, "inner", &took))
			return false;
		if (!outer && !took && !sim_sql_is(&p->scan, "join"))
			return true;
		if (!join(p, outer))
			return false;
	}
}

/*
 * Select list
 */

static bool
item(struct parser *p)
{
	static const char *const functions[][2] = {
		{"count", "countcolumn"}, {"sum", "sum"}, {"avg", "avg"}, {"min", "min"}, {"max", "max"}
	};
	struct item *item = &p->items[p->nitems];
	const char *before = p->scan.at;
	size_t		i;
	bool		as;

	if (p->nitems == MAX_COLUMNS)
		return sim_sql_refuse(&p->scan, "there are too many columns");
	if (sim_sql_is(&p->scan, "*"))
		return sim_sql_refuse(&p->scan, "SELECT * is not supported");
	if (p->scan.token == T_NUMBER || p->scan.token == T_STRING || sim_sql_is(&p->scan, "-"))
		return sim_sql_refuse(&p->scan, "literal values cannot be selected");
	before += strspn(before, " \t\r\n");
	for (i = 0; *before == '(' && i < sizeof(functions) / sizeof(functions[0]); i++)
		if (sim_sql_is(&p->scan, functions[i][0]))
			item->aggregate = functions[i][1];
	if (item->aggregate != NULL)
	{
		p->select->aggregate = true;
		if (!sim_sql_next(&p->scan) || !sim_sql_expect(&p->scan, "("))
			return false;
		item->all = sim_sql_is(&p->scan, "*") && strcmp(item->aggregate, "countcolumn") == 0;
		if (!(item->all ? sim_sql_next(&p->scan) : reference(p, &item->column)) || !sim_sql_expect(&p->scan, ")"))
			return false;
	}
	else if (!reference(p, &item->column))
		return false;
	if (sim_sql_is(&p->scan, "+") || sim_sql_is(&p->scan, "-") || sim_sql_is(&p->scan, "*") || sim_sql_is(&p->scan, "/"))
		return sim_sql_refuse(&p->scan, "expressions cannot be selected");
	if (!sim_sql_take(&p->scan, "as", &as))
		return false;
	p->nitems++;
	if (as || ((p->scan.token == T_NAME || p->scan.token == T_QUOTED) && !sim_sql_reserved(&p->scan)))
		return sim_sql_name(&p->scan, "an alias", &item->alias);
	return true;
}

static bool
items(struct parser *p)
{
	bool		parenthesis;
	bool		comma;
	bool		top;
	long		n;

	if (!sim_sql_take(&p->scan, "distinct", &p->select->distinct) || !sim_sql_take(&p->scan, "top", &top))
		return false;
	if (top)
	{
		if (!sim_sql_take(&p->scan, "(", &parenthesis) || !sim_sql_whole(&p->scan, &n) || (parenthesis && !sim_sql_expect(&p->scan, ")")))
			return false;
		if (n < 0 || n > MAX_ROWS)
			return sim_sql_refuse(&p->scan, "TOP takes a number up to 5000");
		p->select->limited = true;
		p->select->limit = (int) n;
	}
	do
	{
		if (!item(p) || !sim_sql_take(&p->scan, ",", &comma))
			return false;
	} while (comma);
	return true;
}

static bool
is_grouped(struct parser *p, const struct reference *column)
{
	int			i;

	for (i = 0; i < p->ngroups; i++)
		if (is_same(p, &p->groups[i], column))
			return true;
	return false;
}

/* returns the name of a column in the answer: its own name, unless it has another one */
static const char *
output_name(const struct item *item)
{
	return item->alias != NULL ? item->alias : item->column.name;
}

static bool
put_item(struct parser *p, const struct item *item)
{
	int			number = item->all ? 0 : table_of(p, &item->column);
	struct table *table = &p->tables[number < 0 ? 0 : number];
	int			i;

	if (number < 0)
		return false;
	if (item->aggregate != NULL && item->alias == NULL)
		return sim_sql_refuse(&p->scan, "aggregates need an alias");
	if (p->select->aggregate && item->aggregate == NULL && !is_grouped(p, &item->column))
		return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "the column \"%s\" is not in GROUP BY", item->column.name));
	for (i = 0; &p->items[i] != item; i++)
		if (strcmp(output_name(&p->items[i]), output_name(item)) == 0)
			return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "two columns are called \"%s\"", output_name(item)));
	sim_puts(&table->attributes, "<attribute");
	put_attribute(&table->attributes, "name", item->all ? table->definition->id->name : item->column.name);
	if (item->alias != NULL || number > 0 || p->select->aggregate)
		put_attribute(&table->attributes, "alias", output_name(item));
	if (item->aggregate != NULL)
		put_attribute(&table->attributes, "aggregate", item->all ? "count" : item->aggregate);
	else if (p->select->aggregate)
		sim_puts(&table->attributes, " groupby=\"true\"");
	sim_puts(&table->attributes, "/>");
	return true;
}

/*
 * Other clauses
 */

static bool
groups(struct parser *p)
{
	bool		comma;
	bool		took;
	int			i;
	int			j;

	if (!sim_sql_take(&p->scan, "group", &took))
		return false;
	if (took)
	{
		p->select->aggregate = true;
		if (!sim_sql_expect(&p->scan, "by"))
			return false;
		do
		{
			if (p->ngroups == MAX_COLUMNS)
				return sim_sql_refuse(&p->scan, "there are too many columns");
			if (!reference(p, &p->groups[p->ngroups]) || table_of(p, &p->groups[p->ngroups]) < 0 ||
				!sim_sql_take(&p->scan, ",", &comma))
				return false;
			p->ngroups++;
		} while (comma);
	}
	if (p->select->aggregate && p->select->distinct)
		return sim_sql_refuse(&p->scan, "DISTINCT is not supported with groups");
	for (i = 0; i < p->nitems; i++)
		if (!put_item(p, &p->items[i]))
			return false;
	for (i = 0; i < p->ngroups; i++)
	{
		for (j = 0; j < p->nitems; j++)
			if (p->items[j].aggregate == NULL && is_same(p, &p->items[j].column, &p->groups[i]))
				break;
		if (j == p->nitems)
			return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "the column \"%s\" of GROUP BY is not selected", p->groups[i].name));
	}
	return !sim_sql_is(&p->scan, "having") || sim_sql_refuse(&p->scan, "HAVING is not supported");
}

static bool
put_order(struct parser *p, const struct reference *column, bool descending)
{
	int			table = table_of(p, column);
	int			i = 0;

	if (table < 0)
		return false;
	sim_puts(&p->orders, "<order");
	if (p->select->aggregate)
	{
		while (i < p->nitems && (p->items[i].aggregate != NULL || !is_same(p, &p->items[i].column, column)))
			i++;
		if (i == p->nitems)
			return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "the column \"%s\" of ORDER BY is not in GROUP BY", column->name));
		put_attribute(&p->orders, "alias", output_name(&p->items[i]));
	}
	else
	{
		put_attribute(&p->orders, "attribute", column->name);
		if (table > 0)
			put_attribute(&p->orders, "entityname", p->tables[table].alias);
	}
	sim_puts(&p->orders, descending ? " descending=\"true\"/>" : "/>");
	return true;
}

static bool
orders(struct parser *p)
{
	struct reference column;
	bool		comma;
	bool		descending;
	bool		took;

	if (!sim_sql_take(&p->scan, "order", &took) || !took)
		return !took;
	if (!sim_sql_expect(&p->scan, "by"))
		return false;
	do
	{
		if (p->scan.token == T_NUMBER)
			return sim_sql_refuse(&p->scan, "ORDER BY takes names of columns");
		if (!reference(p, &column) || !sim_sql_take(&p->scan, "desc", &descending) || (!descending && !sim_sql_take(&p->scan, "asc", &took)) ||
			!put_order(p, &column, descending) || !sim_sql_take(&p->scan, ",", &comma))
			return false;
	} while (comma);
	return true;
}

/* "OFFSET 10 ROWS FETCH NEXT 5 ROWS ONLY" */
static bool
window(struct parser *p)
{
	bool		took;
	long		offset;
	long		limit;

	if (!sim_sql_take(&p->scan, "offset", &took) || !took)
		return !took;
	if (p->select->limited || p->orders.len == 0)
		return sim_sql_refuse(&p->scan, "OFFSET takes an ORDER BY and no TOP");
	if (!sim_sql_whole(&p->scan, &offset) || !(sim_sql_is(&p->scan, "row") ? sim_sql_next(&p->scan) : sim_sql_expect(&p->scan, "rows")) || !sim_sql_expect(&p->scan, "fetch") ||
		!(sim_sql_is(&p->scan, "first") ? sim_sql_next(&p->scan) : sim_sql_expect(&p->scan, "next")) || !sim_sql_whole(&p->scan, &limit) ||
		!(sim_sql_is(&p->scan, "row") ? sim_sql_next(&p->scan) : sim_sql_expect(&p->scan, "rows")) || !sim_sql_expect(&p->scan, "only"))
		return false;
	if (offset < 0 || limit < 1 || limit > MAX_ROWS)
		return sim_sql_refuse(&p->scan, "FETCH NEXT takes a number from 1 to 5000");
	p->select->limited = true;
	p->select->offset = (int) offset;
	p->select->limit = (int) limit;
	return true;
}

/* a table with its columns, its conditions, and the tables below it */
static void
put_table(struct parser *p, int number)
{
	struct sim_buf *xml = &p->select->xml;
	struct table *table = &p->tables[number];
	int			i;

	sim_puts(xml, number == 0 ? "<entity" : "<link-entity");
	put_attribute(xml, "name", table->name);
	if (number > 0)
	{
		put_attribute(xml, "from", table->from);
		put_attribute(xml, "to", table->to);
		put_attribute(xml, "alias", table->alias);
		put_attribute(xml, "link-type", table->outer ? "outer" : "inner");
	}
	sim_putc(xml, '>');
	put_buffer(xml, &table->attributes);
	/* without attributes, FetchXML would return all columns */
	if (table->attributes.len == 0)
		sim_puts(xml, "<no-attrs/>");
	if (number == 0)
	{
		put_buffer(xml, &p->where);
		put_buffer(xml, &p->orders);
	}
	else if (table->filter.len > 0)
	{
		sim_puts(xml, "<filter>");
		put_buffer(xml, &table->filter);
		sim_puts(xml, "</filter>");
	}
	for (i = 1; i < p->ntables; i++)
		if (p->tables[i].parent == number)
			put_table(p, i);
	sim_puts(xml, number == 0 ? "</entity>" : "</link-entity>");
}

static bool
statement(struct parser *p)
{
	bool		where;
	bool		end;

	if (!sim_sql_next(&p->scan) || !sim_sql_expect(&p->scan, "select") || !items(p) || !from(p) || !sim_sql_take(&p->scan, "where", &where) ||
		(where && !either(p, &p->where)) || !groups(p) || !orders(p) || !window(p) || !sim_sql_take(&p->scan, ";", &end))
		return false;
	if (p->scan.token != T_END)
		return sim_sql_refuse(&p->scan, sim_fmt(p->scan.req->arena, "it should end before \"%s\"", p->scan.text));
	put_table(p, 0);
	return true;
}

bool
sim_sql_parse(struct sim_req *req, struct sim_res *res, const char *sql, struct sim_sql_select *select)
{
	struct parser *p = sim_alloc(req->arena, sizeof(*p));
	bool		ok;
	int			i;

	p->scan.req = req;
	p->scan.res = res;
	p->select = select;
	p->scan.at = sql;
	p->joining = -1;
	ok = statement(p);
	for (i = 0; i < MAX_TABLES; i++)
	{
		sim_buf_free(&p->tables[i].attributes);
		sim_buf_free(&p->tables[i].filter);
	}
	sim_buf_free(&p->where);
	sim_buf_free(&p->orders);
	return ok;
}

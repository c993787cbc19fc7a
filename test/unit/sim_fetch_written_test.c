/*
 * sim_fetch_written_test.c
 *		Random queries as FetchXML (dataverse/fetch.c), read by dvsim.
 *
 * The tree of dvsim's parser is compared with the query, and the translation
 * to SQL shows that dvsim accepts it.  SEED=n repeats a run.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/fetch.h"
#include "fetch/fetch_sql.h"
#include "net/hex.h"
#include "random_events.h"

#define QUERIES 3000
#define MAX_DEPTH 3
#define MAX_VALUES 5

static struct sim simulator;
static struct sim_arena *arena;
static struct sim_req request;
static struct sim_res response;

/* The query under test, in memory of the arena, and dvsim's definitions of its tables. */
static dv_query query;
static struct sim_table *tables[DV_MAX_LINKS + 1];

static int
load(void **state)
{
	(void) state;
	simulator.schema = sim_schema_load(NULL);
	seed_random("sim_fetch_written");
	return simulator.schema == NULL;
}

static int
unload(void **state)
{
	(void) state;
	sim_schema_free(simulator.schema);
	return 0;
}

/*
 * Making queries
 */

static bool
one_in(int n)
{
	return random_below(n) == 0;
}

static const dv_column *
column_of(const struct sim_column *from)
{
	static const dv_type types[SIM_TYPES] = {
		[SIM_UUID] = DV_TYPE_UNIQUEIDENTIFIER,
		[SIM_STRING] = DV_TYPE_STRING,
		[SIM_MEMO] = DV_TYPE_MEMO,
		[SIM_INTEGER] = DV_TYPE_INTEGER,
		[SIM_BIGINT] = DV_TYPE_BIGINT,
		[SIM_DECIMAL] = DV_TYPE_DECIMAL,
		[SIM_MONEY] = DV_TYPE_MONEY,
		[SIM_DOUBLE] = DV_TYPE_DOUBLE,
		[SIM_BOOLEAN] = DV_TYPE_BOOLEAN,
		[SIM_PICKLIST] = DV_TYPE_CHOICE,
		[SIM_STATE] = DV_TYPE_STATE,
		[SIM_STATUS] = DV_TYPE_STATUS,
		[SIM_MULTISELECT] = DV_TYPE_CHOICES,
		[SIM_DATETIME] = DV_TYPE_DATETIME,
		[SIM_LOOKUP] = DV_TYPE_LOOKUP,
		[SIM_CUSTOMER] = DV_TYPE_CUSTOMER,
		[SIM_OWNER] = DV_TYPE_OWNER,
	};
	dv_column  *column = sim_alloc(arena, sizeof(*column));

	column->name = from->name;
	column->property = from->property;
	column->type = types[from->type];
	if (from->type == SIM_DATETIME && from->behaviour == SIM_DATE_ONLY)
		column->type = DV_TYPE_DATE;
	return column;
}

static bool
is_usable(const struct sim_column *column)
{
	enum sim_fetch_class class = sim_fetch_class_of(column);

	return column->stored && column->valid_for_read && column->filterable &&
		class != SIM_CLASS_NONE && class != SIM_CLASS_NAME && class != SIM_CLASS_BINARY;
}

/* Returns a column of a table, of one of these classes (bits); NULL if there is none. */
static struct sim_column *
some_column(const struct sim_table *table, unsigned int classes)
{
	int			tries;

	for (tries = 0; tries < 1000; tries++)
	{
		struct sim_column *column = &table->columns[random_below(table->ncolumns)];

		if (is_usable(column) && (classes & 1u << sim_fetch_class_of(column)))
			return column;
	}
	return NULL;
}

#define C(class) (1u << SIM_CLASS_##class)
#define NUMBERS (C(INTEGER) | C(DECIMAL) | C(REAL))
#define ANY (NUMBERS | C(TEXT) | C(BOOLEAN) | C(CHOICE) | C(CHOICES) | C(GUID) | C(LOOKUP) | C(DATE))

static const char *
some_text(void)
{
	static const char *const pieces[] = {
		"a", "Z", "0", " ", "  ", "<", ">", "&", "\"", "'", "%", "_", "[", "]", "[a-c]", "\t", "\n", "\r",
		"\r\n", "#", "+", "=", "/", "?", ";", "$1", "\\", "]]>", "<!--", "&amp;", "%41", "\x7f",
		"\xc2\x85", "\xc3\xa4", "\xe2\x80\xa8", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80"
	};
	struct sim_buf buf = {0};
	int			n = (int) random_below(8);
	const char *text;

	while (n-- > 0)
		sim_puts(&buf, pieces[random_below(sizeof(pieces) / sizeof(pieces[0]))]);
	text = sim_strndup(arena, buf.s != NULL ? buf.s : "", buf.len);
	sim_buf_free(&buf);
	return text;
}

static const char *
some_value(const struct sim_column *column)
{
	switch (sim_fetch_class_of(column))
	{
		case SIM_CLASS_TEXT:
			return some_text();
		case SIM_CLASS_BOOLEAN:
			return one_in(2) ? "true" : "false";
		case SIM_CLASS_DATE:
			return column->behaviour == SIM_DATE_ONLY ? "2024-02-29" : "2024-02-29T23:59:59Z";
		case SIM_CLASS_GUID:
		case SIM_CLASS_LOOKUP:
			return sim_fmt(arena, "%08x-0000-0000-0000-0123456789ab", (unsigned int) next_random());
		case SIM_CLASS_DECIMAL:
			return sim_fmt(arena, "-%d.0000000001", (int) random_below(1000));
		case SIM_CLASS_REAL:
			return one_in(2) ? "1.5e+20" : "-2.5";
		case SIM_CLASS_INTEGER:
			return sim_fmt(arena, "%d", (int) random_below(1000) - 500);
		default:
			return sim_fmt(arena, "%d", (int) random_below(1000));
	}
}

static void
add_operands(dv_filter * filter, const struct sim_column *column, int n)
{
	int			i;

	filter->n = n;
	filter->operands = sim_alloc(arena, n * sizeof(dv_operand));
	for (i = 0; i < n; i++)
		filter->operands[i].text = some_value(column);
}

/* A column of the same class as this one. */
static void
add_other(dv_filter * filter, const struct sim_table *table, const struct sim_column *column)
{
	unsigned int class = 1u << sim_fetch_class_of(column);

	if (class & (C(GUID) | C(LOOKUP)))
		class = C(GUID) | C(LOOKUP);
	filter->other = column_of(some_column(table, class));
}

static dv_filter *
some_condition(const struct sim_table *table)
{
	static const unsigned int classes[DV_FILTER_KINDS] = {
		[DV_IS_NULL] = ANY, [DV_IS_NOT_NULL] = ANY,
		[DV_EQ] = ANY & ~C(CHOICES), [DV_NE] = ANY & ~C(CHOICES),
		[DV_LT] = NUMBERS | C(DATE) | C(GUID), [DV_LE] = NUMBERS | C(DATE) | C(TEXT),
		[DV_GT] = NUMBERS | C(DATE) | C(LOOKUP), [DV_GE] = NUMBERS | C(DATE) | C(GUID),
		[DV_STARTS_WITH] = C(TEXT), [DV_ENDS_WITH] = C(TEXT), [DV_CONTAINS] = C(TEXT),
		[DV_IN] = NUMBERS | C(TEXT) | C(CHOICE) | C(GUID) | C(LOOKUP),
		[DV_NOT_IN] = NUMBERS | C(TEXT) | C(CHOICE) | C(GUID) | C(LOOKUP),
		[DV_CONTAIN_VALUES] = C(CHOICES),
	};
	dv_filter  *filter = sim_alloc(arena, sizeof(*filter));
	const struct sim_column *column = NULL;

	while (column == NULL)
	{
		filter->kind = (dv_filter_kind) random_below(DV_FILTER_KINDS);
		if (filter->kind == DV_TRUE || filter->kind == DV_FALSE)
			return filter;
		column = classes[filter->kind] == 0 ? NULL : some_column(table, classes[filter->kind]);
	}
	filter->column = column_of(column);
	if (filter->kind >= DV_IN)
		add_operands(filter, column, 1 + (int) random_below(MAX_VALUES));
	else if (filter->kind >= DV_EQ && filter->kind <= DV_GE && one_in(4))
		add_other(filter, table, column);
	else if (filter->kind >= DV_EQ)
		add_operands(filter, column, 1);
	return filter;
}

/* The kinds of nested groups may alternate. */
static dv_filter *
some_filter(const struct sim_table *table, int depth)
{
	dv_filter  *filter;
	int			i;

	if (depth == MAX_DEPTH || one_in(3))
		return some_condition(table);
	filter = sim_alloc(arena, sizeof(*filter));
	filter->kind = one_in(2) ? DV_AND : DV_OR;
	filter->n = 1 + (int) random_below(4);
	filter->parts = sim_alloc(arena, filter->n * sizeof(dv_filter *));
	for (i = 0; i < filter->n; i++)
		filter->parts[i] = some_filter(table, depth + 1);
	return filter;
}

static bool
is_joined(int table)
{
	return table == 0 || query.links[table - 1].kind <= DV_LINK_OUTER;
}

/* Adds a link to a table that can have one, unless chance finds no relationship for it. */
static void
add_link(dv_link * links)
{
	dv_link    *link = &links[query.nlinks];
	int			parent = (int) random_below(query.nlinks + 1);
	bool		many_to_one = one_in(2);
	struct sim_table *table = tables[parent];
	int			n = many_to_one ? table->nmany_to_one : table->none_to_many;
	struct sim_relationship *relationship;

	if (!is_joined(parent) || n == 0)
		return;
	relationship = (many_to_one ? table->many_to_one : table->one_to_many)[random_below(n)];
	table = many_to_one ? relationship->referenced : relationship->referencing;
	if (table->type != SIM_STANDARD || !is_usable(relationship->column) || !is_usable(table->id))
		return;
	link->parent = parent;
	link->table = table->name;
	link->kind = (dv_link_kind) (many_to_one ? random_below(4) : DV_LINK_EXISTS + random_below(2));
	if (parent > 0 && links[parent - 1].kind == DV_LINK_OUTER && link->kind == DV_LINK_INNER)
		link->kind = DV_LINK_OUTER;
	link->from = column_of(many_to_one ? table->id : relationship->column);
	link->to = column_of(many_to_one ? relationship->column : tables[parent]->id);
	link->filter = one_in(2) ? some_filter(table, 1) : NULL;
	tables[++query.nlinks] = table;
}

static void
add_links(void)
{
	dv_link    *links = sim_alloc(arena, DV_MAX_LINKS * sizeof(*links));
	int			tries = one_in(10) ? 100 : (int) random_below(6);

	query.links = links;
	while (tries-- > 0 && query.nlinks < DV_MAX_LINKS)
		add_link(links);
}

static int
some_table(void)
{
	int			table;

	do
		table = (int) random_below(query.nlinks + 1);
	while (!is_joined(table));
	return table;
}

/* A column of the result, or of its groups. */
static dv_output
some_output(bool aggregate)
{
	static const unsigned int classes[] = {
		[DV_OUTPUT_COLUMN] = ANY,
		[DV_OUTPUT_GROUP] = ANY & ~(C(CHOICES) | C(DATE)),
		[DV_OUTPUT_YEAR] = C(DATE), [DV_OUTPUT_MONTH] = C(DATE), [DV_OUTPUT_DAY] = C(DATE),
		[DV_OUTPUT_COUNT] = C(GUID),
		[DV_OUTPUT_COUNT_VALUES] = ANY & ~C(CHOICES),
		[DV_OUTPUT_COUNT_DISTINCT] = ANY & ~C(CHOICES),
		[DV_OUTPUT_SUM] = NUMBERS, [DV_OUTPUT_MIN] = NUMBERS | C(DATE), [DV_OUTPUT_MAX] = NUMBERS | C(DATE),
	};
	dv_output	output;
	const struct sim_column *column = NULL;

	while (column == NULL)
	{
		output.kind = aggregate ? (dv_output_kind) (1 + random_below(DV_OUTPUT_MAX)) : DV_OUTPUT_COLUMN;
		output.table = some_table();
		column = some_column(tables[output.table], classes[output.kind]);
	}
	output.column = column_of(column);
	return output;
}

static void
add_outputs(void)
{
	dv_output  *outputs = sim_alloc(arena, 8 * sizeof(*outputs));
	const		dv_column **columns = sim_alloc(arena, 8 * sizeof(*columns));
	bool		aggregate = one_in(2);
	int			n = (int) random_below(9);
	int			i;

	query.count = one_in(10);
	query.all_columns = one_in(20);
	query.outputs = outputs;
	query.columns = columns;
	for (i = 0; i < n; i++)
	{
		outputs[i] = some_output(aggregate);
		columns[i] = column_of(some_column(tables[0], ANY));
	}
	if (one_in(4))
		query.ncolumns = n;
	else if (!query.count)
		query.noutputs = n;
}

static void
add_orders(void)
{
	dv_order   *orders = sim_alloc(arena, 3 * sizeof(*orders));
	int			i;

	query.by_id = one_in(2);
	query.norders = (int) random_below(4);
	query.orders = orders;
	for (i = 0; i < query.norders; i++)
	{
		orders[i].table = some_table();
		orders[i].column = column_of(some_column(tables[orders[i].table], ANY & ~(C(LOOKUP) | C(CHOICES))));
		orders[i].descending = one_in(2);
	}
}

static void
make_query(void)
{
	struct sim_schema *schema = simulator.schema;

	memset(&query, 0, sizeof(query));
	do
		tables[0] = &schema->tables[random_below(schema->ntables)];
	while (tables[0]->type != SIM_STANDARD || !is_usable(tables[0]->id));
	query.entity_set = tables[0]->set_name;
	query.table = tables[0]->name;
	query.primary_id = column_of(tables[0]->id);
	query.top = one_in(2) ? 1 + random_below(5000) : 0;
	if (!one_in(3))
		query.filter = some_filter(tables[0], 0);
	add_links();
	add_outputs();
	add_orders();
}

/*
 * Comparing the tree with the query
 */

static void
is_text(const char *read, const char *meant)
{
	if (meant == NULL)
		assert_null(read);
	else
	{
		assert_non_null(read);
		assert_string_equal(read, meant);
	}
}

/* Returns the value of a pattern's operator that finds the text. */
static const char *
pattern_of(dv_filter_kind kind, const char *text)
{
	struct sim_buf buf = {0};
	const char *pattern;

	for (; *text != '\0'; text++)
		sim_putf(&buf, *text == '%' || *text == '_' || *text == '[' ? "[%c]" : "%c", *text);
	pattern = sim_fmt(arena, kind == DV_CONTAINS ? "%%%s%%" : "%s", buf.s != NULL ? buf.s : "");
	sim_buf_free(&buf);
	return pattern;
}

static void
compare_condition(const struct sim_fetch_condition *read, int table, const dv_filter * meant)
{
	static const char *const operators[DV_FILTER_KINDS] = {
		"null", "not-null", NULL, NULL, "null", "not-null", "eq", "ne", "lt", "le", "gt", "ge",
		"begins-with", "ends-with", "like", "in", "not-in", "contain-values"
	};
	bool		constant = meant->kind == DV_TRUE || meant->kind == DV_FALSE;
	bool		pattern = meant->kind >= DV_STARTS_WITH && meant->kind <= DV_CONTAINS;
	const struct sim_fetch_value *value = read->values;
	int			i;

	is_text(read->operator, operators[meant->kind]);
	is_text(read->attribute, !constant ? meant->column->name :
			table == 0 ? query.primary_id->name : query.links[table - 1].from->name);
	is_text(read->entityname, NULL);
	is_text(read->valueof, meant->other != NULL ? meant->other->name : NULL);
	assert_int_equal(read->nvalues, meant->n);
	for (i = 0; i < meant->n; i++, value = value->next)
		is_text(value->text, pattern ? pattern_of(meant->kind, meant->operands[i].text) :
				meant->operands[i].text);
}

/* Compares consecutive items of a filter; returns the item after them. */
static const struct sim_fetch_item *
compare_items(const struct sim_fetch_item *read, int table, dv_filter * const *meant, int n)
{
	int			i;

	for (i = 0; i < n; i++, read = read->next)
	{
		assert_non_null(read);
		if (meant[i]->kind == DV_AND || meant[i]->kind == DV_OR)
		{
			assert_non_null(read->filter);
			assert_int_equal(read->filter->any, meant[i]->kind == DV_OR);
			assert_null(compare_items(read->filter->items, table, meant[i]->parts, meant[i]->n));
		}
		else
		{
			assert_non_null(read->condition);
			compare_condition(read->condition, table, meant[i]);
		}
	}
	return read;
}

static void compare_entity(const struct sim_fetch_entity *read, int table);

static void
compare_link(const struct sim_fetch_entity *read, int table)
{
	static const enum sim_fetch_link_type types[] = {
		[DV_LINK_INNER] = SIM_LINK_INNER, [DV_LINK_OUTER] = SIM_LINK_OUTER,
		[DV_LINK_EXISTS] = SIM_LINK_EXISTS, [DV_LINK_NOT_EXISTS] = SIM_LINK_NOT_ANY
	};
	const		dv_link *link = &query.links[table - 1];

	assert_non_null(read);
	assert_int_equal(read->type, types[link->kind]);
	is_text(read->name, link->table);
	is_text(read->from, link->from->name);
	is_text(read->to, link->to->name);
	is_text(read->alias, is_joined(table) ? sim_fmt(arena, "t%d", table) : NULL);
	compare_entity(read, table);
}

/* The filter of an entity is a conjunction: conditions first, then links that must not exist. */
static void
compare_filter(const struct sim_fetch_entity *read, int table)
{
	dv_filter  *meant = (dv_filter *) (table == 0 ? query.filter : query.links[table - 1].filter);
	bool		conjunction = meant != NULL && meant->kind == DV_AND;
	bool		conditions = meant != NULL && meant->kind != DV_TRUE;
	const struct sim_fetch_item *item = read->filter.items;
	int			i;

	/* there is at most one filter, which may be the disjunction itself */
	assert_true(item == NULL || item->next == NULL);
	if (item != NULL && !item->filter->any)
		item = item->filter->items;
	if (conditions)
		item = compare_items(item, table, conjunction ? meant->parts : &meant, conjunction ? meant->n : 1);
	for (i = 0; i < query.nlinks; i++)
	{
		if (query.links[i].parent != table || query.links[i].kind != DV_LINK_NOT_EXISTS)
			continue;
		assert_non_null(item);
		compare_link(item->link, i + 1);
		item = item->next;
	}
	assert_null(item);
}

static void
compare_attribute(const struct sim_fetch_attribute *read, const dv_column * column, int kind,
				  const char *alias)
{
	static const int aggregates[] = {
		[DV_OUTPUT_COUNT] = SIM_AGGREGATE_COUNT,
		[DV_OUTPUT_COUNT_VALUES] = SIM_AGGREGATE_COUNTCOLUMN,
		[DV_OUTPUT_COUNT_DISTINCT] = SIM_AGGREGATE_COUNTCOLUMN,
		[DV_OUTPUT_SUM] = SIM_AGGREGATE_SUM, [DV_OUTPUT_MIN] = SIM_AGGREGATE_MIN,
		[DV_OUTPUT_MAX] = SIM_AGGREGATE_MAX
	};
	static const int parts[DV_OUTPUT_MAX + 1] = {
		[DV_OUTPUT_YEAR] = SIM_PART_YEAR, [DV_OUTPUT_MONTH] = SIM_PART_MONTH, [DV_OUTPUT_DAY] = SIM_PART_DAY
	};

	assert_non_null(read);
	is_text(read->name, column->name);
	is_text(read->alias, alias);
	assert_int_equal(read->aggregate, aggregates[kind]);
	assert_int_equal(read->groupby, kind >= DV_OUTPUT_GROUP && kind <= DV_OUTPUT_DAY);
	assert_int_equal(read->part, parts[kind]);
	assert_int_equal(read->distinct, kind == DV_OUTPUT_COUNT_DISTINCT);
	/* groups are in UTC */
	assert_true(read->part == SIM_PART_NONE || !read->user_time_zone);
}

/* Returns the number of attributes of the table in the query. */
static int
compare_outputs(const struct sim_fetch_attribute *read, int table)
{
	int			n = 0;
	int			i;

	for (i = 0; i < query.noutputs; i++)
	{
		if (query.outputs[i].table != table)
			continue;
		compare_attribute(read, query.outputs[i].column, query.outputs[i].kind, sim_fmt(arena, "c%d", i));
		read = read->next;
		n++;
	}
	if (n > 0 || table > 0)
		assert_null(read);
	return n;
}

static bool
is_aggregate(void)
{
	return query.count || (query.noutputs > 0 && query.outputs[0].kind != DV_OUTPUT_COLUMN);
}

static void
compare_attributes(const struct sim_fetch_entity *read, int table)
{
	const struct sim_fetch_attribute *attribute = read->attributes;
	int			i;

	assert_int_equal(read->all_attributes,
					 table == 0 && query.all_columns && query.noutputs == 0 && !query.count);
	if (compare_outputs(attribute, table) > 0 || table > 0 || read->all_attributes)
		return;
	if (query.count)
		compare_attribute(attribute, query.primary_id, DV_OUTPUT_COUNT, "n");
	else if (query.noutputs == 0 && query.ncolumns > 0)
	{
		for (i = 0; i < query.ncolumns; i++, attribute = attribute->next)
			compare_attribute(attribute, query.columns[i], DV_OUTPUT_COLUMN, NULL);
		assert_null(attribute);
		return;
	}
	else if (is_aggregate())
	{
		assert_null(attribute);
		return;
	}
	else
		compare_attribute(attribute, query.primary_id, DV_OUTPUT_COLUMN, NULL);
	assert_null(attribute->next);
}

static void
compare_entity(const struct sim_fetch_entity *read, int table)
{
	const struct sim_fetch_entity *link = read->links;
	int			i;

	compare_attributes(read, table);
	compare_filter(read, table);
	assert_true(table == 0 || read->orders == NULL);
	for (i = 0; i < query.nlinks; i++)
	{
		if (query.links[i].parent != table || query.links[i].kind == DV_LINK_NOT_EXISTS)
			continue;
		compare_link(link, i + 1);
		link = link->next;
	}
	assert_null(link);
}

static void
compare_orders(const struct sim_fetch_tree *read)
{
	const struct sim_fetch_order *order = read->root->orders;
	bool		raw = false;
	bool		id_seen = false;
	int			i;

	for (i = 0; i < query.norders && !is_aggregate(); i++, order = order->next)
	{
		const		dv_order *meant = &query.orders[i];

		assert_non_null(order);
		is_text(order->attribute, meant->column->name);
		is_text(order->entityname, meant->table > 0 ? sim_fmt(arena, "t%d", meant->table) : NULL);
		assert_int_equal(order->descending, meant->descending);
		if (meant->column->type == DV_TYPE_CHOICE || meant->column->type == DV_TYPE_STATE ||
			meant->column->type == DV_TYPE_STATUS || meant->column->type == DV_TYPE_BOOLEAN)
			raw = true;
		if (meant->table == 0 && strcmp(meant->column->name, query.primary_id->name) == 0)
			id_seen = true;
	}
	assert_int_equal(read->raw_order, raw);
	if (query.by_id && !is_aggregate() && !id_seen)
	{
		assert_non_null(order);
		is_text(order->attribute, query.primary_id->name);
		assert_false(order->descending);
		order = order->next;
	}
	assert_null(order);
}

static void
compare_fetch(const struct sim_fetch_tree *read, const dv_fetch_page * page)
{
	assert_int_equal(read->aggregate, is_aggregate());
	assert_false(read->distinct);
	assert_int_equal(read->top, page == NULL ? query.top : 0);
	assert_int_equal(read->page, page != NULL ? page->page : 0);
	assert_int_equal(read->count, page != NULL ? page->count : 0);
	is_text(read->cookie, page != NULL ? page->cookie : NULL);
	is_text(read->root->name, query.table);
	assert_int_equal(read->links, query.nlinks);
	compare_entity(read->root, 0);
	compare_orders(read);
}

/*
 * From text to text
 */

static char *
write_query(dv_odata_style style, const dv_fetch_page * page)
{
	size_t		len = dv_fetch_query(&query, style, page, NULL, 0);
	char	   *text = sim_alloc(arena, len + 1);

	assert_int_equal(dv_fetch_query(&query, style, page, text, len + 1), len);
	assert_int_equal(strlen(text), len);
	return text;
}

/* Undoes percent-encoding; characters that need it must not occur unencoded. */
static char *
decode(const char *wire)
{
	char	   *text = sim_alloc(arena, strlen(wire) + 1);
	char	   *to = text;

	for (; *wire != '\0'; wire++)
	{
		if (*wire != '%')
		{
			assert_true(*wire > ' ' && *wire < 0x7f && strchr("&#+\"<>", *wire) == NULL);
			*to++ = *wire;
			continue;
		}
		*to++ = (char) (dv_hex_value(wire[1]) * 16 + dv_hex_value(wire[2]));
		wire += 2;
	}
	return text;
}

/* Writes the query, lets dvsim read it, and compares. */
static void
check_query(const dv_fetch_page * page)
{
	struct sim_fetch_query sql = {.req = &request, .res = &response, .table = tables[0]};
	const char *front = sim_fmt(arena, "%s?fetchXml=", query.entity_set);
	const char *xml = decode(write_query(DV_ODATA_WIRE, page));

	/* for EXPLAIN, the same text is just not encoded */
	assert_string_equal(xml, write_query(DV_ODATA_READABLE, page));
	assert_int_equal(strncmp(xml, front, strlen(front)), 0);
	xml += strlen(front);
	if (!sim_fetch_parse(&request, &response, xml, &sql.tree))
		fail_msg("%s: %s", xml, response.error_message);
	compare_fetch(sql.tree, page);

	/*
	 * all names and values are in places where the service accepts them; a cookie is just text
	 * here
	 */
	if (!sim_fetch_translate(&sql) || !(page != NULL || sim_fetch_page(&sql)))
		fail_msg("%s: %s", xml, response.error_message);
	sim_fetch_free(&sql);
}

static void
begin(void)
{
	arena = sim_arena_new();
	memset(&request, 0, sizeof(request));
	memset(&response, 0, sizeof(response));
	request.sim = &simulator;
	request.arena = arena;
	request.method = "GET";
	request.base_url = "http://localhost";
}

static void
end(void)
{
	sim_buf_free(&response.body);
	sim_arena_free(arena);
}

static void
test_random_queries(void **state)
{
	int			i;

	(void) state;
	for (i = 0; i < QUERIES; i++)
	{
		dv_fetch_page page = {1 + (int) random_below(9), 1 + (int) random_below(5000), NULL};

		begin();
		if (one_in(2))
			page.cookie = some_text();
		make_query();
		check_query(one_in(2) ? &page : NULL);
		end();
	}
}

/* As many links and conditions as the service accepts. */
static void
test_limits(void **state)
{
	dv_operand	one = {"1", false};
	dv_column	id = {"accountid", "accountid", DV_TYPE_UNIQUEIDENTIFIER};
	dv_column	parent = {"parentaccountid", "_parentaccountid_value", DV_TYPE_LOOKUP};
	dv_column	size = {"numberofemployees", "numberofemployees", DV_TYPE_INTEGER};
	dv_filter	condition = {.kind = DV_EQ, .column = &size, .n = 1, .operands = &one};
	dv_filter  *parts[DV_MAX_CONDITIONS - DV_MAX_LINKS];
	dv_filter	filter = {.kind = DV_OR, .n = DV_MAX_CONDITIONS - DV_MAX_LINKS, .parts = parts};
	dv_link		links[DV_MAX_LINKS];
	int			i;

	(void) state;
	begin();
	memset(&query, 0, sizeof(query));
	query.entity_set = "accounts";
	query.table = "account";
	query.primary_id = &id;
	query.links = links;
	query.nlinks = DV_MAX_LINKS;
	query.filter = &filter;
	tables[0] = sim_table_by_name(simulator.schema, "account");
	for (i = 0; i < filter.n; i++)
		parts[i] = &condition;
	/* each below the one before it */
	for (i = 0; i < DV_MAX_LINKS; i++)
		links[i] = (dv_link)
	{
		DV_LINK_OUTER, i, "account", &id, &parent, NULL
	};
	check_query(NULL);
	end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_queries),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests_name("sim_fetch_written", tests, load, unload);
}

/*
 * fetch.c
 *		Writes queries as FetchXML.
 *
 * Columns are always named by their logical names.  Attributes of the XML are
 * between single quotes, which need no percent-encoding.  An entity has at most
 * one filter, so links that must not exist are written into the same filter as
 * the conditions.
 *
 * Values are written as they are: all types have the same form as in OData, but
 * without quotes.  Times have a "Z", since without it the service takes them
 * for times of the user's time zone.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/fetch.h"
#include "dataverse/line.h"

typedef struct fetch_writer
{
	dv_line		line;
	const dv_query *query;
	bool		aggregate;
} fetch_writer;

static void put_content(fetch_writer *w, int table);

/* Writes XML from this file, or a name. */
static void
put(fetch_writer *w, const char *xml)
{
	dv_line_encode_text(&w->line, xml);
}

/* An attribute of XML, with a blank in front. */
static void
put_attribute(fetch_writer *w, const char *name, const char *value)
{
	put(w, " ");
	put(w, name);
	put(w, "='");
	dv_line_encode_xml(&w->line, value);
	put(w, "'");
}

static void
put_numbered(fetch_writer *w, const char *name, const char *prefix, int64_t number)
{
	put(w, " ");
	put(w, name);
	put(w, "='");
	put(w, prefix);
	dv_line_number(&w->line, number);
	put(w, "'");
}

/*
 * Columns
 */

static const char *const output_forms[] = {
	[DV_OUTPUT_COLUMN] = "",
	[DV_OUTPUT_GROUP] = " groupby='true'",
	[DV_OUTPUT_YEAR] = " groupby='true' dategrouping='year' usertimezone='false'",
	[DV_OUTPUT_MONTH] = " groupby='true' dategrouping='month' usertimezone='false'",
	[DV_OUTPUT_DAY] = " groupby='true' dategrouping='day' usertimezone='false'",
	[DV_OUTPUT_COUNT] = " aggregate='count'",
	[DV_OUTPUT_COUNT_VALUES] = " aggregate='countcolumn'",
	[DV_OUTPUT_COUNT_DISTINCT] = " aggregate='countcolumn' distinct='true'",
	[DV_OUTPUT_SUM] = " aggregate='sum'",
	[DV_OUTPUT_MIN] = " aggregate='min'",
	[DV_OUTPUT_MAX] = " aggregate='max'",
};

static bool
is_aggregate(const dv_query *query)
{
	int			i;

	for (i = 0; i < query->noutputs; i++)
		if (query->outputs[i].kind != DV_OUTPUT_COLUMN)
			return true;
	return query->count;
}

static void
put_column(fetch_writer *w, const dv_column *column)
{
	put(w, "<attribute");
	put_attribute(w, "name", column->name);
	put(w, "/>");
}

/* Returns true if the table has any outputs. */
static bool
put_outputs(fetch_writer *w, int table)
{
	bool		any = false;
	int			i;

	for (i = 0; i < w->query->noutputs; i++)
	{
		const dv_output *output = &w->query->outputs[i];

		if (output->table != table)
			continue;
		put(w, "<attribute");
		put_attribute(w, "name", output->column->name);
		if (!output->plain)
			put_numbered(w, "alias", "c", i);
		put(w, output_forms[output->kind]);
		put(w, "/>");
		any = true;
	}
	return any;
}

/*
 * An entity without columns would return all of them.  The primary id comes
 * in any case, so asking for it costs nothing.
 */
static void
put_root_columns(fetch_writer *w)
{
	const dv_query *query = w->query;
	int			i;

	if (query->count)
	{
		put(w, "<attribute");
		put_attribute(w, "name", query->primary_id->name);
		put(w, " alias='n' aggregate='count'/>");
	}
	else if (query->noutputs > 0)
	{
		if (!put_outputs(w, 0) && !w->aggregate)
			put_column(w, query->primary_id);
	}
	else if (query->all_columns)
		put(w, "<all-attributes/>");
	else if (query->ncolumns == 0)
		put_column(w, query->primary_id);
	else
		for (i = 0; i < query->ncolumns; i++)
			put_column(w, query->columns[i]);
}

/*
 * Filters: one function for each kind of condition
 */

typedef struct filter_form filter_form;
struct filter_form
{
	void		(*put) (fetch_writer *w, int table, const dv_filter *filter, const filter_form *form);
	const char *word;			/* the operator */
	const char *before;			/* of patterns: the text around the value */
	const char *after;
};

static void put_filter(fetch_writer *w, int table, const dv_filter *filter);

static void
put_operand(fetch_writer *w, const dv_operand *operand)
{
	if (operand->placeholder)
		dv_line_text(&w->line, operand->text);
	else
		dv_line_encode_xml(&w->line, operand->text);
}

/* Wildcards are put between brackets. */
static void
put_literally(dv_line *line, const char *text)
{
	for (; *text != '\0'; text++)
	{
		char		one[] = {*text, '\0'};
		bool		wild = strchr(DV_WILDCARDS, *text) != NULL;

		if (wild)
			dv_line_encode(line, '[');
		dv_line_encode_xml(line, one);
		if (wild)
			dv_line_encode(line, ']');
	}
}

/* Without room, the writer only counts. */
size_t
dv_fetch_text_length(const char *text)
{
	dv_line		line = {.encoding = DV_LINE_WIRE};

	put_literally(&line, text);
	return line.len;
}

static void
put_condition(fetch_writer *w, const dv_column *column, const char *word)
{
	put(w, "<condition");
	put_attribute(w, "attribute", column->name);
	put_attribute(w, "operator", word);
}

static void
put_null_test(fetch_writer *w, int table, const dv_filter *filter, const filter_form *form)
{
	(void) table;
	put_condition(w, filter->column, form->word);
	put(w, "/>");
}

/* All rows that take part in the query have a value in this column, so none or all match. */
static void
put_constant(fetch_writer *w, int table, const dv_filter *filter, const filter_form *form)
{
	(void) filter;
	put_condition(w, table == 0 ? w->query->primary_id : w->query->links[table - 1].from,
				  form->word);
	put(w, "/>");
}

static void
put_comparison(fetch_writer *w, int table, const dv_filter *filter, const filter_form *form)
{
	(void) table;
	put_condition(w, filter->column, form->word);
	if (filter->other != NULL)
		put_attribute(w, "valueof", filter->other->name);
	else
	{
		put(w, " value='");
		put_operand(w, &filter->operands[0]);
		put(w, "'");
	}
	put(w, "/>");
}

static void
put_pattern(fetch_writer *w, int table, const dv_filter *filter, const filter_form *form)
{
	(void) table;
	put_condition(w, filter->column, form->word);
	put(w, " value='");
	put(w, form->before);
	if (filter->operands[0].placeholder)
		put_operand(w, &filter->operands[0]);
	else
		put_literally(&w->line, filter->operands[0].text);
	put(w, form->after);
	put(w, "'/>");
}

static void
put_list(fetch_writer *w, int table, const dv_filter *filter, const filter_form *form)
{
	int			i;

	(void) table;
	put_condition(w, filter->column, form->word);
	put(w, ">");
	for (i = 0; i < filter->n; i++)
	{
		put(w, "<value>");
		put_operand(w, &filter->operands[i]);
		put(w, "</value>");
	}
	put(w, "</condition>");
}

static void
put_parts(fetch_writer *w, int table, const dv_filter *filter)
{
	int			i;

	for (i = 0; i < filter->n; i++)
		put_filter(w, table, filter->parts[i]);
}

static void
put_group(fetch_writer *w, int table, const dv_filter *filter, const filter_form *form)
{
	put(w, form->word);
	put_parts(w, table, filter);
	put(w, "</filter>");
}

static const filter_form forms[DV_FILTER_KINDS] = {
	[DV_FALSE] = {put_constant, "null", NULL, NULL},
	[DV_TRUE] = {put_constant, "not-null", NULL, NULL},
	[DV_AND] = {put_group, "<filter>", NULL, NULL},
	[DV_OR] = {put_group, "<filter type='or'>", NULL, NULL},
	[DV_IS_NULL] = {put_null_test, "null", NULL, NULL},
	[DV_IS_NOT_NULL] = {put_null_test, "not-null", NULL, NULL},
	[DV_EQ] = {put_comparison, "eq", NULL, NULL},
	[DV_NE] = {put_comparison, "ne", NULL, NULL},
	[DV_LT] = {put_comparison, "lt", NULL, NULL},
	[DV_LE] = {put_comparison, "le", NULL, NULL},
	[DV_GT] = {put_comparison, "gt", NULL, NULL},
	[DV_GE] = {put_comparison, "ge", NULL, NULL},
	[DV_STARTS_WITH] = {put_pattern, "begins-with", "", ""},
	[DV_ENDS_WITH] = {put_pattern, "ends-with", "", ""},
	[DV_CONTAINS] = {put_pattern, "like", "%", "%"},
	[DV_IN] = {put_list, "in", NULL, NULL},
	[DV_NOT_IN] = {put_list, "not-in", NULL, NULL},
	[DV_CONTAIN_VALUES] = {put_list, "contain-values", NULL, NULL},
};

static void
put_filter(fetch_writer *w, int table, const dv_filter *filter)
{
	const filter_form *form = &forms[filter->kind];

	form->put(w, table, filter, form);
}

/*
 * Links
 */

static void
put_link(fetch_writer *w, int table)
{
	static const char *const types[] = {
		[DV_LINK_INNER] = "inner",
		[DV_LINK_OUTER] = "outer",
		[DV_LINK_EXISTS] = "exists",
		[DV_LINK_NOT_EXISTS] = "not any",
	};
	const dv_link *link = &w->query->links[table - 1];

	put(w, "<link-entity");
	put_attribute(w, "name", link->table);
	put_attribute(w, "from", link->from->name);
	put_attribute(w, "to", link->to->name);
	put_attribute(w, "link-type", types[link->kind]);
	/* nothing refers to the others */
	if (link->kind == DV_LINK_INNER || link->kind == DV_LINK_OUTER)
		put_numbered(w, "alias", "t", table);
	put(w, ">");
	put_content(w, table);
	put(w, "</link-entity>");
}

/* Writes the links below a table: those that must not exist, or all others. */
static void
put_links(fetch_writer *w, int table, bool absent)
{
	int			i;

	for (i = 0; i < w->query->nlinks; i++)
	{
		const dv_link *link = &w->query->links[i];

		if (link->parent == table && (link->kind == DV_LINK_NOT_EXISTS) == absent)
			put_link(w, i + 1);
	}
}

static bool
has_absent(const dv_query *query, int table)
{
	int			i;

	for (i = 0; i < query->nlinks; i++)
		if (query->links[i].parent == table && query->links[i].kind == DV_LINK_NOT_EXISTS)
			return true;
	return false;
}

/* Writes the filter of an entity, with the links that must not exist. */
static void
put_entity_filter(fetch_writer *w, int table)
{
	const dv_filter *filter = table == 0 ? w->query->filter : w->query->links[table - 1].filter;
	bool		absent = has_absent(w->query, table);

	if (filter != NULL && filter->kind == DV_TRUE)
		filter = NULL;
	if (filter != NULL && filter->kind == DV_OR && !absent)
		put_filter(w, table, filter);
	else if (filter != NULL || absent)
	{
		put(w, "<filter>");
		if (filter != NULL && filter->kind == DV_AND)
			put_parts(w, table, filter);
		else if (filter != NULL)
			put_filter(w, table, filter);
		put_links(w, table, true);
		put(w, "</filter>");
	}
}

/*
 * Orders
 */

static void
put_order(fetch_writer *w, const dv_order *order)
{
	put(w, "<order");
	if (order->table > 0)
		put_numbered(w, "entityname", "t", order->table);
	put_attribute(w, "attribute", order->column->name);
	put(w, order->descending ? " descending='true'/>" : "/>");
}

/*
 * All orders belong to the root, because those inside links come before all
 * others, whatever their place in the list.
 */
static void
put_orders(fetch_writer *w)
{
	const dv_query *query = w->query;
	dv_order	by_id = {query->primary_id, false, 0};
	bool		id_seen = false;
	int			i;

	if (w->aggregate)
		return;
	for (i = 0; i < query->norders; i++)
	{
		const dv_order *order = &query->orders[i];

		put_order(w, order);
		if (order->table == 0 && strcmp(order->column->name, query->primary_id->name) == 0)
			id_seen = true;
	}
	if (query->by_id && !id_seen)
		put_order(w, &by_id);
}

/*
 * By default, the service orders choices by their labels.  (Lookups would be
 * ordered by their ids as well, but no query orders by lookups.)
 */
static bool
orders_by_number(const dv_query *query)
{
	int			i;

	for (i = 0; i < query->norders; i++)
		if (dv_types[query->orders[i].column->type].wire & (DV_WIRE_CHOICE | DV_WIRE_BOOLEAN))
			return true;
	return false;
}

/*
 * The query
 */

/* Writes the contents of the root or of a link. */
static void
put_content(fetch_writer *w, int table)
{
	if (table == 0)
	{
		put_root_columns(w);
		put_orders(w);
	}
	else if (!w->query->count)
		(void) put_outputs(w, table);
	put_entity_filter(w, table);
	put_links(w, table, false);
}

static void
put_paging(fetch_writer *w, const dv_fetch_page *page)
{
	if (page == NULL)
	{
		if (w->query->top > 0)
			put_numbered(w, "top", "", w->query->top);
		return;
	}
	put_numbered(w, "count", "", page->count);
	put_numbered(w, "page", "", page->page);
	if (page->cookie != NULL)
		put_attribute(w, "paging-cookie", page->cookie);
}

size_t
dv_fetch_query(const dv_query *query, dv_odata_style style, const dv_fetch_page *page, char *out,
			   size_t size)
{
	fetch_writer w = {.query = query, .aggregate = is_aggregate(query)};

	w.line.out = out;
	w.line.size = size;
	w.line.encoding = style == DV_ODATA_WIRE ? DV_LINE_WIRE : DV_LINE_RAW;
	dv_line_text(&w.line, query->entity_set);
	dv_line_option(&w.line, "fetchXml=");
	put(&w, "<fetch");
	if (w.aggregate)
		put(&w, " aggregate='true'");
	else if (orders_by_number(query))
		put(&w, " useraworderby='true'");
	put_paging(&w, page);
	put(&w, "><entity");
	put_attribute(&w, "name", query->table);
	put(&w, ">");
	put_content(&w, 0);
	put(&w, "</entity></fetch>");
	dv_line_partition(&w.line, query->partition);
	return dv_line_end(&w.line);
}

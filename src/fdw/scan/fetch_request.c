/*
 * fetch_request.c
 *		The query of a read that FetchXML expresses, with all values in place.
 *
 * Each table of the query has bindings of its own for its condition, which all
 * refer to one array of values.  Columns of the scan tuple and columns of the
 * query do not correspond one to one: an average is computed from a sum and a
 * count, a period from a year, a month, and a day; several columns may need the
 * same sum.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "dataverse/header.h"
#include "fdw/plan/ship.h"
#include "fdw/scan/fetch_request.h"

/* A column consists of three outputs at most, and each has a member at most; ids have one, too. */
#define OUTPUTS_OF_ITEM 3

static const dv_fetch_table *
table_at(const dv_fetch_request *request, int i)
{
	return list_nth(request->plan->tables, i);
}

/*
 * Tables and values
 */

/*
 * Does the service form more groups than the statement wants?  The only groups of
 * a quarter are those of its months, and a week has one for each of its days.
 */
static bool
forms_smaller_groups(const dv_fetch_plan *plan)
{
	ListCell   *lc;

	foreach(lc, plan->items)
	{
		const dv_fetch_item *item = lfirst(lc);

		if (item->content == DV_FETCH_PERIOD &&
			(item->period == DV_FETCH_QUARTER || item->period == DV_FETCH_WEEK))
			return true;
	}
	return false;
}

void
dv_fetch_request_init(dv_fetch_request *request, const dv_fetch_plan *plan, List *exprs,
					  EState *estate)
{
	ListCell   *lc;
	int			i;

	memset(request, 0, sizeof(*request));
	request->plan = plan;
	request->wanted = -1;
	request->ntables = list_length(plan->tables);
	request->relations = palloc(sizeof(dv_relation *) * request->ntables);
	request->bindings = palloc0(sizeof(dv_bindings) * request->ntables);
	request->values = palloc0(sizeof(dv_bound_value) * Max(list_length(exprs), 1));
	foreach(lc, exprs)
	{
		request->values[foreach_current_index(lc)].type = getBaseType(exprType(lfirst(lc)));
	}
	for (i = 0; i < request->ntables; i++)
	{
		const dv_fetch_table *table = table_at(request, i);

		request->relations[i] = dv_relation_open(exec_rt_fetch(table->rti, estate)->relid);
		dv_relation_check(request->relations[i], table->signature);
		request->bindings[i].relation = request->relations[i];
		request->bindings[i].values = request->values + table->first_value;
		request->bindings[i].most_listed = PG_INT32_MAX;
		dv_bind_start(&request->bindings[i]);
	}
	request->page_size = dv_relation_page_size(request->relations[0]);
	request->distinct_values = forms_smaller_groups(plan);
	dv_fetch_request_choose(request);
}

/*
 * What is requested
 */

bool
dv_fetch_request_grouped(const dv_fetch_request *request)
{
	return request->plan->grouped && !request->rows;
}

static int
add_member(dv_fetch_request *request, const char *name)
{
	int			i;

	for (i = 0; i < request->nmembers; i++)
		if (strcmp(request->members[i], name) == 0)
			return i;
	request->members[request->nmembers] = name;
	return request->nmembers++;
}

/* Several columns of a foreign table may show the same column of the service. */
static bool
is_ordered_by(const dv_fetch_request *request, int table, const dv_column *column)
{
	List	   *orders = request->plan->orders;
	int			i;

	for (i = 0; table == 0 && i < list_length(orders); i += 2)
	{
		const dv_attribute *ordered = dv_relation_attribute(request->relations[0],
															list_nth_int(orders, i));

		if (ordered != NULL && strcmp(ordered->column.name, column->name) == 0)
			return true;
	}
	return false;
}

/* Adds an output unless there is such a one, and returns the name of its member. */
static const char *
add_output(dv_fetch_request *request, dv_output_kind kind, int table, const dv_column *column,
		   bool plain)
{
	dv_output  *output;
	int			i;

	for (i = 0; i < request->noutputs; i++)
	{
		output = &request->outputs[i];
		if (output->kind == kind && output->table == table &&
			strcmp(output->column->name, column->name) == 0)
			break;
	}
	output = &request->outputs[i];
	if (i == request->noutputs)
	{
		request->noutputs++;
		output->kind = kind;
		output->table = table;
		output->column = column;
		output->plain = plain;
	}
	return output->plain ? column->property : psprintf("c%d", i);
}

/*
 * A column of a row.  The id of the root is in every row.  A column that the
 * rows are ordered by keeps its name, because it is in the paging cookie.
 */
static void
choose_column(dv_fetch_request *request, dv_fetch_source *source)
{
	const dv_attribute *attribute = source->attribute;
	int			table = source->item->table;
	const char *annotation = strchr(attribute->member, '@');
	const char *member;

	if (table == 0 && strcmp(attribute->column.name, request->relations[0]->primary_id.name) == 0)
		member = attribute->column.property;
	else
		member = add_output(request, DV_OUTPUT_COLUMN, table, &attribute->column,
							is_ordered_by(request, table, &attribute->column));
	if (annotation != NULL)
		member = psprintf("%s%s", member, annotation);
	source->members[0] = add_member(request, member);
}

static void
choose_output(dv_fetch_request *request, dv_fetch_source *source, int n, dv_output_kind kind)
{
	const dv_column *column = source->attribute != NULL ? &source->attribute->column :
	&request->relations[0]->primary_id;

	source->members[n] = add_member(request, add_output(request, kind, source->item->table, column,
														false));
}

/* The year, the month, and the day, as far as the period depends on them. */
static void
choose_period(dv_fetch_request *request, dv_fetch_source *source, dv_fetch_period period)
{
	choose_output(request, source, 0, DV_OUTPUT_YEAR);
	if (period != DV_FETCH_YEAR)
		choose_output(request, source, 1, DV_OUTPUT_MONTH);
	if (period == DV_FETCH_WEEK || period == DV_FETCH_DAY)
		choose_output(request, source, 2, DV_OUTPUT_DAY);
}

static void
choose_group(dv_fetch_request *request, dv_fetch_source *source)
{
	const dv_fetch_item *item = source->item;

	switch (item->content)
	{
		case DV_FETCH_KEY:
			if (source->attribute->column.type == DV_TYPE_DATE)
				choose_period(request, source, DV_FETCH_DAY);
			else
				choose_output(request, source, 0, DV_OUTPUT_GROUP);
			break;
		case DV_FETCH_PERIOD:
			choose_period(request, source, item->period);
			break;
		case DV_FETCH_COUNT:
			choose_output(request, source, 0, DV_OUTPUT_COUNT);
			break;
		case DV_FETCH_COUNT_VALUES:
			choose_output(request, source, 0, DV_OUTPUT_COUNT_VALUES);
			break;
		case DV_FETCH_COUNT_DISTINCT:
			if (!request->distinct_values)
				choose_output(request, source, 0, DV_OUTPUT_COUNT_DISTINCT);
			else if (source->attribute->column.type == DV_TYPE_DATE)
				choose_period(request, source, DV_FETCH_DAY);
			else
				choose_output(request, source, 0, DV_OUTPUT_GROUP);
			break;
		case DV_FETCH_AVG:
			choose_output(request, source, 0, DV_OUTPUT_SUM);
			choose_output(request, source, 1, DV_OUTPUT_COUNT_VALUES);
			break;
		case DV_FETCH_SUM:
			choose_output(request, source, 0, DV_OUTPUT_SUM);
			break;
		case DV_FETCH_MIN:
			choose_output(request, source, 0, DV_OUTPUT_MIN);
			break;
		case DV_FETCH_MAX:
			choose_output(request, source, 0, DV_OUTPUT_MAX);
			break;
		case DV_FETCH_COLUMN:
			elog(ERROR, "a group has no columns of rows");
	}
}

/*
 * Returns the first link of a kind that the root's rows are joined with, if anything
 * of links is requested; otherwise 0.
 */
static int
first_link(const dv_fetch_request *request, dv_link_kind kind)
{
	bool		any = false;
	int			i;

	for (i = 0; i < request->noutputs; i++)
		any |= request->outputs[i].table > 0;
	for (i = 1; any && i < request->ntables; i++)
		if (table_at(request, i)->kind == kind && table_at(request, i)->parent == 0)
			return i;
	return 0;
}

/*
 * Links are not documented to have aliases of columns.  Were they called
 * otherwise, all of them would seem to be null.  What is never null shows that
 * they are called as requested: the id of a row that is joined, and in each group
 * the number of these ids.
 */
static void
choose_proof(dv_fetch_request *request)
{
	bool		grouped = dv_fetch_request_grouped(request);
	int			link;

	request->proof = -1;
	request->proof_link = 0;
	if (!request->prove)
		return;
	link = first_link(request, DV_LINK_INNER);
	request->proof_certain = link > 0 || grouped;
	if (link == 0)
		link = first_link(request, DV_LINK_OUTER);
	if (link == 0)
		return;
	request->proof_link = link;
	request->proof = add_member(request, add_output(request, grouped ? DV_OUTPUT_COUNT_VALUES : DV_OUTPUT_COLUMN, link,
													&request->relations[link]->primary_id, false));
}

static void
choose_annotations(dv_fetch_request *request)
{
	bool		labels = false;
	bool		table_names = false;
	int			i;

	for (i = 0; i < request->nsources; i++)
	{
		const dv_attribute *attribute = request->sources[i].attribute;

		labels |= attribute != NULL && attribute->is_label;
		table_names |= attribute != NULL && attribute->is_table_name;
	}
	request->annotations = psprintf("%s,%s%s%s", DV_ANNOTATION_COOKIE, DV_ANNOTATION_MORE,
									labels ? "," DV_ANNOTATION_LABEL : "",
									table_names ? "," DV_ANNOTATION_TABLE : "");
}

static void
choose_orders(dv_fetch_request *request)
{
	List	   *numbers = request->plan->orders;
	int			i;

	request->orders = palloc0(sizeof(dv_order) * Max(list_length(numbers), 1));
	for (i = 0; i < list_length(numbers); i += 2)
	{
		const dv_attribute *attribute = dv_relation_attribute(request->relations[0],
															  list_nth_int(numbers, i));

		if (attribute == NULL)
			elog(ERROR, "column %d of foreign table \"%s\" does not exist", list_nth_int(numbers, i),
				 request->relations[0]->name);
		request->orders[i / 2].column = &attribute->column;
		request->orders[i / 2].descending = list_nth_int(numbers, i + 1) != 0;
	}
}

void
dv_fetch_request_choose(dv_fetch_request *request)
{
	const dv_fetch_plan *plan = request->plan;
	int			most = OUTPUTS_OF_ITEM * list_length(plan->items);
	bool		grouped = dv_fetch_request_grouped(request);
	ListCell   *lc;

	request->sources = palloc0(sizeof(dv_fetch_source) * Max(list_length(plan->items), 1));
	request->outputs = palloc0(sizeof(dv_output) * (most + 2));
	request->members = palloc0(sizeof(char *) * (most + 2));
	request->nsources = request->noutputs = request->nmembers = 0;
	foreach(lc, plan->items)
	{
		const dv_fetch_item *item = lfirst(lc);
		dv_fetch_source *source = &request->sources[request->nsources++];

		source->item = item;
		source->relation = request->relations[item->table];
		source->attribute = dv_relation_attribute(source->relation, item->attnum);
		if (source->attribute == NULL && item->content != DV_FETCH_COUNT)
			elog(ERROR, "column %d of foreign table \"%s\" does not exist", item->attnum,
				 source->relation->name);
		if (grouped)
			choose_group(request, source);
		else if (source->attribute != NULL)
			choose_column(request, source);
	}
	choose_proof(request);
	choose_annotations(request);
	choose_orders(request);
}

/*
 * The query
 */

/*
 * Binds the condition of a table.  A link whose rows cannot match is still
 * needed: where there is no match, there is no row, or one with nulls.
 */
static const dv_filter *
bind_link(dv_fetch_request *request, int table)
{
	const dv_filter *filter = dv_bind(&request->bindings[table],
									  table_at(request, table)->condition);

	if (filter->kind == DV_FALSE)
		return dv_filter_of(DV_IS_NULL, &request->relations[table]->primary_id, NULL);
	return filter;
}

static const dv_column *
column_of(const dv_fetch_request *request, int table, AttrNumber attnum)
{
	const dv_attribute *attribute = dv_relation_attribute(request->relations[table], attnum);

	if (attribute == NULL)
		elog(ERROR, "column %d of foreign table \"%s\" does not exist", attnum,
			 request->relations[table]->name);
	return &attribute->column;
}

static void
add_links(dv_fetch_request *request, dv_query *query)
{
	dv_link    *links = palloc0(sizeof(dv_link) * request->ntables);
	int			i;

	for (i = 1; i < request->ntables; i++)
	{
		const dv_fetch_table *table = table_at(request, i);
		dv_link    *link = &links[i - 1];

		link->kind = table->kind;
		link->parent = table->parent;
		link->table = request->relations[i]->table;
		link->from = column_of(request, i, table->from);
		link->to = column_of(request, table->parent, table->to);
		link->filter = bind_link(request, i);
	}
	query->links = links;
	query->nlinks = request->ntables - 1;
}

/*
 * Makes the query shorter, if that is possible: leaves out the longest part of a
 * condition that is checked here.
 */
static bool
shorten(dv_fetch_request *request)
{
	size_t		most = 0;
	int			longest = -1;
	int			i;

	for (i = 0; i < request->ntables; i++)
	{
		size_t		bytes;

		if (dv_bind_droppable(&request->bindings[i], table_at(request, i)->condition, &bytes) &&
			(longest < 0 || bytes > most))
		{
			most = bytes;
			longest = i;
		}
	}
	return longest >= 0 &&
		dv_bind_drop(&request->bindings[longest], table_at(request, longest)->condition);
}

/* Returns false if no row can match. */
static bool
fill_query(dv_fetch_request *request, dv_query *query)
{
	const dv_relation *relation = request->relations[0];
	dv_filter  *filter = dv_bind(&request->bindings[0], table_at(request, 0)->condition);

	memset(query, 0, sizeof(*query));
	if (request->within != NULL)
		filter = dv_filter_join(DV_AND, list_make2(filter, request->within));
	query->entity_set = relation->entity_set;
	query->table = relation->table;
	query->primary_id = &relation->primary_id;
	query->filter = filter;
	query->outputs = request->outputs;
	query->noutputs = request->noutputs;
	query->by_id = !dv_fetch_request_grouped(request);
	if (!dv_fetch_request_grouped(request))
	{
		query->orders = request->orders;
		query->norders = list_length(request->plan->orders) / 2;
		if (request->wanted > 0 && request->wanted <= request->page_size)
			query->top = request->wanted;
	}
	add_links(request, query);
	return filter->kind != DV_FALSE && request->wanted != 0;
}

bool
dv_fetch_request_query(dv_fetch_request *request, dv_query *query)
{
	bool		any = fill_query(request, query);

	while (dv_fetch_query(query, DV_ODATA_WIRE, NULL, NULL, 0) > DV_REQUEST_BYTES &&
		   shorten(request))
		any = fill_query(request, query);
	return any;
}

bool
dv_fetch_request_end(dv_fetch_request *request, bool last, dv_query *query)
{
	dv_order   *order = palloc0(sizeof(*order));
	bool		any = dv_fetch_request_query(request, query);

	order->column = query->primary_id;
	order->descending = last;
	query->outputs = NULL;
	query->noutputs = 0;
	query->orders = order;
	query->norders = 1;
	query->by_id = true;
	query->top = 1;
	return any;
}

void
dv_fetch_request_pair(dv_fetch_request *request, dv_query *query, const char **member)
{
	const dv_fetch_table *table = table_at(request, request->proof_link);
	const dv_relation *relation = request->relations[0];
	dv_output  *id = palloc0(sizeof(*id));
	dv_link    *link = palloc0(sizeof(*link));

	link->kind = DV_LINK_INNER;
	link->table = request->relations[request->proof_link]->table;
	link->from = column_of(request, request->proof_link, table->from);
	link->to = column_of(request, 0, table->to);
	id->kind = DV_OUTPUT_COLUMN;
	id->table = 1;
	id->column = &request->relations[request->proof_link]->primary_id;
	*member = "c0";
	memset(query, 0, sizeof(*query));
	query->entity_set = relation->entity_set;
	query->table = relation->table;
	query->primary_id = &relation->primary_id;
	query->outputs = id;
	query->noutputs = 1;
	query->links = link;
	query->nlinks = 1;
	query->top = 1;
}

char *
dv_fetch_request_url(const dv_query *query, const dv_fetch_page *page, bool readable)
{
	dv_odata_style style = readable ? DV_ODATA_READABLE : DV_ODATA_WIRE;
	size_t		len = dv_fetch_query(query, style, page, NULL, 0);
	char	   *url = palloc(len + 1);

	dv_fetch_query(query, style, page, url, len + 1);
	return url;
}

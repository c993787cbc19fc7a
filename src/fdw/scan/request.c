/*
 * request.c
 *		The requests of a read, with all values in place.
 *
 * A read is a sequence of requests, usually of one.  It takes several if a list
 * of values is too long for one, or if nulls are needed at the other end of an
 * order.  No two of them return the same row.  Scans, EXPLAIN, ANALYZE, and
 * RETURNING all get their requests from this module.
 *
 * It also chooses the language: OData for the rows of a table, FetchXML for joins
 * and groups, which OData cannot express.
 *
 * The length of a request is bounded.  Whatever must be sent fits, or it would not
 * have been planned (fdw/plan/ship.h).  Conditions that are also checked locally are
 * omitted from a request that would be too long, the longest ones first.  A list that
 * takes more requests than the table has pages is not sent: all rows are read, and
 * compared with its values locally.
 *
 * Lists of values and counts are forms that not every environment knows.  If the
 * service refuses a request, a plainer one replaces it: fewer values at a time, single
 * conditions, ids to be counted locally.  Only the current request is replaced, before
 * any row of it has been returned.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "client/id_range.h"
#include "client/pages.h"
#include "fdw/plan/cost.h"
#include "fdw/plan/ship.h"
#include "fdw/result_relation.h"
#include "fdw/scan/count.h"
#include "fdw/scan/request.h"

/* Longer names of partitions are sent only once, as values. */
#define LONGEST_PARTITION 500
/* For a list of more parts than this, the size of the table is requested. */
#define PARTS_TO_ASK 4

/* Allocates room for the values of expressions. */
static dv_bound_value *
values_of(List *exprs)
{
	dv_bound_value *values = palloc0(sizeof(*values) * Max(list_length(exprs), 1));
	ListCell   *lc;

	foreach(lc, exprs)
	{
		values[foreach_current_index(lc)].type = getBaseType(exprType(lfirst(lc)));
	}
	return values;
}

/* Returns the column of the list that may have any length, or 0. */
static AttrNumber
find_list(List *condition)
{
	dv_op		op = condition != NIL ? dv_condition_op(condition) : DV_OP_AND;
	AttrNumber	attnum = 0;
	int			i;

	if (op == DV_OP_IN && dv_condition_flags(condition) & DV_CONDITION_LONG)
		return dv_condition_attnum(condition);
	for (i = 1; op == DV_OP_AND && attnum == 0 && i < list_length(condition); i++)
		attnum = find_list(list_nth(condition, i));
	return attnum;
}

/*
 * Does the service form smaller groups than the statement wants?  It forms those of the
 * months of a quarter, and of the days of a week.
 */
static bool
forms_smaller_groups(const dv_read_plan *plan)
{
	ListCell   *lc;

	foreach(lc, plan->items)
	{
		const dv_read_item *item = lfirst(lc);

		if (item->content == DV_READ_PERIOD &&
			(item->period == DV_READ_QUARTER || item->period == DV_READ_WEEK))
			return true;
	}
	return false;
}

/* Finds the only list of that kind. */
static void
find_listing(dv_request *request)
{
	int			i;

	for (i = 0; i < request->ntables && request->list_column == 0; i++)
	{
		request->list_table = i;
		request->list_column = find_list(dv_read_plan_table(&request->plan, i)->condition);
	}
	if (request->list_column == 0)
		request->list_table = 0;
}

void
dv_request_init(dv_request *request, const dv_read_plan *plan, const dv_relation **relations,
				List *exprs)
{
	int			i;

	memset(request, 0, sizeof(*request));
	request->plan = *plan;
	request->relations = relations;
	request->ntables = list_length(plan->tables);
	request->language = request->ntables > 1 || plan->grouped ? DV_LANGUAGE_FETCHXML : DV_LANGUAGE_ODATA;
	request->values = values_of(exprs);
	request->bindings = palloc0(sizeof(dv_bindings) * request->ntables);
	for (i = 0; i < request->ntables; i++)
	{
		request->bindings[i].relation = relations[i];
		request->bindings[i].values = request->values + dv_read_plan_table(plan, i)->first_value;
	}
	find_listing(request);
	request->distinct_values = forms_smaller_groups(plan);
	dv_request_choose(request);
	dv_request_start(request, -1);
}

void
dv_request_start(dv_request *request, int64 wanted)
{
	int			i;

	request->wanted = wanted;
	request->next_part = 0;
	request->next_first = 0;
	request->more = true;
	request->counts_locally = false;
	request->most_listed = PG_INT32_MAX;
	request->refusals = NIL;
	for (i = 0; i < request->ntables; i++)
		dv_bind_start(&request->bindings[i]);
}

static const dv_column *
column_of(const dv_request *request, int table, AttrNumber attnum)
{
	const dv_attribute *attribute = dv_relation_attribute(request->relations[table], attnum);

	if (attribute == NULL)
		elog(ERROR, "column %d of foreign table \"%s\" does not exist", attnum,
			 request->relations[table]->name);
	return &attribute->column;
}

static void
add_orders(const dv_request *request, dv_query *query)
{
	List	   *numbers = request->plan.orders;
	dv_order   *orders = palloc0(sizeof(dv_order) * Max(list_length(numbers), 1));
	int			i;

	query->norders = 0;
	for (i = 0; i < list_length(numbers); i += 2)
	{
		orders[query->norders].column = column_of(request, 0, list_nth_int(numbers, i));
		orders[query->norders].descending = list_nth_int(numbers, i + 1) != 0;
		query->norders++;
	}
	query->orders = orders;
}

/* Returns the value that a filter requires a text column to have, or NULL. */
static const dv_operand *
demanded(const dv_filter *filter, const dv_column *column)
{
	const dv_operand *operand = NULL;
	int			i;

	if (filter->kind == DV_EQ && filter->column == column)
		return &filter->operands[0];
	for (i = 0; filter->kind == DV_AND && operand == NULL && i < filter->n; i++)
		operand = demanded(filter->parts[i], column);
	return operand;
}

/*
 * Returns the partition of an elastic table that contains all wanted rows, or
 * NULL if there may be several.
 */
static const dv_operand *
partition_of(const dv_request *request, const dv_filter *filter)
{
	const dv_relation *relation = request->relations[0];
	List	   *condition = dv_read_plan_table(&request->plan, 0)->condition;
	const dv_operand *operand;
	AttrNumber	id;
	AttrNumber	partition;

	dv_resultrel_keys(relation, &id, &partition);
	if (partition == 0 || condition == NIL || !dv_condition_fixes_text(condition, partition))
		return NULL;
	operand = demanded(filter, &relation->attributes[partition - 1].column);
	/* no partition has such a name, and its quotes could be mistaken for those of a literal */
	if (operand == NULL || strlen(operand->text) > LONGEST_PARTITION ||
		(!operand->placeholder && strpbrk(operand->text, "/<>*%&:\\?+'\"") != NULL))
		return NULL;
	return operand;
}

/* Returns the filter of request "n" of two: for rows whose sort key is null, or the others. */
static dv_filter *
split_by_null(dv_filter *filter, dv_query *query, dv_nulls nulls, int n)
{
	bool		null_part = (nulls == DV_NULLS_FIRST) == (n == 0);
	dv_filter  *part = dv_filter_of(null_part ? DV_IS_NULL : DV_IS_NOT_NULL,
									query->orders[0].column, NULL);

	/* do not sort by a key that is null in all rows */
	if (null_part)
	{
		query->orders++;
		query->norders--;
	}
	return dv_filter_join(DV_AND, list_make2(filter, part));
}

/*
 * Forms that the service may refuse
 */

/* A form that the service has refused, and how much of it can still be used. */
typedef struct refusal
{
	dv_form		form;
	int			most;
	const char *message;
} refusal;

static int
most_of(const dv_request *request, dv_form form)
{
	if (request->session == NULL)
		return PG_INT32_MAX;
	return dv_form_most(request->session, form, request->relations[0]->table, PG_INT32_MAX);
}

/* Returns the number of values of the longest In or NotIn of a filter. */
static int
longest_list(const dv_filter *filter)
{
	int			longest = filter->kind == DV_IN || filter->kind == DV_NOT_IN ? filter->n : 0;
	int			i;

	for (i = 0; filter->parts != NULL && i < filter->n; i++)
		longest = Max(longest, longest_list(filter->parts[i]));
	return longest;
}

static bool
may_count(const dv_request *request)
{
	return !request->counts_locally && !dv_request_listing(request)->list_omitted && most_of(request, DV_FORM_COUNTS) > 0 &&
		(request->in_list == 0 || most_of(request, DV_FORM_COUNTS_OF_LISTS) > 0);
}

bool
dv_request_has_plainer(const dv_request *request)
{
	return request->counts || request->in_list > 0;
}

/* Keeps a refusal, which the session remembers once a plainer request is accepted. */
static void
note_refusal(dv_request *request, dv_form form, int most, const dv_error *error)
{
	refusal    *r = palloc(sizeof(*r));

	r->form = form;
	r->most = most;
	r->message = pstrdup(error->message);
	request->refusals = lappend(request->refusals, r);
}

void
dv_request_again(dv_request *request)
{
	request->next_part = request->part;
	request->next_first = dv_request_listing(request)->first;
	request->more = true;
}

void
dv_request_refused(dv_request *request, const dv_error *error)
{
	if (request->counts && error->meaning != DV_MEANING_MANY_VALUES)
	{
		request->counts_locally = true;
		/* too many rows are not a problem of the form */
		if (error->meaning != DV_MEANING_COUNT_LIMIT)
			note_refusal(request, request->in_list > 0 ? DV_FORM_COUNTS_OF_LISTS : DV_FORM_COUNTS,
						 0, error);
	}
	else
	{
		request->most_listed = error->meaning == DV_MEANING_MANY_VALUES ? request->in_list / 2 : 0;
		note_refusal(request, DV_FORM_LISTS, request->most_listed, error);
	}
	dv_request_again(request);
}

void
dv_request_accepted(dv_request *request)
{
	ListCell   *lc;

	foreach(lc, request->refusals)
	{
		const refusal *r = lfirst(lc);
		dv_error	error = {.message = r->message};

		/* if several lengths were refused, only the last one counts */
		if (r->form == DV_FORM_LISTS && r->most != request->most_listed)
			continue;
		dv_form_refused(request->session, r->form, request->relations[0]->table, r->most, &error);
	}
	request->refusals = NIL;
	request->counts_locally = false;
}

/*
 * The query
 */

/*
 * Binds the condition of a table.  A link is sent even if none of its rows can match:
 * without a match, the join returns no row, or a row with nulls.
 */
static const dv_filter *
bind_link(dv_request *request, int table)
{
	const dv_filter *filter = dv_bind(&request->bindings[table],
									  dv_read_plan_table(&request->plan, table)->condition);

	if (filter->kind == DV_FALSE)
		return dv_filter_of(DV_IS_NULL, &request->relations[table]->primary_id, NULL);
	return filter;
}

static void
add_links(dv_request *request, dv_query *query)
{
	dv_link    *links = palloc0(sizeof(dv_link) * request->ntables);
	int			i;

	for (i = 1; i < request->ntables; i++)
	{
		const dv_read_table *table = dv_read_plan_table(&request->plan, i);
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

/* Sets up the parts of a query that do not depend on values. */
static void
begin_query(const dv_request *request, dv_query *query)
{
	const dv_relation *root = request->relations[0];

	memset(query, 0, sizeof(*query));
	query->language = request->language;
	query->entity_set = root->entity_set;
	query->table = root->table;
	query->primary_id = &root->primary_id;
	query->columns = request->columns;
	query->all_columns = request->all_columns;
	query->outputs = request->outputs;
	query->noutputs = request->noutputs;
	/* the service pages best in the order of ids, but virtual tables have their own order */
	query->by_id = root->type != DV_TABLE_VIRTUAL && !dv_request_groups(request);
	add_orders(request, query);
}

/* Adds the filters, and whatever depends on them. */
static void
add_filters(dv_request *request, dv_query *query)
{
	dv_filter  *filter = dv_bind(&request->bindings[0],
								 dv_read_plan_table(&request->plan, 0)->condition);

	if (request->within != NULL)
		filter = dv_filter_join(DV_AND, list_make2(filter, request->within));
	query->filter = filter;
	add_links(request, query);
	query->ncolumns = dv_request_listing(request)->list_omitted ? request->ncolumns_list_omitted :
		request->ncolumns;
	if (request->plan.nulls != DV_NULLS_AS_SORTED)
	{
		/* this may remove an order, so start with all of them each time */
		add_orders(request, query);
		query->filter = split_by_null(filter, query, request->plan.nulls, request->part);
	}
	if (request->extent != DV_EXTENT_ALL)
		dv_id_ask_end(query, request->extent == DV_EXTENT_LAST);
	query->partition = partition_of(request, query->filter);
}

static List *
attnums_of(const dv_read_plan *plan)
{
	List	   *attnums = NIL;
	ListCell   *lc;

	foreach(lc, plan->items)
	{
		attnums = lappend_int(attnums, ((const dv_read_item *) lfirst(lc))->attnum);
	}
	return attnums;
}

/*
 * Would requesting the parts of a long list take longer than reading all rows, and
 * looking up their values in the list?  The first part decides for all.
 */
static bool
reads_all(dv_request *request)
{
	const dv_read_plan *plan = &request->plan;
	const dv_bindings *binding = &request->bindings[0];
	const dv_relation *relation = request->relations[0];
	double		rows = plan->rows_without_list;
	double		pages;
	dv_costs	costs;

	if (binding->nchunks == 1 || binding->first > 0 || request->part > 0 || binding->list_omitted ||
		plan->ids_suffice || request->ntables > 1)
		return false;
	/* the first part may have as many rows as a LIMIT wants */
	if (rows <= 0 && request->wanted < 0 && binding->nchunks > PARTS_TO_ASK &&
		OidIsValid(request->userid))
		rows = request->plan.rows_without_list = dv_count_told(relation, request->userid);
	if (rows <= 0)
		return false;
	pages = ceil(rows / request->page_size);
	costs = dv_costs_of(relation, request->userid);
	return pages * costs.request +
		rows * dv_cost_row(&costs, dv_cost_row_bytes(relation, attnums_of(plan))) <
		binding->nchunks * costs.request;
}

/* Omits the longest part of a condition that is checked locally.  Returns false if none is left. */
static bool
drop_condition(dv_request *request)
{
	size_t		most = 0;
	int			longest = -1;
	int			i;

	for (i = 0; i < request->ntables; i++)
	{
		size_t		bytes;

		if (dv_bind_droppable(&request->bindings[i], dv_read_plan_table(&request->plan, i)->condition,
							  &bytes) && (longest < 0 || bytes > most))
		{
			most = bytes;
			longest = i;
		}
	}
	return longest >= 0 && dv_bind_drop(&request->bindings[longest],
										dv_read_plan_table(&request->plan, longest)->condition);
}

/* Makes the filters shorter, if that is possible. */
static bool
shorten(dv_request *request)
{
	dv_bindings *binding = dv_request_listing(request);
	const dv_filter *list = binding->chunk_filter != NULL ? binding->chunk_filter : binding->list;

	/* a long list that fits into a request may not fit beside the other conditions */
	if (list != NULL && list->n > 1 && !binding->list_omitted && binding->chunk_bytes > 0)
	{
		binding->chunk_bytes /= 2;
		return true;
	}
	return drop_condition(request);
}

/* Returns how many values one In may have.  Only OData has bounds, if a request is made at all. */
static int
most_listed(const dv_request *request)
{
	if (request->plan.ids_suffice || request->language == DV_LANGUAGE_FETCHXML)
		return PG_INT32_MAX;
	return Min(request->most_listed, most_of(request, DV_FORM_LISTS));
}

/* Decides where the request after this one begins. */
static void
find_next(dv_request *request, const dv_query *query)
{
	request->more = false;
	if (request->plan.nulls != DV_NULLS_AS_SORTED)
	{
		request->next_part = request->part + 1;
		request->more = request->part == 0;
	}
	else if (query->filter->kind != DV_FALSE)
	{
		request->next_first = dv_request_listing(request)->rest;
		request->more = request->next_first > 0;
	}
}

/* Sets up the next request; returns false if it cannot return any row. */
static bool
fill_query(dv_request *request, dv_query *query)
{
	dv_bindings *listing = dv_request_listing(request);
	int			i;

	begin_query(request, query);
	request->part = request->next_part;
	for (i = 0; i < request->ntables; i++)
		request->bindings[i].most_listed = most_listed(request);
	listing->first = request->next_first;
	add_filters(request, query);
	if (reads_all(request))
	{
		listing->list_omitted = true;
		add_filters(request, query);
	}
	while (!request->plan.ids_suffice && dv_query_bytes(query) > DV_REQUEST_BYTES && shorten(request))
		add_filters(request, query);
	if (request->wanted == 0)
	{
		request->more = false;
		return false;
	}
	find_next(request, query);
	request->in_list = request->language == DV_LANGUAGE_ODATA ? longest_list(query->filter) : 0;
	request->counts = request->plan.count && may_count(request);
	query->count = request->counts;
	/* if a list is not sent, not all rows count */
	if (request->wanted > 0 && request->wanted <= request->largest_top && !listing->list_omitted &&
		!dv_request_groups(request))
		query->top = request->wanted;
	return query->filter->kind != DV_FALSE;
}

bool
dv_request_next(dv_request *request, dv_query *query)
{
	while (request->more)
	{
		if (fill_query(request, query))
			return true;
	}
	return false;
}

void
dv_request_pair(const dv_request *request, dv_query *query, const char **member)
{
	const dv_read_table *table = dv_read_plan_table(&request->plan, request->proof_link);
	const dv_relation *root = request->relations[0];
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
	query->language = DV_LANGUAGE_FETCHXML;
	query->entity_set = root->entity_set;
	query->table = root->table;
	query->primary_id = &root->primary_id;
	query->outputs = id;
	query->noutputs = 1;
	query->links = link;
	query->nlinks = 1;
	query->top = 1;
}

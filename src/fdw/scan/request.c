/*
 * request.c
 *		The requests of a read, with all values in place.
 *
 * A read is a sequence of requests, usually of one.  There are more if a list
 * of values is too long for one, or if nulls are needed at the other end of an
 * order.  No row is returned by two of them.  Scans, EXPLAIN, ANALYZE, and
 * RETURNING all get their requests here.
 *
 * A request may have a bounded length only.  Whatever must be sent fits, or it
 * would not have been planned (fdw/plan/ship.h); conditions that are checked here are
 * left out of a request that would be too long, the longest ones first.  And a
 * list that takes more requests than the pages of the table is not sent: all rows
 * are read and compared with its values here.
 *
 * Lists of values and counts are forms that not every environment knows.  What
 * the service refuses is put more plainly: fewer values at a time, single
 * conditions, ids to be counted here.  That concerns the current request only,
 * of which no row has been seen yet; those that follow it begin behind it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "dataverse/header.h"
#include "dataverse/odata.h"
#include "fdw/plan/cost.h"
#include "fdw/plan/ship.h"
#include "fdw/result_relation.h"
#include "fdw/scan/analyze.h"
#include "fdw/scan/request.h"

/* Longer names of partitions are sent once only, as values. */
#define LONGEST_PARTITION 500
/* Lists of more parts than this are worth asking how large a table is. */
#define PARTS_TO_ASK 4

/* Pages of very wide rows have fewer rows, to keep their size reasonable. */
static const struct
{
	int			columns;
	int			rows;
}			wide[] =

{
	{500, 500}, {100, 1000}
};

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

static void
add_column(dv_request *request, const dv_column *column)
{
	int			i;

	for (i = 0; i < request->ncolumns; i++)
		if (strcmp(request->columns[i]->property, column->property) == 0)
			return;
	request->columns[request->ncolumns++] = column;
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

/* The column of that list is requested in order to look for its values here. */
static void
add_list(dv_request *request)
{
	int			n = request->ncolumns;

	request->list_column = find_list(request->plan.condition);
	if (request->list_column != 0)
		add_column(request, &dv_relation_attribute(request->relation, request->list_column)->column);
	request->ncolumns_unlisted = request->ncolumns;
	request->ncolumns = n;
}

/* Sets the columns to be requested, and the annotations that they need. */
static void
add_columns(dv_request *request)
{
	List	   *attnums = request->plan.columns;
	bool		labels = false;
	bool		table_names = false;
	size_t		bytes = 0;
	ListCell   *lc;

	request->columns = palloc(sizeof(dv_column *) * (list_length(attnums) + 1));
	foreach(lc, attnums)
	{
		const dv_attribute *attribute = dv_relation_attribute(request->relation, lfirst_int(lc));

		if (attribute == NULL)
			continue;
		bytes += strlen(attribute->column.property) + 1;
		add_column(request, &attribute->column);
		labels |= attribute->is_label;
		table_names |= attribute->is_table_name;
	}
	request->all_columns = bytes > DV_SELECT_BYTES;
	if (labels || table_names)
		request->annotations = psprintf("%s%s%s",
										labels ? DV_ANNOTATION_LABEL : "",
										labels && table_names ? "," : "",
										table_names ? DV_ANNOTATION_TABLE : "");
}

void
dv_request_init(dv_request *request, const dv_relation *relation, const dv_read_plan *plan,
				List *exprs)
{
	int			i;

	memset(request, 0, sizeof(*request));
	request->relation = relation;
	request->plan = *plan;
	request->binding.relation = relation;
	request->binding.values = values_of(exprs);
	add_columns(request);
	add_list(request);
	request->page_size = request->largest_top = dv_relation_page_size(relation);
	for (i = 0; i < (int) lengthof(wide); i++)
		if (request->ncolumns > wide[i].columns)
			request->page_size = Min(request->page_size, wide[i].rows);
	dv_request_start(request, -1);
}

void
dv_request_start(dv_request *request, int64 wanted)
{
	request->wanted = wanted;
	request->next_part = 0;
	request->next_first = 0;
	request->more = true;
	request->count_here = false;
	request->most_listed = PG_INT32_MAX;
	request->refusals = NIL;
	dv_bind_start(&request->binding);
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
		const dv_attribute *attribute = dv_relation_attribute(request->relation,
															  list_nth_int(numbers, i));

		if (attribute == NULL)
			elog(ERROR, "column %d of foreign table \"%s\" does not exist", list_nth_int(numbers, i),
				 request->relation->name);
		orders[query->norders].column = &attribute->column;
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
	List	   *condition = request->plan.condition;
	const dv_operand *operand;
	AttrNumber	id;
	AttrNumber	partition;

	dv_resultrel_keys(request->relation, &id, &partition);
	if (partition == 0 || condition == NIL || !dv_condition_fixes_text(condition, partition))
		return NULL;
	operand = demanded(filter, &request->relation->attributes[partition - 1].column);
	/* such a name is not possible, and its quotes could be mistaken for those of a literal */
	if (operand == NULL || strlen(operand->text) > LONGEST_PARTITION ||
		(!operand->placeholder && strpbrk(operand->text, "/<>*%&:\\?+'\"") != NULL))
		return NULL;
	return operand;
}

/* Request "n" of two: the rows whose sort key is null, or the others. */
static dv_filter *
split_by_null(dv_filter *filter, dv_query *query, dv_nulls nulls, int n)
{
	bool		null_part = (nulls == DV_NULLS_FIRST) == (n == 0);
	dv_filter  *part = dv_filter_of(null_part ? DV_IS_NULL : DV_IS_NOT_NULL,
									query->orders[0].column, NULL);

	/* sorting by a key that is null in all rows is pointless */
	if (null_part)
	{
		query->orders++;
		query->norders--;
	}
	return dv_filter_join(DV_AND, list_make2(filter, part));
}

static void
ask_for_last_id(dv_query *query)
{
	dv_order   *backwards = palloc0(sizeof(*backwards));

	backwards->column = query->primary_id;
	backwards->descending = true;
	query->ncolumns = 0;
	query->orders = backwards;
	query->norders = 1;
}

/*
 * Forms that the service may refuse
 */

/* What the service has refused, and how much of it can still be used. */
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
	return dv_form_most(request->session, form, request->relation->table, PG_INT32_MAX);
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
	return !request->count_here && !request->binding.unlisted && most_of(request, DV_FORM_COUNTS) > 0 &&
		(request->listed == 0 || most_of(request, DV_FORM_COUNTS_OF_LISTS) > 0);
}

bool
dv_request_has_plainer(const dv_request *request)
{
	return request->counts || request->listed > 0;
}

/* Keeps a refusal, of which the session is told once a plainer request is accepted. */
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
	request->next_first = request->binding.first;
	request->more = true;
}

void
dv_request_refused(dv_request *request, const dv_error *error)
{
	if (request->counts && error->meaning != DV_MEANING_MANY_VALUES)
	{
		request->count_here = true;
		/* that there are too many rows says nothing about the form */
		if (error->meaning != DV_MEANING_COUNT_LIMIT)
			note_refusal(request, request->listed > 0 ? DV_FORM_COUNTS_OF_LISTS : DV_FORM_COUNTS,
						 0, error);
	}
	else
	{
		request->most_listed = error->meaning == DV_MEANING_MANY_VALUES ? request->listed / 2 : 0;
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

		/* of several lengths that were refused, only the last one counts */
		if (r->form == DV_FORM_LISTS && r->most != request->most_listed)
			continue;
		dv_form_refused(request->session, r->form, request->relation->table, r->most, &error);
	}
	request->refusals = NIL;
	request->count_here = false;
}

/* Sets up what does not depend on values. */
static void
begin_query(const dv_request *request, dv_query *query)
{
	const dv_relation *relation = request->relation;

	memset(query, 0, sizeof(*query));
	query->entity_set = relation->entity_set;
	query->primary_id = &relation->primary_id;
	query->columns = request->columns;
	query->all_columns = request->all_columns;
	/* the service pages best in the order of ids; virtual tables have an order of their own */
	query->by_id = relation->type != DV_TABLE_VIRTUAL;
	add_orders(request, query);
	if (request->last)
		ask_for_last_id(query);
}

/* Adds the filter, and what depends on it. */
static void
add_filter(dv_request *request, dv_query *query)
{
	dv_filter  *filter = dv_bind(&request->binding, request->plan.condition);

	if (request->within != NULL)
		filter = dv_filter_join(DV_AND, list_make2(filter, request->within));
	query->filter = filter;
	query->ncolumns = request->binding.unlisted ? request->ncolumns_unlisted : request->ncolumns;
	if (request->plan.nulls != DV_NULLS_AS_SORTED)
	{
		/* this may remove an order, and the filter may have to be made once more */
		add_orders(request, query);
		query->filter = split_by_null(filter, query, request->plan.nulls, request->part);
	}
	query->partition = partition_of(request, query->filter);
}

/*
 * Would it take more to ask for the parts of a long list than to read all rows
 * and to look for their values in the list?  The first part decides for all.
 */
static bool
reads_all(dv_request *request)
{
	const dv_read_plan *plan = &request->plan;
	const dv_bindings *binding = &request->binding;
	double		rows = plan->unlisted;
	double		pages;
	dv_costs	costs;

	if (binding->nchunks == 1 || binding->first > 0 || request->part > 0 || binding->unlisted ||
		plan->given)
		return false;
	/* the first part may have as many rows as a LIMIT wants */
	if (rows <= 0 && request->wanted < 0 && binding->nchunks > PARTS_TO_ASK &&
		OidIsValid(request->userid))
		rows = request->plan.unlisted = dv_remote_row_count(request->relation, request->userid);
	if (rows <= 0)
		return false;
	pages = ceil(rows / request->page_size);
	costs = dv_costs_of(request->relation, request->userid);
	return pages * costs.request +
		rows * dv_cost_row(&costs, dv_cost_row_bytes(request->relation, plan->columns)) <
		binding->nchunks * costs.request;
}

/* Makes the filter shorter, if that is possible. */
static bool
shorten(dv_request *request)
{
	dv_bindings *binding = &request->binding;
	const dv_filter *list = binding->chunk_filter != NULL ? binding->chunk_filter : binding->list;

	/* a long list that fits into a request may still not fit beside the other conditions */
	if (list != NULL && list->n > 1 && !binding->unlisted && binding->chunk_bytes > 0)
	{
		binding->chunk_bytes /= 2;
		return true;
	}
	return dv_bind_drop(binding, request->plan.condition);
}

/* Sets up the next request; returns false if it cannot return any row. */
static bool
fill_query(dv_request *request, dv_query *query)
{
	begin_query(request, query);
	request->part = request->next_part;
	request->binding.first = request->next_first;
	request->binding.most_listed = request->plan.given ? PG_INT32_MAX :
		Min(request->most_listed, most_of(request, DV_FORM_LISTS));
	add_filter(request, query);
	if (reads_all(request))
	{
		request->binding.unlisted = true;
		add_filter(request, query);
	}
	while (!request->plan.given &&
		   dv_odata_query(query, DV_ODATA_WIRE, NULL, 0) > DV_REQUEST_BYTES && shorten(request))
		add_filter(request, query);

	request->more = false;
	if (request->wanted == 0)
		return false;
	if (request->plan.nulls != DV_NULLS_AS_SORTED)
	{
		request->next_part = request->part + 1;
		request->more = request->part == 0;
	}
	else if (query->filter->kind != DV_FALSE)
	{
		request->next_first = request->binding.rest;
		request->more = request->next_first > 0;
	}
	request->listed = longest_list(query->filter);
	request->counts = request->plan.count && may_count(request);
	query->count = request->counts;
	/* of the rows of a list that is not sent, it is not known which ones count */
	if (request->wanted > 0 && request->wanted <= request->largest_top && !request->binding.unlisted)
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

char *
dv_request_url(const dv_query *query, bool readable)
{
	dv_odata_style style = readable ? DV_ODATA_READABLE : DV_ODATA_WIRE;
	size_t		len = dv_odata_query(query, style, NULL, 0);
	char	   *url = palloc(len + 1);

	dv_odata_query(query, style, url, len + 1);
	return url;
}

/*
 * request.c
 *		What a plan asks the service for, with all values in place.
 *
 * A scan is a sequence of requests, mostly of one.  There are more when a
 * list of values is too long for one, or when nulls have to stand at the other
 * end of an order.  No row comes in answer to two of them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "dataverse/header.h"
#include "dataverse/odata.h"
#include "fdw/plan.h"
#include "fdw/ship.h"
#include "fdw/result_relation.h"

/* Pages of very wide rows have fewer of them, so that they keep a bearable size. */
static const struct
{
	int			columns;
	int			rows;
}			wide[] =

{
	{500, 500}, {100, 1000}
};

void
dv_request_init(dv_request *request, ForeignScan *plan, EState *estate)
{
	memset(request, 0, sizeof(*request));
	request->plan = plan;
	request->relation = dv_relation_open(dv_plan_relid(plan, estate));
	request->binding.relation = request->relation;
	request->binding.values = palloc0(sizeof(dv_bound_value) *
									  Max(list_length(plan->fdw_exprs), 1));
	request->wanted = -1;
}

/* The columns to ask for, each once. */
static void
add_columns(const dv_request *request, dv_query *query)
{
	List	   *columns = dv_plan_list(request->plan, DV_PLAN_COLUMNS);
	ListCell   *lc;
	int			i;

	query->columns = palloc(sizeof(dv_column *) * Max(list_length(columns), 1));
	foreach(lc, columns)
	{
		const dv_attribute *attribute = dv_relation_attribute(request->relation, lfirst_int(lc));

		if (attribute == NULL)
			continue;
		for (i = 0; i < query->ncolumns; i++)
			if (strcmp(query->columns[i]->property, attribute->column.property) == 0)
				break;
		if (i == query->ncolumns)
			query->columns[query->ncolumns++] = &attribute->column;
	}
}

static void
add_orders(const dv_request *request, dv_query *query)
{
	List	   *numbers = dv_plan_list(request->plan, DV_PLAN_ORDERS);
	dv_order   *orders = palloc(sizeof(dv_order) * Max(list_length(numbers), 1));
	int			i;

	for (i = 0; i < list_length(numbers); i += 2)
	{
		const dv_attribute *attribute = dv_relation_attribute(request->relation,
															  list_nth_int(numbers, i));

		if (attribute == NULL)
			elog(ERROR, "column %d of foreign table \"%s\" is gone", list_nth_int(numbers, i),
				 request->relation->name);
		orders[query->norders].column = &attribute->column;
		orders[query->norders].descending = list_nth_int(numbers, i + 1) != 0;
		query->norders++;
	}
	query->orders = orders;
}

/* The value that a filter demands of a column of text, or NULL. */
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

/* The partition of an elastic table that has all rows that are wanted; NULL: more than one may. */
static const dv_operand *
partition_of(const dv_request *request, const dv_filter *filter)
{
	List	   *condition = dv_plan_list(request->plan, DV_PLAN_CONDITION);
	const dv_operand *operand;
	AttrNumber	id;
	AttrNumber	partition;

	dv_resultrel_keys(request->relation, &id, &partition);
	if (partition == 0 || condition == NIL || !dv_condition_fixes_text(condition, partition))
		return NULL;
	operand = demanded(filter, &request->relation->attributes[partition - 1].column);
	/* no partition has such a name; and quotes might be taken for those of a literal */
	if (operand == NULL || (!operand->placeholder && strpbrk(operand->text, "/<>*%&:\\?+'\"") != NULL))
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

	/* what is null has no order by it */
	if (null_part)
	{
		query->orders++;
		query->norders--;
	}
	return dv_filter_join(DV_AND, list_make2(filter, part));
}

bool
dv_request_query(dv_request *request, int n, dv_query *query, bool *more)
{
	const dv_relation *relation = request->relation;
	dv_nulls	nulls = (dv_nulls) dv_plan_int(request->plan, DV_PLAN_NULLS);
	dv_filter  *filter;

	memset(query, 0, sizeof(*query));
	query->entity_set = relation->entity_set;
	query->primary_id = &relation->primary_id;
	query->count = dv_plan_int(request->plan, DV_PLAN_COUNT);
	/* pages in the order of ids are what the service is made for; virtual tables have their own */
	query->by_id = relation->type != DV_TABLE_VIRTUAL;
	add_columns(request, query);
	add_orders(request, query);

	request->binding.chunk = nulls == DV_NULLS_AS_SORTED ? n : 0;

	filter = dv_bind(&request->binding, dv_plan_list(request->plan, DV_PLAN_CONDITION));
	*more = false;
	if (filter->kind == DV_FALSE || request->wanted == 0)
		return false;
	if (nulls == DV_NULLS_AS_SORTED)
		*more = n + 1 < request->binding.nchunks;

	else
	{
		*more = n == 0;
		filter = split_by_null(filter, query, nulls, n);
	}
	query->filter = filter;
	query->partition = partition_of(request, filter);
	if (request->wanted > 0 && request->wanted <= dv_request_page_size(request, NULL))
		query->top = request->wanted;

	return filter->kind != DV_FALSE;
}

int
dv_request_page_size(const dv_request *request, const dv_query *query)
{
	int			size = dv_relation_page_size(request->relation);
	int			i;

	/* a page size would put $top out of action */
	if (query != NULL && query->top > 0)
		return 0;
	for (i = 0; query != NULL && i < (int) lengthof(wide); i++)
		if (query->ncolumns > wide[i].columns)
			size = Min(size, wide[i].rows);
	return size;
}

const char *
dv_request_annotations(const dv_request *request)
{
	bool		labels = false;
	bool		table_names = false;
	ListCell   *lc;

	foreach(lc, dv_plan_list(request->plan, DV_PLAN_COLUMNS))
	{
		const dv_attribute *attribute = dv_relation_attribute(request->relation, lfirst_int(lc));

		labels = labels || (attribute !=NULL && attribute->is_label);
		table_names = table_names || (attribute !=NULL && attribute->is_table_name);
	}
	if (labels && table_names)
		return DV_ANNOTATION_LABEL "," DV_ANNOTATION_TABLE;
	return labels ? DV_ANNOTATION_LABEL : table_names ? DV_ANNOTATION_TABLE : NULL;
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

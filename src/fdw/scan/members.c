/*
 * members.c
 *		The columns of a query, and their names in the rows of the answer.
 *
 * Columns of the scan tuple and columns of the query do not correspond one to one.
 * In OData, several columns of a foreign table may show the same column of the
 * service, its label, or the table that it refers to.  In FetchXML, we name the
 * columns; an average is computed from a sum and a count, a period from a year, a
 * month, and a day; several columns may need the same sum.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "dataverse/header.h"
#include "fdw/plan/ship.h"
#include "fdw/scan/request.h"

/* An item has at most three outputs, and each of them has a member. */
#define OUTPUTS_OF_ITEM 3
/* Further members: the id, the column of a list, the proof of names. */
#define OTHER_MEMBERS 3

/* Pages of very wide rows have fewer rows, to keep their size reasonable. */
static const struct
{
	int			columns;
	int			rows;
}			wide[] =

{
	{500, 500}, {100, 1000}
};

bool
dv_request_groups(const dv_request *request)
{
	return request->plan.grouped && !request->rows;
}

static int
add_member(dv_request *request, const char *name)
{
	int			i;

	for (i = 0; i < request->nmembers; i++)
		if (strcmp(request->members[i], name) == 0)
			return i;
	request->members[request->nmembers] = name;
	return request->nmembers++;
}

/*
 * OData
 */

static void
add_column(dv_request *request, const dv_column *column)
{
	int			i;

	for (i = 0; i < request->ncolumns; i++)
		if (strcmp(request->columns[i]->property, column->property) == 0)
			return;
	request->columns[request->ncolumns++] = column;
}

static void
choose_property(dv_request *request, dv_source *source)
{
	source->members[0] = add_member(request, source->attribute->member);
	add_column(request, &source->attribute->column);
}

/* Adds the column of a long list, which is requested only for local comparisons. */
static void
choose_listed_property(dv_request *request, const dv_attribute *attribute)
{
	int			n = request->ncolumns;

	request->listed = add_member(request, attribute->member);
	add_column(request, &attribute->column);
	request->ncolumns_list_omitted = request->ncolumns;
	request->ncolumns = n;
}

/*
 * FetchXML
 */

/* Several columns of a foreign table may show the same column of the service. */
static bool
is_ordered_by(const dv_request *request, int table, const dv_column *column)
{
	List	   *orders = request->plan.orders;
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

/* Returns the name of the member of an output, which is added if it is new. */
static const char *
add_output(dv_request *request, dv_output_kind kind, int table, const dv_column *column,
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
 * Adds a column of a row.  The id of the root is in every row.  A column by which the
 * rows are ordered keeps its name, because the paging cookie contains it.
 */
static int
add_attribute(dv_request *request, int table, const dv_attribute *attribute)
{
	const char *annotation = strchr(attribute->member, '@');
	const char *member;

	if (table == 0 && strcmp(attribute->column.name, request->relations[0]->primary_id.name) == 0)
		member = attribute->column.property;
	else
		member = add_output(request, DV_OUTPUT_COLUMN, table, &attribute->column,
							is_ordered_by(request, table, &attribute->column));
	if (annotation != NULL)
		member = psprintf("%s%s", member, annotation);
	return add_member(request, member);
}

static void
choose_output(dv_request *request, dv_source *source, int n, dv_output_kind kind)
{
	const dv_column *column = source->attribute != NULL ? &source->attribute->column :
	&request->relations[0]->primary_id;

	source->members[n] = add_member(request, add_output(request, kind, source->item->table, column,
														false));
}

/* Adds the year, the month, and the day, as far as the period depends on them. */
static void
choose_period(dv_request *request, dv_source *source, dv_read_period period)
{
	choose_output(request, source, 0, DV_OUTPUT_YEAR);
	if (period != DV_READ_YEAR)
		choose_output(request, source, 1, DV_OUTPUT_MONTH);
	if (period == DV_READ_WEEK || period == DV_READ_DAY)
		choose_output(request, source, 2, DV_OUTPUT_DAY);
}

static void
choose_key(dv_request *request, dv_source *source)
{
	if (source->attribute->column.type == DV_TYPE_DATE)
		choose_period(request, source, DV_READ_DAY);
	else
		choose_output(request, source, 0, DV_OUTPUT_GROUP);
}

static void
choose_group(dv_request *request, dv_source *source)
{
	const dv_read_item *item = source->item;

	switch (item->content)
	{
		case DV_READ_KEY:
			choose_key(request, source);
			break;
		case DV_READ_PERIOD:
			choose_period(request, source, item->period);
			break;
		case DV_READ_COUNT:
			choose_output(request, source, 0, DV_OUTPUT_COUNT);
			break;
		case DV_READ_COUNT_VALUES:
			choose_output(request, source, 0, DV_OUTPUT_COUNT_VALUES);
			break;
		case DV_READ_COUNT_DISTINCT:
			if (request->distinct_values)
				choose_key(request, source);
			else
				choose_output(request, source, 0, DV_OUTPUT_COUNT_DISTINCT);
			break;
		case DV_READ_AVG:
			choose_output(request, source, 0, DV_OUTPUT_SUM);
			choose_output(request, source, 1, DV_OUTPUT_COUNT_VALUES);
			break;
		case DV_READ_SUM:
			choose_output(request, source, 0, DV_OUTPUT_SUM);
			break;
		case DV_READ_MIN:
			choose_output(request, source, 0, DV_OUTPUT_MIN);
			break;
		case DV_READ_MAX:
			choose_output(request, source, 0, DV_OUTPUT_MAX);
			break;
		case DV_READ_COLUMN:
			elog(ERROR, "a group has no columns of rows");
	}
}

/*
 * Returns the first link of a kind that the root is joined with, if any column of a link
 * is requested; otherwise 0.
 */
static int
first_link(const dv_request *request, dv_link_kind kind)
{
	bool		any = false;
	int			i;

	for (i = 0; i < request->noutputs; i++)
		any |= request->outputs[i].table > 0;
	for (i = 1; any && i < request->ntables; i++)
	{
		const dv_read_table *table = dv_read_plan_table(&request->plan, i);

		if (table->kind == kind && table->parent == 0)
			return i;
	}
	return 0;
}

/*
 * Adds the proof of names.  The aliases of columns of links are not documented.  If the
 * service used other names, all these columns would seem to be null.  A column that is
 * never null proves the names: the id of a joined row, and in each group the number of
 * these ids.
 */
static void
choose_proof(dv_request *request)
{
	bool		grouped = dv_request_groups(request);
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

/*
 * Both
 */

/* Returns the annotations that are requested; for FetchXML, also that of the next page. */
static void
choose_annotations(dv_request *request)
{
	List	   *names = NIL;
	bool		labels = false;
	bool		table_names = false;
	StringInfoData s;
	ListCell   *lc;
	int			i;

	for (i = 0; i < request->nsources; i++)
	{
		const dv_attribute *attribute = request->sources[i].attribute;

		labels |= attribute != NULL && attribute->is_label;
		table_names |= attribute != NULL && attribute->is_table_name;
	}
	if (request->language == DV_LANGUAGE_FETCHXML)
		names = list_make2(DV_ANNOTATION_COOKIE, DV_ANNOTATION_MORE);
	if (labels)
		names = lappend(names, DV_ANNOTATION_LABEL);
	if (table_names)
		names = lappend(names, DV_ANNOTATION_TABLE);
	initStringInfo(&s);
	foreach(lc, names)
	{
		appendStringInfo(&s, "%s%s", s.len > 0 ? "," : "", (const char *) lfirst(lc));
	}
	request->annotations = s.len > 0 ? s.data : NULL;
}

static void
choose_page_size(dv_request *request)
{
	int			n = Max(request->ncolumns, request->noutputs);
	int			i;

	request->page_size = request->largest_top = dv_relation_page_size(request->relations[0]);
	for (i = 0; i < (int) lengthof(wide); i++)
		if (n > wide[i].columns)
			request->page_size = Min(request->page_size, wide[i].rows);
}

/* Would the names of the columns be too long? */
static bool
has_long_names(const dv_request *request)
{
	size_t		bytes = 0;
	int			i;

	for (i = 0; i < request->nsources; i++)
		if (request->sources[i].attribute != NULL)
			bytes += strlen(request->sources[i].attribute->column.property) + 1;
	return bytes > DV_SELECT_BYTES;
}

static void
choose_list(dv_request *request)
{
	const dv_attribute *attribute = dv_relation_attribute(request->relations[request->list_table],
														  request->list_column);

	if (request->language == DV_LANGUAGE_ODATA)
		choose_listed_property(request, attribute);
	else
		request->listed = add_attribute(request, request->list_table, attribute);
}

static void
choose_source(dv_request *request, dv_source *source, const dv_read_item *item)
{
	source->item = item;
	source->relation = request->relations[item->table];
	source->attribute = dv_relation_attribute(source->relation, item->attnum);
	if (source->attribute == NULL && item->attnum != 0)
		elog(ERROR, "column %d of foreign table \"%s\" does not exist", item->attnum,
			 source->relation->name);
	if (dv_request_groups(request))
		choose_group(request, source);
	else if (source->attribute == NULL)
		return;
	else if (request->language == DV_LANGUAGE_ODATA)
		choose_property(request, source);
	else
		source->members[0] = add_attribute(request, item->table, source->attribute);
}

void
dv_request_choose(dv_request *request)
{
	int			nitems = list_length(request->plan.items);
	int			most = OUTPUTS_OF_ITEM * nitems + OTHER_MEMBERS;
	ListCell   *lc;

	request->sources = palloc0(sizeof(dv_source) * Max(nitems, 1));
	request->columns = palloc0(sizeof(dv_column *) * (nitems + OTHER_MEMBERS));
	request->outputs = palloc0(sizeof(dv_output) * most);
	request->members = palloc0(sizeof(char *) * most);
	request->nsources = request->ncolumns = request->noutputs = request->nmembers = 0;
	request->id = -1;
	/* the name that the service gives to the only member of an answer */
	if (request->plan.count)
		(void) add_member(request, "n");
	foreach(lc, request->plan.items)
	{
		choose_source(request, &request->sources[request->nsources++], lfirst(lc));
	}
	request->ncolumns_list_omitted = request->ncolumns;
	if (request->list_column != 0)
		choose_list(request);
	/* the service always returns the id of a row */
	if (request->wants_id)
		request->id = add_member(request, request->relations[0]->primary_id.property);
	request->all_columns = has_long_names(request);
	choose_proof(request);
	choose_annotations(request);
	choose_page_size(request);
}

/*
 * odata.c
 *		Writes queries as OData.
 *
 * The type of the column decides how values are written: strings between
 * quotes (with quotes inside doubled), everything else bare.  In the lists of
 * query functions every value is a JSON string.  In contains, startswith, and
 * endswith the service treats %, _, and [ as wildcards, except between
 * brackets.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/line.h"
#include "dataverse/odata.h"

static void
put_blank(dv_line *line)
{
	dv_line_encode(line, ' ');
}

/*
 * Values
 */

/* 'it''s'; with "literally", wildcards are put between brackets */
static void
put_string(dv_line *line, const char *text, bool literally)
{
	dv_line_byte(line, '\'');
	for (; *text != '\0'; text++)
	{
		bool		wild = literally && strchr(DV_WILDCARDS, *text) != NULL;

		if (wild)
			dv_line_encode(line, '[');
		dv_line_encode(line, *text);
		if (*text == '\'')
			dv_line_encode(line, '\'');
		if (wild)
			dv_line_encode(line, ']');
	}
	dv_line_byte(line, '\'');
}

/* Without room, the writer only counts. */
size_t
dv_odata_text_length(const char *text)
{
	dv_line		line = {.encoding = DV_LINE_WIRE};

	put_string(&line, text, true);
	return line.len;
}

static void
put_value(dv_line *line, const dv_column *column, const dv_operand *operand)
{
	if (operand->placeholder)
		dv_line_text(line, operand->text);
	else if (dv_types[column->type].wire == DV_WIRE_TEXT)
		put_string(line, operand->text, false);
	else
		dv_line_encode_text(line, operand->text);
}

/* ["a","b"] */
static void
put_array(dv_line *line, const dv_filter *filter)
{
	int			i;

	dv_line_encode(line, '[');
	for (i = 0; i < filter->n; i++)
	{
		const char *text = filter->operands[i].text;

		if (i > 0)
			dv_line_byte(line, ',');
		if (filter->operands[i].placeholder)
		{
			dv_line_text(line, text);
			continue;
		}
		dv_line_encode(line, '"');
		for (; *text != '\0'; text++)
		{
			/* text of the service contains no other control characters */
			const char *found = strchr("\"\\\n\r\t", *text);

			if (found != NULL)
				dv_line_encode(line, '\\');
			dv_line_encode(line, found == NULL ? *text : "\"\\nrt"[found - "\"\\\n\r\t"]);
		}
		dv_line_encode(line, '"');
	}
	dv_line_encode(line, ']');
}

/*
 * Filters: one function for each kind of condition
 */

typedef struct filter_form filter_form;
struct filter_form
{
	void		(*put) (dv_line *line, const dv_filter *filter, const filter_form *form);
	const char *word;
};

static void put_filter(dv_line *line, const dv_filter *filter, bool nested);

static void
put_null_test(dv_line *line, const dv_filter *filter, const filter_form *form)
{
	dv_line_text(line, filter->column->property);
	put_blank(line);
	dv_line_text(line, form->word);
	put_blank(line);
	dv_line_text(line, "null");
}

static void
put_comparison(dv_line *line, const dv_filter *filter, const filter_form *form)
{
	dv_line_text(line, filter->column->property);
	put_blank(line);
	dv_line_text(line, form->word);
	put_blank(line);
	if (filter->other != NULL)
		dv_line_text(line, filter->other->property);
	else
		put_value(line, filter->column, &filter->operands[0]);
}

static void
put_pattern(dv_line *line, const dv_filter *filter, const filter_form *form)
{
	dv_line_text(line, form->word);
	dv_line_byte(line, '(');
	dv_line_text(line, filter->column->property);
	dv_line_byte(line, ',');
	if (filter->operands[0].placeholder)
		dv_line_text(line, filter->operands[0].text);
	else
		put_string(line, filter->operands[0].text, true);
	dv_line_byte(line, ')');
}

static void
put_function(dv_line *line, const dv_filter *filter, const filter_form *form)
{
	dv_line_text(line, "Microsoft.Dynamics.CRM.");
	dv_line_text(line, form->word);
	dv_line_text(line, "(PropertyName='");
	dv_line_text(line, filter->column->name);
	dv_line_text(line, "',PropertyValues=");
	put_array(line, filter);
	dv_line_byte(line, ')');
}

static void
put_parts(dv_line *line, const dv_filter *filter, const filter_form *form)
{
	int			i;

	for (i = 0; i < filter->n; i++)
	{
		if (i > 0)
		{
			put_blank(line);
			dv_line_text(line, form->word);
			put_blank(line);
		}
		put_filter(line, filter->parts[i], true);
	}
}

/* DV_TRUE and DV_FALSE have no form: filters are simplified before. */
static const filter_form forms[DV_FILTER_KINDS] = {
	[DV_AND] = {put_parts, "and"},
	[DV_OR] = {put_parts, "or"},
	[DV_IS_NULL] = {put_null_test, "eq"},
	[DV_IS_NOT_NULL] = {put_null_test, "ne"},
	[DV_EQ] = {put_comparison, "eq"},
	[DV_NE] = {put_comparison, "ne"},
	[DV_LT] = {put_comparison, "lt"},
	[DV_LE] = {put_comparison, "le"},
	[DV_GT] = {put_comparison, "gt"},
	[DV_GE] = {put_comparison, "ge"},
	[DV_STARTS_WITH] = {put_pattern, "startswith"},
	[DV_ENDS_WITH] = {put_pattern, "endswith"},
	[DV_CONTAINS] = {put_pattern, "contains"},
	[DV_IN] = {put_function, "In"},
	[DV_NOT_IN] = {put_function, "NotIn"},
	[DV_CONTAIN_VALUES] = {put_function, "ContainValues"},
};

static void
put_filter(dv_line *line, const dv_filter *filter, bool nested)
{
	const filter_form *form = &forms[filter->kind];
	bool		group = nested && (filter->kind == DV_AND || filter->kind == DV_OR);

	if (form->put == NULL)
		return;
	if (group)
		dv_line_byte(line, '(');
	form->put(line, filter, form);
	if (group)
		dv_line_byte(line, ')');
}

/*
 * The query
 */

static void
put_select(dv_line *line, const dv_query *query)
{
	int			i;

	if (query->all_columns)
		return;
	dv_line_option(line, "$select=");
	if (query->ncolumns == 0)
		dv_line_text(line, query->primary_id->property);
	for (i = 0; i < query->ncolumns; i++)
	{
		if (i > 0)
			dv_line_byte(line, ',');
		dv_line_text(line, query->columns[i]->property);
	}
}

static void
put_order(dv_line *line, const dv_query *query)
{
	bool		id_seen = false;
	int			i;

	if (query->norders == 0 && !query->by_id)
		return;
	dv_line_option(line, "$orderby=");
	for (i = 0; i < query->norders; i++)
	{
		if (i > 0)
			dv_line_byte(line, ',');
		dv_line_text(line, query->orders[i].column->property);
		if (query->orders[i].descending)
		{
			put_blank(line);
			dv_line_text(line, "desc");
		}
		if (strcmp(query->orders[i].column->property, query->primary_id->property) == 0)
			id_seen = true;
	}
	if (!query->by_id || id_seen)
		return;
	if (query->norders > 0)
		dv_line_byte(line, ',');
	dv_line_text(line, query->primary_id->property);
}

size_t
dv_odata_query(const dv_query *query, dv_odata_style style, char *out, size_t size)
{
	dv_line		line = {.out = out, .size = size,
	.encoding = style == DV_ODATA_WIRE ? DV_LINE_WIRE : DV_LINE_READABLE};
	bool		filtered = query->filter != NULL && query->filter->kind != DV_TRUE;

	dv_line_text(&line, query->entity_set);
	if (query->count)
	{
		dv_line_text(&line, "?$apply=");
		if (filtered)
		{
			dv_line_text(&line, "filter(");
			put_filter(&line, query->filter, false);
			dv_line_text(&line, ")/");
		}
		dv_line_text(&line, "aggregate($count");
		put_blank(&line);
		dv_line_text(&line, "as");
		put_blank(&line);
		dv_line_text(&line, "n)");
	}
	else
	{
		put_select(&line, query);
		if (filtered)
		{
			dv_line_option(&line, "$filter=");
			put_filter(&line, query->filter, false);
		}
		put_order(&line, query);
		if (query->top > 0)
		{
			dv_line_option(&line, "$top=");
			dv_line_number(&line, query->top);
		}
		dv_line_partition(&line, query->partition);
	}
	return dv_line_end(&line);
}

/* Strings must have at most 850 characters; max_length is 0 if unknown. */
bool
dv_odata_has_in(const dv_column *column, int max_length)
{
	if (column->type == DV_TYPE_STRING)
		return max_length > 0 && max_length <= 850;
	return (dv_types[column->type].flags & DV_LISTED) != 0;
}

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

#include "dataverse/odata.h"
#include "net/hex.h"

/* Where text goes.  What does not fit is only counted. */
typedef struct url_writer
{
	char	   *out;
	size_t		size;
	size_t		len;
	dv_odata_style style;
	bool		any;			/* an option of the query has been written */
} url_writer;

static void
put_byte(url_writer *w, char c)
{
	if (w->len + 1 < w->size)
		w->out[w->len] = c;
	w->len++;
}

/* Writes text that needs no encoding. */
static void
put(url_writer *w, const char *text)
{
	for (; *text != '\0'; text++)
		put_byte(w, *text);
}

/* Writes a character that may need encoding. */
static void
put_encoded(url_writer *w, char c)
{
	static const char plain[] = "-._~:*!()',";
	unsigned char u = (unsigned char) c;

	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		(c != '\0' && strchr(plain, c) != NULL))
		put_byte(w, c);
	else if (w->style == DV_ODATA_READABLE && (u >= 0x80 || strchr(" \"[]{}@$/=?;", c) != NULL))
		put_byte(w, c);
	else
	{
		char		escape[3];
		int			i;

		(void) dv_hex_put_percent(escape, u);
		for (i = 0; i < 3; i++)
			put_byte(w, escape[i]);
	}
}

static void
put_blank(url_writer *w)
{
	put_encoded(w, ' ');
}

/*
 * Values
 */

/* 'it''s'; with "literally", wildcards are put between brackets */
static void
put_string(url_writer *w, const char *text, bool literally)
{
	put_byte(w, '\'');
	for (; *text != '\0'; text++)
	{
		bool		wild = literally && strchr("%_[", *text) != NULL;

		if (wild)
			put_encoded(w, '[');
		put_encoded(w, *text);
		if (*text == '\'')
			put_encoded(w, '\'');
		if (wild)
			put_encoded(w, ']');
	}
	put_byte(w, '\'');
}

/* Without room, the writer only counts. */
size_t
dv_odata_text_length(const char *text)
{
	url_writer	w = {.style = DV_ODATA_WIRE};

	put_string(&w, text, true);
	return w.len;
}

static void
put_value(url_writer *w, const dv_column *column, const dv_operand *operand)
{
	const char *text = operand->text;

	if (operand->placeholder)
		put(w, text);
	else if (dv_types[column->type].wire == DV_WIRE_TEXT)
		put_string(w, text, false);
	else
		for (; *text != '\0'; text++)
			put_encoded(w, *text);
}

/* ["a","b"] */
static void
put_array(url_writer *w, const dv_filter *filter)
{
	int			i;

	put_encoded(w, '[');
	for (i = 0; i < filter->n; i++)
	{
		const char *text = filter->operands[i].text;

		if (i > 0)
			put_byte(w, ',');
		if (filter->operands[i].placeholder)
		{
			put(w, text);
			continue;
		}
		put_encoded(w, '"');
		for (; *text != '\0'; text++)
		{
			/* text of the service contains no other control characters */
			const char *found = strchr("\"\\\n\r\t", *text);

			if (found != NULL)
				put_encoded(w, '\\');
			put_encoded(w, found == NULL ? *text : "\"\\nrt"[found - "\"\\\n\r\t"]);
		}
		put_encoded(w, '"');
	}
	put_encoded(w, ']');
}

/*
 * Filters: one function for each kind of condition
 */

typedef struct filter_form filter_form;
struct filter_form
{
	void		(*put) (url_writer *w, const dv_filter *filter, const filter_form *form);
	const char *word;
};

static void put_filter(url_writer *w, const dv_filter *filter, bool nested);

static void
put_null_test(url_writer *w, const dv_filter *filter, const filter_form *form)
{
	put(w, filter->column->property);
	put_blank(w);
	put(w, form->word);
	put_blank(w);
	put(w, "null");
}

static void
put_comparison(url_writer *w, const dv_filter *filter, const filter_form *form)
{
	put(w, filter->column->property);
	put_blank(w);
	put(w, form->word);
	put_blank(w);
	put_value(w, filter->column, &filter->operands[0]);
}

static void
put_pattern(url_writer *w, const dv_filter *filter, const filter_form *form)
{
	put(w, form->word);
	put_byte(w, '(');
	put(w, filter->column->property);
	put_byte(w, ',');
	if (filter->operands[0].placeholder)
		put(w, filter->operands[0].text);
	else
		put_string(w, filter->operands[0].text, true);
	put_byte(w, ')');
}

static void
put_function(url_writer *w, const dv_filter *filter, const filter_form *form)
{
	put(w, "Microsoft.Dynamics.CRM.");
	put(w, form->word);
	put(w, "(PropertyName='");
	put(w, filter->column->name);
	put(w, "',PropertyValues=");
	put_array(w, filter);
	put_byte(w, ')');
}

static void
put_parts(url_writer *w, const dv_filter *filter, const filter_form *form)
{
	int			i;

	for (i = 0; i < filter->n; i++)
	{
		if (i > 0)
		{
			put_blank(w);
			put(w, form->word);
			put_blank(w);
		}
		put_filter(w, filter->parts[i], true);
	}
}

/* DV_TRUE and DV_FALSE have no form: filters are simplified before they come here. */
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
put_filter(url_writer *w, const dv_filter *filter, bool nested)
{
	const filter_form *form = &forms[filter->kind];
	bool		group = nested && (filter->kind == DV_AND || filter->kind == DV_OR);

	if (form->put == NULL)
		return;
	if (group)
		put_byte(w, '(');
	form->put(w, filter, form);
	if (group)
		put_byte(w, ')');
}

/*
 * The query
 */

static void
put_option(url_writer *w, const char *name)
{
	put_byte(w, w->any ? '&' : '?');
	put(w, name);
	w->any = true;
}

static void
put_select(url_writer *w, const dv_query *query)
{
	int			i;

	if (query->all_columns)
		return;
	put_option(w, "$select=");
	if (query->ncolumns == 0)
		put(w, query->primary_id->property);
	for (i = 0; i < query->ncolumns; i++)
	{
		if (i > 0)
			put_byte(w, ',');
		put(w, query->columns[i]->property);
	}
}

static void
put_order(url_writer *w, const dv_query *query)
{
	bool		id_seen = false;
	int			i;

	if (query->norders == 0 && !query->by_id)
		return;
	put_option(w, "$orderby=");
	for (i = 0; i < query->norders; i++)
	{
		if (i > 0)
			put_byte(w, ',');
		put(w, query->orders[i].column->property);
		if (query->orders[i].descending)
		{
			put_blank(w);
			put(w, "desc");
		}
		if (strcmp(query->orders[i].column->property, query->primary_id->property) == 0)
			id_seen = true;
	}
	if (!query->by_id || id_seen)
		return;
	if (query->norders > 0)
		put_byte(w, ',');
	put(w, query->primary_id->property);
}

/*
 * As a parameter, the partition makes an elastic table search that partition
 * only; as a filter it does not.
 */
static void
put_partition(url_writer *w, const dv_query *query)
{
	const char *c;

	if (query->partition == NULL)
		return;
	put_option(w, "partitionId=");
	for (c = query->partition->text; *c != '\0'; c++)
	{
		if (query->partition->placeholder)
			put_byte(w, *c);
		else
			put_encoded(w, *c);
	}
}

static void
put_number(url_writer *w, int64_t n)
{
	char		digits[20];
	int			i = 0;

	do
		digits[i++] = (char) ('0' + n % 10);
	while ((n /= 10) > 0);
	while (i > 0)
		put_byte(w, digits[--i]);
}

size_t
dv_odata_query(const dv_query *query, dv_odata_style style, char *out, size_t size)
{
	url_writer	w = {.out = out, .size = size, .style = style};
	bool		filtered = query->filter != NULL && query->filter->kind != DV_TRUE;

	put(&w, query->entity_set);
	if (query->count)
	{
		put(&w, "?$apply=");
		if (filtered)
		{
			put(&w, "filter(");
			put_filter(&w, query->filter, false);
			put(&w, ")/");
		}
		put(&w, "aggregate($count");
		put_blank(&w);
		put(&w, "as");
		put_blank(&w);
		put(&w, "n)");
	}
	else
	{
		put_select(&w, query);
		if (filtered)
		{
			put_option(&w, "$filter=");
			put_filter(&w, query->filter, false);
		}
		put_order(&w, query);
		if (query->top > 0)
		{
			put_option(&w, "$top=");
			put_number(&w, query->top);
		}
		put_partition(&w, query);
	}
	if (size > 0)
		out[w.len < size ? w.len : size - 1] = '\0';
	return w.len;
}

/* Strings must have at most 850 characters; max_length is 0 if it is not known. */
bool
dv_odata_has_in(const dv_column *column, int max_length)
{
	if (column->type == DV_TYPE_STRING)
		return max_length > 0 && max_length <= 850;
	return (dv_types[column->type].flags & DV_LISTED) != 0;
}

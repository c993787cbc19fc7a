/*
 * list.c
 *		Lists of values: IN, = ANY, NOT IN, <> ALL.
 *
 * A list becomes the service's In, or single conditions for types without In.
 * One list of a query may have any length.  It is sorted once, and requested
 * part by part; or it is not sent, and all rows are compared with it locally.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/array.h"
#include "utils/lsyscache.h"

#include "dataverse/odata.h"
#include "fdw/plan/ship.h"
#include "fdw/scan/list.h"

/* Maximum number of values in one IN. */
#define CHUNK_VALUES 500
/* Maximum number of conditions that replace an IN. */
#define CHUNK_LISTED 100

int
dv_list_parts(const Expr *clause)
{
	const Const *list;
	const ArrayType *array;

	if (!IsA(clause, ScalarArrayOpExpr))
		return 1;
	list = lsecond(((const ScalarArrayOpExpr *) clause)->args);
	if (!IsA(list, Const) || list->constisnull)
		return 1;
	array = DatumGetArrayTypeP(list->constvalue);
	return Max((ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) + CHUNK_VALUES - 1) / CHUNK_VALUES, 1);
}

static int
compare_operands(const void *a, const void *b)
{
	return strcmp(((const dv_operand *) a)->text, ((const dv_operand *) b)->text);
}

/*
 * Returns the conditions "column = value" for the values of an array.  Sets *null if one
 * of them is NULL.
 */
static List *
equalities(const dv_leaf *l, bool *null)
{
	ArrayType  *array = DatumGetArrayTypeP(l->value->value);
	Oid			type = ARR_ELEMTYPE(array);
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			i;
	List	   *parts = NIL;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, type, typlen, typbyval, typalign, &values, &nulls, &n);
	*null = false;
	for (i = 0; i < n; i++)
	{
		dv_filter  *part;

		*null = *null || nulls[i];
		if (nulls[i])
			continue;
		part = dv_leaf_equals(l, type, values[i]);
		if (part->kind != DV_FALSE)
			parts = lappend(parts, part);
	}
	return parts;
}

/*
 * Merges equalities into one sorted list of distinct values; other filters go to
 * *others.  All texts of blanks are one text to the service, so one OR is kept for them.
 */
static dv_filter *
gather(const dv_leaf *l, List *parts, List **others)
{
	dv_filter  *list = dv_filter_of(DV_IN, l->column, NULL);
	ListCell   *lc;
	bool		blank = false;
	int			kept = 0;
	int			i;

	list->operands = palloc(sizeof(dv_operand) * Max(list_length(parts), 1));
	foreach(lc, parts)
	{
		dv_filter  *part = lfirst(lc);

		if (part->kind == DV_EQ)
			list->operands[list->n++] = part->operands[0];
		else if (part->kind != DV_OR || !blank)
			*others = lappend(*others, part);
		blank = blank || part->kind == DV_OR;
	}
	qsort(list->operands, list->n, sizeof(dv_operand), compare_operands);
	for (i = 0; i < list->n; i++)
		if (kept == 0 || strcmp(list->operands[i].text, list->operands[kept - 1].text) != 0)
			list->operands[kept++] = list->operands[i];
	list->n = kept;
	return list;
}

/* Does the service have In for the column, and accept it? */
static bool
has_in(const dv_leaf *l)
{
	return dv_odata_has_in(l->column, l->attribute->max_length) && l->binding->most_listed > 0;
}

/* Returns single conditions: the column has one of the values, or none of them. */
static dv_filter *
one_by_one(const dv_leaf *l, const dv_filter *list, bool any)
{
	List	   *parts = NIL;
	int			i;

	for (i = 0; i < list->n; i++)
		parts = lappend(parts, dv_leaf_compare(l, any ? DV_EQ : DV_NE, list->operands[i].text));
	return dv_filter_join(any ? DV_OR : DV_AND, parts);
}

/* The same with as many In or NotIn as are required. */
static dv_filter *
all_at_once(const dv_leaf *l, const dv_filter *list, bool any)
{
	int			most = l->binding->most_listed;
	List	   *parts = NIL;
	int			i;

	for (i = 0; i < list->n; i += Min(most, list->n - i))
	{
		dv_filter  *part = dv_filter_of(any ? DV_IN : DV_NOT_IN, l->column, NULL);

		part->operands = list->operands + i;
		part->n = Min(most, list->n - i);
		parts = lappend(parts, part);
	}
	return dv_filter_join(any ? DV_OR : DV_AND, parts);
}

static dv_filter *
list_filter(const dv_leaf *l, const dv_filter *list, bool any)
{
	return list->n > 1 && has_in(l) ? all_at_once(l, list, any) : one_by_one(l, list, any);
}

/* Returns the bytes around a value: encoded quotes and a comma, or the rest of the condition. */
static int
bytes_around(const dv_column *column, bool in)
{
	return 8 + (in ? 0 : 12 + (int) strlen(column->property));
}

int
dv_list_capacity(const dv_attribute *attribute, size_t bytes)
{
	bool		in = dv_odata_has_in(&attribute->column, attribute->max_length);
	int			fit = DV_CHUNK_BYTES / (bytes_around(&attribute->column, in) + (int) bytes);

	return Max(1, Min(in ? CHUNK_VALUES : CHUNK_LISTED, fit));
}

/* Returns how many values from "first" on fit into one request. */
static int
chunk_length(const dv_leaf *l, const dv_filter *list, int first)
{
	int			most = has_in(l) ? Min(CHUNK_VALUES, l->binding->most_listed) : CHUNK_LISTED;
	int			around = bytes_around(l->column, has_in(l));
	int			bytes = 0;
	int			n;

	for (n = 0; n < most && first + n < list->n; n++)
	{
		bytes += around + (int) dv_odata_text_length(list->operands[first + n].text);
		if (n > 0 && bytes > l->binding->chunk_bytes)
			break;
	}
	return n;
}

/*
 * Can the list be requested in parts?  Single values can, and so can texts of blanks:
 * as these also match nulls, only the first part contains them.
 */
static bool
can_be_parted(const List *others)
{
	return others == NIL ||
		(list_length(others) == 1 && ((const dv_filter *) linitial(others))->kind == DV_OR);
}

/* Returns the filter for the current part of a list that is too long for one request. */
static dv_filter *
take_chunk(const dv_leaf *l, dv_filter *list, const List *others)
{
	dv_bindings *binding = l->binding;
	dv_filter  *chunk = dv_filter_of(DV_IN, l->column, NULL);
	int			end = binding->first + chunk_length(l, list, binding->first);

	chunk->operands = list->operands + binding->first;
	chunk->n = end - binding->first;
	binding->rest = end < list->n ? end : 0;
	/* the first part counts the parts */
	for (binding->nchunks = 1; binding->first == 0 && end < list->n; binding->nchunks++)
		end += chunk_length(l, list, end);
	binding->chunk_attnum = l->attribute - binding->relation->attributes + 1;
	binding->chunk_filter = chunk;
	if (binding->first > 0)
		return list_filter(l, chunk, true);
	return dv_filter_join(DV_OR, lcons(list_filter(l, chunk, true), list_copy(others)));
}

/* Returns the filter for all rows that can have a listed value: the list is not sent. */
static dv_filter *
take_none(const dv_leaf *l, const dv_filter *list)
{
	dv_bindings *binding = l->binding;

	if (l->flags & DV_CONDITION_EXACT)
	{
		binding->chunk_attnum = l->attribute - binding->relation->attributes + 1;
		binding->chunk_filter = list;
	}
	if (strcmp(l->column->property, binding->relation->primary_id.property) == 0)
		return dv_filter_of(DV_TRUE, NULL, NULL);
	return dv_leaf_not_null(l);
}

/* As take_chunk(), for equalities that are ranges, as those of times are. */
static dv_filter *
take_range_chunk(const dv_leaf *l, List *parts)
{
	dv_bindings *binding = l->binding;
	int			left = list_length(parts) - binding->first;
	List	   *chunk = NIL;
	int			i;

	for (i = 0; i < Min(left, CHUNK_LISTED); i++)
		chunk = lappend(chunk, list_nth(parts, binding->first + i));
	binding->rest = left > CHUNK_LISTED ? binding->first + CHUNK_LISTED : 0;
	binding->nchunks = (left + CHUNK_LISTED - 1) / CHUNK_LISTED;
	return dv_filter_join(DV_OR, chunk);
}

static bool
are_ranges(const List *filters)
{
	const ListCell *lc;

	foreach(lc, filters)
	{
		if (((dv_filter *) lfirst(lc))->kind != DV_AND)
			return false;
	}
	return true;
}

static const char *
start_of(const dv_filter *range)
{
	return range->parts[0]->operands[0].text;
}

static int
compare_ranges(const ListCell *a, const ListCell *b)
{
	return strcmp(start_of(lfirst(a)), start_of(lfirst(b)));
}

static int
compare_start(const void *start, const void *cell)
{
	return strcmp(start, start_of(lfirst((const ListCell *) cell)));
}

/* Removes duplicate ranges, because two requests could return the same rows. */
static List *
distinct_ranges(List *ranges)
{
	List	   *kept = NIL;
	ListCell   *lc;

	if (!are_ranges(ranges))
		return ranges;
	list_sort(ranges, compare_ranges);
	foreach(lc, ranges)
	{
		if (kept == NIL || strcmp(start_of(lfirst(lc)), start_of(llast(kept))) != 0)
			kept = lappend(kept, lfirst(lc));
	}
	return kept;
}

/* Returns the single values of a list, and the ranges of other values. */
static dv_filter *
listed_values(const dv_leaf *l, List **others)
{
	dv_bindings *binding = l->binding;
	bool		keep = (l->flags & DV_CONDITION_LONG) != 0;
	dv_filter  *list = keep ? binding->list : NULL;
	bool		null;

	*others = keep ? binding->ranges : NIL;
	if (list != NULL)
		return list;
	list = gather(l, equalities(l, &null), others);
	*others = distinct_ranges(*others);
	if (keep)
	{
		binding->list = list;
		binding->ranges = *others;
	}
	return list;
}

dv_filter *
dv_list_in(const dv_leaf *l)
{
	List	   *others;
	dv_filter  *list;

	if (l->value->isnull)
		return dv_filter_of(DV_FALSE, NULL, NULL);
	list = listed_values(l, &others);
	if (l->flags & DV_CONDITION_LONG)
	{
		if (l->binding->list_omitted &&
			(can_be_parted(others) || (list->n == 0 && are_ranges(others))))
			return take_none(l, list);
		/* the rest of a list must not become the whole list, even if that would fit */
		if (list->n > 0 && (l->binding->first > 0 || chunk_length(l, list, 0) < list->n))
			return can_be_parted(others) ? take_chunk(l, list, others) : dv_filter_of(DV_TRUE, NULL, NULL);
		if (list->n == 0 && list_length(others) > CHUNK_LISTED)
			return take_range_chunk(l, others);
	}
	else if (!(l->flags & DV_CONDITION_EXACT) &&
			 (list->n > (has_in(l) ? DV_SMALL_IN : CHUNK_LISTED) ||
			  list_length(others) > CHUNK_LISTED || chunk_length(l, list, 0) < list->n))
		return dv_filter_of(DV_TRUE, NULL, NULL);
	/* further requests need the list of ranges */
	return dv_filter_join(DV_OR, lcons(list_filter(l, list, true), list_copy(others)));
}

dv_filter *
dv_list_not_in(const dv_leaf *l)
{
	List	   *others = NIL;
	List	   *parts;
	dv_filter  *list;
	ListCell   *lc;
	bool		null;

	if (l->value->isnull)
		return dv_filter_of(DV_FALSE, NULL, NULL);
	if (ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(l->value->value)),
					   ARR_DIMS(DatumGetArrayTypeP(l->value->value))) == 0)
		return dv_filter_of(DV_TRUE, NULL, NULL);
	list = gather(l, equalities(l, &null), &others);
	/* a comparison with NULL is never true */
	if (null)
		return dv_filter_of(DV_FALSE, NULL, NULL);
	parts = list_make1(list_filter(l, list, false));
	/* times must lie outside of each listed second; doubles are checked locally */
	foreach(lc, others)
	{
		dv_filter  *range = lfirst(lc);
		dv_filter  *before;
		dv_filter  *after = NULL;

		if (!(l->flags & DV_CONDITION_EXACT) || range->kind != DV_AND)
			continue;
		before = dv_leaf_compare(l, DV_LT, range->parts[0]->operands[0].text);
		/* no second follows the last one */
		if (range->parts[1]->kind == DV_LT)
			after = dv_leaf_compare(l, DV_GE, range->parts[1]->operands[0].text);
		parts = lappend(parts, after == NULL ? before :
						dv_filter_join(DV_OR, list_make2(before, after)));
	}
	return dv_filter_join(DV_AND, lappend(parts, dv_leaf_not_null(l)));
}

static bool
is_in_chunk(const dv_bindings *binding, const char *text)
{
	dv_operand	key = {.text = text};

	return bsearch(&key, binding->chunk_filter->operands, binding->chunk_filter->n,
				   sizeof(dv_operand), compare_operands) != NULL;
}

bool
dv_list_contains(dv_bindings *binding, Datum value)
{
	dv_leaf		l = {.binding = binding, .op = DV_OP_EQ, .flags = DV_CONDITION_EXACT};
	const dv_filter *filter;

	l.attribute = dv_relation_attribute(binding->relation, binding->chunk_attnum);
	l.column = &l.attribute->column;
	filter = dv_leaf_equals(&l, l.attribute->pgtype, value);
	if (filter->kind == DV_AND)
		return binding->ranges != NIL &&
			bsearch(start_of(filter), list_head(binding->ranges), list_length(binding->ranges),
					sizeof(ListCell), compare_start) != NULL;
	return filter->kind == DV_EQ && is_in_chunk(binding, filter->operands[0].text);
}

bool
dv_list_requested(const dv_bindings *binding, const char *text)
{
	/* only the first part of the list contains texts of blanks: see can_be_parted() */
	if (text[strspn(text, " ")] == '\0')
		return binding->first == 0;
	return is_in_chunk(binding, text);
}

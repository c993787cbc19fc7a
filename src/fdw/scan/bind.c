/*
 * bind.c
 *		Turns conditions and values into filters.
 *
 * At this point all values are known, and the semantics of SQL are expressed in
 * those of the service:
 *
 * - Comparing with NULL is never true.  Such a condition becomes DV_FALSE, and
 *	 a filter that is DV_FALSE needs no request at all.
 * - The service's negative operators are true for NULL, so "is not null" is
 *	 added to them.
 * - The values of a column form a grid: whole numbers, numbers with ten decimal
 *	 places, whole seconds, or days, within the bounds of its type.  The service
 *	 accepts no other literals, but a comparison with another value can be
 *	 expressed by grid points: for whole numbers, x < 2.5 is x <= 2, and
 *	 x < 1e30 is "x is not null".
 * - Times are compared only with ge and lt and with whole seconds.  That is
 *	 correct whether or not the service stores fractions that it does not show.
 * - Doubles are compared with a margin, because the values that the service
 *	 shows may be rounded.
 * - As far as is known, the service stores '' as null; its = '' matches both.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"

#include "dataverse/address.h"
#include "dataverse/odata.h"
#include "fdw/encode.h"
#include "fdw/plan/ship.h"
#include "fdw/scan/bind.h"
#include "fdw/scan/grid.h"
#include "fdw/scan/list.h"
#include "fdw/scan/pattern.h"
#include "fdw/tid.h"
#include "net/text.h"

/* Longer texts are compared only locally, if they are checked locally at all. */
#define MAX_TEXT 2000
/* Bytes around a value, roughly. */
#define CONDITION_BYTES 25
/* The longest start of a text that is compared. */
#define MAX_START 400

/*
 * Making filters
 */

static dv_filter *
both(dv_filter *a, dv_filter *b)
{
	return dv_filter_join(DV_AND, list_make2(a, b));
}

static dv_filter *
either(dv_filter *a, dv_filter *b)
{
	return dv_filter_join(DV_OR, list_make2(a, b));
}

static dv_filter *
nothing(void)
{
	return dv_filter_of(DV_FALSE, NULL, NULL);
}

static dv_filter *
is_null(const dv_leaf *l)
{
	return dv_filter_of(DV_IS_NULL, l->column, NULL);
}

dv_filter *
dv_leaf_not_null(const dv_leaf *l)
{
	return dv_filter_of(DV_IS_NOT_NULL, l->column, NULL);
}

dv_filter *
dv_leaf_compare(const dv_leaf *l, dv_filter_kind kind, const char *operand)
{
	return dv_filter_of(kind, l->column, operand);
}

/*
 * Comparisons on the grid
 */

/* Times up to the end of the second that "floor" begins, or after it. */
static dv_filter *
up_to_second(const dv_leaf *l, const dv_grid *g)
{
	return *g->next == '\0' ? dv_leaf_not_null(l) : dv_leaf_compare(l, DV_LT, g->next);
}

static dv_filter *
after_second(const dv_leaf *l, const dv_grid *g)
{
	return *g->next == '\0' ? nothing() : dv_leaf_compare(l, DV_GE, g->next);
}

static dv_filter *
compare_time(const dv_leaf *l, dv_op op, const dv_grid *g)
{
	switch (op)
	{
		case DV_OP_LT:
			return g->on ? dv_leaf_compare(l, DV_LT, g->floor) : up_to_second(l, g);
		case DV_OP_LE:
			return up_to_second(l, g);
		case DV_OP_GT:
			return g->fine ? dv_leaf_compare(l, DV_GE, g->floor) : after_second(l, g);
		case DV_OP_GE:
			return g->on || g->fine ? dv_leaf_compare(l, DV_GE, g->floor) : after_second(l, g);
		case DV_OP_EQ:
			if (!g->on && !g->fine)
				return nothing();
			return both(dv_leaf_compare(l, DV_GE, g->floor), up_to_second(l, g));
		default:
			if (!g->on || g->fine)
				return dv_leaf_not_null(l);
			return either(dv_leaf_compare(l, DV_LT, g->floor), after_second(l, g));
	}
}

static dv_filter *
compare_grid(const dv_leaf *l, dv_op op, const dv_grid *g)
{
	if (g->side != 0)
	{
		bool		all = op == DV_OP_NE ||
		(g->side < 0 ? op == DV_OP_GT || op == DV_OP_GE : op == DV_OP_LT || op == DV_OP_LE);

		return all ? dv_leaf_not_null(l) : nothing();
	}
	if (g->next != NULL)
		return compare_time(l, op, g);
	switch (op)
	{
		case DV_OP_LT:
			return dv_leaf_compare(l, g->on ? DV_LT : DV_LE, g->floor);
		case DV_OP_LE:
			return dv_leaf_compare(l, DV_LE, g->floor);
		case DV_OP_GT:
			return dv_leaf_compare(l, DV_GT, g->floor);
		case DV_OP_GE:
			return dv_leaf_compare(l, g->on ? DV_GE : DV_GT, g->floor);
		case DV_OP_EQ:
			return g->on ? dv_leaf_compare(l, DV_EQ, g->floor) : nothing();
		default:
			return g->on ? both(dv_leaf_compare(l, DV_NE, g->floor), dv_leaf_not_null(l)) : dv_leaf_not_null(l);
	}
}

/*
 * One function for each class of comparison.  "op" is a comparison operator,
 * and the value is not null.
 */

static dv_filter *
bind_number(const dv_leaf *l, dv_op op, Oid type, Datum value)
{
	dv_grid		g = dv_grid_of_number(dv_types[l->column->type].range, type, value);

	return compare_grid(l, op, &g);
}

/* Can times have fractions of a second? */
static bool
has_fractions(const dv_leaf *l)
{
	dv_table_type type = l->binding->relation->type;

	return type == DV_TABLE_ELASTIC || type == DV_TABLE_VIRTUAL;
}

static dv_filter *
bind_time(const dv_leaf *l, dv_op op, Oid type, Datum value)
{
	dv_grid		g = dv_grid_of_time(l->attribute->pgtype, has_fractions(l), type, value);

	return compare_grid(l, op, &g);
}

static dv_filter *
bind_date(const dv_leaf *l, dv_op op, Oid type, Datum value)
{
	dv_grid		g = dv_grid_of_date(type, value);

	return compare_grid(l, op, &g);
}

static dv_filter *
bind_id(const dv_leaf *l, dv_op op, Oid type, Datum value)
{
	const uint8 *id = type == TIDOID ?
	dv_tid_row(l->binding->relation, (ItemPointer) DatumGetPointer(value)) :
	DatumGetUUIDP(value)->data;
	const char *text;

	if (id == NULL)
		return nothing();
	text = dv_id_text(id);
	return op == DV_OP_EQ ? dv_leaf_compare(l, DV_EQ, text) : both(dv_leaf_compare(l, DV_NE, text), dv_leaf_not_null(l));
}

static dv_filter *
bind_boolean(const dv_leaf *l, dv_op op, Oid type, Datum value)
{
	return dv_leaf_compare(l, DV_EQ, DatumGetBool(value) == (op == DV_OP_EQ) ? "true" : "false");
}

static dv_filter *
bind_double(const dv_leaf *l, dv_op op, Oid type, Datum value)
{
	double		v = type == FLOAT4OID ? DatumGetFloat4(value) : DatumGetFloat8(value);
	double		margin = fabs(v) * 1e-12 + 1e-7;
	dv_filter  *from = NULL;
	dv_filter  *to = NULL;

	/* in PostgreSQL, NaN is greater than all other numbers */
	if (isnan(v) || isinf(v))
	{
		dv_grid		g = {isnan(v) || v > 0 ? 1 : -1, false, NULL, NULL, false};

		return compare_grid(l, op, &g);
	}
	/* a bound beyond the largest double cannot be written, and excludes nothing */
	if (!isinf(v - margin))
		from = dv_leaf_compare(l, DV_GE, psprintf("%.17g", v - margin));
	if (!isinf(v + margin))
		to = dv_leaf_compare(l, DV_LE, psprintf("%.17g", v + margin));
	if (op == DV_OP_EQ && from != NULL && to != NULL)
		return both(from, to);
	if (op == DV_OP_EQ)
		return from != NULL ? from : to;
	if (op == DV_OP_LT || op == DV_OP_LE)
		from = to;
	return op == DV_OP_NE || from == NULL ? dv_leaf_not_null(l) : from;
}

/* Returns a text value in UTF-8. */
static const char *
text_of(Oid type, Datum value)
{
	char	   *string = type == NAMEOID ? pstrdup(NameStr(*DatumGetName(value))) :
	TextDatumGetCString(value);

	return dv_text_to_utf8(string);
}

static bool
is_alphanumeric(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/*
 * Returns the length of the start of a text in which each character is equal to the
 * same characters under dataverse.ci_ai and in the service: ASCII letters and digits,
 * some signs, and the letters of Latin-1.  For these, ICU and Latin1_General_CI_AI
 * agree: they ignore accents and case, and ligatures are two letters.  Blanks and dots
 * differ (see dataverse/operator_list.h).
 *
 * ICU equates more characters with letters: signs that consist of letters (U+2122),
 * Roman numerals, mathematical letters.  The README names them.
 */
static size_t
length_alike(const char *text)
{
	const unsigned char *p = (const unsigned char *) text;

	for (;;)
	{
		if (is_alphanumeric(*p) || (*p != '\0' && strchr("-'&/@_+#", *p) != NULL))
			p++;
		/* U+00C0 to U+00FF, but no signs */
		else if (*p == 0xc3 && p[1] != 0x97 && p[1] != 0xb7)
			p += 2;
		else
			return p - (const unsigned char *) text;
	}
}

/* Returns a filter that accepts at least the texts that are equal under dataverse.ci_ai. */
static dv_filter *
equal_ci_ai(const dv_leaf *l, const char *text)
{
	size_t		length = Min(length_alike(text), MAX_START);

	/* the service may store '' as null, and a text of ignored characters equals '' */
	if (length == 0)
		return dv_filter_of(DV_TRUE, NULL, NULL);
	while (length < strlen(text) && ((unsigned char) text[length] & 0xc0) == 0x80)
		length--;
	if (text[length] == '\0')
		return dv_leaf_compare(l, DV_EQ, text);
	return dv_leaf_compare(l, DV_STARTS_WITH, pnstrdup(text, length));
}

static dv_filter *
bind_text(const dv_leaf *l, dv_op op, Oid type, Datum value)
{
	const char *text = text_of(type, value);
	bool		eq = op == DV_OP_EQ;

	if (l->flags & DV_CONDITION_CI_AI)
		return equal_ci_ai(l, text);

	/* no row can contain such a text, and the service would refuse the request */
	if (!dv_text_possible(text))
		return eq ? nothing() : dv_leaf_not_null(l);
	if (!(l->flags & DV_CONDITION_EXACT))
	{
		/* the filter may accept more rows than the condition; the operator is always = */
		if (strlen(text) > MAX_TEXT)
			return dv_leaf_not_null(l);
		/* a text that has been cut is as long as its column allows */
		if (l->attribute->cut && strlen(text) >= (size_t) l->attribute->max_length)
			return dv_leaf_not_null(l);
		if (text[strspn(text, " ")] == '\0')
			return either(dv_leaf_compare(l, DV_EQ, text), is_null(l));
	}
	return eq ? dv_leaf_compare(l, DV_EQ, text) : both(dv_leaf_compare(l, DV_NE, text), dv_leaf_not_null(l));
}

typedef dv_filter *(*binder) (const dv_leaf *l, dv_op op, Oid type, Datum value);

static binder
binder_of(const dv_leaf *l)
{
	static const binder binders[DV_COMPARISONS] = {
		[DV_COMPARE_ID] = bind_id,
		[DV_COMPARE_TEXT] = bind_text,
		[DV_COMPARE_NUMBER] = bind_number,
		[DV_COMPARE_DOUBLE] = bind_double,
		[DV_COMPARE_BOOLEAN] = bind_boolean,
		[DV_COMPARE_CHOICE] = bind_number,
		[DV_COMPARE_TIME] = bind_time,
		[DV_COMPARE_DATE] = bind_date,
	};

	binder		b = binders[dv_comparison_of(l->column->type, DV_COLLATION_BYTES)];

	if (b == NULL)
		elog(ERROR, "column \"%s\" cannot be compared remotely", l->attribute->name);
	return b;
}

dv_filter *
dv_leaf_equals(const dv_leaf *l, Oid type, Datum value)
{
	return binder_of(l) (l, DV_OP_EQ, getBaseType(type), value);
}

static dv_filter *
bind_comparison(const dv_leaf *l)
{
	const dv_bound_value *v = l->value;
	dv_op		op = l->op;

	if (op == DV_OP_DISTINCT)
	{
		if (v->isnull)
			return dv_leaf_not_null(l);
		return either(binder_of(l) (l, DV_OP_NE, v->type, v->value), is_null(l));
	}
	if (op == DV_OP_NOT_DISTINCT)
	{
		if (v->isnull)
			return is_null(l);
		op = DV_OP_EQ;
	}
	if (v->isnull)
		return nothing();
	return binder_of(l) (l, op, v->type, v->value);
}

/*
 * column && array, column @> array, value = ANY (column).  The service looks for
 * single values in a full-text index that lags behind the rows.  Unless the user accepts
 * that, the filter only requires that the column has values.
 */
static dv_filter *
bind_choices(const dv_leaf *l)
{
	dv_filter  *list = dv_filter_of(DV_CONTAIN_VALUES, l->column, NULL);
	bool		full_text = l->binding->relation->full_text;
	List	   *parts = NIL;
	Datum	   *values = NULL;
	bool	   *nulls = NULL;
	int			n = 1;
	int			i;

	if (l->value->isnull)
		return nothing();
	if (l->value->type == INT4OID)
		return !full_text ? dv_leaf_not_null(l) :
			dv_leaf_compare(l, DV_CONTAIN_VALUES, psprintf("%d", DatumGetInt32(l->value->value)));
	deconstruct_array(DatumGetArrayTypeP(l->value->value), INT4OID, sizeof(int32), true,
					  TYPALIGN_INT, &values, &nulls, &n);
	list->operands = palloc(sizeof(dv_operand) * Max(n, 1));
	for (i = 0; i < n; i++)
	{
		if (nulls[i] && l->op == DV_OP_CONTAINS)
			return nothing();
		if (nulls[i])
			continue;
		list->operands[list->n].placeholder = false;
		list->operands[list->n].text = psprintf("%d", DatumGetInt32(values[i]));
		if (full_text && i < 10)
			parts = lappend(parts, dv_leaf_compare(l, DV_CONTAIN_VALUES, list->operands[list->n].text));
		list->n++;
	}
	if (l->op == DV_OP_CONTAINS)
		return parts == NIL ? dv_leaf_not_null(l) : dv_filter_join(DV_AND, parts);
	if (list->n == 0)
		return nothing();
	return !full_text || list->n > DV_SMALL_IN ? dv_leaf_not_null(l) : list;
}

static dv_filter *
bind_pattern(const dv_leaf *l)
{
	const char *text;

	if (l->value->isnull)
		return nothing();
	text = text_of(l->value->type, l->value->value);
	return dv_pattern_filter(l->op, text, l->column);
}

/* Compares two columns of a row.  Nulls are excluded, whatever the service makes of them. */
static dv_filter *
bind_columns(const dv_leaf *l)
{
	dv_filter  *filter = dv_filter_of(dv_ops[l->op].filter, l->column, NULL);

	filter->other = &l->other->column;
	if (filter->kind == DV_LT || filter->kind == DV_LE)
		return filter;
	return dv_filter_join(DV_AND, list_make3(filter, dv_leaf_not_null(l),
											 dv_filter_of(DV_IS_NOT_NULL, filter->other, NULL)));
}

/* For EXPLAIN: shows where a value that is not known yet will be. */
static dv_filter *
bind_placeholder(const dv_leaf *l)
{
	dv_filter  *filter = dv_leaf_compare(l, dv_ops[l->op].filter, l->value->placeholder);

	if (filter->kind == DV_CONTAIN_VALUES && !l->binding->relation->full_text)
		return dv_leaf_not_null(l);
	filter->operands[0].placeholder = true;
	if (l->op == DV_OP_DISTINCT)
		return either(filter, is_null(l));
	return l->op == DV_OP_NE || l->op == DV_OP_NOT_IN ? both(filter, dv_leaf_not_null(l)) : filter;
}

static dv_filter *
bind_leaf(dv_bindings *binding, List *condition)
{
	static dv_filter *(*const functions[DV_OPS]) (const dv_leaf *) = {
		[DV_OP_NULL] = is_null,
		[DV_OP_NOT_NULL] = dv_leaf_not_null,
		[DV_OP_IN] = dv_list_in,
		[DV_OP_NOT_IN] = dv_list_not_in,
		[DV_OP_LIKE] = bind_pattern,
		[DV_OP_ILIKE] = bind_pattern,
		[DV_OP_STARTS] = bind_pattern,
		[DV_OP_OVERLAPS] = bind_choices,
		[DV_OP_CONTAINS] = bind_choices,
		[DV_OP_COLUMNS_EQ] = bind_columns,
		[DV_OP_COLUMNS_NE] = bind_columns,
		[DV_OP_COLUMNS_LT] = bind_columns,
		[DV_OP_COLUMNS_LE] = bind_columns,
	};
	dv_leaf		l = {0};

	l.binding = binding;
	l.attribute = dv_relation_attribute(binding->relation, dv_condition_attnum(condition));
	if (l.attribute == NULL)
		elog(ERROR, "column %d of foreign table \"%s\" does not exist",
			 dv_condition_attnum(condition), binding->relation->name);
	l.column = &l.attribute->column;
	l.op = dv_condition_op(condition);
	if (dv_condition_compares_columns(condition))
		l.other = dv_relation_attribute(binding->relation, dv_condition_other(condition));
	else if (list_length(condition) > 2)
	{
		l.value = &binding->values[dv_condition_value(condition)];
		l.flags = dv_condition_flags(condition);
		if (l.value->placeholder != NULL)
			return bind_placeholder(&l);
	}
	return functions[l.op] != NULL ? functions[l.op] (&l) : bind_comparison(&l);
}

static dv_filter *
bind_condition(dv_bindings *binding, List *condition)
{
	dv_op		op = dv_condition_op(condition);
	List	   *parts = NIL;
	int			i;

	if (op != DV_OP_AND && op != DV_OP_OR)
		return bind_leaf(binding, condition);
	for (i = 1; i < list_length(condition); i++)
		parts = lappend(parts, bind_condition(binding, list_nth(condition, i)));
	return dv_filter_join(op == DV_OP_AND ? DV_AND : DV_OR, parts);
}

/* Does the condition have a part that is also checked locally?  Its value may have any length. */
static bool
is_checked_locally(List *condition)
{
	dv_op		op = dv_condition_op(condition);
	int			i;

	if (op != DV_OP_AND && op != DV_OP_OR)
		return list_length(condition) > 2 &&
			!(dv_condition_flags(condition) & (DV_CONDITION_EXACT | DV_CONDITION_LONG));
	for (i = 1; i < list_length(condition); i++)
		if (is_checked_locally(list_nth(condition, i)))
			return true;
	return false;
}

/* Returns the bytes of the values in a filter. */
static size_t
bytes_of(const dv_filter *filter)
{
	size_t		bytes = 0;
	int			i;

	for (i = 0; filter->parts != NULL && i < filter->n; i++)
		bytes += bytes_of(filter->parts[i]);
	for (i = 0; filter->operands != NULL && i < filter->n; i++)
		bytes += dv_odata_text_length(filter->operands[i].text) + CONDITION_BYTES;
	return bytes;
}

/* Returns the part that takes up most of a request, from 1, or 0 if none can be omitted. */
static int
largest_part(dv_bindings *binding, List *condition, size_t *most)
{
	bool		several = condition != NIL && dv_condition_op(condition) == DV_OP_AND;
	int			largest = 0;
	int			i;

	*most = 0;
	for (i = 1; condition != NIL && i < (several ? list_length(condition) : 2); i++)
	{
		List	   *part = several ? list_nth(condition, i) : condition;
		size_t		bytes;

		if (bms_is_member(i, binding->dropped) || !is_checked_locally(part))
			continue;
		bytes = bytes_of(bind_condition(binding, part));
		if (largest == 0 || bytes > *most)
		{
			*most = bytes;
			largest = i;
		}
	}
	return largest;
}

bool
dv_bind_droppable(dv_bindings *binding, List *condition, size_t *bytes)
{
	return largest_part(binding, condition, bytes) > 0;
}

bool
dv_bind_drop(dv_bindings *binding, List *condition)
{
	size_t		bytes;
	int			largest = largest_part(binding, condition, &bytes);

	if (largest > 0)
		binding->dropped = bms_add_member(binding->dropped, largest);
	return largest > 0;
}

/* The same for a whole condition, without the dropped parts. */
static dv_filter *
bind_rest(dv_bindings *binding, List *condition)
{
	List	   *parts = NIL;
	int			i;

	if (dv_condition_op(condition) != DV_OP_AND)
		return bms_is_empty(binding->dropped) ? bind_condition(binding, condition) :
			dv_filter_of(DV_TRUE, NULL, NULL);
	for (i = 1; i < list_length(condition); i++)
		if (!bms_is_member(i, binding->dropped))
			parts = lappend(parts, bind_condition(binding, list_nth(condition, i)));
	return dv_filter_join(DV_AND, parts);
}

void
dv_bind_start(dv_bindings *binding)
{
	binding->chunk_bytes = DV_CHUNK_BYTES;
	binding->list_omitted = false;
	binding->dropped = NULL;
	binding->list = NULL;
	binding->ranges = NIL;
}

dv_filter *
dv_bind(dv_bindings *binding, List *condition)
{
	binding->rest = 0;
	binding->nchunks = 1;
	binding->chunk_attnum = 0;
	binding->chunk_filter = NULL;
	if (condition == NIL)
		return dv_filter_of(DV_TRUE, NULL, NULL);
	return bind_rest(binding, condition);
}

/*
 * fetch_aggregate.c
 *		Aggregates and groups of FetchXML.
 *
 * The rows are an inner query with a column for each expression (c0, c1, …),
 * so that a limit of rows can be set on it; the outer query groups them.
 *
 * Sums that SQL Server computes in the type of the column overflow in that
 * type.  Amounts of money are aggregated in the organization's currency,
 * because rows may have different ones.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "fetch/fetch_sql.h"
#include "store/store.h"

#define BAD_ALIAS "0x80041109"
#define BAD_AGGREGATE "0x8004112F"
#define BAD_GROUPING "0x80041135"

struct builder
{
	struct sim_fetch_query *q;
	const char **exprs;			/* of the inner query */
	int			n;
	struct sim_buf group;		/* list of GROUP BY */
	struct sim_fetch_key *groups;	/* the groups as keys, to make the order total */
	int			ngroups;
};

static const char *const aggregate_names[] = {
	[SIM_AGGREGATE_AVG] = "avg",
	[SIM_AGGREGATE_COUNT] = "count",
	[SIM_AGGREGATE_COUNTCOLUMN] = "countcolumn",
	[SIM_AGGREGATE_MAX] = "max",
	[SIM_AGGREGATE_MIN] = "min",
	[SIM_AGGREGATE_SUM] = "sum",
};

/* parts of a date as integers; @ is the column */
static const char *const part_sql[] = {
	[SIM_PART_DAY] = "CAST(strftime('%d',@,'unixepoch') AS INTEGER)",
	/* as SQL Server counts: January 1 is in week 1, weeks start on Sunday */
	[SIM_PART_WEEK] = "(strftime('%j',@,'unixepoch')-1+"
	"strftime('%w',@,'unixepoch','start of year'))/7+1",
	[SIM_PART_MONTH] = "CAST(strftime('%m',@,'unixepoch') AS INTEGER)",
	[SIM_PART_QUARTER] = "(strftime('%m',@,'unixepoch')+2)/3",
	[SIM_PART_YEAR] = "CAST(strftime('%Y',@,'unixepoch') AS INTEGER)",
	[SIM_PART_FISCAL_PERIOD] = "(strftime('%m',@,'unixepoch')+2)/3",
	[SIM_PART_FISCAL_YEAR] = "CAST(strftime('%Y',@,'unixepoch') AS INTEGER)",
};

static bool
refuse(struct builder *b, const struct sim_fetch_attribute *a, const struct sim_column *column)
{
	return sim_fail(b->q->req, b->q->res, 400, BAD_AGGREGATE,
					"Aggregate %s is not supported for attribute of type %s.",
					a->groupby ? "groupby" : aggregate_names[a->aggregate],
					sim_type_name(column->type));
}

/* returns the name of an expression's column in the inner query */
static const char *
inner_column(struct builder *b, const char *expr)
{
	int			i;

	for (i = 0; i < b->n && strcmp(b->exprs[i], expr) != 0; i++)
		;
	if (i == b->n)
	{
		const char **more = sim_alloc(b->q->req->arena, (b->n + 1) * sizeof(*more));

		if (b->n > 0)
			memcpy(more, b->exprs, b->n * sizeof(*more));
		b->exprs = more;
		b->exprs[b->n++] = expr;
		sim_putf(&b->q->inner, "%s%s AS c%d", i ? "," : "", expr, i);
	}
	return sim_fmt(b->q->req->arena, "c%d", i);
}

/* the same column under another type, for counts and parts of dates */
static struct sim_column *
as_integer(struct builder *b, const struct sim_column *column)
{
	struct sim_column *copy = sim_alloc(b->q->req->arena, sizeof(*copy));

	*copy = *column;
	copy->type = SIM_INTEGER;
	copy->format = NULL;
	copy->options = NULL;
	return copy;
}

static bool
is_order(const struct sim_fetch_query *q, const char *alias)
{
	struct sim_fetch_entity *entity;
	const struct sim_fetch_order *order;

	for (entity = q->tree->root; entity != NULL; entity = sim_fetch_next_join(entity))
	{
		for (order = entity->orders; order != NULL; order = order->next)
		{
			if (order->alias != NULL && strcmp(order->alias, alias) == 0)
				return true;
		}
	}
	return false;
}

/* returns true if an aggregate accepts columns of a class */
static bool
aggregate_takes(int aggregate, enum sim_fetch_class class)
{
	bool		number = class == SIM_CLASS_INTEGER || class == SIM_CLASS_DECIMAL ||
	class == SIM_CLASS_REAL;

	switch (aggregate)
	{
		case SIM_AGGREGATE_SUM:
		case SIM_AGGREGATE_AVG:
			return number;
		case SIM_AGGREGATE_MIN:
		case SIM_AGGREGATE_MAX:
			return number || class == SIM_CLASS_DATE || class == SIM_CLASS_TEXT;
		case SIM_AGGREGATE_COUNTCOLUMN:
			return class != SIM_CLASS_NONE && class != SIM_CLASS_BINARY;
		default:
			return true;
	}
}

static const char *
aggregate_sql(struct builder *b, const struct sim_fetch_attribute *a,
			  const struct sim_fetch_term *term)
{
	struct sim_arena *arena = b->q->req->arena;
	const char *collate = term->class == SIM_CLASS_TEXT ? " COLLATE DV" : "";
	const char *c;

	if (a->aggregate == SIM_AGGREGATE_COUNT)
		return "COUNT(*)";
	c = inner_column(b, term->expr);
	switch (a->aggregate)
	{
		case SIM_AGGREGATE_COUNTCOLUMN:
			return sim_fmt(arena, "COUNT(%s%s%s)", a->distinct ? "DISTINCT " : "", c, collate);
		case SIM_AGGREGATE_MAX:
			return sim_fmt(arena, "MAX(%s%s)", c, collate);
		case SIM_AGGREGATE_MIN:
			return sim_fmt(arena, "MIN(%s%s)", c, collate);
		default:
			return sim_fmt(arena, "%s(%s)",
						   sim_number_aggregate(term->column->type,
												a->aggregate == SIM_AGGREGATE_AVG), c);
	}
}

/*
 * returns the column on which an aggregate works: the base amount instead of one in the row's
 * currency
 */
static bool
aggregated_term(struct builder *b, struct sim_fetch_term *term)
{
	const struct sim_column *base = sim_base_money(term->column);

	return base == NULL || sim_fetch_term(b->q, term->entity, base->name, term);
}

static bool
add_aggregate(struct builder *b, const struct sim_fetch_attribute *a,
			  const struct sim_fetch_term *term)
{
	struct sim_fetch_term input = *term;
	struct sim_out_column *out;
	bool		count = a->aggregate == SIM_AGGREGATE_COUNT ||
	a->aggregate == SIM_AGGREGATE_COUNTCOLUMN;

	if (!aggregate_takes(a->aggregate, term->class))
		return refuse(b, a, term->column);
	if (a->distinct && a->aggregate != SIM_AGGREGATE_COUNTCOLUMN)
		return sim_fail(b->q->req, b->q->res, 400, "0x80041115",
						"The distinct attribute is supported with countcolumn only.");
	if (!count && !aggregated_term(b, &input))
		return false;
	out = sim_fetch_output(b->q, a->alias);
	out->column = count ? as_integer(b, term->column) : term->column;
	out->aliased = true;
	out->link = term->entity != b->q->tree->root ? term->entity->name : NULL;
	out->stmt_index = sim_fetch_select(b->q, aggregate_sql(b, a, &input));
	return true;
}

/*
 * returns the term's expression, or the part of its date by which rows are grouped; NULL after
 * sim_fail()
 */
static const char *
group_sql(struct builder *b, const struct sim_fetch_attribute *a,
		  const struct sim_fetch_term *term)
{
	bool		helper = !term->column->stored && term->column->formula == NULL;
	struct sim_buf sql = {0};
	const char *c;

	if (term->class == SIM_CLASS_NONE || term->class == SIM_CLASS_BINARY ||
		term->class == SIM_CLASS_CHOICES || helper)
	{
		refuse(b, a, term->column);
		return NULL;
	}
	if ((term->class == SIM_CLASS_DATE) != (a->part != SIM_PART_NONE))
	{
		sim_fail(b->q->req, b->q->res, 400, BAD_GROUPING,
				 "An invalid value was specified for dategrouping.");
		return NULL;
	}
	if (a->part == SIM_PART_NONE)
		return term->expr;
	for (c = part_sql[a->part]; *c != '\0'; c++)
	{
		if (*c == '@')
			sim_puts(&sql, term->expr);
		else
			sim_putc(&sql, *c);
	}
	return sim_fetch_text(b->q, &sql);
}

static void
add_lookup_columns(struct builder *b, struct sim_out_column *out,
				   const struct sim_fetch_term *term, bool ordered, const char **label)
{
	struct sim_fetch_query *q = b->q;
	struct sim_column *column = term->column;
	const char *alias = term->entity->sql;
	struct sim_buf sql = {0};

	if (column->ntargets > 1 && (q->out.flags & (SIM_OUT_TYPES | SIM_OUT_NAVIGATION)))
		out->type_index = sim_fetch_select(q, inner_column(b, sim_fmt(q->req->arena,
																	  "%s.\"%s.type\"", alias,
																	  column->name)));
	if (!(q->out.flags & SIM_OUT_LABELS) && !ordered)
		return;
	sim_lookup_label_sql(&sql, alias, column);
	*label = inner_column(b, sim_fetch_text(q, &sql));
	if (q->out.flags & SIM_OUT_LABELS)
		out->label_index = sim_fetch_select(q, *label);
}

static bool
add_group(struct builder *b, const struct sim_fetch_attribute *a,
		  const struct sim_fetch_term *term)
{
	struct sim_fetch_query *q = b->q;
	bool		text = term->class == SIM_CLASS_TEXT || term->class == SIM_CLASS_NAME;
	const char *expr = group_sql(b, a, term);
	struct sim_out_column *out;
	struct sim_fetch_key *key;
	const char *c;

	if (expr == NULL)
		return false;
	c = inner_column(b, expr);
	sim_putf(&b->group, "%s%s%s", b->ngroups ? "," : "", c, text ? " COLLATE DV" : "");
	out = sim_fetch_output(q, a->alias);
	out->column = a->part ? as_integer(b, term->column) : term->column;
	out->aliased = true;
	out->link = term->entity != q->tree->root ? term->entity->name : NULL;
	out->stmt_index = sim_fetch_select(q, c);
	key = &b->groups[b->ngroups++];
	key->name = a->alias;
	key->column = term->column;
	key->expr = c;
	key->kind = text ? SIM_KEY_TEXT : SIM_KEY_INTEGER;

	if (term->class == SIM_CLASS_LOOKUP)
	{
		const char *label = NULL;

		add_lookup_columns(b, out, term, is_order(q, a->alias), &label);
		if (label != NULL)
		{
			key->expr = label;
			key->kind = SIM_KEY_TEXT;
		}
	}
	else if (term->class == SIM_CLASS_CHOICE || term->class == SIM_CLASS_BOOLEAN)
		key->expr = sim_fetch_rank(q, c, term->column);
	return true;
}

static bool
check_attribute(struct builder *b, const struct sim_fetch_attribute *a)
{
	int			i;

	if (a->alias == NULL)
		return sim_fail(b->q->req, b->q->res, 400, BAD_ALIAS,
						"Invalid alias for aggregate operation.");
	if (a->groupby && a->aggregate)
		return sim_fail(b->q->req, b->q->res, 400, "0x80041137",
						"An attribute can either be an aggregate or a Group By but not both");
	if (!a->groupby && !a->aggregate)
		return sim_fail(b->q->req, b->q->res, 400, "0x80041107",
						"Attributes can not be returned when aggregate operation is specified.");
	for (i = 0; i < b->q->out.n; i++)
	{
		if (strcmp(b->q->out.columns[i].name, a->alias) == 0)
			return sim_fail(b->q->req, b->q->res, 400, "0x80041130",
							"FetchXML should have unique aliases.");
	}
	return true;
}

static bool
add_attributes(struct builder *b, struct sim_fetch_entity *entity)
{
	const struct sim_fetch_attribute *a;

	if (entity->all_attributes)
		return sim_fail(b->q->req, b->q->res, 400, "0x80041107",
						"Attributes can not be returned when aggregate operation is specified.");
	for (a = entity->attributes; a != NULL; a = a->next)
	{
		struct sim_fetch_term term;

		if (!check_attribute(b, a) || !sim_fetch_term(b->q, entity, a->name, &term))
			return false;
		if (!(a->groupby ? add_group(b, a, &term) : add_aggregate(b, a, &term)))
			return false;
	}
	return true;
}

static bool
add_order(struct builder *b, const struct sim_fetch_order *order)
{
	struct sim_fetch_query *q = b->q;
	struct sim_fetch_key key = {0};
	int			i;

	if (order->attribute != NULL)
		return sim_fail(q->req, q->res, 400, "0x80041131",
						"An attribute cannot be specified for an order clause for an aggregate "
						"Query. Use an alias.");
	if (order->alias == NULL)
		return sim_fail(q->req, q->res, 400, "0x80041134",
						"An alias is required for an order clause for an aggregate Query.");
	if (q->table->type == SIM_ELASTIC && (b->ngroups > 0 || q->nkeys > 0))
		return sim_fail(q->req, q->res, 400, "0x80048d0b",
						"Order together with group by is not supported");
	for (i = 0; i < q->out.n; i++)
	{
		if (strcmp(q->out.columns[i].name, order->alias) == 0)
			break;
	}
	if (i == q->out.n)
		return sim_fail(q->req, q->res, 400, "0x8004110a",
						"The specified alias for the given entity in the condition does not "
						"exist: '%s'.", order->alias);
	key.expr = q->exprs[q->out.columns[i].stmt_index];
	key.kind = sim_fetch_class_of(q->out.columns[i].column) == SIM_CLASS_TEXT ? SIM_KEY_TEXT
		: SIM_KEY_INTEGER;
	key.descending = order->descending;
	/* groups are in ascending order even if the query specifies another one */
	for (i = 0; i < b->ngroups; i++)
	{
		if (strcmp(b->groups[i].name, order->alias) == 0)
			key = b->groups[i];
	}
	sim_fetch_add_key(q, &key);
	return true;
}

static bool
add_orders(struct builder *b)
{
	struct sim_fetch_entity *entity;
	const struct sim_fetch_order *order;
	int			i;

	for (entity = b->q->tree->root; entity != NULL; entity = sim_fetch_next_join(entity))
	{
		for (order = entity->orders; order != NULL; order = order->next)
		{
			if (!add_order(b, order))
				return false;
		}
	}
	for (i = 0; i < b->ngroups; i++)
		sim_fetch_add_key(b->q, &b->groups[i]);
	return true;
}

static int
count_attributes(const struct sim_fetch_query *q)
{
	struct sim_fetch_entity *entity;
	const struct sim_fetch_attribute *a;
	int			n = 0;

	for (entity = q->tree->root; entity != NULL; entity = sim_fetch_next_join(entity))
	{
		for (a = entity->attributes; a != NULL; a = a->next)
			n++;
	}
	return n;
}

bool
sim_fetch_aggregate(struct sim_fetch_query *q)
{
	struct builder b = {.q = q};
	struct sim_fetch_entity *entity;
	int			n = count_attributes(q);
	bool		ok = true;

	if (n > 500)
		return sim_fail(q->req, q->res, 400, "0x80048d42", "The query returns too many columns.");
	b.groups = sim_alloc(q->req->arena, (n + 1) * sizeof(*b.groups));
	for (entity = q->tree->root; entity != NULL && ok; entity = sim_fetch_next_join(entity))
		ok = add_attributes(&b, entity);
	if (ok && n == 0)
		ok = sim_fail(q->req, q->res, 400, "0x8004111a",
					  "An error occurred while processing Aggregates in Query");
	ok = ok && add_orders(&b);
	if (q->inner.len == 0)
		sim_puts(&q->inner, "1");
	if (q->tree->aggregate_limit > 0)
		sim_putf(&q->tail, " LIMIT %d", q->tree->aggregate_limit + 1);
	sim_putc(&q->tail, ')');
	if (b.ngroups > 0)
		sim_putf(&q->tail, " GROUP BY %s", b.group.s);
	sim_buf_free(&b.group);
	return ok;
}

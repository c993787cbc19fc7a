/*
 * fetch_order.c
 *		The order of the rows of a FetchXML query.
 *
 * Lookups sort by the name of the referenced row, choices by their labels.
 * The order is made total: by the primary keys of the root and of the links
 * that multiply its rows, or by all columns of distinct rows.  The keys that a
 * cookie holds come first: see sim_fetch_order().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch_sql.h"
#include "store/text.h"

#define NO_ALIAS_ALLOWED "0x80041132"
#define NO_ORDER_ATTRIBUTE "0x80041133"
#define NOT_ON_ELASTIC "0x80048d0b"

#define MAX_KEYS 40				/* in a cookie */

struct ranked
{
	const struct sim_option *option;
};

static int
compare_labels(const void *a, const void *b)
{
	const char *x = ((const struct ranked *) a)->option->label;
	const char *y = ((const struct ranked *) b)->option->label;

	return sim_text_compare(x, strlen(x), y, strlen(y));
}

const char *
sim_fetch_rank(struct sim_fetch_query *q, const char *expr, const struct sim_column *column)
{
	const struct sim_option_set *set = column->options;
	struct ranked *ranked;
	struct sim_buf sql = {0};
	int			rank = 0;
	int			i;

	if (q->tree->raw_order || set == NULL || set->n == 0)
		return expr;
	ranked = sim_alloc(q->req->arena, set->n * sizeof(*ranked));
	for (i = 0; i < set->n; i++)
		ranked[i].option = &set->options[i];
	qsort(ranked, set->n, sizeof(*ranked), compare_labels);
	sim_putf(&sql, "CASE %s", expr);
	for (i = 0; i < set->n; i++)
	{
		if (i > 0 && compare_labels(&ranked[i - 1], &ranked[i]) != 0)
			rank++;
		sim_putf(&sql, " WHEN %d THEN %d", ranked[i].option->value, rank);
	}
	sim_puts(&sql, " END");
	return sim_fetch_text(q, &sql);
}

/* elastic tables sort GUIDs as text: the stored bytes back in the text's order */
static const char *
guid_text(struct sim_fetch_query *q, const char *expr)
{
	static const int bytes[16] = {16, 15, 14, 13, 12, 11, 10, 9, 7, 8, 1, 2, 3, 4, 5, 6};
	struct sim_buf sql = {0};
	int			i;

	sim_putc(&sql, '(');
	for (i = 0; i < 16; i++)
		sim_putf(&sql, "%shex(substr(%s,%d,1))", i ? "||" : "", expr, bytes[i]);
	sim_putc(&sql, ')');
	return sim_fetch_text(q, &sql);
}

/* a formula may be a bare number, which ORDER BY would take for a column's position */
static const char *
no_position(struct sim_fetch_query *q, const char *expr, const struct sim_column *column)
{
	if (column->stored || sim_fetch_class_of(column) != SIM_CLASS_INTEGER)
		return expr;
	return sim_fmt(q->req->arena, "0+%s", expr);
}

static bool
order_key(struct sim_fetch_query *q, const struct sim_fetch_term *term, bool descending,
		  struct sim_fetch_key *key)
{
	struct sim_buf sql = {0};

	memset(key, 0, sizeof(*key));
	key->name = term->column->name;
	key->expr = term->expr;
	key->column = term->column;
	key->descending = descending;
	key->kind = SIM_KEY_TEXT;
	switch (term->class)
	{
		case SIM_CLASS_LOOKUP:
			if (q->table->type == SIM_ELASTIC)
				return sim_fail(q->req, q->res, 400, NOT_ON_ELASTIC,
								"Ordering on lookup columns is not supported");
			sim_lookup_label_sql(&sql, term->entity->sql, term->column);
			key->expr = sim_fetch_text(q, &sql);
			break;
		case SIM_CLASS_CHOICE:
		case SIM_CLASS_BOOLEAN:
			key->expr = sim_fetch_rank(q, term->expr, term->column);
			key->kind = SIM_KEY_INTEGER;
			break;
		case SIM_CLASS_INTEGER:
			key->expr = no_position(q, term->expr, term->column);
			key->kind = SIM_KEY_INTEGER;
			break;
		case SIM_CLASS_REAL:
			key->kind = SIM_KEY_REAL;
			break;
		case SIM_CLASS_GUID:
			if (q->table->type == SIM_ELASTIC)
				key->expr = guid_text(q, term->expr);
			else
				key->kind = SIM_KEY_ID;
			key->never_null = term->entity == q->tree->root && term->column->primary_id;
			break;
		case SIM_CLASS_DATE:
		case SIM_CLASS_DECIMAL:
			key->kind = SIM_KEY_LITERAL;
			break;
		case SIM_CLASS_NONE:
		case SIM_CLASS_BINARY:
			return sim_fail(q->req, q->res, 400, "0x8004111f",
							"The attribute '%s' of type %s can't be used in an order.",
							term->column->name, sim_type_name(term->column->type));
		default:
			break;
	}
	return true;
}

static bool
add_order(struct sim_fetch_query *q, struct sim_fetch_entity *entity,
		  const struct sim_fetch_order *order)
{
	struct sim_fetch_term term;
	struct sim_fetch_key key;

	if (order->alias != NULL)
		return sim_fail(q->req, q->res, 400, NO_ALIAS_ALLOWED,
						"An alias cannot be specified for an order clause for a non-aggregate "
						"Query. Use an attribute.");
	if (order->attribute == NULL)
		return sim_fail(q->req, q->res, 400, NO_ORDER_ATTRIBUTE,
						"An attribute is required for an order clause for a non-aggregate "
						"Query.");
	if (order->entityname != NULL)
		entity = sim_fetch_by_alias(q, entity, order->entityname, -1);
	if (entity == NULL || !sim_fetch_term(q, entity, order->attribute, &term) ||
		!sim_column_filterable(q->req, q->res, term.column) || !order_key(q, &term, order->descending, &key))
		return false;
	if (sim_column_ignores_order(term.column))
		return true;
	if (entity != q->tree->root)
		q->cookie = false;
	if (q->table->type == SIM_ELASTIC && q->nkeys > 0)
		return sim_fail(q->req, q->res, 400, NOT_ON_ELASTIC,
						"Ordering by more than one column is not supported");
	sim_fetch_add_key(q, &key);
	return true;
}

static void
add_id_key(struct sim_fetch_query *q, struct sim_fetch_entity *entity)
{
	struct sim_column *id = entity->table->id;
	struct sim_fetch_key key = {.kind = SIM_KEY_ID, .column = id};
	struct sim_buf sql = {0};

	key.name = entity->parent ? sim_fmt(q->req->arena, "%s.%s", entity->label, id->name)
		: id->name;
	sim_column_sql(&sql, entity->sql, id);
	key.expr = sim_fetch_text(q, &sql);
	key.never_null = entity == q->tree->root;
	sim_fetch_add_key(q, &key);
}

/*
 * returns true if a link can match several rows: it is not by the primary key, and not "first
 * row"
 */
static bool
multiplies(const struct sim_fetch_entity *link)
{
	if (link->parent == NULL || link->type == SIM_LINK_FIRST)
		return false;
	return link->many != NULL || link->from_column != link->table->id;
}

/* distinct rows have no id: all their columns identify them */
static void
add_distinct_keys(struct sim_fetch_query *q)
{
	static const enum sim_fetch_key_kind kinds[] = {
		[SIM_CLASS_NONE] = SIM_KEY_TEXT,
		[SIM_CLASS_TEXT] = SIM_KEY_TEXT,
		[SIM_CLASS_NAME] = SIM_KEY_TEXT,
		[SIM_CLASS_INTEGER] = SIM_KEY_INTEGER,
		[SIM_CLASS_DECIMAL] = SIM_KEY_LITERAL,
		[SIM_CLASS_REAL] = SIM_KEY_REAL,
		[SIM_CLASS_BOOLEAN] = SIM_KEY_INTEGER,
		[SIM_CLASS_CHOICE] = SIM_KEY_INTEGER,
		[SIM_CLASS_CHOICES] = SIM_KEY_TEXT,
		[SIM_CLASS_GUID] = SIM_KEY_ID,
		[SIM_CLASS_LOOKUP] = SIM_KEY_ID,
		[SIM_CLASS_DATE] = SIM_KEY_LITERAL,
		[SIM_CLASS_BINARY] = SIM_KEY_ID,
	};
	int			i;

	for (i = 0; i < q->out.n; i++)
	{
		const struct sim_out_column *out = &q->out.columns[i];
		struct sim_fetch_key key = {.column = out->column};

		key.name = out->name;
		key.expr = no_position(q, q->exprs[out->stmt_index], out->column);
		key.kind = kinds[sim_fetch_class_of(out->column)];
		/* an image cannot be a key: rows that differ only in it keep SQLite's order */
		if (out->column->type == SIM_IMAGE)
			q->cookie = false;
		else
			sim_fetch_add_key(q, &key);
	}
}

/* returns true if an attribute of the root is in the answer, but not under its own name */
static bool
only_aliased(const struct sim_fetch_query *q, const struct sim_column *column)
{
	const struct sim_fetch_entity *root = q->tree->root;
	const struct sim_fetch_attribute *a;
	bool		aliased = false;

	if (root->all_attributes || (column == q->table->id && !q->tree->distinct))
		return false;
	for (a = root->attributes; a != NULL; a = a->next)
	{
		if (strcmp(a->name, column->name) != 0)
			continue;
		if (a->alias == NULL)
			return false;
		aliased = true;
	}
	return aliased;
}

/*
 * The cookie contains only keys of the root's rows: a page that ends between
 * two rows of a link to many loses the remaining rows of the root's row.  With
 * distinct, it contains only the orders of the query, and without orders there
 * is no cookie.  Its values are looked up in the answer by the names of the
 * columns, so a column with an alias is taken for null.
 */
bool
sim_fetch_order(struct sim_fetch_query *q)
{
	struct sim_fetch_entity *entity;
	const struct sim_fetch_order *order;
	int			n;
	int			i;

	q->cookie = true;
	for (entity = q->tree->root; entity != NULL; entity = sim_fetch_next_join(entity))
	{
		for (order = entity->orders; order != NULL; order = order->next)
		{
			if (!add_order(q, entity, order))
				return false;
		}
	}
	q->ncookie = q->nkeys;
	if (q->tree->distinct)
		add_distinct_keys(q);
	else
	{
		add_id_key(q, q->tree->root);
		if (q->table->partition != NULL)
		{
			struct sim_fetch_key key = {.kind = SIM_KEY_TEXT, .column = q->table->partition};

			key.name = q->table->partition->name;
			key.expr = sim_fmt(q->req->arena, "t0.\"%s\"", key.name);
			sim_fetch_add_key(q, &key);
		}
		q->ncookie = q->nkeys;
		for (entity = q->tree->root; entity != NULL; entity = sim_fetch_next_join(entity))
		{
			if (multiplies(entity))
				add_id_key(q, entity);
		}
	}
	if (q->ncookie == 0 || q->ncookie > MAX_KEYS)
		q->cookie = false;
	for (i = 0; i < q->ncookie; i++)
		q->keys[i].aliased = only_aliased(q, q->keys[i].column);
	/* distinct rows are sorted by columns of the result */
	n = q->tree->distinct ? q->nkeys : q->cookie ? q->ncookie : 0;
	for (i = 0; i < n; i++)
		q->keys[i].index = sim_fetch_select(q, q->keys[i].expr);
	return true;
}

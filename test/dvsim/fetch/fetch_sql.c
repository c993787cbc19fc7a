/*
 * fetch_sql.c
 *		A FetchXML tree as SQL: joins, filters, select list.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "fetch/fetch_sql.h"
#include "wire/quirks.h"
#include "store/readers.h"
#include "store/store.h"

#define DUPLICATE_ALIAS "0x80041130"
#define BAD_AGGREGATE "0x8004111a"

#define MAX_EXPRS 950			/* SQLite takes 2,000 result columns; keys may double them */

static void put_conditions(struct sim_fetch_query *q, struct sim_buf *sql,
						   struct sim_fetch_entity *entity, bool *ok);

/* room for one more in an array of the arena */
static void *
grow(struct sim_fetch_query *q, void *items, int n, int *cap, size_t size)
{
	void	   *bigger;

	if (n < *cap)
		return items;
	*cap = *cap ? *cap * 2 : 16;
	bigger = sim_alloc(q->req->arena, *cap * size);
	if (n > 0)
		memcpy(bigger, items, n * size);
	return bigger;
}

int
sim_fetch_bind(struct sim_fetch_query *q, const struct sim_value *value)
{
	q->binds = grow(q, q->binds, q->nbinds, &q->cbinds, sizeof(*q->binds));
	q->binds[q->nbinds++] = *value;
	return q->nbinds;
}

void
sim_fetch_bind_int(struct sim_fetch_query *q, struct sim_buf *sql, int64_t value)
{
	struct sim_value v = {.kind = SIM_V_INT, .i = value};

	sim_putf(sql, "?%d", sim_fetch_bind(q, &v));
}

int
sim_fetch_select(struct sim_fetch_query *q, const char *expr)
{
	int			i;

	for (i = 0; i < q->nexprs; i++)
	{
		if (strcmp(q->exprs[i], expr) == 0)
			return i;
	}
	q->exprs = grow(q, q->exprs, q->nexprs, &q->cexprs, sizeof(*q->exprs));
	q->exprs[q->nexprs] = expr;
	return q->nexprs++;
}

/* a new member of the answer's rows */
struct sim_out_column *
sim_fetch_output(struct sim_fetch_query *q, const char *name)
{
	struct sim_out_column *out;

	q->out.columns = grow(q, q->out.columns, q->out.n, &q->out_cap, sizeof(*q->out.columns));
	out = &q->out.columns[q->out.n++];
	memset(out, 0, sizeof(*out));
	out->name = name;
	out->type_index = -1;
	out->label_index = -1;
	return out;
}

void
sim_fetch_add_key(struct sim_fetch_query *q, const struct sim_fetch_key *key)
{
	int			i;

	for (i = 0; i < q->nkeys; i++)
	{
		if (strcmp(q->keys[i].expr, key->expr) == 0)
			return;
	}
	q->keys = grow(q, q->keys, q->nkeys, &q->ckeys, sizeof(*q->keys));
	q->keys[q->nkeys] = *key;
	q->keys[q->nkeys++].index = -1;
}

/* joins */

/* the condition that joins a link's rows to those of its parent */
static void
put_join(struct sim_buf *sql, struct sim_fetch_entity *link)
{
	struct sim_many *many = link->many;
	const char *parent = link->parent->sql;

	if (many != NULL)
	{
		struct sim_column *near = link->many_reversed ? many->column2 : many->column1;
		struct sim_column *far = link->many_reversed ? many->column1 : many->column2;

		sim_putf(sql, "%s.\"%s\" IN (SELECT \"%s\" FROM \"%s\" WHERE \"%s\"=%s.\"%s\")",
				 link->sql, link->table->id->name, far->name, many->intersect->name,
				 near->name, parent, link->parent->table->id->name);
		return;
	}
	sim_column_sql(sql, link->sql, link->from_column);
	/* a formula has no collation of its own */
	if (sim_fetch_class_of(link->from_column) == SIM_CLASS_TEXT && !link->from_column->stored)
		sim_puts(sql, " COLLATE DV");
	sim_putc(sql, '=');
	sim_column_sql(sql, parent, link->to_column);
}

/* returns true if a filter leaves few rows of a joined table, which an index finds */
static bool
finds_link(struct sim_fetch_query *q, struct sim_fetch_entity *scope,
		   const struct sim_fetch_filter *filter)
{
	const struct sim_fetch_item *item;

	for (item = filter->items; item != NULL && !filter->any; item = item->next)
	{
		const struct sim_fetch_condition *condition = item->condition;
		struct sim_fetch_entity *entity = scope;
		struct sim_column *column;

		if (item->filter != NULL && finds_link(q, scope, item->filter))
			return true;
		if (condition == NULL || (strcmp(condition->operator, "eq") != 0 &&
								  strcmp(condition->operator, "in") != 0))
			continue;
		while (condition->entityname != NULL && entity != NULL &&
			   (entity->alias == NULL || strcmp(entity->alias, condition->entityname) != 0))
			entity = sim_fetch_next_join(entity);
		if (entity == NULL || entity == q->tree->root)
			continue;
		column = sim_column_by_name(entity->table, condition->attribute,
									strlen(condition->attribute));
		if (column != NULL && sim_is_indexed(column))
			return true;
	}
	return false;
}

/*
 * SQLite does not know about pages: to return the rows in order, it would
 * often read all rows of a link and sort them.  So it has to begin with the
 * root, unless there is a better access path.
 */
static const char *
inner_join(struct sim_fetch_query *q)
{
	struct sim_fetch_entity *entity;

	for (entity = q->tree->root; entity != NULL; entity = sim_fetch_next_join(entity))
	{
		if (finds_link(q, entity, &entity->filter))
			return " JOIN ";
	}
	return " CROSS JOIN ";
}

/* the joins below an entity, outer ones with their filters */
static void
put_joins(struct sim_fetch_query *q, struct sim_buf *sql, struct sim_fetch_entity *entity,
		  bool *ok)
{
	struct sim_fetch_entity *link;

	for (link = entity->links; link != NULL && *ok; link = link->next)
	{
		const char *alias = link->sql;
		const char *id = link->table->id->name;

		if (link->type > SIM_LINK_FIRST)
			continue;
		sim_putf(sql, "%s%s AS %s ON ",
				 link->type == SIM_LINK_OUTER ? " LEFT JOIN " : inner_join(q),
				 sim_readable(q->req, link->table), alias);
		if (link->type == SIM_LINK_FIRST)
		{
			/* the first row that matches, under an alias of its own */
			link->sql = sim_fmt(q->req->arena, "%sf", alias);
			sim_putf(sql, "%s.\"%s\"=(SELECT %s.\"%s\" FROM %s AS %s WHERE ", alias, id,
					 link->sql, id, sim_readable(q->req, link->table), link->sql);
		}
		put_join(sql, link);
		put_conditions(q, sql, link, ok);
		if (link->type == SIM_LINK_FIRST)
		{
			sim_putf(sql, " ORDER BY %s.\"%s\" LIMIT 1)", link->sql, id);
			link->sql = alias;
		}
		put_joins(q, sql, link, ok);
	}
}

/* filters */

static void
put_exists(struct sim_fetch_query *q, struct sim_buf *sql, struct sim_fetch_entity *link,
		   bool filtered, bool *ok)
{
	sim_putf(sql, "EXISTS (SELECT 1 FROM %s AS %s", sim_readable(q->req, link->table), link->sql);
	if (filtered)
		put_joins(q, sql, link, ok);
	sim_puts(sql, " WHERE ");
	put_join(sql, link);
	if (filtered)
		put_conditions(q, sql, link, ok);
	sim_putc(sql, ')');
}

static void
put_semi_join(struct sim_fetch_query *q, struct sim_buf *sql, struct sim_fetch_entity *link,
			  bool *ok)
{
	if (link->type == SIM_LINK_ALL)
	{
		sim_putc(sql, '(');
		put_exists(q, sql, link, false, ok);
		sim_puts(sql, " AND ");
	}
	if (link->type == SIM_LINK_ALL || link->type == SIM_LINK_NOT_ANY)
		sim_puts(sql, "NOT ");
	put_exists(q, sql, link, true, ok);
	if (link->type == SIM_LINK_ALL)
		sim_putc(sql, ')');
}

static void
put_filter(struct sim_fetch_query *q, struct sim_buf *sql, struct sim_fetch_entity *entity,
		   struct sim_fetch_filter *filter, bool *ok)
{
	/* ON clauses can refer only to earlier joins */
	int			until = entity->block == entity ? -1 : entity->position;
	struct sim_fetch_item *item;

	if (filter->items == NULL)
		sim_putc(sql, '1');
	for (item = filter->items; item != NULL && *ok; item = item->next)
	{
		if (item->condition != NULL)
			*ok = sim_fetch_condition(q, sql, entity, item->condition, until);
		else if (item->link != NULL)
			put_semi_join(q, sql, item->link, ok);
		else
		{
			sim_putc(sql, '(');
			put_filter(q, sql, entity, item->filter, ok);
			sim_putc(sql, ')');
		}
		if (item->next != NULL)
			sim_puts(sql, filter->any ? " OR " : " AND ");
	}
}

/* the filters of an entity and the links that only test for rows, each with AND in front */
static void
put_conditions(struct sim_fetch_query *q, struct sim_buf *sql, struct sim_fetch_entity *entity,
			   bool *ok)
{
	struct sim_fetch_entity *link;

	if (entity->filter.items != NULL)
	{
		sim_puts(sql, " AND ");
		put_filter(q, sql, entity, &entity->filter, ok);
	}
	for (link = entity->links; link != NULL && *ok; link = link->next)
	{
		if (link->type > SIM_LINK_FIRST)
		{
			sim_puts(sql, " AND ");
			put_semi_join(q, sql, link, ok);
		}
	}
}

/* ?partitionId= of elastic tables, with or without quotes */
static void
put_partition(struct sim_fetch_query *q)
{
	const char *partition = sim_param(q->req, "partitionId");
	struct sim_value value = {.kind = SIM_V_TEXT};

	if (partition == NULL || q->table->type != SIM_ELASTIC)
		return;
	value.s = partition;
	value.len = strlen(partition);
	if (value.len >= 2 && partition[0] == '\'' && partition[value.len - 1] == '\'')
	{
		value.s++;
		value.len -= 2;
	}
	sim_putf(&q->from, " AND t0.\"%s\"=?%d", q->table->partition->name,
			 sim_fetch_bind(q, &value));
}

static bool
put_from(struct sim_fetch_query *q)
{
	bool		ok = true;

	sim_putf(&q->from, " FROM %s AS t0", sim_readable(q->req, q->table));
	put_joins(q, &q->from, q->tree->root, &ok);
	q->where = q->from.len;
	/* rows of long-term retention and of the recycle bin: there are none */
	sim_puts(&q->from, q->tree->datasource ? " WHERE 0" : " WHERE 1");
	put_partition(q);
	if (ok)
		put_conditions(q, &q->from, q->tree->root, &ok);
	return ok;
}

/* the select list */

static const char *
output_name(struct sim_fetch_query *q, const struct sim_fetch_entity *entity,
			const struct sim_column *column, const char *alias)
{
	if (alias != NULL)
		return alias;
	if (entity == q->tree->root)
		return column->property ? column->property : column->name;
	if (entity->type == SIM_LINK_FIRST)
		return column->schema_name;
	return sim_fmt(q->req->arena, "%s.%s", entity->label, column->name);
}

static bool
has_output(const struct sim_fetch_query *q, const char *name)
{
	int			i;

	for (i = 0; i < q->out.n; i++)
	{
		if (strcmp(q->out.columns[i].name, name) == 0)
			return true;
	}
	return false;
}

static bool
add_output(struct sim_fetch_query *q, struct sim_fetch_entity *entity,
		   struct sim_column *column, const char *alias)
{
	const char *name = output_name(q, entity, column, alias);
	struct sim_fetch_term term;
	struct sim_out_column *out;
	struct sim_buf sql = {0};

	if (!sim_fetch_term(q, entity, column->name, &term))
		return false;
	/* helper columns and party lists have no value of their own: nothing is returned */
	if (!column->stored && column->formula == NULL)
		return true;
	if (has_output(q, name))
		return alias == NULL || sim_fail(q->req, q->res, 400, DUPLICATE_ALIAS,
										 "FetchXML should have unique aliases.");
	if (q->nexprs > MAX_EXPRS)
		return sim_fail(q->req, q->res, 400, "0x80048d42",
						"The query returns too many columns.");
	out = sim_fetch_output(q, name);
	out->column = column;
	out->aliased = alias != NULL || entity != q->tree->root;
	out->link = entity != q->tree->root ? entity->name : NULL;
	out->stmt_index = sim_fetch_select(q, term.expr);
	if (term.class != SIM_CLASS_LOOKUP)
		return true;
	if (column->ntargets > 1 && (q->out.flags & (SIM_OUT_TYPES | SIM_OUT_NAVIGATION)))
		out->type_index = sim_fetch_select(q, sim_fmt(q->req->arena, "%s.\"%s.type\"",
													  entity->sql, column->name));
	if (q->out.flags & SIM_OUT_LABELS)
	{
		sim_lookup_label_sql(&sql, entity->sql, column);
		out->label_index = sim_fetch_select(q, sim_fetch_text(q, &sql));
	}
	return true;
}

static bool
add_all_attributes(struct sim_fetch_query *q, struct sim_fetch_entity *entity)
{
	int			i;

	for (i = 0; i < entity->table->ncolumns; i++)
	{
		struct sim_column *column = &entity->table->columns[i];

		if (column->selectable && column->valid_for_read &&
			!add_output(q, entity, column, NULL))
			return false;
	}
	return true;
}

/* rowaggregate="CountChildren": the number of rows whose parent is this one */
static bool
add_child_count(struct sim_fetch_query *q, struct sim_fetch_entity *entity,
				const struct sim_fetch_attribute *attribute)
{
	const struct sim_column *parent = sim_fetch_hierarchy(entity->table);
	struct sim_column *column;
	struct sim_fetch_term term;
	struct sim_out_column *out;

	if (!sim_fetch_term(q, entity, attribute->name, &term))
		return false;
	if (parent == NULL || term.column != entity->table->id || attribute->alias == NULL)
		return sim_fail(q->req, q->res, 400, BAD_AGGREGATE,
						"rowaggregate needs an alias and the primary key of a table with a "
						"hierarchical relationship.");
	column = sim_alloc(q->req->arena, sizeof(*column));
	*column = *term.column;
	column->type = SIM_INTEGER;
	out = sim_fetch_output(q, attribute->alias);
	out->column = column;
	out->aliased = true;
	out->stmt_index = sim_fetch_select(q, sim_fmt(q->req->arena,
												  "(SELECT COUNT(*) FROM \"%s\" AS x WHERE "
												  "x.\"%s\"=%s)", entity->table->name,
												  parent->name, term.expr));
	return true;
}

static bool
add_attributes(struct sim_fetch_query *q, struct sim_fetch_entity *entity)
{
	const struct sim_fetch_attribute *a;

	if (entity->all_attributes && !add_all_attributes(q, entity))
		return false;
	for (a = entity->attributes; a != NULL; a = a->next)
	{
		struct sim_column *column;

		if (a->aggregate || a->groupby || a->part || a->distinct)
			return sim_fail(q->req, q->res, 400, BAD_AGGREGATE,
							"An error occurred while processing Aggregates in Query");
		if (a->count_children)
		{
			if (!add_child_count(q, entity, a))
				return false;
			continue;
		}
		column = sim_column_by_name(entity->table, a->name, strlen(a->name));
		if (column == NULL)
		{
			struct sim_fetch_term term;

			return sim_fetch_term(q, entity, a->name, &term);
		}
		if (!add_output(q, entity, column, a->alias))
			return false;
	}
	return true;
}

/* adds the row's currency to money columns */
static bool
add_currency(struct sim_fetch_query *q)
{
	struct sim_column *currency;
	int			i;

	currency = sim_column_by_name(q->table, "transactioncurrencyid", 21);
	for (i = 0; i < q->out.n && currency != NULL; i++)
	{
		const struct sim_column *column = q->out.columns[i].column;

		if (column->table == q->table && column->type == SIM_MONEY)
			return add_output(q, q->tree->root, currency, NULL);
	}
	return true;
}

static bool
put_select(struct sim_fetch_query *q)
{
	struct sim_fetch_entity *root = q->tree->root;
	struct sim_fetch_entity *entity;
	bool		asked = root->no_attributes;

	for (entity = root; entity != NULL; entity = sim_fetch_next_join(entity))
		asked = asked || entity->attributes != NULL || entity->all_attributes;
	root->all_attributes = root->all_attributes || !asked;
	q->out.version_index = -1;
	if (!q->tree->distinct && q->table->version != NULL)
		q->out.version_index = sim_fetch_select(q, sim_fmt(q->req->arena, "t0.\"%s\"",
														   q->table->version->name));
	for (entity = root; entity != NULL; entity = sim_fetch_next_join(entity))
	{
		if (!add_attributes(q, entity))
			return false;
	}
	if (q->tree->distinct)
		return true;
	return add_currency(q) && add_output(q, root, q->table->id, NULL);
}

static void
rename_links(struct sim_fetch_query *q)
{
	int			i;

	for (i = 0; i < q->out.n; i++)
	{
		struct sim_out_column *out = &q->out.columns[i];

		if (out->link != NULL)
			out->name = sim_fmt(q->req->arena, "%s_%s", out->link, out->name);
	}
}

bool
sim_fetch_translate(struct sim_fetch_query *q)
{
	bool		ok;

	q->out.version_index = -1;
	if (!sim_fetch_resolve(q) || !put_from(q))
		return false;
	q->nfilter = q->nbinds;
	ok = q->tree->aggregate ? sim_fetch_aggregate(q) : put_select(q) && sim_fetch_order(q);
	if (ok && sim_quirk(q->req->sim, SIM_QUIRK_LINK_NAMES))
		rename_links(q);
	return ok;
}

void
sim_fetch_free(struct sim_fetch_query *q)
{
	sim_buf_free(&q->from);
	sim_buf_free(&q->inner);
	sim_buf_free(&q->tail);
	sim_buf_free(&q->sql);
}

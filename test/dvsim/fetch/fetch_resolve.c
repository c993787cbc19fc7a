/*
 * fetch_resolve.c
 *		Resolves the names of a FetchXML query: tables, columns, links.
 *
 * Every SELECT of the statement to be is a block: the root's, and one for
 * each semi-join.  Links that join belong to the block of their parent.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "fetch/fetch_sql.h"

#define NO_ENTITY "0x80041102"
#define NO_ATTRIBUTE "0x80041103"
#define NO_LINKS "0x80048d0b"

static const enum sim_fetch_class classes[SIM_TYPES] = {
	[SIM_UUID] = SIM_CLASS_GUID,
	[SIM_STRING] = SIM_CLASS_TEXT,
	[SIM_MEMO] = SIM_CLASS_TEXT,
	[SIM_INTEGER] = SIM_CLASS_INTEGER,
	[SIM_BIGINT] = SIM_CLASS_INTEGER,
	[SIM_DECIMAL] = SIM_CLASS_DECIMAL,
	[SIM_MONEY] = SIM_CLASS_DECIMAL,
	[SIM_DOUBLE] = SIM_CLASS_REAL,
	[SIM_BOOLEAN] = SIM_CLASS_BOOLEAN,
	[SIM_PICKLIST] = SIM_CLASS_CHOICE,
	[SIM_STATE] = SIM_CLASS_CHOICE,
	[SIM_STATUS] = SIM_CLASS_CHOICE,
	[SIM_MULTISELECT] = SIM_CLASS_CHOICES,
	[SIM_DATETIME] = SIM_CLASS_DATE,
	[SIM_LOOKUP] = SIM_CLASS_LOOKUP,
	[SIM_CUSTOMER] = SIM_CLASS_LOOKUP,
	[SIM_OWNER] = SIM_CLASS_LOOKUP,
	[SIM_PARTYLIST] = SIM_CLASS_NONE,
	[SIM_ENTITYNAME] = SIM_CLASS_NAME,
	[SIM_IMAGE] = SIM_CLASS_BINARY,
	[SIM_FILE] = SIM_CLASS_BINARY,
	[SIM_MANAGED] = SIM_CLASS_BOOLEAN,
	[SIM_VIRTUAL] = SIM_CLASS_NONE,
};

enum sim_fetch_class
sim_fetch_class_of(const struct sim_column *column)
{
	return classes[column->type];
}

const char *
sim_fetch_text(struct sim_fetch_query *q, struct sim_buf *buf)
{
	const char *text = sim_strndup(q->req->arena, buf->s ? buf->s : "", buf->len);

	sim_buf_free(buf);
	return text;
}

struct sim_column *
sim_fetch_hierarchy(const struct sim_table *table)
{
	int			i;

	for (i = 0; i < table->nmany_to_one; i++)
	{
		const struct sim_relationship *relationship = table->many_to_one[i];

		if (relationship->referenced == table && relationship->column->ntargets == 1)
			return relationship->column;
	}
	return NULL;
}

static bool
no_attribute(struct sim_fetch_query *q, const struct sim_table *table, const char *name)
{
	return sim_fail(q->req, q->res, 400, NO_ATTRIBUTE,
					"'%s' entity doesn't contain attribute with Name = '%s' and NameMapping = "
					"'Logical'.", table->name, name);
}

/* a choice's label as SQL */
static void
put_label(struct sim_buf *sql, const char *alias, struct sim_column *column)
{
	int			i;

	sim_puts(sql, "CASE ");
	sim_column_sql(sql, alias, column);
	for (i = 0; i < column->options->n; i++)
	{
		const char *s;

		sim_putf(sql, " WHEN %d THEN '", column->options->options[i].value);
		for (s = column->options->options[i].label; *s != '\0'; s++)
		{
			if (*s == '\'')
				sim_putc(sql, '\'');
			sim_putc(sql, *s);
		}
		sim_putc(sql, '\'');
	}
	sim_puts(sql, " END");
}

/*
 * A helper column: "xname" of a lookup or a choice is the text of x's value,
 * "xtype" the table to which a polymorphic lookup points.
 */
static void
helper_term(struct sim_fetch_query *q, struct sim_fetch_term *term)
{
	struct sim_column *column = term->column;
	struct sim_column *base = NULL;
	const char *suffix = "";
	struct sim_buf sql = {0};
	bool		lookup;

	term->class = SIM_CLASS_NONE;
	term->expr = "NULL";
	if (column->attribute_of != NULL)
		base = sim_column_by_name(column->table, column->attribute_of,
								  strlen(column->attribute_of));
	if (base == NULL || !base->stored)
		return;
	if (strncmp(column->name, base->name, strlen(base->name)) == 0)
		suffix = column->name + strlen(base->name);
	lookup = sim_fetch_class_of(base) == SIM_CLASS_LOOKUP;
	if (lookup && (strcmp(suffix, "name") == 0 || strcmp(suffix, "yominame") == 0))
		sim_lookup_label_sql(&sql, term->entity->sql, base);
	else if (lookup && base->ntargets > 1 && strcmp(suffix, "type") == 0)
		sim_putf(&sql, "%s.\"%s.type\"", term->entity->sql, base->name);
	else if (base->options != NULL && base->options->n > 0 && strcmp(suffix, "name") == 0 &&
			 sim_fetch_class_of(base) != SIM_CLASS_CHOICES)
		put_label(&sql, term->entity->sql, base);
	else
		return;
	term->class = strcmp(suffix, "type") == 0 ? SIM_CLASS_NAME : SIM_CLASS_TEXT;
	term->expr = sim_fetch_text(q, &sql);
}

/* Nothing is calculated for a row that an outer link has not found. */
static const char *
if_found(struct sim_fetch_query *q, const struct sim_fetch_term *term)
{
	return sim_fmt(q->req->arena, "(iif(%s.\"%s\" IS NULL, NULL, %s)%s)", term->entity->sql,
				   term->entity->table->id->name, term->expr,
				   term->class == SIM_CLASS_TEXT ? " COLLATE DV" : "");
}

bool
sim_fetch_term(struct sim_fetch_query *q, struct sim_fetch_entity *entity,
			   const char *attribute, struct sim_fetch_term *term)
{
	struct sim_column *column;
	struct sim_buf sql = {0};

	column = sim_column_by_name(entity->table, attribute, strlen(attribute));
	if (column == NULL || !column->valid_for_read)
		return no_attribute(q, entity->table, attribute);
	term->entity = entity;
	term->column = column;
	term->derived = !column->stored;
	if (!column->stored && column->formula == NULL)
	{
		helper_term(q, term);
		return true;
	}
	term->class = sim_fetch_class_of(column);
	sim_out_value_sql(&sql, entity->sql, column);
	term->expr = sim_fetch_text(q, &sql);
	if (column->formula != NULL && entity->parent != NULL)
		term->expr = if_found(q, term);
	return true;
}

struct sim_fetch_entity *
sim_fetch_next_join(struct sim_fetch_entity *entity)
{
	struct sim_fetch_entity *block = entity->block;
	struct sim_fetch_entity *next = entity->links;

	for (;;)
	{
		for (; next != NULL; next = next->next)
		{
			if (next->block == block)
				return next;
		}
		if (entity == block)
			return NULL;
		next = entity->next;
		entity = entity->parent;
	}
}

/* a link without an alias has its table's name, as in the service */
struct sim_fetch_entity *
sim_fetch_by_alias(struct sim_fetch_query *q, struct sim_fetch_entity *scope,
				   const char *alias, int until)
{
	struct sim_fetch_entity *entity = scope->block;

	for (; entity != NULL; entity = sim_fetch_next_join(entity))
	{
		const char *name = entity->alias ? entity->alias : entity->name;

		if (until >= 0 && entity->position > until)
			break;
		if (entity != q->tree->root && strcmp(name, alias) == 0)
			return entity;
	}
	sim_fail(q->req, q->res, 400, "0x8004110a",
			 "The specified alias for the given entity in the condition does not exist: '%s'.",
			 alias);
	return NULL;
}

/* returns true if a column may be in from and to, and its kind */
static bool
join_class(struct sim_fetch_query *q, const struct sim_column *column,
		   enum sim_fetch_class *class)
{
	*class = sim_fetch_class_of(column);
	if (*class == SIM_CLASS_LOOKUP)
		*class = SIM_CLASS_GUID;
	if (*class == SIM_CLASS_NONE || *class == SIM_CLASS_BINARY || *class == SIM_CLASS_CHOICES ||
		(!column->stored && column->formula == NULL))
		return sim_fail(q->req, q->res, 400, "0x80041104",
						"The attribute '%s' of type %s can't be used in a link-entity.",
						column->name, sim_type_name(column->type));
	return true;
}

static bool
resolve_columns(struct sim_fetch_query *q, struct sim_fetch_entity *link)
{
	struct sim_table *parent = link->parent->table;
	enum sim_fetch_class from;
	enum sim_fetch_class to;

	link->from_column = sim_column_by_name(link->table, link->from, strlen(link->from));
	if (link->from_column == NULL || !link->from_column->valid_for_read)
		return no_attribute(q, link->table, link->from);
	link->to_column = sim_column_by_name(parent, link->to, strlen(link->to));
	if (link->to_column == NULL || !link->to_column->valid_for_read)
		return no_attribute(q, parent, link->to);
	if (!join_class(q, link->from_column, &from) || !join_class(q, link->to_column, &to))
		return false;
	if (from != to)
		return sim_fail(q->req, q->res, 400, "0x80041104",
						"Data Types don't match for the link-entity join attributes '%s', '%s'.",
						link->from, link->to);
	return true;
}

/*
 * Finds the N:N relationship of a link without from and to.  The link or its
 * parent is the intersect table itself, or both are its ends.
 */
static bool
resolve_many(struct sim_fetch_query *q, struct sim_fetch_entity *link)
{
	struct sim_schema *schema = q->req->sim->schema;
	struct sim_table *parent = link->parent->table;
	struct sim_table *table = link->table;
	int			found = 0;
	int			i;

	for (i = 0; i < schema->nmany; i++)
	{
		struct sim_many *many = &schema->many[i];

		if (many->intersect == table && (many->table1 == parent || many->table2 == parent))
		{
			link->from_column = many->table1 == parent ? many->column1 : many->column2;
			link->to_column = parent->id;
			return true;
		}
		if (many->intersect == parent && (many->table1 == table || many->table2 == table))
		{
			/* for a table related to itself, the end other than the one by which we came */
			link->to_column = many->table2 == table ? many->column2 : many->column1;
			link->from_column = table->id;
			return true;
		}
		if ((many->table1 == parent && many->table2 == table) ||
			(many->table2 == parent && many->table1 == table))
		{
			link->many = many;
			link->many_reversed = many->table1 != parent;
			found++;
		}
	}
	if (found == 1)
		return true;
	if (found > 1)
		return sim_fail(q->req, q->res, 400, "0x8004110e",
						"More than one intersect entity exists between the two entities "
						"specified.");
	return sim_fail(q->req, q->res, 400, NO_ENTITY,
					"No relationship between '%s' and '%s' was found: the link-entity needs from "
					"and to attributes.", parent->name, table->name);
}

static bool
resolve_table(struct sim_fetch_query *q, struct sim_fetch_entity *entity)
{
	struct sim_arena *arena = q->req->arena;

	entity->table = sim_table_by_name(q->req->sim->schema, entity->name);
	if (entity->table == NULL)
		return sim_fail(q->req, q->res, 400, NO_ENTITY,
						"The entity with a name = '%s' with namemapping = 'Logical' was not found "
						"in the MetadataCache.", entity->name);
	if (q->tree->links > 0 && entity->table->type == SIM_ELASTIC)
		return sim_fail(q->req, q->res, 400, NO_LINKS, "Link entities are not supported");
	entity->sql = sim_fmt(arena, "t%d", entity->number);
	entity->label = entity->alias;
	if (entity->label == NULL && entity->parent != NULL)
		entity->label = sim_fmt(arena, "%s%d", entity->name, entity->number);
	return true;
}

/* a link in a filter, or one that only tests for rows, cannot have columns */
static bool
check_semi_join(struct sim_fetch_query *q, struct sim_fetch_entity *link)
{
	if (link->attributes == NULL && !link->all_attributes && link->orders == NULL)
		return true;
	return sim_fail(q->req, q->res, 400, "0x80041121",
					"A link-entity of this link-type can't return or order by attributes.");
}

static bool resolve_children(struct sim_fetch_query *q, struct sim_fetch_entity *entity,
							 int *position);

static bool
resolve_link(struct sim_fetch_query *q, struct sim_fetch_entity *link, int *position)
{
	int			own = 0;

	if (!resolve_table(q, link))
		return false;
	if ((link->from == NULL) != (link->to == NULL))
		return sim_fail(q->req, q->res, 400, "0x80041111",
						"AttributeFrom and AttributeTo must be either both specified or both "
						"omitted.");
	if (!(link->from != NULL ? resolve_columns(q, link) : resolve_many(q, link)))
		return false;
	if (link->in_filter || link->type > SIM_LINK_FIRST)
	{
		link->block = link;
		return check_semi_join(q, link) && resolve_children(q, link, &own);
	}
	link->block = link->parent->block;
	link->position = ++*position;
	return resolve_children(q, link, position);
}

static bool
resolve_filter(struct sim_fetch_query *q, struct sim_fetch_filter *filter, int *position)
{
	struct sim_fetch_item *item;

	for (item = filter->items; item != NULL; item = item->next)
	{
		if (item->link != NULL && !resolve_link(q, item->link, position))
			return false;
		if (item->filter != NULL && !resolve_filter(q, item->filter, position))
			return false;
	}
	return true;
}

static bool
resolve_children(struct sim_fetch_query *q, struct sim_fetch_entity *entity, int *position)
{
	struct sim_fetch_entity *link;

	if (!resolve_filter(q, &entity->filter, position))
		return false;
	for (link = entity->links; link != NULL; link = link->next)
	{
		if (!resolve_link(q, link, position))
			return false;
	}
	return true;
}

static bool
check_aliases(struct sim_fetch_query *q)
{
	struct sim_fetch_entity *a;
	struct sim_fetch_entity *b;

	for (a = q->tree->root; a != NULL; a = sim_fetch_next_join(a))
	{
		for (b = q->tree->root; b != a; b = sim_fetch_next_join(b))
		{
			if (a->label != NULL && b->label != NULL && strcmp(a->label, b->label) == 0)
				return sim_fail(q->req, q->res, 400, "0x80041130",
								"FetchXML should have unique aliases.");
		}
	}
	return true;
}

bool
sim_fetch_resolve(struct sim_fetch_query *q)
{
	struct sim_fetch_entity *root = q->tree->root;
	int			position = 0;

	root->block = root;
	if (!resolve_table(q, root))
		return false;
	if (root->table != q->table)
		return sim_fail(q->req, q->res, 400, "0x80041128",
						"The entity name specified in fetchxml does not match the entity name "
						"specified in the Entity or Query Expression.");
	return resolve_children(q, root, &position) && check_aliases(q);
}

/*
 * row_print.c
 *		Rows as JSON: the columns of a result with their annotations.
 *
 * Both query languages print with these functions.  The loop over the columns
 * is the hottest code of a read: it allocates nothing and copies texts
 * prepared by sim_out_prepare().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "store/row_print.h"
#include "store/value.h"

#define ETAG_START "\"@odata.etag\":\"W/\\\""
#define ETAG_END "\\\"\""

#define LABEL_ANNOTATION "OData.Community.Display.V1.FormattedValue"
#define ATTRIBUTE_ANNOTATION "OData.Community.Display.V1.AttributeName"
#define TYPE_ANNOTATION "Microsoft.Dynamics.CRM.lookuplogicalname"
#define NAVIGATION_ANNOTATION "Microsoft.Dynamics.CRM.associatednavigationproperty"

unsigned int
sim_out_flags(const struct sim_req *req)
{
	unsigned int flags = 0;

	if (sim_wants_annotation(req, LABEL_ANNOTATION))
		flags |= SIM_OUT_LABELS;
	if (sim_wants_annotation(req, TYPE_ANNOTATION))
		flags |= SIM_OUT_TYPES;
	if (sim_wants_annotation(req, NAVIGATION_ANNOTATION))
		flags |= SIM_OUT_NAVIGATION;
	if (sim_wants_annotation(req, ATTRIBUTE_ANNOTATION))
		flags |= SIM_OUT_ATTRIBUTES;
	return flags;
}

static bool
is_lookup(const struct sim_column *column)
{
	return column->type == SIM_LOOKUP || column->type == SIM_CUSTOMER ||
		column->type == SIM_OWNER;
}

void
sim_out_value_sql(struct sim_buf *sql, const char *alias, struct sim_column *column)
{
	if (column != column->table->partition)
	{
		sim_column_sql(sql, alias, column);
		return;
	}
	sim_puts(sql, "NULLIF(");
	sim_column_sql(sql, alias, column);
	sim_puts(sql, ",'')");
}

/* the name of one target's row as a scalar subquery */
static void
target_name_sql(struct sim_buf *sql, const char *alias, struct sim_column *column,
				struct sim_table *target)
{
	if (target == NULL || target->primary_name == NULL || target->id == NULL)
	{
		sim_puts(sql, "NULL");
		return;
	}
	sim_puts(sql, "(SELECT ");
	sim_column_sql(sql, "n", target->primary_name);
	sim_putf(sql, " FROM \"%s\" AS n WHERE n.\"%s\"=", target->name, target->id->name);
	sim_column_sql(sql, alias, column);
	if (target->type == SIM_ELASTIC)
		sim_putf(sql, " AND n.\"partitionid\"=coalesce(%s.\"%spid\",'')", alias, column->name);
	sim_putc(sql, ')');
}

void
sim_lookup_label_sql(struct sim_buf *sql, const char *alias, struct sim_column *column)
{
	int			i;

	if (column->ntargets == 1)
	{
		target_name_sql(sql, alias, column, column->targets[0].table);
		return;
	}
	if (column->ntargets == 0)
	{
		sim_puts(sql, "NULL");
		return;
	}
	sim_putf(sql, "CASE %s.\"%s.type\"", alias, column->name);
	for (i = 0; i < column->ntargets; i++)
	{
		sim_putf(sql, " WHEN '%s' THEN ", column->targets[i].table->name);
		target_name_sql(sql, alias, column, column->targets[i].table);
	}
	sim_puts(sql, " END");
}

void
sim_out_sql(struct sim_buf *sql, const char *alias, struct sim_out_column *out,
			unsigned int flags, int *next)
{
	struct sim_column *column = out->column;

	if (*next > 0)
		sim_putc(sql, ',');
	sim_out_value_sql(sql, alias, column);
	out->stmt_index = (*next)++;
	out->type_index = -1;
	out->label_index = -1;
	if (!is_lookup(column))
		return;
	if (column->ntargets > 1 && (flags & (SIM_OUT_TYPES | SIM_OUT_NAVIGATION)))
	{
		sim_putf(sql, ",%s.\"%s.type\"", alias, column->name);
		out->type_index = (*next)++;
	}
	if (flags & SIM_OUT_LABELS)
	{
		sim_putc(sql, ',');
		sim_lookup_label_sql(sql, alias, column);
		out->label_index = (*next)++;
	}
}

/* ,"name": or ,"name@annotation": */
static const char *
member_text(struct sim_arena *arena, const char *name, const char *annotation)
{
	struct sim_buf key = {0};
	struct sim_buf buf = {0};
	char	   *text;

	sim_puts(&key, name);
	if (annotation != NULL)
		sim_putf(&key, "@%s", annotation);
	sim_putc(&buf, ',');
	sim_put_json(&buf, key.s ? key.s : "", key.len);
	sim_putc(&buf, ':');
	text = sim_strndup(arena, buf.s, buf.len);

	sim_buf_free(&key);
	sim_buf_free(&buf);
	return text;
}

void
sim_out_prepare(struct sim_arena *arena, struct sim_out *out)
{
	int			i;

	for (i = 0; i < out->n; i++)
	{
		struct sim_out_column *c = &out->columns[i];
		bool		lookup = is_lookup(c->column);

		if (c->name == NULL)
			c->name = c->column->property;
		c->member = member_text(arena, c->name, NULL);
		c->member_len = strlen(c->member);
		c->attribute_member = NULL;
		c->label_member = NULL;
		c->type_member = NULL;
		c->navigation_member = NULL;
		if (c->aliased && (out->flags & SIM_OUT_ATTRIBUTES))
			c->attribute_member = member_text(arena, c->name, ATTRIBUTE_ANNOTATION);
		if (out->flags & SIM_OUT_LABELS)
			c->label_member = member_text(arena, c->name, LABEL_ANNOTATION);
		if (lookup && (out->flags & SIM_OUT_TYPES))
			c->type_member = member_text(arena, c->name, TYPE_ANNOTATION);
		if (lookup && (out->flags & SIM_OUT_NAVIGATION))
			c->navigation_member = member_text(arena, c->name, NAVIGATION_ANNOTATION);
	}
}

/* a member's text, without its comma when it is the first one */
static inline void
put_member(struct sim_buf *buf, const char *member, size_t len, bool *any)
{
	sim_put(buf, member + !*any, len - !*any);
	*any = true;
}

/* returns the target to which a lookup's value points */
static const struct sim_target *
target_of(const struct sim_out_column *c, sqlite3_stmt *stmt)
{
	const char *type;
	int			i;

	if (c->column->ntargets == 1)
		return &c->column->targets[0];
	if (c->type_index < 0)
		return NULL;
	type = (const char *) sqlite3_column_text(stmt, c->type_index);
	for (i = 0; type != NULL && i < c->column->ntargets; i++)
	{
		if (strcmp(c->column->targets[i].table->name, type) == 0)
			return &c->column->targets[i];
	}
	return NULL;
}

static void
print_text_member(struct sim_buf *buf, const char *member, const char *text, bool *any)
{
	put_member(buf, member, strlen(member), any);
	sim_put_json(buf, text, strlen(text));
}

static void
print_label(struct sim_buf *buf, const struct sim_out_column *c, sqlite3_stmt *stmt, bool *any)
{
	struct sim_buf label = {0};

	if (is_lookup(c->column))
	{
		const char *name = NULL;

		if (c->label_index >= 0)
			name = (const char *) sqlite3_column_text(stmt, c->label_index);
		if (name != NULL)
			print_text_member(buf, c->label_member, name, any);
		return;
	}
	if (sim_value_label(&label, c->column, stmt, c->stmt_index))
	{
		put_member(buf, c->label_member, strlen(c->label_member), any);
		sim_put_json(buf, label.s ? label.s : "", label.len);
	}
	sim_buf_free(&label);
}

static void
print_annotations(struct sim_buf *buf, const struct sim_out_column *c, sqlite3_stmt *stmt,
				  bool *any)
{
	if (c->attribute_member != NULL)
		print_text_member(buf, c->attribute_member, c->column->name, any);
	if (c->label_member != NULL)
		print_label(buf, c, stmt, any);
	if (c->type_member != NULL || c->navigation_member != NULL)
	{
		const struct sim_target *target = target_of(c, stmt);

		if (target != NULL && c->navigation_member != NULL && target->navigation != NULL)
			print_text_member(buf, c->navigation_member, target->navigation, any);
		if (target != NULL && c->type_member != NULL)
			print_text_member(buf, c->type_member, target->table->name, any);
	}
}

bool
sim_print_members(struct sim_buf *buf, const struct sim_out *out, sqlite3_stmt *stmt)
{
	bool		annotated = (out->flags & (SIM_OUT_LABELS | SIM_OUT_TYPES | SIM_OUT_NAVIGATION |
										   SIM_OUT_ATTRIBUTES)) != 0;
	bool		any = false;
	int			i;

	if (out->version_index >= 0)
	{
		sim_put(buf, ETAG_START, sizeof(ETAG_START) - 1);
		sim_put_i64(buf, sqlite3_column_int64(stmt, out->version_index));
		sim_put(buf, ETAG_END, sizeof(ETAG_END) - 1);
		any = true;
	}
	for (i = 0; i < out->n; i++)
	{
		const struct sim_out_column *c = &out->columns[i];

		if (sqlite3_column_type(stmt, c->stmt_index) == SQLITE_NULL)
		{
			if (out->flags & SIM_OUT_OMIT_NULLS)
				continue;
			put_member(buf, c->member, c->member_len, &any);
			sim_put(buf, "null", 4);
			continue;
		}
		if (annotated)
			print_annotations(buf, c, stmt, &any);
		put_member(buf, c->member, c->member_len, &any);
		sim_value_print(buf, c->column, stmt, c->stmt_index);
	}
	return any;
}

void
sim_print_row(struct sim_buf *buf, const struct sim_out *out, sqlite3_stmt *stmt)
{
	sim_putc(buf, '{');
	sim_print_members(buf, out, stmt);
	sim_putc(buf, '}');
}

/*
 * store_drift.c
 *		Converts the rows when the definition of their table changes.
 *
 * Columns that are merely new are added.  Any other change makes a new table
 * that is filled from the old one: deleted columns are left behind, and values
 * of columns whose type has changed are converted through text.  A value that
 * the new type cannot have becomes null.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/store_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/decimal.h"
#include "store/guid.h"
#include "store/value.h"

/* ----------
 * Values
 * ----------
 */

static bool
is_reference(enum sim_type type)
{
	return type == SIM_LOOKUP || type == SIM_CUSTOMER || type == SIM_OWNER;
}

static bool
is_text(enum sim_type type)
{
	return type == SIM_STRING || type == SIM_MEMO || type == SIM_ENTITYNAME;
}

/* "12.5000000000" as "12.5" */
static void
put_decimal(struct sim_buf *buf, const void *packed)
{
	char		text[48];
	int			len = sim_dec_print(sim_dec_unpack(packed), SIM_DEC_SCALE, text);

	while (len > 0 && text[len - 1] == '0')
		len--;
	if (len > 0 && text[len - 1] == '.')
		len--;
	sim_put(buf, text, (size_t) len);
}

/* false if values of this type have no text */
static bool
put_text(struct sim_buf *buf, sqlite3_value *value, enum sim_type type)
{
	const char *s;
	char		guid[36];

	switch (type)
	{
		case SIM_DECIMAL:
		case SIM_MONEY:
			if (sqlite3_value_bytes(value) != 16)
				return false;
			put_decimal(buf, sqlite3_value_blob(value));
			return true;
		case SIM_UUID:
		case SIM_LOOKUP:
		case SIM_CUSTOMER:
		case SIM_OWNER:
			if (sqlite3_value_bytes(value) != 16)
				return false;
			sim_guid_print(sqlite3_value_blob(value), guid);
			sim_put(buf, guid, 36);
			return true;
		case SIM_DOUBLE:
			sim_putf(buf, "%.15g", sqlite3_value_double(value));
			return true;
		case SIM_DATETIME:
			sim_time_print(buf, sqlite3_value_int64(value), false);
			return true;
		case SIM_MULTISELECT:
			s = (const char *) sqlite3_value_text(value);
			if (s == NULL || strlen(s) < 3)
				return false;
			sim_put(buf, s + 1, strlen(s) - 2);
			return true;
		case SIM_IMAGE:
		case SIM_FILE:
			return false;
		default:
			s = (const char *) sqlite3_value_text(value);
			if (s == NULL)
				return false;
			sim_puts(buf, s);
			return true;
	}
}

static void
result_whole(sqlite3_context *context, const char *s, size_t len, enum sim_type type)
{
	const sim_dec one = (sim_dec) 10000000000LL;
	int64_t		least = type == SIM_BIGINT ? INT64_MIN : type == SIM_BOOLEAN ? 0 : INT32_MIN;
	int64_t		most = type == SIM_BIGINT ? INT64_MAX : type == SIM_BOOLEAN ? 1 : INT32_MAX;
	sim_dec		v;

	if (!sim_dec_parse(s, len, 0, &v))
		return;
	v /= one;
	if (v >= least && v <= most)
		sqlite3_result_int64(context, (int64_t) v);
}

static void
result_of_text(sqlite3_context *context, const char *s, size_t len, enum sim_type type)
{
	unsigned char packed[16];
	struct sim_buf list = {0};
	int64_t		seconds;
	double		real;
	sim_dec		v;
	char	   *end;

	switch (type)
	{
		case SIM_STRING:
		case SIM_MEMO:
		case SIM_ENTITYNAME:
			sqlite3_result_text64(context, s, len, SQLITE_TRANSIENT, SQLITE_UTF8);
			return;
		case SIM_DECIMAL:
		case SIM_MONEY:
			if (!sim_dec_parse(s, len, SIM_DEC_SCALE, &v))
				return;
			sim_dec_pack(v, packed);
			sqlite3_result_blob(context, packed, 16, SQLITE_TRANSIENT);
			return;
		case SIM_DOUBLE:
			real = strtod(s, &end);
			if (end != s && *end == '\0')
				sqlite3_result_double(context, real);
			return;
		case SIM_DATETIME:
			if (sim_time_parse(s, len, &seconds))
				sqlite3_result_int64(context, seconds);
			return;
		case SIM_UUID:
			if (!sim_guid_parse(s, len, packed))
				return;
			sqlite3_result_blob(context, packed, 16, SQLITE_TRANSIENT);
			return;
		case SIM_MULTISELECT:
			if (strspn(s, "-0123456789,") != len)
				return;
			sim_putf(&list, ",%s,", s);
			sqlite3_result_text64(context, list.s, list.len, SQLITE_TRANSIENT, SQLITE_UTF8);
			sim_buf_free(&list);
			return;
		case SIM_INTEGER:
		case SIM_BIGINT:
		case SIM_BOOLEAN:
		case SIM_PICKLIST:
			result_whole(context, s, len, type);
			return;
		default:
			return;
	}
}

void
store_func_convert(sqlite3_context *context, int nargs, sqlite3_value **args)
{
	enum sim_type from = (enum sim_type) sqlite3_value_int(args[1]);
	enum sim_type to = (enum sim_type) sqlite3_value_int(args[2]);
	struct sim_buf text = {0};

	(void) nargs;
	if (sqlite3_value_type(args[0]) == SQLITE_NULL)
		return;
	if (put_text(&text, args[0], from) && text.len > 0)
		result_of_text(context, text.s, text.len, to);
	sim_buf_free(&text);
}

/* ----------
 * Columns
 * ----------
 */

/* The source of a column's values; NULL if the column is new. */
static struct sim_column *
source_of(const struct sim_table *old, const struct sim_column *column, const char *from,
		  const char *to)
{
	char		name[256];
	size_t		len = to != NULL ? strlen(to) : 0;

	if (to != NULL && strncmp(column->name, to, len) == 0 &&
		(column->name[len] == '\0' ||
		 (column->attribute_of != NULL && strcmp(column->attribute_of, to) == 0)))
		snprintf(name, sizeof(name), "%s%s", from, column->name + len);
	else
		snprintf(name, sizeof(name), "%s", column->name);
	return sim_column_by_name((struct sim_table *) old, name, strlen(name));
}

static bool
keeps_values(const struct sim_column *a, const struct sim_column *b)
{
	return (a->type == b->type || (is_text(a->type) && is_text(b->type)) ||
			(is_reference(a->type) && is_reference(b->type))) &&
		(a->ntargets > 1) == (b->ntargets > 1);
}

static bool
has_new_columns_only(const struct sim_table *old, const struct sim_table *table,
					 const char *renamed)
{
	int			i;

	if (renamed != NULL)
		return false;
	for (i = 0; i < old->ncolumns; i++)
	{
		const struct sim_column *before = &old->columns[i];
		const struct sim_column *now;

		if (!before->stored)
			continue;
		now = sim_column_by_name((struct sim_table *) table, before->name, strlen(before->name));
		if (now == NULL || !now->stored || !keeps_values(before, now))
			return false;
	}
	return true;
}

/* "'account','contact'" */
static void
put_targets(struct sim_buf *sql, const struct sim_column *column)
{
	int			i;

	for (i = 0; i < column->ntargets; i++)
		sim_putf(sql, "%s'%s'", i > 0 ? "," : "", column->targets[i].table->name);
}

static void
put_reference(struct sim_buf *sql, const struct sim_column *from, const struct sim_column *to)
{
	bool		named = false;
	int			i;

	for (i = 0; i < to->ntargets; i++)
		named = named || strcmp(to->targets[i].table->name, from->targets[0].table->name) == 0;
	if (from->ntargets > 1)
	{
		sim_putf(sql, "iif(\"%s.type\" IN (", from->name);
		put_targets(sql, to);
		sim_putf(sql, "),\"%s\",NULL)", from->name);
		if (to->ntargets > 1)
		{
			sim_putf(sql, ",iif(\"%s.type\" IN (", from->name);
			put_targets(sql, to);
			sim_putf(sql, "),\"%s.type\",NULL)", from->name);
		}
		return;
	}
	if (!named)
		sim_puts(sql, to->ntargets > 1 ? "NULL,NULL" : "NULL");
	else
	{
		sim_putf(sql, "\"%s\"", from->name);
		if (to->ntargets > 1)
			sim_putf(sql, ",iif(\"%s\" IS NULL,NULL,'%s')", from->name,
					 from->targets[0].table->name);
	}
}

/* the value of a column, and the type of its target if it has several */
static void
put_source(struct sim_buf *sql, const struct sim_column *from, const struct sim_column *to)
{
	if (from == NULL || !from->stored)
		sim_puts(sql, to->ntargets > 1 ? "NULL,NULL" : "NULL");
	else if (from->ntargets > 0 && to->ntargets > 0)
		put_reference(sql, from, to);
	else if (to->ntargets > 0)
		sim_puts(sql, to->ntargets > 1 ? "NULL,NULL" : "NULL");
	else if (keeps_values(from, to))
		sim_putf(sql, "\"%s\"", from->name);
	else
		sim_putf(sql, "dv_convert(\"%s\",%d,%d)", from->name, from->type, to->type);
}

/* ----------
 * Tables
 * ----------
 */

/* Contents of files are kept elsewhere, by the id that is the value. */
static bool
drop_contents(struct sim_store *store, const struct sim_table *old,
			  const struct sim_table *table, const char *from)
{
	struct sim_buf sql = {0};
	bool		ok = true;
	int			i;

	for (i = 0; ok && i < old->ncolumns; i++)
	{
		const struct sim_column *column = &old->columns[i];
		const struct sim_column *now = table == NULL ? NULL :
		sim_column_by_name((struct sim_table *) table, column->name, strlen(column->name));

		if (column->type != SIM_FILE || (now != NULL && now->type == SIM_FILE) ||
			(from != NULL && strcmp(from, column->name) == 0))
			continue;
		sql.len = 0;
		sim_putf(&sql, "DELETE FROM \"~file\" WHERE id IN (SELECT \"%s\" FROM \"%s\")",
				 column->name, old->name);
		ok = sim_exec(store, sql.s);
	}
	sim_buf_free(&sql);
	return ok;
}

static bool
copy_rows(struct sim_store *store, const struct sim_table *old, const struct sim_table *table,
		  const char *from, const char *to)
{
	struct sim_buf sql = {0};
	bool		ok;
	int			n = 0;
	int			i;

	if (!store_create_table(store, table, "~new"))
		return false;
	sim_puts(&sql, "INSERT INTO \"~new\" SELECT ");
	for (i = 0; i < table->ncolumns; i++)
	{
		const struct sim_column *column = &table->columns[i];

		if (!column->stored)
			continue;
		sim_puts(&sql, n++ > 0 ? "," : "");
		put_source(&sql, source_of(old, column, from, to), column);
	}
	sim_putf(&sql, " FROM \"%s\"; DROP TABLE \"%s\"; ALTER TABLE \"~new\" RENAME TO \"%s\"",
			 old->name, old->name, table->name);
	ok = sim_exec(store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

static bool
has_all_targets(const struct sim_column *column, const struct sim_column *before)
{
	for (int i = 0; before != NULL && i < before->ntargets; i++)
	{
		bool		found = false;

		for (int j = 0; j < column->ntargets; j++)
			found = found || strcmp(column->targets[j].table->name,
									before->targets[i].table->name) == 0;
		if (!found)
			return false;
	}
	return true;
}

/* Rows may point to tables that are no longer targets of the lookup. */
static bool
clear_lost_targets(struct sim_store *store, const struct sim_table *old,
				   const struct sim_table *table)
{
	struct sim_buf sql = {0};
	bool		ok = true;
	int			i;

	for (i = 0; ok && i < table->ncolumns; i++)
	{
		const struct sim_column *column = &table->columns[i];

		if (!column->stored || column->ntargets < 2 ||
			has_all_targets(column, sim_column_by_name((struct sim_table *) old, column->name,
													   strlen(column->name))))
			continue;
		sql.len = 0;
		sim_putf(&sql, "UPDATE \"%s\" SET \"%s\"=NULL,\"%s.type\"=NULL WHERE \"%s.type\" NOT IN (",
				 table->name, column->name, column->name, column->name);
		put_targets(&sql, column);
		sim_puts(&sql, ")");
		ok = sim_exec(store, sql.s);
	}
	sim_buf_free(&sql);
	return ok;
}

/* A table that is not tracked has no tombstones, and its rows are not found by their version. */
static bool
forget_tracking(struct sim_store *store, const struct sim_table *table)
{
	struct sim_buf sql = {0};
	bool		ok;

	sim_putf(&sql, "DELETE FROM \"~deleted\" WHERE table_name='%s';"
			 "DROP INDEX IF EXISTS \"%s~version\"", table->name, table->name);
	ok = sim_exec(store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

bool
store_change_table(struct sim_store *store, struct sim_schema *schema,
				   const struct sim_table *old, struct sim_table *table,
				   const char *renamed_from, const char *renamed_to)
{
	if (!drop_contents(store, old, table, renamed_from))
		return false;
	if (!has_new_columns_only(old, table, renamed_to) &&
		!copy_rows(store, old, table, renamed_from, renamed_to))
		return false;
	if (old->change_tracking && !table->change_tracking && !forget_tracking(store, table))
		return false;
	return store_table(store, schema, table, "(memory)") && clear_lost_targets(store, old, table);
}

bool
store_drop_table(struct sim_store *store, const struct sim_table *table)
{
	struct sim_buf sql = {0};
	bool		ok;

	sim_putf(&sql, "DROP TABLE \"%s\"; DELETE FROM \"~deleted\" WHERE table_name='%s'",
			 table->name, table->name);
	ok = drop_contents(store, table, NULL, NULL) && sim_exec(store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

bool
store_touch_rows(struct sim_store *store, const struct sim_table *table)
{
	sqlite3_stmt *stmt;
	char		sql[768];
	int64_t		least = 0;
	int64_t		most = 0;

	if (table->version == NULL)
		return true;
	snprintf(sql, sizeof(sql), "SELECT min(versionnumber),max(versionnumber) FROM \"%s\"",
			 table->name);
	stmt = sim_stmt_get(store, sql);
	if (stmt == NULL)
		return false;
	if (sqlite3_step(stmt) == SQLITE_ROW)
	{
		least = sqlite3_column_int64(stmt, 0);
		most = sqlite3_column_int64(stmt, 1);
	}
	sim_stmt_put(store, stmt);
	snprintf(sql, sizeof(sql), "UPDATE \"%s\" SET versionnumber=versionnumber+%lld", table->name,
			 (long long) (store->version + 1 - least));
	store->version += most - least + 1;
	return sim_exec(store, sql);
}

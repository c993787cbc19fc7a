/*
 * row_error.c
 *		Translates violated constraints of SQLite to the service's errors.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>

#include "store/decimal.h"
#include "store/guid.h"
#include "write/row_plan.h"

/* a value as text for the duplicate's description */
static void
put_value(struct sim_buf *buf, const struct sim_column *column, const struct sim_value *value)
{
	char		text[64] = "";

	if (value->kind == SIM_V_TEXT)
		sim_put_xml(buf, value->s, value->len);
	else if (value->kind == SIM_V_INT && column->type == SIM_DATETIME)
		sim_time_print(buf, value->i, column->behaviour == SIM_DATE_ONLY);
	else if (value->kind == SIM_V_INT)
		sim_put_i64(buf, value->i);
	else if (value->kind == SIM_V_REAL)
		sim_putf(buf, "%.10g", value->r);
	else if (value->kind == SIM_V_BLOB && value->s == NULL)
	{
		if (column->type == SIM_DECIMAL || column->type == SIM_MONEY)
			sim_dec_print(sim_dec_unpack(value->fixed), column->precision, text);
		else
			sim_guid_print(value->fixed, text);
		sim_puts(buf, text);
	}
}

static void
put_element(struct sim_buf *buf, const struct sim_plan *plan, const struct sim_column *column)
{
	int			slot = sim_slot_find(plan, column, "");

	sim_putf(buf, "<%s>", column->name);
	if (slot >= 0)
		put_value(buf, column, &plan->slots[slot].value);
	sim_putf(buf, "</%s>", column->name);
}

static const char *
take_text(struct sim_req *req, struct sim_buf *buf)
{
	const char *s = sim_strndup(req->arena, buf->s != NULL ? buf->s : "", buf->len);

	sim_buf_free(buf);
	return s;
}

/* the row that was to be written, as the fault describes it */
static const char *
describe_row(struct sim_writer *w, struct sim_write_row *row)
{
	const struct sim_plan *plan = w->current;
	struct sim_buf xml = {0};
	char		id[37] = "";
	int			i;

	sim_guid_print(row->id, id);
	sim_putf(&xml, "<Entity LogicalName=\"%s\" Id=\"%s\">", w->table->name, id);
	for (i = 0; i < plan->nmembers; i++)
		if (plan->members[i].kind == SIM_MEMBER_VALUE)
			put_element(&xml, plan, plan->members[i].column);
	sim_puts(&xml, "</Entity>");
	return take_text(w->req, &xml);
}

static bool
key_violated(struct sim_writer *w, struct sim_write_row *row, const struct sim_key_def *def)
{
	struct sim_req *req = w->req;
	struct sim_pairs details = {0};
	struct sim_buf labels = {0};
	struct sim_buf xml = {0};
	const char *columns;
	int			i;

	sim_puts(&xml, "<DuplicateAttributes>");
	for (i = 0; i < def->n; i++)
	{
		sim_putf(&labels, "%s%s", i > 0 ? ", " : "",
				 def->columns[i]->label != NULL ? def->columns[i]->label : def->columns[i]->name);
		put_element(&xml, w->current, def->columns[i]);
	}
	sim_puts(&xml, "</DuplicateAttributes>");
	columns = take_text(req, &labels);
	sim_fail(req, w->res, 412, "0x80060892", "Entity Key %s violated. A record with the same value "
			 "for %s already exists. A duplicate record cannot be created. Select one or more "
			 "unique values and try again.", def->schema_name, columns);
	sim_pair_add(req->arena, &details, "0", def->schema_name);
	sim_pair_add(req->arena, &details, "1", columns);
	sim_pair_add(req->arena, &details, "DuplicateEntity", describe_row(w, row));
	sim_pair_add(req->arena, &details, "DuplicateAttributes", take_text(req, &xml));
	sim_error_body(req, w->res, &details);
	return false;
}

/* finds the constraint: SQLite reports "UNIQUE constraint failed: table.col, table.col" */
static const struct sim_key_def *
violated_key(const struct sim_table *table, const char *message)
{
	const char *at;
	int			n = 1;
	int			i,
				j;

	for (at = message; (at = strchr(at, ',')) != NULL; at++)
		n++;
	for (i = 0; i < table->nkeys; i++)
	{
		const struct sim_key_def *def = &table->keys[i];

		if (def->n != n)
			continue;
		for (j = 0; j < def->n; j++)
		{
			char		name[300];

			snprintf(name, sizeof(name), "%s.%s", table->name, def->columns[j]->name);
			at = strstr(message, name);
			if (at == NULL || (at[strlen(name)] != '\0' && at[strlen(name)] != ','))
				break;
		}
		if (j == def->n)
			return def;
	}
	return table->nkeys == 1 ? &table->keys[0] : NULL;
}

bool
sim_constraint_fail(struct sim_writer *w, struct sim_write_row *row)
{
	sqlite3    *db = w->req->sim->store->db;
	int			code = sqlite3_extended_errcode(db);
	const struct sim_key_def *def;

	if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY)
	{
		def = NULL;
		if (code == SQLITE_CONSTRAINT_UNIQUE)
			def = violated_key(w->table, sqlite3_errmsg(db));
		if (def != NULL)
			return key_violated(w, row, def);
		return sim_fail(w->req, w->res, 412, "0x80040237", "%s", w->bulk ?
						"Cannot insert duplicate key" :
						"A record with matching key values already exists.");
	}
	fprintf(stderr, "dvsim: writing %s: %s\n", w->table->name, sqlite3_errmsg(db));
	return sim_fail(w->req, w->res, 500, "0x80044150",
					"Generic SQL error. CRM ErrorCode: -2147204784 Sql ErrorCode: -2146232060 "
					"Sql Number: %d", code);
}

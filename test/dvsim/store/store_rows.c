/*
 * store_rows.c
 *		Rows that exist from the start: those of the schema file, those that
 *		describe the schema (messages, solution components) and those of the
 *		application users.
 *
 * All are inserted in one way, from a JSON object by column name; other
 * columns get the default or the service's value.  Ids that are not GUIDs are
 * names, and a name always results in the same id.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/store_parts.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "store/decimal.h"
#include "store/guid.h"
#include "store/value.h"

#define SYSTEM_USER "user SYSTEM"

static void
set_id(const struct sim *sim, const char *text, struct sim_value *value)
{
	value->kind = SIM_V_BLOB;
	value->s = NULL;
	value->len = 16;
	if (strcmp(text, "organization") == 0)
		text = sim->organization_id;

	else if (strcmp(text, "businessunit") == 0)
		text = sim->business_unit_id;

	if (!sim_guid_parse(text, strlen(text), value->fixed))
		sim_guid_of_name(text, value->fixed);
}

static void
set_int(struct sim_value *value, int64_t i)
{
	value->kind = SIM_V_INT;
	value->i = i;
}

static void
set_text(struct sim_value *value, const char *s)
{
	value->kind = *s != '\0' ? SIM_V_TEXT : SIM_V_NULL;
	value->s = s;
	value->len = strlen(s);
}

/* Returns the value of a column in the row's object. */
static void
given_value(const struct sim *sim, const struct sim_column *column, struct json_object *json,
			struct sim_value *value)
{
	const char *text = json_object_get_string(json);
	sim_dec		decimal;
	int64_t		seconds;

	switch (column->type)
	{
		case SIM_UUID:
		case SIM_LOOKUP:
		case SIM_CUSTOMER:
		case SIM_OWNER:
		case SIM_FILE:
			set_id(sim, text, value);
			break;
		case SIM_DECIMAL:
		case SIM_MONEY:
			if (!sim_dec_parse(text, strlen(text), SIM_DEC_SCALE, &decimal))
				break;
			value->kind = SIM_V_BLOB;
			value->s = NULL;
			sim_dec_pack(decimal, value->fixed);
			break;
		case SIM_DOUBLE:
			value->kind = SIM_V_REAL;
			value->r = json_object_get_double(json);
			break;
		case SIM_DATETIME:
			if (sim_time_parse(text, strlen(text), &seconds))
				set_int(value, seconds);
			break;
		case SIM_STRING:
		case SIM_MEMO:
		case SIM_ENTITYNAME:
		case SIM_MULTISELECT:
			set_text(value, text);
			break;
		default:
			set_int(value, json_object_get_int64(json));
			break;
	}
}

/* Returns the service's value for a column without a given one. */
static void
service_value(struct sim *sim, const struct sim_column *column, struct sim_value *value)
{
	const struct sim_table *table = column->table;

	if (column == table->version)
		set_int(value, sim_next_version(sim->store));
	else if (column->has_default)
		set_int(value, column->default_value);
	else if (column == table->owner || strcmp(column->name, "owninguser") == 0 ||
			 strcmp(column->name, "createdby") == 0 || strcmp(column->name, "modifiedby") == 0)
		set_id(sim, SYSTEM_USER, value);
	else if (strcmp(column->name, "owningbusinessunit") == 0)
		set_id(sim, "businessunit", value);
	else if (strcmp(column->name, "createdon") == 0 || strcmp(column->name, "modifiedon") == 0)
		set_int(value, STORE_EPOCH);
	else if (column == table->partition)
	{
		value->kind = SIM_V_TEXT;
		value->s = "";
	}
}

/* the statement for a table, and its columns in order */
static void
insert_sql(const struct sim_table *table, struct sim_buf *sql)
{
	int			n = 0;
	int			i;

	sim_putf(sql, "INSERT OR IGNORE INTO \"%s\" (", table->name);
	for (i = 0; i < table->ncolumns; i++)
	{
		if (!table->columns[i].stored)
			continue;
		sim_putf(sql, "%s\"%s\"", n++ > 0 ? ", " : "", table->columns[i].name);
		if (table->columns[i].ntargets > 1)
		{
			sim_putf(sql, ", \"%s.type\"", table->columns[i].name);
			n++;
		}
	}
	sim_puts(sql, ") VALUES (?");
	while (--n > 0)
		sim_puts(sql, ", ?");
	sim_puts(sql, ")");
}

/* Returns the target of a lookup with several: {"id": …, "type": …}; otherwise the first. */
static const char *
target_of(const struct sim_column *column, struct json_object *given)
{
	struct json_object *type;

	if (json_object_object_get_ex(given, "type", &type) && type != NULL)
		return json_object_get_string(type);
	return column->targets[0].table->name;
}

static bool
insert_row(struct sim *sim, struct sim_table *table, struct json_object *row, const char *name)
{
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;
	int			param = 0;
	int			rc;
	int			i;

	insert_sql(table, &sql);
	stmt = sim_stmt_get(sim->store, sql.s);
	sim_buf_free(&sql);
	if (stmt == NULL)
		return false;
	for (i = 0; i < table->ncolumns; i++)
	{
		struct sim_column *column = &table->columns[i];
		struct json_object *given = NULL;
		struct json_object *id;
		struct sim_value value = {0};

		if (!column->stored)
			continue;
		if (json_object_object_get_ex(row, column->name, &given) && given != NULL)
			given_value(sim, column,
						json_object_object_get_ex(given, "id", &id) && id != NULL ? id : given,
						&value);
		else if (column->primary_id)
			set_id(sim, name, &value);
		else
			service_value(sim, column, &value);
		sim_value_bind(stmt, ++param, &value);
		if (column->ntargets > 1 && ++param > 0 && value.kind != SIM_V_NULL)
			sqlite3_bind_text(stmt, param, target_of(column, given), -1, SQLITE_STATIC);
	}
	rc = sqlite3_step(stmt);
	sim_stmt_put(sim->store, stmt);
	return rc == SQLITE_DONE;
}

static bool
insert_rows(struct sim *sim, struct sim_table *table, struct json_object *rows)
{
	size_t		i;

	for (i = 0; i < json_object_array_length(rows); i++)
	{
		char		name[512];

		snprintf(name, sizeof(name), "%s %zu", table->name, i + 1);
		if (!insert_row(sim, table, json_object_array_get_idx(rows, i), name))
			return false;
	}
	return true;
}

bool
store_initial_rows(struct sim *sim)
{
	struct json_object *all = sim->schema->rows;
	struct lh_entry *entry;

	if (all == NULL || !json_object_is_type(all, json_type_object))
		return true;
	for (entry = json_object_get_object(all)->head; entry != NULL; entry = lh_entry_next(entry))
	{
		struct sim_table *table = sim_table_by_name(sim->schema, lh_entry_k(entry));
		struct json_object *rows = (struct json_object *) lh_entry_v(entry);

		if (table == NULL || !json_object_is_type(rows, json_type_array))
		{
			fprintf(stderr, "dvsim: schema: rows of \"%s\": no such table, or no array\n",
					(const char *) lh_entry_k(entry));
			return false;
		}
		if (!insert_rows(sim, table, rows))
			return false;
	}
	return true;
}

/* --- rows derived from the tables --- */

struct message
{
	const char *name;
	bool		(*applies) (const struct sim_table *table);
};

static bool
not_intersect(const struct sim_table *table)
{
	return table->type != SIM_INTERSECT;
}

static bool
any_table(const struct sim_table *table)
{
	(void) table;
	return true;
}

static bool
has_create_multiple(const struct sim_table *table)
{
	return table->create_multiple;
}

static bool
has_update_multiple(const struct sim_table *table)
{
	return table->update_multiple;
}

static bool
has_delete_multiple(const struct sim_table *table)
{
	return table->delete_multiple;
}

static const struct message messages[] = {
	{"Create", not_intersect},
	{"Update", not_intersect},
	{"Delete", not_intersect},
	{"Retrieve", any_table},
	{"RetrieveMultiple", any_table},
	{"CreateMultiple", has_create_multiple},
	{"UpdateMultiple", has_update_multiple},
	{"DeleteMultiple", has_delete_multiple},
};

static void
add_text(struct json_object *row, const char *name, const char *value)
{
	json_object_object_add(row, name, json_object_new_string(value));
}

static bool
insert_and_drop(struct sim *sim, struct sim_table *table, struct json_object *row,
				const char *name)
{
	bool		ok = insert_row(sim, table, row, name);

	json_object_put(row);
	return ok;
}

static bool
message_filters(struct sim *sim, const struct message *message, struct sim_table *filters,
				const char *message_id)
{
	int			i;

	for (i = 0; i < sim->schema->ntables; i++)
	{
		const struct sim_table *table = &sim->schema->tables[i];
		struct json_object *row;
		char		name[512];

		if (!message->applies(table))
			continue;
		row = json_object_new_object();
		add_text(row, "primaryobjecttypecode", table->name);
		add_text(row, "secondaryobjecttypecode", "none");
		add_text(row, "sdkmessageid", message_id);
		snprintf(name, sizeof(name), "sdkmessagefilter %s %s", message->name, table->name);
		if (!insert_and_drop(sim, filters, row, name))
			return false;
	}
	return true;
}

static bool
message_rows(struct sim *sim)
{
	struct sim_table *table = sim_table_by_name(sim->schema, "sdkmessage");
	struct sim_table *filters = sim_table_by_name(sim->schema, "sdkmessagefilter");
	size_t		i;

	if (table == NULL || filters == NULL)
		return true;
	for (i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
	{
		struct json_object *row = json_object_new_object();
		char		name[512];

		snprintf(name, sizeof(name), "sdkmessage %s", messages[i].name);
		add_text(row, "name", messages[i].name);
		if (!insert_and_drop(sim, table, row, name) ||
			!message_filters(sim, &messages[i], filters, name))
			return false;
	}
	return true;
}

/* finds the id of the solution with that unique name among the rows; false if there is none */
static bool
solution_id(struct sim *sim, const char *unique_name, char text[37])
{
	sqlite3_stmt *stmt = sim_stmt_get(sim->store, "SELECT \"solutionid\" FROM \"solution\" "
									  "WHERE \"uniquename\" = ?");
	bool		found;

	if (stmt == NULL)
		return false;
	sqlite3_bind_text(stmt, 1, unique_name, -1, SQLITE_STATIC);
	found = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == 16;
	if (found)
	{
		sim_guid_print(sqlite3_column_blob(stmt, 0), text);
		text[36] = '\0';
	}
	sim_stmt_put(sim->store, stmt);
	return found;
}

static bool
component_row(struct sim *sim, struct sim_table *components, const struct sim_table *table,
			  const char *solution)
{
	struct json_object *row;
	char		id[37];
	char		name[512];

	if (!solution_id(sim, solution, id))
		return true;
	row = json_object_new_object();
	add_text(row, "solutionid", id);
	add_text(row, "objectid", table->metadata_id);
	json_object_object_add(row, "componenttype", json_object_new_int(1));
	json_object_object_add(row, "rootcomponentbehavior",
						   json_object_new_int(table->custom ? 0 : 1));
	snprintf(name, sizeof(name), "solutioncomponent %s %s", solution, table->name);
	return insert_and_drop(sim, components, row, name);
}

/* Each table is in the solution "Default" and in those named by the schema. */
static bool
component_rows(struct sim *sim)
{
	struct sim_table *components = sim_table_by_name(sim->schema, "solutioncomponent");
	int			i;
	int			j;

	if (components == NULL || sim_table_by_name(sim->schema, "solution") == NULL)
		return true;
	for (i = 0; i < sim->schema->ntables; i++)
	{
		struct sim_table *table = &sim->schema->tables[i];

		if (!component_row(sim, components, table, "Default"))
			return false;
		for (j = 0; j < table->nsolutions; j++)
		{
			if (!component_row(sim, components, table, table->solutions[j]))
				return false;
		}
	}
	return true;
}

bool
store_schema_rows(struct sim *sim)
{
	return message_rows(sim) && component_rows(sim);
}

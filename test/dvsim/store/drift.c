/*
 * drift.c
 *		Changes of the schema while dvsim runs: from one schema to the next.
 *
 * Each change makes a schema of its own, and the rows follow within one
 * transaction; when all changes have been made, the last schema replaces the
 * first.  A data file keeps the definitions, too, together with a mark of
 * those that it was started with: with another schema file, they are useless.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/drift.h"
#include "metadata/metadata_keys.h"
#include "write/row_write.h"
#include "store/store_parts.h"

struct sim_drift
{
	struct json_object *base;	/* the definitions of the start */
	struct sim_schema *replaced;	/* to be freed before the next request */
};

static struct sim_drift *
drift_of(struct sim *sim)
{
	if (sim->drift == NULL)
	{
		sim->drift = sim_xalloc(sizeof(*sim->drift));
		sim->drift->base = json_object_get(sim->schema->root);
	}
	return sim->drift;
}

int
sim_metadata_version(const struct sim *sim)
{
	return 1000000 + sim->schema->ntables + 1000 * sim->schema->changes;
}

/* ----------
 * Definitions
 * ----------
 */

/* Makes defaults explicit that depend on other tables. */
static void
pin_type_codes(struct json_object *root, const struct sim_schema *schema)
{
	struct json_object *last = NULL;
	int			most = 10000;

	for (int i = 0; i < schema->ntables; i++)
	{
		struct json_object *table = sim_drift_table(root, schema->tables[i].name);
		int			code = schema->tables[i].type_code;

		json_object_object_add(table, "type_code", json_object_new_int(code));
		most = code > most ? code : most;
	}
	if (!json_object_object_get_ex(root, "last_type_code", &last))
		json_object_object_add(root, "last_type_code", json_object_new_int(most));
}

static struct json_object *
key_definition(const struct sim_key_def *key)
{
	struct json_object *json = json_object_new_object();
	struct json_object *columns = json_object_new_array();

	for (int i = 0; i < key->n; i++)
		json_object_array_add(columns, json_object_new_string(key->columns[i]->name));
	json_object_object_add(json, "name", json_object_new_string(key->schema_name));
	json_object_object_add(json, "columns", columns);
	json_object_object_add(json, "status", json_object_new_string(key->status));
	json_object_object_add(json, "label", json_object_new_string(key->label));
	json_object_object_add(json, "metadata_id", json_object_new_string(key->metadata_id));
	if (!key->synchronous)
		json_object_object_add(json, "async_job", json_object_new_string(key->async_job));
	return json;
}

/* Requests have created keys, and deleted some. */
static void
write_keys(struct json_object *root, const struct sim_schema *schema)
{
	for (int i = 0; i < schema->ntables; i++)
	{
		const struct sim_table *table = &schema->tables[i];
		struct json_object *json = sim_drift_table(root, table->name);
		struct json_object *keys;

		if (table->type != SIM_STANDARD)
			continue;
		if (table->nkeys == 0)
		{
			json_object_object_del(json, "keys");
			continue;
		}
		keys = json_object_new_array();
		for (int j = 0; j < table->nkeys; j++)
			json_object_array_add(keys, key_definition(&table->keys[j]));
		json_object_object_add(json, "keys", keys);
	}
}

static struct json_object *
editable_root(const struct sim_schema *schema)
{
	struct json_object *root = NULL;

	json_object_deep_copy(schema->root, &root, NULL);
	pin_type_codes(root, schema);
	write_keys(root, schema);
	json_object_object_add(root, "changes", json_object_new_int(schema->changes + 1));
	return root;
}

bool
sim_drift_print(const struct sim *sim, const char *table, struct sim_buf *out)
{
	struct json_object *root = editable_root(sim->schema);
	struct json_object *json = root;

	if (table != NULL)
		json = sim_drift_table(root, table);
	else
		json_object_object_add(root, "changes", json_object_new_int(sim->schema->changes));
	if (json != NULL)
		sim_puts(out, json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
													 JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
	return json != NULL;
}

/* ----------
 * Rows
 * ----------
 */

/* Deletes messages and components of a table that no longer exists. */
static bool
drop_schema_rows(struct sim *sim, const struct sim_table *table)
{
	struct sim_buf sql = {0};
	bool		ok;

	sim_putf(&sql, "DELETE FROM \"sdkmessagefilter\" WHERE \"primaryobjecttypecode\"='%s';"
			 "DELETE FROM \"solutioncomponent\" WHERE dv_guid(\"objectid\")='%s'",
			 table->name, table->metadata_id);
	ok = sim_exec(sim->store, sql.s);
	sim_buf_free(&sql);
	return ok;
}

/* Returns true if the definitions of a table are the same.  Choices may be shared by tables. */
static bool
is_same(const struct sim_drift_edit *edit, const struct sim_schema *schema, const char *name)
{
	return json_object_equal(sim_drift_table(edit->before, name),
							 sim_drift_table(schema->root, name));
}

/* The global choices are few and change rarely, so all tables that use any count as changed. */
static bool
uses_changed_choice(const struct sim_drift_edit *edit, const struct sim_schema *schema,
					const struct sim_table *table)
{
	bool		uses = false;

	for (int i = 0; i < table->ncolumns; i++)
		uses = uses || (table->columns[i].options != NULL && table->columns[i].options->global);
	return uses && !json_object_equal(json_object_object_get(edit->before, "option_sets"),
									  json_object_object_get(schema->root, "option_sets"));
}

static bool
move_table(struct sim *sim, struct sim_schema *old, struct sim_schema *schema,
		   struct sim_table *table, const struct sim_drift_edit *edit)
{
	struct sim_table *before = sim_table_by_name(old, table->name);
	bool		its_own = edit->table != NULL && strcmp(edit->table, table->name) == 0;

	if (before == NULL)
	{
		table->changed_on = sim_unix_now(sim);
		return store_table(sim->store, schema, table, "(memory)");
	}
	table->changed_on = before->changed_on;
	if (is_same(edit, schema, table->name) && !uses_changed_choice(edit, schema, table))
		return true;
	table->changed_on = sim_unix_now(sim);
	return store_change_table(sim->store, schema, before, table,
							  its_own ? edit->renamed_from : NULL,
							  its_own ? edit->renamed_to : NULL);
}

static bool
move_rows(struct sim *sim, struct sim_schema *old, struct sim_schema *schema,
		  const struct sim_drift_edit *edit)
{
	int			gone = 0;

	sim_stmts_forget(sim->store);
	for (int i = 0; i < old->ntables; i++)
	{
		struct sim_table *table = &old->tables[i];

		if (sim_table_by_name(schema, table->name) != NULL)
			continue;
		gone++;
		if (!store_drop_table(sim->store, table) || !drop_schema_rows(sim, table))
			return false;
	}
	for (int i = 0; i < schema->ntables; i++)
	{
		if (!move_table(sim, old, schema, &schema->tables[i], edit))
			return false;
	}
	sim_stmts_forget(sim->store);
	return schema->ntables == old->ntables - gone || store_schema_rows(sim);
}

/* ----------
 * From one schema to the next
 * ----------
 */

static void
use_schema(struct sim *sim, struct sim_schema *schema)
{
	sim->schema = schema;
	sim_write_info_forget();
}

/* Makes one change; the schema that it replaces is the next one of the new one. */
static bool
step(struct sim *sim, struct sim_drift_edit *edit, const char **error)
{
	struct sim_schema *old = sim->schema;
	struct sim_schema *schema;
	struct json_object *touch = NULL;
	const struct sim_table *table;
	bool		moved;

	edit->root = editable_root(old);
	schema = sim_drift_edit(edit) ? sim_schema_build(edit->root) : NULL;
	json_object_put(edit->root);
	if (schema == NULL)
	{
		*error = edit->error != NULL ? edit->error :
			sim_strdup(edit->arena, sim_schema_error());
		return false;
	}
	schema->next = old;
	use_schema(sim, schema);
	*error = "the rows could not be changed; see dvsim's standard error";
	edit->before = editable_root(old);
	moved = move_rows(sim, old, schema, edit);
	json_object_put(edit->before);
	if (!moved)
		return false;
	table = edit->table != NULL ? sim_table_by_name(schema, edit->table) : NULL;
	json_object_object_get_ex(edit->change, "touch", &touch);
	return table == NULL || !json_object_get_boolean(touch) ||
		store_touch_rows(sim->store, table);
}

static bool
all_steps(struct sim *sim, struct sim_arena *arena, struct json_object *changes,
		  const char **error)
{
	bool		one = !json_object_is_type(changes, json_type_array);
	size_t		n = one ? 1 : json_object_array_length(changes);

	for (size_t i = 0; i < n; i++)
	{
		struct sim_drift_edit edit = {.sim = sim, .arena = arena, .base = drift_of(sim)->base};

		edit.change = one ? changes : json_object_array_get_idx(changes, i);
		if (!step(sim, &edit, error))
		{
			*error = one ? *error : sim_fmt(arena, "change %zu: %s", i, *error);
			return false;
		}
	}
	return true;
}

/* Saves the definitions in a data file, with the rows that belong to them. */
static bool
save(struct sim *sim)
{
	sqlite3_stmt *stmt = sim_stmt_get(sim->store, "INSERT OR REPLACE INTO \"~meta\" VALUES "
									  "('schema',?1),('schema of',?2)");
	int			rc;

	if (stmt == NULL)
		return false;
	sqlite3_bind_text(stmt, 1, json_object_to_json_string(sim->schema->root), -1,
					  SQLITE_TRANSIENT);
	sqlite3_bind_text(stmt, 2, json_object_to_json_string(drift_of(sim)->base), -1,
					  SQLITE_TRANSIENT);
	rc = sqlite3_step(stmt);
	sim_stmt_put(sim->store, stmt);
	return rc == SQLITE_DONE;
}

/* Puts schemas away, from this one to the one before "end". */
static void
put_away(struct sim *sim, struct sim_schema *schema, const struct sim_schema *end)
{
	while (schema != end)
	{
		struct sim_schema *next = schema->next;

		schema->next = sim->drift->replaced;
		sim->drift->replaced = schema;
		schema = next;
	}
}

bool
sim_drift_apply(struct sim *sim, struct sim_arena *arena, struct json_object *changes,
				const char **error)
{
	struct sim_schema *before = sim->schema;

	drift_of(sim);
	*error = "the rows could not be changed; see dvsim's standard error";
	if (!sim_begin(sim->store))
		return false;
	if (!all_steps(sim, arena, changes, error) || !save(sim) || !sim_commit(sim->store))
	{
		struct sim_schema *failed = sim->schema;

		sim_stmts_forget(sim->store);
		sim_rollback(sim->store);
		use_schema(sim, before);
		put_away(sim, failed, before);
		return false;
	}
	if (sim->schema != before)
	{
		sim_keys_moved(sim);
		sim_jobs_moved(sim);
		put_away(sim, sim->schema->next, NULL);
		sim->schema->next = NULL;
	}
	return true;
}

/* ----------
 * Start, reset, end
 * ----------
 */

/* A text of "~meta", or NULL; the caller frees it. */
static char *
kept(struct sim *sim, const char *name)
{
	sqlite3_stmt *stmt = sim_stmt_get(sim->store, "SELECT value FROM \"~meta\" WHERE name = ?");
	char	   *text = NULL;

	if (stmt == NULL)
		return NULL;
	sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	if (sqlite3_step(stmt) == SQLITE_ROW)
		text = sim_xstrdup((const char *) sqlite3_column_text(stmt, 0));
	sim_stmt_put(sim->store, stmt);
	return text;
}

/* Jobs end with the process, so unfinished ones have failed. */
static void
end_keys(struct sim_schema *schema)
{
	for (int i = 0; i < schema->ntables; i++)
	{
		struct sim_table *table = &schema->tables[i];

		for (int j = 0; j < table->nkeys; j++)
			if (table->keys[j].async_job[0] != '\0')
				table->keys[j].status = "Failed";
	}
}

bool
sim_drift_restore(struct sim *sim)
{
	char	   *base = kept(sim, "schema of");
	char	   *text = kept(sim, "schema");
	struct json_object *root = NULL;
	struct sim_schema *schema = NULL;
	bool		ok = true;

	if (base != NULL && text != NULL &&
		strcmp(base, json_object_to_json_string(sim->schema->root)) == 0)
	{
		root = json_tokener_parse(text);
		schema = root != NULL ? sim_schema_build(root) : NULL;
		ok = schema != NULL;
	}
	if (!ok)
		fprintf(stderr, "dvsim: the schema in the data file cannot be used: %s\n",
				sim_schema_error());
	if (schema != NULL)
	{
		struct sim_schema *before = sim->schema;

		drift_of(sim);
		end_keys(schema);
		use_schema(sim, schema);
		put_away(sim, before, NULL);
	}
	json_object_put(root);
	free(base);
	free(text);
	return ok;
}

bool
sim_drift_reset(struct sim *sim)
{
	struct sim_schema *before = sim->schema;
	struct sim_schema *schema;
	bool		ok;

	if (sim->schema->changes == 0)
		return true;
	schema = sim_schema_build(sim->drift->base);
	if (schema == NULL)
		return false;
	sim_stmts_forget(sim->store);
	ok = sim_exec(sim->store, "DELETE FROM \"~meta\" WHERE name IN ('schema','schema of')");
	for (int i = 0; ok && i < before->ntables; i++)
		ok = store_drop_table(sim->store, &before->tables[i]);
	for (int i = 0; ok && i < schema->ntables; i++)
	{
		schema->tables[i].changed_on = sim_unix_now(sim);
		ok = store_table(sim->store, schema, &schema->tables[i], "(memory)");
	}
	if (!ok)
	{
		sim_schema_free(schema);
		return false;
	}
	sim_keys_free(sim);
	use_schema(sim, schema);
	sim_jobs_moved(sim);
	put_away(sim, before, NULL);
	return true;
}

void
sim_drift_collect(struct sim *sim)
{
	while (sim->drift != NULL && sim->drift->replaced != NULL)
	{
		struct sim_schema *schema = sim->drift->replaced;

		sim->drift->replaced = schema->next;
		sim_schema_free(schema);
	}
}

void
sim_drift_free(struct sim *sim)
{
	if (sim->drift == NULL)
		return;
	sim_drift_collect(sim);
	json_object_put(sim->drift->base);
	free(sim->drift);
	sim->drift = NULL;
}

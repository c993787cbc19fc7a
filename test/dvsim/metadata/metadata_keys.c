/*
 * metadata_keys.c
 *		Alternate keys that requests create and delete, and the jobs that
 *		create their indexes.
 *
 * The schema's own array of keys is never touched: the first change to a table
 * gives it a copy with room for all keys that it may have.  Keys created by
 * requests live in an arena until the next reset.  A job is a row of
 * asyncoperation; it waits, runs for a time that depends on the number of
 * rows, and succeeds if no two rows have the same values.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/guid.h"
#include "metadata/metadata.h"
#include "metadata/metadata_keys.h"
#include "wire/request.h"
#include "write/row_write.h"

#define WAIT_US 2000000			/* from the request to the start */
#define LEAST_RUN_US 1000000
#define ROWS_PER_SECOND 100000
#define MAX_COLUMNS 16
#define MAX_BYTES 900			/* of the index, as documented */

struct key_job
{
	struct key_job *next;
	struct sim_table *table;
	char		key_id[37];
	unsigned char id[16];		/* of its row */
	bool		running;
	int64_t		due_us;			/* when it starts, and then when it ends */
};

/* a table whose keys differ from those of the schema */
struct changed_table
{
	struct changed_table *next;
	struct sim_table *table;
	struct sim_key_def *keys;	/* those of the schema */
	int			nkeys;
};

struct sim_keys
{
	struct sim_arena *arena;	/* everything that changed, and this */
	struct changed_table *tables;
	struct key_job *jobs;		/* on the heap */
};

enum phase
{
	PHASE_WAITING,
	PHASE_RUNNING,
	PHASE_SUCCEEDED,
	PHASE_FAILED,
	PHASE_CANCELED
};

/* states of a job's row, and of its key */
static const struct
{
	int			state;
	int			status;
	const char *key;
	const char *when;			/* column that gets the time */
}			phases[] = {
	[PHASE_WAITING] = {0, 0, "Pending", NULL},
	[PHASE_RUNNING] = {2, 20, "InProgress", "startedon"},
	[PHASE_SUCCEEDED] = {3, 30, "Active", "completedon"},
	[PHASE_FAILED] = {3, 31, "Failed", "completedon"},
	[PHASE_CANCELED] = {3, 32, NULL, "completedon"}
};

/* the column types of keys, and how many bytes a value takes in an index */
static const struct
{
	enum sim_type type;
	int			bytes;			/* for text: of a character */
}			key_types[] = {
	{SIM_DECIMAL, 17},
	{SIM_INTEGER, 4},
	{SIM_STRING, 2},
	{SIM_DATETIME, 8},
	{SIM_LOOKUP, 16},
	{SIM_PICKLIST, 4}
};

static bool
broken(struct sim_req *req, struct sim_res *res)
{
	return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
}

/* ----------
 * The keys of a table
 * ----------
 */

static struct sim_keys *
keys_of(struct sim *sim)
{
	if (sim->keys == NULL)
	{
		struct sim_arena *arena = sim_arena_new();

		sim->keys = sim_alloc(arena, sizeof(*sim->keys));
		sim->keys->arena = arena;
	}
	return sim->keys;
}

/* The table's keys may be changed from now on. */
static void
open_table(struct sim *sim, struct sim_table *table)
{
	struct sim_keys *keys = keys_of(sim);
	struct changed_table *changed;
	int			room = table->nkeys > SIM_MAX_KEYS ? table->nkeys : SIM_MAX_KEYS;

	for (changed = keys->tables; changed != NULL; changed = changed->next)
		if (changed->table == table)
			return;
	changed = sim_alloc(keys->arena, sizeof(*changed));
	changed->table = table;
	changed->keys = table->keys;
	changed->nkeys = table->nkeys;
	changed->next = keys->tables;
	keys->tables = changed;
	table->keys = sim_alloc(keys->arena, sizeof(*table->keys) * (size_t) room);
	if (changed->nkeys > 0)
		memcpy(table->keys, changed->keys, sizeof(*table->keys) * (size_t) changed->nkeys);
}

/* for the stamps of RetrieveMetadataChanges */
static void
touch(struct sim *sim, struct sim_table *table)
{
	table->changed_on = sim_unix_now(sim);
}

static struct sim_key_def *
key_with_id(struct sim_table *table, const char *id)
{
	for (int i = 0; i < table->nkeys; i++)
		if (strcasecmp(table->keys[i].metadata_id, id) == 0)
			return &table->keys[i];
	return NULL;
}

static struct sim_key_def *
key_with_name(struct sim_table *table, const char *name)
{
	for (int i = 0; i < table->nkeys; i++)
		if (strcasecmp(table->keys[i].name, name) == 0)
			return &table->keys[i];
	return NULL;
}

static bool
has_columns(const struct sim_key_def *key, struct sim_column **columns, int n)
{
	int			i,
				j;

	if (key->n != n)
		return false;
	for (i = 0; i < n; i++)
	{
		for (j = 0; j < n && key->columns[j] != columns[i]; j++)
			;
		if (j == n)
			return false;
	}
	return true;
}

/* ----------
 * Jobs
 * ----------
 */

/* Writes the state of a job to its row and to its key, which may have been deleted. */
static bool
show_phase(struct sim *sim, struct key_job *job, enum phase phase)
{
	struct sim_key_def *key = key_with_id(job->table, job->key_id);
	bool		failed = phase == PHASE_FAILED;
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;
	bool		ok;

	if (key != NULL && phases[phase].key != NULL)
	{
		key->status = phases[phase].key;
		if (phase == PHASE_SUCCEEDED)
			key->async_job[0] = '\0';
		touch(sim, job->table);
	}
	sim_puts(&sql, "UPDATE asyncoperation SET statecode=?2,statuscode=?3,versionnumber=?4,"
			 "errorcode=?6,message=?7");
	if (phases[phase].when != NULL)
		sim_putf(&sql, ",%s=?5", phases[phase].when);
	sim_puts(&sql, " WHERE asyncoperationid=?1");
	stmt = sim_stmt_get(sim->store, sql.s);
	sim_buf_free(&sql);
	if (stmt == NULL)
		return false;
	sqlite3_bind_blob(stmt, 1, job->id, 16, SQLITE_STATIC);
	sqlite3_bind_int(stmt, 2, phases[phase].state);
	sqlite3_bind_int(stmt, 3, phases[phase].status);
	sqlite3_bind_int64(stmt, 4, sim_next_version(sim->store));
	sqlite3_bind_int64(stmt, 5, sim_unix_now(sim));
	if (failed)
	{
		sqlite3_bind_int(stmt, 6, (int) 0x80060892);
		sqlite3_bind_text(stmt, 7, "The CREATE UNIQUE INDEX statement terminated because a "
						  "duplicate key was found.", -1, SQLITE_STATIC);
	}
	ok = sqlite3_step(stmt) == SQLITE_DONE;
	sim_stmt_put(sim->store, stmt);
	return ok;
}

/* how long the index takes */
static int64_t
run_time(struct sim *sim, struct sim_table *table)
{
	return LEAST_RUN_US + sim_row_count(sim->store, table) * 1000000 / ROWS_PER_SECOND;
}

/* returns true while the job still has something to do */
static bool
advance(struct sim *sim, struct key_job *job, int64_t now)
{
	struct sim_key_def *key = key_with_id(job->table, job->key_id);
	bool		duplicates = false;

	if (key == NULL)
		return false;
	if (!job->running && now >= job->due_us)
	{
		job->running = true;
		job->due_us += run_time(sim, job->table);
		show_phase(sim, job, PHASE_RUNNING);
	}
	if (!job->running || now < job->due_us)
		return true;
	if (sim_index_key(sim->store, job->table, key, &duplicates) && !duplicates)
		show_phase(sim, job, PHASE_SUCCEEDED);
	else
		show_phase(sim, job, PHASE_FAILED);
	return false;
}

void
sim_keys_advance(struct sim *sim)
{
	struct key_job **link = sim->keys != NULL ? &sim->keys->jobs : NULL;
	int64_t		now;

	if (link == NULL || *link == NULL)
		return;
	now = sim_now_us(sim);
	while (*link != NULL)
	{
		struct key_job *job = *link;

		if (advance(sim, job, now))
			link = &job->next;
		else
		{
			*link = job->next;
			free(job);
		}
	}
}

/* the row of asyncoperation, in a transaction of the caller */
static bool
create_job_row(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			   const struct sim_key_def *key, unsigned char id[16])
{
	struct sim_table *jobs = sim_table_by_name(req->sim->schema, "asyncoperation");
	struct sim_write_row row = {0};
	struct sim_buf body = {0};
	struct sim_json *json;
	const char *error;
	const char *name = sim_fmt(req->arena, "Create index for %s for table %s", key->label,
							   table->label);
	char	   *text;

	sim_puts(&body, "{\"operationtype\":63,\"messagename\":\"CreateEntityKey\",\"name\":");
	sim_put_json(&body, name, strnlen(name, 256));
	sim_putf(&body, ",\"primaryentitytype\":\"%s\"}", table->name);
	text = sim_strndup(req->arena, body.s, body.len);
	sim_buf_free(&body);
	json = sim_json_parse(req->arena, text, strlen(text), &error);
	if (jobs == NULL || json == NULL)
		return broken(req, res);
	if (!sim_create_row(req, res, jobs, json, NULL, &row))
		return false;
	memcpy(id, row.id, 16);
	return true;
}

/* The key is Pending from now on, and a job will create its index. */
static bool
start_job(struct sim_req *req, struct sim_res *res, struct sim_table *table,
		  struct sim_key_def *key)
{
	struct sim *sim = req->sim;
	struct key_job *job;
	unsigned char id[16];

	if (!sim_begin(sim->store))
		return broken(req, res);
	if (!create_job_row(req, res, table, key, id))
	{
		sim_rollback(sim->store);
		return false;
	}
	if (!sim_commit(sim->store))
		return broken(req, res);
	job = sim_xalloc(sizeof(*job));
	job->table = table;
	memcpy(job->key_id, key->metadata_id, sizeof(job->key_id));
	memcpy(job->id, id, 16);
	job->due_us = sim_now_us(sim) + WAIT_US;
	job->next = keys_of(sim)->jobs;
	keys_of(sim)->jobs = job;
	sim_guid_print(id, key->async_job);
	key->status = phases[PHASE_WAITING].key;
	touch(sim, table);
	return true;
}

static void
cancel_job(struct sim *sim, const struct sim_key_def *key)
{
	struct key_job **link;

	for (link = &keys_of(sim)->jobs; *link != NULL; link = &(*link)->next)
	{
		struct key_job *job = *link;

		if (strcmp(job->key_id, key->metadata_id) != 0)
			continue;
		show_phase(sim, job, PHASE_CANCELED);
		*link = job->next;
		free(job);
		return;
	}
}

/* -- Rules for keys -- */

static bool
invalid_key(struct sim_req *req, struct sim_res *res, const char *what)
{
	return sim_fail(req, res, 400, "0x8006088F", "Invalid EntityKey Operation performed : %s",
					what);
}

/* The definitions cannot be rolled back with the rows, and only some tables have keys. */
static bool
may_change(struct sim_req *req, struct sim_res *res, const struct sim_table *table)
{
	if (req->content_ids != NULL)
		return invalid_key(req, res, "Entity keys cannot be changed in a change set.");
	if (table->type == SIM_ELASTIC)
		return sim_fail(req, res, 400, "0x8009724F",
						"Custom entity keys cannot be created for Elastic Tables.");
	if (table->type != SIM_STANDARD)
		return invalid_key(req, res, sim_fmt(req->arena, "Entity %s does not support entity keys.",
											 table->name));
	return true;
}

/* "new_" and a name: letters or digits, from two to eight, and an underscore */
static bool
has_prefix(const char *name)
{
	size_t		n = 0;

	while (isalnum((unsigned char) name[n]))
		n++;
	if (!isalpha((unsigned char) name[0]) || n < 2 || n > 8 || name[n] != '_' ||
		name[n + 1] == '\0')
		return false;
	for (; name[n] != '\0'; n++)
		if (!isalnum((unsigned char) name[n]) && name[n] != '_')
			return false;
	return n <= 100;
}

/* bytes of a column's values in the index; 0 if the column cannot be part of one */
static int
index_bytes(const struct sim_column *column)
{
	for (size_t i = 0; i < sizeof(key_types) / sizeof(key_types[0]); i++)
	{
		if (key_types[i].type != column->type || !column->stored || column->is_logical)
			continue;
		return column->type == SIM_STRING ? key_types[i].bytes * column->max_length :
			key_types[i].bytes;
	}
	return 0;
}

/* Attributes of a key must be valid for create and for update. */
static bool
check_validity(struct sim_req *req, struct sim_res *res, const struct sim_column *column)
{
	static const struct
	{
		const char *code;
		const char *what;
	}			reasons[2][2] = {
		{{"0x80090112", "create and update"}, {"0x80090110", "create"}},
		{{"0x80090111", "update"}, {NULL, NULL}}
	};
	bool		create = column->valid_for_create;
	bool		update = column->valid_for_update;

	if (create && update)
		return true;
	return sim_fail(req, res, 400, reasons[create][update].code,
					"Attribute of an entity key must be valid for %s. Atribute Name = '%s' "
					"Id = '%s'", reasons[create][update].what, column->name, column->metadata_id);
}

static bool
read_columns(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			 const struct sim_json *names, struct sim_key_def *key)
{
	const struct sim_json *name;
	int			bytes = 0;
	int			i;

	if (names == NULL || names->type != SIM_JSON_ARRAY || names->n == 0)
		return invalid_key(req, res, "An entity key must have at least one attribute.");
	if (names->n > MAX_COLUMNS)
		return invalid_key(req, res, "An entity key can have at most 16 attributes.");
	key->columns = sim_alloc(keys_of(req->sim)->arena, sizeof(*key->columns) * (size_t) names->n);
	for (name = names->child; name != NULL; name = name->next)
	{
		struct sim_column *column = name->type == SIM_JSON_STRING ?
		sim_column_by_name(table, name->s, name->len) : NULL;

		if (column == NULL)
			return invalid_key(req, res, sim_fmt(req->arena, "Entity %s does not contain an "
												 "attribute named %.*s.", table->name,
												 (int) name->len, name->s ? name->s : ""));
		if (index_bytes(column) == 0)
			return invalid_key(req, res, sim_fmt(req->arena, "Attribute %s cannot be part of an "
												 "entity key.", column->name));
		if (!check_validity(req, res, column))
			return false;
		for (i = 0; i < key->n; i++)
			if (key->columns[i] == column)
				return invalid_key(req, res, sim_fmt(req->arena, "Attribute %s is named twice.",
													 column->name));
		key->columns[key->n++] = column;
		bytes += index_bytes(column);
	}
	if (bytes > MAX_BYTES)
		return sim_fail(req, res, 400, "0x80060895", "Index size exceeded the size limit of %d "
						"bytes. The key is too large. Try removing some columns or making the "
						"strings in string columns shorter.", MAX_BYTES);
	return true;
}

/* returns the label of a DisplayName, or the schema name */
static const char *
read_label(struct sim *sim, const struct sim_json *body, const char *otherwise)
{
	const struct sim_json *label = sim_json_member(body, "DisplayName");
	const struct sim_json *list;
	const struct sim_json *first;
	const struct sim_json *text;

	if (label == NULL || label->type != SIM_JSON_OBJECT)
		return otherwise;
	list = sim_json_member(label, "LocalizedLabels");
	first = list != NULL && list->type == SIM_JSON_ARRAY ? list->child : NULL;
	if (first == NULL || first->type != SIM_JSON_OBJECT)
		return otherwise;
	text = sim_json_member(first, "Label");
	if (text == NULL || text->type != SIM_JSON_STRING)
		return otherwise;
	return sim_strndup(keys_of(sim)->arena, text->s, text->len);
}

/* Only properties of a key's definition, and annotations, are allowed. */
static bool
check_members(struct sim_req *req, struct sim_res *res, const struct sim_json *body)
{
	const struct sim_json *member;

	for (member = body->child; member != NULL; member = member->next)
	{
		if (memchr(member->key, '@', member->keylen) == NULL &&
			sim_meta_prop_of(&sim_meta_key, sim_strndup(req->arena, member->key, member->keylen),
							 member->keylen) == NULL)
			return sim_payload_fail(req, res, NULL, "Microsoft.OData.ODataException: The property "
									"'%.*s' does not exist on type 'Microsoft.Dynamics.CRM."
									"EntityKeyMetadata'.", (int) member->keylen, member->key);
	}
	return true;
}

static bool
read_name(struct sim_req *req, struct sim_res *res, struct sim_table *table,
		  const struct sim_json *body, struct sim_key_def *key)
{
	struct sim_arena *arena = keys_of(req->sim)->arena;
	const struct sim_json *json = sim_json_member(body, "SchemaName");
	char	   *name;

	key->schema_name = json != NULL && json->type == SIM_JSON_STRING ?
		sim_strndup(arena, json->s, json->len) : "";
	if (!has_prefix(key->schema_name))
		return sim_fail(req, res, 400, "0x80044366", "The schema name %s for type EntityKey is "
						"invalid or missing.Custom attribute, entity, entitykey, option set and "
						"relationship names must start with a valid customization prefix.The "
						"prefix for a solution component should match the prefix that is "
						"specified for the publisher of the solution.", key->schema_name);
	key->name = name = sim_strdup(arena, key->schema_name);
	for (; *name != '\0'; name++)
		*name = (char) tolower((unsigned char) *name);
	if (key_with_name(table, key->name) != NULL)
		return sim_fail(req, res, 400, "0x80060893",
						"An entity key with the name %s already exists on entity %s.",
						key->name, table->name);
	return true;
}

static bool
read_key(struct sim_req *req, struct sim_res *res, struct sim_table *table,
		 const struct sim_json *body, struct sim_key_def *key)
{
	if (!check_members(req, res, body) || !read_name(req, res, table, body, key) ||
		!read_columns(req, res, table, sim_json_member(body, "KeyAttributes"), key))
		return false;
	for (int i = 0; i < table->nkeys; i++)
		if (has_columns(&table->keys[i], key->columns, key->n))
			return sim_fail(req, res, 400, "0x80060894",
							"An entity key with the selected attributes already exists on entity.");
	if (table->nkeys >= SIM_MAX_KEYS)
		return invalid_key(req, res, sim_fmt(req->arena, "Entity %s already has %d entity keys.",
											 table->name, table->nkeys));
	key->label = read_label(req->sim, body, key->schema_name);
	sim_guid_random(req->sim, key->metadata_id);
	return true;
}

/* ----------
 * Requests
 * ----------
 */

bool
sim_key_create(struct sim_req *req, struct sim_res *res, struct sim_table *table)
{
	struct sim_json *body;
	struct sim_key_def key = {0};
	const char *url;

	res->kind = SIM_METADATA;
	if (!may_change(req, res, table))
		return false;
	body = sim_body_object(req, res, NULL);
	if (body == NULL || !read_key(req, res, table, body, &key))
		return false;
	open_table(req->sim, table);
	if (!start_job(req, res, table, &key))
		return false;
	table->keys[table->nkeys++] = key;
	url = sim_fmt(req->arena, "%s" SIM_ROOT "EntityDefinitions(%s)/Keys(%s)", req->base_url,
				  table->metadata_id, key.metadata_id);
	if (req->in_batch)
		sim_res_header(req, res, "Location", url);
	sim_res_header(req, res, "OData-EntityId", url);
	res->status = 204;
	return true;
}

bool
sim_key_delete(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			   const struct sim_key_def *key)
{
	int			i = (int) (key - table->keys);

	res->kind = SIM_METADATA;
	if (!may_change(req, res, table))
		return false;
	open_table(req->sim, table);
	cancel_job(req->sim, &table->keys[i]);
	if (!sim_unindex_key(req->sim->store, table, &table->keys[i]))
		return broken(req, res);
	table->nkeys--;
	memmove(&table->keys[i], &table->keys[i + 1],
			sizeof(*table->keys) * (size_t) (table->nkeys - i));
	touch(req->sim, table);
	res->status = 204;
	return true;
}

static const char *
text_member(struct sim_req *req, const struct sim_json *body, const char *name)
{
	const struct sim_json *json = sim_json_member(body, name);

	return json != NULL && json->type == SIM_JSON_STRING ?
		sim_strndup(req->arena, json->s, json->len) : NULL;
}

bool
sim_key_reactivate(struct sim_req *req, struct sim_res *res)
{
	struct sim_json *body = sim_body_object(req, res, NULL);
	const char *table_name;
	const char *key_name;
	struct sim_table *table;
	struct sim_key_def *key;

	if (body == NULL)
		return false;
	table_name = text_member(req, body, "EntityLogicalName");
	key_name = text_member(req, body, "EntityKeyLogicalName");
	if (table_name == NULL || key_name == NULL)
		return sim_fail(req, res, 400, "0x80040203",
						"Required field '%s' is missing for ReactivateEntityKey.",
						table_name == NULL ? "EntityLogicalName" : "EntityKeyLogicalName");
	table = sim_table_by_name(req->sim->schema, table_name);
	if (table == NULL)
		return sim_fail(req, res, 404, "0x80040217", "The entity with a name = '%s' was not "
						"found in the MetadataCache.", table_name);
	key = key_with_name(table, key_name);
	if (key == NULL)
		return sim_fail(req, res, 404, "0x80041140", "The specified entitykey was not found.");
	if (!may_change(req, res, table))
		return false;
	if (strcmp(key->status, phases[PHASE_FAILED].key) != 0)
		return sim_fail(req, res, 400, "0x80060897",
						"Reactivate entity key is only supported for failed job");
	open_table(req->sim, table);
	if (!start_job(req, res, table, key_with_name(table, key_name)))
		return false;
	res->status = 204;
	return true;
}

/* ----------
 * Reset and end
 * ----------
 */

void
sim_keys_free(struct sim *sim)
{
	struct sim_keys *keys = sim->keys;

	if (keys == NULL)
		return;
	while (keys->jobs != NULL)
	{
		struct key_job *job = keys->jobs;

		keys->jobs = job->next;
		free(job);
	}
	for (struct changed_table *changed = keys->tables; changed != NULL; changed = changed->next)
	{
		changed->table->keys = changed->keys;
		changed->table->nkeys = changed->nkeys;
	}
	sim->keys = NULL;
	sim_arena_free(keys->arena);
}

void
sim_keys_moved(struct sim *sim)
{
	struct key_job **link;

	if (sim->keys == NULL)
		return;
	sim->keys->tables = NULL;
	for (link = &sim->keys->jobs; *link != NULL;)
	{
		struct key_job *job = *link;

		/* the table still exists, but with the earlier schema */
		job->table = sim_table_by_name(sim->schema, job->table->name);
		if (job->table != NULL)
			link = &job->next;
		else
		{
			*link = job->next;
			free(job);
		}
	}
}

/* restores an index that the schema's key had */
static bool
restore(struct sim *sim, struct sim_table *table, const struct sim_key_def *key)
{
	bool		duplicates = false;

	if (strcmp(key->status, "Active") != 0 || table->partition != NULL)
		return true;
	return sim_index_key(sim->store, table, key, &duplicates) && !duplicates;
}

bool
sim_keys_reset(struct sim *sim)
{
	struct changed_table *changed;
	bool		ok = true;
	int			i;

	if (sim->keys == NULL)
		return true;
	for (changed = sim->keys->tables; changed != NULL; changed = changed->next)
	{
		struct sim_table *table = changed->table;

		for (i = 0; i < table->nkeys; i++)
			ok = sim_unindex_key(sim->store, table, &table->keys[i]) && ok;
		for (i = 0; i < changed->nkeys; i++)
			ok = restore(sim, table, &changed->keys[i]) && ok;
		touch(sim, table);
	}
	sim_keys_free(sim);
	return ok;
}

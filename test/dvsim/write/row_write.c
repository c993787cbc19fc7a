/*
 * row_write.c
 *		The writer: values of one object after another into SQLite.
 *
 * Decoding fills the slots of the object's plan, derivations add dependent
 * values, then the statement runs.  Constraints replace lookups: SQLite finds
 * duplicates, which become the service's errors.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "store/guid.h"
#include "write/row_plan.h"

#define TYPE_PREFIX "Microsoft.Dynamics.CRM."
#define TYPE_LEN (sizeof(TYPE_PREFIX) - 1)
#define MAX_PARTITION 1024

void
sim_writer_start(struct sim_writer *w, struct sim_req *req, struct sim_res *res,
				 struct sim_table *table, enum sim_write_mode mode)
{
	memset(w, 0, sizeof(*w));
	w->req = req;
	w->res = res;
	w->table = table;
	w->info = sim_write_info(req->sim, table);
	w->mode = mode;
	w->now = sim_unix_now(req->sim);
	w->revives = mode != SIM_WRITE_UPDATE && table->change_tracking &&
		sim_any_tombstones(req->sim->store);
}

void
sim_writer_end(struct sim_writer *w)
{
	struct sim_plan *plan;

	for (plan = w->plan; plan != NULL; plan = plan->next)
		sim_stmt_put(w->req->sim->store, plan->stmt);
	w->plan = NULL;
	w->nplans = 0;
}

static bool
decode_type(struct sim_writer *w, struct sim_json *json, struct sim_write_row *row)
{
	const char *s = json->s;
	size_t		len = json->len;
	size_t		name_len = strlen(w->table->name);

	if (json->type == SIM_JSON_STRING && len > 0 && *s == '#')
	{
		s++;
		len--;
	}
	if (json->type != SIM_JSON_STRING || len < TYPE_LEN || memcmp(s, TYPE_PREFIX, TYPE_LEN) != 0)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: A type "
								"named '%.*s' could not be resolved by the model. When a model is "
								"available, each type name must resolve to a valid type.",
								json->type == SIM_JSON_STRING ? (int) len : 0,
								json->type == SIM_JSON_STRING ? s : "");
	if (len != TYPE_LEN + name_len || memcmp(s + TYPE_LEN, w->table->name, name_len) != 0)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: A "
								"resource with type '%.*s' was found, but it is not assignable to "
								"the expected type '" TYPE_PREFIX "%s'.", (int) len, s,
								w->table->name);
	row->typed = true;
	return true;
}

static bool
decode_id(struct sim_writer *w, struct sim_json *json, struct sim_write_row *row)
{
	static const unsigned char none[16];

	if (row->has_id || json->type == SIM_JSON_NULL)
		return true;
	if (json->type != SIM_JSON_STRING || !sim_guid_parse(json->s, json->len, row->id))
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: Cannot "
								"convert the literal '%.*s' to the expected type 'Edm.Guid'.",
								json->s != NULL ? (int) json->len : 0,
								json->s != NULL ? json->s : "");
	row->has_id = memcmp(row->id, none, 16) != 0;
	return true;
}

static bool
decode_partition(struct sim_writer *w, struct sim_json *json, struct sim_write_row *row)
{
	const char *s = json->type == SIM_JSON_STRING ? json->s : "";
	size_t		len = json->type == SIM_JSON_STRING ? json->len : 0;
	size_t		i;

	if (json->type != SIM_JSON_STRING && json->type != SIM_JSON_NULL)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: Cannot "
								"convert a value to target type 'Edm.String'.");
	if (len > MAX_PARTITION)
		return sim_fail(w->req, w->res, 400, "0x80044331", "A validation error occurred.  The "
						"length of the 'partitionid' attribute of the '%s' entity exceeded the "
						"maximum allowed length of '%d'.", w->table->name, MAX_PARTITION);
	for (i = 0; i < len; i++)
		if (strchr("/<>*%&:\\?+", s[i]) != NULL)
			return sim_fail(w->req, w->res, 400, "0x80040203",
							"The value of partitionid contains characters that are not allowed.");
	if (row->has_partition &&
		(len != row->partition_len || memcmp(s, row->partition, len) != 0))
		return sim_fail(w->req, w->res, 400, "0x80040203",
						"The partitionid of an existing row cannot be changed.");
	row->has_partition = true;
	row->partition = s;
	row->partition_len = len;
	return true;
}

static bool
set_lookup(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m,
		   const unsigned char id[16], const struct sim_key *key)
{
	struct sim_value *value = &plan->slots[m->slot].value;

	if (!m->first && value->kind != SIM_V_NULL)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.Crm.CrmException: The lookup "
								"'%s' is bound to more than one row.", m->column->name);
	sim_value_set_guid(value, id);
	if (m->type_slot >= 0)
		sim_value_set_text(&plan->slots[m->type_slot].value, key->table->name,
						   strlen(key->table->name));
	if (m->pid_slot >= 0)
		sim_value_set_text(&plan->slots[m->pid_slot].value, key->partition, key->partition_len);
	return true;
}

/* the first null of a column states its target, a second one clears it in any case */
static void
clear_lookup(struct sim_plan *plan, struct sim_member *m)
{
	struct sim_value *value = &plan->slots[m->slot].value;
	bool		guarded = plan->slots[m->slot].guarded && m->target != NULL;

	if (!m->first && value->kind != SIM_V_NULL)
		return;
	value->kind = SIM_V_NULL;
	if (m->type_slot >= 0)
		plan->slots[m->type_slot].value.kind = SIM_V_NULL;
	if (m->type_slot >= 0 && guarded && m->first)
		sim_value_set_text(&plan->slots[m->type_slot].value, m->target->table->name,
						   strlen(m->target->table->name));
	if (m->pid_slot >= 0)
		plan->slots[m->pid_slot].value.kind = SIM_V_NULL;
}

static bool
required(struct sim_writer *w, const struct sim_column *column)
{
	return sim_fail(w->req, w->res, 400, "0x80040203", "Attribute: %s cannot be set to NULL",
					column->name);
}

static bool
clear_member(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m)
{
	if (m->column->required == 2)
		return required(w, m->column);
	clear_lookup(plan, m);
	return true;
}

/* returns true if this navigation property may refer to rows of that table */
static bool
is_target(const struct sim_member *m, const struct sim_table *table)
{
	int			i;

	if (m->target != NULL)
		return m->target->table == table;
	for (i = 0; i < m->column->ntargets; i++)
		if (m->column->targets[i].table == table)
			return true;
	return false;
}

static bool
decode_bind(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m,
			struct sim_json *json)
{
	struct sim_key key;
	unsigned char id[16];

	if (json->type == SIM_JSON_NULL)
		return clear_member(w, plan, m);
	if (json->type != SIM_JSON_STRING)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: The "
								"value of the 'odata.bind' property annotation of '%.*s' is not a "
								"string.", (int) m->name_len, m->key);
	if (!sim_reference_parse(w->req, w->res, json->s, json->len, &key))
		return false;
	if (!is_target(m, key.table))
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: A "
								"resource with type '" TYPE_PREFIX "%s' was found, but it is not "
								"assignable to the navigation property '%.*s'.", key.table->name,
								(int) m->name_len, m->key);
	if (!key.by_id || !m->checked || memcmp(m->last, key.id, 16) != 0 || m->target == NULL)
	{
		if (!sim_reference_resolve(w->req, w->res, &key, id))
			return false;
		memcpy(m->last, id, 16);
		m->checked = true;
	}
	return set_lookup(w, plan, m, m->last, &key);
}

/* "nav": null, or an object that is created first */
static bool
decode_navigation(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m,
				  struct sim_json *json)
{
	struct sim_write_row child = {0};
	struct sim_key key = {0};

	if (json->type == SIM_JSON_NULL)
		return clear_member(w, plan, m);
	if (json->type != SIM_JSON_OBJECT)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: A "
								"'PrimitiveValue' node with non-null value was found when trying "
								"to read the value of the property '%.*s'; however, a 'StartArray' "
								"node, a 'StartObject' node, or a 'PrimitiveValue' node with null "
								"value was expected.", (int) m->keylen, m->key);
	if (m->target == NULL || w->mode != SIM_WRITE_INSERT || w->table->type == SIM_ELASTIC ||
		m->target->table->type == SIM_ELASTIC)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: The "
								"property '%.*s' cannot be written inline by this operation.",
								(int) m->keylen, m->key);
	key.table = m->target->table;
	return sim_create_row(w->req, w->res, key.table, json, NULL, &child) &&
		set_lookup(w, plan, m, child.id, &key);
}

static bool
decode_value(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m,
			 struct sim_json *json)
{
	struct sim_value *value = &plan->slots[m->slot].value;

	if (!sim_value_from_json(w->req, w->res, m->column, json, value))
		return false;
	if (value->kind != SIM_V_NULL && w->mode == SIM_WRITE_INSERT && m->column->type == SIM_IMAGE &&
		!sim_is_primary_image(m->column))
		return sim_fail(w->req, w->res, 400, "0x80090487", "Non-primary image attribute %s of "
						"entity %s is not allowed to upload during Create operation.",
						m->column->name, w->table->name);
	if (value->kind == SIM_V_NULL && m->column->required == 2 && m->column != w->table->status &&
		m->column != w->table->state)
		return required(w, m->column);
	return true;
}

static bool
decode_member(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m,
			  struct sim_json *json, struct sim_write_row *row)
{
	switch (m->kind)
	{
		case SIM_MEMBER_VALUE:
			return decode_value(w, plan, m, json);
		case SIM_MEMBER_BIND:
			return decode_bind(w, plan, m, json);
		case SIM_MEMBER_NAVIGATION:
			return decode_navigation(w, plan, m, json);
		case SIM_MEMBER_ID:
			return decode_id(w, json, row);
		case SIM_MEMBER_PARTITION:
			return decode_partition(w, json, row);
		case SIM_MEMBER_TYPE:
			return decode_type(w, json, row);
		case SIM_MEMBER_ODATA_ID:
			row->odata_id = json;
			return true;
		default:
			return true;
	}
}

/* takes the identity of the row from the key of an upsert or update */
static void
take_key(struct sim_plan *plan, struct sim_write_row *row)
{
	const struct sim_key *key = row->key;
	int			i;

	if (key->by_id)
	{
		row->has_id = true;
		memcpy(row->id, key->id, 16);
		if (key->partition != NULL)
		{
			row->has_partition = true;
			row->partition = key->partition;
			row->partition_len = key->partition_len;
		}
		return;
	}
	for (i = 0; plan->key_slots != NULL && i < key->def->n; i++)
		if (plan->key_slots[i] >= 0)
			plan->slots[plan->key_slots[i]].value = key->values[i];
}

bool
sim_writer_decode(struct sim_writer *w, struct sim_json *object, struct sim_write_row *row)
{
	struct sim_plan *plan = sim_plan_for(w, object, row);
	struct sim_member *m;
	struct sim_json *json;

	if (plan == NULL)
		return false;
	w->current = plan;
	if (row->key != NULL)
		take_key(plan, row);
	for (json = object->child, m = plan->members; json != NULL; json = json->next, m++)
		if (!decode_member(w, plan, m, json, row))
			return false;
	if (row->partition == NULL)
		row->partition = "";
	return true;
}

static bool
derive(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row)
{
	int			i;

	for (i = 0; i < plan->nderivations; i++)
		if (!plan->derivations[i].derive(w, plan, row, &plan->derivations[i]))
			return false;
	return true;
}

/* text stays in place until the statement has run, so SQLite need not copy it */
static void
bind_slots(struct sim_plan *plan)
{
	int			i;

	for (i = 0; i < plan->nslots; i++)
	{
		const struct sim_value *v = &plan->slots[i].value;

		if (plan->slots[i].constant)
			continue;
		if (v->kind == SIM_V_TEXT)
			sqlite3_bind_text(plan->stmt, i + 1, v->s, (int) v->len, SQLITE_STATIC);
		else if (v->kind == SIM_V_BLOB)
			sqlite3_bind_blob(plan->stmt, i + 1, v->s != NULL ? v->s : (const char *) v->fixed,
							  v->s != NULL ? (int) v->len : 16, SQLITE_STATIC);
		else if (v->kind == SIM_V_INT)
			sqlite3_bind_int64(plan->stmt, i + 1, v->i);
		else
			sim_value_bind(plan->stmt, i + 1, v);
	}
}

/* ids grow, so rows are appended to their table as in the service */
static void
new_id(struct sim *sim, unsigned char id[16])
{
	static uint64_t last;
	uint64_t	now = (uint64_t) (sim->epoch_us + sim_now_us(sim));

	last = now > last ? now : last + 1;
	sim_guid_make(last, sim_random(sim), id);
}

static bool
run(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row)
{
	int			rc = sqlite3_step(plan->stmt);

	sqlite3_reset(plan->stmt);
	return rc == SQLITE_DONE || sim_constraint_fail(w, row);
}

static bool
insert_children(struct sim_writer *w, struct sim_json *object, struct sim_write_row *row)
{
	struct sim_plan *plan = w->current;
	const struct sim_member *m = plan->members;
	struct sim_json *json;

	for (json = object->child; json != NULL; json = json->next, m++)
		if ((m->kind == SIM_MEMBER_COLLECTION || m->kind == SIM_MEMBER_LINKS) &&
			!sim_write_children(w, row, m, json))
			return false;
	return true;
}

bool
sim_writer_insert(struct sim_writer *w, struct sim_json *object, struct sim_write_row *row)
{
	struct sim_plan *plan = w->current;
	struct sim *sim = w->req->sim;

	if (!row->has_id)
		new_id(sim, row->id);
	if (!derive(w, plan, row))
		return false;
	sim_value_set_guid(&plan->slots[plan->id_slot].value, row->id);
	if (plan->partition_slot >= 0)
	{
		struct sim_value *v = &plan->slots[plan->partition_slot].value;

		v->kind = SIM_V_TEXT;
		v->s = row->partition;
		v->len = row->partition_len;
	}
	if (plan->version_slot >= 0)
		sim_value_set_int(&plan->slots[plan->version_slot].value, sim_next_version(sim->store));
	w->res->session_token |= w->table->type == SIM_ELASTIC;
	if (sim->canned != NULL)
		return !plan->has_children ||
			sim_fail(w->req, w->res, 501, "0x8006088a",
					 "dvsim --canned keeps no row that others could belong to.");
	bind_slots(plan);
	if (!run(w, plan, row))
		return false;
	if (row->has_id && w->revives)
		sim_forget_tombstone(sim, w->table, row->id);
	return !plan->has_children || insert_children(w, object, row);
}

enum sim_found
sim_writer_update(struct sim_writer *w, struct sim_write_row *row)
{
	struct sim_plan *plan = w->current;
	struct sim *sim = w->req->sim;

	if (!derive(w, plan, row))
		return SIM_ERROR;
	if (plan->version_slot >= 0)
		sim_value_set_int(&plan->slots[plan->version_slot].value, sim_next_version(sim->store));
	bind_slots(plan);
	sqlite3_bind_blob(plan->stmt, plan->nslots + 1, row->id, 16, SQLITE_STATIC);
	if (w->table->partition != NULL)
		sqlite3_bind_text(plan->stmt, plan->nslots + 2, row->partition, (int) row->partition_len,
						  SQLITE_STATIC);
	if (!run(w, plan, row))
		return SIM_ERROR;
	if (sqlite3_changes(sim->store->db) == 0)
		return SIM_MISSING;
	w->res->session_token |= w->table->type == SIM_ELASTIC;
	return SIM_FOUND;
}

bool
sim_create_row(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			   struct sim_json *object, const struct sim_key *key, struct sim_write_row *row)
{
	struct sim_writer w;
	bool		ok;

	sim_writer_start(&w, req, res, table, SIM_WRITE_INSERT);
	row->key = key;
	ok = sim_writer_decode(&w, object, row) && sim_writer_insert(&w, object, row);
	sim_writer_end(&w);
	return ok;
}

bool
sim_target_identity(struct sim_req *req, struct sim_res *res, struct sim_table *table,
					struct sim_json *object, struct sim_key *key, bool *found)
{
	struct sim_json *id = sim_json_member(object, "@odata.id");
	struct sim_json *partition = NULL;

	*found = false;
	if (id != NULL && id->type == SIM_JSON_STRING)
	{
		if (!sim_reference_parse(req, res, id->s, id->len, key))
			return false;
		if (key->table != table)
			return sim_payload_fail(req, res, table, "Microsoft.OData.ODataException: The "
									"'@odata.id' '%.*s' is not a row of '%s'.",
									(int) id->len, id->s, table->set_name);
		*found = true;
	}
	else
	{
		id = sim_json_member(object, table->id->name);
		if (id == NULL || id->type == SIM_JSON_NULL)
			return true;
		memset(key, 0, sizeof(*key));
		key->table = table;
		key->by_id = true;
		if (id->type != SIM_JSON_STRING || !sim_guid_parse(id->s, id->len, key->id))
			return sim_payload_fail(req, res, table, "Microsoft.OData.ODataException: Cannot "
									"convert the literal '%.*s' to the expected type 'Edm.Guid'.",
									id->s != NULL ? (int) id->len : 0, id->s != NULL ? id->s : "");
		*found = true;
	}
	if (table->partition != NULL && key->by_id && key->partition == NULL)
		partition = sim_json_member(object, "partitionid");
	if (partition != NULL && partition->type == SIM_JSON_STRING)
	{
		key->partition = partition->s;
		key->partition_len = partition->len;
	}
	return true;
}

/*
 * row_plan.c
 *		From the members of an object to columns and SQL.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>

#include "write/row_plan.h"

#define MAX_PLANS 16
#define BIND_SUFFIX "@odata.bind"
#define BIND_LEN (sizeof(BIND_SUFFIX) - 1)

int
sim_slot_find(const struct sim_plan *plan, const struct sim_column *column, const char *suffix)
{
	int			i;

	for (i = 0; i < plan->nslots; i++)
		if (plan->slots[i].column == column && strcmp(plan->slots[i].suffix, suffix) == 0)
			return i;
	return -1;
}

int
sim_slot_add(struct sim_writer *w, struct sim_plan *plan, struct sim_column *column,
			 const char *suffix)
{
	struct sim_slot *slot;

	if (plan->nslots == plan->maxslots)
	{
		struct sim_slot *old = plan->slots;

		plan->maxslots = plan->maxslots * 2 + 32;
		plan->slots = sim_alloc(w->req->arena, sizeof(*old) * plan->maxslots);
		if (plan->nslots > 0)
			memcpy(plan->slots, old, sizeof(*old) * plan->nslots);
	}
	slot = &plan->slots[plan->nslots];
	slot->column = column;
	slot->suffix = suffix;
	return plan->nslots++;
}

static bool
in_key(const struct sim_key_def *def, const struct sim_column *column)
{
	int			i;

	for (i = 0; def != NULL && i < def->n; i++)
		if (def->columns[i] == column)
			return true;
	return false;
}

/* returns true if this operation writes the column */
static bool
writable(const struct sim_writer *w, const struct sim_plan *plan, const struct sim_column *column)
{
	if (!column->stored || column->formula != NULL || column->type == SIM_FILE)
		return false;
	if (w->mode == SIM_WRITE_UPDATE)
		return column->valid_for_update && !in_key(plan->def, column);
	return column->valid_for_create;
}

static bool
duplicate(struct sim_writer *w, const struct sim_member *m)
{
	return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: Multiple "
							"properties with the name '%.*s' were detected in a resource or a "
							"complex value. In OData, duplicate property names are not allowed.",
							(int) m->keylen, m->key);
}

static bool
is_lookup(const struct sim_column *column)
{
	return column->type == SIM_LOOKUP || column->type == SIM_CUSTOMER || column->type == SIM_OWNER;
}

/* the column beside a lookup that keeps the partition of elastic rows, or NULL */
static struct sim_column *
partition_helper(struct sim_writer *w, const struct sim_column *column)
{
	char		name[256];
	int			i;

	for (i = 0; i < column->ntargets; i++)
	{
		if (column->targets[i].table->type != SIM_ELASTIC)
			continue;
		snprintf(name, sizeof(name), "%spid", column->name);
		return sim_column_by_name(w->table, name, strlen(name));
	}
	return NULL;
}

/* a body may itself set the partition of a lookup: then the bind leaves it alone */
static bool
take_over_pid(struct sim_plan *plan, struct sim_member *m, int slot)
{
	struct sim_member *other;

	for (other = plan->members; other != m; other++)
	{
		if (slot >= 0 && other->pid_slot == slot)
		{
			other->pid_slot = -1;
			m->kind = SIM_MEMBER_VALUE;
			m->slot = slot;
			return true;
		}
	}
	return false;
}

static bool
plan_column(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m)
{
	struct sim_column *column = m->column;

	if (is_lookup(column))
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.Crm.CrmException: CRM do not "
								"support direct update of Entity Reference properties, Use "
								"Navigation properties instead.");
	if (column->primary_id)
		m->kind = w->mode == SIM_WRITE_UPDATE ? SIM_MEMBER_SKIP : SIM_MEMBER_ID;
	else if (column == w->table->partition)
		m->kind = SIM_MEMBER_PARTITION;
	else if (!writable(w, plan, column))
		m->kind = SIM_MEMBER_SKIP;
	else
	{
		if (sim_slot_find(plan, column, "") >= 0)
			return take_over_pid(plan, m, sim_slot_find(plan, column, "")) || duplicate(w, m);
		m->kind = SIM_MEMBER_VALUE;
		m->slot = sim_slot_add(w, plan, column, "");
	}
	return true;
}

static void
plan_lookup(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m,
			enum sim_member_kind kind)
{
	struct sim_column *column = m->column;
	struct sim_column *helper = partition_helper(w, column);

	if (!writable(w, plan, column))
	{
		m->kind = SIM_MEMBER_SKIP;
		return;
	}
	m->kind = kind;
	m->slot = sim_slot_find(plan, column, "");
	m->first = m->slot < 0;
	if (m->first)
	{
		m->slot = sim_slot_add(w, plan, column, "");
		if (column->ntargets > 1)
			sim_slot_add(w, plan, column, ".type");
		if (helper != NULL && sim_slot_find(plan, helper, "") < 0)
			m->pid_slot = sim_slot_add(w, plan, helper, "");
		plan->slots[m->slot].guarded = column->ntargets > 1 && w->mode == SIM_WRITE_UPDATE;
	}
	m->type_slot = sim_slot_find(plan, column, ".type");
}

static bool
is_collection(struct sim_writer *w, const char *name, size_t len)
{
	return sim_collection_by_name(w->table, name, len) != NULL ||
		sim_many_by_name(w->table, name, len) != NULL;
}

static bool
plan_collection(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m,
				enum sim_member_kind kind)
{
	if (w->mode != SIM_WRITE_INSERT || w->table->type == SIM_ELASTIC)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: The "
								"property '%.*s' cannot be written inline by this operation.",
								(int) m->name_len, m->key);
	m->kind = kind;
	plan->has_children = true;
	return true;
}

static bool
undeclared(struct sim_writer *w, const struct sim_member *m)
{
	return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: An "
							"undeclared property '%.*s' which only has property annotations in the "
							"payload but no property value was found in the payload. In OData, "
							"only declared navigation properties and declared named streams can "
							"be represented as properties without values.",
							(int) m->name_len, m->key);
}

static bool
plan_annotation(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m)
{
	if (m->name_len == 0)
	{
		if (m->keylen == 11 && memcmp(m->key, "@odata.type", 11) == 0)
			m->kind = SIM_MEMBER_TYPE;
		else if (m->keylen == 9 && memcmp(m->key, "@odata.id", 9) == 0)
			m->kind = SIM_MEMBER_ODATA_ID;
		return true;
	}
	m->column = sim_column_by_navigation(w->table, m->key, m->name_len, &m->target);
	if (m->keylen - m->name_len == BIND_LEN &&
		memcmp(m->key + m->name_len, BIND_SUFFIX, BIND_LEN) == 0)
	{
		if (m->column == NULL)
			return is_collection(w, m->key, m->name_len) ?
				plan_collection(w, plan, m, SIM_MEMBER_LINKS) : undeclared(w, m);
		plan_lookup(w, plan, m, SIM_MEMBER_BIND);
		return true;
	}
	if (m->column == NULL && sim_column_by_property(w->table, m->key, m->name_len) == NULL &&
		!is_collection(w, m->key, m->name_len))
		return undeclared(w, m);
	return true;
}

static bool
plan_member(struct sim_writer *w, struct sim_plan *plan, struct sim_member *m)
{
	const char *at = memchr(m->key, '@', m->keylen);

	m->slot = m->type_slot = m->pid_slot = -1;
	m->name_len = at != NULL ? (uint32_t) (at - m->key) : m->keylen;
	if (at != NULL)
		return plan_annotation(w, plan, m);
	m->column = sim_column_by_property(w->table, m->key, m->keylen);
	if (m->column != NULL)
		return plan_column(w, plan, m);
	m->column = sim_column_by_navigation(w->table, m->key, m->keylen, &m->target);
	if (m->column != NULL)
	{
		plan_lookup(w, plan, m, SIM_MEMBER_NAVIGATION);
		return true;
	}
	if (is_collection(w, m->key, m->keylen))
		return plan_collection(w, plan, m, SIM_MEMBER_COLLECTION);
	return sim_payload_fail(w->req, w->res, w->table, "Microsoft.Crm.CrmException: Invalid "
							"property '%.*s' was found in entity 'Microsoft.Dynamics.CRM.%s'. "
							"---> Microsoft.OData.ODataException: The property '%.*s' does not "
							"exist on type 'Microsoft.Dynamics.CRM.%s'. Make sure to only use "
							"property names that are defined by the type.", (int) m->keylen, m->key,
							w->table->name, (int) m->keylen, m->key, w->table->name);
}

/* columns of the alternate key of an upsert, unless the body has them */
static void
plan_key(struct sim_writer *w, struct sim_plan *plan)
{
	int			i;

	if (plan->def == NULL || w->mode == SIM_WRITE_UPDATE)
		return;
	plan->key_slots = sim_alloc(w->req->arena, sizeof(int) * plan->def->n);
	for (i = 0; i < plan->def->n; i++)
	{
		struct sim_column *column = plan->def->columns[i];

		plan->key_slots[i] = -1;
		if (sim_slot_find(plan, column, "") < 0)
			plan->key_slots[i] = sim_slot_add(w, plan, column, "");
	}
}

static void
put_name(struct sim_buf *sql, const struct sim_slot *slot)
{
	sim_putc(sql, '"');
	sim_puts(sql, slot->column->name);
	sim_puts(sql, slot->suffix);
	sim_putc(sql, '"');
}

static void
insert_sql(struct sim_writer *w, struct sim_plan *plan, struct sim_buf *sql)
{
	int			i;

	sim_puts(sql, w->mode == SIM_WRITE_REPLACE ? "INSERT OR REPLACE INTO \"" : "INSERT INTO \"");
	sim_puts(sql, w->table->name);
	sim_puts(sql, "\"(");
	for (i = 0; i < plan->nslots; i++)
	{
		if (i > 0)
			sim_putc(sql, ',');
		put_name(sql, &plan->slots[i]);
	}
	sim_puts(sql, ") VALUES (?");
	for (i = 1; i < plan->nslots; i++)
		sim_puts(sql, ",?");
	sim_putc(sql, ')');
}

/*
 * A null bind of a polymorphic lookup clears the column only while it points
 * to a row of that property's target: parameter "slot + 1" is the type.
 */
static void
guarded_sql(struct sim_plan *plan, int slot, struct sim_buf *sql)
{
	const char *name = plan->slots[slot].column->name;
	int			v = slot + 1;
	int			t = slot + 2;

	sim_putf(sql, "\"%s\"=CASE WHEN ?%d IS NULL AND ?%d IS NOT NULL AND \"%s.type\" IS NOT ?%d "
			 "THEN \"%s\" ELSE ?%d END,", name, v, t, name, t, name, v);
	sim_putf(sql, "\"%s.type\"=CASE WHEN ?%d IS NOT NULL THEN ?%d WHEN ?%d IS NOT NULL AND "
			 "\"%s.type\" IS NOT ?%d THEN \"%s.type\" END", name, v, t, t, name, t, name);
}

static void
update_sql(struct sim_writer *w, struct sim_plan *plan, struct sim_buf *sql)
{
	int			i;

	sim_putf(sql, "UPDATE \"%s\" SET ", w->table->name);
	for (i = 0; i < plan->nslots; i++)
	{
		if (i > 0)
			sim_putc(sql, ',');
		if (plan->slots[i].guarded)
			guarded_sql(plan, i++, sql);
		else
		{
			put_name(sql, &plan->slots[i]);
			sim_putf(sql, "=?%d", i + 1);
		}
	}
	if (plan->nslots == 0)
		sim_putf(sql, "\"%s\"=\"%s\"", w->table->id->name, w->table->id->name);
	sim_putf(sql, " WHERE \"%s\"=?%d", w->table->id->name, plan->nslots + 1);
	if (w->table->partition != NULL)
		sim_putf(sql, " AND \"partitionid\"=?%d", plan->nslots + 2);
}

static bool
plan_statement(struct sim_writer *w, struct sim_plan *plan)
{
	struct sim_buf sql = {0};
	int			i;

	if (w->mode == SIM_WRITE_UPDATE)
		update_sql(w, plan, &sql);
	else
		insert_sql(w, plan, &sql);
	plan->stmt = sim_stmt_get(w->req->sim->store, sql.s);
	sim_buf_free(&sql);
	if (plan->stmt == NULL)
		return sim_fail(w->req, w->res, 500, "0x80040216", "An unexpected error occurred.");
	for (i = 0; i < plan->nslots; i++)
		if (plan->slots[i].constant)
			sim_value_bind(plan->stmt, i + 1, &plan->slots[i].value);
	return true;
}

static struct sim_plan *
make_plan(struct sim_writer *w, struct sim_json *object, struct sim_key_def *def)
{
	struct sim_plan *plan = sim_alloc(w->req->arena, sizeof(*plan));
	struct sim_json *json;
	struct sim_member *m;

	plan->def = def;
	plan->id_slot = plan->partition_slot = plan->version_slot = -1;
	plan->members = sim_alloc(w->req->arena, sizeof(struct sim_member) * (object->n + 1));
	plan->nmembers = object->n;
	for (json = object->child, m = plan->members; json != NULL; json = json->next, m++)
	{
		m->key = json->key;
		m->keylen = json->keylen;
		if (!plan_member(w, plan, m))
			return NULL;
	}
	plan_key(w, plan);
	sim_plan_system(w, plan);
	return plan_statement(w, plan) ? plan : NULL;
}

static bool
plan_fits(const struct sim_plan *plan, const struct sim_json *object,
		  const struct sim_key_def *def)
{
	const struct sim_member *m = plan->members;
	const struct sim_json *json;

	if (plan->nmembers != object->n || plan->def != def)
		return false;
	for (json = object->child; json != NULL; json = json->next, m++)
		if (m->keylen != json->keylen || memcmp(m->key, json->key, m->keylen) != 0)
			return false;
	return true;
}

/* removes the oldest plan if there are too many: bodies may have any shape */
static void
drop_oldest(struct sim_writer *w)
{
	struct sim_plan **link = &w->plan;

	while ((*link)->next != NULL)
		link = &(*link)->next;
	sim_stmt_put(w->req->sim->store, (*link)->stmt);
	*link = NULL;
	w->nplans--;
}

struct sim_plan *
sim_plan_for(struct sim_writer *w, struct sim_json *object, const struct sim_write_row *row)
{
	struct sim_key_def *def = row->key != NULL && !row->key->by_id ? row->key->def : NULL;
	struct sim_plan **link;
	struct sim_plan *plan;

	for (link = &w->plan; (plan = *link) != NULL; link = &plan->next)
	{
		if (plan_fits(plan, object, def))
		{
			*link = plan->next;
			break;
		}
	}
	if (plan == NULL)
	{
		plan = make_plan(w, object, def);
		if (plan == NULL)
			return NULL;
		if (++w->nplans > MAX_PLANS)
			drop_oldest(w);
	}
	plan->next = w->plan;
	w->plan = plan;
	return plan;
}

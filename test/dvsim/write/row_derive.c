/*
 * row_derive.c
 *		Columns that a write sets beyond the members of its body: audit,
 *		owner, state, currency, defaults, numbers.
 *
 * Each rule adds its slots to the plan.  A value common to all rows is a
 * constant; one that depends on a row's own values is a derivation.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>

#include "wire/auth.h"
#include "store/decimal.h"
#include "store/guid.h"
#include "write/row_plan.h"

void
sim_value_set_int(struct sim_value *value, int64_t i)
{
	value->kind = SIM_V_INT;
	value->i = i;
}

void
sim_value_set_text(struct sim_value *value, const char *s, size_t len)
{
	value->kind = len > 0 ? SIM_V_TEXT : SIM_V_NULL;
	value->s = s;
	value->len = len;
}

void
sim_value_set_guid(struct sim_value *value, const unsigned char id[16])
{
	value->kind = SIM_V_BLOB;
	value->s = NULL;
	value->len = 16;
	memcpy(value->fixed, id, 16);
}

/* adds a slot that the members do not have; NULL if they do, or there is no such column */
static struct sim_value *
new_slot(struct sim_writer *w, struct sim_plan *plan, struct sim_column *column,
		 const char *suffix, bool constant)
{
	int			slot;

	if (column == NULL || sim_slot_find(plan, column, suffix) >= 0)
		return NULL;
	slot = sim_slot_add(w, plan, column, suffix);
	plan->slots[slot].constant = constant;
	return &plan->slots[slot].value;
}

static void
constant_int(struct sim_writer *w, struct sim_plan *plan, struct sim_column *column, int64_t i)
{
	struct sim_value *value = new_slot(w, plan, column, "", true);

	if (value != NULL)
		sim_value_set_int(value, i);
}

static void
constant_text(struct sim_writer *w, struct sim_plan *plan, struct sim_column *column,
			  const char *suffix, const char *s)
{
	struct sim_value *value = new_slot(w, plan, column, suffix, true);

	if (value != NULL)
		sim_value_set_text(value, s, strlen(s));
}

/* "id" as text; NULL for null.  "type" is set if the lookup has several targets. */
static void
constant_lookup(struct sim_writer *w, struct sim_plan *plan, struct sim_column *column,
				const char *id, const char *type)
{
	unsigned char bytes[16];
	struct sim_value *value = new_slot(w, plan, column, "", true);

	if (value == NULL)
		return;
	if (id == NULL || !sim_guid_parse(id, strlen(id), bytes))
		return;
	sim_value_set_guid(value, bytes);
	if (column->ntargets > 1)
		constant_text(w, plan, column, ".type", type);
}

static void
add_derivation(struct sim_plan *plan,
			   bool (*derive) (struct sim_writer *, struct sim_plan *, struct sim_write_row *,
							   const struct sim_derivation *),
			   struct sim_column *column, int from, int to)
{
	struct sim_derivation *d;

	if (plan->nderivations == SIM_MAX_DERIVATIONS)
		return;
	d = &plan->derivations[plan->nderivations++];
	d->derive = derive;
	d->column = column;
	d->from = from;
	d->to = to;
}

static struct sim_value *
value_at(struct sim_plan *plan, int slot)
{
	return &plan->slots[slot].value;
}

/* returns the user on whose behalf the request acts */
static const char *
real_caller(struct sim_writer *w)
{
	const struct sim_user *user = w->req->user;

	if (user == NULL || strcmp(user->systemuser_id, w->req->user_id) == 0)
		return NULL;
	return user->systemuser_id;
}

/* overriddencreatedon: its value becomes createdon, the true time takes its place */
static bool
derive_created(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row,
			   const struct sim_derivation *d)
{
	struct sim_value *given = value_at(plan, d->from);
	struct sim_value *created = value_at(plan, d->to);

	(void) row;
	if (given->kind == SIM_V_NULL)
		sim_value_set_int(created, w->now);
	else
	{
		*created = *given;
		sim_value_set_int(given, w->now);
	}
	return true;
}

static void
plan_audit(struct sim_writer *w, struct sim_plan *plan)
{
	struct sim_write_info *info = w->info;
	const char *user = w->req->user_id;
	const char *caller = real_caller(w);

	if (w->mode != SIM_WRITE_UPDATE || w->table->bumps_modifiedon)
		constant_int(w, plan, info->modified_on, w->now);
	constant_lookup(w, plan, info->modified_by, user, "systemuser");
	constant_lookup(w, plan, info->modified_on_behalf, caller, "systemuser");
	if (w->mode == SIM_WRITE_UPDATE)
		return;
	constant_lookup(w, plan, info->created_by, user, "systemuser");
	constant_lookup(w, plan, info->created_on_behalf, caller, "systemuser");
	if (w->table->created_on != NULL)
	{
		int			given = -1;

		if (info->overridden != NULL)
			given = sim_slot_find(plan, info->overridden, "");
		if (given < 0)
			constant_int(w, plan, w->table->created_on, w->now);
		else if (new_slot(w, plan, w->table->created_on, "", false) != NULL)
			add_derivation(plan, derive_created, NULL, given, plan->nslots - 1);
	}
}

/* owninguser or owningteam follows the owner; slots d->to and d->to + 1 */
static bool
derive_owner(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row,
			 const struct sim_derivation *d)
{
	struct sim_value *owner = value_at(plan, d->from);
	struct sim_value *type = value_at(plan, d->from + 1);
	bool		team = type->kind == SIM_V_TEXT && type->len == 4 &&
	memcmp(type->s, "team", 4) == 0;

	(void) row;
	if (owner->kind == SIM_V_NULL)
		return sim_fail(w->req, w->res, 400, "0x80040203",
						"Attribute: ownerid cannot be set to NULL");
	*value_at(plan, d->to) = *owner;
	*value_at(plan, d->to + 1) = *owner;
	value_at(plan, team ? d->to : d->to + 1)->kind = SIM_V_NULL;
	return true;
}

static void
plan_owner(struct sim_writer *w, struct sim_plan *plan)
{
	struct sim_write_info *info = w->info;
	struct sim_column *owner = w->table->owner;
	int			given;

	if (w->mode != SIM_WRITE_UPDATE)
		constant_lookup(w, plan, info->organization, w->req->sim->organization_id, "organization");
	if (owner == NULL)
		return;
	given = sim_slot_find(plan, owner, "");
	if (given >= 0)
	{
		if (info->owning_user != NULL && info->owning_team != NULL &&
			sim_slot_find(plan, owner, ".type") == given + 1 &&
			new_slot(w, plan, info->owning_user, "", false) != NULL &&
			new_slot(w, plan, info->owning_team, "", false) != NULL)
			add_derivation(plan, derive_owner, owner, given, plan->nslots - 2);
	}
	else if (w->mode != SIM_WRITE_UPDATE)
	{
		constant_lookup(w, plan, owner, w->req->user_id, "systemuser");
		constant_lookup(w, plan, info->owning_user, w->req->user_id, "systemuser");
	}
	if (w->mode != SIM_WRITE_UPDATE)
		constant_lookup(w, plan, info->owning_unit, w->req->sim->business_unit_id, "businessunit");
}

static int
default_state(const struct sim_table *table)
{
	if (table->state->has_default)
		return table->state->default_value;
	return table->state->options != NULL && table->state->options->n > 0 ?
		table->state->options->options[0].value : 0;
}

static int
default_status(const struct sim_table *table, int state)
{
	const struct sim_option_set *set = table->status->options;
	int			first = 0;
	int			i;

	for (i = set->n - 1; i >= 0; i--)
	{
		if (set->options[i].state != state)
			continue;
		if (set->options[i].is_default)
			return set->options[i].value;
		first = set->options[i].value;
	}
	return first;
}

/* refuses a status that does not belong to the state */
static bool
check_status(struct sim_writer *w, struct sim_write_row *row, int64_t status, int64_t state)
{
	struct sim_option *status_option = sim_option_by_value(w->table->status->options, (int) status);
	struct sim_option *state_option = sim_option_by_value(w->table->state->options, (int) state);
	char		id[37] = "";

	if (status_option != NULL && status_option->state == state)
		return true;
	sim_guid_print(row->id, id);
	return sim_fail(w->req, w->res, 400, "0x80048408",
					"%lld is not a valid status code for state code %sState.%s on %s with Id %s.",
					(long long) status, w->table->schema_name,
					state_option != NULL ? state_option->label : "", w->table->name, id);
}

static bool
derive_new_status(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row,
				  const struct sim_derivation *d)
{
	struct sim_value *status = value_at(plan, d->from);
	int			state = default_state(w->table);

	if (status->kind == SIM_V_NULL)
		sim_value_set_int(status, default_status(w->table, state));
	return check_status(w, row, status->i, state);
}

/* statecode came, with or without statuscode (slot d->to) */
static bool
derive_state(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row,
			 const struct sim_derivation *d)
{
	struct sim_value *state = value_at(plan, d->from);
	struct sim_value *status = value_at(plan, d->to);

	if (state->kind == SIM_V_NULL)
		return sim_fail(w->req, w->res, 400, "0x80040203",
						"Attribute: statecode cannot be set to NULL");
	if (d->column == NULL || status->kind == SIM_V_NULL)
		sim_value_set_int(status, default_status(w->table, (int) state->i));
	return check_status(w, row, status->i, state->i);
}

/* the named columns of the row that is being updated; false when it is missing */
static bool
current_values(struct sim_writer *w, struct sim_write_row *row, const char *columns,
			   sqlite3_stmt **stmt)
{
	struct sim_table *t = w->table;
	char	   *sql = sim_fmt(w->req->arena, "SELECT %s FROM \"%s\" WHERE \"%s\"=?1%s", columns,
							  t->name, t->id->name,
							  t->partition != NULL ? " AND \"partitionid\"=?2" : "");

	*stmt = sim_stmt_get(w->req->sim->store, sql);
	if (*stmt == NULL)
		return false;
	sqlite3_bind_blob(*stmt, 1, row->id, 16, SQLITE_STATIC);
	if (t->partition != NULL)
		sqlite3_bind_text(*stmt, 2, row->partition, (int) row->partition_len, SQLITE_STATIC);
	if (sqlite3_step(*stmt) == SQLITE_ROW)
		return true;
	sim_stmt_put(w->req->sim->store, *stmt);
	return false;
}

/* statuscode alone must fit the row's state */
static bool
derive_status(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row,
			  const struct sim_derivation *d)
{
	struct sim_value *status = value_at(plan, d->from);
	sqlite3_stmt *stmt;
	int64_t		state;

	if (!current_values(w, row, "\"statecode\"", &stmt))
		return true;			/* the update will miss it */
	state = sqlite3_column_int64(stmt, 0);
	sim_stmt_put(w->req->sim->store, stmt);
	if (status->kind == SIM_V_NULL)
		sim_value_set_int(status, default_status(w->table, (int) state));
	return check_status(w, row, status->i, state);
}

static void
plan_state(struct sim_writer *w, struct sim_plan *plan)
{
	struct sim_table *t = w->table;
	int			state,
				status;

	if (t->state == NULL || t->status == NULL || t->status->options == NULL)
		return;
	state = sim_slot_find(plan, t->state, "");
	status = sim_slot_find(plan, t->status, "");
	if (w->mode != SIM_WRITE_UPDATE)
	{
		constant_int(w, plan, t->state, default_state(t));
		if (status >= 0)
			add_derivation(plan, derive_new_status, NULL, status, -1);
		else
			constant_int(w, plan, t->status, default_status(t, default_state(t)));
	}
	else if (state >= 0 && status >= 0)
		add_derivation(plan, derive_state, t->status, state, status);
	else if (state >= 0)
	{
		new_slot(w, plan, t->status, "", false);
		add_derivation(plan, derive_state, NULL, state, plan->nslots - 1);
	}
	else if (status >= 0)
		add_derivation(plan, derive_status, NULL, status, -1);
}

static void
set_rate(struct sim_value *value, const unsigned char rate[16])
{
	value->kind = SIM_V_BLOB;
	value->s = NULL;
	value->len = 16;
	memcpy(value->fixed, rate, 16);
}

static void
set_rate_of_one(struct sim_value *value)
{
	unsigned char one[16];

	sim_dec_pack((sim_dec) 10000000000LL, one);
	set_rate(value, one);
}

/* a row with a currency gets its current exchange rate */
static bool
derive_rate(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row,
			const struct sim_derivation *d)
{
	const struct sim_value *currency = value_at(plan, d->from);
	struct sim_value *value = value_at(plan, d->to);
	struct sim_store *store = w->req->sim->store;
	sqlite3_stmt *stmt;

	(void) row;
	set_rate_of_one(value);
	stmt = sim_stmt_get(store, "SELECT \"exchangerate\" FROM \"transactioncurrency\" "
						"WHERE \"transactioncurrencyid\"=?1");
	if (stmt == NULL)
		return true;
	sim_value_bind(stmt, 1, currency);
	if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == 16)
		set_rate(value, sqlite3_column_blob(stmt, 0));
	sim_stmt_put(store, stmt);
	return true;
}

/* rows without a currency get the organization's, whose rate is 1 */
static void
plan_base_currency(struct sim_writer *w, struct sim_plan *plan)
{
	struct sim_write_info *info = w->info;
	struct sim_value *value = new_slot(w, plan, info->exchange_rate, "", true);
	sqlite3_stmt *stmt;

	if (value != NULL)
		set_rate_of_one(value);
	if (info->currency == NULL)
		return;
	stmt = sim_stmt_get(w->req->sim->store, "SELECT \"basecurrencyid\" FROM \"organization\" LIMIT 1");
	if (stmt == NULL)
		return;
	if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == 16)
	{
		value = new_slot(w, plan, info->currency, "", true);
		sim_value_set_guid(value, sqlite3_column_blob(stmt, 0));
	}
	sim_stmt_put(w->req->sim->store, stmt);
}

/* a row with money has a currency */
static void
plan_money(struct sim_writer *w, struct sim_plan *plan)
{
	struct sim_write_info *info = w->info;
	int			currency = info->currency ? sim_slot_find(plan, info->currency, "") : -1;
	bool		any = false;
	int			i;

	if (currency >= 0)
	{
		if (new_slot(w, plan, info->exchange_rate, "", false) != NULL)
			add_derivation(plan, derive_rate, NULL, currency,
						   sim_slot_find(plan, info->exchange_rate, ""));
		return;
	}
	for (i = 0; i < plan->nslots && !any; i++)
		any = plan->slots[i].column->type == SIM_MONEY;
	if (any && w->mode != SIM_WRITE_UPDATE)
		plan_base_currency(w, plan);
}

/* {SEQNUM:n}, {RANDSTRING:n} and {DATETIMEUTC:…} of an auto-number format */
static const char *
put_number_part(struct sim_writer *w, struct sim_buf *out, const char *p, int64_t sequence)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	const char *colon = strchr(p, ':');
	const char *end = strchr(p, '}');
	int			width = 0;
	int			i;

	if (end == NULL)
		return p + strlen(p);
	if (colon != NULL && colon < end)
		sscanf(colon + 1, "%d", &width);
	if (width < 0 || width > 16)
		width = 16;
	if (strncmp(p, "{SEQNUM", 7) == 0)
		sim_putf(out, "%0*lld", width, (long long) sequence);
	else if (strncmp(p, "{RANDSTRING", 11) == 0)
		for (i = 0; i < width; i++)
			sim_putc(out, letters[sim_random(w->req->sim) % (sizeof(letters) - 1)]);
	else if (strncmp(p, "{DATETIMEUTC", 12) == 0)
		sim_time_print(out, w->now, true);
	return end + 1;
}

static int64_t
next_number(struct sim_writer *w)
{
	static struct sim_store *of;
	static int64_t sequence;

	if (of != w->req->sim->store)
	{
		of = w->req->sim->store;
		sequence = 1000 + sim_row_count(of, w->table);
	}
	return ++sequence;
}

static bool
derive_number(struct sim_writer *w, struct sim_plan *plan, struct sim_write_row *row,
			  const struct sim_derivation *d)
{
	struct sim_value *value = value_at(plan, d->to);
	const char *p = d->column->autonumber_format;
	struct sim_buf out = {0};
	int64_t		sequence;

	(void) row;
	if (d->from >= 0 && value->kind != SIM_V_NULL)
		return true;
	if (p == NULL || *p == '\0')
		p = "{SEQNUM:5}";
	sequence = next_number(w);
	while (*p != '\0')
	{
		if (*p == '{')
			p = put_number_part(w, &out, p, sequence);
		else
			sim_putc(&out, *p++);
	}
	sim_value_set_text(value, sim_strndup(w->req->arena, out.s != NULL ? out.s : "", out.len),
					   out.len);
	sim_buf_free(&out);
	return true;
}

/* server-side defaults of a create, and auto-numbers */
static void
plan_defaults(struct sim_writer *w, struct sim_plan *plan)
{
	int			i;

	for (i = 0; i < w->table->ncolumns; i++)
	{
		struct sim_column *column = &w->table->columns[i];
		int			given;

		if (!column->stored || column->formula != NULL)
			continue;
		if (column->autonumber)
		{
			given = sim_slot_find(plan, column, "");
			if (given < 0)
				new_slot(w, plan, column, "", false);
			add_derivation(plan, derive_number, column, given,
						   given >= 0 ? given : plan->nslots - 1);
		}
		else if (column->has_default && column != w->table->state && column != w->table->status)
			constant_int(w, plan, column, column->default_value);
	}
}

static void
plan_identity(struct sim_writer *w, struct sim_plan *plan)
{
	struct sim_table *t = w->table;

	if (t->version != NULL && new_slot(w, plan, t->version, "", false) != NULL)
		plan->version_slot = plan->nslots - 1;
	if (w->mode == SIM_WRITE_UPDATE)
		return;
	plan->id_slot = sim_slot_find(plan, t->id, "");
	if (plan->id_slot < 0)
		plan->id_slot = sim_slot_add(w, plan, t->id, "");
	if (t->partition != NULL)
		plan->partition_slot = sim_slot_add(w, plan, t->partition, "");
}

void
sim_plan_system(struct sim_writer *w, struct sim_plan *plan)
{
	plan_identity(w, plan);
	plan_audit(w, plan);
	plan_owner(w, plan);
	plan_state(w, plan);
	plan_money(w, plan);
	if (w->mode != SIM_WRITE_UPDATE)
		plan_defaults(w, plan);
}

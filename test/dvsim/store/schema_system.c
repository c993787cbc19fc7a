/*
 * schema_system.c
 *		The columns that the service gives to every table by its kind.
 *
 * Their names, flags and relationships are those of the service.  A column
 * that the schema file declares itself is left as it is.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/schema_build.h"

#include <string.h>

/* the tables that have a column */
#define FOR_AUDITED		1		/* all but bare ones */
#define FOR_DATA		2		/* not the service's own tables */
#define FOR_USER_OWNED	4
#define FOR_ELASTIC		8
#define FOR_VERSIONED	16		/* all but virtual ones */
#define FOR_MONEY		32

struct system_column
{
	const char *schema_name;
	enum sim_type type;
	int			where;
	bool		create;
	bool		update;
	const char *min;			/* integers */
	const char *target;			/* lookups */
	const char *custom_relationship;	/* of custom tables; "%" is the logical name */
	const char *relationship;	/* of others; "%" the logical name, "+" the set */
	enum sim_cascade on_delete;
};

static const struct system_column system_columns[] = {
	{"CreatedOn", SIM_DATETIME, FOR_AUDITED, false, false, NULL, NULL, NULL, NULL, 0},
	{"CreatedBy", SIM_LOOKUP, FOR_AUDITED, false, false, NULL, "systemuser",
	"lk_%_createdby", "lk_%base_createdby", SIM_REMOVE_LINK},
	{"CreatedOnBehalfBy", SIM_LOOKUP, FOR_AUDITED, false, false, NULL, "systemuser",
	"lk_%_createdonbehalfby", "lk_%base_createdonbehalfby", SIM_REMOVE_LINK},
	{"ModifiedOn", SIM_DATETIME, FOR_AUDITED, false, false, NULL, NULL, NULL, NULL, 0},
	{"ModifiedBy", SIM_LOOKUP, FOR_AUDITED, false, false, NULL, "systemuser",
	"lk_%_modifiedby", "lk_%base_modifiedby", SIM_REMOVE_LINK},
	{"ModifiedOnBehalfBy", SIM_LOOKUP, FOR_AUDITED, false, false, NULL, "systemuser",
	"lk_%_modifiedonbehalfby", "lk_%base_modifiedonbehalfby", SIM_REMOVE_LINK},
	{"OwningBusinessUnit", SIM_LOOKUP, FOR_USER_OWNED, false, false, NULL, "businessunit",
	"business_unit_%", "business_unit_+", SIM_RESTRICT},
	{"OwningTeam", SIM_LOOKUP, FOR_USER_OWNED, false, false, NULL, "team",
	"team_%", "team_+", SIM_REMOVE_LINK},
	{"OwningUser", SIM_LOOKUP, FOR_USER_OWNED, false, false, NULL, "systemuser",
	"user_%", "user_+", SIM_REMOVE_LINK},
	{"OverriddenCreatedOn", SIM_DATETIME, FOR_DATA, true, false, NULL, NULL, NULL, NULL, 0},
	{"ImportSequenceNumber", SIM_INTEGER, FOR_DATA, true, false, "-2147483648", NULL,
	NULL, NULL, 0},
	{"TimeZoneRuleVersionNumber", SIM_INTEGER, FOR_DATA, true, true, "-1", NULL, NULL, NULL, 0},
	{"UTCConversionTimeZoneCode", SIM_INTEGER, FOR_DATA, true, true, "-1", NULL, NULL, NULL, 0},
	{"TransactionCurrencyId", SIM_LOOKUP, FOR_MONEY, true, true, NULL, "transactioncurrency",
	"TransactionCurrency_%", "transactioncurrency_%", SIM_RESTRICT},
	{"PartitionId", SIM_STRING, FOR_ELASTIC, true, false, NULL, NULL, NULL, NULL, 0},
	{"TTLInSeconds", SIM_INTEGER, FOR_ELASTIC, true, true, "0", NULL, NULL, NULL, 0},
	{"VersionNumber", SIM_BIGINT, FOR_VERSIONED, false, false, "-9223372036854775808", NULL,
	NULL, NULL, 0},
};

#define NSYSTEM ((int) (sizeof(system_columns) / sizeof(system_columns[0])))

bool
build_primary_id(struct build *build, struct draft *draft)
{
	const char *otherwise = draft->table->activity ? "ActivityId" :
	sim_fmt(build->arena, "%sId", draft->table->schema_name);
	const char *name = build_text(build, draft->json, "id", otherwise);
	struct sim_column *column;

	if (!build_is_name(name))
		return build_fail("table \"%s\": \"%s\" cannot be its id", draft->table->name, name);
	column = &build_add_column(build, draft, name, SIM_UUID)->column;
	column->primary_id = true;
	column->valid_for_update = false;
	column->required = 2;
	column->label = draft->table->label;
	column->custom = draft->table->custom;
	return true;
}

/* "%" and "+" of a pattern become the logical name and the entity set. */
static const char *
relationship_name(struct build *build, const struct sim_table *table, const char *pattern)
{
	size_t		at = strcspn(pattern, "%+");
	const char *name = pattern[at] == '+' ? table->set_name : table->name;

	return sim_fmt(build->arena, "%.*s%s%s", (int) at, pattern, name, pattern + at + 1);
}

static struct draft_target *
add_targets(struct build *build, struct draft_column *column, int n)
{
	column->targets = sim_alloc(build->arena, (size_t) n * sizeof(struct draft_target));
	column->ntargets = n;
	return column->targets;
}

/* Lookups of an activity have its name in theirs: "createdby_task". */
static const char *
system_navigation(struct build *build, const struct sim_table *table, const char *column)
{
	return table->activity ? sim_fmt(build->arena, "%s_%s", column, table->name) : column;
}

static bool
add_system_column(struct build *build, struct draft *draft, const struct system_column *def)
{
	struct sim_table *table = draft->table;
	struct draft_column *added;
	struct sim_column *column;
	int			ordinal = draft->n;

	if (build_has_column(draft, build_lower(build, def->schema_name)))
		return true;
	added = build_add_column(build, draft, def->schema_name, def->type);
	column = &added->column;
	column->valid_for_create = def->create;
	column->valid_for_update = def->update;
	if (def->min != NULL)
	{
		column->min_value = def->min;
		if (def->type == SIM_INTEGER)
			column->min_int = def->min[0] == '-' ? (def->min[1] == '1' ? -1 : INT32_MIN) : 0;
	}
	if (def->type == SIM_DATETIME)
	{
		column->date_format = def->create;	/* overriddencreatedon */
		column->format = def->create ? "DateOnly" : "DateAndTime";
	}
	if (def->type == SIM_STRING)
	{
		column->max_length = 1024;
		column->format = "Text";
	}
	if (def->target != NULL)
	{
		struct draft_target *target = add_targets(build, added, 1);

		target->table = def->target;
		target->navigation = system_navigation(build, table, column->name);
		target->relationship = relationship_name(build, table, table->custom ?
												 def->custom_relationship : def->relationship);
		target->on_delete = def->on_delete;
	}
	return build_companions(build, draft, ordinal);
}

/* ownerid: users and teams through one property; its relationship is with "owner". */
static bool
add_owner(struct build *build, struct draft *draft)
{
	static const char *const kinds[] = {"systemuser", "team"};
	struct sim_table *table = draft->table;
	struct draft_column *added;
	struct draft_target *targets;
	int			ordinal = draft->n;
	int			i;

	if (build_has_column(draft, "ownerid"))
		return true;
	added = build_add_column(build, draft, "OwnerId", SIM_OWNER);
	added->column.required = 2;
	targets = add_targets(build, added, 2);
	for (i = 0; i < 2; i++)
	{
		targets[i].table = kinds[i];
		targets[i].referenced = "owner";
		targets[i].navigation = system_navigation(build, table, "ownerid");
		targets[i].relationship = relationship_name(build, table,
													table->custom ? "owner_%" : "owner_+");
		targets[i].on_delete = SIM_RESTRICT;
	}
	return build_companions(build, draft, ordinal);
}

/* [[0, "Active", [[1, "Active"]]], [1, "Inactive", [[2, "Inactive"]]]] */
static const char usual_states[] =
"[[0,\"Active\",[[1,\"Active\"]]],[1,\"Inactive\",[[2,\"Inactive\"]]]]";

static bool
fill_states(struct build *build, struct draft *draft, struct json_object *states,
			struct sim_option_set *state_set, struct sim_option_set *status_set)
{
	size_t		i;

	for (i = 0; i < json_object_array_length(states); i++)
	{
		struct json_object *item = json_object_array_get_idx(states, i);
		struct json_object *list = json_object_array_get_idx(item, 2);
		struct sim_option *state = &state_set->options[state_set->n++];
		struct sim_option_set some = {0};
		int			j;

		state->value = json_object_get_int(json_object_array_get_idx(item, 0));
		state->label = sim_strdup(build->arena,
								  json_object_get_string(json_object_array_get_idx(item, 1)));
		state->state = state->value;
		build_options(build, &some, list);
		for (j = 0; j < some.n; j++)
		{
			struct sim_option *status = &status_set->options[status_set->n++];

			*status = some.options[j];
			status->state = state->value;
			status->is_default = j == 0;
		}
		if (some.n == 0)
			return build_fail("table \"%s\": state %d has no status", draft->table->name,
							  state->value);
	}
	return state_set->n > 0 ||
		build_fail("table \"%s\" has no states", draft->table->name);
}

static struct sim_option_set *
state_options(struct build *build, const struct sim_table *table, const char *what, int room)
{
	struct sim_option_set *set = sim_alloc(build->arena, sizeof(*set));

	set->name = sim_fmt(build->arena, "%s_%s", table->name, what);
	set->options = sim_alloc(build->arena, (size_t) room * sizeof(struct sim_option));
	return set;
}

static bool
add_states(struct build *build, struct draft *draft, struct json_object *states)
{
	struct sim_table *table = draft->table;
	struct sim_option_set *state_set;
	struct sim_option_set *status_set;
	struct sim_column *column;
	size_t		room = 0;
	size_t		i;
	int			ordinal;

	for (i = 0; i < json_object_array_length(states); i++)
	{
		struct json_object *item = json_object_array_get_idx(states, i);

		if (!json_object_is_type(item, json_type_array) || json_object_array_length(item) != 3 ||
			!json_object_is_type(json_object_array_get_idx(item, 1), json_type_string))
			return build_fail("table \"%s\" has malformed \"states\"", table->name);
		item = json_object_array_get_idx(item, 2);
		if (!json_object_is_type(item, json_type_array))
			return build_fail("table \"%s\" has malformed \"states\"", table->name);
		room += json_object_array_length(item);
	}
	state_set = state_options(build, table, "statecode", (int) json_object_array_length(states));
	status_set = state_options(build, table, "statuscode", (int) room);
	if (!fill_states(build, draft, states, state_set, status_set))
		return false;

	ordinal = draft->n;
	column = &build_add_column(build, draft, "StateCode", SIM_STATE)->column;
	column->label = "Status";
	column->valid_for_create = false;
	column->required = 2;
	column->options = state_set;
	column->has_default = true;
	column->default_value = state_set->options[0].value;
	build_companions(build, draft, ordinal);

	ordinal = draft->n;
	column = &build_add_column(build, draft, "StatusCode", SIM_STATUS)->column;
	column->label = "Status Reason";
	column->options = status_set;
	column->has_default = true;
	column->default_value = status_set->options[0].value;
	build_companions(build, draft, ordinal);
	table->has_state = true;
	return true;
}

static bool
build_states(struct build *build, struct draft *draft, bool usual)
{
	struct json_object *states = NULL;
	bool		ok;

	if (json_object_object_get_ex(draft->json, "states", &states))
	{
		if (json_object_is_type(states, json_type_array))
			return add_states(build, draft, states);
		usual = json_object_get_boolean(states);
	}
	if (!usual)
		return true;
	states = json_tokener_parse(usual_states);
	ok = add_states(build, draft, states);
	json_object_put(states);
	return ok;
}

/* the rate between the row's currency and the organisation's; the writer fills it */
static void
add_exchange_rate(struct build *build, struct draft *draft)
{
	struct sim_column *column;

	if (build_has_column(draft, "exchangerate"))
		return;
	column = &build_add_column(build, draft, "ExchangeRate", SIM_DECIMAL)->column;
	column->precision = 10;
	column->min_value = "0.0000000001";
	column->valid_for_create = false;
	column->valid_for_update = false;
}

static int
kind_of(const struct draft *draft)
{
	const struct sim_table *table = draft->table;
	bool		bare = build_flag(draft->json, "bare", false) || table->type == SIM_INTERSECT;
	int			kind = 0;
	int			i;

	if (table->type == SIM_VIRTUAL_TABLE)
		return 0;
	kind |= FOR_VERSIONED;
	if (table->type == SIM_ELASTIC)
		kind |= FOR_ELASTIC;
	if (bare)
		return kind;
	kind |= FOR_AUDITED;
	if (!table->system)
		kind |= FOR_DATA;
	if (table->ownership == SIM_USER_OWNED)
		kind |= FOR_USER_OWNED;
	for (i = 0; i < draft->n; i++)
	{
		if (draft->columns[i].column.type == SIM_MONEY)
			kind |= FOR_MONEY;
	}
	return kind;
}

bool
build_system_columns(struct build *build, struct draft *draft)
{
	int			kind = kind_of(draft);
	bool		usual_states_here = (kind & FOR_DATA) != 0 && draft->table->type == SIM_STANDARD &&
	(draft->table->ownership == SIM_USER_OWNED ||
	 draft->table->ownership == SIM_ORGANIZATION_OWNED);
	int			i;

	if (!build_states(build, draft, usual_states_here))
		return false;
	if ((kind & FOR_USER_OWNED) != 0 && !add_owner(build, draft))
		return false;
	for (i = 0; i < NSYSTEM; i++)
	{
		if ((system_columns[i].where & kind) != 0 &&
			!add_system_column(build, draft, &system_columns[i]))
			return false;
	}
	if ((kind & FOR_MONEY) != 0)
		add_exchange_rate(build, draft);
	return true;
}

/*
 * schema_column.c
 *		Columns out of the schema file, and the companions that the service
 *		gives to columns of some types.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/schema_build.h"

#include <string.h>

/* the names of a type in schema.json and in metadata, and its usual limits */
struct type_info
{
	const char *word;
	const char *type_name;
	int			max_length;
	int			precision;
	const char *min_value;
	const char *max_value;
};

static const struct type_info types[SIM_TYPES] = {
	[SIM_UUID] = {"uuid", "UniqueidentifierType", 0, 0, NULL, NULL},
	[SIM_STRING] = {"string", "StringType", 100, 0, NULL, NULL},
	[SIM_MEMO] = {"memo", "MemoType", 2000, 0, NULL, NULL},
	[SIM_INTEGER] = {"integer", "IntegerType", 0, 0, "-2147483648", "2147483647"},
	[SIM_BIGINT] = {"bigint", "BigIntType", 0, 0, "-9223372036854775808",
	"9223372036854775807"},
	[SIM_DECIMAL] = {"decimal", "DecimalType", 0, 2, "-100000000000", "100000000000"},
	[SIM_MONEY] = {"money", "MoneyType", 0, 2, "-922337203685477", "922337203685477"},
	[SIM_DOUBLE] = {"double", "DoubleType", 0, 2, "-100000000000", "100000000000"},
	[SIM_BOOLEAN] = {"boolean", "BooleanType", 0, 0, NULL, NULL},
	[SIM_PICKLIST] = {"picklist", "PicklistType", 0, 0, NULL, NULL},
	[SIM_STATE] = {"state", "StateType", 0, 0, NULL, NULL},
	[SIM_STATUS] = {"status", "StatusType", 0, 0, NULL, NULL},
	[SIM_MULTISELECT] = {"multiselect", "MultiSelectPicklistType", 0, 0, NULL, NULL},
	[SIM_DATETIME] = {"datetime", "DateTimeType", 0, 0, NULL, NULL},
	[SIM_LOOKUP] = {"lookup", "LookupType", 0, 0, NULL, NULL},
	[SIM_CUSTOMER] = {"customer", "CustomerType", 0, 0, NULL, NULL},
	[SIM_OWNER] = {"owner", "OwnerType", 0, 0, NULL, NULL},
	[SIM_PARTYLIST] = {"partylist", "PartyListType", 0, 0, NULL, NULL},
	[SIM_ENTITYNAME] = {"entityname", "EntityNameType", 64, 0, NULL, NULL},
	[SIM_IMAGE] = {"image", "ImageType", 10240, 0, NULL, NULL},
	[SIM_FILE] = {"file", "FileType", 32768, 0, NULL, NULL},
	[SIM_MANAGED] = {"managed", "ManagedPropertyType", 0, 0, NULL, NULL},
	[SIM_VIRTUAL] = {"virtual", "VirtualType", 0, 0, NULL, NULL},
};

const char *
sim_type_name(enum sim_type type)
{
	return types[type].type_name;
}

static bool
is_lookup(enum sim_type type)
{
	return type == SIM_LOOKUP || type == SIM_CUSTOMER || type == SIM_OWNER;
}

bool
build_has_column(const struct draft *draft, const char *name)
{
	int			i;

	for (i = 0; i < draft->n; i++)
	{
		if (strcmp(draft->columns[i].column.name, name) == 0)
			return true;
	}
	return false;
}

struct draft_column *
build_add_column(struct build *build, struct draft *draft, const char *schema_name,
				 enum sim_type type)
{
	struct draft_column *added;
	struct sim_column *column;

	if (draft->n == draft->cap)
	{
		int			cap = draft->cap > 0 ? draft->cap * 2 : 64;
		struct draft_column *bigger = sim_alloc(build->arena, (size_t) cap * sizeof(*bigger));

		if (draft->n > 0)
			memcpy(bigger, draft->columns, (size_t) draft->n * sizeof(*bigger));
		draft->columns = bigger;
		draft->cap = cap;
	}
	added = &draft->columns[draft->n++];
	column = &added->column;
	column->schema_name = schema_name;
	column->name = build_lower(build, schema_name);
	column->label = build_label(build, schema_name);
	column->type = type;
	column->valid_for_create = true;
	column->valid_for_read = true;
	column->valid_for_update = true;
	column->selectable = type != SIM_PARTYLIST && type != SIM_VIRTUAL;
	column->stored = column->selectable;
	column->filterable = true;
	column->max_length = types[type].max_length;
	column->precision = types[type].precision;
	column->min_value = types[type].min_value;
	column->max_value = types[type].max_value;
	column->min_int = type == SIM_BIGINT ? INT64_MIN : INT32_MIN;
	column->max_int = type == SIM_BIGINT ? INT64_MAX : INT32_MAX;
	column->property = is_lookup(type) ?
		sim_fmt(build->arena, "_%s_value", column->name) : column->name;
	build_metadata_id(column->metadata_id, "attribute", draft->table->name, column->name);
	return added;
}

bool
sim_column_ignores_order(const struct sim_column *column)
{
	return column->source_type == 1 || column->source_type == 3;
}

/* A helper of another column; not part of the Web API unless made so. */
static struct sim_column *
add_helper(struct build *build, struct draft *draft, const struct sim_column *of,
		   const char *suffix, enum sim_type type)
{
	struct sim_column *column;
	const char *schema_name = sim_fmt(build->arena, "%s%s", of->schema_name, suffix);
	const char *of_name = of->name;
	bool		custom = of->custom;

	if (build_has_column(draft, build_lower(build, schema_name)))
		return NULL;
	column = &build_add_column(build, draft, schema_name, type)->column;
	column->attribute_of = of_name;
	column->custom = custom;
	column->is_logical = true;
	column->selectable = false;
	column->stored = false;
	column->valid_for_create = false;
	column->valid_for_update = false;
	return column;
}

static void
lookup_companions(struct build *build, struct draft *draft, const struct draft_column *of)
{
	struct sim_column column = of->column;
	struct sim_column *helper;
	bool		elastic = false;
	int			ntargets = of->ntargets;
	int			i;
	int			j;

	for (i = 0; i < ntargets; i++)
	{
		for (j = 0; j < build->schema->ntables; j++)
		{
			struct sim_table *table = &build->schema->tables[j];

			if (table->type == SIM_ELASTIC && strcmp(table->name, of->targets[i].table) == 0)
				elastic = true;
		}
	}
	add_helper(build, draft, &column, "Name", SIM_STRING);
	add_helper(build, draft, &column, "YomiName", SIM_STRING);
	if (ntargets > 1)
		add_helper(build, draft, &column, "Type", SIM_ENTITYNAME);
	if (elastic && (helper = add_helper(build, draft, &column, "PId", SIM_STRING)) != NULL)
	{
		helper->max_length = 1024;
		helper->selectable = true;
		helper->stored = true;
		helper->is_logical = false;
		helper->valid_for_create = true;
		helper->valid_for_update = true;
	}
}

static void
image_companions(struct build *build, struct draft *draft, const struct sim_column *of)
{
	const char *id = draft->columns[0].column.name;
	const char *stamp = "638000000000000000 + {versionnumber}";
	struct sim_column *helper;

	if ((helper = add_helper(build, draft, of, "Id", SIM_UUID)) != NULL)
	{
		helper->selectable = true;
		helper->formula = sim_fmt(build->arena, "iif({%s} IS NULL, NULL, {%s})", of->name, id);
	}
	if ((helper = add_helper(build, draft, of, "_Timestamp", SIM_BIGINT)) != NULL)
	{
		helper->selectable = true;
		helper->filterable = false;
		helper->formula = sim_fmt(build->arena, "iif({%s} IS NULL, NULL, %s)", of->name, stamp);
	}
	if ((helper = add_helper(build, draft, of, "_URL", SIM_STRING)) != NULL)
	{
		helper->selectable = true;
		helper->filterable = false;
		helper->max_length = 200;
		helper->formula = sim_fmt(build->arena, "iif({%s} IS NULL, NULL, "
								  "'/Image/download.aspx?Entity=%s&Attribute=%s&Id=' || "
								  "dv_guid({%s}) || '&Timestamp=' || (%s))",
								  of->name, draft->table->name, of->name, id, stamp);
	}
}

static void
rollup_companions(struct build *build, struct draft *draft, const struct sim_column *of)
{
	struct sim_column *helper;

	if ((helper = add_helper(build, draft, of, "_Date", SIM_DATETIME)) != NULL)
	{
		helper->selectable = true;
		helper->formula = draft->table->type == SIM_ELASTIC ? "NULL" : "{createdon}";
	}
	if ((helper = add_helper(build, draft, of, "_State", SIM_INTEGER)) != NULL)
	{
		helper->selectable = true;
		helper->formula = "1";	/* calculated */
	}
}

static void
money_companion(struct build *build, struct draft *draft, const struct sim_column *of)
{
	struct sim_column *helper = add_helper(build, draft, of, "_Base", SIM_MONEY);

	if (helper == NULL)
		return;
	helper->attribute_of = NULL;
	helper->is_logical = false;
	helper->selectable = true;
	helper->precision = of->precision;
	helper->formula = sim_fmt(build->arena, "dv_base({%s}, {exchangerate})", of->name);
}

/* Adds the columns that accompany column "ordinal" because of its type. */
bool
build_companions(struct build *build, struct draft *draft, int ordinal)
{
	struct draft_column *draft_column = &draft->columns[ordinal];
	struct sim_column column = draft_column->column;
	struct sim_column *helper;

	switch (column.type)
	{
		case SIM_LOOKUP:
		case SIM_CUSTOMER:
		case SIM_OWNER:
			lookup_companions(build, draft, draft_column);
			break;
		case SIM_BOOLEAN:
		case SIM_PICKLIST:
		case SIM_STATE:
		case SIM_STATUS:
		case SIM_MULTISELECT:
			add_helper(build, draft, &column, "Name", SIM_VIRTUAL);
			break;
		case SIM_MONEY:
			if (column.source_type == 0)
				money_companion(build, draft, &column);
			break;
		case SIM_IMAGE:
			image_companions(build, draft, &column);
			break;
		case SIM_FILE:
			if ((helper = add_helper(build, draft, &column, "_Name", SIM_STRING)) != NULL)
			{
				helper->max_length = 200;
				helper->selectable = true;
				helper->filterable = false;
				helper->stored = true;
			}
			break;
		default:
			break;
	}
	if (column.source_type == 2)
		rollup_companions(build, draft, &column);
	return true;
}

/* [[value, "Label"], …] */
void
build_options(struct build *build, struct sim_option_set *set, struct json_object *array)
{
	int			n = (int) json_object_array_length(array);
	int			i;

	set->options = sim_alloc(build->arena, (size_t) n * sizeof(struct sim_option));
	for (i = 0; i < n; i++)
	{
		struct json_object *pair = json_object_array_get_idx(array, (size_t) i);

		if (!json_object_is_type(pair, json_type_array) ||
			!json_object_is_type(json_object_array_get_idx(pair, 1), json_type_string))
			continue;
		set->options[set->n].value = json_object_get_int(json_object_array_get_idx(pair, 0));
		set->options[set->n].label =
			sim_strdup(build->arena,
					   json_object_get_string(json_object_array_get_idx(pair, 1)));
		set->n++;
	}
}

static bool
column_options(struct build *build, struct draft *draft, struct sim_column *column,
			   struct json_object *json)
{
	struct json_object *array;
	const char *set = build_text(build, json, "option_set", NULL);
	int			i;

	for (i = 0; set != NULL && i < build->schema->noption_sets; i++)
	{
		if (strcmp(build->schema->option_sets[i]->name, set) == 0)
			column->options = build->schema->option_sets[i];
	}
	if (set != NULL)
		return column->options != NULL ||
			build_fail("table \"%s\": column \"%s\": there is no option set \"%s\"",
					   draft->table->name, column->name, set);

	column->options = sim_alloc(build->arena, sizeof(struct sim_option_set));
	column->options->name = sim_fmt(build->arena, "%s_%s", draft->table->name, column->name);
	if (json_object_object_get_ex(json, "options", &array) &&
		json_object_is_type(array, json_type_array))
	{
		/* a choice may have no options yet */
		build_options(build, column->options, array);
		return true;
	}
	if (column->type == SIM_BOOLEAN)
	{
		array = json_tokener_parse("[[0,\"No\"],[1,\"Yes\"]]");
		build_options(build, column->options, array);
		json_object_put(array);
	}
	return column->options->n > 0 ||
		build_fail("table \"%s\": column \"%s\" has no options", draft->table->name, column->name);
}

static bool
column_targets(struct build *build, struct draft *draft, struct draft_column *column,
			   struct json_object *json)
{
	static const char *const cascades[] = {"remove_link", "restrict", "cascade"};
	struct json_object *array;
	int			i;

	if (!json_object_object_get_ex(json, "targets", &array) ||
		!json_object_is_type(array, json_type_array) || json_object_array_length(array) == 0)
		return build_fail("table \"%s\": lookup \"%s\" has no targets",
						  draft->table->name, column->column.name);
	column->ntargets = (int) json_object_array_length(array);
	column->targets = sim_alloc(build->arena,
								(size_t) column->ntargets * sizeof(struct draft_target));
	for (i = 0; i < column->ntargets; i++)
	{
		struct json_object *item = json_object_array_get_idx(array, (size_t) i);
		struct draft_target *target = &column->targets[i];
		int			cascade = SIM_REMOVE_LINK;

		if (json_object_is_type(item, json_type_string))
		{
			target->table = sim_strdup(build->arena, json_object_get_string(item));
			continue;
		}
		target->table = build_text(build, item, "table", NULL);
		target->navigation = build_text(build, item, "navigation", NULL);
		target->relationship = build_text(build, item, "relationship", NULL);
		target->collection = build_text(build, item, "collection", NULL);
		if (target->table == NULL || !build_one_of(item, "delete", cascades, 3, &cascade))
			return build_fail("table \"%s\": lookup \"%s\" has a target without table or with "
							  "an unknown \"delete\"", draft->table->name, column->column.name);
		target->on_delete = (enum sim_cascade) cascade;
	}
	return true;
}

static void
column_limits(struct build *build, struct sim_column *column, struct json_object *json)
{
	column->max_length = (int) build_int(json, "length", column->max_length);
	column->precision = (int) build_int(json, "precision", column->precision);
	column->min_value = build_text(build, json, "min", column->min_value);
	column->max_value = build_text(build, json, "max", column->max_value);
	if (column->type == SIM_INTEGER || column->type == SIM_BIGINT)
	{
		column->min_int = build_int(json, "min", column->min_int);
		column->max_int = build_int(json, "max", column->max_int);
	}
	if (json_object_object_get_ex(json, "default", NULL))
	{
		column->has_default = true;
		column->default_value = (int) build_int(json, "default", 0);
	}
}

/* The flags of a column and what depends on its being computed. */
static bool
column_nature(struct build *build, struct draft *draft, struct sim_column *column,
			  struct json_object *json)
{
	static const char *const behaviours[] = {"UserLocal", "DateOnly", "TimeZoneIndependent"};
	static const char *const levels[] = {"None", "ApplicationRequired", "SystemRequired"};
	int			behaviour = SIM_USER_LOCAL;
	bool		writable;

	if (!build_one_of(json, "behavior", behaviours, 3, &behaviour) ||
		!build_one_of(json, "required", levels, 3, &column->required))
		return build_fail("table \"%s\": column \"%s\" has an unknown \"behavior\" or "
						  "\"required\"", draft->table->name, column->name);
	column->behaviour = (enum sim_behaviour) behaviour;
	column->formula = build_text(build, json, "formula", NULL);
	column->source_type = (int) build_int(json, "source_type", 0);
	column->autonumber_format = build_text(build, json, "autonumber", NULL);
	column->autonumber = column->autonumber_format != NULL;
	column->format = build_text(build, json, "format", NULL);
	if (column->format == NULL && column->type == SIM_STRING)
		column->format = "Text";
	column->date_format = behaviour == SIM_DATE_ONLY ||
		(column->format != NULL && strcmp(column->format, "DateOnly") == 0);
	column->is_logical = build_flag(json, "logical", false);
	column->custom = build_flag(json, "custom", draft->table->custom ||
								strncmp(column->name, "new_", 4) == 0);
	column->attribute_of = build_text(build, json, "attribute_of", NULL);
	if (column->formula != NULL)
		column->stored = false;

	/* computed columns and files are not part of the body of a write */
	writable = column->formula == NULL && column->source_type == 0 &&
		column->type != SIM_FILE && column->type != SIM_MANAGED;
	column->valid_for_create = build_flag(json, "create", writable);
	column->valid_for_update = build_flag(json, "update", writable);
	column->valid_for_read = build_flag(json, "read", true);
	column->selectable = column->selectable && column->valid_for_read &&
		build_flag(json, "select", true);
	return true;
}

bool
build_column(struct build *build, struct draft *draft, struct json_object *json)
{
	const char *schema_name = build_text(build, json, "name", NULL);
	const char *word = build_text(build, json, "type", "");
	struct draft_column *added;
	struct sim_column *column;
	int			ordinal = draft->n;
	int			type;

	if (schema_name == NULL || !build_is_name(schema_name))
		return build_fail("table \"%s\" has a column without name, or with none that can be one",
						  draft->table->name);
	for (type = 0; type < SIM_TYPES && strcmp(types[type].word, word) != 0; type++)
		;
	if (type == SIM_STATE || type == SIM_STATUS)
		return build_fail("table \"%s\": column \"%s\": the table's \"states\" make the columns "
						  "of type \"%s\"", draft->table->name, schema_name, word);
	if (type == SIM_TYPES)
		return build_fail("table \"%s\": column \"%s\": there is no type \"%s\"",
						  draft->table->name, schema_name, word);
	if (build_has_column(draft, build_lower(build, schema_name)))
		return build_fail("table \"%s\": column \"%s\" is there twice",
						  draft->table->name, schema_name);

	added = build_add_column(build, draft, schema_name, (enum sim_type) type);
	column = &added->column;
	build_given_id(json, column->metadata_id);
	column->label = build_text(build, json, "label", column->label);
	column_limits(build, column, json);
	if (!column_nature(build, draft, column, json))
		return false;
	if ((type == SIM_BOOLEAN || type == SIM_PICKLIST || type == SIM_MULTISELECT) &&
		!column_options(build, draft, column, json))
		return false;
	if (is_lookup((enum sim_type) type) && !column_targets(build, draft, added, json))
		return false;
	return build_companions(build, draft, ordinal);
}

bool
sim_is_primary_image(const struct sim_column *column)
{
	int			i;

	if (column->type != SIM_IMAGE)
		return false;
	for (i = 0; i < column->ordinal; i++)
		if (column->table->columns[i].type == SIM_IMAGE)
			return false;
	return true;
}

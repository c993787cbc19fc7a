/*
 * metadata_choices.c
 *		Choices as definitions: global and local sets of options, and the yes
 *		and no of booleans.
 *
 * The object of such a definition is the set (NULL for the plain Yes and No
 * of a boolean), its owner the column of a local one.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>

#include "store/guid.h"
#include "metadata/metadata.h"

static void
set_text(struct sim_meta_value *value, const char *s)
{
	value->null = s == NULL;
	value->s = s;
}

static const struct sim_column *
set_column(const struct sim_meta_item *item)
{
	return item->owner;
}

static void
set_name(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_option_set *set = item->object;

	if (set && set->name)
		set_text(value, set->name);
	else
	{
		snprintf(value->text, sizeof(value->text), "%s_%s", set_column(item)->table->name,
				 set_column(item)->name);
		set_text(value, value->text);
	}
}

static void
set_id(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_option_set *set = item->object;

	if (set && set->global)
	{
		char		name[256];

		snprintf(name, sizeof(name), "optionset %s.", set->name);
		sim_guid_text_of_name(name, value->text);
	}
	else
		sim_meta_derive_id(set_column(item)->metadata_id, "OptionSet", value->text);
	set_text(value, value->text);
}

static void
set_global(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_option_set *set = item->object;

	value->i = set && set->global;
}

static void
set_custom(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = set_column(item) ? set_column(item)->custom : true;
}

static void
set_managed(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_custom(item, value);
	value->i = !value->i;
}

static void
set_type(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = set_column(item);

	if (item->type == &sim_meta_boolean_set)
		set_text(value, "Boolean");
	else if (column && column->type == SIM_STATE)
		set_text(value, "State");
	else if (column && column->type == SIM_STATUS)
		set_text(value, "Status");
	else
		set_text(value, "Picklist");
}

static void
set_label(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_option_set *set = item->object;

	set_text(value, set_column(item) ? set_column(item)->label : set->name);
}

static const struct sim_meta_prop set_props[] = {
	META_GET("MetadataId", GUID, set_id),
	META_FIXED("HasChanged", BOOL, NULL),
	META_GET("IsCustomOptionSet", BOOL, set_custom),
	META_GET("IsGlobal", BOOL, set_global),
	META_GET("IsManaged", BOOL, set_managed),
	META_GET("Name", TEXT, set_name),
	META_FIXED("ExternalTypeName", TEXT, NULL),
	META_ENUM("OptionSetType", "OptionSetType", set_type),
	META_FIXED("IntroducedVersion", TEXT, "1.0.0.0"),
	META_FIXED("Description", LABEL, NULL),
	META_GET("DisplayName", LABEL, set_label),
	META_MANAGED("IsCustomizable", "iscustomizable", "true"),
	META_END
};

/* Members that only the options of state and status columns have. */
static void
put_option_extra(const struct sim_column *column, const struct sim_option *option,
				 struct sim_buf *buf)
{
	if (column && column->type == SIM_STATE)
	{
		const struct sim_column *status = column->table->status;
		int			value = -1;
		int			i;

		for (i = 0; status && status->options && i < status->options->n; i++)
			if (status->options->options[i].state == option->value &&
				(value == -1 || status->options->options[i].is_default))
				value = status->options->options[i].value;
		sim_putf(buf, ",\"DefaultStatus\":%d,\"InvariantName\":", value);
		sim_put_json(buf, option->label ? option->label : "",
					 option->label ? strlen(option->label) : 0);
	}
	else if (column && column->type == SIM_STATUS)
		sim_putf(buf, ",\"State\":%d,\"TransitionData\":\"\"", option->state);
}

static void
put_option(struct sim_meta_query *query, const struct sim_meta_item *item,
		   const struct sim_option *option, struct sim_buf *buf)
{
	const struct sim_column *column = set_column(item);
	bool		managed = column && !column->custom;
	struct sim_meta_value id;
	char		salt[32];

	sim_putc(buf, '{');
	if (column && (column->type == SIM_STATE || column->type == SIM_STATUS))
		sim_putf(buf, "\"@odata.type\":\"#" SIM_NAMESPACE "%s\",",
				 column->type == SIM_STATE ? "StateOptionMetadata" : "StatusOptionMetadata");
	sim_putf(buf, "\"Value\":%d,\"Color\":null,\"IsManaged\":%s,\"ExternalValue\":\"\","
			 "\"ParentValues\":[],\"Tag\":null,\"IsHidden\":false,\"MetadataId\":null,"
			 "\"HasChanged\":null", option->value, managed ? "true" : "false");
	put_option_extra(column, option, buf);
	set_id(item, &id);
	snprintf(salt, sizeof(salt), "%d", option->value);
	sim_puts(buf, ",\"Label\":");
	sim_meta_put_label(query, option->label, id.s, salt, managed, buf);
	sim_puts(buf, ",\"Description\":{\"LocalizedLabels\":[],\"UserLocalizedLabel\":null}}");
}

static void
set_options(struct sim_meta_query *query, const struct sim_meta_item *item, struct sim_buf *buf)
{
	const struct sim_option_set *set = item->object;
	int			i;

	sim_putc(buf, '[');
	for (i = 0; i < set->n; i++)
	{
		if (i > 0)
			sim_putc(buf, ',');
		put_option(query, item, &set->options[i], buf);
	}
	sim_putc(buf, ']');
}

static void
put_boolean_option(struct sim_meta_query *query, const struct sim_meta_item *item, int value,
				   struct sim_buf *buf)
{
	const struct sim_option_set *set = item->object;
	const struct sim_option *found = set ? sim_option_by_value(set, value) : NULL;
	struct sim_option plain = {.value = value, .label = value ? "Yes" : "No"};

	put_option(query, item, found ? found : &plain, buf);
}

static void
set_true_option(struct sim_meta_query *query, const struct sim_meta_item *item,
				struct sim_buf *buf)
{
	put_boolean_option(query, item, 1, buf);
}

static void
set_false_option(struct sim_meta_query *query, const struct sim_meta_item *item,
				 struct sim_buf *buf)
{
	put_boolean_option(query, item, 0, buf);
}

static const struct sim_meta_prop option_set_props[] = {
	META_FIXED("ParentOptionSetName", TEXT, NULL),
	META_PUT("Options", set_options),
	META_END
};

static const struct sim_meta_prop boolean_set_props[] = {
	META_PUT("TrueOption", set_true_option),
	META_PUT("FalseOption", set_false_option),
	META_END
};

const struct sim_meta_type sim_meta_option_set_base = {
	.name = "OptionSetMetadataBase",
	.key = "Name",
	.groups = {set_props}
};

const struct sim_meta_type sim_meta_option_set = {
	.name = "OptionSetMetadata",
	.base = &sim_meta_option_set_base,
	.key = "Name",
	.groups = {set_props, option_set_props}
};

const struct sim_meta_type sim_meta_boolean_set = {
	.name = "BooleanOptionSetMetadata",
	.base = &sim_meta_option_set_base,
	.key = "Name",
	.groups = {set_props, boolean_set_props}
};

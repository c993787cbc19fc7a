/*
 * metadata_attributes.c
 *		Columns as definitions: the properties of all columns, those of
 *		each derived type, and the type of each column.
 *
 * Column types without a derived type of their own (unique identifiers, the
 * name and label helpers of other columns) are rows of the base type and so
 * carry no @odata.type, as captures of the service show.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "metadata/metadata.h"

#define BORN "2020-01-01T00:00:00Z"

static void
set_text(struct sim_meta_value *value, const char *s)
{
	value->null = s == NULL;
	value->s = s;
}

/* ---------------------------------------------------------------- all columns */

/* AttributeType says less than AttributeTypeName: several types are Virtual. */
static void
column_type(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	static const char *const names[SIM_TYPES] = {
		[SIM_UUID] = "Uniqueidentifier",
		[SIM_STRING] = "String",
		[SIM_MEMO] = "Memo",
		[SIM_INTEGER] = "Integer",
		[SIM_BIGINT] = "BigInt",
		[SIM_DECIMAL] = "Decimal",
		[SIM_MONEY] = "Money",
		[SIM_DOUBLE] = "Double",
		[SIM_BOOLEAN] = "Boolean",
		[SIM_PICKLIST] = "Picklist",
		[SIM_STATE] = "State",
		[SIM_STATUS] = "Status",
		[SIM_MULTISELECT] = "Virtual",
		[SIM_DATETIME] = "DateTime",
		[SIM_LOOKUP] = "Lookup",
		[SIM_CUSTOMER] = "Customer",
		[SIM_OWNER] = "Owner",
		[SIM_PARTYLIST] = "PartyList",
		[SIM_ENTITYNAME] = "EntityName",
		[SIM_IMAGE] = "Virtual",
		[SIM_FILE] = "Virtual",
		[SIM_MANAGED] = "ManagedProperty",
		[SIM_VIRTUAL] = "Virtual"
	};

	set_text(value, names[((const struct sim_column *) item->object)->type]);
}

static void
column_type_name(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, sim_type_name(((const struct sim_column *) item->object)->type));
}

static void
column_number(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = ((const struct sim_column *) item->object)->ordinal + 1;
}

static void
column_entity(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_column *) item->object)->table->name);
}

static void
column_odata(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;

	value->i = column->selectable || column->type == SIM_PARTYLIST;
}

static void
column_managed(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = !((const struct sim_column *) item->object)->custom;
}

/* Only columns that a maker can define may be calculated; null for others. */
static void
column_source_type(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	static const bool none[SIM_TYPES] = {
		[SIM_UUID] = true,
		[SIM_BIGINT] = true,
		[SIM_STATE] = true,
		[SIM_STATUS] = true,
		[SIM_OWNER] = true,
		[SIM_PARTYLIST] = true,
		[SIM_ENTITYNAME] = true,
		[SIM_MANAGED] = true,
		[SIM_VIRTUAL] = true
	};
	const struct sim_column *column = item->object;

	value->null = none[column->type] && column->source_type == 0;
	value->i = column->source_type;
}

static void
column_autonumber(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;

	set_text(value, column->autonumber ? column->autonumber_format : NULL);
}

static void
column_required(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	static const char *const names[] = {"None", "ApplicationRequired", "SystemRequired"};
	const struct sim_column *column = item->object;

	set_text(value, names[column->required >= 0 && column->required < 3 ? column->required : 0]);
}

static void
column_find(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;

	value->i = column->selectable && column->attribute_of == NULL;
}

static void
put_empty_array(struct sim_meta_query *query, const struct sim_meta_item *item,
				struct sim_buf *buf)
{
	(void) query;
	(void) item;
	sim_puts(buf, "[]");
}

#define COLUMN_AT(n, k, s, f) META_AT(n, k, s, struct sim_column, f)

static const struct sim_meta_prop attribute_props[] = {
	COLUMN_AT("MetadataId", GUID, CHARS, metadata_id),
	META_FIXED("HasChanged", BOOL, NULL),
	COLUMN_AT("AttributeOf", TEXT, TEXT, attribute_of),
	META_ENUM("AttributeType", "AttributeTypeCode", column_type),
	META_GET("ColumnNumber", INT, column_number),
	META_FIXED("DeprecatedVersion", TEXT, NULL),
	META_FIXED("IntroducedVersion", TEXT, "1.0.0.0"),
	META_GET("EntityLogicalName", TEXT, column_entity),
	COLUMN_AT("IsCustomAttribute", BOOL, BOOL, custom),
	COLUMN_AT("IsPrimaryId", BOOL, BOOL, primary_id),
	META_GET("IsValidODataAttribute", BOOL, column_odata),
	COLUMN_AT("IsPrimaryName", BOOL, BOOL, primary_name),
	COLUMN_AT("IsValidForCreate", BOOL, BOOL, valid_for_create),
	COLUMN_AT("IsValidForRead", BOOL, BOOL, valid_for_read),
	COLUMN_AT("IsValidForUpdate", BOOL, BOOL, valid_for_update),
	COLUMN_AT("CanBeSecuredForRead", BOOL, BOOL, custom),
	COLUMN_AT("CanBeSecuredForCreate", BOOL, BOOL, custom),
	COLUMN_AT("CanBeSecuredForUpdate", BOOL, BOOL, custom),
	META_FIXED("IsSecured", BOOL, "false"),
	META_FIXED("IsRetrievable", BOOL, "false"),
	META_FIXED("IsFilterable", BOOL, "false"),
	META_FIXED("IsSearchable", BOOL, "false"),
	META_GET("IsManaged", BOOL, column_managed),
	META_FIXED("LinkedAttributeId", GUID, NULL),
	COLUMN_AT("LogicalName", TEXT, TEXT, name),
	META_FIXED("IsValidForForm", BOOL, "true"),
	META_FIXED("IsRequiredForForm", BOOL, "false"),
	META_FIXED("IsValidForGrid", BOOL, "true"),
	COLUMN_AT("SchemaName", TEXT, TEXT, schema_name),
	META_FIXED("ExternalName", TEXT, NULL),
	COLUMN_AT("IsLogical", BOOL, BOOL, is_logical),
	META_FIXED("IsDataSourceSecret", BOOL, "false"),
	META_FIXED("InheritsFrom", TEXT, NULL),
	META_FIXED("CreatedOn", TIME, BORN),
	META_FIXED("ModifiedOn", TIME, BORN),
	META_GET("SourceType", INT, column_source_type),
	META_GET("AutoNumberFormat", TEXT, column_autonumber),
	META_GET("AttributeTypeName", VALUE, column_type_name),
	META_FIXED("Description", LABEL, NULL),
	COLUMN_AT("DisplayName", LABEL, TEXT, label),
	META_MANAGED("IsAuditEnabled", "canmodifyauditsettings", "false"),
	META_MANAGED("IsGlobalFilterEnabled", "canmodifyglobalfiltersettings", "false"),
	META_MANAGED("IsSortableEnabled", "canmodifyissortablesettings", "false"),
	META_MANAGED("IsCustomizable", "iscustomizable", "true"),
	META_MANAGED("IsRenameable", "isrenameable", "true"),
	{.name = "IsValidForAdvancedFind", .kind = SIM_META_MANAGED, .source = SIM_META_GET,
	.extra = "canmodifysearchsettings", .get = column_find},
	{.name = "RequiredLevel", .kind = SIM_META_LEVEL, .source = SIM_META_GET,
	.extra = "canmodifyrequirementlevelsettings", .get = column_required},
	META_MANAGED("CanModifyAdditionalSettings", "canmodifyadditionalsettings", "true"),
	META_PUT("Settings", put_empty_array),
	META_END
};

/* ---------------------------------------------------------------- derived types */

static void
text_format(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;

	if (column->format)
		set_text(value, column->format);
	else
		set_text(value, column->type == SIM_MEMO ? "TextArea" : "Text");
}

/* In bytes: two for each character. */
static void
text_database_length(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = 2 * (int64_t) ((const struct sim_column *) item->object)->max_length;
}

static void
integer_format(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;

	set_text(value, column->format ? column->format : "None");
}

static void
column_min_int(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = ((const struct sim_column *) item->object)->min_int;
}

static void
column_max_int(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = ((const struct sim_column *) item->object)->max_int;
}

/* The column from which a money column "x_base" is calculated. */
static void
money_calculation_of(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;
	size_t		len = strlen(column->name);
	const struct sim_column *of = NULL;

	if (len > 5 && strcmp(column->name + len - 5, "_base") == 0)
		of = sim_column_by_name(column->table, column->name, len - 5);
	set_text(value, of && of->type == SIM_MONEY ? of->name : NULL);
}

static void
money_is_base(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	money_calculation_of(item, value);
	value->i = !value->null;
	value->null = false;
}

static void
date_format(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;

	set_text(value, column->date_format || column->behaviour == SIM_DATE_ONLY ?
			 "DateOnly" : "DateAndTime");
}

static void
date_behaviour(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	static const char *const names[] = {
		[SIM_USER_LOCAL] = "UserLocal",
		[SIM_DATE_ONLY] = "DateOnly",
		[SIM_ZONE_INDEPENDENT] = "TimeZoneIndependent"
	};

	set_text(value, names[((const struct sim_column *) item->object)->behaviour]);
}

static void
lookup_targets(struct sim_meta_query *query, const struct sim_meta_item *item,
			   struct sim_buf *buf)
{
	const struct sim_column *column = item->object;
	int			i;

	(void) query;
	sim_putc(buf, '[');
	for (i = 0; i < column->ntargets; i++)
		sim_putf(buf, "%s\"%s\"", i > 0 ? "," : "", column->targets[i].table->name);
	sim_putc(buf, ']');
}

static void
choice_default(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;

	value->i = column->has_default ? column->default_value : -1;
}

static void
boolean_default(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_column *column = item->object;

	value->i = column->has_default && column->default_value != 0;
}

static void
image_is_primary(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = sim_is_primary_image(item->object);
}

#define FORMULA \
	META_FIXED("FormulaDefinition", TEXT, ""), \
	META_FIXED("SourceTypeMask", INT, "0")
#define IME META_ENUM_FIXED("ImeMode", "ImeMode", "Auto")

static const struct sim_meta_prop string_props[] = {
	META_ENUM("Format", "StringFormat", text_format),
	IME,
	COLUMN_AT("MaxLength", INT, INT, max_length),
	META_FIXED("YomiOf", TEXT, NULL),
	META_FIXED("IsLocalizable", BOOL, "false"),
	META_GET("DatabaseLength", INT, text_database_length),
	META_GET("FormatName", VALUE, text_format),
	FORMULA,
	META_END
};

static const struct sim_meta_prop memo_props[] = {
	META_ENUM("Format", "StringFormat", text_format),
	IME,
	COLUMN_AT("MaxLength", INT, INT, max_length),
	META_FIXED("IsLocalizable", BOOL, "false"),
	META_GET("FormatName", VALUE, text_format),
	META_END
};

static const struct sim_meta_prop integer_props[] = {
	META_ENUM("Format", "IntegerFormat", integer_format),
	META_GET("MaxValue", INT, column_max_int),
	META_GET("MinValue", INT, column_min_int),
	FORMULA,
	META_END
};

static const struct sim_meta_prop bigint_props[] = {
	META_GET("MaxValue", INT, column_max_int),
	META_GET("MinValue", INT, column_min_int),
	META_END
};

static const struct sim_meta_prop decimal_props[] = {
	COLUMN_AT("MaxValue", NUMBER, TEXT, max_value),
	COLUMN_AT("MinValue", NUMBER, TEXT, min_value),
	COLUMN_AT("Precision", INT, INT, precision),
	IME,
	FORMULA,
	META_END
};

static const struct sim_meta_prop double_props[] = {
	COLUMN_AT("MaxValue", NUMBER, TEXT, max_value),
	COLUMN_AT("MinValue", NUMBER, TEXT, min_value),
	COLUMN_AT("Precision", INT, INT, precision),
	IME,
	META_END
};

/* PrecisionSource 0: rows are rounded to the column's own precision. */
static const struct sim_meta_prop money_props[] = {
	COLUMN_AT("MaxValue", NUMBER, TEXT, max_value),
	COLUMN_AT("MinValue", NUMBER, TEXT, min_value),
	COLUMN_AT("Precision", INT, INT, precision),
	META_FIXED("PrecisionSource", INT, "0"),
	META_GET("CalculationOf", TEXT, money_calculation_of),
	META_GET("IsBaseCurrency", BOOL, money_is_base),
	IME,
	FORMULA,
	META_END
};

static const struct sim_meta_prop date_props[] = {
	META_ENUM("Format", "DateTimeFormat", date_format),
	META_ENUM_FIXED("ImeMode", "ImeMode", "Inactive"),
	META_FIXED("MinSupportedValue", TIME, "1753-01-01T00:00:00Z"),
	META_FIXED("MaxSupportedValue", TIME, "9999-12-30T23:59:59Z"),
	META_GET("DateTimeBehavior", VALUE, date_behaviour),
	META_MANAGED("CanChangeDateTimeBehavior", "canchangedatetimebehavior", "false"),
	FORMULA,
	META_END
};

static const struct sim_meta_prop lookup_props[] = {
	META_PUT("Targets", lookup_targets),
	META_ENUM_FIXED("Format", "LookupFormat", "None"),
	META_END
};

static const struct sim_meta_prop choice_props[] = {
	META_GET("DefaultFormValue", INT, choice_default),
	META_FIXED("ParentPicklistLogicalName", TEXT, NULL),
	META_PUT("ChildPicklistLogicalNames", put_empty_array),
	FORMULA,
	META_END
};

static const struct sim_meta_prop state_props[] = {
	META_FIXED("DefaultFormValue", INT, NULL),
	META_END
};

static const struct sim_meta_prop boolean_props[] = {
	META_GET("DefaultValue", BOOL, boolean_default),
	FORMULA,
	META_END
};

static const struct sim_meta_prop image_props[] = {
	META_GET("IsPrimaryImage", BOOL, image_is_primary),
	META_FIXED("CanStoreFullImage", BOOL, "true"),
	COLUMN_AT("MaxSizeInKB", INT, INT, max_length),
	META_FIXED("MaxHeight", INT, "144"),
	META_FIXED("MaxWidth", INT, "144"),
	META_END
};

static const struct sim_meta_prop file_props[] = {
	COLUMN_AT("MaxSizeInKB", INT, INT, max_length),
	META_END
};

static const struct sim_meta_prop managed_props[] = {
	COLUMN_AT("ManagedPropertyLogicalName", TEXT, TEXT, name),
	META_FIXED("ParentAttributeName", TEXT, NULL),
	META_FIXED("ParentComponentType", INT, NULL),
	META_ENUM_FIXED("ValueAttributeTypeCode", "AttributeTypeCode", "Boolean"),
	META_END
};

static const struct sim_meta_prop entity_name_props[] = {
	META_FIXED("IsEntityReferenceStored", BOOL, "false"),
	META_FIXED("DefaultFormValue", INT, NULL),
	META_END
};

static const struct sim_meta_prop no_props[] = {META_END};

/* ---------------------------------------------------------------- choices of a column */

static void
add_set(struct sim_arena *arena, const struct sim_column *column, bool global,
		struct sim_meta_list *out)
{
	bool		boolean = column->type == SIM_BOOLEAN;
	bool		is_global = column->options && column->options->global;
	struct sim_meta_item *item;

	if ((column->options == NULL && !boolean) || (!is_global && global))
		return;
	item = sim_meta_add(arena, out, 1);
	item->type = boolean ? &sim_meta_boolean_set : &sim_meta_option_set;
	item->object = column->options;
	item->owner = is_global ? NULL : column;
}

static void
option_set(struct sim_arena *arena, const struct sim_meta_item *item, struct sim_meta_list *out)
{
	add_set(arena, item->object, false, out);
}

/* null when the choices are the column's own */
static void
global_option_set(struct sim_arena *arena, const struct sim_meta_item *item,
				  struct sim_meta_list *out)
{
	add_set(arena, item->object, true, out);
}

static const struct sim_meta_nav choice_navs[] = {
	{"OptionSet", &sim_meta_option_set, false, true, option_set},
	{"GlobalOptionSet", &sim_meta_option_set, false, false, global_option_set},
	{NULL}
};

static const struct sim_meta_nav boolean_navs[] = {
	{"OptionSet", &sim_meta_boolean_set, false, true, option_set},
	{"GlobalOptionSet", &sim_meta_boolean_set, false, false, global_option_set},
	{NULL}
};

/* ---------------------------------------------------------------- the types */

const struct sim_meta_type sim_meta_attribute = {
	.name = "AttributeMetadata",
	.key = "LogicalName",
	.groups = {attribute_props}
};

#define DERIVED(n, p, v, u) { \
	.name = n "AttributeMetadata", \
	.base = &sim_meta_attribute, \
	.key = "LogicalName", \
	.untyped = u, \
	.navs = v, \
	.groups = {attribute_props, p}}

enum derived
{
	STRING, MEMO, INTEGER, BIGINT, DECIMAL, DOUBLE, MONEY, DATETIME, LOOKUP, PICKLIST,
	MULTISELECT, STATE, STATUS, BOOLEAN, IMAGE, FILE_, MANAGED, ENTITYNAME, UNIQUE, DERIVED_TYPES
};

static const struct sim_meta_type derived_types[DERIVED_TYPES] = {
	[STRING] = DERIVED("String", string_props, NULL, false),
	[MEMO] = DERIVED("Memo", memo_props, NULL, false),
	[INTEGER] = DERIVED("Integer", integer_props, NULL, false),
	[BIGINT] = DERIVED("BigInt", bigint_props, NULL, false),
	[DECIMAL] = DERIVED("Decimal", decimal_props, NULL, false),
	[DOUBLE] = DERIVED("Double", double_props, NULL, false),
	[MONEY] = DERIVED("Money", money_props, NULL, false),
	[DATETIME] = DERIVED("DateTime", date_props, NULL, false),
	[LOOKUP] = DERIVED("Lookup", lookup_props, NULL, false),
	[PICKLIST] = DERIVED("Picklist", choice_props, choice_navs, false),
	[MULTISELECT] = DERIVED("MultiSelectPicklist", choice_props, choice_navs, false),
	[STATE] = DERIVED("State", state_props, choice_navs, false),
	[STATUS] = DERIVED("Status", state_props, choice_navs, false),
	[BOOLEAN] = DERIVED("Boolean", boolean_props, boolean_navs, false),
	[IMAGE] = DERIVED("Image", image_props, NULL, false),
	[FILE_] = DERIVED("File", file_props, NULL, false),
	[MANAGED] = DERIVED("ManagedProperty", managed_props, NULL, false),
	[ENTITYNAME] = DERIVED("EntityName", entity_name_props, choice_navs, false),
	[UNIQUE] = DERIVED("UniqueIdentifier", no_props, NULL, true)
};

/* -1: rows of the base type */
static const signed char derived_of[SIM_TYPES] = {
	[SIM_UUID] = UNIQUE,
	[SIM_STRING] = STRING,
	[SIM_MEMO] = MEMO,
	[SIM_INTEGER] = INTEGER,
	[SIM_BIGINT] = BIGINT,
	[SIM_DECIMAL] = DECIMAL,
	[SIM_MONEY] = MONEY,
	[SIM_DOUBLE] = DOUBLE,
	[SIM_BOOLEAN] = BOOLEAN,
	[SIM_PICKLIST] = PICKLIST,
	[SIM_STATE] = STATE,
	[SIM_STATUS] = STATUS,
	[SIM_MULTISELECT] = MULTISELECT,
	[SIM_DATETIME] = DATETIME,
	[SIM_LOOKUP] = LOOKUP,
	[SIM_CUSTOMER] = LOOKUP,
	[SIM_OWNER] = LOOKUP,
	[SIM_PARTYLIST] = LOOKUP,
	[SIM_ENTITYNAME] = ENTITYNAME,
	[SIM_IMAGE] = IMAGE,
	[SIM_FILE] = FILE_,
	[SIM_MANAGED] = MANAGED,
	[SIM_VIRTUAL] = -1
};

void
sim_meta_attributes(struct sim_arena *arena, const struct sim_meta_item *item,
					struct sim_meta_list *out)
{
	const struct sim_table *table = item->object;
	int			i;

	for (i = 0; i < table->ncolumns; i++)
	{
		struct sim_meta_item *to = sim_meta_add(arena, out, table->ncolumns);
		int			derived = derived_of[table->columns[i].type];

		to->type = derived < 0 ? &sim_meta_attribute : &derived_types[derived];
		to->object = &table->columns[i];
	}
}

const struct sim_meta_type *
sim_meta_attribute_type(const char *name, size_t len)
{
	int			i;

	for (i = 0; i < DERIVED_TYPES; i++)
		if (strncmp(derived_types[i].name, name, len) == 0 && derived_types[i].name[len] == '\0')
			return &derived_types[i];
	return NULL;
}

const struct sim_meta_prop *
sim_meta_attribute_prop(const char *name, size_t len)
{
	int			i;

	for (i = 0; i < DERIVED_TYPES; i++)
	{
		const struct sim_meta_prop *prop;

		for (prop = derived_types[i].groups[1]; prop->name; prop++)
			if (strncasecmp(prop->name, name, len) == 0 && prop->name[len] == '\0')
				return prop;
	}
	return NULL;
}

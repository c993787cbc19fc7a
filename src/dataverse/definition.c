/*
 * definition.c
 *		Turns the definition of a table into a foreign table.
 *
 * Columns come in the service's order, the primary key first.  A lookup with
 * several targets is followed by a column with the name of the target table
 * and, if labels are wanted, a column that has labels is followed by one with
 * its label.  Real columns get their names first; those that follow others
 * get names that are left.
 *
 * Types are wide enough for everything that can be read, because a value that
 * its type does not admit could slip into local tables of the same type
 * unnoticed.  Therefore text whose length the metadata does not guarantee (in
 * virtual tables, and in columns that belong to another table) has no length
 * limit.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataverse/metadata.h"
#include "dataverse/metadata_json.h"

/* Longest varchar that PostgreSQL makes. */
#define VARCHAR_MAX 10485760

/* A column of the service. */
typedef struct attribute
{
	const char *name;
	const char *parent;			/* AttributeOf: the column for which this one is a helper */
	const dv_type_info *type;	/* NULL if columns of its type are not imported */
	struct json_object *json;
	int			number;
	bool		primary;
	bool		shown;			/* becomes a column of the foreign table */
	const char *local;
	const char *label;			/* the helper that is most likely its label; NULL if none is */
	int			label_distance;
} attribute;

typedef struct builder
{
	const dv_arena *arena;
	const dv_meta_catalog *catalog;
	const dv_meta_entry *entry;
	struct json_object *definition;
	const dv_meta_wish *wish;
	attribute  *attributes;
	int			nattributes;
	dv_name_index by_name;		/* positions of attributes */
	dv_name_index relationships;	/* their positions, by column and target */
	dv_meta_names names;		/* of the foreign table's columns */
	dv_meta_table *table;
} builder;

/* ---------------------------------------------------------------- labels and comments */

/* Returns a label in the caller's language if there is one, else in any language. */
static const char *
label_text(struct json_object *label)
{
	const char *text = dv_meta_string(dv_meta_member(label, "UserLocalizedLabel"), "Label");
	struct json_object *all = dv_meta_array(label, "LocalizedLabels");

	if (text == NULL && dv_meta_length(all) > 0)
		text = dv_meta_string(json_object_array_get_idx(all, 0), "Label");
	return text != NULL && text[0] != '\0' ? text : NULL;
}

static void
add_choice(dv_meta_column *column, int value, struct json_object *option)
{
	dv_meta_choice *choice = &column->choices[column->nchoices++];

	choice->value = value;
	choice->label = label_text(dv_meta_member(option, "Label"));
}

static void
read_choices(builder *b, struct json_object *json, dv_meta_column *column)
{
	struct json_object *set = dv_meta_member(json, "OptionSet");
	struct json_object *options = dv_meta_array(set, "Options");
	bool		yes_no = dv_meta_member(set, "TrueOption") != NULL;
	size_t		i;

	column->choices = dv_arena_zeroed(b->arena, dv_meta_length(options) + 2, sizeof(*column->choices));
	for (i = 0; i < dv_meta_length(options); i++)
	{
		struct json_object *option = json_object_array_get_idx(options, i);

		add_choice(column, dv_meta_int(option, "Value", 0), option);
	}
	if (yes_no)
	{
		add_choice(column, 0, dv_meta_member(set, "FalseOption"));
		add_choice(column, 1, dv_meta_member(set, "TrueOption"));
	}
}

/* Returns "1 = Good, 2 = Poor", or an empty text if the column is not a choice. */
static dv_arena_text
list_of_choices(builder *b, const dv_meta_column *column)
{
	dv_arena_text text = dv_arena_text_begin(b->arena);
	int			i;

	for (i = 0; i < column->nchoices; i++)
	{
		const dv_meta_choice *choice = &column->choices[i];

		dv_arena_append_item(&text, ", ", column->type == DV_TYPE_BOOLEAN ?
							 (choice->value ? "true" : "false") :
							 dv_arena_printf(b->arena, "%d", choice->value));
		if (choice->label != NULL)
		{
			dv_arena_append(&text, " = ");
			dv_arena_append(&text, choice->label);
		}
	}
	return text;
}

/* "Grade (1 = Good, 2 = Poor): how it looks" */
static const char *
comment_of(builder *b, struct json_object *json, const dv_meta_column *column)
{
	const char *name = label_text(dv_meta_member(json, "DisplayName"));
	const char *description = label_text(dv_meta_member(json, "Description"));
	dv_arena_text text = dv_arena_text_begin(b->arena);
	dv_arena_text choices = dv_arena_text_begin(b->arena);

	if (column != NULL)
		choices = list_of_choices(b, column);
	if (name != NULL)
		dv_arena_append(&text, name);
	if (choices.len > 0)
	{
		dv_arena_append_item(&text, " ", "(");
		dv_arena_append(&text, choices.s);
		dv_arena_append(&text, ")");
	}
	if (description != NULL)
		dv_arena_append_item(&text, ": ", description);
	return text.len > 0 ? text.s : NULL;
}

/* ---------------------------------------------------------------- types */

static const dv_type_info *
type_called(const char *attribute_type)
{
	int			i;

	for (i = 0; attribute_type != NULL && i < DV_TYPES; i++)
		if (dv_types[i].attribute_type != NULL &&
			strcmp(dv_types[i].attribute_type, attribute_type) == 0)
			return &dv_types[i];
	return NULL;
}

static bool
is_lookup(const attribute *a)
{
	return a->type->wire == DV_WIRE_REFERENCE;
}

/* Returns the source of a column's values; NULL if they are simply stored. */
static const char *
source_of(const attribute *a)
{
	static const char *const sources[] = {NULL, "calculated", "rollup", "formula", "prompt"};
	int			type = dv_meta_int(a->json, "SourceType", 0);

	return type >= 0 && type < (int) (sizeof(sources) / sizeof(sources[0])) ? sources[type] :
		"other";
}

static bool
is_readonly(const builder *b, const attribute *a)
{
	if ((a->type->flags & DV_READONLY) || source_of(a) != NULL)
		return true;
	/* a row of an intersect table consists of its pair of ids only */
	if (b->entry->intersect && b->entry->sides[0].column != NULL &&
		b->entry->sides[1].column != NULL)
		return strcmp(a->name, b->entry->sides[0].column) != 0 &&
			strcmp(a->name, b->entry->sides[1].column) != 0;
	return !dv_meta_bool(a->json, "IsValidForCreate", true) &&
		!dv_meta_bool(a->json, "IsValidForUpdate", true);
}

/* Returns false for the key, whose columns have rules of their own. */
static bool
is_create_only(const builder *b, const attribute *a)
{
	return !a->primary && strcmp(a->name, "partitionid") != 0 && !b->entry->intersect &&
		!dv_meta_bool(a->json, "IsValidForUpdate", true);
}

/* States, and images other than the primary one, are sent again by the writer, after the row. */
static bool
is_update_only(const builder *b, const attribute *a, const dv_meta_column *column)
{
	switch (column->type)
	{
		case DV_TYPE_STATE:
		case DV_TYPE_STATUS:
		case DV_TYPE_IMAGE:
			return false;
		default:
			return !a->primary && !is_readonly(b, a) && !b->entry->intersect &&
				!dv_meta_bool(a->json, "IsValidForCreate", true);
	}
}

/*
 * MaxLength limits new values; older ones may fill all of DatabaseLength.  Both
 * count units of UTF-16, each of which takes up to three bytes in UTF-8.
 */
static const char *
sql_of_string(builder *b, const attribute *a)
{
	int			length = dv_meta_int(a->json, "MaxLength", 0);
	int			room = dv_meta_int(a->json, "DatabaseLength", 0) / 2;

	if (room > length)
		length = room;
	if (b->wish->bytes && length <= VARCHAR_MAX)
		length *= 3;
	if (length <= 0 || length > VARCHAR_MAX || dv_meta_bool(a->json, "IsLogical", false) ||
		strcmp(b->table->table_type, "virtual") == 0)
		return "text";
	return dv_arena_printf(b->arena, "varchar(%d)", length);
}

static const char *
sql_of_number(builder *b, int whole, int scale, int most)
{
	if (scale < 0 || scale > most)
		scale = most;
	return dv_arena_printf(b->arena, "numeric(%d,%d)", whole + scale, scale);
}

/*
 * Money is stored with four digits.  The number of significant ones is known
 * only if the column itself specifies it (rather than the organisation or the
 * row's currency), and its value is not computed from another column.
 */
static const char *
sql_of_money(builder *b, const attribute *a)
{
	bool		own = dv_meta_int(a->json, "PrecisionSource", 2) == 0 && !is_readonly(b, a);

	return sql_of_number(b, 15, own ? dv_meta_int(a->json, "Precision", 4) : 4, 4);
}

/* The attribute's type does not say whether a time has a time zone. */
static dv_type
type_of_time(const attribute *a)
{
	const char *behavior = dv_meta_string(dv_meta_member(a->json, "DateTimeBehavior"), "Value");

	if (behavior != NULL && strcmp(behavior, "DateOnly") == 0)
		return DV_TYPE_DATE;
	if (behavior != NULL && strcmp(behavior, "TimeZoneIndependent") == 0)
		return DV_TYPE_DATETIME_INDEPENDENT;
	return DV_TYPE_DATETIME;
}

static void
set_type(builder *b, const attribute *a, dv_meta_column *column)
{
	column->type = (dv_type) (a->type - dv_types);
	if (column->type == DV_TYPE_DATETIME)
		column->type = type_of_time(a);
	column->text = (a->type->flags & DV_FREE_TEXT) != 0;
	switch (column->type)
	{
		case DV_TYPE_STRING:
			column->sql = sql_of_string(b, a);
			break;
		case DV_TYPE_DECIMAL:
			column->sql = sql_of_number(b, 12, dv_meta_int(a->json, "Precision", 10), 10);
			break;
		case DV_TYPE_MONEY:
			column->sql = sql_of_money(b, a);
			break;
		default:
			column->sql = dv_types[column->type].sql;
			break;
	}
}

/* ---------------------------------------------------------------- lookups */

static const char *
relationship_key(builder *b, const char *column, const char *target)
{
	dv_arena_text key = dv_arena_text_begin(b->arena);

	dv_arena_append(&key, column);
	dv_arena_append(&key, "/");
	dv_arena_append(&key, target);
	return key.s;
}

static void
read_relationships(builder *b)
{
	struct json_object *all = dv_meta_array(b->definition, "ManyToOneRelationships");
	size_t		i;

	b->relationships = dv_name_index_begin(b->arena);
	for (i = 0; i < dv_meta_length(all); i++)
	{
		struct json_object *one = json_object_array_get_idx(all, i);
		const char *from = dv_meta_string(one, "ReferencingAttribute");
		const char *to = dv_meta_string(one, "ReferencedEntity");

		if (from != NULL && to != NULL)
			(void) dv_name_index_add(&b->relationships, relationship_key(b, from, to), i);
	}
}

/* Returns the navigation property for that target, or NULL if there is none. */
static const char *
navigation_to(builder *b, const char *column, const char *target)
{
	struct json_object *all = dv_meta_array(b->definition, "ManyToOneRelationships");
	const size_t *i = dv_name_index_find(&b->relationships, relationship_key(b, column, target));

	return i != NULL ? dv_meta_string(json_object_array_get_idx(all, *i),
									  "ReferencingEntityNavigationPropertyName") : NULL;
}

typedef struct target_lists
{
	dv_arena_text targets;
	dv_arena_text sets;
	dv_arena_text navigations;
	int			n;
} target_lists;

/*
 * Targets without a navigation property or an entity set cannot be written, so
 * they are left out.
 */
static void
add_target(builder *b, target_lists *lists, const char *target, const char *navigation)
{
	const dv_meta_entry *entry = dv_meta_find(b->catalog, target);

	if (entry == NULL || navigation == NULL)
		return;
	dv_arena_append_item(&lists->targets, ",", target);
	dv_arena_append_item(&lists->sets, ",", entry->entity_set);
	dv_arena_append_item(&lists->navigations, ",", navigation);
	lists->n++;
}

/* An owner is bound by a single navigation property, whose relationship leads to "owner". */
static void
add_targets(builder *b, const attribute *a, target_lists *lists)
{
	static const char *const owners[] = {"systemuser", "team"};
	struct json_object *targets = dv_meta_array(a->json, "Targets");
	size_t		n = dv_meta_length(targets);
	bool		owner = a->type == &dv_types[DV_TYPE_OWNER];
	size_t		i;

	if (n == 0 && owner)
		n = sizeof(owners) / sizeof(owners[0]);
	for (i = 0; i < n; i++)
	{
		const char *target = dv_meta_length(targets) > 0
		? json_object_get_string(json_object_array_get_idx(targets, i))
		: owners[i];
		const char *navigation = NULL;

		if (target == NULL)
			continue;
		navigation = navigation_to(b, a->name, target);
		if (navigation == NULL && owner)
			navigation = navigation_to(b, a->name, "owner");
		add_target(b, lists, target, navigation);
	}
}

/* The ids in a row of an intersect table refer to tables, too, through a collection. */
static void
add_side(builder *b, const attribute *a, target_lists *lists)
{
	int			i;

	for (i = 0; i < 2; i++)
	{
		const dv_meta_side *side = &b->entry->sides[i];

		if (side->column != NULL && strcmp(side->column, a->name) == 0)
			add_target(b, lists, side->table, side->navigation);
	}
}

/* Returns the number of tables to which the column may refer, as far as is known. */
static int
set_targets(builder *b, const attribute *a, dv_meta_column *column)
{
	target_lists lists = {dv_arena_text_begin(b->arena), dv_arena_text_begin(b->arena),
	dv_arena_text_begin(b->arena), 0};
	bool		lookup = is_lookup(a);
	int			n;

	if (lookup)
		add_targets(b, a, &lists);
	else if (b->entry->intersect)
		add_side(b, a, &lists);
	if (lists.n > 0)
	{
		column->target = lists.targets.s;
		column->target_set = lists.sets.s;
		column->navigation = lists.navigations.s;
	}
	else if (lookup)
		column->readonly = true;
	n = (int) dv_meta_length(dv_meta_array(a->json, "Targets"));
	return n > lists.n ? n : lists.n;
}

/* ---------------------------------------------------------------- names */

/* System columns have their names in every table. */
static void
begin_names(builder *b)
{
	static const char *const system[] = {"ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"};
	size_t		i;

	b->names = dv_meta_names_begin(b->arena);
	for (i = 0; i < sizeof(system) / sizeof(system[0]); i++)
		(void) dv_meta_names_take(&b->names, system[i]);
}

static bool
ends_with(const char *s, const char *end)
{
	size_t		len = strlen(s);
	size_t		n = strlen(end);

	return len >= n && strcmp(s + len - n, end) == 0;
}

/* Returns true if "name" is the column's name with "end" appended. */
static bool
is_extended(const char *name, const char *column, const char *end)
{
	size_t		len = strlen(column);

	return strncmp(name, column, len) == 0 && strcmp(name + len, end) == 0;
}

/* Returns how unlikely it is that this helper is the label of the column; 3 if it is not. */
static int
label_distance(const attribute *helper, const attribute *a)
{
	if (helper->parent == NULL || helper->type == NULL || strcmp(helper->parent, a->name) != 0 ||
		(helper->type != &dv_types[DV_TYPE_OTHER] && helper->type != &dv_types[DV_TYPE_STRING]) ||
		ends_with(helper->name, "yominame") || is_extended(helper->name, a->name, "pid"))
		return 3;
	if (is_extended(helper->name, a->name, "name"))
		return 0;
	return ends_with(helper->name, "name") ? 1 : 2;
}

static attribute *
find_attribute(const builder *b, const char *name)
{
	const size_t *i = dv_name_index_find(&b->by_name, name);

	return i != NULL ? &b->attributes[*i] : NULL;
}

/*
 * For most labels, the service has a column that cannot be read but has the
 * familiar name, which need not be the column's name with "name" appended.
 */
static void
find_labels(builder *b)
{
	int			i;

	for (i = 0; i < b->nattributes; i++)
	{
		const attribute *helper = &b->attributes[i];
		attribute  *a = helper->parent != NULL ? find_attribute(b, helper->parent) : NULL;
		int			distance = a != NULL ? label_distance(helper, a) : 3;

		if (distance == 3 || (a->label != NULL && a->label_distance <= distance))
			continue;
		a->label = helper->name;
		a->label_distance = distance;
	}
}

static const char *
label_name(builder *b, const attribute *a)
{
	return a->label != NULL ? a->label : dv_arena_printf(b->arena, "%sname", a->name);
}

/* ---------------------------------------------------------------- columns */

/*
 * Helpers do not become columns, except those that are properties of the row:
 * the URL of an image, the name of a file, the date of a rollup, and the
 * partition of a row of an elastic table.
 */
static bool
is_shown(const builder *b, const attribute *a)
{
	const attribute *parent;

	if (a->type == NULL || !dv_meta_bool(a->json, "IsValidForRead", true) ||
		!dv_meta_bool(a->json, "IsValidODataAttribute", true))
		return false;
	if (!b->wish->readonly && !a->primary && is_readonly(b, a))
		return false;
	if (a->parent == NULL)
		return true;
	parent = find_attribute(b, a->parent);
	if (!dv_meta_bool(a->json, "IsValidODataAttribute", false) || parent == NULL ||
		parent->type == NULL)
		return false;
	return (parent->type->flags & DV_HELPED) || is_extended(a->name, parent->name, "pid");
}

static int
compare_attributes(const void *left, const void *right)
{
	const attribute *a = left;
	const attribute *b = right;

	if (a->primary != b->primary)
		return a->primary ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void
read_attributes(builder *b)
{
	struct json_object *all = dv_meta_array(b->definition, "Attributes");
	size_t		n = dv_meta_length(all);
	size_t		i;

	b->attributes = dv_arena_zeroed(b->arena, n, sizeof(*b->attributes));
	for (i = 0; i < n; i++)
	{
		struct json_object *json = json_object_array_get_idx(all, i);
		attribute  *a = &b->attributes[b->nattributes];

		a->name = dv_arena_copy(b->arena, dv_meta_string(json, "LogicalName"));
		if (a->name == NULL || a->name[0] == '\0')
			continue;
		a->parent = dv_meta_string(json, "AttributeOf");
		a->type = type_called(dv_meta_string(dv_meta_member(json, "AttributeTypeName"), "Value"));
		a->json = json;
		a->number = dv_meta_int(json, "ColumnNumber", 0);
		a->primary = b->table->primary_id != NULL && strcmp(a->name, b->table->primary_id) == 0;
		b->nattributes++;
	}
	qsort(b->attributes, (size_t) b->nattributes, sizeof(*b->attributes), compare_attributes);
	b->by_name = dv_name_index_begin(b->arena);
	for (i = 0; i < (size_t) b->nattributes; i++)
		(void) dv_name_index_add(&b->by_name, b->attributes[i].name, i);
	find_labels(b);
}

/*
 * Decides which columns are shown, and names them, beginning with those that
 * can keep their names.
 */
static void
name_attributes(builder *b)
{
	int			i;

	begin_names(b);
	for (i = 0; i < b->nattributes; i++)
		b->attributes[i].shown = is_shown(b, &b->attributes[i]);
	for (i = 0; i < b->nattributes; i++)
	{
		attribute  *a = &b->attributes[i];

		if (a->shown && strlen(a->name) <= DV_META_NAME_MAX &&
			dv_meta_names_take(&b->names, a->name))
			a->local = a->name;
	}
	for (i = 0; i < b->nattributes; i++)
		if (b->attributes[i].shown && b->attributes[i].local == NULL)
			b->attributes[i].local = dv_meta_names_give(&b->names, b->attributes[i].name);
}

static dv_meta_column *
add_column(builder *b, const char *name)
{
	dv_meta_column *column = &b->table->columns[b->table->ncolumns];

	memset(column, 0, sizeof(*column));
	column->name = name;
	b->table->ncolumns++;
	return column;
}

static void
add_attribute(builder *b, const attribute *a, bool labels)
{
	dv_meta_column *column = add_column(b, a->local);
	int			ntargets;

	column->column = a->name;
	column->primary = a->primary;
	column->readonly = is_readonly(b, a);
	column->left_out = column->readonly && !a->primary;
	column->helper_of = a->parent;
	column->source = source_of(a);
	column->primary_image = dv_meta_bool(a->json, "IsPrimaryImage", false);
	set_type(b, a, column);
	ntargets = set_targets(b, a, column);
	column->update_only = is_update_only(b, a, column) && !column->readonly;
	column->create_only = is_create_only(b, a) && !column->readonly;
	if (b->wish->comments)
	{
		read_choices(b, a->json, column);
		column->comment = comment_of(b, a->json, column);
	}
	if (is_lookup(a) && ntargets > 1)
	{
		const char *name = dv_arena_printf(b->arena, "%stype", a->name);
		dv_meta_column *type = add_column(b, dv_meta_names_give(&b->names, name));

		type->type = DV_TYPE_ENTITYNAME;
		type->sql = dv_types[DV_TYPE_ENTITYNAME].sql;
		type->ref_type_of = a->name;
		type->readonly = column->readonly;
	}
	if ((a->type->flags & DV_LABELLED) && labels)
	{
		dv_meta_column *label = add_column(b, dv_meta_names_give(&b->names, label_name(b, a)));

		label->type = DV_TYPE_OTHER;
		label->sql = dv_types[DV_TYPE_OTHER].sql;
		label->label_of = a->name;
		label->readonly = true;
	}
}

/* Labels are left out if there would be more columns than PostgreSQL supports. */
static void
add_columns(builder *b)
{
	int			shown = 0;
	int			types = 0;
	int			labels = 0;
	int			i;

	for (i = 0; i < b->nattributes; i++)
	{
		const attribute *a = &b->attributes[i];

		if (!a->shown)
			continue;
		shown++;
		types += is_lookup(a);
		labels += (a->type->flags & DV_LABELLED) != 0;
	}
	b->table->without_labels = b->wish->labels && shown + types + labels > DV_META_COLUMNS_MAX;
	b->table->columns = dv_arena_zeroed(b->arena, (size_t) (shown + types + labels),
										sizeof(*b->table->columns));
	for (i = 0; i < b->nattributes; i++)
		if (b->attributes[i].shown)
			add_attribute(b, &b->attributes[i], b->wish->labels && !b->table->without_labels);
}

/* ---------------------------------------------------------------- the table */

static const char *
table_type_of(builder *b)
{
	const char *type = dv_meta_string(b->definition, "TableType");

	if (b->entry->intersect)
		return "intersect";
	if (type != NULL && strcmp(type, "Elastic") == 0)
		return "elastic";
	if (type != NULL && strcmp(type, "Virtual") == 0)
		return "virtual";
	return "standard";
}

/* Lists the active alternate keys: columns separated by commas, keys by semicolons. */
static const char *
keys_of(builder *b)
{
	struct json_object *keys = dv_meta_array(b->definition, "Keys");
	dv_arena_text text = dv_arena_text_begin(b->arena);
	size_t		i;
	size_t		j;

	for (i = 0; i < dv_meta_length(keys); i++)
	{
		struct json_object *key = json_object_array_get_idx(keys, i);
		const char *status = dv_meta_string(key, "EntityKeyIndexStatus");
		struct json_object *columns = dv_meta_array(key, "KeyAttributes");

		if (status == NULL || strcmp(status, "Active") != 0)
			continue;
		for (j = 0; j < dv_meta_length(columns); j++)
		{
			const char *column = json_object_get_string(json_object_array_get_idx(columns, j));

			if (column != NULL)
				dv_arena_append_item(&text, j > 0 ? "," : ";", column);
		}
	}
	return text.len > 0 ? text.s : NULL;
}

void
dv_meta_table_read(const dv_arena *arena, const dv_meta_catalog *catalog,
				   const dv_meta_entry *entry, struct json_object *definition,
				   const dv_meta_wish *wish, dv_meta_table *table)
{
	builder		b = {.arena = arena,
		.catalog = catalog,
		.entry = entry,
		.definition = definition,
		.wish = wish,
	.table = table};

	memset(table, 0, sizeof(*table));
	table->table = entry->table;
	table->local = entry->local;
	table->entity_set = entry->entity_set;
	table->primary_id = dv_arena_copy(arena, dv_meta_string(definition, "PrimaryIdAttribute"));
	table->table_type = table_type_of(&b);
	table->keys = keys_of(&b);
	if (wish->comments)
		table->comment = comment_of(&b, definition, NULL);
	read_attributes(&b);
	read_relationships(&b);
	if (strcmp(table->table_type, "elastic") == 0 && find_attribute(&b, "partitionid") != NULL)
		table->partition_id = "partitionid";
	name_attributes(&b);
	add_columns(&b);
}

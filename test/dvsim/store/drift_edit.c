/*
 * drift_edit.c
 *		Changes of the JSON that a schema is built from.
 *
 * Changes that the service refuses because of dependencies are refused here;
 * other errors in a definition are found when the schema is built.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "store/drift.h"
#include "wire/request.h"
#include "store/store.h"

static bool refuse(struct sim_drift_edit *e, const char *fmt,...)
			__attribute__((format(printf, 2, 3)));

static bool
refuse(struct sim_drift_edit *e, const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	e->error = sim_vfmt(e->arena, fmt, args);
	va_end(args);
	return false;
}

/* ----------
 * Members
 * ----------
 */

static const char *
text_of(struct json_object *object, const char *name)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, name, &value) ||
		!json_object_is_type(value, json_type_string))
		return NULL;
	return json_object_get_string(value);
}

static bool
flag_of(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) && json_object_get_boolean(value);
}

static struct json_object *
array_of(struct json_object *object, const char *name)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, name, &value) ||
		!json_object_is_type(value, json_type_array))
		return NULL;
	return value;
}

static void
set_text(struct json_object *object, const char *name, const char *value)
{
	json_object_object_add(object, name, json_object_new_string(value));
}

/* returns a member of the change that must be a text; NULL and an error if it is not */
static const char *
needed(struct sim_drift_edit *e, const char *name)
{
	const char *value = text_of(e->change, name);

	if (value == NULL)
		refuse(e, "the change needs \"%s\", a text", name);
	return value;
}

static char *
lower(struct sim_arena *arena, const char *name)
{
	char	   *copy = sim_strdup(arena, name);

	for (char *p = copy; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char) (*p - 'A' + 'a');
	return copy;
}

static void
new_metadata_id(struct sim_drift_edit *e, struct json_object *object)
{
	char		id[37];

	sim_guid_random(e->sim, id);
	set_text(object, "metadata_id", id);
}

static struct json_object *
copy_of(struct json_object *object)
{
	struct json_object *copy = NULL;

	json_object_deep_copy(object, &copy, NULL);
	return copy;
}

/* returns the position of the member of an array with this name; -1 if there is none */
static int
find_named(struct json_object *array, const char *name)
{
	for (size_t i = 0; array != NULL && i < json_object_array_length(array); i++)
	{
		const char *other = text_of(json_object_array_get_idx(array, i), "name");

		if (other != NULL && strcasecmp(other, name) == 0)
			return (int) i;
	}
	return -1;
}

struct json_object *
sim_drift_table(struct json_object *root, const char *name)
{
	struct json_object *tables = json_object_object_get(root, "tables");
	int			i = find_named(tables, name);

	return i < 0 ? NULL : json_object_array_get_idx(tables, (size_t) i);
}

/* returns the table named by the change */
static struct json_object *
the_table(struct sim_drift_edit *e)
{
	const char *name = needed(e, "table");
	struct json_object *table = name != NULL ? sim_drift_table(e->root, name) : NULL;

	if (name == NULL)
		return NULL;
	if (table == NULL)
		refuse(e, "there is no table \"%s\"", name);
	else
		e->table = lower(e->arena, name);
	return table;
}

/* returns the column named by the change, which must be in the table's definition */
static struct json_object *
the_column(struct sim_drift_edit *e, struct json_object *table, int *position)
{
	const char *name = needed(e, "column");
	struct json_object *columns = array_of(table, "columns");
	int			i = name != NULL ? find_named(columns, name) : -1;

	if (name == NULL)
		return NULL;
	if (i < 0)
	{
		refuse(e, "the definition of table \"%s\" has no column \"%s\"", e->table, name);
		return NULL;
	}
	if (position != NULL)
		*position = i;
	return json_object_array_get_idx(columns, (size_t) i);
}

/* Members of "set" replace those of the definition; a null removes one. */
static bool
merge(struct sim_drift_edit *e, struct json_object *object, const char *const *fixed)
{
	struct json_object *set = NULL;
	struct lh_entry *entry;

	if (!json_object_object_get_ex(e->change, "set", &set) ||
		!json_object_is_type(set, json_type_object))
		return refuse(e, "the change needs \"set\", an object");
	for (entry = json_object_get_object(set)->head; entry != NULL; entry = lh_entry_next(entry))
	{
		const char *name = lh_entry_k(entry);
		struct json_object *value = (struct json_object *) lh_entry_v(entry);

		for (int i = 0; fixed[i] != NULL; i++)
			if (strcmp(fixed[i], name) == 0)
				return refuse(e, "\"%s\" cannot be set", name);
		if (value == NULL)
			json_object_object_del(object, name);
		else
			json_object_object_add(object, name, copy_of(value));
	}
	return true;
}

/* ----------
 * Columns
 * ----------
 */

static bool
is_in_key(struct json_object *key, const char *column)
{
	struct json_object *names = array_of(key, "columns");

	for (size_t i = 0; names != NULL && i < json_object_array_length(names); i++)
		if (strcmp(json_object_get_string(json_object_array_get_idx(names, i)), column) == 0)
			return true;
	return false;
}

/* Returns what must be deleted before the column; NULL if nothing depends on it. */
static const char *
depends_on(struct sim_drift_edit *e, struct json_object *table, const char *column)
{
	struct json_object *keys = array_of(table, "keys");
	struct json_object *columns = array_of(table, "columns");
	const char *primary = text_of(table, "primary_name");
	const char *braced = sim_fmt(e->arena, "{%s}", column);

	if (primary != NULL && strcmp(primary, column) == 0)
		return "it is the primary name";
	for (size_t i = 0; keys != NULL && i < json_object_array_length(keys); i++)
	{
		struct json_object *key = json_object_array_get_idx(keys, i);

		if (is_in_key(key, column))
			return sim_fmt(e->arena, "key \"%s\" consists of it", text_of(key, "name"));
	}
	for (size_t i = 0; i < json_object_array_length(columns); i++)
	{
		struct json_object *other = json_object_array_get_idx(columns, i);
		const char *formula = text_of(other, "formula");

		if (formula != NULL && strstr(formula, braced) != NULL)
			return sim_fmt(e->arena, "column \"%s\" is computed from it", text_of(other, "name"));
	}
	return NULL;
}

static bool
add_column(struct sim_drift_edit *e)
{
	struct json_object *table = the_table(e);
	struct json_object *before = table != NULL ? sim_drift_table(e->base, e->table) : NULL;
	struct json_object *columns;
	struct json_object *definition = NULL;
	int			i;

	if (table == NULL)
		return false;
	if (!json_object_object_get_ex(e->change, "definition", &definition))
	{
		const char *name = needed(e, "column");

		if (name == NULL)
			return refuse(e, "the change needs \"definition\", or \"column\", the name of one "
						  "that the table had at the start");
		columns = before != NULL ? array_of(before, "columns") : NULL;
		i = find_named(columns, name);
		if (i < 0)
			return refuse(e, "table \"%s\" had no column \"%s\" at the start", e->table, name);
		definition = json_object_array_get_idx(columns, (size_t) i);
	}
	if (!json_object_is_type(definition, json_type_object))
		return refuse(e, "\"definition\" is not an object");
	definition = copy_of(definition);
	new_metadata_id(e, definition);
	columns = array_of(table, "columns");
	if (columns == NULL)
	{
		columns = json_object_new_array();
		json_object_object_add(table, "columns", columns);
	}
	json_object_array_add(columns, definition);
	return true;
}

static bool
drop_column(struct sim_drift_edit *e)
{
	struct json_object *table = the_table(e);
	int			position = 0;
	const char *name;
	const char *why;

	if (table == NULL || the_column(e, table, &position) == NULL)
		return false;
	name = lower(e->arena, text_of(e->change, "column"));
	why = depends_on(e, table, name);
	if (why != NULL)
		return refuse(e, "column \"%s\" cannot be dropped: %s", name, why);
	json_object_array_del_idx(array_of(table, "columns"), (size_t) position, 1);
	return true;
}

/* Keys and the primary name refer to columns by their logical names. */
static void
rename_references(struct json_object *table, const char *from, const char *to)
{
	struct json_object *keys = array_of(table, "keys");
	const char *primary = text_of(table, "primary_name");

	if (primary != NULL && strcmp(primary, from) == 0)
		set_text(table, "primary_name", to);
	for (size_t i = 0; keys != NULL && i < json_object_array_length(keys); i++)
	{
		struct json_object *names = array_of(json_object_array_get_idx(keys, i), "columns");

		for (size_t j = 0; names != NULL && j < json_object_array_length(names); j++)
			if (strcmp(json_object_get_string(json_object_array_get_idx(names, j)), from) == 0)
				json_object_array_put_idx(names, j, json_object_new_string(to));
	}
}

static void
rename_in_formulas(struct sim_drift_edit *e, struct json_object *table, const char *from,
				   const char *to)
{
	struct json_object *columns = array_of(table, "columns");
	const char *braced = sim_fmt(e->arena, "{%s}", from);

	for (size_t i = 0; i < json_object_array_length(columns); i++)
	{
		struct json_object *column = json_object_array_get_idx(columns, i);
		const char *formula = text_of(column, "formula");
		struct sim_buf text = {0};
		const char *at;

		if (formula == NULL || strstr(formula, braced) == NULL)
			continue;
		while ((at = strstr(formula, braced)) != NULL)
		{
			sim_put(&text, formula, (size_t) (at - formula));
			sim_putf(&text, "{%s}", to);
			formula = at + strlen(braced);
		}
		sim_puts(&text, formula);
		set_text(column, "formula", text.s);
		sim_buf_free(&text);
	}
}

static bool
rename_column(struct sim_drift_edit *e)
{
	struct json_object *table = the_table(e);
	struct json_object *column = table != NULL ? the_column(e, table, NULL) : NULL;
	const char *to = column != NULL ? needed(e, "to") : NULL;

	if (to == NULL)
		return false;
	e->renamed_from = lower(e->arena, text_of(column, "name"));
	e->renamed_to = lower(e->arena, to);
	if (strcmp(e->renamed_from, e->renamed_to) == 0)
		return refuse(e, "column \"%s\" has that name", to);
	set_text(column, "name", to);
	new_metadata_id(e, column);
	rename_references(table, e->renamed_from, e->renamed_to);
	rename_in_formulas(e, table, e->renamed_from, e->renamed_to);
	return true;
}

static bool
alter_column(struct sim_drift_edit *e)
{
	static const char *const fixed[] = {"name", "metadata_id", NULL};
	struct json_object *table = the_table(e);
	struct json_object *column = table != NULL ? the_column(e, table, NULL) : NULL;

	return column != NULL && merge(e, column, fixed);
}

/* ----------
 * Choices
 * ----------
 */

/* The list that the options of a status are in: that of its state. */
static struct json_object *
status_options(struct sim_drift_edit *e, struct json_object *table)
{
	struct json_object *states = array_of(table, "states");
	struct json_object *wanted = NULL;

	json_object_object_get_ex(e->change, "state", &wanted);
	if (states == NULL)
	{
		states = json_tokener_parse("[[0,\"Active\",[[1,\"Active\"]]],"
									"[1,\"Inactive\",[[2,\"Inactive\"]]]]");
		json_object_object_add(table, "states", states);
	}
	for (size_t i = 0; i < json_object_array_length(states); i++)
	{
		struct json_object *state = json_object_array_get_idx(states, i);

		if (json_object_get_int(json_object_array_get_idx(state, 0)) == json_object_get_int(wanted))
			return json_object_array_get_idx(state, 2);
	}
	refuse(e, "table \"%s\" has no state %d", e->table, json_object_get_int(wanted));
	return NULL;
}

/* returns the list of options to be changed */
static struct json_object *
the_options(struct sim_drift_edit *e)
{
	const char *set = text_of(e->change, "option_set");
	const char *name = text_of(e->change, "column");
	struct json_object *sets = json_object_object_get(e->root, "option_sets");
	struct json_object *options = NULL;
	struct json_object *table;
	struct json_object *column;

	if (set == NULL)
	{
		table = the_table(e);
		if (table == NULL)
			return NULL;
		if (name != NULL && strcasecmp(name, "statuscode") == 0)
			return status_options(e, table);
		column = the_column(e, table, NULL);
		if (column == NULL)
			return NULL;
		set = text_of(column, "option_set");
		options = set == NULL ? array_of(column, "options") : NULL;
		if (set == NULL && options == NULL)
			refuse(e, "column \"%s\" has no options of its own", name);
		if (set == NULL)
			return options;
	}
	options = sets != NULL ? array_of(sets, set) : NULL;
	if (options == NULL)
		refuse(e, "there is no option set \"%s\"", set);
	return options;
}

static int
option_position(struct json_object *options, int value)
{
	for (size_t i = 0; i < json_object_array_length(options); i++)
	{
		struct json_object *pair = json_object_array_get_idx(options, i);

		if (json_object_get_int(json_object_array_get_idx(pair, 0)) == value)
			return (int) i;
	}
	return -1;
}

static bool
the_value(struct sim_drift_edit *e, int *value)
{
	struct json_object *json = NULL;

	if (!json_object_object_get_ex(e->change, "value", &json) ||
		!json_object_is_type(json, json_type_int))
		return refuse(e, "the change needs \"value\", a whole number");
	*value = json_object_get_int(json);
	return true;
}

/* an existing value gets the label */
static bool
add_option(struct sim_drift_edit *e)
{
	struct json_object *options;
	struct json_object *pair;
	const char *label;
	int			value;
	int			i;

	if (!the_value(e, &value) || (label = needed(e, "label")) == NULL ||
		(options = the_options(e)) == NULL)
		return false;
	pair = json_object_new_array();
	json_object_array_add(pair, json_object_new_int(value));
	json_object_array_add(pair, json_object_new_string(label));
	i = option_position(options, value);
	if (i >= 0)
		json_object_array_put_idx(options, (size_t) i, pair);
	else
		json_object_array_add(options, pair);
	return true;
}

static bool
drop_option(struct sim_drift_edit *e)
{
	struct json_object *options;
	int			value;
	int			i;

	if (!the_value(e, &value) || (options = the_options(e)) == NULL)
		return false;
	i = option_position(options, value);
	if (i < 0)
		return refuse(e, "there is no option %d", value);
	if (json_object_array_length(options) == 1)
		return refuse(e, "the last option cannot be dropped");
	json_object_array_del_idx(options, (size_t) i, 1);
	return true;
}

/* ----------
 * Tables
 * ----------
 */

/* Every table has a type code, and no two tables ever had the same. */
static void
number_table(struct sim_drift_edit *e, struct json_object *table)
{
	struct json_object *last = NULL;
	int			code;

	json_object_object_get_ex(e->root, "last_type_code", &last);
	code = json_object_get_int(last) + 1;
	json_object_object_add(e->root, "last_type_code", json_object_new_int(code));
	json_object_object_add(table, "type_code", json_object_new_int(code));
}

static void
track_from_now(struct sim_drift_edit *e, struct json_object *table)
{
	json_object_object_add(table, "tracked_since",
						   json_object_new_int64(sim_next_version(e->sim->store)));
}

static bool
add_table(struct sim_drift_edit *e)
{
	struct json_object *definition = NULL;
	const char *name;

	if (!json_object_object_get_ex(e->change, "definition", &definition))
	{
		name = needed(e, "table");
		if (name == NULL)
			return refuse(e, "the change needs \"definition\", or \"table\", the name of one "
						  "that was there at the start");
		definition = sim_drift_table(e->base, name);
		if (definition == NULL)
			return refuse(e, "there was no table \"%s\" at the start", name);
	}
	name = text_of(definition, "name");
	if (name == NULL)
		return refuse(e, "the definition needs \"name\", a text");
	if (sim_drift_table(e->root, name) != NULL)
		return refuse(e, "there is a table \"%s\"", name);
	e->table = lower(e->arena, name);
	definition = copy_of(definition);
	number_table(e, definition);
	new_metadata_id(e, definition);
	track_from_now(e, definition);
	json_object_array_add(json_object_object_get(e->root, "tables"), definition);
	return true;
}

/*
 * Removes the table from a lookup's targets, as the service does for lookups
 * that can point to many tables.  False if no other target is left.
 */
static bool
remove_target(struct json_object *column, const char *name)
{
	struct json_object *targets = array_of(column, "targets");

	for (size_t i = 0; targets != NULL && i < json_object_array_length(targets); i++)
	{
		struct json_object *target = json_object_array_get_idx(targets, i);
		const char *table = json_object_is_type(target, json_type_string) ?
		json_object_get_string(target) : text_of(target, "table");

		if (table == NULL || strcasecmp(table, name) != 0)
			continue;
		if (json_object_array_length(targets) == 1)
			return false;
		json_object_array_del_idx(targets, i, 1);
		i--;
	}
	return true;
}

static bool
is_link_of(struct json_object *table, const char *name)
{
	struct json_object *many = NULL;
	const char *table1;
	const char *table2;

	if (!json_object_object_get_ex(table, "many", &many))
		return false;
	table1 = text_of(many, "table1");
	table2 = text_of(many, "table2");
	return (table1 != NULL && strcmp(table1, name) == 0) ||
		(table2 != NULL && strcmp(table2, name) == 0);
}

/* Removes a column, with the keys and computed columns that depend on it. */
static bool
remove_column(struct sim_drift_edit *e, struct json_object *table, const char *name)
{
	struct json_object *keys = array_of(table, "keys");
	struct json_object *columns = array_of(table, "columns");
	const char *primary = text_of(table, "primary_name");
	const char *braced = sim_fmt(e->arena, "{%s}", name);

	if (primary != NULL && strcmp(primary, name) == 0)
		return refuse(e, "column \"%s\" of table \"%s\" is its primary name", name,
					  text_of(table, "name"));
	json_object_array_del_idx(columns, (size_t) find_named(columns, name), 1);
	for (size_t i = 0; keys != NULL && i < json_object_array_length(keys); i++)
		if (is_in_key(json_object_array_get_idx(keys, i), name))
			json_object_array_del_idx(keys, i--, 1);
	for (size_t i = 0; i < json_object_array_length(columns); i++)
	{
		struct json_object *other = json_object_array_get_idx(columns, i);
		const char *formula = text_of(other, "formula");

		if (formula == NULL || strstr(formula, braced) == NULL)
			continue;
		if (!remove_column(e, table, lower(e->arena, text_of(other, "name"))))
			return false;
		i = (size_t) -1;		/* several may have been removed */
	}
	return true;
}

/*
 * Handles lookups to a table that is deleted: they lose a target, are deleted with it
 * ("cascade"), or refuse.
 */
static bool
remove_lookups(struct sim_drift_edit *e, struct json_object *table, const char *target)
{
	struct json_object *columns = array_of(table, "columns");

	for (size_t i = 0; columns != NULL && i < json_object_array_length(columns); i++)
	{
		struct json_object *column = json_object_array_get_idx(columns, i);
		const char *name = text_of(column, "name");

		if (remove_target(column, target))
			continue;
		if (!flag_of(e->change, "cascade"))
			return refuse(e, "table \"%s\" cannot be dropped: column \"%s\" of table \"%s\" points "
						  "to it", target, name, text_of(table, "name"));
		if (!remove_column(e, table, lower(e->arena, name)))
			return false;
		i = (size_t) -1;
	}
	return true;
}

/* N:N relationships go with the table, and so do its places in lookups that have others. */
static bool
drop_table(struct sim_drift_edit *e)
{
	struct json_object *tables = json_object_object_get(e->root, "tables");
	struct json_object *table = the_table(e);

	if (table == NULL)
		return false;
	if (flag_of(table, "core"))
		return refuse(e, "the service needs table \"%s\"", e->table);
	json_object_array_del_idx(tables, (size_t) find_named(tables, e->table), 1);
	for (size_t i = 0; i < json_object_array_length(tables); i++)
	{
		struct json_object *other = json_object_array_get_idx(tables, i);

		if (is_link_of(other, e->table))
			json_object_array_del_idx(tables, i--, 1);
		else if (!remove_lookups(e, other, e->table))
			return false;
	}
	return true;
}

static bool
alter_table(struct sim_drift_edit *e)
{
	static const char *const fixed[] = {
		"name", "id", "type", "type_code", "columns", "keys", "many", "states", "primary_name",
		"core", "borrowed", "metadata_id", "tracked_since", NULL
	};
	struct json_object *table = the_table(e);
	bool		tracked = table != NULL && flag_of(table, "change_tracking");

	if (table == NULL || !merge(e, table, fixed))
		return false;
	if (flag_of(table, "change_tracking") && !tracked)
		track_from_now(e, table);
	return true;
}

/* ----------
 * All of them
 * ----------
 */

static const struct
{
	const char *name;
	bool		(*edit) (struct sim_drift_edit *e);
	const char *members;		/* besides "change" and "touch" */
}			kinds[] = {
	{"add_table", add_table, "table definition"},
	{"drop_table", drop_table, "table cascade"},
	{"alter_table", alter_table, "table set"},
	{"add_column", add_column, "table column definition"},
	{"drop_column", drop_column, "table column"},
	{"rename_column", rename_column, "table column to"},
	{"alter_column", alter_column, "table column set"},
	{"add_option", add_option, "table column option_set state value label"},
	{"drop_option", drop_option, "table column option_set state value"},
};

static bool
is_word_of(const char *words, const char *word)
{
	size_t		len = strlen(word);
	const char *at;

	for (at = words; (at = strstr(at, word)) != NULL; at += len)
		if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
			return true;
	return false;
}

static bool
check_members(struct sim_drift_edit *e, const char *members)
{
	struct lh_entry *entry;

	for (entry = json_object_get_object(e->change)->head; entry != NULL;
		 entry = lh_entry_next(entry))
	{
		const char *name = lh_entry_k(entry);

		if (strcmp(name, "change") != 0 && strcmp(name, "touch") != 0 && !is_word_of(members, name))
			return refuse(e, "this change has no member \"%s\"", name);
	}
	return true;
}

bool
sim_drift_edit(struct sim_drift_edit *edit)
{
	const char *name;

	if (!json_object_is_type(edit->change, json_type_object))
		return refuse(edit, "a change is an object");
	name = needed(edit, "change");
	if (name == NULL)
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		if (strcmp(kinds[i].name, name) == 0)
			return check_members(edit, kinds[i].members) && kinds[i].edit(edit);
	}
	return refuse(edit, "there is no change \"%s\"", name);
}

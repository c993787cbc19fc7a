/*
 * lookup.c
 *		Where a lookup can lead, by the options of its column.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fdw/lookup.h"

/* The names of a comma-separated option; NIL without it. */
static List *
names_of(dv_options options, const char *option)
{
	const char *text = dv_option_text(options, option);
	List	   *names = NIL;

	while (text != NULL)
	{
		const char *comma = strchr(text, ',');
		size_t		len = comma != NULL ? (size_t) (comma - text) : strlen(text);

		for (; len > 0 && *text == ' '; len--)
			text++;
		while (len > 0 && text[len - 1] == ' ')
			len--;
		names = lappend(names, pnstrdup(text, len));
		text = comma != NULL ? comma + 1 : NULL;
	}
	return names;
}

const char *
dv_lookup_name(const List *names, int i)
{
	return i < list_length(names) ? list_nth(names, i) : NULL;
}

/* A hand-written table need not say where owners and customers are. */
void
dv_lookup_read(const dv_column *column, dv_options options, dv_lookup *lookup)
{
	lookup->tables = names_of(options, "target");
	lookup->sets = names_of(options, "target_set");
	lookup->navigations = names_of(options, "navigation");
	if (lookup->tables != NIL || lookup->sets != NIL)
		return;
	if (column->type == DV_TYPE_OWNER)
	{
		lookup->tables = list_make2("systemuser", "team");
		lookup->sets = list_make2("systemusers", "teams");
	}
	else if (column->type == DV_TYPE_CUSTOMER)
	{
		lookup->tables = list_make2("account", "contact");
		lookup->sets = list_make2("accounts", "contacts");
	}
}

/*
 * Without the option it is the column's name; with several tables the service
 * adds the table's name to it.
 */
const char *
dv_lookup_navigation(const dv_lookup *lookup, const dv_column *column, int i)
{
	const char *table = dv_lookup_name(lookup->tables, i);

	if (list_length(lookup->navigations) == 1)
		return linitial(lookup->navigations);
	if (i < list_length(lookup->navigations))
		return list_nth(lookup->navigations, i);
	if (list_length(lookup->sets) <= 1 || column->type == DV_TYPE_OWNER || table == NULL)
		return column->name;
	return psprintf("%s_%s", column->name, table);
}

/*
 * columns.c
 *		Lists of columns, such as the value of option "upsert_key".
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/varlena.h"

#include "fdw/columns.h"

static bool
is_in(const List *names, int n, const char *name)
{
	int			i;

	for (i = 0; i < n; i++)
		if (strcmp(list_nth(names, i), name) == 0)
			return true;
	return false;
}

const char *
dv_columns_read(const char *text, List **names)
{
	int			i;

	if (!SplitIdentifierString(pstrdup(text), ',', names) || *names == NIL)
		return "It must be a list of columns, such as \"a,b\".";
	for (i = 0; i < list_length(*names); i++)
	{
		const char *name = list_nth(*names, i);

		if (name[0] == '\0')
			return "A column's name cannot be empty.";
		if (is_in(*names, i, name))
			return psprintf("It has column \"%s\" twice.", name);
	}
	return NULL;
}

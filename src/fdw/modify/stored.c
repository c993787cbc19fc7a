/*
 * stored.c
 *		Describes how the columns of rows are read back.
 *
 * When the outcome of a request is unknown, the writer compares rows with those
 * that it sent: new ones whose ids the statement supplies, and updated ones that
 * must not have been changed by anybody else.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "foreign/foreign.h"

#include "fdw/modify/modify.h"

static bool
is_known(const dv_stored_column *columns, int n, const char *property)
{
	int			i;

	for (i = 0; i < n; i++)
		if (strcmp(columns[i].read, property) == 0)
			return true;
	return false;
}

/* A lookup is sent as one of several navigation properties, which are read as one property. */
static int
add_lookup(const dv_modify *m, AttrNumber attnum, const dv_column *column,
		   dv_stored_column *columns)
{
	dv_options	options = {GetForeignColumnOptions(m->relation->relid, attnum), NIL};
	dv_lookup	lookup;
	int			i;

	dv_lookup_read(column, options, &lookup);
	for (i = 0; i < list_length(lookup.sets); i++)
	{
		columns[i].sent = dv_lookup_navigation(&lookup, column, i);
		columns[i].read = column->property;
		columns[i].wire = dv_types[column->type].wire;
	}
	return i;
}

/* Returns the number of members as which a column can be sent. */
static int
members_of(const dv_modify *m, AttrNumber attnum)
{
	const dv_column *column = &dv_relation_attribute(m->relation, attnum)->column;
	dv_options	options = {NIL, NIL};
	dv_lookup	lookup;

	if (!dv_type_is_lookup(column->type))
		return 1;
	options.first = GetForeignColumnOptions(m->relation->relid, attnum);
	dv_lookup_read(column, options, &lookup);
	return list_length(lookup.sets);
}

static int
add_column(const dv_modify *m, AttrNumber attnum, dv_stored_column *columns, int n)
{
	const dv_column *column = &dv_relation_attribute(m->relation, attnum)->column;

	/* the service exchanges this one with createdon; the writer compares these times itself */
	if (strcmp(column->name, "overriddencreatedon") == 0 ||
		strcmp(column->name, "modifiedon") == 0 ||
		!dv_stored_comparable(dv_types[column->type].wire) ||
		is_known(columns, n, column->property))
		return n;
	if (dv_type_is_lookup(column->type))
		return n + add_lookup(m, attnum, column, &columns[n]);
	columns[n].sent = column->name;
	columns[n].read = column->property;
	columns[n].wire = dv_types[column->type].wire;
	return n + 1;
}

const dv_stored_column *
dv_stored_columns(const dv_modify *m, int *n)
{
	const dv_modify_values *values = &m->values;
	dv_stored_column *columns;
	int			room = values->nfollowers;
	int			i;

	*n = 0;
	if (m->operation == DV_UPDATE ? m->identity.version_junk == 0 :
		m->operation != DV_CREATE || !m->identity.ids_supplied)
		return NULL;
	for (i = 0; i < values->ncolumns; i++)
		room += members_of(m, values->columns[i].attnum);
	columns = palloc(sizeof(dv_stored_column) * room);
	for (i = 0; i < values->ncolumns; i++)
		*n = add_column(m, values->columns[i].attnum, columns, *n);
	/* of the columns that may follow, an active row is created with its status */
	for (i = 0; i < values->nfollowers; i++)
		if (values->followers[i].follows == DV_FOLLOWS_STATUS)
			*n = add_column(m, values->followers[i].column.attnum, columns, *n);
	return columns;
}

/*
 * choices.c
 *		dataverse.choices(): the values of a choice and their labels.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "client/catalog.h"
#include "compat.h"
#include "fdw/connection.h"
#include "fdw/relation.h"
#include "fdw/result.h"
#include "net/text.h"

#define WHAT "read the choices of a column"

DV_FUNCTION(dataverse_choices);

typedef struct choices_state
{
	ReturnSetInfo *result;
	const dv_relation *relation;
	const dv_attribute *attribute;
} choices_state;

static void
return_choice(const choices_state *state, const dv_meta_choice *choice)
{
	Datum		values[2] = {Int32GetDatum(choice->value)};
	bool		nulls[2] = {false, choice->label == NULL};

	if (choice->label != NULL)
		values[1] = CStringGetTextDatum(dv_text_in(choice->label, strlen(choice->label)));
	dv_result_add(state->result, values, nulls);
}

static void
visit_table(const dv_meta_table *table, void *arg)
{
	const choices_state *state = arg;
	const char *name = state->attribute->column.name;
	const dv_meta_column *column = NULL;
	int			i;

	for (i = 0; i < table->ncolumns; i++)
		if (table->columns[i].column != NULL && strcmp(table->columns[i].column, name) == 0)
			column = &table->columns[i];
	if (column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
				 errmsg("column \"%s\" of foreign table \"%s\" is not a column of table \"%s\" in Dataverse",
						state->attribute->name, state->relation->name, state->relation->table),
				 errhint("dataverse.import_diff() shows what has changed in Dataverse.")));
	if (column->nchoices == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("column \"%s\" of foreign table \"%s\" has no choices",
						state->attribute->name, state->relation->name),
				 errdetail("Its type in Dataverse is %s.", dv_types[column->type].name),
				 errhint("Columns of types choice, choices, state, status, and boolean have choices.")));
	for (i = 0; i < column->nchoices; i++)
		return_choice(state, &column->choices[i]);
}

/* A role that may read the column may also read the labels of its values. */
static const dv_attribute *
readable_column(const dv_relation *relation, const char *name)
{
	AttrNumber	attnum = get_attnum(relation->relid, name);
	const dv_attribute *attribute = dv_relation_attribute(relation, attnum);

	if (attribute == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of foreign table \"%s\" does not exist", name,
						relation->name)));
	if (pg_class_aclcheck(relation->relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
	{
		AclResult	acl = pg_attribute_aclcheck(relation->relid, attnum, GetUserId(), ACL_SELECT);

		if (acl != ACLCHECK_OK)
			aclcheck_error_col(acl, OBJECT_COLUMN, relation->name, name);
	}
	return attribute;
}

/*
 * choices(foreign_table, column): reads the definition of the table as IMPORT
 * FOREIGN SCHEMA does for comments, so that labels are in the same language.
 */
Datum
dataverse_choices(PG_FUNCTION_ARGS)
{
	dv_meta_wish wish = {.readonly = true, .comments = true,
	.bytes = GetDatabaseEncoding() == PG_SQL_ASCII};
	choices_state state = {0};
	dv_catalog_reader reader = {.visit = visit_table, .arg = &state, .what = WHAT,
	.operation = "choices"};
	dv_meta_entry entry = {.wanted = true};
	dv_meta_catalog catalog = {.entries = &entry, .n = 1};

	state.result = dv_result_rows(fcinfo, 2);
	state.relation = dv_relation_of(PG_GETARG_OID(0), ACL_SELECT);
	state.attribute = readable_column(state.relation, NameStr(*PG_GETARG_NAME(1)));
	entry.table = dv_text_to_utf8(state.relation->table);
	entry.entity_set = state.relation->entity_set;
	entry.local = state.relation->name;
	reader.schema = get_namespace_name(get_rel_namespace(state.relation->relid));
	dv_catalog_definitions(dv_connection_get(state.relation->serverid, GetUserId()), &catalog,
						   &wish, &reader);
	return (Datum) 0;
}

/*
 * writable.c
 *		Lists the columns of a foreign table that can be written, for
 *		dataverse.sync() and corrections of rejected rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "fdw/modify/modify_plan.h"
#include "fdw/relation.h"
#include "fdw/result.h"
#include "fdw/result_relation.h"

DV_FUNCTION(dataverse_writable_columns);

enum writable_column
{
	WRITABLE_NAME, WRITABLE_ON_INSERT, WRITABLE_ON_UPDATE, WRITABLE_NULLABLE, WRITABLE_PARTNER,
	WRITABLE_IS_KEY, WRITABLE_REASON, WRITABLE_COLUMNS
};

/*
 * Returns the other column of a lookup and the name of its table, which are written together; 0
 * if there is none.
 */
static AttrNumber
partner_of(const dv_relation *relation, const dv_attribute *attribute)
{
	return attribute->is_table_name ? dv_relation_column_of(relation, attribute->column.name) :
		dv_relation_table_name_of(relation, attribute);
}

/*
 * Returns true if the service can store a null.  Every row has an owner and a state, and booleans
 * are never null.
 */
static bool
is_nullable(const dv_attribute *attribute)
{
	switch (attribute->column.type)
	{
		case DV_TYPE_BOOLEAN:
		case DV_TYPE_STATE:
		case DV_TYPE_STATUS:
		case DV_TYPE_OWNER:
			return false;
		default:
			return true;
	}
}

static void
put_text(Datum *values, bool *nulls, int i, const char *text)
{
	nulls[i] = text == NULL;
	values[i] = text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

/* writable_columns(foreign_table): a row for each column */
Datum
dataverse_writable_columns(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	dv_relation *relation;
	AttrNumber	id;
	AttrNumber	partition;
	AttrNumber	first;
	AttrNumber	second;
	bool		pairs;
	int			i;

	relation = dv_relation_of(PG_GETARG_OID(0), ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE);
	result = dv_result_rows(fcinfo, WRITABLE_COLUMNS);
	dv_resultrel_keys(relation, &id, &partition);
	dv_resultrel_pair(relation, &first, &second);
	pairs = relation->type == DV_TABLE_INTERSECT;
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);
		const dv_attribute *written = attribute;
		AttrNumber	partner;
		Datum		values[WRITABLE_COLUMNS];
		bool		nulls[WRITABLE_COLUMNS] = {0};
		bool		on_insert;
		bool		on_update;
		const char *reason = NULL;

		if (attribute == NULL)
			continue;
		partner = partner_of(relation, attribute);
		if (attribute->is_table_name)
			written = partner == 0 ? NULL : dv_relation_attribute(relation, partner);
		on_insert = written != NULL && dv_modify_plan_writes(written, CMD_INSERT);
		on_update = written != NULL && dv_modify_plan_writes(written, CMD_UPDATE);
		if (pairs)
		{
			/* a pair consists of two ids, and gets its own from the service */
			on_insert = i == first || i == second;
			on_update = false;
			reason = on_insert ? "It is one of the two ids that make up the row." :
				"A row of an intersect table consists of two ids.";
		}
		else if (!on_insert || !on_update)
			reason = dv_modify_plan_reason(written != NULL ? written : attribute,
										   on_insert ? CMD_UPDATE : CMD_INSERT);
		else if (i == id)
			reason = "It is the primary id of the row.";
		else if (i == partition)
			reason = "It determines the partition of the row.";
		values[WRITABLE_NAME] = CStringGetTextDatum(attribute->name);
		values[WRITABLE_ON_INSERT] = BoolGetDatum(on_insert);
		values[WRITABLE_ON_UPDATE] = BoolGetDatum(on_update && i != id && i != partition);
		values[WRITABLE_NULLABLE] = BoolGetDatum(is_nullable(attribute));
		put_text(values, nulls, WRITABLE_PARTNER,
				 partner == 0 ? NULL : dv_relation_attribute(relation, partner)->name);
		values[WRITABLE_IS_KEY] = BoolGetDatum((i == id && !pairs) || i == partition);
		put_text(values, nulls, WRITABLE_REASON, reason);
		dv_result_add(result, values, nulls);
	}
	return (Datum) 0;
}

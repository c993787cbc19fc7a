/*
 * writable.c
 *		Which columns of a foreign table can be written, for dataverse.sync() and
 *		corrections of rejected rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "foreign/fdwapi.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "fdw/import.h"
#include "fdw/modify_plan.h"
#include "fdw/relation.h"
#include "fdw/result_relation.h"

DV_FUNCTION(dataverse_writable_columns);

enum writable_column
{
	WRITABLE_NAME, WRITABLE_ON_INSERT, WRITABLE_ON_UPDATE, WRITABLE_NULLABLE, WRITABLE_PARTNER,
	WRITABLE_IS_KEY, WRITABLE_REASON, WRITABLE_COLUMNS
};

/* A lookup and the column that names its table are written together; 0 if there is none. */
static AttrNumber
partner_of(const dv_relation *relation, const dv_attribute *attribute)
{
	return attribute->is_table_name ? dv_relation_column_of(relation, attribute->column.name) :
		dv_relation_table_name_of(relation, attribute);
}

/* Can the service store a null?  It gives every row an owner, a state, and true or false. */
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
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			relid = PG_GETARG_OID(0);
	dv_relation *relation;
	AttrNumber	id;
	AttrNumber	partition;
	int			i;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE ||
		GetFdwRoutineByRelId(relid)->ImportForeignSchema != dataverseImportForeignSchema)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a foreign table of dataverse_fdw",
						get_rel_name(relid) != NULL ? get_rel_name(relid) : psprintf("%u", relid))));
	/* nobody has locked it yet, unlike the tables of a query */
	LockRelationOid(relid, AccessShareLock);
	relation = dv_relation_open(relid);
	dv_init_materialized_srf(fcinfo);
	dv_resultrel_keys(relation, &id, &partition);
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);
		const dv_attribute *written = attribute;
		AttrNumber	partner;
		Datum		values[WRITABLE_COLUMNS];
		bool		nulls[WRITABLE_COLUMNS] = {0};
		bool		writable;
		const char *reason = NULL;

		if (attribute == NULL)
			continue;
		partner = partner_of(relation, attribute);
		if (attribute->is_table_name)
			written = partner == 0 ? NULL : dv_relation_attribute(relation, partner);
		writable = written != NULL && dv_modify_plan_is_writable(written);
		if (!writable || written->update_only)
			reason = dv_modify_plan_reason(written != NULL ? written : attribute);
		else if (i == id)
			reason = "It is the primary id of the row.";
		else if (i == partition)
			reason = "It determines the partition of the row.";
		values[WRITABLE_NAME] = CStringGetTextDatum(attribute->name);
		values[WRITABLE_ON_INSERT] = BoolGetDatum(writable && !written->update_only);
		values[WRITABLE_ON_UPDATE] = BoolGetDatum(writable && i != id && i != partition);
		values[WRITABLE_NULLABLE] = BoolGetDatum(is_nullable(attribute));
		put_text(values, nulls, WRITABLE_PARTNER,
				 partner == 0 ? NULL : dv_relation_attribute(relation, partner)->name);
		values[WRITABLE_IS_KEY] = BoolGetDatum(i == id || i == partition);
		put_text(values, nulls, WRITABLE_REASON, reason);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

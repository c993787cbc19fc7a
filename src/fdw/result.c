/*
 * result.c
 *		Results of SQL functions that are rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "fdw/result.h"

/* Values that have not been set would be read as columns. */
static void
check_columns(FunctionCallInfo fcinfo, TupleDesc desc, int ncolumns)
{
	if (desc->natts != ncolumns)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("function %s() belongs to another version of dataverse_fdw than its library, which is of version %s",
						get_func_name(fcinfo->flinfo->fn_oid), DV_VERSION),
				 errhint("ALTER EXTENSION dataverse_fdw UPDATE; if it is up to date, connect again.")));
}

Datum
dv_result_row(FunctionCallInfo fcinfo, int ncolumns, Datum *values, bool *nulls)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	check_columns(fcinfo, desc, ncolumns);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

ReturnSetInfo *
dv_result_rows(FunctionCallInfo fcinfo, int ncolumns)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	dv_init_materialized_srf(fcinfo);
	check_columns(fcinfo, result->setDesc, ncolumns);
	return result;
}

void
dv_result_add(ReturnSetInfo *result, Datum *values, bool *nulls)
{
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

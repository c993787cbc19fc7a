/*
 * push.c
 *		What dataverse.push() needs of the writer: what writing took.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"

#include "compat.h"
#include "fdw/modify.h"

DV_FUNCTION(dataverse_write_effort);

/* write_effort(): of all modifications of this session */
Datum
dataverse_write_effort(PG_FUNCTION_ARGS)
{
	const dv_effort *effort = dv_writer_effort();
	TupleDesc	tupdesc;
	Datum		values[3];
	bool		nulls[3] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(effort->requests);
	values[1] = Int64GetDatum(effort->throttles);
	values[2] = Int64GetDatum(effort->waited);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

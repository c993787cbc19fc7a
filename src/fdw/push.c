/*
 * push.c
 *		What dataverse.push() needs of the writer: ids of new rows, and what
 *		writing took.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/uuid.h"

#include "compat.h"
#include "fdw/modify.h"

DV_FUNCTION(dataverse_new_id);
DV_FUNCTION(dataverse_write_effort);

/* new_id() */
Datum
dataverse_new_id(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *id = palloc(sizeof(pg_uuid_t));

	dv_identity_make_id(id->data);
	PG_RETURN_UUID_P(id);
}

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

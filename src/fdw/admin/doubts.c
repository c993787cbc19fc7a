/*
 * doubts.c
 *		The function behind the view dataverse.doubts.
 *
 * A session may have written as several roles.  A row is visible if the
 * current user has the privileges of the role that wrote it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "client/doubts.h"
#include "compat.h"
#include "fdw/result.h"

#define DOUBT_COLUMNS 5

DV_FUNCTION(dataverse_doubtful_rows);

Datum
dataverse_doubtful_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = dv_result_rows(fcinfo, DOUBT_COLUMNS);
	int			i;

	for (i = 0; i < dv_doubts_count(); i++)
	{
		dv_doubt	doubt = *dv_doubts_get(i);
		Datum		values[DOUBT_COLUMNS];
		bool		nulls[DOUBT_COLUMNS] = {false};

		if (!has_privs_of_role(GetUserId(), doubt.roleid))
			continue;
		values[0] = ObjectIdGetDatum(doubt.relid);
		values[1] = CStringGetTextDatum(dv_operation_rule_of(doubt.operation)->name);
		values[2] = Int64GetDatum(doubt.ordinal);
		values[3] = UUIDPGetDatum((pg_uuid_t *) doubt.id);
		nulls[3] = !doubt.has_id;
		values[4] = TimestampTzGetDatum(doubt.at);
		dv_result_add(result, values, nulls);
	}
	return (Datum) 0;
}

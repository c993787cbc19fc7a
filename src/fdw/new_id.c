/*
 * new_id.c
 *		Ids of new rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "dataverse/guid.h"
#include "fdw/new_id.h"

DV_FUNCTION(dataverse_new_id);

static dv_guid_clock guid_clock;

void
dv_new_id(uint8 *id)
{
	int64		now = GetCurrentTimestamp() +
	(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	dv_guid_make(&guid_clock, now, pg_prng_uint64(&pg_global_prng_state), id);
}

/* new_id(): the next id, as it would be generated for a row that is inserted without one */
Datum
dataverse_new_id(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *id = palloc(sizeof(*id));

	dv_new_id(id->data);
	PG_RETURN_UUID_P(id);
}

/*
 * new_id.c
 *		Ids of new rows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <time.h>

#include "common/pg_prng.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/uuid.h"

#include "compat.h"
#include "dataverse/guid.h"
#include "fdw/new_id.h"

DV_FUNCTION(dataverse_new_id);

/* Milliseconds suffice, and reading the exact time would take longer than all the rest. */
#ifdef CLOCK_REALTIME_COARSE
#define CLOCK CLOCK_REALTIME_COARSE
#else
#define CLOCK CLOCK_REALTIME
#endif

static dv_guid_clock guid_clock;

void
dv_new_id(uint8 *id)
{
	struct timespec now;

	clock_gettime(CLOCK, &now);
	dv_guid_make(&guid_clock, (int64) now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000,
				 pg_prng_uint64(&pg_global_prng_state), id);
}

/* new_id(): the next id, as it would be generated for a row that is inserted without one */
Datum
dataverse_new_id(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *id = palloc(sizeof(*id));

	dv_new_id(id->data);
	PG_RETURN_UUID_P(id);
}

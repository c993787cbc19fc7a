/*
 * run_waits.c
 *		Which errors a run waits out.
 *
 * A run that was interrupted by an error continues while a service, whichever it is,
 * is too busy: it waits as long as necessary, which suits a schedule, unless options
 * limit the wait.  Triggers of its tables can raise errors with any SQLSTATE, message,
 * and constraint name, so the run asks client/trouble.c whether a service was busy.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "client/trouble.h"
#include "compat.h"

DV_FUNCTION(dataverse_run_waits);

/* run_waits(limit): "limit" is the constraint name of the error. */
Datum
dataverse_run_waits(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(dv_trouble_was_limit(text_to_cstring(PG_GETARG_TEXT_PP(0))));
}

/*
 * dataverse_fdw.c
 *		The doors through which PostgreSQL comes in: the module, the
 *		foreign-data wrapper's handler and its validator.
 *
 * The handler lists the callbacks in the order of FdwRoutine.  A callback that
 * is absent makes PostgreSQL itself refuse what it would do (INSERT, IMPORT
 * FOREIGN SCHEMA …) with a clear message, so only reading, whose callbacks
 * PostgreSQL takes for granted, has to be refused here.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "fmgr.h"
#include "foreign/fdwapi.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "fdw/option.h"
#include "pool/shared.h"

DV_MODULE_MAGIC;

DV_FUNCTION(dataverse_fdw_handler);
DV_FUNCTION(dataverse_fdw_validator);

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	dv_shared_init();
	MarkGUCPrefixReserved("dataverse_fdw");
}

/*
 * Planning asks this first of every foreign table that a query reads, also
 * under EXPLAIN, UPDATE and DELETE: no other scan callback can be reached.
 */
static void
dataverseGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("cannot read from foreign table \"%s\"", get_rel_name(foreigntableid)),
					errdetail("This version of dataverse_fdw does not read from Dataverse yet.")));
}

Datum
dataverse_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	/* scanning */
	routine->GetForeignRelSize = dataverseGetForeignRelSize;

	PG_RETURN_POINTER(routine);
}

Datum
dataverse_fdw_validator(PG_FUNCTION_ARGS)
{
	dv_options_validate(untransformRelOptions(PG_GETARG_DATUM(0)), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}

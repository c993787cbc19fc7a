/*
 * dataverse_fdw.c
 *		The entry points: module initialization, and the handler and validator
 *		of the foreign-data wrapper.
 *
 * The handler lists the callbacks in the order of FdwRoutine.  If a callback is
 * missing, PostgreSQL itself refuses the operation with a clear message.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "fmgr.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "utils/guc.h"

#include "compat.h"
#include "dataverse/policy.h"
#include "fdw/admin/import.h"
#include "fdw/dataverse_fdw.h"
#include "fdw/guard.h"
#include "fdw/modify/modify.h"
#include "fdw/modify/truncate.h"
#include "fdw/option.h"
#include "fdw/plan/plan.h"
#include "fdw/result_relation.h"
#include "fdw/scan/analyze.h"
#include "fdw/scan/lookup.h"
#include "fdw/setting.h"
#include "fdw/statement.h"
#include "pool/shared.h"

DV_MODULE_MAGIC;

DV_FUNCTION(dataverse_fdw_handler);
DV_FUNCTION(dataverse_fdw_validator);

extern PGDLLEXPORT void _PG_init(void);

#ifdef DV_TEST
/* dataverse_fdw.flip_policy = 'text.NE': see dv_policy_flip() */
static char *flip_policy = NULL;

static void
assign_flip_policy(const char *value, void *extra)
{
	int			comparison;
	int			op;

	dv_policy_flip(-1, -1);
	for (comparison = 0; value != NULL && comparison < DV_COMPARISONS; comparison++)
		for (op = 0; op < DV_OPS; op++)
		{
			size_t		len = strlen(dv_comparison_name(comparison));

			if (strncmp(value, dv_comparison_name(comparison), len) == 0 && value[len] == '.' &&
				strcmp(value + len + 1, dv_ops[op].name) == 0)
				dv_policy_flip(comparison, op);
		}
}
#endif

void
_PG_init(void)
{
	dv_shared_init();
	dv_settings_init();
	dv_explain_init();
	dv_lookup_join_init();
	dv_statement_init();
	dv_guard_init();
#ifdef DV_TEST
	DefineCustomStringVariable("dataverse_fdw.flip_policy",
							   "Makes one entry of the policy table wrong.", NULL,
							   &flip_policy, "", PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   NULL, assign_flip_policy, NULL);
#endif
	MarkGUCPrefixReserved("dataverse_fdw");
}

Datum
dataverse_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	/* scanning */
	routine->GetForeignRelSize = dataverseGetForeignRelSize;
	routine->GetForeignPaths = dataverseGetForeignPaths;
	routine->GetForeignPlan = dataverseGetForeignPlan;
	routine->BeginForeignScan = dataverseBeginForeignScan;
	routine->IterateForeignScan = dataverseIterateForeignScan;
	routine->RecheckForeignScan = dataverseRecheckForeignScan;
	routine->ReScanForeignScan = dataverseReScanForeignScan;
	routine->EndForeignScan = dataverseEndForeignScan;

	/* planning of upper relations */
	routine->GetForeignJoinPaths = dataverseGetForeignJoinPaths;
	routine->GetForeignUpperPaths = dataverseGetForeignUpperPaths;

	/* UPDATE and DELETE */
	routine->AddForeignUpdateTargets = dataverseAddForeignUpdateTargets;

	/* asynchronous scans */
	routine->IsForeignPathAsyncCapable = dataverseIsForeignPathAsyncCapable;
	routine->ForeignAsyncRequest = dataverseForeignAsyncRequest;
	routine->ForeignAsyncConfigureWait = dataverseForeignAsyncConfigureWait;
	routine->ForeignAsyncNotify = dataverseForeignAsyncNotify;

	/* writing */
	routine->IsForeignRelUpdatable = dataverseIsForeignRelUpdatable;
	routine->PlanForeignModify = dataversePlanForeignModify;
	routine->BeginForeignModify = dataverseBeginForeignModify;
	routine->ExecForeignInsert = dataverseExecForeignModify;
	routine->ExecForeignUpdate = dataverseExecForeignModify;
	routine->ExecForeignDelete = dataverseExecForeignModify;
	routine->EndForeignModify = dataverseEndForeignModify;
	routine->BeginForeignInsert = dataverseBeginForeignInsert;
	routine->EndForeignInsert = dataverseEndForeignModify;

	/* TRUNCATE */
	routine->ExecForeignTruncate = dataverseExecForeignTruncate;

	/* EXPLAIN */
	routine->ExplainForeignScan = dataverseExplainForeignScan;
	routine->ExplainForeignModify = dataverseExplainForeignModify;

	/* ANALYZE */
	routine->AnalyzeForeignTable = dataverseAnalyzeForeignTable;
#ifdef DV_IMPORT_STATISTICS
	routine->ImportForeignStatistics = dataverseImportForeignStatistics;
#endif

	/* importing */
	routine->ImportForeignSchema = dataverseImportForeignSchema;

	PG_RETURN_POINTER(routine);
}

bool
dv_is_our_server(Oid serverid)
{
	ForeignDataWrapper *wrapper = GetForeignDataWrapper(GetForeignServer(serverid)->fdwid);

	return OidIsValid(wrapper->fdwhandler) &&
		GetFdwRoutine(wrapper->fdwhandler)->ImportForeignSchema == dataverseImportForeignSchema;
}

Datum
dataverse_fdw_validator(PG_FUNCTION_ARGS)
{
	dv_options_validate(untransformRelOptions(PG_GETARG_DATUM(0)), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}

/*
 * replay.c
 *		The rows that dataverse.retry_rejects() retries.
 *
 * A row that is refused again keeps its entry in dataverse.rejects.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "compat.h"
#include "fdw/modify/rejects.h"

DV_FUNCTION(dataverse_retrying);

static ArrayType *entries = NULL;
static Oid	retrying_role = InvalidOid; /* the role that owns the entries */

const ArrayType *
dv_replay_entries(Oid roleid)
{
	return roleid == retrying_role ? entries : NULL;
}

void
dv_replay_refused(int64 entry)
{
	int64	   *ids = (int64 *) ((char *) entries + ARR_OVERHEAD_NONULLS(ARR_NDIM(entries)));
	int			n = ArrayGetNItems(ARR_NDIM(entries), ARR_DIMS(entries));
	int			i;

	/* each entry keeps its place, which may be that of its row */
	for (i = 0; i < n; i++)
		if (ids[i] == entry)
			ids[i] = 0;
}

static void
forget(void *arg)
{
	if (entries == arg)
		entries = NULL;
}

/*
 * retrying(ids): sets the entries of the next statement; null at its end.  As an
 * effect, rows that are refused to the calling role replace entries of that role
 * and table, which it could delete as well.  If the statement fails, they are
 * forgotten with the memory of the subtransaction.
 */
Datum
dataverse_retrying(PG_FUNCTION_ARGS)
{
	MemoryContextCallback *callback;
	MemoryContext old;
	ArrayType  *ids;

	entries = NULL;
	if (PG_ARGISNULL(0))
		PG_RETURN_VOID();
	old = MemoryContextSwitchTo(CurTransactionContext);
	callback = palloc0(sizeof(*callback));
	ids = PG_GETARG_ARRAYTYPE_P_COPY(0);
	MemoryContextSwitchTo(old);
	if (ARR_NDIM(ids) > 1 || array_contains_nulls(ids))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the ids of rejected rows must be a list without nulls")));
	callback->func = forget;
	callback->arg = ids;
	MemoryContextRegisterResetCallback(CurTransactionContext, callback);
	entries = ids;
	retrying_role = GetUserId();
	PG_RETURN_VOID();
}

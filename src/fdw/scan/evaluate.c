/*
 * evaluate.c
 *		Computes the values of a plan's expressions when a scan begins.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

#include "fdw/scan/evaluate.h"

int64
dv_row_count(const dv_bound_value *values, int position, bool is_limit)
{
	const dv_bound_value *value = position < 0 ? NULL : &values[position];
	int64		n;

	if (value == NULL || value->isnull)
		return -1;
	n = DatumGetInt64(value->value);
	if (n < 0 && is_limit)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
				 errmsg("LIMIT must not be negative")));
	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE),
				 errmsg("OFFSET must not be negative")));
	return n;
}

void
dv_evaluate(List *expressions, ForeignScanState *node, dv_bound_value *values)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	ListCell   *lc;

	foreach(lc, expressions)
	{
		dv_bound_value *value = &values[foreach_current_index(lc)];
		int16		typlen;
		bool		typbyval;

		value->value = ExecEvalExprSwitchContext(lfirst(lc), econtext, &value->isnull);
		get_typlenbyval(value->type, &typlen, &typbyval);
		if (!value->isnull)
			value->value = datumCopy(value->value, typbyval, typlen);
	}
}

static bool
find_params(Node *node, void *params)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		*(Bitmapset **) params = bms_add_member(*(Bitmapset **) params, ((Param *) node)->paramid);
	return expression_tree_walker(node, find_params, params);
}

Bitmapset *
dv_evaluate_params(List *expressions)
{
	Bitmapset  *params = NULL;

	(void) find_params((Node *) expressions, &params);
	return params;
}

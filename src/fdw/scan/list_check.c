/*
 * list_check.c
 *		Checks rows against long lists of values.
 *
 * The service answers "column = ANY (list)" roughly for texts (it ignores case)
 * and for ctid, so the clause is checked again locally.  PostgreSQL makes a hash
 * table only of a constant list.  It compares each row with each value of any other
 * list, such as ARRAY(SELECT ...), which takes longer than fetching the rows if there
 * are some thousands of both.
 *
 * In a foreign scan, a list is constant until the next rescan.  So these clauses are
 * removed from the filter of the node, and evaluated with the list in place of its
 * expression.  Their operators are leakproof, so they may be evaluated before the rest
 * of the filter.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/instrument.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

#include "fdw/scan/list_check.h"

struct dv_list_check
{
	ForeignScanState *node;
	List	   *clauses;		/* ScalarArrayOpExprs */
	List	   *positions;		/* IntList: of their lists among the values */
	ExprState  *as_planned;
	ExprState  *with_lists;
	ExprContext *econtext;		/* whose memory lasts as long as the lists */
};

/* Returns the position of the clause's list among the values of the scan, or -1. */
static int
position_of_list(const Node *clause, const List *values)
{
	const Node *list;
	ListCell   *lc;

	if (!IsA(clause, ScalarArrayOpExpr))
		return -1;
	list = lsecond(((const ScalarArrayOpExpr *) clause)->args);
	foreach(lc, values)
	{
		if (!IsA(list, Const) && equal(list, lfirst(lc)))
			return foreach_current_index(lc);
	}
	return -1;
}

dv_list_check *
dv_list_check_take(ForeignScanState *node, const dv_read_plan *plan)
{
	const ForeignScan *scan = (const ForeignScan *) node->ss.ps.plan;
	dv_list_check *check = palloc0(sizeof(*check));
	List	   *rest = NIL;
	ListCell   *lc;

	foreach(lc, scan->scan.plan.qual)
	{
		int			position = list_member_int(plan->rechecks, foreach_current_index(lc)) ?
		position_of_list(lfirst(lc), scan->fdw_exprs) : -1;

		if (position < 0)
		{
			rest = lappend(rest, lfirst(lc));
			continue;
		}
		check->clauses = lappend(check->clauses, lfirst(lc));
		check->positions = lappend_int(check->positions, position);
	}
	if (check->clauses == NIL)
		return NULL;
	check->node = node;
	check->as_planned = ExecInitQual(check->clauses, &node->ss.ps);
	node->ss.ps.qual = ExecInitQual(rest, &node->ss.ps);
	return check;
}

/* Returns the clause with the list in place of its expression. */
static Node *
with_list(ScalarArrayOpExpr *clause, const dv_bound_value *list)
{
	ScalarArrayOpExpr *copy = copyObject(clause);
	Datum		value = list->isnull ? list->value : PointerGetDatum(PG_DETOAST_DATUM(list->value));

	lsecond(copy->args) = makeConst(exprType(lsecond(clause->args)), -1,
									exprCollation(lsecond(clause->args)), -1, value,
									list->isnull, false);
	convert_saop_to_hashed_saop((Node *) copy);
	return (Node *) copy;
}

void
dv_list_check_bind(dv_list_check *check, const dv_bound_value *values)
{
	List	   *clauses = NIL;
	ListCell   *clause;
	ListCell   *position;

	forboth(clause, check->clauses, position, check->positions)
		clauses = lappend(clauses, with_list(lfirst(clause), &values[lfirst_int(position)]));
	check->with_lists = ExecInitQual(clauses, &check->node->ss.ps);
	check->econtext = CreateStandaloneExprContext();
}

bool
dv_list_check_row(dv_list_check *check, TupleTableSlot *slot)
{
	check->econtext->ecxt_scantuple = slot;
	if (ExecQualAndReset(check->with_lists, check->econtext))
		return true;
	InstrCountFiltered1(check->node, 1);
	return false;
}

bool
dv_list_check_again(dv_list_check *check)
{
	return ExecQual(check->as_planned, check->node->ss.ps.ps_ExprContext);
}

/*
 * wanted.c
 *		How many rows of a scan the running statement will probably want, and
 *		whether it may want them again.
 *
 * The planner knows a LIMIT of the query, but neither its value if it is a parameter,
 * nor what will be above the scan: a sort or a hash table takes all rows.  The executor
 * does not tell foreign scans.  So the nodes above the scan are examined before its
 * first request, when each LIMIT above it has computed its numbers.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

#include "compat.h"
#include "fdw/scan/lookup.h"
#include "fdw/scan/wanted.h"
#include "fdw/statement.h"

#define ALL_ROWS (-1.0)

typedef struct search
{
	const		PlanState *target;
	PlanState  *parent;
	dv_wanted	wanted;			/* of the parent */
	dv_wanted  *found;			/* of the target */
} search;

/* If an unknown share of the rows is of use, so many are read: a guess. */
static double
some(double rows)
{
	return rows < 0 ? ALL_ROWS : Max(rows * 4, 100);
}

static double
below_limit(const LimitState * limit, double rows)
{
	double		most = (double) limit->count + (double) limit->offset;

	if (rows >= 0)
		rows += limit->offset;
	if (limit->lstate == LIMIT_INITIAL || limit->noCount)
		return rows;
	/* rows that tie with the last one follow */
	if (limit->limitOption == LIMIT_OPTION_WITH_TIES)
		most = some(most);
	return rows < 0 ? most : Min(most, rows);
}

static double
inside_loop(const JoinState * join, double rows)
{
	if (join->single_match || join->jointype == JOIN_ANTI)
		return join->joinqual == NULL ? 1 : some(1);
	return join->joinqual == NULL ? rows : ALL_ROWS;
}

/* Returns the subquery in an expression, or the InitPlan, that a node below another one runs. */
static const SubPlan *
subplan_of(const PlanState * parent, const PlanState * child)
{
	ListCell   *lc;

	foreach(lc, list_concat_copy(parent->initPlan, parent->subPlan))
	{
		const		SubPlanState *state = lfirst(lc);

		if (state->planstate == child)
			return state->subplan;
	}
	return NULL;
}

/* Sets what a node wants of a node below it, if "wanted" is what is wanted of the node itself. */
static void
descend(PlanState * parent, const PlanState * child, dv_wanted *wanted)
{
	const		SubPlan *subplan = subplan_of(parent, child);
	const		PlanState *outer;
	bool		is_inner = child == innerPlanState(parent);
	double		rows = wanted->rows;

	wanted->rows = ALL_ROWS;
	if (subplan != NULL)
	{
		if (subplan->subLinkType == EXISTS_SUBLINK)
			wanted->rows = 1;
		/* a second row would be an error */
		else if (subplan->subLinkType == EXPR_SUBLINK || subplan->subLinkType == ROWCOMPARE_SUBLINK)
			wanted->rows = 2;
		/* it is run for each row, unless it is an InitPlan, or fills a hash table */
		wanted->again |= subplan->parParam != NIL ||
			(subplan->setParam == NIL && !subplan->useHashTable);
		return;
	}
	switch (nodeTag(parent))
	{
		case T_LimitState:
			wanted->rows = below_limit((LimitState *) parent, rows);
			break;
		case T_AppendState:
		case T_MergeAppendState:
		case T_SubqueryScanState:
		case T_ResultState:
		case T_MaterialState:
		case T_LockRowsState:
			wanted->rows = parent->qual == NULL ? rows : some(rows);
			break;
		case T_ProjectSetState:
		case T_UniqueState:
		case T_MergeJoinState:
		case T_HashJoinState:
			wanted->rows = some(rows);
			break;
		case T_NestLoopState:
			wanted->rows = is_inner ? inside_loop((JoinState *) parent, rows) : some(rows);
			wanted->again |= is_inner;
			break;
		case T_RecursiveUnionState:
			wanted->again |= is_inner;
			break;
		case T_CustomScanState:
			/* a join of ours reads the keys of another batch each time */
			outer = dv_lookup_join_outer(parent);
			wanted->rows = child == outer ? some(rows) : ALL_ROWS;
			wanted->again |= outer == NULL;
			break;
		default:
			break;
	}
}

static bool
look_for_target(PlanState * node, search *s)
{
	search		below = *s;

	if (s->parent != NULL)
		descend(s->parent, node, &below.wanted);
	below.parent = node;
	if (node != s->target)
		return planstate_tree_walker(node, look_for_target, &below);
	*s->found = below.wanted;
	return true;
}

dv_wanted
dv_wanted_of(const PlanState * scan)
{
	const		QueryDesc *running = dv_statement_running();

	/* what is run without such a statement, such as a check of changed rows, may do anything */
	dv_wanted	found = {ALL_ROWS, true};
	search		s = {.target = scan, .wanted = {ALL_ROWS, false}, .found = &found};

	if (running != NULL && running->estate == scan->state)
		(void) look_for_target(running->planstate, &s);
	if (scan->qual != NULL)
		found.rows = some(found.rows);
	return found;
}

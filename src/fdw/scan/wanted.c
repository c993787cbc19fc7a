/*
 * wanted.c
 *		How many rows of a scan the running statement will probably want, and
 *		whether it may want them again.
 *
 * PostgreSQL tells some nodes how many rows their parents need, but not foreign
 * scans, and not through joins, filters, or EXISTS.  So the nodes of the running
 * statement are looked through from the top when a scan is about to send its
 * first request.  By then, a LIMIT above it has computed its numbers.
 *
 * A hook remembers the statement that runs, since a scan knows its parent
 * neither from its plan nor from its state.
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

/* A condition that is checked here leaves an unknown part of the rows: this is assumed. */
#define ROWS_FOR_ONE 4
#define FEWEST_TO_CHECK 100


typedef struct search
{
	const		PlanState *target;
	const		PlanState *parent;
	double		wanted;			/* of the parent */
	double		found;			/* of the target */
	bool		again;			/* the parent, and then the target, may be run several times */
} search;

/* Any rows at all: how many it takes to find those that fit is not known. */
static double
some(double wanted)
{
	return wanted < 0 ? wanted : Max(wanted * ROWS_FOR_ONE, FEWEST_TO_CHECK);
}

/* The number of rows that have to be read to get this many that meet conditions. */
static double
with_conditions(double wanted, const ExprState *conditions)
{
	return conditions == NULL ? wanted : some(wanted);
}

static double
of_limit(const LimitState * limit, double wanted)
{
	double		own = (double) limit->count + (double) limit->offset;

	if (limit->lstate == LIMIT_INITIAL || limit->noCount)
		return wanted < 0 ? wanted : wanted + limit->offset;
	/* rows that tie with the last one follow */
	if (limit->limitOption == LIMIT_OPTION_WITH_TIES)
		own = some(own);
	return wanted < 0 ? own : Min(own, wanted + limit->offset);
}

static double
of_nested_loop(const NestLoopState * loop, const PlanState * child, double wanted)
{
	const		JoinState *join = &loop->js;

	if (child == outerPlanState(loop))
		return some(wanted);
	if (join->single_match || join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI)
		return with_conditions(1, join->joinqual);
	/* each row is a row of the result */
	return join->joinqual == NULL ? wanted : ALL_ROWS;
}

/* What a subquery in an expression or an InitPlan wants of the plan below it. */
static double
of_subplan(const PlanState * parent, const PlanState * child)
{
	List	   *lists[] = {parent->initPlan, parent->subPlan};
	int			i;

	for (i = 0; i < (int) lengthof(lists); i++)
	{
		ListCell   *lc;

		foreach(lc, lists[i])
		{
			const		SubPlanState *subplan = lfirst(lc);

			if (subplan->planstate != child)
				continue;
			if (subplan->subplan->subLinkType == EXISTS_SUBLINK)
				return 1;
			/* a second row would be an error */
			if (subplan->subplan->subLinkType == EXPR_SUBLINK ||
				subplan->subplan->subLinkType == ROWCOMPARE_SUBLINK)
				return 2;
			return ALL_ROWS;
		}
	}
	return ALL_ROWS;
}

/* What a node wants of the node below it, if it is asked for "wanted" rows itself. */
static double
of_child(PlanState * parent, const PlanState * child, double wanted)
{
	bool		below = child == outerPlanState(parent) || child == innerPlanState(parent);
	double		of_query = of_subplan(parent, child);

	switch (nodeTag(parent))
	{
		case T_LimitState:
			return below ? of_limit((LimitState *) parent, wanted) : of_query;
		case T_AppendState:
		case T_MergeAppendState:
			return of_query < 0 ? wanted : of_query;
		case T_SubqueryScanState:
			return child == ((SubqueryScanState *) parent)->subplan ?
				with_conditions(wanted, parent->qual) : of_query;
		case T_ResultState:
		case T_MaterialState:
		case T_LockRowsState:
			return below ? with_conditions(wanted, parent->qual) : of_query;
		case T_ProjectSetState:
		case T_UniqueState:
		case T_MergeJoinState:
			return below ? some(wanted) : of_query;
		case T_NestLoopState:
			return below ? of_nested_loop((NestLoopState *) parent, child, wanted) :
				of_query;
		case T_HashJoinState:
			return child == outerPlanState(parent) ? some(wanted) : of_query;
		case T_CustomScanState:
			return child == dv_lookup_join_outer(parent) ? some(wanted) : of_query;
		default:
			return of_query;
	}
}

/* Is this a subquery that is run for each row of the node? */
static bool
is_for_each_row(const PlanState * parent, const PlanState * child)
{
	ListCell   *lc;

	foreach(lc, parent->subPlan)
	{
		const		SubPlanState *subplan = lfirst(lc);

		if (subplan->planstate == child)
			return !subplan->subplan->useHashTable || subplan->subplan->parParam != NIL;
	}
	return false;
}

/* Does a node run the node below it several times, even if it is run only once itself? */
static bool
is_repeated(PlanState * parent, const PlanState * child)
{
	switch (nodeTag(parent))
	{
		case T_NestLoopState:
		case T_RecursiveUnionState:
			return child == innerPlanState(parent) || is_for_each_row(parent, child);
		case T_CustomScanState:
			/* ours reads the keys of another batch each time */
			return dv_lookup_join_outer(parent) == NULL || is_for_each_row(parent, child);
		default:
			return is_for_each_row(parent, child);
	}
}

static bool
look_for_target(PlanState * node, search *s)
{
	search		below = *s;
	bool		is_target = node == s->target;

	if (s->parent != NULL && is_repeated(unconstify(PlanState *, s->parent), node))
		below.again = true;
	below.wanted = s->parent == NULL ? ALL_ROWS :
		of_child(unconstify(PlanState *, s->parent), node, s->wanted);
	below.parent = node;
	if (is_target)
		s->found = below.wanted;
	else if (planstate_tree_walker(node, look_for_target, &below))
	{
		s->found = below.found;
		is_target = true;
	}
	if (is_target)
		s->again = below.again;
	return is_target;
}

/* Returns the root of the statement's nodes; NULL if it is not run as a query. */
static PlanState *
root_of(const PlanState * scan)
{
	const		QueryDesc *running = dv_statement_running();

	return running != NULL && running->estate == scan->state ? running->planstate : NULL;
}

double
dv_wanted_rows(const PlanState * scan)
{
	PlanState  *root = root_of(scan);
	search		s = {.target = scan, .wanted = ALL_ROWS, .found = ALL_ROWS};

	if (root == NULL)
		return ALL_ROWS;
	(void) look_for_target(root, &s);
	return with_conditions(s.found, scan->qual);
}

bool
dv_wanted_again(const PlanState * scan)
{
	PlanState  *root = root_of(scan);
	search		s = {.target = scan};

	/* what is run without such a statement, such as a check of changed rows, may do anything */
	return root == NULL || !look_for_target(root, &s) || s.again;
}

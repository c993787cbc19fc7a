/*
 * plan_clauses.c
 *		What the service does with the restriction clauses of a path.
 *
 * Each clause is of one of three kinds: the service answers it exactly (and it is
 * not checked again), the service returns a superset of its rows (and it is
 * checked here, too), or it is checked only here.  See fdw/plan/ship.c.  The clauses of
 * a path are judged once, and the result is kept with the table until the plan is
 * made.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/restrictinfo.h"
#include "utils/memutils.h"

#include "compat.h"
#include "fdw/plan/plan_table.h"

/*
 * May the service be asked about this clause?  Below a security barrier (row
 * security of a parent, a view with security_barrier), a clause of the user that
 * could reveal what it is applied to must only see rows that have passed the
 * barrier.  The service would apply it to all rows, and the number of rows and
 * pages that it returns for it would tell about rows that are hidden here.
 */
bool
dv_clauses_may_ask(const RelOptInfo *baserel, RestrictInfo *rinfo)
{
	return restriction_is_securely_promotable(rinfo, (RelOptInfo *) baserel);
}

static void
judge(dv_table_plan *tp, dv_path_clauses *c, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		dv_policy	policy;
		List	   *condition = NIL;

		if (rinfo->pseudoconstant)
		{
			tp->gated = true;
			continue;
		}
		policy = DV_NEVER;
		if (dv_clauses_may_ask(tp->baserel, rinfo))
		{
			bool		listed = c->shipping.long_in;

			condition = dv_ship(&c->shipping, rinfo->clause, &policy);
			if (c->shipping.long_in != listed)
				c->listing = rinfo;
		}
		if (condition != NIL)
			c->conditions = lappend(c->conditions, condition);
		if (policy == DV_EXACT)
			c->exact = lappend(c->exact, rinfo);
		else if (policy == DV_SUPERSET)
			c->superset = lappend(c->superset, rinfo);
		else
			c->local = lappend(c->local, rinfo);
	}
}

/*
 * The keys of a join must be a list that can have any length, of which there can
 * be only one.  The join checks the condition again, whatever the policy is.
 */
static void
judge_keys(dv_path_clauses *c)
{
	dv_policy	policy;
	List	   *condition;

	if (c->keys == NULL || c->shipping.long_in)
		return;
	condition = dv_ship(&c->shipping, c->keys, &policy);
	if (condition == NIL || !c->shipping.long_in)
		return;
	c->conditions = lappend(c->conditions, condition);
	c->key = dv_condition_attnum(condition);
}

/* Returns the clauses of a path if they have been judged before. */
static const dv_path_clauses *
find_judged(const dv_table_plan *tp, const ParamPathInfo *param_info, const Expr *keys)
{
	ListCell   *lc;

	foreach(lc, tp->judged)
	{
		const dv_path_clauses *c = lfirst(lc);

		if (c->param_info == param_info && c->own == tp->baserel->baserestrictinfo &&
			equal(c->keys, keys))
			return c;
	}
	return NULL;
}

/*
 * PostgreSQL has one ParamPathInfo for each set of outer tables.  When a
 * partitionwise join reparameterizes a path, it replaces all clauses by those of
 * the partition: those of the path's ParamPathInfo and, as of version 17, the
 * table's own as well.
 *
 * What is found is kept with the table, and so must outlive the attempts of GEQO
 * at joining it: see fdw/plan/plan_table.h.
 */
const dv_path_clauses *
dv_clauses_of(dv_table_plan *tp, ParamPathInfo *param_info, Expr *keys)
{
	const dv_path_clauses *judged = find_judged(tp, param_info, keys);
	MemoryContext old;
	dv_path_clauses *c;

	if (judged != NULL)
		return judged;
	old = MemoryContextSwitchTo(GetMemoryChunkContext(tp->baserel));
	c = palloc0(sizeof(*c));
	c->param_info = param_info;
	c->own = tp->baserel->baserestrictinfo;
	c->keys = copyObject(keys);
	c->shipping = tp->shipping;
	judge(tp, c, c->own);
	if (param_info != NULL)
		judge(tp, c, param_info->ppi_clauses);
	judge_keys(c);
	tp->judged = lappend(tp->judged, c);
	MemoryContextSwitchTo(old);
	return c;
}

bool
dv_clauses_can_ship(const dv_table_plan *tp, RestrictInfo *rinfo)
{
	dv_shipping shipping = tp->shipping;
	dv_policy	policy;

	return dv_clauses_may_ask(tp->baserel, rinfo) && dv_ship(&shipping, rinfo->clause, &policy) != NIL;
}

#ifdef USE_ASSERT_CHECKING
/* Have all these clauses been classified, and are they still the same? */
static bool
are_judged(const dv_path_clauses *c, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (!rinfo->pseudoconstant && !list_member_ptr(c->exact, rinfo) &&
			!list_member_ptr(c->superset, rinfo) && !list_member_ptr(c->local, rinfo))
			return false;
	}
	return true;
}
#endif

/*
 * They stay in PostgreSQL's order: a clause of row security must precede any that
 * could reveal what it hides.
 */
List *
dv_clauses_filter(const dv_path_clauses *c, List *clauses, List **rechecks)
{
	List	   *filter = NIL;
	ListCell   *lc;

	Assert(are_judged(c, clauses));
	*rechecks = NIL;
	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		bool		asked = list_member_ptr(c->superset, rinfo);

		if (!asked && !list_member_ptr(c->local, rinfo))
			continue;
		if (asked)
			*rechecks = lappend_int(*rechecks, list_length(filter));
		filter = lappend(filter, rinfo->clause);
	}
	return filter;
}

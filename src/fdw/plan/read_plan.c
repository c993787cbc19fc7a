/*
 * read_plan.c
 *		A read of a single table, as it was planned.
 *
 * PostgreSQL copies, stores, and prints plans, so a packed plan consists of
 * nodes that it can copy.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "nodes/makefuncs.h"

#include "client/ranges.h"
#include "fdw/condition.h"
#include "fdw/plan/plan.h"
#include "fdw/setting.h"

List *
dv_read_plan_pack(const dv_read_plan *plan)
{
	return list_make5(plan->columns, plan->condition, plan->orders, plan->rechecks,
					  list_concat(list_make5_int(plan->nulls, plan->limit, plan->offset,
												 plan->count, plan->given),
								  list_make3_int(plan->unlisted, plan->keyed, (int) plan->signature)));
}

dv_read_plan
dv_read_plan_unpack(List *packed)
{
	List	   *numbers = list_nth(packed, 4);
	dv_read_plan plan;

	plan.columns = linitial(packed);
	plan.condition = lsecond(packed);
	plan.orders = lthird(packed);
	plan.rechecks = lfourth(packed);
	plan.nulls = (dv_nulls) linitial_int(numbers);
	plan.limit = lsecond_int(numbers);
	plan.offset = lthird_int(numbers);
	plan.count = lfourth_int(numbers);
	plan.given = list_nth_int(numbers, 4);
	plan.unlisted = list_nth_int(numbers, 5);
	plan.keyed = list_nth_int(numbers, 6);
	plan.signature = (uint32) list_nth_int(numbers, 7);
	return plan;
}

dv_read_plan
dv_read_plan_listed(List *columns, AttrNumber listed)
{
	dv_read_plan plan = DV_READ_PLAN(columns);

	plan.condition = list_make4(makeInteger(DV_OP_IN), makeInteger(listed), makeInteger(0),
								makeInteger(DV_CONDITION_EXACT | DV_CONDITION_LONG));
	return plan;
}

/* That takes rows whose order does not matter, and a table that the service sorts by ids. */
int
dv_read_plan_ranges(const dv_relation *relation, const dv_read_plan *plan, bool *automatic)
{
	dv_options	options = dv_settings_over(relation->options, relation->relid);

	*automatic = !dv_option_given(options, DV_OPT_SCAN_PARALLELISM);
	if (relation->type != DV_TABLE_STANDARD || plan->given || plan->count ||
		plan->orders != NIL || plan->nulls != DV_NULLS_AS_SORTED)
		return 1;
	return *automatic ? DV_RANGES_AUTOMATIC : dv_option_int(options, DV_OPT_SCAN_PARALLELISM);
}

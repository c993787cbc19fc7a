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

#include "fdw/plan.h"

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

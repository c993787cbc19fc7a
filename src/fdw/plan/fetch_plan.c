/*
 * fetch_plan.c
 *		A read that FetchXML expresses, as it was planned.
 *
 * PostgreSQL copies, stores, and prints plans, so a packed plan consists of
 * nodes that it can copy.  Its first one is a String, which no other plan
 * begins with.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "pgtime.h"

#include "compat.h"
#include "fdw/plan/fetch_plan.h"

#define MARK "FetchXML"
/* The rows and groups that a part is meant to have, since they will not be spread evenly. */
#define ROWS_OF_PART 35000.0
#define PIECES_OF_PART 3500.0
#define MOST_PARTS 256

const char *const dv_fetch_periods[DV_FETCH_PERIODS] = {
	[DV_FETCH_YEAR] = "year",
	[DV_FETCH_QUARTER] = "quarter",
	[DV_FETCH_MONTH] = "month",
	[DV_FETCH_WEEK] = "week",
	[DV_FETCH_DAY] = "day",
};

static List *
pack_tables(const List *tables)
{
	List	   *packed = NIL;
	const ListCell *lc;

	foreach(lc, tables)
	{
		const dv_fetch_table *t = lfirst(lc);
		List	   *numbers = list_make5_int(t->rti, t->kind, t->parent, t->from, t->to);

		numbers = list_concat(numbers, list_make2_int(t->first_value, (int) t->signature));
		packed = lappend(packed, list_make2(numbers, t->condition));
	}
	return packed;
}

static List *
unpack_tables(const List *packed)
{
	List	   *tables = NIL;
	const ListCell *lc;

	foreach(lc, packed)
	{
		List	   *numbers = linitial(lfirst(lc));
		dv_fetch_table *t = palloc(sizeof(*t));

		t->rti = linitial_int(numbers);
		t->kind = (dv_link_kind) lsecond_int(numbers);
		t->parent = lthird_int(numbers);
		t->from = lfourth_int(numbers);
		t->to = list_nth_int(numbers, 4);
		t->first_value = list_nth_int(numbers, 5);
		t->signature = (uint32) list_nth_int(numbers, 6);
		t->condition = lsecond(lfirst(lc));
		tables = lappend(tables, t);
	}
	return tables;
}

static List *
pack_items(const List *items)
{
	List	   *packed = NIL;
	const ListCell *lc;

	foreach(lc, items)
	{
		const dv_fetch_item *item = lfirst(lc);

		packed = lappend(packed, list_make4_int(item->content, item->table, item->attnum,
												item->period));
	}
	return packed;
}

static List *
unpack_items(const List *packed)
{
	List	   *items = NIL;
	const ListCell *lc;

	foreach(lc, packed)
	{
		dv_fetch_item *item = palloc(sizeof(*item));

		item->content = (dv_fetch_content) linitial_int(lfirst(lc));
		item->table = lsecond_int(lfirst(lc));
		item->attnum = lthird_int(lfirst(lc));
		item->period = (dv_fetch_period) lfourth_int(lfirst(lc));
		items = lappend(items, item);
	}
	return items;
}

List *
dv_fetch_plan_pack(const dv_fetch_plan *plan)
{
	return list_make5(makeString(MARK), pack_tables(plan->tables), pack_items(plan->items),
					  plan->orders,
					  list_make5_int(plan->grouped, plan->limit, plan->offset, plan->rows, plan->pieces));
}

dv_fetch_plan *
dv_fetch_plan_unpack(List *packed)
{
	dv_fetch_plan *plan = palloc(sizeof(*plan));
	List	   *numbers = list_nth(packed, 4);

	plan->tables = unpack_tables(lsecond(packed));
	plan->items = unpack_items(lthird(packed));
	plan->orders = lfourth(packed);
	plan->grouped = linitial_int(numbers);
	plan->limit = lsecond_int(numbers);
	plan->offset = lthird_int(numbers);
	plan->rows = lfourth_int(numbers);
	plan->pieces = list_nth_int(numbers, 4);
	return plan;
}

bool
dv_fetch_days_agree(void)
{
	long int	offset;

	return pg_get_timezone_offset(session_timezone, &offset) && offset == 0;
}

/*
 * When PostgreSQL puts the range tables of subqueries together, it moves the
 * numbers in its own fields, but not in ours: all by the same distance.
 */
dv_fetch_plan *
dv_fetch_plan_of(const ForeignScan *node)
{
	dv_fetch_plan *plan = dv_fetch_plan_unpack(node->fdw_private);
	int			first = PG_INT32_MAX;
	ListCell   *lc;

	foreach(lc, plan->tables)
	{
		first = Min(first, ((dv_fetch_table *) lfirst(lc))->rti);
	}
	foreach(lc, plan->tables)
	{
		((dv_fetch_table *) lfirst(lc))->rti += dv_first_base_relation(node) - first;
	}
	return plan;
}

/* Rows are expected to fall into any of the groups alike. */
double
dv_fetch_rows_of_part(double pieces)
{
	if (pieces <= PIECES_OF_PART)
		return ROWS_OF_PART;
	return Min(-pieces * log(1 - PIECES_OF_PART / pieces), ROWS_OF_PART);
}

double
dv_fetch_pieces_in(double rows, double pieces)
{
	pieces = Max(pieces, 1);
	return pieces * (1 - exp(-rows / pieces));
}

int
dv_fetch_parts(const dv_fetch_plan *plan)
{
	if (plan->rows <= DV_GROUPED_ROWS)
		return 1;
	return (int) Min(ceil(plan->rows / dv_fetch_rows_of_part(plan->pieces)), MOST_PARTS);
}

bool
dv_is_fetch_plan(List *packed)
{
	return packed != NIL && linitial(packed) != NULL && IsA(linitial(packed), String);
}

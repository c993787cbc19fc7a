/*
 * read_plan.c
 *		A read as it was planned.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "pgtime.h"

#include "client/forms.h"
#include "client/ranges.h"
#include "compat.h"
#include "fdw/condition.h"
#include "fdw/connection.h"
#include "fdw/plan/read_plan.h"
#include "fdw/setting.h"

/* The rows and groups that a part is meant to have, since they will not be spread evenly. */
#define ROWS_OF_PART 35000.0
#define PIECES_OF_PART 3500.0
#define MOST_PARTS 256

const char *const dv_read_periods[DV_READ_PERIODS] = {
	[DV_READ_YEAR] = "year",
	[DV_READ_QUARTER] = "quarter",
	[DV_READ_MONTH] = "month",
	[DV_READ_WEEK] = "week",
	[DV_READ_DAY] = "day",
};

dv_read_table *
dv_read_plan_add_table(dv_read_plan *plan)
{
	dv_read_table *table = palloc0(sizeof(*table));

	table->parent = -1;
	plan->tables = lappend(plan->tables, table);
	return table;
}

void
dv_read_plan_add_column(dv_read_plan *plan, int table, AttrNumber attnum)
{
	dv_read_item *item = palloc0(sizeof(*item));

	item->table = table;
	item->attnum = attnum;
	plan->items = lappend(plan->items, item);
}

dv_read_plan
dv_read_plan_columns(const List *columns)
{
	dv_read_plan plan = DV_READ_PLAN;
	const ListCell *lc;

	(void) dv_read_plan_add_table(&plan);
	foreach(lc, columns)
	{
		dv_read_plan_add_column(&plan, 0, lfirst_int(lc));
	}
	return plan;
}

dv_read_plan
dv_read_plan_listed(const List *columns, AttrNumber listed)
{
	dv_read_plan plan = dv_read_plan_columns(columns);

	dv_read_plan_table(&plan, 0)->condition =
		list_make4(makeInteger(DV_OP_IN), makeInteger(listed), makeInteger(0),
				   makeInteger(DV_CONDITION_EXACT | DV_CONDITION_LONG));
	return plan;
}

/*
 * Packing
 */

static List *
pack_tables(const List *tables)
{
	List	   *packed = NIL;
	const ListCell *lc;

	foreach(lc, tables)
	{
		const dv_read_table *t = lfirst(lc);
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
		dv_read_table *t = palloc(sizeof(*t));

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
		const dv_read_item *item = lfirst(lc);

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
		dv_read_item *item = palloc(sizeof(*item));

		item->content = (dv_read_content) linitial_int(lfirst(lc));
		item->table = lsecond_int(lfirst(lc));
		item->attnum = lthird_int(lfirst(lc));
		item->period = (dv_read_period) lfourth_int(lfirst(lc));
		items = lappend(items, item);
	}
	return items;
}

List *
dv_read_plan_pack(const dv_read_plan *plan)
{
	List	   *numbers = list_make5_int(plan->nulls, plan->limit, plan->offset, plan->rows, plan->count);

	numbers = list_concat(numbers, list_make5_int(plan->grouped, plan->pieces, plan->rows_without_list,
												  plan->ids_suffice, plan->keyed));
	return list_make5(pack_tables(plan->tables), pack_items(plan->items), plan->orders,
					  plan->rechecks, numbers);
}

dv_read_plan
dv_read_plan_unpack(const List *packed)
{
	const List *numbers = list_nth(packed, 4);
	dv_read_plan plan;

	plan.tables = unpack_tables(linitial(packed));
	plan.items = unpack_items(lsecond(packed));
	plan.orders = lthird(packed);
	plan.rechecks = lfourth(packed);
	plan.nulls = (dv_nulls) linitial_int(numbers);
	plan.limit = lsecond_int(numbers);
	plan.offset = lthird_int(numbers);
	plan.rows = lfourth_int(numbers);
	plan.count = list_nth_int(numbers, 4);
	plan.grouped = list_nth_int(numbers, 5);
	plan.pieces = list_nth_int(numbers, 6);
	plan.rows_without_list = list_nth_int(numbers, 7);
	plan.ids_suffice = list_nth_int(numbers, 8);
	plan.keyed = list_nth_int(numbers, 9);
	return plan;
}

/*
 * When PostgreSQL puts the range tables of subqueries together, it moves the
 * numbers in its own fields, but not in ours: all by the same distance.
 */
dv_read_plan
dv_read_plan_of(const ForeignScan *node)
{
	dv_read_plan plan = dv_read_plan_unpack(node->fdw_private);
	int			first = PG_INT32_MAX;
	ListCell   *lc;

	foreach(lc, plan.tables)
	{
		first = Min(first, ((dv_read_table *) lfirst(lc))->rti);
	}
	foreach(lc, plan.tables)
	{
		((dv_read_table *) lfirst(lc))->rti += dv_first_base_relation(node) - first;
	}
	return plan;
}

const dv_relation **
dv_read_plan_open(const dv_read_plan *plan, EState *estate)
{
	const dv_relation **relations = palloc(sizeof(dv_relation *) * list_length(plan->tables));
	ListCell   *lc;

	foreach(lc, plan->tables)
	{
		const dv_read_table *table = lfirst(lc);
		const dv_relation *relation = dv_relation_open(exec_rt_fetch(table->rti, estate)->relid);

		dv_relation_check(relation, table->signature);
		relations[foreach_current_index(lc)] = relation;
	}
	return relations;
}

/*
 * Joins that the service refuses
 */

/* "account (outer)", or "account (outer) of contact" */
static char *
name_link(const dv_read_plan *plan, const dv_relation **relations, int i, bool with_parent)
{
	static const char *const kinds[] = {
		[DV_LINK_INNER] = "inner",
		[DV_LINK_OUTER] = "outer",
		[DV_LINK_EXISTS] = "exists",
		[DV_LINK_NOT_EXISTS] = "not exists",
	};
	const dv_read_table *table = dv_read_plan_table(plan, i);

	return psprintf("%s (%s)%s%s", relations[i]->table, kinds[table->kind], with_parent ? " of " : "",
					with_parent ? relations[table->parent]->table : "");
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

/* "contact, account (outer)": however the planner came to the join, it has one name. */
static const char *
name_join(const dv_read_plan *plan, const dv_relation **relations)
{
	List	   *links = NIL;
	ListCell   *lc;
	StringInfoData s;
	int			i;

	for (i = 1; i < list_length(plan->tables); i++)
		links = lappend(links, name_link(plan, relations, i, dv_read_plan_table(plan, i)->parent > 0));
	list_sort(links, compare_names);
	initStringInfo(&s);
	appendStringInfoString(&s, relations[0]->table);
	foreach(lc, links)
	{
		appendStringInfo(&s, ", %s", (const char *) lfirst(lc));
	}
	return s.data;
}

static bool
is_refused(const dv_session *session, const char *join)
{
	return dv_form_most(session, DV_FORM_JOINS, join, 1) == 0;
}

bool
dv_read_plan_join_refused(const dv_read_plan *plan, const dv_relation **relations, Oid userid)
{
	const dv_session *session;
	bool		refused;
	int			i;

	if (list_length(plan->tables) < 2)
		return false;
	session = dv_connection_find(relations[0]->serverid, userid);
	if (session == NULL || !dv_form_noted(session, DV_FORM_JOINS))
		return false;
	refused = is_refused(session, name_join(plan, relations));
	for (i = 1; !refused && i < list_length(plan->tables); i++)
		refused = is_refused(session, psprintf("%s, %s", relations[dv_read_plan_table(plan, i)->parent]->table,
											   name_link(plan, relations, i, false)));
	return refused;
}

void
dv_read_plan_refuse_join(const dv_read_plan *plan, const dv_relation **relations,
						 const dv_session *session, const dv_error *error)
{
	dv_form_refused(session, DV_FORM_JOINS, name_join(plan, relations), 0, error);
}

/*
 * Ranges and parts
 */

/* That takes rows whose order does not matter, and a root that the service sorts by ids. */
int
dv_read_plan_ranges(const dv_read_plan *plan, const dv_relation *root, bool *automatic)
{
	dv_options	options = dv_settings_over(root->options, root->relid);

	*automatic = !dv_option_given(options, DV_OPT_SCAN_PARALLELISM);
	if (root->type != DV_TABLE_STANDARD || plan->ids_suffice || plan->count || plan->orders != NIL ||
		plan->nulls != DV_NULLS_AS_SORTED)
		return 1;
	return *automatic ? DV_RANGES_AUTOMATIC : dv_option_int(options, DV_OPT_SCAN_PARALLELISM);
}

bool
dv_read_days_agree(void)
{
	long int	offset;

	return pg_get_timezone_offset(session_timezone, &offset) && offset == 0;
}

/* Rows are expected to fall into any of the groups alike. */
double
dv_read_rows_of_part(double pieces)
{
	if (pieces <= PIECES_OF_PART)
		return ROWS_OF_PART;
	return Min(-pieces * log(1 - PIECES_OF_PART / pieces), ROWS_OF_PART);
}

double
dv_read_pieces_in(double rows, double pieces)
{
	pieces = Max(pieces, 1);
	return pieces * (1 - exp(-rows / pieces));
}

int
dv_read_parts(const dv_read_plan *plan)
{
	if (plan->rows <= DV_GROUPED_ROWS)
		return 1;
	return (int) Min(ceil(plan->rows / dv_read_rows_of_part(plan->pieces)), MOST_PARTS);
}

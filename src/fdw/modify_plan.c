/*
 * modify_plan.c
 *		Planning of INSERT, UPDATE, and DELETE: decides which columns are written.
 *
 * INSERT writes the columns that the statement names, even if they are null.
 * Columns that the statement omits are omitted from the request, too, so that
 * the service's defaults apply.  UPDATE writes the columns of SET.  BEFORE
 * triggers may change any column; if there are any, the other columns are
 * written as well wherever a trigger has made a difference.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "nodes/makefuncs.h"
#include "optimizer/inherit.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "compat.h"
#include "fdw/modify_plan.h"
#include "fdw/result_relation.h"

/*
 * From planning to execution
 */

List *
dv_modify_plan_pack(const dv_modify_plan *plan)
{
	List	   *scalars = list_make5_int(plan->command, plan->has_checks, plan->ignore, plan->repeats,
										 plan->at_once);

	return list_make5(plan->given, plan->others, plan->returned, plan->checked,
					  lappend_int(scalars, plan->match_version));
}

void
dv_modify_plan_unpack(const List *private, dv_modify_plan *plan)
{
	const List *scalars = llast(private);

	plan->given = linitial(private);
	plan->others = lsecond(private);
	plan->returned = lthird(private);
	plan->checked = lfourth(private);
	plan->command = linitial_int(scalars);
	plan->has_checks = lsecond_int(scalars);
	plan->ignore = lthird_int(scalars);
	plan->repeats = lfourth_int(scalars);
	plan->at_once = list_nth_int(scalars, 4);
	plan->match_version = llast_int(scalars);
}

dv_operation
dv_modify_plan_operation(const dv_relation *relation, dv_options options, CmdType command)
{
	bool		pairs = relation->type == DV_TABLE_INTERSECT;

	switch (command)
	{
		case CMD_UPDATE:
			return DV_UPDATE;
		case CMD_DELETE:
			return pairs ? DV_DISASSOCIATE : DV_DELETE;
		default:
			if (pairs)
				return DV_ASSOCIATE;
			return dv_option_choice(options, DV_OPT_INSERT_MODE) == DV_INSERT_UPSERT ? DV_UPSERT : DV_CREATE;
	}
}

/*
 * Columns that are written
 */

bool
dv_modify_plan_is_writable(const dv_attribute *attribute)
{
	return !(dv_types[attribute->column.type].flags & DV_READONLY) &&
		!attribute->is_label && !attribute->is_table_name && !attribute->readonly;
}

bool
dv_modify_plan_is_insertable(const dv_attribute *attribute)
{
	return dv_modify_plan_is_writable(attribute) && !attribute->update_only;
}

const char *
dv_modify_plan_reason(const dv_attribute *attribute)
{
	if (attribute->is_label)
		return psprintf("It is the label of \"%s\".", attribute->column.name);
	if (attribute->readonly)
		return "Dataverse does not allow writing to it (option \"readonly\").";
	if (dv_modify_plan_is_writable(attribute))
		return "Dataverse ignores its values when a row is created (option \"update_only\").";
	if (attribute->column.type == DV_TYPE_FILE)
		return "Files cannot be written together with their rows.";
	return "Values of its type can only be read.";
}

static void
refuse_column(const dv_relation *relation, const dv_attribute *attribute, CmdType command,
			  const char *reason, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg(command == CMD_INSERT ?
					"cannot insert into column \"%s\" of foreign table \"%s\"" :
					"cannot update column \"%s\" of foreign table \"%s\"",
					attribute->name, relation->name),
			 errdetail_internal("%s", reason),
			 hint != NULL ? errhint("%s", hint) : 0));
}

static bool
is_null_constant(const TargetEntry *tle)
{
	return IsA(tle->expr, Const) && ((Const *) tle->expr)->constisnull;
}

/* Does PostgreSQL compute this column? */
static bool
is_generated(Relation rel, AttrNumber attnum)
{
	return TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attgenerated != '\0';
}

/* The name of a lookup's table has no meaning without the lookup's id. */
static void
check_companion(const dv_relation *relation, const dv_attribute *attribute, List *columns,
				CmdType command)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		const dv_attribute *other = dv_relation_attribute(relation, lfirst_int(lc));

		if (other != NULL && other != attribute &&
			!other->is_table_name && !other->is_label &&
			strcmp(other->column.name, attribute->column.name) == 0)
			return;
	}
	refuse_column(relation, attribute, command,
				  psprintf("It names the table that \"%s\" refers to.", attribute->column.name),
				  command == CMD_INSERT ? "Insert into both columns." : "Set both columns.");
}

static List *
inserted_columns(PlannerInfo *root, Relation rel, const dv_relation *relation)
{
	List	   *named = NIL;
	List	   *columns = NIL;
	ListCell   *lc;
	int			i;

	foreach(lc, root->parse->targetList)
	{
		if (!lfirst_node(TargetEntry, lc)->resjunk)
			named = lappend_int(named, lfirst_node(TargetEntry, lc)->resno);
	}
	/* the target list as the user wrote it, not expanded to all columns */
	foreach(lc, root->parse->targetList)
	{
		const TargetEntry *tle = lfirst(lc);
		const dv_attribute *attribute;

		if (tle->resjunk)
			continue;
		attribute = dv_relation_attribute(relation, tle->resno);

		if (attribute == NULL)
			continue;
		if (!attribute->is_table_name && !dv_modify_plan_is_insertable(attribute))
		{
			if (is_null_constant(tle))
				continue;
			refuse_column(relation, attribute, CMD_INSERT, dv_modify_plan_reason(attribute),
						  dv_modify_plan_is_writable(attribute) ?
						  "Insert the rows without it, and set it with UPDATE." :
						  "Specify a list of columns that does not include this one.");
		}
		if (attribute->is_table_name && !is_null_constant(tle))
			check_companion(relation, attribute, named, CMD_INSERT);
		columns = lappend_int(columns, tle->resno);
	}
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute != NULL && is_generated(rel, i) && dv_modify_plan_is_insertable(attribute) &&
			!list_member_int(columns, i))
			columns = lappend_int(columns, i);
	}
	return columns;
}

/* The columns that identify a row cannot be changed. */
static void
check_key(const dv_relation *relation, const dv_attribute *attribute, AttrNumber attnum)
{
	AttrNumber	id;
	AttrNumber	partition;

	dv_resultrel_keys(relation, &id, &partition);
	if (attnum == id)
		refuse_column(relation, attribute, CMD_UPDATE, "It is the primary id of the row.",
					  "Insert a row with the new id and delete this one.");
	if (attnum == partition)
		refuse_column(relation, attribute, CMD_UPDATE, "It determines the partition of the row.",
					  "Insert the row into the other partition and delete this one.");
}

static List *
updated_columns(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index,
				Relation rel, const dv_relation *relation)
{
	List	   *set = list_nth(plan->updateColnosLists, subplan_index);
	Bitmapset  *changed = get_rel_all_updated_cols(root, find_base_rel(root, resultRelation));
	List	   *columns = NIL;
	ListCell   *lc;
	int			i;

	foreach(lc, set)
	{
		AttrNumber	attnum = lfirst_int(lc);
		const dv_attribute *attribute = dv_relation_attribute(relation, attnum);

		if (attribute == NULL)
			continue;
		check_key(relation, attribute, attnum);
		if (attribute->is_table_name)
			check_companion(relation, attribute, set, CMD_UPDATE);
		else if (!dv_modify_plan_is_writable(attribute))
			refuse_column(relation, attribute, CMD_UPDATE, dv_modify_plan_reason(attribute), NULL);
		columns = lappend_int(columns, attnum);
	}
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute != NULL && is_generated(rel, i) && dv_modify_plan_is_writable(attribute) &&
			bms_is_member(i - FirstLowInvalidHeapAttributeNumber, changed))
			columns = list_append_unique_int(columns, i);
	}
	return columns;
}

/* All columns that the command can write and that are not in the list. */
static List *
other_columns(const dv_relation *relation, List *columns, CmdType command)
{
	List	   *others = NIL;
	AttrNumber	id;
	AttrNumber	partition;
	int			i;

	dv_resultrel_keys(relation, &id, &partition);
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute != NULL && !list_member_int(columns, i) &&
			(attribute->is_table_name ||
			 (command == CMD_INSERT ? dv_modify_plan_is_insertable(attribute) :
			  dv_modify_plan_is_writable(attribute) && i != id && i != partition)))
			others = lappend_int(others, i);
	}
	return others;
}

void
dv_modify_plan_check(const dv_relation *relation, dv_options options, CmdType command, bool ignore)
{
	if (ignore && dv_modify_plan_operation(relation, options, command) == DV_UPSERT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ON CONFLICT DO NOTHING cannot be used for foreign table \"%s\" while \"insert_mode\" is \"upsert\"",
						relation->name),
				 errdetail("An upsert changes rows that exist."),
				 errhint("Set \"insert_mode\" to \"create\" or \"ignore_duplicates\", or leave out the ON CONFLICT clause.")));
}

/*
 * Columns that are used after the row has been written
 */

/* The columns of the table that occur in the expressions. */
static List *
columns_in(const dv_relation *relation, List *expressions, Index varno)
{
	Bitmapset  *attnums = NULL;
	List	   *columns = NIL;
	int			i;

	pull_varattnos((Node *) expressions, varno, &attnums);
	for (i = 1; i <= relation->natts; i++)
		if (dv_relation_attribute(relation, i) != NULL &&
			(bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, attnums) ||
			 bms_is_member(i - FirstLowInvalidHeapAttributeNumber, attnums)))
			columns = lappend_int(columns, i);
	return columns;
}

static List *
all_columns(const dv_relation *relation)
{
	List	   *columns = NIL;
	int			i;

	for (i = 1; i <= relation->natts; i++)
		if (dv_relation_attribute(relation, i) != NULL)
			columns = lappend_int(columns, i);
	return columns;
}

static bool
fires_after_row(const TriggerDesc *t, CmdType command)
{
	if (t == NULL)
		return false;
	switch (command)
	{
		case CMD_INSERT:
			return t->trig_insert_after_row;
		case CMD_UPDATE:
			return t->trig_update_after_row;
		default:
			return t->trig_delete_after_row;
	}
}

/* plan->command must be set. */
static void
find_looked_at(dv_modify_plan *plan, const dv_relation *relation, const TriggerDesc *triggers,
			   List *returning, List *checks, Index varno)
{
	plan->has_checks = checks != NIL;
	plan->checked = columns_in(relation, checks, varno);
	plan->at_once = fires_after_row(triggers, plan->command);
	/* triggers see the row as the service has it; a deleted row was read beforehand */
	if (plan->at_once && plan->command != CMD_DELETE)
		plan->returned = all_columns(relation);
	else
		plan->returned = columns_in(relation, list_concat_copy(returning, checks), varno);
}

/*
 * Planning
 */

/* Can this plan return a row of the table more than once?  Only scans of the table cannot. */
static bool
may_repeat(Plan *plan)
{
	ListCell   *lc;

	if (plan == NULL)
		return false;
	if (IsA(plan, ForeignScan))
		return ((ForeignScan *) plan)->scan.scanrelid == 0;
	if (IsA(plan, Result))
		return may_repeat(plan->lefttree);
	if (!IsA(plan, Append))
		return true;
	foreach(lc, ((Append *) plan)->appendplans)
		if (may_repeat(lfirst(lc)))
			return true;
	return false;
}

static void
find_written(dv_modify_plan *plan, PlannerInfo *root, ModifyTable *node, Index varno,
			 int subplan_index, Relation rel, const dv_relation *relation)
{
	const TriggerDesc *triggers = rel->trigdesc;
	bool		changed_before = false;

	if (plan->command == CMD_INSERT)
	{
		plan->given = inserted_columns(root, rel, relation);
		changed_before = triggers != NULL && triggers->trig_insert_before_row;
	}
	else if (plan->command == CMD_UPDATE)
	{
		plan->given = updated_columns(root, node, varno, subplan_index, rel, relation);
		changed_before = triggers != NULL && triggers->trig_update_before_row;
	}
	if (changed_before)
		plan->others = other_columns(relation, plan->given, plan->command);
}

/* Picks from a list with one entry for each table of the statement, or without entries. */
static List *
list_for(List *lists, int subplan_index)
{
	return lists != NIL ? list_nth(lists, subplan_index) : NIL;
}

List *
dataversePlanForeignModify(PlannerInfo *root, ModifyTable *node, Index resultRelation,
						   int subplan_index)
{
	Oid			relid = planner_rt_fetch(resultRelation, root)->relid;
	Relation	rel = table_open(relid, NoLock);
	const dv_relation *relation = dv_relation_open(relid);
	dv_modify_plan plan = {.command = node->operation};

	find_written(&plan, root, node, resultRelation, subplan_index, rel, relation);
	find_looked_at(&plan, relation, rel->trigdesc, list_for(node->returningLists, subplan_index),
				   list_for(node->withCheckOptionLists, subplan_index), resultRelation);
	plan.ignore = node->onConflictAction == ONCONFLICT_NOTHING;
	dv_modify_plan_check(relation, dv_settings_over(relation->options), plan.command, plan.ignore);
	plan.repeats = plan.command != CMD_INSERT && may_repeat(outerPlan(&node->plan));
	plan.match_version = plan.command != CMD_INSERT && dv_resultrel_version(relation) != 0;
	table_close(rel, NoLock);
	return dv_modify_plan_pack(&plan);
}

static bool
fires_after_insert(const ResultRelInfo *rinfo)
{
	const TriggerDesc *t = rinfo != NULL ? rinfo->ri_TrigDesc : NULL;

	return t != NULL && (t->trig_insert_after_row || t->trig_insert_after_statement);
}

void
dv_modify_plan_rows(const ModifyTableState *mtstate, const ResultRelInfo *rinfo,
					const dv_relation *relation, dv_modify_plan *plan)
{
	const ModifyTable *node = (const ModifyTable *) mtstate->ps.plan;
	Index		varno = rinfo->ri_RangeTableIndex;

	memset(plan, 0, sizeof(*plan));
	plan->command = CMD_INSERT;
	plan->others = other_columns(relation, NIL, CMD_INSERT);
	/* a partition that rows are routed to has no range table entry of its own */
	if (varno == 0)
		varno = mtstate->resultRelInfo->ri_RangeTableIndex;
	find_looked_at(plan, relation, rinfo->ri_TrigDesc, rinfo->ri_returningList,
				   rinfo->ri_WithCheckOptions, varno);
	plan->ignore = node != NULL && node->onConflictAction == ONCONFLICT_NOTHING;
	/* COPY fires its triggers before it calls EndForeignInsert */
	if (node == NULL && (fires_after_insert(rinfo) ||
						 fires_after_insert(rinfo->ri_RootResultRelInfo)))
		plan->at_once = true;
}

int
dataverseIsForeignRelUpdatable(Relation rel)
{
	const dv_relation *relation = dv_relation_open(RelationGetRelid(rel));

	if (!dv_option_bool(relation->options, DV_OPT_UPDATABLE))
		return 0;
	if (relation->type == DV_TABLE_INTERSECT)
		return (1 << CMD_INSERT) | (1 << CMD_DELETE);
	return (1 << CMD_INSERT) | (1 << CMD_UPDATE) | (1 << CMD_DELETE);
}

/*
 * modify_plan.c
 *		Planning of INSERT, UPDATE and DELETE: which columns are written.
 *
 * INSERT writes the columns that the statement names, nulls too; those that
 * it leaves out are left out here, so that the service's defaults apply.
 * UPDATE writes the columns of SET.  Triggers that run before may change any
 * column: then the others are written as well, if they made a difference.
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
#include "fdw/modify.h"
#include "fdw/result_relation.h"

bool
dv_modify_is_writable(const dv_attribute *attribute)
{
	return !(dv_types[attribute->column.type].flags & DV_READONLY) &&
		!attribute->is_label && !attribute->is_table_name && !attribute->readonly;
}

/* Why a column cannot be written, as a sentence. */
static const char *
reason_of(const dv_attribute *attribute)
{
	if (attribute->is_label)
		return psprintf("It is the label of \"%s\".", attribute->column.name);
	if (attribute->readonly)
		return "Dataverse does not let it be written (option \"readonly\").";
	if (attribute->column.type == DV_TYPE_FILE)
		return "Files are not written with their rows.";
	return "Values of its type are only read.";
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

/* A column of the table that PostgreSQL computes. */
static bool
is_generated(Relation rel, AttrNumber attnum)
{
	return TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attgenerated != '\0';
}

static List *
inserted_columns(PlannerInfo *root, Relation rel, const dv_relation *relation)
{
	List	   *columns = NIL;
	ListCell   *lc;
	int			i;

	/* the one that was written by the user, not expanded to all columns */
	foreach(lc, root->parse->targetList)
	{
		const TargetEntry *tle = lfirst(lc);
		const dv_attribute *attribute;

		if (tle->resjunk)
			continue;
		attribute = dv_relation_attribute(relation, tle->resno);

		if (attribute == NULL)
			continue;
		if (!attribute->is_table_name && !dv_modify_is_writable(attribute))
		{
			if (is_null_constant(tle))
				continue;
			refuse_column(relation, attribute, CMD_INSERT, reason_of(attribute),
						  "Name the columns that are to be written, without this one.");
		}
		columns = lappend_int(columns, tle->resno);
	}
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute !=NULL && is_generated(rel, i) && dv_modify_is_writable(attribute) &&
			!list_member_int(columns, i))
			columns = lappend_int(columns, i);
	}
	return columns;
}

/* Which row it is cannot be changed. */
static void
check_key(const dv_relation *relation, const dv_attribute *attribute, AttrNumber attnum)
{
	AttrNumber	id;
	AttrNumber	partition;

	dv_resultrel_keys(relation, &id, &partition);
	if (attnum == id)
		refuse_column(relation, attribute, CMD_UPDATE, "It is the primary id of the row.",
					  "Insert a row with the other id and delete this one.");
	if (attnum == partition)
		refuse_column(relation, attribute, CMD_UPDATE, "It says in which partition the row is.",
					  "Insert the row into the other partition and delete this one.");
}

/* The name of a lookup's table means something together with its id only. */
static void
check_companion(const dv_relation *relation, const dv_attribute *attribute, List *columns)
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
	refuse_column(relation, attribute, CMD_UPDATE,
				  psprintf("It says to which table \"%s\" refers.", attribute->column.name),
				  "Set both columns.");
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
			check_companion(relation, attribute, set);
		else if (!dv_modify_is_writable(attribute))
			refuse_column(relation, attribute, CMD_UPDATE, reason_of(attribute), NULL);
		columns = lappend_int(columns, attnum);
	}
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute !=NULL && is_generated(rel, i) && dv_modify_is_writable(attribute) &&
			bms_is_member(i - FirstLowInvalidHeapAttributeNumber, changed))
			columns = list_append_unique_int(columns, i);
	}
	return columns;
}

/* All that can be written and is not in the list. */
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

		if (attribute !=NULL && !list_member_int(columns, i) &&
			(attribute->is_table_name || dv_modify_is_writable(attribute)) &&
			(command == CMD_INSERT || (i != id && i != partition)))
			others = lappend_int(others, i);
	}
	return others;
}

List *
dv_modify_columns_of(const dv_relation *relation, Node *expressions, Index varno)
{
	Bitmapset  *attnums = NULL;
	List	   *columns = NIL;
	int			i;

	pull_varattnos(expressions, varno, &attnums);
	for (i = 1; i <= relation->natts; i++)
		if (dv_relation_attribute(relation, i) != NULL &&
			(bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, attnums) ||
			 bms_is_member(i - FirstLowInvalidHeapAttributeNumber, attnums)))
			columns = lappend_int(columns, i);
	return columns;
}

List *
dv_modify_all_columns(const dv_relation *relation)
{
	List	   *columns = NIL;
	int			i;

	for (i = 1; i <= relation->natts; i++)
		if (dv_relation_attribute(relation, i) != NULL)
			columns = lappend_int(columns, i);
	return columns;
}

static List *
returned_columns(ModifyTable *plan, Index varno, int subplan_index, const dv_relation *relation,
				 const TriggerDesc *triggers)
{
	List	   *expressions = NIL;

	if (triggers != NULL &&
		((plan->operation == CMD_INSERT && triggers->trig_insert_after_row) ||
		 (plan->operation == CMD_UPDATE && triggers->trig_update_after_row)))
		return dv_modify_all_columns(relation);
	if (plan->returningLists != NIL)
		expressions = list_copy(list_nth(plan->returningLists, subplan_index));
	if (plan->withCheckOptionLists != NIL)
		expressions = list_concat(expressions,
								  list_nth(plan->withCheckOptionLists, subplan_index));
	return dv_modify_columns_of(relation, (Node *) expressions, varno);
}

/* Can this plan give a row of the table more than once?  Only scans of itself cannot. */
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

List *
dataversePlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation,
						   int subplan_index)
{
	Oid			relid = planner_rt_fetch(resultRelation, root)->relid;
	Relation	rel = table_open(relid, NoLock);
	const dv_relation *relation = dv_relation_open(relid);
	const TriggerDesc *triggers = rel->trigdesc;
	List	   *given = NIL;
	List	   *others = NIL;
	List	   *returned;
	List	   *checked = NIL;

	if (plan->operation == CMD_INSERT)
		given = inserted_columns(root, rel, relation);
	else if (plan->operation == CMD_UPDATE)
		given = updated_columns(root, plan, resultRelation, subplan_index, rel, relation);
	if (triggers != NULL &&
		((plan->operation == CMD_INSERT && triggers->trig_insert_before_row) ||
		 (plan->operation == CMD_UPDATE && triggers->trig_update_before_row)))
		others = other_columns(relation, given, plan->operation);
	returned = returned_columns(plan, resultRelation, subplan_index, relation, triggers);
	table_close(rel, NoLock);
	if (plan->withCheckOptionLists != NIL)
		checked = dv_modify_columns_of(relation, (Node *)
									   list_nth(plan->withCheckOptionLists, subplan_index),
									   resultRelation);
	/* as dv_modify_item numbers them */
	return lappend(list_make5(given, others, returned, checked,
							  makeInteger(plan->onConflictAction == ONCONFLICT_NOTHING)),
				   makeInteger(plan->operation != CMD_INSERT &&
							   may_repeat(outerPlan(&plan->plan))));
}

void
dv_modify_plan_rows(const dv_relation *relation, dv_modify_plan *plan)
{
	plan->command = CMD_INSERT;
	plan->others = other_columns(relation, NIL, CMD_INSERT);
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

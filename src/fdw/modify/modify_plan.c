/*
 * modify_plan.c
 *		Planning of INSERT, UPDATE, and DELETE: decides which columns are written.
 *
 * INSERT writes the columns that the statement names, even if they are null.
 * Columns that cannot be written may be named, too, as long as their values are
 * null, because object-relational mappers and postgres_fdw always name all
 * columns.  Columns that the statement omits are omitted from the request, too,
 * so that the service's defaults apply.  UPDATE writes the columns of SET.
 * BEFORE triggers may change any column; if a table has any, other columns are
 * written as well if a trigger has changed them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/inherit.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "fdw/modify/modify_plan.h"
#include "fdw/result_relation.h"
#include "fdw/setting.h"
#include "fdw/tid.h"

/*
 * From planning to execution
 */

List *
dv_modify_plan_pack(const dv_modify_plan *plan)
{
	List	   *scalars = list_make5_int(plan->command, plan->has_checks, plan->ignore, plan->repeats,
										 plan->at_once);

	scalars = lappend_int(scalars, plan->new_ids);
	return list_concat(list_make4(plan->set, plan->others, plan->nulls, plan->returned),
					   list_make2(plan->checked, list_concat(scalars, list_make2_int(plan->match_version, (int) plan->signature))));
}

void
dv_modify_plan_unpack(const List *private, dv_modify_plan *plan)
{
	const List *scalars = llast(private);

	plan->set = linitial(private);
	plan->others = lsecond(private);
	plan->nulls = lthird(private);
	plan->returned = lfourth(private);
	plan->checked = list_nth(private, 4);
	plan->command = linitial_int(scalars);
	plan->has_checks = lsecond_int(scalars);
	plan->ignore = lthird_int(scalars);
	plan->repeats = lfourth_int(scalars);
	plan->at_once = list_nth_int(scalars, 4);
	plan->new_ids = list_nth_int(scalars, 5);
	plan->match_version = list_nth_int(scalars, 6);
	plan->signature = (uint32) list_nth_int(scalars, 7);
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
dv_modify_plan_writes(const dv_attribute *attribute, CmdType command)
{
	return dv_modify_plan_is_writable(attribute) &&
		!(command == CMD_INSERT ? attribute->update_only : attribute->create_only);
}

const char *
dv_modify_plan_reason(const dv_attribute *attribute, CmdType command)
{
	if (attribute->is_label)
		return psprintf("It is the label of \"%s\".", attribute->column.name);
	if (attribute->readonly)
		return "Dataverse does not allow writing to it (option \"readonly\").";
	if (dv_modify_plan_is_writable(attribute))
		return command == CMD_INSERT ?
			"Dataverse ignores its values when a row is created (option \"update_only\")." :
			"Dataverse ignores its values when a row is updated (option \"create_only\").";
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

/*
 * Returns true if it contains a parameter, or a value of a list or function.
 * These are given for all columns alike, whereas the columns of a table are
 * chosen one by one.
 */
static bool
has_outer_value(Node *node, void *rtable)
{
	const Var  *var = (const Var *) node;
	const RangeTblEntry *rte;
	const TargetEntry *tle;

	if (node == NULL)
		return false;
	if (!IsA(node, Var))
		return IsA(node, Param) || expression_tree_walker(node, has_outer_value, rtable);
	rte = var->varlevelsup == 0 ? rt_fetch(var->varno, (List *) rtable) : NULL;
	if (rte == NULL || rte->rtekind != RTE_SUBQUERY || rte->subquery == NULL)
		return rte == NULL || rte->rtekind != RTE_RELATION;
	tle = get_tle_by_resno(rte->subquery->targetList, var->varattno);
	return tle == NULL || has_outer_value((Node *) tle->expr, rte->subquery->rtable);
}

/*
 * Returns true if the value may be null.  If not, the statement is to set the column, and is
 * refused before it begins.
 */
static bool
may_be_null(PlannerInfo *root, const TargetEntry *tle)
{
	if (IsA(tle->expr, Const))
		return ((const Const *) tle->expr)->constisnull;
	return has_outer_value((Node *) tle->expr, root->parse->rtable);
}

/*
 * A default of dataverse.new_id() means that ids are generated locally.  A column
 * with that value counts as left out: an upsert would take a given id for that of
 * an existing row, and after a lost answer, the outcome of its row is harder to
 * find out.
 */
static bool
is_new_id(const Node *expr)
{
	return expr != NULL && IsA(expr, FuncExpr) && ((const FuncExpr *) expr)->funcid ==
		LookupFuncName(list_make2(makeString("dataverse"), makeString("new_id")), 0, NULL, true);
}

/* Returns true if PostgreSQL computes this column. */
static bool
is_generated(Relation rel, AttrNumber attnum)
{
	return TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attgenerated != '\0';
}

/*
 * Returns true if the lookup's id is among the columns.  The name of its table has no meaning
 * without it.
 */
static bool
has_lookup(const dv_relation *relation, const dv_attribute *attribute, List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		const dv_attribute *other = dv_relation_attribute(relation, lfirst_int(lc));

		if (other != NULL && other != attribute &&
			!other->is_table_name && !other->is_label &&
			strcmp(other->column.name, attribute->column.name) == 0)
			return true;
	}
	return false;
}

static void
refuse_companion(const dv_relation *relation, const dv_attribute *attribute, CmdType command)
{
	refuse_column(relation, attribute, command,
				  psprintf("It names the table that \"%s\" refers to.", attribute->column.name),
				  command == CMD_INSERT ? "Insert into both columns." : "Set both columns.");
}

static void
refuse_to_insert(const dv_relation *relation, const dv_attribute *attribute)
{
	if (attribute->is_table_name)
		refuse_companion(relation, attribute, CMD_INSERT);
	refuse_column(relation, attribute, CMD_INSERT, dv_modify_plan_reason(attribute, CMD_INSERT),
				  dv_modify_plan_is_writable(attribute) ?
				  "Insert the rows without it, and set it with UPDATE." :
				  "Specify a list of columns that does not include this one.");
}

static void
find_inserted(dv_modify_plan *plan, PlannerInfo *root, Relation rel, const dv_relation *relation)
{
	List	   *named = NIL;
	ListCell   *lc;
	AttrNumber	id;
	AttrNumber	partition;
	int			i;

	dv_resultrel_keys(relation, &id, &partition);
	foreach(lc, root->parse->targetList)
	{
		if (!lfirst_node(TargetEntry, lc)->resjunk)
			named = lappend_int(named, lfirst_node(TargetEntry, lc)->resno);
	}
	/* the target list as the user wrote it, not expanded to all columns */
	foreach(lc, root->parse->targetList)
	{
		const TargetEntry *tle = lfirst(lc);
		const dv_attribute *attribute = dv_relation_attribute(relation, tle->resno);

		if (tle->resjunk || attribute == NULL)
			continue;
		if (tle->resno == id && is_new_id((Node *) tle->expr))
			plan->new_ids = true;
		else if (attribute->is_table_name ? has_lookup(relation, attribute, named) :
				 dv_modify_plan_writes(attribute, CMD_INSERT))
			plan->set = lappend_int(plan->set, tle->resno);
		else if (may_be_null(root, tle))
			plan->nulls = lappend_int(plan->nulls, tle->resno);
		else
			refuse_to_insert(relation, attribute);
	}
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute != NULL && is_generated(rel, i) && dv_modify_plan_writes(attribute, CMD_INSERT))
			plan->set = list_append_unique_int(plan->set, i);
	}
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

/*
 * The flag for updates in the metadata is a default: the service may accept such values
 * nevertheless.
 */
static const char *
update_hint(const dv_relation *relation, const dv_attribute *attribute)
{
	if (!dv_modify_plan_is_writable(attribute))
		return NULL;
	return psprintf("Set it when rows are inserted.  If this table accepts it in updates nevertheless, change the option: ALTER FOREIGN TABLE %s ALTER COLUMN %s OPTIONS (SET create_only 'false');",
					dv_relation_qualified_name(relation->relid), quote_identifier(attribute->name));
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
		if (attribute->is_table_name && !has_lookup(relation, attribute, set))
			refuse_companion(relation, attribute, CMD_UPDATE);
		if (!attribute->is_table_name && !dv_modify_plan_writes(attribute, CMD_UPDATE))
			refuse_column(relation, attribute, CMD_UPDATE, dv_modify_plan_reason(attribute, CMD_UPDATE),
						  update_hint(relation, attribute));
		columns = lappend_int(columns, attnum);
	}
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute != NULL && is_generated(rel, i) && dv_modify_plan_writes(attribute, CMD_UPDATE) &&
			bms_is_member(i - FirstLowInvalidHeapAttributeNumber, changed))
			columns = list_append_unique_int(columns, i);
	}
	return columns;
}

/* Returns all columns that the command can write and that are not in the list. */
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
			 (dv_modify_plan_writes(attribute, command) &&
			  (command == CMD_INSERT || (i != id && i != partition)))))
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
				 errhint("Set \"insert_mode\" to \"create\" or \"ignore_duplicates\", or omit the ON CONFLICT clause.")));
}

/*
 * Columns that are used after the row has been written
 */

/* Returns the columns of the table that occur in the expressions. */
static List *
columns_in(const dv_relation *relation, List *expressions, Index varno)
{
	Bitmapset  *attnums = NULL;
	List	   *columns = NIL;
	int			i;

	pull_varattnos((Node *) expressions, varno, &attnums);
	if (bms_is_member(DV_TID_MEMBER, attnums))
		attnums = bms_add_members(attnums, dv_tid_columns(relation));
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
	/* triggers see the row as the service has it; a deleted row was read before */
	if (plan->at_once && plan->command != CMD_DELETE)
		plan->returned = all_columns(relation);
	else
		plan->returned = columns_in(relation, returning, varno);
}

/*
 * Planning
 */

/*
 * Returns true if this plan can return a row of the table more than once.  Only scans of the
 * table cannot.
 */
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
		find_inserted(plan, root, rel, relation);
		changed_before = triggers != NULL && triggers->trig_insert_before_row;
	}
	else if (plan->command == CMD_UPDATE)
	{
		plan->set = updated_columns(root, node, varno, subplan_index, rel, relation);
		changed_before = triggers != NULL && triggers->trig_update_before_row;
	}
	if (changed_before)
		plan->others = other_columns(relation, plan->set, plan->command);
}

/*
 * Returns an entry of a list with one entry for each table of the statement, or without entries.
 */
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

	if (dv_reads_tid(list_for(node->returningLists, subplan_index)))
		dv_tid_check(relation, resultRelation, NIL);
	find_written(&plan, root, node, resultRelation, subplan_index, rel, relation);
	find_looked_at(&plan, relation, rel->trigdesc, list_for(node->returningLists, subplan_index),
				   list_for(node->withCheckOptionLists, subplan_index), resultRelation);
	plan.ignore = node->onConflictAction == ONCONFLICT_NOTHING;
	dv_modify_plan_check(relation, dv_settings_over(relation->options, relid), plan.command, plan.ignore);
	plan.repeats = plan.command != CMD_INSERT && may_repeat(outerPlan(&node->plan));
	plan.match_version = plan.command != CMD_INSERT && dv_resultrel_version(relation) != 0;
	plan.signature = relation->signature;
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
	AttrNumber	id;
	AttrNumber	partition;

	memset(plan, 0, sizeof(*plan));
	plan->command = CMD_INSERT;
	dv_resultrel_keys(relation, &id, &partition);
	plan->new_ids = id != 0 && is_new_id(build_column_default(rinfo->ri_RelationDesc, id));
	plan->signature = relation->signature;
	plan->others = other_columns(relation, NIL, CMD_INSERT);
	/* a partition to which rows are routed has no range table entry of its own */
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

/*
 * The views of information_schema call this for all tables, so it is no error if one cannot be
 * opened.
 */
int
dataverseIsForeignRelUpdatable(Relation rel)
{
	dv_options	options = dv_relation_options(RelationGetRelid(rel));

	if (!dv_option_bool(options, DV_OPT_UPDATABLE))
		return 0;
	if (dv_option_choice(options, DV_OPT_TABLE_TYPE) == DV_TABLE_INTERSECT)
		return (1 << CMD_INSERT) | (1 << CMD_DELETE);
	return (1 << CMD_INSERT) | (1 << CMD_UPDATE) | (1 << CMD_DELETE);
}

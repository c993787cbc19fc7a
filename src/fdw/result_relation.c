/*
 * result_relation.c
 *		Tables that a statement changes: the columns that identify their rows,
 *		and precautions when they are read.
 *
 * The primary id identifies a row, in an elastic table together with its
 * partition.  A row of an intersect table consists of nothing but two ids.
 * The scan below an UPDATE or DELETE returns these values in junk columns, and
 * the version of the row as well if it must not have been changed since.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "dataverse/type.h"
#include "fdw/condition.h"
#include "fdw/result_relation.h"
#include "fdw/setting.h"

void
dv_resultrel_keys(const dv_relation *relation, AttrNumber *id, AttrNumber *partition)
{
	*id = dv_relation_column_of(relation, relation->primary_id.name);
	*partition = relation->type != DV_TABLE_ELASTIC ? 0 :
		dv_relation_column_of(relation, dv_option_text(relation->options, DV_OPT_PARTITION_ID));
}

/* Other tables have no flag that says that the service compares versions. */
static void
check_versions(const dv_relation *relation)
{
	if (relation->type == DV_TABLE_STANDARD)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot match versions of rows of foreign table \"%s\"", relation->name),
			 errdetail("Dataverse compares versions only in standard tables, and \"%s\" is %s.",
					   relation->table,
					   relation->type == DV_TABLE_ELASTIC ? "an elastic table" : "a virtual table"),
			 errhint("Set \"match_version\" to \"off\" for this table.")));
}

AttrNumber
dv_resultrel_version(const dv_relation *relation)
{
	AttrNumber	attnum;

	/* a pair of ids does not change */
	if (relation->type == DV_TABLE_INTERSECT ||
		!dv_option_bool(dv_settings_over(relation->options, relation->relid), DV_OPT_MATCH_VERSION))
		return 0;
	check_versions(relation);
	attnum = dv_relation_column_of(relation, "versionnumber");
	if (attnum == 0 || dv_relation_attribute(relation, attnum)->pgtype != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
				 errmsg("foreign table \"%s\" does not have the column with the versions of its rows",
						relation->name),
				 errdetail("While \"match_version\" is on, UPDATE and DELETE need column \"versionnumber\" of table \"%s\", as bigint.",
						   relation->table),
				 errhint("Add the column with ALTER FOREIGN TABLE.")));
	return attnum;
}

void
dv_resultrel_pair(const dv_relation *relation, AttrNumber *first, AttrNumber *second)
{
	AttrNumber	pair[2] = {0, 0};
	int			n = 0;
	int			i;

	*first = *second = 0;
	for (i = 0; i < relation->natts; i++)
	{
		if (!dv_relation_is_side(relation, &relation->attributes[i]))
			continue;
		if (n < 2)
			pair[n] = i + 1;
		n++;
	}
	/* with more than two candidates, the right pair cannot be determined */
	if (n != 2)
		return;
	*first = pair[0];
	*second = pair[1];
}

/*
 * Children of one parent share the names of junk columns, and PostgreSQL
 * requires that a name stand for the same column number in all of them.
 */
static char *
name_of_child(const char *name, AttrNumber attnum)
{
	return psprintf("%s_%d", name, attnum);
}

AttrNumber
dv_resultrel_junk(List *targetlist, const char *name, AttrNumber attnum)
{
	AttrNumber	found = ExecFindJunkAttributeInTlist(targetlist, name_of_child(name, attnum));

	return found != 0 ? found : ExecFindJunkAttributeInTlist(targetlist, name);
}

static void
add_column(PlannerInfo *root, Index rtindex, Relation rel, AttrNumber attnum, const char *name)
{
	Form_pg_attribute att;
	Var		   *var;

	if (attnum == 0)
		return;
	att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	var = makeVar(rtindex, attnum, att->atttypid, att->atttypmod, att->attcollation, 0);
	add_row_identity_var(root, var, rtindex,
						 (int) rtindex == root->parse->resultRelation ? name :
						 name_of_child(name, attnum));
}

static void
check_keys(const dv_relation *relation, AttrNumber id, AttrNumber partition, AttrNumber first)
{
	const char *missing = relation->primary_id.name;

	if (relation->type == DV_TABLE_INTERSECT)
	{
		if (first != 0)
			return;
		ereport(ERROR,
				(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
				 errmsg("foreign table \"%s\" does not have the two columns that identify its rows",
						relation->name),
				 errdetail("A row of intersect table \"%s\" consists of two ids, which are needed to find it.",
						   relation->table)));
	}
	if (id != 0)
	{
		if (relation->type != DV_TABLE_ELASTIC)
			return;
		missing = dv_option_text(relation->options, DV_OPT_PARTITION_ID);
		if (missing == NULL || partition != 0)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
			 errmsg("foreign table \"%s\" does not have the column that identifies its rows",
					relation->name),
			 errdetail("UPDATE and DELETE need column \"%s\" of table \"%s\".", missing,
					   relation->table),
			 errhint("Add the column with ALTER FOREIGN TABLE.")));
}

void
dataverseAddForeignUpdateTargets(PlannerInfo *root, Index rtindex, RangeTblEntry *target_rte,
								 Relation target_relation)
{
	const dv_relation *relation = dv_relation_open(RelationGetRelid(target_relation));
	const TriggerDesc *triggers = target_relation->trigdesc;
	AttrNumber	id;
	AttrNumber	partition;
	AttrNumber	first;
	AttrNumber	second;

	dv_resultrel_keys(relation, &id, &partition);
	dv_resultrel_pair(relation, &first, &second);
	check_keys(relation, id, partition, first);
	add_column(root, rtindex, target_relation, id, DV_JUNK_ID);
	add_column(root, rtindex, target_relation, partition, DV_JUNK_PARTITION);
	add_column(root, rtindex, target_relation, dv_resultrel_version(relation), DV_JUNK_VERSION);
	add_column(root, rtindex, target_relation, first, DV_JUNK_FIRST);
	add_column(root, rtindex, target_relation, second, DV_JUNK_SECOND);

	/*
	 * RETURNING needs the row from before the DELETE, but PostgreSQL requests it only for
	 * triggers
	 */
	if (root->parse->commandType == CMD_DELETE && root->parse->returningList != NIL &&
		(triggers == NULL || !(triggers->trig_delete_before_row || triggers->trig_delete_after_row)))
		add_row_identity_var(root, makeVar(rtindex, InvalidAttrNumber, RECORDOID, -1, InvalidOid, 0),
							 rtindex, DV_JUNK_ROW);
}

/*
 * Columns that are needed
 */

static bool
is_result_relation(PlannerInfo *root, const RelOptInfo *rel)
{
	/* for children of the result relation, it is not known which columns are needed above */
	return rel->reloptkind == RELOPT_BASEREL && (int) rel->relid == root->parse->resultRelation &&
		(root->parse->commandType == CMD_UPDATE || root->parse->commandType == CMD_DELETE);
}

static bool
is_whole_row(Node *node, Index rti)
{
	return IsA(node, Var) && ((Var *) node)->varno == (int) rti && ((Var *) node)->varattno == 0;
}

/* Returns true if triggers or generated columns need the row as it is, or was. */
static bool
row_is_looked_at(PlannerInfo *root, Index rti)
{
	Relation	rel = table_open(planner_rt_fetch(rti, root)->relid, NoLock);
	const TriggerDesc *t = rel->trigdesc;
	const		TupleConstr *constr = RelationGetDescr(rel)->constr;
	bool		update = root->parse->commandType == CMD_UPDATE;
	bool		looked_at = root->parse->withCheckOptions != NIL;

	if (t != NULL)
		looked_at = looked_at ||
			(update ? t->trig_update_before_row || t->trig_update_after_row :
			 t->trig_delete_before_row || t->trig_delete_after_row);
	if (constr != NULL)
		looked_at = looked_at || (update && constr->has_generated_stored);
	table_close(rel, NoLock);
	return looked_at;
}

/*
 * PostgreSQL builds the new row of an UPDATE from the old one, so it requests
 * the whole row.  However, only the columns of SET are written, and other
 * columns are needed only if an expression uses them; the rest may be null.
 */
static Bitmapset *
columns_used(PlannerInfo *root, const RelOptInfo *rel)
{
	Bitmapset  *used = NULL;
	Bitmapset  *others = NULL;
	int			whole = 0 - FirstLowInvalidHeapAttributeNumber;
	ListCell   *lc;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &used);
	if (!is_result_relation(root, rel) || !bms_is_member(whole, used) || row_is_looked_at(root, rel->relid))
		return used;
	/* only the final target list may have requested the whole row */
	if (bms_membership(rel->attr_needed[0 - rel->min_attr]) != BMS_SINGLETON ||
		!bms_is_member(0, rel->attr_needed[0 - rel->min_attr]))
		return used;
	foreach(lc, rel->reltarget->exprs)
	{
		if (!is_whole_row(lfirst(lc), rel->relid))
			pull_varattnos(lfirst(lc), rel->relid, &others);
	}
	foreach(lc, root->processed_tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!(tle->resjunk && tle->resname != NULL && strcmp(tle->resname, DV_JUNK_ROW) == 0))
			pull_varattnos((Node *) tle->expr, rel->relid, &others);
	}
	pull_varattnos((Node *) root->parse->returningList, rel->relid, &others);
	return others;
}

/*
 * To clear a polymorphic lookup, an UPDATE has to know to which table the
 * lookup refers, so it reads the column with the name of that table.
 */
static Bitmapset *
companions_of_set(PlannerInfo *root, const RelOptInfo *rel)
{
	Bitmapset  *companions = NULL;
	const dv_relation *relation;
	ListCell   *tle;
	ListCell   *colno;

	if (!is_result_relation(root, rel) || root->parse->commandType != CMD_UPDATE)
		return NULL;
	relation = dv_relation_open(planner_rt_fetch(rel->relid, root)->relid);
	forboth(tle, root->processed_tlist, colno, root->update_colnos)
	{
		const Expr *value = lfirst_node(TargetEntry, tle)->expr;
		const dv_attribute *a = dv_relation_attribute(relation, lfirst_int(colno));
		AttrNumber	companion;

		/* an owner cannot be null */
		if (a == NULL || a->is_table_name || !dv_type_is_lookup(a->column.type) ||
			a->column.type == DV_TYPE_OWNER ||
			(IsA(value, Const) && !((const Const *) value)->constisnull))
			continue;
		companion = dv_relation_table_name_of(relation, a);
		if (companion != 0)
			companions = bms_add_member(companions, companion - FirstLowInvalidHeapAttributeNumber);
	}
	return companions;
}

Bitmapset *
dv_resultrel_columns(PlannerInfo *root, const RelOptInfo *rel)
{
	return bms_add_members(columns_used(root, rel), companions_of_set(root, rel));
}

bool
dv_resultrel_ids_suffice(PlannerInfo *root, const RelOptInfo *rel, const dv_relation *relation,
						 List *conditions)
{
	Bitmapset  *used;
	List	   *condition;
	AttrNumber	id;
	AttrNumber	partition;
	int			i = -1;

	if (!is_result_relation(root, rel) || relation->type != DV_TABLE_STANDARD || list_length(conditions) != 1)
		return false;
	dv_resultrel_keys(relation, &id, &partition);
	condition = linitial(conditions);
	if ((dv_condition_op(condition) != DV_OP_EQ && dv_condition_op(condition) != DV_OP_IN) ||
		dv_condition_attnum(condition) != id ||
		!(dv_condition_flags(condition) & DV_CONDITION_EXACT))
		return false;
	used = dv_resultrel_columns(root, rel);
	while ((i = bms_next_member(used, i)) >= 0)
	{
		const dv_attribute *a = dv_relation_attribute(relation,
													  i + FirstLowInvalidHeapAttributeNumber);

		if (a == NULL || a->member != relation->attributes[id - 1].member)
			return false;
	}
	return true;
}

/*
 * Tables that are written
 */

/* Returns true if this is another foreign table for the same table of the service. */
static bool
is_same_table(const dv_relation *relation, Oid relid)
{
	ForeignTable *table;
	dv_options	options = {NIL, NIL};
	const char *name;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	table = GetForeignTable(relid);
	options.first = table->options;
	name = dv_option_text(options, DV_OPT_TABLE);
	return table->serverid == relation->serverid &&
		strcmp(name != NULL ? name : get_rel_name(relid), relation->table) == 0;
}

/* Returns true if the column of a row can change although only other rows are written. */
static bool
depends_on_others(const dv_attribute *a, CmdType command)
{
	/* a lookup becomes null when its row is deleted; its label is that row's name */
	if (dv_type_is_lookup(a->column.type) && (a->is_label || command == CMD_DELETE))
		return true;
	/* Dataverse may compute it from any rows */
	return a->unsorted;
}

/*
 * Returns true if the query reads a column of the table that may change when other rows are
 * updated.
 */
static bool
reads_of_others(const dv_relation *relation, const dv_permission * permission)
{
	int			i;

	/* from 16 on, the columns read from a partition are not known */
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *a = dv_relation_attribute(relation, i);

		if (a != NULL && depends_on_others(a, CMD_UPDATE) &&
			(permission == NULL ||
			 bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, permission->selectedCols) ||
			 bms_is_member(i - FirstLowInvalidHeapAttributeNumber, permission->selectedCols)))
			return true;
	}
	return false;
}

/*
 * Writing to one table can change rows of any other table of the service.
 * Deletions do: rows that refer to a deleted row are deleted as well, or their
 * reference becomes null.  Updates do if the query reads columns that depend on
 * other rows.
 */
static bool
is_changed_beside(const dv_relation *relation, CmdType command, Oid relid, bool of_others)
{
	return (command == CMD_DELETE || (command == CMD_UPDATE && of_others)) &&
		get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE &&
		GetForeignTable(relid)->serverid == relation->serverid;
}

/*
 * Returns true if this command, when it writes the other table, also writes or changes this one.
 */
static bool
is_written_by(const dv_relation *relation, CmdType command, Oid relid, bool of_others)
{
	if (relid == relation->relid || is_same_table(relation, relid) ||
		is_changed_beside(relation, command, relid, of_others))
		return true;
	/* rows of a partitioned table may be routed to this partition */
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE &&
		get_rel_relispartition(relation->relid) &&
		list_member_oid(get_partition_ancestors(relation->relid), relid);
}

static bool
is_written_in(const dv_relation *relation, const Plan *plan, EState *estate, bool of_others)
{
	const ModifyTable *node = (const ModifyTable *) plan;
	ListCell   *lc;

	if (plan == NULL || !IsA(plan, ModifyTable))
		return false;
	foreach(lc, node->resultRelations)
	{
		if (is_written_by(relation, node->operation,
						  exec_rt_fetch(lfirst_int(lc), estate)->relid, of_others))
			return true;
	}
	return node->rootRelation > 0 &&
		is_written_by(relation, node->operation,
					  exec_rt_fetch(node->rootRelation, estate)->relid, of_others);
}

bool
dv_resultrel_is_written(const dv_relation *relation, EState *estate)
{
	bool		of_others = false;
	ListCell   *lc;

	if (estate->es_plannedstmt == NULL)
		return false;
	foreach(lc, estate->es_range_table)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		of_others |= rte->relid == relation->relid &&
			reads_of_others(relation, dv_permission_of(estate, rte));
	}
	/* a modification is the whole plan, or that of a common table expression */
	foreach(lc, estate->es_plannedstmt->subplans)
	{
		if (is_written_in(relation, lfirst(lc), estate, of_others))
			return true;
	}
	return is_written_in(relation, estate->es_plannedstmt->planTree, estate, of_others);
}

/*
 * Returns the number of queries that write a table, among a query and its common table
 * expressions.
 */
static int
writers_in(const dv_relation *relation, Query *query, bool of_others)
{
	int			n = query->commandType != CMD_SELECT && query->resultRelation > 0 &&
	is_written_by(relation, query->commandType,
				  rt_fetch(query->resultRelation, query->rtable)->relid, of_others);
	ListCell   *lc;

	foreach(lc, query->cteList)
	{
		Node	   *inner = lfirst_node(CommonTableExpr, lc)->ctequery;

		if (IsA(inner, Query))
			n += writers_in(relation, (Query *) inner, of_others);
	}
	return n;
}

static bool
query_reads_of_others(const dv_relation *relation, const Query *query)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->relid == relation->relid &&
			reads_of_others(relation, dv_permission_in(query, rte)))
			return true;
	}
	return false;
}

bool
dv_resultrel_will_be_written(const dv_relation *relation, PlannerInfo *root)
{
	bool		of_others = query_reads_of_others(relation, root->parse);

	for (; root != NULL; root = root->parent_root)
	{
		int			rti = -1;

		if (writers_in(relation, root->parse, of_others) > 0)
			return true;
		/* children of the result relation */
		while ((rti = bms_next_member(root->all_result_relids, rti)) >= 0)
			if (is_written_by(relation, root->parse->commandType,
							  planner_rt_fetch(rti, root)->relid, of_others))
				return true;
	}
	return false;
}

bool
dv_resultrel_is_sole_target(PlannerInfo *root, const RelOptInfo *rel, const dv_relation *relation)
{
	bool		of_others = query_reads_of_others(relation, root->parse);

	if (!is_result_relation(root, rel))
		return false;
	while (root->parent_root != NULL)
		root = root->parent_root;
	return writers_in(relation, root->parse, of_others) == 1;
}

bool
dv_resultrel_may_be_written(PlannerInfo *root)
{
	for (; root != NULL; root = root->parent_root)
		if (root->parse->commandType != CMD_SELECT || root->parse->hasModifyingCTE)
			return true;
	return false;
}

Bitmapset *
dv_resultrel_changing(PlannerInfo *root)
{
	Bitmapset  *changing = NULL;

	for (root = root->parent_root; root != NULL; root = root->parent_root)
	{
		ListCell   *lc;

		foreach(lc, root->plan_params)
		{
			changing = bms_add_member(changing, ((PlannerParamItem *) lfirst(lc))->paramId);
		}
	}
	return changing;
}

/* Returns true if the UPDATE sets the column of the service. */
static bool
is_set(PlannerInfo *root, const dv_relation *relation, const char *column)
{
	ListCell   *lc;

	foreach(lc, root->update_colnos)
	{
		const dv_attribute *a = dv_relation_attribute(relation, lfirst_int(lc));

		if (a == NULL || strcmp(a->column.name, column) == 0)
			return true;
	}
	return false;
}

bool
dv_resultrel_stays_as_read(PlannerInfo *root, const RelOptInfo *rel, const dv_relation *relation,
						   List *clauses)
{
	Bitmapset  *used;
	int			i = -1;

	if (!is_result_relation(root, rel))
		return false;
	used = columns_used(root, rel);
	pull_varattnos((Node *) clauses, rel->relid, &used);
	while ((i = bms_next_member(used, i)) >= 0)
	{
		const dv_attribute *a = dv_relation_attribute(relation,
													  i + FirstLowInvalidHeapAttributeNumber);

		if (a == NULL || depends_on_others(a, root->parse->commandType) ||
			(root->parse->commandType == CMD_UPDATE && is_set(root, relation, a->column.name)))
			return false;
	}
	return true;
}

void
dv_resultrel_warn_of_lock(const dv_relation *relation, const EState *estate, Index rti)
{
	const		ExecRowMark *mark = NULL;

	if (estate->es_rowmarks != NULL && rti > 0)
		mark = estate->es_rowmarks[rti - 1];

	/*
	 * marks of UPDATE and DELETE, which do not lock rows of other tables either, have no strength
	 */
	if (mark == NULL || mark->strength == LCS_NONE)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("rows of foreign table \"%s\" are read, but not locked", relation->name),
			 errdetail("Dataverse does not hold locks until the end of a transaction: others can change the rows at any time."),
			 errhint("Set \"match_version\" to \"on\", and when you write the rows, compare column \"versionnumber\" with the value that was read.")));
}

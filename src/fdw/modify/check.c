/*
 * check.c
 *		Checks of new rows: WITH CHECK OPTION of views, and policies.
 *
 * A row that has been sent cannot be taken back, so it is checked first, in the form
 * in which the service will store it.  A statement is refused if its check uses a
 * value that only the service knows.  The executor's checks are not used, because
 * PostgreSQL checks views after the row has been written, and policies of a
 * partitioned table not at all if the partition is a foreign table.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/uuid.h"

#include "fdw/modify/modify.h"

static void
refuse_unknown(const dv_modify *m, AttrNumber attnum)
{
	const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
	bool		writable = dv_modify_plan_writes(attribute, m->command);

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot check rows of foreign table \"%s\" before they are written",
					m->relation->name),
			 errdetail("A check option or policy uses column \"%s\", whose value is left to Dataverse.",
					   attribute->name),
			 writable && m->command == CMD_INSERT ?
			 errhint("Insert a value into the column.") :
			 writable ? errhint("Set the column in the UPDATE.") :
			 errhint("Use columns in the check that the statement writes.")));
}

/*
 * Returns true if every row contains the value that the column will have.  A
 * trigger can change the state, on which the status depends.
 */
static bool
is_known(const dv_modify *m, const dv_modify_plan *plan, AttrNumber attnum)
{
	const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
	dv_type		type = attribute->column.type;

	if (list_member_int(plan->set, attnum))
		return attribute->is_table_name || dv_modify_plan_writes(attribute, m->command);
	return m->command == CMD_UPDATE && dv_return_is_known(m, plan, attnum) &&
		(plan->others == NIL || (type != DV_TYPE_STATE && type != DV_TYPE_STATUS));
}

/* Returns a slot, which the executor frees after the modification has ended. */
static TupleTableSlot *
new_slot(const dv_modify *m)
{
	MemoryContext old = MemoryContextSwitchTo(m->estate->es_query_cxt);
	TupleTableSlot *slot = ExecInitExtraTupleSlot(m->estate, m->desc, &TTSOpsVirtual);

	MemoryContextSwitchTo(old);
	return slot;
}

void
dv_check_prepare(dv_modify *m, const dv_modify_plan *plan, const ModifyTableState *mtstate)
{
	dv_modify_checks *checks = &m->checks;
	ListCell   *lc;

	checks->any = plan->has_checks;
	checks->policies = mtstate->operation == CMD_UPDATE ? WCO_RLS_UPDATE_CHECK : WCO_RLS_INSERT_CHECK;
	foreach(lc, plan->checked)
	{
		AttrNumber	attnum = lfirst_int(lc);

		if (m->command == CMD_INSERT && attnum == m->identity.id)
			checks->uses_id = true;
		else if (dv_row_leaves_out_null(m, plan, attnum))
			checks->not_null = lappend_int(checks->not_null, attnum);
		if (!is_known(m, plan, attnum) && !list_member_int(plan->others, attnum) &&
			!(checks->uses_id && attnum == m->identity.id))
			refuse_unknown(m, attnum);
	}
	checks->altered = dv_return_altered(m, plan->checked);
	if (checks->any)
		checks->slot = new_slot(m);
}

/* Gives the new row the id that is checked. */
static void
set_id(dv_modify *m, TupleTableSlot *slot)
{
	int			i = m->identity.id - 1;

	if (!slot->tts_isnull[i])
		return;
	if (!m->identity.make_ids)
		refuse_unknown(m, m->identity.id);
	slot->tts_values[i] = UUIDPGetDatum((pg_uuid_t *) dv_identity_reserve(m));
	slot->tts_isnull[i] = false;
}

/* Returns the row as the service will store it. */
static TupleTableSlot *
row_as_stored(dv_modify *m, TupleTableSlot *slot)
{
	TupleTableSlot *stored = m->checks.slot;

	if (!m->checks.uses_id && m->checks.altered == NIL)
		return slot;
	ExecCopySlot(stored, slot);
	stored->tts_tableOid = slot->tts_tableOid;
	(void) dv_return_alter(m, m->checks.altered, stored->tts_values, stored->tts_isnull);
	if (m->checks.uses_id)
		set_id(m, stored);
	return stored;
}

/* Takes the checks from the executor, which would repeat them after the row has been written. */
static void
evaluate(dv_modify *m, TupleTableSlot *slot)
{
	ResultRelInfo *rinfo = m->rinfo;

	if (rinfo->ri_WithCheckOptions != NIL)
		m->checks.options = rinfo->ri_WithCheckOptions;
	rinfo->ri_WithCheckOptions = m->checks.options;
	ExecWithCheckOptions(m->checks.policies, rinfo, slot, m->estate);
	ExecWithCheckOptions(WCO_VIEW_CHECK, rinfo, slot, m->estate);
	rinfo->ri_WithCheckOptions = NIL;
}

void
dv_check_row(dv_modify *m, TupleTableSlot *slot)
{
	ListCell   *lc;

	if (!m->checks.any)
		return;
	slot_getallattrs(slot);
	foreach(lc, m->checks.not_null)
		if (slot->tts_isnull[lfirst_int(lc) - 1])
			refuse_unknown(m, lfirst_int(lc));
	evaluate(m, row_as_stored(m, slot));
}

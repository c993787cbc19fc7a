/*-------------------------------------------------------------------------
 *
 * modify.c
 *		INSERT, UPDATE, DELETE and COPY: PostgreSQL's callbacks.
 *
 * A row that comes is encoded and taken by the writer, and handed back at
 * once: it is sent when its batch is full, while the next ones come.  So rows
 * that PostgreSQL has counted may still be refused; drain.c waits for them
 * before anybody looks, and puts the count right.
 *
 * Where somebody looks at each row as soon as it is written (triggers AFTER
 * ROW, WITH CHECK OPTION, RETURNING of what only the service knows), nothing
 * is left under way.
 *
 * The writer collects rows into batches by itself.  Core's way to do so
 * (ExecForeignBatchInsert) is not used: it copies each row, which costs a fifth
 * of all that a row costs here, and falls back to single rows for RETURNING,
 * triggers and volatile defaults.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "dataverse/address.h"
#include "dataverse/header.h"
#include "fdw/connection.h"
#include "fdw/modify.h"
#include "fdw/scan.h"
#include "fdw/setting.h"

/*
 * Beginning
 */

static const char *const *
headers_of(dv_options options)
{
	dv_write_manner manner = {
		.bypass = dv_option_choice(options, "bypass_custom_logic"),
		.bypass_flows = dv_option_bool(options, "bypass_flows"),
		.detect_duplicates = !dv_option_bool(options, "suppress_duplicate_detection")
	};

	return dv_headers_of_write(&manner);
}

/* The session and the writer: made when there is a row, so that those without cost nothing. */
static void
start_writing(dv_modify *m)
{
	MemoryContext old;
	dv_options	own = {NIL, NIL};
	dv_writer_spec spec = {0};

	if (m->writer != NULL)
		return;
	dv_scan_read_all(m->estate);
	dv_drain_visible(m->estate, m->relation);
	old = MemoryContextSwitchTo(m->context);
	m->started = dv_now();
	m->session = dv_connection_get(m->relation->serverid, m->userid);
	spec.session = m->session;
	spec.operation = m->operation;
	spec.destination.root = dv_session_root(m->session);
	spec.destination.table = m->relation->table;
	spec.destination.entity_set = m->relation->entity_set;
	spec.destination.primary_id = m->relation->primary_id.property;
	spec.destination.type = m->relation->type;
	spec.destination.tag = dv_address_encode(dv_option_text(m->options, "tag"));
	spec.destination.headers = headers_of(m->options);
	spec.destination.caller = dv_session_config_of(m->session)->caller_id;
	spec.batch_size = dv_option_int(m->options, "batch_size");
	spec.go_on = m->go_on;
	spec.ignore_duplicates = m->ignore;
	spec.ids_made = m->make_ids && !m->ids_given;
	spec.dry_run = dv_dry_run;
	/* the server's option of that name is for each application user, and the pool's matter */
	own.first = m->options.first;
	if (dv_option_given(own, "max_parallel"))
		spec.max_calls = dv_option_int(own, "max_parallel");
	spec.what = m->what;
	spec.progress = dv_relation_progress(m->relation, dv_operation_rule_of(m->operation)->name,
										 m->expected, m->context);
	spec.is_fed = dv_drain_is_fed;
	spec.wait_for_feed = dv_drain_feeding;
	spec.reject = dv_modify_file_refused;
	spec.fail = dv_modify_raise_refused;
	spec.arg = m;
	m->writer = dv_writer_create(&spec, m->context);
	MemoryContextSwitchTo(old);
}

/* A partition that rows are routed to has no place of its own among the tables of the query. */
static Oid
user_of(ResultRelInfo *rinfo, EState *estate)
{
	Oid			userid = dv_result_user(rinfo, estate);

	return OidIsValid(userid) ? userid : GetUserId();
}

static bool
has_trigger_after(const ResultRelInfo *rinfo, CmdType command, bool statements)
{
	const TriggerDesc *t = rinfo != NULL ? rinfo->ri_TrigDesc : NULL;

	if (t == NULL)
		return false;
	switch (command)
	{
		case CMD_INSERT:
			return t->trig_insert_after_row || (statements && t->trig_insert_after_statement);
		case CMD_UPDATE:
			return t->trig_update_after_row;
		default:
			return t->trig_delete_after_row;
	}
}

/* Modifications in WITH come in the order in which they can get rows of each other, the main one last. */
static int
rank_of(const ModifyTableState *mtstate)
{
	const List *subplans = mtstate->ps.state->es_subplanstates;
	ListCell   *lc;

	foreach(lc, subplans)
		if (lfirst(lc) == mtstate)
		return foreach_current_index(lc);
	/* one that is being begun will be put at the end */
	return list_length(subplans);
}

static dv_modify *
open_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, const dv_modify_plan *plan,
			List *targetlist)
{
	EState	   *estate = mtstate->ps.state;
	const ModifyTable *node = (const ModifyTable *) mtstate->ps.plan;
	MemoryContext context = AllocSetContextCreate(estate->es_query_cxt, "dataverse modification",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_modify  *m = palloc0(sizeof(*m));
	dv_relation *relation = dv_relation_open(RelationGetRelid(rinfo->ri_RelationDesc));

	m->estate = estate;
	m->context = context;
	m->row = AllocSetContextCreate(context, "dataverse row to write", ALLOCSET_DEFAULT_SIZES);
	m->relation = relation;
	m->options = dv_settings_over(relation->options);
	m->userid = user_of(rinfo, estate);
	m->desc = RelationGetDescr(rinfo->ri_RelationDesc);
	m->command = plan->command;
	m->operation = dv_modify_operation(relation, m->options, plan->command);
	m->ignore = plan->ignore || dv_option_is(m->options, "insert_mode", "ignore_duplicates");
	m->go_on = dv_option_is(m->options, "on_error", "continue");
	m->what = psprintf("%s foreign table \"%s\"", dv_operation_rule_of(m->operation)->phrase,
					   relation->name);
	m->server = GetForeignServer(relation->serverid)->servername;
	m->expected = -1;
	m->counts = mtstate->canSetTag;
	m->feeds = !m->counts && node != NULL && node->returningLists != NIL;
	m->rank = rank_of(mtstate);
	m->max_errors = dv_option_given(m->options, "max_errors") ?
		dv_option_int(m->options, "max_errors") : -1;
	/* rows that are refused or ignored must not be seen */
	m->one_by_one = has_trigger_after(rinfo, plan->command, false) ||
		(plan->returned != NIL && (m->ignore || m->go_on));
	dv_modify_prepare(m, plan, targetlist);
	dv_modify_prepare_return(m, plan, targetlist);
	if (plan->checked)
		m->one_by_one |= m->read_back;
	if (plan->command == CMD_UPDATE && plan->others != NIL)
		m->before = rinfo->ri_oldTupleSlot;
	dv_drain_register(m);
	MemoryContextSwitchTo(old);
	return m;
}

void
dataverseBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *private,
							int subplan_index, int eflags)
{
	Plan	   *below = outerPlan(mtstate->ps.plan);
	dv_modify_plan plan = {0};
	dv_modify  *m;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	plan.command = mtstate->operation;
	plan.given = dv_modify_list(private, DV_MODIFY_GIVEN);
	plan.others = dv_modify_list(private, DV_MODIFY_OTHERS);
	plan.returned = dv_modify_list(private, DV_MODIFY_RETURNED);
	plan.looked_at = dv_modify_list(private, DV_MODIFY_CHECKED);
	plan.checked = ((ModifyTable *) mtstate->ps.plan)->withCheckOptionLists != NIL;
	plan.ignore = dv_modify_int(private, DV_MODIFY_IGNORE);
	plan.repeats = dv_modify_int(private, DV_MODIFY_REPEATS);
	m = open_modify(mtstate, rinfo, &plan, plan.command == CMD_INSERT ? NIL : below->targetlist);
	m->expected = below->plan_rows;
	rinfo->ri_FdwState = m;
}

/* COPY, and rows that are routed to this partition. */
void
dataverseBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	const ModifyTable *node = (const ModifyTable *) mtstate->ps.plan;
	dv_relation *relation = dv_relation_open(RelationGetRelid(rinfo->ri_RelationDesc));
	Index		varno = rinfo->ri_RangeTableIndex;
	dv_modify_plan plan = {0};
	dv_modify  *m;

	if (node != NULL && node->operation == CMD_UPDATE && rinfo->ri_FdwState != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot route tuples into foreign table to be updated \"%s\"",
						relation->name)));
	dv_modify_plan_rows(relation, &plan);
	if (varno == 0)
		varno = mtstate->resultRelInfo->ri_RangeTableIndex;
	if (has_trigger_after(rinfo, CMD_INSERT, false))
		plan.returned = dv_modify_all_columns(relation);
	else
		plan.returned = dv_modify_columns_of(relation, (Node *)
											 list_concat_copy(rinfo->ri_returningList,
															  rinfo->ri_WithCheckOptions), varno);
	plan.checked = rinfo->ri_WithCheckOptions != NIL;
	plan.looked_at = dv_modify_columns_of(relation, (Node *) rinfo->ri_WithCheckOptions, varno);
	plan.ignore = node != NULL && node->onConflictAction == ONCONFLICT_NOTHING;
	m = open_modify(mtstate, rinfo, &plan, NIL);
	/* COPY fires triggers before it ends the insertion */
	if (node == NULL && (has_trigger_after(rinfo, CMD_INSERT, true) ||
						 has_trigger_after(rinfo->ri_RootResultRelInfo, CMD_INSERT, true)))
		m->one_by_one = true;
	rinfo->ri_FdwState = m;
}

/*
 * Rows
 */

static TupleTableSlot *
modify(ResultRelInfo *rinfo, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	dv_modify  *m = rinfo->ri_FdwState;
	TupleTableSlot *result = NULL;
	MemoryContext old;
	dv_modify_row row;
	int64		written;

	/* what a view does not allow is better not written, where that can be told before */
	if (m->checked_before)
		ExecWithCheckOptions(WCO_VIEW_CHECK, rinfo, slot, m->estate);
	start_writing(m);
	/* not cleared if waiting was given up */
	m->elsewhere = false;
	dv_modify_file_held(m);
	MemoryContextReset(m->row);
	old = MemoryContextSwitchTo(m->row);
	written = dv_writer_tally(m->writer)->acknowledged;
	if (dv_modify_write(m, slot, planSlot, &row))
	{
		bool		wait = m->one_by_one || m->read_back || (m->return_id && !row.has_id);

		if (wait)
			dv_writer_drain(m->writer);
		if (!wait || dv_writer_tally(m->writer)->acknowledged > written)
			result = dv_modify_return(m, slot, planSlot, &row);
	}
	MemoryContextSwitchTo(old);
	if (result != NULL)
		m->returned++;
	return result;
}

TupleTableSlot *
dataverseExecForeignInsert(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot,
						   TupleTableSlot *planSlot)
{
	return modify(rinfo, slot, planSlot);
}

TupleTableSlot *
dataverseExecForeignUpdate(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot,
						   TupleTableSlot *planSlot)
{
	return modify(rinfo, slot, planSlot);
}

TupleTableSlot *
dataverseExecForeignDelete(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot,
						   TupleTableSlot *planSlot)
{
	return modify(rinfo, slot, planSlot);
}

/*
 * End
 */

static void
report_summary(const dv_modify *m)
{
	const dv_tally *l = dv_writer_tally(m->writer);
	double		seconds = (double) (dv_now() - m->started) / DV_SECOND;

	ereport(NOTICE,
			(errmsg("%s: %lld rows, %lld batches, %lld requests, %lld repeated, %lld throttles, %.1f s, %.0f rows/s",
					m->what, (long long) l->acknowledged, (long long) l->batches,
					(long long) l->requests, (long long) l->repeated, (long long) l->throttles,
					seconds, l->acknowledged / Max(seconds, 0.000001))));
}

static void
end_modify(ResultRelInfo *rinfo)
{
	dv_modify  *m = rinfo->ri_FdwState;

	if (m == NULL)
		return;
	rinfo->ri_FdwState = NULL;
	if (m->writer != NULL)
	{
		dv_drain(m);
		dv_modify_report_refused(m);
		if (dv_summary)
			report_summary(m);
	}
	MemoryContextDelete(m->context);
}

void
dataverseEndForeignModify(EState *estate, ResultRelInfo *rinfo)
{
	end_modify(rinfo);
}

void
dataverseEndForeignInsert(EState *estate, ResultRelInfo *rinfo)
{
	end_modify(rinfo);
}

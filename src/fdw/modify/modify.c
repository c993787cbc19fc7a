/*
 * modify.c
 *		INSERT, UPDATE, DELETE, and COPY: the FDW callbacks.
 *
 * A row is encoded, passed to the writer, and returned at once; it is sent
 * when its batch is full, while PostgreSQL continues with the next rows.  The
 * service may therefore refuse rows that PostgreSQL has already counted.
 * drain.c waits for them before the count is used, and corrects it.
 *
 * If AFTER ROW triggers need the row as soon as it is written, each row is settled
 * before the next one is taken.  If RETURNING must wait for the row,
 * pending.c keeps it meanwhile.
 *
 * The writer collects rows into batches itself.  ExecForeignBatchInsert is not
 * used, because core copies each row for it, which takes a fifth of our total time
 * for a row, falls back to single rows for triggers and volatile defaults, and
 * evaluates no RETURNING for the rows of a batch (15 to 19).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/rel.h"

#include "client/trouble.h"
#include "compat.h"
#include "dataverse/address.h"
#include "dataverse/header.h"
#include "fdw/connection.h"
#include "fdw/modify/modify.h"
#include "fdw/modify/rights.h"
#include "fdw/option.h"
#include "fdw/result_relation.h"
#include "fdw/scan/scan.h"
#include "fdw/setting.h"
#include "net/text.h"

/*
 * Beginning
 */

static const char *const *
headers_of(dv_options options)
{
	dv_write_manner manner = {
		.bypass = dv_option_choice(options, DV_OPT_BYPASS_CUSTOM_LOGIC),
		.bypass_flows = dv_option_bool(options, DV_OPT_BYPASS_FLOWS),
		.detect_duplicates = !dv_option_bool(options, DV_OPT_SUPPRESS_DUPLICATE_DETECTION)
	};

	return dv_headers_of_write(&manner);
}

static dv_writer *
new_writer(dv_modify *m)
{
	dv_options	own = {NIL, NIL};
	dv_writer_spec spec = {0};

	spec.session = m->session;
	spec.operation = m->operation;
	spec.destination.root = dv_session_root(m->session);
	spec.destination.table = m->relation->table;
	spec.destination.entity_set = m->relation->entity_set;
	spec.destination.primary_id = m->relation->primary_id.property;
	spec.destination.type = m->relation->type;
	spec.destination.tag =
		dv_address_encode(dv_text_to_utf8(dv_option_text(m->options, DV_OPT_TAG)));
	spec.destination.headers = headers_of(m->options);
	spec.destination.match_version = m->identity.version_junk != 0;
	spec.destination.caller = dv_session_config_of(m->session)->caller_id;
	spec.batch_size = dv_option_int(m->options, DV_OPT_BATCH_SIZE);
	spec.go_on = m->refusal.go_on;
	spec.ignore_duplicates = m->ignore;
	spec.ids_made = m->identity.ids_made || (m->identity.make_ids && !m->identity.ids_supplied);
	spec.columns = dv_stored_columns(m, &spec.ncolumns);
	if (m->identity.partition.attnum != 0)
		spec.partition = dv_relation_attribute(m->relation, m->identity.partition.attnum)->column.property;
	if (dv_relation_column_of(m->relation, "modifiedon") != 0)
		spec.modified = "modifiedon";
	spec.dry_run = dv_dry_run;
	/* the server's option of this name limits each application user; the pool applies it */
	own.first = m->options.first;
	if (dv_option_given(own, DV_OPT_MAX_PARALLEL))
		spec.max_calls = dv_option_int(own, DV_OPT_MAX_PARALLEL);
	spec.what = m->what;
	spec.relid = m->relation->relid;
	spec.roleid = m->refusal.roleid;
	spec.progress = dv_relation_progress(m->relation, dv_operation_rule_of(m->operation)->name,
										 m->expected, m->context);
	spec.is_fed = dv_drain_is_fed;
	spec.wait_for_feed = dv_drain_feeding;
	spec.reject = dv_refused_file;
	spec.settled = dv_pending_settled;
	spec.fail = dv_refused_raise;
	spec.arg = m;
	return dv_writer_create(&spec, m->context);
}

/*
 * For foreign tables, the executor copies each row into a heap tuple, which we would only take
 * apart again.  It does not if the rows that the plan returns and those of the table are in slots of
 * the same kind, as for tables, and nearly all plans return virtual ones.  The slot for the copy was
 * created for the first row, so this takes effect from the second one on.  Rows that someone else
 * looks at (triggers, RETURNING) stay as they are.
 */
static void
forgo_heap_tuples(const dv_modify *m)
{
	ResultRelInfo *rinfo = m->rinfo;

	if (m->command == CMD_INSERT && rinfo->ri_newTupleSlot != NULL &&
		rinfo->ri_projectNew == NULL && rinfo->ri_projectReturning == NULL &&
		rinfo->ri_TrigDesc == NULL)
		rinfo->ri_newTupleSlot = ExecInitExtraTupleSlot(m->estate, m->desc, &TTSOpsVirtual);
}

/* The session and the writer are created for the first row: without rows they cost nothing. */
static void
start_writing(dv_modify *m)
{
	MemoryContext old;

	if (m->writer != NULL)
		return;

	/*
	 * PostgreSQL admits changes of temporary tables, as if the foreign table were one of its own
	 */
	if (XactReadOnly)
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot write to foreign table \"%s\" in a read-only transaction",
						m->relation->name)));
	dv_scan_read_all(m->estate);
	dv_drain_visible(m->estate, m->relation);
	old = MemoryContextSwitchTo(m->context);
	m->started = dv_now();
	m->session = dv_connection_get(m->relation->serverid, m->userid);
	m->writer = new_writer(m);
	MemoryContextSwitchTo(old);
	forgo_heap_tuples(m);
}

/* A partition to which rows are routed has no range table entry of its own. */
static Oid
user_of(ResultRelInfo *rinfo, EState *estate)
{
	Oid			userid = dv_result_user(rinfo, estate);

	return OidIsValid(userid) ? userid : GetUserId();
}

/*
 * The plan has made the scan read versions, or not.  A change of settings invalidates plans, but those
 * of a run also depend on the depth of triggers, and count only for certain roles, of which
 * a plan knows nothing.
 */
static void
check_match_version(const dv_modify *m, const dv_modify_plan *plan)
{
	bool		wanted = plan->command != CMD_INSERT && dv_resultrel_version(m->relation) != 0;

	if (wanted == plan->match_version)
		return;
	ResetPlanCache();
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"match_version\" of foreign table \"%s\" has changed since the statement was planned",
					m->relation->name),
			 errhint("Run the statement again.")));
}

static dv_modify *
open_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, const dv_modify_plan *plan,
			List *targetlist)
{
	EState	   *estate = mtstate->ps.state;
	MemoryContext context = AllocSetContextCreate(estate->es_query_cxt, "dataverse modification",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_modify  *m = palloc0(sizeof(*m));
	dv_relation *relation = dv_relation_open(RelationGetRelid(rinfo->ri_RelationDesc));

	m->estate = estate;
	m->context = context;
	m->row_context = AllocSetContextCreate(context, "dataverse row to write", ALLOCSET_DEFAULT_SIZES);
	m->rinfo = rinfo;
	m->relation = relation;
	m->options = dv_settings_over(relation->options, relation->relid);
	m->userid = user_of(rinfo, estate);
	m->desc = RelationGetDescr(rinfo->ri_RelationDesc);
	m->command = plan->command;
	dv_relation_check(relation, plan->signature);
	dv_modify_plan_check(relation, m->options, plan->command, plan->ignore);
	m->operation = dv_modify_plan_operation(relation, m->options, plan->command);
	m->ignore = plan->ignore || (plan->command == CMD_INSERT &&
								 dv_option_choice(m->options, DV_OPT_INSERT_MODE) == DV_INSERT_IGNORE_DUPLICATES);
	m->what = psprintf("%s foreign table \"%s\"", dv_operation_rule_of(m->operation)->phrase,
					   relation->name);
	m->expected = -1;
	dv_refused_prepare(m);
	dv_identity_prepare(m, plan, targetlist);
	dv_rights_check(m, plan);
	check_match_version(m, plan);
	dv_settings_consume(relation->relid, context);
	dv_row_prepare(m, plan);
	dv_return_prepare(m, plan, targetlist);
	dv_check_prepare(m, plan, mtstate);
	dv_pending_prepare(m, plan, mtstate);
	/* rows that cannot be kept: RETURNING must not return those that are refused or ignored */
	m->one_by_one = plan->at_once || (plan->returned != NIL && (m->ignore || m->refusal.go_on));
	dv_drain_register(m, mtstate);
	MemoryContextSwitchTo(old);
	return m;
}

void
dataverseBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *private,
							int subplan_index, int eflags)
{
	Plan	   *below = outerPlan(mtstate->ps.plan);
	dv_modify_plan plan;
	dv_modify  *m;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	dv_modify_plan_unpack(private, &plan);
	m = open_modify(mtstate, rinfo, &plan, plan.command == CMD_INSERT ? NIL : below->targetlist);
	m->expected = below->plan_rows;
	rinfo->ri_FdwState = m;
}

/* For COPY, and for rows that are routed to this partition. */
void
dataverseBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	const ModifyTable *node = (const ModifyTable *) mtstate->ps.plan;
	dv_relation *relation = dv_relation_open(RelationGetRelid(rinfo->ri_RelationDesc));
	dv_modify_plan plan;
	dv_modify  *m;

	if (node != NULL && node->operation == CMD_UPDATE && rinfo->ri_FdwState != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot route tuples into foreign table to be updated \"%s\"",
						relation->name)));
	dv_modify_plan_rows(mtstate, rinfo, relation, &plan);
	m = open_modify(mtstate, rinfo, &plan, NIL);
	m->refusal.routed = rinfo->ri_RootResultRelInfo != NULL;
	rinfo->ri_FdwState = m;
}

/*
 * Rows
 */

/* Returns true if rows that cannot be kept must be settled before they are returned. */
static bool
waits(const dv_modify *m)
{
	return m->one_by_one || m->returned.read != NIL ||
		(m->returned.new_id && !m->identity.make_ids);
}

static TupleTableSlot *
return_at_once(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot,
			   const dv_modify_row *row)
{
	dv_modify_written w = {.row = *row};
	bool		is_copy;

	if (waits(m))
	{
		dv_writer_drain(m->writer);
		if (!m->outcome.written)
			return NULL;
	}
	slot = dv_return_known(m, slot, planSlot);
	if (m->command == CMD_DELETE)
		return slot;
	dv_return_learn(m, &w.row, &m->outcome);
	if (m->returned.read != NIL)
	{
		w.tuple = ExecFetchSlotHeapTuple(slot, false, &is_copy);
		dv_read_back(m, list_make1(&w), m->row_context);
	}
	return dv_return_row(m, slot, &w);
}

/*
 * Returns the row if, as far as is known, it has been written.  If rows are
 * kept, returns a row when some of the kept ones can be returned.
 */
static TupleTableSlot *
write_row(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	dv_pending_row *kept = dv_pending_begin(m, planSlot);
	dv_modify_row row;

	memset(&m->outcome, 0, sizeof(m->outcome));
	dv_writer_set_owner(m->writer, kept != NULL ? (void *) kept : waits(m) ? &m->outcome : NULL);
	if (!dv_row_write(m, slot, planSlot, &row))
	{
		if (kept != NULL)
			dv_pending_forget(kept);
		return NULL;
	}
	if (kept == NULL)
		return return_at_once(m, slot, planSlot, &row);
	return dv_pending_keep(kept, slot, planSlot, &row) ? slot : NULL;
}

TupleTableSlot *
dataverseExecForeignModify(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot,
						   TupleTableSlot *planSlot)
{
	dv_modify  *m = rinfo->ri_FdwState;
	TupleTableSlot *result;
	MemoryContext old;

	dv_check_row(m, slot);
	start_writing(m);
	dv_drain_resume(m);
	MemoryContextReset(m->row_context);
	old = MemoryContextSwitchTo(m->row_context);
	result = write_row(m, slot, planSlot);
	MemoryContextSwitchTo(old);
	if (result != NULL)
		m->drain.counted++;
	return result;
}

/*
 * End
 */

static void
report_summary(const dv_modify *m)
{
	const dv_tally *l = dv_writer_tally(m->writer);
	int64		written = dv_writer_written(m->writer);
	double		seconds = (double) (dv_now() - m->started) / DV_SECOND;
	const char *causes = l->repeated == 0 ? "" :
	psprintf(" (%s)", dv_trouble_causes(l->repeated, l->causes));

	ereport(NOTICE,
			(errmsg("%s: %lld %s, %lld %s, %lld %s, %lld repeated%s, %lld throttled, %.1f s, %.0f rows/s",
					m->what, (long long) written, ngettext("row", "rows", written),
					(long long) l->batches, ngettext("batch", "batches", l->batches),
					(long long) l->requests, ngettext("request", "requests", l->requests),
					(long long) l->repeated, causes, (long long) l->throttles,
					seconds, written / Max(seconds, 0.000001))));
}

/* The command tag of a dry run looks like any other. */
static void
report_dry_run(const dv_modify *m)
{
	int64		rows = dv_writer_written(m->writer);

	ereport(NOTICE,
			(errmsg_plural("%s: \"dataverse_fdw.dry_run\" is on; %lld row was encoded but not sent",
						   "%s: \"dataverse_fdw.dry_run\" is on; %lld rows were encoded but not sent",
						   (unsigned long) rows, m->what, (long long) rows)));
}

void
dataverseEndForeignModify(EState *estate, ResultRelInfo *rinfo)
{
	dv_modify  *m = rinfo->ri_FdwState;

	if (m == NULL)
		return;
	rinfo->ri_FdwState = NULL;
	if (m->writer != NULL)
	{
		dv_drain(m);
		dv_refused_report(m);
		if (dv_writer_is_dry(m->writer))
			report_dry_run(m);
		if (dv_summary)
			report_summary(m);
	}
	MemoryContextDelete(m->context);
}

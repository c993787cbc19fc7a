/*
 * refused.c
 *		Refused rows: each of them is raised as an error or filed.
 *
 * With on_error = abort, the first refused row ends the statement, and the
 * error reports what happened to the other rows, because rows that have been
 * written stay written.  With on_error = continue, refused rows are filed, and
 * one WARNING at the end reports their number.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"

#include "client/doubts.h"
#include "client/ledger.h"
#include "client/trouble.h"
#include "dataverse/address.h"
#include "dataverse/blame.h"
#include "fdw/modify/modify.h"
#include "fdw/modify/rejects.h"
#include "net/text.h"

/* If a statement fails that has filed refused rows, the error quotes this many of them, */
#define FIRST_REFUSALS 5
/* and this many bytes of the message of each. */
#define MESSAGE_MAX 200

/*
 * What may be filed
 *
 * Defaults and triggers may have filled columns that the role can write but not
 * read.  A reject contains the values that the role could read or has supplied
 * itself; the others are computed anew when the row is retried.
 */

static bool
may_read(Oid roleid, Relation rel, const char *column)
{
	Oid			relid = RelationGetRelid(rel);
	AttrNumber	attnum = get_attnum(relid, column);

	return pg_class_aclcheck(relid, roleid, ACL_SELECT) == ACLCHECK_OK ||
		(attnum != InvalidAttrNumber &&
		 pg_attribute_aclcheck(relid, attnum, roleid, ACL_SELECT) == ACLCHECK_OK);
}

/*
 * Returns the columns that the statement names, provided that no trigger can have changed their
 * values.
 */
static const Bitmapset *
named_columns(const dv_modify *m)
{
	const TriggerDesc *t = m->rinfo->ri_TrigDesc;

	if (m->command == CMD_UPDATE)
		return t != NULL && t->trig_update_before_row ? NULL : ExecGetUpdatedCols(m->rinfo, m->estate);
	return t != NULL && t->trig_insert_before_row ? NULL : ExecGetInsertedCols(m->rinfo, m->estate);
}

/* Returns true for columns that identify an existing row, which are in row_id anyway. */
static bool
is_identity(const dv_modify *m, AttrNumber attnum)
{
	const dv_modify_identity *identity = &m->identity;

	return attnum == identity->id || attnum == identity->partition.attnum ||
		attnum == identity->sides[0].attnum || attnum == identity->sides[1].attnum;
}

static Bitmapset *
hidden_columns(const dv_modify *m)
{
	MemoryContext old = MemoryContextSwitchTo(m->context);
	Relation	rel = m->rinfo->ri_RelationDesc;
	Relation	root = m->rinfo->ri_RootResultRelInfo != NULL ?
	m->rinfo->ri_RootResultRelInfo->ri_RelationDesc : rel;
	const Bitmapset *named = named_columns(m);
	Bitmapset  *hidden = NULL;
	int			i;

	for (i = 1; i <= m->relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(m->relation, i);

		if (attribute != NULL && !is_identity(m, i) &&
			!bms_is_member(i - FirstLowInvalidHeapAttributeNumber, named) &&
			!may_read(m->refusal.roleid, rel, attribute->name) &&
			!may_read(m->refusal.roleid, root, attribute->name))
			hidden = bms_add_member(hidden, i);
	}
	MemoryContextSwitchTo(old);
	return hidden;
}

void
dv_refused_prepare(dv_modify *m)
{
	m->refusal.roleid = GetUserId();
	m->refusal.go_on = dv_option_choice(m->options, DV_OPT_ON_ERROR) == DV_ON_ERROR_CONTINUE;
	m->refusal.most = dv_option_given(m->options, DV_OPT_MAX_ERRORS) ?
		dv_option_int(m->options, DV_OPT_MAX_ERRORS) : -1;
}

/*
 * Casts to JSON are functions of users, which may write to the same table, and read it.
 * Therefore this must be called while no row is begun, and before the fault is set.
 */
static Datum
as_json(dv_modify *m, TupleTableSlot *slot)
{
	Datum		row;

	BlessTupleDesc(slot->tts_tupleDescriptor);
	row = DirectFunctionCall1(row_to_json, ExecFetchSlotHeapTupleDatum(slot));
	dv_drain_resume(m);
	return row;
}

void
dv_refused_here(dv_modify *m, TupleTableSlot *slot, const dv_modify_fault *fault)
{
	dv_error	error = {0};
	dv_failure	failure = {.error = &error};

	error.verdict = DV_VERDICT_REFUSED;
	error.retry_after = -1;
	error.code = "";
	error.message = fault->misfit.message;
	error.sqlstate = fault->misfit.sqlstate;
	dv_writer_refuse_row(m->writer, &failure);
	if (m->refusal.go_on && m->command != CMD_DELETE)
		m->refusal.row = as_json(m, slot);
	m->refusal.fault = fault;
	m->refusal.slot = slot;
	dv_writer_file_row(m->writer, &failure);
	m->refusal.fault = NULL;
	m->refusal.slot = NULL;
}

/*
 * Raising
 */

/* "rows 301 to 400", or "row 7 (id)" */
static const char *
rows_of(const dv_failure *failure)
{
	if (failure->first != failure->last)
		return psprintf("rows %lld to %lld", (long long) failure->first, (long long) failure->last);
	if (failure->id != NULL)
		return psprintf("row %lld (%s)", (long long) failure->first, dv_id_text(failure->id));
	return psprintf("row %lld", (long long) failure->first);
}

static void
append_row(StringInfo detail, const dv_modify *m, const dv_failure *failure)
{
	const char *rows = rows_of(failure);

	if (failure->then)
		appendStringInfo(detail, "The update that completes %s was refused; the row itself was written.", rows);
	else if (m->refusal.fault == NULL && failure->error->meaning == DV_MEANING_PRIVILEGE)
		appendStringInfo(detail, "The application user is at fault, not a row.  The request that failed was to write %s.", rows);
	else if (m->refusal.fault == NULL && !dv_error_is_about_rows(failure->error))
		appendStringInfo(detail, "No row was refused.  The request that failed was to write %s.", rows);
	else if (failure->first != failure->last)
		appendStringInfo(detail, "The refused row is one of %s.", rows);
	else
		appendStringInfo(detail, "Refused row: %s.%s", rows + strlen("row "),
						 failure->error->meaning == DV_MEANING_CHANGED && m->identity.version_junk != 0 ?
						 "  It has been changed since this statement read it." : "");
	if (m->refusal.routed)
		appendStringInfo(detail, "  Only rows for partition \"%s\" are counted.", m->relation->name);
}

/* Reports what stays in Dataverse even if the transaction is rolled back. */
static void
append_outcome(StringInfo detail, const dv_modify *m, const dv_failure *failure)
{
	const char *outcome = dv_ledger_sentence("statement", dv_writer_stays(m->writer), failure->in_doubt);

	if (outcome != NULL)
		appendStringInfo(detail, "\n%s", outcome);
}

static bool
is_one_too_many(const dv_modify *m)
{
	return m->refusal.most >= 0 && m->refusal.rows > m->refusal.most;
}

/*
 * Quotes the first of the rows that were filed: their entries are rolled back with the statement.
 */
static void
append_filed(StringInfo detail, const dv_modify *m)
{
	int64		filed = m->refusal.rows - is_one_too_many(m);
	ListCell   *lc;

	if (filed > 0 && !is_one_too_many(m))
		appendStringInfo(detail, ngettext("\n%lld row was refused earlier.  dataverse.rejects does not contain it, because it is rolled back with the statement.",
										  "\n%lld rows were refused earlier.  dataverse.rejects does not contain them, because it is rolled back with the statement.",
										  filed), (long long) filed);
	foreach(lc, m->refusal.first)
		appendStringInfo(detail, "\n%s", (const char *) lfirst(lc));
	if (filed > list_length(m->refusal.first))
		appendStringInfoString(detail, "\n...");
}

static const char *
limit_hint(const dv_modify *m)
{
	long long	most = m->refusal.most;

	if (most == 0)
		return "Option \"max_errors\" is 0, so the first refused row ends the statement.";
	return psprintf(ngettext("More than %lld row was refused (option \"max_errors\").  dataverse.rejects does not contain the refused rows, because it is rolled back with the statement.",
							 "More than %lld rows were refused (option \"max_errors\").  dataverse.rejects does not contain the refused rows, because it is rolled back with the statement.",
							 (unsigned long) most), most);
}

static const char *
server_name(const dv_modify *m)
{
	return GetForeignServer(m->relation->serverid)->servername;
}

void
dv_refused_raise(void *arg, const dv_failure *failure)
{
	const dv_modify *m = arg;
	const dv_error *error = failure->error;
	const char *service = dv_error_detail(error);
	const char *hint = error->hint;
	const dv_attribute *attribute;
	StringInfoData detail;
	dv_blame	blame;

	if (is_one_too_many(m))
		hint = limit_hint(m);
	else if (failure->in_doubt > 0)
		hint = hint == NULL ? DV_DOUBTS_HINT : psprintf("%s\n%s", DV_DOUBTS_HINT, hint);
	/* a service that is too busy has not looked at the row */
	dv_blame_read(error->verdict == DV_VERDICT_THROTTLED ? "" : error->message, &blame);
	attribute = dv_relation_attribute(m->relation, m->refusal.fault != NULL ?
									  m->refusal.fault->attnum :
									  dv_relation_column_of(m->relation, blame.column));

	initStringInfo(&detail);
	append_row(&detail, m, failure);
	if (service[0] != '\0')
		appendStringInfo(&detail, "  %s", service);
	append_filed(&detail, m);
	append_outcome(&detail, m, failure);
	ereport(ERROR,
			(errcode(blame.null ? ERRCODE_NOT_NULL_VIOLATION : error->sqlstate),
			 errmsg("could not %s on server \"%s\": %s", m->what, server_name(m),
					dv_text_told(error->message)),
			 errdetail_internal("%s", dv_text_told(detail.data)),
			 hint != NULL ? errhint("%s", hint) : 0,
			 err_generic_string(PG_DIAG_SCHEMA_NAME,
								get_namespace_name(get_rel_namespace(m->relation->relid))),
			 err_generic_string(PG_DIAG_TABLE_NAME, m->relation->name),
			 attribute != NULL ? err_generic_string(PG_DIAG_COLUMN_NAME, attribute->name) : 0,
			 blame.key[0] != '\0' ?
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, blame.key) :
			 dv_trouble_limit(error, dv_session_config_of(m->session))));
}

/*
 * Filing
 */

/*
 * Returns the columns that the statement sets, and those that identify the row, if they are not
 * null.
 */
static List *
columns_of(const dv_modify *m)
{
	const dv_modify_identity *identity = &m->identity;
	const dv_modify_values *values = &m->values;
	List	   *others = list_make4_int(identity->existing_id, identity->partition.attnum,
										identity->sides[0].attnum, identity->sides[1].attnum);
	List	   *columns = NIL;
	ListCell   *lc;
	int			i;

	for (i = 0; i < values->ncolumns; i++)
		if (!values->columns[i].if_changed)
			columns = lappend_int(lappend_int(columns, values->columns[i].attnum),
								  values->columns[i].type_attnum);
	for (i = 0; i < values->nfollowers; i++)
		others = lappend_int(others, values->followers[i].column.attnum);
	for (i = 0; i < identity->nkeys; i++)
		others = lappend_int(others, identity->keys[i].attnum);
	foreach(lc, others)
	{
		if (lfirst_int(lc) != 0 && !m->refusal.slot->tts_isnull[lfirst_int(lc) - 1])
			columns = lappend_int(columns, lfirst_int(lc));
	}
	return columns;
}

/*
 * Keeps a refused row to file it later.  Functions may wait for rows of the
 * statement that calls them (drain.c).  The rows that are refused meanwhile
 * must not be rolled back with a savepoint of the function, nor be filed for
 * another user.
 */
static void
hold(dv_modify *m, const dv_reject *reject)
{
	MemoryContext old = MemoryContextSwitchTo(m->context);
	dv_reject  *copy = palloc(sizeof(*copy));

	*copy = *reject;
	copy->message = pstrdup(reject->message);
	if (reject->code != NULL)
		copy->code = pstrdup(reject->code);
	if (reject->object != NULL)
		copy->object = pnstrdup(reject->object, reject->object_len);
	if (reject->address != NULL)
		copy->address = pstrdup(reject->address);
	if (reject->id != NULL)
		copy->id = memcpy(palloc(DV_ID_LEN), reject->id, DV_ID_LEN);
	m->refusal.held = lappend(m->refusal.held, copy);
	MemoryContextSwitchTo(old);
}

void
dv_refused_file_held(dv_modify *m)
{
	ListCell   *lc;

	foreach(lc, m->refusal.held)
		dv_rejects_file(m->relation, m->refusal.roleid, lfirst(lc));
	list_free_deep(m->refusal.held);
	m->refusal.held = NIL;
}

/*
 * Returns true if it is not known whether this statement or another client has written the
 * existing row.
 */
static bool
is_doubtful(const dv_failure *failure)
{
	return failure->error->sqlstate == ERRCODE_T_R_STATEMENT_COMPLETION_UNKNOWN;
}

/* Keeps the text of one of the first refusals for append_filed(). */
static void
keep_first(dv_modify *m, const dv_failure *failure)
{
	MemoryContext old;
	const char *message = failure->error->message;

	if (list_length(m->refusal.first) >= FIRST_REFUSALS)
		return;
	old = MemoryContextSwitchTo(m->context);
	m->refusal.first = lappend(m->refusal.first,
							   psprintf("%s%s: %.*s",
										failure->then ? "Refused update that completes row " :
										is_doubtful(failure) ? "Row in doubt: " : "Refused row: ",
										rows_of(failure) + strlen("row "),
										pg_mbcliplen(message, strlen(message), MESSAGE_MAX), message));
	MemoryContextSwitchTo(old);
}

bool
dv_refused_file(void *arg, const dv_failure *failure)
{
	dv_modify  *m = arg;
	dv_reject	reject = {0};

	m->refusal.rows++;
	m->refusal.unfinished += failure->then;
	m->refusal.doubtful += is_doubtful(failure);
	if (is_one_too_many(m))
		return false;
	keep_first(m, failure);
	if (m->refusal.rows == 1)
		m->refusal.hidden = hidden_columns(m);
	reject.hidden = m->refusal.hidden;
	reject.operation = dv_operation_rule_of(failure->then ? DV_UPDATE : m->operation)->name;
	reject.ordinal = failure->first;
	reject.id = failure->id;
	reject.sqlstate = failure->error->sqlstate;
	reject.message = failure->error->message;
	if (m->refusal.fault != NULL && m->command != CMD_DELETE)
	{
		/* its JSON object is incomplete: it ends at the value that could not be encoded */
		reject.row = m->refusal.row;
		reject.columns = columns_of(m);
	}
	else if (m->refusal.fault == NULL)
	{
		reject.code = failure->error->code;
		reject.object = failure->object;
		reject.object_len = failure->object_len;
		reject.address = failure->address;
	}
	if (m->drain.elsewhere)
		hold(m, &reject);
	else
	{
		dv_refused_file_held(m);
		dv_rejects_file(m->relation, m->refusal.roleid, &reject);
	}
	return true;
}

/* Reports a number of rows in a WARNING, with a hint where to find more about them. */
static void
warn(const dv_modify *m, const char *what, const char *detail, const char *hint)
{
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("%s: could not %s on server \"%s\"", what, m->what, server_name(m)),
			 detail != NULL ? errdetail_internal("%s", detail) : 0,
			 errhint("%s", hint)));
}

void
dv_refused_report(const dv_modify *m)
{
	const dv_modify_refusal *r = &m->refusal;
	int64		refused = r->rows - r->unfinished - r->doubtful;

	if (refused > 0)
		warn(m, psprintf(ngettext("%lld row was refused", "%lld rows were refused", refused),
						 (long long) refused),
			 NULL, "The view dataverse.rejects contains the refused rows and the reasons.");
	if (r->unfinished > 0)
		warn(m, psprintf(ngettext("%lld row was written, but the update that completes it was refused",
								  "%lld rows were written, but the updates that complete them were refused",
								  r->unfinished), (long long) r->unfinished),
			 ngettext("The command tag does not count it.", "The command tag does not count them.",
					  r->unfinished),
			 "The view dataverse.rejects contains these updates and the reasons; dataverse.retry_rejects sends them again.");
	if (r->doubtful > 0)
		warn(m, psprintf(ngettext("%lld row was sent without a conclusive answer",
								  "%lld rows were sent without a conclusive answer", r->doubtful),
						 (long long) r->doubtful),
			 NULL, "The view dataverse.rejects contains such rows and the reasons: compare them with those in the foreign table.");
}

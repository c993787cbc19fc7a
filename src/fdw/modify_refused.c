/*
 * modify_refused.c
 *		Rows that the service does not take: filed, or raised.
 *
 * With on_error = abort the first ends the statement, and the error says
 * what became of the others: what is written stays written.  With continue
 * they are filed, and one WARNING at the end says how many.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/lsyscache.h"

#include "dataverse/address.h"
#include "dataverse/blame.h"
#include "fdw/modify.h"
#include "fdw/rejects.h"

/* A column of the service under its name here. */
static const dv_attribute *
attribute_called(const dv_relation *relation, const char *name)
{
	int			i;

	for (i = 1; name[0] != '\0' && i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute !=NULL && !attribute->is_label && !attribute->is_table_name &&
			strcmp(attribute->column.name, name) == 0)
			return attribute;
	}
	return NULL;
}

static void
append_row(StringInfo detail, const dv_failure *failure)
{
	StringInfoData id;

	if (failure->first != failure->last)
		appendStringInfo(detail, "It is one of rows %lld to %lld.",
						 (long long) failure->first, (long long) failure->last);
	else if (failure->id != NULL)
	{
		initStringInfo(&id);
		dv_append_id(&id, failure->id);
		appendStringInfo(detail, "It is row %lld (%s).", (long long) failure->first, id.data);
	}
	else
		appendStringInfo(detail, "It is row %lld.", (long long) failure->first);
	if (failure->then)
		appendStringInfoString(detail, "  The row was created, its state could not be set.");
}

/* What stays, whatever becomes of the transaction. */
static void
append_outcome(StringInfo detail, const dv_modify *m, const dv_failure *failure)
{
	int64		written = dv_writer_tally(m->writer)->acknowledged;

	if (written > 0)
		appendStringInfo(detail, "\n%lld rows of this statement have been written to Dataverse and stay there.",
						 (long long) written);
	if (failure->in_doubt > 0)
		appendStringInfo(detail, "\nOf %lld rows it is not known whether they have been written.",
						 (long long) failure->in_doubt);
}

void
dv_modify_raise_refused(void *arg, const dv_failure *failure)
{
	const dv_modify *m = arg;
	const dv_error *error = failure->error;
	const dv_attribute *attribute;
	StringInfoData detail;
	const char *service = dv_error_detail(error);
	int			sqlstate = error->sqlstate;
	const char *hint = error->hint;
	dv_blame	blame;

	if (m->max_errors >= 0 && m->refusals > m->max_errors)
		hint = psprintf("More than %lld rows were refused (option \"max_errors\").",
						(long long) m->max_errors);
	dv_blame_read(error->message, &blame);
	attribute = m->at_fault != 0 ? dv_relation_attribute(m->relation, m->at_fault) :
	attribute_called(m->relation, blame.column);

	if (blame.null)
		sqlstate = ERRCODE_NOT_NULL_VIOLATION;
	initStringInfo(&detail);
	append_row(&detail, failure);
	if (service[0] != '\0')
		appendStringInfo(&detail, "  %s", service);
	append_outcome(&detail, m, failure);
	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg("could not %s on server \"%s\": %s", m->what, m->server, error->message),
			 errdetail_internal("%s", detail.data),
			 hint != NULL ? errhint("%s", hint) : 0,
			 err_generic_string(PG_DIAG_SCHEMA_NAME,
								get_namespace_name(get_rel_namespace(m->relation->relid))),
			 err_generic_string(PG_DIAG_TABLE_NAME, m->relation->name),
			 attribute !=NULL ? err_generic_string(PG_DIAG_COLUMN_NAME, attribute->name) : 0,
			 blame.key[0] != '\0' ?
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, blame.key) : 0));
}

/* What the statement says of the row at hand; what says which row it is, if it does. */
static List *
columns_of(const dv_modify *m)
{
	List	   *others = list_make4_int(m->id, m->partition, m->state, m->status);
	List	   *columns = NIL;
	ListCell   *lc;
	int			i;

	for (i = 0; i < m->ncolumns; i++)
		if (!m->columns[i].if_changed)
			columns = lappend_int(lappend_int(columns, m->columns[i].attnum),
								  m->columns[i].type_attnum);
	for (i = 0; i < m->nkeys; i++)
		others = lappend_int(others, m->keys[i]);
	foreach(lc, others)
	{
		if (lfirst_int(lc) != 0 && !m->slot->tts_isnull[lfirst_int(lc) - 1])
			columns = lappend_int(columns, lfirst_int(lc));
	}
	return columns;
}

/*
 * Functions may wait for rows of the statement around them (drain.c).  What
 * is refused then must not be rolled back with a savepoint of theirs, nor be
 * filed for another user.
 */
static void
hold(dv_modify *m, const dv_rejected_row *reject)
{
	MemoryContext old = MemoryContextSwitchTo(m->context);
	dv_rejected_row *copy = palloc(sizeof(*copy));

	*copy = *reject;
	copy->message = pstrdup(reject->message);
	if (reject->code != NULL)
		copy->code = pstrdup(reject->code);
	if (reject->object != NULL)
		copy->object = pnstrdup(reject->object, reject->object_len);
	if (reject->id != NULL)
		copy->id = memcpy(palloc(DV_ID_LEN), reject->id, DV_ID_LEN);
	m->held = lappend(m->held, copy);
	MemoryContextSwitchTo(old);
}

void
dv_modify_file_held(dv_modify *m)
{
	ListCell   *lc;

	foreach(lc, m->held)
		dv_rejects_file(m->relation, lfirst(lc));
	list_free_deep(m->held);
	m->held = NIL;
}

bool
dv_modify_file_refused(void *arg, const dv_failure *failure)
{
	dv_modify  *m = arg;
	dv_rejected_row reject = {0};

	m->refusals++;
	if (m->max_errors >= 0 && m->refusals > m->max_errors)
		return false;
	reject.operation = dv_operation_rule_of(failure->then ? DV_UPDATE : m->operation)->name;
	reject.ordinal = failure->first;
	reject.id = failure->id;
	reject.sqlstate = failure->error->sqlstate;
	reject.message = failure->error->message;
	if (m->at_fault != 0 && m->command != CMD_DELETE)
	{
		/* its object ends where it did not fit */
		reject.slot = m->slot;
		reject.columns = columns_of(m);
	}
	else if (m->at_fault == 0)
	{
		reject.code = failure->error->code;
		reject.object = failure->object;
		reject.object_len = failure->object_len;
	}
	if (m->elsewhere)
		hold(m, &reject);
	else
	{
		dv_modify_file_held(m);
		dv_rejects_file(m->relation, &reject);
	}
	return true;
}

void
dv_modify_report_refused(dv_modify *m)
{
	if (m->refusals == 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg_plural("%lld row was refused: could not %s on server \"%s\"",
						   "%lld rows were refused: could not %s on server \"%s\"",
						   (unsigned long) m->refusals, (long long) m->refusals, m->what,
						   m->server),
			 errhint("Table dataverse.rejects has them and why.")));
}

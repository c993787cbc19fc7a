/*
 * modify_row.c
 *		Converts tuple table slots to rows of the service.
 *
 * First the row is identified (modify_identity.c).  Then its values are
 * appended directly to the bytes that will be sent.
 *
 * The service creates rows in the active state only.  If a new row is to have
 * another one, its state and status follow as an update.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "foreign/foreign.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/uuid.h"

#include "dataverse/address.h"
#include "fdw/modify.h"

/*
 * Preparing
 */

/* Is the value of this column not written as a member like all others? */
static bool
is_apart(const dv_modify *m, const dv_attribute *attribute, AttrNumber attnum)
{
	return attribute->is_table_name ||
		attnum == m->identity.id || attnum == m->identity.partition.attnum ||
		attnum == m->values.state.attnum || attnum == m->values.status.attnum;
}

/* For new rows, nulls of lookups are omitted: a lookup that was never set cannot be cleared. */
static dv_nulls_as
nulls_of(const dv_modify *m, const dv_attribute *attribute, bool given)
{
	if (!given && m->operation != DV_UPDATE)
		return DV_NULL_OMITTED;
	if (m->operation == DV_CREATE && dv_type_is_lookup(attribute->column.type))
		return DV_NULL_OMITTED;
	return DV_NULL_WRITTEN;
}

/* Can new rows refer to other rows of the statement, by ids that the statement supplies? */
static bool
refers_here(const dv_modify *m, const dv_attribute *attribute, AttrNumber attnum)
{
	dv_options	options = {NIL, NIL};
	dv_lookup	lookup;
	ListCell   *lc;

	if (m->command != CMD_INSERT || !m->identity.ids_given || attribute->pgtype != UUIDOID ||
		!dv_type_is_lookup(attribute->column.type))
		return false;
	options.first = GetForeignColumnOptions(m->relation->relid, attnum);
	dv_lookup_read(&attribute->column, options, &lookup);
	foreach(lc, lookup.tables)
		if (strcmp(lfirst(lc), m->relation->table) == 0)
			return true;
	return false;
}

/* "named" contains all columns that the statement writes, including "columns". */
static void
add_columns(dv_modify *m, List *columns, List *named, bool given)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		AttrNumber	attnum = lfirst_int(lc);
		const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
		dv_modify_column *column = &m->values.columns[m->values.ncolumns];

		if (is_apart(m, attribute, attnum))
			continue;
		column->attnum = attnum;
		column->if_changed = !given && m->operation == DV_UPDATE;
		column->encoder = dv_encoder_create(m->relation, attnum, nulls_of(m, attribute, given));
		column->type_attnum = dv_encoder_type_column(column->encoder);
		/* a companion that is not set names the table of the old reference */
		if (!list_member_int(named, column->type_attnum))
			column->type_attnum = 0;
		column->refers_here = refers_here(m, attribute, attnum);
		m->values.ordered |= column->refers_here;
		m->values.ncolumns++;
	}
}

/* Finds state and status of new rows, which are not always part of the new row. */
static void
find_state(dv_modify *m, List *columns)
{
	dv_modify_column *state = &m->values.state;
	dv_modify_column *status = &m->values.status;
	ListCell   *lc;

	if (m->operation != DV_CREATE && m->operation != DV_UPSERT)
		return;
	foreach(lc, columns)
	{
		const dv_attribute *attribute = dv_relation_attribute(m->relation, lfirst_int(lc));

		if (attribute->is_label)
			continue;
		if (attribute->column.type == DV_TYPE_STATE)
			state->attnum = lfirst_int(lc);
		else if (attribute->column.type == DV_TYPE_STATUS)
			status->attnum = lfirst_int(lc);
	}
	/* without a state, the status is a column like any other */
	if (state->attnum == 0)
		status->attnum = 0;
	else
		state->encoder = dv_encoder_create(m->relation, state->attnum, DV_NULL_OMITTED);
	if (status->attnum != 0)
		status->encoder = dv_encoder_create(m->relation, status->attnum, DV_NULL_OMITTED);
}

/*
 * May rows set columns that planning has not checked?  COPY and routing do without
 * planning, and triggers come after it.
 */
static bool
sets_any(const dv_modify_plan *plan)
{
	return plan->others != NIL || (plan->command == CMD_INSERT && plan->given == NIL);
}

void
dv_row_prepare(dv_modify *m, const dv_modify_plan *plan)
{
	List	   *columns = list_concat_copy(plan->given, plan->others);
	int			i;

	if (m->relation->type == DV_TABLE_INTERSECT)
		return;
	find_state(m, columns);
	m->values.columns = palloc0(sizeof(dv_modify_column) * Max(list_length(columns), 1));
	add_columns(m, plan->given, columns, true);
	add_columns(m, plan->others, columns, false);
	m->values.compares = plan->command == CMD_UPDATE && plan->others != NIL;
	for (i = 1; sets_any(plan) && i <= m->relation->natts; i++)
		if (dv_relation_attribute(m->relation, i) != NULL && !list_member_int(columns, i) &&
			(plan->given == NIL || TupleDescAttr(m->desc, i - 1)->attgenerated == '\0'))
			m->values.unwritable = lappend_int(m->values.unwritable, i);
}

/*
 * Values
 */

static bool
is_changed(const dv_modify *m, AttrNumber attnum, TupleTableSlot *slot)
{
	const TupleTableSlot *before = m->rinfo->ri_oldTupleSlot;
	int			i = attnum - 1;
	Form_pg_attribute att = TupleDescAttr(m->desc, i);

	if (slot->tts_isnull[i] || before->tts_isnull[i])
		return slot->tts_isnull[i] != before->tts_isnull[i];
	return !datum_image_eq(slot->tts_values[i], before->tts_values[i], att->attbyval, att->attlen);
}

static bool
append_value(const dv_modify_column *column, TupleTableSlot *slot, StringInfo out,
			 dv_modify_fault *fault)
{
	int			i = column->attnum - 1;
	int			type = column->type_attnum - 1;
	const char *type_value = NULL;

	if (type >= 0 && !slot->tts_isnull[type])
		type_value = TextDatumGetCString(slot->tts_values[type]);
	fault->attnum = column->attnum;
	return dv_encode(column->encoder, slot->tts_values[i], slot->tts_isnull[i], type_value, out,
					 &fault->misfit);
}

/* Is the column part of the address?  Then it is not repeated in the row. */
static bool
is_in_address(const dv_modify_identity *identity, const dv_modify_row *row, AttrNumber attnum)
{
	int			i;

	for (i = 0; !row->has_id && i < identity->nkeys; i++)
		if (identity->keys[i].attnum == attnum)
			return true;
	return false;
}

static bool
append_columns(const dv_modify *m, const dv_modify_row *row, TupleTableSlot *slot, StringInfo out,
			   dv_modify_fault *fault)
{
	int			i;

	for (i = 0; i < m->values.ncolumns; i++)
	{
		const dv_modify_column *column = &m->values.columns[i];

		if (!is_in_address(&m->identity, row, column->attnum) &&
			(!column->if_changed || is_changed(m, column->attnum, slot) ||
			 (column->type_attnum != 0 && is_changed(m, column->type_attnum, slot))) &&
			!append_value(column, slot, out, fault))
			return false;
	}
	return true;
}

/*
 * Appends state and status of a new row.  They are encoded separately first,
 * because the state decides whether they belong in the row or in an update
 * that follows it.
 */
static bool
append_state(const dv_modify *m, const dv_modify_row *row, TupleTableSlot *slot, StringInfo out,
			 dv_modify_fault *fault)
{
	static const dv_misfit not_by_key = {
		ERRCODE_FEATURE_NOT_SUPPORTED,
		"a row that is upserted by an alternate key cannot be deactivated in the same statement"
	};
	StringInfoData state;
	StringInfoData status;
	bool		inactive;

	initStringInfo(&state);
	initStringInfo(&status);
	if (!append_value(&m->values.state, slot, &state, fault) ||
		(m->values.status.attnum != 0 && !append_value(&m->values.status, slot, &status, fault)))
		return false;
	inactive = state.len > 2 && strcmp(state.data + state.len - 2, ":0") != 0;
	if (inactive && m->operation == DV_UPSERT && !row->has_id)
	{
		fault->attnum = m->values.state.attnum;
		fault->misfit = not_by_key;
		return false;
	}
	if (inactive)
		out = dv_writer_begin_then(m->writer);
	/* a new row is active anyway; an existing one may have to be activated */
	if (inactive || m->operation == DV_UPSERT)
		appendBinaryStringInfo(out, state.data, state.len);
	appendBinaryStringInfo(out, status.data, status.len);
	if (inactive)
		dv_writer_end_then(m->writer);
	return true;
}

/*
 * Rows
 */

static bool
leaves_out_unwritable(const dv_modify *m, TupleTableSlot *slot, dv_modify_fault *fault)
{
	ListCell   *lc;

	foreach(lc, m->values.unwritable)
	{
		AttrNumber	attnum = lfirst_int(lc);

		if (m->values.compares ? !is_changed(m, attnum, slot) : slot->tts_isnull[attnum - 1])
			continue;
		fault->attnum = attnum;
		fault->misfit.sqlstate = ERRCODE_FEATURE_NOT_SUPPORTED;
		fault->misfit.message = psprintf(attnum == m->identity.id ?
										 "column \"%s\" is the primary id of the row and cannot be changed" :
										 "column \"%s\" is read-only",
										 dv_relation_attribute(m->relation, attnum)->name);
		return false;
	}
	return true;
}

/* For trees whose rows come root first: a parent is written before its children are sent. */
static void
wait_for_referred(const dv_modify *m, TupleTableSlot *slot)
{
	int			i;

	for (i = 0; i < m->values.ncolumns; i++)
	{
		const dv_modify_column *column = &m->values.columns[i];
		Datum		id = slot->tts_values[column->attnum - 1];

		if (column->refers_here && !slot->tts_isnull[column->attnum - 1])
			dv_writer_wait_for(m->writer, dv_identity_key_of_id(DatumGetUUIDP(id)->data));
	}
}

static StringInfo
begin_row(const dv_modify *m, TupleTableSlot *slot, const dv_modify_row *row)
{
	/* the key of a new row is needed only if other rows may refer to it */
	bool		has_key = m->operation != DV_CREATE || m->values.ordered;

	if (m->values.ordered)
		wait_for_referred(m, slot);
	return dv_writer_begin_row(m->writer, row->has_id ? row->id : NULL, row->address,
							   has_key ? dv_identity_key(row) : 0);
}

static bool
append_row(const dv_modify *m, TupleTableSlot *slot, const dv_modify_row *row, StringInfo out,
		   dv_modify_fault *fault)
{
	const dv_modify_column *partition = &m->identity.partition;

	if (row->second != NULL)
		dv_append_referred(out, dv_session_root(m->session), m->identity.sides[1].set,
						   row->second);
	fault->attnum = partition->attnum;
	if (!row->no_partition &&
		!dv_encode(partition->encoder, row->partition, false, NULL, out, &fault->misfit))
		return false;
	if (m->command != CMD_DELETE && !append_columns(m, row, slot, out, fault))
		return false;
	return m->values.state.attnum == 0 || append_state(m, row, slot, out, fault);
}

bool
dv_row_write(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot, dv_modify_row *row)
{
	dv_modify_fault fault;

	if (m->command != CMD_DELETE)
		slot_getallattrs(slot);
	/* PostgreSQL does not create this slot before the first row */
	if (m->values.compares)
		slot_getallattrs(m->rinfo->ri_oldTupleSlot);
	if (!leaves_out_unwritable(m, slot, &fault) ||
		!dv_identity_find(m, slot, planSlot, row, &fault))
	{
		/* a row whose address is not known is begun without one */
		(void) dv_writer_begin_row(m->writer, NULL, NULL, 0);
	}
	else if (dv_identity_is_repeated(m, row))
		return false;
	else if (append_row(m, slot, row, begin_row(m, slot, row), &fault))
	{
		dv_writer_end_row(m->writer);
		return true;
	}
	dv_refused_here(m, slot, &fault);
	return false;
}

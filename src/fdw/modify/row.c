/*
 * row.c
 *		Converts tuple table slots to rows of the service.
 *
 * First the row is identified (identity.c).  Then its values are
 * appended directly to the bytes that will be sent.
 *
 * The service creates rows only in the active state, and with no image but the
 * primary one.  The other values of a new row follow as an update.
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
#include "fdw/modify/modify.h"
#include "fdw/modify/rights.h"

/*
 * Preparing
 */

/* Returns true if the value of this column is not written as a member like all others. */
static bool
is_apart(const dv_modify *m, const dv_attribute *attribute, AttrNumber attnum)
{
	int			i;

	for (i = 0; i < m->values.nfollowers; i++)
		if (attnum == m->values.followers[i].column.attnum)
			return true;
	return attribute->is_table_name ||
		attnum == m->identity.id || attnum == m->identity.partition.attnum;
}

/* For new rows, nulls of lookups are omitted: a lookup that was never set cannot be cleared. */
static dv_nulls_as
nulls_of(const dv_modify *m, const dv_attribute *attribute, bool always)
{
	if (!always && m->operation != DV_UPDATE)
		return DV_NULL_OMITTED;
	if (m->operation == DV_CREATE && dv_type_is_lookup(attribute->column.type))
		return DV_NULL_OMITTED;
	return DV_NULL_WRITTEN;
}

/*
 * Returns true if new rows can refer to other rows of the statement by ids that the statement
 * supplies.
 */
static bool
refers_here(const dv_modify *m, const dv_attribute *attribute, AttrNumber attnum)
{
	dv_options	options = {NIL, NIL};
	dv_lookup	lookup;
	ListCell   *lc;

	if (m->command != CMD_INSERT || !m->identity.ids_supplied || attribute->pgtype != UUIDOID ||
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
add_columns(dv_modify *m, List *columns, List *named, bool always)
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
		column->if_changed = !always && m->operation == DV_UPDATE;
		column->encoder = dv_encoder_create(m->relation, attnum, nulls_of(m, attribute, always));
		column->type_attnum = dv_encoder_type_column(column->encoder);
		/* an owner has one navigation property for all tables, and cannot be cleared */
		if (m->operation == DV_UPDATE && attribute->column.type != DV_TYPE_OWNER)
			column->old_type_attnum = column->type_attnum;
		m->values.needs_old |= column->old_type_attnum != 0;
		/* a companion that is not set contains the table of the old reference */
		if (!list_member_int(named, column->type_attnum))
			column->type_attnum = 0;
		column->refers_here = refers_here(m, attribute, attnum);
		m->values.ordered |= column->refers_here;
		m->values.ncolumns++;
	}
}

/* Returns false if columns of this kind are always part of the new row. */
static bool
may_follow(const dv_attribute *attribute, dv_follows *follows)
{
	switch (attribute->column.type)
	{
		case DV_TYPE_STATE:
			*follows = DV_FOLLOWS_STATE;
			return true;
		case DV_TYPE_STATUS:
			*follows = DV_FOLLOWS_STATUS;
			return true;
		case DV_TYPE_IMAGE:
			*follows = DV_FOLLOWS_IMAGE;
			return !attribute->primary_image;
		default:
			return false;
	}
}

/* Adds the columns that follow in this way; "set" are those that are written even if null. */
static void
add_followers(dv_modify *m, List *columns, List *set, dv_follows wanted)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		AttrNumber	attnum = lfirst_int(lc);
		const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
		dv_modify_follower *follower = &m->values.followers[m->values.nfollowers];
		bool		clears;
		dv_follows	follows;

		if (attribute->is_label || attribute->is_table_name || !may_follow(attribute, &follows) ||
			follows != wanted)
			continue;
		/* an existing row may have an image already */
		clears = m->operation == DV_UPSERT && follows == DV_FOLLOWS_IMAGE &&
			list_member_int(set, attnum);
		follower->column.attnum = attnum;
		follower->column.encoder = dv_encoder_create(m->relation, attnum,
													 clears ? DV_NULL_WRITTEN : DV_NULL_OMITTED);
		follower->follows = follows;
		m->values.nfollowers++;
	}
}

/* Finds columns of new rows that are not always part of the new row. */
static void
find_followers(dv_modify *m, List *columns, List *set)
{
	if (m->operation != DV_CREATE && m->operation != DV_UPSERT)
		return;
	m->values.followers = palloc0(sizeof(dv_modify_follower) * Max(list_length(columns), 1));
	add_followers(m, columns, set, DV_FOLLOWS_STATE);
	/* without a state, the status is a column like any other */
	if (m->values.nfollowers > 0)
		add_followers(m, columns, set, DV_FOLLOWS_STATUS);
	add_followers(m, columns, set, DV_FOLLOWS_IMAGE);
}

bool
dv_row_leaves_out_null(const dv_modify *m, const dv_modify_plan *plan, AttrNumber attnum)
{
	const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
	dv_type		type = attribute->column.type;

	if (m->command != CMD_INSERT || attnum == m->identity.id)
		return false;
	if (list_member_int(plan->others, attnum))
		return true;
	/* every row has a state and an owner, and one with money has a currency */
	return list_member_int(plan->set, attnum) &&
		(type == DV_TYPE_STATE || type == DV_TYPE_STATUS || type == DV_TYPE_OWNER ||
		 strcmp(attribute->column.name, "transactioncurrencyid") == 0);
}

/*
 * Returns true if rows may set columns that planning has not checked.  COPY and
 * routing work without planning, and triggers run after it.
 */
static bool
sets_any(const dv_modify_plan *plan)
{
	return plan->others != NIL || (plan->command == CMD_INSERT && plan->set == NIL);
}

void
dv_row_prepare(dv_modify *m, const dv_modify_plan *plan)
{
	List	   *columns = list_concat_copy(plan->set, plan->others);
	int			i;

	m->values.unwritable = list_copy(plan->nulls);
	if (m->relation->type == DV_TABLE_INTERSECT)
		return;
	find_followers(m, columns, plan->set);
	m->identity.ids_made = m->identity.ids_made && dv_rights_may_complete(m);
	m->values.columns = palloc0(sizeof(dv_modify_column) * Max(list_length(columns), 1));
	add_columns(m, plan->set, columns, true);
	add_columns(m, plan->others, columns, false);
	m->values.compares = plan->command == CMD_UPDATE && plan->others != NIL;
	m->values.needs_old |= m->values.compares;
	for (i = 1; sets_any(plan) && i <= m->relation->natts; i++)
		if (dv_relation_attribute(m->relation, i) != NULL && !list_member_int(columns, i) &&
			!(plan->new_ids && i == m->identity.id) &&
			(plan->set == NIL || TupleDescAttr(m->desc, i - 1)->attgenerated == '\0'))
			m->values.unwritable = list_append_unique_int(m->values.unwritable, i);
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

/* Returns the text in a column of a row, or NULL; also NULL if attnum is 0. */
static const char *
text_of(const TupleTableSlot *slot, AttrNumber attnum)
{
	if (attnum == 0 || slot->tts_isnull[attnum - 1])
		return NULL;
	return TextDatumGetCString(slot->tts_values[attnum - 1]);
}

static bool
append_value(const dv_modify *m, const dv_modify_column *column, TupleTableSlot *slot,
			 StringInfo out, dv_modify_fault *fault)
{
	int			i = column->attnum - 1;
	const char *type_value;

	fault->attnum = column->attnum;
	if (slot->tts_isnull[i] && column->old_type_attnum != 0)
		return dv_encode_cleared(column->encoder,
								 text_of(m->rinfo->ri_oldTupleSlot, column->old_type_attnum), out,
								 &fault->misfit);
	type_value = text_of(slot, column->type_attnum);
	return dv_encode(column->encoder, slot->tts_values[i], slot->tts_isnull[i], type_value, out,
					 &fault->misfit);
}

/* Returns true if the column is part of the address.  Then it is not repeated in the row. */
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
			!append_value(m, column, slot, out, fault))
			return false;
	}
	return true;
}

/* Appends the partition of an elastic row, which its address in a request line may contain already. */
static bool
append_partition(const dv_modify *m, const dv_modify_row *row, StringInfo out,
				 dv_modify_fault *fault)
{
	const dv_modify_column *partition = &m->identity.partition;

	fault->attnum = partition->attnum;
	return row->no_partition ||
		dv_encode(partition->encoder, row->partition, false, NULL, out, &fault->misfit);
}

/* Returns true if the row is to have another state than the active one. */
static bool
is_inactive(const dv_modify *m, TupleTableSlot *slot, bool *inactive, dv_modify_fault *fault)
{
	const dv_modify_follower *state = &m->values.followers[0];
	StringInfoData text;

	*inactive = false;
	if (state->follows != DV_FOLLOWS_STATE)
		return true;
	initStringInfo(&text);
	if (!append_value(m, &state->column, slot, &text, fault))
		return false;
	*inactive = text.len > 2 && strcmp(text.data + text.len - 2, ":0") != 0;
	return true;
}

/* Returns true if an update can follow, which finds its row by its id. */
static bool
can_be_followed(const dv_modify *m, const dv_modify_row *row, bool inactive,
				dv_modify_fault *fault)
{
	if (m->operation != DV_UPSERT || row->has_id)
		return true;
	fault->misfit.sqlstate = ERRCODE_FEATURE_NOT_SUPPORTED;
	fault->misfit.message = inactive ?
		"a row that is upserted by an alternate key cannot be deactivated in the same statement" :
		"a row that is upserted by an alternate key cannot get an image other than the primary one in the same statement";
	return false;
}

/*
 * Appends the columns that may have to follow, either to the row or to the
 * update that follows it.
 */
static bool
append_followers(const dv_modify *m, const dv_modify_row *row, TupleTableSlot *slot,
				 StringInfo out, dv_modify_fault *fault)
{
	StringInfo	then = dv_writer_begin_then(m->writer);
	StringInfoData members;
	bool		inactive;
	int			i;

	initStringInfo(&members);
	if (!is_inactive(m, slot, &inactive, fault))
		return false;
	for (i = 0; i < m->values.nfollowers; i++)
	{
		const dv_modify_follower *follower = &m->values.followers[i];
		bool		follows = inactive || follower->follows == DV_FOLLOWS_IMAGE;

		/* a new row is active anyway; an existing one may have to be activated */
		if (follower->follows == DV_FOLLOWS_STATE && !inactive && m->operation != DV_UPSERT)
			continue;
		if (!append_value(m, &follower->column, slot, follows ? &members : out, fault))
			return false;
		if (members.len > 0 && !can_be_followed(m, row, inactive, fault))
			return false;
	}
	/* the update has to find the row in its partition */
	if (members.len > 0 && !append_partition(m, row, then, fault))
		return false;
	appendBinaryStringInfo(then, members.data, members.len);
	dv_writer_end_then(m->writer);
	return true;
}

/*
 * Rows
 */

static const char *
unwritable_message(const dv_modify *m, const dv_attribute *attribute, AttrNumber attnum)
{
	if (attnum == m->identity.id && m->command == CMD_UPDATE)
		return psprintf("column \"%s\" is the primary id of the row and cannot be changed", attribute->name);
	if (attribute->is_table_name)
		return psprintf("column \"%s\" names the table that \"%s\" refers to, but \"%s\" is not set",
						attribute->name, attribute->column.name, attribute->column.name);
	if (!dv_modify_plan_is_writable(attribute) || dv_modify_plan_writes(attribute, m->command))
		return psprintf("column \"%s\" is read-only", attribute->name);
	return psprintf(m->command == CMD_INSERT ?
					"column \"%s\" cannot be set when a row is created, but only with UPDATE" :
					"column \"%s\" cannot be set when a row is updated, but only with INSERT",
					attribute->name);
}

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
		fault->misfit.message = unwritable_message(m, dv_relation_attribute(m->relation, attnum), attnum);
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
	/* no other row can have, or refer to, an id that was generated locally */
	bool		has_key = m->operation != DV_CREATE || (row->has_id && !row->is_made);
	uint64		key = has_key ? dv_identity_key(m, row) : 0;
	StringInfo	members;

	if (m->values.ordered)
		wait_for_referred(m, slot);
	if (m->operation == DV_UPSERT && !row->has_id)
	{
		dv_batch_key by_key = {row->address, row->fit, row->key_members, row->id};

		return dv_writer_begin_keyed_row(m->writer, &by_key, key);
	}
	members = dv_writer_begin_row(m->writer, row->has_id ? row->id : NULL, row->line, key);
	if (m->identity.version_junk != 0)
		dv_writer_set_version(m->writer, row->version);
	return members;
}

static bool
append_row(const dv_modify *m, TupleTableSlot *slot, const dv_modify_row *row, StringInfo out,
		   dv_modify_fault *fault)
{
	if (row->second != NULL)
		dv_append_referred(out, dv_session_root(m->session), m->identity.sides[1].set,
						   row->second);
	if (!append_partition(m, row, out, fault))
		return false;
	if (!row->no_partition && row->line != NULL)
		dv_writer_end_head(m->writer);
	if (m->command != CMD_DELETE && !append_columns(m, row, slot, out, fault))
		return false;
	return m->values.nfollowers == 0 || append_followers(m, row, slot, out, fault);
}

bool
dv_row_write(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot, dv_modify_row *row)
{
	dv_modify_fault fault;

	if (m->command != CMD_DELETE)
		slot_getallattrs(slot);
	/* PostgreSQL does not create this slot before the first row */
	if (m->values.needs_old)
		slot_getallattrs(m->rinfo->ri_oldTupleSlot);
	if (!leaves_out_unwritable(m, slot, &fault) ||
		!dv_identity_find(m, slot, planSlot, row, &fault))
	{
		/* a row with an unknown address is begun without one */
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

/*
 * modify_row.c
 *		From slots of PostgreSQL to rows of the service.
 *
 * Which row is meant comes first: its id, given or made here, or an address,
 * where an id does not do (elastic tables with partitions, alternate keys,
 * pairs of intersect tables).  Then its values are appended, straight into
 * the bytes that travel.
 *
 * A row cannot be created in a state other than the active one (facts 4.6):
 * state and status then follow as an update.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/varlena.h"

#include "compat.h"
#include "dataverse/address.h"
#include "dataverse/guid.h"
#include "fdw/lookup.h"
#include "fdw/modify.h"
#include "fdw/result_relation.h"

/* A row that the statement has changed: its id; of elastic tables, two hashes of its address. */
typedef struct dv_seen_key
{
	uint64		a;
	uint64		b;
} dv_seen_key;

typedef struct dv_seen
{
	dv_seen_key key;
	char		status;
} dv_seen;

#define SH_PREFIX dv_seen
#define SH_ELEMENT_TYPE dv_seen
#define SH_KEY_TYPE dv_seen_key
#define SH_KEY key
#define SH_HASH_KEY(tb, k) ((uint32) murmurhash32((uint32) ((k).a ^ ((k).b >> 16))))
#define SH_EQUAL(tb, k, l) ((k).a == (l).a && (k).b == (l).b)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static dv_guid_clock guid_clock;

dv_operation
dv_modify_operation(const dv_relation *relation, dv_options options, CmdType command)
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
			return dv_option_is(options, "insert_mode", "upsert") ? DV_UPSERT : DV_CREATE;
	}
}

/*
 * Preparing
 */

/* Columns whose values are not members like others. */
static bool
is_apart(const dv_modify *m, const dv_attribute *attribute, AttrNumber attnum)
{
	return attribute->is_table_name || attnum == m->id || attnum == m->partition ||
	attnum == m->state || attnum == m->status;
}

/* A null is left out where a row is made: a lookup that never was set cannot be cleared. */
static dv_nulls_as
nulls_of(const dv_modify *m, const dv_attribute *attribute, bool given)
{
	if (!given && m->operation != DV_UPDATE)
		return DV_NULL_OMITTED;
	if (m->operation == DV_CREATE && dv_type_is_lookup(attribute->column.type))
		return DV_NULL_OMITTED;
	return DV_NULL_WRITTEN;
}

/* Can rows that are made refer to others of the statement, by ids that it gives? */
static bool
refers_here(const dv_modify *m, const dv_attribute *attribute, AttrNumber attnum)
{
	dv_options	options = {NIL, NIL};
	dv_lookup	lookup;
	ListCell   *lc;

	if (m->command != CMD_INSERT || !m->ids_given || attribute->pgtype != UUIDOID ||
		!dv_type_is_lookup(attribute->column.type))
		return false;
	options.first = GetForeignColumnOptions(m->relation->relid, attnum);
	dv_lookup_read(&attribute->column, options, &lookup);
	foreach(lc, lookup.tables)
		if (strcmp(lfirst(lc), m->relation->table) == 0)
		return true;
	return false;
}

static void
add_columns(dv_modify *m, List *columns, List *named, bool given)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		AttrNumber	attnum = lfirst_int(lc);
		const dv_attribute *attribute = dv_relation_attribute(m->relation, attnum);
		dv_modify_column *column = &m->columns[m->ncolumns];

		if (is_apart(m, attribute, attnum))
			continue;
		column->attnum = attnum;
		column->if_changed = !given && m->operation == DV_UPDATE;
		column->encoder = dv_encoder_create(m->relation, attnum, nulls_of(m, attribute, given));
		column->type_attnum = dv_encoder_type_column(column->encoder);
		/* one that is not set tells of the reference as it was */
		if (!list_member_int(named, column->type_attnum))
			column->type_attnum = 0;
		column->refers_here = refers_here(m, attribute, attnum);
		m->ordered |= column->refers_here;
		m->ncolumns++;
	}
}

/* State and status of a row that is made: they do not go with it in every case. */
static void
find_state(dv_modify *m, List *columns)
{
	ListCell   *lc;

	if (m->operation != DV_CREATE && m->operation != DV_UPSERT)
		return;
	foreach(lc, columns)
	{
		dv_type		type = dv_relation_attribute(m->relation, lfirst_int(lc))->column.type;

		if (dv_relation_attribute(m->relation, lfirst_int(lc))->is_label)
			continue;
		if (type == DV_TYPE_STATE)
			m->state = lfirst_int(lc);
		else if (type == DV_TYPE_STATUS)
			m->status = lfirst_int(lc);
	}
	/* without a state, a status is a column like others */
	if (m->state == 0)
		m->status = 0;
	else
		m->state_encoder = dv_encoder_create(m->relation, m->state, DV_NULL_OMITTED);
	if (m->status != 0)
		m->status_encoder = dv_encoder_create(m->relation, m->status, DV_NULL_OMITTED);
}

static AttrNumber
column_called(const dv_relation *relation, const char *name)
{
	int			i;

	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute !=NULL && !attribute->is_label && !attribute->is_table_name &&
			(strcmp(attribute->name, name) == 0 || strcmp(attribute->column.name, name) == 0))
			return i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
			 errmsg("column \"%s\" of option \"upsert_key\" is not in foreign table \"%s\"", name,
					relation->name)));
	return 0;
}

/* Rows that are to be found by an alternate key. */
static void
prepare_keys(dv_modify *m, List *columns)
{
	const char *option = dv_option_text(m->options, "upsert_key");
	List	   *names = NIL;
	ListCell   *lc;

	if (m->operation != DV_UPSERT)
		return;
	if (option == NULL)
	{
		if (m->ids_given)
			return;
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("cannot upsert into foreign table \"%s\" without a key",
						m->relation->name),
				 errhint("Insert values for column \"%s\", or name the columns of an alternate key in option \"upsert_key\".",
						 m->relation->primary_id.name)));
	}
	if (!SplitIdentifierString(pstrdup(option), ',', &names))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid value for option \"%s\": \"%s\"", "upsert_key", option)));
	m->keys = palloc0(sizeof(AttrNumber) * list_length(names));
	m->key_encoders = palloc0(sizeof(dv_encoder *) * list_length(names));
	foreach(lc, names)
	{
		AttrNumber	attnum = column_called(m->relation, lfirst(lc));

		m->keys[m->nkeys] = attnum;
		m->key_encoders[m->nkeys++] = dv_encoder_create(m->relation, attnum, DV_NULL_WRITTEN);
	}
}

static void
prepare_ends(dv_modify *m, List *targetlist)
{
	static const char *const junk[] = {DV_TARGET_FIRST, DV_TARGET_SECOND};
	int			i;

	dv_resultrel_ends(m->relation, &m->ends[0].attnum, &m->ends[1].attnum);
	for (i = 0; i < 2; i++)
	{
		dv_modify_end *end = &m->ends[i];
		dv_options	options = {NIL, NIL};

		if (end->attnum != 0)
			options.first = GetForeignColumnOptions(m->relation->relid, end->attnum);
		end->set = dv_option_text(options, "target_set");
		end->navigation = dv_option_text(options, "navigation");
		if (end->set == NULL || end->navigation == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
					 errmsg("cannot %s: it is not known what its rows tie together", m->what),
					 errhint("Let IMPORT FOREIGN SCHEMA make the foreign table: it sets \"target_set\" and \"navigation\" of the two columns.")));
		if (targetlist != NIL)
			end->junk = dv_resultrel_junk(targetlist, junk[i], end->attnum);
	}
}

/* Columns without which a plan has no rows: those that cannot be written must be null. */
static void
find_refused(dv_modify *m, List *columns)
{
	int			i;

	m->refused = palloc(sizeof(AttrNumber) * Max(m->relation->natts, 1));
	for (i = 1; i <= m->relation->natts; i++)
		if (dv_relation_attribute(m->relation, i) != NULL && !list_member_int(columns, i))
			m->refused[m->nrefused++] = i;
}

void
dv_modify_prepare(dv_modify *m, const dv_modify_plan *plan, List *targetlist)
{
	List	   *columns = list_concat_copy(plan->given, plan->others);

	dv_resultrel_keys(m->relation, &m->id, &m->partition);
	if (m->relation->type == DV_TABLE_INTERSECT)
	{
		prepare_ends(m, targetlist);
		return;
	}
	if (targetlist != NIL)
	{
		m->id_junk = dv_resultrel_junk(targetlist, DV_TARGET_ID, m->id);
		if (m->partition != 0)
			m->partition_junk = dv_resultrel_junk(targetlist, DV_TARGET_PARTITION, m->partition);
		if (m->id_junk == 0)
			elog(ERROR, "could not find the id of rows of foreign table \"%s\"",
				 m->relation->name);
	}
	if (m->partition != 0)
		m->partition_encoder = dv_encoder_create(m->relation, m->partition, DV_NULL_OMITTED);
	m->make_ids = m->operation == DV_CREATE && dv_option_bool(m->options, "generate_ids");
	m->ids_given = m->id != 0 && list_member_int(columns, m->id);
	find_state(m, columns);
	prepare_keys(m, columns);
	m->columns = palloc0(sizeof(dv_modify_column) * Max(list_length(columns), 1));
	add_columns(m, plan->given, columns, true);
	add_columns(m, plan->others, columns, false);
	/* partition and id are there if they are written at all */
	if (plan->command == CMD_INSERT && plan->given == NIL)
		find_refused(m, columns);
	if (plan->repeats)
		m->seen = dv_seen_create(m->context, 1024, NULL);
}

/*
 * Rows that cannot be sent
 */

static void
refuse_row(dv_modify *m, AttrNumber attnum, const dv_misfit *misfit)
{
	dv_error	error = {0};

	error.verdict = DV_VERDICT_REFUSED;
	error.retry_after = -1;
	error.code = "";
	error.message = misfit->message;
	error.sqlstate = misfit->sqlstate;
	m->at_fault = attnum;
	dv_writer_forget_row(m->writer, &error);
	m->at_fault = 0;
}

/* Before its address is known a row is begun without. */
static bool
refuse_early(dv_modify *m, AttrNumber attnum, const dv_misfit *misfit)
{
	(void) dv_writer_begin_row(m->writer, NULL, NULL, 0);
	refuse_row(m, attnum, misfit);
	return false;
}

/*
 * Which row
 */

static uint64
hash_of(const void *bytes, size_t len, uint64 seed)
{
	uint64		hash = DatumGetUInt64(hash_any_extended(bytes, (int) len, seed));

	return hash != 0 ? hash : 1;
}

static void
make_id(uint8 *id)
{
	int64		now = GetCurrentTimestamp() +
	(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	dv_guid_make(&guid_clock, now, pg_prng_uint64(&pg_global_prng_state), id);
}

static void
set_id(dv_modify_row *row, Datum value)
{
	row->has_id = true;
	memcpy(row->id, DatumGetUUIDP(value)->data, DV_ID_LEN);
}

/* Of an elastic table: set(id=…,partitionid='…'). */
static bool
address_in_partition(dv_modify *m, dv_modify_row *row, Datum partition)
{
	StringInfoData address;
	dv_misfit	misfit;

	initStringInfo(&address);
	appendStringInfo(&address, "%s(%s=", m->relation->entity_set,
					 m->relation->primary_id.property);
	dv_append_id(&address, row->id);
	appendStringInfo(&address, ",%s=",
					 dv_relation_attribute(m->relation, m->partition)->column.property);
	if (!dv_encode_key(m->partition_encoder, partition, false, &address, &misfit))
		return refuse_early(m, m->partition, &misfit);
	appendStringInfoChar(&address, ')');
	row->address = address.data;
	return true;
}

/* By an alternate key: set(k1='v',k2=4). */
static bool
address_by_key(dv_modify *m, dv_modify_row *row, TupleTableSlot *slot)
{
	StringInfoData address;
	dv_misfit	misfit;
	int			i;

	initStringInfo(&address);
	appendStringInfo(&address, "%s(", m->relation->entity_set);
	for (i = 0; i < m->nkeys; i++)
	{
		AttrNumber	attnum = m->keys[i];

		appendStringInfo(&address, "%s%s=", i > 0 ? "," : "",
						 dv_relation_attribute(m->relation, attnum)->column.property);
		if (!dv_encode_key(m->key_encoders[i], slot->tts_values[attnum - 1],
						   slot->tts_isnull[attnum - 1], &address, &misfit))
			return refuse_early(m, attnum, &misfit);
	}
	appendStringInfoChar(&address, ')');
	row->address = address.data;
	return true;
}

static bool
identify_new(dv_modify *m, dv_modify_row *row, TupleTableSlot *slot)
{
	static const dv_misfit no_key = {
		ERRCODE_NOT_NULL_VIOLATION, "it is not said which row to upsert: the primary id is null"
	};
	bool		partitioned = m->partition != 0 && !slot->tts_isnull[m->partition - 1];

	if (m->id != 0 && !slot->tts_isnull[m->id - 1])
		set_id(row, slot->tts_values[m->id - 1]);
	else if (m->make_ids)
	{
		make_id(row->id);
		row->has_id = true;
	}
	if (m->operation != DV_UPSERT)
		return true;
	if (!row->has_id && m->nkeys == 0)
		return refuse_early(m, m->id, &no_key);
	if (!row->has_id && !address_by_key(m, row, slot))
		return false;
	if (row->has_id && partitioned &&
		!address_in_partition(m, row, slot->tts_values[m->partition - 1]))
		return false;
	return true;
}

static bool
identify_old(dv_modify *m, dv_modify_row *row, TupleTableSlot *planSlot, Datum *partition,
			 bool *partitioned)
{
	bool		isnull;
	Datum		id = ExecGetJunkAttribute(planSlot, m->id_junk, &isnull);

	if (isnull)
		elog(ERROR, "a row of foreign table \"%s\" has no id", m->relation->name);
	set_id(row, id);
	*partitioned = false;
	if (m->partition_junk != 0)
	{
		*partition = ExecGetJunkAttribute(planSlot, m->partition_junk, &isnull);
		*partitioned = !isnull;
	}
	return !*partitioned || address_in_partition(m, row, *partition);
}

static void
set_key(dv_modify_row *row)
{
	if (row->address != NULL)
		row->key = hash_of(row->address, strlen(row->address), 0);
	else
		row->key = hash_of(row->id, DV_ID_LEN, 0);
}

/*
 * A row that the statement has changed before is not changed again: PostgreSQL
 * does so, too.  Beyond work_mem the last change wins.
 */
static bool
is_repeated(dv_modify *m, const dv_modify_row *row)
{
	dv_seen_key key;
	bool		found;

	if (m->seen == NULL)
		return false;
	memcpy(&key, row->id, DV_ID_LEN);
	if (row->address != NULL)
	{
		key.a = hash_of(row->address, strlen(row->address), 0);
		key.b = hash_of(row->address, strlen(row->address), 1);
	}
	if (m->forgetful)
		return dv_seen_lookup(m->seen, key) != NULL;
	(void) dv_seen_insert(m->seen, key, &found);
	m->forgetful = m->seen->size * sizeof(dv_seen) > work_mem * (Size) 1024;
	return found;
}

/*
 * Values
 */

static bool
is_changed(const dv_modify *m, const dv_modify_column *column, TupleTableSlot *slot)
{
	Form_pg_attribute att = TupleDescAttr(m->desc, column->attnum - 1);
	int			i = column->attnum - 1;

	if (m->before == NULL)
		return true;
	if (slot->tts_isnull[i] || m->before->tts_isnull[i])
		return slot->tts_isnull[i] != m->before->tts_isnull[i];
	return !datum_image_eq(slot->tts_values[i], m->before->tts_values[i], att->attbyval,
						   att->attlen);
}

static bool
append_value(dv_modify *m, dv_encoder *encoder, AttrNumber attnum, const char *type_value,
			 TupleTableSlot *slot, StringInfo out)
{
	dv_misfit	misfit;

	if (dv_encode(encoder, slot->tts_values[attnum - 1], slot->tts_isnull[attnum - 1], type_value,
				  out, &misfit))
		return true;
	refuse_row(m, attnum, &misfit);
	return false;
}

static bool
is_key(const dv_modify *m, const dv_modify_row *row, AttrNumber attnum)
{
	int			i;

	/* where the row is addressed by them, they are not repeated */
	for (i = 0; !row->has_id && i < m->nkeys; i++)
		if (m->keys[i] == attnum)
			return true;
	return false;
}

static bool
append_columns(dv_modify *m, const dv_modify_row *row, TupleTableSlot *slot, StringInfo out)
{
	int			i;

	for (i = 0; i < m->ncolumns; i++)
	{
		const dv_modify_column *column = &m->columns[i];
		const char *type_value = NULL;

		if ((m->nkeys > 0 && is_key(m, row, column->attnum)) ||
			(column->if_changed && !is_changed(m, column, slot)))
			continue;
		if (column->type_attnum != 0 && !slot->tts_isnull[column->type_attnum - 1])
			type_value = TextDatumGetCString(slot->tts_values[column->type_attnum - 1]);
		if (!append_value(m, column->encoder, column->attnum, type_value, slot, out))
			return false;
	}
	return true;
}

/*
 * State and status of a row that is made.  They are written beside it first:
 * which of the two places they belong in depends on the state.
 */
static bool
append_state(dv_modify *m, const dv_modify_row *row, TupleTableSlot *slot, StringInfo out)
{
	static const dv_misfit not_by_key = {
		ERRCODE_FEATURE_NOT_SUPPORTED,
		"a row that is upserted by an alternate key cannot be made inactive in the same statement"
	};
	StringInfoData state;
	StringInfoData status;
	bool		inactive;

	initStringInfo(&state);
	initStringInfo(&status);
	if (!append_value(m, m->state_encoder, m->state, NULL, slot, &state) ||
		(m->status != 0 &&
		 !append_value(m, m->status_encoder, m->status, NULL, slot, &status)))
		return false;
	inactive = state.len > 2 && strcmp(state.data + state.len - 2, ":0") != 0;
	if (inactive && m->operation == DV_UPSERT && !row->has_id)
	{
		refuse_row(m, m->state, &not_by_key);
		return false;
	}
	if (inactive)
		out = dv_writer_begin_then(m->writer);
	/* a row is made active anyway; one that is there may have to become so */
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
check_refused(dv_modify *m, TupleTableSlot *slot)
{
	int			i;

	for (i = 0; i < m->nrefused; i++)
	{
		AttrNumber	attnum = m->refused[i];
		dv_misfit	misfit = {ERRCODE_FEATURE_NOT_SUPPORTED, NULL};

		if (slot->tts_isnull[attnum - 1])
			continue;
		misfit.message = psprintf("column \"%s\" is only read and cannot be given a value",
								  dv_relation_attribute(m->relation, attnum)->name);
		return refuse_early(m, attnum, &misfit);
	}
	return true;
}

/* A tree that comes with its root first: a parent is there before its children are sent. */
static void
wait_for_referred(dv_modify *m, TupleTableSlot *slot)
{
	int			i;

	for (i = 0; i < m->ncolumns; i++)
	{
		AttrNumber	attnum = m->columns[i].attnum;

		if (m->columns[i].refers_here && !slot->tts_isnull[attnum - 1])
			dv_writer_wait_for(m->writer,
							   hash_of(DatumGetUUIDP(slot->tts_values[attnum - 1])->data,
									   DV_ID_LEN, 0));
	}
}

static bool
write_new(dv_modify *m, TupleTableSlot *slot, dv_modify_row *row)
{
	StringInfo	out;

	if (!check_refused(m, slot) || !identify_new(m, row, slot))
		return false;
	if (m->operation == DV_UPSERT || (m->ordered && row->has_id))
		set_key(row);
	if (m->ordered)
		wait_for_referred(m, slot);
	out = dv_writer_begin_row(m->writer, row->has_id ? row->id : NULL, row->address, row->key);
	if (m->partition != 0 &&
		!append_value(m, m->partition_encoder, m->partition, NULL, slot, out))
		return false;
	if (!append_columns(m, row, slot, out))
		return false;
	return m->state == 0 || append_state(m, row, slot, out);
}

static bool
write_old(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot, dv_modify_row *row)
{
	Datum		partition = 0;
	bool		partitioned;
	StringInfo	out;
	dv_misfit	misfit;

	if (!identify_old(m, row, planSlot, &partition, &partitioned) || is_repeated(m, row))
		return false;
	set_key(row);
	out = dv_writer_begin_row(m->writer, row->id, row->address, row->key);
	if (partitioned && !dv_encode(m->partition_encoder, partition, false, NULL, out, &misfit))
	{
		refuse_row(m, m->partition, &misfit);
		return false;
	}
	return m->operation == DV_DELETE || append_columns(m, row, slot, out);
}

/* The id of one end of a pair; false: there is none. */
static bool
end_of(dv_modify *m, int i, TupleTableSlot *slot, TupleTableSlot *planSlot, StringInfo out)
{
	static const dv_misfit no_end = {
		ERRCODE_NOT_NULL_VIOLATION, "a pair of rows needs both of them"
	};
	const dv_modify_end *end = &m->ends[i];
	bool		isnull;
	Datum		value;

	if (m->operation == DV_DISASSOCIATE)
		value = ExecGetJunkAttribute(planSlot, end->junk, &isnull);
	else
		value = slot_getattr(slot, end->attnum, &isnull);
	if (isnull)
		return refuse_early(m, end->attnum, &no_end);
	dv_append_id(out, DatumGetUUIDP(value)->data);
	return true;
}

/* A row of an intersect table is a reference from one row to another. */
static bool
write_pair(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot, dv_modify_row *row)
{
	StringInfoData ids[2];
	StringInfo	out;
	int			i;

	for (i = 0; i < 2; i++)
	{
		initStringInfo(&ids[i]);
		if (!end_of(m, i, slot, planSlot, &ids[i]))
			return false;
	}
	row->key = hash_of(ids[0].data, ids[0].len, hash_of(ids[1].data, ids[1].len, 0));
	row->address = dv_address_reference(m->ends[0].set, ids[0].data, m->ends[0].navigation,
										m->operation == DV_DISASSOCIATE ? ids[1].data : NULL);
	out = dv_writer_begin_row(m->writer, NULL, row->address, row->key);
	if (m->operation == DV_ASSOCIATE)
		dv_append_referred(out, dv_session_root(m->session), m->ends[1].set, ids[1].data);
	return true;
}

bool
dv_modify_write(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot, dv_modify_row *row)
{
	bool		written;

	memset(row, 0, sizeof(*row));
	m->slot = slot;
	if (m->command != CMD_DELETE)
		slot_getallattrs(slot);
	if (m->before != NULL)
		slot_getallattrs(m->before);
	if (m->operation == DV_ASSOCIATE || m->operation == DV_DISASSOCIATE)
		written = write_pair(m, slot, planSlot, row);
	else if (m->command == CMD_INSERT)
		written = write_new(m, slot, row);
	else
		written = write_old(m, slot, planSlot, row);
	if (written)
		dv_writer_end_row(m->writer);
	return written;
}

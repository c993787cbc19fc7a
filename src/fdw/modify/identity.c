/*
 * identity.c
 *		Identifies the rows of the service that are written.
 *
 * A row is identified by its id, which is supplied by the statement or
 * generated locally.  If an id is not enough, the row has an address as well:
 * in elastic tables with partitions, for alternate keys, and for the pairs of
 * intersect tables.
 *
 * Not every key can be part of an address in a request line.  The partition is
 * then sent in another way, depending on the operation: as a member of the
 * body, or as an option of the query.  A row with such an alternate key has to
 * be looked up first (client/search.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "compat.h"
#include "dataverse/address.h"
#include "fdw/columns.h"
#include "fdw/modify/modify.h"
#include "fdw/new_id.h"
#include "fdw/result_relation.h"
#include "fdw/setting.h"

/*
 * Preparing
 */

/* Returns how an upsert may find its rows. */
static const char *
key_hint(const dv_relation *relation)
{
	const char *keys = dv_option_text(relation->options, DV_OPT_KEYS);
	const char *hint = psprintf("Insert values for column \"%s\", or name the columns of an alternate key in option \"upsert_key\" or in the setting \"dataverse_fdw.upsert_key\".",
								relation->primary_id.name);

	if (keys == NULL)
		return hint;
	return psprintf("%s  The table has the following keys (option \"keys\"): %s.", hint, keys);
}

/* Prepares the alternate key by which an upsert finds its rows. */
static void
prepare_keys(dv_modify *m)
{
	const char *option = dv_option_text(m->options, DV_OPT_UPSERT_KEY);
	List	   *names = NIL;
	ListCell   *lc;

	if (m->operation != DV_UPSERT)
		return;
	if (option == NULL)
	{
		if (m->identity.ids_supplied)
			return;
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("cannot upsert into foreign table \"%s\" without a key",
						m->relation->name),
				 errhint("%s", key_hint(m->relation))));
	}
	if (dv_columns_read(option, &names) != NULL)
		elog(ERROR, "invalid list of columns: %s", option);
	m->identity.keys = palloc0(sizeof(dv_modify_column) * list_length(names));
	foreach(lc, names)
	{
		const char *name = lfirst(lc);
		dv_modify_column *key = &m->identity.keys[m->identity.nkeys++];

		key->attnum = dv_relation_column_called(m->relation, name);
		if (key->attnum == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
					 errmsg("column \"%s\" in \"upsert_key\" is not in foreign table \"%s\"",
							name, m->relation->name),
					 errhint("%s", key_hint(m->relation))));
		key->encoder = dv_encoder_create(m->relation, key->attnum, DV_NULL_WRITTEN);
	}
}

static void
prepare_sides(dv_modify *m, List *targetlist)
{
	static const char *const junk[] = {DV_JUNK_FIRST, DV_JUNK_SECOND};
	dv_modify_side *sides = m->identity.sides;
	int			i;

	dv_resultrel_pair(m->relation, &sides[0].attnum, &sides[1].attnum);
	for (i = 0; i < 2; i++)
	{
		dv_modify_side *side = &sides[i];
		dv_options	options = {NIL, NIL};

		if (side->attnum != 0)
			options.first = GetForeignColumnOptions(m->relation->relid, side->attnum);
		side->set = dv_option_text(options, DV_OPT_TARGET_SET);
		side->navigation = dv_option_text(options, DV_OPT_NAVIGATION);
		if (side->set == NULL || side->navigation == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
					 errmsg("cannot %s: the tables that its rows connect are not known", m->what),
					 errhint("Create the foreign table with IMPORT FOREIGN SCHEMA, which sets options \"target_set\" and \"navigation\" of the two columns.")));
		if (targetlist != NIL)
			side->junk = dv_resultrel_junk(targetlist, junk[i], side->attnum);
	}
}

static void
find_junk(dv_modify *m, List *targetlist)
{
	dv_modify_identity *identity = &m->identity;

	identity->id_junk = dv_resultrel_junk(targetlist, DV_JUNK_ID, identity->id);
	if (identity->partition.attnum != 0)
		identity->partition_junk = dv_resultrel_junk(targetlist, DV_JUNK_PARTITION,
													 identity->partition.attnum);
	if (identity->id_junk == 0)
		elog(ERROR, "could not find the id of rows of foreign table \"%s\"", m->relation->name);
}

/* The plan decides, because it has made the scan read the versions. */
static void
find_version(dv_modify *m, const dv_modify_plan *plan, List *targetlist)
{
	dv_modify_identity *identity = &m->identity;

	if (!plan->match_version)
		return;
	identity->version = dv_relation_column_of(m->relation, "versionnumber");
	identity->version_junk = dv_resultrel_junk(targetlist, DV_JUNK_VERSION, identity->version);
	if (identity->version_junk == 0)
		elog(ERROR, "could not find the version of rows of foreign table \"%s\"", m->relation->name);
}

void
dv_identity_prepare(dv_modify *m, const dv_modify_plan *plan, List *targetlist)
{
	dv_modify_identity *identity = &m->identity;

	if (plan->repeats)
		identity->seen = dv_seen_begin();
	dv_resultrel_keys(m->relation, &identity->id, &identity->partition.attnum);
	if (m->relation->type == DV_TABLE_INTERSECT)
	{
		prepare_sides(m, targetlist);
		return;
	}
	if (targetlist != NIL)
		find_junk(m, targetlist);
	find_version(m, plan, targetlist);
	if (identity->partition.attnum != 0)
		identity->partition.encoder = dv_encoder_create(m->relation, identity->partition.attnum,
														DV_NULL_OMITTED);
	identity->ids_made = m->operation == DV_CREATE && dv_setting_ids_made(m->relation->relid);
	identity->make_ids = m->operation == DV_CREATE && dv_option_bool(m->options, DV_OPT_GENERATE_IDS);
	identity->ids_supplied = identity->id != 0 && (list_member_int(plan->set, identity->id) ||
												   list_member_int(plan->others, identity->id));
	prepare_keys(m);
	if (m->command != CMD_INSERT ||
		(identity->ids_supplied && !(plan->new_ids && identity->nkeys > 0)))
		identity->existing_id = identity->id;
}

/*
 * Keys
 */

static uint64
hash_of(const void *bytes, size_t len, uint64 seed)
{
	uint64		hash = DatumGetUInt64(hash_any_extended(bytes, (int) len, seed));

	return hash != 0 ? hash : 1;
}

static uint64
hash_of_text(const char *text, uint64 seed)
{
	return hash_of(text, strlen(text), seed);
}

uint64
dv_identity_key_of_id(const uint8 *id)
{
	return hash_of(id, DV_ID_LEN, 0);
}

uint64
dv_identity_key(const dv_modify *m, const dv_modify_row *row)
{
	/* only the service knows which keys are equal, so all that may be are ordered */
	if (row->fold != NULL)
		return hash_of_text(row->fold, 0);
	if (row->address != NULL)
		return hash_of_text(row->address, row->second != NULL ? hash_of_text(row->second, 0) : 0);
	if (!row->has_id)
		return 0;
	/* lookups refer to a row by its id alone, which is then the key */
	if (row->no_partition || m->values.ordered)
		return dv_identity_key_of_id(row->id);
	return hash_of_text(TextDatumGetCString(row->partition), dv_identity_key_of_id(row->id));
}

bool
dv_identity_is_repeated(dv_modify *m, const dv_modify_row *row)
{
	dv_seen_key key;

	if (m->identity.seen == NULL)
		return false;
	memcpy(&key, row->id, DV_ID_LEN);
	if (row->address != NULL)
	{
		key.a = hash_of_text(row->address, 0);
		key.b = hash_of_text(row->address, 1);
	}
	return dv_seen_before(m->identity.seen, key);
}

/*
 * Addresses
 */

static bool
append_key(const dv_modify *m, const dv_modify_column *key, Datum value, bool isnull,
		   StringInfo address, dv_modify_fault *fault)
{
	fault->attnum = key->attnum;
	appendStringInfo(address, "%s=",
					 dv_relation_attribute(m->relation, key->attnum)->column.property);
	return dv_encode_key(key->encoder, value, isnull, address, &fault->misfit);
}

/* Returns an address as it is written in a request line. */
static const char *
line_of(const char *address)
{
	size_t		len = strlen(address);
	char	   *line = palloc(DV_PAYLOAD_LINE(len) + 1);

	*dv_payload_line(line, address, len) = '\0';
	return line;
}

/* Returns the address of a row to delete: set(id)?partitionId=…. */
static const char *
line_with_option(const dv_modify *m, const dv_modify_row *row)
{
	StringInfoData partition;
	dv_misfit	misfit;
	char	   *text;
	char	   *p;

	initStringInfo(&partition);
	/* the value has been encoded before, so this cannot fail */
	(void) dv_encode_key(m->identity.partition.encoder, row->partition, false, &partition, &misfit);
	/* the option takes the text without quotes, and without doubling inner ones */
	partition.data[partition.len - 1] = '\0';
	for (text = p = partition.data + 1; *p != '\0'; *text++ = *p++)
		p += p[0] == '\'' && p[1] == '\'';
	*text = '\0';
	return psprintf("%s(%s)?partitionId=%s", m->relation->entity_set, dv_id_text(row->id),
					dv_address_encode(partition.data + 1));
}

/* Returns the address of a row in an elastic table: set(id=…,partitionid='…'). */
static bool
address_in_partition(const dv_modify *m, dv_modify_row *row, dv_modify_fault *fault)
{
	StringInfoData address;

	initStringInfo(&address);
	appendStringInfo(&address, "%s(%s=", m->relation->entity_set,
					 m->relation->primary_id.property);
	dv_append_id(&address, row->id);
	appendStringInfoChar(&address, ',');
	if (!append_key(m, &m->identity.partition, row->partition, false, &address, fault))
		return false;
	appendStringInfoChar(&address, ')');
	row->address = address.data;
	row->fit = dv_payload_key_fit(address.data, address.len);
	/* in an upsert, id and partition are members */
	if (m->operation == DV_UPSERT)
		return true;
	if (row->fit == DV_KEY_FITS)
		row->line = line_of(address.data);
	else if (m->operation == DV_DELETE)
		row->line = line_with_option(m, row);
	return true;
}

/* Appends a column of an alternate key as a member of the row. */
static bool
append_key_member(const dv_modify *m, const dv_modify_column *key, TupleTableSlot *slot,
				  StringInfo members, dv_modify_fault *fault)
{
	int			i = key->attnum - 1;
	int			type = dv_encoder_type_column(key->encoder) - 1;
	const char *table = NULL;

	if (type >= 0 && !slot->tts_isnull[type])
		table = TextDatumGetCString(slot->tts_values[type]);
	fault->attnum = key->attnum;
	return dv_encode(key->encoder, slot->tts_values[i], false, table, members, &fault->misfit);
}

/* Returns an address by alternate key: set(k1='v',k2=4). */
static bool
address_by_key(const dv_modify *m, dv_modify_row *row, TupleTableSlot *slot,
			   dv_modify_fault *fault)
{
	StringInfoData address;
	StringInfoData members;
	StringInfoData fold;
	int			i;

	initStringInfo(&address);
	initStringInfo(&members);
	initStringInfo(&fold);
	appendStringInfo(&address, "%s(", m->relation->entity_set);
	for (i = 0; i < m->identity.nkeys; i++)
	{
		const dv_modify_column *key = &m->identity.keys[i];

		if (i > 0)
			appendStringInfoChar(&address, ',');
		if (!append_key(m, key, slot->tts_values[key->attnum - 1],
						slot->tts_isnull[key->attnum - 1], &address, fault))
			return false;
		dv_encode_key_fold(key->encoder, slot->tts_values[key->attnum - 1], &fold);
		/* no fold contains this character */
		appendStringInfoChar(&fold, '\n');
	}
	appendStringInfoChar(&address, ')');
	row->address = address.data;
	row->fold = fold.data;
	row->fit = dv_payload_key_fit(address.data, address.len);
	for (i = 0; row->fit != DV_KEY_FITS && i < m->identity.nkeys; i++)
		if (!append_key_member(m, &m->identity.keys[i], slot, &members, fault))
			return false;
	row->key_members = members.data;
	return true;
}

/*
 * Rows
 */

static void
set_id(dv_modify_row *row, Datum value)
{
	row->has_id = true;
	memcpy(row->id, DatumGetUUIDP(value)->data, DV_ID_LEN);
}

static bool
is_zero(const uint8 *id)
{
	static const uint8 zero[DV_ID_LEN];

	return memcmp(id, zero, DV_ID_LEN) == 0;
}

const uint8 *
dv_identity_reserve(dv_modify *m)
{
	if (!m->identity.reserved)
		dv_new_id(m->identity.next_id);
	m->identity.reserved = true;
	return m->identity.next_id;
}

static bool
find_new(dv_modify *m, TupleTableSlot *slot, dv_modify_row *row, dv_modify_fault *fault)
{
	static const dv_misfit no_key = {
		ERRCODE_NOT_NULL_VIOLATION, "the primary id of a row to upsert is null"
	};

	/*
	 * the service would take it for a missing id, and generate another one each time the row is
	 * sent
	 */
	static const dv_misfit no_id = {
		ERRCODE_INVALID_PARAMETER_VALUE, "the primary id of a row cannot consist of zeros"
	};
	AttrNumber	id = m->identity.existing_id;
	AttrNumber	partition = m->identity.partition.attnum;

	if (partition != 0)
	{
		row->partition = slot->tts_values[partition - 1];
		row->no_partition = slot->tts_isnull[partition - 1];
	}
	if (id != 0 && !slot->tts_isnull[id - 1])
	{
		set_id(row, slot->tts_values[id - 1]);
		row->is_made = m->identity.ids_made;
		if (is_zero(row->id))
		{
			fault->attnum = id;
			fault->misfit = no_id;
			return false;
		}
	}
	else if (m->identity.make_ids)
	{
		row->has_id = true;
		row->is_made = true;
		memcpy(row->id, dv_identity_reserve(m), DV_ID_LEN);
		m->identity.reserved = false;
	}
	if (m->operation != DV_UPSERT)
		return true;
	if (row->has_id)
		return row->no_partition || address_in_partition(m, row, fault);
	if (m->identity.nkeys > 0)
	{
		/* for a row that is looked up and does not exist */
		dv_new_id(row->id);
		return address_by_key(m, row, slot, fault);
	}
	fault->attnum = id;
	fault->misfit = no_key;
	return false;
}

static bool
set_version(const dv_modify *m, TupleTableSlot *planSlot, dv_modify_row *row, dv_modify_fault *fault)
{
	static const dv_misfit no_version = {
		ERRCODE_FEATURE_NOT_SUPPORTED, "the row has no version to match"
	};
	bool		isnull;
	Datum		version;

	if (m->identity.version_junk == 0)
		return true;
	version = ExecGetJunkAttribute(planSlot, m->identity.version_junk, &isnull);
	if (!isnull)
	{
		row->version = DatumGetInt64(version);
		return true;
	}
	fault->attnum = m->identity.version;
	fault->misfit = no_version;
	return false;
}

static bool
find_old(const dv_modify *m, TupleTableSlot *planSlot, dv_modify_row *row, dv_modify_fault *fault)
{
	bool		isnull;
	Datum		id = ExecGetJunkAttribute(planSlot, m->identity.id_junk, &isnull);

	if (isnull)
		elog(ERROR, "a row of foreign table \"%s\" has no id", m->relation->name);
	set_id(row, id);
	if (m->identity.partition_junk != 0)
		row->partition = ExecGetJunkAttribute(planSlot, m->identity.partition_junk,
											  &row->no_partition);
	return set_version(m, planSlot, row, fault) &&
		(row->no_partition || address_in_partition(m, row, fault));
}

/* A row of an intersect table is a reference from one row to another. */
static bool
find_pair(const dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot, dv_modify_row *row,
		  dv_modify_fault *fault)
{
	static const dv_misfit no_side = {
		ERRCODE_NOT_NULL_VIOLATION, "one id of a pair of rows is null"
	};
	const dv_modify_side *sides = m->identity.sides;
	const char *ids[2];
	int			i;

	for (i = 0; i < 2; i++)
	{
		bool		isnull;
		Datum		id = m->operation == DV_DISASSOCIATE ?
		ExecGetJunkAttribute(planSlot, sides[i].junk, &isnull) :
		slot_getattr(slot, sides[i].attnum, &isnull);

		if (isnull)
		{
			fault->attnum = sides[i].attnum;
			fault->misfit = no_side;
			return false;
		}
		ids[i] = dv_id_text(DatumGetUUIDP(id)->data);
	}
	if (m->operation == DV_ASSOCIATE)
		row->second = ids[1];
	row->line = row->address = dv_address_reference(sides[0].set, ids[0], sides[0].navigation,
													row->second == NULL ? ids[1] : NULL);
	return true;
}

bool
dv_identity_find(dv_modify *m, TupleTableSlot *slot, TupleTableSlot *planSlot, dv_modify_row *row,
				 dv_modify_fault *fault)
{
	memset(row, 0, sizeof(*row));
	row->no_partition = true;
	if (m->relation->type == DV_TABLE_INTERSECT)
		return find_pair(m, slot, planSlot, row, fault);
	if (m->command == CMD_INSERT)
		return find_new(m, slot, row, fault);
	return find_old(m, planSlot, row, fault);
}

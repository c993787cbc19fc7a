/*
 * rejects.c
 *		Files refused rows in the table behind the view dataverse.rejects.
 *
 * A row is filed as an object that jsonb_populate_record() can turn into a row
 * of the foreign table again.  Its members have the names of the foreign
 * table's columns.  A reference to another row is filed as the id of that row
 * and, if the foreign table has a column for it, the name of its table.
 *
 * If a row is refused before it is sent, it is available as JSON.  If the service
 * refuses it, only the bytes that were sent are left, because its slot went back
 * to PostgreSQL long ago.  To file the original row, a copy of every row would
 * have to accompany its batch, and be split and merged with it, while on_error =
 * continue is meant for millions of rows of which a few are refused.  It is
 * cheaper, and takes less code, to read the object that was sent.  SQL takes it
 * apart, so that numbers keep all their digits.  The statement gets the necessary
 * information about the foreign table as arrays.
 *
 * The table belongs to the owner of the extension, and only this role may insert
 * into it, so that its contents can be trusted.  Becoming this role is safe
 * because the table certainly is the extension's, rather than one that only has
 * its name, and because nothing that the caller can set, including search_path,
 * affects the statement.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "dataverse/address.h"
#include "dataverse/header.h"
#include "fdw/encode.h"
#include "fdw/modify/rejects.h"
#include "fdw/owner.h"
#include "fdw/result_relation.h"
#include "net/json.h"
#include "net/text.h"

/* How members of the object are converted: arrays with one entry for each member. */
enum
{
	MAP_MEMBER,
	MAP_COLUMN,
	MAP_KIND,					/* "value", "choices", "image", "id", or "table" */
	MAP_PREFIX,					/* prefix of the value, if the member's name is ambiguous */
	MAP_TABLE,					/* table to which the member refers, for kind "table" */
	MAP_ARRAYS
};

/* Parameters of the statement. */
enum
{
	ARG_ROLE,
	ARG_SERVER,
	ARG_TABLE,
	ARG_OPERATION,
	ARG_ORDINAL,
	ARG_ID,
	ARG_CODE,
	ARG_SQLSTATE,
	ARG_MESSAGE,
	ARG_OBJECT,
	ARG_KEY_NAMES,				/* members that are part of the address */
	ARG_KEY_VALUES,
	ARG_ROW,
	ARG_ROW_NAMES,
	ARG_RETRIED,				/* the rows being retried: see dv_replay_entries() */
	ARG_MAP,
	NARGS = ARG_MAP + MAP_ARRAYS
};

/*
 * If a column occurs twice, its last value counts.  Nulls come first, so others
 * override them.  A row that is retried keeps its entry, and so its number.  Its
 * entry is the one with its id, or, if several or none have it, the one in its
 * place.  Returns the id of such an entry, or null.
 */
static const char statement[] =
"WITH that AS MATERIALIZED (SELECT"
"  (SELECT jsonb_object_agg(x.name, x.value ORDER BY x.value <> 'null')"
"   FROM (SELECT m.name, CASE"
"           WHEN e.value = 'null' OR m.kind = 'value' THEN e.value"
"           WHEN m.kind = 'choices' THEN to_jsonb(string_to_array(e.value #>> '{}', ',')::int[])"
"           WHEN m.kind = 'image'"
"           THEN to_jsonb(E'\\\\x' || encode(decode(e.value #>> '{}', 'base64'), 'hex'))"
"           WHEN m.kind = 'id'"
"           THEN to_jsonb(substring(e.value #>> '{}' from E'\\\\(([0-9A-Fa-f-]{36})\\\\)$'))"
"           ELSE to_jsonb(m.target) END AS value"
"         FROM (SELECT key, value FROM jsonb_each($10::jsonb)"
"               UNION ALL"
"               SELECT key, to_jsonb(value) FROM unnest($11, $12) AS k (key, value)) AS e"
"         JOIN unnest($16, $17, $18, $19, $20) AS m (member, name, kind, prefix, target)"
"           ON m.member = e.key"
"              AND (m.prefix IS NULL OR e.value = 'null' OR starts_with(e.value #>> '{}', m.prefix))"
"         UNION ALL"
"         SELECT key, value FROM jsonb_each($13::jsonb) WHERE key = ANY ($14)) AS x) AS value),"
" entry AS MATERIALIZED (SELECT r.id FROM %1$s AS r"
"   WHERE r.role_oid = (SELECT a.oid FROM pg_roles AS a WHERE a.rolname = $1)"
"     AND r.table_oid = to_regclass($3)"
"     AND (r.id = ($15)[$5] AND (r.row_id IS NULL OR r.row_id = $6)"
"          OR r.row_id = $6 AND r.id = ANY ($15))"
"   ORDER BY r.id = ($15)[$5] DESC, r.id LIMIT 1),"
" again AS (UPDATE %1$s AS t SET at = clock_timestamp(), pid = pg_backend_pid(), server = $2,"
"     operation = $4, row_id = $6, code = $7, sqlstate = $8, message = $9, \"row\" = that.value,"
"     attempts = t.attempts + 1"
"   FROM entry, that WHERE t.id = entry.id RETURNING t.id),"
" anew AS (INSERT INTO %1$s (role, server, foreign_table, operation, row_number, row_id,"
"     code, sqlstate, message, \"row\", attempts)"
"   SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, that.value, 1 FROM that"
"   WHERE NOT EXISTS (SELECT FROM entry) RETURNING NULL::bigint AS id)"
" SELECT id FROM again UNION ALL SELECT id FROM anew";

static Oid	argument_types[NARGS] = {
	TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, UUIDOID, TEXTOID, TEXTOID, TEXTOID,
	TEXTOID, TEXTARRAYOID, TEXTARRAYOID, TEXTOID, TEXTARRAYOID, INT8ARRAYOID,
	TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID
};

static void
add_text(ArrayBuildState *array, const char *text)
{
	(void) accumArrayResult(array, text != NULL ? CStringGetTextDatum(text) : (Datum) 0,
							text == NULL, TEXTOID, CurrentMemoryContext);
}

static ArrayBuildState *
new_array(void)
{
	return initArrayResult(TEXTOID, CurrentMemoryContext, false);
}

/*
 * Columns
 */

static void
map(ArrayBuildState **m, const char *member, const char *column, const char *kind, const char *prefix,
	const char *table)
{
	add_text(m[MAP_MEMBER], member);
	add_text(m[MAP_COLUMN], column);
	add_text(m[MAP_KIND], kind);
	add_text(m[MAP_PREFIX], prefix);
	add_text(m[MAP_TABLE], table);
}

/* Lookups have the form that fdw/encode.c writes: "navigation@odata.bind":"/set(id)", or "navigation":null. */
static void
map_lookup(ArrayBuildState **m, const dv_relation *relation, const dv_attribute *attribute,
		   dv_options options, const Bitmapset *hidden)
{
	AttrNumber	companion = dv_relation_table_name_of(relation, attribute);
	dv_lookup	lookup;
	int			i;

	dv_lookup_read(&attribute->column, options, &lookup);
	for (i = 0; i < Max(list_length(lookup.sets), 1); i++)
	{
		const char *set = dv_lookup_name(lookup.sets, i);
		const char *prefix = set != NULL ? psprintf("/%s(", set) : NULL;
		const char *navigation = dv_lookup_navigation(&lookup, &attribute->column, i);
		const char *members[] = {psprintf("%s@" DV_ANNOTATION_BIND, navigation), navigation};
		int			j;

		for (j = 0; j < (int) lengthof(members); j++)
		{
			map(m, members[j], attribute->name, "id", prefix, NULL);
			if (companion != 0 && !bms_is_member(companion, hidden))
				map(m, members[j], dv_relation_attribute(relation, companion)->name, "table", prefix,
					dv_lookup_name(lookup.tables, i));
		}
	}
}

static void
map_columns(ArrayBuildState **m, const dv_relation *relation, const Bitmapset *hidden)
{
	int			i;

	for (i = 0; i < relation->natts; i++)
	{
		const dv_attribute *attribute = &relation->attributes[i];
		const char *kind = "value";

		if (attribute->name == NULL || attribute->is_label || attribute->is_table_name ||
			bms_is_member(i + 1, hidden))
			continue;
		if (attribute->pgtype == INT4ARRAYOID)
			kind = "choices";
		else if (attribute->pgtype == BYTEAOID)
			kind = "image";
		/* a lookup appears under this name only in addresses */
		map(m, attribute->column.property, attribute->name, kind, NULL, NULL);
		if (dv_type_is_lookup(attribute->column.type))
		{
			dv_options	options = {GetForeignColumnOptions(relation->relid, i + 1), NIL};

			map_lookup(m, relation, attribute, options, hidden);
		}
	}
}

/*
 * Keys
 */

/*
 * Reads the value of a key, which is either bare or quoted with quotes inside
 * it doubled, converts it to the database encoding, and returns the position
 * after it.
 */
static const char *
read_key_value(const char *p, const char **value)
{
	StringInfoData text;
	bool		quoted = *p == '\'';

	initStringInfo(&text);
	if (quoted)
		p++;
	while (*p != '\0' && (quoted || (*p != ',' && *p != ')')))
	{
		if (quoted && *p == '\'' && *++p != '\'')
			break;
		appendStringInfoChar(&text, *p++);
	}
	*value = dv_text_in(text.data, text.len);
	return p;
}

/*
 * If the row is addressed by a key, the columns of the key are only in the
 * address: "@odata.id":"accounts(accountnumber='A-1',name='B')".
 */
static void
read_keys(const char *object, size_t len, ArrayBuildState *names, ArrayBuildState *values)
{
	struct json_object *json = dv_json_parse(object, len, NULL);
	const char *address = dv_json_is_object(json) ? dv_json_string(json, "@odata.id") : NULL;
	const char *p = address != NULL ? strchr(address, '(') : NULL;

	while (p != NULL && (*p == '(' || *p == ','))
	{
		const char *value;

		len = strcspn(++p, "=,)");
		if (p[len] != '=')
			return;
		add_text(names, pnstrdup(p, len));
		p = read_key_value(p + len + 1, &value);
		add_text(values, value);
	}
}

#define ID_TEXT_LEN 36

/* Appends the id in the last parentheses before "end" as the value of a column. */
static void
add_last_id(const char *address, const char *end, AttrNumber attnum, const dv_relation *relation,
			ArrayBuildState *names, ArrayBuildState *values)
{
	while (end > address && end[-1] != ')')
		end--;
	if (end - address <= ID_TEXT_LEN)
		return;
	add_text(names, dv_relation_attribute(relation, attnum)->column.property);
	add_text(values, pnstrdup(end - 1 - ID_TEXT_LEN, ID_TEXT_LEN));
}

/*
 * A pair of an intersect table is a reference at the address of one of its rows:
 * "accounts(id)/navigation(other)/$ref", or without the other id, which is in the
 * object then.
 */
static void
read_pair(const dv_relation *relation, const dv_reject *reject, ArrayBuildState *names,
		  ArrayBuildState *values)
{
	const char *navigation = strchr(reject->address, '/');
	struct json_object *json = dv_json_parse(reject->object, reject->object_len, NULL);
	const char *other = dv_json_is_object(json) ? dv_json_string(json, "@odata.id") : NULL;
	AttrNumber	first;
	AttrNumber	second;

	dv_resultrel_pair(relation, &first, &second);
	if (first == 0 || second == 0 || navigation == NULL)
		return;
	if (other == NULL)
		other = navigation;
	add_last_id(reject->address, navigation, first, relation, names, values);
	add_last_id(other, other + strlen(other), second, relation, names, values);
}

/*
 * Filing
 */

static void
set_arg(Datum *values, char *nulls, int arg, const char *text)
{
	nulls[arg] = text != NULL ? ' ' : 'n';
	values[arg] = text != NULL ? CStringGetTextDatum(text) : (Datum) 0;
}

static void
set_array(Datum *values, int arg, ArrayBuildState *array)
{
	values[arg] = makeArrayResult(array, CurrentMemoryContext);
}

/* Passes the original row, and the names of the columns that the statement has set. */
static void
set_row(Datum *values, char *nulls, const dv_relation *relation, const dv_reject *reject)
{
	ArrayBuildState *names = new_array();
	ListCell   *lc;

	foreach(lc, reject->columns)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, lfirst_int(lc));

		if (attribute != NULL && !bms_is_member(lfirst_int(lc), reject->hidden))
			add_text(names, attribute->name);
	}
	set_array(values, ARG_ROW_NAMES, names);
	nulls[ARG_ROW] = reject->row != (Datum) 0 ? ' ' : 'n';
	values[ARG_ROW] = reject->row;
}

/* Passes the object that was sent, and the mapping of its members to columns. */
static void
set_object(Datum *values, char *nulls, const dv_relation *relation, const dv_reject *reject)
{
	ArrayBuildState *key_names = new_array();
	ArrayBuildState *key_values = new_array();
	ArrayBuildState *m[MAP_ARRAYS];
	const char *object = NULL;
	int			i;

	if (reject->object != NULL)
	{
		object = pnstrdup(reject->object, reject->object_len);
		if (relation->type == DV_TABLE_INTERSECT && reject->address != NULL)
			read_pair(relation, reject, key_names, key_values);
		else
			read_keys(object, reject->object_len, key_names, key_values);
		object = dv_text_in(object, reject->object_len);
	}
	else if (reject->row != (Datum) 0 && reject->id != NULL)
	{
		/* an id that was generated locally is not in the row */
		add_text(key_names, relation->primary_id.property);
		add_text(key_values, dv_id_text(reject->id));
	}
	set_arg(values, nulls, ARG_OBJECT, object);
	set_array(values, ARG_KEY_NAMES, key_names);
	set_array(values, ARG_KEY_VALUES, key_values);
	for (i = 0; i < MAP_ARRAYS; i++)
		m[i] = new_array();
	map_columns(m, relation, reject->hidden);
	for (i = 0; i < MAP_ARRAYS; i++)
		set_array(values, ARG_MAP + i, m[i]);
}

/*
 * The table is found through the extension to which the server's wrapper
 * belongs, because any table could have its name.
 */
static Oid
find_table(const dv_relation *relation)
{
	ForeignDataWrapper *wrapper = GetForeignDataWrapper(GetForeignServer(relation->serverid)->fdwid);
	Oid			extension = getExtensionOfObject(ForeignDataWrapperRelationId, wrapper->fdwid);
	Oid			relid = get_relname_relid("rejected_rows", get_namespace_oid("dataverse_private", true));

	if (!OidIsValid(extension) || !OidIsValid(relid) ||
		getExtensionOfObject(RelationRelationId, relid) != extension)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"rejected_rows\" of foreign-data wrapper \"%s\" does not exist",
						wrapper->fdwname),
				 errhint("The extension must have created the foreign-data wrapper.")));
	return relid;
}

/* The plan is made again if the table has another name than before. */
static SPIPlanPtr
plan_for(Oid relid)
{
	static SPIPlanPtr plan = NULL;
	static char *planned_for = NULL;
	const char *name = dv_relation_qualified_name(relid);
	SPIPlanPtr	made;

	if (plan != NULL && strcmp(planned_for, name) == 0)
		return plan;
	made = SPI_prepare(psprintf(statement, name), NARGS, argument_types);
	if (made == NULL || SPI_keepplan(made) != 0)
		elog(ERROR, "could not prepare to file a row: %s", SPI_result_code_string(SPI_result));
	if (plan != NULL)
	{
		SPI_freeplan(plan);
		pfree(planned_for);
		plan = NULL;
	}
	planned_for = MemoryContextStrdup(TopMemoryContext, name);
	plan = made;
	return plan;
}

static void
insert(Oid relid, Datum *values, const char *nulls)
{
	dv_caller	caller = dv_owner_begin(relid, true);
	Datum		entry;
	bool		is_new;

	SPI_connect();
	if (SPI_execute_plan(plan_for(relid), values, nulls, false, 0) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not file a row in %s", dv_relation_qualified_name(relid));
	entry = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_new);
	if (!is_new)
		dv_replay_refused(DatumGetInt64(entry));
	SPI_finish();
	dv_owner_end(&caller);
}

void
dv_rejects_file(const dv_relation *relation, Oid roleid, const dv_reject *reject)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dataverse reject",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	bool		pushed = !ActiveSnapshotSet();
	Datum		values[NARGS];
	char		nulls[NARGS];

	if (pushed)
		PushActiveSnapshot(GetTransactionSnapshot());
	memset(nulls, ' ', sizeof(nulls));
	set_arg(values, nulls, ARG_ROLE, GetUserNameFromId(roleid, false));
	set_arg(values, nulls, ARG_TABLE, dv_relation_qualified_name(relation->relid));
	values[ARG_ORDINAL] = Int64GetDatum(reject->ordinal);
	nulls[ARG_ORDINAL] = reject->ordinal > 0 ? ' ' : 'n';
	values[ARG_ID] = PointerGetDatum(reject->id);
	nulls[ARG_ID] = reject->id != NULL ? ' ' : 'n';
	set_arg(values, nulls, ARG_SERVER, GetForeignServer(relation->serverid)->servername);
	set_arg(values, nulls, ARG_OPERATION, reject->operation);
	values[ARG_RETRIED] = PointerGetDatum(dv_replay_entries(roleid));
	nulls[ARG_RETRIED] = dv_replay_entries(roleid) != NULL ? ' ' : 'n';
	set_arg(values, nulls, ARG_CODE, reject->code);
	set_arg(values, nulls, ARG_SQLSTATE, unpack_sql_state(reject->sqlstate));
	set_arg(values, nulls, ARG_MESSAGE, reject->message);
	set_row(values, nulls, relation, reject);
	set_object(values, nulls, relation, reject);
	insert(find_table(relation), values, nulls);
	if (pushed)
		PopActiveSnapshot();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * relation.c
 *		Describes how a foreign table and its columns map to Dataverse.
 *
 * IMPORT FOREIGN SCHEMA stores everything in options, so that no query has to
 * read metadata from the service.  A table that is created by hand may omit most
 * of them.  The defaults are:
 *
 *	table		the name of the foreign table
 *	entity_set	none: the service has no rule for its plurals
 *	primary_id	the table's name + "id"
 *	column		the name of the column; _name_value is accepted, too
 *	type		depends on the column's PostgreSQL type; a uuid that is not the
 *				primary id is a lookup
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "dataverse/address.h"
#include "dataverse/header.h"
#include "fdw/dataverse_fdw.h"
#include "fdw/relation.h"
#include "fdw/result_relation.h"
#include "net/url.h"

#define STANDARD_PAGE_SIZE 5000
#define ELASTIC_PAGE_SIZE 500

static const struct
{
	Oid			pgtype;
	int			natural_for;
	dv_type		default_type;
}			conversions[] =

{
#define DV_CONVERSION(pgtype, put, decode, written_as, read_as, natural_for, default_type) \
	{pgtype, natural_for, DV_TYPE_##default_type},
#include "fdw/conversion_list.h"
};

static dv_type
default_type_of(Oid pgtype)
{
	int			i;

	for (i = 0; i < (int) lengthof(conversions); i++)
		if (conversions[i].pgtype == pgtype)
			return conversions[i].default_type;
	return DV_TYPE_OTHER;
}

static bool
is_natural(Oid pgtype, dv_type type)
{
	int			i;

	for (i = 0; i < (int) lengthof(conversions); i++)
		if (conversions[i].pgtype == pgtype)
			return (conversions[i].natural_for & dv_types[type].wire) != 0;
	return false;
}

/* Names become part of URLs without being encoded. */
static void
check_name(const char *name, const char *option, const dv_relation *relation)
{
	if (dv_url_is_name(name))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("\"%s\" is not a valid name in Dataverse", name),
			 errdetail("It is used for %s of foreign table \"%s\".", option, relation->name),
			 errhint("Such names consist of letters, digits, and underscores.  If a column of the foreign table has a different name, set its option \"column\" to the name in Dataverse.")));
}

/* "_ownerid_value" is the property of ownerid. */
static const char *
logical_name(const char *name)
{
	size_t		len = strlen(name);

	if (len > 7 && name[0] == '_' && strcmp(name + len - 6, "_value") == 0)
		return pnstrdup(name + 1, len - 7);
	return name;
}

static void
set_column(dv_column *column, const char *name, dv_type type)
{
	column->name = name;
	column->type = type;
	column->property = dv_type_is_lookup(type) ? psprintf("_%s_value", name) : name;
}

static dv_type
type_of(const dv_relation *relation, const dv_attribute *attribute, dv_options options,
		const char *name)
{
	const char *type_name = dv_option_text(options, DV_OPT_TYPE);
	dv_type		type;

	if (type_name == NULL)
		return strcmp(name, relation->primary_id.name) == 0 ? DV_TYPE_UNIQUEIDENTIFIER :
			default_type_of(attribute->pgtype);
	if (!dv_type_by_name(type_name, &type))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
				 errmsg("invalid value for option \"type\" of column \"%s\" of foreign table \"%s\": \"%s\"",
						attribute->name, relation->name, type_name),
				 errhint("IMPORT FOREIGN SCHEMA sets the right one, and dataverse.import_diff() shows it.")));
	return type;
}

/*
 * Returns true if values that do not fit the column are cut.  Values that
 * identify a row are never cut, because the rest could identify another row.
 */
static bool
is_cut(const dv_relation *relation, dv_options options, const char *name)
{
	const char *partition = dv_option_text(relation->options, DV_OPT_PARTITION_ID);

	if (!dv_option_given(options, DV_OPT_ON_OVERSIZE))
		options = relation->options;
	return dv_option_choice(options, DV_OPT_ON_OVERSIZE) == DV_ON_OVERSIZE_TRUNCATE &&
		(partition == NULL || strcmp(partition, name) != 0);
}

/*
 * Returns true for columns that are calculated when a row is read, by which
 * the service does not sort.  Those that are calculated in advance are stored
 * like any other.
 */
static bool
is_unsorted(dv_options options)
{
	int			source = dv_option_choice(options, DV_OPT_SOURCE);

	return source != DV_SOURCE_SIMPLE && source != DV_SOURCE_ROLLUP;
}

static void
sign(dv_relation *relation, const char *text)
{
	relation->signature = hash_combine(relation->signature, string_hash(text, strlen(text) + 1));
}

static void
sign_options(dv_relation *relation, List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		sign(relation, lfirst_node(DefElem, lc)->defname);
		sign(relation, defGetString(lfirst(lc)));
	}
}

static void
sign_attribute(dv_relation *relation, Form_pg_attribute att, dv_options options)
{
	uint32		type = hash_combine(att->atttypid, hash_combine(att->atttypmod, att->attnum));

	relation->signature = hash_combine(relation->signature, type);
	sign(relation, NameStr(att->attname));
	sign_options(relation, options.first);
}

static void
fill_attribute(dv_relation *relation, Form_pg_attribute att, AttrNumber attnum)
{
	dv_attribute *attribute = &relation->attributes[attnum - 1];
	dv_options	options = {GetForeignColumnOptions(relation->relid, attnum), NIL};
	const char *name = dv_option_text(options, DV_OPT_COLUMN);
	const char *base = dv_option_text(options, DV_OPT_LABEL_OF);

	sign_attribute(relation, att, options);
	attribute->name = pstrdup(NameStr(att->attname));
	attribute->typmod = att->atttypmod;
	attribute->pgtype = getBaseTypeAndTypmod(att->atttypid, &attribute->typmod);
	attribute->domain = attribute->pgtype != att->atttypid ? att->atttypid : InvalidOid;
	attribute->is_label = base != NULL;
	attribute->readonly = dv_option_bool(options, DV_OPT_READONLY);
	attribute->update_only = dv_option_bool(options, DV_OPT_UPDATE_ONLY);
	attribute->create_only = dv_option_bool(options, DV_OPT_CREATE_ONLY);
	attribute->unsorted = is_unsorted(options);
	attribute->typed = dv_option_text(options, DV_OPT_TYPE) != NULL;
	attribute->helper = dv_option_text(options, DV_OPT_HELPER_OF) != NULL;
	attribute->primary_image = dv_option_bool(options, DV_OPT_PRIMARY_IMAGE);
	if (base == NULL)
	{
		base = dv_option_text(options, DV_OPT_REF_TYPE_OF);
		attribute->is_table_name = base != NULL;
	}
	if (name == NULL)
		name = attribute->name;
	name = logical_name(base != NULL ? base : name);
	check_name(name, "a column", relation);
	set_column(&attribute->column, name, type_of(relation, attribute, options, name));
	attribute->natural = is_natural(attribute->pgtype, attribute->column.type);
	attribute->cut = attribute->typmod >= 0 && is_cut(relation, options, name);
	if (attribute->pgtype == VARCHAROID && attribute->typmod > (int32) VARHDRSZ)
		attribute->max_length = attribute->typmod - VARHDRSZ;
}

/*
 * Labels and table names are annotations of the property of another column,
 * which the foreign table need not have.
 */
static void
complete_companion(dv_relation *relation, dv_attribute *attribute)
{
	const char *base = attribute->column.name;
	AttrNumber	attnum = dv_relation_column_called(relation, base);

	if (attnum != 0)
		attribute->column = relation->attributes[attnum - 1].column;
	else
		set_column(&attribute->column, base,
				   attribute->is_table_name ? DV_TYPE_LOOKUP : DV_TYPE_OTHER);
	attribute->member = psprintf("%s@%s", attribute->column.property,
								 attribute->is_label ? DV_ANNOTATION_LABEL : DV_ANNOTATION_TABLE);
}

/*
 * Returns true if the column is a helper by its name, which also names the
 * column it helps.  This recognizes helpers without the option "helper_of".
 */
static bool
is_helper(const dv_relation *relation, const dv_attribute *attribute)
{
	static const struct
	{
		dv_type		type;
		const char *suffix;
	}			helpers[] =
	{
		{DV_TYPE_IMAGE, "_url"}, {DV_TYPE_IMAGE, "_timestamp"}, {DV_TYPE_FILE, "_name"}
	};
	const char *name = attribute->column.name;
	size_t		len = strlen(name);
	int			i;

	for (i = 0; i < (int) lengthof(helpers); i++)
	{
		size_t		end = strlen(helpers[i].suffix);
		AttrNumber	base;

		if (len <= end || strcmp(name + len - end, helpers[i].suffix) != 0)
			continue;
		base = dv_relation_column_of(relation, pnstrdup(name, len - end));
		if (base != 0 && relation->attributes[base - 1].column.type == helpers[i].type)
			return true;
	}
	return false;
}

static void
fill_attributes(dv_relation *relation)
{
	Relation	rel = table_open(relation->relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	int			i;

	relation->natts = desc->natts;
	relation->attributes = palloc0(sizeof(dv_attribute) * Max(desc->natts, 1));
	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && !dv_is_virtual_column(att))
			fill_attribute(relation, att, i + 1);
	}
	table_close(rel, NoLock);

	for (i = 0; i < relation->natts; i++)
	{
		dv_attribute *attribute = &relation->attributes[i];

		if (attribute->name == NULL)
			continue;
		attribute->member = attribute->column.property;
		if (attribute->is_label || attribute->is_table_name)
			complete_companion(relation, attribute);
		else
			attribute->helper = attribute->helper || is_helper(relation, attribute);
	}
}

/*
 * Types that the code relies on
 *
 * Most values are converted by functions that are chosen by the column's type
 * (fdw/conversion_list.h).  The values of the columns below identify a row or a
 * table, so the code reads them directly, as uuid or text.  It would misread the
 * bytes of any other type: the number in a bigint as the address of a uuid.
 */

typedef struct required_type
{
	const char *purpose;
	const char *type;
	Oid			accepted[2];
} required_type;

static void
check_types(const dv_relation *relation)
{
	static const required_type of_id = {"It is the primary id of the rows.", "uuid", {UUIDOID}};
	static const required_type of_side = {"It is one of the two ids that make up a row.", "uuid", {UUIDOID}};
	static const required_type of_partition = {"It is the partition of the rows.", "text", {TEXTOID, VARCHAROID}};
	static const required_type of_table_name = {"It names the table that a lookup refers to.", "text", {TEXTOID, VARCHAROID}};
	AttrNumber	id;
	AttrNumber	partition;
	int			i;

	dv_resultrel_keys(relation, &id, &partition);
	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = &relation->attributes[i - 1];
		const required_type *required = i == id ? &of_id : i == partition ? &of_partition :
		attribute->is_table_name ? &of_table_name :
		dv_relation_is_side(relation, attribute) ? &of_side : NULL;

		if (required == NULL || attribute->pgtype == required->accepted[0] ||
			attribute->pgtype == required->accepted[1])
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
				 errmsg("column \"%s\" of foreign table \"%s\" has type %s, but must have type %s",
						attribute->name, relation->name, format_type_be(attribute->pgtype),
						required->type),
				 errdetail("%s", required->purpose),
				 errhint("Change its type: ALTER FOREIGN TABLE %s ALTER COLUMN %s TYPE %s;",
						 dv_relation_qualified_name(relation->relid),
						 quote_identifier(attribute->name), required->type)));
	}
}

void
dv_relation_check(const dv_relation *relation, uint32 signature)
{
	if (relation->signature == signature)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("foreign table \"%s\" has been altered since the statement was planned",
					relation->name),
			 errhint("Do not alter a table in an SQL function that uses it afterwards.")));
}

char *
dv_relation_qualified_name(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		elog(ERROR, "cache lookup failed for relation %u", relid);
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
}

Oid
dv_relation_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

dv_options
dv_relation_options(Oid relid)
{
	ForeignTable *table = GetForeignTable(relid);
	dv_options	options = {table->options, GetForeignServer(table->serverid)->options};

	return options;
}

dv_relation *
dv_relation_open(Oid relid)
{
	dv_relation *relation = palloc0(sizeof(*relation));
	const char *id;

	relation->relid = relid;
	relation->serverid = GetForeignTable(relid)->serverid;
	relation->name = get_rel_name(relid);
	relation->options = dv_relation_options(relid);
	relation->table = dv_option_text(relation->options, DV_OPT_TABLE);
	if (relation->table == NULL)
		relation->table = relation->name;
	check_name(relation->table, "option \"table\"", relation);
	relation->type = (dv_table_type) dv_option_choice(relation->options, DV_OPT_TABLE_TYPE);
	relation->full_text = dv_option_bool(relation->options, DV_OPT_FULL_TEXT_FILTERS);
	relation->entity_set = dv_option_text(relation->options, DV_OPT_ENTITY_SET);
	if (relation->entity_set == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("option \"entity_set\" of foreign table \"%s\" is not set", relation->name),
				 errdetail("It is the name of the table in URLs of the Web API, such as \"accounts\" for table \"account\"."),
				 errhint("Create the foreign table with IMPORT FOREIGN SCHEMA, or look the name up: SELECT dataverse.request(%s, 'GET', %s);",
						 quote_literal_cstr(GetForeignServer(relation->serverid)->servername),
						 quote_literal_cstr(dv_address_entity_set(relation->table)))));
	check_name(relation->entity_set, "option \"entity_set\"", relation);
	id = dv_option_text(relation->options, DV_OPT_PRIMARY_ID);
	if (id == NULL)
		id = psprintf("%sid", relation->table);
	check_name(id, "option \"primary_id\"", relation);
	set_column(&relation->primary_id, id, DV_TYPE_UNIQUEIDENTIFIER);
	relation->named = dv_option_given(relation->options, DV_OPT_TABLE) ||
		strcmp(id, psprintf("%sid", relation->table)) == 0;
	sign(relation, relation->name);
	sign_options(relation, relation->options.first);
	fill_attributes(relation);
	check_types(relation);
	return relation;
}

static void
check_kind(Oid relid, const char *name)
{
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table with OID %u does not exist", relid)));
	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a foreign table of dataverse_fdw", name)));
}

/*
 * Unlike the tables of a query, this one has not been locked.  Only roles that could
 * lock it with a query may lock it with this function.  Once it is locked, it is
 * known to exist.
 */
dv_relation *
dv_relation_of(Oid relid, AclMode mode)
{
	char	   *name = get_rel_name(relid);

	check_kind(relid, name);
	if (pg_class_aclmask(relid, GetUserId(), mode, ACLMASK_ANY) == 0 &&
		pg_attribute_aclcheck_all(relid, GetUserId(), mode, ACLMASK_ANY) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_TABLE, name);
	LockRelationOid(relid, AccessShareLock);
	if (get_rel_name(relid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("foreign table \"%s\" no longer exists", name)));
	if (!dv_is_our_server(GetForeignServerIdByRelId(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a foreign table of dataverse_fdw", name)));
	return dv_relation_open(relid);
}

const dv_attribute *
dv_relation_attribute(const dv_relation *relation, AttrNumber attnum)
{
	if (attnum < 1 || attnum > relation->natts || relation->attributes[attnum - 1].name == NULL)
		return NULL;
	return &relation->attributes[attnum - 1];
}

static bool
has_values(const dv_attribute *attribute)
{
	return attribute->name != NULL && !attribute->is_label && !attribute->is_table_name;
}

bool
dv_relation_is_side(const dv_relation *relation, const dv_attribute *attribute)
{
	return relation->type == DV_TABLE_INTERSECT && has_values(attribute) &&
		strcmp(attribute->column.name, relation->primary_id.name) != 0 &&
		(attribute->column.type == DV_TYPE_UNIQUEIDENTIFIER || dv_type_is_lookup(attribute->column.type));
}

AttrNumber
dv_relation_column_of(const dv_relation *relation, const char *name)
{
	int			i;

	for (i = 0; name != NULL && i < relation->natts; i++)
		if (has_values(&relation->attributes[i]) &&
			strcmp(relation->attributes[i].column.name, name) == 0)
			return i + 1;
	return 0;
}

AttrNumber
dv_relation_column_called(const dv_relation *relation, const char *name)
{
	int			i;

	for (i = 0; i < relation->natts; i++)
		if (has_values(&relation->attributes[i]) &&
			(strcmp(relation->attributes[i].column.name, name) == 0 ||
			 strcmp(relation->attributes[i].name, name) == 0))
			return i + 1;
	return 0;
}

AttrNumber
dv_relation_table_name_of(const dv_relation *relation, const dv_attribute *lookup)
{
	int			i;

	for (i = 0; i < relation->natts; i++)
		if (relation->attributes[i].name != NULL && relation->attributes[i].is_table_name &&
			strcmp(relation->attributes[i].column.name, lookup->column.name) == 0)
			return i + 1;
	return 0;
}

int
dv_relation_page_size(const dv_relation *relation)
{
	int			most = relation->type == DV_TABLE_ELASTIC ? ELASTIC_PAGE_SIZE : STANDARD_PAGE_SIZE;

	if (!dv_option_given(relation->options, DV_OPT_PAGE_SIZE))
		return most;
	return Min(dv_option_int(relation->options, DV_OPT_PAGE_SIZE), most);
}

dv_progress *
dv_relation_progress(const dv_relation *relation, const char *operation, double total,
					 MemoryContext owner)
{
	char	   *name = dv_relation_qualified_name(relation->relid);
	dv_progress *progress = dv_progress_begin(relation->serverid,
											  GetForeignServer(relation->serverid)->servername,
											  name, operation, total, owner);

	pfree(name);
	return progress;
}

/*
 * Targets of lookups, according to the options of the column
 */

/* Returns the names in a comma-separated option, or NIL if it is not set. */
static List *
names_of(dv_options options, dv_option option)
{
	const char *text = dv_option_text(options, option);
	List	   *names = NIL;

	while (text != NULL)
	{
		const char *comma = strchr(text, ',');
		size_t		len = comma != NULL ? (size_t) (comma - text) : strlen(text);

		for (; len > 0 && *text == ' '; len--)
			text++;
		while (len > 0 && text[len - 1] == ' ')
			len--;
		names = lappend(names, pnstrdup(text, len));
		text = comma != NULL ? comma + 1 : NULL;
	}
	return names;
}

const char *
dv_lookup_name(const List *names, int i)
{
	return i < list_length(names) ? list_nth(names, i) : NULL;
}

/* Tables that are created by hand need not specify the targets of owners and customers. */
void
dv_lookup_read(const dv_column *column, dv_options options, dv_lookup *lookup)
{
	lookup->tables = names_of(options, DV_OPT_TARGET);
	lookup->sets = names_of(options, DV_OPT_TARGET_SET);
	lookup->navigations = names_of(options, DV_OPT_NAVIGATION);
	if (lookup->tables != NIL || lookup->sets != NIL)
		return;
	if (column->type == DV_TYPE_OWNER)
	{
		lookup->tables = list_make2("systemuser", "team");
		lookup->sets = list_make2("systemusers", "teams");
	}
	else if (column->type == DV_TYPE_CUSTOMER)
	{
		lookup->tables = list_make2("account", "contact");
		lookup->sets = list_make2("accounts", "contacts");
	}
}

/*
 * The default is the column's name, to which the service adds the name of the
 * table if the lookup has several.
 */
const char *
dv_lookup_navigation(const dv_lookup *lookup, const dv_column *column, int i)
{
	const char *table = dv_lookup_name(lookup->tables, i);

	if (list_length(lookup->navigations) == 1)
		return linitial(lookup->navigations);
	if (i < list_length(lookup->navigations))
		return list_nth(lookup->navigations, i);
	if (list_length(lookup->sets) <= 1 || column->type == DV_TYPE_OWNER || table == NULL)
		return column->name;
	return psprintf("%s_%s", column->name, table);
}

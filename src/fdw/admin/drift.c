/*
 * drift.c
 *		dataverse.import_diff(): shows what has changed in Dataverse since the
 *		foreign tables of a schema were created.
 *
 * The foreign tables are read from the catalogs, and the definitions of their
 * tables are requested in the same way as by IMPORT FOREIGN SCHEMA.  Then the
 * existing tables are compared with those that would be imported today.
 * Tables and columns are matched by their names in Dataverse, because those in
 * PostgreSQL may have been changed.  For a column that was created by hand,
 * only the options that it has are compared.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_type.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "client/catalog.h"
#include "compat.h"
#include "fdw/admin/import.h"
#include "fdw/connection.h"
#include "fdw/dataverse_fdw.h"
#include "fdw/result.h"
#include "net/text.h"

#define WHAT "compare foreign tables with Dataverse"

DV_FUNCTION(dataverse_import_diff);

typedef struct local_column
{
	const char *name;
	const char *column;			/* logical name; NULL if it depends on another column */
	const char *ref_type_of;
	const char *label_of;
	dv_options	options;
	Oid			type;
	int32		typmod;
	bool		collated;		/* dataverse.ci_ai */
	bool		found;			/* in Dataverse, too */
} local_column;

typedef struct local_table
{
	Oid			serverid;
	const char *name;
	const char *qualified;		/* quoted, for statements */
	const char *table;			/* logical name */
	dv_options	options;
	local_column *columns;
	int			ncolumns;
	bool		has_readonly;	/* read-only columns were imported */
	bool		has_labels;
	bool		has_collation;
	bool		has_lengths;	/* texts were imported with their maximum length */
	bool		found;
} local_table;

typedef struct drift_state
{
	ReturnSetInfo *result;
	const char *schema;
	List	   *tables;			/* List of local_table */
	Oid			serverid;		/* of the server that is being compared */
} drift_state;

/*
 * Reading the foreign tables.
 */

static const char *
given_text(dv_options options, dv_option option)
{
	return dv_option_given(options, option) ? dv_option_text(options, option) : NULL;
}

static void
read_column(local_table *table, Oid relid, Form_pg_attribute attribute, Oid collation)
{
	local_column *column = &table->columns[table->ncolumns++];

	column->name = pstrdup(NameStr(attribute->attname));
	column->options.first = GetForeignColumnOptions(relid, attribute->attnum);
	column->ref_type_of = dv_option_text(column->options, DV_OPT_REF_TYPE_OF);
	column->label_of = dv_option_text(column->options, DV_OPT_LABEL_OF);
	if (column->ref_type_of == NULL && column->label_of == NULL)
	{
		column->column = dv_option_text(column->options, DV_OPT_COLUMN);
		if (column->column == NULL)
			column->column = column->name;
	}
	column->type = attribute->atttypid;
	column->typmod = attribute->atttypmod;
	if (column->type == VARCHAROID)
		table->has_lengths = true;

	if (column->label_of != NULL)
		table->has_labels = true;
	column->collated = OidIsValid(collation) && attribute->attcollation == collation;

	if (column->collated)
		table->has_collation = true;
}

static local_table *
read_table(Oid relid, const char *schema)
{
	local_table *table = palloc0(sizeof(*table));
	ForeignTable *foreign = GetForeignTable(relid);
	Relation	rel = relation_open(relid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	Oid			collation = get_collation_oid(list_make2(makeString("dataverse"), makeString("ci_ai")),
											  true);
	int			i;

	table->serverid = foreign->serverid;
	table->name = pstrdup(RelationGetRelationName(rel));
	table->qualified = quote_qualified_identifier(schema, table->name);
	table->options.first = foreign->options;
	table->table = dv_option_text(table->options, DV_OPT_TABLE);
	if (table->table == NULL)
		table->table = table->name;
	table->columns = palloc0(Max(desc->natts, 1) * sizeof(*table->columns));
	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && !dv_is_virtual_column(att))
			read_column(table, relid, att, collation);
	}
	relation_close(rel, AccessShareLock);
	return table;
}

static int
compare_tables(const ListCell *a, const ListCell *b)
{
	return strcmp(((local_table *) lfirst(a))->name, ((local_table *) lfirst(b))->name);
}

static List *
read_tables(Oid schemaid, const char *schema)
{
	Relation	catalog = table_open(ForeignTableRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *tables = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);

		if (get_rel_namespace(form->ftrelid) == schemaid && dv_is_our_server(form->ftserver))
			tables = lappend(tables, read_table(form->ftrelid, schema));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	list_sort(tables, compare_tables);
	return tables;
}

/*
 * Reporting differences.
 */

#define DRIFT_COLUMNS 6

/* Reports a difference; NULL pointers become nulls. */
static void
report(drift_state *state, const char *table, const char *column, const char *drift,
	   const char *local, const char *remote, const char *statement)
{
	const char *const row[DRIFT_COLUMNS] = {table, column, drift, local, remote, statement};
	Datum		values[DRIFT_COLUMNS] = {0};
	bool		nulls[DRIFT_COLUMNS];
	int			i;

	for (i = 0; i < DRIFT_COLUMNS; i++)
	{
		nulls[i] = row[i] == NULL;
		if (!nulls[i])
			values[i] = CStringGetTextDatum(row[i]);
	}
	dv_result_add(state->result, values, nulls);
}

/* Returns the action of ALTER FOREIGN TABLE that changes an option to its value in Dataverse. */
static const char *
option_action(const char *name, const char *local, const char *remote)
{
	if (remote == NULL)
		return psprintf("OPTIONS (DROP %s)", quote_identifier(name));
	return psprintf("OPTIONS (%s %s %s)", local != NULL ? "SET" : "ADD", quote_identifier(name),
					quote_literal_cstr(remote));
}

/*
 * Compares the options of a table or, if "column" is not NULL, of a column.  If
 * it was not imported but created by hand, it need not have all options.
 */
static void
compare_options(drift_state *state, const local_table *table, const local_column *column,
				const dv_import_option *options, int n, bool imported)
{
	dv_options	ours = column != NULL ? column->options : table->options;
	int			i;

	for (i = 0; i < n; i++)
	{
		dv_option	option = options[i].option;
		const char *name = dv_option_name(option);
		const char *remote = options[i].value;
		const char *local = given_text(ours, option);
		const char *action;

		if (local == NULL && !imported)
			continue;
		if (option == DV_OPT_READONLY && dv_option_bool(ours, option) == (remote != NULL))
			continue;
		if (local == remote || (local != NULL && remote != NULL && strcmp(local, remote) == 0))
			continue;
		action = option_action(name, local, remote);
		if (column != NULL)
			action = psprintf("ALTER COLUMN %s %s", quote_identifier(column->name), action);
		report(state, table->name, column != NULL ? column->name : NULL,
			   psprintf("option %s", name), local, remote,
			   psprintf("ALTER FOREIGN TABLE %s %s", table->qualified, action));
	}
}

static void
compare_type(drift_state *state, const local_table *table, const local_column *column,
			 const dv_meta_column *remote)
{
	const char *sql = dv_import_type_sql(remote, table->has_lengths);
	Oid			type;
	int32		typmod;

	dv_parse_type(sql, &type, &typmod);
	if (type == column->type && typmod == column->typmod)
		return;
	report(state, table->name, column->name, "type",
		   format_type_with_typemod(column->type, column->typmod),
		   format_type_with_typemod(type, typmod),
		   psprintf("ALTER FOREIGN TABLE %s ALTER COLUMN %s TYPE %s%s", table->qualified,
					quote_identifier(column->name), sql,
					column->collated && remote->text ? " COLLATE dataverse.ci_ai" : ""));
}

static void
report_new_column(drift_state *state, const local_table *table, const dv_meta_column *remote)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "ALTER FOREIGN TABLE %s ADD COLUMN ", table->qualified);
	dv_import_column_sql(&sql, remote, table->has_lengths, table->has_collation);
	report(state, table->name, remote->name, "new column", NULL,
		   dv_import_type_sql(remote, table->has_lengths) + strlen("pg_catalog."), sql.data);
}

/*
 * Comparing.
 */

static bool
is_same(const char *a, const char *b)
{
	return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static local_column *
find_column(const local_table *table, const dv_meta_column *remote)
{
	int			i;

	for (i = 0; i < table->ncolumns; i++)
	{
		local_column *local = &table->columns[i];

		if (is_same(local->column, remote->column) ||
			is_same(local->ref_type_of, remote->ref_type_of) ||
			is_same(local->label_of, remote->label_of))
			return local;
	}
	return NULL;
}

/*
 * Returns true for columns that the import left out, which are not new:
 * labels, read-only columns, and the columns that depend on these.
 */
static bool
is_left_out(const local_table *table, const dv_meta_table *remote, const dv_meta_column *column)
{
	const char *leader = column->ref_type_of != NULL ? column->ref_type_of : column->label_of;
	int			i;

	if (column->label_of != NULL && !table->has_labels)
		return true;
	if (leader == NULL)
		return column->left_out && !table->has_readonly;
	for (i = 0; i < remote->ncolumns; i++)
		if (is_same(remote->columns[i].column, leader))
			return find_column(table, &remote->columns[i]) == NULL &&
				is_left_out(table, remote, &remote->columns[i]);
	return false;
}

/* Some columns that cannot be written are imported in any case, such as primary keys. */
static bool
has_readonly(const local_table *local, const dv_meta_table *remote)
{
	int			i;

	for (i = 0; i < remote->ncolumns; i++)
		if (remote->columns[i].left_out && find_column(local, &remote->columns[i]) != NULL)
			return true;
	return false;
}

static void
compare_table(drift_state *state, local_table *local, const dv_meta_table *remote)
{
	dv_import_option table_options[DV_IMPORT_TABLE_OPTIONS];
	dv_import_option options[DV_IMPORT_COLUMN_OPTIONS];
	int			i;

	local->found = true;
	local->has_readonly = has_readonly(local, remote);
	dv_import_table_options(remote, table_options);
	compare_options(state, local, NULL, table_options, DV_IMPORT_TABLE_OPTIONS,
					dv_option_given(local->options, DV_OPT_ENTITY_SET));
	for (i = 0; i < remote->ncolumns; i++)
	{
		const dv_meta_column *column = &remote->columns[i];
		local_column *match = find_column(local, column);

		CHECK_FOR_INTERRUPTS();
		if (match == NULL)
		{
			if (!is_left_out(local, remote, column))
				report_new_column(state, local, column);
			continue;
		}
		match->found = true;
		compare_type(state, local, match, column);
		dv_import_column_options(column, options);
		compare_options(state, local, match, options, DV_IMPORT_COLUMN_OPTIONS,
						column->column == NULL || dv_option_given(match->options, DV_OPT_TYPE));
	}
	for (i = 0; i < local->ncolumns; i++)
		if (!local->columns[i].found)
			report(state, local->name, local->columns[i].name, "removed column",
				   format_type_with_typemod(local->columns[i].type, local->columns[i].typmod), NULL,
				   psprintf("ALTER FOREIGN TABLE %s DROP COLUMN %s", local->qualified,
							quote_identifier(local->columns[i].name)));
}

/* Several foreign tables may belong to the same table in Dataverse. */
static void
visit_table(const dv_meta_table *remote, void *arg)
{
	drift_state *state = arg;
	ListCell   *lc;

	foreach(lc, state->tables)
	{
		local_table *local = lfirst(lc);

		if (local->serverid == state->serverid && strcmp(local->table, remote->table) == 0)
		{
			int			i;

			for (i = 0; i < local->ncolumns; i++)
				local->columns[i].found = false;
			compare_table(state, local, remote);
		}
	}
}

static void
report_removed(drift_state *state)
{
	ListCell   *lc;

	foreach(lc, state->tables)
	{
		local_table *local = lfirst(lc);

		if (local->serverid == state->serverid && !local->found)
			report(state, local->name, NULL, "removed table", local->table, NULL,
				   psprintf("DROP FOREIGN TABLE %s", local->qualified));
	}
}

static void
report_new_tables(drift_state *state, const dv_meta_catalog *catalog, const char *server)
{
	size_t		i;

	for (i = 0; i < catalog->n; i++)
	{
		const dv_meta_entry *entry = &catalog->entries[i];
		const char *local;

		if (entry->wanted || entry->internal)
			continue;
		local = dv_text_in(entry->local, strlen(entry->local));
		report(state, local, NULL, "new table", NULL,
			   dv_text_in(entry->table, strlen(entry->table)),
			   psprintf("IMPORT FOREIGN SCHEMA dataverse LIMIT TO (%s) FROM SERVER %s INTO %s",
						quote_identifier(local), quote_identifier(server),
						quote_identifier(state->schema)));
	}
}

/* Returns true if the schema contains at least half of the tables that would be imported. */
static bool
is_most_of(const dv_meta_catalog *catalog)
{
	size_t		all = 0;
	size_t		local = 0;
	size_t		i;

	for (i = 0; i < catalog->n; i++)
	{
		all += !catalog->entries[i].internal;
		local += catalog->entries[i].wanted;
	}
	return local * 2 >= all;
}

static void
compare_server(drift_state *state, bool new_tables, bool guess)
{
	ForeignServer *server = GetForeignServer(state->serverid);
	AclResult	acl = dv_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);
	dv_meta_wish wish = {.labels = false, .readonly = true, .comments = false,
	.bytes = GetDatabaseEncoding() == PG_SQL_ASCII};
	dv_catalog_reader reader = {.visit = visit_table, .arg = state, .what = WHAT,
	.operation = "compare", .schema = state->schema};
	dv_session *session;
	dv_meta_catalog *catalog;
	bool		any = false;
	ListCell   *lc;

	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_FOREIGN_SERVER, server->servername);
	session = dv_connection_get(server->serverid, GetUserId());
	catalog = dv_catalog_get(session, WHAT);
	foreach(lc, state->tables)
	{
		local_table *local = lfirst(lc);
		dv_meta_entry *entry = dv_meta_find(catalog, local->table);

		if (local->serverid != state->serverid)
			continue;
		wish.labels = wish.labels || local->has_labels;
		if (entry != NULL)
			any = entry->wanted = true;
	}
	if (any)
		dv_catalog_definitions(session, catalog, &wish, &reader);
	report_removed(state);
	if (guess ? is_most_of(catalog) : new_tables)
		report_new_tables(state, catalog, server->servername);
}

/*
 * import_diff(schema, new_tables): if new_tables is null, new tables are shown
 * only if apparently all tables had been imported into the schema.
 */
Datum
dataverse_import_diff(PG_FUNCTION_ARGS)
{
	drift_state state = {0};
	List	   *servers = NIL;
	ListCell   *lc;
	Oid			schemaid;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("argument \"schema\" is null"),
				 errhint("Name the schema of the foreign tables.")));
	state.schema = NameStr(*PG_GETARG_NAME(0));
	schemaid = get_namespace_oid(state.schema, false);
	state.result = dv_result_rows(fcinfo, DRIFT_COLUMNS);
	state.tables = read_tables(schemaid, state.schema);
	if (state.tables == NIL)
		ereport(NOTICE,
				(errmsg("schema \"%s\" has no foreign tables of dataverse_fdw", state.schema),
				 errhint("Create them with IMPORT FOREIGN SCHEMA.")));
	foreach(lc, state.tables)
		servers = list_append_unique_oid(servers, ((local_table *) lfirst(lc))->serverid);
	foreach(lc, servers)
	{
		state.serverid = lfirst_oid(lc);
		compare_server(&state, !PG_ARGISNULL(1) && PG_GETARG_BOOL(1), PG_ARGISNULL(1));
	}
	return (Datum) 0;
}

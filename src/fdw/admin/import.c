/*
 * import.c
 *		IMPORT FOREIGN SCHEMA.
 *
 * The remote schema is "dataverse", which contains all tables that can be read,
 * or the unique name of a solution, which contains the solution's tables.  The
 * names in LIMIT TO and EXCEPT are looked up in the list of all tables, and only
 * the definitions of the wanted tables are requested (client/catalog.c).
 *
 * PostgreSQL accepts only CREATE FOREIGN TABLE commands from a foreign-data
 * wrapper, and these cannot contain comments.  The comments are therefore kept
 * here until ProcessUtility_hook sees that their command has been executed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "nodes/plannodes.h"
#include "nodes/value.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

#include "client/catalog.h"
#include "compat.h"
#include "dataverse/error.h"
#include "fdw/admin/import.h"
#include "fdw/connection.h"
#include "net/text.h"

#define ALL_TABLES "dataverse"
#define WHAT       "import foreign schema"

/* the most existing tables that an error names */
#define EXISTING_MAX 20

typedef struct import_options
{
	bool		labels;
	bool		collation;
	bool		readonly;
	bool		text_lengths;
	bool		comments;
} import_options;

static const struct
{
	const char *name;
	size_t		offset;
	bool		value;			/* the default */
}			option_rules[] = {
	{"import_labels", offsetof(import_options, labels), false},
	{"import_collation", offsetof(import_options, collation), false},
	{"import_readonly", offsetof(import_options, readonly), true},
	{"import_text_lengths", offsetof(import_options, text_lengths), true},
	{"import_comments", offsetof(import_options, comments), true},
};

/* A comment that waits for its table. */
typedef struct waiting_comment
{
	const char *column;			/* NULL for the table itself */
	const char *text;
} waiting_comment;

typedef struct waiting_table
{
	const char *name;
	List	   *comments;		/* List of waiting_comment */
} waiting_table;

/* State of the import that is being executed. */
static bool importing = false;
static List *waiting_tables = NIL;


/*
 * Options of the statement.
 */

static import_options
read_options(List *list)
{
	import_options result;
	ListCell   *lc;
	size_t		i;

	for (i = 0; i < lengthof(option_rules); i++)
		*(bool *) ((char *) &result + option_rules[i].offset) = option_rules[i].value;
	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		for (i = 0; i < lengthof(option_rules); i++)
			if (strcmp(def->defname, option_rules[i].name) == 0)
				break;
		if (i == lengthof(option_rules))
			ereport(
					ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\" for IMPORT FOREIGN SCHEMA", def->defname),
					 errhint(
							 "Valid options are: import_labels, import_collation, import_readonly, import_text_lengths, import_comments.")));
		*(bool *) ((char *) &result + option_rules[i].offset) = defGetBoolean(def);
	}
	return result;
}

static void
check_collation(void)
{
	List	   *name = list_make2(makeString("dataverse"), makeString("ci_ai"));

	if (!OidIsValid(get_collation_oid(name, true)))
		ereport(
				ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg(
						"cannot import with \"import_collation\": collation \"dataverse.ci_ai\" does not exist"),
				 errdetail(
						   "The extension creates it if PostgreSQL is built with ICU and ICU supports the encoding of the database.")));
}

/*
 * Choosing tables.
 */

/* Returns the table with the most similar name among those that could be imported, or NULL. */
static const char *
nearest_table(const dv_meta_catalog *catalog, const char *name)
{
	const char *nearest = NULL;
	int			best = Min((int) strlen(name) / 3, 4) + 1;
	size_t		i;

	for (i = 0; i < catalog->n; i++)
	{
		const char *local = dv_text_shown(catalog->entries[i].local,
										  strlen(catalog->entries[i].local));
		int			distance;

		CHECK_FOR_INTERRUPTS();
		distance = !catalog->entries[i].wanted
			? best
			: varstr_levenshtein_less_equal(name, strlen(name), local, strlen(local),
											1, 1, 1, best, true);

		if (distance < best)
		{
			best = distance;
			nearest = local;
		}
	}
	return nearest;
}

/* Warns of a name in LIMIT TO that does not exist, which PostgreSQL ignores silently. */
static void
warn_of_name(const dv_meta_catalog *catalog, ImportForeignSchemaStmt *stmt, const char *name)
{
	const char *nearest = nearest_table(catalog, name);

	if (strcmp(stmt->remote_schema, ALL_TABLES) == 0)
		ereport(WARNING,
				(errcode(ERRCODE_FDW_TABLE_NOT_FOUND),
				 errmsg("table \"%s\" does not exist on server \"%s\"", name, stmt->server_name),
				 nearest != NULL ? errhint("Perhaps you meant the table \"%s\".", nearest) :
				 errhint(DV_TABLE_NAME_HINT)));
	else
		ereport(WARNING,
				(errcode(ERRCODE_FDW_TABLE_NOT_FOUND),
				 errmsg("table \"%s\" does not exist in solution \"%s\"", name, stmt->remote_schema),
				 nearest != NULL ? errhint("Perhaps you meant the table \"%s\".", nearest) :
				 errhint("Remote schema \"%s\" contains the tables of all solutions.", ALL_TABLES)));
}

/*
 * Among the tables that are marked as wanted, keeps those that the statement
 * selects.  Internal tables are imported only if LIMIT TO names them.
 */
static void
mark_wanted(dv_meta_catalog *catalog, ImportForeignSchemaStmt *stmt)
{
	bool	   *listed = palloc0(Max(catalog->n, 1) * sizeof(bool));
	ListCell   *lc;
	size_t		i;

	foreach(lc, stmt->table_list)
	{
		const char *name = lfirst_node(RangeVar, lc)->relname;
		dv_meta_entry *entry = dv_meta_find_local(catalog, dv_text_to_utf8(name));

		CHECK_FOR_INTERRUPTS();
		if (entry != NULL)
			listed[entry - catalog->entries] = true;
		if (stmt->list_type == FDW_IMPORT_SCHEMA_LIMIT_TO && (entry == NULL || !entry->wanted))
			warn_of_name(catalog, stmt, name);
	}
	for (i = 0; i < catalog->n; i++)
	{
		dv_meta_entry *entry = &catalog->entries[i];

		if (stmt->list_type == FDW_IMPORT_SCHEMA_LIMIT_TO)
			entry->wanted = entry->wanted && listed[i];
		else
			entry->wanted = entry->wanted && !listed[i] && !entry->internal;
	}
}

static bool
any_wanted(const dv_meta_catalog *catalog)
{
	size_t		i;

	for (i = 0; i < catalog->n; i++)
		if (catalog->entries[i].wanted)
			return true;
	return false;
}

/*
 * Refuses to import tables whose names are taken, all of them at once.  PostgreSQL would
 * name the first one only, after all definitions have been requested.
 */
static void
refuse_existing(const dv_meta_catalog *catalog, ImportForeignSchemaStmt *stmt)
{
	Oid			schema = get_namespace_oid(stmt->local_schema, false);
	StringInfoData names;
	int			existing = 0;
	size_t		i;

	initStringInfo(&names);
	for (i = 0; i < catalog->n; i++)
	{
		const dv_meta_entry *entry = &catalog->entries[i];
		const char *local = entry->wanted ? dv_text_in(entry->local, strlen(entry->local)) : NULL;

		if (local == NULL || !OidIsValid(get_relname_relid(local, schema)))
			continue;
		if (++existing <= EXISTING_MAX)
			appendStringInfo(&names, "%s\"%s\"", existing > 1 ? ", " : "", local);
	}
	if (existing == 0)
		return;
	if (existing > EXISTING_MAX)
		appendStringInfoString(&names, ", ...");
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg_plural("relation %s already exists in schema \"%s\"",
						   "relations %s already exist in schema \"%s\"",
						   existing, names.data, stmt->local_schema),
			 stmt->list_type == FDW_IMPORT_SCHEMA_LIMIT_TO ?
			 errhint("Omit existing relations from LIMIT TO, or drop them first.  To see what has changed in Dataverse since the import, call dataverse.import_diff().") :
			 errhint("Exclude existing relations with EXCEPT (%s), or drop them first.  To see what has changed in Dataverse since the import, call dataverse.import_diff().",
					 names.data)));
}

/*
 * The commands.
 */

void
dv_import_table_options(const dv_meta_table *table,
						dv_import_option options[DV_IMPORT_TABLE_OPTIONS])
{
	const dv_import_option all[DV_IMPORT_TABLE_OPTIONS] = {
		{DV_OPT_TABLE, table->table},
		{DV_OPT_ENTITY_SET, table->entity_set},
		{DV_OPT_PRIMARY_ID, table->primary_id},
		{DV_OPT_TABLE_TYPE, table->table_type},
		{DV_OPT_PARTITION_ID, table->partition_id},
		{DV_OPT_KEYS, table->keys},
	};

	memcpy(options, all, sizeof(all));
}

void
dv_import_column_options(const dv_meta_column *column,
						 dv_import_option options[DV_IMPORT_COLUMN_OPTIONS])
{
	const dv_import_option all[DV_IMPORT_COLUMN_OPTIONS] = {
		{DV_OPT_COLUMN, column->column},
		{DV_OPT_TYPE, column->column != NULL ? dv_types[column->type].name : NULL},
		{DV_OPT_NAVIGATION, column->navigation},
		{DV_OPT_TARGET, column->target},
		{DV_OPT_TARGET_SET, column->target_set},
		{DV_OPT_REF_TYPE_OF, column->ref_type_of},
		{DV_OPT_LABEL_OF, column->label_of},
		{DV_OPT_HELPER_OF, column->helper_of},
		{DV_OPT_SOURCE, column->source},
		{DV_OPT_READONLY, column->readonly ? "true" : NULL},
		{DV_OPT_UPDATE_ONLY, column->update_only ? "true" : NULL},
		{DV_OPT_CREATE_ONLY, column->create_only ? "true" : NULL},
		{DV_OPT_PRIMARY_IMAGE, column->primary_image ? "true" : NULL},
	};

	memcpy(options, all, sizeof(all));
}

static void
append_options(StringInfo sql, const dv_import_option *options, int n)
{
	const char *separator = " OPTIONS (";
	int			i;

	for (i = 0; i < n; i++)
	{
		if (options[i].value == NULL)
			continue;
		appendStringInfo(sql, "%s%s %s", separator, quote_identifier(dv_option_name(options[i].option)),
						 quote_literal_cstr(options[i].value));
		separator = ", ";
	}
	if (separator[0] == ',')
		appendStringInfoChar(sql, ')');
}

/* Returns the qualified name, which does not depend on search_path. */
const char *
dv_import_type_sql(const dv_meta_column *column, bool lengths)
{
	if (!lengths && strncmp(column->sql, "varchar(", strlen("varchar(")) == 0)
		return "pg_catalog.text";
	return psprintf("pg_catalog.%s", column->sql);
}

void
dv_import_column_sql(StringInfo sql, const dv_meta_column *column, bool lengths, bool collate)
{
	dv_import_option options[DV_IMPORT_COLUMN_OPTIONS];

	dv_import_column_options(column, options);
	appendStringInfo(sql, "%s %s", quote_identifier(column->name),
					 dv_import_type_sql(column, lengths));
	append_options(sql, options, DV_IMPORT_COLUMN_OPTIONS);
	if (collate && column->text)
		appendStringInfoString(sql, " COLLATE dataverse.ci_ai");
}

/*
 * Returns true if the ids of new rows are generated locally.  A default shows
 * this to clients that look for columns they may omit, and to tables created with
 * LIKE … INCLUDING DEFAULTS.
 */
static bool
makes_ids(const dv_meta_table *table, const dv_meta_column *column)
{
	return table->primary_id != NULL && column->column != NULL && !column->readonly &&
		strcmp(column->column, table->primary_id) == 0 &&
		(strcmp(table->table_type, "standard") == 0 || strcmp(table->table_type, "elastic") == 0);
}

static char *
command_for(const dv_meta_table *table, const char *server, bool lengths, bool collate)
{
	dv_import_option options[DV_IMPORT_TABLE_OPTIONS];
	StringInfoData sql;
	int			i;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE FOREIGN TABLE %s (", quote_identifier(table->local));
	for (i = 0; i < table->ncolumns; i++)
	{
		appendStringInfoString(&sql, i > 0 ? ",\n  " : "\n  ");
		dv_import_column_sql(&sql, &table->columns[i], lengths, collate);
		if (makes_ids(table, &table->columns[i]))
			appendStringInfoString(&sql, " DEFAULT dataverse.new_id()");
	}
	appendStringInfo(&sql, "\n) SERVER %s", quote_identifier(server));
	dv_import_table_options(table, options);
	append_options(&sql, options, DV_IMPORT_TABLE_OPTIONS);
	return sql.data;
}

/*
 * Comments.
 */

/*
 * A comment may contain characters that the database encoding does not have.
 * Then we omit the comment rather than the table.
 */
static void
add_comment(waiting_table *table, const char *column, const char *utf8)
{
	waiting_comment *comment = palloc(sizeof(*comment));

	comment->column = column != NULL ? pstrdup(column) : NULL;
	comment->text = utf8 != NULL ? dv_text_in_if_possible(utf8, strlen(utf8)) : NULL;
	if (comment->text != NULL)
		table->comments = lappend(table->comments, comment);
}

static void
add_comments(const dv_meta_table *table)
{
	waiting_table *waiting = palloc0(sizeof(*waiting));
	int			i;

	waiting->name = pstrdup(table->local);
	add_comment(waiting, NULL, table->comment);
	for (i = 0; i < table->ncolumns; i++)
		add_comment(waiting, table->columns[i].name, table->columns[i].comment);
	if (waiting->comments != NIL)
		waiting_tables = lappend(waiting_tables, waiting);
}

/* Called when the memory of the import is reset, which also happens after an error. */
static void
forget_import(void *arg)
{
	importing = false;
	waiting_tables = NIL;
}

static void
begin_import(void)
{
	MemoryContextCallback *callback = palloc0(sizeof(*callback));

	waiting_tables = NIL;
	callback->func = forget_import;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	importing = true;
}

static void
write_comments(const waiting_table *table, Oid relid)
{
	ListCell   *lc;

	foreach(lc, table->comments)
	{
		const waiting_comment *comment = lfirst(lc);
		AttrNumber	number = 0;

		if (comment->column != NULL)
			number = get_attnum(relid, comment->column);
		if (comment->column == NULL || number > 0)
			CreateComments(relid, RelationRelationId, number, comment->text);
	}
}

/* Writes the comments of a table that has just been created. */
static void
comment_on_table(CreateForeignTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, waiting_tables)
	{
		waiting_table *table = lfirst(lc);
		Oid			relid;

		if (strcmp(table->name, stmt->base.relation->relname) != 0)
			continue;
		/* make the table visible */
		CommandCounterIncrement();
		relid = RangeVarGetRelid(stmt->base.relation, NoLock, true);
		if (OidIsValid(relid))
			write_comments(table, relid);
		waiting_tables = foreach_delete_current(waiting_tables, lc);
		return;
	}
}

/*
 * Creating a table leaves a megabyte of garbage until the statement ends, and an
 * import creates hundreds of tables, so each gets a memory context of its own.
 */
MemoryContext
dv_import_begin_table(const PlannedStmt *pstmt, ProcessUtilityContext context)
{
	MemoryContext scratch;

	if (!importing || context != PROCESS_UTILITY_SUBCOMMAND ||
		!IsA(pstmt->utilityStmt, CreateForeignTableStmt))
		return NULL;
	scratch = AllocSetContextCreate(CurrentMemoryContext, "dataverse import",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(scratch);
	return scratch;
}

void
dv_import_end_table(const PlannedStmt *pstmt, MemoryContext scratch)
{
	comment_on_table((CreateForeignTableStmt *) pstmt->utilityStmt);
	MemoryContextSwitchTo(MemoryContextGetParent(scratch));
	MemoryContextDelete(scratch);
}

/*
 * The callback.
 */

typedef struct import_state
{
	ImportForeignSchemaStmt *stmt;
	import_options options;
	MemoryContext keep;
	List	   *commands;
} import_state;

static void
visit_table(const dv_meta_table *table, void *arg)
{
	import_state *state = arg;
	MemoryContext old = MemoryContextSwitchTo(state->keep);

	if (table->ncolumns > DV_META_COLUMNS_MAX)
		ereport(WARNING, (errcode(ERRCODE_TOO_MANY_COLUMNS),
						  errmsg("table \"%s\" is not imported", table->table),
						  errdetail("It would have %d columns, but foreign tables can have at most %d.",
									table->ncolumns, DV_META_COLUMNS_MAX),
						  errhint("Omit columns by setting \"import_readonly\" to \"off\", or create the foreign table with the columns that you need.")));
	else
	{
		if (table->without_labels)
			ereport(WARNING, (errcode(ERRCODE_TOO_MANY_COLUMNS),
							  errmsg("table \"%s\" is imported without labels", table->table),
							  errdetail("With labels, it would have more than %d columns.",
										DV_META_COLUMNS_MAX)));
		state->commands = lappend(state->commands, command_for(table, state->stmt->server_name,
															   state->options.text_lengths,
															   state->options.collation));
		if (state->options.comments)
			add_comments(table);
	}
	MemoryContextSwitchTo(old);
}

List *
dataverseImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverOid)
{
	dv_session *session;
	dv_meta_catalog *catalog;
	import_state state = {.stmt = stmt, .keep = CurrentMemoryContext};
	dv_catalog_reader reader = {.visit = visit_table, .arg = &state, .what = WHAT,
	.operation = "import", .schema = stmt->remote_schema};
	dv_meta_wish wish = {0};
	bool		all = strcmp(stmt->remote_schema, ALL_TABLES) == 0;
	size_t		i;

	state.options = read_options(stmt->options);
	wish.labels = state.options.labels;
	wish.readonly = state.options.readonly;
	wish.comments = state.options.comments;
	wish.bytes = GetDatabaseEncoding() == PG_SQL_ASCII;
	if (state.options.collation)
		check_collation();
	begin_import();
	session = dv_connection_get(serverOid, GetUserId());
	catalog = dv_catalog_get(session, WHAT);
	for (i = 0; i < catalog->n; i++)
		catalog->entries[i].wanted = all;
	if (!all)
		dv_catalog_mark_solution(session, catalog, stmt->remote_schema, WHAT);
	mark_wanted(catalog, stmt);
	refuse_existing(catalog, stmt);
	if (any_wanted(catalog))
		dv_catalog_definitions(session, catalog, &wish, &reader);
	return state.commands;
}

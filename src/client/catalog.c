/*
 * catalog.c
 *		Requests the tables of the service and their definitions.
 *
 * The files dataverse/metadata*.c determine the requests and read the answers.
 * This file sends the requests and manages memory: answers can be large, so
 * each is freed as soon as it has been read, and definitions are parsed one at
 * a time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "client/call.h"
#include "client/catalog.h"
#include "client/chain.h"
#include "client/forms.h"
#include "client/trouble.h"
#include "net/json.h"
#include "net/text.h"
#include "pool/progress.h"

/* The most solutions that a hint names. */
#define NAMED_SOLUTIONS 10

/*
 * The code in dataverse/ cannot check for interrupts, but it allocates memory
 * for everything it reads, so we check here.
 */
static void *
allocate(void *context, size_t size)
{
	CHECK_FOR_INTERRUPTS();
	return MemoryContextAllocExtended(context, size, MCXT_ALLOC_HUGE);
}

static dv_arena
arena_in(MemoryContext context)
{
	dv_arena	arena = {allocate, context};

	return arena;
}

static dv_call *
ask(dv_session *session, const char *path, const char *what)
{
	dv_call_spec spec = {
	.method = "GET", .path = path, .kind = DV_KIND_OTHER, .repeatable = true};

	return dv_call_run(session, &spec, what, CurrentMemoryContext);
}

static void
refuse_answer(const dv_session *session, const char *what)
{
	ereport(ERROR, (errcode(ERRCODE_FDW_ERROR),
					errmsg("could not %s on server \"%s\": an answer from Dataverse did not have the expected form",
						   what, dv_session_config_of(session)->server_name),
					errhint(DV_ANSWER_HINT)));
}

/* Returns the answer as a document that lives as long as the current memory context. */
static struct json_object *
ask_document(dv_session *session, const char *path, const char *what)
{
	dv_call    *call = ask(session, path, what);
	const dv_http_result *result = dv_call_result(call);
	struct json_object *root = dv_json_parse(result->body, result->body_len, NULL);

	dv_call_free(call);
	if (root == NULL || dv_json_array(root, "value") == NULL)
		refuse_answer(session, what);
	return root;
}

dv_meta_catalog *
dv_catalog_get(dv_session *session, const char *what)
{
	MemoryContext keep = CurrentMemoryContext;
	MemoryContext scratch = AllocSetContextCreate(keep, "dataverse catalogue",
												  ALLOCSET_DEFAULT_SIZES);
	dv_meta_catalog *catalog = palloc0(sizeof(*catalog));
	dv_arena	arena = arena_in(keep);

	MemoryContextSwitchTo(scratch);
	dv_meta_catalog_read(&arena, ask_document(session, dv_meta_catalog_path, what), catalog);
	MemoryContextSwitchTo(keep);
	MemoryContextDelete(scratch);
	return catalog;
}

/*
 * Solutions
 */

static void
mark_ids(dv_meta_catalog *catalog, struct json_object *components)
{
	size_t		i;
	size_t		j;

	for (i = 0; i < dv_json_length(components); i++)
	{
		const char *id = dv_json_string(dv_json_item(components, i), "objectid");

		CHECK_FOR_INTERRUPTS();
		for (j = 0; id != NULL && j < catalog->n; j++)
			if (catalog->entries[j].id != NULL && pg_strcasecmp(catalog->entries[j].id, id) == 0)
				catalog->entries[j].wanted = true;
	}
}

/*
 * Raises an error if a solution without tables does not exist, with a hint
 * that names existing ones.
 */
static void
check_solution(dv_session *session, const char *solution, const char *what)
{
	struct json_object *root = ask_document(session, dv_meta_solutions_path, what);
	struct json_object *all = dv_json_array(root, "value");
	const char *server = dv_session_config_of(session)->server_name;
	const char *wanted = dv_text_to_utf8(solution);
	StringInfoData names;
	size_t		i;

	initStringInfo(&names);
	for (i = 0; i < dv_json_length(all); i++)
	{
		const char *name = dv_json_string(dv_json_item(all, i), "uniquename");

		if (name == NULL)
			continue;
		if (pg_strcasecmp(name, wanted) == 0)
			return;
		if (i < NAMED_SOLUTIONS)
			appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "",
							 dv_text_shown(name, strlen(name)));
	}
	if (dv_json_length(all) > NAMED_SOLUTIONS)
		appendStringInfoString(&names, " and more");
	ereport(
			ERROR,
			(errcode(ERRCODE_FDW_SCHEMA_NOT_FOUND),
			 errmsg("solution \"%s\" does not exist on server \"%s\"", solution, server),
			 errdetail(
					   "The remote schema is \"dataverse\", for all tables, or the unique name of a solution, for its tables."),
			 names.len > 0 ? errhint("Existing solutions are %s.", dv_text_told(names.data)) : 0));
}

void
dv_catalog_mark_solution(dv_session *session, dv_meta_catalog *catalog, const char *solution,
						 const char *what)
{
	MemoryContext keep = CurrentMemoryContext;
	MemoryContext scratch = AllocSetContextCreate(keep, "dataverse solution",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext page = AllocSetContextCreate(scratch, "dataverse components",
											   ALLOCSET_DEFAULT_SIZES);
	dv_arena	arena = arena_in(scratch);
	const char *path;
	dv_chain	chain = {0};
	bool		any = false;

	MemoryContextSwitchTo(scratch);
	path = dv_meta_components_path(&arena, dv_text_to_utf8(solution));
	while (path != NULL)
	{
		struct json_object *root;
		struct json_object *components;
		const char *link;

		MemoryContextSwitchTo(page);
		root = ask_document(session, path, what);
		components = dv_json_array(root, "value");
		any = any || dv_json_length(components) > 0;
		mark_ids(catalog, components);
		link = dv_json_string(root, "@odata.nextLink");
		path = link != NULL ? MemoryContextStrdup(scratch, link) : NULL;
		MemoryContextSwitchTo(scratch);
		MemoryContextReset(page);
		if (path != NULL && dv_chain_leads_back(&chain, scratch, path))
			ereport(ERROR,
					(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
					 errmsg("could not %s on server \"%s\": Dataverse returned the same page again", what,
							dv_session_config_of(session)->server_name),
					 errdetail("The link to the next page leads back to a page that has been read.")));
	}
	if (!any)
		check_solution(session, solution, what);
	MemoryContextSwitchTo(keep);
	MemoryContextDelete(scratch);
}

/*
 * Definitions
 */

/* If intersect tables are wanted, finds out which tables they connect. */
static void
get_sides(dv_session *session, dv_meta_catalog *catalog, const dv_arena *arena,
		  MemoryContext scratch, const char *what)
{
	MemoryContext old = MemoryContextSwitchTo(scratch);
	size_t		i;

	for (i = 0; i < catalog->n; i++)
		if (catalog->entries[i].wanted && catalog->entries[i].intersect)
			break;
	if (i < catalog->n)
		dv_meta_sides_read(arena, ask_document(session, dv_meta_sides_path, what), catalog);
	MemoryContextSwitchTo(old);
	MemoryContextReset(scratch);
}

/* Names are ASCII as a rule, but nothing has ensured this before. */
static void
convert_names(const char **const *names, int n)
{
	int			i;

	for (i = 0; i < n; i++)
		if (*names[i] != NULL)
			*names[i] = dv_text_in(*names[i], strlen(*names[i]));
}

/*
 * Converts everything that becomes part of a command.  Comments are left to the callers that want
 * them.
 */
static void
convert_table(dv_meta_table *table)
{
	const char **const names[] = {
		&table->table, &table->local, &table->entity_set, &table->primary_id,
		&table->table_type, &table->partition_id, &table->keys
	};
	int			i;

	convert_names(names, lengthof(names));
	for (i = 0; i < table->ncolumns; i++)
	{
		dv_meta_column *column = &table->columns[i];
		const char **const parts[] = {
			&column->name, &column->column, &column->navigation, &column->target,
			&column->target_set, &column->ref_type_of, &column->label_of, &column->helper_of
		};

		convert_names(parts, lengthof(parts));
	}
}

/* Definitions that are being requested. */
typedef struct retrieval
{
	dv_session *session;
	dv_meta_catalog *catalog;
	dv_meta_wish wish;
	const dv_catalog_reader *reader;
	MemoryContext answer;		/* of a request, with the request itself */
	MemoryContext one;			/* of a definition */
	dv_progress *progress;
	int64		met;			/* tables */
} retrieval;

static void
visit_definition(retrieval *r, struct json_object *definition)
{
	dv_arena	arena = arena_in(CurrentMemoryContext);
	dv_meta_entry *entry = dv_meta_entry_of(r->catalog, definition);
	dv_meta_table table;

	if (entry == NULL || !entry->wanted || entry->met)
		return;
	/* without this check, all columns would seem to have been deleted */
	if (dv_json_array(definition, "Attributes") == NULL)
		refuse_answer(r->session, r->reader->what);
	dv_meta_table_read(&arena, r->catalog, entry, definition, &r->wish, &table);
	entry->met = true;
	convert_table(&table);
	r->reader->visit(&table, r->reader->arg);
	dv_progress_read(r->progress, 0, ++r->met, 0);
}

/* A table whose definition was not sent must not seem to be missing. */
static void
check_complete(const dv_meta_catalog *catalog, const char *server, const char *what)
{
	size_t		i;

	for (i = 0; i < catalog->n; i++)
		if (catalog->entries[i].wanted && !catalog->entries[i].met)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_TABLE_NOT_FOUND),
					 errmsg("could not %s on server \"%s\": the service did not send the definition of table \"%s\"",
							what, server,
							dv_text_told(dv_text_shown(catalog->entries[i].table,
													   strlen(catalog->entries[i].table)))),
					 errhint("If the table has just been deleted, try again.")));
}

/* Reads an answer with many definitions, of which only one is parsed at a time. */
static void
visit_definitions(retrieval *r, const dv_http_result *result)
{
	dv_meta_reader reader;
	const char *text;
	size_t		len;

	dv_meta_reader_begin(&reader, result->body, result->body_len);
	MemoryContextSwitchTo(r->one);
	while (dv_meta_reader_next(&reader, &text, &len))
	{
		struct json_object *definition = dv_json_parse(text, len, NULL);

		CHECK_FOR_INTERRUPTS();
		if (definition == NULL)
			refuse_answer(r->session, r->reader->what);
		visit_definition(r, definition);
		MemoryContextReset(r->one);
	}
	if (dv_meta_reader_failed(&reader))
		refuse_answer(r->session, r->reader->what);
}

static dv_call *
start(const retrieval *r, const char *path)
{
	dv_call_spec spec = {
	.method = "GET", .path = path, .kind = DV_KIND_OTHER, .repeatable = true};

	return dv_call_start(r->session, &spec, CurrentMemoryContext);
}

/* Waits for the answer, and returns its error; raises it unless it is tolerated. */
static const dv_error *
finish(const retrieval *r, dv_call *call, bool (*tolerated) (const dv_error *error))
{
	const dv_error *error;

	dv_progress_read(r->progress, 0, r->met, DV_PROGRESS_ONE);
	dv_call_wait(call);
	dv_progress_read(r->progress, 0, r->met, 0);
	error = dv_call_error(call);
	if (error->verdict != DV_VERDICT_OK && !tolerated(error))
		dv_trouble_raise(error, dv_session_config_of(r->session), r->reader->what);
	return error;
}

static bool
is_missing(const dv_error *error)
{
	return error->status == 404;
}

static bool
is_refused(const dv_error *error)
{
	return error->verdict == DV_VERDICT_REFUSED;
}

/*
 * Only labels in the user's language and in the organisation's are needed.  If
 * the service does not tell these languages, labels in all languages are
 * requested.
 */
static void
get_languages(retrieval *r)
{
	dv_call    *calls[DV_META_LANGUAGES];
	int			i;

	if (!r->wish.comments)
		return;
	MemoryContextSwitchTo(r->answer);
	for (i = 0; i < DV_META_LANGUAGES; i++)
		calls[i] = start(r, dv_meta_language_paths[i]);
	for (i = 0; i < DV_META_LANGUAGES; i++)
	{
		const dv_error *error = finish(r, calls[i], is_refused);
		const dv_http_result *result = dv_call_result(calls[i]);

		if (error->verdict != DV_VERDICT_OK)
			break;
		dv_meta_language_read(dv_json_parse(result->body, result->body_len, NULL), &r->wish);
	}
	/* half of the languages would be too few */
	if (i < DV_META_LANGUAGES)
	{
		ereport(DEBUG1, (errmsg_internal("labels are requested in all languages: %s",
										 dv_call_error(calls[i])->message)));
		r->wish.nlanguages = 0;
	}
	MemoryContextReset(r->answer);
}

/*
 * Requests many definitions at once, until the service refuses this.  The rest
 * is left to get_plainly().
 */
static void
get_by_changes(retrieval *r)
{
	dv_arena	arena = arena_in(r->answer);
	size_t		next = 0;

	while (dv_form_most(r->session, DV_FORM_METADATA_CHANGES, NULL, 1) > 0)
	{
		const char *path;
		int			ntables;
		dv_call    *call;
		const dv_error *error;

		MemoryContextSwitchTo(r->answer);
		path = dv_meta_changes_path(&arena, r->catalog, &r->wish, &next, &ntables);
		if (path == NULL)
			return;
		call = start(r, path);
		error = finish(r, call, dv_form_blamed);
		if (error->verdict == DV_VERDICT_OK)
		{
			visit_definitions(r, dv_call_result(call));
			elog(DEBUG1, "definitions of " INT64_FORMAT " tables have arrived", r->met);
		}
		else
			dv_form_refused(r->session, DV_FORM_METADATA_CHANGES, NULL, 0, error);
		MemoryContextReset(r->answer);
	}
}

/* Returns the answer as a document, or NULL if the table no longer exists. */
static struct json_object *
get_document(const retrieval *r, dv_call *call)
{
	const dv_http_result *result;
	struct json_object *document;

	if (finish(r, call, is_missing)->verdict != DV_VERDICT_OK)
		return NULL;
	result = dv_call_result(call);
	document = dv_json_parse(result->body, result->body_len, NULL);
	if (!dv_json_is_object(document))
		refuse_answer(r->session, r->reader->what);
	return document;
}

/* Requests the columns of all kinds at the same time. */
static void
get_plainly(retrieval *r, const dv_meta_entry *entry)
{
	dv_arena	arena = arena_in(r->answer);
	dv_call    *calls[DV_META_CASTS];
	struct json_object *definition;
	bool		whole = true;
	int			i;

	MemoryContextSwitchTo(r->answer);
	definition = get_document(r, start(r, dv_meta_table_path(&arena, entry->table, &r->wish)));
	if (definition == NULL)
		return;
	for (i = 0; i < DV_META_CASTS; i++)
	{
		const char *path = dv_meta_cast_path(&arena, entry->table, definition, &r->wish, i);

		calls[i] = path != NULL ? start(r, path) : NULL;
	}
	for (i = 0; i < DV_META_CASTS; i++)
	{
		struct json_object *columns = calls[i] != NULL ? get_document(r, calls[i]) : NULL;

		if (columns != NULL && dv_json_array(columns, "value") == NULL)
			refuse_answer(r->session, r->reader->what);
		if (columns != NULL)
			dv_meta_cast_read(&arena, definition, columns, i);
		else if (calls[i] != NULL)
			whole = false;
	}
	/* a table that is deleted in the meantime is not imported in part */
	if (whole)
		visit_definition(r, definition);
}

void
dv_catalog_definitions(dv_session *session, dv_meta_catalog *catalog, const dv_meta_wish *wish,
					   const dv_catalog_reader *reader)
{
	const dv_session_config *config = dv_session_config_of(session);
	MemoryContext keep = CurrentMemoryContext;
	dv_arena	lasting = arena_in(keep);
	retrieval	r = {.session = session, .catalog = catalog, .wish = *wish, .reader = reader};
	size_t		wanted = 0;
	size_t		i;

	for (i = 0; i < catalog->n; i++)
		wanted += catalog->entries[i].wanted;
	r.answer = AllocSetContextCreate(keep, "dataverse metadata", ALLOCSET_DEFAULT_SIZES);
	r.one = AllocSetContextCreate(keep, "dataverse definition", ALLOCSET_DEFAULT_SIZES);
	r.progress = dv_progress_begin(config->serverid, config->server_name, reader->schema,
								   reader->operation, wanted, keep);
	get_sides(session, catalog, &lasting, r.answer, reader->what);
	get_languages(&r);
	get_by_changes(&r);
	for (i = 0; i < catalog->n; i++)
	{
		if (!catalog->entries[i].wanted || catalog->entries[i].met)
			continue;
		if (dv_form_most(session, DV_FORM_METADATA_CHANGES, NULL, 1) > 0)
			break;
		CHECK_FOR_INTERRUPTS();
		get_plainly(&r, &catalog->entries[i]);
		MemoryContextReset(r.answer);
	}
	check_complete(catalog, config->server_name, reader->what);
	dv_progress_end(r.progress);
	MemoryContextSwitchTo(keep);
	MemoryContextDelete(r.answer);
	MemoryContextDelete(r.one);
}

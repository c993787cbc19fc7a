/*
 * truncate.c
 *		TRUNCATE of foreign tables.
 *
 * The service has no TRUNCATE.  The rows of a standard table are deleted by a
 * bulk-delete job of the service, and TRUNCATE waits for the job to end.  The
 * rows of all other tables are deleted by an ordinary DELETE, which needs no
 * code of its own.  Neither can be rolled back, so an option must allow it.
 *
 * The jobs of all tables are started before the first one is waited for, so that
 * the service runs them at the same time.
 *
 * A job continues no matter what happens to this backend.  An error that ends
 * the wait says so in its context.  The service's tables of jobs lag behind: for
 * a while after its start, a job may be missing from them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/spi.h"
#include "foreign/fdwapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "client/call.h"
#include "client/ledger.h"
#include "client/trouble.h"
#include "dataverse/payload.h"
#include "fdw/connection.h"
#include "fdw/modify/rights.h"
#include "fdw/modify/truncate.h"
#include "fdw/option.h"
#include "fdw/relation.h"
#include "fdw/setting.h"
#include "net/json.h"
#include "net/text.h"

/* Time between two requests for the status of a job. */
#define FIRST_POLL	(250 * DV_MILLISECOND)
#define LONGEST_POLL (10 * DV_SECOND)
/* Time within which a job must be found after its start, and its outcome after its end. */
#define LONGEST_LAG (60 * DV_SECOND)

/* Values of an asyncoperation. */
#define STATE_COMPLETED "3"
#define STATUS_SUCCEEDED "30"

typedef struct dv_truncation
{
	Relation	rel;
	const dv_relation *relation;
	const char *what;			/* "truncate foreign table \"account\"", for errors */
	/* the rest belongs to a job */
	dv_session *session;		/* NULL if there is no job */
	const char *job;			/* its id, or NULL before it is started */
	bool		found;			/* the job has been read at least once */
	const char *status;			/* NULL until it has ended */
	const char *message;		/* why it did not succeed, if the service says so */
	const char *operation;		/* the id of its record, or NULL if the service does not say */
	int64		started;
	dv_progress *progress;
	int64		deleted;		/* rows, as far as the job has reported */
	int64		failed;			/* rows that it could not delete */
} dv_truncation;

/* The tables of the statement that are on the same server. */
typedef struct dv_truncations
{
	dv_truncation *tables;
	int			n;
} dv_truncations;

/*
 * Checks
 */

static void
check_truncatable(const dv_relation *relation, DropBehavior behavior)
{
	if (!dv_option_bool(relation->options, DV_OPT_TRUNCATABLE) ||
		!dv_option_bool(relation->options, DV_OPT_UPDATABLE))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("foreign table \"%s\" does not allow truncates", relation->name),
				 errdetail("TRUNCATE deletes all rows of table \"%s\" in Dataverse and cannot be rolled back.",
						   relation->table),
				 errhint("Set options \"truncatable\" and \"updatable\" of the foreign table or its server to \"on\", or use DELETE.")));
	if (behavior == DROP_CASCADE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot truncate foreign table \"%s\" with CASCADE", relation->name),
				 errdetail("The relationships in Dataverse determine what happens to rows that refer to deleted rows."),
				 errhint("Use TRUNCATE without CASCADE.")));
}

/* TRUNCATE must not fire DELETE triggers, but the DELETE that replaces it would. */
static void
check_triggers(const dv_relation *relation, Relation rel)
{
	const TriggerDesc *t = rel->trigdesc;

	if (relation->type == DV_TABLE_STANDARD || t == NULL ||
		!(t->trig_delete_before_row || t->trig_delete_after_row ||
		  t->trig_delete_before_statement || t->trig_delete_after_statement))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot truncate foreign table \"%s\" because it has DELETE triggers",
					relation->name),
			 errhint("Use DELETE.")));
}

/*
 * Standard tables: bulk-delete jobs
 */

static struct json_object *
read_object(const dv_truncation *t, const dv_call *call)
{
	const dv_http_result *result = dv_call_result(call);
	struct json_object *root = dv_json_parse(result->body, result->body_len, NULL);

	if (root == NULL || !dv_json_is_object(root))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": an answer from Dataverse was not a JSON object", t->what,
						dv_session_config_of(t->session)->server_name)));
	return root;
}

/* Reports the job in dataverse.progress. */
static void
show(const dv_truncation *t, int in_flight)
{
	int64		done = t->deleted + t->failed;

	dv_progress_update(t->progress, 0, done, done, t->deleted, t->failed, in_flight);
}

/* Sends a request and returns the object in the answer. */
static struct json_object *
ask(const dv_truncation *t, const char *method, const char *path, const char *body)
{
	static const char *const headers[] = {"Content-Type: application/json", NULL};
	dv_call_spec spec = {.method = method, .path = path, .kind = DV_KIND_OTHER};
	const dv_call *call;

	if (body != NULL)
	{
		spec.headers = headers;
		spec.body = body;
		spec.body_len = strlen(body);
	}
	spec.repeatable = body == NULL;
	show(t, DV_PROGRESS_ONE);
	call = dv_call_run(t->session, &spec, t->what, CurrentMemoryContext);
	show(t, 0);
	return read_object(t, call);
}

/* Returns true if the tables of the service may not be up to date yet. */
static bool
may_lag(const dv_truncation *t)
{
	return dv_now() < t->started + LONGEST_LAG;
}

/* Returns the row of the job, or NULL if it cannot be found yet. */
static struct json_object *
find_job(dv_truncation *t)
{
	dv_call_spec spec = {.method = "GET", .kind = DV_KIND_OTHER, .repeatable = true};
	const dv_error *error;
	dv_call    *call;

	spec.path = psprintf("asyncoperations(%s)?$select=statecode,statuscode,message", t->job);
	call = dv_call_start(t->session, &spec, CurrentMemoryContext);
	show(t, DV_PROGRESS_ONE);
	dv_call_wait(call);
	show(t, 0);
	error = dv_call_error(call);
	if (error->status == 404 && !t->found && may_lag(t))
		return NULL;
	if (error->verdict != DV_VERDICT_OK)
		dv_trouble_raise(error, dv_session_config_of(t->session), t->what);
	t->found = true;
	return read_object(t, call);
}

/* Returns the value if it is an id, which becomes part of URLs; otherwise NULL. */
static const char *
id_member(struct json_object *object, const char *name)
{
	const char *id = dv_json_string(object, name);

	if (id == NULL || id[0] == '\0' || strspn(id, "0123456789abcdefABCDEF-") < strlen(id))
		return NULL;
	return id;
}

static void
start_job(dv_truncation *t)
{
	const dv_relation *relation = t->relation;
	char		now[DV_PAYLOAD_TIMESTAMP + 1] = "";
	const char *id;
	const char *body;

	/* the next full second: the job deletes only rows created before it starts */
	(void) dv_payload_timestamp(now, (GetCurrentTimestamp() / USECS_PER_SEC + 1) * USECS_PER_SEC);
	/* a query without criteria selects all rows */
	body =
		psprintf("{\"QuerySet\":[{\"@odata.type\":\"Microsoft.Dynamics.CRM.QueryExpression\","
				 "\"EntityName\":\"%s\",\"ColumnSet\":{\"AllColumns\":false,\"Columns\":[\"%s\"]},"
				 "\"Distinct\":false}],\"JobName\":\"dataverse_fdw: TRUNCATE %s\","
				 "\"SendEmailNotification\":false,\"ToRecipients\":[],\"CCRecipients\":[],"
				 "\"RecurrencePattern\":\"\",\"StartDateTime\":\"%s\"}",
				 relation->table, relation->primary_id.name, relation->table, now);
	id = id_member(ask(t, "POST", "BulkDelete", body), "JobId");

	if (id == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse did not return the id of the bulk-delete job", t->what,
						dv_session_config_of(t->session)->server_name)));
	t->job = pstrdup(id);
	t->started = dv_now();
}

static const char *
member_text(struct json_object *object, const char *name)
{
	struct json_object *value = dv_json_member(object, name);

	return value != NULL ? dv_json_text(value) : "";
}

/* Returns true if the job has ended. */
static bool
poll_job(dv_truncation *t)
{
	struct json_object *job = find_job(t);

	if (job == NULL || strcmp(member_text(job, "statecode"), STATE_COMPLETED) != 0)
		return false;
	t->message = dv_json_string(job, "message");
	t->status = member_text(job, "statuscode");
	return true;
}

/* Waits before the next request for the status of the job. */
static void
pause_polling(int64 *pause)
{
	int64		until = dv_now() + *pause;

	while (dv_now() < until)
	{
		dv_call_pause(until, DV_WAIT_JOB);
		dv_call_advance();
	}
	*pause = Min(*pause * 2, LONGEST_POLL);
}

/* The last answer, which contains the status and the message, stays valid. */
static void
wait_for_job(dv_truncation *t)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dataverse job",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int64		pause = FIRST_POLL;

	while (!poll_job(t))
	{
		MemoryContextReset(context);
		pause_polling(&pause);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Finds out how many rows the job deleted and how many it could not delete.
 * Returns the id of its record, or NULL if the service does not say.
 */
static const char *
count_rows(dv_truncation *t)
{
	struct json_object *rows;
	struct json_object *row;
	int64		pause = FIRST_POLL;

	for (;;)
	{
		rows = dv_json_array(ask(t, "GET", psprintf("bulkdeleteoperations?$filter=_asyncoperationid_value%%20eq%%20%s"
													"&$select=bulkdeleteoperationid,successcount,failurecount", t->job), NULL), "value");
		if (rows != NULL && dv_json_length(rows) > 0)
			break;
		if (!may_lag(t))
			return NULL;
		pause_polling(&pause);
	}
	row = dv_json_item(rows, 0);
	t->deleted = strtoll(member_text(row, "successcount"), NULL, 10);
	t->failed = strtoll(member_text(row, "failurecount"), NULL, 10);
	show(t, 0);
	return id_member(row, "bulkdeleteoperationid");
}

/* Returns the reason of the first failure, or NULL if the service does not say. */
static const char *
first_failure(const dv_truncation *t, const char *operation)
{
	struct json_object *rows =
	dv_json_array(ask(t, "GET", psprintf("bulkdeletefailures?$filter="
										 "_bulkdeleteoperationid_value%%20eq%%20%s"
										 "&$select=errordescription&$top=1", operation), NULL),
				  "value");

	if (rows == NULL || dv_json_length(rows) == 0)
		return NULL;
	return dv_json_string(dv_json_item(rows, 0), "errordescription");
}

static void
fail(const dv_truncation *t, const char *reason)
{
	StringInfoData detail;

	initStringInfo(&detail);
	appendStringInfo(&detail, ngettext("Bulk-delete job %s deleted %lld row.",
									   "Bulk-delete job %s deleted %lld rows.", t->deleted),
					 t->job, (long long) t->deleted);
	if (t->failed > 0)
		appendStringInfo(&detail, ngettext("  It could not delete %lld row.",
										   "  It could not delete %lld rows.", t->failed),
						 (long long) t->failed);
	if (reason != NULL && reason[0] != '\0')
		appendStringInfo(&detail, "  Dataverse says: %s", dv_text_shown(reason, strlen(reason)));
	ereport(ERROR,
			(errcode(ERRCODE_FDW_ERROR),
			 errmsg("could not %s", t->what),
			 errdetail_internal("%s", dv_text_told(detail.data))));
}

static void
describe_jobs(void *arg)
{
	const dv_truncations *all = arg;
	int			i;

	for (i = 0; i < all->n; i++)
		if (all->tables[i].job != NULL && all->tables[i].status == NULL)
			errcontext("waiting for bulk-delete job %s, which continues in Dataverse",
					   all->tables[i].job);
}

static void
finish_job(dv_truncation *t)
{
	wait_for_job(t);
	t->operation = count_rows(t);
	dv_ledger_stays(NULL, t->deleted);
	dv_progress_end(t->progress);
}

/* Raises an error if the job has not deleted all rows. */
static void
check_job(const dv_truncation *t)
{
	if (t->failed > 0 && t->operation != NULL)
		fail(t, first_failure(t, t->operation));
	if (strcmp(t->status, STATUS_SUCCEEDED) != 0)
		fail(t, t->message);
}

/*
 * Other tables: DELETE
 */

static void
truncate_by_delete(const dv_truncation *t)
{
	const char *name = dv_relation_qualified_name(RelationGetRelid(t->rel));
	int			code;

	SPI_connect();
	code = SPI_execute(psprintf("DELETE FROM ONLY %s", name), false, 0);
	if (code != SPI_OK_DELETE)
		elog(ERROR, "could not %s: %s", t->what, SPI_result_code_string(code));
	SPI_finish();
}

/*
 * All tables
 */

/* Checks everything that can be checked before the first row is deleted. */
static void
prepare(dv_truncation *t, Relation rel, DropBehavior behavior)
{
	t->rel = rel;
	t->relation = dv_relation_open(RelationGetRelid(rel));
	t->what = psprintf("truncate foreign table \"%s\"", t->relation->name);
	check_truncatable(t->relation, behavior);
	check_triggers(t->relation, rel);
	if (t->relation->type != DV_TABLE_STANDARD)
		return;
	dv_rights_check_settings(t->what, t->relation->relid);
	/* in a dry run, the DELETE of other tables also only reports */
	if (dv_dry_run)
		ereport(NOTICE,
				(errmsg("%s: \"dataverse_fdw.dry_run\" is on; no request was sent", t->what)));
	else
	{
		t->session = dv_connection_get(t->relation->serverid, GetUserId());
		t->progress = dv_relation_progress(t->relation, "truncate", -1, CurrentMemoryContext);
	}
}

/* Waits for the other jobs whatever the outcome of one, to count what they have deleted. */
static void
truncate_all(dv_truncations *all)
{
	ErrorContextCallback callback = {.callback = describe_jobs, .arg = all};
	const dv_truncation *end = all->tables + all->n;
	dv_truncation *t;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	for (t = all->tables; t < end; t++)
		if (t->session != NULL)
			start_job(t);
	for (t = all->tables; t < end; t++)
		if (t->relation->type != DV_TABLE_STANDARD)
			truncate_by_delete(t);
	for (t = all->tables; t < end; t++)
		if (t->job != NULL)
			finish_job(t);
	error_context_stack = callback.previous;
	for (t = all->tables; t < end; t++)
		if (t->job != NULL)
			check_job(t);
}

/*
 * RESTART IDENTITY concerns sequences of PostgreSQL only, which core resets
 * itself.  A client cannot reset the service's numbering of rows.
 */
void
dataverseExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dataverse truncate",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_truncations all = {palloc0(sizeof(dv_truncation) * list_length(rels)), list_length(rels)};
	ListCell   *lc;

	foreach(lc, rels)
		prepare(&all.tables[foreach_current_index(lc)], lfirst(lc), behavior);
	truncate_all(&all);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

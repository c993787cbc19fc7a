/*
 * jobs.c
 *		Background jobs: BulkDelete.
 *
 * A job waits, then runs, then is done, all by the virtual clock.  When it
 * starts it notes the ids of the rows that its queries find, so rows created
 * later are safe; then it deletes them at a fixed rate, each on its own.
 * Clients see the job as a row of asyncoperation, the counts as a row of
 * bulkdeleteoperation and failures in bulkdeletefailure.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch_sql.h"
#include "store/guid.h"
#include "fetch/query_expression.h"
#include "wire/quirks.h"
#include "write/row_write.h"

#define WAIT_US 2000000			/* from the request to the start */
#define LAG_US 1500000			/* before the job can be read; less than it waits */
#define LEAST_RUN_US 1000000
#define ROWS_PER_SECOND 5000
#define ROWS_PER_CALL 20000		/* nothing else is answered meanwhile */
#define MAX_QUERIES 32
#define MAX_DESCRIPTION 500

enum job_state
{
	JOB_WAITING,
	JOB_RUNNING,
	JOB_DONE
};

struct query
{
	struct sim_table *table;
	char	   *xml;
	struct sim_buf ids;			/* 16 bytes each, noted at the start */
};

struct job
{
	struct job *next;
	struct sim_store *store;
	enum job_state state;
	unsigned char id[16];
	unsigned char operation_id[16];
	char		user_id[37];
	int64_t		start_us;
	int64_t		shown_us;		/* when it can be read */
	bool		shown;			/* its rows exist */
	char	   *name;			/* as JSON */
	struct query queries[MAX_QUERIES];
	int			nqueries;
	size_t		position;		/* rows done, over all queries */
	int			deleted;
	int			failed;
};

static struct job *jobs;

/* states in asyncoperation and bulkdeleteoperation */
static const struct
{
	int			state;
	int			status;
}			states[] = {
	[JOB_WAITING] = {0, 0},
	[JOB_RUNNING] = {2, 20},
	[JOB_DONE] = {3, 30},
};

static void
free_job(struct job *job)
{
	int			i;

	for (i = 0; i < job->nqueries; i++)
	{
		free(job->queries[i].xml);
		sim_buf_free(&job->queries[i].ids);
	}
	free(job->name);
	free(job);
}

/* runs "sql" with an id as ?1 and integers after it */
static int
run_sql(struct sim_store *store, const char *sql, const unsigned char id[16], int n,
		const int64_t *values)
{
	sqlite3_stmt *stmt = sim_stmt_get(store, sql);
	int			changes = 0;
	int			i;

	if (stmt == NULL)
		return 0;
	sqlite3_bind_blob(stmt, 1, id, 16, SQLITE_STATIC);
	for (i = 0; i < n; i++)
		sqlite3_bind_int64(stmt, i + 2, values[i]);
	if (sqlite3_step(stmt) == SQLITE_DONE)
		changes = sqlite3_changes(store->db);
	sim_stmt_put(store, stmt);
	return changes;
}

/*
 * writes the job's state to its rows; false if they no longer exist (deleted, or everything
 * reset)
 */
static bool
show_state(struct sim *sim, const struct job *job)
{
	int64_t		v[6] = {states[job->state].state, states[job->state].status};
	const char *when = job->state == JOB_RUNNING ? ",startedon=?5" :
	job->state == JOB_DONE ? ",completedon=?5" : "";
	char		sql[256];
	bool		there;

	if (!sim_begin(sim->store))
		return false;
	v[2] = sim_next_version(sim->store);
	v[3] = sim_unix_now(sim);
	snprintf(sql, sizeof(sql), "UPDATE asyncoperation SET statecode=?2,statuscode=?3,"
			 "versionnumber=?4%s WHERE asyncoperationid=?1", when);
	there = run_sql(sim->store, sql, job->id, 4, v) != 0;
	v[2] = sim_next_version(sim->store);
	v[4] = job->deleted;
	v[5] = job->failed;
	run_sql(sim->store, "UPDATE bulkdeleteoperation SET statecode=?2,statuscode=?3,"
			"versionnumber=?4,modifiedon=?5,successcount=?6,failurecount=?7 "
			"WHERE bulkdeleteoperationid=?1", job->operation_id, 6, v);
	return sim_commit(sim->store) && there;
}

/* makes a request of the job's own, for functions of request handlers */
static void
inner_request(struct sim *sim, struct job *job, struct sim_req *req)
{
	memset(req, 0, sizeof(*req));
	req->sim = sim;
	req->arena = sim_arena_new();
	req->method = "POST";
	req->target = req->path = req->query = "";
	req->base_url = sim->base_url;
	memcpy(req->user_id, job->user_id, sizeof(req->user_id));
}

/* FetchXML → "SELECT id FROM …"; q->sql on success */
static bool
translate(struct sim_fetch_query *q, const char *xml)
{
	struct sim_fetch_term term;

	if (!sim_fetch_parse(q->req, q->res, xml, &q->tree) || !sim_fetch_translate(q) ||
		!sim_fetch_term(q, q->tree->root, q->table->id->name, &term))
		return false;
	sim_putf(&q->sql, "SELECT DISTINCT %s%s", term.expr, q->from.s);
	return true;
}

static void
note_rows(struct sim *sim, struct job *job, struct query *query)
{
	struct sim_req req;
	struct sim_res res = {0};
	struct sim_fetch_query q = {.table = query->table};
	sqlite3_stmt *stmt = NULL;
	int			i;

	inner_request(sim, job, &req);
	q.req = &req;
	q.res = &res;
	if (translate(&q, query->xml))
		stmt = sim_stmt_get(sim->store, q.sql.s);
	if (stmt != NULL)
	{
		for (i = 0; i < q.nfilter; i++)
			sim_value_bind(stmt, i + 1, &q.binds[i]);
		while (sqlite3_step(stmt) == SQLITE_ROW)
			if (sqlite3_column_bytes(stmt, 0) == 16)
				sim_put(&query->ids, sqlite3_column_blob(stmt, 0), 16);
		sim_stmt_put(sim->store, stmt);
	}
	sim_fetch_free(&q);
	sim_buf_free(&res.body);
	sim_arena_free(req.arena);
}

static size_t
rows_of(const struct job *job)
{
	size_t		n = 0;
	int			i;

	for (i = 0; i < job->nqueries; i++)
		n += job->queries[i].ids.len / 16;
	return n;
}

/* returns the length that fits into the column, without half a character at its end */
static size_t
description_length(const char *s)
{
	size_t		len = strnlen(s, MAX_DESCRIPTION);

	while (len > 0 && ((unsigned char) s[len] & 0xc0) == 0x80)
		len--;
	return len;
}

static void
put_failure(struct sim *sim, struct job *job, struct query *query,
			const struct sim_res *failure)
{
	struct sim_table *table = sim_table_by_name(sim->schema, "bulkdeletefailure");
	struct sim_req req;
	struct sim_res res = {0};
	struct sim_write_row write = {0};
	struct sim_json *json;
	const char *error;
	char		operation[37] = "";
	char		text[37] = "";
	struct sim_buf body = {0};

	if (table == NULL)
		return;
	inner_request(sim, job, &req);
	sim_guid_print(job->operation_id, operation);
	sim_guid_print(job->id, text);
	sim_putf(&body, "{\"errornumber\":%d,\"orderedqueryindex\":%d,"
			 "\"bulkdeleteoperationid@odata.bind\":\"bulkdeleteoperations(%s)\","
			 "\"errordescription\":", (int) strtoul(failure->error_code, NULL, 16),
			 (int) (query - job->queries), operation);
	sim_put_json(&body, failure->error_message, description_length(failure->error_message));
	sim_putf(&body, ",\"asyncoperationid@odata.bind\":\"asyncoperations(%s)\"}", text);
	json = sim_json_parse(req.arena, body.s, body.len, &error);
	if (json != NULL && sim_begin(sim->store))
	{
		sim_create_row(&req, &res, table, json, NULL, &write);
		sim_commit(sim->store);
	}
	sim_buf_free(&body);
	sim_buf_free(&res.body);
	sim_arena_free(req.arena);
}

/* each row is a transaction, so that a refusal does not affect the others */
static void
delete_noted(struct sim *sim, struct job *job, struct query *query, const unsigned char row[16])
{
	struct sim_key key = {.table = query->table, .by_id = true};
	struct sim_req req;
	struct sim_res res = {0};
	unsigned char id[16];
	int64_t		version;

	inner_request(sim, job, &req);
	memcpy(key.id, row, 16);
	if (sim_row_find(&req, &res, &key, id, &version) == SIM_FOUND && sim_begin(sim->store))
	{
		if (sim_delete_row(&req, &res, query->table, id, "", 0) && sim_commit(sim->store))
			job->deleted++;
		else
		{
			sim_rollback(sim->store);
			job->failed++;
			put_failure(sim, job, query, &res);
		}
	}
	sim_buf_free(&res.body);
	sim_arena_free(req.arena);
}

static const unsigned char *
row_at(struct job *job, size_t position, struct query **query)
{
	int			i;

	for (i = 0; i < job->nqueries; i++)
	{
		size_t		n = job->queries[i].ids.len / 16;

		*query = &job->queries[i];
		if (position < n)
			return (unsigned char *) job->queries[i].ids.s + position * 16;
		position -= n;
	}
	return NULL;
}

/* as many rows as the time since the start allows; true when it is time to end */
static bool
work(struct sim *sim, struct job *job, int64_t now)
{
	size_t		total = rows_of(job);
	double		seconds = (double) (now - job->start_us) / 1e6;
	size_t		due = seconds * ROWS_PER_SECOND < (double) total ?
	(size_t) (seconds * ROWS_PER_SECOND) : total;
	int			n = 0;

	while (job->position < due && n++ < ROWS_PER_CALL)
	{
		struct query *query = NULL;
		const unsigned char *row = row_at(job, job->position++, &query);

		if (row != NULL)
			delete_noted(sim, job, query, row);
	}
	return job->position == total && now - job->start_us >= LEAST_RUN_US;
}

/* the row of a system table for the job */
static bool
create_row(struct sim_req *req, struct sim_res *res, const char *table_name, const char *body)
{
	struct sim_table *table = sim_table_by_name(req->sim->schema, table_name);
	struct sim_write_row row = {0};
	struct sim_json *json;
	char	   *text = sim_strdup(req->arena, body);
	const char *error;

	json = sim_json_parse(req->arena, text, strlen(text), &error);
	if (table == NULL || json == NULL)
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	return sim_create_row(req, res, table, json, NULL, &row);
}

static bool
create_rows(struct sim_req *req, struct sim_res *res, const struct job *job)
{
	struct sim_buf body = {0};
	char		id[37] = "";
	char		operation_id[37] = "";
	bool		ok;

	sim_guid_print(job->id, id);
	sim_guid_print(job->operation_id, operation_id);
	sim_putf(&body, "{\"asyncoperationid\":\"%s\",\"operationtype\":13,"
			 "\"messagename\":\"BulkDelete\",\"name\":%s,\"primaryentitytype\":\"%s\"}", id,
			 job->name, job->nqueries > 0 ? job->queries[0].table->name : "none");
	ok = create_row(req, res, "asyncoperation", body.s);
	body.len = 0;
	sim_putf(&body, "{\"bulkdeleteoperationid\":\"%s\",\"successcount\":0,\"failurecount\":0,"
			 "\"name\":%s,\"asyncoperationid@odata.bind\":\"asyncoperations(%s)\"}", operation_id,
			 job->name, id);
	ok = ok && create_row(req, res, "bulkdeleteoperation", body.s);
	sim_buf_free(&body);
	return ok;
}

/* makes the rows by which clients see the job */
static bool
show_job(struct sim_req *req, struct sim_res *res, struct job *job)
{
	if (!sim_begin(req->sim->store))
		return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
	if (!create_rows(req, res, job))
	{
		sim_rollback(req->sim->store);
		return false;
	}
	job->shown = true;
	return sim_commit(req->sim->store) ||
		sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
}

/* the same for a job that could not be read at first */
static bool
show_later(struct sim *sim, struct job *job)
{
	struct sim_req req;
	struct sim_res res = {0};
	bool		ok;

	inner_request(sim, job, &req);
	ok = show_job(&req, &res, job);
	sim_buf_free(&res.body);
	sim_arena_free(req.arena);
	return ok;
}

/* returns true while the job still has something to do */
static bool
advance(struct sim *sim, struct job *job, int64_t now)
{
	int			i;

	if (job->store != sim->store)
		return false;
	if (!job->shown && now >= job->shown_us && !show_later(sim, job))
		return false;
	if (job->state == JOB_WAITING && now >= job->start_us)
	{
		job->state = JOB_RUNNING;
		if (!show_state(sim, job))
			return false;
		for (i = 0; i < job->nqueries; i++)
			note_rows(sim, job, &job->queries[i]);
	}
	if (job->state == JOB_RUNNING)
	{
		if (work(sim, job, now))
			job->state = JOB_DONE;
		if (!show_state(sim, job))
			return false;
	}
	return job->state != JOB_DONE;
}

/* Removes a query from the job, as if all of its rows had been processed. */
static void
drop_query(struct job *job, int query)
{
	size_t		before = 0;
	size_t		its_own = job->queries[query].ids.len / 16;

	for (int i = 0; i < query; i++)
		before += job->queries[i].ids.len / 16;
	if (job->position >= before + its_own)
		job->position -= its_own;
	else if (job->position > before)
		job->position = before;
	free(job->queries[query].xml);
	sim_buf_free(&job->queries[query].ids);
	job->nqueries--;
	memmove(&job->queries[query], &job->queries[query + 1],
			sizeof(*job->queries) * (size_t) (job->nqueries - query));
}

void
sim_jobs_moved(struct sim *sim)
{
	for (struct job *job = jobs; job != NULL; job = job->next)
	{
		for (int i = 0; job->store == sim->store && i < job->nqueries; i++)
		{
			struct query *query = &job->queries[i];

			query->table = sim_table_by_name(sim->schema, query->table->name);
			if (query->table == NULL)
				drop_query(job, i--);
		}
	}
}

void
sim_jobs_advance(struct sim *sim)
{
	struct job **link = &jobs;
	int64_t		now;

	if (jobs == NULL)
		return;
	now = sim_now_us(sim);
	while (*link != NULL)
	{
		struct job *job = *link;

		if (advance(sim, job, now))
			link = &job->next;
		else
		{
			*link = job->next;
			free_job(job);
		}
	}
}

/* every query is translated once now, so that errors are reported at once */
static bool
take_queries(struct sim_req *req, struct sim_res *res, struct job *job,
			 const struct sim_json *set)
{
	const struct sim_json *json;

	for (json = set->child; json != NULL; json = json->next)
	{
		struct query *query = &job->queries[job->nqueries];
		struct sim_fetch_query q = {.req = req, .res = res};
		const char *xml;
		bool		ok;

		if (job->nqueries == MAX_QUERIES)
			return sim_fail(req, res, 400, "0x80040203", "QuerySet holds too many queries.");
		xml = sim_query_expression_xml(req, res, json, &query->table);
		if (xml == NULL)
			return false;
		q.table = query->table;
		ok = translate(&q, xml);
		sim_fetch_free(&q);
		if (!ok)
			return false;
		query->xml = sim_xstrdup(xml);
		job->nqueries++;
	}
	return true;
}

static bool
check_members(struct sim_req *req, struct sim_res *res, const struct sim_json *body)
{
	static const char *const required[] = {"QuerySet", "JobName", "SendEmailNotification",
	"ToRecipients", "CCRecipients", "RecurrencePattern", "StartDateTime"};
	size_t		i;

	for (i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		if (sim_json_member(body, required[i]) == NULL)
			return sim_fail(req, res, 400, "0x80040203", "Required field '%s' is missing for "
							"BulkDelete.", required[i]);
	if (sim_json_member(body, "QuerySet")->type != SIM_JSON_ARRAY ||
		sim_json_member(body, "QuerySet")->n == 0)
		return sim_fail(req, res, 400, "0x80040203", "QuerySet must hold at least one query.");
	if (sim_json_member(body, "JobName")->type != SIM_JSON_STRING)
		return sim_fail(req, res, 400, "0x80040203", "JobName must be text.");
	return true;
}

/* when to start: at once, or at a later StartDateTime; on the monotonic clock */
static int64_t
start_time(struct sim *sim, const struct sim_json *when)
{
	int64_t		now = sim_now_us(sim);
	int64_t		seconds;

	if (when->type == SIM_JSON_STRING && sim_time_parse(when->s, when->len, &seconds) &&
		seconds > sim_unix_now(sim) && seconds < sim_unix_now(sim) + 366 * 86400LL)
		now += (seconds - sim_unix_now(sim)) * 1000000;
	return now + WAIT_US;
}

static void
set_names(struct sim_req *req, struct job *job, const struct sim_json *name)
{
	struct sim_buf json = {0};
	uint64_t	now = (uint64_t) (req->sim->epoch_us + sim_now_us(req->sim));

	sim_guid_make(now, sim_random(req->sim), job->id);
	sim_guid_make(now, sim_random(req->sim), job->operation_id);
	sim_put_json(&json, name->s, name->len);
	job->name = sim_xstrdup(json.s);
	sim_buf_free(&json);
}

bool
sim_bulk_delete(struct sim_req *req, struct sim_res *res)
{
	struct sim_json *body = sim_body_object(req, res, NULL);
	struct job *job;
	char		id[37] = "";

	if (body == NULL || !check_members(req, res, body))
		return false;
	job = sim_xalloc(sizeof(*job));
	job->store = req->sim->store;
	memcpy(job->user_id, req->user_id, sizeof(job->user_id));
	job->start_us = start_time(req->sim, sim_json_member(body, "StartDateTime"));
	job->shown_us = sim_now_us(req->sim) + LAG_US;
	set_names(req, job, sim_json_member(body, "JobName"));
	if (!take_queries(req, res, job, sim_json_member(body, "QuerySet")) ||
		(!sim_quirk(req->sim, SIM_QUIRK_LAGGING_JOBS) && !show_job(req, res, job)))
	{
		free_job(job);
		return false;
	}
	job->next = jobs;
	jobs = job;
	sim_guid_print(job->id, id);
	sim_putf(&res->body, "{\"@odata.context\":\"%s" SIM_ROOT "$metadata#Microsoft.Dynamics.CRM."
			 "BulkDeleteResponse\",\"JobId\":\"%s\"}", req->base_url, id);
	sim_json_answer(res, 200);
	return true;
}

/*
 * trouble.c
 *		Handles requests that fail.
 *
 * This file maps the meanings of the service's errors to the causes that the
 * pool counts, and the failures of libcurl to errors.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "lib/stringinfo.h"

#include "client/trouble.h"
#include "net/text.h"
#include "net/xact.h"

/* In the order of dv_http_failure. */
static const struct
{
	dv_meaning	meaning;
	bool		final;
	int			sqlstate;
	const char *hint;
}			transport_rules[] =

{
	{DV_MEANING_CONNECTION, false, ERRCODE_CONNECTION_FAILURE, NULL},
	{DV_MEANING_CONNECTION, false, ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
	"Check the host name in option \"url\" and the name servers of this machine."},
	{DV_MEANING_CONNECTION, false, ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
	"Check options \"url\" and \"proxy\" of the server, and that this machine can reach the service."},
	{DV_MEANING_CONNECTION, true, ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
	"Check option \"ca_file\" of the server and the clock of this machine."},
	{DV_MEANING_TIMEOUT, false, ERRCODE_CONNECTION_FAILURE,
	"Lower option \"batch_size\" or \"page_size\", or raise option \"request_timeout\" of the server."},
	{DV_MEANING_CONNECTION, false, ERRCODE_CONNECTION_FAILURE, NULL},
	{DV_MEANING_CONNECTION, false, ERRCODE_CONNECTION_FAILURE, NULL},
	{DV_MEANING_CONNECTION, true, ERRCODE_PROGRAM_LIMIT_EXCEEDED,
	"Lower option \"page_size\", \"batch_size\", or \"max_parallel\", or use fewer cursors at a time."},
	{DV_MEANING_CONNECTION, true, ERRCODE_FDW_ERROR,
	"Check options \"url\" and \"proxy\" of the server."},
	{DV_MEANING_CONNECTION, true, ERRCODE_FDW_OUT_OF_MEMORY, NULL},
	{DV_MEANING_CONNECTION, false, ERRCODE_INSUFFICIENT_RESOURCES,
	"Increase the limits of open files of the server process and of the machine, or use fewer sessions at a time."},
	{DV_MEANING_CONNECTION, true, ERRCODE_QUERY_CANCELED, NULL},
	{DV_MEANING_CONNECTION, true, ERRCODE_FDW_ERROR, NULL},
};

/*
 * The cause as which each meaning is counted.  Others count as DV_RETRY_SERVER or
 * DV_THROTTLE_OTHER.
 */
static const struct
{
	dv_meaning	meaning;
	dv_retry_cause retry;
	dv_throttle_cause throttle;
}			counted_as[] =

{
	{DV_MEANING_MANY_REQUESTS, DV_RETRY_THROTTLE, DV_THROTTLE_REQUESTS},
	{DV_MEANING_LONG_EXECUTION, DV_RETRY_THROTTLE, DV_THROTTLE_EXECUTION},
	{DV_MEANING_CONCURRENCY, DV_RETRY_THROTTLE, DV_THROTTLE_CONCURRENCY},
	{DV_MEANING_CONNECTION, DV_RETRY_CONNECTION, DV_THROTTLE_OTHER},
	{DV_MEANING_TIMEOUT, DV_RETRY_TIMEOUT, DV_THROTTLE_OTHER},
	{DV_MEANING_DEADLOCK, DV_RETRY_DEADLOCK, DV_THROTTLE_OTHER},
	{DV_MEANING_SQL_TIMEOUT, DV_RETRY_SQL_TIMEOUT, DV_THROTTLE_OTHER},
	{DV_MEANING_NEW_TABLE, DV_RETRY_NEW_TABLE, DV_THROTTLE_OTHER},
};

static dv_retry_cause
retry_cause(const dv_error *error)
{
	int			i;

	for (i = 0; i < (int) lengthof(counted_as); i++)
		if (counted_as[i].meaning == error->meaning)
			return counted_as[i].retry;
	return DV_RETRY_SERVER;
}

dv_throttle_cause
dv_trouble_throttle_cause(const dv_error *error)
{
	int			i;

	for (i = 0; i < (int) lengthof(counted_as); i++)
		if (counted_as[i].meaning == error->meaning)
			return counted_as[i].throttle;
	return DV_THROTTLE_OTHER;
}

/* "Part 3 of attempt 1 was refused with code 0x80072322 and without a Retry-After, ..." */
static void
append_refusal(StringInfo s, const dv_error *error, int attempt, int part, int64 fallback)
{
	if (part > 0)
		appendStringInfo(s, "Part %d of attempt %d was refused", part, attempt);
	else
		appendStringInfo(s, "Attempt %d was refused", attempt);
	if (error->code[0] != '\0')
		appendStringInfo(s, " with code %s", error->code);
	else
		appendStringInfo(s, " with HTTP status %d", error->status);
	if (error->retry_after >= 0)
		appendStringInfo(s, " and a Retry-After of %.0f s.",
						 (double) error->retry_after / DV_SECOND);
	else
		appendStringInfo(s, " and without a Retry-After, so %g s are assumed.",
						 (double) fallback / DV_SECOND);
}

/* Includes the statement, which may be long, in the log only if "with_statement". */
static void
log_throttle(dv_session *session, const dv_retry *history, int user,
			 const dv_answer_throttle *throttle, bool with_statement)
{
	const dv_session_config *config = dv_session_config_of(session);
	int			used = dv_retry_throttles(history, dv_pool_served_at(dv_session_pool(session)));
	StringInfoData detail;

	initStringInfo(&detail);
	append_refusal(&detail, &throttle->error, history->attempts, throttle->part,
				   config->pool.fallback_retry_after);
	if (config->retry.max_throttle_retries > 0)
		appendStringInfo(&detail, "  %d of %d retries have been used.", used,
						 config->retry.max_throttle_retries);
	else
		appendStringInfo(&detail, "  %d of an unlimited number of retries have been used.",
						 used);
	ereport(LOG,
			(errmsg("Dataverse throttled application user \"%s\" of server \"%s\"",
					dv_pool_user_name(dv_session_pool(session), user), config->server_name),
			 errdetail_internal("%s", detail.data),
			 errhidestmt(!with_statement),
			 errhidecontext(!with_statement)));
	pfree(detail.data);
}

void
dv_trouble_log_throttles(dv_session *session, const dv_retry *history, int user,
						 const dv_answer *answer)
{
	int			i;

	for (i = 0; i < answer->nthrottles; i++)
		log_throttle(session, history, user, &answer->throttles[i], i == 0);
}

dv_retry_decision
dv_trouble_decide(dv_session *session, dv_retry *retry, const dv_error *error,
				  const dv_attempt *attempt)
{
	const dv_session_config *config = dv_session_config_of(session);
	dv_pool    *pool = dv_session_pool(session);
	dv_retry_event event = {
		.verdict = error->verdict,
		.unknown = error->outcome_unknown,
		.repeatable = attempt->repeatable,
		.at_fault = attempt->at_fault,
		.others = attempt->others,
		.found_out = attempt->found_out,
		.sent_at = attempt->sent_at,
		.told = error->retry_after,
		.served_at = error->verdict == DV_VERDICT_THROTTLED ? dv_pool_served_at(pool) : 0,
		.held_back = config->pool.throttle_tracking && attempt->pool_told,
		.pause = -1,
		.now = dv_now(),
		.random = pg_prng_double(&pg_global_prng_state),
	};
	dv_retry_decision decision;

	if (error->verdict == DV_VERDICT_RETRY)
	{
		event.cause = retry_cause(error);
		event.divisible = attempt->divisible && dv_error_asks_for_less(error);
	}
	if (error->verdict == DV_VERDICT_THROTTLED && (attempt->pool_told || error->retry_after >= 0))
	{
		if (error->retry_after < 0)
			event.told = config->pool.fallback_retry_after;
		event.pause = dv_pool_pause(pool, error->retry_after);
	}
	decision = dv_retry_decide(retry, &config->retry, &event);
	if (decision.next == DV_NEXT_AGAIN && !attempt->counted)
		dv_pool_count_retry(pool, attempt->user, decision.cause);
	return decision;
}

dv_retry_decision
dv_trouble_no_token(dv_session *session, dv_retry *retry, const dv_token_error *error, int user,
					bool others)
{
	const dv_session_config *config = dv_session_config_of(session);
	dv_retry_event event = {
		.verdict = error->transient ? DV_VERDICT_RETRY : DV_VERDICT_REFUSED,
		.cause = DV_RETRY_AUTH,
		.at_fault = true,
		.others = others,
		.told = error->retry_after,
		.random = pg_prng_double(&pg_global_prng_state),
	};
	dv_retry_decision decision = dv_retry_decide(retry, &config->retry, &event);

	if (decision.next == DV_NEXT_AGAIN)
		dv_pool_count_retry(dv_session_pool(session), user, decision.cause);
	return decision;
}

void
dv_trouble_read(const dv_http_result *result, dv_error *error)
{
	memset(error, 0, sizeof(*error));
	error->verdict = transport_rules[result->failure].final ? DV_VERDICT_REFUSED : DV_VERDICT_RETRY;
	error->meaning = transport_rules[result->failure].meaning;
	error->sqlstate = transport_rules[result->failure].sqlstate;
	error->hint = transport_rules[result->failure].hint;
	error->outcome_unknown = result->outcome == DV_HTTP_UNKNOWN;
	error->retry_after = -1;
	error->code = "";
	error->message = dv_http_failure_text(result);
}

void
dv_trouble_set(dv_error *error, dv_verdict verdict, int sqlstate, const char *message,
			   const char *hint)
{
	memset(error, 0, sizeof(*error));
	error->verdict = verdict;
	error->sqlstate = sqlstate;
	error->retry_after = -1;
	error->code = "";
	error->message = message;
	error->hint = hint;
}

static const char *
copy_text(const char *s)
{
	return s != NULL ? pstrdup(s) : NULL;
}

void
dv_trouble_copy(dv_error *copy, const dv_error *error)
{
	*copy = *error;
	copy->code = copy_text(error->code);
	copy->name = copy_text(error->name);
	copy->message = copy_text(error->message);
	copy->request_id = copy_text(error->request_id);
	copy->details = copy_text(error->details);
	copy->user = copy_text(error->user);
	copy->hint = copy_text(error->hint);
}

/*
 * The limit of the service
 */

#define LIMIT_NAME "dataverse_throttle"

/* An error with this name has been raised in this transaction. */
static bool limit_met = false;

static void
on_xact(XactEvent event)
{
	limit_met = false;
}

static dv_xact_participant xact_participant = {
	.phase = DV_XACT_FREE,
	.on_xact = on_xact
};

int
dv_trouble_limit(const dv_error *error, const dv_session_config *config)
{
	if (error->verdict != DV_VERDICT_THROTTLED || config->bounds_throttles)
		return 0;
	dv_xact_join(&xact_participant);
	limit_met = true;
	return err_generic_string(PG_DIAG_CONSTRAINT_NAME, LIMIT_NAME);
}

bool
dv_trouble_was_limit(const char *name)
{
	return limit_met && strcmp(name, LIMIT_NAME) == 0;
}

void
dv_trouble_raise(const dv_error *error, const dv_session_config *config, const char *what)
{
	const char *detail = dv_error_detail(error);

	ereport(ERROR,
			(errcode(error->sqlstate),
			 errmsg("could not %s on server \"%s\": %s", what, config->server_name,
					dv_text_told(error->message)),
			 detail[0] != '\0' ? errdetail_internal("%s", dv_text_told(detail)) : 0,
			 error->hint != NULL ? errhint("%s", error->hint) : 0,
			 dv_trouble_limit(error, config)));
}

static void
append_cause(StringInfo text, const char *name, int64 times)
{
	if (times > 0)
		appendStringInfo(text, "%s%s %lld", text->len > 0 ? ", " : "", name, (long long) times);
}

const char *
dv_trouble_causes(int64 repeated, const int64 *causes)
{
	StringInfoData text;
	int			i;

	initStringInfo(&text);
	for (i = 0; i < DV_RETRY_CAUSES; i++)
	{
		append_cause(&text, dv_retry_cause_name((dv_retry_cause) i), causes[i]);
		repeated -= causes[i];
	}
	append_cause(&text, "another user", repeated);
	return text.data;
}

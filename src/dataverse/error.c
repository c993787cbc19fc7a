/*-------------------------------------------------------------------------
 *
 * error.c
 *		Reading the service's errors, deciding what can be done, raising them.
 *
 * Two tables hold the knowledge: what a code means (SQLSTATE, whether and
 * why to try again, what to tell the user) and, for answers without a known
 * code, what a status means.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <json-c/json.h>
#include <time.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "dataverse/error.h"
#include "net/date.h"
#include "net/json.h"

#define MAX_MESSAGE 2000

typedef struct dv_code_rule
{
	const char *code;
	int			sqlstate;
	dv_verdict	verdict;
	dv_retry_cause cause;		/* of RETRY */
	const char *hint;
} dv_code_rule;

#define REFUSED(code, state) {code, state, DV_VERDICT_REFUSED, 0, NULL}
#define REFUSED_HINT(code, state, hint) {code, state, DV_VERDICT_REFUSED, 0, hint}
#define RETRY(code, state, cause) {code, state, DV_VERDICT_RETRY, cause, NULL}
#define THROTTLED(code) {code, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, DV_VERDICT_THROTTLED, 0, throttle_hint}

static const char throttle_hint[] =
"Add application users to the user mapping, lower the parallelism, or raise \"max_retry_after_tolerance\" or \"max_throttle_retries\" of the server.";
static const char privilege_hint[] =
"Give the application user a security role that has this privilege.";

static const dv_code_rule code_rules[] = {
	/* service protection and its kin */
	THROTTLED("0x80072321"),
	THROTTLED("0x80072322"),
	THROTTLED("0x80072326"),
	THROTTLED("0x8005F103"),
	THROTTLED("0x80072323"),
	THROTTLED("0x80072324"),
	THROTTLED("0x80072327"),
	THROTTLED("0x80072329"),
	THROTTLED("0x8004A001"),
	THROTTLED("0x80048559"),
	THROTTLED("0x80048d04"),
	REFUSED("0x80072325", ERRCODE_DISK_FULL),

	/* who may */
	{"0x80041d52", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, DV_VERDICT_AUTH, 0, NULL},
	{"0x8005F101", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, DV_VERDICT_AUTH, 0, NULL},
	REFUSED_HINT("0x80072560", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
				 "Create an application user for this client id in the environment."),
	REFUSED_HINT("0x80040225", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
				 "Enable the application user in the environment."),
	REFUSED_HINT("0x80040220", ERRCODE_INSUFFICIENT_PRIVILEGE, privilege_hint),
	REFUSED_HINT("0x80040231", ERRCODE_INSUFFICIENT_PRIVILEGE, privilege_hint),
	REFUSED_HINT("0x80048306", ERRCODE_INSUFFICIENT_PRIVILEGE, privilege_hint),
	REFUSED_HINT("0x80048405", ERRCODE_INSUFFICIENT_PRIVILEGE, privilege_hint),

	/* rows and keys */
	REFUSED("0x80040237", ERRCODE_UNIQUE_VIOLATION),
	REFUSED("0x80060892", ERRCODE_UNIQUE_VIOLATION),
	REFUSED("0x80073002", ERRCODE_UNIQUE_VIOLATION),
	REFUSED("0x80040333", ERRCODE_UNIQUE_VIOLATION),
	REFUSED("0x80040217", ERRCODE_FOREIGN_KEY_VIOLATION),
	REFUSED("0x80060891", ERRCODE_FOREIGN_KEY_VIOLATION),
	REFUSED("0x80040227", ERRCODE_RESTRICT_VIOLATION),
	REFUSED("0x80060882", ERRCODE_T_R_SERIALIZATION_FAILURE),

	/* values */
	REFUSED("0x80044331", ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
	REFUSED("0x80073001", ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
	REFUSED("0x80090429", ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
	REFUSED("0x80044330", ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
	REFUSED("0x8004432F", ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
	REFUSED("0x80041136", ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
	REFUSED("0x80040239", ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
	REFUSED("0x8004431A", ERRCODE_CHECK_VIOLATION),
	REFUSED("0x80048408", ERRCODE_CHECK_VIOLATION),
	REFUSED("0x80040203", ERRCODE_INVALID_PARAMETER_VALUE),
	REFUSED("0x80048d19", ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
	REFUSED("0x80040265", ERRCODE_RAISE_EXCEPTION),

	/* names and limits of queries */
	REFUSED("0x8006088a", ERRCODE_FDW_TABLE_NOT_FOUND),
	REFUSED("0x80041102", ERRCODE_FDW_TABLE_NOT_FOUND),
	REFUSED("0x80041103", ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
	REFUSED("0x0", ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
	REFUSED("0x8004430C", ERRCODE_STATEMENT_TOO_COMPLEX),
	REFUSED("0x8004430D", ERRCODE_STATEMENT_TOO_COMPLEX),
	REFUSED("0x8004430E", ERRCODE_STATEMENT_TOO_COMPLEX),
	REFUSED("0x8004E023", ERRCODE_PROGRAM_LIMIT_EXCEEDED),
	REFUSED("0x8004418a", ERRCODE_PROGRAM_LIMIT_EXCEEDED),

	/* transient */
	RETRY("0x80044151", ERRCODE_FDW_UNABLE_TO_CREATE_EXECUTION, DV_RETRY_SQL_TIMEOUT),
	RETRY("0x80040255", ERRCODE_T_R_DEADLOCK_DETECTED, DV_RETRY_DEADLOCK),
	RETRY("0x80040251", ERRCODE_T_R_DEADLOCK_DETECTED, DV_RETRY_DEADLOCK),
	RETRY("0x80048105", ERRCODE_T_R_DEADLOCK_DETECTED, DV_RETRY_DEADLOCK),
	RETRY("0x8004419d", ERRCODE_FDW_UNABLE_TO_CREATE_EXECUTION, DV_RETRY_NEW_TABLE),
};

/* The generic SQL error says in its text which one it was. */
#define GENERIC_SQL_ERROR "0x80044150"

static const struct
{
	const char *text;
	dv_code_rule rule;
}			sql_numbers[] =

{
	{"Sql Number: 1205", RETRY(GENERIC_SQL_ERROR, ERRCODE_T_R_DEADLOCK_DETECTED, DV_RETRY_DEADLOCK)},
	{"Sql Number: 3732", RETRY(GENERIC_SQL_ERROR, ERRCODE_FDW_ERROR, DV_RETRY_NEW_TABLE)},
	{"Sql Number: 2766", RETRY(GENERIC_SQL_ERROR, ERRCODE_FDW_ERROR, DV_RETRY_NEW_TABLE)},
	{"Sql Number: 2812", RETRY(GENERIC_SQL_ERROR, ERRCODE_FDW_ERROR, DV_RETRY_NEW_TABLE)},
	{"Sql Number: 208", RETRY(GENERIC_SQL_ERROR, ERRCODE_FDW_ERROR, DV_RETRY_NEW_TABLE)},
};

/* What a status means when the code says nothing; "unknown": it may have been carried out. */
static const struct
{
	int			status;
	dv_verdict	verdict;
	dv_retry_cause cause;
	bool		unknown;
	int			sqlstate;
}			status_rules[] =

{
	{401, DV_VERDICT_AUTH, 0, false, ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION},
	{403, DV_VERDICT_REFUSED, 0, false, ERRCODE_INSUFFICIENT_PRIVILEGE},
	{404, DV_VERDICT_REFUSED, 0, false, ERRCODE_FDW_TABLE_NOT_FOUND},
	{408, DV_VERDICT_RETRY, DV_RETRY_TIMEOUT, true, ERRCODE_CONNECTION_FAILURE},
	{412, DV_VERDICT_REFUSED, 0, false, ERRCODE_T_R_SERIALIZATION_FAILURE},
	{413, DV_VERDICT_REFUSED, 0, false, ERRCODE_PROGRAM_LIMIT_EXCEEDED},
	{429, DV_VERDICT_THROTTLED, 0, false, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED},
	{500, DV_VERDICT_RETRY, DV_RETRY_SERVER, true, ERRCODE_FDW_ERROR},
	{501, DV_VERDICT_REFUSED, 0, false, ERRCODE_FEATURE_NOT_SUPPORTED},
	{502, DV_VERDICT_RETRY, DV_RETRY_SERVER, true, ERRCODE_CONNECTION_FAILURE},
	{503, DV_VERDICT_RETRY, DV_RETRY_SERVER, true, ERRCODE_CANNOT_CONNECT_NOW},
	{504, DV_VERDICT_RETRY, DV_RETRY_TIMEOUT, true, ERRCODE_CONNECTION_FAILURE},
};

static const dv_code_rule *
rule_of(const char *code, const char *message)
{
	int			i;

	if (pg_strcasecmp(code, GENERIC_SQL_ERROR) == 0)
	{
		for (i = 0; i < (int) lengthof(sql_numbers); i++)
			if (strstr(message, sql_numbers[i].text) != NULL)
				return &sql_numbers[i].rule;
		if (strstr(message, "deadlock") != NULL)
			return &sql_numbers[0].rule;
		return NULL;
	}
	for (i = 0; i < (int) lengthof(code_rules); i++)
		if (pg_strcasecmp(code, code_rules[i].code) == 0)
			return &code_rules[i];
	return NULL;
}

static char *
clip(const char *s)
{
	int			len = strlen(s);

	if (len > MAX_MESSAGE)
		len = pg_mbcliplen(s, len, MAX_MESSAGE);
	return pnstrdup(s, len);
}

/* A member whose name ends so, whatever its prefix. */
static const char *
member_by_suffix(struct json_object *object, const char *suffix)
{
	struct json_object_iterator it = json_object_iter_begin(object);
	struct json_object_iterator end = json_object_iter_end(object);

	for (; !json_object_iter_equal(&it, &end); json_object_iter_next(&it))
	{
		const char *name = json_object_iter_peek_name(&it);
		size_t		len = strlen(name);

		if (len >= strlen(suffix) && strcmp(name + len - strlen(suffix), suffix) == 0)
			return dv_json_string(object, name);
	}
	return NULL;
}

/* {"error":{"code":…,"message":…,"@…":…}} */
static bool
read_odata_shape(struct json_object *root, dv_error *error)
{
	struct json_object *inner;
	const char *s;

	if (!json_object_object_get_ex(root, "error", &inner) ||
		!json_object_is_type(inner, json_type_object))
		return false;
	if ((s = dv_json_string(inner, "code")) != NULL)
		error->code = clip(s);
	if ((s = dv_json_string(inner, "message")) != NULL && *s != '\0')
		error->message = clip(s);
	if ((s = member_by_suffix(inner, "ErrorDetails.ApiExceptionMessageName")) != NULL)
		error->name = clip(s);
	if ((s = member_by_suffix(inner, "Plugin.BulkApiErrorDetails")) != NULL)
		error->details = pstrdup(s);
	return true;
}

/* {"Message":…,"ExceptionMessage":…,"ErrorCode":…}: the hosting layer */
static void
read_host_shape(struct json_object *root, dv_error *error)
{
	const char *s;

	if ((s = dv_json_string(root, "ErrorCode")) != NULL)
		error->code = clip(s);
	if ((s = dv_json_string(root, "ExceptionMessage")) != NULL ||
		(s = dv_json_string(root, "Message")) != NULL)
		error->message = clip(s);
}

static void
read_body(const char *body, size_t len, dv_error *error)
{
	struct json_object *root = len > 0 ? dv_json_parse(body, len, NULL) : NULL;

	if (root != NULL && json_object_is_type(root, json_type_object) &&
		!read_odata_shape(root, error))
		read_host_shape(root, error);
}

static void
judge_by_status(dv_error *error)
{
	int			i;

	error->verdict = error->status >= 500 ? DV_VERDICT_RETRY : DV_VERDICT_REFUSED;
	error->cause = DV_RETRY_SERVER;
	error->outcome_unknown = error->status >= 500;
	error->sqlstate = ERRCODE_FDW_ERROR;
	for (i = 0; i < (int) lengthof(status_rules); i++)
	{
		if (status_rules[i].status != error->status)
			continue;
		error->verdict = status_rules[i].verdict;
		error->cause = status_rules[i].cause;
		error->outcome_unknown = status_rules[i].unknown;
		error->sqlstate = status_rules[i].sqlstate;
	}
}

static void
judge(dv_error *error)
{
	const dv_code_rule *rule = rule_of(error->code, error->message);

	judge_by_status(error);
	if (rule != NULL && error->status != 401)
	{
		error->verdict = rule->verdict;
		error->cause = rule->cause;
		error->sqlstate = rule->sqlstate;
		error->hint = rule->hint;
		/* the service has said what became of it */
		error->outcome_unknown = false;
	}
	/* a busy server that says when to come back is a throttle by another name */
	if (error->status == 503 && error->retry_after >= 0 && error->verdict == DV_VERDICT_RETRY)
		error->verdict = DV_VERDICT_THROTTLED;
	if (error->verdict == DV_VERDICT_THROTTLED)
	{
		error->throttle = DV_THROTTLE_OTHER;
		(void) dv_throttle_cause_of(error->code, &error->throttle);
		error->hint = throttle_hint;
	}
}

void
dv_error_read(int status, const char *body, size_t len, const char *retry_after,
			  const char *request_id, dv_error *error)
{
	memset(error, 0, sizeof(*error));
	error->status = status;
	error->code = "";
	error->message = "";
	error->request_id = request_id != NULL ? clip(request_id) : NULL;
	error->retry_after = dv_retry_after(retry_after, (int64) time(NULL));
	if (status < 300 || status == 304)
	{
		error->verdict = DV_VERDICT_OK;
		return;
	}
	read_body(body, len, error);
	if (error->message[0] == '\0')
		error->message = psprintf("HTTP status %d", status);
	judge(error);
	/* a token must not travel to wherever an answer points */
	if (status < 400)
		error->hint = "Redirects are not followed; check option \"url\" of the server.";
}

/* In the order of dv_http_failure. */
static const struct
{
	dv_retry_cause cause;
	bool		final;
	int			sqlstate;
	const char *hint;
}			transport_rules[] =

{
	{DV_RETRY_CONNECTION, false, ERRCODE_CONNECTION_FAILURE, NULL},
	{DV_RETRY_CONNECTION, false, ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
	"Check the host name in option \"url\" and the name servers of this machine."},
	{DV_RETRY_CONNECTION, false, ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
	"Check option \"url\", option \"proxy\", and that this machine may reach the service."},
	{DV_RETRY_CONNECTION, true, ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
	"Check option \"ca_file\" of the server and the clock of this machine."},
	{DV_RETRY_TIMEOUT, false, ERRCODE_CONNECTION_FAILURE,
	"Use smaller batches, or raise option \"request_timeout\" of the server."},
	{DV_RETRY_CONNECTION, false, ERRCODE_CONNECTION_FAILURE, NULL},
	{DV_RETRY_CONNECTION, false, ERRCODE_CONNECTION_FAILURE, NULL},
	{DV_RETRY_CONNECTION, true, ERRCODE_PROGRAM_LIMIT_EXCEEDED,
	"Lower option \"page_size\" or \"batch_size\"."},
	{DV_RETRY_CONNECTION, true, ERRCODE_FDW_OUT_OF_MEMORY, NULL},
	{DV_RETRY_CONNECTION, true, ERRCODE_QUERY_CANCELED, NULL},
	{DV_RETRY_CONNECTION, true, ERRCODE_FDW_ERROR, NULL},
};

void
dv_error_transport(const dv_http_result *result, dv_error *error)
{
	memset(error, 0, sizeof(*error));
	error->verdict = transport_rules[result->failure].final ? DV_VERDICT_REFUSED : DV_VERDICT_RETRY;
	error->cause = transport_rules[result->failure].cause;
	error->sqlstate = transport_rules[result->failure].sqlstate;
	error->hint = transport_rules[result->failure].hint;
	error->outcome_unknown = result->outcome == DV_HTTP_UNKNOWN;
	error->retry_after = -1;
	error->code = "";
	error->message = psprintf("%s: %s", dv_http_failure_name(result->failure),
							  clip(result->message));
}

const char *
dv_error_detail(const dv_error *error)
{
	StringInfoData detail;

	initStringInfo(&detail);
	if (error->code[0] != '\0')
		appendStringInfo(&detail, "Dataverse code %s", error->code);
	if (error->name != NULL)
		appendStringInfo(&detail, " (%s)", error->name);
	if (error->status != 0)
		appendStringInfo(&detail, "%sHTTP status %d", detail.len > 0 ? ", " : "", error->status);
	if (error->request_id != NULL)
		appendStringInfo(&detail, "%srequest id %s", detail.len > 0 ? ", " : "", error->request_id);
	if (error->user != NULL && error->attempts > 0)
		appendStringInfo(&detail, "%s \"%s\", attempts %d",
						 detail.len > 0 ? ", application user" : "Application user",
						 error->user, error->attempts);
	if (detail.len > 0)
		appendStringInfoChar(&detail, '.');
	return detail.data;
}

void
dv_error_raise(const dv_error *error, const char *server, const char *what)
{
	const char *detail = dv_error_detail(error);

	ereport(ERROR,
			(errcode(error->sqlstate),
			 errmsg("could not %s on server \"%s\": %s", what, server, error->message),
			 detail[0] != '\0' ? errdetail_internal("%s", detail) : 0,
			 error->hint != NULL ? errhint("%s", error->hint) : 0));
}

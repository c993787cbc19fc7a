/*
 * error.c
 *		Reads the service's errors, and decides what can be done about them.
 *
 * One table defines the meaning of codes: the SQLSTATE, whether the same request
 * may succeed later, the subject of the error, and the hint for the user.  A new
 * code is one line in it.  If there is no code, or it is not in the table, a
 * second table defines the meaning of the status.
 *
 * A throttle pauses its user in all sessions and halves the number of requests
 * that the user may have in flight.  Therefore only errors that certainly
 * concern the user are throttles: the three limits of service protection, a 429
 * without a known code, and errors with a Retry-After.  All other temporary
 * errors are transient: they concern a single request, which is repeated with
 * growing pauses.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <json-c/json.h>
#include <time.h>

#include "lib/stringinfo.h"

#include "dataverse/error.h"
#include "net/clock.h"
#include "net/date.h"
#include "net/json.h"
#include "net/text.h"

typedef struct dv_code_rule
{
	const char *code;
	const char *text;			/* text that the message must contain; NULL: any message */
	int			sqlstate;
	dv_verdict	verdict;
	dv_meaning	meaning;
	const char *hint;
} dv_code_rule;

#define REFUSED(code, state) {code, NULL, state, DV_VERDICT_REFUSED, DV_MEANING_OTHER, NULL}
#define REFUSED_AS(code, state, meaning) {code, NULL, state, DV_VERDICT_REFUSED, meaning, NULL}
#define REFUSED_NAME(code, state, hint) {code, NULL, state, DV_VERDICT_REFUSED, DV_MEANING_OTHER, hint}
#define REFUSED_USER(code, hint) \
	{code, NULL, ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, DV_VERDICT_REFUSED, DV_MEANING_USER, hint}
#define REFUSED_ACCESS(code) \
	{code, NULL, ERRCODE_INSUFFICIENT_PRIVILEGE, DV_VERDICT_REFUSED, DV_MEANING_ACCESS, privilege_hint}
#define REFUSED_KEY(code) \
	{code, NULL, ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE, DV_VERDICT_REFUSED, DV_MEANING_OTHER, DV_KEY_HINT}
#define AUTH(code) \
	{code, NULL, ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, DV_VERDICT_AUTH, DV_MEANING_OTHER, NULL}
#define RETRY(code, state, meaning) {code, NULL, state, DV_VERDICT_RETRY, meaning, NULL}
#define RETRY_TEXT(code, text, state, meaning) {code, text, state, DV_VERDICT_RETRY, meaning, NULL}
#define BUSY(code) RETRY(code, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, DV_MEANING_BUSY)
#define QUERY_THROTTLED(code) \
	{code, NULL, ERRCODE_INSUFFICIENT_RESOURCES, DV_VERDICT_RETRY, DV_MEANING_SERVER, query_hint}
#define SQL_TIMEOUT(code) \
	RETRY(code, ERRCODE_FDW_UNABLE_TO_CREATE_EXECUTION, DV_MEANING_SQL_TIMEOUT)
#define THROTTLED(code, meaning) \
	{code, NULL, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, DV_VERDICT_THROTTLED, meaning, throttle_hint}

static const char throttle_hint[] =
"Add application users to the user mapping, lower \"max_parallel\", or raise \"max_retry_after_tolerance\" or \"max_throttle_retries\" of the server.";
static const char query_hint[] =
"Dataverse accepts only some queries of this kind: narrow its conditions, and avoid patterns that begin with a wildcard and conditions on calculated columns.";
static const char privilege_hint[] =
"Give the application user a security role that has this privilege.";

static const char role_hint[] =
"Check the security roles of the application user.";
static const char changed_hint[] =
"Repeat the statement to read the current version of the row.";
static const char versions_hint[] =
"Set \"match_version\" to \"off\" for this table: Dataverse can compare versions only where the table has IsOptimisticConcurrencyEnabled.";

static const char table_hint[] =
"Check the name of the table (options \"table\" and \"entity_set\" of a foreign table); dataverse.import_diff() shows what has changed in Dataverse.";
static const char column_hint[] =
"Check the name of the column (option \"column\" of the foreign table's column); dataverse.import_diff() shows what has changed in Dataverse.";
static const char type_hint[] =
"Check the type of the column; dataverse.import_diff() shows the types in Dataverse.";
static const char address_hint[] =
"Check options \"url\", \"api_version\", and \"proxy\" of the server.";
static const char token_hint[] =
"Check that the application user exists in the environment of option \"url\", and that option \"tenant_id\" of the server is the environment's tenant.";

static const char expired_hint[] =
"Read the table again from its beginning, without a token; dataverse.pull() compares ids and versions instead.";
static const char tracking_hint[] =
"Turn on change tracking in the properties of the table in Dataverse.";

static const dv_code_rule code_rules[] = {
	/* service protection: these three are limits of the user */
	THROTTLED("0x80072322", DV_MEANING_MANY_REQUESTS),
	THROTTLED("0x80072321", DV_MEANING_LONG_EXECUTION),
	THROTTLED("0x80072326", DV_MEANING_CONCURRENCY),

	/* limits of databases and servers, for all users */
	BUSY("0x8005F103"),
	BUSY("0x80072323"),
	BUSY("0x80072324"),
	BUSY("0x80072327"),
	BUSY("0x80072329"),
	BUSY("0x8004A001"),
	BUSY("0x80048559"),
	BUSY("0x80048d04"),
	REFUSED("0x80072325", ERRCODE_DISK_FULL),

	/* of costly queries, some fraction fails */
	QUERY_THROTTLED("0x80048544"),
	QUERY_THROTTLED("0x80048644"),
	QUERY_THROTTLED("0x80048744"),
	QUERY_THROTTLED("0x80048745"),
	QUERY_THROTTLED("0x80050544"),

	/* authentication and privileges */
	AUTH("0x80041d52"),
	AUTH("0x8005F101"),
	REFUSED_USER("0x80072560", "Create an application user for this client id in the environment."),
	REFUSED_USER("0x80040225", "Enable the application user in the environment."),
	REFUSED_ACCESS("0x80040220"),
	REFUSED_ACCESS("0x80040231"),
	REFUSED_ACCESS("0x80048306"),
	REFUSED_ACCESS("0x80048405"),

	/* rows and keys */
	REFUSED_AS("0x80040237", ERRCODE_UNIQUE_VIOLATION, DV_MEANING_DUPLICATE),
	REFUSED_AS("0x80060892", ERRCODE_UNIQUE_VIOLATION, DV_MEANING_DUPLICATE),
	REFUSED_AS("0x80073002", ERRCODE_UNIQUE_VIOLATION, DV_MEANING_DUPLICATE),
	REFUSED("0x80040333", ERRCODE_UNIQUE_VIOLATION),
	/* of a table, not of a row */
	{"0x80040217", "not found in the MetadataCache", ERRCODE_FDW_TABLE_NOT_FOUND, DV_VERDICT_REFUSED,
	DV_MEANING_OTHER, DV_TABLE_NAME_HINT},
	REFUSED_AS("0x80040217", ERRCODE_FOREIGN_KEY_VIOLATION, DV_MEANING_MISSING),
	REFUSED("0x80060891", ERRCODE_FOREIGN_KEY_VIOLATION),
	REFUSED("0x80040227", ERRCODE_RESTRICT_VIOLATION),
	{"0x80060882", NULL, ERRCODE_T_R_SERIALIZATION_FAILURE, DV_VERDICT_REFUSED, DV_MEANING_CHANGED, changed_hint},
	{"0x8006088D", NULL, ERRCODE_FEATURE_NOT_SUPPORTED, DV_VERDICT_REFUSED, DV_MEANING_NO_VERSIONS, versions_hint},

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
	REFUSED_KEY("0x80060889"),
	REFUSED_KEY("0x80060890"),
	REFUSED("0x80040265", ERRCODE_RAISE_EXCEPTION),

	/* change tracking */
	{"0x80044352", NULL, DV_SQLSTATE_TOKEN_EXPIRED, DV_VERDICT_REFUSED, DV_MEANING_OTHER, expired_hint},
	{"0x80072491", NULL, DV_SQLSTATE_NOT_TRACKED, DV_VERDICT_REFUSED, DV_MEANING_OTHER, tracking_hint},
	{"0x80072492", NULL, DV_SQLSTATE_NOT_TRACKED, DV_VERDICT_REFUSED, DV_MEANING_OTHER, tracking_hint},
	{"0x80044358", NULL, DV_SQLSTATE_NOT_TRACKED, DV_VERDICT_REFUSED, DV_MEANING_OTHER, tracking_hint},

	/* names and limits of queries */
	REFUSED_NAME("0x8006088a", ERRCODE_FDW_TABLE_NOT_FOUND, table_hint),
	REFUSED_NAME("0x80041102", ERRCODE_FDW_TABLE_NOT_FOUND, table_hint),
	REFUSED_NAME("0x80041103", ERRCODE_FDW_COLUMN_NAME_NOT_FOUND, column_hint),
	REFUSED_AS("0x80048d2d", ERRCODE_FDW_ERROR, DV_MEANING_NO_BULK),
	REFUSED("0x0", ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
	REFUSED("0x8004430C", ERRCODE_STATEMENT_TOO_COMPLEX),
	REFUSED("0x8004430D", ERRCODE_STATEMENT_TOO_COMPLEX),
	REFUSED_AS("0x8004430E", ERRCODE_STATEMENT_TOO_COMPLEX, DV_MEANING_MANY_VALUES),
	REFUSED_AS("0x8004E023", ERRCODE_PROGRAM_LIMIT_EXCEEDED, DV_MEANING_COUNT_LIMIT),
	REFUSED_AS("0x8004418a", ERRCODE_PROGRAM_LIMIT_EXCEEDED, DV_MEANING_TOO_LARGE),

	/* transient */
	SQL_TIMEOUT("0x80044151"),
	SQL_TIMEOUT("0x80048543"),
	SQL_TIMEOUT("0x80048553"),
	SQL_TIMEOUT("0x80048554"),
	SQL_TIMEOUT("0x80048573"),
	SQL_TIMEOUT("0x80048574"),
	SQL_TIMEOUT("0x80048575"),
	RETRY("0x80040255", ERRCODE_T_R_DEADLOCK_DETECTED, DV_MEANING_DEADLOCK),
	RETRY("0x80040251", ERRCODE_T_R_DEADLOCK_DETECTED, DV_MEANING_DEADLOCK),
	RETRY("0x80048105", ERRCODE_T_R_DEADLOCK_DETECTED, DV_MEANING_DEADLOCK),
	RETRY("0x8004419d", ERRCODE_FDW_UNABLE_TO_CREATE_EXECUTION, DV_MEANING_NEW_TABLE),

	/* the generic SQL error names its cause in the message */
	RETRY_TEXT("0x80044150", "Sql Number: 1205", ERRCODE_T_R_DEADLOCK_DETECTED, DV_MEANING_DEADLOCK),
	RETRY_TEXT("0x80044150", "Sql Number: 3732", ERRCODE_FDW_ERROR, DV_MEANING_NEW_TABLE),
	RETRY_TEXT("0x80044150", "Sql Number: 2766", ERRCODE_FDW_ERROR, DV_MEANING_NEW_TABLE),
	RETRY_TEXT("0x80044150", "Sql Number: 2812", ERRCODE_FDW_ERROR, DV_MEANING_NEW_TABLE),
	RETRY_TEXT("0x80044150", "Sql Number: 208", ERRCODE_FDW_ERROR, DV_MEANING_NEW_TABLE),
	RETRY_TEXT("0x80044150", "deadlock", ERRCODE_T_R_DEADLOCK_DETECTED, DV_MEANING_DEADLOCK),
};

/* Errors that are recognised by their texts, which come with several codes or none. */
static const struct
{
	const char *text;
	dv_meaning	meaning;
}			text_rules[] =

{
	{"is not enabled on the entity", DV_MEANING_NO_BULK},
	{"does not support entities of type", DV_MEANING_NO_BULK},
	{"has not yet been implemented", DV_MEANING_NO_BULK},
	{"for the segment 'Microsoft.Dynamics.CRM.", DV_MEANING_NO_BULK},
	{"message contains too many parts", DV_MEANING_MANY_PARTS},
	{"change set contains too many operations", DV_MEANING_MANY_PARTS},
	{"Message size exceeded", DV_MEANING_TOO_LARGE},
};

/* Mistakes that are recognised by the service's wording, which come with general codes. */
static const struct
{
	const char *text;
	const char *hint;
}			hint_rules[] =

{
	{"Resource not found for the segment", table_hint},
	{"Could not find a property named", column_hint},
	{"Invalid property '", column_hint},
	{"Cannot convert the literal", type_hint},
};

/*
 * The meaning of statuses, if the code has none.  With "unknown", the request
 * may have been carried out.
 */
static const struct
{
	int			status;
	dv_verdict	verdict;
	dv_meaning	meaning;
	bool		unknown;
	int			sqlstate;
}			status_rules[] =

{
	{401, DV_VERDICT_AUTH, DV_MEANING_CALLER, false, ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION},
	{403, DV_VERDICT_REFUSED, DV_MEANING_ACCESS, false, ERRCODE_INSUFFICIENT_PRIVILEGE},
	{404, DV_VERDICT_REFUSED, DV_MEANING_MISSING, false, ERRCODE_FDW_TABLE_NOT_FOUND},
	{408, DV_VERDICT_RETRY, DV_MEANING_TIMEOUT, true, ERRCODE_CONNECTION_FAILURE},
	{409, DV_VERDICT_REFUSED, DV_MEANING_DUPLICATE, false, ERRCODE_FDW_ERROR},
	{412, DV_VERDICT_REFUSED, DV_MEANING_OTHER, false, ERRCODE_T_R_SERIALIZATION_FAILURE},
	{413, DV_VERDICT_REFUSED, DV_MEANING_TOO_LARGE, false, ERRCODE_PROGRAM_LIMIT_EXCEEDED},
	{429, DV_VERDICT_THROTTLED, DV_MEANING_OTHER, false, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED},
	{500, DV_VERDICT_RETRY, DV_MEANING_SERVER, true, ERRCODE_FDW_ERROR},
	{501, DV_VERDICT_REFUSED, DV_MEANING_OTHER, false, ERRCODE_FEATURE_NOT_SUPPORTED},
	{502, DV_VERDICT_RETRY, DV_MEANING_SERVER, true, ERRCODE_CONNECTION_FAILURE},
	{503, DV_VERDICT_RETRY, DV_MEANING_BUSY, true, ERRCODE_CANNOT_CONNECT_NOW},
	{504, DV_VERDICT_RETRY, DV_MEANING_TIMEOUT, true, ERRCODE_CONNECTION_FAILURE},
};

/* Codes also come in decimal, as signed numbers. */
static bool
is_same_code(const char *code, const char *known)
{
	if (code[0] == '-')
		return (uint32) strtol(code, NULL, 10) == (uint32) strtoul(known, NULL, 16);
	return pg_strcasecmp(code, known) == 0;
}

static const dv_code_rule *
rule_of(const char *code, const char *message)
{
	const dv_code_rule *rule;

	for (rule = code_rules; rule < code_rules + lengthof(code_rules); rule++)
		if (is_same_code(code, rule->code) &&
			(rule->text == NULL || strstr(message, rule->text) != NULL))
			return rule;
	return NULL;
}

/* The service's text is shown as far as possible, so that nothing in it can hide the error. */
static char *
shown(const char *s)
{
	return dv_text_shown(s, strlen(s));
}

/* Returns the member whose name ends with the suffix, whatever its prefix. */
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
		error->code = shown(s);
	if ((s = dv_json_string(inner, "message")) != NULL && *s != '\0')
		error->message = shown(s);
	if ((s = member_by_suffix(inner, "ErrorDetails.ApiExceptionMessageName")) != NULL)
		error->name = shown(s);
	if ((s = member_by_suffix(inner, "Plugin.BulkApiErrorDetails")) != NULL)
		error->details = pstrdup(s);
	return true;
}

/* {"Message":…,"ExceptionMessage":…,"ErrorCode":…}, from the hosting layer */
static void
read_host_shape(struct json_object *root, dv_error *error)
{
	const char *s;

	if ((s = dv_json_string(root, "ErrorCode")) != NULL)
		error->code = shown(s);
	if ((s = dv_json_string(root, "ExceptionMessage")) != NULL ||
		(s = dv_json_string(root, "Message")) != NULL)
		error->message = shown(s);
}

static void
read_body(const char *body, size_t len, dv_error *error)
{
	struct json_object *root = len > 0 ? dv_json_parse(body, len, NULL) : NULL;

	if (root == NULL && len > 0)
		root = dv_json_parse(dv_text_mended(body, len), len, NULL);
	if (root != NULL && json_object_is_type(root, json_type_object) &&
		!read_odata_shape(root, error))
		read_host_shape(root, error);
}

static void
judge_by_status(dv_error *error)
{
	int			i;

	error->verdict = error->status >= 500 ? DV_VERDICT_RETRY : DV_VERDICT_REFUSED;
	error->meaning = error->status >= 500 ? DV_MEANING_SERVER : DV_MEANING_OTHER;
	error->outcome_unknown = error->status >= 500;
	error->sqlstate = ERRCODE_FDW_ERROR;
	for (i = 0; i < (int) lengthof(status_rules); i++)
	{
		if (status_rules[i].status != error->status)
			continue;
		error->verdict = status_rules[i].verdict;
		error->meaning = status_rules[i].meaning;
		error->outcome_unknown = status_rules[i].unknown;
		error->sqlstate = status_rules[i].sqlstate;
	}
	/* with a code, something other than the row may be missing, such as the table */
	if (error->meaning == DV_MEANING_MISSING && error->code[0] != '\0')
		error->meaning = DV_MEANING_OTHER;
}

static void
judge_by_text(dv_error *error)
{
	int			i;

	for (i = 0; i < (int) lengthof(text_rules); i++)
		if (strstr(error->message, text_rules[i].text) != NULL)
			error->meaning = text_rules[i].meaning;
}

static void
find_hint(dv_error *error)
{
	int			i;

	for (i = 0; error->hint == NULL && i < (int) lengthof(hint_rules); i++)
		if (strstr(error->message, hint_rules[i].text) != NULL)
			error->hint = hint_rules[i].hint;
	if (error->hint == NULL && error->status == 401)
		error->hint = token_hint;
	if (error->hint == NULL && error->status == 403 && !error->known)
		error->hint = role_hint;

	/*
	 * the service has codes for everything it does not find; at this address there is no Web API
	 */
	if (error->hint == NULL && error->status == 404 && error->code[0] == '\0')
		error->hint = address_hint;
}

static void
judge(dv_error *error)
{
	const dv_code_rule *rule = rule_of(error->code, error->message);

	judge_by_status(error);

	/* with a code for an error of the row, the text may come from elsewhere, such as a plug-in */
	if (rule == NULL || is_same_code(error->code, "0x0"))
		judge_by_text(error);
	if (rule != NULL && error->status != 401)
	{
		error->known = true;
		error->verdict = rule->verdict;
		if (rule->meaning != DV_MEANING_OTHER || error->meaning == DV_MEANING_ACCESS)
			error->meaning = rule->meaning;
		error->sqlstate = rule->sqlstate;
		error->hint = rule->hint;
		/* the service has said what happened to the request */
		error->outcome_unknown = false;
	}
	/* the name of the privilege begins with prv */
	if (error->meaning == DV_MEANING_ACCESS && strstr(error->message, "is missing prv") != NULL)
		error->meaning = DV_MEANING_PRIVILEGE;

	/*
	 * A busy service that sends a Retry-After is throttling under another name.  Otherwise, only
	 * this request is affected, and the user's other requests go on.
	 */
	if (error->meaning == DV_MEANING_BUSY && error->retry_after >= 0 &&
		error->verdict == DV_VERDICT_RETRY)
		error->verdict = DV_VERDICT_THROTTLED;
	if (error->verdict == DV_VERDICT_THROTTLED)
		error->hint = throttle_hint;
	find_hint(error);
}

void
dv_error_read(int status, const char *body, size_t len, const char *retry_after,
			  const char *date, const char *request_id, dv_error *error)
{
	memset(error, 0, sizeof(*error));
	error->status = status;
	error->code = "";
	error->message = "";
	error->request_id = request_id != NULL ? shown(request_id) : NULL;
	error->retry_after = dv_retry_after(retry_after, date, (int64) time(NULL));
	if (status < 300 || status == 304)
	{
		error->verdict = DV_VERDICT_OK;
		return;
	}
	read_body(body, len, error);
	if (error->message[0] == '\0')
		error->message = psprintf("the service answered with HTTP status %d", status);
	judge(error);
	/* do not send a token to the target of a redirect */
	if (status < 400)
		error->hint = "Redirects are not followed; check option \"url\" of the server.";
}

bool
dv_error_is_about_user(const dv_error *error)
{
	return error->meaning == DV_MEANING_USER || error->meaning == DV_MEANING_PRIVILEGE ||
		error->meaning == DV_MEANING_ACCESS;
}

bool
dv_error_asks_for_less(const dv_error *error)
{
	return error->meaning == DV_MEANING_TOO_LARGE ||
		(error->verdict == DV_VERDICT_RETRY &&
		 (error->meaning == DV_MEANING_SQL_TIMEOUT || error->meaning == DV_MEANING_DEADLOCK));
}

bool
dv_error_is_about_rows(const dv_error *error)
{
	return error->verdict == DV_VERDICT_REFUSED && error->status != 0 &&
		error->meaning != DV_MEANING_CALLER && error->meaning != DV_MEANING_USER &&
		error->meaning != DV_MEANING_NO_VERSIONS;
}

const char *
dv_error_detail(const dv_error *error)
{
	/* the hint about a token names the user already */
	bool		names_user = error->user != NULL &&
	(error->message == NULL ||
	 strstr(error->message, psprintf("application user \"%s\"", error->user)) == NULL);
	StringInfoData detail;

	initStringInfo(&detail);
	if (error->code[0] != '\0')
		appendStringInfo(&detail, "Dataverse code %s", error->code);
	if (error->code[0] != '\0' && error->name != NULL)
		appendStringInfo(&detail, " (%s)", error->name);
	if (error->status != 0)
		appendStringInfo(&detail, "%sHTTP status %d", detail.len > 0 ? ", " : "", error->status);
	if (error->retry_after >= 0)
		appendStringInfo(&detail, "%sRetry-After %.0f s", detail.len > 0 ? ", " : "",
						 (double) error->retry_after / DV_SECOND);
	else if (error->verdict == DV_VERDICT_THROTTLED)
		appendStringInfo(&detail, "%sno Retry-After", detail.len > 0 ? ", " : "");
	if (error->request_id != NULL)
		appendStringInfo(&detail, "%srequest id %s", detail.len > 0 ? ", " : "", error->request_id);
	if (names_user)
		appendStringInfo(&detail, "%s \"%s\"",
						 detail.len > 0 ? ", application user" : "Application user", error->user);
	if (names_user && error->attempts > 0)
		appendStringInfo(&detail, ", attempts %d", error->attempts);
	if (detail.len > 0)
		appendStringInfoChar(&detail, '.');
	return detail.data;
}

/*
 * option.c
 *		The options of servers, user mappings, foreign tables and columns.
 *
 * One table says which options there are, where each may be set, what its
 * values look like, what holds without it, and who may set it.  Everything
 * else here reads that table: the validator that PostgreSQL calls whenever
 * somebody sets options, the hints it gives, the getters, and the function
 * dataverse.options(), which the README is compared with.
 *
 * A user mapping may name several application users: the options marked
 * "numbered" exist once without a suffix (the first user) and again with the
 * suffixes _2 to _64.
 *
 * Secrets are options of user mappings only: those of servers are readable
 * by everybody.  What makes the server process use files, an identity or a
 * network of its own is for superusers, as in postgres_fdw.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <ctype.h>

#include "access/xact.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "compat.h"
#include "fdw/option.h"
#include "net/clock.h"
#include "net/url.h"

/* where an option may be set */
#define ON_SERVER 0x01
#define ON_USER   0x02
#define ON_TABLE  0x04
#define ON_COLUMN 0x08
#define ANYWHERE  0x0f
/* may carry a suffix _2 to _64 */
#define NUMBERED  0x10
/* never shown */
#define SECRET    0x20
/* only a superuser may set it */
#define SUPERUSER 0x40

typedef enum value_type
{
	VALUE_TEXT,
	VALUE_NAMES,				/* comma-separated */
	VALUE_BOOL,
	VALUE_INT,
	VALUE_REAL,
	VALUE_DURATION,				/* seconds unless a unit says otherwise */
	VALUE_CHOICE,
	VALUE_SITE,					/* URL without a path */
	VALUE_ADDRESS				/* URL */
} value_type;

typedef struct dv_option
{
	const char *name;
	int			flags;
	value_type	type;
	const char *default_value;	/* NULL: none */
	double		min;			/* numbers; durations in seconds */
	double		max;
	const char *const *choices; /* NULL-terminated */
} dv_option;

static const char *const selections[] = {"throttle_aware", "round_robin", "least_connections", NULL};
static const char *const dop_scopes[] = {"user", "environment", NULL};
static const char *const presets[] = {"conservative", "balanced", "aggressive", NULL};
static const char *const error_modes[] = {"abort", "continue", NULL};
static const char *const insert_modes[] = {"create", "upsert", "ignore_duplicates", NULL};
static const char *const bypasses[] = {"none", "sync", "async", "all", NULL};
static const char *const table_types[] = {"standard", "elastic", "virtual", "intersect", NULL};

#define NOTHING 0, 0, NULL

static const dv_option options[] = {
	/* where the service is */
	{"url", ON_SERVER, VALUE_SITE, NULL, NOTHING},
	{"api_version", ON_SERVER, VALUE_TEXT, "9.2", NOTHING},
	{"tenant_id", ON_SERVER, VALUE_TEXT, NULL, NOTHING},
	{"authority", ON_SERVER, VALUE_ADDRESS, "https://login.microsoftonline.com", NOTHING},
	{"token_url", ON_SERVER, VALUE_ADDRESS, NULL, NOTHING},

	/* how to talk to it */
	{"ca_file", ON_SERVER | SUPERUSER, VALUE_TEXT, NULL, NOTHING},
	{"proxy", ON_SERVER | SUPERUSER, VALUE_TEXT, NULL, NOTHING},
	{"connect_timeout", ON_SERVER, VALUE_DURATION, "30s", 0.001, 3600, NULL},
	{"request_timeout", ON_SERVER, VALUE_DURATION, "150s", 0.001, 3600, NULL},
	{"affinity_cookie", ON_SERVER, VALUE_BOOL, "off", NOTHING},
	{"user_agent", ON_SERVER, VALUE_TEXT, "dataverse_fdw", NOTHING},

	/* the pool of application users */
	{"selection", ON_SERVER, VALUE_CHOICE, "throttle_aware", 0, 0, selections},
	{"max_parallel", ON_SERVER, VALUE_INT, NULL, 1, 52, NULL},
	{"dop_scope", ON_SERVER, VALUE_CHOICE, "user", 0, 0, dop_scopes},
	{"max_throttle_retries", ON_SERVER, VALUE_INT, "3", -1, 1000000, NULL},
	{"max_retries", ON_SERVER, VALUE_INT, "5", 0, 1000, NULL},
	{"fallback_retry_after", ON_SERVER, VALUE_DURATION, "30s", 0, 3600, NULL},
	{"retry_after_buffer", ON_SERVER, VALUE_DURATION, "1s", 0, 60, NULL},
	{"max_retry_after_tolerance", ON_SERVER, VALUE_DURATION, NULL, 0, 86400, NULL},
	{"throttle_tracking", ON_SERVER, VALUE_BOOL, "on", NOTHING},

	/* the rate controller; what has no default here follows rate_preset */
	{"adaptive_rate", ON_SERVER, VALUE_BOOL, "on", NOTHING},
	{"rate_preset", ON_SERVER, VALUE_CHOICE, "balanced", 0, 0, presets},
	{"initial_parallelism_factor", ON_SERVER, VALUE_REAL, "0.5", 0.1, 1, NULL},
	{"min_parallelism", ON_SERVER, VALUE_INT, "1", 1, 52, NULL},
	{"increase_rate", ON_SERVER, VALUE_INT, "2", 1, 52, NULL},
	{"decrease_factor", ON_SERVER, VALUE_REAL, NULL, 0.1, 0.9, NULL},
	{"stabilization_batches", ON_SERVER, VALUE_INT, NULL, 1, 1000, NULL},
	{"min_increase_interval", ON_SERVER, VALUE_DURATION, NULL, 0, 3600, NULL},
	{"recovery_multiplier", ON_SERVER, VALUE_REAL, "2.0", 1, 10, NULL},
	{"last_known_good_ttl", ON_SERVER, VALUE_DURATION, "5min", 1, 86400, NULL},
	{"idle_reset_period", ON_SERVER, VALUE_DURATION, "5min", 1, 86400, NULL},
	{"execution_time_ceiling_factor", ON_SERVER, VALUE_REAL, NULL, 0, 100000, NULL},
	{"slow_batch_threshold", ON_SERVER, VALUE_DURATION, NULL, 0, 3600, NULL},
	{"budget_pacing", ON_SERVER, VALUE_BOOL, "on", NOTHING},

	/* reading and writing; the table wins over the server */
	{"batch_size", ON_SERVER | ON_TABLE, VALUE_INT, "100", 1, 1000, NULL},
	{"page_size", ON_SERVER | ON_TABLE, VALUE_INT, NULL, 1, 5000, NULL},
	{"on_error", ON_SERVER | ON_TABLE, VALUE_CHOICE, "abort", 0, 0, error_modes},
	{"max_errors", ON_SERVER | ON_TABLE, VALUE_INT, NULL, 0, INT_MAX, NULL},
	{"generate_ids", ON_SERVER | ON_TABLE, VALUE_BOOL, "on", NOTHING},
	{"insert_mode", ON_SERVER | ON_TABLE, VALUE_CHOICE, "create", 0, 0, insert_modes},
	{"bypass_custom_logic", ON_SERVER | ON_TABLE, VALUE_CHOICE, "none", 0, 0, bypasses},
	{"bypass_flows", ON_SERVER | ON_TABLE, VALUE_BOOL, "off", NOTHING},
	{"suppress_duplicate_detection", ON_SERVER | ON_TABLE, VALUE_BOOL, "on", NOTHING},
	{"tag", ON_SERVER | ON_TABLE, VALUE_TEXT, NULL, NOTHING},
	{"updatable", ON_SERVER | ON_TABLE, VALUE_BOOL, "on", NOTHING},
	{"truncatable", ON_SERVER | ON_TABLE, VALUE_BOOL, "off", NOTHING},
	{"use_remote_estimate", ON_SERVER | ON_TABLE, VALUE_BOOL, "off", NOTHING},
	{"import_stats", ON_SERVER | ON_TABLE, VALUE_BOOL, "off", NOTHING},

	/* what a foreign table is in Dataverse */
	{"table", ON_TABLE, VALUE_TEXT, NULL, NOTHING},
	{"entity_set", ON_TABLE, VALUE_TEXT, NULL, NOTHING},
	{"primary_id", ON_TABLE, VALUE_TEXT, NULL, NOTHING},
	{"table_type", ON_TABLE, VALUE_CHOICE, "standard", 0, 0, table_types},
	{"upsert_key", ON_TABLE, VALUE_NAMES, NULL, NOTHING},
	{"partition_id", ON_TABLE, VALUE_TEXT, NULL, NOTHING},
	{"keys", ON_TABLE, VALUE_TEXT, NULL, NOTHING},

	/* what a column is in Dataverse */
	{"column", ON_COLUMN, VALUE_TEXT, NULL, NOTHING},
	{"navigation", ON_COLUMN, VALUE_NAMES, NULL, NOTHING},
	{"target", ON_COLUMN, VALUE_NAMES, NULL, NOTHING},
	{"target_set", ON_COLUMN, VALUE_NAMES, NULL, NOTHING},
	{"type", ON_COLUMN, VALUE_TEXT, NULL, NOTHING},
	{"ref_type_of", ON_COLUMN, VALUE_TEXT, NULL, NOTHING},
	{"label_of", ON_COLUMN, VALUE_TEXT, NULL, NOTHING},
	{"readonly", ON_COLUMN, VALUE_BOOL, "off", NOTHING},

	/* application users */
	{"name", ON_USER | NUMBERED, VALUE_TEXT, NULL, NOTHING},
	{"client_id", ON_USER | NUMBERED, VALUE_TEXT, NULL, NOTHING},
	{"client_secret", ON_USER | NUMBERED | SECRET, VALUE_TEXT, NULL, NOTHING},
	{"client_certificate", ON_USER | NUMBERED | SUPERUSER, VALUE_TEXT, NULL, NOTHING},
	{"client_key", ON_USER | NUMBERED | SUPERUSER, VALUE_TEXT, NULL, NOTHING},
	{"client_key_password", ON_USER | NUMBERED | SECRET, VALUE_TEXT, NULL, NOTHING},
	{"managed_identity", ON_USER | NUMBERED | SUPERUSER, VALUE_BOOL, "off", NOTHING},
	{"access_token", ON_USER | NUMBERED | SECRET, VALUE_TEXT, NULL, NOTHING},
	{"caller_id", ON_USER, VALUE_TEXT, NULL, NOTHING},
};

typedef struct scope
{
	Oid			catalog;
	int			flag;
	const char *place;			/* "on a …" */
} scope;

static const scope scopes[] = {
	{ForeignServerRelationId, ON_SERVER, "a server"},
	{UserMappingRelationId, ON_USER, "a user mapping"},
	{ForeignTableRelationId, ON_TABLE, "a foreign table"},
	{AttributeRelationId, ON_COLUMN, "a column of a foreign table"},
};

/*
 * Length of "name" without the suffix that numbers application users.  A
 * suffix out of range, or with a leading zero, is not one.
 */
static size_t
base_length(const char *name)
{
	const char *suffix = strrchr(name, '_');
	int			number;

	if (suffix == NULL || suffix[1] < '1' || suffix[1] > '9')
		return strlen(name);
	if (strlen(suffix) > 3 || strspn(suffix + 1, "0123456789") != strlen(suffix + 1))
		return strlen(name);
	number = atoi(suffix + 1);
	if (number < 2 || number > DV_APPLICATION_USERS_MAX)
		return strlen(name);
	return suffix - name;
}

/* The option of that name that may be set in one of these places, or NULL. */
static const dv_option *
find_option(const char *name, int places)
{
	size_t		base = base_length(name);

	for (size_t i = 0; i < lengthof(options); i++)
	{
		const dv_option *option = &options[i];

		if ((option->flags & places) == 0)
			continue;
		if (strcmp(name, option->name) == 0)
			return option;
		if ((option->flags & NUMBERED) && strlen(option->name) == base &&
			strncmp(name, option->name, base) == 0)
			return option;
	}
	return NULL;
}

/*
 * The option of this place whose name comes nearest, if at most half of the
 * letters differ; else NULL.
 */
static const dv_option *
nearest_option(const char *name, int place)
{
	const dv_option *nearest = NULL;
	size_t		base = base_length(name);
	int			best;

	if (base == 0 || base >= NAMEDATALEN)
		return NULL;
	best = Min((int) base / 2, 4) + 1;
	for (size_t i = 0; i < lengthof(options); i++)
	{
		const dv_option *option = &options[i];
		int			distance;

		if ((option->flags & place) == 0)
			continue;
		distance = varstr_levenshtein_less_equal(name, base, option->name, strlen(option->name), 1,
												 1, 1, best - 1, true);
		if (distance < best)
		{
			best = distance;
			nearest = option;
		}
	}
	return nearest;
}

/* Where an option that is known may be set, in words. */
static const char *
places_of(const dv_option *option)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (size_t i = 0; i < lengthof(scopes); i++)
	{
		if (option->flags & scopes[i].flag)
			appendStringInfo(&buf, "%s%s", buf.len > 0 ? " or " : "", scopes[i].place);
	}
	return buf.data;
}

static const char *
names_of(int place)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (size_t i = 0; i < lengthof(options); i++)
	{
		if (options[i].flags & place)
			appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "", options[i].name);
	}
	return buf.data;
}

/* Is this the name of a numbered option with a number that it cannot have? */
static bool
is_misnumbered(const char *name, int place)
{
	size_t		base = strlen(name);
	const dv_option *option;

	while (base > 0 && isdigit((unsigned char) name[base - 1]))
		base--;
	if (base < 2 || base == strlen(name) || name[base - 1] != '_')
		return false;
	option = find_option(pnstrdup(name, base - 1), place);
	return option != NULL && (option->flags & NUMBERED);
}

/* What to do about an option that does not exist in this place. */
static char *
hint_for(const char *name, const scope *scope)
{
	const dv_option *option;

	if ((option = find_option(name, ANYWHERE)) != NULL)
		return psprintf("The option \"%s\" is set on %s.", name, places_of(option));
	if (is_misnumbered(name, scope->flag))
		return psprintf(
						"The first application user has no number, further ones are numbered from 2 to %d.",
						DV_APPLICATION_USERS_MAX);
	if ((option = nearest_option(name, scope->flag)) != NULL)
		return psprintf("Perhaps you meant the option \"%s%s\".", option->name,
						(option->flags & NUMBERED) ? name + base_length(name) : "");
	return psprintf("Valid options for %s are: %s.", scope->place, names_of(scope->flag));
}

/* Raises the error about an option that does not exist in this place. */
static void
refuse_option(const char *name, const scope *scope)
{
	if (scope == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME), errmsg("invalid option \"%s\"", name),
				 errhint("The foreign-data wrapper itself has no options; set them on a server.")));
	ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					errmsg("invalid option \"%s\" for %s", name, scope->place),
					errhint("%s", hint_for(name, scope))));
}

/*
 * Reading values.  Each parser says whether the text is a value of its type,
 * and if not, what one looks like.
 */

/* An address that secrets are sent to. */
static const char *
address_fault(const char *value, bool path_allowed)
{
	static const char *const details[] = {
		[DV_URL_OK] = NULL,
		[DV_URL_MALFORMED] = "It must be a URL that begins with https:// and a host name.",
		[DV_URL_NOT_HTTPS] =
		"It must begin with https://; http:// is accepted for this machine only (localhost, 127.0.0.1, [::1]).",
		[DV_URL_USERINFO] =
		"A user name or password cannot be part of it; secrets belong in the user mapping.",
		[DV_URL_QUERY] = "It cannot have a query (?) or a fragment (#).",
		[DV_URL_PATH] =
		"It must end after the host, as in https://contoso.crm.dynamics.com; the extension adds the path itself.",
	};

	return details[dv_url_check(value, path_allowed)];
}

static bool
in_range(const dv_option *option, double value)
{
	return (option->min == 0 && option->max == 0) ||
		(value >= option->min && value <= option->max);
}

static const char *
range_of(const dv_option *option, const char *what)
{
	return psprintf("It must be %s from %.15g to %.15g.", what, option->min, option->max);
}

static int
choice_of(const dv_option *option, const char *value)
{
	int			i;

	for (i = 0; option->choices[i] != NULL; i++)
		if (pg_strcasecmp(option->choices[i], value) == 0)
			return i;
	return -1;
}

static const char *
choices_of(const dv_option *option)
{
	StringInfoData buf;
	int			i;

	initStringInfo(&buf);
	for (i = 0; option->choices[i] != NULL; i++)
		appendStringInfo(&buf, "%s\"%s\"", i > 0 ? ", " : "", option->choices[i]);
	return buf.data;
}

/* What is wrong with the value, as a sentence; NULL if nothing is. */
static const char *
fault_of(const dv_option *option, const char *value)
{
	bool		boolean;
	int			integer;
	double		real;

	switch (option->type)
	{
		case VALUE_TEXT:
		case VALUE_NAMES:
			return value[0] == '\0' ? "It cannot be empty." : NULL;
		case VALUE_BOOL:
			return parse_bool(value, &boolean) ? NULL : "It must be \"on\" or \"off\".";
		case VALUE_INT:
			/* parse_int would round 4.5 */
			if (strspn(value, "+-0123456789") == strlen(value) &&
				parse_int(value, &integer, 0, NULL) && in_range(option, integer))
				return NULL;
			return range_of(option, "a whole number");
		case VALUE_REAL:
			if (parse_real(value, &real, 0, NULL) && in_range(option, real))
				return NULL;
			return range_of(option, "a number");
		case VALUE_DURATION:
			if (parse_real(value, &real, GUC_UNIT_S, NULL) && in_range(option, real))
				return NULL;
			return psprintf("%s  Units are \"ms\", \"s\", \"min\", \"h\" and \"d\"; without one it is in seconds.",
							range_of(option, "a time in seconds"));
		case VALUE_CHOICE:
			if (choice_of(option, value) >= 0)
				return NULL;
			return psprintf("It must be one of %s.", choices_of(option));
		case VALUE_SITE:
			return address_fault(value, false);
		case VALUE_ADDRESS:
			return address_fault(value, true);
	}
	return NULL;
}

const char *
dv_option_fault(const char *name, const char *value)
{
	const dv_option *option = find_option(name, ANYWHERE);

	if (option == NULL)
		elog(ERROR, "there is no option \"%s\"", name);
	return fault_of(option, value);
}

static bool
is_plain_http(const char *value)
{
	return pg_strncasecmp(value, "http:", 5) == 0;
}

/*
 * Raises unless the value may be stored.  Addresses and secrets are not
 * repeated: a URL may have a password in it, and messages go to the log.
 */
static void
check_value(const dv_option *option, const char *name, const char *value)
{
	const char *fault = fault_of(option, value);
	bool		address = option->type == VALUE_SITE || option->type == VALUE_ADDRESS;

	if (fault != NULL && (address || (option->flags & SECRET)))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid value for option \"%s\"", name),
				 errdetail("%s", fault)));
	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
				 errdetail("%s", fault)));
	if ((option->flags & SUPERUSER) && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\"", name),
				 errdetail("Only superusers can set options that give the server process a file, an identity or a proxy to use.")));
	if (address && is_plain_http(value) && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\" to an http address", name),
				 errdetail("Only superusers can let the server process talk to this machine without TLS.")));
}

/*
 * Getters.
 */

static DefElem *
element_of(List *list, const char *name)
{
	ListCell   *lc;

	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, name) == 0)
			return def;
	}
	return NULL;
}

bool
dv_option_given(dv_options opts, const char *name)
{
	return element_of(opts.first, name) != NULL || element_of(opts.second, name) != NULL;
}

/* The row of the table too, which the typed getters need. */
static const char *
text_of(dv_options opts, const char *name, const dv_option **row)
{
	DefElem    *def = element_of(opts.first, name);

	*row = find_option(name, ANYWHERE);
	if (*row == NULL)
		elog(ERROR, "there is no option \"%s\"", name);
	if (def == NULL)
		def = element_of(opts.second, name);
	return def != NULL ? defGetString(def) : (*row)->default_value;
}

const char *
dv_option_text(dv_options opts, const char *name)
{
	const dv_option *row;

	return text_of(opts, name, &row);
}

bool
dv_option_bool(dv_options opts, const char *name)
{
	const dv_option *row;
	const char *text = text_of(opts, name, &row);
	bool		value = false;

	if (text != NULL)
		(void) parse_bool(text, &value);
	return value;
}

int
dv_option_int(dv_options opts, const char *name)
{
	const dv_option *row;
	const char *text = text_of(opts, name, &row);
	int			value = 0;

	if (text != NULL)
		(void) parse_int(text, &value, 0, NULL);
	return value;
}

double
dv_option_real(dv_options opts, const char *name)
{
	const dv_option *row;
	const char *text = text_of(opts, name, &row);
	double		value = 0;

	if (text != NULL)
		(void) parse_real(text, &value, 0, NULL);
	return value;
}

int64
dv_option_duration(dv_options opts, const char *name)
{
	const dv_option *row;
	const char *text = text_of(opts, name, &row);
	double		value;

	if (text == NULL || !parse_real(text, &value, GUC_UNIT_S, NULL))
		return -1;
	return (int64) (value * DV_SECOND);
}

int
dv_option_choice(dv_options opts, const char *name)
{
	const dv_option *row;
	const char *text = text_of(opts, name, &row);

	return text != NULL ? choice_of(row, text) : -1;
}

bool
dv_option_is(dv_options opts, const char *name, const char *choice)
{
	const char *text = dv_option_text(opts, name);

	return text != NULL && pg_strcasecmp(text, choice) == 0;
}

const char *
dv_option_numbered(const char *name, int number)
{
	return number == 1 ? name : psprintf("%s_%d", name, number);
}

/*
 * Combinations that cannot work.
 */

static void
refuse_combination(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg_internal("%s", message),
			 errhint("%s", hint)));
}

/* One application user: exactly one way to prove who it is. */
static void
check_application_user(dv_options opts, int number)
{
	static const char *const hint =
	"Give \"client_id\" with \"client_secret\" or \"client_certificate\", or \"managed_identity\", or \"access_token\".";
	const char *id = dv_option_numbered("client_id", number);
	bool		secret = dv_option_given(opts, dv_option_numbered("client_secret", number));
	bool		certificate = dv_option_given(opts, dv_option_numbered("client_certificate", number));
	bool		key = dv_option_given(opts, dv_option_numbered("client_key", number));
	bool		password = dv_option_given(opts, dv_option_numbered("client_key_password", number));
	bool		identity = dv_option_bool(opts, dv_option_numbered("managed_identity", number));
	bool		token = dv_option_given(opts, dv_option_numbered("access_token", number));
	bool		given = dv_option_given(opts, id) || key || password ||
	dv_option_given(opts, dv_option_numbered("name", number));
	int			ways = secret + certificate + identity + token;

	if (ways == 0 && given)
		refuse_combination(psprintf("application user %d cannot get a token", number), hint);
	if (ways > 1)
		refuse_combination(psprintf("application user %d has more than one way to get a token", number),
						   hint);
	if ((secret || certificate) && !dv_option_given(opts, id))
		refuse_combination(psprintf("option \"%s\" is missing", id), hint);
	if ((key || password) && !certificate)
		refuse_combination(psprintf("application user %d has a key but no certificate", number),
						   "Set \"client_certificate\" too.");
}

static void
check_combination(List *list, Oid catalog)
{
	dv_options	opts = {list, NIL};
	int			number;

	if (catalog == UserMappingRelationId)
		for (number = 1; number <= DV_APPLICATION_USERS_MAX; number++)
			check_application_user(opts, number);
	if (catalog == ForeignServerRelationId && dv_option_given(opts, "max_parallel") &&
		dv_option_int(opts, "min_parallelism") > dv_option_int(opts, "max_parallel"))
		refuse_combination("option \"min_parallelism\" is greater than \"max_parallel\"",
						   "Raise \"max_parallel\" or lower \"min_parallelism\".");
}

/*
 * "list" is the whole of the options that the object will have.
 */
void
dv_options_validate(List *list, Oid catalog)
{
	const scope *place = NULL;
	ListCell   *lc;
	int			i;

	for (i = 0; i < (int) lengthof(scopes); i++)
		if (scopes[i].catalog == catalog)
			place = &scopes[i];

	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const dv_option *option = NULL;

		if (place != NULL)
			option = find_option(def->defname, place->flag);
		if (option == NULL)
			refuse_option(def->defname, place);
		else
			check_value(option, def->defname, defGetString(def));
	}
	check_combination(list, catalog);
}

/*
 * dataverse.options(): the table as a table.
 */

static const char *const type_names[] = {
	"text", "list", "boolean", "integer", "number", "duration", "choice", "URL", "URL"
};

DV_FUNCTION(dataverse_options);

Datum
dataverse_options(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			i;

	dv_init_materialized_srf(fcinfo);
	for (i = 0; i < (int) lengthof(options); i++)
	{
		const dv_option *o = &options[i];
		Datum		values[8] = {0};
		bool		nulls[8] = {false};

		values[0] = CStringGetTextDatum(o->name);
		values[1] = CStringGetTextDatum(places_of(o));
		values[2] = CStringGetTextDatum(type_names[o->type]);
		nulls[3] = o->default_value == NULL;
		if (!nulls[3])
			values[3] = CStringGetTextDatum(o->default_value);
		nulls[4] = o->choices == NULL && o->min == 0 && o->max == 0;
		if (!nulls[4])
			values[4] = CStringGetTextDatum(o->choices != NULL ? choices_of(o) :
											psprintf("%.15g to %.15g", o->min, o->max));
		values[5] = BoolGetDatum((o->flags & NUMBERED) != 0);
		values[6] = BoolGetDatum((o->flags & SECRET) != 0);
		values[7] = BoolGetDatum((o->flags & SUPERUSER) != 0);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * option.c
 *		Options of servers, user mappings, foreign tables, and columns.
 *
 * One table, option_list.h, lists all options: where each may be set, its type,
 * range, and default, whether it is reserved for superusers, and its place in
 * the configuration of a session.  Everything else in this file uses that
 * table: the validator that PostgreSQL calls when options are set, and its
 * hints; the getters; and the function dataverse.options(), which a test
 * compares with README.md.  The settings that override options are in
 * setting.c.
 *
 * A user mapping may have several application users: the options marked
 * NUMBERED exist without a suffix for the first user, and with the suffixes _2
 * to _64 for the others.
 *
 * Secrets are options of user mappings only, because everyone can read those of
 * servers.  Options that make the server process use a file, an identity, or a
 * proxy are reserved for superusers, as in postgres_fdw.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <ctype.h>

#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "client/session.h"
#include "compat.h"
#include "fdw/columns.h"
#include "fdw/combination.h"
#include "fdw/option.h"
#include "fdw/result.h"
#include "net/clock.h"
#include "net/text.h"
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
/* as a setting: affects how fast rows are read and written, not their outcome */
#define SPEED	  0x80
/* as a setting: a run makes it for its table, but not for other tables that triggers write to */
#define OF_RUNS   0x100

typedef enum value_type
{
	VALUE_TEXT,
	VALUE_LINE,					/* a header's value */
	VALUE_WORD,					/* the same without blanks */
	VALUE_DOMAIN,				/* a segment of a URL: an id or a domain name */
	VALUE_VERSION,				/* likewise: 9.2 */
	VALUE_NAME,					/* a name in Dataverse, which is part of URLs */
	VALUE_NAMES,				/* the same, comma-separated */
	VALUE_COLUMNS,				/* columns of the foreign table, comma-separated */
	VALUE_PROXY,
	VALUE_BOOLEAN,
	VALUE_INTEGER,
	VALUE_REAL,
	VALUE_DURATION,				/* in seconds unless it has a unit; stored in microseconds */
	VALUE_TIMEOUT,				/* the same, stored in milliseconds */
	VALUE_CHOICE,
	VALUE_SITE,					/* URL without a path */
	VALUE_ADDRESS				/* URL */
} value_type;

#define VALUE_TYPES (VALUE_ADDRESS + 1)

#define DIGITS "0123456789"
#define ALPHANUMERIC DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define VISIBLE_BUT_AT ALPHANUMERIC "!\"#$%&'()*+,-./:;<=>?[\\]^_`{|}~"

/*
 * The type's name in dataverse.options(), and the size of its member in
 * dv_session_config.  Text that becomes part of a header or a URL is limited to
 * characters that need no encoding.
 */
static const struct
{
	const char *name;
	size_t		size;
	const char *characters;		/* the characters that a text may have; NULL: all but control
								 * characters */
	const char *fault;			/* a sentence for a text with other characters */
}			value_types[VALUE_TYPES] =

{
	[VALUE_TEXT] = {.name = "text", .size = sizeof(char *)},
	[VALUE_LINE] = {"text", sizeof(char *), VISIBLE_BUT_AT "@ ", "It can contain only ASCII characters."},
	[VALUE_WORD] = {"text", sizeof(char *), VISIBLE_BUT_AT "@", "It can contain only ASCII characters, and no blanks."},
	[VALUE_DOMAIN] = {"text", sizeof(char *), ALPHANUMERIC "-._", "It must be an id or a domain name."},
	[VALUE_VERSION] = {"text", sizeof(char *), DIGITS ".", "It must be a version number, such as 9.2."},
	[VALUE_NAME] = {"text", sizeof(char *), ALPHANUMERIC "_",
	"It must be a name in Dataverse, which consists of letters, digits, and underscores."},
	[VALUE_NAMES] = {"list", sizeof(char *), ALPHANUMERIC "_, ",
	"It must be a list of names in Dataverse, which consist of letters, digits, and underscores."},
	[VALUE_COLUMNS] = {.name = "list", .size = sizeof(char *)},
	[VALUE_PROXY] = {"text", sizeof(char *), VISIBLE_BUT_AT,
	"It must be an address without a user name or password; set \"proxy_user\" and \"proxy_password\" in the user mapping."},
	[VALUE_BOOLEAN] = {.name = "boolean", .size = sizeof(bool)},
	[VALUE_INTEGER] = {.name = "integer", .size = sizeof(int)},
	[VALUE_REAL] = {.name = "number", .size = sizeof(double)},
	[VALUE_DURATION] = {.name = "duration", .size = sizeof(int64)},
	[VALUE_TIMEOUT] = {.name = "duration", .size = sizeof(int)},
	[VALUE_CHOICE] = {.name = "choice", .size = sizeof(int)},
	[VALUE_SITE] = {.name = "URL", .size = sizeof(char *)},
	[VALUE_ADDRESS] = {.name = "URL", .size = sizeof(char *)},
};

typedef struct option_row
{
	const char *name;
	int			flags;
	value_type	type;
	const char *default_value;	/* or NULL */
	double		min;			/* for numbers, and for durations in seconds */
	double		max;
	const char *const *choices; /* NULL-terminated */
	size_t		offset;			/* of its member in dv_session_config */
	size_t		size;			/* of that member; 0 if it has none */
} option_row;

static const char *const selections[] = {"throttle_aware", "round_robin", "least_connections", NULL};
static const char *const dop_scopes[] = {"user", "environment", NULL};
static const char *const presets[] = {"conservative", "balanced", "aggressive", NULL};
static const char *const error_modes[] = {"abort", "continue", NULL};
static const char *const oversize_modes[] = {"error", "truncate", NULL};
static const char *const insert_modes[] = {"create", "upsert", "ignore_duplicates", NULL};
static const char *const bypasses[] = {"none", "sync", "async", "all", NULL};
static const char *const sources[] = {"simple", "calculated", "rollup", "formula", "prompt", "other", NULL};
static const char *const table_types[] = {"standard", "elastic", "virtual", "intersect", NULL};

#define VALUE(value_type, value) .type = value_type, .default_value = value
#define TEXT(value) VALUE(VALUE_TEXT, value)
#define LINE(value) VALUE(VALUE_LINE, value)
#define WORD(value) VALUE(VALUE_WORD, value)
#define DOMAIN_NAME(value) VALUE(VALUE_DOMAIN, value)
#define VERSION(value) VALUE(VALUE_VERSION, value)
#define NAME_IN_URL(value) VALUE(VALUE_NAME, value)
#define NAMES(value) VALUE(VALUE_NAMES, value)
#define COLUMNS(value) VALUE(VALUE_COLUMNS, value)
#define HTTP_PROXY(value) VALUE(VALUE_PROXY, value)
#define BOOLEAN(value) VALUE(VALUE_BOOLEAN, value)
#define INTEGER(value, least, most) VALUE(VALUE_INTEGER, value), .min = least, .max = most
#define REAL(value, least, most) VALUE(VALUE_REAL, value), .min = least, .max = most
#define DURATION(value, least, most) VALUE(VALUE_DURATION, value), .min = least, .max = most
#define TIMEOUT(value, least, most) VALUE(VALUE_TIMEOUT, value), .min = least, .max = most
#define CHOICE(value, list) VALUE(VALUE_CHOICE, value), .choices = list
#define SITE(value) VALUE(VALUE_SITE, value)
#define ADDRESS(value) VALUE(VALUE_ADDRESS, value)
#define IN_SESSION(member) \
	.offset = offsetof(dv_session_config, member), .size = sizeof(((dv_session_config *) 0)->member)

static const option_row rows[DV_OPTIONS] = {
#define DV_OPTION(symbol, option_name, where, ...) \
	[DV_OPT_##symbol] = {.name = option_name, .flags = where, __VA_ARGS__},
#include "fdw/option_list.h"
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
 * Returns the length of "name" without the number of an application user.  A
 * number that is out of range or has a leading zero is not a suffix.
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

/* Returns the option of this name that may be set in one of these places, or NULL. */
static const option_row *
option_called(const char *name, int places)
{
	size_t		base = base_length(name);

	for (int i = 0; i < DV_OPTIONS; i++)
	{
		const option_row *option = &rows[i];

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
 * Returns the option of this place with the most similar name, or NULL if more
 * than half of the characters differ.
 */
static const option_row *
nearest_option(const char *name, int place)
{
	const option_row *nearest = NULL;
	size_t		base = base_length(name);
	int			best;

	if (base == 0 || base >= NAMEDATALEN)
		return NULL;
	best = Min((int) base / 2, 4) + 1;
	for (int i = 0; i < DV_OPTIONS; i++)
	{
		const option_row *option = &rows[i];
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

/* Returns the places where an option may be set, for messages. */
static const char *
places_of(const option_row *option)
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
	for (int i = 0; i < DV_OPTIONS; i++)
	{
		if (rows[i].flags & place)
			appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "", rows[i].name);
	}
	return buf.data;
}

/* Names of options in other software, such as other foreign-data wrappers. */
static const struct
{
	const char *name;
	dv_option	option;
}			names_elsewhere[] =

{
	{"host", DV_OPT_URL},
	{"hostname", DV_OPT_URL},
	{"user", DV_OPT_CLIENT_ID},
	{"username", DV_OPT_CLIENT_ID},
	{"password", DV_OPT_CLIENT_SECRET},
	{"secret", DV_OPT_CLIENT_SECRET},
	{"tenant", DV_OPT_TENANT_ID},
	{"table_name", DV_OPT_TABLE},
	{"column_name", DV_OPT_COLUMN},
	{"fetch_size", DV_OPT_PAGE_SIZE},
};

static const option_row *
option_elsewhere(const char *name)
{
	size_t		base = base_length(name);

	for (size_t i = 0; i < lengthof(names_elsewhere); i++)
	{
		const option_row *option = &rows[names_elsewhere[i].option];

		if (strlen(names_elsewhere[i].name) == base && strncmp(name, names_elsewhere[i].name, base) == 0 &&
			(name[base] == '\0' || (option->flags & NUMBERED)))
			return option;
	}
	return NULL;
}

/* Returns the name of an option with the number in the name of another one. */
static const char *
numbered_like(const option_row *option, const char *name)
{
	return psprintf("%s%s", option->name, (option->flags & NUMBERED) ? name + base_length(name) : "");
}

/*
 * Returns true for the name of a numbered option with an invalid number, or without the
 * underscore before it.
 */
static bool
is_misnumbered(const char *name, int place)
{
	size_t		base = strlen(name);
	const option_row *option;

	while (base > 0 && isdigit((unsigned char) name[base - 1]))
		base--;
	if (base < 2 || base == strlen(name))
		return false;
	if (name[base - 1] == '_')
		base--;
	option = option_called(pnstrdup(name, base), place);
	return option != NULL && (option->flags & NUMBERED);
}

/* Returns a hint for an option that does not exist in this place. */
static char *
hint_for(const char *name, const scope *scope)
{
	const option_row *option;

	if ((option = option_called(name, ANYWHERE)) != NULL)
		return psprintf("Option \"%s\" can be set on %s.", name, places_of(option));
	if (is_misnumbered(name, scope->flag))
		return psprintf(
						"Options of the first application user have no number; those of further users are numbered from 2 to %d, as in \"client_id_2\".",
						DV_APPLICATION_USERS_MAX);
	if ((option = option_elsewhere(name)) != NULL && (option->flags & scope->flag) == 0)
		return psprintf("Perhaps you meant the option \"%s\", which can be set on %s.", numbered_like(option, name), places_of(option));
	if (option != NULL || (option = nearest_option(name, scope->flag)) != NULL)
		return psprintf("Perhaps you meant the option \"%s\".", numbered_like(option, name));
	return psprintf("Valid options for %s are: %s.", scope->place, names_of(scope->flag));
}

/* Raises an error, because the option does not exist in this place. */
static void
refuse_option(const char *name, const scope *scope)
{
	if (scope == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME), errmsg("invalid option \"%s\"", name),
				 errhint("The foreign-data wrapper has no options.  Set options on a server instead.")));
	ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					errmsg("invalid option \"%s\" for %s", name, scope->place),
					errhint("%s", hint_for(name, scope))));
}

/*
 * Checking values.  Each function returns NULL for a valid value, and otherwise
 * a sentence that describes valid values.
 */

/* Checks an address to which secrets are sent. */
static const char *
address_fault(const char *value, bool path_allowed)
{
	static const char *const details[] = {
		[DV_URL_OK] = NULL,
		[DV_URL_MALFORMED] = "It must be a URL that begins with https:// and a host name.",
		[DV_URL_NOT_HTTPS] =
		"It must begin with https://; http:// is accepted only for the local machine (localhost, 127.0.0.1, [::1]).",
		[DV_URL_USERINFO] =
		"It cannot contain a user name or password; secrets belong in the user mapping.",
		[DV_URL_QUERY] = "It cannot contain a query (?) or a fragment (#).",
		[DV_URL_PATH] =
		"It must end after the host, as in https://contoso.crm.dynamics.com; the extension adds the path itself.",
	};

	return details[dv_url_check(value, path_allowed)];
}

static const char *
text_fault(value_type type, const char *value)
{
	const char *characters = value_types[type].characters;
	size_t		len = strlen(value);

	if (len == 0)
		return "It cannot be empty.";
	if (dv_text_has_controls(value, len))
		return "It cannot contain control characters.";
	/* a segment of a URL that begins with a dot may lead to another path */
	if ((characters != NULL && strspn(value, characters) < len) ||
		((type == VALUE_DOMAIN || type == VALUE_VERSION) && value[0] == '.'))
		return value_types[type].fault;
	return NULL;
}

static bool
in_range(const option_row *option, double value)
{
	return (option->min == 0 && option->max == 0) ||
		(value >= option->min && value <= option->max);
}

static const char *
range_of(const option_row *option, const char *what)
{
	return psprintf("It must be %s from %.15g to %.15g.", what, option->min, option->max);
}

static int
choice_of(const option_row *option, const char *value)
{
	int			i;

	for (i = 0; option->choices[i] != NULL; i++)
		if (pg_strcasecmp(option->choices[i], value) == 0)
			return i;
	return -1;
}

static const char *
choices_of(const option_row *option)
{
	StringInfoData buf;
	int			i;

	initStringInfo(&buf);
	for (i = 0; option->choices[i] != NULL; i++)
		appendStringInfo(&buf, "%s\"%s\"", i > 0 ? ", " : "", option->choices[i]);
	return buf.data;
}

/* Checks the value of any option. */
static const char *
fault_of(const option_row *option, const char *value)
{
	const char *fault;
	List	   *columns;
	bool		boolean;
	int			integer;
	double		real;

	switch (option->type)
	{
		case VALUE_BOOLEAN:
			return parse_bool(value, &boolean) ? NULL : "It must be \"on\" or \"off\".";
		case VALUE_INTEGER:
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
		case VALUE_TIMEOUT:
			if (parse_real(value, &real, GUC_UNIT_S, NULL) && in_range(option, real))
				return NULL;
			return psprintf("%s  Valid units are \"ms\", \"s\", \"min\", \"h\", and \"d\"; the default unit is seconds.",
							range_of(option, "a time in seconds"));
		case VALUE_CHOICE:
			if (choice_of(option, value) >= 0)
				return NULL;
			return psprintf("It must be one of %s.", choices_of(option));
		case VALUE_SITE:
			return address_fault(value, false);
		case VALUE_ADDRESS:
			return address_fault(value, true);
		case VALUE_COLUMNS:
			fault = text_fault(option->type, value);
			return fault != NULL ? fault : dv_columns_read(value, &columns);
		default:
			return text_fault(option->type, value);
	}
}

const char *
dv_option_fault(dv_option option, const char *value)
{
	return fault_of(&rows[option], value);
}

bool
dv_option_is_speed(dv_option option)
{
	return (rows[option].flags & SPEED) != 0;
}

bool
dv_option_is_of_runs(dv_option option)
{
	return (rows[option].flags & OF_RUNS) != 0;
}

static bool
is_plain_http(const char *value)
{
	return pg_strncasecmp(value, "http:", 5) == 0;
}

static bool
is_address(const option_row *option)
{
	return option->type == VALUE_SITE || option->type == VALUE_ADDRESS;
}

/*
 * Raises an error unless the value is valid.  The error does not show addresses
 * and secrets, because a URL may contain a password, and messages are logged.
 */
static void
check_fault(const option_row *option, const char *name, const char *value)
{
	const char *fault = fault_of(option, value);

	if (fault != NULL && (is_address(option) || option->type == VALUE_PROXY ||
						  (option->flags & SECRET) || dv_text_has_controls(value, strlen(value))))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid value for option \"%s\"", name),
				 errdetail("%s", fault)));
	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
				 errdetail("%s", fault)));
}

/* Raises an error unless the value may be stored by the current user. */
static void
check_value(const option_row *option, const char *name, const char *value)
{
	check_fault(option, name, value);
	if ((option->flags & SUPERUSER) && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\"", name),
				 errdetail("Only superusers can set options that let the server process use a file, an identity, or a proxy.")));
	if (is_address(option) && is_plain_http(value) && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\" to an http address", name),
				 errdetail("Only superusers can let the server process connect to the local machine without TLS.")));
}

/*
 * Getters.
 */

static const option_row *
row_of(dv_option option)
{
	return &rows[option % DV_OPTIONS];
}

const char *
dv_option_name(dv_option option)
{
	int			number = option / DV_OPTIONS + 1;

	return number == 1 ? row_of(option)->name : psprintf("%s_%d", row_of(option)->name, number);
}

static const char *
given_text(dv_options opts, dv_option option)
{
	List	   *const lists[] = {opts.first, opts.second};
	const char *name = dv_option_name(option);
	ListCell   *lc;

	for (size_t i = 0; i < lengthof(lists); i++)
	{
		foreach(lc, lists[i])
		{
			DefElem    *def = lfirst_node(DefElem, lc);

			if (strcmp(def->defname, name) == 0)
				return defGetString(def);
		}
	}
	return NULL;
}

bool
dv_option_given(dv_options opts, dv_option option)
{
	return given_text(opts, option) != NULL;
}

/*
 * Values that were stored by an older version, or not through the validator, are checked again.
 */
const char *
dv_option_text(dv_options opts, dv_option option)
{
	const char *text = given_text(opts, option);

	if (text != NULL)
		check_fault(row_of(option), dv_option_name(option), text);
	return text != NULL ? text : row_of(option)->default_value;
}

bool
dv_option_bool(dv_options opts, dv_option option)
{
	const char *text = dv_option_text(opts, option);
	bool		value = false;

	if (text != NULL)
		(void) parse_bool(text, &value);
	return value;
}

int
dv_option_int(dv_options opts, dv_option option)
{
	const char *text = dv_option_text(opts, option);
	int			value = 0;

	if (text != NULL)
		(void) parse_int(text, &value, 0, NULL);
	return value;
}

/* "unit" is the default unit of durations, and 0 for other values. */
static double
real_of(dv_options opts, dv_option option, int unit)
{
	const char *text = dv_option_text(opts, option);
	double		value = 0;

	if (text != NULL)
		(void) parse_real(text, &value, unit, NULL);
	return value;
}

double
dv_option_real(dv_options opts, dv_option option)
{
	return real_of(opts, option, 0);
}

int
dv_option_choice(dv_options opts, dv_option option)
{
	const char *text = dv_option_text(opts, option);

	return text != NULL ? choice_of(row_of(option), text) : -1;
}

static int64
microseconds_of(dv_options opts, dv_option option)
{
	return (int64) (real_of(opts, option, GUC_UNIT_S) * DV_SECOND);
}

const char *
dv_option_address(dv_options opts, dv_option option)
{
	const char *text = dv_option_text(opts, option);
	size_t		len = text != NULL ? strlen(text) : 0;

	while (len > 0 && text[len - 1] == '/')
		len--;
	return text != NULL ? pnstrdup(text, len) : NULL;
}

static void
put_into(void *member, dv_options opts, dv_option option)
{
	switch (row_of(option)->type)
	{
		case VALUE_SITE:
			*(const char **) member = dv_option_address(opts, option);
			break;
		case VALUE_BOOLEAN:
			*(bool *) member = dv_option_bool(opts, option);
			break;
		case VALUE_INTEGER:
			*(int *) member = dv_option_int(opts, option);
			break;
		case VALUE_REAL:
			*(double *) member = real_of(opts, option, 0);
			break;
		case VALUE_DURATION:
			*(int64 *) member = microseconds_of(opts, option);
			break;
		case VALUE_TIMEOUT:
			*(int *) member = (int) (microseconds_of(opts, option) / DV_MILLISECOND);
			break;
		case VALUE_CHOICE:
			*(int *) member = dv_option_choice(opts, option);
			break;
		default:
			*(const char **) member = dv_option_text(opts, option);
	}
}

void
dv_options_configure(dv_options opts, dv_session_config *config)
{
	for (int i = 0; i < DV_OPTIONS; i++)
	{
		const option_row *row = &rows[i];

		if (row->size == 0 || dv_option_text(opts, i) == NULL)
			continue;
		Assert(row->size == value_types[row->type].size);
		put_into((char *) config + row->offset, opts, i);
	}
}

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
		const option_row *option = NULL;

		if (place != NULL)
			option = option_called(def->defname, place->flag);
		if (option == NULL)
			refuse_option(def->defname, place);
		else
			check_value(option, def->defname, defGetString(def));
	}
	dv_combination_check(list, catalog);
}

/*
 * dataverse.options(): the table of options as a result set.
 */

DV_FUNCTION(dataverse_options);

#define OPTION_COLUMNS 8

Datum
dataverse_options(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = dv_result_rows(fcinfo, OPTION_COLUMNS);
	int			i;

	for (i = 0; i < DV_OPTIONS; i++)
	{
		const option_row *o = &rows[i];
		Datum		values[OPTION_COLUMNS] = {0};
		bool		nulls[OPTION_COLUMNS] = {false};

		values[0] = CStringGetTextDatum(o->name);
		values[1] = CStringGetTextDatum(places_of(o));
		values[2] = CStringGetTextDatum(value_types[o->type].name);
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
		dv_result_add(result, values, nulls);
	}
	return (Datum) 0;
}

/*
 * option.c
 *		The options of servers, user mappings, foreign tables and columns.
 *
 * One table says which options there are, where each may be set and how its
 * value is checked.  Everything else here reads that table: the validator that
 * PostgreSQL calls whenever somebody sets options, and the hints it gives.
 *
 * A user mapping may name several application users: the options marked
 * "numbered" exist once without a suffix (the first user) and again with the
 * suffixes _2 to _64.
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
#include "lib/stringinfo.h"
#include "utils/varlena.h"

#include "compat.h"
#include "fdw/dataverse_fdw.h"
#include "net/url.h"

#define MAX_APPLICATION_USERS 64

/* where an option may be set */
#define ON_SERVER 0x01
#define ON_USER   0x02
#define ON_TABLE  0x04
#define ON_COLUMN 0x08
/* may carry a suffix _2 to _64 */
#define NUMBERED 0x10

typedef void (*option_check) (const char *name, const char *value);

struct dv_option
{
	const char *name;
	int			flags;
	option_check check;			/* NULL: any text */
};

struct scope
{
	Oid			catalog;
	int			flag;
	const char *place;			/* "on a …" */
};

static void check_site(const char *name, const char *value);
static void check_address(const char *name, const char *value);

static const struct dv_option options[] = {
	/* where the service is */
	{"url", ON_SERVER, check_site},
	{"api_version", ON_SERVER, NULL},
	{"tenant_id", ON_SERVER, NULL},
	{"authority", ON_SERVER, check_address},
	{"token_url", ON_SERVER, check_address},

	/* how to talk to it */
	{"ca_file", ON_SERVER, NULL},
	{"proxy", ON_SERVER, NULL},
	{"connect_timeout", ON_SERVER, NULL},
	{"request_timeout", ON_SERVER, NULL},
	{"affinity_cookie", ON_SERVER, NULL},
	{"user_agent", ON_SERVER, NULL},

	/* the pool of application users */
	{"selection", ON_SERVER, NULL},
	{"max_parallel", ON_SERVER, NULL},
	{"dop_scope", ON_SERVER, NULL},
	{"max_throttle_retries", ON_SERVER, NULL},
	{"max_retries", ON_SERVER, NULL},
	{"fallback_retry_after", ON_SERVER, NULL},
	{"retry_after_buffer", ON_SERVER, NULL},
	{"max_retry_after_tolerance", ON_SERVER, NULL},
	{"throttle_tracking", ON_SERVER, NULL},

	/* the rate controller */
	{"adaptive_rate", ON_SERVER, NULL},
	{"rate_preset", ON_SERVER, NULL},
	{"initial_parallelism_factor", ON_SERVER, NULL},
	{"min_parallelism", ON_SERVER, NULL},
	{"increase_rate", ON_SERVER, NULL},
	{"decrease_factor", ON_SERVER, NULL},
	{"stabilization_batches", ON_SERVER, NULL},
	{"min_increase_interval", ON_SERVER, NULL},
	{"recovery_multiplier", ON_SERVER, NULL},
	{"last_known_good_ttl", ON_SERVER, NULL},
	{"idle_reset_period", ON_SERVER, NULL},
	{"execution_time_ceiling_factor", ON_SERVER, NULL},
	{"slow_batch_threshold", ON_SERVER, NULL},
	{"budget_pacing", ON_SERVER, NULL},

	/* reading and writing; the table wins over the server */
	{"batch_size", ON_SERVER | ON_TABLE, NULL},
	{"page_size", ON_SERVER | ON_TABLE, NULL},
	{"on_error", ON_SERVER | ON_TABLE, NULL},
	{"max_errors", ON_SERVER | ON_TABLE, NULL},
	{"generate_ids", ON_SERVER | ON_TABLE, NULL},
	{"insert_mode", ON_SERVER | ON_TABLE, NULL},
	{"bypass_custom_logic", ON_SERVER | ON_TABLE, NULL},
	{"bypass_flows", ON_SERVER | ON_TABLE, NULL},
	{"suppress_duplicate_detection", ON_SERVER | ON_TABLE, NULL},
	{"tag", ON_SERVER | ON_TABLE, NULL},
	{"updatable", ON_SERVER | ON_TABLE, NULL},
	{"use_remote_estimate", ON_SERVER | ON_TABLE, NULL},

	/* what a foreign table is in Dataverse */
	{"table", ON_TABLE, NULL},
	{"entity_set", ON_TABLE, NULL},
	{"primary_id", ON_TABLE, NULL},
	{"table_type", ON_TABLE, NULL},
	{"upsert_key", ON_TABLE, NULL},
	{"partition_id", ON_TABLE, NULL},

	/* what a column is in Dataverse */
	{"column", ON_COLUMN, NULL},
	{"navigation", ON_COLUMN, NULL},
	{"target", ON_COLUMN, NULL},
	{"type", ON_COLUMN, NULL},
	{"ref_type_of", ON_COLUMN, NULL},
	{"label_of", ON_COLUMN, NULL},
	{"readonly", ON_COLUMN, NULL},

	/* application users */
	{"name", ON_USER | NUMBERED, NULL},
	{"client_id", ON_USER | NUMBERED, NULL},
	{"client_secret", ON_USER | NUMBERED, NULL},
	{"client_certificate", ON_USER | NUMBERED, NULL},
	{"client_key", ON_USER | NUMBERED, NULL},
	{"managed_identity", ON_USER | NUMBERED, NULL},
	{"access_token", ON_USER | NUMBERED, NULL},
	{"caller_id", ON_USER, NULL},
};

static const struct scope scopes[] = {
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
	if (number < 2 || number > MAX_APPLICATION_USERS)
		return strlen(name);
	return suffix - name;
}

/* The option of that name that may be set in one of these places, or NULL. */
static const struct dv_option *
find_option(const char *name, int places)
{
	size_t		base = base_length(name);

	for (size_t i = 0; i < lengthof(options); i++)
	{
		const struct dv_option *option = &options[i];

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
static const struct dv_option *
nearest_option(const char *name, int place)
{
	const struct dv_option *nearest = NULL;
	size_t		base = base_length(name);
	int			best;

	if (base == 0 || base >= NAMEDATALEN)
		return NULL;
	best = Min((int) base / 2, 4) + 1;
	for (size_t i = 0; i < lengthof(options); i++)
	{
		const struct dv_option *option = &options[i];
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
places_of(const struct dv_option *option)
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
	const struct dv_option *option;

	while (base > 0 && isdigit((unsigned char) name[base - 1]))
		base--;
	if (base < 2 || base == strlen(name) || name[base - 1] != '_')
		return false;
	option = find_option(pnstrdup(name, base - 1), place);
	return option != NULL && (option->flags & NUMBERED);
}

/* What to do about an option that does not exist in this place. */
static char *
hint_for(const char *name, const struct scope *scope)
{
	const struct dv_option *option;

	if ((option = find_option(name, ~NUMBERED)) != NULL)
		return psprintf("The option \"%s\" is set on %s.", name, places_of(option));
	if (is_misnumbered(name, scope->flag))
		return psprintf(
						"The first application user has no number, further ones are numbered from 2 to %d.",
						MAX_APPLICATION_USERS);
	if ((option = nearest_option(name, scope->flag)) != NULL)
		return psprintf("Perhaps you meant the option \"%s%s\".", option->name,
						(option->flags & NUMBERED) ? name + base_length(name) : "");
	return psprintf("Valid options for %s are: %s.", scope->place, names_of(scope->flag));
}

/* Raises the error about an option that does not exist in this place. */
static void
refuse_option(const char *name, const struct scope *scope)
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
 * Checks what CREATE or ALTER is about to store; "list" is the whole of the
 * options that the object will have.  Raises an error or returns.
 */
void
dv_options_validate(List *list, Oid catalog)
{
	const struct scope *scope = NULL;
	ListCell   *lc;

	for (size_t i = 0; i < lengthof(scopes); i++)
	{
		if (scopes[i].catalog == catalog)
			scope = &scopes[i];
	}

	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const struct dv_option *option = NULL;

		if (scope != NULL)
			option = find_option(def->defname, scope->flag);
		if (option == NULL)
			refuse_option(def->defname, scope);
		else if (option->check != NULL)
			option->check(def->defname, defGetString(def));
	}
}

/*
 * An address that secrets are sent to.  The value is not repeated: it may be a
 * URL with a password in it, and the message goes to the log.
 */
static void
check_url(const char *name, const char *value, bool path_allowed)
{
	static const char *const details[] = {
		[DV_URL_MALFORMED] = "It must be a URL that begins with https:// and a host name.",
		[DV_URL_NOT_HTTPS] = "It must begin with https://; http:// is accepted for this machine "
		"only (localhost, 127.0.0.1, [::1]).",
		[DV_URL_USERINFO] = "A user name or password cannot be part of it; secrets belong in the "
		"user mapping.",
		[DV_URL_QUERY] = "It cannot have a query (?) or a fragment (#).",
		[DV_URL_PATH] = "It must end after the host, as in https://contoso.crm.dynamics.com; the "
		"extension adds the path itself.",
	};
	enum dv_url_verdict verdict = dv_url_check(value, path_allowed);

	if (verdict != DV_URL_OK)
		ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
						errmsg("invalid value for option \"%s\"", name),
						errdetail("%s", details[verdict])));
}

static void
check_site(const char *name, const char *value)
{
	check_url(name, value, false);
}

static void
check_address(const char *name, const char *value)
{
	check_url(name, value, true);
}

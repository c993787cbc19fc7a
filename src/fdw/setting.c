/*
 * setting.c
 *		Settings, dataverse_fdw.NAME: those that override options, and others.
 *
 * A setting that overrides an option accepts the same values.  It is empty by
 * default; then the option of the table or the server applies.  The effect of a
 * setting depends on the role that has made it (rights.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/guc.h"
#include "utils/plancache.h"

#include "compat.h"
#include "fdw/setting.h"

bool		dv_dry_run = false;
bool		dv_summary = false;
bool		dv_capture = true;
static bool ids_made = false;

/*
 * The OID of the foreign table to which the settings of runs (dv_option_is_of_runs) apply, or
 * empty: all tables.
 */
static char *only_table = NULL;

static bool
check_setting(dv_option option, const char *value)
{
	const char *fault = value[0] != '\0' ? dv_option_fault(option, value) : NULL;

	if (fault != NULL)
		GUC_check_errdetail("%s", fault);
	return fault == NULL;
}

/* Invalidates plans, including those of functions, which sessions keep. */
static void
forget_plans(const char *old, const char *new)
{
	if (old == NULL || strcmp(old, new) != 0)
		ResetPlanCache();
}

/* Each setting has its own hooks, because a hook is not told which setting it is called for. */
#define DV_OPTION(...)
#define DV_SETTING(description, symbol, ...) \
	static char *setting_##symbol = NULL; \
	static bool \
	check_##symbol(char **newval, void **extra, GucSource source) \
	{ \
		return check_setting(DV_OPT_##symbol, *newval); \
	}
#define DV_PLAN_SETTING(description, symbol, ...) \
	DV_SETTING(description, symbol, __VA_ARGS__) \
	static void \
	assign_##symbol(const char *newval, void *extra) \
	{ \
		forget_plans(setting_##symbol, newval); \
	}
#include "fdw/option_list.h"

static const struct
{
	dv_option	option;
	const char *description;
	char	  **value;
	GucStringCheckHook check;
	GucStringAssignHook assign; /* or NULL */
}			settings[] =

{
#define DV_OPTION(...)
#define DV_SETTING(description, symbol, ...) \
	{DV_OPT_##symbol, description, &setting_##symbol, check_##symbol, NULL},
#define DV_PLAN_SETTING(description, symbol, ...) \
	{DV_OPT_##symbol, description, &setting_##symbol, check_##symbol, assign_##symbol},
#include "fdw/option_list.h"
};

void
dv_settings_init(void)
{
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		DefineCustomStringVariable(psprintf("dataverse_fdw.%s", dv_option_name(settings[i].option)),
								   settings[i].description,
								   "If empty, the option of the foreign table or the server applies.",
								   settings[i].value, "", PGC_USERSET, 0, settings[i].check,
								   settings[i].assign, NULL);
	DefineCustomBoolVariable("dataverse_fdw.dry_run",
							 "Encodes and counts rows that would be written without sending them.", NULL,
							 &dv_dry_run, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("dataverse_fdw.summary",
							 "Reports rows, batches, and requests at the end of each modification.", NULL,
							 &dv_summary, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("dataverse_fdw.capture",
							 "Captures changes of copies for which dataverse.track() was called.",
							 "It applies to the statements of the session, not to those of triggers.",
							 &dv_capture, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("dataverse_fdw.only_table",
							   "Sets the OID of the only foreign table to which settings of how rows are inserted apply.",
							   NULL, &only_table, "", PGC_USERSET,
							   GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomBoolVariable("dataverse_fdw.ids_made",
							 "Treats the ids of inserted rows as newly generated, so that no other row can have them.", NULL,
							 &ids_made, false, PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, NULL,
							 NULL);
}

static bool
is_for(Oid relid)
{
	return only_table == NULL || only_table[0] == '\0' || strtoul(only_table, NULL, 10) == relid;
}

static bool
is_in_force(int i, Oid relid)
{
	if (*settings[i].value == NULL || (*settings[i].value)[0] == '\0')
		return false;
	return is_for(relid) || !dv_option_is_of_runs(settings[i].option);
}

bool
dv_setting_ids_made(Oid relid)
{
	return ids_made && is_for(relid);
}

dv_options
dv_settings_over(dv_options options, Oid relid)
{
	List	   *given = NIL;
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		if (is_in_force(i, relid))
			given = lappend(given, makeDefElem(pstrdup(dv_option_name(settings[i].option)),
											   (Node *) makeString(pstrdup(*settings[i].value)),
											   -1));
	options.first = list_concat(given, options.first);
	return options;
}

List *
dv_settings_decisive(Oid relid)
{
	List	   *names = NIL;
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		if (!dv_option_is_speed(settings[i].option) && is_in_force(i, relid))
			names = lappend(names, unconstify(char *, dv_option_name(settings[i].option)));
	if (dv_dry_run)
		names = lappend(names, "dry_run");
	if (dv_setting_ids_made(relid))
		names = lappend(names, "ids_made");
	return names;
}

/*
 * PostgreSQL remembers the role that has made a setting, but records settings of ALTER
 * ROLE and ALTER DATABASE as made by a superuser.
 */
Oid
dv_setting_role(const char *name)
{
	const struct config_generic *setting = dv_guc_find(psprintf("dataverse_fdw.%s", name));

	switch (setting->source)
	{
		case PGC_S_GLOBAL:
		case PGC_S_DATABASE:
		case PGC_S_USER:
		case PGC_S_DATABASE_USER:
			return GetSessionUserId();
		default:
			return setting->srole;
	}
}
